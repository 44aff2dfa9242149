"""Looks into values of the program without running any of its code: no property, `__getattr__`, metaclass or overridden
method, as proxies, lazy modules and containers that watch themselves have them.
"""

from __future__ import annotations

import collections
from types import GetSetDescriptorType, MemberDescriptorType, ModuleType
from typing import TYPE_CHECKING, Callable, Collection, Dict, FrozenSet, ItemsView, Iterator, List, Tuple, Type, TypeVar

if TYPE_CHECKING:
    from typing import TypeGuard

    from torch import Tensor

_T = TypeVar("_T")
_bases: Callable[[type], Tuple[type, ...]] = vars(type)["__mro__"].__get__
_module: Callable[[type], object] = vars(type)["__module__"].__get__
namespace: Callable[[type], Dict[str, object]] = vars(type)["__dict__"].__get__
"""What a class has itself, by name."""

_ITERATORS: Tuple[Tuple[type, Callable[..., Iterator[object]]], ...] = (
    (list, list.__iter__), (tuple, tuple.__iter__), (set, set.__iter__), (frozenset, frozenset.__iter__),
    (collections.deque, collections.deque.__iter__), (dict, dict.__iter__),
)  # fmt: skip


def is_a(value: object, *kinds: Type[_T]) -> TypeGuard[_T]:
    """Return whether a value is of some types; `isinstance` would ask a proxy for its class."""
    return issubclass(type(value), kinds)


def ids_of(*kinds: type) -> FrozenSet[int]:
    """Return the identities of types, to ask for a value's among them: a set of types asks metaclasses for hashes."""
    return frozenset(map(id, kinds))


def is_parameter(torch: ModuleType, tensor: Tensor) -> bool:
    """Return whether a tensor is an `nn.Parameter`, as `isinstance` says, which asks a subclass for its `_is_param`."""
    kind = type(tensor)
    # A plain tensor is not given a dictionary of its own, which it mostly has not.
    if kind is torch.Tensor or issubclass(kind, torch.nn.Parameter):
        return kind is not torch.Tensor
    return bool(members(tensor).get("_is_param"))


def bases_of(kind: type) -> Tuple[type, ...]:
    """Return a class and its bases in the order of lookup."""
    return _bases(kind)


def module_of(kind: type) -> str:
    """Return the name of a class's module."""
    try:
        return str(_module(kind))
    except AttributeError:
        return ""


def elements_of(value: Collection[object]) -> List[object]:
    """Return the elements of a sequence or set, the keys of a dictionary."""
    kind = type(value)
    return list(next(iterate(value) for base, iterate in _ITERATORS if issubclass(kind, base)))


def entries_of(value: Dict[object, object]) -> ItemsView[object, object]:
    """Return the entries of a dictionary."""
    return dict.items(value)


def members(value: object) -> Dict[str, object]:
    """Return an object's attributes as they are stored; parameters, buffers and submodules of a module are among
    them.
    """
    kind = type(value)
    if issubclass(kind, type):
        return {}
    for base in _bases(kind):
        found = namespace(base).get("__dict__")
        if found is not None:
            if not (is_a(found, GetSetDescriptorType) or is_a(found, MemberDescriptorType)):
                # A property of the program's.
                return {}
            stored = found.__get__(value)
            return stored if type(stored) is dict else {}
    try:
        # Their types name none.
        stored = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return {}
    return stored if type(stored) is dict else {}


def slots_of(value: object) -> Iterator[Tuple[str, object]]:
    """Yield the names of an object's slots that hold something, and what they hold."""
    for base in _bases(type(value)):
        for name, slot in list(namespace(base).items()):
            if type(slot) is MemberDescriptorType:
                try:
                    yield name, slot.__get__(value)
                except AttributeError:
                    continue
