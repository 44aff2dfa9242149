"""TAPE202, growing-chain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from tapecheck.rules.facts import Facts
from tapecheck.rules.finding import Finding, Label
from tapecheck.rules.origin import Origin
from tapecheck.rules.reading import Chain, Reading, iteration_in
from tapecheck.rules.rule import Rule
from tapecheck.rules.words import called_from, quoted
from tapecheck.tape import Site, Span


class GrowingChain(Rule):
    """Each retained backward in a loop walks the graphs of all earlier iterations."""

    code = "TAPE202"
    name = "growing-chain"
    severity = "warning"
    summary = "retain_graph=True hides a chain: each backward walks all earlier iterations"

    def judge(self, readings: Sequence[Reading]) -> list[Finding]:
        return [self._finding(readings, reading, chain) for reading in readings for chain in reading.growing_chains]

    def _finding(self, readings: Sequence[Reading], reading: Reading, chain: Chain) -> Finding:
        last = chain.runs[-1]
        home = last.at.span
        certain = chain.loop.repeats and _is_shown(readings, home, len(reading.runs_by_site[home]))
        name, at, node = _carrier(reading, chain) or ("", None, 0)
        lengths = ", ".join(map(str, chain.lengths))
        walked = "the iterations since the last reset" if chain.window else "all previous iterations"
        headline = f"each backward re-walks {walked}"
        carried = f"{quoted(name, 'a value')} carries its graph into the next iteration"
        labels = [Label(at.span, carried, "carried")] if at is not None else []
        oldest = _oldest(reading, chain)
        if oldest is not None and (at is None or oldest.line != at.line):
            until = "until the next reset" if chain.window else "in every later one"
            labels.append(Label(oldest.span, f"nodes of the first iteration, walked again {until}", "built"))
        labels += called_from(reading, last.at, last.at)
        cut = _cutting(name, reading.elements_of(name, node)) if name else "`.detach()` on the carried value"
        retain = last.backward.retain_span
        drop = "remove `retain_graph=True`" if retain is not None else "the graph need not be retained then"
        return Finding(
            self.code, self.name, self.severity, home, headline if certain else f"possible growing chain: {headline}",
            f"cut the graph between iterations, {cut} before it is used again, and {drop}",
            tuple(labels), certain,
            facts=Facts(stored=at.span if at is not None else None, argument=retain, loop=chain.loop.event.at.span),
            notes=(f"walks at least {lengths}, … nodes in successive iterations: {_cost(chain)}",),
        )  # fmt: skip


def _is_shown(readings: Sequence[Reading], home: Span, times: int) -> bool:
    """Return whether each way shows a chain at a call that runs it as many times, or more."""
    as_often = [reading for reading in readings if len(reading.runs_by_site.get(home, ())) >= times]
    return all(any(one.runs[-1].at.span == home for one in reading.growing_chains) for reading in as_often)


def _cost(chain: Chain) -> str:
    """Return what walking the earlier iterations again costs."""
    if chain.window:
        return "the gradients of losses since the last reset are added again each time"
    return "slower each time, and no memory is released"


def _cutting(name: str, elements: Literal["", "tuple", "list"]) -> str:
    """Return what cuts the graph of a carried value, of which a tuple's or container's elements have each their own."""
    if elements == "list":
        return f"`.detach()` each tensor in `{name}`"
    return f"`{Origin('carried', name, elements=elements).detaching}`"


def _carrier(reading: Reading, chain: Chain) -> tuple[str, Site, int] | None:
    """Return the value that leads from the last backward's own iteration to the one before: its name, place and
    node.
    """
    last = chain.runs[-1]
    now = iteration_in(last.at, chain.loop)
    roots = last.backward.root_nodes
    old = [node for node in last.executed if 0 < reading.iteration_of(node, chain.loop) < now]
    if not old:
        return None
    for number in reading.path(roots, min(old)):
        iteration = reading.iteration_of(number, chain.loop)
        if iteration and iteration < now:
            found = reading.carried_by(number, chain.loop, iteration, last.position)
            return (*found, number) if found is not None else None
    return None


def _oldest(reading: Reading, chain: Chain) -> Site | None:
    last = chain.runs[-1]
    nodes = [node for node in last.traversal.retraversed if reading.iteration_of(node, chain.loop)]
    return reading.site(min(nodes)) if nodes else None
