"""Which op of torch a call is, by the text alone."""

from __future__ import annotations

import ast

from tapecheck import torchfacts
from tapecheck.fixes.code import Code
from tapecheck.source.nodes import attr_of
from tapecheck.torchfacts import OpFact


def op_called(code: Code, call: ast.Call, *, whole: bool = False) -> OpFact | None:
    """Return the op that a call is by its path in torch, or as a method of what nobody knows; None for others.

    An op is known by the last part of its path, so that `F.relu` is `relu`; with `whole` by all of it, where that is an
    op itself.
    """
    path, facts = code.path(call.func), torchfacts.load()
    if not path:
        name = attr_of(call.func)
        return facts.op(name) if name else None
    if not path.startswith("torch."):
        return None
    found = facts.op(path.removeprefix("torch.")) if whole else None
    return found or facts.op(path.rpartition(".")[2])
