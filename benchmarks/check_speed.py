#!/usr/bin/env python3
"""What `check` costs beside `ast.parse` in the same run, and what the exploration did for it.

    python benchmarks/check_speed.py                       # the programs under tests/cases, and torch/nn where it is
    python benchmarks/check_speed.py --corpus FOLDER       # the checkouts of corpus.txt, too
    python benchmarks/check_speed.py FOLDER_OR_FILE ... [--rounds N] [--slowest N] [--json]

A row for each folder. `ratio` is the figure to compare: CPU time of check over that of ast.parse, in turns, file by
file. `ways` are the runs through programs, `tapes` those whose events the rules read; `first` is the share of the work
that went into the first way of each start, `>1s` the files that took more than a second of CPU time, `cut` those whose
analysis a work limit ended. Fixes are not part of it, since they are worked out when somebody asks for them.
"""

from __future__ import annotations

import argparse
import ast
import gc
import importlib.util
import json
import statistics
import sys
import time
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tapecheck.check import check
from tapecheck.interpret import Explored
from tapecheck.source import SourceError, from_text, read_source

HERE = Path(__file__).parent
CASES = HERE.parent / "tests" / "cases" / "programs"


@dataclass(frozen=True, slots=True)
class Timing:
    """One file: its lines, CPU seconds to parse and to check it (the median of all rounds), what was explored."""

    path: Path
    lines: int
    parse: float
    check: float
    ways: int
    tapes: int
    first_work: int
    work: int
    cut_short: bool


def time_file(path: Path, rounds: int) -> Timing | None:
    """Time a file; None where it cannot be read or parsed."""
    try:
        source = read_source(str(path))
    except SourceError:
        return None
    if source.error is not None:
        return None
    parses, checks = [], []
    log: list[Explored] = []
    for _ in range(rounds):
        # A collection that falls due is the fault of whoever ran before.
        gc.collect()
        log = []
        start = time.process_time()
        ast.parse(source.text)
        middle = time.process_time()
        report = check(from_text(source.text, str(path)), log=log)
        checks.append(time.process_time() - middle)
        parses.append(middle - start)
    return Timing(
        path,
        len(source.lines),
        statistics.median(parses),
        statistics.median(checks),
        len(log),
        len(report.interpretation.tapes),
        sum(way.work for way in log if not way.turned and not way.beyond),
        sum(way.work for way in log),
        bool(report.interpretation.cut_short),
    )


def corpus(folder: Path) -> list[Path]:
    """The checkouts of corpus.txt in a folder; those that are not there are named."""
    found = []
    for line in (HERE / "corpus.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            name = line.split()[0]
            path = folder / name.rpartition("/")[2]
            if path.is_dir():
                found.append(path)
            else:
                print(f"not in {folder}: {name}", file=sys.stderr)
    return found


def torch_nn() -> list[Path]:
    """The folder of torch.nn where torch is installed; it is not imported."""
    spec = importlib.util.find_spec("torch")
    return [Path(spec.origin).parent / "nn"] if spec is not None and spec.origin is not None else []


def figures(timings: Iterable[Timing]) -> dict[str, Any]:
    """The row of one folder."""
    timings = list(timings)
    parse, total = sum(one.parse for one in timings), sum(one.check for one in timings)
    work = sum(one.work for one in timings)
    return {
        "files": len(timings),
        "lines": sum(one.lines for one in timings),
        "ratio": round(total / parse, 1),
        "lines_per_s": round(sum(one.lines for one in timings) / total),
        "ways": sum(one.ways for one in timings),
        "tapes": sum(one.tapes for one in timings),
        "first": round(sum(one.first_work for one in timings) / work, 2) if work else 1.0,
        ">1s": sum(one.check > 1 for one in timings),
        "cut": sum(one.cut_short for one in timings),
        "slowest_ms": round(max(one.check for one in timings) * 1000, 1),
    }


def main() -> None:
    """Time all files and print a row for each folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", type=Path, help="files and folders")
    parser.add_argument("--corpus", type=Path, help="a folder with the checkouts that corpus.txt names")
    parser.add_argument("--rounds", type=int, default=3, help="how often each file is timed (default: 3)")
    parser.add_argument("--slowest", type=int, default=5, help="how many of the slowest files to list")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    paths = options.paths or [CASES, *torch_nn()]
    if options.corpus is not None:
        paths += corpus(options.corpus)
    # The first check reads the facts about torch: that is start-up, not speed.
    check(from_text("import torch\ntorch.ones(1)\n", "warm-up.py"))
    rows: dict[str, dict[str, Any]] = {}
    every: list[Timing] = []
    for path in paths:
        files = sorted(path.rglob("*.py")) if path.is_dir() else [path]
        timings = [timing for file in files if (timing := time_file(file, options.rounds)) is not None]
        if timings:
            rows["torch/nn" if path.parts[-2:] == ("torch", "nn") else path.name] = figures(timings)
            every += timings
    if not every:
        sys.exit("no Python files to time")
    if options.json:
        print(json.dumps(rows, indent=2))
        return
    names = list(next(iter(rows.values())))
    print(f"CPU time, median of {options.rounds} rounds; ratio: check over ast.parse")
    print(f"{'':16}" + "".join(f"{name:>12}" for name in names))
    for name, row in rows.items():
        print(f"{name:16}" + "".join(f"{row[column]:>12}" for column in names))
    for timing in sorted(every, key=lambda timing: timing.check, reverse=True)[: options.slowest]:
        ratio = timing.check / timing.parse
        print(f"  {timing.check * 1000:8.1f} ms  {timing.lines:6} lines  {ratio:7.1f}x  {timing.path.name}")


if __name__ == "__main__":
    main()
