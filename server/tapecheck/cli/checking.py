"""Checking files one by one or in several processes, so that no file can take the others down with it."""

from __future__ import annotations

import ast
import math
import os
import time
from collections.abc import Generator, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import chain, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tapecheck.cli import cache
from tapecheck.cli.effort import errors_first, untried
from tapecheck.cli.shared import real_path
from tapecheck.cli.workers import pool, sheltered
from tapecheck.report import Checked, Problem
from tapecheck.report.checked import Incomplete
from tapecheck.source import Source, skipped
from tapecheck.source.cells import Cells, cell_name
from tapecheck.source.disk import is_file
from tapecheck.source.project import Projects
from tapecheck.source.selection import Selection, Wanted
from tapecheck.tape import Span

if TYPE_CHECKING:
    from tapecheck.check import Memory, Report
    from tapecheck.cli.choosing import Chooser
    from tapecheck.cli.fixing import Hides
    from tapecheck.fixes import Effort, Fix

_WORTH_PROCESSES = 24
"""Files that are checked in several processes from the beginning."""
_SECONDS_ALONE = 2.0
"""Processor time after which those that are left of fewer files are checked in several processes, too."""


@dataclass(frozen=True, slots=True)
class CheckOptions:
    """What to look for: what the command line says of rules; whether fixes are wanted.

    `edit` says what is done to the files: safe fixes are made (`fix`), all of them (`unsafe`), or comments are added
    that switch off what is found (`ignore`). `projects` say what holds for the files. `cache` is the folder that
    results are kept in, None where they are not. With `lines` only what is found on them is fixed, by number
    `alternative` of its fixes where that is not 0; with `ask` the user picks them. `from_others` are the codes, first
    and last lines of what is found in a file, also by checks of others, by its real path: comments are added for these.
    """

    rules: Selection = field(default_factory=Selection)
    fixes: bool = True
    edit: Literal["", "fix", "unsafe", "ignore"] = ""
    projects: Projects = field(default_factory=Projects)
    cache: str | None = None
    lines: tuple[tuple[str, int], ...] = ()
    alternative: int = 0
    ask: bool = False
    colour: bool = False
    from_others: Mapping[str, tuple[tuple[str, int, int], ...]] = field(default_factory=dict)


def check_file(path: str, wanted: CheckOptions, source: Source | None = None, data: bytes | None = None) -> Checked:
    """Check one file, or the source given in its place; whatever goes wrong is said in the result.

    What is found in a notebook is told of its cells. Where files are to be edited, `data` is the content of one that is
    not to be read; nothing is written here.
    """
    try:
        if wanted.edit and not (data is None and is_tape(path)):
            return edit_file(path, wanted, data)
        checked, source = check_program(path, wanted, source, comments=True)
        return checked if source is None or source.cells is None else by_cell(checked, source.cells)
    except Exception as error:  # the boundary: one file's failure is reported, the others go on
        return _failed(path, error)


def check_program(
    path: str, wanted: CheckOptions, source: Source | None = None, *, comments: bool = False
) -> tuple[Checked, Source | None]:
    """Check one file as `check_file` does, a notebook as the one program that its cells are.

    Returns the source, too, None where there is none. `comments` says that those are reported which switch nothing off.
    """
    from tapecheck.check import Memory, check
    from tapecheck.interpret import HEADROOM
    from tapecheck.source import SourceError, read_source

    if source is None and is_tape(path):
        return _check_tape(path, wanted), None
    checked = Checked(path)
    folder = wanted.cache if source is None else None
    asked = (wanted.rules, wanted.fixes, comments)
    project = wanted.projects.of(path)
    try:
        source = read_source(path) if source is None else source
        if source.cells is not None:
            folder = None
        known = cache.load(folder, source, asked, project) if folder is not None else None
        if known is not None:
            return known, source
        HEADROOM.collect()
        memory = Memory()
        report = check(source, rules=wanted.rules, memory=memory, project=project)
        HEADROOM.leave_behind(report.interpretation.weight)
    except SourceError as error:
        checked.problems.append(Problem("io-error", str(error).removeprefix(f"{path}: ")))
        return checked, None
    except Exception as error:  # the boundary: one file's failure is reported, the others go on
        checked.problems.append(Problem("internal-error", internal("the analysis", error)))
        return checked, None
    _tell(checked, report)
    if wanted.fixes and checked.findings:
        _add_fixes(checked, report, memory)
    if comments:
        _add_unused(checked, report, wanted)
    if folder is not None and not checked.problems:
        cache.save(folder, source, asked, report, checked)
    return checked, source


def _add_fixes(checked: Checked, report: Report, memory: Memory) -> None:
    """Add the fixes of the findings, those of errors first: what they may cost together is limited."""
    from tapecheck.fixes import MAX_FOR_LIGHT, Effort, fixes_for

    effort = Effort(for_light=MAX_FOR_LIGHT)
    checked.fixes = [[] for _ in checked.findings]
    places = {id(finding): index for index, finding in enumerate(checked.findings)}
    for finding in errors_first(checked.findings):
        try:
            checked.fixes[places[id(finding)]] = fixes_for(report, finding, memory=memory, effort=effort)
        except Exception as error:
            message = internal(f"working out fixes of {finding.code}, line {finding.span.line}", error)
            checked.problems.append(Problem("internal-error", message))
    for finding, why in effort.without:
        finding.notes += (f"no fix: {why}",)
    checked.incomplete += untried(effort, len(checked.findings))


def _add_unused(checked: Checked, report: Report, wanted: CheckOptions) -> None:
    """Add the comments that switch nothing off or are not read, each with its fix, in the order of lines."""
    from tapecheck.check import invalid_ignores, unused_ignores
    from tapecheck.cli.comments import finding_of, finding_of_misspelt, fix_of, fix_of_misspelt

    path = checked.path
    found = unused_ignores(report, rules=wanted.rules)
    wrong = invalid_ignores(report, rules=wanted.rules)
    if not found and not wrong:
        return
    pairs = [(finding, checked.fixes_of(index)) for index, finding in enumerate(checked.findings)]
    pairs += [(finding_of(one, path), [fix_of(one, path)]) for one in found]
    idle = {one.line for one in found}
    # A comment for a whole line that names nothing and switches nothing off is told once.
    for one in (one for one in wrong if one.line not in idle or one.text or not one.blanket):
        fix = fix_of_misspelt(one, path)
        pairs.append((finding_of_misspelt(one, path), [fix] if fix is not None else []))
    pairs.sort(key=lambda pair: (pair[0].span.file, pair[0].span.line, pair[0].span.column))
    checked.findings = [finding for finding, _ in pairs]
    checked.fixes = [fixes for _, fixes in pairs] if wanted.fixes else []


def _tell(checked: Checked, report: Report) -> None:
    """Take over what a report says of a file."""
    from tapecheck.check import facts_for, faults_of, limits_of

    source = report.source
    checked.facts = facts_for(report.project)
    if report.error is not None:
        line = source.error_line or 1
        message = report.error.removeprefix(f"line {line}: ")
        shown = source.lines[line - 1] if line <= len(source.lines) else ""
        indent = len(shown) - len(shown.lstrip())
        column = indent + 1 if source.error_column is None else min(source.error_column, len(shown) + 1)
        # What stands for a skipped statement is nothing that was checked.
        whole = all(isinstance(one, ast.Expr) and skipped.is_call(one.value) for one in source.tree.body)
        checked.problems.append(Problem("invalid-syntax", message, line, column, whole=whole))
    checked.problems += [Problem("internal-error", one.message, one.line) for one in faults_of(report)]
    checked.findings = report.findings
    checked.elsewhere = report.elsewhere
    checked.retained = report.retained()
    checked.work = report.interpretation.weight
    checked.calls = frozenset(report.interpretation.calls)
    checked.gaps = sorted(report.interpretation.gaps, key=lambda gap: (gap[1].file, gap[1].line, gap[0]))
    checked.incomplete = [Incomplete(limit.message, limit.line) for limit in limits_of(report)]


def edit_file(path: str, wanted: CheckOptions, data: bytes | None = None, hides: Hides | None = None) -> Checked:
    """Check a file and work out how it is edited; the result is of the edited one. `hides` as `fix_document` has it."""
    from tapecheck.check import Memory, check
    from tapecheck.cli.comments import fixes_of_comments
    from tapecheck.cli.editing import Document, open_document
    from tapecheck.cli.fixing import add_ignores, can_be_written, fix_document, read_document
    from tapecheck.source import SourceError, read_source

    # Each fix leaves most of the file as it was.
    memory = Memory()

    def judged(document: Document) -> Report:
        return check(document.source(), rules=wanted.rules, memory=memory, project=wanted.projects.of(path))

    def comments(report: Report) -> list[tuple[str, int, Fix]]:
        return fixes_of_comments(report, wanted.rules)

    checked = Checked(path)
    try:
        if data is None:
            read_source(path)
            document, data = read_document(path)
        else:
            document = open_document(data, path)
    except SourceError as error:
        checked.problems.append(Problem("io-error", str(error).removeprefix(f"{path}: ")))
        return checked
    try:
        if not can_be_written(document, data):
            message = "not edited: the file cannot be written back as it is"
            checked = check_file(path, replace(wanted, edit=""), document.source())
            checked.problems.append(Problem("io-error", message))
            return checked
        if wanted.edit == "ignore":
            outcome = add_ignores(document, data, judged, wanted.from_others.get(real_path(path), ()))
        else:
            outcome = fix_document(
                document, data, judged, comments,
                choose=_chooser(path, wanted), remaining=wanted.fixes, memory=memory, hides=hides,
            )  # fmt: skip
    except Exception as error:
        checked = check_file(path, replace(wanted, edit=""), document.source())
        checked.problems.append(Problem("internal-error", internal("editing the file", error)))
        return checked
    checked = edited_file(path, wanted, outcome.report, outcome.fixes, outcome.effort)
    checked.rewrite, checked.shared, checked.refused = outcome.rewrite, outcome.shared, outcome.refused
    return checked


def _chooser(path: str, wanted: CheckOptions) -> Chooser:
    """Return what chooses the fixes to make in a file."""
    from tapecheck.cli.choosing import Asking, Chooser, OfLines

    unsafe = wanted.edit == "unsafe"
    if wanted.ask:
        return Asking(colour=wanted.colour)
    if wanted.lines:
        lines = tuple(line for name, line in wanted.lines if name == path)
        return OfLines(unsafe, lines=lines, alternative=wanted.alternative)
    return Chooser(unsafe)


def edited_file(path: str, wanted: CheckOptions, report: Report, fixes: list[list[Fix]], effort: Effort) -> Checked:
    """Return what is said of a file that was edited, in the state that `report` is of.

    `effort` is what trying its fixes came to.
    """
    checked = Checked(path)
    _tell(checked, report)
    checked.fixes = fixes
    checked.read = frozenset(real_path(one) for one in report.interpretation.read)
    checked.incomplete += untried(effort, len(report.findings))
    _add_unused(checked, report, wanted)
    cells = report.source.cells
    return checked if cells is None else by_cell(checked, cells)


def is_tape(path: str) -> bool:
    """Return whether a file is a recorded tape."""
    if not is_file(path):
        return False
    try:
        with Path(path).open("rb") as file:
            return file.read(8) == b'{"tape":'
    except OSError:
        return False


def _check_tape(path: str, wanted: CheckOptions) -> Checked:
    """Judge a recorded tape: all that is found was found by the run."""
    from tapecheck.record import judge
    from tapecheck.tape import TapeError, read_tape

    checked = Checked(path)
    try:
        with Path(path).open(encoding="utf-8", errors="replace") as file:
            findings = judge([], read_tape(file))
    except (OSError, TapeError) as error:
        checked.problems.append(Problem("io-error", str(error)))
        return checked
    except Exception as error:
        checked.problems.append(Problem("internal-error", internal("judging the tape", error)))
        return checked
    # A tape is a recording, of which no project says what is wanted.
    rules = Wanted((wanted.rules,))
    checked.findings = [finding for finding in findings if rules.wants(finding.code, finding.name)]
    return checked


def by_cell(checked: Checked, cells: Cells) -> Checked:
    """Return what was found in the program of a notebook, with the places and the words of its cells."""
    path = checked.path

    def local(span: Span) -> Span:
        return cells.within(span)[1] if span.file == path else span

    def problem(one: Problem) -> Problem:
        if one.kind != "invalid-syntax":
            return replace(one, message=cells.words(one.message))
        place = local(Span(path, one.line, one.column, one.line, one.column))
        return replace(one, message=cells.words(one.message), line=place.line, file=place.file)

    def limit(one: Incomplete) -> Incomplete:
        place = local(Span(path, one.line, 1, one.line, 1))
        return replace(one, message=cells.words(one.message), line=place.line, file=place.file)

    findings = [
        replace(
            finding,
            span=local(finding.span),
            message=cells.words(finding.message),
            notes=tuple(map(cells.words, finding.notes)),
            help=cells.words(finding.help),
            evidence=finding.evidence and replace(finding.evidence, detail=cells.words(finding.evidence.detail)),
            labels=tuple(
                replace(label, span=local(label.span), message=cells.words(label.message)) for label in finding.labels
            ),
        )
        for finding in checked.findings
    ]
    fixes = [
        [
            replace(
                fix,
                title=cells.words(fix.title),
                changes=cells.words(fix.changes),
                edits=tuple(replace(edit, span=local(edit.span)) for edit in fix.edits),
            )
            for fix in several
        ]
        for several in checked.fixes
    ]
    return replace(
        checked,
        findings=findings,
        fixes=fixes,
        problems=[problem(one) for one in checked.problems],
        texts={cell_name(path, cell.number): list(cell.lines) for cell in cells.parts},
        incomplete=[limit(one) for one in checked.incomplete],
    )


def check_files(paths: Sequence[str], wanted: CheckOptions, jobs: int | None = None) -> Generator[Checked]:
    """Check files in their order, in `jobs` processes where there are enough of them to be worth it, or take long."""
    jobs = min(jobs or _cores(), len(paths))
    if jobs <= 1 or len(paths) < _WORTH_PROCESSES:
        paths = yield from _check_here(paths, wanted, _SECONDS_ALONE if jobs > 1 else math.inf)
        if not paths:
            return
    with pool(min(jobs, len(paths))) as processes:
        started: list[Future[Checked] | None] = []
        with sheltered():
            for path in paths:
                try:
                    started.append(processes.submit(check_file, path, wanted))
                except BrokenProcessPool:
                    started.append(None)
        for path, future in zip(paths, started, strict=True):
            try:
                yield future.result() if future is not None else _check_apart(path, wanted)
            except BrokenProcessPool:
                yield _check_apart(path, wanted)
            except Exception as error:  # what was found could not be sent from one process to the other
                yield _failed(path, error)


def _check_here(paths: Sequence[str], wanted: CheckOptions, most: float) -> Generator[Checked, None, Sequence[str]]:
    """Check files in this process for so many seconds of its time; return those that are left, several or none."""
    begun = time.process_time()
    for done, path in enumerate(paths):
        if done < len(paths) - 1 and time.process_time() - begun > most:
            return paths[done:]
        yield check_file(path, wanted)
    return ()


def check_callers(files: Sequence[Checked], wanted: CheckOptions, jobs: int | None = None) -> list[Checked]:
    """Check the files of the project that import those which were asked for, as far as these are not among them.

    What they do in the files that were asked for is among `elsewhere`. Files beyond the limits are noted.
    """
    from tapecheck.check import nearest_callers, while_affordable

    callers = _callers(files, wanted)
    # The nearest ones of each file first.
    nearest = zip_longest(*(nearest_callers(ones) for _, ones in callers))
    paths = [path for path in dict.fromkeys(chain.from_iterable(nearest)) if path is not None]
    options = replace(wanted, fixes=False, edit="", lines=(), ask=False)
    times = len(callers) * wanted.projects.setup.effort
    with closing(check_files(paths, options, jobs)) as checked:
        found = list(while_affordable(checked, lambda one: one.work, times))
    run = {real_path(one.path) for one in found}
    for file, ones in callers:
        if number := sum(real_path(one) not in run for one in ones):
            note = f"work limit reached: {number} of the files that import this one were not run"
            file.incomplete.append(Incomplete(note))
    return found


def _callers(files: Sequence[Checked], wanted: CheckOptions) -> list[tuple[Checked, list[str]]]:
    """Return the files that are imported by others than those which were asked for, each with these others."""
    from tapecheck.source.importers import Importers

    asked = {real_path(file.path) for file in files}
    importers = Importers(wanted.projects, asked)
    shown: dict[str, str] = {}
    callers: list[tuple[Checked, list[str]]] = []
    for file in files:
        if not file.checked or not is_file(file.path) or is_tape(file.path):
            continue
        others = {real_path(one): one for one in importers.of(file.path) if real_path(one) not in asked}
        for real, one in others.items():
            shown.setdefault(real, one if Path(file.path).is_absolute() else os.path.relpath(one))
        if others:
            callers.append((file, [shown[real] for real in others]))
    return callers


def _check_apart(path: str, wanted: CheckOptions) -> Checked:
    """Check a file in a process of its own: one of the files ended the shared ones."""
    try:
        with pool(1) as processes:
            with sheltered():
                future = processes.submit(check_file, path, wanted)
            return future.result()
    except BrokenProcessPool:
        message = "the process that analysed this file died (out of memory, or a crash of the interpreter)"
        return Checked(path, problems=[Problem("internal-error", message)])
    except Exception as error:
        return _failed(path, error)


def _failed(path: str, error: Exception) -> Checked:
    return Checked(path, problems=[Problem("internal-error", internal("the analysis", error))])


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def internal(what: str, error: Exception) -> str:
    """Return the words for an error of Tapecheck's own."""
    from tapecheck.interpret.explore.faults import described

    return f"{what} failed, which is a bug in Tapecheck: {described(error)}"
