"""The server as a process: LSP on standard input and output, from start to end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
import threading
from functools import partial
from typing import TYPE_CHECKING, BinaryIO

from pygls.io_ import StdoutWriter

from tapecheck.lsp.frames import Frames
from tapecheck.lsp.garbage import hold
from tapecheck.lsp.host import Host
from tapecheck.lsp.protocol import Protocol
from tapecheck.lsp.wiring import create_server

if TYPE_CHECKING:
    from tapecheck.lsp.session import Session

logger = logging.getLogger(__name__)

_CHUNK = 65_536
RECURSION = 12_000


def serve(session: Session | None = None) -> int:
    """Speak LSP on standard input and output until the client is gone; return the exit status.

    Whatever else prints in this process, or in one that it starts, goes to standard error.
    """
    form = "%(levelname)s %(name)s: %(message)s"
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format=form)
    # Editors show standard error as errors: that a request was answered before it was cancelled is none.
    logging.getLogger("pygls").setLevel(logging.ERROR)
    # The dry run raises the limit while it works and puts it back: two of them at once must find it high.
    sys.setrecursionlimit(max(sys.getrecursionlimit(), RECURSION))
    hold()
    source, sink = _own_streams()
    server = create_server(session)
    serve_streams(server, source, sink)
    return 0 if server.asked_to_stop else 1


def serve_streams(server: Host, source: BinaryIO, sink: BinaryIO) -> None:
    """Handle the messages that come from one stream and write to another, until one of them or the editor ends."""
    server.protocol.set_writer(StdoutWriter(sink))
    try:
        asyncio.run(_read(server, source))
    except BrokenPipeError:
        logger.warning("the client is gone")
    except (KeyboardInterrupt, SystemExit):
        pass
    finally:
        server.shutdown()


async def _read(server: Host, source: BinaryIO) -> None:
    loop = asyncio.get_running_loop()
    frames = Frames()
    protocol = server.protocol
    assert isinstance(protocol, Protocol)
    chunks: asyncio.Queue[bytes] = asyncio.Queue()
    server.hang_up = partial(chunks.put_nowait, b"")

    def read() -> None:
        data = b"more"
        # The loop is closed where the server ends while the client still has the stream open.
        with contextlib.suppress(RuntimeError):
            while data:
                try:
                    data = os.read(source.fileno(), _CHUNK)
                except OSError:
                    data = b""
                loop.call_soon_threadsafe(chunks.put_nowait, data)

    # Nothing wakes a thread that reads: one of a pool would keep the process from ending.
    threading.Thread(target=read, name="tapecheck-read", daemon=True).start()
    while data := await chunks.get():
        for message in frames.feed(data):
            protocol.receive(message)


def _own_streams() -> tuple[BinaryIO, BinaryIO]:
    source = os.fdopen(os.dup(0), "rb")
    sink = os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return source, sink
