"""A gradient that needs a graph: ask for one."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tapecheck.fixes.candidate import Candidate, Context, Strategy
from tapecheck.fixes.code import Code, last_part, walk
from tapecheck.fixes.edit import Change
from tapecheck.fixes.story import frames
from tapecheck.fixes.strategies.arguments import passes_retain, take_gradient, with_create_graph
from tapecheck.source.nodes import last_name, of_kind
from tapecheck.tape import Cut, Span

_LEARNED = (
    "The term now changes what is learned: its own gradient reaches the parameters. "
    "The graph of the gradient is built too, which costs memory and time."
)


def create_graph(context: Context) -> Iterator[Candidate]:
    """Put `create_graph=True` in the grad call whose result goes into the loss, or in all on the way to it."""
    code = context.code
    changes: dict[ast.Call, Change] = {}
    for call in _grad_calls(context):
        if (change := with_create_graph(code, call)) is not None:
            changes[call] = change
            title = f"Take the gradient on line {call.lineno} with `create_graph=True`: it is then learned from"
            yield Candidate(title, _LEARNED, [change], group="create")
    # A derivative of a derivative: each of them needs a graph.
    statement = code.statement_at(context.finding.span)
    others = (call for call in _taken_around(code, statement) if call not in changes)
    for call in (call for call in others if statement is not None and call.lineno <= (statement.end_lineno or 0)):
        if (change := with_create_graph(code, call)) is not None:
            changes[call] = change
    if len(changes) > 1:
        lines = ", ".join(map(str, sorted({call.lineno for call in changes})))
        title = f"Take the gradients on lines {lines} with `create_graph=True`: they are then learned from"
        yield Candidate(title, _LEARNED, list(changes.values()), group="create")


def _taken_around(code: Code, statement: ast.stmt | None) -> list[ast.Call]:
    """Return the calls that take gradients in the function of a statement."""
    nodes = walk(code.function(statement)) if statement is not None else ()
    return [node for node in nodes if isinstance(node, ast.Call) and last_part(node.func) == "grad"]


def _grad_calls(context: Context) -> list[ast.Call]:
    """Return the calls that took the gradient without a graph, or handed keywords to what took it; likeliest first."""
    code = context.code
    labelled = [label.span for label in context.labels("cut", "built", "path")]
    spans = [*_taken_at(context, {span.line for span in labelled}), *labelled]
    calls: list[ast.Call] = []
    for call in (call for span in spans for call in code.calls_in(span)):
        name = last_name(call.func)
        if call not in calls and (name == "grad" or passes_retain(call) is not None):
            calls.append(call)
    # Keywords that `functools.partial` has put aside for the function, or for `autograd.grad` itself.
    around = [found for span in spans if (found := code.statement_at(span)) is not None]
    functions = {getattr(code.function(one), "name", "") for one in around} | {"grad"}
    aside = [call for call in of_kind(code.tree, ast.Call) if last_name(call.func) == "partial" and call.args]
    calls += [call for call in aside if call not in calls and last_part(call.args[0]) in functions - {""}]
    # Nothing on the tapes: the gradients taken in the function of the finding.
    return calls or _taken_around(code, code.statement_at(context.finding.span))


def _taken_at(context: Context, lines: set[int]) -> Iterator[Span]:
    """Yield where gradients without a graph were taken, with the calls that led there: those that are in a root of the
    backward, and those of some lines.
    """
    for tape in context.tapes:
        cuts = {event.id: event for event in tape.events if isinstance(event, Cut) and event.how == "grad"}
        roots = [root for other, backward in context.backwards_here() if other is tape for root in backward.roots]
        for number in (number for root in roots for number in (*root.constant_terms, *root.cuts)):
            if number in cuts:
                yield from frames(cuts[number].at)
        for cut in cuts.values():
            if any(frame.line in lines for frame in frames(cut.at)):
                yield from frames(cut.at)


STRATEGIES: tuple[Strategy, ...] = (
    create_graph,
    take_gradient,
)
"""What is proposed, preferred first."""
