"""Open notebooks: their cells as the editor edits them, and the one document that is analysed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

from tapecheck.lsp.document import Document

CellText = tuple[int, str, str]
"""A Python cell: its number among all cells of the notebook, its text, the uri of its document."""


class Notebook(Document):
    """The program of an open notebook. Its cells are documents of their own; `rejoin` follows their edits."""

    def __init__(self, uri: str, path: str, version: int | None) -> None:
        self.order: list[str] = []
        self.documents: dict[str, Document] = {}
        self.cells: tuple[CellText, ...] = ()
        super().__init__(uri, path, "", version)

    def splice(self, start: int, removed: int, cells: Sequence[str]) -> list[str]:
        """Replace `removed` cells from place `start` on by others (uris); return those that are gone."""
        gone = self.order[start : start + removed]
        self.order[start : start + removed] = cells
        return [uri for uri in gone if uri not in self.order]

    def open_cells(self, cells: Iterable[Document]) -> None:
        for cell in cells:
            self.documents[cell.uri] = cell

    def close_cells(self, uris: Iterable[str]) -> None:
        for uri in uris:
            self.documents.pop(uri, None)

    def rejoin(self, version: int | None) -> None:
        """Take the present texts of the cells as the program's."""
        self.cells = tuple(
            (number, document.text, uri)
            for number, uri in enumerate(self.order, 1)
            if (document := self.documents.get(uri)) is not None and document.language == "python"
        )
        self.replace("\n".join(text for _, text, _ in self.cells), version)
        # Editors report saved notebooks in another way than files; they are analysed as they are typed.
        self.dirty = False
        # One text may be cut into cells in different ways.
        parts = "\0".join(f"{number}\0{uri}\0{text}" for number, text, uri in self.cells)
        self.digest = hashlib.sha256(parts.encode("utf-8", "surrogatepass")).hexdigest()[:16]
