"""TAPE203, create-graph-cycle."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from tapecheck.rules.create_graph_cycle.facts import CreateGraphCycleFacts
from tapecheck.rules.finding import Finding, Label
from tapecheck.rules.gradients import gradients_of
from tapecheck.rules.reading import LoopRun, Reading, Run, iteration_in
from tapecheck.rules.rule import Rule
from tapecheck.rules.words import called_from, parameters_text, quoted
from tapecheck.tape import GradientCleared, Leaf, Node


class CreateGraphCycle(Rule):
    """Backward(create_graph=True) leaves leaves and their gradients in reference cycles."""

    code = "TAPE203"
    name = "create-graph-cycle"
    severity = "warning"
    summary = "backward(create_graph=True) leaves a reference cycle behind in each iteration"

    def judge(self, readings: Sequence[Reading]) -> list[Finding]:
        findings = []
        for reading in readings:
            for runs in reading.runs_by_site.values():
                runs = [run for run in runs if _makes_cycles(run)]
                loops = reading.loops_around(runs[-1].at) if runs else ()
                found = ((loop, leaking) for loop in loops if (leaking := _leaking(reading, loop, runs)))
                findings += [self._finding(reading, loop, runs, leaking) for loop, leaking in islice(found, 1)]
        return findings

    def _finding(self, reading: Reading, loop: LoopRun, runs: list[Run], leaking: list[Leaf]) -> Finding:
        last = runs[-1]
        fresh = [leaf for leaf in leaking if iteration_in(leaf.at, loop)]
        certain = last.backward.create == "yes"
        names = {leaf.name for leaf in leaking if leaf.name}
        owners = parameters_text((leaf.name for leaf in leaking), 3) or "the leaves"
        keep = "keeps a" if len(names) == 1 else "keep a"
        why = f"the `.grad` of {owners} is not set to None between iterations"
        if fresh:
            why = f"{owners}, made anew in each iteration, {keep} `.grad` that is never set to None"
        headline = "`backward(create_graph=True)` leaks a reference cycle"
        labels = _keeping(reading, leaking, (fresh or leaking)[:2])
        labels += called_from(reading, last.at, last.at)
        labels.append(Label(loop.event.at.span, "one more cycle in each iteration of this loop", "path"))
        name = (fresh[0].name or "x") if fresh and not fresh[0].parameter else "p"
        return Finding(
            self.code, self.name, self.severity, last.at.span, headline if certain else f"possible leak: {headline}",
            "take the gradients with `torch.autograd.grad(…, create_graph=True)`, or set them to None when done "
            f"(`{name}.grad = None`)",
            tuple(labels), certain,
            facts=CreateGraphCycleFacts(loop=loop.event.at.span, fresh=bool(fresh)),
            notes=(
                why, "a leaf, its `.grad` and the graph of that refer to each other, which no garbage collector sees"
            ),
        )  # fmt: skip


def _keeping(reading: Reading, leaking: Sequence[Leaf], made: Sequence[Leaf]) -> list[Label]:
    """Return where leaves are made, and where the gradients of all of them are zeroed and kept."""
    labels = [Label(leaf.at.span, f"{quoted(leaf.name, 'a leaf')} is made here", "kept") for leaf in made]
    return labels + [
        Label(cleared.at.span, "zeroed in place here: the gradient keeps its graph", "kept")
        for leaf in leaking
        for cleared in _zeroed(reading, leaf)[:1]
    ]


def _zeroed(reading: Reading, leaf: Leaf) -> list[GradientCleared]:
    """Return where the gradient of a leaf is filled with zeros and keeps its graph."""
    cleared = (event for _, event in reading.cleared.get(leaf.id, ()))
    return [event for event in cleared if event.to_none == event.detached == "no"]


def _makes_cycles(run: Run) -> bool:
    backward = run.backward
    return backward.call == "backward" and backward.accumulates and backward.create != "no" and not run.failed


def _leaking(reading: Reading, loop: LoopRun, runs: list[Run]) -> list[Leaf]:
    """Return leaves whose gradients pile up over the iterations of a loop; none where fewer than two whole
    iterations leave any behind.
    """
    by_iteration: dict[int, Run] = {}
    for run in runs:
        index = iteration_in(run.at, loop)
        # The last iteration of a tape that broke off had no chance to clear anything.
        if index and (loop.end is not None or index < loop.iterations):
            by_iteration[index] = run
    leaking: dict[int, Leaf] = {}
    times = 0
    for index in sorted(by_iteration):
        run = by_iteration[index]
        following = by_iteration.get(index + 1)
        found = [leaf for leaf in _own_cycles(reading, run) if _kept(reading, loop, leaf, index, run, following)]
        times += bool(found)
        leaking.update((leaf.id, leaf) for leaf in found)
    return list(leaking.values()) if times >= 2 else []


def _own_cycles(reading: Reading, run: Run) -> list[Leaf]:
    """Return the leaves of a backward whose gradient's graph leads back to them."""
    ledger = reading.ledger
    leaves = [ledger.leaves[number] for number in run.surely if number in ledger.leaves]
    # What the nodes on the way saved is what the gradient's own graph refers to.
    nodes = [ledger.nodes[number] for number in run.executed if number in ledger.nodes] if leaves else []
    keeping = [node for node in nodes if node.keeps != "no"]
    if not all(node.saved for node in keeping):
        return leaves
    referred = reading.below(source for node in keeping for source in _saved_of(node))
    return [leaf for leaf in leaves if leaf.id in referred]


def _saved_of(node: Node) -> Iterator[int]:
    """Yield the nodes and leaves that tensors come from which a node has saved."""
    for saved in node.saved:
        # Its own result is not known to come from a node when it is saved.
        source = node.id if saved.of is None and saved.name == "result" else saved.of
        if source is not None and saved.fact != "no":
            yield source


def _kept(reading: Reading, loop: LoopRun, leaf: Leaf, index: int, run: Run, following: Run | None) -> bool:
    """Return whether the gradient that a backward left on a leaf still has its graph when the next one comes."""
    made = iteration_in(leaf.at, loop)
    if made:
        return made == index and not _released(reading, leaf, run.position, None)
    if following is None or leaf.id not in following.executed:
        return False
    if leaf.parameter and not _known(reading, leaf):
        return False
    return not _released(reading, leaf, run.position, following.position)


def _known(reading: Reading, leaf: Leaf) -> bool:
    """Return whether it is sure that nothing unseen clears this parameter's gradient."""
    if reading.cleared.get(leaf.id):
        return True
    owners = [optimizer for optimizer in reading.optimizers.values() if leaf.id in optimizer.params]
    if owners:
        return any(optimizer.complete == "yes" for optimizer in owners)
    gradients = gradients_of(reading)
    if leaf.many or not gradients.listed or gradients.unseen(leaf.id):
        return False
    return not gradients.happens(leaf.id, "set")


def _released(reading: Reading, leaf: Leaf, start: int, end: int | None) -> bool:
    return any(
        start < position and (end is None or position < end) and (event.to_none != "no" or event.detached != "no")
        for position, event in reading.cleared.get(leaf.id, ())
    )
