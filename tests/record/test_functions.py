"""What functions keep between their calls: defaults, attributes, and caches of them under any name."""

from __future__ import annotations

import gc
import textwrap
import weakref
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from tests.cases.recorded import record_all

_PROGRAM = """
import functools

import torch

net = torch.nn.Linear(3, 3)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)


def handed_on(function):
    @functools.wraps(function)
    def wrapper(*args, **named):
        return function(*args, **named)

    return wrapper

{keeper}

for step in range(9):
    loss = net(torch.randn(4, 3)).pow(2).mean()
    optimizer.zero_grad()
    {use}
    loss.backward()
    optimizer.step()
    SEEN
"""
_KEEPERS = {
    "default": ("def keep(x, rows=[]):\n    rows.append(x)\n", "keep({x})"),
    "default of many": ("def keep(x, scale=1, rows={}, *more):\n    rows[len(rows)] = x\n", "keep({x})"),
    "keyword": ("def keep(x, *, rows=[]):\n    rows.append(x)\n", "keep({x})"),
    "positional": ("def keep(x, rows=[], /):\n    rows.append(x)\n", "keep({x})"),
    "wrapped": ("@handed_on\ndef keep(x, rows=[]):\n    rows.append(x)\n", "keep({x})"),
    "attribute": ("def keep(x):\n    keep.rows.append(x)\n\n\nkeep.rows = []\n", "keep({x})"),
    "method": ("class Log:\n    def keep(self, x, rows=[]):\n        rows.append(x)\n", "Log().keep({x})"),
    "static": ("class Log:\n    @staticmethod\n    def keep(x, rows=[]):\n        rows.append(x)\n", "Log.keep({x})"),
    "cache": ("@functools.lru_cache(maxsize=None)\ndef of(i, x):\n    return x * i\n", "of(step, {x})"),
    "static cache": (
        "class Rows:\n    @staticmethod\n    @functools.lru_cache(None)\n    def of(i, x):\n        return x * i\n",
        "Rows.of(step, {x})",
    ),
    "class cache": (
        "class Rows:\n    @classmethod\n    @functools.cache\n    def of(cls, i, x):\n        return x * i\n",
        "Rows.of(step, {x})",
    ),
    "inherited cache": (
        "class Base:\n    @staticmethod\n    @functools.cache\n    def of(i, x): return x * i\nclass Rows(Base): ...\n",
        "Rows().of(step, {x})",
    ),
}


def _is_kept(text: str) -> bool:
    """Return whether the losses of the first iterations are alive at the end, together with their graphs."""
    seen: list[Any] = []
    names: dict[str, Any] = {"note": lambda loss: seen.append(weakref.ref(loss))}
    exec(text.replace("SEEN", "note(loss)"), names)
    gc.collect()
    return any(one() is not None and one().grad_fn is not None for one in seen[:5])


def test_what_a_function_keeps_is_found_and_confirmed(tmp_path: Path) -> None:
    paths, expected = [], {}
    for number, (kind, (keeper, use)) in enumerate(_KEEPERS.items()):
        for what in ("loss", "loss.detach()"):
            text = _PROGRAM.format(keeper=keeper, use=use.format(x=what))
            path = tmp_path / f"{number}{'d' if 'detach' in what else ''}.py"
            path.write_text(textwrap.dedent(text).replace("SEEN", "pass"))
            paths.append(path)
            expected[path] = _is_kept(text), kind
    assert {kept for kept, _ in expected.values()} == {True, False}
    for alone in (True, False):
        for recorded in record_all(paths, alone=alone):
            kept, kind = expected[recorded.program]
            found = [one for one in recorded.findings if one.code == "TAPE201"]
            said = {one.evidence.verdict if one.evidence is not None else "" for one in found}
            wanted = ({"found-by-run"}, {"found-by-run"} if alone else {"confirmed"}) if kept else (set(),)
            assert said in wanted, (kind, alone, said)
