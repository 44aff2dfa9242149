"""What the functions of a file can do to graphs with all that they call: one index for each parsed file.

A *body* is a function, a method or a lambda's function around it; everything in it counts as its own, nested functions
too. Its effects are closed over what it calls: a bare name means the function or class of that name in the file,
`self.name` a method of the classes around, any other `.name` every method of that name. What the closure does not
find is a library's, or in another file, and has no effects.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from tapecheck.interpret import limits
from tapecheck.interpret.explore.effects import (
    Assignment,
    Effect,
    Facts,
    FunctionNode,
    class_facts,
    facts_of,
    hands_on_numbers,
    last_name,
    statement_facts,
    together,
)
from tapecheck.source import Source
from tapecheck.source.notes import placeless

_LAYERS = frozenset(("nn",))
"""What the names of layers that are made begin with."""
_OF_ENVIRONMENTS = frozenset(("reset", "step"))
"""Methods of gymnasium's environments: what they are given decides nothing that they return."""


@dataclass(slots=True)
class Body:
    """A function or method: `owner` is the class it stands in, None for a function of the module.

    `closed` are the effects of the function with all that it calls, and the bits of the attributes stored on the way.
    """

    node: FunctionNode
    owner: ast.ClassDef | None
    facts: Facts
    closed: tuple[int, int] | None = None

    @property
    def name(self) -> str:
        return f"{self.owner.name}.{self.node.name}" if self.owner is not None else self.node.name


@dataclass(slots=True)
class _Called:
    """What is called by one name: any of these bodies. `closed` is what they come to together."""

    bodies: tuple[Body, ...]
    closed: tuple[int, int] | None = None


_KNOWN_FACTS: dict[str, Facts] = {}


@placeless
def _body_facts(node: FunctionNode, lines: list[str]) -> Facts:
    """Return the facts of a function: by its text, as that of an earlier state of the file may be the same."""
    text = "\n".join(lines[node.lineno - 1 : node.end_lineno])
    known = _KNOWN_FACTS.get(text)
    if known is None:
        if len(_KNOWN_FACTS) >= limits.MOST_BODIES:
            _KNOWN_FACTS.clear()
        known = _KNOWN_FACTS[text] = facts_of((node,), making=node.name == "__init__")
        known.hands_on = node.name in ("forward", "__call__") and hands_on_numbers(node)
    return known


class Index:
    """The bodies of one file, with what they can do by themselves and by what they call.

    `before` is the index of an earlier state of the file: what it has worked out is taken over as far as the edit
    cannot have changed it.
    """

    def __init__(self, source: Source, before: Index | None = None) -> None:
        tree = source.tree
        self.notes = source.notes
        self.suspends = "yield" in source.text or "await" in source.text
        self._lines = source.parsed.lines if source.parsed is not None else source.lines
        self.class_facts: dict[str, Facts] = {}
        """What stands in the classes besides their methods."""
        self.functions: dict[str, Body] = {}
        self.classes: dict[str, dict[str, Body]] = {}
        self.class_nodes: dict[str, ast.ClassDef] = {}
        self.bodies: list[Body] = []
        self.methods: dict[str, list[Body]] = {}
        self._defined: list[tuple[str, ...]] = []
        """The functions of the file, its classes with what they are made from, and their methods."""
        self.rest: list[ast.stmt] = []
        """The statements of the module that define no function and no class."""
        for statement in tree.body:
            if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
                body = Body(statement, None, self._facts(statement))
                self.functions[statement.name] = body
                self._defined.append(("function", statement.name))
                self.bodies.append(body)
            elif isinstance(statement, ast.ClassDef):
                self._class(statement)
            else:
                self.rest.append(statement)
        # The last one first, as one walk over all of them would come to them.
        self.top = together(self.notes.of(statement, statement_facts) for statement in reversed(self.rest))
        self._by_node = {id(body.node): body for body in self.bodies}
        self._tested: frozenset[str] | None = None
        self._steering: frozenset[str] | None = None
        self._leads: dict[str, set[str]] | None = None
        self._from: dict[str, set[str]] | None = None
        self._own_methods: dict[str, dict[str, list[Body]]] = {}
        self._bases: dict[str, list[str]] = {}
        self._made_from: dict[str, list[str]] = {}
        """The classes of the file that each class is made from, and those that are made from it."""
        for name, made in self.class_nodes.items():
            self._bases[name] = [one for one in dict.fromkeys(map(last_name, made.bases)) if one in self.class_nodes]
            for one in self._bases[name]:
                self._made_from.setdefault(one, []).append(name)
        self._families: dict[str, tuple[str, ...]] = {}
        self._lasting = {id(body.facts) for body in self.bodies}
        self._callees: dict[tuple[int, str | None], tuple[Body, ...]] = {}
        self._named: dict[str | tuple[str, str], _Called] = {}
        """What is called by the name of a class, of a method (with a dot before it), of a method of a class."""
        self._calls: dict[int, tuple[Body | _Called, ...]] = {}
        self._bit: dict[str, int] = {}
        self._decoded: dict[int, frozenset[str]] = {}
        self._callables: frozenset[str] | None = None
        self._made: frozenset[str] | None = None
        if before is not None and self._defined == before._defined:
            self._take_over(before)

    def _take_over(self, before: Index) -> None:
        """Take over what an earlier state's index has worked out, where the same things are defined."""
        pairs = zip(self._parts(), before._parts())
        changed = [(now, then) for now, then in pairs if now is not then and now != then]
        if all(self._calls_alike(now, then) for now, then in changed):
            self._bit, self._decoded = dict(before._bit), dict(before._decoded)
            for body, known in zip(self.bodies, before.bodies):
                body.closed = known.closed
        if before._made is not None and all(_decides_alike(now, then, before._made) for now, then in changed):
            self._made = before._made
            self._tested, self._steering = before._tested, before._steering
            self._leads, self._from = before._leads, before._from

    def _calls_alike(self, now: Facts, then: Facts) -> bool:
        """Whether two pieces of code do the same to graphs, and call the same things of the file."""
        callables = self.callables()
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

    def _facts(self, node: FunctionNode) -> Facts:
        return self.notes.of(node, _body_facts, self._lines)

    def _class(self, node: ast.ClassDef) -> None:
        self.class_facts[node.name] = self.notes.of(node, class_facts)
        members = self.classes[node.name] = {}
        self.class_nodes[node.name] = node
        self._defined.append(("class", node.name, *map(last_name, node.bases)))
        for member in node.body:
            if isinstance(member, (ast.FunctionDef, ast.AsyncFunctionDef)):
                body = Body(member, node, self._facts(member))
                members[member.name] = body
                self.bodies.append(body)
                self.methods.setdefault(member.name, []).append(body)
                self._defined.append(("method", member.name))

    def family(self, name: str) -> tuple[str, ...]:
        """Return a class of the file with its bases and the classes made from it, as far as they stand in the file."""
        known = self._families.get(name)
        if known is None:
            known = self._families[name] = (*_closed((name,), self._bases), *_closed((name,), self._made_from)[1:])
        return known

    def is_module(self, name: str) -> bool:
        """Whether a class is one of torch's modules by the names of its bases."""
        return any(
            last_name(base).endswith(("Module", "Sequential", "ModuleList"))
            for one in self.family(name)
            for base in self.class_nodes[one].bases
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

    def _called(self, facts: Facts, owner: str | None) -> Iterator[Body]:
        for name in facts.names:
            body = self.functions.get(name)
            if body is not None:
                yield body
            elif name in self.classes:
                for one in self.family(name):
                    yield from self.classes[one].values()
        for name in facts.attributes:
            yield from self.methods.get(name, ())
        if facts.own:
            if owner is None or owner not in self.classes:
                # Of a class that a function defines only the names of its methods are known.
                for name in facts.own:
                    yield from self.methods.get(name, ())
            else:
                mine = self._own(owner)
                for name in facts.own:
                    yield from mine.get(name, ())

    def reach(self, facts: Facts, owner: str | None = None) -> tuple[Effect, frozenset[str]]:
        """Return the effects of a piece of code with all that it calls, and the attributes stored on the way."""
        effects = int(facts.effects)
        attributes = self._bits(_attributes_stored(facts))
        for called in self._calls_in(facts, owner):
            more, stored = self._reached(called)
            effects |= more
            attributes |= stored
        return Effect(effects), self._names_of(attributes)

    def callables(self) -> frozenset[str]:
        """Return the names by which the file's functions, methods and classes are called."""
        if self._callables is None:
            self._callables = frozenset(body.node.name for body in self.bodies) | self.class_nodes.keys()
        return self._callables

    def closure(self, body: Body) -> Effect:
        """Return the effects of a function with all that it calls."""
        return Effect(self._reached(body)[0])

    def closed_effects(self, body: Body) -> int:
        """Return those effects as a plain number."""
        return self._reached(body)[0]

    def closures_of_methods(self, name: str) -> tuple[int, ...]:
        """Return the effects of each method of a name with all that it calls."""
        return tuple([self._reached(body)[0] for body in self.methods.get(name, ())])

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
                effects |= int(one.facts.effects)
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
            body = self.functions.get(name)
            if body is not None:
                yield body
            elif name in self.classes:
                yield self._called_by(name)
        for name in facts.attributes:
            if name in self.methods:
                yield self._called_by(f".{name}")
        for name in facts.own:
            if owner is not None and owner in self.classes:
                yield self._called_by((owner, name))
            elif name in self.methods:
                yield self._called_by(f".{name}")

    def _called_by(self, name: str | tuple[str, str]) -> _Called:
        known = self._named.get(name)
        if known is None:
            if isinstance(name, tuple):
                bodies: Iterable[Body] = self._own(name[0]).get(name[1], ())
            elif name[0] == ".":
                bodies = self.methods[name[1:]]
            else:
                bodies = (body for one in self.family(name) for body in self.classes[one].values())
            known = self._named[name] = _Called(tuple(bodies))
        return known

    def _own(self, owner: str) -> dict[str, list[Body]]:
        """Return what the methods of a class may be called by, in it, its bases and the classes made from it."""
        mine = self._own_methods.get(owner)
        if mine is None:
            mine = self._own_methods[owner] = {}
            for one in self.family(owner):
                for name, body in self.classes[one].items():
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

    def body_of(self, node: ast.AST) -> Body | None:
        return self._by_node.get(id(node))

    @property
    def tested(self) -> frozenset[str]:
        """The last parts of names that some condition, loop or flag of a backward hangs on, directly or by a name."""
        if self._tested is None:
            self._tested = self._worked_out_from({name for facts in self._parts() for name in facts.tested})
        return self._tested

    @property
    def steering(self) -> frozenset[str]:
        """Of the names in `tested` those that do more than choose a side of an `if`."""
        if self._steering is None:
            self._steering = self._worked_out_from({name for facts in self._parts() for name in facts.steering})
        return self._steering

    def _worked_out_from(self, names: set[str]) -> frozenset[str]:
        """Some names with those that they are worked out from."""
        if self._from is None:
            self._from = {}
            for targets, sources in self._worked_out():
                for target in targets:
                    self._from.setdefault(target, set()).update(sources)
        return frozenset(_closed(names, self._from))

    def leads_to(self, name: str) -> frozenset[str]:
        """Return the names whose values a name goes into, itself among them; all by their last parts."""
        if self._leads is None:
            self._leads = {}
            for targets, sources in self._worked_out():
                for source in sources:
                    self._leads.setdefault(source, set()).update(targets)
        return frozenset(_closed((name,), self._leads))

    def _worked_out(self) -> Iterator[tuple[frozenset[str], frozenset[str]]]:
        """Yield for each assignment its targets and the names that their numbers are worked out from."""
        layers = self._layers()
        unknown = layers | (_OF_ENVIRONMENTS - self.callables())
        for facts in self._parts():
            for one in facts.assignments:
                names = one.names
                for called, passed in one.passed:
                    name = called.removeprefix(".")
                    # What else is called may well give a number that it is given.
                    if name not in unknown:
                        names |= passed | {name}
                yield one.targets, names

    def _layers(self) -> frozenset[str]:
        """Return the names in which the file stores nothing but layers and models that it makes."""
        modules = {name for name in self.class_nodes if self.is_module(name) and not self._hands_on(name)} | _LAYERS
        made: set[str] = set()
        others: set[str] = set()
        for facts in self._parts():
            for one in facts.assignments:
                (others if one.made.isdisjoint(modules) else made).update(one.targets)
        self._made = frozenset(made)
        for facts in self._parts():
            for targets, names in facts.gone_through:
                (others if names.isdisjoint(made - others) else made).update(targets)
        return frozenset(made - others)

    def _hands_on(self, name: str) -> bool:
        """Whether a module, as far as the text of its forward says, may return a number that it is given."""
        return any(body.facts.hands_on for one in self.family(name) for body in self.classes[one].values())

    def _parts(self) -> list[Facts]:
        return [self.top, *self.class_facts.values(), *(body.facts for body in self.bodies)]


def _decides_alike(now: Facts, then: Facts, made: frozenset[str]) -> bool:
    """Whether two pieces of code have the same conditions and loops, which hang on the same names.

    `made` are names that layers and models are stored in: another value may be stored in one of them, too.
    """
    return (
        now.tested == then.tested
        and now.steering == then.steering
        and now.gone_through == then.gone_through
        and now.hands_on == then.hands_on
        and [one for one in now.assignments if _leads(one, made)]
        == [one for one in then.assignments if _leads(one, made)]
    )


def _leads(assignment: Assignment, made: frozenset[str]) -> bool:
    """Whether an assignment says what a value is worked out from, or is to a name that holds layers, too."""
    value = assignment.names or assignment.passed or assignment.made
    return bool(value) or not assignment.targets.isdisjoint(made)


def _attributes_stored(facts: Facts, *, making: bool = False) -> Iterator[str]:
    """Yield the attributes that a piece of code stores, those of `self` not where it makes that."""
    for name in facts.stored:
        if "." in name and not (making and name.startswith("self.")):
            yield name.rsplit(".", 1)[1]


def _closed(names: Iterable[str], led_to: Mapping[str, Iterable[str]]) -> list[str]:
    """Return names with all that they lead to, each once."""
    found = dict.fromkeys(names)
    queue = [*found]
    for one in queue:
        fresh = [other for other in led_to.get(one, ()) if other not in found]
        found.update(dict.fromkeys(fresh))
        queue += fresh
    return queue


def index_of(source: Source) -> Index:
    """Return the index of a parsed file, made once for each state of it."""
    return source.notes.of_file(_indexed, source)


def _indexed(before: Index | None, source: Source) -> Index:
    return Index(source, before)
