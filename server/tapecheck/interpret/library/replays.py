"""CUDA graphs: what a compiled call returns lies in memory that the next such call takes.

As torch 2.13's `_inductor/cudagraph_trees.py` has it, and as it was measured on a GPU (docs/wrappers.md): a call begins
a new generation unless a forward waits for its backward, and where the program marks steps itself it begins one after
a mark. Outputs and gradients of an earlier generation are overwritten then. Gradients that are added up outside of the
call, and those that the program has made itself, lie elsewhere.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from tapecheck.interpret.library.contract import Torch
from tapecheck.interpret.library.states import CompiledState
from tapecheck.interpret.state import World
from tapecheck.interpret.state.compiling import Replays
from tapecheck.interpret.values import Args, Dict, Kwargs, Mark, Tensor, Unknown, Value, concrete, only, only_tensors
from tapecheck.tape import Overwritten, Site
from tapecheck.tape.ledger import Traversal

_MODES = ("reduce-overhead", "max-autotune")
_OPTION = "triton.cudagraphs"
_COPIES = ("cpu", "to", "cuda", "type", "float", "double", "half", "bfloat16", "contiguous", "pin_memory", "reshape")
"""Methods that may copy, where the dry run goes on with the same tensor."""
_NUMBERS = ("item", "tolist", "numpy", "__float__", "__int__", "__array__")


def asked_for(options: Kwargs) -> bool:
    """Whether the options of `torch.compile` ask for CUDA graphs."""
    chosen = options.get("options")
    listed = isinstance(chosen, Dict) and concrete(chosen.items.get(_OPTION)) is True
    return listed or concrete(options.get("mode")) in _MODES or concrete(options.get("backend")) == "cudagraphs"


@contextmanager
def running(torch: Torch, state: CompiledState, given: Sequence[Value], node: ast.AST) -> Iterator[list[Value]]:
    """Run a compiled call, whose result is put into the list that this gives, in CUDA graphs where it asks for them."""
    world = torch.world
    results: list[Value] = []
    on_host = any(value.noted(Mark.ON_HOST) for value in only_tensors(torch.tensors(tuple(given))))
    before = world.modes.compiling.replays
    if not state.replayed or on_host or (before is not None and before.running):
        yield results
        return
    replays = world.modes.compiling.replays = before or Replays()
    _begin(replays, world.position.site(node))
    if not state.broken:
        # It takes the memory of what it is given from an earlier call before it reads that.
        read(world, torch.tensors(tuple(given)), node)
    first, storages = world.writer.last_id, world.writer.last_storage
    replays.running = True
    try:
        yield results
    finally:
        replays.running = False
    if state.broken:
        # What runs between its parts lies elsewhere, and nothing is known of what waits.
        replays.outputs.clear()
        replays.gradients.clear()
        replays.pending = True
        return
    outputs = [value for value in only_tensors(torch.tensors(results[0])) if value.storage.id > storages]
    replays.outputs.update((value.storage.id, (world.position.site(node), len(replays.began))) for value in outputs)
    if any(value.graph == "yes" for value in outputs):
        replays.pending = True
        replays.calls.add(first)


def _begin(replays: Replays, site: Site) -> None:
    """Begin a generation with a call, unless something says that it belongs to the last one."""
    if not replays.began or (replays.marked if replays.marks else not replays.pending):
        replays.began.append(site)
    replays.marked = False


def mark(torch: Torch, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """`torch.compiler.cudagraph_mark_step_begin()`."""
    replays = torch.world.modes.compiling.replays = torch.world.modes.compiling.replays or Replays()
    replays.marks = replays.marked = True
    return None


def read(world: World, values: Iterable[Tensor | Unknown], node: ast.AST) -> None:
    """Note that an operation reads tensors."""
    replays = world.modes.compiling.replays
    if replays is None or replays.running:
        return
    for value in only(list(values), Tensor):
        call, generation = replays.outputs.get(value.storage.id, (None, 0))
        if call is not None and generation < len(replays.began):
            by = replays.began[generation]
            world.writer.emit(Overwritten(world.position.site(node), "output", call, by, name=value.name))
            # It raises there: what is read of it later is the same mistake.
            del replays.outputs[value.storage.id]


def asked(world: World, owner: Tensor, name: str, node: ast.AST) -> None:
    """Note that a method of a tensor is called, for what is no operation."""
    if name in _NUMBERS:
        read(world, [owner], node)
    elif name in _COPIES and world.modes.compiling.replays is not None:
        world.modes.compiling.replays.outputs.pop(owner.storage.id, None)


# -- gradients --------------------------------------------------------------------------------------------------------


def walked(world: World, traversal: Traversal) -> None:
    """Note that a backward has walked what a call built: it waits no longer."""
    replays = world.modes.compiling.replays
    if replays is not None and replays.pending:
        regions = world.writer.ledger.regions
        replays.pending = not any(
            number in regions and regions[number].call.first in replays.calls for number in traversal.executed
        )


def summed(world: World, leaves: Mapping[int, Tensor], traversal: Traversal) -> set[int]:
    """Return the leaves without a gradient whose gradient a backward takes out of CUDA graphs as it is.

    What it adds to a gradient of theirs which a later call has overwritten is noted.
    """
    replays = world.modes.compiling.replays
    if replays is None or not replays.calls:
        return set()
    users = _users(world, replays, traversal)
    from_graphs = {number for number in leaves if -1 not in users.get(number, {-1}) and len(users[number]) == 1}
    for number, tensor in leaves.items():
        gradient, by, generation = replays.gradients.get(number, (None, None, 0))
        if by is not None and gradient is tensor.grad and generation != len(replays.began):
            at, name = traversal.backward.at, tensor.name
            world.writer.emit(Overwritten(at, "gradient", by, replays.began[generation], number, name))
            break
    averaged = world.modes.wrapping.averaged
    elsewhere = {number for number in leaves if leaves[number].storage.id in averaged}
    return {number for number in from_graphs - elsewhere if leaves[number].grad is None}


def _users(world: World, replays: Replays, traversal: Traversal) -> dict[int, set[int]]:
    """Return which calls in CUDA graphs use each node and leaf that a backward comes to, -1 for what is in none."""
    ledger = world.writer.ledger
    users: dict[int, set[int]] = {}
    for number in traversal.executed:
        region = ledger.regions.get(number)
        call = region.call.first if region is not None and region.call.first in replays.calls else -1
        for source in ledger.nodes[number].inputs if number in ledger.nodes else ():
            users.setdefault(source, set()).add(call)
    return users


def given(world: World, leaves: Mapping[int, Tensor], had_none: set[int], at: Site) -> None:
    """Note which gradients lie in the memory of CUDA graphs."""
    replays = world.modes.compiling.replays
    if replays is not None:
        generation = len(replays.began)
        replays.gradients.update((number, (leaves[number].grad, at, generation)) for number in had_none)


__all__ = ["asked", "asked_for", "given", "mark", "read", "running", "summed", "walked"]
