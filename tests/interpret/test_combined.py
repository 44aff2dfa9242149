"""What only three or more answers of hidden code together lead to, through tests that values decide."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from tapecheck.check import check
from tapecheck.source import from_text

VALUES = (
    "v{n} = [{n}] if ask{n}() else []\n",
    "v{n} = [z for z in load{n}()]\n",
    "v{n} = []\nfor z in load{n}():\n    v{n}.append(z)\n",
    "v{n} = []\nif ask{n}():\n    v{n} = [1]\n",
    "v{n} = False\nif ask{n}():\n    v{n} = True\n",
    "if ask{n}():\n    v{n} = 1\nelse:\n    v{n} = 0\n",
    "def make{n}():\n    if ask{n}():\n        return [1]\n    return []\n\n\nv{n} = make{n}()\n",
    "v{n} = 0\nfor z in load{n}():\n    v{n} += 1\n",
    "v{n} = list(load{n}())\n",
)
"""What has something in it, or nothing, as hidden code says."""
FAULTS = {
    "TAPE301": ("loss = (w * w).sum()\nloss.backward(retain_graph=True)\n", "loss.backward()", ""),
    "TAPE103": ("total = torch.ones(2).sum()\n", "total = (w * w).sum()", "total.backward()\n"),
    "TAPE404": (
        "net = torch.nn.Linear(2, 1)\nopt = torch.optim.SGD(net.parameters())\nnet(torch.ones(2)).sum().backward()\n",
        "opt.step()",
        "opt.zero_grad()\n",
    ),
}
"""What is said never to come, what brings it, and what stands behind."""


def _nested(parts: list[str], does: str) -> str:
    return (
        "".join(f"{' ' * 4 * depth}if {part}:\n" for depth, part in enumerate(parts)) + f"{' ' * 4 * len(parts)}{does}"
    )


def _halved(parts: list[str], does: str) -> str:
    half = len(parts) // 2
    return f"if {' and '.join(parts[:half])}:\n    if {' and '.join(parts[half:])}:\n        {does}"


def _returning(parts: list[str], does: str) -> str:
    passing = "".join(f"    if not ({part}):\n        return\n" for part in parts)
    return f"def go():\n    global total\n{passing}    {does}\n\n\ngo()"


TESTS = {
    "and": lambda parts, does: f"if {' and '.join(parts)}:\n    {does}",
    "or": lambda parts, does: f"if not ({' or '.join(f'not ({part})' for part in parts)}):\n    {does}",
    "nested": _nested,
    "halved": _halved,
    "returning": _returning,
    "flag": lambda parts, does: f"flag = {' and '.join(parts)}\nif flag:\n    {does}",
    "function": lambda parts, does: f"def ok():\n    return {' and '.join(parts)}\n\n\nif ok():\n    {does}",
    "elif": lambda parts, does: f"if not ({parts[0]}):\n    pass\nelif {' and '.join(parts[1:])}:\n    {does}",
    "while": lambda parts, does: f"while {' and '.join(parts)}:\n    {does}\n    break",
    "argument": lambda parts, does: (
        f"def go(x):\n    global total\n    if x and {' and '.join(parts[1:])}:\n        {does}\n\n\ngo({parts[0]})"
    ),
}


def _program(draw: random.Random, form: str, fault: str, *, opposite: bool, most: int) -> str:
    count = draw.randint(3, most)
    head, does, tail = FAULTS[fault]
    parts = [draw.choice(("", "not ")) + f"v{number}" for number in range(count)]
    draw.shuffle(parts)
    if opposite:
        last = parts[0]
        parts.append(last[4:] if last.startswith("not ") else f"not {last}")
    names = ", ".join(f"ask{number}, load{number}" for number in range(count))
    made = "".join(draw.choice(VALUES).format(n=number) for number in range(count))
    before = made + head if draw.random() < 0.5 else head + made
    return (
        f"import torch\nfrom hidden import {names}\n\nw = torch.ones(2, requires_grad=True)\n{before}"
        f"{TESTS[form](parts, does)}\n{tail}"
    )


EVENTS = {
    "TAPE301": (
        "loss = (net(x) ** 2).mean()\nother = w.sum()\nloss.backward(retain_graph=True)\n",
        ("loss", "other", "{}.backward()"), "opt.step()\nopt.zero_grad()\n",
    ),
    "TAPE403": ("", ("opt", "opt2", "{}.zero_grad()"), "net(x).sum().backward()\nopt.step()\n"),
    "TAPE201": ("kept.append(net(x).exp())\n", ("kept", "spare", "{}.clear()"), ""),
}  # fmt: skip
"""What stands before and behind what ends a finding where it acts on the first of two values."""
MADE = """\
net = torch.nn.Linear(2, 1)
w = torch.ones(2, requires_grad=True)
opt = torch.optim.SGD(net.parameters())
opt2 = torch.optim.SGD([w])
kept, spare = [], []
"""
ASKED = ("cfg.a{n}", "ask({n})", "opts['a{n}']", "a{n}", "cfg.mode{n} == 'x'", "cfg.n{n} > 2")
CHOSEN = (
    "{to} = {other}\nif {test}:\n    {to} = {value}\n",
    "if {test}:\n    {to} = {value}\nelse:\n    {to} = {other}\n",
    "{to} = {value} if {test} else {other}\n",
    "{to} = pick({test}, {value}, {other})\n",
    "{to} = [{other}]\nif {test}:\n    {to}.append({value})\n{to} = {to}[-1]\n",
    "match bool({test}):\n    case True:\n        {to} = {value}\n    case _:\n        {to} = {other}\n",
)
INDEXED = "{to} = ({other}, {value})[bool({test})]\n"
PICK = "def pick{n}(flag, one, two):\n    if flag:\n        return one\n    return two\n\n\n"


def _choosing(draw: random.Random, fault: str, count: int) -> tuple[str, str]:
    """Return the functions and the code of a program in which all of some answers of hidden code have to be one way for
    what ends the finding to act on what it is about.
    """
    head, (value, other, act), tail = EVENTS[fault]
    lines = functions = ""
    for n in range(count):
        test = draw.choice(("", "not ")) + f"({draw.choice(ASKED).format(n=n)})"
        chosen = draw.choice(CHOSEN)
        if "pick(" in chosen:
            # One function that is asked for several values answers alike for all.
            chosen, functions = chosen.replace("pick(", f"pick{n}("), functions + PICK.format(n=n)
        lines += chosen.format(to=f"v{n}", test=test, value=value, other=other)
        value = f"v{n}"
    body = head + lines + act.format(value) + "\n" + tail
    loop = "for x in load():\n" + "".join(f"    {line}\n" for line in body.splitlines())
    names = ", ".join(f"a{n}" for n in range(count))
    imports = f"from hidden import ask, cfg, load, opts, {names}\n"
    return functions, f"{imports}\n{MADE}{loop}print(kept)\n"


@pytest.mark.parametrize("fault", EVENTS)
def test_values_that_hidden_code_chooses_together(fault: str, tmp_path: Path) -> None:
    """One of 16 combinations or more ends the finding, in each of these programs, in one file or over two."""
    draw = random.Random(fault)
    for count in (4, 5, 6, 8):
        functions, code = _choosing(draw, fault, count)
        beside = bool(functions) and draw.random() < 0.5
        (tmp_path / "helpers.py").write_text(functions if beside else "")
        program = f"import torch\n{'from helpers import *' if beside else functions}\n{code}"
        found = check(from_text(program, str(tmp_path / "train.py"))).findings
        assert not any(one.code == fault and one.certain for one in found), program


@pytest.mark.parametrize("fault", EVENTS)
def test_values_that_arguments_choose_together(fault: str) -> None:
    """One of 8 combinations or more of what a function is given ends the finding, by a value or by a test."""
    draw = random.Random(f"arguments {fault}")
    for count in (3, 4, 5) * 2:
        head, (value, other, act), tail = EVENTS[fault]
        lines, tests = "", []
        for n in range(count):
            test = f"{draw.choice(('', 'not '))}p{n}"
            if draw.random() < 0.6:
                lines += f"b{n} = {test}\n"
                tests.append(f"b{n}")
                continue
            lines += (
                draw.choice((*CHOSEN, INDEXED))
                .format(to=f"v{n}", test=test, value=value, other=other)
                .replace("pick(", "pick0(")
            )
            value = f"v{n}"
        ends = f"if {_joined(draw, tests)}:\n    {act.format(value)}\n" if tests else f"{act.format(value)}\n"
        loop = "".join(f"    {line}\n" for line in f"{head}{lines}{ends}{tail}".splitlines())
        body = "".join(f"    {line}\n" for line in f"{MADE}for x in load():\n{loop}print(kept)\n".splitlines())
        given = ", ".join(f"p{n}" for n in range(count))
        program = f"import torch\nfrom hidden import load\n\n\n{PICK.format(n=0)}def main({given}):\n{body}"
        assert not _is_certain(program, fault), program


def _joined(draw: random.Random, tests: list[str]) -> str:
    """Return an expression that is true where all of some are."""
    joined = tests[0]
    for test in tests[1:]:
        joined = draw.choice(JOINED).format(one=joined, other=test)
    return joined


JOINED = (
    "({one} and {other})",
    "(not (not {one} or not {other}))",
    "all([{one}, {other}])",
    "(len([z for z in ({one}, {other}) if z]) == 2)",
    "(bool({one}) + bool({other}) > 1)",
    "({other} if {one} else False)",
)


VISIBLE = ("for x in load():", "for x in torch.ones(9, 4, 2).unbind():")
"""Batches that share no graph, in the place of hidden ones."""


@pytest.mark.parametrize(("fault", "counts"), [("TAPE301", (3,)), ("TAPE403", (3, 6))])
def test_what_is_chosen_and_not_used_leaves_it_certain(fault: str, counts: tuple[int, ...]) -> None:
    """However many answers there are, as long as what ends the finding hangs on none of them."""
    draw = random.Random(fault)
    for count in counts:
        functions, code = _choosing(draw, fault, count)
        _, (_, other, act), _ = EVENTS[fault]
        program = f"import torch\n{functions}{code.replace(act.format(f'v{count - 1}'), act.format(other))}"
        program = program.replace(*VISIBLE)
        assert any(one.code == fault and one.certain for one in check(from_text(program, "train.py")).findings)


def _is_certain(program: str, fault: str) -> bool:
    return any(one.code == fault and one.certain for one in check(from_text(program, "train.py")).findings)


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("form", TESTS)
def test_answers_that_lead_there_together(form: str, fault: str) -> None:
    """Each of these programs comes there for one combination of what hidden code answers."""
    draw = random.Random(f"{form} {fault}")
    for _ in range(8):
        program = _program(draw, form, fault, opposite=False, most=7)
        assert not _is_certain(program, fault), program


@pytest.mark.parametrize("form", ["and", "nested", "flag", "function", "elif"])
def test_what_no_answers_lead_to_is_certain(form: str) -> None:
    """What asks for a value and its opposite never comes, whatever hidden code answers."""
    draw = random.Random(form)
    programs = [_program(draw, form, "TAPE301", opposite=True, most=3) for _ in range(6)]
    assert any(_is_certain(program, "TAPE301") for program in programs)


ADDED = (
    "if {test}:\n    loss = loss * 2\n",
    "if {test}:\n    loss = -loss / 3\n",
    "loss = loss + 1 if {test} else 2 * loss\n",
    "if {test}:\n    loss = loss + net(x).abs().mean()\n",
    "if {test}:\n    loss += net(x).sum()\n    loss = 0.5 * loss\n",
)
"""What leaves all of a loss in what a backward walks."""
WALKED = {
    "itself": "loss.backward()\n",
    "scaled": "scaler.scale(loss).backward()\n",
    "accelerated": "acc.backward(loss)\n",
    "divided": "(loss / 4).backward()\n",
    "added up": "total = total + loss\ntotal.backward()\ntotal = 0.0\n",
    "summed": "total = 0\ntotal += loss\ntotal += net(x).abs().sum()\ntotal.backward()\n",
    "weighted": "first = w.sum()\nboth = 0.5 * first + loss / 3\nscaler.scale(both).backward()\n",
    "averaged": "loss.mean().backward()\n",
}
"""What walks a loss, and nothing that conditions choose otherwise."""
PREPARED = (
    "from accelerate import Accelerator\n\nacc = Accelerator()\nscaler = torch.amp.GradScaler('cpu')\ntotal = 0.0\n"
)
ENDLESS = {
    "TAPE403": "loss.backward()\nopt.step()\n",
    "TAPE301": "opt.zero_grad()\nloss.backward(retain_graph=True)\nopt.step()\n",
}


def _adding(draw: random.Random, count: int, forms: tuple[str, ...], loss: str, tail: str) -> str:
    tests = (draw.choice(("", "not ")) + draw.choice(("cfg.a{n}", "ask({n})", "cfg.n{n} > 2")) for _ in range(count))
    added = "".join(draw.choice(forms).format(test=test.format(n=n)) for n, test in enumerate(tests))
    loop = "".join(f"    {line}\n" for line in f"{loss}{added}{tail}".splitlines())
    return f"import torch\nfrom hidden import ask, cfg, load\n\n{MADE}for x in load():\n{loop}"


@pytest.mark.parametrize("fault", ENDLESS)
def test_what_is_added_to_a_loss_leaves_it_certain(fault: str) -> None:
    """Whatever is added to a loss, all of it is walked, and nothing clears or walks it again."""
    draw = random.Random(fault)
    for count in (6, 8, 12):
        program = _adding(draw, count, ADDED, "loss = net(x).pow(2).mean()\n", ENDLESS[fault]).replace(*VISIBLE)
        assert _is_certain(program, fault), program


@pytest.mark.parametrize("walk", WALKED)
def test_however_a_loss_is_walked(walk: str) -> None:
    """Scaled, summed up or given to what walks it: all of it is walked."""
    draw = random.Random(walk)
    for count in (6, 9):
        program = _adding(draw, count, ADDED, "loss = net(x).pow(2).mean()\n", f"{WALKED[walk]}opt.step()\n")
        program = program.replace("import torch\n", f"import torch\n{PREPARED}", 1)
        assert _is_certain(program, "TAPE403"), program


CHOOSES = (
    "table[loss].backward()\n",
    "take(loss).backward()\n",
    "total = 0\ntotal = total + loss\npicked(total).backward()\n",
    "for _ in range(loss):\n    other.backward()\n",
    "other = net(x).sum() + loss\nif loss >= 4:\n    opt.zero_grad()\nother.backward()\n",
    "count = loss\nother = net(x).sum() + count\nif count >= 4:\n    opt.zero_grad()\nother.backward()\n",
)
"""What a number chooses that conditions add to, as they would to a loss."""


@pytest.mark.parametrize("chooses", CHOOSES)
def test_what_is_counted_may_choose_what_is_walked(chooses: str) -> None:
    draw = random.Random(chooses)
    form = ("if {test}:\n    loss = loss + 1\n",)
    made = "other = net(x).sum()\ntable = [other, other, other, other, w.sum() * 2]\n"
    program = _adding(draw, 4, form, f"loss = 0\n{made}", f"{chooses}opt.step()\n")
    functions = (
        "def take(n):\n    if n > 3:\n        opt.zero_grad()\n    return net(x).sum()\n\n\n"
        "def picked(n):\n    return take(n)\n\n\n"
    )
    program = program.replace("for x in load", f"{functions}for x in load", 1)
    assert not _is_certain(program, "TAPE403"), program


def test_what_nothing_may_be_added_to() -> None:
    """Where none of the conditions adds what the optimizer steps, its gradients are not stale."""
    draw = random.Random("none")
    form = ("if {test}:\n    loss = loss + net(x).sum()\n",)
    for count in (3, 5, 9):
        program = _adding(draw, count, form, "loss = w.sum()\n", ENDLESS["TAPE403"])
        assert not _is_certain(program, "TAPE403"), program


def test_what_is_counted_is_not_added_to_a_loss() -> None:
    """What adds to a number chooses what a test of it asks."""
    draw = random.Random("counted")
    form = ("if {test}:\n    loss = loss + 1\n",)
    clears = "if loss >= 4:\n    opt.zero_grad()\nnet(x).sum().backward()\nopt.step()\n"
    assert not _is_certain(_adding(draw, 4, form, "loss = 0\n", clears), "TAPE403")


def test_conditions_that_were_not_tried_together_are_told() -> None:
    """A note that the work limit was reached is about lines that ask something."""
    functions, code = _choosing(random.Random("told"), "TAPE403", 9)
    program = f"import torch\n{functions}{code}"
    (found,) = (one for one in check(from_text(program, "train.py")).findings if one.code == "TAPE403")
    asking = {number for number, line in enumerate(program.splitlines(), 1) if "a0" in line or "n0" in line}
    told = re.search(r"other answers on lines (\d+) to (\d+) together", " ".join(found.notes))
    assert told and any(int(told[1]) <= number <= int(told[2]) for number in asking), found.notes
    assert "zero_grad" not in program.splitlines()[int(told[2]) - 1]


@pytest.mark.parametrize("chosen", ["[opt2, opt][num(1)]", "[opt, opt2][num]", "opts[ask(1)]", "opts[cfg.which]"])
def test_an_index_that_nobody_knows_chooses_of_a_list(chosen: str) -> None:
    program = (
        f"import torch\nfrom hidden import ask, cfg, load, num\n\n{MADE}opts = [opt2, opt]\n"
        f"for x in load():\n    {chosen}.zero_grad()\n    net(x).sum().backward()\n    opt.step()\n"
    )
    assert not _is_certain(program, "TAPE403")


@pytest.mark.parametrize(
    "chosen", ["(spare, kept)[num]", "[kept, spare][ask(1)]", "{'a': spare, 'b': kept}[cfg.which]"]
)
@pytest.mark.parametrize("inside", [True, False])
def test_an_index_that_nobody_knows_chooses_of_containers(chosen: str, inside: bool) -> None:
    store = f"store = {chosen}\n"
    program = (
        f"import torch\nfrom hidden import ask, cfg, load, num\n\n{MADE}{'' if inside else store}for x in load():\n"
        f"    kept.append(net(x))\n{f'    {store}' if inside else ''}    store.clear()\n"
    )
    assert not _is_certain(program, "TAPE201")
