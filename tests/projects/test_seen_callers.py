"""What a function may do with what nobody passes is not told where all programs that call it were run to their end."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from itertools import product
from pathlib import Path

import pytest

from tapecheck.cli.across import to_their_files
from tapecheck.cli.checking import CheckOptions, check_callers, check_file

FILES = {
    "session.py": """\
class Session:
    def __init__(self, model, batch):
        self.model = model
        self.state = model.begin(batch)

    def __call__(self, tokens):
        out, self.state = self.model(tokens, self.state)
        return out
""",
    "train.py": """\
import torch

from session import Session


def train_epoch(model, optimizer, batch):
    session = Session(model, batch)
    for _ in range(3):
        optimizer.zero_grad()
        loss = session(torch.randn(4, batch, 2)).pow(2).mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
""",
    "model.py": """\
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(2, 5)

    def begin(self, batch):
        return torch.zeros(1, batch, 5)

    def forward(self, tokens, state):
        return self.rnn(tokens, {state})
""",
}
HEAD = """\
import torch

from model import Model
from train import train_epoch

model = Model()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
SEEN = (
    "train_epoch(model, optimizer, 3)",
    "for epoch in range(2):\n    train_epoch(model, optimizer, 3)",
    "def main():\n    train_epoch(model, optimizer, batch=3)\n\n\nif __name__ == '__main__':\n    main()",
    "for batch in (1, 2):\n    print(train_epoch(model, optimizer, batch))",
)
HANDED_ON = (
    "import hidden\n\nhidden.run(train_epoch, model, optimizer, 3)\ntrain_epoch(model, optimizer, 3)",
    "run = train_epoch\nrun(model, optimizer, 3)",
)


def _laid_out(state: str, calls: str, folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "pyproject.toml").write_text("")
    for name, text in {**FILES, "main.py": f"{HEAD}{calls}\n"}.items():
        (folder / name).write_text(text.replace("{state}", state))


def _told(folder: Path, asked: Iterable[str]) -> list[tuple[str, bool]]:
    """Return the codes of what is told of train.py, each with whether it is certain, where some files are checked."""
    options = CheckOptions(fixes=False)
    files = [check_file(str(folder / name), options) for name in asked]
    callers = check_callers(files, options)
    to_their_files(files, None, rules=options.rules, projects=options.projects, edited=False, callers=callers)
    return [(one.code, one.certain) for file in files if file.path.endswith("train.py") for one in file.findings]


@pytest.mark.parametrize(("calls", "alone"), [*product(SEEN, (False, True))])
def test_only_what_the_programs_do_is_told(calls: str, alone: bool, tmp_path: Path) -> None:
    for state, is_right in (("state.detach()", True), ("state", False)):
        folder = tmp_path / ("right" if is_right else "wrong")
        _laid_out(state, calls, folder)
        found = _told(folder, ["train.py"] if alone else ["main.py", *FILES])
        assert found == ([] if is_right else [("TAPE101", True)])


@pytest.mark.parametrize("calls", HANDED_ON)
def test_what_others_may_pass_is_told(calls: str, tmp_path: Path) -> None:
    _laid_out("state.detach()", calls, tmp_path)
    assert _told(tmp_path, ["main.py", *FILES]) == [("TAPE101", False)]


@pytest.mark.parametrize("calls", SEEN[::2])
def test_the_programs_run_as_they_are_told_to(calls: str, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    for state, is_right in (("state.detach()", True), ("state", False)):
        folder = tmp_path / ("right" if is_right else "wrong")
        _laid_out(state, calls, folder)
        done = subprocess.run([sys.executable, "main.py"], cwd=folder, capture_output=True, text=True, check=False)
        assert (done.returncode == 0) is is_right and (is_right or "second time" in done.stderr), done.stderr
