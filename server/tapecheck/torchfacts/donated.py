"""What a compiled backward cannot do without: ``donated.json``, read without torch.

``python -m tools.torchlab.donated`` writes the file. Nodes are named as the dry run names them.
"""

from __future__ import annotations

import json
from functools import lru_cache
from importlib import resources


@lru_cache(maxsize=1)
def _stored() -> dict[str, frozenset[str]]:
    found = json.loads(resources.files(__package__).joinpath("donated.json").read_bytes())
    return {what: frozenset(names) for what, names in found.items() if what != "torch"}


def saves_its_own(op: str) -> bool:
    """Return whether a node has something saved beside its inputs and results."""
    return op in _stored()["own"]


def is_final(op: str) -> bool:
    """Return whether the result of a node is never computed anew."""
    return op in _stored()["final"]


def needs(op: str, saved: str) -> bool:
    """Return whether what a node saves, "result" or an input, must be saved as it is."""
    return op in _stored()["result" if saved == "result" else "given"]


def may_be_view(op: str) -> bool:
    """Return whether the result of a node may have the memory of an input."""
    return op in _stored()["views"]
