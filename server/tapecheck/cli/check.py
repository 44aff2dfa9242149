"""`tapecheck check`: findings of files and folders, in the format asked for."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Literal

from tapecheck.cli import cache
from tapecheck.cli.across import Mend, Mender, in_imported_files, to_their_files
from tapecheck.cli.checking import CheckOptions, check_callers, check_file, check_files
from tapecheck.cli.choosing import with_lines
from tapecheck.cli.files import STDIN, find_files
from tapecheck.cli.progress import Progress
from tapecheck.cli.shared import (
    FAILED,
    FOUND,
    NOTHING_FOUND,
    UsageError,
    colour_wanted,
    deliver,
    real_path,
    report_width,
    say,
    write,
    write_file,
)
from tapecheck.report import Checked, Problem, Sources, baseline, formats, statistics, text
from tapecheck.report.checked import DEFAULT_LEVEL, Rewrite, edited_together
from tapecheck.report.excerpt import DEFAULT_WIDTH, printable
from tapecheck.source import split_lines, stored
from tapecheck.source.configuration import valid_pattern
from tapecheck.source.files import SKIPPED, Choice
from tapecheck.source.project import Project, Projects, Setup
from tapecheck.source.selection import PerFile, Selection, Wanted
from tapecheck.source.suppress import ALL_RULES

_NAMED = 5
"""So many files are named in one line."""


def check_paths(options: argparse.Namespace) -> int:
    """Check what the command line names, write the report and return the exit status."""
    folder = stored.default_folder() if options.cache else None
    options.paths, lines = with_lines(options.paths)
    wanted = replace(
        wanted_rules(options), edit=_edit(options), cache=folder, lines=lines, alternative=options.alternative or 0,
        ask=options.ask, colour=options.ask and colour_wanted(options.color),
    )  # fmt: skip
    _refuse_narrowing(options, bool(lines))
    projects = wanted.projects
    entries = _entries(options, projects)
    if options.show_files:
        return _show_files(entries, options)
    if options.show_settings:
        return _show_settings(entries, options, projects)
    require_configuration(projects.of(_path_of(entry, options.stdin_filename)) for entry in entries)
    sources = Sources()
    if wanted.edit == "ignore" and STDIN not in options.paths:
        wanted = replace(wanted, from_others=_from_others(entries, options, wanted))
    files = _check_all(entries, options, wanted, sources)
    if wanted.cache is not None:
        cache.prune(wanted.cache)
    _settle(files, wanted, options)
    for file in files:
        if file.rewrite is not None:
            sources.texts.update(file.rewrite.lines)
    if not files:
        _note_nothing(options)
    if options.diff:
        return _write_diff(files, options)
    if options.write_baseline is not None:
        return _write_baseline(files, sources, options)
    return _write_findings(files, sources, options, wanted)


def _write_findings(files: list[Checked], sources: Sources, options: argparse.Namespace, wanted: CheckOptions) -> int:
    """Write what was edited, and the report; return the exit status."""
    if options.verify:
        _verify(files, wanted)
    if wanted.edit:
        _write_edited(files, options)
    if wanted.ask:
        # What is left was shown in full when it was asked about.
        options.output_format = "concise"
    _hide_known(files, sources, options, wanted.projects)
    told = set(map(id, in_imported_files(files, wanted.rules, wanted.projects)))
    for file in files:
        file.elsewhere = [finding for finding in file.elsewhere if id(finding) in told]
    recorded = any(finding.evidence is not None for file in files for finding in file.findings)
    aside = bool(wanted.edit) and STDIN in options.paths
    write_report(files, sources, options, evidence=recorded, aside=aside)
    if not options.quiet:
        _write_notes(files, wanted, options, aside=aside)
    return exit_status(files, exit_zero=options.exit_zero)


def _note_nothing(options: argparse.Namespace) -> None:
    if not options.quiet:
        say("no Python files found under the given paths")
    # The report has nothing to count; programs that read it still get an empty one.
    options.quiet = True


def _verify(files: list[Checked], wanted: CheckOptions) -> None:
    from tapecheck.cli.verifying import verify

    for line in verify(files, wanted.rules, wanted.projects):
        say(line)


def _settle(files: list[Checked], wanted: CheckOptions, options: argparse.Namespace) -> None:
    """Fix what takes several files, and give each finding to its file, with the severity that its project wants."""
    projects = wanted.projects
    mend: Mend = Mender(projects).mended
    fixing = wanted.edit in ("fix", "unsafe") and STDIN not in options.paths
    callers = check_callers(files, wanted, options.jobs) if STDIN not in options.paths else []
    if fixing:
        from tapecheck.cli.fixing_together import Together

        together = Together(files, wanted, callers)
        together.fix()
        mend = together.mended
    to_their_files(
        files, mend if wanted.fixes else None, rules=wanted.rules, projects=projects, edited=fixing, callers=callers
    )
    for file in files:
        apply_configuration(
            file, projects.of(file.path), options.fail_on or DEFAULT_LEVEL, asked=options.fail_on is not None
        )


def _write_notes(files: list[Checked], wanted: CheckOptions, options: argparse.Namespace, *, aside: bool) -> None:
    """Write what is to know besides the report: what was found in other files, and what has been edited."""
    elsewhere = [finding for file in files for finding in file.elsewhere]
    if elsewhere and not options.statistics:
        if options.output_format in formats.FOR_PEOPLE and options.output_file is None and not aside:
            write(text.elsewhere(elsewhere, colour=colour_wanted(options.color)))
        else:
            # The report is of the files that were asked for; programs that read it should get nothing else.
            write(text.elsewhere(elsewhere), sys.stderr)
    if wanted.edit:
        print(text.edited(files, ignored=options.add_ignore, asked=options.ask), end="", file=sys.stderr)


def apply_configuration(file: Checked, project: Project, fail_on: str, *, asked: bool) -> None:
    """Give findings the severities that their project wants, and the file the level that fails.

    `asked` says that the command line names that level, which goes before the configuration.
    """
    from tapecheck.check import severity_of

    configuration = project.configuration
    file.fail_on = fail_on if asked else configuration.fail_on or fail_on
    for finding in file.findings:
        finding.severity = severity_of(finding, configuration)


def _path_of(entry: str | Checked, of_stdin: str = STDIN) -> str:
    if isinstance(entry, Checked):
        return entry.path
    return of_stdin if entry == STDIN else entry


def require_configuration(projects: Iterable[Project]) -> None:
    """Say what is wrong in the configuration of some projects; raises UsageError where anything is.

    A project whose configuration is not read as it was meant would seem to pass.
    """
    from tapecheck.check import configuration_problems

    configurations = {project.configuration.file: project.configuration for project in projects}
    problems = [problem for one in configurations.values() for problem in configuration_problems(one)]
    for problem in problems:
        say(problem)
    if problems:
        raise UsageError("nothing was checked: the configuration cannot be used")


def _edit(options: argparse.Namespace) -> Literal["", "fix", "unsafe", "ignore"]:
    """Return what is done to the files; raises UsageError for options that contradict each other."""
    if options.add_ignore and (options.fix or options.unsafe_fixes):
        raise UsageError("--add-ignore and --fix cannot be used together")
    if options.write_baseline is not None and (options.fix or options.add_ignore or options.diff):
        raise UsageError("--write-baseline cannot be used together with --fix, --diff or --add-ignore")
    if options.add_ignore:
        return "ignore"
    if options.fix or options.diff or options.ask:
        return "unsafe" if options.unsafe_fixes else "fix"
    return ""


def _refuse_narrowing(options: argparse.Namespace, lines: bool) -> None:
    """Raise UsageError where options that narrow what is fixed contradict each other or have nothing to narrow."""
    fixing = options.fix or options.ask
    if lines and not (fixing or options.diff):
        raise UsageError("a line behind a file (FILE:LINE) says what to fix: it wants --fix, --diff or --ask")
    if options.alternative is not None and not lines:
        raise UsageError("--alternative goes with the line of a finding: --fix FILE:LINE --alternative 2")
    read = options.diff or STDIN in options.paths
    if options.ask and (lines or read or options.output_format != "text"):
        raise UsageError("--ask cannot be used together with a line, --diff, standard input or another output format")
    if options.diff and options.output_format not in formats.FOR_PEOPLE:
        raise UsageError(f"--diff prints a patch, not a report as {options.output_format}: leave out one of the two")
    if options.verify and (read or not fixing):
        raise UsageError("--verify goes with --fix or --ask, for files that are written")


def _write_edited(files: list[Checked], options: argparse.Namespace) -> None:
    """Write the edited files; one that changed since it was read, or cannot be written, gets a problem instead.

    Files that a fix has edited together are written together, or all of them keep what they hold.
    """
    for group in edited_together(files):
        file, rewrite = group[0]
        if file.path == options.stdin_filename and STDIN in options.paths:
            sys.stdout.buffer.write(rewrite.after)
            sys.stdout.flush()
            continue
        failed = _write_together([rewrite for _, rewrite in group])
        if failed is None:
            continue
        culprit, why = failed
        for file, rewrite in group:
            where = "" if rewrite is culprit else f"{culprit.path}, which is fixed along with it: "
            file.withhold(f"{where}{why}")


def _put_back(written: list[Rewrite]) -> str:
    """Give files the content that they had; return what is said of those where that failed, too."""
    failed = []
    for rewrite in written:
        try:
            write_file(rewrite.path, rewrite.before)
        except (OSError, UsageError):
            failed.append(rewrite.path)
    return f"; fixed all the same, since the old content could not be put back: {', '.join(failed)}" if failed else ""


def _write_together(rewrites: list[Rewrite]) -> tuple[Rewrite, str] | None:
    """Write files, all or none; return the one that could not be written, and why."""
    for rewrite in rewrites:
        try:
            if Path(rewrite.path).read_bytes() != rewrite.before:
                return rewrite, "it has changed since it was read"
        except OSError as error:
            return rewrite, str(error)
    written: list[Rewrite] = []
    for rewrite in rewrites:
        try:
            write_file(rewrite.path, rewrite.after)
        except (OSError, UsageError) as error:
            return rewrite, f"{error}{_put_back(written)}"
        written.append(rewrite)
    return None


def _say_problems(files: list[Checked]) -> None:
    for file in files:
        for problem in file.problems:
            say(f"{file.path}:{problem.line}: {problem.message}")


def _write_diff(files: list[Checked], options: argparse.Namespace) -> int:
    """Write what would be changed as a patch; the exit status is 1 where there is something."""
    changes = [file.rewrite for file in files if file.rewrite is not None]
    patch = "".join(change.diff for change in changes)
    if options.output_file is not None:
        write_file(options.output_file, patch)
    else:
        colour = colour_wanted(options.color)
        write(text.diff_on_terminal(patch, colour=colour) if colour or sys.stdout.isatty() else patch)
    _say_problems(files)
    if not options.quiet:
        print(text.edited(files, ignored=options.add_ignore, would=True), end="", file=sys.stderr)
    # What is left has no fix that would be made: only what would change counts.
    status = exit_status([replace(file, findings=[]) for file in files], exit_zero=options.exit_zero)
    return FOUND if status == NOTHING_FOUND and changes and not options.exit_zero else status


def _write_baseline(files: list[Checked], sources: Sources, options: argparse.Namespace) -> int:
    """Write the findings of now to a file, for later runs to leave out."""
    written = baseline.written(files, sources, options.write_baseline)
    write_file(options.write_baseline, written)
    _say_problems(files)
    if not options.quiet:
        count = sum(len(file.findings) for file in files)
        print(printable(f"Wrote {text.count(count, 'finding')} to {options.write_baseline}."), file=sys.stderr)
    return exit_status([replace(file, findings=[]) for file in files], exit_zero=options.exit_zero)


def _hide_known(files: list[Checked], sources: Sources, options: argparse.Namespace, projects: Projects) -> None:
    """Take out of the report what baselines have, and say which of their entries are there no more."""
    for path, own in _baselines(files, options, projects).items():
        try:
            known = baseline.read(path)
        except baseline.BaselineError as error:
            raise UsageError(str(error)) from error
        gone = baseline.hide(own, sources, known, path)
        if options.quiet:
            continue
        if hidden := sum(file.known for file in own):
            say(f"{text.count(hidden, 'finding')} of {path} left out")
        if gone:
            entries = "1 entry" if gone == 1 else f"{gone} entries"
            say(f"{entries} of {path} found no more: write it anew with --write-baseline")


def _baselines(files: list[Checked], options: argparse.Namespace, projects: Projects) -> dict[str, list[Checked]]:
    """Return the files by the baseline that holds for them: that of the command line, or of their project."""
    if options.baseline is not None:
        return {options.baseline: files}
    found: dict[str, list[Checked]] = {}
    for file in files:
        project = projects.of(file.path).configuration
        if project.baseline is not None:
            path = os.path.join(project.folder, project.baseline)  # noqa: PTH118
            found.setdefault(os.path.relpath(path), []).append(file)
    return found


def wanted_rules(options: argparse.Namespace) -> CheckOptions:
    """Return the rules that a command line asks for; raises UsageError where it names one that does not exist."""
    from tapecheck.check import unknown_rule

    if options.config is not None and not Path(options.config).is_file():
        raise UsageError(f"{options.config}: no such file")
    rules = _selection(options)
    per_file = (*(rules.per_file_ignores or ()), *rules.extend_per_file_ignores)
    named = [
        *(rules.select or ()),
        *rules.extend_select,
        *rules.ignore,
        *(name for _, names in per_file for name in names),
    ]
    for name in named:
        wrong = unknown_rule(name)
        if wrong is not None:
            raise UsageError(wrong)
    shown = options.output_format in formats.WITH_FIXES or options.output_format == "html"
    setup = Setup(options.config, options.isolated, effort=options.effort)
    return CheckOptions(rules, options.fixes and shown, projects=Projects(setup))


def _selection(options: argparse.Namespace) -> Selection:
    """Return what the command line says of rules; its patterns are relative to the working directory."""
    select, per_file = options.select, options.per_file_ignores
    return Selection(
        tuple(select) if select is not None else None,
        tuple(options.ignore),
        tuple(options.extend_select),
        tuple(per_file) if per_file is not None else None,
        tuple(options.extend_per_file_ignores),
        str(Path.cwd()) if per_file or options.extend_per_file_ignores else ".",
    )


def write_report(
    files: list[Checked],
    sources: Sources,
    options: argparse.Namespace,
    *,
    evidence: bool = False,
    run: bool = False,
    aside: bool = False,
) -> None:
    """Write findings and problems to standard output, or to the file asked for, in the wanted format.

    `evidence` says that findings may have some, `run` that all of them were held against a run. `aside` puts the report
    on standard error, where standard output holds an edited text. In formats for
    programs, problems are said on standard error too, since people read that.
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
        write(report, sys.stderr if aside else None)
    if name not in formats.FOR_PEOPLE or to_file:
        _say_problems(files)
    partly = [file.path for file in files if file.incomplete]
    if partly and (options.statistics or name in formats.WITHOUT_LIMITS):
        more = f" and {len(partly) - _NAMED} more" if len(partly) > _NAMED else ""
        say(f"work limit reached, checked in part: {', '.join(partly[:_NAMED])}{more}")


def exit_status(files: list[Checked], *, exit_zero: bool = False) -> int:
    """Return 0 where nothing fails, 1 for findings that fail and files with problems, 2 where Tapecheck failed.

    It failed, too, where a fix was to be verified and could not be. With `exit_zero` findings and files that cannot be
    read make no failure.
    """
    problems = [problem for file in files for problem in file.problems]
    if any(problem.kind == "internal-error" for problem in problems) or any(file.unverified for file in files):
        return FAILED
    if exit_zero:
        return NOTHING_FOUND
    return FOUND if problems or any(map(_fails, files)) else NOTHING_FOUND


def _fails(file: Checked) -> bool:
    return any(file.fails(finding) for finding in file.findings)


def choice_of(options: argparse.Namespace) -> Choice:
    """Return what the command line says of the files to leave out."""
    for name in [*(options.exclude or ()), *options.extend_exclude]:
        if not valid_pattern(name):
            raise UsageError(f"{name!r} is not a valid pattern")
    exclude = tuple(options.exclude) if options.exclude is not None else None
    return Choice(exclude, tuple(options.extend_exclude), options.respect_gitignore, options.force_exclude)


def _entries(options: argparse.Namespace, projects: Projects) -> list[str | Checked]:
    """Return the files that are to be checked here, and those that cannot be read."""
    entries = list(find_files(options.paths, choice_of(options), projects))
    if options.shard is not None:
        first, step = options.shard
        return entries[first - 1 :: step]
    return entries


def _show_files(entries: list[str | Checked], options: argparse.Namespace) -> int:
    """Write the names of the files, one a line."""
    names = [entry.path if isinstance(entry, Checked) else entry for entry in entries]
    listed = "".join(f"{printable(name)}\n" for name in names)
    deliver(listed, options.output_file)
    return exit_status([entry for entry in entries if isinstance(entry, Checked)], exit_zero=options.exit_zero)


def _show_settings(entries: list[str | Checked], options: argparse.Namespace, projects: Projects) -> int:
    """Write what holds for the first file, as JSON: the command line, then its configuration, then the defaults."""
    path = next((entry for entry in entries if isinstance(entry, str)), None)
    if path is None:
        raise UsageError("no files, whose settings could be shown")
    if path == STDIN:
        path = options.stdin_filename
    from tapecheck.check import facts_for

    project = projects.of(path)
    require_configuration([project])
    known = {
        "file": path,
        "configuration": project.configuration.file,
        "settings": _effective(project, options),
        "rules": _among(project.rules(_selection(options))),
        "torch_facts": facts_for(project),
    }
    written = json.dumps(known, indent=2) + "\n"
    deliver(written, options.output_file)
    return NOTHING_FOUND


def _effective(project: Project, options: argparse.Namespace) -> dict[str, object]:
    """Return the settings by their keys as they hold for a file; None where there is no value, such as no baseline."""
    from tapecheck.source.search import torch_of

    rules = _selection(options)
    said = {
        "fail-on": options.fail_on,
        "exclude": options.exclude,
        "respect-gitignore": options.respect_gitignore,
        "force-exclude": options.force_exclude,
        "baseline": options.baseline,
    }
    defaults = {
        "select": [ALL_RULES],
        "fail-on": DEFAULT_LEVEL,
        "exclude": sorted(SKIPPED),
        "torch-version": torch_of(project),
    }
    known = project.configuration.settings()
    known.update({key: value for key, value in said.items() if value is not None})
    if rules.select is not None or rules.extend_select or rules.ignore:
        # Two layers are one list in a file: the rules that they come to.
        known["select"] = _among(Wanted(project.rules(rules).layers))
        known["extend-select"], known["ignore"], known["extend-ignore"] = [], [], []
    if rules.per_file_ignores is not None:
        known["per-file-ignores"], known["extend-per-file-ignores"] = _merged(rules.per_file_ignores), {}
    added = {**known["extend-per-file-ignores"], **_merged(rules.extend_per_file_ignores)}
    known["extend-per-file-ignores"] = added
    known["extend-exclude"] = [*known["extend-exclude"], *options.extend_exclude]
    return {key: defaults.get(key) if value is None else value for key, value in known.items()}


def _among(wanted: Wanted) -> list[str]:
    from tapecheck.check import NOTES
    from tapecheck.rules import ALL

    every = [*((rule.code, rule.name) for rule in ALL), *((note, note) for note in NOTES)]
    return [code for code, name in every if wanted.wants(code, name)]


def _merged(per_file: PerFile) -> dict[str, list[str]]:
    """Return patterns with all of their rules, as a configuration file has them."""
    found: dict[str, list[str]] = {}
    for pattern, rules in per_file:
        found.setdefault(pattern, []).extend(rules)
    return found


def _check_all(
    entries: list[str | Checked], options: argparse.Namespace, wanted: CheckOptions, sources: Sources
) -> list[Checked]:
    """Check all that the command line names, and show how far it is."""
    paths = [entry for entry in entries if isinstance(entry, str) and entry != STDIN]
    checked = check_files(paths, wanted, 1 if wanted.ask else options.jobs)
    count = len(entries)
    files: list[Checked] = []
    with Progress(count, "checked", hidden=options.quiet or count < 2) as progress:
        for entry in entries:
            if isinstance(entry, Checked):
                file = entry
            elif entry == STDIN:
                file = _check_stdin(options.stdin_filename, wanted, sources)
            else:
                file = next(checked)
            files.append(file)
            progress.step(file.path)
    return files


def _from_others(
    entries: list[str | Checked], options: argparse.Namespace, wanted: CheckOptions
) -> dict[str, tuple[tuple[str, int, int], ...]]:
    """Return the codes, first and last lines of what is found in each file, by the check of whichever file."""
    from tapecheck.rules import ALL

    rules = frozenset(rule.code for rule in ALL)
    unedited = replace(wanted, edit="", fixes=False)
    files = _check_all(entries, options, unedited, Sources())
    callers = check_callers(files, unedited, options.jobs)
    to_their_files(files, rules=wanted.rules, projects=wanted.projects, callers=callers)
    return {
        real_path(file.path): tuple(
            (one.code, one.span.line, max(one.span.line, one.span.end_line))
            for one in file.findings
            if one.code in rules
        )
        for file in files
        if not file.texts
    }


def _check_stdin(name: str, wanted: CheckOptions, sources: Sources) -> Checked:
    from tapecheck.source import SourceError
    from tapecheck.source.cells import SUFFIX
    from tapecheck.source.notebook import MAX_NOTEBOOK_BYTES, parse_notebook
    from tapecheck.source.text import parse_source

    data = sys.stdin.buffer.read(MAX_NOTEBOOK_BYTES + 1)
    if wanted.edit:
        return _edit_stdin(data, name, wanted)
    try:
        source = parse_notebook(data, name) if name.endswith(SUFFIX) else parse_source(data, name)
    except SourceError as error:
        return Checked(name, problems=[Problem("io-error", str(error).removeprefix(f"{name}: "))])
    if source.cells is None:
        sources.texts[name] = source.lines
    return check_file(name, wanted, source)


def _edit_stdin(data: bytes, name: str, wanted: CheckOptions) -> Checked:
    """Edit what standard input holds; it comes out as it was where nothing is to be changed."""
    checked = check_file(name, wanted, data=data)
    if checked.rewrite is None:
        lines = split_lines(data.decode("utf-8", "replace"))
        checked.rewrite = Rewrite(name, data, data, lines={name: lines} if not checked.texts else {})
    return checked
