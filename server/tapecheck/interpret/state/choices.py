"""The undecided conditions of a path: which were met, and how its policy answers them."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from tapecheck.interpret import limits
from tapecheck.interpret.state.position import Position
from tapecheck.interpret.state.writer import TapeWriter
from tapecheck.interpret.values import Value
from tapecheck.tape import Decision, Setting, Site

Place = tuple[str, int, int]
"""File, line and column of a condition."""


@dataclass(slots=True)
class Policy:
    """How undecided conditions are answered: by source place, a pattern of answers for successive times.

    Places that are not named answer True. The last answer of a pattern goes on for ever.
    """

    patterns: dict[Place, tuple[bool, ...]] = field(default_factory=dict)
    by_default: bool = False
    """Whether options that loops count by (`step % args.every`) keep their defaults."""
    length: int = 0
    """How many elements there are of what nobody knows the length of, 0 for the usual number."""

    def key(self) -> tuple[tuple[Place, tuple[bool, ...]], ...]:
        return tuple(sorted(self.patterns.items()))


@dataclass(slots=True)
class Asked:
    """An undecided condition met on the path: how often, and the answer it got by default."""

    times: int = 0
    default: bool = True
    statement: ast.AST | None = None


@dataclass(frozen=True, slots=True)
class Flag:
    """What a `while` goes on by: the answer with which it goes on, or with which it ends in its `last` iteration.

    What it was as the iteration began, `begun`, has the answer with which the loop went on; of one that is asked it is
    what it was then.
    """

    loop: int
    name: str
    answer: bool
    begun: Value
    last: bool = False


@dataclass(slots=True)
class Length:
    """A length that the dry run settled on, where it did and what it is called; `number` gives what it came to, `asked`
    says whether anything reckons with it, `hidden` that code which is not visible says how long that is.
    """

    at: Site
    text: str
    number: Callable[[], Value]
    asked: Callable[[], bool]
    hidden: bool


class Choices:
    """Answers undecided conditions by a policy, and keeps what was answered."""

    def __init__(self, policy: Policy, writer: TapeWriter, position: Position) -> None:
        self.policy = policy
        self._writer = writer
        self._position = position
        self.asked: dict[Place, Asked] = {}
        self.entered: dict[Place, ast.AST] = {}
        """The loops, and what else goes over elements, that were entered though nobody knows whether there are any."""
        self.passed_by = False
        """Whether the path has passed by one of these."""
        self.guarded: dict[Place, None] = {}
        """Where somebody would catch an exception that nobody has seen raised."""
        self.failed = False
        """Whether the path has had one raised."""
        self.answered: list[Place] = []
        """The undecided conditions that were answered, in order."""
        self.passed: dict[ast.AST, str] = {}
        """The conditions that were met, decided or not, with the files that they stand in."""
        self.came_out: set[tuple[ast.AST, bool]] = set()
        """How those came out, and the parts of their tests that values decide."""
        self.led_out: dict[ast.If, None] = {}
        """Those whose answer has led out of the block around them."""
        self.followers: dict[Place, dict[ast.If, None]] = {}
        """The `if`s that the answer to a condition has decided as well, by its place."""
        self.followed: list[Place] = []
        """Where those were asked on whose answers the condition that is being decided hangs."""
        self.hidden: set[Place] = set()
        """The conditions that hang on code which is not visible, or came out against the default of an option."""
        self.among: dict[Place, Place] = {}
        """The questions which class, function or module a setting takes from a table, with the first of that table."""
        self.answering: dict[int, Place] = {}
        """The unknown values that the answers to conditions were about, by identity, with their places."""
        self.passed_raises: set[Place] = set()
        """The `raise` statements that the path, or the one with the likelier answers alone, has gone on past."""
        self.counts_by_options = False
        """Whether a graph can hang on a condition that comes round as often as an option says."""
        self.leaving: dict[ast.AST, bool] = {}
        """The conditions that lead out of a loop without another end, with that answer, while it is run a last time."""
        self.going_on: dict[tuple[int, str], Flag] = {}
        """The flags by which the loops go on that are being run, by namespace and name."""
        self.flagged: dict[tuple[int, str], Value] = {}
        """What a condition in a loop has asked of such a flag last, and was taken to let the loop go on."""
        self.longer = 0
        """The least number of elements for what nobody knows the length of; 0 where the usual number will do."""
        self._ranges: dict[Place, int] = {}
        """The most numbers that each range has had, and elements that each part of a list."""
        self._parts: set[Place] = set()
        """Those of them that are parts of lists."""
        self.lengths: list[Length] = []
        """The lengths that nobody knows and that the path has settled on."""
        self.passes_failures = False
        """Whether a backward that finds its graph freed or changed does not end the run."""

    def choose(
        self,
        node: ast.AST,
        default: bool,
        text: str,
        statement: ast.AST | None = None,
        *,
        likelier: bool = False,
        counted: bool = False,
        cuts: tuple[int, ...] = (),
        hidden: bool = False,
        usual: bool | None = None,
        setting: Callable[[bool], Setting | None] | None = None,
        reaches: bool | None = None,
    ) -> bool:
        """Answer an undecidable condition as the policy of this path says.

        `statement` is what the condition decides about. Where `likelier` the policy is not asked; `counted` where it
        compares what a loop counts up, `cuts` are those of the numbers that it asks. `hidden` says that it hangs on
        code which is not visible, `usual` how it comes out where options keep their defaults, `setting` how an option
        is given for an answer; `reaches` which answer says that a loop has counted up to a number that nobody knows.
        """
        place = self._position.place(node)
        asked = self.asked.get(place)
        if asked is None:
            asked = self.asked[place] = Asked(default=default, statement=statement)
        pattern = self.policy.patterns.get(place)
        answer = default if pattern is None or likelier else pattern[min(asked.times, len(pattern) - 1)]
        asked.times += 1
        self.answered.append(place)
        last = statement.end_lineno if isinstance(statement, ast.stmt) else None
        hangs_on: Literal["data", "condition", "setting"] = "data"
        if hidden or usual not in (None, answer):
            hangs_on = "condition" if hidden else "setting"
            self.hidden.add(place)
        given = setting(answer) if setting is not None else None
        reached = None if reaches is None else answer is reaches
        at = self._position.site(node)
        self._writer.emit(Decision(at, text, answer, last or 0, counted, cuts, hangs_on, given, reached))
        return answer

    def note_flag(self, asked: tuple[Flag, bool] | None, answer: bool) -> None:
        """Note how a condition came out that asks a flag by which a loop around it goes on, and its likelier answer."""
        if asked is not None and not asked[0].last and answer is asked[1]:
            self.flagged[asked[0].loop, asked[0].name] = asked[0].begun

    def pass_by(self, loop: ast.AST, at: ast.AST, text: str) -> bool:
        """Whether the path passes by a loop of which nobody knows whether it goes round at all, or what else goes over
        elements.

        A path does where its policy says so; that one enters it makes nothing less certain. `text` is what it goes by,
        `at` where no other condition stands.
        """
        place = self._position.place(at)
        self.entered.setdefault(place, loop)
        if place not in self.policy.patterns:
            return False
        enters = self.choose(at, True, text, loop)
        self.passed_by = self.passed_by or not enters
        return not enters

    def met(self, node: ast.AST, answer: bool) -> None:
        """Note a condition that came out so, whatever decided it."""
        self.passed.setdefault(node, self._position.frames[-1].file)
        self.came_out.add((node, answer))

    def fails(self, node: ast.AST) -> bool:
        """Whether the path has an exception raised where somebody would catch it: one does where its policy says so.

        What follows shows nothing of its own, but may disprove what others show. The `node` stands for the place.
        """
        if self._position.place(node) not in self.policy.patterns:
            return False
        fails = not self.choose(node, True, "nothing raises")
        self.failed = self.failed or fails
        return fails

    def guard(self, *nodes: ast.AST) -> None:
        """Note places where somebody would catch what may be raised there."""
        self.guarded.update(dict.fromkeys(map(self._position.place, nodes)))

    def length(self, usual: int) -> int:
        """Return the length that a path settles on for the next thing of which nobody knows how long it is."""
        if not self.policy.length:
            return max(usual, self.longer)
        other = self.policy.length
        if other not in limits.OTHER_LENGTHS:
            return other
        other += len(self.lengths) * (2 if other < usual else limits.LENGTHS_APART)
        # What asks for every second one asks either way.
        return other + (other % 2 == (usual if usual == limits.BATCHES_BOUND else limits.LOOP_BOUND) % 2)

    def goes_over(self, node: ast.AST, count: int, *, part: bool = False) -> None:
        """Note how many numbers a range has, or how many elements a `part` of a list."""
        place = self._position.place(node)
        self._ranges[place] = max(count, self._ranges.get(place, 0))
        if part:
            self._parts.add(place)

    @property
    def starved(self) -> dict[Place, int]:
        """The ranges and parts of lists that are shorter than is taken for granted of a loop, with how many elements
        each has to have instead, where the path has reckoned with lengths that nobody knows.
        """
        short = [(place, most) for place, most in self._ranges.items() if most < limits.SURE_ITERATIONS]
        enough = {place: limits.LONGER_LEAST if most or place in self._parts else 1 for place, most in short}
        return enough if self.reckons else {}

    def feeds(self, starved: Mapping[Place, int]) -> bool:
        """Whether some of these have as many elements in this path as they have to have."""
        return any(self._ranges.get(place, 0) >= enough for place, enough in starved.items())

    @property
    def reckons(self) -> bool:
        """Whether the path has reckoned with a length that nobody knows."""
        return any(one.asked() for one in self.lengths)

    def end(self) -> None:
        """Note the lengths that the path has settled on, each as a condition, if it has reckoned with any."""
        for one in self.lengths if self.reckons or self.policy.length else ():
            hangs_on: Literal["data", "condition"] = "condition" if one.hidden else "data"
            text = f"{one.text} == {one.number()!r}"
            self._writer.emit(Decision(one.at, text, not self.policy.length, hangs_on=hangs_on))

    def answers(self, unknowns: Iterable[object]) -> None:
        """Note which unknown values the last answer was about, by their identity: who asks keeps them alive."""
        for one in unknowns:
            self.answering.setdefault(id(one), self.answered[-1])

    def follow(self, unknowns: Iterable[object], node: ast.If) -> None:
        """Note that an earlier answer about unknown values has decided another `if`."""
        for one in unknowns:
            place = self.answering.get(id(one))
            if place is not None:
                self.followers.setdefault(place, {})[node] = None
                if place not in self.followed:
                    self.followed.append(place)

    def goes_past(self, place: Place) -> bool:
        """Whether the path goes on past a `raise` to which answers of conditions have led: note it if so.

        A path that answers a condition otherwise does so where the one with the likelier answers did.
        """
        if not self.policy.patterns:
            self.passed_raises.add(place)
        return place in self.passed_raises

    def repeats(self, decisions: Iterable[Decision]) -> bool:
        """Whether the policy answers these conditions as before, were they asked again in this order."""
        times: dict[Place, int] = {}
        for decision in decisions:
            place = place_of(decision)
            pattern = self.policy.patterns.get(place)
            if pattern is not None:
                time = self.asked[place].times + times.get(place, 0)
                times[place] = times.get(place, 0) + 1
                if pattern[min(time, len(pattern) - 1)] != decision.taken:
                    return False
        return True

    def repeat(self, decision: Decision) -> None:
        """Note that a condition was asked and answered once more; the event is written elsewhere."""
        place = place_of(decision)
        self.asked[place].times += 1
        self.answered.append(place)

    @property
    def guesses(self) -> list[ast.AST]:
        """The statements of this path that were undecided."""
        return [asked.statement for asked in self.asked.values() if asked.statement is not None]


def place_of(decision: Decision) -> Place:
    """Return where a condition stands."""
    span = decision.at.span
    return span.file, span.line, span.column
