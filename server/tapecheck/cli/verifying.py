"""`--fix --verify`: the programs run as they are and as fixed, with one seed, before anything is written."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tapecheck.check import check
from tapecheck.cli import progress
from tapecheck.cli.fixing import key_of
from tapecheck.record import InterpreterError, Output, Progress, RunError, RunRequest
from tapecheck.record.evidence import lines_of, passes_of
from tapecheck.record.interpreter import find_interpreter
from tapecheck.record.program import entry_for, runs_itself
from tapecheck.record.run import run
from tapecheck.record.trial import SEED, SHOWN, Side, Trial, named, side_of
from tapecheck.report import Checked
from tapecheck.report.checked import Rewrite, edited_together
from tapecheck.rules.finding import Finding
from tapecheck.rules.words import join
from tapecheck.source import SourceError, from_text, read_source
from tapecheck.source.cells import SUFFIX
from tapecheck.source.project import Projects, Setup
from tapecheck.source.selection import Selection

SECONDS = 300.0
"""How long each run may take."""


@dataclass(frozen=True, slots=True)
class _Run:
    """One run: what it came to, what it printed, its exit status."""

    side: Side
    output: str
    status: int | None


def verify(files: list[Checked], rules: Selection, projects: Projects) -> Iterator[str]:
    """Run what was fixed, and yield a line for each program; the change of what does not hold is taken back.

    A fixed program that raises what the program before did not, does not come to its end or ends with another status is
    not written, nor is what cannot be run or fails alike before and after, so that the fixes may not have been reached.
    All edits of files that are fixed together are tried together. `rules` is what the command line says of rules.
    """
    groups = list(edited_together(files))
    with progress.Progress(len(groups), "tried by running") as so_far:
        for group in groups:
            yield from _tried(group, rules, projects)
            so_far.step(group[0][0].path)


def _tried(group: list[tuple[Checked, Rewrite]], rules: Selection, projects: Projects) -> list[str]:
    """Return the lines for files that are fixed together; where the fixes do not hold, none is written."""
    try:
        return _verified(group, rules, projects)
    except (RunError, InterpreterError) as error:
        for file, _ in group:
            file.unverified = True
            file.withhold(f"it could not be verified: {error}")
    except _RefusedError as refused:
        for file, _ in group:
            file.withhold(f"the fixed program {refused}")
    return []


class _RefusedError(Exception):
    """The fixed program does what it should not; the message says what."""


def _verified(group: list[tuple[Checked, Rewrite]], rules: Selection, projects: Projects) -> list[str]:
    """Return a line for each program of files that are fixed together.

    Raises RunError where there is none, or running it shows nothing of the fixes.
    """
    texts = {rewrite.path: ("\n".join(rewrite.lines.get(rewrite.path, [])) + "\n") for _, rewrite in group}
    requests = {path: request for path in texts if (request := _request(path, projects.setup)) is not None}
    if not requests:
        raise RunError("nothing says what runs it (`run` in the configuration)")
    mended = [finding for file, _ in group for finding in _mended(file, rules, projects)]
    lines: list[str] = []
    for path, request in requests.items():
        before, again = _run(request, mended), _run(request)
        own = texts[path] if request.script == path else None
        instead = {str(Path(one).resolve()): text for one, text in texts.items() if one != request.script}
        after = _run(dataclasses.replace(request, text=own, instead=instead))
        if why := _refusal(before, again, after):
            raise _RefusedError(why)
        if after.side.exception:
            raise RunError(f"{path} raises {after.side.exception} with and without the fixes")
        trial = Trial(before.side, after.side, again.side)
        words = [*_shown(before.side, after.side, mended), trial.text(), _printed(before, again, after)]
        lines.append(f"{path}: verified by running: {'; '.join(words)}")
    return lines


def _mended(file: Checked, rules: Selection, projects: Projects) -> list[Finding]:
    """Return what was found in a file before it was fixed, and is not now; nothing where that is not known."""
    lines = file.rewrite.lines.get(file.path) if file.rewrite is not None else None
    try:
        source = read_source(file.path)
    except SourceError:
        return []
    if lines is None:
        return []
    now = from_text("\n".join(lines), file.path)
    left = Counter(key_of(finding, now) for finding in file.findings)
    before = check(source, rules=rules, project=projects.of(file.path)).findings
    return [finding for finding in before if not left[key_of(finding, source)]]


def _shown(before: Side, after: Side, mended: list[Finding]) -> list[str]:
    """Return which of the mended findings the run before shows, but for those that the two runs tell of anyway."""
    told = {name for name in before.rules if name not in after.rules}
    found = [
        f"{finding.code} on line {finding.span.line}"
        for finding in mended
        if before.verdicts.get(named(finding)) in SHOWN and finding.name not in told
    ]
    return [f"the run before the fixes shows {join(found)}"] if found else []


def _refusal(before: _Run, again: _Run, after: _Run) -> str:
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


def _run(request: RunRequest, findings: Sequence[Finding] = ()) -> _Run:
    printed: list[str] = []

    def listen(event: Output | Progress) -> None:
        if isinstance(event, Output) and event.stream == "stdout":
            printed.append(event.text)

    asked = dataclasses.replace(request, seed=SEED, watch=lines_of(findings), passes=passes_of(findings))
    result = run(asked, listen)
    return _Run(side_of(result, request.cwd, findings), "".join(printed), result.exit_code)


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
