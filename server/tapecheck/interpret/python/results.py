"""What a call that was summed up gave: how its result is made once more where the call is written again.

A result is made of tensors, tuples and constants. What is known of the length of a tensor is made again, too, where it
was worked out from what the call was given: `x.view(len(x), -1)` is as long as `x`.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Protocol

from tapecheck.interpret.objects import unknowns
from tapecheck.interpret.python.likeness import Given, Unlike, parts_of
from tapecheck.interpret.values import INERT, NO_DEFAULT, NO_ORIGIN, Mark, Storage, Tensor, Unknown, Value, Whole
from tapecheck.tape import Site


class Again(Protocol):
    """A call that is written again: what of it stands for what the call had that was summed up."""

    given: Given
    made: dict[int, Tensor]
    """The tensors of the result, by the order in which that call's were looked at."""
    lengths: dict[int, Unknown]
    """What has been made again of what lengths are worked out from, by the ids of those."""
    site: Callable[[Site], Site]

    def storage(self, number: int) -> Storage: ...
    def node(self, number: int | None) -> int | None: ...
    def cuts(self, numbers: tuple[int, ...]) -> tuple[int, ...]: ...
    def oldest(self, number: int | None) -> int | None: ...
    def later(self, clock: int) -> int: ...
    def stands_for(self, shape: Unknown) -> Unknown: ...


Maker = Callable[[Again], Value]
"""Makes a value of a call for another one that is like it."""


class Frozen:
    """How what a call has given is made again; `newest` is the newest node when it began, `old` are the
    oldest nodes that what it was given leads to, `nodes` its own.
    """

    def __init__(self, given: Given, newest: int, old: list[int | None], nodes: list[int | None]) -> None:
        self.given = given
        self.newest = newest
        self.old = old
        self.nodes = nodes
        self.names: list[str] = []
        """What the tensors of the result are called."""
        self.shapes: dict[int, Unknown] = {}
        """Shapes, and numbers of them, from which lengths are worked out, by id: these have to be made again, too."""
        self._known: dict[int, int] = {}

    def value(self, value: Value) -> Maker:
        """Return what makes a result again; raises `Unlike` where nothing can."""
        if type(value) in INERT:
            return lambda again: value
        if type(value) is tuple:
            parts = [self.value(item) for item in value]
            return lambda again: tuple([part(again) for part in parts])
        if type(value) is not Tensor:
            raise Unlike
        return self._tensor(value)

    def _tensor(self, value: Tensor) -> Callable[[Again], Tensor]:
        for number, tensor in enumerate(self.given.tensors):
            if tensor is value:
                return lambda again: again.given.tensors[number]
        if id(value) in self._known:
            place = self._known[id(value)]
            return lambda again: again.made[place]
        self._known[id(value)] = len(self._known)
        return self._new_tensor(value, len(self._known) - 1)

    def _refuse_state(self, value: Tensor) -> None:
        """Raise Unlike for a result that has more than a graph: what else is known of it is not made again."""
        if (
            value.is_leaf
            or value.parameter
            or _has_more(value)
            or any(map(self._is_known, (value.extra or {}).values()))
        ):
            raise Unlike
        oldest = value.oldest
        if oldest is not None and oldest <= self.newest and oldest not in self.old:
            raise Unlike
        if value.of_leaf is not None and value.of_leaf not in self.nodes:
            raise Unlike

    def _is_known(self, noted: Value) -> bool:
        """Whether something is known of its shape, or it is the tensor that the result is the data or gradient of."""
        return type(noted) is Tensor or (type(noted) is Unknown and not self.given.fresh(noted))

    def _new_tensor(self, value: Tensor, number: int) -> Callable[[Again], Tensor]:
        self._refuse_state(value)
        extra = flags(value) or None
        base = None if value.base is None else self._tensor(value.base)
        storage, node, graph, oldest, cuts = value.storage.id, value.node, value.graph, value.oldest, value.cuts
        terms, of_leaf, dtype, name = value.constant_terms, value.of_leaf, value.dtype, value.name
        rank, length, changed = value.rank, self._length(value.length), value.changed
        self.names.append(name)

        def make(again: Again) -> Tensor:
            made = Tensor(
                again.storage(storage), again.node(node), graph, cuts=again.cuts(cuts),
                constant_terms=again.cuts(terms), oldest=again.oldest(oldest), of_leaf=again.node(of_leaf),
                dtype=dtype, name=name,
            )  # fmt: skip
            made.rank, made.length, made.extra = rank, length(again), dict(extra) if extra is not None else None
            if changed is not None:
                made.changed = (again.later(changed[0]), again.site(changed[1]))
            again.made[number] = made
            if base is not None:
                made.base = whole = base(again)
                if whole.storage.views is None:
                    whole.storage.views = []
                whole.storage.views.append(weakref.ref(made))
            return made

        return make

    # -- lengths ------------------------------------------------------------------------------------------------

    def _length(self, value: Value) -> Maker:
        """Return what makes the length of a tensor again, or something that it is worked out from."""
        if type(value) in INERT:
            return lambda again: value
        if type(value) is tuple:
            parts = [self._length(item) for item in value]
            return lambda again: tuple([part(again) for part in parts])
        if type(value) is not Unknown:
            raise Unlike
        return self._number(value)

    def _number(self, value: Unknown) -> Maker:
        for place, tensor in enumerate(self.given.tensors):
            if tensor.length is value:
                return self._length_of(place)
        number = self.given.known.get(id(value))
        if number is not None:
            return lambda again: again.given.value(number)
        if value.origin.operation is not None:
            return self._derived(value)
        whole = value.part_of.owner or value.part_of.source
        if whole is not None and all(part is not value for _, part in parts_of(whole)):
            return self._drawn(value, whole)
        self.shapes[id(value)] = value
        return lambda again: again.stands_for(value)

    def _length_of(self, place: int) -> Maker:
        """Return what gives the length of a tensor that the call was given, which it may have been the first to ask."""
        length = self.given.tensors[place].length
        asked = type(length) is Unknown and self._is_plain(length) and length.origin.operation == "len"
        if not asked and id(length) not in self.given.known:
            raise Unlike
        return lambda again: unknowns.length_of(again.given.tensors[place])

    def _drawn(self, value: Unknown, whole: Unknown) -> Maker:
        """Return what makes a number again that was drawn out of a shape: another one each time."""
        origin = value.origin
        if not self._is_plain(value) or origin.asks != NO_ORIGIN.asks or any(map(_varies, origin.drawn)):
            raise Unlike
        drawn_from = self._number(whole)

        def make(again: Again) -> Unknown:
            made = again.lengths.get(id(value))
            if made is None:
                made = again.lengths[id(value)] = _like(value, again)
                made.origin = origin
                owner = drawn_from(again)
                if type(owner) is Unknown:
                    made.part_of = moved(value.part_of, owner)
            return made

        return make

    def _derived(self, value: Unknown) -> Maker:
        origin, key = value.origin, id(value)
        if origin.drawn or origin.called is not None or origin.asks != NO_ORIGIN.asks or not self._is_plain(value):
            raise Unlike
        operands = [self._length(part) for part in origin.operands]

        def make(again: Again) -> Unknown:
            made = again.lengths.get(key)
            if made is None:
                made = again.lengths[key] = _like(value, again)
                made.origin = origin._replace(operands=tuple([part(again) for part in operands]))
            return made

        return make

    def _is_plain(self, value: Unknown) -> bool:
        """Whether no more is known of a number than what it is worked out from."""
        return (
            value.node is None and value.storage is None and value.kept.leaf is None and value.concrete is None
            and value.default == NO_DEFAULT and not any(value.asked)
            and id(value) not in self.given.settled
        )  # fmt: skip


def _varies(value: Value) -> bool:
    return type(value) not in INERT


def _like(value: Unknown, again: Again) -> Unknown:
    """Return a number of which as much is known, but not what it is worked out from."""
    made = Unknown(value.name, None, again.cuts(value.cuts), value.kind)
    made.trust, made.shown = value.trust, value.shown
    return made


def moved(part_of: Whole, whole: Unknown | None) -> Whole:
    """Return what a number is a part of that is `whole`'s as another one is another's."""
    owner, source = part_of.owner is not None, part_of.source is not None
    return Whole(whole if owner else None, part_of.attr, whole if source else None)


def flags(value: Tensor) -> dict[str | Mark, Value]:
    """Return what is noted of how a tensor was made, without what was worked out of it: its shape."""
    return {name: item for name, item in value.extra.items() if type(item) in INERT} if value.extra else {}


def _has_more(value: Tensor) -> bool:
    """Whether the program has set something of a tensor, or worked something out of it."""
    return bool(value.given or value.hooks or value.retains_grad) or value.items is not None or value.grad is not None


__all__ = ["Again", "Frozen", "Maker", "flags", "moved"]
