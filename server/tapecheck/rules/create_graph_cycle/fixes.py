"""Gradients with graphs of their own: do without, or clear them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tapecheck.fixes.between import names_gradients
from tapecheck.fixes.candidate import Candidate, Context, Strategy, remove_argument
from tapecheck.fixes.code import Code, dotted, walk
from tapecheck.fixes.noticed import asks_for_graphs
from tapecheck.fixes.story import frames
from tapecheck.fixes.strategies.arguments import clearing_of, is_module, take_gradient
from tapecheck.fixes.strategies.carried import after_backward
from tapecheck.source.nodes import of_kind
from tapecheck.tape import Backward, Bind, Escape, GradientCleared, Leaf, Optimizer, Step, Tape
from tapecheck.tape.tape import replay


def drop_create(context: Context) -> Iterator[Candidate]:
    """Take `create_graph=True` away where nothing reads the gradients but the optimizer."""
    code = context.code
    reads = [
        node
        for node in of_kind(code.tree, ast.Attribute)
        if node.attr == "grad" and isinstance(node.ctx, ast.Load)
        and clearing_of(code, node) is None and not is_module(code, node)
    ]  # fmt: skip
    if reads:
        return
    for tape, backward in context.backwards_here():
        # An optimizer of unknown code may differentiate the gradients itself.
        known = any(isinstance(event, Step) for event in tape.events)
        unseen = any(isinstance(event, Escape) for event in tape.events)
        for frame in frames(backward.at):
            call = context.call_at(frame)
            change = remove_argument(code, call, "create_graph", 2) if call is not None else None
            if change is not None:
                yield Candidate(
                    "Drop `create_graph=True`: nothing differentiates these gradients",
                    "The gradients are the same; no graph of them is built, which also saves memory and time.",
                    [change],
                    safe=known and not unseen and not asks_for_graphs(context) and not names_gradients(context),
                    group="drop",
                )


def clear_gradients(context: Context) -> Iterator[Candidate]:
    """Drop the gradients that hold the graph once they have been used: `p.grad = None`."""
    code = context.code
    for tape, backward in context.backwards_here():
        leaves = _left_over(tape, backward)
        if not leaves:
            continue
        for frame in frames(backward.at):
            statement = code.statement_at(frame)
            if statement is None:
                continue
            lines = _clearing_lines(code, statement, leaves, _names(tape))
            place = _last_use(code, statement, backward)
            if not lines or place is None:
                continue
            last, before = place
            change = code.insert_before(last, lines) if before else code.insert_after(last, lines)
            if change is not None:
                safe = _dropped_anyway(tape, backward, {leaf.id for leaf in leaves})
                safe = safe and not _read_elsewhere(context, code.function(statement))
                yield Candidate(
                    "Drop the gradients once they are used: `.grad = None`"
                    + ("" if safe else "; the next ones are not added to them any more"),
                    "The gradients are used as before; dropped afterwards, they let go of the graph.",
                    [change],
                    safe=safe,
                    group="clear",
                )
        break


def _dropped_anyway(tape: Tape, backward: Backward, leaves: set[int]) -> bool:
    """Return whether no later iteration adds to, or steps by, what this backward left in the gradients of these
    leaves.
    """
    ledger, _ = replay(tape)
    params = {event.id: set(event.params) for event in tape.events if isinstance(event, Optimizer)}
    for run in (event for event in tape.events if isinstance(event, Backward) and event.at.span == backward.at.span):
        open_leaves = leaves & ledger.traversals[run.id].executed.keys()
        passed = False
        for event in tape.events:
            if event is run:
                passed = True
            elif not passed:
                continue
            elif isinstance(event, GradientCleared):
                open_leaves.discard(event.leaf)
            elif isinstance(event, (Step, Backward)) and event.at.iteration != run.at.iteration:
                used = (
                    params.get(event.optimizer, set())
                    if isinstance(event, Step)
                    else ledger.traversals[event.id].executed.keys()
                )
                if open_leaves & used:
                    return False
    return True


def _read_elsewhere(context: Context, function: ast.AST) -> bool:
    """Return whether another function than one reads gradients, or some code by a name in a text."""
    return names_gradients(context) or any(
        node.attr == "grad" and isinstance(node.ctx, ast.Load) and code.function(node) is not function
        for code in context.files
        for node in of_kind(code.tree, ast.Attribute)
    )


def _left_over(tape: Tape, backward: Backward) -> list[Leaf]:
    """Return the leaves that still hold a gradient with a graph when the tape ends, or when its backward runs again."""
    ledger, _ = replay(tape)
    reached = ledger.traversals[backward.id].executed
    cleared = set()
    passed = False
    for event in tape.events:
        if event is backward:
            passed = True
        elif passed and isinstance(event, GradientCleared) and event.to_none == "yes":
            cleared.add(event.leaf)
    left = [leaf for number, leaf in ledger.leaves.items() if number in reached and number not in cleared]
    return left or [leaf for number, leaf in ledger.leaves.items() if number in reached]


def _names(tape: Tape) -> dict[int, list[str]]:
    """Return the names that leaves were bound to."""
    names: dict[int, list[str]] = {}
    for event in tape.events:
        if isinstance(event, Bind) and event.node is not None:
            names.setdefault(event.node, []).append(event.name)
    return names


def _clearing_lines(code: Code, statement: ast.stmt, leaves: list[Leaf], names: dict[int, list[str]]) -> list[str]:
    function = code.function(statement)
    lines: list[str] = []
    parameters = [leaf for leaf in leaves if leaf.parameter]
    others = [leaf for leaf in leaves if not leaf.parameter]
    for leaf in others:
        for name in [leaf.name, *names.get(leaf.id, ())]:
            line = f"{name}.grad = None"
            if name and any(dotted(node) == name for node in walk(function)):
                if line not in lines:
                    lines.append(line)
                break
    if parameters:
        lines.extend(_clear_parameters(code, function))
    return lines


def _clear_parameters(code: Code, function: ast.AST) -> list[str]:
    """`model.zero_grad()` for the modules whose parameters the function asks for, or else an optimizer's."""
    lines: list[str] = []
    for node in walk(function):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        owner = dotted(node.func.value)
        if owner is None:
            continue
        if node.func.attr == "parameters":
            line = f"{owner}.zero_grad(set_to_none=True)"
            if line not in lines:
                lines.append(line)
    if lines:
        return lines
    for node in walk(function):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "zero_grad":
            owner = dotted(node.func.value)
            if owner is not None:
                return [f"{owner}.zero_grad(set_to_none=True)"]
    return []


def _last_use(code: Code, statement: ast.stmt, backward: Backward) -> tuple[ast.stmt, bool] | None:
    """Return where gradients are used no more in the block of a backward: behind its last statement that may use them,
    or before the return that ends it. None where the function reads them behind the block, or hands them out.
    """
    block = code.block(statement)
    last = block[-1]
    leaves = isinstance(last, (ast.Return, ast.Continue, ast.Break, ast.Raise))
    for node in walk(code.function(statement)):
        if isinstance(node, ast.Attribute) and node.attr == "grad" and isinstance(node.ctx, ast.Load):
            if node.lineno > (last.lineno - 1 if leaves else last.end_lineno or last.lineno):
                return None
    if leaves:
        return last, True
    uses = [
        member
        for member in block[block.index(statement) :]
        if any(node.attr in ("grad", "step", "backward", "clip_grad_norm_") for node in of_kind(member, ast.Attribute))
    ]
    after = after_backward(code, backward, code.function(statement))
    found = uses[-1] if uses else after or statement
    return found, False


STRATEGIES: tuple[Strategy, ...] = (
    drop_create,
    clear_gradients,
    take_gradient,
)
"""What is proposed, preferred first."""
