"""The connection to one client: what it can do, and what is said to it that answers no request."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from lsprotocol import types as t
from pygls.exceptions import JsonRpcMethodNotFound
from pygls.lsp.server import LanguageServer

from tapecheck.lsp.client import Client
from tapecheck.version import __version__

if TYPE_CHECKING:
    from pygls.protocol import LanguageServerProtocol

logger = logging.getLogger(__name__)

Done = TypeVar("Done")


@dataclass(eq=False)
class UnderWay:
    """Work that the client can stop: by the progress token it is shown with, or by its request."""

    name: str
    token: t.ProgressToken | None
    request: str | int | None
    stopped: threading.Event = field(default_factory=threading.Event, init=False)


class Connection(LanguageServer):
    """A pygls server that knows its client and keeps errors out of the user's way; it has no handlers of its own."""

    def __init__(
        self, protocol: type[LanguageServerProtocol], notebooks: t.NotebookDocumentSyncOptions, converter: object
    ) -> None:
        super().__init__(
            "tapecheck", __version__, protocol_cls=protocol, notebook_document_sync=notebooks,
            converter_factory=converter,
        )  # fmt: skip
        self.client = Client()
        self.runs: dict[str, UnderWay] = {}
        """What is being run, by the path of its file."""
        self.hang_up: Callable[[], None] = lambda: None
        """Ends the connection as the client does by closing it."""
        self._tasks: set[asyncio.Task[object]] = set()
        self._said: set[str] = set()
        self._reporting = False

    def log(self, message: str, level: t.MessageType = t.MessageType.Log) -> None:
        self.window_log_message(t.LogMessageParams(type=level, message=message))

    def say_once(self, problem: str) -> None:
        """Show what is wrong with settings or pyproject.toml in a message: a log alone would not be noticed."""
        if problem not in self._said:
            self._said.add(problem)
            self.log(problem, t.MessageType.Warning)
            self.window_show_message(t.ShowMessageParams(t.MessageType.Warning, f"Tapecheck: {problem}"))

    def report_server_error(self, error: Exception, source: object) -> None:
        """Log an error; it never pops up in front of a user who is typing."""
        line = " ".join(str(error).split()) or type(error).__name__
        # What the client asks for and nobody has is its own mistake.
        kind = "" if isinstance(error, JsonRpcMethodNotFound) else "internal error: "
        if self._reporting:
            # The report could not be sent, and its report could not be, either: the client is gone.
            return
        self._reporting = True
        try:
            self.log(f"{kind}{line}", t.MessageType.Error)
        finally:
            self._reporting = False

    def failed(self, what: str, error: Exception) -> None:
        # The user's log gets one line; the traceback, for a bug report, goes to standard error.
        logger.warning("%s", what, exc_info=error)
        why = " ".join(f"{type(error).__name__}: {error}".split())
        self.log(f"{what}: {why}", t.MessageType.Warning)

    def spawn(self, work: Coroutine[object, object, Done]) -> asyncio.Task[Done]:
        """Run a coroutine beside the rest; errors in it go to the log."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._finished)
        return task

    def _finished(self, task: asyncio.Task[object]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            error = task.exception()
            logger.warning("background work failed", exc_info=error)
            if isinstance(error, Exception):
                self.report_server_error(error, type(error))


async def quietly(request: Awaitable[object]) -> None:
    """Await a request to the client whose failure changes nothing."""
    try:
        await request
    except Exception as error:
        logger.info("the client refused a request: %s", error)
