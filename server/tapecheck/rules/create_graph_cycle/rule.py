"""TAPE203, create-graph-cycle."""

from __future__ import annotations

from collections.abc import Sequence

from tapecheck.rules.create_graph_cycle.facts import CreateGraphCycleFacts
from tapecheck.rules.finding import Finding, Label
from tapecheck.rules.gradients import gradients_of
from tapecheck.rules.reading import LoopRun, Reading, Run, iteration_in
from tapecheck.rules.rule import Rule
from tapecheck.rules.words import called_from, join, quoted
from tapecheck.tape import Leaf


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
                for loop in _loops(reading, runs):
                    leaking = _leaking(reading, loop, runs)
                    if leaking:
                        findings.append(self._finding(reading, loop, runs, leaking))
                        break
        return findings

    def _finding(self, reading: Reading, loop: LoopRun, runs: list[Run], leaking: list[Leaf]) -> Finding:
        last = runs[-1]
        home = last.at.span
        fresh = [leaf for leaf in leaking if iteration_in(leaf.at, loop)]
        certain = last.backward.create == "yes"
        names = list(dict.fromkeys(f"`{leaf.name}`" for leaf in leaking if leaf.name))
        more = len(names) - 3
        owners = join([*names[:3], f"{more} more"] if more > 0 else names[:3]) or "the leaves"
        cycle = "a leaf, its `.grad` and the graph of that refer to each other, which no garbage collector sees"
        if fresh:
            keep = "keeps a" if len(names) == 1 else "keep a"
            why = f"{owners}, made anew in each iteration, {keep} `.grad` that is never set to None"
        else:
            why = f"the `.grad` of {owners} is not set to None between iterations"
        headline = "`backward(create_graph=True)` leaks a reference cycle"
        labels = []
        for leaf in (fresh or leaking)[:2]:
            labels.append(Label(leaf.at.span, f"{quoted(leaf.name, 'a leaf')} is made here", "kept"))
        for leaf in leaking:
            for _, cleared in reading.cleared.get(leaf.id, ()):
                if cleared.to_none == "no" and cleared.detached == "no":
                    labels.append(Label(cleared.at.span, "zeroed in place here: the gradient keeps its graph", "kept"))
                    break
        labels += called_from(reading, last.at, last.at)
        labels.append(Label(loop.event.at.span, "one more cycle in each iteration of this loop", "path"))
        target = "x" if fresh and not fresh[0].parameter else "p"
        name = fresh[0].name if fresh and not fresh[0].parameter and fresh[0].name else target
        return Finding(
            self.code, self.name, self.severity, home, headline if certain else f"possible leak: {headline}",
            "take the gradients with `torch.autograd.grad(…, create_graph=True)`, or set them to None when done "
            f"(`{name}.grad = None`)",
            tuple(labels), certain,
            facts=CreateGraphCycleFacts(loop=loop.event.at.span, fresh=bool(fresh)),
            notes=(why, cycle),
        )  # fmt: skip


def _makes_cycles(run: Run) -> bool:
    backward = run.backward
    return backward.call == "backward" and backward.accumulates and backward.create != "no" and not run.failed


def _loops(reading: Reading, runs: list[Run]) -> list[LoopRun]:
    """Return the loops around the last run of a call, outermost first."""
    if not runs:
        return []
    return [loop for number, _ in runs[-1].at.iteration if (loop := reading.loops.get(number)) is not None]


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
    leaves = [
        leaf
        for node, fact in run.traversal.executed.items()
        if fact == "yes" and (leaf := reading.ledger.leaves.get(node)) is not None
    ]
    if not leaves:
        return []
    # What the nodes on the way saved is what the gradient's own graph refers to.
    used: set[int] = set()
    opaque = False
    for number in run.traversal.executed:
        node = reading.ledger.nodes.get(number)
        if node is None or node.keeps == "no":
            continue
        opaque = opaque or not node.saved
        for saved in node.saved:
            if saved.fact != "no" and (saved.of is not None or saved.name == "result"):
                # Its own result is not known to come from a node when it is saved.
                used.add(saved.of if saved.of is not None else number)
    referred = reading.ledger.ancestry(used).keys()
    return [leaf for leaf in leaves if opaque or leaf.id in referred]


def _kept(reading: Reading, loop: LoopRun, leaf: Leaf, index: int, run: Run, following: Run | None) -> bool:
    """Return whether the gradient that a backward left on a leaf still has its graph when the next one comes."""
    made = iteration_in(leaf.at, loop)
    if made:
        return made == index and not _released(reading, leaf, run.position, None)
    if following is None or leaf.id not in following.traversal.executed:
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
    return not any(moment.kind == "set" for moment in gradients.moments(leaf.id))


def _released(reading: Reading, leaf: Leaf, start: int, end: int | None) -> bool:
    return any(
        start < position and (end is None or position < end) and (event.to_none != "no" or event.detached != "no")
        for position, event in reading.cleared.get(leaf.id, ())
    )
