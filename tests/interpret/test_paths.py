"""Ways through a program: undecided conditions, functions nobody calls, budgets, cancellation."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path

import pytest

from tapecheck.check import check
from tapecheck.interpret import Cancelled, Explored, interpret
from tapecheck.rules import Finding
from tapecheck.source import from_text
from tapecheck.tape import Backward, Decision
from tapecheck.tape.tape import replay


def findings(program: str) -> list[Finding]:
    return check(from_text(program, "program.py")).findings


HEAD = "import argparse\nimport torch\nfrom torch import nn\n"


def test_one_flag_tested_twice_is_one_decision() -> None:
    program = HEAD + (
        "args = argparse.ArgumentParser().parse_args()\n"
        "w = torch.randn(3, requires_grad=True)\n"
        "loss = w.exp().sum()\n"
        "if args.first:\n    loss.backward()\n"
        "if not args.first:\n    loss.backward()\n"
    )
    assert findings(program) == []


def test_a_flag_that_decides_makes_a_may() -> None:
    program = HEAD + (
        "args = argparse.ArgumentParser().parse_args()\n"
        "w = torch.randn(3, requires_grad=True)\n"
        "loss = w.exp().sum()\n"
        "if args.twice:\n    loss.backward()\n"
        "loss.backward()\n"
    )
    (found,) = findings(program)
    assert (found.code, found.certain, found.span.line) == ("TAPE101", False, 9)
    assert found.message.startswith("possible ")


@pytest.mark.parametrize("change", ("out[:1] = 0.0", "out[0] += 1.0", "out.add_(1.0)"))
def test_a_tensor_that_is_changed_under_a_condition_makes_a_may(change: str) -> None:
    program = HEAD + (
        "w = torch.randn(3, requires_grad=True)\n"
        "out = w.tanh()\n"
        f"if len(open('kept').read()):\n    {change}\n"
        "out.sum().backward()\n"
    )
    (found,) = findings(program)
    assert (found.code, found.certain, found.span.line) == ("TAPE102", False, 8)


def test_a_tensor_that_one_side_changes_in_place_and_the_other_computes_makes_a_may() -> None:
    program = HEAD + (
        "def peak_(u):\n    u.zero_()\n    return u\n"
        "def scaled(u, order):\n"
        "    if not torch.is_tensor(order) and order == 2:\n        u = u * 2\n"
        "    elif order == 1:\n        u = peak_(u)\n"
        "    else:\n        u = u / u.abs().pow(order).sum()\n"
        "    return u\n"
        "order = nn.Parameter(torch.tensor(2.1))\n"
        "weight = nn.Parameter(torch.randn(3))\n"
        "scaled(weight.detach() * 2, order).sum().backward()\n"
    )
    assert findings(program) == []
    (found,) = findings(program.replace("order == 1:", "order < 1:"))
    assert (found.code, found.certain, found.span.line) == ("TAPE103", False, 17)


@pytest.mark.parametrize(("default", "certain"), (("1", False), ("5", True)))
def test_a_leak_of_a_loop_that_only_an_option_repeats_is_a_may(default: str, certain: bool) -> None:
    program = HEAD + (
        "parser = argparse.ArgumentParser()\n"
        f"parser.add_argument('--restarts', type=int, default={default})\n"
        "args = parser.parse_args()\n"
        "net = nn.Linear(3, 1)\n"
        "worst = torch.zeros(5, 1)\n"
        "for _ in range(args.restarts):\n    pass\n"
        "for _ in range(args.restarts):\n    worst = torch.max(worst, net(torch.randn(5, 3)))\n"
        "print(worst.detach())\n"
    )
    (found,) = findings(program)
    assert (found.code, found.certain, found.span.line) == ("TAPE201", certain, 12)


def test_a_mode_compared_with_several_values() -> None:
    program = HEAD + (
        "args = argparse.ArgumentParser().parse_args()\n"
        "w = torch.randn(3, requires_grad=True)\n"
        "loss = w.exp().sum()\n"
        "if args.mode == 'a':\n    loss.backward()\n"
        "elif args.mode == 'b':\n    (loss * 2).backward()\n"
        "if args.mode == 'c':\n    loss.backward()\n"
    )
    assert findings(program) == []


def test_a_function_nobody_calls() -> None:
    program = HEAD + (
        "def train(model, loader, optimizer):\n"
        "    model.train()\n"
        "    for x, y in loader:\n"
        "        loss = nn.functional.mse_loss(model(x), y)\n"
        "        optimizer.zero_grad()\n"
        "        loss.backward()\n"
        "        loss.backward()\n"
    )
    (found,) = findings(program)
    assert (found.code, found.span.line) == ("TAPE101", 10)


def test_unknown_arguments_are_no_reason_to_report() -> None:
    program = HEAD + (
        "def step(loss, optimizer):\n    optimizer.zero_grad()\n    loss.backward()\n    optimizer.step()\n\n"
        "def distance(a, b):\n    return (a - b).pow(2).mean()\n\n"
        "def both(first, second):\n    first.backward(retain_graph=True)\n    second.backward()\n"
    )
    assert findings(program) == []


@pytest.mark.parametrize(
    "program",
    [
        "def f(x):\n    return f(x + 1)\nf(0)\n",
        "def f(x):\n    f(x)\n    return f(x)\n\ndef g(x):\n    return [f(x), g(x), h(x)]\n\nh = g\nh(1)\n",
        "while True:\n    w = torch.randn(3, requires_grad=True)\n    w.exp().sum().backward()\n",
        "x = [1]\nfor y in x:\n    x.append(y)\n",
        "".join(f"{'    ' * i}for i{i} in range(1000):\n" for i in range(8))
        + "    " * 8
        + "w = torch.zeros(3).exp()\n",
        "x = 2 ** 10 ** 10\ny = 'a' * 10 ** 12\nz = [0] * 10 ** 12\n",
        "a = " + "+".join(["1"] * 3000) + "\n",
        "class A(A): pass\n",
        "class A:\n    @property\n    def x(self):\n        return self.x\nA().x\n",
    ],
    ids=[
        "recursion",
        "mutual",
        "for ever",
        "growing list",
        "deep loops",
        "huge constants",
        "long sum",
        "base",
        "property",
    ],
)
def test_pathological_programs_end(program: str) -> None:
    result = interpret(from_text(HEAD + "torch.zeros(1).backward if False else None\n" + program, "program.py"))
    assert result.tapes or result.runs


def test_cancellation() -> None:
    program = HEAD + "while True:\n    w = torch.randn(3, requires_grad=True)\n    w.exp().sum().backward()\n" * 20
    with pytest.raises(Cancelled):
        interpret(from_text(program * 5, "program.py"), cancelled=lambda: True)


def test_nothing_is_done_for_files_that_train_nothing() -> None:
    assert interpret(from_text("import os\nfor x in range(10):\n    print(os.sep * x)\n", "program.py")).runs == 0


def test_a_graph_may_go_through_what_nobody_can_look_into() -> None:
    program = HEAD + (
        "from somewhere import pretrained\n"
        "generator = nn.Linear(3, 3)\n"
        "encoder = nn.Sequential(*list(pretrained().children())[:-1])\n"
        "fake = generator(torch.randn(2, 3)).tanh()\n"
        "fake.pow(2).sum().backward(retain_graph=True)\n"
        "encoder(fake).sum().backward()\n"
    )
    assert findings(program) == []


def test_the_ledger_of_a_way_is_that_of_a_replay() -> None:
    source = from_text(
        "import torch\n"
        "from torch import nn\n"
        "net = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 1))\n"
        "optimizer = torch.optim.SGD(net.parameters(), lr=0.1)\n"
        "state = torch.zeros(2, 1)\n"
        "for step in range(5):\n"
        "    state = net(torch.randn(2, 3)) * state.exp()\n"
        "    if step % unknown == 0:\n"
        "        state = state.detach()\n"
        "    state.sum().backward(retain_graph=unknown)\n"
        "    optimizer.step()\n",
        "train.py",
    )
    tapes = interpret(source).tapes
    assert len(tapes) > 1
    for tape in tapes:
        again, traversals = replay(tape)
        assert tape.ledger is not None
        assert list(tape.ledger.traversals.values()) == traversals
        assert (tape.ledger.nodes, tape.ledger.versions) == (again.nodes, again.versions)
        assert all(tape.ledger.is_freed(node) == again.is_freed(node) for node in again.nodes)


def test_a_generator_that_goes_through_itself_ends_soon() -> None:
    program = HEAD + (
        "import sys\n"
        "def walk(node):\n"
        "    yield node\n"
        "    for child in node.children:\n"
        "        yield from walk(child)\n"
        "w = torch.randn(3, requires_grad=True)\n"
        "for node in walk(sys.argv):\n"
        "    w.exp().sum().backward()\n"
    )
    result = interpret(from_text(program, "program.py"))
    assert not result.exhausted
    assert len(result.tapes[0].events) < 1_000


def test_a_condition_in_a_class_that_a_function_defines() -> None:
    program = HEAD + (
        "def train(loader, verbose):\n"
        "    class Net(nn.Module):\n"
        "        def __init__(self):\n            super().__init__()\n            self.fc = nn.Linear(4, 1)\n"
        "        def forward(self, x):\n            if verbose:\n                x = self.scaled(x)\n"
        "            return self.fc(x)\n"
        "        def scaled(self, x):\n            return x * 2\n"
        "    net, total = Net(), 0.0\n"
        "    for x in loader:\n"
        "        loss = net(x).sum()\n        loss.backward()\n        total += loss\n"
        "    return total\n"
    )
    assert [found.code for found in findings(program)] == ["TAPE201"]


def test_the_tree_of_a_checked_file_is_let_go() -> None:
    source = from_text(HEAD + "w = torch.randn(3, requires_grad=True)\nw.exp().sum().backward()\n", "program.py")
    tree = weakref.ref(source.tree)
    check(source)
    del source
    gc.collect()
    assert tree() is None


@pytest.mark.parametrize(
    "check_of_arguments",
    [
        "assert not args.plain, 'not with a plain one'",
        "if args.size == 3 and args.plain:\n    raise ValueError('not with a plain one')",
        "def chosen():\n    if args.size == 'a':\n        return 1\n    raise NotImplementedError(args.size)\nchosen()",
    ],
)
def test_likelier_answers_that_the_program_refuses_do_not_end_it(check_of_arguments: str) -> None:
    program = HEAD + (
        "args = argparse.ArgumentParser().parse_args()\n"
        "net = nn.Linear(3, 1) if args.plain else nn.Linear(3, 2)\n"
        f"{check_of_arguments}\n"
        "loss = net(torch.randn(2, 3)).sum()\n"
        "loss.backward()\n"
        "loss.backward()\n"
    )
    assert [(finding.code, finding.certain) for finding in findings(program)] == [("TAPE101", True)]


def test_an_exception_that_the_program_looks_out_for_is_raised() -> None:
    program = HEAD + (
        "args = argparse.ArgumentParser().parse_args()\n"
        "w = torch.randn(3, requires_grad=True)\n"
        "loss = w.exp().sum()\n"
        "net = nn.Linear(3, 1) if args.plain else nn.Linear(3, 2)\n"
        "try:\n    loss.backward()\n    assert 1 > 2\n    loss.backward()\n"
        "except AssertionError:\n    pass\n"
    )
    assert findings(program) == []


def test_each_of_several_modes_is_tried() -> None:
    sides = "".join(f"elif args.mode == '{mode}':\n    loss = loss * 2\n" for mode in "bcde")
    program = HEAD + (
        "args = argparse.ArgumentParser().parse_args()\n"
        "w = torch.randn(3, requires_grad=True)\n"
        "loss = w.exp().sum()\n"
        "if args.mode == 'a':\n    loss = loss * 3\n"
        f"{sides}"
        "elif args.mode == 'f':\n    loss.backward()\n    loss.backward()\n"
    )
    assert [(finding.code, finding.certain) for finding in findings(program)] == [("TAPE101", True)]


@pytest.mark.parametrize(
    ("flag", "started"),
    [("requires_grad=False", False), ("requires_grad=x.requires_grad", False), ("requires_grad=True", True)],
)
def test_what_makes_nothing_require_grad_starts_nothing(flag: str, started: bool) -> None:
    program = f"import torch\n\n\ndef scaled(x):\n    y = torch.zeros(3, {flag})\n    y.mul_(2)\n    return y\n"
    report = check(from_text(program, "scaled.py"))
    assert report.interpretation.entries == (["scaled"] if started else [])
    assert [finding.code for finding in report.findings] == (["TAPE104"] if started else [])


KINDS = """\
import torch
from hidden import build, loss_of
criterion, other = build("first"), build("second")
w = torch.randn(3, requires_grad=True)
loss = w.exp().sum()
for given in (VALUES):
    if isinstance(given, KIND):
        loss = w.exp().sum()
    else:
        loss.backward(retain_graph=True)
loss.backward()
"""


@pytest.mark.parametrize("kind", ["torch.Tensor", "list", "(tuple, list)", "dict", "torch.nn.Module"])
@pytest.mark.parametrize(
    ("values", "types"),
    [
        ("criterion(w), criterion(w * 2), criterion(w, w)", 1),
        ("loss_of(w), loss_of(w * 2), loss_of(torch.ones(3))", 1),
        ("criterion.loss(w), criterion.loss(w * 2)", 1),
        ("criterion(w), other(w), criterion(w)", 2),
        ("criterion(w), criterion.loss(w)", 2),
        ("loss_of(w), criterion(w), loss_of(w * 2)", 2),
    ],
)
def test_what_the_same_hidden_code_gives_is_of_the_same_type(values: str, types: int, kind: str) -> None:
    text = KINDS.replace("VALUES", values).replace("KIND", kind)
    tapes = check(from_text(text, "train.py")).interpretation.tapes
    answers = [[event.taken for event in tape.events if isinstance(event, Decision)] for tape in tapes]
    assert {len(each) for each in answers} == {types}
    assert len({tuple(each) for each in answers}) >= 2


@pytest.mark.parametrize("kind", ["float", "type(None)", "(int, float)"])
def test_whether_hidden_code_gives_a_value_at_all_may_change(kind: str) -> None:
    text = KINDS.replace("VALUES", "criterion(w), criterion(w * 2)").replace("KIND", kind)
    tapes = check(from_text(text, "train.py")).interpretation.tapes
    assert {len([one for one in tape.events if isinstance(one, Decision)]) for tape in tapes} == {2}


ARGUMENTS = """\
import argparse
import os

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--twice", action="store_true")
parser.add_argument("--weight", type=float, default=0.0)
parser.add_argument("--model", default="small", choices=["small", "large"])
parser.add_argument("--resume")
parser.add_argument("--no-norm", dest="norm", action="store_false")
parser.add_argument("--steps", type=int, default="3")
parser.add_argument("folder")
args = parser.parse_args()
net = torch.nn.Linear(3, 1)
loss = net(torch.randn(2, 3)).mean()
if CONDITION:
    print(net(torch.randn(2, 3)).mean().backward())
else:
    print(1)
loss.backward()
"""


def first_answers(condition: str) -> list[bool]:
    tapes = check(from_text(ARGUMENTS.replace("CONDITION", condition), "train.py")).interpretation.tapes
    return [event.taken for event in tapes[0].events if isinstance(event, Decision)]


@pytest.mark.parametrize(
    ("condition", "likelier"),
    [
        ("args.twice", False),
        ("not args.twice", False),  # what is asked is the flag
        ("args.weight > 0", False),
        ("0 >= args.weight", True),
        ("args.model == 'small'", True),
        ("args.model != 'small'", False),
        ("args.model in ('large', 'huge')", False),
        ("args.resume is not None", False),
        ("args.resume", False),
        ("args.norm", True),
    ],
)
def test_the_default_of_an_argument_is_the_likelier_answer(condition: str, likelier: bool) -> None:
    assert first_answers(condition) == [likelier]


@pytest.mark.parametrize(
    ("condition", "likelier"),
    [
        ("bool(os.environ.get('KEEP', ''))", False),
        ("int(os.environ.get('TIMES', '3'))", True),
        ("int(os.getenv('TIMES', '3')) > 3", False),
        ("os.environ.get('MODE', 'fast') == 'fast'", True),
        ("os.environ.get('MODE') is None", True),
        ("not os.getenv('DEBUG')", False),  # what is asked is the variable
    ],
)
def test_the_default_of_a_variable_of_the_environment_is_the_likelier_answer(condition: str, likelier: bool) -> None:
    assert first_answers(condition) == [likelier]


STORED_BY_CHANCE = """\
import torch
from torch import nn


class Trainer:
    def __init__(self):
        self.net = nn.Linear(4, 4)
        self.memory = {"seen": torch.randn(4)}
        self.seen = torch.randn(4)

    def run(self):
        scale = torch.ones(4)
        for step in range(2):
            if step == 0 and torch.rand(()) > 0.5:
                STORED = self.net(torch.ones(4)) * scale
            out = (STORED * self.net(torch.ones(4))).sum()
            scale += 1
            out.backward()
            STORED = STORED.detach()


Trainer().run()
"""


@pytest.mark.parametrize("stored", ["self.memory['seen']", "self.seen"])
def test_a_graph_that_a_condition_stores_in_an_object_makes_a_may(stored: str) -> None:
    (found,) = findings(STORED_BY_CHANCE.replace("STORED", stored))
    assert (found.code, found.certain) == ("TAPE102", False)


@pytest.mark.parametrize("condition", ["args.steps > 2", "args.folder == 'small'", "args.unknown"])
def test_an_argument_whose_default_says_nothing_stays_undecided(condition: str) -> None:
    # As for any unknown value, the side of an `if` with an `else` that comes first.
    assert first_answers(condition) == [True]
    assert first_answers(f"not ({condition})") == [False]


EVALUATE = (
    "def evaluate(model, batches):\n"
    "    total = 0\n"
    "    for batch in batches:\n"
    "        total += model(batch).mean()\n"
    "    return total\n"
)
BEHIND_A_FLAG = (
    "def main():\n"
    "    parser = argparse.ArgumentParser()\n"
    "    parser.add_argument('--eval', action='store_true')\n"
    "    args = parser.parse_args()\n"
    "    model = nn.Linear(2, 1)\n"
    "    model(torch.randn(3, 2)).mean().backward()\n"
    "    if args.eval:\n"
    "        {branch}print(evaluate(model, [torch.randn(3, 2) for _ in range(20)]))\n"
    "main()\n"
)


def test_a_function_that_only_another_answer_calls() -> None:
    (found,) = findings(HEAD + EVALUATE + BEHIND_A_FLAG.format(branch=""))
    assert (found.code, found.span.line) == ("TAPE201", 7)


@pytest.mark.parametrize("above", [True, False])
def test_a_function_of_another_file_that_only_another_answer_calls(tmp_path: Path, above: bool) -> None:
    (tmp_path / "util.py").write_text(EVALUATE)
    bring = "from util import evaluate"
    program = HEAD + (bring if above else "") + "\n" + BEHIND_A_FLAG.format(branch="" if above else f"{bring}; ")
    report = check(from_text(program, str(tmp_path / "train.py")))
    (found,) = [*report.findings, *report.elsewhere]
    assert (found.code, Path(found.span.file).name, found.span.line) == ("TAPE201", "util.py", 4)


def test_what_only_another_answer_prints_is_no_function_of_the_program() -> None:
    program = HEAD + BEHIND_A_FLAG.format(branch="").replace("evaluate(model, ", "len(")
    assert findings(program) == []


def test_a_count_that_an_option_stops_is_taken_beyond_it_first() -> None:
    program = HEAD + (
        "parser = argparse.ArgumentParser()\n"
        "parser.add_argument('--starts', type=int, default=10_000)\n"
        "args = parser.parse_args()\n"
        "model = nn.Linear(2, 1)\n"
        "for step in range(1_000_000):\n"
        "    if step > args.starts:\n"
        "        loss = model(torch.randn(3, 2)).mean()\n"
        "        loss.backward()\n"
    )
    log: list[Explored] = []
    check(from_text(program, "program.py"), log=log)
    assert any(isinstance(event, Backward) for event in log[0].tape.events)


NOISY = """\
args = argparse.ArgumentParser().parse_args()


class Noisy(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.w = nn.Parameter(torch.ones(size, size))
        self.register_buffer("noise", torch.zeros(size))

    def forward(self, x):
        self.noise.normal_()
        return x @ self.w + self.w[0] * self.noise


class Net(nn.Module):
    def __init__(self, noisy):
        super().__init__()
CHOICE
    def forward(self, x):
        return self.a(self.a(x))


Net(args.noisy)(torch.ones(2, 4)).mean().backward()
"""
"""A layer that is run twice, and changes in place what the first time has saved."""


@pytest.mark.parametrize(
    "choice",
    [
        "if noisy:\n    kind = Noisy\nelse:\n    kind = nn.Linear\nself.a = kind(4) if noisy else kind(4, 4)",
        "if noisy:\n    self.a = Noisy(4)\nelse:\n    self.a = nn.Linear(4, 4)",
        "layer = nn.Linear(4, 4)\nif noisy:\n    layer = Noisy(4)\nself.a = layer",
    ],
)
def test_what_a_class_does_that_a_flag_has_chosen_is_a_may(choice: str) -> None:
    lines = "".join(f"        {line}\n" for line in choice.splitlines())
    (finding,) = findings(HEAD + NOISY.replace("CHOICE", lines))
    assert (finding.code, finding.certain) == ("TAPE102", False)


def test_what_a_class_does_that_is_taken_anyway_is_certain() -> None:
    (finding,) = findings(HEAD + NOISY.replace("CHOICE", "        kind = Noisy\n        self.a = kind(4)\n"))
    assert (finding.code, finding.certain) == ("TAPE102", True)


@pytest.mark.parametrize("name", ["forget", "log", "save", "write"])
def test_a_function_of_the_program_is_run_under_a_condition_whatever_it_is_called(name: str) -> None:
    program = f"""
import random
import torch
from torch import nn
net, kept = nn.Linear(3, 2), []
def {name}(items):
    items.clear()
for step in range(20):
    loss = net(torch.randn(4, 3)).pow(2).mean()
    loss.backward()
    kept.append(loss)
    if random.random() > 0.5:
        {name}(kept)
"""
    (finding,) = check(from_text(program, "train.py")).findings
    assert finding.code == "TAPE201" and not finding.certain


FOLLOWED = """
import torch
from torch import nn
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def train({given}, loader):
    for x in loader:
        loss = model(x).pow(2).mean()
        loss.backward()
        if {first}:
            {idle}
        optimizer.step()
        if {second}:
            {clear}
        {last}
"""


@pytest.mark.parametrize(
    ("given", "first", "second"),
    [
        ("flag", "not flag", "flag"),
        ("flag", "flag is None", "flag"),
        ("mode", "mode != 'fit'", "mode == 'fit'"),
        ("args", "not args.clear", "args.clear"),
        ("every", "every > 1", "not every > 1"),
        ("options", "not options['clear']", "options['clear']"),
    ],
)
@pytest.mark.parametrize("idle", ["print('idle')", "count = 0", "model.train()"])
@pytest.mark.parametrize(
    "clear",
    [
        "optimizer.zero_grad()",
        "[setattr(p, 'grad', None) for p in model.parameters()]",
        "for p in model.parameters(): p.grad = None",
    ],
)
@pytest.mark.parametrize("last", ["", "nn.utils.clip_grad_norm_(model.parameters(), 1.0)"])
def test_a_condition_that_follows_from_another_is_tried_with_it(
    given: str, first: str, second: str, idle: str, clear: str, last: str
) -> None:
    """What the second condition leads to hangs on the answer to the first one, which decides about nothing itself."""
    text = FOLLOWED.format(given=given, first=first, second=second, idle=idle, clear=clear, last=last)
    report = check(from_text(text, "followed.py"))
    assert [finding.message for finding in report.findings if finding.certain] == []
