"""Hold the findings and the safe fixes of a program's variants against what torch says of the program."""

from __future__ import annotations

import ast
import json
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from tapecheck.check import Report, check
from tapecheck.cli.across import to_their_files
from tapecheck.cli.checking import CheckOptions, check_files
from tapecheck.fixes import Effort, fixes_for
from tapecheck.rules.finding import Finding
from tapecheck.rules.untrained_parameter.facts import UntrainedParameterFacts
from tapecheck.source import from_text
from tests.cases import under_torch
from tests.partial.hide import Variant, variants

NEAR = 3
"""Lines between a finding and the place that torch has it at: one of them may be the call that leads to the other."""
LOUD = ("error", "warning")
BATCH = 400
"""Programs that one start of torch runs."""
SECONDS = 20
"""How long one of them may take: those that have lost the end of a loop go on for ever."""

Row = tuple[str, int, bool, str]
"""Rule's name, line of the program, whether it is certain, severity."""


@dataclass(frozen=True, slots=True)
class Truth:
    """What torch has in a program: the rule and the lines of each mistake, and those of its cause."""

    rule: str
    first: int
    last: int
    cause: tuple[int, ...] = ()


@dataclass(slots=True)
class Judged:
    """What came of one variant: wrong findings, what is said otherwise than of the program, fixes that are to be tried.

    `told` are the findings by (`right` or `wrong`, `certain` or `possible`, `loud` or `quiet`).
    """

    program: str
    variant: Variant
    told: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    fresh: list[str] = field(default_factory=list)
    mistakes: int = 0
    kept: int = 0
    fixes: list[tuple[str, str]] = field(default_factory=list)
    failed: str = ""


@dataclass(slots=True)
class Result:
    """All that came of the variants of some programs."""

    judged: list[Judged] = field(default_factory=list)
    invalid: int = 0
    fixes: Counter[str] = field(default_factory=Counter)
    unsafe: list[str] = field(default_factory=list)

    def count(self, right: str, certain: str = "", loud: str = "") -> int:
        return sum(
            number
            for one in self.judged
            for (a, b, c), number in one.told.items()
            if a == right and certain in ("", b) and loud in ("", c)
        )

    def lines(self) -> Iterator[str]:
        for one in self.judged:
            where = f"{one.program} [{one.variant.kind}: {one.variant.part}]"
            yield from (f"wrong    {where} {text}" for text in one.wrong)
            yield from (f"lost     {where} {text}" for text in one.lost)
            yield from (f"new      {where} {text}" for text in one.fresh)
            if one.failed:
                yield f"failed   {where} {one.failed}"
        yield from (f"unsafe   {text}" for text in self.unsafe)

    def table(self) -> str:
        kinds = Counter(one.variant.kind for one in self.judged)
        hidden = [one for one in self.judged if one.variant.hides]
        certain = self.count("wrong", "certain", "loud"), self.count("right", "certain", "loud")
        possible = self.count("wrong", "possible", "loud"), self.count("right", "possible", "loud")
        quiet = self.count("wrong", "", "quiet"), self.count("right", "", "quiet")
        visible = {
            kind: [one for one in self.judged if one.variant.kind == kind] for kind in ("split", "renamed", "named")
        }
        rows = [
            f"variants {len(self.judged)}: " + ", ".join(f"{kind} {number}" for kind, number in kinds.most_common()),
            f"hidden: wrong of certain errors and warnings {certain[0]} of {sum(certain)}",
            f"hidden: wrong of possible errors and warnings {possible[0]} of {sum(possible)}",
            f"hidden: wrong infos and hints {quiet[0]} of {sum(quiet)}",
            f"hidden: mistakes still told {sum(one.kept for one in hidden)} of {sum(one.mistakes for one in hidden)}",
        ]
        for kind, several in visible.items():
            changed = sum(bool(one.lost or one.fresh) for one in several)
            rows.append(f"{kind}: findings lost {sum(len(one.lost) for one in several)}, new")
            rows[-1] += f" {sum(len(one.fresh) for one in several)}, in {changed} of {len(several)}"
        rows.append(f"internal errors {sum(bool(one.failed) for one in self.judged)}")
        tried = sum(self.fixes.values())
        came = ", ".join(f"{kind} {number}" for kind, number in sorted(self.fixes.items()))
        rows.append(f"safe fixes {tried}: {came}; {self.invalid} more on variants that do not run as the program does")
        return "\n".join(rows)


def truth_of(program: Path) -> list[Truth]:
    """Return what torch has in a program of `tests/cases`: nothing in a fixed one."""
    if program.name.endswith(".fixed.py"):
        return []
    found = json.loads(program.with_suffix(".json").read_text())["findings"]
    return [Truth(one["rule"], one["line"], one.get("end_line") or one["line"], _cause(one)) for one in found]


def _cause(finding: dict[str, Any]) -> tuple[int, ...]:
    related = finding.get("related_lines") or {}
    return tuple(line for role in ("cut_by", "not_differentiable") for line in related.get(role, ()))


def judge_program(program: Path, wanted: Sequence[int] | None = None, *, fixes: bool = True) -> list[Judged]:
    """Return what comes of the variants of a program, or those of some numbers; torch is not run."""
    text, truth = program.read_text(), truth_of(program)
    chosen = [one for number, one in enumerate(variants(text)) if wanted is None or number in wanted]
    report: Report | None = None
    judged: list[Judged] = []
    with tempfile.TemporaryDirectory() as scratch:
        for variant in chosen:
            if not variant.hides and report is None:
                report = check(from_text(text, f"{scratch}/whole.py"))
            one = Judged(program.name, variant)
            judged.append(one)
            try:
                _judge(one, Path(scratch), truth, report, fixes=fixes)
            except Exception as error:  # what fails is reported, the others go on
                one.failed = f"{type(error).__name__}: {error}"
    return judged


def _lines_of(finding: Finding) -> set[int]:
    """Return the lines that a finding may be told at: in another file than the optimizer, the calls that lead there."""
    calls = finding.facts.lacking.calls if isinstance(finding.facts, UntrainedParameterFacts) else ()
    return {finding.span.line, *(label.span.line for label in finding.labels), *(span.line for span in calls)}


def _row(finding: Finding, line: int) -> Row:
    return finding.name, line, finding.certain, finding.severity


def _found_in_both(*paths: Path) -> list[Finding]:
    """Return what the command line tells of two files that are checked together."""
    wanted = CheckOptions(fixes=False)
    files = list(check_files([*map(str, paths)], wanted, 1))
    to_their_files(files, rules=wanted.rules, projects=wanted.projects)
    return [finding for file in files for finding in (*file.findings, *file.elsewhere)]


def _judge(one: Judged, scratch: Path, truth: Sequence[Truth], of_whole: Report | None, *, fixes: bool) -> None:
    variant = one.variant
    folder = scratch / variant.module if variant.module else scratch
    folder.mkdir(exist_ok=True)
    path = folder / "program.py"
    module = folder / f"{variant.module}.py"
    if variant.kind == "split":
        path.write_text(variant.text)
        module.write_text(variant.body)
    report = check(from_text(variant.text, str(path)))
    rows: dict[Row, None] = {}
    found = [*report.findings, *report.elsewhere]
    if variant.kind == "split":
        found = _found_in_both(path, module)
    for finding in found:
        elsewhere = finding.span.file != str(path)
        rows[_row(finding, variant.original(finding.span.line, in_module=elsewhere))] = None
    if not variant.hides:
        if of_whole is not None:
            whole = {_row(one, one.span.line): _lines_of(one) for one in of_whole.findings}
            # What is stored in another file than that of its loop is told at the call in the loop.
            # The file of the part is checked by itself as well, where less is certain.
            rows = {now: None for now in rows if now[2] or (*now[:2], True, now[3]) not in rows}
            alike = {
                row: [now for now in rows if (now[0], now[2:]) == (row[0], row[2:]) and now[1] in lines]
                for row, lines in whole.items()
            }
            one.lost = [_told(row) for row, now in sorted(alike.items()) if not now]
            one.fresh = [
                _told(row) for row in sorted(rows.keys() - {now for several in alike.values() for now in several})
            ]
            if variant.kind == "renamed":
                _same_fixes(one, of_whole, report)
    else:
        for row in rows:
            right = any(_is(row, mistake) for mistake in truth)
            if variant.kind == "option" and not row[2] and not right:
                # It speaks of another answer than the default, which is not what ran.
                continue
            how = "certain" if row[2] else "possible", "loud" if row[3] in LOUD else "quiet"
            one.told["right" if right else "wrong", how[0], how[1]] += 1
            if not right:
                one.wrong.append(f"{' '.join(how)} {_told(row)}")
        if variant.twin:
            _as_of(one, check(from_text(variant.twin, str(path))), report)
        one.mistakes = len(truth)
        one.kept = sum(any(_is(row, mistake) for row in rows) for mistake in truth)
    if fixes:
        effort = Effort()
        for finding in report.findings:
            for fix in fixes_for(report, finding, effort=effort):
                if fix.applicability == "safe" and all(edit.span.file == str(path) for edit in fix.edits):
                    line = variant.original(finding.span.line)
                    one.fixes.append((f"{line} {finding.code}: {fix.title}", _edited(variant.text, fix.edits)))


def _as_of(one: Judged, twin: Report, report: Report) -> None:
    """Note what is said otherwise than of the same program with another name."""
    was, now = ({_row(finding, finding.span.line) for finding in which.findings} for which in (twin, report))
    one.lost += map(_told, sorted(was - now))
    one.fresh += map(_told, sorted(now - was))
    _same_fixes(one, twin, report)


def _same_fixes(one: Judged, before: Report, after: Report) -> None:
    was, now = _offered(before), _offered(after)
    one.lost += [f"fix of {fix}" for fix in (was - now).elements()]
    one.fresh += [f"fix of {fix}" for fix in (now - was).elements()]


def _offered(report: Report) -> Counter[str]:
    """Return how often each fix of a report is offered, by the finding's line, as safe or not."""
    effort = Effort()
    return Counter(
        f"line {finding.span.line} {finding.code}, {fix.applicability}"
        for finding in report.findings
        for fix in fixes_for(report, finding, effort=effort)
    )


def _edited(text: str, edits: Iterable[Any]) -> str:
    starts = [0]
    for line in text.split("\n"):
        starts.append(starts[-1] + len(line) + 1)

    def at(line: int, column: int) -> int:
        return min(starts[min(line, len(starts)) - 1] + column - 1, len(text))

    places = [(at(e.span.line, e.span.column), at(e.span.end_line, e.span.end_column), e.content) for e in edits]
    for start, end, content in sorted(places, reverse=True):
        text = text[:start] + content + text[end:]
    return text


def _told(row: Row) -> str:
    return f"line {row[1]} {row[0]} ({row[3]}, {'certain' if row[2] else 'possible'})"


def _is(row: Row, mistake: Truth) -> bool:
    """Return whether a finding is a mistake that torch has: where a line raises, either name of the pair says so."""
    names = {row[0], mistake.rule}
    if (len(names) == 1 or names <= _RAISING) and mistake.first - NEAR <= row[1] <= mistake.last + NEAR:
        return True
    # A cut is told as what raises, or as what is not trained, by how much is seen of what is computed from it.
    return (len(names) == 1 or names <= _CUT) and row[1] in mistake.cause


_RAISING = {"backward-twice", "stale-saved-tensor", "growing-chain"}
_CUT = {"backward-without-graph", "gradient-cut", "missing-create-graph", "term-without-effect"}


def judge_all(programs: Sequence[tuple[Path, Sequence[int] | None]], jobs: int = 2, *, fixes: bool = True) -> Result:
    """Judge variants of programs, then run under torch those with a safe fix, without it and with it."""
    result = Result()
    work = partial(_work, fixes=fixes)
    if jobs > 1:
        with get_context("fork").Pool(jobs, maxtasksperchild=20) as pool:
            for several in pool.imap(work, programs, chunksize=1):
                result.judged += several
    else:
        for one in programs:
            result.judged += work(one)
    if fixes and under_torch.has_torch():
        _try_fixes(result)
    return result


def _work(one: tuple[Path, Sequence[int] | None], *, fixes: bool) -> list[Judged]:
    return judge_program(one[0], one[1], fixes=fixes)


def run_texts(texts: Sequence[tuple[Variant, str]]) -> list[dict[str, Any]]:
    """Run texts that stand for those of variants, each with its part where the run finds it."""
    outcomes: list[dict[str, Any]] = []
    for start in range(0, len(texts), BATCH):
        with tempfile.TemporaryDirectory() as scratch:
            requests = []
            for number, (variant, text) in enumerate(texts[start : start + BATCH]):
                folder = Path(scratch) / str(number)
                (folder / "hidden").mkdir(parents=True)
                (folder / "program.py").write_text(text)
                if variant.module:
                    (folder / "hidden" / f"{variant.module}.py").write_text(variant.body)
                path = folder / "program.py"
                requests.append({"path": path, "folders": [str(folder / "hidden")], "seconds": SECONDS})
            outcomes += under_torch.run_all(requests)
    return outcomes


def same_run(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Return whether two programs end alike, print the same and learn the same."""
    return all(one[key] == other[key] for key in ("exception", "output", "steps"))


def _try_fixes(result: Result) -> None:
    with_fixes = [one for one in result.judged if one.fixes]
    texts = [(one.variant, one.variant.text) for one in with_fixes]
    texts += [(one.variant, text) for one in with_fixes for _, text in one.fixes]
    outcomes = iter(run_texts(texts))
    before = [next(outcomes) for _ in with_fixes]
    for one, was in zip(with_fixes, before, strict=True):
        for title, _ in one.fixes:
            now = next(outcomes)
            kind = "holds"
            if was["exception"] in ("ModuleNotFoundError", "ImportError", "NameError", "UnboundLocalError", "Late"):
                result.invalid += 1
                continue
            if was["exception"] is not None:
                if now["exception"] == was["exception"] and now["message"] == was["message"]:
                    kind = "still raises"
                elif now["exception"] is not None:
                    kind = "raises otherwise"
            elif now["exception"] is not None:
                kind = "raises now"
            elif now["output"] != was["output"]:
                kind = "prints other"
            elif now["steps"] != was["steps"]:
                kind = "learns other"
            result.fixes[kind] += 1
            if kind != "holds":
                where = f"{one.program} [{one.variant.kind}: {one.variant.part}]"
                result.unsafe.append(f"{kind}: {where} line {title}: {now['exception']} {now['message'][:90]}")


def parses(program: Path) -> bool:
    try:
        ast.parse(program.read_text())
    except SyntaxError:
        return False
    return True
