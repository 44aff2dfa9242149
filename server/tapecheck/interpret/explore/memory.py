"""What earlier analyses of a file found, start by start, for as long as nothing that a start can reach has changed.

A start is the module itself or a function that is begun with unknown arguments. Its key holds the text and place of
every statement of the module that it can come to by a name, and what the conditions of the file are told by; beside
it stands which files its imports led to. An edit in one function leaves the results of all others as they are.
"""

from __future__ import annotations

import ast
import threading
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from tapecheck.interpret.explore import entries
from tapecheck.interpret.explore.effects import Facts, Index, facts_of
from tapecheck.source import Source
from tapecheck.source.lexed import code_of
from tapecheck.source.modules import Project, Question
from tapecheck.source.nodes import first_line
from tapecheck.source.search import Found

MAX_EVENTS = 1_500_000
"""How many events the tapes of a memory may hold, about 200 bytes each."""
_ANYTHING = frozenset(("__import__", "eval", "exec", "globals", "import_module", "locals", "vars"))
"""Names by which a program can come to whatever stands in its file."""

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
        for statement in source.tree.body:
            self._add(statement)
        self._tested = hash((index.tested, index.steering))
        # Which classes the file makes objects of, and which globals its functions change: see `entries`.
        self._lived = entries.called_names(source.tree) | entries.changed_globals(source.tree)

    def _add(self, node: ast.stmt) -> None:
        text = _written(node, self._lines)
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            # A function that is started finds the module imported, not run.
            where = self._main if _asks_for_main(node) else self._always
            where.append(_Statement(frozenset(_mentioned(facts_of((node,)))), text))
            return
        names: set[str] = set()
        if isinstance(node, ast.ClassDef):
            bodies = [body.facts for body in self._index.classes.get(node.name, {}).values()]
            for facts in (*bodies, self._index.class_facts.get(node.name, Facts())):
                names |= _mentioned(facts)
        else:
            body = self._index.body_of(node)
            names |= _mentioned(body.facts if body is not None else facts_of((node,)))
        self._defined.setdefault(node.name, []).append(_Statement(frozenset(names), text))

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


def _written(node: ast.stmt, lines: list[str]) -> tuple[int, str]:
    """Return where a statement of the module begins, and what Python reads of its text."""
    known: tuple[int, str] | None = getattr(node, "_tapecheck_written", None)
    if known is None:
        first = first_line(node)
        known = first, code_of("\n".join(lines[first - 1 : node.end_lineno]))
        node._tapecheck_written = known  # type: ignore[attr-defined]
    return known


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
    events: int
    imports: dict[Question, Found | None] = field(default_factory=dict)
    texts: dict[str, str | None] = field(default_factory=dict)

    def holds(self, project: Project) -> bool:
        """Whether the imports lead to the same files as they did, and these say the same."""
        if any(project.ask(question) != found for question, found in self.imports.items()):
            return False
        return all(_text(project, path) == text for path, text in self.texts.items())


def _text(project: Project, path: str) -> str | None:
    source = project.source(path)
    return source.text if source is not None else None


def kept(key: Hashable, part: Part, events: int, project: Project) -> Kept[Part]:
    """Return a result with what it was worked out from."""
    return Kept(key, part, events, dict(project.asked), {path: _text(project, path) for path in project.read})


class Starts(Generic[Part]):
    """Results by file and start, those used last; safe for several threads.

    `under` are results that are read where there are none here, and stay as they are.
    """

    def __init__(self, most_events: int = MAX_EVENTS, under: Starts[Part] | None = None) -> None:
        self._most = most_events
        self._under = under
        self._events = 0
        self._kept: OrderedDict[tuple[str, str | None, Hashable], Kept[Part]] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, path: str, start: str | None, asked: Hashable, key: Hashable, project: Project) -> Part | None:
        """Return the result kept for a start under this key, None where what it came from has changed."""
        place = (path, start, asked)
        with self._lock:
            known = self._kept.get(place)
            if known is not None and known.key == key:
                self._kept.move_to_end(place)
        if known is not None and known.key == key and known.holds(project):
            return known.part
        return self._under.find(path, start, asked, key, project) if self._under is not None else None

    def keep(self, path: str, start: str | None, asked: Hashable, kept: Kept[Part]) -> None:
        """Keep a result in the place of the last one of that start; the oldest of all give way."""
        place = (path, start, asked)
        with self._lock:
            before = self._kept.pop(place, None)
            self._events += kept.events - (before.events if before is not None else 0)
            self._kept[place] = kept
            while self._events > self._most and len(self._kept) > 1:
                _, oldest = self._kept.popitem(last=False)
                self._events -= oldest.events
