"""Operations that give back the very tensor that they are given, where they have nothing to do to it.

What comes back as it is stays a leaf. Where nobody knows whether a leaf does, both are tried.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from tapecheck.interpret.library import precisions
from tapecheck.interpret.library.contract import Torch
from tapecheck.interpret.values import NO_MODEL, Kwargs, Tensor, Value, known_elements, known_int, only_tensors
from tapecheck.torchfacts import OpFact, itself


def given_back(torch: Torch, fact: OpFact, bound: Kwargs, node: ast.AST) -> Value:
    """Return what an op gives back as it was given it; `NO_MODEL` where it makes something new."""
    always = fact.aliasing.returns_input == "yes"
    if itself.hangs_on_others(fact.name):
        given = next(iter(bound.values()))
        return given if sizes_agree(torch, fact.name, [given], node) else NO_MODEL
    if itself.depends(fact.name):
        given, *numbers = bound.values()
        parts = known_elements(given)
        if parts is not None and len(parts) == 1 and fact.result.outputs == "tensor":
            (given,) = parts
        elif parts:
            parts = known_elements(parts[0]) or parts
            return tuple([torch.op(fact.name, [part], {}, node) for part in parts])
        for tensor in only_tensors([given]):
            named = dict(zip(list(bound)[1:], numbers))
            return _alone(torch, fact.name, tensor, named, node, always=always)
    return bound[fact.aliasing.view_of] if always and fact.aliasing.view_of in bound else NO_MODEL


def _alone(torch: Torch, name: str, given: Tensor, beside: Kwargs, node: ast.AST, *, always: bool) -> Value:
    """Return a tensor that comes back for its dimensions or its type."""
    numbers = {key: number for key, value in beside.items() if (number := known_int(value)) is not None}
    if len(numbers) < len(beside):
        return given if _is_chosen(torch, name, given, node, likely=False) else NO_MODEL
    ranks = itself.RANKS if given.rank is None else (given.rank,)
    back = itself.comes_back(name, numbers, ranks, real=precisions.is_real(given))
    if all(back):
        return given
    if not any(back):
        return NO_MODEL
    likely = 2 * sum(back) > len(back)
    if _is_leaf(given):
        return given if _is_chosen(torch, name, given, node, likely=likely) else NO_MODEL
    return given if always else NO_MODEL


def sizes_agree(torch: Torch, name: str, given: Iterable[Value], node: ast.AST) -> bool:
    """Return whether tensors come back, having the sizes that are asked for: with a leaf among them both are tried."""
    leaf = next(filter(_is_leaf, only_tensors(given)), None)
    return leaf is not None and _is_chosen(torch, name, leaf, node, likely=False)


def _is_leaf(given: Tensor) -> bool:
    return given.is_leaf and given.node is not None and given.graph == "yes"


def _is_chosen(torch: Torch, name: str, given: Tensor, node: ast.AST, *, likely: bool) -> bool:
    """Whether a leaf comes back: tried both ways."""
    said = f"`{name}` gives {given.name or 'the tensor'} back as it is"
    return _is_leaf(given) and torch.world.choices.choose(node, likely, said)
