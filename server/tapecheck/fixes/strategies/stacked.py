"""Values that are taken out of their graphs one by one and made a tensor again together: keep and stack them."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator

from tapecheck.fixes.candidate import Candidate, Context
from tapecheck.fixes.code import Code, dotted, last_part
from tapecheck.fixes.edit import Change
from tapecheck.fixes.strategies.cuts import blamed_cuts, is_copying, ways_out
from tapecheck.source.nodes import of_kind

_MOST = 4
"""Calls that are tried: each is checked by a dry run."""
_PLACED = ("dtype", "device")


def stack_values(context: Context) -> Iterator[Candidate]:
    """Yield `rows.append(x)` and `torch.stack(rows)` for `rows.append(x.item())` and `torch.tensor(rows)`."""
    code = context.code
    cuts = [cut for cut in blamed_cuts(context) if cut.how == "item"]
    taken = [way for cut in cuts[:1] for way in itertools.islice(ways_out(code, cut), 1)]
    for call in itertools.islice(_made_of_names(code), _MOST) if taken else ():
        stacked = _stacked(code, call)
        if stacked is not None:
            name = code.segment(call.args[0])
            yield Candidate(
                f"Keep the tensors (line {cuts[0].at.line}), and stack `{name}` on line {call.lineno}",
                "Each value keeps its graph, so that gradients reach what it was computed from.",
                [*taken[0], *stacked],
                group="stacked",
                fallback=True,
            )


def _made_of_names(code: Code) -> Iterator[ast.Call]:
    """Yield the calls that make a tensor of the values that a name, or an attribute, holds."""
    for call in of_kind(code.tree, ast.Call):
        if is_copying(dotted(call.func) or "") and len(call.args) == 1 and dotted(call.args[0]) is not None:
            yield call


def _stacked(code: Code, call: ast.Call) -> list[Change] | None:
    """Return the changes that stack values where a tensor is made of them; None where that is told more of it."""
    if any(keyword.arg not in _PLACED for keyword in call.keywords):
        return None
    torch, needed = code.torch()
    given = ", ".join(code.segment(keyword) for keyword in call.keywords)
    moved = f".to({given})" if given and last_part(call.func) in ("tensor", "as_tensor") else ""
    return [code.replace(call, f"{torch}.stack({code.segment(call.args[0])}){moved}"), *needed]
