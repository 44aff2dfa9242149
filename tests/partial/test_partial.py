"""Hiding a part of a program makes nothing wrong: a sample of the variants that a soak judges all of."""

from __future__ import annotations

import ast
import random
from pathlib import Path

import pytest

from tests.cases import score, under_torch
from tests.partial.hide import TELLING, Variant, variants
from tests.partial.judge import judge_all, run_texts, same_run, truth_of

PROGRAM = '''\
"""A program that has all that is hidden, moved or renamed."""
import torch
from torch import nn

STEPS = 4


class Net(nn.Module):
    slope = 2

    def __init__(self, width, bias=True):
        super().__init__()
        self.first = nn.Linear(3, width, bias=bias)

    def forward(self, inputs):
        return torch.tanh(self.first(inputs)).sum(1)

    def twice(self, value):
        return self.slope * value


@torch.no_grad()
def evaluate(net, inputs):
    return net(inputs).mean()


torch.manual_seed(0)
net = Net(4)
data = [torch.randn(5, 3) for _ in range(3)]
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(STEPS):
    for batch in data:
        loss = net.twice(
            net(batch).pow(2).mean()
        )
        if step > 1 and torch.is_grad_enabled():
            loss = loss / 2 + net(batch).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
with torch.no_grad():
    print(evaluate(net, data[0]).item(), f"{loss.item():.3f}")
'''
KINDS = {
    "argument", "attribute", "base", "callee", "class", "condition", "constant", "context", "dataset", "decorator",
    "default", "definitions", "function", "maker", "method", "named", "operand", "option", "renamed", "shown", "split",
    "through", "value", "wrapped",
}  # fmt: skip


@pytest.fixture(scope="module")
def made() -> list[Variant]:
    return list(variants(PROGRAM))


def test_every_kind_of_part_is_hidden(made: list[Variant]) -> None:
    assert {one.kind for one in made} >= KINDS
    assert len({one.module for one in made if one.module}) == sum(bool(one.module) for one in made)


def test_lines_stay_where_they_were(made: list[Variant]) -> None:
    whole = PROGRAM.split("\n")
    for one in made:
        lines = one.text.split("\n")
        for number, line in enumerate(lines, 1):
            original = one.original(number)
            if line in whole and line.strip() and whole.count(line) == 1:
                assert whole[original - 1] == line, (one.kind, one.part, number)
        for number, line in enumerate(one.body.split("\n"), 1):
            original = one.original(number, in_module=True)
            if original:
                assert whole[original - 1].strip() == line.strip(), (one.kind, one.part, number)


def test_names_are_the_program_s_own_and_no_others(made: list[Variant]) -> None:
    one, telling = (variant for variant in made if variant.kind == "renamed")
    assert "evaluate" not in one.text and "twice" not in one.text and "optimizer" not in one.text
    assert "def forward(self" in one.text and ".zero_grad()" in one.text and "nn.Linear(3, " in one.text
    definitions = {node.name for node in ast.walk(ast.parse(telling.text)) if isinstance(node, ast.FunctionDef)}
    assert definitions & set(TELLING) and definitions >= {"__init__", "forward"}


@pytest.mark.skipif(not under_torch.has_torch(), reason="torch is not installed")
def test_a_variant_does_what_the_program_does(made: list[Variant]) -> None:
    chosen = {one.kind: one for one in made}.values()
    whole, *outcomes = run_texts([(Variant("whole", "", PROGRAM), PROGRAM), *((one, one.text) for one in chosen)])
    assert whole["exception"] is None and whole["steps"]
    for one, outcome in zip(chosen, outcomes, strict=True):
        assert same_run(whole, outcome), (one.kind, one.part, outcome["exception"], outcome["message"])


def test_truth_is_that_of_the_cases() -> None:
    assert any(truth_of(program) for program in score.programs_in(score.PROGRAMS)[:20])


def test_a_sample_of_the_cases_is_judged_alike_under_other_names() -> None:
    programs = random.Random(3).sample(score.programs_in(score.PROGRAMS), 12)
    several = [(path, _of_kinds(path, "renamed", "wrapped")) for path in programs]
    result = judge_all(several, jobs=1, fixes=False)
    renamed = [one for one in result.judged if one.variant.kind == "renamed"]
    assert len(renamed) >= 20 and not any(one.failed for one in result.judged)
    assert [(one.program, one.lost, one.fresh) for one in renamed if one.lost or one.fresh] == []


SPLIT_BEFORE = ("amp_unscale_too_late", "discriminator_input_noise_gp", "value_head_not_given")
"""Programs of which something more or elsewhere was once said when they were split over files."""


def test_a_sample_of_the_cases_is_judged_alike_over_several_files() -> None:
    programs = random.Random(6).sample(score.programs_in(score.PROGRAMS), 16)
    programs += [score.PROGRAMS / f"{name}.py" for name in SPLIT_BEFORE]
    result = judge_all([(path, _of_kinds(path, "split")) for path in programs], jobs=1, fixes=False)
    assert len(result.judged) >= 15 and not any(one.failed for one in result.judged)
    changed = [one for one in result.judged if one.lost or one.fresh]
    assert [(one.program, one.variant.part, one.lost, one.fresh) for one in changed] == []


def test_a_name_of_what_is_hidden_says_nothing() -> None:
    several = [
        (path, _of_kinds(path, "named")[::4]) for path in random.Random(4).sample(score.programs_in(score.PROGRAMS), 8)
    ]
    result = judge_all(several, jobs=1, fixes=False)
    assert len(result.judged) >= 15 and not any(one.failed for one in result.judged)
    assert [
        (one.program, one.variant.part, one.lost, one.fresh) for one in result.judged if one.lost or one.fresh
    ] == []


WRONG_BEFORE = (
    "a2c_joint_update", "fmri_gru_retain", "prototype_ema_head", "softmax_regression_by_hand",
    "stateful_probe_head_only", "task_clones_create_graph", "wrapped_loss_requires_grad",
)  # fmt: skip
"""Programs of which a hidden callee, context or value once made a wrong finding that called itself certain."""


def test_nothing_certain_is_wrong_where_a_part_is_hidden() -> None:
    programs = [score.PROGRAMS / f"{name}.py" for name in WRONG_BEFORE]
    several = [(path, _of_kinds(path, "callee", "context", "value", "dataset", "base")) for path in programs]
    result = judge_all(several, jobs=1, fixes=False)
    assert not any(one.failed for one in result.judged)
    assert result.count("wrong", "certain", "loud") == 0, [one for one in result.lines() if "certain loud" in one]
    assert result.count("right", "certain") > 0 and result.count("right", "possible") > 0


ANSWERED = ("argument", "attribute", "condition", "default", "length", "maker", "operand", "option", "shown", "through")
"""What says how code goes on, or has a part in all that it does."""


def test_nothing_certain_is_wrong_where_hidden_code_says_how_it_goes_on() -> None:
    programs = [path for path in score.programs_in(score.PROGRAMS) if truth_of(path)]
    several = [(path, _of_kinds(path, *ANSWERED)[::9]) for path in random.Random(12).sample(programs, 20)]
    result = judge_all(several, jobs=1, fixes=False)
    assert len(result.judged) >= 80 and not any(one.failed for one in result.judged)
    assert result.count("wrong", "certain", "loud") == 0, [one for one in result.lines() if "certain loud" in one]
    assert result.count("right", "certain") > 20


BESIDE = ("stale-saved-tensor", "backward-twice")
"""Mistakes that are there whatever records, yields or constructs: hidden beside them, these leave them possible."""


def test_what_is_hidden_beside_a_mistake_leaves_it_told() -> None:
    """A base class of a module, a decorator of a constructor or of a function that yields nothing with a graph."""
    programs = [path for path in score.programs_in(score.PROGRAMS) if any(one.rule in BESIDE for one in truth_of(path))]
    several = [(path, _beside(path)) for path in random.Random(9).sample(programs, 24)]
    result = judge_all(several, jobs=1, fixes=False)
    assert len(result.judged) >= 25 and not any(one.failed for one in result.judged)
    assert result.count("wrong", "certain") == 0
    # A constructor may build the graph in question, which it has only if recording is on.
    silent = [(one.program, one.variant.part) for one in result.judged if not one.kept]
    assert len(silent) <= 1, silent


def _beside(program: Path) -> list[int]:
    """Return the numbers of variants that hide a decorator of a constructor, or the base of a class with a forward."""
    text = program.read_text()
    modules = {
        node.name
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ClassDef)
        and any(isinstance(base, ast.Attribute) and base.attr == "Module" for base in node.bases)
        and any(isinstance(one, ast.FunctionDef) and one.name == "forward" for one in node.body)
    }
    return [
        number
        for number, one in enumerate(variants(text))
        if (one.kind == "wrapped" and one.part.startswith("__init__"))
        or (one.kind == "base" and one.part.split()[0] in modules)
    ]


def _of_kinds(program: Path, *kinds: str) -> list[int]:
    return [number for number, one in enumerate(variants(program.read_text())) if one.kind in kinds]
