"""What `copy.deepcopy` makes of a value, new objects and leaves all the way down, and `copy.copy`: one new object."""

from __future__ import annotations

import ast
import copy
import dataclasses

from tapecheck.interpret.library import wrappers
from tapecheck.interpret.library.contract import Torch
from tapecheck.interpret.objects.namespaces import share
from tapecheck.interpret.values import ByKind, Dict, Instance, List, Record, Set, Tensor, Unknown, Value, copied


class Copier:
    """One copy: what is reached twice is copied once; of a shallow one all that is in it is what it was."""

    def __init__(self, torch: Torch, node: ast.AST, *, shallow: bool = False) -> None:
        self._torch = torch
        self._world = torch.world
        self._node = node
        self._made: dict[int, Value] = {}
        self._shallow = shallow
        self._begun = False

    def of(self, value: Value) -> Value:
        """Return the copy of a value; itself where it cannot change, or is code."""
        if self._shallow and self._begun:
            return value
        self._begun = True
        if id(value) not in self._made:
            make = next((_COPIES[kind] for kind in type(value).__mro__ if kind in _COPIES), None)
            self._made[id(value)] = value if make is None else make(self, value)
        return self._made[id(value)]

    def tensor(self, value: Tensor) -> Tensor:
        result = self._world.graph.data(value.name, value.cuts if value.node is None else (), value.dtype)
        result.length, result.parameter, result.rank = value.length, value.parameter, value.rank
        result.shares_type(value)
        if self._shallow:
            result.storage.lies_with(value.storage)
        if value.is_leaf and value.node is not None:
            self._world.graph.make_leaf(result, self._node, value.name, value.parameter, value.node)
        return result

    def list(self, value: List) -> List:
        result = List([], value.more, value.bound, value.stored_at, value.kind, self._world.position.clock)
        self._made[id(value)] = result
        result.items.extend(self.of(item) for item in value.items)
        return result

    def dict(self, value: Dict) -> Dict:
        result = Dict({}, value.more, value.factory, copied(value.slots), born=self._world.position.clock)
        self._made[id(value)] = result
        result.items.update({key: self.of(item) for key, item in value.items.items()})
        return result

    def record(self, value: Record) -> Record:
        return Record(value.cls, [self.of(item) for item in value])

    def tuple(self, value: tuple[Value, ...]) -> tuple[Value, ...]:
        return tuple([self.of(item) for item in value])

    def instance(self, value: Instance) -> Instance:
        result = Instance(value.cls, value.lib, value.module)
        self._made[id(value)] = result
        take_after(result, value)
        # A copy of a module that was compiled in place is not compiled.
        result.hooks = [entry for entry in value.hooks if entry[0] != wrappers.IN_PLACE]
        inner = self.of(value.inner)
        result.inner = inner if isinstance(inner, (List, Dict, Set)) else None
        result.args, result.numbered = value.args, value.numbered
        result.open, result.length = value.open, value.length
        for key, item in value.attrs.items():
            result.attrs[key] = self.of(item)
        if self._shallow and value.module:
            share(result, value)
            result.hooks = value.hooks if len(result.hooks) == len(value.hooks) else result.hooks
        result.slots = copied(value.slots)
        if (wrapped := wrappers.wrapped(value)) is not None:
            result.state = wrappers.copy_of(self._torch, wrapped, self.of(wrapped.model), self._node)
        return result

    def unknown(self, value: Unknown) -> Unknown:
        if self._shallow and value.kept.leaf is not None:
            # Its parameters are those of the copy.
            return value
        result = value.anew()
        if value.kept.leaf is not None:
            self._torch.opaque_parameters(result, self._node, value.kept.leaf)
        return result


def take_after(made: Instance, source: Instance) -> None:
    """Give an object the state that the models of libraries keep of another."""
    made.state = copy.copy(source.state)
    layer = source.layer
    if layer is not None:
        made.layer = dataclasses.replace(
            layer, named=False, home=None,
            parameters=set(layer.parameters), buffers=set(layer.buffers),
        )  # fmt: skip
    made.hooks = source.hooks


_COPIES: ByKind[Copier, [], Value] = ByKind()
_COPIES.register(Copier.tensor, Tensor)
_COPIES.register(Copier.list, List)
_COPIES.register(Copier.dict, Dict)
_COPIES.register(Copier.record, Record)
_COPIES.register(Copier.tuple, tuple)
_COPIES.register(Copier.instance, Instance)
_COPIES.register(Copier.unknown, Unknown)
