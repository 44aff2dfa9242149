"""Tables of what is done with a value by its kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Concatenate, Generic, ParamSpec, TypeVar

Owner = TypeVar("Owner")
One = TypeVar("One")
Result = TypeVar("Result")
Given = ParamSpec("Given")


class ByKind(dict[type, Callable[..., Result]], Generic[Owner, Given, Result]):
    """What `Owner` does with a value by its type, exactly; each handler is declared for values of its own kind."""

    def register(self, handler: Callable[Concatenate[Owner, One, Given], Result], *kinds: type[One]) -> None:
        """Let a handler see to values of some kinds."""
        self.update(dict.fromkeys(kinds, handler))
