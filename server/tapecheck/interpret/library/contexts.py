"""Context managers of the standard library: contextmanager, ExitStack, nullcontext, suppress, closing."""

from __future__ import annotations

import ast

from tapecheck.interpret.engine import Engine
from tapecheck.interpret.objects import exceptions
from tapecheck.interpret.values import (
    Args,
    Context,
    Generator,
    Instance,
    Kwargs,
    Native,
    Signal,
    Unknown,
    Value,
    argument,
    bound_function,
    is_function,
    positional,
)


class _Manager(Instance):
    """A context manager that runs code of the program's, or several others."""

    __slots__ = ()
    switches = True


def contextmanager(m: Engine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """`@contextmanager`: a generator function whose one yield stands for the block."""
    function = positional(args, 0, Unknown("function"))
    return Native("contextmanager", lambda m2, given, named, at: _managed(m2, function, given, named, at), method=True)


def _managed(m: Engine, function: Value, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    manager = _Manager(None, "contextlib.GeneratorContextManager")
    generator = m.call(function, args, dict(kwargs), node)

    def enter(m2: Engine, given: Args, named: Kwargs, at: ast.AST) -> Value:
        if not isinstance(generator, Generator):
            return generator if isinstance(generator, Unknown) else Unknown("context")
        return m2.resume(generator)

    def leave(m2: Engine, given: Args, named: Kwargs, at: ast.AST) -> Value:
        if not isinstance(generator, Generator):
            return False
        raised, manager.raised = manager.raised, None
        if raised is None:
            try:
                m2.resume(generator)
            except Signal as signal:
                if signal.kind == "StopIteration":
                    return False
                raise
            return False
        try:
            m2.resume(generator, None, raised)
        except Signal as signal:
            if signal is raised:
                return False
            if signal.kind == "StopIteration":
                return True
            raise
        return False

    def decorate(m2: Engine, given: Args, named: Kwargs, at: ast.AST) -> Value:
        inner = given[0] if given else Unknown("function")
        return Native(
            "contextmanager",
            lambda m3, a, k, n: _within(m3, _managed(m3, function, args, kwargs, n), inner, a, k, n),
            method=True,
        )

    methods = {"__enter__": enter, "__exit__": leave, "__call__": decorate}
    manager.attrs.update({name: Native(name, method) for name, method in methods.items()})
    return manager


def _within(m: Engine, manager: Value, function: Value, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Call a function inside a context."""
    m.enter(manager, node)
    iteration = m.world.position.iteration
    try:
        result = m.call(function, args, kwargs, node)
    except Signal as raised:
        if m.leave(manager, node, raised):
            m.caught(raised, iteration)
            return None
        raise
    m.leave(manager, node)
    return result


def decorated(manager: Instance, function: Value) -> Native:
    """Return a function under a context manager used as decorator (ContextDecorator)."""
    return Native(
        "decorated", lambda m, args, kwargs, node: _within(m, manager, function, args, kwargs, node), method=True
    )


def suppress(m: Engine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    classes = tuple(args)
    m.library.trusted_exceptions(classes, node)
    return Context(
        lambda m2: None,
        lambda m2, raised: raised is not None and exceptions.matches(raised, classes, node),
        swallows=exceptions.caught_by(classes, node),
    )


def expecting() -> Context:
    """`pytest.raises` and its like: the exception is wanted, whatever it is."""
    return Context(lambda m: Unknown("excinfo"), lambda m, raised: raised is not None, swallows=exceptions.ANY)


def nullcontext(m: Engine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    value = argument(args, kwargs, 0, "enter_result")
    return Context.giving(value)


def closing(m: Engine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    value = positional(args, 0, Unknown("thing"))

    def leave(m2: Engine, raised: Signal | None) -> None:
        m2.call(m2.get_attribute(value, "close", node), [], {}, node)

    return Context(lambda m2: value, leave)


def _left_by(m: Engine, pushed: Value, node: ast.AST) -> Value:
    """Return a context for what is pushed onto an ExitStack: one, or a function that is called as its exit."""
    if not is_function(pushed) and bound_function(pushed) is None:
        return pushed

    def leave(m2: Engine, raised: Signal | None) -> bool:
        return m2.known_truth(m2.call(pushed, m2.exception_info(raised), {}, node)) is True

    return Context(lambda m2: None, leave)


def exit_stack(m: Engine, args: Args, kwargs: Kwargs, node: ast.AST) -> Instance:
    """ExitStack: contexts entered one by one, left in reverse order."""
    stack = _Manager(None, "contextlib.ExitStack")
    entered: list[Value] = []

    def enter_context(m2: Engine, given: Args, named: Kwargs, at: ast.AST) -> Value:
        manager = given[0] if given else Unknown("context")
        value = m2.enter(manager, at)
        entered.append(manager)
        return value

    def push(m2: Engine, given: Args, named: Kwargs, at: ast.AST) -> Value:
        entered.extend(_left_by(m2, one, at) for one in given[:1])
        return given[0] if given else None

    def callback(m2: Engine, given: Args, named: Kwargs, at: ast.AST) -> Value:
        function, *arguments = given

        def leave(m3: Engine, raised: Signal | None) -> None:
            m3.call(function, list(arguments), dict(named), at)

        entered.append(Context(lambda m3: None, leave))
        return function

    def pop_all(m2: Engine, given: Args, named: Kwargs, at: ast.AST) -> Value:
        other = exit_stack(m2, [], {}, at)
        if isinstance(other.state, list):
            other.state.extend(entered)
        entered.clear()
        return other

    def leave(m2: Engine, given: Args, named: Kwargs, at: ast.AST) -> Value:
        raised, stack.raised = stack.raised, None
        before = raised
        while entered:
            try:
                if m2.leave(entered.pop(), at, raised):
                    raised = None
            except Signal as signal:
                raised = signal
        if raised is not None and raised is not before:
            raise raised
        return before is not None and raised is None

    stack.state = entered
    methods = {
        "__enter__": lambda m2, given, named, at: stack, "__exit__": leave, "close": leave, "push": push,
        "enter_context": enter_context, "callback": callback, "pop_all": pop_all, "__aenter__": lambda *a: stack,
        "__aexit__": leave, "enter_async_context": enter_context, "aclose": leave,
        "push_async_exit": push, "push_async_callback": callback,
    }  # fmt: skip
    stack.attrs.update({name: Native(name, method) for name, method in methods.items()})
    return stack
