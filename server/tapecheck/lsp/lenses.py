"""What stands above training loops and backward calls: only where something was found, is kept, or was run."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from tapecheck.lsp.calls import Call, Loop, calls, training_loops
from tapecheck.lsp.evidence import Shown
from tapecheck.lsp.outcome import Next, Outcome
from tapecheck.lsp.runs import clock
from tapecheck.lsp.telling import Telling
from tapecheck.rules.create_graph_cycle.rule import CreateGraphCycle
from tapecheck.rules.graph_kept.rule import GraphKeptAcrossIterations
from tapecheck.rules.growing_chain.rule import GrowingChain
from tapecheck.tape import Span

Act = Literal["run", "report"]
_LONGEST = 100
OFFER = "Confirm by running"
_KEEPING = (GraphKeptAcrossIterations.code, GrowingChain.code, CreateGraphCycle.code)


@dataclass(frozen=True, slots=True)
class Lens:
    """A text above a line; a click runs the file, opens the report of its last run, or does what would help."""

    line: int
    title: str
    act: Act = "run"
    next: Next = ""

    @property
    def offers(self) -> bool:
        """Whether a click runs the file."""
        return self.act == "run"


@dataclass(frozen=True, slots=True)
class LastRun:
    """The last run of a file as lenses tell it: `seen` says that something was looked at, and there is a report."""

    outcome: Outcome
    seen: bool
    stale: bool


def loop_lenses(telling: Telling, shown: Sequence[Shown], last: LastRun | None) -> list[Lens]:
    """Return the offer of a run above each loop with findings, and how the last run went above all of them."""
    lenses: list[Lens] = []
    for loop in training_loops(telling):
        if last is not None or any(_concerns(one, loop) for one in shown):
            lenses.append(Lens(loop.line, OFFER))
        if last is not None:
            age = " (before the last edits)" if last.stale else ""
            text = textwrap.shorten(last.outcome.text, _LONGEST, placeholder=" …")
            title = f"run at {clock(last.outcome.at)}: {text}{age}"
            lenses.append(Lens(loop.line, title, "report" if last.seen else "run", last.outcome.next))
    return lenses


def backward_lenses(telling: Telling, shown: Sequence[Shown], offers: Collection[int] = ()) -> list[Lens]:
    """Return what stands above backward calls that fail, keep their graph, or have it kept; once for each line.

    `offers` are the lines of loops above which a run is offered: it is offered once for all that belongs to one.
    """
    covered = {span for loop in training_loops(telling) if loop.line in offers for span in loop.backwards}
    told: dict[int, Lens] = {}
    for call in reported(telling, shown):
        lens = _of_failing(call, shown) if call.fate in ("fails", "may fail") else _of_kept(call, shown)
        if lens is not None:
            if lens.offers and call.span not in covered:
                lens = replace(lens, title=f"{lens.title} · {OFFER}")
            told.setdefault(call.span.line, lens)
    return list(told.values())


def reported(telling: Telling, shown: Sequence[Shown]) -> list[Call]:
    """Return the backward calls of a file without those that fail but for a finding that is not shown.

    A rule may be switched off, or see reasons to be silent: then nothing else says that it fails.
    """
    found = {one.finding.span for one in shown}
    return [call for call in calls(telling) if call.fate not in ("fails", "may fail") or call.span in found]


def _of_failing(call: Call, shown: Sequence[Shown]) -> Lens:
    evidence = [one.finding.evidence for one in shown if one.finding.span == call.span and not one.stale]
    confirmed = next((one for one in evidence if one is not None and one.verdict == "confirmed"), None)
    if confirmed is not None:
        when = f" in iteration {confirmed.iteration}" if confirmed.iteration is not None else ""
        return Lens(call.span.line, f"✓ confirmed: fails{when}", "report")
    # What failed for another reason has no count of runs that went well.
    ran = [one for one in evidence if one is not None]
    if ran and all(one.verdict == "refuted" and "runs" in one.measured for one in ran):
        return Lens(call.span.line, "did not fail when it was run", "report")
    return Lens(call.span.line, call.text)


def hints(telling: Telling, shown: Sequence[Shown]) -> list[tuple[Span, str, str]]:
    """Return what stands behind backward calls: the call, what becomes of its graph, and that in a sentence."""
    found = []
    for call in reported(telling, shown):
        text, told = {"freed": "graph freed", "kept": "graph kept"}.get(call.fate, str(call.fate)), call.text
        if call.fate == "freed" and (keeping := _keeping(call, shown)) and not _refuted(keeping):
            # A graph that somebody holds loses its saved tensors alone.
            text = "saved tensors freed"
            told = told.replace("frees the graph", "frees the saved tensors of the graph")
            told += "; its nodes outlive the iteration"
        found.append((call.span, text, told))
    return found


def _keeping(call: Call, shown: Sequence[Shown]) -> list[Shown]:
    """Return the findings that say of a call's graph that it outlives the iteration."""
    return [one for one in shown if one.finding.code in _KEEPING and _built_by(one, call)]


def _refuted(keeping: Sequence[Shown]) -> bool:
    evidence = [one.finding.evidence for one in keeping if not one.stale]
    return bool(evidence) and all(one is not None and one.verdict == "refuted" for one in evidence)


def _of_kept(call: Call, shown: Sequence[Shown]) -> Lens | None:
    keeping = _keeping(call, shown)
    if keeping:
        evidence = [one.finding.evidence for one in keeping if not one.stale]
        if any(one is not None and one.verdict in ("confirmed", "found-by-run") for one in evidence):
            return Lens(call.span.line, "✓ confirmed: its graph outlives the iteration", "report")
        if _refuted(keeping):
            return Lens(call.span.line, "its graph did not outlive the iteration when it was run", "report")
        return Lens(call.span.line, "its graph outlives the iteration")
    # That a graph is kept for nothing is a finding, too.
    silent = call.needless and not any(one.finding.span == call.span for one in shown)
    kept = call.fate == "kept" and not call.created and not silent
    return Lens(call.span.line, call.text) if kept else None


def _built_by(one: Shown, call: Call) -> bool:
    """Return whether what a finding says is kept was built for a backward, or is kept by that call."""
    places = [one.finding.span, *(label.span for label in one.finding.labels if label.role in ("built", "freed"))]
    return any(_touch(place, own) for place in places for own in (call.span, *call.walked))


def _touch(one: Span, other: Span) -> bool:
    return one.file == other.file and one.line <= other.end_line and other.line <= one.end_line


def _concerns(one: Shown, loop: Loop) -> bool:
    """Return whether a finding is about what a loop does: in its text, or in a call that it makes."""
    spans = [one.finding.span, *(label.span for label in one.finding.labels)]
    return any(loop.line <= span.line <= loop.end and span.file == loop.file for span in spans) or any(
        span in loop.backwards for span in spans
    )
