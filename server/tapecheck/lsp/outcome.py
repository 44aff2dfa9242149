"""How a recorded run went, in a few words, and what the user can do where nothing was looked at."""

from __future__ import annotations

import re
import textwrap
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from tapecheck.record import RunResult

Next = Literal["", "arguments", "configure", "program", "interpreter"]
"""What helps: other arguments, another configuration of the run, the program that uses the file, another Python."""

_LONGEST = 160
_USAGE = re.compile(r"^usage\b", re.IGNORECASE | re.MULTILINE)
_PREFIX = re.compile(r"^(?:[^\s:]+: )?error: ", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How the last run of a file went: `at` is when it ended (seconds since the epoch)."""

    text: str
    next: Next = ""
    at: float = field(default_factory=time.time)


def unseen(result: RunResult, program: str) -> Outcome:
    """Return why a run of `program` shows nothing, where it ended before any backward."""
    how, detail = result.how_ended, result.detail.removesuffix(": ")
    if how == "cancelled":
        return Outcome("cancelled before the first iteration")
    if result.failure:
        why = result.failure.removeprefix("not recorded: ")
        return Outcome(f"not recorded: {_short(why)}", "interpreter" if "too old" in why else "")
    if how in ("stopped", "timeout"):
        limit = detail.removeprefix("killed ")
        return Outcome(f"stopped {limit}, before the first backward", "configure")
    if how == "raised" and detail.startswith("EOFError: EOF when reading"):
        return Outcome("ended before training: it read standard input, which it does not get here", "configure")
    if how in ("raised", "died"):
        return Outcome(f"ended before training: {_short(detail)}", "configure")
    if result.exit_code:
        usage = result.exit_code == 2 and _USAGE.search(result.stderr) is not None
        why = _last_words(result.stderr) or f"exit code {result.exit_code}"
        return Outcome(f"ended before training: {why}", "arguments" if usage else "configure")
    if result.unrecorded or result.ran_elsewhere:
        return Outcome(f"{program} itself trains nothing, and what it starts is not recorded", "program")
    return Outcome(f"{program} trains nothing when it is run", "program")


def gaps(result: RunResult) -> str:
    """Return what a run that saw something may have missed, empty where that is nothing."""
    if result.failure:
        return f"the recording may have gaps: {_short(result.failure)}"
    cut_short = result.how_ended == "finished" and result.lost
    return "the recording was cut short: what came later was not seen" if cut_short else ""


def _last_words(stderr: str) -> str:
    """Return the last line of standard error without the name of the program and the word "error"."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    return _short(_PREFIX.sub("", lines[-1])) if lines else ""


def _short(text: str) -> str:
    return textwrap.shorten(text, _LONGEST, placeholder=" …")
