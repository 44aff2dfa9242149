"""What the parts of the dry run ask of one another.

`python` and `library` are written against `Engine`; neither imports the other. What Python does reaches the models of
libraries through `Engine.library` alone. `machine` puts the parts together; nothing here is found at run time.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from tapecheck.interpret.state import World
from tapecheck.interpret.values import (
    Args,
    Class,
    Context,
    Dict,
    Env,
    Extent,
    Function,
    Generator,
    Instance,
    Kwargs,
    Lib,
    List,
    Module,
    Read,
    Run,
    Signal,
    Storage,
    Stream,
    Super,
    Tensor,
    Unknown,
    Value,
    Wrapped,
)
from tapecheck.tape import Fact


class Engine(Protocol):
    """One program being run in one world."""

    world: World
    envs: list[Env]
    """The namespaces of the calls being run, outermost first."""
    modules: dict[str, Module]
    """The user's modules that this run has imported, by path."""
    summaries: dict[int, Any]
    """What calls of functions did, by the id of the function's node: see `python/summaries.py`."""
    reads: list[Read] | None
    """The names that a call which is being summed up has taken from other namespaces; None where none is."""
    scopes: list[dict[str, Value]]
    """The namespaces of the functions that ran in that call: what it takes from these is its own."""
    handlers: list[frozenset[str]]
    """The names of the classes that each block which is being run catches, the outermost first."""
    unread: set[ast.AST]
    """The `p.grad` of the program's text that are only tested for being there, or cleared."""
    handling: list[Signal]
    """The exceptions whose handlers are being run."""
    exits: list[Callable[[], object]]
    """What the program has left to be called when it ends."""
    gathering: list[tuple[ast.AST, List | Dict]]
    """What comprehensions and calls that take in an iterable have worked out so far."""

    @property
    def library(self) -> Library: ...

    # -- statements -----------------------------------------------------------------------------------------

    def block(self, body: list[ast.stmt], env: Env) -> Run: ...
    def suspend(self, node: ast.Yield | ast.YieldFrom, env: Env) -> Run: ...
    def run_module(self, module: Module, tree: ast.Module, name: str) -> None: ...
    def import_module(self, name: str, node: ast.AST, level: int) -> Value: ...
    def submodule(self, package: Module, name: str) -> Value | None: ...
    def forget_module(self, path: str) -> None: ...
    def module_of(self, env: Env) -> Module: ...
    def wrong(self, kind: str, node: ast.AST, *, own: bool = False) -> None: ...
    def doubt(self, kind: str, node: ast.AST) -> None: ...
    def expects(self, kind: str, value: Value = None) -> bool: ...
    def enter(self, manager: Value, node: ast.AST) -> Value: ...
    def leave(self, manager: Value, node: ast.AST, raised: Signal | None = None) -> bool: ...
    def caught(self, raised: Signal, iteration: tuple[tuple[int, int], ...]) -> None: ...

    # -- values ---------------------------------------------------------------------------------------------

    def eval(self, node: ast.expr, env: Env) -> Value: ...
    def binary(self, op: ast.operator, left: Value, right: Value, node: ast.AST) -> Value: ...
    def compare(self, op: ast.cmpop, left: Value, right: Value, node: ast.AST) -> Value: ...
    def unknown(self, name: str) -> Value: ...
    def guessed(self, length: Unknown, node: ast.AST, usual: int = ..., *, asked: bool = False) -> int: ...
    def stored_before(self, owner: Dict, index: Value, node: ast.AST) -> bool: ...
    def stored_under(self, owner: Dict, index: Value, value: Value, node: ast.AST) -> Hashable: ...
    def new_list(self, items: list[Value], node: ast.AST, more: int = 0) -> List: ...
    def stream(self, value: Value, node: ast.AST) -> Stream: ...
    def operates(self, values: Iterable[Value], node: ast.AST) -> None: ...
    def elements(self, value: Value, node: ast.AST, *, perhaps_none: bool = False) -> Iterator[Value]: ...
    def gathered(self, value: Value, node: ast.AST, *, perhaps_none: bool = False) -> tuple[list[Value], int]: ...
    def takes_nothing(self, node: ast.AST) -> bool: ...
    def trained(self, rounds: Iterator[Value], node: ast.AST, kept: List | Dict, extent: Extent) -> Iterator[Value]: ...

    # -- conditions -----------------------------------------------------------------------------------------

    def test(self, expression: ast.expr, env: Env, node: ast.AST, default: bool | None = None) -> bool: ...
    def known_truth(self, value: Value) -> bool | None: ...
    def settle(self, value: Value, answer: bool) -> None: ...
    def unknown_test(self, op: ast.cmpop, left: Value, right: Value) -> Value: ...

    # -- calls ----------------------------------------------------------------------------------------------

    def call(self, function: Value, args: Args, kwargs: Kwargs, node: ast.AST) -> Value: ...
    def call_function(
        self, function: Function, args: Args, kwargs: Kwargs, node: ast.AST, *, forward: bool = False
    ) -> Value: ...
    def instantiate(self, cls: Class, args: Args, kwargs: Kwargs, node: ast.AST) -> Value: ...
    def make_function(
        self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, env: Env, name: str
    ) -> Function: ...
    def new_object(self, cls: Class) -> Instance: ...
    def resume(self, generator: Generator, sent: Value = None, thrown: Signal | None = None) -> Value: ...
    def close(self, generator: Generator) -> None: ...

    # -- attributes and items -------------------------------------------------------------------------------

    def get_attribute(self, owner: Value, name: str, node: ast.AST) -> Value: ...
    def instance_attribute(self, owner: Instance, name: str, node: ast.AST) -> Value: ...
    def super_attribute(self, owner: Super, name: str, node: ast.AST) -> Value: ...
    def property_part(self, owner: Wrapped, name: str) -> Value: ...
    def method_of(self, owner: Value, name: str, node: ast.AST) -> Value: ...
    def has_method(self, owner: Value, name: str) -> bool: ...
    def class_attribute(self, cls: Class, name: str, receiver: Value, node: ast.AST) -> Value: ...
    def find_method(self, owner: Value, name: str) -> Value: ...
    def special(self, owner: Instance, name: str) -> Value: ...
    def exception_info(self, raised: Signal | None) -> Args: ...
    def complete(self, owner: Instance) -> bool: ...
    def get_item(self, owner: Value, index: Value, node: ast.AST) -> Value: ...

    # -- stores ---------------------------------------------------------------------------------------------

    def assign(self, target: ast.expr, value: Value, env: Env, statement: ast.AST) -> None: ...
    def store_name(
        self, name: str, value: Value, env: Env, statement: ast.AST, target: ast.AST | None = None
    ) -> None: ...
    def home_of(self, name: str, env: Env) -> Env: ...
    def set_attribute(self, owner: Value, name: str, value: Value, node: ast.AST) -> None: ...
    def set_instance_attribute(self, owner: Instance, name: str, value: Value, node: ast.AST) -> None: ...
    def touched(self, env: Env) -> None: ...
    def store_attribute(self, owner: Instance, name: str, value: Value, node: ast.AST) -> None: ...
    def delete_attribute(self, owner: Instance, name: str, node: ast.AST) -> None: ...
    def set_item(self, owner: Value, index: Value, value: Value, node: ast.AST) -> None: ...
    def name_tensor(self, target: ast.expr, value: Value) -> None: ...
    def escape(self, value: Value, node: ast.AST, to: str, *, more: bool = False, numbers: bool = False) -> None: ...


class Rewritten(Protocol):
    """What stands for the nodes and memory of a call that was written again."""

    def node(self, number: int | None) -> int | None:
        """Return the node or leaf that stands for one of the call."""

    def storage(self, number: int) -> Storage:
        """Return the memory that stands for one of the call."""


class Library(Protocol):
    """The models of libraries: torch, the standard library and frameworks, and what nobody can look into."""

    # -- names ----------------------------------------------------------------------------------------------

    @property
    def builtins(self) -> Mapping[str, Value]:
        """What the names of Python's own functions and types stand for."""

    def call(self, path: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        """Call a function or class by its dotted path."""

    def given_away(self, values: Iterable[Value], node: ast.AST, to: str, *, told: bool = False) -> None:
        """Note that code nobody can look into got values, and the leaves in them."""

    def calls_kept(self, owner: Instance, name: str, node: ast.AST) -> None:
        """Note that what an object was given to keep is called: a function that knows nothing of the object."""

    def lost_gradient(self, kind: str, node: ast.AST) -> None:
        """End the way where Python raises an exception of a kind since an operand is the `.grad` of a tensor that has
        none.
        """

    def bound_to_none(self, env: Env, name: str, statement: ast.AST) -> None:
        """Note that a statement has bound a variable to None, which may be that of an absent gradient."""

    def stored(self, owner: Value, value: Value, node: ast.AST) -> None:
        """Note that an attribute or item of an object is set, as far as a model has to know: what is stored on a name
        that is not visible, its code may use at any time.
        """

    def left_uncalled(self, owner: Value, node: ast.Attribute) -> None:
        """Note that a statement names a method of an object and does not call it."""

    def constant(self, value: Value) -> Value:
        """Return what a name of a library stands for: its value where it is a constant."""

    def known_name(self, library: str, name: str) -> Value:
        """Return what a library has under a name; None where it is not known to have any."""

    def decorate(self, path: str, function: Value, node: ast.AST) -> Value:
        """Return what a decorator makes of a function; None where it is not known."""

    def hides(self, path: str) -> bool:
        """Return whether what a name of a module is cannot be seen: a function, a class, or a setting."""

    def runs_unseen(self, value: Value, node: ast.AST) -> None:
        """Note that an operation may run code of a value that is not visible, which is taken to leave recording on."""

    def gives_data(self, value: Unknown | Lib, node: ast.AST) -> None:
        """Note that the parts of a value which hidden code gives are taken for data, with no graph that they share."""

    def imported(self, path: str, node: ast.AST) -> None:
        """Note that a module was imported that is not the user's: what is in it runs the first time."""

    def trusted_decorator(self, decorator: Value, function: Value, node: ast.AST) -> None:
        """Note that a decorator which is not visible is taken to call the function that it is given."""

    def trusted_keys(self, owner: Dict, options: Value, node: ast.AST) -> None:
        """Note that what is stored under names which nobody knows is taken to leave what a dict holds under others."""

    def trusted_name(self, named: Value, value: Value, node: ast.AST) -> None:
        """Note that what is stored in an attribute by a name that nobody knows is taken for none that is read."""

    def trusted_exceptions(self, kinds: Iterable[Value], node: ast.AST) -> None:
        """Note that exceptions whose classes are not visible are taken to be raised nowhere."""

    def place(self, index: Value, items: Sequence[Value], node: ast.AST, *stored: Value) -> int | None:
        """Return which place of a list an index that nobody knows is on this path; None where the index is known, or
        where what the list holds is alike, and what is `stored` there.
        """

    def overwritten(self, owner: Dict, index: Value, value: Value, node: ast.AST) -> Hashable:
        """Return the key of the entry that a value is stored over on this path; None where it is none of them."""

    def drawn(self, items: list[Value], node: ast.AST) -> list[Value]:
        """Return some values in an order that nobody knows, where it matters: any of them may be at any place."""

    def chosen(
        self, index: Value, entries: Sequence[tuple[Hashable, Value]], node: ast.AST, *, by_name: bool = False
    ) -> Value:
        """Return which of several values, by their keys, an index that nobody knows chooses on this path: the first,
        unless the condition says another. Note where others may be chosen which matter and are not tried.
        """

    def taken_as_first(self, index: Value, first: Value, node: ast.AST, others: Sequence[Value] = ()) -> None:
        """Note that what an index chooses that nobody knows is taken for one of several values that are alike; and for
        none of the `others` that another such index has chosen before.
        """

    def unseen_type(self, value: Value) -> str:
        """Return a name for the type of what is not visible, of a class with a hidden base its metaclass; an empty one
        of anything else.
        """

    def unseen_maker(self, maker: Value) -> str:
        """Return the name of a metaclass, or of a decorator of classes, that is not visible; an empty one of others."""

    def read_method(self, function: Function, owner: Value, node: ast.AST) -> None:
        """Note that an object reads or sets a method of its class: what a hidden decorator has made of it may run."""

    def hidden_descriptor(self, held: Lib | Unknown, owner: Value, node: ast.AST) -> None:
        """Note that a method or a descriptor which is not visible has the object that reads or sets it."""

    def perhaps_registered(self, made: Value, by: str, module: Module, node: ast.AST) -> None:
        """Note that code which is not visible has a function or a class that nothing else in the file names."""

    def trusted_context(self, manager: Unknown | Lib, node: ast.AST) -> None:
        """Note that a context manager which is not visible is taken to leave recording on."""

    def trusted_store(self, keeper: Value, value: Value, node: ast.AST) -> None:
        """Note that code which is not visible is taken to keep what is stored in its object as it is."""

    def of_base(self, owner: Instance, name: str) -> Value:
        """Return a part of what a module has from a library's model that its class derives from; None without one."""

    def trusted_bases(self, cls: Class, bases: list[str], owner: Instance, node: ast.AST) -> None:
        """Note that a base class which is not visible is taken to add nothing to a class."""

    def is_instance(self, value: Value, kind: Value) -> bool | None:
        """`isinstance`; None where nobody knows."""

    def call_wrapped(self, wrapped: Wrapped, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        """Call a function under a decorator that changes what it does to graphs."""

    def decorated(self, manager: Instance, function: Value) -> Value:
        """Return a function under a context manager used as decorator."""

    def expecting(self) -> Context:
        """`pytest.raises` and its like: the exception is wanted, whatever it is."""

    # -- tensors --------------------------------------------------------------------------------------------

    def requires(self, value: Value) -> Fact:
        """Whether a value carries a graph or is a leaf that requires grad."""

    def tensor_attribute(self, owner: Tensor, name: str, node: ast.AST) -> Value: ...
    def set_tensor_attribute(self, owner: Tensor, name: str, value: Value, node: ast.AST) -> None: ...
    def tensor_stream(self, value: Tensor, node: ast.AST) -> Stream: ...
    def get_item(self, owner: Tensor, index: Value, node: ast.AST) -> Value: ...
    def set_item(self, owner: Tensor, index: Value, value: Value, node: ast.AST) -> None: ...
    def operator(self, op: str, left: Value, right: Value, node: ast.AST) -> Value: ...
    def augmented(self, op: str, current: Tensor, value: Value, node: ast.AST) -> Value: ...
    def comparison(self, op: str, left: Value, right: Value, node: ast.AST) -> Value: ...

    def left_behind(self) -> tuple[int, ...]:
        """Return how much there is that a call may leave with the models of libraries besides nodes."""

    def written_again(self, first: int, last: int, shift: int, stands: Rewritten) -> None:
        """Note that the nodes from `first` to `last` are those that were built `shift` before them."""

    # -- objects --------------------------------------------------------------------------------------------

    def is_module_class(self, cls: Class) -> bool:
        """Whether the objects of a user's class are modules."""

    def class_method(self, cls: Class, name: str) -> Value:
        """Return a method that a user's class has from a framework's; None where it has none of that name."""

    def prepare_object(self, owner: Instance, bases: list[str]) -> None:
        """Give a new object of a user's class what those of its library bases have."""

    def construct_base(self, owner: Instance, bases: list[str], args: Args, kwargs: Kwargs, node: ast.AST) -> None:
        """Run the constructor of the library base of a user's class."""

    def stepped(self, owner: Instance, begun: int, node: ast.AST) -> None:
        """Note that the `step` of an object's class has run; `begun` is the number of events before it."""

    def instantiate_special(self, cls: Class, bases: list[str], args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        """Return an object of a class whose objects are something else, as of enums; None for the usual ones."""

    def apply_function(self, cls: Class, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        """`apply` of a class made from `torch.autograd.Function`."""

    def name_parameters(self, owner: Instance, name: str, within: Instance | None = None) -> None:
        """Name the parameters of a module by what it is stored under first."""

    def object_attribute(self, owner: Instance, name: str, node: ast.AST) -> Value:
        """Return what the library part of an object has under a name; None where it has nothing."""

    def object_has(self, owner: Instance, name: str, node: ast.AST) -> bool | None:
        """Whether an object has an attribute; None where nobody knows."""

    def lacks_name(self, path: str, name: str) -> bool:
        """Return whether a module of torch has nothing of a name, in the version that was measured."""

    def is_method(self, path: str) -> bool:
        """Return whether a dotted path is that of a method of a class of torch."""

    def lacks(self, owner: Tensor | Instance, name: str) -> bool:
        """Return whether a value of torch's has no attribute of a name, unless the program gives it one."""

    def object_item(self, owner: Instance, index: Value, node: ast.AST) -> Value: ...
    def object_stream(self, owner: Instance, node: ast.AST) -> Stream | None: ...
    def object_length(self, owner: Value, node: ast.AST) -> Value:
        """Return the length of what has none that Python's side knows."""

    def length_of(self, owner: Instance, node: ast.AST) -> Unknown: ...
    def only_shown(self, node: ast.AST) -> bool:
        """Whether an expression is part of a statement that only prints or logs: nothing depends on its value."""

    def call_object(self, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value: ...
    def copy_of(self, value: Value, node: ast.AST, *, shallow: bool = False) -> Value: ...
    def bare_object(self, cls: Value) -> Instance:
        """Return an object of a class that no constructor has run for; TypeError where nobody knows what it has."""

    def takes_after(self, owner: Instance, source: Instance) -> None:
        """Give a module what torch keeps of another whose `__dict__` it is given."""

    # -- what nobody can look into --------------------------------------------------------------------------

    def unknown_operator(self, op: str, left: Value, right: Value, node: ast.AST) -> Value: ...
    def unknown_attribute(self, owner: Unknown, name: str, node: ast.AST) -> Value: ...
    def given_apart(self, whole: Unknown, part: Unknown, node: ast.AST) -> None: ...
    def call_unknown(self, function: Unknown, args: Args, kwargs: Kwargs, node: ast.AST) -> Value: ...
    def opaque_result(self, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value: ...


__all__ = ["Engine", "Library", "Rewritten"]
