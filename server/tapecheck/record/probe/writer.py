"""Writes a tape as JSON lines, whole groups at a time, so that whatever kills the process leaves a readable one."""

from __future__ import annotations

import json
import os
from typing import Any, Dict, Iterable, List, Optional, Tuple

FORMAT = 1
_RESERVE = 4096
_ENCODE = json.JSONEncoder(separators=(",", ":")).encode
_MAX_SITES = 50_000


class Writer:
    """An append-only tape.

    `event` buffers, `flush` hands the buffer to the operating system in one write. When the disk is full the tape
    is cut back to its last whole group and closed with the reason; the program itself never notices.
    """

    def __init__(self, path: str, producer: str) -> None:
        self.path = path
        self.failure: Optional[str] = None
        self.bytes = 0
        self._pid = os.getpid()
        self._buffer: List[str] = [json.dumps({"tape": FORMAT, "producer": producer})]
        self._sites: Dict[Any, int] = {}
        self._next_site = 0
        self._quoted: Dict[str, str] = {}
        self._file = -1
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_BINARY", 0)
            self._file = os.open(path, flags, 0o644)
        except OSError as error:
            self.failure = str(error)
        self.flush()

    @property
    def closed(self) -> bool:
        return self._file < 0

    def site(self, key: Any, make: Any) -> int:
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

    def event(self, kind: str, **fields: Any) -> None:
        line: Dict[str, Any] = {"event": kind}
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
    ) -> None:
        """Write a Node event; there are so many that its JSON is put together by hand."""
        if self._file < 0:
            return
        entries = ",".join(
            '{"storage":%d,"version":%d,"name":%s,"of":%s}'
            % (storage, version, self._quote(name), "null" if of is None else of)
            for storage, version, name, of in saved
        )
        self._buffer.append(
            '{"event":"Node","id":%d,"op":%s,"at":%d,"inputs":[%s],"saved":[%s],"keeps":"%s"}'
            % (number, self._quote(op), at, ",".join(map(str, inputs)), entries, keeps)
        )

    def _quote(self, text: str) -> str:
        quoted = self._quoted.get(text)
        if quoted is None:
            quoted = self._quoted[text] = json.dumps(text)
        return quoted

    def _add(self, line: Dict[str, Any]) -> None:
        if self._file >= 0:
            self._buffer.append(_ENCODE(line))

    def flush(self) -> None:
        """Write what is buffered. A forked child shares the file and must never write to it."""
        if not self._buffer or self._file < 0 or os.getpid() != self._pid:
            return
        data = ("\n".join(self._buffer) + "\n").encode()
        self._buffer.clear()
        error = self._write(data)
        if error is None:
            self.bytes += len(data)
            return
        self.failure = str(error)
        self._cut_back()

    def _write(self, data: bytes) -> Optional[OSError]:
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._file, view) :]
        except OSError as error:
            return error
        return None

    def _cut_back(self) -> None:
        # The room that the last group took holds one short line: drop that group and say why the tape ends.
        end = json.dumps(
            {"event": "End", "how": "stopped", "detail": "the tape could not be written: %s" % self.failure}
        )
        try:
            keep = self.bytes
            with open(self.path, "rb") as file:
                file.seek(max(keep - _RESERVE, 0))
                tail = file.read(keep - max(keep - _RESERVE, 0))
            while tail and keep + len(end) + 1 > self.bytes:
                cut = tail.rstrip(b"\n").rfind(b"\n") + 1
                keep -= len(tail) - cut
                tail = tail[:cut]
            os.ftruncate(self._file, keep)
            os.lseek(self._file, keep, os.SEEK_SET)
            self._write((end + "\n").encode())
        except (OSError, ValueError):
            pass
        self.abandon()

    def abandon(self) -> None:
        """Stop writing; the file keeps what it has."""
        if self._file >= 0:
            try:
                os.close(self._file)
            except OSError:
                pass
            self._file = -1

    def forget(self) -> None:
        """In a forked child, drop the buffer and the file without writing."""
        self._buffer.clear()
        self.abandon()


def span(name: str, extent: Tuple[int, int, int, int]) -> List[Any]:
    return [name, *extent]
