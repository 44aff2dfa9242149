"""Why a finding is one of some ways through the program only: the undecided conditions that lead to it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from tapecheck.rules.finding import Finding, Label
from tapecheck.rules.reading import Key, One, Reading, Run, grouped
from tapecheck.rules.rule import Rule
from tapecheck.tape import Decision, Span

MAX_CONDITIONS = 3
_TIMES = ("first", "second", "third", "fourth", "fifth")


def always(readings: Sequence[Reading], reading: Reading, run: Run) -> bool:
    """Return whether this call certainly raises in every tape that reaches it as often."""
    count = _ordinal(reading, run)
    return not _passing(readings, run, count) and not (count and _may_pass(readings, reading, run))


def path_labels(readings: Sequence[Reading], reading: Reading, run: Run) -> list[Label]:
    """Return the conditions that tell the way on which this call fails from the closest one on which it passes; none
    where it passes on none.
    """
    ways = [(other, there.position) for other, there in _passing(readings, run, _ordinal(reading, run))]
    return _labels(_deciding(reading, run.position, ways, run.at.span))


def explain(rule: Rule, findings: Sequence[Finding], readings: Sequence[Reading]) -> None:
    """Add the conditions to those of a rule's findings that some ways through the program do not show."""
    wanting = [finding for finding in findings if not any(label.role == "condition" for label in finding.labels)]
    if not wanting or len(readings) < 2:
        return
    for finding, having, lacking in divided(rule, wanting, readings):
        ended = [(reading, len(reading.tape.events)) for reading in lacking if reading.ended == "finished"]
        if having and ended:
            conditions = _deciding(having[0], len(having[0].tape.events), ended, finding.span)
            finding.labels += tuple(_labels(conditions))


def divided(
    rule: Rule, findings: Sequence[Finding], readings: Sequence[Reading]
) -> Iterator[tuple[Finding, list[Reading], list[Reading]]]:
    """Yield findings of a rule, each with the ways that show it by themselves and those that do not."""
    shown = [(reading, {one.key for one in rule.judge([reading])}) for reading in readings] if findings else []
    for finding in findings:
        having = [reading for reading, keys in shown if finding.key in keys]
        yield finding, having, [reading for reading, keys in shown if finding.key not in keys]


def undisputed(shown: Iterable[tuple[Key, One | None]]) -> dict[Key, One]:
    """Return what is shown first under each key, without the keys of which anything shows otherwise, by None."""
    first: dict[Key, One] = {}
    disputed: set[Key] = set()
    for key, one in shown:
        if one is None:
            disputed.add(key)
        else:
            first.setdefault(key, one)
    return {key: one for key, one in first.items() if key not in disputed}


def _ordinal(reading: Reading, run: Run) -> int:
    """Return how many times the call had run before in its tape."""
    return next(number for number, other in enumerate(reading.runs_by_site[run.at.span]) if other is run)


def _passing(readings: Sequence[Reading], run: Run, count: int) -> list[tuple[Reading, Run]]:
    """Return the tapes that get past the call the same number of times."""
    found = []
    for other in readings:
        runs = other.runs_by_site.get(run.at.span, ())
        if len(runs) > count:
            if not runs[count].failed:
                found.append((other, runs[count]))
        elif runs and not runs[-1].failed and (other.ended == "finished" or other.goes_on(runs[-1])):
            # It does not come there again, or a loop that repeats itself is left early, and passes as the last one did.
            found.append((other, runs[-1]))
    return found


def _may_pass(readings: Sequence[Reading], reading: Reading, run: Run) -> bool:
    """Return whether a call that runs again need not: what tells its way from one that ends well without it are answers
    alone that are given anew before each time.
    """
    asked = _answers(reading, run.position)
    for other in readings:
        if other.ended == "finished" and not other.runs_by_site.get(run.at.span):
            apart = told_apart(reading, other)
            if apart and all(len(asked.get(one.at.span, ())) > 1 for one in apart):
                return True
    return False


def told_apart(reading: Reading, other: Reading) -> list[Decision]:
    """Return the conditions that two ways through the program answer differently, each as the first of them asks it."""
    mine, theirs = _answers(reading, len(reading.tape.events)), _answers(other, len(other.tape.events))
    return [
        asked[0]
        for span, asked in mine.items()
        if any(one.taken != another.taken for one, another in zip(asked, theirs.get(span, ())))
    ]


def answered_otherwise(reading: Reading, other: Reading) -> list[Decision]:
    """Return the same conditions, each as this way asks it when the answer first hangs on hidden code or is against a
    default; else as it first asks it.
    """
    mine = _answers(reading, len(reading.tape.events))
    return [
        next((one for one in mine[first.at.span] if one.hangs_on != "data"), first)
        for first in told_apart(reading, other)
    ]


def _deciding(
    reading: Reading, until: int, others: Sequence[tuple[Reading, int]], home: Span
) -> list[tuple[Decision, int, bool]]:
    """Return what this way decides otherwise than the closest of the others, before a position in each.

    Each decision comes with how often its condition had been asked before, and whether the answers differ in time.
    A condition that only decides whether the line of the finding is reached at all explains nothing.
    """
    mine = _answers(reading, until)
    best: list[tuple[Decision, int, bool]] = []
    for other, end in others:
        theirs = {span: [decision.taken for decision in asked] for span, asked in _answers(other, end).items()}
        found: list[tuple[Decision, int, bool]] = []
        for span, asked in mine.items():
            if asked[0].governs(home):
                continue
            answers = theirs.get(span, [])
            for count, decision in enumerate(asked):
                if count >= len(answers) or answers[count] != decision.taken:
                    found.append((decision, count, len({each.taken for each in asked}) > 1))
                    break
        if found and (not best or len(found) < len(best)):
            best = found
    return best


def _answers(reading: Reading, until: int) -> dict[Span, list[Decision]]:
    return grouped((decision.at.span, decision) for position, decision in reading.decisions if position < until)


def _labels(conditions: Sequence[tuple[Decision, int, bool]]) -> list[Label]:
    labels = []
    for decision, count, varies in conditions[:MAX_CONDITIONS]:
        way = "true" if decision.taken else "false"
        when = f" the {_TIMES[count]} time it is asked" if varies and count < len(_TIMES) else ""
        labels.append(Label(decision.at.span, f"this happens where `{decision.text}` is {way}{when}", "condition"))
    return labels
