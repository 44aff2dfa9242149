"""The wording of sizes, counts and parameters in verdicts."""

from __future__ import annotations

from collections.abc import Sequence

_SHOWN = 4
_UNITS = (("GB", 1e9), ("MB", 1e6), ("kB", 1e3))


def bytes_text(size: int) -> str:
    """Return bytes in readable units: `12 bytes`, `4.1 kB`, `3.1 MB`."""
    for unit, step in _UNITS:
        # What would be rounded to 1000.0 of a unit is 1.0 of the next.
        if size >= 0.99995 * step:
            return f"{size / step:.1f} {unit}"
    return "1 byte" if size == 1 else f"{size} bytes"


def names_text(names: Sequence[str], unnamed: int = 0) -> str:
    """Return the first few of some parameters, and how many more there are; `unnamed` of them have no name."""
    shown = ", ".join(f"`{name}`" for name in names[:_SHOWN])
    others = len(names[_SHOWN:]) + unnamed
    if not shown:
        return "1 parameter" if others == 1 else f"{others} parameters"
    return f"{shown} and {others} more" if others else shown


def times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def steps_text(count: int) -> str:
    return "the one step of its optimizer" if count == 1 else f"{count} steps of its optimizer"
