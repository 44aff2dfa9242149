"""The files of a recorded run, by the name that its tape has for them."""

from __future__ import annotations

import ast
from pathlib import Path

from tapecheck.record.scopes import Scopes
from tapecheck.source import SourceError, read_source


class Files:
    """Where the files of a tape are, and what is in them: each looked at once."""

    def __init__(self, directory: str | None) -> None:
        self.directory = directory
        self._real: dict[str, str] = {}
        self._trees: dict[str, ast.AST | None] = {}
        self._scopes: dict[str, Scopes] = {}

    def real(self, name: str) -> str:
        """Return the whole path of a file."""
        found = self._real.get(name)
        if found is None:
            found = self._real[name] = real_path(name, self.directory)
        return found

    def tree(self, name: str) -> ast.AST | None:
        """Return the parsed text of a file, None where it cannot be read."""
        real = self.real(name)
        if real not in self._trees:
            try:
                self._trees[real] = read_source(real).tree
            except SourceError:
                self._trees[real] = None
        return self._trees[real]

    def scopes(self, name: str) -> Scopes:
        """Return the functions of a file with their variables; none where it cannot be read."""
        real = self.real(name)
        if real not in self._scopes:
            self._scopes[real] = Scopes(self.tree(name))
        return self._scopes[real]


def real_path(file: str, directory: str | None) -> str:
    return str((Path(directory or ".") / file).resolve())
