"""The wording of counts and parameters in verdicts."""

from __future__ import annotations

from collections.abc import Sequence

_SHOWN = 4


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
