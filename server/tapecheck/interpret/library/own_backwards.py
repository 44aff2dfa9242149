"""What the program's own `backward` of a custom Function does beside computing gradients: it is run where it does."""

from __future__ import annotations

import ast
from typing import NamedTuple

from tapecheck.interpret.library.contract import Torch
from tapecheck.interpret.values import Instance, Signal, Value, function_of
from tapecheck.source.nodes import walk
from tapecheck.tape import Backward

_STARTS = ("backward", "grad", "vjp", "jvp", "saved_variables")
"""What starts another backward in it, whose graphs are its own."""


class OwnBackward(NamedTuple):
    """The `backward` of a custom Function, with what a call of its forward has left it, and how much that returned."""

    function: Value
    context: Instance
    saved: tuple[Value, ...]
    outputs: int


def acts(backward: Value) -> bool:
    """Return whether a `backward` may change what there is: an attribute, a tensor in place, what others are given."""
    function = function_of(backward)
    if function is None:
        return False
    parts = [*walk(function.node)]
    return any(map(_acts, parts)) and not any(map(_starts_another, parts))


def _starts_another(part: ast.AST) -> bool:
    match part:
        case ast.Call(func=ast.Attribute(attr=name)):
            return name in _STARTS
    return False


def _acts(part: ast.AST) -> bool:
    match part:
        case ast.Attribute(ctx=ast.Store()) | ast.Subscript(ctx=ast.Store()) | ast.Global() | ast.Nonlocal():
            return True
        case ast.Expr(value=ast.Call()) | ast.Call(func=ast.Name()):
            return True
        case ast.Call(func=ast.Attribute(attr=name)):
            return name.endswith("_")
    return False


def run(torch: Torch, own: OwnBackward, event: Backward, node: ast.AST) -> None:
    """Run a `backward` for what it does. Where the dry run does not come through, it may have done anything."""
    world, gradients = torch.world, [torch.world.graph.data("grad") for _ in range(own.outputs)]
    own.context.attrs["saved_tensors"] = own.saved
    try:
        with world.modes.recording("no" if event.create == "no" else "may"):
            torch.machine.call(own.function, [own.context, *gradients], {}, node)
    except Signal:
        world.assumptions.note("effect", "a `backward` of the program leaves what there is as it is", node)
    finally:
        del own.context.attrs["saved_tensors"]
