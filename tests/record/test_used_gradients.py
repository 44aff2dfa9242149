"""A run compares the gradients that a step has used with those of the next one."""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tapecheck.check import check
from tapecheck.record import RunResult
from tapecheck.record.evidence import judge
from tapecheck.source import from_text

PROGRAM = """
    import torch
    from torch import nn

    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(4):
        {before}
        loss = model(torch.randn(5, 3)).pow(2).mean()
        loss.backward()
        optimizer.step()
        {after}
"""


def measures(result: RunResult) -> list[Any]:
    return [event for event in result.tape.events if getattr(event, "name", "").startswith("stale-gradient")]


def test_each_parameter_is_told_once_with_the_backward(record: Callable[..., RunResult]) -> None:
    found = measures(record(PROGRAM.format(before="", after="")))
    assert len(found) == 4
    assert {event.at.line for event in found} == {9}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("optimizer.zero_grad()", ""),
        ("", "optimizer.zero_grad(set_to_none=False)"),
        ("", "[p.grad.mul_(0.5) for p in model.parameters()]"),
    ],
)
def test_what_is_cleared_or_scaled_is_not_used_twice(record: Callable[..., RunResult], before: str, after: str) -> None:
    assert measures(record(PROGRAM.format(before=before, after=after))) == []


def test_the_run_finds_it_by_itself(record: Callable[..., RunResult]) -> None:
    result = record(PROGRAM.format(before="", after=""))
    found = judge([], result.tape)
    assert [(finding.code, finding.span.line) for finding in found] == [("TAPE403", 9)]
    assert found[0].evidence is not None and found[0].evidence.verdict == "found-by-run"


CLEARED = """
    import torch
    from torch import nn

    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(3, 1), nn.Linear(3, 1)

    model = Twice()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(4):
        x = torch.randn(5, 3)
        {first}
        {clear}
        {second}
        optimizer.step()
        optimizer.zero_grad()
"""
FIRST, SECOND = "(model.a(x) + model.b(x)).mean().backward()", "(model.a(x) - model.b(x)).pow(2).mean().backward()"


@pytest.mark.parametrize("clear", ["optimizer.zero_grad()", "model.zero_grad(set_to_none=False)"])
def test_the_run_finds_a_backward_whose_gradients_are_cleared(record: Callable[..., RunResult], clear: str) -> None:
    result = record(CLEARED.format(first=FIRST, clear=clear, second=SECOND))
    found = judge([], result.tape)
    assert [(finding.code, finding.span.line) for finding in found] == [("TAPE404", 13)]
    assert found[0].evidence is not None and found[0].evidence.verdict == "found-by-run"
    assert found[0].evidence.measured["calls"] == 4


@pytest.mark.parametrize(
    ("first", "clear", "second"),
    [
        (FIRST, "", SECOND),
        (FIRST, "optimizer.step() if step else optimizer.zero_grad()", SECOND),
        (FIRST, "print(model.a.weight.grad); optimizer.zero_grad()", SECOND),
        (FIRST, "print(nn.utils.clip_grad_norm_(model.parameters(), 1.0)); optimizer.zero_grad()", SECOND),
        ("x.requires_grad_().register_hook(print); " + FIRST, "optimizer.zero_grad()", SECOND),
        # What is wrong here is told by the parameters that have no gradient.
        ("model.a(x).mean().backward()", "optimizer.zero_grad()", "model.a(x).mean().backward()"),
    ],
)
def test_gradients_that_something_may_use_are_not_lost(
    record: Callable[..., RunResult], first: str, clear: str, second: str
) -> None:
    result = record(CLEARED.format(first=first, clear=clear, second=second))
    assert "TAPE404" not in [finding.code for finding in judge([], result.tape)]


@pytest.mark.parametrize("clear", ["p.grad.zero_()", "p.grad = None"])
def test_what_is_cleared_by_hand_is_confirmed(record: Callable[..., RunResult], clear: str, tmp_path: Path) -> None:
    hand = f"[p for p in model.parameters()]\n        for p in model.parameters():\n            {clear}"
    text = textwrap.dedent(CLEARED.format(first=FIRST, clear=hand, second=SECOND)).lstrip()
    (finding,) = [one for one in check(from_text(text, "script.py")).findings if one.code == "TAPE404"]
    result = record(text, watch={(str(tmp_path / "script.py"), finding.span.line)})
    (judged,) = [one for one in judge([finding], result.tape, directory=str(tmp_path)) if one.code == "TAPE404"]
    assert judged.evidence is not None and judged.evidence.verdict == "confirmed"


BY_ANOTHER_NAME = """
    import torch

    net = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)

    def train_step(clear):
        loss = net(torch.randn(4, 8)).pow(2).mean()
        loss.backward()
        clear()
        optimizer.step()

    for i in range(10):
        train_step(optimizer.zero_grad)
"""
IN_ONE_LINE = """
    import torch

    net = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    phases = [lambda: loss.backward(), optimizer.zero_grad, optimizer.step]
    for i in range(10):
        loss = net(torch.randn(4, 8)).pow(2).mean()
        for phase in phases: phase()
"""


@pytest.mark.parametrize(("text", "line"), [(BY_ANOTHER_NAME, 8), (IN_ONE_LINE, 5)])
def test_clearing_by_any_name_is_seen_and_is_no_missing_gradient(
    record: Callable[..., RunResult], text: str, line: int
) -> None:
    found = judge([], record(text).tape)
    assert [(finding.code, finding.span.line) for finding in found] == [("TAPE404", line)]


CLOSURE = """
    import torch
    from torch import nn

    model = nn.Linear(3, 1)
    optimizer = torch.optim.{kind}(model.parameters(), lr=0.1)
    x = torch.randn(5, 3)

    def closure():
        {before}
        loss = model(x).pow(2).mean()
        loss.backward()
        {after}
        return loss

    for step in range(3):
        optimizer.step(closure)
"""


@pytest.mark.parametrize("kind", ["LBFGS", "SGD"])
@pytest.mark.parametrize(("before", "after"), [("", "optimizer.zero_grad()"), ("optimizer.zero_grad()", "")])
def test_a_closure_that_clears_what_it_has_computed(
    record: Callable[..., RunResult], kind: str, before: str, after: str
) -> None:
    result = record(CLOSURE.format(kind=kind, before=before, after=after))
    found = [(finding.code, finding.span.line) for finding in judge([], result.tape)]
    assert found == ([("TAPE404", 11)] if after else [])


TERM = """
    import torch
    from torch import nn

    model = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(4):
        out = model(torch.randn(5, 3))
        loss = out.pow(2).mean() + out.mean()
        {again}
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    "again",
    [
        "loss = torch.tensor(loss.item(), requires_grad=True) + out.abs().mean()",
        "penalty = out.abs().mean().item(); loss = loss + out.std() + 1e-8 - 0.1 * penalty",
    ],
)
def test_a_term_that_has_no_effect_is_confirmed(record: Callable[..., RunResult], again: str, tmp_path: Path) -> None:
    text = textwrap.dedent(TERM.format(again=again)).lstrip()
    (finding,) = [one for one in check(from_text(text, "script.py")).findings if one.code == "TAPE407"]
    result = record(text, watch={(str(tmp_path / "script.py"), finding.span.line)})
    (judged,) = [one for one in judge([finding], result.tape, directory=str(tmp_path)) if one.code == "TAPE407"]
    assert judged.evidence is not None and judged.evidence.verdict == "confirmed"
    mended = text.replace(".item()", "")
    if "tensor(" not in again:
        result = record(mended, watch={(str(tmp_path / "script.py"), finding.span.line)})
        (judged,) = [one for one in judge([finding], result.tape, directory=str(tmp_path)) if one.code == "TAPE407"]
        assert judged.evidence is None or judged.evidence.verdict != "confirmed"


WEIGHED = """
    import torch

    net = torch.nn.Linear(3, 2)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    a = {a}
    for step in range(4):
        out = net(torch.randn(5, 3))
        soft = out{cut}.pow(2).mean()
        hard = (out - 1).pow(2).mean()
        loss = {loss}
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("loss", "decided"),
    [
        ("a * soft + (1 - a) * hard", True),
        ("(1 - a) * soft + a * hard", True),
        ("(1 - a) * hard + soft", True),
        ("hard + (a + 0.2) * soft", True),
        ("a * soft + hard * (1 - a) + 1e-8", True),
        ("-(soft - hard / (a + 1) - 0.5)", True),
        # The tape does not say which of the two is a sum of floats.
        ("(soft + hard) / (a + 1)", False),
    ],
)
@pytest.mark.parametrize("a", ["0.7", "torch.tensor(0.7)"])
def test_arithmetic_on_numbers_is_no_term_of_the_sum(
    record: Callable[..., RunResult], tmp_path: Path, loss: str, a: str, decided: bool
) -> None:
    text = textwrap.dedent(WEIGHED.format(a=a, cut=".detach()", loss=loss)).lstrip()
    (finding,) = [one for one in check(from_text(text, "script.py")).findings if one.code == "TAPE407"]
    for program, expected in ((text, "confirmed"), (text.replace(".detach()", ""), "refuted")):
        result = record(program, watch={(str(tmp_path / "script.py"), finding.span.line)})
        (judged,) = [one for one in judge([finding], result.tape, directory=str(tmp_path)) if one.code == "TAPE407"]
        said = judged.evidence.verdict if judged.evidence is not None else "inconclusive"
        assert said == expected or (said == "inconclusive" and not decided), judged.evidence


HANDED = """
    import torch
    from torch import nn

    common, local = nn.Linear(3, 1), nn.Linear(3, 1)
    optimizer = torch.optim.SGD(common.parameters(), lr=0.1)
    for step in range(4):
        loss = local(torch.randn(5, 3)).pow(2).mean()
        optimizer.zero_grad()
        {clear}
        loss.backward()
        for mine, shared in zip(local.parameters(), common.parameters()):
            shared.grad = mine.grad
        optimizer.step()
"""


def test_a_gradient_that_is_given_to_another_parameter_adds_up_where_it_comes_from(
    record: Callable[..., RunResult],
) -> None:
    (found,) = judge([], record(HANDED.format(clear="pass")).tape)
    (expected,) = check(from_text(textwrap.dedent(HANDED.format(clear="pass")).strip(), "train.py")).findings
    assert (found.code, found.span.line) == (expected.code, expected.span.line) == ("TAPE403", 10)
    assert measures(record(HANDED.format(clear="local.zero_grad()"))) == []


LATER = """
    import torch
    from torch import nn

    model = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range({first}):
        optimizer.zero_grad()
        model(torch.randn(5, 3)).pow(2).mean().backward()
        optimizer.step()
    for step in range(4):
        {clear}
        model(torch.randn(5, 3)).abs().mean().backward()
        optimizer.step()
"""

SHARED = """
    import torch
    from torch import nn

    model = nn.Linear(3, 1)
    first = torch.optim.SGD(model.parameters(), lr=0.1)
    second = torch.optim.Adam(model.parameters(), lr=0.1)
    for step in range(4):
        first.zero_grad()
        model(torch.randn(5, 3)).pow(2).mean().backward()
        first.step()
        {clear}
        model(torch.randn(5, 3)).abs().mean().backward()
        second.step()
"""


@pytest.mark.parametrize("text", [LATER.format(first=9, clear="{clear}"), SHARED])
def test_a_backward_is_judged_by_what_was_compared_there(
    record: Callable[..., RunResult], text: str, tmp_path: Path
) -> None:
    text = textwrap.dedent(text).lstrip()
    broken, mended = text.format(clear="pass"), text.format(clear="model.zero_grad()")
    (finding,) = check(from_text(broken, "script.py")).findings
    watch = {(str(tmp_path / "script.py"), finding.span.line)}
    for program, verdict in ((broken, "confirmed"), (mended, "refuted")):
        (judged,) = judge([finding], record(program, watch=watch).tape, directory=str(tmp_path))
        assert judged.evidence is not None and (judged.code, judged.evidence.verdict) == ("TAPE403", verdict)


SUMMED = """
    import torch
    from torch import nn

    model = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(4):
        model(torch.randn(5, 3)).pow(2).mean().backward(create_graph=True)
        optimizer.step()
"""


def test_gradients_that_a_backward_replaces_refute_nothing(record: Callable[..., RunResult], tmp_path: Path) -> None:
    text = textwrap.dedent(SUMMED).lstrip()
    (finding,) = (one for one in check(from_text(text, "script.py")).findings if one.code == "TAPE403")
    watch = {(str(tmp_path / "script.py"), finding.span.line)}
    judged = judge([finding], record(text, watch=watch).tape, directory=str(tmp_path))
    (mine,) = (one for one in judged if one.code == "TAPE403")
    assert mine.evidence is None


PASSED = """
    import torch
    from torch import nn

    other, model = nn.Linear(3, 1), nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(9):
        other(torch.randn(5, 3)).abs().mean().backward(inputs=list(other.parameters()))
        model(torch.randn(5, 3)).abs().mean().backward()
        optimizer.zero_grad(set_to_none=False)
        model(torch.randn(5, 3)).pow(2).mean().backward()
        optimizer.step()
"""


def test_what_calls_that_pass_have_added_is_laid_to_no_other(record: Callable[..., RunResult]) -> None:
    assert [event.at.line for event in measures(record(PASSED))] == []


ZEROS = """
    import torch
    from torch import nn

    model = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(4):
        (model(torch.randn(5, 3)) * 0).sum().backward()
        (model(torch.randn(5, 3)) * 0).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
"""


def test_zeros_that_a_backward_adds_clear_nothing(record: Callable[..., RunResult]) -> None:
    assert [finding.code for finding in judge([], record(ZEROS).tape)] == []


ZEROS_AND_A_LIMIT = """
    import torch
    from torch import nn

    model = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    (model(torch.ones(5, 3)) + 9).pow(2).sum().backward()
    for step in range(4):
        optimizer.step()
        (model(torch.randn(5, 3)) * {by}).sum().backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
"""


@pytest.mark.parametrize("by", [0, 1])
def test_what_the_program_changes_after_a_backward_is_not_laid_to_it(record: Callable[..., RunResult], by: int) -> None:
    assert bool(measures(record(ZEROS_AND_A_LIMIT.format(by=by)))) is bool(by)


FAILING = """
    import torch
    from torch import nn

    model, head, out = nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(3, 1)
    optimizer = torch.optim.SGD([*model.parameters(), *head.parameters(), *out.parameters()], lr=0.1)
    for step in range(4):
        hidden = model(torch.randn(5, 3)).tanh()
        loss = out(head(hidden).tanh()).pow(2).mean()
        {change}
        try:
            loss.backward()
        except RuntimeError:
            pass
        optimizer.zero_grad()
        out(head(model(torch.randn(5, 3)))).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
"""


@pytest.mark.parametrize(("change", "lost"), [("pass", True), ("hidden.mul_(2)", False)])
def test_what_a_failed_backward_has_given_is_not_lost(
    record: Callable[..., RunResult], change: str, lost: bool
) -> None:
    codes = [finding.code for finding in judge([], record(FAILING.format(change=change)).tape)]
    assert ("TAPE102" in codes, "TAPE404" in codes) == (not lost, lost)


HANDED_ONCE = """
    import torch
    from torch import nn

    common, local = nn.Linear(4, 2), nn.Linear(4, 2)
    optimizer = torch.optim.SGD(common.parameters(), lr=0.1)
    for step in range(4):
        local.load_state_dict(common.state_dict())
        local.zero_grad()
        local(torch.randn(8, 4)).pow(2).mean().backward()
        for mine, shared in zip(local.parameters(), common.parameters()):
            if {when}:
                shared.grad = mine.grad
        optimizer.step()
"""


@pytest.mark.parametrize(("when", "verdict"), [("shared.grad is None", "confirmed"), ("True", "")])
def test_a_gradient_that_is_handed_over_once_is_seen_at_the_steps(
    record: Callable[..., RunResult], when: str, verdict: str, tmp_path: Path
) -> None:
    broken = textwrap.dedent(HANDED_ONCE).lstrip().format(when="shared.grad is None")
    (finding,) = check(from_text(broken, "script.py")).findings
    tape = record(HANDED_ONCE.format(when=when), watch={(str(tmp_path / "script.py"), finding.span.line)}).tape
    (judged,) = judge([finding], tape, directory=str(tmp_path))
    assert (judged.evidence.verdict if judged.evidence is not None else "") == verdict


def _discards(result: RunResult, count: int) -> None:
    """Assert that no step used a gradient, and how many backwards gave some for nothing."""
    names = [event.name for event in result.tape.events if getattr(event, "name", "").startswith("gradient")]
    assert "gradients-used" not in names
    assert [name.partition(":")[0] for name in names].count("gradient-discarded") == count


def test_a_step_uses_nothing_of_a_part_that_was_cleared_before_it(record: Callable[..., RunResult]) -> None:
    result = record("""
        import torch
        from torch import nn

        first, second = nn.Linear(3, 1), nn.Linear(3, 1)
        one = torch.optim.SGD(first.parameters(), lr=0.1)
        other = torch.optim.SGD(second.parameters(), lr=0.1)
        for step in range(4):
            one.zero_grad()
            one.step()
            other.zero_grad()
            (first(torch.ones(2, 3)) + second(torch.ones(2, 3))).sum().backward()
    """)
    _discards(result, 4)


def test_a_closure_is_used_by_a_step_of_the_parameters_it_reaches_only(record: Callable[..., RunResult]) -> None:
    result = record("""
        import torch
        from torch import nn

        mine, other = nn.Linear(3, 1), nn.Linear(3, 1)
        optimizer = torch.optim.SGD(mine.parameters(), lr=0.1)
        unused = torch.optim.SGD(other.parameters(), lr=0.1)

        def closure():
            loss = other(torch.ones(2, 3)).sum()
            loss.backward()
            return loss

        for step in range(3):
            optimizer.step(closure)
            other.zero_grad()
    """)
    _discards(result, 2)


def test_steps_of_others_are_no_comparison_for_a_backward(record: Callable[..., RunResult]) -> None:
    result = record("""
        import torch
        from torch import nn

        mine, other = nn.Linear(3, 1), nn.Linear(3, 1)
        optimizer = torch.optim.SGD(mine.parameters(), lr=0.1)
        second = torch.optim.SGD(other.parameters(), lr=0.1)
        for step in range(4):
            second.zero_grad()
            other(torch.ones(2, 3)).sum().backward()
            second.step()
            mine(torch.zeros(2, 3)).mul(0).sum().backward()
            optimizer.step()
    """)
    compared = [
        event.at.line for event in result.tape.events if getattr(event, "name", "").startswith("backward-compared:")
    ]
    assert compared == [9]


TWO_LOOPS = """
    import torch
    from torch import nn

    model = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(7):
        optimizer.zero_grad()
        model(torch.randn(5, 3)).pow(2).mean().backward()
        optimizer.step()
        model(torch.randn(5, 3)).abs().mean().backward()
    for step in range(3):
        model(torch.randn(5, 3)).pow(2).mean().backward()
        optimizer.step()
"""


def test_steps_of_one_loop_refute_nothing_about_the_next(record: Callable[..., RunResult], tmp_path: Path) -> None:
    text = textwrap.dedent(TWO_LOOPS).lstrip()
    found = [one for one in check(from_text(text, "script.py")).findings if one.code == "TAPE403"]
    watch = {(str(tmp_path / "script.py"), one.span.line) for one in found}
    judged = judge(found, record(text, watch=watch).tape, directory=str(tmp_path))
    (mine,) = (one for one in judged if one.code == "TAPE403" and one.span.line == 10)
    assert mine.evidence is None or mine.evidence.verdict == "confirmed"


AVERAGED = """\
import copy
import torch
net = torch.nn.Linear(3, 1)
average = copy.deepcopy(net)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for epoch in range(2):
    for step in range(6):
        loss = net(torch.randn(8, 3)).pow(2).mean()
        optimizer.zero_grad()
        {backward}
        optimizer.step()
        if step < 3:
            average.load_state_dict(net.state_dict())
            continue
        for mine, other in zip(average.parameters(), net.parameters()):
            mine.mul_(0.9).add_(other.data)
"""


@pytest.mark.parametrize(
    ("backward", "when", "index"),
    [
        ("loss.backward()", "raised in iteration 4 of the loop on line 7: ", 4),
        ("loss.detach()", "raised in iteration 1 of the loop on line 15: ", 1),
    ],
    ids=["in-a-loop-that-trains", "in-none"],
)
def test_the_iteration_of_an_exception_is_that_of_the_loop_that_trains(
    record: Callable[..., RunResult], tmp_path: Path, backward: str, when: str, index: int
) -> None:
    result = record(AVERAGED.format(backward=backward), watch={(str(tmp_path / "script.py"), 16)})
    (finding,) = [one for one in judge([], result.tape, directory=str(tmp_path)) if one.code == "TAPE104"]
    assert finding.evidence is not None and finding.evidence.detail.startswith(when), finding.evidence
    assert finding.evidence.iteration == index


OF_A_MODULE = """
    import torch
    from torch import nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(3, 3)
            self.scale = torch.ones(3, requires_grad=True)

        def forward(self, x):
            return self.fc(x) * self.scale

    net = Net()
    optimizer = torch.optim.SGD([{given}*net.parameters()], lr=0.1)
    for step in range(5):
        loss = net(torch.randn(4, 3)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward({inputs})
        optimizer.step()
        {after}
"""


@pytest.mark.parametrize(
    ("given", "inputs", "after", "expected"),
    [
        ("", "", "", "confirmed"),
        ("net.scale, ", "", "", ""),
        ("", "inputs=list(net.parameters())", "", ""),
        ("", "", "net.scale.data.mul_(0.9)", ""),
    ],
    ids=["left out", "stepped", "never given a gradient", "changed by hand"],
)
def test_a_leaf_that_is_no_parameter_is_seen_without_reading_its_gradient(
    record: Callable[..., RunResult], tmp_path: Path, given: str, inputs: str, after: str, expected: str
) -> None:
    plain = textwrap.dedent(OF_A_MODULE).lstrip()
    (finding,) = [
        one for one in check(from_text(plain.format(given="", inputs="", after=""), "script.py")).findings
        if one.code == "TAPE405"
    ]  # fmt: skip
    watch = {(str(tmp_path / "script.py"), finding.span.line)}
    tape = record(plain.format(given=given, inputs=inputs, after=after), watch=watch).tape
    (judged,) = [one for one in judge([finding], tape, directory=str(tmp_path)) if one.code == "TAPE405"]
    assert (judged.evidence.verdict if judged.evidence is not None else "") == expected


STEPPED_TWICE = """
    import torch
    from torch import nn

    common, local = nn.Linear(4, 2), nn.Linear(4, 2)
    first = torch.optim.SGD(common.parameters(), lr=0.1)
    second = torch.optim.SGD(common.parameters(), lr=0.01, weight_decay=0.1)
    for step in range(4):
        local.load_state_dict(common.state_dict())
        local.zero_grad()
        local(torch.randn(8, 4)).pow(2).mean().backward()
        for mine, shared in zip(local.parameters(), common.parameters()):
            if shared.grad is None:
                shared.grad = mine.grad
        first.step()
        second.step()
        {cleared}
"""


@pytest.mark.parametrize(("cleared", "again"), [("common.zero_grad()", set()), ("pass", {3})])
def test_two_optimizers_step_with_the_same_gradient(
    record: Callable[..., RunResult], cleared: str, again: set[int]
) -> None:
    events = record(STEPPED_TWICE.format(cleared=cleared)).tape.events
    found = [event for event in events if getattr(event, "name", "").startswith("gradient-again")]
    assert {event.value for event in found} == again


FAILS = """
    import torch
    from torch import nn

    model, head = nn.Linear(3, 3), nn.Linear(3, 1)
    optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
    for step in range(5):
        x = model(torch.randn(5, 3)).tanh()
        loss = head(x).pow(2).mean()
        if step < {failing}:
            x.mul_(2)
        try:
            loss.backward()
        except RuntimeError:
            pass
        optimizer.zero_grad()
        optimizer.step()
"""


@pytest.mark.parametrize(("failing", "told"), [(0, True), (1, True), (5, False)])
def test_a_backward_that_fails_once_is_no_excuse_for_the_others(
    record: Callable[..., RunResult], failing: int, told: bool
) -> None:
    found = judge([], record(FAILS.format(failing=failing)).tape)
    assert ("TAPE404" in {finding.code for finding in found}) == told


CLIPPED = """
    import torch
    from torch import nn

    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for step in range(8):
        loss = model(torch.randn(5, 3)).pow(2).mean()
        optimizer.zero_grad({none})
        loss.backward()
        {first}
        {second}
"""


@pytest.mark.parametrize("none", ["", "set_to_none=False"])
@pytest.mark.parametrize(
    "clip",
    [
        "nn.utils.clip_grad_norm_(model.parameters(), 1.0)",
        "nn.utils.clip_grad_value_(model.parameters(), 0.1)",
        "for parameter in model.parameters(): nn.utils.clip_grad_norm_([parameter], 1.0)",
    ],
)
def test_a_clip_that_no_step_uses_is_confirmed_and_one_that_a_step_uses_refuted(
    record: Callable[..., RunResult], clip: str, none: str, tmp_path: Path
) -> None:
    late = CLIPPED.format(first="optimizer.step()", second=clip, none=none)
    (found,) = check(from_text(textwrap.dedent(late).lstrip("\n"), str(tmp_path / "script.py"))).findings
    assert (found.code, found.span.line) == ("TAPE404", 11)
    (judged,) = judge([found], record(late, watch={(found.span.file, 11)}).tape)
    assert judged.evidence is not None and judged.evidence.verdict == "confirmed"
    assert judged.evidence.measured["calls"] == 7

    in_time = CLIPPED.format(first=clip, second="optimizer.step()", none=none)
    moved = dataclasses.replace(found, span=dataclasses.replace(found.span, line=10, end_line=10))
    (judged,) = judge([moved], record(in_time, watch={(found.span.file, 10)}).tape)
    assert judged.evidence is not None and judged.evidence.verdict == "refuted"


def test_watched_lines_that_change_no_gradient_change_no_verdict(
    record: Callable[..., RunResult], tmp_path: Path
) -> None:
    program = textwrap.dedent(PROGRAM.format(before="optimizer.zero_grad()", after="done = step")).lstrip("\n")
    rows = {(str(tmp_path / "script.py"), row) for row in range(1, 12)}
    events = [getattr(event, "name", "") for event in record(program, watch=rows).tape.events]
    assert not [name for name in events if name.startswith("gradient-discarded")]
    assert events.count("gradients-used") == 1


MANY_BATCHES = """
    import torch
    from torch import nn

    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(3 * {calls}):
        loss = model(torch.randn(5, 3)).pow(2).mean() / {calls}
        loss.backward()
        if step % {calls} == {calls} - 1:
            optimizer.step()
            {clear}
"""
MANY_EVALUATIONS = """
    import torch
    from torch import nn

    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    x = torch.randn(5, 3)
    optimizer = torch.optim.LBFGS(
        model.parameters(), lr=0.1, max_iter={calls}, tolerance_grad=0.0, tolerance_change=0.0
    )

    def closure():
        {clear}
        loss = (model(x) - 1).pow(2).mean()
        loss.backward()
        return loss

    for step in range(3):
        optimizer.step(closure)
"""


@pytest.mark.parametrize("calls", [5, 6, 9, 30])
@pytest.mark.parametrize("program", [MANY_BATCHES, MANY_EVALUATIONS])
@pytest.mark.parametrize("clear", ["", "optimizer.zero_grad()"])
def test_however_many_calls_come_before_the_second_step(
    record: Callable[..., RunResult], program: str, calls: int, clear: str
) -> None:
    result = record(program.format(calls=calls, clear=clear or "pass"))
    codes = {finding.code for finding in judge([], result.tape)}
    assert codes == (set() if clear else {"TAPE403"})


def test_calls_pass_where_an_optimizer_never_steps_again(record: Callable[..., RunResult]) -> None:
    """What waits for a second step ends after some calls."""
    program = MANY_BATCHES.format(calls=200, clear="optimizer = torch.optim.SGD(model.parameters(), lr=0.01)")
    written = [event for event in record(program).tape.events if type(event).__name__ == "Backward"]
    assert len(written) < 400


ZEROS_BESIDE = """
    import torch
    from torch import nn

    model, other = nn.Linear(4, 1), nn.Linear(4, 1)
    optimizer = torch.optim.SGD({stepped}.parameters(), lr=0.1)
    for step in range(6):
        x = torch.randn(5, 4)
        trained = model(x).pow(2).mean()
        zeros = ({of}(x) * 0).sum()
        {first}
        {second}
        optimizer.step()
"""
BACKWARD = ["zeros.backward()", "trained.backward()"]


@pytest.mark.parametrize("order", [BACKWARD, BACKWARD[::-1]], ids=["before", "after"])
def test_zeros_that_are_added_beside_are_told_at_one_line(
    record: Callable[..., RunResult], tmp_path: Path, order: list[str]
) -> None:
    text = textwrap.dedent(ZEROS_BESIDE.format(stepped="model", of="model", first=order[0], second=order[1])).lstrip(
        "\n"
    )
    script = str(tmp_path / "script.py")
    found = [one for one in check(from_text(text, script)).findings if one.code == "TAPE403"]
    judged = judge(found, record(text).tape, directory=str(tmp_path))
    (finding,) = [one for one in judged if one.code == "TAPE403"]
    assert finding.evidence is not None and finding.evidence.verdict == "confirmed", finding


def test_zeros_for_another_model_tell_nothing_of_this_one(record: Callable[..., RunResult], tmp_path: Path) -> None:
    fields = {"stepped": "other", "of": "other", "first": BACKWARD[1], "second": BACKWARD[0]}
    text = textwrap.dedent(ZEROS_BESIDE.format(**fields)).lstrip("\n")
    script = str(tmp_path / "script.py")
    judged = judge(check(from_text(text, script)).findings, record(text).tape, directory=str(tmp_path))
    confirmed = [one for one in judged if one.evidence is not None and one.evidence.verdict == "confirmed"]
    assert not [one for one in confirmed if one.code == "TAPE403"], confirmed
