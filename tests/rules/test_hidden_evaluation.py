"""TAPE302: evaluations of models that are not visible, by what they are told and by how they give what they compute."""

from __future__ import annotations

import itertools

import pytest
import torch

from tapecheck.check import check
from tapecheck.source import from_text

LOADED = "net = torch.load('net.pt')\nTELL\nUSE"
GIVEN = "def sample(net):\n    TELL\n{}"
TOLD = ("net.eval()", "net.train(False)", "net.train(mode=False)", "net = net.cpu().eval()")
GIVES = {
    "one": "mean = net(x)",
    "two": "mean, scale = net(x)",
    "starred": "mean, *others = net(x)",
    "picked": "mean = net(x)[0]",
    "dropped": "_, _, _, mean = net(x)",
}
FREEZES = (
    "net.requires_grad_(False)",
    "for p in net.parameters():\n    p.requires_grad = False",
    "for module in net.modules():\n    module.requires_grad_(False)",
    "for name, module in net.named_children():\n    for p in module.parameters():\n        p.requires_grad = False",
)
MADE = "import zoo\n\nnet = zoo.build(3)\nTELL\nUSE"
READ = ("print(mean.detach().numpy())", "right = (mean.argmax(1) == 1).sum().item()")
LEARNED = {
    "in the loop": "optimizer.zero_grad()\nmean.pow(2).sum().backward()\noptimizer.step()",
    "handed over": "learner.learn(mean)",
    "kept": "means.append(mean)",
}


class Net(torch.nn.Module):
    """What the programs load: it gives one value, or `parts` of them."""

    def __init__(self, parts: int) -> None:
        super().__init__()
        self.layer, self.parts = torch.nn.Linear(3, 4), parts

    def forward(self, x: torch.Tensor) -> torch.Tensor | tuple[torch.Tensor, ...]:
        return self.layer(x) if self.parts == 1 else tuple(self.layer(x) for _ in range(self.parts))


def loop(gives: str, use: str) -> str:
    body = ["x = torch.randn(2, 3)", gives, *use.splitlines()]
    return "for batch in range(4):\n" + "".join(f"    {line}\n" for line in body)


def indented(text: str) -> str:
    return "".join(f"    {line}\n" for line in text.splitlines())


def program(form: str, tell: str, text: str) -> str:
    whole = form.format(indented(text)) if "{}" in form else form.replace("USE", text)
    return "import torch\n\n" + whole.replace("TELL", tell)


def codes(text: str) -> list[str]:
    return [finding.code for finding in check(from_text(text, "x.py")).findings]


@pytest.mark.parametrize(("tell", "gives"), list(itertools.product(TOLD, GIVES)))
def test_an_evaluation_that_records_is_told(tell: str, gives: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for form, use in itertools.product((LOADED, GIVEN), READ):
        text = program(form, tell, loop(GIVES[gives], use))
        assert codes(text) == ["TAPE302"], text
    parts = {"two": 2, "dropped": 4, "starred": 3, "picked": 2}.get(gives, 1)
    monkeypatch.setattr(torch, "load", lambda path: Net(parts))
    namespace: dict[str, object] = {}
    exec(program(LOADED, tell, loop(GIVES[gives], READ[0])), namespace)
    mean = namespace["mean"]
    assert isinstance(mean, torch.Tensor) and mean.grad_fn is not None


@pytest.mark.parametrize(("tell", "gives", "use"), list(itertools.product(TOLD, GIVES, LEARNED)))
def test_what_is_learned_from_is_no_evaluation(tell: str, gives: str, use: str) -> None:
    before = "from learners import learner\n\nmeans = []\noptimizer = torch.optim.SGD(net.parameters(), lr=0.1)\n"
    after = "torch.stack(means).sum().backward()\n" if use == "kept" else ""
    for form in (LOADED, GIVEN):
        assert "TAPE302" not in codes(program(form, tell, before + loop(GIVES[gives], LEARNED[use]) + after))


def test_what_is_told_nothing_may_be_any_function() -> None:
    assert codes(program(GIVEN, "pass", loop(GIVES["two"], READ[0]))) == []
    assert codes(program(LOADED, "pass", loop(GIVES["two"], READ[0]))) == []


@pytest.mark.parametrize("gives", GIVES)
@pytest.mark.parametrize("off", FREEZES)
def test_what_is_frozen_records_nothing(off: str, gives: str) -> None:
    use = loop(GIVES[gives], READ[0])
    for form, tell in itertools.product((LOADED, GIVEN, MADE), TOLD[::2]):
        assert codes(program(form, tell, f"{off}\n{use}")) == [], form
        assert codes(program(form, "pass", f"{off}\n{tell}\n{use}")) == [], form


def test_two_losses_of_what_one_call_gives_may_share_nothing() -> None:
    text = program(GIVEN, "net.eval()", loop(GIVES["two"], "mean.sum().backward()\nscale.sum().backward()"))
    assert not any(finding.certain for finding in check(from_text(text, "x.py")).findings)


@pytest.mark.parametrize("part", ["given.model", "given[0]", "given['net']", "given.nets[1].body"])
def test_a_part_of_what_is_handed_in_is_a_model_once_it_is_told_to_evaluate(part: str) -> None:
    for gives in GIVES.values():
        text = loop(gives.replace("net(x)", f"{part}(x)"), READ[1])
        whole = f"import torch\n\n\ndef sample(given):\n    TELL\n{indented(text)}"
        assert codes(whole.replace("TELL", f"{part}.eval()")) == ["TAPE302"]
        assert codes(whole.replace("TELL", "pass")) == []
        assert codes(whole.replace("TELL", f"{part}.eval()\n    given.requires_grad_(False)")) == []
        learned = whole.replace("TELL", f"{part}.eval()").replace(READ[1], "mean.sum().backward()")
        assert "TAPE302" not in codes(learned)


def test_what_becomes_an_array_as_it_is_has_no_graph() -> None:
    for form, gives in itertools.product((LOADED, GIVEN), GIVES.values()):
        assert codes(program(form, "net.eval()", loop(gives, "print(mean.numpy())"))) == []


DECODER = """\
class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.scale = nn.GRUCell(3, 4), nn.Parameter(torch.ones(()))

    def start(self, x):
        self.state = torch.zeros(len(x), 4)

    def step(self, x):
        self.state = self.cell(x, self.state)
        return self.state

    def forward(self, xs):
        self.start(xs[0])
        xs = xs * self.scale
        return [self.step(x) for x in xs][-1]

    def infer(self, xs):
        return self.forward(xs)


def evaluate(model, data):
    model.eval()
    for xs in data:
        state = CALL
        print(state.detach().numpy())
AFTER

model = Decoder()
"""


def decoder(call: str, after: str = "") -> str:
    text = "import torch\nfrom torch import nn\n\n\n" + DECODER.replace("CALL", call).replace("AFTER", after)
    return text + "evaluate(model, [torch.randn(5, 2, 3) for _ in range(4)])\n"


@pytest.mark.parametrize("call", ["model(xs)", "model.infer(xs)", "model.forward(xs * 2)"])
def test_what_a_forward_has_its_methods_keep_is_replaced_by_the_next(call: str) -> None:
    assert codes(decoder(call)) == ["TAPE302"]
    if call == "model(xs)":
        assert codes(decoder(call).replace("        xs = xs * self.scale\n", "")) == ["TAPE302"]


@pytest.mark.parametrize(
    ("call", "after"),
    [
        ("model(xs)", "    model.state.sum().backward()"),
        ("model.step(xs[0]) if model.start(xs[0]) is None else None", ""),
    ],
)
def test_what_an_object_keeps_is_there_for_others(call: str, after: str) -> None:
    assert "TAPE302" not in codes(decoder(call, after))
