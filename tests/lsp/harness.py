"""A language client with the abilities of a real editor, and the ways to drive it."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from lsprotocol import types as t
from lsprotocol.converters import get_converter
from pytest_lsp import ClientServerConfig, LanguageClient, make_test_lsp_client

HERE = Path(__file__).parent
CAPTURES = sorted(path.stem for path in (HERE / "captures").glob("*.json"))
FAKE = [sys.executable, str(HERE / "fake_server.py")]
REAL = [sys.executable, "-m", "tapecheck.lsp"]
WAIT = 120.0
"""Seconds after which something that should have come counts as missing."""


def make_client() -> LanguageClient:
    """pytest-lsp's client answers everything but `client/registerCapability`."""
    client = make_test_lsp_client()
    client.registrations = []  # type: ignore[attr-defined]
    converter = client.protocol._converter

    def structure(given: Any, _: type) -> t.Command | t.CodeAction:
        # lsprotocol takes every action that has a command for one.
        kind = t.Command if isinstance(given.get("command"), str) else t.CodeAction
        return converter.structure(given, kind)  # type: ignore[no-any-return]

    converter.register_structure_hook(t.Command | t.CodeAction, structure)
    client.lens_refreshes = 0  # type: ignore[attr-defined]

    @client.feature(t.CLIENT_REGISTER_CAPABILITY)
    def _(params: t.RegistrationParams) -> None:
        client.registrations.extend(params.registrations)  # type: ignore[attr-defined]

    @client.feature(t.WORKSPACE_CODE_LENS_REFRESH)
    def _(params: None) -> None:
        client.lens_refreshes += 1  # type: ignore[attr-defined]

    return client


def captured(name: str, folder: Path, settings: dict[str, Any] | None = None) -> t.InitializeParams:
    """The `initialize` parameters that an editor really sent, for a folder of the test's."""
    data = json.loads((HERE / "captures" / f"{name}.json").read_text(encoding="utf-8"))
    uri = folder.as_uri()
    data |= {
        "processId": os.getpid(),
        "rootUri": uri,
        "rootPath": str(folder),
        "workspaceFolders": [{"uri": uri, "name": folder.name}],
    }
    if settings is not None:
        data["initializationOptions"] = {"settings": settings}
    params: t.InitializeParams = get_converter().structure(data, t.InitializeParams)
    return params


class Editor:
    """One editor: its open files as it sees them, and what the server has told it."""

    def __init__(self, client: LanguageClient, result: t.InitializeResult, folder: Path) -> None:
        self.client = client
        self.result = result
        self.folder = folder
        self.name = ""
        self.versions: dict[str, int] = {}
        self.asked_to_run = False
        self._silent = 0

    @property
    def pulls(self) -> bool:
        return self.result.capabilities.diagnostic_provider is not None

    def uri(self, name: str) -> str:
        return (self.folder / name).as_uri()

    def open(self, name: str, text: str, language: str = "python") -> str:
        uri = self.uri(name)
        self.versions[uri] = self.versions.get(uri, 0) + 1
        item = t.TextDocumentItem(uri=uri, language_id=language, version=self.versions[uri], text=text)
        self.client.text_document_did_open(t.DidOpenTextDocumentParams(item))
        return uri

    def change(self, uri: str, *changes: t.TextDocumentContentChangeEvent) -> int:
        self.versions[uri] += 1
        version = self.versions[uri]
        named = t.VersionedTextDocumentIdentifier(uri=uri, version=version)
        self.client.text_document_did_change(t.DidChangeTextDocumentParams(named, list(changes)))
        return version

    def type(self, uri: str, line: int, character: int, text: str, *, replacing: int = 0) -> int:
        """Put text at a place, over `replacing` units of its line."""
        where = t.Range(t.Position(line, character), t.Position(line, character + replacing))
        return self.change(uri, t.TextDocumentContentChangePartial(range=where, text=text))

    def close(self, uri: str) -> None:
        self.client.text_document_did_close(t.DidCloseTextDocumentParams(t.TextDocumentIdentifier(uri)))

    async def diagnostics(self, uri: str) -> list[t.Diagnostic]:
        """The diagnostics of the present version, pulled or pushed as the editor does it."""
        if self.pulls:
            asked = t.DocumentDiagnosticParams(t.TextDocumentIdentifier(uri))
            report = await asyncio.wait_for(self.client.text_document_diagnostic_async(asked), WAIT)
            assert isinstance(report, t.RelatedFullDocumentDiagnosticReport)
            return list(report.items)
        while self.published.get(uri, (0, []))[0] != self.versions[uri]:
            await self.pushed()
        return self.published[uri][1]

    async def pushed(self) -> None:
        """The next push of diagnostics, or none after a second: one may have come while nobody waited for it."""
        try:
            await asyncio.wait_for(self.client.wait_for_notification(t.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS), 1)
            self._silent = 0
        except asyncio.TimeoutError:
            # A future that was given up would make the client stumble over the next push.
            self.client.protocol._notification_futures.pop(t.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS, None)
            self._silent += 1
            assert self._silent < WAIT, "nothing is pushed any more"

    @property
    def published(self) -> dict[str, tuple[int | None, list[t.Diagnostic]]]:
        """The last push for each file: version and diagnostics."""
        pushes: dict[str, tuple[int | None, list[t.Diagnostic]]] = self.client.pushes  # type: ignore[attr-defined]
        return pushes

    async def hover(self, uri: str, line: int, character: int) -> t.Hover | None:
        params = t.HoverParams(t.TextDocumentIdentifier(uri), t.Position(line, character))
        return await asyncio.wait_for(self.client.text_document_hover_async(params), WAIT)

    async def lenses(self, uri: str) -> list[t.CodeLens]:
        params = t.CodeLensParams(t.TextDocumentIdentifier(uri))
        return list(await asyncio.wait_for(self.client.text_document_code_lens_async(params), WAIT) or [])

    async def actions(
        self, uri: str, where: t.Range, diagnostics: list[t.Diagnostic], only: list[str] | None = None
    ) -> list[t.CodeAction]:
        context = t.CodeActionContext(diagnostics, only=only)  # type: ignore[arg-type]
        params = t.CodeActionParams(t.TextDocumentIdentifier(uri), where, context)
        found = await asyncio.wait_for(self.client.text_document_code_action_async(params), WAIT)
        return [action for action in found or [] if isinstance(action, t.CodeAction)]

    async def edit_of(self, action: t.CodeAction) -> dict[str, list[t.TextEdit]]:
        """The edits of an action, resolved where they come late, by file."""
        if action.edit is None:
            action = await asyncio.wait_for(self.client.code_action_resolve_async(action), WAIT)
        assert action.edit is not None
        if action.edit.changes is not None:
            return {uri: list(edits) for uri, edits in action.edit.changes.items()}
        edits: dict[str, list[t.TextEdit]] = {}
        for change in action.edit.document_changes or []:
            assert isinstance(change, t.TextDocumentEdit)
            edits[change.text_document.uri] = [edit for edit in change.edits if isinstance(edit, t.TextEdit)]
        return edits

    async def apply(self, uri: str, action: t.CodeAction) -> None:
        """Make an action's edits in the open file, last first as editors do."""
        edits = (await self.edit_of(action))[uri]
        edits.sort(key=lambda edit: (edit.range.start.line, edit.range.start.character), reverse=True)
        changes = [t.TextDocumentContentChangePartial(range=edit.range, text=edit.new_text) for edit in edits]
        self.change(uri, *changes)

    async def run(self, uri: str, **more: Any) -> Any:
        self.asked_to_run = True
        params = t.ExecuteCommandParams("tapecheck.run", [{"uri": uri, **more}])
        return await asyncio.wait_for(self.client.workspace_execute_command_async(params), WAIT)


@asynccontextmanager
async def editor(
    params: t.InitializeParams,
    folder: Path,
    server: list[str] = FAKE,
    configuration: dict[str, Any] | None = None,
) -> AsyncIterator[Editor]:
    """A server with an editor connected to it; afterwards it must have ended well."""
    paths = os.pathsep.join([str(HERE.parents[1] / "server"), os.environ.get("PYTHONPATH", "")])
    config = ClientServerConfig(
        server_command=server,
        client_factory=make_client,
        server_env={**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"},
    )
    client = await config.start()
    client.pushes = {}
    remember = client.protocol.fm.features.get(t.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)

    def published(params: t.PublishDiagnosticsParams) -> None:
        client.pushes[params.uri] = (params.version, list(params.diagnostics))
        if remember is not None:
            remember(params)

    client.protocol.fm.features[t.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS] = published
    try:
        if configuration is not None:
            client.set_configuration(configuration, section="tapecheck")
        result = await asyncio.wait_for(client.initialize_session(params), WAIT)
        connected = Editor(client, result, folder)
        yield connected
        assert connected.asked_to_run or client.messages == [], "nothing pops up in front of the user"
        await asyncio.wait_for(client.shutdown_session(), WAIT)
        await asyncio.wait_for(client._server.wait(), WAIT)
        assert client._server.returncode == 0
    finally:
        if client._server is not None and client._server.returncode is None:
            client._server.kill()
        await client.stop()
