"""A gradient that a step has used: clear it in time."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from tapecheck.fixes.candidate import Candidate, Context, Strategy, offered
from tapecheck.fixes.code import Code, dotted, walk
from tapecheck.fixes.story import frames
from tapecheck.fixes.strategies.gradients import steps_here
from tapecheck.rules.gradients import gradients_of
from tapecheck.rules.reading import Reading
from tapecheck.rules.stale_gradient.facts import StaleGradientFacts, beside
from tapecheck.rules.words import join
from tapecheck.source.nodes import attr_of, of_kind
from tapecheck.tape import Backward, InPlace, Span, Step, Tape

_SUMMED = "Each step then uses the gradients that were added since the one before it."
_EFFECT = "Each step then uses the gradients of its own backward calls alone."


def call_zero_grad(context: Context) -> Iterator[Candidate]:
    """`optimizer.zero_grad` without parentheses does nothing: call it."""
    code = context.code
    for node in of_kind(code.tree, ast.Expr):
        if attr_of(node.value) == "zero_grad":
            yield Candidate(
                f"Call it: `{code.segment(node.value)}()`",
                f"Without parentheses line {node.lineno} clears nothing. {_EFFECT}",
                [code.replace(node.value, f"{code.segment(node.value)}()")],
                group="clear",
            )


def clear_in_time(context: Context) -> Iterator[Candidate]:
    """Clear before the backward, or after the step where several backward calls come together in it."""
    code, facts = context.code, context.finding.facts
    summed = facts.summed if isinstance(facts, StaleGradientFacts) else "no"
    if isinstance(facts, StaleGradientFacts) and facts.unlisted:
        # Where several backward calls come together in a step, clearing before each would lose all but the last.
        first = next(context.backwards_here(), None)
        if first is not None and facts.clearing and summed == "no":
            yield from _before(code, first[1], facts.clearing, "clear")
        return
    for tape, backward in context.backwards_here():
        for step in _steps_by(tape, context):
            owner = _owner(code, step)
            if not owner:
                continue
            line = f"{owner}.zero_grad()"
            before = list(_before(code, backward, (line,), "before" if summed == "may" else "clear"))
            others = beside(facts)
            if summed == "no" and (others or _alone(tape, step, backward)):
                yield from before
            if others:
                # After the step, what the other loss adds would be left for the next one.
                continue
            yield from _after(code, step, line)
            if summed == "may":
                yield from before
        break


def clear_where_stepped(context: Context) -> Iterator[Candidate]:
    """Put `p.grad = None` behind `p -= rate * p.grad`: the loop that steps has a name for each parameter."""
    code, facts = context.code, context.finding.facts
    if not isinstance(facts, StaleGradientFacts) or not facts.unlisted or beside(facts):
        return
    told = [one for one in (code.statement_at(label.span) for label in context.labels("step")) if one is not None]
    scopes = list(map(code.function, told))
    changes = (event.at.span for event in context.events(InPlace) if event.leaf is not None and event.optimizer is None)
    found = [one for one in map(code.statement_at, dict.fromkeys(changes)) if one is not None]
    steps = [one for one in dict.fromkeys([*told, *found]) if code.function(one) in scopes]
    pairs = [(step, name) for step in steps if (name := _stepped(code, step))]
    names = list(dict.fromkeys(name for _, name in pairs))
    lines = [f"{name}.grad = None" for name in names]
    edits = [code.insert_after(step, [f"{name}.grad = None"]) for step, name in pairs]
    if len(set(pairs)) == len(names) and set(told) <= {step for step, _ in pairs}:
        title = f"Clear after the step: {join(f'`{line}`' for line in lines)}"
        yield from offered(title, _SUMMED, *edits, group="clear")


def _stepped(code: Code, step: ast.stmt) -> str:
    """Return the name of what a statement changes whose gradient its function reads; empty of anything else."""
    match step:
        case ast.AugAssign(target=changed) | ast.Assign(targets=[changed]):
            pass
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=changed))):
            pass
        case _:
            return ""
    while isinstance(changed, ast.Subscript) or (isinstance(changed, ast.Attribute) and changed.attr == "data"):
        changed = changed.value
    name = dotted(changed) or ""
    return name if any(_reads_gradient(one, name) for one in walk(code.function(step))) else ""


def _reads_gradient(node: ast.AST, name: str) -> bool:
    return attr_of(node) == "grad" and isinstance(node, ast.Attribute) and dotted(node.value) == name


def keep_what_is_shared(context: Context) -> Iterator[Candidate]:
    """Fill with zeros what two parameters share, in the place of dropping it for one of them."""
    code, facts = context.code, context.finding.facts
    dropped = facts.dropped if isinstance(facts, StaleGradientFacts) else None
    call = code.expression_at(dropped) if dropped is not None else None
    if isinstance(call, ast.Call) and attr_of(call.func) == "zero_grad" and not (call.args or call.keywords):
        written = f"{code.segment(call.func)}(set_to_none=False)"
        yield Candidate(
            f"Keep the tensors on line {call.lineno}: `{written}`",
            "The next backward adds to the tensors that both parameters share, so that each step uses new gradients.",
            [code.replace(call, written)],
            group="keep",
        )


def _before(code: Code, backward: Backward, lines: Sequence[str], group: str) -> Iterator[Candidate]:
    title = f"Clear before the backward: {join(f'`{line}`' for line in lines)}"
    for statement in filter(None, map(code.statement_at, frames(backward.at))):
        yield from offered(title, _EFFECT, code.insert_before(statement, lines), group=group)


def _after(code: Code, step: Step, line: str) -> Iterator[Candidate]:
    for span in frames(step.at):
        statement = code.statement_at(span)
        if statement is None or not steps_here(statement, span):
            continue
        yield from offered(
            f"Clear after the step: `{line}`", _SUMMED, code.insert_after(statement, [line]), group="clear"
        )
        return


def _owner(code: Code, step: Step) -> str:
    """Return the optimizer of a step as the program writes it, `optimizers["G"]` too; nothing where that is unknown."""
    owner, _, method = step.call.rpartition(".")
    if owner and method == "step":
        return owner
    call = code.expression_at(step.at.span)
    function = call.func if isinstance(call, ast.Call) else None
    if not isinstance(function, ast.Attribute) or function.attr != "step":
        return ""
    held = function.value
    known = isinstance(held, ast.Subscript) and isinstance(held.slice, ast.Constant) and dotted(held.value) is not None
    return code.segment(held) if known else ""


def _steps_by(tape: Tape, context: Context) -> list[Step]:
    """Return a step for each place that uses the gradients, as the finding tells; of two optimizers that of the next
    one comes first.
    """
    spans = {label.span for label in context.labels("step")}
    found: dict[Span, Step] = {}
    for event in tape.events:
        if isinstance(event, Step) and event.at.span in spans:
            found.setdefault(event.at.span, event)
    steps = list(found.values())
    return steps[::-1] if len({step.optimizer for step in steps}) > 1 else steps


def _alone(tape: Tape, step: Step, backward: Backward) -> bool:
    """Return whether no other call adds to the gradients of this step's optimizer between two of its steps."""
    gradients = gradients_of(Reading(tape))
    for leaf, optimizers in gradients.steppable.items():
        if step.optimizer not in optimizers:
            continue
        since: set[Span] = set()
        for moment in gradients.moments(leaf):
            if moment.kind == "added":
                since.add(moment.at.span)
            elif moment.kind == "stepped":
                if backward.at.span in since and len(since) > 1:
                    return False
                since.clear()
    return True


STRATEGIES: tuple[Strategy, ...] = (
    call_zero_grad,
    clear_in_time,
    clear_where_stepped,
    keep_what_is_shared,
)
"""What is proposed, preferred first."""
