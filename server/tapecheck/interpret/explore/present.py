"""What there is where a condition is come to: told from the values that names have, before either side is run."""

from __future__ import annotations

import ast
import builtins
import enum
import itertools
from collections.abc import Callable, Iterable, Iterator, Set
from itertools import islice

from tapecheck.interpret import limits
from tapecheck.interpret.explore.numbers import dotted
from tapecheck.interpret.explore.shapes import Side
from tapecheck.interpret.library import visible
from tapecheck.interpret.library.registry import has_model
from tapecheck.interpret.library.states import OptimizerState, state_of
from tapecheck.interpret.objects import carry, syntax, unknowns
from tapecheck.interpret.state import World
from tapecheck.interpret.values import (
    NO_DEFAULT,
    BaseValue,
    Class,
    Dict,
    Env,
    Function,
    Instance,
    Lib,
    List,
    Module,
    Native,
    Shown,
    Tensor,
    Unknown,
    Value,
    attrs_of,
    behaviour,
    is_constant,
    is_function,
    is_module,
    only,
    path_of,
)
from tapecheck.source.nodes import id_of, of_kind

ABSENT = BaseValue()
"""The value of a name that has none."""
_BUILTINS = frozenset(dir(builtins))
Handing = tuple[str, Set[str]]
"""A call: the name that it calls or asks, empty where it may be any of what it gives, and the names that it gives."""
_WITHOUT = (Lib, Module, Class, Function)
"""Kinds of values that hold no graph."""


class Graph(enum.IntEnum):
    """What is known of the graph of a value when a condition is reached."""

    NONE = 0
    FRESH = 1
    STALE = 2
    """It reaches back before the iteration, or a backward has been through it."""


class GraphsOfContainers:
    """What is known of the graphs in containers, by id, since the last statement or call was begun.

    Many names are asked for several times at one condition, and what they hold may be long.
    """

    __slots__ = ("_at", "_graphs")

    def __init__(self) -> None:
        self._graphs: dict[int, Graph] = {}
        self._at = (0, 0)

    def at(self, work: int, first: int) -> dict[int, Graph]:
        """Return what is known where so much work is left, of an iteration that began after that node."""
        if self._at != (work, first):
            self._at = (work, first)
            self._graphs = {}
        return self._graphs


class Present:
    """What there is where a condition is come to: the values that names have, and the graphs that these hold.

    Args:
        world: the way through the program.
        env: the namespace that names are looked up in.
        first: the newest node before the iteration, 0 outside of loops: what reaches back to it is older.
        containers: what is known of containers already.
    """

    __slots__ = ("_containers", "env", "first", "world")

    def __init__(self, world: World, env: Env, first: int, containers: GraphsOfContainers) -> None:
        self.world = world
        self.env = env
        self.first = first
        self._containers = containers

    def value(self, name: str) -> Value:
        """Return the value of a name, or of an attribute of one ("self.h"), without asking anything of the program."""
        return _lookup(self.env, name)

    def graph_of(self, name: str) -> Graph:
        """Return what is known of the graphs that the value of a name holds."""
        return self.graph(_lookup(self.env, name))

    def graph(self, value: Value) -> Graph:
        """Return what is known of the graphs that a value holds."""
        kind = type(value)
        if value is ABSENT or kind in _WITHOUT or is_constant(value):
            return Graph.NONE
        if isinstance(value, Tensor) or type(value) is Unknown:
            return self._graph_of(value)
        if behaviour(value).has_members:
            known = self._containers.at(self.world.budget.work, self.first)
            found = known.get(id(value))
            if found is None:
                held = carry.tensors_in(newest(value), 2)
                found = max(map(self._graph_of, held), default=Graph.NONE)
                known[id(value)] = found
            return found
        return Graph.NONE

    def builds(self, side: Side) -> bool:
        """Whether what a side computes may have a graph: of a leaf or a graph, by a model or by code of the user's."""
        values = [_lookup(self.env, name) for name in side.read]
        if any(self.graph(value) or _holds(is_leaf, value) for value in values) or "requires_grad_" in side.attributes:
            return True
        return side.facts.called and any(_holds(_may_build, value) for value in values)

    def holds_both(self, value: Value) -> bool:
        """Whether a list holds tensors with a graph and such without one: which is where matters."""
        held = only(value.items, Tensor) if isinstance(value, List) else []
        return len({bool(self._graph_of(one)) for one in held}) > 1

    def _graph_of(self, value: Tensor | Unknown) -> Graph:
        if value.node is None or carry.is_leaf(value):
            return Graph.NONE
        if value.oldest is not None and value.oldest <= self.first:
            return Graph.STALE
        return Graph.STALE if self.world.writer.ledger.is_spent(value.node) else Graph.FRESH

    def inert(self, side: Side, *, bound: bool = False) -> bool:
        """Whether nothing that a side works with can hold or build a graph: numbers, data, what nobody knows.

        `bound` wants every name to have a value.
        """
        if side.own:
            return False
        for name in side.read:
            value = _lookup(self.env, name)
            if value is ABSENT:
                if "." in name and isinstance(_lookup(self.env, name.partition(".")[0]), Instance):
                    # A method of the user's, or an attribute that only its class has.
                    return False
                if bound and name not in _BUILTINS:
                    return False
                continue
            if self.graph(value) or behaviour(value).switches:
                return False
            if isinstance(value, Function) and _builds_nothing(value, set()):
                continue
            if is_function(value) or isinstance(value, Class) or _has_leaves(value):
                return False
        return True

    def switches(self, side: Side) -> bool:
        """Whether a side works with a context that may change what torch records or averages."""
        return any(behaviour(_lookup(self.env, name)).switches for name in side.read)

    def calls_layer(self, side: Side) -> bool:
        """Whether a side reads a model that is there by name: what it does with it as likely as not builds a graph."""
        return side.facts.called and any(is_module(_lookup(self.env, name)) for name in side.read)

    def asks_opaque(self, side: Side) -> bool:
        """Whether a side calls code that is not visible, with something that it may differentiate."""
        if not side.facts.called:
            return False
        values = [_lookup(self.env, name) for name in side.read]
        return any(map(visible.is_opaque, values)) and any(self.graph(one) or _has_leaves(one) for one in values)

    def hands_over(self, calls: Iterable[Handing]) -> bool:
        """Whether one of some calls gives code that is not visible what leads to gradients."""
        for called, given in calls:
            callee = (called, called.partition(".")[0]) if called else given
            hidden = any(_is_hidden(_lookup(self.env, name)) for name in callee)
            if hidden and any(_holds(_has_gradients, _lookup(self.env, name)) for name in given):
                return True
        return False

    def steps(self, side: Side) -> bool:
        """Whether a side may step or clear by what is stored: a bound method of an optimizer, optimizers in a list."""
        named = not side.facts.attributes.isdisjoint(_STEPPING)
        return side.facts.called and any(
            _steps(_lookup(self.env, name), named, limits.STORED_STEP_DEPTH) for name in side.read
        )

    def gives_unknown(self, function: ast.expr) -> bool:
        """Whether nothing is known of what a call of a function returns: no model of a library and no source has it."""
        names: list[str] = []
        while isinstance(function, (ast.Attribute, ast.Call)):
            if isinstance(function, ast.Attribute):
                names.insert(0, function.attr)
                function = function.value
            else:
                names.clear()
                function = function.func
        base = id_of(function)
        value = _lookup(self.env, base) if base else ABSENT
        if type(value) is Lib:
            return not has_model(".".join([value.path, *names]))
        return type(value) is Unknown and knows_nothing(value)

    def library(self, name: str) -> str:
        """Return the modelled library that has made the value of a name; empty where another has, or nobody knows."""
        value = _lookup(self.env, name)
        path = unknowns.root(value).name if type(value) is Unknown else path_of(value)
        return path.partition(".")[0] if "." in path and visible.acts_as_known(path) else ""

    def objects(self) -> list[Instance]:
        """Return the objects that the names of a function refer to, and those that its own object does."""
        own = attrs_of(self.env.vars.get("self"))
        return only((*self.env.vars.values(), *own.values()), Instance)

    def asks_data_for_none(self, test: ast.expr) -> bool:
        """Whether a test asks whether something out of data is None."""
        match test:
            case ast.Compare(left=ast.Name(id=name), ops=[ast.Is() | ast.IsNot()]):
                value = _lookup(self.env, name)
                return _known_as_data(value) is True
        return False

    def is_data(self, name: str) -> bool:
        """Whether a name has no value, or one without a graph: a constant, a container, or what nobody knows."""
        value = _lookup(self.env, name)
        match value:
            case List() | Dict() | Unknown():
                return self.graph(value) is Graph.NONE
        return value is ABSENT or is_constant(value)

    def equates_a_graph(self, test: ast.expr) -> bool:
        """Whether a test asks whether a tensor that has a graph is equal to a constant."""
        compared = syntax.equated(test)
        return compared is not None and carry.has_graph(_lookup(self.env, syntax.text_of(compared)))


def is_leaf(value: Value) -> bool:
    """Whether a value is a tensor that requires grad and that no operation has computed."""
    return carry.has_graph(value) and value.is_leaf


def handings(nodes: Iterable[ast.AST]) -> Iterator[Handing]:
    """Yield the calls in a piece of code."""
    for node in nodes:
        for call in of_kind(node, ast.Call):
            given = itertools.chain(call.args, (keyword.value for keyword in call.keywords))
            yield _owner_of(call.func), frozenset(name for one in given for name in _dotted_in(one))


def _owner_of(function: ast.expr) -> str:
    """Return the name, or the attribute of one, that a function is or is asked of; empty where there is none."""
    part: ast.AST | None = function
    while part is not None and not dotted(part):
        part = getattr(part, "value", None) or getattr(part, "func", None)
    return dotted(part) if part is not None else ""


def _dotted_in(node: ast.AST) -> Iterator[str]:
    """Yield the names in an expression, and the attributes of names in the place of these."""
    stack = [node]
    for one in stack:
        if name := dotted(one):
            yield name
        else:
            stack.extend(ast.iter_child_nodes(one))


def newest(value: Value) -> Value:
    """Return a container, or the newest of what it holds where that is much: a registry of hundreds of settings."""
    if not isinstance(value, (List, Dict)) or len(value.items) <= limits.LOOKED_AT:
        return value
    return tuple([*behaviour(value).children()][-limits.LOOKED_AT :])


def _lookup(env: Env, name: str) -> Value:
    """See `Present.value`."""
    base, _, attr = name.partition(".")
    scope = env.scope_of(base) or env.globals
    if base not in scope.vars:
        return ABSENT
    value = scope.vars[base]
    return attrs_of(value).get(attr, ABSENT) if attr else value


def _has_leaves(value: Value) -> bool:
    """Whether a value is a model, or a tensor that requires grad."""
    return is_module(value) or is_leaf(value)


def _has_gradients(value: Value) -> bool:
    """Whether a value is a model, a tensor that requires grad or an optimizer."""
    return _has_leaves(value) or state_of(value, OptimizerState) is not None


def _known_as_data(value: Value) -> bool | None:
    """Whether an unknown value is data; None of any other value."""
    return value.trust.data if isinstance(value, Unknown) else None


def _is_hidden(value: Value) -> bool:
    """Whether a value is of code that is not visible, or one that nobody knows and that is no data."""
    return visible.is_opaque(value) or _known_as_data(value) is False


def _may_build(value: Value) -> bool:
    """Whether a call of a value, or of a method of it, may build a graph from nothing that has one."""
    if is_module(value) or is_function(value) or isinstance(value, Class):
        return True
    if isinstance(value, Instance):
        return value.cls is not None
    # A class of torch.nn makes parameters; a function of it has the graph of what it is given.
    path = path_of(value)
    return path.startswith("torch.nn") and not path.startswith("torch.nn.functional")


def _holds(says: Callable[[Value], bool], value: Value) -> bool:
    """Whether something holds of a value, or of the first of what it holds, the nearest of that."""
    level, seen = [value], set[int]()
    while level and len(seen) < limits.LOOKED_AT:
        if any(map(says, level)):
            return True
        seen.update(map(id, level))
        owners = (behaviour(newest(one)) for one in level)
        held = (one for owner in owners if owner.has_members for one in owner.children())
        level = [one for one in islice(held, limits.LOOKED_AT) if id(one) not in seen]
    return False


_STEPPING = frozenset(("step", "zero_grad"))


def _steps(value: Value, named: bool, depth: int) -> bool:
    """Whether a value is or holds a step of an optimizer; an optimizer is one where a method of it is `named`."""
    if isinstance(value, Native):
        return value.name in _STEPPING and _steps(value.receiver, True, 0)
    if state_of(value, OptimizerState) is not None:
        return named
    owner = behaviour(value)
    return depth > 0 and owner.has_members and any(_steps(one, named, depth - 1) for one in owner.children())


def _builds_nothing(function: Function, seen: set[int]) -> bool:
    """Whether a function can build a graph from nothing but what it is given: it knows of no layer and no tensor."""
    if id(function.node) in seen:
        return True
    seen.add(id(function.node))
    if len(seen) > limits.MOST_CALLEES:
        return False
    for name in function.module.notes.of(function.node, syntax.free_names):
        value = _lookup(function.env, name)
        if isinstance(value, Function):
            if not _builds_nothing(value, seen):
                return False
        elif not (value is ABSENT or behaviour(value).is_fixed or type(value) is Unknown):
            return False
    return True


def knows_nothing(value: Value) -> bool:
    """Whether a value is unknown, and neither its truth nor its length nor its number is."""
    return (
        type(value) is Unknown
        and value.concrete is None and value.shown == Shown() and value.asked.length is None
        and value.default == NO_DEFAULT
    )  # fmt: skip


def is_same(left: Value, right: Value) -> bool:
    """Whether two values are the same constant."""
    return type(left) is type(right) and is_constant(left) and bool(left == right)
