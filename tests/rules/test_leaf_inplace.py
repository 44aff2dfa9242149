"""TAPE104 on tapes written by hand."""

from __future__ import annotations

from typing import Any

import pytest

CODE = "TAPE104"


def test_a_leaf_changed_while_autograd_records(build: Any, found: Any) -> None:
    w = build.leaf(1, "w", parameter=False)
    build.change(3, w, "sub_", leaf=w, name="w")
    (finding,) = found(build)
    assert (finding.code, finding.severity, finding.span.line, finding.certain) == (CODE, "error", 3, True)
    assert finding.message == "in-place update of leaf `w` outside `torch.no_grad()`"
    assert "no_grad" in finding.help
    assert [(label.role, label.span.line) for label in finding.labels] == [("built", 1)]


def test_a_view_of_a_parameter(build: Any, found: Any, remarks: Any) -> None:
    bias = build.leaf(1, "head.bias")
    build.change(3, bias, "fill_", leaf=bias, name="bias", on_view=True)
    (finding,) = found(build)
    assert finding.message == "in-place update of a view of leaf `head.bias` outside `torch.no_grad()`"
    assert remarks(finding, "built") == {1: "`head.bias` is created here, a parameter"}


@pytest.mark.parametrize(
    "options", [{"grad_mode": "no"}, {"grad_mode": "may"}, {"bumps": "no"}, {"leaf": None}, {"optimizer": 1}]
)
def test_what_torch_allows_or_nobody_knows(build: Any, found: Any, options: dict[str, Any]) -> None:
    w = build.leaf(1)
    build.change(3, w, "sub_", **{"leaf": w, **options})
    assert found(build, code=CODE) == []


def test_a_way_under_no_grad_makes_it_may(build: Any, another: Any, found: Any) -> None:
    for builder, mode in ((build, "yes"), (other := another(), "no")):
        w = builder.leaf(1, "w")
        builder.change(3, w, "sub_", leaf=w, name="w", grad_mode=mode)
    (finding,) = found(build, other)
    assert finding.certain is False
    assert finding.message == "possible in-place update of leaf `w` outside `torch.no_grad()`"
