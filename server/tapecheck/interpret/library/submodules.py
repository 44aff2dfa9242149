"""Sequential, ModuleList, ModuleDict and the two of parameters: what they hold, and what changes that."""

from __future__ import annotations

import ast
from collections.abc import Callable

from tapecheck.interpret.library.contract import Modules
from tapecheck.interpret.values import (
    MORE_KEYWORDS,
    Args,
    Class,
    Dict,
    Instance,
    Kwargs,
    Lib,
    List,
    Native,
    Stream,
    Tensor,
    Unknown,
    Value,
    behaviour,
    concrete,
    is_buffer,
    is_constant,
    is_function,
    is_module,
    is_whole_list,
    known_int,
    known_slice,
    known_text,
    layer_of,
    only,
    parts_of_slice,
    positional,
    stands_still,
    unkey,
    unwrapped,
)

CONTAINERS = ("Sequential", "ModuleList", "ModuleDict", "ParameterList", "ParameterDict")
KEYED = ("ModuleDict", "ParameterDict")
_OF_MODULES = ("Sequential", "ModuleList", "ModuleDict")
_NO_LAYERS = (Tensor, int, float, str, type(None), List, Dict, tuple)


def fill(modules: Modules, owner: Instance, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> None:
    """Run the constructor of a container."""
    layer = layer_of(owner)
    layer.container = name
    first = args[0] if args else next((value for key, value in kwargs.items() if key != MORE_KEYWORDS), None)
    first = unwrapped(first)
    if name in KEYED or (name == "Sequential" and isinstance(first, Dict)):
        _update(modules, owner, [first], {}, node)
    elif name == "Sequential":
        for arg in args:
            # A star argument of unknown length comes as one value: what it holds, and more.
            layer.more = layer.more or isinstance(arg, Unknown) or (isinstance(arg, List) and bool(arg.more))
            for value in arg.items if isinstance(arg, List) else [arg]:
                owner.attrs[str(len(names(owner)))] = _entry(modules, owner, value, node)
    elif first is not None:
        _extend(modules, owner, [first], {}, node)


def names(owner: Instance) -> list[str]:
    """Return the names of a container's own entries, in order; other attributes that were set on it are none."""
    parameters = layer_of(owner).container.startswith("Parameter")
    return [
        name
        for name, value in owner.attrs.items()
        if name != "training" and (isinstance(value, Tensor) if parameters else _may_be_layer(value))
    ]


def _may_be_layer(value: Value) -> bool:
    """Return whether a value may be a module: no number or container, and no function or class."""
    if isinstance(value, (*_NO_LAYERS, Class)) or is_function(value):
        return False
    return not (type(value) is Lib and value.path.startswith("torch."))


def item(modules: Modules, owner: Instance, index: Value, node: ast.AST) -> Value:
    """Return what an index, a key or a slice leads to."""
    known, name, place = names(owner), known_text(index), known_int(index)
    if name is not None:
        return owner.attrs.get(name, Unknown.named(name))
    if place is not None and -len(known) <= place < len(known):
        return owner.attrs[known[place]]
    if isinstance(index := concrete(index), slice):
        part = known_slice(_bounds(parts_of_slice(index), len(known)))
        if stands_still(index):
            modules.machine.wrong("ValueError", node)
            part = None
        return _another(owner, [owner.attrs[name] for name in (known if part is None else known[part])])
    if not known:
        return Unknown("module")
    return modules.machine.library.chosen(index, [(one, owner.attrs[one]) for one in known], node)


def _bounds(parts: list[Value], count: int) -> list[Value]:
    """Return a slice's bounds: a number that nobody knows is a place with entries on both sides, if there are two."""
    start, stop, step = (max(count - 1, 1) if isinstance(part, Unknown) else part for part in parts)
    return [None if len(only(parts[:2], Unknown)) == 2 else start, stop, step]


def stream(owner: Instance) -> Stream:
    """Return what going over a container yields."""
    known = names(owner)
    more, keyed = layer_of(owner).more, layer_of(owner).container in KEYED

    def entry(index: int) -> Value:
        if index >= len(known):
            return Unknown("module")
        return known[index] if keyed else owner.attrs[known[index]]

    return Stream(lambda: None if more else len(known), entry, known=len(known))


def method(modules: Modules, owner: Instance, name: str) -> Native | None:
    """Return a method that the class of a container has; None where it has none of the name."""
    found = _METHODS.get(layer_of(owner).container, _ANY).get(name)
    if found is None:
        return None
    return Native(name, lambda m, args, kwargs, at: found(modules, owner, args, kwargs, at), receiver=owner)


def _another(owner: Instance, values: list[Value]) -> Instance:
    """Return a new container of the same class with other entries."""
    made = Instance(None, owner.lib, module=True)
    layer_of(made).container = layer_of(owner).container
    made.attrs["training"] = owner.attrs.get("training", True)
    made.attrs.update({str(position): value for position, value in enumerate(values)})
    return made


def _entry(modules: Modules, owner: Instance, value: Value, node: ast.AST) -> Value:
    """Return what a container keeps of a value: those of parameters make parameters of tensors, the others take modules
    and None.
    """
    if layer_of(owner).container in _OF_MODULES and not (value is None or _may_be_layer(value)):
        modules.machine.wrong("TypeError", node)
    if layer_of(owner).container.startswith("Parameter") and is_buffer(value):
        return modules.machine.call(Lib("torch.nn.Parameter"), [value], {}, node)
    return value


def _renumber(owner: Instance, before: list[str], values: list[Value]) -> None:
    for name in before:
        del owner.attrs[name]
    owner.attrs.update({str(position): value for position, value in enumerate(values)})


# -- what all of them do ----------------------------------------------------------------------------------------


def _len(modules: Modules, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return Unknown.whole("len") if layer_of(owner).more else len(names(owner))


def _contains(modules: Modules, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    wanted, layer = concrete(args[0]) if args else None, layer_of(owner)
    if layer.container in KEYED:
        if isinstance(wanted, Unknown):
            return Unknown.plain("in") if layer.more or names(owner) else False
        found = wanted in names(owner) if is_constant(wanted) else False
    elif layer.container == "ParameterList":
        # Tensors are compared element by element.
        return Unknown.plain("in")
    else:
        found = any(owner.attrs[name] is wanted for name in names(owner))
        if not found and isinstance(wanted, Unknown):
            return Unknown.plain("in")
    return Unknown.plain("in") if not found and layer.more else found


def _set(modules: Modules, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    if len(args) < 2:
        return None
    modules.world.stores.kept += 1
    key, value, layer = concrete(args[0]), _entry(modules, owner, args[1], node), layer_of(owner)
    known = names(owner)
    place = known_int(key)
    if layer.container in ("Sequential", "ModuleList") and type(key) is slice:
        modules.machine.wrong("TypeError", node)
        return None
    if layer.container not in KEYED and place is not None and -len(known) <= place < len(known):
        key = known[place]
    # Which entry an unknown key replaces, nobody knows.
    layer.more = layer.more or isinstance(key, Unknown)
    owner.attrs[str(key)] = value
    if layer.home is not None and is_module(value):
        modules.name_parameters(value, str(key), owner)
    return None


def _delete(modules: Modules, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    modules.world.stores.kept += 1
    key, layer, known = concrete(args[0]) if args else None, layer_of(owner), names(owner)
    if layer.container in KEYED:
        if (name := known_text(key)) is not None:
            owner.attrs.pop(name, None)
            return None
    elif isinstance(key, (int, slice)):
        values = [owner.attrs[name] for name in known]
        place = known_slice(parts_of_slice(key)) if isinstance(key, slice) else key
        try:
            if place is not None:
                del values[place]
                _renumber(owner, known, values)
                return None
        except (IndexError, ValueError):
            pass
    layer.more = True
    return None


def _pop(modules: Modules, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    if layer_of(owner).container in _OF_MODULES and not args and not kwargs:
        modules.machine.wrong("TypeError", node)
    key = positional(args, 0, -1)
    name = known_text(key)
    if name is not None and name not in owner.attrs and len(args) > 1:
        return args[1]
    found = item(modules, owner, key, node)
    _delete(modules, owner, [key], {}, node)
    return found


# -- sequences --------------------------------------------------------------------------------------------------


def _append(modules: Modules, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    modules.world.stores.kept += 1
    for value in (*args, *kwargs.values())[:1]:
        owner.attrs[str(len(names(owner)))] = _entry(modules, owner, value, node)
    return owner


def _extend(modules: Modules, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    modules.world.stores.kept += 1
    for more in (*args, *kwargs.values())[:1]:
        known = behaviour(more).known_items(modules.machine, node)
        if known is None:
            layer_of(owner).more = True
            known = list(modules.machine.elements(more, node))
        for value in known:
            _append(modules, owner, [value], {}, node)
    return owner


def _insert(modules: Modules, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    modules.world.stores.kept += 1
    if len(args) > 1:
        known = names(owner)
        values = [owner.attrs[name] for name in known]
        values.insert(known_int(args[0]) or 0, _entry(modules, owner, args[1], node))
        _renumber(owner, known, values)
    return owner


def _copied(owner: Instance) -> Instance:
    made = _another(owner, [owner.attrs[name] for name in names(owner)])
    layer_of(made).more = layer_of(owner).more
    return made


def _plus(modules: Modules, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return _extend(modules, _copied(owner), args, {}, node)


def _times(modules: Modules, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return _repeat(modules, _copied(owner), args, {}, node)


def _repeat(modules: Modules, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    modules.world.stores.kept += 1
    values = modules.machine.new_list([owner.attrs[name] for name in names(owner)], node)
    repeated = modules.machine.binary(ast.Mult(), values, positional(args, 0, 1), node)
    if is_whole_list(repeated):
        _renumber(owner, names(owner), repeated.items)
    else:
        layer_of(owner).more = True
    return owner


# -- dicts ------------------------------------------------------------------------------------------------------


def _values(modules: Modules, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return List([owner.attrs[name] for name in names(owner)], layer_of(owner).more)


def _items(modules: Modules, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return List([(name, owner.attrs[name]) for name in names(owner)], layer_of(owner).more)


def _update(modules: Modules, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    modules.world.stores.kept += 1
    layer = layer_of(owner)
    for source in (*args, *kwargs.values())[:1]:
        pairs, more = _pairs(modules, source, node)
        layer.more = layer.more or bool(more)
        for key, value in pairs:
            owner.attrs[str(concrete(key))] = _entry(modules, owner, value, node)
    return owner if layer.container == "ParameterDict" else None


def _pairs(modules: Modules, source: Value, node: ast.AST) -> tuple[list[tuple[Value, Value]], bool]:
    """Return the keys and values that a container is given, and whether there may be more."""
    source = unwrapped(source)
    if isinstance(source, Dict):
        return [(unkey(key), value) for key, value in source.items.items()], bool(source.more)
    if is_module(source) and layer_of(source).container in KEYED:
        return [(name, source.attrs[name]) for name in names(source)], layer_of(source).more
    known = [] if source is None else behaviour(source).known_items(modules.machine, node)
    pairs = [behaviour(one).known_items(modules.machine, node) or () for one in known or ()]
    found: list[tuple[Value, Value]] = [(pair[0], pair[1]) for pair in pairs if len(pair) == 2]
    return found, known is None or len(found) != len(known)


def _get(modules: Modules, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    found = _contains(modules, owner, args, {}, node)
    if found is True:
        return item(modules, owner, args[0], node)
    return (positional(args, 1)) if found is False else Unknown("parameter")


def _setdefault(modules: Modules, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    if _contains(modules, owner, args, {}, node) is False:
        _set(modules, owner, [*args, None][:2], {}, node)
    return item(modules, owner, args[0], node) if args else None


def _clear(modules: Modules, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    modules.world.stores.kept += 1
    _renumber(owner, names(owner), [])
    layer_of(owner).more = False
    return None


def _refusing(kind: str) -> _Method:
    """Return what stands for a method that a container has not got."""

    def refuse(modules: Modules, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        modules.machine.wrong(kind, node)
        return Unknown("refused")

    return refuse


_Method = Callable[[Modules, Instance, Args, Kwargs, ast.AST], Value]
_SHARED: dict[str, _Method] = {
    "__len__": _len, "__contains__": _contains, "__setitem__": _set, "__delitem__": _delete, "pop": _pop,
}  # fmt: skip
_SEQUENCE: dict[str, _Method] = {
    **_SHARED, "append": _append, "extend": _extend, "insert": _insert, "__add__": _plus, "__iadd__": _extend,
}  # fmt: skip
_DICT: dict[str, _Method] = {
    **_SHARED, "values": _values, "items": _items, "update": _update, "clear": _clear,
    "keys": lambda modules, owner, a, k, n: List(list(names(owner)), layer_of(owner).more),
}  # fmt: skip
_REFUSED = {
    **dict.fromkeys(("clear", "copy", "count", "index", "remove", "reverse", "sort"), _refusing("AttributeError")),
    **dict.fromkeys(("__radd__", "__mul__", "__rmul__", "__imul__"), _refusing("TypeError")),
}
"""What a list does and a container of modules does not."""
_REFUSED_BY_NAME = dict.fromkeys(("copy", "get", "popitem", "setdefault"), _refusing("AttributeError"))
"""What a dict does and `nn.ModuleDict` does not."""
_METHODS: dict[str, dict[str, _Method]] = {
    "Sequential": {**_REFUSED, **_SEQUENCE, "__mul__": _times, "__rmul__": _times, "__imul__": _repeat},
    "ModuleList": {**_REFUSED, **_SEQUENCE},
    "ModuleDict": {**_REFUSED_BY_NAME, **_DICT},
    "ParameterList": {name: found for name, found in _SEQUENCE.items() if name not in ("insert", "__add__")},
    "ParameterDict": {**_DICT, "get": _get, "setdefault": _setdefault, "__ior__": _update},
}
_ANY: dict[str, _Method] = {
    name: found for name, found in (*_SEQUENCE.items(), *_DICT.items())
    if name == "__len__" or name in ("append", "extend", "insert", "items", "keys", "values", "update")
}  # fmt: skip
"""What is asked of modules that nobody knows to be containers: their class may be written elsewhere."""
