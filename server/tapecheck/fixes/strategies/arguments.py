"""The arguments of a backward or grad call: retain_graph, create_graph, and what is left in `.grad` afterwards."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from tapecheck.fixes import rewrite
from tapecheck.fixes.candidate import Candidate, Context
from tapecheck.fixes.code import Code, dotted
from tapecheck.fixes.edit import Change
from tapecheck.fixes.story import frames
from tapecheck.rules.create_graph_cycle.rule import CreateGraphCycle
from tapecheck.source.nodes import attr_of, id_of, is_literal, last_name, method_called, of_kind
from tapecheck.tape import Span

_CREATE_POSITION = 4


def with_keyword(context: Context, spans: Sequence[Span], name: str, value: str) -> list[Change]:
    """Return the edits that pass a keyword to the calls at some places; none where one of them is in another file."""
    calls = [call for call in map(context.call_at, spans) if call is not None]
    if len(calls) < len(spans):
        return []
    try:
        return [
            context.code.replace(call, rewrite.with_argument(context.code.segment(call), name, value)) for call in calls
        ]
    except rewrite.RewriteError:
        return []


def with_create_graph(code: Code, call: ast.Call) -> Change | None:
    """Return the edit that passes `create_graph=True` to a call; None where it is passed, or cannot be."""
    if any(keyword.arg is None for keyword in call.keywords) and passes_retain(call) is None:
        return None
    text = code.segment(call)
    name = last_name(call.func)
    position = _CREATE_POSITION if name == "grad" else None
    try:
        new = rewrite.with_argument(text, "create_graph", "True", position=position, replacing=("retain_graph",))
        if new != text and rewrite.argument(new, "retain_graph") == "True":
            # create_graph keeps the graph already: beside it retain_graph=True says nothing.
            new = rewrite.without_argument(new, "retain_graph")
    except rewrite.RewriteError:
        return None
    return code.replace(call, new) if new != text else None


def passes_retain(call: ast.Call) -> ast.keyword | None:
    """Return the keyword of a call that keeps a graph or asks for one."""
    return next((keyword for keyword in call.keywords if keyword.arg in ("retain_graph", "create_graph")), None)


def take_gradient(context: Context) -> Iterator[Candidate]:
    """Rewrite `loss.backward(create_graph=True)` and `x.grad` to a gradient taken by `torch.autograd.grad`."""
    code = context.code
    spans = [frame for _, backward in context.backwards_here() for frame in frames(backward.at)]
    if context.finding.code != CreateGraphCycle.code:
        spans = [label.span for label in context.labels("cut")]
    for span in dict.fromkeys(spans):
        call = context.call_at(span)
        statement = code.statement(call) if call is not None else None
        if call is None or not isinstance(statement, ast.Expr) or statement.value is not call:
            continue
        if attr_of(call.func) != "backward":
            continue
        if any(keyword.arg not in ("gradient", "retain_graph", "create_graph") for keyword in call.keywords):
            continue
        changes = _taken(code, statement, call)
        if changes:
            yield Candidate(
                "Take the gradient with `torch.autograd.grad(..., create_graph=True)`: no `.grad` gets it",
                "The gradient is a value of its own, which no parameter refers to; what this call added to the "
                "`.grad` of all parameters is no longer added.",
                changes,
                group="take",
            )


def is_module(code: Code, node: ast.Attribute) -> bool:
    return (dotted(node) or "").endswith("autograd.grad") or (dotted(node) or "").split(".")[0] in code.imported()


def clearing_of(code: Code, node: ast.Attribute) -> ast.stmt | None:
    """Return the statement `x.grad.zero_()` or `x.grad.data.zero_()` that a `.grad` stands in."""
    statement = code.statement(node)
    call = statement.value if isinstance(statement, ast.Expr) else None
    if method_called(call) == "zero_":
        return statement
    return None


def _taken(code: Code, statement: ast.stmt, call: ast.Call) -> list[Change]:
    """Return the changes that make a backward a grad call and every `.grad` behind it the gradient; none where one of
    them is more than read.
    """
    assert isinstance(call.func, ast.Attribute)
    function = code.function(statement)
    every = [
        node
        for node in of_kind(function, ast.Attribute)
        if node.attr == "grad" and code.start(node) > code.end(statement)
        and not is_module(code, node)
    ]  # fmt: skip
    torch, needed = code.torch()
    changes: list[Change] = list(needed)
    wanted: dict[str, str] = {}
    groups: dict[str, str] = {}
    for node in every:
        cleared = _cleared(code, node)
        if cleared is None:
            taken = _read(code, statement, node, wanted, groups)
            if taken is None:
                return []
            changes += taken
        elif (removed := code.delete(cleared)) is not None:
            changes.append(removed)
        else:
            return []
    if bool(wanted) == bool(groups) or len(groups) > 1:
        return []
    arguments = [code.segment(call.func.value), _inputs(list(wanted), list(groups))]
    given = call.args[0] if call.args else next((k.value for k in call.keywords if k.arg == "gradient"), None)
    if given is not None and not is_literal(given, None):
        arguments.append(f"grad_outputs={code.segment(given)}")
    text = f"{torch}.autograd.grad({', '.join(arguments)}, create_graph=True)"
    names = [*wanted.values(), *groups.values()]
    changes.append(code.replace(statement, f"{', '.join(names)} = {text}{'[0]' if len(wanted) == 1 else ''}"))
    return list(dict.fromkeys(changes))


def _inputs(owners: list[str], groups: list[str]) -> str:
    """Return what gradients are taken for: owners of `.grad`, or the one group of them that a loop runs over."""
    if groups:
        return groups[0] if groups[0].startswith("list(") else f"list({groups[0]})"
    return owners[0] if len(owners) == 1 else f"[{', '.join(owners)}]"


def _cleared(code: Code, node: ast.Attribute) -> ast.stmt | None:
    """Return the statement that clears a `.grad`, or sets it to a constant."""
    clearing = clearing_of(code, node)
    if clearing is None and not isinstance(node.ctx, ast.Load):
        other = code.statement(node)
        clearing = other if isinstance(other, ast.Assign) and isinstance(other.value, ast.Constant) else None
    return clearing


def _read(
    code: Code, statement: ast.stmt, node: ast.Attribute, wanted: dict[str, str], groups: dict[str, str]
) -> list[Change] | None:
    """Return the changes that let a `.grad` read the gradient by a name of its own; None where it cannot.

    `wanted` gets the name for its owner, `groups` the one for what a loop over owners runs over.
    """
    owner = dotted(node.value)
    if owner is None or not isinstance(node.ctx, ast.Load):
        return None
    function = code.function(statement)
    binder = _binder(code, node) if isinstance(node.value, ast.Name) else None
    if binder is None:
        if owner not in wanted:
            wanted[owner] = f"{owner.rpartition('.')[2]}_grad"
            if not wanted[owner].isidentifier() or code.named(function, wanted[owner]):
                return None
        return [code.replace(node, wanted[owner])]
    iterable, scope = binder
    # The loop's name must stand for nothing but the owner of the gradient.
    alone = all(
        isinstance(code.parent(name), ast.Attribute) and getattr(code.parent(name), "attr", "") == "grad"
        for name in code.loads(scope, owner)
    )
    if not alone or not isinstance(iterable, (ast.Call, ast.Name)):
        return None
    text = _known_before(code, statement, iterable)
    if text is None:
        return None
    if text not in groups:
        groups[text] = next(free for free in ("grads", "gradients", "all_grads") if not code.named(function, free))
    return [code.replace(node, owner), code.replace(iterable, groups[text])]


def _known_before(code: Code, statement: ast.stmt, iterable: ast.Call | ast.Name) -> str | None:
    """Return what is run over, in words that mean the same before a statement: a name set behind it by what it is set
    to.
    """
    if isinstance(iterable, ast.Call):
        return code.segment(iterable)
    stores = code.stores(code.function(statement), iterable.id)
    if all(store.lineno < statement.lineno for store in stores):
        return iterable.id
    only = stores[0] if len(stores) == 1 else None
    if isinstance(only, ast.Assign) and isinstance(only.value, ast.Call) and "parameters()" in code.segment(only.value):
        return code.segment(only.value)
    return None


def _binder(code: Code, node: ast.Attribute) -> tuple[ast.expr, ast.AST] | None:
    """Return the `for` that binds the name before a `.grad`: what it runs over, and where the name is seen."""
    assert isinstance(node.value, ast.Name)
    for parent in code.parents(node):
        loops: list[tuple[ast.expr, ast.expr]] = []
        if isinstance(parent, (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)):
            loops = [(generator.target, generator.iter) for generator in parent.generators]
        elif isinstance(parent, ast.For):
            loops = [(parent.target, parent.iter)]
        elif isinstance(parent, (ast.FunctionDef, ast.Lambda)):
            return None
        for target, iterable in loops:
            if id_of(target) == node.value.id:
                return iterable, parent
            if any(part.id == node.value.id for part in of_kind(target, ast.Name)):
                # `for p, v in zip(params, vs)`: what stands for it among the arguments.
                zipped = isinstance(iterable, ast.Call) and dotted(iterable.func) == "zip"
                names = [dotted(part) for part in target.elts] if isinstance(target, ast.Tuple) else []
                if zipped and isinstance(iterable, ast.Call) and node.value.id in names:
                    place = names.index(node.value.id)
                    if place < len(iterable.args) and not isinstance(iterable.args[place], ast.Starred):
                        return iterable.args[place], parent
                return node, parent
    return None
