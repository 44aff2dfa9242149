"""Weights that are computed: for each use by weight_norm, spectral_norm and parametrizations of the user's, for each
forward under a mask.
"""

from __future__ import annotations

import ast
from collections.abc import Callable

from tapecheck.interpret.library.contract import Torch
from tapecheck.interpret.values import (
    Args,
    Instance,
    Kwargs,
    Native,
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
    """Put what is left of a parameter under a mask in its place: `prune.identity(module, name)`."""
    owner = argument(args, kwargs, 0, "module")
    _prune(torch, owner, argument(args, kwargs, 1, "name"), node)
    return owner


def prune_all(torch: Torch, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """The same for several: `prune.global_unstructured([(module, name), ...], method)`."""
    for pair in known_elements(argument(args, kwargs, 0, "parameters")) or ():
        owner, name = [*listed(pair), None, None][:2]
        _prune(torch, owner, name, node)
    return None


_PRUNED = "pruned "
"""What the hook is called that computes a pruned parameter; its name comes behind it."""


def _prune(torch: Torch, owner: Value, name: Value, node: ast.AST) -> None:
    """Put the product of a parameter and a mask in its place, and again before each forward of its module."""
    key = known_text(name)
    if not is_module(owner) or key is None:
        return
    original = owner.attrs.get(key)
    if isinstance(original, Tensor) and original.parameter:
        owner.attrs[f"{key}_orig"] = original
        layer_of(owner).buffers.add(f"{key}_mask")
        hook = Native(f"{_PRUNED}{key}", lambda m, args, kwargs, at: _mask(torch, args[0], key, at))
        owner.hooks.append(("before", hook))
    if f"{key}_orig" in owner.attrs:
        owner.attrs[f"{key}_mask"] = torch.world.graph.data(f"{key}_mask")
        # It is computed when something reads it: nobody would call the graph of each of many parts a waste.
        owner.attrs.pop(key, None)


def masked(torch: Torch, owner: Instance, key: str, node: ast.AST) -> Value:
    """Return what a pruned parameter is before the first forward; None of what is not pruned."""
    if not {f"{key}_orig", f"{key}_mask"} <= owner.attrs.keys():
        return None
    _mask(torch, owner, key, node)
    return owner.attrs[key]


def _mask(torch: Torch, owner: Value, key: str, node: ast.AST) -> None:
    """Compute a pruned parameter anew."""
    own = attrs_of(owner)
    own[key] = torch.op("mul", [own.get(f"{key}_orig"), own.get(f"{key}_mask")], {}, node)


def unprune(torch: Torch, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Make a pruned parameter one of its own again: `prune.remove(module, name)`."""
    owner, key = argument(args, kwargs, 0, "module"), known_text(argument(args, kwargs, 1, "name"))
    if not is_module(owner) or key is None or f"{key}_orig" not in owner.attrs:
        return owner
    owner.hooks[:] = [one for one in owner.hooks if getattr(one[1], "name", "") != f"{_PRUNED}{key}"]
    owner.attrs[key] = owner.attrs.pop(f"{key}_orig")
    owner.attrs.pop(f"{key}_mask", None)
    layer_of(owner).buffers.discard(f"{key}_mask")
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
        given = [holder.attrs[key] for key in ("original", "original0", "original1") if key in holder.attrs]
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
