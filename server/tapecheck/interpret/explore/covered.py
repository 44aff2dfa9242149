"""Which combinations of answers the ways of a start have tried, of those that choose what some code acts upon."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from tapecheck.interpret.state import Asked, Place

Answers = Mapping[Place, bool]
"""Answers to conditions, by their places: all combinations of answers that agree with these."""


@dataclass(slots=True)
class Covered:
    """The answers of the ways that were run, each as far as it was asked."""

    tried: list[Answers] = field(default_factory=list)
    failed: list[Answers] = field(default_factory=list)
    """Those of them that did not come to the end of the program."""

    def note(
        self,
        patterns: Mapping[Place, tuple[bool, ...]],
        asked: Mapping[Place, Asked],
        entered: Collection[Place],
        *,
        complete: bool,
    ) -> None:
        """Note the answers of a way; one that answers a condition now so and now so has tried no combination."""
        if all(len(set(pattern)) == 1 for pattern in patterns.values()):
            answers = {**dict.fromkeys(entered, True), **{place: one.default for place, one in asked.items()}}
            given = {**answers, **{place: patterns[place][0] for place in patterns if place in answers}}
            self.tried.append(given)
            if not complete:
                self.failed.append(given)

    def missing(self, places: Collection[Place], vain: Iterable[Answers], fixed: Answers) -> Answers | None:
        """Return answers to some conditions that no way has given together with those that are `fixed`, None where
        there are none; `vain` are such as have not come about.
        """
        wanted = {*places, *fixed}
        tried = [{place: one[place] for place in one.keys() & wanted} for one in self.tried]
        return _missing(fixed, [*tried, *vain])

    def fails_with(self, fixed: Answers) -> bool:
        """Return whether a way that gave some answers did not come to the end of the program."""
        return any(_agree(one, fixed) for one in self.failed)


def _agree(one: Answers, other: Answers) -> bool:
    return all(other.get(place, answer) == answer for place, answer in one.items())


def _missing(answers: Answers, tried: Iterable[Answers]) -> Answers | None:
    """Return answers that go on from some and that none of those that were tried agrees with."""
    agreeing = [one for one in tried if _agree(one, answers)]
    first = next(iter(agreeing), None)
    if first is None:
        return answers
    place = min(first.keys() - answers.keys(), default=None)
    if place is None or any(one.keys() <= answers.keys() for one in agreeing):
        return None
    for answer in (first[place], not first[place]):
        found = _missing({**answers, place: answer}, agreeing)
        if found is not None:
            return found
    return None
