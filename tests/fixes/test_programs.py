"""Every program with a finding: what is offered runs under torch, and what is called safe changes no learning."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tapecheck.fixes import Fix, fixes_for
from tapecheck.rules import ALL
from tests.cases import under_torch
from tests.fixes.support import PROGRAMS, finding_of, fixed, report_of

CODES = {rule.name: rule.code for rule in ALL}
# The inner step of MAML is written anew as a whole, or not at all.
# Where a number, an index or another network stands in for a tensor, somebody has to say what was meant.
WITHOUT_A_FIX = {
    ("maml_data_inner_step", "TAPE402"),
    ("learned_range_by_item", "TAPE402"),
    ("network_rebuilt_after_optimizer", "TAPE402"),
    ("router_by_topk_indices", "TAPE402"),
    ("critic_update_never_stepped", "TAPE404"),
    # A penalty that is computed once, in a constructor: detached it would have no effect (TAPE407).
    ("deepfm_reg_in_ctor", "TAPE101"),
    # `unscale_` may run once a step, not once a backward.
    ("amp_clip_each_microbatch", "TAPE501"),
    # Nothing differentiable stands for an accuracy.
    ("term_accuracy_in_loss", "TAPE407"),
}

needs_torch = pytest.mark.skipif(not under_torch.has_torch(), reason="torch is not installed")


@dataclass(frozen=True)
class Offer:
    program: Path
    code: str
    number: int
    fix: Fix
    text: str

    @property
    def name(self) -> str:
        return f"{self.program.stem}: {self.code}, {self.fix.title}"


def truth_of(program: Path) -> dict[str, Any]:
    truth: dict[str, Any] = json.loads(program.with_suffix(".json").read_text())
    return truth


@cache
def offers() -> tuple[list[Offer], set[tuple[str, str]]]:
    """All fixes offered for the expected findings, and the findings (program, code) that have none."""
    found: list[Offer] = []
    without: set[tuple[str, str]] = set()
    for program in sorted(PROGRAMS.glob("*.py")):
        if program.name.endswith(".fixed.py"):
            continue
        wanted = [(CODES[want["rule"]], want["line"]) for want in truth_of(program)["findings"]]
        text = program.read_text()
        report = report_of(text, program.name) if wanted else None
        for number, (code, line) in enumerate(wanted):
            assert report is not None
            if not any(finding.code == code for finding in report.findings):
                continue
            finding = finding_of(report, code, line)
            fixes = fixes_for(report, finding)
            if not fixes:
                without.add((program.stem, code))
            found.extend(Offer(program, code, number, fix, fixed(text, fix)) for fix in fixes)
    return found, without


@cache
def outcomes() -> list[tuple[Offer, dict[str, Any]]]:
    import tempfile

    found, _ = offers()
    with tempfile.TemporaryDirectory() as folder:
        requests = []
        for index, offer in enumerate(found):
            path = Path(folder) / f"{offer.program.stem}_{index}.py"
            path.write_text(offer.text)
            requests.append({"path": path})
        return list(zip(found, under_torch.run_all(requests), strict=True))


def test_nearly_every_finding_has_a_fix() -> None:
    found, without = offers()
    assert without <= WITHOUT_A_FIX
    assert len({(offer.program.stem, offer.code) for offer in found}) > 80


def test_what_is_offered_leaves_no_finding_of_the_rule_behind() -> None:
    for offer in offers()[0]:
        expected = [CODES[want["rule"]] for want in truth_of(offer.program)["findings"]]
        left = [finding.code for finding in report_of(offer.text, offer.program.name).findings]
        assert left.count(offer.code) < expected.count(offer.code), offer.name


@needs_torch
def test_what_is_offered_runs_under_torch() -> None:
    failed = []
    for offer, outcome in outcomes():
        others = [want for want in truth_of(offer.program)["findings"] if CODES[want["rule"]] != offer.code]
        if outcome["exception"] is not None and not others:
            failed.append((offer.name, outcome["exception"], outcome["message"]))
    assert not failed


@needs_torch
def test_safe_fixes_leave_what_is_learned_as_it_was() -> None:
    """The parameters after each step are those of the original up to its exception, and at the end if it had none."""
    safe = [(offer, outcome) for offer, outcome in outcomes() if offer.fix.applicability == "safe"]
    programs = sorted({offer.program for offer, _ in safe})
    before = dict(zip(programs, under_torch.run_all([{"path": path} for path in programs]), strict=True))
    different = []
    ran = 0
    for offer, outcome in safe:
        original = before[offer.program]
        steps = original["steps"]
        same = outcome["steps"][: len(steps)] == steps
        if original["exception"] is None:
            ran += 1
            same = same and len(outcome["steps"]) == len(steps) and outcome["parameters"] == original["parameters"]
        if not same:
            different.append(offer.name)
    assert not different
    assert ran > 25
