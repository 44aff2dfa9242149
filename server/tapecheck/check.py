"""From source text to findings: what the command line, the language server and the fixes share."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

from tapecheck.interpret import Interpretation, interpret
from tapecheck.rules import judge
from tapecheck.rules.finding import Finding
from tapecheck.source import Source, Suppressions, suppressions
from tapecheck.source.configuration import configuration_for


@dataclass(slots=True)
class Report:
    """What was found in one file. `error` says why it could not be read or parsed, whole or in part.

    `suppressed` are the findings that comments in the file switch off. `elsewhere` are those in other files, which
    this one imports and whose code it runs.
    """

    source: Source
    interpretation: Interpretation
    findings: list[Finding] = field(default_factory=list)
    suppressed: list[Finding] = field(default_factory=list)
    elsewhere: list[Finding] = field(default_factory=list)

    @property
    def error(self) -> str | None:
        return self.source.error


def check(
    source: Source,
    *,
    select: Collection[str] | None = None,
    ignore: Collection[str] = (),
    cancelled: Callable[[], bool] | None = None,
    open_files: Mapping[str, Source] | None = None,
) -> Report:
    """Dry-run a file and judge its tapes; the user's code is neither imported nor executed.

    `select` and `ignore` hold rule codes, names or prefixes of codes; comments in the source
    (`# tapecheck: ignore[TAPE101]`) switch off rules for a line or for the file, and the project's pyproject.toml says
    which are wanted where `select` does not, and which are not. `cancelled` is asked often; once it
    answers True the analysis stops and raises `interpret.Cancelled`. `open_files` are sources by absolute path that
    imports find instead of the files of that path: documents that an editor shows and has not saved.
    """
    interpretation = interpret(source, cancelled=cancelled, open_files=open_files)
    project = configuration_for(source.path)
    wanted = project.select if select is None else select
    findings = judge(interpretation.tapes, select=wanted, ignore=(*ignore, *project.ignore))
    own = [finding for finding in findings if finding.span.file == source.path]
    kept, hidden = apart(own, suppressions(source))
    elsewhere = [finding for finding in findings if finding.span.file != source.path]
    return Report(source, interpretation, kept, hidden, elsewhere)


def apart(findings: Iterable[Finding], off: Suppressions) -> tuple[list[Finding], list[Finding]]:
    """The findings of one file that are to be shown, and those that its comments switch off."""
    kept: list[Finding] = []
    hidden: list[Finding] = []
    for finding in findings:
        span = finding.span
        off_here = bool(off) and off.hide(finding.code, finding.name, span.line, max(span.line, span.end_line))
        (hidden if off_here else kept).append(finding)
    return kept, hidden
