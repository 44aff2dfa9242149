"""A root without a graph: what cut it goes, or what it is made of gets one."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tapecheck.fixes import rewrite
from tapecheck.fixes.candidate import Candidate, Context, Strategy, append, offered
from tapecheck.fixes.code import Code, dotted, last_part
from tapecheck.fixes.edit import Change
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
from tapecheck.fixes.strategies.recorded import record_where_walked, walk_where_recorded
from tapecheck.fixes.strategies.stacked import stack_values
from tapecheck.fixes.strategies.stepped import update_in_place
from tapecheck.rules.words import join
from tapecheck.source.nodes import attr_of, method_called, of_kind
from tapecheck.tape import Bind, Optimizer

_FACTORIES = frozenset({
    "arange", "empty", "eye", "full", "linspace", "logspace", "normal", "ones", "rand", "randn", "tensor", "zeros",
    "empty_like", "full_like", "ones_like", "rand_like", "randn_like", "zeros_like",
})  # fmt: skip


def without_threshold(context: Context) -> Iterator[Candidate]:
    """Rewrite `(p > 0.5).float()` to `p`, `x.long()` to `x`: a step has no gradient."""
    code = context.code
    for cut in all_cuts(context):
        if cut.how != "nondifferentiable":
            continue
        node = code.expression_at(cut.at.span)
        kept = _smooth(node) or _compared(context, node)
        text = rewrite.tried(rewrite.parenthesized, code.segment(kept)) if kept is not None else None
        if text is None or node is None:
            continue
        what = f"`.{method_called(node)}()`" if method_called(node) else "the comparison"
        # What only turns the truth values into numbers goes with them.
        outer: ast.expr = node
        while (parent := code.parent(outer)) is not None and attr_of(parent) in CASTS:
            if not isinstance(above := code.parent(parent), ast.Call):
                break
            outer = above
        short = text if len(text) <= 40 else "the value"
        yield Candidate(
            f"Train on `{short}` itself instead of {what}" if short == text else f"Train on the value, without {what}",
            "The loss follows the value smoothly, so that it has a gradient; it is another loss than was written.",
            [code.replace(outer, text)],
            group=f"threshold {cut.at.line}",
        )


def _compared(context: Context, node: ast.AST | None) -> ast.expr | None:
    """Return what `p > self.level`, `p.ge(level)` or `torch.gt(p, level)` says is large, where the level has no graph.

    Of a value that is to be small, the value itself would be trained the other way.
    """
    match node:
        case ast.Compare(left=value, ops=[ast.Gt() | ast.GtE()], comparators=[level]):
            pass
        case ast.Call(func=ast.Attribute(value=value, attr=name), args=[level], keywords=[]) if name in _GREATER:
            pass
        case ast.Call(func=ast.Attribute(attr=name), args=[value, level], keywords=[]) if name in _GREATER:
            if not context.code.path(node.func).startswith("torch."):
                return None
        case _:
            return None
    with_graph = (bind.name for bind in context.events(Bind) if bind.node is not None)
    named = dotted(level) is not None and last_part(level) not in map(_last, with_graph)
    plain = isinstance(level, ast.Constant) or named
    return value if plain else None


_GREATER = frozenset({"gt", "ge", "greater", "greater_equal"})


def _last(name: str) -> str:
    return name.rpartition(".")[2]


def _smooth(node: ast.AST | None) -> ast.expr | None:
    """Return what a step is made of: what a comparison with a constant says is large, what is turned into integers."""
    match node:
        case ast.Compare(left=left, ops=[ast.Gt() | ast.GtE()], comparators=[ast.Constant()]):
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
    wanted = _wanted(context, function)
    behind = ingredients_of(code, statement, function)
    for name in dict.fromkeys([*(name for name in wanted if name in behind), *behind]):
        stores = [one for one in code.stores(function, name) if isinstance(one, ast.Assign) and len(one.targets) == 1]
        before = [one for one in stores if one.lineno <= statement.lineno]
        for store in before:
            yield from asking(code, name, [store], known=name in wanted)
        # What is made anew in each round must ask for its gradient in each.
        again = [one for one in stores if one not in before and code.loops(statement) and code.loops(one)]
        if before and again:
            yield from asking(code, name, [before[-1], *again], known=name in wanted)


def _wanted(context: Context, function: ast.AST) -> list[str]:
    """Return the names whose `.grad` a function reads, and those that are inputs of the `autograd.grad` that fails."""
    read = [node.value for node in of_kind(function, ast.Attribute) if node.attr == "grad"]
    calls = [call for call in context.code.calls_in(context.finding.span) if last_part(call.func) == "grad"]
    given = [call.args[1] for call in calls if len(call.args) > 1]
    given += [keyword.value for call in calls for keyword in call.keywords if keyword.arg == "inputs"]
    parts = (one.elts if isinstance(one, (ast.List, ast.Tuple)) else [one] for one in given)
    return [one.id for one in (*read, *(part for some in parts for part in some)) if isinstance(one, ast.Name)]


def asking(code: Code, name: str, stores: list[ast.Assign], *, known: bool) -> Iterator[Candidate]:
    """Yield the statements that make a tensor, each asking for its gradient: `known` says that the program reads it."""
    changes = [_with_gradient(code, store.value, known=known) for store in stores]
    written = all(_makes_floats(store.value) for store in stores)
    how = "`requires_grad=True`" if written else "`.requires_grad_()`"
    where = f"line{'s' if len(stores) > 1 else ''} {join(str(store.lineno) for store in stores)}"
    yield from offered(
        f"Make `{name}` with {how} ({where})",
        f"Whatever is computed from `{name}` has a graph then, and the backward fills `{name}.grad`.",
        *changes,
        group="gradient",
        fallback=not known,
    )


def _with_gradient(code: Code, value: ast.expr, *, known: bool) -> Change | None:
    if _makes_floats(value):
        return code.rewritten(value, rewrite.with_argument, "requires_grad", "True")
    # Under another name of a tensor, that one would get a gradient as well.
    return append(code, value, ".requires_grad_()") if known and isinstance(value, (ast.Call, ast.BinOp)) else None


def _makes_floats(value: ast.expr) -> bool:
    """Return whether a function of torch makes a tensor that can require grad: one of whole numbers cannot."""
    called = (dotted(value.func) or "") if isinstance(value, ast.Call) else ""
    if not isinstance(value, ast.Call) or not called.startswith("torch.") or last_part(value.func) not in _FACTORIES:
        return False
    contents = value.args[0] if called.endswith(".tensor") and value.args else None
    numbers = of_kind(contents, ast.Constant) if contents is not None else []
    return not any(type(one.value) is int for one in numbers)


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
            call, statement = context.call_at(event.at.span), code.statement_at(event.at.span)
            if call is None or not call.args or statement is None or statement in seen:
                continue
            seen.add(statement)
            match call.args[0]:
                case ast.Call(func=ast.Attribute(value=given, attr="parameters")) if dotted(given) is not None:
                    module = code.segment(given)
                    for change in filter(None, [code.insert_before(statement, [f"{module}.requires_grad_(True)"])]):
                        yield Candidate(
                            f"Let the parameters of `{module}` require grad",
                            f"The optimizer is given `{module}`: its parameters get gradients and are trained.",
                            [change],
                            fallback=whole,
                        )


STRATEGIES: tuple[Strategy, ...] = (
    switch_off_within,
    record_where_walked,
    walk_where_recorded,
    remove_cut,
    stay_in_torch,
    stack_values,
    update_in_place,
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
