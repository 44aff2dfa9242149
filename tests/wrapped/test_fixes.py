"""What is offered for wrapped models leaves no finding, and two processes show that it holds."""

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
from tapecheck.fixes import fixes_for
from tapecheck.source import from_text
from tests.fixes.support import fixed

ROOT = Path(__file__).parents[2]
PROGRAMS = ROOT / "tests" / "wrapped" / "programs"
OFFERED = {
    "auxiliary_head_dropped": "Wrap with `find_unused_parameters=True`",
    "freeze_after_wrap": "Wrap with `find_unused_parameters=True`",
    "compiled_actor_critic": "Run one backward over `value_loss + policy_loss`",
    "gan_penalty_apart": "Run one backward over `critic_loss + drift`",
    "new_universal_checkpoints": "Checkpoint with `use_reentrant=False`",
    "day_fsdp_encode": "Register `encode_image` as a forward of the sharded model",
    "day_fsdp_loss_before_step": "Call `net.reshard()` behind it",
    "accumulation_never_syncs": "Swap what line 15 chooses between",
    "ragged_epoch": "Average the gradients in each backward: no `no_sync` on line 25",
    "day_fsdp_never_syncs": "Reduce the gradients in each backward: pass `True` (line 45)",
    "own_gradnorm_by_hand": "Average the gradients by hand before line 17",
    "loss_method_of_module": "Average the gradients by hand behind line 32",
    "own_gan_forwards_first": "Average the gradients by hand behind line 20",
    "compiled_wgan_penalty": 'Compile with `backend="eager"` (line 4)',
    "issue_donated_spectral_radius": 'Compile with `backend="eager"` (line 6)',
    "whole": "Shard with `reshard_after_forward=True`",
    "forward": "Call the model instead of `.forward`",
}
MADE = {
    "whole": (PROGRAMS / "day_fsdp_loss_before_step.py").read_text(),
    "forward": (PROGRAMS / "new_ok_fsdp_embed_after_forward.py").read_text().replace("model(x)", "model.forward(x)"),
}
"""Programs that are made of others."""
BYPASS = (PROGRAMS / "trainer_unwraps.py").read_text().replace("self.network(x)", "self.model.module(x)")


def repaired(name: str) -> str:
    """Return a program with the fix that is offered for its finding, among others."""
    text = BYPASS if name == "bypass" else MADE.get(name) or (PROGRAMS / f"{name}.py").read_text()
    title = OFFERED.get(name, "Call the wrapped model instead of `.module`")
    report = check(from_text(text, "train.py"))
    (finding,) = report.findings
    offered = {fix.title: fix for fix in fixes_for(report, finding)}
    assert title in offered
    return fixed(text, offered[title])


@pytest.mark.parametrize("name", ["day_fsdp_encode", "forward"])
def test_what_certainly_raised_is_mended_safely(name: str) -> None:
    text = MADE.get(name) or (PROGRAMS / f"{name}.py").read_text()
    report = check(from_text(text, "train.py"))
    (fix,) = [fix for fix in fixes_for(report, report.findings[0]) if fix.title == OFFERED[name]]
    assert fix.applicability == "safe"
    before, loop, after = text.rpartition("\nfor ")
    hidden = f"{before}\nfrom unseen import prepare\nprepare(model)\n{loop}{after}"
    report = check(from_text(hidden, "train.py"))
    assert all(fix.applicability == "unsafe" for finding in report.findings for fix in fixes_for(report, finding))


@cache
def outcomes() -> dict[str, str]:
    names = [*OFFERED, "bypass"]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tools.torchlab.wrappers", "--judge"],
        input=json.dumps([repaired(name) for name in names]), capture_output=True, text=True, check=True,
        cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    return {name: what for name, (what, _) in zip(names, json.loads(done.stdout), strict=True)}


@pytest.mark.parametrize("name", [*OFFERED, "bypass"])
def test_a_repaired_program_has_no_finding(name: str) -> None:
    assert check(from_text(repaired(name), "train.py")).findings == []


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("issue_output_of_cuda_graphs_kept", "Copy what the call on line 18 returns: `.clone()`"),
        ("issue_accumulates_in_cuda_graphs", 'Compile with `mode="default"` (line 20)'),
    ],
)
def test_what_cuda_graphs_overwrite_has_memory_of_its_own(name: str, title: str) -> None:
    text = (PROGRAMS / f"{name}.py").read_text()
    report = check(from_text(text, "train.py"))
    (fix,) = fixes_for(report, report.findings[0])
    assert fix.title == title
    assert check(from_text(fixed(text, fix), "train.py")).findings == []


@pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("name", [*OFFERED, "bypass"])
def test_two_processes_agree_after_the_repair(name: str) -> None:
    assert outcomes()[name] == "right"
