"""Hovers: what the tapes say of the expression under the pointer, in markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tapecheck.source import Source
from tapecheck.tape import Span, Tape


@dataclass(frozen=True, slots=True)
class Hover:
    """Markdown and the text it is about."""

    markdown: str
    span: Span


def hover(source: Source, tapes: Sequence[Tape], line: int, column: int) -> Hover | None:
    """What happens at a place of the source (line and column from 1); None where nothing does."""
    return None
