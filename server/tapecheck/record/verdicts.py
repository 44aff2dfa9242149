"""Verdicts of a recorded run that do not depend on the rule: what was raised, and what did not run."""

from __future__ import annotations

from tapecheck.record.ends import end_text, raised_in, raised_measure, raised_text, short
from tapecheck.record.parallel import what_is_missing
from tapecheck.record.places import loop_of, outside_its_loop
from tapecheck.record.raised import codes_of
from tapecheck.record.story import MIN_RUNS, Story, iteration
from tapecheck.record.words import times
from tapecheck.rules import Evidence, Finding
from tapecheck.rules.backward_twice.rule import BackwardTwice
from tapecheck.rules.backward_without_graph.rule import BackwardWithoutGraph
from tapecheck.rules.stale_saved_tensor.rule import StaleSavedTensor
from tapecheck.rules.words import line

_OF_CALLS = frozenset((BackwardTwice.code, StaleSavedTensor.code, BackwardWithoutGraph.code))
"""The rules whose findings stand at the backward call that raises."""


def by_exception(story: Story, finding: Finding) -> Evidence | None:
    """Return the verdict on a rule that is right where PyTorch raises."""
    # The line that raises may lie in a callee of the statement that the finding names, or the other way round.
    confirmed = raised_there(story, finding) or raised_there(story, finding, callers=True)
    if confirmed is not None:
        return confirmed
    ran = story.count(finding.span)
    if ran and finding.code in _OF_CALLS and not any(story.at(finding.span, one.at.span) for one in story.raised):
        if _without_its_backward(story, finding):
            return Evidence(
                "not-reached", f"the line ran {times(ran)}, its backward did not ({end_text(story)})", None,
                {"runs": ran},
            )  # fmt: skip
    return it_did_not_happen(story, finding, "raised nothing")


def raised_there(story: Story, finding: Finding, *, callers: bool = False) -> Evidence | None:
    """Return confirmed where the exception that a finding predicts was raised at its place, or in a call made there."""
    for raised in story.raised:
        places = raised.at.stack if callers else (raised.at.span,)
        if finding.code in codes_of(raised) and any(story.at(finding.span, place) for place in places):
            return Evidence("confirmed", raised_text(story, raised), raised_in(story, raised), raised_measure(raised))
    return None


def by_reducer(story: Story, finding: Finding, kind: str) -> Evidence | None:
    """Return the verdict on a rule that is right where DistributedDataParallel raises.

    A process that a launcher inside the program starts may end by an exception which no hook of Python sees: the
    measure that is taken as it passes stays.
    """
    evidence = by_exception(story, finding)
    if evidence is not None and evidence.verdict == "confirmed":
        return evidence
    for name, at, count in story.wrapped.not_reduced:
        if name == kind and any(story.at(finding.span, place) for place in (at.span, *at.stack)):
            index = iteration(at)
            when = f" in iteration {index}" if index is not None else ""
            return Evidence(
                "confirmed", f"raised{when}: {what_is_missing(kind, count)}", index, {"parameters_not_reduced": count}
            )
    return evidence


def _without_its_backward(story: Story, finding: Finding) -> bool:
    """Return whether no backward ran on a line: `if again: loss.backward()` is one line.

    The first calls of every line are on the tape.
    """
    runs = story.reading.runs
    if any(item.at.function == "<unknown>" for item in runs):
        return False
    return not any(story.at(finding.span, place) for item in runs for place in (item.at.span, *item.at.stack))


def it_did_not_happen(story: Story, finding: Finding, instead: str) -> Evidence:
    """Return refuted where the line ran often enough or the program to its end, else not reached."""
    ran = story.count(finding.span)
    if not ran:
        return not_reached(story, finding)
    for raised in story.raised:
        if story.at(finding.span, raised.at.span):
            return Evidence(
                "refuted", f"it failed for another reason: {short(raised.message)}", raised_in(story, raised)
            )
    if story.whole or ran >= MIN_RUNS:
        return Evidence("refuted", f"the line ran {times(ran)} and {instead}", None, {"runs": ran})
    return Evidence(
        "not-reached", f"the line ran {times(ran)} and {instead}, but the run ended early ({end_text(story)})", None,
        {"runs": ran},
    )  # fmt: skip


def never_ran(story: Story, finding: Finding) -> Evidence | None:
    """Return not reached where the lines of a finding never ran, or never within the loop that it is about."""
    if not story.ran(finding.span):
        return not_reached(story, finding)
    loop = loop_of(finding)
    if loop is not None and outside_its_loop(story, finding):
        return Evidence(
            "not-reached",
            f"line {finding.span.line} ran, but not within the loop on {line(loop, finding.span)} ({end_text(story)})",
        )
    return None


def not_reached(story: Story, finding: Finding) -> Evidence:
    """Return that the line of a finding did not run, or not the part of it that the finding is about."""
    lines = story.count_lines(finding.span)
    if lines:
        detail = f"the line ran {times(lines)}, this part of it did not ({end_text(story)})"
        return Evidence("not-reached", detail, None, {"runs": lines})
    return Evidence("not-reached", f"line {finding.span.line} did not run ({end_text(story)})")
