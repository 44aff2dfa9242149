"""What a tape tells about a failing backward: which one came before, what they share, who carried it over."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from tapecheck.fixes.code import Code, Function, dotted, targets, walk
from tapecheck.source.nodes import STORES, attr_of, given_to, is_read, last_line, method_called, of_kind
from tapecheck.tape import (
    Backward,
    Bind,
    Event,
    GradientCleared,
    Hold,
    InPlace,
    Ledger,
    Node,
    Optimizer,
    Problem,
    Site,
    Span,
    Step,
    Tape,
    Traversal,
)

_ENOUGH = 3


@dataclass(slots=True)
class Collision:
    """A backward that reaches a part of the graph which an earlier backward, or an in-place change, spoiled.

    `first` is the earlier backward that ran over the shared part, `change` the in-place change where the
    problem is a stale saved tensor. `newest` is the newest id that existed when the first of the two happened:
    what is older was carried over. `walks` are the newest ids that existed when each backward before `second` ran.
    `binds` and `holders` are the names that each node had until `second`.
    """

    tape: Tape
    ledger: Ledger
    second: Backward
    second_index: int
    first: Backward | None
    first_index: int
    newest: int
    problem: Problem | None = None
    change: InPlace | None = None
    executed: set[int] = field(default_factory=set)
    reached: set[int] = field(default_factory=set)
    spoiled: set[int] = field(default_factory=set)
    walks: list[int] = field(default_factory=list)
    binds: dict[int, list[Bind]] = field(default_factory=dict)
    holders: dict[int, list[Hold]] = field(default_factory=dict)

    @property
    def same_iteration(self) -> bool:
        before = self.first.at if self.first is not None else self.change.at if self.change is not None else None
        return before is not None and before.iteration == self.second.at.iteration

    @property
    def walks_each_iteration(self) -> bool:
        """Return whether a backward ran in each iteration, until the second one, of the loops that both ran in."""
        first = self.first or self.second
        outer = dict(first.at.iteration)
        shared = [(loop, index) for loop, index in self.second.at.iteration if loop in outer]
        if not shared:
            return True
        loop, last = shared[-1]
        run = {dict(event.at.iteration).get(loop) for event in self.tape.events if isinstance(event, Backward)}
        return run.issuperset(range(1, last + 1))

    @property
    def walked_before(self) -> bool:
        """Return whether a backward before the second one already ran through a part that another one had run
        through.
        """
        for traversal in self.ledger.traversals.values():
            if traversal.backward is self.second:
                return False
            if traversal.retraversed:
                return True
        return False

    def learned_in_between(self, carrier: Carrier) -> bool:
        """Return whether a backward ran after a value was computed and before it was read: cut there, what came before
        has had its own loss. Else all of it belongs to the loss of `second`.
        """
        return any(max(carrier.sources) <= newest < carrier.consumer.id for newest in self.walks)

    def leads_to_spoiled(self, node: int) -> bool:
        return not self.spoiled.isdisjoint(self.ledger.ancestry([node]))

    @property
    def walked(self) -> list[Node]:
        """Return the nodes that the second backward comes to, oldest first."""
        return self._nodes(self.reached)

    def _nodes(self, numbers: Iterable[int]) -> list[Node]:
        return [self.ledger.nodes[number] for number in sorted(numbers) if number in self.ledger.nodes]

    def crossings(self) -> list[tuple[Node, int]]:
        """Return edges of the second backward's graph from a later node to an older, spoiled part."""
        later = (node for node in self.walked if node.id > self.newest)
        return self._spoiled_sources(later, lambda source: source <= self.newest)

    def forks(self, first_side: bool) -> list[tuple[Node, int]]:
        """Return edges by which one of the two graphs alone reaches the part that they share."""
        own, other = (self.executed, self.reached) if first_side else (self.reached, self.executed)
        return self._spoiled_sources(self._nodes(own - other), other.__contains__)

    def _spoiled_sources(self, nodes: Iterable[Node], wanted: Callable[[int], bool]) -> list[tuple[Node, int]]:
        """Return the edges that lead from some nodes to a spoiled part, by the sources that are wanted."""
        edges = ((node, source) for node in nodes for source in node.inputs if wanted(source))
        return [
            (node, source) for node, source in edges if source in self.ledger.nodes and self.leads_to_spoiled(source)
        ]

    def names(self, node: int) -> set[str]:
        """Return the names a node's tensor had, as they were written where they were bound."""
        bound = {bind.name for bind in self.binds.get(node, ())}
        return bound | {hold.holder for hold in self.holders.get(node, ())}

    def bound_anew(self, name: str, node: int, at: Site) -> bool:
        """Return whether a name of a node was given another value in the iteration of a place, on a line before it."""
        return any(
            bind.name == name
            and bind.at.file == at.file
            and bind.at.line < at.line
            and bind.at.iteration == at.iteration
            and bind.at.stack == at.stack
            for other, binds in self.binds.items()
            if other != node
            for bind in binds
        )

    def leaves(self, nodes: Iterable[int]) -> set[int]:
        return {number for number in self.ledger.ancestry(nodes) if number in self.ledger.leaves}

    def learned(self) -> set[int]:
        """Return the leaves that some optimizer of this tape updates."""
        return {leaf for event in self.tape.events if isinstance(event, Optimizer) for leaf in event.params}

    def trains_none_of(self, leaves: set[int]) -> bool:
        """Return whether the program's optimizers, all of them known, update none of these leaves."""
        optimizers = [event for event in self.tape.events if isinstance(event, Optimizer)]
        known = bool(optimizers) and all(event.complete == "yes" for event in optimizers)
        return known and not leaves & self.learned()

    def makes_parameters(self, nodes: Iterable[int]) -> bool:
        """Return whether parameters are made in the expressions of nodes: nothing else of the program has them."""
        made = [self.ledger.nodes[number].at.span for number in nodes if number in self.ledger.nodes]
        leaves = (self.ledger.leaves[number] for number in self.leaves(nodes))
        return any(leaf.parameter and span.holds(leaf.at.span) for leaf in leaves for span in made)

    def reaches_otherwise(self, sources: set[int]) -> bool:
        """Return whether the second backward also reaches what these nodes were computed from by ways around them."""
        leaves = self.leaves(sources)
        return bool(leaves) and leaves <= self._around(sources)

    def computes_alike(self, sources: set[int]) -> bool:
        """Return whether the second backward, around these nodes, comes to an op that uses what they were computed from
        as one of theirs does: the same model, run again.
        """
        leaves = self.leaves(sources)
        mine, others = set(self.ledger.ancestry(sources)), self._around(sources)
        return not self._uses(mine, leaves).isdisjoint(self._uses(others - mine, leaves))

    def _uses(self, nodes: Iterable[int], leaves: set[int]) -> set[tuple[str, int]]:
        """Return the ops among some nodes that use leaves at once, each with the leaf."""
        found = (self.ledger.nodes[number] for number in nodes if number in self.ledger.nodes)
        return {(node.op, leaf) for node in found for leaf in leaves.intersection(node.inputs)}

    def _around(self, sources: set[int]) -> set[int]:
        """Return some nodes, and what the second backward comes to around them."""
        seen = set(sources)
        stack = self.second.root_nodes
        while stack:
            number = stack.pop()
            if number in seen:
                continue
            seen.add(number)
            node = self.ledger.nodes.get(number)
            stack.extend(node.inputs if node is not None else ())
        return seen

    def discarded_after_first(self, leaves: set[int]) -> bool:
        """Return whether what the first backward gives these leaves is seen to be dropped before an optimizer uses
        it.
        """
        params = updated_by(self.tape)
        open_leaves = leaves & self.learned()
        for event in self.tape.events[self.first_index + 1 :]:
            if isinstance(event, GradientCleared):
                open_leaves.discard(event.leaf)
            elif isinstance(event, Step) and open_leaves & params.get(event.optimizer, set()):
                return False
        return not open_leaves

    def trained_between(self, shared: set[int]) -> bool:
        """Return whether an optimizer of these leaves, and of none that the second backward alone reaches, steps
        between the two backwards: what they get from the second one is then not for that optimizer.

        Leaves of another optimizer among them learn from the second backward, whatever has stepped.
        """
        own = self.leaves(self.second.root_nodes) - shared
        stepped = self.stepped_between()
        if not any(shared & known and not own & known for known in stepped):
            return False
        return shared & self.learned() <= set().union(*stepped)

    def stepped_between(self) -> list[set[int]]:
        """Return what each optimizer that steps between the two backwards updates."""
        params = updated_by(self.tape)
        return [params.get(event.optimizer, set()) for event in self.between() if isinstance(event, Step)]

    def built_after_change(self) -> bool:
        """Return whether the forward pass of the second backward goes on behind the in-place change, and may read
        it.
        """
        if self.change is None:
            return False
        events = self.tape.events
        place = next(index for index, event in enumerate(events) if event is self.change)
        return any(isinstance(event, Node) and event.id in self.reached for event in events[place : self.second_index])

    def between(self) -> Iterator[object]:
        yield from self.tape.events[self.first_index + 1 : self.second_index]


def frames(site: Site) -> tuple[Span, ...]:
    """Return the place of an event and of the calls that led to it, innermost first."""
    return (site.span, *site.stack)


def updated_by(tape: Tape) -> dict[int, set[int]]:
    """Return what each optimizer of a tape updates, by its number."""
    return {event.id: set(event.params) for event in tape.events if isinstance(event, Optimizer)}


def touches(site: Site, span: Span) -> bool:
    """Return whether an event happened at a place, or in a call made there."""
    return any(frame.file == span.file and frame.line <= span.line <= frame.end_line for frame in frames(site))


def lies_in(site: Site, span: Span) -> bool:
    """Return whether an event happened on the lines of a span, or in a call that begins on one."""
    return any(frame.file == span.file and span.line <= frame.line <= span.end_line for frame in frames(site))


def collisions(tapes: Sequence[Tape], span: Span, wanted: Callable[[Traversal], bool]) -> list[Collision]:
    """Return the failing backwards at a place, certain ones first; a few tell the story."""
    found: list[Collision] = []
    for tape in tapes:
        collision = _first_collision(tape, span, wanted)
        if collision is not None:
            found.append(collision)
            if len(found) >= _ENOUGH:
                break
    found.sort(key=lambda collision: collision.problem is not None and collision.problem.certain != "yes")
    return found


def _first_collision(tape: Tape, span: Span, wanted: Callable[[Traversal], bool]) -> Collision | None:
    told = _Told(tape)
    best: Collision | None = None
    for index, event in enumerate(tape.events):
        traversal = told.feed(index, event)
        if traversal is None or not touches(traversal.backward.at, span) or not wanted(traversal):
            continue
        collision = told.collide(index, traversal)
        if collision is None:
            continue
        if collision.problem is None or collision.problem.certain == "yes":
            return collision
        best = best or collision
    return best


class _Told:
    """What a tape has told until one of its events."""

    def __init__(self, tape: Tape) -> None:
        self._tape = tape
        self._ledger = Ledger()
        self._newest = 0
        # The place on the tape and the newest id at that time: of backwards by number, of changes by identity.
        self._marks: dict[int, tuple[int, int]] = {}
        self._changes: dict[int, tuple[int, int]] = {}
        self._binds: dict[int, list[Bind]] = {}
        self._holders: dict[int, list[Hold]] = {}

    def feed(self, index: int, event: Event) -> Traversal | None:
        """Take the next event; returns what a backward does."""
        traversal = self._ledger.feed(event)
        match event:
            case Node():
                self._newest = max(self._newest, event.id)
            case Bind(node=int() as node):
                self._binds.setdefault(node, []).append(event)
            case Hold():
                for node in event.nodes:
                    self._holders.setdefault(node, []).append(event)
            case InPlace():
                self._changes[id(event)] = index, self._newest
            case Backward() if traversal is not None:
                self._marks[event.id] = index, self._newest
                return traversal
        return None

    def collide(self, index: int, traversal: Traversal) -> Collision | None:
        """Return what the backward that came last runs into."""
        ledger, second, problem = self._ledger, traversal.backward, traversal.problem
        reached = set(ledger.ancestry(second.root_nodes))
        change = problem.changed_by if problem is not None and problem.kind == "stale" else None
        first = _spoiler(ledger, traversal)
        if change is not None:
            place, newest = self._changes[id(change)]
            spoiled = {problem.node.id} if problem is not None and problem.node is not None else set()
            before = [one for one in ledger.traversals.values() if self._marks[one.backward.id][0] <= place]
            first = _ran_over(before, second, spoiled, reached)
        elif first is not None:
            newest, spoiled = self._marks[first.id][1], _walked_saving(ledger, first) & reached
        else:
            return None
        place = self._marks[first.id][0] if first is not None else place
        walked = set(ledger.traversals[first.id].executed) if first is not None else set()
        return Collision(
            self._tape, ledger, second, index, first, place, newest, problem, change, walked, reached, spoiled,
            [newest for number, (_, newest) in self._marks.items() if number != second.id],
            {node: list(events) for node, events in self._binds.items()},
            {node: list(events) for node, events in self._holders.items()},
        )  # fmt: skip


def _spoiler(ledger: Ledger, traversal: Traversal) -> Backward | None:
    """Return the earlier backward that freed, or ran over, what a traversal comes to."""
    problem = traversal.problem
    if problem is not None and problem.kind in ("freed", "region", "stale"):
        return problem.freed_by
    numbers = [number for numbers in traversal.retraversed.values() for number in numbers]
    return ledger.traversals[max(numbers)].backward if numbers else None


def _walked_saving(ledger: Ledger, backward: Backward) -> set[int]:
    """Return the nodes that a backward ran over and that keep something for it."""
    executed = ledger.traversals[backward.id].executed.keys() & ledger.nodes.keys()
    return {number for number in executed if ledger.nodes[number].keeps != "no"}


def _ran_over(
    traversals: Sequence[Traversal], second: Backward, spoiled: set[int], reached: set[int]
) -> Backward | None:
    """Return the last backward, before another one, that ran over the same part of the graph."""
    for other in reversed(traversals) if spoiled else ():
        if other.backward is not second and not (spoiled | reached).isdisjoint(other.executed):
            return other.backward
    return None


@dataclass(slots=True)
class Carrier:
    """A name, attribute or element that carries a graph over to a later iteration.

    `read` is the expression that reads it, in `function`; `sources` are the carried nodes; `stores` the
    statements that are known to have stored them. `bound` says that the tape names it so or shows the store,
    else the text alone suggests it. `every_step` says that the same expression also reads values which are not
    carried over.
    """

    text: str
    read: ast.expr
    function: Function
    sources: set[int]
    tensor: bool
    bound: bool
    consumer: Node
    every_step: bool = False
    stores: list[ast.stmt] = field(default_factory=list)


def carriers(code: Code, collision: Collision) -> list[Carrier]:
    """Return who carries the spoiled graph to the second backward, best known first."""
    found: dict[tuple[str, int], Carrier] = {}
    for consumer, source in collision.crossings():
        for carrier in _carriers_of(code, collision, consumer, source):
            key = (carrier.text, id(carrier.function))
            known = found.get(key)
            if known is None:
                found[key] = carrier
            else:
                known.sources |= carrier.sources
                known.bound = known.bound or carrier.bound
                known.tensor = known.tensor and carrier.tensor
                known.stores.extend(store for store in carrier.stores if store not in known.stores)
    result = list(found.values())
    for carrier in result:
        carrier.every_step = _reads_newer_too(collision, carrier)
    if any(carrier.bound for carrier in result):
        result = [carrier for carrier in result if carrier.bound]
    return result


def _reads_newer_too(collision: Collision, carrier: Carrier) -> bool:
    """Return whether the same expression also reads values that the same line made after the earlier backward."""
    nodes, newest = collision.ledger.nodes, collision.newest
    made_at = {nodes[source].at.span for source in carrier.sources}
    alike = (one for one in collision.walked if one.id > newest and one.at.span == carrier.consumer.at.span)
    newer = (nodes[source] for one in alike for source in one.inputs if source > newest and source in nodes)
    return any(source.at.span in made_at for source in newer)


def _carriers_of(code: Code, collision: Collision, consumer: Node, source: int) -> Iterator[Carrier]:
    """Yield the outermost function that is known to name the value decides; else all that the text suggests."""
    suggested: list[Carrier] = []
    for frame in reversed(frames(consumer.at)):
        found = [_carrier_read(code, collision, outer, consumer, source) for outer in _read_at(code, frame)]
        known = [carrier for carrier in found if carrier is not None and carrier.bound]
        if known:
            yield from known
            return
        suggested += [carrier for carrier in found if carrier is not None]
    yield from suggested


def _read_at(code: Code, place: Span) -> list[ast.expr]:
    """Return what is read by the expression at a place, or by an assignment that is all of it."""
    expression = code.expression_at(place)
    statement = code.statement_at(place) if expression is None else None
    if isinstance(statement, (ast.AugAssign, ast.Assign)) and code.spans(statement, place):
        # `total += loss` reads its target too; `bank[index] = z` writes into a tensor.
        return [*(targets(statement) if isinstance(statement, ast.AugAssign) else ()), *reads(statement.value)]
    return list(reads(expression)) if expression is not None else []


def _carrier_read(code: Code, collision: Collision, outer: ast.expr, consumer: Node, source: int) -> Carrier | None:
    """Return what an expression reads a node's value from: by what the tape says of it, or else by the text."""
    names, function = collision.names(source), code.function(outer)
    for read in chain(outer):
        text = dotted(read)
        if text is None or text == "self":
            continue
        if text in names and collision.bound_anew(text, source, consumer.at):
            # It named the value too, but means a newer one where it is read.
            return None
        stores = storing_statements(code, collision, read, source)
        if text in names or stores:
            tensor = any(bind.name == text and bind.item is None for bind in collision.binds.get(source, ()))
            return Carrier(text, read, function, {source}, tensor, True, consumer, stores=stores)
        if carried_by_text(code, read, text):
            return Carrier(text, read, function, {source}, False, False, consumer)
    return None


def storing_statements(code: Code, collision: Collision, read: ast.expr, source: int) -> list[ast.stmt]:
    """Return the assignments to the same name, attribute or container element that stored a node's value."""
    nodes = walk(code.function(read)) if isinstance(read, ast.Name) else ast.walk(code.tree)
    names = collision.names(source)
    # The tape names it by another way to the same object: `content.target` for `self.target`.
    known = isinstance(read, ast.Attribute) and any(name.endswith(f".{read.attr}") for name in names)
    owner = code.owner(read) if known else None
    return [
        statement
        for statement in nodes
        if isinstance(statement, (ast.Assign, ast.AnnAssign, ast.AugAssign)) and statement.value is not None
        and any(_is_named_alike(read, target) for target in targets(statement))
        # What is added to a value is not what the name has then.
        and (dotted(read) in names or not _adds(statement))
        and (
            (owner is not None and code.owner(statement) is owner)
            or _gives(code, collision, statement, statement.value, read, source)
        )
    ]  # fmt: skip


def _adds(statement: ast.stmt) -> bool:
    """Return whether a statement adds to a value, and not elements to a list."""
    elements = (ast.List, ast.Tuple, ast.ListComp)
    return isinstance(statement, ast.AugAssign) and not isinstance(statement.value, elements)


def _gives(code: Code, collision: Collision, statement: ast.stmt, value: ast.expr, read: ast.expr, source: int) -> bool:
    """Return whether a statement stores a node's value under what reads it, as the tape says of its place or name."""
    names = collision.names(source)
    if any(dotted(part) in names for part in _values_of(value)):
        return True
    # Of several targets the one that is known to name it has it.
    others = dotted(read) not in names and any(dotted(target) in names for target in targets(statement))
    return not others and made_in(code, value, collision.ledger.nodes[source].at)


def made_in(code: Code, value: ast.expr, at: Site) -> bool:
    """Return whether an event happened in an expression, or in a call made there."""
    places = (code.index.range(frame)[0] for frame in frames(at) if frame.file == code.source.path)
    return any(code.start(value) <= place < code.end(value) for place in places)


def _is_named_alike(read: ast.expr, target: ast.expr) -> bool:
    """Return whether an expression may read what is stored to a target: the same name, or an attribute of that name."""
    if isinstance(read, ast.Attribute) and attr_of(target) == read.attr:
        return True
    return dotted(target) == dotted(read)


def _values_of(value: ast.expr) -> list[ast.expr]:
    """Return what an assignment stores as it is: a name or attribute, or the elements of a tuple of such."""
    return value.elts if isinstance(value, (ast.Tuple, ast.List)) else [value]


def reads(expression: ast.AST) -> Iterator[ast.expr]:
    """Yield the outermost names, attributes and elements that an expression reads, but not what it calls."""
    stack: list[ast.AST] = [expression]
    while stack:
        node = stack.pop(0)
        if isinstance(node, ast.Call):
            # The function called is no data; what a method is called on is.
            if isinstance(node.func, ast.Attribute):
                stack[0:0] = [node.func.value, *given_to(node)]
            else:
                stack[0:0] = [*given_to(node), *(() if isinstance(node.func, ast.Name) else (node.func,))]
        elif isinstance(node, ast.expr) and dotted(node) is not None:
            if is_read(node):
                yield node
        elif not isinstance(node, ast.Lambda):
            stack[0:0] = list(ast.iter_child_nodes(node))


def chain(read: ast.expr) -> Iterator[ast.expr]:
    """`self.state[k]`, then `self.state`, then `self`: a read and what it is read from."""
    yield read
    while isinstance(read, (ast.Attribute, ast.Subscript)):
        read = read.value
        yield read


def _is_filled(code: Code, read: ast.Name, text: str) -> bool:
    """Return whether a loop around an element's read puts something into its container: `hs.append(cell(hs[-1]))`."""
    if not isinstance(code.parent(read), ast.Subscript):
        return False
    calls = (call for loop in code.loops(read) for call in of_kind(loop, ast.Call) if method_called(call) in STORES)
    return any(isinstance(call.func, ast.Attribute) and dotted(call.func.value) == text for call in calls)


def carried_by_text(code: Code, read: ast.expr, text: str) -> bool:
    """Return whether the text says that a value lives on: assigned at or behind its read within a loop, a container
    that something is put into there, or an attribute that methods other than the constructor assign.
    """
    if isinstance(read, ast.Name):
        stored = (one for loop in code.loops(read) for one in code.stores(loop, text) if one is not loop)
        return any(last_line(one) >= read.lineno for one in stored) or _is_filled(code, read, text)
    owner = code.owner(read)
    scopes: list[ast.AST] = [code.function(read)]
    if owner is not None and text.startswith("self."):
        methods = (item for item in owner.body if isinstance(item, (ast.FunctionDef, ast.AsyncFunctionDef)))
        scopes = [method for method in methods if method.name != "__init__"]
    return any(code.stores(scope, text) for scope in scopes)
