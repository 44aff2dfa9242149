"""Whose variable a name is at a line of a file, as Python's own compiler decides it. Nothing is executed."""

from __future__ import annotations

import ast
import inspect
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType

MODULE = 0
"""Stands for the first line of a module, which any function may have."""


@dataclass(frozen=True, slots=True)
class _Function:
    first: int
    last: int
    code: CodeType
    inner: tuple[_Function, ...]

    def has(self, name: str, *, given: bool) -> bool:
        """Return whether a name is a variable of its calls, with `given` also one that the caller gives a value."""
        code = self.code
        if name not in code.co_varnames and name not in code.co_cellvars:
            return False
        flags = bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
        return given or name not in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + flags]


class Scopes:
    """The functions of a file with their variables."""

    def __init__(self, tree: ast.AST | None) -> None:
        self._functions: tuple[_Function, ...] = ()
        self._names: frozenset[str] = frozenset()
        if isinstance(tree, ast.Module):
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    code = compile(tree, "<scopes>", "exec", dont_inherit=True)
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                return
            self._functions, self._names = _functions(code), frozenset(code.co_names)

    def begin(self, name: str, line: int, *, given: bool = True) -> int | None:
        """Return the first line of the function whose variable a name is at a line, with its decorators.

        `MODULE` where it is a variable of the module there, None where nothing around the line names it. Without
        `given` a parameter does not count: what it has is somebody else's.
        """
        for function in reversed(list(self._around(line))):
            if function.has(name, given=True):
                return function.first if function.has(name, given=given) else None
            if name in function.code.co_names and name not in function.code.co_freevars:
                return MODULE
        return MODULE if name in self._names and not any(self._around(line)) else None

    def _around(self, line: int) -> Iterator[_Function]:
        """Yield the functions around a line, outer ones first."""
        functions = self._functions
        while functions:
            around = [one for one in functions if one.first <= line <= one.last]
            # Of several on one line nobody knows which is meant: the last one begins nearest.
            functions = around[-1].inner if around else ()
            yield from around[-1:]


def _functions(code: CodeType) -> tuple[_Function, ...]:
    """Return the functions in a piece of code; what stands in classes and comprehensions is in what is around them."""
    found: list[_Function] = []
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            below = _functions(inner)
            # A class, and a comprehension, have no variables that a function in them or a run sees.
            if inner.co_flags & inspect.CO_OPTIMIZED and not (
                inner.co_name.startswith("<") and inner.co_name != "<lambda>"
            ):
                lines = [line for _, _, line in inner.co_lines() if line is not None]
                last = max([inner.co_firstlineno, *lines, *(one.last for one in below)])
                found.append(_Function(inner.co_firstlineno, last, inner, below))
            else:
                found += below
    return tuple(found)
