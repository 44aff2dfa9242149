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

    def note(
        self, patterns: Mapping[Place, tuple[bool, ...]], asked: Mapping[Place, Asked], entered: Collection[Place]
    ) -> None:
        """Note the answers of a way; one that answers a condition now so and now so has tried no combination."""
        if all(len(set(pattern)) == 1 for pattern in patterns.values()):
            answers = {**dict.fromkeys(entered, True), **{place: one.default for place, one in asked.items()}}
            self.tried.append({**answers, **{place: patterns[place][0] for place in patterns if place in answers}})

    def missing(self, places: Collection[Place], vain: Iterable[Answers]) -> Answers | None:
        """Return answers to some conditions that no way has given together, None where there are none; `vain` are such
        as have not come about.
        """
        wanted = frozenset(places)
        tried = [{place: one[place] for place in one.keys() & wanted} for one in self.tried]
        return _missing({}, [*tried, *vain])


def _missing(answers: Answers, tried: Iterable[Answers]) -> Answers | None:
    """Return answers that go on from some and that none of those that were tried agrees with."""
    agreeing = [one for one in tried if all(answers.get(place, answer) == answer for place, answer in one.items())]
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
