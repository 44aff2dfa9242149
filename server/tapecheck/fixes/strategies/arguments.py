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
from tapecheck.source.nodes import (
    attr_of,
    expression_of,
    id_of,
    is_literal,
    is_read,
    method_called,
    name_called,
    of_kind,
    passed,
)
from tapecheck.tape import Span

_CREATE_POSITION = 4
_TAKEN_OVER = ("gradient", "retain_graph", "create_graph")
"""Keywords of a backward that a grad call in its place says otherwise, or needs no more."""


def with_keyword(context: Context, spans: Sequence[Span], name: str, value: str) -> list[Change]:
    """Return the edits that pass a keyword to the calls at some places; none where one of them is in another file."""
    calls = [call for call in map(context.call_at, spans) if call is not None]
    made = [context.code.rewritten(call, rewrite.with_argument, name, value) for call in calls]
    changes = [change for change in made if change is not None]
    return changes if len(changes) == len(spans) else []


def with_create_graph(code: Code, call: ast.Call) -> Change | None:
    """Return the edit that passes `create_graph=True` to a call; None where it is passed, or cannot be."""
    if any(keyword.arg is None for keyword in call.keywords) and passes_retain(call) is None:
        return None
    text = code.segment(call)
    position = _CREATE_POSITION if name_called(call) == "grad" else None
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
    return passed(call, "retain_graph", "create_graph")


def take_gradient(context: Context) -> Iterator[Candidate]:
    """Rewrite `loss.backward(create_graph=True)` and `x.grad` to a gradient taken by `torch.autograd.grad`."""
    code = context.code
    spans = [frame for _, backward in context.backwards_here() for frame in frames(backward.at)]
    if context.finding.code != CreateGraphCycle.code:
        spans = [label.span for label in context.labels("cut")]
    for span in dict.fromkeys(spans):
        call = context.call_at(span)
        statement = code.statement(call) if call is not None else None
        if call is None or statement is None or expression_of(statement) is not call:
            continue
        if method_called(call) != "backward" or any(keyword.arg not in _TAKEN_OVER for keyword in call.keywords):
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
    return statement if method_called(expression_of(statement)) == "zero_" else None


def _taken(code: Code, statement: ast.stmt, call: ast.Call) -> list[Change]:
    """Return the changes that make a backward a grad call and every `.grad` behind it the gradient; none where one of
    them is more than read.
    """
    assert isinstance(call.func, ast.Attribute)
    function = code.function(statement)
    gradients = (node for node in of_kind(function, ast.Attribute) if node.attr == "grad" and not is_module(code, node))
    torch, needed = code.torch()
    changes: list[Change] = list(needed)
    wanted: dict[str, str] = {}
    groups: dict[str, str] = {}
    for node in (node for node in gradients if code.start(node) > code.end(statement)):
        cleared = _cleared(code, node)
        read = _read(code, statement, node, wanted, groups) if cleared is None else code.delete_all([cleared])
        if read is None:
            return []
        changes += read
    if bool(wanted) == bool(groups) or len(groups) > 1:
        return []
    inputs = _inputs(list(wanted), list(groups))
    text = f"{torch}.autograd.grad({code.segment(call.func.value)}, {inputs}{_outputs(code, call)}, create_graph=True)"
    names = [*wanted.values(), *groups.values()]
    changes.append(code.replace(statement, f"{', '.join(names)} = {text}{'[0]' if len(wanted) == 1 else ''}"))
    return list(dict.fromkeys(changes))


def _inputs(owners: list[str], groups: list[str]) -> str:
    """Return what gradients are taken for: owners of `.grad`, or the one group of them that a loop runs over."""
    if groups:
        return groups[0] if groups[0].startswith("list(") else f"list({groups[0]})"
    return owners[0] if len(owners) == 1 else f"[{', '.join(owners)}]"


def _outputs(code: Code, call: ast.Call) -> str:
    """Return the argument of a grad call for the gradient that a backward starts from; nothing where it names none."""
    keyword = passed(call, "gradient")
    given = call.args[0] if call.args else keyword.value if keyword is not None else None
    return "" if given is None or is_literal(given, None) else f", grad_outputs={code.segment(given)}"


def _cleared(code: Code, node: ast.Attribute) -> ast.stmt | None:
    """Return the statement that clears a `.grad`, or sets it to a constant."""
    statement = code.statement(node)
    sets = isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Constant) and not is_read(node)
    return statement if sets else clearing_of(code, node)


def _read(
    code: Code, statement: ast.stmt, node: ast.Attribute, wanted: dict[str, str], groups: dict[str, str]
) -> list[Change] | None:
    """Return the changes that let a `.grad` read the gradient by a name of its own; None where it cannot.

    `wanted` gets the name for its owner, `groups` the one for what a loop over owners runs over.
    """
    owner = dotted(node.value)
    if owner is None or not is_read(node):
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
    alone = all(attr_of(code.parent(name)) == "grad" for name in code.loads(scope, owner))
    text = _known_before(code, statement, iterable) if alone else None
    if text is None:
        return None
    if text not in groups:
        groups[text] = next(free for free in ("grads", "gradients", "all_grads") if not code.named(function, free))
    return [code.replace(node, owner), code.replace(iterable, groups[text])]


def _known_before(code: Code, statement: ast.stmt, iterable: ast.expr) -> str | None:
    """Return what is run over, in words that mean the same before a statement: a name set behind it by what it is set
    to.
    """
    if not isinstance(iterable, ast.Name):
        return code.segment(iterable) if isinstance(iterable, ast.Call) else None
    stores = code.stores(code.function(statement), iterable.id)
    if all(store.lineno < statement.lineno for store in stores):
        return iterable.id
    only = stores[0] if len(stores) == 1 else None
    if isinstance(only, ast.Assign) and isinstance(only.value, ast.Call) and "parameters()" in code.segment(only.value):
        return code.segment(only.value)
    return None


def _binder(code: Code, node: ast.Attribute) -> tuple[ast.expr, ast.AST] | None:
    """Return the `for` that binds the name before a `.grad`: what it runs over, and where the name is seen."""
    name = id_of(node.value)
    for parent in code.parents(node):
        if isinstance(parent, (ast.FunctionDef, ast.Lambda)):
            return None
        loops = [parent] if isinstance(parent, ast.For) else getattr(parent, "generators", [])
        for loop in loops:
            if any(part.id == name for part in of_kind(loop.target, ast.Name)):
                return _gone_over(loop.target, loop.iter, name) or node, parent
    return None


def _gone_over(target: ast.expr, iterable: ast.expr, name: str) -> ast.expr | None:
    """Return what a loop takes a name's values from: of `for p, v in zip(params, vs)` one of the arguments."""
    if id_of(target) == name:
        return iterable
    names = [id_of(part) for part in target.elts] if isinstance(target, ast.Tuple) else []
    given = iterable.args if isinstance(iterable, ast.Call) and id_of(iterable.func) == "zip" else []
    found = given[names.index(name)] if name in names[: len(given)] else None
    return None if isinstance(found, ast.Starred) else found
