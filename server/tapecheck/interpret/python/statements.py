"""Statements: what each does to names, values and the way the program goes.

Those that hold other statements are generators, see `Engine.block`.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from tapecheck.interpret.engine import Engine
from tapecheck.interpret.objects import exceptions, records, unknowns
from tapecheck.interpret.python import conditions, expressions, flow, guards, loops, raising
from tapecheck.interpret.state import Guarded, Place
from tapecheck.interpret.values import (
    ByKind,
    Class,
    Context,
    Env,
    Instance,
    Lib,
    Module,
    Native,
    Run,
    Signal,
    Unknown,
    Value,
    WayOut,
    behaviour,
    bound_function,
    function_of,
    is_function,
    listed,
    only,
)
from tapecheck.source import expects
from tapecheck.source.nodes import given_to, id_of, taken_apart
from tapecheck.tape import Raised

_HOOK = "__init_subclass__"
_EXPECTED = frozenset(
    (
        "StopIteration", "StopAsyncIteration", "GeneratorExit", "AttributeError", "IndexError", "KeyError",
        "KeyboardInterrupt", "SystemExit",
    )
)  # fmt: skip
"""Exceptions that end something on purpose, or that Python itself looks out for."""

_CONTAINER_TYPES = ("dict", "list", "set")


def _expr(machine: Engine, node: ast.Expr, env: Env) -> None:
    machine.world.position.discarded = node.value
    if isinstance(node.value, (ast.Name, ast.Attribute)):
        expressions.lone(machine, node.value, env)
    else:
        machine.eval(node.value, env)


def _assign(machine: Engine, node: ast.Assign, env: Env) -> None:
    match node:
        case ast.Assign(targets=[ast.Tuple(elts=parts) | ast.List(elts=parts)], value=ast.Call() as call):
            machine.world.position.unpacked[call] = len(parts)
    value = expressions.written(machine, node.value, env)
    for target in node.targets:
        machine.assign(target, value, env, node)
        if not machine.world.position.iteration:
            continue
        match node.value:
            case ast.BinOp():
                loops.note_count(machine, target, value, env)
            case ast.Call() as call:
                for part in machine.world.position.notes.of(target, _given_back, call):
                    loops.note_count(machine, part, env.vars.get(id_of(part)), env)
        if name := id_of(target):
            guards.note_flag(machine, name, node.value, env)


def _given_back(target: ast.expr, call: ast.Call) -> list[ast.expr]:
    """Return the names that a call is given and gives a new value: `seen, step = play(step)`."""
    given = set(filter(None, map(id_of, given_to(call))))
    return [part for part in taken_apart([target]) if id_of(part) in given]


def _if(machine: Engine, node: ast.If, env: Env) -> Run:
    world = machine.world
    choices = world.choices
    answered = len(choices.answered)
    choices.followed.clear()
    choices.passed.setdefault(node, world.position.frames[-1].file)
    taken = conditions.branch(machine, node, env)
    choices.came_out.add((node, taken))
    places, followed = choices.answered[answered:], choices.followed[:]
    if world.watcher is not None and (places or followed):
        signal = yield from _watched_if(machine, node, taken, places, followed, env)
    else:
        body = node.body if taken else node.orelse
        signal = (yield from machine.block(body, env)) if body else None
    if signal is not None:
        choices.led_out[node] = None
    return signal


def _watched_if(
    machine: Engine, node: ast.If, taken: bool, places: Sequence[Place], followed: Sequence[Place], env: Env
) -> Run:
    """Run a branch of an `if`, its effects watched; `places` are those of the answers that it got itself, `followed` of
    such as were given before, and it hangs on as well.
    """
    world = machine.world
    assert world.watcher is not None
    if places or world.watcher.supplies(world, node, taken, env):
        places = (*places, *followed)
    watch = world.watcher.decided(world, node, taken, places, env) if places else None
    try:
        signal = yield from machine.block(node.body if taken else node.orelse, env)
    except Signal:
        if watch is not None:
            watch.broken()
        raise
    if watch is not None:
        watch.left(world)
    return signal


def _with(machine: Engine, node: ast.With | ast.AsyncWith, env: Env) -> Run:
    entered: list[Value] = []
    raised: Signal | None = None
    signal: WayOut | None = None
    position = machine.world.position
    iteration, around = position.iteration, position.manager
    handlers = [*machine.handlers]
    guarded: list[Guarded] = []
    failing: list[raising.Failing] = []
    try:
        for item in node.items:
            manager = position.manager = machine.eval(item.context_expr, env)
            if isinstance(manager, Unknown) and expects(item.context_expr):
                manager = position.manager = machine.library.expecting()
            if isinstance(manager, Context) and manager.swallows:
                machine.handlers.append(manager.swallows)
            value = enter(machine, manager, node)
            entered.append(manager)
            guarded += _guarded_by(machine, manager, env)
            failing += raising.of_manager(machine, manager, item, node)
            if item.optional_vars is not None:
                machine.assign(item.optional_vars, value, env, node)
        position.guarded += guarded
        try:
            with raising.Attempt(machine, failing, env):
                signal = yield from machine.block(node.body, env)
        finally:
            position.leave(guarded)
    except Signal as error:
        raised = error
    machine.handlers[:], position.manager = handlers, around
    # Whatever else ends the block (the budget, a generator thrown away) ends the whole way through the program.
    while entered:
        try:
            if leave(machine, entered.pop(), node, raised) and raised is not None:
                caught(machine, raised, iteration)
                raised = None
        except Signal as error:
            raised = error
    if raised is not None:
        raise raised
    return signal


def _guarded_by(machine: Engine, manager: Value, env: Env) -> list[Guarded]:
    """Return what catches the exceptions of a block that is run in a context, if anything does."""
    caught_here = raising.caught_in(machine, manager)
    if not caught_here:
        return []
    guarded = [Guarded([], machine.world.position.frames[-1].module, env, caught_here)]
    for one in only([manager], Instance):
        leaving = bound_function(raising.leaving(machine, one))
        body = getattr(leaving and leaving.node, "body", None)
        if leaving is not None and type(body) is list:
            guarded.append(Guarded([body], leaving.module, leaving.env, exceptions.ANY))
    return guarded


def enter(machine: Engine, manager: Value, node: ast.AST) -> Value:
    """Enter a context; answers what `as` binds."""
    machine.operates((manager,), node)
    return behaviour(manager).entered(machine, node)


def leave(machine: Engine, manager: Value, node: ast.AST, raised: Signal | None = None) -> bool:
    """Leave a context that was entered; answers whether it swallows the exception its block ended in."""
    machine.operates((manager,), node)
    return behaviour(manager).left(machine, raised, node)


def caught(machine: Engine, raised: Signal, iteration: tuple[tuple[int, int], ...]) -> None:
    """Note that an exception goes no further: the program is back at the statement that caught it."""
    machine.world.position.iteration = iteration
    machine.world.position.stamp += 1
    _mark_caught(machine, raised)


def _try(machine: Engine, node: ast.Try, env: Env) -> Run:
    if not node.finalbody:
        return (yield from _handled(machine, node, env))
    iteration = machine.world.position.iteration
    failing, position = raising.of_finally(machine, node), machine.world.position
    guarded = [Guarded([node.finalbody], position.frames[-1].module, env, exceptions.ANY)] if failing else []
    try:
        position.guarded += guarded
        with raising.Attempt(machine, failing, env):
            signal = yield from _handled(machine, node, env)
        position.leave(guarded)
    except Signal as raised:
        position.leave(guarded)
        instead = yield from machine.block(node.finalbody, env)
        if instead is None:
            raise
        caught(machine, raised, iteration)
        return instead
    instead = yield from machine.block(node.finalbody, env)
    return signal if instead is None else instead


def _handled(machine: Engine, node: ast.Try, env: Env) -> Run:
    """Yield the body of a `try` with its handlers and its `else`."""
    position = machine.world.position
    iteration = position.iteration
    caught_here = _caught_by(machine, node, env)
    try:
        machine.handlers.append(caught_here)
        handlers = [one.body for one in node.handlers]
        guarded = Guarded(handlers, position.frames[-1].module, env, caught_here)
        position.guarded.append(guarded)
        failing = raising.of_try(machine, node)
        try:
            with raising.Attempt(machine, failing, env):
                signal = yield from machine.block(node.body, env)
        finally:
            _no_longer(machine, caught_here)
            position.leave([guarded])
    except Signal as raised:
        handler = _handler(machine, node, raised, env)
        if handler is None:
            raise
        caught(machine, raised, iteration)
        if handler.name:
            env.vars[handler.name] = exceptions.object_of(raised)
        machine.handling.append(raised)
        try:
            return (yield from machine.block(handler.body, env))
        finally:
            machine.handling.pop()
    if signal is None and node.orelse:
        signal = yield from machine.block(node.orelse, env)
    return signal


def _caught_by(machine: Engine, node: ast.Try, env: Env) -> frozenset[str]:
    """Return the names of the classes that a `try` catches."""
    names = exceptions.ANY if any(one.type is None for one in node.handlers) else frozenset()
    for kind in (one.type for one in node.handlers if one.type is not None):
        wanted = machine.eval(kind, env)
        machine.library.trusted_exceptions(listed(wanted), kind)
        names |= exceptions.caught_by(wanted, kind)
    return names


def _no_longer(machine: Engine, names: frozenset[str]) -> None:
    """Note that a block which catches these exceptions is left: a generator may have been left before."""
    if names in machine.handlers:
        machine.handlers.reverse()
        machine.handlers.remove(names)
        machine.handlers.reverse()


def _handler(machine: Engine, node: ast.Try, raised: Signal, env: Env) -> ast.ExceptHandler | None:
    for handler in node.handlers:
        if handler.type is None:
            return handler
        wanted = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
        for expression in wanted:
            if exceptions.matches(raised, machine.eval(expression, env), expression):
                return handler
    return None


def _mark_caught(machine: Engine, signal: Signal, caught: bool = True) -> None:
    """Note on the tape whether an exception of torch's was caught (or raised again)."""
    if signal.node is not None and machine.world.position.frames:
        events = machine.world.writer.tape.events
        for index in range(len(events) - 1, -1, -1):
            event = events[index]
            if isinstance(event, Raised):
                events[index] = Raised(event.at, event.exception, event.message, event.backward, caught)
                return


def _match(machine: Engine, node: ast.Match, env: Env) -> Run:
    subject = machine.eval(node.subject, env)
    for case in node.cases:
        matched = _matches(machine, node, case.pattern, subject, env)
        if matched is None:
            text, hidden = "case " + ast.unparse(case.pattern), unknowns.hidden(machine, subject)
            matched = machine.world.choices.choose(case.pattern, True, text, hidden=hidden)
        if matched and case.guard is not None:
            matched = machine.test(case.guard, env, case.guard)
        if matched:
            return (yield from machine.block(case.body, env))
    return None


def _matches(machine: Engine, node: ast.Match, pattern: ast.pattern, subject: Value, env: Env) -> bool | None:
    """Return whether a pattern fits; of one value that is a condition as any other, which has the same answer again."""
    match pattern:
        case ast.MatchValue() | ast.MatchSingleton():
            asked = flow.asked(machine, pattern, subject, env)
            fits = machine.known_truth(asked)
            return conditions.answered(machine, pattern, asked, node) if fits is None else fits
    return flow.match_pattern(machine, pattern, subject, env)


def _function_def(machine: Engine, node: ast.FunctionDef | ast.AsyncFunctionDef, env: Env) -> None:
    value: Value = machine.make_function(node, env, node.name)
    for decorator in reversed(node.decorator_list):
        value = behaviour(_decorator(machine, decorator, node, env)).decorates(machine, value, decorator)
    machine.store_name(node.name, value, env, node)


def _decorator(machine: Engine, decorator: ast.expr, node: ast.stmt, env: Env) -> Value:
    """Return a decorator; note what one of the program is given."""
    value = machine.eval(decorator, env)
    if is_function(value) or isinstance(value, (Class, Instance)):
        machine.module_of(env).handed_on.add(id(node))
    return value


def _class_def(machine: Engine, node: ast.ClassDef, env: Env) -> None:
    namespace = Env(env, env.globals)
    cls = Class(node.name, _bases(machine, node, env), namespace.vars, machine.module_of(env), node)
    for _ in machine.block(node.body, namespace):
        pass
    _own_functions(cls, namespace, env)
    records.finish(machine, cls, node, namespace)
    _call_hooks(machine, cls, node, env)
    for word in node.keywords:
        if word.arg == "metaclass":
            cls.remade_by = machine.library.unseen_maker(machine.eval(word.value, env))
    if by := machine.library.unseen_type(cls):
        machine.library.perhaps_registered(cls, by, cls.module, node)
    result: Value = cls
    for decorator in reversed(node.decorator_list):
        result = decorate_class(machine, _decorator(machine, decorator, node, env), result, decorator)
    machine.store_name(node.name, result, env, node)


def _bases(machine: Engine, node: ast.ClassDef, env: Env) -> list[Value]:
    """Return the bases of a class: `class Config(dict)` has a built-in type as one out of a library."""
    bases = [machine.eval(base, env) for base in node.bases if not isinstance(base, ast.Starred)]
    builtins = [machine.library.builtins[name] for name in _CONTAINER_TYPES]
    return [Lib(f"builtins.{behaviour(base).name_as_type()}") if base in builtins else base for base in bases]


def _call_hooks(machine: Engine, cls: Class, node: ast.ClassDef, env: Env) -> None:
    """Tell what stands in the body of a class its name, and the class that it derives from of the new one."""
    for name, value in list(cls.namespace.items()):
        method = machine.find_method(value, "__set_name__")
        if method is not None:
            machine.call(method, [cls, name], {}, node)
    hook = next((base.namespace[_HOOK] for base in cls.mro()[1:] if _HOOK in base.namespace), None)
    if hook is not None:
        named = {word.arg: machine.eval(word.value, env) for word in node.keywords if word.arg}
        machine.call(behaviour(hook).undecorated(), [cls], named, node)


def _own_functions(cls: Class, namespace: Env, env: Env) -> None:
    """Make functions that stand in the body of a class its methods: they do not see the names of the body."""
    for value in namespace.vars.values():
        function = function_of(value)
        if function is not None:
            function.owner = cls
            if function.env is namespace:
                function.env = env
            function.name = f"{cls.name}.{function.name}" if "." not in function.name else function.name


def decorate_class(machine: Engine, decorator: Value, cls: Value, node: ast.AST) -> Value:
    """Return what a decorator makes of a class; one that nobody can look into is trusted to give the class back."""
    if is_function(decorator) or isinstance(decorator, (Class, Native, Instance)):
        result = machine.call(decorator, [cls], {}, node)
        return cls if result is None or isinstance(result, Unknown) else result
    if isinstance(cls, Class):
        by = machine.library.unseen_maker(decorator)
        cls.remade_by = cls.remade_by or by
        if by:
            machine.library.perhaps_registered(cls, by, cls.module, cls.node)
    return cls


def _delete(machine: Engine, node: ast.Delete, env: Env) -> None:
    for target in node.targets:
        match target:
            case ast.Name(id=name):
                (env.globals if name in env.names_global else env).vars.pop(name, None)
            case ast.Tuple(elts=targets) | ast.List(elts=targets):
                _delete(machine, ast.Delete(targets), env)
            case ast.Attribute(value=value, attr=name):
                owner = machine.eval(value, env)
                machine.operates((owner,), target)
                behaviour(owner).delete_attribute(machine, name, node)
            case ast.Subscript(value=value, slice=place):
                owner = machine.eval(value, env)
                machine.operates((owner,), target)
                behaviour(owner).delete_item(machine, machine.eval(place, env), target)


def delete_attribute(machine: Engine, owner: Instance, name: str, node: ast.AST) -> None:
    if owner.cls is not None:
        if behaviour(owner.cls.held(name)).deletes(machine, owner, node):
            return
        method = machine.find_method(owner, "__delattr__")
        if method is not None:
            machine.call(method, [name], {}, node)
            return
    owner.attrs.pop(name, None)


def _aug_assign(machine: Engine, node: ast.AugAssign, env: Env) -> None:
    value = machine.eval(node.value, env)
    match node.target:
        case ast.Name() as target:
            result = expressions.augment(machine, node, machine.eval(target, env), value)
            machine.store_name(target.id, result, env, node)
        case ast.Attribute() as target:
            owner = machine.eval(target.value, env)
            current = machine.get_attribute(owner, target.attr, target)
            result = expressions.augment(machine, node, current, value)
            machine.set_attribute(owner, target.attr, result, node)
            machine.name_tensor(target, result)
        case ast.Subscript() as target:
            owner = machine.eval(target.value, env)
            index = machine.eval(target.slice, env)
            result = expressions.augment(machine, node, machine.get_item(owner, index, target), value)
            machine.name_tensor(target, result)
            machine.set_item(owner, index, result, node)
    loops.note_count(machine, node.target, result, env)


def _ann_assign(machine: Engine, node: ast.AnnAssign, env: Env) -> None:
    if node.value is not None:
        machine.assign(node.target, expressions.written(machine, node.value, env), env, node)


def _raise(machine: Engine, node: ast.Raise, env: Env) -> None:
    if node.exc is None:
        if not machine.handling:
            raise Signal("RuntimeError")
        _mark_caught(machine, machine.handling[-1], False)
        raise machine.handling[-1]
    value = machine.eval(node.exc, env)
    name = exceptions.name_of(value, node.exc)
    world = machine.world
    guessed = world.choices.guesses or world.choices.reckons
    if guessed and name not in _EXPECTED and not machine.expects(name, value):
        if world.choices.goes_past(world.position.place(node)):
            # The program is taken for one that works: the likelier answers that led here were wrong.
            world.position.risk(name)
            machine.wrong(name, node, own=True)
            return
    raise Signal(name, value)


def _assert(machine: Engine, node: ast.Assert, env: Env) -> None:
    value = conditions.asserted(machine, node, env)
    unknown = isinstance(value, Unknown)
    if machine.known_truth(value) is False and (not unknown or machine.expects("AssertionError")):
        machine.wrong("AssertionError", node, own=True)
    if isinstance(value, Unknown):
        machine.world.position.risk("AssertionError")
        machine.settle(value, True)


def _import(machine: Engine, node: ast.Import, env: Env) -> None:
    for alias in node.names:
        if alias.asname:
            machine.store_name(alias.asname, machine.import_module(alias.name, node, 0), env, node)
        else:
            top = alias.name.split(".")[0]
            whole = machine.import_module(alias.name, node, 0)
            value = whole if top == alias.name else machine.import_module(top, node, 0)
            machine.store_name(top, value, env, node)


def _import_from(machine: Engine, node: ast.ImportFrom, env: Env) -> None:
    base = node.module or ""
    for alias in node.names:
        if alias.name == "*":
            owner = machine.import_module(base, node, node.level)
            if isinstance(owner, Module):
                for key, value in owner.env.vars.items():
                    if not key.startswith("_"):
                        env.vars[key] = value
            else:
                env.starred = [*(env.starred or ()), owner]
            continue
        owner = machine.import_module(base, node, node.level)
        if isinstance(owner, Module):
            if alias.name in owner.env.vars:
                value = owner.env.vars[alias.name]
            else:
                value = machine.submodule(owner, alias.name)
                if value is None:
                    value = machine.import_module(f"{base}.{alias.name}".lstrip("."), node, node.level)
        else:
            value = Lib(f"{owner.path}.{alias.name}") if isinstance(owner, Lib) else Unknown.named(alias.name)
            value = machine.library.constant(value)
        machine.store_name(alias.asname or alias.name, value, env, node)


def _global(machine: Engine, node: ast.Global, env: Env) -> None:
    env.names_global.update(node.names)


def _nonlocal(machine: Engine, node: ast.Nonlocal, env: Env) -> None:
    env.names_outer.update(node.names)


SIMPLE: ByKind[Engine, [Env], None] = ByKind()
"""What to do with each statement that holds no other; `return`, `break` and `continue` aside."""
SIMPLE.register(_function_def, ast.FunctionDef)
SIMPLE.register(_function_def, ast.AsyncFunctionDef)
SIMPLE.register(_class_def, ast.ClassDef)
SIMPLE.register(_delete, ast.Delete)
SIMPLE.register(_aug_assign, ast.AugAssign)
SIMPLE.register(_ann_assign, ast.AnnAssign)
SIMPLE.register(_raise, ast.Raise)
SIMPLE.register(_assert, ast.Assert)
SIMPLE.register(_import, ast.Import)
SIMPLE.register(_import_from, ast.ImportFrom)
SIMPLE.register(_global, ast.Global)
SIMPLE.register(_nonlocal, ast.Nonlocal)
SIMPLE.register(_expr, ast.Expr)
SIMPLE.register(_assign, ast.Assign)
SIMPLE.register(lambda machine, node, env: None, ast.Pass)
COMPOUND: ByKind[Engine, [Env], Run] = ByKind()
"""What to do with those that do; `if` aside, which is the most frequent."""
COMPOUND.register(loops.run_for, ast.For)
COMPOUND.register(loops.run_for, ast.AsyncFor)
COMPOUND.register(loops.run_while, ast.While)
COMPOUND.register(_if, ast.If)
COMPOUND.register(_with, ast.With)
COMPOUND.register(_with, ast.AsyncWith)
COMPOUND.register(_try, ast.Try)
COMPOUND.register(_match, ast.Match)
if hasattr(ast, "TryStar"):
    COMPOUND.register(_try, ast.TryStar)
