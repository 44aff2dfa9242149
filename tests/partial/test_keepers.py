"""What a hidden object is given to keep, a hidden flag answers or a hidden name selects is nobody's to be sure of.

Each program is right with the code that is hidden, or with the file that it reads: nothing certain may be said of it,
and nothing safe may be done to it. With a plain object in its place the same program is wrong, and is told so.
"""

from __future__ import annotations

import itertools
import textwrap
from dataclasses import dataclass
from pathlib import Path

import pytest

from tapecheck.check import Report, check
from tapecheck.fixes import fixes_for
from tapecheck.source import from_text
from tests.cases import under_torch

HIDDEN = """\
import torch


def cut(value):
    return value.detach() if isinstance(value, torch.Tensor) else value


class Setting:
    def __setattr__(self, name, value):
        object.__setattr__(self, name, cut(value))


class Nested:
    def __init__(self):
        self.inner = Setting()


class Entries(dict):
    def __setitem__(self, key, value):
        dict.__setitem__(self, key, cut(value))


class Cut:
    def __set_name__(self, owner, name):
        self.name = "_" + name

    def __get__(self, owner, kind=None):
        return getattr(owner, self.name)

    def __set__(self, owner, value):
        owner.__dict__[self.name] = cut(value)


class Meta(type):
    def __new__(kind, name, bases, namespace):
        return super().__new__(kind, name, (Setting, *bases), namespace)

    def __setattr__(cls, name, value):
        super().__setattr__(name, cut(value))


def remade(cls):
    return type(cls.__name__, (Setting, cls), {})


class After:
    def __post_init__(self):
        self.h = cut(self.h)
"""
ZEROS = "torch.zeros(2, 4)"


@dataclass(frozen=True, slots=True)
class Keeper:
    """A way to keep a state in a hidden object: what makes it, what reads the state and what stores `h`."""

    made: str
    read: str
    write: str


KEEPERS = {
    "attribute": Keeper(f"keeper = hidden_keepers.Setting()\nkeeper.h = {ZEROS}", "keeper.h", "keeper.h = h"),
    "attribute by name": Keeper(
        f"keeper = hidden_keepers.Setting()\nsetattr(keeper, 'h', {ZEROS})",
        "getattr(keeper, 'h')",
        "setattr(keeper, 'h', h)",
    ),
    "attribute of an attribute": Keeper(
        f"keeper = hidden_keepers.Nested()\nkeeper.inner.h = {ZEROS}", "keeper.inner.h", "keeper.inner.h = h"
    ),
    "item": Keeper(f"keeper = hidden_keepers.Entries()\nkeeper['h'] = {ZEROS}", "keeper['h']", "keeper['h'] = h"),
    "numbered item": Keeper(f"keeper = hidden_keepers.Entries()\nkeeper[0] = {ZEROS}", "keeper[0]", "keeper[0] = h"),
    "item of a made one": Keeper(
        f"keeper = collections.defaultdict(hidden_keepers.Entries)\nkeeper[0]['h'] = {ZEROS}",
        "keeper[0]['h']",
        "keeper[0]['h'] = h",
    ),
    "sum": Keeper(
        f"keeper = hidden_keepers.Setting()\nkeeper.h = {ZEROS}", "keeper.h", "keeper.h = 0.5 * keeper.h + h"
    ),
    "descriptor": Keeper(
        f"class Keeper:\n    h = hidden_keepers.Cut()\nkeeper = Keeper()\nkeeper.h = {ZEROS}",
        "keeper.h",
        "keeper.h = h",
    ),
    "base": Keeper(
        f"class Keeper(hidden_keepers.Setting):\n    pass\nkeeper = Keeper()\nkeeper.h = {ZEROS}",
        "keeper.h",
        "keeper.h = h",
    ),
    "base of what has a leaf": Keeper(
        "class Keeper(hidden_keepers.Setting):\n    def __init__(self):\n        self.net = nn.Linear(1, 1)\n"
        f"        self.h = {ZEROS}\nkeeper = Keeper()",
        "keeper.h",
        "keeper.h = h",
    ),
    "metaclass": Keeper(
        f"class Keeper(metaclass=hidden_keepers.Meta):\n    pass\nkeeper = Keeper()\nkeeper.h = {ZEROS}",
        "keeper.h",
        "keeper.h = h",
    ),
    "attribute of a class": Keeper(
        f"class Keeper(metaclass=hidden_keepers.Meta):\n    pass\nKeeper.h = {ZEROS}", "Keeper.h", "Keeper.h = h"
    ),
    "decorated class": Keeper(
        f"@hidden_keepers.remade\nclass Keeper:\n    pass\nkeeper = Keeper()\nkeeper.h = {ZEROS}",
        "keeper.h",
        "keeper.h = h",
    ),
    "base of a dataclass": Keeper(
        f"@dataclasses.dataclass\nclass Keeper(hidden_keepers.After):\n    h: object\nkeeper = Keeper({ZEROS})",
        "keeper.h",
        "keeper = Keeper(h)",
    ),
}
PLAIN = Keeper(f"class Keeper:\n    pass\nkeeper = Keeper()\nkeeper.h = {ZEROS}", "keeper.h", "keeper.h = h")
HEADER = """\
import collections
import dataclasses
import torch
from torch import nn
import hidden_keepers
torch.manual_seed(0)
"""
SHAPES = {
    "at the top": "{made}\nnet = nn.RNNCell(3, 4)\nopt = torch.optim.SGD(net.parameters(), lr=0.1)\n{loop}",
    "in a function": (
        "def train():\n    {made4}\n    net = nn.RNNCell(3, 4)\n    opt = torch.optim.SGD(net.parameters(), lr=0.1)\n"
        "    {loop4}\ntrain()\n"
    ),
    "handed over": (
        "{made}\ndef train(net, opt, keeper):\n    {loop4}\nnet = nn.RNNCell(3, 4)\n"
        "train(net, torch.optim.SGD(net.parameters(), lr=0.1), {keeper})\n"
    ),
}
LOOP = """\
for _ in {steps}:
    h = net(torch.randn(2, 3), {read})
    loss = h.pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    {write}
"""
LENGTHS = ("range(2)", "range(7)", "[1, 2, 3]")


def _program(keeper: Keeper, shape: str, steps: str) -> str:
    loop = LOOP.format(steps=steps, read=keeper.read, write=keeper.write)
    deeper = {name: textwrap.indent(text, "    ").strip() for name, text in (("made4", keeper.made), ("loop4", loop))}
    kept = "Keeper" if keeper.read.startswith("Keeper") else "keeper"
    return HEADER + SHAPES[shape].format(made=keeper.made, loop=loop, keeper=kept, **deeper)


def _sure(report: Report) -> list[str]:
    """Return what a report is sure of: its certain findings, and the safe fixes of any."""
    sure = [f"{one.code} line {one.span.line}" for one in report.findings if one.certain]
    fixes = ((one, fix) for one in report.findings for fix in fixes_for(report, one))
    return sure + [f"fix of {one.code}: {fix.title}" for one, fix in fixes if fix.applicability == "safe"]


def _checked(text: str, folder: Path) -> Report:
    return check(from_text(text, str(folder / "program.py")))


@pytest.mark.parametrize("name", KEEPERS)
def test_a_hidden_object_may_keep_something_else(name: str, tmp_path: Path) -> None:
    for shape, steps in itertools.product(SHAPES, LENGTHS):
        assert _sure(_checked(_program(KEEPERS[name], shape, steps), tmp_path)) == [], (shape, steps)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_plain_object_keeps_what_it_is_given(shape: str, tmp_path: Path) -> None:
    for steps in LENGTHS:
        assert any("TAPE101" in one for one in _sure(_checked(_program(PLAIN, shape, steps), tmp_path))), steps


@pytest.mark.skipif(not under_torch.has_torch(), reason="needs torch")
def test_the_programs_of_hidden_objects_are_right(tmp_path: Path) -> None:
    (tmp_path / "hidden").mkdir()
    (tmp_path / "hidden" / "hidden_keepers.py").write_text(HIDDEN)
    programs = list(itertools.product((*KEEPERS.values(), PLAIN), SHAPES))
    requests = []
    for number, (keeper, shape) in enumerate(programs):
        path = tmp_path / f"{number}.py"
        path.write_text(_program(keeper, shape, LENGTHS[-1]))
        requests.append({"path": path, "folders": [str(tmp_path / "hidden")], "seconds": 20})
    for (keeper, shape), ran in zip(programs, under_torch.run_all(requests), strict=True):
        assert ran["exception"] == ("RuntimeError" if keeper is PLAIN else None), (keeper, shape, ran["message"])


FLAGS = {
    "file": ("import json\nsettings = json.load(open('settings.json'))", "settings['flag']"),
    "environment": ("import os\nsettings = os.environ.get('FLAG')", "settings"),
    "command line": ("import sys\nsettings = sys.argv", "len(settings) > 2"),
    "standard input": ("settings = input()", "settings"),
    "hidden": ("from hidden_keepers import settings", "settings.flag"),
}
OF_FLAGS = {
    "create_graph": (
        "x = torch.randn(5, 3, requires_grad=True)\n"
        "    slope = torch.autograd.grad(net(x).sum(), x, create_graph={flag})[0]\n"
        "    loss = net(x).mean() + slope.norm()"
    ),
    "retain_graph": "loss = net(torch.randn(5, 3)).pow(2).mean()\n    loss.backward(retain_graph={flag})",
}
FLAGGED = """\
import torch
from torch import nn
{source}
net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    opt.zero_grad()
    {body}
    loss.backward()
    opt.step()
"""


@pytest.mark.parametrize("source", FLAGS)
@pytest.mark.parametrize("kind", OF_FLAGS)
def test_a_flag_that_is_not_in_the_text_leaves_all_possible(kind: str, source: str, tmp_path: Path) -> None:
    begun, flag = FLAGS[source]
    direct = FLAGGED.format(source=begun, body=OF_FLAGS[kind].format(flag=flag))
    through = FLAGGED.format(source=begun, body=OF_FLAGS[kind].format(flag="flag"))
    named = through.replace("for _ in", f"flag = {flag}\nfor _ in")
    for text in (direct, named):
        report = _checked(text, tmp_path)
        assert _sure(report) == []
    for answer, told in (("False", True), ("True", False)):
        known = _sure(_checked(FLAGGED.format(source="", body=OF_FLAGS[kind].format(flag=answer)), tmp_path))
        assert bool(known) is told


FREEZING = {
    "flag": "if {choice}:\n    net.requires_grad_(False)",
    "flag of each": "for one in net.parameters():\n    if {choice}:\n        one.requires_grad = False",
    "named": "for name, one in net.named_parameters():\n    if name in {choice}:\n        one.requires_grad = False",
    "any": "for name, one in net.named_parameters():\n    if any(key in name for key in {choice}):\n"
    "        one.requires_grad_(False)",
    "numbered": "for number, one in enumerate(net):\n    if number in {choice}:\n        one.requires_grad_(False)",
    "compared": "for number, one in enumerate(net.parameters()):\n    if number < {choice}:\n"
    "        one.requires_grad = False",
    "through": "def freeze(module):\n    for one in module.parameters():\n        one.requires_grad = False\n"
    "for one in net:\n    if str(one) in {choice}:\n        freeze(one)",
    "left out": "for name, one in net.named_parameters():\n    if name not in {choice}:\n        continue\n"
    "    one.requires_grad = False",
    "counted": "for number in range({choice}):\n    net[number].requires_grad_(False)",
    "counted down": "for number in range({choice}):\n    net[len(net) - 1 - number].requires_grad_(False)",
    "counted beside": "for number, one in zip(range({choice}), net):\n    one.requires_grad_(False)",
    "counted up": "number = 0\nwhile number < {choice}:\n    net[number].requires_grad_(False)\n    number += 1",
    "broken off": "for number, one in enumerate(net):\n    if number == {choice}:\n        break\n"
    "    one.requires_grad_(False)",
    "in a range": "for number, one in enumerate(net):\n    if number in range({choice}):\n"
    "        one.requires_grad_(False)",
    "part": "for one in net[:{choice}]:\n    one.requires_grad_(False)",
    "part at once": "net[:{choice}].requires_grad_(False)",
    "part of a list": "for one in list(net.children())[:{choice}]:\n    one.requires_grad_(False)",
    "part of the parameters": "for one in list(net.parameters())[:{choice}]:\n    one.requires_grad = False",
    "first few": "import itertools\nfor one in itertools.islice(net, {choice}):\n    one.requires_grad_(False)",
    "as it says": "for one in net:\n    one.requires_grad_({choice})",
    "each as it says": "for one in net.parameters():\n    one.requires_grad = {choice}",
    "by name": "getattr(net, {choice}).requires_grad_(False)",
    "in a function": "def freeze(count):\n    for number in range(count):\n        net[number].requires_grad_(False)\n"
    "freeze({choice})",
    "pattern": "import re\nfor name, one in net.named_parameters():\n    if re.match({choice}, name):\n"
    "        one.requires_grad = False",
}
FROZEN = """\
import torch
from torch import nn
import json
settings = json.load(open('settings.json'))
net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
{freezing}
for _ in range(3):
    loss = net(torch.randn(5, 3)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
"""


@pytest.mark.parametrize("kind", FREEZING)
def test_what_data_freezes_need_not_be_all(kind: str, tmp_path: Path) -> None:
    for choice in ("settings['frozen']", "settings", "settings.get('frozen', [])"):
        report = _checked(FROZEN.format(freezing=FREEZING[kind].format(choice=choice)), tmp_path)
        assert _sure(report) == [], choice


def test_what_is_frozen_in_any_case_is_told(tmp_path: Path) -> None:
    report = _checked(FROZEN.format(freezing="for one in net.parameters():\n    one.requires_grad = False"), tmp_path)
    assert [one.split()[0] for one in _sure(report)] == ["TAPE103"]


@pytest.mark.parametrize("kind", FREEZING)
def test_what_may_be_frozen_need_not_be_trained(kind: str, tmp_path: Path) -> None:
    """A part of which a setting says whether it is frozen, and which a cut keeps from being trained in any case."""
    cut = FROZEN.replace("net(torch", "net[1:](net[0](torch").replace("3)).pow", "3)).detach()).pow")
    for choice in ("settings['frozen']", "settings", "settings.get('frozen', [])"):
        report = _checked(cut.format(freezing=FREEZING[kind].format(choice=choice)), tmp_path)
        assert _sure(report) == [], choice
    assert any("TAPE402" in one for one in _sure(_checked(cut.format(freezing=""), tmp_path)))


STEPPED = {
    "chosen": "[one for name, one in net.named_parameters() if name in settings['trained']]",
    "filtered": "filter(lambda one: one.numel() > settings['least'], net.parameters())",
}


@pytest.mark.parametrize("kind", STEPPED)
def test_what_an_optimizer_may_not_have_need_not_be_trained(kind: str, tmp_path: Path) -> None:
    cut = (
        FROZEN.replace("net(torch", "net[1:](net[0](torch").replace("3)).pow", "3)).detach()).pow").format(freezing="")
    )
    assert _sure(_checked(cut.replace("net.parameters()", STEPPED[kind]), tmp_path)) == []


@pytest.mark.parametrize("most", ("settings['window']", "int(settings['window'])", "max(2, settings['window'])"))
@pytest.mark.parametrize("made", ("maxlen={most}", "[], {most}", "[], maxlen={most}"))
def test_a_window_of_unknown_size_may_let_go(made: str, most: str, tmp_path: Path) -> None:
    kept = f"import collections\nlosses = collections.deque({made.format(most=most)})"
    text = FROZEN.format(freezing=kept) + "    losses.append(loss)\nprint(sum(losses))\n"
    assert _sure(_checked(text, tmp_path)) == []
    known = text.replace(made.format(most=most), "")
    assert any("TAPE201" in one for one in _sure(_checked(known, tmp_path)))
