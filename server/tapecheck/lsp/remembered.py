"""Recorded runs on disk, beside the cache: a server that is started anew has the last run of a text again.

A run is found by the path and the text of what was run, and by this version of Tapecheck; it does not count once
another file that took part has changed. Texts are not kept.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tapecheck.lsp import outcome, runs
from tapecheck.lsp.runs import Recording
from tapecheck.report import Checked, html
from tapecheck.source import Source, split_lines, stored
from tapecheck.tape import Event, Tape

if TYPE_CHECKING:
    from tapecheck.check import Report

_MOST_RUNS, _MOST_BYTES = 100, 200_000_000
"""How many runs are kept, and how much they may take together; the oldest give way."""
_LARGEST = 16_000_000
_MOST_EVENTS = 100_000
"""The tape of a longer run is not kept, and with it its page: its verdicts are."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A recording without what its text gives, with the events of its tape and what its page says of the end."""

    recording: Recording
    events: list[Event] | None
    producer: str
    ending: str


class Remembered:
    """The runs of one folder; without a folder nothing is kept."""

    def __init__(self, cache: str | None) -> None:
        self._folder = Path(cache) / "runs" if cache else None

    def keep(self, path: str, recording: Recording) -> None:
        """Keep a run of a file that showed something."""
        if self._folder is None or recording.unseen is not None:
            return
        page = recording.page
        events = page.tape.events if page is not None and len(page.tape.events) <= _MOST_EVENTS else None
        producer, ending = (page.tape.producer, page.ending) if page is not None else ("", "")
        bare = replace(recording, text="", page=None, report=None)
        for kept in (events, None) if events is not None else (None,):
            data = stored.packed(Entry(bare, kept, producer, ending))
            small = zlib.compress(data, 1) if data is not None else b""
            if 0 < len(small) <= _LARGEST:
                stored.write(self._place(self._folder, path, recording.text), small)
                break
        self._prune(self._folder)

    def find(self, source: Source, report: Report) -> Recording | None:
        """Return the last run of a text, None where there is none that still holds."""
        if self._folder is None or not self._folder.is_dir():
            return None
        try:
            data = zlib.decompress(self._place(self._folder, source.path, source.text).read_bytes())
            entry = stored.unpacked(data, __name__, runs.__name__, outcome.__name__)
        except (OSError, zlib.error, stored.Unreadable):
            return None
        if not isinstance(entry, Entry) or entry.recording.others_changed():
            return None
        page = None
        if entry.events is not None:
            tape = Tape(entry.producer, entry.events)
            page = html.Run(Checked(source.path, entry.recording.findings), tape, source, entry.ending)
        return replace(entry.recording, text=source.text, page=page, report=report)

    @staticmethod
    def _place(folder: Path, path: str, text: str) -> Path:
        # Editors may hold a text with other line ends than the file.
        return folder / stored.digest(repr((stored.this_version(), path, split_lines(text))))

    @staticmethod
    def _prune(folder: Path) -> None:
        try:
            found = [(one.stat().st_mtime, one.stat().st_size, one) for one in folder.iterdir()]
            total = 0
            for number, (_, size, one) in enumerate(sorted(found, reverse=True), 1):
                total += size
                if number > _MOST_RUNS or total > _MOST_BYTES:
                    one.unlink(missing_ok=True)
        except OSError:
            return
