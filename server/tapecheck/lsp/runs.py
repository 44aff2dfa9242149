"""A recorded run as an editor asks for it: what to run, what it said, and how it ended."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tapecheck.lsp.document import split_lines
from tapecheck.lsp.settings import Settings
from tapecheck.report import Checked, html
from tapecheck.rules.finding import Finding
from tapecheck.source import Source, SourceError, read_source
from tapecheck.source.notebook import SUFFIX

if TYPE_CHECKING:
    from tapecheck.check import Report
    from tapecheck.tape import Tape

_WHICH = "import sys; print(sys.executable)"
_WHICH_SECONDS = 20


class RunRefused(Exception):
    """Nothing can be run. The message is for the user."""


@dataclass(frozen=True, slots=True)
class RunOrder:
    """One file to run, or a notebook as one program.

    `text` is what is on disk and will be executed, `source` the same parsed, `directory` where it is started.
    """

    path: str
    text: str
    directory: str
    settings: Settings
    source: Source | None = None

    @property
    def notebook(self) -> bool:
        return self.path.endswith(SUFFIX)

    @property
    def name(self) -> str:
        return Path(self.path).name


@dataclass(slots=True)
class Recording:
    """What a recorded run of one file said: `findings` carry their evidence, `text` is what was run.

    `ended` says in a few words how the run ended where that was not by itself; `failed` is True where an
    exception ended it that no finding is about. `at` is when it ended (seconds since the epoch), `others` are the
    further files of the project that took part, with their state then, `page` is what the report shows. `exit` is
    0 where nothing was found, 1 where something was, 2 where the program failed for a reason of its own.
    """

    text: str
    findings: list[Finding] = field(default_factory=list)
    ended: str = ""
    failed: bool = False
    at: float = field(default_factory=time.time)
    others: dict[str, tuple[int, int] | None] = field(default_factory=dict)
    page: html.Run | None = None

    @property
    def clock(self) -> str:
        """When the run ended, as people say it: "14:02", with the date where that was another day."""
        then = time.localtime(self.at)
        return time.strftime("%H:%M" if then[:3] == time.localtime()[:3] else "%d %b, %H:%M", then)

    def others_changed(self) -> bool:
        """Whether a file that took part in the run, other than the one that was run, has changed on disk."""
        return any(_state(path) != state for path, state in self.others.items())

    def is_of(self, text: str) -> bool:
        """Whether a text is the one that was run; editors may hold it with other line ends than the file."""
        return text == self.text or split_lines(text) == split_lines(self.text)

    @property
    def exit(self) -> int:
        counts = self.counts()
        if counts["confirmed"] or counts["found"]:
            return 1
        return 2 if self.failed else 0

    def counts(self) -> dict[str, int]:
        """How many findings have which evidence, by the names of the run command's answer."""
        verdicts = [finding.evidence.verdict for finding in self.findings if finding.evidence is not None]
        return {
            "confirmed": verdicts.count("confirmed"),
            "refuted": verdicts.count("refuted"),
            "notReached": verdicts.count("not-reached"),
            "found": verdicts.count("found-by-run"),
        }

    def summary(self) -> str:
        """A few words: "1 confirmed, 1 refuted, 2 not reached"."""
        names = {
            "confirmed": "confirmed",
            "refuted": "refuted",
            "notReached": "not reached",
            "found": "found by the run",
        }
        counts = self.counts()
        parts = [f"{counts[key]} {name}" for key, name in names.items() if counts[key]]
        return ", ".join(parts) if parts else "nothing found"


Listen = Callable[[str], None]


def make_order(path: str, folders: list[str], settings: Settings) -> RunOrder:
    """What to run for a file: the text on disk, started where the settings say, else in its workspace folder.

    A relative `run.cwd` counts from the workspace folder, and from beside the file where it is in none.
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
    return RunOrder(path, source.text, directory, settings, source)


def interpreter(settings: Settings) -> str:
    """The Python that runs the user's scripts; a launcher with arguments is asked which one it starts."""
    command = list(settings.interpreter) or [sys.executable]
    if len(command) == 1:
        return command[0]
    if shutil.which(command[0]) is None:
        raise RunRefused(f"the interpreter {command[0]!r} does not exist or is not executable")
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
        raise RunRefused(f"{' '.join(command)} does not start a Python: {error}") from error
    return asked.stdout.strip()


def _state(path: str) -> tuple[int, int] | None:
    """What changes when a file does: its time of modification and its size; None where it is not there."""
    try:
        stat = Path(path).stat()
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_size


def _others(tape: Tape, order: RunOrder) -> dict[str, tuple[int, int] | None]:
    """The files of the project that took part in a run beside the one that was run."""
    folder = Path(order.directory)
    files = {span.file for event in tape.events if (at := getattr(event, "at", None)) for span in (at.span, *at.stack)}
    paths = {folder / file for file in files} - {Path(order.path)}
    installed = ("site-packages", "dist-packages")
    return {
        str(path): _state(str(path))
        for path in paths
        if folder in path.parents and not any(name in path.parts for name in installed)
    }


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

    figures = {"MPLBACKEND": os.environ.get("MPLBACKEND", "Agg")} if order.notebook else {}
    request = recorder.RunRequest(
        script=order.path,
        args=order.settings.run_arguments,
        python=interpreter(order.settings),
        cwd=order.directory,
        env=figures | dict(order.settings.run_env),
        text=order.text if order.notebook else None,
        notebook=order.notebook,
        timeout=order.settings.run_timeout,
        max_iterations=order.settings.run_iterations,
    )
    try:
        result, findings = recorder.confirm(order.path, request, report.findings, on_event=listen, cancelled=stop)
    except recorder.RunError as error:
        raise RunRefused(str(error)) from error
    if result.how_ended == "cancelled":
        # What happened, happened; what did not may only not have happened yet.
        kept = ("confirmed", "found-by-run")
        findings = [one for one in findings if one.evidence is not None and one.evidence.verdict in kept]
    recording = Recording(order.text, findings, others=_others(result.tape, order))
    if result.how_ended == "raised":
        # An exception that is the finding's own is no news.
        recording.failed = recording.exit == 0
        recording.ended = result.detail if recording.failed else ""
    elif result.how_ended != "finished":
        recording.ended = result.detail
    seen = f"{result.iterations} iterations, {result.backwards} backward calls, {result.seconds:.1f} s"
    ending = f"{recording.ended or 'the script ran to its end'} ({seen})"
    recording.page = html.Run(Checked(order.path, findings), result.tape, report.source, ending)
    return recording
