"""torch.optim.swa_utils: averaged copies of a model, and the statistics of its BatchNorms."""

from __future__ import annotations

import ast

from tapecheck.interpret.library.contract import Modules, Torch
from tapecheck.interpret.values import Args, Instance, Kwargs, Tensor, Value, argument, is_buffer

AVERAGED = "torch.optim.swa_utils.AveragedModel"


def averaged_model(modules: Modules, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """`AveragedModel(model)`: a module around a deep copy."""
    copied = modules.machine.library.copy_of(argument(args, kwargs, 0, "model"), node)
    if not isinstance(copied, Instance):
        return copied
    owner = Instance(None, AVERAGED, module=True)
    owner.attrs["training"] = True
    owner.attrs["module"] = copied
    owner.attrs["n_averaged"] = modules.world.graph.data("n_averaged", dtype="int")
    return owner


def update_parameters(modules: Modules, owner: Instance, node: ast.AST) -> None:
    """Write to the copies in place, buffers and the first time included."""
    for _, tensor in modules.named_parameters(owner):
        modules.world.graph.change(tensor, node, "update_parameters", grad_mode="no")
    for _, module in modules.modules(owner):
        for value in module.attrs.values():
            if is_buffer(value):
                modules.world.graph.change(value, node, "update_parameters", grad_mode="no")


def update_bn(torch: Torch, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """`update_bn(loader, model)`: the running statistics are reset in place and computed anew, without a graph."""
    model = argument(args, kwargs, 1, "model")
    if isinstance(model, Instance):
        for _, module in torch.nn.modules(model):
            for name in ("running_mean", "running_var", "num_batches_tracked"):
                statistic = module.attrs.get(name)
                if isinstance(statistic, Tensor) and "BatchNorm" in module.lib:
                    torch.world.graph.change(statistic, node, "update_bn", grad_mode="no")
    return None
