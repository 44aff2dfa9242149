"""Loops, comprehensions and whatever else goes through an iterable: how often, and what is left at the end."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator
from typing import Any

from tapecheck.interpret import limits
from tapecheck.interpret.engine import Engine
from tapecheck.interpret.objects import carry, containers, equality, repeats, syntax
from tapecheck.interpret.python import flow, guards
from tapecheck.interpret.values import (
    OPEN,
    Dict,
    Env,
    Instance,
    List,
    Run,
    Signal,
    Stream,
    Tensor,
    Unknown,
    Value,
    concrete,
)
from tapecheck.interpret.world import Guard, World
from tapecheck.tape import Fact, Span


class _Inner:
    """A loop that may stand in another: numbers that it compares each time it is entered vary for itself alone."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.before = world.varying, world.guarded, world.first_graphs, world.numbers
        self.numbers: list[int] = []
        """What the numbers come to that were compared up to the end of each iteration."""
        world.numbers = 0

    def left(self, machine: Engine, key: tuple[int, tuple[Span, ...]]) -> None:
        world = self.world
        varying, guarded, first_graphs, numbers = self.before
        world.guarded = guarded
        known = machine.compared.get(key)
        # It goes round less often the second time: that is the dry run's doing, not the program's.
        same = known is not None and all(one == other for one, other in zip(known, self.numbers))
        if same and first_graphs == world.first_graphs:
            world.varying = varying
        if not same or known is None or len(known) < len(self.numbers):
            machine.compared[key] = known = self.numbers
        world.numbers = hash((numbers, *known))


def run_for(machine: Engine, node: ast.For, env: Env) -> Run:
    world = machine.world
    stream = machine.stream(machine.eval(node.iter, env), node.iter)
    outside = world.iteration
    counted = len(world.counted)
    feeding = env.sent is not None and world.notes.of(node, syntax.has_yield)
    key = (id(node), world.call_stack)
    enough = _enough_iterations(machine, key)
    varying, guarded = world.varying, world.guarded
    inner = _Inner(world)
    loop = world.enter_loop(node)
    rounds = repeats.Rounds(machine, key, loop)
    signal: Any = None
    done = extra = 0
    repeated = False
    reached: list[int] = []
    element: Value = None
    index = stream.next
    # Loops within loops: what the earlier entries of this one took counts, or the work would grow with each level.
    left, work = world.work, world.work + machine.loop_work.get(key, 0)
    while True:
        length = stream.length()
        if length is not None and index >= length:
            break
        if done >= enough and feeding and done < limits.MAX_FED:
            # Whoever takes what it yields says how often it goes round.
            if length is None and env.sent is not None:
                env.sent[OPEN] = True
        elif extra:
            extra -= 1
        elif done >= enough and (length is None or length > index):
            short = length is not None and (
                length <= limits.SHORT_LOOP or (length <= limits.MODEL_ITERATIONS and carry.of_model(element))
            )
            short = short and not repeated
            # Where it repeats itself, its own guards say how far ahead another iteration is worth running.
            moved = world.varying - varying - (world.guarded - guarded if repeated else 0)
            go_on = length is not None and (moved > 0 or (short and work - world.work < limits.LOOP_WORK))
            most = min(enough + limits.AFTER_REPEATING, limits.MAX_ITERATIONS) if repeated else limits.MAX_ITERATIONS
            exhausted = (done >= most and not short) or work - world.work > limits.LOOP_WORK
            count = 0
            if not go_on or exhausted:
                count, extra = guards.ahead(machine, loop, reached, math.inf if length is None else length - index)
            if count:
                extra -= 1
                guards.take_on(machine, counted, done, count - 1)
                counted = len(world.counted)
                index += 0 if stream.sequential else count - 1
            elif not go_on or (exhausted and stream.sequential):
                break
            elif exhausted:
                if length is None or index >= length - 1:
                    break
                index = length - 1
        varying, guarded = world.varying, world.guarded
        try:
            element = stream.item(index)
        except IndexError:
            break
        rounds.begin()
        started = carry.begin(machine, loop, done + 1)
        machine.assign(node.target, element, env, node)
        signal = yield from machine.block(node.body, env)
        done += 1
        index += 1
        stream.next = index
        world.spend(limits.ITERATION_WORK)
        inner.numbers.append(world.numbers)
        carry.end(machine, loop, done, started)
        if signal is flow.BREAK or isinstance(signal, flow.Returned):
            break
        signal = None
        # The loop around goes by whether this one came to repeat itself.
        going_on = done < enough or bool(outside) or (length is not None and length > index)
        if length is not None and length <= limits.MODEL_ITERATIONS and carry.of_model(element):
            # What one layer shows says nothing of the next one.
            continue
        if going_on and not (repeated or feeding) and _repeats(machine, loop, done, rounds):
            repeated, enough = True, min(enough, done)
    length = stream.length()
    if signal is None or isinstance(node.iter, ast.Call):
        # What only the loop holds is closed where it is broken off, too.
        containers.leave(machine, stream)
    more: Fact = "may" if length is None or stream.sequential else ("yes" if index < length else "no")
    if signal is None and more != "no":
        _forget_counters(machine, node, env, counted, done, None if length is None else length - index)
        _end_of(machine, node, stream, env)
    if not outside:
        del world.counted[:]
    machine.loop_work[key] = machine.loop_work.get(key, 0) + left - world.work
    rounds.end(done)
    inner.left(machine, key)
    world.leave_loop(loop, outside, done, more)
    if isinstance(signal, flow.Returned):
        return signal
    if signal is not flow.BREAK and node.orelse:
        return (yield from machine.block(node.orelse, env))
    return None


def run_while(machine: Engine, node: ast.While, env: Env) -> Run:
    world = machine.world
    outside = world.iteration
    counted = len(world.counted)
    feeding = env.sent is not None and world.notes.of(node, syntax.has_yield)
    key = (id(node), world.call_stack)
    enough = _enough_iterations(machine, key)
    varying, guarded = world.varying, world.guarded
    inner = _Inner(world)
    loop = world.enter_loop(node)
    rounds = repeats.Rounds(machine, key, loop)
    signal: Any = None
    done = extra = 0
    reached: list[int] = []
    own: Guard | None = None
    left, work = world.work, world.work + machine.loop_work.get(key, 0)
    known = repeated = False
    always = isinstance(node.test, ast.Constant) and bool(node.test.value)
    while True:
        if env.sent is not None:
            for part in syntax.yields_in(node.test):
                yield from machine.suspend(part, env)
        answer = _truth(machine, node.test, env)
        if done >= enough and feeding and done < limits.MAX_FED and answer is not False:
            if env.sent is not None and (always or answer is None):
                env.sent[OPEN] = True
        elif answer is False:
            known = True
            break
        else:
            if always:
                most = enough + limits.AFTER_REPEATING if repeated else limits.MAX_ITERATIONS
                over = done >= most or work - world.work > limits.LOOP_WORK
                moved = world.varying - varying - (world.guarded - guarded if repeated else 0)
                enough_seen = done >= enough and (moved <= 0 or over)
            elif answer is None:
                enough_seen = done >= enough
            else:
                own = guards.own_guard(machine, node, own, done)
                enough_seen = done >= limits.MAX_ITERATIONS or (done >= enough and work - world.work > limits.LOOP_WORK)
            if extra:
                extra -= 1
            elif enough_seen:
                left_over = (guards.turns_after(own) if own is not None else 0) or math.inf
                count, extra = guards.ahead(machine, loop, reached, left_over)
                if not count:
                    break
                extra -= 1
                guards.take_on(machine, counted, done, count - 1)
                counted = len(world.counted)
        varying, guarded = world.varying, world.guarded
        rounds.begin()
        started = carry.begin(machine, loop, done + 1)
        signal = yield from machine.block(node.body, env)
        done += 1
        world.spend(limits.ITERATION_WORK)
        inner.numbers.append(world.numbers)
        carry.end(machine, loop, done, started)
        if signal is flow.BREAK or isinstance(signal, flow.Returned):
            break
        signal = None
        going_on = done < enough or bool(outside) or always
        if going_on and not (repeated or feeding) and _repeats(machine, loop, done, rounds):
            repeated, enough = True, min(enough, done)
    if not known and signal is None:
        _forget_counters(machine, node, env, counted, done, None)
    if not outside:
        del world.counted[:]
    machine.loop_work[key] = machine.loop_work.get(key, 0) + left - world.work
    rounds.end(done)
    inner.left(machine, key)
    world.leave_loop(loop, outside, done, "no" if known or signal is not None else "may")
    if isinstance(signal, flow.Returned):
        return signal
    if signal is not flow.BREAK and node.orelse and not always:
        return (yield from machine.block(node.orelse, env))
    return None


def _repeats(machine: Engine, loop: int, done: int, rounds: repeats.Rounds) -> bool:
    """Whether another iteration of a loop would show what is known: it repeats itself, and no guard is in sight."""
    if guards.at_hand(machine, loop):
        rounds.note(done)
        return False
    return rounds.again(done)


def _truth(machine: Engine, test: ast.expr, env: Env) -> bool | None:
    """Return whether a `while` goes on, None where nobody knows: no part of its condition is decided for that."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = _truth(machine, test.operand, env)
        return None if inner is None else not inner
    if not isinstance(test, ast.BoolOp):
        return machine.known_truth(machine.eval(test, env))
    wanted = isinstance(test.op, ast.Or)
    answers: list[bool | None] = []
    for part in test.values:
        answers.append(_truth(machine, part, env))
        if answers[-1] is wanted:
            return wanted
    return None if None in answers else not wanted


def _enough_iterations(machine: Engine, key: tuple[int, tuple[Span, ...]]) -> int:
    """How many iterations of a loop show what it does: fewer each time it is entered from the same place."""
    entered = machine.entered[key] = machine.entered.get(key, 0) + 1
    return max(limits.MIN_ITERATIONS + 1 - entered, 1)


def _end_of(machine: Engine, node: ast.For, stream: Stream, env: Env) -> None:
    """End a loop that was cut short: its variable has the last value that the real loop gives it."""
    target = node.target
    if not isinstance(target, ast.Name) or not isinstance(env.vars.get(target.id), (int, float)):
        return
    length = stream.length()
    last: Value = Unknown.number()
    if length is not None and length > 0 and not stream.sequential:
        last = stream.item(length - 1)
    if isinstance(last, (int, float, Unknown)):
        env.vars[target.id] = last


def note_count(machine: Engine, target: ast.expr, value: Value, env: Env) -> None:
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
    machine: Engine, node: ast.For | ast.While, env: Env, first: int, done: int, left: int | None
) -> None:
    """Note that a loop was left before its end: what it counted up has another value in the real program.

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
    for name in machine.world.notes.of(node, syntax.counted_names):
        value = env.vars.get(name)
        if isinstance(value, (int, float)) and not isinstance(value, bool) and ("name", id(env), name) not in rows:
            env.vars[name] = Unknown.number()


def stream(machine: Engine, value: Value, node: ast.AST) -> Stream:
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
            return Stream(lambda: limits.ENDLESS, lambda i: _next(machine, following, node), sequential=True)
        getter = machine.find_method(value, "__getitem__")
        if getter is not None:
            length = machine.find_method(value, "__len__")
            size = concrete(machine.call(length, [], {}, node)) if length is not None else None
            count = size if isinstance(size, int) else None
            return Stream(lambda: count, lambda i: _item_until_end(machine, getter, i, node))
        if value.inner is not None:
            return stream(machine, value.inner, node)
        known: Stream | None = machine.library.object_stream(value, node)
        if known is not None:
            return known
    if isinstance(value, Tensor):
        streamed: Stream = machine.library.tensor_stream(value, node)
        return streamed
    return containers.stream(machine, value, node)


def _next(machine: Engine, method: Value, node: ast.AST) -> Value:
    try:
        return machine.call(method, [], {}, node)
    except Signal as signal:
        if signal.kind == "StopIteration":
            raise IndexError from None
        raise


def _item_until_end(machine: Engine, getter: Value, index: int, node: ast.AST) -> Value:
    """Return an item of an object that is iterated by its `__getitem__`: IndexError is its end."""
    try:
        return machine.call(getter, [index], {}, node)
    except Signal as signal:
        if signal.kind == "IndexError":
            raise IndexError from None
        raise


def elements(machine: Engine, value: Value, node: ast.AST) -> Iterator[Value]:
    """Yield the elements of an iterable; three of one whose length nobody knows."""
    stream = machine.stream(value, node)
    start = index = stream.next
    while True:
        length = stream.length()
        end = length if length is not None else start + limits.MIN_ITERATIONS
        if index >= min(end, start + limits.MAX_DRAINED):
            break
        try:
            element = stream.item(index)
        except IndexError:
            return
        index += 1
        stream.next = index
        yield element
    containers.leave(machine, stream)


def _extrapolated(values: list[Value], done: int, left: int | None) -> Value:
    """Return what a counter has come to at the end of a loop that was cut short, where each iteration adds the same."""
    steps = {after - before for before, after in zip(values, values[1:])}
    if left is None or done < 2 or len(steps) != 1 or len(values) % done:
        result = Unknown.number()
        if steps and min(steps) > 0:
            # The real loop may run less often than this one has; the counter does not come back to where it was.
            result.bounds = (values[0], math.inf)
        return result
    return values[-1] + steps.pop() * left * (len(values) // done)
