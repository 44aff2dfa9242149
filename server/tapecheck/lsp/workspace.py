"""Diagnostics of files that are not open, for clients that pull them: checked one by one between edits."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import AsyncIterator, Set
from pathlib import Path
from typing import TYPE_CHECKING

from lsprotocol import types as t
from pygls import uris

from tapecheck.lsp.closed import Known
from tapecheck.lsp.document import digest_of
from tapecheck.lsp.notebook import Notebook
from tapecheck.lsp.places import path_of

if TYPE_CHECKING:
    from tapecheck.lsp.host import Host
    from tapecheck.lsp.session import Unsaved

logger = logging.getLogger(__name__)

MAX_FILES = 5000
QUIET, AT_ONCE = 1.0, 20
"""Seconds without an edit before files are checked, and after how many of them the client is notified."""

SETTLED = 0.3
"""Seconds after a change before it is looked at what differs."""

Report = t.WorkspaceFullDocumentDiagnosticReport | t.WorkspaceUnchangedDocumentDiagnosticReport


async def workspace_diagnostic(ls: Host, params: t.WorkspaceDiagnosticParams) -> t.WorkspaceDiagnosticReport:
    """Return the diagnostics of closed files that differ from what the client has; waits until there are any."""
    told = {one.uri: one.value for one in params.previous_result_ids}
    while True:
        ls.closed_files.changed.clear()
        batch: list[Report] = []
        anything = False
        closed = frozenset(ls.closed_files.closed)
        for uri in closed:
            told.pop(uri, None)
        async for report in _differing(ls, told, closed):
            anything = True
            told[report.uri] = report.result_id or ""
            batch.append(report)
            if params.partial_result_token is not None and len(batch) >= AT_ONCE:
                part = t.WorkspaceDiagnosticReportPartialResult(batch)
                ls.protocol.notify(t.PROGRESS, t.ProgressParams(params.partial_result_token, part))
                batch = []
        ls.closed_files.closed -= closed
        if anything:
            return t.WorkspaceDiagnosticReport(batch)
        await ls.closed_files.changed.wait()
        # A client that has just closed a file asks for it once more, and takes nothing of it from here until then.
        await asyncio.sleep(SETTLED)


async def _differing(
    ls: Host, told: dict[str, str], closed: Set[str]
) -> AsyncIterator[t.WorkspaceFullDocumentDiagnosticReport]:
    paths = await _checked_paths(ls)
    for uri in told.keys() - paths.keys():
        if told[uri]:
            yield t.WorkspaceFullDocumentDiagnosticReport(uri, items=[])
    for uri in closed - paths.keys() - ls.session.documents.keys():
        yield t.WorkspaceFullDocumentDiagnosticReport(uri, items=[])
    for uri, path in paths.items():
        document = ls.session.documents.get(uri)
        if document is not None:
            if isinstance(document, Notebook) and told.get(uri):
                # Its findings stand in its cells now.
                yield t.WorkspaceFullDocumentDiagnosticReport(uri, items=[])
            continue
        known = ls.closed_files.known.get(uri)
        state = _state(ls, path, known)
        if state is None or told.get(uri) == state:
            continue
        if known is None or known.state != state:
            known = await _check(ls, uri, path)
            if known is None:
                continue
            ls.closed_files.known[uri] = known
            if told.get(uri) == known.state:
                continue
        yield t.WorkspaceFullDocumentDiagnosticReport(uri, items=known.diagnostics, result_id=known.state)


async def _checked_paths(ls: Host) -> dict[str, str]:
    """Return the Python files of the folders that are checked as a whole, by URI."""
    loop = asyncio.get_running_loop()
    paths: dict[str, str] = {}
    for folder in [path_of(folder.uri) for folder in ls.workspace.folders.values()]:
        if ls.session.settings_for(str(Path(folder, "x.py"))).whole_workspace:
            for path in await loop.run_in_executor(ls.scanning, _python_files, folder):
                paths[uris.from_fs_path(path) or path] = path
    return paths


async def _check(ls: Host, uri: str, path: str) -> Known | None:
    """Return the diagnostics of one closed file; it is begun anew whenever somebody types meanwhile."""
    from tapecheck.source import SourceError

    loop = asyncio.get_running_loop()
    while not ls.session.closing:
        while not ls.quiet(QUIET):
            await asyncio.sleep(QUIET / 4)
        unsaved = ls.session.unsaved()
        try:
            found, imports = await loop.run_in_executor(ls.scanning, _diagnostics, ls, uri, path, unsaved)
        except SourceError:
            found, imports = [], frozenset()
        except Exception as error:
            if not ls.quiet(QUIET):
                continue
            logger.warning("could not analyse %s", path, exc_info=error)
            found, imports = [], frozenset()
        if unsaved == ls.session.unsaved():
            state = _state(ls, path, Known("", found, imports))
            return Known(state, found, imports) if state is not None else None
    return None


def _diagnostics(ls: Host, uri: str, path: str, unsaved: Unsaved) -> tuple[list[t.Diagnostic], frozenset[str]]:
    from tapecheck.lsp.session import Analysis, Snapshot
    from tapecheck.source import read_source

    source = read_source(path)
    settings = ls.session.settings_for(path)
    if not settings.enable:
        return [], frozenset()
    report = ls.session.check_closed(source, settings, lambda: not ls.quiet(QUIET), unsaved)
    analysis = Analysis(Snapshot(uri, path, source.text, "", 0, settings), report)
    found, imports = ls.converter.diagnostics(analysis), analysis.imports
    del report, analysis
    # Not where somebody began to type, which ends the check: a collection would be in the way.
    ls.garbage.closed()
    return found, imports


def _python_files(folder: str) -> list[str]:
    from tapecheck.source.files import walk

    return list(itertools.islice(walk(folder), MAX_FILES))


def _state(ls: Host, path: str, known: Known | None) -> str | None:
    """Return what changes when a file, the settings, or an unsaved module that it imports do."""
    from tapecheck.source import MAX_BYTES

    try:
        stat = Path(path).stat()
    except OSError:
        return None
    if stat.st_size > MAX_BYTES:
        return None
    state = f"{stat.st_mtime_ns}.{stat.st_size}.{ls.revision}"
    imports = known.imports if known is not None else frozenset()
    unsaved = [digest_of(text) for name, text in sorted(ls.session.unsaved()) if name in imports]
    return ".".join([state, *unsaved])
