"""Tapecheck in the editors themselves, without a screen: Neovim and Emacs, where they are installed.

`TAPECHECK_NVIM` names further Neovims, apart by `:`.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
PROGRAM = """\
import torch

model = torch.nn.Linear(2, 1)
for step in range(3):
    loss = model(torch.ones(4, 2)).pow(2).mean()
    loss.backward()
    name = "é🎉", model.weight.grad; model.zero_grad(); loss.backward()
"""
"""The second backward is meant: keeping the graph is a safe fix."""


NEEDLESS = "for step in range(3):\n    model(torch.ones(4, 2)).pow(2).mean().backward(retain_graph=True)\n"
"""What a setting leaves out where the configurations in docs/editors show one that changes nothing."""
LEFT_OUT = {"lens = { enable = true }": "ignore = { 'TAPE301' }", "(:lens (:enable t))": '(:ignore ["TAPE301"])'}


def documented(page: str, heading: str = "") -> str:
    """The first code block of a page in docs/editors, below a heading where one is given."""
    text = (HERE.parents[2] / "docs" / "editors" / page).read_text(encoding="utf-8")
    below = text.partition(f"\n## {heading}\n")[2] if heading else text
    found = re.search(r"^```\w+\n(.*?)^```", below, re.MULTILINE | re.DOTALL)
    assert found is not None, f"{page} has no code"
    block = found.group(1)
    for shown, setting in LEFT_OUT.items():
        block = block.replace(shown, setting)
    assert heading == "Keys" or "TAPE301" in block, f"{page} shows no setting"
    return block


def neovims() -> list[str]:
    named = os.environ.get("TAPECHECK_NVIM", "").split(os.pathsep)
    return [found for name in ["nvim", *named] if name and (found := shutil.which(name))]


def drive(command: list[str], folder: Path, program: str = PROGRAM, **more: str) -> dict[str, Any]:
    """What an editor says of the program: the script's JSON lines by their keys."""
    file = folder / "train.py"
    file.write_text(program, encoding="utf-8")
    (folder / "pyproject.toml").touch()
    # The command of the pages, for the sources under test.
    (folder / "bin").mkdir()
    (folder / "bin" / "tapecheck").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m tapecheck "$@"\n')
    (folder / "bin" / "tapecheck").chmod(0o755)
    environment = {
        **os.environ,
        **more,
        "PATH": os.pathsep.join([str(folder / "bin"), os.environ["PATH"]]),
        "PYTHONPATH": os.pathsep.join([str(HERE.parents[2] / "server"), os.environ.get("PYTHONPATH", "")]),
        "OMP_NUM_THREADS": "1",
        "HOME": str(folder),
        "XDG_STATE_HOME": str(folder),
        "LC_ALL": "C.UTF-8",
        "SERVER": json.dumps([sys.executable, "-m", "tapecheck", "serve"]),
        "FILE": str(file),
    }
    done = subprocess.run(
        command, env=environment, cwd=folder, capture_output=True, text=True, timeout=600, check=False
    )
    said: dict[str, Any] = {}
    for line in done.stdout.splitlines():
        if line.startswith("["):
            key, value = json.loads(line)
            said[key] = value
    assert done.returncode == 0 and "failed" not in said, f"{said.get('failed')}\n{done.stdout}\n{done.stderr}"
    return said


@pytest.mark.parametrize("nvim", neovims() or [pytest.param("", marks=pytest.mark.skip("Neovim is not installed"))])
def test_neovim(nvim: str, tmp_path: Path) -> None:
    told = subprocess.run([nvim, "--version"], capture_output=True, text=True, check=True).stdout
    minor = int(told.partition("NVIM v0.")[2].partition(".")[0])
    heading = "0.11 and later" if minor >= 11 else "0.8 to 0.10" if minor >= 8 else "0.7"
    script = {"CONFIGURATION": documented("neovim.md", heading), "KEYS": documented("neovim.md", "Keys")}
    assert all(script.values())
    command = [nvim, "--headless", "-u", "NONE", "-i", "NONE", "-n", "-S", str(HERE / "client.lua")]
    said = drive(command, tmp_path, PROGRAM + NEEDLESS, **script)
    found = said["diagnostic"]
    assert (found["code"], found["line"], found["text"]) == ("TAPE101", 6, "loss.backward()"), "behind a wide character"
    assert said["hover"].startswith("**`loss.backward()`** ") or said["hover"].startswith("**`loss`** ")
    assert "**" in said["rendered"]
    assert said["lenses"] == ["Confirm by running", "fails in iteration 1"]
    assert said["servers"] == 1
    assert "Disable TAPE101 for this line" in said["actions"]
    assert said["fixed"].count("retain_graph=True") == 2
    assert re.search(r" — confirmed: raised in iteration 1, \d\d:\d\d$", said["confirmed"].splitlines()[0])
    assert said["run"] == "train.py: 1 confirmed"


@pytest.mark.skipif(shutil.which("emacs") is None, reason="Emacs is not installed")
def test_emacs_with_eglot(tmp_path: Path) -> None:
    has_eglot = ["emacs", "-q", "--batch", "--eval", "(progn (package-initialize) (require 'eglot))"]
    if subprocess.run(has_eglot, capture_output=True, check=False).returncode:
        pytest.skip("eglot is not installed")
    command = ["emacs", "-q", "--batch", "-l", str(HERE / "client.el")]
    said = drive(command, tmp_path, PROGRAM + NEEDLESS, CONFIGURATION=documented("emacs.md"))
    found = said["diagnostic"]
    assert (found["line"], found["text"]) == (6, "loss.backward()"), "behind a wide character"
    assert "second backward" in found["message"] and "freed here" in found["message"], "eglot shows no related lines"
    assert "loss" in said["hover"] and "loss" in said["rendered"]
    assert "Disable TAPE101 for this line" in said["actions"]
    assert said["fixed"].count("retain_graph=True") == 2


@pytest.mark.skipif(shutil.which("emacs") is None, reason="Emacs is not installed")
def test_emacs_with_lsp_mode(tmp_path: Path) -> None:
    has_lsp_mode = ["emacs", "-q", "--batch", "--eval", "(progn (package-initialize) (require 'lsp-mode))"]
    if subprocess.run(has_lsp_mode, capture_output=True, check=False).returncode:
        pytest.skip("lsp-mode is not installed")
    # lsp-mode 8.0 takes columns for characters: what stands behind an emoji is drawn one to the right.
    narrow = PROGRAM.replace("🎉", "")
    said = drive(["emacs", "-q", "--batch", "-l", str(HERE / "lsp_mode.el")], tmp_path, narrow)
    found = said["diagnostic"]
    assert (found["line"], found["text"]) == (6, "loss.backward()"), "behind a letter that takes two bytes"
    assert "second backward" in found["message"]
    assert "loss" in said["hover"]
    assert "Disable TAPE101 for this line" in said["actions"]
    assert said["fixed"].count(".backward(") == 2 and "retain_graph=True" in said["fixed"]
