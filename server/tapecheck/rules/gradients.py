"""What happens to the `.grad` of each leaf over time: which backward adds to it, which step uses it, what clears it."""

from __future__ import annotations

import itertools
import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from operator import attrgetter
from typing import Literal, TypeGuard

from tapecheck.rules.reading import GradientEvent, Reading, Run, grouped, remembered
from tapecheck.tape import (
    SHAPING,
    Assumed,
    ChangeKind,
    Escape,
    Fact,
    GradientCleared,
    GradientRead,
    GradientSet,
    InPlace,
    Leaf,
    LeafEscape,
    Site,
    Span,
    Step,
)

Identity = tuple[str, str, int, int, tuple[Span, ...]]
"""Name, file, line, column and calls of a leaf: what makes it the same in several tapes."""


_POSITION = attrgetter("position")
MomentKind = Literal["added", "stepped", "cleared", "set", "read"]


@dataclass(frozen=True, slots=True)
class Moment:
    """Something that happens to the gradient of one leaf.

    `added`: the backward `run` adds to it, `fact` says whether it certainly does. `stepped`: the step `step` of an
    optimizer that has the leaf uses what there is. `cleared` to None or to zeros, `set` by the program itself or
    changed in place, `read` by the program.
    """

    position: int
    kind: MomentKind
    at: Site
    fact: Fact = "yes"
    run: Run | None = None
    step: Step | None = None
    to_none: bool = False
    """Whether it is cleared to None, not to zeros."""
    change: ChangeKind = "other"
    """Of what is set or read: what is done with the values."""
    alone: bool = False
    """Of what is set or read: whether the program takes nothing of it but the change."""
    call: str = ""
    """Of what is cleared: how the program writes the call, where an optimizer clears what it has."""

    @property
    def shapes(self) -> bool:
        """Whether the program changes a gradient in place and leaves in it what was in it."""
        return self.kind == "set" and self.change in SHAPING


class Gradients:
    """The gradients of one tape.

    `steppable` maps the leaves that optimizers have to the numbers of these, `listed` says whether the lists of all
    optimizers are known to be whole, `bounded` whether they are known to hold nothing else.
    """

    def __init__(self, reading: Reading) -> None:
        self.reading = reading
        self.escaped: set[int] = set()
        self.all_escaped = False
        self._given_away: dict[int, int] = {}
        """Where each leaf was first given to code that the tape does not see; under -1 where any may have been."""
        self._led_to: dict[int, tuple[int, Escape]] = {}
        """The first value with a graph which leads to a leaf that such code was given."""
        self.steppable: dict[int, set[int]] = {}
        self.listed = True
        self.bounded = True
        self.handed: dict[int, Site] = {}
        """Leaves that no optimizer has, and where the program gives their gradient to one that some optimizer steps."""
        self.nodes_read: dict[int, list[int]] = {}
        """Intermediate values whose gradient the program reads, with the positions."""
        self._moments: dict[int, list[Moment]] = {}
        self._read_optimizers()
        self._read_escapes()
        owners = _Owners(reading)
        self._read_events(owners)
        for run in reading.runs:
            if run.backward.accumulates:
                self._add_run(run)
        self._read_steps(owners)
        for moments in self._moments.values():
            moments.sort(key=lambda moment: moment.position)

    def _read_escapes(self) -> None:
        """Note which leaves values lead to that hidden code has."""
        reading = self.reading
        given = [node for _, escape in reading.escapes for node in escape.nodes]
        if given:
            # Who has a value with a graph may run a backward from it.
            reached = reading.below(given) & reading.ledger.leaves.keys()
            self.escaped.update(reached)
            for position, escape in reading.escapes:
                if reached <= self._led_to.keys():
                    break
                for leaf in reached.intersection(reading.below(escape.nodes)):
                    self._led_to.setdefault(leaf, (position, escape))

    def _read_optimizers(self) -> None:
        """Note which optimizers step which leaves."""
        for number, made in self.reading.optimizers_made.items():
            for _, optimizer in made:
                self.listed = self.listed and optimizer.complete == "yes"
                self.bounded = self.bounded and optimizer.complete != "may"
                for leaf in (*optimizer.params, *optimizer.frozen):
                    self.steppable.setdefault(leaf, set()).add(number)

    def _read_events(self, owners: _Owners) -> None:
        """Note what the program does to gradients itself."""
        for position, event in self.reading.gradient_events:
            self._add_event(position, event)
            if not _in_place(event):
                continue
            owner = owners.at(event.leaf, position)
            if owner is not None and owner.source is not None:
                # One tensor: what is done to it in place is done to both gradients.
                self._add_event(position, replace(event, leaf=owner.source))

    def _read_steps(self, owners: _Owners) -> None:
        """Note what steps use."""
        for position, step in self.reading.steps:
            for leaf in self.params_at(step.optimizer, position):
                self._add(leaf, Moment(position, "stepped", step.at, "yes", None, step))
                owner = owners.at(leaf, position)
                if owner is not None and owner.source is not None and owner.source not in self.steppable:
                    self.handed[owner.source] = owner.at
                    self._add(owner.source, Moment(position, "stepped", step.at, "yes", None, step))

    def _add_event(self, position: int, event: GradientEvent) -> None:
        match event:
            case LeafEscape(leaves=leaves):
                self.escaped.update(leaves)
                self.all_escaped = self.all_escaped or not leaves
                for leaf in leaves or (-1,):
                    self._given_away[leaf] = min(position, self._given_away.get(leaf, position))
            case GradientRead(of=of) if of not in self.reading.ledger.leaves:
                self.nodes_read.setdefault(of, []).append(position)
            case GradientRead(of=of):
                self._add(of, Moment(position, "read", event.at, change=event.kind, alone=event.alone))
            case GradientCleared(leaf=leaf):
                to_none = event.to_none == "yes"
                self._add(leaf, Moment(position, "cleared", event.at, to_none=to_none, call=event.call))
            case GradientSet(leaf=leaf):
                self._add(leaf, Moment(position, "set", event.at, change=event.kind, alone=event.alone))

    def _add_run(self, run: Run) -> None:
        """Add what a backward adds to gradients."""
        wanted = None if run.backward.inputs is None else set(run.backward.inputs)
        for number, fact in run.executed.items():
            if number in self.reading.ledger.leaves and (wanted is None or number in wanted):
                # What ran before a node that fails has been added, but the program does not go on as it should.
                self._add(number, Moment(run.position, "added", run.at, "may" if run.failed else fact, run))

    def _add(self, leaf: int, moment: Moment) -> None:
        self._moments.setdefault(leaf, []).append(moment)

    def params_at(self, optimizer: int, position: int) -> tuple[int, ...]:
        """Return the leaves that an optimizer has at a position: parameter groups may have been added."""
        params: tuple[int, ...] = ()
        for made, event in self.reading.optimizers_made.get(optimizer, ()):
            if made < position:
                params = event.params + event.frozen
        return params

    def unseen(self, leaf: int) -> bool:
        """Return whether code that the tape does not see has the leaf, and may do anything to its gradient."""
        return self.all_escaped or leaf in self.escaped

    def followed(self, leaf: int) -> bool:
        """Return whether all that happens to the gradient of a leaf happens to it on the tape."""
        return not self.unseen(leaf) and leaf not in self.handed

    def only_added_to(self, leaf: int) -> bool:
        """Return whether all that clears, sets, reads or steps the gradient of a leaf is on the tape: code that this
        does not show has at most a loss, and adds to the gradient.
        """
        return self.given_since(leaf) == math.inf and leaf not in self.handed

    def unseen_since(self, leaf: int) -> float:
        """Return the position from which on code that the tape does not see may do anything to a leaf's gradient."""
        led_to = self.led_to(leaf)
        return min(self.given_since(leaf), math.inf if led_to is None else led_to[0])

    def given_since(self, leaf: int) -> float:
        """Return the position from which on such code has a leaf, or its model or optimizer: it may clear its gradient,
        to which whoever has a loss alone adds.
        """
        return min(self._given_away.get(leaf, math.inf), self._given_away.get(-1, math.inf))

    def led_to(self, leaf: int) -> tuple[int, Escape] | None:
        """Return the first value with a graph which leads to a leaf that such code was given, with its position."""
        return self._led_to.get(leaf)

    @cached_property
    def by_hand(self) -> dict[int, list[Moment]]:
        """The leaves that no optimizer has and that the program steps by their own gradient, with where it does:
        `w -= rate * w.grad`. One whose gradient it takes for something else besides is not among them.
        """
        found: dict[int, list[Moment]] = {}
        used: dict[int, set[int]] = {}
        reads = self._other_reads()
        for position, change in self.reading.changes if reads else ():
            leaf = change.leaf
            if leaf is None or not _steps_by_hand(change):
                continue
            before = (one for one in reversed(reads.get(leaf, ())) if one[0] < position)
            place, read = next(before, (0, None))
            if read is not None and leaf not in self.steppable and _within(read, change.at):
                used.setdefault(leaf, set()).add(place)
                step = Moment(position, "stepped", change.at, "yes", None, Step(change.at, 0))
                found.setdefault(leaf, []).append(step)
        return {leaf: steps for leaf, steps in found.items() if {n for n, _ in reads[leaf]} == used[leaf]}

    def _other_reads(self) -> dict[int, list[tuple[int, Site]]]:
        """Return when and where the program itself reads the gradient of each leaf."""
        events = ((at, event) for at, event in self.reading.gradient_events if isinstance(event, GradientRead))
        return grouped((event.of, (position, event.at)) for position, event in events if event.kind == "other")

    def moments(self, leaf: int) -> Sequence[Moment]:
        """Return what happens to the gradient of a leaf, in order."""
        return self._moments.get(leaf, ())

    def happens(self, leaf: int, *kinds: MomentKind) -> bool:
        """Return whether something of some kinds ever happens to the gradient of a leaf."""
        return any(moment.kind in kinds for moment in self._moments.get(leaf, ()))

    def after(self, leaf: int, position: int) -> Iterator[Moment]:
        """Yield what happens to the gradient of a leaf after a position, in order."""
        moments = self._moments.get(leaf, [])
        return itertools.islice(moments, bisect_right(moments, position, key=_POSITION), None)

    def leaves(self) -> Iterator[int]:
        """Yield the leaves to whose gradients anything happens."""
        return iter(self._moments)


def has_graphs_alone(reading: Reading, event: Assumed) -> bool:
    """Return whether hidden code was given values with graphs alone, by which it hardly comes to a parameter: to clear,
    to step or to read it.
    """
    return bool(event.about) and reading.ledger.leaves.keys().isdisjoint(event.about)


def lists_parameters(reading: Reading, event: Assumed) -> bool:
    """Return whether a method of hidden code is taken for one that lists parameters, and an optimizer of torch's takes
    them for that.
    """
    owners = gradients_of(reading).steppable
    leaves = (reading.ledger.leaves[leaf] for leaf in owners if leaf in reading.ledger.leaves)
    return event.kind == "name" and any(leaf.many and leaf.at.span == event.at.span for leaf in leaves)


def _in_place(event: GradientEvent) -> TypeGuard[GradientSet | GradientCleared]:
    """Whether a gradient is changed in place."""
    if isinstance(event, GradientSet):
        return bool(event.how)
    return isinstance(event, GradientCleared) and event.to_none != "yes"


class _Owners:
    """Whose gradient the `.grad` of a leaf is, where the program has given it that of another: the same tensor."""

    def __init__(self, reading: Reading) -> None:
        self._given: dict[int, list[tuple[int, GradientSet | None]]] = {}
        for position, event in reading.gradient_events:
            if isinstance(event, GradientSet) and not event.how:
                self._given.setdefault(event.leaf, []).append((position, event))
            elif isinstance(event, GradientCleared) and event.to_none == "yes":
                self._given.setdefault(event.leaf, []).append((position, None))

    def at(self, leaf: int, position: int) -> GradientSet | None:
        """Return what has given a leaf the gradient of another one that it has at a position."""
        since, event = self._last(leaf, position)
        if event is None or event.source is None or self._last(event.source, position)[0] > since:
            return None
        return event

    def _last(self, leaf: int, position: int) -> tuple[int, GradientSet | None]:
        given = self._given.get(leaf, ())
        return next((one for one in reversed(given) if one[0] < position), (-1, None))


@remembered
def gradients_of(reading: Reading) -> Gradients:
    """Return the gradients of a tape, worked out once."""
    return Gradients(reading)


def _steps_by_hand(change: InPlace) -> bool:
    """Return whether the program adds to a value itself, or gives it a new one under `.data`: `w.data = w.data - d`."""
    adds = change.how == "data =" or change.how.rpartition(".")[2] in ("add_", "sub_")
    return adds and change.optimizer is None and not change.refused


def _within(read: Site, change: Site) -> bool:
    """Return whether a gradient is read in the statement that changes something, or in a function that it calls, in the
    same iteration.
    """
    deeper = len(read.stack) - len(change.stack)
    if deeper < 0 or read.iteration[: len(change.iteration)] != change.iteration or read.stack[deeper:] != change.stack:
        return False
    place = read.stack[deeper - 1] if deeper else read.span
    return place.file == change.file and change.span.line <= place.line <= change.span.end_line


def looked_at(moments: Sequence[Moment]) -> bool:
    """Return whether the program looks at a gradient: clipped for a step that does not have it, it is of no use."""
    shaped = {(moment.at.file, moment.at.line) for moment in moments if moment.shapes}
    return any(
        moment.kind in ("read", "set") and moment.change != "limit" and (moment.at.file, moment.at.line) not in shaped
        for moment in moments
    )


def set_by_hand(reading: Reading) -> set[int]:
    """Return the leaves that the program changes itself in the course of training, as a moving average is.

    What it writes once after a leaf was made, or in loops that are over before the first step, initializes it.
    """
    return set(_by_hand(reading))


def learned_by_hand(reading: Reading) -> set[int]:
    """Return those of them that are not only held within bounds, which teaches them nothing.

    What is multiplied may learn by the factor: exponentiated gradients and schedules do.
    """
    return {leaf for leaf, kinds in _by_hand(reading).items() if kinds != {"limit"}}


@remembered
def _by_hand(reading: Reading) -> dict[int, set[ChangeKind]]:
    """Return how the program changes leaves itself in the course of training."""
    if not reading.changes:
        return {}
    steps = [position for position, _ in reading.steps]
    stepping = {loop for _, step in reading.steps for loop, _ in step.at.iteration}
    made = grouped((leaf.storage, (position, leaf)) for position, leaf in reading.leaves_made)
    found: dict[int, set[ChangeKind]] = {}
    for position, change in reading.changes:
        if change.optimizer is not None or not change.at.iteration:
            continue
        for place, leaf in made.get(change.storage, ()):
            since = change.at.iteration[shared_loops(leaf.at, change.at) :]
            stepped = bisect_left(steps, position) > bisect_left(steps, place)
            if not steps or stepped or any(loop in stepping for loop, _ in since):
                found.setdefault(leaf.id, set()).add(change.kind)
    return found


def shared_loops(one: Site, other: Site) -> int:
    """Return how many of the loops around two places are in the same iteration."""
    pairs = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(one.iteration, other.iteration))
    return sum(1 for _ in pairs)


def identity(reading: Reading, leaf: Leaf) -> Identity:
    """Return what one line makes is one: which of its leaves a run trains, other ways through the program may
    change.
    """
    return (
        reading.ledger.maker_names.get(leaf.id, leaf.name),
        leaf.at.file,
        leaf.at.span.line,
        leaf.at.span.column,
        leaf.at.stack,
    )


def name_of(reading: Reading, leaf: int) -> str:
    """Return the name of a leaf, or of the variable that it was bound to; nothing where it has none."""
    return reading.ledger.leaves[leaf].name or (reading.name(leaf) or ("",))[0]


def identities(reading: Reading, leaves: Iterable[int]) -> set[Identity]:
    """Return what makes leaves the same in several tapes."""
    known = reading.ledger.leaves
    return {identity(reading, known[leaf]) for leaf in known.keys() & leaves}


def optimizers_of(reading: Reading, leaves: Iterable[int]) -> tuple[Span, ...]:
    """Return the places where the optimizers were made that have any of some leaves."""
    wanted = set(leaves)
    made = [one for calls in reading.optimizers_made.values() for _, one in calls]
    return tuple(dict.fromkeys(one.at.span for one in made if wanted & {*one.params, *one.frozen}))
