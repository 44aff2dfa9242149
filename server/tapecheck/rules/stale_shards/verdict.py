"""What a recorded run says of TAPE609: nothing, as it does not look at what a forward gathers."""

from __future__ import annotations

from tapecheck.record.story import Story
from tapecheck.rules import Finding


def verdict(story: Story, finding: Finding) -> None:
    """Return None: the run neither confirms nor refutes it."""
