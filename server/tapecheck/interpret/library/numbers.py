"""What a tensor without a graph holds, 0 or 1, which is the same in every type.

That are flags, such as `register_buffer("initialized", torch.tensor(0))`. It is known from where one is made, filled or
copied, until anything else changes the memory, or code that is not visible may have. Of what nobody knows, the same
question has the same answer as long.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence

from tapecheck.interpret import limits
from tapecheck.interpret.library.contract import Torch
from tapecheck.interpret.values import Args, Kwargs, List, Mark, Tensor, Value, behaviour, concrete, only_tensors
from tapecheck.torchfacts import OpFact

_COMPARED: dict[str, Callable[[int, int], bool]] = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
}  # fmt: skip
_Number = int | None
_SAME = frozenset(("clone", "detach", "contiguous"))
_TRUTHS = {"any": 0, "all": 1}
"""What is so of all elements is so of none as well: a tensor may be empty."""
_WRITES = frozenset(("fill_", "zero_", "copy_"))
OPS = frozenset((*_WRITES, *_COMPARED, *_SAME, *_TRUTHS, "logical_not"))
"""The ops that say which number their result holds, or the tensor that they change."""


def made(torch: Torch, result: Tensor, name: str, args: Args) -> None:
    """Note the number that each element of a new tensor has: torch.tensor(0), torch.zeros(1)."""
    match name:
        case "zeros" | "new_zeros":
            number: _Number = 0
        case "ones" | "new_ones":
            number = 1
        case "full" | "new_full":
            number = _number(torch, args[1]) if len(args) > 1 else None
        case "tensor" | "new_tensor":
            number = _number(torch, args[0]) if args else None
        case "as_tensor" | "asarray" | "from_numpy" | "frombuffer" | "from_dlpack":
            number = _number(torch, args[0]) if args else None
            if number is None and not only_tensors(args[:1]):
                # An array may change, with the tensor on its memory.
                result.storage.lend()
        case _:
            return
    torch.world.graph.holds(result.storage, number)


def taken_over(torch: Torch, data: Tensor, result: Tensor) -> None:
    """Note that a tensor has the memory of another one, with a version counter of its own, as a parameter does."""
    storage = torch.world.graph.storage_of(data.noted_tensor(Mark.DATA_OF) or data)
    number = storage.number()
    result.storage.lies_with(storage)
    torch.world.graph.holds(result.storage, number)


def handed_over(torch: Torch, values: Sequence[Value]) -> None:
    """Note that code which is not visible is called with values: it may keep the tensors in them, as buffers are."""
    queue, most = [*values], limits.MOST_GIVEN * limits.HELD_DEPTH
    seen = {*map(id, queue)}
    for value in queue:
        if len(seen) >= most:
            break
        inside = [one for one in behaviour(value).children() if id(one) not in seen]
        seen.update(map(id, inside))
        queue += inside
    for tensor in only_tensors(queue):
        torch.world.graph.storage_of(tensor.noted_tensor(Mark.DATA_OF) or tensor).hand_over()


def passed_by(torch: Torch, fact: OpFact, bound: Kwargs, result: Value) -> None:
    """Note what an op changes that counts no version, and the memory that its result has in common with an operand."""
    for tensor in only_tensors([bound.get(name) for name in fact.writing.writes_unversioned]):
        tensor.storage.forget()
    if fact.aliasing.unversioned_view_of in bound:
        for shared in torch.tensors((bound[fact.aliasing.unversioned_view_of], result)):
            torch.world.graph.storage_of(shared).lend()


def followed(torch: Torch, name: str, args: Args, kwargs: Kwargs, result: Value) -> None:
    """Note what an op makes of the number that a tensor holds; what it changes has been forgotten."""
    if kwargs or not args or type(result) is not Tensor:
        return
    numbers, graph = [_number(torch, arg) for arg in args], torch.world.graph
    if name in _WRITES:
        number = 0 if name == "zero_" else numbers[-1] if len(numbers) > 1 else None
        for written in (result, result.noted_tensor(Mark.DATA_OF) or result):
            graph.holds(written.storage, number)
    elif result.node is None and result is not args[0]:
        graph.holds(result.storage, _computed(name, args, numbers))


def _computed(name: str, args: Args, numbers: Sequence[_Number]) -> _Number:
    """Return what an op computes of some numbers."""
    number = numbers[0]
    if number is None:
        return None
    if name in _COMPARED:
        other = numbers[1] if len(numbers) > 1 else None
        return None if other is None else _COMPARED[name](number, other)
    if name == "logical_not":
        return not number
    sure = name in _SAME or number == _TRUTHS[name] or _is_one(args[0])
    return number if sure and len(args) == 1 else None


def stored(torch: Torch, owner: Tensor, index: Value, value: Value) -> None:
    """Note the number that all of a tensor is set to: `flag[...] = 1`, or the only element."""
    index = concrete(index)
    if index is Ellipsis or (index == 0 and type(index) is int and owner.length == 1):
        torch.world.graph.holds(owner.storage, _number(torch, value))


def _is_one(value: Value) -> bool:
    return type(value) is Tensor and (value.rank == 0 or value.length == 1)


def of(torch: Torch, tensor: Tensor) -> _Number:
    """Return the number that each element of a tensor is, None where nobody knows; a call that asks rests on it."""
    storage, reads = (tensor.noted_tensor(Mark.DATA_OF) or tensor).storage, torch.machine.reads
    number = storage.number()
    if reads is not None:
        known = storage.mapping()
        reads.append((known, "number", known.get("number")))
    return number


def _number(torch: Torch, value: Value) -> _Number:
    """Return the number that a value is, or that each element of a tensor or of a list of one is; None of any other."""
    value = concrete(value)
    if type(value) is Tensor:
        return of(torch, value)
    if type(value) is List and len(value.items) == 1:
        value = concrete(value.items[0])
    return int(value) if type(value) in (bool, int, float) and value in (0, 1) else None  # type: ignore[arg-type]
