"""Places as the client names them: uris, positions, ranges, and what its columns count."""

from __future__ import annotations

from lsprotocol import types as t
from pygls import uris

from tapecheck.lsp.document import Encoding, Position


def path_of(uri: str) -> str:
    """Return the path of a `file:` uri, the uri itself for anything else (an unsaved file, a notebook's cell)."""
    path = uris.to_fs_path(uri) if uri.startswith("file:") else None
    return path or uri


def document_position(position: t.Position) -> Position:
    return Position(position.line, position.character)


def utf(kind: str | None) -> Encoding:
    """Return the encoding that was agreed on; UTF-16 where nothing was said."""
    if kind == "utf-8":
        return "utf-8"
    return "utf-32" if kind == "utf-32" else "utf-16"


def overlap(left: t.Range, right: t.Range) -> bool:
    """Return whether two ranges touch."""
    return (left.start.line, left.start.character) <= (right.end.line, right.end.character) and (
        right.start.line,
        right.start.character,
    ) <= (left.end.line, left.end.character)
