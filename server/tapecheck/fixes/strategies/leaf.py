"""A leaf changed in place: change it where nothing is recorded."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tapecheck.fixes import rewrite
from tapecheck.fixes.candidate import Candidate, Context
from tapecheck.fixes.code import dotted
from tapecheck.tape import InPlace, Optimizer, Tape


def under_no_grad(context: Context) -> Iterator[Candidate]:
    """Wrap the change in `with torch.no_grad():`."""
    code = context.code
    statement = code.statement_at(context.finding.span)
    if statement is None or isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
        return
    torch, needed = code.torch()
    wrapped = code.wrap(statement, statement, f"with {torch}.no_grad():")
    if wrapped is not None:
        yield Candidate(
            f"Change the leaf under `{torch}.no_grad()`",
            "The value changes as written; autograd does not record the change.",
            [*wrapped, *needed],
            safe=True,
        )


def leaf_out_of_place(context: Context) -> Iterator[Candidate]:
    """`x += y` to `x = x + y`: a new tensor, with the leaf in its graph."""
    code = context.code
    statement = code.statement_at(context.finding.span)
    if not isinstance(statement, ast.AugAssign) or not isinstance(statement.target, ast.Name):
        return
    name = statement.target.id
    # A leaf whose gradient is read, or that an optimizer holds, must stay the tensor it is.
    if any(dotted(node) == f"{name}.grad" for node in ast.walk(code.function(statement))):
        return
    if any(_trained(tape, event.leaf) for tape, event in context.events_here(InPlace) if isinstance(event, InPlace)):
        return
    try:
        text = rewrite.out_of_place(code.segment(statement))
    except rewrite.RewriteError:
        return
    yield Candidate(
        f"Compute a new tensor: `{name}` is then no leaf any more",
        f"Gradients flow through the change into the leaf; an optimizer that was given `{name}` keeps the old tensor.",
        [code.replace(statement, text)],
    )


def _trained(tape: Tape, leaf: int | None) -> bool:
    return any(isinstance(event, Optimizer) and leaf in event.params for event in tape.events)
