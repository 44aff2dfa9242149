"""What a program is made of: its modules, classes and functions, and the namespaces that these live in."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal, TypeGuard

from tapecheck.interpret.values.base import (
    Args,
    BaseValue,
    Interpreter,
    Kwargs,
    Slot,
    Stream,
    Value,
    behaviour,
    can_hold,
    only,
    replace_values,
    stored,
)
from tapecheck.interpret.values.callable import Bound, Lib, Wrapped, path_of
from tapecheck.interpret.values.unknown import Unknown
from tapecheck.source import Source
from tapecheck.source.notes import Notes
from tapecheck.tape import Site  # noqa


class Env:
    """A namespace: a module's globals or a function's locals, with the enclosing one."""

    __slots__ = (
        "cell", "globals", "inner", "module", "names_global", "names_outer", "parent", "sent", "slots", "starred",
        "vars", "watched", "yielded",
    )  # fmt: skip

    def __init__(self, parent: Env | None, module_globals: Env | None) -> None:
        self.vars: dict[str, Value] = {}
        self.parent = parent
        self.globals: Env = module_globals if module_globals is not None else self
        self.names_global: set[str] = set()
        self.names_outer: set[str] = set()
        self.slots: dict[Hashable, Slot] = {}
        self.sent: dict[ast.AST, Value] | None = None
        """What the yields of a generator function gave, by the yield; None where nothing is a generator's."""
        self.yielded = 0
        """How often it has yielded."""
        self.cell: tuple[Class, Value] | None = None
        """Of a method's call: the class that defines it and its first argument, which `super()` takes."""
        self.module: Module | None = None
        """The module that this is the namespace of."""
        self.starred: list[Value] | None = None
        """The libraries that a module imports everything from."""
        self.inner = False
        """Whether this is the scope of a comprehension: names that `:=` binds go further out."""
        self.watched: tuple[int, tuple[str, ...]] | None = None
        """Of a module that has been run: how many names it has, and those whose values can come to hold a graph."""

    def scope_of(self, name: str) -> Env | None:
        """Return the innermost of this scope and the enclosing ones that binds a name; None where none does."""
        scope: Env | None = self
        while scope is not None and name not in scope.vars:
            scope = scope.parent
        return scope


@dataclass(eq=False, slots=True)
class Function(BaseValue):
    """A user function or lambda."""

    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
    env: Env
    module: Module
    name: str
    defaults: list[Value]
    kw_defaults: list[Value]
    owner: Class | None = None
    attrs: dict[str, Value] = field(default_factory=dict)

    typical: ClassVar[bool] = True
    is_callable: ClassVar[bool | None] = True

    def children(self) -> Iterable[Value]:
        return [value for _, value in self.parameters_with_default()]

    type_path: ClassVar[str] = "types.FunctionType"
    type_names: ClassVar[tuple[str, ...] | None] = ("Callable", "FunctionType", "LambdaType")

    def parameters_with_default(self) -> list[tuple[str, Value]]:
        """Return the parameters that have a default, with the object that every call without the argument gets."""
        arguments = self.node.args
        positional = [*arguments.posonlyargs, *arguments.args]
        found = [(one.arg, value) for one, value in zip(positional[-len(self.defaults) :], self.defaults)]
        return found + [(one.arg, value) for one, value in zip(arguments.kwonlyargs, self.kw_defaults)]

    def is_inert(self) -> bool:
        given = (*self.defaults, *self.kw_defaults, *self.attrs.values())
        return self.env is self.env.globals and all(behaviour(default).is_fixed for default in given)

    def own_attribute(self, name: str) -> tuple[Value] | None:
        if name in self.attrs:
            return (self.attrs[name],)
        return (self.name,) if name == "__name__" else None

    def get_attribute(self, machine: Interpreter, name: str, node: ast.AST) -> Value:
        known = self.own_attribute(name)
        return Unknown.named(name) if known is None else known[0]

    def set_attribute(self, machine: Interpreter, name: str, value: Value, node: ast.AST) -> None:
        machine.touched(self.env.globals)
        self.attrs[name] = value

    def has_attribute(self, machine: Interpreter, name: str, node: ast.AST) -> bool | None:
        return name in self.attrs or name.startswith("__")

    def called(self, machine: Interpreter, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        return machine.call_function(self, args, kwargs, node)

    def read_by(self, machine: Interpreter, receiver: Value, node: ast.AST) -> Value:
        if not behaviour(receiver).is_object:
            return self
        machine.library.read_method(self, receiver, node)
        return Bound(self, receiver)

    def sets(self, machine: Interpreter, owner: Value, value: Value, node: ast.AST) -> bool:
        machine.library.read_method(self, owner, node)
        return False

    def decorates(self, machine: Interpreter, function: Value, node: ast.AST) -> Value:
        return machine.call(self, [function], {}, node)

    def item_at(self, machine: Interpreter, index: Value, node: ast.AST) -> Value:
        return self

    def is_one(self) -> bool:
        return True


def is_function(value: Value) -> TypeGuard[Function | Bound | Wrapped]:
    """Whether a value is a function or method of the program, perhaps under decorators."""
    return isinstance(value, (Function, Bound, Wrapped))


def function_of(value: Value) -> Function | None:
    """Return the function of the program that is under decorators; None where it is none of the program's."""
    while isinstance(value, Wrapped):
        value = value.function
    return value if isinstance(value, Function) else None


def bound_function(method: Value) -> Function | None:
    """Return the function of the program that a bound method runs; None where it is none of the program's."""
    return method.function if isinstance(method, Bound) and isinstance(method.function, Function) else None


@dataclass(eq=False, slots=True)
class Module(BaseValue):
    """A user's module: its globals and the file it came from.

    `folders` are those that the submodules of a package lie in. A namespace package has no file of its own: its path
    is the first of its folders. `handed_on` are the functions and classes that a decorator of the program was given, by
    the id of their node: it may have put them into a table.
    """

    name: str
    path: str
    env: Env
    source: Source | None = None
    folders: tuple[str, ...] = ()
    lines: list[str] = field(init=False)
    notes: Notes = field(init=False)
    handed_on: set[int] = field(init=False, default_factory=set)

    is_fixed: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self.env.module = self
        self.lines = self.source.lines if self.source is not None else []
        self.notes = self.source.notes if self.source is not None else Notes()

    def get_attribute(self, machine: Interpreter, name: str, node: ast.AST) -> Value:
        names = self.env.vars
        if name in names:
            if machine.reads is not None:
                machine.reads.append((names, name, names[name]))
            return names[name]
        if not self.folders:
            return Unknown.named(name)
        inner = machine.submodule(self, name)
        return inner if inner is not None else machine.library.constant(Lib(f"{self.name}.{name}"))

    def set_attribute(self, machine: Interpreter, name: str, value: Value, node: ast.AST) -> None:
        machine.touched(self.env)
        self.env.vars[name] = value

    def reached(self) -> Iterable[Value]:
        return self.env.vars.values()

    def replace_held(self, each: Callable[[Value], Value]) -> None:
        replace_values(self.env.vars, each)

    def has_attribute(self, machine: Interpreter, name: str, node: ast.AST) -> bool | None:
        return name in self.env.vars or None

    def is_one(self) -> bool:
        return True


@dataclass(eq=False, slots=True)
class Field:
    """A field of a dataclass or named tuple.

    `given` says whether it has a default, `annotation` is its type as it is written.
    """

    name: str
    default: Value = None
    given: bool = False
    factory: Value = None
    init: bool = True
    keyword: bool = False
    compare: bool = True
    spec: Value = None
    annotation: str = ""


ClassKind = Literal["", "dataclass", "namedtuple", "enum"]
"""Of which kind a user's class is: its methods, or its objects, are then made by the dry run."""


@dataclass(eq=False, slots=True)
class Class(BaseValue):
    """A user's class; `members` are those of an enum."""

    name: str
    bases: list[Value]
    namespace: dict[str, Value]
    module: Module
    node: ast.ClassDef
    kind: ClassKind = ""
    fields: list[Field] | None = None
    options: dict[str, bool] = field(default_factory=dict)
    members: dict[str, Value] | None = None
    order: tuple[Class, ...] | None = None
    library: list[str] | None = None
    slots: dict[Hashable, Slot] = field(default_factory=dict)
    quiet: int = -1
    remade_by: str = ""
    """The metaclass or decorator that makes it, or something else of it, and is not visible."""
    plain: bool | None = None
    """Whether its namespace holds functions, numbers and strings only; None where nobody has looked."""

    def mro(self) -> tuple[Class, ...]:
        """Return the user classes in lookup order (C3, as Python has it), this class first."""
        if self.order is None:
            bases = [base for base in only(self.bases, Class) if base is not self]
            self.order = (
                self,
                *(_merged([*(base.mro() for base in bases), bases]) if len(bases) != 1 else bases[0].mro()),
            )
        return self.order

    def library_bases(self) -> list[str]:
        """Return the dotted paths of the library classes that this class comes from."""
        if self.library is None:
            self.library = [base.path for cls in self.mro() for base in only(cls.bases, Lib)]
        return self.library

    def home_of(self, name: str) -> Class | None:
        """Return the class that has a name: this one, or the first of those that it comes from; None where none has."""
        for cls in self.mro():
            if name in cls.namespace:
                return cls
        return None

    def held(self, name: str) -> Value:
        """Return what the class has under a name, as it stands there; None where it has nothing."""
        home = self.home_of(name)
        return None if home is None else home.namespace[name]

    def defines(self, name: str) -> bool:
        """Whether the user's part of the class has a name."""
        return self.home_of(name) is not None

    @property
    def opaque(self) -> bool:
        """Whether some base class is unknown, so that any attribute may exist."""
        return any(not isinstance(base, (Class, Lib)) for cls in self.mro() for base in cls.bases)

    def unseen_maker(self) -> str:
        """Return what makes it, or a class that it comes from, and is not visible; an empty name where nothing does."""
        return next((cls.remade_by for cls in self.mro() if cls.remade_by), "")

    typical: ClassVar[bool] = True
    is_callable: ClassVar[bool | None] = True
    type_names: ClassVar[tuple[str, ...] | None] = ("type", "ABCMeta", "Callable")

    def derives_from(self, kinds: Sequence[Value]) -> bool | None:
        if not all(isinstance(kind, (Class, Lib)) for kind in kinds):
            return None
        bases = {base.rsplit(".", 1)[-1] for base in self.library_bases()}
        libraries = {path.rsplit(".", 1)[-1] for path in map(path_of, kinds) if path}
        if bases & libraries or any(kind in self.mro() for kind in kinds):
            return True
        return None if libraries and (self.opaque or bases) else False

    def name_as_type(self) -> str:
        return self.name

    def is_inert(self) -> bool:
        return all(behaviour(member).is_inert() for member in self.namespace.values())

    def get_attribute(self, machine: Interpreter, name: str, node: ast.AST) -> Value:
        return machine.class_attribute(self, name, self, node)

    def set_attribute(self, machine: Interpreter, name: str, value: Value, node: ast.AST) -> None:
        machine.touched(self.module.env)
        self.namespace[name] = value
        self.plain = None
        machine.world.stores.kept += 1
        machine.world.stores.classes += 1
        if can_hold(value):
            machine.library.trusted_store(self, value, node)
            stored(machine, self.slots, name, node)

    def has_attribute(self, machine: Interpreter, name: str, node: ast.AST) -> bool | None:
        if self.defines(name):
            return True
        return None if self.opaque or self.library_bases() else name in ("__name__", "__doc__", "__dict__")

    def called(self, machine: Interpreter, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        return machine.instantiate(self, args, kwargs, node)

    def decorates(self, machine: Interpreter, function: Value, node: ast.AST) -> Value:
        return machine.call(self, [function], {}, node)

    def item_at(self, machine: Interpreter, index: Value, node: ast.AST) -> Value:
        return self if self.members is None else self.members.get(str(index), Unknown.named(self.name))

    def stream(self, machine: Interpreter, node: ast.AST) -> Stream:
        if self.members is None:
            return BaseValue.stream(self, machine, node)
        members = list(self.members.values())
        return Stream(lambda: len(members), lambda index: members[index])

    def known_items(self, machine: Interpreter, node: ast.AST) -> list[Value] | None:
        return None if self.members is None else list(self.members.values())

    def size(self, machine: Interpreter, node: ast.AST) -> Value:
        return BaseValue.size(self, machine, node) if self.members is None else len(self.members)

    def contains(self, machine: Interpreter, item: Value) -> bool | None:
        return None if self.members is None else self.stream(machine, self.node).comes_to(machine, item)

    def is_one(self) -> bool:
        return True


def _merged(orders: Sequence[Sequence[Class]]) -> list[Class]:
    """Return the C3 merge: the first class that is in no other order's tail comes next."""
    result: dict[Class, None] = {}
    heads = [0] * len(orders)
    behind = Counter(cls for order in orders for cls in order[1:])
    while left := [order[head] for order, head in zip(orders, heads) if head < len(order)]:
        # Bases of which each comes after another one Python refuses; any order will do.
        chosen = next((cls for cls in left if not behind[cls]), left[0])
        result[chosen] = None
        for number, order in enumerate(orders):
            head = heads[number]
            while head < len(order) and order[head] in result:
                head += 1
                if head < len(order):
                    behind[order[head]] -= 1
            heads[number] = head
    return list(result)
