"""A run that went on after a backward has walked all of its graph, whatever the versions of tensors seem to be."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path

from tapecheck.check import check
from tapecheck.record import RunResult, judge
from tapecheck.source import from_text

CHAIN = """
    import torch
    import torch.nn.functional as F

    w, state = torch.ones(3, requires_grad=True), torch.zeros(3)
    for step in range(6):
        x = w * 2
        x = F.relu_(x)
        state = torch.tanh(x + state)
        state.sum().backward(retain_graph=True)
"""


def test_a_chain_through_a_change_in_place_grows(record: Callable[..., RunResult], tmp_path: Path) -> None:
    text = textwrap.dedent(CHAIN).lstrip()
    (finding,) = (one for one in check(from_text(text, "script.py")).findings if one.code == "TAPE202")
    watch = {(str(tmp_path / "script.py"), finding.span.line)}
    judged = judge([finding], record(text, watch=watch).tape, directory=str(tmp_path))
    (mine,) = (one for one in judged if one.code == "TAPE202")
    assert mine.evidence is not None and mine.evidence.verdict == "confirmed"
