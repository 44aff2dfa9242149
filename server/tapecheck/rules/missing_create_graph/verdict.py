"""What a recorded run says of TAPE401."""

from __future__ import annotations

from tapecheck.record.story import Story, iteration
from tapecheck.record.verdicts import it_did_not_happen, not_reached, raised_there
from tapecheck.record.words import times
from tapecheck.rules import Evidence, Finding
from tapecheck.rules.missing_create_graph.facts import MissingCreateGraphFacts
from tapecheck.rules.reading import Run


def verdict(story: Story, finding: Finding) -> Evidence | None:
    confirmed = raised_there(story, finding)
    if confirmed is not None:
        return confirmed
    ran = story.count(finding.span)
    if not ran:
        return not_reached(story, finding)
    facts = finding.facts
    if finding.severity == "error" or (isinstance(facts, MissingCreateGraphFacts) and facts.kind == "raises"):
        return it_did_not_happen(story, finding, "raised nothing")
    taken = _taken(story, finding)
    without = [item for item in taken if item.backward.create == "no"]
    if without and any(item.backward.accumulates for item in story.reading.runs):
        lines = ", ".join(sorted({str(item.at.line) for item in without}))
        shown = f"the gradient that it uses (line {lines}) was taken {times(len(without))} and never had a graph"
        return Evidence.confirmed(shown, iteration(without[0].at), runs=ran)
    return Evidence.refuted("the gradient was taken with `create_graph=True` each time") if taken else None


def _taken(story: Story, finding: Finding) -> list[Run]:
    """Return the calls that took gradients: those that the finding names, else every `autograd.grad`."""
    places = [label.span for label in finding.labels if label.role == "cut"]
    if not places:
        return [item for item in story.reading.runs if item.backward.call == "grad"]
    return [item for item in story.reading.runs if any(story.at(place, item.at.span) for place in places)]
