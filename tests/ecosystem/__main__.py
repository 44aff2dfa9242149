"""Check a folder of checkouts of public repositories, and say what changed since the last time.

    python -m tests.ecosystem FOLDER                      # each sub-folder is a repository
    python -m tests.ecosystem FOLDER --only pytorch+examples --level warning
    python -m tests.ecosystem FOLDER --memory survey.json # what is compared with, and written afterwards

Prints every finding with its line, counts by rule and level, the lines checked and those of files that train
something, and what is new, gone or changed. Nothing of the checkouts is executed or imported. A file on which
the check fails, hangs or dies is told at the end and makes the exit status 2.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path

from tapecheck.cli.checking import CheckOptions
from tests.ecosystem.memory import Changes, MemoryFileError, compare, read, write
from tests.ecosystem.survey import FileResult, Found, survey, tasks

LEVELS = ("error", "warning", "info", "hint")


def main(arguments: list[str] | None = None) -> int:
    """Run the survey that the command line asks for and answer the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.ecosystem",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", type=Path, help="the folder whose sub-folders are the repositories")
    parser.add_argument("--memory", type=Path, help="JSON file with the last survey; read, then replaced")
    parser.add_argument("--only", action="append", default=[], help="only repositories whose name contains this")
    parser.add_argument("--level", choices=LEVELS, default="hint", help="print findings of this level and above")
    parser.add_argument("--changes", action="store_true", help="print what changed, not every finding")
    parser.add_argument(
        "--fixes", action="store_true", help="work out the fixes too: how many findings have one, and do they crash?"
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="how many processes check files")
    parser.add_argument("--limit", type=float, default=120.0, help="seconds a file may take (default: 120)")
    parser.add_argument("--slow", type=float, default=3.0, help="list files that take more CPU seconds (default: 3)")
    options = parser.parse_args(arguments)
    if not options.folder.is_dir():
        parser.error(f"{options.folder} is no folder")
    try:
        before = read(options.memory) if options.memory is not None else None
    except MemoryFileError as error:
        parser.error(str(error))
    todo = list(tasks(options.folder, CheckOptions(fixes=options.fixes), options.only))
    if not todo:
        parser.error(f"no Python files in the sub-folders of {options.folder}")

    start = time.monotonic()
    missing = Counter(task.repository for task in todo)
    done: dict[str, list[FileResult]] = defaultdict(list)
    for result in survey(todo, jobs=max(1, options.jobs), limit_s=options.limit):
        done[result.repository].append(result)
        missing[result.repository] -= 1
        if not missing[result.repository] and not options.changes:
            print_findings(found_in(done[result.repository]), options.level)
    results = [result for name in sorted(done) for result in sorted(done[name], key=lambda one: one.path)]
    findings = found_in(results)

    looked_at = set(done) if options.only else None
    earlier = [found for found in before or [] if looked_at is None or found.repository in looked_at]
    print_totals(results, time.monotonic() - start, options.slow)
    if before is not None:
        print_changes(compare(earlier, findings))
    if options.memory is not None:
        kept = [found for found in before or [] if looked_at is not None and found.repository not in looked_at]
        write(options.memory, findings, kept)
    return 2 if any(result.crash for result in results) else 0


def found_in(results: list[FileResult]) -> list[Found]:
    """The findings of files, by the names of these; one that several importing files lead to is told once."""
    ordered = sorted(results, key=lambda result: (result.repository, result.path))
    once: dict[tuple[str, str, int, str], Found] = {}
    for found in (found for result in ordered for found in result.findings):
        key = (found.repository, found.path, found.line, found.code)
        if once.setdefault(key, found).fixes is None and found.fixes is not None:
            once[key] = found
    return list(once.values())


def print_findings(findings: list[Found], level: str) -> None:
    """The findings of a repository, of a level and above, with their lines."""
    shown = [found for found in findings if LEVELS.index(found.severity) <= LEVELS.index(level)]
    if shown:
        print(f"\n== {shown[0].repository}")
    for found in shown:
        print(_told(found), flush=True)


def _told(found: Found) -> str:
    place = f"{found.repository}/{found.path}:{found.line}"
    return f"{place}: {found.severity}[{found.code}] {found.message}\n    | {found.excerpt}"


def print_totals(results: list[FileResult], seconds: float, slow: float) -> None:
    """A table by rule and level, the lines, the time, and the files that were trouble."""
    counts = Counter((found.code, found.severity) for result in results for found in result.findings)
    print(f"\n{'':8}" + "".join(f"{level:>9}" for level in LEVELS))
    for code in sorted({code for code, _ in counts}):
        print(f"{code:8}" + "".join(f"{counts[code, level]:9}" for level in LEVELS))
    print(f"{'all':8}" + "".join(f"{sum(counts[c, s] for c, s in counts if s == level):9}" for level in LEVELS))

    judged = [one for one in found_in(results) if one.severity in LEVELS[:2] and one.fixes is not None]
    if judged:
        print(f"\n{sum(1 for one in judged if one.fixes)} of {len(judged)} errors and warnings have a fix that holds")
        for one in judged:
            if not one.fixes:
                print(f"no fix: {one.repository}/{one.path}:{one.line}: {one.code} {one.message}")

    lines = sum(result.lines for result in results)
    training = sum(result.lines for result in results if result.training)
    trainers = sum(result.training for result in results)
    cpu = sum(result.seconds for result in results)
    repositories = len({result.repository for result in results})
    print(f"\n{repositories} repositories, {len(results)} files, {lines} lines of code")
    print(f"{training} of these lines in {trainers} files that train something")
    print(f"{cpu:.0f} s CPU, {seconds:.0f} s in all")
    for result in sorted(results, key=lambda result: -result.seconds):
        if result.seconds > slow:
            print(f"slow: {result.seconds:.1f} s CPU for {result.lines} lines: {result.repository}/{result.path}")
    unreadable = [result for result in results if result.problems]
    print(f"{len(unreadable)} files that Python cannot read as they are")
    gaps = [f"{result.repository}/ {gap}" for result in results for gap in result.gaps]
    print(f"{len(gaps)} places where the dry run believes that the code raises")
    for gap in gaps:
        print(f"gap: {gap}")
    crashes = [result for result in results if result.crash]
    print(f"{len(crashes)} crashes")
    for result in crashes:
        print(f"crash: {result.repository}/{result.path}: {result.crash}")


def print_changes(changes: Changes) -> None:
    """What is new, gone and changed."""
    if not changes:
        print("\nNothing changed since the last survey.")
        return
    print(f"\nSince the last survey: {len(changes.new)} new, {len(changes.gone)} gone, {len(changes.changed)} changed")
    for found in changes.new:
        print(f"+ {_told(found)}")
    for found in changes.gone:
        print(f"- {_told(found)}")
    for old, now in changes.changed:
        print(f"~ {_told(now)}\n    was {old.severity}[{old.code}] {old.message}")


if __name__ == "__main__":
    sys.exit(main())
