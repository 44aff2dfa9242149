"""Writes a tape as JSON lines, whole groups at a time, so that whatever kills the process leaves a readable one."""

from __future__ import annotations

import json
import os
from typing import Callable, Dict, Iterable, List, Optional, Tuple, Union

from .descriptor import Descriptor

FORMAT = 1
_RESERVE = 4096
_ENCODE = json.JSONEncoder(separators=(",", ":")).encode
_MAX_SITES = 50_000


# A file and its first line and column, its last line and column.
Span = List[Union[str, int]]
# What a site is: its span, its function, the spans of the calls that led there and the iterations that ran.
Site = Tuple[Span, str, List[Span], Tuple[Tuple[int, int], ...]]


class Writer:
    """An append-only tape.

    `event` buffers, `flush` hands the buffer to the operating system in one write. When the disk is full the tape
    is cut back to its last whole group and closed with the reason; the program itself never notices.
    """

    def __init__(self, path: str, producer: str) -> None:
        self.path = path
        self.failure: Optional[str] = None
        self.bytes = 0
        self._ended = False
        self._pid = os.getpid()
        self._buffer: List[str] = [json.dumps({"tape": FORMAT, "producer": producer})]
        self._sites: Dict[object, int] = {}
        self._next_site = 0
        self._quoted: Dict[str, str] = {}
        self._file: Optional[Descriptor] = None
        try:
            self._file = Descriptor(path)
        except OSError as error:
            self.failure = str(error)
        self.flush()

    @property
    def closed(self) -> bool:
        return self._file is None

    def site(self, key: object, make: Callable[[], Site]) -> int:
        """Return the number of a site, written the first time; `make` gives its span, function, stack and iteration."""
        number = self._sites.get(key)
        if number is None:
            if len(self._sites) >= _MAX_SITES:
                # Writing a site again is harmless, remembering every site of a week's run is not.
                self._sites.clear()
            number = self._sites[key] = self._next_site
            self._next_site += 1
            span, function, stack, iteration = make()
            self._add(
                {
                    "event": "Site",
                    "id": number,
                    "span": span,
                    "function": function,
                    "stack": stack,
                    "iteration": iteration,
                }
            )
        return number

    def event(self, kind: str, **fields: object) -> None:
        line: Dict[str, object] = {"event": kind}
        line.update(fields)
        self._add(line)

    def node(
        self,
        number: int,
        op: str,
        at: int,
        inputs: Iterable[int],
        saved: Iterable[Tuple[int, int, str, Optional[int]]],
        keeps: str,
        constant: str = "",
    ) -> None:
        """Write a Node event; there are so many that its JSON is put together by hand."""
        if self._file is None or self._ended:
            return
        entries = ",".join(
            '{"storage":%d,"version":%d,"name":%s,"of":%s}'
            % (storage, version, self._quote(name), "null" if of is None else of)
            for storage, version, name, of in saved
        )
        lacks = ',"constant":"%s"' % constant if constant else ""
        self._buffer.append(
            '{"event":"Node","id":%d,"op":%s,"at":%d,"inputs":[%s],"saved":[%s],"keeps":"%s"%s}'
            % (number, self._quote(op), at, ",".join(map(str, inputs)), entries, keeps, lacks)
        )

    def _quote(self, text: str) -> str:
        quoted = self._quoted.get(text)
        if quoted is None:
            quoted = self._quoted[text] = json.dumps(text)
        return quoted

    def _add(self, line: Dict[str, object]) -> None:
        if self._file is not None and not self._ended:
            self._buffer.append(_ENCODE(line))

    def end(self, how: str, detail: str) -> None:
        """Write the last event and hand over all that is buffered; what comes later is left out."""
        self.event("End", how=how, detail=detail)
        self._ended = True
        self.flush()

    def flush(self) -> None:
        """Write what is buffered. A forked child shares the file and must never write to it."""
        if not self._buffer or self._file is None or os.getpid() != self._pid:
            return
        data = ("\n".join(self._buffer) + "\n").encode()
        self._buffer.clear()
        try:
            self._file.write(data)
            self.bytes += len(data)
        except OSError as error:
            self.failure = str(error)
            self._cut_back(self._file)

    def _cut_back(self, file: Descriptor) -> None:
        # The room that the last group took holds one short line: drop that group and say why the tape ends.
        end = json.dumps(
            {"event": "End", "how": "stopped", "detail": "the tape could not be written: %s" % self.failure}
        )
        try:
            keep = self.bytes
            start = max(keep - _RESERVE, 0)
            tail = file.read(start, keep - start)
            while tail and keep + len(end) + 1 > self.bytes:
                cut = tail.rstrip(b"\n").rfind(b"\n") + 1
                keep -= len(tail) - cut
                tail = tail[:cut]
            file.cut(keep)
            file.write((end + "\n").encode())
        except (OSError, ValueError):
            pass
        self.abandon()

    def abandon(self) -> None:
        """Stop writing; the file keeps what it has."""
        file, self._file = self._file, None
        if file is not None:
            try:
                file.close()
            except OSError:
                pass

    def text(self) -> str:
        """Return what was written so far, also where the file was removed meanwhile."""
        try:
            if self._file is not None:
                return self._file.read(0, self.bytes + _RESERVE).decode(errors="replace")
            with open(self.path, encoding="utf-8", errors="replace") as file:
                return file.read()
        except OSError:
            return ""

    def forget(self) -> None:
        """In a forked child, drop the buffer and the file without writing."""
        self._buffer.clear()
        self.abandon()


def span(name: str, extent: Tuple[int, int, int, int]) -> Span:
    return [name, *extent]
