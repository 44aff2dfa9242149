"""Which rules are wanted: layers of `select` and `ignore`, of which the later ones go before, as Ruff has it.

Within a layer the more exact name decides: `select = ["TAPE2"]` beside `ignore = ["ALL"]` reports TAPE201.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tapecheck.source.suppress import ALL_RULES, names_rule

PerFile = tuple[tuple[str, tuple[str, ...]], ...]
"""Patterns of files, each with rules: codes, prefixes of codes or names."""


@dataclass(frozen=True, slots=True)
class Selection:
    """What a command line, an editor or a configuration file says of rules: codes, prefixes of codes or names.

    `select` None leaves the layer below as it is, but for `extend_select` and `ignore`. `per_file_ignores` None leaves
    those of the project, `extend_per_file_ignores` come beside them; their patterns are relative to `folder`.
    """

    select: tuple[str, ...] | None = None
    ignore: tuple[str, ...] = ()
    extend_select: tuple[str, ...] = ()
    per_file_ignores: PerFile | None = None
    extend_per_file_ignores: PerFile = ()
    folder: str = "."

    def decide(self, code: str, name: str, below: bool) -> bool:
        """Return whether a rule is wanted, given what the layers below make of it."""
        wanted = exactness((*(self.select or ()), *self.extend_select), code, name)
        unwanted = exactness(self.ignore, code, name)
        if wanted < 0 and unwanted < 0:
            return below if self.select is None else False
        return wanted > unwanted


@dataclass(frozen=True, slots=True)
class Wanted:
    """The rules that are wanted in one file: `layers`, the lowest first, but never those that `ignored` names."""

    layers: tuple[Selection, ...] = ()
    ignored: tuple[str, ...] = ()

    def wants(self, code: str, name: str) -> bool:
        """Return whether a rule is reported."""
        found = True
        for layer in self.layers:
            found = layer.decide(code, name, found)
        return found and not names_rule(self.ignored, code, name)


def severity_of(severities: Iterable[tuple[str, str]], code: str, name: str) -> str | None:
    """Return the severity that names, codes or prefixes of codes give a rule; None where none of them means it.

    A name or a whole code goes before a prefix, a longer prefix before a shorter one.
    """
    found = [(exactness((key,), code, name), level) for key, level in severities]
    exact, level = max(found, key=lambda one: one[0], default=(-1, ""))
    return level if exact >= 0 else None


def exactness(names: Sequence[str], code: str, name: str) -> int:
    """Return how exactly the best of some names means a rule: the length of its prefix, 0 for `ALL`, -1 for none."""
    lengths = {ALL_RULES: 0, name: len(code)}
    return max((lengths.get(one, len(one)) for one in names if names_rule([one], code, name)), default=-1)
