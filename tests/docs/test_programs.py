"""Every program of the documentation does under torch what its page says, and is found to be what the page marks."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from functools import cache
from importlib.metadata import entry_points
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from tapecheck.check import check
from tapecheck.cli.main import _parser as parser
from tapecheck.source import from_text
from tests.cases import under_torch
from tests.docs.pages import ROOT, Command, Program, commands, programs

PROGRAMS = programs()
WITH_TRAIN = [program for program in PROGRAMS if "from train import" in program.text]
COMMANDS = commands()
needs_torch = pytest.mark.skipif(not under_torch.has_torch(), reason="torch is not installed")

TRAIN = """\
import torch

weight = torch.ones(3, requires_grad=True)


def train_one_epoch():
    (weight * weight).sum().backward()


def train():
    for epoch in range(2):
        train_one_epoch()
"""
"""What pages call `train.py` where they speak of a program of the reader's."""


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "server"), *sys.path]), "OMP_NUM_THREADS": "1"}


def tapecheck(arguments: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tapecheck", *arguments],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
        env=environment(),
    )


@cache
def outcomes() -> dict[Program, dict[str, Any]]:
    """Run all programs that need nothing else under torch, each in a process of its own."""
    alone = [program for program in PROGRAMS if program not in WITH_TRAIN]
    with TemporaryDirectory() as folder:
        requests = []
        for number, program in enumerate(alone):
            path = Path(folder) / f"program_{number}.py"
            path.write_text(program.text)
            requests.append({"path": path})
        return dict(zip(alone, under_torch.run_all(requests), strict=True))


def test_there_are_programs() -> None:
    assert len(PROGRAMS) > len(WITH_TRAIN) > 1 and COMMANDS


@needs_torch
@pytest.mark.parametrize("program", [p for p in PROGRAMS if p not in WITH_TRAIN], ids=str)
def test_torch_does_what_the_page_says(program: Program) -> None:
    outcome = outcomes()[program]
    if program.raises is None:
        assert outcome["exception"] is None, outcome["message"]
    else:
        line, message = program.raises
        assert outcome["line"] == line
        assert outcome["message"].startswith(message)
    if program.prints is not None:
        assert outcome["output"] == program.prints


@pytest.mark.parametrize("program", PROGRAMS, ids=str)
def test_the_page_marks_what_is_found(program: Program) -> None:
    report = check(from_text(program.text, "program.py"))
    assert report.error is None
    assert {(finding.span.line, finding.code) for finding in report.findings} == program.marks


@needs_torch
@pytest.mark.parametrize("program", WITH_TRAIN, ids=str)
def test_programs_beside_train_run(program: Program, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "test_page.py").write_text(program.text)
    is_test = "\ndef test_" in program.text
    arguments = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "test_page.py"] if is_test else ["test_page.py"]
    if is_test and not _plugin_is_installed():
        arguments[2:2] = ["-p", "tapecheck.pytest_plugin"]
    done = subprocess.run(
        [sys.executable, *arguments], cwd=tmp_path, capture_output=True, text=True, timeout=120, env=environment()
    )
    assert done.returncode == 0, done.stdout + done.stderr


def _plugin_is_installed() -> bool:
    return any(point.value == "tapecheck.pytest_plugin" for point in entry_points(group="pytest11"))


@pytest.mark.parametrize("command", COMMANDS, ids=str)
def test_commands_are_understood(command: Command) -> None:
    """The options exist: the parser of the command line takes them."""
    parser().parse_args(shlex.split(command.arguments))


SHOWN = {
    page: [command for command in found if command.shown]
    for page, found in groupby(COMMANDS, key=lambda command: command.page)
}


@needs_torch
@pytest.mark.parametrize("page", [page for page, found in SHOWN.items() if found], ids=lambda page: page.name)
def test_commands_print_what_is_shown(page: Path, tmp_path: Path) -> None:
    """In the order of the page, on its first program as `train.py`, in a folder that has the examples, too."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    own = [program for program in PROGRAMS if program.page == page]
    (tmp_path / "train.py").write_text(own[0].text if own else TRAIN)
    for command in SHOWN[page]:
        printed = tapecheck(shlex.split(command.arguments), tmp_path).stdout.splitlines()
        shown = command.shown.splitlines()
        if "..." not in shown or command.arguments.startswith("check"):
            assert printed == shown
            continue
        # A line of dots stands for what is left out; the other lines come in this order.
        places = [printed.index(line) for line in shown if line != "..."]
        assert places and places == sorted(places)
