"""A running sum of losses that is backwarded in each iteration: run the backward of the new term alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tapecheck.fixes import rewrite
from tapecheck.fixes.candidate import Candidate, Context, Strategy, append, retain_position
from tapecheck.fixes.code import dotted
from tapecheck.fixes.strategies.carried import detach_carried
from tapecheck.fixes.strategies.shared import detach_shared


def backward_of_term(context: Context) -> Iterator[Candidate]:
    """`total = total + loss; total.backward(retain_graph=True)` to `total = total + loss.detach(); loss.backward()`."""
    code = context.code
    for collision in context.collisions:
        call = context.call_at(collision.second.at.span)
        if call is None or not isinstance(call.func, ast.Attribute) or call.func.attr != "backward":
            continue
        total = dotted(call.func.value)
        for store in code.stores(code.function(call), total) if total is not None else ():
            term = _term(store, total)
            change = append(code, term, ".detach()") if term is not None and store.lineno <= call.lineno else None
            text = rewrite.tried(rewrite.without_argument, code.segment(call), "retain_graph", retain_position(call))
            if term is None or change is None or text is None:
                continue
            name = code.segment(term)
            yield Candidate(
                f"Run `{name}.backward()` and sum detached values: each loss counts once",
                "The gradients of earlier iterations' losses are no longer added again by every later backward.",
                [change, code.replace(call, name + text[len(code.segment(call.func.value)) :])],
                group="term",
            )


def _term(store: ast.stmt, total: str | None) -> ast.expr | None:
    """Return what a statement adds to a sum, where that is a name."""
    if isinstance(store, ast.AugAssign) and isinstance(store.op, ast.Add):
        return store.value if dotted(store.value) is not None else None
    value = store.value if isinstance(store, ast.Assign) else None
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add):
        for one, other in ((value.left, value.right), (value.right, value.left)):
            if dotted(one) == total and dotted(other) is not None:
                return other
    return None


STRATEGIES: tuple[Strategy, ...] = (
    backward_of_term,
    detach_carried,
    detach_shared,
)
"""What is proposed, preferred first."""
