"""`tapecheck run`: execute a script under the recorder and hold its findings against what happened."""

from __future__ import annotations

import argparse
import ast
import contextlib
import dataclasses
import itertools
import os
import re
import shlex
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from tapecheck.check import split_suppressed
from tapecheck.cli.across import Mender
from tapecheck.cli.check import (
    apply_configuration,
    exit_status,
    require_configuration,
    wanted_rules,
    write_report,
)
from tapecheck.cli.checking import CheckOptions, by_cell, check_program
from tapecheck.cli.progress import PassedOn
from tapecheck.cli.shared import ANYWHERE, CUT_SHORT, NOTHING_FOUND, UsageError, real_path, say, write, write_file
from tapecheck.fixes import Effort
from tapecheck.fixes.code import Code
from tapecheck.record import InterpreterError, Output, Progress, RunError, RunRequest, RunResult, judge, run
from tapecheck.record.device import mean_time
from tapecheck.record.evidence import asks_for_levels, lines_of, passes_of
from tapecheck.record.interpreter import find_interpreter
from tapecheck.record.memory import memory_ran_out
from tapecheck.record.parallel import not_reduced
from tapecheck.record.program import entry_for, files_of
from tapecheck.record.trial import Side, Trial, edited, named, reread, side, with_text
from tapecheck.record.untrained import untrained
from tapecheck.report import Checked, Sources, html, peak
from tapecheck.report.formats import FOR_PEOPLE
from tapecheck.rules import ALL
from tapecheck.rules.finding import Finding
from tapecheck.source import Source, suppressions
from tapecheck.source.cells import SUFFIX
from tapecheck.source.configuration import FILE
from tapecheck.source.disk import is_file, is_folder
from tapecheck.source.project import Project, Projects, Setup

# The script's own traceback stands above it in full.
_LONGEST = 120
_CHECK_SECONDS = 10.0
_FOR_SERVICES = ("github", "gitlab", "sarif", "junit", "rdjson")
_LAST_LINES = 3


@dataclass(slots=True)
class _Program:
    """What is run: its findings, its source where it can be read, and the request that runs it.

    `sources` are those of all its own files by the names that the findings have, `asked` are those that `--confirm`
    names, `unwanted` are codes of rules to leave out. `project` is what holds for the file that is run.
    """

    checked: Checked
    source: Source | None
    request: RunRequest
    project: Project
    sources: dict[str, Source] = field(default_factory=dict)
    asked: frozenset[str] = frozenset()
    unwanted: frozenset[str] = frozenset()


_STARTERS = frozenset(f"torch.multiprocessing{inner}" for inner in (".spawn", ".start_processes", ".spawn.spawn"))

_OWN_STORE = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
"""Where torchrun shares its store, all ranks of a script with `init_method="tcp://..."` wait for another one there."""


def _say_how_it_ended(result: RunResult, request: RunRequest) -> None:
    say(*_ending(result, request).splitlines(), *_last_words(result))
    if result.unrecorded:
        plural = "es" if result.unrecorded > 1 else ""
        say(f"{result.unrecorded} forked process{plural} ran backward calls, which were not recorded")
    for line in (*memory_ran_out(result.tape), *not_reduced(result.tape)):
        say(line)


def run_script(options: argparse.Namespace) -> int:
    """Check a script, run it, print its findings with what the run showed about each, and return the exit status.

    What the script prints goes where it would go without Tapecheck; unless the report is for people it goes to
    standard error, so that standard output is the report alone. Only what the run confirmed or found itself counts
    as found.
    """
    program = _program(options, wanted_rules(options))
    _doubt_options(program, options)
    checked = program.checked
    aside = options.output_format not in FOR_PEOPLE
    told = PassedOn()
    unfinished: dict[TextIO, bool] = {}

    def pass_on(event: Output | Progress) -> None:
        if isinstance(event, Output):
            stream = sys.stderr if aside or event.stream == "stderr" else sys.stdout
            unfinished[stream] = not event.text.endswith("\n")
            try:
                write(event.text, stream)
            except (UsageError, BrokenPipeError):
                # A terminal that was closed is no reason to end the program before its handler has run.
                if not interrupted.number:
                    raise
        else:
            told.tell(event.iterations, options.max_iterations, f"iterations, {event.seconds:.0f} s")

    with _interruptible() as interrupted:
        result = _run(program.request, pass_on, interrupted)
        _end_lines(unfinished, options)
        _say_how_it_ended(result, program.request)
        _with_evidence(program, result)
        if without := untrained(result.tape, _told_parameters(checked)):
            say(without)
        if options.verify_fix and result.how_ended != "cancelled":
            checked.trials = _trials(program, interrupted)
    apply_configuration(checked, program.project, options.fail_on or "hint", asked=True)
    checked.recorded = True
    checked.peak = peak.rows(result.tape)
    page = html.Run(checked, result.tape, program.source, _ending(result, program.request))
    if program.source is not None and program.source.cells is not None:
        checked = by_cell(checked, program.source.cells)
    cut_short = _cut_short(result)
    checked.cut_short = bool(cut_short)
    _show(checked, page, options, cut_short)
    if result.interrupted or result.how_ended == "cancelled":
        return 128 + (result.interrupted or signal.SIGINT)
    status = exit_status([checked], exit_zero=options.exit_zero)
    return CUT_SHORT if status == NOTHING_FOUND and cut_short and not options.exit_zero else status


def _end_lines(unfinished: Mapping[TextIO, bool], options: argparse.Namespace) -> None:
    """End the line that a program left unfinished on a stream on which something is said of it now."""
    for stream, goes_on in unfinished.items():
        if goes_on and (stream is sys.stderr or options.output_file is None):
            with contextlib.suppress(UsageError, BrokenPipeError):
                write("\n", stream)


def _told_parameters(checked: Checked) -> set[str]:
    """Return the names of the parameters that the evidence of findings tells of."""
    evidence = (finding.evidence for finding in checked.findings if finding.evidence is not None)
    return {str(name) for one in evidence for name in one.measured.get("parameters", ())}


def _show(checked: Checked, page: html.Run, options: argparse.Namespace, cut_short: str) -> None:
    """Write the report, and the page, even where the report cannot be written (a terminal that was closed)."""
    with contextlib.ExitStack() as last:
        if options.html is not None:
            last.callback(_write_page, options.html, page)
        if options.output_format != "html":
            shown = _without_refuted(checked) if options.output_format in _FOR_SERVICES else checked
            write_report([shown], Sources(), options, evidence=True, run=True)
            if cut_short and options.output_format in FOR_PEOPLE:
                if options.output_file is None:
                    write(f"{cut_short}\n")
                else:
                    # Standard output is the program's alone then.
                    say(cut_short)
        elif options.output_file is not None:
            _write_page(options.output_file, page)
        else:
            write(html.render(page))


def _doubt_options(program: _Program, options: argparse.Namespace) -> None:
    """Say which options may not be meant as they are given."""
    for name, written in _misplaced(program, options):
        say(
            f"{name} follows the script and is passed to it; options of `tapecheck run` come before the script: "
            f"`tapecheck run {written} {options.script}`"
        )
    if program.request.launcher and (starting := _starts_processes(program)):
        say(f"{starting} starts processes itself: if the ranks wait for ever, run it without --ranks and --launcher")


def _misplaced(program: _Program, options: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """Yield options of this command that were given to a script whose code has no such word, each also with what
    follows it as its value.
    """
    if options.module is not None:
        return
    lines = [line for source in program.sources.values() for line in source.lines]
    # An option `--batch-size` is written so, or as the variable that it sets.
    words = {word for line in lines for word in re.findall(r"--[\w-]+|\w+", line)}
    given = program.request.args
    for argument, after in itertools.zip_longest(given, given[1:], fillvalue="-"):
        name, equals, _ = argument.partition("=")
        if not name.startswith("--") or name not in options.takes_value:
            continue
        if name in words or name[2:].replace("-", "_") in words:
            continue
        has_value = options.takes_value[name] and not equals and not after.startswith("-")
        yield name, shlex.join([argument, after] if has_value else [argument])


def _starts_processes(program: _Program) -> str:
    """Return the file and line of a call by which a program starts ranks of its own, nothing where none is seen."""
    for path, source in program.sources.items():
        code = Code(source)
        for node in source.nodes():
            if isinstance(node, ast.Call) and code.path(node.func) in _STARTERS:
                return f"{path}:{node.lineno}"
    return ""


_ELSEWHERE = (
    "Nothing was trained in this process. Those that it started were not recorded: run the script that trains, with "
    "`--launcher` for what starts it."
)


def _cut_short(result: RunResult) -> str:
    """Return what a run that did not come to its end, or trained nothing, leaves open, nothing for a whole one."""
    if result.failure and not result.backwards:
        return f"Not recorded: {result.failure.removeprefix('not recorded: ')}."
    if result.how_ended == "raised" and not result.backwards and result.ran_elsewhere:
        return _ELSEWHERE
    if result.how_ended != "finished":
        return "The run was cut short: what would have come later was not seen."
    if result.failure:
        return f"The recording may have gaps: {result.failure}."
    if result.lost:
        return "The recording was cut short: what came later was not seen."
    if not result.backwards and result.unrecorded:
        return "The training was not recorded: it ran in forked processes."
    if not result.backwards:
        return _ELSEWHERE if result.ran_elsewhere else "Nothing was trained: no backward ran."
    return ""


def _last_words(result: RunResult) -> list[str]:
    """Return the last lines of standard error of a program that failed before any backward."""
    if result.backwards or result.exit_code in (0, None) or result.how_ended == "raised":
        return []
    lines = [line for line in result.stderr.splitlines() if line.strip()][-_LAST_LINES:]
    return [f"  {line}" for line in lines]


def _without_refuted(checked: Checked) -> Checked:
    """Return what was found without what the run refuted, for services that show findings and no evidence."""
    kept = [
        index
        for index, finding in enumerate(checked.findings)
        if finding.evidence is None or finding.evidence.verdict != "refuted"
    ]
    return dataclasses.replace(
        checked,
        findings=[checked.findings[index] for index in kept],
        fixes=[checked.fixes_of(index) for index in kept],
        trials=[checked.trial_of(index) for index in kept],
    )


def _checked_script(options: argparse.Namespace, wanted: CheckOptions) -> tuple[str | None, Checked, Source | None]:
    """Check the script or module that is to be run; a module that no file is found for is run unchecked."""
    if options.module is not None:
        if not options.module:
            raise UsageError("-m needs the name of a module")
        options.script, *options.arguments = options.module
        file = _file_of(options.script)
        if file is None:
            return None, Checked(options.script, checked=False), None
        return file, *check_program(file, wanted)
    if is_folder(options.script):
        raise UsageError(f"{options.script}: is a directory: name a script in it")
    if not is_file(options.script):
        raise UsageError(f"{options.script}: no such file")
    return options.script, *check_program(options.script, wanted)


def _program(options: argparse.Namespace, wanted: CheckOptions) -> _Program:
    if options.module is None and options.script is None:
        _from_project(options, wanted.projects.setup)
    if options.python is None:
        options.python = _interpreter(options)
    # What the program imports is what the interpreter that runs it would find.
    setup = wanted.projects.setup.with_interpreters({"": options.python})
    wanted = dataclasses.replace(wanted, projects=Projects(setup))
    file, checked, source = _checked_script(options, wanted)
    project = wanted.projects.of(checked.path)
    require_configuration([project])
    program = _Program(checked, source, RunRequest(options.script), project)
    told = project.rules(wanted.rules)
    program.asked = frozenset(map(real_path, options.confirm))
    program.unwanted = frozenset(rule.code for rule in ALL if not told.wants(rule.code, rule.name))
    if source is not None:
        program.sources[checked.path] = source
    _check_others(program, [file] if file is not None else [], options, wanted)
    checked.checked = checked.checked or bool(program.sources)
    program.request = _request(options, checked, source)
    return program


def _request(options: argparse.Namespace, checked: Checked, source: Source | None) -> RunRequest:
    """Return how to run what was checked."""
    held = options.tape is not None or options.html is not None or options.output_format in ("html", "json-report")
    request = RunRequest(
        script=options.script,
        args=options.arguments,
        python=options.python,
        timeout=options.timeout,
        max_iterations=options.max_iterations,
        max_backward=options.max_backward,
        watch=lines_of(checked.findings),
        passes=passes_of(checked.findings),
        own=options.confirm,
        tape=options.tape,
        module=options.module is not None,
        launcher=options.launcher,
        env=_OWN_STORE if tuple(options.launcher[-len(ANYWHERE) :]) == ANYWHERE else {},
        grace=options.grace,
        stdin=options.stdin,
        held=held,
        levels=held or asks_for_levels(checked.findings),
    )
    if source is not None and source.cells is not None:
        # As Jupyter has it: cells run where the notebook lies, and figures need no display.
        path = Path(options.script).absolute()
        return dataclasses.replace(
            request, script=str(path), name=options.script, text="\n".join(source.lines), notebook=True,
            cwd=str(path.parent), env={"MPLBACKEND": os.environ.get("MPLBACKEND", "Agg")},
        )  # fmt: skip
    if options.script.endswith(SUFFIX):
        raise UsageError("; ".join(problem.message for problem in checked.problems) or f"{options.script}: no notebook")
    return request


def _interpreter(options: argparse.Namespace) -> str:
    """Return the Python that runs the program, and say where it is from unless it is Tapecheck's own."""
    folder = "." if options.module is not None or is_folder(options.script) else str(Path(options.script).parent)
    found = find_interpreter(folder)
    if found.found and not options.quiet:
        say(f"Tapecheck's own Python has no torch: running with {found.python}, {found.found} (--python for another)")
    elif found.others and not options.quiet:
        say(f"no torch in {', '.join(found.others)} either")
    return found.python


def _from_project(options: argparse.Namespace, setup: Setup) -> None:
    """Take from the project's configuration what is to be run, and go to where it is run."""
    entry = entry_for(str(Path(options.confirm[0] if options.confirm else FILE).absolute()), setup)
    if entry is None:
        raise UsageError(
            "name a script to run, a module with -m, or the program that runs this project: "
            f"run = [...] under [tool.tapecheck] in its {FILE}"
        )
    options.confirm = [str(Path(name).absolute()) for name in options.confirm]
    for name in ("tape", "html"):
        if getattr(options, name) is not None:
            setattr(options, name, str(Path(getattr(options, name)).absolute()))
    os.chdir(entry.folder)
    options.confirm = [
        os.path.relpath(name) if Path(name).is_relative_to(Path.cwd()) else name for name in options.confirm
    ]
    options.script, options.arguments = entry.script, list(entry.args)
    if entry.module:
        options.module = [entry.script, *entry.args]
    options.launcher = options.launcher or list(entry.launcher)


def _check_others(program: _Program, first: list[str], options: argparse.Namespace, wanted: CheckOptions) -> None:
    """Check the other files of the program, too: those that are asked for, named by arguments, imported."""
    checked = program.checked
    for name in options.confirm:
        if not is_file(name):
            raise UsageError(f"{name}: no such file")
    began = time.monotonic()
    known = {real_path(name) for name in program.sources}
    elsewhere = [(checked.path, finding) for finding in checked.elsewhere]
    asked = _asked_files(options)
    left = 0
    for name in [*options.confirm, *files_of(first, options.arguments, setup=wanted.projects.setup)]:
        path = real_path(name)
        if path in known:
            continue
        if time.monotonic() - began > _CHECK_SECONDS and path not in asked:
            left += 1
            continue
        known.add(path)
        other, source = check_program(name, wanted)
        if source is not None and source.cells is None:
            program.sources[name] = source
            elsewhere += [(name, finding) for finding in other.elsewhere]
            _join(checked, other, name if path in asked else None)
    _add_elsewhere(program, elsewhere, wanted)
    if left:
        say(f"{left} more files of the program are judged by the run alone")


def _asked_files(options: argparse.Namespace) -> set[str]:
    """Return the real paths of the files that are asked for, else of the tests that arguments name."""
    names = options.confirm or [argument.partition("::")[0] for argument in options.arguments]
    return {real_path(name) for name in names if name.endswith(".py")}


def _join(checked: Checked, other: Checked, name: str | None) -> None:
    """Add what was found in another file of the program, under a name its problems, too."""
    if name is not None:
        checked.problems += [dataclasses.replace(problem, file=name) for problem in other.problems]
    checked.fixes += [[] for _ in range(len(checked.findings) - len(checked.fixes))]
    checked.findings = [*checked.findings, *other.findings]
    checked.fixes = [*checked.fixes, *(other.fixes_of(index) for index in range(len(other.findings)))]


def _add_elsewhere(program: _Program, found: Sequence[tuple[str, Finding]], wanted: CheckOptions) -> None:
    """Add what one file's code does in another one of the program, unless that file's own check says it, too.

    `found` has the file whose check has found it before each finding.
    """
    checked = program.checked
    mender, effort = Mender(wanted.projects), Effort()
    names = {real_path(name): name for name in program.sources}
    known = {(item.code, real_path(item.span.file), item.span.line) for item in checked.findings}
    for path, finding in found:
        place = real_path(finding.span.file)
        if place not in names or (finding.code, place, finding.span.line) in known:
            continue
        if split_suppressed([finding], suppressions(program.sources[names[place]]))[0]:
            known.add((finding.code, place, finding.span.line))
            checked.fixes += [[] for _ in range(len(checked.findings) - len(checked.fixes))]
            checked.findings = [*checked.findings, finding]
            fixes = mender.mended(path, finding, effort) if wanted.fixes else []
            checked.fixes = [*checked.fixes, fixes]


def _file_of(module: str) -> str | None:
    """Return a module's file as seen from the working directory, by names of files alone; None if it is installed."""
    base = Path(*module.split("."))
    for file in (base / "__main__.py", base.with_name(f"{base.name}.py")):
        if is_file(file):
            return str(file)
    return None


def _run(request: RunRequest, pass_on: Callable[[Output | Progress], None], interrupted: _Interrupted) -> RunResult:
    try:
        return run(request, pass_on, interrupted.is_twice, lambda: interrupted.number)
    except InterpreterError as error:
        raise UsageError(f"{error} (--python)") from error
    except RunError as error:
        raise UsageError(str(error)) from error


@dataclass(slots=True)
class _Interrupted:
    """The signal that came, 0 for none, and how often one did."""

    number: int = 0
    times: int = 0

    def is_set(self) -> bool:
        return bool(self.times)

    def is_twice(self) -> bool:
        return self.times > 1


@contextlib.contextmanager
def _interruptible() -> Iterator[_Interrupted]:
    """Pass the first Ctrl+C, SIGTERM or SIGHUP on to the script; the second one ends it, the third one Tapecheck.

    What was seen of it is reported in each case but the last.
    """
    interrupted = _Interrupted()

    def interrupt(number: int, frame: object) -> None:
        interrupted.times += 1
        interrupted.number = interrupted.number or number
        if interrupted.times > 2:
            raise KeyboardInterrupt

    numbers = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
    # One that is ignored (by nohup) stays so.
    before = {number: signal.getsignal(number) for number in numbers}
    for number in numbers:
        if before[number] is not signal.SIG_IGN:
            signal.signal(number, interrupt)
    try:
        yield interrupted
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _with_evidence(program: _Program, result: RunResult) -> None:
    """Put all findings with their evidence in the place of those without, and the fixes of each beside them."""
    checked = program.checked
    known = {finding.key: checked.fixes_of(index) for index, finding in enumerate(checked.findings)}
    findings = judge(checked.findings, result.tape, directory=program.request.cwd)
    checked.findings = [
        finding for finding in findings if not _switched_off(finding, program) and _is_shown(finding, program)
    ]
    checked.fixes = [known.get(finding.key, []) for finding in checked.findings]


def _trials(program: _Program, interrupted: _Interrupted) -> list[Trial | None]:
    """Run the program twice with a seed, and once with the preferred fix of each finding that the run showed."""
    checked = program.checked
    request = dataclasses.replace(reread(program.request), tape=None, held=False, levels=True, watch=(), passes=())
    mended = [_mended(program, request, index) for index in range(len(checked.findings))]
    if not any(mended):
        say("no fix to try")
        return []
    before: Side | None = None
    again: Side | None = None
    tried: dict[tuple[str | None, tuple[tuple[str, str], ...]], Trial] = {}
    trials: list[Trial | None] = []
    static = [one for one in checked.findings if one.evidence is None or one.evidence.verdict != "found-by-run"]
    watched = dataclasses.replace(request, watch=program.request.watch, passes=program.request.passes)
    for one, finding in zip(mended, checked.findings, strict=True):
        if one is None or interrupted.is_set():
            trials.append(None)
            continue
        key = (one.text, tuple(one.instead.items()))
        try:
            if before is None:
                before = side(watched, None, interrupted.is_set, static)
                again = None if interrupted.is_set() else side(watched, None, interrupted.is_set)
            if key not in tried:
                tried[key] = Trial(before, side(one, None, interrupted.is_set), again)
            trials.append(dataclasses.replace(tried[key], verdict=before.verdicts.get(named(finding), "")))
        except RunError as error:
            raise UsageError(str(error)) from error
    return trials


def _mended(program: _Program, request: RunRequest, index: int) -> RunRequest | None:
    """Return the request that runs the program with the preferred fix of a finding of the run; None without one."""
    checked = program.checked
    finding, fixes = checked.findings[index], checked.fixes_of(index)
    if not fixes or not _is_so(finding):
        return None
    file = finding.span.file
    source = program.sources.get(file)
    text = edited(source.text, file, fixes[0].edits) if source is not None else None
    if text is None:
        return None
    return with_text(request, text, None if file == checked.path and not request.module else file)


def _write_page(path: str, page: html.Run) -> None:
    write_file(path, html.render(page))


def _switched_off(finding: Finding, program: _Program) -> bool:
    """Whether the command line, or a comment in its file, switches off what only the run has found."""
    source = program.sources.get(finding.span.file)
    if finding.evidence is None or finding.evidence.verdict != "found-by-run":
        return False
    if finding.code in program.unwanted:
        return True
    return source is not None and not split_suppressed([finding], suppressions(source))[0]


def _is_shown(finding: Finding, program: _Program) -> bool:
    """Return whether a finding concerns who asked: with `--confirm`, of other files what the run reached."""
    if not program.asked or real_path(finding.span.file) in program.asked:
        return True
    return finding.evidence is not None and finding.evidence.verdict != "not-reached"


def _is_so(finding: Finding) -> bool:
    return finding.evidence is not None and finding.evidence.verdict in ("confirmed", "found-by-run")


_WITHOUT_GPU = ("have NCCL built in", "ProcessGroupNCCL is only supported with GPUs")


def _why_ended(result: RunResult, request: RunRequest) -> str:
    """What ended the program before its end, and what to do where that is known."""
    if result.how_ended == "timeout":
        return f"after {request.timeout:g} seconds (--timeout)"
    said = result.detail.removesuffix(": ")  # an exception without a message
    detail = said if len(said) <= _LONGEST else said[: _LONGEST - 3] + "..."
    if result.how_ended == "raised" and not request.stdin and said.startswith("EOFError: EOF when reading"):
        detail += "; it read standard input, which it gets with --stdin only"
    if result.how_ended == "raised" and any(text in said for text in _WITHOUT_GPU):
        detail += "; nccl needs a GPU, processes on the CPU are joined by gloo"
    return detail


def _ending(result: RunResult, request: RunRequest) -> str:
    """How the program ended and how far it had come."""
    seen = _seen(result, request)
    if result.how_ended == "finished":
        code = f", exit code {result.exit_code}" if result.exit_code else ""
        ended = "ran to its end" if result.backwards or not result.exit_code else "ended before it trained anything"
        lost = f"; {result.detail}" if result.lost else ""
        return f"the script {ended} ({seen}{code}){lost}"
    ways = {
        "raised": "the script ended with an exception",
        "stopped": "the script was stopped",
        "timeout": "the script was stopped",
        "cancelled": "the script was interrupted",
        "died": "the script died",
    }
    if result.how_ended == "cancelled" and not result.interrupted:
        return f"{ways[result.how_ended]} ({seen})"
    detail = _why_ended(result, request)
    colon = "" if detail.startswith("after ") and result.how_ended in ("stopped", "timeout") else ":"
    return f"{ways[result.how_ended]}{colon} {detail} ({seen})"


def _seen(result: RunResult, request: RunRequest) -> str:
    """Return how far a program had come."""
    iterations = f"{result.iterations} iteration{'s' * (result.iterations != 1)}"
    backwards = f"{result.backwards} backward call{'s' * (result.backwards != 1)}"
    if request.max_iterations and result.backwards and not result.iterations:
        iterations += ": no loop was seen for --max-iterations to end"
    device = mean_time(result.tape)
    least = "at least " * (result.lost and bool(result.backwards))
    return f"{least}{iterations}, {backwards}, {result.seconds:.1f} s" + (f", {device}" if device else "")
