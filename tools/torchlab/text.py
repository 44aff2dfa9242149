"""The text of a file of facts: sorted, one op a line. Standard library only."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def dump(data: Mapping[str, Any]) -> str:
    """Return a table as it is kept; two tables are the same where their texts are."""

    def line(value: Any) -> str:
        return json.dumps(value, sort_keys=True, separators=(",", ":"))

    sections = []
    for key in sorted(data):
        value = data[key]
        if isinstance(value, dict) and key != "general":
            body = ",\n".join(f"{line(name)}:{line(value[name])}" for name in sorted(value))
            sections.append(f"{line(key)}:{{\n{body}\n}}")
        else:
            sections.append(f"{line(key)}:{line(value)}")
    return "{\n" + ",\n".join(sections) + "\n}\n"
