"""Backward calls that look like those before them pass without a word on the tape, until one of them matters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tapecheck.record import RunResult, judge
from tapecheck.record.probe import graph
from tapecheck.record.probe.passed import Passed
from tapecheck.rules.finding import Evidence, Finding
from tapecheck.tape import Backward, Hold, Leaf, Measure, Node, Raised, Span

Record = Callable[..., RunResult]

START = """
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
losses = []
for step in range(60):
    loss = model(torch.randn(5, 4)).pow(2).mean()
"""
BUILT = 9
END = """
    optimizer.step()
    optimizer.zero_grad()
"""


def backwards(result: RunResult) -> list[Backward]:
    return [event for event in result.tape.events if isinstance(event, Backward)]


def test_most_calls_of_a_long_loop_leave_nothing(record: Record) -> None:
    result = record(START + "    loss.backward()" + END)
    assert (result.how_ended, result.iterations, result.backwards) == ("finished", 60, 60)
    written = backwards(result)
    assert [call.id for call in written[:8]] == list(range(1, 9)) and len(written) < 20
    assert sum(isinstance(event, Node) for event in result.tape.events) == 7 * len(written)
    assert judge([], result.tape) == []


def test_losses_that_are_kept_get_no_blocks_of_memory(record: Record) -> None:
    # Since the 55th iteration no holder was looked for. Asking for `metadata` makes it: that is done at the end.
    end = "    losses.append(loss)\nprint(sum(bool(one.grad_fn.metadata) for one in losses[-5:]))\n"
    for call in ("loss.backward()", "loss.backward(torch.ones(()))"):
        result = record(START + "    " + call + END + end)
        assert result.how_ended == "finished" and int(result.stdout) <= 1, result.stdout
        kept = {event.holder for event in result.tape.events if isinstance(event, Hold)}
        assert kept == {"losses"}


def test_a_late_second_backward_is_told_like_an_early_one(record: Record) -> None:
    result = record(START + "    loss.backward()\n    if step == 40:\n        kept.backward()\n    kept = loss" + END)
    (raised,) = [event for event in result.tape.events if isinstance(event, Raised)]
    assert raised.at.iteration[-1][1] == 41
    (finding,) = judge([], result.tape)
    assert (finding.code, finding.span.line) == ("TAPE101", BUILT + 3)
    assert finding.evidence is not None and finding.evidence.iteration == 41
    told = f"was built on line {BUILT} in iteration 40 and freed by the call on line {BUILT + 1}"
    assert told in finding.evidence.detail


def test_a_change_in_place_that_comes_late_names_its_line(record: Record) -> None:
    late = "    if step == 44:\n        with torch.no_grad():\n            model[2].weight.mul_(2)\n    loss.backward()"
    result = record(START + late + END)
    (finding,) = judge([], result.tape)
    assert (finding.code, finding.span.line) == ("TAPE102", BUILT + 4)
    assert finding.evidence is not None and f"what it saved was changed on line {BUILT + 3}" in finding.evidence.detail
    # The failing call itself was let pass before it was known to fail: a step of the optimizer did not come between.
    assert backwards(result)[-1].id == 45


def test_a_graph_that_is_needed_once_in_a_while_is_needed(record: Record) -> None:
    again = "    loss.backward(retain_graph=True)\n    losses.append(loss)\n    if step == 50:\n"
    stepless = "        losses[-2].backward()\n    model.zero_grad()\n    del losses[:-2]\n"
    result = record(START + again + stepless)
    assert result.how_ended == "finished" and result.backwards == 61
    span = Span(backwards(result)[0].at.file, BUILT + 1, 5, BUILT + 1, 38)
    claim = Finding("TAPE301", "needless-retain-graph", "info", span, "needless", "help")
    (judged, *_) = judge([claim], result.tape)
    assert isinstance(judged.evidence, Evidence) and judged.evidence.verdict == "refuted"
    assert f"the call on line {BUILT + 4} walked" in judged.evidence.detail
    (passed,) = [event for event in backwards(result) if event.id == 50]
    assert passed.succeeded and passed.retain_argument == "yes", "it was let pass and is told once it matters"


def test_parts_of_a_call_that_passed_become_needed_one_after_the_other(record: Record) -> None:
    program = """
import torch
a = torch.ones(3, requires_grad=True)
b = torch.full((3,), 0.5, requires_grad=True)
for step in range(12):
    h = a + 1
    scaled = (2 * h).sum()
    both = (h * b).exp().sum()
    scaled.backward(retain_graph=True)
    both.backward()
    if step > 9:
        both = (h * b).exp().sum()
        both.backward()
        scaled.backward()
"""
    result = record(program)
    assert result.how_ended == "finished" and result.backwards == 28
    needless = [finding.span.line for finding in judge([], result.tape) if finding.code == "TAPE301"]
    assert needless == [], "without the flag of line 9 the last line raises"
    parts = [event for event in backwards(result) if event.succeeded]
    assert len(parts) > len({event.id for event in parts}), "one call was told twice, a part at a time"


def test_of_several_retaining_calls_each_is_needed_by_what_comes_later(record: Record) -> None:
    program = """
import torch
a = torch.ones(3, requires_grad=True)
for step in range(30):
    loss = (a * 2).sum()
    loss.backward(retain_graph=True)
    loss.backward(retain_graph=True)
    if step == 28:
        loss.backward()
"""
    result = record(program)
    assert result.how_ended == "finished" and result.backwards == 61
    assert judge([], result.tape) == [], "without the flag of line 7 the last line raises"


def test_what_is_kept_from_calls_that_passed_is_found(record: Record) -> None:
    result = record(START + "    loss.backward()\n    losses.append(loss)" + END)
    (finding,) = judge([], result.tape)
    assert (finding.code, finding.span.line) == ("TAPE201", BUILT + 2)
    assert finding.evidence is not None and finding.evidence.measured["nodes"][-1] >= 7 * 21
    assert any(isinstance(event, Measure) and event.name == "passed-calls" for event in result.tape.events)


def test_a_step_that_was_let_pass_is_named_when_it_made_a_graph_stale(record: Record) -> None:
    stale = "    if step == 44:\n        late = model(torch.randn(5, 4)).mean()\n    loss.backward()"
    result = record(START + stale + END + "    if step == 44:\n        late.backward()\n")
    (finding,) = judge([], result.tape)
    assert (finding.code, finding.span.line) == ("TAPE102", BUILT + 7)
    assert finding.evidence is not None and f"what it saved was changed on line {BUILT + 4}" in finding.evidence.detail


def test_parameters_that_a_step_leaves_alone_are_not_said_to_be_changed(record: Record) -> None:
    # Steps pass without a look by then; this one leaves the last layer alone, which a statement changes.
    frozen = """
    loss.backward()
    if step == 48:
        model[2].requires_grad_(False).weight.grad = None
        model[2].bias.grad = None
        late = model(torch.randn(5, 4)).mean()
        optimizer.step()
        other = model(torch.randn(5, 4)).mean()
        with torch.no_grad():
            model[2].weight.mul_(2)
        late.backward()
    optimizer.step()
    optimizer.zero_grad()
"""
    result = record(START + frozen)
    (finding,) = judge([], result.tape)
    assert (finding.code, finding.span.line) == ("TAPE102", BUILT + 11)
    assert finding.evidence is not None and f"what it saved was changed on line {BUILT + 10}" in finding.evidence.detail


RAISING_STEP = """
    loss.backward()
    if step == 40:
        optimizer.param_groups[0]["lr"] = "much"
        try:
            optimizer.step()
        except TypeError:
            optimizer.param_groups[0]["lr"] = 0.01
        kept = model(torch.randn(5, 4)).exp().sum()
    else:
        optimizer.step()
    optimizer.zero_grad()
    if step == 42:
        kept.backward()
        kept.backward()
"""


def test_lines_that_run_after_a_step_that_raised_are_not_taken_for_others(record: Record) -> None:
    result = record(START + RAISING_STEP)
    (finding,) = [finding for finding in judge([], result.tape) if finding.severity == "error"]
    assert finding.span.line in (BUILT + 13, BUILT + 14)
    assert finding.evidence is not None and finding.evidence.iteration == 43 and result.iterations == 43
    built = {event.at.span.line for event in result.tape.events if isinstance(event, Node)}
    assert built <= {BUILT, BUILT + 9, 1}, "line 1 stands for what is not known"


HOOKED_STEP = """
import torch
w = torch.ones(3, requires_grad=True)
optimizer = torch.optim.SGD([w], lr=0.01)
kept = []
def keep(optimizer, args, words):
    kept.append((w * 2).exp().sum())
optimizer.register_step_post_hook(keep)
for step in range(30):
    loss = w.exp().sum()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def test_what_the_hooks_of_an_optimizer_build_is_theirs(record: Record) -> None:
    result = record(HOOKED_STEP)
    (finding,) = [finding for finding in judge([], result.tape) if finding.code == "TAPE201"]
    assert finding.span.line == 6


def test_where_retained_graphs_are_kept_a_call_does_not_look_at_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else every call of a loop that keeps them would cost more than the one before it."""
    import torch

    reader, looked = graph.Reader(torch, 1000), [0]
    count = graph._references

    def counting(marks: list[Any]) -> list[int]:
        looked[0] += len(marks)
        return count(marks)

    monkeypatch.setattr(graph, "_references", counting)
    refer: list[dict[str, Any]] = []
    for number in range(2000):
        mark = Passed(number, None, (), (None, 0, 0), True, False, True)
        reader._keep(mark)
        # A node of its graph, which lives as long as the program keeps it.
        refer.append({"mark": mark})
        del mark, refer[: max(0, len(refer) - 500)]
        assert reader.retains()
    assert looked[0] < 2000 * 30
    assert 500 <= len(reader.retaining) <= 520, "those whose graphs went are forgotten"
    refer.clear()
    assert not reader.retains() and not reader.retaining


CARRIED = """
import torch
from torch import nn

torch.manual_seed(0)
cell = nn.Linear(4, 4)
optimizer = torch.optim.SGD(cell.parameters(), lr=0.01)
state = torch.zeros(5, 4)
for step in range(80):
    state = torch.tanh(cell(state) + torch.randn(5, 4))
    loss = state.pow(2).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if step != 66:
        state = state.detach()
"""


def test_a_call_that_failed_is_counted_once_and_freed_nothing_that_was_free(record: Record) -> None:
    # It was let pass before it was known to fail, as were those before it.
    result = record(CARRIED)
    (finding,) = judge([], result.tape)
    assert (finding.code, finding.span.line, result.backwards) == ("TAPE101", 11, 68)
    assert finding.evidence is not None and finding.evidence.iteration == 68
    assert "in iteration 67 and freed by the call on line 11" in finding.evidence.detail


REPLAYED = """
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
losses = []
for step in range(60):
    losses.append(model(torch.randn(5, 4)).pow(2).mean())
    # One of those after which calls passed whose graphs were looked at.
    loss = losses[step - CHOSEN] if step == 57 else losses[-1]
    try:
        loss.backward()
    except RuntimeError:
        print("caught")
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.mark.parametrize("back", [9, 40])
def test_a_call_that_failed_is_not_taken_for_the_one_that_freed(record: Record, back: int) -> None:
    result = record(REPLAYED.replace("CHOSEN", str(back)))
    (raised,) = [event for event in result.tape.events if isinstance(event, Raised)]
    assert (raised.backward, raised.at.iteration[-1][1], result.backwards) == (58, 58, 60)


CHANGED_BY_HAND = """
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1, bias=False))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(60):
    loss = model(torch.randn(5, 4)).pow(2).mean()
    loss.backward()
    if step == 48:
        model[2].requires_grad_(False).weight.grad = None
        late = model(torch.randn(5, 4)).mean()
        optimizer.step()
        other = model(torch.randn(5, 4)).mean()
        with torch.no_grad():
            model[2].weight.mul_(2)
        late.backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def test_a_change_by_hand_does_not_stand_in_for_a_step_that_changed_nothing(record: Record) -> None:
    (finding,) = judge([], record(CHANGED_BY_HAND).tape)
    assert (finding.code, finding.span.line) == ("TAPE102", 17)
    assert finding.evidence is not None and "what it saved was changed on line 16" in finding.evidence.detail


CLIPPED = """
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 1, bias=False)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x = torch.randn(5, 4, requires_grad=True)
for step in range(60):
    loss = model(x).pow(2).mean()
    if step == 50:
        late = model(x).mean()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        model.weight.clamp_(-1, 1)
    if step == 50:
        late.backward()
"""


def test_a_step_that_was_let_pass_comes_before_the_statement_after_it(record: Record) -> None:
    # Nothing clears the gradients, which the run finds as well.
    finding = next(one for one in judge([], record(CLIPPED).tape) if one.code == "TAPE102")
    assert (finding.code, finding.span.line) == ("TAPE102", 17)
    assert finding.evidence is not None and "what it saved was changed on line 13" in finding.evidence.detail


BROKEN_OFF = """
import torch

w = torch.ones(3, requires_grad=True)
for epoch in range(12):
    for i in range(20):
        if epoch % 3 == 2 and i == 7:
            break
        w.exp().sum().backward()
"""


def test_an_iteration_that_is_broken_off_before_anything_is_built_counts_as_any(record: Record) -> None:
    result = record(BROKEN_OFF)
    assert (result.iterations, result.backwards) == (8 * 20 + 4 * 8, 8 * 20 + 4 * 7)


INNER = """
import torch
from torch import nn

torch.manual_seed(0)
weights = [torch.randn(4, 4).requires_grad_() for _ in range(2)]
optimizer = torch.optim.SGD(weights, lr=0.01)

def adapted(x):
    fast = weights
    for _ in range(3):
        loss = (torch.tanh(x @ fast[0]) @ fast[1]).pow(2).mean()
        slopes = torch.autograd.grad(loss, fast, create_graph=True)
        fast = [w - 0.1 * g for w, g in zip(fast, slopes)]
    return fast

kept = None
for step in range(60):
    x = torch.randn(5, 4)
    fast = adapted(x)
    total = (torch.tanh(x @ fast[0]) @ fast[1]).pow(2).mean()
    optimizer.zero_grad()
"""
TAKEN, INNER_END = 12, 22


def test_gradients_with_a_graph_pass_as_long_as_they_are_alike(record: Record) -> None:
    result = record(INNER + "    total.backward()\n    optimizer.step()\n")
    assert (result.how_ended, result.iterations, result.backwards) == ("finished", 60, 240)
    assert len(backwards(result)) < 120
    (passed,) = [event for event in result.tape.events if isinstance(event, Measure) and event.name == "passed-calls"][
        -1:
    ]
    assert passed.value >= 120
    assert judge([], result.tape) == []


def test_a_gradient_with_a_graph_that_passed_is_told_with_what_it_was_taken_for(record: Record) -> None:
    late = "    if step == 50:\n        kept.backward()\n    kept = total\n"
    result = record(INNER + "    total.backward()\n    optimizer.step()\n" + late)
    (finding,) = judge([], result.tape)
    assert (finding.code, finding.span.line) == ("TAPE101", INNER_END + 3)
    assert finding.evidence is not None and finding.evidence.iteration == 51
    assert f"freed by the call on line {INNER_END}" in finding.evidence.detail
    # Those of the iteration before the one that failed: let pass, and written with what it came upon.
    written = [event for event in backwards(result) if event.call == "grad" and event.at.iteration[0][1] == 50]
    assert written and all(event.at.span.line == TAKEN and event.inputs and event.create == "yes" for event in written)
    walked = {node.id for node in result.tape.events if isinstance(node, Node)}
    for event in written:
        assert all(number in walked or number < min(walked) for number in event.inputs or ()), "each is on the tape"


PENALTY = """
import torch
from torch import nn

torch.manual_seed(0)
critic = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(critic.parameters(), lr=0.01)
kept = None
for step in range(60):
    real = torch.randn(5, 4).requires_grad_()
    (slope,) = torch.autograd.grad(critic(real).sum(), real, create_graph=True)
    loss = critic(real).mean() + (slope.norm(dim=1) - 1).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_gradients_for_inputs_that_are_made_anew_pass(record: Record) -> None:
    result = record(PENALTY)
    assert (result.how_ended, result.iterations, result.backwards) == ("finished", 60, 120)
    assert len(backwards(result)) < 60
    assert judge([], result.tape) == []


def test_such_a_gradient_is_told_with_its_input_once_it_matters(record: Record) -> None:
    result = record(PENALTY + "    if step == 50:\n        kept.backward()\n    kept = loss\n")
    (finding,) = judge([], result.tape)
    assert (finding.code, finding.evidence and finding.evidence.iteration) == ("TAPE101", 51)
    leaves = {event.id: event for event in result.tape.events if isinstance(event, Leaf)}
    (taken,) = [event for event in backwards(result) if event.call == "grad" and event.at.iteration[0][1] == 50]
    assert taken.inputs is not None and [leaves[number].parameter for number in taken.inputs] == [False]


def test_a_weight_that_a_graph_of_gradients_saved_is_changed_late(record: Record) -> None:
    late = "    if step == 44:\n        with torch.no_grad():\n            weights[1].mul_(2)\n    total.backward()\n"
    result = record(INNER + late + "    optimizer.step()\n")
    (finding,) = judge([], result.tape)
    assert (finding.code, finding.span.line) == ("TAPE102", INNER_END + 3)
    assert finding.evidence is not None
    assert f"what it saved was changed on line {INNER_END + 2}" in finding.evidence.detail


@pytest.mark.parametrize(
    ("made", "wanted", "between"),
    [
        ("h = w * 2; k = h.exp()", "h, k", True),
        ("h = w * 2; k = w.exp()", "h, k", False),
        ("h = w * 2", "h, w", True),
        ("h = w * 2", "w", False),
    ],
)
def test_a_call_goes_on_where_one_input_may_lead_to_another(made: str, wanted: str, between: bool) -> None:
    torch = pytest.importorskip("torch")
    space: dict[str, Any] = {"w": torch.ones(3, requires_grad=True)}
    exec(made, space)
    reader = graph.Reader(torch, 1000)
    ahead = reader.wanted([space["w"]])
    assert ahead is not None and reader.leaf(space["w"], []) == -min(ahead[0]), "no backward had come to it"
    found = reader.wanted(list(eval(f"({wanted},)", space)))
    assert found is not None
    numbers, ends = found
    assert len(numbers) == len(wanted.split(",")) and ends == (set() if between or wanted == "w" else numbers)
