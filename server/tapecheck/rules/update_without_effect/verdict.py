"""What a recorded run says of TAPE408: whether the line ran; that it changes nothing no run measures."""

from __future__ import annotations

from tapecheck.record.story import Story
from tapecheck.record.verdicts import not_reached
from tapecheck.rules import Evidence, Finding


def verdict(story: Story, finding: Finding) -> Evidence | None:
    return None if story.count(finding.span) else not_reached(story, finding)
