"""What earlier analyses of a file found, start by start, for as long as nothing that a start can reach has changed.

A start is the module itself or a function that is begun with unknown arguments. Its key holds the text and place of
every statement of the module that it can come to by a name, and what the conditions of the file are told by; beside
it stands which files its imports led to. An edit in one function leaves the results of all others as they are.
"""

from __future__ import annotations

import ast
import builtins
import threading
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from tapecheck.interpret import limits
from tapecheck.interpret.explore import entries
from tapecheck.interpret.explore.effects import Facts, Index, class_facts, facts_of
from tapecheck.source import Source
from tapecheck.source.lexed import code_of
from tapecheck.source.modules import Basis, Project
from tapecheck.source.nodes import first_line

_ANYTHING = frozenset(("__import__", "eval", "exec", "globals", "import_module", "locals", "vars"))
"""Names by which a program can come to whatever stands in its file."""

_BUILTINS = frozenset(dir(builtins))
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)

Part = TypeVar("Part")


@dataclass(slots=True)
class _Statement:
    """A statement of the module: the names it defines and mentions, and its text with its place."""

    names: frozenset[str]
    text: tuple[int, str]


class Reach:
    """Which statements of a file each start can come to."""

    def __init__(self, source: Source, index: Index) -> None:
        self._source = source
        # What was left out of a broken text is not run.
        self._lines = source.parsed.lines if source.parsed is not None else source.lines
        self._index = index
        self._defined: dict[str, list[_Statement]] = {}
        self._always: list[_Statement] = []
        self._main: list[_Statement] = []
        imported = _imported(source.tree)
        known = imported | _BUILTINS | {node.name for node in source.tree.body if isinstance(node, _DEFINITIONS)}
        for node in source.tree.body:
            statement = source.notes.of(node, _statement, index, self._lines)
            if isinstance(node, _DEFINITIONS):
                self._defined.setdefault(node.name, []).append(statement)
                # Of a definition that nobody comes to, what stands in its class, its decorators and defaults is run.
                self._always += [
                    self._piece(part)
                    for part in source.notes.of(node, _run_when_defined)
                    if not _plain(part, imported, known)
                ]
            else:
                # A function that is started finds the module imported, not run.
                (self._main if _asks_for_main(node) else self._always).append(statement)
        self._tested = hash((index.tested, index.steering))
        # Which classes the file makes objects of, and which globals its functions change: see `entries`.
        self._lived = entries.called_names(source) | entries.changed_globals(source)

    def _piece(self, node: ast.stmt | ast.expr) -> _Statement:
        return _Statement(frozenset(_mentioned(facts_of((node,)))), _written(node, self._lines))

    def key(self, start: str | None) -> Hashable:
        """Return what the result of a start depends on in its own file; None stands for the module itself."""
        found: dict[str, None] = {}
        queue: list[str] = [start] if start is not None else []
        run = self._always if start is not None else [*self._always, *self._main]
        parts = [statement.text for statement in run]
        for statement in run:
            queue.extend(statement.names)
        for name in queue:
            if name in found:
                continue
            found[name] = None
            for statement in self._defined.get(name, ()):
                parts.append(statement.text)
                queue.extend(statement.names)
        if not _ANYTHING.isdisjoint(found):
            return self._source.text
        # Methods are called by name on what nobody knows: of those that are not reached their effects matter.
        effects = tuple(
            sorted(
                (name, int(self._index.closure(body))) for name in found for body in self._index.methods.get(name, ())
            )
        )
        lived = tuple(sorted(self._lived & found.keys())) if start is not None else ()
        return (tuple(sorted(parts)), effects, self._tested, lived)


def _statement(node: ast.stmt, index: Index, lines: list[str]) -> _Statement:
    names: set[str] = set()
    if isinstance(node, ast.ClassDef):
        members = [index.body_of(member) for member in node.body]
        for facts in (index.notes.of(node, class_facts), *(body.facts for body in members if body is not None)):
            names |= _mentioned(facts)
    else:
        body = index.body_of(node)
        names |= _mentioned(body.facts if body is not None else facts_of((node,)))
    return _Statement(frozenset(names), _written(node, lines))


def _written(node: ast.stmt | ast.expr, lines: list[str]) -> tuple[int, str]:
    """Return where a piece of the module begins, and what Python reads of its lines."""
    first = first_line(node) if isinstance(node, ast.stmt) else node.lineno
    return first, code_of("\n".join(lines[first - 1 : node.end_lineno]))


def _run_when_defined(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> list[ast.stmt | ast.expr]:
    """Return what is run when a definition of the module is come to, the functions in it left out."""
    found: list[ast.stmt | ast.expr] = list(node.decorator_list)
    for part in node.body if isinstance(node, ast.ClassDef) else ():
        found += _run_when_defined(part) if isinstance(part, _DEFINITIONS) else [part]
    if isinstance(node, ast.ClassDef):
        found += [*node.bases, *(keyword.value for keyword in node.keywords)]
    else:
        found += [*node.args.defaults, *(default for default in node.args.kw_defaults if default is not None)]
    return found


def _imported(tree: ast.Module) -> frozenset[str]:
    """Return the names that imports at the top of a module give."""
    return frozenset(
        (item.asname or item.name).partition(".")[0]
        for node in tree.body
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for item in node.names
    )


def _plain(node: ast.stmt | ast.expr, imported: frozenset[str], known: frozenset[str]) -> bool:
    """Whether nothing hangs on what a piece of a definition does: it names what is known, or calls what is imported."""
    if isinstance(node, ast.Constant):
        return True
    if isinstance(node, ast.Name):
        return node.id in known
    if isinstance(node, ast.Attribute):
        return _plain(node.value, imported, known)
    if isinstance(node, ast.Call):
        given = (*node.args, *(keyword.value for keyword in node.keywords))
        return _plain(node.func, imported, imported) and all(_plain(part, imported, known) for part in given)
    if isinstance(node, (ast.Tuple, ast.List)):
        return all(_plain(part, imported, known) for part in node.elts)
    if isinstance(node, ast.UnaryOp):
        return _plain(node.operand, imported, known)
    if isinstance(node, (ast.Expr, ast.Assign)):
        return isinstance(node.value, ast.Constant)
    if isinstance(node, ast.AnnAssign):
        return node.value is None or isinstance(node.value, ast.Constant)
    return isinstance(node, ast.Pass)


def _asks_for_main(node: ast.stmt) -> bool:
    """Whether a statement is `if __name__ == ...` without an `else`."""
    return (
        isinstance(node, ast.If)
        and not node.orelse
        and isinstance(node.test, ast.Compare)
        and isinstance(node.test.left, ast.Name)
        and node.test.left.id == "__name__"
    )


def _mentioned(facts: Facts) -> set[str]:
    return facts.names | facts.attributes | facts.own


@dataclass(slots=True)
class Kept(Generic[Part]):
    """A result with the key and the files that it hangs on."""

    key: Hashable
    part: Part
    weight: int
    basis: Basis


def kept(key: Hashable, part: Part, events: int, source: Source, project: Project) -> Kept[Part]:
    """Return a result with what it was worked out from."""
    weight = events + limits.START_EVENTS + len(source.text) // limits.CHARACTERS_AN_EVENT
    return Kept(key, part, weight, project.basis)


class Starts(Generic[Part]):
    """Results by file and start, those used last; safe for several threads.

    `under` are results that are read where there are none here, and stay as they are.
    """

    def __init__(self, most_events: int = limits.MAX_EVENTS, under: Starts[Part] | None = None) -> None:
        self._most = most_events
        self._under = under
        self._weight = 0
        self._kept: OrderedDict[tuple[str, str | None, Hashable], Kept[Part]] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """Return how many results are kept."""
        return len(self._kept)

    def find(self, path: str, start: str | None, asked: Hashable, key: Hashable, project: Project) -> Part | None:
        """Return the result kept for a start under this key, None where what it came from has changed."""
        place = (path, start, asked)
        with self._lock:
            known = self._kept.get(place)
            if known is not None and known.key == key:
                self._kept.move_to_end(place)
        if known is not None and known.key == key and project.same(known.basis):
            return known.part
        return self._under.find(path, start, asked, key, project) if self._under is not None else None

    def last(self, path: str, start: str | None, asked: Hashable) -> Part | None:
        """Return the last result kept for a start, whatever has changed since."""
        with self._lock:
            known = self._kept.get((path, start, asked))
        if known is not None:
            return known.part
        return self._under.last(path, start, asked) if self._under is not None else None

    def keep(self, path: str, start: str | None, asked: Hashable, kept: Kept[Part]) -> None:
        """Keep a result in the place of the last one of that start; the oldest of all give way."""
        place = (path, start, asked)
        with self._lock:
            before = self._kept.pop(place, None)
            self._weight += kept.weight - (before.weight if before is not None else 0)
            self._kept[place] = kept
            while self._weight > self._most and len(self._kept) > 1:
                _, oldest = self._kept.popitem(last=False)
                self._weight -= oldest.weight
