"""What the live tensors hold while a program runs, for the page of the run: saved tensors by line, gradients, ...

Asked for only: looking at all tensors takes some milliseconds, and is bounded by counted work. It is done where a
backward begins that goes onto the tape, when most is alive, and at the ends of sampled iterations, when what is still
alive is kept.
"""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING, Dict, Iterable, List, NamedTuple, Optional

from .effort import NODE, OBJECTS_A_UNIT, Effort, cpu_seconds
from .holds import SAMPLED
from .lines import Place, RunningLoop, ThreadLines
from .lookups import elements_of, entries_of, is_a
from .recording import LiveBytes, Recording
from .values import address_of, has_graph, is_learning_leaf

if TYPE_CHECKING:
    from torch import Tensor
    from torch.autograd.graph import Node

_MAX_NODES = 100_000
_MAX_LINES = 12
_WORK = 500_000
_TENSOR = 10
NODE_BYTES = 750
"""What a node takes by itself: 580 to 1,170 bytes each, with what is around its tensors, in programs under memray."""


class Bytes(NamedTuple):
    """Bytes of distinct storages: each counts once, as the first of these that it is.

    `graph` is what the nodes take by themselves, estimated. `lines` are the bytes that graphs built on a line hold:
    what they saved, the tensors that have them, and their nodes.
    """

    parameters: int
    gradients: int
    optimizer: int
    saved: Dict[Optional[Place], int]
    other: int
    graph: int
    lines: Dict[Optional[Place], int]


def count(recorder: Recording, tensors: Iterable[Tensor], nodes: Iterable[Node], device: str = "") -> Bytes:
    """Add up what tensors and the nodes of graphs hold, on one type of device where that is named."""
    torch, reader = recorder.torch, recorder.reader
    seen: Dict[int, int] = {}

    def size(tensor: object) -> int:
        if not isinstance(tensor, torch.Tensor) or (device and tensor.device.type != device):
            return 0
        address = address_of(tensor)
        if not address or address in seen:
            return 0
        seen[address] = reader.values.size_of(tensor)
        return seen[address]

    optimizers = [
        optimizer for reference, _ in recorder.changes.optimizer_places.values()
        for optimizer in (reference(),) if optimizer is not None
    ]  # fmt: skip
    learned = [p for p, _ in recorder.changes.parameters()]
    learned += [tensor for tensor in tensors if type(tensor) is torch.nn.Parameter]
    parameters = sum(map(size, learned))
    # Reading `.grad` makes a Python object: of parameters only, unless the program reads gradients itself.
    named = any(text.names_gradients for text in recorder.sources.texts())
    leaves = learned + (list(filter(is_learning_leaf, tensors)) if named else [])
    gradients = sum(size(tensor.grad) for tensor in leaves if tensor.is_leaf)
    states = sum(
        size(value) for optimizer in optimizers for value in _tensors_in(getattr(optimizer, "state", None), torch)
    )
    saved: Dict[Optional[Place], int] = {}
    lines: Dict[Optional[Place], int] = {}
    where, graph = recorder.tracer.where, 0
    for node in nodes:
        place, _ = where(node._sequence_nr())
        graph += NODE_BYTES
        lines[place] = lines.get(place, 0) + NODE_BYTES
        for name, slot in reader.raw(node):
            tensor, _ = reader.data(node, name, slot)
            held = size(tensor)
            if held:
                saved[place] = saved.get(place, 0) + held
    for place, held in saved.items():
        lines[place] += held
    other = 0
    for tensor in tensors:
        held = size(tensor)
        other += held
        if held and has_graph(tensor):
            place, _ = where(tensor.grad_fn._sequence_nr())
            lines[place] = lines.get(place, 0) + held
    learned.clear()
    leaves.clear()
    return Bytes(parameters, gradients, states, saved, other, graph, lines)


def _tensors_in(value: object, torch: ModuleType, depth: int = 0) -> List[object]:
    if is_a(value, torch.Tensor):
        return [value]
    if depth > 3:
        return []
    inner = [item for _, item in entries_of(value)] if is_a(value, dict) else ()
    if is_a(value, list, tuple):
        inner = elements_of(value)
    return [tensor for one in inner for tensor in _tensors_in(one, torch, depth + 1)]


class Alive(LiveBytes):
    """Writes what is alive at moments of one recorded run, within a share of its work."""

    def __init__(self, recorder: Recording) -> None:
        self.recorder = recorder
        self.effort = Effort(_WORK)

    def at_backward(self, at: int, roots: List[Optional[Node]]) -> None:
        """Write what is alive where a backward begins, whose roots are nodes or None."""
        self._write("backward", at, roots)

    def after_iteration(self, at: int) -> None:
        """Write what is alive once an iteration has ended."""
        self._write("iteration", at, [])

    def after_loop(self, lines: ThreadLines, loop: RunningLoop) -> None:
        """Write what is alive where a loop ends, unless its last iteration was looked at."""
        if loop.entry in SAMPLED and loop.index not in SAMPLED and loop.written:
            self._write("iteration", self.recorder.site(loop.place, lines.iteration(), loop.text.extent), [])

    def _write(self, moment: str, at: int, roots: List[Optional[Node]]) -> None:
        recorder, began = self.recorder, cpu_seconds()
        built = recorder.tracer.sequence() - recorder.first_sequence
        if not recorder.tracer.alone or not self.effort.left(built):
            return
        before = recorder.holds.gone_over
        tensors = recorder.holds.live()
        tops = [tensor.grad_fn for tensor in tensors if has_graph(tensor)]
        nodes = list(recorder.reader.walk_all([*roots, *tops], _MAX_NODES))
        work = (recorder.holds.gone_over - before) // OBJECTS_A_UNIT + _TENSOR * len(tensors) + NODE * len(nodes)
        try:
            held = count(recorder, tensors, nodes)
        finally:
            tops.clear()
            nodes.clear()
            tensors.clear()
        event = recorder.writer.event
        event("Measure", at=at, name="alive:" + moment, value=recorder.walks.count, unit="calls")
        whole = sum(held.saved.values())
        kinds = ("parameters", held.parameters), ("gradients", held.gradients), ("optimizer", held.optimizer)
        for name, value in (*kinds, ("saved", whole), ("graph", held.graph), ("other", held.other)):
            event("Measure", at=at, name="alive-bytes:" + name, value=value, unit="bytes")
        for name, sizes in (("alive-line", held.lines), ("alive-saved", held.saved)):
            lines = sorted(sizes.items(), key=lambda item: -item[1])
            for place, value in lines[:_MAX_LINES]:
                if place is not None:
                    event("Measure", at=recorder.site(place, ()), name=name, value=value, unit="bytes")
        self.effort.took(work, began)
