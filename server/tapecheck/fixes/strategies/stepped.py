"""Steps by a gradient that make new tensors, `w = w - rate * w.grad`: let them change what each backward fills."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from tapecheck.fixes.candidate import Candidate, Context, offered
from tapecheck.fixes.code import Code, dotted
from tapecheck.fixes.edit import Change
from tapecheck.fixes.holders import held_alone
from tapecheck.fixes.strategies.cuts import blamed_cuts, is_under_no_grad
from tapecheck.rules.words import join
from tapecheck.source.nodes import attr_of, of_kind

_OTHERS = "Check what else holds the tensor from before: that sees the change, too."


def updates_beside(code: Code, statement: ast.stmt) -> list[Update]:
    """Return the steps by gradients in the block of a statement."""
    block = [one for one in code.block(statement) if isinstance(one, ast.Assign)]
    return [(one, code.segment(one.targets[0])) for one in block if steps_by_gradient(one)]


def update_in_place(context: Context) -> Iterator[Candidate]:
    """Write what makes new tensors under `no_grad`, which the next loss is computed with, as changes in place."""
    code = context.code
    for cut in blamed_cuts(context):
        statement = code.statement_at(cut.at.span) if cut.how == "no_grad" else None
        if isinstance(statement, ast.Assign) and steps_by_gradient(statement):
            yield from all_in_place(context, updates_beside(code, statement))
        elif isinstance(statement, ast.Assign):
            yield from each_in_place(context, statement)


def each_in_place(context: Context, statement: ast.Assign) -> Iterator[Candidate]:
    """Write several steps that one statement makes, none of which reads what another one has changed, in place."""
    match statement:
        case ast.Assign(targets=[ast.Tuple(elts=stores)], value=ast.Tuple(elts=values)) if len(stores) == len(values):
            pairs = list(zip(stores, values, strict=True))
        case _:
            return
    code = context.code
    alone = [ast.copy_location(ast.Assign([store], value), statement) for store, value in pairs]
    names = [dotted(store) for store in stores]
    read = [{dotted(one) for one in of_kind(value, ast.expr)} & {*names} for value in values]
    if not all(map(steps_by_gradient, alone)) or any(found - {name} for found, name in zip(read, names, strict=True)):
        return
    torch, needed = code.torch()
    updates = [(one, code.segment(one.targets[0])) for one in alone]
    change = _in_the_place_of(code, [statement], updates, torch)
    title = f"Change {join(f'`{code.segment(store)}`' for store in stores)} in place under `{torch}.no_grad()`"
    effect = f"They stay the leaves that each backward fills. {_OTHERS}"
    yield from offered(title, effect, change, *needed, group="in place")


def all_in_place(context: Context, chosen: Sequence[Update]) -> Iterator[Candidate]:
    """Write updates as changes in place: where nothing else holds what they change, that is what they mean."""
    code = context.code
    torch, needed = code.torch()
    runs = _runs(code, chosen)
    changes = [_in_the_place_of(code, [statement for statement, _ in run], run, torch) for run in runs]
    alone = all(held_alone(context, statement, statement.targets[0]) for statement, _ in chosen)
    title = f"Change {join(f'`{name}`' for _, name in chosen)} in place under `{torch}.no_grad()`"
    effect = f"{'It stays the leaf' if len(chosen) == 1 else 'They stay the leaves'} that each backward fills."
    yield from offered(
        title, effect if alone else f"{effect} {_OTHERS}", *changes, *needed,
        safe=context.stops and alone, group="in place" if alone else "shared",
    )  # fmt: skip


Update = tuple[ast.Assign, str]
"""A statement that steps a variable by its gradient, and the variable."""


def _runs(code: Code, updates: Sequence[Update]) -> list[list[Update]]:
    """Return updates of one block together as far as nothing, not even a comment, stands between them."""
    runs: list[list[Update]] = []
    for one in updates:
        last = runs[-1][-1][0] if runs else None
        if last is not None and not code.text[code.end(last) : code.start(one[0])].strip():
            runs[-1].append(one)
        else:
            runs.append([one])
    return runs


def steps_by_gradient(statement: ast.Assign) -> bool:
    """Return whether a statement is `w = w - rate * w.grad`."""
    gradients = (one for one in of_kind(statement.value, ast.Attribute) if one.attr == "grad")
    return _step(statement) is not None and any(_same(one.value, statement.targets[0]) for one in gradients)


def _same(one: ast.expr, other: ast.expr) -> bool:
    """Return whether two expressions read alike, whether they are read or stored into."""
    return ast.unparse(one) == ast.unparse(other)


def _in_the_place_of(
    code: Code, statements: Sequence[ast.stmt], updates: Sequence[Update], torch: str
) -> Change | None:
    """Return the edit that makes updates in the place of statements that follow one another; None where these do not
    stand on lines of their own.
    """
    first, indent = statements[0], code.indent(statements[0])
    if indent is None or not all(map(code.alone, statements)):
        return None
    within = is_under_no_grad(code, first)
    lines = [] if within else [f"with {torch}.no_grad():"]
    for statement, name in updates:
        step = _step(statement)
        lines += [f"{'' if within else '    '}{name} {step[0]} {code.segment(step[1])}"] if step is not None else []
    lines += [f"{name}.grad = None" for one, name in updates if not _clears(code, first, one.targets[0])]
    return Change(code.start(first), code.end(statements[-1]), f"\n{indent}".join(lines))


def _step(statement: ast.Assign) -> tuple[str, ast.expr] | None:
    """Return the sign and the size of a step from a variable's value: `w - rate * w.grad`."""
    match statement.value:
        case ast.BinOp(left=left, op=ast.Sub() | ast.Add() as op, right=right) if _same(left, statement.targets[0]):
            return ("-=" if isinstance(op, ast.Sub) else "+="), right
    return None


def _clears(code: Code, place: ast.stmt, stepped: ast.expr) -> bool:
    """Return whether the function around a place clears the gradient of what is stepped."""
    owned = (one for one in of_kind(code.function(place), ast.Attribute) if one.attr == "grad")
    return any(
        _same(one.value, stepped) and (isinstance(one.ctx, ast.Store) or attr_of(code.parent(one)) == "zero_")
        for one in owned
    )
