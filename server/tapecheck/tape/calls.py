"""The functions that a program calls, wherever they stand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tapecheck.tape.events import Span


@dataclass(frozen=True, slots=True)
class Called:
    """A function that code calls: where it stands, whether autograd may record what it builds, the function that this
    way began with, None for the module, and the call, None where the dry run itself makes it. `whole` says that the
    way came to its end.
    """

    function: Span
    recording: bool
    start: Span | None
    at: Span | None
    whole: bool = True

    def moved(self, place: Callable[[Span], Span]) -> Called:
        """Return it with its places where they are now."""
        start, at = self.start and place(self.start), self.at and place(self.at)
        return Called(place(self.function), self.recording, start, at, self.whole)
