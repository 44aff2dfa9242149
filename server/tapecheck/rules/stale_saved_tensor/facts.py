"""How a saved tensor was changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tapecheck.rules.facts import Facts


@dataclass(frozen=True, slots=True, kw_only=True)
class StaleSavedTensorFacts(Facts):
    """`kind` says whether the graph was carried over from an earlier iteration; `optimizer` is what stepped.

    `broadcast` says that DistributedDataParallel wrote a buffer of the model.
    """

    kind: Literal["carried", "in-place"]
    optimizer: str | None
    broadcast: bool = False
