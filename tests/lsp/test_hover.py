"""Hovers on what cuts a graph off and on optimizers, and how they name parameters."""

from __future__ import annotations

from textwrap import dedent

import pytest

from tapecheck.check import check
from tapecheck.lsp.hover import Explainer
from tapecheck.source import from_text

PROGRAM = dedent(
    """\
    import torch
    from torch import nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 4)

        def forward(self, x):
            return self.fc(x)

    model = Net()
    head = nn.Linear(4, 1)
    unused = nn.Linear(4, 1)
    optimizer = torch.optim.Adam([*head.parameters(), *unused.parameters()])
    for step in range(5):
        features = model(torch.randn(2, 4))
        frozen = features.detach()
        loss = head(frozen).mean()
        with torch.no_grad():
            score = model(torch.ones(2, 4))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(loss.item(), score)
    """
)


@pytest.fixture(scope="module")
def explainer() -> Explainer:
    report = check(from_text(PROGRAM, "/train.py"))
    return Explainer(report.source, report.interpretation.tapes)


def hover(explainer: Explainer, line: str, word: str) -> str:
    """What the hover on a word of the first line with some text says."""
    lines = PROGRAM.split("\n")
    row = next(number for number, text in enumerate(lines) if line in text)
    found = explainer.hover(row + 1, lines[row].index(word) + 1)
    return found.markdown if found is not None else ""


def test_a_detach_says_what_it_cuts_off(explainer: Explainer) -> None:
    text = hover(explainer, "frozen = ", "detach")
    assert text.startswith("**`features.detach()`** cuts off 1 node built on line 17")
    assert "no gradient goes back to 2 parameters (`model.fc.weight`, `model.fc.bias`)" in text


def test_no_grad_says_that_no_graph_is_recorded(explainer: Explainer) -> None:
    assert "`torch.no_grad()`: no graph is recorded" in hover(explainer, "score = ", "model(")


def test_the_tensor_that_was_cut_still_has_its_own_hover(explainer: Explainer) -> None:
    assert hover(explainer, "frozen = ", "features").startswith("**`features`** carries a graph")


@pytest.mark.parametrize(
    ("line", "word"),
    [("optimizer = ", "optimizer"), ("optimizer.zero_grad", "optimizer"), ("optimizer.step", "step")],
)
def test_an_optimizer_says_which_parameters_got_a_gradient(explainer: Explainer, line: str, word: str) -> None:
    text = hover(explainer, line, word)
    assert text.startswith("**`optimizer`** updates 4 parameters")
    assert "at its first `step()` 2 of 4 have a gradient" in text
    assert "no backward before it reaches 2 parameters (`unused.weight`, `unused.bias`)" in text


def test_nothing_is_said_where_nothing_is_known(explainer: Explainer) -> None:
    assert hover(explainer, "import torch", "torch") == ""
    assert hover(explainer, "for step", "step") == ""
