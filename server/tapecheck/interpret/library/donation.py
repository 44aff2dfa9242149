"""Whether a compiled backward takes the memory of what its forward has saved.

torch.compile splits a forward and its backward so that what the backward needs is saved or computed anew. What is saved
and is neither given to the call nor handed out is donated. That hangs on sizes as well; something certainly is donated
where neither what the call was given nor what it hands out would do, as measured for each kind of node.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tapecheck.interpret import limits
from tapecheck.interpret.library.contract import Torch
from tapecheck.interpret.library.states import CompiledState
from tapecheck.interpret.values import INERT, Env, Function, Storage, Tensor, Unknown, Value, behaviour
from tapecheck.tape import Fact, Node, both
from tapecheck.torchfacts.donated import is_final, may_be_view, needs, saves_its_own


def donates(torch: Torch, state: CompiledState, given: Sequence[Value], first: int, memory: int, result: Value) -> Fact:
    """Return whether a compiled backward reuses memory; `first` and `memory` are the last node and storage before."""
    nodes = torch.world.writer.ledger.nodes
    roots = {value.node for value in torch.tensors(result) if value.node is not None}
    inside = list(_reached(nodes, roots, first))
    if not any(map(_may_donate, inside)):
        return "no"
    handed = _handed(torch, (result, state.model, *given), memory)
    if handed is None or not _certainly(nodes, inside, roots, first, memory, handed):
        return "no"
    return both(torch.world.modes.compiling.donates, "may" if state.cached else "yes")


def _may_donate(node: Node) -> bool:
    return bool(node.saved) or _saves_its_own(node)


def _saves_its_own(node: Node) -> bool:
    """Whether a node saves something beside what it is given and gives, as it need not for a bias alone."""
    if node.keeps != "yes" or not saves_its_own(node.op):
        return False
    kept = {one.of for one in node.saved if one.name != "result"}
    return len(node.inputs) > 1 or not kept or not kept.isdisjoint(node.inputs)


def _reached(nodes: dict[int, Node], roots: Iterable[int], first: int) -> Iterable[Node]:
    """Yield the nodes of a call that lead to what it returns: the backward of others is not compiled."""
    ahead, seen = list(roots), set(roots)
    while ahead:
        node = nodes.get(ahead.pop())
        if node is None or node.id <= first:
            continue
        yield node
        ahead += [number for number in node.inputs if number not in seen]
        seen.update(node.inputs)


def _certainly(
    nodes: dict[int, Node], inside: Iterable[Node], roots: Iterable[int], first: int, memory: int, handed: set[int]
) -> bool:
    """Whether something must be saved that the call was not given and does not hand out."""
    ahead: list[int] = []
    seen: set[int] = set()
    for node in inside:
        if _saves_its_own(node):
            return True
        for one in node.saved:
            origin = node.id if one.name == "result" else one.of
            if origin is not None and one.storage in handed:
                seen.add(origin)
            elif origin is not None and origin > first and one.fact == "yes" and one.storage > memory:
                if needs(node.op, one.name):
                    return True
                ahead.append(origin)
    return _leads_to_final(nodes, ahead, first, seen | _shared(nodes, roots, first))


def _leads_to_final(nodes: dict[int, Node], ahead: list[int], first: int, seen: set[int]) -> bool:
    """Whether any of some nodes that a call made, or of those that these come from, is one whose result is saved."""
    while ahead:
        made = nodes.get(ahead.pop())
        if made is None or made.id <= first or made.id in seen:
            continue
        if is_final(made.op):
            return True
        seen.add(made.id)
        ahead += made.inputs
    return False


def _shared(nodes: dict[int, Node], roots: Iterable[int], first: int) -> set[int]:
    """Return the nodes whose results are handed out, by way of views as well."""
    found = set(roots)
    ahead = list(roots)
    while ahead:
        node = nodes.get(ahead.pop())
        if node is not None and node.id > first and may_be_view(node.op):
            ahead += [number for number in node.inputs if number not in found]
            found.update(node.inputs)
    return found


def _handed(torch: Torch, known: Iterable[Value], memory: int) -> set[int] | None:
    """Return the memory that a call has made and that can be come to from values that others have, or from any module
    that runs; None where too much would have to be seen.
    """
    ahead: list[Value] = [*known, *(frame.module for frame in torch.world.position.frames)]
    found: set[int] = set()
    seen: set[int] = set()
    while ahead:
        value = ahead.pop()
        if type(value) in INERT or id(value) in seen:
            continue
        seen.add(id(value))
        if len(seen) > limits.MOST_HANDED:
            return None
        if isinstance(value, (Tensor, Unknown)):
            found.update(storage.id for storage in _memory_of(value) if storage.id > memory)
        if isinstance(value, Function):
            ahead += _namespaces(value)
        ahead += behaviour(value).reached()
    return found


def _namespaces(function: Function) -> Iterable[Value]:
    """Yield what a function can store its values in beside what it is given."""
    yield from function.attrs.values()
    env: Env | None = function.env
    while env is not None:
        yield from env.vars.values()
        env = env.parent


def _memory_of(value: Tensor | Unknown) -> tuple[Storage, ...]:
    return () if value.storage is None else (value.storage, *value.storage.perhaps)
