"""Which ops give whole numbers where they get whole numbers: ``kinds.json``, read without torch.

``python -m tools.torchlab.kinds`` writes the file.
"""

from __future__ import annotations

import json
from functools import lru_cache
from importlib import resources


@lru_cache(maxsize=4)
def _stored(key: str) -> frozenset[str]:
    found = json.loads(resources.files(__package__).joinpath("kinds.json").read_bytes())
    return frozenset(found[key])


def is_whole(op: str) -> bool:
    """Return whether an op gives whole numbers whatever numbers its tensors hold."""
    return op in _stored("always")


def keeps_whole(op: str, *, beside_fraction: bool) -> bool:
    """Return whether an op gives whole numbers where its tensors hold them; `beside_fraction` where it is given a
    number besides that need not be whole.
    """
    return op in _stored("filled" if beside_fraction else "whole")
