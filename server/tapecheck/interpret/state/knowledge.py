"""What a path knows of unknown values: which are the same, and what tests have shown of them."""

from __future__ import annotations

from collections.abc import Hashable

from tapecheck.interpret.values import Unknown, Value

Fact = tuple[Unknown, bool, dict[int, Unknown]]
"""An undecided test, its answer, and the unknowns that it is about by id."""


class Knowledge:
    """The unknown values of a path by what they were worked out from, with the answers to tests of them."""

    def __init__(self) -> None:
        self.known: dict[Hashable, Unknown] = {}
        """Unknown values by what they were worked out from: the same expression is one value."""
        self.truths: dict[Hashable, bool] = {}
        self.asked = 0
        """How often the answer to a test of an unknown was asked for."""
        self.facts: list[Fact] = []
        """Undecided tests that were answered, see `python/consequences.py`."""
        self.settled: dict[int, Unknown] = {}
        """The unknowns that such tests were about, with what these are worked out from, by id."""
        self.facts_about: dict[int, list[Fact]] = {}
        """The facts by the unknowns that they mention."""
        self.consequences: dict[int, tuple[int, bool | None, Unknown]] = {}
        """What follows from the facts for a test, with how many facts there were, by the id of the test."""
        self.hosts: dict[Hashable, tuple[Value, bool]] = {}
        """The devices that tensors of the host were moved to, by name or identity, and whether that is the host."""
        self.places: dict[Hashable, int] = {}
        """The places of lists that unknown indices were said to be."""
        self.first_asked: dict[Hashable, Hashable] = {}
        """What the index of a subscript or call is worked out from that was asked about there first."""
        self.rows: dict[Hashable, tuple[Value, list[Value]]] = {}
        """What the entries of a table have in common that an unknown index chooses, and the entries, by both."""
        self.bars: dict[int, Value] = {}
        """The progress bars by identity: calls of their methods only show something."""
