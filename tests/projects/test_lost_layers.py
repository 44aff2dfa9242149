"""TAPE405 over several files: layers that an optimizer lacks are told where they are to be mended."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from tapecheck.cli.across import to_their_files
from tapecheck.cli.checking import CheckOptions, check_file
from tests.projects.running import run_main

_FILLED = {
    "list": "self.blocks = [nn.Linear(4, 4) for _ in range(2)]",
    "made": "self.blocks = make(4, 2)",
    "dict": "self.blocks = dict(enumerate(make(4, 2)))",
    "added": "self.blocks = list(); self.blocks.extend(make(4, 2))",
}
_GONE_THROUGH = {"dict": "self.blocks.values()"}
_BLOCKS = """
from torch import nn


def make(width, depth):
    return [nn.Sequential(nn.Linear(width, width), nn.Tanh()) for _ in range(depth)]
"""
_NET = """
from torch import nn
from blocks import make


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        {filled}
        self.out = nn.Linear(4, 1)

    def forward(self, x):
        for block in {blocks}:
            x = block(x)
        return self.out(x)
"""
_FACTORY = """
import torch


def make_optimizer(model, lr=0.1):
    return torch.optim.SGD(model.parameters(), lr=lr)
"""
_SURGERY = """
from torch import nn


def replace_head(model):
    model.out = nn.Linear(4, 2)


class Surgeon:
    def __init__(self, model):
        self.model = model

    def operate(self):
        replace_head(self.model)
"""
_TRAINER = """
import torch
from factory import make_optimizer


class Trainer:
    def __init__(self, model):
        self.model = model
        self.optimizer = {optimizer}

    def fit(self, steps=3):
        for _ in range(steps):
            loss = self.model(torch.randn(5, 4)).pow(2).mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
"""
_MAIN = """
import torch
from torch import nn
from net import Net
from surgery import Surgeon, replace_head
from trainer import Trainer

model = Net()
trainer = Trainer(model)
{late}
trainer.fit()
"""
_OPTIMIZERS = {
    "its own": "torch.optim.SGD(model.parameters(), lr=0.1)",
    "factory": "make_optimizer(model)",
    "elsewhere": "make_optimizer(self.model, lr=0.1)",
}
_LATE = {"call": "replace_head(model)", "object": "Surgeon(model).operate()", "here": "model.out = nn.Linear(4, 2)"}


def _project(folder: Path, filled: str, blocks: str, optimizer: str, late: str) -> None:
    files = {
        "blocks.py": _BLOCKS, "factory.py": _FACTORY, "surgery.py": _SURGERY,
        "net.py": _NET.format(filled=filled, blocks=blocks),
        "trainer.py": _TRAINER.format(optimizer=optimizer),
        "main.py": _MAIN.format(late=late),
        "pyproject.toml": "",
    }  # fmt: skip
    for name, text in files.items():
        (folder / name).write_text(text)


def _lost(folder: Path) -> int:
    """Return how many parameters PyTorch gives gradients that the optimizer does not have."""
    with run_main(folder / "main.py") as names:
        net = names["model"]
        has = {id(one) for group in names["trainer"].optimizer.param_groups for one in group["params"]}
        blocks = getattr(net.blocks, "values", lambda: net.blocks)()
        every = [*net.parameters(), *(one for block in blocks for one in block.parameters())]
        return sum(one.grad is not None and id(one) not in has for one in {id(one): one for one in every}.values())


def _found(folder: Path) -> set[tuple[str, str]]:
    wanted = CheckOptions(fixes=False)
    files = [check_file(str(one), wanted) for one in sorted(folder.glob("*.py"))]
    to_their_files(files, rules=wanted.rules, projects=wanted.projects)
    assert not any(file.elsewhere for file in files)
    return {
        (Path(one.span.file).name, Path(one.span.file).read_text().splitlines()[one.span.line - 1].strip())
        for file in files for one in file.findings if one.code == "TAPE405"
    }  # fmt: skip


@pytest.mark.parametrize(("filled", "optimizer"), [*itertools.product(_FILLED, _OPTIMIZERS)])
def test_layers_that_a_plain_container_loses_are_told_where_it_is_filled(
    filled: str, optimizer: str, tmp_path: Path
) -> None:
    blocks = _GONE_THROUGH.get(filled, "self.blocks")
    _project(tmp_path, _FILLED[filled], blocks, _OPTIMIZERS[optimizer], "")
    assert _found(tmp_path) == {("net.py", _FILLED[filled])}
    pytest.importorskip("torch")
    assert _lost(tmp_path)


@pytest.mark.parametrize(("late", "optimizer"), [*itertools.product(_LATE, _OPTIMIZERS)])
def test_a_layer_that_comes_too_late_is_told_where_the_program_adds_it(
    late: str, optimizer: str, tmp_path: Path
) -> None:
    _project(tmp_path, "self.blocks = nn.ModuleList(make(4, 2))", "self.blocks", _OPTIMIZERS[optimizer], _LATE[late])
    assert _found(tmp_path) == {("main.py", _LATE[late])}
    pytest.importorskip("torch")
    assert _lost(tmp_path) == 2


@pytest.mark.parametrize("optimizer", [*_OPTIMIZERS])
def test_a_layer_that_comes_in_time_is_no_finding(optimizer: str, tmp_path: Path) -> None:
    _project(tmp_path, "self.blocks = nn.ModuleList(make(4, 2))", "self.blocks", _OPTIMIZERS[optimizer], "")
    main = (tmp_path / "main.py").read_text()
    (tmp_path / "main.py").write_text(main.replace("model = Net()\n", "model = Net()\nreplace_head(model)\n"))
    assert _found(tmp_path) == set()
    pytest.importorskip("torch")
    assert not _lost(tmp_path)
