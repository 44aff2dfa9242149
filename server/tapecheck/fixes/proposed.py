"""The strategies of each rule, which stand in its folder: loaded when fixes are asked for."""

from __future__ import annotations

from importlib import import_module

from tapecheck.fixes.candidate import Strategy
from tapecheck.rules import ALL


def strategies_of(code: str) -> tuple[Strategy, ...]:
    """Return the strategies of a rule, preferred first; none for what is no rule.

    A rule without fixes says so: its `STRATEGIES` are empty.
    """
    rule = next((rule for rule in ALL if rule.code == code), None)
    if rule is None:
        return ()
    found: tuple[Strategy, ...] = import_module(f"{rule.folder}.fixes").STRATEGIES
    return found
