"""What a recorded run says of TAPE201."""

from __future__ import annotations

from collections.abc import Sequence

from tapecheck.record.held import Series
from tapecheck.record.kept import is_more_than_numbers
from tapecheck.record.places import holder_of, holds_there, named_alike
from tapecheck.record.story import MIN_RUNS, Story, loop_line
from tapecheck.record.verdicts import not_reached
from tapecheck.record.words import last_name, times
from tapecheck.report.sizes import bytes_text
from tapecheck.rules import Evidence, Finding
from tapecheck.rules.reading import grouped

_WORTH_TELLING = 1 << 16
"""So many bytes of kept tensors are more than the numbers of a history."""


def verdict(story: Story, finding: Finding) -> Evidence | None:
    stored, ran = finding.facts.stored, story.count(finding.span)
    if ran and stored is not None and not story.at(finding.span, stored) and story.calls_nothing(finding.span):
        # What it calls stores: another call may have done that.
        return Evidence("not-reached", f"the line ran {times(ran)}, what it calls did not", None, {"runs": ran})
    mine = [series for series in story.holdings.series.values() if holds_there(story, series, finding)]
    growing = [series for series in mine if series.grows] or [series for series in mine if series.grows_in_steps]
    growing = [series for series in growing if not story.was_emptied(series)]
    if growing:
        return _confirmed(story, finding, growing)
    if not ran:
        return not_reached(story, finding)
    return _no_more(story, finding, mine, ran) or _none_alive(story, finding, ran)


def _none_alive(story: Story, finding: Finding, ran: int) -> Evidence | None:
    """Return refuted where what is alive stays the same over the loops around a line."""
    loops = story.loops_of(finding.span)
    levels = [series for loop, series in story.holdings.live.items() if loop in loops and len(series.samples) >= 2]
    if not levels or ran < MIN_RUNS or not _level(story, levels):
        return None
    series = next((series for series in levels if series.flat), levels[0])
    after = f"{series.text()} graph nodes after iterations {series.text('index')}"
    shown = f"the line ran {times(ran)} and what is alive stayed the same: {after}"
    return Evidence.refuted(shown, nodes=[sample.nodes for sample in series.samples])


def _confirmed(story: Story, finding: Finding, growing: Sequence[Series]) -> Evidence:
    # A loop within the one of the finding grows, too, by what one iteration of that adds.
    holder = holder_of(finding)
    named = {label.span for label in finding.labels if label.role == "path"}
    series = max(
        growing,
        key=lambda item: (
            item.holder == holder,
            last_name(item.holder) == last_name(holder),
            any(story.is_loop(item.loop, span) for span in named),
            len(item.samples),
        ),
    )
    last = series.samples[-1]
    # One object has several names: the run has that of a variable.
    other = f" (`{holder}`)" if not named_alike(series.holder, holder) else ""
    detail = (
        f"`{series.holder}`{other} kept {series.text()} graph nodes after iterations {series.text('index')} "
        f"of the loop on line {loop_line(story, series.loop)}"
    )
    if len(series.samples) > 5:
        detail += f", {last.nodes} after iteration {last.index}"
    saved = "saved tensors" if is_more_than_numbers(last.size, last.nodes) else "saved numbers"
    detail += f", and {bytes_text(last.size)} of {saved}" if last.size else ", and no saved tensors"
    if last.own >= _WORTH_TELLING:
        detail += f"; the kept tensors themselves are {bytes_text(last.own)}"
    return Evidence.confirmed(detail, last.index, **series.measured())


def _no_more(story: Story, finding: Finding, mine: Sequence[Series], ran: int) -> Evidence | None:
    """Return refuted where what stores in each iteration keeps no more after some: a window that is full."""
    holder = last_name(holder_of(finding))
    known = [series for series in mine if len(series.samples) > 1 and last_name(series.holder) == holder]
    full = next((series for series in known if series.level is not None), None)
    if full is None or full.level is None or ran < full.samples[-1].index:
        return None
    if not all(series.flat or series.level is not None for series in known):
        return None
    last = full.samples[-1]
    until = f"{last.nodes} graph nodes until iteration {last.index} of the loop on line {loop_line(story, full.loop)}"
    kept = f"`{full.holder}` kept no more after iteration {full.level.index}"
    return Evidence.refuted(f"the line ran {times(ran)} and {kept}: {until}", **full.measured())


def _level(story: Story, levels: Sequence[Series]) -> bool:
    """Return whether what is alive is no more at the end of loops that run again and again than at their beginning."""
    if all(series.flat for series in levels):
        return True
    if any(series.grows or series.grows_in_steps for series in levels):
        return False
    loops = {number: loop.event.at.span for number, loop in story.reading.loops.items()}
    runs = grouped((loops.get(series.loop), series) for series in levels)
    return all(
        all(series.flat for series in of_loop)
        or (len(of_loop) > 1 and of_loop[-1].flat and of_loop[-1].samples[-1].nodes <= of_loop[0].samples[0].nodes)
        for of_loop in runs.values()
    )
