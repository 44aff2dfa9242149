"""Python's own functions, containers and standard library, as far as training code uses them."""

from __future__ import annotations

import ast
import builtins as python
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tapecheck.interpret.values import (
    Args,
    Bound,
    Class,
    Dict,
    Env,
    Function,
    Generator,
    Instance,
    Kwargs,
    Lib,
    List,
    Native,
    Range,
    Set,
    Signal,
    Stream,
    Tensor,
    Unknown,
    Value,
    Wrapped,
)
from tapecheck.interpret.world import cuts_of
from tapecheck.tape import Site

if TYPE_CHECKING:
    from tapecheck.interpret.machine import Machine

_CONSTANTS = (int, float, complex, str, bytes, bool, type(None), type(...))
_MAX_TEXT = 10_000
_MAX_BITS = 4_096
LOOP_BOUND = 3
"""The number of elements settled on for an iterable whose length nobody knows."""

EXCEPTIONS = frozenset(
    name for name, value in vars(python).items() if isinstance(value, type) and issubclass(value, BaseException)
)


def concrete(value: Value) -> Value:
    """The value settled on for an unknown, or the value itself."""
    if isinstance(value, Unknown) and value.concrete is not None:
        return value.concrete
    return value


# -- unknown values ---------------------------------------------------------------------------------------------


def attribute_of_unknown(owner: Unknown, name: str) -> Value:
    """An attribute of an unknown value: asked twice it is the same unknown. It shares the owner's graph."""
    if owner.attrs is None:
        owner.attrs = {}
    if name not in owner.attrs:
        child = Unknown(f"{owner.name}.{name}" if owner.name else name, owner.node, owner.cuts)
        child.oldest = owner.oldest
        child.data = owner.data
        child.certain = owner.certain
        child.owner, child.attr = owner, name
        owner.attrs[name] = child
    return owner.attrs[name]


def item_of_unknown(owner: Unknown, index: Value) -> Value:
    """An item of an unknown value; the same for the same constant index."""
    key = hashable(index)
    if owner.items is None:
        owner.items = {}
    if key not in owner.items:
        child = Unknown(f"{owner.name}[...]", owner.node, owner.cuts)
        child.oldest = owner.oldest
        child.data = owner.data
        child.certain = owner.certain
        if not isinstance(index, _CONSTANTS):
            return child
        owner.items[key] = child
    return owner.items[key]


def settled(value: Unknown, answer: bool) -> None:
    """An equality test came out true: the unknown has that value from now on."""
    if answer and value.attrs and "__equal__" in value.attrs:
        owner, constant = value.attrs["__equal__"]
        if isinstance(owner, Unknown) and constant is not None and owner.concrete is None:
            owner.concrete = constant


def bound_length(value: Unknown) -> int:
    """Settle on a length for an unknown iterable or number."""
    if isinstance(value.concrete, int):
        return value.concrete
    if value.concrete is None:
        value.concrete = LOOP_BOUND
    return LOOP_BOUND


# -- conditions and exceptions ----------------------------------------------------------------------------------


def default_branch(node: ast.AST) -> bool:
    """The likelier answer of an undecided `if`: not the one that only leaves."""
    if isinstance(node, ast.If):
        last = node.body[-1]
        if isinstance(last, (ast.Raise, ast.Continue, ast.Break)):
            return False
        if isinstance(last, ast.Return) and not node.orelse and len(node.body) == 1:
            return False
        if isinstance(last, ast.Expr) and isinstance(last.value, ast.Call):
            name = ast.unparse(last.value.func)
            if name in ("sys.exit", "exit", "quit", "os._exit"):
                return False
    return True


def exception_name(value: Value, node: ast.AST) -> str:
    if isinstance(value, Lib):
        return value.path.rsplit(".", 1)[-1]
    if isinstance(value, Class):
        return value.name
    if isinstance(value, Instance):
        return value.cls.name if value.cls is not None else value.lib.rsplit(".", 1)[-1]
    target = node.func if isinstance(node, ast.Call) else node
    return ast.unparse(target).rsplit(".", 1)[-1]


def exception_matches(raised: Any, wanted: Value, node: ast.AST) -> bool:
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
        return any(exception_matches(raised, item, node) for item in wanted)
    return exception_name(wanted, node) in names


def identical(left: Value, right: Value) -> bool | None:
    left, right = concrete(left), concrete(right)
    if isinstance(left, Unknown) or isinstance(right, Unknown):
        return True if left is right else None
    if isinstance(left, _CONSTANTS) and isinstance(right, _CONSTANTS):
        return left is right or (type(left) is type(right) and left == right)
    if isinstance(left, Lib) and isinstance(right, Lib):
        return left.path == right.path
    return left is right


def equal(left: Value, right: Value) -> bool | None:
    """Equality of values that are no plain constants; None where nobody knows."""
    if left is right and isinstance(left, (List, tuple)):
        return True
    if isinstance(left, Unknown) or isinstance(right, Unknown):
        return True if left is right else None
    if isinstance(left, tuple) and isinstance(right, tuple):
        if len(left) != len(right):
            return False
        results = [
            left_item == right_item
            if isinstance(left_item, _CONSTANTS) and isinstance(right_item, _CONSTANTS)
            else equal(left_item, right_item)
            for left_item, right_item in zip(left, right)
        ]
        if any(result is False for result in results):
            return False
        return None if any(result is None for result in results) else True
    if isinstance(left, List) and isinstance(right, List):
        if left.more or right.more:
            return None
        return equal(tuple(left.items), tuple(right.items))
    if isinstance(left, Lib) and isinstance(right, Lib):
        return left.path == right.path
    if type(left) is not type(right):
        return False
    return True if left is right else None


def contains(machine: Machine, container: Value, item: Value) -> bool | None:
    item = concrete(item)
    if isinstance(container, Range) and isinstance(item, int):
        return item in range(container.start, container.stop, container.step)
    if isinstance(container, str):
        return item in container if isinstance(item, str) else None
    if isinstance(container, Dict):
        key = hashable(item)
        if isinstance(item, (_CONSTANTS, Tensor, Instance)):
            if key in container.items:
                return True
            return None if container.more or _unsure_keys(container) else False
        return key in container.items or None
    if isinstance(container, Instance):
        method = machine.find_method(container, "__contains__")
        if method is not None and container.cls is not None:
            return machine.known_truth(machine.call(method, [item], {}, container.cls.node))
        return None
    items = container if isinstance(container, tuple) else getattr(container, "items", None)
    if not isinstance(items, (tuple, list)):
        return None
    unsure = bool(getattr(container, "more", False))
    for candidate in items:
        candidate = concrete(candidate)
        if isinstance(candidate, _CONSTANTS) and isinstance(item, _CONSTANTS):
            if candidate == item:
                return True
        elif candidate is item:
            return True
        else:
            same = equal(candidate, item)
            if same:
                return True
            unsure = unsure or same is None
    return None if unsure else False


def _unsure_keys(container: Dict) -> bool:
    return any(isinstance(key, tuple) and key and key[0] == "?" for key in container.items)


def hashable(value: Value) -> Any:
    """A dict key for a value: constants by value, everything else by identity."""
    value = concrete(value)
    if isinstance(value, float) and math.isnan(value):
        return ("?", "nan")
    if isinstance(value, _CONSTANTS):
        return value
    if isinstance(value, tuple):
        return tuple(hashable(item) for item in value)
    if isinstance(value, Lib):
        return ("lib", value.path)
    return ("?", _Identity(value))


class _Identity:
    """An object as a key: equal only to itself; keeps the object alive so that its id stays its own."""

    __slots__ = ("value",)

    def __init__(self, value: Value) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Identity) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)


def unkey(key: Any) -> Value:
    """The value that a dict key stands for."""
    if isinstance(key, tuple) and len(key) == 2 and key[0] == "?":
        return key[1].value if isinstance(key[1], _Identity) else Unknown("key")
    if isinstance(key, tuple) and len(key) == 2 and key[0] == "lib":
        return Lib(key[1])
    if isinstance(key, tuple):
        return tuple(unkey(item) for item in key)
    return key


# -- functions and classes --------------------------------------------------------------------------------------


def has_yield(node: ast.AST) -> bool:
    """Whether a function's own body yields (nested functions aside)."""
    known = getattr(node, "_has_yield", None)
    if known is None:
        # Every run of a program makes its functions anew, and there are many runs: looked up once a node.
        known = _looks_for_yield(node)
        node._has_yield = known  # type: ignore[attr-defined]
    return bool(known)


def _looks_for_yield(node: ast.AST) -> bool:
    stack: list[ast.AST] = list(getattr(node, "body", []))
    while stack:
        current = stack.pop()
        if isinstance(current, (ast.Yield, ast.YieldFrom)):
            return True
        if not isinstance(current, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            stack.extend(ast.iter_child_nodes(current))
    return False


def counted_names(node: ast.AST) -> set[str]:
    """The names that a loop's body counts up (`k += 1`, `k = k + 1`)."""
    known: set[str] | None = getattr(node, "_tapecheck_counted", None)
    if known is None:
        known = set()
        for child in ast.walk(node):
            if isinstance(child, ast.AugAssign) and isinstance(child.target, ast.Name):
                known.add(child.target.id)
            elif isinstance(child, ast.Assign) and isinstance(child.value, ast.BinOp):
                used = {part.id for part in ast.walk(child.value) if isinstance(part, ast.Name)}
                known |= {target.id for target in child.targets if isinstance(target, ast.Name)} & used
        node._tapecheck_counted = known  # type: ignore[attr-defined]
    return known


def names_dataclass(decorator: ast.expr) -> bool:
    target = decorator.func if isinstance(decorator, ast.Call) else decorator
    return ast.unparse(target).rsplit(".", 1)[-1] in ("dataclass", "define", "attrs", "s")


def property_part(owner: Wrapped, name: str) -> Native:
    """`@x.setter` and the like: the property with one more function."""

    def extend_property(m: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        given = args[0] if args else None
        if name == "setter":
            return Wrapped("property", owner.function, given)
        return Wrapped("property", given if name == "getter" else owner.function, owner.extra)

    return Native(name, extend_property)


def find_setter(cls: Class, name: str) -> Value:
    for candidate in cls.mro():
        value = candidate.namespace.get(name)
        if isinstance(value, Wrapped) and value.kind == "property":
            return value.extra
        if value is not None:
            return None
    return None


def bind_arguments(machine: Machine, function: Function, args: Args, kwargs: Kwargs, env: Env, node: ast.AST) -> None:
    """Bind arguments to parameters; a parameter that got nothing is unknown where a call was open-ended."""
    arguments: ast.arguments = function.node.args
    positional = [*arguments.posonlyargs, *arguments.args]
    kwargs = dict(kwargs)
    open_ended = kwargs.pop("**", None) is not None
    site: Site | None = None
    values = env.vars
    for parameter, value in zip(positional, args):
        values[parameter.arg] = value
    rest = args[len(positional) :]
    if arguments.vararg is not None:
        values[arguments.vararg.arg] = tuple(rest)
    first_default = len(positional) - len(function.defaults)
    for index, parameter in enumerate(positional[len(args) :], len(args)):
        if parameter.arg in kwargs:
            values[parameter.arg] = kwargs.pop(parameter.arg)
        elif index >= first_default:
            values[parameter.arg] = function.defaults[index - first_default]
        else:
            values[parameter.arg] = Unknown(parameter.arg)
    for parameter, default in zip(arguments.kwonlyargs, function.kw_defaults):
        values[parameter.arg] = kwargs.pop(parameter.arg) if parameter.arg in kwargs else default
    if arguments.kwarg is not None:
        values[arguments.kwarg.arg] = Dict(dict(kwargs), more=open_ended)
    for name, value in values.items():
        if isinstance(value, (Tensor, List, Dict, tuple, Instance, Unknown)):
            if site is None:
                site = machine.world.site(node) if machine.world.frames else None
            if site is not None:
                env.stores[name] = site
                env.stamps[name] = machine.world.clock


def fill_dataclass(machine: Machine, cls: Class, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> None:
    fields = cls.dataclass_fields or []
    for index, (name, default, given) in enumerate(fields):
        if index < len(args):
            value = args[index]
        elif name in kwargs:
            value = kwargs[name]
        elif isinstance(default, Instance) and default.lib == "dataclasses.field":
            factory = default.facts.get("default_factory")
            value = machine.call(factory, [], {}, node) if factory is not None else default.facts.get("default")
        else:
            value = default if given else Unknown(name)
        machine.set_attribute(owner, name, value, node)
    after = machine.find_method(owner, "__post_init__")
    if after is not None:
        machine.call(after, [], {}, node)


def match_pattern(machine: Machine, pattern: ast.pattern, subject: Value, env: Env) -> bool | None:
    """Whether a match pattern fits; None where nobody knows. Names are bound on the way."""
    if isinstance(pattern, ast.MatchAs):
        if pattern.pattern is not None:
            inner = match_pattern(machine, pattern.pattern, subject, env)
            if inner is False:
                return False
        else:
            inner = True
        if pattern.name is not None:
            machine.store_name(pattern.name, subject, env, pattern)
        return inner
    if isinstance(pattern, ast.MatchValue):
        result = machine.compare(ast.Eq(), subject, machine.eval(pattern.value, env), pattern)
        return machine.known_truth(result)
    if isinstance(pattern, ast.MatchSingleton):
        return identical(subject, pattern.value)
    if isinstance(pattern, ast.MatchOr):
        results = [match_pattern(machine, option, subject, env) for option in pattern.patterns]
        if any(results):
            return True
        return None if any(result is None for result in results) else False
    if isinstance(pattern, ast.MatchSequence):
        items = known_items(machine, subject, pattern) if isinstance(subject, (tuple, List)) else None
        if items is None:
            if not isinstance(subject, Unknown):
                return False
            items = guessed_items(machine, subject, len(pattern.patterns), pattern)
        elif len(items) != len(pattern.patterns) and not any(isinstance(p, ast.MatchStar) for p in pattern.patterns):
            return False
        results = [match_pattern(machine, p, item, env) for p, item in zip(pattern.patterns, items)]
        if any(result is False for result in results):
            return False
        return None if isinstance(subject, Unknown) or any(result is None for result in results) else True
    if isinstance(pattern, ast.MatchStar):
        if pattern.name is not None:
            machine.store_name(pattern.name, Unknown(pattern.name), env, pattern)
        return True
    return None


# -- operators --------------------------------------------------------------------------------------------------


def arithmetic(op: ast.operator, function: Callable[[Any, Any], Any] | None, left: Value, right: Value) -> Value:
    """An operator on Python constants, guarded against results too large to be worth computing."""
    if function is None:
        return Unknown("result")
    if isinstance(op, (ast.Pow, ast.LShift)) and isinstance(right, (int, float)) and abs(right) > 1_000:
        return Unknown("number")
    if isinstance(op, ast.Mult) and (isinstance(left, (str, bytes)) or isinstance(right, (str, bytes))):
        text, count = (left, right) if isinstance(left, (str, bytes)) else (right, left)
        if not isinstance(count, int) or not isinstance(text, (str, bytes)) or count * len(text) > _MAX_TEXT:
            return Unknown("text")
    if any(isinstance(side, int) and side.bit_length() > _MAX_BITS for side in (left, right)):
        return Unknown("number")
    try:
        return function(left, right)
    except (ArithmeticError, TypeError, ValueError):
        return Unknown("result")


def container_operator(machine: Machine, op: ast.operator, left: Value, right: Value, node: ast.AST) -> Value:
    if isinstance(op, ast.Add):
        if isinstance(left, tuple) and isinstance(right, tuple):
            return left + right
        if isinstance(left, List) or isinstance(right, List):
            items = [*(known_items(machine, left, node) or ()), *(known_items(machine, right, node) or ())]
            more = known_items(machine, left, node) is None or known_items(machine, right, node) is None
            return machine.new_list(items, node, more)
    if isinstance(op, ast.Mult):
        sequence, count = (left, right) if isinstance(left, (tuple, List)) else (right, left)
        if isinstance(sequence, (tuple, List)):
            items = list(sequence) if isinstance(sequence, tuple) else list(sequence.items)
            if isinstance(count, int) and 0 <= count * len(items) <= 512:
                repeated = items * count
                return tuple(repeated) if isinstance(sequence, tuple) else machine.new_list(repeated, node)
            return machine.new_list(items, node, True)
    if isinstance(op, ast.BitOr) and isinstance(left, Dict) and isinstance(right, Dict):
        return Dict({**left.items, **right.items}, left.more or right.more, born=machine.world.clock)
    if isinstance(op, ast.Mod) and isinstance(left, str):
        return Unknown("text")
    return Unknown("result")


# -- containers -------------------------------------------------------------------------------------------------


def known_items(machine: Machine, value: Value, node: ast.AST) -> list[Value] | None:
    """The elements of a value whose length is known; None otherwise."""
    value = concrete(value)
    if isinstance(value, tuple):
        return list(value)
    if isinstance(value, (List, Set)):
        return None if value.more else list(value.items)
    if isinstance(value, Dict):
        return None if value.more else [unkey(key) for key in value.items]
    if isinstance(value, Range):
        return list(range(value.start, value.stop, value.step)) if len(value) <= 64 else None
    if isinstance(value, str):
        return list(value) if len(value) <= 64 else None
    if isinstance(value, Tensor) and value.items is not None:
        return list(value.items)
    if isinstance(value, Instance) and value.cls is not None and value.cls.dataclass_fields is not None:
        if any(path.endswith("NamedTuple") for path in value.cls.library_bases()):
            return [value.attrs.get(name) for name, _, _ in value.cls.dataclass_fields]
    if isinstance(value, (Generator, Stream, Instance)):
        stream = machine.stream(value, node)
        length = stream.length()
        length = None if length is None else max(length - stream.next, 0)
        if isinstance(value, Generator) or (length is not None and length <= 64):
            items = list(machine.elements(stream, node))
            return items if length is None or len(items) == length else None
    return None


def guessed_items(machine: Machine, value: Value, count: int, node: ast.AST) -> list[Value]:
    """As many elements as an unpacking wants, of a value whose length nobody knows."""
    if isinstance(value, Unknown):
        return [item_of_unknown(value, index) for index in range(count)]
    if isinstance(value, Tensor):
        return [machine.torch.get_item(value, index, node) for index in range(count)]
    stream = machine.stream(value, node)
    items: list[Value] = []
    for index in range(count):
        try:
            items.append(stream.item(index))
        except IndexError:
            items.append(Unknown("item"))
    return items


def stream(machine: Machine, value: Value, node: ast.AST) -> Stream:
    """A container or unknown value as a stream of elements."""
    value_now = concrete(value) if not isinstance(value, Unknown) else value
    if isinstance(value_now, List):
        listed = value_now

        def list_item(index: int) -> Value:
            if index < len(listed.items):
                return listed.items[index]
            return _further(machine, listed.items)

        return Stream(lambda: None if listed.more else len(listed.items), list_item)
    if isinstance(value_now, tuple):
        return Stream(lambda: len(value_now), lambda index: value_now[index])
    if isinstance(value_now, Set):
        return Stream(lambda: None if value_now.more else len(value_now.items), _item_or_unknown(value_now.items))
    if isinstance(value_now, Dict):
        keys = list(value_now.items)
        return Stream(
            lambda: None if value_now.more else len(keys),
            lambda index: unkey(keys[index]) if index < len(keys) else Unknown("key"),
        )
    if isinstance(value_now, Range):
        return Stream(lambda: len(value_now), lambda index: value_now.start + index * value_now.step)
    if isinstance(value_now, str):
        return Stream(lambda: len(value_now), lambda index: value_now[index])
    if isinstance(value_now, Generator):
        return _generator_stream(value_now)
    if isinstance(value, Unknown):
        child = value
        bound_length(attribute_of_unknown(child, "__len__()"))
        fresh: dict[int, Value] = {}

        def unknown_item(index: int) -> Value:
            if index not in fresh:
                made = Unknown(f"{child.name}[{index}]", child.node, child.cuts)
                made.oldest = child.oldest
                made.data = child.node is None
                made.certain = child.certain
                fresh[index] = made
            return fresh[index]

        length = attribute_of_unknown(child, "__len__()").concrete
        return Stream(lambda: length if isinstance(length, int) and length > LOOP_BOUND else None, unknown_item)
    return Stream(lambda: None, lambda index: Unknown("item"))


def _further(machine: Machine, items: list[Value]) -> Value:
    """An element nobody knows of a list: like the last known one where that is data."""
    return items[-1] if items and isinstance(items[-1], (Function, Class, Lib, Instance)) else Unknown("item")


def _item_or_unknown(items: list[Value]) -> Callable[[int], Value]:
    return lambda index: items[index] if index < len(items) else Unknown("item")


def _generator_stream(generator: Generator) -> Stream:
    produced: list[Value] = []

    def item(index: int) -> Value:
        while len(produced) <= index:
            try:
                produced.append(next(generator.run))
            except StopIteration:
                raise IndexError from None
        return produced[index]

    # The length is asked for as if unknown, but the stream ends by itself: loops run it to its end.
    return Stream(lambda: 1_000_000, item, sequential=True)


def extend(machine: Machine, target: List, value: Value, node: ast.AST) -> None:
    items = known_items(machine, value, node)
    if items is None:
        target.more = True
        if isinstance(value, (List, Set)):
            items = list(value.items)
        else:
            items = guessed_items(machine, value, 1, node) if not isinstance(value, str) else []
    _append(machine, target, items, node)


def _append(machine: Machine, target: List, items: list[Value], node: ast.AST) -> None:
    target.items.extend(items)
    if target.bound is not None and len(target.items) > target.bound:
        del target.items[: len(target.items) - target.bound]
    if any(True for item in items if not isinstance(item, _CONSTANTS)):
        target.stored_at = machine.world.site(node)


def get_item(machine: Machine, owner: Value, index: Value, node: ast.AST) -> Value:
    index = concrete(index)
    owner = concrete(owner) if isinstance(owner, Unknown) and owner.concrete is not None else owner
    if isinstance(owner, (List, tuple)):
        items = list(owner) if isinstance(owner, tuple) else owner.items
        more = isinstance(owner, List) and owner.more
        if isinstance(index, int):
            if -len(items) <= index < len(items) and (index >= 0 or not more):
                return items[index]
            if not more:
                raise Signal("IndexError")
            return items[-1] if items and index < 0 else _further(machine, items)
        if isinstance(index, slice):
            parts = [concrete(part) for part in (index.start, index.stop, index.step)]
            if not more and all(part is None or isinstance(part, int) for part in parts):
                chosen = items[slice(*parts)]
                return tuple(chosen) if isinstance(owner, tuple) else machine.new_list(chosen, node)
            return machine.new_list(list(items), node, True)
        if items:
            return items[0]
        return Unknown("item")
    if isinstance(owner, Dict):
        key = hashable(index)
        if key in owner.items:
            if owner.stamps.get(key, machine.world.clock) < machine.world.clock:
                from tapecheck.interpret import carry

                carry.loaded(machine, owner, key)
            return owner.items[key]
        if owner.factory is not None:
            value = machine.call(owner.factory, [], {}, node)
            owner.items[key] = value
            return value
        if not owner.more and isinstance(index, _CONSTANTS) and not _unsure_keys(owner):
            raise Signal("KeyError")
        if not isinstance(index, _CONSTANTS) and owner.items:
            return next(iter(owner.items.values()))
        return Unknown("item")
    if isinstance(owner, Range) and isinstance(index, int):
        try:
            return range(owner.start, owner.stop, owner.step)[index]
        except IndexError:
            raise Signal("IndexError") from None
    if isinstance(owner, str) and isinstance(index, (int, slice)):
        try:
            return owner[index]
        except (IndexError, TypeError):
            return Unknown("text")
    if isinstance(owner, Unknown):
        return item_of_unknown(owner, index)
    if isinstance(owner, (Class, Lib, Function)):
        return owner
    return Unknown("item")


def set_item(machine: Machine, owner: Value, index: Value, value: Value, node: ast.AST) -> None:
    index = concrete(index)
    if isinstance(owner, List):
        if isinstance(index, int) and -len(owner.items) <= index < len(owner.items):
            owner.items[index] = value
        elif isinstance(index, slice):
            items = known_items(machine, value, node)
            parts = [concrete(part) for part in (index.start, index.stop, index.step)]
            if items is not None and not owner.more and all(part is None or isinstance(part, int) for part in parts):
                try:
                    owner.items[slice(*parts)] = items
                except ValueError:
                    owner.more = True
            else:
                owner.more = True
        elif owner.items and not isinstance(index, int):
            owner.items[0] = value
        if not isinstance(value, _CONSTANTS):
            owner.stored_at = machine.world.site(node)
    elif isinstance(owner, Dict):
        key = hashable(index)
        if key in owner.items:
            owner.rewritten.add(key)
        owner.items[key] = value
        if not isinstance(value, _CONSTANTS):
            owner.stores[key] = machine.world.site(node)
            owner.stamps[key] = machine.world.clock
    elif isinstance(owner, Unknown):
        if owner.items is None:
            owner.items = {}
        owner.items[hashable(index)] = value
        machine.escape(value, node, owner.name)


def delete_item(owner: Value, index: Value) -> None:
    index = concrete(index)
    if isinstance(owner, List):
        if isinstance(index, (int, slice)):
            try:
                del owner.items[index]
            except (IndexError, TypeError):
                owner.more = True
    elif isinstance(owner, Dict):
        owner.items.pop(hashable(index), None)


# -- methods of containers and text -----------------------------------------------------------------------------


def attribute(machine: Machine, owner: Value, name: str, node: ast.AST) -> Value:
    """A method of a list, dict, set, tuple, text or number."""
    method = _METHODS.get((type(owner), name))
    if method is not None:
        return Native(name, lambda m, args, kwargs, at: method(m, owner, args, kwargs, at))
    if isinstance(owner, (List, Set, Dict)):
        return Native(name, lambda m, args, kwargs, at: _unmodelled(owner, name))
    if isinstance(owner, (str, int, float, bytes)):
        if isinstance(owner, (int, float)) and name in ("real", "imag"):
            return getattr(owner, name)
        return Native(name, lambda m, args, kwargs, at: _method_of_constant(m, owner, name, args, kwargs))
    if isinstance(owner, Generator) and name in ("send", "__next__"):
        return Native(name, lambda m, args, kwargs, at: next_of(m, owner, [], at))
    if isinstance(owner, slice):
        return getattr(owner, name, Unknown(name))
    return Unknown(name)


def _method_of_constant(machine: Machine, owner: Value, name: str, args: Args, kwargs: Kwargs) -> Value:
    values = [_plain(machine, arg) for arg in args]
    if any(isinstance(value, int) and abs(value) > _MAX_TEXT for value in values):
        return Unknown("text")
    if sum(len(value) for value in (owner, *values) if isinstance(value, (str, bytes, list))) > _MAX_TEXT:
        return Unknown("text")
    if name in _TEXT_METHODS and all(value is not NotImplemented for value in values) and not kwargs:
        try:
            result = getattr(owner, name)(*values)
        except (TypeError, ValueError, AttributeError, IndexError, KeyError):
            return Unknown("text")
        return List(list(result)) if isinstance(result, list) else result
    return Unknown("text")


def _plain(machine: Machine, value: Value) -> Any:
    value = concrete(value)
    if isinstance(value, _CONSTANTS):
        return value
    if isinstance(value, (List, tuple)):
        items = known_items(machine, value, ast.Pass())
        if items is not None and all(isinstance(item, _CONSTANTS) for item in items):
            return items
    return NotImplemented


_TEXT_METHODS = frozenset(
    [
        "lower",
        "upper",
        "strip",
        "lstrip",
        "rstrip",
        "split",
        "rsplit",
        "startswith",
        "endswith",
        "replace",
        "join",
        "title",
        "find",
        "count",
        "isdigit",
        "capitalize",
        "splitlines",
        "partition",
        "rpartition",
        "removeprefix",
        "removesuffix",
        "zfill",
        "is_integer",
        "bit_length",
    ]
)


def _unmodelled(owner: List | Set | Dict, name: str) -> Value:
    """A method that is not modelled: what the container holds afterwards is not known."""
    if not name.startswith(("is", "union", "intersection", "difference", "symmetric", "most_common", "__")):
        owner.more = True
    return Unknown(name)


def _list_sort(m: Machine, owner: List, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    plain = [concrete(item) for item in owner.items]
    if not kwargs and not owner.more and all(isinstance(item, (int, float, str)) for item in plain):
        owner.items.sort(key=concrete)
    elif any(isinstance(item, _CONSTANTS) for item in plain):
        owner.items = [Unknown("item") if isinstance(item, _CONSTANTS) else item for item in owner.items]
    return None


def _set_discard(m: Machine, owner: Set, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    kept = [item for item in owner.items if args and hashable(item) != hashable(args[0])]
    if len(kept) == len(owner.items) and args and not isinstance(concrete(args[0]), _CONSTANTS):
        owner.more = True
    owner.items = kept
    return None


def _set_update(m: Machine, owner: Set, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    for source in args:
        items = known_items(m, source, node)
        if items is None:
            owner.more = True
        for item in items or ():
            _set_add(m, owner, [item], {}, node)
    return None


def _set_pop(m: Machine, owner: Set, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    if not owner.items and not owner.more:
        raise Signal("KeyError")
    return owner.items.pop() if len(owner.items) == 1 and not owner.more else _unmodelled(owner, "pop")


def distinct(items: list[Value]) -> list[Value]:
    """The elements of a set made of these."""
    return list({hashable(item): item for item in items}.values())


def _list_append(m: Machine, owner: List, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    _append(m, owner, args[:1], node)
    return None


def _list_appendleft(m: Machine, owner: List, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    owner.items[:0] = args[:1]
    owner.stored_at = m.world.site(node)
    if owner.bound is not None:
        del owner.items[owner.bound :]
    return None


def _list_extend(m: Machine, owner: List, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    extend(m, owner, args[0] if args else Unknown(), node)
    return None


def _list_insert(m: Machine, owner: List, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    place = concrete(args[0]) if args else 0
    owner.items.insert(place if isinstance(place, int) else 0, args[1] if len(args) > 1 else Unknown())
    owner.stored_at = m.world.site(node)
    return None


def _list_pop(m: Machine, owner: List, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    place = concrete(args[0]) if args else -1
    if not owner.items:
        if owner.more:
            return Unknown("item")
        raise Signal("IndexError")
    try:
        return owner.items.pop(place if isinstance(place, int) else -1)
    except IndexError:
        return Unknown("item")


def _list_popleft(m: Machine, owner: List, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return _list_pop(m, owner, [0], kwargs, node)


def _clear(m: Machine, owner: List | Dict | Set, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    owner.items.clear()
    owner.more = False
    return None


def _list_copy(m: Machine, owner: List, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return List(list(owner.items), owner.more, owner.bound, owner.stored_at, owner.kind, m.world.clock)


def _list_reverse(m: Machine, owner: List, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    owner.items.reverse()
    return None


def _list_remove(m: Machine, owner: List, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    for index, item in enumerate(owner.items):
        if args and (item is args[0] or equal(item, args[0])):
            del owner.items[index]
            break
    return None


def _number(*args: Any) -> Value:
    return Unknown("number")


def _nothing(*args: Any) -> Value:
    return None


def _dict_get(m: Machine, owner: Dict, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    key = hashable(args[0]) if args else None
    if key in owner.items:
        return get_item(m, owner, args[0], node)
    if owner.more:
        return Unknown("item")
    return args[1] if len(args) > 1 else kwargs.get("default")


def _dict_setdefault(m: Machine, owner: Dict, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    key = hashable(args[0]) if args else None
    if key not in owner.items:
        set_item(m, owner, args[0], args[1] if len(args) > 1 else None, node)
    return owner.items[key]


def _dict_items(m: Machine, owner: Dict, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return List([(unkey(key), value) for key, value in owner.items.items()], owner.more)


def _dict_keys(m: Machine, owner: Dict, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return List([unkey(key) for key in owner.items], owner.more)


def _dict_values(m: Machine, owner: Dict, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return List(list(owner.items.values()), owner.more)


def _dict_update(m: Machine, owner: Dict, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    for source in args:
        if isinstance(source, Dict):
            for key, value in source.items.items():
                set_item(m, owner, unkey(key), value, node)
            owner.more = owner.more or source.more
        else:
            owner.more = True
    for key, value in kwargs.items():
        if key == "**":
            owner.more = True
        else:
            set_item(m, owner, key, value, node)
    return None


def _dict_pop(m: Machine, owner: Dict, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    key = hashable(args[0]) if args else None
    if key in owner.items:
        return owner.items.pop(key)
    if len(args) > 1:
        return args[1]
    return Unknown("item")


def _dict_copy(m: Machine, owner: Dict, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return Dict(
        dict(owner.items), owner.more, owner.factory, dict(owner.stores), dict(owner.stamps), born=m.world.clock
    )


def _set_add(m: Machine, owner: Set, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    if args and contains(m, owner, args[0]) is not True:
        owner.items.append(args[0])
    return None


_METHODS: dict[tuple[type, str], Callable[..., Value]] = {
    (List, "append"): _list_append, (List, "add"): _list_append, (List, "appendleft"): _list_appendleft,
    (List, "extend"): _list_extend, (List, "insert"): _list_insert, (List, "pop"): _list_pop,
    (List, "popleft"): _list_popleft, (List, "clear"): _clear, (List, "copy"): _list_copy,
    (List, "reverse"): _list_reverse, (List, "sort"): _list_sort, (List, "remove"): _list_remove,
    (List, "index"): _number, (List, "count"): _number,
    (tuple, "index"): _number, (tuple, "count"): _number,
    (Dict, "get"): _dict_get, (Dict, "setdefault"): _dict_setdefault, (Dict, "items"): _dict_items,
    (Dict, "keys"): _dict_keys, (Dict, "values"): _dict_values, (Dict, "update"): _dict_update,
    (Dict, "pop"): _dict_pop, (Dict, "clear"): _clear, (Dict, "copy"): _dict_copy,
    (Set, "add"): _set_add, (Set, "clear"): _clear, (Set, "discard"): _set_discard,
    (Set, "remove"): _set_discard, (Set, "update"): _set_update, (Set, "pop"): _set_pop,
}  # fmt: skip


# -- built-in functions -----------------------------------------------------------------------------------------


def next_of(machine: Machine, value: Value, args: Args, node: ast.AST) -> Value:
    if isinstance(value, Generator):
        for item in value.run:
            return item
        if args:
            return args[0]
        raise Signal("StopIteration")
    if isinstance(value, Stream):
        length = value.length()
        if length is not None and value.next >= length:
            if args:
                return args[0]
            raise Signal("StopIteration")
        try:
            item = value.item(value.next)
        except IndexError:
            if args:
                return args[0]
            raise Signal("StopIteration") from None
        value.next += 1
        return item
    if isinstance(value, Instance):
        method = machine.find_method(value, "__next__")
        if method is not None:
            return machine.call(method, [], {}, node)
    if isinstance(value, Unknown):
        made = Unknown(f"next({value.name})", value.node, value.cuts)
        made.oldest = value.oldest
        made.data = value.node is None
        return made
    return Unknown("next")


def _print(m: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return None


def _len(m: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    value = args[0] if args else Unknown()
    if isinstance(value, Instance):
        method = m.find_method(value, "__len__")
        if method is not None:
            return m.call(method, [], {}, node)
        known = m.torch.object_stream(value, node)
        if known is not None:
            length = known.length()
            if length is not None:
                return length
        if "__len__" not in value.facts:
            value.facts["__len__"] = Unknown("len")
        return value.facts["__len__"]
    if isinstance(value, (List, Set, Dict)):
        return len(value.items) if not value.more else Unknown("len")
    if isinstance(value, (tuple, str)):
        return len(value)
    if isinstance(value, Range):
        return len(value)
    if isinstance(value, Tensor):
        if isinstance(value.length, int):
            return value.length
        if value.length is None:
            value.length = Unknown("len")
        return value.length
    if isinstance(value, Unknown):
        length = attribute_of_unknown(value, "__len__()")
        if isinstance(length, Unknown):
            length.node = None
        return concrete(length)
    return Unknown("len")


def _range(m: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    values: list[int] = []
    step = concrete(args[2]) if len(args) > 2 else 1
    for index, arg in enumerate(args):
        value = concrete(arg)
        if isinstance(value, Tensor):
            value = Unknown("number")
        if isinstance(value, Unknown):
            start = values[0] if values else 0
            if index == (0 if len(args) == 1 else 1):
                # An unknown end is as many steps away as an unknown loop has iterations, however long they are.
                value.concrete = start + LOOP_BOUND * (step if isinstance(step, int) and step else 1)
            else:
                value.concrete = 0 if index == 0 else 1
            value = value.concrete
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if not isinstance(value, int):
            return Unknown("range")
        values.append(value)
    if not values or (len(values) > 2 and values[2] == 0):
        return Unknown("range")
    if len(values) == 1:
        return Range(0, values[0])
    return Range(*values[:3])


def _enumerate(m: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    inner = m.stream(args[0] if args else Unknown(), node)
    start = concrete(args[1] if len(args) > 1 else kwargs.get("start", 0))
    first = start if isinstance(start, int) else None
    return Stream(
        inner.length,
        lambda index: (first + index if first is not None else Unknown("index"), inner.item(index)),
        inner.sequential,
    )


def _zip(m: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    streams = [m.stream(arg, node) for arg in args]

    def length() -> int | None:
        known = [size for size in (stream.length() for stream in streams) if size is not None]
        return min(known) if known else None

    return Stream(
        length, lambda index: tuple(stream.item(index) for stream in streams), any(s.sequential for s in streams)
    )


def _map(m: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    streams = [m.stream(arg, node) for arg in args[1:]]
    if not streams:
        return Unknown("map")
    made: dict[int, Value] = {}

    def item(index: int) -> Value:
        if index not in made:
            made[index] = m.call(args[0], [stream.item(index) for stream in streams], {}, node)
        return made[index]

    return Stream(streams[0].length, item, streams[0].sequential)


def _filter(m: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    items: list[Value] = []
    known = len(args) > 1
    source = m.stream(args[1] if len(args) > 1 else Unknown(), node)
    known = known and source.length() is not None
    for item in m.elements(source, node):
        truth = m.known_truth(m.call(args[0], [item], {}, node) if args[0] is not None else item)
        known = known and truth is not None
        if truth is not False:
            items.append(item)
    return m.new_list(items, node, not known)


def _list(m: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    if not args:
        return m.new_list([], node)
    value = args[0]
    items = known_items(m, value, node)
    if items is not None:
        return m.new_list(items, node)
    return m.new_list(list(m.elements(value, node)), node, True)


def _tuple(m: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    if not args:
        return ()
    items = known_items(m, args[0], node)
    if items is not None:
        return tuple(items)
    return m.new_list(list(m.elements(args[0], node)), node, True)


def _set(m: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    if not args:
        return Set([])
    items = known_items(m, args[0], node)
    return Set(distinct(items), False) if items is not None else Set(list(m.elements(args[0], node)), True)


def _dict(m: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    result = Dict({}, born=m.world.clock)
    if args:
        if isinstance(args[0], Dict):
            result.items.update(args[0].items)
            result.stores.update(args[0].stores)
            result.stamps.update(args[0].stamps)
            result.more = args[0].more
        else:
            pairs = known_items(m, args[0], node)
            if pairs is None:
                result.more = True
            for pair in pairs or ():
                both = known_items(m, pair, node)
                if both is not None and len(both) == 2:
                    set_item(m, result, both[0], both[1], node)
                else:
                    result.more = True
    _dict_update(m, result, [], kwargs, node)
    return result


def _sum(m: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    total: Value = args[1] if len(args) > 1 else kwargs.get("start", 0)
    if not args:
        return total
    for item in m.elements(args[0], node):
        total = m.binary(ast.Add(), total, item, node)
    length = m.stream(args[0], node).length() if not isinstance(args[0], Generator) else 0
    if length is None and isinstance(total, (int, float)):
        return Unknown("sum")
    return total


def _extreme(name: str) -> Callable[[Machine, Args, Kwargs, ast.AST], Value]:
    def choose(m: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        items = list(args) if len(args) > 1 else (known_items(m, args[0], node) if args else None)
        if items is not None:
            plain = [concrete(item) for item in items]
            if plain and all(isinstance(item, (int, float)) for item in plain) and "key" not in kwargs:
                return max(plain) if name == "max" else min(plain)
            for item in plain:
                if isinstance(item, Tensor):
                    return item
            for item in plain:
                if isinstance(item, (Instance, Unknown)) and item is not None:
                    return item if isinstance(item, Instance) else Unknown(name, item.node, item.cuts)
        return Unknown(name)

    return choose


def _number_of(kind: Callable[[Any], Any]) -> Callable[[Machine, Args, Kwargs, ast.AST], Value]:
    def convert(m: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        if not args:
            return kind(0)
        value = concrete(args[0])
        if len(args) > 1 or "base" in kwargs:
            return Unknown("number")
        if isinstance(value, Tensor):
            return Unknown("number", None, m.world.cut("item", node, value, name=value.name))
        if isinstance(value, (int, float, str)):
            try:
                return kind(value)
            except (ValueError, OverflowError):
                raise Signal("ValueError") from None
        if isinstance(value, Unknown) and value.node is not None:
            return Unknown("number", None, m.world.cut("item", node, value, name=value.name))
        return Unknown("number", None, cuts_of(value))

    return convert


def _bool(m: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    truth = m.known_truth(args[0]) if args else False
    return truth if truth is not None else (args[0] if isinstance(args[0], Unknown) else Unknown("bool"))


def _str(m: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    value = concrete(args[0]) if args else ""
    return str(value) if isinstance(value, (int, float, str, bool)) else Unknown("text")


def _abs(m: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    value = concrete(args[0]) if args else 0
    if isinstance(value, (int, float)):
        return abs(value)
    if isinstance(value, (Tensor, Unknown)):
        return m.torch.call("torch.abs", [value], {}, node)
    return Unknown("number")


def _pow(m: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return m.binary(ast.Pow(), args[0], args[1], node) if len(args) == 2 else Unknown("number")


def _round(m: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    values = [concrete(arg) for arg in args]
    if values and all(isinstance(value, (int, float)) for value in values):
        try:
            return round(*values)
        except (TypeError, ValueError, OverflowError):
            return Unknown("number")
    return Unknown("number", None, cuts_of(*args))


def _isinstance(m: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    if len(args) < 2:
        return Unknown("isinstance")
    wanted = list(args[1]) if isinstance(args[1], tuple) else [args[1]]
    results = [m.torch.is_instance(args[0], kind) for kind in wanted]
    if any(result is True for result in results):
        return True
    if any(result is None for result in results):
        if isinstance(args[0], Unknown):
            return m._unknown_test(ast.Is(), args[0], Unknown("type"))
        return Unknown("isinstance")
    return False


def _hasattr(m: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    owner, name = ([*args, None, None])[:2]
    if isinstance(owner, Instance) and isinstance(name, str):
        if name in owner.attrs or m.find_method(owner, name) is not None:
            return True
        if owner.cls is not None and not owner.cls.library_bases() and not owner.cls.opaque:
            return False
        if m.torch.object_attribute(owner, name, node) is not None:
            return True
        return False if owner.cls is not None and not owner.cls.opaque else Unknown("hasattr")
    if isinstance(owner, Unknown):
        return m._unknown_test(ast.Is(), owner, name)
    if isinstance(owner, Tensor) and isinstance(name, str):
        return True if name in ("backward", "item", "detach", "grad", "shape") else Unknown("hasattr")
    return Unknown("hasattr")


def _getattr(m: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    if len(args) < 2:
        return Unknown("getattr")
    name = concrete(args[1])
    if not isinstance(name, str):
        return Unknown("getattr")
    if len(args) > 2 and isinstance(args[0], Instance):
        if name not in args[0].attrs and m.find_method(args[0], name) is None:
            known = m.torch.object_attribute(args[0], name, node)
            return args[2] if known is None else known
    return m.get_attribute(args[0], name, node)


def _setattr(m: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    if len(args) == 3 and isinstance(concrete(args[1]), str):
        m.set_attribute(args[0], concrete(args[1]), args[2], node)
    return None


def _type(m: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    value = args[0] if args else None
    if isinstance(value, Instance):
        return value.cls if value.cls is not None else Lib(value.lib)
    return Lib("torch.Tensor") if isinstance(value, Tensor) else Unknown("type")


def _iter(m: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    if not args:
        return Unknown("iter")
    if isinstance(args[0], (Generator, Stream)):
        return args[0]
    return m.stream(args[0], node)


def _next(m: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return next_of(m, args[0] if args else Unknown(), args[1:], node)


def _reversed(m: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    items = known_items(m, args[0], node) if args else None
    if items is not None:
        return m.new_list(items[::-1], node)
    if args and isinstance(args[0], Range):
        whole = range(args[0].start, args[0].stop, args[0].step)[::-1]
        return Range(whole.start, whole.stop, whole.step)
    return args[0] if args else Unknown("reversed")


def _sorted(m: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    items = known_items(m, args[0], node) if args else None
    if items is not None and "key" not in kwargs and "reverse" not in kwargs:
        plain = [concrete(item) for item in items]
        try:
            return m.new_list(sorted(plain), node)
        except TypeError:
            return m.new_list(items, node)
    return _list(m, args, {}, node)


def _quantified(wanted: bool) -> Callable[[Machine, Args, Kwargs, ast.AST], Value]:
    def ask(m: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        items = known_items(m, args[0], node) if args else None
        if items is None:
            return Unknown("any" if wanted else "all")
        truths = [m.known_truth(item) for item in items]
        if wanted in truths:
            return wanted
        return Unknown("any") if None in truths else not wanted

    return ask


def _callable(m: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    value = args[0] if args else None
    if isinstance(value, (Function, Bound, Native, Class, Lib, Wrapped)):
        return True
    if isinstance(value, (*_CONSTANTS, List, Dict, tuple, Tensor)):
        return False
    return Unknown("callable")


def _unknown(m: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return Unknown("result")


def _vars(m: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    if args and isinstance(args[0], Instance):
        return Dict(args[0].attrs)
    return Unknown("vars")


def _property(m: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return Wrapped("property", args[0] if args else None, args[1] if len(args) > 1 else None)


def _wrap(kind: str) -> Callable[[Machine, Args, Kwargs, ast.AST], Value]:
    return lambda m, args, kwargs, node: Wrapped(kind, args[0] if args else None)


NAMES: dict[str, Value] = {
    name: Native(name, function)
    for name, function in {
        "print": _print, "len": _len, "range": _range, "enumerate": _enumerate, "zip": _zip, "map": _map,
        "filter": _filter, "list": _list, "tuple": _tuple, "set": _set, "frozenset": _set, "dict": _dict,
        "sum": _sum, "max": _extreme("max"), "min": _extreme("min"), "float": _number_of(float),
        "int": _number_of(int), "bool": _bool, "str": _str, "repr": _str, "abs": _abs, "pow": _pow,
        "round": _round, "isinstance": _isinstance, "hasattr": _hasattr, "getattr": _getattr,
        "setattr": _setattr, "type": _type, "iter": _iter, "next": _next, "reversed": _reversed,
        "sorted": _sorted, "any": _quantified(True), "all": _quantified(False), "callable": _callable,
        "vars": _vars, "locals": _unknown, "globals": _unknown, "property": _property,
        "staticmethod": _wrap("staticmethod"), "classmethod": _wrap("classmethod"), "id": _unknown,
        "hash": _unknown, "open": _unknown, "input": _unknown, "format": _unknown, "divmod": _unknown,
        "issubclass": _unknown, "ord": _unknown, "chr": _unknown, "delattr": _nothing, "exit": _unknown,
    }.items()
}  # fmt: skip
NAMES.update({"object": Lib("builtins.object"), "NotImplemented": Unknown("NotImplemented"), "__name__": "__main__"})


# -- the standard library ---------------------------------------------------------------------------------------


def standard_library(m: Machine, path: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Call a function of the standard library; NotImplemented where it is none that matters here."""
    if path.startswith("math."):
        function = getattr(math, path[5:], None)
        values = [concrete(arg) for arg in args]
        if callable(function) and values and all(isinstance(value, (int, float)) for value in values):
            if path in ("math.factorial", "math.comb", "math.perm") and any(abs(value) > 1_000 for value in values):
                return Unknown("number")
            try:
                return function(*values)
            except (ValueError, OverflowError, TypeError):
                return Unknown("number")
        return Unknown("number", None, cuts_of(*args))
    handler = _STANDARD.get(path)
    return NotImplemented if handler is None else handler(m, args, kwargs, node)


def _deque(m: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    bound = concrete(args[1] if len(args) > 1 else kwargs.get("maxlen"))
    items = known_items(m, args[0], node) if args else []
    result = m.new_list(items or [], node, items is None)
    result.kind = "deque"
    result.bound = bound if isinstance(bound, int) else None
    return result


def _defaultdict(m: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return Dict({}, factory=args[0] if args else None, born=m.world.clock)


def _partial(m: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    function, given, named = args[0], args[1:], dict(kwargs)
    return Native("partial", lambda m2, more, extra, at: m2.call(function, [*given, *more], {**named, **extra}, at))


def _copy(m: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return m.torch.deep_copy(args[0] if args else None, node)


def _chain(m: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    items: list[Value] = []
    more = False
    for arg in args:
        known = known_items(m, arg, node)
        if known is None:
            more = True
            items.extend(m.elements(arg, node))
        else:
            items.extend(known)
    return m.new_list(items, node, more)


def _cycle(m: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    items = known_items(m, args[0], node) if args else None
    if items:
        return Stream(lambda: None, lambda index: items[index % len(items)])
    return m.stream(args[0] if args else Unknown(), node)


def _count(m: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    start = concrete(args[0]) if args else 0
    return Stream(lambda: None, lambda index: start + index if isinstance(start, int) else Unknown("count"))


def _islice(m: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    inner = m.stream(args[0] if args else Unknown(), node)
    stop = concrete(args[1]) if len(args) == 2 else None
    if isinstance(stop, int):
        return Stream(lambda: stop, inner.item, inner.sequential)
    return inner


def _reduce(m: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    items = list(m.elements(args[1], node)) if len(args) > 1 else []
    if len(args) > 2:
        items.insert(0, args[2])
    total: Value = items[0] if items else Unknown("reduce")
    for item in items[1:]:
        total = m.call(args[0], [total, item], {}, node)
    return total


def _choice(m: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    items = known_items(m, args[0], node) if args else None
    return items[0] if items else Unknown("choice")


def _sample(m: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    items = known_items(m, args[0], node) if args else None
    count = concrete(args[1] if len(args) > 1 else kwargs.get("k"))
    if items is None:
        return m.new_list(list(m.elements(args[0], node)), node, True) if args else Unknown("sample")
    if isinstance(count, int):
        return m.new_list(items[-count:] if count else [], node)
    return m.new_list(items, node, True)


def _exit(m: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    raise Signal("SystemExit")


def _field(m: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    result = Instance(None, "dataclasses.field")
    result.facts.update(kwargs)
    return result


def _namespace(m: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    result = Instance(None, "types.SimpleNamespace")
    for key, value in kwargs.items():
        if key != "**":
            m.set_attribute(result, key, value, node)
    return result


def _namedtuple(m: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    names = concrete(args[1]) if len(args) > 1 else None
    if isinstance(names, str):
        fields = names.replace(",", " ").split()
    else:
        known = known_items(m, names, node) or []
        fields = [name for name in known if isinstance(name, str)]
    definition = ast.ClassDef(
        str(concrete(args[0])), [], [], [], [],
        lineno=getattr(node, "lineno", 1), col_offset=getattr(node, "col_offset", 0),
    )  # fmt: skip
    cls = Class(str(concrete(args[0])), [Lib("typing.NamedTuple")], {}, m.module_of(m.envs[-1]), definition)
    cls.dataclass_fields = [(name, None, False) for name in fields]
    return cls


def _same(m: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return args[0] if args else Unknown("result")


def _wraps(m: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return Native("wraps", _same)


def _context_manager(m: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return args[0] if args else Unknown("contextmanager")


def _suppress(m: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return Unknown("contextlib.suppress")


_STANDARD: dict[str, Callable[[Machine, Args, Kwargs, ast.AST], Value]] = {
    "types.SimpleNamespace": _namespace, "argparse.Namespace": _namespace,
    "collections.deque": _deque, "collections.defaultdict": _defaultdict, "collections.OrderedDict": _dict,
    "collections.namedtuple": _namedtuple, "functools.partial": _partial, "functools.reduce": _reduce,
    "functools.wraps": _wraps, "functools.lru_cache": _wraps, "functools.cache": _same,
    "copy.deepcopy": _copy, "copy.copy": _copy, "itertools.chain": _chain, "itertools.cycle": _cycle,
    "itertools.chain.from_iterable": lambda m, args, kwargs, node: _chain(m, list(m.elements(args[0], node)), {}, node),
    "itertools.count": _count, "itertools.islice": _islice, "itertools.repeat": _cycle, "random.choice": _choice,
    "random.sample": _sample, "random.choices": _sample, "sys.exit": _exit, "os._exit": _exit,
    "dataclasses.field": _field, "contextlib.contextmanager": _context_manager,
    "contextlib.suppress": _suppress, "tqdm.tqdm": _same, "tqdm.auto.tqdm": _same, "tqdm.notebook.tqdm": _same,
    "tqdm.trange": _range, "tqdm.auto.trange": _range, "tqdm": _same, "typing.cast": lambda m, a, k, n: a[1],
    "tqdm.std.tqdm": _same, "dataclasses.dataclass": lambda m, a, k, n: a[0] if a else Native("dataclass", _same),
    "random.shuffle": lambda m, a, k, n: None, "builtins.super": _unknown,
    "operator.add": lambda m, a, k, n: m.binary(ast.Add(), a[0], a[1], n),
    "operator.mul": lambda m, a, k, n: m.binary(ast.Mult(), a[0], a[1], n),
}  # fmt: skip
