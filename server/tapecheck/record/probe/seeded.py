"""What two runs with the same seed are compared by: what was learned, and how long an iteration took."""

from __future__ import annotations

import sys
import time
from types import ModuleType
from typing import TYPE_CHECKING, Dict, List, Optional, Tuple

from .lines import RunningLoop, ThreadLines
from .recording import Comparison, Recording
from .sources import LoopText
from .values import Values

if TYPE_CHECKING:
    from torch import Tensor

_NEVER = 1 << 62


class Seeded(Comparison):
    """One recorded run that is compared with another one; nothing of it happens without a seed."""

    def __init__(self, recorder: Recording) -> None:
        self.recorder = recorder
        self.seed: Optional[int] = None
        self.ended_at: Dict[LoopText, Tuple[int, float, float]] = {}

    def begin(self, torch: ModuleType) -> None:
        """Seed what the program draws from."""
        if self.seed is not None:
            seed_everything(torch, self.seed)

    def iteration_ended(self, loop: RunningLoop, count: int) -> None:
        """Note when an iteration of a training loop ended, the first and the last of them."""
        now = time.monotonic()
        self.ended_at[loop.text] = (count, self.ended_at.get(loop.text, (0, now, 0.0))[1], now)

    def write(self, lines: ThreadLines) -> None:
        """Write what was learned, and what it took."""
        recorder = self.recorder
        if self.seed is None:
            return
        at = recorder.here(lines)
        params = self._learned()
        digest = digest_of(recorder.reader.values, params)
        event = recorder.writer.event
        count = len(params) if digest else 0
        event("Measure", at=at, name="learned:" + digest, value=count, unit="parameters")
        ends = max(self.ended_at.values(), key=lambda entry: entry[0], default=(0, 0.0, 0.0))
        if ends[0] >= 3:
            # The first iteration sets things up: torch loads a part of itself at the first step.
            seconds = (ends[2] - ends[1]) / (ends[0] - 1)
            event("Measure", at=at, name="iteration-seconds", value=seconds, unit="seconds")
        peak = peak_memory()
        if peak:
            event("Measure", at=at, name="peak-memory", value=peak, unit="bytes")

    def _learned(self) -> List[Tensor]:
        """Return the parameters that optimizers stepped, else the leaves that a backward reached, in the order of
        making.
        """
        recorder = self.recorder
        if recorder.changes.learning:
            return list(recorder.changes.learning.values())
        leaves = sorted(recorder.reader.leaves.values(), key=lambda entry: entry[1])
        return [tensor for reference, _, _ in leaves for tensor in (reference(),) if tensor is not None]


def seed_everything(torch: ModuleType, seed: int) -> None:
    """Seed Python's, torch's and, where it is loaded, NumPy's generator; the program's own seeds come later."""
    import random

    random.seed(seed)
    torch.manual_seed(seed)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed % (1 << 32))


def digest_of(values: Values, tensors: List[Tensor]) -> str:
    """Return a digest of the values of tensors, bit for bit; "" where some of them cannot be read."""
    # Runs without a seed never load it.
    import hashlib

    digest = hashlib.sha256()
    values.allow(_NEVER)
    for tensor in tensors:
        held = values.local(tensor)
        found = values.digest(held) if held.numel() else 0
        if found is None:
            return ""
        digest.update(repr((tuple(held.shape), str(held.dtype), found)).encode())
    return digest.hexdigest()[:16]


def peak_memory() -> int:
    """Return the most memory this process ever had, in bytes; 0 where that is not known."""
    try:
        import resource
    except ImportError:
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
