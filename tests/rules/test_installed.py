"""A rule from another package: declared as an entry point, it is treated like any other."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

RULE = '''\
from tapecheck.rules import Finding, Reading, Rule


class NamelessLoss(Rule):
    """A backward starts from a value that has no name."""

    code = "ACME100"
    name = "nameless-loss"
    severity = "info"
    summary = "A backward starts from a value without a name"
    docs = "https://acme.example/nameless-loss"

    def judge(self, readings: list[Reading]) -> list[Finding]:
        return [
            Finding(self.code, self.name, self.severity, run.at.span, "backward of a nameless loss", "name it")
            for reading in readings
            for run in reading.runs
            if not run.backward.roots[0].name
        ]
'''
PAGE = """\
A loss without a name is hard to print.

## Programs with this finding

### A sum

```python
import torch

w = torch.ones(2, requires_grad=True)
w.sum().backward()  # ACME100
```

## Programs without

### A sum with a name

```python
import torch

w = torch.ones(2, requires_grad=True)
loss = w.sum()
loss.backward()
```
"""
FIXES = """\
from tapecheck.fixes.candidate import Candidate
from tapecheck.fixes.edit import Change


def name_it(context):
    line = context.finding.span.line
    start = context.code.index.offset(line, 1)
    end = context.code.text.index(".backward", start)
    value = context.code.text[start:end]
    yield Candidate("Name the loss", "", [Change(start, end, f"loss = {value}\\nloss")], safe=True)


STRATEGIES = (name_it,)
"""
VERDICT = """\
from tapecheck.rules import Evidence


def verdict(story, finding):
    return Evidence("confirmed", "it ran") if story.count(finding.span) else None
"""
PROGRAM = "import torch\n\nw = torch.ones(2, requires_grad=True)\nw.sum().backward()\n"


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    """A folder as `pip` leaves it: a package with one rule, and its metadata."""
    files = {
        "acme/__init__.py": "",
        "acme/nameless_loss/__init__.py": "",
        "acme/nameless_loss/rule.py": RULE,
        "acme/nameless_loss/page.md": PAGE,
        "acme/nameless_loss/fixes.py": FIXES,
        "acme/nameless_loss/verdict.py": VERDICT,
        "acme-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n",
        "acme-1.0.dist-info/entry_points.txt": "[tapecheck.rules]\nnameless = acme.nameless_loss.rule:NamelessLoss\n",
        "work/train.py": PROGRAM,
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def tapecheck(packages: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    path = [str(packages), *filter(None, [os.environ.get("PYTHONPATH")])]
    return subprocess.run(
        [sys.executable, "-m", "tapecheck", *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path)},
        cwd=packages / "work",
        capture_output=True,
        text=True,
    )


def test_it_is_checked_explained_and_mended(packages: Path) -> None:
    done = tapecheck(packages, "check", "--no-cache", "--output-format", "json", "train.py")
    (finding,) = json.loads(done.stdout)
    assert (finding["code"], finding["location"]["row"], finding["url"]) == (
        "ACME100", 4, "https://acme.example/nameless-loss",
    )  # fmt: skip
    assert finding["fix"]["message"] == "Name the loss"
    assert not json.loads(
        tapecheck(packages, "check", "--no-cache", "--ignore", "ACME", "--output-format", "json", "train.py").stdout
    )
    shown = json.loads(tapecheck(packages, "explain", "ACME100", "--output-format", "json").stdout)
    assert shown["explanation"] == "A loss without a name is hard to print."
    assert shown["examples"][0]["found_on_line"] == 4


def test_a_recorded_run_judges_it(packages: Path) -> None:
    pytest.importorskip("torch")
    done = tapecheck(packages, "run", "--output-format", "json", "train.py")
    (finding,) = [one for one in json.loads(done.stdout) if one["code"] == "ACME100"]
    assert finding["evidence"]["verdict"] == "confirmed"


@pytest.mark.parametrize(
    ("missing", "words"),
    [
        ("acme/nameless_loss/page.md", "page.md"),
        ("acme/nameless_loss/fixes.py", "no fixes.py: STRATEGIES = () says that there are none"),
        ("acme/nameless_loss/verdict.py", "no verdict.py: a function `verdict` may return None"),
    ],
)
def test_one_that_lacks_a_part_is_left_out_with_a_warning(packages: Path, missing: str, words: str) -> None:
    (packages / missing).unlink()
    done = tapecheck(packages, "check", "--no-cache", "--output-format", "json", "train.py")
    assert json.loads(done.stdout) == []
    assert "the rule acme.nameless_loss.rule:NamelessLoss is left out" in done.stderr and words in done.stderr


def test_no_code_of_tapecheck_s_own_is_taken(packages: Path) -> None:
    rule = packages / "acme/nameless_loss/rule.py"
    rule.write_text(rule.read_text().replace("ACME100", "TAPE999"))
    done = tapecheck(packages, "rule", "TAPE999")
    assert done.returncode != 0 and "its code is 'TAPE999'" in done.stderr
