"""Python's built-in functions, as far as training code uses them."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Sequence
from contextlib import suppress

from tapecheck.interpret import limits
from tapecheck.interpret.engine import Engine
from tapecheck.interpret.library import replays, texts
from tapecheck.interpret.library.states import LoaderState, state_of
from tapecheck.interpret.objects import lengths, syntax
from tapecheck.interpret.objects.algebra import dict_update, ordered, stored_under
from tapecheck.interpret.objects.constants import computed, formatted, text_of
from tapecheck.interpret.objects.containers import of_library
from tapecheck.interpret.objects.methods import distinct, has_method, in_unknown_order
from tapecheck.interpret.objects.namespaces import Attributes, Names, copied_items
from tapecheck.interpret.objects.unknowns import (
    TYPE_OF,
    default_of,
    derived,
    drawn,
    guessed,
    hidden,
    reckoned,
    remembered,
    resolved,
    setting,
    usually,
)
from tapecheck.interpret.state import cuts_of
from tapecheck.interpret.values import (
    MORE,
    MORE_KEYWORDS,
    PICKED,
    Args,
    Class,
    Container,
    Dict,
    Env,
    Generator,
    Instance,
    Kept,
    Kind,
    Kwargs,
    Lib,
    List,
    Mark,
    Module,
    Native,
    NotPlain,
    Origin,
    Range,
    Set,
    Signal,
    Stream,
    Tensor,
    Unknown,
    Value,
    Wrapped,
    Wrapping,
    argument,
    behaviour,
    bound_length,
    concrete,
    copied,
    is_module,
    is_open,
    is_parameter,
    is_unseen,
    known_int,
    known_numbers,
    known_text,
    listed,
    marked,
    may_carry,
    measured,
    note_first_graph,
    on_graph,
    only,
    path_of,
    plain,
    positional,
    settle_on,
    unwrapped,
)
from tapecheck.interpret.values.vocabulary import ANY_LAYER, ANY_NAME
from tapecheck.source.nodes import of_kind, walk, written_argument
from tapecheck.tape import Bind


def _print(m: Engine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    m.world.modes.compiling.breaks += 1
    replays.read(m.world, only(args, Tensor), node)
    return None


def only_shown(m: Engine, node: ast.AST) -> bool:
    """Return whether an expression is part of a statement that prints, or of a text: nothing reckons with its value."""
    texts: list[ast.AST]
    match m.world.position.discarded:
        case ast.Call(func=ast.Name(id="print")) as printed:
            texts = [printed]
        case ast.Call() as statement:
            texts = of_kind(statement, ast.JoinedStr)
        case _:
            return False
    return any(part is node for text in texts for part in walk(text))


def length_unknown(m: Engine, value: Value, node: ast.AST) -> Value:
    """Return the length of what has none that Python's side knows."""
    if isinstance(value, Tensor):
        if value.length is None:
            value.length = Unknown.whole("len")
            value.length.origin = Origin("len", (value,))
        return concrete(value.length)
    if isinstance(named := setting(m, value), Unknown):
        return named.size(m, node)
    if path := path_of(value):
        measured = remembered(m.world, ("len", path), "len", Kind.WHOLE)
        measured.origin = Origin("len", (setting(m, value),))
        return measured
    if not isinstance(value, Instance):
        return Unknown.whole("len")
    loader = state_of(value, LoaderState)
    if loader is None:
        known = m.library.object_stream(value, node)
        length = known.length() if known is not None else None
        if length is not None:
            return length
    asked = m.library.length_of(value, node)
    if loader is None or not only_shown(m, node):
        # No loop has to agree with what is only printed of it.
        asked.not_negative()
    if loader is not None and loader.iterated:
        guessed(m, asked, node, limits.BATCHES_BOUND)
    return asked.itself()


def _len(m: Engine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return behaviour(positional(args, 0, Unknown())).size(m, node)


def make_range(m: Engine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    if not args:
        return Unknown("range")
    made = _range_of(m, args, node)
    if isinstance(made, Range):
        m.world.choices.goes_over(node, len(made))
    return made


def _range_of(m: Engine, args: Args, node: ast.AST) -> Value:
    last = args[0] if len(args) == 1 else args[1]
    if (reckoned_with := _reckoned_range(m, args, node)) is not None:
        return reckoned_with
    step = known_int(args[2]) if len(args) > 2 else 1
    start = _bound(concrete(args[0]), 0, False) if len(args) > 1 else 0
    if start is None:
        return Unknown("range")
    unseen = hidden(m, last)
    stop, settled = _end_of_range(m, last, start, step, node)
    by = _bound(concrete(args[2]), 1, False) if stop is not None and len(args) > 2 else 1
    if stop is None or not by:
        return Unknown("range")
    # Settled on or not: that is for this way only.
    default = known_int(default_of(last))
    usual = default - start if default is not None and step == 1 else None
    return Range(start, stop, by, usual, settled, usual is None and unseen, _is_open(setting(m, last), stop))


def _reckoned_range(m: Engine, args: Args, node: ast.AST) -> Range | None:
    """Return a range whose bounds are worked out from a length, and that need not grow with it; None of any other."""
    if not any(map(is_open, args)):
        return None
    bounds = [0, args[0], 1] if len(args) == 1 else [*args, 1][:3]
    count = derived(Kind.WHOLE, "len", "rounds", *bounds)
    found = reckoned(m, count, _last_argument(node))
    if found is None:
        return None
    known = [lengths.whole(one) for one in bounds]
    start, stop, step = known
    if start is None or stop is None or not step:
        return Range(0, found, 1, hidden=hidden(m, count))
    return Range(start, stop, step, hidden=hidden(m, count))


def _last_argument(node: ast.AST) -> ast.AST:
    return node.args[-1] if isinstance(node, ast.Call) and node.args else node


def _may_be_any(end: Unknown) -> bool:
    """Whether nobody has settled on an end, and it may be as large as any."""
    return end.concrete is None and (end.shown.bounds is None or end.shown.bounds[1] == math.inf)


def _is_open(last: Value, stop: int) -> bool:
    """Whether nobody knows where a range ends that stops there in this way."""
    return isinstance(last, Tensor) or (
        isinstance(last, Unknown) and (last.shown.bounds is None or last.shown.bounds[1] > stop)
    )


def _end_of_range(
    m: Engine, last: Value, start: int, step: int | None, node: ast.AST
) -> tuple[int | None, Unknown | None]:
    """Return where a range ends, None where that is no whole number, and the unknown that was settled on for it."""
    given = resolved(m, setting(m, last), node)
    settled: Unknown | None = None
    if isinstance(given, Unknown) and _may_be_any(given) and step == 1:
        settled = given
    # An unknown end is as many steps away as an unknown loop has iterations, however long they are.
    usual = start + limits.LOOP_BOUND * (step or 1)
    if isinstance(given, Unknown):
        guessed(m, given, _last_argument(node), usual, asked=True)
    return _bound(given, usual, True), settled


def _bound(value: Value, usual: int, last: bool) -> int | None:
    """Return a bound of a range, as it is known or settled on; None where it is no whole number."""
    if isinstance(value, Unknown):
        settle_on(value, bound_length(value, usual) if last else usual)
    known = [usual] if isinstance(value, Tensor) else known_numbers([value])
    return int(known[0]) if known and math.isfinite(known[0]) and known[0] == int(known[0]) else None


def following(inner: Stream) -> Callable[[int], Value]:
    """Return the elements of a stream from where it stands, by their number; an iterator is used up by it."""
    start = inner.next

    def item(index: int) -> Value:
        value = inner.item(start + index)
        inner.next = max(inner.next, start + index + 1)
        return value

    return item


def remaining(inner: Stream) -> Callable[[], int | None]:
    """How many elements a stream has from where it stands now."""
    start = inner.next

    def length() -> int | None:
        whole = inner.length()
        return None if whole is None else max(whole - start, 0)

    return length


def _enumerate(m: Engine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    inner = m.stream(argument(args, kwargs, 0, "iterable", Unknown()), node)
    first = known_int(argument(args, kwargs, 1, "start", 0))
    item = following(inner)
    return Stream(
        remaining(inner),
        lambda index: (first + index if first is not None else Unknown.whole("index"), item(index)),
        inner.sequential,
        sources=(inner,),
        held=inner.held,
        lengthen=inner.lengthen,
        cut=inner.cut,
        count=inner.count,
    )


def _zip(m: Engine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    streams = [m.stream(arg, node) for arg in args]
    lengths, items = [remaining(stream) for stream in streams], [following(stream) for stream in streams]
    if not streams:
        return m.new_list([], node)
    strict = m.known_truth(kwargs.get("strict", False)) and not any(s.sequential for s in streams)
    if strict and m.expects("ValueError"):
        sizes = {length() for length in lengths}
        if len(sizes) > 1 and None not in sizes:
            raise Signal("ValueError")

    def length() -> int | None:
        sizes = [length() for length in lengths]
        shortest = min((size for size in sizes if size is not None), default=None)
        # A stream that ends by itself says nothing about the length of the others.
        if shortest is None or (None in sizes and shortest >= limits.COUNTABLE):
            return None
        return shortest

    def row(index: int) -> Value:
        found = [item(index) for item in items]
        # `zip(*rows)` of rows that nobody has counted.
        return List(found, more=True) if MORE_KEYWORDS in kwargs else tuple(found)

    return Stream(
        length,
        row,
        any(s.sequential for s in streams),
        sources=(*streams,),
        held=all(s.held for s in streams),
        one_way=all(s.one_way for s in streams),
        count=_shortest(streams),
    )


def _shortest(streams: Sequence[Stream]) -> Value:
    """Return the unknown that says how many elements the shortest of some streams has, or that hangs on it."""
    counts = list(dict.fromkeys(only((stream.count for stream in streams), Unknown)))
    if len(counts) == 1 and all(stream.count is not None for stream in streams):
        return counts[0]
    return Unknown.hanging_on("len", Kind.WHOLE, *counts) if counts else None


def _map(m: Engine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    streams = [m.stream(arg, node) for arg in args[1:]]
    if not streams:
        return Unknown("map")
    lengths, items = [remaining(stream) for stream in streams], [following(stream) for stream in streams]
    made: dict[int, Value] = {}

    def item(index: int) -> Value:
        if index not in made:
            made[index] = m.call(args[0], [item(index) for item in items], {}, node)
        return made[index]

    def length() -> int | None:
        known = [length() for length in lengths]
        return None if None in known else min(size for size in known if size is not None)

    one_way = of_library(m, args[0]) and all(stream.one_way for stream in streams)
    sequential = any(stream.sequential for stream in streams)
    return Stream(
        length, item, sequential, sources=(*streams,), over=(args[0],), one_way=one_way, count=_shortest(streams)
    )


def _filter(m: Engine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    items: list[Value] = []
    source = m.stream(positional(args, 1, Unknown()), node)
    rest = MORE * (source.length() is None)
    for item in m.elements(source, node):
        truth = m.known_truth(m.call(args[0], [item], {}, node) if args[0] is not None else item)
        rest |= PICKED * (truth is None)
        if truth is not False:
            items.append(item)
    rest |= source.rest()
    return m.new_list(m.library.drawn(items, node) if rest else items, node, rest)


def _counted(m: Engine, args: Args, node: ast.AST) -> Value:
    """Return the unknown that says how many elements the first argument has, if one does; nothing is run for it."""
    given = setting(m, positional(args, 0))
    match given:
        case Container():
            return given.unknown_length()
        case Generator():
            return given.extent.count
        case Stream():
            return given.count
        case Unknown():
            return given.asked_length()
        case Instance(state=LoaderState()):
            return m.library.length_of(given, node)
    return None


def _cut_short(args: Args) -> int | None:
    """Return how many more elements the first argument has because a loop was cut short; None where nobody knows."""
    given = positional(args, 0)
    match given:
        case Generator():
            return given.extent.cut
        case List() | Stream():
            return given.cut
    return 0


def _list(m: Engine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    count, cut = _counted(m, args, node), _cut_short(args)
    items, rest = m.gathered(args[0], node, perhaps_none=True) if args else ([], 0)
    made = measured(m.new_list(items, node, rest), count)
    made.cut = cut
    return made


def _tuple(m: Engine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    made = _list(m, args, kwargs, node)
    # One whose elements are all known is a tuple of Python's.
    return tuple(made.items) if isinstance(made, List) and not made.more and made.cut == 0 else made


def _set(m: Engine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    items, rest = m.gathered(args[0], node, perhaps_none=True) if args else ([], 0)
    return Set(items if rest else distinct(items), rest)


def make_dict(m: Engine, args: Args, kwargs: Kwargs, node: ast.AST) -> Dict:
    result = Dict({}, born=m.world.position.clock)
    given = args[:1]
    if isinstance(first := unwrapped(positional(args, 0)), Dict):
        result.items = copied_items(first.items)
        result.slots, result.more, given = copied(first.slots), first.more, []
    dict_update(m, result, given, kwargs, node)
    return result


def _sum(m: Engine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    total: Value = argument(args, kwargs, 1, "start", 0)
    if not args:
        return total
    count, cut = _counted(m, args, node), _cut_short(args)
    items, rest = m.gathered(args[0], node)
    for item in items:
        total = m.binary(ast.Add(), total, item, node)
    numbers = (rest or cut != 0) and isinstance(total, (int, float))
    return Unknown.hanging_on("sum", Kind.ANY, count, *items[:1]) if numbers else total


def _one_of(name: str, items: list[Value]) -> Value:
    """Return the least or the largest of some values where their order is not known."""
    tensors = [item for item in items if on_graph(item)]
    if tensors:
        # One of them: its graph is that of the first, as good as any.
        if len(items) == 1 or (len(tensors) == 1 and isinstance(tensors[0], Tensor)):
            return tensors[0]
        chosen = Unknown(name, tensors[0].node, cuts_of(*items))
        chosen.oldest = tensors[0].oldest
        chosen.trust = chosen.trust._replace(certain=False)
        return chosen
    others = [item for item in items if isinstance(item, (Tensor, Instance))]
    return others[0] if others else _one_of_numbers(name, items)


def _one_of_numbers(name: str, items: list[Value]) -> Unknown:
    numbers = all(isinstance(item, (int, float, Unknown)) for item in items)
    result = derived(Kind.NUMBER if numbers else Kind.ANY, name, name, *items)
    known = [item for item in items if isinstance(item, (int, float))]
    if numbers and known:
        result.shown = result.shown._replace(
            bounds=(-math.inf, min(known)) if name == "min" else (max(known), math.inf)
        )
    result.cuts = cuts_of(*items)
    result.trust = result.trust._replace(data=all(item.trust.data for item in only(items, Unknown)))
    return result


def _extreme(name: str) -> Callable[[Engine, Args, Kwargs, ast.AST], Value]:
    def choose(m: Engine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        items = list(args) if len(args) > 1 else (behaviour(args[0]).known_items(m, node) if args else None)
        if items is None:
            behaviour(args[0]).abandon(m)
            return Unknown.named(name)
        if not items:
            if "default" not in kwargs and m.expects("ValueError"):
                raise Signal("ValueError")
            return kwargs.get("default", Unknown.named(name))
        # Of several largest ones it is the first: sorting keeps their order, downwards too.
        places = ordered(m, items, {"key": kwargs.get("key"), "reverse": name == "max"}, node)
        if places is not None:
            return items[places[0]]
        return _one_of(name, items)

    return choose


def _number(kind: Callable[[Value], Value], value: Value) -> Value:
    """Return the number that an unknown without a graph is converted to."""
    result = derived(Kind.WHOLE if kind is int else Kind.NUMBER, "number", getattr(kind, "__name__", "number"), value)
    result.cuts = cuts_of(value)
    default = default_of(value)
    if isinstance(default, (str, int, float)):
        with suppress(ValueError, OverflowError):
            usually(result, kind(default))
    return result


def _number_of(kind: type[int] | type[float]) -> Callable[[Engine, Args, Kwargs, ast.AST], Value]:
    def convert(m: Engine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        if not args:
            return kind(0)
        value = concrete(args[0])
        if len(args) > 1 or "base" in kwargs:
            text, base = known_text(value), known_int(args[1] if len(args) > 1 else kwargs["base"])
            return Unknown.number() if text is None or base is None else computed(m, Kind.WHOLE, int, text, base)
        if isinstance(value, (int, float, str)):
            try:
                return kind(value)
            except (ValueError, OverflowError):
                raise Signal("ValueError") from None
        if isinstance(value, Instance):
            return _by_method(m, value, f"__{kind.__name__}__", node)
        if isinstance(value, Tensor) or on_graph(value):
            replays.read(m.world, only([value], Tensor), node)
            number = Unknown.number(m.world.graph.cut("item", node, value, name=value.name))
            if marked(value, Mark.DRAWN):
                drawn(number)
            return number
        return _number(kind, value)

    return convert


def _bool(m: Engine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    truth = m.known_truth(args[0]) if args else False
    return truth if truth is not None else (args[0] if isinstance(args[0], Unknown) else Unknown.plain("bool"))


def _computed(function: Callable[..., Value]) -> Callable[[Engine, Args, Kwargs, ast.AST], Value]:
    """Return a function that is run itself where its arguments are known."""

    def run(m: Engine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        try:
            known = [plain(arg) for arg in args]
        except NotPlain:
            made = Unknown.number(cuts_of(*args))
            made.origin = Origin(drawn=tuple(args))
            return made
        return computed(m, Kind.ANY, function, *known)

    return run


def _abs(m: Engine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    value = concrete(args[0]) if args else 0
    if isinstance(value, (int, float, complex)):
        return abs(value)
    if isinstance(value, Instance):
        return _by_method(m, value, "__abs__", node)
    if isinstance(value, Unknown) and value.node is None and (value.origin.operation is not None or value.trust.data):
        result = derived(Kind.NUMBER, "number", "abs", value)
        result.cuts = cuts_of(value)
        return result
    return m.library.call("torch.abs", [value], {}, node) if may_carry(value) else Unknown.number()


def _by_method(m: Engine, owner: Instance, name: str, node: ast.AST) -> Value:
    """Return the number that a method of an object gives."""
    method = m.find_method(owner, name)
    return m.call(method, [], {}, node) if method is not None else Unknown.number()


def _pow(m: Engine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    if len(args) == 3:
        return _computed(pow)(m, args, kwargs, node)
    return m.binary(ast.Pow(), args[0], args[1], node) if len(args) == 2 else Unknown.number()


def _round(m: Engine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    numbers = known_numbers(args)
    if numbers:
        if len(numbers) > 1 and abs(numbers[1]) > limits.MAX_EXPONENT:
            return Unknown.number()
        function: Callable[..., Value] = round
        try:
            return function(*numbers)
        except (TypeError, ValueError, OverflowError):
            return Unknown.number()
    result = derived(Kind.NUMBER, "number", "round", *args)
    result.cuts = cuts_of(*args)
    return result


def _isinstance(m: Engine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    if len(args) < 2:
        return Unknown.plain("isinstance")
    wanted = listed(args[1])
    results = [m.library.is_instance(args[0], kind) for kind in wanted]
    if True in results:
        return True
    if None not in results:
        return False
    if isinstance(args[0], Unknown):
        return m.unknown_test(ast.Is(), args[0], ("isinstance", *map(as_kind, wanted)))
    return Unknown.undecided("isinstance")


def as_kind(kind: Value) -> Value:
    """Return what a question names a type by: its dotted name, the value itself where the program defines the type or
    nobody knows it, and "?" for what is no type.
    """
    if isinstance(kind, Native) and NAMES.get(kind.name) is kind:
        return f"builtins.{kind.name}"
    return kind if isinstance(kind, (Class, Unknown)) else behaviour(kind).name_as_type() or "?"


def _gives(m: Engine, owner: Instance, name: str, node: ast.AST) -> bool:
    """Whether the `__getattr__` of an object's class gives an attribute."""
    handled = [*m.handlers]
    m.handlers.append(frozenset(("AttributeError",)))
    try:
        m.call(m.find_method(owner, "__getattr__"), [name], {}, node)
    except Signal as signal:
        if signal.kind != "AttributeError":
            raise
        return False
    finally:
        m.handlers[:] = handled
    return True


def object_has(m: Engine, owner: Instance, name: str, node: ast.AST) -> bool | None:
    """Whether an object has an attribute; None where nobody knows."""
    cls = owner.cls
    if owner.has(name):
        return True
    if cls is not None and cls.defines("__getattr__"):
        return _gives(m, owner, name, node)
    if m.complete(owner):
        return name in ("__dict__", "__class__", "__doc__", "__module__")
    if m.library.object_attribute(owner, name, node) is not None:
        return True
    if owner.inner is not None and has_method(owner.inner, name):
        return True
    if cls is None:
        return False if m.library.lacks(owner, name) else None
    return False if not cls.opaque and not owner.open else None


def _hasattr(m: Engine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    owner, given = ([*args, None, None])[:2]
    name = known_text(given)
    known = None if name is None else behaviour(owner).has_attribute(m, name, node)
    if known is not None:
        return known
    if isinstance(owner, Unknown):
        return (name is not None and name in (owner.asked.attrs or ())) or m.unknown_test(
            ast.Is(), owner, concrete(given)
        )
    if path := path_of(owner):
        # What is installed stays the same, whoever asks.
        return remembered(m.world, ("hasattr", path, concrete(given)), "hasattr")
    return Unknown.undecided("hasattr")


def _getattr(m: Engine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    if len(args) < 2:
        return Unknown("getattr")
    name = known_text(args[1])
    if name is None:
        if isinstance(args[0], Instance):
            # Whichever of its lists it is may be filled by what it is asked for.
            for value in args[0].attrs.values():
                if isinstance(value, (List, Dict)):
                    value.more |= MORE
        library = path_of(args[0])
        # A layer by its name, a model by its name: whichever it is, it has parameters and goes on with a graph.
        if library == "torch.nn":
            return Lib(ANY_LAYER)
        if library == "torchvision.models":
            return Lib(f"{library}.model")
        made = Unknown(ANY_NAME)
        if isinstance(args[0], Instance):
            # Whichever of its attributes it is, whoever has it can come to that.
            made.kept = Kept(values=(args[0],))
        return made
    if len(args) > 2 and behaviour(args[0]).has_attribute(m, name, node) is False:
        return args[2]
    return m.get_attribute(args[0], name, node)


def _set_named(m: Engine, owner: Value, name: str, value: Value, node: ast.AST) -> None:
    """Set the attribute of a known name, as `setattr` does."""
    if isinstance(owner, Instance) and not isinstance(written_argument(node, 1), (ast.Constant, type(None))):
        # Names that are worked out are keys, and the object is the dict.
        note_first_graph(m, owner.attrs.get(name), value)
        owner.numbered = {*(owner.numbered or ()), name}
        if m.world.position.iteration:
            # A loop over such names may be cut short: there are more.
            owner.open = True
    m.set_attribute(owner, name, value, node)
    given = written_argument(node, 0)
    if isinstance(given, ast.expr) and isinstance(value, Tensor) and value.node is not None and not value.is_leaf:
        text = m.world.position.notes.of(given, syntax.text_of)
        m.world.writer.emit(Bind(m.world.position.site(node), f"{text}.{name}", value.node, value.cuts))


def _setattr(m: Engine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    name = known_text(args[1]) if len(args) == 3 else None
    owner = args[0] if args else None
    if name is not None:
        _set_named(m, owner, name, args[2], node)
        return None
    if len(args) == 3:
        # Whoever reads the attribute by its name has the value.
        m.escape(args[2], node, "setattr")
    if len(args) == 3 and is_unseen(args[1]):
        m.library.trusted_name(args[1], args[2], node)
        held = _attributes_of(m, owner)
        if held is not None:
            stored_under(m, held, args[1], args[2], node)
    if isinstance(owner, Instance):
        owner.open = True
        if len(args) == 3 and owner.module and (is_module(args[2]) or is_parameter(args[2])):
            # Whatever it is called, the module has it.
            m.set_attribute(owner, f"({len(owner.attrs)})", args[2], node)
    return None


def _attributes_of(m: Engine, owner: Value) -> Dict | None:
    """Return what a value has under names, as a dict; None where nobody knows."""
    if isinstance(owner, Instance):
        return Dict(Attributes(owner), slots=owner.slots)
    if isinstance(owner, Module):
        return _names_of(m, owner.env)
    return None


def _delattr(m: Engine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    name = known_text(args[1]) if len(args) == 2 else None
    if name is not None and isinstance(args[0], Instance):
        m.delete_attribute(args[0], name, node)
    return None


def _type(m: Engine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    given = concrete(args[0]) if args else None
    if hidden_type := m.library.unseen_type(given):
        return Unknown.plain(hidden_type)
    found = "" if isinstance(given, Unknown) else behaviour(given).type_of()
    if not isinstance(found, str):
        return found
    if found:
        return NAMES.get(found.rpartition(".")[2], Lib(found, is_type=True))
    made = _not_known("type", given)
    if type(given) is Unknown:
        made.origin = made.origin._replace(operation=TYPE_OF, operands=(given,))
    return made


def _issubclass(m: Engine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    cls = positional(args, 0)
    known = behaviour(cls).derives_from(listed(positional(args, 1)))
    return _not_known("issubclass", cls) if known is None else known


def _not_known(question: str, about: Value) -> Unknown:
    """Return the answer to a question about a value: what hangs on that where nobody knows it, else what the program
    itself decides.
    """
    return (
        Unknown.hanging_on(question, Kind.PLAIN, about) if isinstance(about, Unknown) else Unknown.undecided(question)
    )


def _iter(m: Engine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    if not args:
        return Unknown("iter")
    if behaviour(args[0]).is_iterator:
        return args[0]
    return m.stream(args[0], node)


def _next(m: Engine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    value = behaviour(positional(args, 0, Unknown())).next_item(m, args[1:], node)
    if args and isinstance(args[0], Generator) and isinstance(written_argument(node, 0), ast.Call):
        args[0].abandon(m)  # nobody else holds it
    return value


def _reversed(m: Engine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    items = behaviour(args[0]).known_items(m, node) if args else None
    if args and isinstance(args[0], Range) and (items is None or args[0].open):
        whole = range(args[0].start, args[0].stop, args[0].step)[::-1]
        return Range(whole.start, whole.stop, whole.step, open=args[0].open)
    if items is not None:
        return m.new_list(items[::-1], node)
    if args and behaviour(args[0]).rest() == PICKED:
        items, rest = m.gathered(args[0], node)
        return m.new_list(items[::-1], node, rest)
    return positional(args, 0, Unknown("reversed"))


def _sorted(m: Engine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    items, rest = m.gathered(args[0], node, perhaps_none=True) if args else ([], MORE)
    if rest:
        return m.new_list(in_unknown_order(m, items, node), node, rest)
    places = ordered(m, items, kwargs, node)
    return m.new_list(in_unknown_order(m, items, node) if places is None else [items[place] for place in places], node)


def _quantified(wanted: bool) -> Callable[[Engine, Args, Kwargs, ast.AST], Value]:
    def ask(m: Engine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        source = m.stream(args[0], node) if args else None
        if source is None or source.length() is None:
            return Unknown.plain("any" if wanted else "all")
        undecided = False
        # It asks no further than the first that decides.
        for item in m.elements(source, node):
            truth = m.known_truth(item)
            if truth is wanted and not source.rest():
                return wanted
            undecided = undecided or truth is not (not wanted)
        return Unknown.plain("any") if undecided else not wanted

    return ask


def _callable(m: Engine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    known = behaviour(setting(m, positional(args, 0))).is_callable
    return Unknown("callable") if known is None else known


def unknown(m: Engine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return Unknown("result")


def _vars(m: Engine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    if not args:
        return _locals(m, args, kwargs, node)
    held = _attributes_of(m, args[0])
    if held is not None:
        return held
    if isinstance(args[0], Unknown) and args[0].trust.data:
        return args[0].by_name()
    return Unknown("vars")


def _names_of(m: Engine, env: Env) -> Dict:
    """Return the dict that a module has its names in."""
    m.world.modes.compiling.breaks += 1
    return Dict(Names(env), slots=env.slots, more=bool(env.starred))


def _globals(m: Engine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return _names_of(m, m.envs[-1].globals)


def _locals(m: Engine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    env = m.envs[-1]
    return _names_of(m, env) if env is env.globals else Dict(dict(env.vars.items()))


def _wrap(kind: Wrapping) -> Callable[[Engine, Args, Kwargs, ast.AST], Value]:
    return lambda m, args, kwargs, node: Wrapped(kind, positional(args, 0))


NAMES: dict[str, Value] = {
    name: Native(name, function)
    for name, function in {
        "print": _print, "len": _len, "range": make_range, "enumerate": _enumerate, "zip": _zip, "map": _map,
        "filter": _filter, "list": _list, "tuple": _tuple, "set": _set, "frozenset": _set, "dict": make_dict,
        "sum": _sum, "max": _extreme("max"), "min": _extreme("min"), "float": _number_of(float),
    "int": _number_of(int), "bool": _bool, "abs": _abs, "pow": _pow,
    "repr": lambda m, a, k, n: text_of(m, a[0], n, ("__repr__",)) if a else Unknown.text(),
    "str": lambda m, a, k, n: text_of(m, a[0], n) if a else "",
        "round": _round, "isinstance": _isinstance, "hasattr": _hasattr, "getattr": _getattr,
        "setattr": _setattr, "type": _type, "iter": _iter, "next": _next, "reversed": _reversed,
        "sorted": _sorted, "any": _quantified(True), "all": _quantified(False), "callable": _callable,
    "vars": _vars, "locals": _locals, "globals": _globals,
    "property": lambda m, a, k, n: Wrapped("property", positional(a, 0), positional(a, 1)),
        "staticmethod": _wrap("staticmethod"), "classmethod": _wrap("classmethod"), "id": unknown,
    "hash": unknown, "open": unknown, "input": unknown, "divmod": _computed(divmod),
    "format": lambda m, a, k, n: formatted(m, a[0], positional(a, 1, ""), -1, n) if a else Unknown.text(),
        "issubclass": _issubclass, "ord": _computed(ord), "chr": _computed(chr),
        "hex": _computed(hex), "bin": _computed(bin), "ascii": _computed(ascii), "complex": _computed(complex),
        "delattr": _delattr, "exec": texts.execute, "eval": texts.evaluate, "exit": unknown,
    }.items()
}  # fmt: skip
NAMES.update({
    "object": Lib("builtins.object"), "NotImplemented": Unknown("NotImplemented", kind=Kind.NOT_IMPLEMENTED),
    "__name__": "__main__",
})  # fmt: skip
