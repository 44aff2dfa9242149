"""Where hidden code says what there is to go over, there may be nothing: in one place, and in all of them."""

from __future__ import annotations

from itertools import product

import pytest

from tapecheck.check import check
from tapecheck.source import from_text

SOURCES = {
    "loop": "v{n} = []\nfor z in load{n}():\n    v{n}.append(z)\n",
    "comprehension": "v{n} = [z for z in load{n}()]\n",
    "list": "v{n} = list(load{n}())\n",
    "condition": "v{n} = [{n}] if ask{n}() else []\n",
}
ONE = {
    "some": "v0 = list(itertools.islice(load0(), 3))",
    "some of a loop": "v0 = []\nfor z in itertools.islice(load0(), 3):\n    v0.append(z)",
    "reduced": "v0 = functools.reduce(lambda before, z: [*before, z], load0(), [])",
    "passed": "def take(*given):\n    return list(given)\n\n\nv0 = take(*load0())",
    "passed behind": "def take(*given):\n    return given[1:]\n\n\nv0 = take(0, *load0())",
    "passed by name": "def take(**given):\n    return given\n\n\nv0 = take(**load0())",
    "in place of all": "v0 = [0]\nv0[:] = load0()",
    "in place of one": "v0 = [0]\nv0[0:1] = load0()",
    "first": "v0 = load0()[:1]",
    "rest": "v0 = load0()[1:]",
    "extended by a map": "v0 = []\nv0.extend(map(str, load0()))",
    "extended by pairs": "v0 = []\nv0.extend(zip(load0(), range(4)))",
    "repeated": "v0 = [0] * len(load0())",
    "numbered": "v0 = list(range(len(load0())))",
    "chained": "v0 = list(itertools.chain.from_iterable([load0()]))",
    "while it is so": "v0 = list(itertools.takewhile(bool, load0()))",
    "displayed": "v0 = {**load0()}",
    "counted": "v0 = collections.Counter(load0())",
}
ASKED = {
    "not": "if not v0:\n    DO",
    "length": "if len(v0) == 0:\n    DO",
    "else": "for z in v0:\n    break\nelse:\n    DO",
    "other side": "if v0:\n    print(v0)\nelse:\n    DO",
    "flag": "empty = True\nfor z in v0:\n    empty = False\nif empty:\n    DO",
    "while": "while not v0:\n    DO\n    break",
}
FAULTS = {
    "TAPE301": "loss = (w * w).sum()\nloss.backward(retain_graph=True)\nif {asked}:\n    loss.backward()\n",
    "TAPE103": "total = torch.ones(2).sum()\nif {asked}:\n    total = (w * w).sum()\ntotal.backward()\n",
    "TAPE404": (
        "net = torch.nn.Linear(2, 1)\nopt = torch.optim.SGD(net.parameters(), lr=0.1)\n"
        "net(torch.ones(2)).sum().backward()\nif {asked}:\n    opt.step()\nopt.zero_grad()\n"
    ),
}


def _certain(made: list[str], fault: str, asked: str) -> list[str]:
    head = "import torch\nimport hidden\nfrom hidden import *\n\nw = torch.ones(2, requires_grad=True)\n"
    names = [name for number in range(len(made)) for name in (f"load{number}", f"ask{number}")]
    head = head.replace("from hidden import *", f"from hidden import {', '.join(names)}")
    text = head + "".join(one.format(n=number) for number, one in enumerate(made)) + FAULTS[fault].format(asked=asked)
    return [finding.code for finding in check(from_text(text, "train.py")).findings if finding.certain]


@pytest.mark.parametrize(("source", "fault"), [*product(SOURCES, FAULTS)])
def test_many_places_may_have_nothing(source: str, fault: str) -> None:
    for count in (2, 4, 12):
        made = [SOURCES[source]] * count
        for asked in (f"not v{count - 1}", " and ".join(f"not v{number}" for number in range(count))):
            assert fault not in _certain(made, fault, asked), (count, asked)


@pytest.mark.parametrize(("one", "other", "fault"), [*product(SOURCES, SOURCES, FAULTS)])
def test_places_of_several_kinds_may_have_nothing_together(one: str, other: str, fault: str) -> None:
    made = [SOURCES[one], SOURCES[other], SOURCES["condition"], SOURCES["loop"]]
    assert fault not in _certain(made, fault, "not v0 and not v1 and not v2 and not v3")


@pytest.mark.parametrize(("source", "fault"), [*product(ONE, FAULTS)])
def test_one_place_may_have_nothing(source: str, fault: str) -> None:
    head = "import collections, functools, itertools\nimport torch\nfrom hidden import load0\n\n"
    before, after = FAULTS[fault].split("if {asked}:\n    ")
    does, _, after = after.partition("\n")
    for name, asked in ASKED.items():
        made = f"{head}w = torch.ones(2, requires_grad=True)\n{ONE[source]}\n"
        text = f"{made}{before}{asked.replace('DO', does)}\n{after}"
        found = [finding.code for finding in check(from_text(text, "train.py")).findings if finding.certain]
        assert fault not in found, name


@pytest.mark.parametrize("fault", ["TAPE103", "TAPE301"])
def test_where_nothing_hangs_on_them_it_is_certain(fault: str) -> None:
    sources = [SOURCES["loop"], SOURCES["comprehension"]]
    if fault == "TAPE301":
        # What hidden code gives to go over may be parts of one graph.
        sources = [source.replace("load{n}()", "open('rows{n}.txt')") for source in sources]
    assert fault in _certain(sources, fault, "False")
