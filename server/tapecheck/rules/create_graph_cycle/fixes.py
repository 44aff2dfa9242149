"""Gradients with graphs of their own: do without, or clear them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import dropwhile

from tapecheck.fixes.between import names_gradients
from tapecheck.fixes.candidate import Candidate, Context, Strategy, remove_argument
from tapecheck.fixes.code import Code, dotted, walk
from tapecheck.fixes.noticed import asks_for_graphs
from tapecheck.fixes.story import frames, updated_by
from tapecheck.fixes.strategies.arguments import clearing_of, is_module, take_gradient
from tapecheck.fixes.strategies.carried import after_backward
from tapecheck.source.nodes import attr_of, is_read, last_line, of_kind
from tapecheck.tape import Backward, Bind, Escape, GradientCleared, Leaf, Step, Tape
from tapecheck.tape.tape import replay


def drop_create(context: Context) -> Iterator[Candidate]:
    """Take `create_graph=True` away where nothing reads the gradients but the optimizer."""
    code = context.code
    if any(clearing_of(code, node) is None and not is_module(code, node) for node in _gradients_read(code)):
        return
    for tape, backward in context.backwards_here():
        # An optimizer of unknown code may differentiate the gradients itself.
        known = any(isinstance(event, Step) for event in tape.events)
        unseen = any(isinstance(event, Escape) for event in tape.events)
        for frame in frames(backward.at):
            change = remove_argument(code, context.call_at(frame), "create_graph", 2)
            if change is not None:
                yield Candidate(
                    "Drop `create_graph=True`: nothing differentiates these gradients",
                    "The gradients are the same; no graph of them is built, which also saves memory and time.",
                    [change],
                    safe=known and not unseen and not asks_for_graphs(context) and not names_gradients(context),
                    group="drop",
                )


def _gradients_read(code: Code) -> list[ast.Attribute]:
    return [node for node in of_kind(code.tree, ast.Attribute) if node.attr == "grad" and is_read(node)]


def clear_gradients(context: Context) -> Iterator[Candidate]:
    """Drop the gradients that hold the graph once they have been used: `p.grad = None`."""
    code = context.code
    for tape, backward in context.backwards_here():
        leaves = _left_over(tape, backward)
        if not leaves:
            continue
        for statement in code.statements(backward.at):
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
    params, walked = updated_by(tape), {number: one.executed.keys() for number, one in ledger.traversals.items()}
    for place, run in enumerate(tape.events):
        if not isinstance(run, Backward) or run.at.span != backward.at.span:
            continue
        open_leaves = leaves & walked[run.id]
        for event in tape.events[place + 1 :]:
            if isinstance(event, GradientCleared):
                open_leaves.discard(event.leaf)
            elif isinstance(event, (Step, Backward)) and event.at.iteration != run.at.iteration:
                used = params.get(event.optimizer, set()) if isinstance(event, Step) else walked[event.id]
                if open_leaves & used:
                    return False
    return True


def _read_elsewhere(context: Context, function: ast.AST) -> bool:
    """Return whether another function than one reads gradients, or some code by a name in a text."""
    return names_gradients(context) or any(
        code.function(node) is not function for code in context.files for node in _gradients_read(code)
    )


def _left_over(tape: Tape, backward: Backward) -> list[Leaf]:
    """Return the leaves that still hold a gradient with a graph when the tape ends, or when its backward runs again."""
    ledger, _ = replay(tape)
    reached = ledger.traversals[backward.id].executed
    behind = dropwhile(lambda event: event is not backward, tape.events)
    cleared = {event.leaf for event in behind if isinstance(event, GradientCleared) and event.to_none == "yes"}
    leaves = [leaf for number, leaf in ledger.leaves.items() if number in reached]
    return [leaf for leaf in leaves if leaf.id not in cleared] or leaves


def _names(tape: Tape) -> dict[int, list[str]]:
    """Return the names that leaves were bound to."""
    names: dict[int, list[str]] = {}
    for event in tape.events:
        if isinstance(event, Bind) and event.node is not None:
            names.setdefault(event.node, []).append(event.name)
    return names


def _clearing_lines(code: Code, statement: ast.stmt, leaves: list[Leaf], names: dict[int, list[str]]) -> list[str]:
    function = code.function(statement)
    written = set(map(dotted, walk(function)))
    known = ([leaf.name, *names.get(leaf.id, ())] for leaf in leaves if not leaf.parameter)
    owners = (next((name for name in each if name and name in written), None) for each in known)
    lines = [f"{owner}.grad = None" for owner in dict.fromkeys(owners) if owner is not None]
    return lines + (_clear_parameters(function) if any(leaf.parameter for leaf in leaves) else [])


def _clear_parameters(function: ast.AST) -> list[str]:
    """`model.zero_grad()` for the modules whose parameters the function asks for, or else an optimizer's."""
    owners = _called_on(function, "parameters") or _called_on(function, "zero_grad")[:1]
    return [f"{owner}.zero_grad(set_to_none=True)" for owner in owners]


def _called_on(function: ast.AST, method: str) -> list[str]:
    """Return what a function calls a method of, each once."""
    calls = (node.func for node in walk(function) if isinstance(node, ast.Call))
    owners = (dotted(one.value) for one in calls if isinstance(one, ast.Attribute) and one.attr == method)
    return list(dict.fromkeys(owner for owner in owners if owner is not None))


def _last_use(code: Code, statement: ast.stmt, backward: Backward) -> tuple[ast.stmt, bool] | None:
    """Return where gradients are used no more in the block of a backward: behind its last statement that may use them,
    or before the return that ends it. None where the function reads them behind the block, or hands them out.
    """
    block = code.block(statement)
    last = block[-1]
    leaves = isinstance(last, (ast.Return, ast.Continue, ast.Break, ast.Raise))
    end = last.lineno - 1 if leaves else last_line(last)
    read = (node for node in walk(code.function(statement)) if attr_of(node) == "grad" and is_read(node))
    if any(node.lineno > end for node in read if isinstance(node, ast.Attribute)):
        return None
    if leaves:
        return last, True
    uses = [
        member
        for member in block[block.index(statement) :]
        if any(node.attr in ("grad", "step", "backward", "clip_grad_norm_") for node in of_kind(member, ast.Attribute))
    ]
    return uses[-1] if uses else after_backward(code, backward, code.function(statement)) or statement, False


STRATEGIES: tuple[Strategy, ...] = (
    drop_create,
    clear_gradients,
    take_gradient,
)
"""What is proposed, preferred first."""
