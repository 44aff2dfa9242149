"""What a rule says: the place, the message, the other lines that matter, and what to do."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from tapecheck.tape import Span

Severity = Literal["error", "warning", "info", "hint"]
DOCS_URL = "https://tapecheck.readthedocs.io/en/latest/rules/"


@dataclass(frozen=True, slots=True)
class Label:
    """Another line of the story: where the graph was built, freed, changed, cut or kept.

    `role` is one of built, freed, changed, cut, kept, carried, called, step, path, condition.
    """

    span: Span
    message: str
    role: str


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a recorded run says of a finding; `iteration` counts from 1, `measured` has units in its names."""

    verdict: Literal["confirmed", "refuted", "not-reached", "found-by-run"]
    detail: str
    iteration: int | None = None
    measured: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Finding:
    """One finding.

    `span` is the text to underline. `certain` is False where only some runs of the program do it: the
    message then says "may". `facts` is JSON-able data for fixes and for matching a recorded run (for
    example the argument span of a needless retain_graph).
    """

    code: str
    name: str
    severity: Severity
    span: Span
    message: str
    help: str
    labels: tuple[Label, ...] = ()
    certain: bool = True
    unnecessary: bool = False
    facts: dict[str, Any] = field(default_factory=dict)
    evidence: Evidence | None = None

    @property
    def url(self) -> str:
        return f"{DOCS_URL}{self.code.lower()}-{self.name}/"

    @property
    def key(self) -> tuple[str, str, int]:
        """What makes two findings the same one: rule, file, line."""
        return (self.code, self.span.file, self.span.line)
