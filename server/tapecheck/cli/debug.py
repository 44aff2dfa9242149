"""`tapecheck debug trace`: why a finding is reported, or is not."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator

from tapecheck.check import Report, check, faults_of, limits_of
from tapecheck.cli.shared import NOTHING_FOUND, UsageError, say, write
from tapecheck.interpret import Condition, Explored
from tapecheck.report.excerpt import printable
from tapecheck.rules import Reading, judge
from tapecheck.rules.reading import Run
from tapecheck.source import SourceError, read_source
from tapecheck.tape import Assumed, Cut, Hold, Node, Raised
from tapecheck.tape.ledger import Problem

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
    alone: dict[tuple[str, str, int], list[int]] = {}
    for number, way in enumerate(log, 1):
        found = judge([way.tape]) if way.kept else []
        for finding in found:
            ways = alone.setdefault((finding.code, finding.span.file, finding.span.line), [])
            if number not in ways:
                ways.append(number)
        if options.line is None or _touches(way, source.path, options.line):
            rows += _way(number, way, source.path)
            rows += [f"  alone  {finding.code} line {finding.span.line}: {finding.message}" for finding in found]
    if not log:
        rows.append("No way was tried: nothing in this file can start a backward or keep a graph.")
    rows += [*_of_all(report), *_disproved(report, alone)]
    write("\n".join(map(printable, rows)) + "\n")
    return NOTHING_FOUND


def _of_all(report: Report) -> Iterator[str]:
    """Yield what is said of all ways together."""
    yield from (f"internal error: line {fault.line}: {fault.message}" for fault in faults_of(report))
    yield from (f"limit: line {limit.line}: {limit.message}" for limit in limits_of(report))
    for kind, span in sorted(report.interpretation.mistakes, key=lambda one: (one[1].file, one[1].line, one[0])):
        yield f"assumed wrong: {kind} on line {span.line} of {span.file}: went on past it"
    for finding in report.findings:
        kind = f"{finding.severity}, {'certain' if finding.certain else 'possible'}"
        yield f"reported: {finding.code} line {finding.span.line} ({kind}): {finding.message}"
        yield from (f"  assumes  line {one.at.line}: {one.kind}: {one.text}" for one in finding.rests_on)
    for finding in report.suppressed:
        yield f"switched off by a comment: {finding.code} line {finding.span.line}: {finding.message}"


def _way(number: int, way: Explored, path: str) -> list[str]:
    start = f"`{way.start}` with unknown arguments" if way.start else "the module"
    turned = ", ".join(f"line {line}" for _, line, _ in way.turned)
    head = f"way {number}: {start}" + (f", other answer on {turned}" if turned else "")
    if way.beyond:
        head += ", going on past backward calls that fail"
    if way.tape.by_default:
        head += ", options that loops count by keep their defaults"
    reading = Reading(way.tape)
    kept = "" if way.kept else ", shows nothing that an earlier way did not"
    rows = [head, f"  {len(way.tape.events)} events, {way.work} units of work, ends: {_end(reading)}{kept}"]
    if reading.ended == "budget":
        rows.append(f"  limit  most of what was seen is {_busiest(way)}")
    rows += [_condition(condition, path) for condition in way.conditions]
    rows += dict.fromkeys(_unknown(way))
    for run in reading.runs:
        rows += _backward(run, reading)
    for event in way.tape.events:
        if isinstance(event, Hold):
            held = f"`{event.holder}` keeps {len(event.nodes)} nodes at the end of iteration {event.index}"
            rows.append(f"  keep   line {event.at.line}: {held}")
        elif isinstance(event, Assumed):
            rows.append(f"  assume line {event.at.line}: {event.kind}: {event.text}")
        elif isinstance(event, Cut):
            rows.append(f"  cut    line {event.at.line}: {event.how} {event.name}".rstrip())
    return rows


def _condition(condition: Condition, path: str) -> str:
    file, line, _ = condition.place
    where = f"line {line}" if file == path else f"{file}:{line}"
    tried = "the other answer is tried" if condition.tried else "the other answer is not tried"
    answer = "true" if condition.answer else "false"
    return f"  if     {where}: `{condition.text}` taken as {answer}: {_STAKES[condition.stake]}, {tried}"


def _end(reading: Reading) -> str:
    """Return how a way ends, with the exception that ends it."""
    raised = [event for event in reading.tape.events if isinstance(event, Raised) and not event.caught]
    if reading.ended == "raised" and raised:
        return f"raised {raised[-1].exception} on line {raised[-1].at.line}"
    return reading.ended


def _busiest(way: Explored) -> str:
    """Name the functions that most events of a way come from."""
    sites = (getattr(event, "at", None) for event in way.tape.events)
    events = Counter(site.function or "<module>" for site in sites if site is not None)
    return ", ".join(f"`{name}` ({count} events)" for name, count in events.most_common(3)) or "no event"


def _unknown(way: Explored) -> Iterator[str]:
    """Tell which graphs come from code that nobody could look into, at the lines that are first to need them."""
    for event in way.tape.events:
        if isinstance(event, Node) and event.graph_of:
            said = "is made by unknown code: there may be none, and it may keep nothing"
            yield f"  code   line {event.at.line}: the graph of `{event.graph_of}` {said}"


def _backward(run: Run, reading: Reading) -> list[str]:
    """Tell what a backward does and, where it fails or may, why."""
    problem = run.problem
    of = ", ".join(f"`{root.name}`" for root in run.backward.roots if root.name)
    head = f"  {run.backward.call:8} line {run.at.line}" + (f" of {of}" if of else "")
    flags = f"retain_graph {run.backward.retain}, create_graph {run.backward.create}"
    if problem is None:
        rows = [f"{head}: walks {len(run.executed)} nodes, {flags}"]
        if any(root.graph == "may" and root.node is None for root in run.backward.roots):
            rows.append("    what graph it walks nobody knows: unknown code returned it")
        return rows
    fails = "fails" if problem.certain == "yes" else "may fail"
    rows = [f"{head}: {fails}, {_reason(problem, run)}, {flags}"]
    if problem.certain != "yes":
        rows += [f"    no error is reported for a may: {doubt}" for doubt in _doubts(problem, run, reading)]
    return rows


def _reason(problem: Problem, run: Run) -> str:
    node = f"`{problem.node.op}` of line {problem.node.at.line}" if problem.node is not None else "a node"
    if problem.kind in ("freed", "region") and problem.freed_by is not None:
        return f"{node} was freed by line {problem.freed_by.at.line}"
    if problem.kind == "stale" and problem.saved is not None and problem.changed_by is not None:
        return f"{node} saved `{problem.saved.name}`, which line {problem.changed_by.at.line} changes in place"
    if problem.kind == "donated" and problem.freed_by is not None:
        return f"{node} was compiled for line {problem.freed_by.at.line}, which retained nothing"
    if problem.kind == "no-graph":
        return f"`{run.backward.roots[problem.root].name or 'its tensor'}` has no graph"
    return f"its input number {problem.root + 1} is no part of the graph"


def _doubts(problem: Problem, run: Run, reading: Reading) -> Iterator[str]:
    """Say of what is not certain about a failure where the doubt comes from."""
    freed, node, saved, change = problem.freed_by, problem.node, problem.saved, problem.changed_by
    facts = [(root.graph, f"whether `{root.name or 'its tensor'}` has a graph") for root in run.backward.roots]
    if freed is not None:
        facts.append((freed.retain, f"whether line {freed.at.line} retains the graph"))
    if node is not None:
        keeps = f"whether `{node.op}` of line {node.at.line} keeps anything that can be freed"
        facts.append((node.keeps, keeps))
    if saved is not None:
        facts.append((saved.fact, f"whether `{saved.name}` is saved"))
    if change is not None:
        facts.append((change.bumps, f"whether line {change.at.line} changes the tensor"))
    yield from (f"{asked} is not known" for fact, asked in facts if fact == "may")
    reached = reading.ledger.ancestry(run.backward.root_nodes)
    parts = (reading.ledger.nodes.get(number) for number in sorted(reached))
    part = next((part for part in parts if part is not None and part.linked == "may"), None)
    if part is not None:
        yield f"whether `{part.op}` of line {part.at.line} hangs on what it was given is not known"


def _disproved(report: Report, alone: dict[tuple[str, str, int], list[int]]) -> Iterator[str]:
    """Say of what some ways show by themselves that all of them together do not."""
    said = [*report.findings, *report.suppressed, *report.elsewhere]
    places = {(one.code, one.span.file, one.span.line) for one in said}
    for (code, file, line), ways in alone.items():
        if (code, file, line) not in places:
            where = f"line {line}" if file == report.source.path else f"{file}:{line}"
            shown = ", ".join(map(str, ways[:8])) + (", ..." if len(ways) > 8 else "")
            yield f"not reported: {code} {where}: way {shown} alone shows it, all ways together disprove it"


def _touches(way: Explored, path: str, line: int) -> bool:
    for event in way.tape.events:
        at = getattr(event, "at", None)
        if at is not None and at.span.file == path and at.span.line <= line <= at.span.end_line:
            return True
    return any(condition.place[:2] == (path, line) for condition in way.conditions)
