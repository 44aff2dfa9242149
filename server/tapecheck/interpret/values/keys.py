"""What the keys of dicts stand for: see `hashable`."""

from __future__ import annotations

from collections.abc import Hashable

from tapecheck.interpret.values.base import Identity, Value, is_constant
from tapecheck.interpret.values.callable import Lib
from tapecheck.interpret.values.sequence import Set
from tapecheck.interpret.values.unknown import Unknown


def unkey(key: Hashable) -> Value:
    """Return the value that a dict key stands for."""
    match key:
        case ("?", Identity(value=value)) | Identity(value=value):
            return value
        case ("?", _):
            return Unknown.plain("key")
        case ("lib", str(path)):
            return Lib(path)
        case tuple():
            return tuple(unkey(item) for item in key)
        case frozenset():
            return Set([unkey(item) for item in key])
    return key if is_constant(key) else Unknown.plain("key")
