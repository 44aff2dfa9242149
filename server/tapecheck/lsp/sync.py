"""Open documents and notebooks, kept as the client edits them, and files that change on disk."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from lsprotocol import types as t

from tapecheck.lsp.document import Document
from tapecheck.lsp.notebook import Notebook
from tapecheck.lsp.places import document_position, path_of

if TYPE_CHECKING:
    from tapecheck.lsp.host import Host


def did_open(ls: Host, params: t.DidOpenTextDocumentParams) -> None:
    item = params.text_document
    ls.closed_files.closed.discard(item.uri)
    ls.session.open(item.uri, path_of(item.uri), item.text, item.version, item.language_id)
    ls.refresh(item.uri)


def did_change(ls: Host, params: t.DidChangeTextDocumentParams) -> None:
    uri, version = params.text_document.uri, params.text_document.version
    document = ls.session.documents.get(uri)
    if document is None:
        return
    _edit(ls, document, params.content_changes, version)
    ls.refresh(uri)
    ls.refresh_importers(uri)


def did_save(ls: Host, params: t.DidSaveTextDocumentParams) -> None:
    document = ls.session.documents.get(params.text_document.uri)
    if document is not None:
        waited = ls.session.waits_for_save(document.uri)
        document.dirty = False
        if waited:
            ls.refresh(document.uri, at_once=True)
    if not ls.client.watches_files:
        files_changed(ls, {params.text_document.uri})


def did_change_files(ls: Host, params: t.DidChangeWatchedFilesParams) -> None:
    files_changed(ls, {change.uri for change in params.changes})


def files_changed(ls: Host, changed: set[str]) -> None:
    """Analyse open files anew that may import files which changed on disk."""
    ls.closed_files.changed.set()
    if all(uri.endswith(".ipynb") for uri in changed):
        return
    if ls.session.forget_importers(changed):
        ls.refresh_all()


def did_close(ls: Host, params: t.DidCloseTextDocumentParams) -> None:
    document = ls.session.documents.get(params.text_document.uri)
    if document is not None and ls.client.pull:
        ls.closed_files.closed.add(document.uri)
        ls.closed_files.changed.set()
    if document is not None and document.dirty:
        # What was not saved is gone: those that import the file see the one on disk again.
        for other in ls.session.importers(document.uri):
            ls.session.forget_one(other)
            ls.refresh(other)
    ls.session.close(params.text_document.uri)
    ls.close(params.text_document.uri)
    if document is not None and not ls.client.pull:
        ls.publish(document.uri, None, [])


def did_open_notebook(ls: Host, params: t.DidOpenNotebookDocumentParams) -> None:
    given = params.notebook_document
    notebook = ls.session.open_notebook(given.uri, path_of(given.uri), given.version)
    notebook.splice(0, 0, [cell.document for cell in given.cells])
    notebook.open_cells(_documents(notebook, params.cell_text_documents))
    ls.session.rejoin(notebook, given.version)
    ls.closed_files.changed.set()
    ls.refresh(notebook.uri)


def did_change_notebook(ls: Host, params: t.DidChangeNotebookDocumentParams) -> None:
    notebook = ls.session.documents.get(params.notebook_document.uri)
    cells = params.change.cells
    if not isinstance(notebook, Notebook):
        return
    if cells is None:
        notebook.version = params.notebook_document.version
        return
    gone: list[str] = []
    if cells.structure is not None:
        array = cells.structure.array
        gone = notebook.splice(array.start, array.delete_count, [cell.document for cell in array.cells or ()])
        notebook.close_cells(closed.uri for closed in cells.structure.did_close or ())
        notebook.open_cells(_documents(notebook, cells.structure.did_open or ()))
    for changed in cells.text_content or ():
        document = notebook.documents.get(changed.document.uri)
        if document is not None:
            _edit(ls, document, changed.changes, changed.document.version)
    ls.session.rejoin(notebook, params.notebook_document.version)
    for uri in gone:
        ls.publish(uri, None, [])
    ls.refresh(notebook.uri)


def did_close_notebook(ls: Host, params: t.DidCloseNotebookDocumentParams) -> None:
    uri = params.notebook_document.uri
    ls.session.close(uri)
    ls.close(uri)
    ls.closed_files.changed.set()
    for cell in params.cell_text_documents:
        ls.publish(cell.uri, None, [])


def _documents(notebook: Notebook, items: Iterable[t.TextDocumentItem]) -> list[Document]:
    return [Document(item.uri, notebook.path, item.text, item.version, item.language_id) for item in items]


def _edit(
    ls: Host, document: Document, changes: Iterable[t.TextDocumentContentChangeEvent], version: int | None
) -> None:
    # Also where nothing changes: an undo within one step leaves a new version of the same text.
    document.version = version
    for change in changes:
        if isinstance(change, t.TextDocumentContentChangePartial):
            start, end = document_position(change.range.start), document_position(change.range.end)
            document.edit(start, end, change.text, ls.converter.encoding, version)
        else:
            document.replace(change.text, version)
