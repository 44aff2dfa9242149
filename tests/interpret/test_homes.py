"""What torch defines in one module and hands on in another is the same, whichever name a program has for it."""

from __future__ import annotations

import ast
import random
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from tapecheck.check import check
from tapecheck.source import from_text
from tapecheck.torchfacts import classes
from tools.torchlab.classes import homes

PROGRAMS = sorted((Path(__file__).parents[1] / "cases" / "programs").glob("*.py"))
AS_IMPORTED = {"nn": "torch.nn", "optim": "torch.optim", "F": "torch.nn.functional", "data": "torch.utils.data"}


def _defined_at() -> dict[str, list[str]]:
    found = defaultdict(list)
    for home, public in homes().items():
        # A function may have the name of its module, which is then no longer to be had as an attribute.
        if len({*home.split(".")}) == len(home.split(".")) and public.startswith("torch."):
            found[public].append(home)
    return found


def _written(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name):
            return AS_IMPORTED.get(name, name)
        case ast.Attribute(value=owner, attr=name):
            return f"{_written(owner)}.{name}"
    return ""


def _renamed(text: str, chosen: random.Random) -> Iterator[tuple[ast.Attribute, str]]:
    at = _defined_at()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Attribute) and node.lineno == node.end_lineno and (known := at.get(_written(node))):
            yield node, chosen.choice(known)


@pytest.mark.parametrize("path", random.Random(11).sample(PROGRAMS, 30), ids=lambda path: path.stem)
def test_a_name_from_where_it_is_defined_changes_nothing(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    lines = text.split("\n")
    places = sorted(_renamed(text, random.Random(3)), key=lambda place: place[0].col_offset, reverse=True)
    assert places
    for node, home in places:
        line = lines[node.lineno - 1]
        lines[node.lineno - 1] = line[: node.col_offset] + home + line[node.end_col_offset :]
    before, after = (check(from_text(one, "program.py")).findings for one in (text, "\n".join(lines)))
    assert [(one.code, one.span.line, one.certain) for one in after] == [
        (one.code, one.span.line, one.certain) for one in before
    ]


def test_deprecated_weight_norm_by_its_module() -> None:
    program = """
import torch
from torch import nn
from torch.nn.utils.weight_norm import weight_norm

net = nn.Sequential(weight_norm(nn.Linear(4, 4)), nn.ReLU(), nn.Dropout(0.5, inplace=True), nn.Linear(4, 2))
net(torch.randn(3, 4)).sum().backward()
"""
    found = check(from_text(program, "program.py")).findings
    assert [(one.code, one.certain) for one in found] == [("TAPE102", True)]


def test_a_path_that_is_public_stays() -> None:
    assert classes.public("torch.nn.Linear") == "torch.nn.Linear"
    assert classes.public("torch.nn.utils.weight_norm.weight_norm") == "torch.nn.utils.weight_norm"
