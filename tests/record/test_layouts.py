"""Wherever a program's files lie, however they are loaded and named, and from where it is started: what ran is seen."""

from __future__ import annotations

import itertools
import os
import random
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from tapecheck.check import check
from tapecheck.record import RunRequest, confirm, judge, run
from tapecheck.rules import Finding
from tapecheck.source import read_source
from tapecheck.tape import Measure, Tape, read_tape
from tests.record.harness import QUIET

MODULE = """\
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.Linear(4, 4)
        self.dec = nn.Linear(4, 2)
    def forward(self, x):
        h = torch.tensor(self.enc(x).tolist())
        return self.dec(h)

def fit(net):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    seen = []
    for _ in range(9):
        loss = net(torch.randn(8, 4)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        seen.append(loss)
    return seen

def never(net):
    seen = []
    for _ in range(9):
        loss = net(torch.randn(8, 4)).pow(2).mean()
        loss.backward()
        seen.append(loss)
    return seen

print(len(fit(Net())))
if torch.rand(()).item() > 2:
    never(Net())
"""

LAYOUTS = {
    "beside": ("scripts/main.py", "lib/loop.py"),
    "package": ("scripts/main.py", "src/parts/loop.py"),
    "above": ("tools/run/main.py", "loop.py"),
    "below": ("main.py", "lib/loop.py"),
}
MARKS = ("nothing", "pyproject", "git", "extra-paths")
LOADED = {
    "relative path": "import sys; sys.path.append({near!r}); import loop",
    "path of the file": "import os, sys\nsys.path.append(os.path.join(os.path.dirname(__file__), {up!r}))\nimport loop",
    "path through a link": "import sys; sys.path.append({link!r}); import loop",
    "run by a relative name": "import runpy; runpy.run_path({name!r})",
    "compiled elsewhere": "import os\ncode = compile(open({name!r}).read(), {name!r}, 'exec')\nos.chdir('/')\n"
    "exec(code, {{'__name__': 'loop'}})",
    "loaded by its place": "import importlib.util as u; s = u.spec_from_file_location('loop', {name!r})\n"
    "s.loader.exec_module(u.module_from_spec(s))",
}
NAMED = ("relative", "absolute", "link", "not at all")
STARTED = ("beside the script", "root", "elsewhere")


def _pairs(seed: int) -> list[tuple[str, ...]]:
    """Return choices such that any two values of different kinds are together in one of them."""
    kinds = [list(LAYOUTS), list(MARKS), list(LOADED), list(NAMED), list(STARTED)]
    everything = list(itertools.product(*kinds))
    random.Random(seed).shuffle(everything)

    def pairs(choice: tuple[str, ...]) -> set[tuple[int, str, int, str]]:
        return {(a, choice[a], b, choice[b]) for a, b in itertools.combinations(range(len(choice)), 2)}

    left = set().union(*map(pairs, everything))
    chosen = []
    while left:
        best = max(everything, key=lambda choice: len(pairs(choice) & left))
        chosen.append(best)
        left -= pairs(best)
    return chosen


def _made(root: Path, layout: str, mark: str, loaded: str, started: str) -> tuple[Path, Path, Path]:
    """Write a project and return its script, its module and where it is to be started."""
    script, module = (root / name for name in LAYOUTS[layout])
    for path in (script, module):
        path.parent.mkdir(parents=True, exist_ok=True)
    module.write_text(MODULE)
    if layout == "package":
        (module.parent / "__init__.py").write_text("")
    link = root.parent / "link"
    link.symlink_to(module.parent)
    place = {"beside the script": script.parent, "root": root, "elsewhere": root.parent / "other"}[started]
    place.mkdir(exist_ok=True)
    script.write_text(
        LOADED[loaded].format(
            near=os.path.relpath(module.parent, place), link=str(link),
            up=os.path.relpath(module.parent, script.parent), name=os.path.relpath(module, place),
        )
    )  # fmt: skip
    if mark == "git":
        (root / ".git").mkdir()
    elif mark == "pyproject":
        (root / "pyproject.toml").write_text("[project]\nname = 'it'\n")
    elif mark == "extra-paths":
        folder = os.path.relpath(module.parent, script.parent)
        (script.parent / "tapecheck.toml").write_text(f"extra-paths = [{folder!r}]\n")
    return script, module, place


def _said(findings: list[Finding]) -> Iterator[tuple[str, int, str]]:
    for finding in findings:
        verdict = finding.evidence.verdict if finding.evidence is not None else "inconclusive"
        yield finding.code, finding.span.line, verdict


@pytest.mark.parametrize(
    ("layout", "mark", "loaded", "named", "started"), _pairs(1), ids=lambda value: str(value).replace(" ", "-")
)
def test_what_ran_is_seen(
    layout: str, mark: str, loaded: str, named: str, started: str,
    tmp_path: Path, python: str, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    script, module, place = _made(tmp_path / "project", layout, mark, loaded, started)
    monkeypatch.chdir(place)
    first = os.path.relpath(script, place)
    if named == "not at all":
        result = run(RunRequest(first, python=python, env=QUIET))
        assert result.how_ended == "finished", result.stderr
        own = any(
            isinstance(event, Measure) and event.name == "recorded-file" and event.at.file.endswith("loop.py")
            for event in result.tape.events
        )
        if mark != "nothing" or layout == "below" or started == "root":
            assert own
            assert ("TAPE201", 21, "found-by-run") in _said(judge([], result.tape))
        return
    name = {"relative": os.path.relpath(module, place), "absolute": str(module), "link": f"{tmp_path}/link/loop.py"}
    path = name[named]
    result, findings = confirm(path, RunRequest(first, python=python, env=QUIET), check(read_source(path)).findings)
    assert result.how_ended == "finished", result.stderr
    assert sorted(_said(findings)) == [
        ("TAPE201", 21, "confirmed"), ("TAPE201", 29, "not-reached"), ("TAPE402", 10, "confirmed"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("layout", "mark", "loaded", "started"),
    [
        ("beside", "pyproject", "relative path", "elsewhere"),
        ("package", "git", "path of the file", "beside the script"),
        ("above", "extra-paths", "path through a link", "elsewhere"),
        ("below", "nothing", "run by a relative name", "root"),
        ("package", "nothing", "loaded by its place", "elsewhere"),
    ],
)
def test_from_within_a_program_the_same_is_its_own(
    layout: str, mark: str, loaded: str, started: str, tmp_path: Path, python: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    script, _, place = _made(tmp_path / "project", layout, mark, loaded, started)
    monkeypatch.chdir(place)

    def of_loop(tape: Tape) -> set[str]:
        files = (event.at.file for event in tape.events if isinstance(event, Measure) and event.name == "recorded-file")
        return {Path(file).name for file in files if Path(file).name == "loop.py"}

    whole = run(RunRequest(os.path.relpath(script, place), python=python, env=QUIET))
    within = f"import tapecheck, torch\nwith tapecheck.record(save={str(tmp_path / 'it.tape')!r}):\n"
    script.write_text(within + textwrap.indent(script.read_text(), "    "))
    subprocess.run(
        [sys.executable, str(script)], cwd=place, check=True, capture_output=True, timeout=200,
        env={**os.environ, **QUIET, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    own = set() if mark == "nothing" and layout != "below" else {"loop.py"}
    with (tmp_path / "it.tape").open() as file:
        assert of_loop(read_tape(file)) == of_loop(whole.tape) == own


def test_lines_of_a_file_that_was_not_loaded_did_not_run(tmp_path: Path, python: str) -> None:
    script, module = tmp_path / "main.py", tmp_path / "loop.py"
    script.write_text("import torch\ntorch.ones(1, requires_grad=True).backward()\n")
    module.write_text(MODULE)
    found = check(read_source(str(module))).findings
    result, findings = confirm(str(module), RunRequest(str(script), python=python, env=QUIET), found)
    assert result.how_ended == "finished", result.stderr
    assert len(findings) == len(found) > 1
    said = [finding.evidence for finding in findings if finding.evidence is not None]
    assert [one.verdict for one in said] == ["not-reached"] * len(found)
    assert all(one.detail == "loop.py was not loaded (the program ran to its end)" for one in said)


def test_two_files_of_one_relative_name(tmp_path: Path, python: str) -> None:
    """What runs by the same name in another directory is another file, and its functions stay its own."""
    for name, called in (("a", "fit"), ("b", "never")):
        (tmp_path / name).mkdir()
        text = MODULE[: MODULE.index("print(")].replace("never(net)", "never(net=None)")
        (tmp_path / name / "loop.py").write_text(f"{text}\ncalled = {called}\n")
    script = tmp_path / "main.py"
    script.write_text(
        "import os, runpy\nos.chdir('a')\na = runpy.run_path('loop.py')\nos.chdir('../b')\n"
        "b = runpy.run_path('loop.py')\nos.chdir('..')\na['called'](a['Net']())\nb['called'](b['Net']())\n"
    )
    ran = {}
    for name in ("a", "b"):
        path = str(tmp_path / name / "loop.py")
        request = RunRequest(str(script), python=python, cwd=str(tmp_path), env=QUIET)
        result, findings = confirm(path, request, check(read_source(path)).findings)
        assert result.how_ended == "finished", result.stderr
        ran[name] = {line: verdict for code, line, verdict in _said(findings) if code == "TAPE201"}
    assert ran == {"a": {21: "confirmed", 29: "not-reached"}, "b": {21: "not-reached", 29: "confirmed"}}
