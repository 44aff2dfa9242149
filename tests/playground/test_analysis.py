"""What the playground asks of Tapecheck, asked in CPython: it gets what the commands say."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.docs.pages import ROOT
from tools.docs import playground

EXAMPLES = sorted(path for path in (ROOT / "examples").glob("*.py") if path.name != "demo.py")


@pytest.fixture(scope="module")
def analysis() -> ModuleType:
    spec = spec_from_file_location("analysis", ROOT / "playground" / "analysis.py")
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_findings_and_fixes_are_those_of_the_command(analysis: ModuleType, path: Path, tmp_path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    (tmp_path / "train.py").write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "tapecheck", "check", "--no-cache", "--output-format", "json", "train.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    wanted: list[dict[str, Any]] = json.loads(done.stdout)

    page = analysis.Playground()
    rows = json.loads(page.check(text))
    for index, row in enumerate(rows):
        fixes = json.loads(page.fixes(index))
        row["fix"], row["alternatives"] = (fixes[0] if fixes else None), fixes[1:]
    assert rows == wanted


def test_a_syntax_error_is_a_row_and_the_rest_is_checked(analysis: ModuleType) -> None:
    page = analysis.Playground()
    text = "import torch\nw = torch.ones(3, requires_grad=True)\nloss = (w * w).sum()\n" + "loss.backward()\n" * 2
    rows = json.loads(page.check(text + "if (\n"))
    assert [row["code"] for row in rows] == ["invalid-syntax", "TAPE101"]
    assert rows[0]["location"]["row"] == 6
    assert "walks" in json.loads(page.hover(4, 7))["markdown"]
    assert page.hover(1, 1) == "null"
    assert json.loads(page.picture()).startswith("<svg")


def test_nothing_is_asked_before_a_check(analysis: ModuleType) -> None:
    with pytest.raises(ValueError, match="nothing was checked yet"):
        analysis.Playground().hover(1, 1)


def test_the_sources_are_enough(tmp_path: Path) -> None:
    """Without site-packages, and without the parts that are left out, as in the browser."""
    for name, text in playground.sources().items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    program = (ROOT / "examples" / "gan.py").read_text(encoding="utf-8")
    script = (
        "import sys; from analysis import Playground; page = Playground(); text = sys.stdin.read(); page.about(); "
        "print(page.check(text)); page.fixes(0); page.hover(34, 20); page.picture(); "
        "assert not [name for name in sys.modules if name.split('.')[0] in ('libcst', 'pygls', 'pathspec', 'torch')]"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r}); {script}"],
        input=program,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert [row["code"] for row in json.loads(done.stdout)] == ["TAPE101"]


def test_the_examples_hold_every_rule() -> None:
    groups = {example["group"] for example in playground.examples()}
    assert {f"{rule.code} {rule.name}" for rule in playground.ALL} <= groups
    assert "GAN" in playground.examples()[0]["title"]
