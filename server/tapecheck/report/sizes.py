"""The wording of sizes."""

from __future__ import annotations

_UNITS = (("GB", 1e9), ("MB", 1e6), ("kB", 1e3))


def bytes_text(size: int) -> str:
    """Return bytes in readable units: `12 bytes`, `4.1 kB`, `3.1 MB`."""
    for unit, step in _UNITS:
        # What would be rounded to 1000.0 of a unit is 1.0 of the next.
        if size >= 0.99995 * step:
            return f"{size / step:.1f} {unit}"
    return "1 byte" if size == 1 else f"{size} bytes"
