"""What the graphs of retaining calls keep: how many bytes, and until which line."""

from __future__ import annotations

import threading
import time
import weakref
from typing import TYPE_CHECKING, Dict, List, Optional, Tuple

from .guard import Guard
from .lines import Iterations, Place
from .recording import Recording, RetainedGraphs

if TYPE_CHECKING:
    from torch.autograd.graph import Node

_MAX_NODES = 100_000
_KEY = "_kept"


class _Life:
    """What every node of a retained graph that saved something refers to; it goes with the last of them."""

    __slots__ = ("__weakref__",)


class Retained(RetainedGraphs):
    """Measures the graphs of those retaining calls of one recorded run that are on the tape."""

    def __init__(self, recorder: Recording) -> None:
        self.recorder = recorder
        self.alive: Dict[int, weakref.ref[_Life]] = {}
        self.gone: List[Tuple[int, Optional[Place], Iterations, float]] = []

    def watch(self, number: int, at: int, roots: List[Optional[Node]]) -> None:
        """Write what the graph of call `number` holds that is about to run, and look out for its end."""
        reader = self.recorder.reader
        nodes = list(reader.walk_all(roots, _MAX_NODES))
        try:
            if len(nodes) >= _MAX_NODES:
                return
            life, key, began = _Life(), reader.key + _KEY, time.monotonic()
            for node in nodes:
                if next(reader.raw(node), None) is not None:
                    node.metadata[key] = life
            self.recorder.writer.event(
                "Measure", at=at, name="retained-bytes:%d" % number, value=reader.saved_bytes(nodes), unit="bytes"
            )
        finally:
            nodes.clear()

        def end(_: object) -> None:
            # Anywhere, in the midst of anything: nothing is written here.
            with Guard(self.recorder):
                lines = self.recorder.tracer.threads.get(threading.get_ident())
                place, iteration = (lines.place, lines.iteration()) if lines is not None else (None, ())
                self.alive.pop(number, None)
                self.gone.append((number, place, iteration, time.monotonic() - began))

        self.alive[number] = weakref.ref(life, end)

    def write(self) -> None:
        """Write which of the graphs have gone since."""
        gone, self.gone = self.gone, []
        for number, place, iteration, seconds in gone:
            if place is not None:
                at = self.recorder.site(place, iteration)
                name = "retained-until:%d" % number
                self.recorder.writer.event("Measure", at=at, name=name, value=seconds, unit="seconds")
