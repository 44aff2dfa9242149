"""A recorded tape with the indexes that verdicts need, and their wording."""

from __future__ import annotations

import ast
import dataclasses
import itertools
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from tapecheck.record.parallel import KINDS
from tapecheck.rules import Finding, Reading
from tapecheck.rules.averaged_with_graph.rule import AveragedWithGraph
from tapecheck.rules.backward_twice.rule import BackwardTwice
from tapecheck.rules.backward_without_graph.rule import BackwardWithoutGraph
from tapecheck.rules.compiled_backward_twice.rule import CompiledBackwardTwice
from tapecheck.rules.compiled_double_backward.rule import CompiledDoubleBackward
from tapecheck.rules.donated_buffers.rule import DonatedBuffers
from tapecheck.rules.leaf_inplace.rule import LeafInplace
from tapecheck.rules.missing_create_graph.rule import MissingCreateGraph
from tapecheck.rules.parameter_ready_twice.rule import ParameterReadyTwice
from tapecheck.rules.reading import Run
from tapecheck.rules.reentrant_checkpoint_grad.rule import ReentrantCheckpointGrad
from tapecheck.rules.sharded_parameter.rule import ShardedParameter
from tapecheck.rules.stale_saved_tensor.rule import StaleSavedTensor
from tapecheck.rules.unused_parameter.rule import UnusedParameter
from tapecheck.rules.words import line
from tapecheck.source import SourceError, read_source
from tapecheck.tape import Backward, Bind, End, Event, Hold, Loop, Measure, Node, Raised, Site, Span, Step, Tape

BLIND = ("the tape ", "the recording ended")
"""How the end of a tape begins that came before the program's."""
_LONGEST = 240
CONSECUTIVE = 5
"""So many first iterations of a loop are all looked at for held values; the later ones only now and then."""
CONSECUTIVE_OF_HIDDEN = 7
"""The same of a loop that no line shows: its first two iterations ran before it was found."""
MIN_RUNS = 3
"""So often a line must have run for what did not happen to be told."""
UNUSED = "appears to not have been used in the graph"
_LEVEL = 3
"""So many samples in a row, each half as many iterations later as the one before, tell that no more is kept."""
_NAMED = 2_000
"""So many held nodes of a holder are named on a tape: of more, the latest."""
_COUNTED = 2_000
"""So many kept graph nodes are counted one by one, whatever keeps them."""
_SECOND_TIME = "backward through the graph a second time"
_UNFINISHED = "Expected to have finished reduction in the prior iteration"
_TWICE = "Expected to mark a variable ready only once"
_DOUBLE = "does not currently support double backward"
_DONATED = "compiled with non-empty donated buffers"
_REENTRANT = "torch.utils.checkpoint is incompatible with .grad()"
_SHARDS = ("got mixed torch.Tensor and DTensor", "are out of bounds for storage of size 0", "has already been lazily")
_OUT = "functions with out=... arguments don't support automatic differentiation"
_INPLACE = "modified by an inplace operation"
_NO_GRAPH = "does not require grad"
_LEAF = ("leaf Variable that requires grad", "a leaf variable has been moved into the graph interior")
_SPOKEN_OF = {
    _SECOND_TIME: (BackwardTwice.code, CompiledBackwardTwice.code),
    _UNFINISHED: (UnusedParameter.code,),
    _TWICE: (ParameterReadyTwice.code,),
    _DOUBLE: (CompiledDoubleBackward.code,),
    _DONATED: (DonatedBuffers.code,),
    _REENTRANT: (ReentrantCheckpointGrad.code,),
    **dict.fromkeys(_SHARDS, (ShardedParameter.code,)),
    _INPLACE: (StaleSavedTensor.code,),
}
"""The rules that speak of an exception, by what its message says, wherever it was raised."""


@dataclass(slots=True)
class Sample:
    """What a holder, or all live objects together, kept after one iteration."""

    index: int
    nodes: int
    size: int = 0
    """Bytes that the nodes saved."""
    own: int = 0
    """Bytes that only the kept tensors themselves hold."""
    held: tuple[int, ...] = ()
    """The nodes that were held, as far as the tape names them."""


@dataclass(slots=True)
class Series:
    """Samples of one run of a loop."""

    loop: int
    holder: str
    at: Site
    samples: list[Sample] = field(default_factory=list)

    @property
    def grows(self) -> bool:
        """Return whether more is kept at every sample; the first iteration may set things up and does not count."""
        counts = self._later
        return len(counts) >= 2 and all(a < b for a, b in zip(counts, counts[1:], strict=False))

    @property
    def grows_in_steps(self) -> bool:
        """Return whether more is kept again and again, up to the last sample, and never less: it is stored now and
        then.
        """
        counts = self._later
        pairs = list(zip(counts, counts[1:], strict=False))
        return all(a <= b for a, b in pairs) and sum(a < b for a, b in pairs) >= 2 and pairs[-1][0] < pairs[-1][1]

    @property
    def flat(self) -> bool:
        counts = self._later
        return len(counts) >= 2 and max(counts) == min(counts)

    @property
    def level(self) -> Sample | None:
        """Return the sample since which the same is kept, the most of all: nothing grows there any more.

        None where that was not seen several times, or so much is kept that the recorder does not count it all.
        """
        later = [sample for sample in self.samples if sample.index > 1]
        top = max((sample.nodes for sample in later), default=0)
        same = list(itertools.takewhile(lambda sample: sample.nodes == top, reversed(later)))
        return same[-1] if len(same) >= _LEVEL and top <= _COUNTED else None

    @property
    def _later(self) -> list[int]:
        return [sample.nodes for sample in self.samples if sample.index > 1]

    def text(self, what: str = "nodes") -> str:
        return ", ".join(str(getattr(sample, what)) for sample in self.samples[:5])

    def measured(self) -> dict[str, object]:
        return {
            "iterations": [sample.index for sample in self.samples],
            "nodes": [sample.nodes for sample in self.samples],
            "saved_bytes": [sample.size for sample in self.samples],
            **({"own_bytes": [sample.own for sample in self.samples]} if any(s.own for s in self.samples) else {}),
        }


@dataclass(slots=True)
class Kept:
    """What the graph of one retaining call held when it ran, and where it went: None while it did not.

    `seconds` from the call until then.
    """

    size: int
    gone_at: Site | None = None
    seconds: float | None = None


_OF_HOLDS = {"held-nodes": "nodes", "held-bytes": "size", "held-own-bytes": "own"}
"""Measures of what a loop holds, with the field of a sample that each is."""


def _came_through(events: list[Event]) -> list[Event]:
    """Return the events with each backward call marked that the program went on after: none of its nodes failed,
    whatever the versions of saved tensors seem to be.
    """
    failed: set[int | None] = set()
    last, latest = 0, None
    for index, event in enumerate(events):
        if isinstance(event, (Backward, Step)):
            last, latest = index, event.id if isinstance(event, Backward) else latest
        elif isinstance(event, Raised):
            failed |= {event.backward, latest}
        elif isinstance(event, End) and event.how == "finished":
            last = index
    return [
        dataclasses.replace(event, succeeded=True)
        if isinstance(event, Backward) and index < last and event.id not in failed
        else event
        for index, event in enumerate(events)
    ]


class Story:
    """A recorded tape with the indexes that verdicts need."""

    def __init__(self, tape: Tape, directory: str | None) -> None:
        self.tape = tape
        self.directory = directory
        self._files: dict[str, str] = {}
        self._trees: dict[str, ast.AST | None] = {}
        events = _told_once(tape.events)
        self._hidden = {event.id for event in events if isinstance(event, Loop) and event.hidden}
        self.view = Tape(tape.producer, _came_through([event for event in events if not self._sparse(event)]))
        self.reading = Reading(self.view)
        # Nothing comes after the view's last event: the rules need not replay it once more.
        self.view.ledger = self.reading.ledger
        self.raised = [event for event in events if isinstance(event, Raised)]
        # A name is bound by a few statements, again and again: one event of each will do.
        self.binds = list({(b.name, b.at.span): b for b in tape.events if isinstance(b, Bind)}.values())
        self.hits: dict[tuple[str, int], int] = {}
        self.loops: dict[tuple[str, int], set[int]] = {}
        self.held: dict[tuple[int, str, str, int], Series] = {}
        self.live: dict[int, Series] = {}
        self.levels: list[tuple[Site, int]] = []
        """How many graph nodes were alive, in all of the program, after which iterations."""
        self.without_gradient: dict[int, int] = {}
        self.stale: list[tuple[int, Site]] = []
        """Leaves whose gradient a step had used when a backward added to it, with that call."""
        self.again: dict[int, int] = {}
        """Leaves whose gradient was that of the step before, untouched, at so many of the first steps."""
        self.compared = 0
        self.looked: list[tuple[Site, int, int]] = []
        """Backward calls that came between a step and the next one whose gradients were compared, with the line of the
        next step, and how many.
        """
        self.scales: list[tuple[Site, int, float]] = []
        """The scale that was on the gradients of an optimizer, by number, where a line ran."""
        self.watched_loops: dict[Site, dict[str, int]] = {}
        """What was measured of the graphs that modules build in watched loops, by place and calls."""
        self.frozen_groups: list[tuple[Site, int, int]] = []
        """Where an optimizer with groups that were frozen as a whole was made (where that is not known, where the
        program ended), how many parameters stood in them, and at how many steps.
        """
        self.discarded: list[tuple[int, Site, int]] = []
        """Leaves whose gradients of a call were cleared before a step, with that call, and how often."""
        self.gradients_looked_at = False
        """Whether anything in the program's own files may look at gradients."""
        self.gradients_used: list[tuple[Site, int]] = []
        """Calls whose gradients a step has used, and how often."""
        self.shards_watched = False
        """Whether forwards under FSDP2 were looked at, from the first step on."""
        self.stale_shards: list[tuple[Site, int]] = []
        """Forwards that used parameters from before a step, and how many."""
        self.not_reduced: list[tuple[str, Site, int]] = []
        """Where DistributedDataParallel raised, with the kind of measure, and for how many parameters."""
        self.left_out: dict[int, int] = {}
        """Leaves with a gradient at that many of the first steps, which no optimizer has and nothing changed."""
        self.left_alone: dict[int, int] = {}
        """The same of leaves of which nobody has asked whether they had a gradient."""
        self.kept: dict[int, Kept] = {}
        self.passed = False
        self.cut_short = 0.0
        """The seconds after which the recorder looked no more at what is kept, 0 where it did to the end."""
        self.written_for = 0.0
        """The seconds after which the recorder wrote no more calls that it would have, 0 where it did to the end."""
        self.recorded: set[str] = set()
        """The files of which code ran that was recorded."""
        self.not_loaded: set[str] = set()
        """The files with findings that the program certainly did not load."""
        self.on_device = False
        """Whether the program used memory of a CUDA device."""
        self.elsewhere = ""
        """What ran and was not recorded: processes in which lines may have run that did not here."""
        self._look_through(tape.events)
        last = tape.events[-1] if tape.events else None
        self.end = last if isinstance(last, End) else End("stopped")
        self.by_file: dict[str, list[Run]] = {}
        for item in self.reading.runs:
            self.by_file.setdefault(self.file(item.at.file), []).append(item)

    def _look_through(self, events: Iterable[Event]) -> None:
        hold: Hold | None = None
        for event in events:
            if isinstance(event, Hold):
                hold = event
                key = (event.loop, event.holder, self.file(event.at.file), event.at.line)
                series = self.held.setdefault(key, Series(event.loop, event.holder, event.at))
                series.samples.append(Sample(event.index, 0, held=event.nodes))
            elif isinstance(event, Measure):
                self._measure(event, hold)

    def _sparse(self, event: object) -> bool:
        if not isinstance(event, Hold):
            return False
        return event.index > (CONSECUTIVE_OF_HIDDEN if event.loop in self._hidden else CONSECUTIVE)

    def _measure(self, event: Measure, hold: Hold | None) -> None:
        name, _, about = event.name.partition(":")
        value = int(event.value)
        if name == "line-hits":
            key = (self.file(event.at.file), event.at.line)
            self.hits[key] = max(self.hits.get(key, 0), value)
            self.loops.setdefault(key, set()).update(loop for loop, _ in event.at.iteration)
        elif name in _OF_HOLDS:
            if hold is not None and hold.holder == about:
                series = self.held[(hold.loop, hold.holder, self.file(hold.at.file), hold.at.line)]
                setattr(series.samples[-1], _OF_HOLDS[name], value)
        elif name in ("live-nodes", "live-saved-bytes"):
            if event.at.iteration:
                self._measure_alive(name, event.at, value)
        elif about.isdigit():
            self._measure_of(name, int(about), event, value)
        elif about == "loop":
            self.watched_loops.setdefault(event.at, {})[name] = value
        elif name in KINDS:
            self.not_reduced.append((name, event.at, value))
        else:
            self._measure_run(name, event, value)

    def _measure_alive(self, name: str, at: Site, value: int) -> None:
        """Note what was alive after an iteration."""
        loop, index = at.iteration[-1]
        series = self.live.setdefault(loop, Series(loop, "", at))
        if name == "live-nodes":
            series.samples.append(Sample(index, value))
            self.levels.append((at, value))
        elif series.samples:
            series.samples[-1].size = value

    def _measure_of(self, name: str, number: int, event: Measure, value: int) -> None:
        """Note what was measured of a leaf, an optimizer or a backward call."""
        match name:
            case "gradient-scale":
                self.scales.append((event.at, number, event.value))
            case "retained-bytes":
                self.kept[number] = Kept(value)
            case "retained-until" if number in self.kept:
                self.kept[number].gone_at, self.kept[number].seconds = event.at, event.value
            case "stale-gradient":
                self.stale.append((number, event.at))
            case "gradient-again":
                self.again[number] = value
            case "left-out":
                self.left_out[number] = value
            case "left-alone":
                self.left_alone[number] = value
            case "gradient-discarded":
                self.discarded.append((number, event.at, value))
            case "frozen-groups":
                self.frozen_groups.append((event.at, value, number))
            case "gradients-compared":
                self.compared += value
            case "backward-compared":
                self.looked.append((event.at, number, value))
            case "never-a-gradient":
                self.without_gradient[number] = value

    def _measure_run(self, name: str, event: Measure, value: int) -> None:
        """Note what was measured of the run as a whole, or of a line."""
        match name:
            case "passed-calls":
                self.passed = value > 0
            case "recorded-file":
                self.recorded.add(self.file(event.at.file))
            case "file-not-loaded":
                self.not_loaded.add(self.file(event.at.file))
            case "gradients-looked-at":
                self.gradients_looked_at = True
            case "shards-watched" | "shards-unsure":
                # A step that leaves the versions as they were refutes nothing.
                self.shards_watched = event.name == "shards-watched"
            case "stale-shards":
                self.stale_shards.append((event.at, value))
            case "gradients-used":
                self.gradients_used.append((event.at, value))
            case "looking-stopped":
                self.cut_short = event.value
            case "writing-stopped":
                self.written_for = event.value
            case "cuda-peak-memory":
                self.on_device = self.on_device or event.value > 0
            case "forked-processes":
                self.elsewhere = f"{value} forked process{'es' * (value > 1)} ran backward calls and"
            case "other-processes":
                self.elsewhere = self.elsewhere or "processes that it started"

    # Places

    def file(self, name: str) -> str:
        real = self._files.get(name)
        if real is None:
            real = self._files[name] = real_path(name, self.directory)
        return real

    def at(self, span: Span, site: Span) -> bool:
        """Return whether something happened in the rows of a span."""
        return (
            self.file(span.file) == self.file(site.file)
            and span.line <= site.end_line
            and site.line <= max(span.end_line, span.line)
        )

    def runs_at(self, span: Span) -> list[Run]:
        return [item for item in self.by_file.get(self.file(span.file), ()) if self.at(span, item.at.span)]

    def count(self, span: Span) -> int:
        """Return how often the code of a span ran."""
        file = self.file(span.file)
        rows = range(span.line, max(span.end_line, span.line) + 1)
        # A call over several rows comes back to its first one: the row that ran least tells how often.
        counted = min((hits for row in rows if (hits := self.hits.get((file, row), 0))), default=0)
        return max(counted, len(self.runs_at(span)))

    def loops_of(self, span: Span) -> set[int]:
        """Return the runs of loops within which the code of a span ran, as far as that was seen."""
        file = self.file(span.file)
        return {loop for row in range(span.line, span.end_line + 1) for loop in self.loops.get((file, row), ())}

    def is_loop(self, loop: int, span: Span) -> bool:
        """Return whether a run of a loop is one of the loop that begins at a span."""
        known = self.reading.loops.get(loop)
        at = known.event.at.span if known is not None else None
        return at is not None and at.line == span.line and self.file(at.file) == self.file(span.file)

    def place_of_loop(self, loop: int) -> tuple[str, int]:
        """Return file and line at which a run of a loop begins."""
        known = self.reading.loops.get(loop)
        return (self.file(known.event.at.file), known.event.at.line) if known is not None else ("", loop)

    def was_emptied(self, series: Series) -> bool:
        """Return whether a holder of several graphs let go of all of them, and held others by a later look: a window
        that is emptied now and then has more at one look than at another by chance.
        """
        pairs = zip(series.samples, series.samples[1:], strict=False)
        return any(
            len(before.held) > 1
            and len(after.held) < _NAMED
            and not set(before.held) & set(after.held)
            and not set(before.held) & self.reading.ledger.ancestry(after.held).keys()
            for before, after in pairs
        )

    def runs_of_loop(self, span: Span) -> list[Loop]:
        """Return the runs of the loop that begins at a span, as far as they are on the tape."""
        return [known.event for number, known in self.reading.loops.items() if self.is_loop(number, span)]

    def bound(self, series: Series) -> list[Span]:
        """Return the statements that bound the name of a holder in the function that stores it."""
        return [
            bind.at.span
            for bind in self.binds
            if bind.name == series.holder
            and bind.at.function == series.at.function
            and self.file(bind.at.file) == self.file(series.at.file)
        ]

    def ran(self, span: Span) -> bool:
        """Return whether any row of a span is known to have run: it was counted, or something happened there."""
        if self.count(span):
            return True
        rows = self._rows.get(self.file(span.file), set())
        return any(row in rows for row in range(span.line, max(span.end_line, span.line) + 1))

    @cached_property
    def _rows(self) -> dict[str, set[int]]:
        """The rows, by file, at which something is on the tape, and those of the calls that led there."""
        rows: dict[str, set[int]] = {}
        places: set[Span] = set()
        for event in self.tape.events:
            at = getattr(event, "at", None)
            if isinstance(at, Site) and at.function != "<unknown>":
                places.update((at.span, *at.stack))
        for span in places:
            rows.setdefault(self.file(span.file), set()).update((span.line, span.end_line))
        return rows

    def unrecorded(self, file: str) -> bool:
        """Return whether nothing of a file was recorded: whether its lines ran is not known."""
        real = self.file(file)
        return real not in self.recorded and real not in self._rows and not any(name == real for name, _ in self.hits)

    def tree(self, file: str) -> ast.AST | None:
        """Return the parsed text of a file, None where it cannot be read."""
        real = self.file(file)
        if real not in self._trees:
            try:
                self._trees[real] = read_source(real).tree
            except SourceError:
                self._trees[real] = None
        return self._trees[real]

    def problem_of(self, raised: Raised) -> Run | None:
        return self.reading.run_of.get(raised.backward) if raised.backward is not None else None

    @property
    def whole(self) -> bool:
        """Return whether the program ran to its own end, by itself or by an exception of its own."""
        return self.end.how == "finished"

    @property
    def blind(self) -> str:
        """Return why the program ran on unseen, empty where it did not."""
        return self.end.detail if self.end.how == "stopped" and self.end.detail.startswith(BLIND) else ""

    def is_about(self, raised: Raised, finding: Finding) -> bool:
        """Return whether a finding speaks of an exception."""
        return self.at(finding.span, raised.at.span) and finding.code in self.codes(raised)

    def codes(self, raised: Raised) -> tuple[str, ...]:
        """Return the rules that speak of an exception."""
        text = raised.message
        if raised.exception != "RuntimeError":
            return ()
        known = next((codes for part, codes in _SPOKEN_OF.items() if part in text), None)
        if known is not None:
            return known
        if any(part in text for part in _LEAF):
            # In the engine itself it is DistributedDataParallel that changes its buckets.
            return (LeafInplace.code if raised.backward is None else AveragedWithGraph.code,)
        if _OUT in text and raised.backward is not None:
            return (AveragedWithGraph.code,)
        if raised.backward is not None and (_NO_GRAPH in text or UNUSED in text):
            return (BackwardWithoutGraph.code, MissingCreateGraph.code)
        return ()

    def leaf_text(self, number: int) -> str:
        """Return what a leaf is called: one that no variable led to by its place in its optimizer."""
        known = self.reading.ledger.leaves.get(number)
        if known is not None and known.name:
            return known.name
        for optimizer in self.reading.optimizers.values():
            if number in optimizer.params:
                place = optimizer.params.index(number)
                return f"{optimizer.name} parameter {optimizer.places[place] if optimizer.places else place}"
        return f"parameter {number}"

    @cached_property
    def _training(self) -> set[tuple[str, int]]:
        """Where the loops begin of which the innermost iteration ran a backward."""
        return {self.place_of_loop(item.at.iteration[-1][0]) for item in self.reading.runs if item.at.iteration}

    def loop_of(self, raised: Raised) -> int | None:
        """Return the innermost loop that trains around an exception, else the innermost one."""
        loops = [loop for loop, _ in reversed(raised.at.iteration)]
        trains = (loop for loop in loops if self.place_of_loop(loop) in self._training)
        return next(trains, loops[0] if loops else None)

    def trains_innermost(self, raised: Raised) -> bool:
        """Return whether the innermost loop around an exception is the only one or trains: it needs no name."""
        loops = raised.at.iteration
        return len(loops) < 2 or self.place_of_loop(loops[-1][0]) in self._training

    def failing_node(self, raised: Raised, failed: Run | None) -> Node | None:
        """Return the node at which a backward failed, where that is known."""
        if raised.node is not None:
            return self.reading.ledger.nodes.get(raised.node)
        problem = failed.problem if failed is not None else None
        return problem.node if problem is not None else None


def _told_once(events: list[Event]) -> list[Event]:
    """Return the events with each exception once: one that seemed caught, by a `with` or a `finally`, may end the
    program.
    """
    raised = [event for event in events if isinstance(event, Raised) and event.backward is not None]
    again: set[int] = set()
    settled: dict[int, Event] = {}
    for last in raised:
        for event in raised if not last.caught else ():
            if event.caught and (event.backward, event.message) == (last.backward, last.message):
                settled[id(event)] = dataclasses.replace(event, caught=False, left=False)
                again.add(id(last))
    return [settled.get(id(event), event) for event in events if id(event) not in again]


def real_path(file: str, directory: str | None) -> str:
    return str((Path(directory or ".") / file).resolve())


def _built_text(node: Node, loop: int | None, index: int | None, home: Span) -> str:
    """Return where a node was built, and in which iteration of a loop where that is another one than `index`."""
    text = f"; `{node.op}` was built on {line(node.at.span, home)}"
    built = dict(node.at.iteration).get(loop) if loop is not None else None
    return text if built is None or built == index else f"{text} in iteration {built}"


def raised_text(story: Story, raised: Raised) -> str:
    failed = story.problem_of(raised)
    problem = failed.problem if failed is not None else None
    node = story.failing_node(raised, failed)
    loop, home = story.loop_of(raised), raised.at.span
    index = raised_in(story, raised)
    within = story.reading.loops.get(loop) if loop is not None and not story.trains_innermost(raised) else None
    text = (
        "raised"
        + (f" in iteration {index}" if index is not None else "")
        + (f" of the loop on {line(within.event.at.span, home)}" if within is not None else "")
        + (" and caught" if raised.caught and not raised.left else "")
    )
    text += f": {short(raised.message)}{_built_text(node, loop, index, home) if node is not None else ''}"
    if problem is not None and problem.freed_by is not None:
        text += f" and freed by the call on {line(problem.freed_by.at.span, home)}"
    if problem is not None and problem.changed_by is not None:
        text += f"; what it saved was changed on {line(problem.changed_by.at.span, home)}"
    return text


def raised_measure(raised: Raised) -> dict[str, object]:
    return {"exception": raised.exception, "message": raised.message, "caught": raised.caught}


def short(message: str) -> str:
    first = message.split("\n")[0]
    end = first.find(" (or directly access")
    if end < 0:
        end = first.find(". ")
    if 0 < end <= _LONGEST:
        return first[:end]
    return first if len(first) <= _LONGEST else textwrap.shorten(first, _LONGEST, placeholder=" ...")


def iteration(site: Site) -> int | None:
    return site.iteration[-1][1] if site.iteration else None


def raised_in(story: Story, raised: Raised) -> int | None:
    """Return the iteration of the loop that trains in which an exception was raised, else that of the innermost one."""
    loop = story.loop_of(raised)
    return dict(raised.at.iteration)[loop] if loop is not None else None


def end_text(story: Story) -> str:
    if story.end.how == "finished":
        return "the program ran to its end"
    return short(story.end.detail) if story.end.detail else "the run was stopped"


def loop_line(story: Story, loop: int) -> str:
    run_of_loop = story.reading.loops.get(loop)
    event: Loop | None = run_of_loop.event if run_of_loop is not None else None
    return str(event.at.line) if event is not None else "?"


def last_name(name: str) -> str:
    return name.replace("[", ".").split(".")[-1].strip("]'\"")


def matches(recorded: str, predicted: str) -> bool:
    """Return whether two names of a parameter agree from the right: `model.fc.weight` and `self.fc.weight`."""
    left, right = recorded.split(".")[::-1], predicted.split(".")[::-1]
    common = 0
    for a, b in zip(left, right, strict=False):
        if a != b:
            break
        common += 1
    return common >= min(2, len(left), len(right))
