"""What a recorded run held where most tensors were alive: bytes by kind, and of graphs by source line."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from tapecheck.source.cells import split_cell
from tapecheck.tape import Loop, Measure, Site, Tape
from tapecheck.tape.ranks import parts

Kind = Literal["parameters", "optimizer", "gradients", "saved", "graph", "other"]
KINDS: tuple[Kind, ...] = ("parameters", "optimizer", "gradients", "saved", "graph", "other")
"""What a storage counts as, once: `saved` is what graphs hold for a backward, `graph` their nodes, estimated."""


@dataclass(slots=True)
class Moment:
    """What was alive at one moment of a run: `kinds` in bytes, `lines` the lines whose graphs hold most of it.

    `saved` is what the graphs of lines have saved for a backward, a part of that.
    """

    moment: str
    at: Site
    call: int
    kinds: dict[str, int] = field(default_factory=dict)
    lines: list[tuple[Site, int]] = field(default_factory=list)
    saved: list[tuple[Site, int]] = field(default_factory=list)

    @property
    def total(self) -> int:
        """All bytes."""
        return sum(self.kinds.values())


def moments_of(tape: Tape) -> list[Moment]:
    """Return the moments of one process at which the run looked at all live tensors, in their order."""
    found: list[Moment] = []
    for event in tape.events:
        if not isinstance(event, Measure) or not event.name.startswith("alive"):
            continue
        name, _, about = event.name.partition(":")
        if name == "alive":
            found.append(Moment(about, event.at, int(event.value)))
        elif name == "alive-bytes" and found:
            found[-1].kinds[about] = int(event.value)
        elif name == "alive-line" and found:
            found[-1].lines.append((event.at, int(event.value)))
        elif name == "alive-saved" and found:
            found[-1].saved.append((event.at, int(event.value)))
    return found


def peak_of(found: list[Moment]) -> Moment | None:
    """Return the moment at which most was alive, the first of several alike; None where no run looked."""
    return max(found, key=lambda moment: moment.total, default=None)


def rows(tape: Tape) -> list[dict[str, object]]:
    """Return the peak of each process of a run as JSON: when it was, bytes by kind and by line."""
    told: list[dict[str, object]] = []
    for rank, part in (parts(tape) or {0: tape}).items():
        peak = peak_of(moments_of(part))
        if peak is None:
            continue
        loops = {event.id: event.at.line for event in part.events if isinstance(event, Loop)}
        told.append(
            {
                "rank": rank,
                "moment": peak.moment,
                "backward": peak.call,
                **_place(peak.at),
                "iterations": [{"row": loops.get(loop), "iteration": index} for loop, index in peak.at.iteration],
                "bytes": peak.total,
                "kinds": {kind: peak.kinds.get(kind, 0) for kind in KINDS},
                "lines": [{**_place(site), "bytes": size} for site, size in peak.lines],
            }
        )
    return told


def _place(site: Site) -> dict[str, object]:
    file, cell = split_cell(site.file)
    return {"filename": file, "cell": cell, "row": site.line}
