"""The standard library, as far as training code uses it."""

from __future__ import annotations

import ast
import itertools
import math
from collections.abc import Callable, Iterable
from collections.abc import Generator as PyGenerator
from typing import cast

from tapecheck.interpret import limits
from tapecheck.interpret.engine import Engine
from tapecheck.interpret.library import contexts, processes, tables, visible
from tapecheck.interpret.library.builtin import following, make_dict, make_range, unknown
from tapecheck.interpret.objects import lengths, queues, records, syntax
from tapecheck.interpret.objects.constants import computed
from tapecheck.interpret.objects.methods import counter, nothing
from tapecheck.interpret.objects.unknowns import default_of, derived, drawn, remembered, usually
from tapecheck.interpret.state import cuts_of
from tapecheck.interpret.values import (
    MORE,
    MORE_KEYWORDS,
    NO_MODEL,
    PICKED,
    Args,
    Cached,
    Dict,
    Extent,
    Function,
    Generator,
    Instance,
    Kind,
    Kwargs,
    List,
    Native,
    NotPlain,
    Signal,
    Stream,
    Unknown,
    Value,
    Wrapped,
    argument,
    behaviour,
    concrete,
    drawn_from,
    expression,
    is_constant,
    is_function,
    is_unseen,
    known_int,
    known_keywords,
    known_numbers,
    known_slice,
    known_text,
    path_of,
    plain,
    positional,
)


def standard_library(m: Engine, path: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Call a function of the standard library; NO_MODEL where it is none that matters here."""
    if path.startswith("math."):
        function: Callable[..., Value] | None = getattr(math, path[5:], None)
        values = known_numbers(args)
        if callable(function) and values:
            large = any(abs(value) > limits.MAX_EXPONENT for value in values)
            if large and path in ("math.factorial", "math.comb", "math.perm"):
                return Unknown.number()
            try:
                return function(*values)
            except (ValueError, OverflowError, TypeError):
                return Unknown.number()
        if path in ("math.prod", "math.fsum", "math.dist") and callable(function):
            try:
                return computed(m, Kind.NUMBER, function, *(plain(arg) for arg in args))
            except NotPlain:
                return Unknown.number(cuts_of(*args))
        return drawn_from(Unknown.number(cuts_of(*args)), args)
    handler = _STANDARD.get(path)
    if handler is None and path.startswith("operator."):
        handler = _operator(path[9:])
    return NO_MODEL if handler is None else handler(m, args, kwargs, node)


def _at_exit(m: Engine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """`atexit.register` keeps a function for the end, and returns it, as a decorator does."""
    if not args:
        return NO_MODEL
    function, *given = args
    m.exits.append(lambda: m.call(function, given, kwargs, node))
    return function


def _imported(m: Engine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """`importlib.import_module` gives the module of a name; where options choose it that of their defaults."""
    name, package = argument(args, kwargs, 0, "name"), known_text(argument(args, kwargs, 1, "package"))
    text = known_text(name) or known_text(default_of(name))
    if text is None or (text.startswith(".") and (package is None or text.startswith(".."))):
        return NO_MODEL
    if known_text(name) is None and not tables.keeps_default(m, name, cast(ast.expr, node)):
        return NO_MODEL
    module = m.import_module(f"{package}{text}" if text.startswith(".") else text, node, 0)
    return NO_MODEL if path_of(module) and not visible.modelled(text) else module


def _deque(m: Engine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    items, rest = m.gathered(args[0], node) if args and behaviour(args[0]).rest() & PICKED else (None, 0)
    if items is None:
        items = behaviour(args[0]).known_items(m, node) if args else []
        rest = MORE * (items is None)
    result = m.new_list(items or [], node, rest)
    result.kind = "deque"
    most = concrete(argument(args, kwargs, 1, "maxlen"))
    result.bound, result.limit = known_int(most), most if isinstance(most, Unknown) else None
    return result


def _defaultdict(m: Engine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    result = make_dict(m, args[1:], kwargs, node)
    result.factory = positional(args, 0)
    return result


def _partial(m: Engine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    function, given, named = args[0], args[1:], dict(kwargs)
    made = Instance(None, "functools.partial")
    keywords = Dict(dict(known_keywords(named).items()), more=MORE_KEYWORDS in named)
    made.attrs.update({"func": function, "args": tuple(given), "keywords": keywords})
    made.attrs["__call__"] = Native(
        "partial", lambda m2, more, extra, at: m2.call(function, [*given, *more], {**named, **extra}, at)
    )
    return made


def _partialmethod(m: Engine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    function, given, named = args[0], args[1:], known_keywords(kwargs)
    return Wrapped(
        "method",
        Native("partialmethod", lambda m2, more, extra, at: m2.call(
            function, [*more[:1], *given, *more[1:]], {**named, **extra}, at
        )),
    )  # fmt: skip


def _singledispatch(m: Engine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """functools.singledispatch: the function registered for the class of the first argument."""
    made = Instance(None, "functools.singledispatch")
    table: list[tuple[Value, Value]] = []

    def call(m2: Engine, given: Args, named: Kwargs, at: ast.AST) -> Value:
        for kind, function in reversed(table):
            fits = m2.library.is_instance(given[0], kind) if given else False
            if fits:
                return m2.call(function, given, named, at)
            if fits is None:
                return m2.library.opaque_result("singledispatch", given, named, at)
        return m2.call(args[0], given, named, at)

    def register(m2: Engine, given: Args, named: Kwargs, at: ast.AST) -> Value:
        first = given[0] if given else None
        if isinstance(first, Function):
            annotation = next((p.annotation for p in first.node.args.args), None)
            kind = m2.eval(annotation, first.env) if annotation is not None else Unknown.plain("type")
            table.append((kind, first))
            return first
        if len(given) > 1:
            table.append((first, given[1]))
            return given[1]

        def add(m3: Engine, more: Args, extra: Kwargs, place: ast.AST) -> Value:
            table.append((first, more[0]))
            return more[0]

        return Native("register", add)

    made.attrs["__call__"] = Native("singledispatch", call)
    made.attrs["register"] = Native("register", register)
    return made


def _item_getter(m: Engine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    def get(m2: Engine, given: Args, named: Kwargs, at: ast.AST) -> Value:
        found = [m2.get_item(given[0], index, at) for index in args]
        return found[0] if len(found) == 1 else tuple(found)

    return Native("itemgetter", get)


def _attribute_getter(m: Engine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    def get(m2: Engine, given: Args, named: Kwargs, at: ast.AST) -> Value:
        found: list[Value] = []
        for path in args:
            value = given[0]
            for name in str(path).split("."):
                value = m2.get_attribute(value, name, at)
            found.append(value)
        return found[0] if len(found) == 1 else tuple(found)

    return Native("attrgetter", get)


def _method_caller(m: Engine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return Native(
        "methodcaller",
        lambda m2, given, named, at: m2.call(
            m2.get_attribute(given[0], str(args[0]), at), list(args[1:]), dict(kwargs), at
        ),
    )


def _operator(name: str) -> Callable[[Engine, Args, Kwargs, ast.AST], Value] | None:
    """Return a function of the operator module as its operator; None where it stands for none."""
    if name in _OPERATORS:
        op = _OPERATORS[name]
        if isinstance(op, ast.operator):
            return lambda m, a, k, n: m.binary(op, a[0], a[1], n)
        if isinstance(op, ast.cmpop):
            return lambda m, a, k, n: (
                m.compare(op, a[1], a[0], n) if name == "contains" else m.compare(op, a[0], a[1], n)
            )
    return None


_OPERATORS: dict[str, ast.operator | ast.cmpop] = {
    "add": ast.Add(), "sub": ast.Sub(), "mul": ast.Mult(), "truediv": ast.Div(), "floordiv": ast.FloorDiv(),
    "mod": ast.Mod(), "pow": ast.Pow(), "matmul": ast.MatMult(), "and_": ast.BitAnd(), "or_": ast.BitOr(),
    "xor": ast.BitXor(), "concat": ast.Add(), "lshift": ast.LShift(), "rshift": ast.RShift(), "iadd": ast.Add(),
    "eq": ast.Eq(), "ne": ast.NotEq(), "lt": ast.Lt(), "le": ast.LtE(), "gt": ast.Gt(), "ge": ast.GtE(),
    "is_": ast.Is(), "is_not": ast.IsNot(), "contains": ast.In(),
}  # fmt: skip
"""What `lru_cache` remembers where nothing else is said."""


def _awaited(m: Engine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return tuple(args) if len(args) != 1 else args[0]


def _copy(m: Engine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return m.library.copy_of(positional(args, 0), node)


def _shallow(m: Engine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return m.library.copy_of(positional(args, 0), node, shallow=True)


def _environment(m: Engine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    default = argument(args, kwargs, 1, "default")
    found = remembered(m.world, ("os.getenv", *(expression(part) for part in (*args[:1], default))), "os.getenv()")
    if is_constant(default):
        usually(found, default)
    return found


def _chain(m: Engine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Return the elements of one iterable after the other, each asked for when it is needed."""
    streams = [m.stream(arg, node) for arg in args]
    openly = any(stream.length() is None for stream in streams)
    # What a container holds is there, whether or not there is more of it.
    if all((stream.length() is not None or stream.known) and not stream.sequential for stream in streams):
        items = [item for arg in args for item in m.elements(arg, node)]
        rest = (MORE if openly else 0) | (PICKED if any(stream.rest() for stream in streams) else 0)
        return m.stream(m.new_list(items, node, rest), node)
    extent = Extent(not openly)

    def run() -> PyGenerator[Value, Value, Value]:
        for stream in streams:
            yield from m.elements(stream, node, perhaps_none=True)
            extent.picked = extent.picked or bool(stream.rest() & PICKED)
        return None

    return Generator(run(), m.envs[-1], extent=extent)


def _cycle(m: Engine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    items = behaviour(args[0]).known_items(m, node) if args else None
    if items:
        return Stream(lambda: None, lambda index: items[index % len(items)], endless=True, over=(args[0],))
    return m.stream(positional(args, 0, Unknown()), node)


def _repeat(m: Engine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    value = positional(args, 0)
    times = known_int(argument(args, kwargs, 1, "times"))
    return Stream(lambda: times, lambda index: value, endless=len(args) + len(kwargs) == 1, over=(value,))


def _count(m: Engine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    given = known_numbers([argument(args, kwargs, 0, "start", 0), argument(args, kwargs, 1, "step", 1)])
    if given is None:
        return Stream(lambda: None, lambda index: Unknown.plain("count"), endless=True)
    start, step = given
    return Stream(lambda: None, lambda index: start + index * step, endless=True)


def _islice(m: Engine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    given = positional(args, 0, Unknown())
    inner = m.stream(given, node)
    bounds = [concrete(arg) for arg in args[1:]]
    part = known_slice(([None, *bounds, None] if len(bounds) == 1 else [*bounds, None])[:3])
    if part is None and isinstance(given, (List, tuple)):
        return m.stream(behaviour(given).part(m, slice(*args[1:]), node), node)
    if part is None and inner.count is not None and any(map(lengths.hangs_on_length, args[1:])):
        ends = (None, *args[1:], None) if len(bounds) == 1 else (*args[1:], None)
        count = derived(Kind.WHOLE, "len", "part", inner.count, *ends[:3])
        if lengths.stays_short(count):
            m.guessed(count, node)
            return Stream(lambda: known_int(count), following(inner), inner.sequential, over=(inner,), count=count)
    if part is None:
        return Stream(lambda: None, inner.item, inner.sequential, inner.next, over=(inner,), settled=True)
    base, start, stop, step = inner.next, part.start or 0, part.stop, 1 if part.step is None else part.step

    def length() -> int | None:
        whole = inner.length()
        ends = [end for end in (None if whole is None else whole - base, stop) if end is not None]
        return len(range(start, min(ends), step)) if ends else None

    def item(index: int) -> Value:
        place = base + start + index * step
        if inner.sequential:
            for earlier in range(inner.next, place):
                inner.item(earlier)
        value = inner.item(place)
        inner.next = max(inner.next, place + 1)
        return value

    return Stream(length, item, inner.sequential, over=(inner,))


def _combined(
    function: Callable[..., Iterable[Value]], counts: int = 0
) -> Callable[[Engine, Args, Kwargs, ast.AST], Value]:
    """Return a function of itertools that only rearranges elements; `counts` of its last arguments are numbers."""

    def run(m: Engine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        numbers = [concrete(arg) for arg in args[len(args) - counts :]] if len(args) > counts else []
        listed = [m.gathered(arg, node) for arg in args[: len(args) - len(numbers)]]
        named = {key: concrete(value) for key, value in known_keywords(kwargs).items()}
        plain = all(number is None or isinstance(number, int) for number in (*numbers, *named.values()))
        if not plain or any(rest for _, rest in listed):
            return Unknown.named(function.__name__)
        most = limits.MAX_COMBINED
        made = list(itertools.islice(function(*(items for items, _ in listed), *numbers, **named), most + 1))
        return m.stream(m.new_list(made[:most], node, len(made) > most), node)

    return run


def _zip_longest(m: Engine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    listed = [m.gathered(arg, node) for arg in args]
    rows: list[Value] = list(itertools.zip_longest(*(items for items, _ in listed), fillvalue=kwargs.get("fillvalue")))
    rest = 0
    for _, more in listed:
        rest |= more
    return m.stream(m.new_list(rows, node, rest), node)


def _accumulate(m: Engine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    items, rest = m.gathered(args[0], node)
    function = argument(args, kwargs, 1, "func")
    if kwargs.get("initial") is not None:
        items.insert(0, kwargs["initial"])
    made: list[Value] = []
    for item in items:
        if not made:
            made.append(item)
        elif function is None:
            made.append(m.binary(ast.Add(), made[-1], item, node))
        else:
            made.append(m.call(function, [made[-1], item], {}, node))
    return m.stream(m.new_list(made, node, rest), node)


def _while_true(dropping: bool) -> Callable[[Engine, Args, Kwargs, ast.AST], Value]:
    """Model `takewhile` and `dropwhile`."""

    def run(m: Engine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        items, rest = m.gathered(args[1], node)
        made: list[Value] = []
        for place, item in enumerate(items):
            truth = m.known_truth(m.call(args[0], [item], {}, node))
            if truth is None:
                return m.new_list(items, node, rest | PICKED)
            if not truth:
                made = items[place:] if dropping else made
                break
            if not dropping:
                made.append(item)
        return m.stream(m.new_list(made, node, rest), node)

    return run


def _starmap(m: Engine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    rows, rest = m.gathered(args[1], node)
    made = [m.call(args[0], list(m.elements(row, node)), {}, node) for row in rows]
    return m.stream(m.new_list(made, node, rest), node)


def _selected(kept: bool) -> Callable[[Engine, Args, Kwargs, ast.AST], Value]:
    """Model `filterfalse` and `compress`: elements that a function, or a list beside them, selects."""

    def run(m: Engine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        items, rest = m.gathered(args[0] if kept else args[1], node)
        truths = (
            [m.known_truth(item) for item in m.gathered(args[1], node)[0]]
            if kept
            else [m.known_truth(item if args[0] is None else m.call(args[0], [item], {}, node)) for item in items]
        )
        rest |= PICKED * (None in truths)
        chosen = [item for item, truth in zip(items, truths) if truth is None or truth == kept]
        return m.stream(m.new_list(m.library.drawn(chosen, node) if rest else chosen, node, rest), node)

    return run


def _groupby(m: Engine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    items, rest = m.gathered(args[0], node)
    key = argument(args, kwargs, 1, "key")
    groups: list[tuple[Value, list[Value]]] = []
    for item in items:
        value = item if key is None else m.call(key, [item], {}, node)
        same = m.known_truth(m.compare(ast.Eq(), groups[-1][0], value, node)) if groups else False
        if same is None:
            return Unknown("groupby")
        if same:
            groups[-1][1].append(item)
        else:
            groups.append((value, [item]))
    made: list[Value] = [(value, m.stream(m.new_list(members, node), node)) for value, members in groups]
    return m.stream(m.new_list(made, node, rest), node)


def _tee(m: Engine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    count = known_int(args[1]) if len(args) > 1 else 2
    items, rest = m.gathered(args[0], node)
    copies = count if count is not None and 0 <= count <= limits.MAX_COMBINED else 2
    return tuple(m.stream(m.new_list(items, node, rest), node) for _ in range(copies))


def _reduce(m: Engine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    items = m.gathered(args[1], node, perhaps_none=len(args) > 2)[0] if len(args) > 1 else []
    if len(args) > 2:
        items.insert(0, args[2])
    if not items:
        return Unknown("reduce")
    total = m.new_list(items[:1], node)
    for item in m.trained(iter(items[1:]), node, total, Extent()):
        total.items = [m.call(args[0], [total.items[0], item], {}, node)]
    return total.items[0]


def _choice(m: Engine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    items = behaviour(args[0]).known_items(m, node) if args else None
    if not items:
        return Unknown("choice")
    which = Unknown.whole(syntax.text_of(node) if isinstance(node, ast.expr) else "choice")
    drawn(which)
    return m.library.chosen(which, [*enumerate(items)], node)


def _sample(m: Engine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    items = behaviour(args[0]).known_items(m, node) if args else None
    count = known_int(argument(args, kwargs, 1, "k"))
    if items is None:
        return m.new_list(list(m.elements(args[0], node)), node, True) if args else Unknown("sample")
    drawn = m.library.drawn(items, node)
    if count is None:
        return m.new_list(drawn, node, True)
    # The newest ones, where nothing differs.
    return m.new_list(items[-count:] if count and drawn is items else drawn[:count], node)


def _shuffle(m: Engine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    if args and isinstance(args[0], List) and not args[0].more:
        args[0].items[:] = m.library.drawn(args[0].items, node)
    return None


def _exit(m: Engine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    raise Signal("SystemExit")


def _weak(m: Engine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """`weakref.ref`: the object is not gone as long as the program asks for it."""
    return Native("ref", lambda m2, given, named, at: args[0], receiver=args[0])


def _namespace(m: Engine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    result = Instance(None, "types.SimpleNamespace", born=m.world.position.clock)
    for key, value in kwargs.items():
        if key != MORE_KEYWORDS:
            m.set_attribute(result, key, value, node)
    return result


def _same(m: Engine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return argument(args, kwargs, 0, "iterable", Unknown("result"))


def _bar(m: Engine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Return what a progress bar goes over, which has the bar's methods from now on."""
    shown = _same(m, args, kwargs, node)
    m.world.knowledge.bars[id(shown)] = shown
    return shown


def _wraps(m: Engine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    wrapped = positional(args, 0)

    def rename(m2: Engine, given: Args, named: Kwargs, at: ast.AST) -> Value:
        function = given[0] if given else Unknown("function")
        if isinstance(function, Function) and wrapped is not None:
            name = known_text(m2.get_attribute(wrapped, "__name__", at))
            if name is not None:
                function.attrs["__name__"] = name
        return function

    return Native("wraps", rename)


def _cache(m: Engine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """`functools.lru_cache`, with or without arguments."""
    # Python's own default.
    size = 128
    if args and (is_function(args[0]) or isinstance(args[0], Native)):
        return Cached("cache", args[0], bound=size)
    bound = known_int(argument(args, kwargs, 0, "maxsize", size))

    def cached(m2: Engine, given: Args, named: Kwargs, at: ast.AST) -> Value:
        if args and is_unseen(args[0]) and not (given and behaviour(given[0]).is_callable is not False):
            # It was no size, but the function itself.
            return m2.call(args[0], given, named, at)
        return Cached("cache", given[0], bound=bound)

    return Native("lru_cache", cached)


def _cached_property(m: Engine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    function = args[0]
    return Wrapped("cached_property", function, function.name if isinstance(function, Function) else "cached")


def _not(machine: Engine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    truth = machine.known_truth(args[0])
    return Unknown.plain("not") if truth is None else not truth


def _new_object(machine: Engine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return machine.library.bare_object(args[0])


def _set_attribute(machine: Engine, args: Args, kwargs: Kwargs, node: ast.AST) -> None:
    owner, name, value = args
    if isinstance(owner, Instance) and isinstance(name, str):
        machine.store_attribute(owner, name, value, node)


def _clock(machine: Engine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    machine.world.writer.clock()
    return NO_MODEL


_CLOCKS = ("time", "perf_counter", "monotonic", "process_time", "thread_time")

_STANDARD: dict[str, Callable[[Engine, Args, Kwargs, ast.AST], Value]] = {
    **records.FUNCTIONS, "importlib.import_module": _imported,
    "types.SimpleNamespace": _namespace, "argparse.Namespace": _namespace,
    "collections.deque": _deque, "collections.defaultdict": _defaultdict, "collections.OrderedDict": make_dict,
    "collections.Counter": counter, "weakref.ref": _weak, "weakref.proxy": lambda m, a, k, n: a[0],
    "queue.Queue": queues.made("first"), "queue.SimpleQueue": queues.made("first"),
    "queue.LifoQueue": queues.made("last"), "queue.PriorityQueue": queues.made("least"),
    "heapq.heappush": queues.push, "heapq.heappop": queues.pop, "heapq.heappushpop": queues.push_and_pop,
    "heapq.heapreplace": queues.push_and_pop,
    "functools.partial": _partial, "functools.reduce": _reduce,
    "functools.wraps": _wraps, "functools.lru_cache": _cache,
    "functools.cache": lambda m, a, k, n: Cached("cache", a[0]) if a else Unknown("cache"),
    "functools.cached_property": _cached_property,
    "copy.deepcopy": _copy, "copy.copy": _shallow, "itertools.chain": _chain, "itertools.cycle": _cycle,
    "itertools.chain.from_iterable": lambda m, a, k, n: _chain(m, list(m.elements(a[0], n)), {}, n),
    "itertools.count": _count, "itertools.islice": _islice, "itertools.repeat": _repeat, "random.choice": _choice,
    "random.sample": _sample, "random.choices": _sample, "sys.exit": _exit, "os._exit": _exit,
    "atexit.register": _at_exit,
    "contextlib.contextmanager": contexts.contextmanager,
    "contextlib.asynccontextmanager": contexts.contextmanager,
    "contextlib.ExitStack": contexts.exit_stack, "contextlib.AsyncExitStack": contexts.exit_stack,
    "contextlib.nullcontext": contexts.nullcontext, "contextlib.closing": contexts.closing,
    "contextlib.suppress": contexts.suppress, "tqdm.tqdm": _bar, "tqdm.auto.tqdm": _bar, "tqdm.notebook.tqdm": _bar,
    "tqdm.trange": make_range, "tqdm.auto.trange": make_range, "tqdm": _bar, "typing.cast": lambda m, a, k, n: a[1],
    "tqdm.std.tqdm": _bar, "tqdm.rich.tqdm": _bar, "tqdm.autonotebook.tqdm": _bar, "rich.progress.track": _same,
    "accelerate.utils.tqdm": _bar, "fastprogress.progress_bar": _bar, "fastprogress.master_bar": _bar,
    "dataclasses.dataclass": lambda m, a, k, n: a[0] if a else Native("dataclass", _same),
    "random.shuffle": _shuffle, "builtins.super": unknown,
    "os.getenv": _environment, "operator.itemgetter": _item_getter, "operator.attrgetter": _attribute_getter,
    "operator.methodcaller": _method_caller,
    "operator.neg": lambda m, a, k, n: m.binary(ast.Mult(), a[0], -1, n),
    "operator.not_": _not,
    "operator.abs": lambda m, a, k, n: m.call(m.library.builtins["abs"], a, k, n),
    "operator.truth": lambda m, a, k, n: m.known_truth(a[0]),
    "operator.getitem": lambda m, a, k, n: m.get_item(a[0], a[1], n),
    "itertools.product": _combined(itertools.product), "itertools.permutations": _combined(itertools.permutations, 1),
    "itertools.combinations": _combined(itertools.combinations, 1), "itertools.pairwise": _combined(itertools.pairwise),
    "itertools.combinations_with_replacement": _combined(itertools.combinations_with_replacement, 1),
    "itertools.zip_longest": _zip_longest, "itertools.accumulate": _accumulate, "itertools.starmap": _starmap,
    "itertools.takewhile": _while_true(False), "itertools.dropwhile": _while_true(True),
    "itertools.compress": _selected(True), "itertools.filterfalse": _selected(False),
    "itertools.groupby": _groupby, "itertools.tee": _tee, "functools.partialmethod": _partialmethod,
    "functools.singledispatch": _singledispatch, "asyncio.run": _awaited,
    "asyncio.gather": lambda m, a, k, n: m.new_list(list(a), n),
    "asyncio.create_task": _awaited, "asyncio.wait_for": lambda m, a, k, n: a[0], "asyncio.sleep": nothing,
    "asyncio.ensure_future": _awaited, "builtins.object.__new__": _new_object,
    "builtins.object.__setattr__": _set_attribute,
    **{path: processes.worker(path) for path in processes.CLASSES},
    **{f"time.{name}{unit}": _clock for name in _CLOCKS for unit in ("", "_ns")}, "timeit.default_timer": _clock,
    "torch.multiprocessing.spawn": processes.spawn, "torch.multiprocessing.spawn.spawn": processes.spawn,
}  # fmt: skip

DECORATORS = frozenset((
    "contextlib.contextmanager", "contextlib.asynccontextmanager", "functools.lru_cache", "functools.cache",
    "functools.cached_property", "functools.singledispatch",
))  # fmt: skip
"""Those that decorate functions without being called first."""
