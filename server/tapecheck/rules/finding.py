"""What a rule reports: the place, the headline, labels on other lines, notes, and what to do."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from tapecheck.rules.facts import Facts
from tapecheck.tape import Assumption, Span

Severity = Literal["error", "warning", "info", "hint"]
DOCS_URL = "https://tapecheck.readthedocs.io/en/latest/rules/"
_SUPPRESSIONS = "https://tapecheck.readthedocs.io/en/latest/usage/#switching-rules-off"


def page_url(code: str, name: str) -> str:
    """Return the address of a rule's page."""
    return f"{DOCS_URL}{code.lower()}-{name}/"


Role = Literal["built", "freed", "changed", "cut", "kept", "carried", "called", "step", "path", "condition"]
"""The part of a line in what is found."""


@dataclass(frozen=True, slots=True)
class Label:
    """A remark on a line: where the graph was built, freed, changed, cut or kept."""

    span: Span
    message: str
    role: Role


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a recorded run shows about a finding; `iteration` counts from 1, keys of `measured` name their units."""

    verdict: Literal["confirmed", "refuted", "not-reached", "found-by-run"]
    detail: str
    iteration: int | None = None
    measured: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def confirmed(cls, detail: str, iteration: int | None = None, **measured: Any) -> Evidence:
        return cls("confirmed", detail, iteration, measured)

    @classmethod
    def refuted(cls, detail: str, **measured: Any) -> Evidence:
        return cls("refuted", detail, None, measured)

    @property
    def title(self) -> str:
        """Return the verdict in words."""
        return "found at run time" if self.verdict == "found-by-run" else self.verdict.replace("-", " ")


@dataclass(slots=True)
class Finding:
    """One finding.

    `span` is the text to underline. `message` is the headline: one line of at most `words.MAX_HEADLINE` characters,
    without line numbers. Where something is, labels show; `notes` hold the remaining sentences, `help` what to do.
    None of the four repeats another. `certain` is False where only some runs of the program do it, or where it rests
    on code that is not visible (`rests_on`): the headline then starts with "possible". `facts` is what fixes and
    recorded runs read: of the rule's own type where it has one. `docs` is the address of the rule's page, where that is
    not on Tapecheck's site. `starts` are the functions that the check began with where nothing else shows it.
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
    facts: Facts = field(default_factory=Facts)
    evidence: Evidence | None = None
    notes: tuple[str, ...] = ()
    rests_on: tuple[Assumption, ...] = ()
    docs: str = ""
    starts: tuple[Span, ...] = ()

    @property
    def label(self) -> Label | None:
        """Return the label on the finding's own text, None without one."""
        return next((label for label in self.labels if label.span == self.span), None)

    @property
    def others(self) -> list[Label]:
        """Return the labels on other text, in order."""
        own = self.label
        return [label for label in self.labels if label is not own]

    @property
    def url(self) -> str:
        if self.docs:
            return self.docs
        if not self.code.startswith("TAPE"):
            # What is reported of comments is no rule and has no page.
            return _SUPPRESSIONS
        return page_url(self.code, self.name)

    @property
    def key(self) -> tuple[str, str, int]:
        """Return what identifies a finding: rule, file, line."""
        return (self.code, self.span.file, self.span.line)
