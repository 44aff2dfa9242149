"""What a run says of findings that it does not measure (TAPE408): whether the line ran."""

from __future__ import annotations

from pathlib import Path

import pytest

from tapecheck.check import check
from tapecheck.record import RunRequest, confirm
from tapecheck.source import read_source
from tests.record.harness import QUIET

CODE = "TAPE408"


@pytest.mark.parametrize(("line", "ran"), [("if True:", True), ("if len(sys.argv) > 5:", False)])
def test_a_run_says_whether_the_line_ran(line: str, ran: bool, tmp_path: Path, python: str) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import sys\nimport torch\nfrom torch import nn\nmodel = nn.Linear(4, 1)\nfor step in range(4):\n"
        "    model(torch.ones(2, 4)).sum().backward()\n    for p in model.parameters():\n"
        f"        {line}\n            p.grad.clamp(-1, 1)\n"
    )
    found = [one for one in check(read_source(str(script))).findings if one.code == CODE]
    _, judged = confirm(str(script), RunRequest(str(script), python=python, cwd=str(tmp_path), env=QUIET), found)
    (one,) = [each for each in judged if each.code == CODE]
    if ran:
        assert one.evidence is None and one.notes[-1].startswith("the line ran: ")
    else:
        assert one.evidence is not None and one.evidence.verdict == "not-reached"
