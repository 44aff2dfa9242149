"""What a recorded run says of TAPE106: whether PyTorch raised."""

from __future__ import annotations

from tapecheck.record.story import Story
from tapecheck.record.verdicts import by_exception
from tapecheck.rules import Evidence, Finding


def verdict(story: Story, finding: Finding) -> Evidence | None:
    return by_exception(story, finding)
