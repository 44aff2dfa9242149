"""Hold a survey's findings against places that people labelled before they looked at what the tool says.

    python -m tests.ecosystem FOLDER --memory survey.json
    python -m tests.ecosystem.recall survey.json [LABELS]

`labels.tsv`, and `later.tsv` of a later survey, name places in public repositories, with the commit, no code: what
should be said there (`true`), and what tempts and should not be said (`false`). A line is that of the store, the call
or the head of the loop; in a notebook it is `cell:line`. Rules are joined by `|` where either tells the story. Files
that import one with labels are surveyed with it, as `tapecheck check FILE` does.
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path

from tapecheck.source.cells import split_cell
from tests.ecosystem.memory import read
from tests.ecosystem.survey import Found

LABELS = Path(__file__).with_name("labels.tsv")
NEAR = 16
"""A finding may stand at the head of a loop or at a call in it."""


@dataclass(frozen=True, slots=True)
class Label:
    """A place in a repository and whether a finding of one of the rules should be there."""

    repository: str
    commit: str
    path: str
    cell: int | None
    line: int
    rules: tuple[str, ...]
    expected: bool


def labels(text: str | None = None) -> list[Label]:
    """Return the labels of a table, those that are kept where none is given."""
    rows = (LABELS.read_text(encoding="utf-8") if text is None else text).splitlines()
    found: list[Label] = []
    for row in rows:
        if row.startswith("#") or not row:
            continue
        repository, commit, path, place, rules, verdict = row.split("\t")
        cell, _, line = place.rpartition(":")
        number = int(cell) if cell else None
        found.append(Label(repository, commit, path, number, int(line), tuple(rules.split("|")), verdict == "true"))
    return found


def compare(wanted: list[Label], findings: list[Found]) -> tuple[list[Label], list[Label], list[Label]]:
    """Return the labels that are found, those that are missed, and those that are told and should not be.

    A finding tells a label near its line, or at the head of the loop that it speaks of.
    """
    by_file: dict[tuple[str, str], list[tuple[int | None, int, str]]] = defaultdict(list)
    loops: dict[tuple[str, str], set[tuple[int | None, int | None, str]]] = defaultdict(set)
    for one in findings:
        path, cell = split_cell(one.path)
        by_file[one.repository.replace("+", "/", 1), path].append((cell, one.line, one.code))
        loops[one.repository.replace("+", "/", 1), path].add((cell, one.loop, one.code))
    found: list[Label] = []
    missed: list[Label] = []
    wrong: list[Label] = []
    for label in wanted:
        far = NEAR if label.expected else 0
        told = any(
            code in label.rules and cell == label.cell and abs(line - label.line) <= far
            for cell, line, code in by_file[label.repository, label.path]
        ) or (
            label.expected
            and any((label.cell, label.line, code) in loops[label.repository, label.path] for code in label.rules)
        )
        if label.expected:
            (found if told else missed).append(label)
        elif told:
            wrong.append(label)
    return found, missed, wrong


def main(arguments: list[str]) -> int:
    """Print what is found and missed by rule, and every place that is missed or told wrongly."""
    findings = read(Path(arguments[0])) if len(arguments) in (1, 2) else None
    if findings is None:
        print(__doc__)
        return 2
    there = {one.repository.replace("+", "/", 1) for one in findings}
    table = Path(arguments[1]).read_text(encoding="utf-8") if len(arguments) == 2 else None
    wanted = [label for label in labels(table) if label.repository in there]
    found, missed, wrong = compare(wanted, findings)
    for rules in sorted({label.rules for label in found + missed}):
        counts = Counter(label in found for label in found + missed if label.rules == rules)
        print(f"{'|'.join(rules):20} {counts[True]:4} of {counts[True] + counts[False]}")
    print(f"{len(found)} of {len(found) + len(missed)} found, {len(wrong)} told that should not be")
    for kind, places in (("missed", missed), ("wrong", wrong)):
        for label in places:
            print(f"{kind}: {label.repository}/{label.path}:{label.line} {'|'.join(label.rules)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
