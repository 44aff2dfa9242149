"""What of a piece of code is visible, and whether it can train: "safe" has to hold for whatever is not seen."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import Literal

from tapecheck.check import reach_in, trainers_in
from tapecheck.fixes.candidate import Context
from tapecheck.fixes.story import frames, lies_in
from tapecheck.source.nodes import given_to, id_of, last_line, name_called, of_kind
from tapecheck.tape import Backward, Escape, LeafEscape, Node, Site, Span

_NUMBERS = frozenset(("float", "format", "int", "item", "len", "numpy", "round", "str", "time", "tolist"))
Trains = Literal["no", "may", "yes"]
"""Whether code can run a backward: "may" where opaque code could."""


def can_train(context: Context, statement: ast.stmt) -> Trains:
    """Return whether a statement can run a backward through what it records, whichever way its conditions go.

    Opaque code could where it is given a model or a value with a graph, or has been given a model before, or where it
    is called on lines that the dry run did not come to.
    """
    reach = reach_in(context.report, statement)
    if reach.trains:
        return "yes"
    inside = list(_sites_within(context, statement))
    if any(isinstance(event, (Escape, LeafEscape)) for _, event in inside):
        return "may"
    places = [span for site, _ in inside for span in frames(site)]
    if any(_speaks_of_backward(context, file) for file in {span.file for span in places}):
        return "may"
    return "may" if _may_be_given_unseen(context, reach.opaque, inside, places) else "no"


def _may_be_given_unseen(
    context: Context, calls: Iterable[ast.Call], inside: list[tuple[Site, object]], places: list[Span]
) -> bool:
    """Return whether one of some opaque calls that the dry run did not come to may be given what it can walk."""
    code = context.code
    seen = {span for site, _ in inside for span in site.stack}
    seen |= {site.span for site, event in inside if isinstance(event, Node) and event.linked != "may"}
    lines = {span.line for span in places if span.file == code.source.path}
    given = next(context.events(LeafEscape), None) is not None
    unseen = (call for call in calls if not any(code.spans(call, span) for span in seen))
    return any(given or _may_be_given(call, lines) for call in unseen)


def may_be_given(context: Context, statement: ast.stmt, calls: Iterable[ast.Call]) -> bool:
    """Return whether one of some opaque calls that a statement may come to is given a model or a value with a graph."""
    inside = list(_sites_within(context, statement))
    if any(isinstance(event, (Escape, LeafEscape)) for _, event in inside):
        return True
    places = [span for site, _ in inside for span in frames(site)]
    return _may_be_given_unseen(context, calls, inside, places)


def is_learned_from(context: Context, statement: ast.stmt) -> bool:
    """Return whether a backward elsewhere runs through what a statement records, in this call of it or another."""
    here = context.code.span(statement)
    for reading in context.readings:
        own = {node.id for node in reading.ledger.nodes.values() if lies_in(node.at, here)}
        outside = (run for run in reading.runs if not lies_in(run.at, here))
        if any(not own.isdisjoint(run.traversal.executed) for run in outside):
            return True
    return False


def trains_unseen(context: Context, statement: ast.stmt) -> bool:
    """Return whether a function that comes to a statement could learn from it in a backward that no path ran.

    A closure that opaque code is given, to step with, is such a function.
    """
    path = context.code.source.path
    ran = {event.at.line for event in context.events(Backward) if event.at.file == path}
    bodies = trainers_in(context.report, statement)
    return any(ran.isdisjoint(range(body.lineno, last_line(body) + 1)) for body in bodies)


def _may_be_given(call: ast.Call, lines: set[int]) -> bool:
    """Return whether a call that the dry run did not come to may be given a model or a value with a graph."""
    return call.lineno not in lines and not all(_is_plain(argument) for argument in given_to(call))


def _is_plain(value: ast.expr) -> bool:
    if isinstance(value, (ast.Constant, ast.JoinedStr, ast.Compare)):
        return True
    if isinstance(value, (ast.BinOp, ast.UnaryOp, ast.Dict, ast.List, ast.Tuple, ast.Set)):
        return all(_is_plain(part) for part in ast.iter_child_nodes(value) if isinstance(part, ast.expr))
    return name_called(value) in _NUMBERS


def _sites_within(context: Context, statement: ast.stmt) -> Iterator[tuple[Site, object]]:
    """Yield what happened in a statement and in the calls made there, with the places."""
    here = context.code.span(statement)
    for event in context.events(object):
        at = getattr(event, "at", None)
        if isinstance(at, Site) and lies_in(at, here):
            yield at, event


def _speaks_of_backward(context: Context, file: str) -> bool:
    """Return whether a file of the project that the statement calls into can start a backward somewhere."""
    if file == context.code.source.path:
        return False
    text = context.report.interpretation.read.get(file) or ""
    return "backward" in text or "grad(" in text


def leaves_for_importers(tree: ast.Module, lines: Iterable[int]) -> bool:
    """Return whether what is computed on some lines is returned by a function that this file calls in its `__main__`
    block alone: whoever imports the function may train with it.
    """
    blocks = [one for one in tree.body if isinstance(one, ast.If) and "__main__" in ast.dump(one.test)]
    calls = of_kind(tree, ast.Call) if blocks else []
    in_blocks = {id(call) for block in blocks for call in of_kind(block, ast.Call)}
    elsewhere = {name_called(call) for call in calls if id(call) not in in_blocks}
    shown = {name_called(call) for call in calls} - elsewhere
    wanted = set(lines)
    return any(
        isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef))
        and one.name in shown
        and not _returned(one).isdisjoint(_filled(one, wanted))
        for one in (of_kind(tree, ast.stmt) if shown else ())
    )


def _returned(function: ast.AST) -> set[str]:
    """Return the names in what a function returns."""
    return {name.id for one in of_kind(function, ast.Return) if one.value for name in of_kind(one.value, ast.Name)}


def _filled(function: ast.AST, lines: set[int]) -> set[str]:
    """Return the names that simple statements of a function on some lines store, or call a method of, and those that
    others compute from these.
    """
    simple = [one for one in of_kind(function, ast.stmt) if not hasattr(one, "body")]
    found: set[str] = set()
    for statement in simple:
        if not lines.isdisjoint(range(statement.lineno, last_line(statement) + 1)):
            found |= _stored(statement) | _asked(statement)
    while True:
        onward = {name for one in simple if not _read(one).isdisjoint(found) for name in _stored(one)}
        if onward <= found:
            return found
        found |= onward


def _stored(statement: ast.stmt) -> set[str]:
    """Return the names that a statement stores, or stores something in."""
    own = {name.id for name in of_kind(statement, ast.Name) if isinstance(name.ctx, ast.Store)}
    items = (one.value for one in of_kind(statement, ast.Subscript) if isinstance(one.ctx, ast.Store))
    attributes = (one.value for one in of_kind(statement, ast.Attribute) if isinstance(one.ctx, ast.Store))
    return own | {name for value in (*items, *attributes) if (name := id_of(value))}


def _read(statement: ast.stmt) -> set[str]:
    return {name.id for name in of_kind(statement, ast.Name) if isinstance(name.ctx, ast.Load)}


def _asked(statement: ast.stmt) -> set[str]:
    """Return the names of what a statement asks for an attribute, as a call of a method does."""
    return {name for part in of_kind(statement, ast.Attribute) if (name := id_of(part.value))}
