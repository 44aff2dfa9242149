"""A possible fix before it was verified, and what the strategies that propose them are given."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar

from tapecheck.fixes import rewrite
from tapecheck.fixes.code import Code, dotted
from tapecheck.fixes.edit import Change
from tapecheck.fixes.story import Carrier, Collision, carriers, collisions, frames, touches
from tapecheck.rules import RAISING
from tapecheck.rules.backward_twice.rule import BackwardTwice
from tapecheck.rules.compiled_backward_twice.rule import CompiledBackwardTwice
from tapecheck.rules.finding import Finding, Label, Role
from tapecheck.rules.reading import Reading
from tapecheck.rules.stale_saved_tensor.rule import StaleSavedTensor
from tapecheck.source.nodes import method_called, passed
from tapecheck.tape import Backward, Raised, Site, Span, Tape, Traversal

if TYPE_CHECKING:
    from tapecheck.check import Report

_Event = TypeVar("_Event")


@dataclass(slots=True)
class Candidate:
    """Changes that may fix a finding.

    `safe` says that what is learned stays as it was wherever the program ran. Of the candidates of one `group`
    only the first that holds is offered; a `fallback` is tried only while nothing else has held. `acts` says that
    each `.detach()`, `.item()` and `.clone()` it writes must be seen to act on a tensor with a graph. `doubt` says what
    to check: with one, a candidate is not safe.
    """

    title: str
    effect: str
    changes: list[Change]
    safe: bool = False
    group: str = ""
    fallback: bool = False
    acts: bool = True
    doubt: str = ""


def offered(
    title: str, effect: str, *changes: Change | None, safe: bool = False, group: str = "", fallback: bool = False,
    acts: bool = True, doubt: str = "",
) -> Iterator[Candidate]:  # fmt: skip
    """Yield the candidate of some changes, where there are any and each of them can be made."""
    made = [change for change in changes if change is not None]
    if made and len(made) == len(changes):
        yield Candidate(title, effect, made, safe, group, fallback, acts, doubt)


def and_dropping(candidate: Candidate, drop: list[Change], title: str) -> Iterator[Candidate]:
    """Yield a candidate, and before it the one that drops a `retain_graph` as well, where there is one."""
    if drop:
        yield replace(candidate, title=title, changes=[*candidate.changes, *drop])
    yield candidate


@dataclass(slots=True)
class Context:
    """What a strategy works from: the finding, and one file in which it may be mended.

    `codes` are the files of the project that have a part in the finding, by path, this one among them.
    """

    report: Report
    finding: Finding
    code: Code
    codes: Mapping[str, Code] = field(default_factory=dict)
    _readings: list[Reading] | None = field(default=None, repr=False)
    _collisions: list[Collision] | None = field(default=None, repr=False)
    _carriers: dict[int, list[Carrier]] = field(default_factory=dict, repr=False)

    @property
    def tapes(self) -> list[Tape]:
        tapes: list[Tape] = self.report.interpretation.tapes
        return tapes

    @property
    def files(self) -> list[Code]:
        """Return the files that have a part in the finding, each once, the one in which it may be mended first."""
        return list({code.source.path: code for code in (self.code, *self.codes.values())}.values())

    def events(self, kind: type[_Event]) -> Iterator[_Event]:
        """Yield the events of one kind, tape by tape."""
        return (event for tape in self.tapes for event in tape.events if isinstance(event, kind))

    @property
    def readings(self) -> list[Reading]:
        if self._readings is None:
            self._readings = [Reading(tape) for tape in self.tapes]
        return self._readings

    @property
    def collisions(self) -> list[Collision]:
        """Return the backwards that fail, or walk too far, at the finding."""
        if self._collisions is None:
            self._collisions = collisions(self.tapes, self.finding.span, self._wanted())
        return self._collisions

    def carriers(self, collision: Collision) -> list[Carrier]:
        found = self._carriers.get(id(collision))
        if found is None:
            found = self._carriers[id(collision)] = carriers(self.code, collision)
        return found

    def _wanted(self) -> Callable[[Traversal], bool]:
        kind = {BackwardTwice.code: "freed", CompiledBackwardTwice.code: "region", StaleSavedTensor.code: "stale"}.get(
            self.finding.code
        )
        if kind is None:
            return lambda traversal: bool(traversal.retraversed)
        return lambda traversal: traversal.problem is not None and traversal.problem.kind == kind

    @property
    def caught(self) -> bool:
        """Return whether the program goes on behind the finding's exception."""
        span = self.finding.span
        return any(event.caught and touches(event.at, span) for event in self.events(Raised))

    @property
    def stops(self) -> bool:
        """Return whether the program certainly ends with the finding's exception: then no run of it was ever
        finished.
        """
        return self.finding.code in RAISING and self.finding.certain and not self.caught

    def labels(self, *roles: Role) -> list[Label]:
        return [label for label in self.finding.labels if label.role in roles]

    def backwards_here(self) -> Iterator[tuple[Tape, Backward]]:
        """Yield the backward and grad calls of the tapes that happen at the finding."""
        for tape in self.tapes:
            for event in tape.events:
                if isinstance(event, Backward) and touches(event.at, self.finding.span):
                    yield tape, event

    @property
    def place(self) -> Span:
        """Return the place of the finding, or, in another file, the one that has a part in it."""
        span, path = self.finding.span, self.code.source.path
        if span.file == path:
            return span
        parts = (label.span for label in self.labels("kept", "changed", "cut"))
        return next((part for part in parts if part.file == path), span)

    @property
    def stored(self) -> Span:
        """Return the line that stores, where the finding is about a store; else its own place."""
        return self.finding.facts.stored or self.finding.span

    def at_place(self, at: Site) -> bool:
        """Return whether an event's own place is the line of the finding, or the one that it is about."""
        return at.file == self.place.file and self.place.line <= at.line <= self.place.end_line

    def calls(self, site: Site) -> Iterator[tuple[ast.Call, Span]]:
        """Yield the calls of an event and those that led to it, innermost first, each with its place."""
        found = ((self.call_at(frame), frame) for frame in frames(site))
        return ((call, frame) for call, frame in found if call is not None)

    def call_at(self, span: Span) -> ast.Call | None:
        """Return the call with exactly this span."""
        node = self.code.expression_at(span)
        return node if isinstance(node, ast.Call) else None

    def drop_retain(self, backward: Backward | None) -> list[Change]:
        """Return what takes an explicit `retain_graph=True` out of a backward's call; nothing where none is written."""
        if backward is None or backward.retain_argument is None:
            return []
        for frame in frames(backward.at):
            code = self.codes.get(frame.file, self.code)
            call = code.expression_at(frame)
            own = isinstance(call, ast.Call) and frame == backward.at.span
            change = remove_argument(code, call, "retain_graph", retain_position(call) if own else None)
            if change is not None:
                return [change if code is self.code else replace(change, file=code.source.path)]
        return []


Strategy = Callable[[Context], Iterable[Candidate]]
"""Proposes candidates for a finding, preferred first."""


def retain_position(call: ast.expr | None) -> int | None:
    """Return where `retain_graph` stands among the positional arguments of a call into autograd."""
    called = (dotted(call.func) or "") if isinstance(call, ast.Call) else ""
    if called.endswith("autograd.backward"):
        return 2
    if called.rsplit(".", 1)[-1] == "grad":
        return 3
    return 1 if method_called(call) == "backward" else None


def remove_argument(code: Code, call: ast.expr | None, name: str, position: int | None = None) -> Change | None:
    """Return what takes an argument out of a call; None where it has none, or is no call."""
    if not isinstance(call, ast.Call):
        return None
    keyword = passed(call, name)
    own = _own_lines(code, keyword) if keyword is not None and len(call.args) + len(call.keywords) > 1 else None
    return own or code.rewritten(call, rewrite.without_argument, name, position)


def _own_lines(code: Code, keyword: ast.keyword) -> Change | None:
    """Return the removal of an argument that has its lines for itself, with the comment on it."""
    start, end = code.start(keyword), code.end(keyword)
    first, last = code.index.place(start)[0], code.index.place(end)[0]
    line = code.index.offset(first, 1)
    rest = code.text[end : code.index.line_end(last)].strip()
    if code.text[line:start].strip() or not rest.startswith(",") or last >= len(code.index.starts):
        return None
    if rest[1:].strip() and not rest[1:].strip().startswith("#"):
        return None
    return Change(line, code.index.offset(last + 1, 1), "")


def appended(code: Code, expression: ast.expr, suffix: str) -> list[Change]:
    """Return the change that `append` makes; none where it makes none."""
    change = append(code, expression, suffix)
    return [] if change is None else [change]


def append(code: Code, expression: ast.expr, suffix: str) -> Change | None:
    """Put `suffix` behind an expression, which gets parentheses where it needs them and has none yet."""
    end, text = code.end(expression), code.segment(expression)
    whole = rewrite.tried(rewrite.parenthesized, text)
    if whole is not None and whole != text and code.in_parentheses(expression):
        end = code.text.index(")", end) + 1
        whole = text
    if whole == text:
        return Change(end, end, suffix)
    return code.replace(expression, whole + suffix) if whole is not None else None
