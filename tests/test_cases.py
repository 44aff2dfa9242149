"""Programs with measured truth: they end under torch as is written, and are judged as torch judges them."""

from __future__ import annotations

import ast
import itertools
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.cases import measures, score, under_torch

PROGRAMS = score.programs_in(score.PROGRAMS)
SEEDS = sorted((Path(__file__).parent / "cases" / "seeds").glob("*.py"))
needs_torch = pytest.mark.skipif(not under_torch.has_torch(), reason="torch is not installed")


def truth_of(program: Path) -> dict[str, Any]:
    truth: dict[str, Any] = json.loads(program.with_suffix(".json").read_text())
    return truth


@cache
def found(folder: str) -> dict[str, list[dict[str, Any]]]:
    return score.findings_of({"programs": PROGRAMS, "seeds": SEEDS}[folder])


@cache
def outcomes() -> dict[Path, dict[str, Any]]:
    programs = [*PROGRAMS, *SEEDS]
    return dict(zip(programs, under_torch.run_all([{"path": path} for path in programs]), strict=True))


def test_every_program_is_judged_as_is_written() -> None:
    result = score.score(PROGRAMS, found("programs"))
    report = "\n".join([*result.lines, result.table()])
    assert (result.total.recall, result.total.precision) == (1.0, 1.0), report
    assert all(tally.hits for tally in result.rules.values()), report


@pytest.mark.parametrize("seed", SEEDS, ids=lambda path: path.stem)
def test_seeds_are_judged_as_torch_judges_them(seed: Path) -> None:
    rows = found("seeds")[seed.name]
    wanted = truth_of(seed)["findings"]
    assert [(row["name"], row["location"]["row"]) for row in rows] == [(w["rule"], w["line"]) for w in wanted]
    for row, want in zip(rows, wanted, strict=True):
        assert row["severity"] == want.get("severity", row["severity"])


@needs_torch
@pytest.mark.parametrize("program", [*PROGRAMS, *SEEDS], ids=lambda path: path.stem)
def test_programs_end_under_torch_as_is_written(program: Path) -> None:
    outcome = outcomes()[program]
    if program.name.endswith(".fixed.py"):
        assert (outcome["exception"], outcome["message"]) == (None, "")
        return
    wanted = truth_of(program)["run"]
    ended = (outcome["exception"], outcome["line"])
    assert ended == (wanted["exception"], wanted["line"]), outcome["message"]
    # Shapes and versions in the rest of the message may change with torch.
    assert outcome["message"][:60] == (wanted["message"] or "")[:60]


@needs_torch
def test_seeds_without_retain_graph_end_as_is_written() -> None:
    seeds = [seed for seed in SEEDS if "without_retain" in truth_of(seed)]
    assert seeds
    edits = [["retain_graph=True", ""]]
    changed = under_torch.run_all([{"path": seed, "edits": edits} for seed in seeds])
    for seed, outcome in zip(seeds, changed, strict=True):
        wanted = truth_of(seed)["without_retain"]
        assert (outcome["exception"], outcome["line"]) == (wanted["exception"], wanted["line"]), seed.stem
        assert (outcome["state"] == outcomes()[seed]["state"]) is wanted["same_gradients"], seed.stem
        needless = any(finding["rule"] == "needless-retain-graph" for finding in truth_of(seed)["findings"])
        assert needless is wanted["same_gradients"], seed.stem


@needs_torch
def test_what_seeds_keep_is_measured() -> None:
    growing = [seed for seed in SEEDS if truth_of(seed)["findings"][:1] and _rule(seed) == "growing-chain"]
    assert growing
    for seed in growing:
        graphs = outcomes()[seed]["graphs"]
        assert graphs == truth_of(seed)["graphs"]
        steps = {later - earlier for earlier, later in itertools.pairwise(graphs)}
        assert len(steps) == 1 and steps.pop() > 0, seed.stem
    keeping = [seed for seed in SEEDS if "with_line" in truth_of(seed)]
    assert keeping
    asked = [{"path": seed, "append": truth_of(seed)["with_line"]["append"] + "\n"} for seed in keeping]
    for seed, outcome in zip(keeping, under_torch.run_all(asked), strict=True):
        wanted = truth_of(seed)["with_line"]
        assert outcome["exception"] == wanted["exception"], seed.stem
        # Freed saved tensors make the kept graph small; activations that are still there are worth a warning.
        severity = "info" if wanted["exception"] else "warning"
        assert truth_of(seed)["findings"][0]["severity"] == severity


def test_kept_graphs_weigh_what_was_measured_of_them() -> None:
    weighed = set()
    for path in PROGRAMS:
        if path.name.endswith(".fixed.py"):
            continue
        growth = truth_of(path).get("growth")
        for row in found("programs")[path.name] if growth else ():
            if row["code"] == "TAPE201":
                saved = growth["live_saved_tensors"]
                weighed.add(row["severity"])
                assert row["severity"] == ("warning" if saved[-1] > saved[0] else "info"), path.stem
    assert weighed == {"warning", "info"}


@needs_torch
def test_what_raises_nothing_is_measured() -> None:
    wanted = {
        program: truth
        for program in PROGRAMS
        if not program.name.endswith(".fixed.py") and (truth := truth_of(program)).get("measured")
    }
    asked = {program: truth for program, truth in wanted.items() if "exempt" not in truth["measured"]}
    requests = [{"path": program, **truth["measured"]} for program, truth in asked.items()]
    for (program, truth), measured in zip(asked.items(), measures.measure_all(requests), strict=True):
        told = any(finding["rule"] == truth["measured"]["rule"] for finding in truth["findings"])
        assert measured["holds"] is told, (program.name, measured)
    for rule in {truth["measured"]["rule"] for truth in wanted.values()}:
        told = [bool(truth["findings"]) for truth in wanted.values() if truth["measured"]["rule"] == rule]
        assert min(told.count(True), told.count(False)) >= 8, rule


@pytest.mark.parametrize("program", [*PROGRAMS, *SEEDS], ids=lambda path: path.stem)
def test_truth_speaks_of_lines_that_are_there(program: Path) -> None:
    lines = program.read_text().splitlines()
    ast.parse("\n".join(lines))
    if program.name.endswith(".fixed.py"):
        return
    truth = truth_of(program)
    assert truth["name"] == program.stem
    for finding in truth["findings"]:
        assert lines[finding["line"] - 1].strip()
        assert finding["line"] <= (finding.get("end_line") or finding["line"]) <= len(lines)
    if truth["findings"] and "fix" in truth:
        text = program.read_text()
        for old, new in (edit for finding in truth["findings"] for edit in finding["edits"]):
            assert text.count(old) == 1
            text = text.replace(old, new)
        assert text == program.with_name(truth["fix"]["file"]).read_text()


def _rule(seed: Path) -> str:
    rule: str = truth_of(seed)["findings"][0]["rule"]
    return rule
