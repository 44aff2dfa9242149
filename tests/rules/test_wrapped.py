"""TAPE601 to TAPE607 against what torch does with two processes, compiled, checkpointed and under hooks."""

from __future__ import annotations

import json

import pytest

from tapecheck.check import check
from tapecheck.source import from_text
from tools.docs.wrappers import OUTCOMES
from tools.torchlab.framework_programs import ACCELERATE, FABRIC, Prepared
from tools.torchlab.recomputed_programs import CHECKPOINT, OFFLOAD, checkpoint_program, offload_program
from tools.torchlab.sharded_programs import FSDP, TENSOR, Sharded
from tools.torchlab.wrapper_programs import COMPILE, DDP, OPTIONS, Question, compiled_program

_TABLES = json.loads(OUTCOMES.read_bytes())
MEASURED = _TABLES["2.13.0"]
CODES = {
    "right": None,
    "gradients differ": "TAPE601",
    "Expected to have finished reduction": "TAPE602",
    "Trying to backward through the graph a second time": "TAPE603",
    "torch.compile with aot_autograd does not currently support double backward": "TAPE604",
    "Expected to mark a variable ready only once": "TAPE605",
    "one of the variables needed for gradient computation": "TAPE102",
    "When use_reentrant=True, torch.utils.checkpoint is incompatible": "TAPE606",
    "a leaf Variable that requires grad": "TAPE607",
    "This backward function was compiled with non-empty donated buffers": "TAPE611",
    "setStorage": "TAPE608",
    "The differentiated Tensor at index 0 appears": "TAPE608",
    "aten.addmm.default got mixed": "TAPE608",
    "aten.mm.default got mixed": "TAPE608",
    "FSDP state has already been lazily": "TAPE608",
    # What raises is the iteration after the one whose gradients differ.
    "Encountered gradient which is undefined": "TAPE601",
    "right, and raises without": None,
}
UNKNOWN = {
    # Option, title: the wrapper makes one node of the outputs, or asserts something of its own.
    ("find_unused_parameters=True", "a loss for each output, walked apart"),
    ("static_graph=True", "a loss for each output, walked apart"),
    ("static_graph=True", "step of `model.module`, then a wrapped one"),
    ("static_graph=True", "a gradient penalty beside the loss"),
    ("static_graph=True", "an output that the loss does not use"),
    ("static_graph=True", "a forward and backward for each part"),
    ("static_graph=True", "`no_sync` for all but the last"),
    ("static_graph=True", "`backward(create_graph=True)` under `no_sync`, then one without"),
    ("static_graph=True", "a forward for each head, then a backward of each"),
    # What functorch's transforms refuse, and gradients that they give for parameters.
    *((options, "`torch.func.grad` of the wrapper, its gradients set by hand") for options in OPTIONS),
    *((options, "`vmap` of the wrapper") for options in OPTIONS[1:3]),
}
"""What is missed: nothing is reported of these, though they do not end right."""


def expected(outcome: str) -> set[str]:
    """Return the codes of the rules that a measured outcome calls for."""
    found = next((code for start, code in CODES.items() if outcome.startswith(start)), None)
    return {found} if found is not None else set()


def expected_of_one(outcome: str) -> set[str]:
    """Return the same of a model that is not compiled: its graph is freed node by node."""
    return {"TAPE101" if code == "TAPE603" else code for code in expected(outcome)}


def reported(program: str) -> set[str]:
    found = {finding.code for finding in check(from_text(program, "train.py")).findings}
    return found if "compile" not in program else found - {"TAPE301"}


@pytest.mark.parametrize(
    ("question", "options", "outcome"),
    [
        pytest.param(question, options, outcome, id=f"{question.title}-{options or 'default'}")
        for question in DDP
        for options, outcome in MEASURED["ddp"][question.title].items()
    ],
)
def test_a_step_under_ddp_is_reported_as_it_was_measured(question: Question, options: str, outcome: str) -> None:
    # A second backward that retains the graph for nothing is not what is asked.
    found = reported(question.program(options)) - {"TAPE301"}
    if (options, question.title) in UNKNOWN:
        assert outcome != "right"
        assert found == set()
    elif "INTERNAL ASSERT" in outcome:
        assert found <= {"TAPE601"}
    elif question.title == "a parameter that is replaced after wrapping":
        # What stands in its place is not averaged either, up to the exception.
        assert found == expected(outcome) | {"TAPE601"}
    else:
        assert found == expected(outcome)


@pytest.mark.parametrize(
    ("title", "backend", "outcome"),
    [
        pytest.param(title, backend, outcome, id=f"{title}-{backend}")
        for title in COMPILE
        for backend, outcome in MEASURED["compile"].get(title, {}).items()
    ],
)
def test_a_compiled_call_is_reported_as_it_was_measured(title: str, backend: str, outcome: str) -> None:
    found = reported(compiled_program(COMPILE[title], backend))
    if found == {"TAPE101"}:
        # Each call has a node of its own, of which one was freed.
        assert expected(outcome) == {"TAPE603"}
    else:
        assert found == expected(outcome)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_flag_that_a_compiled_call_needs_is_not_called_unnecessary(backend: str) -> None:
    program = compiled_program(COMPILE["the same, the first with `retain_graph=True`"], backend)
    codes = [finding.code for finding in check(from_text(program, "train.py")).findings]
    assert codes == (["TAPE301"] if backend == "eager" else [])


def test_what_is_missed_is_named_as_it_is_asked() -> None:
    assert {title for _, title in UNKNOWN} <= {question.title for question in DDP}


TWICE_STEPPED = "an optimizer's step between the forward and the backward"
"""Its second step takes the gradient of the first once more, wrapped or not: TAPE403 says so."""
SHARDED_CODES = {
    "an optimizer that was made before `fully_shard`": {"TAPE405"},
    "`set_requires_gradient_sync(False)` throughout": {"TAPE601"},
    "`set_requires_gradient_sync(False)` for the last alone": {"TAPE601"},
    "an evaluation under `no_grad` between the backward and the step": {"TAPE609"},
    "the same evaluation, where no layer is sharded by itself": {"TAPE609"},
}
"""What is reported where a sharded model silently ends otherwise."""
SHARDED = [
    *(("fsdp", question, options) for question in FSDP for options in MEASURED["fsdp"][question.title]),
    *(("tensor", question, "") for question in TENSOR),
]


@pytest.mark.parametrize(
    ("section", "question", "options"),
    [pytest.param(*each, id=f"{each[0]}-{each[1].title}-{each[2] or 'default'}") for each in SHARDED],
)
def test_nothing_wrong_is_said_of_sharded_models(section: str, question: Sharded, options: str) -> None:
    found = reported(question.program(options))
    outcome = MEASURED[section][question.title][options]
    if question.title == TWICE_STEPPED:
        found -= {"TAPE403"}
    if outcome == "other gradients":
        assert found == SHARDED_CODES.get(question.title, set())
    elif section == "tensor" or (options and question.title.startswith("`autograd.grad`")):
        # What is split by layers is not followed, nor what of a model is whole after its forward.
        assert found == (set() if "mixed" in outcome else expected_of_one(outcome))
    else:
        assert found == expected_of_one(outcome)


MISSED = {
    "the region changes its input in place",
    "`backward(create_graph=True)`, then a backward of the gradients",
}
"""Errors of checkpointed programs that are not told."""


@pytest.mark.parametrize(
    ("title", "options", "outcome"),
    [
        pytest.param(title, options, outcome, id=f"{title}-{options}")
        for title in CHECKPOINT
        for options, outcome in MEASURED["checkpoint"][title].items()
    ],
)
def test_a_checkpoint_is_reported_as_it_was_measured(title: str, options: str, outcome: str) -> None:
    found = reported(checkpoint_program(CHECKPOINT[title], options))
    if outcome.startswith(("element 0 of tensors does not require grad", "Unexpected keyword")) and title not in MISSED:
        assert found == {"TAPE103"}
    else:
        assert found == (set() if title in MISSED else expected_of_one(outcome))


@pytest.mark.parametrize(
    ("title", "hooks", "outcome"),
    [
        pytest.param(title, hooks, outcome, id=f"{title}-{hooks}")
        for title in OFFLOAD
        for hooks, outcome in MEASURED["hooks"][title].items()
    ],
)
def test_saved_tensor_hooks_are_known(title: str, hooks: str, outcome: str) -> None:
    found = reported(offload_program(OFFLOAD[title], hooks))
    assert found == expected_of_one(outcome)


UNSEEN = {"the same, where the optimizer that was given to `prepare` steps"}
"""What is missed: `accumulate` leaves gradients alone that the optimizer inside does not wait for."""


@pytest.mark.parametrize("question", [*ACCELERATE, *FABRIC], ids=lambda question: f"{question.fabric}-{question.title}")
def test_what_a_framework_wraps_is_only_possible(question: Prepared) -> None:
    findings = check(from_text(question.program(), "train.py")).findings
    outcome = MEASURED["lightning" if question.fabric else "accelerate"][question.title][""]
    if outcome.startswith("You are calling the method"):
        assert {finding.code for finding in findings} == {"TAPE601"}
    else:
        assert {finding.code for finding in findings} == (set() if question.title in UNSEEN else expected(outcome))
    assert not any(finding.certain for finding in findings)


LOCAL_SGD = """\
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
model = DistributedDataParallel(nn.Linear(4, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    optimizer.zero_grad()
    with model.no_sync():
        model(torch.randn(5, 4)).mean().backward()
    optimizer.step()
    if step % 2:
        for parameter in model.parameters():
            dist.all_reduce(parameter{data})
            {scaled}
"""


@pytest.mark.parametrize("data", ["", ".data"])
def test_parameters_that_are_averaged_may_be_stepped_apart(data: str) -> None:
    scaled = "parameter.data /= dist.get_world_size()"
    assert reported(LOCAL_SGD.format(data=data, scaled=scaled)) == set()
    assert reported(LOCAL_SGD.replace("parameter{data}", "torch.zeros(1)").format(scaled=scaled)) == {"TAPE601"}


BYPASS = """\
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.head = nn.Linear(4, 8), nn.Linear(8, 1)

    def encode(self, x):
        return self.encoder(x).relu()

    def forward(self, x):
        return self.head(self.encode(x))

    def loss(self, x):
        return self(x).mean()


def compute(model, x):
    return model.module.loss(x)


dist.init_process_group("gloo")
model = DistributedDataParallel(Net())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    x = torch.randn(6, 4)
    {line}
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("line", "call"),
    [
        ("loss = model.module(x).mean()", "model.module(x)"),
        ("loss = model.module.encode(x).mean()", "model.module.encode(x)"),
        ("loss = model.module.loss(x)", "model.module.loss(x)"),
        ("loss = model.module.head(model.module.encoder(x)).mean()", "model.module.encoder(x)"),
        ("loss = compute(model, x)", "compute(model, x)"),
    ],
)
def test_the_call_that_bypasses_the_wrapper_is_labelled(line: str, call: str) -> None:
    program = BYPASS.format(line=line)
    (finding,) = check(from_text(program, "train.py")).findings
    assert finding.code == "TAPE601"
    (label,) = [label for label in finding.labels if "does not go through" in label.message]
    text = program.splitlines()[label.span.line - 1][label.span.column - 1 : label.span.end_column - 1]
    assert text == call


SHARDING = """\
import torch
from torch import nn
from torch.distributed.fsdp import fully_shard

net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2)).requires_grad_({trained})
{before}
{shard}
{after}
for step in range(3):
    optimizer.zero_grad()
    net(torch.randn(6, 4)).mean().backward()
    optimizer.step()
"""
MAKE = "optimizer = torch.optim.SGD(net.parameters(), lr=0.1)"


@pytest.mark.parametrize(
    "shard", ["fully_shard(net)", "for layer in net:\n    fully_shard(layer)", "fully_shard([net[0], net[2]])"]
)
def test_an_optimizer_is_made_once_the_model_is_sharded(shard: str) -> None:
    early = check(from_text(SHARDING.format(trained=True, before=MAKE, shard=shard, after=""), "train.py"))
    (finding,) = early.findings
    assert finding.code == "TAPE405"
    assert "fully_shard" in finding.help
    late = check(from_text(SHARDING.format(trained=True, before="", shard=shard, after=MAKE), "train.py"))
    assert late.findings == []


def test_what_fully_shard_is_to_leave_alone_may_be_anything() -> None:
    shard = "fully_shard(net, ignored_params={net[2].weight, net[2].bias})"
    assert (
        check(from_text(SHARDING.format(trained=True, before=MAKE, shard=shard, after=""), "train.py")).findings == []
    )


FLAG = """\
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
model = DistributedDataParallel(nn.Linear(4, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    optimizer.zero_grad()
    {line}
        loss = model(torch.randn(5, 4)).mean()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("with model.no_sync():", "`no_sync` is on"),
        ("model.require_backward_grad_sync = False\n    if True:", "sync was off in the forward"),
        ("model.require_backward_grad_sync = True\n    with model.no_sync():", "`no_sync` is on"),
    ],
)
def test_what_switches_the_sync_off_is_named(line: str, said: str) -> None:
    (finding,) = check(from_text(FLAG.format(line=line), "train.py")).findings
    assert finding.code == "TAPE601"
    assert finding.message.endswith(said)
    assert ("require_backward_grad_sync" in finding.help) == ("off in" in said)


LATE = """\
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
{before}
model = DistributedDataParallel(net)
{after}
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(3):
    optimizer.zero_grad()
    loss = model(torch.randn(6, 4)).pow(2).mean()
    loss.backward()
    optimizer.step()
    {last}
"""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("net[0].requires_grad_(False)", "net[0].requires_grad_(True)"),
        ("last = net.pop(2)", "net.append(last)"),
    ],
)
@pytest.mark.parametrize(
    ("last", "told"),
    [
        ("pass", True),
        ("dist.all_reduce(loss.detach())", True),
        ("with torch.no_grad():\n        [dist.all_reduce(one.div_(2)) for one in net.parameters()]", False),
        ("for one in net.parameters():\n        dist.all_reduce(one.data); one.data /= 2", False),
        ("for one in net.parameters():\n        dist.broadcast(one.detach(), 0)", False),
    ],
)
def test_who_averages_late_parameters_by_hand_lets_their_steps_differ(
    before: str, after: str, last: str, told: bool
) -> None:
    text = LATE.format(before=before, after=after, last=last)
    assert [one.code for one in check(from_text(text, "train.py")).findings] == ["TAPE601"] * told
