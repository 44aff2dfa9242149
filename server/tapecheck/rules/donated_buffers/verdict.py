"""What a recorded run says of TAPE611: whether PyTorch raised."""

from __future__ import annotations

from tapecheck.record.verdicts import by_exception as verdict

__all__ = ["verdict"]
