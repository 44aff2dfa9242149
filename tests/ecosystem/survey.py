"""Checks many files in worker processes that may hang or die: each file gets an answer, whatever it holds."""

from __future__ import annotations

import ast
import multiprocessing
import os
import signal
import time
import warnings
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path

from tapecheck.cli.checking import CheckOptions, check_file
from tapecheck.cli.files import find_files
from tapecheck.source.cells import SUFFIX, split_cell
from tapecheck.source.notebook import read_notebook
from tapecheck.source.text import SourceError

MAX_EXCERPT = 300


@dataclass(frozen=True, slots=True)
class Found:
    """A finding as it is remembered: `path` is relative to its repository, `excerpt` the line without its margin.

    `loop` is the line of the loop that it speaks of, where that is in the same file or cell. `fixes` is how many fixes
    hold, None where they were not worked out: of a finding in an imported file that is done in the file's own check.
    """

    repository: str
    path: str
    line: int
    code: str
    severity: str
    certain: bool
    message: str
    excerpt: str
    loop: int | None = None
    fixes: int | None = None


@dataclass(slots=True)
class FileResult:
    """What came of one file.

    `lines` counts those that hold neither nothing nor only a comment; `seconds` is CPU time. `problems` are
    what is wrong with the file, `gaps` where the dry run believes that its code raises, `crash` what went wrong with
    the check.
    """

    repository: str
    path: str
    lines: int = 0
    training: bool = False
    seconds: float = 0.0
    findings: list[Found] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    gaps: list[str] = field(default_factory=list)
    crash: str | None = None


@dataclass(frozen=True, slots=True)
class Task:
    """A file to check, and what for."""

    repository: str
    root: str
    path: str
    wanted: CheckOptions


def tasks(folder: Path, wanted: CheckOptions, only: Sequence[str] = ()) -> Iterator[Task]:
    """The Python files of each repository (sub-folder) of a folder, in the order of names."""
    for repository in sorted(entry for entry in folder.iterdir() if entry.is_dir()):
        if repository.name.startswith(".") or (only and not any(name in repository.name for name in only)):
            continue
        for path in find_files([str(repository)]):
            if isinstance(path, str):
                yield Task(repository.name, str(repository), path, wanted)


def survey(
    todo: Sequence[Task], *, jobs: int = 1, limit_s: float = 120.0, memory_gb: float = 4.0
) -> Iterator[FileResult]:
    """Check all files, in whatever order they are done; a check over its limits is stopped and reported as a crash.

    `limit_s` is wall-clock time for one file, `memory_gb` the address space of one worker.
    """
    queue = deque(todo)
    workers: list[_Worker] = []
    try:
        while queue or workers:
            while queue and len(workers) < jobs:
                worker = _Worker(memory_gb)
                workers.append(worker)
                worker.start(queue.popleft(), limit_s)
            patience = max(0.0, min(worker.deadline for worker in workers) - time.monotonic())
            ready = wait([worker.pipe for worker in workers], timeout=patience)
            for worker in list(workers):
                if worker.pipe in ready:
                    result = worker.answer()
                elif worker.deadline <= time.monotonic():
                    result = worker.failed(f"not done after {limit_s:g} s")
                    worker.stop()
                else:
                    continue
                yield result
                if worker.alive and queue:
                    worker.start(queue.popleft(), limit_s)
                else:
                    worker.stop()
                    workers.remove(worker)
    finally:
        for worker in workers:
            worker.stop()


class _Worker:
    """A process that checks one file after the other."""

    def __init__(self, memory_gb: float) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_work, args=(theirs, memory_gb), daemon=True)
        self.process.start()
        theirs.close()
        self.deadline = 0.0
        self.alive = True
        self.task: Task | None = None

    def start(self, task: Task, limit_s: float) -> None:
        self.task = task
        self.deadline = time.monotonic() + limit_s
        try:
            self.pipe.send(task)
        except OSError:  # it died between two files: reading from the pipe will say so
            self.alive = False

    def answer(self) -> FileResult:
        try:
            result = self.pipe.recv()
            assert isinstance(result, FileResult)
            return result
        except (EOFError, OSError):
            self.process.join(5)
            self.alive = False
            return self.failed(f"the process died ({_ending(self.process.exitcode)})")

    def failed(self, why: str) -> FileResult:
        assert self.task is not None
        path = os.path.relpath(self.task.path, self.task.root)
        lines, training = measure(self.task.path)
        return FileResult(self.task.repository, path, lines, training, crash=why)

    def stop(self) -> None:
        self.alive = False
        self.pipe.close()
        if self.process.is_alive():
            self.process.kill()
        self.process.join()


def _ending(code: int | None) -> str:
    if code is not None and code < 0:
        return signal.Signals(-code).name
    return f"exit status {code}"


def _work(pipe: Connection, memory_gb: float) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    warnings.simplefilter("ignore")  # of the checked files: invalid escapes and the like
    try:
        import resource

        limit = int(memory_gb * 2**30)
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    except (ImportError, ValueError, OSError):
        pass  # a system without such limits
    while True:
        try:
            task = pipe.recv()
        except (EOFError, OSError):
            return
        pipe.send(check_one(task))


def check_one(task: Task) -> FileResult:
    """Check one file here; an exception becomes the result's `crash`."""
    path = os.path.relpath(task.path, task.root)
    result = FileResult(task.repository, path)
    start = time.process_time()
    try:
        checked = check_file(task.path, task.wanted)
    except (Exception, RecursionError, MemoryError) as error:
        result.crash = f"{type(error).__name__}: {error}"
        return result
    result.seconds = time.process_time() - start
    rows = _rows(task.path)
    for index, finding in enumerate([*checked.findings, *checked.elsewhere]):
        name, _ = split_cell(finding.span.file)
        lines = checked.texts.get(finding.span.file) or (rows if _same(name, task.path) else _rows(name))
        row = lines[finding.span.line - 1].strip() if finding.span.line <= len(lines) else ""
        result.findings.append(
            Found(
                task.repository,
                os.path.relpath(finding.span.file, task.root),
                finding.span.line,
                finding.code,
                finding.severity,
                finding.certain,
                finding.message,
                row[:MAX_EXCERPT],
                loop.line if (loop := finding.facts.loop) and loop.file == finding.span.file else None,
                len(checked.fixes_of(index)) if task.wanted.fixes and index < len(checked.findings) else None,
            )
        )
    for problem in checked.problems:
        if problem.kind == "internal-error":
            result.crash = problem.message
        else:
            result.problems.append(f"line {problem.line}: {problem.message}")
    for kind, span in checked.gaps:
        if _same(span.file, task.path):
            result.gaps.append(f"{kind} {path}:{span.line}: {rows[span.line - 1].strip()[:MAX_EXCERPT]}")
    result.lines, result.training = measure(task.path)
    return result


def measure(path: str) -> tuple[int, bool]:
    """The lines of a file that hold code, and whether it trains anything.

    A file trains where it calls `backward` or `manual_backward`, `torch.autograd.grad`, or the `step` of an
    optimizer: one that is given nothing or a closure (`env.step(action)` of reinforcement learning is none).
    """
    text = _text(path)
    lines = sum(1 for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#"))
    if "torch" not in text:
        return lines, False
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return lines, False
    grads = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "torch.autograd"
        for alias in node.names
        if alias.name == "grad"
    }
    return lines, any(isinstance(node, ast.Call) and _trains(node, grads) for node in ast.walk(tree))


def _trains(call: ast.Call, grads: set[str]) -> bool:
    function = call.func
    if isinstance(function, ast.Name):
        return function.id in grads
    if not isinstance(function, ast.Attribute):
        return False
    if function.attr in ("backward", "manual_backward"):
        return True
    if function.attr == "grad":
        return isinstance(function.value, (ast.Attribute, ast.Name)) and _last(function.value) == "autograd"
    if function.attr == "step":
        return not call.args or (len(call.args) == 1 and _is_closure(call.args[0]))
    return False


def _is_closure(value: ast.expr) -> bool:
    return isinstance(value, ast.Lambda) or (isinstance(value, ast.Name) and "closure" in value.id)


def _last(value: ast.Attribute | ast.Name) -> str:
    return value.attr if isinstance(value, ast.Attribute) else value.id


def _same(one: str, other: str) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)


def _rows(path: str) -> list[str]:
    return _text(path).splitlines()


def _text(path: str) -> str:
    """The program of a file: a notebook's is that of its cells, one after the other."""
    if path.endswith(SUFFIX):
        try:
            return read_notebook(path).text
        except SourceError:
            return ""
    try:
        return Path(path).read_bytes().decode("utf-8", errors="replace")
    except OSError:
        return ""
