"""What a recorded run says of TAPE609: whether a forward used what was gathered before a step changed the shards."""

from __future__ import annotations

from tapecheck.record.story import MIN_RUNS, Story, iteration
from tapecheck.record.words import times
from tapecheck.rules import Evidence, Finding


def verdict(story: Story, finding: Finding) -> Evidence | None:
    """Return confirmed where such a forward ran at its place, refuted where none did and the line ran often enough."""
    uses = [label.span for label in finding.labels if label.role == "path"] or [finding.span]
    for at, count in story.wrapped.stale_shards:
        if any(story.at(span, place) for span in uses for place in (at.span, *at.stack)):
            index = iteration(at)
            when = f" in iteration {index}" if index is not None else ""
            detail = f"used {count} parameter{'s' * (count != 1)} from before the step{when}"
            return Evidence("confirmed", detail, index, {"stale_parameters": count})
    ran = story.count(finding.span)
    if not story.wrapped.shards_watched or (ran < MIN_RUNS and not story.whole) or not ran:
        return None
    return Evidence("refuted", f"the line ran {times(ran)}, and no forward used parameters from before a step", None,
                    {"runs": ran})  # fmt: skip
