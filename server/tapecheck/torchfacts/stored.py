"""Between facts and the rows of ``facts.json``. A row leaves out every field that has its default."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields, replace
from typing import Any

from tapecheck.torchfacts.model import ModuleFact, OpFact, OptimizerFact, Overload, join

_NOT_STORED = frozenset({"name", "overloads", "train", "eval"})


def _default(entry: Any) -> Any:
    return entry.default_factory() if entry.default is MISSING else entry.default


def write_fact(fact: OpFact | ModuleFact | OptimizerFact) -> dict[str, Any]:
    """The fields of a fact that differ from their defaults, as JSON takes them."""
    row: dict[str, Any] = {}
    for entry in fields(fact):
        if entry.name in _NOT_STORED:
            continue
        value = getattr(fact, entry.name)
        if value != _default(entry):
            row[entry.name] = value
    return row


def _read(cls: type[Any], name: str, row: Mapping[str, Any]) -> Any:
    known = {entry.name for entry in fields(cls)} - _NOT_STORED
    return cls(name=name, **{key: _frozen(value) for key, value in row.items() if key in known})


def _frozen(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_frozen(item) for item in value)
    if isinstance(value, dict):
        return {key: _frozen(item) for key, item in value.items()}
    return value


def write_op(overloads: tuple[Overload, ...]) -> list[dict[str, Any]]:
    """The row of an op: one entry per overload."""
    rows = []
    for overload in overloads:
        row: dict[str, Any] = {"params": overload.params}
        for key in ("keyword_only", "kinds", "defaults"):
            if getattr(overload, key):
                row[key] = getattr(overload, key)
        cases = []
        for conditions, fact in overload.cases:
            stored = write_fact(fact)
            stored.pop("params", None)
            cases.append([conditions, stored] if conditions else [stored])
        row["cases"] = cases
        rows.append(row)
    return rows


def read_op(name: str, rows: list[dict[str, Any]]) -> OpFact:
    """The fact of an op from its row.

    Raises:
        KeyError, TypeError: the row is not one that `write_op` wrote.
    """
    overloads = []
    for row in rows:
        params = tuple(row["params"])
        cases = []
        for case in row["cases"]:
            fact: OpFact = replace(_read(OpFact, name, case[-1]), params=params)
            cases.append((case[0] if len(case) > 1 else {}, fact))
        overloads.append(
            Overload(
                params,
                tuple(row.get("keyword_only", ())),
                _frozen(row.get("kinds", {})),
                row.get("defaults", {}),
                tuple(cases),
            )
        )
    joined = join([fact for overload in overloads for _, fact in overload.cases])
    return replace(joined, overloads=tuple(overloads))


def read_module(name: str, row: Mapping[str, Any]) -> ModuleFact:
    """The fact of a module class from its row."""
    fact: ModuleFact = _read(ModuleFact, name, row)
    for mode in ("train", "eval"):
        rows = row.get(mode) or (row.get("train") if mode == "eval" else None)
        if rows:
            measured = replace(read_op(mode, rows), params=fact.forward_params)
            fact = replace(fact, train=measured) if mode == "train" else replace(fact, eval=measured)
    return fact


def read_optimizer(name: str, row: Mapping[str, Any]) -> OptimizerFact:
    """The fact of an optimizer class from its row."""
    fact: OptimizerFact = _read(OptimizerFact, name, row)
    return fact
