"""Exceptions of autograd that pass the user's code: each is written once, with whether somebody catches it."""

from __future__ import annotations

import threading
from types import CodeType, FrameType, TracebackType
from typing import TYPE_CHECKING, Dict, NamedTuple, Optional, Tuple, Union

from .hooks import nodes_of, roots_of
from .lines import Activation, Context, Place, ThreadLines
from .memory import MemoryReport, ran_out
from .parallel import ParallelReport, not_reduced
from .recording import PendingException, Recording

if TYPE_CHECKING:
    from torch.autograd.graph import Node

_SECOND_TIME = "backward through the graph a second time"
_INPLACE = "modified by an inplace operation"
_OF_INTEREST = (
    _SECOND_TIME, _INPLACE, "does not require grad", "a leaf Variable that requires grad",
    "leaf Variable that requires grad is being used in an in-place operation",
    "appears to not have been used in the graph", "a leaf variable has been moved into the graph interior",
    "functions with out=... arguments don't support automatic differentiation",
)  # fmt: skip


# An exception by its id and its text, with the backward call that it left.
_Identity = Tuple[int, str, Optional[int]]


class _Written(NamedTuple):
    """An exception that is on the tape."""

    identity: _Identity
    at: int


class _Waiting(NamedTuple):
    """An exception of which it is not known yet whether somebody catches it."""

    identity: _Identity
    at: int
    kind: str
    message: str
    backward: Optional[int]
    node: Optional[int]


class Raises(PendingException):
    """The exception that waits to be seen caught or not, and the reports of those that are not autograd's."""

    def __init__(self, recorder: Recording) -> None:
        self.recorder = recorder
        self.told: Union[_Waiting, _Written, None] = None
        self.told_within: Tuple[int, Optional[Activation]] = (0, None)
        self.memory = MemoryReport()
        self.parallel = ParallelReport()

    def raised(self, lines: ThreadLines, error: BaseException, traceback: Optional[TracebackType]) -> None:
        """Note an exception that passes a user frame; only autograd's own are kept, each once, where it left torch."""
        recorder = self.recorder
        if not recorder.attached or recorder.disabled or recorder.ended or not isinstance(error, RuntimeError):
            return
        text = str(error)
        if ran_out(error) and recorder.tracer.alone:
            self.memory.write(recorder, lines, error, traceback)
            return
        if not_reduced(error):
            self.parallel.write(recorder, lines, error, traceback)
            return
        if not any(part in text for part in _OF_INTEREST):
            return
        own = getattr(recorder.walks.last, "code", None)
        asked = _SECOND_TIME in text or _INPLACE in text
        engine = _engine_called(traceback, own, asked)
        backward = recorder.walks.last.id if engine is not None else None
        if engine is not None:
            recorder.walks.keeping = True
            if recorder.walks.last.mark is not None:
                recorder.passing.write_failed(recorder.walks.last.mark, engine, traceback)
        elif asked and own is not None and traceback is not None and _called_by(traceback.tb_frame, own):
            return
        lines.stirs += 1
        # The same exception passes every frame up to its handler.
        identity = (id(error), text, backward)
        if self.told is None or self.told.identity != identity:
            self._keep(lines, error, identity, engine)

    def _keep(self, lines: ThreadLines, error: RuntimeError, identity: _Identity, engine: Optional[FrameType]) -> None:
        """Keep an exception until it is known whether somebody catches it; `engine` is the frame that called the engine
        where that raised it.
        """
        recorder, (_, text, backward) = self.recorder, identity
        with recorder.group():
            self.flush(caught=True)
            node = self._explain_stale(engine) if engine is not None and _INPLACE in text else None
            recorder.declare_loops(lines)
            at = recorder.here(lines)
            if engine is not None:
                at = recorder.walks.last.site
            # The id alone, never the exception.
            self.told = _Waiting(identity, at, type(error).__name__, text.split("\n")[0], backward, node)
            own = (call for call in lines.stack if not recorder.sources.is_library(call.code.co_filename))
            self.told_within = (threading.get_ident(), next(own, None))
        recorder.tracer.wait()

    def _explain_stale(self, frame: FrameType) -> Optional[int]:
        recorder = self.recorder
        newest: Optional[Tuple[int, Node, str]] = None
        for node in recorder.reader.walk_all(nodes_of(roots_of(frame)), 50_000):
            known = recorder.reader.known(node)
            if known is None or (newest is not None and known.id <= newest[0]):
                continue
            stale = recorder.reader.stale(node)
            if stale is not None:
                newest = (known.id, node, stale[0])
        return newest[0] if newest is not None else None

    def line_after_raise(self) -> None:
        if isinstance(self.told, _Waiting):
            with self.recorder.group():
                self.flush(caught=True)

    def flush(self, caught: bool) -> None:
        """Write the exception that waits to be seen caught or not."""
        recorder = self.recorder
        if not isinstance(self.told, _Waiting):
            return
        identity, at, kind, message, backward, node = self.told
        self.told = _Written(identity, at)
        fields: Dict[str, object] = {"at": at, "exception": kind, "message": message, "caught": caught}
        if backward is not None:
            fields["backward"] = backward
        if node is not None:
            fields["node"] = node
        thread, outermost = self.told_within
        if caught and outermost is not None and thread == threading.get_ident():
            if all(call is not outermost for call in recorder.tracer.lines().stack):
                # It left all of the user's code: who runs that, a test runner, has caught it.
                fields["left"] = True
        recorder.writer.event("Raised", **fields)

    def uncaught(self, error: BaseException) -> None:
        """Note the exception that ends the program."""
        recorder = self.recorder
        if recorder.disabled or recorder.ended:
            return
        with recorder.group() as lines:
            text = str(error)
            backward = None
            if self.told is not None and self.told.identity[:2] == (id(error), text):
                if isinstance(self.told, _Waiting):
                    self.flush(caught=False)
                    return
                # A `finally` ran in between: the exception went onto the tape as caught.
                backward, at = self.told.identity[2], self.told.at
            else:
                self.flush(caught=True)
                at = recorder.site(self._place_of(error), lines.iteration())
            fields: Dict[str, object] = {
                "exception": type(error).__name__,
                "message": text.split("\n")[0],
                "caught": False,
            }
            if backward is not None:
                fields["backward"] = backward
            recorder.writer.event("Raised", at=at, **fields)

    def _place_of(self, error: BaseException) -> Optional[Place]:
        """Return where in user code an exception was raised, with the calls that led there."""
        place: Optional[Place] = None
        step = error.__traceback__
        while step is not None:
            function = self.recorder.tracer.function(step.tb_frame.f_code)
            if function is not None:
                place = Place(Context(function, place), step.tb_lineno)
            step = step.tb_next
        return place


def _engine_called(traceback: Optional[TracebackType], own: Optional[CodeType], asked: bool) -> Optional[FrameType]:
    """Return the frame of some code that called the engine, where an exception left torch there; with `asked` wherever
    that was: the backward of a custom Function may raise it further in, where it asks for what it saved.
    """
    step = traceback
    while step is not None and step.tb_next is not None and not (asked and step.tb_frame.f_code is own):
        step = step.tb_next
    return step.tb_frame if step is not None and step.tb_frame.f_code is own else None


def _called_by(frame: Optional[FrameType], code: CodeType) -> bool:
    while frame is not None and frame.f_code is not code:
        frame = frame.f_back
    return frame is not None
