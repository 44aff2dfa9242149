"""The tape being written: its events, the ledger that follows them, and the numbers of what they mention."""

from __future__ import annotations

from dataclasses import replace

from tapecheck.interpret.values import Storage
from tapecheck.tape import Backward, End, Ending, Event, Ledger, NoEffect, Step, Tape, Traversal

_TRAINING = frozenset((Backward, Step))


class TapeWriter:
    """Appends events to a tape and numbers nodes, storages, cuts, loops, backward calls and optimizers."""

    def __init__(self) -> None:
        self.tape = Tape("interpret")
        self.ledger = Ledger()
        self.last_id = 0
        """The newest node or leaf."""
        self.last_storage = 0
        self.cuts = 0
        self.loops = 0
        self.backwards = 0
        self.optimizers = 0
        self._clock_read: int | None = None
        """How many events there were when the program last read a clock."""

    def emit(self, event: Event) -> Traversal | None:
        """Append an event; return what the ledger makes of it where it is a backward."""
        self.tape.events.append(event)
        return self.ledger.feed(event)

    def run_backward(self, event: Backward) -> Traversal:
        traversal = self.emit(event)
        assert traversal is not None
        return traversal

    def clock(self) -> None:
        """Note that the program reads a clock: of what it has computed since it last did, and dropped, it wants to know
        how long that took, unless it has trained meanwhile.
        """
        events, before = self.tape.events, self._clock_read
        self._clock_read = len(events)
        if before is None or not _TRAINING.isdisjoint(map(type, events[before:])):
            return
        for index, event in enumerate(events[before:], before):
            if type(event) is NoEffect:
                events[index] = replace(event, timed=True)

    def end(self, how: Ending, detail: str = "") -> None:
        self.emit(End(how, detail))

    def part(self) -> None:
        """Let go of the tape: what is left of a path refers to itself in circles, and would hold all that it wrote
        until the collector comes by.
        """
        self.tape, self.ledger = Tape("interpret"), Ledger()

    @property
    def has_nodes(self) -> bool:
        """Whether any graph was built so far."""
        return bool(self.ledger.nodes)

    @property
    def has_leaves(self) -> bool:
        """Whether any node or leaf was made so far."""
        return bool(self.last_id)

    @property
    def numbered(self) -> tuple[int, int, int, int]:
        """The newest node or leaf, storage, cut and loop."""
        return self.last_id, self.last_storage, self.cuts, self.loops

    def advance(self, ids: int, storages: int, cuts: int, loops: int) -> None:
        """Skip so many numbers of each: events with these numbers were written."""
        self.last_id += ids
        self.last_storage += storages
        self.cuts += cuts
        self.loops += loops

    def new_id(self) -> int:
        self.last_id += 1
        return self.last_id

    def new_storage(self) -> Storage:
        self.last_storage += 1
        return Storage(self.last_storage)

    def new_cut(self) -> int:
        self.cuts += 1
        return self.cuts

    def next_backward(self) -> int:
        self.backwards += 1
        return self.backwards
