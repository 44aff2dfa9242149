"""The part of a program that a finding is about: where the rest has nothing to do with it, fixes are tried in it alone.

A script that trains five models one after the other is one run from its start, and a change in one loop would run all
five again. Statements that stand beside those that a finding is about, and share no graph, tensor, optimizer or name
with them, are blanked out. Lines and columns stay, so that a change fits the whole text as well as the part.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from itertools import compress
from typing import TYPE_CHECKING, Union

from tapecheck.fixes.code import Code, root_name
from tapecheck.fixes.edit import Change
from tapecheck.fixes.story import frames
from tapecheck.rules.finding import Finding
from tapecheck.source import Source, from_text
from tapecheck.source.nodes import first_line, id_of, is_read, last_line, of_kind, walk
from tapecheck.tape import (
    Assumed,
    Backward,
    Cut,
    Escape,
    Event,
    GradientsReduced,
    GradientsWithGraph,
    Leaf,
    LeafEscape,
    Loop,
    Node,
    Optimizer,
    Overwritten,
    Rescaled,
    ShardUse,
    Site,
    Span,
    StaleShards,
    SyncSet,
    Tape,
    Unscaled,
    Wrapper,
    WrapperCall,
)

if TYPE_CHECKING:
    from tapecheck.check import Memory, Report

LEAST_EVENTS = 400
"""Events of the ways from a start below which its whole program is tried: there is little to gain."""
LEAST_SHARE = 0.5
"""The share of these events that has to be left out: the part is checked once before anything is tried in it."""

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_HIDDEN = frozenset((
    "__builtins__", "__import__", "builtins", "eval", "exec", "globals", "import_module", "locals", "vars",
))  # fmt: skip
"""Functions by which a program comes to names that its text does not say."""
_GLOBAL = (
    GradientsReduced, GradientsWithGraph, Overwritten, Rescaled, ShardUse, StaleShards, SyncSet, Wrapper, WrapperCall,
)  # fmt: skip
"""Events that matter to more than what they name."""
_NUMBERED = {
    "node": "node", "nodes": "node", "leaf": "node", "leaves": "node", "lost": "node", "of": "node", "params": "node",
    "frozen": "node", "late": "node", "idle": "node", "copy_of": "node", "inputs": "node",
    "storage": "storage", "optimizer": "optimizer", "cuts": "cut", "sources": "cut", "constant_terms": "cut",
    "loop": "loop", "backward": "backward",
}  # fmt: skip
"""The fields that hold ids, by the space that the numbers are of."""
_OWN: dict[type, str] = {
    Leaf: "node", Node: "node", Cut: "cut", Backward: "backward", Optimizer: "optimizer", Loop: "loop",
}  # fmt: skip
"""The space of the `id` that events of a kind have."""
_NOT_ALONE = (ast.Return, ast.Global, ast.Nonlocal, ast.Import, ast.ImportFrom, ast.Yield, ast.YieldFrom)
"""What does more than run and leave names."""
_WORD = re.compile(r"[^\W\d]\w*")

_Definition = Union[ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef]
_Id = tuple[str, int]
_Block = list[ast.stmt]
_Place = tuple[tuple[str, int], ...]
"""Files and lines: where something happens, and the calls that led there, innermost first."""
_OUTSIDE = -1
"""Stands for what runs outside of a block."""


@dataclass(slots=True)
class Part:
    """A part of a program: the report on it, in which `finding` is the one that the fixes are for.

    `reached` are the names by which what was left out can come to functions and classes of the file.
    """

    report: Report
    finding: Finding
    code: Code
    reached: frozenset[str]
    units: list[ast.stmt]
    memory: Memory
    """What checks of the part, and of what is tried in it, have found."""

    def holds(self, path: str, changes: Sequence[Change]) -> bool:
        """Return whether changes of a file touch nothing but what is in the part, and runs in no other."""
        if path != self.code.source.path:
            return False
        source = self.report.source
        for change in changes:
            low, high = max(change.start - 1, 0), change.end + 1
            if source.text[low:high] != self.code.text[low:high]:
                return False
            first, last = self.code.index.place(change.start)[0], self.code.index.place(change.end)[0]
            around = [one for one in self.code.tree.body if first_line(one) <= last and first <= last_line(one) + 1]
            if not around or not all(map(self._is_alone, around)):
                return False
        return True

    def _is_alone(self, statement: ast.stmt) -> bool:
        """Return whether a statement at the top runs in nothing but the part."""
        if isinstance(statement, _DEFINITIONS):
            return statement.name not in self.reached
        return statement in self.units


def part_of(
    report: Report, finding: Finding, code: Code, memory: Memory, check: Callable[[Source, Memory], Report]
) -> Part | None:
    """Return the part of a program that one of its findings is about; None where that is most of it, or nobody knows.

    `check` analyses the text of the part with `memory`, which the part keeps. What it finds has to be what was found
    in the whole.
    """
    if report.narrowed or report.error is not None or finding.span.file != report.source.path:
        return None
    known: dict[object, tuple[Report, Code, frozenset[str], list[ast.stmt], Memory] | None]
    known = report.kept.setdefault("parts", {})
    cut = _Cut(report, finding, code)
    if not cut.worthwhile:
        return None
    key = tuple(map(first_line, cut.left_out)), tuple(map(first_line, cut.units))
    if key not in known:
        source, reached = cut.text()
        alone = check(source, memory) if source is not None and source.error is None else None
        same_there = alone is not None and _says_the_same(alone, report)
        known[key] = (alone, code, reached, cut.units, memory) if alone is not None and same_there else None
    made = known[key]
    if made is None:
        return None
    same = next((one for one in made[0].findings if _alike(one, finding)), None)
    return Part(made[0], same, *made[1:]) if same is not None else None


class _Cut:
    """What can be left out of a program for one finding."""

    def __init__(self, report: Report, finding: Finding, code: Code) -> None:
        self.report = report
        self.code = code
        self.path = report.source.path
        self.left_out: list[ast.stmt] = []
        self.units: list[ast.stmt] = []
        """The statements at the top that the part begins with: what is changed in them is nothing else's."""
        self.worthwhile = False
        uses = _uses_of(report)
        if all(one.matters_to_all for one in uses):
            return
        if "names" not in report.kept:
            report.kept["names"] = Counter(node.id for node in of_kind(code.tree, ast.Name))
        self._names: Counter[str] = report.kept["names"]
        # Its labels may be on lines that others run as well, as those of a forward: what it has of these is shared.
        shown = [one for one in uses if any(one.named(finding.span))]
        if len(shown) != 1 or shown[0].matters_to_all or not _HIDDEN.isdisjoint(self._names):
            return
        (self._uses,) = shown
        self._named = self._uses.named(finding.span)
        start = self._uses.start
        entry = self._functions().get(start) if start else code.tree
        if entry is not None:
            self.worthwhile = self._descend(entry.body, not start) >= sum(self._uses.counts) * LEAST_SHARE

    def _functions(self) -> dict[str, ast.FunctionDef]:
        """Return the functions of the module that have their name for themselves and are what they are written as."""
        defined = self._definitions()
        counted = Counter(node.name for node in defined)
        plain = (node for node in defined if isinstance(node, ast.FunctionDef) and not node.decorator_list)
        return {node.name: node for node in plain if counted[node.name] == 1}

    def _definitions(self) -> list[_Definition]:
        return [node for node in self.code.tree.body if isinstance(node, _DEFINITIONS)]

    def _descend(self, body: _Block, at_top: bool) -> int:
        """Leave out statements beside those that the finding is about, then beside those within them.

        Returns how many events are left out.
        """
        dropped = 0
        scope: ast.AST = self.code.tree
        while True:
            shared = _Shared(self._uses, self._named, self.path, body)
            if not shared.wanted or _OUTSIDE in shared.wanted:
                return dropped
            units = self._independent(shared, scope)
            dropped += sum(shared.events[unit] for unit in units)
            self.left_out += [body[unit] for unit in units]
            if at_top:
                self.units += [body[unit] for unit in shared.together]
            inner = self._inside(body[next(iter(shared.wanted))]) if len(shared.wanted) == 1 else None
            if inner is None:
                return dropped
            body, function = inner
            if function is not None:
                scope, at_top = function, False

    def _independent(self, shared: _Shared, scope: ast.AST) -> list[int]:
        """Return the statements of a block that can go: nothing of what they make or name is used by what stays."""
        body = shared.body
        gone = [unit for unit in shared.busy if unit not in shared.together and _can_go(body[unit])]
        while True:
            staying = _loaded(scope, {id(body[unit]) for unit in gone} | {id(one) for one in self.left_out})
            left = [unit for unit in gone if staying.isdisjoint(_stored(body[unit]))]
            if len(left) == len(gone):
                return gone
            gone = left

    def _inside(self, statement: ast.stmt) -> tuple[_Block, ast.FunctionDef | None] | None:
        """Return the block that a statement runs once, as it is: that of `if __name__ ...`, or of a function."""
        if isinstance(statement, ast.If) and not statement.orelse:
            if "__name__" in self._words([statement.test], self.code.text):
                return statement.body, None
        value = statement.value if isinstance(statement, (ast.Expr, ast.Assign)) else None
        if isinstance(value, ast.Call) and len(value.args) == 1 and isinstance(value.args[0], ast.Call):
            value = value.args[0]
        name = id_of(value.func) if isinstance(value, ast.Call) else ""
        function = self._functions().get(name) if self._names[name] == 1 else None
        return (function.body, function) if function is not None else None

    def _words(self, nodes: Iterable[ast.AST], text: str) -> set[str]:
        """Return the words of some nodes in a text in which they are where they are in the file."""
        code = self.code
        return {word for node in nodes for word in _WORD.findall(text[code.start(node) : code.end(node)])}

    def text(self) -> tuple[Source | None, frozenset[str]]:
        """Return the program without what is left out, and the names by which that comes to other parts of the file."""
        code, text = self.code, self.code.text
        definitions = {one.name: one for one in self._definitions()}
        if len(definitions) != len(self._definitions()):
            return None, frozenset()
        top = set(map(id, code.tree.body))
        for one in self.left_out:
            text = _blanked(text, code, one, "" if id(one) in top else "pass")
        reached = self._reached(self._words(self.left_out, code.text), definitions, code.text)
        others = [one for one in code.tree.body if not isinstance(one, _DEFINITIONS)]
        words = self._words(others, text) | {entry.partition(".")[0] for entry in self.report.interpretation.entries}
        kept = self._reached(words, definitions, text)
        for name, one in definitions.items():
            # What nothing calls any more would be started by itself.
            if name not in kept and name in reached and not one.decorator_list:
                text = _blanked(text, code, one, "")
        return from_text(text, self.path, before=self.report.source), reached

    def _reached(self, words: Iterable[str], definitions: dict[str, _Definition], text: str) -> frozenset[str]:
        """Return the functions and classes of the file that some words lead to, directly or through others."""
        found = definitions.keys() & words
        waiting = list(found)
        for name in waiting:
            more = definitions.keys() & self._words([definitions[name]], text) - found
            found |= more
            waiting += more
        return frozenset(found)


@dataclass(slots=True)
class _Uses:
    """What the ways from one start use, by the lines that it is used on: those of the calls that led there, too.

    `shared` are the pairs of places that use the same graph, tensor or optimizer.
    """

    start: str
    places: dict[_Place, int] = field(default_factory=dict)
    counts: list[int] = field(default_factory=list)
    """How many events a place has."""
    busy: set[int] = field(default_factory=set)
    """The places that build graphs or run loops."""
    shared: set[tuple[int, int]] = field(default_factory=set)
    matters_to_all: bool = False
    """Whether it is not known of some event what it is about, or there are too few for it to matter."""

    def add(self, tape: Tape) -> None:
        """Add what one way uses."""
        known: dict[int, int] = {}
        used: dict[_Id, int] = {}
        place = self._place(())
        for event in tape.events:
            at = getattr(event, "at", None)
            if isinstance(at, Site):
                found = known.get(id(at))
                if found is None:
                    found = known[id(at)] = self._place(tuple([(one.file, one.line) for one in frames(at)]))
                place = found
            self.counts[place] += 1
            self.matters_to_all = self.matters_to_all or _matters_to_all(event)
            if self.matters_to_all:
                continue
            if isinstance(event, (Node, Loop)):
                self.busy.add(place)
            for number in _ids(event):
                other = used.setdefault(number, place)
                if other != place:
                    self.shared.add((other, place))

    def _place(self, lines: _Place) -> int:
        number = self.places.setdefault(lines, len(self.places))
        if number == len(self.counts):
            self.counts.append(0)
        return number

    def named(self, span: Span) -> list[bool]:
        """Return of each place whether it is on the lines of a span."""
        lines = {(span.file, line) for line in range(span.line, span.end_line + 1)}
        return [not lines.isdisjoint(place) for place in self.places]


def _uses_of(report: Report) -> list[_Uses]:
    """Return what the ways of a program use, start by start."""
    known: list[_Uses] | None = report.kept.get("uses")
    if known is None:
        starts: dict[str, dict[int, Tape]] = {}
        for tape in report.interpretation.tapes:
            for way in (tape, *tape.beyond):
                starts.setdefault(tape.started, {})[id(way)] = way
        known = []
        for start, ways in starts.items():
            few = sum(len(way.events) for way in ways.values()) < LEAST_EVENTS
            known.append(_Uses(start, matters_to_all=few))
            for way in ways.values():
                known[-1].add(way)
        report.kept["uses"] = known
    return known


class _Shared:
    """Which statements of a block share what they make: graphs, tensors, optimizers.

    `wanted` are those that the finding is about, `together` these with all that shares something with them, or with
    what runs outside of the block; `busy` are the ones that build graphs or run loops.
    """

    def __init__(self, uses: _Uses, named: list[bool], path: str, body: _Block) -> None:
        self.body = body
        rows = {
            (path, line): number
            for number, statement in enumerate(body)
            if not isinstance(statement, _DEFINITIONS)
            for line in range(first_line(statement), last_line(statement) + 1)
        }
        # The outermost call is the statement of the block.
        units = [next((rows[line] for line in reversed(place) if line in rows), _OUTSIDE) for place in uses.places]
        self.events: Counter[int] = Counter()
        for unit, count in zip(units, uses.counts):
            self.events[unit] += count
        self.busy = {units[place] for place in uses.busy} - {_OUTSIDE}
        self.wanted = set(compress(units, named))
        joined: dict[int, int] = {}
        for one, other in uses.shared:
            _join(joined, units[one], units[other])
        for unit in self.wanted:
            _join(joined, _OUTSIDE, unit)
        home = _root(joined, _OUTSIDE)
        self.together = {unit for unit in units if unit != _OUTSIDE and _root(joined, unit) == home}


def _root(joined: dict[int, int], unit: int) -> int:
    while unit in joined:
        unit = joined[unit]
    return unit


def _join(joined: dict[int, int], one: int, other: int) -> None:
    first, second = _root(joined, one), _root(joined, other)
    if first != second:
        joined[first] = second


def _matters_to_all(event: Event) -> bool:
    """Whether it is not known what an event is about."""
    if isinstance(event, _GLOBAL):
        return True
    if isinstance(event, Assumed):
        return event.kind in ("effect", "contents") and not event.about
    if isinstance(event, LeafEscape):
        return not event.leaves
    if isinstance(event, Unscaled):
        return event.leaves is None
    return isinstance(event, Escape) and event.open


def _ids(event: Event) -> Iterator[_Id]:
    """Yield the ids that an event speaks of, each with its space."""
    if isinstance(event, Assumed):
        return
    kind: type = type(event)
    for name, space in _fields(kind):
        value = getattr(event, name)
        if isinstance(value, tuple):
            for number in value:
                yield space, number
        elif value is not None:
            yield space, value
    if isinstance(event, Node):
        for saved in event.saved:
            yield "storage", saved.storage
            if saved.of is not None:
                yield "node", saved.of
    elif isinstance(event, Backward):
        for root in event.roots:
            if root.node is not None:
                yield "node", root.node
            for number in (*root.cuts, *root.constant_terms):
                yield "cut", number


@cache
def _fields(kind: type) -> list[tuple[str, str]]:
    """Return the fields of events of a kind that hold ids, each with the space of these."""
    names = [one.name for one in fields(kind)]
    own = [("id", _OWN[kind])] if kind in _OWN else []
    return own + [(name, _NUMBERED[name]) for name in names if name in _NUMBERED]


def _can_go(statement: ast.stmt) -> bool:
    """Whether a statement does nothing but run and leave names."""
    return isinstance(
        statement, (ast.Expr, ast.Assign, ast.AnnAssign, ast.For, ast.While, ast.With, ast.Try)
    ) and not any(isinstance(node, _NOT_ALONE) for node in walk(statement))


def _stored(statement: ast.stmt) -> set[str]:
    """Return the names that a statement stores, and those that it stores attributes or items of."""
    stored = (node for node in of_kind(statement, ast.expr) if hasattr(node, "ctx") and not is_read(node))
    names = {name for node in stored if (name := root_name(node)) is not None}
    return names | {node.name for node in walk(statement) if isinstance(node, _DEFINITIONS)}


def _loaded(scope: ast.AST, without: Collection[int]) -> set[str]:
    """Return the names that a function or the module reads outside of some statements."""
    found: set[str] = set()
    stack = [scope]
    while stack:
        node = stack.pop()
        if id(node) in without:
            continue
        if isinstance(node, ast.Name) and is_read(node):
            found.add(node.id)
        stack.extend(ast.iter_child_nodes(node))
    return found


def _blanked(text: str, code: Code, statement: ast.stmt, left: str) -> str:
    """Return a text with blanks in the place of a statement, behind what is left in its place."""
    start, end = code.start(statement), code.end(statement)
    blank = "".join(one if one in "\r\n" else " " for one in text[start:end])
    return text[:start] + left + blank[len(left) :] + text[end:]


def _says_the_same(alone: Report, report: Report) -> bool:
    """Return whether a part shows what the whole shows of it, and nothing else."""
    interpretation, whole, part = alone.interpretation, report.interpretation, alone.source
    if interpretation.faults or not interpretation.mistakes <= whole.mistakes:
        return False
    for mine, others in ((alone.findings, report.findings), (alone.elsewhere, report.elsewhere)):
        if not all(any(_alike(one, other) for other in others) for one in mine):
            return False
        for one in others:
            gone = one.span.file == part.path and not part.lines[one.span.line - 1].strip().removeprefix("pass")
            if not gone and not any(_alike(one, other) for other in mine):
                return False
    return True


def _alike(one: Finding, other: Finding) -> bool:
    """Return whether two findings say the same, whichever condition leads to them."""
    return _said(one) == _said(other)


def _said(finding: Finding) -> tuple[object, ...]:
    labels = [(label.span, label.role) for label in finding.labels if label.role not in ("path", "condition")]
    return finding.code, finding.span, finding.message, finding.certain, finding.rests_on, labels
