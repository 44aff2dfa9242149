"""What an object has under names, seen as a dict: `vars(owner)` and the dicts that `nn.Module` keeps."""

from __future__ import annotations

import ast
from collections.abc import Hashable, Iterator, Mapping, MutableMapping

from tapecheck.interpret.values import (
    Dict,
    Env,
    Instance,
    Interpreter,
    Layer,
    Tensor,
    Unknown,
    Value,
    is_constant,
    is_module,
    layer_of,
    perhaps_given,
    perhaps_overwritten,
)

REGISTERED = ("_parameters", "_buffers", "_modules")
"""The dicts in which a module keeps what is no plain attribute of it."""


class Attributes(MutableMapping[Hashable, Value]):
    """The attributes of an object as its `__dict__`: every change of one is a change of the other.

    A store under a key that is not a known name may set any attribute, so the object is open from then on.
    """

    def __init__(self, owner: Instance) -> None:
        self.owner = owner

    @property
    def attrs(self) -> dict[str, Value]:
        """What the object has now: its attributes may have become those of another dict."""
        return self.owner.attrs

    @property
    def registries(self) -> tuple[str, ...]:
        """The dicts of a module that its own dict has besides the plain attributes."""
        return REGISTERED if self.owner.layer is not None and "training" in self.attrs else ()

    def holds(self, name: str, value: Value) -> bool:
        """Return whether an attribute belongs to this dict."""
        return not self.registries or not kind_of(layer_of(self.owner), name, value)

    def __getitem__(self, key: Hashable) -> Value:
        if key in self.attrs:
            return self.attrs[str(key)]
        if key in self.registries:
            return Dict(Registered(self.owner, str(key)), layer_of(self.owner).more, slots=self.owner.slots)
        raise KeyError(key)

    def __setitem__(self, key: Hashable, value: Value) -> None:
        if isinstance(key, str):
            if not takes(self.owner, key, value):
                self.attrs[key] = value
        else:
            self.owner.open = True
            if self.owner.layer is not None:
                self.owner.layer.more = True

    def __delitem__(self, key: Hashable) -> None:
        self[key]
        self.attrs.pop(str(key))

    def __iter__(self) -> Iterator[str]:
        return iter(self._names())

    def __reversed__(self) -> Iterator[str]:
        return reversed(self._names())

    def __len__(self) -> int:
        return len(self._names())

    def overwritten(self, machine: Interpreter, options: Value, node: ast.AST) -> None:
        """Note that options, of which nobody knows what is in them, may have been stored over constants."""
        owner, kept = self.owner, self.attrs.get("training")
        for cls in owner.cls.mro() if owner.cls is not None else ():
            for name, value in cls.namespace.items():
                if is_constant(value) and not name.startswith("__") and name not in self.attrs:
                    self.attrs[name] = perhaps_given(machine, options, name, value, node)
        perhaps_overwritten(machine, self.attrs, options, node)
        if owner.module:
            # That one is torch's.
            self.attrs["training"] = kept

    def _names(self) -> list[str]:
        # A module has these before all else.
        return [*self.registries, *(name for name, value in self.attrs.items() if self.holds(name, value))]


class Registered(Attributes):
    """The `_parameters`, `_buffers` or `_modules` of a module: those of its attributes that are of the kind."""

    registries = ()

    def __init__(self, owner: Instance, kind: str) -> None:
        super().__init__(owner)
        self.kind = kind

    def holds(self, name: str, value: Value) -> bool:
        """Return whether an attribute is registered under this kind."""
        return kind_of(layer_of(self.owner), name, value) == self.kind

    def __getitem__(self, key: Hashable) -> Value:
        if key in self.attrs and self.holds(str(key), self.attrs[str(key)]):
            return self.attrs[str(key)]
        raise KeyError(key)

    def __setitem__(self, key: Hashable, value: Value) -> None:
        if isinstance(key, str) and self.kind != "_modules":
            layer = layer_of(self.owner)
            (layer.buffers if self.kind == "_buffers" else layer.parameters).add(key)
        super().__setitem__(key, value)


class Shared(dict[str, Value]):
    """The attributes of a module of which others have `_parameters`, `_buffers` or `_modules` in common with it."""

    def __init__(self, owner: Instance) -> None:
        super().__init__(owner.attrs)
        self.owner = owner
        self.rings = {kind: [self] for kind in REGISTERED}
        """Those that have each of the dicts, this one among them."""

    def __setitem__(self, name: str, value: Value) -> None:
        for one in self._having(name, value):
            dict.__setitem__(one, name, value)

    def __delitem__(self, name: str) -> None:
        for one in self._having(name, self[name]):
            dict.pop(one, name, None)

    def pop(self, name: str, *default: Value) -> Value:  # type: ignore[override]
        if name not in self:
            return super().pop(name, *default)
        value = self[name]
        del self[name]
        return value

    def setdefault(self, name: str, default: Value = None) -> Value:  # type: ignore[override]
        if name not in self:
            self[name] = default
        return self[name]

    def update(self, given: Mapping[str, Value]) -> None:  # type: ignore[override]
        for name, value in given.items():
            self[name] = value

    def _having(self, name: str, value: Value) -> list[Shared]:
        layer = layer_of(self.owner)
        kind = kind_of(layer, name, value)
        if not kind and (value is None or isinstance(value, Unknown)):
            # What stands in the place of something registered is registered.
            kind = kind_of(layer, name, self.get(name))
        return self.rings.get(kind, [self])


def share(made: Instance, source: Instance, kinds: tuple[str, ...] = REGISTERED) -> None:
    """Let a module have the very dicts of another: what one registers from now on, the other has."""
    ours, theirs = _shared(made), _shared(source)
    for kind in kinds:
        if ours.rings[kind] is theirs.rings[kind]:
            continue
        part(made, kind)
        for name in [*Registered(made, kind)]:
            dict.pop(ours, name)
        for name, value in Registered(source, kind).items():
            dict.__setitem__(ours, str(name), value)
        ours.rings[kind] = theirs.rings[kind]
        ours.rings[kind].append(ours)
        if kind == "_buffers":
            layer_of(made).buffers = layer_of(source).buffers
        elif kind == "_parameters":
            layer_of(made).parameters = layer_of(source).parameters


def part(owner: Instance, kind: str) -> None:
    """Let a module have a dict of its own in the place of one that it may share with others."""
    layer = layer_of(owner)
    if kind == "_buffers":
        layer.buffers = set(layer.buffers)
    elif kind == "_parameters":
        layer.parameters = set(layer.parameters)
    match owner.attrs:
        case Shared() as attrs:
            attrs.rings[kind][:] = [one for one in attrs.rings[kind] if one is not attrs]
            attrs.rings[kind] = [attrs]


def be_one(owner: Instance, source: Instance) -> None:
    """Let an object have the very `__dict__` of another."""
    owner.attrs = source.attrs if source.layer is None else _shared(source)
    owner.slots, owner.hooks, owner.layer, owner.state = source.slots, source.hooks, source.layer, source.state
    owner.open = source.open


def _shared(owner: Instance) -> Shared:
    match owner.attrs:
        case Shared() as attrs:
            return attrs
    owner.attrs = made = Shared(owner)
    return made


def registers(owner: Instance, name: str, value: Value) -> bool:
    """Return whether a store gives a module other parameters, buffers or modules, and let it have them."""
    if name not in REGISTERED or owner.layer is None or type(value) is not Dict:
        return False
    match value.items:
        case Registered(owner=source, kind=kind) if kind == name:
            share(owner, source, (name,))
            return True
    part(owner, name)
    registered, given = Registered(owner, name), list(value.items.items())
    registered.clear()
    for key, item in given:
        registered[key] = item
    owner.layer.more = owner.layer.more or bool(value.more)
    # What is stored in the dict from now on is the module's.
    value.items = registered
    return True


def takes(owner: Instance, name: str, value: Value) -> bool:
    """Return whether a store in the `__dict__` of a module registers what it has; hooks come along from another."""
    match value:
        case Dict(items=Registered(owner=source)) if owner.layer is not None and not owner.hooks:
            owner.hooks = source.hooks
    return registers(owner, name, value)


def is_registered_parameter(layer: Layer, name: str, value: Value) -> bool:
    """Return whether a module has a value as a parameter: what stands in its `_parameters`, whatever it was made as."""
    if not isinstance(value, Tensor) or name in layer.buffers:
        return False
    return value.parameter or name in layer.parameters


def kind_of(layer: Layer, name: str, value: Value) -> str:
    """Return which of its dicts a module has an attribute in, "" for a plain one."""
    if is_module(value):
        return "_modules"
    if name in layer.buffers:
        return "_buffers"
    return "_parameters" if is_registered_parameter(layer, name, value) else ""


class CopiedAttributes(dict[Hashable, Value]):
    """A copy of an object's `__dict__`, which knows whose it is: with it goes what torch keeps of a module."""

    def __init__(self, attributes: Attributes) -> None:
        super().__init__(attributes)
        self.owner = attributes.owner


def copied_items(items: MutableMapping[Hashable, Value]) -> dict[Hashable, Value]:
    """Return a copy of what a dict holds."""
    return CopiedAttributes(items) if type(items) is Attributes else dict(items)


def described(value: Dict) -> Instance | None:
    """Return the object whose attributes a dict has, or had when it was copied."""
    match value.items:
        case Registered():
            return None
        case Attributes(owner=owner) | CopiedAttributes(owner=owner):
            return owner
    return None


class Names(MutableMapping[Hashable, Value]):
    """The names of a module as `globals()`: every change of one is a change of the other."""

    def __init__(self, env: Env) -> None:
        self.names = env.vars

    def __getitem__(self, key: Hashable) -> Value:
        if not isinstance(key, str):
            raise KeyError(key)
        return self.names[key]

    def __setitem__(self, key: Hashable, value: Value) -> None:
        if isinstance(key, str):
            self.names[key] = value

    def __delitem__(self, key: Hashable) -> None:
        self[key]
        self.names.pop(str(key))

    def __iter__(self) -> Iterator[str]:
        return iter(list(self.names))

    def __len__(self) -> int:
        return len(self.names)
