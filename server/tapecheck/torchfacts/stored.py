"""Between facts and the rows of ``facts.json``. A row leaves out every field that has its default."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, fields, replace
from typing import Any

from tapecheck.torchfacts.model import (
    OTHER,
    Aliasing,
    GradientGraph,
    ModuleFact,
    OpFact,
    OptimizerFact,
    Overload,
    Raising,
    Result,
    Saving,
    Writing,
    join,
)

_NOT_STORED = frozenset({"name", "overloads", "train", "eval"})
_PARTS: dict[str, type[Any]] = {
    "saving": Saving, "aliasing": Aliasing, "writing": Writing, "result": Result, "gradient": GradientGraph,
    "raising": Raising,
}  # fmt: skip
"""The parts of an op's fact, whose fields stand beside each other in a row."""
_KEYS = {
    ("raising", "second_backward"): "second_backward_raises", ("raising", "call"): "raises_on_grad",
    ("raising", "backward"): "backward_raises", ("gradient", "inputs"): "grad_graph",
    **{("gradient", one.name): f"grad_{one.name}" for one in fields(GradientGraph) if one.name != "inputs"},
}  # fmt: skip
"""What fields of parts are called in a row, where that is not their name."""
_TABLES = ("saves", "may_save", "grad_graph", "grad_saves", "grad_chain_saves")
_ALL = "*"
"""In a stored table: every input that carries a gradient."""
_WITH_RESULT = "*+"
"""The same, and the result."""
_USUAL: dict[str, object] = {"n_outputs": 1, "differentiable_outputs": (0,), "differentiable": "yes"}
"""What most ops are, and so what an absent field of an op's row means."""


def _default(entry: Field[object]) -> object:
    return entry.default if entry.default_factory is MISSING else entry.default_factory()


_FIELDS: dict[str, tuple[str, str]] = {
    _KEYS.get((part, one.name), one.name): (part, one.name) for part, kind in _PARTS.items() for one in fields(kind)
}
"""The part and the field of an op's fact that a key of a row is about."""


def write_fact(fact: OpFact | ModuleFact | OptimizerFact) -> dict[str, object]:
    """Return the fields of a fact that differ from their defaults, as JSON takes them."""
    row: dict[str, object] = {}
    for entry in fields(fact):
        value = getattr(fact, entry.name)
        if entry.name in _PARTS:
            row.update({_KEYS.get((entry.name, key), key): inner for key, inner in _differing(value).items()})
        elif entry.name not in _NOT_STORED and value != _default(entry):
            row[entry.name] = value
    return row


def _differing(part: Any) -> dict[str, object]:
    """Return the fields of a part that differ from their defaults."""
    values = {entry.name: (getattr(part, entry.name), _default(entry)) for entry in fields(part)}
    return {name: value for name, (value, default) in values.items() if value != default}


def op_fact(name: str, row: Mapping[str, Any]) -> OpFact:
    """Return the fact of one case of an op, whose parts have the fields that a row gives by its own keys."""
    own: dict[str, Any] = {}
    parts: dict[str, dict[str, Any]] = {}
    for key, value in row.items():
        if key in _FIELDS:
            part, inner = _FIELDS[key]
            parts.setdefault(part, {})[inner] = _frozen(value)
        elif key in _OWN:
            own[key] = _frozen(value)
    return OpFact(name=name, **own, **{part: _PARTS[part](**given) for part, given in parts.items()})


_OWN = frozenset(one.name for one in fields(OpFact)) - _NOT_STORED - _PARTS.keys()


def _triggers(row: Mapping[str, Any], inputs: Sequence[str]) -> set[str]:
    """Return the inputs that a row says have something saved."""
    found: set[str] = set()
    for names in row.get("saves", {}).values():
        every = row.get("carries", inputs) if isinstance(names, str) else names
        found.update(name.removesuffix(OTHER) for name in every)
    return found


def _implied(row: Mapping[str, Any], params: Sequence[str]) -> dict[str, Any]:
    """Fields an op's row has unless it says otherwise; `params` are the overload's."""
    inputs = row.get("inputs", tuple(p.lstrip("*") for p in params[:1]))
    freed = bool(row.get("saves") or row.get("may_save"))
    implied = {
        **_USUAL,
        "inputs": inputs,
        "carries": inputs,
        "second_backward_raises": "yes" if freed else "no",
        "frees": tuple(name for name in inputs if name in _triggers(row, inputs)),
        "grad_frees": tuple(name for name in inputs if name in row.get("grad_graph", ())),
        "grad_chain_frees": row.get("carries", inputs) if freed else (),
    }
    if row.get("mutates"):
        implied.update(view_of=row["mutates"][0], view="yes", returns_input="yes")
    return implied


def _packed(table: Mapping[str, tuple[str, ...]], carries: tuple[str, ...]) -> dict[str, object]:
    every = set(carries)
    packed: dict[str, object] = {
        k: _ALL if len(every) > 1 and set(v) == every else _WITH_RESULT if set(v) == {*every, "result"} else v
        for k, v in table.items()
    }
    rows = list(packed.values())
    # One row for all inputs where theirs are the same, as in composites.
    if len(every) > 2 and set(packed) == every and all(row == rows[0] for row in rows):
        return {_ALL: rows[0]}
    return packed


def _unpacked(row: Mapping[str, Any]) -> dict[str, Any]:
    carries = row["carries"]
    if "grad_saves" in row:
        # A gradient coming in that has a graph most often changes nothing.
        row = {"grad_chain_saves": row["grad_saves"], **row}
    short = {_ALL: carries, _WITH_RESULT: (*carries, "result")}
    tables = {}
    for key in _TABLES:
        table = row.get(key, {})
        if set(table) == {_ALL}:
            table = dict.fromkeys(carries, table[_ALL])
        if key in row:
            tables[key] = {k: short[v] if isinstance(v, str) else v for k, v in table.items()}
    return {**row, **tables}


def write_op_fact(fact: OpFact, params: Sequence[str]) -> dict[str, Any]:
    """`write_fact` for one case of an op whose overload has `params`."""
    row = write_fact(fact)
    row.pop("params", None)
    row.update({key: _packed(_stored(fact, key), fact.result.carries) for key in _TABLES if key in row})
    chained = row.pop("grad_chain_saves", {})
    if chained != row.get("grad_saves", {}):
        row["grad_chain_saves"] = chained
    if fact.inputs == tuple(p.lstrip("*") for p in params[:1]):
        row.pop("inputs", None)
    else:
        row["inputs"] = fact.inputs
    for key, usual in _implied(row, params).items():
        if key == "inputs":
            continue
        value = _stored(fact, key)
        if value == usual:
            row.pop(key, None)
        else:
            row[key] = value
    return row


def _stored(fact: OpFact, key: str) -> Any:
    """Return what a fact has under a key of its row."""
    part, name = _FIELDS[key]
    return getattr(getattr(fact, part), name)


def _read(cls: type[Any], name: str, row: Mapping[str, Any]) -> Any:
    known = {entry.name for entry in fields(cls)} - _NOT_STORED
    return cls(name=name, **{key: _frozen(value) for key, value in row.items() if key in known})


def _frozen(value: object) -> Any:
    if isinstance(value, list):
        return tuple(_frozen(item) for item in value)
    if isinstance(value, dict):
        return {key: _frozen(item) for key, item in value.items()}
    return value


def write_op(overloads: tuple[Overload, ...]) -> list[dict[str, Any]]:
    """Return the row of an op: one entry per overload."""
    rows = []
    for overload in overloads:
        row: dict[str, Any] = {"params": overload.params}
        if overload.keyword_only:
            row["keyword_only"] = overload.keyword_only
        if overload.kinds:
            row["kinds"] = overload.kinds
        if overload.defaults:
            by_kind: dict[str, list[str]] = {}
            for param, kind in overload.defaults.items():
                by_kind.setdefault(kind, []).append(param)
            row["defaults"] = by_kind
        cases = []
        for conditions, fact in overload.cases:
            stored = write_op_fact(fact, overload.params)
            cases.append([conditions, stored] if conditions else [stored])
        row["cases"] = cases
        rows.append(row)
    return rows


def read_op(name: str, rows: list[dict[str, Any]], params: tuple[str, ...] | None = None) -> OpFact:
    """Return the fact of an op from its row; `params` are the facts' parameters where they are not the overload's.

    Raises:
        KeyError, TypeError: the row is not one that `write_op` wrote.
    """
    overloads = []
    for row in rows:
        own = tuple(row["params"])
        cases = []
        for case in row["cases"]:
            given = _unpacked({**_implied(case[-1], own), **case[-1]})
            fact = op_fact(name, {**given, "params": own if params is None else params})
            cases.append((case[0] if len(case) > 1 else {}, fact))
        overloads.append(
            Overload(
                own,
                tuple(row.get("keyword_only", ())),
                _frozen(row.get("kinds", {})),
                {param: kind for kind, named in row.get("defaults", {}).items() for param in named},
                tuple(cases),
            )
        )
    joined = join([fact for overload in overloads for _, fact in overload.cases])
    return replace(joined, overloads=tuple(overloads))


def read_module(name: str, row: Mapping[str, Any]) -> ModuleFact:
    """Return the fact of a module class from its row."""
    fact: ModuleFact = _read(ModuleFact, name, row)
    for mode in ("train", "eval"):
        rows = row.get(mode) or (row.get("train") if mode == "eval" else None)
        if rows:
            measured = read_op(name, rows, fact.forward_params)
            fact = replace(fact, train=measured) if mode == "train" else replace(fact, eval=measured)
    return fact


def read_optimizer(name: str, row: Mapping[str, Any]) -> OptimizerFact:
    """Return the fact of an optimizer class from its row."""
    fact: OptimizerFact = _read(OptimizerFact, name, row)
    return fact
