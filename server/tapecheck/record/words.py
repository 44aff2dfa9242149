"""The wording of counts and parameters in verdicts, and whose names are one."""

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


def last_name(name: str) -> str:
    return name.replace("[", ".").split(".")[-1].strip("]'\"")


def matches(recorded: str, predicted: str) -> bool:
    """Return whether two names of a parameter agree from the right: `model.fc.weight` and `self.fc.weight`."""
    left, right = recorded.split(".")[::-1], predicted.split(".")[::-1]
    common = 0
    for a, b in zip(left, right, strict=False):
        if a != b:
            break
        common += 1
    return common >= min(2, len(left), len(right))
