"""Two backwards that share a part of the graph: one backward, a kept graph, a detached part, a fresh forward."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tapecheck.fixes import rewrite
from tapecheck.fixes.candidate import Candidate, Context, append, retain_position
from tapecheck.fixes.code import Code, dotted, root_name, targets, walk
from tapecheck.fixes.edit import Change
from tapecheck.fixes.story import Collision, frames, reads
from tapecheck.fixes.strategies.carried import after_backward
from tapecheck.source.parsing import parse_expression
from tapecheck.tape import Backward, GradientCleared, Node, Span, Step

_FILLING = frozenset({"append", "appendleft", "clear", "extend"})
_TAKING_ALL = frozenset(
    {"cat", "concat", "enumerate", "fsum", "hstack", "list", "stack", "sum", "tuple", "vstack", "zip"}
)
"""Functions that take all values of a container at once, however many there are."""
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_SUMMING = _TAKING_ALL - {"enumerate", "list", "tuple", "zip"}
_MOST_STATEMENTS = 6


def sum_losses(context: Context) -> Iterator[Candidate]:
    """Rewrite `a.backward(); b.backward()` to `(a + b).backward()`: the gradients are the same."""
    code = context.code
    for collision in context.collisions:
        first, second = collision.first, collision.second
        if first is None or any(isinstance(event, (Step, GradientCleared)) for event in collision.between()):
            continue
        for one, other in _call_pairs(code, first, second):
            if one is other:
                yield from _sum_in_loop(context, one)
                continue
            pair = code.same_block(one, other)
            if pair is None or not isinstance(pair[0], ast.Expr) or not isinstance(pair[1], ast.Expr):
                continue
            if pair[0].value is not one or pair[1].value is not other:
                continue
            # Every further backward between the two belongs into the same sum.
            block = code.block(pair[0])
            run = [
                statement
                for statement in block[block.index(pair[0]) : block.index(pair[1]) + 1]
                if isinstance(statement, ast.Expr) and _loss_of(code, statement.value, one) is not None
            ]
            losses = [_loss_of(code, statement.value, one) for statement in run]
            if len(run) < 2 or any(
                _stored_between(code, block, run[place:], loss) for place, loss in enumerate(losses) if loss is not None
            ):
                continue
            texts = [code.segment(loss) for loss in losses if loss is not None]
            if len(set(texts)) < len(texts):
                continue
            call = run[-1].value
            assert isinstance(call, ast.Call)
            summed = " + ".join(_operand(text) for text in texts)
            new = _with_loss(code, call, losses[-1], summed)
            deletions = [code.delete(statement) for statement in run[:-1]]
            if new is None or any(change is None for change in deletions):
                continue
            total = " + ".join(texts)
            listing = f"`{total}`" if len(total) < 50 else "the sum of the losses"
            yield Candidate(
                f"Run one backward over {listing}",
                "The gradients are the same: those of the sum are the sum of those that each loss gives.",
                [new, *(change for change in deletions if change is not None)],
                safe=context.stops,
            )
            break


def step_once(context: Context) -> Iterator[Candidate]:
    """Rewrite `a.backward(); opt.step(); b.backward(); opt.step()` to `(a + b).backward(); opt.step()`.

    For an optimizer that learns from both losses: the step between the two backwards goes.
    """
    code = context.code
    for collision in context.collisions:
        first, second = collision.first, collision.second
        if first is None or not collision.same_iteration:
            continue
        if not any(isinstance(event, Step) for event in collision.between()):
            continue
        for one, other in _call_pairs(code, first, second):
            pair = code.same_block(one, other) if one is not other else None
            if pair is None or not isinstance(pair[0], ast.Expr) or not isinstance(pair[1], ast.Expr):
                continue
            losses = (_loss_of(code, pair[0].value, one), _loss_of(code, pair[1].value, one))
            if pair[0].value is not one or pair[1].value is not other or None in losses:
                continue
            block = code.block(pair[0])
            here, there = block.index(pair[0]), block.index(pair[1])
            earlier, between, later = block[:here], block[here + 1 : there], block[there + 1 :]
            again = {ast.unparse(member) for member in later if _calls(member, "step")}
            cleared = {ast.unparse(member) for member in earlier if _calls(member, "zero_grad")}
            gone = [
                member
                for member in between
                if (_calls(member, "step") and ast.unparse(member) in again)
                or (_calls(member, "zero_grad") and ast.unparse(member) in cleared)
            ]
            steps = [member for member in gone if _calls(member, "step")]
            # A way without another step after the second backward would leave the first loss unlearned.
            if not steps or any(_calls(member, "step") for member in between if member not in gone):
                continue
            if any(_calls(member, "zero_grad") for member in between if member not in gone) and not cleared:
                continue
            assert losses[0] is not None and losses[1] is not None
            names = {
                node.id for loss in losses if loss is not None for node in ast.walk(loss) if isinstance(node, ast.Name)
            }
            stores = [part for member in between for node in ast.walk(member) for part in targets(node)]
            if any(root_name(part) in names for part in stores):
                continue
            summed = " + ".join(_operand(code.segment(loss)) for loss in losses if loss is not None)
            call = pair[1].value
            assert isinstance(call, ast.Call)
            new = _with_loss(code, call, losses[1], summed)
            deletions = [code.delete(member) for member in (pair[0], *gone)]
            if new is None or any(change is None for change in deletions):
                continue
            listing = f"`{summed}`" if len(summed) < 50 else "the sum of both losses"
            yield Candidate(
                f"Run one backward over {listing} and step once, instead of once for each loss",
                "Both losses are learned from in one step, with the parameters that both were computed with.",
                [new, *(change for change in deletions if change is not None)],
            )
            break


def _calls(statement: ast.stmt, method: str) -> bool:
    call = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == method


def _call_pairs(code: Code, first: Backward, second: Backward) -> Iterator[tuple[ast.Call, ast.Call]]:
    """Yield the calls of two backwards in a function that runs both: the calls themselves, or of a helper."""
    for low in frames(first.at):
        for high in frames(second.at):
            one, other = code.expression_at(low), code.expression_at(high)
            if isinstance(one, ast.Call) and isinstance(other, ast.Call):
                if code.function(one) is code.function(other):
                    yield one, other


def _loss_of(code: Code, call: ast.AST, model: ast.Call) -> ast.expr | None:
    """Return what a backward call is of: `x` in `x.backward()`, `scaler.scale(x).backward()` and `helper.backward(x)`.

    `model` is the call that it must look like. None where more than the loss and retain_graph is passed.
    """
    if not isinstance(call, ast.Call) or not isinstance(call.func, (ast.Attribute, ast.Name)):
        return None
    if any(keyword.arg != "retain_graph" for keyword in call.keywords):
        return None
    if isinstance(call.func, ast.Attribute) and call.func.attr == "backward" and not call.args:
        if not (isinstance(model.func, ast.Attribute) and model.func.attr == "backward" and not model.args):
            return None
        inner, outer = call.func.value, model.func.value
        if isinstance(inner, ast.Call) and isinstance(outer, ast.Call) and len(inner.args) == 1 == len(outer.args):
            # Only scaling is linear: of any other function's results the sum is not the function of the sum.
            scales = isinstance(inner.func, ast.Attribute) and inner.func.attr == "scale"
            if scales and ast.unparse(inner.func) == ast.unparse(outer.func):
                return inner.args[0]
        return inner
    if len(call.args) == 1 and ast.unparse(call.func) == ast.unparse(model.func):
        name = call.func.attr if isinstance(call.func, ast.Attribute) else call.func.id
        if "backward" in name and not isinstance(call.args[0], ast.Starred):
            return call.args[0]
    return None


def _with_loss(code: Code, call: ast.Call, loss: ast.expr | None, summed: str) -> Change | None:
    """Return the whole call with another loss, and without retain_graph: nothing needs the graph again."""
    if loss is None:
        return None
    start, end = code.start(call), code.end(call)
    low, high = code.start(loss), code.end(loss)
    receiver = isinstance(call.func, ast.Attribute) and call.func.value is loss
    if receiver and code.in_parentheses(loss):
        text = code.text[start:low] + summed + code.text[high:end]
    else:
        text = code.text[start:low] + (f"({summed})" if receiver else summed) + code.text[high:end]
    try:
        if rewrite.argument(text, "retain_graph") is not None:
            text = rewrite.without_argument(text, "retain_graph")
    except rewrite.RewriteError:
        return None
    return Change(start, end, text)


def _operand(text: str) -> str:
    node = parse_expression(f"({text}\n)")
    return f"({text})" if isinstance(node, (ast.IfExp, ast.Lambda, ast.BoolOp, ast.Compare, ast.NamedExpr)) else text


def _stored_between(code: Code, block: list[ast.stmt], run: list[ast.Expr], loss: ast.expr) -> bool:
    """Return whether a name that a loss is made of is assigned between its backward, the first, and the last one."""
    names = {node.id for node in ast.walk(loss) if isinstance(node, ast.Name)}
    for statement in block[block.index(run[0]) + 1 : block.index(run[-1])]:
        for node in ast.walk(statement):
            if any(root_name(target) in names for target in targets(node)):
                return True
    return False


def _sum_in_loop(context: Context, call: ast.Call) -> Iterator[Candidate]:
    """Rewrite `for loss in losses: loss.backward()` to `sum(losses).backward()`."""
    code = context.code
    statement = code.statement(call)
    loop = code.parent(statement) if statement is not None else None
    if not isinstance(loop, ast.For) or len(loop.body) != 1 or loop.orelse or not isinstance(loop.target, ast.Name):
        return
    loss = _loss_of(code, call, call)
    if not isinstance(loss, ast.Name) or loss.id != loop.target.id:
        return
    new = _with_loss(code, call, loss, f"sum({code.segment(loop.iter)})")
    if new is None:
        return
    text = new.content.replace(f"(sum({code.segment(loop.iter)}))", f"sum({code.segment(loop.iter)})", 1)
    yield Candidate(
        f"Run one backward over the sum of `{code.segment(loop.iter)}`",
        "The gradients are the same: those of the sum are the sum of those that each loss gives.",
        [code.replace(loop, text)],
        safe=context.stops,
    )


def sum_over_loop(context: Context) -> Iterator[Candidate]:
    """Rewrite `for head in heads: head(z).mean().backward()` to a sum in the loop and one backward behind it."""
    code = context.code
    for collision in context.collisions:
        first, second = collision.first, collision.second
        if first is None or first.at.span != second.at.span or collision.same_iteration:
            continue
        if any(isinstance(event, (Step, GradientCleared)) for event in collision.between()):
            continue
        call = context.call_at(second.at.span)
        statement = code.statement(call) if call is not None else None
        loop = code.parent(statement) if statement is not None else None
        if call is None or not isinstance(loop, ast.For) or loop.orelse or not isinstance(statement, ast.Expr):
            continue
        loss = _loss_of(code, call, call) if statement.value is call else None
        uses = [node for node in ast.walk(loop) if isinstance(node, ast.Attribute) and node.attr in ("grad", "step")]
        ends = [node for node in walk(loop) if isinstance(node, (ast.Break, ast.Continue, ast.Return))]
        if loss is None or uses or ends or loop.end_lineno is None:
            continue
        name = next(
            (free for free in ("total_loss", "loss_sum", "summed_loss") if not code.named(code.function(loop), free)),
            None,
        )
        before = code.insert_before(loop, [f"{name} = 0"])
        behind = _with_loss(code, call, loss, name or "")
        if name is None or before is None or behind is None:
            continue
        after = code.insert_after(loop, [behind.content.replace(f"({name}).", f"{name}.")])
        if after is None:
            continue
        text = code.segment(loss)
        added = f"{name} = {name} + {_operand(text)}" if "\n" not in text and "\r" not in text else None
        if added is None:
            continue
        yield Candidate(
            "Add the losses up in the loop and run one backward behind it",
            "The gradients are the same: those of the sum are the sum of those that each loss gives.",
            [before, code.replace(statement, added), after],
            safe=context.stops and not collision.walked_before,
            group="sum",
        )


def call_once(context: Context) -> Iterator[Candidate]:
    """Drop the second of two backwards of one loss: it would only add the same gradients again."""
    code = context.code
    for collision in context.collisions:
        first, second = collision.first, collision.second
        if first is None or not _repeats(context, collision):
            continue
        if any(isinstance(event, Step) for event in collision.between()):
            continue
        one, other = context.call_at(first.at.span), context.call_at(second.at.span)
        pair = code.same_block(one, other) if one is not None and other is not None else None
        # The first call runs wherever the second does: a condition around the second alone goes with it or stays empty.
        if pair is None or not isinstance(pair[0], ast.Expr) or pair[0].value is not one:
            continue
        gone = code.statement_at(second.at.span)
        deletion = code.delete(gone) if isinstance(gone, ast.Expr) and gone.value is other else None
        if deletion is not None and other is not None:
            yield Candidate(
                f"Run backward once: drop the second call (line {other.lineno})",
                "The gradients are those of one backward; the second one would add the same again.",
                [deletion],
            )
            break


def _repeats(context: Context, collision: Collision) -> bool:
    """Return whether the second backward adds once more what the first one has added to the same gradients."""
    first, second = collision.first, collision.second
    if first is None or not (first.accumulates and second.accumulates) or first.inputs != second.inputs:
        return False
    if any(isinstance(event, GradientCleared) for event in collision.between()):
        return False
    roots = [root.node for root in first.roots]
    if None in roots or roots != [root.node for root in second.roots]:
        return False
    calls = [context.call_at(backward.at.span) for backward in (first, second)]
    if None in calls:
        return True
    # `out.backward(row)` for each row of a Jacobian walks one graph with other weights.
    weights = [
        [ast.unparse(part) for part in (*call.args, *(k.value for k in call.keywords if k.arg == "gradient"))]
        for call in calls
        if call is not None
    ]
    return weights[0] == weights[1]


def retain_first(context: Context) -> Iterator[Candidate]:
    """Put `retain_graph=True` at the backward that frees what the second one needs."""
    for collision in context.collisions:
        first = collision.first
        if first is None:
            continue
        # With a step in between, a later iteration would learn from weights that are gone.
        stepped = any(isinstance(event, Step) for event in collision.between())
        if collision.same_iteration or not stepped:
            yield from _retain(context, context.code, first, collision)
            break


def _retain(context: Context, code: Code, first: Backward, collision: Collision) -> Iterator[Candidate]:
    call = context.call_at(first.at.span)
    spans: list[Span] = [first.at.span]
    if call is not None and any(keyword.arg is None for keyword in call.keywords):
        # The call passes its caller's keywords on: the caller is where the argument belongs.
        spans = list(first.at.stack) or spans
        call = context.call_at(spans[0])
    if call is None:
        return
    position = retain_position(call) if spans[0] == first.at.span else None
    try:
        new = rewrite.with_argument(code.segment(call), "retain_graph", "True", position=position)
    except rewrite.RewriteError:
        return
    repeats = _repeats(context, collision)
    yield Candidate(
        f"Keep the graph of the first backward (line {call.lineno}): `retain_graph=True`",
        "Both backwards add the same gradients: what is learned from is twice the gradient of this loss."
        if repeats
        else "Both backwards run over the same graph; its saved tensors stay in memory until the second one is done.",
        [code.replace(call, new)],
        safe=collision.same_iteration
        and first.at.span != collision.second.at.span
        and not context.caught
        and not repeats,
    )


def detach_shared(context: Context) -> Iterator[Candidate]:
    """Rewrite `netD(fake)` to `netD(fake.detach())`: one of the two backwards does not run over the shared part."""
    for collision in context.collisions:
        if not collision.same_iteration or collision.first is None:
            continue
        below = collision.leaves(source for _, source in collision.forks(True))
        # What is below the shared value has had its step: the second backward is not for it.
        if collision.trained_between(below) and not _steps_again(context.code, collision):
            yield from _detach_side(context, collision, False)
        yield from _detach_side(context, collision, True)


def _steps_again(code: Code, collision: Collision) -> bool:
    """Return whether an optimizer that steps between the two backwards steps behind the second one too."""
    second = code.statement_at(collision.second.at.span)
    if second is None:
        return False
    following = {
        ast.unparse(node)
        for node in walk(code.function(second))
        if isinstance(node, ast.Expr) and _calls(node, "step") and node.lineno >= second.lineno
        and code.start(node) > code.start(second)
    }  # fmt: skip
    between = (code.statement_at(event.at.span) for event in collision.between() if isinstance(event, Step))
    return any(step is not None and ast.unparse(step) in following for step in between)


def _detach_side(context: Context, collision: Collision, first_side: bool) -> Iterator[Candidate]:
    code = context.code
    found: dict[int, tuple[ast.expr, int]] = {}
    for consumer, source in collision.forks(first_side):
        read = _read_of(code, collision, consumer, source)
        if read is None:
            return
        found.setdefault(id(read), (read, source))
    changes = [append(code, read, ".detach()") for read, _ in found.values()]
    kept = [change for change in changes if change is not None]
    if not kept or len(kept) < len(changes):
        return
    leaves = collision.leaves(source for _, source in found.values())
    names = " and ".join(dict.fromkeys(_handed(code, read) for read, _ in found.values()))
    line = min(read.lineno for read, _ in found.values())
    safe = not context.caught and (not first_side or collision.discarded_after_first(leaves))
    effect = (
        "What it is made of gets no gradient from this loss; the program drops that gradient anyway."
        if safe
        else "What it is made of gets no gradient from this loss any more."
    )
    drop = context.drop_retain(collision.first)
    title = f"Detach {names} (line {line})"
    if not safe:
        title += ": nothing before it learns from this loss"
    if drop:
        dropping = title.replace(f"(line {line})", f"(line {line}) and drop `retain_graph=True`", 1)
        yield Candidate(dropping, effect, [*kept, *drop], safe, title)
    yield Candidate(title, effect, kept, safe, title)


def _handed(code: Code, read: ast.expr) -> str:
    """Return a value and what it is handed to, as a title names them."""
    parent = code.parent(read)
    if isinstance(parent, ast.Call) and read in parent.args and dotted(parent.func) is not None:
        return f"`{code.segment(read)}` for `{dotted(parent.func)}`"
    return f"`{code.segment(read)}`"


def _read_of(code: Code, collision: Collision, consumer: Node, source: int) -> ast.expr | None:
    """Return the expression that hands a node's value to its consumer, in the outermost function that names it."""
    names = collision.names(source)
    for frame in reversed(frames(consumer.at)):
        expression = code.expression_at(frame)
        if expression is None:
            continue
        for read in reads(expression):
            if dotted(read) in names:
                return read
    return None


def forward_inside(context: Context) -> Iterator[Candidate]:
    """Compute what every backward needs where each finds it fresh: inside the loop or the closure."""
    for collision in context.collisions:
        needed = _building_statements(context.code, collision)
        target = context.code.statement_at(collision.second.at.span)
        if needed is not None and target is not None:
            yield from _move(context, collision, needed, target)


def forward_again(context: Context) -> Iterator[Candidate]:
    """Run the forward that the second backward needs once more before it."""
    for collision in context.collisions:
        if collision.change is not None and collision.change.optimizer is None and collision.built_after_change():
            # The change is a part of the forward pass: run again without it, it would be another one.
            continue
        needed = _building_statements(context.code, collision)
        target = context.code.statement_at(collision.second.at.span)
        if needed is not None and target is not None:
            yield from _repeat_behind(context, collision, needed, target)
            yield from _repeat(context, collision, needed, target)


def _building_statements(code: Code, collision: Collision) -> list[ast.stmt] | None:
    """Return the assignments, of one block, that build what the two backwards share or what leads to it."""
    wanted = {
        number
        for number in collision.reached
        if number in collision.ledger.nodes and number <= collision.newest and collision.leads_to_spoiled(number)
    }
    if not wanted or any("__init__" in collision.ledger.nodes[number].at.function for number in wanted):
        # What a constructor computes is part of the object: building the object anew would be another program.
        return None
    statements: dict[int, ast.stmt] = {}
    for number in sorted(wanted):
        node = collision.ledger.nodes[number]
        places = [code.statement_at(frame) for frame in frames(node.at)]
        known = [place for place in places if place is not None]
        if not known:
            return None
        statements.setdefault(number, known[-1])
    # All in the block of the outermost call, or else in that of the function that both run in.
    groups: dict[int, list[ast.stmt]] = {}
    for statement in statements.values():
        block = code.block(statement)
        group = groups.setdefault(id(block), [])
        if statement not in group:
            group.append(statement)
    if len(groups) != 1:
        function = _common_function(code, collision, wanted)
        if function is None:
            return None
        found = function
    else:
        found = next(iter(groups.values()))
    found = sorted(found, key=lambda statement: statement.lineno)
    # A call that runs the second backward as well is around both, not before it.
    around = any(code.statement_at(frame) in found for frame in frames(collision.second.at))
    if around or len(found) > _MOST_STATEMENTS or not all(isinstance(statement, ast.Assign) for statement in found):
        function = _common_function(code, collision, wanted)
        if function is None or len(function) > _MOST_STATEMENTS:
            return None
        if not all(isinstance(statement, ast.Assign) for statement in function):
            return None
        found = function
    return found


def _common_function(code: Code, collision: Collision, wanted: set[int]) -> list[ast.stmt] | None:
    """Return the statements in the function of the second backward, of one block, that build the wanted nodes."""
    second = code.statement_at(collision.second.at.span)
    if second is None:
        return None
    function = code.function(second)
    found: list[ast.stmt] = []
    for number in sorted(wanted):
        node = collision.ledger.nodes[number]
        place = None
        for frame in frames(node.at):
            statement = code.statement_at(frame)
            if statement is not None and code.function(statement) is function:
                place = statement
                break
        if place is None:
            return None
        if place not in found:
            found.append(place)
    found.sort(key=lambda statement: statement.lineno)
    if not found or any(code.block(statement) is not code.block(found[0]) for statement in found):
        return None
    return found


def _move(context: Context, collision: Collision, needed: list[ast.stmt], target: ast.stmt) -> Iterator[Candidate]:
    """Move statements from before a loop, or from around a closure, to where each backward finds them fresh."""
    code = context.code
    home = code.function(needed[0])
    inner = code.function(target)
    loops = [loop for loop in code.loops(target) if all(not code.inside(statement, loop) for statement in needed)]
    closure = inner is not home and isinstance(inner, ast.FunctionDef) and code.inside(inner, home)
    if not loops and not closure:
        return
    body = inner.body if closure and isinstance(inner, ast.FunctionDef) else loops[0].body
    names = {root_name(part) for statement in needed for part in targets(statement)}
    if None in names:
        return
    place = _first_reading(code, body, {name for name in names if name is not None})
    if place is None:
        return
    lines: list[str] = []
    for statement in needed:
        text = code.lines_of(statement)
        if text is None:
            return
        lines.extend(text)
    insertion = code.insert_before(place, lines)
    if insertion is None:
        return
    where = f"closure `{inner.name}`" if closure and isinstance(inner, ast.FunctionDef) else "loop"
    listing = " and ".join(f"`{code.segment(part)}`" for statement in needed for part in targets(statement))
    container = inner if closure else loops[0]
    elsewhere = _read_outside(code, home, needed, container, names)
    deletions = [] if elsewhere else [code.delete(statement) for statement in needed]
    if any(change is None for change in deletions):
        return
    # Never safe: what was meant as a constant (an old policy, a target) would move with the parameters.
    yield Candidate(
        f"Compute {listing} inside the {where}, anew from the parameters as they are then",
        "Every backward has a graph of its own. Where the value was meant to stay what it is before the "
        f"{where.split()[0]}, detach it instead.",
        [insertion, *(change for change in deletions if change is not None)],
    )


def _first_reading(code: Code, body: list[ast.stmt], names: set[str]) -> ast.stmt | None:
    for statement in body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in names:
                return statement
    return None


def _read_outside(
    code: Code, home: ast.AST, needed: list[ast.stmt], container: ast.AST, names: set[str | None]
) -> bool:
    """Return whether something before or around the container reads what the statements assign."""
    last = getattr(container, "lineno", 0)
    for node in walk(home):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in names:
            statement = code.statement(node)
            if statement in needed or code.inside(node, container):
                continue
            if node.lineno < last:
                return True
    return False


def _repeat(context: Context, collision: Collision, needed: list[ast.stmt], target: ast.stmt) -> Iterator[Candidate]:
    """Write the forward once more before the second backward."""
    code = context.code
    lines: list[str] = []
    for statement in needed:
        text = _needed_part(code, collision, statement) or code.lines_of(statement)
        if text is None:
            return
        lines.extend(text)
    for insertion, drop in _inserted(context, collision, needed, target, lines):
        after, then = "for the second backward", ""
        if collision.change is not None:
            stepped = collision.change.optimizer is not None
            after = "after the step" if stepped else "after the change"
            then = f": the second loss sees the {'updated parameters' if stepped else 'changed values'}"
        effect = "The second loss is computed anew, which costs a second forward pass."
        title = f"Run the forward again {after}"
        if drop:
            yield Candidate(f"{title} and drop `retain_graph=True`{then}", effect, [insertion, *drop], group="again")
        yield Candidate(f"{title}{then}", effect, [insertion], group="again")


def _inserted(
    context: Context, collision: Collision, needed: list[ast.stmt], target: ast.stmt, lines: list[str]
) -> Iterator[tuple[Change, list[Change]]]:
    """Yield the change that writes lines before what reads the old values for the second backward, with what drops
    the first backward's `retain_graph`; nothing where they cannot stand there.
    """
    code = context.code
    if code.function(needed[0]) is not code.function(target):
        return
    pair = code.same_block(needed[-1], target)
    if pair is None or pair[0] not in needed or pair[0] is pair[1]:
        return
    if any(code.block(statement) is not code.block(pair[0]) for statement in needed):
        return
    if collision.first is not None and collision.first.at.span == collision.second.at.span:
        return
    block = code.block(pair[0])
    reading = [pair[1], *_consuming(code, collision, block, after=needed[-1])]
    insertion = code.insert_before(min(reading, key=lambda statement: statement.lineno), lines)
    if insertion is not None:
        yield insertion, context.drop_retain(collision.first)


def _repeat_behind(
    context: Context, collision: Collision, needed: list[ast.stmt], target: ast.stmt
) -> Iterator[Candidate]:
    """Rewrite `d_loss = f(score)` to `score = critic(z.detach()); d_loss = f(score)`: the critic's forward alone.

    What comes before it belongs to an optimizer that has stepped: the second backward is not for it.
    """
    code = context.code
    stepped = set().union(*collision.stepped_between())
    learned = collision.learned()
    done: list[ast.stmt] = []
    for statement in needed:
        leaves = _applied(code, collision, statement) & learned
        if not leaves or not leaves <= stepped:
            break
        done.append(statement)
    rest = needed[len(done) :]
    names = {part.id for statement in done for part in targets(statement) if isinstance(part, ast.Name)}
    if not rest or not names or _steps_again(code, collision):
        return
    behind = {leaf for statement in rest for leaf in _applied(code, collision, statement)} & learned
    if not behind or behind & stepped:
        return
    changes: list[list[str]] = []
    read: dict[str, None] = {}
    for statement in rest:
        text = code.segment(statement)
        loads = [
            node
            for node in ast.walk(statement)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in names
        ]
        if "\n" in text or "\r" in text:
            return
        for node in sorted(loads, key=code.end, reverse=True):
            place = code.end(node) - code.start(statement)
            text = f"{text[:place]}.detach(){text[place:]}"
            read[node.id] = None
        changes.append([text])
    for insertion, drop in _inserted(context, collision, needed, target, [line for lines in changes for line in lines]):
        listing = " and ".join(f"`{code.segment(part)}`" for statement in rest for part in targets(statement))
        title = f"Compute {listing} again from detached {' and '.join(f'`{name}`' for name in read)}"
        effect = (
            "The second loss trains what is computed again; what comes before it has had its step, and gets no "
            "gradient from this loss any more."
        )
        if drop:
            yield Candidate(f"{title} and drop `retain_graph=True`", effect, [insertion, *drop], group="again")
        yield Candidate(title, effect, [insertion], group="again")


def _applied(code: Code, collision: Collision, statement: ast.stmt) -> set[int]:
    """Return the leaves that the ops of a statement, or of what it calls, are applied to for the second backward."""
    return {
        source
        for number in collision.reached & collision.ledger.nodes.keys()
        if any(code.statement_at(frame) is statement for frame in frames(collision.ledger.nodes[number].at))
        for source in collision.ledger.nodes[number].inputs
        if source in collision.ledger.leaves
    }


def _consuming(code: Code, collision: Collision, block: list[ast.stmt], after: ast.stmt) -> list[ast.stmt]:
    """Return the statements of a block that build what comes behind the old values, for the second backward."""
    found: list[ast.stmt] = []
    for consumer, _ in collision.crossings():
        for frame in frames(consumer.at):
            statement = code.statement_at(frame)
            place = code.within_block(statement, block) if statement is not None else None
            if place is not None and place.lineno > after.lineno and place not in found:
                found.append(place)
    return found


def _needed_part(code: Code, collision: Collision, statement: ast.stmt) -> list[str] | None:
    """Of `a, b = f(x), g(x)` only the part that the second backward needs."""
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return None
    target, value = statement.targets[0], statement.value
    if not isinstance(target, ast.Tuple) or not isinstance(value, ast.Tuple) or len(target.elts) != len(value.elts):
        return None
    kept: list[tuple[str, str]] = []
    for name, element in zip(target.elts, value.elts, strict=True):
        low, high = code.start(element), code.end(element)
        for number in collision.reached:
            node = collision.ledger.nodes.get(number)
            if node is None:
                continue
            places = [
                code.index.offset(frame.line, frame.column)
                for frame in frames(node.at)
                if frame.file == code.source.path
            ]
            if any(low <= place < high for place in places):
                kept.append((code.segment(name), code.segment(element)))
                break
    if not kept or len(kept) == len(target.elts) or any("\n" in value or "\r" in value for _, value in kept):
        return None
    return [", ".join(name for name, _ in kept) + " = " + ", ".join(value for _, value in kept)]


def clear_stored(context: Context) -> Iterator[Candidate]:
    """Empty a list that still holds graphs of an earlier backward, or store detached values in it."""
    code = context.code
    for collision in context.collisions:
        if collision.first is None:
            continue
        seen: set[str] = set()
        for _, source in collision.crossings():
            for call in _storing_calls(code, collision, source):
                assert isinstance(call.func, ast.Attribute)
                container = code.segment(call.func.value)
                if container in seen:
                    continue
                seen.add(container)
                yield from _detach_stored(code, call)
                yield from _clear_after(context, collision, call)


def _storing_calls(code: Code, collision: Collision, source: int) -> Iterator[ast.Call]:
    """Yield the calls such as `self.log_probs.append(x)` that put a node's value into a container."""
    names = collision.names(source)
    spans = list(frames(collision.ledger.nodes[source].at))
    spans += [frame for hold in collision.holders.get(source, ()) for frame in frames(hold.at)]
    spans += [frame for bind in collision.binds.get(source, ()) for frame in frames(bind.at)]
    places = [node for node in (code.statement_at(span) for span in spans) if node is not None]
    functions = {id(function): function for function in (code.function(place) for place in places)}
    for function in functions.values():
        for node in walk(function):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or not node.args:
                continue
            if node.func.attr not in ("append", "appendleft", "add", "push", "insert"):
                continue
            value = node.args[-1]
            inside = any(
                code.index.offset(span.line, span.column) in range(code.start(value), code.end(value) + 1)
                for span in spans
                if span.file == code.source.path
            )
            if inside or any(dotted(read) in names for read in reads(value)):
                yield node


def _detach_stored(code: Code, call: ast.Call) -> Iterator[Candidate]:
    change = append(code, call.args[-1], ".detach()")
    if change is not None and isinstance(call.func, ast.Attribute):
        yield Candidate(
            f"Store `{code.segment(call.args[-1])}` detached in `{code.segment(call.func.value)}`: no gradient flows "
            "through what is stored",
            "What is stored carries no graph: gradients no longer flow through it.",
            [change],
        )


def _needs_older_values(code: Code, holder: ast.expr) -> bool:
    """Return whether a program draws from a container, indexes it, asks for its size, bounds it or hands it on.

    Only going over all of it and adding to it work as before on one that was emptied.
    """
    name = holder.attr if isinstance(holder, ast.Attribute) else dotted(holder)
    for node in ast.walk(code.tree):
        last = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else None
        if last != name or not isinstance(node, (ast.Attribute, ast.Name)):
            continue
        parent = code.parent(node)
        if isinstance(node.ctx, ast.Store):
            value = getattr(parent, "value", None)
            if isinstance(value, ast.Call) and (value.keywords or len(value.args) > 1):
                return True
        elif isinstance(parent, ast.Attribute):
            if parent.attr not in _FILLING:
                return True
        elif isinstance(parent, ast.Call) and node is not parent.func:
            called = dotted(parent.func) or ""
            if called.rpartition(".")[2] not in _TAKING_ALL:
                return True
        elif isinstance(parent, (ast.For, ast.AsyncFor, ast.comprehension)):
            if parent.iter is not node:
                return True
        elif not isinstance(parent, (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Delete)):
            return True
        elif isinstance(parent, (ast.Assign, ast.AnnAssign)):
            # Under another name it may be used in any way.
            return True
    return False


def _stands_alone(code: Code, name: str, last: ast.stmt) -> bool:
    """Return whether each iteration of the loop around a statement first fills a list, then goes over it as a whole, up
    to the statement, and nothing else reads it, now or later, or has to be as long as it is.
    """
    function = code.function(last)
    loop = next((one for one in code.parents(last) if isinstance(one, (ast.For, ast.While, *_SCOPES))), None)
    if not isinstance(loop, (ast.For, ast.While)):
        return False
    filled: list[int] = []
    read: list[int] = []
    for node in ast.walk(code.tree):
        if isinstance(node, ast.Attribute) and dotted(node) == name:
            # An attribute is read wherever its object is.
            return False
        if not isinstance(node, ast.Name) or node.id != name:
            continue
        if isinstance(node.ctx, ast.Store):
            assigned = isinstance(code.parent(node), (ast.Assign, ast.AnnAssign))
            if not assigned or code.function(node) is not function or code.inside(node, loop):
                return False
        elif not code.inside(node, loop) or not _taken_whole(code, node) or node.lineno > last.lineno:
            return False
        elif not _fills(code, node):
            read.append(node.lineno)
        elif code.statement(node) in loop.body:
            filled.append(node.lineno)
    if not filled or (read and min(read) < min(filled)):
        return False
    others = {
        dotted(node.func.value)
        for node in ast.walk(loop)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _FILLING
    } - {name}
    return not any(
        isinstance(node, (ast.Name, ast.Attribute)) and dotted(node) in others and not _fills(code, node)
        for node in ast.walk(loop)
    )


def _fills(code: Code, node: ast.expr) -> bool:
    parent = code.parent(node)
    return isinstance(parent, ast.Attribute) and parent.attr in _FILLING


def _taken_whole(code: Code, node: ast.expr) -> bool:
    """Return whether a container is added to, or gone over by itself from its first element to its last."""
    parent = code.parent(node)
    if _fills(code, node):
        return True
    if isinstance(parent, ast.Call) and node is not parent.func:
        return (dotted(parent.func) or "").rpartition(".")[2] in _SUMMING
    return isinstance(parent, (ast.For, ast.comprehension)) and parent.iter is node


def _clear_after(context: Context, collision: Collision, call: ast.Call) -> Iterator[Candidate]:
    code = context.code
    assert isinstance(call.func, ast.Attribute)
    holder = call.func.value
    first = collision.first
    assert first is not None
    attribute = holder.attr if isinstance(holder, ast.Attribute) else None
    for frame in frames(first.at):
        statement = code.statement_at(frame)
        if statement is None:
            continue
        function = code.function(statement)
        texts = {
            dotted(node)
            for node in walk(function)
            if isinstance(node, (ast.Attribute, ast.Name))
            and (
                dotted(node) == dotted(holder)
                if attribute is None
                else isinstance(node, ast.Attribute) and node.attr == attribute
            )
        }
        last = after_backward(code, first, function)
        if last is None:
            continue
        if _needs_older_values(code, holder):
            # A replay memory that is emptied has too few values to draw from, or none at an index.
            continue
        for text in sorted(text for text in texts if text is not None):
            change = code.insert_after(last, [f"{text}.clear()"])
            if change is not None:
                yield Candidate(
                    f"Empty `{text}` after the backward",
                    "Each backward learns from the values stored since the one before; older ones are dropped.",
                    [change],
                    safe=context.stops and _stands_alone(code, text, last),
                )
