"""Storing into names, attributes and items, and noting on the tape what the program calls a tensor."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterable

from tapecheck.interpret import limits
from tapecheck.interpret.engine import Engine
from tapecheck.interpret.objects import carry, containers, namespaces, records, syntax
from tapecheck.interpret.objects.unread import computes, unread
from tapecheck.interpret.values import (
    INERT,
    ByKind,
    Class,
    Dict,
    Env,
    Instance,
    List,
    Record,
    Slot,
    Tensor,
    Unknown,
    Value,
    behaviour,
    can_hold,
    is_parameter,
    layer_of,
    on_graph,
    only,
    stored,
    unwrapped,
)
from tapecheck.source.nodes import id_of, last_name
from tapecheck.tape import Bind, Escape, Site


def assign(machine: Engine, target: ast.expr, value: Value, env: Env, statement: ast.AST) -> None:
    write = _TARGETS.get(type(target))
    if write is not None:
        write(machine, target, value, env, statement)


def _to_name(machine: Engine, target: ast.Name, value: Value, env: Env, statement: ast.AST) -> None:
    store_name(machine, target.id, value, env, statement, target)


def _to_attribute(machine: Engine, target: ast.Attribute, value: Value, env: Env, statement: ast.AST) -> None:
    owner = machine.eval(target.value, env)
    _tell_apart(machine, target, owner, value, env)
    set_attribute(machine, owner, target.attr, value, statement)
    name_tensor(machine, target, value)


def _tell_apart(machine: Engine, target: ast.Attribute, owner: Value, value: Value, env: Env) -> None:
    """Name a model as it is written, `self.model`, where `model` alone is another one there: that which it copies."""
    another = env.vars.get(target.attr)
    modules = [one for one in only((owner, value, another), Instance) if one.module]
    if modules == [value, another] and value is not another and (name := id_of(target.value)):
        machine.library.name_parameters(modules[0], f"{name}.{target.attr}")


def _to_item(machine: Engine, target: ast.Subscript, value: Value, env: Env, statement: ast.AST) -> None:
    owner = machine.eval(target.value, env)
    # What is written into a tensor becomes part of it: it is the tensor that has a graph from then on.
    written = type(owner) is Tensor
    if not written:
        name_tensor(machine, target, value)
    machine.library.stored(owner, value, statement)
    behaviour(owner).set_item(machine, machine.eval(target.slice, env), value, statement)
    if written and last_name(target.value):
        name_tensor(machine, target.value, owner)


def _starred(machine: Engine, target: ast.Starred, value: Value, env: Env, statement: ast.AST) -> None:
    assign(machine, target.value, value, env, statement)


def _unpack(machine: Engine, target: ast.Tuple | ast.List, value: Value, env: Env, statement: ast.AST) -> None:
    targets = target.elts
    star = next((i for i, target in enumerate(targets) if isinstance(target, ast.Starred)), None)
    machine.operates((value,), statement)
    values = behaviour(value).known_items(machine, statement)
    if values is None:
        values = containers.guessed_parts(machine, value, len(targets), star, statement)
    elif star is not None:
        after = len(targets) - star - 1
        middle = values[star : len(values) - after]
        values = [*values[:star], List(middle), *values[len(values) - after :]]
    if len(values) != len(targets):
        # The program runs, so this is not what it has here, and neither is any part of it.
        machine.wrong("ValueError", statement)
        values = [Unknown("item") for _ in targets]
    for each, item in zip(targets, values):
        assign(machine, each, item, env, statement)


_TARGETS: ByKind[Engine, [Value, Env, ast.AST], None] = ByKind()
_TARGETS.register(_to_name, ast.Name)
_TARGETS.register(_to_attribute, ast.Attribute)
_TARGETS.register(_to_item, ast.Subscript)
_TARGETS.register(_starred, ast.Starred)
_TARGETS.register(_unpack, ast.Tuple)
_TARGETS.register(_unpack, ast.List)
"""How a target is assigned to, by its kind."""


def store_name(
    machine: Engine, name: str, value: Value, env: Env, statement: ast.AST, target: ast.AST | None = None
) -> None:
    home = env
    if env.names_global or env.names_outer:
        home = home_of(machine, name, env)
        if home is not env:
            machine.world.stores.attributes += 1
            touched(machine, home)
    before = home.vars.get(name)
    home.vars[name] = value
    if value is None:
        machine.library.bound_to_none(home, name, statement)
    if type(value) not in INERT and can_hold(value):
        slot = home.slots.get(name)
        if slot is None:
            home.slots[name] = Slot(machine.world.position.site(statement), machine.world.position.clock)
        else:
            if not carry.restored(machine, slot, before, value):
                slot.at = machine.world.position.site(statement)
            slot.clock = machine.world.position.clock
        _named(machine, name, value, statement if target is None else target)
        if type(before) is type(value) is Tensor:
            _renamed(machine, name, before, value, statement)


def _named(machine: Engine, name: str, value: Value, place: ast.AST) -> None:
    """Let a value have the name that the program gives it, and note it where it leads to a graph."""
    if type(value) is Instance and value.module:
        machine.library.name_parameters(value, name)
    elif isinstance(value, Tensor):
        if not value.name or value.node is None or not value.is_leaf:
            value.name = name
        if value.node is not None or value.cuts:
            machine.world.writer.emit(Bind(machine.world.position.site(place), name, value.node, value.cuts))
    elif isinstance(value, (tuple, Instance)):
        _name_parts(machine, machine.world.position.site(place), name, value)
    elif isinstance(value, Unknown) and value.node is not None and value.name[-1:] in (")", "]"):
        # A result without a name gets the one that the program gives it.
        value.name = name


def _renamed(machine: Engine, name: str, before: Tensor, value: Tensor, statement: ast.AST) -> None:
    """Note that a name of a parameter, or of its gradient, is given a new tensor that nothing reads."""
    position = machine.world.position
    source = position.frames[-1].module.source
    apart = value is not before and value.storage is not before.storage and not value.storage.perhaps
    if not apart or source is None or not before.is_kept or statement not in position.notes.of(source.tree, unread):
        return
    if computes(machine, statement):
        machine.world.graph.without_effect(before, statement, "renamed", name)


def home_of(machine: Engine, name: str, env: Env) -> Env:
    """Return the namespace that a store to a name goes to."""
    if name in env.names_global:
        return env.globals
    if name in env.names_outer:
        return (env.parent and env.parent.scope_of(name)) or env
    return env


def set_attribute(machine: Engine, owner: Value, name: str, value: Value, node: ast.AST) -> None:
    if type(owner) is not Instance or not owner.is_context:
        machine.world.stores.attributes += 1
    machine.library.stored(owner, value, node)
    machine.operates((owner,), node)
    behaviour(owner).set_attribute(machine, name, value, node)


def set_instance_attribute(machine: Engine, owner: Instance, name: str, value: Value, node: ast.AST) -> None:
    if owner.cls is not None:
        if can_hold(value):
            machine.library.trusted_store(owner, value, node)
        if _set_by_class(machine, owner, owner.cls, name, value, node):
            return
    store_attribute(machine, owner, name, value, node)


def take_attributes(machine: Engine, owner: Instance, value: Dict) -> None:
    """Let an object have a dict's entries as its attributes: `owner.__dict__ = value`."""
    source = namespaces.described(value)
    if source is not None and type(value.items) is namespaces.Attributes:
        namespaces.be_one(owner, source)
        return
    if isinstance(value.items, dict) and all(isinstance(key, str) for key in value.items):
        owner.attrs = value.items
    else:
        owner.attrs = value.named()
        owner.open = owner.open or len(owner.attrs) < len(value.items)
    owner.open = owner.open or bool(value.more)
    if source is not None:
        machine.library.takes_after(owner, source)
    if owner.module:
        owner.attrs = dict(owner.attrs)
        for kind in namespaces.REGISTERED:
            if kind in owner.attrs and not namespaces.takes(owner, kind, owner.attrs.pop(kind)):
                layer_of(owner).more = owner.open = True
        # What is stored in the dict from now on is the module's.
        value.items = namespaces.Attributes(owner)


def _may_bring_graph(value: Value) -> bool:
    """Return whether an object that gets a value may hold a graph from then on that it did not hold before."""
    match value:
        case Tensor() | Unknown():
            return value.node is not None and not value.is_leaf
        case Instance():
            return not value.as_made
    return type(value) not in INERT


def _note_stored(machine: Engine, owner: Instance, value: Value) -> None:
    """Note that an object gets a value which nothing had looked for graphs in."""
    if _may_bring_graph(value) or machine.world.graph.leaves_changed:
        machine.world.stores.kept += 1
    if owner.layer is not None and can_hold(value):
        owner.layer.attributes = -1


def store_attribute(machine: Engine, owner: Instance, name: str, value: Value, node: ast.AST) -> None:
    """Set an attribute as `object.__setattr__` does."""
    _note_stored(machine, owner, value)
    if name == "__dict__" and isinstance(held := unwrapped(value), Dict):
        take_attributes(machine, owner, held)
        return
    if owner.module and namespaces.registers(owner, name, value):
        return
    if owner.module and isinstance(value, Tensor) and not value.parameter:
        before = owner.attrs.get(name)
        if is_parameter(before) and not (owner.layer and name in owner.layer.buffers):
            # A module takes nothing but a Parameter where it has one.
            machine.wrong("TypeError", node)
    owner.attrs[name] = value
    if can_hold(value):
        stored(machine, owner.slots, name, node)
        name_parameter(machine, owner, name, value)


def _set_by_class(machine: Engine, owner: Instance, cls: Class, name: str, value: Value, node: ast.AST) -> bool:
    """Whether the class itself sees to the setting of an attribute: a property, a descriptor, `__setattr__`."""
    if behaviour(cls.held(name)).sets(machine, owner, value, node):
        return True
    if cls.defines("__setattr__"):
        machine.call(machine.find_method(owner, "__setattr__"), [name, value], {}, node)
        return True
    if cls.kind == "dataclass" and records.frozen(cls):
        machine.wrong("FrozenInstanceError", node)
        return True
    return False


def name_parameter(machine: Engine, owner: Instance, name: str, value: Value) -> None:
    if isinstance(value, Instance):
        if value.module:
            machine.library.name_parameters(value, name, owner)
    elif isinstance(value, Tensor) and owner.module and not value.name:
        value.name = name


def name_tensor(machine: Engine, target: ast.expr, value: Value) -> None:
    """Note what the user calls a tensor that an attribute or item was set to."""
    if on_graph(value):
        position = machine.world.position
        at, name = position.site(target), position.notes.of(target, syntax.text_of)
        machine.world.writer.emit(Bind(at, name, value.node, value.cuts, inside_forward=position.inside_forward))
    elif isinstance(value, (tuple, Instance)):
        position = machine.world.position
        _name_parts(machine, position.site(target), position.notes.of(target, syntax.text_of), value)


def _name_parts(machine: Engine, at: Site, name: str, value: tuple[Value, ...] | Instance) -> None:
    """Note the tensors of a small tuple under the tuple's name, as for the state of an LSTM, and those without a name
    that an object or a named tuple has, as its attributes.
    """
    match value:
        case Instance(module=True):
            return
        case Instance(attrs=attributes):
            named: Iterable[tuple[str, Value]] = attributes.items()
        case Record(cls=cls) if cls.fields:
            named = zip((one.name for one in cls.fields), value, strict=False)
        case _:
            for index, item in enumerate(value[: limits.NAMED_ELEMENTS]):
                if on_graph(item):
                    machine.world.writer.emit(Bind(at, name, item.node, item.cuts, index))
            return
    parts = ((attribute, item) for attribute, item in named if on_graph(item) and not item.name)
    for attribute, item in itertools.islice(parts, limits.NAMED_ELEMENTS):
        machine.world.writer.emit(Bind(at, f"{name}.{attribute}", item.node, item.cuts, part=True))


def escape(machine: Engine, value: Value, node: ast.AST, to: str, *, more: bool = False, numbers: bool = False) -> None:
    """Note that graph nodes leave what the dry run sees; `more` says that others do which nobody knows, `numbers` that
    no tensors do without a graph, or may.
    """
    carry.hand_over(machine, [value], numbers=numbers)
    nodes = tuple(dict.fromkeys(tensor.node for tensor in carry.tensors_in(value) if not carry.is_leaf(tensor)))
    if nodes or more:
        machine.world.writer.emit(
            Escape(machine.world.position.site(node), tuple(n for n in nodes if n is not None), to, more)
        )


def touched(machine: Engine, env: Env) -> None:
    """Note that a module's own state was changed: it can't serve the next run as it is."""
    env.globals.watched = None
    module = env.globals.module
    if module is not None:
        machine.forget_module(module.path)
