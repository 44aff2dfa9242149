"""What tells tapes from one another: for the rules, for other conditions, for who kept an earlier one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from operator import attrgetter

from tapecheck.tape import Assumed, Bind, Cut, Decision, Hold, InPlace, Node, Site, Tape

_TOLD_BY: dict[type, Callable[..., object]] = {
    Bind: attrgetter("name", "node", "cuts", "item"),
    Cut: attrgetter("id", "how", "nodes", "leaves", "name", "sources", "off_at", "within"),
    InPlace: attrgetter("storage", "how", "name", "leaf", "grad_mode", "bumps", "optimizer", "on_view", "lost"),
    Hold: attrgetter("loop", "index", "holder", "nodes", "bound", "inside"),
}
"""What tells events of the commonest kinds apart besides their place."""
_SAVED = attrgetter("storage", "version", "name", "of", "fact")


def _signatures(tape: Tape) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return what of a tape the rules can see, and what of it other conditions can matter to.

    The first is everything but the decisions, the second the graphs without the values taken out of them.
    """
    signature: list[int] = []
    shape: list[int] = []
    sites: dict[int, int] = {}
    stacks: dict[int, int] = {}

    def place(at: Site) -> int:
        """Return what tells a place; the calls that led there are those of many others."""
        known = sites.get(id(at))
        if known is None:
            stack = stacks.get(id(at.stack))
            if stack is None:
                stack = stacks[id(at.stack)] = hash(at.stack)
            known = sites[id(at)] = hash((at.span, at.function, stack, at.iteration))
        return known

    for event in tape.events:
        kind = type(event)
        if isinstance(event, Node):
            # By far the most events; those of one line in one iteration share their place.
            at = sites.get(id(event.at)) or place(event.at)
            saved = tuple(map(_SAVED, event.saved))
            own = event.id, event.op, at, event.inputs, saved, event.keeps, event.linked, event.cuts
            signature.append(hash(own))
            shape.append(signature[-1])
        elif kind is not Decision and kind is not Assumed:
            if not isinstance(event, (Bind, Cut, Hold, InPlace)):
                signature.append(hash(event))
            else:
                at = sites.get(id(event.at)) or place(event.at)
                signature.append(hash((kind, at, _TOLD_BY[kind](event))))
            if kind is not Cut and kind is not Bind:
                shape.append(signature[-1])
    return tuple(signature), tuple(shape)


@dataclass(slots=True)
class Seen:
    """What the tapes of the ways from one start have shown so far."""

    _first: Tape | None = None
    """The tape of the first way, until another is to be told from it: most first ways are followed by none."""
    _signatures: set[tuple[int, ...]] = field(default_factory=set)
    """What the rules can see of the tapes so far."""
    _shapes: set[tuple[int, ...]] = field(default_factory=set)
    """The graphs of the tapes so far."""

    def first(self, tape: Tape) -> None:
        """Take note of the tape of the first way."""
        self._first = tape

    def says_new(self, tape: Tape) -> tuple[bool, bool]:
        """Return whether the rules can tell a tape from those before, and whether its graphs are others."""
        if self._first is not None:
            self._note(self._first)
            self._first = None
        return self._note(tape)

    def _note(self, tape: Tape) -> tuple[bool, bool]:
        signature, shape = _signatures(tape)
        fresh, other_graph = signature not in self._signatures, shape not in self._shapes
        self._signatures.add(signature)
        self._shapes.add(shape)
        return fresh, other_graph


def as_before(tapes: list[Tape], before: list[Tape]) -> list[Tape]:
    """Return tapes with those of an earlier exploration in the place of the ones that say the same."""
    known = [*before]
    found = []
    for tape in tapes:
        same = next((number for number, old in enumerate(known) if _alike(tape, old)), None)
        found.append(tape if same is None else known.pop(same))
    return found


def _alike(one: Tape, other: Tape) -> bool:
    return (
        len(one.events) == len(other.events)
        and _told(one) == _told(other)
        and one.events == other.events
        and len(one.beyond) == len(other.beyond)
        and all(map(_alike, one.beyond, other.beyond))
    )


def _told(tape: Tape) -> tuple[object, ...]:
    """Return what is known of the run that a tape is of."""
    return tape.started, tape.uncalled, tape.by_default, tape.untried, tape.keeping, tape.leaving, tape.uncovered
