"""A loop that builds graphs for no backward: run it, or the call that leads to it, with recording switched off."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tapecheck.check import reach_in
from tapecheck.fixes.candidate import Candidate, Context
from tapecheck.fixes.noticed import asks_for_graphs, catches
from tapecheck.fixes.visible import can_train, is_learned_from, trains_unseen

_CHECK = "Check that no code in there which is not visible here differentiates or trains."
_ASKED = "Check what asks whether values have a graph, or goes on behind an exception: that may come out otherwise."
SAME = "The values stay the same; no graph is built, which saves memory and time."


def without_recording(
    context: Context, statement: ast.stmt, what: str, effect: str, group: str = "", *, guarded: bool = False
) -> Iterator[Candidate]:
    """Put `with torch.no_grad():` around a statement, unless it trains; safe where all that could is visible.

    `guarded` says that code which trains may be in it, behind a condition that is false there.
    """
    trains = can_train(context, statement)
    if (trains == "yes" and not guarded) or is_learned_from(context, statement):
        return
    if trains == "no" and trains_unseen(context, statement):
        trains = "may"
    code = context.code
    torch, needed = code.torch()
    changes = code.wrap(statement, statement, f"with {torch}.no_grad():")
    if changes is not None:
        asked = asks_for_graphs(context) or catches(reach_in(context.report, statement).bodies)
        if trains != "no" or asked:
            effect = f"{effect} {_ASKED if trains == 'no' else _CHECK}"
        title = f"{what} under `{torch}.no_grad()`"
        yield Candidate(title, effect, [*changes, *needed], safe=trains == "no" and not asked, group=group)


def is_wrappable(statement: ast.stmt) -> bool:
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Return)):
        return False
    # A generator that is left in the middle of the block leaves recording off for its caller.
    return not any(isinstance(node, (ast.Yield, ast.YieldFrom, ast.Await)) for node in ast.walk(statement))
