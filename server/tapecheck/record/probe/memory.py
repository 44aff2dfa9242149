"""What held the memory when it ran out: saved tensors of graphs by line, parameters, the other tensors."""

from __future__ import annotations

import gc
import itertools
from types import TracebackType
from typing import Optional

from .alive import count
from .lines import ThreadLines
from .lookups import ids_of
from .recording import Recording
from .values import has_graph

_MAX_NODES = 1_000_000
_MAX_LINES = 8
_MAX_TIMES = 3
_TEXTS = ("out of memory", "can't allocate memory", "not enough memory")


def ran_out(error: BaseException) -> bool:
    """Return whether an exception is torch's word for memory that ran out, on a device or on the host."""
    text = str(error)
    return any(part in text for part in _TEXTS)


class MemoryReport:
    """Writes, at the first exceptions that say so, what held the memory."""

    def __init__(self) -> None:
        self._told = 0

    def write(
        self, recorder: Recording, lines: ThreadLines, error: BaseException, traceback: Optional[TracebackType]
    ) -> None:
        """Write it as measures; an exception passes every frame up to its handler and is written in the innermost."""
        if recorder.tracer.passed_on(traceback):
            return
        if self._told >= _MAX_TIMES:
            return
        self._told += 1
        torch, reader = recorder.torch, recorder.reader
        device = "cpu" if "CPUAllocator" in str(error) or "DefaultCPU" in str(error) else "cuda"
        kinds = ids_of(torch.Tensor, torch.nn.Parameter)
        objects = gc.get_objects()
        tensors = list(itertools.compress(objects, map(kinds.__contains__, map(id, map(type, objects)))))
        del objects
        with recorder.group():
            recorder.declare_loops(lines)
            at = recorder.here(lines)
            graphs = [tensor.grad_fn for tensor in tensors if has_graph(tensor)]
            nodes = list(reader.walk_all(graphs, _MAX_NODES))
            graphs.clear()
            held = count(recorder, tensors, nodes, device)
            tensors.clear()
            nodes.clear()
            graphed = sum(held.saved.values())
            own = held.gradients + held.optimizer + held.other
            event = recorder.writer.event
            event("Measure", at=at, name="memory-ran-out", value=held.parameters + graphed + own, unit="bytes")
            event("Measure", at=at, name="memory-of-graphs", value=graphed, unit="bytes")
            for place, size in sorted(held.saved.items(), key=lambda item: -item[1])[:_MAX_LINES]:
                if place is not None:
                    event("Measure", at=recorder.site(place, ()), name="memory-of-line", value=size, unit="bytes")
            event("Measure", at=at, name="memory-of-parameters", value=held.parameters, unit="bytes")
            event("Measure", at=at, name="memory-of-tensors", value=own, unit="bytes")
