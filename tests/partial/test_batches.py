"""What hidden code gives may be parts of one graph: each backward but the last then has to retain it."""

from __future__ import annotations

import contextlib
import io
import sys
import types
from collections.abc import Iterator
from typing import Any

import pytest

from tapecheck.check import check
from tapecheck.source import from_text

torch = pytest.importorskip("torch")

TAKEN = (
    "for x in hidden.rows():",
    "for x in hidden.given:",
    "for n, x in enumerate(hidden.rows()):",
    "for x, n in zip(hidden.rows(), range(3)):",
    "for x in [*hidden.rows()]:",
    "for x in sorted(hidden.rows(), key=len):",
    "rows = iter(hidden.rows())\nfor _ in range(3):\n    x = next(rows)",
    "for n in range(3):\n    x = hidden.given[n]",
    "for n in range(3):\n    x = hidden.rows()[n]",
    "rows = hidden.rows()\nfor n in range(3):\n    x = rows[n]",
    "x = hidden.given[0]\nfor n in range(3):",
    "x = hidden.one\nfor n in range(3):",
    "named = hidden.named()\nfor n in range(3):\n    x = named.get(n)",
    "for n, x in hidden.named().items():",
    "def drawn():\n    yield from hidden.rows()\n\nfor x in drawn():",
    "def drawn():\n    for x in hidden.rows():\n        yield x * 2\n\nfor x in drawn():",
    "class Rows:\n    def __iter__(self):\n        return iter(hidden.rows())\n\nfor x in Rows():",
    "class Rows:\n    def __getitem__(self, n):\n        return hidden.given[n]\n\nfor x in Rows():",
    "import itertools\nfor x in itertools.chain(hidden.rows(), hidden.rows()):",
    "for x in map(lambda x: x + 1, hidden.rows()):",
    "for x in filter(torch.is_tensor, hidden.rows()):",
    "for x in (x[:1] for x in hidden.rows()):",
    "first, *more = hidden.rows()\nfor x in more:",
)
LOADED = (
    "for x in torch.utils.data.DataLoader(hidden.rows(), batch_size=1):",
    "loader = torch.utils.data.DataLoader(hidden.rows())\nfor x in loader:",
    "import hidden_settings\nrate = hidden_settings.rates[0]\nfor x in [torch.ones(1, 2)] * 3:",
)
CODE = """import torch, hidden

net = torch.nn.Linear(2, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
{taken}
    opt.zero_grad()
    net(x).sum().backward(retain_graph=True)
    opt.step()
"""


def _runs(program: str, shared: bool, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Return whether a program runs to its end with this hidden part."""
    weight = torch.ones(2, requires_grad=True)
    rows = torch.ones(3, 1, 2)
    if shared:
        rows = (rows * weight).exp()
    module = types.ModuleType("hidden")
    given = [*rows]
    vars(module).update(rows=lambda: given, given=given, one=given[0], named=lambda: dict(enumerate(given)))
    monkeypatch.setitem(sys.modules, "hidden", module)
    with contextlib.redirect_stdout(io.StringIO()):
        try:
            exec(program, {})
        except RuntimeError as error:
            assert "second time" in str(error), error
            return False
    return True


def _told(program: str) -> Iterator[Any]:
    return (one for one in check(from_text(program, "train.py")).findings if one.code == "TAPE301")


@pytest.mark.parametrize("taken", TAKEN)
def test_what_is_taken_out_of_hidden_code_may_share_a_graph(taken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program = CODE.format(taken=taken)
    dropped = program.replace("retain_graph=True", "")
    assert _runs(program, True, monkeypatch)
    assert _runs(dropped, False, monkeypatch)
    assert not _runs(dropped, True, monkeypatch)
    assert not [one for one in _told(program) if one.certain]


@pytest.mark.parametrize("taken", LOADED)
def test_loaders_of_torch_give_data(taken: str) -> None:
    assert [one.certain for one in _told(CODE.format(taken=taken))] == ["settings" not in taken]
