"""Gradient accumulation whose number of batches is an option: what the default shows, and what torch makes of it."""

from __future__ import annotations

import pytest
import torch

from tapecheck.check import check
from tapecheck.rules.finding import Finding
from tapecheck.source import from_text

HEAD = """\
import argparse
import os
import torch
from torch import nn

{setting}
model = nn.Linear(6, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
batches = [(torch.randn(4, 6), torch.randint(0, 2, (4,))) for _ in range(12)]
"""
SETTINGS = {
    "literal": "every = 4",
    "option": 'parser = argparse.ArgumentParser()\nparser.add_argument("--n", type=int, default=4)\n'
    "every = parser.parse_args().n",
    "environment": 'every = int(os.environ.get("EVERY_FEW", "4"))',
    "computed": 'parser = argparse.ArgumentParser()\nparser.add_argument("--n", type=int, default=32)\n'
    "every = parser.parse_args().n // 8",
}
BACKWARD = """\
    loss = nn.functional.cross_entropy(model(x), y) / every
    loss.backward()  # here
"""
COUNTED = """\
for i, (x, y) in enumerate(batches):
    {before}
{backward}    {guard}
        optimizer.step()
        {within}
    {after}
"""
GUARDS = (
    "if (i + 1) % every == 0:",
    "if not (i + 1) % every:",
    "if i % every == every - 1:",
    "last = (i + 1) % every == 0\n    if last:",
    "if (i + 1) % every == 0 or i + 1 == len(batches):",
)


def program(setting: str, guard: str = GUARDS[0], *, before: str = "", within: str = "", after: str = "") -> str:
    loop = COUNTED.format(
        before=before or "pass", within=within or "pass", after=after or "pass", guard=guard, backward=BACKWARD
    )
    return HEAD.format(setting=SETTINGS[setting]) + loop


def found(text: str) -> list[Finding]:
    return check(from_text(text, "train.py")).findings


def used(text: str, monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """Return, for each step that torch makes, the backward calls whose gradients it uses."""
    calls, held, steps = 0, [], []
    backward, step, clear = torch.Tensor.backward, torch.optim.SGD.step, torch.optim.SGD.zero_grad

    def counted(self: torch.Tensor) -> None:
        nonlocal calls
        held.append(calls)
        calls += 1
        backward(self)

    def cleared(self: torch.optim.SGD) -> None:
        held.clear()
        clear(self)

    def stepped(self: torch.optim.SGD) -> None:
        steps.append([*held])
        step(self)

    monkeypatch.setattr("sys.argv", ["train.py"])
    monkeypatch.setattr(torch.Tensor, "backward", counted)
    monkeypatch.setattr(torch.optim.SGD, "zero_grad", cleared)
    monkeypatch.setattr(torch.optim.SGD, "step", stepped)
    exec(compile(text, "train.py", "exec"), {"__name__": "__main__"})
    return steps


CLEARED = "optimizer.zero_grad()"
FIRST = "if i % every == 0:\n        optimizer.zero_grad()"


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("guard", GUARDS)
def test_batches_that_are_cleared_before_their_step(setting: str, guard: str) -> None:
    text = program(setting, guard, before=CLEARED)
    (finding,) = found(text)
    assert (finding.code, finding.certain) == ("TAPE404", setting == "literal")
    assert "# here" in text.splitlines()[finding.span.line - 1]
    if setting != "literal":
        assert finding.message == "possible: the gradients of `loss.backward()` are cleared before any step"
        assert finding.notes[-1] == "by default: assumes that `every` is 4"


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("guard", GUARDS)
@pytest.mark.parametrize("clear", [{"within": CLEARED}, {"before": FIRST}], ids=["after the step", "before the first"])
def test_batches_that_come_together_in_their_step(setting: str, guard: str, clear: dict[str, str]) -> None:
    assert found(program(setting, guard, **clear)) == []


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("loader", [False, True])
def test_no_step_uses_what_is_cleared_a_batch_late(setting: str, loader: bool) -> None:
    text = program(setting, after=FIRST)
    if loader:
        data = "torch.utils.data.TensorDataset(torch.randn(48, 6), torch.randint(0, 2, (48,)))"
        text = text.replace("in enumerate(batches)", f"in enumerate(torch.utils.data.DataLoader({data}, batch_size=4))")
    assert found(text) == []


@pytest.mark.parametrize("guard", GUARDS)
def test_torch_steps_with_these_batches(guard: str, monkeypatch: pytest.MonkeyPatch) -> None:
    groups = [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]
    assert used(program("option", guard, before=CLEARED), monkeypatch) == [[3], [7], [11]]
    monkeypatch.undo()
    assert used(program("option", guard, within=CLEARED), monkeypatch) == groups
    monkeypatch.undo()
    assert used(program("option", guard, before=FIRST), monkeypatch) == groups
    monkeypatch.undo()
    assert used(program("option", after=FIRST), monkeypatch) == [[1, 2, 3], [5, 6, 7], [9, 10, 11]]


def test_an_option_that_is_one_by_default_says_nothing_of_more() -> None:
    """Each batch is stepped with: there is nothing to clear too early."""
    assert found(program("option", before=CLEARED).replace("default=4", "default=1")) == []


def test_what_other_values_show_as_well_stays_certain() -> None:
    """Nothing clears, whatever the option is."""
    (finding,) = found(program("option"))
    assert (finding.code, finding.certain) == ("TAPE403", True)


def test_an_option_that_an_earlier_condition_has_ruled_out_is_not_its_default() -> None:
    text = program("option", before=CLEARED).replace("model =", "if every > 1:\n    raise SystemExit\nmodel =", 1)
    assert found(text) == []


def test_a_counter_that_an_option_is_compared_with() -> None:
    text = program("option", "if count >= every:", before=f"{CLEARED}\n    count += 1", within="count = 0")
    (finding,) = found(text.replace("for i,", "count = 0\nfor i,"))
    assert (finding.code, finding.certain) == ("TAPE404", False)
    text = program("option", "if count >= every:", before="count += 1", within=f"count = 0\n        {CLEARED}")
    assert found(text.replace("for i,", "count = 0\nfor i,")) == []


def test_what_only_shows_something_takes_no_further_way() -> None:
    text = program("option", "if True:", before=CLEARED, after="if i % every == 0:\n        print(i)")
    tapes = check(from_text(text, "train.py")).interpretation.tapes
    assert [tape.by_default for tape in tapes] == [False]


def test_a_graph_that_an_unneeded_retain_keeps_is_no_matter_of_the_default() -> None:
    """With one batch for each step it is needed."""
    text = program("option", within=CLEARED).replace("loss.backward()", "loss.backward(retain_graph=True)", 1)
    again = text + "    if i % every == 0:\n        loss.backward()\n"
    assert all(one.code != "TAPE301" for one in found(again))


STORED = {
    "method": ("step, clear = optimizer.step, optimizer.zero_grad", "step()", "clear()"),
    "lambda": ("step, clear = lambda: optimizer.step(), lambda: optimizer.zero_grad()", "step()", "clear()"),
    "partial": ("import functools\nstep, clear = map(functools.partial, [optimizer.step, optimizer.zero_grad])",
                "step()", "clear()"),
    "list": ("every_one = [optimizer]", "[one.step() for one in every_one]", "for one in every_one: one.zero_grad()"),
    "dict": ('acts = {"step": optimizer.step, "clear": optimizer.zero_grad}', 'acts["step"]()', 'acts["clear"]()'),
    "object": ("class Trainer:\n    pass\nTrainer.step, Trainer.clear = optimizer.step, optimizer.zero_grad",
               "Trainer.step()", "Trainer.clear()"),
}  # fmt: skip


@pytest.mark.parametrize("stored", STORED)
def test_a_step_that_is_stored_under_another_name(stored: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store, step, clear = STORED[stored]

    def edited(text: str) -> str:
        return text.replace("optimizer.step()", step).replace("batches =", f"{store}\nbatches =")

    wrong, right = edited(program("literal", before=CLEARED)), edited(program("literal", within=clear))
    stale = edited(program("literal"))
    assert [(one.code, one.certain) for one in found(wrong)] == [("TAPE404", True)]
    assert [(one.code, one.certain) for one in found(stale)] == [("TAPE403", True)]
    assert found(right) == []
    assert used(wrong, monkeypatch) == [[3], [7], [11]]


def test_torch_uses_what_nothing_clears_again(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [len(batches) for batches in used(program("literal"), monkeypatch)] == [4, 8, 12]
