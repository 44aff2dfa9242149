"""Two ranks under the recorder: their gradients are compared where DistributedDataParallel does not average them."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from tapecheck.check import check
from tapecheck.record import RunRequest, confirm
from tapecheck.rules import Finding
from tapecheck.source import read_source
from tests.record.harness import PYTHON, QUIET

TORCHRUN = ("torchrun", "--nproc-per-node", "2", "--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0")
PROGRAM = """\
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
torch.manual_seed({seed})
model = DistributedDataParallel(nn.Linear(4, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    optimizer.zero_grad()
    loss = {call}(torch.randn(3, 4)).pow(2).mean()
    loss.backward()
    optimizer.step()
"""


def judged(folder: Path, seed: str, call: str, findings: list[Finding] | None = None) -> Finding:
    script = folder / "train.py"
    script.write_text(PROGRAM.format(seed=seed, call=call))
    found = check(read_source(str(script))).findings if findings is None else findings
    # torchrun leaves a folder of logs with the temporary files, whatever it runs.
    env = {**QUIET, "TORCHELASTIC_ERROR_FILE": "", "TMPDIR": str(folder)}
    request = RunRequest(str(script), python=PYTHON, launcher=TORCHRUN, cwd=str(folder), env=env)
    return next(each for each in confirm(str(script), request, found)[1] if each.code == "TAPE601")


def test_ranks_that_differ_confirm_it(tmp_path: Path) -> None:
    finding = judged(tmp_path, "dist.get_rank()", "model.module")
    assert finding.evidence is not None and finding.evidence.verdict == "confirmed"
    assert finding.evidence.measured == {"steps": 4, "differing": 4, "of_ranks": 2}


@pytest.mark.parametrize(("seed", "call"), [("dist.get_rank()", "model"), ("0", "model.module")])
def test_ranks_that_agree_show_nothing(tmp_path: Path, seed: str, call: str) -> None:
    script = tmp_path / "train.py"
    script.write_text(PROGRAM.format(seed="dist.get_rank()", call="model.module"))
    (finding,) = check(read_source(str(script))).findings
    assert judged(tmp_path, seed, call, [dataclasses.replace(finding)]).evidence is None
