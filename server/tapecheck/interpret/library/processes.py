"""Functions that a program starts in other processes and threads: each begins with recording switched on."""

from __future__ import annotations

import ast
import contextlib
import copy
from collections.abc import Callable, Iterable, Iterator

from tapecheck.interpret import limits
from tapecheck.interpret.engine import Engine
from tapecheck.interpret.library import leaves
from tapecheck.interpret.values import (
    INERT,
    NO_MODEL,
    Args,
    Bound,
    Dict,
    Function,
    Instance,
    Kwargs,
    List,
    Native,
    Set,
    Signal,
    Storage,
    Tensor,
    Unknown,
    Value,
    Wrapped,
    behaviour,
)
from tapecheck.tape import GradientSet

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
        thread = _THREAD in (made.cls.library_bases() if made.cls is not None else (made.lib,))
        with contextlib.nullcontext() if thread else _apart(m, (made,), at):
            _call(m, m.get_attribute(made, "run", at), [], {}, at)
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
            extra = {key: value for key, value in named.items.items() if isinstance(key, str)}
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
    with _apart(m, (target, *passed), node):
        _call(m, target, [Unknown.whole("rank"), *passed], {}, node)
    return None


def _items(m: Engine, value: Value, node: ast.AST) -> list[Value]:
    if value is None:
        return []
    known = behaviour(value).known_items(m, node)
    return list(known) if known is not None else []


@contextlib.contextmanager
def _apart(m: Engine, given: Iterable[Value], node: ast.AST) -> Iterator[None]:
    """Run something that has a memory of its own: what it changes of the objects that it came by stays there.

    So no process takes up what another one, or the same function in one before, has left behind in an object.
    """
    kept = _Kept(given)
    kept.move(m.world.writer.new_storage)
    try:
        yield
    finally:
        world = m.world
        gradients = kept.put_back()
        world.graph.leaves_changed = True
        world.stores.kept += 1
        world.stores.attributes += 1
        for tensor, own in gradients:
            # To a rule each process has another parameter: what one has added is no longer there.
            if tensor.node is not None and tensor.is_leaf and own is not None:
                world.writer.emit(GradientSet(world.position.site(node), tensor.node))


class _Kept:
    """The objects that some values lead to, with what they hold, so that it can be put back."""

    def __init__(self, given: Iterable[Value]) -> None:
        self._held: dict[int, tuple[object, dict[str, object]]] = {}
        waiting = list(given)
        seen: set[int] = set()
        while waiting and len(seen) < limits.MOST_APART:
            value = waiting.pop()
            if type(value) in INERT or id(value) in seen:
                continue
            seen.add(id(value))
            if isinstance(value, Function):
                self._keep(value.env.globals)
            if isinstance(value, (Dict, Instance, List, Set, Tensor, Unknown)):
                self._keep(value)
            waiting += leaves.behind(value)

    def _keep(self, one: object) -> None:
        self._held.setdefault(id(one), (one, {name: _copied(item) for name, item in _fields(one)}))

    def move(self, storage: Callable[[], Storage]) -> None:
        """Give the tensors memory of their own: what is written to it leaves saved tensors as they are."""
        moved: dict[int, Storage] = {}
        for one, _ in self._held.values():
            if isinstance(one, (Tensor, Unknown)) and one.storage is not None:
                known = moved.get(id(one.storage))
                one.storage = moved[id(one.storage)] = known if known is not None else storage()

    def put_back(self) -> list[tuple[Tensor, Value]]:
        """Give the objects what they held; return the tensors among them with the gradients that they had until now."""
        gradients: list[tuple[Tensor, Value]] = []
        for one, fields in self._held.values():
            if isinstance(one, Tensor):
                gradients.append((one, one.grad))
            for name, item in fields.items():
                setattr(one, name, item)
        return gradients


def _fields(one: object) -> Iterator[tuple[str, object]]:
    names = [name for cls in type(one).__mro__ for name in getattr(cls, "__slots__", ()) if name != "__weakref__"]
    yield from ((name, getattr(one, name)) for name in dict.fromkeys((*names, *getattr(one, "__dict__", ()))))


def _copied(item: object) -> object:
    return copy.copy(item) if type(item) in (list, dict, set) else item


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
