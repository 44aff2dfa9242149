"""Tries a fix: the program as it is and the program as mended, run with the same seed, held beside each other."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Union

from tapecheck.fixes.edit import Change, Edit, TextIndex, apply, settle
from tapecheck.record.evidence import judge
from tapecheck.record.run import Output, Progress, RunRequest, RunResult, run
from tapecheck.record.words import bytes_text
from tapecheck.tape import Measure, Raised

SEED = 0


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two runs: how it ended, the rules it broke (`times`: how many findings of each), what was measured.

    `learned` is a digest of the parameters at the end, "" where there were none; `memory` is in bytes, 0 where it is
    not known, `seconds` per iteration after the first, None where there were fewer than three.
    """

    ended: str
    exception: str
    rules: tuple[str, ...]
    learned: str
    memory: int
    seconds: float | None
    iterations: int
    times: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Trial:
    """What running a fix showed."""

    before: Side
    after: Side

    @property
    def same_parameters(self) -> bool | None:
        """Return whether both runs learned the same, bit for bit; None where one of them did not come to its end."""
        sides = (self.before, self.after)
        if any(side.ended != "finished" or not side.learned for side in sides):
            return None
        return self.before.learned == self.after.learned

    def text(self) -> str:
        """Return what changed, in one line."""
        before, after = self.before, self.after
        parts = []
        if before.exception:
            told = f"it raises {after.exception}" if after.exception else "the exception is gone"
            parts.append(told if after.exception != before.exception else "the same exception is raised")
        elif after.exception:
            parts.append(f"it raises {after.exception}, which the program before did not")
        gone = [rule for rule in before.rules if rule not in after.rules]
        new = [rule for rule in after.rules if rule not in before.rules]
        if gone:
            parts.append(f"{', '.join(gone)} no longer happens")
        if new:
            parts.append(f"{', '.join(new)} happens now")
        for rule in before.rules:
            was, now = before.times.get(rule, 0), after.times.get(rule, 0)
            if rule in after.rules and was != now:
                parts.append(f"{rule} happens in {now} place{'s' * (now != 1)} instead of {was}")
        same = self.same_parameters
        finished = before.ended == after.ended == "finished"
        if finished and not before.learned and not after.learned:
            parts.append("there are no parameters to compare at the end")
        elif same is None:
            parts.append("the parameters cannot be compared, since not both runs came to their end")
        else:
            parts.append("the parameters are identical" if same else "the parameters are not the same")
        if before.memory and after.memory:
            parts.append(f"peak memory {bytes_text(before.memory)} before, {bytes_text(after.memory)} after")
        if before.seconds is not None and after.seconds is not None:
            parts.append(f"{_time(before.seconds)} an iteration before, {_time(after.seconds)} after")
        return "; ".join(parts)

    def table(self) -> list[tuple[str, str, str]]:
        """Return both runs beside each other: what was looked at, the program as it is, the program as mended."""
        before, after = self.before, self.after
        same = self.same_parameters
        learned = "the same, bit for bit" if same else "not the same"
        learned = "not compared: not both runs came to their end" if same is None else learned
        rows = [
            ("ended", _ending(before), _ending(after)),
            ("rules broken", ", ".join(before.rules) or "none", ", ".join(after.rules) or "none"),
            ("iterations", str(before.iterations), str(after.iterations)),
            ("parameters learned", "–", learned),
        ]
        if before.memory or after.memory:
            rows.append(("peak memory", _memory(before.memory), _memory(after.memory)))
        if before.seconds is not None or after.seconds is not None:
            rows.append(("time an iteration", _seconds(before.seconds), _seconds(after.seconds)))
        return rows

    def measured(self) -> dict[str, Any]:
        """Return the same as data."""
        return {
            "text": self.text(),
            "parameters_identical": self.same_parameters,
            "before": dataclasses.asdict(self.before),
            "after": dataclasses.asdict(self.after),
        }


def edited(text: str, file: str, edits: Sequence[Edit]) -> str | None:
    """Return a text with the edits of a fix made; None where some are in other files."""
    if not edits or any(edit.span.file != file for edit in edits):
        return None
    index = TextIndex(text)
    changes = settle(
        text,
        (
            Change(
                index.offset(edit.span.line, edit.span.column),
                index.offset(edit.span.end_line, edit.span.end_column),
                edit.content,
            )
            for edit in edits
        ),
    )
    return None if changes is None else apply(text, changes)


def side(
    request: RunRequest,
    on_event: Callable[[Union[Output, Progress]], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Side:
    """Run one of the two programs; raises RunError as `run` does."""
    return side_of(run(dataclasses.replace(request, seed=SEED), on_event, cancelled), request.cwd)


def side_of(result: RunResult, directory: str | None) -> Side:
    """Return what a run that was made with a seed came to."""
    measures = {event.name: event.value for event in result.tape.events if isinstance(event, Measure)}
    learned = next((name.partition(":")[2] for name in measures if name.startswith("learned:")), "")
    found = judge([], result.tape, directory=directory)
    last = next((event for event in reversed(result.tape.events) if isinstance(event, Raised)), None)
    return Side(
        ended=result.how_ended,
        exception=last.message if last is not None and result.how_ended == "raised" else "",
        rules=tuple(dict.fromkeys(finding.name for finding in found)),
        learned=learned if measures.get(f"learned:{learned}") else "",
        memory=int(measures.get("cuda-peak-memory", 0) or measures.get("peak-memory", 0)),
        seconds=measures.get("iteration-seconds"),
        iterations=result.iterations,
        times=dict(Counter(finding.name for finding in found)),
    )


def _ending(side: Side) -> str:
    if not side.exception:
        return side.ended
    return f"raised: {side.exception.partition('. ')[0].partition(' (or ')[0]}"


def _memory(count: int) -> str:
    return bytes_text(count) if count else "not known"


def _seconds(seconds: float | None) -> str:
    return _time(seconds) if seconds is not None else "too few to tell"


def _time(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1e3:.1f} ms"
