"""`tapecheck check`: findings of files and folders, as text or JSON."""

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
)
from tapecheck.report import Checked, Problem, Sources, json, text
from tapecheck.rules.finding import Finding
from tapecheck.source.configuration import configuration_for


def check_paths(options: argparse.Namespace) -> int:
    """Check what the command line names, print the report and answer the exit status."""
    wanted = wanted_rules(options)
    sources = Sources()
    files = list(_check_all(options, wanted, sources))
    for problem in dict.fromkeys(problem for file in files for problem in configuration_for(file.path).problems):
        print(f"tapecheck: {problem}", file=sys.stderr)
    if not files:
        print("tapecheck: no Python files found under the given paths", file=sys.stderr)
    recorded = any(finding.evidence is not None for file in files for finding in file.findings)
    write_report(files, sources, options, evidence=recorded)
    if elsewhere := in_imported_files(files):
        if options.output_format == "json":
            # The list is of the files that were asked for; programs that read it should get nothing else.
            write(text.elsewhere(elsewhere), sys.stderr)
        else:
            write(text.elsewhere(elsewhere, colour=colour_wanted(options.color)))
    return exit_status(files)


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
    return Wanted(select, tuple(options.ignore), options.fixes)


def write_report(
    files: list[Checked], sources: Sources, options: argparse.Namespace, *, evidence: bool = False, run: bool = False
) -> None:
    """Print findings and problems to standard output in the wanted format.

    `evidence` says that findings may have some, `run` that all of them were held against a run.
    With JSON, problems are said on standard error too, since people read that and programs the other.
    """
    if options.output_format == "json":
        write(json.render(files, evidence=evidence))
        for file in files:
            for problem in file.problems:
                print(f"tapecheck: {file.path}:{problem.line}: {problem.message}", file=sys.stderr)
        return
    colour = colour_wanted(options.color)
    write(text.render(files, sources, colour=colour, width=report_width(), recorded=run))


def exit_status(files: list[Checked]) -> int:
    """0 nothing found, 1 findings or files that cannot be read or parsed, 2 where Tapecheck itself failed."""
    problems = [problem for file in files for problem in file.problems]
    if any(problem.kind == "internal-error" for problem in problems):
        return FAILED
    return FOUND if problems or any(file.findings for file in files) else NOTHING_FOUND


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
