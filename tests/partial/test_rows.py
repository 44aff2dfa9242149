"""A row of a table that a name nobody knows chooses: it is one of the rows, with its own settings, and can be written.

Programs that run whatever the name is; nothing certain may be said of them, and nothing safe may be done to them.
"""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from tapecheck.check import check
from tapecheck.source import from_text
from tests.cases import under_torch
from tests.partial.test_keepers import _sure

HEAD = """\
import collections
import functools
import json
import torch
from torch import nn

settings = json.load(open("settings.json"))
k, name = settings["k"], settings["name"]
w = torch.ones(3, requires_grad=True)
x = torch.ones(3)
net = nn.Linear(3, 3)


nets, weights = {"a": net}, [w]
twice = functools.partial(torch.mul, w, 2)


class Box:
    def __init__(self):
        self.net = net


box = Box()


class Row:
    def __init__(self, tag, value=None):
        self.tag, self.value = tag, value


def double(value):
    return value * 2


"""
RIGHT = {
    "total of a dict": """\
rows = {"a": {"tag": 1, "total": 0.0}, "b": {"tag": 2, "total": 0.0}}
row = rows[name]
for _ in range(3):
    row["total"] = row["total"] + (w * w).sum()
for one in rows.values():
    if isinstance(one["total"], torch.Tensor):
        one["total"].backward()
""",
    "total of an object": """\
rows = {"a": Row("train", 0.0), "b": Row("val", 0.0)}
for _ in range(3):
    rows[name].value = rows[name].value + (w * w).sum()
for one in rows.values():
    if isinstance(one.value, torch.Tensor):
        one.value.backward()
""",
    "flag that is set": """\
rows = {"a": Row("x", False), "b": Row("y", False)}
rows[name].value = True
net.requires_grad_(any(one.value for one in rows.values()))
net(x).sum().backward()
""",
    "rows written by their own names": """\
rows = {"a": {"loss": w.detach(), "n": 1}, "b": {"loss": w.detach(), "n": 2}}
print(rows[name]["n"])
rows["a"]["loss"] = (w * w).sum()
rows["b"]["loss"] = (w * 2).sum()
rows[name]["loss"].backward()
""",
    "identity": """\
rows = {"a": {"lr": 0.1}, "b": {"lr": 0.2}}
row = rows[name]
part = w * 2 if row is rows["a"] else w * 3 if row is rows["b"] else w.detach()
part.sum().backward()
""",
    "model that is stored": """\
rows = {"a": Row("x"), "b": Row("y")}
rows[name].value = nn.Linear(3, 1)
for one in rows.values():
    if one.value is not None:
        net = one.value
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    opt.zero_grad()
    rows[name].value(x).sum().backward()
    opt.step()
""",
    "settings that go together": """\
rows = {"a": {"keep": True, "again": False}, "b": {"keep": False, "again": True}}
row = rows[name]
part = w * 2 if row["keep"] or row["again"] else w.detach()
part.sum().backward()
""",
    "stored under a name": """\
parts = {"a": w.detach(), "b": w.detach()}
parts[name] = w * 2
parts[name].sum().backward()
""",
}
TAKEN = {
    "slice of all": "torch.stack((x, net(x))[: settings['depth']]).sum().backward()\n",
    "loop over a slice of all": """\
for part in (w.detach(), w * 2)[: settings["depth"]]:
    if part.requires_grad:
        part.sum().backward()
""",
    "one, then the others": """\
parts = [(w * w).sum(), (w * w * 2).sum(), (w * w * 3).sum()]
parts[k].backward()
for place, part in enumerate(parts):
    if place != k:
        part.backward()
""",
    "one is a target": """\
parts = [w * 2, w * 3]
parts[k] = parts[k].detach()
for place, part in enumerate(parts):
    if place != k:
        part.sum().backward()
""",
    "stored once": """\
losses = {"a": w.detach().sum(), "b": w.detach().sum()}
losses[name] = (w * w).sum()
for loss in losses.values():
    if loss.requires_grad:
        loss.backward()
""",
    "made under a key that is no name": """\
parts = collections.defaultdict(lambda: w * 3)
parts["a"], parts["b"] = w.detach(), w.detach()
parts[x].sum().backward()
parts[double].sum().backward()
""",
}
LEAK = """\
rows = {{"train": {{"tag": {0}, "total": 0.0}}, "val": {{"tag": {1}, "total": 0.0}}}}
for _ in range(settings["steps"]):
    loss = (w * w).sum()
    loss.backward()
    rows[name]["total"] += loss
print(rows[name]["total"].item())
"""
GRAPHS = (
    "w * 2", "w", "net(x)", "double(w)", 'nets["a"](x)', "weights[0] * 2", "box.net(x)", "nn.Linear(3, 3)(x)",
    "nn.Parameter(x)", "twice()",
)  # fmt: skip
PLAIN = ("x * 2", "w.detach()", "torch.zeros(3)", "double(x)")
EITHER = {
    "if expression": "v = {0} if k else {1}",
    "if": "if k:\n    v = {0}\nelse:\n    v = {1}",
    "stored before": "v = {1}\nif k:\n    v = {0}",
    "returned": "def pick():\n    if k:\n        return {0}\n    return {1}\nv = pick()",
    "lambda": "pick = (lambda: {0}) if k else (lambda: {1})\nv = pick()",
    "match": "match k:\n    case 1:\n        v = {0}\n    case _:\n        v = {1}",
    "argument": "v = double({0} if k else {1})",
    "comprehension": "v = [({0} if k else {1}) for _ in range(2)][0]",
    "attribute": "row = Row(1)\nrow.value = {0} if k else {1}\nv = row.value",
    "entry": "rows = {{}}\nrows['v'] = {0} if k else {1}\nv = rows['v']",
    "loop": "v = {1}\nwhile k:\n    v = {0}\n    k = 0",
    "table of functions": "v = {{0: lambda: {1}, 1: lambda: {0}}}[k]()",
}


@pytest.mark.parametrize("what", TAKEN)
def test_what_is_taken_and_the_rest_are_all_there_is(what: str, tmp_path: Path) -> None:
    assert check(from_text(HEAD + TAKEN[what], str(tmp_path / "program.py"))).findings == []


@pytest.mark.parametrize("what", RIGHT)
def test_a_row_that_is_written_is_one_of_the_table(what: str, tmp_path: Path) -> None:
    assert _sure(check(from_text(HEAD + RIGHT[what], str(tmp_path / "program.py")))) == []


@pytest.mark.skipif(not under_torch.has_torch(), reason="needs torch")
def test_each_program_runs_whatever_the_name_is(tmp_path: Path) -> None:
    programs = RIGHT | TAKEN
    runs = list(itertools.product(programs, "ab", (0, 1)))
    requests = []
    for number, (what, name, k) in enumerate(runs):
        path = tmp_path / f"{number}.py"
        given = {"k": k, "name": name, "steps": 3, "depth": 2}
        path.write_text(f"import json\njson.dump({given}, open('settings.json', 'w'))\n{HEAD}{programs[what]}")
        requests.append({"path": path, "seconds": 20})
    ended = zip(runs, under_torch.run_all(requests), strict=True)
    assert [(run, ran["message"]) for run, ran in ended if ran["exception"] is not None] == []


@pytest.mark.parametrize("tags", [(1, 1), (1, 2)])
def test_a_total_in_a_row_keeps_graphs_whatever_else_the_rows_hold(tags: tuple[int, int], tmp_path: Path) -> None:
    report = check(from_text(HEAD + LEAK.format(*tags), str(tmp_path / "program.py")))
    assert [finding.code for finding in report.findings] == ["TAPE201"]


@pytest.mark.parametrize("form", EITHER)
def test_one_of_two_values_may_have_a_graph(form: str, tmp_path: Path) -> None:
    """Nothing is certain of a value that one answer computes from a leaf and the other does not."""
    wrong = []
    for graph, plain in itertools.product(GRAPHS, PLAIN):
        for parts in ((graph, plain), (plain, graph)):
            text = f"{HEAD}{EITHER[form].format(*parts)}\nv.sum().backward()\n"
            if _sure(check(from_text(text, str(tmp_path / "program.py")))):
                wrong.append(parts)
    assert wrong == []


@pytest.mark.parametrize("form", EITHER)
def test_what_no_answer_gives_a_graph_has_none(form: str, tmp_path: Path) -> None:
    for parts in itertools.permutations(PLAIN, 2):
        text = f"{HEAD}{EITHER[form].format(*parts)}\nv.sum().backward()\n"
        found = check(from_text(text, str(tmp_path / "program.py"))).findings
        assert [finding.code for finding in found] == ["TAPE103"], parts
