"""What a program says does not become a link or an element in an editor's hover."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from tests.soak.wire import Wire

EVIL = "x](command:evil) <img src=x onerror=evil()> [y](javascript:evil) ``` `"
PROGRAM = f"""\
import torch
from torch import nn

nets = {{{EVIL!r}: nn.Linear(2, 1), "plain": nn.Linear(2, 1)}}
optimizer = torch.optim.SGD(nets[{EVIL!r}].parameters(), lr=0.1)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleDict({{{EVIL!r}: nn.Linear(2, 1)}})
        self.register_parameter({EVIL!r}, nn.Parameter(torch.ones(3)))
    def forward(self, x):
        return self.parts[{EVIL!r}](x)
net = Net()
loss = net(torch.ones(4, 2)).sum() + nets[{EVIL!r}](torch.ones(4, 2)).sum()
loss.backward()
loss.backward()
optimizer.step()
torch.optim.SGD(net.parameters(), lr=0.1).step()
"""
# Fences first: within one, a single backtick ends nothing.
CODE = re.compile(r"(?ms)^ *(`{3,})[^\n]*\n.*?^ *\1 *$|(`+)(?!`)[^\n]*?(?<!`)\2(?!`)")


def rendered(markdown: str) -> str:
    """Return what of markdown an editor takes for markup: all that is no code, and not escaped."""
    return re.sub(r"\\[^\w\s]", "", CODE.sub("", markdown))


def texts(value: Any) -> list[str]:
    """Return the texts of markup in an answer."""
    if isinstance(value, dict):
        own = [value["value"]] if value.get("kind") == "markdown" else []
        return [*own, *(text for inner in value.values() for text in texts(inner))]
    return [text for inner in value for text in texts(inner)] if isinstance(value, list) else []


def test_a_program_s_own_text_is_no_markup(tmp_path: Path) -> None:
    uri = (tmp_path / "train.py").as_uri()
    document = {"textDocument": {"uri": uri}}
    with Wire(tmp_path) as wire:
        wire.start()
        wire.open(uri, PROGRAM)
        asked = [
            wire.request("textDocument/hover", {**document, "position": {"line": number, "character": found.start()}})
            for number, line in enumerate(PROGRAM.split("\n"))
            for found in re.finditer(r"\w+", line)
        ]
        last = {"line": PROGRAM.count("\n"), "character": 0}
        everything = {"start": {"line": 0, "character": 0}, "end": last}
        asked.append(wire.request("textDocument/inlayHint", {**document, "range": everything}))
        answers = [wire.answer(number)["result"] for number in asked]
        assert wire.end() == 0
    told = texts(answers)
    assert any("onerror" in text for text in told), "the text is shown at all"
    for text in told:
        assert not re.search(r"\]\((?:command|javascript):|<img|onerror", rendered(text)), text
    assert "TAPE101" in json.dumps(answers) or told
