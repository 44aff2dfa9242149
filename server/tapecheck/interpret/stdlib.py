"""The standard library, as far as training code uses it."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from tapecheck.interpret import contexts, records
from tapecheck.interpret.builtin import make_dict, make_range, unknown
from tapecheck.interpret.containers import counter, known_items
from tapecheck.interpret.values import (
    Args,
    Bound,
    Dict,
    Function,
    Instance,
    Kwargs,
    Native,
    Signal,
    Stream,
    Unknown,
    Value,
    Wrapped,
    concrete,
)
from tapecheck.interpret.world import cuts_of

if TYPE_CHECKING:
    from tapecheck.interpret.machine import Machine


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
    result = make_dict(m, args[1:], kwargs, node)
    result.factory = args[0] if args else None
    return result


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


def _namespace(m: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    result = Instance(None, "types.SimpleNamespace")
    for key, value in kwargs.items():
        if key != "**":
            m.set_attribute(result, key, value, node)
    return result


def _same(m: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return args[0] if args else Unknown("result")


def _wraps(m: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    wrapped = args[0] if args else None

    def rename(m2: Machine, given: Args, named: Kwargs, at: ast.AST) -> Value:
        function = given[0] if given else Unknown("function")
        if isinstance(function, Function) and wrapped is not None:
            name = m2.get_attribute(wrapped, "__name__", at)
            if isinstance(name, str):
                function.attrs["__name__"] = name
        return function

    return Native("wraps", rename)


def _cache(m: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """`functools.cache`, and `lru_cache` with or without arguments."""
    if args and isinstance(args[0], (Function, Bound, Wrapped, Native)):
        return Wrapped("cache", args[0], Dict({}))
    return Native("lru_cache", lambda m2, given, named, at: Wrapped("cache", given[0], Dict({})))


def _cached_property(m: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    function = args[0]
    return Wrapped("cached_property", function, function.name if isinstance(function, Function) else "cached")


_STANDARD: dict[str, Callable[[Machine, Args, Kwargs, ast.AST], Value]] = {
    **records.FUNCTIONS,
    "types.SimpleNamespace": _namespace, "argparse.Namespace": _namespace,
    "collections.deque": _deque, "collections.defaultdict": _defaultdict, "collections.OrderedDict": make_dict,
    "collections.Counter": counter,
    "functools.partial": _partial, "functools.reduce": _reduce,
    "functools.wraps": _wraps, "functools.lru_cache": _cache, "functools.cache": _cache,
    "functools.cached_property": _cached_property,
    "copy.deepcopy": _copy, "copy.copy": _copy, "itertools.chain": _chain, "itertools.cycle": _cycle,
    "itertools.chain.from_iterable": lambda m, args, kwargs, node: _chain(m, list(m.elements(args[0], node)), {}, node),
    "itertools.count": _count, "itertools.islice": _islice, "itertools.repeat": _cycle, "random.choice": _choice,
    "random.sample": _sample, "random.choices": _sample, "sys.exit": _exit, "os._exit": _exit,
    "contextlib.contextmanager": contexts.contextmanager,
    "contextlib.asynccontextmanager": contexts.contextmanager,
    "contextlib.ExitStack": contexts.exit_stack, "contextlib.AsyncExitStack": contexts.exit_stack,
    "contextlib.nullcontext": contexts.nullcontext, "contextlib.closing": contexts.closing,
    "contextlib.suppress": contexts.suppress, "tqdm.tqdm": _same, "tqdm.auto.tqdm": _same, "tqdm.notebook.tqdm": _same,
    "tqdm.trange": make_range, "tqdm.auto.trange": make_range, "tqdm": _same, "typing.cast": lambda m, a, k, n: a[1],
    "tqdm.std.tqdm": _same, "dataclasses.dataclass": lambda m, a, k, n: a[0] if a else Native("dataclass", _same),
    "random.shuffle": lambda m, a, k, n: None, "builtins.super": unknown,
    "operator.add": lambda m, a, k, n: m.binary(ast.Add(), a[0], a[1], n),
    "operator.mul": lambda m, a, k, n: m.binary(ast.Mult(), a[0], a[1], n),
}  # fmt: skip

DECORATORS = frozenset((
    "contextlib.contextmanager", "contextlib.asynccontextmanager", "functools.lru_cache", "functools.cache",
    "functools.cached_property",
))  # fmt: skip
"""Those that decorate functions without being called first."""
