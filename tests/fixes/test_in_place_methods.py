"""Methods in place that become methods that make new tensors: the program computes what it computed, by torch."""

from __future__ import annotations

from pathlib import Path

import pytest

from tapecheck.fixes import fixes_for
from tests.cases import under_torch
from tests.fixes.support import finding_of, fixed, report_of, run_texts

PROGRAM = """\
import torch
torch.manual_seed(0)
w = torch.full((3,), 0.5, requires_grad=True)
optimizer = torch.optim.SGD([w], lr=0.1)
kept = []
def halved(x):
    return x / 2
for _ in range(2):
    g = (w * 2).sigmoid()
    first = (g * w).sum()
    {change}
    loss = first + {read}
    print(round(float(loss), 4), flush=True)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
CHAINS = ("g.neg_()", "g.mul_(3)", "g.neg_().add_(1)", "g.mul_(2).sub_(1).neg_()", "torch.neg_(g).add_(2)")
# How what the methods return is used, and what reads the tensor afterwards.
USES = {
    "a statement": ("{chain}", "g.sum()"),
    "a statement over two lines": ("({chain}\n        )", "(w * g).sum()"),
    "an operand": ("y = {chain} + 1", "(y * g).sum()"),
    "an argument": ("y = halved({chain})", "y.sum() + (w * g).sum()"),
    "a list": ("kept.append({chain})", "kept[-1].sum() + g.sum()"),
    "nothing later": ("y = halved({chain})", "y.sum()"),
    "the same name": ("g = {chain}", "(g * g).sum()"),
    "a read beside it": ("y = g.sum() + {chain}", "(y * g).sum()"),
    "one of two": ("y = {chain} if len(kept) < 9 else w", "(y * g).sum()"),
    "one of many": ("y = sum({chain} for _ in range(1))", "(y * g).sum()"),
}


@pytest.mark.skipif(not under_torch.has_torch(), reason="torch is not installed")
@pytest.mark.parametrize("use", USES)
def test_whoever_reads_the_changed_tensor_reads_the_new_one(use: str, tmp_path: Path) -> None:
    change, read = USES[use]
    pairs: list[tuple[str, str, str]] = []
    for chain in CHAINS:
        text = PROGRAM.format(change=change.format(chain=chain), read=read)
        report = report_of(text)
        for fix in fixes_for(report, finding_of(report, "TAPE102")):
            pairs.append((fix.title, text, fixed(text, fix)))
    outcomes = run_texts([text for _, *texts in pairs for text in texts], tmp_path)
    for (title, text, after), was, now in zip(pairs, outcomes[::2], outcomes[1::2], strict=True):
        assert was["exception"] == "RuntimeError", text
        assert now["exception"] is None, f"{title}\n{after}\n{now['message']}"
        if "copy" not in title:
            assert now["output"].split()[0] == was["output"].split()[0], f"{title}\n{after}"
    anew = [title for title, _, _ in pairs if title.startswith(("Use", "Compute"))]
    assert bool(anew) == (use not in ("a read beside it", "one of two", "one of many")), pairs


RESULT = """\
import torch
torch.manual_seed(0)
w = torch.full((3,), 0.5, requires_grad=True)
v = torch.full((3,), 2.0, requires_grad=True)
optimizer = torch.optim.SGD([w, v], lr=0.1)
for _ in range(2):
    {made}
    {change}
    loss = (g * 2).sum() + {read}
    print(round(float(loss), 4), flush=True)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
# Ops that save what they return, and views of that.
MADE = (
    "g = w.exp()",
    "g = torch.sigmoid(w) if w is not None else w",
    "g = w / 2; g = g.tanh()",
    "g = (w / v).sqrt().view(-1)",
    "g = (w + v).softmax(0)[:2]",
)
CHANGED = {
    "a read behind it": ("y = [g.add_(1), g.sum()]", "y[1]"),
    "another name": ("y = g; g.neg_().add_(1)", "y.sum()"),
    "a view": ("y = g[:1]; y += 1", "y.sum()"),
    "a container": ("y = [g]; g *= 3", "y[0].sum()"),
    "one of many": ("y = sum(g.add_(1) for _ in range(2))", "(y + 1).sum()"),
}


@pytest.mark.skipif(not under_torch.has_torch(), reason="torch is not installed")
@pytest.mark.parametrize("use", CHANGED)
def test_a_result_that_its_op_has_saved_is_copied(use: str, tmp_path: Path) -> None:
    change, read = CHANGED[use]
    pairs: list[tuple[str, str]] = []
    for made in MADE:
        text = RESULT.format(made=made, change=change, read=read)
        report = report_of(text)
        copied = [
            fix for fix in fixes_for(report, finding_of(report, "TAPE102")) if fix.title.startswith("Change a copy")
        ]
        assert [fix.applicability for fix in copied] == ["safe"], text
        pairs.append((text, fixed(text, copied[0])))
    outcomes = run_texts([text for pair in pairs for text in pair], tmp_path)
    for (text, after), was, now in zip(pairs, outcomes[::2], outcomes[1::2], strict=True):
        assert was["exception"] == "RuntimeError", text
        assert now["exception"] is None, f"{after}\n{now['message']}"
        assert now["output"].split()[0] == was["output"].split()[0], after
