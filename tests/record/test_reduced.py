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
    measured = {"steps": 4, "differing": 4, "of_ranks": 2, "parameter": "model.module.weight"}
    assert finding.evidence.measured == measured


def test_the_first_parameter_that_differs_is_named(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(PROGRAM.format(seed="0", call="model.module"))
    (finding,) = check(read_source(str(script))).findings
    # At the first step only the gradient of the bias hangs on the rank.
    call = "(lambda x: torch.cat([model.module(x), model.module.bias[None] * dist.get_rank()]))"
    evidence = judged(tmp_path, "0", call, [dataclasses.replace(finding)]).evidence
    assert evidence is not None and evidence.verdict == "confirmed"
    assert evidence.detail.endswith("compared steps, that of `model.module.bias` first")


@pytest.mark.parametrize(("seed", "call"), [("dist.get_rank()", "model"), ("0", "model.module")])
def test_ranks_that_agree_show_nothing(tmp_path: Path, seed: str, call: str) -> None:
    script = tmp_path / "train.py"
    script.write_text(PROGRAM.format(seed="dist.get_rank()", call="model.module"))
    (finding,) = check(read_source(str(script))).findings
    assert judged(tmp_path, seed, call, [dataclasses.replace(finding)]).evidence is None


UNSEEN = """\
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = {model}
    {hook}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(dist.get_rank())
    for step in range(9):
        optimizer.zero_grad()
        {walked}
        loss.backward()
        optimizer.step()
        {after}


main()
"""
LOSS = "loss = model(torch.randn(3, 4)).pow(2).mean()"
BYPASSED = LOSS.replace("model(", "model.module(")
WRAPPED = "DistributedDataParallel(nn.Linear(4, 2))"
AVERAGE = "[dist.all_reduce(p.data) or p.data.div_(2) for p in model.parameters()]"
HALF = "half = DistributedDataParallel.__new__(DistributedDataParallel); nn.Module.__init__(half)"
OF_SUMS = "model.register_comm_hook(None, lambda state, bucket: torch.futures.Future())"


@pytest.mark.parametrize(
    ("model", "hook", "walked", "after", "told"),
    [
        (WRAPPED, "", BYPASSED, "", True),
        (WRAPPED, "", f"with model.no_sync(): {LOSS}", "", True),
        (WRAPPED, "", f"{BYPASSED} if step == 2 else {LOSS[7:]}", "", True),
        (WRAPPED, "", LOSS, "", False),
        # The program averages the parameters itself; wraps nothing; has what reduces in its own way.
        (WRAPPED, "", BYPASSED, AVERAGE, False),
        (WRAPPED, "", BYPASSED, f"if step % 2: {AVERAGE}", False),
        (WRAPPED, "", BYPASSED, f"if step % 7 == 6: {AVERAGE}", False),
        ("nn.Linear(4, 2)", "", LOSS, "", False),
        (WRAPPED, OF_SUMS, BYPASSED, "", False),
        # One that its constructor has left half made stands beside it; a class of the program's is one, too.
        (WRAPPED, HALF, BYPASSED, "", True),
        ("type('Own', (DistributedDataParallel,), {})(nn.Linear(4, 2))", "", BYPASSED, "", True),
    ],
)
def test_what_only_the_run_shows_is_found(
    tmp_path: Path, model: str, hook: str, walked: str, after: str, told: bool
) -> None:
    script = tmp_path / "train.py"
    script.write_text(UNSEEN.format(model=model, hook=hook, walked=walked, after=after))
    env = {**QUIET, "TORCHELASTIC_ERROR_FILE": "", "TMPDIR": str(tmp_path)}
    request = RunRequest(str(script), python=PYTHON, launcher=TORCHRUN, cwd=str(tmp_path), env=env)
    result, found = confirm(str(script), request, [])
    assert result.exit_code == 0, result.stderr
    found = [each for each in found if each.code == "TAPE601"]
    assert len(found) == told
    for each in found:
        assert each.evidence is not None and each.evidence.verdict == "found-by-run"
        assert [each.span.line, *(label.span.line for label in each.labels)] == [17, 18]


def test_why_one_process_shows_nothing_is_said(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    size = 'int(__import__("os").environ.get("WORLD_SIZE", "1"))'
    joined = f'dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size={size})'
    text = PROGRAM.format(seed="0", call="model.module").replace('dist.init_process_group("gloo")', joined)
    script.write_text(text)
    found = check(read_source(str(script))).findings
    judged = confirm(str(script), RunRequest(str(script), python=PYTHON, cwd=str(tmp_path), env=QUIET), found)[1]
    (finding,) = (each for each in judged if each.code == "TAPE601")
    assert finding.evidence is None and finding.notes[-1].startswith("one process was recorded")


WITH_GRAPH = """\
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
model = DistributedDataParallel({model})
for step in range(4):
    loss = {loss}
    loss.backward(create_graph=True)
"""
LINE = 10


@pytest.mark.parametrize(
    ("model", "loss", "known"),
    [
        ("nn.Sequential(nn.Linear(4, 4), nn.Tanh())", "model(torch.randn(3, 4)).pow(2).mean()", True),
        ("nn.Sequential(nn.Linear(4, 4), nn.Tanh())", "model(torch.randn(3, 4)).pow(2).mean()", False),
        # The first gradient has a graph, the second is a constant: torch words that otherwise.
        ("nn.Linear(4, 1)", "model(torch.zeros(3, 4)).sum() + model.module.bias.pow(2).sum()", False),
    ],
)
def test_gradients_with_graphs_are_told_apart_from_changes_of_leaves(
    tmp_path: Path, model: str, loss: str, known: bool
) -> None:
    script = tmp_path / "train.py"
    script.write_text(WITH_GRAPH.format(model=model, loss=loss))
    found = check(read_source(str(script))).findings if known else []
    request = RunRequest(str(script), python=PYTHON, cwd=str(tmp_path), env=QUIET)
    (finding,) = [each for each in confirm(str(script), request, found)[1] if each.code != "TAPE203"]
    assert (finding.code, finding.span.line) == ("TAPE607", LINE)
    assert finding.evidence is not None
    assert finding.evidence.verdict == ("confirmed" if known else "found-by-run")
