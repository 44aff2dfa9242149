"""What a backward or grad call is told: retain_graph, create_graph, and what is left in `.grad` afterwards."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tapecheck.fixes import rewrite
from tapecheck.fixes.candidate import Candidate, Context, remove_argument, retain_position
from tapecheck.fixes.code import Code, dotted, walk
from tapecheck.fixes.story import frames
from tapecheck.fixes.strategies.carried import after_backward
from tapecheck.tape import Backward, Bind, Cut, GradientCleared, Leaf, Span, Tape
from tapecheck.tape.ledger import replay

_CREATE_POSITION = 4


def drop_retain(context: Context) -> Iterator[Candidate]:
    """Take the needless `retain_graph` away."""
    code = context.code
    effect = "The gradients are the same; the graph is freed by this backward instead of later."
    seen: set[ast.Call] = set()
    for _, backward in context.backwards_here():
        for frame in frames(backward.at):
            call = context.call_at(frame)
            if call is None or call in seen:
                continue
            seen.add(call)
            position = retain_position(call) if frame == backward.at.span else None
            change = remove_argument(code, call, "retain_graph", position)
            if change is not None:
                yield Candidate("Drop `retain_graph`: nothing runs over this graph again", effect, [change], safe=True)
    for call in code.calls_in(context.finding.span):
        change = remove_argument(code, call, "retain_graph")
        if change is not None:
            yield Candidate("Drop `retain_graph`: nothing runs over this graph again", effect, [change], safe=True)


def create_graph(context: Context) -> Iterator[Candidate]:
    """`create_graph=True` in the grad call whose result goes into the loss."""
    code = context.code
    for call in _grad_calls(context):
        if any(keyword.arg is None for keyword in call.keywords) and _passes_retain(call) is None:
            continue
        text = code.segment(call)
        name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        position = _CREATE_POSITION if name == "grad" else None
        try:
            new = rewrite.with_argument(text, "create_graph", "True", position=position, replacing=("retain_graph",))
            if new != text and rewrite.argument(new, "retain_graph") == "True":
                # create_graph keeps the graph already: beside it retain_graph=True says nothing.
                new = rewrite.without_argument(new, "retain_graph")
        except rewrite.RewriteError:
            continue
        yield Candidate(
            f"Take the gradient on line {call.lineno} with `create_graph=True`",
            "The term now changes what is learned: its own gradient reaches the parameters. "
            "The graph of the gradient is built too, which costs memory and time.",
            [code.replace(call, new)],
        )


def _passes_retain(call: ast.Call) -> ast.keyword | None:
    return next((keyword for keyword in call.keywords if keyword.arg in ("retain_graph", "create_graph")), None)


def _grad_calls(context: Context) -> list[ast.Call]:
    """The calls that took the gradient without a graph, or handed keywords to what took it; likeliest first."""
    code = context.code
    spans: list[Span] = []
    for tape in context.tapes:
        cuts = {event.id: event for event in tape.events if isinstance(event, Cut)}
        labelled = {label.span.line for label in context.labels("cut", "built", "path")}
        for other, backward in context.backwards_here():
            if other is tape:
                for root in backward.roots:
                    for number in (*root.constant_terms, *root.cuts):
                        cut = cuts.get(number)
                        if cut is not None and cut.how == "grad":
                            spans.extend(frames(cut.at))
        for cut in cuts.values():
            if cut.how == "grad" and any(frame.line in labelled for frame in frames(cut.at)):
                spans.extend(frames(cut.at))
    for label in context.labels("cut", "built", "path"):
        spans.append(label.span)
    calls: list[ast.Call] = []
    for span in spans:
        inside = list(code.calls_in(span))
        for call in inside:
            name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
            if call not in calls and (name == "grad" or _passes_retain(call) is not None):
                calls.append(call)
    # Nothing on the tapes: the gradients taken in the function of the finding.
    statement = code.statement_at(context.finding.span)
    if not calls and statement is not None:
        for node in walk(code.function(statement)):
            if isinstance(node, ast.Call) and (dotted(node.func) or "").rsplit(".", 1)[-1] == "grad":
                calls.append(node)
    return calls


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
                yield Candidate(
                    "Drop the gradients once they are used: `.grad = None`",
                    "The gradients are used as before; dropped afterwards, they let go of the graph.",
                    [change],
                    safe=True,
                    group="clear",
                )
        break


def _left_over(tape: Tape, backward: Backward) -> list[Leaf]:
    """The leaves that still hold a gradient with a graph when the tape ends, or when its backward runs again."""
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
    """The names that leaves were bound to."""
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
    """Where gradients are used no more in the block of a backward: behind its last statement that may use them,
    or before the return that ends it."""
    block = code.block(statement)
    last = block[-1]
    if isinstance(last, (ast.Return, ast.Continue, ast.Break, ast.Raise)):
        return last, True
    uses = [
        member
        for member in block[block.index(statement) :]
        if any(
            isinstance(node, ast.Attribute) and node.attr in ("grad", "step", "backward", "clip_grad_norm_")
            for node in ast.walk(member)
        )
    ]
    after = after_backward(code, backward, code.function(statement))
    found = uses[-1] if uses else after or statement
    return found, False
