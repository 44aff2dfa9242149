"""What an object has under names, seen as a dict: `vars(owner)` and the dicts that `nn.Module` keeps."""

from __future__ import annotations

import ast
from collections.abc import Hashable, Iterator, MutableMapping

from tapecheck.interpret.values import (
    Dict,
    Env,
    Instance,
    Interpreter,
    Value,
    is_constant,
    perhaps_given,
    perhaps_overwritten,
)


class Attributes(MutableMapping[Hashable, Value]):
    """The attributes of an object as its `__dict__`: every change of one is a change of the other.

    A store under a key that is not a known name may set any attribute, so the object is open from then on.
    """

    def __init__(self, owner: Instance) -> None:
        self.owner = owner
        self.attrs = owner.attrs

    def holds(self, name: str, value: Value) -> bool:
        """Return whether an attribute belongs to this dict."""
        return True

    def __getitem__(self, key: Hashable) -> Value:
        if key in self.attrs and self.holds(key, self.attrs[key]):
            return self.attrs[key]
        raise KeyError(key)

    def __setitem__(self, key: Hashable, value: Value) -> None:
        if isinstance(key, str):
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
        return [name for name, value in self.attrs.items() if self.holds(name, value)]


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
        case Attributes(owner=owner) | CopiedAttributes(owner=owner) if type(value.items) in (
            Attributes,
            CopiedAttributes,
        ):
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
