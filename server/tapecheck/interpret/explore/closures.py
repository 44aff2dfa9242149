"""What the functions of a file can do with all that they call.

A bare name means the function or class of that name in the file, `self.name` a method of the classes around, any other
`.name` every method of that name. What is not found that way is a library's, or in another file, and has no effects.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from tapecheck.interpret.explore.definitions import Body, Definitions
from tapecheck.interpret.explore.effects import Effect, Facts


@dataclass(slots=True)
class _Called:
    """What is called by one name: any of these bodies. `closed` is what they come to together."""

    bodies: tuple[Body, ...]
    closed: tuple[int, int] | None = None


class CallGraph:
    """Which functions of a file call which, and the effects of each with all that it calls."""

    def __init__(self, defined: Definitions) -> None:
        self._defined = defined
        self._lasting = {id(body.facts) for body in defined.bodies}
        self._callees: dict[tuple[int, str | None], tuple[Body, ...]] = {}
        self._own_methods: dict[str, dict[str, list[Body]]] = {}
        self._named: dict[str | tuple[str, str], _Called] = {}
        """What is called by the name of a class, of a method (with a dot before it), of a method of a class."""
        self._calls: dict[int, tuple[Body | _Called, ...]] = {}
        self._bit: dict[str, int] = {}
        self._decoded: dict[int, frozenset[str]] = {}

    def take_over(self, before: CallGraph, changed: list[tuple[Facts, Facts]]) -> None:
        """Take over what was worked out for an earlier state of the file, where what has changed calls the same."""
        if all(self._calls_alike(now, then) for now, then in changed):
            self._bit, self._decoded = dict(before._bit), dict(before._decoded)
            for body, known in zip(self._defined.bodies, before._defined.bodies):
                body.closed = known.closed

    def _calls_alike(self, now: Facts, then: Facts) -> bool:
        """Whether two pieces of code do the same to graphs, and call the same things of the file."""
        callables = self._defined.callables | self._defined.wrapping
        return (
            now.effects == then.effects
            and set(_attributes_stored(now)) == set(_attributes_stored(then))
            and all(
                mine & callables == theirs & callables
                for mine, theirs in (
                    (now.names, then.names),
                    (now.attributes, then.attributes),
                    (now.own, then.own),
                )
            )
        )

    def callees(self, facts: Facts, owner: str | None) -> Iterable[Body]:
        """Return the bodies of this file that a piece of code may run."""
        if id(facts) not in self._lasting:
            return self._called(facts, owner)
        known = self._callees.get((id(facts), owner))
        if known is None:
            # Many names lead to one body.
            every = {id(body): body for body in self._called(facts, owner)}
            known = self._callees[id(facts), owner] = tuple(every.values())
        return known

    @cached_property
    def called(self) -> frozenset[int]:
        """The functions, by their id, that another function of the file may call."""
        return frozenset(
            id(one)
            for body in self._defined.bodies
            for one in self.callees(body.facts, body.owner.name if body.owner is not None else None)
            if one is not body
        )

    def _called(self, facts: Facts, owner: str | None) -> Iterator[Body]:
        for called in self._calls_in(facts, owner):
            if isinstance(called, _Called):
                yield from called.bodies
            else:
                yield called

    def reach(self, facts: Facts, owner: str | None = None) -> tuple[Effect, frozenset[str]]:
        """Return the effects of a piece of code with all that it calls, and the attributes stored on the way."""
        effects = self._defined.effects_of(facts)
        attributes = self._bits(_attributes_stored(facts))
        for called in self._calls_in(facts, owner):
            more, stored = self._reached(called)
            effects |= more
            attributes |= stored
        return Effect(effects), self._names_of(attributes)

    def closure(self, body: Body) -> Effect:
        """Return the effects of a function with all that it calls."""
        return Effect(self._reached(body)[0])

    def closed_effects(self, body: Body) -> int:
        """Return those effects as a plain number."""
        return self._reached(body)[0]

    def closures_of_methods(self, name: str) -> tuple[int, ...]:
        """Return the effects of each method of a name with all that it calls."""
        return tuple([self._reached(body)[0] for body in self._defined.methods.get(name, ())])

    def _reached(self, called: Body | _Called) -> tuple[int, int]:
        """Return the effects of a function with all that it calls, and the bits of the attributes stored on the way."""
        if called.closed is None:
            self._close(called)
        assert called.closed is not None
        return called.closed

    def _close(self, start: Body | _Called) -> None:
        """Work out `closed` of a function and of all that it calls, each of them once.

        Functions that call one another are one component of the graph of calls and have the same result (Tarjan).
        """
        number: dict[int, int] = {id(start): 0}
        low: dict[int, int] = {id(start): 0}
        open_: list[Body | _Called] = [start]
        inside = {id(start)}
        path: list[tuple[Body | _Called, Iterator[Body | _Called]]] = [(start, iter(self._calls_of(start)))]
        while path:
            caller, calls = path[-1]
            for called in calls:
                if called.closed is not None:
                    continue
                if id(called) not in number:
                    number[id(called)] = low[id(called)] = len(number)
                    open_.append(called)
                    inside.add(id(called))
                    path.append((called, iter(self._calls_of(called))))
                    break
                if id(called) in inside:
                    low[id(caller)] = min(low[id(caller)], number[id(called)])
            else:
                path.pop()
                if path:
                    above = path[-1][0]
                    low[id(above)] = min(low[id(above)], low[id(caller)])
                if low[id(caller)] == number[id(caller)]:
                    first = next(at for at in range(len(open_) - 1, -1, -1) if open_[at] is caller)
                    component = open_[first:]
                    del open_[first:]
                    inside.difference_update(map(id, component))
                    self._close_component(component)

    def _close_component(self, component: list[Body | _Called]) -> None:
        effects = attributes = 0
        for one in component:
            if isinstance(one, Body):
                effects |= self._defined.effects_of(one.facts)
                # What a constructor stores in its object is nobody else's yet.
                attributes |= self._bits(_attributes_stored(one.facts, making=one.node.name == "__init__"))
            for called in self._calls_of(one):
                if called.closed is not None:
                    effects |= called.closed[0]
                    attributes |= called.closed[1]
        for one in component:
            one.closed = effects, attributes

    def _calls_of(self, caller: Body | _Called) -> tuple[Body | _Called, ...]:
        if isinstance(caller, _Called):
            return caller.bodies
        known = self._calls.get(id(caller))
        if known is None:
            owner = caller.owner.name if caller.owner is not None else None
            known = self._calls[id(caller)] = tuple(self._calls_in(caller.facts, owner))
        return known

    def _calls_in(self, facts: Facts, owner: str | None) -> Iterator[Body | _Called]:
        """Yield what a piece of code may call: `callees`, with those of one name as one."""
        for name in facts.names:
            body = self._defined.functions.get(name)
            if body is not None:
                yield body
            elif name in self._defined.classes:
                yield self._called_by(name)
        for name in facts.attributes:
            if name in self._defined.methods:
                yield self._called_by(f".{name}")
        for name in facts.own:
            if owner is not None and owner in self._defined.classes:
                yield self._called_by((owner, name))
            elif name in self._defined.methods:
                yield self._called_by(f".{name}")

    def _called_by(self, name: str | tuple[str, str]) -> _Called:
        known = self._named.get(name)
        if known is None:
            if isinstance(name, tuple):
                bodies: Iterable[Body] = self._own(name[0]).get(name[1], ())
            elif name[0] == ".":
                bodies = self._defined.methods[name[1:]]
            else:
                bodies = (body for one in self._defined.family(name) for body in self._defined.classes[one].values())
            known = self._named[name] = _Called(tuple(bodies))
        return known

    def _own(self, owner: str) -> dict[str, list[Body]]:
        """Return what the methods of a class may be called by, in it, its bases and the classes made from it."""
        mine = self._own_methods.get(owner)
        if mine is None:
            mine = self._own_methods[owner] = {}
            for one in self._defined.family(owner):
                for name, body in self._defined.classes[one].items():
                    mine.setdefault(name, []).append(body)
        return mine

    def _bits(self, names: Iterable[str]) -> int:
        """Return a set of names as bits: sets of hundreds of names are joined thousands of times."""
        bits = 0
        for name in names:
            bits |= 1 << self._bit.setdefault(name, len(self._bit))
        return bits

    def _names_of(self, bits: int) -> frozenset[str]:
        known = self._decoded.get(bits)
        if known is None:
            known = self._decoded[bits] = frozenset(name for name, bit in self._bit.items() if bits >> bit & 1)
        return known


def _attributes_stored(facts: Facts, *, making: bool = False) -> Iterator[str]:
    """Yield the attributes that a piece of code stores, those of `self` not where it makes that."""
    for name in facts.stored:
        if "." in name and not (making and name.startswith("self.")):
            yield name.rsplit(".", 1)[1]
