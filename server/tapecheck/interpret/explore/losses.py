"""What a work limit can lose: the mistakes that code could make which no path has run."""

from __future__ import annotations

from tapecheck.interpret.explore.effects import Effect

_MISTAKES = (
    (Effect.START, "a second backward"),
    (Effect.CHANGE, "an in-place change"),
    (Effect.KEEP | Effect.COLLECT, "a kept graph"),
    (Effect.CUT | Effect.FLAG, "a cut gradient"),
    (Effect.CLEAR, "a stale gradient"),
)
"""What code with an effect can make, the worst first."""


def mistakes_of(effects: int) -> tuple[str, ...]:
    """Return the mistakes that code with these effects (bits of `Effect`) could make, the worst first."""
    return tuple(mistake for effect, mistake in _MISTAKES if effects & int(effect))


__all__ = ["mistakes_of"]
