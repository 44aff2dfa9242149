"""What statements ask of values: likely branches, exceptions and their handlers, patterns of `match`."""

from __future__ import annotations

import ast
import builtins as python
from collections.abc import Generator as PyGenerator
from typing import TYPE_CHECKING, Any

from tapecheck.interpret.python.containers import guessed_items, known_items
from tapecheck.interpret.python.equality import hashable, identical
from tapecheck.interpret.values import Class, Dict, Env, Instance, Lib, List, Signal, Unknown, Value, unwrapped

if TYPE_CHECKING:
    from tapecheck.interpret.machine import Machine

Run = PyGenerator[Value, Value, Any]
"""A statement being run: gives what the program yields, takes what is sent, ends in None or a way out of the block."""
BREAK = object()
CONTINUE = object()


class Returned:
    """The way out of a function, with what it gives back."""

    __slots__ = ("value",)

    def __init__(self, value: Value) -> None:
        self.value = value


EXCEPTIONS = frozenset(
    name for name, value in vars(python).items() if isinstance(value, type) and issubclass(value, BaseException)
)


def default_branch(node: ast.AST) -> bool:
    """The likelier answer of an undecided `if`: not the one that only leaves."""
    if isinstance(node, ast.If):
        last = node.body[-1]
        if isinstance(last, (ast.Raise, ast.Continue, ast.Break)):
            return False
        if isinstance(last, ast.Return) and not node.orelse and len(node.body) == 1:
            return False
        if isinstance(last, ast.Expr) and isinstance(last.value, ast.Call):
            name = ast.unparse(last.value.func)
            if name in ("sys.exit", "exit", "quit", "os._exit"):
                return False
    return True


def exception_name(value: Value, node: ast.AST) -> str:
    if isinstance(value, Lib):
        return value.path.rsplit(".", 1)[-1]
    if isinstance(value, Class):
        return value.name
    if isinstance(value, Instance):
        return value.cls.name if value.cls is not None else value.lib.rsplit(".", 1)[-1]
    target = node.func if isinstance(node, ast.Call) else node
    return ast.unparse(target).rsplit(".", 1)[-1]


def exception_object(raised: Signal) -> Value:
    """The object that `except ... as` binds, made where the exception came from torch or Python itself."""
    if raised.value is None:
        made = Instance(None, f"builtins.{raised.kind}")
        made.facts["args"] = [raised.message] if raised.message else [Unknown("text")]
        raised.value = made
    elif isinstance(raised.value, (Lib, Class)):
        # `raise ValueError` raises an object of that class.
        made = Instance(raised.value) if isinstance(raised.value, Class) else Instance(None, raised.value.path)
        made.facts["args"] = []
        raised.value = made
    return raised.value


def exception_class(raised: Signal) -> Value:
    value = exception_object(raised)
    return value.cls if isinstance(value, Instance) and value.cls is not None else Lib(f"builtins.{raised.kind}")


def stop_iteration(result: Value) -> Instance:
    """The StopIteration that a generator ends with; its value is what the generator returned."""
    made = Instance(None, "builtins.StopIteration")
    made.facts["args"] = [] if result is None else [result]
    made.attrs["value"] = result
    return made


def exception_matches(raised: Any, wanted: Value, node: ast.AST) -> bool:
    """Whether an except clause names the class of an exception or a base of it."""
    if not raised.kind:
        return True
    names = {raised.kind, "BaseException"}
    known = getattr(python, raised.kind, None)
    if isinstance(known, type):
        names |= {base.__name__ for base in known.__mro__}
    elif raised.kind not in ("SystemExit", "KeyboardInterrupt", "GeneratorExit"):
        names.add("Exception")
    if isinstance(raised.value, Instance) and raised.value.cls is not None:
        for cls in raised.value.cls.mro():
            names.add(cls.name)
            for path in (base.path for base in cls.bases if isinstance(base, Lib)):
                base_type = getattr(python, path.rsplit(".", 1)[-1], None)
                if isinstance(base_type, type):
                    names |= {base.__name__ for base in base_type.__mro__}
    if isinstance(wanted, tuple):
        return any(exception_matches(raised, item, node) for item in wanted)
    return exception_name(wanted, node) in names


def counted_names(node: ast.AST) -> set[str]:
    """The names that a loop's body counts up (`k += 1`, `k = k + 1`)."""
    known: set[str] | None = getattr(node, "_tapecheck_counted", None)
    if known is None:
        known = set()
        for child in ast.walk(node):
            if isinstance(child, ast.AugAssign) and isinstance(child.target, ast.Name):
                known.add(child.target.id)
            elif isinstance(child, ast.Assign) and isinstance(child.value, ast.BinOp):
                used = {part.id for part in ast.walk(child.value) if isinstance(part, ast.Name)}
                known |= {target.id for target in child.targets if isinstance(target, ast.Name)} & used
        node._tapecheck_counted = known  # type: ignore[attr-defined]
    return known


def match_pattern(machine: Machine, pattern: ast.pattern, subject: Value, env: Env) -> bool | None:
    """Whether a match pattern fits; None where nobody knows. Names are bound on the way."""
    if isinstance(pattern, ast.MatchAs):
        if pattern.pattern is not None:
            inner = match_pattern(machine, pattern.pattern, subject, env)
            if inner is False:
                return False
        else:
            inner = True
        if pattern.name is not None:
            machine.store_name(pattern.name, subject, env, pattern)
        return inner
    if isinstance(pattern, ast.MatchValue):
        result = machine.compare(ast.Eq(), subject, machine.eval(pattern.value, env), pattern)
        return machine.known_truth(result)
    if isinstance(pattern, ast.MatchSingleton):
        return identical(subject, pattern.value)
    if isinstance(pattern, ast.MatchOr):
        unsure = False
        for option in pattern.patterns:
            result = match_pattern(machine, option, subject, env)
            if result:
                return True
            unsure = unsure or result is None
        return None if unsure else False
    if isinstance(pattern, ast.MatchSequence):
        return _match_sequence(machine, pattern, subject, env)
    if isinstance(pattern, ast.MatchMapping):
        return _match_mapping(machine, pattern, subject, env)
    if isinstance(pattern, ast.MatchClass):
        return _match_class(machine, pattern, subject, env)
    return None


def _all_match(results: list[bool | None]) -> bool | None:
    if any(result is False for result in results):
        return False
    return None if None in results else True


def _match_sequence(machine: Machine, pattern: ast.MatchSequence, subject: Value, env: Env) -> bool | None:
    parts = pattern.patterns
    star = next((place for place, part in enumerate(parts) if isinstance(part, ast.MatchStar)), None)
    known = known_items(machine, subject, pattern) if isinstance(subject, (tuple, List)) else None
    if known is None:
        if not isinstance(subject, (Unknown, List)):
            return False
        known = guessed_items(machine, subject, len(parts), pattern)
        if star is not None:
            known[star] = List([known[star]], more=True)
    elif star is None:
        if len(known) != len(parts):
            return False
    else:
        after = len(parts) - star - 1
        if len(known) < len(parts) - 1:
            return False
        known = [*known[:star], List(known[star : len(known) - after]), *known[len(known) - after :]]
    results: list[bool | None] = [None if isinstance(subject, Unknown) or getattr(subject, "more", False) else True]
    for part, item in zip(parts, known):
        if isinstance(part, ast.MatchStar):
            if part.name is not None:
                machine.store_name(part.name, item, env, part)
        else:
            results.append(match_pattern(machine, part, item, env))
            if results[-1] is False:
                return False
    return _all_match(results)


def _match_mapping(machine: Machine, pattern: ast.MatchMapping, subject: Value, env: Env) -> bool | None:
    subject = unwrapped(subject)
    if isinstance(subject, Unknown):
        for part in pattern.patterns:
            match_pattern(machine, part, Unknown("item"), env)
        return None
    if not isinstance(subject, Dict):
        return False
    results: list[bool | None] = []
    taken = set()
    for key_node, part in zip(pattern.keys, pattern.patterns):
        key = hashable(machine.eval(key_node, env))
        taken.add(key)
        if key in subject.items:
            results.append(match_pattern(machine, part, subject.items[key], env))
        else:
            results.append(None if subject.more else False)
        if results[-1] is False:
            return False
    if pattern.rest is not None:
        rest = Dict({key: item for key, item in subject.items.items() if key not in taken}, subject.more)
        machine.store_name(pattern.rest, rest, env, pattern)
    return _all_match(results)


def _match_class(machine: Machine, pattern: ast.MatchClass, subject: Value, env: Env) -> bool | None:
    cls = machine.eval(pattern.cls, env)
    fits = machine.torch.is_instance(subject, cls)
    if fits is False:
        return False
    results: list[bool | None] = [fits]
    names: list[str] = []
    if isinstance(cls, Class):
        listed = machine.class_attribute(cls, "__match_args__", cls, pattern)
        names = [field.name for field in cls.fields or () if field.init and not field.keyword]
        if isinstance(listed, tuple):
            names = [name for name in listed if isinstance(name, str)]
    for place, part in enumerate(pattern.patterns):
        if not isinstance(cls, Class) and place == 0:
            # `int(x)`, `str(x)`: the subject itself.
            value = subject
        else:
            value = machine.get_attribute(subject, names[place], pattern) if place < len(names) else Unknown("field")
        results.append(match_pattern(machine, part, value, env))
    for name, part in zip(pattern.kwd_attrs, pattern.kwd_patterns):
        results.append(match_pattern(machine, part, machine.get_attribute(subject, name, pattern), env))
    return _all_match(results)


def target_of(machine: Machine, node: ast.AST) -> str:
    """What the program calls the value of an expression: the target of the assignment that it is the value of, or
    the list that it extends."""
    known: str | None = getattr(node, "_tapecheck_target", None)
    if known is None:
        known = _target_of(machine, node)
        node._tapecheck_target = known  # type: ignore[attr-defined]
    return known


def _target_of(machine: Machine, node: ast.AST) -> str:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "extend":
        return text_of(node.func.value)
    module = machine.module_of(machine.envs[-1])
    if module.source is not None:
        for statement in ast.walk(module.source.tree):
            if isinstance(statement, (ast.Assign, ast.AnnAssign, ast.AugAssign)) and node in _operands(statement.value):
                return text_of(statement.targets[0] if isinstance(statement, ast.Assign) else statement.target)
    return ""


def _operands(value: ast.expr | None) -> list[ast.AST]:
    """A value and what it is computed of by operators."""
    found: list[ast.AST] = [] if value is None else [value]
    for node in found:
        if isinstance(node, ast.BinOp):
            found += [node.left, node.right]
    return found


def text_of(node: ast.expr) -> str:
    """The source of an expression, worked out once."""
    text = getattr(node, "_tapecheck_text", None)
    if text is None:
        text = ast.unparse(node)
        node._tapecheck_text = text  # type: ignore[attr-defined]
    return str(text)
