"""The one place of a program that can have cut a graph, found without a dry run."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from tapecheck.record import judge
from tapecheck.record.cuts import made_leaf, only_cut

HEAD = "class Net(nn.Module):\n    def forward(self, x):\n"
LOOP = "for x in data:\n    loss = net(x).sum()\n    loss.backward()\n"
ENCODER = ("net.encoder.weight", "net.encoder.bias")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (HEAD + "        h = self.encoder(x).detach()\n        return self.head(h)\n" + LOOP, 3),
        (HEAD + "        h = self.encoder(x)\n        h = h.detach()\n        return self.head(h)\n", 4),
        (HEAD + "        h = torch.tensor(self.encoder(x).tolist())\n        return self.head(h)\n", 3),
        (HEAD + "        with torch.no_grad():\n            h = self.encoder(x)\n        return self.head(h)\n", 3),
        # A method that is called like what cuts a graph.
        (HEAD + "        return self.encoder(x)\nnet(loader.data())\n", None),
        (HEAD + "        return self.encoder(x)\nnet(loader.data().data)\n", 4),
        # Two can have done it.
        (HEAD + "        h = self.encoder(x.detach())\n        return self.head(h.detach())\n", None),
        (HEAD + "        return self.encoder(x.detach())\ng, = torch.autograd.grad(loss, net.w)\n", None),
        (HEAD + "        return self.encoder(x)\ng = grad(loss, net.w, create_graph=False)\n", 4),
        (HEAD + "        return self.encoder(x.detach())\ng = grad(loss, net.w, create_graph=True)\n", 3),
        (HEAD + "        return self.encoder(x.detach())\ng = torch.func.grad(f, 0)(w)\n", 3),
        # Carried from one call to the next, on purpose.
        (HEAD + "        y, self.h = self.encoder(x), 0\nfor x in data:\n    y, h = net(x, h.detach())\n", None),
        (HEAD + "        return self.encoder(x)\nfor x in data:\n    h = h.detach()\n    h = net(x, h)\n", None),
        # What is only told, and what is only measured.
        (HEAD + "        return self.encoder(x)\nprint(net(x).detach())\ntotal += loss.detach()\n", None),
        (HEAD + "        return self.encoder(x)\nwith torch.no_grad():\n    net(x)\n", None),
        # The encoder takes no part at all: that nothing was cut is as likely.
        (HEAD + "        return self.head(x.detach())\n", None),
    ],
)  # fmt: skip
def test_the_only_place(tmp_path: Path, text: str, line: int | None) -> None:
    (tmp_path / "a.py").write_text(text)
    found = only_cut([("a.py", str(tmp_path / "a.py"))], ENCODER)
    assert (found.line if found is not None else None) == line


def test_a_function_without_recording_is_told_where_it_is_called(tmp_path: Path) -> None:
    text = "@torch.no_grad()\ndef encode(x):\n    return net.encoder(x)\nfor x in data:\n    h = encode(x)\n"
    (tmp_path / "a.py").write_text(text)
    found = only_cut([("a.py", str(tmp_path / "a.py"))], ENCODER)
    assert found is not None
    assert found.line == 5


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("loss = f(x)\nloss.requires_grad_(True)\n", 2),
        ("loss = f(x)\nloss.requires_grad = True\n", 2),
        ("loss = torch.tensor(f(x), requires_grad=True)\n", 1),
        ("loss.requires_grad_()\nloss.requires_grad_()\n", None),
        ("other.requires_grad_()\n", None),
    ],
)
def test_a_leaf_is_made(tmp_path: Path, text: str, line: int | None) -> None:
    (tmp_path / "a.py").write_text(text)
    found = made_leaf(str(tmp_path / "a.py"), "loss", "a.py")
    assert (found.line if found is not None else None) == line


def test_the_run_alone_tells_which_parameters_are_cut_off_and_where(record: object) -> None:
    program = """
    import torch
    from torch import nn

    encoder, head = nn.Linear(3, 4), nn.Linear(4, 1)
    optimizer = torch.optim.SGD([*encoder.parameters(), *head.parameters()], lr=0.1)
    for step in range(4):
        h = encoder(torch.randn(2, 3))
        {how}
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """
    for how, rows in (
        ("loss = head(h.data).sum()", [(8, 2, "`encoder.*` never received")]),
        ("loss = head(h).sum().detach().requires_grad_()", [(8, 4, "`encoder.weight` and 3 more are never trained")]),
        ("loss = head(h).sum(); seen = h.detach().mean()", []),
    ):
        recorded = record(textwrap.dedent(program).replace("{how}", how))  # type: ignore[operator]
        found = [item for item in judge([], recorded.tape) if item.code == "TAPE402"]
        assert [item.span.line for item in found] == [row for row, _, _ in rows], found
        for item, (_, count, shown) in zip(found, rows, strict=True):
            assert item.message.startswith(shown)
            names = ["encoder.weight", "encoder.bias", "head.weight", "head.bias"]
            assert item.facts.parameters == tuple(names[:count])
            assert item.evidence is not None
            assert item.evidence.verdict == "found-by-run"
            assert item.evidence.measured["steps"] == 4


def test_a_derivative_that_does_not_depend_on_a_bias_is_no_cut(record: object) -> None:
    program = """
    import torch
    from torch import nn

    encoder, head = nn.Linear(3, 4), nn.Linear(4, 1)
    optimizer = torch.optim.SGD([*encoder.parameters(), *head.parameters()], lr=0.1)
    for step in range(4):
        x = torch.randn(2, 3)
        x = x.detach().requires_grad_()
        (slope,) = torch.autograd.grad(head(encoder(x).tanh()).sum(), x, create_graph=True)
        optimizer.zero_grad()
        slope.pow(2).sum().backward()
        optimizer.step()
    """
    recorded = record(textwrap.dedent(program))  # type: ignore[operator]
    (found,) = (item for item in judge([], recorded.tape) if item.code == "TAPE402")
    assert (found.severity, found.facts.parameters) == ("info", ("head.bias",))
    assert "cut" not in found.message and "derivative" in found.notes[-1]


INNER = """
import torch
from torch import nn

torch.manual_seed(0)
model, learned = nn.Linear(1, 1), nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 1), nn.Softplus())
optimizer = torch.optim.SGD(learned.parameters(), lr=0.1)
for step in range(6):
    x = torch.randn(8, 1)
    weights = [p.detach().clone().requires_grad_() for p in model.parameters()]
    for _ in range({inner}):
        inner = learned(torch.cat([x, nn.functional.linear(x, *weights)], 1)).mean()
        taken = torch.autograd.grad(inner, weights, create_graph={graph})
        weights = [w - 0.1 * g for w, g in zip(weights, taken)]
    optimizer.zero_grad()
    (nn.functional.linear(x, *weights) - x).pow(2).mean().backward()
    optimizer.step()
"""


@pytest.mark.parametrize("inner", [1, 2])
@pytest.mark.parametrize("graph", [False, True])
def test_a_gradient_without_graph_cuts_what_it_was_taken_through(record: object, inner: int, graph: bool) -> None:
    recorded = record(INNER.format(inner=inner, graph=graph))  # type: ignore[operator]
    found = [item for item in judge([], recorded.tape) if item.code == "TAPE402"]
    assert [item.span.line for item in found] == ([] if graph else [12])
    assert all("create_graph=True" in item.help for item in found)
