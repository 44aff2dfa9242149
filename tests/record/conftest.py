"""Scripts are written to a directory of their own and run in the interpreter that runs the tests."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from tapecheck.record import RunRequest, RunResult, run
from tests.record.harness import QUIET, Write

pytest.importorskip("torch")


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a script and answer its path."""

    def write(text: str, name: str = "script.py") -> str:
        path = tmp_path / name
        path.write_text(textwrap.dedent(text).lstrip("\n"), encoding="utf-8")
        return str(path)

    return write


@pytest.fixture
def python(warm: str) -> str:
    """What runs the scripts; files that are about the start or the end of an interpreter name a new one."""
    return warm


@pytest.fixture
def record(tmp_path: Path, write: Write, python: str) -> Callable[..., RunResult]:
    """Record a script given as text."""

    def record(text: str, *args: str, **options: object) -> RunResult:
        script = write(text)
        env = {**QUIET, **options.pop("env", {})}  # type: ignore[dict-item]
        request = RunRequest(script, args, cwd=str(tmp_path), **{"python": python, **options}, env=env)  # type: ignore[arg-type]
        return run(request)

    return record
