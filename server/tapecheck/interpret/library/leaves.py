"""Leaves that unknown code gets hold of, with their model or optimizer: what it does to their gradients is not seen."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from tapecheck.interpret import limits
from tapecheck.interpret.library import scalers, sharding
from tapecheck.interpret.library.contract import Torch
from tapecheck.interpret.library.states import OptimizerState, ScalerState, state_of
from tapecheck.interpret.objects import carry, syntax
from tapecheck.interpret.values import (
    Function,
    Instance,
    Native,
    Tensor,
    Unknown,
    Value,
    behaviour,
    is_function,
    is_module,
    on_graph,
)
from tapecheck.tape import LeafEscape, both

LOOKING = (
    "absl.logging.", "aim.", "clearml.", "comet_ml.", "dvclive.", "fvcore.nn.", "json.", "logging.", "loguru.",
    "mlflow.", "neptune.", "numpy.", "os.", "pickle.", "ptflops.", "swanlab.", "sys.", "tensorboard_logger.",
    "tensorboardX.", "thop.", "time.", "torch.utils.tensorboard.", "torcheval.", "torchinfo.", "torchsummary.",
    "torchviz.", "visdom.", "wandb.",
)  # fmt: skip
"""Libraries that look at a model, at what it computes, or store it, and leave its gradients as they are."""
SETTINGS = (
    "addict.", "attrdict.", "box.", "configargparse.", "configobj.", "dotenv.", "dotmap.", "easydict.", "hjson.",
    "ml_collections.", "munch.", "omegaconf.", "pyhocon.", "ruamel.yaml.", "toml.", "tomli.", "tomlkit.", "yacs.",
)  # fmt: skip
"""Libraries of settings: they hold what they were given, or what a file says."""
SCHEDULING = (
    "cosine_annealing_warmup.", "diffusers.get_", "diffusers.optimization.", "pytorch_warmup.", "timm.scheduler.",
    "torch.optim.lr_scheduler.", "transformers.get_", "transformers.optimization.get_", "warmup_scheduler.",
)  # fmt: skip
"""Libraries of schedulers: they have the optimizer for its learning rates."""


_BARS = frozenset((
    "clear", "close", "display", "refresh", "reset", "set_description", "set_description_str", "set_postfix",
    "set_postfix_str", "unpause", "update", "write",
))  # fmt: skip
"""What a progress bar has beside that it is gone over."""


def only_looks(torch: Torch, function: Unknown) -> bool:
    """Return whether a method is known by the path of its object to show, write or store what it is given alone.

    `writer.add_scalar` is where `writer` is one of tensorboard's: of one that was handed in nobody knows.
    """
    if function.part_of.owner is None:
        return False
    if function.part_of.attr in _BARS and id(function.part_of.owner) in torch.world.knowledge.bars:
        return True
    return _root(function).name.startswith(LOOKING)


def _root(function: Unknown) -> Unknown:
    while function.part_of.owner is not None:
        function = function.part_of.owner
    return function


def escape(
    torch: Torch,
    values: Iterable[Value],
    node: ast.AST,
    to: str,
    function: Unknown | None = None,
    *,
    told: bool = False,
) -> tuple[int, ...]:
    """Note that unknown code was given values, as far as there are leaves in them; return those.

    `to` is its dotted path, that of `function`: what a function is called by itself says nothing of what it does.
    `told` says that what it does with them is followed.
    """
    world = torch.world
    path = to if function is None else _root(function).name
    if path.startswith((*LOOKING, *SCHEDULING)):
        return ()
    values = list(values)
    world.graph.unsettle()
    for value in values:
        if (scaler := state_of(value, ScalerState)) is not None:
            # It may be switched off there.
            scaler.enabled = both("may", scaler.enabled)
    scaling_escapes(torch, values, node, (ScalerState,))
    if not world.graph.leaf_tensors:
        return ()
    found: dict[int, None] = {}
    for value in values:
        # A parameter by itself is an operand: what unknown ops make of it has a graph. Of another leaf the gradient may
        # be what is wanted.
        if not isinstance(value, Tensor) or (value.is_leaf and not value.parameter) or _gradient_of(value) is not None:
            found.update(dict.fromkeys(_leaves_in(torch, value, limits.ESCAPE_DEPTH, set())))
    if found:
        torch.autograd.escaped.update(found)
        if not told:
            torch.autograd.left_to(found, node)
        if world.modes.wrapping.sharded and not told:
            sharding.given_away(torch, found)
        world.writer.emit(LeafEscape(world.position.site(node), tuple(found), to, told))
    return tuple(found)


def within(torch: Torch, value: Value) -> tuple[int, ...]:
    """Return the leaves, and the ends of graphs, that whoever has a value can come to."""
    return tuple(dict.fromkeys(_leaves_in(torch, value, limits.ESCAPE_DEPTH, set(), graphs=True)))


def held(torch: Torch, function: Unknown, node: ast.AST) -> None:
    """Note that unknown code which was made from leaves is called: it may do with them what it could do then.

    What has parameters of its own is a model, and a call of it a forward pass.
    """
    root = _root(function)
    if root.kept.leaves and function.kept.leaf is None:
        torch.autograd.left_to(root.kept.leaves, node)
        torch.world.writer.emit(
            LeafEscape(torch.world.position.site(node), root.kept.leaves, function.part_of.attr or function.name)
        )


def cleared_elsewhere(torch: Torch, owner: Unknown, node: ast.AST) -> None:
    """`zero_grad` of an unknown model or optimizer."""
    if owner.kept.leaf is not None:
        torch.autograd.clear(owner.kept.leaf, node, "yes")
    elif torch.world.graph.leaf_tensors:
        torch.autograd.left_to(torch.world.graph.leaf_tensors, node)
        torch.world.writer.emit(LeafEscape(torch.world.position.site(node), (), owner.name))


def _leaves_in(torch: Torch, value: Value, depth: int, seen: set[int], *, graphs: bool = False) -> Iterator[int]:
    if graphs and on_graph(value) and value.node is not None:
        yield value.node
    if isinstance(value, Tensor):
        leaf = value if value.is_leaf else _gradient_of(value)
        if leaf is not None and leaf.node is not None:
            yield leaf.node
        return
    if depth == 0 or id(value) in seen:
        return
    seen.add(id(value))
    below = depth if is_module(value) else depth - 1
    for one in list(_inner(value)):
        yield from _leaves_in(torch, one, below, seen, graphs=graphs)


def _inner(value: Value) -> Iterable[Value]:
    """Return what whoever has a value can come to next."""
    if isinstance(value, Instance):
        optimizer = state_of(value, OptimizerState)
        return value.attrs.values() if optimizer is None else (*value.attrs.values(), *optimizer.params)
    return _behind(value)


def _behind(value: Value) -> Iterable[Value]:
    """Return what whoever has a value can come to; by a function also what the names mean that it reads."""
    reached = behaviour(value).reached()
    if isinstance(value, Function):
        env, names = value.env, value.module.notes.of(value.node, syntax.free_names)
        return (*reached, *((env.scope_of(name) or env.globals).vars.get(name) for name in names))
    return reached


def graphs_behind(function: Value, depth: int) -> list[Tensor | Unknown]:
    """Return the graphs that whoever calls a function can walk."""
    found: list[Tensor | Unknown] = []
    for one in _behind(function) if depth > 0 else ():
        if is_function(one) or isinstance(one, Native):
            found += graphs_behind(one, depth - 1)
        elif not carry.is_leaf(one):
            found += carry.tensors_in(one)
    return found


def scaling_escapes(torch: Torch, values: Iterable[Value], node: ast.AST, kinds: tuple[type, ...]) -> None:
    """Note that unknown code comes to objects of some kinds in programs with a gradient scaler."""
    if torch.world.modes.scaler:
        seen: set[int] = set()
        if any(_leads_to(value, kinds, limits.ESCAPE_DEPTH, seen) for value in values):
            scalers.rescaled(torch.world, node)


def _leads_to(value: Value, kinds: tuple[type, ...], depth: int, seen: set[int]) -> bool:
    if isinstance(getattr(value, "state", None), kinds):
        return True
    if depth == 0 or id(value) in seen:
        return False
    seen.add(id(value))
    return any(_leads_to(one, kinds, depth - 1, seen) for one in list(_inner(value)))


def _gradient_of(value: Tensor) -> Tensor | None:
    """Return the leaf that a tensor is the gradient of: who has the gradient may clear it in place."""
    leaf = value.gradient_of()
    return leaf if leaf is not None and leaf.is_leaf else None
