"""Loops, comprehensions and whatever else goes through an iterable: how often, and what is left at the end."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tapecheck.interpret import carry, containers, equality, flow, functions, methods
from tapecheck.interpret.flow import Run
from tapecheck.interpret.values import (
    OPEN,
    Dict,
    Env,
    Generator,
    Instance,
    List,
    Set,
    Signal,
    Stream,
    Tensor,
    Unknown,
    Value,
    concrete,
)
from tapecheck.interpret.world import Frame
from tapecheck.tape import Fact

if TYPE_CHECKING:
    from tapecheck.interpret.machine import Machine

MIN_ITERATIONS = 3
MAX_ITERATIONS = 36
ITERATION_WORK = 24_000
_MAX_ROUNDS = 64
_MAX_FED = 256


def run_for(machine: Machine, node: ast.For, env: Env) -> Run:
    world = machine.world
    stream = machine.stream(machine.eval(node.iter, env), node.iter)
    outside = world.iteration
    counted = len(world.counted)
    feeding = env.sent is not None and functions.has_yield(node)
    enough = _enough_iterations(machine, node)
    varying = world.varying
    loop = world.enter_loop(node)
    signal: Any = None
    done = 0
    index = stream.next
    work = world.work
    while True:
        length = stream.length()
        if length is not None and index >= length:
            break
        if done >= enough and feeding and done < _MAX_FED:
            # Whoever takes what it yields says how often it goes round.
            if length is None and env.sent is not None:
                env.sent[OPEN] = True
        elif done >= enough and (length is None or length > index):
            go_on = length is not None and (
                world.varying > varying or (length <= 6 and work - world.work < ITERATION_WORK)
            )
            exhausted = done >= MAX_ITERATIONS or work - world.work > ITERATION_WORK
            if not go_on or (exhausted and stream.sequential):
                break
            if exhausted:
                if length is None or index >= length - 1:
                    break
                index = length - 1
        varying = world.varying
        try:
            element = stream.item(index)
        except IndexError:
            break
        started = carry.begin(machine, loop, done + 1)
        machine.assign(node.target, element, env, node)
        signal = yield from machine.block(node.body, env)
        done += 1
        index += 1
        stream.next = index
        world.spend(3)
        if signal is flow.BREAK or isinstance(signal, flow.Returned):
            carry.end(machine, loop, done, started)
            break
        carry.end(machine, loop, done, started)
        signal = None
    length = stream.length()
    more: Fact = "may" if length is None or stream.sequential else ("yes" if index < length else "no")
    if signal is None and more != "no":
        _forget_counters(machine, node, env, counted, done, None if length is None else length - index)
        _end_of(machine, node, stream, env)
    if not outside:
        del world.counted[:]
    world.leave_loop(loop, outside, done, more)
    if isinstance(signal, flow.Returned):
        return signal
    if signal is not flow.BREAK and node.orelse:
        return (yield from machine.block(node.orelse, env))
    return None


def run_while(machine: Machine, node: ast.While, env: Env) -> Run:
    world = machine.world
    outside = world.iteration
    counted = len(world.counted)
    feeding = env.sent is not None and functions.has_yield(node)
    enough = _enough_iterations(machine, node)
    varying = world.varying
    loop = world.enter_loop(node)
    signal: Any = None
    done = 0
    work = world.work
    known = False
    always = isinstance(node.test, ast.Constant) and bool(node.test.value)
    while True:
        if env.sent is not None:
            for part in functions.yields_in(node.test):
                yield from machine.suspend(part, env)
        value = machine.eval(node.test, env)
        answer = machine.known_truth(value)
        if done >= enough and feeding and done < _MAX_FED and answer is not False:
            if env.sent is not None and (always or answer is None):
                env.sent[OPEN] = True
        elif always:
            if done >= enough and (world.varying == varying or done >= MAX_ITERATIONS):
                break
        elif answer is None:
            if done >= enough:
                break
        elif not answer:
            known = True
            break
        elif done >= MAX_ITERATIONS or (done >= enough and work - world.work > ITERATION_WORK):
            break
        varying = world.varying
        started = carry.begin(machine, loop, done + 1)
        signal = yield from machine.block(node.body, env)
        done += 1
        world.spend(3)
        carry.end(machine, loop, done, started)
        if signal is flow.BREAK or isinstance(signal, flow.Returned):
            break
        signal = None
    if not known and signal is None:
        _forget_counters(machine, node, env, counted, done, None)
    if not outside:
        del world.counted[:]
    world.leave_loop(loop, outside, done, "no" if known or signal is not None else "may")
    if isinstance(signal, flow.Returned):
        return signal
    if signal is not flow.BREAK and node.orelse and not always:
        return (yield from machine.block(node.orelse, env))
    return None


def _enough_iterations(machine: Machine, node: ast.AST) -> int:
    """How many iterations of a loop show what it does: fewer each time it is entered from the same place."""
    key = (id(node), machine.world.call_stack)
    entered = machine.entered[key] = machine.entered.get(key, 0) + 1
    return max(MIN_ITERATIONS + 1 - entered, 1)


def _end_of(machine: Machine, node: ast.For, stream: Stream, env: Env) -> None:
    """A loop was cut short: its variable has the last value that the real loop gives it."""
    target = node.target
    if not isinstance(target, ast.Name) or not isinstance(env.vars.get(target.id), (int, float)):
        return
    length = stream.length()
    last: Value = Unknown("number")
    if length is not None and length > 0 and not stream.sequential:
        last = stream.item(length - 1)
    if isinstance(last, (int, float, Unknown)):
        env.vars[target.id] = last


def note_count(machine: Machine, target: ast.expr, value: Value, env: Env) -> None:
    """Note a number that a statement of a loop counts up: `machine.step += 1`."""
    if not machine.world.iteration or not isinstance(value, (int, float)):
        return
    counted = machine.world.counted
    if isinstance(target, ast.Attribute):
        owner = machine.eval(target.value, env)
        if isinstance(owner, Instance):
            counted.append(("attribute", owner, target.attr, value))
    elif isinstance(target, ast.Subscript):
        owner = machine.eval(target.value, env)
        if isinstance(owner, Dict):
            counted.append(("item", owner, equality.hashable(machine.eval(target.slice, env)), value))
    elif isinstance(target, ast.Name):
        home = machine.home_of(target.id, env)
        counted.append(("name", home, target.id, value))


def _forget_counters(
    machine: Machine, node: ast.For | ast.While, env: Env, first: int, done: int, left: int | None
) -> None:
    """A loop was left before its end: what it counted up has another value in the real program.

    `first` is where in `World.counted` the loop's own entries begin, `done` how many iterations were run, `left`
    how many more the real program makes where that is known.
    """
    rows: dict[tuple[str, int, Any], list[Any]] = {}
    grown: dict[int, tuple[List, int]] = {}
    for kind, owner, key, value in machine.world.counted[first:]:
        if kind == "grown":
            grown[id(owner)] = (owner, grown.get(id(owner), (owner, 0))[1] + value)
        else:
            rows.setdefault((kind, id(owner), key), [owner]).append(value)
    for owner, count in grown.values():
        if left is None or done < 2 or count % done or owner.cut is None:
            owner.cut = None
        else:
            owner.cut += left * (count // done)
    for (kind, _, key), (owner, *values) in rows.items():
        held = owner.attrs if kind == "attribute" else (owner.vars if kind == "name" else owner.items)
        if isinstance(held.get(key), (int, float)) and not isinstance(held[key], bool):
            held[key] = _extrapolated(values, done, left)
    for name in flow.counted_names(node):
        value = env.vars.get(name)
        if isinstance(value, (int, float)) and not isinstance(value, bool) and ("name", id(env), name) not in rows:
            env.vars[name] = Unknown("number")


def list_comprehension(machine: Machine, node: ast.ListComp | ast.SetComp, env: Env) -> Value:
    inner = Env(env, env.globals)
    inner.inner = True
    known = [True]
    items = [machine.eval(node.elt, inner) for _ in _rounds(machine, node.generators, inner, known, False)]
    if isinstance(node, ast.SetComp):
        return Set(methods.distinct(items), not known[0])
    return machine.new_list(items, node, not known[0])


def dict_comprehension(machine: Machine, node: ast.DictComp, env: Env) -> Value:
    result = Dict({}, born=machine.world.clock)
    inner = Env(env, env.globals)
    inner.inner = True
    known = [True]
    for _ in _rounds(machine, node.generators, inner, known, False):
        key = equality.hashable(machine.eval(node.key, inner))
        result.items[key] = machine.eval(node.value, inner)
        result.stores[key] = machine.world.site(node.value)
        result.stamps[key] = machine.world.clock
    result.more = not known[0]
    return result


def generator_expression(machine: Machine, node: ast.GeneratorExp, env: Env) -> Value:
    inner = Env(env, env.globals)
    inner.inner = True
    first, *others = node.generators
    stream = machine.stream(machine.eval(first.iter, env), first.iter)
    whole = [True]
    rounds = _over(machine, stream, first, others, inner, whole, True)
    return Generator(_lazily(machine, node.elt, rounds, inner), inner, stream.length() is None, whole=whole)


def _lazily(machine: Machine, element: ast.expr, rounds: Run, env: Env) -> Run:
    """The values of a generator expression, each worked out when it is asked for."""
    home = machine.world.frames[-1]
    while True:
        away = machine.world.frames[-1] is not home
        if away:
            machine.world.push(Frame(home.function, home.file, home.lines))
        try:
            next(rounds)
            value = machine.eval(element, env)
        except StopIteration:
            return None
        finally:
            if away:
                machine.world.pop()
        yield value


def _rounds(machine: Machine, generators: list[ast.comprehension], env: Env, known: list[bool], lazy: bool) -> Run:
    """The rounds of a comprehension's loops, with its names bound; `known` says whether their number is."""
    first, *others = generators
    stream = machine.stream(machine.eval(first.iter, env), first.iter)
    yield from _over(machine, stream, first, others, env, known, lazy)


def _over(
    machine: Machine, stream: Stream, first: ast.comprehension, others: list[ast.comprehension], env: Env,
    known: list[bool], lazy: bool,
) -> Run:  # fmt: skip
    start = index = stream.next
    while True:
        length = stream.length()
        if length is None:
            known[0] = False
            if not lazy and index - start >= 2:
                return
        elif index >= length:
            return
        if index - start >= _MAX_ROUNDS:
            known[0] = False
            return
        machine.world.spend(2)
        try:
            element = stream.item(index)
        except IndexError:
            return
        index += 1
        stream.next = index
        machine.assign(first.target, element, env, first.target)
        for condition in first.ifs:
            truth = machine.known_truth(machine.eval(condition, env))
            if truth is None:
                known[0] = False
            elif not truth:
                break
        else:
            if others:
                yield from _rounds(machine, others, env, known, lazy)
            else:
                yield None


def stream(machine: Machine, value: Value, node: ast.AST) -> Stream:
    """Anything iterable as a stream of elements."""
    if isinstance(value, Stream):
        return value
    if isinstance(value, Instance):
        method = machine.find_method(value, "__iter__") or machine.find_method(value, "__aiter__")
        if method is not None:
            made = machine.call(method, [], {}, node)
            if made is not value:
                return stream(machine, made, node)
        following = machine.find_method(value, "__next__")
        if following is not None:
            # The length is asked for as if unknown, but the stream ends by itself: loops run it to its end.
            return Stream(lambda: 1_000_000, lambda i: _next(machine, following, node), sequential=True)
        getter = machine.find_method(value, "__getitem__")
        if getter is not None:
            length = machine.find_method(value, "__len__")
            size = concrete(machine.call(length, [], {}, node)) if length is not None else None
            count = size if isinstance(size, int) else None
            return Stream(lambda: count, lambda i: _item_until_end(machine, getter, i, node))
        if "inner" in value.facts:
            return stream(machine, value.facts["inner"], node)
        known: Stream | None = machine.torch.object_stream(value, node)
        if known is not None:
            return known
    if isinstance(value, Tensor):
        streamed: Stream = machine.torch.tensor_stream(value, node)
        return streamed
    return containers.stream(machine, value, node)


def _next(machine: Machine, method: Value, node: ast.AST) -> Value:
    try:
        return machine.call(method, [], {}, node)
    except Signal as signal:
        if signal.kind == "StopIteration":
            raise IndexError from None
        raise


def _item_until_end(machine: Machine, getter: Value, index: int, node: ast.AST) -> Value:
    """An item of an object that is iterated by its `__getitem__`: IndexError is its end."""
    try:
        return machine.call(getter, [index], {}, node)
    except Signal as signal:
        if signal.kind == "IndexError":
            raise IndexError from None
        raise


def elements(machine: Machine, value: Value, node: ast.AST) -> Iterator[Value]:
    """The elements of an iterable; three of one whose length nobody knows."""
    stream = machine.stream(value, node)
    start = index = stream.next
    while True:
        length = stream.length()
        if index >= (length if length is not None else start + MIN_ITERATIONS) or index - start >= 256:
            return
        try:
            element = stream.item(index)
        except IndexError:
            return
        index += 1
        stream.next = index
        yield element


def _extrapolated(values: list[Value], done: int, left: int | None) -> Value:
    """What a counter has come to at the end of a loop that was cut short, where each iteration adds the same."""
    steps = {after - before for before, after in zip(values, values[1:])}
    if left is None or done < 2 or len(steps) != 1 or len(values) % done:
        return Unknown("number")
    return values[-1] + steps.pop() * left * (len(values) // done)
