"""Parameters without a gradient: what cuts their graph goes."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tapecheck.fixes.candidate import Candidate, Context, Strategy, append, offered
from tapecheck.fixes.code import Code, last_part, stored_pairs
from tapecheck.fixes.story import frames
from tapecheck.fixes.strategies.cuts import cuts_of_finding, effect_of, remove_cut, switch_off_within, ways_out
from tapecheck.fixes.strategies.differentiable import draw_with_graph, past_zeros, stay_in_torch, train_on_scores
from tapecheck.fixes.strategies.frozen import leave_trainable, spare_trained, switch_on_again
from tapecheck.fixes.strategies.gradients import clear_at_another_time
from tapecheck.fixes.strategies.registered import make_optimizer_later
from tapecheck.fixes.strategies.stacked import stack_values
from tapecheck.source.nodes import id_of
from tapecheck.tape import Backward, Span, Tape


def _starts_backward(code: Code, use: ast.expr) -> bool:
    """Return whether a backward starts from a value there: `loss.backward()`, `torch.autograd.grad(loss, x)`."""
    parent = code.parent(use)
    if isinstance(parent, ast.Attribute):
        return parent.attr == "backward"
    called = last_part(parent.func) if isinstance(parent, ast.Call) else ""
    return called in ("backward", "grad", "manual_backward")


def detach_for_the_first(context: Context) -> Iterator[Candidate]:
    """Take the cut out, and detach the value where the loss before its own uses it: a GAN's discriminator."""
    code = context.code
    done: set[Span] = set()
    for tape in context.tapes[:1]:
        for cut in cuts_of_finding(context, tape):
            if cut.how not in ("detach", "no_grad") or cut.at.span in done:
                continue
            done.add(cut.at.span)
            for span in frames(cut.at):
                made = code.statement_at(span)
                name = _name_made(code, made, span)
                uses = _used_before_backward(code, tape, made, name) if made is not None and name is not None else []
                if not uses or any(_starts_backward(code, use) for use in uses):
                    continue
                detached = [append(code, use, ".detach()") for use in uses]
                title = f"Detach `{name}` on line {uses[0].lineno} instead: this loss alone has no use for its graph"
                for way in ways_out(code, cut):
                    yield from offered(title, effect_of(False), *way, *detached, group="detach elsewhere")


def _name_made(code: Code, statement: ast.stmt | None, span: Span) -> str | None:
    """Return the variable that a statement gives the value of an expression in it."""
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return None
    target, inside = statement.targets[0], code.expression_at(span)
    pairs = stored_pairs(target, statement.value)
    return id_of(next((one for one, part in pairs if inside is not None and code.inside(inside, part)), target)) or None


def _used_before_backward(code: Code, tape: Tape, made: ast.stmt, name: str) -> list[ast.expr]:
    """Return where a variable is read between the statement that makes it and the first backward call after it."""
    function, last = code.function(made), made.end_lineno or made.lineno
    statements = [code.statement_at(event.at.span) for event in tape.events if isinstance(event, Backward)]
    here = (one for one in statements if one is not None and code.function(one) is function)
    end = min((one.end_lineno or one.lineno for one in here if one.lineno > made.lineno), default=0)
    return [use for use in code.loads(function, name) if last < use.lineno <= end]


STRATEGIES: tuple[Strategy, ...] = (
    clear_at_another_time,
    switch_off_within,
    remove_cut,
    detach_for_the_first,
    stay_in_torch,
    stack_values,
    spare_trained,
    leave_trainable,
    switch_on_again,
    make_optimizer_later,
    draw_with_graph,
    past_zeros,
    train_on_scores,
)
"""What is proposed, preferred first."""
