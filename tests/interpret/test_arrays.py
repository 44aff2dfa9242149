"""What functions of numpy make of tensors: torch says where a graph comes through."""

from __future__ import annotations

import pytest

from tapecheck.check import check
from tapecheck.source import from_text

torch = pytest.importorskip("torch")
np = pytest.importorskip("numpy")

NAMES = sorted(
    name
    for name in dir(np)
    if callable(getattr(np, name)) and not name.startswith("_") and not isinstance(getattr(np, name), type)
)
GIVEN = ("x", "x, 0", "x, 1, 0", "x, (1, 0, 2)", "x, (4, 3)", "x, [0]", "x, 0.0, 1.0", "x, x")
PROGRAM = """\
import numpy as np
import torch

x = torch.randn(3, 1, 4, requires_grad=True) * 1
np.{call}.sum().backward()
"""


def _keeps_the_graph(call: str) -> bool:
    x = torch.randn(3, 1, 4, requires_grad=True) * 1
    try:
        made = eval(f"np.{call}", {"np": np, "x": x})
    except Exception:
        return False
    # What has nothing to do gives back what it was given: `rollaxis(x, 0)`.
    return isinstance(made, torch.Tensor) and made.requires_grad and made is not x


@pytest.mark.filterwarnings("ignore")
def test_a_graph_that_comes_through_is_no_missing_one() -> None:
    calls = [f"{name}({given})" for name in NAMES for given in GIVEN]
    kept = [call for call in calls if _keeps_the_graph(call)]
    assert len(kept) >= 4
    for call in kept:
        assert not check(from_text(PROGRAM.format(call=call), "program.py")).findings, call
