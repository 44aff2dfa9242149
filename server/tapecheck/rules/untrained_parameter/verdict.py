"""What a recorded run says of TAPE405."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping, Sequence

from tapecheck.record.places import reached_there
from tapecheck.record.story import Story
from tapecheck.record.verdicts import not_reached
from tapecheck.record.words import matches, names_text
from tapecheck.rules import Evidence, Finding
from tapecheck.rules.untrained_parameter.facts import UntrainedParameterFacts


def verdict(story: Story, finding: Finding) -> Evidence | None:
    if not story.reading.steps:
        return not_reached(story, finding) if not story.count(finding.span) else None
    named = [name for name in finding.facts.parameters if name]
    reached = reached_there(story, finding)
    mine, facts = _left_out(story, named, reached), finding.facts
    if isinstance(facts, UntrainedParameterFacts) and facts.lacking.kind == "anew":
        return _made_anew(story, facts, mine)
    return _idle(story, named, mine) or _trained(story, named, reached)


def _made_anew(story: Story, facts: UntrainedParameterFacts, mine: Mapping[int, int]) -> Evidence | None:
    """Return confirmed where one place made parameters again and again, none of which an optimizer has had."""
    if len(mine) < 2 * len(facts.lacking.made) or any(steps > 1 for steps in mine.values()):
        return None
    text = f"{len(mine)} parameters made here had a gradient at one step each, and none was in an optimizer"
    return Evidence.confirmed(text, parameters=[*facts.parameters], steps=len(mine))


def _idle(story: Story, named: Sequence[str], mine: Mapping[int, int]) -> Evidence | None:
    """Return confirmed where parameters of some names, `mine`, had gradients, and nothing stepped or changed them."""
    leaves = story.reading.ledger.leaves
    if not mine:
        return None
    names = [leaves[number].name for number in mine if number in leaves and leaves[number].name] or [*named]
    verb = "was" if len(mine) == 1 else "were"
    shown, steps = names_text(names, max(len(mine) - len(names), 0)), max(mine.values())
    idle = f"{shown} had a gradient at {steps} steps or more, {verb} in no optimizer and did not change"
    return Evidence.confirmed(idle, parameters=names, steps=steps)


def _trained(story: Story, named: Sequence[str], reached: Container[int] | None) -> Evidence | None:
    """Return refuted where parameters of all of some names were looked at."""
    # Leaves that are no parameters are not looked at where the program reads no gradient.
    parameters = (one for one in story.reading.ledger.leaves.values() if one.parameter)
    looked_at = [one.name for one in parameters if reached is None or one.id in reached]
    if story.gradients.compared < 2 or not all(any(matches(own, name) for own in looked_at) for name in named):
        return None
    return Evidence.refuted("what had gradients was stepped by an optimizer, or changed in another way")


def _given_and_left_alone(story: Story, reached: Container[int] | None) -> dict[int, int]:
    """Return the leaves that are no parameters, did not change at several steps, and that backward calls came to.

    Nobody has read their gradients: the tape says which calls add to them.
    """
    given = Counter(
        number for run in story.reading.runs if run.backward.accumulates for number in set(run.executed)
        if number in story.gradients.left_alone and (reached is None or number in reached)
    )  # fmt: skip
    return {number: min(times, story.gradients.left_alone[number]) for number, times in given.items() if times > 1}


def _left_out(story: Story, named: Sequence[str], reached: Container[int] | None) -> dict[int, int]:
    """Return the leaves of some names that no optimizer has, else those without a name, with how many steps saw each a
    gradient.
    """
    leaves = story.reading.ledger.leaves
    found = {
        n: steps for n, steps in story.gradients.left_out.items() if reached is None or n in reached or n not in leaves
    }
    found.update(_given_and_left_alone(story, reached))
    mine = {n: s for n, s in found.items() if n in leaves and any(matches(leaves[n].name, name) for name in named)}
    # What no variable leads to has no name in the run.
    return mine or {n: s for n, s in found.items() if n not in leaves or not leaves[n].name}
