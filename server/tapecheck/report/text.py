"""Findings for people, written as rustc writes them: the wrong line first, what else matters below."""

from __future__ import annotations

import difflib
import itertools
import os
from collections.abc import Iterable, Sequence, Set
from typing import TYPE_CHECKING, Literal

from tapecheck.fixes.edit import apply, changes_of
from tapecheck.report.checked import SEVERITIES, Checked, Problem, Tried
from tapecheck.report.excerpt import DEFAULT_WIDTH, Mark, Paint, Sources, draw, printable
from tapecheck.rules.finding import Finding
from tapecheck.source.cells import split_cell
from tapecheck.tape import Span

if TYPE_CHECKING:
    from tapecheck.fixes import Edit, Fix

_NARROWEST = 40
_CONTEXT = 1
_ELSEWHERE = 10
_INCONCLUSIVE = "inconclusive: this run neither confirms nor refutes it"


def render(
    files: Iterable[Checked],
    sources: Sources,
    *,
    colour: bool = False,
    width: int = DEFAULT_WIDTH,
    recorded: bool = False,
    quiet: bool = False,
) -> str:
    """Return every problem and finding, file by file, each followed by an empty line; a summary unless `quiet`.

    `width` is the terminal's number of columns: longer source lines are cut around what is underlined. `recorded` says
    that the findings were compared with a run: one without evidence is then marked inconclusive.
    """
    paint = Paint(colour)
    pieces: list[str] = []
    files = list(files)
    for file in files:
        sources.texts.update(file.texts)
        for problem in file.problems:
            pieces.append(render_problem(problem.file or file.path, problem, sources, paint=paint, width=width))
        for index, finding in enumerate(file.findings):
            pieces.append(
                render_finding(
                    finding,
                    sources,
                    fixes=file.fixes_of(index),
                    trial=file.trial_of(index),
                    paint=paint,
                    width=width,
                    recorded=recorded,
                )
            )
        for limit in file.incomplete:
            where = f"{printable(_shown(limit.file or file.path))}:{limit.line}"
            pieces.append(f"{paint('info', 'note[incomplete-analysis]')}: {where}: {printable(limit.message)}\n")
    told = "".join(f"{piece}\n" for piece in pieces)
    return told if quiet else told + summary(files, paint)


def elsewhere(findings: list[Finding], *, colour: bool = False) -> str:
    """Render a line for each finding in files that were not asked for, under a line that says so."""
    paint = Paint(colour)
    rows = [f"In files that are imported, by what is done with them: {count(len(findings), 'finding')}."]
    for finding in findings[:_ELSEWHERE]:
        span = finding.span
        message = printable(finding.message.splitlines()[0])
        kind = paint(finding.severity, f"{finding.severity}[{finding.code}]")
        rows.append(f"  {printable(_shown(span.file))}:{span.line}:{span.column}: {kind}: {message}")
    if len(findings) > _ELSEWHERE:
        rows.append(f"  and {len(findings) - _ELSEWHERE} more")
    return "\n".join(rows) + "\n"


def _shown(file: str) -> str:
    """Return a file as seen from the working directory, where it lies below it."""
    try:
        relative = os.path.relpath(file)
    except ValueError:  # another drive of Windows
        return file
    return file if relative.startswith(os.pardir) else relative


def render_finding(
    finding: Finding,
    sources: Sources,
    *,
    fixes: list[Fix] | None = None,
    trial: Tried | None = None,
    paint: Paint | None = None,
    width: int = DEFAULT_WIDTH,
    recorded: bool = False,
) -> str:
    """Render one finding: headline, excerpts with all labels, notes, help, evidence, the preferred fix and its run."""
    paint = paint or Paint()
    first, *further = finding.message.splitlines() or [""]
    own, labels = finding.label, finding.others
    marks = [Mark(finding.span, printable(own.message) if own else "", primary=True)]
    marks.extend(Mark(label.span, printable(label.message)) for label in labels)
    gutter = len(str(max(max(mark.span.line, mark.span.end_line) for mark in marks)))
    limit = max(_NARROWEST, width - gutter - 3)

    rows = [_header(f"{finding.severity}[{finding.code}]", finding.severity, first, paint)]
    bar = f"{' ' * gutter} {paint('gutter', '|')}"
    for file, inside in _by_file(marks).items():
        rows.append(_place("-->" if inside[0].primary else ":::", inside[0].span, gutter, paint))
        lines = sources.lines(file)
        drawn = draw(inside, lines, gutter=gutter, limit=limit, severity=finding.severity, paint=paint)
        # The lines of a file that can no longer be read are listed without an excerpt.
        rows.extend(drawn or [f"{bar} line {mark.span.line}: {mark.message}".rstrip(" :") for mark in inside])
    tail = _tail(finding, further, fixes or [], trial, recorded=recorded)
    if tail:
        rows.append(bar)
    for name, text in tail:
        rows.extend(_remark(name, text, gutter, paint))
        if name.startswith("fix (") and fixes:
            rows.extend(_diff(fixes[0], sources, gutter, limit, paint))
    return "\n".join(rows) + "\n"


def _by_file(marks: Sequence[Mark]) -> dict[str, list[Mark]]:
    """Return the marks of each file, in the order of the files' first marks."""
    found: dict[str, list[Mark]] = {}
    for mark in marks:
        found.setdefault(mark.span.file, []).append(mark)
    return found


def _tail(
    finding: Finding, further: Sequence[str], fixes: Sequence[Fix], trial: Tried | None, *, recorded: bool
) -> list[tuple[str, str]]:
    """Return what stands below the excerpts, each remark with its name; `further` are more lines of the message."""
    tail = [("note", note) for note in (*further, *finding.notes) if note.strip()]
    tail.append(("help", finding.help))
    if finding.evidence is not None:
        tail.append(("run", f"{finding.evidence.title}: {finding.evidence.detail}"))
    elif recorded:
        tail.append(("run", _INCONCLUSIVE))
    tail.extend((f"fix ({fix.applicability})", _fix_line(fix)) for fix in fixes[:1])
    if trial is not None:
        tail.append(("fix run", trial.text()))
    tail.extend((f"or ({fix.applicability})", _fix_line(fix)) for fix in fixes[1:])
    return [(name, text) for name, text in tail if text]


def render_problem(
    path: str, problem: Problem, sources: Sources, *, paint: Paint | None = None, width: int = DEFAULT_WIDTH
) -> str:
    """Render why a file, or a part of it, could not be checked."""
    paint = paint or Paint()
    rows = [_header(f"error[{problem.kind}]", "error", problem.message, paint)]
    gutter = len(str(problem.line))
    end = problem.column + 1
    span = Span(path, problem.line, problem.column, problem.line, end)
    if problem.kind != "invalid-syntax":
        where = f":{problem.line}" if problem.line > 1 else ""
        rows.append(f"{' ' * gutter}{paint('gutter', '-->')} {printable(path)}{where}")
        return "\n".join(rows) + "\n"
    rows.append(_place("-->", span, gutter, paint))
    rows.extend(
        draw(
            [Mark(span, "", primary=True)],
            sources.lines(path),
            gutter=gutter,
            limit=max(_NARROWEST, width - gutter - 3),
            severity="error",
            paint=paint,
        )
    )
    left = "nothing else in the file could be parsed" if problem.whole else "the rest of the file was checked"
    rows.extend(_remark("note", f"skipped this statement; {left}", gutter, paint))
    return "\n".join(rows) + "\n"


def _header(kind: str, style: str, message: str, paint: Paint) -> str:
    return f"{paint(style, kind)}{paint('strong', ': ' + printable(message))}"


def _place(arrow: str, span: Span, gutter: int, paint: Paint) -> str:
    return f"{' ' * gutter}{paint('gutter', arrow)} {printable(span.file)}:{span.line}:{span.column}"


def _remark(name: str, text: str, gutter: int, paint: Paint) -> list[str]:
    lead = f"{' ' * gutter} {paint('gutter', '=')} {paint('strong', name)}: "
    first, *rest = text.splitlines() or [""]
    indent = " " * (gutter + len(name) + 5)
    return [f"{lead}{printable(first)}", *(f"{indent}{printable(line)}".rstrip() for line in rest)]


def _fix_line(fix: Fix) -> str:
    return f"{fix.title}\n{fix.changes}" if fix.changes else fix.title


def _diff(fix: Fix, sources: Sources, gutter: int, limit: int, paint: Paint) -> list[str]:
    """Return the preferred fix as the lines it takes out and puts in, with a line around them.

    The numbers are those of the file as it is: what is put in has none yet.
    """
    rows: list[str] = []
    for file in dict.fromkeys(edit.span.file for edit in fix.edits):
        before = sources.lines(file)
        if not before:
            continue
        after, groups = edited_lines(before, [edit for edit in fix.edits if edit.span.file == file], _CONTEXT)
        for group in groups:
            if rows:
                rows.append(paint("gutter", "..."))
            for tag, old, old_end, new, new_end in group:
                if tag == "equal":
                    for at, line in enumerate(before[old:old_end], old + 1):
                        rows.append(_diff_row("|", at, _shown_line(line), gutter, limit, paint))
                    continue
                removed, added = (list(map(_shown_line, part)) for part in (before[old:old_end], after[new:new_end]))
                starts = [_start(pair, limit) for pair in itertools.zip_longest(removed, added, fillvalue="")]
                for at, (line, start) in enumerate(zip(removed, starts, strict=False), old + 1):
                    rows.append(_diff_row("-", at, line, gutter, limit, paint, start))
                for line, start in zip(added, starts, strict=False):
                    rows.append(_diff_row("+", "", line, gutter, limit, paint, start))
    return rows


Opcode = tuple[str, int, int, int, int]
"""As `difflib` has it: a tag, the lines from and to before, those after, counted from 0."""


def edited_lines(lines: list[str], edits: list[Edit], context: int) -> tuple[list[str], list[list[Opcode]]]:
    """Return the lines of a file with the edits of one fix made, and what has changed in groups with lines around."""
    text = "\n".join(lines)
    after = apply(text, sorted(changes_of(text, edits))).replace("\r\n", "\n").split("\n")
    return after, list(_Changed(lines, after, {edit.span.line - 1 for edit in edits}).get_grouped_opcodes(context))


class _Changed(difflib.SequenceMatcher[str]):
    """What has changed, where lines were `edited`: the line that an edit takes out is shown, not its like above it."""

    def __init__(self, before: list[str], after: list[str], edited: set[int]) -> None:
        super().__init__(None, before, after, autojunk=False)
        self._before, self._edited = before, edited

    def get_opcodes(self) -> list[tuple[Literal["replace", "delete", "insert", "equal"], int, int, int, int]]:
        found = super().get_opcodes()
        for at in range(1, len(found) - 1):
            (_, *above), (tag, old, end, new, _), (_, *below) = found[at - 1 : at + 2]
            alike = zip(self._before[old:], self._before[end : below[1]], strict=False)
            most = sum(1 for _ in itertools.takewhile(lambda both: both[0] == both[1], alike))
            down = next((row for row in range(most + 1) if old + row in self._edited), 0)
            if tag == "delete" and down:
                found[at - 1] = ("equal", above[0], above[1] + down, above[2], above[3] + down)
                found[at] = ("delete", old + down, end + down, new + down, new + down)
                found[at + 1] = ("equal", below[0] + down, below[1], below[2] + down, below[3])
        return found


def _shown_line(line: str) -> str:
    return printable(line.expandtabs(4).rstrip())


def _start(pair: tuple[str, str], limit: int) -> int:
    """Return where two lines that are too long are shown from, so that both show where they begin to differ."""
    differ = sum(1 for _ in itertools.takewhile(lambda both: both[0] == both[1], zip(*pair, strict=False)))
    return differ - limit // 3 if max(map(len, pair)) > limit and differ > limit // 2 else 0


def _diff_row(sign: str, number: int | str, shown: str, gutter: int, limit: int, paint: Paint, start: int = 0) -> str:
    if start:
        shown = "..." + shown[start + 3 :]
    if len(shown) > limit:
        shown = shown[: limit - 3] + "..."
    if sign == "|":
        return f"{paint('gutter', f'{number:>{gutter}} |')} {shown}".rstrip()
    body = paint("removed" if sign == "-" else "added", f"{sign} {shown}".rstrip())
    return f"{paint('gutter', f'{number:>{gutter}}')} {body}"


def summary(files: Sequence[Checked], paint: Paint) -> str:
    """Return the line that counts what was found, with its newline."""
    found = [finding for file in files for finding in file.findings]
    problems = sum(bool(file.problems) for file in files)
    left_out = f" {count(problems, 'file')} could not be checked completely." if problems else ""
    if not found:
        return _nothing(files, problems, left_out)
    kinds = [
        paint(severity, count(number, severity))
        for severity in SEVERITIES
        if (number := sum(finding.severity == severity for finding in found))
    ]
    with_some = sum(bool(file.findings) for file in files)
    total = f"Found {count(len(found), 'finding')} in {count(with_some, 'file')}"
    return f"{total}: {', '.join(kinds)}{_not_shown(found)}.{left_out}\n{_fixable(files)}"


def _not_shown(found: Sequence[Finding]) -> str:
    """Return how many of the findings a run refuted or did not reach: they are counted, and do not fail."""
    verdicts = [finding.evidence.verdict for finding in found if finding.evidence is not None]
    refuted, missed = verdicts.count("refuted"), verdicts.count("not-reached")
    parts = [f"{refuted} refuted by the run"] * bool(refuted) + [f"{missed} not reached"] * bool(missed)
    return f"; {', '.join(parts)}" if parts else ""


def _nothing(files: Sequence[Checked], problems: int, left_out: str) -> str:
    """Return the line for files in which nothing was found, `problems` of which could not be checked."""
    looked_at = sum(file.checked for file in files)
    if problems and problems >= looked_at:
        return f"{left_out.lstrip()}\n"
    found_none = "Nothing found in what was seen" if any(file.cut_short for file in files) else "No problems found"
    partly = sum(bool(file.incomplete) for file in files)
    part = ""
    if any(file.elsewhere for file in files):
        # What is told of the files that they import stands below.
        found_none += " in this file itself" if looked_at == 1 else " in these files themselves"
    if partly:
        # A file that was not checked to its end is not free of problems.
        found_none = "Nothing found in what was checked"
        part = f", {partly} of them in part" if looked_at > 1 else " in part"
    return f"{found_none} ({count(looked_at, 'file')} checked{part}).{left_out}\n"


def _fixable(files: Sequence[Checked]) -> str:
    """Return a line that says how many findings `--fix` would fix, where there are any."""
    if any(file.recorded for file in files):
        return ""
    named = {os.path.realpath(file.path) for file in files}
    best = [
        fixes[0].applicability
        for file in files
        for finding, fixes in zip(file.findings, file.fixes, strict=False)
        if fixes and all(_is_edited(edit.span.file, finding.span.file, named) for edit in fixes[0].edits)
    ]
    safe, unsafe = best.count("safe"), best.count("unsafe")
    if safe and unsafe:
        return f"{safe} fixable with `--fix`, {unsafe} more with `--fix --unsafe-fixes`.\n"
    if safe:
        return f"{safe} fixable with `--fix`.\n"
    return f"{unsafe} fixable with `--fix --unsafe-fixes`.\n" if unsafe else ""


def _is_edited(file: str, home: str, named: Set[str]) -> bool:
    """Return whether `--fix` edits a file for a finding at `home`: no file but those that it was given."""
    path, of_finding = split_cell(file)[0], split_cell(home)[0]
    return path == of_finding or os.path.realpath(path) in named


def edited(files: Sequence[Checked], *, ignored: bool = False, would: bool = False, asked: bool = False) -> str:
    """Return what was done to files, a line for each edit; `would` says that nothing was written.

    `ignored` says that comments were added and nothing fixed, `asked` that the user was to choose the fixes.
    """
    rewrites = [file.rewrite for file in files if file.rewrite is not None]
    done = [line for rewrite in rewrites for line in rewrite.done]
    beyond = sum(file.shared for file in files)
    left = f"Fixes in {count(beyond, 'file')} also edit files that were not named.\n" if beyond else ""
    left += "".join(f"Not made: {printable(line)}.\n" for file in files for line in file.refused)
    if not done:
        return _not_edited(files, left, ignored=ignored, asked=asked)
    places = count(sum(rewrite.before != rewrite.after for rewrite in rewrites), "file")
    if ignored:
        verb = "Would add" if would else "Added"
        return f"{verb} {count(len(done), 'ignore comment')} in {places}.\n"
    rows = "".join(f"  {printable(line)}\n" for line in done)
    return f"{'Would fix' if would else 'Fixed'} {count(len(done), 'finding')} in {places}:\n{rows}{left}"


def _not_edited(files: Sequence[Checked], left: str, *, ignored: bool, asked: bool) -> str:
    if any(file.withheld for file in files):
        return f"Nothing was written.\n{left}"
    if asked and any(fixes for file in files for fixes in file.fixes):
        return f"No fix was chosen.\n{left}"
    return "No comments to add.\n" if ignored else f"No fixes to make.\n{left}"


def diff_on_terminal(patch: str, *, colour: bool = False) -> str:
    """Return a patch as a terminal shows it: what would steer it is replaced, so that this is to be read only."""
    paint = Paint(colour)
    styles = {"+": "added", "-": "removed", "@": "gutter"}
    rows = []
    for row in patch.split("\n"):
        shown = "\t".join(printable(part) for part in row.removesuffix("\r").split("\t"))
        style = "strong" if row.startswith(("+++ ", "--- ")) else styles.get(row[:1])
        rows.append(paint(style, shown) if style is not None else shown)
    return "\n".join(rows)


def count(number: int, noun: str) -> str:
    """Return a number with its noun in the right form."""
    plural = noun if number == 1 or noun == "info" else noun + "s"
    return f"{number} {plural}"
