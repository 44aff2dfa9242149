"""Constants that would explode are not worked out (the programs: bombs.py)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.soak.wire import own_environment

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(sys.platform == "win32", reason="needs limits of memory")
def test_no_constant_explodes() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.soak.bombs"], cwd=ROOT, env=own_environment(), capture_output=True, timeout=900,
        encoding="utf-8", check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert " bombs: 0 failed, " in done.stdout
