"""What outlives an iteration: which variables, attributes and containers keep graphs of earlier iterations.

A name or attribute carries when an iteration reads the value that an earlier one stored; a container carries what
it still holds of earlier iterations. Both become `Hold` events at the end of an iteration.
"""

from __future__ import annotations

import ast
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol, TypeGuard

from tapecheck.interpret import limits
from tapecheck.interpret.engine import Engine
from tapecheck.interpret.objects import syntax
from tapecheck.interpret.values import (
    COUNTED,
    INERT,
    Bound,
    ByKind,
    Cached,
    Class,
    Dict,
    Env,
    Function,
    Generator,
    Instance,
    Lib,
    List,
    Mark,
    Module,
    Native,
    Set,
    Slot,
    Tensor,
    Unknown,
    Value,
    Wrapped,
    behaviour,
    can_hold,
    equal,
    is_module,
    is_parameter,
    listed,
    marked,
    may_carry,
    node_of,
    unkey,
    user_class,
)
from tapecheck.source.nodes import first_line
from tapecheck.tape import Cut, Hold, Site, Span


def restored(machine: Engine, slot: Slot, before: Value, value: Value) -> bool:
    """Whether a store only goes on from a store of the same iteration: `x = x + step` and then `x = x.clamp()`.

    The line that joined the old graph to the new one is then the one that carries.
    """
    if slot.clock != machine.world.position.clock:
        return False
    new = node_of(value)
    if new is None or not may_carry(before) or before.node is None or before.oldest is None:
        return False
    if slot.at.iteration != machine.world.position.iteration:
        return False
    queue = [new]
    for number in queue:
        if number == before.node:
            return True
        node = machine.world.writer.ledger.nodes.get(number)
        if node is not None and len(queue) < limits.MAX_BACK:
            queue.extend(source for source in node.inputs if source >= before.node)
    return False


def begin(machine: Engine, loop: int, index: int) -> tuple[int, int]:
    """Begin an iteration; answers its clock and the last node id before it, for `end`."""
    machine.world.loops.begin(loop, index)
    return machine.world.position.clock, machine.world.writer.last_id


def end(machine: Engine, loop: int, index: int, started: tuple[int, int]) -> None:
    """Note what the iteration that ends leaves behind."""
    if machine.world.position.inside_forward or not machine.world.writer.has_nodes:
        return
    if machine.world.writer.last_id == started[1]:
        # Nothing was built: what is kept was there before, and the loops around see it.
        return
    events = len(machine.world.writer.tape.events)
    scan = _Scan(machine, loop, index, *started)
    for env in reversed(machine.envs):
        scan.namespace(env)
    for module in machine.modules.values():
        # What a function of another file stores in that file's globals.
        scan.namespace(module.env)
    for node, kept in machine.gathering:
        scan.gathered(node, kept)
    held = len(machine.world.writer.tape.events) - events
    machine.world.budget.spend(max(len(scan.seen) + scan.looked - limits.SEEN_FREE, 0) // limits.SEEN_A_UNIT + held)


class _Nowhere:
    """What holds values without a name of their own: elements, closures, defaults."""

    def __init__(self) -> None:
        self.slots: dict[Hashable, Slot] = {}


_NOWHERE = _Nowhere()


class _Owner(Protocol):
    """What values are stored in: a namespace, an object, a class, a container."""

    @property
    def slots(self) -> dict[Hashable, Slot]: ...


class _Scan:
    def __init__(self, machine: Engine, loop: int, index: int, clock: int, first: int) -> None:
        self.machine = machine
        self.world = machine.world
        self.loop = loop
        self.index = index
        self.clock = clock
        self.first = first
        self.before = self.world.loops.before(loop)
        self.seen: set[int] = set()
        self.looked = 0
        """Elements of mappings that were looked at."""
        self.running = {id(env) for env in machine.envs}
        self.scope: Span | None = None
        """The function whose remembered results are looked at."""

    def namespace(self, env: Env | None) -> None:
        while env is not None and id(env) not in self.seen:
            self.seen.add(id(env))
            names = env.vars
            before = self.before
            changing = env.parent is not None or id(env) in self.running
            for name in list(names) if changing else _watched(env):
                value = names[name]
                if type(value) not in INERT and not _carries_nothing(value, before):
                    self.entry(value, name, env, name)
            env = env.parent

    def entry(self, value: Value, path: str, owner: _Owner, key: Hashable) -> bool:
        """Return a value kept under a name, attribute or key, which may be stored anew in every iteration.

        Answers whether no graph can be there before something else is stored.
        """
        if may_carry(value):
            return self.tensor(value, path, owner, key)
        if isinstance(value, (tuple, List, Dict, Set)):
            return len(self.seen) < limits.MAX_SEEN and self.elements(value, path, owner, key)
        if isinstance(value, Instance) and _stamp(owner, key) >= self.clock and _linked(value):
            # A list of linked objects grows at its end: the name refers to one object more in each iteration.
            tensors = tensors_in(value)
            if self.reach_back(tensors) and self.read_across(owner, key):
                self.hold(_place(owner, key), path, tensors)
                return False
        return self.object(value, path)

    def tensor(self, value: Tensor | Unknown, path: str, owner: _Owner, key: Hashable) -> bool:
        if value.given is None:
            # By far the most frequent: one tensor that is itself all there is.
            node, oldest = value.node, value.oldest
            if node is not None and oldest is not None and oldest <= self.first:
                if self.read_across(owner, key) or self.changed_there(value, owner):
                    self.hold(_carrying(value, owner, key), path, [value])
            return node is None
        kept = tensors_in(value)
        if self.reach_back(kept) and (self.read_across(owner, key) or self.changed_there(value, owner)):
            self.hold(_carrying(value, owner, key), path, kept)
        return value.node is None

    def elements(self, value: tuple[Value, ...] | List | Dict | Set, path: str, owner: _Owner, key: Hashable) -> bool:
        if isinstance(value, tuple) or getattr(value, "born", -1) >= self.clock:
            # A tuple never changes, but what it has does.
            fixed = value if isinstance(value, tuple) else ()
            objects = [(number, item) for number, item in enumerate(fixed) if isinstance(item, Instance)]
            tensors = tensors_in(value, into_objects=not objects)
            if self.reach_back(tensors) and self.read_across(owner, key):
                self.hold(_place(owner, key), path, tensors, self.bound_of(value))
            for number, item in objects:
                self.entry(item, f"{path}[{number}]", _NOWHERE, number)
        elif isinstance(value, Dict):
            self.mapping(value, path)
        else:
            self.container(value, path, owner, key)
        return isinstance(value, tuple) and INERT.issuperset(map(type, value))

    def gathered(self, node: ast.AST, kept: List | Dict) -> None:
        """Look at what a comprehension or call that is still running has taken in so far."""
        target = self.machine.world.position.notes.of(node, syntax.target_of, self.machine)
        if not target:
            # What no variable gets is gone once it is computed.
            return
        if isinstance(kept, Dict):
            self.mapping(kept, target)
        elif kept.items:
            self.container(kept, target, _NOWHERE, "")

    def container(self, value: List | Set, path: str, owner: _Owner, key: Hashable) -> None:
        if id(value) in self.seen:
            return
        kinds = set(map(type, value.items))
        if kinds <= INERT:
            return
        self.seen.add(id(value))
        tensors = tensors_in(value, into_objects=False)
        if self.reach_back(tensors):
            at = self.filled_within(value, getattr(value, "stored_at", None) or _place(owner, key))
            self.hold(self.written_into(tensors, at), path, tensors, self.bound_of(value))
        for index, item in enumerate(value.items) if not kinds <= _PLAIN else ():
            if type(item) in INERT or id(item) in self.seen:
                continue
            if isinstance(item, Dict) and len(self.seen) < limits.MAX_SEEN and item.is_flat():
                # Rows of numbers and texts are most of what programs collect.
                self.seen.add(id(item))
            elif isinstance(item, (Instance, List, Dict)):
                self.entry(item, f"{path}[{index}]", _NOWHERE, index)

    def filled_within(self, value: Value, at: Site | None, depth: int = limits.HELD_DEPTH) -> Site | None:
        """Return where a container, or one in it, was stored into last: rows that were made empty are filled later."""
        if not isinstance(value, (List, Dict, tuple)) or depth <= 0:
            return at
        for item in behaviour(value).children():
            if isinstance(item, List):
                at = self.later(at, item.stored_at)
            elif isinstance(item, Dict):
                for slot in item.slots.values():
                    at = self.later(at, slot.at)
            at = self.filled_within(item, at, depth - 1)
        return at

    def later(self, one: Site | None, other: Site | None) -> Site | None:
        """Return the one of two stores that came in a later iteration of this loop, the first where neither did."""
        return other if self.iteration_of(other) > self.iteration_of(one) else one

    def iteration_of(self, at: Site | None) -> int:
        """Return the iteration of this loop that a place belongs to, 0 where it was come to before."""
        return next((index for loop, index in at.iteration if loop == self.loop), 0) if at is not None else 0

    def mapping(self, value: Dict, path: str, bound: int | None = None) -> None:
        if id(value) in self.seen:
            return
        self.seen.add(id(value))
        self.looked += len(value.items)
        kept: list[Tensor | Unknown] = []
        anew: list[Tensor | Unknown] = []
        keys: list[Hashable] = []
        for key, item in list(value.items.items()):
            if type(item) in INERT:
                continue
            held = self.held_under(value, key, item)
            if held:
                keys.append(key)
                # One entry that each iteration stores over is no more than a variable.
                stays = key not in value.rewritten or _stamp(value, key) < self.clock
                (kept if stays else anew).extend(held)
            if not may_carry(item):
                self.entry(item, _item_of(path, key), value, key)
            elif key in value.rewritten and _stamp(value, key) >= self.clock:
                if self.reaches_back(item) and self.read_across(value, key):
                    self.hold(_place(value, key), _item_of(path, key), [item])
        if self.reach_back(kept):
            keys.sort(key=lambda key: _stamp(value, key))
            last = next((at for key in reversed(keys) if (at := _place(value, key)) is not None), None)
            kept += anew
            self.hold(self.written_into(kept, last), path, kept, bound, unseen=_may_be_one(keys))

    def held_under(self, owner: Dict, key: Hashable, item: Value) -> list[Tensor | Unknown]:
        """Return what a mapping holds under a key: tensors with a graph."""
        if may_carry(item):
            return [item] if item.node is not None and not item.is_leaf else []
        record = self.is_record(item, owner.slots.get(key))
        return [one for one in tensors_in(item, into_objects=False) if not one.is_leaf] if record else []

    def is_record(self, value: Value, slot: Slot | None) -> bool:
        """Return whether a container is as it was stored under a key: one that fills is reported by itself."""
        if slot is None or not isinstance(value, (tuple, List, Dict)):
            return False
        if isinstance(value, Dict):
            return all(one.clock <= slot.clock for one in value.slots.values())
        stored, at = slot.at.iteration, value.stored_at if isinstance(value, List) else None
        return at is None or (at.iteration[: len(stored)] == stored and self.later(slot.at, at) is slot.at)

    def object(self, value: Value, path: str) -> bool:
        """Look into an object; answers whether no graph can be there before something else is stored."""
        if self.is_quiet(value):
            return True
        if id(value) in self.seen or len(self.seen) > limits.MAX_SEEN:
            return False
        self.seen.add(id(value))
        look = _LOOKS.get(type(value))
        return look is not None and look(self, value, path)

    def is_quiet(self, value: Value) -> bool:
        """Return whether there is certainly nothing to find in an object."""
        if _is_silent(value):
            return True
        if isinstance(value, Class):
            if value.plain is None:
                value.plain = not any(map(_keeps, value.namespace.values()))
            return bool(value.plain or value.quiet == self.world.stores.kept)
        if not isinstance(value, Instance):
            return False
        if value.quiet == self.world.stores.kept:
            return True
        # A layer of the library holds leaves only, as long as none was changed in place.
        return value.as_made and not self.world.graph.leaves_changed

    def instance(self, value: Instance, path: str) -> bool:
        quiet = True
        for name, item in list(value.attrs.items()):
            if type(item) in INERT or (type(item) is Tensor and (item.node is None or item.is_leaf)):
                continue
            quiet = self.entry(item, f"{path}.{name}", value, name) and quiet
        if value.numbered is not None:
            self.numbered(value, path)
        if value.inner is not None:
            # An object of a class made from dict or list: what it holds as such.
            quiet = self.entry(value.inner, path, _NOWHERE, "") and quiet
        if value.cls is not None:
            quiet = self.object(value.cls, value.cls.name) and quiet
        if quiet:
            value.quiet = self.world.stores.kept
        return quiet

    def class_object(self, value: Class, path: str) -> bool:
        quiet = True
        for name, item in list(value.namespace.items()):
            if can_hold(item):
                quiet = self.entry(item, f"{value.name}.{name}", value, name) and quiet
            elif isinstance(item, Function) and (item.defaults or item.kw_defaults):
                quiet = self.defaults(item) and quiet
        if quiet:
            value.quiet = self.world.stores.kept
        return quiet

    def generator(self, value: Generator, path: str) -> bool:
        for name, item in list(value.env.vars.items()):
            if type(item) not in INERT:
                self.entry(item, name, value.env, name)
        return False

    def module(self, value: Module, path: str) -> bool:
        self.namespace(value.env)
        return False

    def function(self, value: Value, path: str) -> bool:
        function = value
        while isinstance(function, (Wrapped, Bound)):
            if isinstance(function, Bound):
                self.object(function.receiver, path)
            elif isinstance(function, Cached):
                self.remembered(function, path)
            function = function.function
        if isinstance(function, Function):
            self.namespace(function.env)
            for name, item in function.attrs.items():
                self.entry(item, f"{function.name}.{name}", _NOWHERE, name)
            self.defaults(function)
        return False

    def remembered(self, function: Cached, path: str) -> None:
        """Look at what a function keeps of its calls."""
        around, inner = self.scope, function.function
        if isinstance(inner, Bound):
            inner = inner.function
        if isinstance(inner, Function):
            whole = self.world.position.span_in(inner.module, inner.node)
            begins = whole.line if isinstance(inner.node, ast.Lambda) else first_line(inner.node)
            self.scope = Span(whole.file, begins, 1, whole.end_line, whole.end_column)
        self.mapping(function.memory, path, function.bound)
        self.scope = around

    def numbered(self, value: Instance, path: str) -> None:
        """Look at the attributes of an object with computed names: `setattr(log, f"loss_{step}", loss)`."""
        numbered = value.numbered or ()
        names = [name for name in value.attrs if name in numbered and name in value.slots]
        tensors = [tensor for name in names for tensor in tensors_in(value.attrs[name])]
        if len(names) > 1 and self.reach_back(tensors):
            self.hold(value.slots[names[-1]].at, path, tensors)

    def defaults(self, function: Function) -> bool:
        """Look into what a function's parameters have as defaults; answers whether no graph can be there."""
        quiet = True
        if _SILENT.issuperset(map(type, (*function.defaults, *function.kw_defaults))):
            return quiet
        for name, item in function.parameters_with_default():
            if type(item) not in _SILENT:
                quiet = self.entry(item, name, _NOWHERE, name) and quiet
        return quiet

    def written_into(self, elements: list[Tensor | Unknown], stored: Site | None) -> Site | None:
        """Where a container's elements came to keep graphs: the change in place, where nothing was stored since."""
        if stored is not None and stored.iteration == self.world.position.iteration:
            return stored
        changed = [one.changed for one in elements if one.changed is not None]
        last: Site | None = max(changed, key=lambda one: one[0])[1] if changed else None
        return last if changed and max(when for when, _ in changed) >= self.clock else stored

    def bound_of(self, value: Value) -> int | None:
        """Return the most elements that a container keeps: by its own nature, or since this iteration cut it back."""
        window = getattr(value, "window", None)
        if window is not None and window[0] >= self.clock:
            cut_to: int = window[1]
            return cut_to
        return getattr(value, "bound", None)

    def reaches_back(self, value: Tensor | Unknown) -> bool:
        """Whether a value's graph has nodes older than this iteration."""
        return value.node is not None and value.oldest is not None and value.oldest <= self.first

    def reach_back(self, values: list[Tensor | Unknown]) -> bool:
        """Whether the graph of any value does."""
        oldest = [value.oldest for value in values if value.node is not None and value.oldest is not None]
        return bool(oldest) and min(oldest) <= self.first

    def read_across(self, owner: _Owner, key: Hashable) -> bool:
        """Whether this iteration read what an earlier one stored there."""
        slot: Slot | None = owner.slots.get(key)
        if slot is None or slot.clock < self.clock:
            return bool(owner.slots)
        return any(at >= self.clock > stamp for at, stamp in slot.loads or ())

    def changed_there(self, value: Tensor | Unknown, owner: _Owner) -> bool:
        """Whether this iteration changed a module's parameter or buffer in place, which nothing ever stores anew."""
        if value.changed is None or (owner.slots and not value.parameter):
            return False
        return value.changed[0] >= self.clock

    def hold(
        self,
        at: Site | None,
        path: str,
        values: list[Tensor | Unknown],
        bound: int | None = None,
        *,
        unseen: bool = False,
    ) -> None:
        nodes = tuple({value.node: None for value in values if value.node is not None and not value.is_leaf})
        # What is older than the loop is kept by none of its iterations: the loop around it says so.
        if at is not None and nodes and max(nodes) > self.before:
            self.world.writer.emit(Hold(at, self.loop, self.index, path, nodes, bound, scope=self.scope, unseen=unseen))


_LOOKS: ByKind[_Scan, [str], bool] = ByKind()
_LOOKS.register(_Scan.instance, Instance)
_LOOKS.register(_Scan.class_object, Class)
_LOOKS.register(_Scan.generator, Generator)
_LOOKS.register(_Scan.module, Module)
_LOOKS.register(_Scan.function, Function, Wrapped, Cached, Bound)


def _may_be_one(keys: Sequence[Hashable]) -> bool:
    """Return whether the newest of some keys may be another one of them, for all that is known."""
    *others, newest = map(unkey, keys[-limits.LOOKED_AT :])
    return any(equal(newest, other) is None for other in others)


def _linked(value: Instance) -> bool:
    """Whether an object refers to another one of its class."""
    return value.cls is not None and any(user_class(item) is value.cls for item in value.attrs.values())


def _recorded(value: Instance) -> list[Value]:
    """Return what an object has held since its iteration; not what is set anew, or fills, while it lives."""
    if value.lib == "functools.partial":
        return [value.attrs["args"], value.attrs["keywords"]]
    return [
        item
        for name, item in value.attrs.items()
        if value.born >= 0 and _stamp(value, name) == value.born and (may_carry(item) or isinstance(item, tuple))
    ]


def _item_of(path: str, key: Hashable) -> str:
    """Return the name of what a mapping has under a key."""
    return f"{path}[{key!r}]" if isinstance(key, (str, int)) else f"{path}[...]"


def _carrying(value: Tensor | Unknown, owner: _Owner, key: Hashable) -> Site | None:
    """Where a kept graph came to be kept: where the tensor was stored, or written into since."""
    if value.changed is not None and value.changed[0] > _stamp(owner, key):
        return value.changed[1]
    return _place(owner, key)


def _place(owner: _Owner, key: Hashable) -> Site | None:
    """Where a name, attribute or key was stored."""
    slot: Slot | None = owner.slots.get(key)
    return None if slot is None else slot.at


def _stamp(owner: _Owner, key: Hashable) -> int:
    """When it was."""
    slot: Slot | None = owner.slots.get(key)
    return -1 if slot is None else slot.clock


_PLAIN = INERT | {Tensor}
_SILENT = INERT | {Lib, Native}


def _carries_nothing(value: Value, before: int) -> bool:
    """Return whether no iteration of a loop that began at node `before` carries what a name has."""
    if isinstance(value, Tensor):
        # Of one that is itself all there is: what is older than the loop is kept by none of its iterations.
        return value.node is None or value.is_leaf or (value.given is None and value.node <= before)
    return _is_silent(value) or (isinstance(value, Class) and bool(value.plain))


def _is_silent(value: Value) -> bool:
    """Whether a value can hold no other value: a number, a text, a name of a library, a function that keeps nothing."""
    return type(value) in _SILENT or (isinstance(value, Function) and _keeps_nothing(value))


def _keeps_nothing(function: Function) -> bool:
    """Whether a function holds no values of its own: no closure, no attributes, no defaults that could grow."""
    return (
        function.env is function.env.globals
        and not function.attrs
        and _SILENT.issuperset(map(type, (*function.defaults, *function.kw_defaults)))
    )


def _keeps(value: Value) -> bool:
    """Whether a member of a class can hold a graph, or a default argument that can."""
    if isinstance(value, Function):
        return not _SILENT.issuperset(map(type, (*value.defaults, *value.kw_defaults)))
    return can_hold(value)


def _watched(env: Env) -> tuple[str, ...]:
    """Return the names of a run module whose values can come to hold a graph; `touched` says when others do."""
    known = env.watched
    if known is None or known[0] != len(env.vars):
        known = len(env.vars), tuple(name for name, value in env.vars.items() if not _settled(value, env))
        env.watched = known
    return known[1]


def _settled(value: Value, env: Env) -> bool:
    """Whether a value of a module can hold no graph as long as nothing is stored to the name or to the function."""
    return _is_silent(value) and (not isinstance(value, Function) or value.env is env)


def of_model(value: Value) -> bool:
    """Whether a value is a parameter, also what stands for those of an unknown model, or a module, with its name or
    others beside it where it is a tuple.
    """
    return any(is_parameter(one) or is_module(one) or marked(one, Mark.OPAQUE) for one in listed(value))


def is_leaf(value: Value) -> bool:
    """Whether a value is a leaf tensor."""
    return may_carry(value) and value.is_leaf


def has_graph(value: Value) -> TypeGuard[Tensor]:
    """Whether a value is a tensor with a graph, or a leaf that requires grad."""
    return isinstance(value, Tensor) and value.node is not None


def tensors_in(value: Value, depth: int = limits.HELD_DEPTH, *, into_objects: bool = True) -> list[Tensor | Unknown]:
    """Every tensor with a node inside a value: in containers, in objects, or only in what objects are records of."""
    found: list[Tensor | Unknown] = []
    _collect(value, depth, into_objects, found)
    return found


_TO_NUMBERS = ("item", "numpy")
"""Cuts after which a value is no tensor any more."""


def hand_over(machine: Engine, values: Iterable[Value], *, numbers: bool = False) -> None:
    """Note where values were cut from their graph that code which is not visible is handed, or finds in them; with
    `numbers` those alone that became numbers.
    """
    if cuts := machine.world.writer.ledger.cuts:
        found = {cut for value in values for cut in _cuts_in(value, limits.HELD_DEPTH, cuts)}
        handed = (cuts[cut] for cut in found)
        machine.world.omissions.handed.update(cut.at.span for cut in handed if not numbers or cut.how in _TO_NUMBERS)


def _cuts_in(value: Value, depth: int, known: Mapping[int, Cut]) -> Iterator[int]:
    """Yield the cuts that a value without a graph, or what lies in it, came through: of a number those alone that made
    it one.
    """
    if may_carry(value):
        number = type(value) is Unknown and value.kind in COUNTED
        cuts = value.cuts if value.borne() != "yes" else ()
        yield from (cut for cut in cuts if not number or known[cut].how in _TO_NUMBERS)
    elif depth > 0:
        for child in behaviour(value).children():
            if type(child) not in INERT:
                yield from _cuts_in(child, depth - 1, known)


def _collect(value: Value, depth: int, into_objects: bool, found: list[Tensor | Unknown]) -> None:
    children: Iterable[Value]
    if isinstance(value, Tensor):
        if value.node is not None:
            found.append(value)
        if value.given is None:
            return
        children = value.given.values()
    elif type(value) is Unknown:
        if value.node is not None:
            found.append(value)
        return
    elif isinstance(value, Instance):
        if value.module:
            return
        children = value.children() if into_objects else _recorded(value)
    else:
        children = behaviour(value).children()
    if depth > 0:
        for child in children:
            kind = type(child)
            if kind is Tensor and child.given is None:  # type: ignore[union-attr]
                # Lists of hundreds of parameters are looked through at the end of each iteration.
                if child.node is not None:  # type: ignore[union-attr]
                    found.append(child)  # type: ignore[arg-type]
            elif kind not in INERT:
                _collect(child, depth - 1, into_objects, found)
