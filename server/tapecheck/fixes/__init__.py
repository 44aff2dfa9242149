"""Quick fixes that hold: strategies propose edits, and only those that the analysis approves of are offered."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tapecheck.fixes.analysed import Analysed
from tapecheck.fixes.edit import Edit, Fix
from tapecheck.source.modules import SOURCES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from tapecheck.check import Memory, Report
    from tapecheck.fixes.candidate import Candidate, Context
    from tapecheck.fixes.code import Code
    from tapecheck.fixes.part import Part
    from tapecheck.fixes.verify import Check, Verifier
    from tapecheck.rules.finding import Finding
    from tapecheck.source import Source

MAX_FIXES = 3
MAX_TRIES = 12
TRIES_FOR_MORE = 5
"""How many candidates are still tried once a first fix has held: each costs one analysis of the file."""
LONG = 4000
"""Events on the tapes from which a program counts as long (about 1,000 lines): half as many candidates are tried."""

MAX_EFFORT = 1_500_000
"""What all fixes of one file may cost: units of the dry run (60,000 to 150,000 take a second of CPU time), events that
the rules read and lines, for each candidate that is tried."""
MAX_FOR_ONE = 300_000
"""What of it one finding may take: where a fix holds, it mostly takes one analysis or two to find it."""
MAX_FOR_LIGHT = 450_000
"""What of it all findings together may take that are neither errors nor warnings: each edit is tried by itself, since
one that holds beside others need not hold alone, and seven of them took ten times as long as the analysis.
"""

__all__ = [
    "LONG",
    "MAX_EFFORT",
    "MAX_FIXES",
    "MAX_FOR_LIGHT",
    "MAX_FOR_ONE",
    "MAX_TRIES",
    "TRIES_FOR_MORE",
    "Edit",
    "Effort",
    "Fix",
    "Hiding",
    "fixes_for",
]


@dataclass(slots=True)
class Effort:
    """What trying the fixes of one file may still cost, and what came of it beside the fixes.

    `for_one` is what one finding may take of it, `for_light` what those may that are neither errors nor warnings.
    `untried` are the findings for which not all was tried and nothing held, `hiding` the fixes that would hide another
    finding, `without` the findings for which none of the tried edits holds, with the reason. `analysed` keeps the
    reports on edited programs.
    """

    left: int = MAX_EFFORT
    for_one: int = MAX_FOR_ONE
    for_light: int = MAX_EFFORT
    untried: list[Finding] = field(default_factory=list)
    hiding: list[Hiding] = field(default_factory=list)
    without: list[tuple[Finding, str]] = field(default_factory=list)
    analysed: Analysed = field(default_factory=Analysed)


@dataclass(frozen=True, slots=True)
class Hiding:
    """A fix of a finding that is not offered: with it `hidden` would be found no more, without being repaired."""

    finding: Finding
    title: str
    safe: bool
    hidden: Finding


def fixes_for(
    report: Report,
    finding: Finding,
    *,
    check: Check | None = None,
    cancelled: Callable[[], bool] | None = None,
    open_files: Mapping[str, Source] | None = None,
    memory: Memory | None = None,
    effort: Effort | None = None,
) -> list[Fix]:
    """Return the fixes of a finding that hold, preferred first: safe ones, then those that change training least, then
    those that leave fewer needless graphs.

    A fix holds when the edited source no longer has this finding and has no new one, and when the others that are gone
    with it are repaired, too; what only an exception kept from showing before is none of the fix's doing. It may edit
    other files of the project that have a part in the finding. `check` analyses an edited source,
    `tapecheck.check.check` where none is given; `open_files` are sources by absolute path that stand for the files of
    that path. `cancelled` is asked during the analyses; once it returns True they raise `interpret.Cancelled`. `memory`
    is that of the checks before: it is read, and nothing is put into it.
    `effort` is what the fixes of this file may cost together, without a limit where none is given.
    """
    from tapecheck import check as checking
    from tapecheck.fixes.candidate import Context
    from tapecheck.fixes.code import Code
    from tapecheck.fixes.verify import Verifier

    effort = Effort(sys.maxsize, sys.maxsize, sys.maxsize) if effort is None else effort
    codes = {path: Code(source) for path, source in _files(report, finding, open_files or {}).items()}
    part = None
    if check is None:
        # The edits of a fix leave most of a file as it was.
        within = partial(checking.check, cancelled=cancelled, project=report.project)
        check = partial(within, memory=_beside(memory))
        part = partial(_part_of, report, finding, codes.get(report.source.path), memory, within, open_files, effort)
    share = 2 if sum(len(tape.events) for tape in report.interpretation.tapes) > LONG else 1
    verifier = Verifier(report, finding, check, MAX_TRIES // share, open_files, effort.analysed, part)
    found = _holding([Context(report, finding, code, codes) for code in codes.values()], verifier, effort, share)
    if not found and (why := verifier.why_none):
        effort.without.append((finding, why))
    effort.hiding += [Hiding(finding, one.title, one.safe, hidden) for one, hidden in verifier.hides]
    # Stable: among equals the order of the strategies stands.
    return sorted(found, key=lambda fix: (fix.applicability != "safe", fix.lost > 0, fix.wasted))


def _holding(contexts: list[Context], verifier: Verifier, effort: Effort, share: int) -> list[Fix]:
    """Return the candidates that hold, those preferred first, until there are enough or too much was tried."""
    found: list[Fix] = []
    groups: set[str] = set()
    sources = {context.code.source.path: context.code.source for context in contexts}
    light = verifier.finding.severity not in ("error", "warning")
    enough = effort.left - (min(effort.for_one, effort.for_light) if light else effort.for_one)
    for code, candidate in _candidates(contexts):
        if len(found) >= MAX_FIXES or verifier.left <= 0:
            break
        if effort.left <= max(enough, 0):
            effort.untried += [verifier.finding] if not found else []
            break
        if candidate.group in groups or (candidate.fallback and found):
            continue
        before = effort.analysed.work
        fix = verifier.fix(candidate, sources, code.source.path)
        effort.left -= effort.analysed.work - before
        effort.for_light -= effort.analysed.work - before if light else 0
        # Who chooses among fixes reads their titles: what reads the same is offered once.
        if fix is None or any(fix.title == other.title for other in found):
            continue
        if not found:
            verifier.left = min(verifier.left, TRIES_FOR_MORE // share)
        found.append(fix)
        groups |= {candidate.group} - {""}
    return found


def _beside(memory: Memory | None) -> Memory:
    """Return a memory for texts that are only tried."""
    from tapecheck.check import Memory

    return memory.beside() if memory is not None else Memory()


def _part_of(
    report: Report,
    finding: Finding,
    code: Code | None,
    memory: Memory | None,
    check: Callable[..., Report],
    open_files: Mapping[str, Source] | None,
    effort: Effort,
) -> tuple[Part, Check] | None:
    """Return the part of the program that a finding is about, with what checks a text in its place."""
    from tapecheck.fixes.part import part_of

    def checked(source: Source, own: Memory) -> Report:
        alone = check(source, memory=own, open_files=open_files)
        effort.left -= alone.interpretation.work
        return alone

    part = part_of(report, finding, code, _beside(memory), checked) if code is not None else None
    return (part, partial(check, memory=part.memory)) if part is not None else None


def _candidates(contexts: Iterable[Context]) -> Iterator[tuple[Code, Candidate]]:
    from tapecheck.fixes.proposed import strategies_of

    for context in contexts:
        for strategy in strategies_of(context.finding.code):
            for candidate in strategy(context):
                yield context.code, candidate


def _files(report: Report, finding: Finding, open_files: Mapping[str, Source]) -> dict[str, Source]:
    """Return the user's files that have a part in a finding, its own first."""
    spans = [finding.span, *(label.span for label in finding.labels)]
    stored = finding.facts.stored
    named = [span.file for span in spans] + ([stored.file] if stored is not None else [])
    found: dict[str, Source] = {}
    for path in dict.fromkeys(named):
        if path == report.source.path:
            found[path] = report.source
        elif "site-packages" not in Path(path).parts:
            source = open_files.get(str(Path(path).absolute())) or SOURCES.get(path)
            if source is not None:
                found[path] = source
    return found
