"""Which ops give back the very tensor that they are given: ``itself.json``, read without torch.

``python -m tools.torchlab.itself`` writes the file.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from functools import lru_cache
from importlib import resources
from typing import TypedDict

RANKS = range(5)
"""The numbers of dimensions that were measured."""


class _Stored(TypedDict):
    ops: dict[str, dict[str, dict[str, list[int]]]]
    beside: list[str]
    copied: list[str]


@lru_cache(maxsize=1)
def _stored() -> _Stored:
    found: _Stored = json.loads(resources.files(__package__).joinpath("itself.json").read_bytes())
    return found


def depends(op: str) -> bool:
    """Return whether it hangs on the dimensions, or the type, of a tensor that an op gives it back."""
    return op in _stored()["ops"]


def hangs_on_others(op: str) -> bool:
    """Return whether an op gives a tensor back where what it is given beside it has the same sizes."""
    return op in _stored()["beside"]


def copies(op: str) -> bool:
    """Return whether an op makes memory of its own where it does not give its tensor back."""
    return op in _stored()["copied"]


def comes_back(op: str, numbers: Mapping[str, int], ranks: Collection[int], *, real: bool | None) -> list[bool]:
    """Return whether a tensor comes back from an op, for each of the dimensions and types that it may have.

    Args:
        op: one of those that `depends` names.
        numbers: what it is given beside the tensor, by the names of its parameters.
        ranks: the numbers of dimensions that the tensor may have.
        real: whether it holds real numbers; None where it may hold complex ones.
    """
    table = _stored()["ops"][op].get(", ".join(f"{name}={number}" for name, number in numbers.items()), {})
    kinds = ("real", "complex") if real is None else ("real",) if real else ("complex",)
    return [rank in table.get(kind, ()) for kind in kinds for rank in ranks]
