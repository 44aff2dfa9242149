"""What a dry run found: its tapes, how it ended, and for whoever asks why, every way that was run."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

from tapecheck.interpret.explore.faults import Fault
from tapecheck.interpret.explore.index import Answers
from tapecheck.interpret.explore.memory import Group
from tapecheck.interpret.explore.stakes import Stake
from tapecheck.interpret.state import Place
from tapecheck.source.modules import Question
from tapecheck.source.search import Found
from tapecheck.tape import Called, Moves, Span, Tape, Where, moved


@dataclass(frozen=True, slots=True)
class CutShort:
    """Where the work limit ended an analysis before everything was looked at.

    `kind` is "way" where the program itself was not followed to its end (`line` is the last line that was), "paths"
    where conditions were not tried both ways, "start" where a function was not started, "calls" where calls lie too
    deep in other calls. `name` is the function that was started, empty for the module. `count` says how many
    conditions, or calls of the text, were left, `hides` which mistakes what was left out could make.
    """

    kind: Literal["way", "paths", "start", "calls"]
    name: str = ""
    file: str = ""
    line: int = 0
    count: int = 0
    hides: tuple[str, ...] = ()


@dataclass(slots=True)
class Interpretation:
    """What the dry run found: one tape for each way through the program, and how the exploration ended.

    `imported` are the paths of the modules that were read, those that modules import themselves included.
    """

    tapes: list[Tape] = field(default_factory=list)
    runs: int = 0
    exhausted: bool = False
    entries: list[str] = field(default_factory=list)
    imported: frozenset[str] = frozenset()
    mistakes: set[tuple[str, Span]] = field(default_factory=set)
    """Exceptions of Python's own that some way went on past, and where."""
    gaps: set[tuple[str, Span]] = field(default_factory=set)
    """Those among them that no guess of an undecided condition explains."""
    supposed: set[Span] = field(default_factory=set)
    """Where some way called methods of tensors on what need not be a tensor."""
    handed: set[Span] = field(default_factory=set)
    """Where values were cut from their graph that some way hands to code which is not visible."""
    calls: set[Called] = field(default_factory=set)
    """The functions that some way calls."""
    cut_short: list[CutShort] = field(default_factory=list)
    """What the work limit left out."""
    faults: list[Fault] = field(default_factory=list)
    """Internal errors that ended a path or a start."""
    imports: dict[Question, Found | None] = field(default_factory=dict)
    """The modules that were asked for, with what was found."""
    read: dict[str, str | None] = field(default_factory=dict)
    """The texts of the files that imports led to, None for one that could not be read."""
    named: dict[tuple[str, bool], bool] = field(default_factory=dict)
    """The functions, and methods (True), of which was asked whether another file of the project may name them."""
    trained: dict[str, bool] = field(default_factory=dict)
    """The files of which was asked whether another program may learn through what they define."""
    groups: list[Group] = field(default_factory=list)
    """The tapes by the start that they belong to."""
    work: int = 0
    """Units of work that this analysis took; what was remembered took none."""
    weight: int = 0
    """Units of work that its starts take, those that were remembered as well."""

    def add(self, outcome: Outcome) -> None:
        """Take over what another start showed."""
        other = outcome.found
        self.tapes += other.tapes
        self.runs += other.runs
        self.exhausted = self.exhausted or other.exhausted
        self.mistakes |= other.mistakes
        self.gaps |= other.gaps
        self.supposed |= other.supposed
        self.handed |= other.handed
        self.calls |= other.calls
        self.cut_short += other.cut_short
        self.faults += other.faults
        self.groups.append(outcome.group)

    def moved(self, tapes: list[Tape], moves: Moves) -> Interpretation:
        """Return what a start showed as it would be where its lines stand now, with its tapes as they are there."""
        return Interpretation(
            tapes,
            self.runs,
            self.exhausted,
            mistakes={(kind, moves.span(span)) for kind, span in self.mistakes},
            gaps={(kind, moves.span(span)) for kind, span in self.gaps},
            supposed=set(map(moves.span, self.supposed)),
            handed=set(map(moves.span, self.handed)),
            calls={one.moved(moves.span) for one in self.calls},
            cut_short=[replace(one, line=moves.line(one.file, one.line)) for one in self.cut_short],
        )


@dataclass(slots=True)
class Outcome:
    """What exploring from one start came to: its tapes, the functions it called, the work it took.

    `told` is what it asked about the numbers of the file.
    """

    found: Interpretation
    called: frozenset[str]
    work: int
    told: Answers = field(default_factory=dict)
    group: Group = field(default_factory=Group)

    def moved(self, before: Where, after: Where) -> Outcome:
        """Return what it would have come to where its lines stand now."""
        tapes = moved(self.found.tapes, before, after)
        found = self.found.moved(tapes, Moves([(before, after)]))
        return Outcome(found, self.called, self.work, self.told, self.group.moved(tapes, after))


@dataclass(frozen=True, slots=True)
class Condition:
    """An undecided condition that a way came to: its text, what hangs on the other answer, whether that is tried."""

    place: Place
    text: str
    answer: bool
    stake: Stake
    tried: bool


@dataclass(frozen=True, slots=True)
class Explored:
    """One way through the program, for whoever asks why something is or is not reported.

    `start` is the function that was begun, empty for the module; `turned` are the places of the conditions that this
    way answers otherwise. `tape` is what it wrote, `kept` whether the rules read it: not where an earlier way wrote
    the same. `beyond` says that the way passes over backward calls that fail.
    """

    start: str
    turned: tuple[Place, ...]
    conditions: tuple[Condition, ...]
    tape: Tape
    kept: bool
    work: int
    beyond: bool
