"""`tapecheck debug trace`: why a finding is reported, or is not."""

from __future__ import annotations

import argparse

from tapecheck.check import check, limits_of
from tapecheck.cli.shared import NOTHING_FOUND, UsageError, say, write
from tapecheck.interpret import Condition, Explored
from tapecheck.report.excerpt import printable
from tapecheck.rules import Reading, judge
from tapecheck.rules.reading import Run
from tapecheck.source import SourceError, read_source
from tapecheck.tape import Cut, Hold

_STAKES = (
    "nothing hangs on it",
    "only certainty hangs on it",
    "a verdict can hang on this answer alone",
    "a verdict can hang on it",
)


def trace(options: argparse.Namespace) -> int:
    """Print the ways through a program; raises UsageError where it cannot be read."""
    try:
        source = read_source(options.file)
    except SourceError as error:
        raise UsageError(str(error)) from error
    log: list[Explored] = []
    report = check(source, log=log)
    if report.error is not None:
        say(f"{options.file}: {report.error}: the rest is traced")
    rows: list[str] = []
    for number, way in enumerate(log, 1):
        if options.line is None or _touches(way, source.path, options.line):
            rows += _way(number, way, source.path)
    if not log:
        rows.append("No way was tried: nothing in this file can start a backward or keep a graph.")
    rows += [f"limit: line {limit.line}: {limit.message}" for limit in limits_of(report)]
    for kind, span in sorted(report.interpretation.mistakes, key=lambda one: (one[1].file, one[1].line, one[0])):
        rows.append(f"assumed wrong: {kind} on line {span.line} of {span.file}: went on past it")
    for finding in report.findings:
        certain = "certain" if finding.certain else "possible"
        kind = f"{finding.severity}, {certain}"
        rows.append(f"reported: {finding.code} line {finding.span.line} ({kind}): {finding.message}")
    for finding in report.suppressed:
        rows.append(f"switched off by a comment: {finding.code} line {finding.span.line}: {finding.message}")
    write("\n".join(map(printable, rows)) + "\n")
    return NOTHING_FOUND


def _way(number: int, way: Explored, path: str) -> list[str]:
    start = f"`{way.start}` with unknown arguments" if way.start else "the module"
    turned = ", ".join(f"line {line}" for _, line, _ in way.turned)
    head = f"way {number}: {start}" + (f", other answer on {turned}" if turned else "")
    if way.beyond:
        head += ", going on past backward calls that fail"
    reading = Reading(way.tape)
    kept = "" if way.kept else ", shows nothing that an earlier way did not"
    rows = [head, f"  {len(way.tape.events)} events, {way.work} units of work, ends: {reading.ended}{kept}"]
    rows += [_condition(condition, path) for condition in way.conditions]
    rows += [_backward(run) for run in reading.runs]
    for event in way.tape.events:
        if isinstance(event, Hold):
            held = f"`{event.holder}` keeps {len(event.nodes)} nodes at the end of iteration {event.index}"
            rows.append(f"  keep   line {event.at.line}: {held}")
        elif isinstance(event, Cut):
            rows.append(f"  cut    line {event.at.line}: {event.how} {event.name}".rstrip())
    if way.kept:
        for finding in judge([way.tape]):
            rows.append(f"  alone  {finding.code} line {finding.span.line}: {finding.message}")
    return rows


def _condition(condition: Condition, path: str) -> str:
    file, line, _ = condition.place
    where = f"line {line}" if file == path else f"{file}:{line}"
    tried = "the other answer is tried" if condition.tried else "the other answer is not tried"
    answer = "true" if condition.answer else "false"
    return f"  if     {where}: `{condition.text}` taken as {answer}: {_STAKES[condition.stake]}, {tried}"


def _backward(run: Run) -> str:
    problem = run.traversal.problem
    executed = len(run.traversal.executed)
    outcome = f"walks {executed} nodes" if problem is None else f"{problem.kind}, certain: {problem.certain}"
    flags = f"retain_graph {run.backward.retain}, create_graph {run.backward.create}"
    return f"  {run.backward.call:8} line {run.at.line}: {outcome}, {flags}"


def _touches(way: Explored, path: str, line: int) -> bool:
    for event in way.tape.events:
        at = getattr(event, "at", None)
        if at is not None and at.span.file == path and at.span.line <= line <= at.span.end_line:
            return True
    return any(condition.place[:2] == (path, line) for condition in way.conditions)
