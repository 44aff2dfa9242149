"""Diagnostics of files that are not open, pulled for the whole workspace."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

from lsprotocol import types as t

from tests.lsp.harness import REAL, WAIT, Editor, captured, editor

TWICE = "loss.backward()\nloss.backward()\n"
WORKSPACE = {"diagnosticMode": "workspace"}


async def pull(connected: Editor, told: dict[str, str], token: str | None = None) -> list[Any]:
    previous = [t.PreviousResultId(uri, value) for uri, value in told.items()]
    params = t.WorkspaceDiagnosticParams(previous, partial_result_token=token)
    report = await asyncio.wait_for(connected.client.workspace_diagnostic_async(params), WAIT)
    for item in report.items:
        told[item.uri] = item.result_id or ""
    return list(report.items)


def counts(items: list[Any]) -> dict[str, int]:
    return {item.uri.rpartition("/")[2]: len(item.items) for item in items}


async def test_closed_files_are_checked_and_only_what_changed_is_told_again(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(TWICE)
    (tmp_path / "b.py").write_text("x = 1\n")
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / "c.py").write_text(TWICE)
    (tmp_path / "open.py").write_text(TWICE)
    async with editor(captured("vscode-1.139.1", tmp_path, WORKSPACE), tmp_path) as connected:
        assert connected.result.capabilities.diagnostic_provider is not None
        opened = connected.open("open.py", TWICE)
        await connected.diagnostics(opened)
        told: dict[str, str] = {}
        assert counts(await pull(connected, told)) == {"a.py": 1, "b.py": 0}

        waiting = asyncio.ensure_future(pull(connected, told))
        await asyncio.sleep(0.5)
        assert not waiting.done(), "nothing has changed: the request is kept until something does"
        (tmp_path / "b.py").write_text(TWICE)
        (tmp_path / "a.py").unlink()
        change = t.FileEvent(connected.uri("b.py"), t.FileChangeType.Changed)
        connected.client.workspace_did_change_watched_files(t.DidChangeWatchedFilesParams([change]))
        found = counts(await asyncio.wait_for(waiting, WAIT))
        assert (found["a.py"], found["b.py"]) == (0, 1)


async def test_without_the_setting_closed_files_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(TWICE)
    async with editor(captured("vscode-1.139.1", tmp_path), tmp_path) as connected:
        waiting = asyncio.ensure_future(pull(connected, {}))
        await asyncio.sleep(1.5)
        assert not waiting.done()
        # The setting takes effect at once, and its end takes the findings away.
        connected.client.set_configuration(WORKSPACE, section="tapecheck")
        connected.client.workspace_did_change_configuration(t.DidChangeConfigurationParams(settings={}))
        assert counts(await asyncio.wait_for(waiting, WAIT)) == {"a.py": 1}


async def test_what_was_said_of_a_file_goes_when_it_is_closed(tmp_path: Path) -> None:
    """A client that pulls for the workspace leaves a closed file's last diagnostics to what it is told there."""
    (tmp_path / "a.py").write_text(TWICE)
    async with editor(captured("vscode-1.139.1", tmp_path), tmp_path) as connected:
        uri = connected.open("a.py", TWICE)
        assert len(await connected.diagnostics(uri)) == 1
        waiting = asyncio.ensure_future(pull(connected, {}))
        connected.close(uri)
        assert counts(await asyncio.wait_for(waiting, WAIT)) == {"a.py": 0}
        again = asyncio.ensure_future(pull(connected, {}))
        await asyncio.sleep(1)
        assert not again.done(), "that is told once"
        connected.close(connected.open("b.py", ""))
        assert counts(await asyncio.wait_for(again, WAIT)) == {"b.py": 0}


async def test_what_was_not_saved_goes_with_the_file_that_is_closed(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(TWICE)
    async with editor(captured("vscode-1.139.1", tmp_path, WORKSPACE), tmp_path) as connected:
        told: dict[str, str] = {}
        assert counts(await pull(connected, told)) == {"a.py": 1}
        waiting = asyncio.ensure_future(pull(connected, told))
        uri = connected.open("a.py", TWICE)
        connected.type(uri, 0, 0, "x = 1", replacing=15)
        assert await connected.diagnostics(uri) == []
        connected.close(uri)
        assert counts(await asyncio.wait_for(waiting, WAIT)) == {"a.py": 1}, "the one on disk"


async def test_many_files_are_told_in_parts(tmp_path: Path) -> None:
    for number in range(45):
        (tmp_path / f"f{number}.py").write_text(TWICE)
    async with editor(captured("vscode-1.139.1", tmp_path, WORKSPACE), tmp_path) as connected:
        parts: list[int] = []

        def told(params: Any) -> None:
            parts.append(len(params.value["items"] if isinstance(params.value, dict) else params.value.items))

        connected.client.protocol.fm.features[t.PROGRESS] = told
        rest = await pull(connected, {}, token="part")
        assert (parts, len(rest)) == ([20, 20], 5)


async def test_a_file_that_breaks_the_analysis_leaves_the_others(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("# crash\n")
    (tmp_path / "b.py").write_text(TWICE)
    (tmp_path / "c.py").write_bytes(b"\xff\xfe")
    os.symlink(tmp_path / "nowhere.py", tmp_path / "d.py")
    async with editor(captured("vscode-1.139.1", tmp_path, WORKSPACE), tmp_path) as connected:
        assert counts(await pull(connected, {})) == {"a.py": 0, "b.py": 1, "c.py": 0}


NOTEBOOK = {
    "nbformat": 4,
    "nbformat_minor": 5,
    "metadata": {"kernelspec": {"name": "python3", "language": "python"}},
    "cells": [
        {"cell_type": "markdown", "metadata": {}, "source": "# A model"},
        {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None, "source": "loss.backward()"},
        {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None, "source": "\nloss.backward()"},
    ],
}


async def test_a_closed_notebook_is_reported_on_until_it_is_opened(tmp_path: Path) -> None:
    (tmp_path / "closed.ipynb").write_text(json.dumps(NOTEBOOK))
    async with editor(captured("vscode-1.139.1", tmp_path, WORKSPACE), tmp_path) as connected:
        told: dict[str, str] = {}
        (report,) = await pull(connected, told)
        (found,) = report.items
        assert (report.uri, found.range.start) == (connected.uri("closed.ipynb"), t.Position(0, 0))
        assert found.message.startswith("line 2 of cell 3: this graph was freed")

        waiting = asyncio.ensure_future(pull(connected, told))
        cells = [t.NotebookCell(t.NotebookCellKind.Code, f"cell:{number}") for number in range(2)]
        document = t.NotebookDocument(connected.uri("closed.ipynb"), "jupyter-notebook", 1, cells)
        texts = [t.TextDocumentItem(f"cell:{number}", "python", 1, "loss.backward()") for number in range(2)]
        connected.client.notebook_document_did_open(t.DidOpenNotebookDocumentParams(document, texts))
        assert counts(await asyncio.wait_for(waiting, WAIT)) == {"closed.ipynb": 0}

        waiting = asyncio.ensure_future(pull(connected, told))
        gone = [t.TextDocumentIdentifier(f"cell:{number}") for number in range(2)]
        identifier = t.NotebookDocumentIdentifier(connected.uri("closed.ipynb"))
        connected.client.notebook_document_did_close(t.DidCloseNotebookDocumentParams(identifier, gone))
        assert counts(await asyncio.wait_for(waiting, WAIT)) == {"closed.ipynb": 1}


async def test_a_closed_file_sees_the_unsaved_edits_of_what_it_imports(tmp_path: Path) -> None:
    whole = "def scaled(x):\n    return (x * 2).exp().sum()\n"
    (tmp_path / "losses.py").write_text(whole)
    (tmp_path / "between.py").write_text("from losses import scaled\n")
    program = "import torch\nfrom between import scaled\nscaled(torch.randn(3, requires_grad=True)).backward()\n"
    (tmp_path / "train.py").write_text(program)
    async with editor(captured("vscode-1.139.1", tmp_path, WORKSPACE), tmp_path, REAL) as connected:
        told: dict[str, str] = {}
        module = connected.open("losses.py", whole)
        assert counts(await pull(connected, told)) == {"between.py": 0, "train.py": 0}
        waiting = asyncio.ensure_future(pull(connected, told))
        connected.type(module, 1, 12, "x.detach()", replacing=1)
        found = counts(await asyncio.wait_for(waiting, WAIT))
        assert found["train.py"] == 1, "by way of a file that is closed, too"
        waiting = asyncio.ensure_future(pull(connected, told))
        connected.close(module)
        assert counts(await asyncio.wait_for(waiting, WAIT))["train.py"] == 0
