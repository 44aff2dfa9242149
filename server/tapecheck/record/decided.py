"""The verdict on a finding of any rule, which the rule has in its folder."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from tapecheck.record.story import Story
from tapecheck.rules import ALL, Evidence, Finding

Verdict = Callable[[Story, Finding], Evidence | None]

_VERDICTS: dict[str, Verdict] = {rule.code: import_module(f"{rule.folder}.verdict").verdict for rule in ALL}
# All at once: what a recorded program has done to its process by the end must not matter.


def verdict_of(code: str) -> Verdict:
    """Return what decides about findings of a rule; about what no rule has found nothing is decided."""
    return _VERDICTS.get(code, _undecided)


def _undecided(story: Story, finding: Finding) -> None:
    return None


def verdict_on(story: Story, finding: Finding) -> Evidence | None:
    """Return what a run says of a finding; None where it neither confirms nor refutes it."""
    return verdict_of(finding.code)(story, finding)
