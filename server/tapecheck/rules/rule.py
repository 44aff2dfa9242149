"""The base of all rules: one class, one file, its page and its examples beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from tapecheck.rules.finding import Finding, Severity
from tapecheck.rules.reading import Reading


@dataclass(frozen=True, slots=True)
class Example:
    """A whole runnable program for a rule's page and tests.

    `line` is the line (from 1) that carries the finding, None for a valid program. `raises` is the start of
    the message that real torch raises, None where the program runs to its end.
    """

    title: str
    program: str
    line: int | None = None
    raises: str | None = None


class Rule:
    """A rule reads the tapes of one program and says what is wrong with it.

    Every tape is one way through the program: a dry run makes several where it cannot decide a condition,
    a recorded run makes one. The docstring of the subclass is the text of the rule's page.
    """

    code: ClassVar[str]
    name: ClassVar[str]
    severity: ClassVar[Severity]
    summary: ClassVar[str]
    raises: ClassVar[bool] = False
    """Whether PyTorch raises where the rule is right."""
    stands_alone: ClassVar[bool] = False
    """Whether another way that only leaves out what one did, or computes it otherwise, says nothing of its findings."""
    VALID: ClassVar[Sequence[Example]] = ()
    INVALID: ClassVar[Sequence[Example]] = ()

    def judge(self, readings: Sequence[Reading]) -> list[Finding]:
        """Return the findings of this rule over all ways through one program; several of one place are merged
        later.
        """
        raise NotImplementedError
