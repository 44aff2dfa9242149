"""Which conditions are answered both ways: those that a verdict can hang on, and no others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tapecheck.check import check
from tapecheck.interpret import Explored
from tapecheck.rules import Finding
from tapecheck.source import from_text
from tapecheck.tape import Iteration, Loop

HEAD = """\
import argparse
import os
import random

import numpy as np
import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--rounds", type=int)
parser.add_argument("--deep", action="store_true")
parser.add_argument("--save", action="store_true")
args = parser.parse_args()
"""
TRAIN = """\
for x in torch.randn(8, 4, 3):
    loss = model(x).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
OPTIMIZER = "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"


def ways(program: str, path: str = "program.py") -> tuple[list[Explored], list[Finding]]:
    log: list[Explored] = []
    report = check(from_text(program, path), log=log)
    return log, [*report.findings, *report.elsewhere]


def iterations(program: str, line: int) -> int:
    """The iterations of a loop of the first way."""
    log, _ = ways(program)
    events = log[0].tape.events
    loops = {event.id for event in events if isinstance(event, Loop) and event.at.span.line == line}
    return sum(isinstance(event, Iteration) and event.loop in loops for event in events)


NET = """\
class Net(nn.Module):
    def __init__(self, deep):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(3, 3) for _ in range(3)])
        if deep:
            self.head = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 1))
        else:
            self.head = nn.Linear(3, 1)

    def forward(self, x):
        seen = [layer(x) for layer in self.layers]
        x = self.head(seen[-1])
        return torch.stack([part for part in x])


model = Net(args.deep)
"""


def test_a_layer_behind_a_flag_does_not_say_how_often_a_loop_goes_round() -> None:
    log, found = ways(HEAD + NET + OPTIMIZER + TRAIN)
    assert (len(log), found) == (1, [])


COUNTED = """\
class Steps(nn.Module):
    def __init__(self, often):
        super().__init__()
        self.layer = nn.Linear(3, 1)
        if often:
            self.rounds = count(2)
        else:
            self.rounds = count(1)

    def forward(self, x):
        return self.layer(x)


def count(number):
    return number


model = Steps(not args.deep)
"""


@pytest.mark.parametrize(
    "given", ["model.rounds", "count(model.rounds)", "int(model.rounds)", "{'n': model.rounds}['n']"]
)
def test_a_number_behind_a_flag_says_so(given: str) -> None:
    program = (
        HEAD
        + COUNTED
        + OPTIMIZER
        + (f"loss = model(torch.randn(4, 3)).mean()\nrounds = {given}\nfor _ in range(rounds):\n    loss.backward()\n")
    )
    _, (found,) = ways(program)
    assert found.code == "TAPE101"
    conditions = [label.message for label in found.labels if label.role == "condition"]
    assert conditions == ["this happens where `often` is true"]


DRAWN = """\
model = nn.Linear(3, 2)
value = nn.Linear(3, 1)
obs = np.zeros(3)
for step in range(40):
    if random.random() < 0.1:
        action = np.array([random.randrange(2)])
    else:
        scores = model(torch.tensor(obs))
        action = scores.argmax()
        action = action.cpu().numpy()
    for part in action:
        print(part)
"""


def test_an_action_at_random_or_of_the_model_is_told_as_the_model_acts() -> None:
    log, found = ways(HEAD + DRAWN)
    assert [(one.code, one.certain) for one in found] == [("TAPE302", True)]
    # That nothing walks the graphs rests on the other answer, too: it is tried last, and in turns with this one, after
    # a way that passes by the loop, and with that.
    assert [one.turned for one in log[:1]] == [()] and len(log) <= 6
    # What the model does is what there is to see.
    assert not next(one.answer for one in log[0].conditions if "random()" in one.text)


SCHEDULE = """\
def rate(step):
    if step < 1000:
        return 0.1 * step / 1000
    if step > 60000:
        return 0.001
    return 0.1


for step in range(100000):
    for group in optimizer.param_groups:
        group["lr"] = rate(step)
    loss = model(torch.randn(4, 3)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_a_schedule_of_rates_takes_no_loop_on() -> None:
    program = HEAD + "model = nn.Linear(3, 1)\n" + OPTIMIZER + SCHEDULE
    line = program.splitlines().index("for step in range(100000):") + 1
    assert iterations(program, line) <= 4


def test_a_schedule_of_rounds_takes_its_loop_on() -> None:
    program = (
        HEAD
        + "model = nn.Linear(3, 1)\n"
        + OPTIMIZER
        + SCHEDULE.replace("0.1 * step / 1000", "1")
        .replace("0.001", "2")
        .replace("return 0.1\n", "return 1\n")
        .replace("    loss.backward()\n", "    for _ in range(rate(step)):\n        loss.backward()\n")
    )
    _, found = ways(program)
    assert [one.code for one in found] == ["TAPE101"]


@pytest.mark.parametrize(("torch_inside", "tried"), [(False, False), (True, True)])
def test_an_import_behind_a_flag_is_looked_into(tmp_path: Path, torch_inside: bool, tried: bool) -> None:
    (tmp_path / "upload.py").write_text(
        ("import torch\n" if torch_inside else "")
        + "def push(name, numbers):\n    rows = []\n    for one in numbers:\n        rows += [(name, one)]\n"
    )
    program = (
        HEAD
        + "model = nn.Linear(3, 1)\n"
        + OPTIMIZER
        + TRAIN
        + ("if args.save:\n    from upload import push\n    push('net', [1, 2])\n")
    )
    log, found = ways(program, str(tmp_path / "train.py"))
    assert found == []
    assert any(one.tried for way in log for one in way.conditions if "save" in one.text) is tried


def test_a_loop_whose_graphs_nobody_uses_asks_for_no_way_without_it() -> None:
    program = (
        HEAD
        + "model = nn.Linear(3, 1)\n"
        + OPTIMIZER
        + TRAIN
        + (
            "    if args.save:\n        pass\n    else:\n"
            "        for y in torch.randn(3, 4, 3):\n            print(model(y).mean().item())\n"
        )
    )
    log, found = ways(program)
    assert [(one.code, one.certain) for one in found] == [("TAPE302", True)]
    assert len(log) <= 2


@pytest.mark.parametrize(("drop", "tried"), [("os.remove('old.pt')", False), ("kept.clear()", True)])
def test_what_drops_a_file_drops_no_graph(drop: str, tried: bool) -> None:
    program = HEAD + "model = nn.Linear(3, 1)\n" + OPTIMIZER + "kept = [model(torch.randn(2, 3))]\n" + TRAIN
    log, _ = ways(f"{program}    if args.save:\n        {drop}\n")
    assert any(one.tried for way in log for one in way.conditions if "save" in one.text) is tried


@pytest.mark.parametrize(
    ("test", "answer"), [("len(rows) == 0", False), ("len(rows) > 0", True), ("len(rows) != 0", True)]
)
def test_what_somebody_asks_the_length_of_is_not_empty(test: str, answer: bool) -> None:
    program = (
        HEAD
        + "model = nn.Linear(3, 1)\nx = torch.randn(4, 3)\nrows = model(x[x[:, 0] > 0])\n"
        + (f"if {test}:\n    rows.sum().backward()\nelse:\n    rows.mean().backward()\n")
    )
    log, _ = ways(program)
    assert [one.answer for one in log[0].conditions] == [answer]


COUNT = "def count(number):\n    return number\n\n\n"
CALLS = {
    "bar = iter(range(n))\nfor _ in bar:\n    loss.backward()\n": "",
    "for _ in wrapped(range(n)):\n    loss.backward()\n": "from tqdm import tqdm as wrapped\n",
    "m = (lambda v: v - 1)(n)\nif m:\n    loss.backward()\nloss.backward()\n": "",
    "m = {'k': n - 1}\nif any(m.values()):\n    loss.backward()\nloss.backward()\n": "",
    "ops = {'d': lambda v: v - 1}\nm = ops['d'](n)\nif m:\n    loss.backward()\nloss.backward()\n": "",
    "m = Schedule()(n)\nif m:\n    loss.backward()\nloss.backward()\n": "",
    "m, h = Turns()(torch.ones(1, 3), n)\nif m:\n    loss.backward()\nloss.backward()\n": "",
}
LAYERS = """\
class Schedule(nn.Module):
    def forward(self, turns):
        return turns - 1


class Turns(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.Linear(3, 3)

    def forward(self, x, turns):
        x = self.cell(x)
        turns = max(int(turns) - 1, 0)
        return turns, x


"""


@pytest.mark.parametrize("used", CALLS)
def test_a_number_that_a_call_hands_on_is_followed(used: str) -> None:
    program = (
        CALLS[used]
        + HEAD
        + COUNT
        + LAYERS
        + "model = nn.Linear(3, 1)\nn = count(1)\nif args.save:\n    n = count(2)\n"
        + ("loss = model(torch.randn(4, 3)).mean()\n" + used)
    )
    _, found = ways(program)
    assert "TAPE101" in [one.code for one in found]


@pytest.mark.parametrize("used", ["terms[k]", "sum(terms[: k + 1])", "fns[k]()"])
def test_a_number_that_chooses_a_graph_takes_the_loop_on(used: str) -> None:
    program = (
        HEAD
        + "model = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 1))\n"
        + OPTIMIZER
        + (
            "kept = model(torch.randn(4, 3)).mean()\n"
            "terms = [torch.zeros(()), kept]\n"
            "fns = [lambda: torch.zeros(()), lambda: kept]\n"
            "k = 0\n"
            "for step in range(20):\n"
            "    if step > 4:\n"
            "        k = 1\n"
            f"    loss = model(torch.randn(4, 3)).mean() + {used}\n"
            "    optimizer.zero_grad()\n"
            "    loss.backward()\n"
            "    optimizer.step()\n"
        )
    )
    _, found = ways(program)
    assert {one.code for one in found} & {"TAPE101", "TAPE102"}


@pytest.mark.parametrize("where", ["here", "elsewhere"])
def test_a_number_that_another_file_works_out_chooses_a_graph(tmp_path: Path, where: str) -> None:
    stage = "def stage(step):\n    if step < 5:\n        return 0\n    return 1\n\n\n"
    (tmp_path / "stages.py").write_text(stage)
    program = (
        HEAD
        + (stage if where == "here" else "from stages import stage\n")
        + "model = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 1))\n"
        + OPTIMIZER
        + "kept = model(torch.randn(4, 3)).mean()\nterms = [torch.zeros(()), kept]\n"
        + "for step in range(20):\n    loss = model(torch.randn(4, 3)).mean() + terms[stage(step)]\n"
        + "    optimizer.zero_grad()\n    loss.backward()\n    optimizer.step()\n"
    )
    _, found = ways(program, str(tmp_path / "train.py"))
    assert {one.code for one in found} & {"TAPE101", "TAPE102"}


@pytest.mark.parametrize("imported", ["from steps import twice as step", "from engine import go as step"])
def test_an_import_is_followed_into_submodules_and_plain_imports(tmp_path: Path, imported: str) -> None:
    (tmp_path / "steps").mkdir()
    (tmp_path / "steps" / "__init__.py").write_text("")
    (tmp_path / "steps" / "twice.py").write_text("def go(loss):\n    loss.backward()\n    loss.backward()\n")
    (tmp_path / "engine.py").write_text("import steps.twice\n\n\ndef go(loss):\n    steps.twice.go(loss)\n")
    call = "step.go(loss)" if "twice" in imported else "step(loss)"
    program = (
        HEAD
        + "model = nn.Linear(3, 1)\nloss = model(torch.randn(4, 3)).mean()\n"
        + (f"if args.save:\n    {imported}\n    {call}\n")
    )
    _, found = ways(program, str(tmp_path / "train.py"))
    assert [one.code for one in found] == ["TAPE101"]


BUILDS = """\
import torch

def train(model, data):
    model(data).mean().backward()
"""


@pytest.mark.parametrize(
    ("first", "behind", "tried"),
    [
        ("from trainer import train\n", "from more import MORE", False),
        ("", "from more import MORE", True),
        ("from trainer import train\n", "from trainer import train as MORE", True),
    ],
    ids=["it leads to a file that has run", "it leads to one that has not", "it brings what has run"],
)
def test_an_import_runs_no_file_again(tmp_path: Path, first: str, behind: str, tried: bool) -> None:
    """A file that the path has run by then builds nothing when a condition's other side imports it through another."""
    (tmp_path / "trainer.py").write_text(BUILDS)
    (tmp_path / "more.py").write_text("from trainer import train\n\nMORE = 1\n")
    program = f"{HEAD}{first}if args.save:\n    {behind}\nmodel = nn.Linear(3, 1)\n{OPTIMIZER}{TRAIN}"
    log, _ = ways(program, str(tmp_path / "program.py"))
    assert (len(log) > 1) is tried


@pytest.mark.parametrize(
    ("given", "other", "tried"),
    [
        ("faces.Faces('train')", "faces.Cars('train')", False),
        ("faces.Faces('train')", "torch.utils.data.StackDataset(args)", False),
        ("faces.Faces('train')", "[torch.randn(4, 3)]", True),
        ("faces.Faces('train')", "torch.randn(8, 4, 3)", True),
        ("[torch.randn(4, 3)]", "faces.Cars('train')", True),
    ],
)
def test_a_loop_goes_round_as_often_over_either_of_two_unknown_things(given: str, other: str, tried: bool) -> None:
    program = (
        f"{HEAD}import faces\n\nmodel = nn.Linear(3, 1)\n{OPTIMIZER}"
        f"if args.save:\n    data = {given}\nelse:\n    data = {other}\n"
        + TRAIN.replace("torch.randn(8, 4, 3)", "data")
    )
    log, _ = ways(program)
    assert (len(log) > 1) is tried


def test_a_check_of_options_ends_no_path_that_another_condition_makes() -> None:
    """A program is run with options that its checks let pass, whatever else is answered otherwise."""
    program = (
        HEAD.replace("args =", 'parser.add_argument("--data", default="")\nargs =')
        + "def load(path):\n    if not path:\n        raise ValueError('no data')\n    return torch.randn(4, 3)\n\n"
        + "model = nn.Linear(3, 1)\nloss = model(load(args.data)).mean()\n"
        + "if args.save:\n    loss.backward()\nloss.backward()\n"
    )
    _, found = ways(program)
    assert [one.code for one in found] == ["TAPE101"]


_FILLED = """\
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(3, 4)
base = net(torch.randn(6, 3)).softmax(1)
left = torch.ones(6)
for round in range(5):
    over, going = [], []
    for row in range(6):
        if left[row] + torch.rand(()) < 0.1:
            over.append(row)
        else:
            left[row] -= 0.5
            going.append(row)
    loss = (net(torch.randn(6, 3)) * base).sum()
    net.zero_grad()
    loss.backward(retain_graph=True)
    if ENDS:
        break
"""


def _into_sets(program: str) -> str:
    return program.replace("[], []", "set(), set()").replace(".append", ".add")


def _into_strange_lists(program: str) -> str:
    return program.replace(".append(row)", ".insert(0, row)")


@pytest.mark.parametrize("holds", [str, _into_sets, _into_strange_lists])
@pytest.mark.parametrize("ends", ["not going", "len(going) == 0", "len(over) > 5"])
def test_what_is_put_into_a_container_decides_what_its_length_does(ends: str, holds: Callable[[str], str]) -> None:
    program = holds(_FILLED.replace("ENDS", ends))
    assert [one.code for one in check(from_text(program, "program.py")).findings if one.code == "TAPE301"] == []


def test_torch_needs_the_graph_of_the_round_before() -> None:
    pytest.importorskip("torch")
    program = _FILLED.replace("ENDS", "not going")
    exec(program, {})
    with pytest.raises(RuntimeError, match="second time"):
        exec(program.replace("retain_graph=True", ""), {})


_TWO_CUTS = """\
import random
import torch
from torch import nn

net = nn.GRUCell(2, 2)
FIRST
for x in torch.ones(12, 1, 2):
    BODY
"""


@pytest.mark.parametrize(
    ("first", "body", "code"),
    [
        (
            "h = torch.zeros(1, 2)",
            (
                "h = net(x, h); h.sum().backward()\nif random.random() < 0.3:\n    h = torch.zeros(1, 2)\n"
                "if random.random() < 0.3:\n    h = h.detach()"
            ),
            "TAPE101",
        ),
        (
            "h = None",
            (
                "if random.random() < 0.5:\n    h = net(x, torch.zeros(1, 2)).sum(); h.backward()\n"
                "elif h is not None:\n    h.backward()"
            ),
            "TAPE101",
        ),
        (
            "kept = []",
            (
                "y = net(x, torch.zeros(1, 2)).sum()\nif random.random() < 0.5:\n    y = y.detach()\n"
                "if random.random() < 0.5:\n    y = y.item()\nkept.append(y)"
            ),
            "TAPE201",
        ),
    ],
    ids=["two-cuts", "one-answer-after-the-other", "two-ways-to-store"],
)
def test_what_two_conditions_hide_together_is_found(first: str, body: str, code: str) -> None:
    """Either of them alone hides it: turning one round changes no finding."""
    program = _TWO_CUTS.replace("FIRST", first).replace("BODY", body.replace("\n", "\n    "))
    assert code in {one.code for one in check(from_text(program, "program.py")).findings}


_LEAVES = """\
import math, sys
import torch
from torch import nn

net = nn.Linear(4, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)


def train(data):
    for x in data:
        loss = net(x).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if math.isnan(loss.item()) or math.isinf(loss.item()):
            ENDS


for epoch in range(10):
    train(torch.randn(20, 3, 4))
    outputs = []
    for x in torch.randn(20, 3, 4):
        outputs.append(net(x))
"""


@pytest.mark.parametrize("behind", ["", "return", "print('gone')", "raise ValueError", "loss = None"])
@pytest.mark.parametrize("ends", ["sys.exit(0)", "exit()", "quit()"])
def test_what_ends_the_program_is_not_the_likelier_side_whatever_stands_behind_it(ends: str, behind: str) -> None:
    program = _LEAVES.replace("ENDS", "\n            ".join(filter(None, (ends, behind))))
    assert [one.code for one in check(from_text(program, "program.py")).findings] == ["TAPE201"]


@pytest.mark.parametrize(
    ("body", "likelier"),
    [
        ("return", False),
        ("print('no such file')\n        return", False),
        ("print(f'{path} is missing')\n        print('train first')\n        return None", False),
        ("net.load(path)\n        return net", True),
    ],
)
def test_a_guard_that_says_why_it_leaves_is_not_the_likelier_side(body: str, likelier: bool) -> None:
    program = (
        "import os\nimport sys\nimport torch\nfrom torch import nn\n\n\ndef main(path):\n    net = nn.Linear(3, 1)\n"
    )
    program += (
        f"    if unknown(path):\n        {body}\n    net(torch.randn(4, 3)).sum().backward()\n\n\nmain(sys.argv[1])\n"
    )
    log, _ = ways(program)
    assert log[0].conditions[0].answer is likelier


@pytest.mark.parametrize(
    ("parameter", "asked", "certain"),
    [
        ("norm", 'norm == "l2"', True),
        ("norm='l1'", 'norm == "l2"', False),
        ("norm='l2'", 'norm == "l2"', True),
        ("twice=False", "twice", False),
        ("twice=True", "twice", True),
    ],
)
def test_what_only_another_argument_than_the_default_shows_is_possible(
    parameter: str, asked: str, certain: bool
) -> None:
    program = HEAD + f"def attack(model, x, {parameter}):\n    x = x.detach().requires_grad_()\n"
    program += f"    loss = (x * 2).pow(2).sum()\n    if {asked}:\n        loss.backward()\n        loss.backward()\n"
    assert [(one.code, one.certain) for one in check(from_text(program, "attack.py")).findings] == [
        ("TAPE101", certain)
    ]


_TEXTS = ["MODE.find('ma') > -1", "MODE.startswith('m')", "MODE.upper() == 'MAML'", "MODE.replace('_', '') == 'maml'"]


@pytest.mark.parametrize("asked", _TEXTS)
@pytest.mark.parametrize(("default", "told"), [("maml", True), ("reptile", False)])
def test_a_method_of_a_text_is_asked_of_what_an_option_is_by_default(asked: str, default: str, told: bool) -> None:
    program = "import argparse\nimport torch\nfrom torch import nn\n"
    program += f"parser = argparse.ArgumentParser()\nparser.add_argument('--mode', default='{default}')\n"
    program += "args = parser.parse_args()\nnet = nn.Linear(4, 1)\nkept = []\nfor x in torch.randn(20, 3, 4):\n"
    program += f"    if {asked.replace('MODE', 'args.mode')}:\n        loss = net(x).mean()\n    else:\n"
    program += "        loss = net(x).pow(2).mean().item()\n    kept.append(loss)\n"
    log, _ = ways(program)
    assert log[0].conditions[0].answer is told


@pytest.mark.parametrize("options", ["args", "vars(args)", "args.__dict__"])
@pytest.mark.parametrize(("default", "told"), [("maml", True), ("reptile", False)])
def test_an_option_has_its_default_under_its_name_too(options: str, default: str, told: bool) -> None:
    program = HEAD + f"parser = argparse.ArgumentParser()\nparser.add_argument('--mode', default='{default}')\n"
    program += f"args = parser.parse_args()\noptions = {options}\nnet = nn.Linear(4, 1)\nkept = []\n"
    asked = "options.mode" if options == "args" else "options['mode']"
    program += f"for x in torch.randn(20, 3, 4):\n    if {asked} == 'maml':\n        loss = net(x).mean()\n    else:\n"
    program += "        loss = net(x).pow(2).mean().item()\n    kept.append(loss)\n"
    log, _ = ways(program)
    assert log[0].conditions[0].answer is told


MOVED = """\
device = torch.device(args.save)
a = torch.ones(3, requires_grad=True).to(DEVICE)
b = torch.ones(3, requires_grad=True).to(DEVICE)
optimizer = torch.optim.SGD([a, b], lr=0.1)
for x in torch.randn(4, 3):
    loss = (x * a * b).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_of_what_is_moved_from_the_host_all_is_on_a_device_already_or_nothing() -> None:
    log, _ = ways(HEAD + MOVED.replace("DEVICE", "args.place"))
    asked = [one.text for one in log[0].conditions if ".device == args.place" in one.text]
    assert len(asked) == 1
