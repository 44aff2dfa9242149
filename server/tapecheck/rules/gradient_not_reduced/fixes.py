"""Gradients that are not averaged: call the wrapper, or run one backward."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from tapecheck.fixes.candidate import Candidate, Context, Strategy, offered
from tapecheck.fixes.code import Code
from tapecheck.fixes.edit import Change
from tapecheck.rules.backward_twice.fixes import sum_losses
from tapecheck.rules.checkpoint_without_gradient.fixes import other_kind
from tapecheck.rules.gradient_not_reduced.facts import GradientNotReducedFacts
from tapecheck.source.nodes import is_literal, method_called, of_kind, passed
from tapecheck.tape import Span, Wrapper

_UNSYNCED = ("no_sync", "no_backward_sync")
_EACH = "Average the gradients in each backward: no `no_sync` on line {}"
_SUMS = "The sum of the averages is the average of the sums; each backward waits for the other processes."
_LAST = "The last backward before a step averages what has been added up; those before it do not wait."
_BY_HAND = (
    "What was averaged already stays as it is. Check that in each process the same parameters have a gradient: each "
    "`all_reduce` waits for all processes."
)
_NAMES = ("group", "param_group"), ("parameter", "param", "p")
"""What the loops over an optimizer's parameters may bind, likelier names first."""
_AVERAGE = (
    "for {0} in {optimizer}.param_groups:",
    '    for {1} in {0}["params"]:',
    "        if {1}.grad is not None:",
    "            {dist}.all_reduce({1}.grad)",
    "            {1}.grad /= {dist}.get_world_size()",
)


def call_wrapper(context: Context) -> Iterator[Candidate]:
    """Rewrite `model.module(x)` to `model(x)` in the function that runs the backward."""
    code, facts = context.code, context.finding.facts
    call = context.call_at(context.finding.span)
    if call is None or not isinstance(facts, GradientNotReducedFacts) or facts.cause != "bypass":
        return
    inner = (node.func for node in of_kind(code.function(call), ast.Call) if isinstance(node.func, ast.Attribute))
    changes = [code.replace(func, code.segment(func.value)) for func in inner if func.attr == "module"]
    effect = "Its backward averages the gradients between the processes."
    yield from offered("Call the wrapped model instead of `.module`", effect, *changes)


def not_reentrant(context: Context) -> Iterator[Candidate]:
    """Pass `use_reentrant=False` to each of the checkpoints."""
    facts = context.finding.facts
    spans = facts.checkpoints if isinstance(facts, GradientNotReducedFacts) else ()
    effect = "One backward adds up all uses of a parameter before the gradients are averaged."
    yield from other_kind(context, spans, effect)


def average_each(context: Context) -> Iterator[Candidate]:
    """Take `no_sync` away where a step needs a forward under it; of two that a condition chooses, swap them."""
    code, facts = context.code, context.finding.facts
    if not isinstance(facts, GradientNotReducedFacts) or facts.cause != "no_sync":
        return
    for call in (call for call in of_kind(code.tree, ast.Call) if method_called(call) in _UNSYNCED):
        choice = code.parent(call)
        if isinstance(choice, ast.IfExp):
            arms = code.segment(choice.body), code.segment(choice.orelse)
            swapped = [code.replace(choice.body, arms[1]), code.replace(choice.orelse, arms[0])]
            yield Candidate(f"Swap what line {call.lineno} chooses between", _LAST, swapped, group="no_sync")
            other = choice.orelse if choice.body is call else choice.body
            yield Candidate(
                _EACH.format(call.lineno), _SUMS, [code.replace(choice, code.segment(other))], group="no_sync"
            )
        elif isinstance(choice, ast.withitem):
            statement = code.statement(call)
            changes = code.without_item(statement, choice) if isinstance(statement, (ast.With, ast.AsyncWith)) else None
            if changes is not None:
                yield Candidate(_EACH.format(call.lineno), _SUMS, changes, group="no_sync")


def reduce_each(context: Context) -> Iterator[Candidate]:
    """Let a sharded model reduce gradients in each backward: `model.set_requires_gradient_sync(True)`."""
    code, facts = context.code, context.finding.facts
    if not isinstance(facts, GradientNotReducedFacts) or facts.cause != "unsynced":
        return
    for call in (call for call in of_kind(code.tree, ast.Call) if method_called(call) == "set_requires_gradient_sync"):
        given = passed(call, "requires_gradient_sync")
        argument = given.value if given is not None else call.args[0] if call.args else None
        if argument is not None and not is_literal(argument, True):
            title = f"Reduce the gradients in each backward: pass `True` (line {call.lineno})"
            yield Candidate(title, _SUMS, [code.replace(argument, "True")], group="no_sync")


def average_by_hand(context: Context) -> Iterator[Candidate]:
    """Average what the optimizer steps with between the processes: right behind the backward, or before the step."""
    code, facts = context.code, context.finding.facts
    if not isinstance(facts, GradientNotReducedFacts) or _is_sharded(context, facts.wrapped):
        return
    for step in (label.span for label in context.labels("step")):
        optimizer, statement = _stepped_by(code, code.expression_at(step)), code.statement_at(step)
        if not optimizer or statement is None:
            continue
        backward = code.statement_at(context.finding.span) if facts.cause != "grad" else None
        behind = _ends_before(code, backward, statement) if backward is not None else None
        lines, needed = _averaging(code, statement, optimizer)
        change = code.insert_before(statement, lines) if behind is None else code.insert_after(behind, lines)
        where = f"before line {statement.lineno}" if behind is None else f"behind line {behind.lineno}"
        if lines and change is not None:
            yield Candidate(f"Average the gradients by hand {where}", _BY_HAND, [*needed, change], fallback=True)


def _averaging(code: Code, statement: ast.stmt, optimizer: str) -> tuple[list[str], list[Change]]:
    """Return the lines that average what an optimizer steps with, and the import that they need; no lines where the
    function of a statement uses all names that they might bind.
    """
    names = [_free(code, statement, those) for those in _NAMES]
    distributed, needed = code.module("torch.distributed")
    return [line.format(*names, optimizer=optimizer, dist=distributed) for line in _AVERAGE if all(names)], needed


def _free(code: Code, statement: ast.stmt, names: Sequence[str]) -> str:
    """Return the first of some names that the function of a statement uses for nothing; empty where it uses all."""
    return next((name for name in names if not code.named(code.function(statement), name)), "")


def _is_sharded(context: Context, wrapped: Span) -> bool:
    return any(event.sharded for event in context.events(Wrapper) if event.at.span == wrapped)


def _ends_before(code: Code, backward: ast.stmt, step: ast.stmt) -> ast.stmt | None:
    """Return what runs the backward in the block of the step: what comes between them, as a clip, works with what the
    step gets.
    """
    pair = code.same_block(backward, step)
    return pair[0] if pair is not None and pair[0] is not pair[1] and pair[0].lineno < pair[1].lineno else None


def _stepped_by(code: Code, call: ast.expr | None) -> str:
    """Return the optimizer of `optimizer.step()` or `scaler.step(optimizer)` as it is written; empty for others."""
    if not isinstance(call, ast.Call) or method_called(call) != "step" or not isinstance(call.func, ast.Attribute):
        return ""
    return code.segment(call.args[0] if call.args else call.func.value)


STRATEGIES: tuple[Strategy, ...] = (call_wrapper, not_reentrant, sum_losses, average_each, reduce_each, average_by_hand)
"""What is proposed, preferred first."""
