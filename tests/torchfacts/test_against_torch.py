"""The table against torch itself: known facts about autograd, and a random part of all rows.

``TAPECHECK_FACTS_SEED`` chooses the part (default: 0), ``TAPECHECK_FACTS_COUNT`` how many ops (default: 80).
"""

from __future__ import annotations

import os
import random
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tapecheck import torchfacts
from tapecheck.torchfacts import OpFact

torch = pytest.importorskip("torch", reason="torch is not installed: nothing to measure the facts against")
pytest.importorskip("expecttest", reason="expecttest is not installed: torch's own samples need it")

if torch.__version__.partition("+")[0] not in torchfacts.measured():
    pytest.skip(
        f"facts were measured with torch {', '.join(torchfacts.measured())}, this is {torch.__version__}",
        allow_module_level=True,
    )

import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils._pytree import tree_leaves, tree_map  # noqa: E402

from tools.torchlab.general import measure_general  # noqa: E402
from tools.torchlab.measure import bind_sample  # noqa: E402
from tools.torchlab.reduce import owners  # noqa: E402
from tools.torchlab.samples import Sample, from_opinfo, own  # noqa: E402
from tools.torchlab.signatures import bind, of_python  # noqa: E402

FACTS = torchfacts.load(torch.__version__)
SEED = int(os.environ.get("TAPECHECK_FACTS_SEED", "0"))
COUNT = int(os.environ.get("TAPECHECK_FACTS_COUNT", "80"))
STALE = "modified by an inplace operation"
FREED = "second time"
torch.set_num_threads(1)


def leaf(*shape: int) -> Any:
    return torch.full(shape, 0.5, requires_grad=True)


def error_of(action: Callable[[], Any]) -> str:
    try:
        action()
    except RuntimeError as error:
        return str(error)
    return ""


def backward(outs: list[Any]) -> str:
    return error_of(lambda: torch.autograd.backward(outs, [torch.full_like(o, 0.7) for o in outs]))


def change_in_place(tensor: Any) -> None:
    with torch.no_grad():
        tensor.detach().copy_(tensor.detach().clone())


# Nothing is saved, so that a second backward through these alone raises nothing.
KEEPERS: dict[str, tuple[Callable[[Any], Any], str, tuple[str, ...]]] = {
    "add": (lambda x: x + x, "add", ("tensor", "tensor")),
    "add scalar": (lambda x: x + 1, "add", ("tensor", "nonzero")),
    "sub": (lambda x: x - x, "sub", ("tensor", "tensor")),
    "neg": (lambda x: -x, "neg", ("tensor",)),
    "sum": (lambda x: x.sum(), "sum", ("tensor",)),
    "mean": (lambda x: x.mean(), "mean", ("tensor",)),
    "view": (lambda x: x.view(-1), "view", ("tensor", "nonzero")),
    "t": (lambda x: x.t(), "t", ("tensor",)),
    "cat": (lambda x: torch.cat([x, x]), "cat", ("tensors",)),
    "stack": (lambda x: torch.stack([x, x]), "stack", ("tensors",)),
    "int index": (lambda x: x[0], "getitem.int", ("tensor", "0")),
    "slice index": (lambda x: x[0:2], "getitem.slice", ("tensor", "slice")),
    "expand": (lambda x: x[None].expand(2, -1, -1), "expand", ("tensor", "list")),
    "repeat": (lambda x: x.repeat(2, 1), "repeat", ("tensor", "list")),
    "pad": (lambda x: F.pad(x, (1, 1)), "nn.functional.pad", ("tensor", "list")),
    "cumsum": (lambda x: x.cumsum(0), "cumsum", ("tensor", "0")),
    "flip": (lambda x: x.flip(0), "flip", ("tensor", "list")),
    "clone": (lambda x: x.clone(), "clone", ("tensor",)),
    "triu": (lambda x: x.triu(), "triu", ("tensor",)),
    "dropout in eval": (
        lambda x: F.dropout(x, 0.5, False),
        "nn.functional.dropout",
        ("tensor", "nonzero", "False"),
    ),
}
SAVERS: dict[str, tuple[Callable[[Any], Any], str, tuple[str, ...]]] = {
    "scalar factor": (lambda x: 2 * x, "__rmul__", ("tensor", "nonzero")),
    "scalar divisor": (lambda x: x / 2, "div", ("tensor", "nonzero")),
    "list index": (lambda x: x[[0, 2]], "getitem.list", ("tensor", "list")),
    "tensor index": (lambda x: x[torch.tensor([0, 2])], "getitem.tensor", ("tensor", "tensor")),
    "mask index": (lambda x: x[x > 0], "getitem.mask", ("tensor", "tensor")),
    "mul": (lambda x: x * x, "mul", ("tensor", "tensor")),
    "exp": (lambda x: x.exp(), "exp", ("tensor",)),
    "relu": (lambda x: x.relu(), "relu", ("tensor",)),
    "dropout in train": (
        lambda x: F.dropout(x, 0.5, True),
        "nn.functional.dropout",
        ("tensor", "nonzero", "True"),
    ),
}


def freed_twice(call: Callable[[Any], Any]) -> bool:
    out = call(leaf(3, 3))
    assert backward([out]) == ""
    return FREED in backward([out])


@pytest.mark.parametrize("case", KEEPERS)
def test_nothing_saved(case: str) -> None:
    call, name, kinds = KEEPERS[case]
    fact = FACTS.op(name)
    assert fact is not None
    narrowed = fact.for_call(kinds)
    assert not freed_twice(call)
    assert (narrowed.saving.saves, narrowed.saving.may_save, narrowed.raising.second_backward) == ({}, {}, "no")


@pytest.mark.parametrize("case", SAVERS)
def test_something_saved(case: str) -> None:
    call, name, kinds = SAVERS[case]
    fact = FACTS.op(name)
    assert fact is not None
    assert freed_twice(call)
    assert fact.for_call(kinds).saving.saves
    assert fact.for_call(kinds).raising.second_backward == "yes"


def test_slice_assignment_is_freed() -> None:
    base = leaf(3).clone()
    base[0:2] = leaf(2)
    assert backward([base]) == ""
    assert FREED in backward([base])
    fact = FACTS.op("setitem.slice")
    assert fact is not None
    assert fact.saving.saves == {"buffer": ("self", "value")}
    assert fact.writing.mutates == ("self",)


def test_linear_on_an_input_without_grad_does_not_save_its_weight() -> None:
    fact = FACTS.module("Linear")
    assert fact is not None
    assert fact.train.saving.saves["weight"] == ("input",)
    layer = nn.Linear(3, 3)
    out = layer(torch.rand(2, 3))
    change_in_place(layer.weight)
    assert backward([out]) == ""
    out = layer(leaf(2, 3))
    change_in_place(layer.weight)
    assert STALE in backward([out])


def test_siblings_of_a_view_share_the_version() -> None:
    fact = FACTS.op("getitem.int")
    assert fact is not None
    assert (fact.aliasing.view, fact.aliasing.view_of) == ("yes", "self")
    masks = torch.zeros(2, 3)
    out = leaf(3) * masks[0]
    masks[1] = 1.0
    assert STALE in backward([out])


def test_running_statistics() -> None:
    fact = FACTS.module("BatchNorm1d")
    assert fact is not None
    assert "running_mean" in fact.train.saving.saves
    assert "running_mean" in fact.eval.saving.saves
    assert fact.train.for_call(("nonzero",)).writing.writes_unversioned == ("running_mean", "running_var")
    assert fact.eval.writing.writes_unversioned == ()
    layer = nn.BatchNorm1d(3)
    out = layer(torch.rand(4, 3))
    layer.running_mean.mul_(0.5)
    assert STALE in backward([out])
    out = layer.eval()(torch.rand(4, 3))
    layer.train()(torch.rand(4, 3))
    assert backward([out]) == ""


def test_gradient_of_a_linear_function_has_no_graph() -> None:
    fact = FACTS.op("nn.functional.linear")
    cube = FACTS.op("pow")
    assert fact is not None
    assert cube is not None
    assert fact.gradient.inputs == {"input": ("weight",), "weight": ("input",)}
    assert cube.for_call(("tensor", "nonzero")).gradient.inputs == {"self": ("self",)}
    value = leaf(2, 3)
    (gradient,) = torch.autograd.grad(F.linear(value, torch.rand(4, 3)).sum(), value, create_graph=True)
    assert not gradient.requires_grad
    (gradient,) = torch.autograd.grad(value.pow(3).sum(), value, create_graph=True)
    assert gradient.requires_grad


def test_general_facts_still_hold() -> None:
    assert measure_general() == FACTS.general


OPERATOR_CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "Add": lambda a, b: a + b,
    "Sub": lambda a, b: a - b,
    "Mult": lambda a, b: a * b,
    "Div": lambda a, b: a / b,
    "Mod": lambda a, b: a % b,
    "Pow": lambda a, b: a**b,
    "MatMult": lambda a, b: a @ b,
}


@pytest.mark.parametrize("operator", OPERATOR_CALLS)
def test_operator_builds_the_nodes_of_its_op(operator: str) -> None:
    call = OPERATOR_CALLS[operator]
    fact = FACTS.op(torchfacts.OPERATORS[operator])
    assert fact is not None
    assert type(call(leaf(2, 2), leaf(2, 2)).grad_fn).__name__ in fact.for_call(("tensor", "tensor")).nodes
    if operator == "MatMult":
        return
    assert type(call(leaf(2, 2), 3.0).grad_fn).__name__ in fact.for_call(("tensor", "nonzero")).nodes
    reflected = FACTS.op(torchfacts.REFLECTED[operator])
    assert reflected is not None
    assert type(call(3.0, leaf(2, 2)).grad_fn).__name__ in reflected.for_call(("tensor", "nonzero")).nodes


@pytest.mark.parametrize("operator", ["Add", "Sub", "Mult", "Div", "Pow"])
def test_augmented_assignment_is_its_op(operator: str) -> None:
    source = {"Add": "+=", "Sub": "-=", "Mult": "*=", "Div": "/=", "Pow": "**="}[operator]
    fact = FACTS.op(torchfacts.IN_PLACE[operator])
    assert fact is not None
    scope: dict[str, Any] = {"x": leaf(3).clone(), "before": None}
    scope["before"] = scope["x"]
    exec(f"x {source} 2.0", scope)
    assert scope["x"] is scope["before"]
    assert scope["x"]._version == 1
    assert fact.inplace
    assert type(scope["x"].grad_fn).__name__ in fact.for_call(("tensor", "nonzero")).nodes


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("mul_", lambda x: x.mul_(2)),
        ("relu_", lambda x: x.relu_()),
        ("copy_", lambda x: x.copy_(torch.ones(3, 3))),
        ("setitem.int", lambda x: x.__setitem__(0, 1.0)),
        ("nn.init.xavier_uniform_", nn.init.xavier_uniform_),
        ("nn.init.constant_", lambda x: nn.init.constant_(x, 0.5)),
    ],
)
def test_a_leaf_may_be_changed_only_where_the_fact_says_so(name: str, call: Callable[[Any], Any]) -> None:
    fact = FACTS.op(name)
    assert fact is not None
    assert fact.writing.mutates
    assert fact.writing.allows_leaf == ("leaf" not in error_of(lambda: call(leaf(3, 3))))


class Run:
    """One run of a sample, the inputs named in `grad` requiring grad."""

    def __init__(self, sample: Sample, owner: dict[int, str], grad: frozenset[str]) -> None:
        self.inputs: dict[str, list[Any]] = {}
        replaced: dict[int, Any] = {}
        for tensor in tree_leaves((sample.args, dict(sample.kwargs))):
            if not isinstance(tensor, torch.Tensor) or id(tensor) in replaced:
                continue
            name = owner[id(tensor)]
            fresh = tensor.detach().clone()
            if name in grad and (fresh.is_floating_point() or fresh.is_complex()):
                # A clone of a leaf, so that in-place methods are legal.
                fresh = fresh.requires_grad_().clone()
            replaced[id(tensor)] = fresh
            self.inputs.setdefault(name, []).append(fresh)
        args, kwargs = tree_map(lambda item: replaced.get(id(item), item), (sample.args, dict(sample.kwargs)))
        torch.manual_seed(1)
        result = sample.fn(*args, **kwargs)
        self.outs = [t for t in tree_leaves(result) if isinstance(t, torch.Tensor)]
        self.trained = [t for t in self.outs if t.requires_grad]


def contradictions(sample: Sample, fact: OpFact, owner: dict[int, str]) -> Iterator[str]:
    """What torch does otherwise than a fact says, for each input requiring grad alone and for all of them."""
    names = sorted(set(owner.values()))
    try:
        Run(sample, owner, frozenset())
    except (RuntimeError, ValueError, TypeError, NotImplementedError):
        return  # not a call that torch takes
    able = [
        n
        for n in names
        if any(
            owner.get(id(t)) == n and (t.is_floating_point() or t.is_complex())
            for t in tree_leaves((sample.args, dict(sample.kwargs)))
            if isinstance(t, torch.Tensor)
        )
    ]
    for grad in {frozenset(able), *(frozenset((n,)) for n in able)}:
        try:
            run = Run(sample, owner, grad)
        except (RuntimeError, ValueError, NotImplementedError):
            if fact.raising.call == "no":
                yield f"{set(grad)}: the call raises"
            continue
        carrying = grad & set(fact.result.carries)
        if carrying and not run.trained:
            yield f"{carrying} should carry a graph"
        if run.trained and not grad & {*fact.result.carries, *fact.result.may_carry}:
            yield f"{set(grad)} should carry no graph"
        if not run.trained:
            continue
        if backward(run.trained):
            if fact.raising.backward == "no":
                yield f"{set(grad)}: the first backward raises"
            continue
        freed = FREED in backward(run.trained)
        if freed and not grad & {*fact.saving.frees, *fact.saving.may_free}:
            yield f"{set(grad)}: a second backward raises"
        if not freed and grad & set(fact.saving.frees):
            yield f"{set(grad)}: a second backward raises nothing"
        for name in names:
            if name in (*fact.writing.mutates, *fact.writing.may_mutate):
                continue
            for index in range(len(run.inputs[name])):
                again = Run(sample, owner, grad)
                roots = [out.clone() for out in again.trained]
                change_in_place(again.inputs[name][index])
                error = backward(roots)
                stale = STALE in error or "has been modified inplace" in error
                listed = len(run.inputs[name]) > 1
                saved = grad & set(fact.saving.saves.get(name, ()))
                possible = grad & {
                    t.removesuffix(".other")
                    for t in (*fact.saving.saves.get(name, ()), *fact.saving.may_save.get(name, ()))
                }
                if saved and not stale and not listed:
                    yield f"{set(grad)}: {name} should be saved"
                if stale and not possible:
                    yield f"{set(grad)}: {name} should not be saved"


def drawn() -> list[str]:
    names = sorted({s.name for s in own()} & set(FACTS.op_names())) + sorted(
        {op.name for op in _op_db()} & set(FACTS.op_names())
    )
    return sorted(random.Random(SEED).sample(sorted(set(names)), min(COUNT, len(set(names)))))


def _op_db() -> Any:
    from torch.testing._internal.common_methods_invocations import op_db

    return op_db


@pytest.mark.parametrize("name", drawn())
def test_op_does_what_its_fact_says(name: str) -> None:
    fact = FACTS.op(name)
    assert fact is not None
    rng = random.Random(f"{SEED} {name}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        samples = [s for s in own() if s.name == name] + list(from_opinfo({name}, seed=SEED + 1))
        wrong = []
        for sample in rng.sample(samples, min(4, len(samples))):
            bound = bind_sample(sample)
            if bound is None:
                continue
            owner = owners(bound)
            kinds = {n: k for n, k in bound.kinds().items() if n in bound.values}
            if any(p.startswith("*") for p in bound.signature.params):
                narrowed = fact
            else:
                narrowed = fact.for_call((), kinds)
            wrong += [f"{kinds}: {text}" for text in contradictions(sample, narrowed, owner)]
    assert not wrong


MODULE_CASES: dict[str, tuple[Callable[[], Any], Callable[[], tuple[Any, ...]]]] = {
    "Linear": (lambda: nn.Linear(3, 4), lambda: (torch.rand(2, 3),)),
    "Conv1d": (lambda: nn.Conv1d(3, 4, 2), lambda: (torch.rand(2, 3, 5),)),
    "BatchNorm1d": (lambda: nn.BatchNorm1d(3), lambda: (torch.rand(4, 3),)),
    "LayerNorm": (lambda: nn.LayerNorm(3), lambda: (torch.rand(4, 3),)),
    "GroupNorm": (lambda: nn.GroupNorm(1, 3), lambda: (torch.rand(4, 3),)),
    "PReLU": (lambda: nn.PReLU(), lambda: (torch.rand(4, 3) - 0.5,)),
    "Bilinear": (lambda: nn.Bilinear(2, 3, 4), lambda: (torch.rand(2, 2), torch.rand(2, 3))),
    "Embedding": (lambda: nn.Embedding(5, 3), lambda: (torch.tensor([0, 2]),)),
    "GRUCell": (lambda: nn.GRUCell(3, 4), lambda: (torch.rand(2, 3), torch.rand(2, 4))),
    "RNNCell": (lambda: nn.RNNCell(3, 4), lambda: (torch.rand(2, 3), torch.rand(2, 4))),
    "LSTM": (lambda: nn.LSTM(3, 4), lambda: (torch.rand(5, 2, 3),)),
    "GRU": (lambda: nn.GRU(3, 4), lambda: (torch.rand(5, 2, 3),)),
    "MSELoss": (lambda: nn.MSELoss(), lambda: (torch.rand(4), torch.rand(4))),
    "CrossEntropyLoss": (
        lambda: nn.CrossEntropyLoss(),
        lambda: (torch.rand(4, 3), torch.tensor([0, 2, 1, 1])),
    ),
    "Dropout": (lambda: nn.Dropout(), lambda: (torch.rand(4, 3),)),
    "ReLU": (lambda: nn.ReLU(), lambda: (torch.rand(4, 3) - 0.5,)),
}
"""Modules with their default options; what decides is the shape alone."""


@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
@pytest.mark.parametrize("name", MODULE_CASES)
def test_module_does_what_its_fact_says(name: str, training: bool) -> None:
    build, draw = MODULE_CASES[name]
    found = FACTS.module(name)
    assert found is not None
    bound_to = of_python(type(build()).forward, drop_self=True)[0]
    inputs = bind(bound_to, draw(), {})
    assert inputs is not None
    defaults = {p: "nonzero" for p in found.params if p not in found.train.overloads[0].defaults}
    narrowed = found.for_call((), defaults)
    fact = narrowed.train if training else narrowed.eval

    def run(trained: str, changed: str = "") -> tuple[list[Any], int]:
        torch.manual_seed(0)
        module = build().train(training)
        args = draw()
        tensors: dict[str, list[Any]] = {}
        for param, value in zip(inputs.values, args, strict=True):
            tensors[param] = [value]
        for param, value in (*module.named_parameters(), *module.named_buffers()):
            tensors.setdefault(param.replace("_l0", ""), []).append(value)
        for param, values in tensors.items():
            for value in values:
                if value.is_floating_point():
                    value.requires_grad_(param == trained)
        torch.manual_seed(0)
        outs = [t for t in tree_leaves(module(*args)) if isinstance(t, torch.Tensor) and t.requires_grad]
        for value in tensors.get(changed, []):
            change_in_place(value)
        return outs, len(tensors)

    module = build()
    whole = {name for name, value in zip(inputs.values, draw(), strict=True) if not value.is_floating_point()}
    names = [*inputs.values, *(n.replace("_l0", "") for n, _ in module.named_parameters())]
    buffers = [n for n, _ in module.named_buffers()]
    wrong = []
    for trained in names:
        if trained in whole:
            continue
        outs, _ = run(trained)
        if (trained in fact.result.carries) != bool(outs) and trained not in fact.result.may_carry:
            wrong.append(f"{trained}: carries {bool(outs)}")
        if not outs:
            continue
        assert backward(outs) == ""
        freed = FREED in backward(outs)
        if freed != (trained in fact.saving.frees) and trained not in fact.saving.may_free:
            wrong.append(f"{trained}: second backward raises {freed}")
        for changed in (*names, *buffers):
            outs, _ = run(trained, changed)
            stale = STALE in backward(outs)
            if trained in fact.saving.may_save.get(changed, ()):
                continue
            if stale != (trained in fact.saving.saves.get(changed, ())):
                wrong.append(f"{trained}: {changed} stale {stale}")
    assert not wrong


@pytest.mark.parametrize("name", sorted(FACTS.optimizer_names()))
@pytest.mark.parametrize("fused", [False, True], ids=["default", "fused"])
def test_step_makes_the_weight_stale_if_the_fact_says_so(name: str, fused: bool) -> None:
    fact = FACTS.optimizer(name)
    assert fact is not None
    says = fact.fused_step_mutates if fused else fact.step_mutates
    if fused and says is None:
        pytest.skip(f"{name} has no fused step on the CPU")
    weight = nn.Parameter(torch.rand(3, 3))
    options = {"fused": True} if fused else {}
    optimizer = getattr(torch.optim, name)([weight], lr=0.1, **options)
    loss = (weight * leaf(3, 3)).sum()
    loss.backward(retain_graph=True)
    if name == "SparseAdam":
        weight.grad = weight.grad.to_sparse()

    def closure() -> Any:
        return (weight.detach() ** 2).sum()

    step = (lambda: optimizer.step(closure)) if fact.needs_closure else optimizer.step
    step()
    assert (STALE in error_of(loss.backward)) == (says == "yes")
