"""What a function may do with what nobody passes is not told where all programs that call it were run to their end."""

from __future__ import annotations

import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest

from tests.expectations import Project
from tests.projects.support import laid_out, told

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
    files = {name: text.replace("{state}", state) for name, text in FILES.items()}
    laid_out(Project({**files, "main.py": f"{HEAD}{calls}\n"}), folder)


@pytest.mark.parametrize(("calls", "alone"), [*product(SEEN, (False, True))])
def test_only_what_the_programs_do_is_told(calls: str, alone: bool, tmp_path: Path) -> None:
    for state, is_right in (("state.detach()", True), ("state", False)):
        folder = tmp_path / ("right" if is_right else "wrong")
        _laid_out(state, calls, folder)
        found = told(["train.py"] if alone else ["main.py", *FILES], folder)
        assert [code for _, code in found["train.py"]] == ([] if is_right else ["TAPE101"])


@pytest.mark.parametrize("calls", HANDED_ON)
def test_what_others_may_pass_is_told(calls: str, tmp_path: Path) -> None:
    _laid_out("state.detach()", calls, tmp_path)
    assert [code for _, code in told(["main.py", *FILES], tmp_path)["train.py"]] == ["TAPE101?"]


@pytest.mark.parametrize("calls", SEEN[::2])
def test_the_programs_run_as_they_are_told_to(calls: str, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    for state, is_right in (("state.detach()", True), ("state", False)):
        folder = tmp_path / ("right" if is_right else "wrong")
        _laid_out(state, calls, folder)
        done = subprocess.run([sys.executable, "main.py"], cwd=folder, capture_output=True, text=True, check=False)
        assert (done.returncode == 0) is is_right and (is_right or "second time" in done.stderr), done.stderr


DECODER = """\
from torch import nn


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(3, 3)

    def forward(self, x):
        return self.cell(x)

    def decode(self, x, steps):
        scores = []
        for _ in range(steps):
            x = self.cell(x)
            print(x.max().item())
            scores.append(x)
        return len(scores)
"""
DECODING = {
    "recording": "model.decode(x, 3)",
    "in a block": "with torch.no_grad():\n    model.decode(x, 3)",
    "decorated": "@torch.inference_mode()\ndef translate(model):\n    model.decode(x, 3)\n\ntranslate(model)",
    "now and then": "with torch.no_grad():\n    model.decode(x, 3)\nmodel.decode(x, 3)",
    "recording again": "with torch.no_grad():\n    with torch.enable_grad():\n        model.decode(x, 3)",
}
MADE_HERE = {
    "in sight": "from decoder import Decoder\nmodel = Decoder()",
    "out of sight": "import decoder\nmodel = vars(decoder)['De' + input()]()",
}


@pytest.mark.parametrize(("made", "decoding"), [*product(MADE_HERE, DECODING)])
def test_what_is_called_without_recording_keeps_no_graphs(made: str, decoding: str, tmp_path: Path) -> None:
    main = f"import torch\n{MADE_HERE[made]}\nx = torch.randn(2, 3)\n{DECODING[decoding]}\n"
    for name, text in {"pyproject.toml": "", "decoder.py": DECODER, "main.py": main}.items():
        (tmp_path / name).write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "tapecheck", "check", "--no-cache", "--output-format", "concise", "decoder.py"],
        cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    assert ("TAPE201" in done.stdout) == (decoding not in ("in a block", "decorated"))
