"""The rules: functions over tapes, a folder for each rule, here or in another package."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

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
            found = _with_defaults(found, _found(rule, by_default))
        findings += found
    findings.sort(key=lambda finding: (finding.span.file, finding.span.line, finding.span.column, finding.code))
    return findings


def _found(rule: Rule, readings: Sequence[Reading]) -> list[Finding]:
    """Return the findings of a rule over the tapes of one program, with what they rest on."""
    entering = [reading for reading in readings if not reading.tape.refutes_only]
    found = merged(rule.judge(entering))
    if found and len(entering) < len(readings):
        shown = {finding.key for finding in found}
        found = [finding for finding in merged(rule.judge(readings)) if finding.key in shown]
    # One that is as long as nobody takes it to be leaves open what the usual ones show.
    found = weigh(rule, found, [one for one in readings if not one.tape.refutes_only or one.tape.together])
    weigh_conditions(rule, found, entering, [reading for reading in readings if reading.tape.refutes_only])
    explain(rule, found, entering)
    for finding in found:
        finding.docs = rule.docs
    return found


def _with_defaults(found: Iterable[Finding], by_default: Iterable[Finding]) -> list[Finding]:
    """Return findings with those that the ways show in which options keep their defaults: these need no other value."""
    shown = {finding.key: finding for finding in by_default}
    kept = []
    for one in found:
        other = shown.get(one.key)
        kept.append(other if other is not None and _against_defaults(one) and not _against_defaults(other) else one)
    known = {one.key for one in kept}
    return kept + [one for key, one in shown.items() if key not in known]


def _against_defaults(finding: Finding) -> bool:
    """Return whether a finding is there only where an option has another value than its default."""
    return any(one.kind in ("setting", "count") for one in finding.rests_on)


def _named(rule: Rule, names: Collection[str]) -> bool:
    return any(name in ("ALL", rule.name) or (name and rule.code.startswith(name)) for name in names)
