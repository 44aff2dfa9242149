"""Compiled backwards that do not run in a walk that is to retain the graph."""

from __future__ import annotations

from tapecheck.rules.reading import Reading, Run
from tapecheck.rules.words import swallowed
from tapecheck.tape import Donated

_FIRST = 'a compiled backward on the way may refuse to retain the graph before that: it says "donated buffers" then'


def refusing(reading: Reading, run: Run, why: Donated) -> bool:
    """Whether a compiled backward refuses a walk, if no earlier run has left another one."""
    return (
        why.certain == "yes"
        or why.anew
        or why.freed_by is None
        or (run.backward.retain == "yes" and _for_the_disk(reading, run, why.node.id, why.freed_by.id))
    )


def _for_the_disk(reading: Reading, run: Run, node: int, freed_by: int) -> bool:
    """Whether nothing but what an earlier run has left speaks against a refusal."""
    regions = reading.ledger.regions
    call, compiled = regions[node].call, reading.run_of[freed_by]
    same = (number for number in compiled.surely if number in regions and regions[number].call.code == call.code)
    surely = node in run.surely and next(same, None) is not None
    return surely and call.donates == "may" and call.whole == "yes" and compiled.backward.retain == "no"


def notes_of_failure(reading: Reading, run: Run) -> tuple[str, ...]:
    """Return what there is to note of a backward that fails: that this is swallowed, or may be said otherwise."""
    why = run.traversal.refused
    first = (_FIRST,) if why is not None and why is not run.problem and refusing(reading, run, why) else ()
    return (*first, *swallowed(reading, run))
