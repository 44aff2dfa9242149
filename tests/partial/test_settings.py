"""What a file, the command line or hidden code says may be stored over what the text says, or be given in its place.

Each program is right with the file that it reads or the code that is hidden: nothing certain may be said of it, and
nothing safe may be done to it. With what the text says alone it is wrong, and is told so.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tapecheck.check import check
from tapecheck.source import from_text
from tests.cases import under_torch
from tests.partial.test_keepers import _sure

HIDDEN = """\
import torch

settings = {"cut": True}
name = "cut"
Refused = RuntimeError


class Skip(Exception):
    pass


def check(step):
    if step:
        raise Skip
"""
DICT = "settings = {{'cut': False, 'steps': 4}}\n{over}"
OBJECT = (
    "class Settings:\n    cut = False\n\n    def __init__(self):\n        self.steps = 4\nsettings = Settings()\n{over}"
)
MADE = "import dataclasses\n@dataclasses.dataclass\nclass Settings:\n    cut: bool = False\n    steps: int = 4\n{over}"
TUPLE = "import collections\nSettings = collections.namedtuple('Settings', 'cut steps', defaults=(False, 4))\n{over}"
LOADED = "json.load(open('settings.json'))"
OVER = {
    "updated": (DICT, f"settings.update({LOADED})", "settings['cut']"),
    "merged": (DICT, f"settings = {{**settings, **{LOADED}}}", "settings['cut']"),
    "joined": (DICT, f"settings = settings | {LOADED}", "settings['cut']"),
    "one by one": (DICT, f"for name, value in {LOADED}.items():\n    settings[name] = value", "settings['cut']"),
    "nested": (
        DICT,
        f"settings = {{'all': settings}}\nsettings['all'].update({LOADED})\nsettings = settings['all']",
        "settings['cut']",
    ),
    "hidden dict": (DICT, "settings.update(hidden_settings.settings)", "settings['cut']"),
    "hidden name": (DICT, "settings[hidden_settings.name] = True", "settings['cut']"),
    "attributes": (OBJECT, f"for name, value in {LOADED}.items():\n    setattr(settings, name, value)", "settings.cut"),
    "live dict": (OBJECT, f"vars(settings).update({LOADED})", "settings.cut"),
    "own dict": (OBJECT, f"settings.__dict__.update({LOADED})", "settings.cut"),
    "keywords": (MADE, f"settings = Settings(**{LOADED})", "settings.cut"),
    "hidden keywords": (MADE, "settings = Settings(**hidden_settings.settings)", "settings.cut"),
    "replaced": (MADE, f"settings = dataclasses.replace(Settings(), **{LOADED})", "settings.cut"),
    "named tuple": (TUPLE, f"settings = Settings()._replace(**{LOADED})", "settings.cut"),
    "globals": ("cut = False\n{over}", f"globals().update({LOADED})", "cut"),
    "globals one by one": (
        "cut = False\n{over}",
        f"for name, value in {LOADED}.items():\n    globals()[name] = value",
        "cut",
    ),
    "arguments": (
        "import argparse\nsettings = argparse.ArgumentParser().parse_args([])\nsettings.cut = False\n{over}",
        f"vars(settings).update({LOADED})",
        "settings.cut",
    ),
    "live arguments": (
        "import argparse\nsettings = argparse.ArgumentParser().parse_args()\nsettings.cut = False\n{over}",
        "vars(settings)['cut'] = True",
        "settings.cut",
    ),
    "function": (
        "def chosen(cut=False, steps=4):\n    return cut\nsettings = False\n{over}",
        f"settings = chosen(**{LOADED})",
        "settings",
    ),
    "partial": (
        "import functools\ndef chosen(cut=False, steps=4):\n    return cut\nsettings = False\n{over}",
        f"settings = functools.partial(chosen, **{LOADED})()",
        "settings",
    ),
}
CARRIED = """\
import json
import torch
from torch import nn
import hidden_settings
{settings}
net = nn.RNNCell(3, 4)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
h = torch.zeros(2, 4)
for _ in range(4):
    h = net(torch.randn(2, 3), h)
    loss = h.pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    if {cut}:
        h = h.detach()
"""


def _program(name: str, over: str | None = None) -> str:
    made, given, cut = OVER[name]
    return CARRIED.format(settings=made.format(over=given if over is None else over), cut=cut)


@pytest.mark.parametrize("name", OVER)
def test_what_is_stored_over_a_setting_is_what_it_is(name: str, tmp_path: Path) -> None:
    assert _sure(check(from_text(_program(name), str(tmp_path / "program.py")))) == []


@pytest.mark.parametrize("name", [name for name, (made, _, _) in OVER.items() if made not in (MADE, TUPLE)])
def test_a_setting_that_nothing_is_stored_over_is_what_the_text_says(name: str, tmp_path: Path) -> None:
    assert any("TAPE101" in one for one in _sure(check(from_text(_program(name, ""), str(tmp_path / "program.py")))))


GIVEN = {
    "keywords": "loss.backward(**settings['backward'])",
    "positional": "loss.backward(*settings['given'])",
    "choice": "h = (h, h.detach())[settings['cut']]\n    loss.backward()",
    "function": "h = {'keep': lambda value: value, 'cut': torch.detach}[settings['way']](h)\n    loss.backward()",
    "refused": "try:\n        loss.backward()\n    except hidden_settings.Refused:\n        pass",
    "suppressed": "with contextlib.suppress(hidden_settings.Refused):\n        loss.backward()",
    "skipped": "try:\n        hidden_settings.check(step)\n    except hidden_settings.Skip:\n        continue\n"
    "    loss.backward()",
}
TWICE = """\
import contextlib
import json
import torch
from torch import nn
import hidden_settings
settings = json.load(open('settings.json'))
net = nn.RNNCell(3, 4)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
h = torch.zeros(2, 4)
for step in range(4):
    h = net(torch.randn(2, 3), h)
    loss = h.pow(2).mean()
    opt.zero_grad()
    {given}
    {again}
    opt.step()
"""
AGAIN = "loss.backward()\n    h = h.detach()"


@pytest.mark.parametrize("kind", GIVEN)
def test_what_a_setting_chooses_or_hidden_code_catches_is_not_known(kind: str, tmp_path: Path) -> None:
    text = TWICE.format(given=GIVEN[kind], again=AGAIN if kind in ("keywords", "positional") else "pass")
    assert _sure(check(from_text(text, str(tmp_path / "program.py")))) == []


TABLE = """\
import functools
import json
import torch
from torch import nn
class Keep(nn.Module):
    def forward(self, value):
        return value{keeps}
class Other(Keep):
    pass
class Cut(nn.Module):
    def forward(self, value):
        return value.detach()
def keep(value):
    return value{keeps}
def cut(value):
    return value.detach()
way = json.load(open('settings.json'))['way']
between = {table}
net = nn.RNNCell(3, 4)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
h = torch.zeros(2, 4)
for step in range(4):
    h = net(torch.randn(2, 3), h)
    loss = h.pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    h = between(h)
"""
TABLES = {
    "classes": "{'keep': Keep, 'cut': Cut}[way]()",
    "three classes": "{'keep': Keep, 'other': Other, 'cut': Cut}[way]()",
    "in the middle": "{'keep': Keep, 'cut': Cut, 'other': Other}[way]()",
    "more than are tried": "{'a': Keep, 'b': Other, 'c': Keep, 'd': Other, 'e': Keep, 'cut': Cut}[way]()",
    "modules": "{'keep': Keep(), 'cut': Cut()}[way]",
    "module dict": "nn.ModuleDict({'keep': Keep(), 'cut': Cut()})[way]",
    "functions": "{'keep': keep, 'cut': cut}[way]",
    "torch's functions": "{'keep': torch.clone, 'cut': torch.detach}[way]",
    "get": "{'keep': Keep, 'cut': Cut}.get(way)()",
    "get with a default": "{'cut': Cut}.get(way, Keep)()",
    "get of modules": "{'cut': Cut()}.get(way, Keep())",
    "keywords": "dict(keep=Keep, cut=Cut)[way]()",
    "zipped": "dict(zip(['keep', 'cut'], [Keep, Cut]))[way]()",
    "made": "{one.__name__.lower(): one for one in (Keep, Cut)}[way]()",
    "number": "[keep, cut][int(json.load(open('settings.json'))['cut'])]",
    "number of a tuple": "(Keep, Cut)[int(json.load(open('settings.json'))['cut'])]()",
    "number of modules": "nn.ModuleList([Keep(), Cut()])[int(json.load(open('settings.json'))['cut'])]",
    "in a function": "(lambda name: {'keep': Keep, 'cut': Cut}[name]())(way)",
}


@pytest.mark.parametrize("kind", TABLES)
def test_what_a_setting_takes_from_a_table_is_not_known(kind: str, tmp_path: Path) -> None:
    text = TABLE.format(table=TABLES[kind], keeps="")
    assert _sure(check(from_text(text, str(tmp_path / "program.py")))) == []


@pytest.mark.parametrize("kind", ["classes", "three classes", "in the middle", "modules", "functions", "get"])
def test_what_holds_for_all_of_a_table_is_certain(kind: str, tmp_path: Path) -> None:
    text = TABLE.format(table=TABLES[kind], keeps=".detach()").replace("opt.step()", "opt.step()\n    loss.backward()")
    assert any("TAPE101" in one for one in _sure(check(from_text(text, str(tmp_path / "program.py")))))


OPTIONS = """\
import argparse
import torch
from torch import nn
class Keep(nn.Module):
    def forward(self, value):
        return value
class Cut(nn.Module):
    def forward(self, value):
        return value.detach()
parser = argparse.ArgumentParser()
parser.add_argument("--way"{default})
args = parser.parse_args()
between = {table}[args.way]()
net = nn.RNNCell(3, 4)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
h = torch.zeros(2, 4)
for step in range(4):
    h = net(torch.randn(2, 3), h)
    loss = h.pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    h = between(h)
"""


@pytest.mark.parametrize("default", ["", ", default='keep'", ", default='cut'", ", choices=['keep', 'cut']"])
def test_the_order_of_a_table_says_nothing(default: str) -> None:
    tables = ("{'keep': Keep, 'cut': Cut}", "{'cut': Cut, 'keep': Keep}", "{'cut': Cut, 'same': Cut, 'keep': Keep}")
    for table in tables:
        report = check(from_text(OPTIONS.format(default=default, table=table), "program.py"))
        assert [(one.code, one.certain) for one in report.findings] == [("TAPE101", False)], table


SETTINGS = '{"cut": true, "backward": {"retain_graph": true}, "given": [null, true], "way": "cut"}'


@pytest.mark.skipif(not under_torch.has_torch(), reason="needs torch")
def test_the_programs_are_right(tmp_path: Path) -> None:
    (tmp_path / "hidden").mkdir()
    (tmp_path / "hidden" / "hidden_settings.py").write_text(HIDDEN)
    programs = {f"over {name}": (_program(name), '{"cut": true}') for name in OVER}
    for kind, given in GIVEN.items():
        again = AGAIN if kind in ("keywords", "positional") else "pass"
        programs[kind] = (TWICE.format(given=given, again=again), SETTINGS)
    programs.update((f"table of {kind}", (TABLE.format(table=TABLES[kind], keeps=""), SETTINGS)) for kind in TABLES)
    requests = []
    for number, (text, settings) in enumerate(programs.values()):
        path = tmp_path / f"{number}.py"
        path.write_text(f"open('settings.json', 'w').write({settings!r})\n{text}")
        requests.append({"path": path, "folders": [str(tmp_path / "hidden")], "seconds": 20})
    for name, ran in zip(programs, under_torch.run_all(requests), strict=True):
        assert ran["exception"] is None, (name, ran["message"])


def test_a_window_that_a_setting_bounds_may_let_go(tmp_path: Path) -> None:
    begun = "losses = []\nopt = torch.optim.SGD(net.parameters(), lr=0.1)\n"
    for kept, told in (("settings['kept']", False), ("2", False), ("1000000", True)):
        text = TWICE.replace("opt = torch", begun + "opt = torch", 1)
        text = text.format(
            given="loss.backward()\n    h = h.detach()", again=f"losses.append(loss)\n    del losses[:-{kept}]"
        )
        report = check(from_text(text, str(tmp_path / "program.py")))
        assert any("TAPE201" in one for one in _sure(report)) is told, kept
    text = text.replace(f"\n    del losses[:-{kept}]", "")
    assert any("TAPE201" in one for one in _sure(check(from_text(text, str(tmp_path / "program.py")))))
