"""Whether a GradScaler had unscaled the gradients of each optimizer where a watched line runs."""

from __future__ import annotations

import gc
import weakref
from typing import TYPE_CHECKING, Dict, List, Tuple

from .lines import Place, ThreadLines
from .recording import Recording
from .scalers import Named, kinds, waits

if TYPE_CHECKING:
    from torch.amp import GradScaler
    from torch.optim import Optimizer

_TIMES = 4
"""So often is looked when a line runs: all objects of the process are gone through."""


class _Scaled:
    """An optimizer where a line ran: the largest scale that was on its gradients, and its number."""

    __slots__ = ("number", "reference", "scale")

    def __init__(self, reference: weakref.ref[Optimizer]) -> None:
        self.reference = reference
        self.scale = 1.0
        self.number = 0


class Scaling:
    """Looks at the gradient scalers of one recorded run where watched lines run."""

    def __init__(self, recorder: Recording) -> None:
        self.recorder = recorder
        self.looked: Dict[Place, Tuple[int, int]] = {}
        # By place and identity of an optimizer's reference.
        self.seen: Dict[Tuple[Place, int], _Scaled] = {}
        self.named = Named(recorder.sources)

    def line_runs(self, lines: ThreadLines, place: Place) -> None:
        """Note the scale on the gradients that a watched line finds; nothing in programs that name no scaler."""
        at, times = self.looked.get(place, (0, 0))
        if times >= _TIMES or not self.named:
            return
        self.looked[place] = at or self.recorder.site(place, lines.iteration()), times + 1
        for optimizer, scale in self._look():
            reference = weakref.ref(optimizer)
            known = self.seen.setdefault((place, id(reference)), _Scaled(reference))
            known.scale = max(known.scale, scale)
            self._number(known)

    def _number(self, known: _Scaled) -> None:
        """Note the number of an optimizer once it has one."""
        optimizer = known.reference()
        watched = self.recorder.changes.optimizers.get(id(optimizer)) if optimizer is not None else None
        if watched is not None and watched.reference() is optimizer:
            known.number = watched.number

    def _look(self) -> List[Tuple[Optimizer, float]]:
        """Return the optimizers that have gradients, with the scale that these are still multiplied by."""
        torch = self.recorder.torch
        scaler_kinds = kinds(torch)
        scalers, optimizers = [], []
        for value in gc.get_objects():
            # `isinstance` would ask a proxy of the program for its class.
            if issubclass(type(value), scaler_kinds):
                scalers.append(value)
            elif issubclass(type(value), torch.optim.Optimizer):
                optimizers.append(value)
        found = []
        # One that is switched off has no scale at all.
        scaling = [scaler for scaler in scalers if getattr(scaler, "_scale", None) is not None]
        for optimizer in optimizers:
            groups = getattr(optimizer, "param_groups", ())
            params = [p for group in groups for p in group["params"] if self.recorder.walks.may_read(p)]
            if any(p.grad is not None for p in params):
                scales = [self._scale(scaler, optimizer) for scaler in scaling]
                if scales or any(not scaler._enabled for scaler in scalers):
                    found.append((optimizer, max(scales, default=1.0)))
        return found

    def _scale(self, scaler: GradScaler, optimizer: Optimizer) -> float:
        return float(scaler._scale) if waits(scaler, optimizer) and scaler._enabled else 1.0

    def write(self) -> None:
        """Write what was seen, at the end of the run."""
        for (place, _), known in self.seen.items():
            self._number(known)
            self.recorder.writer.event(
                "Measure",
                at=self.looked[place][0],
                name="gradient-scale:%d" % known.number,
                value=known.scale,
                unit="times",
            )
        self.seen.clear()
