"""What a recorded run says of TAPE105: whether Python or PyTorch raised."""

from __future__ import annotations

from tapecheck.record.ends import raised_in, raised_measure, raised_text
from tapecheck.record.story import Story
from tapecheck.record.verdicts import by_exception
from tapecheck.rules import Evidence, Finding


def verdict(story: Story, finding: Finding) -> Evidence | None:
    # What Python raises of a None may have come from anywhere: it says something where the finding expects it alone.
    for raised in story.raised:
        of_none = raised.exception in ("AttributeError", "TypeError") and "NoneType" in raised.message
        if of_none and story.at(finding.span, raised.at.span):
            return Evidence("confirmed", raised_text(story, raised), raised_in(story, raised), raised_measure(raised))
    return by_exception(story, finding)
