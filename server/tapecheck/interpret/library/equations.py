"""torchdiffeq: solutions of differential equations, whose graph goes through the function and the initial state."""

from __future__ import annotations

import ast

from tapecheck.interpret.library.contract import Torch
from tapecheck.interpret.values import Args, Function, Instance, Kwargs, Tensor, Value

SOLVERS = ("torchdiffeq.odeint", "torchdiffeq.odeint_adjoint")


def solved(torch: Torch, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Return `odeint(func, y0, t)`: the states at all times, of which the first is the initial one.

    One evaluation of the function stands for those of the solver: they go through the same parameters.
    """
    given = dict(zip(("func", "y0", "t"), args)) | kwargs
    function, state, times = given.get("func"), given.get("y0"), given.get("t")
    if not isinstance(function, (Function, Instance)) or not isinstance(state, Tensor):
        return torch.opaque_result("odeint", args, kwargs, node)
    slope = torch.machine.call(function, [times, state], {}, node)
    if not isinstance(slope, Tensor):
        return torch.opaque_result("odeint", [*args, slope], kwargs, node)
    after = torch.op("add", [state, slope], {}, node)
    return torch.op("stack", [torch.machine.new_list([state, after], node)], {}, node)
