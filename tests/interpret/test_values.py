"""What values do by the methods of their classes, and what Python's own values do by the table of their types."""

from __future__ import annotations

import ast
from enum import IntEnum

import pytest

from tapecheck.check import check
from tapecheck.interpret.values import (
    BaseValue,
    Deferred,
    Dict,
    Lib,
    List,
    NotPlain,
    Range,
    Set,
    Storage,
    Tensor,
    Unknown,
    Value,
    behaviour,
    equal,
    hashable,
    identical,
    plain,
    settle_on,
    unkey,
)
from tapecheck.source import from_text


class Money(BaseValue):
    """A kind of value that nothing but this class knows of."""

    def __init__(self, amount: int) -> None:
        self.amount = amount

    def equals(self, other: BaseValue, machine: object) -> bool | Deferred | None:
        return self.amount == other.amount if isinstance(other, Money) else Deferred.TO_OTHER

    def as_key(self, left: list[int]) -> Value:
        return ("money", self.amount)

    def as_python(self, depth: int) -> int:
        return self.amount


def settled(constant: Value) -> Unknown:
    value = Unknown("n")
    settle_on(value, constant)
    return value


def test_a_new_kind_of_value_is_one_class() -> None:
    assert equal(Money(1), Money(1)) is True
    assert equal((1, Money(1)), (1, Money(2))) is False
    assert equal(Money(1), 1) is False
    assert hashable((Money(1), "x")) == (("money", 1), "x")
    assert plain(List([Money(1), 2])) == [1, 2]


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        (1, 1.0, True),
        ("a", ("a",), False),
        ((1, 2), (1, 2), True),
        ((1, 2), List([1, 2]), False),
        (List([1, 2]), List([1, 2]), True),
        (List([1]), List([1], more=True), None),
        (Set([1, 2]), Set([2, 1]), True),
        (Dict({"a": 1}), Dict({"a": Unknown("n")}), None),
        (Dict({"a": 1}), Dict({"b": 1}), False),
        (Range(0, 3), Range(0, 3), True),
        (Lib("torch.Tensor"), Lib("torch.autograd.Variable"), False),
        (Lib("torch.nn.Parameter"), Lib("torch.nn.parameter.Parameter"), True),
        (Lib("torch.Tensor"), 1, None),
        (Tensor(Storage(1)), 1, None),
        (settled(3), 3, True),
        (Unknown("n"), 3, None),
    ],
)
def test_equality_does_not_depend_on_the_side(left: Value, right: Value, expected: bool | None) -> None:
    assert equal(left, right) is expected
    assert equal(right, left) is expected


def test_an_object_is_identical_to_itself_alone() -> None:
    assert identical(None, None) is True
    assert identical(1, True) is False
    assert identical(List([]), List([])) is False
    assert identical(Unknown("n", node=1), None) is False
    assert identical(None, Unknown("n")) is None


def test_keys_stand_for_their_values() -> None:
    unknown = Unknown("n")
    for value in (1, "a", None, (1, "a")):
        assert unkey(hashable(value)) == value
    assert unkey(hashable(unknown)) is unknown
    assert hashable(settled(3)) == 3
    assert hashable(float("nan")) != float("nan")


def test_a_subclass_of_a_type_of_python_does_what_its_base_does() -> None:
    class Color(IntEnum):
        RED = 1

    assert hashable(Color.RED) == 1
    assert type(behaviour(Color.RED)) is type(behaviour(1))
    assert type(behaviour(object())) is not type(behaviour(1))


def test_what_is_not_all_known_is_not_plain() -> None:
    assert plain((1, Dict({"a": settled(2)}))) == (1, {"a": 2})
    for value in (Unknown("n"), List([1], more=True), (Unknown("n"),), Lib("torch")):
        with pytest.raises(NotPlain):
            plain(value)


def test_children_are_what_a_value_holds() -> None:
    assert list(behaviour((1, 2)).children()) == [1, 2]
    assert list(behaviour(Dict({"a": 1})).children()) == [1]
    assert list(behaviour("text").children()) == []
    function = ast.parse("lambda: 0", mode="eval").body
    assert list(behaviour(function).children()) == []


_OF_OTHERS = [
    "type(w) == float", "type(w) in (int, float)", "type(w) == int or type(w) == float", "type(w) is list",
    "type(w) == str", "type(w) in [dict, list]", "type(n) != float", "type(n) not in (int, float)",
]  # fmt: skip


@pytest.mark.parametrize("asked", _OF_OTHERS)
def test_what_the_type_of_something_excludes_is_not_done(asked: str) -> None:
    program = f"import torch\nfrom torch import nn\n\nw, n = nn.Linear(3, 1).weight, 1.5\nif {asked}:\n    w.add_(1)\n"
    assert check(from_text(program, "program.py")).findings == []
    pytest.importorskip("torch")
    exec(program, {})
