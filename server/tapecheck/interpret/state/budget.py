"""How much work is left for one path, and whether the caller still wants the result."""

from __future__ import annotations

from collections.abc import Callable

from tapecheck.interpret import limits


class Cancelled(Exception):
    """The caller no longer wants the result."""


class Exhausted(Exception):
    """The work budget of this path through the program is spent."""


class Budget:
    """The units of work that a path may still take."""

    def __init__(self, work: int, cancelled: Callable[[], bool] | None) -> None:
        self.work = work
        self.cancelled = cancelled
        self._look_at = work if cancelled is not None else 0

    def spend(self, amount: int = 1) -> None:
        """Take work off the budget. Raises `Exhausted` or `Cancelled`."""
        self.work -= amount
        if self.work < self._look_at:
            self._look()

    def _look(self) -> None:
        """Now and then: whether the budget is spent, or the caller no longer wants the result."""
        if self.work < 0:
            raise Exhausted
        if self.cancelled is not None:
            self._look_at = max(self.work - limits.WORK_BETWEEN_LOOKS, 0)
            if self.cancelled():
                raise Cancelled
