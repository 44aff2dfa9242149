"""The whole server, dry run and rules included, on real programs."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from textwrap import dedent

import pytest
import pytest_asyncio
from lsprotocol import types as t

from tests.lsp.harness import CAPTURES, REAL, WAIT, Editor, captured, editor

pytestmark = pytest.mark.asyncio(loop_scope="module")

RECURRENT = dedent(
    """\
    import torch
    from torch import nn

    cell = nn.RNNCell(4, 8)
    head = nn.Linear(8, 1)
    optimizer = torch.optim.SGD([*cell.parameters(), *head.parameters()], lr=0.1)
    hidden = torch.zeros(2, 8)  # 🎉 carried over

    for step in range(5):
        hidden = cell(torch.randn(2, 4), hidden)
        loss = head(hidden).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """
)
NEEDLESS = RECURRENT.replace(", hidden)", ", hidden.detach())").replace(".backward()", ".backward(retain_graph=True)")


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=CAPTURES)
async def real(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Editor]:
    folder = tmp_path_factory.mktemp("real")
    async with editor(captured(request.param, folder), folder, REAL) as connected:
        connected.name = request.param
        yield connected


def text_of(hover: t.Hover | None) -> str:
    assert hover is not None and isinstance(hover.contents, t.MarkupContent)
    return hover.contents.value


async def test_a_backward_through_carried_state_is_found(real: Editor) -> None:
    uri = real.open("recurrent.py", RECURRENT)
    (found,) = await real.diagnostics(uri)
    assert (found.code, found.range.start.line) == ("TAPE101", 12)
    assert found.severity == t.DiagnosticSeverity.Error


async def test_findings_follow_a_program_as_it_is_typed(real: Editor) -> None:
    lines = RECURRENT.splitlines()
    typed = "        loss.backward()"
    before = "\n".join(lines[:12]) + "\n"
    uri = real.open("typed.py", before + "\n" + "\n".join(lines[13:]) + "\n")
    assert not [one for one in await real.diagnostics(uri) if one.code == "TAPE101"]
    codes = []
    for column, character in enumerate(typed[4:]):
        real.type(uri, 12, column, character)
        codes.append([one.code for one in await real.diagnostics(uri)])
    assert codes[-1] == ["TAPE101"]
    assert all("TAPE101" not in earlier for earlier in codes[:-2])


async def test_a_syntax_error_elsewhere_wipes_nothing(real: Editor) -> None:
    uri = real.open("broken.py", RECURRENT)
    assert len(await real.diagnostics(uri)) == 1
    for number, text in enumerate(("x = (", "def half(", "import ", "'")):
        real.type(uri, 2, 0, text)
        (found,) = await real.diagnostics(uri)
        assert (found.code, found.range.start.line) == ("TAPE101", 12), number
        real.type(uri, 2, 0, "", replacing=len(text))


async def test_a_hover_explains_the_backward_that_fails(real: Editor) -> None:
    uri = real.open("hover.py", RECURRENT)
    text = text_of(await real.hover(uri, 12, 8))
    assert text.startswith("loss.backward()" if real.name.startswith("eglot") else "**`loss.backward()`**")
    assert "fails on iteration 2 (TAPE101)" in text
    assert "freed by" not in text, "the finding says it"
    hovered = await real.hover(uri, 12, 10)
    assert hovered is not None
    assert hovered.range == t.Range(t.Position(12, 4), t.Position(12, 19))


async def test_a_hover_on_a_tensor_tells_of_its_graph(real: Editor) -> None:
    uri = real.open("hover.py", RECURRENT)
    text = text_of(await real.hover(uri, 10, 5)).replace("`", "")
    assert "loss" in text and "carries a graph built on lines 10–11" in text and "freed by line 13" in text
    assert await real.hover(uri, 6, 0) is None, "zeros have no graph"
    assert await real.hover(uri, 0, 8) is None, "a module is no tensor"


async def test_a_quick_fix_makes_the_finding_go(real: Editor) -> None:
    uri = real.open("needless.py", NEEDLESS)
    (found,) = await real.diagnostics(uri)
    assert found.code == "TAPE301"
    assert found.range == t.Range(t.Position(12, 18), t.Position(12, 35))
    actions = await real.actions(uri, found.range, [found])
    preferred = [one for one in actions if one.is_preferred]
    assert len(preferred) == 1
    await real.apply(uri, preferred[0])
    assert await real.diagnostics(uri) == []


async def test_fix_all_leaves_a_program_without_safe_fixes(real: Editor) -> None:
    uri = real.open("all.py", NEEDLESS)
    await real.diagnostics(uri)
    zero = t.Range(t.Position(0, 0), t.Position(0, 0))
    (action,) = await real.actions(uri, zero, [], only=["source.fixAll.tapecheck"])
    await real.apply(uri, action)
    assert await real.diagnostics(uri) == []


async def test_the_lens_stands_on_the_training_loop(real: Editor) -> None:
    uri = real.open("lens.py", RECURRENT)
    lens, failing = await real.lenses(uri)
    assert (lens.range.start, failing.range.start) == (t.Position(8, 0), t.Position(12, 0))
    assert lens.command is not None
    in_vscode = real.name.startswith("vscode")
    expected = "tapecheck.confirmFile" if in_vscode else "tapecheck.run"
    assert (lens.command.title, lens.command.command) == ("Confirm by running", expected)
    assert failing.command is not None
    assert failing.command.title == "fails in iteration 2", "the loop offers the run, once"
    assert list(lens.command.arguments or []) == [{"uri": uri}]


async def test_hints_and_highlights_of_a_backward(tmp_path: Path) -> None:
    settings = {"inlayHints": {"enable": True}}
    async with editor(captured("vscode-1.139.1", tmp_path, settings), tmp_path, REAL) as connected:
        uri = connected.open("hints.py", NEEDLESS)
        document = t.TextDocumentIdentifier(uri)
        whole = t.Range(t.Position(0, 0), t.Position(20, 0))
        hints = await connected.client.text_document_inlay_hint_async(t.InlayHintParams(document, whole))
        assert hints is not None
        assert [(hint.label, hint.position) for hint in hints] == [("graph kept", t.Position(12, 36))]
        line = NEEDLESS.splitlines()[12]
        for column in (line.index("backward"), line.index("(")):
            asked = t.DocumentHighlightParams(document, t.Position(12, column))
            marked = await connected.client.text_document_document_highlight_async(asked)
            assert marked is not None
            assert sorted(one.range.start.line for one in marked) == [9, 10, 12]
            own = t.Range(t.Position(12, line.index("backward")), t.Position(12, line.index("(")))
            assert [one.range for one in marked if one.kind == t.DocumentHighlightKind.Write] == [own]
        for column in (line.index("loss"), line.index("retain_graph")):
            asked = t.DocumentHighlightParams(document, t.Position(12, column))
            assert await connected.client.text_document_document_highlight_async(asked) is None, "the editor's own stay"


async def test_a_run_confirms_with_real_torch(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    (tmp_path / "run.py").write_text(RECURRENT, encoding="utf-8")
    async with editor(captured("vscode-1.139.1", tmp_path), tmp_path, REAL) as connected:
        uri = connected.open("run.py", RECURRENT)
        (found,) = await connected.diagnostics(uri)
        assert "confirmed" not in found.message
        answer = await connected.run(uri)
        assert (answer["exit"], answer["confirmed"], answer["refuted"]) == (1, 1, 0), answer
        assert answer["summary"] == "run.py: 1 confirmed"
        (found,) = await connected.diagnostics(uri)
        first = found.message.splitlines()[0]
        assert re.search(r" — confirmed: raised in iteration 2, \d\d:\d\d$", first)
        assert found.severity == t.DiagnosticSeverity.Error
        lenses = [lens.command for lens in await connected.lenses(uri) if lens.command is not None]
        again, last, failing = lenses
        assert (again.title, again.command) == ("Confirm by running", "tapecheck.confirmFile")
        assert re.fullmatch(r"run at \d\d:\d\d: 1 confirmed", last.title)
        assert failing.title == "✓ confirmed: fails in iteration 2"
        assert {last.command, failing.command} == {"tapecheck.runReport"}
        logged = [one.message for one in connected.client.log_messages]
        assert any("RuntimeError: Trying to backward through the graph a second time" in one for one in logged)
        asked = t.ExecuteCommandParams("tapecheck.runReport", [{"uri": uri}])
        page = (await connected.client.workspace_execute_command_async(asked))["html"]
        assert "the script ended with an exception" in page and "ran to its end" not in page
        head = [{"uri": uri, "position": {"line": 10, "character": 5}}]
        drawn = await connected.client.workspace_execute_command_async(t.ExecuteCommandParams("tapecheck.graph", head))
        assert re.fullmatch(r"run at \d\d:\d\d", drawn["measured"]) and " bytes" in drawn["svg"]
        connected.type(uri, 0, 0, "newer = 1\n")
        (found,) = await connected.diagnostics(uri)
        drawn = await connected.client.workspace_execute_command_async(t.ExecuteCommandParams("tapecheck.graph", head))
        assert drawn["measured"] == "", "what an older text did is not drawn over a new one"
        first = found.message.splitlines()[0]
        assert re.search(r" — confirmed: raised in iteration 2, \d\d:\d\d, before the last edits$", first)

        # The same program for another reason: an exception of its own ends it.
        broken = RECURRENT.replace("for step", "import a_module_that_is_not_there\nfor step")
        (tmp_path / "run.py").write_text(broken, encoding="utf-8")
        connected.change(uri, t.TextDocumentContentChangeWholeDocument(text=broken))
        answer = await connected.run(uri)
        assert (answer["exit"], answer["notReached"]) == (2, 1), answer
        why = "ended before training: ModuleNotFoundError: No module named 'a_module_that_is_not_there'"
        assert (answer["summary"], answer["next"]) == (f"run.py: {why}", "configure")
        (found,) = await connected.diagnostics(uri)
        assert "confirmed: raised in iteration 2" in found.message, "what an earlier run showed stands"
        _, last, _ = [lens.command for lens in await connected.lenses(uri)]
        assert last is not None and last.title.endswith(why) and last.command == "tapecheck.confirmFile"


async def test_a_fix_is_tried_with_real_torch(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    program = "import torch\nw = torch.ones(2, requires_grad=True)\ny = (w * w).sum()\ny.backward()\ny.backward()\n"
    (tmp_path / "twice.py").write_text(program, encoding="utf-8")
    async with editor(captured("vscode-1.139.1", tmp_path), tmp_path, REAL) as connected:
        uri = connected.open("twice.py", program)
        (found,) = await connected.diagnostics(uri)
        actions = await connected.actions(uri, found.range, [found])
        (command,) = [one.command for one in actions if one.title.startswith("Confirm fix by running: ")]
        assert command is not None
        params = t.ExecuteCommandParams(command.command, command.arguments)
        answer = await asyncio.wait_for(connected.client.workspace_execute_command_async(params), WAIT)
        assert (answer["ok"], answer["helped"]) == (True, True), answer
        assert "the exception is gone; backward-twice no longer happens" in answer["summary"]
        raised = next(row for row in answer["markdown"].splitlines() if row.startswith("| ended |"))
        assert raised.startswith("| ended | raised: ") and raised.endswith(" | finished |")
        assert "Trying to backward through the graph a second time" in raised
        (found,) = await connected.diagnostics(uri)
        assert "fix tried at " in found.message
        assert re.search(r" — confirmed: raised, \d\d:\d\d$", found.message.splitlines()[0]), "that was a run, too"


async def test_a_file_that_others_import_is_judged_by_the_run_of_one_of_those(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    library = "def twice(loss):\n    loss.backward()\n    loss.backward()\n"
    script = "import torch, library\nlibrary.twice((torch.ones(2, requires_grad=True) ** 2).sum())\n"
    (tmp_path / "library.py").write_text(library, encoding="utf-8")
    (tmp_path / "train.py").write_text(script, encoding="utf-8")
    async with editor(captured("vscode-1.139.1", tmp_path), tmp_path, REAL) as connected:
        uri = connected.open("library.py", library)
        alone = await connected.run(uri)
        assert (alone["exit"], alone["backwards"], alone["next"]) == (3, 0, "program"), alone
        assert alone["summary"] == "library.py trains nothing when it is run"
        for program in ("train.py", "-m train"):
            answer = await connected.run(uri, program=program)
            assert (answer["exit"], answer["confirmed"] + answer["found"]) == (1, 1), answer
            (found,) = await connected.diagnostics(uri)
            assert found.range.start.line == 2 and "raised" in found.message.splitlines()[0]
        missing = await connected.run(uri, program="absent.py")
        assert (missing["exit"], "absent.py" in missing["summary"]) == (2, True)


async def test_a_file_of_a_library_is_run_by_what_the_project_names(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    library = "import torch\nlayer = torch.nn.Linear(2, 1)\ndef twice(x):\n    loss = layer(x).exp().sum()\n"
    library += "    loss.backward()\n    loss.backward()\n"
    script = "import sys, torch, library\nassert sys.argv[1:] == ['--fast']\n"
    script += "library.twice(torch.ones(3, 2))\n"
    (tmp_path / "library.py").write_text(library, encoding="utf-8")
    (tmp_path / "train.py").write_text(script, encoding="utf-8")
    (tmp_path / "pyproject.toml").write_text('[tool.tapecheck]\nrun = ["train.py", "--fast"]\n', encoding="utf-8")
    async with editor(captured("vscode-1.139.1", tmp_path), tmp_path, REAL) as connected:
        uri = connected.open("library.py", library)
        (found,) = await connected.diagnostics(uri)
        answer = await connected.run(uri)
        assert (answer["exit"], answer["confirmed"]) == (1, 1), answer
        actions = await connected.actions(uri, found.range, [found])
        (command,) = [one.command for one in actions if one.title.startswith("Confirm fix by running: ")]
        assert command is not None
        params = t.ExecuteCommandParams(command.command, command.arguments)
        answer = await asyncio.wait_for(connected.client.workspace_execute_command_async(params), WAIT)
        assert (answer["ok"], answer["helped"]) == (True, True), answer
        assert (tmp_path / "library.py").read_text(encoding="utf-8") == library


async def test_a_launcher_starts_the_program_in_several_processes(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    if not Path(sys.executable).with_name("torchrun").exists():
        pytest.skip("torchrun is not installed beside this interpreter")
    program = "import os, torch\nw = torch.ones(2, requires_grad=True)\ny = (w * w).sum()\ny.backward()\n"
    program += "print('rank', os.environ['RANK'])\nif os.environ['RANK'] == '1':\n    y.backward()\n"
    (tmp_path / "ranks.py").write_text(program, encoding="utf-8")
    launcher = ["torchrun", "--standalone", "--nproc-per-node", "2"]
    settings = {"run": {"launcher": launcher}}
    async with editor(captured("vscode-1.139.1", tmp_path, settings), tmp_path, REAL) as connected:
        uri = connected.open("ranks.py", program)
        (before,) = await connected.diagnostics(uri)
        answer = await connected.run(uri)
        assert (answer["exit"], answer["confirmed"]) == (1, 1), answer
        (found,) = await connected.diagnostics(uri)
        assert found.range == before.range and "rank 1 of 2" in found.message
        logged = "\n".join(one.message for one in connected.client.log_messages)
        assert "rank 1" in logged


SWITCHED_OFF = dedent(
    """\
    import torch
    w = torch.ones(2, requires_grad=True)
    y = (w * w).sum()
    y.backward(retain_graph=True)  # tapecheck: ignore[TAPE301, TAPE101]
    z = w * 2  # tapecheck: ignore[TAPE999]
    z = w * 3  # tapecheck: ignore[TAPE1] since ever
    z = w * 4  # tapecheck: ignore
    """
)


async def test_comments_that_switch_nothing_off_are_shown_and_taken_away(real: Editor) -> None:
    uri = real.open("comments.py", SWITCHED_OFF)
    found = await real.diagnostics(uri)
    assert [(one.code, one.range.start.line, one.severity) for one in found] == [
        ("unused-ignore", line, t.DiagnosticSeverity.Hint) for line in (3, 4, 5, 6)
    ]
    assert [one.message.partition(": ")[2].partition(",")[0] for one in found] == [
        "TAPE101 would report nothing here",
        "there is no rule TAPE999",
        "TAPE1 would report nothing here",
        "nothing would be reported here",
    ]
    for one in reversed(found):
        (action, *_) = await real.actions(uri, one.range, [one])
        assert action.is_preferred and "comment" in action.title
        await real.apply(uri, action)
    assert await real.diagnostics(uri) == []
    left = SWITCHED_OFF.replace(", TAPE101", "").replace("  # tapecheck: ignore[TAPE999]", "")
    left = left.replace("# tapecheck: ignore[TAPE1] since", "# since").removesuffix("  # tapecheck: ignore\n") + "\n"
    hovered = await real.hover(uri, 3, left.splitlines()[3].index("tapecheck"))
    assert "needless-retain-graph" in text_of(hovered)
    again = real.open("comments_after.py", left)
    assert await real.diagnostics(again) == []


async def test_comments_are_left_alone_where_not_all_is_known(tmp_path: Path) -> None:
    program = "import torch\nz = 1  # tapecheck: ignore[TAPE101]\n"
    settings = {"ignore": ["TAPE101"]}
    for given, text in (({}, program + "def unfinished(\n"), (settings, program)):
        async with editor(captured("vscode-1.139.1", tmp_path, given), tmp_path, REAL) as connected:
            assert await connected.diagnostics(connected.open("unknown.py", text)) == []


async def test_a_saved_module_is_read_anew_by_those_who_import_it(real: Editor, tmp_path: Path) -> None:
    module = real.folder / "losses_of_mine.py"
    module.write_text("def total(x):\n    return (x * 2).exp().sum()\n", encoding="utf-8")
    program = dedent(
        """\
        import torch
        from losses_of_mine import total

        w = torch.randn(3, requires_grad=True)
        loss = total(w)
        loss.backward()
        """
    )
    uri = real.open("imports.py", program)
    assert await real.diagnostics(uri) == []
    other = real.open("losses_of_mine.py", module.read_text(encoding="utf-8"))
    await real.diagnostics(other)
    module.write_text("def total(x):\n    return (x.detach() * 2).exp().sum()\n", encoding="utf-8")
    real.client.text_document_did_save(t.DidSaveTextDocumentParams(t.TextDocumentIdentifier(other)))
    if real.client.registrations:
        change = t.FileEvent(other, t.FileChangeType.Changed)
        real.client.workspace_did_change_watched_files(t.DidChangeWatchedFilesParams([change]))
    if not real.pulls:
        while not real.published[uri][1]:
            await real.pushed()
    (found,) = await real.diagnostics(uri)
    assert (found.code, found.range.start.line) == ("TAPE103", 5)


async def test_unsaved_edits_of_a_module_are_seen_by_those_who_import_it(real: Editor) -> None:
    whole = "def scaled(x):\n    return (x * 2).exp().sum()\n"
    (real.folder / "unsaved_losses.py").write_text(whole, encoding="utf-8")
    (real.folder / "closed_between.py").write_text("from unsaved_losses import scaled\n", encoding="utf-8")
    program = dedent(
        """\
        import torch
        from closed_between import scaled

        w = torch.randn(3, requires_grad=True)
        loss = scaled(w)
        loss.backward()
        """
    )
    uri = real.open("uses_it.py", program)
    assert await real.diagnostics(uri) == []
    module = real.open("unsaved_losses.py", whole)
    await real.diagnostics(module)
    asked = t.DocumentDiagnosticParams(t.TextDocumentIdentifier(uri))
    if real.pulls:
        asked.previous_result_id = (await real.client.text_document_diagnostic_async(asked)).result_id
        assert (await real.client.text_document_diagnostic_async(asked)).kind == "unchanged"

    async def until(count: int) -> list[t.Diagnostic]:
        while True:
            if real.pulls:
                await asyncio.sleep(0.1)
                found = await real.diagnostics(uri)
            else:
                found = real.published[uri][1]
            if len(found) == count:
                return found
            if not real.pulls:
                await real.pushed()

    real.type(module, 1, 12, "x.detach()", replacing=1)
    (found,) = await asyncio.wait_for(until(1), WAIT)
    assert (found.code, found.range.start.line) == ("TAPE103", 5)
    if real.pulls:
        assert (await real.client.text_document_diagnostic_async(asked)).kind == "full"
    real.close(module)
    await asyncio.wait_for(until(0), WAIT)


TRAINER = dedent(
    """\
    class Trainer:
        def __init__(self, model):
            self.model, self.state = model, None

        def step(self, x):
            out, self.state = self.model(x, self.state)
            out.sum().backward()
    """
)
RUNS_TRAINER = dedent(
    """\
    import torch
    from {module} import Trainer

    trainer = Trainer(torch.nn.GRU(3, 4))
    for _ in range(3):
        trainer.step(torch.randn(5, 2, 3))
    """
)


async def shown(real: Editor, uri: str, count: int) -> list[t.Diagnostic]:
    """The diagnostics of a file once there are so many, as the editor gets them when it is told to ask anew."""

    async def until() -> list[t.Diagnostic]:
        while True:
            found = await real.diagnostics(uri) if real.pulls else real.published.get(uri, (0, []))[1]
            if len(found) == count:
                return found
            await (asyncio.sleep(0.1) if real.pulls else real.pushed())

    return await asyncio.wait_for(until(), WAIT)


async def test_what_a_program_does_in_a_module_is_shown_in_both(real: Editor) -> None:
    name = "trainer_of_" + re.sub(r"\W", "_", real.name)
    (real.folder / f"{name}.py").write_text(TRAINER, encoding="utf-8")
    module = real.open(f"{name}.py", TRAINER)
    assert await real.diagnostics(module) == []
    program = real.open("runs_it.py", RUNS_TRAINER.format(module=name))
    (call,) = await real.diagnostics(program)
    (line,) = await shown(real, module, 1)
    assert [(one.code, one.range.start.line) for one in (call, line)] == [("TAPE101", 5), ("TAPE101", 6)]
    assert call.message.splitlines()[0].endswith(f"(in {name}.py)")
    if call.related_information is not None:
        assert (module, 6) in {(one.location.uri, one.location.range.start.line) for one in call.related_information}
    for uri, one in ((program, call), (module, line)):
        actions = await real.actions(uri, one.range, [one])
        fix = next(action for action in actions if action.title.startswith("Detach `self.state`"))
        assert list(await real.edit_of(fix)) == [module]
    await real.apply(module, fix)
    assert await shown(real, module, 0) == await shown(real, program, 0) == []


async def test_what_a_closed_program_did_in_a_module_is_not_shown_any_more(real: Editor) -> None:
    (real.folder / "trainer_alone.py").write_text(TRAINER, encoding="utf-8")
    module = real.open("trainer_alone.py", TRAINER)
    program = real.open("ran_it.py", RUNS_TRAINER.format(module="trainer_alone"))
    assert len(await real.diagnostics(program)) == 1
    await shown(real, module, 1)
    real.close(program)
    assert await shown(real, module, 0) == []


async def test_an_analysis_that_was_cut_short_says_so(real: Editor) -> None:
    tree = "def tree(n, x):\n    return x if n == 0 else tree(n - 1, x) + tree(n - 1, x + 1) + tree(n - 1, x * 2)\n"
    calls = "y = tree(14, torch.ones(2, requires_grad=True)).sum()\ny.backward()\ny.backward()\n"
    (note,) = await real.diagnostics(real.open("tree.py", f"import torch\n{tree}{calls}"))
    assert (note.code, note.severity) == ("incomplete-analysis", t.DiagnosticSeverity.Information)
    assert "work limit reached" in note.message


async def test_the_graph_around_the_cursor_is_drawn(real: Editor) -> None:
    uri = real.open("drawn.py", RECURRENT)
    await real.diagnostics(uri)

    async def drawn(line: int, character: int) -> dict[str, object]:
        place = [{"uri": uri, "position": {"line": line, "character": character}}]
        params = t.ExecuteCommandParams("tapecheck.graph", place)
        answer = await asyncio.wait_for(real.client.workspace_execute_command_async(params), WAIT)
        return dict(answer)

    head = await drawn(10, RECURRENT.splitlines()[10].index("loss") + 1)
    assert str(head["svg"]).startswith("<svg") and str(head["svg"]).count(" here") == 2
    assert "carries a graph" in str(head["markdown"]) and head["measured"] == ""
    assert [Path(str(name)).name for name in head["files"]] == ["drawn.py"]  # type: ignore[attr-defined]
    step = await drawn(13, 4)
    assert str(step["svg"]).startswith("<svg") and " here" not in str(step["svg"]).partition("</style>")[2]


async def test_what_a_closed_file_does_in_an_open_one_comes_once_nobody_types(real: Editor) -> None:
    text = "def step(loss):\n    loss.backward()\n    return loss.item()\n"
    (real.folder / "pyproject.toml").write_text("")
    (real.folder / "of_closed.py").write_text(text)
    (real.folder / "closed.py").write_text(
        "import torch\nfrom of_closed import step\n\nw = torch.ones(2, requires_grad=True)\n"
        "loss = w.exp().sum()\nfor _ in range(3):\n    step(loss)\n"
    )
    uri = real.open("of_closed.py", text)
    for _ in range(int(WAIT)):
        found = await real.diagnostics(uri) if real.pulls else real.published.get(uri, (0, []))[1]
        if found:
            break
        await asyncio.sleep(1)
    assert [(one.code, one.range.start.line) for one in found] == [("TAPE101", 1)]
    real.close(uri)
    (real.folder / "pyproject.toml").unlink()
