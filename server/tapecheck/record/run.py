"""Starts a script under the probe in a process group of its own, follows it, and reads its tape."""

from __future__ import annotations

import codecs
import contextlib
import dataclasses
import errno
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, BinaryIO, Literal, TextIO, Union

from tapecheck.record.exits import Exits
from tapecheck.record.program import own_of
from tapecheck.record.ranks import merge
from tapecheck.record.scratch import Scratch
from tapecheck.record.story import BLIND
from tapecheck.tape import Backward, End, Measure, Raised, Site, Span, Tape, TapeError, read_tape, write_tape

PROBE = Path(__file__).with_name("probe") / "__main__.py"
NO_TORCH, OLD_PYTHON, OLD_TORCH = 97, 96, 95
_POLL_SECONDS = 0.05
_TAIL_BYTES = 64_000
_DRAIN_SECONDS, _QUIET_SECONDS = 5.0, 0.25
_MOMENT_SECONDS = 0.25
_GRACE_SECONDS = 5.0
_LONGEST_LINE = 64_000
_MAX_SITES = 200_000
_TOO_OLD = "recording needs torch "
_FAILURE = re.compile(r"(?:the recorder failed \d+ times, first with|not recorded:) .*$", re.DOTALL)
"""How the probe tells of itself, behind whatever else the end of a tape says."""

Stream = Literal["stdout", "stderr"]
_Stopped = Literal["", "timeout", "cancelled", "stopped"]
How = Literal["finished", "raised", "stopped", "timeout", "cancelled", "died"]


class RunError(Exception):
    """The run could not be made at all. The message is for the user."""


class InterpreterError(RunError):
    """The interpreter cannot run the program: it is missing, has no torch, or it or its torch is too old."""


@dataclass(frozen=True, slots=True)
class RunRequest:
    """What to run and how long.

    `script` is a file, or with `module` the dotted name of a module, run as `python -m` does. `python` is the
    interpreter, `cwd` the working directory (this process's where None) and `env` what is added to the environment.
    `timeout` is in seconds from the start of the interpreter on; `max_iterations` counts iterations of the loop that
    trains. A limit ends the program at once: none of its handlers runs. A signal that is passed on to it leaves it
    `grace` seconds. With `stdin` it reads this process's standard input, else it has none.

    `watch` are (file, line) pairs whose executions are counted, `passes` those of them where the graphs of module calls
    are looked at. `tape` is a file to keep the tape in. `name` is what the script is called on the tape, and `text`
    runs in place of what the file holds; with `notebook` it has the names that IPython gives to cells. `seed` is set
    for every generator of random numbers before the program begins, and the tape ends with a digest of what was
    learned.

    What lies beside the script, in the working directory or in their project is recorded as the program's own, as are
    the files that are watched and those of `own`, with what lies beside these: all else is a library's.

    With `held` the tape says what the live tensors hold as it runs, for its page; without `levels` not even how many
    graph nodes are alive in all, unless gradients have graphs: only what keeps graphs asks for that.

    `instead` are texts that modules are compiled from in place of their files, by the absolute paths of these.

    `launcher` is a command that starts the program in several processes, to which the script is appended (`torchrun
    --nproc-per-node 2`): each has a tape, and they are merged. Such a program's interpreter is the launcher's.
    """

    script: str
    args: Sequence[str] = ()
    python: str = sys.executable
    cwd: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    timeout: float | None = None
    max_iterations: int | None = None
    max_backward: int | None = None
    watch: Collection[tuple[str, int]] = ()
    passes: Collection[tuple[str, int]] = ()
    own: Collection[str] = ()
    tape: str | None = None
    module: bool = False
    name: str = ""
    text: str | None = None
    notebook: bool = False
    seed: int | None = None
    launcher: Sequence[str] = ()
    instead: Mapping[str, str] = field(default_factory=dict)
    grace: float = 10.0
    stdin: bool = False
    held: bool = False
    levels: bool = True


@dataclass(frozen=True, slots=True)
class Output:
    """Text that the program wrote to `stream`: whole lines, except of a line that goes on after a pause."""

    stream: Stream
    text: str


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the run is: iterations of training loops, backward calls, seconds."""

    iterations: int
    backwards: int
    seconds: float


@dataclass(slots=True)
class RunResult:
    """What a run gave.

    `exit_code` is None where a signal or a timeout ended the process; `signal` is the signal's number. `how_ended` is
    finished, raised (an uncaught exception), stopped (a limit of the request), timeout, cancelled or died.
    `stdout` and `stderr` are the last 64,000 bytes of each. `seconds` is wall time. Of a run that `lost` its end on
    the tape (it was killed, it crashed, no room was left) `iterations` and `backwards` are the least there were.
    `failure` says what the recorder itself could not do, empty where all went well: there may be more than it saw.
    `interrupted` is the signal that was passed on to it, 0 for none. `unrecorded` counts forked processes that called
    backward: they are not recorded.
    """

    tape: Tape
    exit_code: int | None
    signal: int | None
    how_ended: How
    detail: str
    stdout: str
    stderr: str
    seconds: float
    iterations: int
    backwards: int
    lost: bool = False
    interrupted: int = 0
    unrecorded: int = 0
    failure: str = ""

    @property
    def ran_elsewhere(self) -> bool:
        """Whether no backward ran in what was recorded, while processes that it started did some work unrecorded."""
        return any(isinstance(event, Measure) and event.name == "other-processes" for event in self.tape.events)


def run(
    request: RunRequest,
    on_event: Callable[[Union[Output, Progress]], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
    signalled: Callable[[], int] | None = None,
) -> RunResult:
    """Execute a script under the recorder and wait for its end.

    `on_event` gets output and progress as they come, from several threads. Once `cancelled` returns True the whole
    process tree is killed. The signal that `signalled` returns, 0 for none, is passed on to the program once, which is
    killed where it has not ended `grace` seconds later. Raises RunError where the interpreter, torch or the script is
    missing.
    """
    python = _interpreter(request)
    options = _options(request)
    with contextlib.ExitStack() as cleanup:
        scratch = cleanup.enter_context(Scratch())
        if request.tape is None:
            tape = scratch / "tape.jsonl"
        else:
            tape = Path(request.tape).absolute()
            try:
                _regular(tape)
                tape.parent.mkdir(parents=True, exist_ok=True)
                tape.unlink(missing_ok=True)
                # Told before the program has run for hours; there is no tape until the recorder begins one.
                tape.open("w").close()
                tape.unlink()
            except OSError as error:
                raise RunError(f"the tape cannot be written to {tape}: {error.strerror or error}") from error
        began = time.monotonic()
        if request.text is not None:
            (scratch / "text.py").write_text(request.text, encoding="utf-8", newline="")
            options[:0] = ["--text", str(scratch / "text.py")]
        if request.instead:
            (scratch / "instead.json").write_text(json.dumps(dict(request.instead)), encoding="utf-8")
            options[:0] = ["--instead", str(scratch / "instead.json")]
        children = scratch / "ranks"
        children.mkdir()
        if request.launcher:
            return _launched(request, options, tape, children, began, on_event, cancelled, signalled)
        alive = cleanup.enter_context(lifeline())
        own = ["--tape", str(tape), "--children", str(children), *([] if alive is None else ["--alive", str(alive)])]
        process = _start(request, [python, str(PROBE), *own, *options], alive)
        follower = _Follower(process, tape, began, on_event)
        cleanup.callback(follower.let_go)
        follower.spawned = children / "tape.rank0"
        try:
            stopped = follower.wait(request, cancelled, signalled)
        finally:
            _kill(process)
            follower.close()
        if not stopped and _one_stopped(children / "tape"):
            stopped = "stopped"
        parent = _read(request, process.returncode, tape, follower, stopped)
        tapes = _with_spawned(parent, _tapes_in(children))
        unrecorded = _forked(children)
        _say_forked(tapes, unrecorded)
        result = _result(request, process, tapes, follower, stopped, time.monotonic() - began)
        if result.tape is not parent:
            _ended_as(result, parent)
        if request.tape is not None and (unrecorded or result.tape is not parent):
            _keep(result.tape, tape)
        result.unrecorded = unrecorded
        return result


def _forked(folder: Path) -> int:
    """Return how many forked processes have left a note in a folder that they called backward."""
    try:
        return len((folder / "forked").read_text().splitlines())
    except OSError:
        return 0


def _say_forked(tapes: Mapping[int, Tape], count: int) -> None:
    """Write onto the tapes how many forked processes called backward."""
    for one in tapes.values() if count else ():
        # Ahead of the end of each rank: what did not run in one of them may have run there.
        at = len(one.events) - any(isinstance(event, End) for event in one.events[-1:])
        one.events.insert(at, Measure(Site(Span("", 1, 1, 1, 1)), "forked-processes", count, "processes"))


def _tapes_in(folder: Path) -> dict[int, Tape]:
    """Return the tapes of ranks in a folder that can be read."""
    tapes: dict[int, Tape] = {}
    for path in folder.glob("tape.rank*"):
        rank = path.name.removeprefix("tape.rank")
        with contextlib.suppress(OSError, TapeError):
            if rank.isdigit():
                with path.open(encoding="utf-8", errors="replace") as file:
                    tapes[int(rank)] = read_tape(file)
    return dict(sorted(tapes.items()))


def _with_spawned(parent: Tape, spawned: dict[int, Tape]) -> dict[int, Tape]:
    """Return the tapes of a program by rank: of the processes it spawned those that train, and its own if it does."""

    def trains(tape: Tape) -> bool:
        return any(isinstance(event, Backward) for event in tape.events)

    training = [tape for tape in spawned.values() if trains(tape)]
    return dict(enumerate([parent, *training] if not training or trains(parent) else training))


def _ended_as(result: RunResult, parent: Tape) -> None:
    """Let a run whose spawned processes were recorded have the end of the process that was started."""
    end = parent.events[-1] if parent.events else None
    if not isinstance(end, End) or result.how_ended not in ("finished", "raised"):
        return
    result.how_ended, result.detail = ("raised" if end.how == "raised" else "finished"), end.detail
    failed = [event for event in result.tape.events if isinstance(event, Raised) and event.left]
    if end.how == "raised" and failed:
        # What passed through the process that waited names no cause.
        result.detail = f"{failed[-1].exception}: {failed[-1].message}, in a process that it spawned"
    result.tape.events[-1] = End(end.how, result.detail)


def _keep(tape: Tape, path: Path) -> None:
    """Write a merged tape to where the user wants it; raises RunError."""
    try:
        with whole_file(path) as written:
            write_tape(tape, written)
    except OSError as error:
        raise RunError(f"the tape cannot be written to {path}: {error.strerror or error}") from error


def _launched(
    request: RunRequest,
    options: list[str],
    kept: Path,
    folder: Path,
    began: float,
    on_event: Callable[[Union[Output, Progress]], None] | None,
    cancelled: Callable[[], bool] | None,
    signalled: Callable[[], int] | None,
) -> RunResult:
    """Run a program by its launcher; each of its processes writes a tape of its own into a folder."""
    with _named_pipe(folder) as alive:
        tape = folder / "tape"
        notes = ["--notes", str(folder)]
        own = ["--tape", str(tape), "--rank", "1", *notes, *([] if alive is None else ["--alive", str(alive)])]
        process = _start(request, [*_launcher(request), str(PROBE), *own, *options], None)
        follower = _Follower(process, Path(f"{tape}.rank0"), began, on_event)
        exits = Exits(tape)
        try:
            with exits.followed():
                stopped = follower.wait(request, cancelled, signalled, lambda: _one_stopped(tape))
        finally:
            _kill(process, tape)
            follower.close()
            follower.let_go()
        tapes = _tapes_in(tape.parent)
        if not tapes:
            tapes[0] = _read(request, process.returncode, tape, follower, stopped)
        unrecorded = _forked(folder)
        _say_forked(tapes, unrecorded)
        result = _result(request, process, tapes, follower, stopped, time.monotonic() - began, exits.order)
        if request.tape is not None:
            _keep(result.tape, kept)
        result.unrecorded = unrecorded
        return result


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[TextIO]:
    """Open a file to write that is at `path` once all of it is written, and else leaves there what there was.

    Raises OSError where it cannot be written, or where a device, a pipe or a folder is at `path`.
    """
    _regular(path)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            yield file
        mode = path.stat().st_mode & 0o777 if path.exists() else 0o666 & ~_umask()
        Path(name).chmod(mode)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _regular(path: Path) -> None:
    """Raise OSError where something is at `path` that another file must not take the place of (`/dev/null`)."""
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "not a regular file")


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


def _launcher(request: RunRequest) -> list[str]:
    """Return the launcher's command; one that lies beside the chosen interpreter comes before those on the path."""
    name, *rest = request.launcher
    python = shutil.which(request.python, path=request.env.get("PATH")) or request.python
    if name in ("python", "python3"):
        return [python, *rest]
    beside = str(Path(python).parent) if Path(python).parent != Path() else ""
    found = shutil.which(name, path=beside) or shutil.which(name, path=request.env.get("PATH"))
    if found is None:
        raise RunError(f"the launcher {name!r} does not exist or is not executable")
    return [found, *rest]


def _one_stopped(tape: Path) -> bool:
    """Return whether a process came to a limit: those that wait for it would wait for ever."""
    for path in tape.parent.glob("tape.rank*"):
        with contextlib.suppress(OSError), path.open("rb") as file:
            file.seek(max(path.stat().st_size - 4096, 0))
            last = file.read().rstrip(b"\n").rpartition(b"\n")[2]
            if last.startswith(b'{"event":"End","how":"stopped"'):
                return True
    return False


def _interpreter(request: RunRequest) -> str:
    python = shutil.which(request.python, path=request.env.get("PATH"))
    if python is None:
        raise InterpreterError(f"the interpreter {request.python!r} does not exist or is not executable")
    return python


def _options(request: RunRequest) -> list[str]:
    """Return the probe's options about the program, without the tape; raises RunError where there is none."""
    _look_for_program(request)
    options: list[str] = []
    for option, value in (
        ("--max-iterations", request.max_iterations),
        ("--max-backward", request.max_backward),
        ("--timeout", request.timeout),
        ("--seed", request.seed),
        ("--name", request.name or None),
        ("--notebook", 1 if request.notebook else None),
        ("--bytes", 1 if request.held else None),
        ("--levels", None if request.levels else 0),
    ):
        if value is not None:
            options += [option, str(value)]
    for option, places in (("--watch", request.watch), ("--passes", request.passes)):
        lines: dict[str, list[int]] = {}
        for file, line in sorted(places):
            lines.setdefault(str(Path(file).absolute()), []).append(line)
        for file, numbers in lines.items():
            options += [option, f"{file}:{','.join(map(str, numbers))}"]
    for path in _own(request):
        options += ["--own", path]
    if request.module:
        options.append("-m")
    return [*options, request.script, *request.args]


def _own(request: RunRequest) -> list[str]:
    """Return the files and folders that are the program's own, wherever it is started."""
    start = Path(request.cwd or ".")
    first = str(start if request.module else start / request.script)
    return own_of(first, (*request.own, *(file for file, _ in request.watch)))


def _look_for_program(request: RunRequest) -> None:
    script = Path(request.cwd or ".") / request.script
    if request.module:
        if not all(part.isidentifier() for part in request.script.split(".")):
            raise RunError(f"{request.script!r} is not the name of a module")
    elif script.is_dir():
        raise RunError(f"{request.script}: is a directory: name a script in it")
    elif not script.is_file():
        raise RunError(f"{request.script}: no such file")
    if request.cwd is not None and not Path(request.cwd).is_dir():
        raise RunError(f"{request.cwd}: no such directory")


@contextlib.contextmanager
def _named_pipe(folder: Path) -> Iterator[Path | None]:
    """Open a pipe in a folder that closes when this process ends, for processes that inherit no open files of it."""
    if not hasattr(os, "mkfifo"):
        yield None
        return
    path = folder / "alive"
    os.mkfifo(path)
    # Both ends: opening it for writing alone would wait for a reader.
    handle = os.open(path, os.O_RDWR)
    try:
        yield path
    finally:
        os.close(handle)


@contextlib.contextmanager
def lifeline() -> Iterator[int | None]:
    """Open a pipe whose other end closes when this process ends, however it does: the child's end of it."""
    if os.name == "nt":
        yield None
        return
    read, write = os.pipe()
    try:
        yield read
    finally:
        os.close(read)
        os.close(write)


def _start(request: RunRequest, command: list[str], alive: int | None) -> subprocess.Popen[bytes]:
    windows = os.name == "nt"
    flags = getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0) if windows else 0
    try:
        return subprocess.Popen(
            command, stdin=None if request.stdin else subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, cwd=request.cwd, env={**os.environ, **request.env},
            creationflags=flags, start_new_session=not windows, pass_fds=() if windows or alive is None else (alive,),
        )  # fmt: skip
    except OSError as error:
        why = error.strerror or error
        raise InterpreterError(f"the interpreter {request.python!r} cannot be started: {why}") from error


def _pass_on(process: subprocess.Popen[bytes], number: int) -> None:
    """Send a program the signal that this process had, as a terminal would: Ctrl+C goes to all of its processes."""
    with contextlib.suppress(ProcessLookupError, PermissionError, ValueError):
        if os.name == "nt":
            process.send_signal(getattr(signal, "CTRL_BREAK_EVENT", signal.SIGTERM))
        elif number == signal.SIGINT:
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)


def _kill(process: subprocess.Popen[bytes], tape: Path | None = None) -> None:
    """Kill what is left of the process group: the script, data-loader workers, whatever it started.

    Of a launcher whose tapes begin with `tape` each of its processes leads a group of its own, too.
    """
    for path in [] if tape is None else sorted(tape.parent.glob("tape.rank*.pid")):
        with contextlib.suppress(OSError, ValueError):
            _kill_rank(int(path.read_text()), str(tape))
    if os.name == "nt":
        if process.poll() is None:
            subprocess.run(["taskkill", "/F", "/T", "/PID", str(process.pid)], capture_output=True, check=False)
    else:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _kill_rank(number: int, tape: str) -> None:
    if os.name == "nt":
        subprocess.run(["taskkill", "/F", "/T", "/PID", str(number)], capture_output=True, check=False)
        return
    commands = Path(f"/proc/{number}/cmdline")
    if Path("/proc/self/cmdline").exists() and tape.encode() not in commands.read_bytes():
        # It ended, and its number belongs to somebody else by now.
        return
    group = os.getpgid(number)
    if group == os.getpgid(0):
        os.kill(number, signal.SIGKILL)
    else:
        os.killpg(group, signal.SIGKILL)


class _Lines:
    """Passes output on in whole lines, so that lines of two streams never mix within one another.

    A write need not be a line. The beginning of a line (a prompt) is passed on once nothing more came for
    a moment, what follows a carriage return (a progress bar) at once.
    """

    def __init__(self, on_event: Callable[[Union[Output, Progress]], None] | None) -> None:
        self._on_event = on_event
        self._lock = threading.Lock()
        self._decoders: dict[Stream, codecs.IncrementalDecoder] = {}
        self._begun: dict[Stream, str] = {}
        self._last: dict[Stream, float] = {}

    def add(self, stream: Stream, data: bytes) -> None:
        with self._lock:
            if stream not in self._decoders:
                self._decoders[stream] = codecs.getincrementaldecoder("utf-8")("replace")
            text = self._begun.pop(stream, "") + self._decoders[stream].decode(data)
            end = text.rfind("\n") + 1
            if "\r" in text[end:] or len(text) - end > _LONGEST_LINE:
                end = len(text)
            if text[end:]:
                self._begun[stream], self._last[stream] = text[end:], time.monotonic()
            self._pass_on(stream, text[:end])

    def flush_idle(self) -> None:
        """Pass on the beginnings of lines to which nothing was added for a moment."""
        with self._lock:
            for stream in list(self._begun):
                if time.monotonic() - self._last[stream] >= _MOMENT_SECONDS:
                    self._pass_on(stream, self._begun.pop(stream))

    def flush(self, stream: Stream) -> None:
        """Pass on all there is of a stream, which came to its end."""
        with self._lock:
            decoder = self._decoders.pop(stream, None)
            rest = decoder.decode(b"", final=True) if decoder is not None else ""
            self._pass_on(stream, self._begun.pop(stream, "") + rest)

    def _pass_on(self, stream: Stream, text: str) -> None:
        # Under the lock: the two streams' lines reach the receiver one after the other.
        if text and self._on_event is not None:
            self._on_event(Output(stream, text))


class _Follower:
    """Passes on what the child writes, and counts what appears on its tape.

    What the receiver of the output raises (its reader has left) ends the run.
    """

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        tape: Path,
        began: float,
        on_event: Callable[[Union[Output, Progress]], None] | None,
    ) -> None:
        self.process = process
        self.tape = tape
        self.began = began
        self.on_event = on_event
        self.tails: dict[Stream, deque[bytes]] = {"stdout": deque(), "stderr": deque()}
        self.lines = _Lines(on_event)
        self.refused: Exception | None = None
        # The signal that was passed on, and when something was read last.
        self.passed_on = 0
        self.heard = began
        # The tape of the first process that the program spawns: it tells how far the run is once it trains.
        self.spawned: Path | None = None
        self.backwards = 0
        # A program may remove the folder that its tape is in: what was opened stays.
        self._open: dict[Path, BinaryIO] = {}
        self._position = 0
        self._rest = b""
        # Loops by the place of their text: each run of a loop has a number of its own.
        self._training: set[str] = set()
        self._differentiating: set[str] = set()
        self._counts: dict[str, int] = {}
        self._loops: dict[int, str] = {}
        # The last index of each loop's iterations.
        self._indexes: dict[int, int] = {}
        self._sites: dict[int, tuple[str, int | None]] = {}
        self._passed = {"passed-calls": 0, "passed-iterations": 0}
        self._readers = [
            threading.Thread(target=self._read, args=(name, pipe), daemon=True)
            for name, pipe in zip(self.tails, (process.stdout, process.stderr), strict=True)
        ]
        for reader in self._readers:
            reader.start()

    def wait(
        self,
        request: RunRequest,
        cancelled: Callable[[], bool] | None,
        signalled: Callable[[], int] | None = None,
        one_stopped: Callable[[], bool] | None = None,
    ) -> _Stopped:
        """Wait for the child; return why it has to be killed, an empty string where it ended by itself.

        Once `one_stopped` returns True the child has a moment left.
        """
        timeout = request.timeout
        left: float | None = None
        end: float | None = None
        looked = time.monotonic()
        while True:
            try:
                self.process.wait(_POLL_SECONDS)
                self._progress()
                return ""
            except subprocess.TimeoutExpired:
                pass
            self._pass_on(self.lines.flush_idle)
            if self.refused is not None:
                raise self.refused
            self._progress()
            # The child stops itself at the next backward; this is for one that comes to none.
            if timeout is not None and time.monotonic() - self.began > timeout + min(_GRACE_SECONDS, timeout / 10):
                return "timeout"
            now = time.monotonic()
            if (cancelled is not None and cancelled()) or (end is not None and now > end):
                return "cancelled"
            if signalled is not None and not self.passed_on and (number := signalled()):
                self.passed_on, end = number, now + request.grace
                _pass_on(self.process, number)
            if one_stopped is not None and left is None and now - looked > 1.0:
                looked = now
                left = now + _GRACE_SECONDS if one_stopped() else None
            if left is not None and now > left:
                return "stopped"

    def close(self) -> None:
        end = time.monotonic() + _DRAIN_SECONDS
        self.heard = max(self.heard, time.monotonic() - _QUIET_SECONDS / 2)
        # A reader may wait for a process that left the group and keeps the pipe open.
        for reader in self._readers:
            while reader.is_alive() and time.monotonic() < min(end, self.heard + _QUIET_SECONDS):
                reader.join(_POLL_SECONDS)
        for stream in self.tails:
            self._pass_on(self.lines.flush, stream)

    def text(self, stream: Stream) -> str:
        return b"".join(self.tails[stream])[-_TAIL_BYTES:].decode(errors="replace")

    def _read(self, name: Stream, pipe: IO[bytes]) -> None:
        tail, size = self.tails[name], 0
        while chunk := os.read(pipe.fileno(), 65536):
            self.heard = time.monotonic()
            tail.append(chunk)
            size += len(chunk)
            while size - len(tail[0]) >= _TAIL_BYTES:
                size -= len(tail.popleft())
            self._pass_on(self.lines.add, name, chunk)
        self._pass_on(self.lines.flush, name)

    def _opened(self, tape: Path) -> BinaryIO:
        if tape not in self._open:
            self._open[tape] = tape.open("rb")
        return self._open[tape]

    def tape_of(self, path: Path) -> Tape:
        """Read the tape at a path, though the program has removed it. Raises OSError and TapeError."""
        if path.exists() or path not in self._open:
            with path.open(encoding="utf-8", errors="replace") as text:
                return read_tape(text)
        file = self._open[path]
        file.seek(0)
        return read_tape(io.StringIO(file.read().decode(errors="replace")))

    def let_go(self) -> None:
        """Close the tapes."""
        for file in self._open.values():
            file.close()

    def _pass_on(self, step: Callable[..., None], *arguments: object) -> None:
        if self.refused is None:
            try:
                step(*arguments)
            except Exception as error:
                # The pipe is still read, or the program would wait for ever: `wait` raises it.
                self.refused = error

    def _progress(self) -> None:
        before = (self.iterations, self.backwards)
        if self.spawned is not None and not self.backwards and self.spawned.exists():
            self.tape, self.spawned, self._position, self._rest = self.spawned, None, 0, b""
            self._loops.clear()
            self._sites.clear()
        try:
            file = self._opened(self.tape)
            file.seek(self._position)
            while chunk := file.read(1 << 20):
                self._position += len(chunk)
                lines = (self._rest + chunk).split(b"\n")
                self._rest = lines.pop()
                for line in lines:
                    self._count(line)
        except OSError:
            return
        if (self.iterations, self.backwards) != before and self.on_event is not None:
            self.on_event(Progress(self.iterations, self.backwards, time.monotonic() - self.began))

    @property
    def iterations(self) -> int:
        """How many iterations the loops have had that call backward; until one does, those that call autograd.grad."""
        loops = self._training or self._differentiating
        return self._passed["passed-iterations"] + sum(self._counts.get(place, 0) for place in loops)

    def _begin_loop(self, number: int, place: str, outer: int | None, *, hidden: bool) -> None:
        self._loops[number] = place
        if hidden:
            # It is found in its second iteration; the first one is made up for by that which passes last.
            self._indexes[number] = 1
        if hidden and outer is not None and self._loops.get(outer) in self._training:
            # What was taken for the loop that trains is the one around it.
            self._training.discard(self._loops[outer])

    def _count(self, line: bytes) -> None:
        with contextlib.suppress(ValueError, KeyError, IndexError, TypeError):
            if line.startswith(b'{"event":"Site"'):
                site = json.loads(line)
                if len(self._sites) > _MAX_SITES:
                    self._sites.clear()
                self._sites[site["id"]] = (str(site["span"]), site["iteration"][-1][0] if site["iteration"] else None)
            elif line.startswith(b'{"event":"Loop"'):
                entry = json.loads(line)
                if entry["at"] in self._sites:
                    self._begin_loop(entry["id"], *self._sites[entry["at"]], hidden=bool(entry.get("hidden")))
            elif line.startswith(b'{"event":"Iteration"'):
                entry = json.loads(line)
                number, index = entry["loop"], entry["index"]
                place, before = self._loops[number], self._indexes.get(number, 0)
                self._indexes[number] = index
                # Until a loop trains, only some of its iterations are on the tape; later those that pass are counted.
                trains = place in self._training or place in self._differentiating
                self._counts[place] = self._counts.get(place, 0) + (1 if trains else max(index - before, 1))
            elif line.startswith(b'{"event":"Measure"') and b'"passed-' in line:
                entry = json.loads(line)
                before, self._passed[entry["name"]] = self._passed[entry["name"]], int(entry["value"])
                if entry["name"] == "passed-calls":
                    self.backwards += self._passed["passed-calls"] - before
            elif line.startswith(b'{"event":"Backward"') and b'"succeeded":true' not in line:
                self.backwards += 1
                entry = json.loads(line)
                inner = self._sites[entry["at"]][1]
                if inner is not None:
                    # Iterations count from the first backward of a loop on, those before it included.
                    loops = self._differentiating if entry.get("call") == "grad" else self._training
                    loops.add(self._loops[inner])


def _read(request: RunRequest, code: int, path: Path, follower: _Follower, stopped: _Stopped) -> Tape:
    """Return the tape of a child that ended."""
    stderr = follower.text("stderr")
    if code == NO_TORCH:
        raise InterpreterError(f"{request.python} has no torch: choose the interpreter that the script is run with")
    if code == OLD_PYTHON:
        raise InterpreterError(stderr.strip().removeprefix("tapecheck: "))
    try:
        tape = follower.tape_of(path)
    except (OSError, TapeError) as error:
        if stopped:
            return Tape("tapecheck recorder")
        if path.is_file():
            # The recorder began one, and the program has run.
            return Tape("tapecheck recorder", [End("stopped", "the tape could not be written")])
        raise RunError(_no_tape(request, code, stderr)) from error
    if code == OLD_TORCH and tape.events and isinstance(end := tape.events[-1], End) and _TOO_OLD in end.detail:
        raise InterpreterError(end.detail)
    return tape


def _result(
    request: RunRequest,
    process: subprocess.Popen[bytes],
    tapes: dict[int, Tape],
    follower: _Follower,
    stopped: _Stopped,
    seconds: float,
    order: Sequence[int] = (),
) -> RunResult:
    code = process.returncode
    tape = merge({rank: _uncaught_once(one) for rank, one in tapes.items()}, order)
    end = tape.events[-1] if tape.events and isinstance(tape.events[-1], End) else None
    killed = -code if code < 0 and not stopped and os.name != "nt" else None
    lost = end is None or _tape_ended(end)
    how, detail = _ending(end, stopped, killed, code, request)
    if follower.passed_on:
        name = signal_name(follower.passed_on)
        after = detail if how in ("died", "raised") and detail else f"it ended with exit code {code}"
        if stopped == "cancelled":
            after = f"killed after {request.grace:g} more second{'' if request.grace == 1 else 's'}"
        how, detail = "cancelled", f"{name}; {after}"
        if end is not None:
            # Its handlers ran and it ended as it wanted to: that is not the end it would have come to.
            tape.events[-1] = end = End("stopped", f"interrupted by {name}")
    if end is None:
        tape.events.append(End("stopped", detail))
    ended = killed is None and not stopped and how != "timeout"
    failed = _FAILURE.search(end.detail) if end is not None else None
    return RunResult(
        tape=tape, exit_code=code if ended else None, signal=killed, how_ended=how, detail=detail,
        stdout=follower.text("stdout"), stderr=follower.text("stderr"), seconds=seconds,
        iterations=follower.iterations, backwards=follower.backwards, lost=lost, interrupted=follower.passed_on,
        failure=failed[0] if failed is not None else "",
    )  # fmt: skip


def _tape_ended(end: End) -> bool:
    """Return whether a tape ended before its program did: no room for it, a limit of its own, or a fault."""
    return end.how == "stopped" and end.detail.startswith(BLIND)


def signal_name(number: int) -> str:
    """Return a signal's name: SIGINT for 2."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _ending(end: End | None, stopped: _Stopped, killed: int | None, code: int, request: RunRequest) -> tuple[How, str]:
    if stopped == "timeout":
        return "timeout", f"killed after {request.timeout:g} seconds"
    if stopped == "cancelled":
        return "cancelled", "cancelled"
    if killed is not None:
        return "died", f"the process was ended by {signal_name(killed)}"
    if end is None:
        return "died", f"the process ended itself with exit code {code} before the recorder could close the tape"
    if _tape_ended(end):
        return "finished", end.detail
    if end.how == "raised":
        return "raised", end.detail
    if end.how == "stopped" and request.timeout is not None and _time_is_up(request.timeout) in end.detail:
        return "timeout", end.detail
    return ("stopped" if end.how == "stopped" else "finished"), end.detail


def _time_is_up(timeout: float) -> str:
    return f"after {timeout:g} seconds"


def _no_tape(request: RunRequest, code: int, stderr: str) -> str:
    last = (stderr.strip().splitlines()[-1:] or [f"exit code {code}"])[0]
    if request.launcher:
        return f"the launcher {request.launcher[0]} started no program that could be recorded: {last}"
    command = [request.python, "-c", "print('tape' + 'check')"]
    try:
        answer = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=20, check=False).stdout
    except (OSError, subprocess.SubprocessError):
        answer = b""
    if b"tapecheck" not in answer:
        return f"{request.python} is not a Python interpreter: {last}"
    return f"{request.python} could not run the recorder: {last}"


def _uncaught_once(tape: Tape) -> Tape:
    """Drop the note of an exception as caught where a later one shows that it was not caught in the end."""
    last = next((event for event in reversed(tape.events) if isinstance(event, Raised)), None)
    if last is None or last.caught:
        return tape
    same = dataclasses.replace(last, caught=True)
    earlier = [
        event for event in tape.events
        if isinstance(event, Raised) and dataclasses.replace(event, node=None, left=False) == same
    ]  # fmt: skip
    if earlier:
        final = dataclasses.replace(last, node=earlier[-1].node)
        tape.events = [final if event is last else event for event in tape.events if event is not earlier[-1]]
    return tape
