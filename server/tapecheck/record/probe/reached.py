"""How often the lines ran that findings are about: what never ran refutes and confirms nothing."""

from __future__ import annotations

import os
import sys
from typing import Dict, Optional, Set, Tuple

from .children import seconds_elsewhere
from .lines import MAX_STACK, Function, Place, ThreadLines
from .lookups import members
from .parts import Part
from .recording import Recording
from .writer import span


class Reached:
    """The watched lines of one recorded run, with how often each ran."""

    def __init__(self, recorder: Recording) -> None:
        self.recorder = recorder
        self.hits: Dict[Tuple[str, int], int] = {}
        self.hits_at: Dict[Tuple[str, int], int] = {}
        # What the tape says of parts of lines: how often each ran, and whether that is not certain.
        self.parts: Dict[Part, Tuple[int, bool]] = {}

    def count(self, lines: ThreadLines, place: Place) -> None:
        recorder = self.recorder
        key = (place.filename, place.line)
        count = self.hits[key] = self.hits.get(key, 0) + 1
        if count & (count - 1) == 0:
            # Powers of two reach the tape at once: a run that is killed still tells reached from not reached.
            with recorder.group():
                self.hits_at[key] = recorder.site(place, lines.iteration())
                self._write(key, count)
                self._write_parts(place.filename, place.line)

    def part_ran(self, part: Part) -> None:
        """Write how often a part of a line ran so far."""
        if not self.recorder.ended:
            with self.recorder.group():
                self._write_part(part)

    def _write_parts(self, file: str, line: int) -> None:
        for part in self.recorder.tracer.parts.on(file, line):
            self._write_part(part)

    def _write_part(self, part: Part) -> None:
        hits, sure = now = part.known()
        if self.parts.get(part) == now:
            return
        self.parts[part] = now
        shown, event = self.recorder.sources.name(part.filename), self.recorder.writer.event
        at = self.recorder.writer.site(part, lambda: (span(shown, part.extent), "<unknown>", [], ()))
        event("Measure", at=at, name="part-hits", value=hits, unit="times")
        event("Measure", at=at, name="part-unsure", value=int(not sure), unit="parts")

    def _write(self, key: Tuple[str, int], count: int) -> None:
        self.recorder.writer.event("Measure", at=self.hits_at[key], name="line-hits", value=count, unit="times")

    def write(self) -> None:
        """Write how often each line ran in all, as far as the tape does not say so yet."""
        for key in self.recorder.tracer.watched:
            count = self.hits.get(key, 0)
            if count & (count - 1):
                self._write(key, count)
            called = self._called_from(*key) if count else None
            if called is not None:
                value, event = len(called), self.recorder.writer.event
                event("Measure", at=self.hits_at[key], name="functions-called", value=value, unit="functions")
            if count:
                self._write_parts(*key)
        self._write_not_loaded()

    def _called_from(self, file: str, line: int) -> Optional[Set[Function]]:
        """Return the functions of the program's own that were called from a line: `if again: log(loss)` is one line.

        None where that is not known: of other threads, and of calls that are too deep.
        """
        contexts = [place.context for place in self.recorder.tracer.places_at.get((file, line), ())]
        if not self.recorder.tracer.alone or any(context.depth >= MAX_STACK for context in contexts):
            return None
        return {function for context in contexts for row, function in list(context.callees) if row == line}

    def _write_not_loaded(self) -> None:
        """Write which files of watched lines the program has not loaded, as far as that is certain.

        It is not where a process was started that may have, or where a text may have been run under any name.
        """
        recorder = self.recorder
        tracer, sources = recorder.tracer, recorder.sources
        files = sorted({file for file, _ in tracer.watched} - tracer.begun)
        if not files or seconds_elsewhere() is not None or any(text.runs_texts for text in sources.texts()):
            return
        modules = (members(module).get("__file__") for module in list(sys.modules.values()))
        known = {*sources.seen(), *tracer.foreign, *(name for name in modules if type(name) is str)}
        for file in files:
            if not any(_may_be(file, name) for name in known):
                recorder.writer.event("Measure", at=self._site(file), name="file-not-loaded", value=1, unit="files")

    def _site(self, file: str) -> int:
        shown = self.recorder.sources.name(file)
        return self.recorder.writer.site((file,), lambda: (span(shown, (1, 1, 1, 1)), "<unknown>", [], ()))


def _may_be(file: str, name: str) -> bool:
    """Return whether what code calls its file may be some file, or a copy of it."""
    if os.path.basename(file) != os.path.basename(name):
        return False
    try:
        return os.path.getsize(file) == os.path.getsize(name)
    except OSError:
        return True
