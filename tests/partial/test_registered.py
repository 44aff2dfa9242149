"""What a hidden decorator, base class or name is given may be run at any time: it is there to be called later."""

from __future__ import annotations

import pytest

from tapecheck.check import check
from tapecheck.source import from_text

REGISTERED = {
    "decorator": "@hidden.on_step\ndef act(*_):\n    DO\n",
    "decorator that is called": "@hidden.register('end')\ndef act(*_):\n    DO\n",
    "decorator of an object": "bus = hidden.Bus()\n\n\n@bus.on('end')\ndef act(*_):\n    DO\n",
    "decorator of a class": "@hidden.plugin\nclass Act:\n    def on_end(self):\n        DO\n",
    "decorator of a method": "class Act:\n    @hidden.on('end')\n    def on_end(self):\n        DO\n",
    "base class": "class Act(hidden.Callback):\n    def on_end(self):\n        DO\n",
    "metaclass": "class Act(metaclass=hidden.Registry):\n    def on_end(self):\n        DO\n",
    "two decorators": "@hidden.quiet\n@hidden.on_step\ndef act(*_):\n    DO\n",
    "within a function": "def prepare():\n    @hidden.on_step\n    def act(*_):\n        DO\n\n\nprepare()\n",
}
CALLED = {
    "a hidden name": "getattr(acts, hidden.name())()",
    "hidden names": "for name in hidden.names():\n    getattr(acts, 'on_' + name)()",
    "names that are listed": "for name in dir(acts):\n    if name.startswith('on_'):\n        getattr(acts, name)()",
    "with a number": "getattr(acts, hidden.name())(3)",
}
_OWN = "class Acts:\n    def on_end(self, *_):\n        DO\n\n\nacts = Acts()\n"
HEAD = (
    "import hidden\nimport torch\nfrom torch import nn\n\nnet = nn.Linear(2, 1)\n"
    "opt = torch.optim.SGD(net.parameters(), lr=0.1)\n"
)
FAULTS = {
    "TAPE403": (
        "opt.zero_grad()",
        "{made}for step in range(9):\n    net(torch.ones(2)).sum().backward()\n    opt.step()\n{run}\n",
    ),
    "TAPE404": (
        "opt.step()",
        (
            "{made}for step in range(9):\n    net(torch.ones(2)).sum().backward()\n{run}\n    opt.zero_grad()\n"
            "    net(torch.zeros(2)).sum().backward()\n    opt.step()\n    opt.zero_grad()\n"
        ),
    ),
}


def _certain(fault: str, made: str, run: str) -> bool:
    does, program = FAULTS[fault]
    inside = "\n".join(f"    {line}" for line in run.splitlines())
    text = HEAD + program.format(made=made.replace("DO", does), run=inside)
    return any(one.code == fault and one.certain for one in check(from_text(text, "train.py")).findings)


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("form", REGISTERED)
def test_what_is_registered_may_be_run(form: str, fault: str) -> None:
    for run in ("hidden.fire()", "info = hidden.fire('end')", "print(step)"):
        assert not _certain(fault, REGISTERED[form], run), run


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("form", CALLED)
def test_any_method_may_be_called_by_its_name(form: str, fault: str) -> None:
    assert not _certain(fault, _OWN, CALLED[form])


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize(
    "made",
    ["", "@hidden.timed\ndef act():\n    DO\n\n\nprint(act)\n", _OWN, _OWN + "print(getattr(acts, hidden.name()))\n"],
)
def test_what_nobody_runs_changes_nothing(made: str, fault: str) -> None:
    assert _certain(fault, made, "print(step)")
