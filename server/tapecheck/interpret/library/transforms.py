"""torch.func, torch.vmap and torch.autograd.functional: functions of functions, which run the user's function."""

from __future__ import annotations

import ast

from tapecheck.interpret.library.contract import Torch
from tapecheck.interpret.values import (
    Args,
    Dict,
    Kind,
    Kwargs,
    Mark,
    Native,
    Tensor,
    Unknown,
    Value,
    as_given,
    behaviour,
    first_part,
    known_elements,
    listed,
    only_tensors,
    positional,
    requires_any,
)
from tapecheck.tape import Fact, GraphRead

_OF_A_FUNCTION = frozenset(("grad", "grad_and_value", "vmap", "jacrev", "jacfwd", "hessian", "functionalize"))
"""What turns a function into another one."""
_DERIVATIVES = ("jacobian", "hessian")
_AT_ONCE = frozenset(("jacobian", "hessian", "vjp", "jvp", "hvp", "vhp"))
"""The functions of torch.autograd.functional; the last four give a pair."""


def call(torch: Torch, path: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Call a function of one of these modules by its dotted path."""
    short = path.rsplit(".", 1)[-1]
    if short == "functional_call":
        return torch.nn.functional_call(args, kwargs, node)
    if path.startswith("torch.autograd.functional.") and short in _AT_ONCE:
        return _autograd_functional(torch, short, args, kwargs, node)
    if short in _OF_A_FUNCTION and (args or "func" in kwargs):
        function = args[0] if args else kwargs["func"]
        return Native(short, lambda m, given, named, at: _transformed(torch, short, function, given, named, at))
    if short in ("vjp", "jvp") and args:
        return _linearised(torch, short, args, kwargs, node)
    if short == "stack_module_state" and args:
        return _stacked(torch, args[0], node)
    return torch.opaque_result(path, args, kwargs, node)


def _transformed(torch: Torch, short: str, function: Value, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    result = torch.machine.call(function, args, kwargs, node)
    if short in ("vmap", "functionalize"):
        # The same ops run on all rows at once, and build the same graph: one number for each row.
        for each in only_tensors(torch.tensors(result)):
            each.forget(Mark.UNDIVIDED)
        return result
    computed = torch.tensors(result)
    wanted: Value = positional(args, 0)
    if short == "grad_and_value":
        return (_derivative(torch, short, computed, wanted, node), first_part(result))
    return _derivative(torch, short, computed, wanted, node)


def _derivative(
    torch: Torch, short: str, computed: list[Tensor | Unknown], wanted: Value, node: ast.AST, linked: Fact = "may"
) -> Value:
    """Return a derivative in the structure of what it is taken by; a constant where nothing had a graph.

    One of what is linear in its inputs has no graph, unless it is `linked`.
    """
    exists = requires_any(computed)
    if torch.world.modes.grad_mode == "no":
        exists = "no"
    carriers = [value for value in computed if value.node is not None]
    for value in carriers:
        if value.node is not None:
            torch.world.writer.emit(GraphRead(torch.world.position.site(node), value.node))

    def like(value: Value) -> Value:
        made = behaviour(value).mapped(like, 0)
        if made is not None:
            return made
        if exists == "no":
            return torch.world.graph.data(short)
        if not carriers:
            return Unknown.named(short)
        return torch.world.graph.build(short, node, carriers, keeps="may", linked=linked, exists=linked)

    return like(wanted)


def _linearised(torch: Torch, short: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """`torch.func.vjp(f, *primals)` and `jvp(f, primals, tangents)`: the value, and a function or the derivative."""
    if short == "jvp":
        primals = positional(args, 1, ())
        result = torch.machine.call(args[0], [*primals] if isinstance(primals, tuple) else [], {}, node)
        return (result, _derivative(torch, short, torch.tensors(result), result, node))
    result = torch.machine.call(args[0], args[1:], kwargs, node)
    computed = torch.tensors(result)

    def pull(given: Args, at: ast.AST) -> Value:
        sources = [*computed, *torch.tensors(tuple(given))]
        return tuple(_derivative(torch, short, sources, arg, at) for arg in args[1:])

    return (result, Native("vjp", lambda m, given, named, at: pull(given, at)))


def _stacked(torch: Torch, models: Value, node: ast.AST) -> Value:
    """`stack_module_state(models)`: new leaves by the names of the first model's parameters, and its buffers."""
    items = [] if known_elements(models) is None else list(torch.machine.elements(models, node))
    if not items:
        return torch.opaque_result("stack_module_state", [models], {}, node)
    parameters = Dict({})
    for name, tensor in torch.nn.named_parameters(items[0]):
        stacked = torch.world.graph.data(name)
        if tensor.graph == "yes":
            torch.world.graph.make_leaf(stacked, node, name)
        parameters.items[name] = stacked
    return (parameters, Dict({}, more=True))


def _autograd_functional(torch: Torch, short: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Without create_graph what torch.autograd.functional computes is cut from every graph."""
    names = ("func", "inputs", *(("v",) if short in ("vjp", "jvp", "hvp", "vhp") else ()), "create_graph", "strict")
    given = {**dict(zip(names, args)), **kwargs}
    inputs = given.get("inputs")
    create = torch.machine.known_truth(given.get("create_graph", False))
    world = torch.world
    with world.modes.recording("yes"):
        entered = _entered(torch, inputs, create, node)
        result = torch.machine.call(given.get("func"), listed(entered), {}, node)
    roots = _walked(torch, torch.tensors(result), only_tensors(torch.tensors(entered)), node, create)
    if create is False and roots and world.modes.grad_mode != "no":
        constant = (torch.autograd.cut(world.position.site(node), roots),)
        return _without_graph(torch, short, inputs, result, constant)
    computed = [] if create is False else torch.tensors(result)
    linked: Fact = "yes" if create and short in ("jacobian", "vjp") and _is_compiled(torch, roots) else "may"
    if short not in _DERIVATIVES:
        wanted = result if short == "jvp" else inputs
        value = _value_alone(torch, short, result, create)
        return (value, _derivative(torch, short, computed, wanted, node, linked))
    if not _is_several(inputs, result):
        return _derivative(torch, short, computed, inputs, node, linked)
    return torch.opaque_result(short, list(computed), {}, node) if create is not False else _nested(short)


def _is_compiled(torch: Torch, roots: tuple[int, ...]) -> bool:
    """Whether what a function gave certainly comes through a compiled call: the backward of one always has a graph."""
    ledger = torch.world.writer.ledger
    reached = ledger.ancestry(roots)
    return any(
        fact == "yes" and number in ledger.regions and ledger.regions[number].call.whole == "yes"
        for number, fact in reached.items()
    )


def _walked(
    torch: Torch, outputs: list[Tensor | Unknown], targets: list[Tensor], node: ast.AST, create: bool | None
) -> tuple[int, ...]:
    """Walk from what a function gave to what it got; return the nodes that it gave."""
    roots = tuple(value.node for value in outputs if value.node is not None)
    # What was saved is walked here, and kept for the next row; an output without graph gives zeros.
    walked = [value for value in outputs if value.requires() == "yes"]
    if roots and walked and targets:
        torch.autograd.walk(walked, targets, node, create)
    return roots


def _is_several(inputs: Value, result: Value) -> bool:
    """Whether a function has several inputs or results: each result then has a derivative by each input."""
    return isinstance(inputs, tuple) or isinstance(result, tuple)


def _without_graph(torch: Torch, short: str, inputs: Value, result: Value, cuts: tuple[int, ...]) -> Value:
    """Return what is computed without create_graph, which is cut from every graph."""
    data = torch.world.graph.data
    if short in _DERIVATIVES:
        return Unknown(short, None, cuts, Kind.PLAIN) if _is_several(inputs, result) else data(short, cuts)
    wanted = result if short == "jvp" else inputs
    value = _value_alone(torch, short, result, create=False)
    return (value, as_given([data(short, cuts) for _ in listed(wanted)], wanted))


def _value_alone(torch: Torch, short: str, result: Value, create: bool | None) -> Value:
    """Return the value that stands before a derivative: without create_graph it is cut from its graph as well."""
    return torch.world.graph.data(short) if create is False and isinstance(result, Tensor) else result


def _nested(short: str) -> Unknown:
    """Return the derivatives of several values by several inputs, which have no graph."""
    nested = Unknown.named(short)
    nested.take_for_data()
    return nested


def _entered(torch: Torch, inputs: Value, create: bool | None, node: ast.AST) -> Value:
    """Return what the function gets: leaves of its own, or what has the graphs of the inputs."""
    if isinstance(inputs, tuple):
        return tuple(_entered(torch, item, create, node) for item in inputs)
    if not isinstance(inputs, Tensor):
        return inputs
    if create is False or inputs.node is None:
        return torch.world.graph.make_leaf(torch.world.graph.data(inputs.name), node, inputs.name)
    return torch.op("view_as", [inputs, inputs], {}, node)
