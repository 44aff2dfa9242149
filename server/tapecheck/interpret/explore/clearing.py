"""Whether what a path has left out can lead to something that clears or sets a gradient, in whichever file.

A name means every function, method and class of that name in the files that the path has run, and what a module has
imported under it: more than a call of it can come to, never less.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tapecheck.interpret.explore.definitions import Body
from tapecheck.interpret.explore.effects import Effect, Facts, facts_of
from tapecheck.interpret.explore.index import Index, index_of
from tapecheck.interpret.explore.stakes import LeftOut, Watched
from tapecheck.interpret.library import visible
from tapecheck.interpret.values import Class, Function, Module, Value, function_of, only, user_class
from tapecheck.source.nodes import of_kind

_CLEAR, _READ, _CHANGE = int(Effect.CLEAR), int(Effect.READ), int(Effect.CHANGE)
_CLEARING = "zero_grad"
"""What need not be called where it is named: a variable may have it."""
_IMPLICIT = frozenset(("forward",))
_MAKING = frozenset(("__init__", "__new__"))
"""What a class is called by its name for."""


def _code_of(value: Value) -> Function | Class | None:
    """Return the function or the class that a value is, or that it is an object of."""
    return function_of(value) or user_class(value) or next(iter(only((value,), Class)), None)


@dataclass(frozen=True, slots=True)
class _File:
    """A file that the path has run, with what its names mean."""

    module: Module
    index: Index


class Clearing:
    """The code of the files that a path has run, and what of it clears or sets gradients."""

    def __init__(self, modules: Mapping[str, Module]) -> None:
        self._files: dict[str, _File] = {}
        waiting = [*modules.values()]
        for module in waiting:
            if module.source is not None and module.path not in self._files:
                self._files[module.path] = _File(module, index_of(module.source))
                values = module.env.vars.values()
                waiting += only(values, Module)
                waiting += [code.module for code in map(_code_of, values) if code is not None]
        self._within: bool | None = None
        self._handling: bool | None = None

    def may_follow(self, watched: Watched | None) -> bool:
        """Return whether the other answer to a condition may lead to a cleared gradient; yes if that is not known."""
        if watched is None or not watched.left_out or watched.names:
            return True
        return any(map(self._may_clear, watched.left_out.values()))

    def _may_clear(self, one: LeftOut) -> bool:
        file = self._files.get(one.file)
        if file is None or one.handed:
            return True
        if "raise" in one.jumps and self._handlers_clear():
            return True
        return (one.facts.called and self._implicit()) or self._reaches(file, one.facts, one.owner)

    def _implicit(self) -> bool:
        """Return whether what no name calls may clear: what operators, contexts and calls of objects run."""
        if self._within is None:
            # What these hand to hidden code is what any layer is given: values with graphs.
            self._within = any(
                self._reaches(file, body.facts, body.owner.name, hidden=False)
                for file in self._files.values()
                for body in file.index.defined.bodies
                if body.owner is not None and _is_implicit(body.node.name)
            )
        return self._within

    def _handlers_clear(self) -> bool:
        """Return whether whoever catches an exception may clear."""
        if self._handling is None:
            self._handling = any(
                self._reaches(file, facts_of(handler.body), None)
                for file in self._files.values()
                if file.module.source is not None
                for handler in of_kind(file.module.source.tree, ast.ExceptHandler)
            )
        return self._handling

    def _reaches(self, file: _File, facts: Facts, owner: str | None, *, hidden: bool = True) -> bool:
        """Return whether a piece of code clears, or anything that it may call, `hidden` code among it."""
        seen: set[int] = set()
        waiting = [(file, facts, owner)]
        while waiting:
            file, facts, owner = waiting.pop()
            if _clears(facts) or (hidden and _uses_hidden(file, facts)):
                return True
            for home, body in self._callees(file, facts, owner):
                if id(body) not in seen:
                    seen.add(id(body))
                    waiting.append((home, body.facts, body.owner.name if body.owner is not None else None))
        return False

    def _callees(self, file: _File, facts: Facts, owner: str | None) -> Iterator[tuple[_File, Body]]:
        """Yield the bodies that a piece of code may run, each with its file."""
        for body in file.index.calls.callees(facts, owner):
            yield file, body
        for name in facts.names - file.index.defined.callables:
            yield from self._imported(file, name)
        for name in facts.attributes | facts.own:
            for other in self._files.values():
                if other is not file:
                    defined = other.index.defined
                    yield from ((other, body) for body in defined.methods.get(name, ()))
                    if name in defined.functions:
                        yield other, defined.functions[name]
                    yield from self._of_class(other, name)

    def _imported(self, file: _File, name: str) -> Iterator[tuple[_File, Body]]:
        """Yield what a name of a module stands for that was imported from another file."""
        value = file.module.env.vars.get(name)
        code = _code_of(value) if value is not None else None
        other = self._files.get(code.module.path) if code is not None else None
        if code is None or other is None:
            return
        body = other.index.defined.body_of(code.node)
        if body is not None:
            yield other, body
        yield from self._of_class(other, code.name)

    def _of_class(self, file: _File, name: str) -> Iterator[tuple[_File, Body]]:
        defined = file.index.defined
        for one in defined.family(name) if name in defined.classes else ():
            yield from ((file, body) for body in defined.classes[one].values())


def _uses_hidden(file: _File, facts: Facts) -> bool:
    """Return whether a piece of code calls anything and uses what its module has of code that is not visible."""
    known = file.module.env.vars
    return facts.called and any(visible.is_opaque(known[name]) for name in facts.names & known.keys())


def _clears(facts: Facts) -> bool:
    effects = int(facts.effects)
    # `torch._foreach_zero_(gradients)`: what reads gradients and changes something in place may change them.
    changes = bool(effects & _CLEAR) or effects & (_READ | _CHANGE) == _READ | _CHANGE
    return changes or _CLEARING in facts.attributes or _CLEARING in facts.own


def _is_implicit(name: str) -> bool:
    return name in _IMPLICIT or (name.startswith("__") and name.endswith("__") and name not in _MAKING)
