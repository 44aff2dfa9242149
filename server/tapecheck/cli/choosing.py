"""Which fixes `--fix` makes: all safe ones, those of one line, or those that the user picks one by one."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tapecheck.cli.editing import unified_diff
from tapecheck.cli.shared import UsageError
from tapecheck.report import Sources, text
from tapecheck.report.excerpt import DEFAULT_WIDTH, Paint, printable
from tapecheck.source.cells import SUFFIX

if TYPE_CHECKING:
    from tapecheck.check import Report
    from tapecheck.cli.editing import Document
    from tapecheck.fixes import Fix
    from tapecheck.rules.finding import Finding

_PLACE = re.compile(r"(?P<path>.+?):(?P<line>[0-9]+)(?::[0-9]+)?$")


@dataclass
class Chooser:
    """Chooses all fixes that are safe, with `unsafe` the others too. `said` has a line for what could not be made."""

    unsafe: bool = False
    said: list[str] = field(default_factory=list)
    comments: bool = True
    """Whether ignore comments are mended, too."""

    def considers(self, report: Report, finding: Finding) -> bool:
        """Return whether a finding of the file as it is now is to be fixed."""
        return True

    def among(self, document: Document, finding: Finding, fixes: Sequence[Fix]) -> Iterator[Fix]:
        """Yield the fixes that may be made, the first one first."""
        yield from (fix for fix in fixes if fix.applicability == "safe" or self.unsafe)


@dataclass
class OfLines(Chooser):
    """Chooses the fixes of what is found on some lines: the preferred ones, or number `alternative` of each."""

    lines: tuple[int, ...] = ()
    alternative: int = 0
    comments: bool = False
    _wanted: set[tuple[str, str]] | None = None

    def considers(self, report: Report, finding: Finding) -> bool:
        if self._wanted is None:
            # Lines count in the file as it was read: later ones are known by what stands on them.
            self._wanted = {_key(report, one) for one in report.findings if self._on(one)}
            found = {line for one in report.findings for line in self.lines if covers(one, line)}
            path = report.source.path
            self.said += [f"{path}:{line}: nothing is found on this line" for line in self.lines if line not in found]
        return _key(report, finding) in self._wanted

    def _on(self, finding: Finding) -> bool:
        return any(covers(finding, line) for line in self.lines)

    def among(self, document: Document, finding: Finding, fixes: Sequence[Fix]) -> Iterator[Fix]:
        where = f"{finding.code} {finding.span.file}:{finding.span.line}"
        number = self.alternative or 1
        if number > len(fixes):
            some = "1 fix" if len(fixes) == 1 else f"{len(fixes)} fixes"
            self.said.append(f"{where}: it has {some}" if fixes else f"{where}: no fix is known to hold")
            return
        chosen = [fixes[self.alternative - 1]] if self.alternative else list(fixes)
        allowed = [fix for fix in chosen if fix.applicability == "safe" or self.unsafe]
        if not allowed:
            self.said.append(f'{where}: the fix "{chosen[0].title}" is unsafe and wants --unsafe-fixes')
        yield from allowed[:1]


@dataclass
class Asking(Chooser):
    """Shows each finding with its fixes and makes the one that is picked; the end of input ends the questions."""

    unsafe: bool = True
    colour: bool = False
    width: int = DEFAULT_WIDTH
    ask: Callable[[str], str] | None = None
    comments: bool = False
    quit: bool = False

    def considers(self, report: Report, finding: Finding) -> bool:
        return not self.quit

    def among(self, document: Document, finding: Finding, fixes: Sequence[Fix]) -> Iterator[Fix]:
        if not fixes:
            return
        sources = Sources()
        sources.texts[document.path] = document.source().lines
        paint = Paint(self.colour)
        self._show(text.render_finding(finding, sources, fixes=list(fixes[:1]), paint=paint, width=self.width))
        for number, fix in enumerate(fixes, 1):
            self._show(f"  {number} ({fix.applicability}): {printable(fix.title)}\n")
        while not self.quit:
            which = "Make it (1)" if len(fixes) == 1 else f"Make fix 1-{len(fixes)}"
            answer = self._read(f"{which}, show its diff (d1), skip (s) or quit (q)? [s] ")
            if answer in ("", "s"):
                return
            if answer == "q":
                self.quit = True
                return
            picked = answer.removeprefix("d").strip()
            if not picked.isdecimal() or not 1 <= int(picked) <= len(fixes):
                self._show(f"{printable(answer)!r} is none of these.\n")
                continue
            fix = fixes[int(picked) - 1]
            if not answer.startswith("d"):
                yield fix
                self._show("That fix cannot be made here.\n")
                return
            edited = document.edited(fix.edits)
            if edited is not None:
                self._show(text.diff_on_terminal("".join(unified_diff(document, edited)), colour=self.colour))

    def _read(self, question: str) -> str:
        self._show(question)
        try:
            answer = self.ask(question) if self.ask is not None else sys.stdin.readline()
        except EOFError:
            answer = ""
        if not answer:
            self.quit = True
            self._show("\n")
        return answer.strip().lower()

    @staticmethod
    def _show(words: str) -> None:
        sys.stderr.write(words)
        sys.stderr.flush()


def with_lines(paths: Sequence[str]) -> tuple[list[str], tuple[tuple[str, int], ...]]:
    """Return paths without the line that stands behind some (`gan.py:39`), and those lines; raises UsageError."""
    files: list[str] = []
    lines: list[tuple[str, int]] = []
    for path in paths:
        match = _PLACE.match(path)
        if match is None or Path(path).exists() or not Path(match["path"]).is_file():
            files.append(path)
            continue
        if match["path"].endswith(SUFFIX):
            raise UsageError(f"{path}: a line of a notebook cannot be named")
        files.append(match["path"])
        lines.append((match["path"], int(match["line"])))
    return list(dict.fromkeys(files)), tuple(lines)


def covers(finding: Finding, line: int) -> bool:
    """Return whether a finding is on a line."""
    return finding.span.line <= line <= max(finding.span.line, finding.span.end_line)


def _key(report: Report, finding: Finding) -> tuple[str, str]:
    lines = report.source.lines[finding.span.line - 1 : finding.span.end_line]
    return finding.code, "\n".join(lines)
