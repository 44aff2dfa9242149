"""The rules: functions over tapes, a folder for each rule, here or in another package."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from tapecheck.rules.certainty import weigh, weigh_conditions
from tapecheck.rules.finding import Evidence, Finding, Label, Severity
from tapecheck.rules.installed import installed
from tapecheck.rules.page import Example
from tapecheck.rules.path import explain
from tapecheck.rules.reading import Reading
from tapecheck.rules.rule import Rule, discovered
from tapecheck.rules.words import merged
from tapecheck.tape import Tape

ALL: tuple[Rule, ...] = tuple(sorted([*discovered(__name__, __path__), *installed()], key=lambda rule: rule.code))
RAISING = frozenset(rule.code for rule in ALL if rule.raises)
"""The codes of the rules that are right where PyTorch raises."""

__all__ = [
    "ALL",
    "RAISING",
    "Evidence",
    "Example",
    "Finding",
    "Label",
    "Reading",
    "Rule",
    "Severity",
    "chosen",
    "judge",
]


def chosen(select: Collection[str] | None, ignore: Collection[str]) -> list[Rule]:
    """Return the rules that codes, prefixes of codes ("TAPE2") or names choose; nothing selected means all."""
    return [rule for rule in ALL if (select is None or _named(rule, select)) and not _named(rule, ignore)]


def judge(
    tapes: Sequence[Tape],
    *,
    select: Collection[str] | None = None,
    ignore: Collection[str] = (),
    read: Callable[[Tape], Reading] = Reading,
) -> list[Finding]:
    """Return every selected rule's findings over the tapes of one program, in the order of the source.

    `select` and `ignore` hold rule codes, prefixes of codes ("TAPE2") or names; nothing selected means all. `read`
    gives the reading of a tape, where the caller has read it before.
    """
    rules = chosen(select, ignore)
    if not rules:
        return []
    readings = [read(tape) for tape in tapes if not tape.by_default]
    by_default = [read(tape) for tape in tapes if tape.by_default]
    findings = []
    for rule in rules:
        found = _found(rule, readings)
        if by_default and not rule.needless:
            known = {finding.key for finding in found}
            found += [finding for finding in _found(rule, by_default) if finding.key not in known]
        findings += found
    findings.sort(key=lambda finding: (finding.span.file, finding.span.line, finding.span.column, finding.code))
    return findings


def _found(rule: Rule, readings: Sequence[Reading]) -> list[Finding]:
    """Return the findings of a rule over the tapes of one program, with what they rest on."""
    found = weigh(rule, merged(rule.judge(readings)), readings)
    weigh_conditions(rule, found, readings)
    explain(rule, found, readings)
    for finding in found:
        finding.docs = rule.docs
    return found


def _named(rule: Rule, names: Collection[str]) -> bool:
    return any(name in ("ALL", rule.name) or (name and rule.code.startswith(name)) for name in names)
