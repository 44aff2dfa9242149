"""How a backward came to an old graph: carried over iterations, built before the loop, or shared by two
losses.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tapecheck.rules.finding import Label
from tapecheck.rules.reading import SUMS, LoopRun, Reading, Run, plain
from tapecheck.rules.words import join, line
from tapecheck.tape import InPlace, Node, Site, Span

_MOST_TOGETHER = 3
"""How many names of one iteration are told: more are a container's."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Why two backwards meet at one node.

    carried: `name`, stored at `at`, refers to the graph of an earlier `iteration`. outside: `name`, set at
    `at`, was computed before the loop. shared: `name` is part of what both were computed from in one
    iteration. same: both start from one tensor. `node` is the node of that value; `summed` says that the way
    to it leads through sums alone, `elements` of what the value is one, where the name is that of a tuple or list.
    `source` is another name of the value where it was stored: that of `out` in `state = out`. `together` are the
    names of all tensors that carry the graph of that iteration, in the order in which they were made, where there are
    several. `loop` is the loop of what is carried, where others run or the value is stored in another function than it.
    """

    kind: Literal["carried", "outside", "shared", "same"]
    name: str = ""
    at: Site | None = None
    iteration: int = 0
    node: int | None = None
    summed: bool = False
    elements: Literal["", "tuple", "list"] = ""
    source: str = ""
    together: tuple[str, ...] = ()
    loop: Span | None = None

    def between(self, home: Span) -> str:
        """Return what to do about what is carried, seen from `home`: which loop has it, where that is a question."""
        of_loop = f" of the loop on {line(self.loop, home)}" if self.loop is not None else ""
        return f"cut the graph between iterations{of_loop}"

    @property
    def detaching(self) -> str:
        """Return the statement that cuts the graph of what is carried, without backticks."""
        if self.elements:
            return f"{self.name} = tuple(part.detach() for part in {self.name})"
        return f"{self.name} = {self.name}.detach()"

    @property
    def cutting(self) -> str:
        """Return how to cut the graph of what is carried: the statement in backticks, and where it belongs."""
        if self.together:
            return join(f"`{name} = {name}.detach()`" for name in self.together) + " before they are used again"
        if self.source and not self.elements:
            return f"`{self.name} = {self.source}.detach()` where it is stored"
        return f"`{self.detaching}` before `{self.name}` is used again"

    @property
    def text(self) -> str:
        return f"`{self.name}`" if self.name else "the tensor" if self.kind == "same" else "something"

    @property
    def labels(self) -> list[Label]:
        """Return the label of the place that carries a graph over an iteration, or has it from before a loop."""
        if self.at is None or (not self.name and self.kind != "carried"):
            return []
        if self.kind == "carried" and not self.name:
            return [Label(self.at.span, f"made here in iteration {self.iteration}, used again now", "carried")]
        if self.kind == "carried":
            said = f"{self.text} still refers to the graph of iteration {self.iteration}"
            return [Label(self.at.span, said, "carried")]
        what = "is computed once, before the loop" if self.kind == "outside" else "belongs to both graphs"
        return [Label(self.at.span, f"{self.text} {what}", "path")]


def trace(reading: Reading, run: Run, node: Node, other: Run | None, change: InPlace | None = None) -> Origin:
    """Follow a backward from its roots down to a node of an older graph and say what led there.

    `other` is the earlier backward that ran through the node too, None where there was none, `change` what made the
    node's saved tensor stale.
    """
    way = _Way(reading, run, other, reading.path(run.backward.root_nodes, node.id))
    # What an earlier iteration made since then may well be meant: losses added up over a window.
    since = reading.built_since(change) if change is not None else 0
    old = {number for number in way.nodes if (number in other.executed if other is not None else number < since)}
    for step, number in enumerate(way.nodes):
        site = reading.site(number)
        if site is None or (old and number not in old):
            continue
        carried = _earlier_iteration(site, run.at)
        if carried is not None:
            return way.carried(step, *carried, site)
        if _built_before(site, run.at) and _runs_again(run, other):
            name, at = reading.name(number, run.position) or ("", site)
            return Origin("outside", name, at, 0, number, way.is_summed(step))
    return way.shared(node)


@dataclass(frozen=True, slots=True)
class _Way:
    """The way of a backward through a graph, down to a node that an earlier one, `other`, ran through too."""

    reading: Reading
    run: Run
    other: Run | None
    nodes: list[int]

    def is_summed(self, step: int) -> bool:
        """Return whether only sums lead to a step of the way."""
        return step > 0 and all(_is_sum(self.reading, above) for above in self.nodes[:step])

    def carried(self, step: int, loop_id: int, iteration: int, site: Site) -> Origin:
        """Return what carries a node on the way over from an earlier iteration of a loop."""
        reading = self.reading
        loop = reading.loops.get(loop_id)
        kept, found = self._kept_by(step, loop, iteration) if loop is not None else (step, None)
        name, at = found or ("", site)
        several = reading.elements_of(name, self.nodes[kept]) if name else ""
        source = reading.stored_from(self.nodes[kept], name, at) if found is not None and not several else ""
        together = self._kept_together(loop, iteration) if loop is not None and name and not several else ()
        together = together if name in together and 1 < len(together) <= _MOST_TOGETHER else ()
        place = loop.event.at.span if loop is not None and self._needs_telling(loop.event.at, at) else None
        summed = self.is_summed(step)
        return Origin("carried", name, at, iteration, self.nodes[step], summed, several, source, together, place)

    def _needs_telling(self, loop: Site, stored: Site) -> bool:
        """Return whether the loop of a carried value is one of several, or in another function than what stores it."""
        apart = (loop.function, loop.file) != (stored.function, stored.file)
        return len(self.run.at.iteration) > 1 or apart

    def _kept_by(self, step: int, loop: LoopRun, iteration: int) -> tuple[int, tuple[str, Site] | None]:
        """Return the node on the way that was kept of an iteration, by its place there, with what holds it."""
        reading, way = self.reading, self.nodes
        # What that iteration made of it later, past its backward, is what was kept.
        kept = step
        while kept and _index(reading.site(way[kept - 1]), loop.id) == iteration:
            kept -= 1
        for at_step in dict.fromkeys((kept, step)):
            user = way[at_step - 1] if at_step else None
            found = reading.carried_by(way[at_step], loop, iteration, self.run.position, user)
            if found is not None:
                return at_step, found
        return kept, None

    def _kept_together(self, loop: LoopRun, iteration: int) -> tuple[str, ...]:
        """Return what was kept of an iteration whose graph the other backward freed, in the order of its making."""
        reading, nodes = self.reading, self.reading.ledger.nodes
        executed = reading.graph_nodes(self.other.executed if self.other is not None else ())
        freed = {number for number in executed if nodes[number].keeps != "no"}
        found: dict[int, str] = {}
        for number in reading.graph_nodes(reading.below(self.run.backward.root_nodes)) if freed else ():
            reader = reading.site(number)
            if _index(reader, loop.id) == iteration:
                continue
            made = (source for source in nodes[number].inputs if _index(reading.site(source), loop.id) == iteration)
            for source in made:
                if source not in found and not freed.isdisjoint(reading.below([source])):
                    holder = reading.carried_by(source, loop, iteration, self.run.position, number)
                    if holder is not None and not reading.elements_of(holder[0], source):
                        found[source] = holder[0]
        return tuple(dict.fromkeys(found[source] for source in sorted(found)))

    def shared(self, node: Node) -> Origin:
        """Return the origin of a node that two backward calls of one iteration run through."""
        reading, other = self.reading, self.other
        if other is not None and self.nodes and self.nodes[0] in {root.node for root in other.backward.roots}:
            return Origin("same", self.run.backward.roots[0].name, None, 0, self.nodes[0])
        shared = next((number for number in self.nodes if other is not None and number in other.executed), None)
        if shared is None:
            return Origin("shared")
        for number in reading.path([shared], node.id) or [shared]:
            found = reading.name(number, self.run.position)
            if found is not None:
                return Origin("shared", *found, 0, number)
        return Origin("shared", "", reading.site(shared), 0, shared)


def _is_sum(reading: Reading, number: int) -> bool:
    node = reading.ledger.nodes.get(number)
    return node is not None and plain(node.op) in SUMS


def _earlier_iteration(site: Site, now: Site) -> tuple[int, int] | None:
    current = dict(now.iteration)
    for number, index in site.iteration:
        if number in current and index < current[number]:
            return number, index
    return None


def _index(site: Site | None, loop: int) -> int | None:
    return dict(site.iteration).get(loop) if site is not None else None


def _built_before(site: Site, now: Site) -> bool:
    """Return whether something was built outside a loop that runs now."""
    then = {number for number, _ in site.iteration}
    return any(number not in then for number, _ in now.iteration)


def _runs_again(run: Run, other: Run | None) -> bool:
    """Return whether the earlier backward was an earlier iteration of a loop that runs now."""
    return other is not None and _earlier_iteration(other.at, run.at) is not None
