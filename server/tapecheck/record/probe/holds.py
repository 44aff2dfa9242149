"""Looks for values that outlive an iteration and keep autograd graphs alive.

Looking means walking every live object once, so it is done after the first five iterations, then after 8, 13, 21,
... only, and never for more than a small share of the run.
"""

from __future__ import annotations

import collections
import gc
import sys
import time
from types import CellType, FrameType, FunctionType, MethodType
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Set, Tuple

from .names import locals_of, members, release, user_frames
from .sources import Sources, Store
from .tracing import Place, RunningLoop, ThreadLines

_MAX_LOOKUPS = 50_000
_MAX_NODES = 100_000
_MAX_HELD = 2_000
_MAX_DEPTH = 6
_ALLOWANCE_SECONDS = 1.0
_SHARE = 0.1


def _sampled() -> Set[int]:
    numbers, a, b = {4}, 1, 2
    while a < 1 << 40:
        numbers.add(a)
        a, b = b, a + b
    return numbers


_SAMPLED = _sampled()


class Holder(NamedTuple):
    """Who keeps a tensor: what the user calls it, the name it is stored under, and the bound of its container."""

    text: str
    name: str
    attribute: bool
    container: bool
    function: str
    bound: Optional[int]


class HoldFinder:
    """Finds, at the end of an iteration, who keeps graph nodes that are older than it."""

    def __init__(self, torch: Any, reader: Any, sources: Sources) -> None:
        self.torch = torch
        self.reader = reader
        self.sources = sources
        self.spent = 0.0
        self.began = time.monotonic()
        self._user_types: Dict[type, bool] = {}

    def iteration_ended(self, recorder: Any, lines: ThreadLines, loop: RunningLoop, frame: FrameType) -> None:
        """Write what is alive, and who keeps it, after a sampled iteration."""
        if loop.index not in _SAMPLED or loop.entry not in _SAMPLED or _inside_forward(loop.place):
            return
        now = time.monotonic()
        if self.spent > _ALLOWANCE_SECONDS + _SHARE * (now - self.began):
            return
        try:
            self._look(recorder, lines, loop, frame)
        finally:
            self.spent += time.monotonic() - now

    def _look(self, recorder: Any, lines: ThreadLines, loop: RunningLoop, frame: FrameType) -> None:
        tensors = self._tensors()
        try:
            nodes = [tensor.grad_fn if tensor.grad_fn is not None else tensor.grad.grad_fn for tensor in tensors]
            recorder.describe_graph(nodes, frame)
            live, size = 0, 0
            found = list(self.reader.walk_all(nodes, _MAX_NODES))
            live, size = len(found), self.reader.saved_bytes(found)
            found.clear()
            at = recorder.site(loop.place, lines.iteration(), loop.text.extent)
            recorder.writer.event("Measure", at=at, name="live-nodes", value=live, unit="nodes")
            recorder.writer.event("Measure", at=at, name="live-saved-bytes", value=size, unit="bytes")
            old: Dict[int, Any] = {}
            for tensor, node in zip(tensors, nodes):
                if tensor.grad_fn is not None and tensor.grad_fn is node:
                    known = self.reader.known(node)
                    if known is not None and known.oldest < loop.began:
                        old[id(tensor)] = (known.id, node)
            if old:
                self._name_and_write(recorder, lines, loop, frame, old)
        finally:
            tensors.clear()
            nodes = found = []
            old = {}

    def _tensors(self) -> List[Any]:
        """The live tensors that lead to a graph."""
        kinds = _subclasses(self.torch.Tensor)
        tensors = []
        for value in [value for value in gc.get_objects() if type(value) in kinds]:
            try:
                if value.is_leaf:
                    if value.requires_grad and value.grad is not None and value.grad.grad_fn is not None:
                        tensors.append(value)
                # Asking a view that was changed in place for its node would build a new one.
                elif not (value._is_view() and value._version) and value.grad_fn is not None:
                    tensors.append(value)
            except Exception:
                continue
        return tensors

    def _name_and_write(
        self, recorder: Any, lines: ThreadLines, loop: RunningLoop, frame: FrameType, old: Dict[int, Any]
    ) -> None:
        holders: Dict[Holder, List[Tuple[int, Any]]] = {}
        for holder, identity in self._search(frame, set(old)):
            holders.setdefault(holder, []).append(old[identity])
        for holder, held in holders.items():
            held.sort(key=lambda pair: pair[0])
            newest = self._place_of(recorder, held[-1][1])
            place = self._stored(recorder, holder, newest)
            at = recorder.site(place or newest or loop.place, lines.iteration(), self._statement(holder, place))
            numbers = [number for number, _ in held[-_MAX_HELD:]]
            fields: Dict[str, Any] = {"bound": holder.bound} if holder.bound is not None else {}
            recorder.writer.event(
                "Hold", at=at, loop=loop.id, index=loop.index, holder=holder.text, nodes=numbers, **fields
            )
            nodes = list(self.reader.walk_all([node for _, node in held], _MAX_NODES))
            size = self.reader.saved_bytes(nodes)
            for name, value, unit in (("held-nodes", len(nodes), "nodes"), ("held-bytes", size, "bytes")):
                recorder.writer.event("Measure", at=at, name=name + ":" + holder.text, value=value, unit=unit)
            nodes.clear()
            held.clear()

    def _place_of(self, recorder: Any, node: Any) -> Optional[Place]:
        place, _ = recorder.tracer.where(node._sequence_nr())
        return place  # type: ignore[no-any-return]

    # Where it was stored

    def _stored(self, recorder: Any, holder: Holder, built: Optional[Place]) -> Optional[Place]:
        """The executed statement that stores into a holder."""
        best: Optional[Tuple[Tuple[int, int, int], Place]] = None
        lines: Dict[Tuple[str, int], Store] = {}
        for text in self.sources.texts():
            for store in text.stores:
                if store.name == holder.name and store.attribute == holder.attribute:
                    if not store.attribute and holder.function and store.function != holder.function:
                        continue
                    for line in range(store.first, store.last + 1):
                        lines[(text.filename, line)] = store
        if not lines:
            return None
        for place in recorder.tracer.all_places:
            found = lines.get((place.filename, place.line))
            if found is None or not place.hits:
                continue
            building = built is not None and built.filename == place.filename and found.first <= built.line <= found.last
            how = {"assign": 0, "augmented": 1, "container": 0}[found.how]
            if holder.container:
                how = 2 if found.how == "container" else how
            rank = (1 if building else 0, how, place.hits)
            if best is None or rank > best[0]:
                best = (rank, place)
        return best[1] if best is not None else None

    def _statement(self, holder: Holder, place: Optional[Place]) -> Any:
        if place is None:
            return None
        text = place.context.function.text
        for store in text.stores:
            if store.name == holder.name and store.first <= place.line <= store.last:
                first, last = text.line_extent(store.first), text.line_extent(store.last)
                return (first[0], first[1], last[2], last[3])
        return None

    # Who holds it

    def _search(self, frame: FrameType, wanted: Set[int]) -> Iterator[Tuple[Holder, int]]:
        """Every wanted tensor with its holder, found from the user's variables by plain lookups."""
        found: List[Tuple[Holder, int]] = []
        seen: Set[int] = set()
        budget = _MAX_LOOKUPS
        queue: collections.deque[Tuple[Any, Holder, int]] = collections.deque()
        scopes: List[Tuple[FrameType, Any, str]] = []
        globals_seen: List[Any] = []
        for step in user_frames(frame, self.sources):
            local = locals_of(step)
            module = local is step.f_globals
            if not module or not any(local is other for other in globals_seen):
                scopes.append((step, local, step.f_code.co_name))
            if module:
                globals_seen.append(local)
            elif not any(step.f_globals is other for other in globals_seen):
                globals_seen.append(step.f_globals)
                scopes.append((step, step.f_globals, "<module>"))
        for _, scope, function in scopes:
            for name, value in list(scope.items()):
                if not name.startswith("__"):
                    queue.append((value, Holder(name, name, False, False, function, None), 0))
        while queue and budget:
            budget -= 1
            value, holder, depth = queue.popleft()
            identity = id(value)
            if identity in wanted:
                found.append((holder, identity))
                continue
            if depth >= _MAX_DEPTH or identity in seen:
                continue
            for child, inner in self._children(value, holder):
                if id(child) in wanted:
                    found.append((inner, id(child)))
                elif not _plain(child):
                    queue.append((child, inner, depth + 1))
                    seen.add(identity)
        for step, local, _ in scopes:
            if local is not step.f_globals:
                release(step, local)
        queue.clear()
        scopes.clear()
        return iter(found)

    def _children(self, value: Any, holder: Holder) -> Iterator[Tuple[Any, Holder]]:
        kind = type(value)
        if issubclass(kind, (list, tuple, set, frozenset, collections.deque)):
            bound = getattr(value, "maxlen", None) if issubclass(kind, collections.deque) else None
            inner = holder._replace(container=True, bound=bound if bound is not None else holder.bound)
            for item in list(value):
                yield item, inner
        elif issubclass(kind, dict):
            inner = holder._replace(container=True)
            for item in list(value.values()):
                yield item, inner
        elif issubclass(kind, FunctionType):
            for name, cell in zip(value.__code__.co_freevars, value.__closure__ or ()):
                yield from _cell(name, cell)
        elif issubclass(kind, MethodType):
            yield value.__self__, holder
        elif issubclass(kind, self.torch.nn.Module) or self._is_user(kind):
            for name, item in list(members(value).items()):
                if name in ("_parameters", "_backward_hooks"):
                    continue
                if name in ("_modules", "_buffers", "_forward_hooks", "_forward_pre_hooks") and isinstance(item, dict):
                    for inner_name, inner_item in list(item.items()):
                        yield inner_item, _attribute(holder, str(inner_name))
                else:
                    yield item, _attribute(holder, name)
            for slot in getattr(kind, "__slots__", ()) if not members(value) else ():
                try:
                    yield object.__getattribute__(value, slot), _attribute(holder, slot)
                except AttributeError:
                    continue

    def _is_user(self, kind: type) -> bool:
        known = self._user_types.get(kind)
        if known is None:
            module = sys.modules.get(getattr(kind, "__module__", "") or "")
            file = getattr(module, "__file__", None)
            known = self._user_types[kind] = isinstance(file, str) and self.sources.is_user(file)
        return known


def _subclasses(kind: type) -> Set[type]:
    found, stack = {kind}, [kind]
    while stack:
        for inner in type.__subclasses__(stack.pop()):
            if inner not in found:
                found.add(inner)
                stack.append(inner)
    return found


def _attribute(holder: Holder, name: str) -> Holder:
    return Holder(holder.text + "." + name, name, True, False, "", None)


def _cell(name: str, cell: CellType) -> Iterator[Tuple[Any, Holder]]:
    try:
        yield cell.cell_contents, Holder(name, name, False, False, "", None)
    except ValueError:
        return


def _plain(value: Any) -> bool:
    return value is None or isinstance(value, (int, float, str, bytes, complex, type))


def _inside_forward(place: Place) -> bool:
    step: Optional[Place] = place
    while step is not None:
        if step.context.function.code.co_name == "forward":
            return True
        step = step.context.caller
    return False
