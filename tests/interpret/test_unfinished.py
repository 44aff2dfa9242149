"""Programs with a part that is not written yet, as exercises have them: torch does not come to what lies behind."""

from __future__ import annotations

import ast
import random
from collections.abc import Iterator

import pytest

from tapecheck.check import check
from tapecheck.rules import ALL, Finding
from tapecheck.source import from_text
from tapecheck.source.nodes import last_name
from tapecheck.torchfacts import classes

_GAN = """\
import torch
from torch import nn

class Layers(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.layers = nn.Sequential(LAYERS)

    def forward(self, x):
        return self.layers(x)

maker, judge = Layers(4), Layers(1)
made = torch.optim.SGD(MADE, lr=0.1)
judged = torch.optim.SGD(judge.parameters(), lr=0.1)
criterion = nn.BCEWithLogitsLoss()

def judge_loss(judge, real, fake):
    pred = PRED
    return criterion(pred, torch.zeros(3, 1)) + criterion(judge(real), torch.ones(3, 1))

def maker_loss(maker, judge, noise):
    fake = maker(noise)
    score = SCORE
    return RETURNED

kept = []
for real in torch.randn(10, 3, 4):
    noise = torch.randn(3, 4)
    judged.zero_grad()
    with torch.no_grad():
        fake = maker(noise)
    judge_loss(judge, real, fake).backward(retain_graph=True)
    judged.step()
    made.zero_grad()
    loss, fake = maker_loss(maker, judge, noise)
    kept += [fake]
    loss.backward()
    made.step()
"""
_WRITTEN = {
    "LAYERS": "nn.Linear(4, sizes)", "MADE": "maker.parameters()", "PRED": "judge(fake)", "SCORE": "-judge(fake)",
    "RETURNED": "score.mean(), fake",
}  # fmt: skip
_BLANKS = {
    "nothing": {},
    "the layers": {"LAYERS": ""},
    "the parameters": {"MADE": "[]"},
    "the parameters, taken one by one": {"MADE": "[one for one in ()]"},
    "a prediction": {"PRED": "None"},
    "a loss": {"RETURNED": "loss, fake"},
    "a loss and what it is of": {"RETURNED": "loss, faked"},
    "a loss in part": {"RETURNED": "score.mean() + penalty, fake"},
    "a score": {"SCORE": "None", "RETURNED": "score + score, fake"},
}


@pytest.mark.parametrize("blank", _BLANKS)
def test_nothing_is_wrong_behind_what_is_not_written(blank: str) -> None:
    program = _GAN
    for name, text in {**_WRITTEN, **_BLANKS[blank]}.items():
        program = program.replace(name, text)
    found = check(from_text(program, "program.py")).findings
    assert [one.message for one in found if one.severity in ("error", "warning")] == []
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    if blank == "nothing":
        exec(program, {"__name__": "program"})
    else:
        with pytest.raises((AttributeError, NameError, TypeError, ValueError)):
            exec(program, {"__name__": "program"})


def test_torch_takes_groups_without_parameters() -> None:
    program = "import torch\nw = torch.ones(2, requires_grad=True)\nopt = torch.optim.SGD([{'params': []}], lr=0.1)\n"
    program += "w.detach().sum().backward()\n"
    assert [one.code for one in check(from_text(program, "program.py")).findings] == ["TAPE103"]
    pytest.importorskip("torch")
    with pytest.raises(RuntimeError, match="does not require grad"):
        exec(program, {})


_REPOSITORIES = ["'someone/vocoder', 'load'", "repo_or_dir='other/models:main', model='net'", "where, 'net'"]


@pytest.mark.parametrize("given", [*_REPOSITORIES, "'pytorch/vision:v0.10.0', 'resnet18'"])
def test_what_an_entry_point_of_the_hub_makes_may_have_nothing_to_train(given: str) -> None:
    program = f"import sys, torch\nwhere = sys.argv[1]\nnet = torch.hub.load({given})\n"
    program += "for x in torch.randn(9, 2, 3):\n    print(net(x).shape)\n"
    found = [one.code for one in check(from_text(program, "program.py")).findings]
    assert found == ([] if given in _REPOSITORIES else ["TAPE302"])


WRITTEN = {
    f"{rule.code}-{number}": example.program
    for rule in ALL
    for number, example in enumerate((*rule.page.valid, *rule.page.invalid))
}


@pytest.mark.parametrize("name", WRITTEN)
def test_a_call_that_is_being_typed_is_no_mistake(name: str) -> None:
    program = WRITTEN[name]
    whole = {one.span.line for one in check(from_text(program, "p.py")).findings}
    calls = [node.value for node in ast.walk(ast.parse(program)) if isinstance(node, ast.Expr)]
    methods = [call.func for call in calls if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)]
    for method in (one for one in methods if one.lineno == one.end_lineno):
        lines = program.splitlines()
        end = method.end_col_offset or 0
        line = lines[method.lineno - 1]
        lines[method.lineno - 1] = line[: end - len(method.attr) + min(3, len(method.attr) - 1)]
        typed = "\n".join(lines)
        for one in check(from_text(typed, "p.py")).findings:
            assert one.span.line in whole or not one.certain, (lines[method.lineno - 1], one.code, one.span.line)


def _half_typed(program: str, name: str) -> Iterator[str]:
    """Yield a program with some of its attributes and keywords written only half."""
    lines = program.splitlines()
    cuts: list[tuple[int, int, int]] = []
    nodes = list(ast.walk(ast.parse(program)))
    for node in nodes:
        if isinstance(node, ast.Attribute) and node.lineno == node.end_lineno and isinstance(node.ctx, ast.Load):
            short = min(3, len(node.attr) - 1)
            # `loss.det()` is another thing to say.
            if classes.tensor_lacks(node.attr[:short]):
                end = node.end_col_offset or 0
                cuts.append((node.lineno, end - len(node.attr) + short, end))
    for call in nodes:
        if isinstance(call, ast.Call) and last_name(call.func) in ("backward", "grad"):
            for keyword in call.keywords:
                if keyword.arg is not None:
                    cuts.append((keyword.lineno, keyword.col_offset + 4, keyword.col_offset + len(keyword.arg)))
    for row, start, end in random.Random(name).sample(cuts, min(6, len(cuts))):
        line = lines[row - 1].encode()
        typed = (line[:start] + line[end:]).decode()
        yield "\n".join([*lines[: row - 1], typed, *lines[row:]])


@pytest.mark.parametrize("name", WRITTEN)
def test_what_is_typed_half_makes_nothing_certain(name: str) -> None:
    lines = WRITTEN[name].splitlines()
    whole = check(from_text(WRITTEN[name], "p.py")).findings
    # The same mistake may be told at another line, or by another rule of another line of it.
    known = {one.code for one in whole} | {line for one in whole for line in _lines(one)}
    for typed in _half_typed(WRITTEN[name], name):
        changed = next(text for text, was in zip(typed.splitlines(), lines) if text != was)
        for one in check(from_text(typed, "p.py")).findings:
            new = known.isdisjoint((one.code, *_lines(one)))
            assert not (new and one.certain), (changed, one.code, one.span.line, one.message)


def _lines(finding: Finding) -> set[int]:
    return {finding.span.line, *(label.span.line for label in finding.labels)}
