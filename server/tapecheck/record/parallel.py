"""Report the parameters that DistributedDataParallel could not reduce, and the lines that say why."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from tapecheck.record.words import names_text
from tapecheck.rules.words import join
from tapecheck.tape import Measure, Site, Tape
from tapecheck.tape.ranks import parts

KINDS = {
    "parallel-unused": ("1 parameter had", "{} parameters had", "no gradient in the iteration before"),
    "parallel-twice": ("1 parameter was", "{} parameters were", "ready twice in one backward"),
}


@dataclass(slots=True)
class Wrapped:
    """What was measured of models that are wrapped for several ranks."""

    shards_watched: bool = False
    """Whether forwards under FSDP2 were looked at, from the first step on."""
    stale_shards: list[tuple[Site, int]] = field(default_factory=list)
    """Forwards that used parameters from before a step, and how many."""
    not_reduced: list[tuple[str, Site, int]] = field(default_factory=list)
    """Where DistributedDataParallel raised, with the kind of measure, and for how many parameters."""

    def measure(self, name: str, at: Site, value: int) -> None:
        """Note what was measured, if it is of wrapped models."""
        match name:
            case "shards-watched" | "shards-unsure":
                # A step that leaves the versions as they were refutes nothing.
                self.shards_watched = name == "shards-watched"
            case "stale-shards":
                self.stale_shards.append((at, value))
            case _ if name in KINDS:
                self.not_reduced.append((name, at, value))


def what_is_missing(kind: str, count: int) -> str:
    """Return what a measure of an exception of DistributedDataParallel says of that many parameters."""
    one, several, what = KINDS[kind]
    return f"{one if count == 1 else several.format(count)} {what}"


def not_reduced(tape: Tape) -> Iterator[str]:
    """Yield what the ranks of a run say: a line for the exception, one for each place that makes the parameters."""
    told: dict[tuple[str, ...], list[int]] = {}
    ranks = parts(tape) or {0: tape}
    for rank, part in ranks.items():
        if lines := tuple(_of(part)):
            told.setdefault(lines, []).append(rank)
    for (first, *rest), on in told.items():
        where = "" if len(on) == len(ranks) else f" (rank {join([str(rank) for rank in on])})"
        yield first + where + ":"
        yield from rest


def _of(tape: Tape) -> Iterator[str]:
    made: dict[tuple[str, bool], list[str]] = {}
    uses: dict[str, list[Site]] = {}
    for event in tape.events:
        if not isinstance(event, Measure):
            continue
        kind, _, name = event.name.partition(":")
        if kind in KINDS:
            yield f"DistributedDataParallel raised at {_place(event.at)}: {what_is_missing(kind, int(event.value))}"
        elif kind == "parallel-parameter":
            made.setdefault((_place(event.at), bool(event.value)), []).append(name)
        elif kind == "parallel-use":
            uses.setdefault(name, []).append(event.at)
    for (place, known), names in made.items():
        text = f"  {names_text(names)}"
        sites = sorted((use for name in names for use in uses.get(name, ())), key=lambda use: (use.file, use.line))
        used = list(dict.fromkeys(map(_place, sites)))
        said = ([f"made at {place}"] if known else []) + ([f"used at {join(used)}"] if used else [])
        yield text + (": " + ", ".join(said) if said else "")


def _place(site: Site) -> str:
    return f"{site.file}:{site.line}"
