"""GradScaler: what its scale is multiplied into, whose gradients it divides by it, and what reads them before."""

from __future__ import annotations

import ast

from tapecheck.interpret.library.contract import Modules, Torch
from tapecheck.interpret.library.states import OptimizerState, ScalerState, kept, state_of
from tapecheck.interpret.objects import syntax
from tapecheck.interpret.objects.unknowns import origins
from tapecheck.interpret.state import World
from tapecheck.interpret.values import (
    Args,
    Instance,
    Kind,
    Kwargs,
    Mark,
    Tensor,
    Unknown,
    Value,
    argument,
    known_elements,
    may_carry,
)
from tapecheck.source.nodes import walk, written_argument
from tapecheck.tape import Fact, GradientRead, Rescaled, Scaled, Unscaled, as_fact

_SIZES = frozenset((
    "abs", "amax", "amin", "clamp", "clamp_", "clamp_max_", "clamp_min_", "clip", "clip_", "max", "mean", "min", "norm",
    "pow", "square", "std", "var", "vector_norm",
))  # fmt: skip
"""Ops whose result hangs on how large a gradient is. A sum mostly serves to find what is not finite."""
_ADDING = frozenset(("add_", "sub_"))
_PASSING = frozenset(("clone", "detach", "flatten", "reshape", "view"))
_DEVICES = ("cpu", "cuda", "mps", "xpu")
_PLAIN = frozenset(("is_enabled", "scale", "step", "unscale_", "update"))
"""What a scaler has that leaves the scale with it."""
_FACTORS = frozenset(("div_", "mul_", "true_divide_", "multiply_", "divide_"))


def scale(modules: Modules, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """`scaler.scale(loss)`, or of several: the products with the scale."""
    value = argument(args, kwargs, 0, "outputs", Unknown("loss"))
    if may_carry(value):
        state = kept(owner, ScalerState)
        return scaled_by(modules.torch, value, state.scale, state.enabled, node)
    if known_elements(value) is not None:
        scaled = [scale(modules, owner, [item], {}, node) for item in modules.machine.elements(value, node)]
        return tuple(scaled) if isinstance(value, tuple) else modules.machine.new_list(scaled, node)
    return value


def scaled_by(torch: Torch, value: Value, factor: Value, enabled: Fact, node: ast.AST) -> Value:
    """Return the product of a loss with the scale of a scaler that is switched on, or may be."""
    product = torch.op("mul", [value, factor], {}, node)
    number = getattr(product, "node", None)
    if number is not None and enabled != "no":
        torch.world.modes.scaled = True
        torch.world.writer.emit(Scaled(torch.world.position.site(node), number, enabled))
    elif enabled != "no":
        # The product with a constant tells the scale.
        rescaled(torch.world, node)
    return product


def divided(world: World, optimizer: Value, node: ast.AST) -> None:
    """Note that a scaler has unscaled the gradients of an optimizer's parameters."""
    if world.modes.scaled:
        state, leaves = state_of(optimizer, OptimizerState), None
        if state is not None and state.complete == "yes":
            leaves = tuple(tensor.node for tensor in state.params if tensor.node is not None)
        world.writer.emit(Unscaled(world.position.site(node), leaves))


def rescaled(world: World, node: ast.AST) -> None:
    """Note that something else than a scaler may divide by the scale."""
    world.writer.emit(Rescaled(world.position.site(node)))


def asked(world: World, name: str, node: ast.AST) -> None:
    """Note that the program reads an attribute of a scaler: others than those of a usual step tell the scale."""
    if name not in _PLAIN:
        rescaled(world, node)


def hooked(torch: Torch, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """`register_module_full_backward_hook(hook)` and the like: a hook that the backwards of all modules run."""
    rescaled(torch.world, node)
    return Unknown.plain("handle")


def made(torch: Torch, place: int, args: Args, kwargs: Kwargs, node: ast.AST) -> Instance:
    """`GradScaler(...)` with the argument `enabled` at `place`, four places after the scale that it starts with."""
    truth = torch.machine.known_truth(args[place] if len(args) > place else kwargs.get("enabled", True))
    if truth is False and torch.world.modes.accelerators_asked and _asks_for_device(node):
        # The dry run has no GPU; who trains with a scaler may have one.
        truth = None
    result = Instance(None, "torch.amp.GradScaler")
    result.state = ScalerState(torch.world.graph.data("scale"), as_fact(truth))
    torch.world.modes.scaler = True
    more = isinstance(node, ast.Call) and any(keyword.arg is None for keyword in node.keywords)
    chosen = args[place - 4] if len(args) > place - 4 else kwargs.get("init_scale")
    if more or chosen is not None:
        alone = not more and isinstance(chosen, (int, float)) and chosen != 1 and _is_written(node, place - 4)
        torch.world.writer.emit(Rescaled(torch.world.position.site(node), chosen=alone))
    return result


def _is_written(node: ast.AST, place: int) -> bool:
    """Return whether the scale to start with is a number that nothing else in the program can name."""
    named = next((one.value for one in getattr(node, "keywords", ()) if one.arg == "init_scale"), None)
    written = named or written_argument(node, place)
    return written is not None and not any(
        isinstance(part, (ast.Name, ast.Attribute, ast.Call)) for part in walk(written)
    )


def _asks_for_device(node: ast.AST) -> bool:
    """Return whether the `enabled` of a call asks whether there is an accelerator, or whether it is the device."""
    written = next((one.value for one in getattr(node, "keywords", ()) if one.arg == "enabled"), None)
    if isinstance(written, ast.Compare):
        return any(isinstance(one, ast.Constant) and one.value in _DEVICES for one in walk(written))
    return written is not None and syntax.asks_for_accelerator(written)


def update(modules: Modules, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """`scaler.update()`, which may be given a new scale."""
    if args or kwargs:
        rescaled(modules.world, node)
    return None


def unscale(modules: Modules, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """`scaler.unscale_(optimizer)`: the gradients of its parameters are divided by the scale."""
    divided(modules.world, argument(args, kwargs, 0, "optimizer"), node)
    return None


def step(modules: Modules, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """`scaler.step(optimizer)`: unscales what was not, and steps where all is finite."""
    if not args:
        return None
    divided(modules.world, args[0], node)
    return modules.machine.call(modules.machine.get_attribute(args[0], "step", node), args[1:], kwargs, node)


def get_scale(modules: Modules, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """`scaler.get_scale()`: a number that remembers what it is."""
    return Unknown("GradScaler.get_scale()", None, (), Kind.SCALE)


def of_scale(value: Value) -> bool:
    """Whether a number was worked out from the scale of a scaler."""
    return any(one.kind is Kind.SCALE for one in origins(value))


def leaf_of(value: Value) -> Tensor | None:
    """Return the leaf that a value is the gradient of, a view or a copy of it included."""
    if not isinstance(value, Tensor) or not value.extra:
        return None
    leaf = value.noted_tensor(Mark.GRADIENT_OF) or value.noted_tensor(Mark.COPY_OF_GRADIENT)
    return leaf or leaf_of(value.noted(Mark.DATA_OF))


def used(torch: Torch, leaf: Tensor, name: str, args: Args, node: ast.AST) -> None:
    """Note what an op is about to make of a gradient."""
    short = name.rsplit(".", 1)[-1]
    if leaf.node is None:
        return
    if short in _FACTORS:
        torch.world.writer.emit(Unscaled(torch.world.position.site(node), (leaf.node,)))
    elif short in _SIZES or (short in _ADDING and all(map(_is_data, args[1:]))):
        torch.world.writer.emit(GradientRead(torch.world.position.site(node), leaf.node, short))


def passed_on(leaf: Tensor, name: str, result: Value) -> None:
    """Note that what an op made of a gradient is as large as that."""
    if name.rsplit(".", 1)[-1] in _PASSING and isinstance(result, Tensor):
        result.note(Mark.COPY_OF_GRADIENT, leaf)


def _is_data(value: Value) -> bool:
    """Whether a value is known to be no gradient, which would be scaled, too."""
    return isinstance(value, Tensor) and not value.cuts and leaf_of(value) is None
