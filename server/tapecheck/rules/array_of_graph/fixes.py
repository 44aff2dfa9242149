"""An array of a tensor that requires grad: of the tensor without its graph, or none at all."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tapecheck.fixes.candidate import Candidate, Context, Strategy, append, offered
from tapecheck.fixes.code import walk
from tapecheck.fixes.strategies.differentiable import stay_from
from tapecheck.fixes.uncut import Holding


def detach(context: Context) -> Iterator[Candidate]:
    """Write `loss.detach().numpy()` for `loss.numpy()`, and `np.sqrt(loss.detach())` for `np.sqrt(loss)`."""
    code = context.code
    match code.expression_at(context.finding.span):
        case ast.Call(func=ast.Attribute(value=ast.expr() as tensor, attr="numpy" | "__array__")):
            pass
        case ast.Call(args=[ast.Name() | ast.Attribute() | ast.Call() | ast.BinOp() | ast.Subscript() as tensor, *_]):
            pass
        case _:
            return
    title, effect = "Take it out of the graph: `.detach()`", "The array has its numbers, and no graph."
    yield from offered(title, effect, append(code, tensor, ".detach()"), safe=context.stops)


def detach_stored(context: Context) -> Iterator[Candidate]:
    """Write `losses.append(loss.detach())` for `losses.append(loss)`, where an array is made of `losses`."""
    for label in context.labels("kept"):
        match context.code.expression_at(label.span):
            case ast.Call(func=ast.Attribute(), args=[value]):
                title, effect = f"Store `.detach()` on line {label.span.line}", "The list keeps numbers, and no graph."
                yield from offered(title, effect, append(context.code, value, ".detach()"))


def stay(context: Context) -> Iterator[Candidate]:
    """Compute in torch what the program differentiates: of an array there is nothing to differentiate."""
    code, place = context.code, context.finding.span
    array = code.expression_at(place)
    if array is None:
        return
    _, *nodes = walk(code.function(array))
    made_of_it = Holding([array], nodes)
    if any(isinstance(node, ast.Call) and _differentiates(node, made_of_it) for node in nodes):
        yield from stay_from(context, [place])


def _differentiates(call: ast.Call, made_of_it: Holding) -> bool:
    """Return whether a call computes gradients of what is computed from the array."""
    match call.func:
        case ast.Attribute(value=ast.expr() as root, attr="backward"):
            return made_of_it(root) or any(map(made_of_it, call.args))
        case ast.Attribute(attr="grad"):
            return bool(call.args) and made_of_it(call.args[0])
    return False


STRATEGIES: tuple[Strategy, ...] = (detach, detach_stored, stay)
"""What is proposed, preferred first."""
