"""Backward calls: each is written before it runs, with what of its graph the tape does not have yet."""

from __future__ import annotations

import threading
from types import FrameType
from typing import TYPE_CHECKING, Dict, List, Optional, Set, Tuple

from .effort import cpu_seconds
from .graph import NewLeaf
from .guard import Guard
from .hooks import nodes_of
from .lines import ThreadLines, iterations
from .lookups import is_parameter
from .names import describe
from .passed import CallAt, Passed
from .recording import BackwardCalls, Recording
from .sources import CallText, Extent, call_end
from .writer import span

if TYPE_CHECKING:
    from torch import Tensor
    from torch.autograd.graph import Node

    from .graph import Root


class Walks(BackwardCalls):
    """The backward calls of one recorded run, and the gradients that they left."""

    def __init__(self, recorder: Recording) -> None:
        self.recorder = recorder
        self.count = 0
        self.last = threading.local()
        # Whether a backward left saved tensors behind: it retained, failed or took a part of its graph only.
        self.keeping = self.created = False
        self.had_gradient: Set[int] = set()

    def all_met(self, lines: ThreadLines) -> bool:
        """Return whether every node built so far was walked by a backward that kept nothing: those that live can be
        counted, and have no saved tensors.
        """
        recorder = self.recorder
        met = lines.seen - recorder.first_sequence == recorder.reader.met
        return not self.keeping and met and not (self.created and recorder.torch.cuda.is_initialized())

    def living(self) -> int:
        """Return how many of the nodes met so far are alive."""
        return self.recorder.reader.living(getattr(self.last, "mark", None))

    def backward(self, frame: FrameType, roots: List[Root], inputs: Optional[List[Root]], retain: bool, create: bool,
                 accumulates: bool) -> None:  # fmt: skip
        """Note a backward that is about to run; `frame` is torch's frame that calls the engine."""
        recorder = self.recorder
        if recorder.disabled or recorder.ended:
            recorder.process.called_backward()
            return
        if recorder.bounds.any:
            recorder.bounds.check()
        if recorder.unused.alive:
            recorder.unused.walks(nodes_of(roots))
        if inputs is None and not retain and not create and recorder.passing.passes_unseen(frame, roots, accumulates):
            return
        user = self._user_frame(frame)
        if user is None:
            return
        self.count += 1
        if create and accumulates:
            recorder.holds.gradients_have_graphs = True
        self.keeping = self.keeping or retain or inputs is not None
        self.created = self.created or create
        if recorder.passing.passes(frame, roots, inputs, user, retain, create, accumulates):
            return
        with recorder.group() as lines:
            recorder.raises.flush(caught=True)
            recorder.tracer.catch_up(lines)
            recorder.declare_loops(lines)
            recorder.loops.walked(lines, accumulates)
            self._note_cleared(lines)
            if accumulates:
                recorder.gradients.before_backward((lines.place, lines.iteration()))
                recorder.discarded.before_backward((lines.place, lines.iteration()))
                recorder.unscaled.before_backward(roots)
                lines.before_clearing = recorder.discarded.before_clearing
                lines.after_backward = self._look_back
            call = (user.f_code, user.f_lineno, user.f_lasti)
            mark = Passed(self.count, lines.place, lines.iteration(), call, retain, create, accumulates)
            self._write(lines, mark, roots, inputs, user)
            kept = self.last
            kept.id, kept.code, kept.place, kept.iteration = mark.number, frame.f_code, lines.place, mark.iteration
            kept.mark = None
            self._note_gradients()
            if recorder.passing.count != recorder.passing.told:
                recorder.passing.write_passes(lines)
        if accumulates and not recorder.changes.optimizers and not recorder.hidden.by_backward:
            recorder.hidden.walked()

    def _look_back(self) -> None:
        """Look at what the last backward has left."""
        self.recorder.gradients.after_backward()
        self.recorder.discarded.after_backward()
        with Guard(self.recorder):
            self.recorder.unscaled.after_backward()

    def _write(
        self,
        lines: ThreadLines,
        mark: Passed,
        roots: List[Root],
        inputs: Optional[List[Root]],
        user: FrameType,
    ) -> None:
        """Write a backward, note what it cost to do so, and watch the graph that it retains."""
        recorder, passing = self.recorder, self.recorder.passing
        began, met = cpu_seconds(), recorder.reader.met
        built = lines.seen - max(passing.stamp, recorder.first_sequence)
        self.write_backward(mark, roots, inputs, user)
        if recorder.alive is not None:
            recorder.alive.at_backward(self.last.site, nodes_of(roots))
        recorder.retained.write()
        if mark.retain and not mark.create:
            recorder.retained.watch(mark.number, self.last.site, nodes_of(roots))
        calls = passing.calls.get(lines.place) if lines.place is not None else None
        if calls is not None:
            calls.nodes = max(built, recorder.reader.met - met)
        if not lines.engine:
            passing.stamp = lines.seen
        passing.written(recorder.reader.met - met, began)

    def _note_gradients(self) -> None:
        """Note which leaves of this thread have a gradient."""
        recorder, thread = self.recorder, threading.get_ident()
        # Reading `.grad` makes a Python object that lives as long as the gradient, which shows in `gc.get_objects`:
        # only where the program reads it, or module and optimizer do.
        named = any(text.names_gradients for text in recorder.sources.texts())
        for key, (reference, _, owner) in list(recorder.reader.leaves.items()):
            # Another thread may just be letting go of its own.
            tensor = reference() if owner == thread else None
            if tensor is not None and (named or is_parameter(recorder.torch, tensor)) and tensor.grad is not None:
                self.had_gradient.add(key)

    def retaining(self, mark: Passed, call: Optional[CallText]) -> Dict[str, object]:
        """Return what a Backward event holds about `retain_graph` and `create_graph`."""
        fields: Dict[str, object] = {"retain": "yes" if mark.retain else "no", "create": "yes" if mark.create else "no"}
        if call is not None and call.retains:
            fields["retain_argument"] = fields["retain"]
            if call.retain is not None and mark.place is not None:
                fields["retain_span"] = span(self.recorder.sources.name(mark.place.filename), call.retain)
        return fields

    def write_backward(
        self,
        mark: Passed,
        roots: List[Root],
        inputs: Optional[List[Root]],
        user: Optional[FrameType],
    ) -> None:
        """Write a backward that is about to run, and what of its graph the tape does not have yet."""
        recorder = self.recorder
        nodes = nodes_of(roots)
        targets = [target.node if hasattr(target, "node") else target for target in inputs or ()]
        ends = [target.grad_fn if hasattr(target, "grad_fn") else target for target in targets]
        recorder.described.graph(nodes + ends, user, mark.retain)
        found: List[NewLeaf] = []
        call, extent = self.call(mark.call)
        written: List[Dict[str, object]] = []
        for index, root in enumerate(roots):
            reached = self._number(root, nodes[index], found)
            graph = "yes" if nodes[index] is not None or reached is not None else "no"
            name = describe(call, index, len(roots), root, user) if user is not None else ""
            written.append({"node": reached, "graph": graph, "name": name, "cuts": [], "constant_terms": []})
        numbers = [self._number(target, end, found) for target, end in zip(targets, ends)]
        wanted = [number for number in numbers if number is not None] if inputs is not None else None
        if found:
            recorder.described.leaves(found, user)
        at = recorder.site(mark.place, mark.iteration, extent)
        fields: Dict[str, object] = {
            "id": mark.number, "at": at, "call": "backward" if mark.accumulates else "grad", "roots": written,
            "accumulates": mark.accumulates, **self.retaining(mark, call),
        }  # fmt: skip
        if wanted is not None:
            fields["inputs"] = wanted
        if threading.current_thread() is not threading.main_thread():
            fields["thread"] = threading.current_thread().name
        recorder.writer.event("Backward", **fields)
        self.last.site = at

    def _number(self, tensor: object, node: Optional[Node], found: List[NewLeaf]) -> Optional[int]:
        """Return the number of a node, else of the leaf that a tensor is; `found` takes it where it is a new one."""
        if node is not None:
            return self.recorder.reader.number(node)
        return self.recorder.reader.leaf(tensor, found) if getattr(tensor, "requires_grad", False) else None

    def may_read(self, leaf: Tensor) -> bool:
        """Return whether no other thread may be writing the gradient of a leaf.

        torch writes `.grad` without Python's lock: to read it in another thread than the one that runs the backward can
        end the process. A leaf belongs to the thread whose backward came to it last.
        """
        recorder = self.recorder
        if len(recorder.tracer.threads) == 1:
            return True
        entry = recorder.reader.leaves.get(id(leaf))
        return entry is not None and entry[2] == threading.get_ident() and entry[0]() is leaf

    def _note_cleared(self, lines: ThreadLines) -> None:
        """Write the leaves whose `.grad` was dropped since the last backward."""
        recorder = self.recorder
        recorder.changes.count_gradients()
        gone: List[Tuple[int, Optional[int]]] = []
        for key in self.had_gradient:
            entry = recorder.reader.leaves.get(key)
            if entry is not None and entry[2] != threading.get_ident():
                continue
            tensor = entry[0]() if entry is not None else None
            if entry is None or tensor is None:
                gone.append((key, None))
            elif tensor.grad is None:
                gone.append((key, entry[1]))
        for key, number in gone:
            self.had_gradient.discard(key)
            if number is not None:
                place, iteration = lines.place, lines.iteration()
                if lines.cleared is not None:
                    place, iteration = lines.cleared[0], iterations(lines.cleared[1], lines.cleared[2])
                recorder.writer.event("GradientCleared", at=recorder.site(place, iteration), leaf=number, to_none="yes")

    def _user_frame(self, frame: FrameType) -> Optional[FrameType]:
        """Return the innermost user frame, None where torch runs this backward for itself within another one."""
        first = frame.f_code
        step = frame.f_back
        while step is not None:
            if step.f_code is first:
                return None
            if self.recorder.tracer.function(step.f_code) is not None:
                return step
            step = step.f_back
        return None

    def call(self, where: CallAt) -> Tuple[Optional[CallText], Optional[Extent]]:
        """Return the call at a code object's line and instruction."""
        code, line, instruction = where
        text = self.recorder.sources.text(code.co_filename)
        call = text.call_at(line, call_end(code, instruction, text))
        return call, call.extent if call is not None else None
