"""What a recorded run says of TAPE203."""

from __future__ import annotations

from collections.abc import Sequence

from tapecheck.record.held import Sample, Series
from tapecheck.record.places import is_statement, loop_of
from tapecheck.record.story import MIN_RUNS, Story, loop_line
from tapecheck.record.verdicts import not_reached
from tapecheck.rules import Evidence, Finding
from tapecheck.rules.reading import Run


def verdict(story: Story, finding: Finding) -> Evidence | None:
    runs = [item for item in story.runs_at(finding.span) if item.backward.create == "yes"]
    if not runs:
        return not_reached(story, finding) if not story.count(finding.span) else None
    series = _alive_over(story, finding, runs)
    growing = [one for one in series if one.grows and len(one.samples) >= MIN_RUNS]
    if growing:
        most = max(growing, key=lambda one: len(one.samples))
        last = most.samples[-1]
        alive = f"{most.text()} graph nodes were alive after iterations {most.text('index')}"
        loop = f"of the loop on line {loop_line(story, most.loop)}"
        return Evidence.confirmed(f"{alive} {loop}", last.index, **most.measured())
    flat = [one for one in series if one.flat]
    if flat and len(flat) == len([one for one in series if len(one.samples) > 1]):
        shown = max(flat, key=lambda one: len(one.samples))
        same = f"the graph nodes alive after each iteration stayed the same: {shown.text()}"
        return Evidence.refuted(same, **shown.measured())
    return None


def _alive_over(story: Story, finding: Finding, runs: Sequence[Run]) -> list[Series]:
    """Return what was alive over the iterations of the finding's loop: after each of them, and where each of them had
    come to the same iteration of a loop within it.
    """
    loop = loop_of(finding)
    numbers = {event.id for event in story.runs_of_loop(loop)} if loop is not None else set()
    if loop is None or not (numbers or is_statement(story, loop)):
        # A library's loop may be known by another place.
        numbers = {number for item in runs for number, _ in item.at.iteration}
    found: dict[tuple[object, ...], Series] = {}
    for site, nodes in story.holdings.levels:
        for depth, (number, index) in enumerate(site.iteration):
            if number not in numbers:
                continue
            inner = tuple((story.place_of_loop(one), at) for one, at in site.iteration[depth + 1 :])
            series = found.setdefault((number, inner), Series(number, "", site))
            series.samples.append(Sample(index, nodes))
    return list(found.values())
