"""What takes one of several tensors by a number, a name or chance that nobody knows, where some have no graph.

Whichever comes first in the text: nothing certain may be said of what is taken, and nothing safe may be done to it.
"""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from tapecheck.check import check
from tapecheck.fixes import fixes_for
from tapecheck.source import from_text
from tests.cases import under_torch
from tests.partial.test_keepers import _sure

PROGRAM = """\
import collections, functools, heapq, itertools, json, operator, random, types
import torch

settings = json.load(open("settings.json"))
k, name = settings["k"], settings["name"]
w = torch.ones(3, requires_grad=True)
opt = torch.optim.SGD([w], lr=0.1)
for step in range(1):
    opt.zero_grad()
    parts = [{parts}]
    named = dict(zip("ab", parts))
    {taken}
    part.sum().backward()
    opt.step()
"""
ORDERS = ("w.detach(), w * 2", "w * 2, w.detach()")
TAKEN = {
    "list": "part = parts[k]",
    "tuple": "part = tuple(parts)[k]",
    "dict": "part = named[name]",
    "get": "part = named.get(name)",
    "get default": "part = named.get(name, parts[0])",
    "choice": "part = random.choice(parts)",
    "choices": "part = random.choices(parts)[0]",
    "choices k": "(part,) = random.choices(parts, k=1)",
    "sample": "(part,) = random.sample(parts, 1)",
    "shuffle": "random.shuffle(parts)\n    part = parts[0]",
    "pop": "part = parts.pop(k)",
    "pop dict": "part = named.pop(name)",
    "getattr": "part = getattr(types.SimpleNamespace(**named), name)",
    "randint": "part = parts[torch.randint(2, ()).item()]",
    "randint int": "part = parts[int(torch.randint(2, ()))]",
    "randrange": "part = parts[random.randrange(2)]",
    "data": "part = parts[int(torch.randn(3).sum() > 0)]",
    "argmax": "part = parts[torch.randn(2).argmax()]",
    "bool": "part = parts[step > k]",
    "mod": "part = parts[step * k % 2]",
    "expr": "part = parts[k - 1]",
    "neg": "part = parts[-k]",
    "itemgetter": "part = operator.itemgetter(k)(parts)",
    "getitem": "part = operator.getitem(parts, k)",
    "dunder": "part = parts.__getitem__(k)",
    "filter": "part = list(filter(lambda one: one.sum() > k, parts))[0]",
    "compress": "part = next(itertools.compress(parts, settings['which']))",
    "slice": "part = parts[k:][0]",
    "slice end": "part = parts[:k][-1]",
    "slice one": "(part,) = parts[k:k + 1]",
    "max": "part = max(parts, key=lambda one: one.sum() * (k - 0.5))",
    "min": "part = min(parts, key=lambda one: float(one.sum() * (k - 0.5)))",
    "sorted": "part = sorted(parts, key=lambda one: (one.sum().item() * (k - 0.5)))[0]",
    "sort": "parts.sort(key=lambda one: (one.sum().item() * (k - 0.5)))\n    part = parts[-1]",
    "nlargest": "part = heapq.nlargest(1, parts, key=lambda one: (one.sum().item() * (k - 0.5)))[0]",
    "index": "part = parts[settings['names'].index(name)]",
    "index2": "part = parts[['a', 'b'].index(name)]",
    "map": "part = parts[{'a': 0, 'b': 1}[name]]",
    "swap": "parts[0], parts[k] = parts[k], parts[0]\n    part = parts[0]",
    "set k": "parts[k] = parts[0]\n    part = parts[1]",
    "del": "del parts[k]\n    part = parts[0]",
    "reverse": "if k:\n        parts.reverse()\n    part = parts[0]",
    "rotate": "q = collections.deque(parts)\n    q.rotate(k)\n    part = q[0]",
    "insert": "parts.insert(k, parts.pop())\n    part = parts[0]",
    "roll": "part = (parts * 2)[k + 1]",
    "reduce": "part = functools.reduce(lambda a, b: a if k else b, parts)",
    "enumerate": "part = [one for at, one in enumerate(parts) if at == k][0]",
    "for break": "for at, part in enumerate(parts):\n        if at == k:\n            break",
    "zip": "part = dict(zip(settings['names'], parts))['a']",
    "perm": "part = [parts[i] for i in torch.randperm(2)][0]",
    "perm list": "part = [parts[i] for i in torch.randperm(2).tolist()][0]",
    "iter": "it = iter(parts)\n    for _ in range(k): part = next(it)",
    "while": "i = 0\n    while i < k: i += 1\n    part = parts[i]",
    "rng": "part = random.Random(0).choice(parts)",
    "rng2": "rng = random.Random(k)\n    part = rng.choice(parts)",
    "match": "match k:\n        case 0: part = parts[0]\n        case _: part = parts[1]",
    "ternary": "part = parts[0] if k else parts[1]",
    "locals": "a, b = parts\n    part = locals()[name]",
    "globals": "a, b = parts\n    part = globals()[name]",
    "eval": "a, b = parts\n    part = eval(name)",
    "vars": "part = vars(types.SimpleNamespace(**named))[name]",
}


def _program(taken: str, parts: str) -> str:
    return PROGRAM.format(parts=parts, taken=TAKEN[taken])


@pytest.mark.parametrize("taken", TAKEN)
def test_what_is_taken_by_an_unknown_index_is_not_known(taken: str, tmp_path: Path) -> None:
    for parts in ORDERS:
        report = check(from_text(_program(taken, parts), str(tmp_path / "program.py")))
        assert report.interpretation.faults == []
        assert _sure(report) == [], parts


UNTOLD = frozenset((
    "get", "pop dict", "getattr", "max", "min", "nlargest", "zip", "iter", "rng", "rng2",
    "locals", "globals", "eval",
))  # fmt: skip
"""Ways of taking of which nothing is told, as nothing is known of what they give."""


@pytest.mark.parametrize("taken", TAKEN)
def test_a_tensor_that_may_have_no_graph_is_told_as_possible(taken: str, tmp_path: Path) -> None:
    reports = [check(from_text(_program(taken, parts), str(tmp_path / "program.py"))) for parts in ORDERS]
    told = {(finding.code, finding.certain) for report in reports for finding in report.findings}
    assert told == (set() if taken in UNTOLD else {("TAPE103", False)})


@pytest.mark.parametrize("taken", ["list", "choice", "shuffle", "slice", "sorted"])
def test_what_holds_for_all_of_them_is_certain(taken: str, tmp_path: Path) -> None:
    for parts, told in (("w.detach(), w.data * 2", "TAPE103"), ("(w * w).sum(), w.sum() * 3", "TAPE101")):
        text = _program(taken, parts).replace("    opt.step()", "    part.sum().backward()\n    opt.step()")
        assert any(told in one for one in _sure(check(from_text(text, str(tmp_path / "program.py"))))), parts


@pytest.mark.skipif(not under_torch.has_torch(), reason="needs torch")
def test_each_program_may_raise_and_may_not(tmp_path: Path) -> None:
    runs = list(itertools.product(TAKEN, ORDERS, (0, 1)))
    requests = []
    for number, (taken, parts, k) in enumerate(runs):
        path = tmp_path / f"{number}.py"
        settings = {"k": k, "name": "ab"[k], "which": [1 - k, k], "names": ["ab"[k], "ab"[1 - k]]}
        seeded = f"import random, torch\nrandom.seed({k})\ntorch.manual_seed({k})\n"
        path.write_text(
            f"import json\njson.dump({settings}, open('settings.json', 'w'))\n{seeded}{_program(taken, parts)}"
        )
        requests.append({"path": path, "seconds": 20})
    ended: dict[str, set[bool]] = {}
    for (taken, _, _), ran in zip(runs, under_torch.run_all(requests), strict=True):
        ended.setdefault(taken, set()).add("does not require grad" in (ran["message"] or ""))
    assert {taken: len(how) for taken, how in ended.items()} == dict.fromkeys(TAKEN, 2)


OF_AGENTS = """\
import json

import numpy as np
import torch
from torch import nn, optim

nets = [nn.Linear(3, 1) for _ in range(4)]
optimizers = [optim.SGD(net.parameters(), lr=0.1) for net in nets]
for update in range(10):
    ids = IDS
BODY
"""
IDS = ("np.random.choice(4, 2)", 'json.load(open("ids.json"))', "torch.randperm(4)[:2]", "np.random.permutation(4)")
LOOPS = {
    "clear": "for i in ids:\n        optimizers[i].zero_grad()",
    "loss": "loss = 0\n    for i in ids:\n        loss = loss + nets[i](torch.randn(5, 3)).pow(2).sum()",
    "backward": "loss.backward()",
    "step": "for i in ids:\n        optimizers[i].step()",
}
LOOP_ORDERS = (
    ("clear", "loss", "backward", "step"),
    ("loss", "clear", "backward", "step"),
    ("loss", "backward", "step", "clear"),
)


@pytest.mark.parametrize("order", LOOP_ORDERS, ids="-".join)
@pytest.mark.parametrize("ids", IDS)
def test_indices_of_two_loops_may_be_the_same(ids: str, order: tuple[str, ...]) -> None:
    body = "\n".join(f"    {LOOPS[step]}" for step in order)
    program = OF_AGENTS.replace("IDS", ids).replace("BODY", body)
    assert [one.code for one in check(from_text(program, "agents.py")).findings] == []


def test_a_model_that_was_saved_may_do_anything_in_its_forward() -> None:
    program = (
        "import torch\n\nmodel = torch.load('model.pt', weights_only=False)\nmodel.requires_grad_(True)\ntotal = 0.0\n"
        "for x in torch.randn(20, 4, 3):\n    total += model(x).softmax(1).max().item()\nprint(total)\n"
    )
    report = check(from_text(program, "scores.py"))
    for finding in report.findings:
        assert not finding.certain
        assert all(fix.applicability != "safe" for fix in fixes_for(report, finding))


@pytest.mark.parametrize("rate", ['float(os.environ.get("DROPOUT", "0"))', "len(sys.argv) * 0.0", "params.rate"])
@pytest.mark.parametrize("inplace", ["", ", inplace=True"])
def test_a_rate_that_nobody_knows_changes_nothing_for_certain(rate: str, inplace: str) -> None:
    program = (
        "import os, sys\nimport torch\nfrom torch import nn\nfrom hidden import params\n"
        f"net = nn.Sequential(nn.Linear(2, 2), nn.Sigmoid(), nn.Dropout({rate}{inplace}), nn.Linear(2, 1))\n"
        "net(torch.randn(3, 2)).sum().backward()\n"
    )
    assert not any(one.certain for one in check(from_text(program, "rate.py")).findings)
