"""Imports of libraries go without trace events: they make hundreds of thousands of calls and run no code of the user's.

Up to Python 3.11 each call of a traced thread costs. `torch._dynamo` alone, which the first optimizer imports, takes
0.45 seconds of CPU more with them.
"""

from __future__ import annotations

import importlib
import sys
import threading
from typing import Callable, Optional, Set

from .tracing import Tracer, tracing_function

# In the name of importlib's own file: Python leaves its frames off the tracebacks of failed imports, and off the stack
# that warnings are counted by.
_NAME = "<frozen importlib._bootstrap_external>"
_TEXT = """
def exec_module(self, module):
    before = begin(self)
    try:
        native(self, module)
    finally:
        end(before)
"""


def quietly(tracer: Tracer) -> Callable[[], None]:
    """Have the thread that imports a library's module go without events meanwhile; what is returned ends that."""
    loader = importlib.import_module("importlib._bootstrap_external")._LoaderBasics
    native = loader.exec_module
    # Threads within the import of a library.
    within: Set[int] = set()

    def begin(self: object) -> Optional[bool]:
        try:
            thread, trace, now = threading.get_ident(), tracer.trace, tracing_function()
            user = tracer.sources.is_user(str(getattr(self, "path", "")))
            if trace is not None and now is trace and not user:
                within.add(thread)
                sys.settrace(None)
                return True
            if trace is not None and now is None and user and thread in within:
                # A library imports what it is told to: a plugin, a configuration.
                within.discard(thread)
                sys.settrace(trace)
                return False
        except Exception:
            tracer.failed()
        return None

    def end(paused: Optional[bool]) -> None:
        thread, trace, now = threading.get_ident(), tracer.trace, tracing_function()
        if paused and now is None:
            within.discard(thread)
            sys.settrace(trace)
        elif paused is False and now is trace:
            within.add(thread)
            sys.settrace(None)

    space = {"begin": begin, "end": end, "native": native, "__name__": native.__module__}
    exec(compile(_TEXT, _NAME, "exec"), space)
    ours = loader.exec_module = space["exec_module"]

    def stop() -> None:
        if loader.exec_module is ours:
            loader.exec_module = native

    return stop
