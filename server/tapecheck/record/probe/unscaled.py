"""What a program does to gradients that are still multiplied by a scale: it steps with them, or limits their size.

Looked at in programs that name a GradScaler, around the first steps. Gradients that a line changes before the scaler
has unscaled them are not wrong yet: to divide all by a number does as well before as after. A limit on their size
shows itself, since they are as large as it each time, whatever they were before. A program that reads the scale may
multiply the limit by it: nothing is said of limits there.
"""

from __future__ import annotations

import gc
import math
import re
import weakref
from typing import TYPE_CHECKING, Callable, Dict, List, NamedTuple, Optional, Tuple

from .hooks import nodes_of
from .lines import Iterations, Place
from .lookups import is_a, members
from .recording import Recording
from .scalers import Named, is_ready, kinds, waits
from .values import TensorRef, address_of, version_of

if TYPE_CHECKING:
    from torch import Tensor
    from torch.amp import GradScaler
    from torch.autograd.graph import Node
    from torch.optim import Optimizer

    from .graph import Root

_SEARCHES, _STEPS, _LINES, _GRADIENTS, _NUMBERS = 3, 12, 64, 256, 1 << 20
_READS_SCALE = re.compile(r"\bget_scale\b|\b_scale\b|['\"]scale['\"]")
# So many changes are to end at one size, and to begin at others.
_ALIKE, _SAME, _OTHER = 3, 1.001, 1.01


class Given(NamedTuple):
    """A gradient as a backward left it: its parameter, its version, and the sum of its squares where that is known."""

    parameter: TensorRef
    gradient: TensorRef
    version: int
    squares: Optional[float]


class Size(NamedTuple):
    """How large the gradients were that a line changed, and how large they are: the norm, and the largest number."""

    before: float
    norm: float
    most: float


class Unscaled:
    """Follows the gradients of one recorded run from a scaled backward to the step.

    `then` is what else is to be looked at before the next line runs.
    """

    def __init__(self, recorder: Recording) -> None:
        self.recorder = recorder
        self.then: Optional[Callable[[], None]] = None
        self._scalers: List[weakref.ref[GradScaler]] = []
        self._searches, self._steps, self._lines = _SEARCHES, _STEPS, 0
        self.named = Named(recorder.sources)
        # Whether a backward gave gradients without a scale: which optimizer has those is not known then.
        self._plain = self._scaled = False
        self._given: List[Given] = []
        self._changed: Optional[Tuple[Place, Iterations, Optional[Size]]] = None
        # By the line that changed them: its site, the scale, and the sizes.
        self._sizes: Dict[Place, Tuple[int, float, List[Size]]] = {}

    def before_backward(self, roots: List[Root]) -> None:
        """Note whether a backward that gives gradients to leaves begins at the product of a loss and the scale."""
        self._given, self._changed, self._scaled = [], None, False
        if self._plain or self._steps <= 0 or not self.named:
            return
        scales = {address_of(scale) for scale in map(self._scale_of, self._living()) if scale is not None}
        self._scaled = bool(scales) and all(
            node is not None and node.name() == "MulBackward0" and not scales.isdisjoint(self._saved(node))
            for node in nodes_of(roots)
        )
        self._plain = not self._scaled

    def _saved(self, node: Node) -> List[int]:
        reader = self.recorder.reader
        tensors = [reader.data(node, name, slot)[0] for name, slot in reader.raw(node)]
        return [address_of(tensor) for tensor in tensors if tensor is not None]

    def after_backward(self) -> None:
        """Note how the gradients are that a scaled backward has left."""
        if not self._scaled:
            return
        left = _NUMBERS
        for parameter, _ in self.recorder.changes.parameters():
            if len(self._given) >= _GRADIENTS:
                self._given = []
                return
            if not self.recorder.walks.may_read(parameter) or parameter.grad is None:
                continue
            gradient = parameter.grad
            left -= gradient.numel()
            squares = self._sums(gradient)[0] if left > 0 else None
            self._given.append(Given(TensorRef(parameter), TensorRef(gradient), version_of(gradient), squares))
        self._lines = _LINES
        self._wait()

    def _wait(self) -> None:
        self.recorder.tracer.lines().after_backward = self.line_ran

    def line_ran(self) -> None:
        """Look whether the line that ran last changed gradients that the scaler had not unscaled."""
        then, self.then = self.then, None
        if then is not None:
            then()
        recorder = self.recorder
        self._lines -= 1
        if not self._given or self._lines <= 0 or recorder.disabled or recorder.ended:
            return
        lines = recorder.tracer.lines()
        moved = [one for one in self._given if self._moved(one)]
        if not moved:
            self._wait()
        elif lines.place is not None and not self._any_unscaled():
            self._changed = lines.place, lines.iteration(), self._size_of(moved)

    def _size_of(self, moved: List[Given]) -> Optional[Size]:
        """Return how large changed gradients were and are, None where that is not known."""
        squares, most = [], []
        for one in moved:
            gradient = one.gradient()
            now = self._sums(gradient) if gradient is not None and one.squares is not None else (None, 0.0)
            if now[0] is None:
                return None
            squares.append(now[0])
            most.append(now[1])
        return Size(math.sqrt(sum(one.squares or 0.0 for one in moved)), math.sqrt(sum(squares)), max(most))

    def before_step(self, optimizer: Optimizer, number: int, plain: bool) -> None:
        """Look what an optimizer is about to step with: scaled gradients, or such as were changed while scaled.

        One that is not `plain`, or has hooks around it, may divide by the scale itself.
        """
        given, changed = self._given, self._changed
        if not given or self._steps <= 0:
            return
        self._steps -= 1
        own = {id(p) for group in optimizer.param_groups for p in group["params"]}
        mine = [one for one in given if id(one.parameter()) in own]
        scalers = [scaler for scaler in self._living() if self._scale_of(scaler) is not None]
        if len(scalers) != 1 or not mine:
            return
        waiting = waits(scalers[0], optimizer)
        scale = self._scale(scalers[0])
        hooked = getattr(optimizer, "_optimizer_step_pre_hooks", None) or any(map(_is_hooked, mine))
        if waiting and changed is None and scale > 1 and plain and not hooked and not any(map(self._moved, mine)):
            with self.recorder.group() as lines:
                at = self.recorder.here(lines)
                self.recorder.writer.event("Measure", at=at, name="scaled-step:%d" % number, value=scale, unit="times")
        if not waiting and changed is not None:
            place, iteration, size = changed
            site, _, sizes = self._sizes.get(place) or (self.recorder.site(place, iteration), scale, [])
            self._sizes[place] = site, scale, sizes
            if size is not None:
                sizes.append(size)
            self._changed = None

    def write(self) -> None:
        """Write where the size of scaled gradients was limited, at the end of the run."""
        limited = [
            (at, scale)
            for at, scale, sizes in self._sizes.values()
            if scale > 1 and (_is_limit(sizes, "norm") or _is_limit(sizes, "most"))
        ]
        self._sizes.clear()
        if limited and not self._reads_scale():
            for at, scale in limited:
                self.recorder.writer.event("Measure", at=at, name="scaled-change:0", value=scale, unit="times")

    def _reads_scale(self) -> bool:
        """Return whether the program reads a scaler's scale, by which it may multiply a limit."""
        texts = self.recorder.sources.texts()
        return any(_READS_SCALE.search(line) for text in texts for line in text.lines)

    def _living(self) -> List[GradScaler]:
        """Return the scalers that there are."""
        found = [scaler for reference in self._scalers if (scaler := reference()) is not None]
        if not found and self._searches > 0:
            self._searches -= 1
            scaler_kinds = kinds(self.recorder.torch)
            found = [value for value in gc.get_objects() if issubclass(type(value), scaler_kinds)]
            self._scalers = [weakref.ref(scaler) for scaler in found]
        return found

    def _scale_of(self, scaler: GradScaler) -> Optional[Tensor]:
        scale = members(scaler).get("_scale")
        return scale if is_a(scale, self.recorder.torch.Tensor) else None

    def _scale(self, scaler: GradScaler) -> float:
        """Return the scale, 0 where the device would have to be waited for."""
        scale = self._scale_of(scaler)
        return float(scale) if scale is not None and scale.device.type == "cpu" else 0.0

    def _any_unscaled(self) -> bool:
        """Return whether a scaler has unscaled, or stepped with, the gradients of any optimizer since its update."""
        states = [state for scaler in self._living() for state in list(scaler._per_optimizer_states.values())]
        return not all(map(is_ready, states))

    def _moved(self, one: Given) -> bool:
        """Return whether a gradient was changed, or another one is in its place."""
        parameter, gradient = one.parameter(), one.gradient()
        if parameter is None or gradient is None or parameter.grad is not gradient:
            return True
        return version_of(gradient) != one.version

    def _sums(self, gradient: Tensor) -> Tuple[Optional[float], float]:
        """Return the sum of a gradient's squares and its largest number; None where it is not to be read."""
        values, torch = self.recorder.reader.values, self.recorder.torch
        if gradient.device.type != "cpu" or gradient.numel() > _NUMBERS or not gradient.numel():
            return None, 0.0
        if not values.quiet() or not values.readable(gradient):
            return None, 0.0
        with torch.no_grad(), torch._C.DisableTorchFunction():
            numbers = gradient.double().abs()
            squares, most = float((numbers * numbers).sum()), float(numbers.max())
        return (squares, most) if math.isfinite(squares) else (None, 0.0)


def _is_hooked(one: Given) -> bool:
    """Return whether the program's code runs when a parameter is given a gradient."""
    parameter = one.parameter()
    return any(getattr(parameter, name, None) for name in ("_backward_hooks", "_post_accumulate_grad_hooks"))


def _is_limit(sizes: List[Size], what: str) -> bool:
    """Return whether gradients of other sizes were as large as each other after a change, and never larger."""
    after = [getattr(one, what) for one in sizes]
    most = max(after, default=0.0)
    alike = [one.before for one, size in zip(sizes, after) if size * _SAME >= most]
    return most > 0 and len(alike) >= _ALIKE and max(alike) > min(alike) * _OTHER
