"""What every value of the dry run has in common.

Numbers, strings, booleans, None, tuples and slices of known values are Python's own. Everything else is a
`BaseValue`, a file for each kind; what nobody can know is an `Unknown`, which remembers what was asked of it so that
the same question gets the same answer.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Hashable, Iterable, MutableMapping, Sequence
from collections.abc import Generator as PyGenerator
from dataclasses import dataclass
from enum import Enum, IntEnum
from types import EllipsisType
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, TypeGuard, TypeVar, Union

from tapecheck.interpret import limits
from tapecheck.tape import Fact, Setting, Site

Value = Union["BaseValue", int, float, complex, str, bytes, None, EllipsisType, slice, tuple["Value", ...]]
"""Any value of the dry run: one of the classes here, a Python constant, or a tuple or slice of values.

What a value is has to be asked before anything is done with it.
"""

CONSTANTS = (int, float, complex, str, bytes, bool, type(None), type(...))
"""The types of Python's own constants."""

Key = TypeVar("Key", bound=Hashable)

INERT: frozenset[type] = frozenset([int, float, str, bytes, bool, type(None)])
"""Types of Python values that can hold no tensor."""

Read = tuple[dict[str, Value], str, Value]
"""A name that a call has taken from another namespace, which that is, and its value."""


class WayOut:
    """How a statement leaves the block that it stands in."""

    __slots__ = ()

    ends_loop: ClassVar[bool] = False
    """Whether the loop around it has no further iteration."""
    value: Value = None
    """What the function around it gives back."""

    def beyond_loop(self) -> WayOut | None:
        """Return how it leaves the block that the loop around it stands in; None where it ends in the loop."""
        return None


Run = PyGenerator[Value, Value, WayOut | None]
"""A statement being run: it gives what the program yields and takes what is sent; its result is the way out, if any."""

Args = list[Value]
Kwargs = dict[str, Value]
MORE, PICKED, NUMBERS = 1, 2, 4
"""What nobody knows of a container's elements: there may be some beyond those that are known; a condition that nobody
knows picked these, so that any of them may be missing; there may be further ones, all of them numbers or text, as are
those that are known.
"""
BEYOND = MORE | NUMBERS
"""What says that there may be elements beyond those that are known."""
MORE_KEYWORDS = "**"
"""The key in `Kwargs` that says that a call may give further keywords: `f(**options)`, whose names nobody knows."""


def replace_values(held: MutableMapping[Key, Value], each: Callable[[Value], Value]) -> None:
    """Put in the place of each value of a mapping what `each` makes of it."""
    for key in list(held):
        held[key] = each(held[key])


def known_keywords(kwargs: Kwargs) -> Kwargs:
    """Return the keywords that a call is known to give."""
    return {key: value for key, value in kwargs.items() if key != MORE_KEYWORDS}


def positional(args: Args, place: int, default: Value = None) -> Value:
    """Return an argument that a call gives by its place."""
    return args[place] if len(args) > place else default


def argument(args: Args, kwargs: Kwargs, place: int, name: str, default: Value = None) -> Value:
    """Return an argument that a call gives by its place or by its name."""
    return args[place] if len(args) > place else kwargs.get(name, default)


class Position(Protocol):
    """Where the dry run is, as far as values ask."""

    @property
    def clock(self) -> int: ...
    @property
    def iteration(self) -> tuple[tuple[int, int], ...]: ...
    def site(self, node: ast.AST) -> Site: ...


class Comparisons(Protocol):
    """What loops count and compare, as far as values add to it."""

    varying: int
    first_graphs: int


class Loops(Protocol):
    """The running loops, as far as values add to what is known of them."""

    def note_entry(self, owner: BaseValue, key: Hashable) -> None: ...


class Assumptions(Protocol):
    """What is taken for granted while a context manager is entered, as far as values say so."""

    def enter(self, manager: object, kind: Literal["context"], text: str, node: ast.AST) -> None: ...
    def leave(self, manager: object) -> None: ...


class Stores(Protocol):
    """How often something was stored, as far as values count it."""

    kept: int
    classes: int


class State(Protocol):
    """The state of a path, as far as values ask."""

    @property
    def stores(self) -> Stores: ...
    @property
    def assumptions(self) -> Assumptions: ...
    @property
    def position(self) -> Position: ...
    @property
    def comparisons(self) -> Comparisons: ...
    @property
    def loops(self) -> Loops: ...


class Models(Protocol):
    """The models of libraries, as far as values ask: what a tensor or a library's object does.

    What takes a value of one kind is declared by its result alone: the kinds are defined above this file.
    """

    def requires(self, value: Value) -> Fact: ...
    def constant(self, value: Value) -> Value: ...
    def hides(self, path: str) -> bool: ...
    def known_name(self, library: str, name: str) -> Value: ...
    def call(self, path: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value: ...
    @property
    def call_wrapped(self) -> Callable[..., Value]: ...
    @property
    def call_object(self) -> Callable[..., Value]: ...
    @property
    def call_unknown(self) -> Callable[..., Value]: ...
    def opaque_result(self, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value: ...
    def decorate(self, path: str, function: Value, node: ast.AST) -> Value: ...
    @property
    def decorated(self) -> Callable[..., Value]: ...
    def trusted_decorator(self, decorator: Value, function: Value, node: ast.AST) -> None: ...
    @property
    def read_method(self) -> Callable[..., None]: ...
    @property
    def hidden_descriptor(self) -> Callable[..., None]: ...
    @property
    def chosen(self) -> Callable[..., Value]: ...
    @property
    def place(self) -> Callable[..., int | None]: ...
    @property
    def overwritten(self) -> Callable[..., Hashable]: ...
    def taken_as_first(self, index: Value, first: Value, node: ast.AST, others: Sequence[Value] = ()) -> None: ...
    @property
    def trusted_context(self) -> Callable[..., None]: ...
    @property
    def trusted_store(self) -> Callable[..., None]: ...
    @property
    def given_apart(self) -> Callable[..., None]: ...
    @property
    def operator(self) -> Callable[..., Value]: ...
    @property
    def tensor_attribute(self) -> Callable[..., Value]: ...
    @property
    def set_tensor_attribute(self) -> Callable[..., None]: ...
    @property
    def unknown_attribute(self) -> Callable[..., Value]: ...
    @property
    def object_has(self) -> Callable[..., bool | None]: ...
    @property
    def lacks(self) -> Callable[..., bool]: ...
    def lacks_name(self, path: str, name: str) -> bool: ...
    def is_method(self, path: str) -> bool: ...
    @property
    def get_item(self) -> Callable[..., Value]: ...
    @property
    def set_item(self) -> Callable[..., None]: ...
    @property
    def tensor_stream(self) -> Callable[..., Stream]: ...
    @property
    def object_attribute(self) -> Callable[..., Value]: ...
    @property
    def object_item(self) -> Callable[..., Value]: ...
    @property
    def object_stream(self) -> Callable[..., Stream | None]: ...
    def object_length(self, owner: Value, node: ast.AST) -> Value: ...
    def only_shown(self, node: ast.AST) -> bool: ...


class Interpreter(Protocol):
    """The interpreter, as far as values ask it to run something; what takes one kind is declared as in `Models`."""

    @property
    def reads(self) -> list[Read] | None: ...
    @property
    def world(self) -> State: ...
    @property
    def library(self) -> Models: ...
    def call(self, function: Value, args: Args, kwargs: Kwargs, node: ast.AST) -> Value: ...
    def operates(self, values: Iterable[Value], node: ast.AST) -> None: ...
    @property
    def call_function(self) -> Callable[..., Value]: ...
    @property
    def instantiate(self) -> Callable[..., Value]: ...
    @property
    def find_method(self) -> Callable[..., Value]: ...
    @property
    def special(self) -> Callable[..., Value]: ...
    def exception_info(self, raised: Signal | None) -> Args: ...
    @property
    def instance_attribute(self) -> Callable[..., Value]: ...
    @property
    def class_attribute(self) -> Callable[..., Value]: ...
    @property
    def super_attribute(self) -> Callable[..., Value]: ...
    @property
    def property_part(self) -> Callable[..., Value]: ...
    def method_of(self, owner: Value, name: str, node: ast.AST) -> Value: ...
    def has_method(self, owner: Value, name: str) -> bool: ...
    @property
    def set_instance_attribute(self) -> Callable[..., None]: ...
    @property
    def store_attribute(self) -> Callable[..., None]: ...
    @property
    def delete_attribute(self) -> Callable[..., None]: ...
    @property
    def touched(self) -> Callable[..., None]: ...
    @property
    def submodule(self) -> Callable[..., Value | None]: ...
    def known_truth(self, value: Value) -> bool | None: ...
    def stream(self, value: Value, node: ast.AST) -> Stream: ...
    @property
    def resume(self) -> Callable[..., Value]: ...
    @property
    def close(self) -> Callable[..., None]: ...
    @property
    def stored_before(self) -> Callable[..., bool]: ...
    @property
    def stored_under(self) -> Callable[..., Hashable]: ...
    def escape(self, value: Value, node: ast.AST, to: str, *, more: bool = False) -> None: ...
    def wrong(self, kind: str, node: ast.AST) -> None: ...
    def doubt(self, kind: str, node: ast.AST) -> None: ...
    def expects(self, kind: str) -> bool: ...
    def unknown(self, name: str) -> Value: ...
    @property
    def guessed(self) -> Callable[..., int]: ...
    def takes_nothing(self, node: ast.AST) -> bool: ...


class Default(NamedTuple):
    """What a value is by default: whether it is `likely` true, and the `usual` value itself, in a tuple.

    `flag` is what sets an option on the command line, such as `--mode`.
    """

    likely: bool | None = None
    usual: tuple[Value] | None = None
    flag: str = ""


NO_DEFAULT = Default()


class NotPlain(Exception):
    """A value is not all constants, or not all known."""


class Decides(IntEnum):
    """Who decides what an operator or a comparison gives: of two operands the one that stands further down here."""

    CONSTANT = 0
    OTHER = 1
    INSTANCE = 2
    UNKNOWN = 3
    TENSOR = 4


class Deferred(Enum):
    """The answer that the other one of two values has to give."""

    TO_OTHER = "to the other"


class BaseValue:
    """A value of the dry run that is not one of Python's own, and what it does.

    The methods here say what a value does of which nothing else is known.
    """

    __slots__ = ()

    keyed: ClassVar[bool] = False
    """Whether an index is a key to it, also where it is a slice."""
    typical: ClassVar[bool] = False
    """Whether the elements that follow it in a list are taken to be like it: it is code, or an object."""
    vague: ClassVar[bool] = False
    """Whether nobody knows what it equals, whatever the other value says."""
    plain_key: ClassVar[bool] = False
    """Whether a dict whose keys are all known surely lacks it where it is not found."""

    default: Default = NO_DEFAULT
    """What it is where it is an option that nobody has set."""
    can_hold: ClassVar[bool] = False
    """Whether a tensor can be in it, or it can be one."""
    decides: ClassVar[Decides] = Decides.OTHER
    """What it is as an operand."""

    is_container: ClassVar[bool] = False
    """Whether it is a tuple, list, set or dict."""
    has_members: bool = False
    """Whether it is a container, or an object that is no module."""
    is_fixed: ClassVar[bool] = False
    """Whether it is the same in every run: a constant, a name of a library, a module."""
    switches: bool = False
    """Whether it is a context manager that may change what torch records or averages as it is entered or left."""
    is_iterator: ClassVar[bool] = False
    """Whether going over its elements uses it up."""

    def is_whole(self) -> bool:
        """Whether it is a container of which every element is known."""
        return False

    def perhaps_none(self) -> bool:
        """Whether nobody knows if there are any of the elements that the dry run goes by."""
        return False

    def rest(self) -> int:
        """Return what nobody knows of its elements: some of `MORE`, `PICKED` and `NUMBERS`, or none."""
        return 0

    def known_count(self) -> int | None:
        """Return how many elements it surely has, by what it is alone; None where that is not known."""
        return None

    def unknown_counts(self) -> Iterable[Value]:
        """Return the values nobody knows that say how many elements it has."""
        return ()

    def children(self) -> Iterable[Value]:
        """Return the values that it holds: elements, attributes, defaults."""
        return ()

    def reached(self) -> Iterable[Value]:
        """Return what whoever has the value can come to by it."""
        return self.children()

    def named_parts(self, path: str) -> Iterable[tuple[str, Value]]:
        """Return its elements or attributes, each with its name where `path` is that of the value."""
        return ()

    def given_away(self) -> None:
        """Note that code which is not visible has it, where that can change it unseen at any time."""

    def is_inert(self) -> bool:
        """Whether it holds nothing that a run could change."""
        return self.is_fixed

    def mapped(self, each: Callable[[Value], Value], born: int) -> Value | None:
        """Return the container like this one of what `each` makes of its elements; None of what is no container."""
        return None

    def replace_held(self, each: Callable[[Value], Value]) -> None:
        """Put in the place of each value that can be stored anew in it what `each` makes of that."""

    def requires(self) -> Fact:
        """Whether it carries a graph, or is a leaf that requires grad."""
        return "no"

    def as_python(self, depth: int) -> object:
        """Return it as Python's own, `depth` levels deep; raises NotPlain where anything in it is no known constant."""
        raise NotPlain

    def itself(self) -> Value:
        """Return the value as the program has it."""
        return self

    # -- types ------------------------------------------------------------------------------------------------

    type_path: ClassVar[str] = ""
    """The dotted name of its type; empty where nobody knows, or where `type_of` says more."""
    type_names: ClassVar[tuple[str, ...] | None] = None
    """The names of the types that it is an instance of; None where nobody knows them."""

    def type_of(self) -> BaseValue | str:
        """Return its class, or the dotted name of its type; an empty name where nobody knows."""
        return self.type_path

    def is_a(self, name: str) -> bool | None:
        """Whether it is an instance of a type by its dotted name, empty where nobody knows; None where it may be."""
        short = name.rpartition(".")[2]
        if name == "builtins.object" or short == "Hashable":
            return True
        return None if self.type_names is None else short in self.type_names

    def is_of(self, cls: BaseValue) -> bool | None:
        """Whether it is an object of a class of the program; None where nobody knows."""
        return False

    def derives_from(self, kinds: Sequence[Value]) -> bool | None:
        """Whether it is a class that comes from one of some types, or is one; None where nobody knows."""
        return None

    def name_as_type(self) -> str:
        """Return the dotted name of the type that it is; an empty one where it is none."""
        return ""

    # -- attributes and calls -------------------------------------------------------------------------------

    is_callable: ClassVar[bool | None] = None
    """Whether it can be called; None where nobody knows."""

    def get_attribute(self, machine: Interpreter, name: str, node: ast.AST) -> Value:
        return machine.method_of(self.itself(), name, node)

    def own_attribute(self, name: str) -> tuple[Value] | None:
        """Return what a function of the program has under a name; None where it has nothing."""
        return None

    def set_attribute(self, machine: Interpreter, name: str, value: Value, node: ast.AST) -> None:
        """Set an attribute."""

    def delete_attribute(self, machine: Interpreter, name: str, node: ast.AST) -> None:
        """Delete an attribute."""

    def has_attribute(self, machine: Interpreter, name: str, node: ast.AST) -> bool | None:
        """Whether it has an attribute; None where nobody knows."""
        return True if machine.has_method(self.itself(), name) else None

    def may_lack(self, machine: Interpreter, name: str, node: ast.AST) -> bool:
        """Whether it is a value of Python's or torch's of which no attribute of a name is known."""
        return False

    def called(self, machine: Interpreter, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        """Return what a call gives."""
        # None, most often: something else will stand there when the real program gets so far.
        return machine.library.call_unknown(machine.unknown("call"), args, kwargs, node)

    is_object: ClassVar[bool] = False
    """Whether what a class defines is bound to it where it is read by it: an object of the class, not the class."""

    def undecorated(self) -> Value:
        """Return the function under a decorator of Python's own or of a library; anything else itself."""
        return self.itself()

    def class_of(self) -> Value:
        """Return the class that what is read by it comes from: its own, or itself."""
        return self.itself()

    def read_by(self, machine: Interpreter, receiver: Value, node: ast.AST) -> Value:
        """Return what reading it, out of a class, by an object or by the class gives."""
        return self

    def sets(self, machine: Interpreter, owner: Value, value: Value, node: ast.AST) -> bool:
        """As what the class of an object has under a name, set that attribute; return whether it sees to that."""
        return False

    def deletes(self, machine: Interpreter, owner: Value, node: ast.AST) -> bool:
        """As what the class of an object has under a name, delete that attribute; return whether it sees to that."""
        return False

    def decorates(self, machine: Interpreter, function: Value, node: ast.AST) -> Value:
        """Return what it makes of a function as a decorator."""
        # An unknown decorator is trusted to call what it decorates (click, hydra, functools.wraps ...).
        machine.library.trusted_decorator(self.itself(), function, node)
        return function

    def operator_method(self, machine: Interpreter, name: str, node: ast.AST) -> Value:
        """Return the method that its class has for an operator; None where it has none."""
        return None

    # -- as a context manager -------------------------------------------------------------------------------

    def entered(self, machine: Interpreter, node: ast.AST) -> Value:
        """Return what `as` binds where a `with` enters it."""
        return self.itself()

    def left(self, machine: Interpreter, raised: Signal | None, node: ast.AST) -> bool:
        """Leave it at the end of a block; return whether it swallows the exception that the block ended in."""
        machine.world.assumptions.leave(self)
        return False

    # -- items ----------------------------------------------------------------------------------------------

    def get_item(self, machine: Interpreter, index: Value, node: ast.AST) -> Value:
        if isinstance(index, BaseValue):
            index = index.as_index(machine, node)
        if not isinstance(index, slice) or self.keyed:
            return self.item_at(machine, index, node)
        if stands_still(index):
            machine.wrong("ValueError", node)
            return machine.unknown("item")
        return self.part(machine, index, node)

    def part(self, machine: Interpreter, index: slice, node: ast.AST) -> Value:
        """Return what a slice cuts out, of what has no keys."""
        return self.item_at(machine, index, node)

    def item_at(self, machine: Interpreter, index: Value, node: ast.AST) -> Value:
        """Return an item by an index that is no object with an `__index__`, and no slice that stands still."""
        return machine.unknown("item")

    def as_index(self, machine: Interpreter, node: ast.AST) -> Value:
        """Return what the value stands for as an index."""
        return self

    def kind_as_index(self) -> str:
        """Return what it is as an index of a tensor, as the facts name it."""
        return "int"

    def held_under(self, key: Hashable) -> Value:
        """Return what a container has under a key; None where it has nothing there."""
        return None

    def set_item(self, machine: Interpreter, index: Value, value: Value, node: ast.AST) -> None:
        """Store under an index."""

    def delete_item(self, machine: Interpreter, index: Value, node: ast.AST) -> None:
        """Delete what is stored under an index."""

    # -- elements -------------------------------------------------------------------------------------------

    def stream(self, machine: Interpreter, node: ast.AST) -> Stream:
        """Return the elements."""
        return Stream(lambda: None, lambda index: machine.unknown("item"))

    def known_items(self, machine: Interpreter, node: ast.AST) -> list[Value] | None:
        """Return the elements where their number is known; None otherwise."""
        return None

    def guessed_items(self, machine: Interpreter, count: int, node: ast.AST) -> list[Value]:
        """As many elements as an unpacking wants, where nobody knows the number."""
        stream = machine.stream(self.itself(), node)
        items: list[Value] = []
        for index in range(count):
            try:
                items.append(stream.item(index))
            except IndexError:
                items.append(machine.unknown("item"))
        stream.abandon(machine)
        return items

    def next_item(self, machine: Interpreter, default: Args, node: ast.AST) -> Value:
        """Return what `next` gives; `default` holds what it gives at the end, if anything."""
        return machine.unknown("next")

    def abandon(self, machine: Interpreter) -> None:
        """Close the generators that it draws from: nothing more is drawn, though the dry run did not come to the end.

        The `with torch.no_grad()` that they wait in would reach on into what comes after the loop.
        """

    def waits(self) -> bool:
        """Whether generators that it draws from wait inside of a `with` or `try`."""
        return False

    def size(self, machine: Interpreter, node: ast.AST) -> Value:
        """Return what `len` gives."""
        return machine.library.object_length(self.itself(), node)

    def contains(self, machine: Interpreter, item: Value) -> bool | None:
        """Whether an element equals `item`; None where nobody knows."""
        return None

    def become(self, name: str, *, changed: bool) -> Value:
        """Return what an attribute of that name that has it may be later, `changed` by a method; a container itself."""
        return self.itself()

    # -- what a test tells ---------------------------------------------------------------------------------------

    def turned(self, answer: bool) -> tuple[Value, bool]:
        """Return the test that it is the opposite of, and how that comes out where it does as `answer`; else itself."""
        return self.itself(), answer

    def by_default(self) -> bool | None:
        """Return how it comes out as a test of an option that keeps its default; None of other tests."""
        return None

    def given_as(self, answer: bool) -> Setting | None:
        """Return how an option is given on the command line where it comes out so as a test; None where it has no flag,
        or the test does not say that.
        """
        return None

    # -- operators and equality ---------------------------------------------------------------------------------

    def known_truth(self, machine: Interpreter) -> bool | None:
        """Whether the value is true; None where nobody knows."""
        return True

    def unary(self, machine: Interpreter, op: str, node: ast.AST) -> Value:
        """Return what a unary operator, by the name of its syntax node, makes of it."""
        return machine.unknown("")

    def operand(self) -> BaseValue:
        """Return what it is compared as."""
        return self

    def equals(self, other: BaseValue, machine: Interpreter | None) -> bool | Deferred | None:
        """Whether the value equals another one; None where nobody knows."""
        return Deferred.TO_OTHER

    def is_same(self, other: BaseValue) -> bool | Deferred | None:
        """Whether it is the same object as another one, as `equals` says it."""
        return Deferred.TO_OTHER

    def as_key(self, left: list[int]) -> Hashable:
        """Return the value as a key of a dict, from no more than `left` parts."""
        key = Identity(self)
        return key if self.is_one() else ("?", key)

    def is_one(self) -> bool:
        """Whether it is known to be equal, as a key, to nothing but itself."""
        return False

    def expression(self) -> tuple[Hashable, ...]:
        """Return what it is worked out from, as a key: the same expression of the same unknowns is the same value."""
        return ("?", id(self))


@dataclass(eq=False, slots=True)
class Stream(BaseValue):
    """Something to iterate: `length` answers None where nobody knows it; `item(i)` gives element i.

    A sequential stream must be asked for its elements in order and raises IndexError at its end.
    """

    length: Callable[[], int | None]
    item: Callable[[int], Value]
    sequential: bool = False
    next: int = 0
    sources: tuple[BaseValue, ...] = ()
    """What its elements are drawn from: left together with it."""
    known: int = 0
    """Of one whose length nobody knows: how many of its elements are known."""
    endless: bool = False
    picked: bool = False
    """Whether a condition that nobody knows picked its elements: it may have fewer than those."""
    reckon: Callable[[], None] | None = None
    """Settles on as many elements as it is gone over for, where nobody knows how many its container has."""
    held: bool = False
    """Whether its elements are those of containers, and numbers: looking one up runs nothing."""
    settled: bool = False
    """Whether nobody knows its length: the dry run settled on one."""
    lengthen: Callable[[int], None] | None = None
    """Settles on a length with so many more elements; None where something may reckon with the one that it has."""
    one_way: bool = False
    """Whether all its elements come about in one way, from one value that nobody knows."""
    cut: int | None = 0
    """How many more elements its container has because a loop that fills it was cut short; None where nobody knows."""
    count: Value = None
    """The unknown that says how many elements there are, where nobody knows that and one value says it."""
    over: tuple[Value, ...] = ()
    """What it goes over, and what it calls: whoever has the iterator can come to these."""

    @property
    def length_settled(self) -> bool:
        """Whether the dry run settled on its length, or on that of what its elements are drawn from."""
        return self.settled or any(one.length_settled for one in only(self.sources, Stream))

    def settle(self) -> None:
        """Settle on the lengths of the containers that a loop goes over: whatever asks for them reckons with it."""
        if self.reckon is not None:
            self.reckon()
        for source in only((*self.sources, *self.over), Stream):
            source.settle()

    def rest(self) -> int:
        rest = PICKED * self.picked
        for one in (*self.sources, *only(self.over, BaseValue)):
            rest |= one.rest() & PICKED
        return rest

    def may_be_empty(self) -> bool:
        """Whether nobody knows if there are any elements, of it or of what they are drawn from."""
        return not self.endless and (
            self.length() is None
            or self.settled
            or bool(self.rest())
            or any(one.may_be_empty() for one in only((*self.sources, *self.over), Stream))
        )

    def perhaps_none(self) -> bool:
        """Whether whoever takes in all elements may find none: what runs code of the program asks that itself."""
        return not self.sequential and self.may_be_empty()

    @property
    def never_ends(self) -> bool:
        """Whether a loop over it only ends by what leads out of the loop."""
        return self.endless or bool(self.sources and all(getattr(one, "never_ends", False) for one in self.sources))

    is_iterator: ClassVar[bool] = True
    type_names: ClassVar[tuple[str, ...] | None] = ("Iterator", "Iterable", "map", "filter", "zip", "enumerate")

    def reached(self) -> Iterable[Value]:
        return (*self.over, *self.sources)

    def replace_held(self, each: Callable[[Value], Value]) -> None:
        for one in self.reached():
            each(one)

    def stream(self, machine: Interpreter, node: ast.AST) -> Stream:
        return self

    def known_items(self, machine: Interpreter, node: ast.AST) -> list[Value] | None:
        start = self.next
        items = None if self.rest() & PICKED else self.drained()[0]
        if items is not None and self.rest() & PICKED:
            # A generator says so once it has run: whoever takes what is known of it begins again.
            self.next, items = start, None
        return items

    def drained(self) -> tuple[list[Value] | None, list[Value]]:
        """Return all elements that are left, or None; and those drawn before it turned out to have no known end."""
        length = self.length()
        if length is None or (not self.sequential and length - self.next > limits.MAX_ITEMS):
            return None, []
        items: list[Value] = []
        while len(items) < limits.MAX_DRAINED:
            length = self.length()
            if length is None:
                return None, items
            if self.next >= length:
                return items, []
            try:
                items.append(self.item(self.next))
            except IndexError:
                return items, []
            self.next += 1
        return None, []

    def next_item(self, machine: Interpreter, default: Args, node: ast.AST) -> Value:
        length = self.length()
        if length is None or self.next < length:
            try:
                item = self.item(self.next)
            except IndexError:
                pass
            else:
                self.next += 1
                return item
        if default:
            return default[0]
        raise Signal("StopIteration")

    def reach(self) -> int:
        """Return how many elements are known of it, or of what its elements are drawn from."""
        return max([self.known, *(source.reach() for source in only(self.sources, Stream))])

    def abandon(self, machine: Interpreter) -> None:
        for source in self.sources:
            source.abandon(machine)

    def waits(self) -> bool:
        return any(source.waits() for source in self.sources)

    def contains(self, machine: Interpreter, item: Value) -> bool | None:
        return None if self.length() is None else self.comes_to(machine, item)

    def comes_to(self, machine: Interpreter, item: Value) -> bool | None:
        """Whether going over the elements comes to an equal one: an iterator is used up as far as that."""
        for _ in range(limits.MAX_DRAINED):
            try:
                length = self.length()
                if length is not None and self.next >= length:
                    return False
                same = equal(self.item(self.next), item, machine)
            except IndexError:
                return False
            self.next += 1
            if same is not False:
                return same
        return None


NO_MODEL = BaseValue()
"""The answer of a model that does not know a function or method: no value of the program."""

_Kind = TypeVar("_Kind")
_Behaviour = TypeVar("_Behaviour", bound=type[BaseValue])


class _Table(dict[type, Callable[[Value], BaseValue]]):
    """The behaviours of Python's own values, by type; that of a subclass is its base's."""

    def __missing__(self, kind: type) -> Callable[[Value], BaseValue]:
        found = self[kind] = next(self[base] for base in kind.__mro__ if base in self)
        return found


_OF_PYTHON = _Table()


def of_python(*kinds: type) -> Callable[[_Behaviour], _Behaviour]:
    """Let a class say what Python's own values of some types do."""

    def register(behaviour: _Behaviour) -> _Behaviour:
        _OF_PYTHON.update(dict.fromkeys(kinds, behaviour))
        return behaviour

    return register


def behaviour(value: Value) -> BaseValue:
    """Return what says what a value does: the value itself where it is not one of Python's own."""
    return value if isinstance(value, BaseValue) else _OF_PYTHON[type(value)](value)


def plain(value: Value, depth: int = limits.PLAIN_DEPTH) -> Any:
    """Return a value as Python's own; raises NotPlain where anything in it is no known constant."""
    return value if isinstance(value, CONSTANTS) else behaviour(value).as_python(depth)


def deciding(left: Value, right: Value) -> Decides:
    """Return which kind of operand decides about two."""
    one, other = _decides(left), _decides(right)
    return one if one > other else other


def _decides(value: Value) -> Decides:
    if isinstance(value, BaseValue):
        return value.decides
    return Decides.CONSTANT if isinstance(value, CONSTANTS) else Decides.OTHER


def is_constant(value: object) -> TypeGuard[int | float | complex | str | bytes | EllipsisType | None]:
    """Whether a value is one of Python's own constants."""
    return isinstance(value, CONSTANTS)


def only(values: Iterable[object], kind: type[_Kind]) -> list[_Kind]:
    """Return those of some values, or events, that are of a kind."""
    return [value for value in values if isinstance(value, kind)]


def known_numbers(values: Iterable[Value]) -> list[int | float] | None:
    """Return the numbers that values are, or were settled on; None where one is no number."""
    found = list(map(concrete, values))
    numbers = [value for value in found if isinstance(value, (int, float))]
    return numbers if len(numbers) == len(found) else None


def is_number(value: Value) -> TypeGuard[int | float]:
    """Whether a value is a known number, and no boolean."""
    return type(value) in (int, float)


def can_hold(value: Value) -> bool:
    """Whether a value is of a type that a tensor can be in, or be."""
    return value.can_hold if isinstance(value, BaseValue) else isinstance(value, tuple)


def stands_still(index: slice) -> bool:
    """Return whether the step of a slice is zero, which no sequence takes."""
    step = concrete(index.step)
    return isinstance(step, int) and step == 0


def concrete(value: Value) -> Value:
    """Return the constant that an unknown was settled on; any other value itself."""
    return value.itself() if isinstance(value, BaseValue) else value


def known_int(value: Value) -> int | None:
    """Return the whole number that a value is, or was settled on; None of any other."""
    value = concrete(value)
    return value if isinstance(value, int) else None


def known_text(value: Value) -> str | None:
    """Return the text that a value is, or was settled on; None of any other."""
    value = concrete(value)
    return value if isinstance(value, str) else None


def equal(left: Value, right: Value, machine: Interpreter | None = None) -> bool | None:
    """Whether two values are equal; None where nobody knows. `machine` runs the program's own `__eq__`."""
    left, right = concrete(left), concrete(right)
    if isinstance(left, CONSTANTS) and isinstance(right, CONSTANTS):
        return bool(left == right)
    one, other = behaviour(left).operand(), behaviour(right).operand()
    answer = one.equals(other, machine)
    if answer is Deferred.TO_OTHER:
        answer = other.equals(one, machine)
    return one.itself() is other.itself() if answer is Deferred.TO_OTHER else answer


def all_equal(left: Sequence[Value], right: Sequence[Value], machine: Interpreter | None) -> bool | None:
    """Whether the elements of two sequences are equal, each to each."""
    if len(left) != len(right):
        return False
    results = [True if a is b else equal(a, b, machine) for a, b in zip(left, right)]
    if False in results:
        return False
    return None if None in results else True


def identical(left: Value, right: Value) -> bool | None:
    """Whether two values are the same object; None where nobody knows."""
    if left is right:
        return True
    one, other = behaviour(concrete(left)), behaviour(concrete(right))
    answer = one.is_same(other)
    if answer is Deferred.TO_OTHER:
        answer = other.is_same(one)
    return one.itself() is other.itself() if answer is Deferred.TO_OTHER else answer


def rest_of(value: Value) -> int:
    """Return what nobody knows of the elements of something of which not all are known."""
    return behaviour(value).rest() or MORE


def among(machine: Interpreter, items: Iterable[Value], item: Value, rest: int) -> bool | None:
    """Whether an element of a container equals a value; `rest` is what nobody knows of its elements."""
    if rest & PICKED:
        return None
    more = bool(rest)
    plain = isinstance(item, CONSTANTS)
    for candidate in map(concrete, items):
        if plain and isinstance(candidate, CONSTANTS):
            if candidate == item:
                return True
        elif candidate is item:
            return True
        else:
            same = equal(candidate, item, machine)
            if same:
                return True
            more = more or same is None
    return None if more else False


def hashable(value: Value) -> Hashable:
    """Return a dict key for a value: constants by value, everything else and what has too many parts by identity."""
    if type(value) in _KEYS and not isinstance(value, slice):
        return value
    return key_within(value, [limits.MOST_HASHED])


def key_within(value: Value, left: list[int]) -> Hashable:
    """Return the key of a value that is part of another one; `left` is how many parts may still be looked at."""
    owner = behaviour(value)
    left[0] -= 1
    return ("?", Identity(owner.itself())) if left[0] < 0 else owner.as_key(left)


_KEYS = frozenset((int, str, bool, bytes, type(None)))
"""The types of constants that are keys as they are."""


class Identity:
    """An object as a key: equal only to itself; keeps the object alive so that its id stays its own."""

    __slots__ = ("value",)

    def __init__(self, value: Value) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Identity) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)


def loaded(machine: Interpreter, slot: Slot | None) -> None:
    """Remember that a variable was read, where an earlier iteration stored its value."""
    clock = machine.world.position.clock
    if slot is None or slot.clock >= clock:
        return
    entry = (clock, slot.clock)
    loads = slot.loads
    if loads is None:
        slot.loads = [entry]
    elif loads[-1] != entry:
        loads.append(entry)
        del loads[: -limits.MAX_LOADS]


def stored(machine: Interpreter, slots: dict[Key, Slot], key: Key, node: ast.AST) -> None:
    """Remember where and when an attribute or key was stored."""
    slot = slots.get(key)
    if slot is None:
        slots[key] = Slot(machine.world.position.site(node), machine.world.position.clock)
    else:
        slot.at = machine.world.position.site(node)
        slot.clock = machine.world.position.clock


class Slot:
    """A variable, attribute or item that holds more than a constant: where and when it was last stored.

    `clock` is that of the iteration that stored it; `loads` are the clocks of the last iterations that read what an
    earlier one had stored, each with the clock of that store.
    """

    __slots__ = ("at", "clock", "loads")

    def __init__(self, at: Site, clock: int) -> None:
        self.at = at
        self.clock = clock
        self.loads: list[tuple[int, int]] | None = None


def copied(slots: dict[Key, Slot]) -> dict[Key, Slot]:
    """Return the slots of a copy: what it holds was stored where the original stored it."""
    return {key: Slot(slot.at, slot.clock) for key, slot in slots.items()}


class Signal(Exception):
    """An exception of the interpreted program; `kind` is the name of its class, `value` its object."""

    def __init__(self, kind: str, value: Value = None, message: str = "", node: ast.AST | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.value = value
        self.message = message
        self.node = node
