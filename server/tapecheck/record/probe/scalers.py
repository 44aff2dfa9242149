"""The gradient scalers of a program: whether it names any, and what one says of an optimizer's gradients."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING, Dict, Tuple

from .sources import Sources

if TYPE_CHECKING:
    from torch.amp import GradScaler
    from torch.optim import Optimizer

_NAME = "GradScaler"


class Named:
    """Whether a program's sources name a scaler; they are read again when there are further ones."""

    def __init__(self, sources: Sources) -> None:
        self.sources = sources
        self._known = (0, False)

    def __bool__(self) -> bool:
        texts = list(self.sources.texts())
        if self._known[0] != len(texts):
            self._known = len(texts), any(_NAME in line for text in texts for line in text.lines)
        return self._known[1]


def kinds(torch: ModuleType) -> Tuple[type, ...]:
    """Return the classes of scalers that this version of torch has."""
    return tuple(kind for kind in (getattr(torch.amp, _NAME, None), torch.cuda.amp.GradScaler) if kind is not None)


def waits(scaler: GradScaler, optimizer: Optimizer) -> bool:
    """Return whether a scaler has not unscaled the gradients of an optimizer since its last update."""
    states = scaler._per_optimizer_states
    return id(optimizer) not in states or is_ready(states[id(optimizer)])


def is_ready(state: Dict[str, object]) -> bool:
    """Return whether a scaler's state of an optimizer is that of one which it has not unscaled since its update."""
    stage = state.get("stage")
    return stage is None or getattr(stage, "name", "READY") == "READY"
