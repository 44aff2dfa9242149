"""TAPE301 on tapes written by hand, and where a backward is written as it was long ago."""

from __future__ import annotations

from typing import Any

import pytest

from tapecheck.check import check
from tapecheck.source import from_text
from tapecheck.tape import LEFT_OVER, Root, Span

CODE = "TAPE301"


def two_models(build: Any, **options: Any) -> Any:
    for line in (1, 4):
        w = build.leaf(line)
        build.backward(line + 2, build.node(line + 1, w, saves=[0], name="loss"), **(options if line == 1 else {}))
    return build


def test_two_models_share_nothing(build: Any, found: Any) -> None:
    (finding,) = found(two_models(build, retain="yes"))
    assert (finding.code, finding.severity, finding.span.line) == (CODE, "info", 3)
    assert finding.unnecessary is True
    assert finding.facts.argument == Span("train.py", 3, 15, 3, 24)
    assert finding.message == "unnecessary `retain_graph=True`"


def test_an_expression_that_can_be_true(build: Any, found: Any) -> None:
    (finding,) = found(two_models(build, retain="may"))
    assert finding.message == "unnecessary `retain_graph` argument"


@pytest.mark.parametrize("options", [{"retain": "no"}, {}, {"retain": "yes", "create": "yes"}])
def test_nothing_to_say(build: Any, found: Any, options: dict[str, Any]) -> None:
    assert found(two_models(build, **options)) == []


def shared(
    build: Any, *, keeps: str = "yes", linked: str = "yes", first: str = "yes", second: str | None = None
) -> Any:
    w = build.leaf(1)
    features = build.node(2, w, saves=[0], keeps=keeps, name="features", linked=linked)
    left, right = (build.node(line, features, op="SumBackward0", name="loss") for line in (3, 4))
    build.backward(5, left, retain=first)
    build.backward(6, right, **({"retain": second} if second else {}))
    return build


def test_a_second_loss_needs_the_graph(build: Any, found: Any) -> None:
    assert found(shared(build)) == []


def test_the_last_backward_need_not_retain(build: Any, found: Any) -> None:
    assert [finding.span.line for finding in found(shared(build, second="yes"))] == [6]


def test_a_graph_that_holds_nothing_need_not_be_retained(build: Any, found: Any) -> None:
    assert [finding.span.line for finding in found(shared(build, keeps="no"))] == [5]


@pytest.mark.parametrize("options", [{"keeps": "may"}, {"linked": "may"}])
def test_what_may_be_needed_is_left_alone(build: Any, found: Any, options: dict[str, str]) -> None:
    assert found(shared(build, **options)) == []


def test_a_call_in_a_loop_is_needed_if_one_run_needs_it(build: Any, found: Any) -> None:
    w = build.leaf(1)
    features = build.node(2, w, saves=[0])
    with build.loop(3) as begin:
        for _ in range(3):
            begin()
            build.backward(5, build.node(4, features, op="SumBackward0"), retain="yes")
    assert found(build) == []


def test_a_call_in_a_loop_that_no_run_needs(build: Any, found: Any) -> None:
    w = build.leaf(1)
    with build.loop(2) as begin:
        for _ in range(3):
            begin()
            build.backward(4, build.node(3, w, saves=[0], name="loss"), retain="yes")
    assert [(finding.code, finding.span.line) for finding in found(build)] == [(CODE, 4)]


def test_needed_on_another_way(build: Any, another: Any, found: Any) -> None:
    needless = another()
    w = needless.leaf(1)
    needless.backward(5, needless.node(3, needless.node(2, w, saves=[0]), op="SumBackward0"), retain="yes")
    assert found(needless, shared(build)) == []


@pytest.mark.parametrize("how", ["raised", "budget", "stopped"])
def test_a_tape_that_breaks_off_says_nothing_of_never(build: Any, found: Any, how: str) -> None:
    two_models(build, retain="yes")
    assert found(build.end(how)) == []


def test_a_way_cut_short_by_others_counts_as_one_not_begun(build: Any, another: Any, found: Any) -> None:
    short = two_models(another(), retain="yes")
    assert len(found(two_models(build, retain="yes"), short.end("budget", LEFT_OVER))) == 1


def test_what_a_way_cut_short_needs_is_needed(build: Any, another: Any, found: Any) -> None:
    w = build.leaf(1)
    build.backward(5, build.node(3, build.node(2, w, saves=[0]), op="SumBackward0"), retain="yes")
    assert found(build, shared(another()).end("budget", LEFT_OVER)) == []


def raising(build: Any) -> Any:
    """Two models, of which the second is stale; the tape ends there."""
    w, v = build.leaf(1), build.leaf(2)
    build.backward(4, build.node(3, w, saves=[0], name="loss"), retain="yes")
    score = build.node(5, v, saves=[v])
    build.change(6, v)
    build.backward(7, score)
    return build


def test_before_a_call_that_raises(build: Any, another: Any, found: Any) -> None:
    raising(build).end("raised")
    assert [finding.code for finding in found(build)] == ["TAPE102"]
    build.tape.beyond = [raising(another()).end("finished")]
    assert [(finding.code, finding.span.line) for finding in found(build)] == [("TAPE301", 4), ("TAPE102", 7)]


def test_needed_beyond_a_call_that_raises(build: Any, another: Any, found: Any) -> None:
    raising(build).end("raised")
    on = raising(another())
    on.backward(9, on.node(8, 3, op="SumBackward0"))
    build.tape.beyond = [raising(another()).end("finished"), on.end("finished")]
    assert [finding.code for finding in found(build)] == ["TAPE102"]


@pytest.mark.parametrize(("first", "second"), [("a", "b"), ("", "b")])
def test_graphs_nobody_knows_may_be_one(build: Any, found: Any, first: str, second: str) -> None:
    for line, name in ((1, first), (3, second)):
        build.backward(line + 1, build.node(line, graph_of=name, keeps="may"), retain="yes")
    assert [finding.span.line for finding in found(build)] == [4]


def test_what_unknown_code_computes_later_hardly_shares_a_graph(build: Any, found: Any) -> None:
    for line in (1, 4):
        x = build.leaf(line)
        build.backward(line + 2, build.node(line + 1, x, op="loss_fn()", keeps="may", linked="may"), retain="yes")
    assert [(finding.span.line, finding.certain) for finding in found(build)] == [(3, False), (6, True)]


def test_what_unknown_code_gives_out_of_itself_may_be_a_state(build: Any, found: Any) -> None:
    for line in (1, 4):
        build.backward(line + 2, build.node(line + 1, op="act()", keeps="may", linked="may"), retain="yes")
    assert [finding.span.line for finding in found(build)] == [6]


def test_what_unknown_code_has_computed_before_may_share_a_graph(build: Any, found: Any) -> None:
    nodes = [build.node(line, build.leaf(line), op="loss_fn()", keeps="may", linked="may") for line in (1, 2)]
    for line, node in enumerate(nodes, 3):
        build.backward(line, node, retain="yes")
    assert [finding.span.line for finding in found(build)] == [4]


def test_a_graph_handed_to_unknown_code(build: Any, found: Any) -> None:
    w = build.leaf(1)
    loss = build.node(2, w, saves=[0])
    build.backward(3, loss, retain="yes")
    build.escape(4, loss)
    assert found(build) == []


def test_kept_over_a_step_and_stale_then(build: Any, found: Any) -> None:
    w = build.leaf(1)
    optimizer = build.optimizer(1, w)
    features = build.node(2, w, saves=[0, w])
    build.backward(4, build.node(3, features, op="SumBackward0"), retain="yes")
    build.step(5, optimizer, w)
    build.backward(7, build.node(6, features, op="SumBackward0"))
    assert [finding.code for finding in found(build)] == ["TAPE102"]


def test_where_create_graph_was_meant(build: Any, found: Any) -> None:
    x, w = build.leaf(1, "x", parameter=False), build.leaf(1)
    score = build.node(2, x, w, saves=[x, w])
    build.grad(3, score, x, retain="yes")
    cut = build.cut(3, "grad", score)
    loss = build.node(5, w, saves=[0], cuts=[cut])
    build.backward(6, Root(loss, name="loss", constant_terms=(cut,)))
    assert [finding.code for finding in found(build)] == ["TAPE401"]


@pytest.mark.parametrize(
    "call", ["[left, right], retain_graph=True", "variables=[left, right], grad_variables=[a, b], retain_graph=True"]
)
def test_a_backward_is_that_of_its_roots_whatever_the_argument_was_called(call: str) -> None:
    program = (
        "import torch\nnet = torch.nn.Linear(3, 2)\na, b = torch.ones(()), torch.ones(())\n"
        "left, right = net(torch.randn(4, 3)).pow(2).sum(0).unbind()\n"
        f"torch.autograd.backward({call})\n(left * right).backward()\n"
    )
    assert [finding.code for finding in check(from_text(program, "program.py")).findings] == []


@pytest.mark.parametrize(
    "call",
    [
        "torch.autograd.backward(variables=[loss])",
        "loss.backward(retain_variables=True)",
        "torch.autograd.backward([loss])",
    ],
)
def test_arguments_of_old_torch_are_not_what_torch_takes_today(call: str) -> None:
    program = f"import torch\nw = torch.ones(3, requires_grad=True)\nloss = w.exp().sum()\ntry:\n    {call}\n"
    program += "except TypeError:\n    loss.backward()\n    loss.backward()\n"
    try:
        exec(compile(program, "train.py", "exec"), {})
        raised = False
    except RuntimeError:
        raised = True
    assert raised == bool([one for one in check(from_text(program, "train.py")).findings if one.code == "TAPE101"])


COMPILED = """\
import torch
from torch import nn

net = torch.compile(nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1)), backend="{backend}")
net(torch.randn(5, 3)).sum().backward(retain_graph=True)
loss = net(torch.randn(5, 3)).sum()
loss.backward(retain_graph={later})
{last}
"""


@pytest.mark.parametrize(
    ("backend", "later", "last", "lines"),
    [
        ("aot_eager", True, "loss.backward()", []),
        ("eager", True, "loss.backward()", [5]),
        ("aot_eager", False, "", [5]),
    ],
)
def test_the_first_backward_of_compiled_code_lets_later_ones_retain(
    backend: str, later: bool, last: str, lines: list[int]
) -> None:
    # Without the first flag torch raises "compiled with non-empty donated buffers" at the second one.
    program = COMPILED.format(backend=backend, later=later, last=last)
    found = check(from_text(program, "train.py")).findings
    assert [finding.span.line for finding in found if finding.code == "TAPE301"] == lines


KEPT = """\
import pickle
from torch.utils.data import Dataset


class Kept(Dataset):
    def __init__(self):
        self.items = pickle.load(open("a", "rb"))

    def __len__(self):
        return 8

    def __getitem__(self, index):
        one = self.items[index]
        return one[0].to("cpu"), one[1]


"""
BATCHES = {
    "loader": ("from stuff import dataset\n", "DataLoader(dataset, batch_size=4)"),
    "given": ("from stuff import batches\n", "batches()"),
    "pickled": (KEPT, "DataLoader(Kept(), batch_size=4)"),
}
SHAPED = (
    "view(-1, 4)", "reshape(-1, 4)", "flatten(1)", "unsqueeze(1)", "squeeze(1)", "permute(1, 0)", "transpose(0, 1)",
    "narrow(0, 0, 1)", "repeat(1, 2)", "expand(4, 4)", "clamp(0, 1)", "pow(2)", "mul(2.0)", "sum(1)", "mean(-1)",
    "view(-1, 4).float()", "cuda().view(-1, 4)", "view(len(y), -1)", "reshape(size)",
)  # fmt: skip


@pytest.mark.parametrize("source", BATCHES)
@pytest.mark.parametrize("shaped", SHAPED)
def test_what_a_batch_is_shaped_to_has_no_graph(source: str, shaped: str) -> None:
    head, batches = BATCHES[source]

    def program(*lines: str) -> str:
        return (
            f"import torch\nfrom torch import nn\nfrom torch.utils.data import DataLoader\n{head}"
            "size = (-1, 4)\nmodel = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))\n"
            f"optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\nfor x, y in {batches}:\n"
            + "".join(f"    {line}\n" for line in lines)
        )

    step = ("optimizer.zero_grad()", "loss.backward(retain_graph=True)", "optimizer.step()")
    told = codes(program(f"loss = nn.functional.cross_entropy(model(x.{shaped}), y)", *step))
    assert told == ["TAPE301"]
    # What is asked for its own gradient has a graph, which this walks twice.
    asked = f"h = x.requires_grad_().{shaped}.exp()"
    assert codes(program(asked, "loss = model(h).sum()", *step[:2], "h.sum().backward()", step[2])) == []
    # Nobody knows what a method of another name gives.
    assert codes(program("loss = nn.functional.cross_entropy(model(x.tokens(4)), y)", *step)) == []


def codes(text: str) -> list[str]:
    return [finding.code for finding in check(from_text(text, "train.py")).findings]
