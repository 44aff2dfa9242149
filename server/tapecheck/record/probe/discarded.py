"""Backward calls whose gradients are cleared before a step, and watched lines that change gradients which are: looked
at for the first few calls from each place.
"""

from __future__ import annotations

import operator
import threading
import weakref
from typing import TYPE_CHECKING, Dict, Iterable, Iterator, List, Mapping, Optional, Set, Tuple

from .guard import Guard
from .lines import Iterations, Place, ThreadLines, Where
from .recording import GradientsDiscarded, Recording
from .values import ZEROS, version_of

if TYPE_CHECKING:
    from torch import Tensor

_GRADIENT = operator.attrgetter("grad")
_CALLS = 8
"""Calls from each place that are followed to the step that uses their gradients."""


class _Call:
    """A backward that was seen: the parameters it added to, with the version that their gradient had then.

    `cleared` are those whose gradient has been cleared since: a step no longer finds what this call gave them. `lost`
    says that others are gone.
    """

    __slots__ = ("added", "cleared", "lost", "where")

    def __init__(self, where: Where, added: Dict[int, Tuple[weakref.ref[Tensor], int]]) -> None:
        self.where = where
        self.added = added
        self.cleared: Set[int] = set()
        self.lost = False


class _Discarded:
    """What no step used of the gradients of one place: of how many calls, the iterations of the first, the leaves."""

    __slots__ = ("calls", "iterations", "leaves")

    def __init__(self, iterations: Iterations) -> None:
        self.calls = 0
        self.iterations = iterations
        self.leaves: Set[int] = set()


class _Open:
    """A backward, or a line that may change gradients, that has begun: the call of the program's code that it runs in,
    and the versions of all gradients.
    """

    __slots__ = ("before", "code", "where")

    def __init__(self, where: Where, code: object, before: Dict[int, Optional[int]]) -> None:
        self.where = where
        self.code = code
        self.before = before


class _Thread:
    """What is known of the gradients that one thread's backward calls make.

    `open` is the backward that began last. `within` has the parameters of the running step: what its closure gives them
    is used once the closure returns. `closure` is the backward that last did so. `evaluates` says that the step was
    given one, which may clear what came before.
    """

    __slots__ = ("closure", "evaluates", "open", "waiting", "within")

    def __init__(self) -> None:
        self.open: Optional[_Open] = None
        self.waiting: List[_Call] = []
        self.within: Set[int] = set()
        self.closure: Optional[_Open] = None
        self.evaluates = False


class Discarded(GradientsDiscarded):
    """Follows gradients from a backward to a step, or to where they are cleared.

    Each thread's by themselves, as `Recorder.may_read` has it.
    """

    def __init__(self, recorder: Recording) -> None:
        self.recorder = recorder
        self.calls: Dict[Optional[Place], int] = {}
        self.lines: Dict[Place, int] = {}
        self.threads: Dict[int, _Thread] = {}
        self.discarded: Dict[Optional[Place], _Discarded] = {}
        self.used: Dict[Optional[Place], int] = {}
        self.given: Dict[Optional[Place], Set[int]] = {}
        # The backward calls that had been let pass when gradients were looked at last.
        self._passed = 0

    def before_backward(self, where: Where) -> None:
        """Settle what came before, and note how gradients are before this backward adds to them."""
        thread = self._thread()
        self._settle(thread)
        count = self.calls[where[0]] = self.calls.get(where[0], 0) + 1
        if count <= _CALLS:
            thread.open = _Open(where, self._call(), {id(p): _version(p) for p in self._parameters()})

    def line_runs(self, lines: ThreadLines, place: Place) -> None:
        """Note how gradients are before a watched line runs: what it makes of them may be for no step."""
        unscaled = self.recorder.unscaled
        armed = lines.after_backward is not None and lines.after_backward != unscaled.line_ran
        if place.clears or self.lines.get(place, 0) >= _CALLS or armed:
            return
        before = {id(p): _version(p) for p in self._parameters()}
        if before:
            self.lines[place] = self.lines.get(place, 0) + 1
            thread = self._thread()
            self._settle(thread)
            thread.open = _Open((place, lines.iteration()), self._call(), before)
            if lines.after_backward is None:
                lines.after_backward = self.after_backward
            else:
                unscaled.then = self.after_backward

    def after_backward(self) -> None:
        """Note what the last backward has added before any line runs that may clear it, by whatever name."""
        with Guard(self.recorder):
            thread = self._thread()
            if thread.open is not None:
                self._settle(thread)

    def before_clearing(self) -> None:
        """Note what the last backward has added, before a line that clears gradients runs."""
        with Guard(self.recorder):
            thread = self._thread()
            if thread.open is not None:
                self._settle(thread)
            closure = thread.closure
            if closure is not None and closure.code is self._call():
                # The same call that has called backward clears: the step never sees what that gave.
                self.used[closure.where[0]] -= 1
                thread.closure = None
                self._tell(closure.where, [id(p) for p in self._parameters() if _version(p) is not None])

    def after_step(self) -> None:
        """Note that a step has ended."""
        thread = self._thread()
        if thread.evaluates:
            self._forget_unseen()
            self._used_by(thread.within, evaluated=True)
            thread.evaluates = False
        if thread.open is not None:
            self._settle(thread)
        thread.within.clear()
        thread.closure = None

    def _thread(self) -> _Thread:
        number = threading.get_ident()
        found = self.threads.get(number)
        if found is None:
            found = self.threads[number] = _Thread()
        return found

    def _call(self) -> object:
        lines = self.recorder.tracer.threads.get(threading.get_ident())
        return lines.stack[-1] if lines is not None and lines.stack else None

    def before_step(self, params: List[Tensor], evaluates: bool) -> None:
        """Tell the calls whose gradients this step uses, unless it `evaluates` a closure first."""
        thread = self._thread()
        self._settle(thread)
        thread.within, thread.evaluates = set(map(id, params)), evaluates
        if not evaluates:
            self._used_by(thread.within)

    def _used_by(self, keys: Set[int], *, evaluated: bool = False) -> None:
        """Tell the calls whose gradients a step uses that has the parameters `keys`.

        Once a closure was `evaluated`, of what is gone it is not known whether the step had it.
        """
        # What it uses may have been made in other threads: of those nothing is read.
        for other in list(self.threads.values()):
            left = []
            for call in other.waiting:
                mine = keys & call.added.keys()
                if not mine:
                    left.append(call)
                elif not evaluated or any(self._is_left(*call.added[key]) for key in mine):
                    self.used[call.where[0]] = self.used.get(call.where[0], 0) + 1
            other.waiting = left

    def _is_left(self, reference: weakref.ref[Tensor], version: int) -> bool:
        """Return whether a parameter has the gradient of a version still, or that with something added to it."""
        parameter = reference()
        if parameter is None or not self.recorder.walks.may_read(parameter):
            return False
        now = _version(parameter)
        return now == version or (now is not None and self._zero(parameter) is False)

    def write(self) -> None:
        """Write what became of the gradients of each place."""
        self._settle(self._thread())
        recorder = self.recorder
        if any(text.looks_at_gradients for text in recorder.sources.texts()):
            at = recorder.here(recorder.tracer.lines())
            recorder.writer.event("Measure", at=at, name="gradients-looked-at", value=1, unit="files")
        for place, count in self.used.items():
            if not count:
                continue
            at = recorder.site(place, ())
            recorder.writer.event("Measure", at=at, name="gradients-used", value=count, unit="calls")
        for place, found in self.discarded.items():
            at = recorder.site(place, found.iterations)
            for leaf in sorted(found.leaves):
                name = "gradient-discarded:%d" % leaf
                recorder.writer.event("Measure", at=at, name=name, value=found.calls, unit="calls")

    def _settle(self, thread: _Thread) -> None:
        """Look at the gradients: what the open call has added, and what of earlier calls has been cleared."""
        begun, thread.open = thread.open, None
        self._forget_unseen()
        self._drop_cleared(thread, {} if begun is None else begun.before)
        if begun is None:
            return
        added = {}
        for parameter in self._parameters():
            version = _version(parameter)
            if version is not None and begun.before.get(id(parameter), -1) != version:
                added[id(parameter)] = (weakref.ref(parameter), version)
        self.given.setdefault(begun.where[0], set()).update(added)
        if thread.within & added.keys():
            place = begun.where[0]
            self.used[place] = self.used.get(place, 0) + 1
            thread.closure = begun
        elif added:
            thread.waiting.append(_Call(begun.where, added))
            del thread.waiting[: -4 * _CALLS]

    def _forget_unseen(self) -> None:
        """Forget the calls that wait if others were let pass since the last look.

        What is there now may be what those gave after it was cleared.
        """
        passed = self.recorder.passing.count
        if passed != self._passed:
            self._passed = passed
            for thread in list(self.threads.values()):
                thread.waiting = []

    def _drop_cleared(self, thread: _Thread, before: Mapping[int, Optional[int]]) -> None:
        """Tell the calls whose gradients are gone; `before` has the versions at the beginning of the last backward."""
        left = []
        for call in thread.waiting:
            kept = unread = False
            for key, (reference, version) in list(call.added.items()):
                parameter = reference()
                if parameter is None:
                    # Who drops a model has no use for its gradients; another tensor may get its identity.
                    call.lost = True
                    del call.added[key]
                    continue
                now = _version(parameter) if self.recorder.walks.may_read(parameter) else version
                # What that backward itself has changed is what it has added: zeros, maybe.
                moved = now != version and before.get(key) != version
                empty = now is None or (moved and self._zero(parameter))
                if empty:
                    call.cleared.add(key)
                    del call.added[key]
                elif empty is None or now is None:
                    # Of what cannot be read nothing is known.
                    unread = True
                else:
                    call.added[key] = (reference, now)
                    kept = True
            if kept:
                # The rest may still be used.
                left.append(call)
            elif not (unread or call.lost):
                self._tell(call.where, call.cleared)
        thread.waiting = left

    def _tell(self, where: Where, parameters: Iterable[int]) -> None:
        place, iterations = where
        known = self.recorder.reader.leaves
        numbers = {known[key][1] for key in parameters if key in known}
        entry = self.discarded.setdefault(place, _Discarded(iterations))
        entry.calls += 1
        entry.leaves |= numbers

    def _zero(self, parameter: Tensor) -> Optional[bool]:
        """Return whether a gradient holds nothing but zeros, None where that cannot be seen."""
        found = self.recorder.reader.values.digest(_GRADIENT(parameter))
        return None if found is None else found == ZEROS

    def _parameters(self) -> Iterator[Tensor]:
        return (p for p, _ in self.recorder.changes.parameters() if self.recorder.walks.may_read(p))


def _version(parameter: Tensor) -> Optional[int]:
    """Return the version of a parameter's gradient, None where there is none."""
    gradient = _GRADIENT(parameter)
    return None if gradient is None else version_of(gradient)
