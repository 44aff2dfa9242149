"""Holds programs against themselves: results, files and exit codes with and without the recorder.

    python -m tests.record.transparent                  # the programs of tests/record/programs
    python -m tests.record.transparent FILE... [-- ARGS]

Each program runs twice in an empty folder of its own that holds a copy of what lies beside it, once plainly and once
under the recorder. Standard output, standard error, the exit status, every file that it leaves, and the parameters and
the state of torch's generator that each of its processes ends with must be the same, byte for byte, but for the
folder's name. What differs between two plain runs, too, does not count. Exit status 1 where one differs.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.record.harness import QUIET, plain, probed

HERE = Path(__file__).parent
_LEFT_OUT = shutil.ignore_patterns("__pycache__", ".git", "*.pyc")


def came_to(folder: Path, done: subprocess.CompletedProcess[str]) -> dict[str, str]:
    """Return what a run printed, left behind and ended with, without the name of its folder."""
    names = {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }
    out, err = (text.replace(str(folder), "") for text in (done.stdout, done.stderr))
    return {"standard output": out, "standard error": err, "exit status": str(done.returncode), **names}


def differences(script: Path, arguments: list[str]) -> tuple[list[str], list[str]]:
    """Return in what the recorded run of a script differs from the plain one, and in what that differs from itself."""
    first, second = (_ran(way, script, arguments) for way in (plain, probed))
    names = [name for name in sorted({*first, *second}) if first.get(name) != second.get(name)]
    # A program without a seed, or that prints times, never does the same twice.
    again = _ran(plain, script, arguments) if names else first
    unstable = [name for name in names if first.get(name) != again.get(name)]
    return [name for name in names if name not in unstable], unstable


def _ran(way: Callable[..., subprocess.CompletedProcess[str]], script: Path, arguments: list[str]) -> dict[str, str]:
    with tempfile.TemporaryDirectory() as scratch, tempfile.TemporaryDirectory() as beside:
        folder = Path(scratch) / "program"
        shutil.copytree(script.parent, folder, ignore=_LEFT_OUT)
        options = {} if way is plain else {"tape": str(Path(beside) / "tape.jsonl")}
        ended = Path(beside) / "ended"
        env = {**QUIET, "AT_END": str(ended), "PYTHONPATH": str(HERE / "atend")}
        done = way(script.name, *arguments, cwd=str(folder), env=env, **options)
        lines = sorted(ended.read_text().splitlines()) if ended.exists() else []
        return {**came_to(folder, done), "parameters at the end": "\n".join(lines)}


def main(arguments: list[str]) -> int:
    """Print one line for each program."""
    at = arguments.index("--") if "--" in arguments else len(arguments)
    given, rest = arguments[:at], arguments[at + 1 :]
    scripts = [Path(name).resolve() for name in given] or sorted((HERE / "programs").glob("*.py"))
    worse = 0
    for script in scripts:
        try:
            found, unstable = differences(script, rest)
        except subprocess.TimeoutExpired as error:
            found, unstable = [f"no end within {error.timeout:g} seconds"], []
        worse += bool(found)
        itself = f"(differs from itself: {', '.join(unstable)})" if unstable else ""
        print(f"{'differs' if found else 'same':<8}{script.name}  {', '.join(found)} {itself}".rstrip(), flush=True)
    print(f"{len(scripts)} programs, {worse} of them another")
    return int(worse > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
