"""Two backwards that share a part of the graph: one backward, a kept graph, a detached part, a fresh forward."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile

from tapecheck.fixes import rewrite
from tapecheck.fixes.between import gradients_add_up, gradients_unseen, statements_between
from tapecheck.fixes.candidate import Candidate, Context, and_dropping, append
from tapecheck.fixes.code import Code, dotted, root_name, stored_pairs, targets, walk
from tapecheck.fixes.edit import Change
from tapecheck.fixes.noticed import doubt_of_detaching
from tapecheck.fixes.story import Collision, frames, made_in, reads
from tapecheck.rules.words import join
from tapecheck.source.nodes import is_read, last_name, method_called, of_kind
from tapecheck.source.parsing import parse_expression
from tapecheck.tape import Backward, Node, Step

MOST_STATEMENTS = 6
_ANYWAY = "; the program drops that gradient anyway."


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
    losses = [loss for call in (one, other) if (loss := loss_of(call, one)) is not None]
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
    return (pair[0], pair[1]) if (pair[0].value, pair[1].value) == (one, other) else None


def _stepped_between(code: Code, first: ast.stmt, second: ast.stmt) -> list[ast.stmt]:
    """Return the steps between two statements of a block that the one after both repeats, with what clears for them;
    none where another step or clearing is left there.
    """
    block, between = code.block(first), code.between(first, second)
    steps, clearings = _calling(between, "step"), _calling(between, "zero_grad")
    again = _calling(block[block.index(second) + 1 :], "step").values()
    cleared = set(_calling(block[: block.index(first)], "zero_grad").values())
    # A path without another step after the second backward would leave the first loss unlearned.
    if not steps or not set(steps.values()) <= set(again):
        return []
    kept = [member for member, text in clearings.items() if text not in cleared]
    return [] if kept and not cleared else [member for member in (*steps, *clearings) if member not in kept]


def stored_between(code: Code, first: ast.stmt, second: ast.stmt, *losses: ast.expr) -> bool:
    """Return whether a statement between two others of a block stores a name that one of the losses reads."""
    names = {node.id for loss in losses for node in of_kind(loss, ast.Name)}
    stores = (part for member in code.between(first, second) for node in ast.walk(member) for part in targets(node))
    return any(root_name(part) in names for part in stores)


def _calling(statements: Iterable[ast.AST], method: str) -> dict[ast.stmt, str]:
    """Return those of some statements that are the call of a method, with what they say."""
    alone = (one for one in statements if isinstance(one, ast.Expr) and method_called(one.value) == method)
    return {one: ast.unparse(one) for one in alone}


def call_pairs(code: Code, first: Backward, second: Backward) -> Iterator[tuple[ast.Call, ast.Call]]:
    """Yield the calls of two backwards in a function that runs both: the calls themselves, or of a helper."""
    for one in map(code.expression_at, frames(first.at)):
        for other in map(code.expression_at, frames(second.at)):
            if isinstance(one, ast.Call) and isinstance(other, ast.Call):
                if code.function(one) is code.function(other):
                    yield one, other


def loss_of(call: ast.AST | None, model: ast.Call) -> ast.expr | None:
    """Return what a backward call is of: `x` in `x.backward()`, `scaler.scale(x).backward()` and `helper.backward(x)`.

    `model` is the call that it must look like. None where more than the loss and retain_graph is passed.
    """
    if not isinstance(call, ast.Call) or any(keyword.arg != "retain_graph" for keyword in call.keywords):
        return None
    match call, model:
        case (
            ast.Call(func=ast.Attribute(value=inner, attr="backward"), args=[]),
            ast.Call(func=ast.Attribute(value=outer, attr="backward"), args=[]),
        ):
            return _scaled(inner, outer) or inner
        case ast.Call(args=[only]), _ if ast.unparse(call.func) == ast.unparse(model.func):
            # Of several roots there is no sum to go on with.
            several = (ast.Starred, ast.List, ast.Tuple, ast.Set, ast.ListComp, ast.GeneratorExp, ast.SetComp)
            return only if "backward" in last_name(call.func) and not isinstance(only, several) else None
    return None


def _scaled(loss: ast.expr, model: ast.expr) -> ast.expr | None:
    """Return what is scaled by the same scaler in two losses, of the first of them.

    Only scaling is linear: of any other function's results the sum is not the function of the sum.
    """
    match loss, model:
        case ast.Call(func=ast.Attribute(attr="scale"), args=[only]), ast.Call(args=[_]):
            return only if ast.unparse(loss.func) == ast.unparse(model.func) else None
    return None


def with_loss(code: Code, call: ast.Call, loss: ast.expr | None, summed: str) -> Change | None:
    """Return the whole call with another loss, and without retain_graph: nothing needs the graph again."""
    if loss is None:
        return None
    start, end = code.start(call), code.end(call)
    receiver = isinstance(call.func, ast.Attribute) and call.func.value is loss
    if receiver and not code.in_parentheses(loss):
        summed = f"({summed})"
    text = code.text[start : code.start(loss)] + summed + code.text[code.end(loss) : end]
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
    steps = _calling(walk(code.function(second)), "step")
    following = {text for step, text in steps.items() if code.start(step) > code.start(second)}
    between = (code.statement_at(event.at.span) for event in collision.between() if isinstance(event, Step))
    return any(step is not None and ast.unparse(step) in following for step in between)


def _reads_of(code: Code, collision: Collision, first_side: bool) -> list[tuple[ast.expr, int]]:
    """Return where one side reads what both share, each place once with the node; nothing where one is not known."""
    found: dict[int, tuple[ast.expr, int]] = {}
    for consumer, source in collision.forks(first_side):
        read = _read_of(code, collision, consumer, source)
        if read is None:
            return []
        found.setdefault(id(read), (read, source))
    return list(found.values())


def _detach_side(context: Context, collision: Collision, first_side: bool) -> Iterator[Candidate]:
    code = context.code
    found = _reads_of(code, collision, first_side)
    changes = [append(code, read, ".detach()") for read, _ in found]
    kept = [change for change in changes if change is not None]
    if not kept or len(kept) < len(changes):
        return
    leaves = collision.leaves(source for _, source in found)
    names = join(dict.fromkeys(_handed(code, read) for read, _ in found))
    line = min(read.lineno for read, _ in found)
    dropped = not first_side or collision.discarded_after_first(leaves)
    safe = dropped and not context.caught and _dropped_unread(context, collision, first_side)
    effect = f"What it is made of gets no gradient from this loss{_ANYWAY if safe else ' any more.'}"
    title, then = f"Detach {names} (line {line})", "" if safe else ": nothing before it learns from this loss"
    candidate = Candidate(title + then, effect, kept, safe, title + then, doubt=doubt_of_detaching(context))
    dropping = f"{title} and drop `retain_graph=True`{then}"
    yield from and_dropping(candidate, context.drop_retain(collision.first), dropping)


def _dropped_unread(context: Context, collision: Collision, first_side: bool) -> bool:
    """Return whether nothing reads the gradients that one of two backwards no longer gives before they are dropped."""
    code, between = context.code, statements_between(context, collision)
    second = code.statement_at(collision.second.at.span)
    if between is None or second is None or not gradients_add_up(context):
        return False
    after = [] if first_side else [one for one in code.block(second) if one.lineno > second.lineno]
    return gradients_unseen(context, [*between, *after], stepped=True)


def _handed(code: Code, read: ast.expr) -> str:
    """Return a value and what it is handed to, as a title names them."""
    parent = code.parent(read)
    if isinstance(parent, ast.Call) and read in parent.args and dotted(parent.func) is not None:
        return f"`{code.segment(read)}` for `{dotted(parent.func)}`"
    return f"`{code.segment(read)}`"


def _read_of(code: Code, collision: Collision, consumer: Node, source: int) -> ast.expr | None:
    """Return the expression that hands a node's value to its consumer, in the outermost function that names it, or that
    reads it from what is stored there.
    """
    names = collision.names(source)
    expressions = [one for one in map(code.expression_at, reversed(frames(consumer.at))) if one is not None]
    found = [read for one in expressions for read in reads(one)]
    named = next((read for read in found if dotted(read) in names), None)
    return named or next((read for read in found if _is_stored_part(code, collision, read, source)), None)


def _is_stored_part(code: Code, collision: Collision, read: ast.expr, source: int) -> bool:
    """Return whether an element or attribute is read of what a statement is known to have stored a node's value in."""
    if not isinstance(read, (ast.Attribute, ast.Subscript)):
        return False
    names, made = collision.names(source), collision.ledger.nodes[source].at
    scope = code.function(read) if isinstance(read.value, ast.Name) else code.owner(read) or code.tree
    stores = (one for one in of_kind(scope, ast.Assign) if dotted(read.value) in map(dotted, one.targets))
    given = (_element(store.value, read) for store in stores)
    return any(dotted(value) in names or made_in(code, value, made) for value in given)


def _element(value: ast.expr, read: ast.Attribute | ast.Subscript) -> ast.expr:
    """Return what an element is of a dict, tuple or list as it is written; the whole value where that is not seen."""
    match value, read:
        case ast.Dict(keys=keys, values=values), ast.Subscript(slice=ast.Constant(value=wanted)):
            found = (one for key, one in zip(keys, values) if isinstance(key, ast.Constant) and key.value == wanted)
            return next(found, value)
        case ((ast.Tuple(elts=parts) | ast.List(elts=parts)), ast.Subscript(slice=ast.Constant(value=int() as place))):
            return parts[place] if place < len(parts) else value
    return value


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
    wanted = [one for one in collision.walked if one.id <= collision.newest and collision.leads_to_spoiled(one.id)]
    if any("__init__" in node.at.function for node in wanted):
        # What a constructor computes is part of the object: building the object anew would be another program.
        return None
    second = code.statement_at(collision.second.at.span)
    outermost = [[*code.statements(node.at)][-1:] for node in wanted]
    if not all(outermost) or second is None:
        return None
    # All in the block of the outermost call, or else in that of the function that both run in.
    found = _of_one_block(code, [way[0] for way in outermost])
    # A call that runs the second backward as well is around both, not before it.
    if not _can_move(found) or any(one in found for one in code.statements(collision.second.at)):
        found = _of_scope(code, second, wanted)
    return found if _can_move(found) else None


def _of_scope(code: Code, second: ast.stmt, wanted: Sequence[Node]) -> list[ast.stmt]:
    """Return the statements that build some nodes in the function around a statement, or in one around that."""
    found = (
        _of_one_block(code, [code.statement_in(home, node.at) for node in wanted]) for home in _scopes(code, second)
    )
    return next(filter(_can_move, found), [])


def _scopes(code: Code, statement: ast.stmt) -> Iterator[ast.AST]:
    """Yield the function around a statement, and the ones around that: a closure runs what these have computed."""
    scope: ast.AST = code.function(statement)
    yield scope
    while isinstance(scope, (ast.FunctionDef, ast.AsyncFunctionDef)) and code.owner(scope) is None:
        scope = code.function(scope)
        yield scope


def _can_move(statements: list[ast.stmt]) -> bool:
    return 0 < len(statements) <= MOST_STATEMENTS and all(isinstance(one, ast.Assign) for one in statements)


def _of_one_block(code: Code, statements: Sequence[ast.stmt | None]) -> list[ast.stmt]:
    """Return some statements in order, each once; none where one is missing, or they stand in several blocks."""
    found = [one for one in dict.fromkeys(statements) if one is not None]
    same = None not in statements and all(code.block(one) is code.block(found[0]) for one in found)
    return sorted(found, key=lambda one: one.lineno) if same else []


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
        candidate = Candidate(f"{title}{then}", effect, [insertion], group="again")
        yield from and_dropping(candidate, drop, f"{title} and drop `retain_graph=True`{then}")


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
    reading = [pair[1], *_consuming(code, collision, code.block(pair[0]), after=needed[-1])]
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
    done, rest = _parted(code, collision, needed)
    names = {part.id for statement in done for part in targets(statement) if isinstance(part, ast.Name)}
    if not rest or not names or _steps_again(code, collision) or any(one.lineno != one.end_lineno for one in rest):
        return
    read: dict[str, None] = {}
    lines = [_detached(code, statement, names, read) for statement in rest]
    for insertion, drop in _inserted(context, collision, needed, target, lines):
        listing = join(f"`{code.segment(part)}`" for statement in rest for part in targets(statement))
        title = f"Compute {listing} again from detached {' and '.join(f'`{name}`' for name in read)}"
        effect = (
            "The second loss trains what is computed again; what comes before it has had its step, and gets no "
            "gradient from this loss any more."
        )
        candidate = Candidate(title, effect, [insertion], group="again")
        yield from and_dropping(candidate, drop, f"{title} and drop `retain_graph=True`")


def _parted(code: Code, collision: Collision, needed: list[ast.stmt]) -> tuple[list[ast.stmt], list[ast.stmt]]:
    """Return the statements that apply what has been stepped between the backwards, and those behind them, which apply
    nothing of it; none where it is in both.
    """
    stepped = set().union(*collision.stepped_between())
    learned = {one: _applied(code, collision, one) & collision.learned() for one in needed}
    done = list(takewhile(lambda one: learned[one] and learned[one] <= stepped, needed))
    rest = needed[len(done) :]
    behind = set().union(*(learned[one] for one in rest))
    return (done, rest) if behind and not behind & stepped else ([], [])


def _detached(code: Code, statement: ast.stmt, names: set[str], read: dict[str, None]) -> str:
    """Return a statement of one line that reads some names detached; `read` takes those that it has."""
    text = code.segment(statement)
    loads = [node for node in of_kind(statement, ast.Name) if is_read(node) and node.id in names]
    for node in sorted(loads, key=code.end, reverse=True):
        place = code.end(node) - code.start(statement)
        text = f"{text[:place]}.detach(){text[place:]}"
        read[node.id] = None
    return text


def _applied(code: Code, collision: Collision, statement: ast.stmt) -> set[int]:
    """Return the leaves that the ops of a statement, or of what it calls, are applied to for the second backward."""
    nodes = (node for node in collision.walked if statement in code.statements(node.at))
    return {source for node in nodes for source in node.inputs if source in collision.ledger.leaves}


def _consuming(code: Code, collision: Collision, block: list[ast.stmt], after: ast.stmt) -> list[ast.stmt]:
    """Return the statements of a block that build what comes behind the old values, for the second backward."""
    built = (statement for consumer, _ in collision.crossings() for statement in code.statements(consumer.at))
    places = (code.within_block(statement, block) for statement in built)
    return list(dict.fromkeys(place for place in places if place is not None and place.lineno > after.lineno))


def _needed_part(code: Code, collision: Collision, statement: ast.stmt) -> list[str] | None:
    """Of `a, b = f(x), g(x)` only the part that the second backward needs."""
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return None
    pairs = stored_pairs(statement.targets[0], statement.value)
    kept = [pair for pair in pairs if any(made_in(code, pair[1], node.at) for node in collision.walked)]
    if not kept or len(kept) == len(pairs) or any(value.lineno != value.end_lineno for _, value in kept):
        return None
    return [" = ".join(", ".join(map(code.segment, side)) for side in zip(*kept))]
