"""TAPE406: what reentrant checkpoints of inputs without grad drop."""

from __future__ import annotations

import pytest

from tapecheck.check import check
from tapecheck.fixes import fixes_for
from tapecheck.source import from_text

PROGRAM = """\
import sys

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

stem, body, head = nn.Linear(4, 4), nn.Linear(4, 8), nn.Linear(8, 1)
optimizer = torch.optim.SGD([*body.parameters(), *head.parameters()], lr=0.1)
for step in range(3):
    x = torch.randn(2, 4)
    hidden = checkpoint(body, x)
    loss = head(hidden).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
LINE = 11


def codes(*edits: tuple[str, str]) -> list[tuple[str, int]]:
    text = PROGRAM
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    return [(finding.code, finding.span.line) for finding in check(from_text(text, "train.py")).findings]


@pytest.mark.parametrize("call", ["body, x", "body, x, use_reentrant=True", "body, x, use_reentrant=None"])
def test_the_reentrant_kind_is_the_default(call: str) -> None:
    assert codes(("checkpoint(body, x)", f"checkpoint({call})")) == [("TAPE406", LINE)]


@pytest.mark.parametrize(
    "edit",
    [
        ("checkpoint(body, x)", "checkpoint(body, x, use_reentrant=False)"),
        ("checkpoint(body, x)", "checkpoint(body, stem(x))"),
        ("checkpoint(body, x)", "checkpoint(lambda a, b: body(a), x, stem(x))"),
        ("checkpoint(body, x)", "checkpoint(body, x, use_reentrant=len(sys.argv) > 1)"),
        ("x = torch.randn(2, 4)", "x = torch.randn(2, 4, requires_grad=True)"),
        ("for step", "body.requires_grad_(False)\nfor step"),
        ("[*body.parameters(), *head.parameters()]", "head.parameters()"),
        ("head(hidden).mean()", "head(hidden).mean() + body(x).mean()"),
    ],
)
def test_nothing_is_lost(edit: tuple[str, str]) -> None:
    assert codes(edit) == []


def test_a_list_or_dict_is_not_looked_into() -> None:
    assert codes(("checkpoint(body, x)", "checkpoint(lambda parts: body(parts[0]), [stem(x)])")) == [("TAPE406", LINE)]


def test_where_nothing_is_left_the_backward_raises() -> None:
    assert codes(("loss = head(hidden).mean()", "loss = hidden.mean()")) == [("TAPE103", 14)]


def test_the_fix_takes_the_other_kind() -> None:
    report = check(from_text(PROGRAM, "train.py"))
    (finding,) = report.findings
    (fix,) = fixes_for(report, finding)
    assert [edit.content for edit in fix.edits] == [", use_reentrant=False"]


FLAG = ("checkpoint(body, x)", "checkpoint(body, x) if MODE else body(x)")


@pytest.mark.parametrize("mode", ["args.checkpoint", "config['checkpoint'] and body.training"])
def test_a_flag_of_the_program_makes_it_possible(mode: str) -> None:
    given = "import argparse\n\nparser = argparse.ArgumentParser()\nargs = parser.parse_args()\nconfig = vars(args)\n"
    text = (given + PROGRAM).replace(FLAG[0], FLAG[1].replace("MODE", mode))
    (found,) = check(from_text(text, "train.py")).findings
    assert (found.code, found.certain) == ("TAPE406", False)
    assert found.message.startswith("possible loss of gradients")


@pytest.mark.parametrize("mode", ["step % int(sys.argv[1])", "torch.rand(1) > 0.5", "x.mean() > 0"])
def test_what_other_iterations_train_is_not_lost(mode: str) -> None:
    assert codes((FLAG[0], FLAG[1].replace("MODE", mode))) == []


@pytest.mark.parametrize(
    "body",
    [
        "for block in self.blocks:\n            x = checkpoint(block, x)\n        return x",
        (
            "x = checkpoint(self.blocks[0], x)\n        x = checkpoint(self.blocks[1], x)\n"
            "        return checkpoint(self.blocks[2], x)"
        ),
    ],
)
def test_all_checkpoints_that_follow_one_another_are_named(body: str) -> None:
    text = f"""\
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Trunk(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(4, 4), nn.GELU()) for _ in range(3))

    def forward(self, x):
        {body}


trunk, head = Trunk(), nn.Linear(4, 1)
optimizer = torch.optim.SGD([*trunk.parameters(), *head.parameters()], lr=0.1)
for step in range(3):
    loss = head(trunk(torch.randn(5, 4))).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    found = check(from_text(text, "train.py")).findings
    assert found and {finding.code for finding in found} == {"TAPE406"}
    named = " ".join(str(text) for finding in found for text in (finding.message, *finding.notes))
    assert all(f"trunk.blocks.{number}." in named for number in range(3)) or "`trunk.blocks.*`" in named
