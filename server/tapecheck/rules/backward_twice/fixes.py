"""A graph that is needed twice: one backward, a graph for each, or none from before."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterable, Iterator

from tapecheck.check import reach_in
from tapecheck.fixes import rewrite
from tapecheck.fixes.between import changes_nothing, gradients_add_up, gradients_unseen
from tapecheck.fixes.candidate import Candidate, Context, Strategy, appended, retain_position
from tapecheck.fixes.code import Code, LoopNode, dotted, last_part, root_name, targets, walk
from tapecheck.fixes.edit import Change
from tapecheck.fixes.lengths import is_entered_with_some
from tapecheck.fixes.noticed import lists_names
from tapecheck.fixes.story import Collision, frames, reads
from tapecheck.fixes.strategies.arguments import with_create_graph
from tapecheck.fixes.strategies.carried import after_backward, detach_carried, detach_constant, detach_from_before
from tapecheck.fixes.strategies.constructed import compute_where_used
from tapecheck.fixes.strategies.emptied import empty_by_method
from tapecheck.fixes.strategies.remembered import compute_each_time
from tapecheck.fixes.strategies.shared import (
    MOST_STATEMENTS,
    building_statements,
    call_pairs,
    call_statements,
    detach_shared,
    forward_again,
    loss_of,
    operand_of,
    step_once,
    stored_between,
    with_loss,
)
from tapecheck.fixes.uncut import only_torch_reads
from tapecheck.rules.backward_twice.facts import BackwardTwiceFacts
from tapecheck.rules.words import MAX_LISTED, join
from tapecheck.source.nodes import (
    ADDS_ONE,
    STORES,
    attr_of,
    expression_of,
    given_to,
    id_of,
    is_read,
    last_name,
    method_called,
    of_kind,
    passed,
)
from tapecheck.tape import Backward, GradientCleared, Site, Span, Step

_FILLING = STORES | frozenset(("clear",))
_SAME = "The gradients are the same: those of the sum are the sum of those that each loss gives."
_CHECK = f"{_SAME} Check what reads or changes them, or what the losses were computed with, before the last backward."
_TAKING_ALL = frozenset(
    {"cat", "concat", "enumerate", "fsum", "hstack", "list", "stack", "sum", "tuple", "vstack", "zip"}
)
"""Functions that take all values of a container at once, however many there are."""


_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


_SUMMING = _TAKING_ALL - {"enumerate", "list", "tuple", "zip"}


def sum_losses(context: Context) -> Iterator[Candidate]:
    """Rewrite `a.backward(); b.backward()` to `(a + b).backward()`: the gradients are the same."""
    for collision in context.collisions:
        first, second = collision.first, collision.second
        if first is None or any(isinstance(event, (Step, GradientCleared)) for event in collision.between()):
            continue
        if max(len(first.roots), len(second.roots)) > 1:
            continue
        for one, other in call_pairs(context.code, first, second):
            if one is other:
                yield from _sum_in_loop(context, collision, one)
            elif (candidate := _summed(context, collision, one, other)) is not None:
                yield candidate
                break


def _summed(context: Context, collision: Collision, one: ast.Call, other: ast.Call) -> Candidate | None:
    """Return one backward for two, and for every further one between them."""
    code = context.code
    pair = call_statements(code, one, other)
    if pair is None:
        return None
    between = code.between(*pair)
    losses = {each: loss_of(expression_of(each), one) for each in (pair[0], *between, pair[1])}
    summed = [(each, loss) for each, loss in losses.items() if loss is not None]
    changes = _backward_over_all(code, summed)
    if not changes:
        return None
    total = " + ".join(code.segment(loss) for _, loss in summed)
    listing = f"`{total}`" if len(total) < 50 else "the sum of the losses"
    others = [statement for statement in between if losses[statement] is None]
    alone = _is_own(collision, one, other) and _unnoticed(context, collision, others)
    alone = alone and _computed_later(context, [loss for _, loss in summed], others)
    effect = _SAME if alone else _CHECK
    return Candidate(f"Run one backward over {listing}", effect, changes, safe=context.stops and alone)


def _computed_later(context: Context, losses: list[ast.expr], between: list[ast.stmt]) -> bool:
    """Return whether losses stay the same that are computed before the backwards that were above them, and behind what
    stands between.
    """
    named = all(isinstance(loss, ast.Name) for loss in losses[:-1])
    return (named or not between) and gradients_unseen(context, list(map(_computing, losses)))


def _backward_over_all(code: Code, summed: list[tuple[ast.stmt, ast.expr]]) -> list[Change]:
    """Return the edits that give the last of several backwards the sum of their losses, none where it is another."""
    texts = [code.segment(loss) for _, loss in summed]
    if len(summed) < 2 or len(set(texts)) < len(texts):
        return []
    *early, (last, loss) = summed
    call = expression_of(last)
    if not isinstance(call, ast.Call) or any(stored_between(code, each, last, loss) for each, loss in summed):
        return []
    new = with_loss(code, call, loss, " + ".join(map(operand_of, texts)))
    deletions = code.delete_all(statement for statement, _ in early)
    return [new, *deletions] if new is not None and deletions is not None else []


def _computing(value: ast.expr) -> ast.Expr:
    """Return an expression as the statement that computes it, in its place."""
    return ast.copy_location(ast.Expr(value), value)


def _unnoticed(context: Context, collision: Collision, between: list[ast.stmt]) -> bool:
    """Return whether nothing notices that the gradients of two backwards come at once, behind what stands between."""
    return gradients_add_up(context) and changes_nothing(collision) and gradients_unseen(context, between)


def _is_own(collision: Collision, *calls: ast.Call) -> bool:
    """Return whether calls are backwards themselves: what a function does around one need not add up."""
    spans = [one.at.span for one in (collision.first, collision.second) if one is not None]
    return all(any(span.line <= call.lineno <= span.end_line for span in spans) for call in calls)


def _sum_in_loop(context: Context, collision: Collision, call: ast.Call) -> Iterator[Candidate]:
    """Rewrite `for loss in losses: loss.backward()` to `sum(losses).backward()`."""
    code = context.code
    statement = code.statement(call)
    loop = code.parent(statement) if statement is not None else None
    if not isinstance(loop, ast.For) or len(loop.body) != 1 or loop.orelse:
        return
    loss, losses, name = loss_of(call, call), code.segment(loop.iter), id_of(loop.target)
    new = with_loss(code, call, loss, f"sum({losses})") if name and id_of(loss) == name else None
    if new is None:
        return
    alone = _has_sum(code, loop, name) and _is_own(collision, call) and _unnoticed(context, collision, [])
    change = code.replace(loop, new.content.replace(f"(sum({losses}))", f"sum({losses})", 1))
    title = f"Run one backward over the sum of `{losses}`"
    yield Candidate(title, _SAME if alone else _CHECK, [change], safe=context.stops and alone)


def _has_sum(code: Code, loop: ast.For, name: str) -> bool:
    """Return whether what a loop goes over can be summed in its place: its values are read in it alone, and exist."""
    uses = [node for node in of_kind(code.function(loop), ast.Name) if node.id == name]
    within = all(code.inside(use, loop) for use in uses)
    return within and not _is_lazy(code, loop.iter) and is_entered_with_some(code, loop)


def _is_lazy(code: Code, values: ast.expr) -> bool:
    """Return whether values may be computed while a loop goes over them: by a generator, or what the text hides."""
    if isinstance(values, ast.Name):
        stores = code.stores(code.function(values), values.id)
        given = [store.value for store in stores if isinstance(store, (ast.Assign, ast.AnnAssign))]
        return len(given) < len(stores) or not given or any(value is None or _is_lazy(code, value) for value in given)
    if isinstance(values, ast.Call):
        if isinstance(values.func, ast.Attribute) and values.func.attr in ("items", "keys", "values"):
            return False
        if code.path(values.func) in ("builtins.enumerate", "builtins.zip", "builtins.reversed"):
            return any(_is_lazy(code, value) for value in values.args)
        return not code.path(values.func).startswith(("torch.", "builtins.range", "builtins.list", "builtins.sorted"))
    return isinstance(values, ast.GeneratorExp)


def sum_over_loop(context: Context) -> Iterator[Candidate]:
    """Rewrite `for head in heads: head(z).mean().backward()` to a sum in the loop and one backward behind it."""
    for collision in context.collisions:
        first, second = collision.first, collision.second
        if first is None or first.at.span != second.at.span or collision.same_iteration:
            continue
        if any(isinstance(event, (Step, GradientCleared)) for event in collision.between()) or len(second.roots) > 1:
            continue
        call = context.call_at(second.at.span)
        changes = _summed_behind(context.code, call)
        if changes is not None and call is not None:
            safe = context.stops and not collision.walked_before and _added_unnoticed(context, collision, call)
            effect = _SAME if safe or not context.stops else _CHECK
            title = "Add the losses up in the loop and run one backward behind it"
            yield Candidate(title, effect, changes, safe, "sum")


def _added_unnoticed(context: Context, collision: Collision, call: ast.Call) -> bool:
    """Return whether nothing in a loop notices that the backward in it comes behind the loop."""
    code, found = context.code, _adds_up(context.code, call)
    if found is None:
        return False
    loop, statement, loss = found
    rest = [member for member in loop.body if member is not statement]
    reached = reach_in(context.report, _computing(loop.iter)).bodies
    lazy = any(isinstance(node, (ast.Yield, ast.YieldFrom)) for body in reached for node in ast.walk(body))
    lazy = lazy or (isinstance(loop.iter, (ast.Name, ast.GeneratorExp)) and _holds_generator(code, loop.iter))
    lazy = lazy or lists_names(code) or not is_entered_with_some(code, loop)
    return not lazy and _is_own(collision, call) and _unnoticed(context, collision, [*rest, _computing(loss)])


def _holds_generator(code: Code, values: ast.expr) -> bool:
    stores = code.stores(code.function(values), values.id) if isinstance(values, ast.Name) else []
    given = [store.value for store in stores if isinstance(store, ast.Assign)]
    return any(isinstance(value, (ast.Call, ast.GeneratorExp)) and _is_lazy(code, value) for value in [values, *given])


def _summed_behind(code: Code, call: ast.Call | None) -> list[Change] | None:
    """Return the changes that add up the losses of a backward call in a loop, and call it once behind the loop."""
    found = _adds_up(code, call) if call is not None else None
    if call is None or found is None:
        return None
    loop, statement, loss = found
    names = ("total_loss", "loss_sum", "summed_loss")
    name = next((free for free in names if not code.named(code.function(loop), free)), None)
    before = code.insert_before(loop, [f"{name} = 0"])
    behind = with_loss(code, call, loss, name or "")
    if name is None or before is None or behind is None:
        return None
    after = code.insert_after(loop, [behind.content.replace(f"({name}).", f"{name}.")])
    text = code.segment(loss)
    if after is None or "\n" in text or "\r" in text:
        return None
    return [before, code.replace(statement, f"{name} = {name} + {operand_of(text)}"), after]


def _adds_up(code: Code, call: ast.Call) -> tuple[ast.For, ast.Expr, ast.expr] | None:
    """Return the loop whose iterations a backward runs in, its statement and its loss, where nothing in the loop needs
    the gradients.
    """
    statement = code.statement(call)
    loop = code.parent(statement) if statement is not None else None
    if not isinstance(loop, ast.For) or loop.orelse or not isinstance(statement, ast.Expr):
        return None
    loss = loss_of(call, call) if statement.value is call else None
    uses = any(node.attr in ("grad", "step") for node in of_kind(loop, ast.Attribute))
    ends = any(isinstance(node, (ast.Break, ast.Continue, ast.Return)) for node in walk(loop))
    return (loop, statement, loss) if loss is not None and not uses and not ends else None


def call_once(context: Context) -> Iterator[Candidate]:
    """Drop the second of two backwards of one loss: it would only add the same gradients again."""
    code = context.code
    for collision in context.collisions:
        first, second = collision.first, collision.second
        if first is None or not _repeats(context, collision) or collision.stepped_between():
            continue
        one, other = context.call_at(first.at.span), context.call_at(second.at.span)
        pair = code.same_block(one, other) if one is not None and other is not None else None
        # The first call runs wherever the second does: a condition around the second alone goes with it or stays empty.
        if pair is None or expression_of(pair[0]) is not one:
            continue
        gone = code.statement_at(second.at.span)
        deletion = code.delete(gone) if gone is not None and expression_of(gone) is other else None
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
    roots = [root.node for root in first.roots]
    cleared = any(isinstance(event, GradientCleared) for event in collision.between())
    if cleared or None in roots or roots != [root.node for root in second.roots]:
        return False
    one, other = (context.call_at(backward.at.span) for backward in (first, second))
    # `out.backward(row)` for each row of a Jacobian walks one graph with other weights.
    return one is None or other is None or _weights(one) == _weights(other)


def _weights(call: ast.Call) -> list[str]:
    """Return what the gradients that a backward starts from are written as."""
    keyword = passed(call, "gradient")
    return [*map(ast.unparse, call.args), *([ast.unparse(keyword.value)] if keyword is not None else ())]


def differentiate_first(context: Context) -> Iterator[Candidate]:
    """Put `create_graph=True` at the call that takes the gradient which the second one's loss is made of."""
    facts = context.finding.facts
    if not isinstance(facts, BackwardTwiceFacts) or not facts.differentiated:
        return
    for collision in context.collisions:
        call = _spelled_call(context, collision.first)[0] if collision.first is not None else None
        change = with_create_graph(context.code, call) if call is not None else None
        if call is not None and change is not None and collision.first is not None:
            yield Candidate(
                f"Take the gradient on line {call.lineno} with `create_graph=True`: it is then learned from",
                "The gradient has a graph of its own, by which this loss reaches the parameters; the graph below it is "
                "kept until that is walked.",
                [change],
                safe=context.stops and only_torch_reads(context, [collision.first.at.span], shown=True),
            )
            break


def retain_first(context: Context) -> Iterator[Candidate]:
    """Put `retain_graph=True` at the backward that frees what the second one needs."""
    for collision in context.collisions:
        first = collision.first
        # With a step in between, a later iteration would learn from weights that are gone.
        if first is not None and (collision.same_iteration or not collision.stepped_between()):
            yield from _retain(context, first, collision)
            break


def _retain(context: Context, first: Backward, collision: Collision) -> Iterator[Candidate]:
    facts = context.finding.facts
    call, span = _spelled_call(context, first)
    if call is not None and any(isinstance(one, ast.Starred) for one in call.args):
        # What is unpacked may give it already.
        return
    if call is None or (isinstance(facts, BackwardTwiceFacts) and facts.differentiated):
        # Differentiated, it would run then, and take for a constant what is to be learned from.
        return
    position = retain_position(call) if span == first.at.span else None
    change = context.code.rewritten(call, rewrite.with_argument, "retain_graph", "True", position=position)
    if change is None:
        return
    repeats = _repeats(context, collision)
    yield Candidate(
        f"Keep the graph of the first backward (line {call.lineno}): `retain_graph=True`",
        "Both backwards add the same gradients: what is learned from is twice the gradient of this loss."
        if repeats
        else "Both backwards run over the same graph; its saved tensors stay in memory until the second one is done.",
        [change],
        safe=collision.same_iteration
        and first.at.span != collision.second.at.span
        and not context.caught
        and not repeats,
    )


def _spelled_call(context: Context, backward: Backward) -> tuple[ast.Call | None, Span]:
    """Return the call whose arguments say what a backward does: its caller's, where that passes its keywords on."""
    call = context.call_at(backward.at.span)
    if call is not None and backward.at.stack and any(keyword.arg is None for keyword in call.keywords):
        return context.call_at(backward.at.stack[0]), backward.at.stack[0]
    return call, backward.at.span


def forward_inside(context: Context) -> Iterator[Candidate]:
    """Compute what every backward needs where each finds it fresh: inside the loop or the closure."""
    for collision in context.collisions:
        needed = building_statements(context.code, collision)
        target = context.code.statement_at(collision.second.at.span)
        if needed is not None and target is not None:
            yield from _move(context, collision, needed, target)


def _move(context: Context, collision: Collision, needed: list[ast.stmt], target: ast.stmt) -> Iterator[Candidate]:
    """Move statements from before a loop, or from around a closure, to where each backward finds them fresh."""
    code = context.code
    around = _around(code, target, needed)
    moved = _with_what_follows(code, needed, around) if around is not None else None
    if around is None or moved is None:
        return
    stored = [part for statement in moved for part in targets(statement)]
    changes = _moving(code, moved, around, set(map(root_name, stored)), code.function(needed[0]))
    if not changes:
        return
    where = f"closure `{around.name}`" if isinstance(around, ast.FunctionDef) else "loop"
    computed = join(list(dict.fromkeys(f"`{code.segment(part)}`" for part in stored)))
    # Never safe: what was meant as a constant (an old policy, a target) would move with the parameters.
    yield Candidate(
        f"Compute {computed} inside the {where}, anew from the parameters as they are then",
        "Every backward has a graph of its own. Where the value was meant to stay what it is before the "
        f"{where.split()[0]}, detach it instead.{_drawn_anew(code, moved, collision)}",
        changes,
    )


def _moving(
    code: Code, moved: list[ast.stmt], around: ast.FunctionDef | LoopNode, names: set[str | None], home: ast.AST
) -> list[Change]:
    """Return the edits that put statements before the first one of a loop or closure that reads the names they store.

    They stay at home as well where something else there reads these names.
    """
    texts = [code.lines_of(statement) for statement in moved]
    place = next((statement for statement in around.body if names & _loaded(statement)), None)
    if place is None or None in names or not all(texts):
        return []
    insertion = code.insert_before(place, [line for text in texts for line in text or ()])
    deletions = code.delete_all(() if _read_outside(code, home, moved, around, names) else moved)
    return [insertion, *deletions] if insertion is not None and deletions is not None else []


def _around(code: Code, target: ast.stmt, needed: list[ast.stmt]) -> ast.FunctionDef | LoopNode | None:
    """Return the closure, or the loop, around a statement that some others are not in."""
    home, inner = code.function(needed[0]), code.function(target)
    if inner is not home and isinstance(inner, ast.FunctionDef) and code.inside(inner, home):
        return inner
    return next(
        (loop for loop in code.loops(target) if all(not code.inside(statement, loop) for statement in needed)), None
    )


def _with_what_follows(code: Code, needed: list[ast.stmt], container: ast.AST) -> list[ast.stmt] | None:
    """Return statements before a loop or closure with those that compute something of their results which it, or one of
    them, reads: left behind, these would go with results that are gone. None where they cannot all be moved.
    """
    moved = list(needed)
    block = code.block(needed[0])
    for statement in block[block.index(needed[0]) :]:
        if statement is container or getattr(statement, "lineno", 0) >= getattr(container, "lineno", 0):
            break
        made = {root_name(part) for one in moved for part in targets(one)}
        if statement in moved or made.isdisjoint(_loaded(statement)):
            continue
        stored = {root_name(part) for part in walk(statement) for part in targets(part)}
        if any(stored & _loaded(reader) for reader in (container, *moved)):
            if not isinstance(statement, ast.Assign):
                return None
            moved.append(statement)
    moved.sort(key=lambda statement: statement.lineno)
    return moved if len(moved) <= MOST_STATEMENTS else None


def _loaded(node: ast.AST) -> set[str]:
    return {one.id for one in of_kind(node, ast.Name) if is_read(one)}


def _drawn_anew(code: Code, needed: list[ast.stmt], collision: Collision) -> str:
    """Return a sentence on arguments that are calls without a graph, such as random data, in what is moved."""
    built = {code.expression_at(frame) for node in collision.walked for frame in frames(node.at)}
    calls = [node for statement in needed for node in of_kind(statement, ast.Call)]
    given = [part for call in calls for part in given_to(call)]
    drawn = [code.segment(part) for part in given if isinstance(part, ast.Call) and part not in built]
    texts = [f"`{text}`" for text in dict.fromkeys(drawn) if "\n" not in text]
    return f" {join(texts[:MAX_LISTED])} would be computed anew each time, too." if texts else ""


def _read_outside(
    code: Code, home: ast.AST, needed: list[ast.stmt], container: ast.AST, names: set[str | None]
) -> bool:
    """Return whether something before or around the container reads what the statements assign."""
    read = (node for node in walk(home) if isinstance(node, ast.Name) and is_read(node) and node.id in names)
    before = (node for node in read if node.lineno < getattr(container, "lineno", 0))
    return any(code.statement(node) not in needed and not code.inside(node, container) for node in before)


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


def _places(code: Code, sites: Iterable[Site]) -> set[int]:
    """Return where the text of sites begins in a file, and that of the calls that led there."""
    own = (span for at in sites for span in frames(at) if span.file == code.source.path)
    return {code.index.range(span)[0] for span in own}


def _storing_calls(code: Code, collision: Collision, source: int) -> Iterator[ast.Call]:
    """Yield the calls such as `self.log_probs.append(x)` that put a node's value into a container."""
    names = collision.names(source)
    kept = (*collision.holders.get(source, ()), *collision.binds.get(source, ()))
    sites = [collision.ledger.nodes[source].at, *(event.at for event in kept)]
    places = _places(code, sites)
    functions = dict.fromkeys(code.function(place) for at in sites for place in code.statements(at))
    for call in (node for function in functions for node in walk(function) if isinstance(node, ast.Call)):
        if method_called(call) in ADDS_ONE and call.args:
            value = call.args[-1]
            inside = not places.isdisjoint(range(code.start(value), code.end(value) + 1))
            if inside or any(dotted(read) in names for read in reads(value)):
                yield call
        yield from _stored_by(code, call, names)


def _stored_by(code: Code, call: ast.Call, names: set[str]) -> Iterator[ast.Call]:
    """Yield the calls in a function of the file that put into a container what a call gives it under some names."""
    given = {index: one for index, one in enumerate(call.args) if dotted(one) in names}
    called = last_part(call.func)
    for function in of_kind(code.tree, ast.FunctionDef) if given and called else ():
        if function.name != called:
            continue
        own = function.args.args[1 if code.owner(function) is not None else 0 :]
        parameters = {one.arg for index, one in enumerate(own) if index in given}
        for inner in of_kind(function, ast.Call):
            if method_called(inner) in ADDS_ONE and inner.args and id_of(inner.args[-1]) in parameters:
                yield inner


def _detach_stored(code: Code, call: ast.Call) -> Iterator[Candidate]:
    assert isinstance(call.func, ast.Attribute)
    for change in appended(code, call.args[-1], ".detach()"):
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
    name = attr_of(holder) or dotted(holder)
    return any(last_name(node) == name and not _works_emptied(code, node) for node in of_kind(code.tree, ast.expr))


def _works_emptied(code: Code, node: ast.expr) -> bool:
    """Return whether what is done with a container is as before on one that was emptied."""
    parent = code.parent(node)
    if isinstance(getattr(node, "ctx", None), ast.Store):
        value = getattr(parent, "value", None)
        return not (isinstance(value, ast.Call) and (value.keywords or len(value.args) > 1))
    if isinstance(parent, ast.Call) and node is not parent.func:
        return last_part(parent.func) in _TAKING_ALL
    if isinstance(parent, (ast.For, ast.AsyncFor, ast.comprehension)):
        return parent.iter is node
    # Under another name it may be used in any way.
    return _fills(code, node) or isinstance(parent, (ast.AugAssign, ast.Delete))


def _stands_alone(code: Code, name: str, last: ast.stmt) -> bool:
    """Return whether each iteration of the loop around a statement first fills a list, then goes over it as a whole, up
    to the statement, and nothing else reads it, now or later, or has to be as long as it is.
    """
    loop = next((one for one in code.parents(last) if isinstance(one, (ast.For, ast.While, *_SCOPES))), None)
    lines = _lines_of(code, name, last, loop) if isinstance(loop, (ast.For, ast.While)) else None
    if loop is None or lines is None or not lines[0] or min(lines[1], default=math.inf) < min(lines[0]):
        return False
    fills = (node for node in of_kind(loop, ast.Attribute) if node.attr in _FILLING)
    others = {dotted(node.value) for node in fills if _is_called(code, node)} - {name}
    return not any(
        isinstance(node, (ast.Name, ast.Attribute)) and dotted(node) in others and not _fills(code, node)
        for node in ast.walk(loop)
    )


def _lines_of(code: Code, name: str, last: ast.stmt, loop: ast.For | ast.While) -> tuple[list[int], list[int]] | None:
    """Return where a loop fills a list, and where it goes over it up to a statement; None for any other use of it."""
    filled: list[int] = []
    read: list[int] = []
    for node in ast.walk(code.tree):
        if isinstance(node, ast.Attribute) and dotted(node) == name:
            # An attribute is read wherever its object is.
            return None
        if not isinstance(node, ast.Name) or node.id != name:
            continue
        if isinstance(node.ctx, ast.Store):
            assigned = isinstance(code.parent(node), (ast.Assign, ast.AnnAssign))
            if not assigned or code.function(node) is not code.function(last) or code.inside(node, loop):
                return None
        elif not code.inside(node, loop) or not _taken_whole(code, node) or node.lineno > last.lineno:
            return None
        elif not _fills(code, node):
            read.append(node.lineno)
        elif code.statement(node) in loop.body:
            filled.append(node.lineno)
    return filled, read


def _is_called(code: Code, node: ast.expr) -> bool:
    parent = code.parent(node)
    return isinstance(parent, ast.Call) and parent.func is node


def _fills(code: Code, node: ast.expr) -> bool:
    parent = code.parent(node)
    return attr_of(parent) in _FILLING


def _taken_whole(code: Code, node: ast.expr) -> bool:
    """Return whether a container is added to, or gone over by itself from its first element to its last."""
    parent = code.parent(node)
    if _fills(code, node):
        return True
    if isinstance(parent, ast.Call) and node is not parent.func:
        return last_part(parent.func) in _SUMMING
    return isinstance(parent, (ast.For, ast.comprehension)) and parent.iter is node


def _clear_after(context: Context, collision: Collision, call: ast.Call) -> Iterator[Candidate]:
    code, first = context.code, collision.first
    assert isinstance(call.func, ast.Attribute) and first is not None
    holder = call.func.value
    if _needs_older_values(code, holder):
        # A replay memory that is emptied has too few values to draw from, or none at an index.
        return
    for function in map(code.function, code.statements(first.at)):
        last = after_backward(code, first, function)
        texts = {text for node in walk(function) if _is_same(node, holder) and (text := dotted(node)) is not None}
        for text in sorted(texts) if last is not None else ():
            change = code.insert_after(last, [f"{text}.clear()"]) if last is not None else None
            if last is not None and change is not None:
                yield Candidate(
                    f"Empty `{text}` after the backward",
                    "Each backward learns from the values stored since the one before; older ones are dropped.",
                    [change],
                    safe=context.stops and _stands_alone(code, text, last),
                )


def _is_same(node: ast.AST, holder: ast.expr) -> bool:
    """Return whether an expression may be the same container as another one: by its name, or that of an attribute."""
    if isinstance(holder, ast.Attribute):
        return attr_of(node) == holder.attr
    return isinstance(node, (ast.Attribute, ast.Name)) and dotted(node) == dotted(holder)


STRATEGIES: tuple[Strategy, ...] = (
    call_once,
    sum_losses,
    sum_over_loop,
    step_once,
    detach_shared,
    detach_constant,
    forward_inside,
    compute_where_used,
    compute_each_time,
    detach_from_before,
    differentiate_first,
    empty_by_method,
    clear_stored,
    detach_carried,
    retain_first,
    forward_again,
)
"""What is proposed, preferred first."""
