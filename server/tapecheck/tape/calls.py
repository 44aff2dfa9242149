"""The functions that a program calls, wherever they stand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tapecheck.tape.events import Span
    from tapecheck.tape.moving import Moves


@dataclass(frozen=True, slots=True)
class Called:
    """A function that code calls: where it stands, whether autograd may record what it builds, the function that this
    way began with, None for the module, and the call, None where the dry run itself makes it.
    """

    function: Span
    recording: bool
    start: Span | None
    at: Span | None

    def moved(self, moves: Moves) -> Called:
        """Return it where it stands now."""
        start, at = self.start and moves.span(self.start), self.at and moves.span(self.at)
        return Called(moves.span(self.function), self.recording, start, at)
