"""A finding that hangs on an answer which hidden code gives, or an option without its default, is a possible one."""

from __future__ import annotations

import textwrap

import pytest

from tapecheck.check import Report, check
from tapecheck.fixes import fixes_for
from tapecheck.source import from_text

HEAD = """\
import argparse
import os
import torch
from torch import nn
from nowhere import ask, flag, limit, names, settings

parser = argparse.ArgumentParser()
parser.add_argument("--twice", action="store_true")
parser.add_argument("--skip", action="store_true")
parser.add_argument("--start", type=int, default=0)
args = parser.parse_args()
net = nn.Linear(3, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
first = net(torch.randn(2, 3)).pow(2).sum()
for step in range(4):
    loss = net(torch.randn(2, 3)).pow(2).sum()
    optimizer.zero_grad()
"""
HIDDEN = (
    "flag", "not flag", "ask()", "ask(step)", "ask(loss)", "settings.twice", "settings['twice']", "step < limit",
    "step > limit + 1", "len(names) > 2", "step in names", "settings.twice and ask(step)", "ask(step) or flag",
    "names[step] is None", "flag == 'twice'", "-limit > step", "limit % 2", "any(names)", "str(flag) == 'a'",
    "f'{flag}' == 'a'", "'%s' % flag == 'a'", "isinstance(flag, str)", "type(flag) is str", "bool(flag)",
    "abs(limit) > 2", "hasattr(settings, 'twice')", "settings.mode.lower() == 'a'", "next(iter(names)) > 1",
)  # fmt: skip
AGAINST_DEFAULTS = ("args.twice", "step > args.start + 2", "os.environ.get('TWICE')")
BY_DEFAULT = ("not args.twice", "args.start == 0")
MISTAKES = {
    "TAPE101": "loss.backward()\nloss.backward()",
    "TAPE102": "hidden = torch.sigmoid(loss)\nhidden.mul_(2)\nhidden.backward()",
    "TAPE103": "torch.randn(3).sum().backward()",
    "TAPE104": "net.weight.mul_(2)",
}
SHAPES = {
    "inside": "if {test}:\n{body}",
    "other side": "if not ({test}):\n    pass\nelse:\n{body}",
    "asked before": "if {test}:\n    loss = loss * 2\nprint(step)\nif {test}:\n{body}",
    "called": "def train(loss):\n{body}\nif {test}:\n    train(loss)",
    "given": "def train(on, loss):\n    if on:\n{inner}\ntrain({test}, loss)",
}  # fmt: skip


def found(text: str, code: str) -> tuple[Report, list[bool]]:
    report = check(from_text(text, "program.py"), select=[code])
    return report, [finding.certain for finding in report.findings]


def program(test: str, mistake: str, shape: str) -> str:
    body, inner = textwrap.indent(MISTAKES[mistake], "    "), textwrap.indent(MISTAKES[mistake], "        ")
    return HEAD + textwrap.indent(SHAPES[shape].format(test=test, body=body, inner=inner), "    ") + "\n"


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("test", (*HIDDEN, *AGAINST_DEFAULTS))
def test_what_another_answer_leaves_out_is_possible(test: str, shape: str) -> None:
    for mistake in MISTAKES:
        report, certain = found(program(test, mistake, shape), mistake)
        assert not any(certain), (mistake, test, shape)
        for finding in report.findings:
            assert not any(fix.applicability == "safe" for fix in fixes_for(report, finding)), (mistake, test, shape)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("test", ("loss.item() > 1", "step < 3", *BY_DEFAULT))
def test_what_data_or_defaults_lead_to_is_certain(test: str, shape: str) -> None:
    for mistake in MISTAKES:
        certain = found(program(test, mistake, shape), mistake)[1]
        # What data leads to is looked for where it can begin or free something.
        assert certain == [True] or (not certain and "loss" in test), (mistake, test, shape)


@pytest.mark.parametrize("test", ("flag", "ask(step)", "step > limit", "step > args.start", "args.skip"))
@pytest.mark.parametrize("leaving", ("continue", "break"))
def test_what_a_hidden_guard_ends_is_no_more_certain(test: str, leaving: str) -> None:
    guarded = f"if {test}: {leaving}\n(first + loss).backward()"
    [certain] = found(HEAD + textwrap.indent(guarded, "    "), "TAPE101")[1]
    # Without the option the loop goes on by default.
    assert certain == (test == "args.skip")


def test_what_both_answers_lead_to_is_certain() -> None:
    twice = "if flag:\n    loss = loss * 2\nloss.backward()\nloss.backward()"
    assert found(HEAD + textwrap.indent(twice, "    "), "TAPE101")[1] == [True]


@pytest.mark.parametrize(("times", "certain"), (("4", True), ("limit", False), ("ask(4)", False), ("limit + 1", False)))
def test_a_third_iteration_is_not_sure_where_the_length_is_hidden(times: str, certain: bool) -> None:
    third = f"for i in range({times}):\n    loss.backward(retain_graph=i % 2 == 0)"
    second = f"for i in range({times}):\n    loss.backward()"
    assert found(HEAD + textwrap.indent(third, "    "), "TAPE101")[1] == [certain]
    assert found(HEAD + textwrap.indent(second, "    "), "TAPE101")[1] == [True]


def test_what_a_hidden_condition_puts_into_a_container_may_not_be_there() -> None:
    kept = """
    class Kept(nn.Module):
        def forward(self, value):
            self.loss = value.pow(2).mean()
            return value
    model, kept = nn.Sequential(nn.Linear(3, 3)), []
    for number, name in enumerate(("a", "b", "c")):
        if name in names:
            one = Kept()
            model(torch.randn(2, 3))
            one(model(torch.randn(2, 3)))
            model.add_module(f"kept_{number // 2}", one)
            kept.append(one)
    for _ in range(3):
        model(torch.randn(2, 3))
        sum(one.loss for one in kept).backward()
    """
    head = HEAD[: HEAD.index("for step")]
    assert found(head + textwrap.dedent(kept), "TAPE101")[1] == [False]
    assert found(head + textwrap.dedent(kept).replace("in names", "in 'abc'"), "TAPE101")[1] == [True]


KEPT = """\
import argparse
import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--keep", action="store_true")
args = parser.parse_args()
net = nn.Linear(3, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
seen = []
for x in torch.randn(5, 4, 3):
    loss = net(x).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    BODY
print(len(seen))
"""


@pytest.mark.parametrize(
    "body",
    [
        "if args.keep:\n        seen.append(loss)",
        "if not args.keep:\n        pass\n    else:\n        seen.append(loss)",
        "if args.keep:\n        for _ in range(2):\n            seen.append(loss)",
    ],
)
def test_what_is_stored_under_an_option_is_detached_though_nothing_asks_for_it_then(body: str) -> None:
    report = check(from_text(KEPT.replace("BODY", body), "train.py"))
    [finding] = report.findings
    assert finding.code == "TAPE201" and not finding.certain
    [fix, *_] = fixes_for(report, finding)
    assert fix.title == "Store `loss` detached" and fix.applicability == "unsafe"
    assert fix.changes.endswith("A run with other options may need it as it was.")


MODES = """\
import argparse
import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("-m", "--mode", choices=["train", "twice", "other"], default="train")
parser.add_argument("--again", action="store_true")
parser.add_argument("--checkpoint", default=None)
args = parser.parse_args()
net = nn.Linear(3, 1)
loss = net(torch.randn(2, 3)).pow(2).sum()
loss.backward()
"""


@pytest.mark.parametrize(
    ("test", "said"),
    [
        ("if args.mode == 'twice':", "`--mode twice` is given"),
        ("if not args.mode != 'twice':", "`--mode twice` is given"),
        ("if args.mode != 'train':", "`--mode` is not `train`"),
        ("if args.mode == 'train':\n    pass\nelif args.mode == 'twice':", "`--mode twice` is given"),
        ("if args.mode == 'train':\n    pass\nelse:", "`--mode` is not `train`"),
        ("if args.again:", "`--again` is given"),
        ("if args.checkpoint is not None:", "`--checkpoint` is given"),
        ("if args.checkpoint:", "`--checkpoint` is given"),
    ],
)
def test_an_option_is_named_as_the_command_line_has_it(test: str, said: str) -> None:
    [finding] = check(from_text(f"{MODES}{test}\n    loss.backward()\n", "train.py")).findings
    assert finding.code == "TAPE101" and not finding.certain
    assert finding.notes[-1] == f"not by default: assumes that {said}"


def test_what_a_hidden_condition_holds_is_possible_though_the_other_way_raises() -> None:
    text = HEAD + "    loss.backward()\n    if ask():\n        loss.backward()\n    else:\n        nn.Linear(3, 'x')\n"
    text = text.replace("nn.Linear(3, 'x')", "first.backward(); first.backward()")
    found = check(from_text(text, "train.py")).findings
    assert [finding.certain for finding in found] == [False, False]


FLAG = """\
import torch
from torch import nn
from nowhere import flag, settings

net = nn.Linear(4, 4)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
x = torch.randn(4, 4, requires_grad=True)
h = torch.zeros(4, 4)
loss = net(x).tanh().sum()
"""


@pytest.mark.parametrize("flag", ["flag", "settings.keep", "flag()", "settings['keep']"])
def test_an_argument_that_hidden_code_gives_retains_what_is_needed_again(flag: str) -> None:
    for body in (
        f"loss.backward(retain_graph={flag})\nloss.backward()\n",
        f"for k in range(2):\n    loss.backward(retain_graph={flag})\n",
        f"rows = [torch.autograd.grad(loss, x, create_graph={flag})[0] for r in range(3)]\n",
        f"for k in range(4):\n    optimizer.zero_grad()\n    loss.backward(retain_graph={flag})\n",
    ):
        assert not check(from_text(FLAG + body, "train.py")).findings
    # Where it fails either way the graph is the mistake.
    carried = "for k in range(4):\n    h = net(x + h)\n    optimizer.zero_grad()\n"
    carried += f"    h.sum().backward(retain_graph={flag})\n    optimizer.step()\n"
    found = check(from_text(FLAG + carried, "train.py")).findings
    assert found and not any(finding.certain for finding in found)


KEEPERS = {
    "list": "kept = []\n",
    "deque": "from collections import deque\nkept = deque(maxlen=100)\n",
    "measures itself": (
        "class Kept:\n    def __init__(self):\n        self.rows = []\n    def append(self, row):\n"
        "        self.rows.append(row)\n    def __len__(self):\n        return len(self.rows)\nkept = Kept()\n"
    ),
}  # fmt: skip


@pytest.mark.parametrize("kept", KEEPERS)
@pytest.mark.parametrize("test", ["len(kept) >= args.few", "args.few <= len(kept)", "not len(kept) < args.few"])
@pytest.mark.parametrize("code", MISTAKES)
def test_what_comes_once_enough_is_kept_needs_no_other_option(kept: str, test: str, code: str) -> None:
    text = HEAD.replace("args =", 'parser.add_argument("--few", type=int, default=3)\nargs =')
    text = text.replace("for step", KEEPERS[kept] + "for step") + "    kept.append(step)\n"
    body = textwrap.indent(f"if {test}:\n{textwrap.indent(MISTAKES[code], '    ')}\n", "    ")
    report, certain = found(text + body, code)
    assert certain == [False]
    assert report.findings[0].notes[-1] == "by default: assumes that `args.few` is 3"
