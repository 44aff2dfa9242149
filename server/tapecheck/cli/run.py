"""`tapecheck run`: execute a script under the recorder and hold its findings against what happened."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tapecheck.check import apart
from tapecheck.cli.check import exit_status, wanted_rules, write_report
from tapecheck.cli.checking import Wanted, by_cell, check_program
from tapecheck.cli.shared import FOUND, INTERRUPTED, NOTHING_FOUND, UsageError, write
from tapecheck.record import Output, Progress, RunError, RunRequest, RunResult, judge, run
from tapecheck.record.trial import Side, Trial, edited, side
from tapecheck.report import Checked, Sources, html
from tapecheck.rules.finding import Finding
from tapecheck.source import Source, SourceError, read_source, suppressions
from tapecheck.source.notebook import SUFFIX

# The script's own traceback stands above it in full.
_LONGEST = 120


@dataclass(slots=True)
class _Program:
    """What is run: its findings, its source where it can be read, and the request that runs it."""

    checked: Checked
    source: Source | None
    request: RunRequest


def run_script(options: argparse.Namespace) -> int:
    """Check a script, run it, print its findings with what the run said of each, and answer the exit status.

    What the script prints goes where it would go without Tapecheck; unless the report is for people it goes to
    standard error, so that standard output is the report alone. Only what the run confirmed or found itself counts
    as found.
    """
    program = _program(options, wanted_rules(options))
    checked = program.checked
    aside = options.output_format != "text"

    def pass_on(event: Output | Progress) -> None:
        if isinstance(event, Output):
            write(event.text, sys.stderr if aside or event.stream == "stderr" else sys.stdout)

    with _interruptible() as interrupted:
        result = _run(program.request, pass_on, interrupted)
        print(f"tapecheck: {_ending(result, program.request)}", file=sys.stderr, flush=True)
        _with_evidence(program, result)
        if options.verify_fix and result.how_ended != "cancelled":
            checked.trials = _trials(program, interrupted)
    page = html.Run(checked, result.tape, program.source, _ending(result, program.request))
    if program.source is not None and program.source.cells is not None:
        checked = by_cell(checked, program.source.cells)
    if options.html is not None:
        _write_page(options.html, page)
    if options.output_format == "html":
        write(html.render(page))
    else:
        write_report([checked], Sources(), options, evidence=True)
    if result.how_ended == "cancelled":
        return INTERRUPTED
    status = exit_status([checked])
    if status == FOUND and not checked.problems and not any(map(_is_so, checked.findings)):
        return NOTHING_FOUND
    return status


def _program(options: argparse.Namespace, wanted: Wanted) -> _Program:
    source: Source | None = None
    if options.module is not None:
        if not options.module:
            raise UsageError("-m needs the name of a module")
        options.script, *options.arguments = options.module
        file = _file_of(options.script)
        checked, source = check_program(file, wanted) if file is not None else (Checked(options.script), None)
    elif options.script is None:
        raise UsageError("name a script to run, or a module with -m")
    else:
        if Path(options.script).is_dir():
            raise UsageError(f"{options.script}: is a directory: name a script in it")
        if not Path(options.script).is_file():
            raise UsageError(f"{options.script}: no such file")
        checked, source = check_program(options.script, wanted)
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
    if source is not None and source.cells is not None:
        # As Jupyter has it: cells run where the notebook lies, and figures need no display.
        path = Path(options.script).absolute()
        request = dataclasses.replace(
            request, script=str(path), name=options.script, text="\n".join(source.lines), notebook=True,
            cwd=str(path.parent), env={"MPLBACKEND": os.environ.get("MPLBACKEND", "Agg")},
        )  # fmt: skip
    elif options.script.endswith(SUFFIX):
        raise UsageError("; ".join(problem.message for problem in checked.problems) or f"{options.script}: no notebook")
    return _Program(checked, source, request)


def _file_of(module: str) -> str | None:
    """A module's file by the names of files alone, as seen from the working directory; None for an installed one."""
    base = Path(*module.split("."))
    for file in (base / "__main__.py", base.with_name(f"{base.name}.py")):
        if file.is_file():
            return str(file)
    return None


def _run(
    request: RunRequest, pass_on: Callable[[Output | Progress], None], interrupted: threading.Event
) -> RunResult:
    try:
        return run(request, pass_on, interrupted.is_set)
    except RunError as error:
        raise UsageError(str(error)) from error


@contextlib.contextmanager
def _interruptible() -> Iterator[threading.Event]:
    """The first Ctrl+C ends the script and still reports what was seen of it; the next one ends Tapecheck."""
    interrupted = threading.Event()

    def interrupt(*_: object) -> None:
        if interrupted.is_set():
            raise KeyboardInterrupt
        interrupted.set()

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield interrupted
    finally:
        signal.signal(signal.SIGINT, before)


def _with_evidence(program: _Program, result: RunResult) -> None:
    """Put all findings with their evidence in the place of those without, and the fixes of each beside them."""
    checked = program.checked
    known = {finding.key: checked.fixes_of(index) for index, finding in enumerate(checked.findings)}
    findings = judge(checked.findings, result.tape, directory=program.request.cwd)
    checked.findings = [finding for finding in findings if not _switched_off(finding, checked.path)]
    checked.fixes = [known.get(finding.key, []) for finding in checked.findings]


def _trials(program: _Program, interrupted: threading.Event) -> list[Trial | None]:
    """Run the program once more with a seed, and once with the preferred fix of each finding that the run showed."""
    checked, source = program.checked, program.source
    request = dataclasses.replace(program.request, tape=None, watch=())
    texts = [
        edited(source.text, checked.path, checked.fixes_of(index)[0].edits)
        if source is not None and _is_so(finding) and checked.fixes_of(index)
        else None
        for index, finding in enumerate(checked.findings)
    ]
    if not any(texts):
        print("tapecheck: there is no fix to try", file=sys.stderr)
        return []
    if request.module:
        print("tapecheck: fixes of modules cannot be tried", file=sys.stderr)
        return []
    before: Side | None = None
    tried: dict[str, Trial] = {}
    trials: list[Trial | None] = []
    for text in texts:
        if text is None or interrupted.is_set():
            trials.append(None)
            continue
        try:
            if before is None:
                before = side(request, None, interrupted.is_set)
            if text not in tried:
                tried[text] = Trial(before, side(dataclasses.replace(request, text=text), None, interrupted.is_set))
            trials.append(tried[text])
        except RunError as error:
            raise UsageError(str(error)) from error
    return trials


def _write_page(path: str, page: html.Run) -> None:
    try:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(html.render(page), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror or error}") from error


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


def _ending(result: RunResult, request: RunRequest) -> str:
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
    if result.how_ended == "timeout":
        detail = f"after {request.timeout:g} seconds (--timeout 0 runs it to its end)"
    return f"{ways[result.how_ended]}: {detail} ({seen})"
