"""Gradients that are read or stepped while they are scaled: have the scaler unscale them first."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from tapecheck.fixes.candidate import Candidate, Context, Strategy
from tapecheck.fixes.code import DEFINITIONS, Code, dotted, walk
from tapecheck.source.nodes import expression_of, of_kind

_EFFECT = "The gradients are those of the loss from there on; `step` sees that they are unscaled, and leaves them."


def unscale_first(context: Context) -> Iterator[Candidate]:
    """Insert `scaler.unscale_(optimizer)` in front of what reads the gradients, beside the backward or the step."""
    for target in _targets(context):
        yield from _unscaled_before(context.code, target)


def _unscaled_before(code: Code, target: ast.stmt) -> Iterator[Candidate]:
    function, block = code.function(target), code.block(target)
    for (scaler, optimizer), calls in _steps(code, function).items():
        # Once for each step: `unscale_` raises where it comes twice.
        if all(isinstance(code.within_block(call, block), (ast.Expr, ast.Assign)) for call in calls):
            line = f"{scaler}.unscale_({optimizer})"
            own = [call for *pair, call in _calls(function, "unscale_") if pair == [scaler, optimizer]]
            late = (code.statement(call) for call in own if call.lineno > target.lineno)
            gone = code.delete_all(one for one in late if one is not None and expression_of(one) in own)
            inserted = code.insert_before(target, [line])
            if inserted is not None and gone is not None:
                title = f"{'Move' if gone else 'Insert'} `{line}` before line {target.lineno}"
                yield Candidate(title, _EFFECT, [inserted, *gone], group="unscale")


def _steps(code: Code, function: ast.AST) -> dict[tuple[str, str], list[ast.Call]]:
    """Return the steps of a function that a scaler of losses makes, by scaler and optimizer."""
    scalers = {name for name, _, _ in _calls(function, "scale")}
    if not scalers:
        # Another method scales: the same attribute, or what is called the same, is the scaler.
        last = set(map(_last, _scalers(code)))
        scalers = {name for name, _, _ in _calls(function, "step") if _last(name) in last}
    steps: dict[tuple[str, str], list[ast.Call]] = {}
    for name, argument, call in _calls(function, "step"):
        if name in scalers:
            steps.setdefault((name, argument), []).append(call)
    return steps


def _scalers(code: Code) -> set[str]:
    """Return what functions of a file call their scalers."""
    functions = of_kind(code.tree, ast.FunctionDef)
    return {name for function in functions for name, _, _ in _calls(function, "scale")}


def _last(name: str) -> str:
    return name.rpartition(".")[2]


def step_by_scaler(context: Context) -> Iterator[Candidate]:
    """Rewrite `optimizer.step()` to `scaler.step(optimizer)`, with the scaler's update where it has none."""
    code = context.code
    call = context.call_at(context.finding.span)
    statement = code.statement(call) if call is not None else None
    function = code.function(call) if call is not None else code.tree
    scalers = {name for name, _, _ in _calls(function, "scale")}
    scalers = scalers or {name for name in _scalers(code) if name.startswith("self.")}
    match call:
        case ast.Call(func=ast.Attribute(value=optimizer, attr="step"), args=[], keywords=[]) if len(scalers) == 1:
            (scaler,) = scalers
        case _:
            return
    if statement is None:
        return
    stepped = f"{scaler}.step({code.segment(optimizer)})"
    changes = [code.replace(call, stepped)]
    if not any(name == scaler for name in _updated(walk(function))):
        nodes = (node for each in {code, *context.codes.values()} for node in ast.walk(each.tree))
        if any(_last(name) == _last(scaler) for name in _updated(nodes)):
            # Whether that runs once a step is not known, and `step` raises where it does not.
            return
        update = code.insert_after(statement, [f"{scaler}.update()"])
        if update is None:
            return
        changes.append(update)
    yield Candidate(
        f"Step by the scaler: `{stepped}`",
        "The step uses the gradients of the loss, no longer multiplied by the scale.",
        changes,
        group="step",
    )


def _updated(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Yield the objects whose `update` is called."""
    for node in nodes:
        match node:
            case ast.Call(func=ast.Attribute(value=owner, attr="update")) if (name := dotted(owner)) is not None:
                yield name


def _targets(context: Context) -> list[ast.stmt]:
    """Return the statements that read the gradients, or call what does: first the one in the block of the backward,
    then each as it is, since with accumulation it stands in the block of the step.
    """
    code = context.code
    built = next((label.span for label in context.labels("built")), None)
    backward = code.statement_at(built) if built is not None else None
    spans = (context.finding.span, *(label.span for label in context.labels("called")))
    found = [statement for span in spans if (statement := code.statement_at(span)) is not None]
    for statement in found:
        pair = code.same_block(backward, statement) if backward is not None else None
        if pair is not None and pair[0] is not pair[1] and not isinstance(pair[1], DEFINITIONS):
            return list(dict.fromkeys([pair[1], *found]))
    return found


def _calls(function: ast.AST, method: str) -> Iterator[tuple[str, str, ast.Call]]:
    """Yield the calls `name.method(argument)` of a function as name, argument and call."""
    for node in walk(function):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == method:
            name, argument = dotted(node.func.value), dotted(node.args[0]) if node.args else None
            if name is not None and (argument is not None or method == "scale"):
                yield name, argument or "", node


STRATEGIES: tuple[Strategy, ...] = (unscale_first, step_by_scaler)
"""What is proposed, preferred first."""
