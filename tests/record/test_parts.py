"""A line of which only a part ran says nothing of the rest: `if again: log(loss)` is one line."""

from __future__ import annotations

import ast
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tapecheck.check import check
from tapecheck.record import RunRequest, confirm
from tapecheck.record.probe import parts
from tapecheck.rules import Finding
from tapecheck.source import read_source
from tests.record.harness import PYTHON, QUIET

HEAD = """\
import sys
import torch
from torch import nn


class Stop(Exception):
    pass


class Guard:
    def __enter__(self):
        return self

    def __exit__(self, kind, value, traceback):
        return kind is Stop


def demand(ok):
    if not ok:
        raise Stop


def call(asked, function):
    if asked:
        return function()


flags = [character == "1" for character in sys.argv[1]]
model = nn.Linear(4, 1)
w = model.weight
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
LOOP = """\
for step in range(6):
    optimizer.zero_grad()
    loss = model(torch.randn(5, 4)).pow(2).mean()
    loss.backward()
"""
FORMS = (
    "if {flag}: {does}",
    "if {flag}: x = 1; {does}",
    "ä = 'ö'; flag = {flag}; {does} if flag else 'ü'",
    "if not {flag}: pass\nelse: {does}",
    "if step < 0: pass\nelif {flag}: {does}",
    "while {flag}: {does}; break",
    "for _ in range(int({flag})): {does}",
    "[{does} for _ in range(int({flag}))]",
    "[{does} for _ in range(1) if {flag}]",
    "[x for x in range(1) if {flag} if not {does}]",
    "x = {{k: {does} for k in range(int({flag}))}}",
    "any({does} for _ in range(1) if {flag})",
    "{does} if {flag} else None",
    "None if not {flag} else {does}",
    "{flag} and {does}",
    "not {flag} or {does}",
    "f = lambda: {does}\nif {flag}: f()",
    "({flag} and (lambda: {does})())",
    "call({flag}, lambda: {does})",
    "try: demand({flag})\nexcept Stop: pass\nelse: {does}",
    "try: demand({flag}); {does}\nexcept Stop: pass",
    "with Guard(): demand({flag}); {does}",
    "assert not {flag} or ({does}) is None",
    "(0 < int({flag}) < (({does}) is None) + 3)",
    "(x := {does}) if {flag} else None",
    "print(end='', *([{does}] if {flag} else []))",
    "if {flag}:\n    {does}",
    "def inner(): {does}\nif {flag}: inner()",
    "x = ({does}\n     if {flag}\n     else None)",
    "x = ({flag}\n     and {does})",
)
CASES = (
    ()
    if sys.version_info < (3, 10)
    else ("match {flag}:\n    case True: {does}", "match step:\n    case _ if {flag} and not {does}: pass")
)
COLUMNS = hasattr(ast, "TryStar")
"""Whether code has columns: from Python 3.11 on."""


def judged(folder: Path, text: str, flags: str, python: str, **env: str) -> list[Finding]:
    script = folder / "train.py"
    script.write_text(text, encoding="utf-8")
    found = list(check(read_source(str(script))).findings)
    request = RunRequest(str(script), (flags,), cwd=str(folder), python=python, env={**QUIET, **env})
    return confirm(str(script), request, found)[1]


def verdict(finding: Finding) -> str:
    return finding.evidence.verdict if finding.evidence is not None else "undecided"


def in_loop(lines: list[str]) -> str:
    body = "".join(f"    {line}\n" for text in lines for line in text.splitlines())
    return HEAD + "".join(f"kept{k} = []\n" for k in range(len(lines))) + LOOP + body + "    optimizer.step()\n"


ALL = random.Random(0).sample([*FORMS, *CASES], len(FORMS) + len(CASES))
A_THIRD = [ALL[third::3] for third in range(3)]


@pytest.mark.parametrize("forms", A_THIRD, ids=["first", "second", "third"])
@pytest.mark.parametrize("other", [False, True])
def test_what_a_line_leaves_out_was_not_reached(tmp_path: Path, warm: str, forms: list[str], other: bool) -> None:
    chance = random.Random(len(forms[0]))
    ran = [(chance.random() < 0.5) != other for _ in forms]
    does = [f"kept{k}.append(loss)" for k in range(len(forms))]
    text = in_loop([form.format(flag=f"flags[{k}]", does=does[k]) for k, form in enumerate(forms)])
    shown = {}
    for finding in judged(tmp_path, text, "".join("01"[flag] for flag in ran), warm):
        line = text.splitlines()[finding.span.line - 1]
        shown |= {k: verdict(finding) for k, what in enumerate(does) if what in line}
    assert len(shown) == len(forms), text
    for k, form in enumerate(forms):
        expected = ("confirmed",) if ran[k] else ("not-reached",) if COLUMNS else ("not-reached", "undecided")
        assert shown[k] in expected, (form, ran[k], shown[k])


@pytest.mark.parametrize("form", random.Random(1).sample(FORMS, 4))
@pytest.mark.parametrize("does", ["w.mul_(0.5)", "loss.detach().backward()", "loss.backward()"])
def test_what_raises_is_told_of_the_part_that_ran(tmp_path: Path, warm: str, form: str, does: str) -> None:
    text = in_loop([form.format(flag="flags[0]", does=does)])
    shown = {flag: [verdict(one) for one in judged(tmp_path, text, flag, warm)] for flag in "01"}
    assert shown["1"] == ["confirmed"]
    assert shown["0"] == ["not-reached"] or (not COLUMNS and shown["0"] == ["undecided"])


def test_code_without_columns_leaves_it_undecided(tmp_path: Path) -> None:
    text = in_loop([FORMS[0].format(flag="flags[0]", does="kept0.append(loss)")])
    (finding,) = judged(tmp_path, text, "0", PYTHON, PYTHONNODEBUGRANGES="1")
    assert verdict(finding) == "undecided" and "this part of it" in finding.notes[-1]
    (finding,) = judged(tmp_path, text, "1", PYTHON, PYTHONNODEBUGRANGES="1")
    assert verdict(finding) == "confirmed"


@pytest.mark.skipif(not COLUMNS, reason="code has no columns")
def test_a_part_that_is_watched_no_more_is_unsure() -> None:
    class Text:
        def __init__(self) -> None:
            self.filename = os.path.abspath("train.py")
            self.parts = [(1, 6, 1, 10)]

        def extent_of(self, at: parts.Bytes) -> parts.Bytes:
            return at

    told: list[tuple[int, bool]] = []
    text = Text()
    watch = parts.Parts(lambda part: told.append(part.known()))
    code = compile("x and f(x)", text.filename, "exec")
    entries = watch.entries(code, text, {(text.filename, 1)})
    assert entries is not None and entries.rows == {1}
    (part,) = watch.on(text.filename, 1)
    assert part.known() == (0, False), "no event has come yet"
    entries.stepped(0)
    assert part.known() == (0, True)
    entries.give_up()
    assert part.known() == (0, False) and told[-1] == (0, False) and not entries.rows


DRIVER = """\
import importlib, os, random, sys
sys.path.insert(0, sys.argv[1])
from probe.lines import Listener
from probe.sources import Sources
from probe.tracing import Tracer

observing = importlib.import_module("probe.monitoring" if sys.version_info >= (3, 12) else "probe.settrace")
path = os.path.abspath("program.py")
with open(path, encoding="utf-8") as file:
    text = file.read()
lines = text.splitlines()
failed = []
for seed in range(10):
    tracer = Tracer(Sources(path, "program.py"), Listener())
    tracer.failed = lambda: failed.append(repr(sys.exc_info()[1]))
    tracer.watched = {(path, row): 0 for row in range(1, len(lines) + 1)}
    space = {"kept": [], "flags": [random.Random(seed).random() < 0.5 for _ in range(64)]}
    stop = observing.observe(tracer, [])
    exec(compile(text, path, "exec"), space)
    stop()
    for part in tracer.parts.of_file[path]:
        inside = lines[part.at[0] - 1].encode()[part.at[1] : part.at[3]].decode()
        hits, sure = part.known()
        if inside.startswith("kept.append(") and inside.endswith(")") and inside.count("(") == 1:
            ran = space["kept"].count(int(inside[12:-1]))
            if hits != ran if sure else sys.version_info >= (3, 11):
                failed.append((inside, hits, sure, ran))
print("failed:", failed)
"""
VERSIONS = sorted({name for name in (f"python3.{minor}" for minor in range(9, 15)) if shutil.which(name)})


@pytest.mark.parametrize("version", [PYTHON, *VERSIONS], ids=["own", *VERSIONS])
def test_parts_are_counted_as_they_run(tmp_path: Path, version: str) -> None:
    program = HEAD[HEAD.index("class Stop") : HEAD.index("flags =")] + "def run(step):\n"
    for number, form in enumerate(FORMS):
        text = form.format(flag=f"flags[{number}]", does=f"kept.append({number})")
        program += "".join(f"    {line}\n" for line in text.splitlines())
    (tmp_path / "program.py").write_text(program + "for step in range(3):\n    run(step)\n", encoding="utf-8")
    (tmp_path / "driver.py").write_text(DRIVER, encoding="utf-8")
    folder = Path(parts.__file__).parents[1]
    done = subprocess.run(
        [version, "driver.py", str(folder)], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    if done.returncode == 127 or "not found" in done.stderr:
        pytest.skip(f"{version} is a name without an interpreter")
    assert done.stdout.endswith("failed: []\n"), done.stdout + done.stderr
