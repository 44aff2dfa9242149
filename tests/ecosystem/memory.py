"""What a survey remembers, and what changed since: findings keep their identity when lines above them move."""

from __future__ import annotations

import json
import os
import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from itertools import zip_longest
from pathlib import Path

from tests.ecosystem.survey import Found

VERSION = 1
_LINES = re.compile(r"\blines? \d+(?:(?:, | and )\d+)*")


class MemoryFileError(Exception):
    """The memory file is there and cannot be used."""


@dataclass(slots=True)
class Changes:
    """What a survey found that the last one did not, the other way round, and what is now said otherwise."""

    new: list[Found] = field(default_factory=list)
    gone: list[Found] = field(default_factory=list)
    changed: list[tuple[Found, Found]] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.new or self.gone or self.changed)


def compare(before: Iterable[Found], now: Iterable[Found]) -> Changes:
    """What changed between two surveys.

    Two findings are the same one where repository, file, rule and text of the line agree; equal ones on several
    lines are paired in their order. Numbers of lines in a message do not count as a change.
    """
    changes = Changes()
    old, new = _by_identity(before), _by_identity(now)
    for identity in dict.fromkeys([*old, *new]):
        pairs = zip_longest(old.get(identity, []), new.get(identity, []))
        unequal = [pair for pair in pairs if None in pair or _said(pair[0]) != _said(pair[1])]
        left = [one for one, _ in unequal if one is not None]
        right = [one for _, one in unequal if one is not None]
        for finding in list(right):
            same = next((other for other in left if _said(other) == _said(finding)), None)
            if same is not None:
                left.remove(same)
                right.remove(finding)
        both = min(len(left), len(right))
        changes.changed.extend(zip(left[:both], right[:both], strict=True))
        changes.gone.extend(left[both:])
        changes.new.extend(right[both:])
    return changes


def _by_identity(findings: Iterable[Found]) -> dict[tuple[str, str, str, str], list[Found]]:
    groups: dict[tuple[str, str, str, str], list[Found]] = defaultdict(list)
    for found in sorted(findings, key=lambda found: (found.repository, found.path, found.line, found.code)):
        groups[found.repository, found.path, found.code, found.excerpt].append(found)
    return groups


def _said(found: Found) -> tuple[str, bool, str]:
    return (found.severity, found.certain, _LINES.sub("line", found.message))


def read(path: Path) -> list[Found] | None:
    """The findings of the last survey; None where there was none. Raises MemoryFileError."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise MemoryFileError(f"{path}: {error}") from error
    if not isinstance(data, dict) or data.get("version") != VERSION:
        raise MemoryFileError(f"{path}: not the memory of a survey (version {VERSION})")
    try:
        return [Found(**row) for row in data["findings"]]
    except (KeyError, TypeError) as error:
        raise MemoryFileError(f"{path}: {error}") from error


def write(path: Path, findings: Iterable[Found], kept: Iterable[Found] = ()) -> None:
    """Remember the findings, and those `kept` of repositories that were not looked at; whole or not at all."""
    found = sorted([*findings, *kept], key=lambda found: (found.repository, found.path, found.line, found.code))
    rows = [asdict(one) for one in found]
    text = json.dumps({"version": VERSION, "findings": rows}, indent=1)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.part")
    part.write_text(text + "\n", encoding="utf-8")
    os.replace(part, path)
