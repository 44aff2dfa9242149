"""What hidden code may have switched off, and what shows that recording is on: torch runs each program both ways.

A finding that is certain is one of every completion; where recording is on in all of them it mostly is certain.
"""

from __future__ import annotations

import contextlib
import importlib.abc
import importlib.machinery
import io
import itertools
import random
import sys
import types
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from tapecheck.check import check
from tapecheck.source import from_text

torch = pytest.importorskip("torch")
# Hidden code answers as the object that it is, torch asks the class.
pytestmark = pytest.mark.filterwarnings("ignore:Defining your `__torch_function__`")

HIDDEN = (
    "hidden.run{n}()",
    "next(hidden.run{n})",
    "@hidden.run{n}\ndef f{n}():\n    pass",
    "made{n} = hidden.run{n}()",
    "hidden.run{n}(net)",
    "made{n} = hidden.run{n}(net(x))",
    "torch.nn.Linear(2, 1).apply(hidden.run{n})",
    "timeit.timeit('run(1)', globals={{'run': hidden.run{n}}}, number=1)",
    "class Has{n}:\n    part = hidden.run{n}\n\nmade{n} = Has{n}().part",
    "import late{n}",
    "def load{n}():\n    from late{n}.part import one\n\nload{n}()",
    "for _ in hidden.run{n}:\n    pass",
    "with hidden.run{n}:\n    pass",
    "with torch.enable_grad():\n    with hidden.run{n}:\n        net(x)",
    "made{n} = hidden.run{n} + 1",
    "made{n} = 1 * -hidden.run{n}",
    "made{n} = torch.add(x, hidden.run{n})",
    "made{n} = hidden.run{n}[0]",
    "hidden.run{n}[0] = 1",
    "made{n} = hidden.run{n} == 2",
    "made{n} = 1 in hidden.run{n}",
    "made{n} = len(hidden.run{n})",
    "made{n} = f'{{hidden.run{n}}}'",
    "if hidden.run{n}:\n    pass",
    "(made{n},) = hidden.run{n}",
    "made{n} = [*hidden.run{n}]",
    "made{n} = [one for one in hidden.run{n}]",
    "made{n} = hidden.run{n}\nmade{n} += 1",
    "kept{n} = functools.lru_cache(hidden.run{n})\ntorch.set_grad_enabled(True)\nmade{n} = kept{n}(1)",
    "kept{n} = torch.utils.data.DataLoader(hidden.run{n})\ntorch.set_grad_enabled(True)\nfor _ in kept{n}:\n    pass",
    "kept{n} = hidden.run{n}\ntorch.set_grad_enabled(True)\nfor _ in kept{n}:\n    pass",
    "kept{n} = zip(hidden.run{n}, [1])\ntorch.set_grad_enabled(True)\nmade{n} = list(kept{n})",
    "kept{n} = enumerate(hidden.run{n})\ntorch.set_grad_enabled(True)\nfor _ in kept{n}:\n    pass",
)
"""What runs hidden code."""
SHOWN = (
    "net(x).sum().backward()",
    "with torch.enable_grad():\n    net(x).sum().backward()",
    "with torch.set_grad_enabled(True):\n    net(x).sum().backward()",
    "with torch.inference_mode(False):\n    net(x).sum().backward()",
    "@torch.enable_grad()\ndef learn{n}():\n    net(x).sum().backward()\n\nlearn{n}()",
    "with hidden.on:\n    net(x).sum().backward()",
    "@hidden.on\ndef apart{n}():\n    net(x).sum().backward()\n\napart{n}()",
    "with hidden.on:\n    loss{n} = net(x).sum()\nhidden.run0(loss{n}).backward()",
    "for _ in hidden.within:\n    net(x).sum().backward()",
    "torch.set_grad_enabled(True)",
    "def switch{n}():\n    torch.set_grad_enabled(True)\n\nswitch{n}()",
    "with torch.no_grad():\n    torch.set_grad_enabled(True)",
    "with torch.no_grad():\n    net(x)",
    "was{n} = torch.is_grad_enabled()\ntorch.set_grad_enabled(True)\nnet(x)\ntorch.set_grad_enabled(was{n})",
    (
        "was{n} = torch.is_grad_enabled()\ntorch.set_grad_enabled(True)\n"
        "try:\n    net(x).sum().backward()\nfinally:\n    torch.set_grad_enabled(mode=was{n})"
    ),
    "was{n} = net(x).requires_grad\nwith torch.set_grad_enabled(was{n}):\n    net(x)",
    "@torch.enable_grad()\ndef fail{n}():\n    raise ValueError\n\ntry:\n    fail{n}()\nexcept ValueError:\n    pass",
    "@torch.set_grad_enabled(True)\ndef seen{n}():\n    net(x)\n\nseen{n}()",
    "thread{n} = threading.Thread(target=torch.set_grad_enabled, args=(True,))\nthread{n}.start()\nthread{n}.join()",
    (
        "def work{n}():\n    torch.set_grad_enabled(True)\n\n"
        "thread{n} = threading.Thread(target=work{n})\nthread{n}.start()\nthread{n}.join()"
    ),
    (
        "class Twice{n}(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, given):\n"
        "        torch.set_grad_enabled(True)\n        return given * 2\n\nTwice{n}.apply(x)"
    ),
)
"""What shows it, there or wherever it goes on, and what does not."""
USED = {
    "TAPE104": "net.weight.mul_(2)",
    "TAPE106": "print(net(x).numpy())",
    "TAPE201": "for _ in range(5):\n    kept.append(net(x))",
    "TAPE302": "for _ in range(5):\n    total += net(x).sum().item()",
}
META = [*sys.meta_path]
HEAD = """import functools, threading, timeit, torch, hidden

net, x, kept, total = torch.nn.Linear(2, 1), torch.ones(2), [], 0.0
"""


class _Run:
    """Hidden code, however it is run: it switches recording off, or on with `to`, or leaves it as it is."""

    def __init__(self, off: bool, to: bool = False) -> None:
        self.off = off
        self.to = to

    def __call__(self, *given: Any) -> Any:
        if self.off:
            torch.set_grad_enabled(self.to)
        return given[0] if given else None

    def __iter__(self) -> Iterator[int]:
        self()
        yield 1

    def __len__(self) -> int:
        self()
        return 1

    def __contains__(self, one: object) -> bool:
        self()
        return True

    def __eq__(self, other: object) -> bool:
        self()
        return True

    def __hash__(self) -> int:
        return 0

    def __str__(self) -> str:
        self()
        return ""

    __next__ = __enter__ = __exit__ = __add__ = __getitem__ = __setitem__ = __get__ = __call__

    def __neg__(self) -> int:
        self()
        return 1

    def __torch_function__(self, *given: Any) -> int:
        self()
        return 1


class _Within:
    """Hidden code that gives what to go over, within a context of its own."""

    def __init__(self, off: bool) -> None:
        self.off = off

    def __iter__(self) -> Iterator[int]:
        with torch.set_grad_enabled(torch.is_grad_enabled() and not self.off):
            yield from range(2)


class _Late(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds hidden modules that run hidden code when they are imported, once."""

    def __init__(self, answers: Sequence[bool], to: bool = False) -> None:
        self.answers = answers
        self.to = to

    def find_spec(self, name: str, *given: Any) -> importlib.machinery.ModuleSpec | None:
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if name.startswith("late") else None

    def exec_module(self, module: types.ModuleType) -> None:
        vars(module)["one"] = 1
        if "." not in module.__name__:
            _Run(self.answers[int(module.__name__[4:])], self.to)()


def _indented(text: str) -> str:
    return "".join(f"    {line}\n" for line in text.splitlines())


def _parts(draw: random.Random, code: str, hidden: int) -> tuple[list[str], int, str]:
    """Return what a program does around the place that it is about, with that place and what stands there."""
    parts = [draw.choice(HIDDEN).format(n=n) for n in range(hidden)]
    parts += [draw.choice(SHOWN).format(n=n) for n in range(draw.randint(0, 3))]
    draw.shuffle(parts)
    around = draw.choice(("with torch.enable_grad():\n{}", "for _ in hidden.within:\n{}", *["if True:\n{}"] * 3))
    return parts, draw.randint(0, len(parts)), around


def _written(parts: list[str], at: int, around: str, used: str) -> str:
    return HEAD + "\n".join([*parts[:at], around.format(_indented(used)), *parts[at:]]) + "\n"


def _modes(program: str, hidden: int, monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Return for each completion that runs whether recording is on where the program notes it: hidden
    code switches it off or leaves it, and a hidden context or decorator switches it on within or leaves it.
    """
    found: list[bool] = []
    for on, dark, *answers in itertools.product((False, True), repeat=hidden + 2):
        module = types.ModuleType("hidden")
        vars(module)["on"] = torch.enable_grad() if on else _Run(off=False)
        vars(module)["within"] = _Within(dark)
        vars(module).update({f"run{n}": _Run(answer) for n, answer in enumerate(answers)})
        monkeypatch.setitem(sys.modules, "hidden", module)
        for name in [name for name in sys.modules if name.startswith("late")]:
            monkeypatch.delitem(sys.modules, name)
        monkeypatch.setattr(sys, "meta_path", [_Late(answers), *META])
        noted: list[bool] = []
        # A backward that finds no graph ends the program.
        quiet = contextlib.redirect_stdout(io.StringIO())
        with torch.enable_grad(), quiet, contextlib.suppress(RuntimeError):
            exec(program, {"note": lambda noted=noted: noted.append(torch.is_grad_enabled())})
            found += noted
    return found


@pytest.mark.parametrize("code", USED)
def test_what_is_certain_is_recorded_whatever_hidden_code_does(code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    draw, on, told = random.Random(code), 0, 0
    for _ in range(80):
        hidden = draw.randint(1, 2)
        parts, at, around = _parts(draw, code, hidden)
        modes = _modes(_written(parts, at, around, "note()"), hidden, monkeypatch)
        program = _written(parts, at, around, USED[code])
        certain = any(one.code == code and one.certain for one in check(from_text(program, "train.py")).findings)
        assert all(modes) or not certain, program
        on, told = on + all(modes), told + certain
    assert told > on / 2


OFF = (
    "with torch.no_grad():\n{}",
    "with torch.set_grad_enabled(False):\n{}",
    "torch.set_grad_enabled(False)\nif True:\n{}",
    "@torch.no_grad()\ndef step():\n    global loss\n{}\nstep()",
    "for _ in range(2):\n    with torch.no_grad():\n        if True:\n{}",
)
"""What runs code with recording off."""
BETWEEN = ("", "with torch.enable_grad():\n    net(x).sum().backward()", "with torch.no_grad():\n    net(x)")


def _fails(program: str, names: int, monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Return for each completion whether the backward of `loss` fails: hidden code switches recording on, or leaves it
    as it is.
    """
    found: list[bool] = []
    for answers in itertools.product((False, True), repeat=names):
        module = types.ModuleType("hidden")
        vars(module).update({f"run{n}": _Run(answer, to=True) for n, answer in enumerate(answers)})
        monkeypatch.setitem(sys.modules, "hidden", module)
        for name in [name for name in sys.modules if name.startswith("late")]:
            monkeypatch.delitem(sys.modules, name)
        monkeypatch.setattr(sys, "meta_path", [_Late(answers, to=True), *META])
        with torch.enable_grad(), contextlib.redirect_stdout(io.StringIO()):
            try:
                exec(program, {})
            except RuntimeError as error:
                found.append("does not require grad" in str(error))
            else:
                found.append(False)
    return found


def test_what_certainly_has_no_graph_has_none_whatever_hidden_code_switches_on(monkeypatch: pytest.MonkeyPatch) -> None:
    draw, fails, told = random.Random(5), 0, 0
    forms = [one for one in HIDDEN if "set_grad_enabled" not in one and "enable_grad" not in one]
    for number in range(120):
        inside = [forms[number % len(forms)].format(n=0)] if number % 3 else []
        parts = [*inside, "loss = net(x).sum()"]
        if number % 4 == 0:
            parts.reverse()
        off = draw.choice(OFF)
        depth = 2 if off.startswith("for") else 0
        body = _indented("\n".join(parts)) if not depth else _indented(_indented(_indented("\n".join(parts))))
        before = [draw.choice(HIDDEN).format(n=1), draw.choice(BETWEEN)] if number % 2 else []
        program = HEAD + "\n".join([*before, off.format(body), "loss.backward()"]) + "\n"
        failing = _fails(program, 2, monkeypatch)
        findings = check(from_text(program, "train.py")).findings
        certain = any(one.code == "TAPE103" and one.certain for one in findings)
        assert all(failing) or not certain, program
        fails, told = fails + all(failing), told + certain
    assert told > fails * 0.6


@pytest.mark.parametrize(
    ("late", "certain"),
    [("", True), ("import elsewhere", False), ("import hidden.more", True), ("from . import elsewhere", False)],
)
def test_a_module_that_is_first_imported_later_on_may_switch_recording_off(late: str, certain: bool) -> None:
    program = f"{HEAD}net(x).sum().backward()\n{late}\nprint(net(x).numpy())\n"
    (one,) = check(from_text(program, "train.py")).findings
    assert (one.code, one.certain) == ("TAPE106", certain)


@pytest.mark.parametrize(
    ("first", "certain"),
    [("import elsewhere", True), ("from .elsewhere import one", False), ("from . import one", False)],
)
def test_only_modules_of_the_program_itself_are_taken_to_switch_when_imported_first(first: str, certain: bool) -> None:
    (one,) = check(from_text(f"{first}\n{HEAD}print(net(x).numpy())\n", "train.py")).findings
    assert (one.code, one.certain) == ("TAPE106", certain)


@pytest.mark.parametrize(
    ("given", "first", "second", "certain"),
    [
        ("from data import rows", "rows", "rows", True),
        ("from data import rows, others", "rows", "others", False),
        ("from data import make\nrows, others = make()", "rows", "others", False),
        ("from data import make\nrows, others = make(), make()", "rows", "others", False),
        ("from data import sets", "sets['train']", "sets['test']", False),
    ],
)
def test_what_has_left_recording_on_is_trusted_to_do_so_again(
    given: str, first: str, second: str, certain: bool
) -> None:
    program = (
        f"{HEAD}{given}\nfor row in {first}:\n    net(row).sum().backward()\n"
        f"for row in {second}:\n    total += net(row).sum()\n"
    )
    assert [one.certain for one in check(from_text(program, "train.py")).findings if one.code == "TAPE201"] == [certain]


@pytest.mark.parametrize(
    ("before", "certain"),
    [
        ("device = torch.device('cpu')\nimport hidden.more", True),
        ("measure = torch.nn.MSELoss()\nimport hidden.more", True),
        ("import hidden\nw = torch.zeros(3, device=hidden.device, dtype=hidden.dtype)", True),
        ("import hidden\nw = torch.zeros(3, device=torch.device(hidden.name))", True),
        ("import hidden\ntorch.func.functional_call(hidden.net, {}, (torch.ones(2),))", False),
        ("import hidden\ntorch.utils.data.RandomSampler(hidden.rows)", False),
        ("import hidden\ntorch.nn.utils.rnn.pad_sequence(hidden.rows)", False),
        ("held = torch.load('held.pt', weights_only=False)", False),
        ("held = torch.load('held.pt')", True),
        ("held = torch.jit.load('held.pt')\nheld(torch.ones(2))", True),
        ("held = torch.load('held.pt')\nheld(torch.ones(2))", False),
        ("held = torch.hub.load('some/where', 'one')", False),
        ("held = torch.hub.load('pytorch/vision', 'resnet18')", True),
        ("import pickle\nheld = pickle.load(open('held', 'rb'))", False),
    ],
)
def test_devices_and_types_run_no_code_and_what_else_torch_is_given_or_loads_may(before: str, certain: bool) -> None:
    program = f"import torch\n{before}\nnet, x = torch.nn.Linear(2, 1), torch.ones(2)\nprint(net(x).numpy())\n"
    (one,) = check(from_text(program, "train.py")).findings
    assert (one.code, one.certain) == ("TAPE106", certain)
