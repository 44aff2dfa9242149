"""What a recorded run says of TAPE406."""

from __future__ import annotations

from tapecheck.record.story import Story
from tapecheck.record.words import matches, times
from tapecheck.rules import Evidence, Finding
from tapecheck.rules.gradient_cut.verdict import verdict as verdict_of_a_cut


def verdict(story: Story, finding: Finding) -> Evidence | None:
    evidence = verdict_of_a_cut(story, finding)
    named = finding.facts.parameters
    if evidence is not None and evidence.verdict == "confirmed":
        # Others that have no gradient say nothing of these.
        if not any(matches(name, mine) for name in evidence.measured["parameters"] for mine in named):
            return None
    if evidence is None and not story.reading.steps:
        # Without a step nothing looks at the parameters; whether the call recorded a graph shows in its node.
        ran, reading = story.count(finding.span), story.reading
        nodes = [node for node in reading.ledger.nodes.values() if node.op.startswith("CheckpointFunction")]
        if ran >= 2 and len(reading.runs) >= 2 and not any(story.at(finding.span, node.at.span) for node in nodes):
            return Evidence.confirmed(f"the checkpoint was called {times(ran)} and recorded no graph", runs=ran)
    return evidence
