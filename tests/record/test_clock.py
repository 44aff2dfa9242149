"""Verdicts hang on counted work and not on how fast the machine is."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tapecheck.check import check
from tapecheck.record import RunRequest, confirm
from tapecheck.record.run import PROBE
from tapecheck.rules import ALL, Finding
from tapecheck.source import read_source
from tests.record.harness import QUIET
from tests.record.test_evidence import MISTAKES, ON_ONE_LINE
from tests.record.test_places import CYCLES, TRAIN_ALONE

PROGRAMS = {
    "mistakes": MISTAKES,
    "one-line": ON_ONE_LINE,
    "cycles": CYCLES.format(models=4),
    "kept": TRAIN_ALONE,
}
RATES = ("0.1", "1", "10")
EXAMPLES = {rule.code: rule.page.invalid[0].program for rule in ALL}


def _judged(folder: Path, text: str, python: str, rate: str) -> list[Finding]:
    script = folder / "train.py"
    script.write_text(text)
    found = check(read_source(str(script))).findings
    request = RunRequest(str(script), python=python, cwd=str(folder), env={**QUIET, "TAPECHECK_CLOCK_RATE": rate})
    return confirm(str(script), request, found)[1]


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_fast_and_a_slow_clock_give_the_same_verdicts(tmp_path: Path, python: str, name: str) -> None:
    said = {rate: _said(_judged(tmp_path, PROGRAMS[name], python, rate)) for rate in RATES}
    assert said["1"] and said["0.1"] == said["1"] == said["10"]


@pytest.mark.parametrize("code", EXAMPLES)
def test_no_rules_verdict_hangs_on_the_clock(tmp_path: Path, python: str, code: str) -> None:
    slow, fast = (_said(_judged(tmp_path, EXAMPLES[code], python, rate)) for rate in ("0.1", "10"))
    assert slow == fast
    assert any(one[0] == code for one in slow)


def _said(findings: list[Finding]) -> list[tuple[object, ...]]:
    return [
        (finding.code, finding.span, finding.notes, finding.evidence and finding.evidence.verdict)
        for finding in findings
    ]


def test_a_verdict_that_the_clock_cut_short_says_so(tmp_path: Path, python: str) -> None:
    of_loop = {
        rate: next(one for one in _judged(tmp_path, ON_ONE_LINE, python, rate) if one.code == "TAPE201")
        for rate in ("1", "1e9")
    }
    whole, cut = of_loop["1"], of_loop["1e9"]
    assert whole.evidence is not None and whole.evidence.verdict == "refuted"
    assert cut.evidence is None
    assert cut.notes[:-1] == whole.notes
    assert cut.notes[-1].startswith("too little was measured: the recorder stopped looking at what is kept after ")


@pytest.mark.parametrize("name", ["holds", "alive", "passing", "unused", "rest", "discarded", "hidden"])
def test_what_decides_what_is_looked_at_has_no_clock_of_its_own(name: str) -> None:
    tree = ast.parse(PROBE.with_name(f"{name}.py").read_text())
    imported = {
        alias.name for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom)) for alias in node.names
    }
    assert "time" not in imported
