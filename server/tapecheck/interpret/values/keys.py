"""What the keys of dicts stand for: see `hashable`."""

from __future__ import annotations

from collections.abc import Hashable

from tapecheck.interpret.values.base import CONSTANTS, Identity, Value
from tapecheck.interpret.values.callable import Lib
from tapecheck.interpret.values.sequence import Set
from tapecheck.interpret.values.unknown import Unknown


def unkey(key: Hashable) -> Value:
    """Return the value that a dict key stands for."""
    if isinstance(key, tuple) and len(key) == 2 and key[0] == "?":
        return key[1].value if isinstance(key[1], Identity) else Unknown.plain("key")
    if isinstance(key, tuple) and len(key) == 2 and key[0] == "lib":
        return Lib(key[1])
    if isinstance(key, tuple):
        return tuple(unkey(item) for item in key)
    if isinstance(key, Identity):
        return key.value
    if isinstance(key, frozenset):
        return Set([unkey(item) for item in key])
    return key if isinstance(key, CONSTANTS) else Unknown.plain("key")
