"""The JSON schema of `tapecheck.toml`, for editors: `python -m tapecheck.source.schema` writes it to the docs.

The table `[tool.tapecheck]` of a `pyproject.toml` has the same keys.
"""

from __future__ import annotations

import json
from pathlib import Path

from tapecheck.source.configuration import KEYS, LEVELS, SEVERITIES, Kind

FILE = Path("docs/tapecheck.schema.json")
ADDRESS = "https://tapecheck.readthedocs.io/en/latest/tapecheck.schema.json"

_STRINGS: dict[str, object] = {"type": "array", "items": {"type": "string"}}
_SHAPES: dict[Kind, dict[str, object]] = {
    "rules": _STRINGS,
    "strings": _STRINGS,
    "patterns": _STRINGS,
    "flag": {"type": "boolean"},
    "level": {"enum": list(LEVELS)},
    "string": {"type": "string"},
    "rules by pattern": {"type": "object", "additionalProperties": _STRINGS},
    "severities": {"type": "object", "additionalProperties": {"enum": list(SEVERITIES)}},
}


def schema() -> dict[str, object]:
    """Return the schema."""
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$id": ADDRESS,
        "title": "Tapecheck",
        "description": "What tapecheck.toml holds, and [tool.tapecheck] in pyproject.toml.",
        "type": "object",
        "additionalProperties": False,
        "properties": {name: {"description": key.about, **_SHAPES[key.kind]} for name, key in KEYS.items()},
    }


def main() -> None:
    """Write the schema to the documentation."""
    FILE.write_text(json.dumps(schema(), indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
