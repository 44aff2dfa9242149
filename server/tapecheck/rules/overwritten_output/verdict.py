"""What a recorded run says of TAPE610: whether PyTorch raised, on a device that has CUDA graphs."""

from __future__ import annotations

from tapecheck.record.story import Story
from tapecheck.record.verdicts import by_exception
from tapecheck.rules import Evidence, Finding


def verdict(story: Story, finding: Finding) -> Evidence | None:
    evidence = by_exception(story, finding)
    # Elsewhere nothing is overwritten, whatever the program does.
    return evidence if story.course.on_device or evidence is None or evidence.verdict != "refuted" else None
