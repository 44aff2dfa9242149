"""Runs scripts with and without the recorder."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping

from tapecheck.record.run import PROBE

# The interpreter that scripts run in: any Python from 3.9 on with torch, another than that of the tests if wanted.
PYTHON = os.environ.get("TAPECHECK_TEST_PYTHON", sys.executable)
QUIET = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
Write = Callable[..., str]


def plain(
    script: str, *args: str, cwd: str, python: str = PYTHON, env: Mapping[str, str] = QUIET
) -> subprocess.CompletedProcess[str]:
    """Run a script without recorder."""
    return subprocess.run(
        [python, script, *args], cwd=cwd, env={**os.environ, **env}, stdin=subprocess.DEVNULL, capture_output=True,
        text=True, timeout=300, check=False,
    )  # fmt: skip


def probed(
    script: str, *args: str, cwd: str, python: str = PYTHON, tape: str = "tape.jsonl", options: tuple[str, ...] = (),
    env: Mapping[str, str] = QUIET, **popen: object,
) -> subprocess.CompletedProcess[str]:  # fmt: skip
    """Run a script under the probe as the command line would."""
    return subprocess.run(  # type: ignore[call-overload,no-any-return]
        [python, str(PROBE), "--tape", tape, *options, script, *args], cwd=cwd, env={**os.environ, **env},
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, check=False, **popen,
    )  # fmt: skip
