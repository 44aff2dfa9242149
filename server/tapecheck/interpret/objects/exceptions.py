"""Exceptions: their names, their objects, and which handlers they fit."""

from __future__ import annotations

import ast
import builtins as python

from tapecheck.interpret.engine import Engine
from tapecheck.interpret.values import Args, Class, Instance, Lib, Signal, Unknown, Value, behaviour, only, user_class

NAMES = frozenset(
    name for name, value in vars(python).items() if isinstance(value, type) and issubclass(value, BaseException)
)


ANY = frozenset(("BaseException",))
"""What catches whatever is raised, by the names of classes."""


def name_of(value: Value, node: ast.AST) -> str:
    cls = value.type_of() if isinstance(value, Instance) else behaviour(value)
    path = cls if isinstance(cls, str) else cls.name_as_type()
    return (path or ast.unparse(getattr(node, "func", node))).rsplit(".", 1)[-1]


def _bases(name: str) -> set[str]:
    """Return the names of one of Python's own classes and of its bases; none of a name that is no class of these."""
    known = getattr(python, name.rpartition(".")[2], None)
    return {base.__name__ for base in known.__mro__} if isinstance(known, type) else set()


def object_of(raised: Signal) -> Value:
    """Return the object that `except ... as` binds, made where the exception came from torch or Python itself."""
    if raised.value is None:
        made = Instance(None, f"builtins.{raised.kind}")
        made.args = [raised.message] if raised.message else [Unknown.text()]
        raised.value = made
    elif isinstance(raised.value, (Lib, Class)):
        # `raise ValueError` raises an object of that class.
        made = Instance(raised.value) if isinstance(raised.value, Class) else Instance(None, raised.value.path)
        made.args = []
        raised.value = made
    return raised.value


def class_of(raised: Signal) -> Value:
    value = object_of(raised)
    if not raised.kind:
        return Unknown("type")
    return user_class(value) or Lib(f"builtins.{raised.kind}")


def info(raised: Signal | None) -> Args:
    """Return what the `__exit__` of a context manager is given: class, object and traceback, or three times None."""
    if raised is None:
        return [None, None, None]
    value = object_of(raised)
    return [class_of(raised), value, Unknown("traceback")]


def stop_iteration(result: Value) -> Instance:
    """Return the StopIteration that a generator ends with; its value is what the generator returned."""
    made = Instance(None, "builtins.StopIteration")
    made.args = [] if result is None else [result]
    made.attrs["value"] = result
    return made


def matches(raised: Signal, wanted: Value, node: ast.AST) -> bool:
    """Whether an except clause names the class of an exception or a base of it."""
    return not raised.kind or not caught_by(wanted, node).isdisjoint(_caught_as(raised.kind, raised.value))


def caught_by(wanted: Value, node: ast.AST) -> frozenset[str]:
    """Return the names of the classes that an except clause names."""
    if isinstance(wanted, tuple):
        return frozenset(name for item in wanted for name in caught_by(item, node))
    return frozenset((name_of(wanted, node),))


def _caught_as(kind: str, value: Value) -> set[str]:
    """Return the names by which an exception can be caught: of its class and of its bases."""
    names = {kind, "BaseException", *(_bases(kind) or ("Exception",))}
    if (cls := user_class(value)) is not None:
        names.update(*map(_bases, cls.library_bases()), (one.name for one in cls.mro()))
    return names


def may_catch(caught: frozenset[str], name: str, cls: Value) -> bool:
    """Return whether what catches some classes may catch what is raised by a name, of which `cls` is the value."""
    known = name.rpartition(".")[2]
    for one in only((cls,), Class):
        return not caught.isdisjoint(_caught_as(one.name, Instance(one)))
    return bool(caught) if known not in NAMES else not caught.isdisjoint(_caught_as(known, None))


def looked_out_for(machine: Engine, kind: str, value: Value = None) -> bool:
    """Whether a block that is being run catches an exception of a class, of which `value` may be one."""
    names = _caught_as(kind, value)
    return any(not caught.isdisjoint(names) for caught in machine.handlers)
