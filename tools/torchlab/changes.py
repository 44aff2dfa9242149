"""What changed from one ``facts.json`` to another, field by field. Standard library only."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

SECTIONS = ("general", "ops", "modules", "optimizers")
_ABSENT = "-"


def changes(old: Mapping[str, Any], new: Mapping[str, Any], *, counts: bool = False) -> Iterator[str]:
    """One line for each row that was added or removed, and for each field that changed.

    A field is named with the case it stands in: ``changed ops.norm [p=1] saves.self: - -> ["self"]``. How many calls
    were measured is left out unless `counts` says otherwise.
    """
    if old.get("torch") != new.get("torch"):
        yield f"torch {old.get('torch', _ABSENT)} -> {new.get('torch', _ABSENT)}"
    for section in SECTIONS:
        before, after = old.get(section, {}), new.get(section, {})
        for name in sorted(before.keys() | after.keys()):
            if name not in before or name not in after:
                yield f"{'added' if name not in before else 'removed'} {section}.{name}"
                continue
            left, right = _fields(_row(before, name)), _fields(_row(after, name))
            for field in sorted(left.keys() | right.keys()):
                if left.get(field) != right.get(field) and (counts or not field.endswith("samples")):
                    yield (
                        f"changed {section}.{name} {field}: {left.get(field, _ABSENT)} -> {right.get(field, _ABSENT)}"
                    )


def _row(table: Mapping[str, Any], name: str) -> Any:
    """Return a row, the one it refers to where it is the same as another's."""
    row = table[name]
    while isinstance(row, str):
        row = table[row]
    return row


def _fields(row: Any, where: str = "") -> dict[str, str]:
    """Return the fields of a row as text, by their names and the cases they stand in."""
    found: dict[str, str] = {}
    if isinstance(row, dict):
        for key, value in row.items():
            if key == "cases":
                for case in value:
                    conditions = case[0] if len(case) > 1 else {}
                    kinds = ", ".join(f"{param}={kind}" for param, kind in sorted(conditions.items()))
                    found.update(_fields(case[-1], f"{where}[{kinds}] " if kinds else where))
            elif isinstance(value, dict) or (isinstance(value, list) and value and isinstance(value[0], dict)):
                found.update(_fields(value, f"{where}{key}."))
            else:
                found[f"{where}{key}"] = _text(value)
    elif isinstance(row, list):
        for overload in row:
            several = f"{where}({', '.join(overload['params'])}) " if len(row) > 1 else where
            found.update(_fields(overload, several))
    else:
        found[where or "value"] = _text(row)
    return found


def _text(value: Any) -> str:
    # The order of names says nothing.
    return json.dumps(sorted(value) if isinstance(value, list) and all(isinstance(v, str) for v in value) else value)
