"""An update that changes nothing: make it in place, keep its result, or call what is only named."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tapecheck.fixes.candidate import Candidate, Context, Strategy, offered
from tapecheck.fixes.code import Code
from tapecheck.fixes.edit import Change
from tapecheck.fixes.strategies.cuts import is_under_no_grad
from tapecheck.rules.update_without_effect.facts import UpdateWithoutEffectFacts
from tapecheck.source.nodes import id_of

_EFFECT = "The line then does what it says, and with it changes what the program learns."


def call_it(context: Context) -> Iterator[Candidate]:
    """Add the parentheses."""
    statement = _statement(context, "uncalled")
    if isinstance(statement, ast.Expr):
        text = context.code.segment(statement.value)
        yield from offered(f"Call it: `{text}()`", _EFFECT, context.code.replace(statement.value, f"{text}()"))


def keep_the_result(context: Context) -> Iterator[Candidate]:
    """Store what `h.detach()` returns in `h`; switch a leaf off that is to be trained no longer."""
    code, called, facts = context.code, _dropped(context), context.finding.facts
    if called is None or called.attr != "detach" or not isinstance(facts, UpdateWithoutEffectFacts):
        return
    owner, start = code.segment(called.value), code.start(called)
    if facts.of == "leaf":
        text = f"{owner}.requires_grad_(False)"
        yield from offered(f"Switch it off: `{text}`", _EFFECT, code.replace(code.parent(called) or called, text))
    elif facts.of == "result" and isinstance(called.value, (ast.Name, ast.Attribute)):
        yield from offered(
            f"Keep the result: `{owner} = {owner}.detach()`", _EFFECT, Change(start, start, f"{owner} = ")
        )


def in_place(context: Context) -> Iterator[Candidate]:
    """Change the tensor itself: a leaf under `no_grad`, where autograd does not record that."""
    code, called, statement = context.code, _dropped(context), _statement(context, "renamed")
    if called is not None and called.attr != "detach":
        text, call = f"{code.segment(called)}_", code.parent(called) or called
        given = code.text[code.end(called) : code.end(call)]
        yield from _rewritten(context, f"{text}{given}", f"Change it in place: `{text}`")
    if isinstance(statement, ast.Assign):
        name = id_of(statement.targets[0])
        yield from _rewritten(context, _changing(code, name, statement.value), f"Change `{name}` in place")


def _changing(code: Code, name: str, value: ast.expr) -> str:
    """Return the statement that gives a tensor a value in place."""
    match value:
        case ast.BinOp(left=ast.Name(id=left), op=ast.Sub() | ast.Add() as op, right=right) if left == name:
            return f"{name} {'-=' if isinstance(op, ast.Sub) else '+='} {code.segment(right)}"
    return f"{name}.copy_({code.segment(value)})"


def _rewritten(context: Context, text: str, title: str) -> Iterator[Candidate]:
    """Yield a statement in the place of the one that changes nothing, and where that may raise, under `no_grad`."""
    code = context.code
    statement = code.statement_at(context.finding.span)
    if statement is None:
        return
    yield from offered(title, _EFFECT, Change(code.start(statement), code.end(statement), text), group="in place")
    indent = code.indent(statement)
    if not is_under_no_grad(code, statement) and indent is not None and code.alone(statement):
        torch, needed = code.torch()
        block = f"with {torch}.no_grad():\n{indent}    {text}"
        change = Change(code.start(statement), code.end(statement), block)
        yield from offered(f"{title} under `{torch}.no_grad()`", _EFFECT, change, *needed, group="in place")


def _statement(context: Context, how: str) -> ast.stmt | None:
    """Return the statement of a finding of one kind."""
    facts = context.finding.facts
    if not isinstance(facts, UpdateWithoutEffectFacts) or facts.how != how:
        return None
    return context.code.statement_at(context.finding.span)


def _dropped(context: Context) -> ast.Attribute | None:
    """Return the method of the call whose result is dropped."""
    match _statement(context, "dropped"):
        case ast.Expr(value=ast.Call(func=ast.Attribute() as called)):
            return called
    return None


STRATEGIES: tuple[Strategy, ...] = (call_it, keep_the_result, in_place)
"""What is proposed, preferred first."""
