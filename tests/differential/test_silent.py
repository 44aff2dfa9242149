"""The rules about mistakes that raise nothing, against torch; a long run is `python -m tests.differential.silent`."""

# ruff: noqa: E501 -- programs read better unbroken
from __future__ import annotations

import importlib.util
from collections.abc import Iterator

import pytest

from tests.differential import silent
from tests.differential.silent_programs import generate
from tests.differential.truth import Truth

pytestmark = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")

PROGRAMS = 60
SEED = 40_000
FLOOR = 0.95
"""Agreement that must be reached: what was measured over more programs is in the README, less what chance does."""

HEAD = """\
import torch
import torch.nn.functional as F
from torch import nn

model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = [(torch.randn(4, 6), torch.randint(0, 3, (4,))) for _ in range(4)]
"""
LOOP = """\
for x, y in data:
    optimizer.zero_grad()
    out = model(x)
    loss = F.cross_entropy(out, y)
    loss.backward()
    optimizer.step()
"""
STEP = "    optimizer.zero_grad()\n    out = model(x)\n    loss = F.cross_entropy(out, y)\n"
END = "    loss.backward()\n    optimizer.step()\n"
TEACHER = "teacher = nn.Linear(6, 3)\nfor p in teacher.parameters():\n    p.requires_grad = False\n"

CASES = {
    # A comprehension that evaluates is a loop.
    "a list of numbers": (HEAD + LOOP + "print([F.cross_entropy(model(x), y).item() for x, y in data])\n", {"TAPE302"}),
    "a sum over a generator": (
        HEAD + LOOP + "print(sum((model(x).argmax(-1) == y).sum().item() for x, y in data))\n", {"TAPE302"}
    ),
    "a list of numbers under no_grad": (
        HEAD + LOOP + "with torch.no_grad():\n    print([F.cross_entropy(model(x), y).item() for x, y in data])\n", set()
    ),
    "a list of losses that is backwarded": (
        HEAD + "for step in range(3):\n    losses = [F.cross_entropy(model(x), y) for x, y in data]\n"
        "    optimizer.zero_grad()\n    torch.stack(losses).mean().backward()\n    optimizer.step()\n", set(),
    ),
    "inference mode is not switched off by enable_grad": (
        HEAD + LOOP + "with torch.inference_mode():\n    for x, y in data:\n        with torch.enable_grad():\n"
        "            print(model(x).sum().item())\n", set(),
    ),
    # Stale gradients.
    "clipped by hand, never cleared": (
        HEAD + "for x, y in data:\n    F.cross_entropy(model(x), y).backward()\n    for p in model.parameters():\n"
        "        p.grad.clamp_(-1, 1)\n    optimizer.step()\n", {"TAPE403"},
    ),
    "cleared by the groups that were added": (
        HEAD + "head = nn.Linear(3, 3)\noptimizer.add_param_group({'params': head.parameters()})\n"
        "for x, y in data:\n    F.cross_entropy(head(model(x)), y).backward()\n    optimizer.step()\n"
        "    for group in optimizer.param_groups:\n        for p in group['params']:\n            p.grad = None\n", set(),
    ),
    "stepped twice between two backward calls": (
        HEAD + "other = nn.Linear(6, 3)\nsecond = torch.optim.SGD(other.parameters(), lr=0.1)\n"
        "for x, y in data:\n    optimizer.zero_grad()\n    F.cross_entropy(model(x), y).backward()\n    optimizer.step()\n"
        "    second.step()\n    F.cross_entropy(other(x), y).backward()\n    second.step()\n", {"TAPE403"},
    ),
    "an accumulation that never clears, over a loader": (
        "from torch.utils.data import DataLoader, TensorDataset\n" + HEAD
        + "loader = DataLoader(TensorDataset(torch.randn(16, 6), torch.randint(0, 3, (16,))), batch_size=4)\n"
        "for i, (x, y) in enumerate(loader):\n    F.cross_entropy(model(x), y).backward()\n"
        "    if (i + 1) % 2 == 0:\n        optimizer.step()\n", {"TAPE403"},
    ),
    # Gradients of parameters that no optimizer has.
    "the wrong network's parameters were given": (
        HEAD.replace("SGD(model", "SGD(critic").replace("optimizer =", "critic = nn.Linear(6, 3)\noptimizer =")
        + "for x, y in data:\n    model.zero_grad()\n    F.cross_entropy(model(x), y).backward()\n    optimizer.zero_grad()\n"
        "    F.cross_entropy(critic(x), y).backward()\n    optimizer.step()\n", {"TAPE404"},
    ),
    "a model that grows later": (
        HEAD.replace("nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))", "Growing()").replace(
            "\nmodel =",
            "\nclass Growing(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
            "        self.blocks = nn.ModuleList([nn.Linear(6, 6)])\n        self.head = nn.Linear(6, 3)\n"
            "    def forward(self, x):\n        for block in self.blocks:\n            x = torch.tanh(block(x))\n"
            "        return self.head(x)\n\nmodel =", 1)
        + LOOP + "model.blocks.append(nn.Linear(6, 6))\n" + LOOP, {"TAPE405"},
    ),
    "frozen layers do not make it less than the whole": (
        HEAD.replace("nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))", "Listed()").replace(
            "model.parameters()", "[p for p in model.parameters() if p.requires_grad]").replace(
            "\nmodel =",
            "\nclass Listed(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
            "        self.body = nn.Linear(6, 6).requires_grad_(False)\n        self.layers = [nn.Linear(6, 6)]\n"
            "        self.head = nn.Linear(6, 3)\n    def forward(self, x):\n"
            "        return self.head(self.layers[0](self.body(x)).relu())\n\nmodel =", 1) + LOOP, {"TAPE405"},
    ),
    # Terms.
    "a teacher's values in a constant term": (
        HEAD + TEACHER + "for x, y in data:\n" + STEP
        + "    with torch.no_grad():\n        soft = F.mse_loss(out, teacher(x))\n    loss = loss + 0.5 * soft\n" + END,
        {"TAPE407"},
    ),
    "a teacher's values in a term that trains": (
        HEAD + TEACHER + "for x, y in data:\n" + STEP + "    soft = F.mse_loss(out, teacher(x))\n    loss = loss + 0.5 * soft\n"
        + END, set(),
    ),
    "a loss that was made a leaf, and a term that trains": (
        HEAD + "for x, y in data:\n" + STEP + "    loss = torch.tensor(loss.item(), requires_grad=True)\n"
        "    loss = loss + out.pow(2).mean()\n" + END, {"TAPE407"},
    ),
    "a number in the loss, the norm of the gradients in the log": (
        HEAD + "for x, y in data:\n" + STEP + "    extra = out.pow(2).mean().item()\n    loss = loss + 0.1 * extra\n"
        "    loss.backward()\n    print(sum(p.grad.norm().item() for p in model.parameters()))\n    optimizer.step()\n",
        {"TAPE407"},
    ),
    # Cuts.
    "a loss made a leaf, cleared before the step": (
        HEAD + "for x, y in data:\n    loss = torch.tensor(F.cross_entropy(model(x), y).item(), requires_grad=True)\n"
        "    loss.backward()\n    optimizer.zero_grad()\n    optimizer.step()\n", {"TAPE402"},
    ),
    "embeddings that are given are frozen": (
        HEAD.replace("nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3)", "nn.Embedding.from_pretrained(torch.randn(6, 3))")
        .replace("model.parameters()", "head.parameters()").replace("optimizer =", "head = nn.Linear(3, 3)\noptimizer =")
        .replace("torch.randn(4, 6)", "torch.randint(0, 6, (4,))") + LOOP.replace("model(x)", "head(model(x))"), set(),
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def truth() -> Iterator[Truth]:
    with Truth() as server:
        yield server


@pytest.mark.parametrize("name", CASES)
def test_torch_and_the_rules_say_the_same(name: str, truth: Truth) -> None:
    text, codes = CASES[name]
    measured = silent.measure(text, truth)
    assert measured is not None, truth.ask({"text": text, "silent": {}})
    findings = silent.findings_of(text)
    told = silent.compare(measured, findings)
    assert told.agrees, (told, measured)
    assert {finding.code for finding in findings if finding.code in silent.CODES} == codes
    assert {code for code, how in told.told if how == "hit"} == codes


def test_a_loose_parameter_is_told_with_what_mends_it() -> None:
    text = HEAD + "scale = nn.Parameter(torch.ones(1))\n" + LOOP.replace("model(x)", "model(x) * scale")
    (finding,) = silent.findings_of(text)
    assert (finding.code, finding.facts.lacking.kind, finding.span.line) == ("TAPE405", "loose", 8)
    quiet = text.replace("model.parameters()", "[*model.parameters(), scale]")
    lines = quiet.splitlines()
    lines.insert(5, lines.pop(7))
    assert silent.findings_of("\n".join(lines) + "\n") == []


def test_a_seed_always_gives_the_same_program() -> None:
    assert [generate(seed) for seed in range(20)] == [generate(seed) for seed in range(20)]
    assert len({generate(seed) for seed in range(40)}) == 40


def test_generated_programs(truth: Truth) -> None:
    score = silent.Score()
    for seed in range(SEED, SEED + PROGRAMS):
        text = generate(seed)
        measured = silent.measure(text, truth)
        if measured is None:
            score.discarded += 1
        else:
            score.add(str(seed), silent.compare(measured, silent.findings_of(text)))
    assert score.programs >= 0.8 * PROGRAMS, score.text()
    assert score.agreement >= FLOOR, (score.text(), score.seeds)
    # Programs without mistakes, or with nothing else, would show nothing.
    assert sum(score.rules[code, "hit"] > 0 for code in silent.CODES) >= 5, score.text()
    assert score.rules["TAPE403", "quiet"] > PROGRAMS / 3


@pytest.mark.parametrize("told", ["missed", "false"])
def test_what_differs_is_noticed(truth: Truth, told: str) -> None:
    wrong, right = HEAD + LOOP.replace("    optimizer.zero_grad()\n", ""), HEAD + LOOP
    measured = silent.measure(wrong if told == "missed" else right, truth)
    assert measured is not None
    compared = silent.compare(measured, silent.findings_of(right if told == "missed" else wrong))
    assert ("TAPE403", told) in compared.told and not compared.agrees
