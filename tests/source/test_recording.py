"""Who may call a function where recording is off: what PyTorch shows to be off, the texts of the files must allow."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

import pytest

from tapecheck.source.callers import Callers
from tapecheck.source.project import Setup
from tests.projects.running import run_main

_LIBRARY = """
SEEN = []


def evaluate(model):
    import torch
    SEEN.append(torch.is_grad_enabled())
    return model
"""
_CALLS = {
    "call": "evaluate(1)",
    "alias": "checked = evaluate\nchecked(1)",
    "renamed": "from library import evaluate as checked\nchecked(1)",
    "attribute": "import library\nlibrary.evaluate(1)",
    "text": "import library\ngetattr(library, 'evaluate')(1)",
    "entry": "import library\nvars(library)['evaluate'](1)",
    "namespace": "import library\nlibrary.__dict__['evaluate'](1)",
    "caller": "import library\nimport operator\noperator.methodcaller('evaluate', 1)(library)",
    "executed": "exec('evaluate(1)')",
    "table": "TABLE = {'one': evaluate}\nTABLE['one'](1)",
    "partial": "functools.partial(evaluate, 1)()",
    "mapped": "list(map(evaluate, [1]))",
    "default": "(lambda run=evaluate: run(1))()",
    "nested": "def inner():\n    return evaluate(1)\n\ninner()",
    "later": "def gather():\n    yield evaluate(1)\n\nlist(gather())",
    "lambda": "late = lambda: evaluate(1)\nlate()",
    "method": "class One:\n    def run(self):\n        return evaluate(1)\n\nOne().run()",
    "made": "class One:\n    def __init__(self):\n        self.found = evaluate(1)\n\nOne()",
    "operator": "class One:\n    def __add__(self, other):\n        return evaluate(other)\n\nOne() + 1",
    "property": "class One:\n    @property\n    def found(self):\n        return evaluate(1)\n\nOne().found",
    "inherited": (
        "class Base:\n    def go(self):\n        return self.run()\n\n"
        "class One(Base):\n    def run(self):\n        return evaluate(1)\n\nOne().go()"
    ),
}
"""The body of a function `work` that calls."""
_OFF = {
    "on": "work()",
    "block": "with torch.no_grad():\n    work()",
    "inference": "with torch.inference_mode():\n    work()",
    "kept": "off = torch.no_grad()\nwith off:\n    work()",
    "switch": "torch.set_grad_enabled(False)\nwork()",
    "own context": "with quiet():\n    work()",
    "stack": "with contextlib.ExitStack() as stack:\n    stack.enter_context(torch.no_grad())\n    work()",
    "entered": "off = torch.no_grad()\noff.__enter__()\nwork()",
    "open stack": "stack = contextlib.ExitStack()\nstack.enter_context(torch.no_grad())\nwork()",
    "inner switch": "torch._C._set_grad_enabled(False)\nwork()",
    "decorated": "torch.no_grad()(work)()",
    "handed": "quietly(work)",
    "within": "def outer():\n    with torch.no_grad():\n        work()\n\nouter()",
    "decorator": "@torch.no_grad()\ndef outer():\n    work()\n\nouter()",
    "class": "class Outer:\n    def __enter__(self):\n        torch.set_grad_enabled(False)\n\n"
    "    def __exit__(self, *parts):\n        torch.set_grad_enabled(True)\n\nwith Outer():\n    work()",
    "other mode": "with torch.enable_grad():\n    work()",
    "profiler": "with open(os.devnull) as sink:\n    work()",
}
_STEPS = """
import functools
from library import evaluate


def work():
{call}
"""
_HELPERS = """
import contextlib
import torch


@contextlib.contextmanager
def quiet():
    with torch.no_grad():
        yield


def quietly(run):
    with torch.no_grad():
        return run()
"""
_MAIN = """
import contextlib
import os
import torch
from helpers import quiet, quietly
from steps import work

{off}
"""
_SWITCHED_OFF = _OFF.keys() - {"on", "profiler", "other mode"}
_SEEN_THROUGH = ("call", "attribute", "method", "made", "inherited")


def _laid_out(folder: Path, call: str, off: str) -> Callers:
    body = "\n".join(f"    {line}" if line else "" for line in _CALLS[call].splitlines())
    files = {
        "pyproject.toml": "", "library.py": _LIBRARY, "helpers.py": _HELPERS,
        "steps.py": _STEPS.format(call=body), "main.py": _MAIN.format(off=_OFF[off]),
    }  # fmt: skip
    for name, text in files.items():
        (folder / name).write_text(text)
    path = str(folder / "library.py")
    return Callers(Setup().project_of(path), {})


def _recorded(folder: Path) -> list[bool]:
    """Run the project and return whether recording was on at each call."""
    torch = pytest.importorskip("torch")
    try:
        with run_main(folder / "main.py"):
            seen: list[bool] = sys.modules["library"].SEEN
            return seen
    finally:
        torch.set_grad_enabled(True)


@pytest.mark.parametrize(("call", "off"), [*itertools.product(_CALLS, _OFF)])
def test_nothing_is_taken_for_recorded_that_is_not(call: str, off: str, tmp_path: Path) -> None:
    callers = _laid_out(tmp_path, call, off)
    unrecorded = callers.may_be_unrecorded("evaluate", method=False)
    if off in _SWITCHED_OFF:
        assert unrecorded
    elif call in _SEEN_THROUGH and off in ("on", "profiler"):
        assert not unrecorded
    seen = _recorded(tmp_path)
    assert len(seen) == 1
    assert unrecorded or seen == [True]


@pytest.mark.parametrize("call", _SEEN_THROUGH)
def test_a_method_that_a_base_out_of_sight_may_call_is_not_seen_through(call: str, tmp_path: Path) -> None:
    _laid_out(tmp_path, call, "on")
    steps = tmp_path / "steps.py"
    text = steps.read_text().replace(
        "def work():\n", "import hidden\n\n\nclass Task(hidden.Task):\n  def work(self):\n"
    )
    steps.write_text(text)
    assert Callers(Setup().project_of(str(tmp_path / "library.py")), {}).may_be_unrecorded("evaluate", method=False)


@pytest.mark.parametrize("drawn", ["found = work()\nwith torch.no_grad():\n    list(found)", "list(work())"])
@pytest.mark.parametrize("within", ["", "def inner():\n    return work()\n\n"])
def test_a_generator_runs_where_it_is_drawn_from(drawn: str, within: str, tmp_path: Path) -> None:
    callers = _laid_out(tmp_path, "call", "on")
    (tmp_path / "steps.py").write_text("from library import evaluate\n\n\ndef work():\n    yield evaluate(1)\n")
    drawn = within + (drawn.replace("work()", "inner()") if within else drawn)
    (tmp_path / "main.py").write_text(f"import torch\nfrom steps import work\n\n{drawn}\n")
    assert callers.may_be_unrecorded("evaluate", method=False)
    assert _recorded(tmp_path) == ["no_grad" not in drawn]


_BASES = {
    "none": ("", ""), "object": ("", "(object)"), "module": ("from torch import nn", "(nn.Module)"),
    "own": ("from helpers import Own", "(Own)"), "here": ("class Own:\n    pass\n", "(Own)"),
    "own of own": ("from helpers import Own\n\n\nclass Inner(Own):\n    pass\n", "(Inner)"),
    "relative": ("from .helpers import Own", "(Own)"),
}  # fmt: skip
_HIDDEN = {
    "attribute": ("import hidden", "(hidden.Own)"), "name": ("from hidden import Own", "(Own)"),
    "same name": ("from hidden import Task", "(Task)"), "computed": ("import hidden", "(hidden.base())"),
    "below": ("from helpers import Below", "(Below)"),
}  # fmt: skip


@pytest.mark.parametrize(("above", "base", "seen"), [
    *((*one, True) for one in _BASES.values()), *((*one, False) for one in _HIDDEN.values()),
])  # fmt: skip
def test_a_method_is_seen_through_where_all_of_its_class_is_written(
    above: str, base: str, seen: bool, tmp_path: Path
) -> None:
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "library.py").write_text(_LIBRARY)
    (tmp_path / "helpers.py").write_text(
        "import library\nfrom hidden import Base\n\n\nclass Own:\n    pass\n\n\nclass Below(Base):\n    pass\n"
    )
    (tmp_path / "main.py").write_text(
        f"from library import evaluate\nimport helpers\n{above}\n\n\n"
        f"class Task{base}:\n    def work(self):\n        return evaluate(1)\n\n\nTask().work()\n"
    )
    callers = Callers(Setup().project_of(str(tmp_path / "library.py")), {})
    assert callers.may_be_unrecorded("evaluate", method=False) is not seen


_AROUND = {
    "on": "{0}",
    "block": "with torch.no_grad():\n    {0}",
    "inference": "with torch.inference_mode():\n    {0}",
    "further in": "with torch.no_grad():\n    for _ in range(1):\n        if True:\n            {0}",
    "decorated": "@torch.no_grad()\ndef outer():\n    {0}\n\nouter()",
    "decorated in a block": "with torch.enable_grad():\n    @torch.no_grad()\n    def outer():\n        {0}\n\n"
    "    outer()",
    "in a function": "def outer():\n    with torch.no_grad():\n        {0}\n\nouter()",
    "several": "with torch.no_grad(), open(os.devnull):\n    {0}",
    "on again": "with torch.no_grad():\n    with torch.enable_grad():\n        {0}",
    "on again at once": "with torch.no_grad(), torch.enable_grad():\n    {0}",
    "on by a flag": "with torch.no_grad():\n    with torch.set_grad_enabled(True):\n        {0}",
    "later": "with torch.no_grad():\n    def outer():\n        {0}\n\nouter()",
    "a lambda": "with torch.no_grad():\n    outer = lambda: {0}\n\nouter()",
    "drawn": "with torch.no_grad():\n    outer = ({0} for _ in range(1))\n\nlist(outer)",
    "a generator": "@torch.no_grad()\ndef outer():\n    yield {0}\n\nlist(outer())",
    "a method": "class Outer:\n    @torch.inference_mode()\n    def run(self):\n        {0}\n\nOuter().run()",
    "twice": "with torch.no_grad():\n    {0}\n{0}",
    "handed on": "with torch.no_grad():\n    run = evaluate\nrun(1)",
    "by a text": "with torch.no_grad():\n    {0}\ngetattr(library, 'evaluate')(1)",
}
_BY_TEXT_ALONE = (
    "block", "inference", "further in", "decorated", "decorated in a block", "in a function", "several", "a method",
)  # fmt: skip


@pytest.mark.parametrize("call", ["evaluate(1)", "library.evaluate(1)", "print(evaluate(1))", "[evaluate(1)][0]"])
@pytest.mark.parametrize("around", _AROUND)
def test_what_is_called_without_recording_alone(around: str, call: str, tmp_path: Path) -> None:
    main = "import os\nimport torch\nimport library\nfrom library import evaluate\n\n" + _AROUND[around].format(call)
    for name, text in {"pyproject.toml": "", "library.py": _LIBRARY, "main.py": main + "\n"}.items():
        (tmp_path / name).write_text(text)
    path = str(tmp_path / "library.py")
    line = next(number for number, text in enumerate(_LIBRARY.splitlines(), 1) if text.startswith("def evaluate"))
    unrecorded = Callers(Setup().project_of(path), {}).calls_unrecorded(line)
    assert unrecorded == (around in _BY_TEXT_ALONE)
    if unrecorded:
        assert set(_recorded(tmp_path)) == {False}


def test_what_nobody_calls_is_called_with_recording_on(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "library.py").write_text("def evaluate(model):\n    return model\n")
    assert not Callers(Setup().project_of(str(tmp_path / "library.py")), {}).calls_unrecorded(1)


@pytest.mark.parametrize("switch", ["with torch.enable_grad():", "with torch.set_grad_enabled(True):", "if True:"])
def test_what_switches_recording_on_itself_is_recorded(switch: str, tmp_path: Path) -> None:
    """Attacks and adaptation at test time do so: their callers' `no_grad` says nothing of them."""
    files = {
        "pyproject.toml": "",
        "library.py": "import torch\n\nSEEN = []\n\n\ndef adapt(x):\n"
        f"    {switch}\n        SEEN.append(torch.is_grad_enabled())\n",
        "main.py": "import torch\nfrom library import adapt\n\nwith torch.no_grad():\n    adapt(1)\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    unrecorded = Callers(Setup().project_of(str(tmp_path / "library.py")), {}).calls_unrecorded(6)
    assert unrecorded is (switch == "if True:")
    assert _recorded(tmp_path) == [not unrecorded]
