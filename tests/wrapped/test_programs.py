"""Programs with wrapped models: two processes show what they come to, and the dry run reports it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest

from tapecheck.check import check
from tapecheck.source import from_text

ROOT = Path(__file__).parents[2]
PROGRAMS = sorted((Path(__file__).parent / "programs").glob("*.py"))
MEANS = {
    "TAPE101": "Trying to backward through the graph a second time",
    "TAPE102": "one of the variables needed for gradient computation",
    "TAPE601": ("gradients differ", "other gradients"),
    "TAPE602": "Expected to have finished reduction in the prior iteration",
    "TAPE603": "Trying to backward through the graph a second time",
    "TAPE604": "torch.compile with aot_autograd does not currently support double backward",
    "TAPE605": "Expected to mark a variable ready only once",
    "TAPE606": "When use_reentrant=True, torch.utils.checkpoint is incompatible",
    "TAPE607": "a leaf Variable that requires grad is being used in an in-place operation",
    "TAPE608": ("aten.", "setStorage"),
    "TAPE609": "other gradients",
    "TAPE610": "Error: accessing ",
    "TAPE611": "This backward function was compiled with non-empty donated buffers",
}
"""What a run comes to where a rule is right."""


def marked(program: Path) -> list[tuple[str, int]]:
    """Return the rules and lines that a program names at the ends of its lines."""
    lines = enumerate(program.read_text().splitlines(), 1)
    return [(line.rpartition("# ")[2], number) for number, line in lines if "  # TAPE" in line]


@cache
def outcomes() -> dict[Path, tuple[str, int | None]]:
    """Run every program in two processes."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tools.torchlab.wrappers", "--judge"],
        input=json.dumps([program.read_text() for program in PROGRAMS]), capture_output=True, text=True, check=True,
        cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    return {program: (what, line) for program, (what, line) in zip(PROGRAMS, json.loads(done.stdout), strict=True)}


@pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_two_processes_come_to_what_is_marked(program: Path) -> None:
    what, line = outcomes()[program]
    wanted = marked(program)
    assert what.startswith(MEANS[wanted[0][0]] if wanted else "right"), what
    assert line == (wanted[0][1] if wanted and wanted[0][0] not in ("TAPE601", "TAPE609") else None)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_the_dry_run_reports_what_is_marked_and_nothing_else(program: Path) -> None:
    findings = check(from_text(program.read_text(), program.name)).findings
    assert [(finding.code, finding.span.line) for finding in findings] == marked(program)
