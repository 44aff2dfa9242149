"""Every form of the generator by itself, in the few programs that tell what it saves, frees and changes.

    python -m tests.differential.sweep                  # all of them, some thousands; a few minutes
    python -m tests.differential.sweep cdist LSTM       # forms whose text holds one of these

Random programs hold a form now and then; here each is asked for a second backward, for changes of its inputs and its
result between forward and backward, and for a gradient of its gradient, with inputs that require grad and constants.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.differential import compare, forms
from tests.differential.truth import Outcome, Truth

PRELUDE = """\
import copy
import torch
import torch.nn.functional as F
from torch import nn
from torch.autograd import Variable
torch.manual_seed(0)
labels = torch.tensor([0, 1, 2, 3])
criterion = nn.MSELoss()
ref_data = torch.rand(4, 4)
w = torch.rand(4, 4, requires_grad=True)
v = torch.rand(4, 4, requires_grad=True)
"""
INPUTS = "a = w + 0\nb = v + 0\n"


@dataclass(frozen=True, slots=True)
class Case:
    """One program: the form it is about, what it asks, its text."""

    form: str
    question: str
    text: str


def _put(form: str, first: str, second: str = "b") -> str:
    return form.replace("{0}", first).replace("{1}", second)


def _expression(form: str, scalar: bool) -> Iterator[tuple[str, str]]:
    y, total = _put(form, "a"), "" if scalar else ".sum()"
    backward = f"y{total}.backward()\n"
    change = "with torch.no_grad(): {}.mul_(2)\n"
    gradient = "g = torch.autograd.grad({}, a, create_graph=True)[0]\n"
    yield "twice", f"{INPUTS}y = {y}\n{backward}{backward}"
    if not scalar:
        yield "result changed", f"{INPUTS}y = {y}\nz = y + 0\ny.mul_(2)\nz.sum().backward()\n"
    yield "first changed", f"{INPUTS}y = {y}\n{change.format('a')}{backward}"
    if "{1}" in form:
        for constant in ("a", "b"):
            given = f"{INPUTS}{constant} = {constant}.detach()\ny = {y}\n"
            yield f"{constant} constant, twice", given + backward + backward
            for name in ("a", "b"):
                yield f"{constant} constant, {name} changed", given + change.format(name) + backward
        yield "second changed", f"{INPUTS}y = {y}\n{change.format('b')}{backward}"
    once = gradient.format("y" + total)
    yield "gradient of the gradient", f"{INPUTS}y = {y}\n{once}g.sum().backward()\n{backward}"
    chained = gradient.format("(y * y).sum()")
    yield "chained", f"{INPUTS}y = {y}\n{chained}g.pow(2).sum().backward()\ny.sum().backward()\n"
    yield "gradient, first changed", f"{INPUTS}y = {y}\n{once}{change.format('a')}(g.sum() + w.sum()).backward()\n"


def _layer(constructor: str, call: str) -> Iterator[tuple[str, str]]:
    def on(name: str) -> str:
        return call.replace("{m}", "m").replace("{0}", name)

    parameters = "" if constructor in forms.ACTIVATIONS else "opt = torch.optim.SGD(m.parameters(), lr=0.1)\n"
    step = "opt.step()\n" if parameters else ""
    made = f"m = {constructor}\n{parameters}a = w + 0\n"
    backward = "y.sum().backward()\n"
    for what, name in (("input", "a"), ("data", "ref_data")):
        y = f"{made}y = {on(name)}\n"
        yield f"{what}, twice", y + backward + backward
        yield f"{what}, stepped", f"{y}y.sum().backward(retain_graph=True)\n{step}{backward}"
        yield f"{what}, result changed", f"{y}z = y + 0\ny.mul_(2)\nz.sum().backward()\n"
        yield f"{what}, two forwards", f"{y}z = {on(name)}\n(y + z).sum().backward()\n"
    y = f"{made}y = {on('a')}\n"
    yield "input changed", f"{y}with torch.no_grad(): a.mul_(2)\n{backward}"
    gradient = "g = torch.autograd.grad({}, a, create_graph=True)[0]\n"
    yield "gradient of the gradient", f"{y}{gradient.format('y.sum()')}g.sum().backward()\n{backward}"
    yield "chained", f"{y}{gradient.format('(y * y).sum()')}g.pow(2).sum().backward()\n{backward}"
    if parameters:
        grads = "gs = torch.autograd.grad(y.pow(2).sum(), list(m.parameters()), create_graph=True)\n"
        yield (
            "of parameters",
            f"{made}y = {on('ref_data')}\n{grads}sum(g.pow(2).sum() for g in gs).backward()\n{backward}",
        )
    yield "eval", f"{made}m.eval()\ny = {on('a')}\nz = {on('a')}\n{backward}{step}z.sum().backward()\n"
    frozen = f"{made}m.requires_grad_(False)\n"
    yield "frozen", f"{frozen}y = {on('a')}\n{backward}{backward}"
    yield "frozen on data", f"{frozen}y = {on('ref_data')}\n{backward}"
    yield "without grad", f"{made}with torch.no_grad():\n    y = {on('a')}\n{backward}"


def _in_place(form: str) -> Iterator[tuple[str, str]]:
    start = "h = w + 0\nb = v + 0\n"
    twice = "h.sum().backward()\nh.sum().backward()\n"
    yield "a leaf", _put(form, "w", "ref_data") + "\n"
    yield (
        "a leaf without grad",
        f"y = (w * w).sum()\nwith torch.no_grad():\n    {_put(form, 'w', 'ref_data')}\ny.backward()\n",
    )
    yield "data", f"d = torch.rand(4, 4)\n{_put(form, 'd', 'ref_data')}\nd.sum().backward()\n"
    yield (
        "data from a graph",
        f"{start}d = torch.rand(4, 4)\n{_put(form, 'd')}\nd.sum().backward()\nd.sum().backward()\n",
    )
    yield "a saved result", f"{start}y = h.exp()\nz = y + 0\n{_put(form, 'y')}\nz.sum().backward()\n"
    yield "a saved input", f"{start}z = h * h\n{_put(form, 'h')}\nz.sum().backward()\n"
    yield "twice", f"{start}{_put(form, 'h')}\n{twice}"
    yield "by itself", f"{start}{_put(form, 'h', 'h')}\nh.sum().backward()\n"
    yield "its operand changed", f"{start}{_put(form, 'h')}\nwith torch.no_grad(): b.mul_(2)\nh.sum().backward()\n"
    yield (
        "without grad",
        f"{start}z = h * h\nwith torch.no_grad():\n    {_put(form, 'h')}\nh.sum().backward()\nz.sum().backward()\n",
    )
    yield "a view before", f"{start}u = h[:2]\n{_put(form, 'h')}\nu.sum().backward()\nu.sum().backward()\n"
    yield "through a view", f"{start}u = h.view(4, 4)\n{_put(form, 'u')}\n{twice}"
    gradient = "g = torch.autograd.grad((h * h).sum(), [w, v], create_graph=True, allow_unused=True)\n"
    yield "gradient", f"{start}{_put(form, 'h')}\n{gradient}sum(x.sum() for x in g if x is not None).backward()\n"


def cases() -> Iterator[Case]:
    """All programs."""
    for form in dict.fromkeys((*forms.UNARY, *forms.BINARY, *forms.DETACH, *forms.REDUCE, *forms.COMPARE)):
        scalar = form in forms.REDUCE or form in forms.COMPARE
        for question, text in _expression(form, scalar):
            yield Case(form, question, PRELUDE + text)
    for constructor, call in (*forms.LAYERS, *((activation, "{m}({0})") for activation in forms.ACTIVATIONS)):
        for question, text in _layer(constructor, call):
            yield Case(f"{constructor}: {call}", question, PRELUDE + text)
    for form in dict.fromkeys((*forms.IN_PLACE, *forms.SILENT_IN_PLACE)):
        for question, text in _in_place(form):
            yield Case(form, question, PRELUDE + text)


def judge(case: Case, truth: Truth) -> tuple[str, Outcome, compare.Verdict]:
    """How the dry run stands to torch on one program: also "discarded", and "warned" for a needless "may"."""
    outcome = truth.run(case.text)
    if outcome.kind == "other":
        return "discarded", outcome, compare.Verdict(None, None)
    verdict = compare.predict(case.text)
    answer = compare.judge(outcome, verdict)
    if answer == "agree" and outcome.kind is None and verdict.possible:
        answer = "warned"
    return answer, outcome, verdict


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.differential.sweep", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("forms", nargs="*", help="parts of the texts of forms; all where none is given")
    parser.add_argument("--cache", type=Path, help="folder that keeps the outcomes under torch for the next time")
    options = parser.parse_args()
    found = Counter[str]()
    with Truth(cache=options.cache) as truth:
        for case in cases():
            if options.forms and not any(part in case.form for part in options.forms):
                continue
            answer, outcome, verdict = judge(case, truth)
            found[answer] += 1
            if answer not in ("agree", "discarded"):
                print(
                    f"{answer}: {case.form} | {case.question} | torch {outcome.kind} at {outcome.line}, "
                    f"dry run {verdict.kind} at {verdict.line}, may {sorted(verdict.possible)}",
                    flush=True,
                )
    judged = found.total() - found["discarded"]
    print(f"{judged} programs, {found['agree'] / max(judged, 1):.4f} agree: {dict(found)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
