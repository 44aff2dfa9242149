"""Looks for values that outlive an iteration and keep autograd graphs alive."""

from __future__ import annotations

from types import FrameType
from typing import Any


class HoldFinder:
    def __init__(self, torch: Any, reader: Any, sources: Any) -> None:
        self.torch = torch
        self.reader = reader
        self.sources = sources

    def iteration_ended(self, recorder: Any, lines: Any, loop: Any, frame: FrameType) -> None:
        return
