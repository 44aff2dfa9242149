"""`tapecheck run`: execute a script under the recorder and hold its findings against what happened."""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from tapecheck.check import apart
from tapecheck.cli.check import exit_status, wanted_rules, write_report
from tapecheck.cli.checking import check_file
from tapecheck.cli.shared import FOUND, INTERRUPTED, NOTHING_FOUND, UsageError, write
from tapecheck.record import Output, Progress, RunError, RunRequest, RunResult, judge, run
from tapecheck.report import Checked, Sources
from tapecheck.rules.finding import Finding
from tapecheck.source import SourceError, read_source, suppressions

if TYPE_CHECKING:
    from tapecheck.fixes import Fix

# The script's own traceback stands above it in full.
_LONGEST = 120


def run_script(options: argparse.Namespace) -> int:
    """Check a script, run it, print its findings with what the run said of each, and answer the exit status.

    What the script prints goes where it would go without Tapecheck; with JSON it goes to standard error, so
    that standard output is the report alone. Only what the run confirmed or found itself counts as found.
    """
    wanted = wanted_rules(options)
    if options.module is not None:
        if not options.module:
            raise UsageError("-m needs the name of a module")
        options.script, *options.arguments = options.module
        file = _file_of(options.script)
        checked = check_file(file, wanted) if file is not None else Checked(options.script)
    elif options.script is None:
        raise UsageError("name a script to run, or a module with -m")
    else:
        if Path(options.script).is_dir():
            raise UsageError(f"{options.script}: is a directory: name a script in it")
        if not Path(options.script).is_file():
            raise UsageError(f"{options.script}: no such file")
        checked = check_file(options.script, wanted)
    result = _run(options, checked)
    checked.findings, checked.fixes = _with_evidence(checked, result)
    print(f"tapecheck: {_ending(result)}", file=sys.stderr, flush=True)
    write_report([checked], Sources(), options, evidence=True)
    if result.how_ended == "cancelled":
        return INTERRUPTED
    status = exit_status([checked])
    if status == FOUND and not checked.problems and not any(map(_is_so, checked.findings)):
        return NOTHING_FOUND
    return status


def _file_of(module: str) -> str | None:
    """A module's file by the names of files alone, as seen from the working directory; None for an installed one."""
    base = Path(*module.split("."))
    for file in (base / "__main__.py", base.with_name(f"{base.name}.py")):
        if file.is_file():
            return str(file)
    return None


def _run(options: argparse.Namespace, checked: Checked) -> RunResult:
    request = RunRequest(
        script=options.script,
        args=options.arguments,
        python=options.python,
        timeout=options.timeout,
        max_iterations=options.max_iterations,
        max_backward=options.max_backward,
        watch={
            (finding.span.file, row)
            for finding in checked.findings
            for row in range(finding.span.line, max(finding.span.line, finding.span.end_line) + 1)
        },
        tape=options.tape,
        module=options.module is not None,
    )
    aside = options.output_format == "json"

    def pass_on(event: Output | Progress) -> None:
        if isinstance(event, Output):
            write(event.text, sys.stderr if aside or event.stream == "stderr" else sys.stdout)

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
    findings = [finding for finding in findings if not _switched_off(finding, checked.path)]
    return findings, [known.get(finding.key, []) for finding in findings]


def _switched_off(finding: Finding, path: str) -> bool:
    """Whether a comment in the script switches off what only the run has found."""
    if finding.evidence is None or finding.evidence.verdict != "found-by-run" or finding.span.file != path:
        return False
    try:
        return not apart([finding], suppressions(read_source(path)))[0]
    except SourceError:
        return False


def _is_so(finding: Finding) -> bool:
    return finding.evidence is not None and finding.evidence.verdict in ("confirmed", "found-by-run")


def _ending(result: RunResult) -> str:
    iterations = f"{result.iterations} iteration{'s' * (result.iterations != 1)}"
    backwards = f"{result.backwards} backward call{'s' * (result.backwards != 1)}"
    seen = f"{iterations}, {backwards}, {result.seconds:.1f} s"
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
    detail = result.detail if len(result.detail) <= _LONGEST else result.detail[: _LONGEST - 3] + "..."
    return f"{ways[result.how_ended]}: {detail} ({seen})"
