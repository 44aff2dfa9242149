"""What the parts of the recorder know of one another: the run as a whole, and each part by what the others ask of it.

The parts are given the recorder, which makes them; they import this, which imports none of them.
"""

from __future__ import annotations

import threading
import weakref
from contextlib import AbstractContextManager
from types import FrameType, ModuleType, TracebackType
from typing import TYPE_CHECKING, Callable, Dict, Iterator, List, Mapping, Optional, Protocol, Set, Tuple

from .bounds import Bounds
from .children import Process
from .graph import NewLeaf, Reader
from .lines import Iterations, Place, RunningLoop, ThreadLines, Where
from .passed import CallAt, Calls, Passed
from .sources import CallText, Extent, LoopText, Sources
from .tracing import Tracer
from .writer import Writer

if TYPE_CHECKING:
    from torch import Tensor
    from torch.autograd.graph import Node
    from torch.optim import Optimizer

    from .graph import Root


class BackwardCalls(Protocol):
    """The backward calls of one run; `last` has what is known of each thread's last one."""

    count: int
    keeping: bool
    last: threading.local
    had_gradient: Set[int]

    def all_met(self, lines: ThreadLines) -> bool: ...

    def living(self) -> int: ...

    def backward(
        self, frame: FrameType, roots: List[Root], inputs: Optional[List[Root]],
        retain: bool, create: bool, accumulates: bool,
    ) -> None: ...  # fmt: skip

    def write_backward(
        self, mark: Passed, roots: List[Root], inputs: Optional[List[Root]],
        user: Optional[FrameType],
    ) -> None: ...  # fmt: skip

    def retaining(self, mark: Passed, call: Optional[CallText]) -> Dict[str, object]: ...

    def may_read(self, leaf: Tensor) -> bool: ...

    def call(self, where: CallAt) -> Tuple[Optional[CallText], Optional[Extent]]: ...


class PassedCalls(Protocol):
    """The backward calls that were let pass."""

    calls: Dict[Optional[Place], Calls]
    regular: Dict[Optional[Place], Calls]
    kept: bool
    count: int
    told: int
    stamp: int
    awaited: Set[int]

    def passes_regular(self, calls: Calls, lines: ThreadLines, frame: FrameType) -> bool: ...

    def passes_unseen(self, frame: FrameType, roots: List[Root], accumulates: bool) -> bool: ...

    def passes(
        self, frame: FrameType, roots: List[Root], inputs: Optional[List[Root]],
        user: FrameType, retain: bool, create: bool, accumulates: bool,
    ) -> bool: ...  # fmt: skip

    def settle(self, loop: RunningLoop, ended: int) -> None: ...

    def write_passes(self, lines: ThreadLines) -> None: ...

    def written(self, nodes: int, since: float) -> None: ...

    def write_failed(
        self, mark: Passed | Tuple[object, ...], frame: FrameType, traceback: Optional[TracebackType]
    ) -> None: ...

    def write_passed(self, mark: Passed, nodes: List[int]) -> None: ...


class SteppedOptimizer(Protocol):
    """An optimizer that has stepped: its number on the tape, and the parameters that it had then, by identity."""

    reference: weakref.ref[Optimizer]
    number: int
    ids: List[int]


class InPlaceChanges(Protocol):
    """What changed in place, and the optimizers that did it."""

    optimizers: Mapping[int, SteppedOptimizer]
    optimizer_places: Dict[int, Tuple[weakref.ref[Optimizer], Where]]
    histories: Mapping[int, object]
    learning: Dict[int, Tensor]

    def version_then(self, storage: int, sequence: int) -> int: ...

    def change(
        self, tensor: Tensor, place: Optional[Place], iteration: Iterations, how: str, name: str, moved: int,
        stamp: Optional[int] = None,
    ) -> None: ...  # fmt: skip

    def optimizer_made(self, optimizer: Optimizer) -> None: ...

    def parameters(self) -> Iterator[Tuple[Tensor, Where]]: ...

    def before_step(self, optimizer: Optimizer, evaluates: bool) -> bool: ...

    def after_step(self, optimizer: Optimizer) -> None: ...

    def count_gradients(self) -> None: ...

    def write(self) -> None: ...


class DescribedGraphs(Protocol):
    """The nodes and leaves that are on the tape."""

    names: Dict[int, str]

    def graph(self, roots: List[Optional[Node]], frame: Optional[FrameType], retain: bool = False) -> None: ...

    def leaves(self, leaves: List[NewLeaf], frame: Optional[FrameType]) -> None: ...


class PendingException(Protocol):
    """The exception that waits to be seen caught or not."""

    told: object

    def flush(self, caught: bool) -> None: ...


class Holds(Protocol):
    """Who keeps graphs."""

    gone_over: int
    gradients_have_graphs: bool

    def iteration_ended(self, recorder: Recording, lines: ThreadLines, loop: RunningLoop, frame: FrameType) -> None: ...

    def live(self) -> List[Tensor]: ...


class LiveBytes(Protocol):
    """What is alive at moments of the run."""

    def at_backward(self, at: int, roots: List[Optional[Node]]) -> None: ...

    def after_iteration(self, at: int) -> None: ...

    def after_loop(self, lines: ThreadLines, loop: RunningLoop) -> None: ...


class Loops(Protocol):
    """The loops that train."""

    training: Set[LoopText]
    accumulating: Set[LoopText]

    def walked(self, lines: ThreadLines, accumulates: bool) -> None: ...

    def found_loop(self, lines: ThreadLines, loop: RunningLoop) -> None: ...


class Rounds(Protocol):
    """The loops that no line event shows."""

    by_backward: bool

    def stepped(self, optimizer: Optimizer) -> None: ...

    def walked(self) -> None: ...


class GradientsUsed(Protocol):
    """The gradients that steps have used."""

    def before_backward(self, where: Where) -> None: ...

    def after_backward(self) -> None: ...

    def before_step(self, number: int, optimizer: Optimizer, params: List[Tensor], evaluates: bool) -> None: ...

    def after_step(self, number: int, params: List[Tensor]) -> None: ...


class ScaledGradients(Protocol):
    """The gradients that are still multiplied by a scale; `then` is what else is looked at before the next line."""

    then: Optional[Callable[[], None]]

    def before_backward(self, roots: List[Root]) -> None: ...

    def after_backward(self) -> None: ...

    def line_ran(self) -> None: ...

    def before_step(self, optimizer: Optimizer, number: int, plain: bool) -> None: ...


class GradientsDiscarded(Protocol):
    """The gradients that no step uses; `given` are the parameters that the first calls from a place have added to."""

    given: Mapping[Optional[Place], Set[int]]

    def before_backward(self, where: Where) -> None: ...

    def after_backward(self) -> None: ...

    def before_clearing(self) -> None: ...

    def before_step(self, params: List[Tensor], evaluates: bool) -> None: ...

    def after_step(self) -> None: ...


class RetainedGraphs(Protocol):
    """What the graphs of retaining calls keep."""

    def watch(self, number: int, at: int, roots: List[Optional[Node]]) -> None: ...

    def write(self) -> None: ...


class UnusedGraphs(Protocol):
    """The graphs of watched loops, as long as they live."""

    alive: Mapping[int, object]

    def walks(self, roots: List[Optional[Node]]) -> None: ...


class Comparison(Protocol):
    """What this run and another one with its seed are compared by."""

    seed: Optional[int]

    def iteration_ended(self, loop: RunningLoop, count: int) -> None: ...


class Suspension(Protocol):
    """The thread that goes without events."""

    @property
    def rest(self) -> object: ...

    def wake(self, frame: FrameType) -> None: ...


class Recording(Protocol):
    """One recorded process. `torch`, `reader` and `holds` are there once it is `attached`."""

    sources: Sources
    writer: Writer
    bounds: Bounds
    process: Process
    tracer: Tracer
    attached: bool
    torch: ModuleType
    reader: Reader
    holds: Holds
    failures: int
    ended: bool
    disabled: bool
    first_sequence: int
    lock: threading.RLock
    alive: Optional[LiveBytes]
    levels: bool
    walks: BackwardCalls
    passing: PassedCalls
    changes: InPlaceChanges
    described: DescribedGraphs
    raises: PendingException
    loops: Loops
    hidden: Rounds
    gradients: GradientsUsed
    discarded: GradientsDiscarded
    unscaled: ScaledGradients
    retained: RetainedGraphs
    unused: UnusedGraphs
    seeded: Comparison
    rests: Suspension

    def failed(self) -> None: ...

    def group(self) -> AbstractContextManager[ThreadLines]: ...

    def site(self, place: Optional[Place], iteration: Iterations, extent: Optional[Extent] = None) -> int: ...

    def here(self, lines: ThreadLines) -> int: ...

    def declare_loops(self, lines: ThreadLines) -> None: ...

    def declare(self, lines: ThreadLines, loop: RunningLoop) -> None: ...
