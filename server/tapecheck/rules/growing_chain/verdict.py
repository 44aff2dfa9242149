"""What a recorded run says of TAPE202."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tapecheck.record.ends import raised_in, short
from tapecheck.record.places import is_statement, loop_of
from tapecheck.record.story import MIN_RUNS, Story, loop_line
from tapecheck.record.verdicts import not_reached
from tapecheck.record.words import times
from tapecheck.rules import Evidence, Finding
from tapecheck.rules.reading import Run, iteration_in


def verdict(story: Story, finding: Finding) -> Evidence | None:
    runs = story.runs_at(finding.span)
    loop = loop_of(finding)
    numbers = {number for item in runs for number, _ in item.at.iteration}
    if loop is not None and is_statement(story, loop):
        # Another loop around the same line may be one whose iterations share nothing.
        numbers = {number for number in numbers if story.is_loop(number, loop)}
        runs = [item for item in runs if not numbers.isdisjoint(dict(item.at.iteration))]
    growth = _growth(story, runs, numbers) or _window(story, finding, numbers)
    if growth is not None or runs:
        return growth or _no_growth(story, finding, runs)
    return None if story.count(finding.span) else not_reached(story, finding)


def _no_growth(story: Story, finding: Finding, runs: Sequence[Run]) -> Evidence | None:
    """Return refuted where a call failed instead, or ran often enough."""
    for raised in story.raised:
        if story.at(finding.span, raised.at.span):
            return Evidence("refuted", f"the call failed instead: {short(raised.message)}", raised_in(story, raised))
    if len(runs) < MIN_RUNS:
        return None
    counts = [len(story.reading.graph_nodes(item.executed)) for item in runs]
    walked = ", ".join(map(str, counts[:5]))
    shown = f"the call ran {times(len(runs))} and walked {walked} graph nodes: no lasting growth"
    return Evidence.refuted(shown, nodes=counts)


def _growth(story: Story, runs: Sequence[Run], loops: Collection[int]) -> Evidence | None:
    """Return the evidence of a loop in whose iterations a call walked more nodes each time."""
    walked: dict[int, dict[int, int]] = {}
    for item in runs:
        size = len(story.reading.graph_nodes(item.executed))
        for number, index in item.at.iteration:
            if number in loops:
                sizes = walked.setdefault(number, {})
                sizes[index] = max(size, sizes.get(index, 0))
    for number, sizes in walked.items():
        counts = list(sizes.values())
        if len(counts) >= MIN_RUNS and all(a < b for a, b in zip(counts, counts[1:], strict=False)):
            shown = ", ".join(map(str, counts[:5])) + (f", … {counts[-1]}" if len(counts) > 5 else "")
            during = f"in iterations {min(sizes)} to {max(sizes)} of the loop on line {loop_line(story, number)}"
            return Evidence.confirmed(f"the call walked {shown} graph nodes {during}", max(sizes), nodes=counts)
    return None


def _window(story: Story, finding: Finding, loops: Collection[int]) -> Evidence | None:
    """Return the evidence of a chain that the run starts anew after some iterations, as the rule reads it there."""
    for chain in story.reading.growing_chains:
        last = chain.runs[-1]
        if chain.window and chain.loop.id in loops and story.at(finding.span, last.at.span):
            first, until = (iteration_in(run.at, chain.loop) for run in (chain.runs[0], last))
            walked = f"{', '.join(map(str, chain.lengths))} graph nodes in iterations {first} to {until}"
            loop = f"of the loop on line {loop_line(story, chain.loop.id)}, and fewer after a reset"
            return Evidence.confirmed(f"the call walked {walked} {loop}", until, nodes=chain.lengths)
    return None
