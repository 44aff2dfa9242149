"""What a recorded run says of TAPE404."""

from __future__ import annotations

from tapecheck.record.story import Story, iteration
from tapecheck.record.verdicts import not_reached
from tapecheck.record.words import names_text, times
from tapecheck.rules import Evidence, Finding


def verdict(story: Story, finding: Finding) -> Evidence | None:
    if not story.count(finding.span):
        return not_reached(story, finding)
    leaves = story.reading.ledger.leaves
    found = [(leaf, at, count) for leaf, at, count in story.gradients.discarded if story.at(finding.span, at.span)]
    used = sum(count for at, count in story.gradients.used if story.at(finding.span, at.span))
    if found and found[0][2] >= used:
        names = [story.leaf_text(leaf) for leaf, _, _ in found if leaf in leaves]
        seen = found[0][2] + used
        # Of a long run most calls are not on the tape: those that are stand for no others.
        seen_of = f"{seen} calls" if story.count(finding.span) <= seen else f"the {seen} calls that were followed"
        times_of = f"in {found[0][2]} of {seen_of}" if used else times(found[0][2])
        gave = "what this call gave" if story.runs_at(finding.span) else "what this line made of the gradients of"
        shown = f"{gave} {names_text(names)} was cleared {times_of} before a step had it"
        return Evidence.confirmed(shown, iteration(found[0][1]), parameters=names, calls=found[0][2], used=used)
    made = "this call gave" if story.runs_at(finding.span) else "this line made of the gradients"
    return Evidence.refuted(f"a step used what {made}, {times(used)} of the first", used=used) if used else None
