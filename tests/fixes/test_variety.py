"""The same bugs in many shapes: each finding has a fix, each fix holds under torch, and safe ones change nothing.

`programs/CODE.txt` holds small programs with a finding of that rule, each under a line `### NAME`; `crlf` behind
the name says that its lines end as on Windows.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tapecheck.fixes import Fix, fixes_for
from tests.cases import under_torch
from tests.fixes.support import fixed, report_of

PROGRAMS = Path(__file__).parent / "programs"
SETUP = "import torch\nfrom torch import nn\nimport torch.nn.functional as F\n\ntorch.manual_seed(0)\n"

needs_torch = pytest.mark.skipif(not under_torch.has_torch(), reason="torch is not installed")


@dataclass(frozen=True)
class Program:
    code: str
    name: str
    text: str


@dataclass(frozen=True)
class Offer:
    program: Program
    line: int
    fix: Fix
    text: str

    @property
    def name(self) -> str:
        return f"{self.program.name}:{self.line} {self.fix.title}"


@cache
def programs() -> list[Program]:
    found = []
    for path in sorted(PROGRAMS.glob("*.txt")):
        for part in re.split(r"^### ", path.read_text(), flags=re.MULTILINE)[1:]:
            heading, body = part.split("\n", 1)
            name, *options = heading.split()
            text = f"{SETUP}{body}"
            found.append(Program(path.stem, name, text.replace("\n", "\r\n") if "crlf" in options else text))
    return found


@cache
def offers() -> list[Offer]:
    found = []
    for program in programs():
        report = report_of(program.text, f"{program.name}.py")
        for finding in report.findings:
            if finding.code == program.code:
                for fix in fixes_for(report, finding):
                    found.append(Offer(program, finding.span.line, fix, fixed(program.text, fix)))
    return found


@cache
def outcomes() -> tuple[dict[str, dict[str, Any]], list[tuple[Offer, dict[str, Any]]]]:
    """How the programs end, by name, and how each fixed one does."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        requests = []
        for index, text in enumerate([*(p.text for p in programs()), *(offer.text for offer in offers())]):
            path = Path(folder) / f"program_{index}.py"
            path.write_bytes(text.encode())
            requests.append({"path": path})
        ended = under_torch.run_all(requests)
    before = {program.name: outcome for program, outcome in zip(programs(), ended, strict=False)}
    return before, list(zip(offers(), ended[len(programs()) :], strict=True))


def test_every_finding_has_a_fix() -> None:
    found = {(offer.program.name, offer.line) for offer in offers()}
    without = []
    for program in programs():
        report = report_of(program.text, f"{program.name}.py")
        lines = [finding.span.line for finding in report.findings if finding.code == program.code]
        assert lines, f"{program.name}: no finding"
        without += [(program.name, line) for line in lines if (program.name, line) not in found]
    assert not without


def test_no_two_fixes_of_a_finding_read_the_same() -> None:
    read = [(offer.program.name, offer.line, offer.fix.title) for offer in offers()]
    assert len(read) == len(set(read))


def test_a_fix_keeps_the_line_ends_of_its_file() -> None:
    for offer in offers():
        if "\r\n" in offer.program.text:
            assert "\n" not in offer.text.replace("\r\n", ""), offer.name
        else:
            assert "\r" not in offer.text, offer.name


def test_a_fix_keeps_the_comments_of_other_lines() -> None:
    """A comment goes only with the line that the fix takes out."""
    for offer in offers():
        touched = {
            line for edit in offer.fix.edits for line in range(edit.span.line, edit.span.end_line + 1)
        }  # fmt: skip
        for number, line in enumerate(offer.program.text.splitlines(), start=1):
            comment = line.partition("  # ")[2]
            if comment and number not in touched:
                assert comment in offer.text, offer.name


@needs_torch
def test_every_fix_runs_under_torch() -> None:
    _, after = outcomes()
    assert not [
        (offer.name, outcome["exception"], outcome["message"]) for offer, outcome in after if outcome["exception"]
    ]


@needs_torch
def test_safe_fixes_learn_what_the_original_learned_as_long_as_it_ran() -> None:
    """The parameters after each step are those of the original up to its exception, and at the end if it had none."""
    before, after = outcomes()
    different = []
    compared = 0
    for offer, outcome in after:
        if offer.fix.applicability != "safe":
            continue
        original = before[offer.program.name]
        steps = original["steps"]
        same = outcome["steps"][: len(steps)] == steps
        if original["exception"] is None:
            same = same and len(outcome["steps"]) == len(steps) and outcome["parameters"] == original["parameters"]
        compared += bool(steps)
        if not same:
            different.append(offer.name)
    assert not different
    assert compared > 40
