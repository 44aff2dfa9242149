"""Findings of a text whose lines have moved: the same ones in their new places, without judging anything again."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import fields, is_dataclass, replace

from tapecheck.rules.facts import Facts
from tapecheck.rules.finding import Finding, Label
from tapecheck.tape import Moves, Span

_SAYS_A_LINE = re.compile(r"`[^`]*`|(\bline \d|:\d)")


def moved(findings: Sequence[Finding], moves: Moves) -> list[Finding] | None:
    """Return findings as they are where their lines stand now.

    None where one of them names a line in words: what it would say then its rule alone knows.
    """
    if any(map(_says_a_line, findings)):
        return None
    return [
        replace(
            finding,
            span=moves.span(finding.span),
            labels=tuple([Label(moves.span(label.span), label.message, label.role) for label in finding.labels]),
            facts=_facts(finding.facts, moves),
            starts=tuple(map(moves.span, finding.starts)),
        )
        for finding in findings
    ]


def _says_a_line(finding: Finding) -> bool:
    texts = (finding.message, finding.help, *finding.notes, *(label.message for label in finding.labels))
    return any(found[1] is not None for text in texts for found in _SAYS_A_LINE.finditer(text))


def _fact(value: object, moves: Moves) -> object:
    """Return a fact with its places where they stand now."""
    if isinstance(value, Span):
        return moves.span(value)
    if isinstance(value, tuple):
        return tuple([_fact(one, moves) for one in value])
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{one.name: _fact(getattr(value, one.name), moves) for one in fields(value)})
    return value


def _facts(facts: Facts, moves: Moves) -> Facts:
    moved = _fact(facts, moves)
    assert isinstance(moved, Facts)
    return moved
