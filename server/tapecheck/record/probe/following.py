"""The beginning of a recording: which of Python's two ways gives the line events."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Sequence

from . import monitoring, settrace
from .tracing import Tracer


def follow(tracer: Tracer, frames: Sequence[FrameType] = ()) -> None:
    """Begin to observe; `frames` are user frames that run already, outermost first."""
    observe = monitoring.observe if hasattr(sys, "monitoring") else settrace.observe
    tracer.unobserve = observe(tracer, frames)
