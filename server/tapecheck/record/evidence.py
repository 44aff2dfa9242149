"""Compare findings with a recorded run: confirmed, refuted, not reached, or found only by the run.

Where a rule speaks of an exception, the exception that was really raised decides. Where it speaks of growth, what
was measured decides. A run that ended early refutes nothing that might still have come.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Union

from tapecheck.record import ranks
from tapecheck.record.decided import verdict_on
from tapecheck.record.ends import end_text
from tapecheck.record.files import real_path
from tapecheck.record.found import found_by_run
from tapecheck.record.kept import as_measured
from tapecheck.record.places import given_together, is_made_of, same_holder
from tapecheck.record.run import Output, Progress, RunRequest, RunResult, run
from tapecheck.record.story import MIN_RUNS, Story
from tapecheck.record.verdicts import never_ran
from tapecheck.record.words import names_text, times
from tapecheck.rules import Evidence, Finding
from tapecheck.rules.backward_twice.rule import BackwardTwice
from tapecheck.rules.backward_without_graph.rule import BackwardWithoutGraph
from tapecheck.rules.checkpoint_without_gradient.rule import CheckpointWithoutGradient
from tapecheck.rules.create_graph_cycle.rule import CreateGraphCycle
from tapecheck.rules.gradient_cut.facts import GradientCutFacts
from tapecheck.rules.gradient_cut.rule import GradientCut
from tapecheck.rules.gradient_discarded.rule import GradientDiscarded
from tapecheck.rules.gradient_not_reduced.rule import GradientNotReduced
from tapecheck.rules.graph_kept.rule import GraphKeptAcrossIterations
from tapecheck.rules.growing_chain.rule import GrowingChain
from tapecheck.rules.missing_create_graph.rule import MissingCreateGraph
from tapecheck.rules.needless_graph.facts import NeedlessGraphFacts
from tapecheck.rules.needless_graph.rule import NeedlessGraph
from tapecheck.rules.needless_retain_graph.rule import NeedlessRetainGraph
from tapecheck.rules.overwritten_output.rule import OverwrittenOutput
from tapecheck.rules.scaled_gradient_read.rule import ScaledGradientRead
from tapecheck.rules.stale_gradient.facts import beside
from tapecheck.rules.stale_gradient.rule import StaleGradient
from tapecheck.rules.untrained_parameter.rule import UntrainedParameter
from tapecheck.rules.update_without_effect.rule import UpdateWithoutEffect
from tapecheck.rules.words import line
from tapecheck.tape import Span, Tape
from tapecheck.tape.ranks import parts

_KEEPING = (GraphKeptAcrossIterations.code, GrowingChain.code, CreateGraphCycle.code)
"""The rules about graphs that live on."""
_NEVER = (
    NeedlessRetainGraph.code, NeedlessGraph.code, GradientCut.code, CheckpointWithoutGradient.code,
    UntrainedParameter.code,
)  # fmt: skip
"""The rules about what never happens, which a run confirms that is seen to its end."""

_UNSEEN = "another trace function (a debugger, a coverage tool) took the recorder's place: some lines ran unseen"
_UNSURE = "line {line} ran: whether this part of it did was not seen"
_ONE_PROCESS = "one process was recorded: whether the gradients of several differ is seen with `--ranks 2`"
_NOT_MEASURED = {
    OverwrittenOutput.code: "the run used no CUDA device: CUDA graphs run on nothing else",
    UpdateWithoutEffect.code: "the line ran: that it leaves tensors as they are, a run does not measure",
}
"""Why a run says nothing more about findings of some rules, by their codes."""


def lines_of(findings: Iterable[Finding]) -> set[tuple[str, int]]:
    """Return the lines that findings are on, with their files: a run counts how often each of them ran."""
    return {
        (span.file, row)
        for span in (finding.span for finding in findings)
        for row in range(span.line, max(span.line, span.end_line) + 1)
    }


def passes_of(findings: Iterable[Finding]) -> set[tuple[str, int]]:
    """Return the lines of findings about single forward passes: a run looks at the graphs that are built there."""
    return lines_of(
        finding
        for finding in findings
        if isinstance(finding.facts, NeedlessGraphFacts) and finding.facts.passed is not None
    )


def asks_for_levels(findings: Iterable[Finding]) -> bool:
    """Return whether what is alive in all of a program decides about one of its findings."""
    return any(finding.code in _KEEPING for finding in findings)


def confirm(
    source_path: str,
    request: RunRequest,
    findings: Sequence[Finding],
    *,
    on_event: Callable[[Union[Output, Progress]], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> tuple[RunResult, list[Finding]]:
    """Run a script and judge the findings of one file by what happened.

    Findings that only the run made are added where they lie in `source_path`, under that name. Raises
    `RunError` where the run cannot be made at all.
    """
    watch, passes = {*request.watch, *lines_of(findings)}, {*request.passes, *passes_of(findings)}
    asked = dataclasses.replace(request, watch=watch, passes=passes, own={*request.own, source_path})
    result = run(asked, on_event, cancelled)
    judged = judge(findings, result.tape, directory=request.cwd)
    own = real_path(source_path, None)
    return result, [
        finding
        for finding in judged
        if finding.evidence is None
        or finding.evidence.verdict != "found-by-run"
        or real_path(finding.span.file, request.cwd) == own
    ]


def _judged(story: Story, finding: Finding, alone: bool) -> Finding:
    """Return a finding with what a run shows about it, as far as the run saw enough for that."""
    evidence, notes = never_ran(story, finding) or verdict_on(story, finding), finding.notes
    verdict = evidence.verdict if evidence is not None else ""
    if story.course.cut_short and finding.code in _KEEPING and verdict in ("", "refuted"):
        # What came after the last look is not known.
        finding, verdict = _noted(finding, _stopped("looking at what is kept", story.course.cut_short)), ""
    if _is_unsure(story, finding, verdict):
        return _noted(finding, _UNSURE.format(line=finding.span.line))
    if story.course.written_for and verdict == "refuted":
        finding, verdict = _noted(finding, _stopped("writing calls", story.course.written_for)), ""
    if verdict == "not-reached" and story.unrecorded(finding.span.file):
        if story.file(finding.span.file) not in story.course.not_loaded:
            return _noted(finding, _unrecorded(finding.span.file))
        evidence = Evidence("not-reached", f"{Path(finding.span.file).name} was not loaded ({end_text(story)})")
    if story.course.elsewhere and evidence is not None and verdict == "not-reached":
        return _noted(finding, f"{evidence.detail}, but {story.course.elsewhere} were not recorded")
    if story.course.unseen and verdict in ("not-reached", "refuted"):
        return _noted(finding, _UNSEEN)
    if story.blind and verdict and not (verdict == "confirmed" and finding.code not in _NEVER):
        return _noted(finding, f"{story.blind}: what came later was not seen")
    if verdict:
        return dataclasses.replace(finding, evidence=evidence)
    if alone and finding.code == GradientNotReduced.code:
        return _noted(finding, _ONE_PROCESS)
    if finding.code in _NOT_MEASURED:
        return _noted(finding, _NOT_MEASURED[finding.code])
    note = _too_little(story, finding) if finding.notes == notes else ""
    return _noted(finding, *([f"too little was seen: {note}"] if note else ()))


def _is_unsure(story: Story, finding: Finding, verdict: str) -> bool:
    """Return whether a verdict rests on what a part of a line did of which it is not known whether it ran."""
    return story.unsure(finding.span) and (verdict == "refuted" or (bool(verdict) and finding.code in _NEVER))


def _too_little(story: Story, finding: Finding) -> str:
    """Return why a run is inconclusive about a finding, as far as that is known."""
    ran = story.count(finding.span)
    if not story.whole:
        return f"the run ended early ({end_text(story)})"
    if 0 < ran < MIN_RUNS:
        return f"the line ran {times(ran)}"
    loops = story.loops_of(finding.span)
    if finding.code in _KEEPING and all(
        len(one.samples) < 2 for loop, one in story.holdings.live.items() if loop in loops
    ):
        return "what is alive was not measured after two iterations of one loop"
    return ""


def judge(static: Sequence[Finding], tape: Tape, *, directory: str | None = None, alone: bool = True) -> list[Finding]:
    """Return the findings with what a recorded tape shows about each, and those that only the run made.

    Every rank of a tape is judged: what holds on one rank holds, and the evidence names it.

    The findings given are left as they are: copies carry the evidence. One on which the run is
    inconclusive has none. `directory` is the working directory of the run, to which names on the tape are relative,
    and `alone` says that the tape is not that of one of several ranks.
    """
    of_ranks = parts(tape)
    if of_ranks:
        return ranks.judged(
            static, of_ranks, lambda findings, part: judge(findings, part, directory=directory, alone=False)
        )
    story = Story(tape, directory)
    judged = [_judged(story, finding, alone) for finding in static]
    confirmed = [item for item in judged if _is_confirmed(item)]
    telling = (CheckpointWithoutGradient.code, GradientCut.code, GradientDiscarded.code)
    told = set().union(*(_parameters(item) for item in confirmed if item.code in telling))
    for finding in found_by_run(story):
        if story.blind and finding.code in _NEVER:
            continue
        if _is_replaced(finding) and (untrained := _untrained(judged)) is not None:
            # One mistake: the optimizer has those of before.
            judged[untrained] = _with_those_before(judged[untrained], finding)
            continue
        if (undecided := _same_failure(story, judged, finding)) is not None and finding.evidence is not None:
            # Where it is said that it fails is not where the library calls backward.
            judged[undecided] = dataclasses.replace(
                judged[undecided], evidence=dataclasses.replace(finding.evidence, verdict="confirmed")
            )
        elif not any(_same(story, item, finding) for item in judged) and not _told(story, finding, confirmed, told):
            judged.append(finding)
    return [as_measured(_of_known_places(finding)) for finding in judged]


def _noted(finding: Finding, *notes: str) -> Finding:
    """Return a finding on which the run is inconclusive, with the reason for it where that is known."""
    return dataclasses.replace(finding, notes=(*finding.notes, *notes), evidence=None)


def _unrecorded(file: str) -> str:
    name = Path(file).name
    return f"nothing of {name} was recorded: the program did not load it, or ran it as another file or process"


def _stopped(what: str, seconds: float) -> str:
    return f"too little was measured: the recorder stopped {what} after {seconds:.0f} s"


def _told(story: Story, found: Finding, confirmed: Sequence[Finding], parameters: set[str]) -> bool:
    """Return whether what a run has found is explained by confirmed findings, or the parameters that it says get no
    gradient are told of already.
    """
    if any(_explains(story, item, found) for item in confirmed):
        return True
    if _frozen(found):
        return any(item.code == found.code and _frozen(item) for item in confirmed)
    return found.code == GradientCut.code and _parameters(found) <= parameters


def _is_replaced(finding: Finding) -> bool:
    """Return whether nothing but their optimizer has the parameters of a finding, while others are trained by none."""
    return isinstance(finding.facts, GradientCutFacts) and finding.facts.how == "replaced"


def _untrained(judged: Sequence[Finding]) -> int | None:
    """Return which finding says that parameters are in no optimizer, and is confirmed."""
    return next((n for n, one in enumerate(judged) if one.code == UntrainedParameter.code and _is_confirmed(one)), None)


def _with_those_before(untrained: Finding, found: Finding) -> Finding:
    """Return a finding about parameters that no optimizer has, with those that one has in their place."""
    names = names_text(list(found.facts.parameters))
    made = f"the optimizer that is made on {line(found.span, untrained.span)}"
    note = f"{made} has {names}, which never had a gradient: probably what was there before"
    return dataclasses.replace(untrained, notes=(*untrained.notes, note))


def _frozen(finding: Finding) -> bool:
    """Return whether parameters get no gradient since they are frozen."""
    return isinstance(finding.facts, GradientCutFacts) and finding.facts.how == "frozen"


def _same_failure(story: Story, judged: Sequence[Finding], found: Finding) -> int | None:
    """Return which finding that is not confirmed speaks of a failure that the run saw: of the same graph, freed by the
    same call.
    """
    marks = _graph_of(found)
    if found.code != BackwardTwice.code or len(marks) < 2:
        return None
    if any(_is_confirmed(item) and _same(story, item, found) for item in judged):
        return None
    for number, item in enumerate(judged):
        if item.code != found.code or _is_confirmed(item) or _called_backward(story, item):
            continue
        mine = _graph_of(item)
        if marks.keys() == mine.keys() and all(story.at(mine[role], span) for role, span in marks.items()):
            return number
    return None


def _is_confirmed(finding: Finding) -> bool:
    return finding.evidence is not None and finding.evidence.verdict == "confirmed"


def _called_backward(story: Story, finding: Finding) -> bool:
    """Return whether the statement of a finding called backward itself: no library does that for it."""
    return any(
        story.at(finding.span, place) for item in story.reading.runs for place in (item.at.span, *item.at.stack)
    )  # fmt: skip


def _graph_of(finding: Finding) -> dict[str, Span]:
    """Return where the graph of a finding was built and freed."""
    return {label.role: label.span for label in finding.labels if label.role in ("built", "freed")}


def _of_known_places(finding: Finding) -> Finding:
    """Return a finding without the labels of places that the recorder did not see: graphs older than the recording."""
    known = tuple(label for label in finding.labels if not label.span.is_unknown)
    return finding if len(known) == len(finding.labels) else dataclasses.replace(finding, labels=known)


def _parameters(finding: Finding) -> set[str]:
    """Return the parameters that the run has seen in a finding."""
    measured = finding.evidence.measured if finding.evidence is not None else {}
    return {str(name) for name in measured.get("parameters", ())}


def _same(story: Story, left: Finding, right: Finding) -> bool:
    """Return whether two findings are about the same thing in the same place."""
    if left.code != right.code:
        return False
    if story.at(left.span, right.span):
        return True
    if left.code not in (GraphKeptAcrossIterations.code, GrowingChain.code):
        return False
    if _is_confirmed(left) and (same_holder(story, left, right) or same_holder(story, right, left)):
        return True
    marks = [label.span for label in left.labels if label.role in ("kept", "carried")]
    others = [label.span for label in right.labels if label.role in ("kept", "carried")]
    return any(story.at(mark, right.span) for mark in marks) or any(story.at(left.span, mark) for mark in others)


def _explains(story: Story, confirmed: Finding, found: Finding) -> bool:
    """Return whether a confirmed finding already covers a line that the run reports under another rule."""
    if any(story.is_about(raised, confirmed) and story.is_about(raised, found) for raised in story.raised):
        # Two rules speak of a graph that is walked twice: of what is compiled, and of any.
        return True
    if {confirmed.code, found.code} == {BackwardWithoutGraph.code, MissingCreateGraph.code}:
        return story.at(confirmed.span, found.span)
    if confirmed.code == found.code == ScaledGradientRead.code:
        # What reads them first is told of.
        return True
    if confirmed.code == found.code == StaleGradient.code:
        # Of several backward calls that add to the same used gradients one is reported.
        places = (*beside(confirmed.facts), *(at.span for _, at in given_together(story, confirmed)))
        return any(story.at(place, found.span) for place in places)
    if confirmed.code == found.code == GraphKeptAcrossIterations.code:
        return is_made_of(story, found, confirmed)
    return confirmed.code in (GrowingChain.code, CreateGraphCycle.code) and found.code in _KEEPING
