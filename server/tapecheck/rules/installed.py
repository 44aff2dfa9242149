"""Rules of other packages, which these declare as entry points of the group `tapecheck.rules`."""

from __future__ import annotations

import os
import re
import sys
import warnings
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from tapecheck.rules.rule import Rule

GROUP = "tapecheck.rules"
OWN = "TAPE"
"""What the codes of Tapecheck's own rules begin with."""
_CODE = re.compile(r"[A-Z][A-Z0-9]*[0-9]")
_PARTS = {"fixes": "STRATEGIES = () says that there are none", "verdict": "a function `verdict` may return None"}


def installed() -> Iterator[Rule]:
    """Yield the rules that other packages declare. One that lacks a part is left out with a warning."""
    if not any(map(_is_declared_in, sys.path)):
        return
    from importlib.metadata import entry_points

    for entry in entry_points(group=GROUP):
        try:
            rule = entry.load()()
            _require_all(rule)
        except Exception as error:
            warnings.warn(f"the rule {entry.value} is left out: {type(error).__name__}: {error}", stacklevel=2)
        else:
            yield rule


def _require_all(rule: Rule) -> None:
    """Raise TypeError or ValueError where something is no rule, or lacks what belongs to one."""
    if not isinstance(rule, Rule):
        raise TypeError("it does not derive from tapecheck.rules.Rule")
    if not _CODE.fullmatch(rule.code) or rule.code.startswith(OWN):
        raise ValueError(f"its code is {rule.code!r}: capital letters, not {OWN}, and a number")
    for part, instead in _PARTS.items():
        if find_spec(f"{rule.folder}.{part}") is None:
            raise ValueError(f"{rule.folder} has no {part}.py: {instead}")
    assert rule.page


def _is_declared_in(folder: str) -> bool:
    """Return whether metadata in a folder of the import path name the group.

    `importlib.metadata` takes as long to import as a small file takes to check, and hardly anyone needs it.
    """
    try:
        with os.scandir(folder or ".") as entries:
            metadata = [entry.path for entry in entries if entry.name.endswith((".dist-info", ".egg-info"))]
    except OSError:
        return False
    return any(map(_names_the_group, metadata))


def _names_the_group(metadata: str) -> bool:
    try:
        return f"[{GROUP}]" in Path(metadata, "entry_points.txt").read_text(encoding="utf-8")
    except (OSError, ValueError):
        return False
