"""Parameter names of torch callables, from torch's own schemas and signatures. Needs torch."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch._jit_internal import boolean_dispatched
from torch.overrides import get_testing_overrides

from tapecheck.torchfacts.model import NUMBERS, PARAMETER_SYNONYMS, kind_of


@dataclass(frozen=True)
class Signature:
    """Parameters in positional order (``*name`` takes the rest), which are keyword only, and default
    kinds.
    """

    params: tuple[str, ...]
    keyword_only: frozenset[str]
    defaults: Mapping[str, str]
    types: Mapping[str, str]


@dataclass(frozen=True)
class Bound:
    """Arguments by parameter name; `signature` is the one they fitted."""

    signature: Signature
    values: Mapping[str, Any]

    def kinds(self) -> dict[str, str]:
        """Kind of every parameter, defaults filled in, "absent" where there is none."""
        result = {}
        for param in self.signature.params:
            name = param.lstrip("*")
            if name in self.values:
                value = self.values[name]
                # einsum of one operand and of several are different calls.
                if param.startswith("*") and len(value) == 1 and isinstance(value[0], (list, tuple)):
                    value = value[0]
                lone = param.startswith("*") and len(value) == 1
                result[name] = measured_kind(value[0] if lone else value)
            else:
                result[name] = self.signature.defaults.get(name, "absent")
        return result


def measured_kind(value: Any) -> str:
    """`kind_of`, for values that may be or hold tensors."""
    if isinstance(value, torch.Tensor):
        return "matrix" if value.ndim <= 2 else "stack"
    if isinstance(value, (list, tuple)) and any(isinstance(item, (torch.Tensor, list, tuple)) for item in value):
        return "tensors"
    if isinstance(value, torch.dtype):
        return "dtype"
    return kind_of(value)


def _fits(kind: str, type_name: str, name: str, strict: bool) -> bool:
    if type_name.startswith("Optional["):
        return kind == "None" or _fits(kind, type_name[len("Optional[") : -1], name, strict)
    if name in ("dtype", "layout", "memory_format", "device", "generator"):
        return True
    if kind in ("matrix", "stack"):
        kind = "tensor"
    accepted = {
        "Tensor": ("tensor",) if strict else ("tensor", *NUMBERS),
        "number": (*NUMBERS, "True", "False"),
        "int": NUMBERS,
        "float": NUMBERS,
        "bool": ("True", "False"),
        "List[int]": ("list", "ones", *NUMBERS),
        "List[float]": ("list", "ones"),
        "List[Tensor]": ("tensors",),
        "List[Optional[Tensor]]": ("tensors", "list", "ones"),
        "List[bool]": ("list",),
    }.get(type_name)
    if type_name == "str":
        return kind[:1] in "'\""
    return accepted is None or kind in accepted


def bind(
    signature: Signature, args: tuple[Any, ...], kwargs: Mapping[str, Any], *, strict: bool = False
) -> Bound | None:
    """Arguments to parameters, or None if they do not fit; `strict`: no number where a tensor is asked
    for.
    """
    values: dict[str, Any] = {}
    positional = [p for p in signature.params if p not in signature.keyword_only]
    remaining = list(args)
    for param in positional:
        if not remaining:
            break
        if param.startswith("*"):
            values[param[1:]] = tuple(remaining)
            remaining = []
            break
        value = remaining.pop(0)
        kind = signature.types.get(param, "")
        if isinstance(value, int) and not isinstance(value, bool) and kind.startswith("List[int]") and remaining:
            run = [value]
            while remaining and isinstance(remaining[0], int) and not isinstance(remaining[0], bool):
                run.append(remaining.pop(0))
            value = run
        if isinstance(value, torch.Tensor) and kind == "List[Tensor]":
            value = [value, *(item for item in remaining if isinstance(item, torch.Tensor))]
            remaining = []
        values[param] = value
    if remaining:
        return None
    names = {p.lstrip("*") for p in signature.params}
    for key, value in kwargs.items():
        name = key if key in names else PARAMETER_SYNONYMS.get(key, key)
        if name not in names or name in values:
            return None
        values[name] = value
    for name in names:
        if name not in values and name not in signature.defaults and f"*{name}" not in signature.params:
            return None
        if name in values and not _fits(measured_kind(values[name]), signature.types.get(name, ""), name, strict):
            return None
    return Bound(signature, values)


def of_python(fn: Callable[..., Any], *, drop_self: bool = False) -> list[Signature]:
    """Return the signature of a Python function, empty when it has none."""
    while inspect.isfunction(fn) and (dispatched := boolean_dispatched.get(fn)) is not None:
        fn = dispatched["if_false"]
    try:
        parameters = list(inspect.signature(fn).parameters.values())
    except (ValueError, TypeError):
        return []
    if drop_self:
        parameters = parameters[1:]
    params: list[str] = []
    keyword_only: set[str] = set()
    defaults: dict[str, str] = {}
    for parameter in parameters:
        if parameter.kind is parameter.VAR_POSITIONAL:
            params.append("*" + parameter.name)
            continue
        if parameter.kind is parameter.VAR_KEYWORD:
            continue
        params.append(parameter.name)
        if parameter.kind is parameter.KEYWORD_ONLY:
            keyword_only.add(parameter.name)
        if parameter.default is not parameter.empty:
            defaults[parameter.name] = measured_kind(parameter.default)
    return [Signature(tuple(params), frozenset(keyword_only), defaults, {})]


@cache
def of_schema(name: str) -> list[Signature]:
    """Return the signatures of a native op by canonical name, without out= forms."""
    native = name.removeprefix("nn.functional.").replace(".", "_")
    found = []
    for schema in torch._C._jit_get_schemas_for_operator(f"aten::{native}"):
        arguments = schema.arguments
        if any(a.is_out for a in arguments) or not any("Tensor" in str(a.type) for a in (*arguments, *schema.returns)):
            continue
        if any("Dimname" in str(a.type) for a in arguments) or schema.overload_name.endswith(("names", "Dimname")):
            continue
        found.append(
            Signature(
                tuple(a.name for a in arguments),
                frozenset(a.name for a in arguments if a.kwarg_only),
                {a.name: kind_of(a.default_value) for a in arguments if a.has_default_value()}
                | {a.name: "None" for a in arguments if str(a.type).startswith("Optional[") and a.has_default_value()},
                {a.name: str(a.type) for a in arguments},
            )
        )
    return found


def of_override(name: str, fn: Callable[..., Any]) -> list[Signature]:
    """Return the signature that torch's table of overridable functions gives for a builtin."""
    for candidate in (fn, getattr(torch.Tensor, name, None), getattr(torch, name, None)):
        stand_in = get_testing_overrides().get(candidate) if callable(candidate) else None
        if stand_in is not None:
            return of_python(stand_in)
    return []


def signatures(name: str, fn: Callable[..., Any]) -> list[Signature]:
    """All signatures known for a callable of a canonical name, the most telling first."""
    if inspect.isfunction(fn):
        return of_python(fn) or of_schema(name)
    return of_schema(name) + of_override(name, fn) + of_python(fn)
