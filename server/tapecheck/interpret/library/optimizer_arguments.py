"""What torch's optimizers take as parameters, and what they raise of anything else."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from tapecheck.interpret.engine import Engine
from tapecheck.interpret.library import submodules
from tapecheck.interpret.values import (
    Bound,
    Dict,
    Function,
    Generator,
    Instance,
    List,
    Native,
    Set,
    Tensor,
    Value,
    concrete,
    is_module,
    layer_of,
    unkey,
    unwrapped,
)


def refusal(machine: Engine, params: Value, node: ast.AST) -> str:
    """Return the name of what an optimizer raises of its `params`; "" where it is not certain that it does.

    It takes what can be iterated and gives tensors, pairs of a name and a tensor, or groups. Measured with torch 2.13.
    """
    params = _known(params)
    if type(params) is Tensor:
        return "TypeError"
    elements = _elements(params)
    first = _known(elements[0]) if elements else None
    if type(first) is Dict:
        return next(filter(None, (refusal_of_group(machine, one, node) for one in elements or ())), "")
    if first is not None and not (type(first) is Tensor or _is_no_tensor(first)):
        # It may be a group, and then the others are.
        return ""
    return _refusal_of_elements(machine, params, elements, node)


def refusal_of_group(machine: Engine, group: Value, node: ast.AST) -> str:
    """Return the name of what an optimizer raises of a group of parameters; "" where it is not certain that it does."""
    group = _known(group)
    if type(group) is not Dict:
        return "TypeError" if type(group) is Tensor or _is_no_tensor(group) else ""
    if "params" not in group.items:
        return "" if group.more else "KeyError"
    params = _known(group.items["params"])
    if type(params) is Tensor:
        return ""
    if type(params) is Set:
        # The order of a set may be another one in the next run.
        return "TypeError"
    return _refusal_of_elements(machine, params, _elements(params), node)


def _refusal_of_elements(machine: Engine, params: Value, elements: Sequence[Value] | None, node: ast.AST) -> str:
    wrong = _is_no_iterable(machine, params, node) if elements is None else any(map(_is_no_tensor, elements))
    return "TypeError" if wrong else ""


def _known(value: Value) -> Value:
    return concrete(unwrapped(value))


def _elements(value: Value) -> Sequence[Value] | None:
    """Return what iterating gives, where all of it is known."""
    match value:
        case tuple() | str():
            return value
        case Dict() if not value.more:
            return tuple(map(unkey, value.items))
        case List() | Set() if not value.more:
            return value.items
        case Instance() if is_module(value) and value.cls is None and (container := layer_of(value).container):
            names = submodules.names(value)
            return names if container in submodules.KEYED else [value.attrs[name] for name in names]
        case _:
            return None


def _is_no_iterable(machine: Engine, value: Value, node: ast.AST) -> bool:
    match value:
        case None | int() | float() | Function() | Bound() | Native():
            return True
        case Instance() if is_module(value) and value.cls is None:
            return not layer_of(value).container
        case Instance() if is_module(value):
            ways = ("__iter__", "__getitem__")
            return all(machine.library.object_has(value, way, node) is False for way in ways)
        case _:
            return False


def _is_no_tensor(value: Value) -> bool:
    """Whether a value is neither a tensor nor a pair of a name and one."""
    match _known(value):
        case None | int() | float() | str() | Function() | Bound() | Native() | List() | Set() | Dict() | Generator():
            return True
        case other:
            return is_module(other)
