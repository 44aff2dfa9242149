"""Unknown values: what is asked of one is remembered, so that the same question gets the same answer."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress

from tapecheck.interpret import limits
from tapecheck.interpret.engine import Engine
from tapecheck.interpret.objects import lengths, syntax
from tapecheck.interpret.state import World
from tapecheck.interpret.state.choices import Length
from tapecheck.interpret.values import (
    Default,
    Kind,
    Lib,
    Origin,
    Settlings,
    Tensor,
    Unknown,
    Value,
    behaviour,
    bound_length,
    concrete,
    is_constant,
    is_open,
    known_int,
    known_numbers,
    only,
    settle_on,
)
from tapecheck.tape import NOTHING

_DRAWN = "drawn by chance"
"""The mark of a tensor, and the operation of an unknown, that chance has made."""
_ARITHMETIC: dict[str, Callable[[float, float], float]] = {
    "Add": operator.add, "Sub": operator.sub, "Mult": operator.mul, "FloorDiv": operator.floordiv,
}  # fmt: skip


_WEIGHING = frozenset(("Mult", "Div", "Pow"))
_PLAIN = frozenset((
    "types.NoneType", "numpy.ndarray",
    *(f"builtins.{name}" for name in ("bool", "bytes", "complex", "float", "int", "str")),
))  # fmt: skip
"""Types whose objects hold nothing: no tensor is one, and none has a tensor in it."""
TYPE_OF = "type"
"""The operation of an unknown that is the type of another."""


def derived(kind: Kind, name: str, what: str, *parts: Value) -> Unknown:
    """Return an unknown that is worked out from other values: `what` says how."""
    result = Unknown(name, None, (), kind)
    result.origin = Origin(what, parts)
    result.take_for_data()
    return result


def length_of(tensor: Tensor) -> Value:
    """Return how long a tensor is, the same whenever it is asked for."""
    if tensor.length is None:
        tensor.length = derived(Kind.WHOLE, "len", "len", tensor)
    return tensor.length


def remembered(world: World, key: Hashable, name: str, kind: Kind = Kind.PLAIN) -> Unknown:
    """Return the unknown that stands for something outside the program, the same whenever it is asked for."""
    value = world.knowledge.known.get(key)
    if value is None:
        value = world.knowledge.known[key] = Unknown(name, None, (), kind)
    return value


def setting(machine: Engine, value: Value) -> Value:
    """Return what a test or a loop knows a value as: a name of a module that is not visible may be a setting."""
    if type(value) is not Lib or not machine.library.hides(value.path):
        return value
    known = remembered(machine.world, ("name", value.path), value.path)
    known.default = Default(likely=True)
    return known


def drawn(value: Unknown) -> None:
    """Note that a value is drawn by chance: drawn again it may be the same, however often that is."""
    value.origin = value.origin._replace(operation=_DRAWN, operands=(Unknown(),))


def is_drawn(value: Value) -> bool:
    """Return whether a value is drawn by chance, or worked out from one that is."""
    return any(one.origin.operation == _DRAWN for one in origins(value))


def made_since(value: Value, walked: int, known: dict[int, bool | None] | None = None) -> bool | None:
    """Return whether the graph that a value may have comes from calls which the path has seen since so many backwards
    had run; None where it has none.

    Of what is weighed by something that nobody knows, that is so where the other factor's does.
    """
    if not isinstance(value, Unknown) or value.node is not None or value.trust.data:
        return None
    if value.trust.returned or len(value.origin.operands) != 2:
        return value.trust.returned and root(value).kept.walked == walked
    known = {} if known is None else known
    if id(value) not in known:
        made = [made_since(one, walked, known) for one in value.origin.operands]
        certain = any(made) if value.origin.operation in _WEIGHING else False not in made
        known[id(value)] = certain and True in made
    return known[id(value)]


def origins(value: Value) -> list[Unknown]:
    """Return the unknowns that a value is worked out from, itself included.

    Each comes once: `k + k`, many times over, has few parts and very many ways to them.
    """
    if not isinstance(value, (Unknown, tuple)):
        return []
    found: dict[int, Unknown] = {}
    queue: list[Unknown | tuple[Value, ...]] = [value]
    seen = {id(value)}
    for part in queue:
        if isinstance(part, Unknown):
            if part.memo.origins is not None:
                found.update(part.memo.origins)
                seen.update(part.memo.origins)
                continue
            found[id(part)] = part
            parts = part.origin.operands
        else:
            parts = part
        for one in parts:
            if isinstance(one, (Unknown, tuple)) and id(one) not in seen:
                seen.add(id(one))
                queue.append(one)
    if len(found) > limits.MANY_ORIGINS and isinstance(value, Unknown):
        # A sum over a loop is asked in each iteration: it is gone through from where the last one was asked.
        value.memo = value.memo._replace(origins=found)
    return [*found.values()]


def usually(value: Unknown, default: Value, flag: str = "") -> None:
    """Note what an unknown setting is where nobody has set it: tests of it come out so, as likely as not.

    `flag` is what sets it on the command line, such as `--mode`.
    """
    if value.default.usual is None:
        value.default = Default(bool(default), (default,), flag)


def has_default(value: Value) -> bool:
    """Return whether a value is an unknown setting of which it is known what it is by default."""
    return behaviour(value).default.usual is not None


def default_of(value: Value, otherwise: Value = None) -> Value:
    """Return what an unknown setting is by default; `otherwise` of what has no default."""
    usual = behaviour(value).default.usual
    return otherwise if usual is None else usual[0]


def usually_computed(value: Unknown, op: str, left: Value, right: Value) -> None:
    """Note what an operator makes of an option and a number where the option keeps its default."""
    if op not in _ARITHMETIC or not (has_default(left) or has_default(right)):
        return
    if op == "Add":
        usually_joined(value, (left, right))
    given = known_numbers([default_of(one, one) for one in (left, right)])
    if given is not None:
        with suppress(ArithmeticError):
            usually(value, _ARITHMETIC[op](*given))


def options_of(value: Value) -> list[Unknown]:
    """Return the options that a value is put together of."""
    found: dict[int, Unknown] = {}
    queue = only((value,), Unknown)
    for one in queue:
        parts = only((*one.origin.drawn, *one.origin.operands), Unknown)
        queue += parts
        if not parts and has_default(one):
            found[id(one)] = one
    return [*found.values()]


def usually_joined(value: Unknown, parts: Sequence[Value]) -> None:
    """Note what a text is that is put together out of some parts where the options among these keep their defaults."""
    texts = [default_of(known, known) for known in map(concrete, parts)]
    if any(map(has_default, parts)) and len(only(texts, str)) == len(texts):
        usually(value, "".join(only(texts, str)))


def counts_by_option(origins: Iterable[Unknown]) -> bool:
    """Return whether a test asks for every so many of what a loop counts, and an option says how many: by what the test
    is worked out from.
    """
    return any(one.origin.operation == "Mod" and period(one.origin.operands[-1]) is not None for one in origins)


def period(value: Value) -> int | None:
    """Return how many an undecided option is by default that can say in which iterations something is done; None for
    other values.
    """
    default = default_of(value)
    if not is_open(value) or not isinstance(default, int) or default <= 1:
        return None
    return None if decided("Eq", value, default) is False else default


def keep_default(world: World, value: Value, node: ast.expr) -> None:
    """Settle an option that loops count by on its default, in a path that keeps these; `node` is what names it."""
    default = period(value) if world.choices.policy.by_default else None
    if default is not None and isinstance(value, Unknown):
        settle_on(value, default)
        text = world.position.notes.of(node, syntax.text_of)
        world.assumptions.note("default", f"`{text}` is {default}", node, NOTHING)


def root(value: Unknown) -> Unknown:
    """Return the object that an unknown value is an attribute, method or item of, at the end."""
    while (whole := value.part_of.owner or value.part_of.source) is not None:
        value = whole
    return value


def hidden(machine: Engine, value: Value) -> bool:
    """Return whether code that is not visible says what a value is: a name of its module, or what a call of it gave; or
    the program itself, in a way that the dry run does not follow.
    """
    queue, seen = [asked(setting(machine, value))], set[int]()
    for whole in queue:
        for one in origins(whole):
            if id(one) in seen:
                continue
            seen.add(id(one))
            first = root(one)
            if one.origin.operation is None and (first.kind is Kind.UNDECIDED or machine.library.hides(first.name)):
                return True
            for part in one.origin.drawn if one.origin.operation is None else one.origin.operands:
                if type(part) is Lib and machine.library.hides(part.path):
                    return True
            queue += one.origin.drawn
    return False


def guessed(
    machine: Engine, length: Unknown, node: ast.AST, usual: int = limits.LOOP_BOUND, *, asked: bool = False
) -> int:
    """Settle on a length for what nobody knows the length of, `asked` where something surely reckons with it."""
    known = length.concrete is not None or length.shown.truth is False
    if known or (length.shown.bounds is not None and length.shown.bounds[0] == length.shown.bounds[1]):
        return bound_length(length, usual)
    if (found := reckoned(machine, length, node)) is not None:
        return found
    if lengths.stays_short(length):
        length.not_negative()
    found = bound_length(length, machine.world.choices.length(usual))
    _note_length(machine, length, node, asked=asked)
    return found


def reckoned(machine: Engine, length: Unknown, node: ast.AST) -> int | None:
    """Settle on a length as those say that it is worked out from, where it need not grow with them; None where it does,
    and where this cannot be told.
    """
    if length.origin.operation is None and not length.origin.drawn:
        return None
    policy = machine.world.choices.policy
    found = lengths.sources(length)
    if not found:
        known = lengths.count_of(length)
        if known is not None:
            settle_on(length, known)
            machine.world.choices.goes_over(node, known, part=True)
        return known
    (source, *others) = found.values()
    counts = {} if others or source is length or has_default(source) else lengths.by_count(length, source)
    if not counts:
        if policy.length != lengths.MANY or not lengths.stays_short(length):
            return None
        settle_on(length, max(0, math.ceil(length.shown.bounds[0])) if length.shown.bounds is not None else 0)
        length.not_negative()
        _note_length(machine, length, node, asked=True)
    elif len(set(counts.values())) == 1:
        settle_on(length, min(counts.values()))
    elif lengths.least(counts) < limits.SURE_ITERATIONS and (policy.length or not lengths.goes_round(counts)):
        count = _count_for(machine, counts)
        known = lengths.count_of(length, {id(source): count})
        if known is None:
            return None
        settle_on(source, count)
        _note_length(machine, source, node, asked=True)
        settle_on(length, known)
        length.not_negative()
    return known_int(length)


def _count_for(machine: Engine, counts: Mapping[int, int]) -> int:
    """Return the count to settle on for what a length is worked out from: of many one for which that is shortest."""
    choices = machine.world.choices
    if choices.policy.length == lengths.MANY:
        return next(one for one, count in counts.items() if one >= lengths.MANY and count == lengths.least(counts))
    return choices.length(limits.LOOP_BOUND)


def _note_length(machine: Engine, length: Unknown, node: ast.AST, *, asked: bool) -> None:
    """Note that the path has settled on a length."""
    choices, position = machine.world.choices, machine.world.position
    text = length.name if "(" in length.name else syntax.text_of(node) if isinstance(node, ast.expr) else ""
    if length.name == "len" and not text.startswith("len("):
        text = f"len({text})"

    def is_asked() -> bool:
        return asked or length.shown.bounds is not None

    def number() -> Value:
        return length.concrete

    choices.lengths.append(Length(position.site(node), text, number, is_asked, hidden(machine, length)))


def asked(value: Value) -> Value:
    """Return what a test asks about, whether or not it is for the opposite."""
    return behaviour(value).turned(True)[0]


def settled(value: Unknown, answer: bool) -> None:
    """Note how a test came out: what is known of the unknown that was tested from now on."""
    if value.origin.asks.compared is None:
        if answer and (owner := _found_plain(value)) is not None:
            _without_graph(owner)
        return
    kind, owner, constant = value.origin.asks.compared
    if kind in ("Eq", "Is"):
        if answer and constant is None:
            # None is false and carries no graph, whatever would have been there otherwise.
            _without_graph(owner)
            owner.shown = owner.shown._replace(truth=False)
        elif answer and owner.concrete is None:
            settle_on(owner, constant)
    elif isinstance(constant, (int, float)):
        low, high = owner.shown.bounds or (-math.inf, math.inf)
        whole = owner.kind is Kind.WHOLE
        if (kind == "Gt") == answer:
            low = max(low, _next(constant, 1, whole) if kind == "Gt" else constant)
        else:
            high = min(high, constant if kind == "Gt" else _next(constant, -1, whole))
        owner.shown = owner.shown._replace(bounds=(low, high))


def _found_plain(value: Unknown) -> Unknown | None:
    """Return the unknown that a test finds to be a number or a text, if that is what it asks."""
    if value.origin.operation != "test Is":
        return None
    owner, asked_for = value.origin.operands
    kinds = types_in(asked_for)
    if kinds is None and type(asked_for) is tuple and asked_for[:1] == (TYPE_OF,):
        kinds = asked_for[1:]
    return owner if kinds is not None and isinstance(owner, Unknown) and all(map(is_plain, kinds)) else None


def types_in(asked_for: Value) -> tuple[Value, ...] | None:
    """Return the types that a test asks for, `isinstance(owner, types)`; None where it asks for one object."""
    if isinstance(asked_for, tuple) and asked_for[:1] == ("isinstance",):
        return asked_for[1:]
    return None


def takes_graph(value: Unknown) -> bool:
    """Return whether a test, where it holds, finds what may have a graph to be a number or text, or a constant."""
    if value.origin.asks.compared is None:
        owner = _found_plain(value)
    else:
        owner = value.origin.asks.compared[1] if value.origin.asks.compared[0] in ("Eq", "Is") else None
    return owner is not None and owner.node is not None


def finds_plain(value: Value) -> bool:
    """Return whether a test, where it holds, finds what may have a graph to be of a type whose objects hold nothing."""
    return type(value) is Unknown and value.origin.asks.compared is None and takes_graph(value)


def is_plain(kind: Value) -> bool:
    """Return whether a type, as a question names it, is one whose objects have no graph: Python's own, or an array."""
    return isinstance(kind, str) and kind in _PLAIN


def _without_graph(owner: Unknown) -> None:
    """Note that a value turns out to be of a kind that carries no graph, whatever was taken for granted of it."""
    owner.node, owner.oldest = None, None
    owner.trust = owner.trust._replace(returned=False, data=True)


def _next(constant: float, direction: int, whole: bool) -> float:
    """Return the number that follows a constant in a direction."""
    if whole:
        return constant + direction
    # No float is next to an integer that no float is as large as.
    return math.nextafter(constant, direction * math.inf) if abs(constant) < limits.EXACT else constant


def decided(kind: str, owner: Unknown, constant: Value) -> bool | None:
    """Return the answer of a test that follows from what earlier tests of the same unknown came out as."""
    bounds = _bounds_of(owner)
    if bounds is None or not isinstance(constant, (int, float)):
        return None
    low, high = bounds
    if kind == "Gt":
        return True if low > constant else (False if high <= constant else None)
    if kind == "Lt":
        return True if high < constant else (False if low >= constant else None)
    return False if kind == "Eq" and not low <= constant <= high else None


def beyond(kind: str, constant: Value) -> bool:
    """Return whether a comparison with a constant never holds, whatever the number: none is greater than infinity."""
    return (kind, constant) in (("Gt", math.inf), ("Lt", -math.inf))


def unreached(kind: str, constant: Value) -> bool | None:
    """Return how a number likely compares with one that hardly any comes to (`inf`, `sys.maxsize`); None for other
    comparisons. A program may ask so whether a loss is still finite, or whether a limit is set.
    """
    match constant:
        case int() | float() if abs(constant) >= limits.UNREACHED:
            return {"Lt": constant > 0, "Gt": constant < 0}.get(kind)
        case _:
            return None


def _bounds_of(value: Unknown) -> tuple[float, float] | None:
    """Return what is known of a number, or follows for it from the one that an int was added to."""
    made = value.shifted()
    if value.shown.bounds is not None or made is None or made[1] < 0:
        return value.shown.bounds
    bounds = _bounds_of(made[0])
    return None if bounds is None else (bounds[0] + made[2], bounds[1] + made[2])


def resolved(machine: Engine, value: Value, node: ast.AST) -> Value:
    """Return the constant that an unknown has been settled on, or that follows from what its parts were settled on."""
    if not isinstance(value, Unknown):
        return value
    if value.concrete is None and len(value.origin.operands) == 2:
        if value.memo.unresolved and value.memo.at == Settlings.count:
            return value
        kind = getattr(ast, str(value.origin.operation), None)
        left, right = (resolved(machine, part, node) for part in value.origin.operands)
        if kind is not None and is_constant(left) and is_constant(right):
            result = machine.binary(kind(), left, right, node)
            if is_constant(result):
                settle_on(value, result)
        if value.concrete is None:
            value.remember(unresolved=True)
    return value if value.concrete is None else value.concrete
