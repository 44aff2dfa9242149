"""The examples are found to be what they are, do under torch what is said of them, and their fixes hold."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.cases import score, under_torch

EXAMPLES = Path(__file__).parents[1] / "examples"
EXPECTED = {
    "actor_critic.py": [("stale-saved-tensor", "policy_loss.backward()")],
    "char_rnn.py": [("backward-twice", "loss.backward()")],
    "classifier.py": [
        ("needless-retain-graph", "loss.backward(retain_graph=True)"),
        ("graph-kept-across-iterations", "running_loss += loss"),
        ("graph-kept-across-iterations", "losses.append(criterion(model(points), labels))"),
    ],
    "demo.py": [],
    "gan.py": [("backward-twice", "g_loss.backward()")],
    "gradient_penalty.py": [
        ("missing-create-graph", "loss = critic(fake).mean() - critic(real).mean() + WEIGHT * penalty")
    ],
    "transformer.py": [],
}
RAISING = {
    "actor_critic.py": "one of the variables needed for gradient computation has been modified",
    "char_rnn.py": "Trying to backward through the graph a second time",
    "gan.py": "Trying to backward through the graph a second time",
}
needs_torch = pytest.mark.skipif(not under_torch.has_torch(), reason="torch is not installed")


@cache
def found() -> dict[str, list[dict[str, Any]]]:
    command = f"{sys.executable} -m tapecheck check --output-format json"
    return score.findings_of(sorted(EXAMPLES.glob("*.py")), command)


def test_examples_are_found_to_be_what_they_are() -> None:
    said = {}
    for path in sorted(EXAMPLES.glob("*.py")):
        lines = path.read_text().splitlines()
        said[path.name] = [(row["name"], lines[row["location"]["row"] - 1].strip()) for row in found()[path.name]]
    assert said == EXPECTED


@needs_torch
def test_examples_end_under_torch_as_is_said() -> None:
    paths = [path for path in sorted(EXAMPLES.glob("*.py")) if path.name != "demo.py"]
    for path, outcome in zip(paths, under_torch.run_all([{"path": path} for path in paths]), strict=True):
        wanted = RAISING.get(path.name)
        assert (outcome["exception"] or "") == ("RuntimeError" if wanted else ""), (path.name, outcome["message"])
        assert outcome["message"].startswith(wanted or ""), path.name
        if wanted:
            assert outcome["line"] == found()[path.name][0]["location"]["row"]


@needs_torch
def test_every_fix_of_an_example_makes_it_run() -> None:
    tried = []
    for name, rows in found().items():
        for row in rows:
            for fix in [row["fix"], *row["alternatives"]]:
                if fix is not None:
                    tried.append((name, fix))
    assert {name for name, _ in tried} == {name for name, rows in EXPECTED.items() if rows}
    requests = []
    for name, fix in tried:
        path = EXAMPLES / name
        text = apply(path.read_text(), fix["edits"])
        requests.append({"path": path, "edits": [[path.read_text(), text]]})
    for (name, fix), outcome in zip(tried, under_torch.run_all(requests), strict=True):
        assert (outcome["exception"], outcome["message"]) == (None, ""), (name, fix["message"])


def apply(text: str, edits: list[dict[str, Any]]) -> str:
    lines = text.splitlines(keepends=True)

    def offset(place: dict[str, int]) -> int:
        return sum(map(len, lines[: place["row"] - 1])) + place["column"] - 1

    for edit in sorted(edits, key=lambda edit: offset(edit["location"]), reverse=True):
        text = text[: offset(edit["location"])] + edit["content"] + text[offset(edit["end_location"]) :]
    return text


@needs_torch
def test_the_demo_shows_a_confirmed_finding_and_a_fix_that_holds() -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "demo.py")], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "= run: confirmed: raised in iteration 2" in done.stdout
    assert done.stdout.rstrip().endswith("No problems found (1 file checked).")
    assert json.dumps(done.stdout).count("$ tapecheck run") == 2
