"""An array of a tensor that requires grad: of the tensor without its graph."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tapecheck.fixes.candidate import Candidate, Context, Strategy, append, offered


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


STRATEGIES: tuple[Strategy, ...] = (detach, detach_stored)
"""What is proposed, preferred first."""
