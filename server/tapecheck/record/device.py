"""Report the time that a device took."""

from __future__ import annotations

from tapecheck.tape import Measure, Tape


def mean_time(tape: Tape) -> str:
    """Return the mean over all iterations that were measured, for people; empty where no device was used.

    An iteration's time is that between two events of the stream, which may have been idle for a part of it.
    """
    means = [event.value for event in tape.events if isinstance(event, Measure) and event.name == "device-time-mean"]
    if not means:
        return ""
    # Of several ranks the slowest one tells how long an iteration takes.
    return f"{max(means):.3g} ms of device time an iteration"
