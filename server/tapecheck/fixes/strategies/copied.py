"""What a graph needs is a part of a tensor that is filled: write into a copy, or read copies of its parts."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator

from tapecheck.fixes.candidate import Candidate, Context, append, offered
from tapecheck.fixes.code import FUNCTIONS, Code, dotted, targets
from tapecheck.fixes.holders import computes_with, held_alone
from tapecheck.fixes.story import Collision, frames
from tapecheck.source.nodes import id_of, is_read, of_kind
from tapecheck.tape import InPlace

MOST_READS = 8

_SAVED = "What the graph needs are copies, which nothing changes: values and gradients are those of the original."
_VIEWED = "Check what is handed a part, or keeps one: what is written into that no longer reaches the tensor."
_WRITTEN = "The tensor that the graph needs is left as it was; each write costs a copy of the whole."
_HELD = "Check what else holds the tensor: that no longer sees what is written."


def read_copies(context: Context) -> Iterator[Candidate]:
    """Read copies of all parts of a table while it is filled: `r[i] = f(r[i - 1].clone(), r[i - 2].clone())`."""
    code = context.code
    for collision in context.collisions:
        written = _written(code, collision.change)
        if written is None or not (table := id_of(written[1])):
            continue
        statement = written[0]
        parts = _parts_read(code, statement, table)
        changes = [append(code, part, ".clone()") for part in parts]
        if 1 < len(parts) <= MOST_READS and not any(_written_through(code, part) for part in parts):
            alone = all(computes_with(context, statement, part) for part in parts)
            lines = sorted({part.lineno for part in parts})
            where = f"line {lines[0]}" if len(lines) == 1 else f"lines {lines[0]} to {lines[-1]}"
            yield from offered(
                f"Read copies of {'the parts of ' if _all_parts(parts) else ''}`{table}`: `.clone()` ({where})",
                _SAVED,
                *changes,
                safe=not context.caught and alone,
                group="clone",
                acts=False,
                doubt="" if alone else _VIEWED,
            )


def _written(code: Code, change: InPlace | None) -> tuple[ast.stmt, ast.expr] | None:
    """Return the statement that writes into a part of a tensor, and what it is a part of."""
    if change is None or change.optimizer is not None or change.leaf is not None:
        return None
    statement = code.statement_at(change.at.span)
    parts = [part for part in targets(statement) if isinstance(part, ast.Subscript)] if statement is not None else []
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Subscript() as part))) if _is_filled(statement, part):
            parts = [part]
    return (statement, parts[0].value) if statement is not None and len(parts) == 1 else None


def _parts_read(code: Code, statement: ast.stmt, table: str) -> list[ast.expr]:
    """Return where parts of a table are read in the rounds in which a statement writes into it."""
    scope, loops = code.function(statement), code.loops(statement)
    around = loops[-1] if loops else statement
    # What is called again and again writes into what it has read in all the calls before.
    repeated = not loops and isinstance(scope, (ast.FunctionDef, ast.AsyncFunctionDef))
    loads = [load for load in code.loads(scope, table) if code.function(load) is scope]
    outer = [(load, code.parent(load)) for load in loads if repeated or code.inside(load, around)]
    parts = [part for _, part in outer if isinstance(part, ast.Subscript) and is_read(part)]
    whole = [load for load, user in outer if repeated and _computes(user, load)]
    return [part for part in (*parts, *whole) if not _is_filled(code.statement(part), part)]


def _all_parts(read: list[ast.expr]) -> bool:
    return all(isinstance(one, ast.Subscript) for one in read)


def _computes(user: ast.AST | None, value: ast.expr) -> bool:
    """Return whether a value is an operand, or an argument of a call that may be into torch."""
    called = isinstance(user, ast.Call) and value in user.args and not hasattr(builtins, id_of(user.func))
    return called or isinstance(user, ast.BinOp)


def _is_filled(statement: ast.stmt | None, part: ast.expr) -> bool:
    """Return whether a statement does nothing but write into a part: `r[i].add_(x)`."""
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=filled, attr=name))):
            return filled is part and name.endswith("_")
    return False


def _written_through(code: Code, part: ast.expr) -> bool:
    """Return whether something writes into the tensor by way of a part that is read: a copy would take that."""
    outer = code.parent(part)
    while isinstance(outer, (ast.Attribute, ast.Subscript, ast.Call)):
        if isinstance(outer, ast.Attribute) and outer.attr.endswith("_") and not outer.attr.startswith("_"):
            return True
        if isinstance(outer, ast.Subscript) and not is_read(outer):
            return True
        if isinstance(outer, ast.Attribute) and not is_read(outer):
            return True
        outer = code.parent(outer)
    statement = code.statement(part)
    if isinstance(statement, ast.AugAssign) and part is statement.target:
        return True
    kept = targets(statement) if isinstance(statement, (ast.Assign, ast.For)) else []
    names = [one.id for one in kept if isinstance(one, ast.Name)]
    return any(_changes(code, code.function(part), name) for name in names)


def _changes(code: Code, scope: ast.AST, name: str) -> bool:
    """Return whether a scope changes what a name has in place, as far as its text says."""
    if any(isinstance(store, ast.AugAssign) for store in code.stores(scope, name)):
        return True
    outer = [code.parent(load) for load in code.loads(scope, name)]
    return any(
        (isinstance(one, ast.Attribute) and one.attr.endswith("_"))
        or (isinstance(one, (ast.Attribute, ast.Subscript)) and not is_read(one))
        for one in outer
    )


def write_into_copy(context: Context) -> Iterator[Candidate]:
    """Put `h = h.clone()` before `h[done] = 0`: the tensor that the graph needs stays as it was."""
    code = context.code
    for collision in context.collisions:
        written = _written(code, collision.change)
        if written is None or (name := dotted(written[1])) is None:
            continue
        statement, whole = written
        if isinstance(whole, ast.Name) and not _is_own(code, statement, whole.id):
            continue
        first = _before_writes(code, collision, statement, whole)
        alone = held_alone(context, statement, whole) and first is statement
        yield from offered(
            f"Write into a copy: `{name} = {name}.clone()` before line {first.lineno}",
            _WRITTEN,
            code.insert_before(first, [f"{name} = {name}.clone()"]),
            safe=context.stops and alone,
            group="copy",
            acts=False,
            doubt="" if alone else _HELD,
        )


def _is_own(code: Code, statement: ast.stmt, name: str) -> bool:
    """Return whether a name is one of the function's own that a new tensor under it reaches who reads the change."""
    scope = code.function(statement)
    if not isinstance(scope, FUNCTIONS):
        return True
    stored = [store for store in code.stores(scope, name) if not isinstance(store, ast.AugAssign)]
    returned = (code.statement(load) for load in code.loads(scope, name))
    declared = (node for node in of_kind(scope, ast.stmt) if isinstance(node, (ast.Global, ast.Nonlocal)))
    if any(name in node.names for node in declared):
        return True
    given = any(argument.arg == name for argument in of_kind(scope, ast.arg))
    # Who has handed the tensor in sees the change only if it is given the copy back.
    return bool(stored) if not given else any(isinstance(one, ast.Return) for one in returned)


def _before_writes(code: Code, collision: Collision, statement: ast.stmt, whole: ast.expr) -> ast.stmt:
    """Return what to copy before: the write, or the outermost loop of writes in which nothing of the graph is built."""
    node = collision.problem.node if collision.problem is not None else None
    built = [found for frame in frames(node.at) if (found := code.statement_at(frame)) is not None] if node else []
    first: ast.stmt = statement
    for loop in code.loops(statement):
        if any(code.inside(one, loop) for one in built) or _bound_in(code, loop, whole):
            break
        first = loop
    return first


def _bound_in(code: Code, loop: ast.AST, whole: ast.expr) -> bool:
    """Return whether a loop gives a name anew that says which tensor is written into."""
    names = {dotted(whole), *(node.id for node in of_kind(whole, ast.Name))}
    return any(dotted(part) in names for node in of_kind(loop, ast.stmt) for part in targets(node))
