"""Tables of what is done with a value, or with a node of the program's text, by its kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Concatenate, Generic, ParamSpec, TypeVar

Owner = TypeVar("Owner")
One = TypeVar("One")
Result = TypeVar("Result")
Given = ParamSpec("Given")


class ByKind(dict[type, Callable[..., Result]], Generic[Owner, Given, Result]):
    """What `Owner` does with what it is given, by the exact type of that; each handler is declared for its own kind."""

    def register(self, handler: Callable[Concatenate[Owner, One, Given], Result], *kinds: type[One]) -> None:
        """Let a handler see to some kinds."""
        self.update(dict.fromkeys(kinds, handler))
