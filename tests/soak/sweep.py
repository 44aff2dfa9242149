"""Every file of some folders through `check`, each in a process of its own: CPU time, memory, and what failed.

    python -m tests.soak.sweep FOLDER... [--cpu 5] [--memory 300] [--most 10] [--jobs 2]

Nothing of the folders is imported or executed. A file fails where Tapecheck has an error of its own or dies, and goes
over where it takes more than so many seconds of CPU or megabytes; the exit status is 1 where any does.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import resource
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tapecheck.check import check
from tapecheck.cli.checking import CheckOptions, check_file
from tapecheck.source import from_text
from tapecheck.source.files import walk

ENDLESS = 300
"""Seconds of CPU after which a file's process is ended."""
_FIRST = "import torch\nw = torch.ones(2, requires_grad=True)\nw.exp().sum().backward()\n"
_MEGABYTE = 1 << 10 if sys.platform != "darwin" else 1 << 20


@dataclass(frozen=True, slots=True)
class Swept:
    """What one file took: seconds of CPU, the most megabytes its process had, its lines.

    `cut` is how many notes say that the work limit ended something, `failed` what went wrong in Tapecheck itself.
    """

    path: str
    cpu: float
    memory: float
    lines: int
    cut: int
    failed: str


def _size(path: str) -> int:
    """The size of a file: the largest are begun first, none of them is waited for in the end."""
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def _begin(path: str) -> tuple[int, int]:
    """Start the check of a file; return its process and where its answer is read."""
    reader, writer = os.pipe()
    child = os.fork()
    if child:
        os.close(writer)
        return child, reader
    try:
        os.close(reader)
        resource.setrlimit(resource.RLIMIT_CPU, (ENDLESS, ENDLESS))
        checked = check_file(path, CheckOptions(fixes=False))
        with open(path, "rb") as file:
            lines = file.read().count(b"\n")
        errors = [problem.message for problem in checked.problems if problem.kind == "internal-error"]
        answer = [lines, len(checked.incomplete), "; ".join(errors)]
        os.write(writer, json.dumps(answer).encode()[:60_000])
    finally:
        os._exit(0)


def _end(path: str, reader: int, status: int, used: resource.struct_rusage) -> Swept:
    with os.fdopen(reader, "rb") as pipe:
        answer = pipe.read()
    lines, cut, failed = json.loads(answer) if answer else (0, 0, f"the process died, status {status}")
    return Swept(path, used.ru_utime + used.ru_stime, used.ru_maxrss / _MEGABYTE, lines, cut, failed)


def sweep(paths: Sequence[str], jobs: int = 1) -> Iterator[Swept]:
    """Check files, `jobs` at a time; needs fork."""
    # A process begins with what this one has: imports are no file's, nor is what is left over from before.
    check(from_text(_FIRST, "first.py"))
    gc.collect()
    gc.freeze()
    running: dict[int, tuple[str, int]] = {}
    waiting = iter(paths)
    while True:
        while len(running) < jobs and (path := next(waiting, None)) is not None:
            child, reader = _begin(path)
            running[child] = path, reader
        if not running:
            return
        child, status, used = os.wait4(-1, 0)
        if child in running:
            yield _end(*running.pop(child), status, used)


def main(argv: Sequence[str] | None = None) -> int:
    """Print the counts, the slowest and the largest files and the failures; return whether there are any."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", metavar="FOLDER")
    parser.add_argument("--cpu", type=float, default=5.0, metavar="SECONDS", help="allowed for a file (default: 5)")
    parser.add_argument("--memory", type=float, default=300.0, metavar="MB", help="allowed for a file (default: 300)")
    parser.add_argument("--most", type=int, default=10, help="how many of the slowest and largest (default: 10)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="(default: one for each core)")
    parser.add_argument("--rows", metavar="FILE", help="write a line of JSON for each file as it is done")
    options = parser.parse_args(argv)
    paths = sorted({path for folder in options.folders for path in walk(folder)}, key=_size, reverse=True)
    began = time.monotonic()
    swept: list[Swept] = []
    with open(options.rows or os.devnull, "w", buffering=1) as rows:
        for one in sweep(paths, options.jobs):
            swept.append(one)
            rows.write(json.dumps([one.path, one.cpu, one.memory, one.lines, one.cut, one.failed]) + "\n")
    failures = [one for one in swept if one.failed]
    slow = sorted(swept, key=lambda one: -one.cpu)
    large = sorted(swept, key=lambda one: -one.memory)
    over = [one for one in swept if one.cpu > options.cpu or one.memory > options.memory]
    print(
        f"{len(swept)} files, {sum(one.lines for one in swept)} lines, {time.monotonic() - began:.0f} s, "
        f"{sum(one.cpu for one in swept):.0f} s of CPU: {len(failures)} failed, "
        f"{sum(one.cpu > options.cpu for one in swept)} over {options.cpu:g} s, "
        f"{sum(one.memory > options.memory for one in swept)} over {options.memory:g} MB, "
        f"{sum(one.cut > 0 for one in swept)} cut short"
    )
    print("slowest:")
    for one in slow[: options.most]:
        print(f"  {one.cpu:6.1f} s {one.memory:5.0f} MB {one.lines:6} lines  {one.path}")
    print("most memory:")
    for one in large[: options.most]:
        print(f"  {one.memory:5.0f} MB {one.cpu:6.1f} s {one.lines:6} lines  {one.path}")
    for one in failures:
        print(f"failed: {one.path}: {one.failed}")
    return int(bool(failures or over))


if __name__ == "__main__":
    sys.exit(main())
