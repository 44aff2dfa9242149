"""Diagnostics of files that are not open, for clients that pull them: checked one by one while nobody types."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from lsprotocol import types as t
from pygls import uris

from tapecheck.lsp.convert import path_of
from tapecheck.lsp.session import Analysis, Snapshot
from tapecheck.source import MAX_BYTES, Source, SourceError, read_source
from tapecheck.source.files import walk

if TYPE_CHECKING:
    from tapecheck.lsp.server import Server

logger = logging.getLogger(__name__)

MAX_FILES = 5000
QUIET, AT_ONCE = 1.0, 20
"""Seconds without an edit before files are checked, and after how many of them the client is told."""

Report = t.WorkspaceFullDocumentDiagnosticReport | t.WorkspaceUnchangedDocumentDiagnosticReport


@dataclass(slots=True)
class Workspace:
    """What is known of closed files, and whether anything has happened since it was told."""

    changed: asyncio.Event = field(default_factory=asyncio.Event)
    known: dict[str, tuple[str, list[t.Diagnostic]]] = field(default_factory=dict)


async def workspace_diagnostic(ls: Server, params: t.WorkspaceDiagnosticParams) -> t.WorkspaceDiagnosticReport:
    """The diagnostics of closed files that differ from what the client has; waits until there are any."""
    told = {one.uri: one.value for one in params.previous_result_ids}
    while True:
        ls.closed_files.changed.clear()
        batch: list[Report] = []
        anything = False
        async for report in _differing(ls, told):
            anything = True
            told[report.uri] = report.result_id or ""
            batch.append(report)
            if params.partial_result_token is not None and len(batch) >= AT_ONCE:
                part = t.WorkspaceDiagnosticReportPartialResult(batch)
                ls.protocol.notify(t.PROGRESS, t.ProgressParams(params.partial_result_token, part))
                batch = []
        if anything:
            return t.WorkspaceDiagnosticReport(batch)
        await ls.closed_files.changed.wait()


async def _differing(ls: Server, told: dict[str, str]) -> AsyncIterator[t.WorkspaceFullDocumentDiagnosticReport]:
    loop = asyncio.get_running_loop()
    paths: dict[str, str] = {}
    for folder in [path_of(folder.uri) for folder in ls.workspace.folders.values()]:
        if ls.session.settings_for(str(Path(folder, "x.py"))).whole_workspace:
            for path in await loop.run_in_executor(ls.scanning, _python_files, folder):
                paths[uris.from_fs_path(path) or path] = path
    for uri in told.keys() - paths.keys():
        if told[uri]:
            yield t.WorkspaceFullDocumentDiagnosticReport(uri, items=[])
    for uri, path in paths.items():
        if uri in ls.session.documents:
            continue
        state = _state(path, ls.revision)
        if state is None or told.get(uri) == state:
            continue
        known = ls.closed_files.known.get(uri)
        if known is None or known[0] != state:
            found = await _check(ls, uri, path)
            if found is None:
                continue
            known = ls.closed_files.known[uri] = (state, found)
        yield t.WorkspaceFullDocumentDiagnosticReport(uri, items=known[1], result_id=state)


async def _check(ls: Server, uri: str, path: str) -> list[t.Diagnostic] | None:
    """The diagnostics of one closed file; it is begun anew whenever somebody types meanwhile."""
    loop = asyncio.get_running_loop()
    while not ls.session.closing:
        while not ls.quiet(QUIET):
            await asyncio.sleep(QUIET / 4)
        try:
            return await loop.run_in_executor(ls.scanning, _diagnostics, ls, uri, path)
        except SourceError:
            return []
        except Exception as error:
            if ls.quiet(QUIET):
                logger.warning("could not analyse %s", path, exc_info=error)
                return []
    return None


def _diagnostics(ls: Server, uri: str, path: str) -> list[t.Diagnostic]:
    source: Source = read_source(path)
    settings = ls.session.settings_for(path)
    if not settings.enable or source.cells is not None:
        # The cells of a closed notebook have no addresses to put a finding at.
        return []
    report = ls.session.check_closed(source, settings, lambda: not ls.quiet(QUIET))
    snapshot = Snapshot(uri, path, source.text, "", 0, settings)
    return ls.converter.diagnostics(Analysis(snapshot, report))


def _python_files(folder: str) -> list[str]:
    files = []
    for path in walk(folder):
        files.append(path)
        if len(files) >= MAX_FILES:
            break
    return files


def _state(path: str, revision: int) -> str | None:
    """What changes when a file or the settings do."""
    try:
        stat = Path(path).stat()
    except OSError:
        return None
    return f"{stat.st_mtime_ns}.{stat.st_size}.{revision}" if stat.st_size <= MAX_BYTES else None
