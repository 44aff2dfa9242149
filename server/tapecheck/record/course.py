"""How a recorded run went: which lines and files ran, and what was not looked at."""

from __future__ import annotations

from dataclasses import dataclass

from tapecheck.record.files import Files
from tapecheck.tape import Site, Span

OF_PARTS = ("part-hits", "part-unsure")
Extent = tuple[int, int, int, int]


@dataclass(slots=True)
class Part:
    """What may be left out of a line: how often it ran, `unsure` where it may have run more often, or at all."""

    hits: int = 0
    unsure: bool = False


class Course:
    """Which lines and files ran, how long the recorder looked, and what ran beside it."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self.hits: dict[tuple[str, int], int] = {}
        """How often a line ran, by whole path and row."""
        self.loops: dict[tuple[str, int], set[int]] = {}
        """The runs of loops within which a line ran."""
        self.called: dict[tuple[str, int], int] = {}
        """How many functions of the program's own were called from a line, of those that findings are on."""
        self.parts: dict[str, dict[Extent, Part]] = {}
        """How often what may be left out of a line ran, by file and extent."""
        self.passed = False
        """Whether calls of modules ran without being looked into."""
        self.cut_short = 0.0
        """The seconds after which the recorder looked no more at what is kept, 0 where it did to the end."""
        self.written_for = 0.0
        """The seconds after which the recorder wrote no more calls that it would have, 0 where it did to the end."""
        self.recorded: set[str] = set()
        """The files of which code ran that was recorded."""
        self.not_loaded: set[str] = set()
        """The files with findings that the program certainly did not load."""
        self.on_device = False
        """Whether the program used memory of a CUDA device."""
        self.unseen = False
        """Whether another trace function took the recorder's place: lines ran that it did not see."""
        self.elsewhere = ""
        """What ran and was not recorded: processes in which lines may have run that did not here."""

    def measure(self, name: str, at: Site, exact: float) -> None:
        """Note what was measured of the run as a whole, or of a line, if it is of its course."""
        value = int(exact)
        match name:
            case "line-hits":
                key = (self._files.real(at.file), at.line)
                self.hits[key] = max(self.hits.get(key, 0), value)
                self.loops.setdefault(key, set()).update(loop for loop, _ in at.iteration)
            case "functions-called":
                key = (self._files.real(at.file), at.line)
                self.called[key] = max(self.called.get(key, 0), value)
            case "passed-calls":
                self.passed = value > 0
            case "recorded-file":
                self.recorded.add(self._files.real(at.file))
            case "file-not-loaded":
                self.not_loaded.add(self._files.real(at.file))
            case "looking-stopped":
                self.cut_short = exact
            case "writing-stopped":
                self.written_for = exact
            case "cuda-peak-memory":
                self.on_device = self.on_device or exact > 0
            case "lines-unseen":
                self.unseen = True
            case "forked-processes":
                self.elsewhere = f"{value} forked process{'es' * (value > 1)} ran backward calls and"
            case "other-processes":
                self.elsewhere = self.elsewhere or "processes that it started"

    def measure_part(self, name: str, at: Site, value: int) -> None:
        """Note how often a part of a line ran, or whether that is all."""
        part = self.parts.setdefault(self._files.real(at.file), {}).setdefault(_extent(at.span), Part())
        if name == "part-hits":
            part.hits = max(part.hits, value)
        else:
            part.unsure = value > 0

    def part_of(self, span: Span) -> Part | None:
        """Return the least part of a line that has all of a span; None where the span runs whenever its line does."""
        mine = _extent(span)
        around = [
            (extent, part)
            for extent, part in self.parts.get(self._files.real(span.file), {}).items()
            if extent[:2] <= mine[:2] and mine[2:] <= extent[2:]
        ]
        return max(around, key=lambda one: (one[0][:2], -one[0][2], -one[0][3]))[1] if around else None


def _extent(span: Span) -> Extent:
    return (span.line, span.column, span.end_line, span.end_column)
