"""Reading attributes and items: classes, instances, descriptors, `super`."""

from __future__ import annotations

import ast

from tapecheck.interpret.engine import Engine
from tapecheck.interpret.objects import methods, records
from tapecheck.interpret.objects.namespaces import Attributes
from tapecheck.interpret.values import (
    Args,
    BaseValue,
    Class,
    Dict,
    Instance,
    Kind,
    Lib,
    Native,
    Super,
    Unknown,
    Value,
    loaded,
)

_FUNCTION_BASES = ("torch.autograd.Function", "torch.autograd.function.Function")
_EMPTY_BASES = frozenset((
    "builtins.object", "abc.ABC", "typing.Generic", "typing.Protocol", "typing_extensions.Protocol",
))  # fmt: skip  # fmt: skip


def instance_attribute(machine: Engine, owner: Instance, name: str, node: ast.AST) -> Value:
    attrs = owner.attrs
    if name in attrs:
        slot = owner.slots.get(name)
        if slot is not None and slot.clock < machine.world.position.clock:
            loaded(machine, slot)
        return attrs[name]
    if name == "__dict__":
        return Dict(Attributes(owner), slots=owner.slots)
    if name == "__class__":
        return owner.cls if owner.cls is not None else Lib(owner.lib)
    if owner.cls is not None:
        value = class_attribute(machine, owner.cls, name, owner, node)
        if not isinstance(value, Unknown) or value.kind is not Kind.MISSING:
            return value
    inner = owner.inner
    if inner is not None:
        known = methods.attribute(machine, inner, name, node)
        if not isinstance(known, Native) or methods.has_method(inner, name):
            return known
    if name == "args" and owner.args is not None:
        return tuple(owner.args)
    known = machine.library.object_attribute(owner, name, node)
    if known is not None:
        return known
    if owner.cls is not None and name != "__getattr__":
        fallback = find_method(machine, owner, "__getattr__")
        if fallback is not None:
            return machine.call(fallback, [name], {}, node)
    if complete(machine, owner):
        machine.wrong("AttributeError", node)
    value = Unknown.named(name)
    attrs[name] = value
    return value


def complete(machine: Engine, owner: Instance) -> bool:
    """Whether an object surely has no other attributes than those the dry run knows."""
    cls = owner.cls
    return (
        cls is not None
        and not owner.open
        and not cls.opaque
        and all(base in _EMPTY_BASES for base in cls.library_bases())
    )


def class_attribute(machine: Engine, cls: Class, name: str, receiver: Value, node: ast.AST) -> Value:
    """Look a name up in a class for an instance or for the class itself; `missing` where it has none."""
    for candidate in cls.mro():
        if name in candidate.namespace:
            value = candidate.namespace[name]
            slot = candidate.slots.get(name)
            if slot is not None and slot.clock < machine.world.position.clock:
                loaded(machine, slot)
            if machine.reads is not None:
                machine.reads.append((candidate.namespace, name, value))
            return _read_by(machine, value, receiver, node)
    if name in ("__name__", "__qualname__"):
        return cls.name
    if name == "__bases__":
        return tuple(cls.bases)
    if name == "__mro__":
        return cls.mro() if cls.library_bases() else (*cls.mro(), Lib("builtins.object"))
    if name == "apply" and any(base in _FUNCTION_BASES for base in cls.library_bases()):
        return Native(name, lambda m, args, kwargs, at: m.library.apply_function(cls, args, kwargs, at))
    known = records.class_attribute(machine, cls, name)
    if known is not None:
        return known
    if isinstance(receiver, Class):
        return Unknown.named(name)
    return Unknown("missing", kind=Kind.MISSING)


def _read_by(machine: Engine, value: Value, receiver: Value, node: ast.AST) -> Value:
    return value.read_by(machine, receiver, node) if isinstance(value, BaseValue) else value


def super_attribute(machine: Engine, owner: Super, name: str, node: ast.AST) -> Value:
    receiver = owner.receiver
    cls = receiver.cls if isinstance(receiver, Instance) else receiver
    if isinstance(cls, Class):
        order = cls.mro()
        if owner.after in order:
            for candidate in order[order.index(owner.after) + 1 :]:
                if name in candidate.namespace:
                    return _read_by(machine, candidate.namespace[name], receiver, node)
    if name == "__new__":
        return Native(name, lambda m, args, kwargs, at: m.new_object(args[0]))
    if isinstance(receiver, Instance):
        inner = receiver.inner
        if inner is not None:
            return methods.attribute(machine, inner, name, node)
        if name == "__setattr__":
            return Native(name, lambda m, args, kwargs, at: m.store_attribute(receiver, args[0], args[1], at))
        if name == "__init__" and receiver.args is not None:
            return Native(name, lambda m, args, kwargs, at: _keep_arguments(receiver, args))
        known = machine.library.object_attribute(receiver, name, node)
        if known is not None:
            return known
    return Native(f"super().{name}", lambda machine, args, kwargs, at: None)


def _keep_arguments(raised: Instance, args: Args) -> None:
    """`super().__init__(...)` in a class of exceptions."""
    raised.args = args


def find_method(machine: Engine, owner: Instance, name: str) -> Value:
    """Return a method that the user's classes define, bound; None where they do not."""
    if owner.cls is None:
        return None
    for candidate in owner.cls.mro():
        if name in candidate.namespace:
            return _read_by(machine, candidate.namespace[name], owner, candidate.node)
    return None


def special(machine: Engine, owner: Instance, name: str) -> Value:
    """Return a special method: of the user's class, or one that the dry run gave a library's object."""
    return owner.attrs.get(name) if owner.cls is None else find_method(machine, owner, name)
