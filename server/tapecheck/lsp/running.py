"""A recorded run as the client watches it: its progress, and its output in the log."""

from __future__ import annotations

import asyncio
import logging
import uuid

from lsprotocol import types as t

from tapecheck.lsp.connection import Connection, UnderWay

logger = logging.getLogger(__name__)

LOG_EVERY, LOG_LINES, LOG_LINE = 0.1, 2000, 500
"""Seconds between two looks at a run's output, and how many lines of which length are logged."""


class RecordedRun(UnderWay):
    """One recorded run as the client sees it: progress it can cancel, output in its log."""

    def __init__(
        self, ls: Connection, name: str, doing: str, token: t.ProgressToken | None, request: str | int | None
    ) -> None:
        super().__init__(name, token, request)
        self.ls = ls
        self.doing = doing
        self.ended = False
        self._loop = asyncio.get_running_loop()
        self._output = ""
        self._logged = 0
        self._flush: asyncio.TimerHandle | None = None
        self._reported = ""
        self._what = ""
        self._shown = ""

    async def begin(self) -> None:
        """Show progress: on the token that the client gave, else on one of ours where it can show any."""
        if self.token is None and self.ls.client.progress:
            token = f"tapecheck-run-{uuid.uuid4()}"
            try:
                await self.ls.work_done_progress.create_async(token)
                self.token = token
            except Exception as error:
                logger.info("the client shows no progress: %s", error)
        if self.token is not None:
            title = f"Tapecheck: {self.doing} {self.name}"
            self._progress(t.WorkDoneProgressBegin(title=title, cancellable=True))

    def end(self, message: str) -> None:
        self._log_output(last=True)
        self.ended = True
        if self.token is not None:
            self._progress(t.WorkDoneProgressEnd(message=message))
            self.ls.work_done_progress.tokens.pop(self.token, None)

    def _progress(self, value: object) -> None:
        self.ls.protocol.notify(t.PROGRESS, t.ProgressParams(token=self.token or "", value=value))

    def with_what(self, told: str) -> None:
        """Say from now on which interpreter and device it is."""
        self._what = told
        self._take_progress(self._reported)

    # From the threads of the run

    def output(self, text: str) -> None:
        self._loop.call_soon_threadsafe(self._take_output, text)

    def progress(self, message: str) -> None:
        self._loop.call_soon_threadsafe(self._take_progress, message)

    # On the event loop

    def _take_progress(self, message: str) -> None:
        self._reported = message
        shown = " · ".join(part for part in (message, self._what) if part)
        if self.token is not None and shown != self._shown and not self.stopped.is_set():
            self._shown = shown
            self._progress(t.WorkDoneProgressReport(message=shown))

    def _take_output(self, text: str) -> None:
        self._output += text
        if self._flush is None:
            self._flush = self._loop.call_later(LOG_EVERY, self._log_output)

    def _log_output(self, last: bool = False) -> None:
        """Log whole lines; a line that was overwritten with carriage returns (a progress bar) once."""
        if self._flush is not None:
            self._flush.cancel()
            self._flush = None
        ready, newline, rest = self._output.replace("\r\n", "\n").rpartition("\n")
        if last:
            ready, rest = ready + newline + rest, ""
        # What a bar has written over will never be seen: without this it would be kept for the whole run.
        self._output = rest.rpartition("\r")[2] if not rest.endswith("\r") else rest[-LOG_LINE:]
        lines = [line.rstrip("\r").rpartition("\r")[2][:LOG_LINE] for line in ready.split("\n")]
        lines = [line for line in lines if line.strip()]
        room = max(LOG_LINES - self._logged, 0)
        for line in lines[:room]:
            self.ls.log(f"{self.name}: {line}")
        if len(lines) > room and self._logged <= LOG_LINES:
            self.ls.log(f"{self.name}: further output is not shown here")
            self._logged = LOG_LINES + 1
        self._logged += len(lines[:room])
