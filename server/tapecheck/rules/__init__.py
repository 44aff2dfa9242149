"""The rules: functions over tapes, one file a rule, each with its page and its examples."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tapecheck.rules.finding import Evidence, Finding, Label, Severity
from tapecheck.rules.rule import Example, Rule
from tapecheck.tape import Tape

ALL: tuple[Rule, ...] = ()

__all__ = ["ALL", "Evidence", "Example", "Finding", "Label", "Rule", "Severity", "judge"]


def judge(
    tapes: Sequence[Tape], *, select: Collection[str] | None = None, ignore: Collection[str] = ()
) -> list[Finding]:
    """Every selected rule's findings over the tapes of one program, in the order of the source.

    `select` and `ignore` hold rule codes, prefixes of codes ("TAPE2") or names; nothing selected means all.
    """
    findings: list[Finding] = []
    for rule in ALL:
        if select is not None and not _named(rule, select):
            continue
        if _named(rule, ignore):
            continue
        findings.extend(rule.judge(tapes))
    findings.sort(key=lambda finding: (finding.span.file, finding.span.line, finding.span.column, finding.code))
    return findings


def _named(rule: Rule, names: Collection[str]) -> bool:
    return any(name == rule.name or (name and rule.code.startswith(name)) for name in names)
