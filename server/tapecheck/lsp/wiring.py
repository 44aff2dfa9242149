"""Which handler answers which message: the handlers on pygls, as the client's abilities want them."""

from __future__ import annotations

import gc
import inspect
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from lsprotocol import types as t

from tapecheck.lsp import actions, commands, features, sync, workspace
from tapecheck.lsp.client import read_client
from tapecheck.lsp.connection import quietly
from tapecheck.lsp.host import Host
from tapecheck.lsp.parent import alive, until_gone
from tapecheck.lsp.places import utf
from tapecheck.lsp.settings import SECTION

if TYPE_CHECKING:
    from tapecheck.lsp.session import Session

logger = logging.getLogger(__name__)


def create_server(session: Session | None = None) -> Host:
    """Return a server with all its handlers, not yet started."""
    server = Host(session)
    server.feature(t.INITIALIZE)(initialize)
    server.feature(t.INITIALIZED)(initialized)
    server.feature(t.SHUTDOWN)(shutdown)
    server.feature(t.TEXT_DOCUMENT_DID_OPEN)(sync.did_open)
    server.feature(t.TEXT_DOCUMENT_DID_CHANGE)(sync.did_change)
    server.feature(t.TEXT_DOCUMENT_DID_SAVE)(sync.did_save)
    server.feature(t.TEXT_DOCUMENT_DID_CLOSE)(sync.did_close)
    server.feature(t.NOTEBOOK_DOCUMENT_DID_OPEN)(sync.did_open_notebook)
    server.feature(t.NOTEBOOK_DOCUMENT_DID_CHANGE)(sync.did_change_notebook)
    server.feature(t.NOTEBOOK_DOCUMENT_DID_CLOSE)(sync.did_close_notebook)
    server.feature(t.WORKSPACE_DID_CHANGE_CONFIGURATION)(did_change_configuration)
    server.feature(t.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS)(did_change_folders)
    server.feature(t.WORKSPACE_DID_CHANGE_WATCHED_FILES)(sync.did_change_files)
    server.feature(t.TEXT_DOCUMENT_HOVER)(features.hover)
    server.feature(t.TEXT_DOCUMENT_DOCUMENT_HIGHLIGHT)(features.document_highlight)
    server.feature(t.TEXT_DOCUMENT_DOCUMENT_LINK, t.DocumentLinkOptions(resolve_provider=False))(features.document_link)
    server.feature(t.TEXT_DOCUMENT_INLAY_HINT, t.InlayHintOptions(resolve_provider=False))(features.inlay_hint)
    server.feature(t.TEXT_DOCUMENT_CODE_LENS, t.CodeLensOptions(resolve_provider=False))(features.code_lens)
    server.feature(t.WINDOW_WORK_DONE_PROGRESS_CANCEL)(commands.cancel_progress)
    for name, command in commands.ALL.items():
        server.command(name)(_command(command))
    return server


def initialize(ls: Host, params: t.InitializeParams) -> None:
    ls.client = read_client(params)
    ls.__dict__.pop("converter", None)
    ls.encoding = utf(ls.workspace.position_encoding)
    # A server in a container of its own does not see the editor's process.
    if params.process_id is not None and alive(params.process_id):
        ls.spawn(_end_with(ls, params.process_id))
    options = params.initialization_options
    if isinstance(options, dict):
        # Our own extension says "settings"; people write the section's name, or its contents.
        ls.initial = ls.settings_from(options.get("settings", options.get(SECTION, options)))
        if ls.made is not None:
            ls.made.configure(ls.initial)
    if ls.client.pull:
        ls.feature(
            t.TEXT_DOCUMENT_DIAGNOSTIC,
            t.DiagnosticOptions(inter_file_dependencies=True, workspace_diagnostics=True, identifier=SECTION),
        )(features.diagnostic)
        ls.feature(t.WORKSPACE_DIAGNOSTIC)(workspace.workspace_diagnostic)
    if ls.client.action_literals:
        options_for = t.CodeActionOptions(code_action_kinds=actions.KINDS, resolve_provider=ls.client.action_resolve)
        ls.feature(t.TEXT_DOCUMENT_CODE_ACTION, options_for)(actions.code_action)
        if ls.client.action_resolve:
            ls.feature(t.CODE_ACTION_RESOLVE)(actions.resolve_action)


async def _end_with(ls: Host, editor: int) -> None:
    await until_gone(editor)
    logger.warning("the editor, process %d, is gone", editor)
    ls.hang_up()


async def initialized(ls: Host, params: t.InitializedParams) -> None:
    ls.analysing.submit(_preload)
    ls.fixing.submit(_preload_fixes)
    wanted: list[t.Registration] = []
    if ls.client.register_configuration:
        section = t.DidChangeConfigurationRegistrationOptions(section=SECTION)
        wanted.append(t.Registration("tapecheck-configuration", t.WORKSPACE_DID_CHANGE_CONFIGURATION, section))
    if ls.client.watches_files:
        names = ("*.py", "*.ipynb", "pyproject.toml", "tapecheck.toml")
        patterns = [t.FileSystemWatcher(f"**/{name}") for name in names]
        watchers = t.DidChangeWatchedFilesRegistrationOptions(patterns)
        wanted.append(t.Registration("tapecheck-files", t.WORKSPACE_DID_CHANGE_WATCHED_FILES, watchers))
    if wanted:
        await quietly(ls.client_register_capability_async(t.RegistrationParams(wanted)))
    if ls.client.configuration:
        await ls.read_settings()


def shutdown(ls: Host, params: None) -> None:
    ls.asked_to_stop = True
    if ls.made is not None:
        ls.made.closing = True


async def did_change_configuration(ls: Host, params: t.DidChangeConfigurationParams) -> None:
    if ls.client.configuration:
        await ls.read_settings()
    elif isinstance(params.settings, dict):
        ls.configure(ls.given(params.settings.get(SECTION, params.settings)))


async def did_change_folders(ls: Host, params: t.DidChangeWorkspaceFoldersParams) -> None:
    if ls.client.configuration:
        await ls.read_settings()


def _preload() -> None:
    """Import what the first analysis needs, and read the facts about torch."""
    try:
        from tapecheck.lsp import convert, session
        from tapecheck.torchfacts import load

        logger.debug("loaded %s and %s", session.__name__, convert.__name__)
        load()
        gc.freeze()
    except Exception:
        # The first analysis meets the same, and its user is told.
        logger.warning("could not load the analysis", exc_info=True)


def _preload_fixes() -> None:
    """Import what the first quick fixes need."""
    try:
        from tapecheck.fixes import verify
        from tapecheck.fixes.proposed import strategies_of
        from tapecheck.rules import ALL

        number = sum(len(strategies_of(rule.code)) for rule in ALL)
        logger.debug("loaded %s and %d strategies", verify.__name__, number)
    except Exception:
        logger.warning("could not load the fixes", exc_info=True)


def _command(handler: Callable[..., Any]) -> Callable[..., Any]:
    """Return a handler as pygls takes it: it looks up the types of the parameters where the function was made."""

    async def called(ls: Host, *arguments: Any) -> Any:
        answer = handler(ls, *arguments)
        return await answer if inspect.isawaitable(answer) else answer

    return called
