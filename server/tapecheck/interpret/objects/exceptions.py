"""Exceptions: their names, their objects, and which handlers they fit."""

from __future__ import annotations

import ast
import builtins as python

from tapecheck.interpret.values import Class, Instance, Lib, Signal, Unknown, Value

NAMES = frozenset(
    name for name, value in vars(python).items() if isinstance(value, type) and issubclass(value, BaseException)
)


def name_of(value: Value, node: ast.AST) -> str:
    if isinstance(value, Lib):
        return value.path.rsplit(".", 1)[-1]
    if isinstance(value, Class):
        return value.name
    if isinstance(value, Instance):
        return value.cls.name if value.cls is not None else value.lib.rsplit(".", 1)[-1]
    target = node.func if isinstance(node, ast.Call) else node
    return ast.unparse(target).rsplit(".", 1)[-1]


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
    return value.cls if isinstance(value, Instance) and value.cls is not None else Lib(f"builtins.{raised.kind}")


def stop_iteration(result: Value) -> Instance:
    """Return the StopIteration that a generator ends with; its value is what the generator returned."""
    made = Instance(None, "builtins.StopIteration")
    made.args = [] if result is None else [result]
    made.attrs["value"] = result
    return made


def matches(raised: Signal, wanted: Value, node: ast.AST) -> bool:
    """Whether an except clause names the class of an exception or a base of it."""
    if not raised.kind:
        return True
    names = {raised.kind, "BaseException"}
    known = getattr(python, raised.kind, None)
    if isinstance(known, type):
        names |= {base.__name__ for base in known.__mro__}
    elif raised.kind not in ("SystemExit", "KeyboardInterrupt", "GeneratorExit"):
        names.add("Exception")
    if isinstance(raised.value, Instance) and raised.value.cls is not None:
        for cls in raised.value.cls.mro():
            names.add(cls.name)
            for path in (base.path for base in cls.bases if isinstance(base, Lib)):
                base_type = getattr(python, path.rsplit(".", 1)[-1], None)
                if isinstance(base_type, type):
                    names |= {base.__name__ for base in base_type.__mro__}
    if isinstance(wanted, tuple):
        return any(matches(raised, item, node) for item in wanted)
    return name_of(wanted, node) in names
