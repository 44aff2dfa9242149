"""Backward calls that were let pass: what is known of each, and what those of one place have in common."""

from __future__ import annotations

from types import CodeType
from typing import NamedTuple, Optional, Set, Tuple

from .lines import Iterations, Place, State, iterations

# A code object, and the line and the instruction in it.
CallAt = Tuple[CodeType, int, int]


class Passed:
    """A backward that was let pass: it looked like those before it from the same line, so the tape has nothing of it.

    The nodes it walked carry this mark. Once one of them matters again (it is walked once more, fails or is held), it
    is written with all that is known of it, and this backward, too. With `put_off` only its roots carry the mark
    so far. Nodes that several retaining calls walked carry the mark of the newest, and `earlier` is that of the one
    before. `inputs` are what its gradients were taken for, None where for all leaves, and `ends` those that it goes no
    further than: sequence numbers of the nodes that made them, negative numbers of leaves.
    """

    __slots__ = (
        "accumulates", "call", "create", "earlier", "ends", "inputs", "iteration", "number", "oldest", "place",
        "put_off", "retain", "void",
    )  # fmt: skip

    def __init__(
        self, number: int, place: Optional[Place], iteration: Iterations, call: CallAt, retain: bool, create: bool,
        accumulates: bool,
    ) -> None:  # fmt: skip
        self.number = number
        self.place = place
        self.iteration = iteration
        self.call = call
        self.retain = retain
        self.create = create
        self.accumulates = accumulates
        self.inputs: Optional[Set[int]] = None
        self.ends: Set[int] = set()
        self.put_off = False
        self.void = False
        # The sequence number of the oldest node that its graph holds, -1 where that is not known.
        self.oldest = -1
        self.earlier: Optional[Passed] = None

    def after(self, earlier: Optional[Passed]) -> Passed:
        """Return the mark of this call for nodes that an earlier one walked, too.

        Of several from one line the newest is enough: that it walked them again is what matters of the others.
        """
        made = Passed(
            self.number, self.place, self.iteration, self.call, self.retain, self.create, self.accumulates
        )  # fmt: skip
        made.void, made.inputs, made.ends = self.void, self.inputs, self.ends
        if earlier is None:
            return made
        made.oldest = earlier.oldest
        if earlier.place is self.place:
            made.earlier = earlier.earlier
        elif earlier.void:
            made.earlier = self.after(earlier.earlier).earlier
        else:
            # A copy: what refers to a mark is counted as a node of its own.
            made.earlier = earlier.after(self.after(earlier.earlier).earlier)
        return made


class Shape:
    """What the last walked call of a place traversed: which of the nodes that were built since the call before it.

    `window` is how many those were, `walked` has a byte for each, the newest first.
    """

    __slots__ = ("walked", "window")

    def __init__(self, window: int, walked: bytearray) -> None:
        self.window = window
        self.walked = walked

    def holds(self, offset: int) -> bool:
        return offset < len(self.walked) and bool(self.walked[offset])


class Kind:
    """What calls that are let pass without a look at their graphs have in common: where they are, how they look.

    `depth` is how many of torch's frames lie between the engine and a call that is given nothing, 0 for any other.
    """

    __slots__ = ("accumulates", "call", "depth", "place", "shape")

    def __init__(self, place: Place, call: CallAt, accumulates: bool, shape: Shape) -> None:
        self.place = place
        self.call = call
        self.accumulates = accumulates
        self.shape = shape
        self.depth = 0


class PutOff(NamedTuple):
    """A call that was let pass without a look at its graph: sequence numbers at the call and of its newest root.

    Every such call makes one: a plain tuple in the metadata of its roots, and its items in one flat list, since a tuple
    for each of many calls would have Python's garbage collector run more often. `state` and
    `innermost`, the index of the innermost loop, say which iterations ran.
    """

    number: int
    kind: Kind
    state: State
    innermost: int
    stamp: int
    root: int
    window: int

    def passed(self) -> Passed:
        """Return the call as it is known of those whose graphs were looked at."""
        kind, iteration = self.kind, iterations(self.state, self.innermost)
        return Passed(self.number, kind.place, iteration, kind.call, False, False, kind.accumulates)


class Calls:
    """The backward calls of one place: how many, how many in a row told nothing new, how many more need no look.

    From call `look` on, one may have to be written again; `kind` is there while calls may pass without a look. `bare`
    is a call with the depth that its `Kind` has.
    """

    __slots__ = ("bare", "count", "kind", "look", "nodes", "place", "quiet", "wait")

    def __init__(self, place: Place) -> None:
        self.place = place
        self.count = self.look = self.nodes = self.quiet = self.wait = 0
        self.kind: Optional[Kind] = None
        self.bare: Optional[Tuple[CallAt, int]] = None


ITEMS = len(PutOff._fields)
MAX_PUT_OFF = 4096 * ITEMS
