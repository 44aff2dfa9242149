"""Nothing is offered that was not tried: a candidate is made, the result is checked as the file itself was."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from tapecheck.fixes.analysed import Analysed, Changes
from tapecheck.fixes.candidate import Candidate
from tapecheck.fixes.code import Code, targets
from tapecheck.fixes.edit import Change, Edit, Fix, LineMap, MovedLines, apply, edits_of, settle
from tapecheck.fixes.overloaded import sees_store
from tapecheck.fixes.part import Part
from tapecheck.fixes.repaired import unrepaired, uses_of_gradients
from tapecheck.fixes.story import touches
from tapecheck.fixes.visible import leaves_for_importers
from tapecheck.rules import ALL, RAISING, judge
from tapecheck.rules.backward_without_graph.rule import BackwardWithoutGraph
from tapecheck.rules.certainty import is_certain
from tapecheck.rules.finding import Finding
from tapecheck.rules.gradient_cut.rule import GradientCut
from tapecheck.rules.graph_kept.rule import GraphKeptAcrossIterations
from tapecheck.rules.growing_chain.rule import GrowingChain
from tapecheck.rules.leaf_inplace.rule import LeafInplace
from tapecheck.rules.needless_graph.rule import NeedlessGraph
from tapecheck.rules.needless_retain_graph.rule import NeedlessRetainGraph
from tapecheck.rules.term_without_effect.rule import TermWithoutEffect
from tapecheck.rules.untrained_parameter.rule import UntrainedParameter
from tapecheck.rules.words import join, line
from tapecheck.source import Source, from_text
from tapecheck.source.callers import Callers
from tapecheck.source.nodes import attr_of, negated
from tapecheck.tape import Cut, Decision, MovedTape, Moves, Node, Optimizer, Raised, Span, Step, Tape

if TYPE_CHECKING:
    from tapecheck.check import Report

# What only shows in later iterations, or once a program is known to its end; the others would be a fix's own doing.
_SHOWN_LATER = frozenset(rule.code for rule in ALL if not rule.raises) - {GrowingChain.code}

_CUTTING = frozenset((GraphKeptAcrossIterations.code, LeafInplace.code, NeedlessGraph.code))
"""Findings whose repair records less."""
_MADE_WHOLE = frozenset(
    rule.code for rule in (GraphKeptAcrossIterations, GradientCut, BackwardWithoutGraph, TermWithoutEffect)
)
"""Findings after whose repair there may be graphs that evaluation has no use for."""

_ACTING = ("detach", "item", "clone")


class Check(Protocol):
    """Analyses an edited source, beside edited files of its project by absolute path."""

    def __call__(self, source: Source, /, *, open_files: Mapping[str, Source] | None = None) -> Report: ...


_Place = tuple[str, str, int]
"""Code of a finding or kind of an exception, file and line."""


def _settled(candidate: Candidate, sources: Mapping[str, Source], home: str) -> Changes | None:
    """Return what a candidate changes, by file; None for nothing, or for changes that do not go together."""
    by_file: dict[str, list[Change]] = {}
    for change in candidate.changes:
        by_file.setdefault(change.file or home, []).append(change)
    settled: list[tuple[str, tuple[Change, ...]]] = []
    for path, own in sorted(by_file.items()):
        changes = settle(sources[path].text, own)
        if changes is None:
            return None
        settled.append((path, changes))
    return tuple(settled) if any(changes for _, changes in settled) else None


class Verifier:
    """Tries candidates for one finding; each try costs one analysis, and after `limit` tries all are refused.

    `analysed` keeps the reports on edited programs for the other findings of the file. `part` is asked, once there is
    something to try, for the part of the program that the finding is about.
    """

    def __init__(
        self,
        report: Report,
        finding: Finding,
        check: Check,
        limit: int,
        open_files: Mapping[str, Source] | None = None,
        analysed: Analysed | None = None,
        part: Callable[[], tuple[Part, Check] | None] | None = None,
    ) -> None:
        self.report = report
        self.finding = finding
        self.check = check
        self.left = limit
        self._analysed = analysed or Analysed()
        self.open_files = dict(open_files or {})
        self.hides: list[tuple[Candidate, Finding]] = []
        self._behind: list[tuple[str, Span]] = []
        """The exceptions that edits which mend the finding bring to light, by code and place."""
        self._tried: set[Changes] = set()
        self._everything: list[Finding] | None = None
        self._trained_before: Trained | None = None
        self._find_part = part
        self._part: tuple[Part, Verifier] | None = None

    @property
    def why_none(self) -> str:
        """Return why none of the candidates was a fix; nothing where there were none."""
        if self.hides:
            other = self.hides[0][1]
            return f"the edit that was tried would only hide {other.code} on {line(other.span, self.finding.span)}"
        if self._behind:
            code, span = self._behind[0]
            return f"with the edit that was tried, {line(span, self.finding.span)} raises the error of {code}"
        return "each edit that was tried leaves the finding or makes another" if self._tried else ""

    def fix(self, candidate: Candidate, sources: Mapping[str, Source], home: str) -> Fix | None:
        """Return the candidate as a fix where it holds, else None.

        `sources` are the files that it may change, by path, `home` is the one that its changes are in by default.
        """
        tried = _settled(candidate, sources, home)
        if tried is None or tried in self._tried or self.left <= 0:
            return None
        self._tried.add(tried)
        trial = self._try(tried, sources)
        if trial is None:
            return None
        where, edited, after, lines = trial
        lost, skips = where._untrained(after, lines), not self.finding.certain
        if lost is None or (candidate.acts and not all(_acts(after, one, skips) for one in edited)):
            return None
        if not where._holds(after, lines):
            self._behind += where._brought_to_light(after, lines)
            return None
        hidden = where._hidden(after, lines)
        if hidden:
            self.hides.append((candidate, self._as_found(hidden[0])))
            return None
        edits = tuple(edit for path, changes in tried for edit in edits_of(path, sources[path].text, changes))
        checks = self._to_check(after, edited)
        if self._may_be_needed(sources):
            checks.append("A part of the file does not parse, and may need it as it was.")
        return self._held(candidate, edits, lost, where._wasted(after, lines), checks)

    def _may_be_needed(self, sources: Mapping[str, Source]) -> bool:
        """Return whether text that does not parse may need what a change takes away, once it does."""
        unparsed = [one for one in (self.report.source, *sources.values()) if one.blanked]
        if any(one.cells is None for one in unparsed):
            return True
        # Python runs nothing of such a file, of a notebook the other cells.
        return bool(unparsed) and any(one.kind == "skipped" for one in self.finding.rests_on)

    def _try(self, tried: Changes, sources: Mapping[str, Source]) -> _Trial | None:
        """Return what comes of changes; None where they break the text."""
        where = self._where(tried)
        texts = sources if where is self else {where.report.source.path: where.report.source}
        edited = [_Edited(texts[path], changes) for path, changes in tried]
        if any(one.source.error is not None and one.before.error is None for one in edited):
            return None
        self.left -= 1
        checked = partial(where._checked, {one.source.path: one.source for one in edited})
        after = self._analysed.report(where.report.source.text, tried, checked)
        lines = MovedLines(
            {one.source.path: LineMap(one.before.text, one.changes) for one in edited},
            {one.source.path: (one.before.text, one.source.text) for one in edited},
        )
        return _Trial(where, edited, after, lines)

    def _held(self, candidate: Candidate, edits: tuple[Edit, ...], lost: int, wasted: int, checks: list[str]) -> Fix:
        """Return a candidate that holds as a fix, with what else is to be known of it: the other files that it changes,
        how many parameters get no gradient any more, and what to check.
        """
        title, effect = candidate.title, " ".join(filter(None, (candidate.effect, candidate.doubt)))
        files = dict.fromkeys(edit.span.file for edit in edits)
        names = [Path(file).name for file in files if file != self.finding.span.file]
        if names:
            title = f"{title} (in {join(names)})"
            effect = f"{effect} Other programs that use {join(names)} change with it."
        if lost:
            lacking = f"{'1 parameter gets' if lost == 1 else f'{lost} parameters get'} no gradient any more"
            return Fix(f"{title}; {lacking}", "unsafe", edits, f"{effect} {lacking}.", lost)
        if not candidate.safe:
            return Fix(title, "unsafe", edits, effect, wasted=wasted)
        checks = [*checks, *self._to_check_outside(edits, files)]
        safe = not names and not checks and not candidate.doubt
        return Fix(title, "safe" if safe else "unsafe", edits, " ".join((effect, *checks)), wasted=wasted)

    def _to_check_outside(self, edits: tuple[Edit, ...], files: Collection[str]) -> Iterator[str]:
        """Yield what to check in other programs, which may learn through what the edits change in some files."""
        if self.finding.code in _SHOWN_LATER and self._is_imported_for(edits):
            yield "Check who imports this function: what it returns may lead to no gradient any more."
        if self.finding.code in _CUTTING and (others := self._trained_by_others(files)):
            yield f"Check that no other program learns through what changes in {join(others)}."

    def _trained_by_others(self, files: Collection[str]) -> list[str]:
        """Return the names of those edited files that a program other than this one imports, and may learn through."""
        interpretation = self.report.interpretation
        own = {str(Path(one).absolute()) for one in (self.report.source.path, *interpretation.read)}
        texts = {path: source.text for path, source in self.open_files.items()}
        for file in files:
            interpretation.trained[file] = Callers(self.report.project.of(file), texts).may_train(own)
        return [Path(file).name for file in files if interpretation.trained[file]]

    def _is_imported_for(self, edits: Iterable[Edit]) -> bool:
        """Return whether edits change what a function returns that the program calls to show it alone."""
        source = self.report.source
        spans = (edit.span for edit in edits if edit.span.file == source.path)
        lines = {line for span in spans for line in range(span.line, span.end_line + 1)}
        return isinstance(source.tree, ast.Module) and leaves_for_importers(source.tree, lines)

    def _to_check(self, after: Report, edited: list[_Edited]) -> list[str]:
        """Return what is to be checked before a candidate that holds is made: what nobody sees may need it as it was, a
        value may be no tensor, a class may do something where it is set.
        """
        found = []
        if not is_certain(self.finding.rests_on):
            by_option = all(one.kind == "setting" or is_certain([one]) for one in self.finding.rests_on)
            who = "A run with other options" if by_option else "Code that is not visible"
            found.append(f"{who} may need it as it was.")
        elif any(call in after.interpretation.handed for one in edited for _, call in one.acting):
            found.append("Code that is not visible is given the value: check that it does not need the graph.")
        supposed = after.interpretation.supposed
        if supposed and any(method in supposed for one in edited for method, _ in one.acting):
            found.append("It fails where the value is no tensor: another call may pass a number.")
        if any(sees_store(self.report, name) for one in edited for name in one.stored()):
            found.append("Check what else the program does where that attribute is set.")
        return found

    def _where(self, tried: Changes) -> Verifier:
        """Return what tries changes: in the part of the program that the finding is about, where they are in it."""
        if self._find_part is not None:
            made = self._find_part()
            self._find_part = None
            if made is not None:
                part, check = made
                alone = Verifier(part.report, part.finding, check, self.left, self.open_files, self._analysed)
                self._part = part, alone
        if self._part is None or not all(self._part[0].holds(path, changes) for path, changes in tried):
            return self
        return self._part[1]

    def _as_found(self, finding: Finding) -> Finding:
        """Return a finding as the whole program has it."""
        return next((one for one in _found(self.report) if one.key == finding.key), finding)

    def _checked(self, edited: Mapping[str, Source]) -> Report:
        """Return the report on the program with some of its files edited."""
        own = self.report.source.path
        others = {str(Path(path).absolute()): source for path, source in edited.items() if path != own}
        source = edited.get(own, self.report.source)
        if not others and not self.open_files:
            return self.check(source)
        return self.check(source, open_files={**self.open_files, **others})

    def _holds(self, after: Report, lines: MovedLines) -> bool:
        if len(after.interpretation.faults) > len(self.report.interpretation.faults):
            return False
        if not self._is_gone(after, lines):
            return False
        fresh = self._fresh(after, _found(self.report), lines)
        if fresh:
            # The report may be of a few selected rules only: what the whole set finds in the file was there before.
            known = self._places(self._all_findings(), lines)
            if not all(found.key in known or self._was_hidden(found, after, lines) for found in fresh):
                return False
        return self._runs_as_before(after, lines)

    @property
    def _raises(self) -> bool:
        """Whether PyTorch raises where the finding is."""
        return self.finding.code in RAISING or self.finding.severity == "error"

    def _is_gone(self, after: Report, lines: MovedLines) -> bool:
        """Return whether an edited program has not this finding."""
        code, file, own = self.finding.code, self.finding.span.file, lines.lines(self.finding.span)
        return not any(one.code == code and one.span.file == file and one.span.line in own for one in _found(after))

    def _fresh(self, after: Report, before: list[Finding], lines: MovedLines) -> list[Finding]:
        """Return what is found in an edited program beside this finding and others of before."""
        known = self._places(before, lines)
        return [one for one in _found(after) if one.key not in known]

    def _brought_to_light(self, after: Report, lines: MovedLines) -> Iterator[tuple[str, Span]]:
        """Yield what the edited program raises where the finding's exception is gone, each with its rule and place."""
        if not self._is_gone(after, lines) or not self._raises:
            return
        for one in self._fresh(after, self._before(), lines):
            if one.code in RAISING and (place := lines.before(one.span)) is not None:
                yield one.code, place

    def _runs_as_before(self, after: Report, lines: MovedLines) -> bool:
        """Whether the edited program has no mistake and no exception of torch's that it did not have before."""
        wrong = {
            (kind, place.file, line)
            for kind, place in self.report.interpretation.mistakes
            for line in lines.lines(place)
        }
        if any((kind, place.file, place.line) not in wrong for kind, place in after.interpretation.mistakes):
            return False
        old = {
            (event.exception, event.message, event.at.file, line)
            for event in _raised(self.report.interpretation.tapes)
            for line in lines.lines(event.at.span)
        }
        return all(
            (event.exception, event.message, event.at.file, event.at.line) in old
            for event in _raised(after.interpretation.tapes)
        )

    def _hidden(self, after: Report, lines: MovedLines) -> list[Finding]:
        """Return the other findings that are gone with this one, and not repaired."""
        others = [one for one in self._before() if one is not self.finding and one.key != self.finding.key]
        was, now = self.report.interpretation.tapes, after.interpretation.tapes
        return unrepaired(self.finding, others, _found(after), was, now, lines)

    def _before(self) -> list[Finding]:
        """Return what the whole set of rules finds in the program as it is."""
        return self._all_findings() if self.report.narrowed else _found(self.report)

    def _wasted(self, after: Report, lines: MovedLines) -> int:
        """Return how many needless graphs are reported that were not: a kept one hides that nobody needed it."""
        known = self._places(self._before(), lines)
        return sum(one.code == NeedlessGraph.code and one.key not in known for one in after.findings)

    def _was_hidden(self, fresh: Finding, after: Report, lines: MovedLines) -> bool:
        """Return whether the program stopped at this finding's exception before what is found now could show: on every
        way that shows it, where only some ways raise.

        Nothing of it may have been written by the fix, and no call of the story told here may need less now. Graphs
        that something kept die unused once nothing keeps them; what had lost its graph may have it in vain elsewhere.
        """
        if fresh.code == NeedlessGraph.code and self.finding.code in _MADE_WHOLE:
            return True
        term = fresh.code == TermWithoutEffect.code
        if not self._raises and not (term and self.finding.code == UntrainedParameter.code):
            return False
        if fresh.code not in _SHOWN_LATER or (not self.finding.certain and self._shown_without(fresh, after)):
            return False
        cuts = [label.span for label in fresh.labels if label.role == "cut"]
        # Which gradients a step uses may be the fix's own doing; where the program cuts a term is not.
        spans = cuts if term else [fresh.span, *cuts]
        if not spans or any(map(lines.wrote, spans)):
            return False
        return fresh.code != NeedlessRetainGraph.code or not self._tells_of(fresh.span, lines)

    def _tells_of(self, span: Span, lines: MovedLines) -> bool:
        """Return whether a place of the edited program is one that the finding names."""
        told = (self.finding.span, *(label.span for label in self.finding.labels))
        return any(span.file == one.file and span.line in lines.lines(one) for one in told)

    def _shown_without(self, fresh: Finding, after: Report) -> bool:
        """Return whether a finding shows in the ways alone that were run before and did not come to the exception."""
        before = [
            (tape.started, _answers(tape))
            for tape in self.report.interpretation.tapes
            if not any(touches(event.at, self.finding.span) for event in _raised([tape]))
        ]
        same = [tape for tape in after.interpretation.tapes if (tape.started, _answers(tape)) in before]
        if before and not same:
            # The fix has changed the conditions: which way is which nobody can tell.
            return True
        return any(found.key == fresh.key for found in judge(same, select=[fresh.code]))

    def _untrained(self, after: Report, lines: MovedLines) -> int | None:
        """Return how many parameters fewer have a gradient at the optimizers' steps than before; None where one of the
        optimizers has nothing left to train.
        """
        if self._trained_before is None:
            self._trained_before = self._trained(self.report)
        # A start that has crashed runs on after the fix: its optimizers are known by where they are made.
        before = {
            (span.file, line, number): count
            for (span, number), count in self._trained_before.items()
            for line in lines.lines(span)
        }
        lost = 0
        for (span, number), count in self._trained(after).items():
            known = before.get((span.file, span.line, number))
            if count == 0 and known != 0:
                return None
            lost += max((known or 0) - count, 0)
        return lost

    def _trained(self, report: Report) -> Trained:
        """Return what all tapes of a report train; what is known of those that an edit has left is not read again."""
        known: dict[int, Trained] = self.report.kept.setdefault("trained", {})
        most: Trained = {}
        for tape in report.interpretation.tapes:
            found = known.get(id(tape.identity))
            if found is None and isinstance(tape, MovedTape):
                found = known.get(id(tape.origin))
                if found is not None:
                    moves = Moves([tape.move])
                    found = {(moves.span(span), number): count for (span, number), count in found.items()}
            if found is None:
                found = _trained(tape)
                if report is self.report:
                    known[id(tape.identity)] = found
            for optimizer, count in found.items():
                most[optimizer] = max(count, most.get(optimizer, 0))
        return most

    def _places(self, findings: list[Finding], lines: MovedLines) -> set[_Place]:
        return {
            (found.code, found.span.file, line)
            for found in findings
            if found is not self.finding and found.key != self.finding.key
            for line in lines.lines(found.span)
        }

    def _all_findings(self) -> list[Finding]:
        if self._everything is None:
            self._everything = _found(self._checked({}))
        return self._everything


Trained = dict[tuple[Span, int], int]
"""For each optimizer that steps, by where it is made and which one of that line it is: the most of its parameters that
had a gradient at one of its steps."""


def _trained(tape: Tape) -> Trained:
    most: dict[int, int] = {}
    for event, leaves in uses_of_gradients(tape):
        if isinstance(event, Step):
            most[event.optimizer] = max(len(leaves), most.get(event.optimizer, 0))
    found: Trained = {}
    made: Counter[tuple[str, int]] = Counter()
    numbers: set[int] = set()
    for one in tape.events:
        if isinstance(one, Optimizer) and one.id not in numbers:
            # A group that is added makes another event of the same optimizer.
            numbers.add(one.id)
            made[one.at.file, one.at.line] += 1
            if one.id in most:
                found[one.at.span, made[one.at.file, one.at.line]] = most[one.id]
    return found


def _found(report: Report) -> list[Finding]:
    """Return what a report finds in its file and in those that this one imports."""
    return [*report.findings, *report.elsewhere]


class _Edited:
    """A text with changes in it, and what they have written."""

    def __init__(self, before: Source, changes: tuple[Change, ...]) -> None:
        self.before, self.changes = before, changes
        self.source = from_text(apply(before.text, changes), before.path, before=before)

    @cached_property
    def code(self) -> Code:
        return Code(self.source)

    @cached_property
    def acting(self) -> list[tuple[Span, Span]]:
        """Return where the changes write `.detach()`, `.item()` and `.clone()`: the spans of method and call."""
        calls = []
        for node in self.source.nodes() if self._writes(*_ACTING) else ():
            if isinstance(node, ast.Call) and attr_of(node.func) in _ACTING and not node.args:
                if any(low < self.code.end(node.func) <= high for low, high in self._stretches()):
                    calls.append((self.code.span(node.func), self.code.span(node)))
        return calls

    def stored(self) -> Iterator[str]:
        """Yield the attributes that statements set which the changes write."""
        for node in self.source.nodes() if self._writes("=") else ():
            stretches = self._stretches() if isinstance(node, ast.stmt) else ()
            if any(low <= self.code.start(node) < high for low, high in stretches):
                yield from (part.attr for part in targets(node) if isinstance(part, ast.Attribute))

    def _writes(self, *texts: str) -> bool:
        return any(text in change.content for change in self.changes for text in texts)

    def _stretches(self) -> Iterator[tuple[int, int]]:
        """Yield where what the changes write begins and ends in the edited text."""
        shift = 0
        for change in self.changes:
            yield change.start + shift, change.start + shift + len(change.content)
            shift += len(change.content) - (change.end - change.start)


class _Trial(NamedTuple):
    """What came of an edit: who tried it, the texts that it changes, the report, and where lines are now."""

    where: Verifier
    edited: list[_Edited]
    after: Report
    lines: MovedLines


def _acts(after: Report, edited: _Edited, skips: bool) -> bool:
    """Return whether every `.detach()`, `.item()` and `.clone()` that was written acted on a tensor with a graph.

    A value of another kind has no such method: the dry run goes on then as if it had, a real one raises. With `skips`
    those are left out that stand under an answer which no way has given: nothing that matters is left there.
    """
    wanted = {call for _, call in edited.acting}
    if not wanted:
        return True
    answers: set[tuple[Span, bool]] = set()
    for tape in after.interpretation.tapes:
        for event in tape.events:
            if isinstance(event, (Cut, Node)):
                wanted.discard(event.at.span)
            elif isinstance(event, Decision):
                answers.add((event.at.span, event.taken))
    return not wanted or (skips and all(_left_out(edited.code, call, answers) for call in wanted))


def _left_out(code: Code, call: Span, answers: set[tuple[Span, bool]]) -> bool:
    """Return whether a place stands under a condition that was asked, and only ever answered the other way."""
    child: ast.AST | None = code.statement_at(call)
    while child is not None and (parent := code.parent(child)) is not None:
        if isinstance(parent, ast.If):
            asked, side = parent.test, child in parent.body
            while (opposite := negated(asked)) is not None:
                asked, side = opposite, not side
            test = code.span(asked)
            if (test, not side) in answers and (test, side) not in answers:
                return True
        child = parent
    return False


def _answers(tape: Tape) -> list[tuple[str, bool]]:
    """Return how the undecided conditions of a way were answered, in order."""
    return [(event.text, event.taken) for event in tape.events if isinstance(event, Decision)]


def _raised(tapes: list[Tape]) -> list[Raised]:
    return [event for tape in tapes for event in tape.events if isinstance(event, Raised) and not event.caught]
