"""`tapecheck debug report`: a small anonymous program that shows the same internal error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tapecheck.cli import main
from tapecheck.interpret.machine import Machine

pytestmark = pytest.mark.internal_errors

PROGRAM = '''
"""The secret project."""
import torch
from torch import nn

SECRET = "swordfish"

class SecretNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden_layer = nn.Linear(3, 4)
        self.unused = nn.Linear(3, 4)

    def forward(self, batch):
        print("secret", SECRET)
        activation = self.hidden_layer(batch)
        return activation * len(str(slice(1, 2)))

def unrelated(number):
    return number + 1

network = SecretNet()
for step in range(3):
    loss = network(torch.randn(2, 3)).sum()
    loss.backward()
'''


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> None:
    """The call of `slice` raises an error that nothing reckons with."""
    before = Machine.call

    def call(self: Machine, function: Any, args: Any, kwargs: Any, node: Any) -> Any:
        if getattr(getattr(node, "func", None), "id", "") == "slice":
            raise LookupError("a bug")
        return before(self, function, args, kwargs, node)

    monkeypatch.setattr(Machine, "call", call)


def reported(tmp_path: Path, capsys: pytest.CaptureFixture[str], program: str = PROGRAM) -> tuple[str, str]:
    file = tmp_path / "train.py"
    file.write_text(program)
    assert main(["debug", "report", str(file)]) == 0
    captured = capsys.readouterr()
    return captured.out, captured.err


def test_the_program_is_small_and_anonymous(tmp_path: Path, capsys: pytest.CaptureFixture[str], broken: None) -> None:
    out, err = reported(tmp_path, capsys)
    assert err == ""
    assert out.splitlines()[0].startswith("# tapecheck ")
    assert "LookupError at test_reproducer.py:" in out
    assert "slice(" in out
    for word in ("ecret", "swordfish", "unrelated", "unused", "hidden_layer", "activation", "network", "print"):
        assert word not in out
    assert len(out.splitlines()) < len(PROGRAM.splitlines()) * 2 // 3


def test_what_is_printed_shows_the_same_error(tmp_path: Path, capsys: pytest.CaptureFixture[str], broken: None) -> None:
    out, _ = reported(tmp_path, capsys)
    again, _ = reported(tmp_path, capsys, out)
    assert again.splitlines()[0] == out.splitlines()[0]


def test_a_file_without_an_error_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, err = reported(tmp_path, capsys)
    assert (out, err.endswith("train.py: no internal error\n")) == ("", True)
