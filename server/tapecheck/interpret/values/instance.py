"""Objects of classes."""

from __future__ import annotations

import ast
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple, TypeGuard

from tapecheck.interpret import limits
from tapecheck.interpret.values.base import (
    Args,
    BaseValue,
    Decides,
    Deferred,
    Identity,
    Interpreter,
    Kwargs,
    Signal,
    Slot,
    Stream,
    Value,
    all_equal,
    behaviour,
    concrete,
    key_within,
    known_int,
    replace_values,
)
from tapecheck.interpret.values.mapping import Dict
from tapecheck.interpret.values.program import Class
from tapecheck.interpret.values.sequence import List, Set
from tapecheck.interpret.values.unknown import Unknown
from tapecheck.torchfacts import ModuleFact, classes

_UNARY = {"USub": "__neg__", "UAdd": "__pos__", "Invert": "__invert__"}


class Home(NamedTuple):
    """A module `top` that another one is in, and how the program comes to that ("model.encoder")."""

    top: Instance
    path: str


@dataclass(slots=True)
class Layer:
    """What torch.nn keeps in a module.

    `container` is the class of a container of modules, `more` says that it may hold further ones. `fact` is what
    torch does in its forward for `kinds`, the kinds of the arguments `given` to the constructor; `narrowed` the same
    for single calls. `parametrized` are the weights that are computed anew, and how. `named` says that its parameters
    have their names, `home` what was named last with it in it, `wrapped` that a framework wraps it, `optimizers` is
    what Lightning made of its configuration.
    """

    container: str = ""
    more: bool = False
    fact: ModuleFact | None = None
    kinds: tuple[list[str], dict[str, str]] | None = None
    given: Kwargs = field(default_factory=dict)
    narrowed: dict[Hashable, ModuleFact] = field(default_factory=dict)
    parametrized: dict[str, Value] = field(default_factory=dict)
    named: bool = False
    home: Home | None = None
    wrapped: bool = False
    optimizers: Value = None
    parameters: set[str] = field(default_factory=set)
    """The names under which `_parameters` was given a tensor, which need be no `Parameter` then."""
    buffers: set[str] = field(default_factory=set)
    """The names that were registered as buffers, whatever stands under them."""
    attributes: int = 0
    """How many attributes the constructor of a layer of torch's gave it, -1 once another was stored."""
    added: tuple[str, ...] = ()
    """Classes of libraries that a call has put in front of its own, as `fully_shard` does."""


class Instance(BaseValue):
    """An object of a user class, or of a library class that keeps state (modules, optimizers, scalers).

    For library objects `lib` is the dotted path of the class and `state` what the model of the library keeps of it.
    `quiet` is the value of `StoreCounts.kept` at which nothing below it carried a graph, `born` when it was made, -1
    where that does not matter.
    """

    __slots__ = (
        "args", "attrs", "born", "cls", "handed", "hooks", "inner", "layer", "length", "lib", "module", "numbered",
        "open", "quiet", "raised", "slots", "state",
    )  # fmt: skip

    can_hold: ClassVar[bool] = True
    decides: ClassVar[Decides] = Decides.INSTANCE

    def __init__(self, cls: Class | None, lib: str = "", module: bool = False, born: int = -1) -> None:
        self.cls = cls
        self.born = born
        self.lib = lib
        self.module = module
        self.attrs: dict[str, Value] = {}
        self.slots: dict[Hashable, Slot] = {}
        self.hooks: list[tuple[str, Value]] = []
        self.quiet = -1
        self.layer = Layer() if module else None
        """What torch.nn keeps in a module; None of what is no module."""
        self.state: object = None
        self.inner: List | Dict | Set | None = None
        """What it holds as the dict, list or set that its class is made from."""
        self.args: list[Value] | None = None
        """The arguments of an exception; None of what is no exception."""
        self.numbered: set[str] | None = None
        """Attributes whose names the program works out: `setattr(log, f"loss_{step}", loss)`."""
        self.open = False
        """Whether it may have attributes that nobody knows."""
        self.length: Unknown | None = None
        """What says how long it is, where nobody knows that."""
        self.handed = ""
        """Of data: the code that is not visible which was given it, and may have changed how much it is."""
        self.raised: Signal | None = None
        """Of a context manager that is being left: the exception that its block ended in."""

    @property
    def is_context(self) -> bool:
        """Whether it is the `ctx` of one call of a custom Function: nothing but that call's backward reads it again."""
        return self.lib == "torch.autograd.FunctionCtx"

    @property
    def as_made(self) -> bool:
        """Whether it is a layer of torch's with those attributes that its constructor gave it, and no other."""
        layer = self.layer
        return layer is not None and self.cls is None and layer.attributes == len(self.attrs)

    def __repr__(self) -> str:
        return f"<{self.cls.name if self.cls else self.lib} object>"

    def has(self, name: str) -> bool:
        """Whether the program has given it, or its class, something of a name."""
        return name in self.attrs or (self.cls is not None and self.cls.defines(name))

    typical: ClassVar[bool] = True
    plain_key: ClassVar[bool] = True

    def type_of(self) -> BaseValue | str:
        return self.lib if self.cls is None else self.cls

    def is_a(self, name: str) -> bool | None:
        if not name:
            return None
        if name in ("torch.nn.Module", "torch.nn.modules.module.Module"):
            return self.module
        bases = self.cls.library_bases() if self.cls is not None else [self.lib]
        if self.layer is not None and self.layer.added:
            bases = [*bases, *self.layer.added]
        short = name.rpartition(".")[2]
        if any(base.rpartition(".")[2] == short or short in classes.bases(base) for base in bases):
            return True
        # What other libraries build upon torch's classes is not known.
        return None if classes.is_base(short) and not all(base.startswith("torch.") for base in bases) else False

    def is_of(self, cls: BaseValue) -> bool | None:
        return self.cls is not None and cls in self.cls.mro()

    def replace_held(self, each: Callable[[Value], Value]) -> None:
        replace_values(self.attrs, each)

    def children(self) -> Iterable[Value]:
        return [*self.attrs.values(), self.inner]

    @property
    def has_members(self) -> bool:  # type: ignore[override]
        return not self.module

    def named_parts(self, path: str) -> Iterable[tuple[str, Value]]:
        inner = self.inner.named_parts(path) if self.inner is not None else ()
        return [*((f"{path}.{name}" if path else name, item) for name, item in self.attrs.items()), *inner]

    def entered(self, machine: Interpreter, node: ast.AST) -> Value:
        method = machine.special(self, "__enter__") or machine.special(self, "__aenter__")
        return self if method is None else machine.call(method, [], {}, node)

    def left(self, machine: Interpreter, raised: Signal | None, node: ast.AST) -> bool:
        method = machine.special(self, "__exit__") or machine.special(self, "__aexit__")
        if method is None:
            return BaseValue.left(self, machine, raised, node)
        if raised is not None and self.cls is None:
            self.raised = raised
        return machine.known_truth(machine.call(method, machine.exception_info(raised), {}, node)) is True

    def get_attribute(self, machine: Interpreter, name: str, node: ast.AST) -> Value:
        return machine.instance_attribute(self, name, node)

    def set_attribute(self, machine: Interpreter, name: str, value: Value, node: ast.AST) -> None:
        machine.set_instance_attribute(self, name, value, node)

    def delete_attribute(self, machine: Interpreter, name: str, node: ast.AST) -> None:
        machine.delete_attribute(self, name, node)

    def has_attribute(self, machine: Interpreter, name: str, node: ast.AST) -> bool | None:
        return machine.library.object_has(self, name, node)

    def may_lack(self, machine: Interpreter, name: str, node: ast.AST) -> bool:
        found = machine.library.object_has(self, name, node)
        return found is False or (found is None and self.cls is None)

    def guessed_items(self, machine: Interpreter, count: int, node: ast.AST) -> list[Value]:
        # What has `__getitem__` alone can be taken apart, too.
        ways = ("__iter__", "__getitem__")
        if self.cls is not None and all(machine.library.object_has(self, way, node) is False for way in ways):
            machine.doubt("TypeError", node)
        return BaseValue.guessed_items(self, machine, count, node)

    def called(self, machine: Interpreter, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        method = machine.special(self, "__call__")
        if method is not None:
            return machine.call(method, args, kwargs, node)
        return machine.library.call_object(self, args, kwargs, node)

    is_object: ClassVar[bool] = True

    def class_of(self) -> Value:
        return self.cls

    def read_by(self, machine: Interpreter, receiver: Value, node: ast.AST) -> Value:
        if not self._defines("__get__"):
            return self
        owner = behaviour(receiver)
        args = [receiver if owner.is_object else None, owner.class_of()]
        return machine.call(machine.find_method(self, "__get__"), args, {}, node)

    def sets(self, machine: Interpreter, owner: Value, value: Value, node: ast.AST) -> bool:
        method = machine.find_method(self, "__set__")
        if method is not None:
            machine.call(method, [owner, value], {}, node)
        return method is not None

    def decorates(self, machine: Interpreter, function: Value, node: ast.AST) -> Value:
        if self.cls is not None and machine.find_method(self, "__call__") is None:
            return machine.library.decorated(self, function)
        return machine.call(self, [function], {}, node)

    def operator_method(self, machine: Interpreter, name: str, node: ast.AST) -> Value:
        method = machine.find_method(self, name)
        if method is None and self.module:
            # What the class of torch's containers has.
            return machine.library.object_attribute(self, name, node)
        return method

    def unary(self, machine: Interpreter, op: str, node: ast.AST) -> Value:
        method = machine.find_method(self, _UNARY[op])
        return machine.call(method, [], {}, node) if method is not None else Unknown()

    def get_item(self, machine: Interpreter, index: Value, node: ast.AST) -> Value:
        method = machine.find_method(self, "__getitem__")
        if method is not None:
            return machine.call(method, [index], {}, node)
        inner = self.inner
        if inner is None:
            known = machine.library.object_item(self, index, node)
            return Unknown("item") if known is None else known
        missing = machine.find_method(self, "__missing__") if inner.keyed else None
        if missing is not None and inner.contains(machine, concrete(index)) is False:
            return machine.call(missing, [index], {}, node)
        return inner.get_item(machine, index, node)

    def as_index(self, machine: Interpreter, node: ast.AST) -> Value:
        method = machine.find_method(self, "__index__")
        return self if method is None else concrete(machine.call(method, [], {}, node))

    def set_item(self, machine: Interpreter, index: Value, value: Value, node: ast.AST) -> None:
        method = machine.find_method(self, "__setitem__")
        if method is not None:
            machine.call(method, [index, value], {}, node)
        elif self.inner is not None:
            self.inner.set_item(machine, index, value, node)
        elif self.module:
            known = machine.library.object_attribute(self, "__setitem__", node)
            if known is not None:
                machine.call(known, [index, value], {}, node)
            else:
                self.attrs[str(index)] = value
                machine.world.stores.kept += 1

    def delete_item(self, machine: Interpreter, index: Value, node: ast.AST) -> None:
        method = machine.find_method(self, "__delitem__")
        if method is None and self.module:
            method = machine.library.object_attribute(self, "__delitem__", node)
        if method is not None:
            machine.call(method, [index], {}, node)

    def stream(self, machine: Interpreter, node: ast.AST) -> Stream:
        method = machine.find_method(self, "__iter__") or machine.find_method(self, "__aiter__")
        if method is not None:
            made = machine.call(method, [], {}, node)
            if made is not self:
                return machine.stream(made, node)
        following = machine.find_method(self, "__next__")
        if following is not None:
            # The length is asked for as if unknown, but the stream ends by itself: loops run it to its end.
            return Stream(
                lambda: limits.ENDLESS,
                lambda index: _until(machine, following, [], "StopIteration", node),
                sequential=True,
            )
        getter = machine.find_method(self, "__getitem__")
        if getter is not None:
            length = machine.find_method(self, "__len__")
            count = known_int(machine.call(length, [], {}, node)) if length is not None else None
            return Stream(lambda: count, lambda index: _until(machine, getter, [index], "IndexError", node))
        if self.inner is not None:
            return self.inner.stream(machine, node)
        known = machine.library.object_stream(self, node)
        return BaseValue.stream(self, machine, node) if known is None else known

    def known_items(self, machine: Interpreter, node: ast.AST) -> list[Value] | None:
        if self.inner is not None and machine.find_method(self, "__iter__") is None:
            return self.inner.known_items(machine, node)
        return machine.stream(self, node).drained()[0]

    def next_item(self, machine: Interpreter, default: Args, node: ast.AST) -> Value:
        method = machine.find_method(self, "__next__")
        return Unknown("next") if method is None else machine.call(method, [], {}, node)

    def size(self, machine: Interpreter, node: ast.AST) -> Value:
        method = machine.find_method(self, "__len__")
        if method is not None:
            return machine.call(method, [], {}, node)
        if self.inner is not None:
            return self.inner.size(machine, node)
        return machine.library.object_length(self, node)

    def contains(self, machine: Interpreter, item: Value) -> bool | None:
        node = self.cls.node if self.cls is not None else ast.Pass()
        method = machine.find_method(self, "__contains__")
        if method is not None and self.cls is not None:
            return machine.known_truth(machine.call(method, [item], {}, node))
        if self.inner is not None:
            return self.inner.contains(machine, item)
        if self.module:
            known = machine.library.object_attribute(self, "__contains__", node)
            return None if known is None else machine.known_truth(machine.call(known, [item], {}, node))
        return machine.stream(self, node).comes_to(machine, item)

    def known_truth(self, machine: Interpreter) -> bool | None:
        if self.cls is None:
            return True
        for name in ("__bool__", "__len__"):
            method = machine.find_method(self, name)
            if method is not None:
                return machine.known_truth(machine.call(method, [], {}, self.cls.node))
        return True if self.inner is None else self.inner.known_truth(machine)

    def operand(self) -> BaseValue:
        # An object made from dict, list or set, where its class has no `__eq__` of its own.
        if self.inner is not None and not self._defines("__eq__"):
            return self.inner.operand()
        return self

    def _defines(self, name: str) -> bool:
        return self.cls is not None and self.cls.defines(name)

    def equals(self, other: BaseValue, machine: Interpreter | None) -> bool | Deferred | None:
        if other.vague:
            return Deferred.TO_OTHER
        if self.cls is not None and self.cls.defines("__eq__"):
            if machine is None:
                return None
            method = machine.find_method(self, "__eq__")
            return machine.known_truth(machine.call(method, [other.itself()], {}, self.cls.node))
        if not isinstance(other, Instance) or other is self or other._defines("__eq__"):
            return Deferred.TO_OTHER
        if self.cls is None or other.cls is None:
            return None
        if self.cls is not other.cls or self.cls.kind != "dataclass":
            return None if self.cls.opaque else False
        return self._has_fields_of(other, self.cls, machine)

    def _has_fields_of(self, other: Instance, cls: Class, machine: Interpreter | None) -> bool | None:
        """Whether the fields of two objects of a dataclass are equal, by which it compares them."""
        missing = Unknown("field")
        own, others = (
            [owner.attrs.get(field.name, missing) for field in cls.fields or () if field.compare]
            for owner in (self, other)
        )
        return cls.options.get("eq") is not False and all_equal(own, others, machine)

    def as_key(self, left: list[int]) -> Hashable:
        cls = self.cls
        if cls is not None and cls.kind == "dataclass":
            if cls.options.get("frozen") and cls.options.get("eq") is not False:
                fields = tuple(key_within(self.attrs.get(field.name), left) for field in cls.fields or ())
                return _Fields(self, cls, fields)
        return BaseValue.as_key(self, left)

    def is_one(self) -> bool:
        if self.cls is None:
            return self.module
        made = self.cls.kind == "" and not self.cls.opaque
        return made and self.inner is None and not (self.cls.defines("__eq__") or self.cls.defines("__hash__"))


def _until(machine: Interpreter, method: Value, args: Args, end: str, node: ast.AST) -> Value:
    """Return what a method gives; the exception named `end` is the end of what is gone over."""
    try:
        return machine.call(method, args, {}, node)
    except Signal as signal:
        if signal.kind == end:
            raise IndexError from None
        raise


def layer_of(owner: Instance) -> Layer:
    """Return what torch.nn keeps in a module."""
    assert owner.layer is not None
    return owner.layer


def user_class(value: Value) -> Class | None:
    """Return the class of the program that a value is an object of; None of any other value."""
    return value.cls if isinstance(value, Instance) else None


def is_object(value: Value) -> TypeGuard[Instance]:
    """Whether a value is an object of a class of the program."""
    return isinstance(value, Instance) and value.cls is not None


def attrs_of(value: Value) -> dict[str, Value]:
    """Return the attributes of an object of a class; none of any other value."""
    return value.attrs if isinstance(value, Instance) else {}


def is_module(value: Value) -> TypeGuard[Instance]:
    """Whether a value is a module of torch's, or of a class of the program that derives from it."""
    return isinstance(value, Instance) and value.module


class _Fields(Identity):
    """A frozen dataclass object as a key: equal to those of its class with the same fields."""

    __slots__ = ("cls", "fields")

    def __init__(self, value: Instance, cls: Class, fields: tuple[Hashable, ...]) -> None:
        super().__init__(value)
        self.cls = cls
        self.fields = fields

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Fields) and other.cls is self.cls and other.fields == self.fields

    def __hash__(self) -> int:
        return hash(self.fields)


@dataclass(eq=False, slots=True)
class Super(BaseValue):
    """What `super()` returns: the receiver, seen as of the classes after one."""

    receiver: Value
    after: Class

    def get_attribute(self, machine: Interpreter, name: str, node: ast.AST) -> Value:
        return machine.super_attribute(self, name, node)


def unwrapped(value: Value) -> Value:
    """Return what an object of a class made from dict, list or set holds as such; any other value itself."""
    if isinstance(value, Instance) and value.inner is not None:
        return value.inner
    return value
