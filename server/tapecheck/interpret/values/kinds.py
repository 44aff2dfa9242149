"""The values of the dry run.

Numbers, strings, booleans, None, tuples and slices of known values are Python's own. Everything else is one of
the classes below; what nobody can know is an `Unknown`, which remembers what was asked of it so that the same
question gets the same answer.
"""

from __future__ import annotations

import ast
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, MutableMapping, Sequence
from collections.abc import Generator as PyGenerator
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Literal

from tapecheck.interpret.values.vocabulary import PLAIN_NAMES
from tapecheck.source import Source
from tapecheck.source.notes import Notes
from tapecheck.tape import Fact, Site
from tapecheck.torchfacts import ModuleFact

Value = Any
"""Any value of the dry run: one of the classes here or a Python constant or tuple."""

CONSTANTS = (int, float, complex, str, bytes, bool, type(None), type(...))
"""The types of Python's own constants."""

Run = PyGenerator[Value, Value, Any]
"""A statement being run: gives what the program yields, takes what is sent, ends in None or a way out of the block."""

Args = list[Value]
Kwargs = dict[str, Value]
MORE_KEYWORDS = "**"
"""The key in `Kwargs` that says that a call may give further keywords: `f(**options)`, whose names nobody knows."""


def known_keywords(kwargs: Kwargs) -> Kwargs:
    """Return the keywords that a call is known to give."""
    return {key: value for key, value in kwargs.items() if key != MORE_KEYWORDS}


class Storage:
    """The memory that a tensor and its views share, with one version counter.

    `views` are the differentiable views still alive, oldest first: an in-place change of one gives all of them a new
    history.
    """

    __slots__ = ("id", "views")

    def __init__(self, number: int) -> None:
        self.id = number
        self.views: list[weakref.ref[Tensor]] | None = None


class Mark(Enum):
    """What is noted of how a tensor was made, in `Tensor.extra`; true where nothing else is said."""

    # Enum's own is worked out from the name, each time.
    __hash__ = object.__hash__

    COPY_OF_GRADIENT = "copy of gradient"
    """The leaf whose gradient it is as large as."""
    DATA_OF = "data of"
    """The tensor whose `.data` it is."""
    DRAWN = "drawn"
    """Whole numbers drawn by chance."""
    FROZEN_LEAF = "frozen leaf"
    """The leaf that it was before the program switched `requires_grad` off."""
    GRADIENT_OF = "gradient of"
    """The tensor whose `.grad` it is."""
    LIES_ACROSS = "lies across"
    """A view whose elements do not lie in order."""
    MOVED_LEAF = "moved leaf"
    """A step from a parameter: a place to compute at, no term of a loss."""
    ONE_NUMBER = "one number"
    OPAQUE = "opaque"
    """It stands for the parameters of a model nobody knows."""
    PART_OF_SEVERAL = "part of several"
    """One of several views of an operation: the version its memory had then."""
    PRECISION = "precision"
    """The name of the type that it was made to."""
    SAVED = "saved"
    """Whether such a model comes out of a saved file."""
    VIEW_UNDER_NO_GRAD = "view under no_grad"
    TAKEN_FOR_DATA = "taken for data"
    """Computed of nothing but what is taken for data, as `Unknown.assumed` says, and of constants."""
    WEIGHTED = "weighted"
    """A constant gradient times a weight that nobody knows."""


class Tensor:
    """A tensor.

    `node` is its graph node, or its own leaf id where it is a leaf that requires grad. `graph` says whether it
    carries a graph. `of_leaf` is the leaf it is or is a view of. `cuts` are the cuts a value without graph came
    through; `constant_terms` the gradient cuts that reach a value with graph by added terms only. `oldest` is
    the oldest non-leaf node reachable. `rank` is the number of dimensions, None where nobody knows.
    """

    __slots__ = (
        "__weakref__",
        "base",
        "changed",
        "constant_terms",
        "cuts",
        "dtype",
        "extra",
        "given",
        "grad",
        "graph",
        "hooks",
        "is_leaf",
        "items",
        "length",
        "name",
        "node",
        "of_leaf",
        "oldest",
        "parameter",
        "rank",
        "retains_grad",
        "storage",
    )  # fmt: skip

    def __init__(
        self,
        storage: Storage,
        node: int | None = None,
        graph: Fact = "no",
        *,
        is_leaf: bool = False,
        cuts: tuple[int, ...] = (),
        constant_terms: tuple[int, ...] = (),
        oldest: int | None = None,
        of_leaf: int | None = None,
        dtype: str = "float",
        name: str = "",
    ) -> None:
        self.storage = storage
        self.node = node
        self.graph: Fact = graph
        self.is_leaf = is_leaf
        self.cuts = cuts
        self.constant_terms = constant_terms
        self.oldest = oldest
        self.of_leaf = of_leaf
        self.dtype = dtype
        self.name = name
        self.grad: Value = None
        self.parameter = False
        self.base: Tensor | None = None
        self.changed: tuple[int, Site] | None = None
        """When and where a graph was last written into it in place."""
        self.retains_grad = False
        self.rank: int | None = None
        self.extra: dict[str | Mark, Value] | None = None
        """Marks, and by their names the attributes that were worked out of it."""
        self.given: dict[str, Value] | None = None
        """Attributes that the program itself has set."""
        self.length: Value = None
        self.items: list[Value] | None = None
        self.hooks: list[Value] = []

    def __repr__(self) -> str:
        return f"<tensor {self.name} node={self.node} graph={self.graph}>"


class Kind(Enum):
    """What is known of the type of an unknown value."""

    # Enum's own is worked out from the name, each time.
    __hash__ = object.__hash__

    ANY = "any"
    """Anything: a tensor, a model, a container."""
    PLAIN = "plain"
    """No tensor, and nothing with a tensor in it."""
    NUMBER = "number"
    SCALE = "scale"
    """What the losses of a gradient scaler are multiplied by."""
    WHOLE = "whole"
    """A whole number: a length, an index."""
    TEXT = "text"
    MISSING = "missing"
    """What a class has under a name that it does not define."""
    NOT_IMPLEMENTED = "NotImplemented"
    """Python's constant of that name."""


COUNTED = (Kind.NUMBER, Kind.WHOLE, Kind.SCALE)
"""The kinds of numbers."""
_DATA = frozenset((Kind.PLAIN, *COUNTED, Kind.TEXT))


class Unknown:
    """A value nobody can know.

    `name` is for people; `kind` says what is known of its type. `node` is set where it may carry a graph (the
    result of an unknown call on tensors). `concrete` is set once the dry run has settled on a value for it (a loop
    bound). `leaf` stands for the parameters of an unknown model, which is trained as one opaque differentiable
    module. `data` says that it is data: no graph; `assumed` that this is so because loaders give data, and it was
    iterated out of something that was handed in. `owner` and `attr` say which attribute of which unknown value it
    is; `certain` whether it surely carries the graph of `node`. `parts` is what it was worked out from: the name of
    an operation and its operands. For the result of a test `compared` says what was compared with what; `bounds` is
    what tests have shown of a number. `key` is its expression and `unresolved` that it follows from nothing, as of
    how many settlings. `returned` says that it came out of a call that was given values, so that what is in it need
    not be data. `length` is what `len` of it gave, `likely` what a flag is by default and `usual` the default itself,
    in a tuple. `within` is what the program made itself and it is a part of: a model out of a library, what was in a
    saved file. `holds` are the leaves that the unknown code which made it was given, `made` the graphs that calls of
    it and of its methods gave, each with what was called. `part_of` is what it was taken out of by an index or a loop.
    """

    __slots__ = (
        "assumed", "attr", "attrs", "bounds", "certain", "compared", "concrete", "cuts", "data", "holds", "items",
        "key", "kind", "leaf", "length", "likely", "made", "name", "negated", "node", "oldest", "owner", "part_of",
        "parts", "returned", "storage", "trained", "truth", "unresolved", "usual", "within",
    )  # fmt: skip

    def __init__(
        self, name: str = "", node: int | None = None, cuts: tuple[int, ...] = (), kind: Kind = Kind.ANY
    ) -> None:
        self.name = name
        self.node = node
        self.cuts = cuts
        self.kind = kind
        self.oldest: int | None = None
        self.attrs: dict[str, Value] | None = None
        self.items: dict[Any, Value] | None = None
        self.truth: bool | None = None
        self.parts: tuple[Any, ...] | None = None
        self.compared: tuple[str, Unknown, Value] | None = None
        self.bounds: tuple[float, float] | None = None
        self.negated: Unknown | None = None
        self.concrete: Value = None
        self.leaf: Tensor | None = None
        self.trained = False
        self.storage: Storage | None = None
        self.length: Unknown | None = None
        self.data = kind in _DATA
        self.assumed = False
        self.certain = True
        self.owner: Unknown | None = None
        self.attr = ""
        self.key: tuple[int, tuple[Any, ...]] | None = None
        self.unresolved = -1
        self.returned = False
        self.likely: bool | None = None
        self.usual: tuple[Value] | None = None
        self.within: Unknown | None = None
        self.holds: tuple[int, ...] = ()
        self.made: list[tuple[Unknown, int]] | None = None
        self.part_of: Unknown | None = None

    @classmethod
    def number(cls, cuts: tuple[int, ...] = ()) -> Unknown:
        """Return a number nobody can know."""
        return cls("number", None, cuts, Kind.NUMBER)

    @classmethod
    def whole(cls, name: str) -> Unknown:
        """Return a whole number nobody can know."""
        return cls(name, None, (), Kind.WHOLE)

    @classmethod
    def text(cls) -> Unknown:
        """Return a text nobody can know."""
        return cls("text", None, (), Kind.TEXT)

    @classmethod
    def plain(cls, name: str, cuts: tuple[int, ...] = ()) -> Unknown:
        """Return something that is no tensor."""
        return cls(name, None, cuts, Kind.PLAIN)

    @classmethod
    def named(cls, name: str) -> Unknown:
        """Return what a program has under a name, of which nothing else is known."""
        return cls(name, None, (), Kind.PLAIN if name in PLAIN_NAMES else Kind.ANY)

    def __repr__(self) -> str:
        return f"<unknown {self.name}>"


def taken_for_data(value: Tensor | Unknown) -> bool:
    """Return whether a value has no graph only because what is iterated is taken for data."""
    if isinstance(value, Unknown):
        return value.assumed and value.concrete is None
    return value.extra is not None and Mark.TAKEN_FOR_DATA in value.extra


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


def copied(slots: dict[Any, Slot]) -> dict[Any, Slot]:
    """Return the slots of a copy: what it holds was stored where the original stored it."""
    return {key: Slot(slot.at, slot.clock) for key, slot in slots.items()}


SequenceKind = Literal["list", "deque", "queue", "keys", "values", "items"]
"""What a `List` stands for."""


@dataclass(eq=False, slots=True)
class List:
    """A list or deque; `more` says that it may hold further elements nobody knows."""

    items: list[Value]
    more: bool = False
    bound: int | None = None
    stored_at: Site | None = None
    kind: SequenceKind = "list"
    born: int = 0
    cut: int | None = 0
    """How many more elements it has because a loop that fills it was cut short; None where nobody knows."""
    window: tuple[int, int] | None = None
    """When it was last cut back, and to how many elements."""
    asked: dict[Any, tuple[int, Value]] | None = None
    """Which elements stand for those at indices that nobody knows, and these indices."""
    alike: int = 0
    """How many elements it was made with where one call made all of them: those that nobody knows are like these."""
    length: Value = None
    """Of parts that one call made: how many there are, the same whenever it is asked for."""


@dataclass(eq=False, slots=True)
class Dict:
    """A dict; `more` says that it may hold further keys. `factory` is a defaultdict's.

    `rewritten` are the keys that were stored more than once.
    """

    items: MutableMapping[Any, Value]
    more: bool = False
    factory: Value = None
    slots: dict[Any, Slot] = field(default_factory=dict)
    born: int = 0
    rewritten: set[Any] = field(default_factory=set)
    kind: Literal["dict", "counter"] = "dict"


class View(List):
    """What `keys()`, `values()` and `items()` of a dict give: it follows the dict. `kind` is the method's name.

    Whatever may add to a view unseen may add to its dict.
    """

    __slots__ = ("of", "part")

    def __init__(self, of: Dict, kind: Literal["keys", "values", "items"], part: Callable[[Dict], list[Value]]) -> None:
        self.of = of
        self.part = part
        self.kind = kind
        self.bound = None
        self.stored_at = None
        self.born = of.born
        self.cut = 0
        self.window = self.asked = self.length = None
        self.alike = 0

    @property
    def items(self) -> list[Value]:  # type: ignore[override]
        return self.part(self.of)

    @property
    def more(self) -> bool:
        return self.of.more

    @more.setter
    def more(self, more: bool) -> None:
        self.of.more = more


Order = Literal["first", "last", "least"]
"""Which of its elements a queue gives first."""


class Queue(List):
    """A queue of the library."""

    __slots__ = ("order",)

    def __init__(self, order: Order) -> None:
        List.__init__(self, [], kind="queue")
        self.order = order


@dataclass(eq=False, slots=True)
class Set:
    """A set; `more` where it may hold elements that are not known."""

    items: list[Value]
    more: bool = False
    stored_at: Site | None = None


@dataclass(frozen=True, slots=True)
class Range:
    """A range of known bounds."""

    start: int
    stop: int
    step: int = 1

    def __len__(self) -> int:
        return len(range(self.start, self.stop, self.step))


@dataclass(eq=False, slots=True)
class Stream:
    """Something to iterate: `length` answers None where nobody knows it; `item(i)` gives element i.

    A sequential stream must be asked for its elements in order and raises IndexError at its end.
    """

    length: Callable[[], int | None]
    item: Callable[[int], Value]
    sequential: bool = False
    next: int = 0
    sources: tuple[Stream | Generator, ...] = ()
    """What its elements are drawn from: left together with it."""


OPEN = ast.Pass()
"""The key in `Env.sent` that says that a generator function goes over something without a known end."""


class Env:
    """A namespace: a module's globals or a function's locals, with the enclosing one."""

    __slots__ = (
        "cell", "globals", "inner", "module", "names_global", "names_outer", "parent", "sent", "slots", "starred",
        "vars", "watched",
    )  # fmt: skip

    def __init__(self, parent: Env | None, module_globals: Env | None) -> None:
        self.vars: dict[str, Value] = {}
        self.parent = parent
        self.globals: Env = module_globals if module_globals is not None else self
        self.names_global: set[str] = set()
        self.names_outer: set[str] = set()
        self.slots: dict[str, Slot] = {}
        self.sent: dict[ast.AST, Value] | None = None
        """What the yields of a generator function gave, by the yield; None where nothing is a generator's."""
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


@dataclass(eq=False, slots=True)
class Function:
    """A user function or lambda."""

    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
    env: Env
    module: Module
    name: str
    defaults: list[Value]
    kw_defaults: list[Value]
    owner: Class | None = None
    attrs: dict[str, Value] = field(default_factory=dict)


Wrapping = Literal[
    "property", "cached_property", "staticmethod", "classmethod", "method", "cache", "no_grad", "enable_grad",
    "inference_mode", "autocast", "perhaps autocast", "no autocast",
]  # fmt: skip
"""What a decorator makes of a function: "method" is one that `functools.partialmethod` makes."""


@dataclass(eq=False, slots=True)
class Wrapped:
    """A function under a decorator that changes what it does to graphs (no_grad, property, ...)."""

    kind: Wrapping
    function: Value
    extra: Value = None
    deleter: Value = None
    bound: int | None = None
    """How many results the function remembers, where it is `lru_cache` that wraps it."""


@dataclass(eq=False, slots=True)
class Bound:
    """A method bound to its object."""

    function: Value
    receiver: Value


@dataclass(eq=False, slots=True)
class Native:
    """A callable that the dry run itself provides.

    `method` says that it stands for a function of Python's: in a class, it is bound to the object it is read from.
    """

    name: str
    call: Callable[[Any, Args, Kwargs, ast.AST], Value]
    method: bool = False


@dataclass(eq=False, slots=True)
class Lib:
    """A name of an imported library, by its dotted path: `torch.nn.functional.relu`."""

    path: str


@dataclass(eq=False, slots=True)
class Module:
    """A user's module: its globals and the file it came from.

    `folders` are those that the submodules of a package lie in. A namespace package has no file of its own: its path
    is the first of its folders.
    """

    name: str
    path: str
    env: Env
    source: Source | None = None
    folders: tuple[str, ...] = ()
    lines: list[str] = field(init=False)
    notes: Notes = field(init=False)

    def __post_init__(self) -> None:
        self.env.module = self
        self.lines = self.source.lines if self.source is not None else []
        self.notes = self.source.notes if self.source is not None else Notes()


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
class Class:
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
    slots: dict[str, Slot] = field(default_factory=dict)
    quiet: int = -1
    plain: bool | None = None
    """Whether its namespace holds functions, numbers and strings only; None where nobody has looked."""

    def mro(self) -> tuple[Class, ...]:
        """Return the user classes in lookup order (C3, as Python has it), this class first."""
        if self.order is None:
            bases = [base for base in self.bases if isinstance(base, Class) and base is not self]
            self.order = (
                self,
                *(_merged([*(base.mro() for base in bases), bases]) if len(bases) != 1 else bases[0].mro()),
            )
        return self.order

    def library_bases(self) -> list[str]:
        """Return the dotted paths of the library classes that this class comes from."""
        if self.library is None:
            self.library = [base.path for cls in self.mro() for base in cls.bases if isinstance(base, Lib)]
        return self.library

    def defines(self, name: str) -> bool:
        """Whether the user's part of the class has a name."""
        return any(name in cls.namespace for cls in self.mro())

    @property
    def opaque(self) -> bool:
        """Whether some base class is unknown, so that any attribute may exist."""
        return any(not isinstance(base, (Class, Lib)) for cls in self.mro() for base in cls.bases)


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


class Record(tuple[Any, ...]):
    """A named tuple: a tuple that knows its class."""

    cls: Class

    def __new__(cls, owner: Class, items: Iterable[Value]) -> Record:
        made = super().__new__(cls, items)
        made.cls = owner
        return made


@dataclass(slots=True)
class Layer:
    """What torch.nn keeps in a module.

    `container` is the class of a container of modules, `more` says that it may hold further ones. `fact` is what
    torch does in its forward for `kinds`, the kinds of the arguments `given` to the constructor; `narrowed` the same
    for single calls. `parametrized` are the weights that are computed anew, and how. `named` says that its parameters
    have their names, `path` is how the program comes to it from the module `top`, which was named last with it in it
    ("model.encoder"), `wrapped` that a framework wraps it, `optimizers` is what Lightning made of its configuration.
    """

    container: str = ""
    more: bool = False
    fact: ModuleFact | None = None
    kinds: tuple[list[str], dict[str, str]] | None = None
    given: Kwargs = field(default_factory=dict)
    narrowed: dict[Any, ModuleFact] = field(default_factory=dict)
    parametrized: dict[str, Value] = field(default_factory=dict)
    named: bool = False
    path: str = ""
    top: Instance | None = None
    wrapped: bool = False
    optimizers: Value = None
    parameters: set[str] = field(default_factory=set)
    """The names under which `_parameters` was given a tensor, which need be no `Parameter` then."""
    buffers: set[str] = field(default_factory=set)
    """The names that were registered as buffers, whatever stands under them."""


class Instance:
    """An object of a user class, or of a library class that keeps state (modules, optimizers, scalers).

    For library objects `lib` is the dotted path of the class and `state` what the model of the library keeps of it.
    `quiet` is the state of `World.kept` at which nothing below it carried a graph, `born` when it was made, -1 where
    nobody asks.
    """

    __slots__ = (
        "args", "attrs", "born", "cls", "hooks", "inner", "layer", "length", "lib", "module", "numbered", "open",
        "quiet", "raised", "slots", "state",
    )  # fmt: skip

    def __init__(self, cls: Class | None, lib: str = "", module: bool = False, born: int = -1) -> None:
        self.cls = cls
        self.born = born
        self.lib = lib
        self.module = module
        self.attrs: dict[str, Value] = {}
        self.slots: dict[str, Slot] = {}
        self.hooks: list[tuple[str, Value]] = []
        self.quiet = -1
        self.layer = Layer() if module else None
        """What torch.nn keeps in a module; None of what is no module."""
        self.state: Any = None
        self.inner: List | Dict | Set | None = None
        """What it holds as the dict, list or set that its class is made from."""
        self.args: list[Value] | None = None
        """The arguments of an exception; None of what is no exception."""
        self.numbered: set[str] | None = None
        """Attributes whose names the program works out: `setattr(log, f"loss_{step}", loss)`."""
        self.open = False
        """Whether it may have attributes that nobody knows."""
        self.length: Unknown | None = None
        """What `len` gave, where nobody knows the length."""
        self.raised: Signal | None = None
        """Of a context manager that is being left: the exception that its block ended in."""

    def __repr__(self) -> str:
        return f"<{self.cls.name if self.cls else self.lib} object>"


@dataclass(eq=False, slots=True)
class Generator:
    """A running generator: `run` yields its values and takes what is sent, `env` holds its locals.

    `open` says that it goes over something whose length nobody knows, `done` that it has come to its end.
    """

    run: PyGenerator[Value, Value, Value]
    env: Env
    open: bool = False
    done: bool = False
    extent: Extent = field(default_factory=lambda: Extent())
    pending: list[Value] = field(default_factory=list)
    """What was taken from it ahead of time, to be given first."""
    guarded: bool = False
    """Whether it waits inside of a `with` or `try`, whose end has to come once it is left."""


@dataclass(eq=False, slots=True)
class Extent:
    """How far a comprehension goes: whether its elements are all there are, and how many of them are enough."""

    whole: bool = True
    enough: int = 2


@dataclass(eq=False, slots=True)
class Super:
    """What `super()` returns: the receiver, seen as of the classes after one."""

    receiver: Value
    after: Class


@dataclass(eq=False, slots=True)
class Context:
    """A context manager of a library: entering and leaving set the grad mode and the like.

    `leave` gets the exception that the block ended in, or None, and answers whether it is swallowed.
    """

    enter: Callable[[Any], Value]
    leave: Callable[[Any, Signal | None], bool | None]
    decorate: Wrapping | None = None
    swallows: bool = False
    """Whether it is there to swallow exceptions: the program looks out for them inside."""


class Signal(Exception):
    """An exception of the interpreted program; `kind` is the name of its class, `value` its object."""

    def __init__(self, kind: str, value: Value = None, message: str = "", node: ast.AST | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.value = value
        self.message = message
        self.node = node


INERT: frozenset[type] = frozenset([int, float, str, bytes, bool, type(None)])
"""Types of Python values that can hold no tensor."""
HOLDERS = (Tensor, Unknown, List, Dict, tuple, Instance, Generator)
"""Types of values that a tensor can be in, or be."""


def concrete(value: Value) -> Value:
    """Return the value settled on for an unknown, or the value itself."""
    if isinstance(value, Unknown) and value.concrete is not None:
        return value.concrete
    return value


def unwrapped(value: Value) -> Value:
    """Return what an object of a class made from dict, list or set holds as such; any other value itself."""
    if isinstance(value, Instance) and value.inner is not None:
        return value.inner
    return value
