"""Two backwards that share a part of the graph: one backward, a kept graph, a detached part, a fresh forward."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tapecheck.fixes import rewrite
from tapecheck.fixes.between import gradients_add_up, gradients_unseen, statements_between
from tapecheck.fixes.candidate import Candidate, Context, append
from tapecheck.fixes.code import Code, dotted, root_name, targets, walk
from tapecheck.fixes.edit import Change
from tapecheck.fixes.noticed import doubt_of_detaching
from tapecheck.fixes.story import Collision, frames, reads
from tapecheck.rules.words import join
from tapecheck.source.nodes import attr_of, method_called, of_kind
from tapecheck.source.parsing import parse_expression
from tapecheck.tape import Backward, Node, Step

MOST_STATEMENTS = 6


def step_once(context: Context) -> Iterator[Candidate]:
    """Rewrite `a.backward(); opt.step(); b.backward(); opt.step()` to `(a + b).backward(); opt.step()`.

    For an optimizer that learns from both losses: the step between the two backwards goes.
    """
    for collision in context.collisions:
        first, second = collision.first, collision.second
        if first is None or not collision.same_iteration:
            continue
        if not any(isinstance(event, Step) for event in collision.between()):
            continue
        for one, other in call_pairs(context.code, first, second):
            candidate = _stepped_once(context.code, one, other) if one is not other else None
            if candidate is not None:
                yield candidate
                break


def _stepped_once(code: Code, one: ast.Call, other: ast.Call) -> Candidate | None:
    pair = call_statements(code, one, other)
    losses = [loss for call in (one, other) if (loss := loss_of(code, call, one)) is not None]
    if pair is None or len(losses) < 2:
        return None
    gone = _stepped_between(code, *pair)
    if not gone or stored_between(code, *pair, *losses):
        return None
    summed = " + ".join(operand_of(code.segment(loss)) for loss in losses)
    new = with_loss(code, other, losses[1], summed)
    deletions = code.delete_all((pair[0], *gone))
    if new is None or deletions is None:
        return None
    listing = f"`{summed}`" if len(summed) < 50 else "the sum of both losses"
    return Candidate(
        f"Run one backward over {listing} and step once, instead of once for each loss",
        "Both losses are learned from in one step, with the parameters that both were computed with.",
        [new, *deletions],
    )


def call_statements(code: Code, one: ast.Call, other: ast.Call) -> tuple[ast.Expr, ast.Expr] | None:
    """Return the statements that two calls are, where they stand in one block."""
    pair = code.same_block(one, other)
    if pair is None or not isinstance(pair[0], ast.Expr) or not isinstance(pair[1], ast.Expr):
        return None
    return (pair[0], pair[1]) if pair[0].value is one and pair[1].value is other else None


def _stepped_between(code: Code, first: ast.stmt, second: ast.stmt) -> list[ast.stmt]:
    """Return the steps between two statements of a block that the one after both repeats, with what clears for them;
    none where another step or clearing is left there.
    """
    block = code.block(first)
    here, there = block.index(first), block.index(second)
    again = {ast.unparse(member) for member in block[there + 1 :] if _calls(member, "step")}
    cleared = {ast.unparse(member) for member in block[:here] if _calls(member, "zero_grad")}
    between = block[here + 1 : there]
    steps = [member for member in between if _calls(member, "step")]
    clearings = [member for member in between if _calls(member, "zero_grad")]
    # A path without another step after the second backward would leave the first loss unlearned.
    if not steps or any(ast.unparse(step) not in again for step in steps):
        return []
    kept = [member for member in clearings if ast.unparse(member) not in cleared]
    return [] if kept and not cleared else [member for member in (*steps, *clearings) if member not in kept]


def stored_between(code: Code, first: ast.stmt, second: ast.stmt, *losses: ast.expr) -> bool:
    """Return whether a statement between two others of a block stores a name that one of the losses reads."""
    block = code.block(first)
    between = block[block.index(first) + 1 : block.index(second)]
    names = {node.id for loss in losses for node in of_kind(loss, ast.Name)}
    stores = (part for member in between for node in ast.walk(member) for part in targets(node))
    return any(root_name(part) in names for part in stores)


def _calls(statement: ast.stmt, method: str) -> bool:
    call = statement.value if isinstance(statement, ast.Expr) else None
    return method_called(call) == method


def call_pairs(code: Code, first: Backward, second: Backward) -> Iterator[tuple[ast.Call, ast.Call]]:
    """Yield the calls of two backwards in a function that runs both: the calls themselves, or of a helper."""
    for low in frames(first.at):
        for high in frames(second.at):
            one, other = code.expression_at(low), code.expression_at(high)
            if isinstance(one, ast.Call) and isinstance(other, ast.Call):
                if code.function(one) is code.function(other):
                    yield one, other


def loss_of(code: Code, call: ast.AST, model: ast.Call) -> ast.expr | None:
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
            scales = attr_of(inner.func) == "scale"
            if scales and ast.unparse(inner.func) == ast.unparse(outer.func):
                return inner.args[0]
        return inner
    if len(call.args) == 1 and ast.unparse(call.func) == ast.unparse(model.func):
        name = call.func.attr if isinstance(call.func, ast.Attribute) else call.func.id
        # Of several roots there is no sum to go on with.
        several = (ast.Starred, ast.List, ast.Tuple, ast.Set, ast.ListComp, ast.GeneratorExp, ast.SetComp)
        if "backward" in name and not isinstance(call.args[0], several):
            return call.args[0]
    return None


def with_loss(code: Code, call: ast.Call, loss: ast.expr | None, summed: str) -> Change | None:
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


def operand_of(text: str) -> str:
    node = parse_expression(f"({text}\n)")
    return f"({text})" if isinstance(node, (ast.IfExp, ast.Lambda, ast.BoolOp, ast.Compare, ast.NamedExpr)) else text


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
    names = join(dict.fromkeys(_handed(code, read) for read, _ in found.values()))
    line = min(read.lineno for read, _ in found.values())
    safe = not context.caught and (not first_side or collision.discarded_after_first(leaves))
    safe = safe and _dropped_unread(context, collision, first_side)
    effect = (
        "What it is made of gets no gradient from this loss; the program drops that gradient anyway."
        if safe
        else "What it is made of gets no gradient from this loss any more."
    )
    drop, doubt = context.drop_retain(collision.first), doubt_of_detaching(context)
    title = f"Detach {names} (line {line})"
    if not safe:
        title += ": nothing before it learns from this loss"
    if drop:
        dropping = title.replace(f"(line {line})", f"(line {line}) and drop `retain_graph=True`", 1)
        yield Candidate(dropping, effect, [*kept, *drop], safe, title, doubt=doubt)
    yield Candidate(title, effect, kept, safe, title, doubt=doubt)


def _dropped_unread(context: Context, collision: Collision, first_side: bool) -> bool:
    """Return whether nothing reads the gradients that one of two backwards no longer gives before they are dropped."""
    code, between = context.code, statements_between(context, collision)
    second = code.statement_at(collision.second.at.span)
    if between is None or second is None or not gradients_add_up(context):
        return False
    if not gradients_unseen(context, between, stepped=True):
        return False
    if first_side:
        return True
    after = [one for one in code.block(second) if one.lineno > second.lineno]
    return gradients_unseen(context, after, stepped=True)


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


def forward_again(context: Context) -> Iterator[Candidate]:
    """Run the forward that the second backward needs once more before it."""
    for collision in context.collisions:
        if collision.change is not None and collision.change.optimizer is None and collision.built_after_change():
            # The change is a part of the forward pass: run again without it, it would be another one.
            continue
        needed = building_statements(context.code, collision)
        target = context.code.statement_at(collision.second.at.span)
        if needed is not None and target is not None:
            yield from _repeat_behind(context, collision, needed, target)
            yield from _repeat(context, collision, needed, target)


def building_statements(code: Code, collision: Collision) -> list[ast.stmt] | None:
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
    blocks = {id(code.block(statement)) for statement in statements.values()}
    found = list({id(statement): statement for statement in statements.values()}.values()) if len(blocks) == 1 else []
    found.sort(key=lambda statement: statement.lineno)
    # A call that runs the second backward as well is around both, not before it.
    around = any(code.statement_at(frame) in found for frame in frames(collision.second.at))
    if around or not _can_move(found):
        found = _common_function(code, collision, wanted) or []
    return found if _can_move(found) else None


def _can_move(statements: list[ast.stmt]) -> bool:
    return 0 < len(statements) <= MOST_STATEMENTS and all(isinstance(one, ast.Assign) for one in statements)


def _common_function(code: Code, collision: Collision, wanted: set[int]) -> list[ast.stmt] | None:
    """Return the statements in the function of the second backward, of one block, that build the wanted nodes."""
    second = code.statement_at(collision.second.at.span)
    if second is None:
        return None
    function = code.function(second)
    found: list[ast.stmt] = []
    for number in sorted(wanted):
        places = map(code.statement_at, frames(collision.ledger.nodes[number].at))
        place = next((one for one in places if one is not None and code.function(one) is function), None)
        if place is None:
            return None
        if place not in found:
            found.append(place)
    found.sort(key=lambda statement: statement.lineno)
    if not found or any(code.block(statement) is not code.block(found[0]) for statement in found):
        return None
    return found


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
    read: dict[str, None] = {}
    lines: list[str] = []
    for statement in rest:
        text = code.segment(statement)
        if "\n" in text or "\r" in text:
            return
        lines.append(_detached(code, statement, names, read))
    for insertion, drop in _inserted(context, collision, needed, target, lines):
        listing = join(f"`{code.segment(part)}`" for statement in rest for part in targets(statement))
        title = f"Compute {listing} again from detached {' and '.join(f'`{name}`' for name in read)}"
        effect = (
            "The second loss trains what is computed again; what comes before it has had its step, and gets no "
            "gradient from this loss any more."
        )
        if drop:
            yield Candidate(f"{title} and drop `retain_graph=True`", effect, [insertion, *drop], group="again")
        yield Candidate(title, effect, [insertion], group="again")


def _detached(code: Code, statement: ast.stmt, names: set[str], read: dict[str, None]) -> str:
    """Return a statement of one line that reads some names detached; `read` takes those that it has."""
    text = code.segment(statement)
    loads = [node for node in of_kind(statement, ast.Name) if isinstance(node.ctx, ast.Load)]
    for node in sorted(loads, key=code.end, reverse=True):
        if node.id in names:
            place = code.end(node) - code.start(statement)
            text = f"{text[:place]}.detach(){text[place:]}"
            read[node.id] = None
    return text


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
