"""Lists, queues, sets and ranges."""

from __future__ import annotations

import ast
import builtins
import collections
import math
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal, TypeGuard, TypeVar

from tapecheck.interpret import limits
from tapecheck.interpret.values.base import (
    BEYOND,
    MORE,
    NUMBERS,
    PICKED,
    Args,
    BaseValue,
    Deferred,
    Interpreter,
    NotPlain,
    Signal,
    Stream,
    Value,
    all_equal,
    among,
    behaviour,
    concrete,
    hashable,
    is_constant,
    key_within,
    known_int,
    only,
    plain,
)
from tapecheck.interpret.values.unknown import (
    Kind,
    Origin,
    Unknown,
    composed,
    drawn_from,
    expression,
    if_asked,
    is_open,
    on_graph,
    settle_on,
    with_numbers,
)
from tapecheck.source.nodes import written_argument
from tapecheck.tape import Site

SequenceKind = Literal["list", "deque", "queue", "keys", "values", "items"]
"""What a `List` stands for."""
_LISTS = ("list", "deque")
SEQUENCE_TYPES = ("Sequence", "Iterable", "Collection", "Sized", "Reversible")
"""The types that every sequence is an instance of."""


class Container(BaseValue):
    """A list, set or dict: `kind` names its type, `more` is what nobody knows of its elements."""

    __slots__ = ("sized",)

    items: Collection[Value] | Mapping[Hashable, Value]
    more: int
    sized: tuple[int, int, Unknown, bool]
    """How many elements it has where nobody knows that, while as many are known and as much of them, and whether
    something else has as many; not there before anybody asks.
    """
    kind: str

    is_callable: ClassVar[bool | None] = False
    is_container: ClassVar[bool] = True
    has_members = True

    def type_of(self) -> BaseValue | str:
        return f"collections.{self.kind}"

    def may_lack(self, machine: Interpreter, name: str, node: ast.AST) -> bool:
        known = getattr(builtins, self.kind, None) or getattr(collections, self.kind, None)
        return known is not None and not hasattr(known, name)

    def is_whole(self) -> bool:
        return not self.more

    def rest(self) -> int:
        # What is known of a set or dict may go without what is beyond.
        return self.more | MORE if self.more & NUMBERS else self.more

    def size(self, machine: Interpreter, node: ast.AST) -> Value:
        return size_of(self, len(self.items), self.more)

    def unknown_counts(self) -> Iterable[Value]:
        length = self.unknown_length()
        return () if length is None else (length,)

    def unknown_length(self) -> Unknown | None:
        """Return the unknown that says how many elements it has; None where that is known."""
        return _length_of(self, len(self.items), self.more) if self.more else None

    def most_gone_over(self, machine: Interpreter, node: ast.AST) -> int | None:
        """Return how many elements a loop goes over: all that are known, unless it is known to have fewer.

        Where there may be any number of further ones, that is how many whoever has asked for the length reckons with;
        None where nobody has.
        """
        if self.more & BEYOND:
            length = _length_of(self, len(self.items), self.more)
            # It is settled on first: what asks for the length within the loop gets the number that the loop goes by.
            machine.guessed(length, node, max(limits.LOOP_BOUND, len(self.items)))
            return if_asked(length)
        size = size_of(self, len(self.items), self.more)
        if not isinstance(size, Unknown):
            return len(self.items)
        settled = known_int(size)
        return (
            int(min(len(self.items), size.shown.bounds[1] if size.shown.bounds else math.inf))
            if settled is None
            else settled
        )

    def settle_size(self, machine: Interpreter, node: ast.AST) -> None:
        """Settle on the size that a loop goes by."""
        size, most = size_of(self, len(self.items), self.more), self.most_gone_over(machine, node)
        if is_open(size) and most is not None:
            settle_on(size, most)

    def known_truth(self, machine: Interpreter) -> bool | None:
        return None if self.more and (not self.items or self.more & PICKED) else bool(self.items)


@dataclass(eq=False, slots=True)
class List(Container):
    """A list or deque; `more` says what nobody knows of its elements."""

    items: list[Value]
    more: int = 0
    bound: int | None = None
    stored_at: Site | None = None
    kind: SequenceKind = "list"
    born: int = 0
    cut: int | None = 0
    """How many more elements it has because a loop that fills it was cut short; None where nobody knows."""
    gaps: list[tuple[int, int | None]] | None = None
    """Where loops that were cut short left elements out, and how many; None for how many where nobody knows."""
    window: tuple[int, int] | None = None
    """When it was last cut back, and to how many elements."""
    asked: dict[Hashable, tuple[int, Value]] | None = None
    """Which elements stand for those at indices that nobody knows, and these indices."""
    taken: dict[int, int] | None = None
    """Where loops left elements out: the index in the real list that each element has been read at."""
    alike: int = 0
    """How many elements it was made with where one call made all of them: those that nobody knows are like these."""
    limit: Unknown | None = None
    """How many elements it keeps at most, where nobody knows that."""
    length: Unknown | None = None
    """Of parts that one call made: how many there are, the same whenever it is asked for."""

    can_hold: ClassVar[bool] = True
    type_names: ClassVar[tuple[str, ...] | None] = (*_LISTS, "MutableSequence", *SEQUENCE_TYPES, "Container")

    def rest(self) -> int:
        return self.more

    def children(self) -> Iterable[Value]:
        return self.items

    def named_parts(self, path: str) -> Iterable[tuple[str, Value]]:
        return numbered_parts(path, self.items)

    def replace_held(self, each: Callable[[Value], Value]) -> None:
        self.items[:] = map(each, self.items)

    def mapped(self, each: Callable[[Value], Value], born: int) -> Value | None:
        return List([each(item) for item in self.items], self.more, born=born)

    def as_python(self, depth: int) -> object:
        if depth <= 0 or self.more or self.kind not in ("list", "keys"):
            raise NotPlain
        return [plain(item, depth - 1) for item in self.items]

    def is_a(self, name: str) -> bool | None:
        short = name.rpartition(".")[2]
        return (short == "deque") == (self.kind == "deque") if short in _LISTS else BaseValue.is_a(self, name)

    def become(self, name: str, *, changed: bool) -> Value:
        self.items[:] = [Unknown("item") if is_constant(item) else item for item in self.items]
        self.more |= MORE
        return self

    def known_count(self) -> int | None:
        return None if self.rest() else len(self.items)

    def unknown_length(self) -> Unknown | None:
        if self.cut is None and not self.more:
            return _length_of(self, len(self.items), MORE)
        return Container.unknown_length(self)

    def number_of_parts(self) -> Unknown | None:
        """Return how many parts a call made of a value, an unknown number; None of any other list, or where it grew."""
        if not self.more or not self.alike or self.alike != len(self.items):
            return None
        if self.length is None:
            self.length = Unknown.whole("len")
        return self.length

    def place_of(self, index: Value) -> int:
        """Return the place that an unknown index stands for: its own as long as there are any.

        Two indices that nobody knows are two elements rather than one that is asked for again.
        """
        if not isinstance(index, Unknown):
            return 0
        if self.asked is None:
            self.asked = {}
        # The index is kept, so that its id stays its own.
        return self.asked.setdefault(expression(index), (len(self.asked), index))[0]

    def further(self) -> Value:
        """Return an element beyond those that are known: like the last one where that is code or an object."""
        if self.alike and self.alike == len(self.items):
            return self.items[-1]
        if self.more & BEYOND == NUMBERS:
            return Unknown.plain("item")
        return drawn_from(like_last(self.items), (self,))

    def item_at(self, machine: Interpreter, index: Value, node: ast.AST) -> Value:
        if isinstance(index, int):
            return self._at(machine, index, node)
        items = self.items
        if not items:
            return Unknown("item")
        position = self.place_of(index)
        if position >= len(items) and (self.more or self.cut != 0):
            return self.further()
        tried = None if self.more else machine.library.place(index, items, node)
        if tried is not None:
            return items[tried]
        taken = items[position % len(items)]
        if not self.more and len(items) > 1:
            if is_constant(taken) or isinstance(taken, tuple):
                return machine.library.chosen(index, [*enumerate(items)], node)
            machine.library.taken_as_first(index, taken, node, items if position else ())
        return taken

    def part(self, machine: Interpreter, index: slice, node: ast.AST) -> Value:
        parts = parts_of_slice(index)
        if self.gaps and not self.more and parts[1] is None and parts[2] is None and not self._has_place(parts[0]):
            newest = self._newest(machine, parts[0], node)
            if newest is not None:
                return newest
        stretch = self._stretch(machine, parts, node) if self.cut else None
        if stretch is not None:
            return stretch
        known = known_slice(parts)
        if known is not None:
            rest = self.more & PICKED if self._has_all_of(known) else self.more
            made = sliced(machine, self.items[known], parts, rest, node)
            if made.more & BEYOND and not has_written_bounds(node):
                measured(made, self._length_of_part(machine, index, node))
            return made
        known = known_slice([self._bound(machine, part, node) for part in parts[:2]] + parts[2:])
        chosen = self.items[:] if known is None else self.items[known]
        made = sliced(machine, chosen, parts, self.more | MORE, node)
        return measured(made, self._length_of_part(machine, index, node))

    def _length_of_part(self, machine: Interpreter, index: slice, node: ast.AST) -> Unknown:
        """Return how many elements a slice has, worked out from how many the list has."""
        length = Unknown.whole("len")
        length.origin = Origin("part", (self.size(machine, node), index.start, index.stop, index.step))
        return length

    def _has_place(self, index: Value) -> bool:
        """Return whether a number that nobody knows already stands for a place in the list."""
        return isinstance(index, Unknown) and self.asked is not None and expression(index) in self.asked

    def _bound(self, machine: Interpreter, part: Value, node: ast.AST) -> Value:
        """Return where a slice begins or ends: an unknown number is one place, with elements on both sides."""
        if not isinstance(part, Unknown):
            return part
        if (tried := machine.library.place(part, self.items, node)) is not None:
            return tried
        if self.asked is None:
            self.asked = {}
        return self.asked.setdefault(expression(part), (max(len(self.items) - 1, 1), part))[0]

    def _has_all_of(self, part: slice) -> bool:
        """Return whether all elements of a slice are among those that are known, which the list begins with."""
        start, stop = part.start or 0, part.stop
        return part.step is None and start >= 0 and stop is not None and 0 <= stop <= len(self.items)

    def kind_as_index(self) -> str:
        return "list"

    def emptied(self) -> None:
        """Note that nothing is left in it, of what loops left out neither."""
        self.items.clear()
        self.cut, self.gaps, self.taken = 0, None, None

    def left_out(self, count: int | None, by: Value = None) -> None:
        """Note that a loop which was cut short leaves out elements: `count` of them, None where nobody knows; `by` says
        how often the loop goes round.
        """
        self.cut = None if count is None or self.cut is None else self.cut + count
        if count is None:
            _grow(self, len(self.items), self.more or MORE, by)
        end = len(self.items)
        # It may have been emptied since.
        self.gaps = [*(gap for gap in self.gaps or () if gap[0] <= end), (end, count)]

    def took(self, other: Value, place: int) -> None:
        """Note that the elements of another list stand in this one from a place on, with what loops left out of it."""
        if isinstance(other, List) and other.cut:
            self.cut = None if self.cut is None else self.cut + other.cut
            gaps = other.gaps or [(len(other.items), other.cut)]
            self.gaps = [*(self.gaps or ()), *((place + at, missing) for at, missing in gaps)]

    def _stretch(self, machine: Interpreter, parts: list[Value], node: ast.AST) -> List | None:
        """Return what a slice takes of a list that loops left elements out of, with those of them that lie within it.

        None where nobody knows the bounds, or what was left out where.
        """
        bounds, missing = known_slice(parts), dict(self.gaps or ())
        counts = [count for count in missing.values() if count is not None]
        if self.more or bounds is None or bounds.step not in (None, 1) or sum(counts) != self.cut:
            return None
        start, stop, _ = bounds.indices(len(self.items) + self.cut)
        chosen: list[Value] = []
        gaps: list[tuple[int, int | None]] = []
        place, past = 0, start
        for index, item in enumerate(self.items):
            place += missing.get(index) or 0
            if start <= place < stop:
                gaps += [(len(chosen), place - past)] if place > past else []
                chosen.append(item)
                past = place + 1
            place += 1
        if not chosen and stop > start:
            # What loops left out is no element that anybody knows.
            chosen, past = [self.further()], start + 1
        made = sliced(machine, chosen, parts, 0, node)
        made.gaps = [*gaps, (len(chosen), stop - past)] if stop > past else gaps or None
        made.cut = max(stop - start - len(chosen), 0)
        return made

    def _newest(self, machine: Interpreter, start: Value, node: ast.AST) -> List | None:
        """Return the elements from a place on that is counted from the end or that nobody knows; None from any other.

        Those that loops left out are counted, too: what the dry run has of an earlier loop is further from the end.
        """
        unknown = isinstance(start, Unknown)
        left = -start if isinstance(start, int) else 0
        if not unknown and left <= 0:
            return None
        first = end = len(self.items)
        out = 0
        unsure = unknown
        ends = [*(gap for gap in self.gaps or () if gap[0] <= end), (end, 0)]
        for (place, missing), (begin, _) in zip(reversed(ends), reversed([(0, 0), *ends[:-1]])):
            known = place - begin
            if missing is None or unknown:
                # As far as nobody knows, they are all of the newest loop's.
                first, unsure = begin, True
                if known:
                    break
                continue
            taken = min(known, left)
            first = place - taken
            out += min(missing, left - taken)
            left -= min(known + missing, left)
            if not left:
                break
        made = sliced(machine, self.items[first:], [start, None, None], 0, node)
        made.cut = None if unsure else out
        return made

    def _at(self, machine: Interpreter, index: int, node: ast.AST) -> Value:
        items, more = self.items, self.more
        place = self._known_place(index)
        if place is not None:
            machine.world.loops.note_entry(self, place)
            return items[place]
        if not more and not self._has_left_out(index) and (self.cut is not None or machine.expects("IndexError")):
            machine.wrong("IndexError", node)
            # Nobody looks out for it: the program runs, so what is known of the list is too little.
            self.more |= MORE
        return items[-1] if items and index < 0 else self.further()

    def _known_place(self, index: int) -> int | None:
        """Return where an element is among those that are known; None of one that is not.

        Where loops left elements out, what is at the end of the real list is what was stored last. One element is at
        one index only: a loop over all of them, from the end on too, does not come to the same one twice.
        """
        place: int | None = index
        if not -len(self.items) <= index < len(self.items) or (index < 0 and self.more):
            place = None if self.more or index < 0 or not self.gaps else self._counted_back(index)
        if place is None or place < 0 or not self.gaps:
            return place
        if self.taken is None:
            self.taken = {}
        return place if self.taken.setdefault(place, index) == index else None

    def _has_left_out(self, index: int) -> bool:
        """Return whether an index that is none of a known element's is one of the real list's."""
        if self.more or self.cut is None:
            return False
        whole = len(self.items) + self.cut
        return -whole <= index < whole

    def _counted_back(self, index: int) -> int | None:
        """Return where the element at an index is that is counted back from the real list's end; None where it was left
        out.
        """
        if self.cut is None:
            return None
        left = len(self.items) + self.cut - index
        end = len(self.items)
        ends = [*(gap for gap in self.gaps or () if gap[0] <= end), (end, 0)]
        for (place, missing), (begin, _) in zip(reversed(ends), reversed([(0, 0), *ends[:-1]])):
            if 0 < left <= place - begin:
                return place - left
            left -= place - begin + (missing or 0)
        return None

    def held_under(self, key: Hashable) -> Value:
        return self.items[key] if isinstance(key, int) and 0 <= key < len(self.items) else None

    def set_item(self, machine: Interpreter, index: Value, value: Value, node: ast.AST) -> None:
        index = concrete(index)
        place = known_int(index)
        # It may be among those that nobody knows.
        self.more = with_numbers(self.more, [value])
        if isinstance(index, slice):
            self._set_slice(machine, parts_of_slice(index), value, node)
        elif place is None:
            if self.items:
                tried = machine.library.place(index, self.items, node, value)
                self.items[self.place_of(index) % len(self.items) if tried is None else tried] = value
        elif (known := self._known_place(place) if place >= 0 else place) is not None and -len(self.items) <= known:
            place = known
            note_first_graph(machine, self.items[place], value)
            machine.world.loops.note_entry(self, place)
            self.items[place] = value
        elif 0 <= place < limits.MAX_ITEMS and (self.more or self.cut != 0):
            # The dry run has not filled it as far as that.
            self.items += [Unknown("item") for _ in range(place - len(self.items))]
            self.items.append(value)
        if not is_constant(value):
            self.stored_at = machine.world.position.site(node)

    def _set_slice(self, machine: Interpreter, parts: list[Value], value: Value, node: ast.AST) -> None:
        items = behaviour(value).known_items(machine, node)
        if items is None and machine.takes_nothing(node):
            items = []
        if parts == [None, None, None] and isinstance(value, List):
            # All of it is replaced by a list of few elements.
            self.window = value.window
        known = known_slice(parts)
        if items is not None and not self.more and known is not None:
            try:
                self.items[known] = items
            except ValueError:
                self.more |= MORE
        else:
            self.more |= MORE

    def delete_item(self, machine: Interpreter, index: Value, node: ast.AST) -> None:
        index = concrete(index)
        if isinstance(index, slice):
            index = slice(*parts_of_slice(index))
            self._note_window(machine, index)
        else:
            tried = machine.library.place(index, self.items, node)
            index = index if tried is None else tried
        if isinstance(index, (int, slice)):
            try:
                del self.items[index]
                if not self.items:
                    self.emptied()
            except (IndexError, TypeError, ValueError):
                self.more |= MORE

    def _note_window(self, machine: Interpreter, index: slice) -> None:
        """Note what a deletion leaves: the last elements, or the first ones."""
        if index.step is None and index.start is None and type(index.stop) is int and index.stop < 0:
            self.window = (machine.world.position.clock, -index.stop)
        elif index.step is None and index.stop is None and type(index.start) is int and index.start > 0:
            self.window = (machine.world.position.clock, index.start)
        else:
            bounds = only((index.start, index.stop), Unknown)
            self.limit = bounds[0] if bounds else self.limit

    def stream(self, machine: Interpreter, node: ast.AST) -> Stream:
        parts = self.number_of_parts()
        if parts is not None:
            machine.guessed(parts, node)
            return Stream(lambda: if_asked(parts), self._element, known=len(self.items), count=parts)
        return Stream(
            lambda: self.most_gone_over(machine, node),
            self._element,
            known=len(self.items),
            picked=bool(self.more & PICKED),
            reckon=(lambda: self.settle_size(machine, node)) if self.more == PICKED else None,
            held=True,
            count=self.unknown_length(),
            one_way=self.more & BEYOND == NUMBERS,
            cut=self.cut,
        )

    def _element(self, index: int) -> Value:
        items = self.items
        return items[index] if index < len(items) else self.further()

    def known_items(self, machine: Interpreter, node: ast.AST) -> list[Value] | None:
        return None if self.more or len(self.items) > limits.MOST_KEPT else list(self.items)

    def next_item(self, machine: Interpreter, default: Args, node: ast.AST) -> Value:
        if self.items and isinstance(written_argument(node, 0), ast.Call):
            # `next(model.parameters())`: an iterator made just now stands before its first item.
            return self.items[0]
        return Unknown("next")

    def size(self, machine: Interpreter, node: ast.AST) -> Value:
        parts = self.number_of_parts()
        if parts is not None:
            parts.not_negative()
            return parts.itself()
        if self.more or self.cut is None:
            return size_of(self, len(self.items), self.more or MORE)
        whole = len(self.items) + self.cut
        return whole if self.bound is None else min(whole, self.bound)

    def contains(self, machine: Interpreter, item: Value) -> bool | None:
        return among(machine, self.items, item, self.more)

    def equals(self, other: BaseValue, machine: Interpreter | None) -> bool | Deferred | None:
        if not isinstance(other, List):
            return Deferred.TO_OTHER
        if self is other or isinstance(other, Queue):
            return self is other
        return None if self.more or other.more else all_equal(self.items, other.items, machine)

    def expression(self) -> tuple[Hashable, ...]:
        if self.more or len(self.items) > limits.MOST_NAMED:
            return ("?", id(self))
        return composed("()", self.items, self)


def has_written_bounds(node: ast.AST) -> bool:
    """Whether the bounds of a slice are numbers that the program itself writes: they hang on no length."""
    cut = node.slice if isinstance(node, ast.Subscript) else None
    if not isinstance(cut, ast.Slice):
        return False
    bounds = [one.operand if isinstance(one, ast.UnaryOp) else one for one in (cut.lower, cut.upper, cut.step)]
    return all(one is None or isinstance(one, ast.Constant) for one in bounds)


def parts_of_slice(index: slice) -> list[Value]:
    """Return start, stop and step, each as the constant that it was settled on."""
    return [concrete(part) for part in (index.start, index.stop, index.step)]


def known_slice(parts: list[Value]) -> slice | None:
    """Return the slice of start, stop and step; None where something of it is unknown."""
    known = [part for part in parts if part is None or isinstance(part, int)]
    return slice(*known) if len(known) == len(parts) else None


def sliced(machine: Interpreter, chosen: list[Value], parts: list[Value], rest: int, node: ast.AST) -> List:
    """Return the list that a slice makes, and note how many elements it has at most."""
    position = machine.world.position
    made = List(chosen, rest, stored_at=position.site(node), born=position.clock)
    if rest & BEYOND and chosen and behaviour(chosen[-1]).typical:
        # One beyond the known objects would be taken for the last of them: a loop over the part ends there.
        made.more, made.cut = rest & PICKED, None
    start, stop, step = parts
    if step is None and stop is None and type(start) is int and start < 0:
        made.window = (position.clock, -start)
    elif step is None and start is None and type(stop) is int and stop > 0:
        made.window = (position.clock, stop)
    return made


def like_last(items: Sequence[Value]) -> Value:
    """Return an element that follows those of a list: like the last one where that is code or an object."""
    return items[-1] if items and behaviour(items[-1]).typical else Unknown("item")


Made = TypeVar("Made", bound=Container)


def measured(made: Made, count: Value) -> Made:
    """Return a container, having noted that it has as many elements as an unknown says, where nobody knows that."""
    if made.more and isinstance(count, Unknown):
        made.sized = (len(made.items), made.more, count, True)
    return made


def size_of(owner: Container, count: int, rest: int) -> Value:
    """Return how many elements a container has of which `count` are known: the same until it changes."""
    if not rest:
        return count
    length = _length_of(owner, count, rest)
    if length.shown.bounds is None:
        # What else has as many is gone over as if it had those that are known.
        least = 0 if rest & PICKED or owner.sized[3] else count
        length.shown = length.shown._replace(bounds=(least, math.inf if rest & BEYOND else count))
    return length.itself()


def _length_of(owner: Container, count: int, rest: int) -> Unknown:
    """Return the same where nobody knows it: without bounds as long as the program has not asked for it."""
    known: tuple[int, int, Unknown, bool] | None = getattr(owner, "sized", None)
    if known is None or known[:2] != (count, rest):
        # What it was made of may be as many as its elements come from.
        by = next(iter(behaviour(owner).children()), None) if known is None else None
        _grow(owner, count, rest, by)
    return owner.sized[2]


def _grow(owner: Container, count: int, rest: int, by: Value) -> None:
    """Note that a container has another number of elements than before, which hangs on a value besides."""
    before = getattr(owner, "sized", (0, 0, None, False))[2]
    owner.sized = (count, rest, Unknown.hanging_on("len", Kind.WHOLE, before, by), False)


def note_first_graph(machine: Interpreter, before: Value, value: Value) -> None:
    """Note that a place gets its first graph: only when the places come round again a ring shows as one."""
    if machine.world.position.iteration and _has_graph(value) and not _has_graph(before):
        machine.world.comparisons.varying += 1
        machine.world.comparisons.first_graphs += 1


def _has_graph(value: Value) -> bool:
    """Whether a value has a graph, or is a tuple with a part that has one."""
    return any(map(on_graph, listed(value)))


Order = Literal["first", "last", "least"]
"""Which of its elements a queue gives first."""


def numbered_parts(path: str, items: Iterable[Value]) -> Iterable[tuple[str, Value]]:
    """Return the elements of what stands at a path, each with its own path."""
    return ((f"{path}[{index}]", item) for index, item in enumerate(items))


def items_of(value: List | Set | tuple[Value, ...]) -> Sequence[Value]:
    """Return the known elements of a list, set or tuple."""
    return value if isinstance(value, tuple) else value.items


def known_elements(value: Value) -> Sequence[Value] | None:
    """Return the known elements of a list or tuple; None of anything else."""
    return items_of(value) if isinstance(value, (List, tuple)) else None


def listed(value: Value) -> list[Value]:
    """Return the elements of a tuple, or the value alone."""
    return [*value] if isinstance(value, tuple) else [value]


def first_part(value: Value) -> Value:
    """Return the first element of a tuple that has one, or the value itself."""
    return value[0] if isinstance(value, tuple) and value else value


def is_whole_list(value: Value) -> TypeGuard[List]:
    """Whether a value is a list of whose elements all are known."""
    return isinstance(value, List) and not value.more


def as_given(made: Sequence[Value], given: Value) -> Value:
    """Return what was made of the elements that `listed` gives of a value: a tuple where that is one."""
    return tuple(made) if isinstance(given, tuple) else made[0]


class Queue(List):
    """A queue of the library."""

    __slots__ = ("order",)

    def __init__(self, order: Order) -> None:
        List.__init__(self, [], kind="queue")
        self.order = order

    type_names: ClassVar[tuple[str, ...] | None] = None

    def given_away(self) -> None:
        # Whoever has it may fill it and empty it.
        self.more |= MORE

    def type_of(self) -> BaseValue | str:
        return ""

    def is_a(self, name: str) -> bool | None:
        return False if name.rpartition(".")[2] in _NO_QUEUES else BaseValue.is_a(self, name)

    def known_truth(self, machine: Interpreter) -> bool | None:
        return True

    def equals(self, other: BaseValue, machine: Interpreter | None) -> bool | Deferred | None:
        return self is other if isinstance(other, List) else Deferred.TO_OTHER


_NO_QUEUES = frozenset(
    ("list", "deque", "dict", "tuple", "set", "str", "int", "float", "Tensor", "NoneType", "Iterable")
)


@dataclass(eq=False, slots=True)
class Set(Container):
    """A set; `more` says what nobody knows of its elements."""

    items: list[Value]
    more: int = 0
    stored_at: Site | None = None

    kind = "set"
    is_callable: ClassVar[bool | None] = None
    type_names: ClassVar[tuple[str, ...] | None] = (
        "set", "frozenset", "Set", "MutableSet", "Iterable", "Collection", "Sized", "Container"
    )  # fmt: skip

    def as_python(self, depth: int) -> object:
        if depth <= 0 or self.more:
            raise NotPlain
        return {plain(item, depth - 1) for item in self.items}

    def become(self, name: str, *, changed: bool) -> Value:
        self.more |= MORE
        return self

    def children(self) -> Iterable[Value]:
        return self.items

    def named_parts(self, path: str) -> Iterable[tuple[str, Value]]:
        return numbered_parts(path, self.items)

    def stream(self, machine: Interpreter, node: ast.AST) -> Stream:
        items = self.items
        return Stream(
            lambda: self.most_gone_over(machine, node),
            lambda index: items[index] if index < len(items) else Unknown("item"),
            picked=bool(self.more & PICKED),
            reckon=(lambda: self.settle_size(machine, node)) if self.more == PICKED else None,
            held=True,
            count=self.unknown_length(),
        )

    def known_items(self, machine: Interpreter, node: ast.AST) -> list[Value] | None:
        return None if self.more or len(self.items) > limits.MOST_KEPT else list(self.items)

    def contains(self, machine: Interpreter, item: Value) -> bool | None:
        return among(machine, self.items, item, self.more)

    def equals(self, other: BaseValue, machine: Interpreter | None) -> bool | Deferred | None:
        if not isinstance(other, Set):
            return Deferred.TO_OTHER
        if self is other:
            return True
        if self.more or other.more or self.unsure() or other.unsure():
            return None
        return {hashable(item) for item in self.items} == {hashable(item) for item in other.items}

    def unsure(self) -> bool:
        """Whether nobody knows which of the elements are the same."""
        return any(map(is_open, self.items))

    def as_key(self, left: list[int]) -> Hashable:
        return frozenset(key_within(item, left) for item in self.items)


@dataclass(frozen=True, slots=True)
class Range(BaseValue):
    """A range of known bounds; `usual` is how long it is where the option that says so keeps its default, `hidden` says
    that code which is not visible has its end.
    """

    start: int
    stop: int
    step: int = 1
    usual: int | None = field(default=None, compare=False)
    settled: Unknown | None = field(default=None, compare=False)
    """The unknown end that was settled on as the range was made."""
    hidden: bool = field(default=False, compare=False)
    open: bool = field(default=False, compare=False)
    """Whether nobody knows the end: it was settled on, now or before."""

    def __len__(self) -> int:
        return len(range(self.start, self.stop, self.step))

    type_names: ClassVar[tuple[str, ...] | None] = ("range", *SEQUENCE_TYPES)

    def known_count(self) -> int | None:
        return None if self.open else len(self)

    def perhaps_none(self) -> bool:
        return self.open

    def unknown_counts(self) -> Iterable[Value]:
        return () if self.settled is None else (self.settled,)

    def as_python(self, depth: int) -> object:
        if depth <= 0 or len(self) > limits.MAX_RANGE:
            raise NotPlain
        return range(self.start, self.stop, self.step)

    def kind_as_index(self) -> str:
        return "list"

    def item_at(self, machine: Interpreter, index: Value, node: ast.AST) -> Value:
        if not isinstance(index, int):
            return Unknown("item")
        try:
            return range(self.start, self.stop, self.step)[index]
        except IndexError:
            raise Signal("IndexError") from None

    def part(self, machine: Interpreter, index: slice, node: ast.AST) -> Value:
        known = known_slice(parts_of_slice(index))
        if known is None:
            return Unknown("range")
        part = range(self.start, self.stop, self.step)[known]
        return Range(part.start, part.stop, part.step)

    def stream(self, machine: Interpreter, node: ast.AST) -> Stream:
        end = self.settled

        def length() -> int:
            stop = end.concrete if end is not None else self.stop
            return len(range(self.start, stop if isinstance(stop, int) else self.stop, self.step))

        def lengthen(count: int) -> None:
            if end is not None:
                settle_on(end, self.start + length() + count)

        return Stream(
            length, lambda index: self.start + index * self.step, held=True, settled=self.open,
            lengthen=lengthen if end is not None else None,
        )  # fmt: skip

    def known_items(self, machine: Interpreter, node: ast.AST) -> list[Value] | None:
        return list(range(self.start, self.stop, self.step)) if len(self) <= limits.MAX_ITEMS else None

    def size(self, machine: Interpreter, node: ast.AST) -> Value:
        return len(self)

    def contains(self, machine: Interpreter, item: Value) -> bool | None:
        if not isinstance(item, int):
            return None
        found = item in range(self.start, self.stop, self.step)
        # Where nobody knows the end, only what is before the beginning is out of it.
        return None if self.open and (found or item >= self.start) else found

    def known_truth(self, machine: Interpreter) -> bool | None:
        return len(self) > 0

    def equals(self, other: BaseValue, machine: Interpreter | None) -> bool | Deferred | None:
        return self == other if isinstance(other, Range) else Deferred.TO_OTHER
