"""NumPy and tensors that require grad (TAPE106): each program is run under torch, which says whether it raises."""

from __future__ import annotations

import itertools
import random
import sys
import types
import warnings

import pytest

from tapecheck.check import check
from tapecheck.fixes import fixes_for
from tapecheck.source import from_text
from tests.fixes.support import fixed

torch = pytest.importorskip("torch")
pytest.importorskip("numpy")

MADE = {
    "leaf": "t = torch.ones(3, requires_grad=True)",
    "parameter": "t = nn.Linear(3, 3).bias",
    "output": "t = nn.Linear(3, 3)(torch.ones(3))",
    "product": "t = torch.ones(3, requires_grad=True) * 2",
    "view": "t = torch.ones(1, 3, requires_grad=True).view(3)",
    "element": "t = torch.ones(3, requires_grad=True)[0:2]",
    "data": "t = torch.ones(3)",
    "detached": "t = (torch.ones(3, requires_grad=True) * 2).detach()",
    "taken out": "t = (torch.ones(3, requires_grad=True) * 2).data",
    "without recording": "with torch.no_grad():\n    t = nn.Linear(3, 3)(torch.ones(3))",
    "switched on again": "with torch.no_grad():\n    t = nn.Linear(3, 3)(torch.ones(3))\nt.requires_grad_()",
    "frozen": "t = nn.Linear(3, 3).requires_grad_(False)(torch.ones(3))",
    "clone": "t = torch.ones(3, requires_grad=True).clone()",
    "compared": "t = (torch.ones(3, requires_grad=True) * 2 > 1).float()",
    "cut in place": "t = torch.ones(3, requires_grad=True) * 2\nt.detach_()",
    "gradient": "w = torch.ones(3, requires_grad=True)\n(w * 2).sum().backward()\nt = w.grad",
    "sampled": "t = torch.distributions.Normal(torch.ones(3, requires_grad=True), 1.0).sample()",
}
USED = {
    "numpy": "t.numpy()",
    "forced": "t.numpy(force=True)",
    "on the CPU": "t.cpu().numpy()",
    "detached": "t.detach().numpy()",
    "array": "np.array(t)",
    "asarray": "np.asarray(t)",
    "root": "np.sqrt(t)",
    "log": "v = np.log(np.abs(t))",
    "largest": "np.maximum(t, 0)",
    "stacked": "np.stack([t, t])",
    "rows": "np.array([t, t])",
    "mean of a list": "np.mean([t.sum(), t.sum() * 2])",
    "mean of numbers": "np.mean([t.sum().item(), 2.0])",
    "collected": "kept = []\nfor i in range(3):\n    kept.append(t.sum() * i)\nv = np.array(kept)",
    "collected numbers": "kept = []\nfor i in range(3):\n    kept.append(float(t.sum()) * i)\nv = np.array(kept)",
    "as a list": "np.array(t.tolist())",
    "shape": "np.zeros(np.shape(t))",
    "squeezed": "np.squeeze(t)",
    "under no_grad": "with torch.no_grad():\n    v = t.numpy()",
    "made under no_grad": "with torch.no_grad():\n    v = np.sqrt(t)",
    "inference": "with torch.inference_mode():\n    v = t.numpy()",
    "on again": "with torch.no_grad(), torch.enable_grad():\n    v = t.numpy()",
    "in a function": "def plot(values):\n    return values.numpy() + 1\nplot(t)",
    "under a decorator": "@torch.no_grad()\ndef plot(values):\n    return values.numpy() + 1\nplot(t)",
    "switched off": "torch.set_grad_enabled(False)\nv = t.numpy()\ntorch.set_grad_enabled(True)",
    "caught": "try:\n    t.numpy()\nexcept RuntimeError:\n    t.detach().numpy()",
    "guarded": "v = t.detach().numpy() if t.requires_grad else t.numpy()",
    "asked first": "if not t.requires_grad:\n    t.numpy()",
    "computed with": "v = t * torch.from_numpy(np.ones(1))",
    "by one number": "v = t * np.float64(2)",
}
EVERY = [*itertools.product(MADE, USED)]


def program(made: str, used: str) -> str:
    return f"import numpy as np\nimport torch\nfrom torch import nn\n{MADE[made]}\n{USED[used]}\n"


def raises(text: str) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            exec(text, {})
        except RuntimeError as error:
            assert "Can't call numpy()" in str(error)
            return True
        finally:
            torch.set_grad_enabled(True)
    return False


def certain(text: str) -> bool:
    found = [one for one in check(from_text(text, "run.py")).findings if one.code == "TAPE106"]
    assert all(one.certain for one in found), text
    return bool(found)


@pytest.mark.parametrize("made", MADE)
def test_it_is_told_where_torch_raises(made: str) -> None:
    texts = {used: program(made, used) for used in USED}
    truth = {used: raises(text) for used, text in texts.items()}
    assert {used: certain(text) for used, text in texts.items()} == truth


@pytest.mark.parametrize("seed", range(40))
def test_fixes_let_the_program_run(seed: int) -> None:
    text = program(*random.Random(f"arrays {seed}").choice(EVERY))
    report = check(from_text(text, "run.py"))
    for finding in (one for one in report.findings if one.code == "TAPE106"):
        fixes = fixes_for(report, finding)
        assert fixes or "[" in text.splitlines()[finding.span.line - 1], text
        for fix in fixes:
            assert not raises(fixed(text, fix)), fix.title


HIDDEN = [
    "t = hidden.made(t)",
    "hidden.changed(t)\nt = hidden.table['t']",
    "with hidden.mode():\n    t.numpy()\nt = None",
    "@hidden.mode()\ndef plot():\n    return t.numpy()\nplot()\nt = None",
    "t = hidden.Net()(t)",
    "def plot(net):\n    return net(torch.ones(3)).numpy()\nhidden.call(plot)\nt = None",
    "def plot(self):\n    return (torch.ones(3, requires_grad=True) * 2).numpy()\nt = None",
]


@pytest.mark.parametrize("hidden", HIDDEN)
def test_nothing_is_certain_where_hidden_code_may_keep_it_from_raising(hidden: str) -> None:
    last = "" if "t = None" in hidden else "t.numpy()\n"
    text = f"import hidden\nimport torch\nt = torch.ones(3, requires_grad=True) * 2\n{hidden}\n{last}"
    found = [one for one in check(from_text(text, "run.py")).findings if one.code == "TAPE106"]
    assert not [one for one in found if one.certain], text


SET_UP = {
    "call": "hidden.setup()",
    "imported": "from hidden import setup\nsetup()",
    "method": "hidden.Config().apply()",
    "method of an object": "config = hidden.Config()\nconfig.apply()",
    "with an argument": "hidden.setup(42)",
    "for its value": "kept = hidden.setup()",
    "for its value, with an argument": "kept = hidden.setup(seed=42)",
    "asked": "if hidden.setup():\n    print(x)",
    "by a call": "kept = (lambda: hidden.setup(1))()",
    "in a function": "def prepare():\n    hidden.setup()\n\n\nprepare()",
    "in a loop": "for _ in range(2):\n    hidden.setup()",
    "after it": "w = net(x).sum()\nhidden.setup()",
    "before a backward": "hidden.setup()\nnet(x).sum().backward()",
    "nothing": "",
}
LOOKED_AT = ("net(x).numpy()", "net.bias.numpy()", "np.sqrt(net(x))", "np.stack([net(x), net(x)])")


@pytest.mark.parametrize("made", SET_UP)
def test_code_that_is_not_visible_may_switch_recording_off(made: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it is called for what it does: a certain finding is one that no such code prevents."""
    for use in LOOKED_AT:
        text = (
            "import hidden\nimport numpy as np\nimport torch\nfrom torch import nn\n\n"
            f"net, x = nn.Linear(3, 3), torch.ones(2, 3)\n{SET_UP[made]}\n{use}\n"
        )
        sure = [one.code for one in check(from_text(text, "program.py")).findings if one.certain]
        goes_on = []
        for recording in (True, False):
            module = types.ModuleType("hidden")
            module.setup = lambda *_, on=recording, **__: torch.set_grad_enabled(on)  # type: ignore[attr-defined]
            apply = {"apply": lambda self, on=recording: torch.set_grad_enabled(on)}
            module.Config = type("Config", (), apply)  # type: ignore[attr-defined]
            monkeypatch.setitem(sys.modules, "hidden", module)
            with torch.enable_grad():
                try:
                    exec(compile(text, "program.py", "exec"), {})
                except RuntimeError as error:
                    goes_on.append("numpy" not in str(error) and "grad_fn" not in str(error))
                else:
                    goes_on.append(True)
        assert goes_on[0] is False, text
        assert (sure == ["TAPE106"]) is not any(goes_on), text


OTHERS = {
    "TAPE104": "net.weight.mul_(2)",
    "TAPE201": "kept = []\nfor _ in range(9):\n    kept.append(net(x).sum())\nprint(len(kept))",
    "TAPE302": "total = 0.0\nfor one in torch.ones(9, 2, 3):\n    total += net(one).sum().item()\nprint(total)",
}


@pytest.mark.parametrize("code", OTHERS)
@pytest.mark.parametrize("made", SET_UP)
def test_what_hangs_on_recording_is_possible_behind_such_code(made: str, code: str) -> None:
    """Without recording there is no graph to keep, and none that is needless, and a leaf may be changed."""
    head = "import hidden\nimport torch\nfrom torch import nn\n\nnet, x = nn.Linear(3, 3), torch.ones(2, 3)\n"
    found = check(from_text(f"{head}{SET_UP[made]}\n{OTHERS[code]}\n", "program.py")).findings
    certain = [one.certain for one in found if one.code == code]
    # A backward through what was built behind it shows that it has left recording on.
    assert certain == [made in ("nothing", "before a backward")] or (code == "TAPE302" and "backward" in made), found
