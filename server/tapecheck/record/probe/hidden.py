"""Finds the loops that no line event shows: on one line, in a comprehension, in a library.

What comes round tells them: an optimizer steps again (without optimizers: a backward runs again) from the same call of
the user's while no loop that is seen has moved on. From then on each round is an iteration of a loop on that line.
"""

from __future__ import annotations

import sys
from types import FrameType
from typing import TYPE_CHECKING, Dict, List, NamedTuple, Optional, Tuple

from .lines import Activation, Place, RunningLoop, State, ThreadLines, frames_from
from .recording import Recording, Rounds
from .sources import LoopText

if TYPE_CHECKING:
    from torch.optim import Optimizer

# Two looks tell a round; what never came round in so many iterations is looked at no more.
_FIRST_LOOKS, _LOOKS = 3, 400
_MAX_KEYS = 4096

Chain = List[Tuple[Activation, int]]
# A thread, a line, and the identity of the optimizer that steps there, 0 for a backward.
Key = Tuple[int, Optional[Place], int]


class Seen:
    """What was seen when something ran last: the iterations that ran then, and how often it was looked at."""

    __slots__ = ("chain", "index", "looks", "state")

    def __init__(self) -> None:
        self.looks = 0
        self.state: Optional[State] = None
        self.index = -1
        self.chain: Optional[Chain] = None


class Round(NamedTuple):
    """The end of a round: what ran (an optimizer's step, a backward), where, and the sequence number after it."""

    key: Key
    ended: int


class HiddenLoops(Rounds):
    """The loops of one recorded run that are told by what comes round."""

    def __init__(self, recorder: Recording) -> None:
        self.recorder = recorder
        self.seen: Dict[Key, Seen] = {}
        # What ends an iteration of which loop's text, and the last end of anything in each thread.
        self.ends: Dict[Key, LoopText] = {}
        self.last: Dict[int, Round] = {}
        # Whether calls that pass without a look have to be told, too.
        self.by_backward = False

    def stepped(self, optimizer: Optimizer) -> None:
        """Note a step of an optimizer."""
        recorder = self.recorder
        if recorder.disabled or recorder.ended:
            return
        lines = recorder.tracer.lines()
        self._ran((lines.thread, lines.place, id(optimizer)), lines)

    def walked(self) -> None:
        """Note a backward that adds to gradients; where nothing steps, it ends an iteration."""
        recorder = self.recorder
        if recorder.changes.optimizers or recorder.disabled or recorder.ended:
            return
        lines = recorder.tracer.lines()
        self._ran((lines.thread, lines.place, 0), lines)

    def _ran(self, key: Key, lines: ThreadLines) -> None:
        if self.recorder.tracer.taken:
            # A loop would be one of the calls that were seen last.
            return
        text = self.ends.get(key)
        if text is not None:
            loop = next((loop for call in reversed(lines.stack) for loop in call.loops if loop.text is text), None)
            if loop is not None:
                self._turn(lines, loop)
                return
        seen = self.seen.get(key)
        if seen is None:
            if len(self.seen) >= _MAX_KEYS:
                self.seen.clear()
            seen = self.seen[key] = Seen()
        if seen.looks > _LOOKS:
            return
        tracer = self.recorder.tracer
        tracer.catch_up(lines)
        state, index = lines.loop_states[-1], lines.loop_indexes[-1]
        again = seen.index == index and seen.state == state
        if again or seen.looks < _FIRST_LOOKS:
            chain = _chain(lines)
            owner = _common(seen.chain, chain) if again else None
            if owner is not None:
                self._found(lines, key, *owner)
                return
            seen.chain = chain
        else:
            seen.chain = None
        seen.looks += 1
        seen.state, seen.index = state, index
        self.last[lines.thread] = Round(key, lines.seen)

    def _found(self, lines: ThreadLines, key: Key, owner: Activation, line: int) -> None:
        """Note that what ran has come round for the first time, within a statement of a call that still runs."""
        recorder = self.recorder
        tracer = recorder.tracer
        text, known = tracer.hide_loop(owner, line)
        before = self.last.get(lines.thread)
        end = before.key if before is not None and before.key[0] == lines.thread else key
        self.ends[end] = text
        self.by_backward = self.by_backward or not key[2]
        if known:
            # An optimizer that is made anew each time, or another one that steps in the same loop.
            return
        loop = tracer.begin_hidden(lines, owner, text, line, before.ended if before is not None else lines.seen)
        recorder.loops.found_loop(lines, loop)
        if end == key:
            self._turn(lines, loop)

    def _turn(self, lines: ThreadLines, loop: RunningLoop) -> None:
        """Write the end of an iteration, and the beginning of the next one."""
        tracer = self.recorder.tracer
        tracer.catch_up(lines)
        if loop.index >= loop.look:
            tracer.listener.iteration_ends(lines, loop, sys._getframe(1))
        loop.index += 1
        loop.began = lines.seen
        loop.walked = self.recorder.walks.count
        lines.mark_loops()


def _chain(lines: ThreadLines) -> Chain:
    """Return the user's calls that run, outermost first, each with the instruction it is at."""
    frames = frames_from(sys._getframe(1))
    found: Chain = []
    for call in lines.stack:
        frame = frames.get(call.key)
        found.append((call, frame.f_lasti if frame is not None and frame.f_code is call.code else -1))
    return found


def _common(before: Optional[Chain], now: Chain) -> Optional[Tuple[Activation, int]]:
    """Return the innermost call that ran both times and went round, with its line; None where it went on in between."""
    if not before:
        return None
    common = 0
    while common < min(len(before), len(now)) and before[common][0] is now[common][0]:
        common += 1
    if not common:
        return None
    owner, instruction = now[common - 1]
    if instruction < 0 or before[common - 1][1] != instruction:
        return None
    frame: Optional[FrameType] = sys._getframe(1)
    while frame is not None and id(frame) != owner.key:
        frame = frame.f_back
    return (owner, frame.f_lineno) if frame is not None else None
