"""Unknown values: what is asked of one is remembered, so that the same question gets the same answer."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from tapecheck.interpret.equality import hashable
from tapecheck.interpret.values import CONSTANTS, Unknown, Value

if TYPE_CHECKING:
    from tapecheck.interpret.machine import Machine

LOOP_BOUND = 3
"""The number of elements settled on for an iterable whose length nobody knows."""


def attribute_of_unknown(owner: Unknown, name: str) -> Value:
    """An attribute of an unknown value: asked twice it is the same unknown. It shares the owner's graph."""
    if owner.attrs is None:
        owner.attrs = {}
    if name not in owner.attrs:
        child = Unknown(f"{owner.name}.{name}" if owner.name else name, owner.node, owner.cuts)
        child.oldest = owner.oldest
        child.data = owner.data
        child.certain = owner.certain
        child.owner, child.attr = owner, name
        owner.attrs[name] = child
    return owner.attrs[name]


def item_of_unknown(owner: Unknown, index: Value) -> Value:
    """An item of an unknown value; the same for the same constant index."""
    key = hashable(index)
    if owner.items is None:
        owner.items = {}
    if key not in owner.items:
        child = Unknown(f"{owner.name}[...]", owner.node, owner.cuts)
        child.oldest = owner.oldest
        child.data = owner.data
        child.certain = owner.certain
        if not isinstance(index, CONSTANTS):
            return child
        owner.items[key] = child
    return owner.items[key]


def settled(value: Unknown, answer: bool) -> None:
    """An equality test came out true: the unknown has that value from now on."""
    if answer and value.attrs and "__equal__" in value.attrs:
        owner, constant = value.attrs["__equal__"]
        if isinstance(owner, Unknown) and constant is not None and owner.concrete is None:
            owner.concrete = constant


def bound_length(value: Unknown) -> int:
    """Settle on a length for an unknown iterable or number."""
    if isinstance(value.concrete, int):
        return value.concrete
    if value.concrete is None:
        value.concrete = LOOP_BOUND
    return LOOP_BOUND


def resolved(machine: Machine, value: Value, node: ast.AST) -> Value:
    """The constant that an unknown has been settled on, or that follows from what its parts were settled on."""
    if not isinstance(value, Unknown):
        return value
    if value.concrete is None and value.parts is not None:
        op, left, right = value.parts
        left, right = resolved(machine, left, node), resolved(machine, right, node)
        if isinstance(left, CONSTANTS) and isinstance(right, CONSTANTS):
            result = machine.binary(op, left, right, node)
            if isinstance(result, CONSTANTS):
                value.concrete = result
    return value if value.concrete is None else value.concrete
