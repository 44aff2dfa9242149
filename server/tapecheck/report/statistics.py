"""How often each rule reports, the most frequent first."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from tapecheck.report.checked import Checked

_LEGEND = "[*] all have a safe fix (`--fix`), [-] some have, [ ] none has\n"


def render(files: Iterable[Checked], *, as_json: bool = False) -> str:
    """Return a line for each code that was reported: how often, the code, whether safe fixes exist, the name.

    `[*]` stands at codes all of whose findings have a safe fix, `[-]` where only some have one; the last line says so.
    """
    rows = _rows(files)
    if as_json:
        return json.dumps(rows, indent=2) + "\n"
    if not rows:
        return ""
    counts = max(len(str(row["count"])) for row in rows)
    codes = max(len(row["code"]) for row in rows)
    lines = []
    for row in rows:
        mark = "[*]" if row["fixable"] == row["count"] else "[-]" if row["fixable"] else "[ ]"
        lines.append(f"{row['count']:>{counts}}  {row['code']:<{codes}}  {mark}  {row['name']}\n")
    return "".join([*lines, _LEGEND])


def _rows(files: Iterable[Checked]) -> list[dict[str, Any]]:
    rows: dict[str, dict[str, Any]] = {}

    def row_of(code: str, name: str) -> dict[str, Any]:
        return rows.setdefault(code, {"code": code, "name": name, "count": 0, "fixable": 0})

    for file in files:
        for problem in file.problems:
            row_of(problem.kind, problem.kind)["count"] += 1
        for index, finding in enumerate(file.findings):
            row = row_of(finding.code, finding.name)
            row["count"] += 1
            row["fixable"] += any(fix.applicability == "safe" for fix in file.fixes_of(index))
    return sorted(rows.values(), key=lambda row: (-row["count"], row["code"]))
