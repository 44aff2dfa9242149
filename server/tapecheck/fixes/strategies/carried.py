"""A graph carried from one iteration to the next: detach it on the way, after the backward if possible."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from itertools import takewhile
from typing import NamedTuple

from tapecheck.fixes import rewrite
from tapecheck.fixes.between import reads_gradients
from tapecheck.fixes.candidate import Candidate, Context, and_dropping, append, appended
from tapecheck.fixes.code import Code, LoopNode, dotted, last_part, root_name, stored_pairs, targets, walk
from tapecheck.fixes.edit import Change
from tapecheck.fixes.noticed import doubt_of_detaching
from tapecheck.fixes.story import Carrier, Collision, frames, reads
from tapecheck.rules.words import join
from tapecheck.source.nodes import STORES, expression_of, id_of, is_literal, is_read, last_line, method_called, of_kind
from tapecheck.source.parsing import parse_expression
from tapecheck.tape import Backward, Ledger, Loop, Node, Traversal

_AFTER_BACKWARD = frozenset({
    "backward", "clip_grad_norm_", "clip_grad_value_", "manual_backward", "step", "unscale_", "update", "zero_grad",
})  # fmt: skip
_MOVES = frozenset(("cpu", "cuda", "double", "eval", "float", "half", "to", "train"))
"""Methods of a module that return it."""
_EFFECT = "Gradients no longer flow into earlier iterations; each iteration still learns from its own loss."
_ELSEWHERE = "Other code learns over its iterations through this line, too: check that it is not meant to."
_UNTRAINED = "No optimizer updates anything that the value was computed from: it gets no gradient any more."
_NARROW = (
    "Gradients no longer flow through the stored value at all, in this iteration either: what comes before it "
    "learns only from its other uses."
)


def detach_carried(context: Context) -> Iterator[Candidate]:
    """Detach every carried value after the backward, where it is stored, or where the next iteration reads it."""
    for collision in context.collisions:
        if collision.same_iteration:
            continue
        found = context.carriers(collision)
        if not found:
            continue
        groups = [found] if len(found) == 1 else [found, *([carrier] for carrier in found)]
        # What cuts between iterations only comes before what cuts within one.
        for narrow in (False, True):
            for place in _places(context.code, collision, found):
                for group in groups:
                    yield from _everywhere(context, collision, group, place, narrow)


Placing = Callable[[Context, Collision, Carrier, str], "_Place | None"]


_READ, _BEFORE = "where it is read", "before it is read"
"""Places at which a carried value is detached, whichever iteration it comes from."""
_AFTER, _START = "after the backward", "at the start of each iteration"
_IN_THE_LOOP = frozenset((_AFTER, _START))
"""Places in the loop itself, which no other loop comes to."""


def _places(code: Code, collision: Collision, group: list[Carrier]) -> list[Placing]:
    """Return where to detach, best first."""
    sources = _sources(group)
    learned = bool(collision.learned() & collision.leaves(sources))
    if _built_outside(collision, sources) and not any(_stored_in_loop(code, collision, carrier) for carrier in group):
        # Detached after the first backward it would be learned from once and then never again.
        return [_where_made] if learned else [_where_made, _at_read]
    places: list[Placing] = [
        _at_store, _after_backward, _at_read, _part_at_read, _before_read, _after_store, _at_loop_start, _of_the_object,
    ]  # fmt: skip
    first = collision.first
    if not _walks_each_iteration(code, collision):
        # Anywhere else it would be cut within the iterations that one backward learns from.
        places.insert(0, places.pop(places.index(_after_backward)))
    elif first is not None and all(carrier.consumer.at.iteration == first.at.iteration for carrier in group):
        # Read between the backward and the end of its iteration: the shortest way is there.
        places.insert(0, places.pop(places.index(_at_read)))
    return places


def _built_outside(collision: Collision, sources: set[int]) -> bool:
    """Return whether what is carried was computed before the loop in which both backwards run."""
    running = {loop for loop, _ in collision.second.at.iteration}
    if collision.first is not None:
        running &= {loop for loop, _ in collision.first.at.iteration}
    built = [collision.ledger.nodes[source].at.iteration for source in sources]
    return bool(running) and all(not running <= {loop for loop, _ in iteration} for iteration in built)


class _Place(NamedTuple):
    """The changes that detach one carrier at one place, and how the title names that place."""

    changes: list[Change]
    where: str
    narrow: bool = False


def _placed(code: Code, change: Change | None, shape: str, where: str, *, narrow: bool = False) -> _Place | None:
    """Return the place of what detaches a value of a shape by statements of its own; None where there is no change."""
    return _Place([change, *_needed(code, shape)], where, narrow) if change is not None else None


def _stored_in_loop(code: Code, collision: Collision, carrier: Carrier) -> bool:
    """Return whether a loop around the read stores the value again: a generator's loop is none of its caller's.

    A loop around the place that built the value is another one: it is built anew in each of its iterations.
    """
    sites = [collision.ledger.nodes[source].at for source in carrier.sources]
    built = [place for at in sites for place in code.statements(at)]
    # Nor is one in whose present iteration it was built, wherever that is written.
    now = set(collision.second.at.iteration)
    present = {loop for at in sites for loop, _ in now & set(at.iteration)}
    anew = {
        (event.at.file, event.at.line)
        for event in collision.tape.events
        if isinstance(event, Loop) and event.id in present
    }
    return any(
        code.inside(store, loop) and store is not loop
        for loop in code.loops(carrier.read)
        if not any(code.inside(place, loop) for place in built) and (code.source.path, loop.lineno) not in anew
        for store in code.stores(loop, carrier.text)
    )


def detach_constant(context: Context) -> Iterator[Candidate]:
    """Detach a value from before the loop where all that it was computed from is trained by the loop anyway.

    An old policy, a reference or a target: computed inside the loop it would be the same as the new value.
    """
    yield from _constants(context, alike=True)


def detach_from_before(context: Context) -> Iterator[Candidate]:
    """Detach such a value where the loop computes nothing like it: it may be meant to be computed there, too."""
    yield from _constants(context, alike=False)


def _constants(context: Context, *, alike: bool) -> Iterator[Candidate]:
    code = context.code
    for collision in context.collisions:
        found = [] if collision.same_iteration else context.carriers(collision)
        sources = _sources(found)
        if not found or not _stays(collision, sources, alike=alike):
            continue
        if any(_stored_in_loop(code, collision, carrier) for carrier in found):
            continue
        places = _all_placed(context, collision, found, _where_made, "tensor")
        if not places:
            continue
        untrained = collision.trains_none_of(collision.leaves(sources))
        many = len(places) > 1
        stays = "they stay what they were" if many else "it stays what it was"
        yield Candidate(
            f"Detach {_listed(found)}, which the loop compares with: {stays} before the loop",
            f"{'They are constants' if many else 'It is a constant'} for the loop; the parameters learn from what the "
            "loop computes with them itself.",
            [change for place in places for change in place.changes],
            safe=untrained and not context.caught and not reads_gradients(context),
            group="constant",
            doubt=doubt_of_detaching(context),
        )


def _stays(collision: Collision, sources: set[int], *, alike: bool) -> bool:
    """Return whether a value from before a loop may stay what it is: all that it was computed from is trained by what
    the loop computes, something `alike` or something else.
    """
    trained = _built_outside(collision, sources) and collision.reaches_otherwise(sources)
    return trained and alike == collision.computes_alike(sources)


def _all_placed(
    context: Context, collision: Collision, group: list[Carrier], place: Placing, shape: str
) -> list[_Place]:
    """Return where each of some values is detached, nothing where one of them cannot be."""
    found = [one for carrier in group if (one := place(context, collision, carrier, shape)) is not None]
    return found if len(found) == len(group) else []


def _sources(group: list[Carrier]) -> set[int]:
    """Return the nodes that some carriers carry."""
    return set().union(*(carrier.sources for carrier in group))


def _listed(group: list[Carrier]) -> str:
    return join(dict.fromkeys(f"`{carrier.text}`" for carrier in group))


def _learned_through(collision: Collision, carrier: Carrier) -> bool:
    """Return whether the first backward went through a value where the carried one is read in the second."""
    first, consumer = collision.first, carrier.consumer
    traversal = collision.ledger.traversals.get(first.id) if first is not None else None
    return traversal is not None and _passes(collision.ledger, traversal, consumer)


def _passes(ledger: Ledger, traversal: Traversal, consumer: Node) -> bool:
    """Return whether a backward went through what was carried into the operation that reads it, whenever that was."""
    nodes = ledger.nodes
    return any(
        nodes[number].at.span == consumer.at.span
        and nodes[number].op == consumer.op
        and len(nodes[number].inputs) >= len(consumer.inputs)
        for number in traversal.executed
        if number in nodes
    )


def _learned_elsewhere(context: Context, collision: Collision, carrier: Carrier) -> bool:
    """Return whether a backward of other code learns through the operation that reads the carried value: a loop that
    is meant to learn over its iterations calls the same function.
    """
    own = {backward.at.span for backward in (collision.first, collision.second) if backward is not None}
    return any(
        run.at.span not in own and _passes(reading.ledger, run.traversal, carrier.consumer)
        for reading in context.readings
        for run in reading.runs
    )


def _everywhere(
    context: Context, collision: Collision, group: list[Carrier], place: Placing, narrow: bool
) -> Iterator[Candidate]:
    dropped = _retaining(context, collision)
    doubt, sources = doubt_of_detaching(context), _sources(group)
    untrained = collision.trains_none_of(collision.leaves(sources))
    if not untrained and not all(collision.learned_in_between(carrier) for carrier in group):
        return
    for shape in _shapes(context, group):
        placed = _all_placed(context, collision, group, place, shape)
        if not placed or any(found.narrow for found in placed) != narrow:
            continue
        changes = [change for found in placed for change in found.changes]
        where = placed[0].where
        shared = where not in _IN_THE_LOOP and any(_learned_elsewhere(context, collision, carrier) for carrier in group)
        way = _Way(where, narrow, untrained, shared)
        safe = _changes_nothing(context, collision, group, way, place)
        meaning, effect = way.meaning()
        # All places that only cut between iterations mean the same: the first one that holds is enough.
        between = "narrow" if narrow else "between"
        title = f"Detach {_listed(group)} {where.replace('it is', 'they are') if len(group) > 1 else where}"
        candidate = Candidate(f"{title}: {meaning}", effect, changes, safe, between, fallback=narrow, doubt=doubt)
        yield from and_dropping(candidate, dropped, f"{title} and drop `retain_graph=True`: {meaning}")


def _retaining(context: Context, collision: Collision) -> list[Change]:
    """Return the edits that take `retain_graph` from the backwards of a collision."""
    own = {backward.at.span: backward for backward in (collision.second, collision.first) if backward is not None}
    return [change for backward in own.values() for change in context.drop_retain(backward)]


class _Way(NamedTuple):
    """How values are detached: at which place, whether nothing flows through them in their own iteration either,
    whether no optimizer updates what they were computed from, and whether code outside of the loop learns through it.
    """

    where: str
    narrow: bool
    untrained: bool
    shared: bool

    def meaning(self) -> tuple[str, str]:
        """Return what it means to detach so, for the title of a fix, and its effect."""
        if self.untrained:
            return "nothing before it is trained", _UNTRAINED
        meaning = "no gradient flows through it" if self.narrow else "no gradient flows into earlier iterations"
        return meaning, _ELSEWHERE if self.shared else _NARROW if self.narrow else _EFFECT


def _changes_nothing(
    context: Context, collision: Collision, group: list[Carrier], way: _Way, place: Placing
) -> bool:  # fmt: skip
    """Return whether a program that is detached so learns what it did before, wherever its backwards run."""
    at_backward = way.untrained or _cuts_at_backward(context.code, collision, group, place)
    return at_backward and _keeps_training(context, collision, group, way)


def _keeps_training(context: Context, collision: Collision, group: list[Carrier], way: _Way) -> bool:
    """Return whether a program learns what it did before where a backward runs in each iteration."""
    if way.untrained and collision.makes_parameters(_sources(group)):
        # Whoever writes a parameter wants it trained: that no optimizer has it is the mistake.
        return False
    # A norm over all gradients feels those of the untrained too, and a program may use them without an optimizer.
    unread = not context.caught and not reads_gradients(context)
    if way.untrained and (unread or way.where not in _IN_THE_LOOP):
        return unread
    # Where an earlier backward went through already, it has learned over the iterations until now. Nor may it have
    # learned through the place that is detached: a loop over old and new values reads both there.
    through = way.where in (_READ, _BEFORE) and any(_learned_through(collision, carrier) for carrier in group)
    meant = not way.narrow and not collision.walked_before and not through and not way.shared
    # Where older values stay beside new ones, a part of them all, `[:5]`, may be of old ones alone.
    return context.stops and meant and not any(_gathers(context.code, carrier) for carrier in group)


def _cuts_at_backward(code: Code, collision: Collision, group: list[Carrier], place: Placing) -> bool:
    """Return whether a value is detached where a backward has learned from it: what runs in each iteration would cut
    the window of several that one backward learns from.
    """
    backward = collision.first or collision.second
    if _walks_each_iteration(code, collision):
        return True
    beside = [code.statement_in(carrier.function, backward.at) for carrier in group]
    return place is _after_backward and all(
        one is not None and code.spans(one, backward.at.span) and code.statement_at(backward.at.span) is one
        for one in beside
    )


def _walks_each_iteration(code: Code, collision: Collision) -> bool:
    """Return whether a backward runs in each iteration of its loop, by the tape and by the text."""
    backward = collision.first or collision.second
    at_times = (_runs_at_times(code, statement) for statement in code.statements(backward.at))
    return collision.walks_each_iteration and not any(at_times)


def _runs_at_times(code: Code, statement: ast.stmt) -> bool:
    """Return whether a condition around a statement, within its loop or function, may change, or a `continue` in that
    loop may leave it out.
    """
    loop = next(iter(code.loops(statement)), None)
    outer = loop or code.function(statement)
    within = takewhile(lambda one: one is not outer, code.parents(statement))
    if any(_varies(code, one, loop) for one in within if isinstance(one, (ast.If, ast.While, ast.Match))):
        return True
    leaving = of_kind(loop, ast.Continue) if loop is not None else []
    return any(code.start(one) < code.start(statement) and code.loops(one)[:1] == [loop] for one in leaving)


def _varies(code: Code, condition: ast.If | ast.While | ast.Match, loop: ast.AST | None) -> bool:
    """Return whether a condition may have another answer the next time, by what its names are stored to."""
    test = condition.subject if isinstance(condition, ast.Match) else condition.test
    if loop is None or of_kind(test, ast.Call):
        return not isinstance(test, ast.Constant)
    stored = {dotted(one) for node in of_kind(loop, ast.stmt) for one in targets(node)}
    kept = {node.attr for node in of_kind(code.tree, ast.Attribute) if isinstance(node.ctx, ast.Store)}
    named = any(one.id in stored for one in of_kind(test, ast.Name))
    return named or any(one.attr in kept for one in of_kind(test, ast.Attribute))


_JOINING = ("cat", "concat", "hstack", "row_stack", "stack", "vstack")


def _gathers(code: Code, carrier: Carrier) -> bool:
    """Return whether new values come beside the carried ones: into a container of that name, or joined to a tensor."""
    name = carrier.text.rpartition(".")[2]
    grown = (call.func for call in of_kind(code.tree, ast.Call) if method_called(call) in STORES)
    added = (one.target for one in of_kind(code.tree, ast.AugAssign) if isinstance(one.op, ast.Add))
    holders = [*(one.value for one in grown if isinstance(one, ast.Attribute)), *(() if carrier.tensor else added)]
    return carrier.consumer.op.lower().startswith(_JOINING) or name in map(last_part, holders)


def _written(code: Code, carrier: Carrier) -> str:
    """Return the carried value as the program writes it, quotes and all."""
    text = code.segment(carrier.read)
    return carrier.text if "\n" in text or "\r" in text else text


def _shapes(context: Context, group: list[Carrier]) -> list[str]:
    """Return the possible shapes of the carried values, likeliest first."""
    return list(dict.fromkeys(shape for carrier in group for shape in shape_of(context, carrier)))


def shape_of(context: Context, carrier: Carrier) -> list[str]:
    """tensor, tuple, list, dict, or what is done to an object that keeps tensors in attributes: `.h.c` sets them,
    `_replace.h.c` and `replace.h.c` make a named tuple or a frozen dataclass anew.
    """
    code = context.code
    known = "tensor" if carrier.tensor else _shape_written(code, carrier)
    if known:
        # What else is in there may be no tensor.
        return [known, *_elements(context, carrier)]
    shapes = ["tuple", "tensor"] if "lstm" in carrier.consumer.op.lower() else ["tensor", "tuple"]
    attributes = _attributes(context, carrier)
    if attributes or _has_named_parts(code, carrier.text):
        # A plain tuple has no names for its parts.
        shapes.remove("tuple")
    ways = ("", "_replace", *(("replace",) if _has_dataclasses(context) else ()))
    together = [f"{way}{''.join(attributes)}" for way in ways] if attributes else []
    return list(dict.fromkeys([*shapes, *together[:1], *attributes, *together[1:]]))


def _has_dataclasses(context: Context) -> bool:
    """Return whether a file of the finding makes a class a dataclass: no other object can be given to `replace`."""
    owners = (one for code in context.codes.values() for one in of_kind(code.tree, ast.ClassDef))
    made = (part for one in owners for decorator in one.decorator_list for part in ast.walk(decorator))
    return any(isinstance(part, ast.expr) and last_part(part) == "dataclass" for part in made)


def _shape_written(code: Code, carrier: Carrier) -> str:
    """Return the shape of what the carried value is set to, or taken apart into, where the text says it."""
    values = [_value_for(store, carrier.text) for store in _stores_of(code, carrier)]
    if any(isinstance(value, ast.Call) and last_part(value.func).endswith("deque") for value in values):
        return "deque"
    stores = (node for node in walk(carrier.function) if isinstance(node, ast.Assign))
    apart = (one for one in stores if isinstance(one.targets[0], ast.Tuple) and dotted(one.value) == carrier.text)
    return next(filter(None, map(_written_as, values)), "tuple" if next(apart, None) is not None else "")


def _written_as(value: ast.expr | None) -> str:
    """Return what container an expression writes out; nothing for any other."""
    match value:
        case ast.Tuple():
            return "tuple"
        case ast.List() | ast.ListComp():
            return "list"
        case ast.Dict() | ast.DictComp():
            return "dict"
    return ""


def _has_named_parts(code: Code, text: str) -> bool:
    """Return whether the file reads an attribute of a value, or of what has its name elsewhere, and calls no method."""
    name = text.rpartition(".")[2]
    called = {id(call.func) for call in of_kind(code.tree, ast.Call)}
    parts = of_kind(code.tree, ast.Attribute)
    return any(last_part(part.value) == name and id(part) not in called for part in parts)


def _attributes(context: Context, carrier: Carrier) -> list[str]:
    """Return the attributes by which functions that were handed an object, or its own methods, read the tensors in
    it.
    """
    called = _is_called_on(context.code, carrier.read)
    found: dict[str, None] = {}
    for code, read in _read_elsewhere(context, carrier):
        name = id_of(read.value) if isinstance(read, ast.Attribute) else ""
        if isinstance(read, ast.Attribute) and name and name not in code.imported() and (called or name != "self"):
            found[f".{read.attr}"] = None
    return list(found)


def _elements(context: Context, carrier: Carrier) -> list[str]:
    """Return the elements that functions read of a container that they were handed: `["h"]`."""
    found: dict[str, None] = {}
    for _, read in _read_elsewhere(context, carrier):
        match read:
            case ast.Subscript(value=ast.Name(), slice=ast.Constant(value=str() | int() as key)):
                found[f"[{key!r}]"] = None
    return list(found)


def _read_elsewhere(context: Context, carrier: Carrier) -> Iterator[tuple[Code, ast.expr]]:
    """Yield what is read where the carried value is used, in functions that it is handed to."""
    for frame in frames(carrier.consumer.at):
        code = context.codes.get(frame.file, context.code)
        expression = code.expression_at(frame)
        if expression is None or expression is carrier.read or code.inside(carrier.read, expression):
            continue
        yield from ((code, read) for read in reads(expression))


def _is_called_on(code: Code, read: ast.expr) -> bool:
    """Return whether a method is called on what an expression reads."""
    method = code.parent(read)
    call = code.parent(method) if isinstance(method, ast.Attribute) else None
    return isinstance(call, ast.Call) and call.func is method


def _stores_of(code: Code, carrier: Carrier) -> list[ast.stmt]:
    owner = code.owner(carrier.read)
    if owner is not None and carrier.text.startswith("self."):
        return [
            node for node in of_kind(owner, ast.stmt) if any(dotted(target) == carrier.text for target in targets(node))
        ]
    return code.stores(carrier.function, carrier.text)


def _value_for(store: ast.stmt, text: str) -> ast.expr | None:
    """Return what an assignment stores to one of its targets."""
    if not isinstance(store, ast.Assign):
        return None
    pairs = stored_pairs(store.targets[0], store.value)
    return next((value for target, value in pairs if dotted(target) == text), None)


def detaching(text: str, shape: str) -> list[str]:
    """Return the statements that detach a value of that shape."""
    if shape.startswith("["):
        return [f"{text}{shape} = {text}{shape}.detach()"]
    way, *names = shape.split(".")
    if not names:
        return [f"{text} = {detached(text, shape)}"]
    if not way:
        return [f"{text}.{name} = {text}.{name}.detach()" for name in names]
    values = ", ".join(f"{name}={text}.{name}.detach()" for name in names)
    made = f"{text}._replace({values})" if way == "_replace" else f"dataclasses.replace({text}, {values})"
    return [f"{text} = {made}"]


def _needed(code: Code, shape: str) -> list[Change]:
    """Return the import that detaching a value of that shape needs."""
    return code.module("dataclasses")[1] if shape.startswith("replace.") else []


def detached(text: str, shape: str) -> str:
    """Return the expression for a detached value of that shape."""
    name = "part" if root_name(parse_expression(text)) != "part" else "item"
    if shape == "tuple":
        return f"tuple({name}.detach() for {name} in {text})"
    if shape == "deque":
        return f"type({text})(({name}.detach() for {name} in {text}), {text}.maxlen)"
    if shape == "list":
        return f"[{name}.detach() for {name} in {text}]"
    if shape == "dict":
        return f"{{key: {name}.detach() for key, {name} in {text}.items()}}"
    return f"{text}.detach()"


def after_backward(code: Code, backward: Backward, function: ast.AST) -> ast.stmt | None:
    """Return the last statement of the run of backward, clipping and step calls that a backward begins, in a
    function.
    """
    statement = code.statement_in(function, backward.at)
    if statement is None:
        return None
    block = code.block(statement)
    return [statement, *takewhile(_belongs_to_step, block[block.index(statement) + 1 :])][-1]


def _belongs_to_step(statement: ast.stmt) -> bool:
    return method_called(expression_of(statement)) in _AFTER_BACKWARD


def _shared_loop(code: Code, one: ast.AST, other: ast.AST) -> LoopNode | None:
    loops = code.loops(other)
    return next((loop for loop in code.loops(one) if loop in loops), None)


def _after_backward(context: Context, collision: Collision, carrier: Carrier, shape: str) -> _Place | None:
    code = context.code
    last = after_backward(code, collision.first or collision.second, carrier.function)
    loop = _shared_loop(code, last, carrier.read) if last is not None else None
    if last is None or loop is None or code.within_block(last, loop.body) is None:
        return None
    # Assigned anew behind this place, outside a branch: detaching here would be overwritten.
    if any(store in loop.body and store.lineno > last_line(last) for store in code.stores(loop, carrier.text)):
        return None
    return _placed(code, code.insert_after(last, detaching(_written(code, carrier), shape)), shape, _AFTER)


def _at_store(context: Context, collision: Collision, carrier: Carrier, shape: str) -> _Place | None:
    """Rewrite `belief = estimate.clone()` to `belief = estimate.clone().detach()`."""
    code = context.code
    last = after_backward(code, collision.first or collision.second, carrier.function)
    for store in carrier.stores or code.stores(carrier.function, carrier.text):
        changes = detach_value(code, store, carrier.text)
        if not changes:
            continue
        if last is not None and store.lineno > last_line(last) and _shared_loop(code, store, last) is not None:
            return _Place(changes, "where it is stored")
        learned = collision.learned() & collision.leaves(carrier.sources)
        narrow = bool(learned) and not _unread_until(code, carrier, store, last)
        return _Place(changes, f"where it is stored (line {store.lineno})", narrow)
    return None


def _unread_until(code: Code, carrier: Carrier, store: ast.stmt, last: ast.stmt | None) -> bool:
    """Return whether nothing reads a variable between a store and the backward below it in the same loop's body."""
    loop = _shared_loop(code, store, last) if last is not None else None
    if loop is None or last is None or not carrier.text.isidentifier() or store not in loop.body:
        return False
    return all(
        code.function(load) is carrier.function
        and not store.lineno < load.lineno <= last_line(last)
        and not code.inside(load, store)
        for load in code.loads(code.tree, carrier.text)
    )


def _where_made(context: Context, collision: Collision, carrier: Carrier, shape: str) -> _Place | None:
    """Detach a value from before the loop in the statement that stores it, or behind it: `a, b = map(stack, kept)`."""
    found = _at_store(context, collision, carrier, shape)
    if found is not None:
        return found
    code = context.code
    for store in carrier.stores or code.stores(carrier.function, carrier.text):
        change = code.insert_after(store, detaching(_written(code, carrier), shape))
        if change is not None and isinstance(store, ast.Assign):
            learned = collision.learned() & collision.leaves(carrier.sources)
            where = f"once it is stored (line {store.lineno})"
            return _placed(code, change, shape, where, narrow=bool(learned))
    return None


def detach_value(code: Code, store: ast.stmt, text: str) -> list[Change]:
    """Detach what a plain assignment stores to a name; tuples element by element."""
    if not isinstance(store, ast.Assign) or len(store.targets) != 1:
        return []
    target, value = store.targets[0], store.value
    pairs = stored_pairs(target, value)
    if pairs != [(target, value)]:
        found = (one for part, one in pairs if dotted(part) == text and not isinstance(one, ast.Starred))
        return appended(code, element, ".detach()") if (element := next(found, None)) is not None else []
    if dotted(target) != text and not (isinstance(target, ast.Attribute) and text.endswith(f".{target.attr}")):
        return []
    if isinstance(value, (ast.Tuple, ast.List)):
        new = rewrite.tried(rewrite.elements, code.segment(value), _detach_element)
        return [code.replace(value, new)] if new is not None and new != code.segment(value) else []
    return [] if isinstance(value, ast.Constant) else appended(code, value, ".detach()")


def _detach_element(text: str) -> str | None:
    node = parse_expression(f"({text})")
    detached_already = method_called(node) in ("detach", "item") or isinstance(node, ast.Constant)
    return None if detached_already else rewrite.with_suffix(text, ".detach()")


def _starts_as_none(code: Code, carrier: Carrier) -> bool:
    scope = code.owner(carrier.read) if carrier.text.startswith("self.") else carrier.function
    if scope is None:
        return False
    stores = (node for node in ast.walk(scope) if isinstance(node, (ast.Assign, ast.AnnAssign)))
    if any(is_literal(one.value, None) and carrier.text in map(dotted, targets(one)) for one in stores):
        return True
    arguments = getattr(carrier.function, "args", None)
    return isinstance(arguments, ast.arguments) and any(
        is_literal(default, None) for name, default in _defaults(arguments) if name == carrier.text
    )


def _defaults(arguments: ast.arguments) -> Iterator[tuple[str, ast.expr | None]]:
    positional = [*arguments.posonlyargs, *arguments.args]
    for argument, default in zip(reversed(positional), reversed(arguments.defaults), strict=False):
        yield argument.arg, default
    for argument, keyword_default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        yield argument.arg, keyword_default


def _at_read(context: Context, collision: Collision, carrier: Carrier, shape: str) -> _Place | None:
    """Rewrite `model(x, h)` to `model(x, h.detach())`."""
    code = context.code
    # The target of `x += y` is no place for a call.
    if shape != "tensor" or _starts_as_none(code, carrier) or not is_read(carrier.read):
        return None
    return _placed(code, append(code, carrier.read, ".detach()"), shape, _READ, narrow=carrier.every_step)


def _part_at_read(context: Context, collision: Collision, carrier: Carrier, shape: str) -> _Place | None:
    """Rewrite `cell(x, state["h"])` to `cell(x, state["h"].detach())`: beside it the value may hold anything."""
    code, part = context.code, carrier.read
    while isinstance(outer := code.parent(part), (ast.Attribute, ast.Subscript)) and outer.value is part:
        part = outer
    called = isinstance(outer, ast.Call) and outer.func is part
    if part is carrier.read or called or not is_read(part) or _is_slice(part):
        return None
    return _placed(code, append(code, part, ".detach()"), "tensor", _READ, narrow=carrier.every_step)


def _is_slice(read: ast.expr) -> bool:
    """Return whether an expression reads several elements: of a list that is another list."""
    return isinstance(read, ast.Subscript) and isinstance(read.slice, ast.Slice)


def _before_read(context: Context, collision: Collision, carrier: Carrier, shape: str) -> _Place | None:
    """Return a statement of its own before the one that reads the carried value."""
    code = context.code
    statement = code.statement(carrier.read)
    if statement is None:
        return None
    scope = carrier.function
    if carrier.text.startswith("self.") and isinstance(scope, (ast.FunctionDef, ast.AsyncFunctionDef)):
        # The first statement of the method that reads it: all reads of this call see the detached value.
        loads = code.loads(scope, carrier.text)
        first = min(loads, key=lambda node: (node.lineno, node.col_offset), default=carrier.read)
        statement = code.within_block(first, scope.body) or statement
    change = code.insert_before(statement, _detaching_lines(code, carrier, shape))
    return _placed(code, change, shape, _BEFORE, narrow=carrier.every_step)


def _after_store(context: Context, collision: Collision, carrier: Carrier, shape: str) -> _Place | None:
    """Return a statement of its own behind the one that stores the value."""
    code = context.code
    scope: ast.AST = carrier.function
    if isinstance(carrier.read, ast.Attribute):
        scope = code.owner(carrier.read) or code.tree
    for store in code.stores(carrier.function, carrier.text):
        change = code.insert_after(store, detaching(_written(code, carrier), shape))
        if change is None or not isinstance(store, ast.Assign):
            continue
        # Whatever reads it elsewhere may do so before this iteration's backward.
        elsewhere = any(not code.inside(load, store) for load in code.loads(scope, carrier.text))
        return _placed(code, change, shape, "once it is stored", narrow=elsewhere)
    return None


def _at_loop_start(context: Context, collision: Collision, carrier: Carrier, shape: str) -> _Place | None:
    code = context.code
    last = after_backward(code, collision.first or collision.second, carrier.function)
    loop = _shared_loop(code, last, carrier.read) if last is not None else None
    change = code.insert_first(loop.body, _detaching_lines(code, carrier, shape)) if loop is not None else None
    return _placed(code, change, shape, _START)


def _of_the_object(context: Context, collision: Collision, carrier: Carrier, shape: str) -> _Place | None:
    """Detach an attribute after the backward by the object that has it there: `model.state` for `self.state`."""
    code, function, owner = context.code, carrier.function, context.code.owner(carrier.read)
    base, _, path = carrier.text.partition(".")
    for frame in frames(carrier.consumer.at)[1:]:
        call = context.call_at(frame)
        receiver = _called_on(call, function) if call is not None and base == "self" else None
        if call is None or receiver is None or owner is None or not _is_made_of(code, receiver, owner):
            return None
        owner = code.owner(call)
        base, _, outer = receiver.partition(".")
        path = f"{outer}.{path}" if outer else path
        function = code.function(call)
        last = after_backward(code, collision.first or collision.second, function)
        if last is not None and _shared_loop(code, last, call) is not None:
            return _placed(code, code.insert_after(last, detaching(f"{base}.{path}", shape)), shape, _AFTER)
    return None


def _is_made_of(code: Code, receiver: str, owner: ast.ClassDef) -> bool:
    """Return whether all that a name or attribute is given are objects of a class: a wrapper has not its attributes."""
    if receiver == "self":
        return True
    name = receiver.rpartition(".")[2]
    stores = [node for node in of_kind(code.tree, ast.Assign) if any(last_part(part) == name for part in targets(node))]
    return bool(stores) and all(_maker(store.value) == owner.name for store in stores)


def _maker(value: ast.expr) -> str:
    """Return the class that an expression makes an object of, and moves: `Net().to(device)`."""
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in _MOVES:
        value = value.func.value
    return id_of(value.func) if isinstance(value, ast.Call) else ""


def _called_on(call: ast.Call, function: ast.AST) -> str | None:
    """Return the text of the object whose method a call runs: of a module what is called itself."""
    method = getattr(function, "name", "")
    if isinstance(call.func, ast.Attribute) and call.func.attr == method:
        return dotted(call.func.value)
    return dotted(call.func) if method in ("forward", "__call__") else None


def _detaching_lines(code: Code, carrier: Carrier, shape: str) -> Iterable[str]:
    lines = detaching(_written(code, carrier), shape)
    if _starts_as_none(code, carrier):
        return [f"if {_written(code, carrier)} is not None:", *(f"    {line}" for line in lines)]
    return lines
