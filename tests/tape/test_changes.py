"""The kind of a change is read off its name in one place."""

from __future__ import annotations

import pytest

from tapecheck.tape import GradientRead, InPlace, Site, Span, change_kind

KINDS = {
    "limit": ["clamp", "clamp_", "data.clamp_", "clip", "clip_grad_norm_", "nan_to_num_"],
    "scale": ["mul_", "data.div_"],
    "add": ["add_", "sub_"],
    "clear": ["zero_", "data.zero_", "zero_grad"],
    "part": ["setitem", "setitem.int", "setitem.tuple", "data.setitem"],
    "statement": ["in-place statement", "update of running_mean"],
    "other": ["", "relu_", "optimizer.step", "norm", "zero_point_"],
}


@pytest.mark.parametrize(("kind", "how"), [(kind, how) for kind, names in KINDS.items() for how in names])
def test_kind_of_a_change(kind: str, how: str) -> None:
    assert change_kind(how) == kind


def test_events_know_their_kind() -> None:
    at = Site(Span("a.py", 1, 1, 1, 2))
    assert InPlace(at, 1, "data.mul_").kind == "scale"
    assert GradientRead(at, 1, "clip_grad_norm_").kind == "limit"
