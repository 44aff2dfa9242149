"""A script that does nothing by default is run in each of the modes that its options choose."""

from __future__ import annotations

import itertools

import pytest

from tapecheck.check import check
from tapecheck.source import from_text

PROGRAM = """\
import argparse
import torch
from torch import nn

parser = argparse.ArgumentParser()
{options}
args = parser.parse_args()
model = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 3))


def train(loader):
    optimizer = torch.optim.Adam(model.parameters())
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    torch.save(model.state_dict(), "model.pt")


{mode}def test(loader):
    model.load_state_dict(torch.load("model.pt"))
    model.eval()
    correct = 0
    for x, y in loader:
        correct += (model(x).argmax(1) == y).sum().item()
    print(correct)


{start}
"""
FLAGS = 'parser.add_argument("--train", action="store_true")\nparser.add_argument("--test", action="store_true")'
CHOICE = 'parser.add_argument("--mode", default="help")'
MAIN = """\
def main():
    loader = {data}
    if args.train:
        train(loader)
    elif args.test:
        test(loader)


if __name__ == "__main__":
    main()
"""
STARTS = {
    "elif": (FLAGS, "if args.train:\n    train({data})\nelif args.test:\n    test({data})"),
    "if": (FLAGS, "if args.train:\n    train({data})\nif args.test:\n    test({data})"),
    "chosen": (CHOICE, "if args.mode == 'train':\n    train({data})\nelif args.mode == 'test':\n    test({data})"),
    "main": (FLAGS, MAIN),
}
DATA = "[(torch.randn(8, 6), torch.randint(0, 3, (8,))) for _ in range(4)]"


@pytest.mark.parametrize("written", STARTS)
def test_what_another_mode_evaluates_is_told(written: str) -> None:
    options, start = STARTS[written]
    for mode, loader in itertools.product(("", "@torch.no_grad()\n"), (DATA, "torch.load('batches.pt')")):
        program = PROGRAM.format(options=options, mode=mode, start=start.format(data=loader))
        found = check(from_text(program, "p.py")).findings
        assert [(one.code, one.certain) for one in found] == ([] if mode else [("TAPE302", False)]), program
