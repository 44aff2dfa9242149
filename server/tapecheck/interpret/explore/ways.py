"""Which ways follow from one that was run: each answers one of its undecided conditions otherwise."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, replace

from tapecheck.interpret import limits
from tapecheck.interpret.explore.effects import WRAPPING
from tapecheck.interpret.explore.index import index_of
from tapecheck.interpret.explore.shapes import imports_of_project
from tapecheck.interpret.explore.stakes import Stake
from tapecheck.interpret.explore.watch import Watcher
from tapecheck.interpret.machine import Machine
from tapecheck.interpret.state import Asked, Place, Policy, World
from tapecheck.interpret.values.vocabulary import TOUCHES
from tapecheck.source.nodes import given_to, id_of, method_called, name_called, of_kind, walk
from tapecheck.source.notes import Notes
from tapecheck.tape import Bind, End, InPlace

_WORD = re.compile(r"[^\W\d]\w*")


@dataclass(frozen=True, slots=True)
class Way:
    """A way to try. `turned` is the condition that it answers otherwise than the way it came from.

    `default` is the likelier answer to that condition, `repeated` says whether it is asked more than once, `raised`
    whether the way it came from ended by an exception, maybe before it was asked again, `once` whether nothing hangs on
    how it is answered together with others, `together` whether it is tried after all that answer one condition
    otherwise: several at the same time, or that a loop is entered. `calls` are the names of what its answer leads to
    calls of, `choices` how many conditions it answers otherwise, those of which one at most can hold counted once.
    `finishing` says that it counts only if it comes to the end of the program: one that raises or exits brings nothing.
    """

    policy: Policy
    turned: Place | None = None
    default: bool = True
    repeated: bool = False
    raised: bool = False
    once: bool = False
    together: bool = False
    calls: frozenset[str] = frozenset()
    choices: int = 0
    finishing: bool = False

    def rank(self, untold: Set[str]) -> tuple[int, bool, bool, int]:
        """Return the place of a way among those to try: `untold` are the names of functions that none has called."""
        longest = max(map(len, self.policy.patterns.values()), default=0)
        return self.choices or len(self.policy.patterns), self.calls.isdisjoint(untold), not self.repeated, longest


def ways_after(way: Way, world: World, watcher: Watcher, dull: set[Place], names: set[str]) -> list[Way]:
    """Return the ways to try after one that showed something new."""
    patterns = way.policy.patterns
    end = world.writer.tape.events[-1]
    raised = isinstance(end, End) and end.how == "raised"
    found = [*in_turns(way)] if _may_take_turns(way, world) else []
    heads = _heads(world)
    turned = {heads.get(place, place) for place in patterns}
    if len(turned) > limits.MAX_TURNED:
        return found
    tests = _tests_of(way, world)
    for place, asked in world.choices.asked.items():
        if place in patterns or place in dull or not _can_matter(place, asked, world, watcher, names):
            continue
        # A condition of which one at most can hold with one that is turned already counts as that one.
        chosen = heads.get(place, place) in turned
        once = watcher.stake(place) in (Stake.ONCE, Stake.CERTAINTY)
        # What an `and` asks next is part of the same answer.
        most = limits.MAX_TURNED if not once or id(asked.statement) in tests else 1
        if not chosen and len(turned) >= most:
            continue
        policy = Policy({**patterns, place: (not asked.default,)}, way.policy.by_default)
        calls = _called_beyond(place, asked, watcher)
        choices = len(turned) if chosen else len(turned) + 1
        found.append(Way(policy, place, asked.default, asked.times > 1, raised, once, calls=calls, choices=choices))
    return found


def _tests_of(way: Way, world: World) -> set[int]:
    """Return, by id, the statements whose conditions a way answers otherwise, in part or as a whole."""
    asked = (world.choices.asked.get(place) for place in way.policy.patterns)
    return {id(one.statement) for one in asked if one is not None and one.statement is not None}


def _may_take_turns(way: Way, world: World) -> bool:
    """Return whether the condition that a way has turned may be answered one way and the other when asked again."""
    if way.turned is None or way.once or len(way.policy.patterns[way.turned]) != 1:
        return False
    asked_now = world.choices.asked.get(way.turned)
    return way.repeated or (way.raised and asked_now is not None and asked_now.times > 1)


def _called_beyond(place: Place, asked: Asked, watcher: Watcher) -> frozenset[str]:
    """Return the names of what is called on the side of a condition that its likelier answer does not lead to."""
    if not isinstance(asked.statement, ast.If):
        return frozenset()
    return watcher.notes_of(place[0]).of(asked.statement, _called_on)[not asked.default]


def _called_on(statement: ast.If) -> tuple[frozenset[str], frozenset[str]]:
    """Return the names of what is called where a condition does not hold, and where it does."""
    sides = (statement.orelse, statement.body)
    no, yes = (frozenset(name_called(one) for part in side for one in of_kind(part, ast.Call)) for side in sides)
    return no, yes


def _can_matter(place: Place, asked: Asked, world: World, watcher: Watcher, names: set[str]) -> bool:
    """Whether a graph can hang on how a condition is answered."""
    decided = (asked.statement, *world.choices.followers.get(place, ()))
    notes = watcher.notes_of(place[0])
    return (
        watcher.decides(place)
        or watcher.is_caught(place)
        or watcher.stake(place) is Stake.VERDICT
        or any(_relevant(one, names, notes) for one in decided)
    )


def single_ways(way: Way, world: World, watcher: Watcher, following: Collection[Way]) -> Iterator[Way]:
    """Yield the ways that answer one condition otherwise and nothing else, of those of a way that was run: those that
    ways which follow from it answer otherwise, and those that something hangs on in it.
    """
    places = {one.turned for one in following}
    for place, asked in world.choices.asked.items():
        if place in places or watcher.stake(place) is not Stake.NOTHING:
            yield _turning(way, place, asked)


def quiet_ways(way: Way, world: World, watcher: Watcher, following: Collection[Way]) -> Iterator[Way]:
    """Yield the ways that answer one condition otherwise of which no code says that anything hangs on it."""
    places = {one.turned for one in following if one.turned and watcher.stake(one.turned) is not Stake.NOTHING}
    for place, asked in world.choices.asked.items():
        if place not in places and place not in way.policy.patterns:
            yield replace(_turning(way, place, asked), finishing=True)


def _turning(way: Way, place: Place, asked: Asked) -> Way:
    """Return the way that answers one condition otherwise than a way that was run, and nothing else."""
    return Way(Policy({place: (not asked.default,)}, way.policy.by_default), place, asked.default, asked.times > 1)


def passing_ways(way: Way, world: World, watcher: Watcher) -> Iterator[Way]:
    """Yield the ways that pass by one of the loops of which nobody knows whether they go round at all, and that
    something hangs on.
    """
    for place in filter(watcher.matters, world.choices.entered):
        yield Way(Policy({place: (False,)}, way.policy.by_default), place, together=True)


def failing_ways(way: Way, world: World) -> Iterator[Way]:
    """Yield the ways that have an exception raised which nobody has seen, where somebody catches it."""
    for place in world.choices.guarded:
        yield Way(Policy({place: (False,)}, way.policy.by_default), place, together=True)


def all_passed(passing: Iterable[Way], asked: Mapping[Place, bool], by_default: bool) -> Iterator[Way]:
    """Yield the way that passes by whatever some ways pass by, as where there is nothing to go over anywhere, and the
    one that answers all conditions otherwise as well than `asked` says.
    """
    patterns = {place: pattern for way in passing for place, pattern in way.policy.patterns.items()}
    if patterns:
        turned = {place: (not answer,) for place, answer in asked.items()}
        yield Way(Policy(patterns, by_default), together=True)
        yield Way(Policy({**turned, **patterns}, by_default), together=True)


def all_turned(asked: Mapping[Place, bool], by_default: bool) -> Iterator[Way]:
    """Yield the way that answers all conditions otherwise than `asked` says, where these are more than two."""
    if len(asked) > 2:
        *_, last = asked
        policy = Policy({place: (not answer,) for place, answer in asked.items()}, by_default)
        yield Way(policy, last, asked[last], together=True)


def in_turns(way: Way) -> Iterator[Way]:
    """Yield the ways that answer a condition now in one way and now in the other."""
    assert way.turned is not None
    for pattern in ((way.default, not way.default), (not way.default, way.default)):
        policy = Policy({**way.policy.patterns, way.turned: pattern}, way.policy.by_default)
        yield Way(policy, way.turned, way.default)


def together(ways: Collection[Way]) -> Iterator[Way]:
    """Yield the ways that answer two conditions otherwise, of ways that do so with one each, then those in turns."""
    for one, other in itertools.combinations(ways, 2):
        policy = Policy({**one.policy.patterns, **other.policy.patterns}, other.policy.by_default)
        yield Way(policy, other.turned, other.default, together=True)
    for way in ways:
        if way.repeated:
            yield from (replace(turn, together=True) for turn in in_turns(way))


def _heads(world: World) -> dict[Place, Place]:
    """Return, for conditions of which one at most can hold, the first of them: those of an `if` and its `elif`s, those
    that compare the same expression with one constant each, and the questions what is taken from a table.
    """
    places = {
        id(asked.statement): place
        for place, asked in world.choices.asked.items()
        if isinstance(asked.statement, ast.If)
    }
    heads = dict(world.choices.among)
    compared: dict[tuple[str, str], Place] = {}
    for place, asked in world.choices.asked.items():
        statement = asked.statement
        if not isinstance(statement, ast.If):
            continue
        match statement.test:
            case ast.Compare(left=ast.Attribute() | ast.Name() as left, ops=[ast.Eq()], comparators=[ast.Constant()]):
                first = compared.setdefault((place[0], ast.dump(left)), heads.get(place, place))
                heads.setdefault(place, first)
        while len(statement.orelse) == 1 and isinstance(statement.orelse[0], ast.If):
            statement = statement.orelse[0]
            if id(statement) in places:
                heads.setdefault(places[id(statement)], heads.get(place, place))
    return heads


def names_that_matter(machine: Machine) -> set[str]:
    """Names of tensors, of what holds them as an attribute or element, of what the program itself changes in place, of
    functions that were run, of what wraps a model, and of the user's functions that other answers may run.
    """
    bound = {
        event.name
        for event in machine.world.writer.tape.events
        if isinstance(event, Bind) or (isinstance(event, InPlace) and event.leaf is not None and not event.optimizer)
    }
    names = {part for name in bound for part in _WORD.findall(name)} - {"self"}
    for module in machine.modules.values():
        if module.source is not None:
            defined = index_of(module.source).defined
            names |= defined.callables | defined.wrapping
    return names | WRAPPING | machine.world.calls.called_names | TOUCHES


def _relevant(statement: ast.AST | None, names: set[str], notes: Notes) -> bool:
    """Whether a graph can hang on what a condition decides about."""
    if not isinstance(statement, ast.If):
        return True
    used, leaves = notes.of(statement, _used)
    return leaves or bool(used & names)


def _used(statement: ast.If) -> tuple[set[str], bool]:
    """Return the names and attributes that a condition decides about, and whether it leaves a loop or function."""
    used: set[str] = set()
    leaves = False
    for part in (*statement.body, *statement.orelse):
        if isinstance(part, ast.Raise):
            # An exception can carry a tensor to whoever catches it.
            used.update(filter(None, map(id_of, part.exc.args if isinstance(part.exc, ast.Call) else ())))
            continue
        if isinstance(part, ast.Expr) and _only_says(part.value):
            # What it says may be worked out by a function of the user's, and so may be what says it.
            used.update(_called_in(part.value))
            used.add(name_called(part.value))
            # A gradient that it says is of use.
            used.update(child.attr for child in of_kind(part, ast.Attribute) if child.attr == "grad")
            continue
        # What another file of the project has is not known before it is imported.
        leaves = leaves or any(imports_of_project(part))
        for child in walk(part):
            leaves = leaves or isinstance(child, (ast.Return, ast.Break, ast.Continue))
            used.update(_used_by(child))
    return used, leaves


def _used_by(node: ast.AST) -> Iterator[str]:
    """Give the names and attributes whose values a graph can depend on by what a node does with them."""
    yield from _changed_by(node)
    match node:
        case ast.Name(id=name, ctx=ast.Store()):
            yield name
        case ast.Attribute(attr=name):
            yield name
        case ast.Call(func=ast.Name(id="setattr"), args=[_, ast.Constant(value=str(name)), _]):
            yield name
        case ast.Call():
            # Whoever is called may do anything with what it is given.
            yield from filter(None, map(id_of, (node.func, *given_to(node))))
        case ast.Assign(value=ast.Name(id=name)):
            # The class of the layers that are made further down.
            yield name


def _changed_by(node: ast.AST) -> Iterator[str]:
    """Give the names of what an assignment to a part or a call of an in-place operation changes."""
    match node:
        case ast.Subscript(value=changed, ctx=ast.Store() | ast.Del()):
            yield from (name.id for name in of_kind(changed, ast.Name))
        case ast.Call() if method_called(node).endswith("_"):
            yield from (name.id for name in of_kind(node, ast.Name))


def _called_in(node: ast.expr) -> Iterator[str]:
    """Give the names of the functions that are called for the arguments of a call."""
    yield from (name for child in of_kind(node, ast.Call) if child is not node and (name := name_called(child)))


def _only_says(node: ast.expr) -> bool:
    """Whether an expression statement only prints or logs, unless a function of the user's has the name."""
    if isinstance(node, (ast.ListComp, ast.SetComp, ast.DictComp)):
        # Written for what it calls.
        return False
    return not isinstance(node, ast.Call) or id_of(node.func) == "print"
