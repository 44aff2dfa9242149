"""The gradient of a tensor that is not a leaf: let it stay one, or keep the gradient."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tapecheck.fixes.candidate import Candidate, Context, Strategy, append, offered, remove_argument
from tapecheck.fixes.code import Code
from tapecheck.fixes.edit import Change
from tapecheck.fixes.strategies.registered import switches_on
from tapecheck.fixes.strategies.stepped import all_in_place, each_in_place, steps_by_gradient, updates_beside
from tapecheck.rules.backward_without_graph.fixes import asking
from tapecheck.rules.gradient_of_non_leaf.facts import GradientOfNonLeafFacts
from tapecheck.source.nodes import attr_of, id_of, of_kind
from tapecheck.tape import Raised, Site


def _computed(context: Context, *how: str) -> tuple[ast.Assign, str] | None:
    """Return the statement that computes the tensor, and the variable that it stores it in."""
    facts = context.finding.facts
    if not isinstance(facts, GradientOfNonLeafFacts) or facts.how not in how:
        return None
    statement = context.code.statement_at(facts.built)
    if not isinstance(statement, ast.Assign) or not facts.tensor or len(statement.targets) > 1:
        return None
    named = context.code.segment(statement.targets[0]) == facts.tensor
    return (statement, facts.tensor) if named else None


def in_place(context: Context) -> Iterator[Candidate]:
    """Write `w = w - rate * w.grad` as a change in place under no_grad, and clear the gradient behind it: this one, or
    all in its block.
    """
    code, found = context.code, _computed(context, "update", "read")
    if found is None or not steps_by_gradient(found[0]):
        return
    updates = updates_beside(code, found[0])
    for chosen in ([found], updates) if len(updates) > 1 else ([found],):
        yield from all_in_place(context, chosen)


def in_place_together(context: Context) -> Iterator[Candidate]:
    """Write `w, b = w - rate * w.grad, b - rate * b.grad` as changes in place under no_grad."""
    facts = context.finding.facts
    statement = context.code.statement_at(facts.built) if isinstance(facts, GradientOfNonLeafFacts) else None
    if isinstance(statement, ast.Assign):
        yield from each_in_place(context, statement)


def leaf_last(context: Context) -> Iterator[Candidate]:
    """Switch `requires_grad` on behind what computes the value: `(torch.randn(3) * 0.1).requires_grad_()`."""
    code, found = context.code, _computed(context, "given", "read")
    changes = _switched_on_last(code, found[0].value) if found is not None else []
    if found is not None and changes:
        effect = f"`{found[1]}` has the same values, and is a leaf."
        yield from offered("Call `requires_grad_()` last", effect, *changes, safe=context.stops)


def _switched_on_last(code: Code, value: ast.expr) -> list[Change | None]:
    """Return the edits that make a leaf of what is computed of one new leaf; none where it is not, or is that leaf."""
    made = [one for one in of_kind(value, ast.Call) if switches_on(one)]
    if len(made) != 1 or made[0] is value:
        return []
    plain, start, end = isinstance(value, ast.Call), code.start(value), code.end(value)
    return [
        remove_argument(code, made[0], "requires_grad"),
        Change(end, end, f"{'' if plain else ')'}.requires_grad_()"),
        *([] if plain else [Change(start, start, "(")]),
    ]


def leaf_throughout(context: Context) -> Iterator[Candidate]:
    """Switch `requires_grad` on last, of all that the loop steps by its gradient, and step it in place."""
    code, found = context.code, _computed(context, "given", "read")
    function = code.function(found[0]) if found is not None else None
    stores = code.stores(function, found[1]) if found is not None and function is not None else []
    stepped = [one for one in stores if isinstance(one, ast.Assign) and steps_by_gradient(one)]
    if function is None or len(stepped) != 1:
        return
    updates = updates_beside(code, stepped[0])
    made = [one for _, name in updates for one in code.stores(function, name) if isinstance(one, ast.Assign)]
    changes = [change for one in made for change in _switched_on_last(code, one.value)]
    for candidate in all_in_place(context, updates):
        title = f"{candidate.title}, and call `requires_grad_()` last"
        yield from offered(title, candidate.effect, *candidate.changes, *changes, group="in place", fallback=True)


def retain(context: Context) -> Iterator[Candidate]:
    """Keep the gradient of what was computed: `h.retain_grad()`."""
    found = _computed(context, "read")
    if found is not None and not steps_by_gradient(found[0]):
        statement, name = found
        change = context.code.insert_after(statement, [f"{name}.retain_grad()"])
        title, effect = f"Keep its gradient: `{name}.retain_grad()`", f"The backward fills `{name}.grad`, too."
        yield from offered(title, effect, change, safe=context.stops)


def leaf_again(context: Context) -> Iterator[Candidate]:
    """Make what an update computes a leaf again: `x = (x + rate * x.grad).detach().requires_grad_()`."""
    code, facts = context.code, context.finding.facts
    if not isinstance(facts, GradientOfNonLeafFacts) or facts.how == "given":
        return
    made = code.expression_at(facts.built)
    # What is computed once has a gradient of its own to get: cut off, nothing before it would have one.
    if not isinstance(made, (ast.BinOp, ast.Call)) or (facts.how == "read" and not code.loops(made)):
        return
    change = append(code, made, ".requires_grad_()" if facts.ungraded else ".detach().requires_grad_()")
    title = f"Make a leaf again of what line {made.lineno} computes"
    effect = "Each backward fills the gradient of the new tensor; none goes on into the iterations before."
    yield from offered(title, effect, change, safe=context.stops, group="in place", acts=False)


def ask(context: Context) -> Iterator[Candidate]:
    """Let the tensor require grad where it is made, or where a loop is given it."""
    code, facts = context.code, context.finding.facts
    reading = code.statement_at(context.finding.span)
    if not isinstance(facts, GradientOfNonLeafFacts) or not facts.ungraded or facts.how != "read" or reading is None:
        return
    stores = code.stores(code.function(reading), facts.tensor)
    made = [one for one in stores if isinstance(one, ast.Assign) and id_of(one.targets[0]) == facts.tensor]
    for store in reversed([one for one in made if one.lineno <= reading.lineno]):
        yield from asking(code, facts.tensor, [store], known=True)
    for loop in (one for one in stores if isinstance(one, (ast.For, ast.AsyncFor))):
        line = f"{facts.tensor}.requires_grad_()"
        title, effect = f"Call `{line}` first in the loop", f"The backward then fills `{facts.tensor}.grad`."
        yield from offered(title, effect, code.insert_first(loop.body, [line]), group="gradient")


def in_time(context: Context) -> Iterator[Candidate]:
    """Move what reads a gradient that is not there: before what clears it, or behind the next backward."""
    code, facts = context.code, context.finding.facts
    if not isinstance(facts, GradientOfNonLeafFacts) or facts.how != "early":
        return
    clearing = code.statement_at(facts.cleared) if facts.cleared is not None else None
    raised = (one.at for one in context.events(Raised) if one.at.span == context.finding.span)
    for inner in code.statements(next(raised, Site(context.finding.span))):
        reading = code.with_its_holders(_around(code, inner))
        block, gone, lines = code.block(reading), code.delete(reading), code.lines_of(reading)
        index = block.index(reading)
        if gone is None or lines is None or not isinstance(reading, (ast.For, ast.Expr, ast.Assign, ast.AugAssign)):
            continue
        if clearing in block[:index] and any(map(_runs_backward, block[: block.index(clearing)])):
            title = f"Move line {reading.lineno} before what sets the gradient to None (line {clearing.lineno})"
            yield from offered(title, _IN_TIME, gone, code.insert_before(clearing, lines), group="in time")
        later = next(filter(_runs_backward, block[index + 1 :]), None)
        if later is not None:
            title = f"Move line {reading.lineno} behind the backward (line {later.lineno})"
            yield from offered(title, _IN_TIME, gone, code.insert_after(later, lines), group="in time")


def forget(context: Context) -> Iterator[Candidate]:
    """Write `w.grad = None` for `w.grad.zero_()`, where there is nothing to fill with zeros yet."""
    code, facts = context.code, context.finding.facts
    statement = code.statement_at(context.finding.span)
    if not isinstance(facts, GradientOfNonLeafFacts) or facts.how != "early" or facts.cleared is not None:
        return
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Attribute(attr="grad") as gradient, attr="zero_"))):
            line = f"{code.segment(gradient)} = None"
            yield from offered(
                f"Write `{line}`", "It is cleared as well.", code.replace(statement, line), safe=context.stops
            )


_IN_TIME = "It then has the gradient that the backward computes."


def _around(code: Code, inner: ast.stmt) -> ast.stmt:
    """Return the loop over parameters around a statement, where there is one; else the statement."""
    loops = [one for one in code.loops(inner) if isinstance(one, ast.For) and not any(map(_runs_backward, one.body))]
    return loops[-1] if loops and code.function(loops[-1]) is code.function(inner) else inner


def _runs_backward(statement: ast.stmt) -> bool:
    """Return whether a statement calls a backward itself."""
    return any(attr_of(one.func) == "backward" for one in of_kind(statement, ast.Call))


STRATEGIES: tuple[Strategy, ...] = (
    in_place, in_place_together, leaf_last, leaf_throughout, retain, leaf_again, ask, forget, in_time,
)  # fmt: skip
"""What is proposed, preferred first."""
