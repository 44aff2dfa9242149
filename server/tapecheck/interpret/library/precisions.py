"""The types of floating numbers that tensors have, and what conversions give: the tensor itself, or a copy.

A conversion to the type that a tensor has already returns the tensor. Where nobody knows its type, a leaf is tried as
both, data is taken for that of the default type, and the copy of anything else may be the same memory.
"""

from __future__ import annotations

import ast

from tapecheck.interpret.library.contract import Torch
from tapecheck.interpret.state import World
from tapecheck.interpret.values import (
    Args,
    Kwargs,
    Mark,
    Tensor,
    Unknown,
    Value,
    concrete,
    is_constant,
    known_elements,
    known_text,
    path_of,
)

_METHODS = {
    "float32": "float", "float": "float", "float64": "double", "double": "double", "float16": "half", "half": "half",
    "bfloat16": "bfloat16", "FloatTensor": "float", "DoubleTensor": "double", "HalfTensor": "half",
    "BFloat16Tensor": "bfloat16",
}  # fmt: skip
"""The method that gives a type of floating numbers, by the names of the type."""

_COMPLEX = ("complex", "cfloat", "cdouble", "chalf")
_OTHER_TYPES = (*_COMPLEX, "float8", "uint16", "uint32", "uint64")
"""What the names of types begin with that no method gives."""

_OF_DEFAULT_TYPE = frozenset(
    ("FloatTensor", "Tensor", "empty", "eye", "linspace", "logspace", "ones", "rand", "randn", "zeros")
)
"""Factories that give the type set by default, whatever they are given but a type."""


def is_whole(path: str) -> bool:
    """Return whether a type of numbers, by its dotted path or short name, is one of whole numbers."""
    return path.rsplit(".", 1)[-1] in ("long", "int", "int64", "int32", "int16", "int8", "uint8", "bool", "LongTensor")


def wanted(method: str, args: Args, kwargs: Kwargs) -> str | Unknown | None:
    """Return the type of floating numbers that a method of a tensor gives it, by the method that gives it; unknown
    where nobody knows which one is named, None where none is.
    """
    if method in _METHODS.values():
        return method
    for value in (*args, *kwargs.values()):
        if isinstance(value, Tensor):
            return of(value)
        named = ((method == "type" and known_text(value)) or path_of(value)).removeprefix("torch.")
        if named in _METHODS:
            return _METHODS[named]
        if named.startswith(_OTHER_TYPES):
            return named
    asked = kwargs.get("dtype") is not None or kwargs.get("memory_format") is not None
    return Unknown.plain("dtype") if asked or (args and method in ("type", "type_as")) else None


def is_real(tensor: Tensor) -> bool | None:
    """Return whether a tensor holds real numbers; None where nobody knows."""
    known = known_text(tensor.precision())
    if tensor.dtype != "float":
        return True
    return None if known is None else not known.startswith(_COMPLEX)


def is_copied(args: Args, kwargs: Kwargs) -> bool:
    """Whether `Tensor.to` is told to copy."""
    return concrete(kwargs.get("copy")) is True or any(concrete(value) is True for value in args[2:])


def of(tensor: Tensor) -> str | Unknown:
    """Return the type of floating numbers that a tensor has, by the method that gives it; unknown where that is."""
    known = tensor.precision()
    return known if isinstance(known, (str, Unknown)) else Unknown.plain("dtype")


def given(world: World, kwargs: Kwargs) -> str | Unknown:
    """Return the type that is asked for when something new is made, that set by default where none is."""
    kind = kwargs.get("dtype")
    if kind is not None:
        named = path_of(kind).removeprefix("torch.")
        made = named if named.startswith(_OTHER_TYPES) else _METHODS.get(named, Unknown.plain("dtype"))
        world.modes.compiling.unlike |= made != "float" and not is_whole(path_of(kind))
        return made
    return Unknown.plain("dtype") if world.modes.precision_is_set else "float"


def of_factory(torch: Torch, name: str, args: Args, kwargs: Kwargs) -> str | Unknown | None:
    """Return the type that a factory gives; None where nothing says it."""
    if kwargs.get("dtype") is not None or name in _OF_DEFAULT_TYPE:
        return given(torch.world, kwargs)
    if args and isinstance(args[0], Tensor) and name.endswith("_like"):
        return of(args[0])
    # Numbers that the program writes are of the default type; those of an array are as it holds them.
    return given(torch.world, kwargs) if name in ("tensor", "full") and args and _is_written(args[-1]) else None


def _is_written(value: Value) -> bool:
    items = known_elements(value)
    return is_constant(value) if items is None else all(map(_is_written, items))


def copied(torch: Torch, owner: Tensor, name: str | Unknown | None, node: ast.AST) -> Value:
    """Return a copy of a tensor, with a type of its own."""
    torch.world.modes.compiling.unlike |= name is not None
    copy = torch.op("clone", [owner], {}, node)
    if isinstance(copy, Tensor):
        copy.extra = {Mark.PRECISION: of(owner) if name is None else name}
        if owner.noted(Mark.PERHAPS_PACKED):
            copy.note(Mark.PERHAPS_PACKED)
    return copy


def converted(torch: Torch, owner: Tensor, name: str | Unknown, node: ast.AST) -> Value:
    """Return a tensor with a type of floating numbers: itself where it has that, else a copy."""
    has = of(owner)
    if isinstance(has, str) and isinstance(name, str):
        return owner if has == name else copied(torch, owner, name, node)
    torch.world.modes.compiling.unlike = True
    if owner.graph == "no" and not owner.cuts:
        # Data is most often of the type set by default.
        return owner if name == "float" else copied(torch, owner, name, node)
    if owner.is_leaf and owner.graph == "yes":
        said = f"{owner.name or 'the tensor'} has that type already"
        return owner if torch.world.choices.choose(node, True, said) else copied(torch, owner, name, node)
    copy = copied(torch, owner, name, node)
    if isinstance(copy, Tensor):
        copy.storage.may_be(owner.storage)
    return copy
