"""What can be called and is no function of the program: methods, decorated functions, names of libraries."""

from __future__ import annotations

import ast
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeGuard

from tapecheck.interpret.values.base import (
    MORE_KEYWORDS,
    Args,
    BaseValue,
    Deferred,
    Identity,
    Interpreter,
    Kwargs,
    Signal,
    Stream,
    Value,
    behaviour,
    only,
)
from tapecheck.interpret.values.unknown import Origin, Unknown, drawn_from, unpacked
from tapecheck.torchfacts import classes

ODD_CALLS = (IndexError, ValueError, KeyError, TypeError, OverflowError, MemoryError, AttributeError)
"""What a library function's model raises when it is called in an odd way."""

Wrapping = Literal[
    "property", "cached_property", "staticmethod", "classmethod", "method", "cache", "no_grad", "enable_grad",
    "inference_mode", "autocast", "perhaps autocast", "no autocast", "compiled", "stance",
]  # fmt: skip
"""What a decorator makes of a function: "method" is one that `functools.partialmethod` makes."""


@dataclass(eq=False, slots=True)
class Wrapped(BaseValue):
    """A function under a decorator that changes what it does to graphs (no_grad, property, ...)."""

    kind: Wrapping
    function: Value
    extra: Value = None
    """A property's setter, the name of a cached property."""
    deleter: Value = None
    state: object = None
    """What the model of a library keeps of it."""

    is_callable: ClassVar[bool | None] = True

    def reached(self) -> Iterable[Value]:
        return (self.function,)

    def undecorated(self) -> Value:
        return self.function

    def is_inert(self) -> bool:
        return self.state is None and behaviour(self.function).is_inert() and behaviour(self.extra).is_inert()

    def get_attribute(self, machine: Interpreter, name: str, node: ast.AST) -> Value:
        if self.kind == "property" and name in ("setter", "getter", "deleter"):
            return machine.property_part(self, name)
        known = behaviour(self.function).own_attribute(name)
        return Unknown.named(name) if known is None else known[0]

    def called(self, machine: Interpreter, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        return machine.library.call_wrapped(self, args, kwargs, node)

    def read_by(self, machine: Interpreter, receiver: Value, node: ast.AST) -> Value:
        owner = behaviour(receiver)
        if self.kind == "staticmethod":
            return self.function
        if self.kind == "classmethod":
            return Bound(self.function, owner.class_of())
        if not owner.is_object:
            return self
        if self.kind not in ("property", "cached_property"):
            return Bound(self, receiver)
        if self.kind == "cached_property" and owner is not receiver:
            return self
        made = machine.call(self.function, [receiver], {}, node)
        if self.kind == "cached_property":
            machine.store_attribute(receiver, str(self.extra), made, node)
        return made

    def sets(self, machine: Interpreter, owner: Value, value: Value, node: ast.AST) -> bool:
        if self.kind != "property":
            return False
        if self.extra is not None:
            machine.call(self.extra, [owner, value], {}, node)
        elif machine.expects("AttributeError"):
            raise Signal("AttributeError")
        return True

    def deletes(self, machine: Interpreter, owner: Value, node: ast.AST) -> bool:
        if self.kind != "property" or self.deleter is None:
            return False
        machine.call(self.deleter, [owner], {}, node)
        return True

    def decorates(self, machine: Interpreter, function: Value, node: ast.AST) -> Value:
        return machine.call(self, [function], {}, node)


@dataclass(eq=False, slots=True)
class Bound(BaseValue):
    """A method bound to its object."""

    function: Value
    receiver: Value

    is_callable: ClassVar[bool | None] = True
    type_names: ClassVar[tuple[str, ...] | None] = ("Callable", "MethodType")

    def reached(self) -> Iterable[Value]:
        return (self.receiver, self.function)

    def called(self, machine: Interpreter, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        return machine.call(self.function, [self.receiver, *args], kwargs, node)

    def decorates(self, machine: Interpreter, function: Value, node: ast.AST) -> Value:
        return machine.call(self, [function], {}, node)


@dataclass(eq=False, slots=True)
class Native(BaseValue):
    """A callable that the dry run itself provides.

    `method` says that it stands for a function of Python's: in a class, it is bound to the object it is read from.
    """

    name: str
    call: Callable[[Any, Args, Kwargs, ast.AST], Value]
    method: bool = False
    receiver: Value = None
    """The tensor, module, optimizer or container whose method it is, which whoever gets it can reach."""

    is_callable: ClassVar[bool | None] = True
    type_names: ClassVar[tuple[str, ...] | None] = ("Callable", "FunctionType", "BuiltinFunctionType", "partial")

    def reached(self) -> Iterable[Value]:
        return (self.receiver,)

    def derives_from(self, kinds: Sequence[Value]) -> bool | None:
        names = [kind.name for kind in only(kinds, Native)]
        if len(names) < len(kinds):
            return None
        return self.name in names or (self.name == "bool" and "int" in names)

    def name_as_type(self) -> str:
        return self.name

    @property
    def plain_key(self) -> bool:  # type: ignore[override]
        return self.is_one()

    def is_one(self) -> bool:
        # Python makes an object of a method anew for each reading: two are equal where their objects are the same.
        return self.receiver is not None and behaviour(self.receiver).is_one()

    def as_key(self, left: list[int]) -> Hashable:
        return ("method", self.name, Identity(self.receiver)) if self.is_one() else BaseValue.as_key(self, left)

    def called(self, machine: Interpreter, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        if self.receiver is None:
            machine.operates((*args, *kwargs.values()), node)
        try:
            result = self.call(machine, args, kwargs, node)
            return drawn_from(result, (self.receiver, *args, *kwargs.values()))
        except ODD_CALLS:
            # A call in a form the function is not known in: what it gives is unknown.
            return machine.library.opaque_result("call", args, kwargs, node)

    def read_by(self, machine: Interpreter, receiver: Value, node: ast.AST) -> Value:
        return Bound(self, receiver) if self.method and behaviour(receiver).is_object else self

    def decorates(self, machine: Interpreter, function: Value, node: ast.AST) -> Value:
        return self.call(machine, [function], {}, node)


def bare_maker() -> Native:
    """Return `object.__new__`: it makes an object of the class that it is given, and runs no constructor."""
    return Native("__new__", lambda machine, args, kwargs, at: machine.library.bare_object(args[0]))


@dataclass(eq=False, slots=True)
class Lib(BaseValue):
    """A name of an imported library, by its dotted path: `torch.nn.functional.relu`; `is_type` of a class that `type`
    has given.
    """

    path: str
    is_type: bool = False

    typical: ClassVar[bool] = True
    vague: ClassVar[bool] = True
    is_fixed: ClassVar[bool] = True
    is_callable: ClassVar[bool | None] = True

    def unknown_counts(self) -> Iterable[Value]:
        return (self,)

    def name_as_type(self) -> str:
        return self.path

    def derives_from(self, kinds: Sequence[Value]) -> bool | None:
        paths = [classes.public(kind.path) for kind in only(kinds, Lib)]
        own = self._name()
        above = classes.bases(own)
        of_torch = (path.rpartition(".")[2] for path in paths if path.startswith("torch."))
        return True if own in paths or any(name in above for name in of_torch) else None

    def get_attribute(self, machine: Interpreter, name: str, node: ast.AST) -> Value:
        if name in ("__name__", "__qualname__"):
            return self.path.rsplit(".", 1)[-1]
        if name == "__new__":
            return bare_maker()
        if not machine.expects("AttributeError") and machine.library.lacks_name(self.path, name):
            # Another version may have it, or it is typed only half: what it does nobody knows.
            machine.doubt("AttributeError", node)
        return machine.library.constant(Lib(f"{self.path}.{name}"))

    def entered(self, machine: Interpreter, node: ast.AST) -> Value:
        machine.library.trusted_context(self, node)
        return self

    def has_attribute(self, machine: Interpreter, name: str, node: ast.AST) -> bool | None:
        return None if machine.library.known_name(self.path, name) is None else True

    def called(self, machine: Interpreter, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        if not (args or kwargs) and machine.library.is_method(self.path):
            # A method of a class, without an object.
            machine.doubt("TypeError", node)
        try:
            if self.path not in _TAKES_OPTIONS and not self.path.startswith("torch.utils.data."):
                kwargs.update(unpacked(kwargs.pop(MORE_KEYWORDS, None)))
            return machine.library.call(self.path, args, kwargs, node)
        except ODD_CALLS:
            return machine.library.opaque_result("call", args, kwargs, node)

    def read_by(self, machine: Interpreter, receiver: Value, node: ast.AST) -> Value:
        if behaviour(receiver).is_object:
            machine.library.hidden_descriptor(self, receiver, node)
        return self

    def sets(self, machine: Interpreter, owner: Value, value: Value, node: ast.AST) -> bool:
        machine.library.hidden_descriptor(self, owner, node)
        machine.library.trusted_store(self, value, node)
        return False

    def decorates(self, machine: Interpreter, function: Value, node: ast.AST) -> Value:
        known = machine.library.decorate(self.path, function, node)
        return BaseValue.decorates(self, machine, function, node) if known is None else known

    def unary(self, machine: Interpreter, op: str, node: ast.AST) -> Value:
        result = Unknown("unary")
        result.origin = Origin(f"unary {op}", (self,))
        return result

    def item_at(self, machine: Interpreter, index: Value, node: ast.AST) -> Value:
        if type(index) in (str, int) and machine.library.hides(self.path):
            return Lib(f"{self.path}[{index!r}]")
        return self

    def stream(self, machine: Interpreter, node: ast.AST) -> Stream:
        return Unknown(self.path).stream(machine, node)

    def expression(self) -> tuple[Hashable, ...]:
        return ("name", self.path)

    def equals(self, other: BaseValue, machine: Interpreter | None) -> bool | Deferred | None:
        if isinstance(other, Lib):
            return self._name() == other._name()
        # With anything else it is a constant of a library, perhaps.
        return Deferred.TO_OTHER if self.is_type else None

    def is_same(self, other: BaseValue) -> bool | Deferred | None:
        return self._name() == other._name() if isinstance(other, Lib) else Deferred.TO_OTHER

    def _name(self) -> str:
        return classes.public(self.path)

    def as_key(self, left: list[int]) -> Hashable:
        return ("lib", self.path)


_TAKES_OPTIONS = frozenset(("dataclasses.replace", "functools.partial", "torch.autograd.grad"))
"""Functions whose models ask what a call passes on of which nobody knows what is in it."""


def is_unseen(value: Value) -> TypeGuard[Lib | Unknown]:
    """Whether a value is a name of a library, or what nobody knows."""
    return isinstance(value, (Lib, Unknown))


def path_of(value: Value) -> str:
    """Return the dotted path that a name of a library stands for; an empty one of anything else."""
    return value.path if isinstance(value, Lib) else ""


@dataclass(eq=False, slots=True)
class Context(BaseValue):
    """A context manager of a library: entering and leaving set the grad mode and the like.

    `leave` gets the exception that the block ended in, or None, and answers whether it is swallowed.
    """

    enter: Callable[[Any], Value]
    leave: Callable[[Any, Signal | None], bool | None]
    decorate: Wrapping | None = None
    swallows: frozenset[str] = frozenset()
    """The names of the classes of exceptions that it is there to swallow: the program looks out for these inside."""
    switches: bool = True
    at_once: bool = False
    """Whether it is in force from where it is made: as a decorator it is undone again."""

    @classmethod
    def giving(cls, value: Value) -> Context:
        """Return a context that changes nothing, with `value` as what it is entered as."""
        return cls(lambda machine: value, lambda machine, raised: None, switches=False)

    def get_attribute(self, machine: Interpreter, name: str, node: ast.AST) -> Value:
        if name == "__enter__":
            return Native(name, lambda m, args, kwargs, at: m.enter(self, at))
        if name == "__exit__":
            return Native(name, lambda m, args, kwargs, at: m.leave(self, at))
        return BaseValue.get_attribute(self, machine, name, node)

    def entered(self, machine: Interpreter, node: ast.AST) -> Value:
        return self.enter(machine)

    def left(self, machine: Interpreter, raised: Signal | None, node: ast.AST) -> bool:
        return self.leave(machine, raised) is True

    def decorates(self, machine: Interpreter, function: Value, node: ast.AST) -> Value:
        if self.decorate is None:
            return BaseValue.decorates(self, machine, function, node)
        if self.at_once:
            self.leave(machine, None)
        return Wrapped(self.decorate, function)
