"""What elements are drawn from: running generators, and streams of elements."""

from __future__ import annotations

import ast
from collections.abc import Callable
from collections.abc import Generator as PyGenerator
from dataclasses import dataclass, field

from tapecheck.interpret.values.base import BaseValue, Value
from tapecheck.interpret.values.instance import Instance
from tapecheck.interpret.values.mapping import Dict
from tapecheck.interpret.values.program import Env
from tapecheck.interpret.values.sequence import List
from tapecheck.interpret.values.tensor import Tensor
from tapecheck.interpret.values.unknown import Unknown


@dataclass(eq=False, slots=True)
class Stream(BaseValue):
    """Something to iterate: `length` answers None where nobody knows it; `item(i)` gives element i.

    A sequential stream must be asked for its elements in order and raises IndexError at its end.
    """

    length: Callable[[], int | None]
    item: Callable[[int], Value]
    sequential: bool = False
    next: int = 0
    sources: tuple[Stream | Generator, ...] = ()
    """What its elements are drawn from: left together with it."""


OPEN = ast.Pass()
"""The key in `Env.sent` that says that a generator function goes over something without a known end."""


@dataclass(eq=False, slots=True)
class Generator(BaseValue):
    """A running generator: `run` yields its values and takes what is sent, `env` holds its locals.

    `open` says that it goes over something whose length nobody knows, `done` that it has come to its end.
    """

    run: PyGenerator[Value, Value, Value]
    env: Env
    open: bool = False
    done: bool = False
    extent: Extent = field(default_factory=lambda: Extent())
    pending: list[Value] = field(default_factory=list)
    """What was taken from it ahead of time, to be given first."""
    guarded: bool = False
    """Whether it waits inside of a `with` or `try`, whose end has to come once it is left."""


@dataclass(eq=False, slots=True)
class Extent:
    """How far a comprehension goes: whether its elements are all there are, and how many of them are enough."""

    whole: bool = True
    enough: int = 2


HOLDERS = (Tensor, Unknown, List, Dict, tuple, Instance, Generator)
"""Types of values that a tensor can be in, or be."""
