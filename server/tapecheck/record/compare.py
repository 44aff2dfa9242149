"""Two recorded runs beside each other: what each did, and what only one of them shows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from tapecheck.record.evidence import judge
from tapecheck.rules.finding import Finding
from tapecheck.tape import Backward, End, Hold, Iteration, Loop, Measure, Node, Raised, Tape

_Event = TypeVar("_Event")


@dataclass(frozen=True, slots=True)
class Summary:
    """What one tape shows about its run.

    `nodes_alive` and `saved_bytes_alive` are the most that were seen alive after an iteration, `saved_bytes` the most
    before a backward; None where the run never came to look. `iterations` are those of the loops that call backward
    (where none does, autograd.grad), as a run counts them.
    `nodes` counts the graph nodes on the tape: of a long run not every backward call has its nodes written.
    """

    ended: str
    backward_calls: int
    iterations: int
    nodes: int
    nodes_alive: int | None
    saved_bytes_alive: int | None
    saved_bytes: int | None
    exceptions: tuple[str, ...]
    holders: tuple[str, ...]
    findings: tuple[Finding, ...] = field(repr=False)

    def data(self) -> dict[str, object]:
        """Return the same as data, findings as rule and place."""
        row = {name: getattr(self, name) for name in self.__slots__ if name != "findings"}
        row["findings"] = [
            {"code": one.code, "name": one.name, "filename": one.span.file, "row": one.span.line}
            for one in self.findings
        ]
        return row


_MEASURED = {
    "live-nodes": "nodes_alive", "held-nodes": "nodes_alive", "live-saved-bytes": "saved_bytes_alive",
    "held-bytes": "saved_bytes_alive", "alive-bytes:saved": "saved_bytes",
}  # fmt: skip
"""The fields of a summary by the measures of a tape that they are the most of."""


def summary(tape: Tape, directory: str | None = None) -> Summary:
    """Return what a tape shows about its run."""
    calls = [event for event in _of_kind(tape, Backward) if not event.succeeded]
    measures = _of_kind(tape, Measure)
    passed = {event.name: int(event.value) for event in measures if event.name.startswith("passed-")}
    most = _most_measured(measures)
    ended = ["its writer died", *(one.how + (f": {one.detail}" if one.detail else "") for one in _of_kind(tape, End))]
    return Summary(
        ended[-1], len(calls) + passed.get("passed-calls", 0),
        _iterations(tape, calls) + passed.get("passed-iterations", 0),
        len(_of_kind(tape, Node)), most.get("nodes_alive"), most.get("saved_bytes_alive"), most.get("saved_bytes"),
        tuple(map(_told, _of_kind(tape, Raised))), tuple(dict.fromkeys(event.holder for event in _of_kind(tape, Hold))),
        tuple(judge([], tape, directory=directory)),
    )  # fmt: skip


def _iterations(tape: Tape, calls: Sequence[Backward]) -> int:
    """Return how many iterations the loops had that call backward; of a tape without, those that call autograd.grad."""
    places = {event.id: event.at.span for event in _of_kind(tape, Loop)}
    first = [event for event in calls if event.call != "grad"] or calls
    inner = {event.at.iteration[-1][0] for event in first if event.at.iteration}
    training = {places[loop] for loop in inner if loop in places}
    return sum(places.get(event.loop) in training for event in _of_kind(tape, Iteration))


def _told(raised: Raised) -> str:
    """Return an exception in a few words."""
    return f"{raised.exception} on line {raised.at.line}" + (" (caught)" if raised.caught else "")


def _most_measured(measures: Sequence[Measure]) -> dict[str, int]:
    """Return the most of each field that measures are of: all that lives is looked at less often than what is held."""
    most: dict[str, int] = {}
    for event in measures:
        name = _MEASURED.get(event.name) or _MEASURED.get(event.name.partition(":")[0])
        if name is not None:
            most[name] = max(most.get(name, 0), int(event.value))
    return most


def _of_kind(tape: Tape, kind: type[_Event]) -> list[_Event]:
    return [event for event in tape.events if isinstance(event, kind)]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two runs; `only_a` and `only_b` are findings by rule and line text that one of them shows and the other does not.

    Lines of the two programs may differ, so findings are matched by rule and message without its numbers.
    """

    a: Summary
    b: Summary
    only_a: tuple[Finding, ...]
    only_b: tuple[Finding, ...]

    @property
    def same(self) -> bool:
        """Return whether both show the same findings and raise the same exceptions."""
        kinds = [tuple(text.partition(" on line ")[0] for text in side.exceptions) for side in (self.a, self.b)]
        return not self.only_a and not self.only_b and kinds[0] == kinds[1]


def compare(a: Tape, b: Tape, directory: str | None = None) -> Comparison:
    """Hold two tapes beside each other."""
    left, right = summary(a, directory), summary(b, directory)
    return Comparison(left, right, _only(left, right), _only(right, left))


def _only(mine: Summary, other: Summary) -> tuple[Finding, ...]:
    counts = Counter(map(_key, other.findings))
    found = []
    for finding in mine.findings:
        if counts[_key(finding)] <= 0:
            found.append(finding)
        counts[_key(finding)] -= 1
    return tuple(found)


def _key(finding: Finding) -> tuple[str, str]:
    first = finding.message.partition("\n")[0]
    return finding.code, "".join(letter for letter in first if not letter.isdigit())
