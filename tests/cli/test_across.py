"""What one file does in another one, and its fixes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tapecheck import check as checking
from tapecheck.check import check
from tapecheck.cli.across import Mender
from tapecheck.fixes import Effort, fixes_for
from tapecheck.source import read_source
from tapecheck.source.project import Projects
from tests.cli.test_fix import check as run
from tests.cli.test_fix import here  # noqa: F401
from tests.projects.running import run_main

HELPER = """\
import torch


def fit(model, optimizer):
    kept = []
    for step in range(100):
        loss = model(torch.randn(4, 3)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward(retain_graph=True)
        optimizer.step()
        kept.append(loss)
    return kept
"""
MAIN = """\
import torch

from helper import fit

model = torch.nn.Linear(3, 1)
fit(model, torch.optim.SGD(model.parameters(), lr=0.1))
"""


def test_fixes_of_several_findings_take_one_check_of_the_file_that_found_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "helper.py").write_text(HELPER)
    main = tmp_path / "main.py"
    main.write_text(MAIN)
    report = check(read_source(str(main)))
    assert len(report.elsewhere) == 2
    alone = [fixes_for(report, finding) for finding in report.elsewhere]
    assert any(alone)
    as_they_are: list[str] = []

    def spy(source, **named):  # type: ignore[no-untyped-def]
        if not named.get("open_files"):
            as_they_are.append(source.text)
        return check(source, **named)

    monkeypatch.setattr(checking, "check", spy)
    mender = Mender(Projects())
    assert [mender.mended(str(main), finding, Effort()) for finding in report.elsewhere] == alone
    assert as_they_are == [MAIN]
    assert not mender.mended(str(tmp_path / "gone.py"), report.elsewhere[0], Effort())


MEMORY = """\
import torch
from torch import nn


class Memory:
    def __init__(self):
        self.net = nn.Linear(4, 4)
        self.all = []

    def remember(self, x, n):
        for _ in range(n):
            self.all.append(self.state(x))
        return len(self.all)

    def state(self, x):
        return self.net(x)
"""
SILENT = """\
import torch
from memory import Memory

memory = Memory()
with torch.no_grad():
    memory.remember(torch.rand(2, 4), 5)
"""
RECORDED = SILENT.replace("with torch.no_grad():", "if True:")
ASKED = {"alone": "memory.py", "together": "."}


def _found(capsys: pytest.CaptureFixture[str], asked: str) -> set[tuple[str, str]]:
    rows = json.loads(run(capsys, "--output-format", "json", "--no-cache", asked)[1])
    return {(row["filename"].rpartition("/")[2], row["code"]) for row in rows}


@pytest.mark.parametrize("asked", ASKED.values(), ids=ASKED)
@pytest.mark.parametrize(
    ("callers", "said"),
    [
        ({}, True),
        ({"main.py": SILENT}, False),
        ({"main.py": SILENT, "other.py": SILENT}, False),
        ({"main.py": RECORDED}, True),
        ({"main.py": SILENT, "other.py": RECORDED}, True),
    ],
)
def test_what_code_calls_only_where_nothing_is_recorded_keeps_no_graph(
    callers: dict[str, str], said: bool, asked: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, text in {"pyproject.toml": "", "memory.py": MEMORY, **callers}.items():
        (here / name).write_text(text)
    assert (("memory.py", "TAPE201") in _found(capsys, asked)) is said


HANDED = """\
import torch
from memory import Memory

memory = Memory()
"""
HANDED_ON = {
    "by a function that nothing calls": "def main():\n    memory.remember(torch.rand(2, 4), 5)\n",
    "to a pool": "from hidden import pool\npool.map(memory.remember, [torch.rand(2, 4)], [5])\n",
    "to a library": "import optuna\noptuna.optimize(lambda trial: memory.remember(torch.rand(2, 4), 5))\n",
    "to a thread": "import threading\nthreading.Timer(1, memory.remember, (torch.rand(2, 4), 5)).start()\n",
    "by its name": "from hidden import start\nstart('memory:Memory.remember')\n",
    "under another name": "go = memory.remember\n",
    "in a file that does not parse": "memory.remember(torch.rand(2, 4), 5\nx = = 3\n",
    "where nothing is recorded": "with torch.no_grad():\n    memory.remember(torch.rand(2, 4), 3)\n",
}


@pytest.mark.parametrize("asked", ASKED.values(), ids=ASKED)
@pytest.mark.parametrize("handed", HANDED_ON)
def test_what_is_handed_on_may_be_called_where_all_is_recorded(
    handed: str, asked: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {"pyproject.toml": "", "memory.py": MEMORY, "main.py": SILENT, "other.py": HANDED + HANDED_ON[handed]}
    for name, text in files.items():
        (here / name).write_text(text)
    assert (("memory.py", "TAPE201") in _found(capsys, asked)) is (handed != "where nothing is recorded")


LOGGED = """\
import torch
from torch import nn


class Log:
    def __init__(self):
        self.losses = []

    @torch.no_grad()
    def add(self, loss):
        self.losses.append(loss)


def train(steps=10):
    model, log = nn.Linear(3, 1), Log()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        loss = model(torch.randn(4, 3)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        log.add(loss)
"""


@pytest.mark.parametrize("asked", ASKED.values(), ids=ASKED)
def test_a_graph_is_kept_by_code_that_records_nothing_itself(
    asked: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, text in {"pyproject.toml": "", "memory.py": LOGGED, "main.py": "import memory\nmemory.train()\n"}.items():
        (here / name).write_text(text)
    assert _found(capsys, asked) == {("memory.py", "TAPE201")}


@pytest.mark.parametrize("asked", ASKED.values(), ids=ASKED)
def test_what_raises_does_so_whatever_calls_it(asked: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    twice = MEMORY.replace("return self.net(x)", "y = self.net(x).sum()\n        y.backward()\n        y.backward()")
    for name, text in {"pyproject.toml": "", "memory.py": twice, "main.py": SILENT}.items():
        (here / name).write_text(text)
    assert {code for _, code in _found(capsys, asked)} & {"TAPE101", "TAPE103"}


SHARED = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.other = nn.Linear(3, 3), nn.Linear(3, 3)

    def scores(self, x):
        h, found = x, []
        for k in range(4):
            STEP
        return RESULT

    def forward(self, x, y):
        return (self.scores(x) - y).pow(2).mean()
"""
STEPS = {
    "a chain": ("h = torch.tanh(self.one(h) + self.other(x))", "h"),
    "a list": ("h = self.one(x) * k; found.append(h)", "sum(found)"),
    "a sum": ("h = h + self.one(x).tanh()", "h"),
}
TRAINING = {
    "backward": "net(x, y).backward()",
    "by names": "given = [*net.parameters()]; found = torch.autograd.grad(net(x, y), given, allow_unused=True); "
    "[setattr(p, 'grad', g) for p, g in zip(given, found)]",
}
TRAIN = """\
import torch
from net import Net
from unseen import batches

torch.manual_seed(0)
net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x, y in batches:
    optimizer.zero_grad()
    TRAINING
    optimizer.step()
"""
EVALUATE = """\
import torch
from net import Net

net = Net()
for x in torch.ones(3, 2, 3):
    print(net.scores(x).argmax(1))
"""
UNSEEN = "import torch\n\nbatches = [(torch.ones(2, 3), torch.ones(2, 3)) for _ in range(3)]\n"


@pytest.mark.parametrize("training", TRAINING.values(), ids=TRAINING)
@pytest.mark.parametrize(("step", "result"), STEPS.values(), ids=STEPS)
def test_what_another_program_learns_through_is_not_cut_safely(
    step: str, result: str, training: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    net = SHARED.replace("STEP", step).replace("RESULT", result)
    (here / "programs").mkdir()
    (here / "elsewhere").mkdir()
    (here / "elsewhere" / "unseen.py").write_text(UNSEEN)
    programs = here / "programs"
    texts = {"pyproject.toml": "", "net.py": net, "evaluate.py": EVALUATE, "train.py": TRAIN}
    for name, text in texts.items():
        (programs / name).write_text(text.replace("TRAINING", training))

    def trained() -> list[float]:
        with run_main(programs / "train.py", here / "elsewhere") as names:
            return [p.sum().item() for p in names["net"].parameters()]

    before = trained()
    run(capsys, "--fix", "--no-cache", "programs")
    assert trained() == before


def test_a_kept_result_asks_again_who_trains_by_what_its_fixes_change(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    step, result = STEPS["a sum"]
    for name, text in {"pyproject.toml": "", "evaluate.py": EVALUATE, "net.py": SHARED}.items():
        (here / name).write_text(text.replace("STEP", step).replace("RESULT", result))
    monkeypatch.setenv("TAPECHECK_CACHE_DIR", str(here / "kept"))
    asked = ("--output-format", "json", "evaluate.py", "net.py")

    def safe() -> set[str]:
        rows = json.loads(run(capsys, *asked)[1])
        return {row["fix"]["applicability"] for row in rows if row.get("fix")}

    assert safe() == safe() == {"safe"}
    (here / "train.py").write_text(TRAIN.replace("TRAINING", TRAINING["backward"]))
    assert safe() == {"unsafe"}


LEARN = """\
def learn(loss, optimizer):
    optimizer.zero_grad()
    loss.backward(retain_graph=True)
    optimizer.step()
"""
ONCE = """\
import torch
from learn import learn

net = torch.nn.Linear(3, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x in torch.randn(5, 4, 3):
    learn(net(x).pow(2).mean(), optimizer)
"""
TWICE = """\
import torch
from learn import learn

net, w = torch.nn.Linear(3, 1), torch.ones(3, requires_grad=True)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x in torch.randn(5, 4, 3):
    y = (w * w).sum()
    learn(net(x).pow(2).mean() + y, optimizer)
    y.backward()
"""


@pytest.mark.parametrize("asked", [".", "once.py learn.py", "learn.py", "learn.py twice.py"])
@pytest.mark.parametrize("unsafe", [(), ("--unsafe-fixes",)])
def test_a_fix_of_one_program_makes_no_other_raise(
    asked: str, unsafe: tuple[str, ...], here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = {"pyproject.toml": "", "learn.py": LEARN, "once.py": ONCE, "twice.py": TWICE}
    for name, text in texts.items():
        (here / name).write_text(text)
    _, out, err = run(capsys, "--no-cache", "--fix", *unsafe, *asked.split())
    assert {name: (here / name).read_text() for name in texts} == texts
    assert "TAPE301" not in out + err
    (here / "twice.py").unlink()
    run(capsys, "--no-cache", "--fix", *unsafe, *asked.replace("twice", "once").split())
    assert "retain_graph" not in (here / "learn.py").read_text()


HALVED = """\
def halved(value):
    value.mul_(0.5)
    return value
"""
OF_LEAF = """\
import torch
from halved import halved

halved(torch.ones(3, requires_grad=True))
"""
OF_RESULT = """\
import torch
from halved import halved

w = torch.ones(3, requires_grad=True)
halved(w * 2).sum().backward()
"""


@pytest.mark.parametrize(("others", "made"), [({}, True), ({"train.py": OF_RESULT}, False)])
def test_a_change_that_another_program_learns_through_stays_recorded(
    others: dict[str, str], made: bool, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, text in {"pyproject.toml": "", "halved.py": HALVED, "main.py": OF_LEAF, **others}.items():
        (here / name).write_text(text)
    run(capsys, "--no-cache", "--fix", ".")
    assert ("no_grad" in (here / "halved.py").read_text()) is made
