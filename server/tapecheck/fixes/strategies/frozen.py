"""Fixes for parameters that a program froze and still trains: leave them trainable, or switch them on again."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tapecheck.fixes.candidate import Candidate, Context, offered
from tapecheck.fixes.code import Code, dotted
from tapecheck.fixes.edit import Change
from tapecheck.fixes.story import frames
from tapecheck.fixes.strategies.cuts import cuts_of_finding
from tapecheck.rules.gradients import name_of
from tapecheck.rules.words import join
from tapecheck.source.nodes import given_to, last_line, method_called
from tapecheck.tape import Backward, Cut, Span, Tape

_MAX_PLACES = 4
"""Statements before the failing one at which switching on again is tried."""


def leave_trainable(context: Context) -> Iterator[Candidate]:
    """Take out what switches `requires_grad` off, with the loop that does nothing else."""
    code = context.code
    for cut in _frozen(context):
        call, statement = code.expression_at(cut.at.span), code.statement_at(cut.at.span)
        if statement is None or not _says_off(call, statement):
            continue
        removed: Change | None
        if isinstance(call, ast.Call) and not isinstance(statement, ast.Expr):
            # `Probe(Encoder().requires_grad_(False))`: the module itself is still needed.
            assert isinstance(call.func, ast.Attribute)
            removed = code.replace(call, code.segment(call.func.value))
        else:
            statement = code.with_its_holders(statement)
            removed = code.delete(statement)
        if removed is not None:
            yield Candidate(
                f"Leave `requires_grad` on (line {statement.lineno})",
                "All that was frozen there gets gradients; an optimizer that was given it trains it.",
                [removed],
                group="frozen",
            )


def spare_trained(context: Context) -> Iterator[Candidate]:
    """Switch on again, right behind what freezes a whole module, the parts that are to be trained."""
    code = context.code
    for cut in _frozen(context):
        statement = code.statement_at(cut.at.span)
        found = _freezing(code, statement) if statement is not None else None
        if found is None:
            continue
        place, module = found
        named = [_within(name, module) for name in context.finding.facts.parameters]
        if not all(part.isidentifier() or part.isdecimal() for name in named for part in name.split(".")):
            continue
        parts = _parts(context, module, named)
        lines = [f"{part}.requires_grad_(True)" for part in parts]
        if len(lines) <= _MAX_PLACES:
            yield from offered(
                f"Switch {join(f'`{part}`' for part in parts)} on again behind line {last_line(place)}",
                f"What else line {cut.at.line} freezes stays frozen.",
                code.insert_after(place, lines),
                group="spared",
            )


def _freezing(code: Code, statement: ast.stmt) -> tuple[ast.stmt, str] | None:
    """Return the statement that freezes all of a module, a loop over its parameters or a call of it, and the module."""
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=module, attr="requires_grad_"))) if not code.loops(
            module
        ):
            return (statement, code.segment(module)) if dotted(module) is not None else None
    for loop in code.loops(statement):
        match loop.iter if isinstance(loop, ast.For) else None:
            case ast.Call(func=ast.Attribute(value=module, attr="parameters" | "named_parameters")):
                return (loop, code.segment(module)) if dotted(module) is not None else None
    return None


def _within(parameter: str, module: str) -> str:
    """Return the path of a parameter in a module; a function has another name than its caller for a whole model."""
    if parameter.startswith(f"{module}."):
        return parameter.removeprefix(f"{module}.")
    return parameter.partition(".")[2] if module.isidentifier() and module != "self" else ""


def _parts(context: Context, module: str, paths: list[str]) -> list[str]:
    """Return the modules that some parameters are all of, in the program's words, and what is in none of these."""
    known = {_within(name_of(one, leaf), module) for one in context.readings for leaf in one.ledger.leaves}
    parts: list[str] = []
    for path in paths:
        above = path.rpartition(".")[0]
        beside = {one for one in known if one.startswith(f"{above}.")}
        whole = above and beside <= set(paths)
        parts.append(above if whole else path)
    return ["".join([module, *map(_step, part.split("."))]) for part in dict.fromkeys(parts)]


def _step(name: str) -> str:
    return f"[{name}]" if name.isdecimal() else f".{name}"


def switch_on_again(context: Context) -> Iterator[Candidate]:
    """Repeat the statement that froze something, with True, before the forward whose backward fails."""
    code = context.code
    failing = _failing(context)
    for cut in _frozen(context):
        for freezing in code.statements(cut.at):
            opposite = _opposite(code, freezing)
            if opposite is None:
                continue
            for statement in filter(None, map(code.statement_at, failing)):
                beside = code.beside(freezing, statement)
                if beside is None:
                    continue
                block = code.block(freezing)
                end = block.index(beside)
                start = block.index(freezing) + 1 if block.index(freezing) < end else 0
                for before in reversed(block[max(start, end - _MAX_PLACES + 1) : end + 1]):
                    change = code.insert_before(before, [opposite])
                    if change is not None:
                        yield Candidate(
                            f"Switch it on again before line {before.lineno}: `{opposite}`",
                            f"From there on it gets gradients; line {freezing.lineno} still freezes it where it did.",
                            [change],
                            group="switched on",
                        )


def frozen_by(context: Context, tape: Tape) -> list[Cut]:
    """Return what of the finding's cuts on a way are parameters whose `requires_grad` was switched off."""
    return [cut for cut in cuts_of_finding(context, tape) if cut.how == "frozen"]


def _frozen(context: Context) -> list[Cut]:
    found: dict[object, Cut] = {}
    for tape in context.tapes:
        for cut in frozen_by(context, tape):
            found.setdefault((cut.at.span, cut.at.stack), cut)
    return list(found.values())


def _failing(context: Context) -> list[Span]:
    """Return the place of the backward that fails and of the calls that lead to it, innermost first."""
    here = (one for one in context.events(Backward) if not one.succeeded and one.at.span == context.finding.span)
    failing = next(here, None)
    return list(frames(failing.at)) if failing is not None else [context.finding.span]


def _says_off(call: ast.expr | None, statement: ast.stmt) -> bool:
    """Return whether the place itself says False, and no variable that may say True elsewhere."""
    if isinstance(call, ast.Call) and method_called(call) == "requires_grad_":
        values = given_to(call)
        return len(values) == 1 and isinstance(values[0], ast.Constant)
    return isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Constant)


def _opposite(code: Code, statement: ast.stmt) -> str | None:
    """Rewrite `freeze(net, False)` as `freeze(net, True)`, where the statement says False exactly once."""
    if not isinstance(statement, (ast.Expr, ast.Assign)) or statement.lineno != statement.end_lineno:
        return None
    value = statement.value
    if isinstance(statement, ast.Expr) and isinstance(value, ast.Call):
        given = given_to(value)
    elif isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Attribute):
        given = [value]
    else:
        return None
    said = [one for one in given if isinstance(one, ast.Constant) and isinstance(one.value, bool)]
    if len(said) != 1 or said[0].value is not False:
        return None
    text, start = code.segment(statement), code.start(statement)
    return text[: code.start(said[0]) - start] + "True" + text[code.end(said[0]) - start :]
