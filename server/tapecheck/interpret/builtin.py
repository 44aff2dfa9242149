"""Python's built-in functions, as far as training code uses them."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tapecheck.interpret.containers import dict_update, distinct, known_items, next_of, nothing, set_item
from tapecheck.interpret.unknowns import LOOP_BOUND, attribute_of_unknown
from tapecheck.interpret.values import (
    CONSTANTS,
    Args,
    Bound,
    Class,
    Dict,
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
    concrete,
)
from tapecheck.interpret.world import cuts_of

if TYPE_CHECKING:
    from tapecheck.interpret.machine import Machine


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


def make_range(m: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
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


def make_dict(m: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
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
    dict_update(m, result, [], kwargs, node)
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
    if isinstance(value, (*CONSTANTS, List, Dict, tuple, Tensor)):
        return False
    return Unknown("callable")


def unknown(m: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
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
        "print": _print, "len": _len, "range": make_range, "enumerate": _enumerate, "zip": _zip, "map": _map,
        "filter": _filter, "list": _list, "tuple": _tuple, "set": _set, "frozenset": _set, "dict": make_dict,
        "sum": _sum, "max": _extreme("max"), "min": _extreme("min"), "float": _number_of(float),
        "int": _number_of(int), "bool": _bool, "str": _str, "repr": _str, "abs": _abs, "pow": _pow,
        "round": _round, "isinstance": _isinstance, "hasattr": _hasattr, "getattr": _getattr,
        "setattr": _setattr, "type": _type, "iter": _iter, "next": _next, "reversed": _reversed,
        "sorted": _sorted, "any": _quantified(True), "all": _quantified(False), "callable": _callable,
        "vars": _vars, "locals": unknown, "globals": unknown, "property": _property,
        "staticmethod": _wrap("staticmethod"), "classmethod": _wrap("classmethod"), "id": unknown,
        "hash": unknown, "open": unknown, "input": unknown, "format": unknown, "divmod": unknown,
        "issubclass": unknown, "ord": unknown, "chr": unknown, "delattr": nothing, "exit": unknown,
    }.items()
}  # fmt: skip
NAMES.update({"object": Lib("builtins.object"), "NotImplemented": Unknown("NotImplemented"), "__name__": "__main__"})
