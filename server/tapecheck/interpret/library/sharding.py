"""FSDP2: `fully_shard` leaves each process a shard of the parameters, which only a forward or a backward makes whole.

Measured on torch 2.13 with two processes (`tools/torchlab/sharded_programs.py`): the forward of a sharded module
gathers its parameters, and gives them back unless it is the outermost one or was told not to; a backward through any
of them gives all of them back. In between an operation meets the shards, which do not mix with other tensors.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from tapecheck.interpret.library.contract import Modules, Torch
from tapecheck.interpret.library.states import ShardState, state_of
from tapecheck.interpret.values import (
    Args,
    Instance,
    Kwargs,
    Native,
    Tensor,
    Unknown,
    Value,
    argument,
    concrete,
    is_module,
    layer_of,
    only,
    only_tensors,
)
from tapecheck.tape import Backward, Fact, LeafEscape, ShardUse, StaleShards, SyncSet, Wrapper, WrapperCall
from tapecheck.tape.ledger import Traversal
from tapecheck.torchfacts import classes

CLASS = "torch.distributed.fsdp.FSDPModule"
"""The class that `fully_shard` puts in front of that of a module."""
_LEFT: dict[Fact, Fact] = {"yes": "no", "no": "yes", "may": "may"}
"""Whether a forward leaves parameters gathered, by whether it gives them back."""
_LAYERS = (
    "nn.functional.linear", "nn.functional.conv", "nn.functional.embedding", "nn.functional.bilinear", "addmm", "conv",
    "matmul", "mm", "bmm", "nn.functional.layer_norm", "nn.functional.rms_norm", "nn.functional.group_norm", "linear",
    "embedding",
)  # fmt: skip
"""Ops that run data through a weight: they refuse a shard beside a whole tensor."""
_SUMS = ("add", "sub", "rsub", "mul", "div", "true_divide", "add_")
"""Ops that take a number in a tensor beside shards: the sum is one of shards, and so is the gradient that it sends."""


def sharded(torch: Torch, given: list[Instance], args: Args, kwargs: Kwargs, node: ast.AST) -> None:
    """Note that `fully_shard` was given modules: what is not sharded yet in them is one group, gathered at once."""
    world = torch.world
    own: list[Tensor] = []
    for each in given:
        own += [one for _, one in torch.nn.named_parameters(each) if one.storage.id not in world.modes.wrapping.sharded]
    reshards = concrete(argument(args, kwargs, 2, "reshard_after_forward"))
    leaves = tuple(tensor.node for tensor in own if tensor.node is not None)
    world.modes.wrapping.wrappers += 1
    state = ShardState(world.modes.wrapping.wrappers, given[0], leaves, None if reshards is None else _switch(reshards))
    # Of several modules the first one to be called gathers for all.
    state.hidden = len(given) > 1
    for each in given:
        _give_state(torch, each, state)
    world.modes.wrapping.sharded.update(tensor.storage.id for tensor in own)
    torch.nn.shards.update((tensor.storage.id, state) for tensor in own)
    complete: Fact = "no" if any(torch.nn.open_ended(each) for each in given) else "yes"
    world.writer.emit(Wrapper(state.number, world.position.site(node), leaves, complete=complete, sharded=True))


def _give_state(torch: Torch, owner: Instance, state: ShardState) -> None:
    """Note that a module, and what is in it and not sharded yet, gathers its parameters as a state says."""
    for _, module in torch.nn.modules(owner):
        if module.state is None:
            module.state = state
        elif (inner := state_of(module, ShardState)) is not None and module is not owner:
            state.inner[inner.number] = inner
    owner.state = state


def _switch(value: Value) -> Fact:
    """Return what a switch is set to."""
    return "may" if isinstance(value, Unknown) else "no" if value is False else "yes"


def hooked(owner: Instance) -> ShardState | None:
    """Return what is kept of a module that gathers parameters when it is called."""
    state = state_of(owner, ShardState)
    return state if state is not None and state.module is owner else None


@contextmanager
def running(torch: Torch, state: ShardState, node: ast.AST) -> Iterator[list[Value]]:
    """Gather the parameters of a module around its forward, whose result is put into the list that this gives."""
    world = torch.world
    results: list[Value] = []
    _gather(torch, state, node)
    world.modes.wrapping.gathering += 1
    first = world.writer.last_id
    try:
        yield results
    finally:
        world.modes.wrapping.gathering -= 1
        state.gathered = _LEFT[state.reshards or "may"]
    outputs = only_tensors(torch.tensors(results[0])) if results else []
    roots = tuple(dict.fromkeys(value.node for value in outputs if value.node is not None))
    if world.writer.last_id != first:
        state.first = first if state.first is None else state.first
        state.last = world.writer.last_id
    world.writer.emit(WrapperCall(world.position.site(node), state.number, first, world.writer.last_id, roots))


def _gather(torch: Torch, state: ShardState, node: ast.AST) -> None:
    """Gather the parameters of a module that is about to run; raises where torch finds it too late for that."""
    world = torch.world
    if state.reshards is None:
        state.reshards = "yes" if world.modes.wrapping.gathering else "no"
    if state.first is None and any(inner.rooted for inner in state.inner.values()):
        world.writer.emit(ShardUse(world.position.site(node), None, None, "late"))
        torch.fail(node, "FSDP state has already been lazily initialized")
    state.rooted = not world.modes.wrapping.gathering
    for inner in state.inner.values():
        # Only the outermost module keeps what it has gathered.
        inner.reshards = inner.reshards or "yes"
    if state.gathered == "yes" and state.stepped is not None and state.since is not None:
        world.writer.emit(StaleShards(world.position.site(node), state.leaves, state.since, state.stepped))
    if state.gathered != "yes":
        state.gathered, state.since, state.stepped = "yes", world.position.site(node), None


def _states(torch: Torch) -> list[ShardState]:
    return list({state.number: state for state in torch.nn.shards.values()}.values())


def walked(torch: Torch, event: Backward, traversal: Traversal) -> None:
    """Let a backward give the parameters back that it walks through: all of a model at once."""
    states = _states(torch)
    executed = traversal.executed
    for state in states:
        inside = state.first is not None and any(state.first < number <= state.last for number in executed)
        if inside or not executed.keys().isdisjoint(state.leaves):
            for other in states:
                if other is state or other.number in state.inner or state.number in other.inner:
                    other.gathered, other.stepped = "may" if other.hidden else "no", None
    if any(root.graph == "may" or root.node is None for root in event.roots):
        unsure(states)


def unsure(states: Iterable[ShardState]) -> None:
    """Note that it is not known whether parameters are whole."""
    for state in states:
        state.gathered, state.stepped = "may", None


def given_away(torch: Torch, leaves: Iterable[int]) -> None:
    """Note that code which nobody can look into got parameters, or the model that has them."""
    given = set(leaves)
    unsure(state for state in _states(torch) if not given.isdisjoint(state.leaves))


def stepped(torch: Torch, params: Iterable[Tensor], node: ast.AST) -> None:
    """Note that an optimizer changes shards: what was gathered of them stays as it is."""
    for tensor in params:
        state = torch.nn.shards.get(tensor.storage.id)
        if state is not None and state.gathered == "yes" and tensor.grad is not None:
            state.stepped = torch.world.position.site(node)


def in_shards(torch: Torch, value: Value) -> bool:
    """Whether a tensor certainly is one of shards: a parameter that is not gathered, or computed of such alone."""
    if not isinstance(value, Tensor):
        return False
    state = torch.nn.shards.get(value.storage.id)
    if state is None:
        return value.storage.id in torch.world.modes.wrapping.of_shards
    return state.gathered == "no" and not state.hidden


def used(torch: Torch, name: str, every: list[Tensor | Unknown], result: Value, node: ast.AST) -> None:
    """Note what an op makes of tensors in shards; raises where torch refuses them beside others."""
    world = torch.world
    shards = [value for value in only(every, Tensor) if in_shards(torch, value)]
    if not shards or not isinstance(result, Tensor):
        return
    first = shards[0]
    leaf = world.modes.wrapping.of_shards.get(first.storage.id, first.node)
    others = [value for value in every if value not in shards]
    if others and _are_data(others):
        if _runs_through_weight(name) and every[0] in others and not _is_gradient(every[0]):
            world.writer.emit(ShardUse(world.position.site(node), leaf, None, "op"))
            torch.fail(node, "got mixed torch.Tensor and DTensor")
        elif name in _SUMS and result.node is not None and any(value.requires() == "yes" for value in others):
            world.writer.emit(ShardUse(world.position.site(node), leaf, result.node, "sum"))
    world.modes.wrapping.of_shards.setdefault(result.storage.id, leaf)


def _runs_through_weight(name: str) -> bool:
    """Whether an op is a layer: the facts of a module have the name of its class."""
    return name.startswith(_LAYERS) or name[:1].isupper()


def _are_data(values: Iterable[Tensor | Unknown]) -> bool:
    return all(isinstance(value, Tensor) and value.grad is None for value in values)


def _is_gradient(value: Tensor | Unknown) -> bool:
    return isinstance(value, Tensor) and not value.name and value.node is None and bool(value.cuts)


def asked(torch: Torch, wanted: Iterable[Value], event: Backward, node: ast.AST) -> None:
    """Note that `autograd.grad` is asked for the gradients of shards: the graph leads to what was gathered of them."""
    world = torch.world
    if not world.modes.wrapping.sharded or world.modes.wrapping.of_shards or event.allow_unused:
        return
    found = next((value for value in wanted if isinstance(value, Tensor) and in_shards(torch, value)), None)
    if found is not None and all(root.graph == "yes" for root in event.roots):
        world.writer.emit(ShardUse(world.position.site(node), found.node, None, "grad"))
        torch.fail(node, "One of the differentiated Tensors appears to not have been used in the graph")


# -- what a sharded model has ------------------------------------------------------------------------------------------


def method(modules: Modules, owner: Instance, name: str) -> Value:
    """Return a method that `fully_shard` adds to a module; None of any other."""
    # Of several modules that were given at once, each has the methods of all.
    state = state_of(owner, ShardState) if CLASS in layer_of(owner).added else None
    handler = _METHODS.get(name)
    if state is None or handler is None:
        return None
    return Native(name, lambda m, args, kwargs, at: handler(modules.torch, state, args, kwargs, at))


def _below(state: ShardState, kwargs: Kwargs) -> list[ShardState]:
    return [state, *state.inner.values()] if concrete(kwargs.get("recurse", True)) is not False else [state]


def _set_sync(torch: Torch, state: ShardState, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    known = concrete(argument(args, kwargs, 0, "requires_gradient_sync", True))
    on: Fact = _switch(known if isinstance(known, Unknown) else bool(known))
    leaves = tuple(leaf for each in _below(state, kwargs) for leaf in each.leaves)
    at = torch.world.position.site(node)
    torch.world.writer.emit(SyncSet(at, leaves, on))
    if on != "yes" and leaves:
        # What is not reduced is in no `.grad`, and is not cleared with it.
        torch.world.writer.emit(LeafEscape(at, leaves, "set_requires_gradient_sync", told=True))
    return None


def _reshard(torch: Torch, state: ShardState, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    state.gathered, state.stepped = "may" if state.hidden else "no", None
    return None


def _unshard(torch: Torch, state: ShardState, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    unsure([state])
    return Unknown("handle")


def _set_resharding(torch: Torch, state: ShardState, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    for each in _below(state, kwargs):
        each.hidden, each.reshards = True, "may"
    unsure(_below(state, kwargs))
    return None


_METHODS = {
    "set_requires_gradient_sync": _set_sync, "reshard": _reshard, "unshard": _unshard,
    "set_reshard_after_forward": _set_resharding, "set_reshard_after_backward": _set_resharding,
}  # fmt: skip


def adds(name: str) -> bool:
    """Whether a name is that of something that `fully_shard` adds to a module."""
    return classes.adds(CLASS, name)


def forward_method(torch: Torch, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """`register_fsdp_forward_method(module, name)`: a call of that method gathers parameters, too."""
    module = argument(args, kwargs, 0, "module")
    state = state_of(module, ShardState) if is_module(module) else None
    if state is not None:
        state.hidden = True
        unsure([state])
    return None


__all__ = [
    "CLASS", "adds", "asked", "forward_method", "given_away", "hooked", "in_shards", "method", "running", "sharded",
    "stepped", "unsure", "used", "walked",
]  # fmt: skip
