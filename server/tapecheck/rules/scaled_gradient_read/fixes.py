"""Gradients that are read or stepped while they are scaled: have the scaler unscale them first."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from tapecheck.fixes.candidate import Candidate, Context, Strategy
from tapecheck.fixes.code import Code, dotted, walk

_EFFECT = "The gradients are those of the loss from there on; `step` sees that they are unscaled, and leaves them."


def unscale_first(context: Context) -> Iterator[Candidate]:
    """Insert `scaler.unscale_(optimizer)` in front of what reads the gradients, beside the backward or the step."""
    for target in _targets(context):
        yield from _unscaled_before(context.code, target)


def _unscaled_before(code: Code, target: ast.stmt) -> Iterator[Candidate]:
    function = code.function(target)
    for scaler in dict.fromkeys(name for name, _, _ in _calls(function, "scale")):
        late = [
            (argument, call)
            for name, argument, call in _calls(function, "unscale_")
            if name == scaler and call.lineno > target.lineno
        ]
        for argument in dict.fromkeys(text for name, text, call in _calls(function, "step") if name == scaler):
            steps = [call for name, text, call in _calls(function, "step") if (name, text) == (scaler, argument)]
            if not all(_beside(code, target, call) for call in steps):
                # Once for each step: `unscale_` raises where it comes twice.
                continue
            line = f"{scaler}.unscale_({argument})"
            changes = [code.insert_before(target, [line])]
            for text, call in late:
                again = code.statement(call)
                if text == argument and isinstance(again, ast.Expr) and again.value is call:
                    changes.append(code.delete(again))
            if None not in changes:
                moved = "Move" if len(changes) > 1 else "Insert"
                yield Candidate(
                    f"{moved} `{line}` before line {target.lineno}",
                    _EFFECT,
                    [change for change in changes if change is not None],
                    group="unscale",
                )


def step_by_scaler(context: Context) -> Iterator[Candidate]:
    """Rewrite `optimizer.step()` to `scaler.step(optimizer)`, with the scaler's update where it has none."""
    code = context.code
    call = context.call_at(context.finding.span)
    if call is None or not isinstance(call.func, ast.Attribute) or call.func.attr != "step":
        return
    function = code.function(call)
    scalers = {name for name, _, _ in _calls(function, "scale")}
    statement = code.statement(call)
    if len(scalers) != 1 or call.args or call.keywords or statement is None:
        return
    (scaler,) = scalers
    stepped = f"{scaler}.step({code.segment(call.func.value)})"
    changes = [code.replace(call, stepped)]
    if not any(name == scaler for name in _updated(walk(function))):
        nodes = (node for each in {code, *context.codes.values()} for node in ast.walk(each.tree))
        if any(name.rpartition(".")[2] == scaler.rpartition(".")[2] for name in _updated(nodes)):
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


_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


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
        if pair is not None and pair[0] is not pair[1] and not isinstance(pair[1], _DEFINITIONS):
            return list(dict.fromkeys([pair[1], *found]))
    return found


def _calls(function: ast.AST, method: str) -> Iterator[tuple[str, str, ast.Call]]:
    """Yield the calls `name.method(argument)` of a function as name, argument and call."""
    for node in walk(function):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == method:
            name, argument = dotted(node.func.value), dotted(node.args[0]) if node.args else None
            if name is not None and (argument is not None or method == "scale"):
                yield name, argument or "", node


def _beside(code: Code, target: ast.stmt, call: ast.Call) -> bool:
    """Return whether a call runs exactly where a statement of its block runs."""
    pair = code.same_block(target, call)
    return pair is not None and pair[0] is target and isinstance(pair[1], (ast.Expr, ast.Assign))


STRATEGIES: tuple[Strategy, ...] = (unscale_first, step_by_scaler)
"""What is proposed, preferred first."""
