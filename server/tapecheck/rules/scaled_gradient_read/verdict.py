"""What a recorded run says of TAPE501."""

from __future__ import annotations

from collections.abc import Iterable

from tapecheck.record.story import Story
from tapecheck.record.verdicts import not_reached
from tapecheck.record.words import matches
from tapecheck.rules import Evidence, Finding


def verdict(story: Story, finding: Finding) -> Evidence | None:
    if not story.count(finding.span):
        return not_reached(story, finding)
    seen = [(number, scale) for at, number, scale in story.gradients.scales if story.at(finding.span, at.span)]
    optimizers, mine = story.reading.optimizers, _optimizers_of(story, finding.facts.parameters)
    if mine:
        # Of a line in a loop over several optimizers the one with these parameters tells, where it had a number yet.
        seen = [(number, scale) for number, scale in seen if number in mine or number not in optimizers]
    scale = max((scale for _, scale in seen), default=0.0)
    if scale > 1:
        had = f"the scaler had a scale of {scale:,.0f}, and had not unscaled this optimizer's gradients"
        return Evidence.confirmed(f"{had}, when this line ran", scale=scale)
    unscaled = "the gradients had been unscaled, or the scaler was off, when this line ran"
    return Evidence.refuted(unscaled) if seen else None


def _optimizers_of(story: Story, names: Iterable[str]) -> set[int]:
    """Return the optimizers that have one of some parameters."""
    leaves, optimizers = story.reading.ledger.leaves, story.reading.optimizers
    own = {number for number, leaf in leaves.items() if any(matches(leaf.name, name) for name in names)}
    return {number for number, optimizer in optimizers.items() if not own.isdisjoint(optimizer.params)}
