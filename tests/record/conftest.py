"""Scripts are written to a directory of their own and run in the interpreter that runs the tests."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from tapecheck.record import RunRequest, RunResult, run
from tests.record.harness import PYTHON, QUIET, Write

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
def record(tmp_path: Path, write: Write) -> Callable[..., RunResult]:
    """Record a script given as text."""

    def record(text: str, *args: str, **options: object) -> RunResult:
        script = write(text)
        env = {**QUIET, **options.pop("env", {})}  # type: ignore[dict-item]
        request = RunRequest(script, args, cwd=str(tmp_path), **{"python": PYTHON, **options}, env=env)  # type: ignore[arg-type]
        return run(request)

    return record
