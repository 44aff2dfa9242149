"""A tape: the events of one run, with what their producer knows about the run as a whole."""

from __future__ import annotations

from dataclasses import dataclass, field

from tapecheck.tape.events import LEFT_OVER, End, Event
from tapecheck.tape.ledger import Ledger, Traversal


@dataclass(slots=True)
class Tape:
    """The events of one run, in order. `producer` is for people: no rule reads it.

    `ledger` is that of all events where their producer kept one, which saves the reader the replay. `beyond` are, for a
    dry run that ends where a backward fails, the ways through the program as it goes on once that is mended: there
    a call that finds its graph freed or changed is passed over. Only what no mending can make wrong is read in them.
    `untried` are the conditions (file, line, column) on which a graph may hang and that no way answered otherwise;
    `keeping` those of them whose other answer leads to no code that clears or sets a gradient, `leaving` those of these
    that leave the block, to what the tape may have run later. `uncovered` are conditions that choose together what a
    statement acts upon, of which not all answers were tried together.
    `started` is the function that a dry run began with unknown arguments, empty where the program runs from its start:
    what the caller has switched off is not known then; `uncalled` says that nobody in its project calls it.
    `by_default` says that options which loops count by keep their defaults in it, `refutes_only` that it passes by a
    loop of which nobody knows whether it goes round at all, or answers many conditions otherwise at once: what it shows
    may disprove what others say, and is no finding of its own; `together` that it does so by the answers alone.
    `identity` tells it from others, for as long as anybody keeps that.
    """

    producer: str
    events: list[Event] = field(default_factory=list)
    ledger: Ledger | None = field(default=None, repr=False, compare=False)
    beyond: list[Tape] = field(default_factory=list, repr=False, compare=False)
    untried: frozenset[tuple[str, int, int]] = field(default=frozenset(), repr=False, compare=False)
    keeping: frozenset[tuple[str, int, int]] = field(default=frozenset(), repr=False, compare=False)
    leaving: frozenset[tuple[str, int, int]] = field(default=frozenset(), repr=False, compare=False)
    uncovered: frozenset[tuple[str, int, int]] = field(default=frozenset(), repr=False, compare=False)
    started: str = field(default="", repr=False, compare=False)
    uncalled: bool = field(default=False, repr=False, compare=False)
    by_default: bool = field(default=False, repr=False, compare=False)
    refutes_only: bool = field(default=False, repr=False, compare=False)
    together: bool = field(default=False, repr=False, compare=False)
    identity: object = field(default_factory=object, init=False, repr=False, compare=False)

    @property
    def complete(self) -> bool:
        """Return whether the program ran to its own end, so that "never" can be said."""
        return bool(self.events) and isinstance(self.events[-1], End) and self.events[-1].how == "finished"

    @property
    def left_over(self) -> bool:
        """Return whether the way was cut short because earlier ones had used the budget up, as others were not
        begun.
        """
        last = self.events[-1] if self.events else None
        return isinstance(last, End) and last.how == "budget" and last.detail == LEFT_OVER


def replay(tape: Tape) -> tuple[Ledger, list[Traversal]]:
    """Feed all events of a tape to a fresh ledger; return it with the traversals in the order of the backwards."""
    ledger = Ledger()
    for event in tape.events:
        ledger.feed(event)
    return ledger, list(ledger.traversals.values())
