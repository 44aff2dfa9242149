"""Loops, comprehensions and whatever else goes through an iterable: how often, and what is left at the end."""

from __future__ import annotations

import ast
import contextlib
import math
from collections.abc import Iterable, Iterator

from tapecheck.interpret import limits
from tapecheck.interpret.engine import Engine
from tapecheck.interpret.objects import carry, repeats, syntax, unknowns
from tapecheck.interpret.python import conditions, guards
from tapecheck.interpret.state import Count, Flag, Guard, LoopKey, World
from tapecheck.interpret.values import (
    OPEN,
    PICKED,
    BaseValue,
    Dict,
    Env,
    Instance,
    Kind,
    Range,
    Run,
    Stream,
    Tensor,
    Unknown,
    Value,
    WayOut,
    behaviour,
    first_part,
    hashable,
    is_number,
    known_elements,
)
from tapecheck.source.nodes import id_of, negated, of_kind
from tapecheck.tape import Fact, LoopEnd


def _flags_of(node: ast.For | ast.AsyncFor | ast.While) -> list[tuple[ast.expr, bool]]:
    return syntax.goes_on_by(node) if type(node) is ast.While else []


class _Inner:
    """A loop that may stand in another: numbers that it compares each time it is entered vary for itself alone."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.before = (
            world.comparisons.varying,
            world.comparisons.guarded,
            world.comparisons.first_graphs,
            world.comparisons.numbers,
        )
        self.numbers: list[int] = []
        """What the numbers come to that were compared up to the end of each iteration."""
        world.comparisons.numbers = 0

    def left(self, machine: Engine, key: LoopKey) -> None:
        world = self.world
        varying, guarded, first_graphs, numbers = self.before
        world.comparisons.guarded = guarded
        known = world.history.compared.get(key)
        # It goes round less often the second time: that is the dry run's doing, not the program's.
        same = known is not None and all(one == other for one, other in zip(known, self.numbers))
        if same and first_graphs == world.comparisons.first_graphs:
            world.comparisons.varying = varying
        if not same or known is None or len(known) < len(self.numbers):
            world.history.compared[key] = known = self.numbers
        world.comparisons.numbers = hash((numbers, *known))


class _Before:
    """What was compared, gave a place its first graph, and was yielded before an iteration."""

    __slots__ = ("first_graphs", "guarded", "varying", "yielded")

    def __init__(self, world: World, env: Env) -> None:
        compared = world.comparisons
        self.varying, self.guarded, self.first_graphs = compared.varying, compared.guarded, compared.first_graphs
        self.yielded = env.yielded


class _Freezing:
    """The leaves that a loop freezes."""

    __slots__ = ("_begun", "_first", "_graph", "_oldest")

    def __init__(self, world: World) -> None:
        self._graph, self._oldest = world.graph, world.writer.last_storage
        self._begun = self._first = len(world.graph.frozen)

    def ends_first(self) -> None:
        """Note that the first iteration ends."""
        self._first = len(self._graph.frozen)

    def perhaps(self) -> tuple[int, ...]:
        """Note that what the loop has frozen need not be; return these leaves."""
        return self._graph.perhaps_frozen(self._begun)

    def goes_on(self) -> bool:
        """Whether later iterations have frozen other leaves than the first one, of those that there were before the
        loop: each iteration may freeze one.
        """
        frozen, first = self._graph.frozen, self._first
        later = {id(one) for one in frozen[first:] if one.storage.id <= self._oldest}
        return not later <= {id(one) for one in frozen[self._begun : first]}

    def note_others(self, machine: Engine, over: ast.AST) -> None:
        """Note that the loop is left before its end: other leaves may be frozen, too."""
        perhaps_frozen_on(machine, self._begun, over)


class _Source:
    """What is known of what a loop goes over."""

    __slots__ = ("far", "led", "parts", "picked", "unfinished")

    def __init__(self) -> None:
        self.parts = False
        """Whether it is parameters or modules."""
        self.led: Fact = "no"
        """What graph the last element led to when it came, as `leads` has it."""
        self.picked = False
        """Whether a condition that nobody knows picked the elements."""
        self.far = False
        """Whether the loop was taken on to a guard, though nobody knows how many elements there are."""
        self.unfinished = False
        """Whether the loop is left before the end."""


class _Loop:
    """A loop that is being run: how far it has come, and whether another iteration is worth running."""

    def __init__(self, machine: Engine, node: ast.For | ast.AsyncFor | ast.While, env: Env) -> None:
        self.machine, self.node, self.env = machine, node, env
        self.world = world = machine.world
        self.outside = world.position.iteration
        self.counted = len(world.comparisons.counted)
        """Where in `Comparisons.counted` the loop's own entries begin."""
        self.feeding = env.sent is not None and world.position.notes.of(node, syntax.has_yield)
        """Whether it yields to whoever says how often it goes round."""
        self.key = (id(node), world.position.call_stack)
        self.enough = max(limits.MIN_ITERATIONS + 1 - machine.world.history.enter(self.key), 1)
        self.last = _Before(world, env)
        """What there was before the last iteration."""
        self.inner = _Inner(world)
        self.freezing = _Freezing(world)
        self.over = _Source()
        self.number = world.enter_loop(node, env)
        self.rounds = repeats.Rounds(machine, self.key, self.number)
        self.done = 0
        self.extra = 0
        """Iterations that are still to be run behind a guard that it was taken on to."""
        self.repeated = False
        self.usual: int | None = None
        """How many iterations it has where options keep their defaults, if fewer than are run."""
        self.own: Guard | None = None
        """What the condition of a `while` compares."""
        self.hangs_on: Value = None
        """What nobody knows of the condition of a `while`."""
        self.ending = False
        """Whether it is run once more with the answer that ends it."""
        self.flagged = False
        """Whether what it goes by was asked in it."""
        self.hidden = False
        """Whether code that is not visible says whether a `while` goes on, and nothing that it counts."""
        self.reached: list[int] = []
        """The guards that it was taken on to."""
        self.started = (0, 0)
        self.stops = False
        """Whether it is left before its end since another iteration may take more work than there is."""
        self.left = world.budget.work
        """The work that was left for the way before the last iteration."""
        # Loops within loops: what the earlier entries of this one took counts, or the work would grow with each level.
        self.before, self.most_work = world.budget.work, world.budget.work + world.history.work_of(self.key)

    @contextlib.contextmanager
    def going_on(self) -> Iterator[None]:
        """Let conditions in an iteration take it that a `while` goes on, those in its last one that it ends."""
        choices, known = self.world.choices, self.world.position.notes.of(self.node, _flags_of)
        around = choices.going_on
        flags = [
            Flag(
                self.number,
                syntax.text_of(part),
                answer is not self.ending,
                self.machine.eval(part, self.env),
                self.ending,
            )
            for part, answer in known
        ]
        choices.going_on = around | {(id(self.env), flag.name): flag for flag in flags}
        try:
            yield
        finally:
            choices.going_on = around

    def is_flagged(self, test: ast.expr) -> bool:
        """Whether what is known of a flag is only that it was taken to let the loop go on, when it was last asked."""
        if (known := syntax.flag_of(test)) is None:
            return False
        asked = self.world.choices.flagged.get((self.number, syntax.text_of(known[0])))
        flagged = type(asked) is Unknown and asked is self.machine.eval(known[0], self.env)
        self.flagged = self.flagged or flagged
        return flagged

    @property
    def head(self) -> ast.expr:
        """What it goes over, or the condition that it goes by."""
        return self.node.test if isinstance(self.node, ast.While) else self.node.iter

    @property
    def work(self) -> int:
        """The work that it took, the earlier entries from the same place included."""
        return self.most_work - self.world.budget.work

    @property
    def most(self) -> int:
        """How many iterations are run of it, where nothing but comparisons says that it goes on."""
        after = self.enough + limits.AFTER_REPEATING if self.repeated else limits.MAX_ITERATIONS
        return min(after, limits.MAX_ITERATIONS)

    def taken_on(self) -> bool:
        """Whether it is on its way behind a guard that it was taken on to; counts the iteration."""
        if not self.extra:
            return False
        self.extra -= 1
        return True

    def fed(self, *, unbounded: bool) -> bool:
        """Whether who takes what it yields says how often it goes round; `unbounded` where nothing else does."""
        if not self.feeding or self.done < self.enough or self.done >= limits.MAX_FED:
            return False
        if self.last.yielded == self.env.yielded and self.work > limits.LOOP_WORK:
            # It yields nothing, with the answers of this way: nobody ends it.
            return False
        if unbounded and self.env.sent is not None:
            self.env.sent[OPEN] = True
        return True

    def compared_more(self) -> bool:
        """Whether conditions compared numbers in the last iteration that are others in each.

        Where it repeats itself, its own guards say how far ahead another iteration is worth running.
        """
        own = self.world.comparisons.guarded - self.last.guarded if self.repeated else 0
        return self.world.comparisons.varying - self.last.varying - own > 0

    def fills(self) -> bool:
        """Whether the last iteration gave a place its first graph: the places may come round again."""
        return self.world.comparisons.first_graphs > self.last.first_graphs

    def ahead(self, left: float) -> int:
        """Take it on to the next guard that comes out otherwise, of `left` iterations; return how far, 0 for none."""
        count, self.extra = guards.ahead(self.machine, self.number, self.reached, left)
        if count:
            self.extra -= 1
            guards.take_on(self.machine, self.counted, self.done, count - 1)
            self.counted = len(self.world.comparisons.counted)
        return count

    def has_ahead(self) -> bool:
        """Whether there is a guard, or a place that may come round again, which it has not come to."""
        return self.fills() or guards.ahead(self.machine, self.number, [*self.reached], math.inf)[0] > 0

    def look(self) -> None:
        """Note what was compared before an iteration."""
        self.last = _Before(self.world, self.env)
        self.world.loops.entries = []

    def entered_by(self, element: Value) -> list[BaseValue]:
        """Return the containers that the last iteration came to under its element, or the first part of that."""
        key = hashable(first_part(element))
        return [owner for owner, entry in self.world.loops.entries if entry == key]

    def older(self, values: Iterable[Value]) -> bool:
        """Whether there is a graph in values that was built before the loop."""
        first = self.world.loops.before(self.number)
        graphs = (held.node for value in values for held in carry.tensors_in(value))
        return any(node is not None and node <= first for node in graphs)

    def leads(self, element: Value) -> Fact:
        """Return whether an element leads to a graph from before the loop ("yes"), or to a newer one alone ("may")."""
        first = self.world.loops.before(self.number)
        nodes = [held.node for held in carry.tensors_in(element) if held.node is not None]
        return "yes" if any(node <= first for node in nodes) else "may" if nodes else "no"

    def beyond(self, by_default: str | int, place: ast.expr) -> None:
        """Note, once, that it goes on longer than it does where options keep their defaults."""
        if self.usual is None:
            self.usual = self.done
            text = f"`{syntax.text_of(place)}` is not what its default makes it, {by_default}"
            self.world.assumptions.enter(self, "count", text, place)

    def goes_on_to(self, index: int, value: Value, place: ast.expr) -> None:
        """Note what is assumed where a loop over a value comes to a place in it."""
        if not isinstance(value, Range):
            return
        if value.usual is not None and index >= value.usual:
            self.beyond(f"range({value.usual})", place)
        if value.hidden and index == limits.SURE_ITERATIONS:
            text = f"`{syntax.text_of(place)}` has more than {limits.SURE_ITERATIONS}"
            self.world.assumptions.enter(self, "length", text, place)

    def is_longer(self, index: int, place: ast.expr) -> None:
        """Note, once, that it is taken on to a guard behind so many elements: nobody knows how many there are."""
        if not self.over.far:
            self.over.far = True
            held = isinstance(self.node, ast.While)
            text = f"`{syntax.text_of(place)}` {f'holds {index} times' if held else f'has more than {index} elements'}"
            self.world.assumptions.enter(self, "length", text, place)

    def goes_round_again(self, test: ast.expr) -> None:
        """Note, before its second iteration, that a `while` has one where code that is not visible says so."""
        if self.hidden and self.done == 1:
            text = f"`{syntax.text_of(test)}` holds 2 times"
            self.world.assumptions.enter(self.rounds, "length", text, test)

    def finds(self, stream: Stream, place: ast.expr) -> None:
        """Note, once, that there are elements where a condition that nobody knows picked them."""
        if not self.over.picked and stream.rest() & PICKED:
            self.over.picked = True
            stream.settle()
            text = f"`{syntax.text_of(place)}` has {self.done + 1} or more elements"
            self.world.assumptions.enter(self, "length", text, place)

    def begin(self) -> None:
        self.left = self.world.budget.work
        self.rounds.begin()
        self.started = carry.begin(self.machine, self.number, self.done + 1)

    def end(self) -> None:
        """End an iteration."""
        self.done += 1
        if self.done == 1:
            self.freezing.ends_first()
        self.world.budget.spend(limits.ITERATION_WORK)
        self.inner.numbers.append(self.world.comparisons.numbers)
        carry.end(self.machine, self.number, self.done, self.started)
        self._stop_if_heavy()

    def _stop_if_heavy(self) -> None:
        """Stop behind an iteration where another may take more than what is left: of the program behind the loop
        nothing would be seen. Further ways go as far as they come: they are held against the first one.
        """
        world, policy = self.world, self.world.choices.policy
        taken, left = self.left - world.budget.work, world.budget.work
        if taken <= left * limits.TIMES_LEFT or policy.patterns or policy.length or policy.by_default:
            return
        self.stops = True
        where = world.position.notes.of(self.head, syntax.text_of)
        text = f"the other iterations of the loop over `{where}` do nothing else"
        world.assumptions.note("rounds", text, self.head)

    def compare(self, *, goes_on: bool) -> None:
        """Note whether the iteration that ended repeats the one before; `goes_on` where the loop surely does."""
        # The loop around goes by whether this one came to repeat itself.
        wanted = self.done < self.enough or bool(self.outside) or goes_on
        if not wanted or self.repeated or self.feeding:
            return
        if guards.at_hand(self.machine, self.number):
            # A guard is in sight: the next iteration may be another one.
            self.rounds.note(self.done)
        elif self.rounds.again(self.done) and not self.rounds.takes():
            self.repeated, self.enough = True, min(self.enough, self.done)

    def perhaps_freezes(self) -> None:
        """Note that what it has frozen need not be: nobody knows how often it goes round."""
        leaves = self.freezing.perhaps()
        if leaves:
            head = self.head
            text = f"the loop over `{self.world.position.notes.of(head, syntax.text_of)}` does not freeze it"
            self.world.assumptions.note("option", text, head, leaves)

    def leave(self, more: Fact, *, settled: bool = False, ahead: bool = False, length: int | None = None) -> None:
        """Leave it; `more` says whether the program's own loop goes on, `settled` that nobody knows its length, `ahead`
        that there is something which it has not come to, `length` how many iterations it has.
        """
        machine, world = self.machine, self.world
        for block in (self.rounds, self):
            world.assumptions.leave(block)
        if settled:
            self.perhaps_freezes()
        if not self.outside:
            world.comparisons.counted.forget()
        world.history.leave(self.key, self.before - world.budget.work)
        self.rounds.end(self.done)
        self.inner.left(machine, self.key)
        periodic = guards.comes_round(machine, self.number)
        end = LoopEnd(
            self.number,
            self.done,
            more,
            self.usual,
            settled,
            ahead or self.stops,
            parts=self.over.parts,
            periodic=periodic,
            length=length,
        )
        world.loops.leave(end, self.outside)
        if more != "no":
            world.graph.left_early()


def run_for(machine: Engine, node: ast.For | ast.AsyncFor, env: Env) -> Run:
    value = guards.reaching(machine, node, machine.eval(node.iter, env), env)
    stream = machine.stream(value, node.iter)
    loop = _Loop(machine, node, env)
    if passes_over(machine, stream, node, node, env, node.iter):
        loop.leave("no")
        signal: WayOut | None = None
    else:
        signal = yield from _go_over(loop, node, value, stream)
        _leave_for(loop, node, stream, signal)
    if signal is None:
        return (yield from machine.block(node.orelse, env))
    return signal.beyond_loop()


def _go_over(loop: _Loop, node: ast.For | ast.AsyncFor, value: Value, stream: Stream) -> Run:
    """Run the iterations of a loop that goes over a value, whose elements come from a stream; return what breaks it."""
    machine, env = loop.machine, loop.env
    element: Value = None
    index = stream.next
    leaving: dict[ast.AST, bool] = {}
    while not leaving:
        following = _next(loop, stream, index, element)
        if following is None and not (leaving := _ways_out(loop, node, endless=stream.never_ends) or {}):
            loop.over.unfinished = (length := stream.length()) is not None and index < length
            break
        if following is not None and following > index and stream.length() is None:
            loop.is_longer(following, node.iter)
        index = index if following is None else following
        loop.goes_on_to(index, value, node.iter)
        loop.look()
        # What a generator does for an element belongs to the iteration that gets it.
        loop.begin()
        try:
            element = stream.item(index)
        except IndexError:
            machine.world.loops.forget()
            break
        loop.finds(stream, node.iter)
        loop.over.parts = loop.over.parts or carry.of_model(element)
        loop.over.led = loop.leads(element)
        machine.assign(node.target, element, env, node)
        signal = yield from _body(machine, node, leaving, env)
        index += 1
        stream.next = index
        loop.end()
        if signal is not None and signal.ends_loop:
            return signal
        length = stream.length()
        if not _of_layers(loop, stream, length, element):
            loop.compare(goes_on=length is not None and length > index)
    return None


def _leave_for(loop: _Loop, node: ast.For | ast.AsyncFor, stream: Stream, signal: WayOut | None) -> None:
    """Leave a loop over a stream; `signal` is what has broken it off."""
    length = stream.length()
    if signal is None or isinstance(node.iter, ast.Call):
        # What only the loop holds is closed where it is broken off, too.
        stream.abandon(loop.machine)
    more = _has_more(stream, length, signal)
    if signal is None:
        _forget_at_end(loop, node, stream, length, more)
    if (loop.over.unfinished and loop.over.parts) or (more != "no" and loop.freezing.goes_on()):
        loop.freezing.note_others(loop.machine, node.iter)
    settled = stream.length_settled
    ahead = settled and signal is None and loop.has_ahead()
    known = signal is None and not (settled or stream.never_ends) and _is_known(loop, node, stream, length)
    loop.leave(more, settled=settled, ahead=ahead, length=length if known else None)


def _has_more(stream: Stream, length: int | None, signal: WayOut | None) -> Fact:
    """Return whether a stream has elements that a loop over it was not run for."""
    if signal is not None and stream.never_ends:
        return "no"
    if length is None or stream.sequential:
        return "may"
    return "yes" if stream.next < length else "no"


def _forget_at_end(loop: _Loop, node: ast.For | ast.AsyncFor, stream: Stream, length: int | None, more: Fact) -> None:
    """Note what nobody knows behind a loop that ran to its end, where the real one goes over more elements."""
    if more != "no":
        # A generator is as long as it turns out to be.
        known = length is not None and not (stream.sequential and length > limits.COUNTABLE)
        _forget_counters(loop, length - stream.next if length is not None and known else None, stream.count)
        _end_of(node, stream, loop.env)
    elif stream.cut != 0:
        _forget_counters(loop, stream.cut, stream.count)
        if isinstance(node.target, ast.Tuple):
            _end_of(node, stream, loop.env)


def _is_known(loop: _Loop, node: ast.For | ast.AsyncFor, stream: Stream, length: int | None) -> bool:
    """Whether the length of what a loop goes over is the program's own: a number that the dry run settled on may have
    got there by `len`, and stands for itself where it is written down.
    """
    if stream.count is not None or length is None:
        return False
    if length not in {one.number() for one in loop.world.choices.lengths}:
        return True
    return all(name.id in loop.machine.library.builtins for name in of_kind(node.iter, ast.Name))


def _next(loop: _Loop, stream: Stream, index: int, element: Value) -> int | None:
    """Return the place of the element that the next iteration is run for, None where the loop is over."""
    if loop.stops:
        return None
    length = stream.length()
    if length is not None and index >= length:
        return _next_settled(loop, stream, index)
    following = _following(loop, stream, index, length, element)
    if following is not None or loop.work > limits.LOOP_WORK or loop.done >= limits.MODEL_ITERATIONS:
        return following
    if loop.over.led != loop.leads(element) and (length is not None or stream.sequential):
        # What it does to the graph that an element leads to, as to freeze a leaf, it does to each of them.
        return index
    if not stream.held or length is None:
        return None
    kept = _next_kept(loop, stream, index, length, element)
    return _next_sized(loop, stream, index, length, element) if kept is None else kept


def _next_settled(loop: _Loop, stream: Stream, index: int) -> int | None:
    """Return the place of the element that a loop is taken on to from the end that was settled on for it, if there is a
    guard ahead: the end is another one then. None where nobody has settled on it, or something reckons with it.
    """
    if (
        stream.lengthen is None
        or loop.world.choices.policy.length
        or isinstance(loop.node, ast.While)
        or guards.reckons(loop.machine, loop.node, loop.number)
    ):
        return None
    count = 1 if loop.fills() and loop.done < limits.MAX_ITERATIONS else loop.ahead(math.inf)
    if not count:
        return None
    stream.lengthen(count + loop.extra)
    return _after(stream, index, count)


def _following(loop: _Loop, stream: Stream, index: int, length: int | None, element: Value) -> int | None:
    """Return the place of the next element that is worth an iteration: `index`, or one further on where a guard comes
    out otherwise; None where there is none. `element` is that of the last iteration.
    """
    if loop.fed(unbounded=length is None) or loop.taken_on() or loop.done < loop.enough:
        return index
    short = _is_short(loop, stream, length, element)
    goes_on = loop.fills() if length is None else loop.compared_more()
    goes_on = goes_on or (short and loop.work < limits.LOOP_WORK)
    if goes_on and (short or loop.done < loop.most) and loop.work <= limits.LOOP_WORK:
        return index
    count = loop.ahead(math.inf if length is None else length - index)
    if count:
        return _after(stream, index, count)
    return _last(loop, stream, index, length) if goes_on else None


def _after(stream: Stream, index: int, count: int) -> int:
    """Return the place of the last of the next `count` elements; of a sequential stream that of the next one."""
    return index if stream.sequential else index + count - 1


def _last(loop: _Loop, stream: Stream, index: int, length: int | None) -> int | None:
    """Return the place of the element that a loop is run for last; None where that cannot be told."""
    if stream.sequential or length is None:
        return None
    # The last element tells what it all comes to, and so does what is done every so many elements up to there.
    cycle = guards.cycle(loop.machine, loop.number)
    return index + (length - 1 - index) // cycle * cycle


def _is_short(loop: _Loop, stream: Stream, length: int | None, element: Value) -> bool:
    """Whether a loop is run to its end if that does not take too much work: one of a known length, few or of layers."""
    if length is not None and length <= limits.MOST_INSTRUCTIONS and _follows_texts(loop, element):
        return True
    if loop.repeated:
        return False
    if length is None:
        length = stream.reach()
        if stream.next >= length:
            return False
    return (
        length <= limits.SHORT_LOOP
        or _of_layers(loop, stream, length, element)
        or (length <= limits.MODEL_ITERATIONS and loop.rounds.takes())
    )


def _follows_texts(loop: _Loop, element: Value) -> bool:
    """Whether a loop goes over texts of the program that its conditions ask for: layers by their names, likewise."""
    return _has_text(element, limits.HELD_DEPTH) and loop.world.position.notes.of(loop.node, syntax.follows_texts)


def _has_text(element: Value, depth: int) -> bool:
    parts = known_elements(element)
    if parts is not None:
        return depth > 0 and any(_has_text(one, depth - 1) for one in parts)
    return isinstance(element, str)


def _next_kept(loop: _Loop, stream: Stream, index: int, length: int, element: Value) -> int | None:
    """Return the place of the next element that leads to a graph from before the loop.

    It is that graph, or what an entry holds that is looked up by the elements: a graph which the loop was not run for
    would be one that the program has got rid of, or has gone on with.
    """
    holders = loop.entered_by(element)
    if not (holders or loop.older([element])):
        return None
    for place in range(index, min(length, limits.MODEL_ITERATIONS)):
        item = stream.item(place)
        key = hashable(first_part(item))
        if loop.older([owner.held_under(key) for owner in holders]) or loop.older([item]):
            return place
    return None


def _next_sized(loop: _Loop, stream: Stream, index: int, length: int, element: Value) -> int | None:
    """Return the place of the next element of another size, where something is compiled for those of a loop."""
    if loop.world.modes.compiling.laid is None:
        return None
    size = _size_of(element)
    places = range(index, min(length, limits.MODEL_ITERATIONS))
    return next((place for place in places if _size_of(stream.item(place)) not in (None, size)), None) if size else None


def _size_of(element: Value) -> int | None:
    first = first_part(element)
    return first.length if isinstance(first, Tensor) and type(first.length) is int else None


def _of_layers(loop: _Loop, stream: Stream, length: int | None, element: Value) -> bool:
    """Whether a loop goes over parts of a model: what one layer shows says nothing of the next one.

    A generator of such parts (`yield from self.body.parameters()`) comes to its end by itself, or is left at the limit.
    Of a model with parts that are not visible those are gone over that are.
    """
    if length is None:
        length = stream.reach()
        if stream.next >= length:
            return False
    few = (loop.done if stream.sequential else length) <= limits.MODEL_ITERATIONS
    return few and loop.over.parts


def run_while(machine: Engine, node: ast.While, env: Env) -> Run:
    loop = _Loop(machine, node, env)
    signal: WayOut | None = None
    always = isinstance(node.test, ast.Constant) and bool(node.test.value)
    while True:
        yield from _yielded_by(machine, node.test, env)
        answer, by_default = _asked(loop, node)
        more = answer is not False
        if not more:
            break
        leaving = _further(loop, node, answer, always=always)
        if leaving is None:
            break
        if answer is None and by_default is False:
            loop.beyond("false", node.test)
        loop.goes_round_again(node.test)
        loop.look()
        loop.begin()
        with loop.going_on():
            signal = yield from _body(machine, node, leaving, env)
        loop.end()
        if leaving or loop.ending or (signal is not None and signal.ends_loop):
            break
        loop.compare(goes_on=always)
    if signal is not None and signal.ends_loop:
        loop.leave("no")
        return signal.beyond_loop()
    more = more if not loop.ending else _asked(loop, node)[0] is not False
    _leave_while(loop, node, more=more, always=always)
    return (yield from machine.block([] if always else node.orelse, env))


def _further(loop: _Loop, node: ast.While, answer: bool | None, *, always: bool) -> dict[ast.AST, bool] | None:
    """Return the conditions that are to lead out of a loop in the iteration that is to be run; None where none is."""
    if _is_worth_another(loop, node, answer, always=always):
        return {}
    leaving = _ways_out(loop, node, endless=always)
    loop.ending = leaving is None and loop.flagged
    return {} if loop.ending else leaving


def _leave_while(loop: _Loop, node: ast.While, *, more: bool, always: bool) -> None:
    """Leave a loop that nothing has broken off: with `more` its condition may hold further."""
    if more:
        _forget_counters(loop, None, loop.hangs_on)
    if more and not always:
        loop.perhaps_freezes()
    elif more and loop.freezing.goes_on():
        loop.freezing.note_others(loop.machine, node.test)
    known = not more and loop.hangs_on is None
    loop.leave("may" if more else "no", length=loop.done if known else None)


def _yielded_by(machine: Engine, test: ast.expr, env: Env) -> Run:
    """Suspend the function at each `yield` that stands in a condition."""
    for part in syntax.yields_in(test) if env.sent is not None else ():
        yield from machine.suspend(part, env)
    return None


def _asked(loop: _Loop, node: ast.While) -> _Truth:
    """Return what the condition of a `while` comes to; false where the loop is passed by."""
    answer, by_default = _truth(loop, node.test, loop.env)
    if not loop.done and answer is not None:
        guards.note_cutting(loop.machine, node, answer, loop.env)
    elif not loop.done and _passes_by(loop.world, node, node, env=loop.env, asked=node.test):
        answer = False
    if not loop.done:
        loop.world.choices.met(node, answer is not False)
    return answer, by_default


def _passes_by(world: World, node: ast.AST, place: ast.AST, env: Env, asked: ast.AST) -> bool:
    """Whether the path passes by a loop, or what else takes in elements, of which nobody knows whether there are any:
    that goes by `asked`, and is known by `place`.
    """
    if world.watcher is not None:
        world.watcher.enters(world, node, place, env)
    return world.choices.pass_by(node, place, world.position.notes.of(asked, syntax.text_of))


def passes_over(machine: Engine, stream: Stream, node: ast.AST, place: ast.AST, env: Env, asked: ast.AST) -> bool:
    """Whether the path passes by what goes over a stream, as if that had no elements, where nobody knows whether it has
    any.
    """
    return stream.may_be_empty() and _passes_by(machine.world, node, place, env, asked)


def takes_nothing(machine: Engine, node: ast.AST) -> bool:
    """Whether the path takes it that there is nothing in an iterable, of which nobody knows that, all elements of which
    a call, a display or a statement takes in.
    """
    end = machine.world.position.notes.of(node, syntax.end_of)
    return _passes_by(machine.world, node, end, machine.envs[-1], node)


def _body(machine: Engine, node: ast.For | ast.AsyncFor | ast.While, leaving: dict[ast.AST, bool], env: Env) -> Run:
    """Run the body of a loop; `leaving` are the conditions that are to lead out of it."""
    around, machine.world.choices.leaving = machine.world.choices.leaving, leaving
    try:
        return (yield from machine.block(node.body, env))
    finally:
        machine.world.choices.leaving = around


def _ways_out(loop: _Loop, node: ast.For | ast.AsyncFor | ast.While, *, endless: bool) -> dict[ast.AST, bool] | None:
    """Return the conditions that lead out of an endless loop, with that answer, for its last iteration; None where it
    may just as well end after one that does not.

    What is done on the way out, `if done: learn(); break`, is done in each program that comes to an end.
    """
    if not endless:
        return None
    ways = loop.world.position.notes.of(node, syntax.ways_out)
    if ways is None:
        return None
    undecided = loop.world.choices.guesses
    found = {part: answer for part, answer in ways.items() if part in undecided}
    return found or None


def _is_worth_another(loop: _Loop, node: ast.While, answer: bool | None, *, always: bool) -> bool:
    """Whether a `while` whose condition has that answer, if any is known, is run once more."""
    if loop.stops:
        return False
    if loop.fed(unbounded=always or answer is None):
        return True
    if not always and answer is not None:
        loop.own = guards.own_guard(loop.machine, node, loop.own, loop.done)
    if loop.taken_on() or not _enough_seen(loop, answer, always=always):
        return True
    left = guards.turns_after(loop.own) if loop.own is not None else 0
    count = loop.ahead(left or math.inf)
    if count and answer is None:
        loop.is_longer(loop.done + count, node.test)
    return count > 0


def _enough_seen(loop: _Loop, answer: bool | None, *, always: bool) -> bool:
    """Whether a `while` has shown what it does; `answer` is that of its condition, which `always` holds or not."""
    if always:
        most = loop.enough + limits.AFTER_REPEATING if loop.repeated else limits.MAX_ITERATIONS
        over = loop.done >= most or loop.work > limits.LOOP_WORK
        return loop.done >= loop.enough and (over or not loop.compared_more())
    if answer is None:
        return loop.done >= loop.enough and not (loop.fills() and loop.done < limits.MAX_ITERATIONS)
    return loop.done >= limits.MAX_ITERATIONS or (loop.done >= loop.enough and loop.work > limits.LOOP_WORK)


_Truth = tuple[bool | None, bool | None]


def _truth(loop: _Loop, test: ast.expr, env: Env) -> _Truth:
    """Return whether a `while` goes on, None where nobody knows: no part of its condition is decided for that; and
    whether it does where options keep their defaults.
    """
    if (opposite := negated(test)) is not None:
        answer, by_default = _truth(loop, opposite, env)
        return None if answer is None else not answer, None if by_default is None else not by_default
    machine = loop.machine
    if not isinstance(test, ast.BoolOp):
        value = machine.eval(test, env)
        answer = machine.known_truth(value)
        if loop.is_flagged(test) or answer is None:
            answer, loop.hangs_on = None, value
            counted = conditions.asks_a_count(machine, test, env)
            loop.hidden = loop.hidden or (loop.done == 1 and not counted and unknowns.hidden(machine, value))
        else:
            machine.world.choices.came_out.add((test, answer))
        return answer, behaviour(value).by_default() if answer is None else answer
    wanted = isinstance(test.op, ast.Or)
    answers: list[_Truth] = []
    for part in test.values:
        answers.append(_truth(loop, part, env))
        if answers[-1][0] is wanted:
            return wanted, wanted
    first, second = (_joined(list(column), wanted) for column in zip(*answers))
    return first, second


def _joined(answers: list[bool | None], wanted: bool) -> bool | None:
    """Return what the parts of a condition come to together, of which `wanted` is enough."""
    return wanted if wanted in answers else None if None in answers else not wanted


def _end_of(node: ast.For | ast.AsyncFor, stream: Stream, env: Env) -> None:
    """End a loop that was cut short: its variable has the last value that the real loop gives it."""
    if isinstance(node.target, ast.Tuple):
        # What is counted beside the elements has come further.
        for part in of_kind(node.target, ast.Name):
            if is_number(env.vars.get(part.id)):
                env.vars[part.id] = Unknown.hanging_on("number", Kind.NUMBER, stream.count)
        return
    name = id_of(node.target)
    if not isinstance(env.vars.get(name), (int, float)):
        return
    length = stream.length()
    last: Value = Unknown.hanging_on("number", Kind.NUMBER, stream.count)
    if length is not None and length > 0 and not stream.sequential:
        last = stream.item(length - 1)
    if isinstance(last, (int, float, Unknown)):
        env.vars[name] = last


def note_count(machine: Engine, target: ast.expr, value: Value, env: Env) -> None:
    """Note a number that a statement of a loop counts up: `machine.step += 1`."""
    if not machine.world.position.iteration or not isinstance(value, (int, float)):
        return
    counted = machine.world.comparisons.counted
    match target:
        case ast.Attribute(value=owner, attr=name):
            instance = machine.eval(owner, env)
            if isinstance(instance, Instance):
                counted.note(Count(instance, lambda: instance.attrs, name, value))
        case ast.Subscript(value=owner, slice=place):
            mapping = machine.eval(owner, env)
            if isinstance(mapping, Dict):
                counted.note(Count(mapping, lambda: mapping.items, hashable(machine.eval(place, env)), value))
        case ast.Name(id=name):
            home = machine.home_of(name, env)
            counted.note(Count(home, lambda: home.vars, name, value))


def _forget_counters(loop: _Loop, left: int | None, count: Value) -> None:
    """Note that a loop was left before its end: what it counted up has another value in the real program.

    `left` is how many more iterations the real program makes where that is known, `count` what says how many.
    """
    machine, env, done = loop.machine, loop.env, loop.done
    rows, grown = guards.counted_since(machine, loop.counted)
    for owner, grown_by in grown.values():
        alike = done >= 2 and not grown_by % done
        owner.left_out(left * (grown_by // done) if left is not None and alike else None, count)
    for counts in rows.values():
        if counts[0].current() is not None:
            counts[0].become(_extrapolated([one.value for one in counts], done, left, count))
    for name in machine.world.position.notes.of(loop.node, syntax.counted_names):
        if is_number(env.vars.get(name)) and (id(env), name) not in rows:
            env.vars[name] = Unknown.hanging_on("number", Kind.NUMBER, count)


def perhaps_frozen_on(machine: Engine, first: int, over: ast.AST) -> None:
    """Note that a loop which has frozen the leaves from `first` on is left before its end: others may be, too."""
    leaves = machine.world.graph.unfrozen(first)
    if leaves:
        written = machine.world.position.notes.of(over, syntax.text_of)
        head = "this loop" if isinstance(over, ast.Constant) else f"the loop over `{written}`"
        text = f"{head} freezes nothing more"
        machine.world.assumptions.note("limit", text, over, leaves)


def elements(machine: Engine, value: Value, node: ast.AST, *, perhaps_none: bool = False) -> Iterator[Value]:
    """Yield the elements of an iterable; of one whose length nobody knows those that are known, or three, or with
    `perhaps_none` none where the path takes it so.
    """
    stream = machine.stream(value, node)
    if perhaps_none and stream.perhaps_none() and takes_nothing(machine, node):
        return
    start = index = stream.next
    while True:
        length = stream.length()
        end = length if length is not None else max(start + limits.MIN_ITERATIONS, stream.reach())
        if index >= min(end, start + limits.MAX_DRAINED):
            break
        try:
            element = stream.item(index)
        except IndexError:
            return
        index += 1
        stream.next = index
        yield element
    stream.abandon(machine)


def _extrapolated(values: list[float], done: int, left: int | None, count: Value) -> Value:
    """Return what a counter has come to at the end of a loop that was cut short, where each iteration adds the same;
    `count` says how often it goes round.
    """
    steps = {after - before for before, after in zip(values, values[1:])}
    if left is None or done < 2 or len(steps) != 1 or len(values) % done:
        result = Unknown.hanging_on("number", Kind.NUMBER, count)
        if steps and min(steps) > 0:
            # The real loop may run less often than this one has; the counter does not come back to where it was.
            result.shown = result.shown._replace(bounds=(values[0], math.inf))
        return result
    return values[-1] + steps.pop() * left * (len(values) // done)
