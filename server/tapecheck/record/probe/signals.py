"""Signals of the program that come while code of the recorder runs: their handlers run once it is left.

A handler may raise, as those of time limits do: out of the midst of the recorder that would be taken for a fault of its
own, and the program would never see it.
"""

from __future__ import annotations

import _thread
import os
import signal
import sys
import threading
from types import FrameType, ModuleType
from typing import Callable, Dict, Optional

_OWN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "")
# What the whole program runs in, or the import of torch.
_AROUND = (_OWN + "command.py", _OWN + "__main__.py")
_NAME = "_signal"
_native: ModuleType = vars(signal)[_NAME]

due: Dict[int, None] = {}
"""The signals whose handlers wait. Whatever Python calls of the recorder looks here, and where there are some does
`trip[due.popitem()[0]]` as the very last thing.
"""


class _Trip(Dict[int, object]):
    """Has a signal look as if it came just now, when it is subscripted by its number.

    After a call Python runs the handler at once, in the recorder's own frame; after a subscript it does not.
    """

    __missing__ = staticmethod(_thread.interrupt_main if sys.version_info >= (3, 10) else signal.raise_signal)


trip = _Trip()


class _Choosing:
    """What is called where a signal came: chosen when the interpreter asks, so that no traceback has a frame of it."""

    def __get__(self, installed: _Deferring, kind: type) -> Callable[..., object]:
        if not _inside(sys._getframe(1)):
            return installed.handler
        due[installed.number] = None
        return _nothing


class _Deferring:
    """What is installed in the place of a handler of the program's."""

    __slots__ = ("handler", "number")
    __call__ = _Choosing()

    def __init__(self, number: int, handler: Callable[..., object]) -> None:
        self.number = number
        self.handler = handler


def _nothing(number: int, frame: Optional[FrameType]) -> None:
    """Do nothing yet."""


def _inside(frame: Optional[FrameType]) -> bool:
    """Return whether code of the recorder runs in a frame, or has called what does."""
    while frame is not None:
        name = frame.f_code.co_filename
        if name.startswith(_OWN):
            return name not in _AROUND
        frame = frame.f_back
    return False


def defer() -> Callable[[], None]:
    """Begin to hold handlers back, those that are installed already, too; what is returned ends that.

    The program sees its own handlers only: `signal.signal` and `signal.getsignal` are as they were, but for what they
    call.
    """
    ours = ModuleType(_NAME)
    vars(ours).update(vars(_native))

    def install(number: int, handler: object) -> object:
        return _of_program(_native.signal(number, _deferring(number, handler)))

    def installed(number: int) -> object:
        return _of_program(_native.getsignal(number))

    vars(ours).update(signal=install, getsignal=installed)
    vars(signal)[_NAME] = ours
    _exchange(_deferring)

    def stop() -> None:
        if vars(signal)[_NAME] is ours:
            vars(signal)[_NAME] = _native
        _exchange(lambda number, handler: _of_program(handler))
        while due:
            trip[due.popitem()[0]]

    return stop


def _deferring(number: int, handler: object) -> object:
    return _Deferring(number, handler) if callable(handler) else handler


def _of_program(handler: object) -> object:
    return handler.handler if isinstance(handler, _Deferring) else handler


def _exchange(other: Callable[[int, object], object]) -> None:
    """Install others in the place of the handlers that there are, as far as this thread may."""
    if threading.current_thread() is not threading.main_thread():
        return
    for number in signal.valid_signals():
        before = _native.getsignal(number)
        after = other(number, before)
        if after is not before:
            _native.signal(number, after)
