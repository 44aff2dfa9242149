"""The protocol, with the real `initialize` parameters of editors, over a judge made for these tests."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from lsprotocol import types as t
from pygls.exceptions import JsonRpcException

from tapecheck.lsp.client import read_client
from tests.lsp.harness import CAPTURES, FAKE, REAL, WAIT, Editor, captured, editor

pytestmark = pytest.mark.asyncio(loop_scope="module")

TWICE = "loss.backward()\nloss.backward()\n"


def at(line: int, start: int, end: int) -> t.Range:
    return t.Range(t.Position(line, start), t.Position(line, end))


# A server starts in about a second: those who do not change it share one.
@pytest_asyncio.fixture(scope="module", loop_scope="module", params=CAPTURES)
async def any_editor(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Editor]:
    folder = tmp_path_factory.mktemp("editor")
    async with editor(captured(request.param, folder), folder) as connected:
        connected.name = request.param
        yield connected


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pushing(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Editor]:
    folder = tmp_path_factory.mktemp("pushing")
    async with editor(captured("neovim-0.7.2", folder), folder) as connected:
        yield connected


async def test_diagnostics_appear_and_follow_the_typing(any_editor: Editor) -> None:
    uri = any_editor.open("train.py", "loss.backward()\n")
    assert await any_editor.diagnostics(uri) == []
    for column, character in enumerate("loss.backward()"):
        any_editor.type(uri, 1, column, character)
    found = await any_editor.diagnostics(uri)
    assert [(one.code, one.range, one.source) for one in found] == [("TAPE101", at(1, 5, 15), "tapecheck")]
    assert found[0].severity == t.DiagnosticSeverity.Error
    assert found[0].message.startswith("this graph was freed\nhelp: sum the losses")
    any_editor.type(uri, 0, 0, "\n\n")
    assert [one.range for one in await any_editor.diagnostics(uri)] == [at(3, 5, 15)]
    any_editor.type(uri, 3, 0, "", replacing=15)
    assert await any_editor.diagnostics(uri) == []


async def test_the_other_lines_reach_every_editor(any_editor: Editor) -> None:
    uri = any_editor.open("train.py", TWICE)
    (found,) = await any_editor.diagnostics(uri)
    if any_editor.name.startswith(("eglot", "helix")):
        assert found.related_information is None
        assert found.message.endswith("\nline 1: freed here")
    else:
        assert found.related_information is not None
        (related,) = found.related_information
        assert (related.message, related.location.uri) == ("freed here", uri)
        assert related.location.range == at(0, 5, 15)


async def test_code_links_only_where_the_editor_shows_them(any_editor: Editor) -> None:
    uri = any_editor.open("train.py", TWICE)
    (found,) = await any_editor.diagnostics(uri)
    if any_editor.name.startswith("vscode"):
        assert found.code_description is not None
        assert found.code_description.href.endswith("/tape101-backward-twice/")
    else:
        assert found.code_description is None


async def test_an_unnecessary_argument_is_all_that_is_greyed_out(any_editor: Editor) -> None:
    uri = any_editor.open("train.py", "loss.backward(retain_graph=True)\n")
    (found,) = await any_editor.diagnostics(uri)
    assert list(found.tags or []) == [t.DiagnosticTag.Unnecessary]
    assert found.range == at(0, 14, 31)
    assert found.severity == t.DiagnosticSeverity.Information


async def test_pull_and_push_exclude_each_other(any_editor: Editor) -> None:
    uri = any_editor.open("train.py", TWICE)
    await any_editor.diagnostics(uri)
    await asyncio.sleep(0.1)
    assert any_editor.pulls == any_editor.name.startswith("vscode")
    assert (uri in any_editor.published) != any_editor.pulls


async def test_a_second_pull_of_the_same_text_is_unchanged(tmp_path: Path) -> None:
    async with editor(captured("vscode-1.139.1", tmp_path), tmp_path) as connected:
        uri = connected.open("train.py", TWICE)
        asked = t.DocumentDiagnosticParams(t.TextDocumentIdentifier(uri))
        first = await connected.client.text_document_diagnostic_async(asked)
        asked.previous_result_id = first.result_id
        second = await connected.client.text_document_diagnostic_async(asked)
        assert (second.kind, second.result_id) == ("unchanged", first.result_id)
        connected.type(uri, 1, 0, " ")
        third = await connected.client.text_document_diagnostic_async(asked)
        assert (third.kind, third.items[0].range) == ("full", at(1, 6, 16))


async def test_a_quick_fix_is_offered_and_applies(any_editor: Editor) -> None:
    uri = any_editor.open("train.py", "x = '🎉'; loss.backward(retain_graph=True)\n")
    found = await any_editor.diagnostics(uri)
    actions = await any_editor.actions(uri, found[0].range, found)
    assert [(one.title, one.is_preferred) for one in actions] == [
        ("Remove retain_graph=True", True),
        ("Comment the call out (changes training)", None),
        ("Confirm fix by running: Remove retain_graph=True", None),
        ("Confirm by running this file", None),
        ("Explain TAPE301 (needless-retain-graph)", None),
        ("Disable TAPE301 for this line", None),
        ("Disable TAPE301 in this file", None),
    ]
    lazily = not any_editor.name.startswith("eglot")
    assert [one.edit is None for one in actions] == [lazily, lazily, True, True, True, lazily, lazily]
    assert [one.command is None for one in actions] == [True, True, False, False, False, True, True]
    assert all(list(one.diagnostics or []) == found for one in actions)
    await any_editor.apply(uri, actions[0])
    assert await any_editor.diagnostics(uri) == []


async def test_a_fix_that_changes_training_is_not_what_enter_takes(any_editor: Editor) -> None:
    uri = any_editor.open("unsafe.py", "loss.backward(retain_graph=True)  # unsafe\n")
    found = await any_editor.diagnostics(uri)
    actions = await any_editor.actions(uri, found[0].range, found)
    assert [one.title for one in actions[:3]] == [
        "Explain TAPE301 (needless-retain-graph)",
        "Comment the call out (changes training)",
        "Confirm fix by running: Comment the call out",
    ]
    assert not any(one.is_preferred for one in actions)


async def test_rules_in_comments_link_to_their_pages(any_editor: Editor) -> None:
    text = "x = '🎉'  # tapecheck: ignore[TAPE301, growing-chain, TAPE1]\ny = '# tapecheck: ignore[TAPE101]'\n"
    uri = any_editor.open("links.py", text)
    asked = t.DocumentLinkParams(t.TextDocumentIdentifier(uri))
    links = await any_editor.client.text_document_document_link_async(asked) or []
    pages = [(link.target or "").removesuffix("/").rpartition("/")[2] for link in links]
    assert pages == ["tape301-needless-retain-graph", "tape202-growing-chain"]
    wide = 1 if any_editor.result.capabilities.position_encoding == t.PositionEncodingKind.Utf8 else 0
    utf16 = any_editor.result.capabilities.position_encoding in (None, t.PositionEncodingKind.Utf16)
    first = text.index("TAPE301") + (1 if utf16 else 3 * wide)
    assert links[0].range == at(0, first, first + len("TAPE301"))


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("line", "x = 1\nloss.backward(retain_graph=True)  # tapecheck: ignore[TAPE301]\n"),
        ("file", "# tapecheck: ignore-file[TAPE301]\nx = 1\nloss.backward(retain_graph=True)\n"),
    ],
)
async def test_a_rule_is_disabled_where_the_user_says(any_editor: Editor, where: str, expected: str) -> None:
    text = "x = 1\nloss.backward(retain_graph=True)\n"
    uri = any_editor.open("train.py", text)
    found = await any_editor.diagnostics(uri)
    actions = await any_editor.actions(uri, found[0].range, found)
    action = next(one for one in actions if one.title.startswith("Disable") and where in one.title)
    (edit,) = (await any_editor.edit_of(action))[uri]
    lines = text.splitlines(keepends=True)
    row = edit.range.start.line
    assert edit.range.start == edit.range.end
    lines[row] = lines[row][: edit.range.start.character] + edit.new_text + lines[row][edit.range.start.character :]
    assert "".join(lines) == expected


async def test_the_commands_of_the_client_are_used_where_it_has_them(tmp_path: Path) -> None:
    params = captured("vscode-1.139.1", tmp_path)
    own = {"confirm": "own.confirm", "explain": "own.explain", "disable": "own.disable"}
    params.initialization_options = {"settings": {}, "commands": own}
    async with editor(params, tmp_path) as connected:
        uri = connected.open("train.py", TWICE)
        found = await connected.diagnostics(uri)
        actions = await connected.actions(uri, found[0].range, found)
        called = {one.command.command: list(one.command.arguments or []) for one in actions if one.command is not None}
        assert called == {
            "own.confirm": [{"uri": uri}],
            "own.explain": [{"code": "TAPE101"}],
            "own.disable": [{"code": "TAPE101", "uri": uri}],
        }


async def test_a_confirmed_finding_offers_no_further_run(pushing: Editor) -> None:
    uri = saved(pushing, "again.py", TWICE)
    await pushing.diagnostics(uri)
    await pushing.run(uri)
    found = await shown_after_a_run(pushing, uri)
    titles = [one.title for one in await pushing.actions(uri, found[0].range, found)]
    assert not any(title.startswith("Confirm") for title in titles)


async def test_a_rule_is_explained(any_editor: Editor) -> None:
    params = t.ExecuteCommandParams("tapecheck.explainRule", [{"code": "TAPE101"}])
    answer = await any_editor.client.workspace_execute_command_async(params)
    assert answer["markdown"].startswith("# backward-twice (TAPE101)")
    assert answer["url"].endswith("/tape101-backward-twice/")
    window = any_editor.client.capabilities.window
    shows = window is not None and window.show_document is not None and window.show_document.support
    any_editor.asked_to_run = True
    said = [message.message for message in any_editor.client.messages]
    assert len(said) == (not shows) and all("the page of TAPE101 is " in one for one in said)
    any_editor.client.messages.clear()
    params = t.ExecuteCommandParams("tapecheck.explainRule", ["TAPE999"])
    assert await any_editor.client.workspace_execute_command_async(params) is None


async def test_a_command_without_its_arguments_says_so(any_editor: Editor) -> None:
    any_editor.asked_to_run = True
    for name in ("run", "tryFix", "applyFix", "fixFile"):
        await any_editor.client.workspace_execute_command_async(t.ExecuteCommandParams(f"tapecheck.{name}", []))
        assert f"tapecheck.{name} needs the uri" in any_editor.client.messages.pop().message


async def test_no_quick_fix_away_from_the_finding(any_editor: Editor) -> None:
    uri = any_editor.open("train.py", "x = 1\n\nloss.backward(retain_graph=True)\n")
    await any_editor.diagnostics(uri)
    assert await any_editor.actions(uri, at(0, 0, 1), []) == []
    assert await any_editor.actions(uri, at(2, 20, 20), [], only=["refactor"]) == []


async def test_fix_all_makes_every_safe_fix_and_no_other(any_editor: Editor) -> None:
    text = "a.backward(retain_graph=True)\r\n# between\r\nb.f(retain_graph=True)\r\n"
    uri = any_editor.open("train.py", text)
    found = await any_editor.diagnostics(uri)
    assert len(found) == 2
    (action,) = await any_editor.actions(uri, at(0, 0, 0), [], only=["source.fixAll"])
    assert action.kind == "source.fixAll.tapecheck"
    edits = (await any_editor.edit_of(action))[uri]
    assert [(edit.range, edit.new_text) for edit in edits] == [(at(0, 11, 28), ""), (at(2, 4, 21), "")]
    await any_editor.apply(uri, action)
    assert await any_editor.diagnostics(uri) == []
    assert await any_editor.actions(uri, at(0, 0, 0), [], only=["source.fixAll"]) == []


async def test_an_action_is_not_resolved_into_edits_of_another_text(tmp_path: Path) -> None:
    async with editor(captured("vscode-1.139.1", tmp_path), tmp_path) as connected:
        uri = connected.open("train.py", "loss.backward(retain_graph=True)\n")
        actions = await connected.actions(uri, at(0, 15, 15), [])
        connected.type(uri, 0, 0, "if a: ")
        resolved = await connected.client.code_action_resolve_async(actions[0])
        assert resolved.edit is None


@pytest.mark.parametrize(
    ("offered", "agreed", "column"),
    [
        (["utf-16"], "utf-16", 16),
        (["utf-8", "utf-16"], "utf-8", 18),
        (["utf-32", "utf-16"], "utf-32", 15),
        (None, "utf-16", 16),
    ],
)
async def test_columns_are_counted_as_agreed(
    tmp_path: Path, offered: list[str] | None, agreed: str, column: int
) -> None:
    params = captured("neovim-0.7.2", tmp_path)
    params.capabilities.general = t.GeneralClientCapabilities(position_encodings=offered)
    async with editor(params, tmp_path) as connected:
        assert connected.result.capabilities.position_encoding == agreed
        uri = connected.open("train.py", "loss.backward()\ns = '🎉'; loss.backward()\n")
        (found,) = await connected.diagnostics(uri)
        assert found.range == at(1, column - 1, column + 9)
        assert found.related_information is not None
        # An edit behind the emoji lands where the client meant it.
        connected.type(uri, 1, column - 1, "", replacing=len("backward"))
        assert await connected.diagnostics(uri) == []


@pytest.mark.parametrize("odd", ["\x0c", "\x0b", "\x1c", "\x85", "\u2028", "\u2029"])
async def test_lines_end_where_the_protocol_says(pushing: Editor, odd: str) -> None:
    uri = pushing.open("train.py", f"loss.backward()\n# {odd}page\nloss.backward()\n")
    assert [one.range for one in await pushing.diagnostics(uri)] == [at(2, 5, 15)]
    pushing.type(uri, 2, 5, "forward", replacing=8)
    assert await pushing.diagnostics(uri) == []
    pushing.type(uri, 2, 5, "backward", replacing=7)
    assert [one.range for one in await pushing.diagnostics(uri)] == [at(2, 5, 15)]


async def test_a_crash_of_the_analysis_is_logged_once_and_survived(pushing: Editor) -> None:
    uri = pushing.open("train.py", TWICE)
    assert len(await pushing.diagnostics(uri)) == 1
    pushing.type(uri, 2, 0, "# crash")
    await pushing.client.wait_for_notification(t.WINDOW_LOG_MESSAGE)
    (logged,) = [one.message for one in pushing.client.log_messages if "could not analyse" in one.message]
    assert logged.endswith("train.py: KeyError: 'made to crash'") and "\n" not in logged
    assert len(pushing.published[uri][1]) == 1, "what was known stays"
    assert await pushing.hover(uri, 0, 6) is None
    assert await pushing.lenses(uri) == []
    assert len([one for one in pushing.client.log_messages if "could not analyse" in one.message]) == 1
    pushing.type(uri, 2, 0, "", replacing=7)
    assert len(await pushing.diagnostics(uri)) == 1


async def test_a_notification_that_is_none_is_logged_and_never_pops_up(pushing: Editor) -> None:
    before = len(pushing.client.messages)
    nonsense = b'{"jsonrpc": "2.0", "method": "textDocument/didOpen", "params": {"textDocument": 3}}'
    pushing.client.protocol.writer.write(b"Content-Length: %d\r\n\r\n%b" % (len(nonsense), nonsense))
    await pushing.client.wait_for_notification(t.WINDOW_LOG_MESSAGE)
    assert pushing.client.log_messages[-1].message.startswith("ignored a message: textDocument/didOpen: ")
    uri = pushing.open("train.py", TWICE)
    assert len(await pushing.diagnostics(uri)) == 1
    assert len(pushing.client.messages) == before


async def test_the_next_edit_cancels_an_analysis(pushing: Editor) -> None:
    # These end only when they are cancelled, and one thread analyses: the last text waits for all of them.
    uri = pushing.open("train.py", "# endless\n")
    await asyncio.sleep(0.2)
    for version in range(5):
        pushing.change(uri, t.TextDocumentContentChangeWholeDocument(text=f"# endless {version}\n"))
        await asyncio.sleep(0.03)
    pushing.change(uri, t.TextDocumentContentChangeWholeDocument(text=TWICE))
    assert len(await pushing.diagnostics(uri)) == 1
    assert not [one for one in pushing.client.log_messages if one.message.endswith("cancelled")]


async def test_a_cancelled_pull_leaves_the_server_reading(tmp_path: Path) -> None:
    async with editor(captured("vscode-1.139.1", tmp_path), tmp_path) as connected:
        uri = connected.open("train.py", "# endless\n" + TWICE)
        asked = t.DocumentDiagnosticParams(t.TextDocumentIdentifier(uri))
        pending = connected.client.protocol.send_request(t.TEXT_DOCUMENT_DIAGNOSTIC, asked, msg_id="77")
        await asyncio.sleep(0.1)
        connected.client.cancel_request(t.CancelParams(id="77"))
        with pytest.raises(Exception, match="cancel"):
            await asyncio.wait_for(asyncio.wrap_future(pending), WAIT)
        other = connected.open("other.py", TWICE)
        connected.type(uri, 0, 0, "", replacing=len("# endless"))
        assert len(await connected.diagnostics(uri)) == 1
        assert len(await connected.diagnostics(other)) == 1


async def test_closing_a_file_takes_its_findings_away(pushing: Editor) -> None:
    uri = pushing.open("train.py", TWICE)
    await pushing.diagnostics(uri)
    pushing.close(uri)
    await pushing.client.wait_for_notification(t.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
    assert pushing.published[uri] == (None, [])
    pushing.type(uri, 0, 0, "x")
    again = pushing.open("train.py", TWICE)
    assert len(await pushing.diagnostics(again)) == 1


async def test_other_languages_are_left_alone(pushing: Editor) -> None:
    uri = pushing.open("notes.txt", TWICE, language="plaintext")
    assert await pushing.diagnostics(uri) == []


async def test_settings_at_start_and_later(tmp_path: Path) -> None:
    params = captured("neovim-0.7.2", tmp_path, {"severity": {"TAPE101": "warning"}})
    async with editor(params, tmp_path) as connected:
        uri = connected.open("train.py", TWICE + "loss.f(retain_graph=True)\n")
        found = await connected.diagnostics(uri)
        assert [(one.code, one.severity) for one in found] == [
            ("TAPE101", t.DiagnosticSeverity.Warning),
            ("TAPE301", t.DiagnosticSeverity.Information),
        ]
        changed = t.DidChangeConfigurationParams({"tapecheck": {"ignore": ["TAPE301"]}})
        connected.client.workspace_did_change_configuration(changed)
        await connected.client.wait_for_notification(t.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
        (only,) = connected.published[uri][1]
        assert (only.code, only.severity) == ("TAPE101", t.DiagnosticSeverity.Error)
        changed = t.DidChangeConfigurationParams({"tapecheck": {"enable": False}})
        connected.client.workspace_did_change_configuration(changed)
        await connected.client.wait_for_notification(t.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
        assert connected.published[uri][1] == []


@pytest.mark.parametrize("wrapped", ["settings", "tapecheck", None])
async def test_settings_at_start_in_any_wrapping(tmp_path: Path, wrapped: str | None) -> None:
    params = captured("neovim-0.7.2", tmp_path)
    ignore = {"ignore": ["TAPE101"]}
    params.initialization_options = ignore if wrapped is None else {wrapped: ignore}
    async with editor(params, tmp_path) as connected:
        assert await connected.diagnostics(connected.open("train.py", TWICE)) == []


async def test_settings_the_editor_is_asked_for(tmp_path: Path) -> None:
    params = captured("neovim-0.11.4", tmp_path)
    asked = {"select": ["TAPE301"], "run": {"timeout": "soon"}}
    async with editor(params, tmp_path, configuration=asked) as connected:
        await connected.client.wait_for_notification(t.WINDOW_LOG_MESSAGE)
        problem = "tapecheck.run.timeout must be a positive number, not 'soon'"
        assert connected.client.log_messages[0].message == problem
        uri = connected.open("train.py", TWICE + "loss.f(retain_graph=True)\n")
        assert [one.code for one in await connected.diagnostics(uri)] == ["TAPE301"]
        connected.client.set_configuration(asked | {"ignore": ["TAPE301"]}, section="tapecheck")
        connected.client.workspace_did_change_configuration(t.DidChangeConfigurationParams(None))
        while await connected.diagnostics(uri):
            await asyncio.sleep(0.01)
        assert [one.message for one in connected.client.messages] == [f"Tapecheck: {problem}"], "said once"
        connected.client.messages.clear()


async def test_what_is_wrong_in_pyproject_is_told_once(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.tapecheck]\nignore = 3\n")
    async with editor(captured("vscode-1.139.1", tmp_path), tmp_path) as connected:
        uri = connected.open("train.py", TWICE)
        assert len(await connected.diagnostics(uri)) == 1, "what cannot be ignored is reported"
        connected.type(uri, 0, 0, "\n")
        assert len(await connected.diagnostics(uri)) == 1
        (told,) = [one.message for one in connected.client.messages]
        assert told.startswith("Tapecheck: ") and "pyproject.toml" in told and "ignore" in told, told
        connected.client.messages.clear()


async def test_vscode_is_asked_to_tell_of_changed_settings(tmp_path: Path) -> None:
    async with editor(captured("vscode-1.139.1", tmp_path), tmp_path) as connected:
        uri = connected.open("train.py", TWICE)
        await connected.diagnostics(uri)
        assert [one.method for one in connected.client.registrations] == [
            t.WORKSPACE_DID_CHANGE_CONFIGURATION,
            t.WORKSPACE_DID_CHANGE_WATCHED_FILES,
        ]
        connected.client.set_configuration({"ignore": ["TAPE1", "TAPE101"]}, section="tapecheck")
        connected.client.workspace_did_change_configuration(t.DidChangeConfigurationParams(None))
        await asyncio.wait_for(_refreshed(connected), WAIT)
        assert await connected.diagnostics(uri) == []


async def _refreshed(connected: Editor) -> None:
    while not connected.client.diagnostic_refresh_count:
        await asyncio.sleep(0.01)


def saved(connected: Editor, name: str, text: str) -> str:
    """A file on disk, open in the editor."""
    (connected.folder / name).write_text(text, encoding="utf-8")
    return connected.open(name, text)


async def test_a_run_confirms_and_refutes_what_is_shown(any_editor: Editor) -> None:
    uri = saved(any_editor, "confirm.py", TWICE + "loss.f(retain_graph=True)\n")
    assert len(await any_editor.diagnostics(uri)) == 2
    logged = len(any_editor.client.log_messages)
    answer = await any_editor.run(uri)
    assert answer == {
        "exit": 1,
        "confirmed": 1,
        "refuted": 1,
        "notReached": 0,
        "found": 0,
        "backwards": 0,
        "summary": "confirm.py: 1 confirmed, 1 refuted",
        "next": "",
    }
    told = [one.message for one in any_editor.client.messages][-1:]
    assert told == ([] if any_editor.name.startswith("vscode") else [f"Tapecheck: {answer['summary']}."])
    twice, needless = await shown_after_a_run(any_editor, uri)
    assert re.match(r"this graph was freed — confirmed: raised in iteration 2, \d\d:\d\d\n", twice.message)
    assert twice.severity == t.DiagnosticSeverity.Error
    assert re.match(r"nothing needs the graph again — refuted by the run at \d\d:\d\d\n", needless.message)
    assert needless.severity == t.DiagnosticSeverity.Hint
    lines = [one.message for one in any_editor.client.log_messages[logged:]]
    assert lines[0].startswith("running ") and lines[-1] == answer["summary"]
    assert lines[1:-1] == ["confirm.py: epoch 1", "confirm.py: 100%", "confirm.py: last words"]


async def shown_after_a_run(connected: Editor, uri: str) -> list[t.Diagnostic]:
    if connected.pulls:
        await asyncio.wait_for(_refreshed(connected), WAIT)
        return await connected.diagnostics(uri)
    while "\nrun: " not in connected.published[uri][1][-1].message:
        await connected.pushed()
    return connected.published[uri][1]


async def test_a_run_shows_progress_where_the_editor_can(any_editor: Editor) -> None:
    uri = saved(any_editor, "progress.py", TWICE)
    any_editor.client.progress_reports.clear()
    await any_editor.run(uri)
    if any_editor.name.startswith("eglot"):
        assert not any_editor.client.progress_reports
        return
    ((_, reports),) = any_editor.client.progress_reports.items()
    assert [one.kind for one in reports] == ["begin", "report", "end"]
    begin, report, end = reports
    assert (begin.title, begin.cancellable) == ("Tapecheck: running progress.py", True)
    assert (report.message, end.message) == ("iteration 1, 0 s", "progress.py: 1 confirmed")


# pytest-lsp knows no tokens but the server's.
@pytest.mark.filterwarnings("ignore:Unknown progress token")
@pytest.mark.parametrize("given", ["a token of the client's", None])
async def test_a_run_is_stopped_by_its_progress(tmp_path: Path, given: str | None) -> None:
    async with editor(captured("vscode-1.139.1", tmp_path), tmp_path) as connected:
        uri = saved(connected, "forever.py", "# forever\n" + TWICE)
        more = {} if given is None else {"token": given}
        running = asyncio.ensure_future(connected.run(uri, **more))
        while not any(connected.client.progress_reports.values()):
            await asyncio.sleep(0.01)
        (token,) = connected.client.progress_reports
        assert given in (None, token)
        again = await connected.run(uri)
        assert (again["exit"], again["summary"]) == (2, "forever.py is already running")
        # The editor goes on while the program runs.
        assert len(await connected.diagnostics(uri)) == 1
        connected.client.window_work_done_progress_cancel(t.WorkDoneProgressCancelParams(token=token))
        answer = await asyncio.wait_for(running, WAIT)
        assert (answer["exit"], answer["summary"]) == (3, "forever.py: cancelled before the first iteration")
        assert connected.client.progress_reports[token][-1].kind == "end"


async def test_progress_and_log_say_what_runs_the_program(tmp_path: Path) -> None:
    async with editor(captured("vscode-1.139.1", tmp_path), tmp_path, [*FAKE, "--about"]) as connected:
        uri = saved(connected, "forever.py", "# forever\n" + TWICE)
        running = asyncio.ensure_future(connected.run(uri))
        what = "Python 3.0, torch 0.1, an abacus"
        while not any(
            str(getattr(one, "message", "")).endswith(f" · {what}")
            for reports in connected.client.progress_reports.values()
            for one in reports
        ):
            await asyncio.sleep(0.01)
        (token,) = connected.client.progress_reports
        connected.client.window_work_done_progress_cancel(t.WorkDoneProgressCancelParams(token=token))
        await asyncio.wait_for(running, WAIT)
        logged = [one.message for one in connected.client.log_messages]
        assert f"forever.py is run by {what}" in logged
        assert any(line.startswith("running ") and line.endswith(f"forever.py in {tmp_path}") for line in logged)


async def tried(connected: Editor, uri: str, finding: list[object], **more: object) -> dict[str, object]:
    connected.asked_to_run = True
    params = t.ExecuteCommandParams("tapecheck.tryFix", [{"uri": uri, "finding": finding, **more}])
    answer: dict[str, object] = await connected.client.workspace_execute_command_async(params)
    return answer


async def test_a_fix_is_tried_and_the_finding_says_what_came_of_it(any_editor: Editor) -> None:
    uri = saved(any_editor, "try_fix.py", "loss.backward(retain_graph=True)\n")
    found = await any_editor.diagnostics(uri)
    actions = await any_editor.actions(uri, found[0].range, found)
    (command,) = [one.command for one in actions if one.title.startswith("Confirm fix by running")]
    assert command is not None and command.command == "tapecheck.tryFix"
    ((asked,),) = [command.arguments or []]
    answer = await tried(any_editor, uri, asked["finding"])
    assert (answer["ok"], answer["helped"]) == (True, True)
    assert str(answer["summary"]).startswith("Remove retain_graph=True: needless-retain-graph no longer happens")
    markdown = str(answer["markdown"])
    assert "| rules broken | needless-retain-graph | none |" in markdown
    assert "-loss.backward(retain_graph=True)\n+loss.backward()" in markdown
    await asyncio.sleep(0.1)
    if any_editor.pulls:
        (shown,) = await any_editor.diagnostics(uri)
    else:
        while "fix tried" not in any_editor.published[uri][1][-1].message:
            await any_editor.pushed()
        (shown,) = any_editor.published[uri][1]
    assert re.search(r"\nfix tried at \d\d:\d\d: needless-retain-graph no longer happens", shown.message)
    any_editor.type(uri, 0, 0, "y = 1\n")
    (shown,) = await any_editor.diagnostics(uri)
    assert re.search(r"\nfix tried at \d\d:\d\d \(before the last edits\): ", shown.message)


@pytest.mark.parametrize(
    ("folders", "where"),
    [((), "in your settings"), (("",), "in the workspace"), (("", "two", "two/inner"), "in the folder inner")],
)
async def test_a_rule_is_disabled_where_it_says(tmp_path: Path, folders: tuple[str, ...], where: str) -> None:
    params = captured("vscode-1.139.1", tmp_path)
    params.initialization_options = {"commands": {"disable": "own.disable"}}
    params.workspace_folders = [
        t.WorkspaceFolder((tmp_path / name).as_uri(), Path(name).name or "root") for name in folders
    ]
    async with editor(params, tmp_path) as connected:
        uri = connected.open("two/inner/train.py", TWICE)
        (found,) = await connected.diagnostics(uri)
        titles = [one.title for one in await connected.actions(uri, found.range, [found])]
        assert [title for title in titles if title.endswith(where)] == [f"Disable TAPE101 {where}"]


async def test_what_trying_a_fix_showed_is_shown_again(any_editor: Editor) -> None:
    uri = saved(any_editor, "compare_fix.py", "loss.backward(retain_graph=True)\n")
    await any_editor.diagnostics(uri)

    async def shown(**more: object) -> dict[str, object] | None:
        asked = t.ExecuteCommandParams("tapecheck.comparison", [{"uri": uri, **more}])
        answer: dict[str, object] | None = await any_editor.client.workspace_execute_command_async(asked)
        return answer

    async def offered(line: int) -> list[t.Command]:
        actions = await any_editor.actions(uri, at(line, 15, 15), [])
        return [action.command for action in actions if action.command and "comparison" in action.command.title]

    assert await shown() is None and await offered(0) == []
    await tried(any_editor, uri, ["TAPE301", 1, 1])
    any_editor.type(uri, 0, 0, "y = 1\n")
    (command,) = await offered(1)
    assert re.fullmatch(r"Show the comparison of the fix tried at \d\d:\d\d", command.title)
    assert command.command == "tapecheck.comparison"
    assert list(command.arguments or []) == [{"uri": uri, "finding": ["TAPE301", 1, 1]}]
    again = await shown(finding=["TAPE301", 1, 1])
    assert again is not None and again == await shown() and again["finding"] == ["TAPE301", 1, 1]
    assert "-loss.backward(retain_graph=True)\n+loss.backward()" in str(again["markdown"])
    assert await shown(finding=["TAPE101", 1, 1]) is None


async def test_a_fix_that_was_tried_is_applied_where_its_finding_stands_by_now(any_editor: Editor) -> None:
    uri = saved(any_editor, "apply_fix.py", "loss.backward(retain_graph=True)\n")
    await any_editor.diagnostics(uri)
    applied: list[t.WorkspaceEdit] = []

    @any_editor.client.feature(t.WORKSPACE_APPLY_EDIT)
    def _(params: t.ApplyWorkspaceEditParams) -> t.ApplyWorkspaceEditResult:
        applied.append(params.edit)
        return t.ApplyWorkspaceEditResult(applied=True)

    async def apply() -> tuple[bool, str]:
        asked = t.ExecuteCommandParams("tapecheck.applyFix", [{"uri": uri, "finding": ["TAPE301", 1, 1]}])
        answer = await any_editor.client.workspace_execute_command_async(asked)
        return bool(answer["ok"]), str(answer["summary"])

    assert await apply() == (False, "the finding is not in the file any more"), "no fix was tried yet"
    await tried(any_editor, uri, ["TAPE301", 1, 1])
    any_editor.type(uri, 0, 0, "y = 1\n")
    assert await apply() == (True, "Remove retain_graph=True")
    (edit,) = applied
    changes = edit.changes or {
        change.text_document.uri: change.edits
        for change in edit.document_changes or ()
        if isinstance(change, t.TextDocumentEdit)
    }
    ((place, (made,)),) = changes.items()
    assert (place, made.range.start.line) == (uri, 1)
    any_editor.type(uri, 1, 0, "# ")
    assert await apply() == (False, "the finding is not in the file any more")


async def test_all_safe_fixes_are_made_by_a_command_that_says_where_there_are_none(tmp_path: Path) -> None:
    async with editor(captured("vscode-1.139.1", tmp_path), tmp_path) as connected:
        applied: list[t.WorkspaceEdit] = []

        @connected.client.feature(t.WORKSPACE_APPLY_EDIT)
        def _(params: t.ApplyWorkspaceEditParams) -> t.ApplyWorkspaceEditResult:
            applied.append(params.edit)
            return t.ApplyWorkspaceEditResult(applied=True)

        async def fix(uri: object) -> tuple[bool, list[str]]:
            asked = t.ExecuteCommandParams("tapecheck.fixFile", [{"uri": uri}])
            answer = await asyncio.wait_for(connected.client.workspace_execute_command_async(asked), WAIT)
            told = [one.message for one in connected.client.messages]
            connected.client.messages.clear()
            return bool(answer["ok"]), told

        uri = connected.open("train.py", "a.backward(retain_graph=True)\n")
        assert await fix(uri) == (True, [])
        assert len(applied) == 1
        connected.change(uri, t.TextDocumentContentChangeWholeDocument("a.backward()\n"))
        assert await fix(uri) == (False, ["Tapecheck: train.py has no findings."])
        uri = connected.open("twice.py", TWICE)
        said = "nothing was fixed in twice.py: no finding has a fix: the help of each says what to do"
        assert await fix(uri) == (False, [f"Tapecheck: {said}."])
        gone = "gone.py is not analysed, or was edited meanwhile"
        assert await fix(connected.uri("gone.py")) == (False, [f"Tapecheck: {gone}."])
        needs = "tapecheck.fixFile needs the uri of a file; take a code action instead"
        assert await fix(3) == (False, [f"Tapecheck: {needs}."])
        assert len(applied) == 1


@pytest.mark.filterwarnings("ignore:Unknown progress token")
async def test_trying_a_fix_is_stopped_by_its_progress(tmp_path: Path) -> None:
    async with editor(captured("vscode-1.139.1", tmp_path), tmp_path) as connected:
        uri = saved(connected, "try_forever.py", "# forever\nloss.backward(retain_graph=True)\n")
        running = asyncio.ensure_future(tried(connected, uri, ["TAPE301", 2, 1], token="mine"))
        while not any(connected.client.progress_reports.values()):
            await asyncio.sleep(0.01)
        connected.client.window_work_done_progress_cancel(t.WorkDoneProgressCancelParams(token="mine"))
        answer = await asyncio.wait_for(running, WAIT)
        assert (answer["ok"], answer["summary"]) == (False, "try_forever.py: stopped")


async def test_a_fix_that_cannot_be_tried_says_why(pushing: Editor) -> None:
    uri = saved(pushing, "nothing.py", "loss.backward()\nloss.backward()\n")
    answer = await tried(pushing, uri, ["TAPE301", 1, 1])
    assert (answer["ok"], "not in the file as it is on disk" in str(answer["summary"])) == (False, True)
    answer = await tried(pushing, uri, ["TAPE101", 2, 6])
    assert (answer["ok"], answer["summary"]) == (False, "there is no fix for TAPE101 on line 2")
    assert not (await tried(pushing, "untitled:Untitled-1", ["TAPE101", 2, 6]))["ok"]
    assert not (await tried(pushing, uri, []))["ok"]


async def test_a_run_is_stopped_by_cancelling_the_request(pushing: Editor) -> None:
    uri = saved(pushing, "cancel.py", "# forever\n")
    params = t.ExecuteCommandParams("tapecheck.run", [{"uri": uri}])
    pushing.asked_to_run = True
    logged = len(pushing.client.log_messages)
    pending = pushing.client.protocol.send_request(t.WORKSPACE_EXECUTE_COMMAND, params, msg_id="run-9")
    while not any("epoch 1" in one.message for one in pushing.client.log_messages[logged:]):
        await asyncio.sleep(0.01)
    pushing.client.cancel_request(t.CancelParams(id="run-9"))
    with pytest.raises(JsonRpcException, match="canceled"):
        await asyncio.wrap_future(pending)
    while not pushing.client.log_messages[-1].message.endswith("cancelled before the first iteration"):
        await asyncio.sleep(0.01)


async def test_the_end_of_the_session_ends_a_run(tmp_path: Path) -> None:
    async with editor(captured("neovim-0.7.2", tmp_path), tmp_path) as connected:
        uri = saved(connected, "forever.py", "# forever\n")
        running = asyncio.ensure_future(connected.run(uri))
        while not any(connected.client.progress_reports.values()):
            await asyncio.sleep(0.01)
    with pytest.raises(JsonRpcException, match="canceled"):
        await running


async def test_what_cannot_be_run_is_said(pushing: Editor) -> None:
    assert (await pushing.run("untitled:Untitled-1"))["exit"] == 2
    missing = await pushing.run(pushing.uri("missing.py"))
    assert (missing["exit"], "missing.py" in missing["summary"]) == (2, True)
    uri = saved(pushing, "bare.py", "# no torch\n")
    bare = await pushing.run(uri)
    assert (bare["exit"], bare["summary"]) == (2, "/usr/bin/python has no torch")


async def test_a_run_of_a_file_with_unsaved_edits_says_so(pushing: Editor) -> None:
    uri = saved(pushing, "dirty.py", TWICE)
    pushing.type(uri, 0, 0, "# ")
    pushing.type(uri, 2, 0, "loss.backward()\n")
    answer = await pushing.run(uri)
    assert answer["summary"].endswith("the file has changes that were not run")


async def test_the_lens_command_is_the_one_the_editor_has(any_editor: Editor) -> None:
    commands = any_editor.result.capabilities.execute_command_provider
    expected = ["run", "tryFix", "applyFix", "fixFile", "comparison", "runReport", "explainRule", "graph", "tool"]
    assert commands is not None and list(commands.commands) == [f"tapecheck.{name}" for name in expected]


async def test_hints_stand_behind_backward_calls_once_they_are_wanted(any_editor: Editor) -> None:
    assert any_editor.result.capabilities.inlay_hint_provider is not None
    uri = any_editor.open("train.py", TWICE)
    whole = t.Range(t.Position(0, 0), t.Position(9, 0))
    asked = t.InlayHintParams(t.TextDocumentIdentifier(uri), whole)
    assert not await any_editor.client.text_document_inlay_hint_async(asked)


async def test_nothing_is_highlighted_away_from_a_backward(any_editor: Editor) -> None:
    uri = any_editor.open("train.py", "x = 1\n")
    asked = t.DocumentHighlightParams(t.TextDocumentIdentifier(uri), t.Position(0, 0))
    assert await any_editor.client.text_document_document_highlight_async(asked) is None


async def test_on_save_a_file_is_left_alone_until_it_is_saved(tmp_path: Path) -> None:
    settings = {"lint": {"run": "onSave"}}
    for name in ("neovim-0.7.2", "vscode-1.139.1"):
        async with editor(captured(name, tmp_path, settings), tmp_path) as connected:
            uri = connected.open("train.py", TWICE)
            assert len(await connected.diagnostics(uri)) == 1
            connected.type(uri, 0, 0, "loss.backward()\n")
            if not connected.pulls:
                await asyncio.sleep(0.5)
                assert connected.published[uri][0] == 1
            else:
                assert await connected.diagnostics(uri) == []
            connected.client.text_document_did_save(t.DidSaveTextDocumentParams(t.TextDocumentIdentifier(uri)))
            assert len(await connected.diagnostics(uri)) == 2


async def test_a_run_has_what_it_is_given_in_place_of_the_settings(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    program = "import os, sys\nprint('RAN', sys.argv[1:], os.path.basename(os.getcwd()), os.environ.get('SEED'))\n"
    (tmp_path / "train.py").write_text(program)
    settings = {"run": {"arguments": ["--from", "settings"], "env": {"SEED": "1"}}}
    async with editor(captured("neovim-0.11.4", tmp_path, settings), tmp_path, REAL) as connected:
        uri = connected.open("train.py", program)
        await connected.run(uri)
        await connected.run(uri, arguments=["--own"], cwd="sub", env={"SEED": "2"})
        answer = await connected.run(uri, cwd="nowhere")
        assert answer["exit"] == 2 and "nowhere" in answer["summary"]
        said = [one.message for one in connected.client.log_messages if "RAN" in one.message]
        assert said == [
            f"train.py: RAN ['--from', 'settings'] {tmp_path.name} 1",
            "train.py: RAN ['--own'] sub 2",
        ]


async def test_a_rule_is_disabled_in_the_project_where_the_editor_has_no_way_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    async with editor(captured("neovim-0.11.4", tmp_path), tmp_path) as connected:
        uri = connected.open("train.py", TWICE)
        found = await connected.diagnostics(uri)
        actions = await connected.actions(uri, found[0].range, found)
        action = next(one for one in actions if one.title == "Disable TAPE101 in the project (pyproject.toml)")
        edits = await connected.edit_of(action)
        assert list(edits) == [connected.uri("pyproject.toml")]
        assert edits[connected.uri("pyproject.toml")][0].new_text == '\n[tool.tapecheck]\nignore = ["TAPE101"]\n'


async def test_a_client_that_pulls_shows_other_lines_as_it_shows_those_that_are_pushed() -> None:
    for told in (True, False):
        document = t.TextDocumentClientCapabilities(
            publish_diagnostics=t.PublishDiagnosticsClientCapabilities(related_information=told),
            diagnostic=t.DiagnosticClientCapabilities(),
        )
        workspace = t.WorkspaceClientCapabilities(diagnostics=t.DiagnosticWorkspaceClientCapabilities(True))
        given = t.InitializeParams(t.ClientCapabilities(text_document=document, workspace=workspace))
        client = read_client(given)
        assert (client.pull, client.related) == (True, told)


async def test_a_method_that_nobody_has_is_no_internal_error(pushing: Editor) -> None:
    with pytest.raises(JsonRpcException, match="Method Not Found"):
        await asyncio.wait_for(pushing.client.protocol.send_request_async("tapecheck/none", {}), WAIT)
    pushing.open("train.py", "loss.backward()\n")
    await pushing.pushed()
    assert not [one for one in pushing.client.log_messages if "internal error" in one.message]
