"""An unnecessary `retain_graph=True`: take it out."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tapecheck.fixes.between import hides_uses
from tapecheck.fixes.candidate import Candidate, Context, Strategy, remove_argument, retain_position
from tapecheck.fixes.code import Code
from tapecheck.fixes.edit import Change
from tapecheck.source.nodes import id_of, of_kind


def _is_written(code: Code, call: ast.Call, position: int | None) -> bool:
    """Return whether a call says itself that the graph is retained: what a function was asked for, others may need."""
    values = [keyword.value for keyword in call.keywords if keyword.arg == "retain_graph"]
    if not values and position is not None and len(call.args) > position:
        values = [call.args[position]]
    function = code.function(call)
    asked = {one.arg for one in of_kind(getattr(function, "args", ast.Pass()), ast.arg)}
    return not any(node.id in asked for value in values for node in of_kind(value, ast.Name))


def _dropped(title: str, effect: str, change: Change, written: bool, seen: bool) -> Candidate:
    """Return the fix of a call, which is safe where that says itself that the graph is retained, and all uses of graphs
    are seen.
    """
    check = (() if written else (_ASKED_FOR,)) + (() if seen else (_HIDDEN,))
    return Candidate(title, " ".join((effect, *check)), [change], safe=written and seen)


_ASKED_FOR = "Callers that ask for the graph no longer get it."
_HIDDEN = "Check that no hook, no executed text and nothing that reads what nodes have saved needs it afterwards."


def drop_retain(context: Context) -> Iterator[Candidate]:
    """Take the needless `retain_graph` away."""
    code = context.code
    effect = "The gradients are the same; the graph is freed by this backward instead of later."
    title = "Drop `retain_graph`: nothing runs over this graph again"
    seen: set[ast.Call] = set()
    shown = not hides_uses(context)
    for _, backward in context.backwards_here():
        for on_way, frame in context.calls(backward.at):
            position = retain_position(on_way) if frame == backward.at.span else None
            change = remove_argument(code, on_way, "retain_graph", position) if on_way not in seen else None
            seen.add(on_way)
            if change is not None:
                yield _dropped(title, effect, change, _is_written(code, on_way, position), shown)
    for one in code.calls_in(context.finding.span):
        change = remove_argument(code, one, "retain_graph")
        if change is not None:
            yield _dropped(title, effect, change, _is_written(code, one, None), shown)
    for _, backward in context.backwards_here():
        call = context.call_at(backward.at.span)
        place = retain_position(call) if call is not None else None
        if call is not None and place is not None and len(call.args) > place + 1:
            # What stands behind it would move up into its place.
            given = code.replace(call.args[place], "False")
            passed = "Pass `False` for `retain_graph`: nothing runs over this graph again"
            yield _dropped(passed, effect, given, _is_written(code, call, place), shown)
    yield from _drop_from_options(code, effect, shown)


def _drop_from_options(code: Code, effect: str, shown: bool) -> Iterator[Candidate]:
    """Take it out of `options = {"retain_graph": True}` or `dict(retain_graph=True)`, handed over by `**options`."""
    for node in code.source.nodes_near("retain_graph"):
        if isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and key.value == "retain_graph":
                    off = code.replace(value, "False")
                    off_title = f"Set `retain_graph` to `False` (line {key.lineno}): nothing runs over this graph again"
                    yield _dropped(off_title, effect, off, True, shown)
        elif isinstance(node, ast.Call) and id_of(node.func) == "dict":
            change = remove_argument(code, node, "retain_graph")
            if change is not None:
                gone = f"Drop `retain_graph` (line {node.lineno}): nothing runs over this graph again"
                yield _dropped(gone, effect, change, True, shown)


STRATEGIES: tuple[Strategy, ...] = (drop_retain,)
"""What is proposed, preferred first."""
