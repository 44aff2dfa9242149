"""What the handlers of requests work with: the session, its analyses and fixes, and what is shown of them."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from lsprotocol import types as t

from tapecheck.lsp.closed import ClosedFiles
from tapecheck.lsp.connection import Connection, quietly
from tapecheck.lsp.document import Encoding
from tapecheck.lsp.garbage import Garbage
from tapecheck.lsp.notebook import Notebook
from tapecheck.lsp.places import path_of
from tapecheck.lsp.protocol import Protocol, strict_converter
from tapecheck.lsp.settings import SECTION, Settings, read_settings

if TYPE_CHECKING:
    from tapecheck.fixes import Fix
    from tapecheck.lsp.convert import Converter
    from tapecheck.lsp.session import Analysis, Session, Snapshot
    from tapecheck.record.scratch import Scratch
    from tapecheck.rules.finding import Finding

logger = logging.getLogger(__name__)

_P = ParamSpec("_P")
_T = TypeVar("_T")

RUNS_AT_ONCE = 4
STACK_BYTES = 64 * 1024 * 1024
MIN_DELAY, MAX_DELAY = 0.002, 0.1
"""Seconds to wait for the next keystroke: a tenth of what the last analysis took, within these."""

IMPORTERS_DELAY = 0.4
"""Seconds without an edit of a file before those that import it are analysed anew."""

CALLERS_DELAY = 1.0
"""Seconds without an edit before the closed files that import an open one are checked for what they do in it."""

# Cells of all languages are asked for: what is said counts them as the reader does.
NOTEBOOKS = t.NotebookDocumentSyncOptions(
    notebook_selector=[
        t.NotebookDocumentFilterWithNotebook(notebook="jupyter-notebook"),
        t.NotebookDocumentFilterWithNotebook(notebook="interactive"),
    ],
    save=False,
)


@dataclass(slots=True)
class _Running:
    """An analysis under way, and of what."""

    snapshot: Snapshot
    task: asyncio.Task[Analysis | None]


class Host(Connection):
    """The state that all handlers share: the session, and what runs off the event loop. It knows no handler."""

    def __init__(self, session: Session | None = None) -> None:
        super().__init__(Protocol, NOTEBOOKS, strict_converter)
        self.initial = Settings()
        if session is not None:
            self.session = session
            self.initial = session.settings
        self.encoding: Encoding = "utf-16"
        self.asked_to_stop = False
        self.revision = 0
        self._running: dict[str, _Running] = {}
        self._published: dict[str, asyncio.Task[None]] = {}
        self._took: dict[str, float] = {}
        self._crashed: dict[str, int] = {}
        self._in_others: dict[str, dict[str, frozenset[tuple[str, int, int]]]] = {}
        self._drawn: dict[str, object] = {}
        # Long work in the pool of pygls would keep its handlers waiting.
        self.analysing = _deep_executor("tapecheck-analysis")
        self.fixing = _deep_executor("tapecheck-fixes")
        self.running = ThreadPoolExecutor(RUNS_AT_ONCE, "tapecheck-run")
        self.asking = ThreadPoolExecutor(1, "tapecheck-interpreter")
        self.scanning = _deep_executor("tapecheck-workspace")
        self.closed_files = ClosedFiles()
        self.garbage = Garbage()
        self._edited = float("-inf")
        self._importing: dict[str, asyncio.TimerHandle] = {}
        self._calling: dict[str, asyncio.Task[None]] = {}
        self._pages: Scratch | None = None

    @cached_property
    def session(self) -> Session:
        """The session, made for the first who asks: importing it takes as long as all that `initialize` needs."""
        from tapecheck.lsp.session import Session
        from tapecheck.source.stored import default_folder

        session = Session(cache=default_folder())
        session.configure(self.initial)
        return session

    @cached_property
    def converter(self) -> Converter:
        """What turns findings and places into the shapes of LSP, for the client that `initialize` has told of."""
        from tapecheck.lsp.convert import Converter

        return Converter(self.session, self.client, self.encoding)

    @property
    def made(self) -> Session | None:
        """The session where somebody has asked for it."""
        made: Session | None = self.__dict__.get("session")
        return made

    # Analysis

    async def analysis(self, uri: str) -> Analysis | None:
        """Return the analysis of the present text; None where the file is none of ours or was edited meanwhile.

        All who ask about one state of a file wait for the same analysis.
        """
        snapshot = self.session.snapshot(uri)
        if snapshot is None:
            return None
        known = self.session.known(snapshot)
        if known is not None:
            return known
        if self._crashed.get(uri) == snapshot.generation:
            return None
        running = self._running.get(uri)
        if running is None or running.snapshot.generation != snapshot.generation or running.task.done():
            running = _Running(snapshot, asyncio.ensure_future(self._analyse(snapshot)))
            self._running[uri] = running
        # One of those who wait may be cancelled by the client; the others still want the answer.
        return await asyncio.shield(running.task)

    async def _analyse(self, snapshot: Snapshot) -> Analysis | None:
        loop = asyncio.get_running_loop()
        started = loop.time()
        try:
            analysis = await loop.run_in_executor(self.analysing, self.session.analyse, snapshot)
        except Exception as error:
            # Everybody who asks about this text would meet the same error: it is logged once.
            self._crashed[snapshot.uri] = snapshot.generation
            self.failed(f"could not analyse {snapshot.path}", error)
            return None
        self.garbage.made()
        if analysis is not None:
            self._took[snapshot.uri] = loop.time() - started
            for fault in analysis.report.interpretation.faults:
                self.log(f"{snapshot.path}:{fault.line}: {fault.message}", t.MessageType.Error)
            from tapecheck.check import configuration_problems

            for problem in configuration_problems(analysis.report.project.configuration):
                self.say_once(problem)
        self.tell_others(snapshot.uri)
        if analysis is not None and snapshot.path.endswith(".py"):
            self._look_at_callers(snapshot)
        return analysis

    def _look_at_callers(self, snapshot: Snapshot) -> None:
        """Schedule a check of the closed files that import an open one, for when nobody types."""
        waiting = self._calling.pop(snapshot.uri, None)
        if waiting is not None:
            waiting.cancel()
        self._calling[snapshot.uri] = self.spawn(quietly(self._called(snapshot)))

    async def _called(self, snapshot: Snapshot) -> None:
        loop = asyncio.get_running_loop()
        session = self.session
        while not session.outdated(snapshot):
            await asyncio.sleep(CALLERS_DELAY)
            if not self.quiet(CALLERS_DELAY):
                continue
            try:
                changed = await loop.run_in_executor(
                    self.scanning, session.look_at_callers, snapshot, lambda: not self.quiet(0)
                )
            except Exception as error:
                if not self.quiet(0):
                    continue
                logger.warning("could not check the files that import %s", snapshot.path, exc_info=error)
                return
            if changed:
                self._show_again(snapshot.uri)
            return

    def _show_again(self, uri: str) -> None:
        """Have a file's findings shown anew, which is analysed already."""
        if not self.client.pull:
            self.refresh(uri, at_once=True)
        elif self.client.refresh_diagnostics:
            self.spawn(quietly(self.workspace_diagnostic_refresh_async(None)))

    def tell_others(self, uri: str) -> None:
        """Show anew the open files in which the code of one does something else than before."""
        before = self._in_others.pop(uri, {})
        now = self.session.in_others(uri)
        if now:
            self._in_others[uri] = now
        changed = [other for other in before.keys() | now.keys() if before.get(other) != now.get(other)]
        if not changed:
            return
        if not self.client.pull:
            for other in changed:
                self.refresh(other, at_once=True)
        elif self.client.refresh_diagnostics:
            self.spawn(quietly(self.workspace_diagnostic_refresh_async(None)))

    def quiet(self, seconds: float) -> bool:
        """Return whether the user has not typed for some seconds and no open file is being analysed."""
        busy = any(not running.task.done() for running in list(self._running.values()))
        return not busy and time.monotonic() - self._edited > seconds and not self.session.closing

    async def off_loop(self, work: Callable[_P, _T], *arguments: _P.args, **named: _P.kwargs) -> _T:
        """Run what reads whole tapes where analyses run, so that typing is not held up."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self.analysing, partial(work, *arguments, **named))

    def refresh(self, uri: str, *, at_once: bool = False) -> None:
        """Schedule diagnostics of the present text for the client."""
        self.garbage.put_off()
        self._edited = time.monotonic()
        if self.client.pull and not isinstance(self.session.documents.get(uri), Notebook):
            return
        if self.session.waits_for_save(uri):
            return
        previous = self._published.pop(uri, None)
        if previous is not None:
            previous.cancel()
        delay = 0.0 if at_once else min(max(self._took.get(uri, 0.0) / 10, MIN_DELAY), MAX_DELAY)
        self._published[uri] = self.spawn(self._publish(uri, delay))

    def refresh_importers(self, uri: str) -> None:
        """Schedule a new analysis of the open files that import an edited one, once it is left alone."""
        waiting = self._importing.pop(uri, None)
        if waiting is not None:
            waiting.cancel()
        if self.session.importers(uri) or self.closed_files.importers(self.session.documents.get(uri)):
            loop = asyncio.get_running_loop()
            self._importing[uri] = loop.call_later(IMPORTERS_DELAY, self._analyse_importers, uri)

    def _analyse_importers(self, uri: str) -> None:
        self._importing.pop(uri, None)
        self.closed_files.changed.set()
        for other in self.session.importers(uri):
            self.session.forget_one(other)
            self.refresh(other, at_once=True)
        if self.client.pull and self.client.refresh_diagnostics:
            self.spawn(quietly(self.workspace_diagnostic_refresh_async(None)))
        self.refresh_drawn()

    async def _publish(self, uri: str, delay: float) -> None:
        await asyncio.sleep(delay)
        document = self.session.documents.get(uri)
        if document is None:
            return
        if not self.session.analysable(uri):
            for own in document.documents if isinstance(document, Notebook) else [uri]:
                self.publish(own, self.session.version(own), [])
            return
        generation = document.generation
        analysis = await self.analysis(uri)
        if analysis is None or document.generation != generation:
            return
        for own, found in self.converter.by_document(analysis).items():
            self.publish(own, self.session.version(own), found)
        if isinstance(document, Notebook):
            await self._redraw(uri, analysis)

    async def _redraw(self, uri: str, analysis: Analysis) -> None:
        """Have a notebook's lenses and hints asked for anew where an edit of one cell changed those of another."""
        now = (
            await self.off_loop(self.session.lenses, analysis),
            await self.off_loop(self.session.inlays, analysis),
        )
        before = self._drawn.get(uri)
        self._drawn[uri] = now
        if before is not None and before != now:
            self.refresh_drawn()

    def close(self, uri: str) -> None:
        """Forget what was going on about a file."""
        waiting = self._published.pop(uri, None)
        if waiting is not None:
            waiting.cancel()
        for kept in (self._running, self._took, self._crashed, self._drawn):
            kept.pop(uri, None)
        self.tell_others(uri)

    def publish(self, uri: str, version: int | None, diagnostics: list[t.Diagnostic]) -> None:
        self.text_document_publish_diagnostics(t.PublishDiagnosticsParams(uri, diagnostics, version))

    def refresh_all(self) -> None:
        """Show everything anew after a change of settings or evidence."""
        self.revision += 1
        self.closed_files.changed.set()
        for uri in list(self.session.documents):
            self.refresh(uri, at_once=True)
        if self.client.pull and self.client.refresh_diagnostics:
            self.spawn(quietly(self.workspace_diagnostic_refresh_async(None)))
        self.refresh_drawn()

    def refresh_drawn(self) -> None:
        """Have the client ask for lenses and hints anew."""
        if self.client.refresh_lenses:
            self.spawn(quietly(self.workspace_code_lens_refresh_async(None)))
        if self.client.inlay_refresh:
            self.spawn(quietly(self.workspace_inlay_hint_refresh_async(None)))

    # Fixes

    async def fixes(self, analysis: Analysis, finding: Finding) -> list[Fix]:
        """Return the fixes of a finding; none where making them fails."""
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self.fixing, self.session.fixes, analysis, finding)
        except Exception as error:
            if not self.session.outdated(analysis.snapshot):
                self.failed(f"could not find fixes for {finding.code} in {analysis.snapshot.path}", error)
            return []

    async def fix_all(self, analysis: Analysis) -> str | None:
        """Return the text with all safe fixes made; None where there are none or making them fails."""
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self.fixing, self.session.fix_all, analysis)
        except Exception as error:
            if not self.session.outdated(analysis.snapshot):
                self.failed(f"could not fix {analysis.snapshot.path}", error)
            return None

    async def unfixed(self, analysis: Analysis) -> str:
        """Return in a sentence why there are no safe fixes to make."""
        return await asyncio.get_running_loop().run_in_executor(self.fixing, self.session.unfixed, analysis)

    # Settings

    async def read_settings(self) -> None:
        """Ask the client for its settings, for everything and for each workspace folder."""
        folders = list(self.workspace.folders.values())
        items = [t.ConfigurationItem(section=SECTION)]
        items += [t.ConfigurationItem(section=SECTION, scope_uri=folder.uri) for folder in folders]
        answers = await self.workspace_configuration_async(t.ConfigurationParams(items=items))
        answers = list(answers or ())
        own = {
            path_of(folder.uri): self.settings_from(answer)
            for folder, answer in zip(folders, answers[1:], strict=False)
            if isinstance(answer, dict) and answer
        }
        self.configure(self.given(answers[0] if answers else None), own)

    def given(self, value: object) -> Settings:
        """Return the settings that a client sends; where it sets nothing, those of `initialize` or the defaults."""
        return self.settings_from(value) if isinstance(value, dict) and value else self.initial

    def configure(self, settings: Settings, folders: dict[str, Settings] | None = None) -> None:
        if settings == self.session.settings and (folders or {}) == self.session.folder_settings:
            return
        self.session.configure(settings, folders)
        self.refresh_all()

    def settings_from(self, value: object) -> Settings:
        settings, problems = read_settings(value)
        for problem in problems:
            self.say_once(problem)
        return settings

    def page(self, name: str, text: str) -> Path:
        """Return a file with the page of a rule, for clients that show files; it goes when the server does."""
        if self._pages is None:
            from tapecheck.record.scratch import Scratch

            self._pages = Scratch()
        file = self._pages.path / name
        file.write_text(text, encoding="utf-8")
        return file

    # From start to end

    def shutdown(self) -> None:
        """Stop everything that runs, so that the process can end."""
        if self.made is not None:
            self.made.closing = True
        self.analysing.shutdown(wait=False, cancel_futures=True)
        self.fixing.shutdown(wait=False, cancel_futures=True)
        self.running.shutdown(wait=False, cancel_futures=True)
        self.asking.shutdown(wait=False, cancel_futures=True)
        self.scanning.shutdown(wait=False, cancel_futures=True)
        if self._pages is not None:
            self._pages.close()
        super().shutdown()  # type: ignore[no-untyped-call]


def _deep_executor(name: str) -> ThreadPoolExecutor:
    """Return one worker thread whose stack holds a deep recursion: threads get 512 kB on some systems."""
    executor = ThreadPoolExecutor(1, name)
    previous = threading.stack_size(STACK_BYTES)
    try:
        executor.submit(int).result()
    finally:
        threading.stack_size(previous)
    return executor
