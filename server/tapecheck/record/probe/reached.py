"""How often the lines ran that findings are about: what never ran refutes and confirms nothing."""

from __future__ import annotations

from typing import Dict, Tuple

from .lines import Place, ThreadLines
from .recording import Recording


class Reached:
    """The watched lines of one recorded run, with how often each ran."""

    def __init__(self, recorder: Recording) -> None:
        self.recorder = recorder
        self.hits: Dict[Tuple[str, int], int] = {}
        self.hits_at: Dict[Tuple[str, int], int] = {}

    def count(self, lines: ThreadLines, place: Place) -> None:
        recorder = self.recorder
        key = (place.filename, place.line)
        count = self.hits[key] = self.hits.get(key, 0) + 1
        if count & (count - 1) == 0:
            # Powers of two reach the tape at once: a run that is killed still tells reached from not reached.
            with recorder.group():
                self.hits_at[key] = recorder.site(place, lines.iteration())
                self._write(key, count)

    def _write(self, key: Tuple[str, int], count: int) -> None:
        self.recorder.writer.event("Measure", at=self.hits_at[key], name="line-hits", value=count, unit="times")

    def write(self) -> None:
        """Write how often each line ran in all, as far as the tape does not say so yet."""
        for key in self.recorder.tracer.watched:
            count = self.hits.get(key, 0)
            if count & (count - 1):
                self._write(key, count)
