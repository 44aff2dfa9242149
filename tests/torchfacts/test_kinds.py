"""Which ops keep whole numbers whole, against the torch that is installed; and what follows for a leaf of them."""

from __future__ import annotations

import importlib.metadata
import json

import pytest

from tapecheck.check import check
from tapecheck.source import from_text
from tapecheck.torchfacts.kinds import keeps_whole
from tools.torchlab.kinds import STORED, measure

WHOLE = (
    "torch.arange(1, 4)",
    "torch.tensor([1, 2, 3])",
    "torch.randint(1, 3, (3,))",
    "torch.ones(3, dtype=torch.long)",
)
CHANGED = (
    "{i}", "{i} * 2", "{i} * 1.5", "1.5 * {i}", "1.0 - {i}", "{i} + 1", "2 * {i}", "2 + {i}", "2 - {i}", "2 ** {i}",
    "5 // {i}", "5 % {i}", "sum([{i}, {i}])", "{i}.sum(dtype=torch.int64)", "torch.bincount({i}, {i} * 0.5)",
    "torch.histc({i}.float())", "torch.randint_like(torch.ones(3), 5)", "torch.randint_like({i}, 5)",
    "{i} / 2", "{i} // 2", "{i} // 1.0",
    "{i} % 1.5",
    "{i} ** 2", "{i} ** 0.5", "2.0 ** {i}", "torch.pow({i}, 0.5)", "{i}.add(1.5)", "torch.mul({i}, 1.5)",
    "{i}.clamp(0, 2)", "{i}.clamp(max=2.0)", "torch.clamp({i}, 0.5)", "{i}.sum()", "{i}.sum() * 1.0", "{i}.sum() / 3",
    "torch.sin({i})", "{i}.exp()", "{i}.sqrt()", "torch.log1p({i})", "torch.erf({i})", "{i}.reciprocal()", "{i}.abs()",
    "torch.where({i} > 1, 1.0, 0.0)", "torch.where({i} > 1, {i}, 0)", "torch.where({i} > 1, {i}, 0.5)",
    "{i}.masked_fill({i} > 1, 1)", "{i}.masked_fill({i} > 1, 1.5)", "({i} > 1) * 0.5", "({i} > 1) * 1", "{i} == 2",
    "{i}[1:]", "{i}[None]", "{i}.view(-1)", "{i}.reshape(3, 1)", "{i}.T", "{i}.repeat(2)", "{i}.cumsum(0)",
    "torch.cat([{i}, {i}])", "torch.stack([{i}, torch.ones(3)])", "{i} @ {i}", "{i}.float()", "{i}.to(torch.float64)",
    "{i}.float().long()", "{i}.double() + 1", "{i}.type(torch.float32)", "{i}.float().argmax() * 1.0",
    "torch.nn.functional.one_hot({i}) * 1.0", "torch.nn.functional.one_hot({i})", "torch.nn.functional.relu({i})",
    "torch.nn.functional.pad({i}, (1, 1))", "{i}.int().view(torch.float32)", "torch.full_like({i}, 1)",
    "torch.zeros_like({i}, dtype=torch.float32)", "torch.randint(0, 3, (3,), dtype=torch.float32)",
    "torch.arange(3, dtype=float)", "torch.full((3,), 1.5)", "torch.full((3,), 1)", "{i}.new_tensor([1.5])",
)  # fmt: skip


def test_what_is_stored_is_what_torch_says() -> None:
    stored = json.loads(STORED.read_text(encoding="utf-8"))
    if importlib.metadata.version("torch").partition("+")[0] != stored["torch"]:
        pytest.skip(f"measured on torch {stored['torch']}")
    assert {**measure(), "torch": stored["torch"]} == stored


def test_what_keeps_whole_numbers() -> None:
    assert keeps_whole("mul", beside_fraction=False) and not keeps_whole("mul", beside_fraction=True)
    assert keeps_whole("masked_fill", beside_fraction=True) and not keeps_whole("sin", beside_fraction=False)


@pytest.mark.parametrize("whole", WHOLE)
def test_a_leaf_is_refused_where_torch_refuses_it(whole: str) -> None:
    """Whole numbers cannot require grad: nothing certain is said where torch makes a leaf of what was made of them."""
    wrong, told, refused = [], 0, 0
    for changed in CHANGED:
        program = f"import torch\nw = ({changed.format(i=whole)}).requires_grad_()\n(w * w).sum().backward()\n"
        found = [finding for finding in check(from_text(program, "program.py")).findings if finding.certain]
        try:
            exec(compile(program, "program.py", "exec"), {})
        except RuntimeError:
            refused += 1
            told += bool(found)
        else:
            wrong += [changed] * bool(found)
    assert not wrong
    assert told >= 0.85 * refused
