"""From source text to findings: what the command line, the language server and the fixes share."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from tapecheck.interpret import Interpretation, interpret
from tapecheck.rules import judge
from tapecheck.rules.finding import Finding
from tapecheck.source import Source


@dataclass(slots=True)
class Report:
    """What was found in one file. `error` says why it could not be read or parsed, whole or in part."""

    source: Source
    interpretation: Interpretation
    findings: list[Finding] = field(default_factory=list)

    @property
    def error(self) -> str | None:
        return self.source.error


def check(
    source: Source,
    *,
    select: Collection[str] | None = None,
    ignore: Collection[str] = (),
    cancelled: Callable[[], bool] | None = None,
) -> Report:
    """Dry-run a file and judge its tapes; the user's code is neither imported nor executed.

    `select` and `ignore` hold rule codes, names or prefixes of codes. `cancelled` is asked often; once it
    answers True the analysis stops and raises `interpret.Cancelled`.
    """
    interpretation = interpret(source, cancelled=cancelled)
    findings = judge(interpretation.tapes, select=select, ignore=ignore)
    own = [finding for finding in findings if finding.span.file == source.path]
    return Report(source, interpretation, own)
