"""What a recorded run says of TAPE403."""

from __future__ import annotations

from tapecheck.record.places import given_together
from tapecheck.record.story import Story, iteration
from tapecheck.record.verdicts import not_reached
from tapecheck.record.words import matches, names_text, steps_text
from tapecheck.rules import Evidence, Finding
from tapecheck.rules.stale_gradient.facts import StaleGradientFacts, beside
from tapecheck.rules.words import line


def verdict(story: Story, finding: Finding) -> Evidence | None:
    if not story.count(finding.span):
        return not_reached(story, finding)
    if isinstance(finding.facts, StaleGradientFacts) and finding.facts.dropped is not None:
        return _left_behind(story, finding)
    leaves = story.reading.ledger.leaves
    places = (finding.span, *beside(finding.facts))
    found = [(leaf, at) for leaf, at in story.gradients.stale if any(story.at(place, at.span) for place in places)]
    found = found or given_together(story, finding)
    if found:
        names = [name for leaf, _ in found if (name := leaves[leaf].name if leaf in leaves else "")]
        named = list(dict.fromkeys(names))
        had = "had" if len(found) > 1 else "still had"
        shown = f"{names_text(named, len(found) - len(names))} {had} the gradient that a step had used when "
        mine = story.at(finding.span, found[0][1].span)
        which = "this backward" if mine else f"the backward on {line(found[0][1].span, finding.span)}"
        return Evidence.confirmed(f"{shown}{which} added to it", iteration(found[0][1]), parameters=named)
    return _compared(story, finding)


def _left_behind(story: Story, finding: Finding) -> Evidence | None:
    """Return confirmed where steps had the gradient of the step before, with nothing written to it in between."""
    leaves = story.reading.ledger.leaves
    again = {
        number: count for number, count in story.gradients.again.items()
        if number in leaves and any(matches(leaves[number].name, name) for name in finding.facts.parameters)
    }  # fmt: skip
    if not again:
        return None
    names, count = [story.leaf_text(number) for number in again], max(again.values())
    steps = "1 step" if count == 1 else f"{count} steps"
    shown = f"at {steps} {names_text(names)} had the gradient of the step before, and nothing had changed it since"
    return Evidence.confirmed(shown, parameters=names, steps=count)


def _compared(story: Story, finding: Finding) -> Evidence | None:
    """Return refuted where the gradients of steps were compared with those of the next."""
    unlisted = isinstance(finding.facts, StaleGradientFacts) and finding.facts.unlisted
    # What was compared are the gradients of the parameters that an optimizer has.
    steps = [label.span for label in finding.labels if label.role == "step"]
    # The last of them is said to use the gradients again: another one may find them cleared.
    rows = range(steps[-1].line, max(steps[-1].line, steps[-1].end_line) + 1) if steps else ()
    looked = sum(
        times for at, line, times in story.gradients.looked if line in rows and story.at(finding.span, at.span)
    )
    if looked and not unlisted:
        shown = f"the gradients of {steps_text(looked)} were compared with those of the next: none was used twice"
        return Evidence.refuted(shown, steps=looked)
    return None
