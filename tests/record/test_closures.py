"""Steps that evaluate a closure: whether they use what a backward before them gave is seen as torch has it."""

from __future__ import annotations

import itertools
import textwrap
from pathlib import Path

import pytest

pytest.importorskip("torch")

from tests.cases.recorded import record_all

PROGRAM = """
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 2)
optimizer = torch.optim.{kind}(model.parameters(), lr=0.1)
x, y = torch.randn(8, 4), torch.randn(8, 2)
SCALE = 1.0
for step in range(6):
    warm = SCALE * model(x).pow(2).mean()
    {before}
    warm.backward()

    def closure():
        {first}
        loss = nn.functional.mse_loss(model(x), y)
        {backward}
        {last}
        return loss

    optimizer.step(closure)
    {after}
learned = torch.cat([p.detach().flatten() for p in model.parameters()])
"""
WARM = PROGRAM.splitlines().index("    warm.backward()") + 1
CLEARS = ("pass", "optimizer.zero_grad()", "optimizer.zero_grad(set_to_none=False)")
PROGRAMS = [
    PROGRAM.format(kind=kind, before=before, first=first, backward=backward, last=last, after=after)
    for (kind, backward), (first, last), (before, after) in itertools.product(
        [("SGD", "loss.backward()"), ("SGD", "pass"), ("LBFGS", "loss.backward()")],
        [*((clear, "pass") for clear in CLEARS), ("pass", CLEARS[1]), ("pass", CLEARS[2])],
        [("pass", "optimizer.zero_grad()"), ("optimizer.zero_grad()", "pass")],
    )
]


def _is_used(text: str) -> bool:
    """Whether the model learns otherwise once the backward gives nothing."""
    learned = []
    for scale in ("1.0", "0.0"):
        space: dict[str, object] = {}
        exec(text.replace("SCALE = 1.0", f"SCALE = {scale}"), space)
        learned.append(space["learned"])
    return bool((learned[0] != learned[1]).any())  # type: ignore[union-attr, attr-defined]


def test_what_a_closure_clears_no_step_has_used(tmp_path: Path) -> None:
    paths = [tmp_path / f"p{number}.py" for number in range(len(PROGRAMS))]
    for path, text in zip(paths, PROGRAMS, strict=True):
        path.write_text(textwrap.dedent(text))
    against, decided = [], 0
    for text, item in zip(PROGRAMS, record_all(paths), strict=True):
        used = _is_used(text)
        for finding in item.findings:
            verdict = finding.evidence.verdict if finding.evidence is not None else ""
            if finding.span.line != WARM or finding.code not in ("TAPE403", "TAPE404"):
                continue
            decided += bool(verdict)
            # What no step uses is lost, and adds to nothing that a later step has.
            wrong = {"TAPE404": {"confirmed": used, "refuted": not used}, "TAPE403": {"confirmed": not used}}
            if wrong[finding.code].get(verdict.replace("found-by-run", "confirmed")):
                against.append((finding.code, verdict, used, text))
    assert against == []
    assert decided >= 6
