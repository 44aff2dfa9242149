"""Exceptions that nobody has seen raised: a block that somebody catches them of may end in one.

What the block calls may raise, an `assert` may fail, a key may be missing. A path has one raised where its policy says
so, before the first statement of the block or behind the last: what is done then is run, in whichever function that is.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tapecheck.interpret.engine import Engine
from tapecheck.interpret.objects import exceptions
from tapecheck.interpret.state import Risk
from tapecheck.interpret.values import (
    Env,
    Instance,
    Lib,
    Native,
    Signal,
    Unknown,
    Value,
    bound_function,
    first_part,
    is_unseen,
    on_graph,
)
from tapecheck.source.nodes import is_literal, of_kind, walk

_FAILING = frozenset((ast.Call, ast.Assert, ast.Subscript, ast.Attribute, ast.BinOp, ast.Raise, ast.Await, ast.For))
"""What may raise, in a program in which all that it imports is there."""
_DIVIDING = frozenset((ast.Div, ast.FloorDiv, ast.Mod))
_LEAVING = frozenset((ast.Return, ast.Break, ast.Continue))
_SAFE = frozenset(
    ("builtins", "torch", "random", "math", "time", "typing", "functools", "itertools", "contextlib", "copy")
)
"""Modules whose functions raise nothing in a program that works."""
_OF_NUMBERS = ("ValueError", "TypeError", "OverflowError")
_PYTHONS = {
    "int": _OF_NUMBERS, "float": _OF_NUMBERS, "complex": _OF_NUMBERS, "chr": _OF_NUMBERS, "ord": _OF_NUMBERS,
    "next": ("StopIteration",), "getattr": ("AttributeError",), "delattr": ("AttributeError",),
    "open": ("OSError",), "input": ("EOFError", "KeyboardInterrupt"), "exit": ("SystemExit",),
    "exec": ("",), "eval": ("",), "divmod": ("ZeroDivisionError",), "index": ("ValueError",),
    "remove": ("ValueError", "KeyError"), "pop": ("IndexError", "KeyError"), "popleft": ("IndexError",),
    "popitem": ("KeyError",),
}  # fmt: skip
"""What functions of Python's own raise that look at what they are given; "" stands for anything."""


@dataclass(frozen=True, slots=True)
class Failing:
    """A block that may end in an exception: of the class `wanted`, where that is known.

    `begin` and `end` are the nodes that stand for one before the first statement and behind the last.
    """

    begin: ast.AST
    end: ast.AST
    wanted: ast.expr | None = None


def of_try(machine: Engine, node: ast.Try) -> Sequence[Failing]:
    """Return what the block of a `try` may end in, for each of its handlers."""
    return machine.world.position.notes.of(node, _of_try)


def _of_try(node: ast.Try) -> tuple[Failing, ...]:
    if not _may_fail(node):
        return ()
    return tuple(Failing(one.type or node, one, one.type) for one in node.handlers)


def of_finally(machine: Engine, node: ast.Try) -> Sequence[Failing]:
    """Return what a `try` may end in whose `finally` leaves the block around it, and thereby drops an exception."""
    return machine.world.position.notes.of(node, _of_finally)


def _of_finally(node: ast.Try) -> tuple[Failing, ...]:
    leaves = any(type(part) in _LEAVING for one in node.finalbody for part in walk(one))
    return (Failing(node, node.finalbody[0]),) if leaves and _may_fail(node) else ()


def of_manager(
    machine: Engine, manager: Value, item: ast.withitem, node: ast.With | ast.AsyncWith
) -> Iterator[Failing]:
    """Yield what a block may end in that is run in a context which catches that."""
    fails = machine.world.position.notes.of(node, _may_fail)
    if fails and caught_in(machine, manager):
        yield Failing(node, item.context_expr)


def caught_in(machine: Engine, manager: Value) -> frozenset[str]:
    """Return the names of the classes of exceptions that may go no further than a context; none where all do."""
    if isinstance(manager, Instance):
        method = leaving(machine, manager)
        function = bound_function(method)
        catches = method is not None and (function is None or function.module.notes.of(function.node, _may_catch))
        return exceptions.ANY if catches else frozenset()
    return getattr(manager, "swallows", frozenset())


def leaving(machine: Engine, manager: Instance) -> Value:
    """Return what is called where a block ends that is run in a context; None where that does nothing."""
    return machine.special(manager, "__exit__") or machine.special(manager, "__aexit__")


def _may_catch(leaving: ast.AST) -> bool:
    """Return whether an `__exit__` may return more than None and False, or raise: an exception goes no further then."""
    given = [one.value for one in of_kind(leaving, ast.Return)]
    returns = any(value is not None and not (is_literal(value, None) or is_literal(value, False)) for value in given)
    return returns or bool(of_kind(leaving, ast.Raise))


def _may_fail(node: ast.Try | ast.With | ast.AsyncWith) -> bool:
    """Return whether what stands in a block may raise at all."""
    return any(type(part) in _FAILING for statement in node.body for part in walk(statement))


class Attempt:
    """A block that is being run: what it may raise meanwhile is noted, and what the path has raised there is."""

    def __init__(self, machine: Engine, failing: Sequence[Failing], env: Env) -> None:
        self._machine, self._failing, self._env = machine, failing, env
        self._risk = Risk()

    def __enter__(self) -> None:
        for one in self._failing:
            self._fail(one, one.begin)
        if self._failing:
            self._machine.world.position.risks.append(self._risk)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if not self._failing:
            return
        risks = self._machine.world.position.risks
        risks[:] = [one for one in risks if one is not self._risk]
        # A generator that nothing goes on with is closed at any time: of what it would have caught nothing is known.
        risky = self._risk.kinds and kind is not GeneratorExit
        for one in self._failing if risky else ():
            if self._fits(one):
                self._machine.world.choices.guard(one.begin, one.end)
        for one in self._failing if kind is None else ():
            self._fail(one, one.end)

    def _fits(self, one: Failing) -> bool:
        """Return whether what is caught may be anything that the block may raise."""
        if one.wanted is None:
            return True
        caught = exceptions.caught_by(self._machine.eval(one.wanted, self._env), one.wanted)
        return any(exceptions.may_catch(caught, name, cls) for name, cls in self._risk.kinds.items())

    def _fail(self, one: Failing, at: ast.AST) -> None:
        if not self._machine.world.choices.fails(at):
            return
        if one.wanted is None:
            raise Signal("")
        wanted = first_part(self._machine.eval(one.wanted, self._env))
        raise Signal(exceptions.name_of(wanted, one.wanted), wanted)


def of_call(machine: Engine, function: Value) -> None:
    """Note what a call may raise: nobody knows of code that is not visible, and of some functions of Python's."""
    position = machine.world.position
    if not position.risks:
        return
    match function:
        case Native(name=name) if name in _PYTHONS:
            position.risk(*_PYTHONS[name])
        case Lib(path=path) if path.partition(".")[0] not in _SAFE:
            position.risk("")
        case Unknown() if not function.trust.data:
            position.risk("")


def of_item(machine: Engine, owner: Value, index: Value) -> None:
    """Note what a subscript may raise."""
    if machine.world.position.risks and not on_graph(owner) and (is_unseen(index) or is_unseen(owner)):
        machine.world.position.risk("KeyError", "IndexError")


def of_division(machine: Engine, op: ast.operator, divisor: Value) -> None:
    """Note what an operator may raise."""
    if machine.world.position.risks and type(op) in _DIVIDING and is_unseen(divisor):
        machine.world.position.risk("ZeroDivisionError")
