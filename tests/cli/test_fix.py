"""`tapecheck check` as it edits files: fixes, comments, baselines."""

from __future__ import annotations

import functools
import json
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tapecheck import fixes
from tapecheck.cli import check as checking
from tapecheck.cli import fixing, fixing_together, main
from tapecheck.cli.shared import UsageError
from tests.cli.test_check import MEANT_TWICE as TWICE
from tests.cli.test_check import ONCE, notebook, tapecheck

RETAINED = "loss.backward(retain_graph=True)"
SEVERAL = """\
import torch

w = torch.ones(3, requires_grad=True)
optimizer = torch.optim.SGD([w], lr=0.1)
total = 0.0
losses = []
for step in range(5):
    optimizer.zero_grad()
    loss = (w * w).sum()
    loss.backward(retain_graph=True)
    optimizer.step()
    total += loss
    losses.append(loss)
print(total, losses[0])
"""
PENALTY = """\
import torch

w = torch.ones(3, requires_grad=True)
for step in range(3):
    x = torch.ones(3, requires_grad=True)
    (grad,) = torch.autograd.grad((w * x * x).sum(), x)
    loss = (w * w).sum() + (grad.norm() - 1) ** 2
    loss.backward()
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def check(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = main(["check", *arguments])
    out, err = capsys.readouterr()
    return status, out, err


def found(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[tuple[str, int]]:
    rows: list[dict[str, Any]] = json.loads(check(capsys, "--output-format", "json", "--no-fixes", *arguments)[1])
    return [(row["code"], row["location"]["row"]) for row in rows]


def test_several_fixes_of_one_file_are_made_and_hold(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "train.py").write_text(SEVERAL)
    assert len(found(capsys, "train.py")) == 3
    status, out, err = check(capsys, "--fix", "train.py")
    assert (status, out) == (0, "No problems found (1 file checked).\n")
    assert err.splitlines()[0] == "Fixed 3 findings in 1 file:" and len(err.splitlines()) == 4
    assert found(capsys, "train.py") == []
    fixed = (here / "train.py").read_text()
    assert "    loss.backward()\n" in fixed and "total += loss.item()" in fixed
    # Nothing is left to do the second time.
    assert check(capsys, "--fix", "train.py")[2] == "No fixes to make.\n"
    assert (here / "train.py").read_text() == fixed


def test_making_fixes_has_the_limit_that_listing_them_has(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is not come to is said, and is not tried once more for the list of what is left."""
    monkeypatch.setattr(fixing, "Effort", functools.partial(fixes.Effort, left=1))
    (here / "train.py").write_text(SEVERAL)
    status, out, err = check(capsys, "--fix", "train.py")
    assert status == 1 and err.splitlines()[0] == "Fixed 1 finding in 1 file:"
    assert "not every fix was tried for 2 of 2 findings" in out and "fixable" not in out
    assert check(capsys, "--fix", "train.py")[2].startswith("Fixed 1 finding in 1 file:")
    assert check(capsys, "--fix", "train.py")[:2] == (0, "No problems found (1 file checked).\n")


def test_errors_are_fixed_first(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    needless = "for _ in range(3):\n    w.exp().sum().backward(retain_graph=True)\n"
    (here / "train.py").write_text(f"import torch\nw = torch.ones(3, requires_grad=True)\n{needless}{TWICE}")
    err = check(capsys, "--fix", "--unsafe-fixes", "train.py")[2]
    assert [line.split()[0] for line in err.splitlines()[1:]] == ["TAPE101", "TAPE301"]


def test_the_fixed_program_runs_as_the_original_did(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    torch = pytest.importorskip("torch")
    (here / "train.py").write_text(SEVERAL)
    before: dict[str, Any] = {}
    exec(compile(SEVERAL, "train.py", "exec"), before)
    check(capsys, "--fix", "train.py")
    after: dict[str, Any] = {}
    exec(compile((here / "train.py").read_text(), "train.py", "exec"), after)
    assert torch.equal(before["w"], after["w"])


def test_unsafe_fixes_are_made_only_where_they_are_asked_for(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "train.py").write_text(PENALTY)
    status, out, err = check(capsys, "--fix", "train.py")
    assert status == 1 and (here / "train.py").read_text() == PENALTY
    assert "1 fixable with `--fix --unsafe-fixes`.\n" in out and err == "No fixes to make.\n"
    status, out, err = check(capsys, "--fix", "--unsafe-fixes", "train.py")
    assert status == 0 and err.startswith("Fixed 1 finding in 1 file:\n  TAPE401 train.py:")
    assert "create_graph=True" in (here / "train.py").read_text()


@pytest.mark.parametrize(
    ("encoding", "newline", "bom", "first"),
    [
        ("utf-8", "\r\n", b"", ""),
        ("utf-8", "\n", b"\xef\xbb\xbf", "# é 🔥\n"),
        ("latin-1", "\r\n", b"", "# -*- coding: latin-1 -*-\n# é\n"),
        ("cp1252", "\n", b"", "# coding: cp1252\n# €\n"),
    ],
)
def test_encoding_line_ends_mode_and_links_stay(
    here: Path, capsys: pytest.CaptureFixture[str], encoding: str, newline: str, bom: bytes, first: str
) -> None:
    text = (first + TWICE).replace("\n", newline).removesuffix(newline)
    real = here / "real.py"
    real.write_bytes(bom + text.encode(encoding))
    real.chmod(0o640)
    (here / "train.py").symlink_to(real)
    assert check(capsys, "--fix", "train.py")[0] == 0
    wanted = bom + text.replace("loss.backward()", RETAINED, 1).encode(encoding)
    assert real.read_bytes() == wanted
    assert (here / "train.py").is_symlink() and stat.S_IMODE(real.stat().st_mode) == 0o640
    assert sorted(path.name for path in here.iterdir()) == ["real.py", "train.py"]


def test_a_diff_changes_nothing_and_can_be_applied(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "a.py").write_text(SEVERAL)
    (here / "b.py").write_text(TWICE.removesuffix("\n"))
    (here / "fine.py").write_text(ONCE)
    status, out, err = check(capsys, "--diff", "a.py", "b.py", "fine.py")
    assert status == 1 and err.startswith("Would fix 4 findings in 2 files:\n")
    assert (here / "a.py").read_text() == SEVERAL and "\\ No newline at end of file" in out
    subprocess.run(["git", "apply", "-p0", "-"], input=out, text=True, cwd=here, check=True)
    assert check(capsys, "--diff", ".") == (0, "", "No fixes to make.\n")
    assert found(capsys, ".") == []


def test_a_diff_in_colour_cannot_steer_the_terminal(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    steering = TWICE.replace("loss.backward()", "loss.backward()  # \x1b]0;x\x07\t.")
    (here / "train.py").write_text("# \x1b[2J\n" + steering)
    assert "\x1b]0;x" in check(capsys, "--diff", "train.py")[1]
    out = check(capsys, "--diff", "--color", "always", "train.py")[1]
    assert "\x1b]0;x" not in out and "# \ufffd]0;x\ufffd\t." in out
    added = next(line for line in out.split("\n") if "retain_graph" in line)
    assert added.startswith("\x1b[32m+loss.backward(") and added.endswith("\x1b[0m")


def test_many_files_are_fixed_in_processes(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(30):
        (here / f"f{number:02}.py").write_text(TWICE if number % 10 == 0 else ONCE)
    status, out, err = check(capsys, "--fix", "--jobs", "2", ".")
    assert (status, out) == (0, "No problems found (30 files checked).\n")
    assert err.startswith("Fixed 3 findings in 3 files:\n")
    fixed = [path.name for path in sorted(here.iterdir()) if RETAINED in path.read_text()]
    assert fixed == ["f00.py", "f10.py", "f20.py"]


def test_standard_input_comes_out_fixed(here: Path) -> None:
    done = tapecheck("check", "--fix", "-", "--stdin-filename", "train.py", cwd=here, stdin=TWICE.encode())
    assert done.stdout.decode() == TWICE.replace("loss.backward()", RETAINED, 1)
    assert done.returncode == 0 and b"Fixed 1 finding" in done.stderr
    same = tapecheck("check", "--fix", "-", cwd=here, stdin=b"\xef\xbb\xbfx = 1\r\n")
    assert same.stdout == b"\xef\xbb\xbfx = 1\r\n"
    patch = tapecheck("check", "--diff", "-", "--stdin-filename", "t.py", cwd=here, stdin=TWICE.encode())
    assert patch.stdout.startswith(b"--- t.py\n+++ t.py\n") and patch.returncode == 1


@pytest.mark.parametrize("style", [{"indent": 1}, {"indent": 4, "ensure_ascii": False}, {}])
def test_a_notebook_is_fixed_in_its_cells(
    here: Path, capsys: pytest.CaptureFixture[str], style: dict[str, Any]
) -> None:
    first, last = TWICE.rsplit("loss.backward()\n", 1)[0], "# é\nloss.backward()"
    content = json.loads(notebook("%matplotlib inline", first, last))
    before = json.dumps(content, **style) + "\n"
    (here / "train.ipynb").write_text(before, encoding="utf-8")
    patch = check(capsys, "--diff", "train.ipynb")[1]
    assert patch.startswith("--- train.ipynb:cell 2\n")
    status, _, err = check(capsys, "--fix", "train.ipynb")
    # The list names places as the findings do.
    assert status == 0 and err.splitlines()[1].startswith("  TAPE101 train.ipynb:cell 3:2: Keep the graph of the first")
    assert "(line 5 of cell 2)" in err
    after = (here / "train.ipynb").read_text(encoding="utf-8")
    changed = "".join(json.loads(after)["cells"][1]["source"])
    assert changed == first.replace("loss.backward()", RETAINED)
    # Nothing but the cell is another one: not the layout, not the other cells.
    content["cells"][1]["source"] = changed.splitlines(True)
    assert after == json.dumps(content, **style) + "\n"


def test_a_notebook_whose_layout_cannot_be_kept_is_left(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = notebook(TWICE).replace('"cells":', '"cells" :')
    (here / "train.ipynb").write_text(text)
    status, out, _ = check(capsys, "--fix", "train.ipynb")
    assert status == 1 and "not edited: the file cannot be written back as it is" in out and "TAPE101" in out
    assert (here / "train.ipynb").read_text() == text


def test_a_file_that_changes_meanwhile_is_not_written(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import tapecheck.cli.check as checking

    (here / "train.py").write_text(TWICE)
    real = checking._write_edited

    def late(*arguments: Any) -> None:
        (here / "train.py").write_text("x = 1\n")
        real(*arguments)

    monkeypatch.setattr(checking, "_write_edited", late)
    status, out, _ = check(capsys, "--fix", "train.py")
    assert status == 1 and "not written: it has changed since it was read" in out
    assert (here / "train.py").read_text() == "x = 1\n"


def test_broken_files_are_fixed_where_they_can_be_read(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "broken.py").write_text("def f(:\n    pass\n\n" + TWICE)
    status, out, _ = check(capsys, "--fix", "broken.py", "gone.py")
    assert status == 1 and "invalid-syntax" in out and "io-error" in out and "TAPE101" in out
    assert (here / "broken.py").read_text() == "def f(:\n    pass\n\n" + TWICE
    status, out, _ = check(capsys, "--fix", "--unsafe-fixes", "broken.py", "gone.py")
    assert status == 1 and "invalid-syntax" in out and "io-error" in out and "TAPE101" not in out
    assert (here / "broken.py").read_text().startswith("def f(:\n    pass\n\n")


def test_ignores_are_added_where_something_is_found(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "train.py").write_text(SEVERAL)
    (here / "train.ipynb").write_text(notebook(TWICE))
    status, out, err = check(capsys, "--add-ignore", ".")
    assert (status, err) == (0, "Added 4 ignore comments in 2 files.\n")
    assert out == "No problems found (2 files checked).\n"
    assert "    total += loss  # tapecheck: ignore[TAPE201]\n" in (here / "train.py").read_text()
    assert found(capsys, ".") == []


def test_ignores_are_added_for_what_other_files_do(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "work.py").write_text("def finish(loss):\n    loss.backward()\n    loss.backward()\n")
    (here / "main.py").write_text(
        "import torch\nfrom work import finish\nw = torch.ones(3, requires_grad=True)\nfinish((w * w).sum())\n"
    )
    assert [code for code, *_ in found(capsys, ".")] == ["TAPE101"]
    status, out, err = check(capsys, "--add-ignore", ".")
    assert (status, err, out) == (0, "Added 1 ignore comment in 1 file.\n", "No problems found (2 files checked).\n")
    assert (here / "work.py").read_text().endswith("    loss.backward()  # tapecheck: ignore[TAPE101]\n")
    assert found(capsys, ".") == []


@pytest.mark.parametrize("arguments", [("--fix", "--add-ignore"), ("--write-baseline", "b.json", "--diff")])
def test_options_that_contradict_each_other_are_refused(
    here: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    status, out, err = check(capsys, *arguments, ".")
    assert (status, out) == (2, "") and "cannot be used together" in err


def test_a_baseline_leaves_out_what_it_has_when_lines_move(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "src").mkdir()
    (here / "src" / "train.py").write_text(SEVERAL)
    status, out, err = check(capsys, "--write-baseline", "ci/known.json", "src")
    assert (status, out, err) == (0, "", "Wrote 3 findings to ci/known.json.\n")
    entries = json.loads((here / "ci" / "known.json").read_text())["findings"]
    assert {(row["file"], row["count"]) for row in entries} == {("../src/train.py", 1)}
    status, out, err = check(capsys, "--baseline", "ci/known.json", "src")
    assert (status, out) == (0, "No problems found (1 file checked).\n")
    assert err == "tapecheck: 3 findings of ci/known.json left out\n"
    # Lines move, one finding goes, another one comes.
    moved = "# new\n\n" + SEVERAL.replace("    total += loss\n", "    total += loss.item()\n") + TWICE
    (here / "src" / "train.py").write_text(moved)
    status, out, err = check(capsys, "--baseline", "ci/known.json", "--output-format", "json", "src")
    assert status == 1 and [row["code"] for row in json.loads(out)] == ["TAPE101"]
    assert "2 findings of ci/known.json left out" in err and "1 entry of ci/known.json found no more" in err


def test_a_baseline_counts_what_looks_the_same(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    body = SEVERAL.split("    loss.backward(")[0].replace("losses = []\n", "")
    once = body + f"    {RETAINED}\n"
    (here / "train.py").write_text(once)
    check(capsys, "--write-baseline", "known.json", ".")
    (here / "train.py").write_text(once + "for other in range(2):\n" + once[once.index("    optimizer.zero") :])
    found_now = found(capsys, "train.py")
    assert len(found_now) == 2
    rows = found(capsys, "--baseline", "known.json", "train.py")
    assert rows == found_now[1:]


@pytest.mark.parametrize(
    ("text", "said"),
    [("{}", "not a baseline of this version"), ("[", "not a baseline: "), (None, "cannot read known.json: No such")],
)
def test_what_is_no_baseline_is_said(
    here: Path, capsys: pytest.CaptureFixture[str], text: str | None, said: str
) -> None:
    (here / "train.py").write_text(TWICE)
    if text is not None:
        (here / "known.json").write_text(text)
    status, out, err = check(capsys, "--baseline", "known.json", ".")
    assert (status, out) == (2, "") and said in err


MODELS = """\
import torch
from torch import nn


class Tracker(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.cell = nn.GRUCell(4, width)
        self.head = nn.Linear(width, 1)
        self.h = torch.zeros(1, width)

    def forward(self, x):
        self.h = self.cell(x, self.h)
        return self.head(self.h)
"""
TRAINS = """\
import torch

from models import Tracker

torch.manual_seed(0)
model = Tracker(WIDTH)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(5):
    loss = model(torch.randn(1, 4)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward(retain_graph=True)
    optimizer.step()
"""
CARRIED = "self.cell(x, self.h.detach())"


@pytest.fixture
def project(here: Path) -> Path:
    """Two programs that train one model of a third file, which carries its state from step to step."""
    (here / "models.py").write_text(MODELS)
    (here / "train.py").write_text(TRAINS.replace("WIDTH", "8"))
    (here / "tune.py").write_text(TRAINS.replace("WIDTH", "16"))
    return here


def texts(folder: Path) -> dict[str, str]:
    return {file.name: file.read_text() for file in sorted(folder.glob("*.py"))}


def test_a_fix_of_two_files_is_made_in_both_and_once(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert {code for code, _ in found(capsys, ".")} == {"TAPE102"}
    status, out, err = check(capsys, "--fix", "--unsafe-fixes", ".")
    assert (status, out) == (0, "No problems found (3 files checked).\n")
    after = texts(project)
    # Both programs show the state that models.py carries: it is cut once, and each loses its own argument.
    assert after["models.py"] == MODELS.replace("self.cell(x, self.h)", CARRIED)
    assert all("loss.backward()\n" in after[name] for name in ("train.py", "tune.py"))
    assert err.splitlines()[0] == "Fixed 2 findings in 3 files:"
    assert check(capsys, "--fix", "--unsafe-fixes", ".")[2] == "No fixes to make.\n"


def test_fixes_of_several_files_have_a_limit_too(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = texts(project)
    monkeypatch.setattr(fixing_together, "Effort", functools.partial(fixes.Effort, left=0))
    status, out, err = check(capsys, "--fix", "--unsafe-fixes", ".")
    assert (status, err) == (1, "No fixes to make.\n") and texts(project) == before
    assert out.count("not every fix was tried for 1 of 1 findings") == 2


def test_what_a_fix_of_two_files_leaves_runs(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch")
    check(capsys, "--fix", "--unsafe-fixes", ".")
    for name in ("train.py", "tune.py"):
        ended = subprocess.run([sys.executable, name], cwd=project, capture_output=True, text=True, check=False)
        assert ended.returncode == 0, ended.stderr


def test_what_changes_other_programs_too_is_not_safe(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = texts(project)
    assert check(capsys, "--fix", ".")[2] == "No fixes to make.\n"
    assert texts(project) == before


def test_files_that_were_not_named_are_not_edited(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = texts(project)
    err = check(capsys, "--fix", "--unsafe-fixes", "train.py")[2]
    assert err == "No fixes to make.\nFixes in 1 file also edit files that were not named.\n"
    assert texts(project) == before


def test_a_diff_of_two_files_can_be_applied(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = texts(project)
    patch = check(capsys, "--diff", "--unsafe-fixes", ".")[1]
    assert texts(project) == before
    subprocess.run(["patch", "-p0"], input=patch, text=True, check=True, capture_output=True)
    assert CARRIED in (project / "models.py").read_text() and found(capsys, ".") == []


@pytest.mark.parametrize("failing", ["models.py", "train.py", "tune.py"])
def test_files_that_are_fixed_together_are_written_together(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    before = texts(project)
    write = checking.write_file

    def refused(path: str, content: str | bytes) -> None:
        if Path(path).name == failing and content != before[failing].encode():
            raise UsageError(f"cannot write {path}: no space left")
        write(path, content)

    monkeypatch.setattr(checking, "write_file", refused)
    status, out, _ = check(capsys, "--fix", "--unsafe-fixes", ".")
    assert status == 1 and texts(project) == before
    assert "no space left" in out and f"{failing}, which is fixed along with it" in out


def test_a_finding_that_another_file_brings_is_fixed(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "meters.py").write_text(
        "class Meter:\n    def __init__(self):\n        self.values = []\n\n"
        "    def train(self, model, optimizer, batches):\n        for x in batches:\n"
        "            loss = model(x).pow(2).mean()\n            optimizer.zero_grad()\n            loss.backward()\n"
        "            optimizer.step()\n            self.values.append(loss)\n"
    )
    (here / "train.py").write_text(
        "import torch\n\nfrom meters import Meter\n\nmodel = torch.nn.Linear(3, 1)\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "Meter().train(model, optimizer, [torch.randn(2, 3) for _ in range(5)])\n"
    )
    assert [code for code, _ in found(capsys, ".")] == ["TAPE201"]
    with monkeypatch.context() as limited:
        limited.setattr("tapecheck.fixes.Effort", functools.partial(fixes.Effort, left=0))
        out = check(capsys, "--no-cache", ".")[1]
        assert "meters.py:11: not every fix was tried for 1 of 1 findings" in out
    check(capsys, "--fix", ".")
    assert "self.values.append(loss.detach())" in (here / "meters.py").read_text()
    assert found(capsys, ".") == []


ENGINE = """\
import torch
from torch import nn


def make_optimizer(name, params):
    return torch.optim.Adam(params) if name == "adam" else torch.optim.SGD(params, lr=0.1)


class Engine:
    def __init__(self, opts):
        self.opts, self.model = opts, nn.Linear(3, 1)
        self.optimizer = make_optimizer(opts.optim, self.model.parameters())
        self.batches = [torch.randn(2, 3) for _ in range(4)]

    def step(self, x):
        loss = self.model(x).pow(2).mean()
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def run(self):
        for epoch in range(self.opts.epochs):
            self.model.train()
            total = 0.0
            for x in self.batches:
                total += self.step(x)
            print(epoch, total)
"""
OPTIONS = """\
import argparse

from engine import Engine

parser = argparse.ArgumentParser()
parser.add_argument("--optim", default="sgd")
parser.add_argument("--epochs", type=int, default=3)
Engine(parser.parse_args()).run()
"""


@pytest.mark.parametrize("asked", [["."], ["train.py", "engine.py"], ["engine.py"]])
def test_what_is_made_in_the_end_is_not_said_to_be_not_made(
    asked: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "engine.py").write_text(ENGINE)
    (tmp_path / "train.py").write_text(OPTIONS)
    main(["check", "--no-cache", "--fix", "--unsafe-fixes", *asked])
    said = "".join(capsys.readouterr())
    assert "Fixed 1 finding" in said and "zero_grad()" in (tmp_path / "engine.py").read_text()
    assert "Not made" not in said


BUILDER = """\
import torch
from torch import nn


class Queued(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(4, 4)
        self.register_buffer("queue", torch.randn(4, 8))

    def forward(self, x):
        q = self.encoder(x)
        out = torch.einsum("nc,ck->nk", q, self.queue)
        with torch.no_grad():
            self.queue[:, :2] = q[:2].T
        return out
"""
LEARNING = """\
import torch
from builder import Queued


model = Queued()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    loss = model(torch.randn(2, 4)).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(("asked", "fixed"), [(["."], True), (["train.py", "builder.py"], True), (["train.py"], False)])
def test_a_fix_in_another_file_is_counted_where_that_is_checked_as_well(
    asked: list[str], fixed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "builder.py").write_text(BUILDER)
    (tmp_path / "train.py").write_text(LEARNING)
    main(["check", "--no-cache", *asked])
    out = capsys.readouterr().out
    assert "TAPE102" in out and ("1 fixable with" in out) == fixed, out
    main(["check", "--no-cache", "--fix", "--unsafe-fixes", *asked])
    assert ("Fixed 1 finding" in "".join(capsys.readouterr())) == fixed
