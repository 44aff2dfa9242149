"""A switch of recording that asks something else than what the backward is run for."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tapecheck.fixes.candidate import Candidate, Context, offered
from tapecheck.fixes.code import Code, dotted, last_part
from tapecheck.fixes.edit import Change
from tapecheck.fixes.noticed import doubt_of_recording
from tapecheck.fixes.story import frames
from tapecheck.fixes.strategies.cuts import READ_ELSEWHERE, all_cuts
from tapecheck.fixes.uncut import only_torch_reads
from tapecheck.source.nodes import of_kind

_EFFECT = "Recording is on where the backward is run for what was computed, and off where it is not."
_WALKED = "It is run for what has a graph, and not where recording is off."
_ASKED_TWICE = "Check that the condition has the same answer at both places."
_SETTLED = (
    ast.Name, ast.Constant, ast.Compare, ast.BoolOp, ast.UnaryOp, ast.expr_context, ast.cmpop, ast.boolop, ast.unaryop,
)  # fmt: skip
"""Of what a condition is made that has one answer as long as its names are not stored to."""


def record_where_walked(context: Context) -> Iterator[Candidate]:
    """Rewrite `set_grad_enabled(phase == "fit")` to what the backward's own `if` asks: `phase == "train"`."""
    code = context.code
    backward = code.statement_at(context.finding.span)
    if backward is None:
        return
    for switch in _switches(context):
        if code.function(switch) is not code.function(backward) or code.start(switch) > code.start(backward):
            continue
        guards = _guards(code, backward, switch)
        asked = " and ".join(_text(code, *guard, alone=len(guards) == 1) for guard in guards)
        if not guards or "\n" in asked or asked == code.segment(switch.args[0]):
            continue
        settled = all(isinstance(node, _SETTLED) for test, _ in guards for node in ast.walk(test))
        only_torch = only_torch_reads(context, [cut.at.span for cut in all_cuts(context)], shown=True)
        doubts = (
            doubt_of_recording(context), "" if settled else _ASKED_TWICE, "" if only_torch else READ_ELSEWHERE,
        )  # fmt: skip
        yield from offered(
            f"Record where the backward is run: `set_grad_enabled({asked})`",
            _EFFECT,
            code.replace(switch.args[0], asked),
            safe=context.stops,
            group="switch",
            doubt=" ".join(filter(None, doubts)),
        )


def walk_where_recorded(context: Context) -> Iterator[Candidate]:
    """Put a backward under the condition that `set_grad_enabled(phase == "train")` asks: `if phase == "train":`."""
    code = context.code
    backward = code.statement_at(context.finding.span)
    if not isinstance(backward, ast.Expr):
        return
    for switch in _switches(context):
        asked = switch.args[0]
        if code.function(switch) is not code.function(backward) or code.start(switch) > code.start(backward):
            continue
        if not _is_settled(code, asked, switch, backward) or _guards(code, backward, switch):
            continue
        text, lines = code.segment(asked), code.lines_of(backward)
        changes: list[Change | None] = [*(code.wrap(backward, backward, f"if {text}:") or ())]
        doubt = "Check what else belongs under the condition: a step does."
        block = code.block(backward)
        match block[block.index(backward) + 1 :][:1]:
            case [ast.If(test=test, body=body)] if code.segment(test) == text and lines is not None:
                changes, doubt = [code.delete(backward), code.insert_first(body, lines)], ""
        title = f"Run the backward where it is recorded: `if {text}`"
        yield from offered(title, _WALKED, *changes, safe=context.stops, group="switch", doubt=doubt)


def _is_settled(code: Code, asked: ast.expr, switch: ast.Call, until: ast.stmt) -> bool:
    """Return whether a condition that a switch asks has the same answer at a later statement, by the text."""
    if not all(isinstance(node, _SETTLED) for node in ast.walk(asked)) or isinstance(asked, ast.Constant):
        return False
    return not _is_stored_to(code, asked, code.function(until), code.start(switch), code.start(until))


def _is_stored_to(code: Code, test: ast.expr, function: ast.AST, after: int, before: int) -> bool:
    """Return whether what a condition asks is stored to in a function between two places of its text."""
    names = {name for node in of_kind(test, ast.expr) if (name := dotted(node)) is not None}
    return any(after < code.start(store) < before for name in names for store in code.stores(function, name))


def _switches(context: Context) -> Iterator[ast.Call]:
    """Yield the calls of `set_grad_enabled`, with a condition, that switched recording off at the finding's cuts."""
    code, cuts = context.code, [cut for cut in all_cuts(context) if cut.how == "no_grad"]
    places = [span for cut in cuts for span in (*frames(cut.at), *cut.within, cut.off_at) if span is not None]
    statements = filter(None, map(code.statement_at, dict.fromkeys(places)))
    around = dict.fromkeys(one for statement in statements for one in (statement, *code.parents(statement)))
    return (call for one in around for call in _switched_by(one) if not isinstance(call.args[0], ast.Constant))


def _switched_by(statement: ast.AST) -> list[ast.Call]:
    asked: list[ast.expr] = []
    match statement:
        case ast.With(items=items):
            asked = [item.context_expr for item in items]
        case ast.Expr(value=value):
            asked = [value]
    calls = [one for one in asked if isinstance(one, ast.Call)]
    return [call for call in calls if last_part(call.func) == "set_grad_enabled" and len(call.args) == 1]


def _guards(code: Code, backward: ast.stmt, switch: ast.Call) -> list[tuple[ast.expr, bool]]:
    """Return the conditions under which a backward is run, outermost first, that the switch can ask as well, each with
    the answer that it is run for.
    """
    inner: ast.AST = backward
    found: list[tuple[ast.expr, bool]] = []
    for around in code.parents(backward):
        if isinstance(around, ast.If) and not code.inside(switch, around) and _answered_before(code, around, switch):
            found.insert(0, (around.test, inner in around.body))
        inner = around
    return found


def _answered_before(code: Code, condition: ast.If, switch: ast.Call) -> bool:
    """Return whether a condition has the same answer at a switch before it, as far as the text says."""
    if any(isinstance(node, (ast.Call, ast.NamedExpr)) for node in ast.walk(condition.test)):
        return False
    own = [loop for loop in code.loops(condition) if not code.inside(switch, loop)]
    end = max((code.end(loop) for loop in own), default=code.start(condition))
    return not _is_stored_to(code, condition.test, code.function(condition), code.start(switch), end)


def _text(code: Code, test: ast.expr, wanted: bool, *, alone: bool) -> str:
    """Return a condition that holds where a test has the wanted answer, as an operand unless it stands alone."""
    text = code.segment(test)
    if not wanted:
        return f"not {text}" if isinstance(test, (ast.Name, ast.Attribute)) else f"not ({text})"
    return text if alone or not isinstance(test, (ast.BoolOp, ast.IfExp, ast.Lambda)) else f"({text})"
