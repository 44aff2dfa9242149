"""Reading attributes and items: classes, instances, descriptors, `super`."""

from __future__ import annotations

import ast

from tapecheck.interpret.engine import Engine
from tapecheck.interpret.objects import methods, records
from tapecheck.interpret.objects.namespaces import Attributes
from tapecheck.interpret.values import (
    NO_MODEL,
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
    bare_maker,
    behaviour,
    is_missing,
    loaded,
    user_class,
)

_FUNCTION_BASES = ("torch.autograd.Function", "torch.autograd.function.Function")
_EMPTY_BASES = frozenset((
    "builtins.object", "abc.ABC", "typing.Generic", "typing.Protocol", "typing_extensions.Protocol",
))  # fmt: skip  # fmt: skip


def instance_attribute(machine: Engine, owner: Instance, name: str, node: ast.AST) -> Value:
    if name in owner.attrs:
        loaded(machine, owner.slots.get(name))
        return owner.attrs[name]
    if name == "__dict__":
        return Dict(Attributes(owner), slots=owner.slots)
    if name == "__new__" and not (owner.cls is not None and owner.cls.defines(name)):
        return bare_maker()
    if name == "__class__":
        return owner.cls if owner.cls is not None else Lib(owner.lib)
    for look in (_of_class, _of_container, _of_library, _by_getattr):
        found = look(machine, owner, name, node)
        if found is not NO_MODEL:
            return found
    if complete(machine, owner):
        machine.wrong("AttributeError", node)
    elif machine.library.lacks(owner, name):
        # The program may have given it the attribute where nobody sees it.
        machine.doubt("AttributeError", node)
    inherited = machine.library.of_base(owner, name) if owner.module else None
    value = owner.attrs[name] = Unknown.named(name) if inherited is None else inherited
    return value


def _of_class(machine: Engine, owner: Instance, name: str, node: ast.AST) -> Value:
    """Return what the class of an object has under a name; NO_MODEL where it has nothing, as below."""
    value = NO_MODEL if owner.cls is None else class_attribute(machine, owner.cls, name, owner, node)
    return NO_MODEL if is_missing(value) else value


def _of_container(machine: Engine, owner: Instance, name: str, node: ast.AST) -> Value:
    """Return a method of the container that an object's class is made from."""
    inner = owner.inner
    if inner is None or (not methods.has_method(inner, name) and owner.cls and owner.cls.defines("__getattr__")):
        return NO_MODEL
    known = methods.attribute(machine, inner, name, node)
    return known if not isinstance(known, Native) or methods.has_method(inner, name) else NO_MODEL


def _of_library(machine: Engine, owner: Instance, name: str, node: ast.AST) -> Value:
    """Return what an exception, or the part of an object that is a library's, has under a name."""
    if name == "args" and owner.args is not None:
        return tuple(owner.args)
    known = machine.library.object_attribute(owner, name, node)
    return NO_MODEL if known is None else known


def _by_getattr(machine: Engine, owner: Instance, name: str, node: ast.AST) -> Value:
    """Return what `__getattr__` of the object's class gives."""
    fallback = find_method(machine, owner, "__getattr__") if name != "__getattr__" else None
    return NO_MODEL if fallback is None else machine.call(fallback, [name], {}, node)


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
    home = cls.home_of(name)
    if home is not None:
        value = home.namespace[name]
        loaded(machine, home.slots.get(name))
        if machine.reads is not None:
            machine.reads.append((home.namespace, name, value))
        return _read_by(machine, value, receiver, node)
    if name in ("__name__", "__qualname__"):
        return cls.name
    if name == "__new__":
        return bare_maker()
    if name == "__bases__":
        return tuple(cls.bases)
    if name == "__mro__":
        return cls.mro() if cls.library_bases() else (*cls.mro(), Lib("builtins.object"))
    if name == "apply" and any(base in _FUNCTION_BASES for base in cls.library_bases()):
        return Native(name, lambda m, args, kwargs, at: m.library.apply_function(cls, args, kwargs, at))
    known = records.class_attribute(machine, cls, name)
    if known is not None:
        return known
    if (inherited := machine.library.class_method(cls, name)) is not None:
        return inherited
    if isinstance(receiver, Class):
        return Unknown.named(name)
    return Unknown("missing", kind=Kind.MISSING)


def _read_by(machine: Engine, value: Value, receiver: Value, node: ast.AST) -> Value:
    return value.read_by(machine, receiver, node) if isinstance(value, BaseValue) else value


def super_attribute(machine: Engine, owner: Super, name: str, node: ast.AST) -> Value:
    receiver = owner.receiver
    cls = behaviour(receiver).class_of()
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
        if name.startswith("__") and not hasattr(object, name) and complete(machine, receiver):
            # A special method that no class above has, as `__getattr__`: programs ask for it and catch the error.
            machine.wrong("AttributeError", node)
    return Native(f"super().{name}", lambda machine, args, kwargs, at: None)


def _keep_arguments(raised: Instance, args: Args) -> None:
    """`super().__init__(...)` in a class of exceptions."""
    raised.args = args


def find_method(machine: Engine, owner: Value, name: str) -> Value:
    """Return a method that the user's classes define, bound; None where they do not, and of what is no object."""
    cls = user_class(owner)
    home = cls.home_of(name) if cls is not None else None
    return None if home is None else _read_by(machine, home.namespace[name], owner, home.node)


def special(machine: Engine, owner: Instance, name: str) -> Value:
    """Return a special method: of the user's class, or one that the dry run gave a library's object."""
    return owner.attrs.get(name) if owner.cls is None else find_method(machine, owner, name)
