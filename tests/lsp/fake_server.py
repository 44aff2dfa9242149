"""The language server over a judge that needs no dry run: every `backward(` after the first is a finding.

For tests of the protocol alone. A line that says `# endless` makes the analysis last until it is cancelled,
one that says `# crash` makes it raise, and `print` shows that output does not reach the client.
"""

from __future__ import annotations

import dataclasses
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tapecheck.fixes import Edit, Fix
from tapecheck.lsp import server
from tapecheck.lsp.outcome import Outcome
from tapecheck.lsp.runs import FixTrial, Recording, RunOrder, RunRefused
from tapecheck.lsp.session import Session
from tapecheck.record.trial import Side, Trial
from tapecheck.rules.facts import Facts
from tapecheck.rules.finding import Evidence, Finding, Label
from tapecheck.source import Source
from tapecheck.source.project import Project, Setup
from tapecheck.tape import Span


@dataclass
class Interpretation:
    tapes: list[Any] = field(default_factory=list)
    imported: frozenset[str] = frozenset()
    read: dict[str, str | None] = field(default_factory=dict)
    exhausted: bool = False
    cut_short: list[Any] = field(default_factory=list)
    faults: list[Any] = field(default_factory=list)
    calls: set[Any] = field(default_factory=set)


@dataclass
class Report:
    source: Source
    interpretation: Interpretation
    findings: list[Finding]
    suppressed: list[Finding] = field(default_factory=list)
    elsewhere: list[Finding] = field(default_factory=list)
    project: Project = field(init=False)

    def __post_init__(self) -> None:
        self.project = Setup().project_of(self.source.path)


def check(
    source: Source,
    /,
    *,
    select: tuple[str, ...] | None,
    ignore: tuple[str, ...],
    cancelled: Callable[[], bool] | None,
    open_files: Mapping[str, Source] | None = None,
) -> Report:
    print("output that must not reach the client")
    findings: list[Finding] = []
    first: Span | None = None
    for number, line in enumerate(source.lines, 1):
        if "# crash" in line:
            raise KeyError("made to crash")
        if "# endless" in line:
            print("analysis begun", file=sys.stderr, flush=True)
            while cancelled is None or not cancelled():
                time.sleep(0.005)
            print("analysis cancelled", file=sys.stderr, flush=True)
            raise RuntimeError("cancelled")
        start = 0
        while (start := line.find("backward(", start)) >= 0:
            span = Span(source.path, number, start + 1, number, start + 1 + len("backward()"))
            start += 1
            if first is None:
                first = span
                continue
            findings.append(
                Finding(
                    "TAPE101",
                    "backward-twice",
                    "error",
                    span,
                    "this graph was freed",
                    "sum the losses",
                    labels=(Label(first, "freed here", "freed"),),
                )
            )
        at = line.find("retain_graph=True")
        if at >= 0:
            span = Span(source.path, number, 1, number, len(line) + 1)
            argument = Span(source.path, number, at + 1, number, at + 1 + len("retain_graph=True"))
            findings.append(
                Finding(
                    "TAPE301",
                    "needless-retain-graph",
                    "info",
                    span,
                    "nothing needs the graph again",
                    "remove it",
                    unnecessary=True,
                    facts=Facts(argument=argument),
                )
            )
    kept = [one for one in findings if (select is None or one.code in select) and one.code not in ignore]
    return Report(source, Interpretation(), kept)


def fixes_for(
    report: Report,
    finding: Finding,
    /,
    *,
    cancelled: Callable[[], bool] | None,
    open_files: Mapping[str, Source] | None = None,
) -> list[Fix]:
    if finding.code != "TAPE301":
        return []
    if "# unsafe" in report.source.text:
        return [Fix("Comment the call out", "unsafe", (Edit(finding.span, "pass"),), "no gradients")]
    span = finding.facts.argument
    assert span is not None
    line = report.source.lines[span.line - 1]
    return [
        Fix("Comment the call out", "unsafe", (Edit(finding.span, f"# {line}"),), "no gradients"),
        Fix("Remove retain_graph=True", "safe", (Edit(span, ""),), "nothing"),
    ]


def record(
    order: RunOrder,
    report: Report,
    on_output: Callable[[str], None],
    on_progress: Callable[[str], None],
    stop: Callable[[], bool],
    /,
) -> Recording:
    """Confirms TAPE101 and refutes the rest; a file that says `# forever` runs until it is stopped."""
    if "# no torch" in order.text:
        raise RunRefused("/usr/bin/python has no torch")
    on_output("epoch 1\n 10%\r 50%\r100%\nlast wo")
    on_progress("iteration 1, 0 s")
    while "# forever" in order.text and not stop():
        time.sleep(0.01)
    on_output("rds")
    if stop():
        return Recording(order.text, unseen=Outcome("cancelled before the first iteration"))
    findings = [
        dataclasses.replace(
            finding,
            evidence=Evidence("confirmed", "raised at iteration 2", 2)
            if finding.code == "TAPE101"
            else Evidence("refuted", "it was needed"),
        )
        for finding in report.findings
    ]
    return Recording(order.text, findings)


def try_fix(
    order: RunOrder,
    report: Report,
    finding: Finding,
    fix: Fix,
    on_progress: Callable[[str], None],
    stop: Callable[[], bool],
    /,
) -> FixTrial:
    """Finds that every fix helps; a file that says `# forever` runs until it is stopped."""
    on_progress("as it is: iteration 1, 0 s")
    while "# forever" in order.text and not stop():
        time.sleep(0.01)
    if stop():
        raise RunRefused(f"{order.name}: stopped")
    on_progress("with the fix: iteration 1, 0 s")
    broken = Side("finished", "", (finding.name,), "", 0, None, 3)
    mended = Side("finished", "", (), "", 0, None, 3)
    return FixTrial(order.path, order.text, finding, fix, Trial(broken, mended), "python")


if __name__ == "__main__":
    about = "Python 3.0, torch 0.1, an abacus" if "--about" in sys.argv else ""
    session = Session(check, fixes_for, record, try_fix, lambda _: about)  # type: ignore[arg-type]
    sys.exit(server.serve(session))
