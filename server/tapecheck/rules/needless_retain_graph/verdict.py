"""What a recorded run says of TAPE301."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tapecheck.record.ends import end_text
from tapecheck.record.held import Kept
from tapecheck.record.story import MIN_RUNS, Story, iteration
from tapecheck.record.verdicts import not_reached
from tapecheck.record.words import times
from tapecheck.report.sizes import bytes_text
from tapecheck.rules import Evidence, Finding
from tapecheck.rules.reading import Run
from tapecheck.rules.words import line


def verdict(story: Story, finding: Finding) -> Evidence | None:
    ran = story.runs_at(finding.span)
    runs = [item for item in ran if item.backward.retain != "no"]
    if not runs:
        retained = Evidence.refuted(f"the call ran {times(len(ran))} and retained nothing")
        return retained if ran else not_reached(story, finding)
    ids = {item.backward.id for item in runs}
    kept = [(item, story.holdings.kept[item.backward.id]) for item in runs if item.backward.id in story.holdings.kept]
    if (needed := _needed(story, finding, ids, _kept_measure(kept))) is not None:
        return needed
    seen = story.whole or (len(runs) >= MIN_RUNS and story.end.how == "stopped")
    if not seen or any(raised.backward in ids for raised in story.raised):
        return None
    held = len(story.reading.graph_nodes(runs[-1].executed))
    shown = (
        f"{_ran(story, finding, runs)} and no later call walked a node with saved tensors of the graph it retained "
        f"({held} nodes each time)" + _kept_text(story, finding, kept)
    )
    return Evidence.confirmed(shown, runs=len(runs), nodes=held, **_kept_measure(kept))


def _needed(story: Story, finding: Finding, calls: set[int], kept: dict[str, Any]) -> Evidence | None:
    """Return refuted where a later call walked what some calls had retained."""
    for later in story.reading.runs:
        again = [node for node, earlier in later.traversal.retraversed.items() if calls & set(earlier)]
        if again:
            place = f"line {later.at.line}" + (" (this same call)" if story.at(finding.span, later.at.span) else "")
            needed = f"the retained graph was needed: the call on {place} walked {len(again)} of its nodes again"
            return Evidence("refuted", needed, iteration(later.at), {"nodes": len(again), **kept})
    return None


def _kept_text(story: Story, finding: Finding, kept: Sequence[tuple[Run, Kept]]) -> str:
    """Return how much the retained graphs kept and until when, the one call for all that kept most."""
    if not kept:
        return ""
    most = max(one.size for _, one in kept)
    if not most:
        return "; it kept no tensors but parameters"
    each = "each time " if len(kept) > 1 and all(one.size == most for _, one in kept) else ""
    text = f"; {each}it kept {'' if each or len(kept) == 1 else 'up to '}{bytes_text(most)} of saved tensors"
    ends = {_until(story, finding, run, one) for run, one in kept[:-1] or kept}
    return text + ends.pop() if len(ends) == 1 else text


def _until(story: Story, finding: Finding, run: Run, kept: Kept) -> str:
    """Return where the graph of a retaining call went, seen from that call."""
    end = kept.gone_at
    if end is None:
        return f", still there when {end_text(story)}" if story.whole else ""
    there = line(end.span, finding.span)
    before = dict(run.at.iteration)
    apart = next((index - before[loop] for loop, index in end.iteration if before.get(loop, index) != index), 0)
    if apart:
        return f" until {there} of the next iteration" if apart == 1 else f" until {there}, {apart} iterations later"
    if story.at(run.at.span, end.span):
        return " until that line was done"
    return f" until {there}"


def _kept_measure(kept: Sequence[tuple[Run, Kept]]) -> dict[str, Any]:
    """Return the same as data: bytes and seconds are the most of any call."""
    if not kept:
        return {}
    measured: dict[str, Any] = {"kept_bytes": max(one.size for _, one in kept)}
    seconds = [one.seconds for _, one in kept if one.seconds is not None]
    if seconds:
        measured["kept_seconds"] = max(seconds)
    lines = {one.gone_at.span.line for _, one in kept if one.gone_at is not None}
    if lines:
        measured["released_on_lines"] = sorted(lines)
    return measured


def _ran(story: Story, finding: Finding, runs: Sequence[Run]) -> str:
    """Return how often a call ran; most calls of a long run are not on the tape, so that its line tells more."""
    counted = story.count(finding.span)
    if counted > len(runs):
        return f"the line ran {times(counted)}"
    return f"the call ran {times(len(runs))}" + (" or more" if story.course.passed and not story.course.hits else "")
