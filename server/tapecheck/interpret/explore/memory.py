"""What earlier analyses of a file found, start by start, for as long as nothing that a start can reach has changed.

A start is the module itself or a function that is begun with unknown arguments. Its key holds the code of every
statement of the module that it can come to by a name, in their order; beside it stands where they stand, which files
its imports led to, and what its conditions asked about the numbers of the whole file. An edit in one function leaves
the results of all others as they are, and moves those whose lines it moves.
"""

from __future__ import annotations

import ast
import builtins
import threading
from collections import OrderedDict
from collections.abc import Hashable, Set
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, Protocol, TypeVar

from tapecheck.interpret import limits
from tapecheck.interpret.explore import lived
from tapecheck.interpret.explore.effects import Facts, class_facts, facts_of, statement_facts
from tapecheck.interpret.explore.index import Answers, Index, NumberFlow, answers_the_same
from tapecheck.source import Source
from tapecheck.source.lexed import code_lines
from tapecheck.source.modules import Basis, Modules
from tapecheck.source.nodes import first_line, given_to
from tapecheck.source.notes import placeless
from tapecheck.tape import (
    Backward,
    GradientCleared,
    Hold,
    InPlace,
    Moves,
    Optimizer,
    Overwritten,
    Raised,
    ShardUse,
    Span,
    StaleShards,
    Step,
    Tape,
    Where,
)

_OF_MODULES = frozenset(("__import__", "exec", "globals", "import_module", "locals"))
"""Functions by which a program can come to whatever stands in its file, as names and as attributes."""
_BARE = _OF_MODULES | {"__builtins__", "builtins", "eval", "vars"}
"""Those as names alone: `model.eval()` is another one."""
_ANYTHING = "*"

_BUILTINS = frozenset(dir(builtins))
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


class Movable(Protocol):
    """A result that can be had for a text whose lines have moved.

    `told` is what it asked about the numbers of the file.
    """

    told: Answers

    def moved(self: Result, before: Where, after: Where) -> Result:
        """Return the same result in the places that its pieces have now."""
        ...


Result = TypeVar("Result", bound=Movable)


class _Code(NamedTuple):
    """What Python reads of the lines of a piece of the module, and which of them hold it, counted from the first."""

    text: str
    rows: tuple[int, ...]


class _Piece(NamedTuple):
    """A piece of the module: its first line, its code, and the names that it mentions."""

    first: int
    code: _Code
    names: frozenset[str]


class Reach:
    """Which statements of a file each start can come to."""

    def __init__(self, source: Source, index: Index) -> None:
        self._source = source
        # What was left out of a broken text is not run.
        self._lines = source.parsed.lines if source.parsed is not None else source.lines
        self._index = index
        self._defined: dict[str, list[_Piece]] = {}
        self._always: list[_Piece] = []
        self._main: list[_Piece] = []
        imported: set[str] = set()
        known = set(_BUILTINS)
        for node in source.tree.body:
            code = source.notes.of(node, _code_of_statement, self._lines)
            statement = _Piece(first_line(node), code, source.notes.of(node, _names_of_statement, index))
            if isinstance(node, _DEFINITIONS):
                self._defined.setdefault(node.name, []).append(statement)
                # Of a definition that nobody comes to, what stands in its class, its decorators and defaults is run.
                self._always += [
                    self._piece(part)
                    for part in source.notes.of(node, _run_when_defined)
                    if not _plain(part, imported, known)
                ]
                known.add(node.name)
                imported.discard(node.name)
            else:
                # What is known is known from here on, and no longer where another value may be in its place.
                bound = source.notes.of(node, _bound)
                known -= bound
                imported -= bound
                if isinstance(node, (ast.Import, ast.ImportFrom)):
                    known |= bound
                    imported |= bound
                # A function that is started finds the module imported, not run.
                (self._main if _asks_for_main(node) else self._always).append(statement)
        self._whole: _Code | None = None
        # Which classes the file makes objects of, and which globals its functions change: see `lived`.
        self._lived = lived.called_names(source) | lived.changed_globals(source)

    def _piece(self, node: ast.stmt | ast.expr) -> _Piece:
        names = frozenset(_mentioned(facts_of((node,))))
        if isinstance(node, ast.stmt):
            return _Piece(first_line(node), _code_of_statement(node, self._lines), names)
        return _Piece(node.lineno, _code(node.lineno, node.end_lineno, self._lines), names)

    def key(self, start: str | None) -> tuple[Hashable, Where]:
        """Return what the result of a start depends on in its own file, and where that stands there.

        None stands for the module itself.
        """
        found: dict[str, None] = {}
        queue: list[str] = [start] if start is not None else []
        pieces = self._always if start is not None else [*self._always, *self._main]
        pieces = list(pieces)
        for piece in pieces:
            queue.extend(piece.names)
        for name in queue:
            if name in found:
                continue
            found[name] = None
            for piece in self._defined.get(name, ()):
                pieces.append(piece)
                queue.extend(piece.names)
        if _ANYTHING in found:
            if self._whole is None:
                self._whole = _code(1, len(self._lines), self._lines)
            return self._whole.text, ((self._source.path, ((1, self._whole.rows),)),)
        # Methods are called by name on what nobody knows: of those that are not reached their effects matter.
        methods = self._index.defined.methods
        closures = self._index.calls.closures_of_methods
        effects = tuple(sorted((name, closures(name)) for name in found if name in methods))
        lived = tuple(sorted(self._lived & found.keys())) if start is not None else ()
        pieces.sort(key=_place_of)
        where = tuple((piece.first, piece.code.rows) for piece in pieces)
        key = (tuple([piece.code.text for piece in pieces]), effects, lived)
        return key, ((self._source.path, where),)


def _place_of(piece: _Piece) -> tuple[int, _Code]:
    return piece.first, piece.code


@placeless
def _names_of_statement(node: ast.stmt, index: Index) -> frozenset[str]:
    if isinstance(node, ast.ClassDef):
        members = [index.defined.body_of(member) for member in node.body]
        names: set[str] = set()
        for facts in (index.notes.of(node, class_facts), *(body.facts for body in members if body is not None)):
            names |= _mentioned(facts)
        return frozenset(names)
    body = index.defined.body_of(node)
    return frozenset(_mentioned(body.facts if body is not None else index.notes.of(node, statement_facts)))


@placeless
def _code_of_statement(node: ast.stmt, lines: list[str]) -> _Code:
    return _code(first_line(node), node.end_lineno, lines)


def _code(first: int, last: int | None, lines: list[str]) -> _Code:
    return _Code(*code_lines("\n".join(lines[first - 1 : last])))


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


@placeless
def _bound(node: ast.stmt) -> frozenset[str]:
    """Return the names that a statement of a module gives values to, or takes them from."""
    found: set[str] = set()
    for part in ast.walk(node):
        match part:
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                found.add(name)
            case ast.alias(name=name, asname=alias):
                found.add((alias or name).partition(".")[0])
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef() | ast.ExceptHandler(name=str()):
                found.add(part.name or "")
    return frozenset(found)


def _plain(node: ast.stmt | ast.expr, imported: Set[str], known: Set[str]) -> bool:
    """Whether nothing hangs on what a piece of a definition does: it names what is known, or calls what is imported."""
    match node:
        case ast.Name(id=name):
            return name in known
        case ast.Attribute(value=inner) | ast.UnaryOp(operand=inner):
            return _plain(inner, imported, known)
        case ast.Call(func=function):
            given = given_to(node)
            return _plain(function, imported, imported) and all(_plain(part, imported, known) for part in given)
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            return all(_plain(part, imported, known) for part in parts)
        case (
            ast.Expr(value=ast.Constant())
            | ast.Assign(value=ast.Constant())
            | ast.AnnAssign(value=ast.Constant() | None)
            | ast.Constant()
            | ast.Pass()
        ):
            return True
    return False


def _asks_for_main(node: ast.stmt) -> bool:
    """Whether a statement is `if __name__ == ...` without an `else`."""
    match node:
        case ast.If(test=ast.Compare(left=ast.Name(id="__name__")), orelse=[]):
            return True
    return False


def _mentioned(facts: Facts) -> set[str]:
    """Return the names that a piece of code can come to statements by."""
    found = facts.names | facts.attributes | facts.own
    if not _BARE.isdisjoint(facts.names) or not _OF_MODULES.isdisjoint(facts.attributes):
        found.add(_ANYTHING)
    return found


_JUDGED = (
    Backward, GradientCleared, Hold, InPlace, Optimizer, Overwritten, Raised, ShardUse, StaleShards, Step,
)  # fmt: skip


@dataclass(slots=True)
class Group:
    """The tapes of one start, and where what the start can come to stands in its file; `start` is the function that
    it begins with, None for the module.
    """

    tapes: list[Tape] = field(default_factory=list)
    where: Where = ()
    start: Span | None = None
    _before: tuple[Group, Moves] | None = None
    _judged: frozenset[tuple[str, int]] | None = None

    @property
    def judged(self) -> frozenset[tuple[str, int]]:
        """The lines on which its tapes do what rules judge, by file and number."""
        if self._judged is None:
            if self._before is not None:
                # Tapes that have moved need not be made for that.
                before, moves = self._before
                self._judged = frozenset((file, moves.line(file, line)) for file, line in before.judged)
                self._before = None
            else:
                self._judged = frozenset(
                    (event.at.span.file, event.at.span.line)
                    for tape in self.tapes
                    for way in (tape, *tape.beyond)
                    for event in way.events
                    if isinstance(event, _JUDGED)
                )
        return self._judged

    def moved(self, tapes: list[Tape], after: Where) -> Group:
        """Return the group of the same tapes where they stand now."""
        before, start = (
            (self._before[0], self._before[1].states[0][0]) if self._before is not None else (self, self.where)
        )
        here = Moves([(self.where, after)]).span(self.start) if self.start is not None else None
        return Group(tapes, after, here, (before, Moves([(start, after)])))


@dataclass(slots=True)
class Kept(Generic[Result]):
    """A result with the key and the files that it hangs on, and where the pieces of the file stood."""

    key: Hashable
    where: Where
    part: Result
    weight: int
    basis: Basis


def kept(key: Hashable, where: Where, part: Result, events: int, source: Source, project: Modules) -> Kept[Result]:
    """Return a result with what it was worked out from."""
    weight = events + limits.START_EVENTS + len(source.text) // limits.CHARACTERS_AN_EVENT
    return Kept(key, where, part, weight, project.basis)


class Starts(Generic[Result]):
    """Results by file and start, those used last; safe for several threads.

    `under` are results that are read where there are none here, and stay as they are.
    """

    def __init__(self, most_events: int = limits.MAX_EVENTS, under: Starts[Result] | None = None) -> None:
        self.state: int = under.state if under is not None else 0
        """Counts the changes of files on the disk: what was asked about the whole project is asked again after one."""
        self._most = most_events
        self._under = under
        self._weight = 0
        self._kept: OrderedDict[tuple[str, str | None, Hashable], Kept[Result]] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """Return how many results are kept."""
        return len(self._kept)

    def find(
        self,
        path: str,
        start: str | None,
        asked: Hashable,
        key: Hashable,
        where: Where,
        project: Modules,
        numbers: NumberFlow,
    ) -> Result | None:
        """Return the result kept for a start under this key, None where what it came from has changed.

        One whose lines have moved is returned as it would be had they always stood there.
        """
        place = (path, start, asked)
        known = self._still(place, key, project, numbers)
        if known is None or known.where == where:
            return known.part if known is not None else None
        if path in known.basis.texts:
            # It imports itself, as it is on the disk: of two texts of one name nobody knows whose lines are meant.
            return None
        part = known.part.moved(known.where, where)
        self.keep(path, start, asked, Kept(key, where, part, known.weight, known.basis))
        return part

    def _still(
        self, place: tuple[str, str | None, Hashable], key: Hashable, project: Modules, numbers: NumberFlow
    ) -> Kept[Result] | None:
        """Return what is kept under this key and still holds."""
        with self._lock:
            known = self._kept.get(place)
            if known is not None and known.key == key:
                self._kept.move_to_end(place)
        if (
            known is not None
            and known.key == key
            and project.same(known.basis)
            and answers_the_same(numbers, known.part.told)
        ):
            return known
        return self._under._still(place, key, project, numbers) if self._under is not None else None

    def last(self, path: str, start: str | None, asked: Hashable) -> Result | None:
        """Return the last result kept for a start, whatever has changed since."""
        with self._lock:
            known = self._kept.get((path, start, asked))
        if known is not None:
            return known.part
        return self._under.last(path, start, asked) if self._under is not None else None

    def keep(self, path: str, start: str | None, asked: Hashable, kept: Kept[Result]) -> None:
        """Keep a result in the place of the last one of that start; the oldest of all give way."""
        place = (path, start, asked)
        with self._lock:
            before = self._kept.pop(place, None)
            self._weight += kept.weight - (before.weight if before is not None else 0)
            self._kept[place] = kept
            while self._weight > self._most and len(self._kept) > 1:
                _, oldest = self._kept.popitem(last=False)
                self._weight -= oldest.weight
