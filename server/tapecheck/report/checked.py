"""What the renderers are given: one entry for each file."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from tapecheck.rules.finding import Finding

if TYPE_CHECKING:
    from tapecheck.fixes import Fix

ProblemKind = Literal["io-error", "invalid-syntax", "internal-error"]


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a file could not be judged, whole or in part. `line` and `column` count from 1."""

    kind: ProblemKind
    message: str
    line: int = 1
    column: int = 1


@dataclass(slots=True)
class Checked:
    """What one file's check came to.

    `fixes` holds the fixes of each finding, preferred first, in the order of `findings`; it is empty where
    none were asked for.
    """

    path: str
    findings: list[Finding] = field(default_factory=list)
    fixes: list[list[Fix]] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    def fixes_of(self, index: int) -> list[Fix]:
        """The fixes of the finding at `index`, preferred first."""
        return self.fixes[index] if index < len(self.fixes) else []
