#!/usr/bin/env python3
"""How many lines `check` judges in a second of CPU time, beside what `ast.parse` alone takes in the same run.

    python benchmarks/check_speed.py                       # the programs under tests/cases
    python benchmarks/check_speed.py FOLDER_OR_FILE ... [--rounds N] [--slowest N] [--json]

The ratio is the figure to compare: both sides ran on the same machine in turns, file by file. Fixes are not
part of it, since they are worked out when somebody asks for them.
"""

from __future__ import annotations

import argparse
import ast
import json
import statistics
import sys
import time
import warnings
from dataclasses import dataclass
from pathlib import Path

from tapecheck.check import check
from tapecheck.source import SourceError, from_text, read_source

DEFAULT = Path(__file__).parent.parent / "tests" / "cases" / "programs"


@dataclass(frozen=True, slots=True)
class Timing:
    """One file: its lines, and CPU seconds to parse and to check it (the median of all rounds)."""

    path: Path
    lines: int
    parse: float
    check: float


def time_file(path: Path, rounds: int) -> Timing | None:
    """Time a file; None where it cannot be read or parsed."""
    try:
        source = read_source(str(path))
    except SourceError:
        return None
    if source.error is not None:
        return None
    parses, checks = [], []
    for _ in range(rounds):
        start = time.process_time()
        ast.parse(source.text)
        middle = time.process_time()
        check(from_text(source.text, str(path)))
        checks.append(time.process_time() - middle)
        parses.append(middle - start)
    return Timing(path, len(source.lines), statistics.median(parses), statistics.median(checks))


def main() -> None:
    """Time all files and print the totals."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("paths", nargs="*", type=Path, default=[DEFAULT], help="files and folders")
    parser.add_argument("--rounds", type=int, default=5, help="how often each file is timed (default: 5)")
    parser.add_argument("--slowest", type=int, default=5, help="how many of the slowest files to list")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    options = parser.parse_args()
    warnings.simplefilter("ignore")

    files: list[Path] = []
    for path in options.paths:
        files.extend(sorted(path.rglob("*.py")) if path.is_dir() else [path])
    if not files:
        sys.exit("no Python files to time")
    # The first check reads the facts about torch: that is start-up, not speed.
    check(from_text("import torch\ntorch.ones(1)\n", "warm-up.py"))
    timings = [timing for file in files if (timing := time_file(file, options.rounds)) is not None]

    lines = sum(timing.lines for timing in timings)
    parse = sum(timing.parse for timing in timings)
    total = sum(timing.check for timing in timings)
    figures = {
        "files": len(timings),
        "lines": lines,
        "check_lines_per_cpu_second": round(lines / total),
        "parse_lines_per_cpu_second": round(lines / parse),
        "check_to_parse_ratio": round(total / parse, 1),
        "slowest_file_ms": round(max(timing.check for timing in timings) * 1000, 1),
    }
    if options.json:
        print(json.dumps(figures, indent=2))
        return
    print(f"{lines} lines in {len(timings)} files, median of {options.rounds} rounds, CPU time")
    print(f"check      {figures['check_lines_per_cpu_second']:>9} lines/s")
    print(f"ast.parse  {figures['parse_lines_per_cpu_second']:>9} lines/s")
    print(f"check takes {figures['check_to_parse_ratio']} times as long as ast.parse")
    for timing in sorted(timings, key=lambda timing: timing.check, reverse=True)[: options.slowest]:
        ratio = timing.check / timing.parse
        print(f"  {timing.check * 1000:8.1f} ms  {timing.lines:6} lines  {ratio:7.1f}x  {timing.path.name}")


if __name__ == "__main__":
    main()
