"""`--fix --verify`: the programs run as they are and as fixed, with one seed, before anything is written."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tapecheck.record import InterpreterError, Output, Progress, RunError, RunRequest
from tapecheck.record.interpreter import find_interpreter
from tapecheck.record.program import entry_for, runs_itself
from tapecheck.record.run import run
from tapecheck.record.trial import SEED, Side, Trial, side_of
from tapecheck.report import Checked, Problem
from tapecheck.source import SourceError, read_source
from tapecheck.source.cells import SUFFIX
from tapecheck.source.project import Setup

if TYPE_CHECKING:
    from tapecheck.report.checked import Rewrite

SECONDS = 300.0
"""How long each run may take."""


@dataclass(frozen=True, slots=True)
class _Run:
    """One run: what it came to, what it printed, its exit status."""

    side: Side
    output: str
    status: int | None


def verify(files: list[Checked], setup: Setup) -> Iterator[str]:
    """Run what was fixed, and yield a line for each file; the change of one that does not hold is taken back.

    A fixed program that raises what the program before did not, does not come to its end or ends with another status is
    not written. All edits of files that are fixed together are tried together.
    """
    changed = {file.path: file for file in files if file.rewrite is not None}
    texts = {path: _text(file.rewrite) for path, file in changed.items() if file.rewrite is not None}
    for path, file in changed.items():
        if file.rewrite is None:  # taken back with another one
            continue
        group = [path, *(other for other in file.rewrite.others if other in changed)]
        try:
            request = _request(path, setup)
            if request is None:
                yield f"{path}: not verified: nothing says what runs it (`run` in the configuration)"
                continue
            before, again = _run(request), _run(request)
            own = texts[path] if request.script == path else None
            instead = {str(Path(one).resolve()): texts[one] for one in group if one != request.script}
            after = _run(dataclasses.replace(request, text=own, instead=instead))
        except (RunError, InterpreterError) as error:
            yield f"{path}: not verified: {error}"
            continue
        trial = Trial(before.side, after.side, again.side)
        why = _refusal(before, again, after, trial)
        if why:
            for one in group:
                changed[one].rewrite = None
                changed[one].problems.append(Problem("io-error", f"not written: the fixed program {why}"))
            continue
        yield f"{path}: verified by running: {'; '.join([trial.text(), _printed(before, again, after)])}"


def _refusal(before: _Run, again: _Run, after: _Run, trial: Trial) -> str:
    """Return what a fixed program does that it should not; empty where it does nothing of the kind."""
    was, now = before.side, after.side
    if now.exception and now.exception != was.exception:
        return f"raises {now.exception}"
    if now.ended not in ("finished", was.ended):
        return f"did not come to its end: {now.ended}"
    if was.ended == now.ended == "finished" and before.status == again.status != after.status:
        return f"ends with status {after.status}, not {before.status}"
    return ""


def _printed(before: _Run, again: _Run, after: _Run) -> str:
    """Return whether both programs print the same."""
    if before.output != again.output:
        return "what it prints differs from run to run"
    if before.output == after.output:
        return "it prints the same"
    if after.output.startswith(before.output) and before.side.ended == "raised":
        return "it prints the same, and goes on"
    old, new = before.output.splitlines(), after.output.splitlines()
    line = next((number for number, (one, other) in enumerate(zip(old, new), 1) if one != other), len(old) + 1)
    return f"it prints something else from line {line} of its output on"


def _run(request: RunRequest) -> _Run:
    printed: list[str] = []

    def listen(event: Output | Progress) -> None:
        if isinstance(event, Output) and event.stream == "stdout":
            printed.append(event.text)

    result = run(dataclasses.replace(request, seed=SEED), listen)
    return _Run(side_of(result, request.cwd), "".join(printed), result.exit_code)


def _request(path: str, setup: Setup) -> RunRequest | None:
    """Return how the program of a file is run: by itself, else as its project says; None where nothing does."""
    if path.endswith(SUFFIX):
        return None
    try:
        source = read_source(path)
    except SourceError:
        return None
    python = find_interpreter(str(Path(path).parent)).python
    if runs_itself(source):
        return RunRequest(path, python=python, timeout=SECONDS)
    entry = entry_for(str(Path(path).absolute()), setup)
    if entry is None:
        return None
    script = entry.script if entry.module else str(Path(entry.folder, entry.script))
    return RunRequest(
        script, entry.args, python, entry.folder, timeout=SECONDS, module=entry.module, launcher=entry.launcher
    )


def _text(rewrite: Rewrite) -> str:
    return "\n".join(rewrite.lines.get(rewrite.path, [])) + "\n"
