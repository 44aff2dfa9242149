"""Notebooks over the protocol, as VS Code sends them: one program, findings and edits in its cells."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from lsprotocol import types as t

from tests.lsp.harness import FAKE, REAL, WAIT, Editor, captured, editor

LOSS = "import torch\nw = torch.ones(3, requires_grad=True)\nloss = (w * w).sum()"


class Cells:
    """One open notebook as an editor sees it."""

    def __init__(self, connected: Editor, name: str, *texts: str) -> None:
        self.connected = connected
        self.uri = connected.uri(name)
        self.version = 1
        self.made = 0
        self.texts: dict[str, str] = {}
        self.order: list[str] = []
        cells = [self._new(text) for text in texts]
        self.order = [cell.document for cell in cells]
        self.connected.client.notebook_document_did_open(
            t.DidOpenNotebookDocumentParams(
                t.NotebookDocument(self.uri, "jupyter-notebook", self.version, cells), self._items(self.order)
            )
        )

    def _new(self, text: str) -> t.NotebookCell:
        uri = f"vscode-notebook-cell:{self.uri.removeprefix('file://')}#c{self.made}"
        self.made += 1
        self.texts[uri] = text
        self.connected.versions[uri] = 1
        return t.NotebookCell(t.NotebookCellKind.Code, uri)

    def _items(self, uris: list[str]) -> list[t.TextDocumentItem]:
        return [t.TextDocumentItem(uri, "python", self.connected.versions[uri], self.texts[uri]) for uri in uris]

    def _change(self, cells: t.NotebookDocumentCellChanges) -> None:
        self.version += 1
        named = t.VersionedNotebookDocumentIdentifier(self.version, self.uri)
        change = t.NotebookDocumentChangeEvent(cells=cells)
        self.connected.client.notebook_document_did_change(t.DidChangeNotebookDocumentParams(named, change))

    def insert(self, at: int, text: str) -> str:
        cell = self._new(text)
        self.order.insert(at, cell.document)
        structure = t.NotebookDocumentCellChangeStructure(
            t.NotebookCellArrayChange(at, 0, [cell]), did_open=self._items([cell.document])
        )
        self._change(t.NotebookDocumentCellChanges(structure=structure))
        return cell.document

    def remove(self, at: int) -> str:
        uri = self.order.pop(at)
        structure = t.NotebookDocumentCellChangeStructure(
            t.NotebookCellArrayChange(at, 1), did_close=[t.TextDocumentIdentifier(uri)]
        )
        self._change(t.NotebookDocumentCellChanges(structure=structure))
        return uri

    def edit(self, at: int, *changes: t.TextDocumentContentChangeEvent) -> None:
        uri = self.order[at]
        self.connected.versions[uri] += 1
        named = t.VersionedTextDocumentIdentifier(self.connected.versions[uri], uri)
        self._change(t.NotebookDocumentCellChanges(text_content=[t.NotebookDocumentCellContentChanges(named, changes)]))

    def type(self, at: int, line: int, character: int, text: str, *, replacing: int = 0) -> None:
        where = t.Range(t.Position(line, character), t.Position(line, character + replacing))
        self.edit(at, t.TextDocumentContentChangePartial(range=where, text=text))

    def close(self) -> None:
        self.connected.client.notebook_document_did_close(
            t.DidCloseNotebookDocumentParams(
                t.NotebookDocumentIdentifier(self.uri), [t.TextDocumentIdentifier(uri) for uri in self.order]
            )
        )

    async def diagnostics(self, count: int) -> list[tuple[int, t.Diagnostic]]:
        """What is shown in the cells, by number of the cell, once there is so much of it."""

        async def wait() -> list[tuple[int, t.Diagnostic]]:
            while True:
                published = [self.connected.published.get(uri, (None, []))[1] for uri in self.order]
                found = [(number, one) for number, items in enumerate(published) for one in items]
                if len(found) == count:
                    return found
                await self.connected.pushed()

        return await asyncio.wait_for(wait(), WAIT)


@pytest_asyncio.fixture
async def vscode(tmp_path: Path) -> AsyncIterator[Editor]:
    async with editor(captured("vscode-1.139.1", tmp_path), tmp_path, FAKE) as connected:
        yield connected


async def test_findings_lie_in_their_cells_and_follow_every_edit(vscode: Editor) -> None:
    cells = Cells(vscode, "n.ipynb", "a = 1\na.backward()", "b = 2", "é = '🎉'; a.backward()")
    ((cell, found),) = await cells.diagnostics(1)
    assert (cell, found.code) == (2, "TAPE101")
    assert found.range == t.Range(t.Position(0, 12), t.Position(0, 22)), "UTF-16, in lines of the cell"
    (related,) = found.related_information or []
    assert related.location == t.Location(cells.order[0], t.Range(t.Position(1, 2), t.Position(1, 12)))

    cells.insert(1, "a.backward()")
    assert [cell for cell, _ in await cells.diagnostics(2)] == [1, 3]
    gone = cells.remove(3)
    assert [cell for cell, _ in await cells.diagnostics(1)] == [1]
    while vscode.published[gone][1]:
        await vscode.pushed()
    cells.type(0, 1, 0, "# ")
    await cells.diagnostics(1)
    cells.type(2, 0, 5, "\na.backward()")
    assert [(cell, found.range.start.line) for cell, found in await cells.diagnostics(2)] == [(1, 0), (2, 1)]
    order = list(cells.order)
    cells.close()
    while any(vscode.published[uri][1] for uri in order):
        await vscode.pushed()


async def test_a_cell_is_never_pulled(vscode: Editor) -> None:
    cells = Cells(vscode, "n.ipynb", "a.backward()\na.backward()")
    await cells.diagnostics(1)
    assert await vscode.diagnostics(cells.order[0]) == [], "it would be shown twice"


async def test_a_fix_edits_the_cell_it_belongs_to(vscode: Editor) -> None:
    cells = Cells(vscode, "n.ipynb", "x = 1", "# é🎉\na.f(retain_graph=True)")
    ((cell, found),) = await cells.diagnostics(1)
    assert cell == 1
    actions = await vscode.actions(cells.order[1], found.range, [found])
    preferred = next(action for action in actions if action.is_preferred)
    edits = await vscode.edit_of(preferred)
    assert edits == {cells.order[1]: [t.TextEdit(t.Range(t.Position(1, 4), t.Position(1, 21)), "")]}
    assert await vscode.actions(cells.order[0], t.Range(t.Position(0, 0), t.Position(1, 5)), []) == []
    titles = [action.title for action in actions]
    assert "Disable TAPE301 in this notebook" in titles
    assert "Confirm by running this notebook" in titles


async def test_a_rule_is_switched_off_in_a_notebook_whose_cells_begin_with_magics(vscode: Editor) -> None:
    cells = Cells(vscode, "n.ipynb", "%%time\nx = 1", "%matplotlib inline\nx = 2", "a.f(retain_graph=True)")
    ((_, found),) = await cells.diagnostics(1)
    actions = await vscode.actions(cells.order[2], found.range, [found])
    action = next(action for action in actions if action.title == "Disable TAPE301 in this notebook")
    top = t.Range(t.Position(0, 0), t.Position(0, 0))
    assert await vscode.edit_of(action) == {
        cells.order[1]: [t.TextEdit(top, "# tapecheck: ignore-file[TAPE301]\n")],
    }, "a cell's magic must stay its first line"


async def test_all_safe_fixes_of_a_notebook_are_made_in_their_cells(vscode: Editor) -> None:
    cells = Cells(vscode, "n.ipynb", "a.f(retain_graph=True)", "%matplotlib inline\nb.f(retain_graph=True)")
    await cells.diagnostics(2)
    zero = t.Range(t.Position(0, 0), t.Position(0, 0))
    (action,) = await vscode.actions(cells.order[0], zero, [], only=["notebook.source.fixAll"])
    assert action.kind == "notebook.source.fixAll.tapecheck"
    assert await vscode.edit_of(action) == {
        cells.order[0]: [t.TextEdit(t.Range(t.Position(0, 4), t.Position(0, 21)), "")],
        cells.order[1]: [t.TextEdit(t.Range(t.Position(1, 4), t.Position(1, 21)), "")],
    }
    asked_by_each_cell = await vscode.actions(cells.order[0], zero, [], only=["source.fixAll"])
    assert asked_by_each_cell == []


async def test_cells_of_another_language_and_magics_are_left_alone(vscode: Editor) -> None:
    cells = Cells(vscode, "n.ipynb", "a.backward()", "%%bash\na.backward()", "!a.backward()\na.backward()")
    assert [(cell, found.range.start.line) for cell, found in await cells.diagnostics(1)] == [(2, 1)]


async def test_a_real_program_over_cells(tmp_path: Path) -> None:
    async with editor(captured("vscode-1.139.1", tmp_path), tmp_path, REAL) as connected:
        # The second backward is meant: keeping the graph is a safe fix, the preferred one.
        first, second = "loss.backward()\nprint(w.grad); w.grad = None", "%time loss.backward()"
        cells = Cells(connected, "n.ipynb", f"%load_ext autoreload\n{LOSS}", first, second)
        ((cell, found),) = await cells.diagnostics(1)
        assert (cell, found.range.start) == (2, t.Position(0, 6))
        assert found.message.startswith("second backward through the graph of `loss`\n")
        related = found.related_information or ()
        assert [(one.location.uri, one.location.range.start.line, one.message) for one in related] == [
            (cells.order[0], 3, "the graph was built here, and `MulBackward0` saved tensors"),
            (cells.order[1], 0, "freed here"),
        ]
        hovered = await connected.hover(cells.order[1], 0, 7)
        assert hovered is not None and isinstance(hovered.contents, t.MarkupContent)
        assert "built on line 4 of cell 1" in hovered.contents.value
        assert hovered.range == t.Range(t.Position(0, 0), t.Position(0, 15))
        titles = [[lens.command and lens.command.title for lens in await connected.lenses(uri)] for uri in cells.order]
        assert titles == [
            [],
            [],
            ["fails · Confirm by running"],
        ]
        (lens,) = await connected.lenses(cells.order[2])
        assert lens.range.start == t.Position(0, 0) and lens.range.end == t.Position(0, 21)
        assert lens.command and list(lens.command.arguments or ()) == [{"uri": cells.uri}], "it is run as a whole"
        actions = await connected.actions(cells.order[2], found.range, [found])
        preferred = next(action for action in actions if action.is_preferred)
        assert list(await connected.edit_of(preferred)) == [cells.order[1]]
        asked = connected.client.lens_refreshes
        cells.type(1, 0, 0, "# ")
        while connected.client.lens_refreshes == asked:
            await asyncio.sleep(0.01)
        assert await connected.lenses(cells.order[2]) == [], "the lens of a cell that was not edited"


async def test_a_saved_notebook_is_run_and_its_findings_are_confirmed_in_their_cells(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    texts = [f"%load_ext autoreload\n{LOSS}", "loss.backward()", "%time loss.backward()"]
    cells = [{"cell_type": "code", "metadata": {}, "source": text} for text in texts]
    (tmp_path / "n.ipynb").write_text(json.dumps({"nbformat": 4, "metadata": {}, "cells": cells}))
    async with editor(captured("vscode-1.139.1", tmp_path), tmp_path, REAL) as connected:
        notebook = Cells(connected, "n.ipynb", *texts)
        await notebook.diagnostics(1)
        answer = await connected.run(notebook.uri)
        assert answer["summary"] == "n.ipynb: 1 confirmed", answer
        while not (found := await notebook.diagnostics(1))[0][1].message.count(" — confirmed: raised, "):
            await connected.pushed()
        assert found[0][0] == 2
        params = t.ExecuteCommandParams("tapecheck.runReport", [{"uri": notebook.uri}])
        report = await connected.client.workspace_execute_command_async(params)
        assert report["html"].startswith("<!DOCTYPE html>") and "n.ipynb" in report["html"]
        # Another text of a cell, and the verdict is one of older code.
        notebook.type(1, 0, 0, "x = 1; ")
        while "before the last edits" not in (found := await notebook.diagnostics(1))[0][1].message:
            await connected.pushed()
        params = t.ExecuteCommandParams("tapecheck.runReport", [{"uri": connected.uri("other.py")}])
        assert await connected.client.workspace_execute_command_async(params) is None
