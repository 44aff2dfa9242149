"""A recorded run as one HTML page that needs nothing else: timeline, graph by source line, findings with evidence.

The page holds data, and a script of its own draws it. Graphs are summed up by source line and stored once for each
shape, so that the page of a long run stays small.
"""

from __future__ import annotations

import collections
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tapecheck.report.checked import Checked
from tapecheck.report.excerpt import Sources
from tapecheck.rules import Reading
from tapecheck.rules.finding import Finding
from tapecheck.rules.reading import Run as BackwardRun
from tapecheck.source import Source
from tapecheck.tape import Backward, Loop, Measure, Raised, Span, Tape

_TEMPLATE = Path(__file__).with_name("page.html")
_DATA = "/*DATA*/"
_MAX_CALLS = 20_000
_SHAPES_FIRST, _MAX_SHAPES, _MAX_SHAPE_NODES = 200, 600, 5_000_000
_MAX_GROUPS = 400
_MAX_SOURCE_LINES = 20_000


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


def data_of(run: Run) -> dict[str, Any]:
    """Return what a page or a picture shows of a run: calls, graphs by source line, findings, sources."""
    reading = Reading(run.tape)
    files = _Files(run)
    raised = {event.backward: event for event in run.tape.events if isinstance(event, Raised)}
    lines = {event.id: event.at.line for event in run.tape.events if isinstance(event, Loop)}
    shapes = _Shapes(reading, files)
    shown = reading.runs if len(reading.runs) <= _MAX_CALLS else reading.runs[: _MAX_CALLS // 2] + reading.runs[
        -_MAX_CALLS // 2 :
    ]  # fmt: skip
    device = _device_times(run.tape)
    calls: list[dict[str, Any]] = []
    for number, item in enumerate(shown):
        backward, traversal = item.backward, item.traversal
        keeping = sum(
            1
            for node in traversal.executed
            if (event := reading.ledger.nodes.get(node)) is not None and event.keeps != "no"
        )
        calls.append(
            {
                "at": files.place(backward.at.span),
                "call": backward.call,
                "when": [[lines.get(loop, 0), index] for loop, index in backward.at.iteration],
                "nodes": len(reading.graph_nodes(traversal.executed)),
                "freed": 0 if backward.retain == "yes" else keeping,
                "kept": keeping if backward.retain == "yes" else 0,
                "reused": len(traversal.retraversed),
                "create": backward.create == "yes",
                "raised": raised[backward.id].message if backward.id in raised else None,
                "shape": shapes.of(item, number, len(shown)),
            }
        )
        if backward.at.iteration and backward.at.iteration[-1] in device:
            calls[-1]["device"] = round(device[backward.at.iteration[-1]], 3)
    return {
        "title": Path(run.checked.path).name,
        "ending": run.ending,
        "findings": [_finding(run, index, finding, files) for index, finding in enumerate(run.checked.findings)],
        "problems": [problem.message for problem in run.checked.problems],
        "calls": calls,
        "omitted": len(reading.runs) - len(shown),
        "alive": _alive(run.tape, lines),
        "shapes": shapes.found,
        "files": files.texts(),
    }


class _Files:
    """The files that a page speaks of, numbered."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.names: dict[str, int] = {}

    def number(self, file: str) -> int:
        return self.names.setdefault(file, len(self.names))

    def place(self, span: Span) -> list[int]:
        return [self.number(span.file), span.line, span.column, span.end_line, span.end_column]

    def texts(self) -> list[dict[str, Any]]:
        sources = Sources(dict(self.run.checked.texts))
        if self.run.source is not None:
            sources.texts[self.run.checked.path] = self.run.source.lines
        found = []
        for name in self.names:
            text = sources.lines(name)
            path = str(Path(name).resolve())
            found.append({"name": name, "path": path, "lines": text[:_MAX_SOURCE_LINES], "cells": self._cells(name)})
        return found

    def _cells(self, name: str) -> list[list[int]]:
        source = self.run.source
        if source is None or source.cells is None or name != self.run.checked.path:
            return []
        return [[cell.first, cell.number] for cell in source.cells.parts]


class _Shapes:
    """Graphs by source line; calls whose graphs look the same share one."""

    def __init__(self, reading: Reading, files: _Files) -> None:
        self.reading = reading
        self.files = files
        self.found: list[dict[str, Any]] = []
        self._numbers: dict[str, int] = {}
        self._work = 0

    def of(self, item: BackwardRun, number: int, count: int) -> int | None:
        """Return the number of a call's shape; None where so many calls have theirs that this one is left out."""
        every = max(1, count // _SHAPES_FIRST)
        special = item.traversal.problem is not None or bool(item.traversal.retraversed)
        if number >= _SHAPES_FIRST and number % every and not special and number != count - 1:
            return None
        self._work += len(item.traversal.executed)
        if self._work > _MAX_SHAPE_NODES or len(self.found) >= _MAX_SHAPES:
            return None
        shape = self._shape(item)
        key = json.dumps(shape)
        if key not in self._numbers:
            self._numbers[key] = len(self.found)
            self.found.append(shape)
        return self._numbers[key]

    def _shape(self, item: BackwardRun) -> dict[str, Any]:
        ledger = self.reading.ledger
        traversal, problem = item.traversal, item.traversal.problem
        numbers = set(traversal.executed)
        if problem is not None and problem.node is not None:
            numbers.add(problem.node.id)
        nodes = [ledger.nodes[number] for number in sorted(numbers) if number in ledger.nodes]
        places: dict[tuple[str, int], int] = {}
        ops: list[collections.Counter[str]] = []
        groups: list[dict[str, Any]] = []
        group_of: dict[int, int] = {}
        for node in nodes:
            key = (node.at.file, node.at.line)
            group = places.get(key)
            if group is None:
                if len(groups) >= _MAX_GROUPS:
                    continue
                group = places[key] = len(groups)
                groups.append({"at": self.files.place(node.at.span), "nodes": 0, "saved": 0, "state": ""})
                ops.append(collections.Counter())
            group_of[node.id] = group
            entry = groups[group]
            entry["nodes"] += 1
            entry["saved"] += len(node.saved)
            ops[group][node.op] += 1
            if node.id in traversal.retraversed:
                entry["state"] = "reused"
            elif not entry["state"] and node.keeps != "no":
                entry["state"] = "kept" if item.backward.retain == "yes" else "freed"
        if problem is not None and problem.node is not None and problem.node.id in group_of:
            groups[group_of[problem.node.id]]["state"] = "stale" if problem.kind == "stale" else "gone"
        edges: collections.Counter[tuple[int, int]] = collections.Counter()
        leaves: dict[int, set[str]] = collections.defaultdict(set)
        for node in nodes:
            target = group_of.get(node.id)
            for source in node.inputs:
                if target is not None and source in group_of and group_of[source] != target:
                    edges[group_of[source], target] += 1
                elif target is not None and source in ledger.leaves:
                    leaves[target].add(ledger.leaves[source].name or "a leaf")
        for group, entry in enumerate(groups):
            entry["ops"] = ops[group].most_common(6)
            entry["leaves"] = sorted(leaves[group])[:8]
        return {"groups": groups, "edges": [[*pair, count] for pair, count in sorted(edges.items())]}


def _alive(tape: Tape, lines: dict[int, int]) -> list[dict[str, Any]]:
    """Return what was alive after iterations, each with the number of backward calls before it."""
    found: list[dict[str, Any]] = []
    known: set[int] = set()
    for event in tape.events:
        calls = len(known)
        if isinstance(event, Backward):
            known.add(event.id)
        elif isinstance(event, Measure) and event.at.iteration:
            loop, index = event.at.iteration[-1]
            if event.name == "live-nodes":
                found.append({"call": calls, "loop": lines.get(loop, 0), "index": index, "nodes": int(event.value)})
            elif event.name in ("live-saved-bytes", "cuda-memory") and found:
                found[-1]["bytes" if event.name == "live-saved-bytes" else "device"] = int(event.value)
    return found


def _device_times(tape: Tape) -> dict[tuple[int, int], float]:
    """Return milliseconds on the device by loop and iteration: from one event of its stream to another, idle or not."""
    return {
        event.at.iteration[-1]: event.value
        for event in tape.events
        if isinstance(event, Measure) and event.name == "device-time" and event.at.iteration
    }


def _finding(run: Run, index: int, finding: Finding, files: _Files) -> dict[str, Any]:
    said = finding.evidence
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
        "fixes": [{"title": fix.title, "how": fix.applicability, "changes": fix.changes} for fix in
                  run.checked.fixes_of(index)],
        "trial": trial.text() if trial is not None else "",
    }  # fmt: skip


def _plain(items: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    return {key: value for key, value in items if isinstance(value, (int, float, str, bool, list))}
