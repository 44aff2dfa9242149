"""TAPE609 under the recorder, in two processes: which forwards use what was gathered before a step.

What the same program computes without FSDP2 tells: a forward with parameters from before a step gives something else.
"""

from __future__ import annotations

import dataclasses
import re
import subprocess
from itertools import product
from pathlib import Path

import pytest

from tapecheck.check import check
from tapecheck.record import RunRequest, confirm
from tapecheck.source import from_text
from tests.record.harness import PYTHON, QUIET
from tests.record.test_reduced import TORCHRUN

PROGRAM = """\
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

dist.init_process_group("gloo")
mesh = init_device_mesh("cpu", (dist.get_world_size(),))
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
fully_shard(model[0], mesh=mesh)
fully_shard(model, mesh=mesh{options})
optimizer = torch.optim.{optimizer}
held_out = torch.randn(6, 4)
for step in range(4):
    loss = model(held_out).pow(2).mean()
    print("loss", round(loss.item(), 4))
    loss.backward()
    with torch.no_grad():
        print("held out", model(held_out).mean().item())
    {between}
    optimizer.step()
    optimizer.zero_grad()
"""
BETWEEN = ("pass", "model.reshard()", "model(held_out).mean().backward()")
OPTIONS = ("", ", reshard_after_forward=True", ", reshard_after_forward=False")
OPTIMIZERS = ("SGD(model.parameters(), lr=0.1)", "AdamW(model.parameters(), lr=0.1, foreach=False)")
UNSEEN = ("AdamW(model.parameters(), lr=0.1, foreach=True)", "Adam(model.parameters(), lr=0.1, fused=True)")


def _losses(output: str) -> set[str]:
    return {*re.findall(r"loss (\S+)", output)}


def _judged(text: str, between: str, options: str, tmp_path: Path) -> tuple[list[str], bool]:
    """Run a program in two processes; return the verdicts on TAPE609 and whether one is right that confirms it."""
    pytest.importorskip("torch.distributed.fsdp")
    script = tmp_path / "train.py"
    told = check(from_text(text.format(between="pass", options=""), str(script))).findings
    (finding,) = (each for each in told if each.code == "TAPE609")
    text = text.format(between=between, options=options)
    script.write_text(text)
    env = {**QUIET, "TORCHELASTIC_ERROR_FILE": "", "TMPDIR": str(tmp_path)}
    request = RunRequest(str(script), python=PYTHON, launcher=TORCHRUN, cwd=str(tmp_path), env=env)
    result, judged = confirm(str(script), request, [dataclasses.replace(finding)])
    (tmp_path / "plain.py").write_text(re.sub(r".*(?:mesh|reshard|dist[. ]).*\n", "", text))
    plain = subprocess.run([PYTHON, "plain.py"], cwd=tmp_path, capture_output=True, text=True, check=True)
    verdicts = [one.evidence.verdict for one in judged if one.code == "TAPE609" and one.evidence is not None]
    return verdicts, _losses(result.stdout) != _losses(plain.stdout)


@pytest.mark.parametrize(("between", "options"), list(product(BETWEEN, OPTIONS)))
def test_a_run_says_which_forwards_use_parameters_from_before_a_step(
    between: str, options: str, tmp_path: Path
) -> None:
    # Every second one has another optimizer, which changes its parameters twice in a step.
    text = PROGRAM.replace("{optimizer}", OPTIMIZERS[(len(between) + len(options)) % 2])
    verdicts, stale = _judged(text, between, options, tmp_path)
    assert verdicts == ["confirmed" if stale else "refuted"]
    assert stale == (between == "pass" and options != ", reshard_after_forward=True")


@pytest.mark.parametrize(("between", "optimizer"), list(product(BETWEEN[:2], UNSEEN)))
def test_a_step_that_leaves_the_versions_refutes_nothing(between: str, optimizer: str, tmp_path: Path) -> None:
    verdicts, stale = _judged(PROGRAM.replace("{optimizer}", optimizer), between, "", tmp_path)
    assert stale == (between == "pass")
    assert verdicts == ([] if stale else ["refuted"])
