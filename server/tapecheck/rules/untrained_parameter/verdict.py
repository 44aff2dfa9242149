"""What a recorded run says of TAPE405."""

from __future__ import annotations

from collections.abc import Container, Sequence

from tapecheck.record.places import reached_there
from tapecheck.record.story import Story, matches
from tapecheck.record.verdicts import not_reached
from tapecheck.record.words import names_text
from tapecheck.rules import Evidence, Finding


def verdict(story: Story, finding: Finding) -> Evidence | None:
    if not story.reading.steps:
        return not_reached(story, finding) if not story.count(finding.span) else None
    leaves = story.reading.ledger.leaves
    named = [name for name in finding.facts.parameters if name]
    reached = reached_there(story, finding)
    if mine := _left_out(story, named, reached):
        names = [leaves[number].name for number in mine if number in leaves and leaves[number].name] or named
        verb = "was" if len(mine) == 1 else "were"
        shown = names_text(names, max(len(mine) - len(names), 0))
        return Evidence(
            "confirmed",
            f"{shown} had a gradient at {max(mine.values())} steps or more, "
            f"{verb} in no optimizer and did not change",
            None, {"parameters": names, "steps": max(mine.values())},
        )  # fmt: skip
    # Leaves that are no parameters are not looked at where the program reads no gradient.
    looked_at = [one for one in leaves.values() if one.parameter and (reached is None or one.id in reached)]
    seen = all(any(matches(one.name, name) for one in looked_at) for name in named)
    if story.compared >= 2 and seen:
        return Evidence("refuted", "what had gradients was stepped by an optimizer, or changed in another way")
    return None


def _left_out(story: Story, named: Sequence[str], reached: Container[int] | None) -> dict[int, int]:
    """Return the leaves of some names that no optimizer has, else those without a name, with how many steps saw each a
    gradient.
    """
    leaves = story.reading.ledger.leaves
    found = {n: steps for n, steps in story.left_out.items() if reached is None or n in reached or n not in leaves}
    mine = {n: s for n, s in found.items() if n in leaves and any(matches(leaves[n].name, name) for name in named)}
    # What no variable leads to has no name in the run.
    return mine or {n: s for n, s in found.items() if n not in leaves or not leaves[n].name}
