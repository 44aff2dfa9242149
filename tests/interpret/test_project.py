"""Names across files: the user's modules are found and read, and nothing of them is ever executed."""

from __future__ import annotations

import gc
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tapecheck.check import check
from tapecheck.source import from_text, read_source
from tapecheck.source.modules import Sources

SITE = f".venv/lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"
NETS = """\
import pathlib
import torch.nn as nn

pathlib.Path("executed").write_text("the analysis ran this file")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(3, 4)
        self.head = nn.Linear(4, 1)

    def forward(self, x):
        return self.head(self.body(x).relu())
"""
TRAIN = """\
import torch
{imported}

net = Net()
loss = net(torch.randn(2, 3)).mean()
loss.backward()
loss.backward()
"""


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


@pytest.mark.parametrize(
    ("imported", "train", "module"),
    [
        ("from nets import Net", "train.py", "nets.py"),
        ("import nets\nNet = nets.Net", "train.py", "nets.py"),
        ("from package.nets import Net", "train.py", "package/nets.py"),
        ("from package import nets\nNet = nets.Net", "train.py", "package/nets.py"),
        ("from .nets import Net", "package/train.py", "package/nets.py"),
        ("from ..models.nets import Net", "package/jobs/train.py", "package/models/nets.py"),
        ("from package.nets import Net", "scripts/train.py", "src/package/nets.py"),
        ("import package.nets\nNet = package.nets.Net", "train.py", "package/nets.py"),
        ("import package.deep.nets\nNet = package.deep.nets.Net", "train.py", "package/deep/nets.py"),
        ("from package import deep\nNet = deep.nets.Net", "train.py", "package/deep/nets.py"),
        ("from . import nets\nNet = nets.Net", "package/train.py", "package/nets.py"),
        ("from .. import models\nNet = models.nets.Net", "package/jobs/train.py", "package/models/nets.py"),
        ("from ..models import nets as n\nNet = n.Net", "package/jobs/train.py", "package/models/nets.py"),
        ("from package.nets import Net", "package/jobs/train.py", "package/nets.py"),
        ("from helpers.nets import Net", "tests/unit/train.py", "tests/helpers/nets.py"),
    ],
)
@pytest.mark.parametrize("regular", [True, False], ids=["packages", "namespace packages"])
def test_a_model_in_another_file(
    imported: str, train: str, module: str, regular: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, {"pyproject.toml": "", train: TRAIN.format(imported=imported), module: NETS})
    for folder in {(tmp_path / train).parent, *(tmp_path / module).relative_to(tmp_path).parents}:
        if regular and (tmp_path / folder) != tmp_path and folder.name not in ("src", "scripts"):
            (tmp_path / folder / "__init__.py").touch()
    report = check(read_source(str(tmp_path / train)))
    assert [finding.code for finding in report.findings] == ["TAPE101"]
    built = [label.span for label in report.findings[0].labels if label.role == "built"]
    assert Path(built[0].file).name == "nets.py"
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize(
    ("files", "found"),
    [
        pytest.param({"nets/__init__.py": NETS, "nets.py": ""}, True, id="a package goes before a module"),
        pytest.param({"nets/__init__.py": "", "nets.py": NETS}, False, id="a package hides a module"),
        pytest.param({"nets.py": NETS, "nets.pyi": ""}, True, id="the source beside a stub is read"),
        pytest.param({"nets.pyi": "", "vendor/deep/nets.py": NETS}, False, id="a stub alone stands for a library"),
        pytest.param({"vendor/deep/nets.py": NETS}, True, id="one module of that name in the project"),
        pytest.param({"one/nets.py": NETS, "two/nets.py": NETS}, False, id="two, and none is nearer"),
        pytest.param({"code/nets.py": NETS, "pyproject.toml": '[tool.tapecheck]\nextra-paths = ["code"]\n',
                      "other/nets.py": ""}, True, id="where the project says"),
        pytest.param({".venv/pyvenv.cfg": "", f"{SITE}/_mine.pth": "ROOT/../far/src\n",
                      "../far/src/nets.py": NETS}, True, id="an editable project"),
        pytest.param({".venv/pyvenv.cfg": "", f"{SITE}/a.pth": "import __editable___mine_finder; x()\n",
                      f"{SITE}/__editable___mine_finder.py": "MAPPING: dict[str, str] = {'nets': 'ROOT/../far/it'}\n",
                      "../far/it/__init__.py": NETS}, True, id="an editable project that is mapped"),
        pytest.param({".venv/pyvenv.cfg": "", f"{SITE}/nets.py": NETS}, False, id="an installed package is a library"),
        pytest.param({".venv/pyvenv.cfg": "", f"{SITE}/nets.py": "", "lib/nets.py": NETS}, False,
                     id="nothing is guessed of an installed package"),
    ],
)  # fmt: skip
def test_where_a_module_is_looked_for(
    files: dict[str, str], found: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    root = tmp_path / "p"
    told = {name: text.replace("ROOT", str(root)) for name, text in files.items()}
    write(root, {"pyproject.toml": "", "jobs/train.py": TRAIN.format(imported="from nets import Net"), **told})
    findings = check(read_source(str(root / "jobs/train.py"))).findings
    certain = [finding.code for finding in findings if finding.certain]
    assert certain == (["TAPE101"] if found else [])
    assert not (root / "executed").exists()


def test_a_module_that_changed_is_read_again(tmp_path: Path) -> None:
    write(tmp_path, {"train.py": TRAIN.format(imported="from nets import Net"), "nets.py": NETS})
    assert check(read_source(str(tmp_path / "train.py"))).findings
    linear = "class Net:\n    def __call__(self, x):\n        return x.sum().requires_grad_()\n"
    (tmp_path / "nets.py").write_text("import torch\n" + linear)
    import os

    os.utime(tmp_path / "nets.py", (1, 1))
    assert not check(read_source(str(tmp_path / "train.py"))).findings


def test_compiled_modules_are_not_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = tmp_path / "ran"
    write(
        tmp_path,
        {
            "pyproject.toml": "",
            "lib/pkg/__init__.py": f"open({str(ran)!r}, 'w').close()\n",
            "lib/pkg/_C.so": "",
            "train.py": "import torch\nfrom pkg import _C\nimport pkg._C\nw = torch.zeros(3)\n",
        },
    )
    monkeypatch.syspath_prepend(str(tmp_path / "lib"))
    check(read_source(str(tmp_path / "train.py")))
    assert not ran.exists()


def test_a_mutable_default_of_another_file_starts_empty_in_every_run(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "helper.py": "def total(x, seen=[]):\n    seen.append(x)\n    return sum(seen)\n",
            "train.py": (
                "import sys\nimport torch\nfrom helper import total\n"
                "w = torch.randn(3, requires_grad=True)\n"
                "if len(sys.argv) < 2:\n    print('plain')\n"
                "else:\n    (w * w).sum().backward()\n"
                "loss = total((w * w).sum())\nloss.backward()\n"
            ),
        },
    )
    assert not check(read_source(str(tmp_path / "train.py"))).findings


def test_broken_and_circular_modules(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "train.py": "import broken\nimport circle\n" + TRAIN.format(imported="from nets import Net"),
            "broken.py": "def f(:\n",
            "circle.py": "import circle\nfrom train import net\n",
            "nets.py": NETS,
        },
    )
    report = check(read_source(str(tmp_path / "train.py")))
    assert [finding.code for finding in report.findings] == ["TAPE101"]


def test_what_an_editor_shows_stands_for_the_file(tmp_path: Path) -> None:
    write(tmp_path, {"train.py": TRAIN.format(imported="from nets import Net"), "nets.py": "class Net:\n    pass\n"})
    source = read_source(str(tmp_path / "train.py"))
    assert not check(source).findings
    nets = str(tmp_path / "nets.py")
    shown = {nets: from_text(NETS, nets)}
    assert [finding.code for finding in check(source, open_files=shown).findings] == ["TAPE101"]


def test_a_module_that_is_not_on_disk_yet(tmp_path: Path) -> None:
    write(tmp_path, {"train.py": TRAIN.format(imported="from package.nets import Net")})
    nets = str(tmp_path / "package" / "nets.py")
    report = check(read_source(str(tmp_path / "train.py")), open_files={nets: from_text(NETS, nets)})
    assert [finding.code for finding in report.findings] == ["TAPE101"]


def test_sources_are_kept_up_to_a_size_and_read_again_when_they_change(tmp_path: Path) -> None:
    write(tmp_path, {f"m{number}.py": f"x = {number}\n" for number in range(4)})
    sources = Sources(most=len("x = 0\n") * 2)
    first = sources.get(str(tmp_path / "m0.py"))
    assert first is not None
    assert sources.get(str(tmp_path / "m0.py")) is first
    for number in (1, 2, 3):
        sources.get(str(tmp_path / f"m{number}.py"))
    assert sources.get(str(tmp_path / "m0.py")) is not first
    (tmp_path / "m3.py").write_text("x = 'longer'\n")
    changed = sources.get(str(tmp_path / "m3.py"))
    assert changed is not None
    assert "longer" in changed.text
    assert sources.get(str(tmp_path / "none.py")) is None


def test_settings_of_the_process_are_put_back(tmp_path: Path) -> None:
    before = (sys.getrecursionlimit(), gc.get_threshold())
    program = "import torch\nw = torch.randn(3, requires_grad=True)\nw.exp().sum().backward()\n" * 20
    inside: list[int] = []

    def looked() -> bool:
        inside.append(sys.getrecursionlimit())
        return False

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda _: check(from_text(program, "program.py"), cancelled=looked), range(6)))
    assert min(inside) >= 12_000
    assert (sys.getrecursionlimit(), gc.get_threshold()) == before


def test_a_script_whose_imports_alone_speak_of_torch_is_run(tmp_path: Path) -> None:
    evaluate = """\
import torch
from nets import Net


def evaluate(net, batches):
    for batch in range(batches):
        print(net(torch.randn(2, 3)).argmax(1))
"""
    main = """\
from evaluate import evaluate
from nets import Net

if __name__ == "__main__":
    evaluate(Net(), 4)
"""
    write(tmp_path, {"nets.py": NETS, "evaluate.py": evaluate, "main.py": main, "plain.py": "print(1)\n"})
    report = check(read_source(str(tmp_path / "main.py")))
    assert [(found.code, Path(found.span.file).name) for found in report.elsewhere] == [("TAPE302", "evaluate.py")]
    write(
        tmp_path,
        {"main.py": main.replace("evaluate import evaluate", "plain import evaluate").replace("from nets", "# ")},
    )
    assert not check(read_source(str(tmp_path / "main.py"))).interpretation.tapes


FITTING = """\
import torch


class Trainer:
    def __init__(self, count):
        self.net = torch.nn.Linear(3, 1)
        self.count = count

    def fit(self):
        loss = self.net(torch.ones(2, 3)).mean()
        for _ in range(self.count):
            loss.pow(2).backward()
"""


@pytest.mark.parametrize(
    ("main", "runs"),
    [
        ("from train import Trainer\n\nt = Trainer(2)\nt.fit()\n", True),
        ("from train import Trainer\n\n\ndef main():\n    Trainer(2).fit()\n\n\nmain()\n", True),
        ("import train\n\nfor count in (2, 3):\n    done = train.Trainer(count).fit()\n", True),
        ("import os\nimport sys\nfrom train import Trainer\n\nsys.path.append(os.getcwd())\n", False),
        (
            "from train import Trainer\n\nNAMES = list(map(str, [Trainer]))\n\n\ndef main():\n    Trainer(2).fit()\n",
            False,
        ),
    ],
)
def test_a_script_that_only_calls_what_its_project_trains_with_is_run(tmp_path: Path, main: str, runs: bool) -> None:
    write(tmp_path, {"train/__init__.py": "from .inner import Trainer\n", "train/inner.py": FITTING, "main.py": main})
    report = check(read_source(str(tmp_path / "main.py")))
    found = [(one.code, Path(one.span.file).name) for one in report.elsewhere]
    assert found == ([("TAPE101", "inner.py")] if runs else [])
    assert bool(report.interpretation.tapes) == runs


def test_words_of_prose_in_an_imported_module_lead_to_no_graph(tmp_path: Path) -> None:
    helper = '"""Stays backward compatible; does not need torch."""\n\n\ndef run():\n    return 1\n'
    write(tmp_path, {"helper.py": helper, "main.py": "from helper import run\n\nrun()\n"})
    assert not check(read_source(str(tmp_path / "main.py"))).interpretation.tapes


LATE = {
    "pyproject.toml": "",
    "agents.py": """
import random
import torch
from collections import deque
from torch import nn


class Buffer:
    def __init__(self):
        self.memory = deque(maxlen=1000)

    def push(self, one):
        self.memory.append(one)

    def ready_for(self, count):
        return len(self.memory) >= count

    def sample(self, count):
        return torch.stack(random.sample(self.memory, count))


class Agent:
    def __init__(self):
        self.net = nn.Sequential(*[nn.Linear(3, 3) for _ in range(30)])
        self.optimizer = torch.optim.Adam(self.net.parameters())

    def act(self, state):
        policy = torch.distributions.Normal(self.net(state), 1.0)
        action = policy.sample()
        likely = policy.log_prob(action)
        return action.numpy()

    def update(self, states):
        loss = self.net(states).pow(2).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
""",
    "learning.py": """
def learn(agent, buffer):
    loss = agent.net(buffer.sample(64)).pow(2).mean()
    agent.optimizer.zero_grad()
    loss.backward()
    agent.optimizer.step()
""",
    "train.py": """
import gym
import learning
from agents import Agent, Buffer

env, agent, buffer = gym.make("Pendulum-v1"), Agent(), Buffer()
agents, listed = {"one": agent}, [[agent]]
state = env.reset()
while True:
    state, reward, done, _ = env.step(agent.act(state))
    buffer.push(state)
{update}    if done:
        break
""",
}


@pytest.mark.parametrize(
    ("update", "found"),
    [
        ("    if buffer.ready_for(64):\n        agent.update(buffer.sample(64))\n", []),
        ("    if buffer.ready_for(64):\n        agents['one'].update(buffer.sample(64))\n", []),
        ("    if buffer.ready_for(64):\n        listed[0][0].update(buffer.sample(64))\n", []),
        ("    if buffer.ready_for(64):\n        learning.learn(agent, buffer)\n", []),
        ("", ["TAPE302"]),
    ],
    ids=["trains once the buffer is full", "one of a dict", "one of lists", "a module's function", "never trains"],
)
def test_a_loop_that_trains_late_by_a_method_of_another_file(update: str, found: list[str], tmp_path: Path) -> None:
    write(tmp_path, {**LATE, "train.py": LATE["train.py"].replace("{update}", update)})
    report = check(read_source(str(tmp_path / "train.py")))
    assert [finding.code for finding in report.findings] == found


SWITCHED = """\
import torch
import common

net = torch.nn.Linear(3, 2)


def first(loader):
    total = 0.0
    for x in loader:
        total += net(x).mean().item()
    return total


def second(loader):
    return sum(net(x).mean().item() for x in loader)


class Third:
    def run(self, loader):
        for x in loader:
            print(net(x).mean().item())
"""


@pytest.mark.parametrize(
    ("switch", "found"),
    [("torch.set_grad_enabled(False)", False), ("torch.set_grad_enabled(True)", True), ("torch.manual_seed(1)", True)],
)
def test_what_an_imported_module_switches_off_is_off_in_every_start(switch: str, found: bool, tmp_path: Path) -> None:
    write(tmp_path, {"pyproject.toml": "", "common.py": f"import torch\n{switch}\n", "main.py": SWITCHED})
    findings = check(read_source(str(tmp_path / "main.py"))).findings
    assert {one.code for one in findings} == ({"TAPE302"} if found else set())
