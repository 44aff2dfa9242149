"""Modules that a program imports by a name that it puts together: those of the project are read as any other.

Each program trains the model of one of two modules, of which one has nothing that requires grad, so that its backward
raises. torch runs it with the option left out and with each value; what it shows by default is told, and is certain
where no option can change it.
"""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

import pytest

from tapecheck.check import check
from tapecheck.source import from_text

NETS = {"trained": "", "frozen": ".requires_grad_(False)"}
NET = """\
import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 2){frozen}

    def forward(self, x):
        return self.linear(x)
"""
HEAD = """\
import argparse
import importlib
from importlib import import_module
import torch

parser = argparse.ArgumentParser()
parser.add_argument("--net", type=str, {given})
parser.add_argument("--package", default="nets")
args = parser.parse_args()
optimizer = None
"""
TRAIN = """\
net = {net}()
loss = net(torch.randn(3, 4)).sum()
loss.backward()
"""
NAMES = {
    "a sum": '"nets." + args.net',
    "a sum of three": '"nets" + "." + args.net',
    "an f-string": 'f"nets.{args.net}"',
    "two options": 'f"{args.package}.{args.net}"',
    "two options in a sum": 'args.package + "." + args.net',
}
CALLS = {
    "by the module": "importlib.import_module({name}).Net",
    "by the function": "import_module({name}).Net",
    "by a keyword": "importlib.import_module(name={name}).Net",
    "by getattr": 'getattr(importlib.import_module({name}), "Net")',
}
RELATIVE = {
    "relative": 'importlib.import_module("." + args.net, package="nets").Net',
    "relative f-string": 'importlib.import_module(f".{args.net}", "nets").Net',
}
FORMS = {
    **{f"{one} {other}": CALLS[other].format(name=NAMES[one]) for one, other in itertools.product(NAMES, CALLS)},
    **RELATIVE,
}


def written(folder: Path, text: str) -> Path:
    (folder / "nets").mkdir()
    (folder / "nets" / "__init__.py").write_text("")
    for name, frozen in NETS.items():
        (folder / "nets" / f"{name}.py").write_text(NET.format(frozen=frozen))
    (folder / "main.py").write_text(text)
    return folder / "main.py"


def raises(path: Path, words: list[str], monkeypatch: pytest.MonkeyPatch) -> bool:
    """Return whether the backward of a program raises under torch."""
    for name in ("nets", *(f"nets.{one}" for one in NETS)):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.syspath_prepend(str(path.parent))
    monkeypatch.setattr(sys, "argv", ["main.py", *words])
    try:
        exec(compile(path.read_text(), str(path), "exec"), {"__name__": "__main__"})
    except RuntimeError:
        return True
    return False


def told(path: Path) -> list[bool]:
    """Return how certain it is that the backward of a program finds no graph."""
    findings = check(from_text(path.read_text(), str(path))).findings
    return [one.certain for one in findings if one.code == "TAPE103"]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("default", NETS)
def test_the_default_of_an_option_chooses_the_module(
    default: str, form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = HEAD.format(given=f'default="{default}"') + TRAIN.format(net=FORMS[form])
    path = written(tmp_path, text)
    assert raises(path, [], monkeypatch) == (default == "frozen")
    assert not raises(path, ["--net", "trained"], monkeypatch)
    # Another value may choose a module that trains.
    assert told(path) == [False] * (default == "frozen")


@pytest.mark.parametrize("net", NETS)
@pytest.mark.parametrize("call", CALLS)
def test_a_name_that_no_option_changes_is_certain(
    net: str, call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = CALLS[call].format(name=f'"nets.{net}"')
    path = written(tmp_path, HEAD.format(given='default="trained"') + TRAIN.format(net=name))
    assert told(path) == [True] * raises(path, [], monkeypatch) == [True] * (net == "frozen")


@pytest.mark.parametrize("form", FORMS)
def test_nothing_is_told_of_a_module_that_nobody_knows(form: str, tmp_path: Path) -> None:
    required = HEAD.format(given="required=True") + TRAIN.format(net=FORMS[form])
    assert told(written(tmp_path, required)) == []
    absent = HEAD.format(given='default="absent"') + TRAIN.format(net=FORMS[form])
    (tmp_path / "main.py").write_text(absent)
    assert told(tmp_path / "main.py") == []


@pytest.mark.parametrize("form", FORMS)
def test_a_test_of_the_option_decides_the_module(form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind a test the module is the one that the answer says."""
    train = "    ".join(TRAIN.format(net=FORMS[form]).splitlines(keepends=True))
    path = written(tmp_path, "")
    for test, words in (('args.net == "frozen"', ["--net", "frozen"]), ('args.net != "frozen"', ["--net", "trained"])):
        path.write_text(HEAD.format(given='default="trained"') + f"if {test}:\n    {train}")
        raised = raises(path, words, monkeypatch)
        assert raised == ("==" in test)
        assert told(path) == [False] * raised, path.read_text()
