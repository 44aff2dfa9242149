"""The gradient of a tensor that is not a leaf: let it stay one, or keep the gradient."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tapecheck.fixes.candidate import Candidate, Context, Strategy, offered, remove_argument
from tapecheck.fixes.code import Code
from tapecheck.fixes.edit import Change
from tapecheck.fixes.strategies.registered import switches_on
from tapecheck.rules.gradient_of_non_leaf.facts import GradientOfNonLeafFacts
from tapecheck.source.nodes import attr_of, id_of, of_kind


def _computed(context: Context, *how: str) -> tuple[ast.Assign, str] | None:
    """Return the statement that computes the tensor, and the variable that it stores it in."""
    facts = context.finding.facts
    if not isinstance(facts, GradientOfNonLeafFacts) or facts.how not in how:
        return None
    statement = context.code.statement_at(facts.built)
    named = isinstance(statement, ast.Assign) and bool(facts.tensor) and id_of(statement.targets[0]) == facts.tensor
    return (statement, facts.tensor) if isinstance(statement, ast.Assign) and named else None


def in_place(context: Context) -> Iterator[Candidate]:
    """Write `w = w - rate * w.grad` as a change in place under no_grad, and clear the gradient behind it."""
    code, found = context.code, _computed(context, "update")
    step = _step(found[0].value, found[1]) if found is not None else None
    indent = code.indent(found[0]) if found is not None and code.alone(found[0]) else None
    if found is None or step is None or indent is None:
        return
    statement, name = found
    torch, needed = code.torch()
    lines = [f"with {torch}.no_grad():", f"{indent}    {name} {step[0]} {code.segment(step[1])}"]
    lines += [] if _clears(code, statement, name) else [f"{indent}{name}.grad = None"]
    change, title = code.replace(statement, "\n".join(lines)), f"Change `{name}` in place under `{torch}.no_grad()`"
    yield Candidate(title, "It stays the leaf that each backward fills.", [change, *needed], safe=context.stops)


def _step(value: ast.expr, name: str) -> tuple[str, ast.expr] | None:
    """Return the sign and the size of a step from a variable's value: `w - rate * w.grad`."""
    match value:
        case ast.BinOp(left=ast.Name(id=left), op=ast.Sub() | ast.Add() as op, right=right) if left == name:
            return ("-=" if isinstance(op, ast.Sub) else "+="), right
    return None


def _clears(code: Code, statement: ast.stmt, name: str) -> bool:
    """Return whether the function around a statement clears the gradient of a variable."""
    owned = (one for one in of_kind(code.function(statement), ast.Attribute) if one.attr == "grad")
    return any(
        id_of(one.value) == name and (isinstance(one.ctx, ast.Store) or attr_of(code.parent(one)) == "zero_")
        for one in owned
    )


def leaf_last(context: Context) -> Iterator[Candidate]:
    """Switch `requires_grad` on behind what computes the value: `(torch.randn(3) * 0.1).requires_grad_()`."""
    code, found = context.code, _computed(context, "given", "read")
    value = found[0].value if found is not None else None
    made = [one for one in of_kind(value, ast.Call) if switches_on(one)] if value is not None else []
    if found is None or value is None or len(made) != 1:
        return
    plain, start, end = isinstance(value, ast.Call), code.start(value), code.end(value)
    changes = [
        remove_argument(code, made[0], "requires_grad"),
        Change(end, end, f"{'' if plain else ')'}.requires_grad_()"),
        *([] if plain else [Change(start, start, "(")]),
    ]
    effect = f"`{found[1]}` has the same values, and is a leaf."
    yield from offered("Call `requires_grad_()` last", effect, *changes, safe=context.stops)


def retain(context: Context) -> Iterator[Candidate]:
    """Keep the gradient of what was computed: `h.retain_grad()`."""
    found = _computed(context, "read")
    if found is not None:
        statement, name = found
        change = context.code.insert_after(statement, [f"{name}.retain_grad()"])
        title, effect = f"Keep its gradient: `{name}.retain_grad()`", f"The backward fills `{name}.grad`, too."
        yield from offered(title, effect, change, safe=context.stops)


STRATEGIES: tuple[Strategy, ...] = (in_place, leaf_last, retain)
"""What is proposed, preferred first."""
