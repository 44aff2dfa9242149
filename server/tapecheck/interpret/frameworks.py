"""Objects of torch and of the frameworks around it: what their methods do to graphs."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING

from tapecheck.interpret import builtin
from tapecheck.interpret.values import Args, Context, Instance, Kwargs, Tensor, Unknown, Value

if TYPE_CHECKING:
    from tapecheck.interpret.nnlib import Modules

Handler = Callable[["Modules", Instance, Args, Kwargs, ast.AST], Value]


def _scale(modules: Modules, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    value = args[0] if args else Unknown("loss")
    if isinstance(value, (Tensor, Unknown)):
        return modules.machine.torch.op("mul", [value, owner.facts["scale"]], {}, node)
    return value


def _scaler_step(modules: Modules, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    if args:
        return modules.machine.call(modules.machine.get_attribute(args[0], "step", node), args[1:], kwargs, node)
    return None


def _ignore(modules: Modules, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return Unknown("result")


def _prepare(modules: Modules, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return args[0] if len(args) == 1 else tuple(args)


def _accelerator_backward(modules: Modules, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return modules.machine.torch.autograd.backward_method(args[0], args[1:], kwargs, node)


def _same(modules: Modules, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return args[0] if args else Unknown("result")


def _context(modules: Modules, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return Context(lambda machine: None, lambda machine, raised: None)


def _remove(modules: Modules, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    module, entry = owner.facts["remove"]
    if entry in module.hooks:
        module.hooks.remove(entry)
    return None


def _length(modules: Modules, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return builtin.length_of(owner)


OBJECTS: dict[str, dict[str, Handler]] = {
    "torch.amp.GradScaler": {
        "scale": _scale, "step": _scaler_step, "update": _ignore, "unscale_": _ignore, "get_scale": _ignore,
        "state_dict": _ignore, "load_state_dict": _ignore, "is_enabled": _ignore,
    },
    "accelerate.Accelerator": {
        "prepare": _prepare, "backward": _accelerator_backward, "gather": _same, "gather_for_metrics": _same,
        "reduce": _same, "unwrap_model": _same, "accumulate": _context, "autocast": _context, "print": _ignore,
        "clip_grad_norm_": _ignore, "clip_grad_value_": _ignore, "wait_for_everyone": _ignore, "no_sync": _context,
    },
    "torch.utils.hooks.RemovableHandle": {"remove": _remove},
    "torch.utils.data.DataLoader": {"__len__": _length},
    "torch.utils.data.TensorDataset": {"__len__": _length},
}  # fmt: skip
