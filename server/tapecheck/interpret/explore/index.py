"""What the functions of a file can do to graphs with all that they call: one index for each parsed file.

A *body* is a function, a method or a lambda's function around it; everything in it counts as its own, nested functions
too. Its effects are closed over what it calls (`closures`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tapecheck.interpret.explore.closures import CallGraph
from tapecheck.interpret.explore.definitions import Definitions
from tapecheck.interpret.explore.effects import Assignment, Facts
from tapecheck.interpret.explore.reachable import closed
from tapecheck.source import Source

_LAYERS = frozenset(("nn",))
"""What the names of layers that are made begin with."""
_OF_ENVIRONMENTS = frozenset(("reset", "step"))
"""Methods of gymnasium's environments: what they are given decides nothing that they return."""


class Index:
    """The bodies of one file, with what they can do by themselves and by what they call.

    `before` is the index of an earlier state of the file: what it has worked out is taken over as far as the edit
    cannot have changed it.
    """

    def __init__(self, source: Source, before: Index | None = None) -> None:
        self.notes = source.notes
        self.suspends = "yield" in source.text or "await" in source.text
        self.defined = Definitions(source)
        self.calls = CallGraph(self.defined)
        self.numbers = NumberFlow(self.defined)
        if before is not None and self.defined.names == before.defined.names:
            pairs = zip(self.defined.parts(), before.defined.parts())
            changed = [(now, then) for now, then in pairs if now is not then and now != then]
            self.calls.take_over(before.calls, changed)
            self.numbers.take_over(before.numbers, changed)


class NumberFlow:
    """Which names of a file hold numbers that conditions, loops and flags depend on."""

    def __init__(self, defined: Definitions) -> None:
        self._defined = defined
        self._tested: frozenset[str] | None = None
        self._steering: frozenset[str] | None = None
        self._leads: dict[str, set[str]] | None = None
        self._from: dict[str, set[str]] | None = None
        self._made: frozenset[str] | None = None

    def take_over(self, before: NumberFlow, changed: list[tuple[Facts, Facts]]) -> None:
        """Take over what was worked out for an earlier state of the file, where what has changed decides the same."""
        made = before._made
        if made is not None and all(_decides_alike(now, then, made) for now, then in changed):
            self._made = made
            self._tested, self._steering = before._tested, before._steering
            self._leads, self._from = before._leads, before._from

    @property
    def tested(self) -> frozenset[str]:
        """The last parts of names that some condition, loop or flag of a backward hangs on, directly or by a name."""
        if self._tested is None:
            self._tested = self._worked_out_from({name for facts in self._defined.parts() for name in facts.tested})
        return self._tested

    @property
    def steering(self) -> frozenset[str]:
        """Of the names in `tested` those that do more than choose a side of an `if`."""
        if self._steering is None:
            self._steering = self._worked_out_from({name for facts in self._defined.parts() for name in facts.steering})
        return self._steering

    def _worked_out_from(self, names: set[str]) -> frozenset[str]:
        """Some names with those that they are worked out from."""
        if self._from is None:
            self._from = {}
            for targets, sources in self._worked_out():
                for target in targets:
                    self._from.setdefault(target, set()).update(sources)
        return frozenset(closed(names, self._from))

    def tests(self, name: str) -> bool:
        """Return whether a name is one of `tested`."""
        return name in self.tested

    def steers(self, name: str) -> bool:
        """Return whether a name is one of `steering`."""
        return name in self.steering

    def leads_to(self, name: str) -> frozenset[str]:
        """Return the names whose values a name goes into, itself among them; all by their last parts."""
        if self._leads is None:
            self._leads = {}
            for targets, sources in self._worked_out():
                for source in sources:
                    self._leads.setdefault(source, set()).update(targets)
        return frozenset(closed((name,), self._leads))

    def _worked_out(self) -> Iterator[tuple[frozenset[str], frozenset[str]]]:
        """Yield for each assignment its targets and the names that their numbers are worked out from."""
        layers = self._layers()
        unknown = layers | (_OF_ENVIRONMENTS - self._defined.callables)
        for facts in self._defined.parts():
            for one in facts.assignments:
                names = one.names
                for called, passed in one.passed:
                    name = called.removeprefix(".")
                    # What else is called may well give a number that it is given.
                    if name not in unknown:
                        names |= passed | {name}
                yield one.targets, names

    def _layers(self) -> frozenset[str]:
        """Return the names in which the file stores nothing but layers and models that it makes."""
        defined = self._defined
        modules = {name for name in defined.class_nodes if defined.is_module(name) and not self._hands_on(name)}
        modules |= _LAYERS
        made: set[str] = set()
        others: set[str] = set()
        for facts in self._defined.parts():
            for one in facts.assignments:
                (others if one.made.isdisjoint(modules) else made).update(one.targets)
        self._made = frozenset(made)
        for facts in self._defined.parts():
            for targets, names in facts.gone_through:
                (others if names.isdisjoint(made - others) else made).update(targets)
        return frozenset(made - others)

    def _hands_on(self, name: str) -> bool:
        """Whether a module, as far as the text of its forward says, may return a number that it is given."""
        family = self._defined.family(name)
        return any(body.facts.hands_on for one in family for body in self._defined.classes[one].values())


Answers = dict[tuple[Callable[[NumberFlow, str], object], str], object]
"""What the numbers of a file were asked, and of which name, with the answer."""


class Told:
    """What a file's numbers were asked while something was worked out.

    The whole file decides the answers: what was worked out holds in another state of it that gives the same ones.
    """

    def __init__(self, numbers: NumberFlow) -> None:
        self.numbers = numbers
        self.answers: Answers = {}

    def tests(self, name: str) -> bool:
        """As `NumberFlow` has it."""
        answer = self.answers[NumberFlow.tests, name] = self.numbers.tests(name)
        return answer

    def steers(self, name: str) -> bool:
        """As `NumberFlow` has it."""
        answer = self.answers[NumberFlow.steers, name] = self.numbers.steers(name)
        return answer

    def leads_to(self, name: str) -> frozenset[str]:
        """As `NumberFlow` has it."""
        answer = self.answers[NumberFlow.leads_to, name] = self.numbers.leads_to(name)
        return answer


def answers_the_same(numbers: NumberFlow, answers: Answers) -> bool:
    """Return whether the numbers of a state of the file give these answers."""
    return all(ask(numbers, name) == known for (ask, name), known in answers.items())


def _decides_alike(now: Facts, then: Facts, made: frozenset[str]) -> bool:
    """Whether two pieces of code have the same conditions and loops, which hang on the same names.

    `made` are names that layers and models are stored in: another value may be stored in one of them, too.
    """
    return (
        now.tested == then.tested
        and now.steering == then.steering
        and now.gone_through == then.gone_through
        and now.hands_on == then.hands_on
        and [one for one in now.assignments if _leads(one, made)]
        == [one for one in then.assignments if _leads(one, made)]
    )


def _leads(assignment: Assignment, made: frozenset[str]) -> bool:
    """Whether an assignment says what a value is worked out from, or is to a name that holds layers, too."""
    value = assignment.names or assignment.passed or assignment.made
    return bool(value) or not assignment.targets.isdisjoint(made)


def index_of(source: Source) -> Index:
    """Return the index of a parsed file, made once for each state of it."""
    return source.notes.of_file(_indexed, source)


def _indexed(before: Index | None, source: Source) -> Index:
    return Index(source, before)
