"""The table as its user sees it: read without torch, narrowed to a call, joined where that is unclear."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import resources
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tapecheck
from tapecheck import torchfacts
from tapecheck.torchfacts import OpFact, Overload, compatible, join, kind_of
from tapecheck.torchfacts.stored import op_fact, read_module, read_op, write_op

FACTS = torchfacts.load()
OPS = sorted(FACTS.op_names())
MODULES = sorted(FACTS.module_names())
KINDS = [
    "tensor",
    "tensors",
    "None",
    "True",
    "False",
    "0",
    "nonzero",
    "'mean'",
    "list",
    "?",
    "number",
    "bool",
    "str",
]


def test_loads_where_torch_cannot_be_imported() -> None:
    program = """
import sys

class NoTorch:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("torch", "numpy"):
            raise ImportError(name + " is not to be had here")

sys.meta_path.insert(0, NoTorch())
from tapecheck import torchfacts
facts = torchfacts.load()
assert facts.op("mul").saving.saves == {"self": ("other",), "other": ("self",)}, facts.op("mul").saving.saves
assert facts.module("Linear").train.saving.saves == {"input": ("weight",), "weight": ("input",)}
assert facts.optimizer("Adam").step_mutates == "yes"
assert "torch" not in sys.modules
"""
    server = Path(tapecheck.__file__).parent.parent
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": str(server)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_load_is_cached_and_facts_are_built_once() -> None:
    assert torchfacts.load() is torchfacts.load()
    assert FACTS.op("mul") is FACTS.op("mul")


def test_unknown_names_have_no_fact() -> None:
    assert FACTS.op("no_such_op") is None
    assert FACTS.module("NoSuchModule") is None
    assert FACTS.optimizer("NoSuchOptimizer") is None


def test_one_row_a_line() -> None:
    text = resources.files("tapecheck.torchfacts").joinpath("facts.json").read_text()
    data = json.loads(text)
    lines = text.splitlines()
    assert len(lines) == sum(len(data[key]) + 2 for key in ("ops", "modules", "optimizers")) + 4
    assert len(text) < 600_000


@pytest.mark.parametrize("name", OPS)
def test_op_is_consistent(name: str) -> None:
    fact = FACTS.op(name)
    assert fact is not None
    leaves = [leaf for overload in fact.overloads for _, leaf in overload.cases]
    assert leaves
    for each in (fact, *leaves):
        params = {p.lstrip("*") for overload in fact.overloads for p in overload.params}
        assert set(each.inputs) <= params
        assert {*each.result.carries, *each.result.may_carry} <= set(each.inputs)
        for table in (each.saving.saves, each.saving.may_save):
            for thing, triggers in table.items():
                assert thing in each.inputs or thing == "buffer" or thing.split(".")[0] == "result", thing
                assert {t.removesuffix(".other") for t in triggers} <= {*each.result.carries, *each.result.may_carry}
        assert (each.aliasing.view_of is None) == (each.aliasing.view == "no")
        assert each.aliasing.view_of is None or each.aliasing.view_of in each.inputs
        assert {*each.writing.mutates, *each.writing.may_mutate} <= set(each.inputs)
        if each.result.differentiable == "no":
            assert not each.saving.saves
            assert not each.result.carries
        if each.saving.saves and each.result.differentiable == "yes" and each.raising.backward == "no":
            assert each.raising.second_backward != "no"
            assert each.saving.frees or each.saving.may_free


@pytest.mark.parametrize("name", MODULES)
def test_module_is_consistent(name: str) -> None:
    fact = FACTS.module(name)
    assert fact is not None
    assert fact.name == name
    for mode in (fact.train, fact.eval):
        for table in (mode.saving.saves, mode.saving.may_save):
            assert all(t == "buffer" or t.split(".")[0] == "result" or t in mode.inputs for t in table)


@pytest.mark.parametrize("table", [torchfacts.OPERATORS, torchfacts.REFLECTED, torchfacts.IN_PLACE])
def test_operators_are_in_the_table(table: dict[str, str]) -> None:
    missing = [name for name in table.values() if FACTS.op(name) is None]
    assert not missing


def test_every_row_is_written_as_it_was_read() -> None:
    data = json.loads(resources.files("tapecheck.torchfacts").joinpath("facts.json").read_text())
    for name, row in data["ops"].items():
        if not isinstance(row, str):
            assert json.loads(json.dumps(write_op(read_op(name, row).overloads))) == row, name
    for name, row in data["modules"].items():
        if not isinstance(row, str) and "train" in row:
            assert json.loads(json.dumps(write_op(read_module(name, row).train.overloads))) == row["train"], name


def test_a_scalar_factor_is_narrowed() -> None:
    mul = FACTS.op("mul")
    assert mul is not None
    assert mul.for_call(("tensor", "nonzero")).saving.saves == {"buffer": ("self",)}
    assert mul.for_call(("tensor", "tensor")).saving.saves == {"self": ("other",), "other": ("self",)}
    unknown = mul.for_call(("tensor", "?"))
    assert unknown.saving.may_save == {"buffer": ("self",)}


def test_rank_decides_what_matmul_keeps() -> None:
    matmul = FACTS.op("matmul")
    assert matmul is not None
    assert matmul.saving.saves == {}
    assert set(matmul.saving.may_save) == {"buffer", "other", "self"}
    assert matmul.saving.frees == ("self", "other")
    assert matmul.for_call(("tensor", "matrix")).saving.saves == {"self": ("other",), "other": ("self",)}


def test_overloads_are_told_apart_by_kinds() -> None:
    fact = FACTS.op("max")
    assert fact is not None
    assert fact.result.outputs == "may"
    assert fact.for_call(("tensor",)).result.outputs == "tensor"
    assert fact.for_call(("tensor", "0")).result.outputs == "tuple"
    assert fact.for_call(("tensor",), {"dim": "nonzero"}).result.differentiable_outputs == (0,)
    assert fact.for_call(("tensor", "tensor")).result.outputs == "tensor"


def test_flags_decide() -> None:
    dropout = FACTS.op("nn.functional.dropout")
    relu = FACTS.op("nn.functional.relu")
    assert dropout is not None
    assert relu is not None
    assert dropout.for_call(("tensor",), {"training": "False"}).saving.saves == {}
    assert dropout.for_call(("tensor",)).saving.saves == {"buffer": ("input",)}
    assert dropout.for_call(("tensor",), {"training": "?"}).saving.may_save == {"buffer": ("input",)}
    assert relu.for_call(("tensor",), {"inplace": "True"}).writing.mutates == ("input",)
    assert relu.for_call(("tensor",)).writing.mutates == ()


def test_synonyms_and_packed_sizes_bind() -> None:
    view = FACTS.op("view")
    total = FACTS.op("sum")
    assert view is not None
    assert total is not None
    assert view.for_call(("tensor", "nonzero", "nonzero")).aliasing.view == "yes"
    assert total.for_call((), {"input": "tensor", "axis": "0", "keepdims": "True"}).saving.saves == {}


def test_arguments_that_fit_nothing_give_the_whole_fact() -> None:
    fact = FACTS.op("max")
    assert fact is not None
    assert fact.for_call(("tensor",), {"nonsense": "0"}) == fact


def test_module_is_narrowed_by_construction_and_call() -> None:
    attention = FACTS.module("MultiheadAttention")
    norm = FACTS.module("BatchNorm1d")
    assert attention is not None
    assert norm is not None
    built = ("nonzero", "nonzero")
    assert attention.for_call(built).train.result.outputs == "may"
    assert attention.for_call(built, {"forward.need_weights": "False"}).train.result.outputs == "(tensor, none)"
    assert attention.for_call(built, {"forward.need_weights": "True"}).train.result.outputs == "(tensor, tensor)"
    bare = norm.for_call(("nonzero",), {"track_running_stats": "False"})
    assert bare.train.writing.mutates == ()
    assert norm.for_call(("nonzero",)).train.writing.mutates == ("num_batches_tracked",)


def _fact(**values: object) -> OpFact:
    return op_fact("op", {"params": ("a", "b"), "inputs": ("a", "b"), **values})


def test_join_keeps_only_what_all_agree_on() -> None:
    left = _fact(saves={"a": ("b",), "result": ("a",)}, carries=("a", "b"), view="yes", view_of="a", nodes=("N",))
    right = _fact(saves={"a": ("b",)}, carries=("a",), differentiable="yes", outputs="tuple")
    both = join([left, right])
    assert both.saving.saves == {"a": ("b",)}
    assert both.saving.may_save == {"result": ("a",)}
    assert both.result.carries == ("a",)
    assert both.result.may_carry == ("b",)
    assert both.aliasing.view == "may"
    assert both.aliasing.view_of == "a"
    assert both.result.outputs == "may"


def test_join_takes_a_fact_about_an_absent_tensor_from_those_that_had_it() -> None:
    with_b = _fact(saves={"b": ("a",), "a": ("b",)}, carries=("a", "b"))
    without_b = op_fact("op", {"params": ("a",), "inputs": ("a",), "carries": ("a",)})
    both = join([with_b, without_b])
    assert both.saving.saves == {"b": ("a",), "a": ("b",)}
    assert both.saving.may_save == {}


def test_join_asks_nothing_of_a_tensor_that_could_not_require_grad() -> None:
    probabilities = _fact(saves={"a": ("a", "b")}, carries=("a", "b"), frees=("a", "b"))
    indices = _fact(saves={"a": ("a",)}, carries=("a",), frees=("a",), fixed=("b",))
    both = join([probabilities, indices])
    assert (both.result.carries, both.result.may_carry) == (("a", "b"), ())
    assert (both.saving.saves, both.saving.may_save) == ({"a": ("a", "b")}, {})
    assert (both.saving.frees, both.fixed) == (("a", "b"), ())


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (None, "None"),
        (True, "True"),
        (0, "0"),
        (0.0, "0"),
        (2, "nonzero"),
        (-1.5, "nonzero"),
        ("sum", "'sum'"),
        (1, "1"),
        ([1, 2], "list"),
        ((1,), "ones"),
        ([1, 1.0], "list"),
        (slice(1), "slice"),
        (..., "..."),
        (object(), "other"),
    ],
)
def test_kind_of(value: object, kind: str) -> None:
    assert kind_of(value) == kind


@given(st.sampled_from(KINDS), st.sampled_from(KINDS))
def test_what_is_the_same_or_unknown_is_compatible(wanted: str, kind: str) -> None:
    assert compatible(wanted, wanted)
    assert compatible(wanted, "?")
    if compatible(wanted, kind) and kind in ("number", "bool", "str"):
        assert wanted != "tensor"


@given(st.sampled_from(OPS), st.lists(st.sampled_from(KINDS), max_size=6))
def test_for_call_never_claims_more_than_some_case(name: str, args: list[str]) -> None:
    fact = FACTS.op(name)
    assert fact is not None
    narrowed = fact.for_call(args)
    seen = {
        (thing, trigger)
        for overload in fact.overloads
        for _, leaf in overload.cases
        for thing, triggers in leaf.saving.saves.items()
        for trigger in triggers
    }
    assert {(thing, t) for thing, triggers in narrowed.saving.saves.items() for t in triggers} <= seen


def test_binding_counts_what_is_missing() -> None:
    overload = Overload(("self", "dim"), (), {}, {}, (({}, _fact()),))
    assert overload.bind(("tensor",), {}) is None
    assert overload.bind(("tensor", "0", "0"), {}) is None
    assert overload.bind(("tensor",), {"dim": "0"}) == {"self": "tensor", "dim": "0"}
    assert overload.bind(("tensor",), {"self": "tensor", "dim": "0"}) is None
