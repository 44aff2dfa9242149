"""Parameters that an optimizer steps in vain are told, where no finding tells of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest

from tapecheck.record import RunRequest, RunResult, confirm, judge
from tapecheck.record.untrained import untrained
from tests.cases.recorded import POSITIVE, record_all

PROGRAM = """
    import torch
    from torch import nn

    online, target = nn.Linear(3, 2), nn.Linear(3, 2)
    optimizer = torch.optim.Adam({given}.parameters())
    for step in range(4):
        with torch.no_grad():
            wanted = target(torch.randn(5, 3))
        loss = (online(torch.randn(5, 3)) - wanted).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


def test_an_optimizer_that_was_given_other_parameters(record: Callable[..., RunResult]) -> None:
    tape = record(PROGRAM.format(given="target")).tape
    said = untrained(tape)
    assert said == "`target.weight`, `target.bias` never had a gradient in 4 steps of an optimizer that has them"
    assert untrained(tape, {"target.weight", "target.bias"}) == ""
    early = dataclasses.replace(tape.events[-1], how="stopped")  # type: ignore[type-var]
    assert untrained(dataclasses.replace(tape, events=[*tape.events[:-1], early])) == ""


def test_nothing_is_said_where_all_are_trained(record: Callable[..., RunResult]) -> None:
    assert untrained(record(PROGRAM.format(given="online")).tape) == ""


HEAD = """
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

a, b = nn.Linear(4, 4), nn.Linear(4, 4)
both = [*a.parameters(), *b.parameters()]
"""
LOOP = """
for step in range(4):
    x = torch.randn(5, 4)
    loss = {loss}
    for optimizer in optimizers:
        optimizer.zero_grad()
    loss.backward()
    for optimizer in optimizers:
        optimizer.step()
"""
ONE = "optimizers = [torch.optim.SGD(both, lr=0.1)]\n"
FROZEN = "b.requires_grad_(False)\n"
HIDDEN = "getattr(b, 'requires' + '_grad_')(False)\n"
STARVED = {
    "a number": (ONE, "(a(x) * b(x).sum().item()).mean()"),
    "a value made anew": (ONE, "(a(x) * torch.tensor(b(x).tolist())).mean()"),
    "by numpy": (ONE, "(a(x) * torch.from_numpy(b(x).detach().numpy())).mean()"),
    "indices": (ONE, "a(x).gather(1, b(x).topk(2, dim=1).indices).mean()"),
    "detached for both": (
        "optimizers = [torch.optim.SGD(a.parameters(), lr=0.1), torch.optim.SGD(b.parameters(), lr=0.1)]\n",
        "a(b(x).detach()).mean()",
    ),
    "a frozen group": (
        FROZEN + "optimizers = [torch.optim.SGD([{'params': a.parameters()}, {'params': b.parameters()}], lr=0.1)]\n",
        "(a(x) + b(x)).mean()",
    ),
    "an optimizer for what is frozen, by a name worked out": (
        HIDDEN + "optimizers = [torch.optim.SGD(m.parameters(), lr=0.1) for m in (a, b)]\n", "(a(x) + b(x)).mean()",
    ),
    "replaced": (ONE + "b = nn.Linear(4, 4)\n", "(a(x) + b(x)).mean()"),
    "the wrong module": ("optimizers = [torch.optim.SGD(b.parameters(), lr=0.1)]\n", "a(x).mean()"),
    "in no loss, made where nobody reads": (
        "exec('optimizers = [torch.optim.SGD(both, lr=0.1)]')\n", "a(x).mean()",
    ),
    "a reentrant checkpoint": (ONE, "a(checkpoint(b, x, use_reentrant=True)).mean()"),
    "under no_grad": (ONE + "features = torch.no_grad()(b.forward)\n", "a(features(x)).mean()"),
}  # fmt: skip
FED = {
    "both are trained": (ONE, "(a(x) + b(x)).mean()"),
    "every other time": (ONE, "(a(x) + (b(x) if step % 2 else 0)).mean()"),
    "frozen at first": (ONE, "(a(x) + b.requires_grad_(step > 1)(x)).mean()"),
    "given a gradient by hand": (
        ("master = a.weight.detach().clone()\n"
        "a.weight.register_hook(lambda grad: setattr(master, 'grad', grad))\n"
        "optimizers = [torch.optim.SGD(each, lr=0.1) for each in (both, [master])]\n"),
        "(a(x) + b(x)).mean()",
    ),
    "a frozen layer among those that were given": (ONE + "b.bias.requires_grad_(False)\n", "(a(x) + b(x)).mean()"),
}  # fmt: skip


BY_CLOSURE = (
    HEAD
    + """
optimizer = torch.optim.LBFGS(both, lr=0.1, max_iter=2)
for step in range(4):
    x = torch.randn(5, 4)
    optimizer.zero_grad()

    def closure():
        loss = (a(x) + b(x)).pow(2).mean()
        loss.backward()
        return loss

    optimizer.step(closure)
"""
)
CLEARED_IN_PLACE = (
    HEAD
    + """
first, second = torch.optim.SGD(a.parameters(), lr=0.1), torch.optim.SGD(b.parameters(), lr=0.1)
for step in range(4):
    y = a(torch.randn(5, 4))
    second.zero_grad(set_to_none=False)
    b(y.detach()).pow(2).mean().backward()
    second.step()
    first.zero_grad(set_to_none=False)
    b(a(torch.randn(5, 4))).mean().backward()
    first.step()
"""
)


def test_gradients_of_a_closure_and_such_as_are_zeroed(tmp_path: Path) -> None:
    files = [tmp_path / "closure.py", tmp_path / "zeroed.py"]
    for file, text in zip(files, (BY_CLOSURE, CLEARED_IN_PLACE), strict=True):
        file.write_text(text)
    said = [{one.code for one in item.findings} for item in record_all(files, alone=True)]
    assert "TAPE402" not in said[0]
    assert said[1] == set()


def _said(folder: Path, programs: dict[str, tuple[str, str]]) -> dict[tuple[str, bool], list[str]]:
    """Return what runs confirm or find of TAPE402 and TAPE406, with what a run says beside its findings."""
    files = []
    for number, (setup, loss) in enumerate(programs.values()):
        files.append(folder / f"p{number}.py")
        files[-1].write_text(HEAD + setup + LOOP.format(loss=loss))
    return {
        name: [
            finding.message for finding in item.findings
            if finding.code in ("TAPE402", "TAPE406") and finding.evidence is not None
            and finding.evidence.verdict in POSITIVE
        ]
        for alone in (False, True)
        for name, item in zip(((each, alone) for each in programs), record_all(files, alone=alone), strict=True)
    }  # fmt: skip


def test_no_run_is_quiet_of_parameters_that_never_had_a_gradient(tmp_path: Path) -> None:
    said = _said(tmp_path, STARVED)
    assert [name for name, messages in said.items() if not messages] == []


def test_a_run_is_quiet_of_parameters_that_had_one(tmp_path: Path) -> None:
    said = _said(tmp_path, FED)
    assert {name: messages for name, messages in said.items() if messages} == {}


BY_HAND = (
    HEAD
    + """
for step in range(4):
    (checkpoint(b, torch.randn(5, 4{given}), use_reentrant=True) + a(torch.randn(5, 4))).mean().backward()
    with torch.no_grad():
        for p in both:
            if p.grad is not None:
                p -= 0.1 * p.grad
                p.grad = None
"""
)


def test_a_checkpoint_without_an_optimizer_is_judged_by_its_node(tmp_path: Path) -> None:
    lost, kept = tmp_path / "p.py", tmp_path / "q.py"
    lost.write_text(BY_HAND.format(given=""))
    kept.write_text(BY_HAND.format(given=", requires_grad=True"))
    (item,) = record_all([lost])
    (finding,) = [one for one in item.findings if one.code == "TAPE406"]
    assert finding.evidence is not None
    assert finding.evidence.verdict == "confirmed"
    assert finding.evidence.detail == "the checkpoint was called 4 times and recorded no graph"
    # The same said of a program whose checkpoint does record a graph.
    elsewhere = dataclasses.replace(
        finding, span=dataclasses.replace(finding.span, file=str(kept)), labels=(), evidence=None
    )
    _, judged = confirm(str(kept), RunRequest(str(kept), cwd=str(tmp_path)), [elsewhere])
    (said,) = [one for one in judged if one.code == "TAPE406"]
    assert said.evidence is None


NAMED = """
    import torch
    from torch import nn

    class Nets:
        def __init__(self):
            self.layers = [nn.Linear(3, 3), {{"out": nn.Linear(3, 1)}}]

    def made():
        nets = Nets()
        return nets, torch.optim.SGD([*nets.layers[0].parameters(), *nets.layers[1]["out"].parameters()], lr=0.1)

    nets, optimizer = made()
    for step in range(3):
        loss = nets.layers[0](torch.randn(4, 3)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        {after}
"""


def test_what_containers_of_objects_have_is_named(record: Callable[..., RunResult]) -> None:
    tape = record(NAMED.format(after="")).tape
    assert untrained(tape).startswith(
        "`nets.layers[1]['out'].weight`, `nets.layers[1]['out'].bias` never had a gradient"
    )


@pytest.mark.parametrize("frozen", ["", "; nets.layers[0].bias.requires_grad_(False)"])
def test_what_nothing_leads_to_is_named_by_its_optimizer(record: Callable[..., RunResult], frozen: str) -> None:
    # The first backward looks for names, too.
    gone = NAMED.replace("optimizer = made()", f"optimizer = made(){frozen}")
    gone = gone.replace("loss = nets", "nets.layers = nets.layers[:1]\n        loss = nets").format(after="")
    (finding,) = [one for one in judge([], record(gone).tape) if one.code == "TAPE402"]
    assert finding.message.startswith("`SGD parameter 2` and 1 more never received")


REPLACED = """
    import torch
    from torch import nn

    judge = nn.Linear(5, 1)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    wide = [p for p in model.parameters() if p.ndim > 1]
    rest = [p for p in model.parameters() if p.ndim <= 1]
    optimizer = torch.optim.AdamW([{{"params": wide, "weight_decay": 0.1}}, {{"params": rest}}])
    model[2] = nn.Linear(8, 5)
    for step in range(3):
        optimizer.zero_grad()
        loss = {loss}.pow(2).mean()
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize("loss", ["model(torch.randn(2, 4))", "judge(model(torch.randn(2, 4)))"])
def test_what_was_replaced_is_told_with_what_stands_in_its_place(record: Callable[..., RunResult], loss: str) -> None:
    (finding,) = [one for one in judge([], record(REPLACED.format(loss=loss)).tape) if one.code == "TAPE402"]
    told = finding.notes[-1]
    if "judge" in loss:
        # Which of the four are in the place of the two is not to be seen.
        assert "replaced parameter" in told
    else:
        assert told == "`model.2.bias`, `model.2.weight` got gradients, and no optimizer has them"
        assert "once the model is complete" in finding.help
