"""What every hook of the recorder runs in: nothing of the program's sees it, and its faults stay in the recorder."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from types import CodeType, ModuleType, TracebackType
from typing import Callable, Iterator, Optional, Set

from .recording import Recording

_PACKAGE = __name__.rpartition(".")[0]


class Guard:
    """Runs the body of a hook without torch functions of the program's subclasses and modes, and notes its faults.

    Threads run hooks one at a time: what is known of the run belongs to all of them.
    """

    __slots__ = ("_lock", "_plainly", "_recorder")

    def __init__(self, recorder: Recording) -> None:
        self._recorder = recorder
        self._lock = recorder.lock
        self._plainly: Optional[AbstractContextManager[None]] = None

    def __enter__(self) -> None:
        recorder = self._recorder
        if recorder.attached:
            try:
                plainly = recorder.torch._C.DisableTorchFunction()
                plainly.__enter__()
                self._plainly = plainly
            except Exception:
                recorder.failed()
        self._lock.acquire()

    def __exit__(self, kind: object, error: object, traceback: Optional[TracebackType]) -> bool:
        self._lock.release()
        if self._plainly is not None:
            self._plainly.__exit__(None, None, None)
        if not isinstance(error, Exception):
            return False
        self._recorder.failed()
        return True


def keep_uncompiled() -> None:
    """Have torch.compile leave the recorder's own code alone: what runs within a compiled region is compiled else."""
    skip = _skip()
    if skip is None:
        return
    seen: Set[int] = set()
    for name, module in list(sys.modules.items()):
        if name == _PACKAGE or name.startswith(_PACKAGE + "."):
            for code in _codes(module):
                for each in _within(code):
                    if id(each) not in seen:
                        seen.add(id(each))
                        skip(each)


def _skip() -> Optional[Callable[[CodeType], object]]:
    """Return what marks a code object as one that is never compiled; None where this torch has no such thing."""
    try:
        from torch._C._dynamo import eval_frame
    except ImportError:
        return None
    plain: Optional[Callable[[CodeType], object]] = getattr(eval_frame, "skip_code", None)
    if plain is not None:
        return plain
    try:
        action = eval_frame._FrameAction
        strategy = eval_frame._FrameExecStrategy(action.SKIP, action.DEFAULT)
        return lambda code: eval_frame.set_code_exec_strategy(code, strategy)
    except AttributeError:
        return None


def _codes(module: ModuleType) -> Iterator[CodeType]:
    """Yield the code of the functions and methods of a module of the recorder."""
    for value in list(vars(module).values()):
        members = list(vars(value).values()) if isinstance(value, type) else [value]
        for member in members:
            if isinstance(member, property):
                member = member.fget
            function = getattr(member, "__func__", member)
            code = getattr(getattr(function, "__wrapped__", function), "__code__", None)
            if isinstance(code, CodeType) and getattr(function, "__module__", None) == module.__name__:
                yield code


def _within(code: CodeType) -> Iterator[CodeType]:
    """Yield a code object and those of the functions defined in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _within(constant)
