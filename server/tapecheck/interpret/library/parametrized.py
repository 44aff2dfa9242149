"""Weights that are computed anew for each use: weight_norm, spectral_norm, pruned ones, the user's parametrizations."""

from __future__ import annotations

import ast
from collections.abc import Callable

from tapecheck.interpret.library.contract import Torch
from tapecheck.interpret.values import (
    Args,
    Instance,
    Kwargs,
    Tensor,
    Value,
    argument,
    attrs_of,
    concrete,
    is_module,
    known_elements,
    known_text,
    layer_of,
    listed,
    positional,
)

WEIGHT_NORM = "nn.utils.weight_norm"
"""The op that has two parameters in the place of one: how long the weight is, and where it points."""


def by(how: str) -> Callable[[Torch, Args, Kwargs, ast.AST], Value]:
    """Return the function that has a weight computed by an op."""

    def make(torch: Torch, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        name = known_text(argument(args, kwargs, 1, "name", "weight"))
        return _parametrize(torch, args[0], name or "weight", how, node)

    return make


def prune(torch: Torch, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Have a weight computed as what is left of a parameter under a mask: `prune.identity(module, name)`."""
    return _prune(torch, argument(args, kwargs, 0, "module"), argument(args, kwargs, 1, "name"), node)


def prune_all(torch: Torch, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """The same for several: `prune.global_unstructured([(module, name), ...], method)`."""
    for pair in known_elements(argument(args, kwargs, 0, "parameters")) or ():
        owner, name = [*listed(pair), None, None][:2]
        _prune(torch, owner, name, node)
    return None


def _prune(torch: Torch, owner: Value, name: Value, node: ast.AST) -> Value:
    key = known_text(name)
    if not is_module(owner) or key is None or key not in owner.attrs:
        return owner
    original = owner.attrs[key]
    _parametrize(torch, owner, key, "mul", node)
    holder = _holders(owner).get(key)
    if isinstance(holder, Instance):
        holder.attrs["mask"] = owner.attrs[f"{key}_mask"] = torch.world.graph.data(f"{key}_mask")
        layer_of(owner).buffers.add(f"{key}_mask")
        owner.attrs[f"{key}_orig"] = original
    return owner


def register(torch: Torch, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Have a weight computed by a module: `register_parametrization(module, tensor_name, parametrization)`."""
    given = {**dict(zip(("module", "tensor_name", "parametrization"), args)), **kwargs}
    name = concrete(given.get("tensor_name"))
    return _parametrize(torch, given.get("module"), str(name), given.get("parametrization"), node)


def remove(torch: Torch, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Make a computed weight a parameter of its own again."""
    owner = positional(args, 0)
    name = str(concrete(argument(args, kwargs, 1, "name", kwargs.get("tensor_name", "weight"))))
    if not is_module(owner):
        return owner
    layer = layer_of(owner)
    if name in layer.parametrized:
        holder = _holders(owner).pop(name)
        for left in (f"{name}_orig", f"{name}_mask"):
            owner.attrs.pop(left, None)
        layer.parametrized = {key: how for key, how in layer.parametrized.items() if key != name}
        if not layer.parametrized:
            del owner.attrs["parametrizations"]
        if isinstance(holder, Instance):
            owner.attrs[name] = holder.attrs.get("original", holder.attrs.get("original1"))
    return owner


def weight(torch: Torch, owner: Instance, name: str, node: ast.AST) -> Value:
    """Return a computed weight as a forward sees it."""
    how = layer_of(owner).parametrized[name]
    holder = _holders(owner).get(name)
    if not isinstance(holder, Instance):
        # The program has taken away what computes it.
        return torch.machine.unknown(name)
    if isinstance(how, str):
        given = [holder.attrs[key] for key in ("original", "original0", "original1", "mask") if key in holder.attrs]
        return torch.op(how, given, {}, node)
    return torch.machine.call(holder.attrs.get("0", how), [holder.attrs["original"]], {}, node)


def _holders(owner: Instance) -> dict[str, Value]:
    """Return what computes the weights of a module, by their names."""
    return attrs_of(owner.attrs.get("parametrizations"))


def _parametrize(torch: Torch, owner: Value, name: str, how: Value, node: ast.AST) -> Value:
    """Have a parameter computed for each use: `how` is an op's name or a module of the user's."""
    if not is_module(owner):
        return owner
    layer = layer_of(owner)
    original = owner.attrs.pop(name, None)
    if not isinstance(original, Tensor):
        return owner
    home = owner.attrs.get("parametrizations")
    if not isinstance(home, Instance):
        home = owner.attrs["parametrizations"] = _container("ModuleDict")
    holder = home.attrs[name] = _container("ModuleList")
    if how == WEIGHT_NORM:
        holder.attrs["original0"], holder.attrs["original1"] = _magnitude(torch, node), original
    else:
        holder.attrs["original"] = original
        if isinstance(how, Instance):
            holder.attrs["0"] = how
    # A deep copy shares this: the parameters themselves are found by the attributes, which it has of its own.
    layer.parametrized = {**layer.parametrized, name: how}
    return owner


def _container(name: str) -> Instance:
    made = Instance(None, f"torch.nn.{name}", module=True)
    assert made.layer is not None
    made.layer.container = name
    return made


def _magnitude(torch: Torch, node: ast.AST) -> Tensor:
    magnitude = torch.world.graph.data("original0")
    magnitude.parameter = True
    return torch.world.graph.make_leaf(magnitude, node, "original0", parameter=True)
