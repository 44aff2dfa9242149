"""Functions that a program starts in other processes and threads: each begins with recording switched on."""

from __future__ import annotations

import ast
from collections.abc import Callable

from tapecheck.interpret.engine import Engine
from tapecheck.interpret.values import (
    NO_MODEL,
    Args,
    Bound,
    Dict,
    Function,
    Instance,
    Kwargs,
    Native,
    Signal,
    Unknown,
    Value,
    Wrapped,
    behaviour,
)

_STARTED = (Function, Bound, Wrapped)


def worker(kind: str) -> Callable[[Engine, Args, Kwargs, ast.AST], Value]:
    """Return what makes a `Process` or a `Thread`: `start` and `run` call its target."""

    def make(m: Engine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        given = {**dict(zip(("group", "target", "name", "args", "kwargs"), args)), **kwargs}
        target = given.get("target")
        if not isinstance(target, _STARTED):
            return NO_MODEL
        made = Instance(None, kind)

        def start(m2: Engine, none: Args, no: Kwargs, at: ast.AST) -> Value:
            named = given.get("kwargs")
            extra: Kwargs = {}
            if isinstance(named, Dict) and not named.more:
                extra = {key: value for key, value in named.items.items() if isinstance(key, str)}
            _call(m2, target, _items(m2, given.get("args"), at), extra, at)
            return None

        made.attrs["start"] = made.attrs["run"] = Native("start", start)
        for name in ("join", "terminate", "kill", "close", "setDaemon"):
            made.attrs[name] = Native(name, lambda m2, none, no, at: None)
        for name in ("daemon", "name", "pid", "exitcode"):
            made.attrs[name] = Unknown.plain(name)
        made.attrs["is_alive"] = Native("is_alive", lambda m2, none, no, at: Unknown.plain("is_alive"))
        return made

    return make


def spawn(m: Engine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """`torch.multiprocessing.spawn(fn, args, nprocs)` calls the function with the rank of each process first."""
    given = {**dict(zip(("fn", "args", "nprocs"), args)), **kwargs}
    target = given.get("fn")
    if not isinstance(target, _STARTED):
        return NO_MODEL
    _call(m, target, [Unknown.whole("rank"), *_items(m, given.get("args"), node)], {}, node)
    return None


def _items(m: Engine, value: Value, node: ast.AST) -> list[Value]:
    if value is None:
        return []
    known = behaviour(value).known_items(m, node)
    return list(known) if known is not None else []


def _call(m: Engine, target: Value, args: list[Value], kwargs: Kwargs, node: ast.AST) -> None:
    """Call what a process or thread begins with: what its starter switched off is on there, and it ends by itself."""
    modes = m.world.modes.grad_modes
    m.world.modes.grad_modes = ["yes"]
    try:
        m.call(target, args, kwargs, node)
    except Signal:
        # An exception ends the process or thread, not the one that started it.
        pass
    finally:
        m.world.modes.grad_modes = modes
