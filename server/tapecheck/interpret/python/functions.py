"""Functions and classes: binding arguments, properties, dataclasses."""

from __future__ import annotations

import ast
from collections.abc import Hashable

from tapecheck.interpret.engine import Engine
from tapecheck.interpret.objects import syntax
from tapecheck.interpret.values import (
    MORE_KEYWORDS,
    Args,
    Dict,
    Env,
    Function,
    Instance,
    Kwargs,
    List,
    Native,
    Slot,
    Tensor,
    Unknown,
    Value,
    Wrapped,
    only,
    passed_as,
    passed_on,
    perhaps_given,
    under_other_keys,
)
from tapecheck.tape import Site


def property_part(owner: Wrapped, name: str) -> Native:
    """`@x.setter` and the like: the property with one more function."""

    def extend_property(m: Engine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        given = args[0] if args else None
        if name == "setter":
            return Wrapped("property", owner.function, given, owner.deleter)
        if name == "deleter":
            return Wrapped("property", owner.function, owner.extra, given)
        return Wrapped("property", given, owner.extra, owner.deleter)

    return Native(name, extend_property)


def _fits(arguments: ast.arguments, function: Function, args: Args, kwargs: Kwargs) -> bool:
    """Whether a call gives every parameter a value, once, and nothing else."""
    positional = [parameter.arg for parameter in (*arguments.posonlyargs, *arguments.args)]
    if len(args) > len(positional) and arguments.vararg is None:
        return False
    filled = set(positional[: len(args)])
    named = {parameter.arg for parameter in (*arguments.args, *arguments.kwonlyargs)}
    if filled & kwargs.keys() or (arguments.kwarg is None and not named.issuperset(kwargs)):
        return False
    wanted = positional[: len(positional) - len(function.defaults)]
    needed = [p.arg for p, default in zip(arguments.kwonlyargs, arguments.kw_defaults) if default is None]
    return all(name in filled or name in kwargs for name in (*wanted, *needed))


def _is_called_here(function: Function, args: Args, kwargs: Kwargs, node: ast.AST) -> bool:
    """Whether a call gives a function what is written there, and nobody between them changes that."""
    if not isinstance(node, ast.Call) or (not isinstance(function.node, ast.Lambda) and function.node.decorator_list):
        return False
    if any(isinstance(one, ast.Starred) for one in node.args) or len(args) - len(node.args) not in (0, 1):
        return False
    return kwargs.keys() == {keyword.arg for keyword in node.keywords}


def _default(machine: Engine, name: str, value: Value) -> Value:
    """Return the default of a parameter, which is read as a name of the function's own."""
    if machine.reads is not None:
        machine.reads.append(({name: value}, name, value))
    return value


def bind_arguments(machine: Engine, function: Function, args: Args, kwargs: Kwargs, env: Env, node: ast.AST) -> None:
    """Bind arguments to parameters; a parameter that got nothing is unknown where a call was open-ended."""
    arguments: ast.arguments = function.node.args
    positional = function.module.notes.of(function.node, syntax.positional_names)
    kwargs = dict(kwargs)
    options = passed_on(kwargs)
    more = kwargs.pop(MORE_KEYWORDS, None)
    open_ended = more is not None
    values = env.vars
    if len(args) != len(positional) or kwargs or arguments.kwonlyargs:
        looked_out_for = machine.expects("TypeError") or _is_called_here(function, args, kwargs, node)
        if looked_out_for and not open_ended and not _fits(arguments, function, args, kwargs):
            machine.wrong("TypeError", node)
    values.update(zip(positional, args))
    if arguments.vararg is not None:
        values[arguments.vararg.arg] = tuple(args[len(positional) :])

    def by_default(name: str, value: Value) -> Value:
        default = _default(machine, name, value)
        return default if options is None else perhaps_given(machine, options, name, default, node)

    missing = positional[len(args) :]
    defaults = dict(zip(missing[::-1], function.defaults[::-1])) | _keyword_defaults(function)
    for name in (*missing, *(parameter.arg for parameter in arguments.kwonlyargs)):
        if name in kwargs:
            values[name] = kwargs.pop(name)
        elif name in defaults:
            values[name] = by_default(name, defaults[name])
        else:
            values[name] = passed_as(machine, more, name, node)
    if arguments.kwarg is not None:
        values[arguments.kwarg.arg] = Dict(_under_other_keys(more, kwargs), more=open_ended)
    _note_stored(machine, env, node)


def _keyword_defaults(function: Function) -> dict[str, Value]:
    """Return the defaults of the parameters that are passed by their names alone."""
    arguments = function.node.args
    written = zip(arguments.kwonlyargs, arguments.kw_defaults, function.kw_defaults)
    return {parameter.arg: value for parameter, default, value in written if default is not None}


def _under_other_keys(more: Value, kwargs: Kwargs) -> dict[Hashable, Value]:
    """Return the keywords of a call with what it passes under keys nobody knows, by what stands for those."""
    passed = {key: value for held in only(under_other_keys(more), Dict) for key, value in held.items.items()}
    passed.update(kwargs)
    return passed


def _note_stored(machine: Engine, env: Env, node: ast.AST) -> None:
    """Note where the parameters of a call got their values, of those that can hold a graph."""
    site: Site | None = None
    for name, value in env.vars.items():
        if isinstance(value, (Tensor, List, Dict, tuple, Instance, Unknown)):
            if site is None:
                site = machine.world.position.site(node) if machine.world.position.frames else None
            if site is not None:
                env.slots[name] = Slot(site, machine.world.position.clock)
