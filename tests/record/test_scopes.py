"""What a run names belongs to a finding by the function that has it: one of the same name elsewhere changes nothing."""

from __future__ import annotations

import ast
import random
import symtable
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tapecheck.check import check
from tapecheck.record import RunResult, judge
from tapecheck.record.scopes import MODULE, Scopes
from tapecheck.source import read_source

HEAD = """\
import functools
import torch
net = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
"""
CACHE = """\
@functools.lru_cache(maxsize=None)
def {k}(i):
    return net(torch.ones(4, 8) * i).tanh()
"""
METHOD = """\
class Model:
    def __init__(self):
        self.{k} = functools.lru_cache(None)(self.look)
    def look(self, i):
        return net(torch.ones(4, 8) * i).tanh()
model = Model()
"""
PUT = """\
{k} = []
def put(keep, i):
    x = net(torch.ones(4, 8) * i).tanh()
    keep(x)
    return x
"""
FILLED = """\
{k} = {{}}
def look(i):
    {k}[i] = net(torch.ones(4, 8) * i).tanh()
    return {k}[i]
"""
KEEPERS = {
    "cache": (CACHE, "{k}(i)"),
    "method": (METHOD, "model.{k}(i)"),
    "by-method": (PUT, "put({k}.append, i)"),
    "filled": (FILLED, "look(i)"),
}
NAMESAKES = [
    "def other():\n    {k} = torch.zeros(3)\n    return {k}.sum()\n",
    "def other({k}=0):\n    return {k}\n",
    "def other():\n    def {k}(i):\n        return i\n    return {k}(1)\n",
    "def other():\n    for {k} in range(3):\n        pass\n",
    "def other():\n    return [{k} for {k} in range(3)]\n",
    "class Other:\n    {k} = 3\ndef other():\n    return Other.{k}\n",
    "def other():\n    @functools.lru_cache\n    def {k}(i):\n        return i\n    return {k}(2)\n",
    "def other():\n    {k} = []\n    for i in range(12):\n        {k}.append(net(torch.ones(2, 8)).detach())\n",
    "def other():\n    {k} = [net(torch.ones(2, 8)).sum() for i in range(12)]\n    return sum({k}).backward()\n",
    "def other():\n    import functools as {k}\n    return {k}\n",
]  # fmt: skip
LOOP = """\
for i in range(20):
    loss = {call}.pow(2).mean()
    optimizer.zero_grad(); loss.backward(); optimizer.step()
"""
WHERE = ("above", "below", "imported")


def _programs(seed: int, keeper: str) -> tuple[dict[str, str], str]:
    """Return the files of a program that keeps graphs, between some others that have variables of the same name."""
    chance = random.Random(seed)
    k = chance.choice(["features", "kept", "table", "h", "loss_of"])
    others = [chance.choice(NAMESAKES).replace("other", f"other{n}").replace("Other", f"Other{n}") for n in range(3)]
    where = [chance.choice(WHERE) for _ in others]
    defined, call = KEEPERS[keeper]
    parts = {place: "".join(o for o, w in zip(others, where) if w == place).format(k=k) for place in WHERE}
    calls = "".join(f"other{n}()\n" for n, w in enumerate(where) if w != "imported" and chance.random() < 0.7)
    lib = HEAD + parts["imported"] + "".join(f"other{n}()\n" for n, w in enumerate(where) if w == "imported")
    inside = chance.random() < 0.5
    loop = LOOP.format(call=call.format(k=k))
    if inside:
        loop = "def train():\n" + "".join(f"    {line}\n" for line in loop.splitlines()) + "train()\n"
    main = HEAD + "import lib\n" + parts["above"] + defined.format(k=k) + parts["below"] + calls + loop + calls
    return {"lib.py": lib, "script.py": main}, k


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("keeper", KEEPERS)
def test_a_namesake_elsewhere_changes_no_verdict(
    record: Callable[..., RunResult], tmp_path: Path, keeper: str, seed: int
) -> None:
    files, name = _programs(seed, keeper)
    for file, text in files.items():
        (tmp_path / file).write_text(text)
    script = tmp_path / "script.py"
    found = [one for one in check(read_source(str(script))).findings if one.code == "TAPE201"]
    result = record(files["script.py"], watch={(str(script), one.span.line) for one in found})
    told = [one for one in judge(found, result.tape, directory=str(tmp_path)) if one.code == "TAPE201"]
    said = [(one.facts.holder.rpartition(".")[2], one.evidence and one.evidence.verdict) for one in told]
    assert said == [(name, "confirmed")], files["script.py"]


TWO = (
    HEAD
    + """\
@functools.lru_cache(maxsize=None)
def {k}(i):
    return net(torch.ones(4, 8) * i).tanh(){first}
class Model:
    @functools.lru_cache(maxsize=None)
    def {k}(self, i):
        return net(torch.ones(4, 8) * i).relu(){second}
model = Model()
for i in range(20):
    loss = net(torch.ones(4, 8)).sum() + ({k}(i) + model.{k}(i)).pow(2).mean()
    optimizer.zero_grad(); loss.backward(); optimizer.step()
"""
)


@pytest.mark.parametrize(("run", "expected"), [(("", ".detach()"), True), ((".detach()", ""), False)])
def test_of_two_functions_of_one_name_each_remembers_its_own(
    record: Callable[..., RunResult], tmp_path: Path, run: tuple[str, str], expected: bool
) -> None:
    script = tmp_path / "script.py"
    script.write_text(TWO.format(k="features", first="", second=".detach()"))
    (found,) = [one for one in check(read_source(str(script))).findings if one.code == "TAPE201"]
    text = TWO.format(k="features", first=run[0], second=run[1])
    result = record(text, watch={(str(script), found.span.line)})
    told = [one for one in judge([found], result.tape, directory=str(tmp_path)) if one.code == "TAPE201"]
    verdict = told[0].evidence.verdict if told[0].evidence is not None else ""
    assert (verdict == "confirmed") is expected
    assert len(told) == (1 if expected else 2), "what the other one keeps is found by the run"


PIECES = [
    "def {f}({a}, *{b}, **{c}):\n    {d} = {e}",
    "async def {f}(*, {a}=1):\n    global {b}\n    {b} = {a}",
    "def {f}():\n    {a} = 1\n    def {g}():\n        nonlocal {a}\n        {a} = {b}\n    return {g}",
    "def {f}():\n    import {a} as {b}\n    with {c} as {d}:\n        del {e}",
    "@decorated\ndef {f}():\n    return [{a} for {b} in {c}]",
    "class {f}:\n    {a} = 1\n    def {g}(self):\n        return {a}, ({b} := 2)",
    "def {f}():\n    try:\n        pass\n    except ValueError as {a}:\n        print({b})\n    return lambda {c}: {d}",
    "{a} = {b}",
]  # fmt: skip


@pytest.mark.parametrize("seed", range(40))
def test_variables_are_those_that_python_has(seed: int) -> None:
    chance = random.Random(seed)
    names = ["u", "v", "w", "x", "y", "z"]
    text = "\n".join(
        chance.choice(PIECES).format(f=f"f{n}", g=f"g{n}", **dict(zip("abcde", chance.sample(names, 5))))
        for n in range(4)
    )  # fmt: skip
    scopes = Scopes(ast.parse(text))
    for function in _functions(symtable.symtable(text, "text", "exec")):
        # The line of its name: decorators come before it.
        for name in names:
            had = function.lookup(name) if name in function.get_identifiers() else None
            begun = scopes.begin(name, function.get_lineno() + 1)
            if had is not None and had.is_local():
                assert begun is not None and text.splitlines()[begun - 1].lstrip().startswith(("def", "async", "@"))
                assert begun in (function.get_lineno(), function.get_lineno() - 1)
            elif had is not None and had.is_global():
                assert begun == MODULE


def _functions(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    for child in table.get_children():
        if child.get_type() == "function" and child.get_name() not in ("lambda", "listcomp"):
            yield child
        yield from _functions(child)
