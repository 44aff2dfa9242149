"""A root without a graph: what cut it goes, or what it is made of gets one."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tapecheck.fixes import rewrite
from tapecheck.fixes.candidate import Candidate, Context, Strategy
from tapecheck.fixes.code import dotted, last_part
from tapecheck.fixes.strategies.cuts import all_cuts, remove_cut, switch_off_within
from tapecheck.fixes.strategies.differentiable import (
    CASTS,
    TO_INTEGERS,
    draw_with_graph,
    ingredients_of,
    stay_in_torch,
    train_on_scores,
)
from tapecheck.fixes.strategies.frozen import frozen_by, leave_trainable, switch_on_again
from tapecheck.source.nodes import attr_of, of_kind
from tapecheck.tape import Optimizer

_FACTORIES = frozenset({
    "arange", "empty", "eye", "full", "linspace", "logspace", "normal", "ones", "rand", "randn", "tensor", "zeros",
    "ones_like", "rand_like", "randn_like", "zeros_like",
})  # fmt: skip


def without_threshold(context: Context) -> Iterator[Candidate]:
    """Rewrite `(p > 0.5).float()` to `p`, `x.long()` to `x`: a step has no gradient."""
    code = context.code
    for cut in all_cuts(context):
        if cut.how != "nondifferentiable":
            continue
        node = code.expression_at(cut.at.span)
        kept = _smooth(node)
        if kept is None or not isinstance(node, ast.expr):
            continue
        called = node.func if isinstance(node, ast.Call) else None
        what = f"`.{called.attr}()`" if isinstance(called, ast.Attribute) else "the comparison"
        # What only turns the truth values into numbers goes with them.
        outer: ast.expr = node
        while True:
            parent = code.parent(outer)
            above = code.parent(parent) if parent is not None else None
            if not (attr_of(parent) in CASTS and isinstance(above, ast.Call)):
                break
            outer = above
        try:
            text = rewrite.parenthesized(code.segment(kept))
        except rewrite.RewriteError:
            continue
        short = text if len(text) <= 40 else "the value"
        yield Candidate(
            f"Train on `{short}` itself instead of {what}" if short == text else f"Train on the value, without {what}",
            "The loss follows the value smoothly, so that it has a gradient; it is another loss than was written.",
            [code.replace(outer, text)],
            group=f"threshold {cut.at.line}",
        )


def _smooth(node: ast.AST | None) -> ast.expr | None:
    """Return what a step is made of: the left side of a comparison with a constant, what is turned into integers."""
    match node:
        case ast.Compare(left=left, comparators=[ast.Constant()]):
            return left
        case ast.Call(func=ast.Attribute(value=value, attr=name), args=[]) if name in TO_INTEGERS:
            return value
        case ast.Call(func=ast.Attribute(value=value, attr="type" | "to"), args=args):
            to_integers = any(last_part(part) in _INTEGER_TYPES for part in args)
            return value if to_integers else None
    return None


_INTEGER_TYPES = frozenset({"long", "int", "int8", "int16", "int32", "int64", "short", "uint8", "bool", "LongTensor"})


def ask_for_gradient(context: Context) -> Iterator[Candidate]:
    """Set `requires_grad=True` for the tensor whose `.grad` is read, where nothing else has one."""
    code = context.code
    statement = code.statement_at(context.finding.span)
    if statement is None:
        return
    function = code.function(statement)
    wanted = [
        node.value.id
        for node in of_kind(function, ast.Attribute)
        if node.attr == "grad" and isinstance(node.value, ast.Name)
    ]
    behind = ingredients_of(code, statement, function)
    for name in dict.fromkeys([*(name for name in wanted if name in behind), *behind]):
        for store in code.stores(function, name):
            call = store.value if isinstance(store, ast.Assign) else None
            if not isinstance(call, ast.Call) or store.lineno > statement.lineno:
                continue
            called = dotted(call.func) or ""
            if not called.startswith("torch.") or called.rsplit(".", 1)[-1] not in _FACTORIES:
                continue
            if any(isinstance(part, ast.Constant) and type(part.value) is int for part in _contents(call)):
                continue
            try:
                text = rewrite.with_argument(code.segment(call), "requires_grad", "True")
            except rewrite.RewriteError:
                continue
            yield Candidate(
                f"Make `{name}` with `requires_grad=True` (line {store.lineno})",
                f"Whatever is computed from `{name}` has a graph then, and the backward fills `{name}.grad`.",
                [code.replace(call, text)],
                safe=False,
                group="gradient",
                fallback=name not in wanted,
            )


def _contents(call: ast.Call) -> Iterator[ast.AST]:
    """Yield the numbers that a tensor is written with: whole numbers make a tensor that cannot require grad."""
    if last_part(call.func) == "tensor" and call.args:
        yield from ast.walk(call.args[0])


def unfreeze_its_own(context: Context) -> Iterator[Candidate]:
    """Switch on again what the optimizer is given of more that was frozen: the rest stays frozen, as it was meant."""
    yield from _given_trainable(context, whole=False)


def unfreeze(context: Context) -> Iterator[Candidate]:
    """Let the parameters that the optimizer is given require grad, where nothing on the way does."""
    yield from _given_trainable(context, whole=True)


def _given_trainable(context: Context, *, whole: bool) -> Iterator[Candidate]:
    code = context.code
    seen: set[ast.stmt] = set()
    for tape in context.tapes:
        frozen = {leaf for cut in frozen_by(context, tape) for leaf in cut.leaves}
        for event in tape.events:
            if not isinstance(event, Optimizer) or whole != (frozen <= {*event.params, *event.frozen}):
                continue
            call, statement = code.expression_at(event.at.span), code.statement_at(event.at.span)
            if not isinstance(call, ast.Call) or not call.args or statement is None or statement in seen:
                continue
            seen.add(statement)
            given = call.args[0]
            if not isinstance(given, ast.Call) or not isinstance(given.func, ast.Attribute):
                continue
            if given.func.attr != "parameters" or dotted(given.func.value) is None:
                continue
            module = code.segment(given.func.value)
            change = code.insert_before(statement, [f"{module}.requires_grad_(True)"])
            if change is not None:
                yield Candidate(
                    f"Let the parameters of `{module}` require grad",
                    f"The optimizer is given `{module}`: its parameters get gradients and are trained.",
                    [change],
                    fallback=whole,
                )


STRATEGIES: tuple[Strategy, ...] = (
    switch_off_within,
    remove_cut,
    stay_in_torch,
    unfreeze_its_own,
    switch_on_again,
    leave_trainable,
    draw_with_graph,
    train_on_scores,
    without_threshold,
    ask_for_gradient,
    unfreeze,
)
"""What is proposed, preferred first."""
