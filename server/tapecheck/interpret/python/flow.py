"""What statements ask of values: likely branches, exceptions and their handlers, patterns of `match`."""

from __future__ import annotations

import ast
from typing import ClassVar

from tapecheck.interpret.engine import Engine
from tapecheck.interpret.objects import containers
from tapecheck.interpret.values import (
    Class,
    Dict,
    Env,
    Lib,
    List,
    Unknown,
    Value,
    WayOut,
    behaviour,
    hashable,
    is_unseen,
    known_elements,
    only,
    unwrapped,
)


class _Break(WayOut):
    """The way out of a loop."""

    __slots__ = ()
    ends_loop: ClassVar[bool] = True


class Returned(WayOut):
    """The way out of a function, with what it gives back."""

    __slots__ = ("value",)
    ends_loop: ClassVar[bool] = True

    def __init__(self, value: Value) -> None:
        self.value = value

    def beyond_loop(self) -> WayOut | None:
        return self


BREAK = _Break()
CONTINUE = WayOut()


def match_pattern(machine: Engine, pattern: ast.pattern, subject: Value, env: Env) -> bool | None:
    """Whether a match pattern fits; None where nobody knows. Names are bound on the way."""
    match pattern:
        case ast.MatchAs(pattern=inner, name=name):
            fits = True if inner is None else match_pattern(machine, inner, subject, env)
            if fits is not False and name is not None:
                machine.store_name(name, subject, env, pattern)
            return fits
        case ast.MatchValue() | ast.MatchSingleton():
            return machine.known_truth(asked(machine, pattern, subject, env))
        case ast.MatchOr(patterns=options):
            unsure = False
            for option in options:
                fits = match_pattern(machine, option, subject, env)
                if fits:
                    return True
                unsure = unsure or fits is None
            return None if unsure else False
        case ast.MatchSequence():
            return _match_sequence(machine, pattern, subject, env)
        case ast.MatchMapping():
            return _match_mapping(machine, pattern, subject, env)
        case ast.MatchClass():
            return _match_class(machine, pattern, subject, env)
    return None


def asked(machine: Engine, pattern: ast.MatchValue | ast.MatchSingleton, subject: Value, env: Env) -> Value:
    """Return what a pattern of one value asks of what is matched, as `==` and `is` do."""
    match pattern:
        case ast.MatchValue(value=value):
            return machine.compare(ast.Eq(), subject, machine.eval(value, env), pattern)
    return machine.compare(ast.Is(), subject, pattern.value, pattern)


def _all_match(results: list[bool | None]) -> bool | None:
    if any(result is False for result in results):
        return False
    return None if None in results else True


def _aligned(machine: Engine, pattern: ast.MatchSequence, subject: Value) -> list[Value] | None:
    """Return the elements of a sequence for the parts of a pattern; None where it has too few or too many."""
    parts = pattern.patterns
    star = next((place for place, part in enumerate(parts) if isinstance(part, ast.MatchStar)), None)
    known = behaviour(subject).known_items(machine, pattern) if known_elements(subject) is not None else None
    if known is None:
        if not isinstance(subject, (Lib, Unknown, List)):
            return None
        return containers.guessed_parts(machine, subject, len(parts), star, pattern)
    if star is None:
        return known if len(known) == len(parts) else None
    after = len(parts) - star - 1
    if len(known) < len(parts) - 1:
        return None
    return [*known[:star], List(known[star : len(known) - after]), *known[len(known) - after :]]


def _match_sequence(machine: Engine, pattern: ast.MatchSequence, subject: Value, env: Env) -> bool | None:
    parts = pattern.patterns
    known = _aligned(machine, pattern, subject)
    if known is None:
        return False
    results: list[bool | None] = [True if behaviour(subject).is_whole() else None]
    for part, item in zip(parts, known):
        if isinstance(part, ast.MatchStar):
            if part.name is not None:
                machine.store_name(part.name, item, env, part)
        else:
            results.append(match_pattern(machine, part, item, env))
            if results[-1] is False:
                return False
    return _all_match(results)


def _match_mapping(machine: Engine, pattern: ast.MatchMapping, subject: Value, env: Env) -> bool | None:
    subject = unwrapped(subject)
    if is_unseen(subject):
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


def _match_class(machine: Engine, pattern: ast.MatchClass, subject: Value, env: Env) -> bool | None:
    cls = machine.eval(pattern.cls, env)
    fits = machine.library.is_instance(subject, cls)
    if fits is False:
        return False
    results: list[bool | None] = [fits]
    names: list[str] = []
    if isinstance(cls, Class):
        listed = machine.class_attribute(cls, "__match_args__", cls, pattern)
        names = [field.name for field in cls.fields or () if field.init and not field.keyword]
        if isinstance(listed, tuple):
            names = only(listed, str)
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
