"""Calling: functions, generators, classes; how deep a call is followed."""

from __future__ import annotations

import ast
from collections.abc import Generator as PyGenerator

from tapecheck.interpret import limits
from tapecheck.interpret.engine import Engine
from tapecheck.interpret.objects import exceptions, records, syntax
from tapecheck.interpret.python import functions, summaries
from tapecheck.interpret.state import Frame
from tapecheck.interpret.state.assumptions import Begun
from tapecheck.interpret.values import (
    MORE_KEYWORDS,
    Args,
    Class,
    Env,
    Function,
    Generator,
    Instance,
    Kwargs,
    Lib,
    Run,
    Signal,
    Unknown,
    Value,
    WayOut,
    behaviour,
    is_module,
    only,
    only_tensors,
    positional,
)
from tapecheck.source.skipped import TEXT, is_function
from tapecheck.tape import NOTHING, Leaf


def call(machine: Engine, function: Value, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Call anything; answers the result."""
    return behaviour(function).called(machine, args, kwargs, node)


def call_function(
    machine: Engine, function: Function, args: Args, kwargs: Kwargs, node: ast.AST, *, forward: bool = False
) -> Value:
    body = function.node
    if forward and not function.module.notes.of(body, syntax.has_yield):
        return summaries.forward(
            machine, function, args, kwargs, node, lambda: _run(machine, function, args, kwargs, node, forward=True)
        )
    return _run(machine, function, args, kwargs, node)


def _run(
    machine: Engine, function: Function, args: Args, kwargs: Kwargs, node: ast.AST, *, forward: bool = False
) -> Value:
    world = machine.world
    body = function.node
    if world.calls.depth >= limits.MAX_DEPTH:
        world.omissions.not_followed.setdefault(world.position.span(node))
        return machine.library.opaque_result(function.name, args, kwargs, node)
    if _too_deep(machine, body, args):
        return machine.library.opaque_result(function.name, args, kwargs, node)
    if is_function(body):
        return machine.call(Lib(TEXT), [*args, *kwargs.values()], {"anything": True}, node)
    notes = function.module.notes
    unwritten = forward and notes.of(body, syntax.is_unwritten) and not only(machine.world.writer.tape.events, Leaf)
    if unwritten or (not machine.expects("NotImplementedError") and notes.of(body, syntax.is_abstract)):
        # A subclass, or the author of an exercise, gives what this one leaves out, with parameters that nobody knows.
        result = machine.library.opaque_result(function.name, args, kwargs, node)
        if isinstance(result, Unknown):
            result.trust = result.trust._replace(returned=True, data=False)
        return result
    if (decorator := world.assumptions.decorated.get(id(body))) is None:
        return _run_body(machine, function, args, kwargs, node, forward=forward)
    text = f"`{decorator}` calls `{function.name}` as it is"
    if notes.of(body, syntax.has_yield):
        alone = not isinstance(body, ast.Lambda) and len(body.decorator_list) == 1
        # What comes of it runs when it is resumed; of one that becomes a context manager, the block is a part.
        world.assumptions.note("decorator", text, node, NOTHING if alone else ())
        return _run_body(
            machine,
            function,
            args,
            kwargs,
            node,
            forward=forward,
            trusted=world.assumptions.begin("decorator", text, node) if alone else None,
        )
    begun, stretch = world.assumptions.begin("decorator", text, node), world.modes.apart()
    try:
        result = _run_body(machine, function, args, kwargs, node, forward=forward)
        world.graph.lend(only_tensors((*args, *kwargs.values(), result)))
        return result
    finally:
        world.assumptions.end(begun)
        world.modes.resume(stretch)


def _is_forward(function: Function, receiver: Value) -> bool:
    """Whether a method is what a module's class has in the place of torch's call, or what that runs, called without
    it.
    """
    return function.name.endswith((".__call__", ".forward")) and is_module(receiver)


def _run_body(
    machine: Engine,
    function: Function,
    args: Args,
    kwargs: Kwargs,
    node: ast.AST,
    *,
    forward: bool,
    trusted: Begun | None = None,
) -> Value:
    world, body, notes = machine.world, function.node, function.module.notes
    world.calls.note(body, function.name)
    if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        at = world.position.span(node) if world.position.frames else None
        place = world.position.span_in(function.module, body)
        world.calls.recorded.add((place, world.modes.grad_mode != "no", at))
    env = Env(function.env, function.env.globals)
    if machine.reads is not None:
        machine.scopes.append(env.vars)
    functions.bind_arguments(machine, function, args, kwargs, env, node)
    if function.owner is not None:
        env.cell = (function.owner, args[0] if args else None)
        forward = forward or _is_forward(function, positional(args, 0))
    frame = Frame(function.name, function.module, world.position.span(node) if world.position.frames else None, forward)
    if notes.of(body, syntax.has_yield):
        env.sent = {}
        guarded = notes.of(body, syntax.yields_guarded)
        return Generator(_run_generator(machine, function, env, frame, trusted), env, guarded=guarded)
    world.calls.begin(body)
    machine.envs.append(env)
    world.position.push(frame)
    try:
        if isinstance(body, ast.Lambda):
            return machine.eval(body.body, env)
        begun = len(world.writer.tape.events)
        signal = _to_its_end(machine.block(body.body, env))
        if function.owner is not None and body.name == "step" and args and isinstance(args[0], Instance):
            machine.library.stepped(args[0], begun, node)
        return None if signal is None else signal.value
    finally:
        world.position.pop()
        machine.envs.pop()
        world.calls.end()


def _to_its_end(run: Run) -> WayOut | None:
    """Run statements that give nothing on the way; return how they leave their block."""
    try:
        while True:
            next(run)
    except StopIteration as stop:
        left: WayOut | None = stop.value
        return left


def _too_deep(machine: Engine, body: ast.AST, args: Args) -> bool:
    """Whether a function calls itself too often to go on: further where a known number may count down
    or a known container be gone through.
    """
    running = machine.world.calls.times_running(body)
    if running < limits.MAX_RECURSION:
        return False
    counts_down = any(type(arg) is int or behaviour(arg).is_whole() for arg in args)
    return running >= limits.MAX_COUNTED_RECURSION or not counts_down


def _run_generator(
    machine: Engine, function: Function, env: Env, frame: Frame, trusted: Begun | None
) -> PyGenerator[Value, Value, Value]:
    """Run a generator function; its loops and frames are put in place whenever it is resumed.

    `trusted` is what is taken for granted of it while it runs.
    """
    assert not isinstance(function.node, ast.Lambda)
    run = machine.block(function.node.body, env)
    inner: tuple[tuple[int, int], ...] = ()
    sent: Value = None
    thrown: Signal | None = None
    while True:
        outside = machine.world.position.iteration
        machine.world.position.iteration = (*outside, *inner)
        machine.world.position.push(frame)
        machine.envs.append(env)
        machine.world.calls.begin(function.node)
        begun = machine.world.assumptions.resume(trusted) if trusted is not None else None
        try:
            value = run.send(sent) if thrown is None else run.throw(thrown)
        except StopIteration as stop:
            return None if stop.value is None else stop.value.value
        finally:
            if begun is not None:
                machine.world.assumptions.pause(begun)
            here = machine.world.position.iteration
            inner = here[len(outside) :] if here[: len(outside)] == outside else ()
            machine.world.position.iteration = outside
            machine.world.position.pop()
            machine.envs.pop()
            machine.world.calls.end()
        thrown = None
        try:
            sent = yield value
        except Signal as signal:
            thrown = signal


def resume(machine: Engine, generator: Generator, sent: Value = None, thrown: Signal | None = None) -> Value:
    """Return the next value of a generator; raises the program's StopIteration at its end."""
    if generator.pending and sent is None and thrown is None:
        return generator.pending.pop(0)
    if generator.done:
        if thrown is not None:
            raise thrown
        raise Signal("StopIteration")
    try:
        return generator.run.send(sent) if thrown is None else generator.run.throw(thrown)
    except StopIteration as stop:
        generator.done = True
        raise Signal("StopIteration", exceptions.stop_iteration(stop.value)) from None
    except Signal:
        generator.done = True
        raise


def close(machine: Engine, generator: Generator) -> None:
    """Close a generator that is left before its end: its `finally` and `with` blocks are run."""
    if not generator.done:
        try:
            resume(machine, generator, None, Signal("GeneratorExit"))
        except Signal as signal:
            if signal.kind not in ("GeneratorExit", "StopIteration"):
                raise
        generator.done = True


def make_function(
    machine: Engine, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, env: Env, name: str
) -> Function:
    arguments: ast.arguments = node.args
    defaults = [machine.eval(default, env) for default in arguments.defaults]
    kw_defaults = [machine.eval(default, env) if default is not None else None for default in arguments.kw_defaults]
    return Function(node, env, machine.module_of(env), name, defaults, kw_defaults)


def instantiate(machine: Engine, cls: Class, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    bases = cls.library_bases()
    special = machine.library.instantiate_special(cls, bases, args, kwargs, node)
    if special is not None:
        return special
    new = cls.held("__new__")
    if new is not None:
        made = call(machine, behaviour(new).undecorated(), [cls, *args], dict(kwargs), node)
        if not isinstance(made, Instance) or made.cls is None or cls not in made.cls.mro():
            return made
        owner = made
    else:
        owner = new_object(machine, cls)
    if cls.kind == "dataclass" and not cls.defines("__init__"):
        records.fill(machine, cls, owner, args, kwargs, node)
        machine.library.trusted_bases(cls, bases, owner, node)
        return owner
    init = machine.find_method(owner, "__init__")
    if init is not None:
        call(machine, init, args, kwargs, node)
    else:
        kwargs.pop(MORE_KEYWORDS, None)
        machine.library.construct_base(owner, bases, args, kwargs, node)
    machine.library.trusted_bases(cls, bases, owner, node)
    return owner


def new_object(machine: Engine, cls: Class) -> Instance:
    """Return what `object.__new__` gives: an object nothing was set on."""
    owner = Instance(cls, module=machine.library.is_module_class(cls), born=machine.world.position.clock)
    machine.library.prepare_object(owner, cls.library_bases())
    return owner
