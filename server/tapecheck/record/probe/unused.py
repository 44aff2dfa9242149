"""What the graphs of a watched loop, or a watched forward pass, save for a backward that never comes."""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING, Dict, Iterator, List, Optional

from .guard import Guard
from .lines import Place, ThreadLines
from .lookups import elements_of, entries_of, is_a
from .recording import Recording, UnusedGraphs
from .values import has_graph

if TYPE_CHECKING:
    from torch import Tensor
    from torch.autograd.graph import Node
    from torch.utils.hooks import RemovableHandle

_ITERATIONS = 3
"""In so many first iterations of each watched loop the calls of modules are looked at, and in each whose number is a
power of two.
"""
_CALLS = 8
"""So many calls of modules where no line event tells the iterations: in a comprehension."""
_PASSES = 3
"""So many calls of modules by a single forward pass, whose lines may run several times for each."""
_LINES = 4
"""So many line events at most one such pass is taken to have: a call over several lines has some for each."""
_MAX_NODES = 100_000
_MAX_DEPTH = 4
_KEY = "_unused"


class _Life:
    """What every node of one graph refers to; it goes with the last of them."""

    __slots__ = ("__weakref__", "loop")

    def __init__(self, loop: _Loop) -> None:
        self.loop = loop


class _Loop:
    """What was seen of one loop: module calls, those that recorded a graph, the graphs that a backward walked.

    A look is at one iteration or, where no line event tells of these, at one call: how many there were, and how many
    of them met a graph.
    """

    __slots__ = (
        "at", "calls", "found", "iterations", "last", "left", "looks", "nodes", "of_calls", "of_lines", "recorded",
        "size", "until", "walked",
    )  # fmt: skip

    def __init__(self, at: int, place: Place) -> None:
        self.at = at
        self.of_calls = place.in_line or place.passes
        # A forward pass has several line events, and its line may have other calls.
        self.of_lines = _LINES if place.passes else 1
        self.until = _ITERATIONS * self.of_lines
        self.left = _PASSES if place.passes else _CALLS
        self.iterations = self.calls = self.recorded = self.walked = self.nodes = self.size = 0
        self.looks = self.found = 0
        # The iteration that the last look, and the last that met a graph, was at.
        self.last = [0, 0]

    def begins(self) -> None:
        """Note that another iteration begins."""
        self.iterations += 1
        if self.iterations > self.until and not self.iterations & (self.iterations - 1):
            self.until, self.left = self.iterations + self.of_lines - 1, 1

    @property
    def looked_at(self) -> bool:
        return self.iterations <= self.until and (self.left > 0 or not self.of_calls)

    def called(self) -> None:
        """Note a call of a module that is looked at."""
        self.left -= 1
        self.calls += 1
        if self.of_calls or self.last[0] != self.iterations:
            self.looks += 1
            self.last[0] = self.iterations

    def records(self, nodes: int, size: int) -> None:
        """Note that this call has recorded a graph."""
        self.recorded += 1
        self.nodes = max(self.nodes, nodes)
        self.size = max(self.size, size)
        if self.of_calls or self.last[1] != self.iterations:
            self.found += 1
            self.last[1] = self.iterations


class Unused(UnusedGraphs):
    """Measures the graphs that modules build within watched loops of one recorded run."""

    def __init__(self, recorder: Recording) -> None:
        self.recorder = recorder
        # By the header's place: one for each way of calls that leads to the loop.
        self.loops: Dict[Place, _Loop] = {}
        self.alive: Dict[int, weakref.ref[_Life]] = {}
        self._hooks: List[RemovableHandle] = []
        self._depth = 0
        self._next = 0

    def header_runs(self, lines: ThreadLines, place: Place) -> None:
        """Note that the header of a watched loop runs: another iteration is about to begin, if there is one.

        Of a comprehension, or a forward pass that is looked at, it is its line that runs.
        """
        loop = self.loops.get(place)
        if loop is None:
            loop = self.loops[place] = _Loop(self.recorder.site(place, ()), place)
        loop.begins()
        self._depth = 0
        wanted = any(each.iterations <= each.until for each in self.loops.values())
        if wanted and not self._hooks:
            module = self.recorder.torch.nn.modules.module
            self._hooks = [
                module.register_module_forward_pre_hook(self._enters),
                module.register_module_forward_hook(self._leaves),
            ]
        elif not wanted and self._hooks:
            self._unhook()

    def _unhook(self) -> None:
        while self._hooks:
            self._hooks.pop().remove()

    def _enters(self, module: object, args: object) -> None:
        self._depth += 1

    def _leaves(self, module: object, args: object, output: object) -> None:
        self._depth -= 1
        if self._depth > 0:
            return
        # While torch.compile traces, this is a part of what it traces.
        if self.recorder.failures or self.recorder.torch.compiler.is_compiling():
            return
        with Guard(self.recorder):
            loop = self._running()
            if loop is not None:
                self._look(loop, output)

    def _running(self) -> Optional[_Loop]:
        """Return the innermost watched loop that runs in this thread and is still looked at."""
        lines = self.recorder.tracer.threads.get(threading.get_ident())
        if lines is None:
            return None
        place = lines.place
        for call in reversed(lines.stack):
            while place is not None and place.context.depth > call.context.depth:
                place = place.context.caller
            if place is not None and (place.in_line or place.passes) and place in self.loops:
                known = self.loops[place]
                return known if known.looked_at else None
            for loop in reversed(call.loops):
                around = self.loops.get(loop.place)
                if around is not None:
                    return around if around.looked_at else None
        return None

    def _look(self, loop: _Loop, output: object) -> None:
        loop.called()
        reader = self.recorder.reader
        roots = [tensor.grad_fn for tensor in self._tensors(output, 0) if has_graph(tensor)]
        nodes = list(reader.walk_all(roots, _MAX_NODES))
        try:
            if not nodes or len(nodes) >= _MAX_NODES:
                return
            loop.records(len(nodes), reader.saved_bytes(nodes))
            life, key = _Life(loop), reader.key + _KEY
            for node in nodes:
                node.metadata[key] = life
        finally:
            nodes.clear()
            roots.clear()
        number = self._next = self._next + 1
        alive = self.alive

        def end(_: object) -> None:
            alive.pop(number, None)

        alive[number] = weakref.ref(life, end)

    def _tensors(self, value: object, depth: int) -> Iterator[Tensor]:
        if is_a(value, self.recorder.torch.Tensor):
            yield value
        elif depth < _MAX_DEPTH and is_a(value, list, tuple, dict):
            for item in [item for _, item in entries_of(value)] if is_a(value, dict) else elements_of(value):
                yield from self._tensors(item, depth + 1)

    def walks(self, roots: List[Optional[Node]]) -> None:
        """Note that a backward is about to walk the graphs below some nodes."""
        key = self.recorder.reader.key + _KEY
        met: Dict[int, _Life] = {}
        for node in self.recorder.reader.walk_all(roots, _MAX_NODES):
            life = node.metadata.get(key)
            if life is not None:
                met[id(life)] = life
        for life in met.values():
            life.loop.walked += 1

    def write(self) -> None:
        """Write what was seen, at the end of the run."""
        self._unhook()
        event = self.recorder.writer.event
        left = [life.loop for life in [known() for known in list(self.alive.values())] if life is not None]
        for loop in self.loops.values():
            for name, value, unit in (
                ("module-calls", loop.calls, "calls"),
                ("recorded-calls", loop.recorded, "calls"),
                ("walked-graphs", loop.walked, "graphs"),
                ("left-graphs", left.count(loop), "graphs"),
                ("looks", loop.looks, "looks"),
                ("looks-with-graph", loop.found, "looks"),
                ("graph-nodes", loop.nodes, "nodes"),
                ("graph-bytes", loop.size, "bytes"),
            ):
                event("Measure", at=loop.at, name=name + ":loop", value=value, unit=unit)
