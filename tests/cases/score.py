#!/usr/bin/env python3
"""Hold findings against measured truth: recall and precision, rule by rule.

    python tests/cases/score.py                       # the programs beside this file
    python tests/cases/score.py --misses              # and every miss and every false alarm
    python tests/cases/score.py --command 'other check --output-format json'

A finding is right when its rule is expected in that file and its row lies within the expected statement.
Each expected finding counts once; several findings of one rule in one row count as one. Fixed programs
(`NAME.fixed.py`) expect nothing.
"""

from __future__ import annotations

import argparse
import json
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PROGRAMS = Path(__file__).parent / "programs"
DEFAULT_COMMAND = f"{shlex.quote(sys.executable)} -m tapecheck check --no-fixes --output-format json"


@dataclass(frozen=True, slots=True)
class Expected:
    """A finding that the truth of a case demands; `last` is the last row of its statement."""

    rule: str
    line: int
    last: int


@dataclass(slots=True)
class Tally:
    """Counts for one rule."""

    hits: int = 0
    misses: int = 0
    alarms: int = 0

    @property
    def recall(self) -> float:
        """The share of expected findings that were found; 1 where none were expected."""
        return self.hits / (self.hits + self.misses) if self.hits + self.misses else 1.0

    @property
    def precision(self) -> float:
        """The share of findings that were right; 1 where there were none."""
        return self.hits / (self.hits + self.alarms) if self.hits + self.alarms else 1.0


@dataclass(slots=True)
class Score:
    """The tallies of all rules, and a line for each miss and each false alarm."""

    rules: dict[str, Tally] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    clean: int = 0
    clean_kept: int = 0

    @property
    def total(self) -> Tally:
        """All rules together."""
        total = Tally()
        for tally in self.rules.values():
            total.hits += tally.hits
            total.misses += tally.misses
            total.alarms += tally.alarms
        return total

    def table(self) -> str:
        """The tallies as text, one row for each rule and one for all."""
        rows = [f"{'rule':<30}{'hits':>6}{'misses':>8}{'alarms':>8}{'recall':>9}{'precision':>11}"]
        for rule, tally in [*sorted(self.rules.items()), ("all", self.total)]:
            rows.append(
                f"{rule:<30}{tally.hits:>6}{tally.misses:>8}{tally.alarms:>8}"
                f"{tally.recall:>9.3f}{tally.precision:>11.3f}"
            )
        rows.append(f"clean programs left alone: {self.clean_kept} of {self.clean}")
        return "\n".join(rows)


def expected_of(program: Path) -> list[Expected]:
    """What the truth beside a program demands; nothing for a fixed program."""
    if program.name.endswith(".fixed.py"):
        return []
    truth = json.loads(program.with_suffix(".json").read_text())
    return [Expected(f["rule"], f["line"], f.get("end_line") or f["line"]) for f in truth["findings"]]


def programs_in(folder: Path) -> list[Path]:
    """All programs of a folder that have a truth, and the fixed ones."""
    return sorted(
        path for path in folder.glob("*.py") if path.name.endswith(".fixed.py") or path.with_suffix(".json").exists()
    )


def findings_of(programs: Sequence[Path], command: str = DEFAULT_COMMAND) -> dict[str, list[dict[str, Any]]]:
    """What a command that prints Ruff-shaped JSON finds, by file name; it sees copies without the truth."""
    with tempfile.TemporaryDirectory() as folder:
        for program in programs:
            shutil.copy(program, folder)
        done = subprocess.run([*shlex.split(command), folder], capture_output=True, text=True, check=False)
    try:
        rows = json.loads(done.stdout)
    except json.JSONDecodeError:
        sys.exit(f"{command}: printed no JSON (exit status {done.returncode})\n{done.stderr[-2000:]}")
    found: dict[str, list[dict[str, Any]]] = {program.name: [] for program in programs}
    for row in rows:
        found[Path(row["filename"]).name].append(row)
    return found


def score(programs: Iterable[Path], found: Mapping[str, Sequence[Mapping[str, Any]]]) -> Score:
    """Hold findings (by file name) against the truth of programs."""
    result = Score()
    for program in programs:
        wanted = expected_of(program)
        left = {(row["name"], row["location"]["row"]): row for row in found.get(program.name, ())}
        for expected in wanted:
            tally = result.rules.setdefault(expected.rule, Tally())
            at = next(
                (key for key in left if key[0] == expected.rule and expected.line <= key[1] <= expected.last),
                None,
            )
            if at is None:
                tally.misses += 1
                result.lines.append(f"missed       {program.name}:{expected.line} {expected.rule}")
            else:
                tally.hits += 1
                del left[at]
        for (rule, row), finding in left.items():
            result.rules.setdefault(rule, Tally()).alarms += 1
            message = finding["message"].partition("\n")[0]
            result.lines.append(f"false alarm  {program.name}:{row} {rule}: {message}")
        if not wanted:
            result.clean += 1
            result.clean_kept += not left
    return result


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=PROGRAMS, help="programs with their truth")
    parser.add_argument("--command", default=DEFAULT_COMMAND, help="what checks; the folder is added to it")
    parser.add_argument("--misses", action="store_true", help="list every miss and every false alarm")
    options = parser.parse_args()
    programs = programs_in(options.folder)
    result = score(programs, findings_of(programs, options.command))
    if options.misses:
        print("\n".join(result.lines))
    print(result.table())


if __name__ == "__main__":
    main()
