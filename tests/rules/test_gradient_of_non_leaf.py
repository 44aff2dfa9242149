"""Gradients of tensors that are no leaves (TAPE105): each program is run under torch, which says whether it raises."""

from __future__ import annotations

import itertools
import warnings

import pytest

from tapecheck.check import check
from tapecheck.fixes import fixes_for
from tapecheck.source import from_text
from tests.fixes.support import fixed

torch = pytest.importorskip("torch")

MADE = {
    "leaf": "w = torch.randn(3, requires_grad=True)",
    "leaf last": "w = (torch.randn(3) * 0.1).requires_grad_()",
    "parameter": "w = nn.Parameter(torch.randn(3) * 0.1)",
    "of a layer": "w = nn.Linear(3, 1).weight[0]",
    "layer's own": "w = nn.Linear(3, 3).bias",
    "product": "w = torch.randn(3, requires_grad=True) * 0.1",
    "negated": "w = -torch.randn(3, requires_grad=True)",
    "clone": "w = torch.randn(3, requires_grad=True).clone()",
    "view": "w = torch.randn(1, 3, requires_grad=True).view(3)",
    "other type": "w = torch.randn(3, requires_grad=True).double().float()",
    "same type": "w = torch.randn(3, requires_grad=True).float()",
    "same device": "w = torch.randn(3, requires_grad=True).to('cpu')",
    "device": "at = 'cuda' if torch.cuda.is_available() else 'cpu'\nw = torch.randn(3, requires_grad=True).to(at)",
    "contiguous": "w = torch.randn(3, requires_grad=True).contiguous()",
    "cut": "w = (torch.randn(3, requires_grad=True) * 0.1).detach().requires_grad_()",
    "retained": "w = torch.randn(3, requires_grad=True) * 0.1\nw.retain_grad()",
    "given": "w = torch.randn(3, requires_grad=True) * 0.1\nw.grad = torch.zeros(3)",
    "stacked": "w = torch.stack([torch.randn((), requires_grad=True) for _ in range(3)])",
    "no graph": "with torch.no_grad():\n    w = torch.randn(3, requires_grad=True) * 0.1\nw.requires_grad_()",
}
USED = {
    "printed": "print(w.grad)",
    "norm": "w.grad.norm()",
    "data": "w.grad.data.clone()",
    "stepped": "with torch.no_grad():\n    w -= 0.1 * w.grad",
    "moved on": "v = w - 0.1 * w.grad",
    "times the gradient": "v = w * w.grad",
    "by a function": "torch.sum(w.grad)",
    "tried": "try:\n    v = w + w.grad\nexcept TypeError:\n    pass",
    "cleared": "w.grad.zero_()",
    "guarded": "if w.grad is not None:\n    w.grad.zero_()",
    "caught": "try:\n    w.grad.zero_()\nexcept AttributeError:\n    pass",
    "optimizer": "torch.optim.SGD([w], lr=0.1)",
    "differentiable": "torch.optim.SGD([w], lr=0.1, differentiable=True)",
    "optimizer of several": "torch.optim.Adam([{'params': [w]}, {'params': nn.Linear(2, 2).parameters()}])",
    "named": "g = w.grad\ng.norm()",
    "named apart": "g = w.grad\nif w.sum() > -100:\n    w.detach().sub_(0.1 * g / g.norm())",
    "named in a function": "def step(t):\n    g = t.grad\n    return t.detach() - 0.1 * g\nstep(w)",
    "named further out": "g = w.grad\ndef step():\n    return g * 2\nstep()",
    "named and asked": "g = w.grad\nif g is not None:\n    g.norm()",
    "named and made": "g = w.grad\ng = torch.zeros(3)\ng.norm()",
    "named and caught": "g = w.grad\ntry:\n    g.norm()\nexcept AttributeError:\n    pass",
    "mine": "g = w.grad\ng = torch.zeros(3) if g is None else g\ng.norm()",
}


def _program(made: str, used: str) -> str:
    return f"import torch\nfrom torch import nn\n{MADE[made]}\n(w * w).sum().backward()\n{USED[used]}\n"


def _raises(text: str) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            exec(text, {})
        except (AttributeError, TypeError, ValueError):
            return True
    return False


def _certain(text: str) -> bool:
    return any(one.code == "TAPE105" and one.certain for one in check(from_text(text, "run.py")).findings)


@pytest.mark.parametrize("made", MADE)
def test_it_is_told_where_torch_raises(made: str) -> None:
    texts = {used: _program(made, used) for used in USED}
    truth = {used: _raises(text) for used, text in texts.items()}
    assert {used: _certain(text) for used, text in texts.items()} == truth


ASKED = {
    "by name": "(h * h).sum().backward(inputs=[h])",
    "beside a leaf": "torch.autograd.backward([(h * h).sum()], inputs=[h, w])",
    "as a tuple": "(h * h).sum().backward(inputs=(h,))",
    "the leaf alone": "(h * h).sum().backward(inputs=[w])",
    "all leaves": "(h * h).sum().backward()",
    "before it was retained": "(h * h).sum().backward(retain_graph=True)\nh.retain_grad()\n(h * h).sum().backward()",
    "through another": "k = h * 2\nk.sum().backward(inputs=[k])",
}


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("used", ["h.grad.norm()", "0.1 * h.grad", "for p in (w, h):\n    p.grad.norm()"])
def test_what_a_backward_is_asked_for_has_a_gradient(asked: str, used: str) -> None:
    text = f"import torch\nw = torch.randn(3, requires_grad=True)\nh = w * 2\n{ASKED[asked]}\n{used}\n"
    only_w_is_none = "inputs=" in text and "w]" not in text and used.startswith("for")
    assert _certain(text) == (_raises(text) and not only_w_is_none)


@pytest.mark.parametrize(("made", "used"), [*itertools.product(["product", "negated", "clone", "view"], USED)])
def test_safe_fixes_let_the_program_run(made: str, used: str) -> None:
    text = _program(made, used)
    report = check(from_text(text, "run.py"))
    for finding in report.findings:
        for fix in fixes_for(report, finding):
            assert not _raises(fixed(text, fix)), fix.title


@pytest.mark.parametrize("hidden", ["w = hidden.wrap(w)", "hidden.keep_gradients(w)", "w = w * hidden.rate()"])
def test_what_hidden_code_does_with_it_is_not_known(hidden: str) -> None:
    text = f"import hidden\nimport torch\nw = torch.randn(3, requires_grad=True)\nw = w * 2\n{hidden}\n"
    sure = _certain(f"{text}(w * w).sum().backward()\nw.grad.norm()\n")
    assert sure == hidden.startswith("w = w *")


UPDATES = ["w = w - 0.1 * w.grad", "w = w + -0.1 * w.grad", "w = w - w.grad * 0.1 / 2"]


@pytest.mark.parametrize("update", UPDATES)
def test_an_update_is_made_in_place(update: str) -> None:
    head = "import torch\nw = torch.ones(3, requires_grad=True)\nx = torch.ones(4, 3)\nfor step in range(4):\n"
    text = f"{head}    loss = (x @ w).pow(2).mean()\n    loss.backward()\n    {update}\n"
    report = check(from_text(text, "run.py"))
    (finding,) = report.findings
    (fix, *_) = fixes_for(report, finding)
    mended = fixed(text, fix)
    assert (finding.code, fix.applicability, _raises(mended)) == ("TAPE105", "safe", False)
    assert not check(from_text(mended, "run.py")).findings


SOMETIMES = {
    "a test of data": "if torch.rand(1) > 0.5:\n    w = w * 2",
    "a hidden flag": "from hidden import flag\nif flag:\n    w = w * 2",
    "one of two": "from hidden import flag\nw = w * 2 if flag else w",
    "an argument": "import sys\nif len(sys.argv) > 1:\n    w = -w",
}


@pytest.mark.parametrize("used", ["torch.optim.SGD([w], lr=0.1)", "(w * w).sum().backward()\nw.grad.norm()"])
@pytest.mark.parametrize("sometimes", SOMETIMES)
def test_what_is_no_leaf_on_some_ways_is_possible(sometimes: str, used: str) -> None:
    head = "import torch\nw = torch.randn(3, requires_grad=True)\n"
    whole, always = f"{head}{SOMETIMES[sometimes]}\n{used}\n", f"{head}w = w * 2\n{SOMETIMES[sometimes]}\n{used}\n"
    assert not _certain(whole)
    assert _certain(always)


@pytest.mark.parametrize("between", ["", "    # the bias\n", "    print(step)\n"])
@pytest.mark.parametrize("behind", ["", "    w.grad.zero_()\n", "    w.grad = None\n    b.grad = None\n"])
def test_all_updates_of_a_block_are_made_in_place(between: str, behind: str) -> None:
    head = (
        "import torch\nw = torch.ones(3, requires_grad=True)\nb = torch.zeros(1, requires_grad=True)\n"
        "x = torch.ones(4, 3)\nfor step in range(4):\n"
    )
    steps = f"    w = w - 0.1 * w.grad\n{between}    b = b - 0.1 * b.grad\n{behind}"
    report = check(from_text(f"{head}    (x @ w + b).pow(2).mean().backward()\n{steps}", "run.py"))
    (finding,) = report.findings
    (fix, *_) = fixes_for(report, finding)
    mended = fixed(report.source.text, fix)
    assert (finding.code, fix.applicability, _raises(mended)) == ("TAPE105", "safe", False), mended
    assert not check(from_text(mended, "run.py")).findings
    assert mended.count("no_grad") == (2 if between else 1)


UNGRADED = {
    "plain": "w = torch.randn(3)",
    "of numbers": "w = torch.tensor([1.0, 2.0, 3.0])",
    "of numpy": "w = torch.from_numpy(np.ones(3, dtype='float32'))",
    "like": "w = torch.ones_like(v)",
    "detached": "w = v.detach()",
    "data": "w = v.data",
    "without recording": "with torch.no_grad():\n    w = v * 2",
    "inference": "with torch.inference_mode():\n    w = torch.zeros(3)\nw = w.clone()",
    "switched on": "w = torch.randn(3)\nw.requires_grad = True",
    "switched on later": "w = torch.randn(3)\n(w * v).sum().backward()\nw.requires_grad_()",
    "written into": "w = torch.zeros(3)\nw[0] = v[0]",
    "in place": "w = torch.zeros(3)\nw += v",
    "given": "w = torch.zeros(3)\nw.grad = torch.ones(3)",
    "perhaps": "w = torch.zeros(3, requires_grad=v.sum().item() < 1e9)",
    "element": "for w in torch.randn(2, 3):\n    pass",
    "element switched on": "for w in torch.randn(2, 3):\n    w.requires_grad_()",
    "loaded": "(w,) = next(iter(DataLoader(TensorDataset(torch.randn(4, 3)))))\nw = w[0]",
    "frozen": "w = torch.ones(3, requires_grad=True)\n(w * v).sum().backward()\nw.requires_grad_(False)",
    "buffer": "m = nn.BatchNorm1d(3)\nw = m.running_mean",
    "index": "w = (v * 2).argmax() * 1.0",
    "copied": "w = copy.deepcopy(v)",
}
HEAD = (
    "import copy\nimport numpy as np\nimport torch\nfrom torch import nn\n"
    "from torch.utils.data import DataLoader, TensorDataset\n"
    "v = torch.ones(3, requires_grad=True)\n"
)


@pytest.mark.parametrize("made", UNGRADED)
def test_what_requires_no_grad_has_none(made: str) -> None:
    texts = {used: f"{HEAD}{UNGRADED[made]}\n(w * v).sum().backward()\n{text}\n" for used, text in USED.items()}
    truth = {used: _raises(text) for used, text in texts.items()}
    told = {used: _certain(text) for used, text in texts.items()}
    assert not {used for used in truth if told[used] > truth[used]}
    # A buffer, a batch and what once required grad may be another one: nothing is said of them.
    if made not in ("frozen", "buffer", "loaded", "element"):
        assert told == truth


@pytest.mark.parametrize("made", UNGRADED)
def test_safe_fixes_of_what_requires_no_grad_let_it_run(made: str) -> None:
    for used in ("norm", "moved on", "cleared"):
        report = check(from_text(f"{HEAD}{UNGRADED[made]}\n(w * v).sum().backward()\n{USED[used]}\n", "run.py"))
        for finding in report.findings:
            for fix in fixes_for(report, finding):
                assert not _raises(fixed(report.source.text, fix)), fix.title


HIDDEN = ["w = hidden.load()", "w = torch.randn(3)\nhidden.prepare(w)", "w = v.detach()\nw = hidden.wrap(w)"]


@pytest.mark.parametrize("made", HIDDEN)
def test_what_hidden_code_makes_of_it_may_have_one(made: str) -> None:
    text = f"import hidden\n{HEAD}{made}\n(w * v).sum().backward()\nw.grad.norm()\n"
    assert not _certain(text)


LENT = {
    "a model that is run": "net = hidden.Net()\n(net(w) * v).sum().backward()",
    "a part of a model": "net = hidden.Net()\n(net.body(w) * v).sum().backward()",
    "a decorated function": "@hidden.wrap\ndef f(t):\n    return (t * v).sum()\nf(w).backward()",
    "what it returns": "@hidden.wrap\ndef f():\n    return torch.ones(3)\nw = f()\n(w * v).sum().backward()",
    "a second name": "torch.as_tensor(w).requires_grad_()\n(w * v).sum().backward()",
    "nobody": "(w * v).sum().backward()",
}


@pytest.mark.parametrize("used", ["w.grad.norm()", "w = w - 0.1 * w.grad", "w + w.grad.sign()"])
@pytest.mark.parametrize("lent", LENT)
def test_what_is_called_with_it_may_let_it_require_grad(lent: str, used: str) -> None:
    text = f"import hidden\n{HEAD}w = torch.randn(3)\n{LENT[lent]}\n{used}\n"
    assert _certain(text) == (lent == "nobody")


STEPPED = {
    "rebound": "w = w - 0.1 * w.grad",
    "an attribute": "m.w = m.w - 0.1 * m.w.grad",
    "a key": "p['w'] = p['w'] - 0.1 * p['w'].grad",
    "a list": "ws = [one - 0.1 * one.grad for one in ws]",
    "clipped behind": "w = w + 0.1 * w.grad.sign()\n    w = w.clamp(-1, 1)",
    "without recording": "with torch.no_grad():\n        w = w - 0.1 * w.grad\n        w.grad.zero_()",
}


@pytest.mark.parametrize("stepped", STEPPED)
def test_updates_of_all_kinds_are_mended(stepped: str) -> None:
    held = {"an attribute": "m.w", "a key": "p['w']", "a list": "ws[0]"}.get(stepped, "w")
    text = (
        "import torch\nfrom types import SimpleNamespace\nw = torch.ones(3, requires_grad=True)\n"
        "m, p = SimpleNamespace(w=torch.ones(3, requires_grad=True)), {'w': torch.ones(3, requires_grad=True)}\n"
        "ws = [torch.ones(3, requires_grad=True)]\nfor step in range(4):\n"
        f"    (torch.ones(4, 3) @ {held}).pow(2).mean().backward()\n    {STEPPED[stepped]}\n"
    )
    assert _raises(text)
    report = check(from_text(text, "run.py"))
    (finding,) = report.findings
    safe = [fix for fix in fixes_for(report, finding) if fix.applicability == "safe"]
    assert finding.code == "TAPE105" and safe
    for fix in safe:
        mended = fixed(text, fix)
        assert not _raises(mended), mended
        assert not check(from_text(mended, "run.py")).findings, mended


KEPT = {
    "nothing": ("", ""),
    "each one": ("", "kept.append(w)"),
    "its values": ("", "kept.append(w.detach())"),
    "a view": ("", "kept.append(w[:2])"),
    "as an array": ("", "kept.append(w.detach().numpy())"),
    "a copy": ("", "kept.append(w.detach().clone())"),
    "the first": ("kept.append(w)", ""),
    "a second name": ("first = w", "kept.append((w - first).norm().item())"),
    "what it was": ("", "was = w; kept.append(was.norm().item())"),
    "a dict": ("", "kept.append({'w': w})"),
    "a function": ("", "kept.append(lambda w=w: w.sum())"),
}


@pytest.mark.parametrize("within", ["train(w)", "w"])
@pytest.mark.parametrize("update", UPDATES)
@pytest.mark.parametrize("kept", KEPT)
def test_what_holds_the_tensor_from_before_keeps_it(kept: str, update: str, within: str) -> None:
    before, inside = KEPT[kept]
    loop = f"for step in range(3):\n    (w - 2).pow(2).sum().backward()\n    {inside or 'pass'}\n    {update}\n"
    head = "import torch\nkept = []\nw = torch.ones(3, requires_grad=True)\n"
    if within == "w":
        text = f"{head}{before}\n{loop}"
    else:
        indented = f"{before}\n{loop}return w\n".strip().replace("\n", "\n    ")
        text = f"{head}def train(w):\n    {indented}\nkept.append(w)\nw = train(w)\n"
    assert _raises(text)
    anew = {"w": None, "kept": None}
    exec(text.replace(update, f"w = ({update.removeprefix('w = ')}).detach().requires_grad_()"), anew)
    report = check(from_text(text, "run.py"))
    (finding,) = [one for one in report.findings if one.code == "TAPE105"]
    safe = [fix for fix in fixes_for(report, finding) if fix.applicability == "safe"]
    assert safe
    for fix in safe:
        values: dict[str, object] = {}
        exec(fixed(text, fix), values)
        assert _numbers([values["w"], values["kept"]]) == _numbers([anew["w"], anew["kept"]]), fix.title


def _numbers(value: object) -> object:
    if isinstance(value, (list, dict)):
        return [_numbers(one) for one in (value.values() if isinstance(value, dict) else value)]
    value = value() if callable(value) and not isinstance(value, torch.Tensor) else value
    return value.tolist() if hasattr(value, "tolist") else value


@pytest.mark.parametrize("over", ["(a, b, c)", "[a, b, c]", "(c, a)", "iter([b, c])"])
def test_what_a_call_that_is_written_again_hands_over_may_have_one(over: str) -> None:
    text = (
        f"import hidden\n{HEAD}class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.body = nn.Sequential(*[nn.Linear(3, 3) for _ in range(8)])\n    def forward(self, x):\n"
        "        return self.body(x) + hidden.prepare(x)\nnet = Net()\n"
        "a, b, c = torch.randn(3), torch.randn(3), torch.randn(3)\n"
    )
    used = f"for x in {over}:\n    net(x).sum().backward()\n"
    assert not _certain(f"{text}{used}c.grad.norm()\n")
    assert _certain(f"{text.replace('hidden.prepare(x)', 'x')}{used}c.grad.norm()\n")
    assert not _certain(f"{text}kept = [net(x) for x in {over}]\nc.grad.norm()\n")
    hidden = text.replace("net = Net()", "net = hidden.Net()")
    assert not _certain(f"{hidden}for x in {over}:\n    (net(x) * v).sum().backward()\nc.grad.norm()\n")


EARLY = """\
import torch
from torch import nn
model = nn.Linear(3, 1)
w = model.weight
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    loss = model(torch.ones(2, 3)).pow(2).mean()
    {lines}
"""
LOOKS = {
    "noise": "for p in model.parameters(): p.grad.add_(0.1)",
    "norm": "torch.stack([p.grad.norm() for p in model.parameters()]).norm()",
    "scaled": "w.grad.mul_(0.5)",
    "named": "g = w.grad; g.norm()",
    "penalty": "loss = loss + (w * w.grad).sum()",
    "of the step": "with torch.no_grad(): w.copy_(w - w.grad)",
    "by a function": "torch.norm(w.grad)",
    "normalized": "nn.functional.normalize(w.grad, dim=1)",
    "cleared": "w.grad.zero_()",
    "asked": "[p.grad.norm() for p in model.parameters() if p.grad is not None]",
    "given": "w.grad = torch.ones(1, 3); w.grad.mul_(2)",
    "shown": "print(w.grad)",
    "later": "(w.grad.norm() if step else w.norm())",
}
ORDERS = {
    "cleared first": ("optimizer.zero_grad()", "LOOK", "loss.backward()", "optimizer.step()"),
    "cleared last": ("loss.backward()", "optimizer.step()", "optimizer.zero_grad()", "LOOK"),
    "in time": ("optimizer.zero_grad()", "loss.backward()", "LOOK", "optimizer.step()"),
    "kept as zeros": ("loss.backward()", "optimizer.step()", "optimizer.zero_grad(set_to_none=False)", "LOOK"),
    "never cleared": ("LOOK", "loss.backward()", "optimizer.step()"),
    "cleared by hand": ("loss.backward()", "w.grad = None", "LOOK"),
    "another's": ("loss.backward()", "model.bias.grad = None", "LOOK"),
    "by grad alone": ("gs = torch.autograd.grad(loss, [*model.parameters()])", "LOOK"),
    "by a hook": (
        "optimizer.zero_grad()",
        "optimizer.step(lambda: [loss.backward(retain_graph=True), loss][1])",
        "LOOK",
    ),
    "in two steps": ("optimizer.zero_grad()", "if step: loss.backward(retain_graph=True)", "LOOK", "loss.backward()"),
}


@pytest.mark.parametrize("order", ORDERS)
def test_a_leaf_has_no_gradient_until_a_backward_fills_it(order: str) -> None:
    orders = {look: "\n    ".join(line.replace("LOOK", LOOKS[look]) for line in ORDERS[order]) for look in LOOKS}
    texts = {look: EARLY.format(lines=lines) for look, lines in orders.items()}
    truth = {look: _raises(text) for look, text in texts.items()}
    assert {look: _certain(text) for look, text in texts.items()} == truth
    for look in (look for look, raises in truth.items() if raises):
        report = check(from_text(texts[look], "run.py"))
        for fix in fixes_for(report, report.findings[0]):
            assert not _raises(fixed(texts[look], fix)), (look, fix.title)
    method = "def look(model, optimizer, loss, step, w):\n    {}\nlook(model, optimizer, loss, step, w)"
    for look, lines in orders.items():
        # Called by nobody, it may be given a model that has gradients.
        alone = f"import torch\n{method.partition(chr(10) + 'look(')[0].format(lines)}\n"
        assert not _certain(alone), look


HANDED = {
    "the loss": "hidden.run(loss)",
    "the model": "hidden.run(model)",
    "a parameter": "hidden.run(w)",
    "nothing": "hidden.run()",
    "a number": "hidden.run(step)",
}


@pytest.mark.parametrize("handed", HANDED)
@pytest.mark.parametrize("look", ["noise", "norm", "named"])
def test_hidden_code_may_fill_a_gradient(handed: str, look: str) -> None:
    lines = f"optimizer.zero_grad()\n    {HANDED[handed]}\n    {LOOKS[look]}\n    loss.backward()"
    assert _certain(f"import hidden\n{EARLY.format(lines=lines)}") == (handed in ("nothing", "a number"))
    assert not _certain(f"import hidden\n{EARLY.format(lines=lines).replace('nn.Linear(3, 1)', 'hidden.model()')}")


MANUAL = """\
import torch
torch.manual_seed(0)
class Model:
    pass
m = Model()
m.w, m.b = torch.ones(3, requires_grad=True), torch.zeros(1, requires_grad=True)
w, b = torch.ones(3, requires_grad=True), torch.zeros(1, requires_grad=True)
def learn(m, w, b):
    x = torch.arange(12.0).view(4, 3) / 12
    for step in range(4):
        loss = ((x @ W).sin() + B).pow(2).mean()
        loss.backward()
        STEPS
    return [float(W.sum()), float(B.sum())]
told = learn(m, w, b)
"""
STEPS = {
    "two lines": "W = W - 0.1 * W.grad\nB = B - 0.1 * B.grad",
    "one statement": "W, B = W - 0.1 * W.grad, B - 0.1 * B.grad",
    "up": "W, B = W + 0.1 * W.grad, B + -0.1 * B.grad",
    "under no_grad": "with torch.no_grad():\n    W = W - 0.1 * W.grad\n    B = B - 0.1 * B.grad",
    "one under no_grad": "with torch.no_grad():\n    W, B = W - 0.1 * W.grad, B - 0.1 * B.grad",
    "zeroed": "with torch.no_grad():\n    W = W - 0.1 * W.grad\n    B = B - 0.1 * B.grad\n    W.grad.zero_()\n"
    "    B.grad.zero_()",
    "one by the other": "W, B = W - 0.1 * W.grad, B - 0.1 * W.grad.mean()",
}
IN_TIME = "with torch.no_grad():\n    W -= 0.1 * W.grad\n    B -= 0.1 * B.grad\nW.grad = B.grad = None"


def _stepped(steps: str, names: tuple[str, str]) -> str:
    text = MANUAL.replace("STEPS", steps.replace("\n", "\n        "))
    return text.replace("W", names[0]).replace("B", names[1])


@pytest.mark.parametrize("names", [("w", "b"), ("m.w", "m.b")])
@pytest.mark.parametrize("steps", STEPS)
def test_steps_that_make_new_tensors_are_made_in_place(steps: str, names: tuple[str, str]) -> None:
    text, wanted = _stepped(STEPS[steps], names), {}
    exec(_stepped(IN_TIME.replace("-= 0.1 * W", "+= 0.1 * W" if steps == "up" else "-= 0.1 * W"), names), wanted)
    assert _raises_any(text)
    report = check(from_text(text, "run.py"))
    (finding,) = [one for one in report.findings if one.severity == "error"]
    fixes = [fix for fix in fixes_for(report, finding) if "in place" in fix.title]
    assert bool(fixes) == (steps != "one by the other")
    for fix in fixes:
        learned: dict[str, object] = {}
        exec(fixed(text, fix), learned)
        assert learned["told"] == pytest.approx(wanted["told"]), fix.title


def _raises_any(text: str) -> bool:
    try:
        return _raises(text)
    except RuntimeError:
        return True
