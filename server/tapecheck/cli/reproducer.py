"""`tapecheck debug report`: a small anonymous program that shows an internal error, for bug reports.

The statements that the error does not need are left out, then the program's own names and texts are replaced. Each step
is checked: what is printed shows the same error as the file.
"""

from __future__ import annotations

import argparse
import ast
import builtins
import copy
import platform
from collections.abc import Iterator

from tapecheck.check import check
from tapecheck.cli.shared import NOTHING_FOUND, UsageError, say, write
from tapecheck.interpret import faults
from tapecheck.source import SourceError, from_text, read_source
from tapecheck.version import __version__

_MOST_CHECKS = 400
"""Programs that are checked to make one small: each takes at most as long as the file itself."""
_Signature = frozenset[tuple[str, str]]


def report(options: argparse.Namespace) -> int:
    """Print a program that shows the internal error of a file; raises UsageError where it cannot be read."""
    try:
        source = read_source(options.file)
    except SourceError as error:
        raise UsageError(str(error)) from error
    wanted = errors_in(source.text, source.path)
    if not wanted:
        say(f"{options.file}: no internal error")
        return NOTHING_FOUND
    try:
        tree = ast.parse(ast.unparse(source.tree))
    except (RecursionError, SyntaxError, ValueError) as error:
        raise UsageError(f"{options.file}: the program cannot be made smaller: {error}") from error
    names = own_names(tree)
    first = min(wanted)
    reduced = Reduction(frozenset((first,)), source.path)
    if not reduced.shows(tree):
        raise UsageError(f"{options.file}: the error hangs on how the file is written; please send the file")
    reduced.reduce(tree)
    small = anonymous(tree, names)
    hidden = reduced.shows(small)
    if not hidden:
        say("names and texts are the file's own, since the error hangs on them: read the program before you send it")
    head = f"# tapecheck {__version__}, Python {platform.python_version()}: {first[0]} at {first[1]}\n"
    write(head + ast.unparse(small if hidden else tree) + "\n")
    return NOTHING_FOUND


def errors_in(text: str, path: str) -> _Signature:
    """Return the internal errors that a check meets: the kinds of exceptions and the lines of Tapecheck."""
    try:
        found = [fault.error for fault in check(from_text(text, path)).interpretation.faults]
    except Exception as error:  # the boundary: this is what is looked for
        found = [faults.described(error)]
    return frozenset((one.partition(":")[0], one.rpartition(" at ")[2]) for one in found)


class Reduction:
    """Leaves out of a program what its error does not need."""

    def __init__(self, wanted: _Signature, path: str) -> None:
        self._wanted = wanted
        self._path = path
        self._left = _MOST_CHECKS

    def shows(self, tree: ast.Module) -> bool:
        """Return whether a program still shows the error."""
        self._left -= 1
        return self._wanted <= errors_in(ast.unparse(tree), self._path)

    def reduce(self, tree: ast.Module) -> None:
        """Take statements out of a tree, blocks of them first, until each one left is needed."""
        size = max(map(len, _blocks(tree)), default=0)
        while size >= 1 and self._left > 0:
            gone = False
            for block in list(_blocks(tree)):
                gone = self._without(tree, block, size) or gone
            if not gone or size > 1:
                size //= 2

    def _without(self, tree: ast.Module, block: list[ast.stmt], size: int) -> bool:
        """Take runs of statements out of a block; return whether any could go."""
        gone = False
        start = 0
        while start < len(block) and self._left > 0:
            before = block[:]
            block[start : start + size] = []
            if not block:
                block.append(ast.Pass())
            if block != before and not _same(block, before) and self.shows(tree):
                gone = True
            else:
                block[:] = before
                start += size
        return gone


def _same(now: list[ast.stmt], before: list[ast.stmt]) -> bool:
    return len(now) == len(before) == 1 and isinstance(now[0], ast.Pass) and isinstance(before[0], ast.Pass)


def _blocks(tree: ast.AST) -> Iterator[list[ast.stmt]]:
    """Yield the lists of statements in a tree, outer ones first."""
    for node in ast.walk(tree):
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if isinstance(block, list) and block and (name == "body" or len(block) > 1):
                yield block


def anonymous(tree: ast.Module, names: dict[str, str]) -> ast.Module:
    """Return a program with other names and other texts."""
    made: ast.Module = _Renamed(names).visit(copy.deepcopy(tree))
    return made


def own_names(tree: ast.AST) -> dict[str, str]:
    """Return new names for those that a program gives: variables, functions, classes, arguments and attributes."""
    found: dict[str, None] = {}
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found[node.name] = None
        elif isinstance(node, ast.arg):
            found[node.arg] = None
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found[node.id] = None
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            found[node.attr] = None
    # Methods that Python and torch call keep their names.
    kept = {"forward", "backward", "step", "training_step", "data", "grad", "requires_grad", *dir(builtins)}
    own = [name for name in found if name not in kept and not (name.startswith("__") and name.endswith("__"))]
    return {name: f"name{number}" for number, name in enumerate(own, 1)}


class _Renamed(ast.NodeTransformer):
    """Replaces names and texts."""

    def __init__(self, names: dict[str, str]) -> None:
        self._names = names
        self._texts: dict[str, str] = {}

    def generic_visit(self, node: ast.AST) -> ast.AST:
        for field in ("id", "name", "attr", "arg", "asname"):
            value = getattr(node, field, None)
            if isinstance(value, str) and not (field == "name" and isinstance(node, ast.alias)):
                setattr(node, field, self._names.get(value, value))
        return super().generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if isinstance(node.value, str):
            node.value = self._texts.setdefault(node.value, f"text{len(self._texts) + 1}")
        return node
