"""Findings of a text whose lines have moved: the same ones in their new places, without judging anything again."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tapecheck.rules.finding import Finding, Label
from tapecheck.tape import Moves

_PLACES = ("file", "line", "column", "end_line", "end_column")
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
            facts={name: _fact(value, moves) for name, value in finding.facts.items()},
        )
        for finding in findings
    ]


def _says_a_line(finding: Finding) -> bool:
    texts = (finding.message, finding.help, *finding.notes, *(label.message for label in finding.labels))
    return any(found[1] is not None for text in texts for found in _SAYS_A_LINE.finditer(text))


def _fact(value: Any, moves: Moves) -> Any:
    """Return a fact for fixes, whose places are spans as JSON has them."""
    if isinstance(value, list):
        return [_fact(one, moves) for one in value]
    if isinstance(value, dict):
        if value.keys() == set(_PLACES):
            file = value["file"]
            return {
                **value,
                "line": moves.line(file, value["line"]),
                "end_line": moves.line(file, value["end_line"]),
            }
        return {name: _fact(one, moves) for name, one in value.items()}
    return value
