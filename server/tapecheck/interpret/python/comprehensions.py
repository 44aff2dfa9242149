"""Comprehensions, and calls that take in all elements of an iterable: `[f(x) for x in data]`, `sum(f(x) for ...)`.

Over the parts of a model they are one step of a forward pass. One whose elements are trained on (its first element
runs a backward) is a loop like any other from its second element on, which keeps what has been worked out so far.
"""

from __future__ import annotations

import ast
from collections.abc import Generator as PyGenerator
from collections.abc import Iterable, Iterator

from tapecheck.interpret import limits
from tapecheck.interpret.engine import Engine
from tapecheck.interpret.objects import carry, containers, methods
from tapecheck.interpret.python.loops import passes_over, perhaps_frozen_on, takes_nothing
from tapecheck.interpret.state import Frame
from tapecheck.interpret.values import (
    PICKED,
    Dict,
    Env,
    Extent,
    Generator,
    Instance,
    List,
    Set,
    Signal,
    Stream,
    Value,
    behaviour,
    hashable,
    measured,
    of_numbers,
    rest_of,
    stored,
    with_numbers,
)
from tapecheck.tape import LoopEnd

_Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


def list_comprehension(machine: Engine, node: ast.ListComp | ast.SetComp, env: Env) -> Value:
    inner = Env(env, env.globals)
    inner.inner = True
    extent = Extent(one_way=_in_one_way(machine, node, inner), exact=_goes_by_its_loop(node))
    made = machine.new_list([], node)
    for _ in trained(machine, _rounds(machine, node, node.generators, inner, extent), node, made, extent):
        made.items.append(machine.eval(node.elt, inner))
    made.more = with_numbers(extent.rest(), made.items)
    if made.more and any(one.ifs for one in node.generators):
        made.items = machine.library.drawn(made.items, node)
    made.cut = extent.cut if extent.exact or not extent.cut else None
    if isinstance(node, ast.SetComp):
        return Set(methods.distinct(made.items), made.more)
    return measured(made, extent.count)


def _goes_by_its_loop(node: _Comprehension) -> bool:
    """Return whether a comprehension has an element for each time that its loop goes round."""
    return (
        not isinstance(node, (ast.SetComp, ast.DictComp)) and len(node.generators) == 1 and not node.generators[0].ifs
    )


def dict_comprehension(machine: Engine, node: ast.DictComp, env: Env) -> Value:
    result = Dict({}, born=machine.world.position.clock)
    inner = Env(env, env.globals)
    inner.inner = True
    extent = Extent()
    for _ in trained(machine, _rounds(machine, node, node.generators, inner, extent), node, result, extent):
        key = hashable(machine.eval(node.key, inner))
        result.items[key] = machine.eval(node.value, inner)
        stored(machine, result.slots, key, node.value)
    result.more = extent.rest()
    return measured(result, extent.count)


def gathered(machine: Engine, value: Value, node: ast.AST, *, perhaps_none: bool = False) -> tuple[list[Value], int]:
    """Return the elements of an iterable that a call takes in, and what nobody knows of them.

    With `perhaps_none` there may be none where nobody knows how many there are.
    """
    if not isinstance(value, (Generator, Stream)):
        known = behaviour(value).known_items(machine, node)
        if known is not None and not behaviour(value).perhaps_none():
            return known, 0
        if perhaps_none and takes_nothing(machine, node):
            return [], 0
        return (list(machine.elements(value, node)), rest_of(value)) if known is None else (known, 0)
    if perhaps_none and value.perhaps_none() and takes_nothing(machine, node):
        return [], 0
    extent = Extent(enough=limits.MIN_ITERATIONS)
    made = machine.new_list([], node)
    for item in trained(machine, _drawn(machine, value, node, extent), node, made, extent):
        made.items.append(item)
    if extent.whole and not made.items:
        return [], 0
    extent.one_way = value.extent.one_way if isinstance(value, Generator) else value.one_way
    return made.items, with_numbers(extent.rest() | value.rest(), made.items)


def _drawn(machine: Engine, value: Value, node: ast.AST, extent: Extent) -> Iterator[Value]:
    """Yield the elements of a stream, one after the other: all of them where their number is known."""
    stream = machine.stream(value, node)
    length = stream.length()
    if length is not None and not stream.sequential and length - stream.next > limits.MAX_ITEMS:
        extent.whole = False
    drawn = 0
    budget = machine.world.budget
    most_work, frozen = budget.work, len(machine.world.graph.frozen)
    while drawn < limits.MAX_ROUNDS or (drawn < limits.MAX_DRAINED and most_work - budget.work <= limits.LOOP_WORK):
        length = stream.length()
        if length is None:
            extent.whole = False
            if drawn >= extent.enough and stream.next >= stream.reach():
                break
        elif stream.next >= length:
            break
        try:
            item = stream.item(stream.next)
        except IndexError:
            # What has given nothing has come to its end by itself.
            extent.whole = extent.whole or not drawn
            return
        stream.next += 1
        drawn += 1
        yield item
    else:
        extent.whole = False
        perhaps_frozen_on(machine, frozen, node)
    stream.abandon(machine)


def trained(
    machine: Engine, rounds: Iterator[Value], node: ast.AST, kept: List | Dict, extent: Extent
) -> Iterator[Value]:
    """Run rounds as iterations of a loop, from the second on, where the first runs a backward, or builds a graph
    of which its element keeps nothing: `[net(x).item() for x in data]`. They fill `kept`.
    """
    world = machine.world
    entry = (node, kept)
    machine.gathering.append(entry)
    before, newest = world.writer.backwards, world.writer.last_id
    try:
        for value in rounds:
            yield value
            if world.writer.backwards != before:
                extent.enough = max(extent.enough, limits.TRAINED_ROUNDS)
                break
            if world.writer.last_id != newest and not world.position.inside_forward and _without_graph(kept):
                extent.enough = max(extent.enough, limits.COUNTED_ROUNDS)
                break
            if _makes_objects(kept):
                extent.enough = max(extent.enough, limits.MIN_ITERATIONS)
        else:
            return
        outside = world.position.iteration
        loop = world.enter_loop(node)
        done = 0
        while True:
            started = carry.begin(machine, loop, done + 1)
            try:
                value = next(rounds)
            except StopIteration:
                world.loops.forget()
                break
            yield value
            done += 1
            carry.end(machine, loop, done, started)
        world.loops.leave(LoopEnd(loop, done, "may" if extent.rest() else "no"), outside)
        if extent.rest():
            world.graph.left_early()
    finally:
        machine.gathering.remove(entry)


def _makes_objects(kept: List | Dict) -> bool:
    """Return whether the element that was kept last is an object: what a loop stores in it is not in the others."""
    elements = _elements(kept)
    return bool(elements) and isinstance(elements[-1], Instance)


def _without_graph(kept: List | Dict) -> bool:
    """Return whether nothing of the element that was kept last can have a graph: a number, a constant tensor."""
    elements = _elements(kept)
    return bool(elements) and not carry.tensors_in(elements[-1])


def _elements(kept: List | Dict) -> list[Value]:
    return list(kept.items.values()) if isinstance(kept, Dict) else kept.items


def generator_expression(machine: Engine, node: ast.GeneratorExp, env: Env) -> Value:
    inner = Env(env, env.globals)
    inner.inner = True
    first = node.generators[0]
    stream = machine.stream(machine.eval(first.iter, env), first.iter)
    # Whoever takes its elements says how many are enough.
    extent = Extent(enough=limits.ENDLESS, one_way=_in_one_way(machine, node, inner), exact=_goes_by_its_loop(node))
    rounds = _over(machine, node, stream, node.generators, inner, extent)
    lazily = _lazily(machine, node.elt, rounds, inner)
    extent.cut = stream.cut
    if stream.count is not None:
        extent.counts = (stream.count,)
    open_ended = stream.length() is None
    return Generator(lazily, inner, open_ended, extent=extent, guarded=stream.waits())


def _in_one_way(machine: Engine, node: ast.ListComp | ast.SetComp | ast.GeneratorExp, env: Env) -> bool:
    """Return whether each element comes about as the others do, from what it is made of: no condition and no index
    chooses, and nothing is called but what that has and what libraries define.
    """
    names = machine.world.position.notes.of(node, _names_of_one_way)
    if names is None:
        return False
    builtins = machine.library.builtins
    values = [(env.scope_of(name) or env.globals).vars.get(name, builtins.get(name)) for name in names]
    return all(containers.of_library(machine, one) or (one is not None and of_numbers(one)) for one in values)


def _names_of_one_way(node: ast.ListComp | ast.SetComp | ast.GeneratorExp) -> list[str] | None:
    """Return the names that the elements read beside those of the loops; None where something may choose."""
    drawn = {one.id for each in node.generators for one in ast.walk(each.target) if isinstance(one, ast.Name)}
    parts = list(ast.walk(node.elt))
    if not all(isinstance(one, _OF_ONE_WAY) for one in parts):
        return None
    return [one.id for one in parts if isinstance(one, ast.Name) and one.id not in drawn]


_OF_ONE_WAY = (
    ast.Attribute, ast.BinOp, ast.Call, ast.Constant, ast.FormattedValue, ast.JoinedStr, ast.Name, ast.UnaryOp,
    ast.expr_context, ast.operator, ast.unaryop,
)  # fmt: skip
"""What chooses nothing."""


def _lazily(
    machine: Engine, element: ast.expr, rounds: PyGenerator[Value, Value, None], env: Env
) -> PyGenerator[Value, Value, None]:
    """Yield the values of a generator expression, each worked out when it is asked for."""
    home = machine.world.position.frames[-1]
    while True:
        away = machine.world.position.frames[-1] is not home
        if away:
            machine.world.position.push(Frame(home.function, home.module))
        try:
            next(rounds)
            value = machine.eval(element, env)
        except StopIteration:
            return None
        finally:
            if away:
                machine.world.position.pop()
        yield value


def _rounds(
    machine: Engine, node: _Comprehension, generators: list[ast.comprehension], env: Env, extent: Extent
) -> PyGenerator[Value, Value, None]:
    """Yield the rounds of some loops of a comprehension, with its names bound; `extent` says how far they go."""
    iterated = generators[0].iter
    stream = machine.stream(machine.eval(iterated, env), iterated)
    yield from _over(machine, node, stream, generators, env, extent)


def _over(
    machine: Engine, node: _Comprehension, stream: Stream, generators: list[ast.comprehension], env: Env,
    extent: Extent,
) -> PyGenerator[Value, Value, None]:  # fmt: skip
    """Yield the rounds over a stream, that of the first of some loops, with those of the others within each."""
    first, *others = generators
    start = index = stream.next
    if passes_over(machine, stream, node, first.target, env, first.iter):
        return
    _goes_over(extent, stream)
    frozen, budget = len(machine.world.graph.frozen), machine.world.budget
    most_work = budget.work
    element: Value = None
    while True:
        # A generator says so once it has run.
        extent.picked = extent.picked or bool(stream.rest() & PICKED)
        if _is_over(stream, start, index, extent):
            break
        done = index - start
        enough = done >= limits.MODEL_ITERATIONS or most_work - budget.work > limits.LOOP_WORK
        if done >= limits.MAX_ROUNDS and (enough or not carry.of_model(element)):
            extent.whole = False
            perhaps_frozen_on(machine, frozen, first.iter)
            break
        budget.spend(limits.ROUND_WORK)
        try:
            element = stream.item(index)
        except IndexError:
            return
        index += 1
        stream.next = index
        machine.assign(first.target, element, env, first.target)
        if not _takes(machine, first.ifs, env, extent):
            continue
        try:
            if others:
                yield from _rounds(machine, node, others, env, extent)
            else:
                yield None
        except Signal:  # the generator expression is closed
            stream.abandon(machine)
            raise
    stream.abandon(machine)


def _is_over(stream: Stream, start: int, index: int, extent: Extent) -> bool:
    """Whether a comprehension over a stream is run no further, which has come from one element to another."""
    length = stream.length()
    if length is not None:
        return index >= length
    extent.whole = False
    # A list made of another one's elements has as many of them: any beyond would be taken for its last one.
    known = stream.reach() - start
    return index - start >= max(extent.enough, known)


def _goes_over(extent: Extent, stream: Stream) -> None:
    """Note what a comprehension that goes over a stream has of that: how its elements come about, and how many."""
    extent.one_way = extent.one_way and stream.one_way
    if stream.cut != 0:
        extent.cut = stream.cut
    if stream.count is not None and stream.count not in extent.counts:
        extent.counts = (*extent.counts, stream.count)


def _takes(machine: Engine, conditions: Iterable[ast.expr], env: Env, extent: Extent) -> bool:
    """Whether the conditions of a comprehension let an element in; where nobody knows, they do, and that is noted."""
    for condition in conditions:
        truth = machine.known_truth(machine.eval(condition, env))
        if truth is None:
            extent.picked = True
        elif not truth:
            return False
    return True
