"""Report the parameters that an optimizer stepped in vain."""

from __future__ import annotations

from collections.abc import Collection

from tapecheck.record.words import names_text
from tapecheck.tape import End, Leaf, Measure, Named, Tape
from tapecheck.tape.ranks import parts

_MIN_STEPS = 2


def untrained(tape: Tape, told: Collection[str] = ()) -> str:
    """Return a line on the parameters that never had a gradient when their optimizer stepped; empty where there are
    none.

    `told` are the names in findings. Nothing is reported of a run that ended early, where a
    gradient might still have come, nor of several ranks.
    """
    end = tape.events[-1] if tape.events else None
    if parts(tape) or not isinstance(end, End) or end.how != "finished":
        return ""
    names, never = _names_and_steps(tape)
    left = {number: steps for number, steps in never.items() if steps >= _MIN_STEPS and names.get(number) not in told}
    if not left:
        return ""
    known = [name for number in left if (name := names.get(number))]
    shown = names_text(known, len(left) - len(known))
    return f"{shown} never had a gradient in {max(left.values())} steps of an optimizer that has them"


def _names_and_steps(tape: Tape) -> tuple[dict[int, str], dict[int, int]]:
    """Return the names of leaves, and at how many steps those that never had a gradient lacked it."""
    names: dict[int, str] = {}
    never: dict[int, int] = {}
    for event in tape.events:
        if isinstance(event, Leaf):
            names[event.id] = event.name
        elif isinstance(event, Named):
            names[event.leaf] = event.name
        elif isinstance(event, Measure) and event.name.startswith("never-a-gradient:"):
            never[int(event.name.partition(":")[2])] = int(event.value)
    return names, never
