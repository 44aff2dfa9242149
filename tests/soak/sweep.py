"""Every file of some folders through `check`: how many, how long, what failed.

    python -m tests.soak.corpus FOLDER... [--slowest 10]

Nothing of the folders is imported or executed. Each file has a process of its own limits: see `cli/checking.py`.
"""

from __future__ import annotations

import argparse
import sys
import time
from concurrent.futures import ProcessPoolExecutor

from tapecheck.cli.checking import CheckOptions, check_file
from tapecheck.source.files import walk


def measured(path: str) -> tuple[str, float, int, list[str]]:
    """Check one file; return its name, the seconds of CPU, its lines and what failed in Tapecheck itself."""
    began = time.process_time()
    checked = check_file(path, CheckOptions(fixes=False))
    took = time.process_time() - began
    try:
        with open(path, "rb") as file:
            lines = file.read().count(b"\n")
    except OSError:
        lines = 0
    return path, took, lines, [problem.message for problem in checked.problems if problem.kind == "internal-error"]


def main() -> int:
    """Print the counts, the slowest files and the failures; the exit status says whether there are any."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", metavar="FOLDER")
    parser.add_argument("--slowest", type=int, default=10, help="(default: 10)")
    options = parser.parse_args()
    paths = [path for folder in options.folders for path in walk(folder)]
    began = time.monotonic()
    with ProcessPoolExecutor() as pool:
        results = list(pool.map(measured, paths, chunksize=8))
    failures = [(path, message) for path, _, _, messages in results for message in messages]
    lines = sum(count for _, _, count, _ in results)
    print(f"{len(results)} files, {lines} lines, {time.monotonic() - began:.0f} s: {len(failures)} failures")
    for path, took, count, _ in sorted(results, key=lambda result: -result[1])[: options.slowest]:
        print(f"  {took:6.1f} s of CPU, {count} lines: {path}")
    for path, message in failures:
        print(f"{path}: {message}")
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
