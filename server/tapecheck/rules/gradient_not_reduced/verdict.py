"""What a recorded run says of TAPE601: nothing, as long as it does not compare the gradients of its processes."""

from __future__ import annotations

from tapecheck.record.story import Story
from tapecheck.rules import Finding


def verdict(story: Story, finding: Finding) -> None:
    """Return None: the run neither confirms nor refutes it."""
