"""Whether a GradScaler had unscaled the gradients of each optimizer where a watched line runs."""

from __future__ import annotations

import gc
import weakref
from typing import TYPE_CHECKING, Dict, List, Tuple

from .lines import Place, ThreadLines
from .recording import Recording

if TYPE_CHECKING:
    from torch.amp import GradScaler
    from torch.optim import Optimizer

_TIMES = 4
"""So often is looked when a line runs: all objects of the process are gone through."""
_NAME = "GradScaler"


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
        self._named = (0, False)

    def line_runs(self, lines: ThreadLines, place: Place) -> None:
        """Note the scale on the gradients that a watched line finds; nothing in programs that name no scaler."""
        at, times = self.looked.get(place, (0, 0))
        if times >= _TIMES or not self._names_scaler():
            return
        self.looked[place] = at or self.recorder.site(place, lines.iteration()), times + 1
        for optimizer, scale in self._look():
            reference = weakref.ref(optimizer)
            known = self.seen.setdefault((place, id(reference)), _Scaled(reference))
            known.scale = max(known.scale, scale)
            self._number(known)

    def _names_scaler(self) -> bool:
        texts = list(self.recorder.sources.texts())
        if self._named[0] != len(texts):
            self._named = len(texts), any(_NAME in line for text in texts for line in text.lines)
        return self._named[1]

    def _number(self, known: _Scaled) -> None:
        """Note the number of an optimizer once it has one."""
        optimizer = known.reference()
        watched = self.recorder.changes.optimizers.get(id(optimizer)) if optimizer is not None else None
        if watched is not None and watched.reference() is optimizer:
            known.number = watched.number

    def _look(self) -> List[Tuple[Optimizer, float]]:
        """Return the optimizers that have gradients, with the scale that these are still multiplied by."""
        torch = self.recorder.torch
        kinds = tuple(kind for kind in (getattr(torch.amp, _NAME, None), torch.cuda.amp.GradScaler) if kind is not None)
        scalers, optimizers = [], []
        for value in gc.get_objects():
            # `isinstance` would ask a proxy of the program for its class.
            if issubclass(type(value), kinds):
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
        states = scaler._per_optimizer_states
        stage = states[id(optimizer)].get("stage") if id(optimizer) in states else None
        waits = stage is None or getattr(stage, "name", "READY") == "READY"
        return float(scaler._scale) if waits and scaler._enabled else 1.0

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
