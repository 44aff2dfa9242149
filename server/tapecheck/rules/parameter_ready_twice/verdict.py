"""What a recorded run says of TAPE605: whether DistributedDataParallel raised."""

from __future__ import annotations

from tapecheck.record.story import Story
from tapecheck.record.verdicts import by_reducer
from tapecheck.rules import Evidence, Finding


def verdict(story: Story, finding: Finding) -> Evidence | None:
    return by_reducer(story, finding, "parallel-twice")
