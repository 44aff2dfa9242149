"""Which op of torch a call is, by the text alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache

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


def hands_back(node: str) -> bool:
    """Return whether a node, by its name on a tape, may be of a value that shares memory with what it was computed
    from: as a view, or because a module gives back what it is given in another mode.
    """
    facts = torchfacts.load()
    module = facts.module(node)
    if module is not None:
        return any(shares_memory(fact) for mode in (module.train, module.eval) for fact in _cases(mode))
    # What may have one of several nodes goes by the name of its op.
    op = facts.op(node)
    return node in _sharing(facts) if op is None else any(map(shares_memory, _cases(op)))


@lru_cache(maxsize=4)
def _sharing(facts: torchfacts.Facts) -> frozenset[str]:
    """Return the nodes of views, and those of modules that in another mode give back what they are given."""
    known = [op for name in facts.op_names() if (op := facts.op(name)) is not None]
    found = {node for op in known for fact in _cases(op) if shares_memory(fact) for node in fact.nodes[:1]}
    for module in filter(None, map(facts.module, facts.module_names())):
        modes = [*_cases(module.train), *_cases(module.eval)]
        if any(map(shares_memory, modes)):
            found |= {node for fact in modes for node in fact.nodes[:1]}
    return frozenset(found)


def _cases(fact: OpFact) -> Iterator[OpFact]:
    """Yield what an op does by its options, without those by which it changes what it is given."""
    cases = (case for overload in fact.overloads for _, case in overload.cases)
    yield from (case for case in cases if not case.writing.mutates)


def shares_memory(fact: OpFact) -> bool:
    """Return whether an op gives back what it is given, or a view of it."""
    return fact.aliasing.view != "no" or fact.aliasing.returns_input != "no"


def may_write(fact: OpFact) -> bool:
    """Return whether an op changes what it is given, or does with some options."""
    return bool(fact.writing.mutates or fact.writing.may_mutate)
