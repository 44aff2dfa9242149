"""Recording from within a program: `with tapecheck.record() as tape:` in scripts, notebooks and tests.

What the block does is recorded, and no process is started. It needs torch in this process, and Python's tracing to
itself up to 3.11 (no debugger, no coverage tool).
"""

from __future__ import annotations

import functools
import io
import linecache
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from tapecheck.record.evidence import judge
from tapecheck.record.probe import PRODUCER
from tapecheck.record.probe.following import follow
from tapecheck.record.probe.recorder import Limits, Recorder
from tapecheck.record.probe.sources import Sources
from tapecheck.record.probe.writer import Writer
from tapecheck.record.program import own_of
from tapecheck.record.run import whole_file
from tapecheck.record.scratch import Scratch
from tapecheck.rules.finding import Finding
from tapecheck.tape import End, Tape, TapeError, read_tape, write_tape

if TYPE_CHECKING:
    from _typeshed import TraceFunction

_MAX_BYTES = 256_000_000
_PACKAGE = str(Path(__file__).parents[1])
_P = ParamSpec("_P")
_R = TypeVar("_R")
_active: Recording | None = None


@dataclass(slots=True)
class RecordedTape(Tape):
    """The tape of a block: empty while the block runs, whole once it is left."""

    producer: str = PRODUCER
    directory: str = field(default_factory=os.getcwd)

    @property
    def findings(self) -> list[Finding]:
        """Return what the rules and the exceptions of the block say, each with its evidence."""
        return judge([], self, directory=self.directory)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the tape to a file that `tapecheck check` and `tapecheck diff` read."""
        with whole_file(Path(path)) as file:
            write_tape(self, file)

    def __str__(self) -> str:
        from tapecheck.report import Checked, Sources, text

        return text.render([Checked("the recorded block", self.findings)], Sources())


class Recording:
    """A context manager, and a decorator: the tape of the last call is then the attribute `tape` of the function.

    `save` is a file to write the tape to when the block is left. Exceptions of the block pass through. One that
    `gives_way` ends once another one begins.
    """

    def __init__(self, save: str | os.PathLike[str] | None = None, *, gives_way: bool = False) -> None:
        self.save = save
        self.gives_way = gives_way
        self.tape = RecordedTape()
        self._recorder: Recorder | None = None
        self._scratch: Scratch | None = None
        self._before: TraceFunction | None = None

    def __enter__(self) -> RecordedTape:
        frame = sys._getframe(1)
        while frame.f_code.co_filename.startswith(_PACKAGE) and frame.f_back is not None:
            frame = frame.f_back
        return self.start(frame.f_code.co_filename, frame)

    def start(self, filename: str, frame: FrameType | None = None, *, beside: bool = False) -> RecordedTape:
        """Begin to record; the program is what a run of `filename` in the working directory would have for its own.

        `frame` is the innermost call that runs already. With `beside` whoever traces the process has its tracing back
        at the end. Raises RuntimeError where another recording runs, or else a debugger or a coverage tool.
        """
        global _active
        if _active is not None:
            if not _active.gives_way:
                raise RuntimeError("a recording is running already: one at a time")
            _active.__exit__(None, None, None)
        import torch

        scratch = Scratch()
        is_file = Path(filename).is_file()
        sources = Sources(filename, _shown(filename), _PACKAGE, own_of(filename if is_file else str(Path.cwd())))
        if not is_file:
            # A cell of a notebook: its text is where tracebacks find it.
            sources.give(filename, linecache.getlines(filename))
        writer = Writer(str(scratch.path / "tape.jsonl"), PRODUCER)
        recorder = Recorder(sources, writer, Limits(tape_bytes=_MAX_BYTES), {})
        self._before = sys.gettrace() if beside and not hasattr(sys, "monitoring") else None
        try:
            if self._before is not None:
                sys.settrace(None)
            recorder.attach(torch, deeper=False)
            if recorder.refused:
                raise RuntimeError(recorder.refused)
            follow(recorder.tracer, _user_frames(frame, sources))
        except BaseException:
            recorder.detach()
            scratch.close()
            raise
        self._recorder, self._scratch, _active = recorder, scratch, self
        self.tape = RecordedTape()
        return self.tape

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        global _active
        recorder, scratch = self._recorder, self._scratch
        self._recorder, self._scratch, _active = None, None, None
        if recorder is None or scratch is None:
            return
        recorder.tracer.stop()
        if self._before is not None:
            sys.settrace(self._before)
        if error is not None:
            recorder.raises.uncaught(error)
        recorder.finish("finished" if error is None else "raised", "" if error is None else f"{kind and kind.__name__}")
        recorder.detach()
        try:
            # Not by its name: the program may have removed the folder.
            self.tape.events[:] = read_tape(io.StringIO(recorder.writer.text())).events
        except TapeError:
            self.tape.events[:] = [End("stopped", "the tape could not be written")]
        finally:
            recorder.writer.abandon()
            scratch.close()
        if self.save is not None:
            self.tape.save(self.save)

    def __call__(self, function: Callable[_P, _R]) -> Callable[_P, _R]:
        @functools.wraps(function)
        def recorded(*args: _P.args, **words: _P.kwargs) -> _R:
            one = Recording(self.save)
            try:
                with one:
                    return function(*args, **words)
            finally:
                recorded.tape = one.tape  # type: ignore[attr-defined]

        return recorded


def _shown(filename: str) -> str:
    path = Path(filename)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else filename


def _user_frames(frame: FrameType | None, sources: Sources) -> list[FrameType]:
    """Return the user's frames that run now, outermost first."""
    found = []
    while frame is not None:
        if sources.is_user(frame.f_code.co_filename):
            found.append(frame)
        frame = frame.f_back
    return found[::-1]
