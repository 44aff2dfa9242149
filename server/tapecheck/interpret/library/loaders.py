"""torch.utils.data: what loaders and datasets give is new in each iteration, and has no graph."""

from __future__ import annotations

import ast

from tapecheck.interpret import limits
from tapecheck.interpret.library.contract import Torch
from tapecheck.interpret.library.states import DatasetState, LoaderState, kept, state_of
from tapecheck.interpret.objects.carry import has_graph
from tapecheck.interpret.values import (
    Args,
    Instance,
    Kwargs,
    Stream,
    Tensor,
    Unknown,
    Value,
    argument,
    behaviour,
    bound_length,
)


def dataset(torch: Torch, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Return a `TensorDataset(*tensors)`."""
    made = Instance(None, "torch.utils.data.TensorDataset")
    made.state = DatasetState(args)
    return made


def loader(torch: Torch, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Return a `DataLoader(dataset, batch_size)`."""
    made = Instance(None, "torch.utils.data.DataLoader")
    dataset = argument(args, kwargs, 0, "dataset")
    made.state = LoaderState(dataset)
    made.attrs["dataset"] = dataset
    made.attrs["batch_size"] = argument(args, kwargs, 1, "batch_size", 1)
    return made


def item(torch: Torch, owner: Instance) -> Value:
    """Return an element of a dataset; None of what is none."""
    state = state_of(owner, DatasetState)
    return None if state is None else tuple(torch.world.graph.data() for _ in state.tensors)


def stream(torch: Torch, owner: Instance, node: ast.AST) -> Stream | None:
    """Return what is iterated of a loader or dataset; None of what is neither."""
    if state_of(owner, LoaderState) is not None:
        return Stream(lambda: _batches(owner), lambda index: _batch(torch, owner, node))
    state = state_of(owner, DatasetState)
    return None if state is None else Stream(lambda: None, lambda index: _batch_of(torch, state, node))


def _batches(owner: Instance) -> int | None:
    """How many batches a loader has: nobody knows, but who has asked for it has to find the loop agree."""
    state = kept(owner, LoaderState)
    state.iterated = True
    return bound_length(owner.length, limits.BATCHES_BOUND) if owner.length is not None else None


def _batch(torch: Torch, owner: Instance, node: ast.AST) -> Value:
    state = kept(owner, LoaderState)
    dataset = state.dataset
    if (given := state_of(dataset, DatasetState)) is not None:
        return _batch_of(torch, given, node)
    getter = torch.machine.find_method(dataset, "__getitem__") if isinstance(dataset, Instance) else None
    if getter is not None:
        with_grad = list(torch.world.modes.grad_modes)
        sample = torch.machine.call(getter, [Unknown.whole("index")], {}, node)
        torch.world.modes.grad_modes[:] = with_grad
        return _collated(torch, sample, node)
    result = Unknown("batch")
    result.data = True
    return result


def _batch_of(torch: Torch, state: DatasetState, node: ast.AST) -> Value:
    """Return a batch of a `TensorDataset`, whose samples are indexed out of its tensors."""
    return tuple(
        _stacked(torch, torch.op("getitem.int", [value, 0], {}, node), node)
        if has_graph(value)
        else torch.world.graph.data(value.name, dtype=value.dtype)
        if isinstance(value, Tensor)
        else torch.world.graph.data()
        for value in state.tensors
    )


def _stacked(torch: Torch, sample: Value, node: ast.AST) -> Value:
    return torch.op("stack", [torch.machine.new_list([sample], node)], {}, node)


def _collated(torch: Torch, sample: Value, node: ast.AST) -> Value:
    """Return a batch as the default collate function makes it: new tensors, with the graph of samples that have one."""
    made = behaviour(sample).mapped(lambda item: _collated(torch, item, node), 0)
    if made is not None:
        return made
    if has_graph(sample):
        return _stacked(torch, sample, node)
    if isinstance(sample, (Tensor, int, float)):
        return torch.world.graph.data(dtype=getattr(sample, "dtype", "float"))
    result = Unknown("batch")
    result.data = True
    return result
