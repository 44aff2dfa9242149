"""Graphs onto the tape: the nodes and leaves that it does not have yet, each with the line that made it."""

from __future__ import annotations

from types import FrameType
from typing import TYPE_CHECKING, Dict, List, Optional, Tuple

from .graph import NewLeaf, NewNode
from .lines import ThreadLines, Where
from .names import leaf_names
from .passed import Passed, PutOff
from .recording import DescribedGraphs, Recording

if TYPE_CHECKING:
    from torch.autograd.graph import Node

_SEARCHES = 32
"""So often in a run leaves that no plain variable leads to are looked for."""


class Described(DescribedGraphs):
    """The nodes and leaves of one recorded run that are on the tape, by what they are called."""

    def __init__(self, recorder: Recording) -> None:
        self.recorder = recorder
        self.names: Dict[int, str] = {}
        self.searches = 0

    def graph(self, roots: List[Optional[Node]], frame: Optional[FrameType], retain: bool = False) -> None:
        """Write every node and leaf reachable from `roots` that the tape does not have yet.

        `retain` where this is for a backward that keeps what it walks.
        """
        recorder = self.recorder
        reader = recorder.reader
        nodes, leaves = reader.walk(roots, retain)
        if leaves:
            self.leaves(leaves, frame)
        recorder.changes.write()
        nodes.sort(key=lambda node: node.id)
        self._write_nodes(nodes)
        if reader.passed:
            passed, reader.passed = reader.passed, {}
            calls: Dict[int, Tuple[Passed, List[int]]] = {}
            for mark, numbers in passed.items():
                calls.setdefault(mark.number, (mark, []))[1].extend(numbers)
            for number in sorted(calls):
                recorder.passing.write_passed(*calls[number])
        reader.forget_dead_leaves()

    def leaves(self, leaves: List[NewLeaf], frame: Optional[FrameType]) -> None:
        recorder = self.recorder
        tensors = [leaf.tensor for leaf in leaves]
        names = leaf_names(recorder.torch, tensors, frame, recorder.sources, self.searches < _SEARCHES)
        self.searches += len(names) < len(leaves)
        lines = recorder.tracer.lines()
        made = {id(p): born for p, born in recorder.changes.parameters()}
        for leaf in leaves:
            name, function = names.get(id(leaf.tensor), ("", ""))
            self.names[leaf.id] = name
            place, iteration = made.get(id(leaf.tensor)) or self._born(name, function, leaf.parameter, lines)
            recorder.writer.event(
                "Leaf",
                id=leaf.id,
                name=name,
                at=recorder.site(place, iteration),
                storage=leaf.storage,
                parameter=leaf.parameter,
            )

    def _born(self, name: str, function: str, parameter: bool, lines: ThreadLines) -> Where:
        """Return where a leaf was made, as far as the line that stored its variable tells, and in which iterations."""
        recorder = self.recorder
        root = name.replace("[", ".").split(".")[0]
        stores = recorder.tracer.stores(root, function) if root else []
        if not stores:
            # A statement that makes it and was never seen to run had run before the recording began.
            earlier = any(
                store.function == function and not store.attribute
                for text in recorder.sources.texts()
                for store in text.stores.get(root, ())
            )
            return lines.place, () if parameter or earlier else lines.iteration()
        place = max(stores, key=lambda item: item.hits)
        iteration: List[Tuple[int, int]] = []
        for call in lines.stack:
            mine = call.context.function is place.context.function
            iteration += [
                (loop.id, loop.index) for loop in call.loops if loop.index and (not mine or loop.text in place.loops)
            ]
            if mine:
                return place, tuple(iteration)
        return place, () if parameter else lines.iteration()

    def _site_of_last(self) -> int:
        """Return the site of this thread's last backward."""
        recorder = self.recorder
        kept = recorder.walks.last
        mark = getattr(kept, "mark", None)
        if type(mark) is tuple:
            mark = PutOff(*mark).passed()
        made = kept if mark is None else mark
        return recorder.site(getattr(made, "place", None), getattr(made, "iteration", ()))

    def _write_nodes(self, nodes: List[NewNode]) -> None:
        recorder = self.recorder
        reader, changes, sites = recorder.reader, recorder.changes, recorder.tracer.sites
        low, high, at = 0, -1, 0
        for node in nodes:
            sequence = node.sequence
            if node.foreign:
                at = self._site_of_last()
                high = -1
            elif not low <= sequence < high:
                # Neighbours mostly come from the same line of the same iteration.
                place, iteration, low, high = sites(sequence)
                at = recorder.site(place, iteration)
            saved = [
                (
                    item.storage,
                    changes.version_then(item.storage, sequence)
                    if item.storage in changes.histories or item.storage in reader.leaf_of_storage else 0,
                    item.name,
                    reader.leaf_of_storage.get(item.storage),
                )
                for item in node.saved
            ]  # fmt: skip
            keeps = "yes" if node.keeps else "no"
            recorder.writer.node(node.id, node.op, at, node.inputs, saved, keeps, node.constant)
