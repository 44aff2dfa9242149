"""A loop that builds graphs for no backward: run it, or the call that leads to it, with recording switched off."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tapecheck.fixes.candidate import Candidate, Context
from tapecheck.tape import Span

_SAME = "The values stay the same; no graph is built, which saves memory and time."


def switch_recording_off(context: Context) -> Iterator[Candidate]:
    """Put `with torch.no_grad():` around the loop, else around the statement that calls its function."""
    code, facts = context.code, context.finding.facts
    torch, needed = code.torch()
    for number, place in enumerate([facts["loop"], *facts["calls"]]):
        span = Span(**place)
        statement = code.statement_at(span) if span.file == context.finding.span.file else None
        # A generator that is left in the middle of the block leaves recording off for its caller.
        if statement is None or any(isinstance(node, (ast.Yield, ast.YieldFrom)) for node in ast.walk(statement)):
            continue
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Return)):
            continue
        wrapped = code.wrap(statement, statement, f"with {torch}.no_grad():")
        if wrapped is not None:
            what = f"the call on line {statement.lineno}" if number else "the loop"
            yield Candidate(
                f"Run {what} under `{torch}.no_grad()`", _SAME, [*wrapped, *needed], safe=True, group="no_grad"
            )
