"""Messages out of the bytes that a client sends, also where a header says something wrong.

What cannot be told apart is given up, never waited for: a header without a length is passed over, a length that
reaches into the next header is cut there, one that ends too early is extended where that makes whole JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

MAX_BODY = 256_000_000
"""Bytes of a message; a header that announces more is taken for a broken one."""

_LENGTH = re.compile(rb"content-length[ \t]*:[ \t]*(\d{1,12})[ \t]*\r?\n", re.IGNORECASE)
_HEADERS = re.compile(rb"(?:[A-Za-z][A-Za-z-]*[ \t]*:[^\r\n]*\r?\n)*(\r?\n|(?=\{))")
_INCOMPLETE = re.compile(rb"(?:[A-Za-z][A-Za-z-]*[ \t]*:[^\r\n]*\r?\n)*(?:[A-Za-z-]*(?:[ \t]*:[^\r\n]*\r?)?|\r)")
_TAIL = 64
"""Bytes at the end of a buffer that may be the beginning of a header."""

_decoder = json.JSONDecoder()


@dataclass(frozen=True, slots=True)
class Broken:
    """A message that is no JSON, and why."""

    reason: str


class Frames:
    """Cuts bytes into messages, as they come."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._body: tuple[int, int] | None = None
        self._seen = 0

    def feed(self, data: bytes) -> Iterator[object]:
        """Yield the messages that some bytes complete: what their JSON holds, or `Broken`."""
        self._buffer += data
        while self._body is not None or self._header():
            message = self._message()
            if message is None:
                return
            yield message[0]

    def _header(self) -> bool:
        """Find the next header with a length; False while there is none."""
        start = 0
        while True:
            found = _LENGTH.search(self._buffer, start)
            if found is None:
                del self._buffer[: max(start, len(self._buffer) - _TAIL)]
                return False
            rest = _HEADERS.match(self._buffer, found.end())
            if rest is None and _INCOMPLETE.fullmatch(self._buffer, found.end()):
                del self._buffer[: found.start()]
                return False
            # The last one counts where there are several.
            block = bytes(self._buffer[found.start() : rest.end()]) if rest is not None else b""
            length = int(_LENGTH.findall(block)[-1]) if block else MAX_BODY + 1
            if rest is None or length > MAX_BODY:
                start = found.end()
                continue
            self._body = (rest.end(), rest.end() + length)
            self._seen = rest.end()
            return True

    def _message(self) -> tuple[object] | None:
        """Return the message whose header was found; None while it is not whole."""
        assert self._body is not None
        start, end = self._body
        # No line of JSON can look like a header: strings have their line ends escaped.
        following = _LENGTH.search(self._buffer, max(start, self._seen - _TAIL), max(start, end))
        self._seen = len(self._buffer)
        if following is not None:
            end = following.start()
        elif len(self._buffer) < end:
            return None
        self._body = None
        content: object
        try:
            text = self._buffer[start:end].decode("utf-8").lstrip()
            content, read = _decoder.raw_decode(text)
            left = text[read:].strip().encode()
        except (ValueError, RecursionError) as error:
            longer = self._longer(start)
            if longer is None:
                del self._buffer[:end]
                return (Broken(" ".join(str(error).split()) or type(error).__name__),)
            content, end = longer
            left = b""
        del self._buffer[:end]
        self._buffer[:0] = left
        return (content,)

    def _longer(self, start: int) -> tuple[object, int] | None:
        """Return what a body holds that is longer than its header says, and where it ends."""
        following = _LENGTH.search(self._buffer, start)
        end = following.start() if following is not None else len(self._buffer)
        try:
            text = self._buffer[start:end].decode("utf-8")
            skipped = len(text) - len(text.lstrip())
            content, read = _decoder.raw_decode(text, skipped)
        except (ValueError, RecursionError):
            return None
        return content, start + len(text[:read].encode())
