"""Every file of a folder is checked within bounds, and what goes over them is told (the command: sweep.py)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.soak import sweep

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="each file is checked in a fork")
ROOT = Path(__file__).parents[2]


def test_no_training_program_goes_over_the_bounds() -> None:
    # A fork's peak begins with the memory of the process that it is a copy of: not that of all tests.
    command = [sys.executable, "-m", "tests.soak.sweep", str(ROOT / "tests" / "record" / "programs"), "--jobs", "2"]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert told.returncode == 0 and ": 0 failed, 0 over 5 s, 0 over 300 MB, " in told.stdout, told.stdout + told.stderr


def test_what_goes_over_or_dies_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "large.py").write_text("# padding\n" * 100 + "import torch\nw = torch.ones(2, requires_grad=True)\n")
    (tmp_path / "small.py").write_text("x = 1\n")
    rows = tmp_path / "rows.jsonl"
    assert sweep.main([str(tmp_path), "--memory", "1", "--rows", str(rows)]) == 1
    told = capsys.readouterr().out
    assert told.startswith("2 files, 103 lines, ") and " 0 failed, 0 over 5 s, 2 over 1 MB" in told
    assert len(rows.read_text().splitlines()) == 2

    checked = sweep.check_file

    def fails(path: str, options: sweep.CheckOptions) -> object:
        if path.endswith("small.py"):
            os.abort()
        return checked(path, options)

    monkeypatch.setattr(sweep, "check_file", fails)
    assert sweep.main([str(tmp_path)]) == 1
    assert "small.py: the process died, status 6" in capsys.readouterr().out
