"""Nothing is offered that was not tried: a candidate is made, the result is checked as the file itself was."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING

from tapecheck.fixes.candidate import Candidate
from tapecheck.fixes.code import Code
from tapecheck.fixes.edit import Change, Edit, Fix, LineMap, TextIndex, apply, settle
from tapecheck.rules import (
    RAISING,
    CreateGraphCycle,
    GradientCut,
    GraphKeptAcrossIterations,
    MissingCreateGraph,
    NeedlessGraph,
    NeedlessRetainGraph,
)
from tapecheck.rules.finding import Finding
from tapecheck.source import Source, from_text
from tapecheck.tape import Cut, GradientCleared, Ledger, Node, Optimizer, Raised, Span, Step, Tape

if TYPE_CHECKING:
    from tapecheck.check import Report

# What only shows in later iterations, or once a program is known to its end.
_SHOWN_LATER = frozenset((
    GraphKeptAcrossIterations.code, CreateGraphCycle.code, NeedlessRetainGraph.code, MissingCreateGraph.code,
    GradientCut.code, NeedlessGraph.code,
))  # fmt: skip

_ACTING = ("detach", "item", "clone")

Check = Callable[[Source], "Report"]


class Verifier:
    """Tries candidates for one finding; each try costs one analysis, and after `limit` tries all are refused."""

    def __init__(self, report: Report, finding: Finding, check: Check, limit: int) -> None:
        self.report = report
        self.finding = finding
        self.check = check
        self.left = limit
        self._tried: set[tuple[Change, ...]] = set()
        self._everything: list[Finding] | None = None
        self._trained_before: dict[int, int] | None = None

    def fix(self, candidate: Candidate) -> Fix | None:
        """Return the candidate as a fix where it holds, else None."""
        source = self.report.source
        changes = settle(source.text, candidate.changes)
        if not changes or changes in self._tried or self.left <= 0:
            return None
        self._tried.add(changes)
        edited = from_text(apply(source.text, changes), source.path)
        if edited.error is not None and source.error is None:
            return None
        self.left -= 1
        after = self.check(edited)
        lost = self._untrained(after)
        if lost is None:
            return None
        if (candidate.acts and not _acts(after, changes)) or not self._holds(after, LineMap(source.text, changes)):
            return None
        index = TextIndex(source.text)
        edits = tuple(Edit(index.span(source.path, change.start, change.end), change.content) for change in changes)
        if not lost:
            return Fix(candidate.title, "safe" if candidate.safe else "unsafe", edits, candidate.effect)
        some = "1 parameter gets" if lost == 1 else f"{lost} parameters get"
        effect = f"{candidate.effect} {some} no gradient any more."
        return Fix(f"{candidate.title}; {some} no gradient any more", "unsafe", edits, effect)

    def _holds(self, after: Report, lines: LineMap) -> bool:
        code = self.finding.code
        own = set(lines.lines(self.finding.span.line))
        if any(found.code == code and found.span.line in own for found in after.findings):
            return False
        known = self._places(self.report.findings, lines)
        fresh = [found for found in after.findings if (found.code, found.span.line) not in known]
        if fresh:
            # The report may be of a few selected rules only: what the whole set finds in the file was there before.
            known = self._places(self._all_findings(), lines)
            fresh = [found for found in fresh if (found.code, found.span.line) not in known]
            if not all(self._was_hidden(found, lines) for found in fresh):
                return False
        path = self.report.source.path
        wrong = {
            (kind, line)
            for kind, span in self.report.interpretation.mistakes
            if span.file == path
            for line in lines.lines(span.line)
        }
        if any(span.file == path and (kind, span.line) not in wrong for kind, span in after.interpretation.mistakes):
            return False
        old = {
            (event.exception, line)
            for event in _raised(self.report.interpretation.tapes, self.report.source.path)
            for line in lines.lines(event.at.line)
        }
        return all(
            (event.exception, event.at.line) in old for event in _raised(after.interpretation.tapes, after.source.path)
        )

    def _was_hidden(self, fresh: Finding, lines: LineMap) -> bool:
        """Return whether the program stopped at this finding's exception before what is found now could show.

        Nothing of it may have been written by the fix, and no call of the story told here may need less now. Graphs
        that something kept die unused once nothing keeps them.
        """
        if (self.finding.code, fresh.code) == (GraphKeptAcrossIterations.code, NeedlessGraph.code):
            return True
        if self.finding.code not in RAISING or not self.finding.certain or fresh.code not in _SHOWN_LATER:
            return False
        spans = [fresh.span, *(label.span for label in fresh.labels if label.role == "cut")]
        if any(lines.added(line) for span in spans for line in range(span.line, span.end_line + 1)):
            return False
        told = [self.finding.span, *(label.span for label in self.finding.labels)]
        if fresh.code != NeedlessRetainGraph.code:
            return True
        return not any(fresh.span.line in lines.lines(span.line) for span in told)

    def _untrained(self, after: Report) -> int | None:
        """Return how many parameters fewer have a gradient at the optimizers' steps than before; None where one of the
        optimizers has nothing left to train."""
        before = self._trained_before
        if before is None:
            before = self._trained_before = _trained(self.report.interpretation.tapes)
        lost = 0
        for optimizer, count in _trained(after.interpretation.tapes).items():
            known = before.get(optimizer)
            if count == 0 and known != 0:
                return None
            lost += max((known or 0) - count, 0)
        return lost

    def _places(self, findings: list[Finding], lines: LineMap) -> set[tuple[str, int]]:
        return {
            (found.code, line)
            for found in findings
            if found is not self.finding and found.key != self.finding.key
            for line in lines.lines(found.span.line)
        }

    def _all_findings(self) -> list[Finding]:
        if self._everything is None:
            self._everything = self.check(self.report.source).findings
        return self._everything


def _trained(tapes: list[Tape]) -> dict[int, int]:
    """For each optimizer that steps: the most of its parameters that had a gradient at one of its steps."""
    most: dict[int, int] = {}
    for tape in tapes:
        ledger = Ledger()
        params: dict[int, tuple[int, ...]] = {}
        live: set[int] = set()
        for event in tape.events:
            traversal = ledger.feed(event)
            if isinstance(event, Optimizer):
                params[event.id] = event.params
            elif isinstance(event, GradientCleared):
                live.discard(event.leaf)
            elif isinstance(event, Step):
                known = params.get(event.optimizer, ())
                if not known:
                    continue
                count = sum(leaf in live for leaf in known)
                most[event.optimizer] = max(count, most.get(event.optimizer, 0))
            elif traversal is not None and traversal.backward.accumulates:
                live.update(leaf for leaf in traversal.executed if leaf in ledger.leaves)
    return most


def _acts(after: Report, changes: tuple[Change, ...]) -> bool:
    """Return whether every `.detach()`, `.item()` and `.clone()` that was written acted on a tensor with a graph.

    A value of another kind has no such method: the dry run goes on then as if it had, a real one raises.
    """
    if not any(name in change.content for change in changes for name in _ACTING):
        return True
    code = Code(after.source)
    written: list[tuple[int, int]] = []
    shift = 0
    for change in changes:
        written.append((change.start + shift, change.start + shift + len(change.content)))
        shift += len(change.content) - (change.end - change.start)
    wanted: set[Span] = set()
    for node in ast.walk(code.tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and not node.args:
            if node.func.attr in _ACTING:
                end = code.end(node.func)
                if any(low < end <= high for low, high in written):
                    wanted.add(code.index.span(after.source.path, code.start(node), code.end(node)))
    for tape in after.interpretation.tapes:
        for event in tape.events:
            if isinstance(event, (Cut, Node)):
                wanted.discard(event.at.span)
    return not wanted


def _raised(tapes: list[Tape], path: str) -> list[Raised]:
    return [
        event
        for tape in tapes
        for event in tape.events
        if isinstance(event, Raised) and not event.caught and event.at.file == path
    ]
