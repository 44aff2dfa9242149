"""What a finding rests on: the answers that the dry run went on with where code is not visible."""

from __future__ import annotations

from dataclasses import dataclass

from tapecheck.tape.events import AssumptionKind, Span


@dataclass(frozen=True, slots=True)
class Assumption:
    """One of several possible answers; `text` completes "assumes that"."""

    kind: AssumptionKind
    at: Span
    text: str
