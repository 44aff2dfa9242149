"""What the client at the other end can do, read once from its `initialize` parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lsprotocol import types as t


@dataclass(frozen=True, slots=True)
class Client:
    """The abilities that change what the server sends; everything is off where the client says nothing."""

    pull: bool = False
    refresh_diagnostics: bool = False
    refresh_lenses: bool = False
    progress: bool = False
    configuration: bool = False
    register_configuration: bool = False
    watches_files: bool = False
    related: bool = False
    code_description: bool = False
    unnecessary: bool = False
    markdown: bool = False
    action_literals: bool = False
    action_resolve: bool = False
    document_changes: bool = False
    show_document: bool = False
    inlay_refresh: bool = False
    commands: Mapping[str, str] = field(default_factory=dict)
    """The client's own commands by what they do: confirm, explain, disable (in the workspace), report, comparison."""


def read_client(params: t.InitializeParams) -> Client:
    """Return the abilities out of the parameters of `initialize`."""
    given = params.capabilities

    def ask(path: str) -> Any:
        value: Any = given
        for name in path.split("."):
            value = getattr(value, name, None)
            if value is None:
                return None
        return value

    published = ask("text_document.publish_diagnostics")
    pulled = ask("text_document.diagnostic")
    # A client that pulls and cannot be told to pull again would not see what a recorded run found out until
    # the next edit: it gets its diagnostics pushed. Both at once would show every finding twice.
    pull = pulled is not None and bool(ask("workspace.diagnostics.refresh_support"))
    abilities = pulled if pull else published
    tags = getattr(getattr(abilities, "tag_support", None), "value_set", None) or []
    resolved = ask("text_document.code_action.resolve_support.properties") or []
    formats = ask("text_document.hover.content_format") or []
    options = params.initialization_options
    named = options.get("commands") if isinstance(options, dict) else None
    commands = {key: value for key, value in named.items() if isinstance(value, str)} if isinstance(named, dict) else {}
    if ask("general.markdown.parser") == "marked":
        # VS Code and its kin, whatever name they go by: the extension there owns the command.
        commands.setdefault("confirm", "tapecheck.confirmFile")
    return Client(
        pull=pull,
        refresh_diagnostics=bool(ask("workspace.diagnostics.refresh_support")),
        refresh_lenses=bool(ask("workspace.code_lens.refresh_support")),
        progress=bool(ask("window.work_done_progress")),
        configuration=bool(ask("workspace.configuration")),
        register_configuration=bool(ask("workspace.did_change_configuration.dynamic_registration")),
        watches_files=bool(ask("workspace.did_change_watched_files.dynamic_registration")),
        # What a client shows of pushed diagnostics it shows of pulled ones, which before 3.18 could not say so.
        related=any(getattr(one, "related_information", None) for one in (abilities, published)),
        code_description=bool(getattr(abilities, "code_description_support", None)),
        unnecessary=t.DiagnosticTag.Unnecessary in tags,
        markdown=t.MarkupKind.Markdown in formats,
        action_literals=ask("text_document.code_action.code_action_literal_support") is not None,
        action_resolve="edit" in resolved and bool(ask("text_document.code_action.data_support")),
        document_changes=bool(ask("workspace.workspace_edit.document_changes")),
        show_document=bool(ask("window.show_document.support")),
        inlay_refresh=bool(ask("workspace.inlay_hint.refresh_support")),
        commands=commands,
    )
