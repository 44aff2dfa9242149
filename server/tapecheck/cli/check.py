"""`tapecheck check`: findings of files and folders, in the format asked for."""

from __future__ import annotations

import argparse
import io
import sys
import tokenize
from collections.abc import Iterator

from tapecheck.cli.checking import Wanted, check_file, check_files
from tapecheck.cli.files import STDIN, find_files
from tapecheck.cli.shared import (
    FAILED,
    FOUND,
    NOTHING_FOUND,
    UsageError,
    colour_wanted,
    real_path,
    report_width,
    write,
    write_file,
)
from tapecheck.report import Checked, Problem, Sources, formats, statistics, text
from tapecheck.report.checked import DEFAULT_LEVEL
from tapecheck.report.text import DEFAULT_WIDTH
from tapecheck.rules.finding import Finding
from tapecheck.source.configuration import configuration_for


def check_paths(options: argparse.Namespace) -> int:
    """Check what the command line names, write the report and return the exit status."""
    wanted = wanted_rules(options)
    sources = Sources()
    files = list(_check_all(options, wanted, sources))
    for file in files:
        file.fail_on = options.fail_on or DEFAULT_LEVEL
    for problem in dict.fromkeys(problem for file in files for problem in configuration_for(file.path).problems):
        print(f"tapecheck: {problem}", file=sys.stderr)
    if not files and not options.quiet:
        print("tapecheck: no Python files found under the given paths", file=sys.stderr)
    recorded = any(finding.evidence is not None for file in files for finding in file.findings)
    write_report(files, sources, options, evidence=recorded)
    elsewhere = in_imported_files(files)
    if elsewhere and not options.quiet and not options.statistics:
        if options.output_format in formats.FOR_PEOPLE and options.output_file is None:
            write(text.elsewhere(elsewhere, colour=colour_wanted(options.color)))
        else:
            # The report is of the files that were asked for; programs that read it should get nothing else.
            write(text.elsewhere(elsewhere), sys.stderr)
    return exit_status(files, exit_zero=options.exit_zero)


def in_imported_files(files: list[Checked]) -> list[Finding]:
    """What checked files do in the files that they import, without what those say by themselves or switch off."""
    from tapecheck.check import apart
    from tapecheck.source import SourceError, read_source, suppressions

    known = {(item.code, real_path(item.span.file), item.span.line) for file in files for item in file.findings}
    found: list[Finding] = []
    for finding in (finding for file in files for finding in file.elsewhere):
        place = (finding.code, real_path(finding.span.file), finding.span.line)
        if place in known:
            continue
        known.add(place)
        try:
            found += apart([finding], suppressions(read_source(finding.span.file)))[0]
        except SourceError:
            continue
    return found


def wanted_rules(options: argparse.Namespace) -> Wanted:
    """The rules that a command line asks for; raises UsageError where it names one that does not exist."""
    from tapecheck.rules import ALL

    for name in [*(options.select or ()), *options.ignore]:
        if not any(name == rule.name or rule.code.startswith(name) for rule in ALL):
            raise UsageError(f"no rule is called {name!r}: `tapecheck explain` lists them all")
    select = tuple(options.select) if options.select is not None else None
    shown = options.output_format in formats.WITH_FIXES or options.output_format == "html"
    return Wanted(select, tuple(options.ignore), options.fixes and shown)


def write_report(
    files: list[Checked], sources: Sources, options: argparse.Namespace, *, evidence: bool = False, run: bool = False
) -> None:
    """Write findings and problems to standard output, or to the file asked for, in the wanted format.

    `evidence` says that findings may have some, `run` that all of them were held against a run.
    In formats for programs, problems are said on standard error too, since people read that.
    """
    name, to_file = options.output_format, options.output_file is not None
    if options.statistics:
        if name not in ("text", "concise", "json"):
            raise UsageError(f"--statistics can be shown as text or json, not as {name}")
        report = statistics.render(files, as_json=name == "json")
    else:
        report = formats.render(
            name, files, sources,
            colour=colour_wanted(options.color, to_file=to_file),
            width=DEFAULT_WIDTH if to_file else report_width(),
            quiet=options.quiet, evidence=evidence, recorded=run,
        )  # fmt: skip
    if to_file:
        write_file(options.output_file, report)
    else:
        write(report)
    if name not in formats.FOR_PEOPLE or to_file:
        for file in files:
            for problem in file.problems:
                print(f"tapecheck: {file.path}:{problem.line}: {problem.message}", file=sys.stderr)


def exit_status(files: list[Checked], *, exit_zero: bool = False) -> int:
    """Return 0 where nothing fails, 1 for findings that fail and files with problems, 2 where Tapecheck failed.

    With `exit_zero` findings and files that cannot be read make no failure.
    """
    problems = [problem for file in files for problem in file.problems]
    if any(problem.kind == "internal-error" for problem in problems):
        return FAILED
    if exit_zero:
        return NOTHING_FOUND
    return FOUND if problems or any(map(_fails, files)) else NOTHING_FOUND


def _fails(file: Checked) -> bool:
    return any(file.fails(finding) for finding in file.findings)


def _check_all(options: argparse.Namespace, wanted: Wanted, sources: Sources) -> Iterator[Checked]:
    entries = list(find_files(options.paths))
    paths = [entry for entry in entries if isinstance(entry, str) and entry != STDIN]
    checked = check_files(paths, wanted, options.jobs)
    for entry in entries:
        if isinstance(entry, Checked):
            yield entry
        elif entry == STDIN:
            yield _check_stdin(options.stdin_filename, wanted, sources)
        else:
            yield next(checked)


def _check_stdin(name: str, wanted: Wanted, sources: Sources) -> Checked:
    from tapecheck.source import SourceError, from_text
    from tapecheck.source.notebook import SUFFIX, parse_notebook

    data = sys.stdin.buffer.read()
    if name.endswith(SUFFIX):
        try:
            return check_file(name, wanted, parse_notebook(data, name))
        except SourceError as error:
            return Checked(name, problems=[Problem("io-error", str(error).removeprefix(f"{name}: "))])
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        code = data.decode(encoding).removeprefix("\ufeff")
    except (SyntaxError, UnicodeDecodeError, LookupError) as error:
        return Checked(name, problems=[Problem("io-error", f"not a text that Python can read: {error}")])
    source = from_text(code, name)
    sources.texts[name] = source.lines
    return check_file(name, wanted, source)
