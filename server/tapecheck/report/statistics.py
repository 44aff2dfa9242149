"""How often each rule reports, the most frequent first."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass

from tapecheck.report.checked import Checked

_LEGEND = "[*] all have a safe fix (`--fix`), [-] some have, [ ] none has\n"


def render(files: Iterable[Checked], *, as_json: bool = False) -> str:
    """Return a line for each code that was reported: how often, the code, whether safe fixes exist, the name.

    `[*]` stands at codes all of whose findings have a safe fix, `[-]` where only some have one; the last line says so.
    """
    rows = _rows(files)
    if as_json:
        return json.dumps([asdict(row) for row in rows], indent=2) + "\n"
    if not rows:
        return ""
    counts = max(len(str(row.count)) for row in rows)
    codes = max(len(row.code) for row in rows)
    lines = []
    for row in rows:
        mark = "[*]" if row.fixable == row.count else "[-]" if row.fixable else "[ ]"
        lines.append(f"{row.count:>{counts}}  {row.code:<{codes}}  {mark}  {row.name}\n")
    return "".join([*lines, _LEGEND])


@dataclass(slots=True)
class _Row:
    code: str
    name: str
    count: int = 0
    fixable: int = 0


def _rows(files: Iterable[Checked]) -> list[_Row]:
    rows: dict[str, _Row] = {}

    def row_of(code: str, name: str) -> _Row:
        return rows.setdefault(code, _Row(code, name))

    for file in files:
        for problem in file.problems:
            row_of(problem.kind, problem.kind).count += 1
        for index, finding in enumerate(file.findings):
            row = row_of(finding.code, finding.name)
            row.count += 1
            row.fixable += any(fix.applicability == "safe" for fix in file.fixes_of(index))
    return sorted(rows.values(), key=lambda row: (-row.count, row.code))
