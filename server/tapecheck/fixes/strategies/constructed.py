"""A value that a constructor computed from parameters: compute it in the method that uses it."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator

from tapecheck.fixes.candidate import Candidate, Context
from tapecheck.fixes.code import Code, dotted, targets
from tapecheck.fixes.edit import Change
from tapecheck.fixes.story import Collision
from tapecheck.source.nodes import id_of, of_kind

_Method = ast.FunctionDef | ast.AsyncFunctionDef


def compute_where_used(context: Context) -> Iterator[Candidate]:
    """`self.table = f(self.weight)` from `__init__` into `forward`, with what it needs of the constructor's names."""
    code = context.code
    for collision in context.collisions:
        done: set[str] = set()
        for store in _constructed(code, collision):
            name = dotted(store.targets[0])
            reading = _reading(code, store, collision, name) if name is not None else None
            if name is None or reading is None or name in done:
                continue
            done.add(name)
            changes = _moved(code, store, name, reading)
            if changes:
                method = code.function(reading)
                called = method.name if isinstance(method, (ast.FunctionDef, ast.AsyncFunctionDef)) else "the method"
                yield Candidate(
                    f"Compute `{name}` in `{called}`, anew from the parameters as they are then",
                    "Every backward has a graph of its own, and what the value is computed from goes on learning.",
                    changes,
                    group="constructed",
                )


def _constructed(code: Code, collision: Collision) -> list[ast.Assign]:
    """Return the assignments to attributes, in constructors, that built what the two backwards share."""
    found: dict[ast.Assign, None] = {}
    for node in (node for node in collision.walked if node.id <= collision.newest):
        for statement in code.statements(node.at):
            if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
                if getattr(code.function(statement), "name", "") == "__init__" and code.owner(statement) is not None:
                    if (dotted(statement.targets[0]) or "").startswith("self."):
                        found[statement] = None
    return list(found)


def _reading(code: Code, store: ast.Assign, collision: Collision, name: str) -> ast.stmt | None:
    """Return the first statement of a method of the same class that reads the attribute on the way to the backward."""
    owner = code.owner(store)
    for consumer, _ in collision.crossings():
        for place in code.statements(consumer.at):
            method = code.function(place)
            if code.owner(place) is not owner or not isinstance(method, _Method) or method is code.function(store):
                continue
            loads = code.loads(method, name)
            if loads:
                first = min(loads, key=lambda node: (node.lineno, node.col_offset))
                return code.within_block(first, method.body)
    return None


def _moved(code: Code, store: ast.Assign, name: str, reading: ast.stmt) -> list[Change]:
    method, owner = code.function(reading), code.owner(store)
    assert owner is not None
    replaced = _outside(code, store, name)
    if replaced is None:
        return []
    text, keeping = replaced
    insertion = code.insert_before(reading, [f"{name} = {text}"])
    read_elsewhere = any(
        not code.inside(load, method) and not code.inside(load, store) for load in code.loads(owner, name)
    )
    kept = _kept(code, store, keeping, read_elsewhere)
    return [] if kept is None or insertion is None else [insertion, *kept]


def _outside(code: Code, store: ast.Assign, name: str) -> tuple[str, list[str]] | None:
    """Return what a constructor computes as a method can, and the lines that keep the constructor's own names for it;
    None where the object has no name for one of them.
    """
    owner = code.owner(store)
    assert owner is not None
    own = {part.id for node in ast.walk(store.value) for part in _bound(node)}
    local = _local_names(code.function(store)) - {"self", *own, *dir(builtins)}
    text, start = code.segment(store.value), code.start(store.value)
    names = [node for node in of_kind(store.value, ast.Name) if node.id in local]
    needed = {node.id: f"self.{node.id}" for node in names}
    for local_name, attribute in needed.items():
        if code.stores(owner, attribute) or code.loads(owner, attribute):
            needed[local_name] = f"{attribute}_of_{name.rsplit('.', 1)[-1]}"
            if code.loads(owner, needed[local_name]):
                return None
    for node in sorted(names, key=code.start, reverse=True):
        text = text[: code.start(node) - start] + needed[node.id] + text[code.end(node) - start :]
    if store.value.lineno != store.value.end_lineno:
        text = f"({text})"
    return text, [f"{attribute} = {local_name}" for local_name, attribute in sorted(needed.items())]


def _local_names(function: ast.AST) -> set[str]:
    """Return the names that a function has for itself."""
    stores = (part for node in of_kind(function, ast.stmt) for part in targets(node))
    return {id_of(part) for part in stores} | {node.arg for node in of_kind(function, ast.arg)}


def _kept(code: Code, store: ast.Assign, keeping: list[str], read_elsewhere: bool) -> list[Change] | None:
    """Return what becomes of the statement in the constructor, with the lines that keep what is needed of it."""
    if read_elsewhere and not keeping:
        return []
    if read_elsewhere:
        kept = code.insert_after(store, keeping)
    elif not keeping:
        kept = code.delete(store)
    elif len(keeping) > 1 and code.on_header_line(store):
        return None
    else:
        kept = code.replace(store, f"{code.index.newline}{code.block_indent(store)}".join(keeping))
    return [kept] if kept is not None else None


def _bound(node: ast.AST) -> Iterator[ast.Name]:
    """Yield the names that an expression binds itself: those of comprehensions."""
    for generator in getattr(node, "generators", []):
        yield from of_kind(generator.target, ast.Name)
