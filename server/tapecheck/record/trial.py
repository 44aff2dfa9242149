"""Tries a fix: the program as it is and the program as mended, run with the same seed, held beside each other."""

from __future__ import annotations

import dataclasses
import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Union

from tapecheck.fixes.edit import Edit, apply, changes_of, settle
from tapecheck.record.evidence import judge
from tapecheck.record.run import Output, Progress, RunRequest, RunResult, run
from tapecheck.report.sizes import bytes_text
from tapecheck.rules.finding import Finding
from tapecheck.tape import Measure, Raised, Tape

SEED = 0
SHOWN = ("confirmed", "found-by-run")
"""The verdicts of a run that say a finding is so."""


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two runs: how it ended, the rules it broke (`times`: how many findings of each), what was measured.

    `learned` is a digest of the parameters at the end, "" without any. `memory` is the most that torch's
    allocator had handed out on the device, in bytes, 0 without one; `saved` what graphs had saved of what was alive
    after an iteration, at most, None where that was not measured. `seconds` are per iteration after the first, None
    where there were fewer than three. `verdicts` is what the run says of each finding of the dry run, by its rule and
    place.
    """

    ended: str
    exception: str
    rules: tuple[str, ...]
    learned: str
    memory: int
    seconds: float | None
    iterations: int
    times: dict[str, int] = field(default_factory=dict)
    saved: int | None = None
    verdicts: dict[str, str] = field(default_factory=dict)


_STABLE = 0.1
"""Times are told where those of the same program differ by no more than this share, and the mended one's by more."""


@dataclass(frozen=True, slots=True)
class Trial:
    """What running a fix showed; `again` is a second run of the program as it is, with the same seed.

    What differs between the two runs of the same program tells nothing of the fix. `verdict` is what the run of the
    program as it is says of the finding: nothing is known of a fix of what did not happen.
    """

    before: Side
    after: Side
    again: Side | None = None
    verdict: str = ""

    @property
    def repeats(self) -> bool | None:
        """Return whether the program as it is learns the same each time; None where that is not known."""
        if self.again is None or not self.before.learned or not self.again.learned:
            return None
        return self.before.learned == self.again.learned

    @property
    def times(self) -> tuple[float, float] | None:
        """Return the seconds of an iteration before and after; None where they say nothing.

        They do where the program as it is takes the same time twice, and the mended one another.
        """
        if self.again is None or None in (self.before.seconds, self.again.seconds, self.after.seconds):
            return None
        first, second, after = (side.seconds or 0.0 for side in (self.before, self.again, self.after))
        low, high = min(first, second), max(first, second)
        if high > low * (1 + _STABLE) or low * (1 - _STABLE) <= after <= high * (1 + _STABLE):
            return None
        return (low + high) / 2, after

    @property
    def same_parameters(self) -> bool | None:
        """Return whether both runs learned the same, bit for bit; None where they did not end at the same point: by
        themselves, or at the limit after as many iterations.
        """
        before, after = self.before, self.after
        ends = {(side.ended, side.iterations if side.ended == "stopped" else 0) for side in (before, after)}
        if len(ends) > 1 or before.ended not in ("finished", "stopped") or not (before.learned and after.learned):
            return None
        return before.learned == after.learned

    def text(self) -> str:
        """Return what changed, in one line."""
        before, after = self.before, self.after
        parts = []
        if self.verdict and self.verdict not in SHOWN:
            parts.append(f"the program as it is did not show this ({self.verdict}): what the fix mends is not known")
        told = [*_exceptions(before, after), *_rules(before, after)]
        if self.verdict in SHOWN and not told:
            told.append(
                "the run of the program as it is shows this, and the dry run of the mended one no longer finds it"
            )
        parts += [*told, self._learned()]
        if before.memory and after.memory:
            parts.append(f"torch allocated up to {bytes_text(before.memory)} before, {bytes_text(after.memory)} after")
        if before.saved is not None and after.saved is not None and before.saved != after.saved:
            parts.append(
                f"graphs alive after an iteration had saved up to {bytes_text(before.saved)} before, "
                f"{bytes_text(after.saved)} after"
            )
        if self.times is not None:
            parts.append(f"{_time(self.times[0])} an iteration before, {_time(self.times[1])} after")
        return "; ".join(parts)

    def _learned(self) -> str:
        """Return whether both runs learned the same, in words."""
        before, after, same = self.before, self.after, self.same_parameters
        if before.ended == after.ended == "finished" and not before.learned and not after.learned:
            return "there are no parameters to compare at the end"
        if same is None:
            return f"the parameters cannot be compared, since {self._ends_apart()}"
        if not same and self.repeats is False:
            return "the parameters cannot be compared: those of the program as it is differ from run to run, too"
        when = f" after {after.iterations} iterations, the limit of both runs" if after.ended == "stopped" else ""
        return f"the parameters are {'identical' if same else 'not the same'}{when}"

    def _ends_apart(self) -> str:
        """Return why there is no point at which both runs have parameters to compare."""
        if all(side.ended not in ("finished", "stopped") for side in (self.before, self.after)):
            return "neither run came to its end"
        return "the runs did not end at the same point"

    def table(self) -> list[tuple[str, str, str]]:
        """Return both runs beside each other: what was looked at, the program as it is, the program as mended."""
        before, after = self.before, self.after
        same = self.same_parameters
        learned = "the same, bit for bit" if same else "not the same"
        if same is None:
            learned = f"not compared: {self._ends_apart()}"
        elif not same and self.repeats is False:
            learned = "not compared: the program as it is differs from run to run"
        rows = [
            ("ended", _ending(before), _ending(after)),
            ("rules broken", ", ".join(before.rules) or "none", ", ".join(after.rules) or "none"),
            ("iterations", str(before.iterations), str(after.iterations)),
            ("parameters learned", "–", learned),
        ]
        if before.memory or after.memory:
            rows.append(("allocated by torch at most", _memory(before.memory), _memory(after.memory)))
        if before.saved is not None and after.saved is not None:
            rows.append(("saved by graphs alive after an iteration", bytes_text(before.saved), bytes_text(after.saved)))
        if self.times is not None:
            rows.append(("time an iteration", _time(self.times[0]), _time(self.times[1])))
        return rows

    def measured(self) -> dict[str, object]:
        """Return the same as data."""
        return {
            "text": self.text(),
            "parameters_identical": self.same_parameters,
            "repeats_itself": self.repeats,
            "verdict": self.verdict or None,
            "before": dataclasses.asdict(self.before),
            "after": dataclasses.asdict(self.after),
            "again": dataclasses.asdict(self.again) if self.again is not None else None,
        }


def _exceptions(before: Side, after: Side) -> list[str]:
    if before.exception:
        told = f"it raises {after.exception}" if after.exception else "the exception is gone"
        return [told if after.exception != before.exception else "the same exception is raised"]
    return [f"it raises {after.exception}, which the program before did not"] if after.exception else []


def _rules(before: Side, after: Side) -> list[str]:
    """Return which rules are broken no longer, newly, or in other numbers of places."""
    gone = [rule for rule in before.rules if rule not in after.rules]
    new = [rule for rule in after.rules if rule not in before.rules]
    parts = [f"{', '.join(gone)} no longer happens"] if gone else []
    parts += [f"{', '.join(new)} happens now"] if new else []
    for rule in before.rules:
        was, now = before.times.get(rule, 0), after.times.get(rule, 0)
        if rule in after.rules and was != now:
            parts.append(f"{rule} happens in {now} place{'s' * (now != 1)} instead of {was}")
    return parts


def edited(text: str, file: str, edits: Sequence[Edit]) -> str | None:
    """Return a text with the edits of a fix made; None where some are in other files."""
    if not edits or any(edit.span.file != file for edit in edits):
        return None
    changes = settle(text, changes_of(text, edits))
    return None if changes is None else apply(text, changes)


def with_text(request: RunRequest, text: str, path: str | None = None) -> RunRequest:
    """Return the request that runs a program with another text: that of the script, or of the file at `path`."""
    if path is None:
        return dataclasses.replace(request, text=text)
    return dataclasses.replace(request, instead={os.path.realpath(path): text})


def reread(request: RunRequest) -> RunRequest:
    """Return the request whose files may be given another text: pytest would compile a test's file itself."""
    options = f"{os.environ.get('PYTEST_ADDOPTS', '')} --assert=plain".strip()
    return dataclasses.replace(request, env={"PYTEST_ADDOPTS": options, **request.env})


def side(
    request: RunRequest,
    on_event: Callable[[Union[Output, Progress]], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
    findings: Sequence[Finding] = (),
) -> Side:
    """Run one of the programs; `findings` are those of the dry run of it. Raises RunError as `run` does."""
    return side_of(run(dataclasses.replace(request, seed=SEED), on_event, cancelled), request.cwd, findings)


def side_of(result: RunResult, directory: str | None, findings: Sequence[Finding] = ()) -> Side:
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
        memory=int(measures.get("cuda-peak-memory", 0)),
        seconds=measures.get("iteration-seconds"),
        iterations=result.iterations,
        times=dict(Counter(finding.name for finding in found)),
        saved=_most_saved(result.tape),
        verdicts=_verdicts(findings, result.tape, directory) if findings else {},
    )


def _most_saved(tape: Tape) -> int | None:
    """Return the most saved bytes that were seen alive: all that lives is looked at less often than what is held."""
    events = (event for event in tape.events if isinstance(event, Measure))
    saved = (int(one.value) for one in events if one.name.partition(":")[0] in ("live-saved-bytes", "held-bytes"))
    return max(saved, default=None)


def _verdicts(findings: Sequence[Finding], tape: Tape, directory: str | None) -> dict[str, str]:
    """Return what a run says of each finding of the dry run."""
    judged = judge(findings, tape, directory=directory)
    return {named(one): one.evidence.verdict if one.evidence is not None else "inconclusive" for one in judged}


def named(finding: Finding) -> str:
    """Return what a finding is called among the verdicts of a side."""
    return f"{finding.code} {finding.span.file}:{finding.span.line}"


def _ending(side: Side) -> str:
    if not side.exception:
        return side.ended
    return f"raised: {side.exception.partition('. ')[0].partition(' (or ')[0]}"


def _memory(count: int) -> str:
    return bytes_text(count) if count else "not known"


def _time(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1e3:.1f} ms"
