"""`tapecheck run`: execute a script under the recorder and hold its findings against what happened."""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from tapecheck.cli.check import exit_status, wanted_rules, write_report
from tapecheck.cli.checking import check_file
from tapecheck.cli.shared import FOUND, INTERRUPTED, NOTHING_FOUND, UsageError
from tapecheck.record import Output, Progress, RunError, RunRequest, RunResult, judge, run
from tapecheck.report import Checked, Sources
from tapecheck.rules.finding import Finding

if TYPE_CHECKING:
    from tapecheck.fixes import Fix


def run_script(options: argparse.Namespace) -> int:
    """Check a script, run it, print its findings with what the run said of each, and answer the exit status.

    What the script prints goes where it would go without Tapecheck; with JSON it goes to standard error, so
    that standard output is the report alone. A finding that the run refuted does not count as found.
    """
    wanted = wanted_rules(options)
    if not Path(options.script).is_file():
        raise UsageError(f"{options.script}: no such file")
    checked = check_file(options.script, wanted)
    result = _run(options, checked)
    checked.findings, checked.fixes = _with_evidence(checked, result)
    write_report([checked], Sources(), options, evidence=True)
    print(f"tapecheck: {_ending(result)}", file=sys.stderr)
    if result.how_ended == "cancelled":
        return INTERRUPTED
    status = exit_status([checked])
    if status == FOUND and not checked.problems and all(map(_refuted, checked.findings)):
        return NOTHING_FOUND
    return status


def _run(options: argparse.Namespace, checked: Checked) -> RunResult:
    request = RunRequest(
        script=options.script,
        args=options.arguments,
        python=options.python,
        timeout=options.timeout,
        max_iterations=options.max_iterations,
        max_backward=options.max_backward,
        watch={(finding.span.file, finding.span.line) for finding in checked.findings},
        tape=options.tape,
    )
    aside = options.output_format == "json"

    def pass_on(event: Output | Progress) -> None:
        if isinstance(event, Output):
            stream = sys.stderr if aside or event.stream == "stderr" else sys.stdout
            stream.write(event.text)
            stream.flush()

    interrupted = threading.Event()
    # The first Ctrl+C ends the script and still reports what was seen of it; the next one ends Tapecheck.
    before = signal.signal(signal.SIGINT, lambda *_: _interrupt(interrupted))
    try:
        return run(request, pass_on, interrupted.is_set)
    except RunError as error:
        raise UsageError(str(error)) from error
    finally:
        signal.signal(signal.SIGINT, before)


def _interrupt(interrupted: threading.Event) -> None:
    if interrupted.is_set():
        raise KeyboardInterrupt
    interrupted.set()


def _with_evidence(checked: Checked, result: RunResult) -> tuple[list[Finding], list[list[Fix]]]:
    """All findings with their evidence, those that only the run found included, and the fixes of each."""
    known = {finding.key: checked.fixes_of(index) for index, finding in enumerate(checked.findings)}
    findings = judge(checked.findings, result.tape)
    return findings, [known.get(finding.key, []) for finding in findings]


def _refuted(finding: Finding) -> bool:
    return finding.evidence is not None and finding.evidence.verdict == "refuted"


def _ending(result: RunResult) -> str:
    seen = f"{result.iterations} iterations, {result.backwards} backward calls, {result.seconds:.1f} s"
    if result.how_ended == "finished":
        code = f", exit code {result.exit_code}" if result.exit_code else ""
        return f"the script ran to its end ({seen}{code})"
    ways = {
        "raised": "the script ended with an exception",
        "stopped": "the script was stopped",
        "timeout": "the script was stopped",
        "cancelled": "the script was interrupted",
        "died": "the script died",
    }
    return f"{ways[result.how_ended]}: {result.detail} ({seen})"
