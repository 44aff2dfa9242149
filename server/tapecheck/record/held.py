"""What loops hold after their iterations, and what graphs kept by a flag took, as the recorder measured it."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

from tapecheck.record.files import Files
from tapecheck.tape import Hold, Site, Span

CONSECUTIVE = 5
"""So many first iterations of a loop are all looked at for held values; the later ones only now and then."""
CONSECUTIVE_OF_LATE = 4
"""The same of a loop whose first backward does not come soon: from that iteration on."""
CONSECUTIVE_OF_HIDDEN = 7
"""The same of a loop that no line shows: its first two iterations ran before it was found."""
_LEVEL = 3
"""So many samples in a row, each half as many iterations later as the one before, tell that no more is kept."""
NAMED = 2_000
"""So many held nodes of a holder are named on a tape: of more, the latest."""
_COUNTED = 2_000
"""So many kept graph nodes are counted one by one, whatever keeps them."""
OF_HOLDS = {"held-nodes": "nodes", "held-bytes": "size", "held-own-bytes": "own"}
"""Measures of what a loop holds, with the field of a sample that each is."""


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
    scope: Span | None = None
    """The function that the holder is a variable of, or that remembers; see `Hold`."""

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


class Holdings:
    """What is held: by each holder of a loop, by the whole program, by retained graphs, by loops of modules."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._last: Hold | None = None
        self.series: dict[tuple[int, str, str, int], Series] = {}
        """By run of a loop, holder, file and line."""
        self.live: dict[int, Series] = {}
        """What was alive in all of the program, by run of a loop."""
        self.levels: list[tuple[Site, int]] = []
        """How many graph nodes were alive, in all of the program, after which iterations."""
        self.kept: dict[int, Kept] = {}
        """By backward call."""
        self.watched: dict[Site, dict[str, int]] = {}
        """What was measured of the graphs that modules build in watched loops, by place and calls."""

    def hold(self, event: Hold) -> None:
        """Note which nodes a holder held after an iteration; what they take is measured next."""
        self._last = event
        series = self.series.setdefault(self._key(event), Series(event.loop, event.holder, event.at, scope=event.scope))
        series.samples.append(Sample(event.index, 0, held=event.nodes))

    def measure(self, name: str, holder: str, value: int) -> None:
        """Note a number that was measured of what the latest holder held."""
        if self._last is not None and self._last.holder == holder:
            setattr(self.series[self._key(self._last)].samples[-1], OF_HOLDS[name], value)

    def measure_alive(self, name: str, at: Site, value: int) -> None:
        """Note what was alive after an iteration."""
        loop, index = at.iteration[-1]
        series = self.live.setdefault(loop, Series(loop, "", at))
        if name == "live-nodes":
            series.samples.append(Sample(index, value))
            self.levels.append((at, value))
        elif series.samples:
            series.samples[-1].size = value

    def measure_kept(self, name: str, number: int, at: Site, value: float) -> None:
        """Note what the graph of a retaining call took, or when it went."""
        if name == "retained-bytes":
            self.kept[number] = Kept(int(value))
        elif number in self.kept:
            self.kept[number].gone_at, self.kept[number].seconds = at, value

    def _key(self, event: Hold) -> tuple[int, str, str, int]:
        return event.loop, event.holder, self._files.real(event.at.file), event.at.line
