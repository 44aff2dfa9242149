"""Holds a recorded run against findings: confirmed, refuted, not reached, or found only by the run.

Where a rule speaks of an exception, the exception that was really raised decides. Where it speaks of growth, what
was measured decides. A run that ended early refutes nothing that might still have come.
"""

from __future__ import annotations

import ast
import dataclasses
import textwrap
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Union

from tapecheck.record import ranks
from tapecheck.record.cuts import made_leaf, only_cut
from tapecheck.record.run import Output, Progress, RunRequest, RunResult, run
from tapecheck.rules import ALL, Evidence, Finding, Label, Reading
from tapecheck.rules import judge as judge_tapes
from tapecheck.rules.reading import Run
from tapecheck.rules.words import line, merged
from tapecheck.source import SourceError, read_source
from tapecheck.tape import Bind, End, Hold, Loop, Measure, Node, Raised, Site, Span, Tape

_LONGEST = 240
CONSECUTIVE = 5
"""So many first iterations of a loop are all looked at for held values; the later ones only now and then."""

_MIN_RUNS = 3
_SECOND_TIME = "backward through the graph a second time"
_INPLACE = "modified by an inplace operation"
_NO_GRAPH = "does not require grad"
_UNUSED = "appears to not have been used in the graph"
_LEAF = ("leaf Variable that requires grad", "a leaf variable has been moved into the graph interior")
_RAISING = ("TAPE101", "TAPE102", "TAPE103", "TAPE104")
_SHIFTS = ("AddBackward0", "SubBackward0", "AddcmulBackward0", "AddcdivBackward0")
_NAMES = {rule.code: rule for rule in ALL}


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
    lines = set(request.watch)
    for finding in findings:
        for row in range(finding.span.line, max(finding.span.end_line, finding.span.line) + 1):
            lines.add((finding.span.file, row))
    result = run(dataclasses.replace(request, watch=lines), on_event, cancelled)
    judged = judge(findings, result.tape, directory=request.cwd)
    own = _real(source_path, None)
    return result, [
        finding
        for finding in judged
        if finding.evidence is None
        or finding.evidence.verdict != "found-by-run"
        or _real(finding.span.file, request.cwd) == own
    ]


def judge(static: Sequence[Finding], tape: Tape, *, directory: str | None = None) -> list[Finding]:
    """The findings with what a recorded tape says of each, and those that only the run made.

    Of a tape of several ranks each is asked: what holds on one holds, and the evidence says on which.

    The findings given are left as they are: copies carry the evidence. One on which the run says nothing either
    way has none. `directory` is the working directory of the run, to which names on the tape are relative.
    """
    of_ranks = ranks.parts(tape)
    if of_ranks:
        return ranks.judged(static, of_ranks, lambda findings, part: judge(findings, part, directory=directory))
    story = _Story(tape, directory)
    found = story.findings()
    judged: list[Finding] = []
    for finding in static:
        evidence = _DECIDE[finding.code](story, finding) if finding.code in _DECIDE else None
        judged.append(dataclasses.replace(finding, evidence=evidence))
    confirmed = [item for item in judged if item.evidence is not None and item.evidence.verdict == "confirmed"]
    for finding in found:
        if not any(story.same(item, finding) for item in judged) and not any(
            story.explains(item, finding) for item in confirmed
        ):
            judged.append(finding)
    return judged


def _real(file: str, directory: str | None) -> str:
    return str((Path(directory or ".") / file).resolve())


@dataclass(slots=True)
class _Sample:
    """What a holder, or all live objects together, kept after one iteration."""

    index: int
    nodes: int
    size: int = 0


@dataclass(slots=True)
class _Series:
    """Samples of one run of a loop."""

    loop: int
    holder: str
    at: Site
    samples: list[_Sample] = field(default_factory=list)

    @property
    def grows(self) -> bool:
        """Whether more is kept at every sample; the first iteration may set things up and does not count."""
        counts = self._later
        return len(counts) >= 2 and all(a < b for a, b in zip(counts, counts[1:], strict=False))

    @property
    def flat(self) -> bool:
        counts = self._later
        return len(counts) >= 2 and max(counts) == min(counts)

    @property
    def _later(self) -> list[int]:
        return [sample.nodes for sample in self.samples if sample.index > 1]

    def text(self, what: str = "nodes") -> str:
        return ", ".join(str(getattr(sample, what)) for sample in self.samples[:5])

    def measured(self) -> dict[str, Any]:
        return {
            "iterations": [sample.index for sample in self.samples],
            "nodes": [sample.nodes for sample in self.samples],
            "saved_bytes": [sample.size for sample in self.samples],
        }


class _Story:
    """A recorded tape with the indexes that verdicts ask for."""

    def __init__(self, tape: Tape, directory: str | None) -> None:
        self.tape = tape
        self.directory = directory
        self._files: dict[str, str] = {}
        self.view = Tape(tape.producer, [event for event in tape.events if not self._sparse(event)])
        self.reading = Reading(self.view)
        self.raised = [event for event in tape.events if isinstance(event, Raised)]
        # A name is bound by a few statements, again and again: one event of each will do.
        self.binds = list({(b.name, b.at.span): b for b in tape.events if isinstance(b, Bind)}.values())
        self.hits: dict[tuple[str, int], int] = {}
        self.loops: dict[tuple[str, int], set[int]] = {}
        self.held: dict[tuple[int, str, str, int], _Series] = {}
        self.live: dict[int, _Series] = {}
        self.without_gradient: dict[int, int] = {}
        self.passed = False
        hold: Hold | None = None
        for event in tape.events:
            if isinstance(event, Hold):
                hold = event
                key = (event.loop, event.holder, self.file(event.at.file), event.at.line)
                series = self.held.setdefault(key, _Series(event.loop, event.holder, event.at))
                series.samples.append(_Sample(event.index, 0))
            elif isinstance(event, Measure):
                self._measure(event, hold)
        last = tape.events[-1] if tape.events else None
        self.end = last if isinstance(last, End) else End("stopped")
        self.by_file: dict[str, list[Run]] = {}
        for item in self.reading.runs:
            self.by_file.setdefault(self.file(item.at.file), []).append(item)

    def _sparse(self, event: Any) -> bool:
        return isinstance(event, Hold) and event.index > CONSECUTIVE

    def _measure(self, event: Measure, hold: Hold | None) -> None:
        name, _, about = event.name.partition(":")
        value = int(event.value)
        if name == "line-hits":
            key = (self.file(event.at.file), event.at.line)
            self.hits[key] = max(self.hits.get(key, 0), value)
            self.loops.setdefault(key, set()).update(loop for loop, _ in event.at.iteration)
        elif name in ("held-nodes", "held-bytes") and hold is not None and hold.holder == about:
            series = self.held[(hold.loop, hold.holder, self.file(hold.at.file), hold.at.line)]
            if name == "held-nodes":
                series.samples[-1].nodes = value
            else:
                series.samples[-1].size = value
        elif name in ("live-nodes", "live-saved-bytes") and event.at.iteration:
            loop, index = event.at.iteration[-1]
            series = self.live.setdefault(loop, _Series(loop, "", event.at))
            if name == "live-nodes":
                series.samples.append(_Sample(index, value))
            elif series.samples:
                series.samples[-1].size = value
        elif name == "passed-calls":
            self.passed = value > 0
        elif name == "never-a-gradient" and about.isdigit():
            self.without_gradient[int(about)] = value

    # Places

    def file(self, name: str) -> str:
        real = self._files.get(name)
        if real is None:
            real = self._files[name] = _real(name, self.directory)
        return real

    def at(self, span: Span, site: Span) -> bool:
        """Whether something happened in the rows of a span."""
        return (
            self.file(span.file) == self.file(site.file)
            and span.line <= site.end_line
            and site.line <= max(span.end_line, span.line)
        )

    def runs_at(self, span: Span) -> list[Run]:
        return [item for item in self.by_file.get(self.file(span.file), ()) if self.at(span, item.at.span)]

    def count(self, span: Span) -> int:
        """How often the code of a span ran."""
        file = self.file(span.file)
        rows = range(span.line, max(span.end_line, span.line) + 1)
        # A call over several rows comes back to its first one: the row that ran least tells how often.
        counted = min((hits for row in rows if (hits := self.hits.get((file, row), 0))), default=0)
        return max(counted, len(self.runs_at(span)))

    def loops_of(self, span: Span) -> set[int]:
        """The runs of loops within which the code of a span ran, as far as that was seen."""
        file = self.file(span.file)
        return {loop for row in range(span.line, span.end_line + 1) for loop in self.loops.get((file, row), ())}

    def bound(self, series: _Series) -> list[Span]:
        """The statements that bound the name of a holder within its loop."""
        return [bind.at.span for bind in self.binds if bind.name == series.holder]

    def problem_of(self, raised: Raised) -> Run | None:
        return self.reading.run_of.get(raised.backward) if raised.backward is not None else None

    def same(self, left: Finding, right: Finding) -> bool:
        """Whether two findings tell of the same thing in the same place."""
        if left.code != right.code:
            return False
        if self.at(left.span, right.span):
            return True
        if left.code not in ("TAPE201", "TAPE202"):
            return False
        marks = [label.span for label in left.labels if label.role in ("kept", "carried")]
        others = [label.span for label in right.labels if label.role in ("kept", "carried")]
        return any(self.at(mark, right.span) for mark in marks) or any(self.at(left.span, mark) for mark in others)

    def explains(self, confirmed: Finding, found: Finding) -> bool:
        """Whether a confirmed finding already tells of a line that the run complains of under another name."""
        if {confirmed.code, found.code} == {"TAPE103", "TAPE401"}:
            return self.at(confirmed.span, found.span)
        return confirmed.code in ("TAPE202", "TAPE203") and found.code in ("TAPE201", "TAPE202", "TAPE203")

    @property
    def whole(self) -> bool:
        """Whether the program ran to its own end, by itself or by an exception of its own."""
        return self.end.how == "finished"

    # What the run found

    def findings(self) -> list[Finding]:
        """What the rules and the exceptions of the run say, marked as found by it."""
        found = []
        for finding in judge_tapes([self.view]):
            if finding.code in _RAISING or finding.severity == "error":
                about = [raised for raised in self.raised if self._is_about(raised, finding)]
                if not about or (finding.code == "TAPE103" and any(map(self._gradient_without_graph, about))):
                    continue
            if finding.code == "TAPE301" and finding.facts.get("call") == "grad":
                # The run does not see what becomes of the gradient: `create_graph=True` may have been meant.
                continue
            if finding.code == "TAPE201" and not finding.facts.get("backwarded") and self._detached(finding):
                continue
            evidence = _DECIDE[finding.code](self, finding)
            if finding.code not in _RAISING and (evidence is None or evidence.verdict != "confirmed"):
                continue
            detail = evidence.detail if evidence is not None else "seen in the recorded run"
            measured = evidence.measured if evidence is not None else {}
            when = evidence.iteration if evidence is not None else None
            finding.evidence = Evidence("found-by-run", detail, when, measured)
            found.append(finding)
        for raised in self.raised:
            if not any(self._is_about(raised, finding) for finding in found):
                made = self._from_exception(raised)
                if made is not None:
                    found.append(made)
        starved = self._starved()
        return merged([*found, starved] if starved is not None else found)

    def _starved(self) -> Finding | None:
        """Parameters that an optimizer stepped and that never had a gradient, where one place can have cut it off."""
        leaves = self.reading.ledger.leaves
        never = [number for number, steps in self.without_gradient.items() if number in leaves and steps >= _MIN_RUNS]
        if not self.whole or not never:
            return None
        names = [leaves[number].name or f"parameter {number}" for number in never]
        shown = ", ".join(f"`{name}`" for name in names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
        place, message = self._from_leaf(), f"{shown} never had a gradient: nothing leads back from this new leaf"
        advice = "leave the `requires_grad` out: it hides the error and trains nothing; mend what cut the graph before"
        if place is None:
            files = {event.at.file for event in self.tape.events if isinstance(event, (Node, Loop))}
            place = only_cut([(file, self.file(file)) for file in sorted(files)], names)
            message = f"{shown} never had a gradient: the graph may be cut here, the one place of the program that can"
            advice = "leave the cut out, or do not give these parameters to the optimizer"
        if place is None:
            return None
        steps = max(self.without_gradient[number] for number in never)
        return Finding(
            "TAPE402", _NAMES["TAPE402"].name, "warning", place, message,
            advice,
            tuple(
                Label(event.at.span, f"this optimizer steps {'it' if len(never) == 1 else 'them'}", "optimizer")
                for event in self.reading.optimizers.values() if set(event.params) & set(never)
            ),
            certain=False, facts={"parameters": names},
            evidence=Evidence(
                "found-by-run", f"{shown} never had a gradient in {_steps(steps)}", None,
                {"parameters": names, "steps": steps},
            ),
        )  # fmt: skip

    def _from_leaf(self) -> Span | None:
        """Where the root of every backward was made a leaf of its own, so that none leads to a parameter."""
        leaves = self.reading.ledger.leaves
        places: set[Span | None] = set()
        for item in self.reading.runs:
            for root in item.backward.roots:
                leaf = leaves.get(root.node) if root.node is not None else None
                if leaf is None or leaf.parameter:
                    return None
                file = item.at.file
                places.add(made_leaf(self.file(file), root.name, file))
        return places.pop() if len(places) == 1 else None

    def _detached(self, finding: Finding) -> bool:
        """Whether the file detaches what the holder keeps: the run does not see a value used as a constant later."""
        name = _last_name(str(finding.facts.get("holder", "")))
        try:
            tree = read_source(self.file(finding.span.file)).tree
        except SourceError:
            return False
        return any(
            isinstance(node, ast.Attribute)
            and node.attr in ("detach", "data")
            and any(
                name == getattr(inner, "id", getattr(inner, "attr", None))
                for inner in ast.walk(node.value)
                if isinstance(inner, (ast.Name, ast.Attribute))
            )
            for node in ast.walk(tree)
        )

    def _is_about(self, raised: Raised, finding: Finding) -> bool:
        return self.at(finding.span, raised.at.span) and finding.code in self.codes(raised)

    def codes(self, raised: Raised) -> tuple[str, ...]:
        """The rules that speak of an exception."""
        text = raised.message
        if raised.exception != "RuntimeError":
            return ()
        if _SECOND_TIME in text:
            return ("TAPE101",)
        if _INPLACE in text:
            return ("TAPE102",)
        if any(part in text for part in _LEAF):
            return ("TAPE104",)
        if raised.backward is not None and (_NO_GRAPH in text or _UNUSED in text):
            return ("TAPE103", "TAPE401")
        return ()

    def _from_exception(self, raised: Raised) -> Finding | None:
        codes = self.codes(raised)
        if codes and _UNUSED in raised.message:
            return self._from_unused(raised)
        if not codes:
            return None
        code = codes[0]
        failed = self.problem_of(raised)
        taken = self._gradient_without_graph(raised) if code == "TAPE103" else None
        if taken is not None:
            code = "TAPE401"
        rule = _NAMES[code]
        detail = _raised_text(self, raised)
        labels = (*(_without_graph(taken) if taken is not None else ()), *self._labels(raised, failed))
        return Finding(
            code, rule.name, "error", raised.at.span, f"{_FOUND[code]}: {_short(raised.message)}", _HELP[code], labels,
            facts={"from_exception": True},
            evidence=Evidence("found-by-run", detail, _iteration(raised.at)),
        )  # fmt: skip

    def _from_unused(self, raised: Raised) -> Finding | None:
        """An input that the graph does not lead to, where a gradient without graph was taken through it on the way.

        Which is so where the graph has the inputs of that gradient as an inner step leaves them, and only so: each
        with a constant added or taken away.
        """
        failed = self.problem_of(raised)
        if failed is None or failed.backward.inputs is None:
            return None
        ledger = self.reading.ledger
        graph = ledger.ancestry(root.node for root in failed.backward.roots if root.node is not None)
        missing = [number for number in failed.backward.inputs if number not in graph]
        for earlier in reversed(self.reading.runs[: self.reading.runs.index(failed)]):
            backward = earlier.backward
            if backward.call != "grad" or backward.create != "no" or not backward.inputs:
                continue
            behind = ledger.ancestry(root.node for root in backward.roots if root.node is not None)
            through = [number for number in missing if number in behind and number not in backward.inputs]
            if not through or not self._stepped(graph, backward.inputs):
                continue
            leaf = ledger.leaves.get(through[0])
            name = f"`{leaf.name}`" if leaf is not None and leaf.name else "an input"
            root = next((f"`{root.name}`" for root in failed.backward.roots if root.name), "the tensor")
            return Finding(
                "TAPE401", _NAMES["TAPE401"].name, "error", raised.at.span,
                f"{root} does not lead to {name}: the gradient that was taken through it has no graph of its own",
                _HELP["TAPE401"],
                (*_without_graph(earlier), *(Label(place, "called from here", "called") for place in raised.at.stack)),
                facts={"from_exception": True},
                evidence=Evidence("found-by-run", _raised_text(self, raised), _iteration(raised.at)),
            )  # fmt: skip
        return None

    def _stepped(self, graph: Collection[int], inputs: Collection[int]) -> bool:
        """Whether a graph has each of some tensors, and only with something added that has no graph."""
        used: dict[int, bool] = {}
        for number in self.reading.graph_nodes(graph):
            node = self.reading.ledger.nodes[number]
            for source in node.inputs:
                if source in inputs:
                    used[source] = used.get(source, True) and node.op in _SHIFTS and len(node.inputs) == 1
        return len(used) == len(inputs) and all(used.values())

    def _labels(self, raised: Raised, failed: Run | None) -> Iterable[Label]:
        problem = failed.traversal.problem if failed is not None else None
        node = self._failing_node(raised, failed)
        if node is not None:
            yield Label(node.at.span, f"`{node.op}` was built here", "built")
        if problem is not None and problem.freed_by is not None:
            yield Label(problem.freed_by.at.span, "its saved tensors were freed here", "freed")
        if problem is not None and problem.changed_by is not None:
            yield Label(problem.changed_by.at.span, "a tensor it had saved was changed in place here", "changed")
        for caller in raised.at.stack:
            yield Label(caller, "called from here", "called")

    def _failing_node(self, raised: Raised, failed: Run | None) -> Node | None:
        if raised.node is not None:
            return self.reading.ledger.nodes.get(raised.node)
        problem = failed.traversal.problem if failed is not None else None
        return problem.node if problem is not None else None

    def _gradient_without_graph(self, raised: Raised) -> Run | None:
        """The autograd.grad call that a root without graph came from: an earlier one of the same place and name."""
        failed = self.problem_of(raised)
        if failed is None or failed.backward.call != "grad":
            return None
        if not any(root.node is None and root.name for root in failed.backward.roots):
            return None
        return next(
            (
                item for item in reversed(self.reading.runs)
                if item.backward.call == "grad" and item.backward.create == "no" and item.position < failed.position
                and item.at.span == failed.at.span
            ),
            None,
        )  # fmt: skip


def _without_graph(taken: Run) -> Iterable[Label]:
    yield Label(taken.at.span, "not differentiable: taken here without `create_graph=True`", "cut")
    for caller in taken.at.stack:
        yield Label(caller, "called from here", "called")


# Verdicts by rule


def _by_exception(story: _Story, finding: Finding) -> Evidence | None:
    for raised in story.raised:
        if finding.code in story.codes(raised) and story.at(finding.span, raised.at.span):
            return Evidence("confirmed", _raised_text(story, raised), _iteration(raised.at), _raised_measure(raised))
    # The line that raises may lie in a callee of the statement that the finding names, or the other way round.
    for raised in story.raised:
        if finding.code in story.codes(raised) and any(story.at(finding.span, caller) for caller in raised.at.stack):
            return Evidence("confirmed", _raised_text(story, raised), _iteration(raised.at), _raised_measure(raised))
    return _it_did_not_happen(story, finding, "raised nothing")


def _it_did_not_happen(story: _Story, finding: Finding, instead: str) -> Evidence:
    """Refuted where the line ran often enough or the program to its end, else not reached."""
    ran = story.count(finding.span)
    if not ran:
        return _not_reached(story, finding)
    for raised in story.raised:
        if story.at(finding.span, raised.at.span):
            return Evidence("refuted", f"it failed for another reason: {_short(raised.message)}", _iteration(raised.at))
    if story.whole or ran >= _MIN_RUNS:
        return Evidence("refuted", f"the line ran {_times(ran)} and {instead}", None, {"runs": ran})
    return Evidence(
        "not-reached", f"the line ran {_times(ran)} and {instead}, but the run ended early ({_end_text(story)})", None,
        {"runs": ran},
    )  # fmt: skip


def _not_reached(story: _Story, finding: Finding) -> Evidence:
    return Evidence("not-reached", f"line {finding.span.line} did not run ({_end_text(story)})")


def _kept(story: _Story, finding: Finding) -> Evidence | None:
    ran = story.count(finding.span)
    holder = str(finding.facts.get("holder", ""))
    spans = [finding.span, *(label.span for label in finding.labels if label.role in ("kept", "carried"))]
    mine = [
        series
        for series in story.held.values()
        if any(story.at(span, place) for span in spans for place in (series.at.span, *story.bound(series)))
        or (holder and _last_name(series.holder) == _last_name(holder))
    ]
    growing = [series for series in mine if series.grows]
    if growing:
        series = max(growing, key=lambda item: (_last_name(item.holder) == _last_name(holder), len(item.samples)))
        last = series.samples[-1]
        detail = (
            f"`{series.holder}` kept {series.text()} graph nodes after iterations {series.text('index')} "
            f"of the loop on line {_loop_line(story, series.loop)}"
        )
        if len(series.samples) > 5:
            detail += f", {last.nodes} after iteration {last.index}"
        detail += f", and {_bytes(last.size)} of saved tensors" if last.size else ", and no saved tensors"
        return Evidence("confirmed", detail, last.index, series.measured())
    if not ran:
        return _not_reached(story, finding)
    loops = story.loops_of(finding.span)
    levels = [series for loop, series in story.live.items() if loop in loops and len(series.samples) >= 2]
    if levels and all(series.flat for series in levels) and ran >= _MIN_RUNS:
        series = levels[0]
        return Evidence(
            "refuted",
            f"the line ran {_times(ran)} and what is alive stayed the same: {series.text()} graph nodes after "
            f"iterations {series.text('index')}",
            None, {"nodes": [sample.nodes for sample in series.samples]},
        )  # fmt: skip
    return None


def _chain(story: _Story, finding: Finding) -> Evidence | None:
    runs = story.runs_at(finding.span)
    by_loop: dict[int, list[tuple[int, int]]] = {}
    for item in runs:
        for loop, index in item.at.iteration:
            by_loop.setdefault(loop, []).append((index, len(story.reading.graph_nodes(item.traversal.executed))))
    for loop, entries in by_loop.items():
        counts = [count for _, count in entries]
        if len(counts) < _MIN_RUNS or len({index for index, _ in entries}) < len(entries):
            continue
        if all(a < b for a, b in zip(counts, counts[1:], strict=False)):
            shown = ", ".join(map(str, counts[:5])) + (f", … {counts[-1]}" if len(counts) > 5 else "")
            return Evidence(
                "confirmed",
                f"the call walked {shown} graph nodes in iterations {entries[0][0]} to {entries[-1][0]} "
                f"of the loop on line {_loop_line(story, loop)}",
                entries[-1][0], {"nodes": counts},
            )  # fmt: skip
    if not runs:
        return _not_reached(story, finding) if not story.count(finding.span) else None
    for raised in story.raised:
        if story.at(finding.span, raised.at.span):
            return Evidence("refuted", f"the call failed instead: {_short(raised.message)}", _iteration(raised.at))
    if len(runs) >= _MIN_RUNS:
        counts = [len(story.reading.graph_nodes(item.traversal.executed)) for item in runs]
        return Evidence(
            "refuted",
            f"the call ran {_times(len(runs))} and walked {', '.join(map(str, counts[:5]))} graph nodes: no growth",
            None, {"nodes": counts},
        )  # fmt: skip
    return None


def _cycle(story: _Story, finding: Finding) -> Evidence | None:
    runs = [item for item in story.runs_at(finding.span) if item.backward.create == "yes"]
    if not runs:
        return _not_reached(story, finding) if not story.count(finding.span) else None
    loops = {loop for item in runs for loop, _ in item.at.iteration}
    for loop in loops:
        series = story.live.get(loop)
        if series is not None and series.grows and len(series.samples) >= _MIN_RUNS:
            last = series.samples[-1]
            return Evidence(
                "confirmed",
                f"{series.text()} graph nodes were alive after iterations {series.text('index')} "
                f"of the loop on line {_loop_line(story, loop)}",
                last.index, series.measured(),
            )  # fmt: skip
    inner = {item.at.iteration[-1][0] for item in runs if item.at.iteration}
    flat = [series for loop in inner if (series := story.live.get(loop)) is not None and series.flat]
    if flat:
        return Evidence("refuted", f"the graph nodes alive after each iteration stayed the same: {flat[0].text()}")
    return None


def _needless(story: _Story, finding: Finding) -> Evidence | None:
    runs = [item for item in story.runs_at(finding.span) if item.backward.retain != "no"]
    if not runs:
        ran = story.runs_at(finding.span)
        if ran:
            return Evidence("refuted", f"the call ran {_times(len(ran))} and retained nothing")
        return _not_reached(story, finding)
    ids = {item.backward.id for item in runs}
    for later in story.reading.runs:
        again = [node for node, earlier in later.traversal.retraversed.items() if ids & set(earlier)]
        if again:
            place = f"line {later.at.line}" + (" (this same call)" if story.at(finding.span, later.at.span) else "")
            return Evidence(
                "refuted", f"the retained graph was needed: the call on {place} walked {len(again)} of its nodes again",
                _iteration(later.at), {"nodes": len(again)},
            )  # fmt: skip
    if any(raised.backward in ids for raised in story.raised):
        return None
    if story.whole or (len(runs) >= _MIN_RUNS and story.end.how == "stopped"):
        held = sum(1 for node in runs[-1].traversal.executed if story.reading.ledger.nodes.get(node) is not None)
        return Evidence(
            "confirmed",
            f"{_ran(story, finding, runs)} and no later call walked a node with saved tensors of the graph it retained "
            f"({held} nodes each time)",
            None, {"runs": len(runs), "nodes": held},
        )  # fmt: skip
    return None


def _ran(story: _Story, finding: Finding, runs: Sequence[Run]) -> str:
    """How often a call ran; most calls of a long run are not on the tape, so that its line tells more."""
    counted = story.count(finding.span)
    if counted > len(runs):
        return f"the line ran {_times(counted)}"
    return f"the call ran {_times(len(runs))}" + (" or more" if story.passed and not story.hits else "")


def _missing_create(story: _Story, finding: Finding) -> Evidence | None:
    for raised in story.raised:
        if "TAPE401" in story.codes(raised) and story.at(finding.span, raised.at.span):
            return Evidence("confirmed", _raised_text(story, raised), _iteration(raised.at), _raised_measure(raised))
    ran = story.count(finding.span)
    if not ran:
        return _not_reached(story, finding)
    if finding.severity == "error" or finding.facts.get("kind") == "raises":
        return _it_did_not_happen(story, finding, "raised nothing")
    places = [label.span for label in finding.labels if label.role == "cut"]
    grads = [
        item for item in story.reading.runs if not places or any(story.at(place, item.at.span) for place in places)
    ]
    taken = [item for item in grads if item.backward.call == "grad" or places]
    without = [item for item in taken if item.backward.create == "no"]
    if without and any(item.backward.accumulates for item in story.reading.runs):
        lines = ", ".join(sorted({str(item.at.line) for item in without}))
        return Evidence(
            "confirmed",
            f"the gradient that it uses (line {lines}) was taken {_times(len(without))} and never had a graph",
            _iteration(without[0].at), {"runs": ran},
        )  # fmt: skip
    if taken:
        return Evidence("refuted", "the gradient was taken with `create_graph=True` each time")
    return None


def _cut(story: _Story, finding: Finding) -> Evidence | None:
    ran = story.count(finding.span)
    if not ran:
        return _not_reached(story, finding)
    named = {str(name) for name in finding.facts.get("parameters", ()) or ()}
    leaves = story.reading.ledger.leaves
    never = {number: steps for number, steps in story.without_gradient.items() if number in leaves}
    if not story.whole and not never:
        never = _never_reached(story)
    if named:
        mine = {n: s for n, s in never.items() if any(_matches(leaves[n].name, name) for name in named)}
        never = mine or never
    if never:
        names = [leaves[number].name or f"parameter {number}" for number in never]
        shown = ", ".join(f"`{name}`" for name in names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
        steps = max(never.values())
        return Evidence(
            "confirmed", f"{shown} never had a gradient in {_steps(steps)}", None,
            {"parameters": names, "steps": steps},
        )  # fmt: skip
    if story.reading.steps and len(story.reading.steps) >= 2:
        return Evidence(
            "refuted",
            "every parameter of every optimizer had a gradient in some step of it",
        )
    return None


def _never_reached(story: _Story) -> dict[int, int]:
    reached = {number for item in story.reading.runs if item.backward.accumulates for number in item.traversal.executed}
    stepped: dict[int, int] = {}
    for _, step in story.reading.steps:
        optimizer = story.reading.optimizers.get(step.optimizer)
        for leaf in optimizer.params if optimizer is not None else ():
            stepped[leaf] = stepped.get(leaf, 0) + 1
    return {leaf: steps for leaf, steps in stepped.items() if leaf not in reached and steps >= 2}


_DECIDE: dict[str, Callable[[_Story, Finding], Evidence | None]] = {
    **dict.fromkeys(_RAISING, _by_exception),
    "TAPE201": _kept,
    "TAPE202": _chain,
    "TAPE203": _cycle,
    "TAPE301": _needless,
    "TAPE401": _missing_create,
    "TAPE402": _cut,
}

_FOUND = {
    "TAPE101": "this backward reached nodes whose saved tensors had been freed",
    "TAPE102": "this backward needed a saved tensor that had been changed in place",
    "TAPE103": "the tensor to differentiate has no graph",
    "TAPE104": "a leaf that requires grad was changed in place",
    "TAPE401": "the tensor to differentiate is a gradient that has no graph of its own",
}

_HELP = {
    "TAPE101": "detach what is carried over from the earlier backward, or sum the losses and call backward once",
    "TAPE102": "make the change after the backward that needs the old value, or change a copy",
    "TAPE103": "leave out the `.detach()`, `.data`, `.item()` or `no_grad` on the way to this tensor",
    "TAPE104": "make the change under `torch.no_grad()`",
    "TAPE401": "pass `create_graph=True` to the `autograd.grad` call that made it",
}


# Words


def _raised_text(story: _Story, raised: Raised) -> str:
    failed = story.problem_of(raised)
    problem = failed.traversal.problem if failed is not None else None
    node = story._failing_node(raised, failed)
    index, home = _iteration(raised.at), raised.at.span
    text = "raised" + (f" in iteration {index}" if index is not None else "") + (
        " and caught" if raised.caught and not raised.left else ""
    )
    text += f": {_short(raised.message)}"
    if node is not None:
        text += f"; `{node.op}` was built on {line(node.at.span, home)}"
        built = dict(node.at.iteration).get(raised.at.iteration[-1][0]) if raised.at.iteration else None
        if built is not None and built != index:
            text += f" in iteration {built}"
    if problem is not None and problem.freed_by is not None:
        text += f" and freed by the call on {line(problem.freed_by.at.span, home)}"
    if problem is not None and problem.changed_by is not None:
        text += f"; what it saved was changed on {line(problem.changed_by.at.span, home)}"
    return text


def _raised_measure(raised: Raised) -> dict[str, Any]:
    return {"exception": raised.exception, "message": raised.message, "caught": raised.caught}


def _short(message: str) -> str:
    first = message.split("\n")[0]
    end = first.find(" (or directly access")
    if end < 0:
        end = first.find(". ")
    if 0 < end <= _LONGEST:
        return first[:end]
    return first if len(first) <= _LONGEST else textwrap.shorten(first, _LONGEST, placeholder=" ...")


def _iteration(site: Site) -> int | None:
    return site.iteration[-1][1] if site.iteration else None


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _steps(count: int) -> str:
    return "the one step of its optimizer" if count == 1 else f"{count} steps of its optimizer"


def _bytes(size: int) -> str:
    if size < 10_000:
        return f"{size} bytes"
    return f"{size / 1e6:.1f} MB" if size >= 1_000_000 else f"{size / 1e3:.0f} kB"


def _end_text(story: _Story) -> str:
    if story.end.how == "finished":
        return "the program ran to its end"
    return _short(story.end.detail) if story.end.detail else "the run was stopped"


def _loop_line(story: _Story, loop: int) -> str:
    run_of_loop = story.reading.loops.get(loop)
    event: Loop | None = run_of_loop.event if run_of_loop is not None else None
    return str(event.at.line) if event is not None else "?"


def _last_name(name: str) -> str:
    return name.replace("[", ".").split(".")[-1].strip("]'\"")


def _matches(recorded: str, predicted: str) -> bool:
    """Whether two names of a parameter agree from the right: `model.fc.weight` and `self.fc.weight`."""
    left, right = recorded.split(".")[::-1], predicted.split(".")[::-1]
    common = 0
    for a, b in zip(left, right, strict=False):
        if a != b:
            break
        common += 1
    return common >= min(2, len(left), len(right))
