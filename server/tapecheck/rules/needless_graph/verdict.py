"""What a recorded run says of TAPE302."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tapecheck.record.story import Story
from tapecheck.record.verdicts import not_reached
from tapecheck.report.sizes import bytes_text
from tapecheck.rules import Evidence, Finding


def verdict(story: Story, finding: Finding) -> Evidence | None:
    if not story.count(finding.span):
        return not_reached(story, finding)
    seen = [
        each
        for at, each in story.holdings.watched.items()
        if story.at(finding.span, at.span) and each.get("module-calls")
    ]
    # One loop may train where it is called from one place, and evaluate from another.
    unused = [each for each in seen if each["recorded-calls"] and not each["walked-graphs"]]
    if unused and not story.whole:
        # Where the program raised, a backward that was still to come may have been meant for what was left.
        unused = [each for each in unused if each["recorded-calls"] > each.get("left-graphs", 0)]
        if not unused:
            return None
    return _in_vain(finding, max(unused, key=lambda each: each["graph-bytes"])) if unused else _walked(finding, seen)


def _in_vain(finding: Finding, loop: dict[str, Any]) -> Evidence:
    """Return what a loop shows whose graphs nothing has walked."""
    calls, size = loop["recorded-calls"], loop["graph-bytes"]
    shown = f"no backward walked the graphs of the {_calls(calls)}; each kept up to {bytes_text(size)} of saved tensors"
    looks, found = loop.get("looks", calls), loop.get("looks-with-graph", calls)
    if found < looks:
        what = "calls" if finding.facts.loop is None else "iterations"
        shown = f"in {found} of {looks} {what} that were looked at a graph was recorded; {shown}"
    return Evidence.confirmed(
        shown, calls=calls, looks=looks, looks_with_graph=found, nodes=loop["graph-nodes"], saved_bytes=size
    )


def _walked(finding: Finding, seen: Sequence[Mapping[str, Any]]) -> Evidence | None:
    """Return refuted where a backward walks what modules build, or nothing is recorded."""
    walked, alone = sum(each["walked-graphs"] for each in seen), finding.facts.loop is None
    if alone and 0 < walked < sum(each["recorded-calls"] for each in seen):
        # One line may have a pass that trains and one that evaluates.
        return None
    if walked:
        here = "by this line" if alone else "in this loop"
        return Evidence.refuted(f"a backward walked {walked} of the graphs that modules built {here}")
    calls = _calls(sum(each["module-calls"] for each in seen))
    return Evidence.refuted(f"the {calls} recorded no graph") if seen else None


def _calls(count: int) -> str:
    return "1 module call that was looked at" if count == 1 else f"{count} module calls that were looked at"
