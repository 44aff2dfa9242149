"""Functions that a program starts in other processes and threads: each thread begins with recording switched on."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable

from tapecheck.interpret.engine import Engine
from tapecheck.interpret.library.process_memory import CannotBePutBackError, Memory
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
from tapecheck.tape import Fact, GradientSet

_STARTED = (Function, Bound, Wrapped)


CLASSES = (
    "multiprocessing.Process", "multiprocessing.context.Process", "multiprocessing.process.BaseProcess",
    "threading.Thread", "torch.multiprocessing.Process",
)  # fmt: skip


_THREAD = "threading.Thread"
"""What runs in the memory of what starts it: a process has one of its own."""


def worker(kind: str) -> Callable[[Engine, Args, Kwargs, ast.AST], Value]:
    """Return what makes a `Process` or a `Thread`: `start` and `run` call its target."""

    def make(m: Engine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        given = _given(args, kwargs)
        if not isinstance(given.get("target"), _STARTED):
            return NO_MODEL
        made = Instance(None, kind)
        prepare(made)
        construct(made, args, kwargs)
        return made

    return make


def _given(args: Args, kwargs: Kwargs) -> dict[str, Value]:
    return {**dict(zip(("group", "target", "name", "args", "kwargs"), args)), **kwargs}


def prepare(made: Instance) -> None:
    """Give an object what a process or thread has, as far as its class does not say otherwise."""

    def start(m: Engine, none: Args, no: Kwargs, at: ast.AST) -> Value:
        run = m.get_attribute(made, "run", at)
        if _THREAD in (made.cls.library_bases() if made.cls is not None else (made.lib,)):
            _call(m, run, [], {}, at, "yes")
        else:
            # A forked process goes on with the mode of the thread that has forked it, a spawned one does not.
            mode: Fact = "yes" if m.world.modes.grad_mode == "yes" else "may"
            _apart(m, (made, run), at, lambda: _call(m, run, [], {}, at, mode))
        return None

    has: dict[str, Value] = {"start": Native("start", start), "run": Native("run", _nothing)}
    has |= {name: Native(name, _nothing) for name in ("join", "terminate", "kill", "close", "setDaemon")}
    has |= {name: Unknown.plain(name) for name in ("daemon", "name", "pid", "exitcode")}
    has["is_alive"] = Native("is_alive", lambda m, none, no, at: Unknown.plain("is_alive"))
    for name, value in has.items():
        if made.cls is None or not made.cls.defines(name):
            made.attrs[name] = value


def construct(made: Instance, args: Args, kwargs: Kwargs) -> None:
    """Run the constructor of a process or thread: it keeps what `run` is to call."""
    given = _given(args, kwargs)
    target = given.get("target")
    if not isinstance(target, _STARTED) or "run" not in made.attrs:
        return

    def run(m: Engine, none: Args, no: Kwargs, at: ast.AST) -> Value:
        named = given.get("kwargs")
        extra: Kwargs = {}
        if isinstance(named, Dict) and not named.more:
            extra = named.named()
        return m.call(target, _items(m, given.get("args"), at), extra, at)

    made.attrs["run"] = Native("run", run, receiver=tuple(given.values()))


def _nothing(m: Engine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return None


def spawn(m: Engine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """`torch.multiprocessing.spawn(fn, args, nprocs)` calls the function with the rank of each process first."""
    given = {**dict(zip(("fn", "args", "nprocs"), args)), **kwargs}
    target = given.get("fn")
    if not isinstance(target, _STARTED):
        return NO_MODEL
    passed = _items(m, given.get("args"), node)
    given_to = [Unknown.whole("rank"), *passed]
    _apart(m, (target, *passed), node, lambda: _call(m, target, given_to, {}, node, "yes"))
    return None


def _items(m: Engine, value: Value, node: ast.AST) -> list[Value]:
    if value is None:
        return []
    known = behaviour(value).known_items(m, node)
    return list(known) if known is not None else []


def _apart(m: Engine, given: Iterable[Value], node: ast.AST, call: Callable[[], None]) -> None:
    """Run something that has a memory of its own: no process takes up what another one, or the same function in one
    before, has left behind in an object. What cannot be put back is not run.
    """
    try:
        memory = Memory(m.world, given)
    except CannotBePutBackError:
        return
    memory.begin(node)
    try:
        call()
    finally:
        for leaf in sorted(memory.put_back()):
            # To a rule each process has another parameter: what one has added is no longer there.
            m.world.writer.emit(GradientSet(m.world.position.site(node), leaf))


def _call(m: Engine, target: Value, args: list[Value], kwargs: Kwargs, node: ast.AST, recording: Fact) -> None:
    """Call what a process or thread begins with, with recording in a mode of its own; it ends by itself."""
    with m.world.modes.recording(recording):
        try:
            m.call(target, args, kwargs, node)
        except Signal:
            # An exception ends the process or thread, not the one that started it.
            pass
