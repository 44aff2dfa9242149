"""TAPE401, missing-create-graph."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from tapecheck.rules.finding import Finding, Label
from tapecheck.rules.gradients import shared_loops
from tapecheck.rules.missing_create_graph.facts import MissingCreateGraphFacts
from tapecheck.rules.path import always, path_labels
from tapecheck.rules.reading import SUMS, Reading, Run, plain, remembered, undifferentiable, with_sources
from tapecheck.rules.rule import Rule
from tapecheck.rules.words import called_from, headline, line
from tapecheck.tape import Cut, Node, NoGraph, Root, Span, Unused
from tapecheck.tape.ledger import UNKNOWN_SOURCE

_EXPLICIT = frozenset({"detach", "data", "item", "numpy", "copy", "no_grad", "nondifferentiable"})
"""Cuts that say themselves that the value is meant as a constant from there on."""


class MissingCreateGraph(Rule):
    """A gradient that is not differentiable goes into a loss."""

    code = "TAPE401"
    name = "missing-create-graph"
    severity = "warning"
    severities = ("error", "warning")
    of_absence = True
    settled = True
    summary = "A gradient taken without create_graph=True goes into a loss as a constant"

    def judge(self, readings: Sequence[Reading]) -> list[Finding]:
        findings: list[Finding] = []
        for reading, run in ((one, run) for one in readings for run in one.runs):
            if (problem := run.fails(NoGraph)) is not None:
                cuts = undifferentiable(reading, run.backward.roots[problem.root].cuts)
                findings += self._raising(readings, reading, run, cuts, run.backward.roots[problem.root], None)
            elif (unused := run.fails(Unused)) is not None and run.backward.roots:
                target = (run.backward.inputs or ())[unused.root]
                cuts = [cut for cut in _gradients_behind(reading, run) if target in reading.below(cut.nodes)]
                findings += self._raising(readings, reading, run, cuts, run.backward.roots[0], target)
            elif not run.failed:
                findings += self._silent(reading, run)
        return findings

    def _raising(
        self, readings: Sequence[Reading], reading: Reading, run: Run, cuts: list[Cut], root: Root, unused: int | None
    ) -> Iterator[Finding]:
        if not cuts:
            return
        home = run.at.span
        taken = line(min(cuts, key=lambda cut: cut.id).at.span, home)
        certain = always(readings, reading, run)
        known = reading.name(unused) if unused is not None else None
        message = raising_headline(root.name, None if unused is None else known[0] if known else "", certain)
        labels = _labels(reading, cuts)
        labels += path_labels(readings, reading, run)
        labels += called_from(reading, run.at, run.at)
        yield Finding(
            self.code, self.name, "error", home, message,
            f"pass `create_graph=True` to the gradient on {taken} (it implies `retain_graph=True`)",
            tuple(labels), certain,
            facts=MissingCreateGraphFacts(kind="raises"),
        )  # fmt: skip

    def _silent(self, reading: Reading, run: Run) -> Iterable[Finding]:
        terms = {term for root in run.backward.roots for term in root.constant_terms}
        for term in sorted(terms & reading.ledger.cuts.keys()):
            cut, node = reading.ledger.cuts[term], _meeting(reading, run, term)
            if node is None or _is_meant(reading, run, cut, node):
                continue
            home = node.at.span
            taken = line(cut.at.span, home)
            labels = _labels(reading, [cut])
            if run.at.span != home:
                labels.append(Label(run.at.span, "this backward does not see the term", "path"))
            labels += called_from(reading, node.at, node.at)
            yield Finding(
                self.code, self.name, "warning", home, _silent_headline(reading, run, node),
                f"pass `create_graph=True` to the gradient on {taken} (it implies `retain_graph=True`); if the term is "
                "meant as a constant, say so with `.detach()`",
                tuple(labels),
                facts=MissingCreateGraphFacts(kind="silent"),
            )  # fmt: skip


def _is_meant(reading: Reading, run: Run, cut: Cut, meeting: Node) -> bool:
    """Return whether a gradient is a constant of a loss on purpose."""
    if _stepped_since(reading, cut, meeting) or _is_carried(cut, meeting) or _made_leaf(reading, run, cut.id):
        return True
    # With a graph of its own it would lead to nothing that this call differentiates by.
    return run.backward.inputs is not None and reading.below(cut.nodes).isdisjoint(run.backward.inputs)


def _stepped_since(reading: Reading, cut: Cut, meeting: Node) -> bool:
    """Return whether an optimizer stepped between the backward of a gradient and the term that it is part of.

    The gradient is of parameters that are gone by then: what was learned from it is a constant.
    """
    events = reading.tape.events
    taken = next((place for place, event in enumerate(events) if event is cut), 0)
    used = next((place for place, event in enumerate(events) if event is meeting), 0)
    computed = max((run.position for run in reading.runs if run.position <= taken), default=taken)
    return reading.step_between(computed, used) is not None


def _is_carried(cut: Cut, meeting: Node) -> bool:
    """Return whether the term is part of a later iteration than its gradient, of a loop that both are in.

    What an iteration makes of a gradient for the next one, an image that climbs or a momentum, is data there.
    """
    shared = shared_loops(cut.at, meeting.at)
    taken, used = cut.at.iteration[shared:], meeting.at.iteration[shared:]
    return bool(taken and used) and taken[0][0] == used[0][0]


def _made_leaf(reading: Reading, run: Run, term: int) -> bool:
    """Return whether a leaf that the backward reaches was made of the gradient: then so was the data beside it."""
    leaves = reading.ledger.leaves
    return any(term in _derived(reading, leaves[number].cuts) for number in run.executed.keys() & leaves.keys())


def raising_headline(root: str, unreached: str | None, certain: bool) -> str:
    """Return the headline for a call that raises; `unreached` is the name of an input it finds no way to."""
    missing, tensor = "missing `create_graph=True`", "`{}`" if root else "the gradient"
    if unreached is not None:
        names = [name for name in (unreached, root) if name]
        what = f"{'`{}`' if unreached else 'an input'} is unreachable from {'`{}`' if root else 'the root'}"
        return headline(f"{what}: {missing}" if certain else f"possible {missing}: {what}", *names)
    names = [root] if root else []
    if certain:
        return headline(f"{tensor} cannot be differentiated: {missing}", *names)
    return headline(f"possible {missing}: {tensor} cannot be differentiated", *names)


def _silent_headline(reading: Reading, run: Run, meeting: Node) -> str:
    """Return the headline for a gradient that a loss takes for a constant.

    Where it is only added, nothing is learned of it; elsewhere it scales or shifts what is.
    """
    root = run.backward.roots[0]
    way = reading.path([root.node], meeting.id) if root.node is not None else []
    added = all(plain(reading.ledger.nodes[node].op) in SUMS for node in way if node in reading.ledger.nodes)
    names = (root.name,) if root.name else ()
    loss = "`{}`" if names else "the loss"
    if not added:
        return headline(f"gradient in {loss} is a constant (missing `create_graph=True`)", *names)
    effect = f"penalty in {loss} has no effect (missing `create_graph=True`)"
    return headline([f"gradient {effect}", effect], *names)


def gradients_taken(readings: Sequence[Reading]) -> set[Span]:
    """Return the calls that this rule wants `create_graph=True` for."""
    if not any(cut.how == "grad" for reading in readings for cut in reading.ledger.cuts.values()):
        return set()
    return {
        label.span
        for finding in MissingCreateGraph().judge(readings)
        for label in finding.labels
        if label.role == "cut"
    }


def _labels(reading: Reading, cuts: Iterable[Cut]) -> list[Label]:
    labels = []
    for cut in sorted(cuts, key=lambda cut: cut.id):
        labels.append(Label(cut.at.span, "not differentiable: taken here without `create_graph=True`", "cut"))
        labels += called_from(reading, cut.at, cut.at, 1)
    return labels


def _meeting(reading: Reading, run: Run, term: int) -> Node | None:
    """Return the first operation that takes the constant gradient into the graph that the backward runs.

    An unknown weight, which may require grad, makes a graph of its own: that goes without it where there is another.
    """
    nodes = reading.graph_nodes(reading.below(run.backward.root_nodes))
    if run.backward.inputs is not None:
        # What the inputs were made of is behind them: parameters that earlier steps have moved.
        nodes = (nodes & run.executed.keys()) - set(run.backward.inputs)
    ledger, order = reading.ledger, sorted(nodes)
    met = next((one for one in order if term in _derived(reading, ledger.nodes[one].cuts)), None)
    if met is None or not _is_unknown(reading, met):
        return None if met is None else ledger.nodes[met]
    known = (one for one in order if met in ledger.ancestry([one]) and not _is_unknown(reading, one))
    return ledger.nodes[next(known, met)]


def _is_unknown(reading: Reading, number: int) -> bool:
    """Return whether a node leads to nothing but values that are not known."""
    ledger = reading.ledger
    ends = [one for one in ledger.ancestry([number]) if one in ledger.leaves or not ledger.nodes[one].inputs]
    return all(one not in ledger.leaves and ledger.nodes[one].op == UNKNOWN_SOURCE for one in ends)


def _derived(reading: Reading, cuts: Sequence[int]) -> Mapping[int, Cut]:
    """Return the gradients that cut values were made of, unless these were made constants on purpose."""
    return with_sources(reading, cuts, lambda cut: cut.how not in _EXPLICIT)


@remembered
def _gradients_behind(reading: Reading, run: Run) -> list[Cut]:
    """Return the gradients without graph that the graph of a grad call was computed with."""
    numbers = {cut for root in run.backward.roots for cut in root.cuts} | reading.constants_of(run)
    return [cut for cut in with_sources(reading, numbers).values() if cut.how == "grad"]
