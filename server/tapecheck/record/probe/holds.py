"""Looks for values that outlive an iteration and keep autograd graphs alive.

Looking takes time, so it is done after the first five iterations, then after 8, 13, 21, ... only, and never for more
than a small share of the program's own work. Both are counted: see `effort`.
"""

from __future__ import annotations

import bisect
import collections
import ctypes
import functools
import gc
import itertools
import sys
import weakref
from types import CellType, FrameType, FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Callable, Collection, Dict, Iterator, List, NamedTuple, Optional, Set, Tuple, Union

from .effort import LOOKUP, NODE, OBJECTS_A_UNIT, WRITTEN_NODE, Effort, cpu_seconds
from .graph import Reader
from .lines import Place, RunningLoop, ThreadLines
from .lookups import bases_of, elements_of, entries_of, ids_of, is_a, members, module_of, namespace, slots_of
from .names import locals_of, release, user_frames
from .recording import Holds, Recording
from .sources import Extent, LoopText, Sources, SourceText, Store
from .values import TensorRef, has_graph, is_learning_leaf
from .writer import Span, span

if TYPE_CHECKING:
    from torch import Tensor
    from torch.autograd.graph import Node

_MAX_LOOKUPS = 50_000
_MAX_NODES = 100_000
_MAX_HELD = 2_000
_MAX_DEPTH = 6
_OTHER_NAMES = 8
_ENDS = 5_000
_SEARCHING = 300_000
# Going over everything that lives. Where a backward left saved tensors behind there is more to look for.
_MEASURING, _WITHOUT_KEPT = 1_000_000, 0.4
_OF_LATER_RUNS = 0.3
_SEEN_BEFORE_TRAINING = 3
_Cached = type(functools.lru_cache(lambda: None))
# What a class may have under a name that keeps something, and how the function within a method of the class is read.
_OF_CLASSES = (list, dict, set, tuple, collections.deque, FunctionType, _Cached)
_PLAIN_FUNCTION: Dict[int, Callable[[object], object]] = {
    id(kind): vars(kind)["__func__"].__get__ for kind in (staticmethod, classmethod)
}
# Values in which nothing can be found; data sets are full of them.
_PLAIN = ids_of(int, float, str, bytes, complex, bool, type(None))
# Of these types nothing is found in what is empty: a module has eight such dictionaries of hooks.
_MAY_BE_EMPTY = ids_of(dict, collections.OrderedDict, list, tuple, set, frozenset, collections.deque)
# The dictionaries of a module whose entries are found as its attributes.
_OF_MODULES = ("_parameters", "_modules", "_buffers", "_forward_hooks", "_forward_pre_hooks")
# Libraries whose objects hold data, or nothing of the program's.
_NOT_FOLLOWED = ("torch.", "builtins", "numpy", "pandas", "logging", "threading", "weakref", "types", "importlib")
# The first two iterations of a loop that no line event shows ran before it was found.
_FIRST_OF_HIDDEN = 7


def _fibonacci() -> List[int]:
    numbers = [1, 2]
    while numbers[-1] < 1 << 40:
        numbers.append(numbers[-1] + numbers[-2])
    return numbers


SAMPLED = {4, *_fibonacci()}
SOON, _FIRST_OF_LATE = 2, 4
"""The first five iterations of a loop are looked at; of one that does not train as soon as this, four from then on."""
_IN_ORDER = sorted(SAMPLED)
# Walking every live object of the process costs some 60 ms, so it is done less often still.
_ALL_LIVE = {*_fibonacci()[1:5], *_fibonacci()[5::3]}


def next_sample(index: int) -> int:
    """Return the next iteration after which to look, of those that are looked at at all."""
    return index + 1 if index < 8 else _IN_ORDER[bisect.bisect_right(_IN_ORDER, index)]


class Holder(NamedTuple):
    """Who keeps a tensor: what the user calls it, the name it is stored under, and the bound of its container.

    Entries of a dictionary are told apart by their `key` where the text names it. `inside`: what it keeps is in a
    container that has that name, and not under the name itself. `foreign`: it is reached through a library's object.
    `attribute` is None where it is written both ways: a variable of a module that others import.
    `scope`: file and first line of the function whose variable it is, or which remembers it; line 0 for a module's.
    """

    text: str
    name: str
    attribute: Optional[bool]
    container: bool
    function: str
    bound: Optional[int]
    key: str = ""
    inside: bool = False
    foreign: bool = False
    scope: Optional[Tuple[str, int]] = None


Scope = Optional[Tuple[str, int]]


class OtherNames:
    """The other names that containers have, by the one that was met first, and by which of them each is told."""

    def __init__(self) -> None:
        self.told: Dict[Tuple[str, Scope], Holder] = {}
        self._also: Dict[Tuple[str, Scope], List[Holder]] = {}
        self._first: Dict[int, Holder] = {}

    def begin(self) -> None:
        self._also.clear()
        self._first.clear()

    def met(self, value: object, holder: Holder) -> None:
        """Note a name of a value, if that is a container."""
        first = self._first.get(id(value))
        if first is None:
            if is_a(value, list, dict, set, collections.deque):
                self._first[id(value)] = holder
        elif first.name != holder.name and not first.inside and not holder.inside:
            others = self._also.setdefault((first.text, first.scope), [])
            if len(others) < _OTHER_NAMES:
                others.append(holder)

    def of(self, holder: Holder) -> List[Holder]:
        """Return the other names of what holds something as the content of a container."""
        return self._also.get((holder.text, holder.scope), []) if holder.container and holder.inside else []


class HoldFinder(Holds):
    """Finds, at the end of an iteration, who keeps graph nodes that are older than it."""

    def __init__(self, torch: ModuleType, reader: Reader, sources: Sources) -> None:
        self.torch = torch
        # The tensors that were met so far, and where the objects begin that were made since.
        self.met: List[TensorRef] = []
        self.newer = Newer() if sys.version_info < (3, 14) else None
        self.reader = reader
        self.sources = sources
        self.searching, self.measuring = Effort(_SEARCHING), Effort(_MEASURING)
        self.noted = False
        self.gone_over = self.looked_up = self.walked = 0
        self.gradients_have_graphs = False
        self.counted: Dict[int, bool] = {}
        self.names = OtherNames()
        self._user_types: Dict[int, Tuple[weakref.ref[type], bool]] = {}

    def iteration_ended(self, recorder: Recording, lines: ThreadLines, loop: RunningLoop, frame: FrameType) -> None:
        """Write what is alive, and who keeps it, after a sampled iteration."""
        looked_at = loop.index in SAMPLED or begins_late(loop) or (loop.hidden and loop.index <= _FIRST_OF_HIDDEN)
        if not looked_at or loop.entry not in SAMPLED or _inside_forward(loop.place):
            return
        if recorder.alive is not None:
            recorder.alive.after_iteration(recorder.site(loop.place, lines.iteration(), loop.text.extent))
        if loop.entry > 1 and _within_training(recorder.loops.training, lines, loop):
            return
        built = lines.seen - recorder.first_sequence
        if not self.searching.left(built):
            self._note_stopped(recorder, lines, loop)
            return
        if loop.index in _ALL_LIVE and recorder.tracer.alone:
            self._measure(recorder, lines, loop, built)
        began, met = cpu_seconds(), self.reader.met
        self.looked_up = self.walked = 0
        try:
            self._look(recorder, lines, loop, frame)
        finally:
            written = self.reader.met - met
            self.searching.took(LOOKUP * self.looked_up + NODE * self.walked + WRITTEN_NODE * written, began)

    def _measure(self, recorder: Recording, lines: ThreadLines, loop: RunningLoop, built: int) -> None:
        """Write how much is alive, counted as far as work is left for that.

        By one thread only: another one may let go, in C++, of a tensor that is just being looked at, of which torch 2.1
        warns.
        """
        exact = recorder.walks.all_met(lines)
        # The two ways of counting are not to be compared with each other.
        if len(self.counted) > 1000:
            self.counted.clear()
        if self.counted.setdefault(loop.id, exact) != exact:
            return
        if exact:
            self._write_alive(recorder, lines, loop, recorder.walks.living(), 0)
        elif not (recorder.levels or self.gradients_have_graphs):
            # Nobody asks for it: to go over all that lives is the dearest look there is.
            return
        elif recorder.walks.count or loop.index <= _SEEN_BEFORE_TRAINING:
            # What an earlier run of the same loop has shown need not be shown again by so dear a look.
            part = (1.0 if recorder.walks.keeping else _WITHOUT_KEPT) * (1.0 if loop.entry == 1 else _OF_LATER_RUNS)
            if not self.measuring.left(built, part):
                self._note_stopped(recorder, lines, loop)
                return
            began, self.gone_over, self.walked = cpu_seconds(), 0, 0
            try:
                self._measure_all(recorder, lines, loop)
            finally:
                self.measuring.took(self.gone_over // OBJECTS_A_UNIT + NODE * self.walked, began)

    def _look(self, recorder: Recording, lines: ThreadLines, loop: RunningLoop, frame: FrameType) -> None:
        younger, began = self.reader.is_younger, loop.began
        found = [entry for entry in self._search(frame, loop.hidden) if not younger(entry[1].grad_fn, began)]
        try:
            recorder.described.graph([tensor.grad_fn for _, tensor in found], frame)
            holders: Dict[Holder, Dict[int, Node]] = {}
            kept: Dict[Holder, List[Tensor]] = {}
            for holder, tensor in found:
                node = tensor.grad_fn
                known = self.reader.known(node)
                if known is not None and known.oldest < loop.began:
                    holders.setdefault(holder, {})[known.id] = node
                    kept.setdefault(holder, []).append(tensor)
            recorder.passing.kept = recorder.passing.kept or bool(holders)
            for holder, held in holders.items():
                self._write(recorder, lines, loop, holder, held, kept[holder])
                held.clear()
                kept[holder].clear()
        finally:
            found.clear()

    def _note_stopped(self, recorder: Recording, lines: ThreadLines, loop: RunningLoop) -> None:
        """Write once that the clock, and not the counted work, ended the looking: verdicts lack what follows."""
        if self.noted or not (self.searching.stopped or self.measuring.stopped):
            return
        self.noted = True
        at = recorder.site(loop.place, lines.iteration(), loop.text.extent)
        value = self.searching.seconds + self.measuring.seconds
        recorder.writer.event("Measure", at=at, name="looking-stopped", value=value, unit="seconds")

    def _measure_all(self, recorder: Recording, lines: ThreadLines, loop: RunningLoop) -> None:
        """Write how many graph nodes, and bytes they saved, all live tensors of the process lead to."""
        tensors, unasked = self._tensors()
        nodes = [tensor.grad_fn if tensor.grad_fn is not None else tensor.grad.grad_fn for tensor in tensors]
        try:
            found = list(self.reader.walk_all(nodes, _MAX_NODES))
            self.walked += len(found)
            self._write_alive(recorder, lines, loop, len(found) + unasked, self.reader.saved_bytes(found))
            found.clear()
        finally:
            tensors.clear()
            nodes.clear()

    def _write_alive(self, recorder: Recording, lines: ThreadLines, loop: RunningLoop, nodes: int, size: int) -> None:
        at = recorder.site(loop.place, lines.iteration(), loop.text.extent)
        recorder.writer.event("Measure", at=at, name="live-nodes", value=nodes, unit="nodes")
        recorder.writer.event("Measure", at=at, name="live-saved-bytes", value=size, unit="bytes")
        if self.torch.cuda.is_initialized():
            value = self.torch.cuda.memory_allocated()
            recorder.writer.event("Measure", at=at, name="cuda-memory", value=value, unit="bytes")

    def live(self) -> List[Tensor]:
        """Return the live tensors that Python knows, those excepted that were made before the recording."""
        kinds = _subclasses(self.torch.Tensor)
        objects = gc.get_objects() if self.newer is None else self.newer.objects()
        self.gone_over += len(objects)
        # There are hundreds of thousands of objects: no line of Python runs for each.
        found = list(itertools.compress(objects, map(kinds.__contains__, map(id, map(type, objects)))))
        # The list may be among what it holds.
        objects.clear()
        if self.newer is not None:
            seen = {id(value) for value in found}
            known, self.met = self.met, []
            for reference in known:
                value = reference()
                if value is not None:
                    self.met.append(reference)
                    if id(value) not in seen:
                        found.append(value)
            known_ids = {id(reference()) for reference in self.met}
            self.met += [TensorRef(value) for value in found if id(value) not in known_ids]
        return found

    def _tensors(self) -> Tuple[List[Tensor], int]:
        """Return the live tensors that lead to a graph, and how many more have a node that is not asked for."""
        tensors, unasked = [], 0
        for value in self.live():
            try:
                if has_graph(value):
                    tensors.append(value)
                elif value.requires_grad and value._version and value._is_view():
                    # To ask it for its graph would build a node: that of its base has all but the view's own.
                    unasked += 1
                    base = value._base
                    if base is not None and has_graph(base):
                        tensors.append(base)
                # A gradient that Python never saw stays unseen: only a backward with create_graph gives it a graph.
                elif self.gradients_have_graphs and is_learning_leaf(value):
                    if value.grad is not None and value.grad.grad_fn is not None:
                        tensors.append(value)
            except Exception:
                continue
        return tensors, unasked

    def _write(
        self, recorder: Recording, lines: ThreadLines, loop: RunningLoop, holder: Holder, held: Dict[int, Node],
        tensors: List[Tensor],
    ) -> None:  # fmt: skip
        numbers = sorted(held)
        newest = self._place_of(recorder, held[numbers[-1]])
        holder = self._as_filled(recorder, holder)
        place = self._stored(recorder, holder, newest)
        at = recorder.site(place or newest or loop.place, lines.iteration(), self._statement(holder, place))
        fields: Dict[str, object] = {"bound": holder.bound} if holder.bound is not None else {}
        if holder.inside:
            fields["inside"] = True
        if holder.scope is not None:
            fields["scope"] = self._scope(*holder.scope)
        nodes = list(self.reader.walk_all(held.values(), _MAX_NODES))
        self.walked += len(nodes)
        self._write_binds(recorder, lines, loop, holder, nodes)
        recorder.writer.event(
            "Hold", at=at, loop=loop.id, index=loop.index, holder=holder.text, nodes=numbers[-_MAX_HELD:], **fields
        )
        saved, own = self.reader.held_bytes(nodes, tensors)
        sizes = (("held-nodes", len(nodes)), ("held-bytes", saved), ("held-own-bytes", own))
        for name, value in sizes:
            unit = name.rpartition("-")[2]
            recorder.writer.event("Measure", at=at, name=name + ":" + holder.text, value=value, unit=unit)
        nodes.clear()

    def _scope(self, filename: str, first: int) -> Span:
        """Return where a function begins; a module does so on line 0."""
        extent = self.sources.text(filename).line_extent(first) if first else (0, 1, 0, 1)
        return span(self.sources.name(filename), extent)

    def _write_binds(
        self, recorder: Recording, lines: ThreadLines, loop: RunningLoop, holder: Holder, nodes: List[Node]
    ) -> None:
        """Write which node the holder's name was bound to by each statement of this iteration that built one."""
        if holder.container:
            return
        statements = [(text.filename, store) for text, store in self._stores(holder)]
        bound: Dict[Tuple[str, int], Tuple[int, int, Place]] = {}
        for node in nodes:
            sequence = node._sequence_nr()
            if sequence < loop.began:
                continue
            place, _ = recorder.tracer.where(sequence)
            known = self.reader.known(node)
            if place is None or known is None:
                continue
            for filename, store in statements:
                if place.filename == filename and store.first <= place.line <= store.last:
                    before = bound.get((filename, store.first))
                    if before is None or before[0] < sequence:
                        bound[(filename, store.first)] = (sequence, known.id, place)
        if len(bound) < 2:
            return
        for _, number, place in sorted(bound.values(), key=lambda entry: entry[0]):
            at = recorder.site(place, lines.iteration(), self._statement(holder, place))
            recorder.writer.event("Bind", at=at, name=holder.text, node=number)

    def _place_of(self, recorder: Recording, node: Node) -> Optional[Place]:
        place, _ = recorder.tracer.where(node._sequence_nr())
        return place

    # Where it was stored

    def _stored(self, recorder: Recording, holder: Holder, built: Optional[Place]) -> Optional[Place]:
        """Return the executed statement that stores into a holder."""
        best: Optional[Tuple[Tuple[int, int, bool, int], Place]] = None
        for text, store in self._stores(holder):
            rows = range(store.first, store.last + 1)
            # A statement that built the held node stored it; else one that fills a container, else the busiest.
            building = built is not None and built.filename == text.filename and built.line in rows
            how = 2 if store.how == "container" and holder.container else 1 if store.how == "augmented" else 0
            for row in rows:
                for place in recorder.tracer.places_at.get((text.filename, row), ()):
                    # Several calls lead to one statement: the one by which it built the node.
                    called = building and built is not None and place.context is built.context
                    rank = (1 if building else 0, how, called, place.hits)
                    if place.hits and (best is None or rank > best[0]):
                        best = (rank, place)
        return best[1] if best is not None else None

    def _as_filled(self, recorder: Recording, holder: Holder) -> Holder:
        """Return a container under the name by which the program fills it, where it does not by the one that was met
        first: `seen` for what a function remembers and has given away.
        """
        others, told, key = self.names.of(holder), self.names.told, (holder.text, holder.scope)
        if not others:
            return holder
        if key not in told:
            names = (other._replace(container=True, inside=True, bound=holder.bound) for other in (holder, *others))
            filled = (name for name in names if self._is_filled(recorder, name))
            told[key] = next(filled, holder)
        return told[key]

    def _is_filled(self, recorder: Recording, holder: Holder) -> bool:
        """Return whether a statement ran that puts something into a container under a name."""
        places_at = recorder.tracer.places_at
        return any(
            place.hits
            for text, store in self._stores(holder)
            if store.how != "assign"
            for row in range(store.first, store.last + 1)
            for place in places_at.get((text.filename, row), ())
        )

    def _stores(self, holder: Holder) -> Iterator[Tuple[SourceText, Store]]:
        """Yield the statements that store under a holder's name, in its function where it is a local variable.

        What a module's variable holds may be put into it in any function that has no variable of that name.
        """
        for text in self.sources.texts():
            stores = text.stores.get(holder.name, ())
            local = {store.function for store in stores if store.how == "assign" and not store.attribute}
            for store in stores:
                if holder.attribute not in (None, store.attribute):
                    continue
                if store.key and holder.key and store.key != holder.key:
                    continue
                inner = holder.function == "<module>" and store.how == "container" and store.function not in local
                if store.attribute or not holder.function or store.function == holder.function or inner:
                    yield text, store

    def _statement(self, holder: Holder, place: Optional[Place]) -> Optional[Extent]:
        if place is None:
            return None
        text = place.context.function.text
        for store in text.stores.get(holder.name, ()):
            if store.first <= place.line <= store.last:
                first, last = text.line_extent(store.first), text.line_extent(store.last)
                return (first[0], first[1], last[2], last[3])
        return None

    # Who holds it

    def _search(self, frame: FrameType, libraries: bool = False) -> List[Tuple[Holder, Tensor]]:
        """Return the tensors with a graph that the user's variables lead to, by plain lookups, with their holders.

        With `libraries` through objects of libraries, too: a trainer has the model whose loop it runs.
        """
        found: List[Tuple[Holder, Tensor]] = []
        kinds = _subclasses(self.torch.Tensor)
        seen: Set[int] = set()
        self.names.begin()
        budget = _MAX_LOOKUPS
        queue: collections.deque[Tuple[object, Holder, int]] = collections.deque()
        held: List[Tuple[FrameType, Dict[str, object]]] = []
        scopes: List[Tuple[Dict[str, object], str, Tuple[str, int]]] = []
        for step in user_frames(frame, self.sources):
            local, code = locals_of(step), step.f_code
            if local is not step.f_globals:
                held.append((step, local))
                scopes.append((local, code.co_name, (code.co_filename, code.co_firstlineno)))
            if not any(scope is step.f_globals for scope, _, _ in scopes):
                scopes.append((step.f_globals, "<module>", (code.co_filename, 0)))
        for scope, function, begins in scopes:
            for name, value in list(scope.items()):
                if not name.startswith("__") and not self._plain(value):
                    queue.append((value, Holder(name, name, False, False, function, None, scope=begins), 0))
        while queue and budget:
            budget -= 1
            value, holder, depth = queue.popleft()
            if holder.foreign and self._is_user(type(value)):
                # As its own methods name it, who keep what it has.
                holder = Holder("self", "self", True, False, "", None)
            if id(type(value)) in kinds:
                if has_graph(value):
                    found.append((holder, value))
                continue
            self.names.met(value, holder)
            if depth >= _MAX_DEPTH or id(value) in seen:
                continue
            seen.add(id(value))
            for child, inner in self._children(value, holder, libraries):
                if not _is_nothing(child) and not self._plain(child):
                    queue.append((child, inner, depth + 1))
        self.looked_up += _MAX_LOOKUPS - budget
        queue.clear()
        scopes.clear()
        scope = {}
        while held:
            step, local = held.pop()
            release(step, local)
        return found

    def _children(self, value: object, holder: Holder, libraries: bool = False) -> Iterator[Tuple[object, Holder]]:
        kind = type(value)
        if is_a(value, list, tuple, set, frozenset, collections.deque):
            yield from self._of_items(value, holder)
        elif is_a(value, dict):
            yield from self._of_dict(value, holder)
        elif is_a(value, FunctionType):
            yield from self._of_function(value, holder)
        elif is_a(value, MethodType):
            yield value.__self__, holder
        elif is_a(value, _Cached):
            yield from self._of_cache(value, holder)
        elif is_a(value, type):
            yield from self._of_class(value, holder)
        elif is_a(value, ModuleType):
            yield from self._of_module(value)
        elif issubclass(kind, self.torch.nn.Module) or self._is_user(kind):
            yield from self._of_object(value, holder)
            yield from self._of_class(kind, holder)
        elif libraries and not module_of(kind).startswith(_NOT_FOLLOWED):
            for name, item in list(members(value).items()):
                yield item, _attribute(holder, name)._replace(foreign=True)

    def _of_function(self, function: FunctionType, holder: Holder) -> Iterator[Tuple[object, Holder]]:
        """Yield what a function has between its calls: closed-over variables, defaults, attributes, what it wraps."""
        code = function.__code__
        for name, cell in zip(code.co_freevars, function.__closure__ or ()):
            yield from _cell(name, cell)
        if not self.sources.is_user(code.co_filename):
            return
        defaults = function.__defaults__ or ()
        named = code.co_varnames[code.co_argcount - len(defaults) : code.co_argcount]
        begins = (code.co_filename, code.co_firstlineno)
        for name, value in (*zip(named, defaults), *(function.__kwdefaults__ or {}).items()):
            yield value, Holder(name, name, False, False, code.co_name, None, scope=begins)
        for name, value in list(members(function).items()):
            yield value, holder if name == "__wrapped__" else _attribute(holder, name)

    def _of_items(self, value: Collection[object], holder: Holder) -> Iterator[Tuple[object, Holder]]:
        """Yield the elements of a sequence or set; of a long one those at its ends."""
        bound = collections.deque.maxlen.__get__(value) if is_a(value, collections.deque) else None
        inside = holder._replace(container=True, bound=bound if bound is not None else holder.bound, inside=True)
        items = elements_of(value)
        kinds = {id(kind): kind for kind in map(type, items)}
        if kinds.keys() <= _PLAIN:
            return
        if len(items) > 2 * _ENDS:
            # What a loop adds lies at the end, what it started with at the beginning.
            items = items[:_ENDS] + items[-_ENDS:]
        elif is_a(value, list, tuple) and not any(issubclass(kind, self.torch.Tensor) for kind in kinds.values()):
            # Objects and containers that the text tells apart by their places.
            named = self._named()
            for place, item in enumerate(items):
                text = "%s[%d]" % (holder.text, place)
                yield item, inside._replace(text=text, inside=False) if place in named else inside
            return
        for item in items:
            yield item, inside

    def _of_cache(self, value: object, holder: Holder) -> Iterator[Tuple[object, Holder]]:
        """Yield what `functools.lru_cache` keeps of the calls of a function, and that function."""
        own = members(value)
        about, bound = own.get("cache_parameters"), None
        if isinstance(about, FunctionType) and about.__globals__ is vars(functools):
            bound = about()["maxsize"]
        inside = holder._replace(container=True, bound=bound, inside=True)
        function = own.get("__wrapped__")
        plain = function.__func__ if is_a(function, MethodType) else function
        if is_a(plain, FunctionType):
            code = plain.__code__
            inside = inside._replace(
                scope=(code.co_filename, code.co_firstlineno) if self.sources.is_user(code.co_filename) else None
            )
        for item in gc.get_referents(value):
            # One without a bound has all of it in a dictionary.
            if item is not own and not is_a(item, type, FunctionType):
                yield item, inside
        yield function, holder

    def _named(self) -> Set[Union[int, str]]:
        """Return the keys and indices by which the text stores into a container."""
        return {key for text in self.sources.texts() for key in text.keys}

    def _of_dict(self, value: Dict[object, object], holder: Holder) -> Iterator[Tuple[object, Holder]]:
        entries = list(entries_of(value))
        if _PLAIN.issuperset(id(type(item)) for _, item in entries):
            return
        named = self._named()
        for key, item in entries:
            if type(key) is str and key in named:
                text = "%s[%r]" % (holder.text, key)
                yield item, holder._replace(text=text, container=True, key=holder.key or key, inside=False)
            else:
                yield item, holder._replace(container=True, inside=True)

    def _of_object(self, value: object, holder: Holder) -> Iterator[Tuple[object, Holder]]:
        """Yield what a module or an object of the user's has itself; of a module's parameters those with a graph."""
        own = members(value)
        for name, item in list(own.items()):
            if _is_nothing(item):
                continue
            if name in _OF_MODULES and is_a(item, dict):
                for inner_name, inner in list(entries_of(item)):
                    # A parameter that was changed in place outside `no_grad` has a graph; it is no leaf any more.
                    if name != "_parameters" or (is_a(inner, self.torch.Tensor) and not inner.is_leaf):
                        yield inner, _attribute(holder, str(inner_name))
            elif name != "_backward_hooks":
                yield item, _attribute(holder, name)
        for name, item in slots_of(value) if not own else ():
            yield item, _attribute(holder, name)

    def _of_class(self, kind: type, holder: Holder) -> Iterator[Tuple[object, Holder]]:
        """Yield what the program's own classes keep themselves, for all of their objects."""
        for base in bases_of(kind):
            if self._is_user(base):
                for name, item in list(namespace(base).items()):
                    function = _PLAIN_FUNCTION.get(id(type(item)))
                    value = function(item) if function is not None else item
                    if is_a(value, *_OF_CLASSES, self.torch.Tensor):
                        yield value, _attribute(holder, name)

    def _of_module(self, module: ModuleType) -> Iterator[Tuple[object, Holder]]:
        """Yield the variables of one of the program's own modules."""
        own = members(module)
        file = own.get("__file__")
        if isinstance(file, str) and self.sources.is_user(file):
            for name, value in list(own.items()):
                if not name.startswith("__"):
                    yield value, Holder(name, name, None, False, "<module>", None, scope=(file, 0))

    def _plain(self, value: object) -> bool:
        """Return whether nothing can be found in a value."""
        if is_a(value, type):
            return not self._is_user(value)
        return id(type(value)) in _PLAIN or is_a(value, int, float, str, bytes, complex)

    def _is_user(self, kind: type) -> bool:
        known = self._user_types.get(id(kind))
        if known is None or known[0]() is not kind:
            file = members(sys.modules.get(module_of(kind))).get("__file__")
            known = weakref.ref(kind), isinstance(file, str) and self.sources.is_user(file)
            self._user_types[id(kind)] = known
        return known[1]


class Newer:
    """The objects that the collector knows, those made since the last look: all of them at the first one.

    A mark stands among them, behind it what was made later. The collector only ever moves objects to the end of a
    generation, and not at all those that something beyond its sight refers to.
    """

    _BACK = 1 << 14

    def __init__(self) -> None:
        self.mark: Optional[List[int]] = None

    def objects(self) -> List[object]:
        """Return the objects made since the last look, and maybe some of those before."""
        found: List[object] = []
        mark, met = id(self.mark), False
        for generation in (0, 1, 2):
            objects = gc.get_objects(generation)
            start = len(objects)
            while start and not met and self.mark is not None:
                end, start = start, max(start - self._BACK, 0)
                at = list(map(id, objects[start:end]))
                met = mark in at
                start += at.index(mark) if met else 0
            found += objects[start if self.mark is not None else 0 :]
            if met:
                # What is in the older generations is older still.
                break
        before, self.mark = self.mark, []
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self.mark))
        if before is not None:
            ctypes.pythonapi.Py_DecRef(ctypes.py_object(before))
        return found


def _within_training(training: Set[LoopText], lines: ThreadLines, loop: RunningLoop) -> bool:
    """Return whether a loop without a backward runs within one that has them: what it keeps belongs to one graph."""
    if loop.text in training:
        return False
    for other in lines.running():
        if other is loop:
            return False
        if other.text in training:
            return True
    return False


def _subclasses(kind: type) -> Dict[int, type]:
    """Return a class and all below it, by their identity."""
    found = {id(kind): kind}
    stack: List[type] = [kind]
    while stack:
        below: List[type] = type.__subclasses__(stack.pop())
        for inner in below:
            if id(inner) not in found:
                found[id(inner)] = inner
                stack.append(inner)
    return found


def _attribute(holder: Holder, name: str) -> Holder:
    # Of the objects in a container each may have it: `rows[*].total`.
    of = holder.text + "[*]" if holder.inside else holder.text
    return Holder(of + "." + name, name, True, False, "", None, foreign=holder.foreign)


def _cell(name: str, cell: CellType) -> Iterator[Tuple[object, Holder]]:
    try:
        yield cell.cell_contents, Holder(name, name, False, False, "", None)
    except ValueError:
        return


def _is_nothing(value: object) -> bool:
    """Return whether nothing can be found in a value, as its type and length tell: no code of the program's is run."""
    kind = id(type(value))
    return kind in _PLAIN or (kind in _MAY_BE_EMPTY and not value)


def begins_late(loop: RunningLoop) -> bool:
    """Return whether an iteration is one of the first that train, and earlier ones filled a replay memory, say."""
    return 0 < loop.late <= loop.index < loop.late + _FIRST_OF_LATE


def _inside_forward(place: Place) -> bool:
    step: Optional[Place] = place
    while step is not None:
        if step.context.function.code.co_name == "forward":
            return True
        step = step.context.caller
    return False
