"""What a recorded run says of TAPE402."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from tapecheck.record.ends import end_text
from tapecheck.record.places import its_optimizers
from tapecheck.record.story import Story
from tapecheck.record.verdicts import not_reached
from tapecheck.record.words import matches, names_text, steps_text, times
from tapecheck.rules import Evidence, Finding
from tapecheck.rules.gradient_cut.facts import GradientCutFacts
from tapecheck.tape import Optimizer


def verdict(story: Story, finding: Finding) -> Evidence | None:
    """Return whether the optimizers that a finding is about stepped its parameters without a gradient."""
    if not story.count(finding.span):
        return not_reached(story, finding)
    how = finding.facts.how if isinstance(finding.facts, GradientCutFacts) else ""
    if how == "zero":
        # There is a gradient, of zeros: a run does not look at values.
        return None
    mine = its_optimizers(story, finding)
    frozen = _frozen(story, finding, mine) if how == "frozen" else None
    return frozen or _without_gradient(story, finding, mine)


def _without_gradient(story: Story, finding: Finding, mine: Sequence[Optimizer]) -> Evidence | None:
    """Return the evidence of how often parameters of these optimizers were stepped without a gradient."""
    leaves = story.reading.ledger.leaves
    others = {number: steps for number, steps in story.gradients.never.items() if number in leaves}
    if not story.whole and not others:
        others = _never_reached(story)
    if never := _of_finding(story, finding, mine, others):
        names = [story.leaf_text(number) for number in never]
        steps = max(never.values())
        shown = f"{names_text(names)} never had a gradient in {steps_text(steps)}"
        return Evidence.confirmed(shown, parameters=names, steps=steps)
    numbers = {one.id for one in mine}
    if len([step for _, step in story.reading.steps if not mine or step.optimizer in numbers]) >= 2:
        if not others:
            return Evidence.refuted("every parameter of every optimizer had a gradient in some step of it")
        return Evidence.refuted("these parameters had a gradient in some step of their optimizer") if mine else None
    if story.whole:
        return None
    ran = story.count(finding.span)
    early = f"the line ran {times(ran)}, but the run ended before an optimizer had stepped twice ({end_text(story)})"
    return Evidence("not-reached", early, None, {"runs": ran})


def _frozen(story: Story, finding: Finding, mine: Sequence[Optimizer]) -> Evidence | None:
    """Return the evidence of whole groups of an optimizer that stood frozen at several steps."""
    elsewhere = {one.at.span for one in story.reading.optimizers.values()} - {one.at.span for one in mine}
    groups = [group for group in story.gradients.frozen_groups if not mine or group[0].span not in elsewhere]
    _, count, steps = max(groups, key=lambda group: group[1:], default=(None, 0, 0))
    if steps < 2:
        return None
    some = "1 parameter" if count == 1 else f"{count} parameters"
    shown = f"at {steps} steps or more, whole parameter groups of an optimizer were frozen: {some}"
    return Evidence.confirmed(shown, parameters=sorted(set(finding.facts.parameters)), steps=steps)


def _of_finding(story: Story, finding: Finding, mine: Sequence[Optimizer], never: Mapping[int, int]) -> dict[int, int]:
    """Return those of some leaves, with their steps, that a finding is about."""
    leaves = story.reading.ledger.leaves
    own = {leaf for one in mine for leaf in one.params} if mine else set(leaves)
    named = set(finding.facts.parameters)
    there = [number for number in own & leaves.keys() if any(matches(leaves[number].name, name) for name in named)]
    if there:
        # Another model's parameters, or other parameters of this one, say nothing of these.
        return {number: never[number] for number in there if number in never}
    return {number: steps for number, steps in never.items() if number in own}


def _never_reached(story: Story) -> dict[int, int]:
    reached = {number for item in story.reading.runs if item.backward.accumulates for number in item.executed}
    known = story.reading.optimizers
    stepped = Counter(
        leaf for _, step in story.reading.steps if step.optimizer in known for leaf in known[step.optimizer].params
    )
    return {leaf: steps for leaf, steps in stepped.items() if leaf not in reached and steps >= 2}
