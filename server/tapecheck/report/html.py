"""A recorded run as one HTML page that needs nothing else: timeline, graph by source line, findings with evidence.

The page holds data, and a script of its own draws it. Graphs are summed up by source line and stored once for each
shape, so that the page of a long run stays small.
"""

from __future__ import annotations

import collections
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tapecheck.report.checked import Checked
from tapecheck.report.drawn import Alive, Call, Data, File, Group, Held, Rank, Row, Shape
from tapecheck.report.excerpt import Sources
from tapecheck.report.peak import KINDS, moments_of, peak_of
from tapecheck.report.text import edited_lines
from tapecheck.rules import Reading
from tapecheck.rules.finding import Finding
from tapecheck.rules.graph_kept.facts import GraphKeptFacts
from tapecheck.rules.graph_kept.rule import GraphKeptAcrossIterations
from tapecheck.rules.reading import Held as Kept
from tapecheck.rules.reading import Run as BackwardRun
from tapecheck.source import Source
from tapecheck.tape import Backward, End, Ledger, Loop, LoopEnd, Measure, Node, Raised, Span, Started, Tape
from tapecheck.tape.ranks import STEP, parts

if TYPE_CHECKING:
    from tapecheck.fixes import Fix

_TEMPLATE = Path(__file__).with_name("page.html")
_DATA = "/*DATA*/"
_MAX_CALLS = 20_000
_SHAPES_FIRST, _MAX_SHAPES, _MAX_SHAPE_NODES = 200, 600, 5_000_000
_MAX_SITES = 16
_MAX_GROUPS = 400
_MAX_SOURCE_LINES = 20_000
_MAX_KEPT_NODES, _MAX_KEPT_STEPS, _MAX_KEPT_GROUPS = 20_000, 5, 6


@dataclass(frozen=True, slots=True)
class Run:
    """What a page shows: findings with their evidence, the tape of the run, the program, how it ended."""

    checked: Checked
    tape: Tape
    source: Source | None = None
    ending: str = ""


def render(run: Run) -> str:
    """Return the whole page."""
    data = json.dumps(data_of(run), separators=(",", ":"), ensure_ascii=False)
    # Nothing within the data may end the element it stands in, or begin a comment.
    safe = data.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    return _TEMPLATE.read_text(encoding="utf-8").replace(_DATA, safe)


def data_of(run: Run) -> Data:
    """Return what a page or a picture shows of a run: calls, graphs by source line, findings, sources."""
    files = _Files(run)
    shapes = _Shapes(files)
    tapes = parts(run.tape) or {0: run.tape}
    readings = {rank: Reading(tape) for rank, tape in tapes.items()}
    # Findings first: their files are the first to be shown.
    findings = [
        _finding(run, index, finding, files, list(readings.values()))
        for index, finding in enumerate(run.checked.findings)
    ]
    started = next((event for event in run.tape.events if isinstance(event, Started)), None)
    end = run.tape.events[-1] if run.tape.events else None
    return {
        "title": Path(run.checked.path).name,
        "ending": run.ending,
        "about": {"command": started.command, "versions": started.versions, "time": started.time} if started else {},
        "cut": isinstance(end, End) and end.how == "stopped",
        "findings": findings,
        "problems": [problem.message for problem in run.checked.problems],
        "ranks": [_rank(rank, reading, files, shapes) for rank, reading in readings.items()],
        "shapes": shapes.found,
        "files": files.texts(),
    }


def curve_of(tape: Tape) -> tuple[str, list[tuple[int, int]]]:
    """Return what was left after iterations, bytes or nodes, by the number of the backward call before; of the first
    rank.
    """
    reading = Reading(next(iter(parts(tape).values()), tape))
    lines = {event.id: event.at.line for event in reading.tape.events if isinstance(event, Loop)}
    moments = [one for one in moments_of(reading.tape) if one.moment == "iteration"]
    left = [(one.call, sum(one.kinds.get(kind, 0) for kind in KINDS)) for one in moments]
    return ("bytes", left) if left else ("nodes", [(one["call"], one["nodes"]) for one in _alive(reading, lines)])


def _rank(rank: int, reading: Reading, files: _Files, shapes: _Shapes) -> Rank:
    """Return the timeline of one process: its backward calls, what was alive, parameters without a gradient."""
    tape = reading.tape
    lines = {event.id: event.at.line for event in tape.events if isinstance(event, Loop)}
    calls = _calls(reading, files, shapes, lines)
    passed = max(
        (int(event.value) for event in tape.events if isinstance(event, Measure) and event.name == "passed-calls"),
        default=0,
    )
    return {
        "rank": rank,
        "calls": calls,
        "total": max([passed + sum(not run.backward.succeeded for run in reading.runs), *(c["number"] for c in calls)]),
        "alive": _alive(reading, lines),
        "held": _held(reading, lines, files),
        "untrained": _untrained(reading, files),
    }


def _calls(reading: Reading, files: _Files, shapes: _Shapes, lines: dict[int, int]) -> list[Call]:
    """Return the backward calls of a process, of very many the first and the last; `lines` are those of loops."""
    half = _MAX_CALLS // 2
    shown = reading.runs if len(reading.runs) <= _MAX_CALLS else reading.runs[:half] + reading.runs[-half:]
    raised = {event.backward: event for event in reading.tape.events if isinstance(event, Raised)}
    device = _device_times(reading.tape)
    nodes = reading.ledger.nodes
    calls: list[Call] = []
    for number, item in enumerate(shown):
        backward, traversal = item.backward, item.traversal
        keeping = sum(node in nodes and nodes[node].keeps != "no" for node in traversal.executed)
        retained = backward.retain == "yes"
        call: Call = {
            "number": backward.id % STEP,
            "at": files.place(backward.at.span),
            "call": backward.call,
            "when": [(lines.get(loop, 0), index) for loop, index in backward.at.iteration],
            "nodes": len(reading.graph_nodes(traversal.executed)),
            "freed": 0 if retained else keeping,
            "kept": keeping if retained else 0,
            "reused": len(traversal.retraversed),
            "create": backward.create == "yes",
            "raised": raised[backward.id].message if backward.id in raised else None,
            "shape": shapes.of(reading, item, number, len(shown)),
        }
        if backward.thread:
            call["thread"] = backward.thread
        if backward.at.iteration and backward.at.iteration[-1] in device:
            call["device"] = round(device[backward.at.iteration[-1]], 3)
        calls.append(call)
    return calls


class _Files:
    """The files that a page speaks of, numbered."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.names: dict[str, int] = {}
        self.sources = Sources(dict(run.checked.texts))
        if run.source is not None:
            self.sources.texts[run.checked.path] = run.source.lines

    def number(self, file: str) -> int:
        return self.names.setdefault(file, len(self.names))

    def place(self, span: Span) -> list[int]:
        return [self.number(span.file), span.line, span.column, span.end_line, span.end_column]

    def lines(self, name: str) -> list[str]:
        return self.sources.lines(name)

    def texts(self) -> list[File]:
        found: list[File] = []
        for name in self.names:
            text = self.lines(name)
            path = str(Path(name).resolve())
            found.append({"name": name, "path": path, "lines": text[:_MAX_SOURCE_LINES], "cells": self._cells(name)})
        return found

    def _cells(self, name: str) -> list[tuple[int, int]]:
        source = self.run.source
        if source is None or source.cells is None or name != self.run.checked.path:
            return []
        return [(cell.first, cell.number) for cell in source.cells.parts]


class _Shapes:
    """Graphs by source line; calls whose graphs look the same share one."""

    def __init__(self, files: _Files) -> None:
        self.files = files
        self.found: list[Shape] = []
        self._numbers: dict[str, int] = {}
        self._work = 0

    def of(self, reading: Reading, item: BackwardRun, number: int, count: int) -> int | None:
        """Return the number of a call's shape; None where so many calls have theirs that this one is left out."""
        every = max(1, count // _SHAPES_FIRST)
        special = item.problem is not None or bool(item.traversal.retraversed)
        if number >= _SHAPES_FIRST and number % every and not special and number != count - 1:
            return None
        self._work += len(item.executed)
        if self._work > _MAX_SHAPE_NODES or len(self.found) >= _MAX_SHAPES:
            return None
        shape = self._shape(reading, item)
        key = json.dumps(shape)
        if key not in self._numbers:
            self._numbers[key] = len(self.found)
            self.found.append(shape)
        return self._numbers[key]

    def _shape(self, reading: Reading, item: BackwardRun) -> Shape:
        ledger = reading.ledger
        traversal, problem = item.traversal, item.problem
        numbers = set(traversal.executed)
        if problem is not None and problem.node is not None:
            numbers.add(problem.node.id)
        nodes = [ledger.nodes[number] for number in sorted(numbers) if number in ledger.nodes]
        lines = _by_line(nodes)
        group_of = {node.id: group for group, built in enumerate(lines) for node in built}
        edges, leaves = _edges(ledger, nodes, group_of)
        # A file that has nothing else to show does not come into the page for the calls.
        places = [self.files.place(built[0].at.span) for built in lines]
        groups = [self._group(at, built, item, leaves[n]) for n, (at, built) in enumerate(zip(places, lines))]
        if problem is not None and problem.node is not None and problem.node.id in group_of:
            groups[group_of[problem.node.id]]["state"] = "stale" if problem.kind == "stale" else "gone"
        return {"groups": groups, "edges": [(*pair, count) for pair, count in sorted(edges.items())]}

    def _group(self, at: list[int], built: list[Node], item: BackwardRun, leaves: set[str]) -> Group:
        """Return the nodes that one line built."""
        reused = any(node.id in item.traversal.retraversed for node in built)
        keeps = any(node.keeps != "no" for node in built)
        state = "reused" if reused else "" if not keeps else "kept" if item.backward.retain == "yes" else "freed"
        calls = dict.fromkeys(span for node in built for span in node.at.stack if span.file in self.files.names)
        return {
            "at": at,
            "calls": [self.files.place(span) for span in [*calls][:_MAX_SITES]],
            "nodes": len(built),
            "saved": sum(len(node.saved) for node in built),
            "state": state,
            "ops": collections.Counter(node.op for node in built).most_common(6),
            "leaves": sorted(leaves)[:8],
        }


def _by_line(nodes: Iterable[Node]) -> list[list[Node]]:
    """Return nodes by the line that built them, for as many lines as a graph shows."""
    lines: dict[tuple[str, int], list[Node]] = {}
    for node in nodes:
        place = (node.at.file, node.at.line)
        if place in lines or len(lines) < _MAX_GROUPS:
            lines.setdefault(place, []).append(node)
    return [*lines.values()]


def _edges(
    ledger: Ledger, nodes: Iterable[Node], group_of: dict[int, int]
) -> tuple[collections.Counter[tuple[int, int]], dict[int, set[str]]]:
    """Return how many nodes lead from group to group, and the names of the leaves that each group uses."""
    edges: collections.Counter[tuple[int, int]] = collections.Counter()
    leaves: dict[int, set[str]] = collections.defaultdict(set)
    for target, source in ((group_of[node.id], one) for node in nodes if node.id in group_of for one in node.inputs):
        if group_of.get(source, target) != target:
            edges[group_of[source], target] += 1
        elif source not in group_of and source in ledger.leaves:
            leaves[target].add(ledger.leaves[source].name or "a leaf")
    return edges, leaves


def _alive(reading: Reading, lines: dict[int, int]) -> list[Alive]:
    """Return how many nodes were alive after iterations, each with the number of the last backward call before it."""
    found: list[tuple[int, Alive]] = []
    known: dict[int, list[tuple[int, int]]] = {}
    last = 0
    for event in reading.tape.events:
        if isinstance(event, Backward):
            last = max(last, event.id % STEP)
            if event.at.iteration:
                loop, index = event.at.iteration[-1]
                known.setdefault(loop, []).append((index, event.id % STEP))
        elif isinstance(event, Measure) and event.at.iteration:
            loop, index = event.at.iteration[-1]
            value = int(event.value)
            if event.name == "live-nodes":
                found.append((loop, {"call": last, "loop": lines.get(loop, 0), "index": index, "nodes": value}))
            elif event.name in ("live-saved-bytes", "cuda-memory") and found:
                found[-1][1]["bytes" if event.name == "live-saved-bytes" else "device"] = value
    for loop, entry in found:
        entry["call"] = _call_at(known.get(loop, []), entry["index"], entry["call"])
    return [entry for _, entry in found]


def _call_at(known: list[tuple[int, int]], index: int, otherwise: int) -> int:
    """Return the number of the last call of an iteration, of whose loop some iterations' calls are known."""
    before = max((pair for pair in known if pair[0] <= index), default=None)
    after = min((pair for pair in known if pair[0] > index), default=None)
    if before is None or before[0] == index:
        return before[1] if before is not None else otherwise
    if after is None:
        first = min(known)
        after = before
        before = first
    if after[0] == before[0]:
        return max(after[1] + index - after[0], otherwise)
    return round(before[1] + (index - before[0]) * (after[1] - before[1]) / (after[0] - before[0]))


def _held(reading: Reading, lines: dict[int, int], files: _Files) -> list[Held]:
    """Return bytes by kind at moments of the run, each with the lines whose graphs hold most of them."""
    moments = moments_of(reading.tape)
    peak = peak_of(moments)
    found: list[Held] = []
    for moment in moments:
        held: Held = {
            "moment": moment.moment,
            "call": moment.call,
            "at": files.place(moment.at.span),
            "when": [(lines.get(loop, 0), index) for loop, index in moment.at.iteration],
            "lines": [(files.place(site.span), size) for site, size in moment.lines],
            "saved_lines": [(files.place(site.span), size) for site, size in moment.saved],
            "peak": moment is peak,
        }
        for kind in KINDS:
            if kind in moment.kinds:
                held[kind] = moment.kinds[kind]
        found.append(held)
    return found


def _untrained(reading: Reading, files: _Files) -> list[Row]:
    """Return the parameters that an optimizer stepped and that never had a gradient."""
    return [
        {"name": leaf.name or "a parameter", "at": files.place(leaf.at.span), "steps": int(event.value)}
        for event in reading.tape.events
        if isinstance(event, Measure) and event.name.startswith("never-a-gradient:")
        for leaf in (reading.ledger.leaves.get(int(event.name.partition(":")[2])),)
        if leaf is not None
    ]


@dataclass(slots=True)
class _Part:
    """The nodes of a kept graph that one line built in one iteration; `stored` of one that the holder refers to."""

    at: Span
    nodes: int = 0
    saved: int = 0
    stored: bool = False
    last: int = 0

    def add(self, node: Node, *, stored: bool) -> None:
        self.nodes += 1
        self.saved += len(node.saved)
        self.stored = self.stored or stored
        self.last = node.id


def _kept_with(ledger: Ledger, numbers: Iterable[int]) -> tuple[set[int], bool]:
    """Return the nodes that some others keep, with these, and whether that is all of them."""
    met: set[int] = set()
    stack = [number for number in numbers if number in ledger.nodes]
    while stack and len(met) < _MAX_KEPT_NODES:
        number = stack.pop()
        if number not in met:
            met.add(number)
            stack += [source for source in ledger.nodes[number].inputs if source in ledger.nodes]
    return met, not stack


def _kept(finding: Finding, reading: Reading, files: _Files) -> Row | None:
    """Return what the holder of a TAPE201 kept at its last look: its graphs, by iteration and source line."""
    held = _holder_of(finding, reading)
    if held is None:
        return None
    numbers = sorted(held.last.nodes)
    ledger = reading.ledger
    met, whole = _kept_with(ledger, numbers)
    steps: dict[int, dict[tuple[str, int], _Part]] = {}
    group_of: dict[int, tuple[int, tuple[str, int]]] = {}
    for number in sorted(met):
        node = ledger.nodes[number]
        index = next((at for loop, at in node.at.iteration if loop == held.loop.id), 0)
        place = (node.at.file, node.at.line)
        steps.setdefault(index, {}).setdefault(place, _Part(node.at.span)).add(node, stored=number in held.last.nodes)
        group_of[number] = (index, place)
    shown = sorted(steps)[-_MAX_KEPT_STEPS:]
    rows, position = [], {}
    for row, index in enumerate(reversed(shown)):
        groups = sorted(steps[index].values(), key=lambda entry: -entry.last)[:_MAX_KEPT_GROUPS]
        for column, entry in enumerate(groups):
            position[index, (entry.at.file, entry.at.line)] = (row, column)
        rows.append({
            "index": index,
            "groups": [{**asdict(entry), "at": files.place(entry.at)} for entry in groups],
            "more": len(steps[index]) - len(groups),
        })  # fmt: skip
    placed = {number: position[group] for number, group in group_of.items() if group in position}
    loop = held.loop.event.id
    ends = (event.iterations for event in reading.tape.events if isinstance(event, LoopEnd) and event.loop == loop)
    return {
        "holder": held.holder, "index": held.last.index, "of": next(ends, 0), "line": held.loop.event.at.line,
        "rows": rows, "edges": _edges_between(placed, ledger), "more": len(steps) - len(shown) if whole else -1,
        "tensors": len(numbers),
    }  # fmt: skip


def _edges_between(placed: dict[int, tuple[int, int]], ledger: Ledger) -> list[tuple[int, int, int, int]]:
    """Return which groups of nodes lead to which others: the row and column of both, given where each node is."""
    return sorted({
        (*own, *placed[source])
        for number, own in placed.items()
        for source in ledger.nodes[number].inputs
        if source in placed and placed[source] != own
    })  # fmt: skip


def _holder_of(finding: Finding, reading: Reading) -> Kept | None:
    """Return what a TAPE201 is about, of several the one that kept the most."""
    name = finding.facts.holder if isinstance(finding.facts, GraphKeptFacts) else ""
    stored = finding.span
    fitting = [
        held for held in reading.held
        if held.holder.rpartition(".")[2] == name.rpartition(".")[2] and same_file(held.last.at.file, stored.file)
        and stored.line <= held.last.at.line <= max(stored.line, stored.end_line)
    ]  # fmt: skip
    return max(fitting, key=lambda one: len(one.last.nodes), default=None)


def same_file(one: str, other: str) -> bool:
    return one == other or Path(one).resolve() == Path(other).resolve()


def _device_times(tape: Tape) -> dict[tuple[int, int], float]:
    """Return milliseconds on the device by loop and iteration: from one event of its stream to another, idle or not."""
    return {
        event.at.iteration[-1]: event.value
        for event in tape.events
        if isinstance(event, Measure) and event.name == "device-time" and event.at.iteration
    }


def _finding(run: Run, index: int, finding: Finding, files: _Files, readings: Sequence[Reading]) -> Row:
    said = finding.evidence
    of_kind = finding.code == GraphKeptAcrossIterations.code
    kept = [_kept(finding, reading, files) for reading in readings if of_kind]
    trial = run.checked.trial_of(index)
    return {
        "code": finding.code,
        "name": finding.name,
        "severity": finding.severity,
        "message": finding.message,
        "notes": list(finding.notes),
        "help": finding.help,
        "url": finding.url,
        "at": files.place(finding.span),
        "labels": [{"at": files.place(label.span), "text": label.message, "role": label.role} for label in
                   finding.labels],
        "verdict": said.verdict if said else None,
        "detail": said.detail if said else "",
        "measured": _plain(said.measured.items()) if said else {},
        "fixes": [{"title": fix.title, "how": fix.applicability, "changes": fix.changes,
                   "diff": _diff(fix, files)} for fix in run.checked.fixes_of(index)],
        "kept": next((one for one in kept if one is not None), None),
        "trial": trial.text() if trial is not None else "",
    }  # fmt: skip


def _diff(fix: Fix, files: _Files) -> list[tuple[str, int, str]]:
    """Return the lines that a fix takes out, puts in and leaves around them: a sign, the line's number and text."""
    rows: list[tuple[str, int, str]] = []
    for file in dict.fromkeys(edit.span.file for edit in fix.edits):
        before = files.lines(file)
        edits = [edit for edit in fix.edits if edit.span.file == file]
        after, groups = edited_lines(before, edits, 1) if before else ([], [])
        for group in groups:
            if rows:
                rows.append(("…", 0, ""))
            for tag, old, old_end, new, new_end in group:
                changed = tag != "equal"
                rows += [("-" if changed else " ", at, line) for at, line in enumerate(before[old:old_end], old + 1)]
                rows += [("+", at, line) for at, line in enumerate(after[new:new_end] if changed else (), new + 1)]
    return rows


def _plain(items: Iterable[tuple[str, object]]) -> Row:
    return {key: value for key, value in items if isinstance(value, (int, float, str, bool, list))}
