"""A term without graph is told from a number that a sum begins with or that is added to it (TAPE407)."""

from __future__ import annotations

import dataclasses
import random
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from tapecheck.check import check
from tapecheck.record import RunResult
from tapecheck.record.evidence import judge, lines_of
from tapecheck.rules import Finding
from tapecheck.source import from_text

_HEAD = """\
import functools
import operator

import torch

net = torch.nn.Linear(3, 2)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)


def cut(value):
    return value{how}


def total(terms):
    result = 0
    for term in terms:
        result = result + term
    return result

"""
_LOOP = """
for step in range(3):
    out = net(torch.randn(5, 3))
    a = out.pow(2).mean()
    b = {cut}((out - 1).abs().mean())
    c = out.sigmoid().mean()
    d = out.exp().mean()
{body}
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
_FORMS = (
    "loss = {w}sum([{row}]){more}",
    "loss = sum(({row}), {zero}){more}",
    "loss = sum([{row}], start={zero})",
    "terms = [{row}]\nloss = {w}sum(terms){more}",
    "loss = sum(t for t in [{row}]){more}",
    "loss = sum(w * t for w, t in zip((0.1, 0.2, 0.3, 0.4), [{row}])){more}",
    "loss = sum([t * 0.5 for t in ({row})])",
    "terms = dict(enumerate([{row}]))\nloss = sum(terms.values()) / len(terms)",
    "loss = {zero}\nfor term in ({row}):\n    loss = loss + term",
    "loss = {zero}\nfor term in ({row}):\n    loss += {w}term",
    "loss = {zero}\nfor term in ({row}):\n    loss = term + loss",
    "loss = torch.zeros(())\nfor term in ({row}):\n    loss = loss + term",
    "loss = functools.reduce(operator.add, [{row}]){more}",
    "loss = functools.reduce(lambda s, t: s + t, [{row}], {zero})",
    "loss = total([{row}]){more}",
    "loss = {first} + sum([{rest}]){more}",
    "loss = sum([{rest}]) + {first}",
    "loss = sum([{row}]) + sum([{rest}])",
    "loss = sum(sum(group) for group in [[{first}], [{rest}]])",
    "loss = sum(map(lambda t: {w}t, [{row}]))",
    "loss = {plain}{more}",
    "loss = {zero}\nloss += {first}\nloss += sum([{rest}])",
)


def _bodies(seed: int) -> list[str]:
    choose = random.Random(seed)
    found = []
    for form in _FORMS:
        names = [*choose.sample("acd", choose.randint(1, 3)), "b"]
        choose.shuffle(names)
        found.append(
            form.format(
                row=", ".join(names), first=names[0], rest=", ".join(names[1:]), plain=" + ".join(names),
                zero=choose.choice(("0", "0.0")), w=choose.choice(("", "0.5 * ")), more=choose.choice(("", " + 1e-8")),
            )
        )  # fmt: skip
    return found


def _program(bodies: list[str], how: str, *, cut: bool) -> str:
    loops = [_LOOP.format(cut="cut" if cut else "", body=textwrap.indent(body, "    ")) for body in bodies]
    return _HEAD.format(how=how) + "".join(loops)


def _has_effect(body: str, how: str, *, cut: bool) -> bool:
    """Return whether torch gives a term a gradient."""
    names: dict[str, Any] = {"torch": torch}
    exec(_HEAD.format(how=how), names)
    leaves = {name: torch.tensor(0.5, requires_grad=True) for name in "abcd"}
    names.update({name: leaf * 2 for name, leaf in leaves.items()})
    if cut:
        names["b"] = names["cut"](names["b"])
    exec(body, names)
    if not names["loss"].requires_grad:
        return False
    names["loss"].backward()
    return leaves["b"].grad is not None


def _at(findings: list[Finding], file: str) -> list[Finding]:
    return [
        dataclasses.replace(one, span=dataclasses.replace(one.span, file=file))
        for one in findings
        if one.code == "TAPE407"
    ]


@pytest.mark.parametrize("how", [".detach() * 1.0", ".item()", ".gt(0.5).float()"])
@pytest.mark.parametrize("seed", [1, 2])
def test_what_a_sum_begins_with_is_no_term(
    record: Callable[..., RunResult], tmp_path: Path, how: str, seed: int
) -> None:
    bodies = _bodies(seed)
    broken = _program(bodies, how, cut=True)
    script = str(tmp_path / "script.py")
    findings = _at(check(from_text(broken, script)).findings, script)
    decided = every = 0
    for text, cut in ((broken, True), (_program(bodies, how, cut=False), False)):
        result = record(text, watch=lines_of(findings), timeout=100)
        judged = [one for one in judge(findings, result.tape, directory=str(tmp_path)) if one.code == "TAPE407"]
        starts = [number for number, row in enumerate(text.splitlines(), 1) if row.startswith("for step")]
        for one in judged:
            loop = sum(start <= one.span.line for start in starts) - 1
            if loop < 0:
                # A function's own line: the loop that calls it is the one of its form.
                loop = next(number for number, body in enumerate(bodies) if "total(" in body)
            expected = "refuted" if _has_effect(bodies[loop], how, cut=cut) else "confirmed"
            said = one.evidence.verdict if one.evidence is not None else ""
            assert said in ("", expected), (bodies[loop], cut, one.evidence)
            every, decided = every + 1, decided + bool(said)
    assert every > len(bodies)
    assert decided >= 0.6 * every, (decided, every)


_CHANGED = """\
import torch

net = torch.nn.Linear(3, 2)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)


class Part:
    def add(self, value):
        self.extra = value


def add(value):
    global extra
    extra = value


extra = 0
part = Part()
part.extra = 0

for step in range(3):
    out = net(torch.randn(5, 3))
    b = out.sigmoid().mean()
    part.extra = 0
    {before}
    for again in range(2):
        loss = out.pow(2).mean() + {extra}
        {after}
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("extra", "before", "after"),
    [
        ("extra", "pass", "extra = b.detach()"),
        ("extra", "pass", "extra, other = b.detach(), 1"),
        ("extra", "add(b.detach())", "pass"),
        ("part.extra", "pass", "part.extra = b.detach()"),
        ("part.extra", "part.add(b.detach())", "pass"),
    ],
)
def test_what_was_a_number_once_may_be_a_term_without_graph(
    record: Callable[..., RunResult], tmp_path: Path, extra: str, before: str, after: str
) -> None:
    text = _CHANGED.format(extra=extra, before=before, after=after)
    line = next(number for number, row in enumerate(text.splitlines(), 1) if row.lstrip().startswith("loss ="))
    script = str(tmp_path / "script.py")
    lost = next(iter(_at(check(from_text(_program(["loss = a + b"], ".detach()", cut=True), script)).findings, script)))
    finding = dataclasses.replace(lost, span=dataclasses.replace(lost.span, line=line, end_line=line))
    result = record(text, watch=lines_of([finding]), timeout=100)
    (judged,) = (one for one in judge([finding], result.tape, directory=str(tmp_path)) if one.code == "TAPE407")
    assert judged.evidence is None or judged.evidence.verdict != "refuted"
