"""What a finding rests on where code is not visible: certain only where nothing of it does."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tapecheck.check import check
from tapecheck.fixes import fixes_for
from tapecheck.interpret import interpret, limits
from tapecheck.rules.certainty import is_certain
from tapecheck.rules.finding import Finding
from tapecheck.rules.words import possible
from tapecheck.source import from_text
from tapecheck.tape import Assumed, Assumption, Span

TWICE = """\
import torch
from torch import nn
from elsewhere import part{more}

model = nn.Linear(3, 1)
state = torch.zeros(3)
{before}
for step in range(3):
    out = model(state)
    {within}
    loss = out.sum()
    loss.backward()
    loss.backward()
"""


def found(text: str) -> list[Finding]:
    return check(from_text(text, "train.py")).findings


def twice(*, before: str = "", within: str = "pass", more: str = "") -> Finding:
    (finding,) = (one for one in found(TWICE.format(before=before, within=within, more=more)) if one.code == "TAPE101")
    return finding


@pytest.mark.parametrize(
    "within",
    ["pass", "print(loss_of(out))", "part(3)", "part('text', size=4)"],
    ids=["nothing", "own", "number", "text"],
)
def test_what_is_given_no_graph_takes_no_certainty(within: str) -> None:
    finding = twice(before="def loss_of(x):\n    return x.item()", within=within)
    assert finding.certain and not finding.rests_on


@pytest.mark.parametrize(
    ("within", "kind"),
    [
        ("out = part(out)", "effect"),
        ("part(model); out = model(state)", "effect"),
        ("model.kept = out; part(model)", "effect"),
        ("part(lambda: out)", "effect"),
    ],
)
def test_what_is_given_the_graph_or_the_model_makes_it_possible(within: str, kind: str) -> None:
    several = [one for one in found(TWICE.format(before="", within=within, more="")) if one.code == "TAPE101"]
    for finding in several:
        assert not finding.certain and kind in {one.kind for one in finding.rests_on}
        assert finding.message.startswith("possible") and "assumes that `elsewhere.part`" in finding.notes[-1]


def test_other_code_that_is_not_visible_takes_no_certainty() -> None:
    assert twice(before="other = nn.Linear(3, 1)\npart(other(state))").certain


def test_what_is_given_parameters_or_their_optimizer_leaves_a_graph_that_was_built_before() -> None:
    assert twice(within="part(model); part(model.weight)").certain
    optimizer = "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)"
    assert twice(before=optimizer, within="part(optimizer)").certain
    held = "class Trainer:\n    pass\ntrainer = Trainer()\ntrainer.model = model"
    assert not twice(before=held, within="part(trainer)").certain


def test_what_is_given_a_value_after_the_loop_takes_no_certainty() -> None:
    text = """\
import torch
from elsewhere import part
model, total = torch.nn.Linear(2, 1), 0
for x in torch.randn(9, 2):
    loss = model(x).sum()
    loss.backward()
    total += loss
{}part(total)
"""
    assert [one.certain for one in found(text.format(""))] == [True]
    assert [one.certain for one in found(text.format("    "))] == [False]


def test_what_follows_an_exception_takes_no_certainty() -> None:
    finding = twice(within="loss = out.sum(); loss.backward(); loss.backward(); part(model); part(loss)")
    assert finding.certain and not finding.rests_on


FROZEN = """\
import torch
from torch import nn
from elsewhere import part

model, given = nn.Linear(3, 1), []
for parameter in model.parameters():
    parameter.requires_grad_(False)
{hidden}
loss = model(torch.zeros(3)).sum()
{losses}loss.backward()
"""


@pytest.mark.parametrize(
    ("hidden", "losses", "told"),
    [
        ("part(3)", "", True),
        ("loss = part(torch.zeros(3))", "", True),
        ("part(model)", "", False),
        ("part(model.weight)", "", False),
        ("part(loss, given)", "given.append(loss)\npart(loss, given)\nloss = torch.stack(given)\n", False),
    ],
    ids=["number", "data", "model", "parameter", "list"],
)
def test_a_graph_is_missing_where_no_hidden_code_can_have_made_it(hidden: str, losses: str, told: bool) -> None:
    text = FROZEN.format(hidden=hidden if not losses else "pass", losses=losses)
    assert [one.code for one in found(text)] == (["TAPE103"] if told else [])


def test_what_hidden_code_was_given_it_may_give_back_to_be_frozen() -> None:
    text = TWICE.format(before="for one in part(model):\n    one.requires_grad_(False)", within="pass", more="")
    assert [one for one in found(text) if one.certain] == []


def test_gradients_are_stale_where_no_hidden_method_can_have_cleared_them() -> None:
    text = """\
import torch
from torch import nn
{}

class Stepper:
    def __init__(self, parameters):
        self.base = torch.optim.SGD(parameters, lr=0.1)
    {}
    def step(self):
        self.base.step()
        self.clear()

model = nn.Linear(3, 1)
stepper = Stepper(model.parameters())
for _ in range(3):
    model(torch.ones(3)).sum().backward()
    stepper.step()
"""
    own, hidden = (
        text.format("", "def clear(self):\n        pass"),
        text.format("from elsewhere import clear", "clear = clear"),
    )
    assert [one.code for one in found(own)] == ["TAPE403"]
    assert found(hidden) == []


def test_a_base_class_that_is_not_visible_makes_it_possible() -> None:
    text = TWICE.format(before="", within="pass", more=", Base").replace(
        "model = nn.Linear(3, 1)",
        "class Net(Base, nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.layer = nn.Linear(3, 1)\n    def forward(self, x):\n        return self.layer(x)\nmodel = Net()",
    )
    assert all(not one.certain for one in found(text) if one.code == "TAPE101")


BASED = """\
import torch
from torch import nn
from elsewhere import Base

class Net(Base):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)
    {method}
        return torch.tanh(self.layer(x) + state)

net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
state = torch.zeros(3)
for step in range(3):
    state = net(torch.randn(3), state)
    optimizer.zero_grad()
    state.sum().backward()
    optimizer.step()
"""


def test_a_class_with_a_forward_is_a_module_whatever_its_base_is() -> None:
    """Where the base is no module, calling the object is something else: what is found is possible."""
    (finding,) = found(BASED.format(method="def forward(self, x, state):"))
    assert finding.code == "TAPE101" and not finding.certain and {one.kind for one in finding.rests_on} == {"base"}
    assert found(BASED.format(method="def apply(self, x, state):")) == []
    own = "def __call__(self, x, state):\n        return self.forward(x, state.detach())\n    "
    assert found(BASED.format(method=f"{own}def forward(self, x, state):")) == []


GROWN = """\
import torch
from torch import nn
from elsewhere import part

model = nn.Linear(3, 1)
state, total = torch.zeros(3), 0
{decorator}def output():
    return model(state).sum()
for step in range(3):
    {context}
    {backward}
    total = total + out
"""


@pytest.mark.parametrize(
    ("kind", "decorator", "context"),
    [("decorator", "@part\n", "out = output()"), ("context", "", "with part():\n        out = output()")],
)
def test_what_may_run_without_recording_is_reported_where_a_backward_shows_that_it_does_not(
    kind: str, decorator: str, context: str
) -> None:
    def of(backward: str) -> list[Finding]:
        text = GROWN.format(decorator=decorator, context=context, backward=backward)
        return [one for one in found(text) if one.code == "TAPE201"]

    assert of("pass") == [] and of("(out + model(state).sum()).backward()") == []
    (finding,) = of("out.backward()")
    # What runs apart shows nothing of the sum outside.
    assert {one.kind for one in finding.rests_on} == {kind, "mode"} and not finding.certain


CARRIED = """\
import torch
from torch import nn
from elsewhere import part

class Net(nn.Module):
    {init}
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)
    {forward}
    def forward(self, x, state):
        return torch.tanh(self.layer(x) + state)

{batches}
def batches():
    for _ in range(4):
        {yields}

{step}
def step(loss):
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
state = torch.zeros(3)
for x in batches():
    state = net(x, state)
    step(state.sum(){more})
"""


@pytest.mark.parametrize("place", ["init", "forward", "batches", "step"])
@pytest.mark.parametrize("more", ["", " + net(x, torch.zeros(3)).sum()"])
def test_a_decorator_that_is_not_visible_makes_possible_what_does_not_hang_on_recording(place: str, more: str) -> None:
    """Leaves are made, loaders yield and backwards run whether recording is on; a backward shows that it is."""
    free = {"init": "", "forward": "", "batches": "", "step": "", "yields": "yield torch.randn(3)", "more": more}
    (finding,) = found(CARRIED.format(**{**free, place: "@part"}))
    assert finding.code == "TAPE101" and finding.certain is (place == "batches")
    assert found(CARRIED.format(**free))[0].certain


def test_what_a_decorated_generator_builds_hangs_on_its_decorator() -> None:
    free = {"init": "", "forward": "", "step": "", "more": "", "batches": "@part"}
    text = CARRIED.replace("net(x, state)", "x").format(**free, yields="yield kept + net.layer.weight.sum()")
    text = text.replace("state = torch.zeros(3)", "state, kept = torch.zeros(3), net.layer.weight.exp().sum()")
    assert all(not one.certain for one in found(text))
    assert any(one.certain for one in found(text.replace("@part", "")))


def test_a_generator_that_a_decorator_makes_a_context_of_matters_to_its_block() -> None:
    text = "import torch\nfrom elsewhere import part\n@part\ndef block():\n    yield\n"
    text += "weight = torch.ones(3, requires_grad=True)\n{}:\n    weight.mul_(2)\n"
    assert [one.code for one in found(text.format("if True"))] == ["TAPE104"]
    assert found(text.format("with block()")) == []


def test_a_context_and_a_decorator_matter_to_what_runs_in_them_alone() -> None:
    for before in ("@part\ndef evaluate():\n    return model(state)\nevaluate()", "with part():\n    model(state)"):
        finding = twice(before=before)
        assert finding.certain and not finding.rests_on


RETAINED = """\
import torch
from torch import nn
import elsewhere

model = nn.Linear(3, 1)
holder = elsewhere.Part()
for step in range(20):
    loss = model(torch.randn(4, 3)).pow(2).mean()
    loss.backward(retain_graph=True)
    {}
"""


@pytest.mark.parametrize("called", ["elsewhere.{}(loss)", "holder.{}(loss)"])
@pytest.mark.parametrize(
    "within",
    [
        "{}", "loss.item() > 100 and {}", "{} if loss.item() > 100 else None",
        "if step > 15:\n        {}", "if step % 8 == 7:\n        {}",
        "if loss.item() < 100:\n        pass\n    else:\n        {}",
        "if loss.item() < 100:\n        continue\n    {}",
    ],
)  # fmt: skip
def test_a_flag_is_needed_before_code_that_is_not_visible_wherever_that_runs_and_whatever_its_name(
    within: str, called: str
) -> None:
    for name in ("part", "log", "write", "to", "prepare", "zero_grad", "backward", "size", "scale"):
        assert found(RETAINED.format(within.format(called.format(name)))) == [], name
    assert [one.code for one in found(RETAINED.format("pass"))] == ["TAPE301"]


@pytest.mark.parametrize(
    "given",
    [
        "loss.backward", "[loss.backward]", "{'again': loss.backward}", "fn=loss.backward",
        "functools.partial(loss.backward)", "functools.partial(torch.Tensor.backward, loss)",
        "lambda: loss.backward()", "lambda value=loss: value.backward()", "lambda: again()", "{loss}.copy",
        "{loss}.isdisjoint", "[loss].count",
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    "called",
    [
        "elsewhere.part({})", "elsewhere.part({})()", "holder.run({})", "holder.calls.append({})",
        "pool.submit({}).result()",
    ],
)  # fmt: skip
def test_a_flag_is_needed_where_code_that_is_not_visible_gets_a_function_that_leads_to_the_graph(
    called: str, given: str
) -> None:
    text = RETAINED.replace("import elsewhere", "import elsewhere, functools, concurrent.futures").replace(
        "for step", "again = lambda: loss.backward()\npool = concurrent.futures.ThreadPoolExecutor()\nfor step"
    )
    assert found(text.format(called.format(given))) == []
    assert [one.code for one in found(text.format(called.format("lambda: step")))] == ["TAPE301"]


def test_a_method_is_torch_s_by_its_name_where_it_is_given_no_tensor_and_the_tape_says_so() -> None:
    text = "import torch\nimport elsewhere\nthing = elsewhere.Part()\n{}\n"
    text += "loss = torch.ones(2, requires_grad=True).pow(2).sum()\n"
    for call, noted in (("thing.size(0)", True), ("thing.eval()", True), ("thing.of(0)", False)):
        (tape,) = interpret(from_text(text.format(call), "train.py")).tapes
        assert any(isinstance(one, Assumed) and one.kind == "name" for one in tape.events) is noted, call
    twice = text.format("thing.size(0)") + "loss.backward()\nloss.backward()\n"
    assert [one.certain for one in found(twice)] == [True]


STATE = """\
import torch
from torch import nn

class Cell(nn.Module):
    {}
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)
        self.state = torch.zeros(3)

    def forward(self, x):
        self.state = torch.tanh(self.layer(x) + self.state)
        return self.state

cell = Cell()
for step in range(5):
    {}
    cell(torch.randn(3)).sum().backward()
"""


def test_a_method_that_is_not_visible_may_cut_what_its_object_keeps() -> None:
    assert found(STATE.format("from elsewhere import part", "cell.part()")) == []
    assert [one.code for one in found(STATE.format("from elsewhere import part", "pass"))] == ["TAPE101"]
    assert [one.code for one in found(STATE.format("def part(self): pass", "cell.part()"))] == ["TAPE101"]


def test_a_leaf_is_changed_in_place_where_recording_is_known_to_be_on() -> None:
    text = (
        "import torch\nfrom elsewhere import part\nweight = torch.ones(3, requires_grad=True)\n{}\n    weight.mul_(2)\n"
    )
    assert [one.code for one in found(text.format("if True:"))] == ["TAPE104"]
    assert found(text.format("with part():")) == []


FED = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset
from elsewhere import progress

class Points(Dataset):
    def __init__(self, held):
        self.x, self.names, self.held = torch.randn(8, 3), ("a", "b"), held
    def __len__(self):
        return 8
    def __getitem__(self, i):
        return self.x[i], self.x[i]

model = nn.Linear(3, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in progress({}):
    (model(x) - y).pow(2).sum().backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("DataLoader(TensorDataset(torch.randn(8, 3), torch.randn(8, 3)), batch_size=4)", True),
        ("DataLoader(Points(None))", True), ("Points(torch.randn(3))", True), ("Points((1, 'text'))", True),
        ("DataLoader(Points(model))", False), ("Points(optimizer)", False), ("Points(model.weight)", False),
        ("Points([torch.randn(3)])", False), ("Points({})", False), ("Points(lambda: model)", False),
        ("DataLoader(Points(model.forward))", False),
    ],
)  # fmt: skip
def test_what_wraps_a_loader_comes_to_what_its_data_leads_to(given: str, *, told: bool) -> None:
    """A bar of progress has no model that it could clear; what a list holds later, nobody knows."""
    several = [one for one in found(FED.replace("{}", given, 1)) if one.code == "TAPE403"]
    assert [one.certain for one in several] == ([False] if told else [])


def test_no_fix_of_what_rests_on_hidden_code_is_safe() -> None:
    text = "from elsewhere import part\nimport torch\nmodel = torch.nn.Linear(2, 1)\n{}\n"
    text += "total = 0\nfor x in torch.randn(9, 2):\n"
    text += "    loss = model(x).sum()\n    loss.backward()\n    total += loss\nprint(total)\n"
    for before, safe in (("", True), ("part(model)", False)):
        report = check(from_text(text.format(before), "train.py"))
        (finding,) = report.findings
        fixes = fixes_for(report, finding)
        assert finding.code == "TAPE201" and finding.certain is safe
        assert fixes and any(fix.applicability == "safe" for fix in fixes) is safe


def test_loaders_that_yield_data_leave_a_finding_certain() -> None:
    at = Span("train.py", 1, 1, 1, 2)
    assert is_certain([Assumption("loader", at, "it yields data")])
    assert not is_certain([Assumption("loader", at, "it yields data"), Assumption("effect", at, "nothing")])


def test_a_possible_headline_fits_on_its_line() -> None:
    assert possible("`x` is kept") == "possible: `x` is kept"
    assert possible("possible leak: `x` is kept") == "possible leak: `x` is kept"
    long = f"`{'model.encoder.' * 4}weight` {{is}} kept by every iteration (missing `detach()`)"
    assert len(possible(long)) <= 72 and possible(long).startswith("possible: `")


COUNTED = """\
import argparse
import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--count", type=int, default={default})
args = parser.parse_args()
count = args.count
model = nn.Linear(3, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
state, kept = model(torch.ones(3)), []
{loop}
    {body}
"""
AGAIN = {
    "TAPE101": "state = model(state); state.sum().backward()",
    "TAPE103": "state.sum().backward(); state = torch.ones(3)",
    "TAPE201": "out = model(torch.ones(3)).sum(); out.backward(); kept.append(out)",
    "TAPE202": "state = model(state); state.sum().backward(retain_graph=True)",
    "TAPE403": "model(torch.ones(3)).sum().backward(); optimizer.step()",
}


@pytest.mark.parametrize("code", AGAIN)
@pytest.mark.parametrize(
    "loop",
    [
        "for step in range(args.count):", "for step in range(1, args.count + 1):", "for step in range(int(count)):",
        "step = 0\nwhile step < args.count:\n    step += 1", "step = 0\nwhile not step >= count:\n    step += 1",
        "step = 0\nwhile step < count and model is not None:\n    step += 1",
    ],
)  # fmt: skip
def test_what_a_second_iteration_shows_is_possible_where_an_option_has_one_by_default(loop: str, code: str) -> None:
    for default, certain in ((1, False), (3, True)):
        (finding,) = found(COUNTED.format(default=default, loop=loop, body=AGAIN[code]))
        assert (finding.code, finding.certain) == (code, certain)
        assert finding.message.startswith("possible") != certain


def test_what_the_first_iteration_shows_is_certain_whatever_an_option_is() -> None:
    for body in ("state.sum().backward(); state.sum().backward()", "torch.ones(3).sum().backward()"):
        (finding,) = found(COUNTED.format(default=1, loop="for step in range(args.count):", body=body))
        assert finding.certain


def test_what_an_outer_loop_keeps_is_certain_whatever_an_option_is_for_the_inner_one() -> None:
    loop = "for epoch in range(3):\n  for step in range(args.count):"
    (finding,) = found(COUNTED.format(default=1, loop=loop, body=AGAIN["TAPE201"]))
    assert finding.code == "TAPE201" and finding.certain


RAISING = """\
import torch
from torch import nn

net = nn.Linear(3, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
kept = []
values = []
for step in range(3):
    out = net(torch.randn(2, 3))
    kept.append(out.sum())
    values.append(out)
    values = {stored}
    optimizer.zero_grad()
    torch.stack(kept).sum().backward()
    optimizer.step()
"""


@pytest.mark.parametrize(("stored", "certain"), [("torch.stack(values)", False), ("list(values)", True)])
def test_what_comes_after_an_exception_is_not_certain(stored: str, *, certain: bool) -> None:
    """A tensor has no `append`: the program ends there in its second iteration, before the backward."""
    report = check(from_text(RAISING.format(stored=stored), "train.py"))
    (finding,) = report.findings
    assert (finding.code, finding.certain) == ("TAPE101", certain)
    note = "the dry run expects an exception before: assumes that line 11 raises no AttributeError"
    assert (note in finding.notes) is not certain
    assert certain or all(fix.applicability == "unsafe" for fix in fixes_for(report, finding))


def test_a_step_by_hand_that_makes_a_new_tensor_has_no_gradient_to_go_on_with() -> None:
    """`.grad` of what is no leaf is None: the program ends in the second iteration, and no graph grows."""
    text = (
        "import torch\nw = torch.zeros(3, requires_grad=True)\nfor step in range(9):\n"
        "    loss = (w * torch.randn(3)).pow(2).sum()\n    loss.backward()\n    w = w - 0.1 * w.grad\n"
    )
    (finding,) = check(from_text(text, "train.py")).findings
    assert (finding.code, finding.span.line, finding.certain) == ("TAPE105", 6, True)


GIVEN = (
    ("setattr(torch.Tensor, 'npu', lambda self: self)", "out = out.npu()"),
    ("torch.Tensor.stats = property(lambda self: 3)", "out = out + out.stats"),
    ("nothing = None", "out = out.missing"),
)


@pytest.mark.parametrize(("before", "does"), GIVEN)
def test_nobody_knows_what_catches_what_a_tensor_may_lack(before: str, does: str) -> None:
    """The program may have given tensors the attribute: what its handler does is not said to happen."""
    text = (
        f"import torch\n{before}\nw = torch.ones(3, requires_grad=True)\nout = w * 2\n"
        f"try:\n    {does}\nexcept AttributeError:\n    out = out.detach()\nout.sum().backward()\n"
    )
    assert [one for one in check(from_text(text, "train.py")).findings if one.certain] == []


PROGRAMS = sorted((Path(__file__).parents[1] / "cases" / "programs").glob("*.py"))


@pytest.mark.parametrize("path", random.Random(7).sample(PROGRAMS, 60), ids=lambda path: path.stem)
def test_what_a_work_limit_leaves_out_makes_nothing_certain(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever the analysis stops, it is not sure of what the whole program does not show."""
    source = from_text(path.read_text(), path.name)
    whole = check(source)
    shown = {(one.code, one.span.line) for one in whole.findings}
    for part in (0.3, 0.5, 0.7, 0.85):
        monkeypatch.setattr(limits, "TOTAL_BUDGET", max(20, int(whole.interpretation.work * part)))
        stopped = check(source).findings
        assert {(one.code, one.span.line) for one in stopped if one.certain} <= shown


EXCEEDED = """
import torch
from torch import nn


def sample(net, x, count):
    kept = torch.zeros(3, 8, requires_grad=True)
    if count == 0:
        return x, kept, {}
    return kept.detach(), {"rate": torch.zeros(8)}


net, history = nn.Linear(4, 1), {"rate": torch.zeros(8)}
for step in range(10):
    kept, extra = sample(net, torch.randn(8, 4), int(input()))
    history["rate"] += 0.1 * extra["rate"]
"""


def test_what_too_many_values_are_unpacked_into_is_not_known() -> None:
    """Where three values come for two names, Python raises: a leak on that way is none of the program's."""
    assert check(from_text(EXCEEDED, "train.py")).findings == []
    fitting = EXCEEDED.replace("return x, kept, {}", 'return x, {"rate": kept.exp().sum(0)}')
    (finding,) = check(from_text(fitting, "train.py")).findings
    assert finding.code == "TAPE201"


PAST = """
import torch


def loss_of(outputs):
    total = torch.zeros((), dtype=outputs[0].dtype)
    for output in outputs:
        total = total + output.mean()
    return total


loss = loss_of(READ)
loss.backward()
"""


@pytest.mark.parametrize(("read", "codes"), [("[]", []), ("[torch.zeros(3)]", ["TAPE103"])])
def test_a_list_that_is_read_past_its_end_has_more(read: str, codes: list[str]) -> None:
    text = PAST.replace("READ", read)
    assert [finding.code for finding in check(from_text(text, "train.py")).findings] == codes


LINES = """\
import hidden
import torch
from torch import nn


def parse(f):
    name, flag, rows = None, -1, []
    for line in f:
        line = line.rstrip()
        if line.startswith(b">"):
            if name is not None and flag == 1:
                yield name, b"".join(rows)
            elif flag == 0:
                assert line[1:].startswith(name)
            name, flag = line[1:], line.split(b":")[-1]
            if flag == b"row":
                flag, rows = 0, []
            elif flag == b"last":
                flag = 1
            else:
                raise Exception("not a row: " + flag.decode())
        elif flag == 0:
            rows.append(line)
        else:
            raise Exception("no row")
    if name is not None:
        yield name, b"".join(rows)


net = nn.Linear(3, 1)
with open("lines", "rb") as f:
    rows = [hidden.coded(row) for name, row in parse(f)]
for x in rows:
    print(net(x).detach())
"""


def test_what_is_assumed_of_each_element_is_said_once() -> None:
    (finding,) = check(from_text(LINES, "evaluate.py")).findings
    said = [(one.kind, one.at, one.text) for one in finding.rests_on]
    assert len(said) == len(set(said)) < 8


BEHIND = """\
import torch
from elsewhere import FLAG

w = torch.ones(2, requires_grad=True)
y = (w * w).sum()
for i in range(3):
    torch.autograd.grad(y, w, retain_graph=i < 1)
for step in range(3):
    loss = (w * w).sum()
    loss.backward(retain_graph={flag})
"""


@pytest.mark.parametrize(("flag", "certain"), [("True", True), ("FLAG", False)])
def test_what_is_behind_a_backward_that_fails_rests_on_what_is_assumed_there(flag: str, *, certain: bool) -> None:
    raised, needless = found(BEHIND.format(flag=flag))
    assert (raised.code, raised.certain) == ("TAPE101", True)
    assert (needless.code, needless.certain) == ("TAPE301", certain)
