"""Loops that have no iteration where what nobody knows the length of is short: it is taken to be long enough."""

from __future__ import annotations

import pytest

from tapecheck.check import check
from tapecheck.source import from_text

DATA = {
    "listed": "from data import load\n\ncorpus = [int(c) for c in load()]\n",
    "read": "with open('a.txt') as f:\n    text = f.read()\ncorpus = [ord(c) for c in text[:10000]]\n",
    "numbered": (
        "from data import load\n\nnames = {c: i for i, c in enumerate(load())}\ncorpus = [names[c] for c in load()]\n"
    ),
    "appended": "from data import load\n\ncorpus = []\nfor c in load():\n    corpus.append(int(c))\n",
}
ROUNDS = (
    "range((len(corpus) - 1) // 35)", "range(len(corpus) // 35 // 32)", "range(int(len(corpus) / 64))",
    "range(0, len(corpus) - 35, 35)", "range(len(corpus) - 500)", "range(len(corpus) // 2000)",
)  # fmt: skip
MISTAKES = {
    "TAPE301": "    optimizer.zero_grad()\n    loss.backward(retain_graph=True)\n    optimizer.step()\n",
    "TAPE201": (
        "    optimizer.zero_grad()\n    loss.backward()\n    optimizer.step()\n    seen.append(h)\n    h = model(h)\n"
    ),
    "TAPE101": "    optimizer.zero_grad()\n    loss.backward()\n    loss.backward()\n    optimizer.step()\n",
    "": "    optimizer.zero_grad()\n    loss.backward()\n    optimizer.step()\n",
}


def program(data: str, rounds: str, body: str) -> str:
    return (
        f"import torch\nfrom torch import nn\n\n{data}"
        "model = nn.Sequential(nn.Linear(4, 4), nn.Tanh())\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        f"h, seen = torch.zeros(2, 4), []\nfor i in {rounds}:\n    loss = model(torch.randn(2, 4)).pow(2).sum()\n{body}"
        "print(len(corpus))\n"
    )


def found(text: str) -> list[tuple[str, int]]:
    return [(finding.code, finding.span.line) for finding in check(from_text(text, "train.py")).findings]


CASES = [
    (data, rounds)
    for data in DATA
    for rounds in ROUNDS
    # A loop that fills a list is not run so often.
    if data != "appended" or not rounds.endswith(("// 32)", "// 2000)"))
]


@pytest.mark.parametrize("mistake", MISTAKES)
@pytest.mark.parametrize(("data", "rounds"), CASES)
def test_a_loop_over_one_in_so_many_is_gone_round(data: str, rounds: str, mistake: str) -> None:
    body = MISTAKES[mistake]
    usual = found(program(DATA[data], "range(100)", body))
    assert {code for code, _ in usual} == ({mistake} if mistake else set())
    assert found(program(DATA[data], rounds, body)) == usual


@pytest.mark.parametrize(
    "rounds",
    ("range(len(corpus) - len(corpus))", "range(len(corpus) // 10_000_000)", "range(0)", "range(5, 5 - len(corpus))"),
)
@pytest.mark.parametrize("data", DATA)
def test_a_loop_that_has_no_rounds_all_the_same_shows_nothing(data: str, rounds: str) -> None:
    assert found(program(DATA[data], rounds, MISTAKES["TAPE101"])) == []


@pytest.mark.parametrize(
    "step",
    (
        "xs = xs[len(xs) // 9:len(xs) - len(xs) // 7]",
        "xs = xs[len(xs) - len(xs) // 2 * 2:]",
        "n = n - n // 3",
        "n = n * n",
    ),
)
def test_lengths_that_are_asked_for_more_than_once_are_worked_out_once(step: str) -> None:
    """Each step doubles how often the first length would be asked for, or how many digits the number has."""
    rounds = "range(n)" if step.startswith("n") else "range(len(xs))"
    text = program(DATA["listed"] + "xs, n = corpus, len(corpus)\n" + f"{step}\n" * 64, rounds, MISTAKES["TAPE101"])
    assert {code for code, _ in found(text)} <= {"TAPE101"}
