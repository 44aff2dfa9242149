"""A recorded run for an editor: what to run, what it printed, and how it ended."""

from __future__ import annotations

import difflib
import os
import re
import shutil
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tapecheck.lsp.outcome import Next, Outcome, gaps, unseen
from tapecheck.lsp.settings import RUN_ITERATIONS, RUN_TIMEOUT, Settings
from tapecheck.report import Checked, html
from tapecheck.rules.finding import Finding
from tapecheck.source import Source, SourceError, read_source, split_lines
from tapecheck.source.cells import SUFFIX

if TYPE_CHECKING:
    from tapecheck.check import Report
    from tapecheck.fixes import Fix
    from tapecheck.record import RunError, RunRequest, RunResult
    from tapecheck.record.trial import Trial
    from tapecheck.tape import Span, Tape

_WHICH = "import sys; print(sys.executable)"
_WHICH_SECONDS = 20
_ABOUT = """
import platform
said = "Python " + platform.python_version()
try:
    import torch
    said += ", torch " + torch.__version__
    said += ", " + (torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU")
except Exception as error:
    said += ", no torch"
print(said)
"""
_ABOUT_SECONDS = 60
_LONGEST = 120


class RunRefused(Exception):
    """Nothing can be run. The message is for the user; `next` is what would help."""

    def __init__(self, message: str, next_step: Next = "") -> None:
        super().__init__(message)
        self.next: Next = next_step


@dataclass(frozen=True, slots=True)
class RunOrder:
    """One file to run, or a notebook as one program.

    `text` is what is on disk and will be executed, `source` the same parsed, `directory` where it is started.
    `program` is another script that is run in its place, or with `module` the name of a module.
    """

    path: str
    text: str
    directory: str
    settings: Settings
    source: Source | None = None
    program: str = ""
    module: bool = False

    @property
    def notebook(self) -> bool:
        return self.path.endswith(SUFFIX)

    @property
    def name(self) -> str:
        return Path(self.path).name

    @property
    def program_name(self) -> str:
        """Return the name of what is executed: the file's own, or that of the program run in its place."""
        if self.module:
            return f"-m {self.program}"
        return Path(self.program or self.path).name


@dataclass(slots=True)
class Recording:
    """What a recorded run of one file said: `findings` carry their evidence, `text` is what was run.

    `ended` says in a few words how the run ended where that was not by itself; `failed` is True where an
    exception ended it that no finding is about. `at` is when it ended (seconds since the epoch), `others` are the
    further files of the project that took part, with their state then, `page` is what the report shows, `iterations`
    and `backwards` are how far it came, `inconclusive` is the number of findings that it says nothing of. `gaps` says
    what the recorder itself may have missed, empty where it worked to the end. `unseen` says why nothing was looked at,
    None where something was. `exit` is 0 where nothing was found, 1 where something was, 2 where the program failed for
    a reason of its own, 3 where nothing was looked at.
    """

    text: str
    findings: list[Finding] = field(default_factory=list)
    ended: str = ""
    failed: bool = False
    at: float = field(default_factory=time.time)
    others: dict[str, tuple[int, int] | None] = field(default_factory=dict)
    page: html.Run | None = None
    report: Report | None = field(default=None, repr=False)
    iterations: int = 0
    backwards: int = 0
    inconclusive: int = 0
    gaps: str = ""
    unseen: Outcome | None = None

    @property
    def clock(self) -> str:
        """Return when the run ended, as hours and minutes."""
        return clock(self.at)

    def others_changed(self) -> bool:
        """Return whether a file that took part in the run, other than the one that was run, has changed on disk."""
        return any(_state(path) != state for path, state in self.others.items())

    def is_of(self, text: str) -> bool:
        """Return whether a text is the one that was run; editors may hold it with other line ends than the file."""
        return text == self.text or split_lines(text) == split_lines(self.text)

    @property
    def exit(self) -> int:
        counts = self.counts()
        if counts["confirmed"] or counts["found"]:
            return 1
        if self.failed:
            return 2
        return 3 if self.unseen is not None else 0

    @property
    def outcome(self) -> Outcome:
        """Return how the run went, for a lens, a message and the log."""
        return self.unseen or Outcome(self.summary(), at=self.at)

    def counts(self) -> dict[str, int]:
        """Return how many findings have which evidence, by the names in the run command's result."""
        verdicts = [finding.evidence.verdict for finding in self.findings if finding.evidence is not None]
        return {
            "confirmed": verdicts.count("confirmed"),
            "refuted": verdicts.count("refuted"),
            "notReached": verdicts.count("not-reached"),
            "found": verdicts.count("found-by-run"),
        }

    def summary(self) -> str:
        """Return a few words: "1 confirmed, 1 refuted, 2 not reached; stopped after 20 iterations"."""
        if self.unseen is not None:
            return self.unseen.text
        names = {
            "confirmed": "confirmed",
            "refuted": "refuted",
            "notReached": "not reached",
            "found": "found at run time",
        }
        counts = self.counts()
        parts = [f"{counts[key]} {name}" for key, name in names.items() if counts[key]]
        if self.inconclusive:
            parts.append(f"{self.inconclusive} inconclusive")
        return "; ".join(part for part in (", ".join(parts) or self._no_problem(), self.ended, self.gaps) if part)

    def _no_problem(self) -> str:
        if self.iterations:
            return f"no problem seen in {_count(self.iterations, 'iteration')}"
        return f"no problem seen in {_count(self.backwards, 'backward call')}" if self.backwards else "no problem seen"


@dataclass(frozen=True, slots=True)
class FixTrial:
    """What two runs showed of a fix: `text` is the file without it, `line` where the finding is in that.

    `recording` is what the run without the fix says of all findings of the file.
    """

    path: str
    text: str
    finding: Finding
    fix: Fix
    trial: Trial
    python: str
    at: float = field(default_factory=time.time)
    recording: Recording | None = None

    @property
    def line(self) -> int:
        return self.finding.span.line

    @property
    def helped(self) -> bool:
        """Return whether the rule that the finding is about was broken before and is not with the fix."""
        name = self.finding.name
        gone = name not in self.trial.after.rules and not self.trial.after.exception
        return gone and (name in self.trial.before.rules or bool(self.trial.before.exception))

    def markdown(self) -> str:
        """Return both runs as a table, with the edit that was tried."""
        cells = [("", "as it is", "with the fix"), ("---", "---", "---"), *self.trial.table()]
        table = "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in cells)
        from tapecheck.record.trial import edited

        mended = edited(self.text, self.path, self.fix.edits) or self.text
        texts = split_lines(self.text), split_lines(mended)
        diff = difflib.unified_diff(*texts, "as it is", "with the fix", n=1, lineterm="")
        return (
            f"## {self.fix.title}\n\n"
            f"The fix of {self.finding.code} ({self.finding.name}) on line {self.line} of {Path(self.path).name}, "
            f"tried at {clock(self.at)}: both programs were run with the same seed.\n\n{table}\n\n"
            f"{self.fix.changes}\n\n```diff\n" + "\n".join(diff) + f"\n```\n\nRun with {self.python}.\n"
        )


Listen = Callable[[str], None]


def make_order(path: str, folders: list[str], settings: Settings) -> RunOrder:
    """Return what to run for a file: the text on disk, started where the settings say, else in its workspace folder.

    A relative `run.cwd` counts from the workspace folder, and from beside the file where it is in none. A file that
    does nothing by itself is run by the program that its project's pyproject.toml names, where it names one.
    """
    file = Path(path)
    if not file.is_absolute():
        raise RunRefused("save the file first: only a file on disk can be run")
    try:
        source = read_source(path)
    except SourceError as error:
        raise RunRefused(str(error)) from error
    around = [folder for folder in folders if Path(folder) in file.parents]
    directory = max(around, key=len, default=str(file.parent))
    if path.endswith(SUFFIX):
        # As Jupyter has it.
        directory = str(file.parent)
    if settings.run_cwd:
        directory = str(Path(directory, settings.run_cwd))
        if not Path(directory).is_dir():
            raise RunRefused(f"the directory to run in does not exist: {directory}")
    if not settings.interpreter:
        from tapecheck.record.interpreter import find_interpreter

        found = find_interpreter(directory)
        settings = replace(settings, interpreter=(found.python,) if found.found else ())
    order = RunOrder(path, source.text, directory, settings, source)
    program = settings.run_program.strip()
    if program.startswith("-m "):
        return replace(order, program=program.removeprefix("-m ").strip(), module=True)
    if program:
        script = Path(directory, program)
        if not script.is_file():
            raise RunRefused(f"the program to run for {file.name} does not exist: {script}")
        return replace(order, program=str(script))
    from tapecheck.record.program import runs_itself

    return order if source.error is not None or runs_itself(source) else _by_project(order)


def _by_project(order: RunOrder) -> RunOrder:
    """Return the order for a file of a library, as its project is configured to be run."""
    from tapecheck.record.program import entry_for

    entry = entry_for(order.path)
    if entry is None:
        return order
    settings = replace(
        order.settings, run_arguments=entry.args, run_launcher=order.settings.run_launcher or entry.launcher
    )
    script = entry.script if entry.module else str(Path(entry.folder, entry.script))
    if not entry.module and not Path(script).is_file():
        raise RunRefused(f"the program that the project names for {order.name} does not exist: {script}")
    return replace(order, program=script, module=entry.module, directory=entry.folder, settings=settings)


def clock(at: float) -> str:
    """Return a time as people say it: "14:02", with the date where that was another day."""
    then = time.localtime(at)
    return time.strftime("%H:%M" if then[:3] == time.localtime()[:3] else "%d %b, %H:%M", then)


def interpreter(settings: Settings) -> str:
    """Return the Python that runs the user's scripts; a launcher with arguments is asked which one it starts."""
    command = list(settings.interpreter) or [sys.executable]
    if len(command) == 1:
        return command[0]
    if shutil.which(command[0]) is None:
        raise RunRefused(f"the interpreter {command[0]!r} does not exist or is not executable", "interpreter")
    try:
        asked = subprocess.run(
            [*command, "-c", _WHICH],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_WHICH_SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise RunRefused(f"{' '.join(command)} does not start a Python: {error}", "interpreter") from error
    return asked.stdout.strip()


def command_line(order: RunOrder) -> list[str]:
    """Return what is run, as one would type it."""
    settings = order.settings
    program = ["-m", order.program] if order.module else [order.program or order.path]
    # A launcher starts the interpreter itself.
    starter = list(settings.run_launcher) or list(settings.interpreter) or [sys.executable]
    return [*starter, *program, *settings.run_arguments]


_about: dict[tuple[str, str], str] = {}


def about(settings: Settings) -> str:
    """Return what runs a program: "Python 3.11.7, torch 2.13.0, CPU", with the GPU that torch would use where there is
    one.

    Empty where the interpreter does not answer. It is asked once for each set of visible devices.
    """
    devices = {name: value for name, value in settings.run_env.items() if name.endswith("VISIBLE_DEVICES")}
    try:
        key = interpreter(settings), repr(devices)
        if key not in _about:
            command = [key[0], "-I", "-c", _ABOUT]
            asked = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_ABOUT_SECONDS, check=True,
                env={**os.environ, **devices},
            )  # fmt: skip
            _about[key] = asked.stdout.strip().rpartition("\n")[2]
    except (RunRefused, OSError, subprocess.SubprocessError):
        return ""
    return _about[key]


def _state(path: str) -> tuple[int, int] | None:
    """Return what changes when a file does: its time of modification and its size; None where it is not there."""
    try:
        stat = Path(path).stat()
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_size


def _others(tape: Tape, order: RunOrder) -> dict[str, tuple[int, int] | None]:
    """Return the files of the project that took part in a run beside the one that was run."""
    folder = Path(order.directory)
    files = {span.file for event in tape.events if (at := getattr(event, "at", None)) for span in (at.span, *at.stack)}
    paths = {folder / file for file in files} - {Path(order.path)}
    installed = ("site-packages", "dist-packages")
    return {
        str(path): _state(str(path))
        for path in paths
        if folder in path.parents and not any(name in path.parts for name in installed)
    }


def _cut_short(result: RunResult) -> bool:
    """Return whether a limit ended the run."""
    return result.how_ended in ("stopped", "timeout") and result.detail.startswith("after ")


def _limit(order: RunOrder, result: RunResult) -> str:
    """Return a remark where the limit that ended a run is that of the default settings."""
    settings = order.settings
    by_time = result.how_ended == "timeout"
    default = settings.run_timeout == RUN_TIMEOUT if by_time else settings.run_iterations == RUN_ITERATIONS
    return " (default limit)" if default else ""


def _request(order: RunOrder) -> RunRequest:
    from tapecheck.record import RunRequest

    figures = {"MPLBACKEND": os.environ.get("MPLBACKEND", "Agg")} if order.notebook else {}
    return RunRequest(
        script=order.program or order.path,
        args=order.settings.run_arguments,
        python=interpreter(order.settings),
        cwd=order.directory,
        env=figures | dict(order.settings.run_env),
        text=order.text if order.notebook else None,
        notebook=order.notebook,
        module=order.module,
        timeout=order.settings.run_timeout,
        max_iterations=order.settings.run_iterations,
        launcher=order.settings.run_launcher,
    )


def try_fix(
    order: RunOrder, report: Report, finding: Finding, fix: Fix, on_progress: Listen, stop: Callable[[], bool]
) -> FixTrial:
    """Run a file with a seed, as it is and with a fix; `stop` ends both.

    Raises RunRefused where that cannot be, and where the program ends before anything could be seen.
    """
    from tapecheck import record as recorder
    from tapecheck.record.trial import SEED, Trial, edited, reread, side, side_of, with_text

    mended = edited(report.source.text, order.path, fix.edits)
    if mended is None:
        raise RunRefused("the fix changes other files, too: it cannot be tried")
    request = reread(_request(order))
    fixed = with_text(request, mended, order.path if order.program else None)

    def listening(which: str) -> Callable[[recorder.Output | recorder.Progress], None]:
        def listen(event: recorder.Output | recorder.Progress) -> None:
            if isinstance(event, recorder.Progress):
                on_progress(f"{which}: iteration {event.iterations}, {event.seconds:.0f} s")

        on_progress(which)
        return listen

    try:
        seeded = replace(request, seed=SEED)
        result, judged = recorder.confirm(
            order.path, seeded, report.findings, on_event=listening("as it is"), cancelled=stop
        )
        recording = _recording(order, report, result, judged)
        if recording.unseen is not None and not stop():
            # A program that does not come to its training says nothing of a fix, with it or without it.
            raise RunRefused(f"{recording.unseen.text}; the fix was not tried", recording.unseen.next)
        after = None if stop() else side(fixed, listening("with the fix"), stop)
        if after is None or stop():
            raise RunRefused(f"{order.name}: stopped")
    except recorder.RunError as error:
        raise _refused(error) from error
    trial = Trial(side_of(result, seeded.cwd), after)
    python = f"{request.python} ({about(order.settings)})"
    return FixTrial(order.path, order.text, finding, fix, trial, python, recording=recording)


def _refused(error: RunError) -> RunRefused:
    from tapecheck.record import InterpreterError

    return RunRefused(str(error), "interpreter" if isinstance(error, InterpreterError) else "configure")


def _placed(finding: Finding, order: RunOrder) -> Finding:
    """Return a finding of the run by the paths that editors know; on a tape they are as Python had them."""

    def place(span: Span) -> Span:
        path = Path(order.directory, span.file)
        same = path.name == Path(order.path).name and path.exists() and path.samefile(order.path)
        return replace(span, file=order.path if same else str(path))

    if finding.evidence is None or finding.evidence.verdict != "found-by-run":
        return finding
    labels = tuple(replace(label, span=place(label.span)) for label in finding.labels)
    return replace(finding, span=place(finding.span), labels=labels)


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"


def record(
    order: RunOrder,
    report: Report,
    on_output: Listen,
    on_progress: Listen,
    stop: Callable[[], bool],
) -> Recording:
    """Run a file under the recorder and judge its findings; `stop` ends the run.

    `on_output` gets the program's output as it comes, `on_progress` how far it is, both from other threads.
    Raises RunRefused where nothing can be run.
    """
    from tapecheck import record as recorder

    def listen(event: recorder.Output | recorder.Progress) -> None:
        if isinstance(event, recorder.Output):
            on_output(event.text)
        else:
            on_progress(f"iteration {event.iterations}, {event.seconds:.0f} s")

    request = replace(_request(order), held=True)
    try:
        result, findings = recorder.confirm(order.path, request, report.findings, on_event=listen, cancelled=stop)
    except recorder.RunError as error:
        raise _refused(error) from error
    return _recording(order, report, result, findings)


def _ended(order: RunOrder, result: RunResult, *, failed: bool) -> str:
    """Return how a run ended where that is news."""
    if result.how_ended == "raised":
        return result.detail if failed else ""
    if result.how_ended == "cancelled":
        after = _count(result.iterations, "iteration") if result.iterations else "some backward calls"
        return f"cancelled after {after}"
    if result.how_ended == "finished":
        return ""
    # Which loop the limit was reached in stands in the report.
    where = re.sub(r" of the loop on line \d+$", "", result.detail)
    return f"stopped {where}{_limit(order, result)}" if _cut_short(result) else where


def _whole_ending(result: RunResult, recording: Recording) -> str:
    """Return how the program ended and how far it had come, as the page of a run says it."""
    seen = f"{_count(result.iterations, 'iteration')}, {_count(result.backwards, 'backward call')}"
    how = "the script ran to its end" if result.how_ended == "finished" else recording.ended or result.detail
    if result.how_ended == "raised":
        how = f"the script ended with an exception: {textwrap.shorten(result.detail, _LONGEST, placeholder=' …')}"
    return "; ".join(part for part in (f"{how} ({seen}, {result.seconds:.1f} s)", recording.gaps) if part)


def _recording(order: RunOrder, report: Report, result: RunResult, findings: list[Finding]) -> Recording:
    """Return what a run says of a file, with its report."""
    findings = [_placed(finding, order) for finding in findings]
    inconclusive = sum(finding.evidence is None for finding in findings)
    if result.how_ended == "cancelled":
        # What happened, happened; what did not may only not have happened yet.
        kept = ("confirmed", "found-by-run")
        findings = [one for one in findings if one.evidence is not None and one.evidence.verdict in kept]
    others = _others(result.tape, order)
    if order.program and not order.module:
        others[order.program] = _state(order.program)
    recording = Recording(order.text, findings, others=others, iterations=result.iterations, backwards=result.backwards)
    counts = recording.counts()
    if result.backwards or counts["confirmed"] or counts["found"] or counts["refuted"]:
        recording.inconclusive = 0 if result.how_ended == "cancelled" else inconclusive
        recording.gaps = gaps(result)
    else:
        recording.unseen = unseen(result, order.program_name)
        recording.failed = result.how_ended in ("raised", "died") or bool(result.exit_code)
    if result.how_ended == "raised":
        # An exception that is the finding's own is no news.
        recording.failed = recording.exit != 1
    recording.ended = _ended(order, result, failed=recording.failed)
    ending = _whole_ending(result, recording)
    recording.page = html.Run(Checked(order.path, findings), result.tape, report.source, ending)
    recording.report = report
    return recording
