"""TAPE402, gradient-cut."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tapecheck.rules.certainty import rest_on
from tapecheck.rules.facts import Lacking
from tapecheck.rules.finding import Finding, Label
from tapecheck.rules.gradient_cut.facts import GradientCutFacts
from tapecheck.rules.gradients import (
    Identity,
    Moment,
    gradients_of,
    has_graphs_alone,
    identities,
    identity,
    learned_by_hand,
    name_of,
    optimizers_of,
    set_by_hand,
)
from tapecheck.rules.reading import Reading, Run, behind, covered, grouped, plain, remembered, search, with_sources
from tapecheck.rules.rule import Rule
from tapecheck.rules.term_without_effect.rule import terms_of
from tapecheck.rules.untrained_parameter.rule import forgotten, lacked_by, replaced
from tapecheck.rules.words import (
    CUT_CAUSES,
    SHORT_CAUSES,
    Untraining,
    called_from,
    cut_advice,
    cut_words,
    in_full,
    join,
    line,
    listed,
    off_labels,
)
from tapecheck.tape import Assumed, Assumption, Cut, InPlace, Leaf, Optimizer, Root, Site, Span, Step

_MOST_RUNS = 6
"""Backward calls that are looked at for each cut value."""

_WRITTEN = frozenset(["detach", "data"])
"""Cuts that somebody wrote for the sake of cutting."""


class GradientCut(Rule):
    """An optimizer's parameters never get a gradient because the graph is cut on the way."""

    code = "TAPE402"
    name = "gradient-cut"
    severity = "warning"
    of_absence = True
    needs = frozenset(("base", "effect", "name"))
    summary = "Parameters of an optimizer get no gradient: the graph is cut on the way to them"

    def judge(self, readings: Sequence[Reading]) -> list[Finding]:
        if not any(reading.steps and reading.runs for reading in readings):
            return []
        written = set().union(*map(_written, readings))
        fed = set().union(*(identities(reading, _fed(reading)) for reading in readings))
        reached = fed.union(*map(_reached, readings))
        meant = set().union(*map(_switched_off, readings))
        told = replaced(readings)
        successors = forgotten(readings)
        findings: list[Finding] = []
        for reading in readings:
            if reading.complete and reading.steps:
                # A parameter in whose place another is made that no optimizer has: what is wrong is told of that one.
                others = _successors(reading, gradients_of(reading).steppable) if successors else {}
                leaves = reading.ledger.leaves
                known = {leaf for leaf, other in others.items() if identity(reading, leaves[other]) in successors}
                known |= {number for number, leaf in leaves.items() if identity(reading, leaf) in told}
                # What is frozen beside it may be meant: what the optimizer lacks is all that it was to train.
                known |= _idle_in(reading, lacked_by(reading, successors)) if successors else set()
                findings += self._of(reading, reached, written, fed, known, meant)
        return findings

    def spares(self, finding: Finding, reading: Reading, event: Assumed, position: int) -> bool:
        return event.kind == "effect" and has_graphs_alone(reading, event)

    def _of(
        self,
        reading: Reading,
        reached: set[Identity],
        written: set[Identity],
        fed: set[Identity],
        known: set[int],
        meant: set[Identity],
    ) -> Iterable[Finding]:
        trained = reached | written
        owner, useless = _untrained(reading, reached, trained)
        owner = {leaf: name for leaf, name in owner.items() if leaf not in known}
        copies = {leaf for leaf in useless if identity(reading, reading.ledger.leaves[leaf]) in written}
        causes = _before_their_own_step(reading, list(_causes(reading, owner.keys() - copies)))
        causes += _without_a_cut(reading, owner.keys() - _lost_by(causes), copies)
        if rest := owner.keys() - copies - _lost_by(causes):
            causes += _before_their_own_step(reading, list(_causes(reading, rest, within=True)))
        causes = _not_of_a_rollout(reading, causes, trained)
        cleared = _cleared(reading, fed)
        for cause in cleared:
            owner.update((leaf, _owner_of(reading, leaf)) for leaf in cause.lost - owner.keys())
        causes += cleared
        places = grouped(((cause.at.file, cause.at.line), cause) for cause in causes)
        for story in _stories(reading, places.values()):
            told = max(story, key=lambda causes: _blame(reading, causes, trained)) if len(story) > 1 else story[0]
            others = [causes[0] for causes in story if causes is not told]
            finding = self._finding(reading, told, owner, others)
            if text := _may_be_meant(reading, _lost_by(told), meant):
                rest_on(finding, Assumption("condition", finding.span, text))
            yield finding

    def _finding(self, reading: Reading, causes: list[_Cause], owner: dict[int, str], others: list[_Cause]) -> Finding:
        cut = causes[0]
        home = cut.at.span
        lost = sorted(_lost_by(causes))
        names = list(dict.fromkeys(name_of(reading, leaf) for leaf in lost))
        named = [name for name in names if name]
        optimizers = join(f"`{name}`" for name in dict.fromkeys(owner[leaf] for leaf in lost) if name)
        message = _headline(reading, cut, named, len(lost))
        they, them = ("they are", "them") if len(lost) != 1 else ("it is", "it")
        labels = _labels(reading, causes, others, them)
        lacks = "with zeros" if cut.how == "zero" else "without a gradient"
        steps = f"{optimizers or 'an optimizer'} steps {them} here {lacks}"
        labels += [Label(step.at.span, steps, "step") for step in _steps_of(reading, lost)[:1]]
        labels += called_from(reading, cut.at, cut.at)
        return Finding(
            self.code, self.name, self.severity, home, message,
            f"{_advice(reading, cut)}; if {they} not to be trained, leave {them} out of the optimizer",
            tuple(labels),
            facts=GradientCutFacts(
                how=cut.how,
                parameters=tuple(names),
                optimizers=optimizers_of(reading, lost),
                replaced=_replacing(reading, cut, lost) if cut.how == "replaced" else None,
            ),
            notes=(*in_full(message, named, "given zeros" if cut.how == "zero" else "without a gradient"), _note(cut)),
        )  # fmt: skip


@remembered
def _switched_off(reading: Reading) -> frozenset[Identity]:
    """Return the leaves whose `requires_grad` is switched off on a way."""
    return frozenset(identities(reading, _frozen_leaves(reading)))


def _frozen_leaves(reading: Reading) -> set[int]:
    return {leaf for cut in reading.ledger.cuts.values() if cut.how == "frozen" for leaf in cut.leaves}


def _may_be_meant(reading: Reading, lost: set[int], meant: set[Identity]) -> str:
    """Return what parameters have to be for it to be no intention that they are not trained, if that is not known."""
    elsewhere = meant - _switched_off(reading)
    if all(identity(reading, reading.ledger.leaves[leaf]) in elsewhere for leaf in lost):
        return "nothing freezes them"
    holding = [one for one in reading.optimizers.values() if not lost.isdisjoint(one.params)]
    if holding and all(one.complete != "yes" for one in holding):
        return "the optimizer is given them"
    return ""


def _note(cut: _Cause) -> str:
    """Return what keeps a gradient from parameters."""
    if cut.copied is None:
        return cut_words(cut, cut.at.span)
    past = "through `.data`" if cut.how == "data" else "under `torch.no_grad()`"
    return f"the update is written into a copy of the model {past}, past autograd"


def _steps_of(reading: Reading, lost: Iterable[int]) -> list[Step]:
    """Return the steps of optimizers that have any of some leaves."""
    has = {number for number, one in reading.optimizers.items() if not set(one.params).isdisjoint(lost)}
    return [step for _, step in reading.steps if step.optimizer in has]


def _untrained(reading: Reading, reached: set[Identity], trained: set[Identity]) -> tuple[dict[int, str], set[int]]:
    """Return the parameters that nothing trains, with the names of their optimizers; and those among them whose
    optimizer has no others.
    """
    leaves = reading.ledger.leaves
    # A parameter whose requires_grad is switched off is meant to stay as it is.
    frozen = _frozen_leaves(reading)
    owner: dict[int, str] = {}
    useless: set[int] = set()
    for number in {step.optimizer for _, step in reading.steps} & reading.optimizers.keys():
        optimizer = reading.optimizers[number]
        if optimizer.complete == "yes" and _steps_nothing(reading, optimizer, reached):
            # Overwriting a target network does not justify giving it an optimizer.
            useless |= {leaf for leaf in optimizer.params if leaf in leaves} - frozen
            owner.update((leaf, optimizer.name) for leaf in useless - owner.keys())
        meant = [*(leaf for leaf in optimizer.params if leaf not in frozen), *_idle(reading, optimizer)]
        for leaf in (leaf for leaf in meant if leaf in leaves):
            if identity(reading, leaves[leaf]) not in trained:
                owner.setdefault(leaf, optimizer.name)
    return owner, useless


def _labels(reading: Reading, causes: Sequence[_Cause], others: Sequence[_Cause], them: str) -> list[Label]:
    """Return the labels at the cuts, and at the backward that lacks them or the parameters."""
    cut = causes[0]
    home = cut.at.span
    before = {source.id: source for cause in causes for source in cause.before}.values()
    labels = [Label(source.at.span, cut_words(source, home), "cut") for source in before]
    labels += [Label(other.at.span, cut_words(other, home) + ", too", "cut") for other in others]
    labels += off_labels(causes)
    if cut.copied is not None:
        labels.append(Label(cut.copied.span, "copied here: nothing leads from the copy to the original", "cut"))
    walk = "backward" if cut.run.backward.accumulates else "gradient"
    path = f"this {walk} does not reach {them}"
    if cut.how in ("cleared", "zero"):
        path = f"this {walk} gives {them} {'a gradient' if cut.how == 'cleared' else 'zeros'}"
    return [*labels, Label(cut.run.at.span, path, "path")]


def _advice(reading: Reading, cut: _Cause) -> str:
    """Return what to do about a cause."""
    if cut.copied is not None:
        return (
            "compute the updated parameters as new tensors of the original ones and run the model with them: "
            "`torch.func.functional_call(model, updated, inputs)`"
        )
    if cut.how in ("detach", "data", "no_grad") and cut.off_at is None and _shared(reading, cut):
        # Without the cut the first of the backwards would free what the others need.
        return "keep the graph here, and `.detach()` the value only for the losses that are not to train them"
    if cut.how == "nondifferentiable" and _chooses(reading, cut):
        return (
            "let the gradient past the choice: where the entries were chosen for `z`, `z + (chosen - z).detach()` has "
            "their values and its gradient; the entries then learn from a loss of their own"
        )
    advice = cut_advice(cut) or "keep the value in the graph"
    if cut.how == "leaf" and cut.before:
        first = cut.before[0]
        mend = cut_advice(first) or "keep the value in the graph"
        advice = f"{advice}, and mend the cut on {line(first.at.span, cut.at.span)}: {mend}"
    return advice


def _replacing(reading: Reading, cut: _Cause, lost: Sequence[int]) -> Lacking:
    """Return what a fix needs to know of parameters that were replaced."""
    owners = gradients_of(reading).steppable
    optimizer = reading.optimizers_made[min(owners[lost[0]])][0][1]
    return Lacking(
        kind="registered", whole=True, optimizer=optimizer.at.span, made=(cut.at.span,), calls=tuple(cut.at.stack)
    )


def _headline(reading: Reading, cut: _Cause, names: Sequence[str], count: int) -> str:
    """Return the headline: the parameters as far as they fit, and what keeps the gradient from them."""
    cause = CUT_CAUSES.get(cut.how, "a cut")
    if cut.copied is not None:
        cause = "the update goes into a copy"
    elif cut.off_at is not None:
        cause = "recording is switched off"
    if count == 1:
        verb, cause = "is never trained", cause.format("its")
    else:
        verb, cause = "are never trained", cause.format("their")
    if not names:
        return f"{'a parameter' if count == 1 else f'{count} parameters'} {verb}: {cause}"
    short = SHORT_CAUSES.get(cut.how, cause) if cut.copied is None and cut.off_at is None else cause
    return listed([f"{{}} {verb}: {cause}", f"{{}} {verb}: {short}"], names, reading.leaf_names)


def _blame(reading: Reading, causes: Sequence[_Cause], trained: set[Identity]) -> tuple[bool, bool, bool, int]:
    """Return how likely it is that the cuts of one place are the mistake, rather than others of the same parameters.

    What is written for the sake of cutting may be meant, and rather beside other parts of a loss than where it leaves a
    whole term of it a constant, which trains nothing.
    """
    slipped = any(cause.how not in (*_WRITTEN, "no_grad") for cause in causes)
    places = {cause.at for cause in causes}
    terms = (term for cause in causes for term in terms_of(reading, cause.run) if term.node is None)
    idle = any(cut.at in places for term in terms for cut in term.cuts)
    return not _rolled_out(reading, causes[0], trained), slipped, idle, len(causes)


@dataclass(slots=True)
class _Cause:
    """A cut value that a backward's graph was built with, and the parameters behind it.

    `how` and `name` are the cut's, `at` its place, `before` the cuts that came before a value was made a leaf
    again. `copied` is where the deep copy was made that took the update instead of the parameters.
    """

    how: Untraining
    name: str
    at: Site
    lost: set[int]
    run: Run
    before: list[Cut]
    copied: Site | None = None
    off_at: Span | None = None


def _lost_by(causes: Iterable[_Cause]) -> set[int]:
    """Return the parameters behind some causes."""
    return set().union(*(cause.lost for cause in causes))


def _shared(reading: Reading, cause: _Cause) -> bool:
    """Return whether another backward of the same round starts from what was computed of the cut value, too."""
    numbers = {number for number, cut in reading.ledger.cuts.items() if cut.at == cause.at}
    beside = (run for run in reading.runs if run.at.iteration == cause.run.at.iteration)
    return any(
        run.at.span != cause.run.at.span and not numbers.isdisjoint(reading.cuts_into(run.executed)) for run in beside
    )


def _chooses(reading: Reading, cause: _Cause) -> bool:
    """Return whether a backward walks what a cut value picks out of parameters: entries of a codebook."""
    numbers = {number for number, cut in reading.ledger.cuts.items() if cut.at == cause.at}
    nodes, leaves = reading.ledger.nodes, reading.ledger.leaves
    walked = (nodes[number] for number in cause.run.executed if number in nodes)
    return any(
        plain(node.op) in _PICKING
        and not numbers.isdisjoint(node.cuts)
        and any(source in leaves and leaves[source].parameter for source in node.inputs)
        for node in walked
    )


_PICKING = frozenset(("embedding", "gather", "index", "indexselect"))
"""Operations that pick entries out of a tensor."""


def _reached_by_others(reading: Reading) -> set[int]:
    """Return the leaves that a loss may lead to which leads to no leaf here.

    It leads to others by what a method was given, or finds in its object: that may have been computed with whatever was
    there before.
    """
    leaves = reading.ledger.leaves
    elsewhere = (run for run in reading.runs if leaves.keys().isdisjoint(run.surely))
    walked = (node for run in elsewhere for node in run.executed)
    foreign = max(filter(reading.ledger.leads_anywhere, walked), default=0)
    return {leaf for leaf in leaves if leaf < foreign}


@remembered
def _reached(reading: Reading) -> set[Identity]:
    """Return the leaves that get, or may get, a gradient."""
    reached: set[int] = set()
    by_hand = set_by_hand(reading)
    for run in reading.runs:
        # What a gradient with a graph of its own goes into leads to the leaf, unless it is cut on the way.
        sure = run.backward.accumulates or run.backward.create != "yes"
        found = (node for node in run.executed if node in reading.ledger.leaves and (sure or node in by_hand))
        reached.update(set(found) - _given_zeros(reading).get(run.position, set()))
    given = reading.below(node for _, escape in reading.escapes for node in escape.nodes)
    if reading.tape.started:
        reached |= _reached_by_others(reading)
    # Unknown code that has a model may train it, and what it makes with it may lead there.
    return identities(reading, reached | given | gradients_of(reading).escaped | reading.given)


@remembered
def _given_zeros(reading: Reading) -> dict[int, set[int]]:
    """Return by the positions of backwards the leaves that they give zeros alone, whatever the loss: each way to those
    leads through a draw or a rounding.
    """
    cuts = reading.ledger.cuts
    zero = {number for number, cut in cuts.items() if cut.how == "zero"}
    if not zero:
        return {}
    ending = {
        number: {source for cut in zero.intersection(node.cuts) for source in cuts[cut].nodes}
        for number, node in reading.ledger.nodes.items()
    }
    return {run.position: _left_by(reading, run, ending) for run in reading.runs}


def _is_zeros(reading: Reading, leaf: int, moment: Moment) -> bool:
    """Return whether a gradient that a leaf gets is zeros, whatever the loss."""
    return moment.run is not None and leaf in _given_zeros(reading).get(moment.run.position, ())


def _left_by(reading: Reading, run: Run, ending: Mapping[int, set[int]]) -> set[int]:
    """Return the leaves of a backward that it comes to only from nodes which are `ending` the way to them."""
    executed = run.executed.keys()
    seen = search(run.backward.root_nodes, lambda one: executed & set(reading.sources(one)) - ending.get(one, set()))
    return executed & reading.ledger.leaves.keys() - set(seen)


@remembered
def _written(reading: Reading) -> set[Identity]:
    """Return the leaves that the program sets in another way than by their gradients."""
    written = learned_by_hand(reading)
    replaced = _replaced(reading)
    return {
        identity(reading, leaf)
        for leaf in reading.ledger.leaves.values()
        if leaf.id in written
        or any(_class(leaf.at) == cls and name_of(reading, leaf.id).endswith(name) for cls, name in replaced)
    }


def _replaced(reading: Reading) -> set[tuple[str, str]]:
    """Return the attributes for which methods make a new parameter in a loop, with their class: a codebook that is
    averaged, say.
    """
    leaves = reading.ledger.leaves
    return {
        (_class(bind.at), bind.name.removeprefix("self"))
        for node, binds in reading.binds.items()
        if node in leaves and leaves[node].parameter and leaves[node].at.iteration
        for _, bind in binds
        if bind.name.startswith("self.") and _class(bind.at)
    }


def _class(site: Site) -> str:
    return site.function.rpartition(".")[0]


@remembered
def _fed(reading: Reading) -> set[int]:
    """Return the leaves that have a gradient, or may have one, at some step."""
    gradients = gradients_of(reading)
    found: set[int] = set()
    for leaf in gradients.steppable:
        has = unseen = gradients.unseen(leaf)
        for moment in gradients.moments(leaf):
            if moment.kind == "stepped" and has:
                found.add(leaf)
                break
            given = moment.kind in ("added", "set") and not _is_zeros(reading, leaf, moment)
            has = unseen if moment.kind == "cleared" else has or given
    return found & reading.ledger.leaves.keys()


def _steps_nothing(reading: Reading, optimizer: Optimizer, reached: set[Identity]) -> bool:
    """Return whether none of what an optimizer has ever gets a gradient."""
    leaves = [reading.ledger.leaves.get(leaf) for leaf in optimizer.params]
    return bool(leaves) and all(leaf is not None and identity(reading, leaf) not in reached for leaf in leaves)


def _owner_of(reading: Reading, leaf: int) -> str:
    """Return the name of the optimizer that has a leaf."""
    made = reading.optimizers_made[min(gradients_of(reading).steppable[leaf])]
    return made[0][1].name


def _cleared(reading: Reading, fed: set[Identity]) -> list[_Cause]:
    """Return where gradients are set to None between each backward and its step, though others of the same backward
    are used: what clears all of a backward is told by TAPE404.
    """
    gradients, leaves = gradients_of(reading), reading.ledger.leaves
    found: dict[Span, _Cause] = {}
    for leaf in sorted(gradients.steppable.keys() & leaves.keys()) if gradients.listed else ():
        steps = sum(moment.kind == "stepped" for moment in gradients.moments(leaf))
        if identity(reading, leaves[leaf]) in fed or steps < 2:
            continue
        run, cleared = _first_cleared(reading, leaf)
        if run is not None and cleared is not None and cleared.to_none and _used_otherwise(reading, run):
            cause = found.setdefault(cleared.at.span, _Cause("cleared", "", cleared.at, set(), run, []))
            cause.lost.add(leaf)
    return list(found.values())


def _first_cleared(reading: Reading, leaf: int) -> tuple[Run | None, Moment | None]:
    """Return the last backward that certainly gives a leaf a gradient before one is cleared, with what clears it."""
    pending: Run | None = None
    for moment in gradients_of(reading).moments(leaf):
        if moment.kind == "cleared" and pending is not None:
            return pending, moment
        if moment.kind == "added" and moment.fact == "yes" and not _is_zeros(reading, leaf, moment):
            pending = moment.run
    return None, None


def _used_otherwise(reading: Reading, run: Run) -> bool:
    """Return whether a step uses what a backward gives some leaf."""
    gradients = gradients_of(reading)
    after = (gradients.after(leaf, run.position) for leaf in run.executed if leaf in gradients.steppable)
    firsts = (next((one.kind for one in moments if one.kind in ("stepped", "cleared")), "") for moments in after)
    return "stepped" in firsts


def _causes(reading: Reading, lost: Iterable[int], *, within: bool = False) -> Iterable[_Cause]:
    """Return the cuts that keep parameters from the backwards of a tape, each at the place where it happens.

    `within` looks at what went into the values that were cut instead.
    """
    wanted = set(lost)
    done: set[int] = set()
    told: Counter[int] = Counter()
    # A backward that gives leaves a gradient is the one that lacks them, rather than an `autograd.grad`.
    for run in sorted(reading.runs, key=lambda run: not run.backward.accumulates):
        yield from _leaves_made_again(reading, run, wanted, done)
        # One cut value may go into several losses: the steps after each show whose step it is.
        numbers = {number for number in _cuts_met(reading, run) - done if told[number] < _MOST_RUNS}
        told.update(numbers)
        sources = with_sources(reading, sorted(numbers))
        if within:
            every = with_sources(reading, sorted(_inside(reading, sources)))
            sources = {number: cut for number, cut in every.items() if number not in sources}
        cuts = {number: cut for number, cut in sources.items() if number not in done}
        yield from _direct(reading, run, cuts, wanted)
        yield from _updated_copies(reading, run, wanted)


def _leaves_made_again(reading: Reading, run: Run, wanted: set[int], done: set[int]) -> Iterable[_Cause]:
    """Return the roots of a backward that were made leaves again; the cuts that they come from are then `done`."""
    for root in run.backward.roots:
        made = _made_again(reading, root)
        if made is None:
            continue
        sources = with_sources(reading, root.cuts)
        done.update(sources)
        before = sorted((cut for cut in sources.values() if cut.at != made.at), key=lambda cut: cut.id)
        before = [cut for cut in before if covered(reading, cut) & wanted] or before
        # A backward from a leaf reaches nothing else, whatever the value was made of.
        lost = behind(reading, root.cuts) & wanted or wanted
        if lost:
            yield _Cause("leaf", root.name or made.name, made.at, lost, run, before)


def _cuts_met(reading: Reading, run: Run) -> set[int]:
    """Return the cuts of values that went into the graph of a backward."""
    anew = _made_anew(reading, run.executed)
    return reading.cuts_into(run.executed).union(*(root.cuts for root in run.backward.roots), anew)


def _made_anew(reading: Reading, walked: Iterable[int]) -> set[int]:
    """Return the cuts of the leaves among some that each iteration makes of a value, as `nn.Parameter(w - lr * g)` and
    `torch.tensor(w.detach(), requires_grad=True)` do; with those of the leaves that such values were computed of.
    """
    leaves = reading.ledger.leaves
    met = search(leaves.keys() & walked, lambda leaf: behind(reading, _cuts_of(leaves[leaf])) & leaves.keys())
    return {number for leaf in met for number in _cuts_of(leaves[leaf])}


def _cuts_of(leaf: Leaf) -> tuple[int, ...]:
    """Return what a leaf's value came through where an iteration makes it."""
    return leaf.cuts if leaf.at.iteration else ()


def _direct(reading: Reading, run: Run, cuts: Mapping[int, Cut], wanted: set[int]) -> Iterable[_Cause]:
    """Return those of some cuts that parameters are behind."""
    # What a reentrant checkpoint drops belongs to TAPE406.
    others = {number: cut for number, cut in cuts.items() if cut.how not in ("grad", "checkpoint")}
    direct = {number: lost for number, cut in others.items() if (lost := covered(reading, cut) & wanted)}
    off = {number for number in direct if cuts[number].how == "no_grad"}
    for number, lost in direct.items():
        cut = cuts[number]
        # Under one no_grad block each operation cuts; the first is the place.
        if number not in off or off.isdisjoint(with_sources(reading, cut.sources).keys() - {number}):
            how = "anew" if cut.how == "leaf" else cut.how
            yield _Cause(how, cut.name, cut.at, lost, run, [], off_at=cut.off_at)


def _inside(reading: Reading, cuts: Mapping[int, Cut]) -> set[int]:
    """Return cuts with those whose values went into what they cut: a number in a branch that is detached."""
    known = reading.ledger.cuts
    begun = [number for number, cut in cuts.items() if cut.how in ("detach", "data")]

    def inside(number: int) -> set[int]:
        return (reading.cuts_into(reading.below(known[number].nodes)) & known.keys()) - cuts.keys()

    return cuts.keys() | set(search(begun, inside))


def _without_a_cut(reading: Reading, lost: set[int], copies: set[int]) -> list[_Cause]:
    """Return why parameters get no gradient that no cut keeps it from: frozen, replaced, or in no loss at all.

    `copies` are set anew from others: they may be used, as a teacher is, with what comes of it cut off on purpose.
    """
    gradients = gradients_of(reading)
    steps: Counter[int] = Counter()
    for position, step in reading.steps:
        steps.update(gradients.params_at(step.optimizer, position))
    lost = {leaf for leaf in lost if steps[leaf] >= 2 and not gradients.unseen(leaf)}
    if not lost or not reading.runs or not gradients.listed:
        return []
    found = _renewed(reading, lost)
    found += _frozen(reading, lost - _lost_by(found))
    return found + _unreached(reading, lost - _lost_by(found), copies)


def _unreached(reading: Reading, lost: set[int], copies: set[int]) -> list[_Cause]:
    """Return the optimizers that have nothing but parameters which nothing is computed of."""
    executed = {number for run in reading.runs for number in run.executed}
    if any(reading.ledger.leads_anywhere(number) or _is_any_model(reading, number) for number in executed):
        return []
    steppable = gradients_of(reading).steppable
    used = {source for node in reading.ledger.nodes.values() for source in node.inputs}
    owned = (
        (optimizer, {leaf for leaf in optimizer.params if number in steppable.get(leaf, ())})
        for number, optimizer in reading.optimizers.items()
    )
    return [
        _Cause("unreached", "", optimizer.at, own, reading.runs[-1], [])
        for optimizer, own in owned
        if own and own <= lost and used.isdisjoint(own - copies)
    ]


def _is_any_model(reading: Reading, number: int) -> bool:
    """Whether a leaf stands for a model that a caller passes: it may be the one whose parameters an optimizer has."""
    leaf = reading.ledger.leaves.get(number)
    return leaf is not None and leaf.many and not leaf.made


def _frozen(reading: Reading, lost: set[int]) -> list[_Cause]:
    """Return what freezes parameters, each by the first that does."""
    found: list[_Cause] = []
    left = set(lost)
    for cut in reading.ledger.cuts.values():
        behind = left & set(cut.leaves) if cut.how == "frozen" else set()
        if behind:
            left -= behind
            found.append(_Cause("frozen", cut.name, cut.at, behind, reading.runs[-1], []))
    return found


def _renewed(reading: Reading, lost: Iterable[int]) -> list[_Cause]:
    """Return the parameters in whose place others were trained that came after the optimizer."""
    found = []
    for leaf, other in sorted(_successors(reading, lost).items()):
        optimizer = reading.optimizers_made[min(gradients_of(reading).steppable[leaf])][0][1]
        at = _seen_from(reading.ledger.leaves[other].at, optimizer.at)
        found.append(_Cause("replaced", reading.ledger.leaves[leaf].name, at, {leaf}, reading.runs[-1], []))
    return found


def _successors(reading: Reading, lost: Iterable[int]) -> dict[int, int]:
    """Return by parameters those that were made after the optimizer and trained in their place: of their names, or
    below those of their modules, as of a head of more layers.
    """
    leaves, gradients = reading.ledger.leaves, gradients_of(reading)
    made = {leaf.id: position for position, leaf in reading.leaves_made}
    last = {step.optimizer: position for position, step in reading.steps}
    trained, within = _trained_by_name(reading)
    found = {}
    for leaf in lost:
        name = leaves[leaf].name
        other, walked = trained.get(name) or within.get(name.rpartition(".")[0]) or (leaf, 0)
        owner = min(gradients.steppable.get(leaf, ()), default=None)
        source = leaves[other].copy_of
        if other != leaf and source in gradients.steppable and gradients.happens(source, "added"):
            continue  # A copy of what is trained, as a target network's: it stays as it is until the next one.
        # The old one's optimizer steps after it: parameters of another model may have the same name.
        if other > leaf and owner is not None and walked < last.get(owner, 0):
            if made.get(other, 0) > reading.optimizers_made[owner][0][0]:
                found[leaf] = other
    return found


_Trained = dict[str, tuple[int, int]]
"""By names the leaf that a backward came to last, and the position of that."""


@remembered
def _trained_by_name(reading: Reading) -> tuple[_Trained, _Trained]:
    """Return what is trained by its names, and by those of the modules that it lies deeper in."""
    leaves = reading.ledger.leaves
    trained: _Trained = {}
    for run in reading.runs:
        walked = (number for number in run.surely if number in leaves)
        trained.update((leaves[number].name, (number, run.position)) for number in walked if leaves[number].name)
    within: _Trained = {}
    for name, one in trained.items():
        parts = name.split(".")[:-2]
        within.update((".".join(parts[:count]), one) for count in range(1, len(parts) + 1))
    return trained, within


def _idle_in(reading: Reading, optimizers: Iterable[int]) -> set[int]:
    """Return what some optimizers have, where all of it is frozen."""
    owned = (reading.optimizers[number] for number in optimizers if number in reading.optimizers)
    return {leaf for optimizer in owned if not optimizer.params for leaf in optimizer.idle}


def _idle(reading: Reading, optimizer: Optimizer) -> Iterable[int]:
    """Return the frozen parameters of an optimizer that were meant to be trained: where some of them were replaced,
    those alone, as far as no optimizer has what came in their place.
    """
    if not optimizer.idle:
        return ()
    successors = _successors(reading, optimizer.idle)
    owned = gradients_of(reading).steppable
    return [leaf for leaf, other in successors.items() if other not in owned] if successors else optimizer.idle


def _seen_from(at: Site, home: Site) -> Site:
    """Return the place of something in the file of another: the call there that led to it."""
    frames = (at.span, *at.stack)
    here = next((index for index, span in enumerate(frames) if span.file == home.file), None)
    return home if here is None else Site(frames[here], at.function, frames[here + 1 :], at.iteration)


def _rolled_out(reading: Reading, cause: _Cause, trained: set[Identity]) -> bool:
    """Return whether a function that cuts under `no_grad` computes so, too, what is trained elsewhere: a rollout.

    Where another line cuts the same parameters as well, that line is the one to mend.
    """
    if cause.how != "no_grad":
        return False
    here = (cause.at.file, cause.at.function, cause.at.stack)
    cuts = (cut for cut in reading.ledger.cuts.values() if cut.how == "no_grad")
    within = (cut for cut in cuts if (cut.at.file, cut.at.function, cut.at.stack) == here)
    return any(not trained.isdisjoint(identities(reading, covered(reading, cut))) for cut in within)


def _not_of_a_rollout(reading: Reading, causes: list[_Cause], trained: set[Identity]) -> list[_Cause]:
    """Return the causes without evaluations under `no_grad` of parameters whose like, made by the same line, is cut off
    elsewhere: what cuts the one layer of a kind in training cuts the others, too.
    """
    rolled = [cause for cause in causes if _rolled_out(reading, cause, trained)]
    others = [cause for cause in causes if cause not in rolled]
    made = {_made_at(reading, leaf) for cause in others for leaf in cause.lost}
    return [
        cause
        for cause in causes
        if cause not in rolled or any(_made_at(reading, leaf) not in made for leaf in cause.lost)
    ]


def _made_at(reading: Reading, leaf: int) -> tuple[str, int, int]:
    at = reading.ledger.leaves[leaf].at
    return at.file, at.span.line, at.span.column


def _stories(reading: Reading, places: Iterable[list[_Cause]]) -> Iterable[list[list[_Cause]]]:
    """Return the causes of each place by what they cut off: places that cut off the same parameters are one story."""
    by_hand = [cause for causes in places for cause in causes if cause.how in _WRITTEN]
    stories: dict[frozenset[int], list[list[_Cause]]] = {}
    for causes in places:
        if not all(_selects_beside(reading, cause, by_hand) for cause in causes):
            causes.sort(key=lambda cause: cause.copied is not None)
            stories.setdefault(frozenset().union(*(cause.lost for cause in causes)), []).append(causes)
    return stories.values()


def _selects_beside(reading: Reading, cause: _Cause, by_hand: Sequence[_Cause]) -> bool:
    """Return whether a cut is an operation such as an argmin that selects for the sake of what somebody cut by hand.

    It is what is to be mended where a term of the loss has the parameters behind it alone.
    """
    beside = [written for written in by_hand if written.lost & cause.lost]
    if cause.how != "nondifferentiable" or not cause.lost <= _lost_by(beside):
        return False
    written = {other.at for other in beside}
    nodes = (term.node for term in terms_of(reading, cause.run) if term.node is not None)
    cuts = (with_sources(reading, reading.cuts_into(reading.below([node]))).values() for node in nodes)
    places = ({cut.at for cut in within} for within in cuts)
    return not any(cause.at in within and within.isdisjoint(written) for within in places)


def _before_their_own_step(reading: Reading, causes: list[_Cause]) -> list[_Cause]:
    """Return the cuts without which a step of the parameters' own optimizer would have found a gradient.

    A discriminator's step detaches what the generator made, as it should: what the generator would get there is
    cleared before its own step, and where that step's loss has lost it, too, that one is to be mended. What the graph
    is cut for after the last of its steps is not for its own training: a teacher that was trained before its student.
    """
    runs = sorted(run.position for run in reading.runs)
    steps = _steps_of_leaves(reading)
    kept: list[_Cause] = []
    others: list[_Cause] = []
    cleared: list[_Cause] = []
    for cause in causes:
        run = cause.run.position
        after = {leaf: _following(steps.get(leaf, ()), run) for leaf in cause.lost}
        if min(after.values(), default=math.inf) == math.inf:
            continue
        if all(_clears_before(reading, leaf, run, step) for leaf, step in after.items()):
            cleared.append(cause)
        else:
            (kept if min(after.values()) < _following(runs, run) else others).append(cause)
    lost = _lost_by(kept)
    found = [*kept, *(cause for cause in others if not cause.lost <= lost)]
    return found or [cause for cause in cleared if cause.how == "leaf"] or _cut_last(cleared, steps)


def _following(positions: Sequence[int], position: int) -> float:
    """Return the first of some positions that comes after another."""
    return next((one for one in positions if one > position), math.inf)


def _steps_of_leaves(reading: Reading) -> dict[int, list[int]]:
    """Return the positions of the steps of the optimizers that have a leaf, by leaf."""
    steps = [
        (at, reading.optimizers[one.optimizer]) for at, one in reading.steps if one.optimizer in reading.optimizers
    ]
    return grouped((leaf, position) for position, optimizer in steps for leaf in optimizer.params)


def _clears_before(reading: Reading, leaf: int, run: int, step: float) -> bool:
    """Return whether a leaf has a step, and its gradient is cleared between a backward and that."""
    return step < math.inf and any(run < position < step for position, _ in reading.cleared.get(leaf, ()))


def _cut_last(causes: list[_Cause], steps: Mapping[int, Sequence[int]]) -> list[_Cause]:
    """Return the last cuts before a step of their parameters: there a gradient is lost, whatever is cleared later."""
    last: dict[float, int] = {}
    for cause in causes:
        for following in {_following(steps.get(leaf, ()), cause.run.position) for leaf in cause.lost}:
            last[following] = max(last.get(following, 0), cause.run.position)
    return [cause for cause in causes if cause.run.position in last.values()]


def _updated_copies(reading: Reading, run: Run, wanted: set[int]) -> Iterable[_Cause]:
    """Return copies of parameters that a differentiable update was written into past autograd.

    A gradient with a graph of its own is taken to be differentiated further; written into a copy's memory it leads
    nowhere, and the copy not to what it was copied from.
    """
    for position, change, copy in _written_to_copies(reading):
        if copy.copy_of not in wanted or position > run.position:
            continue
        if copy.id in run.executed and copy.id in reading.ledger.ancestry(change.lost):
            written_by_data = change.bumps == "no" and change.optimizer is None
            how: Untraining = "data" if change.grad_mode == "yes" or written_by_data else "no_grad"
            yield _Cause(how, change.name, change.at, {copy.copy_of}, run, [], copy.at)


@remembered
def _written_to_copies(reading: Reading) -> list[tuple[int, InPlace, Leaf]]:
    """Return the changes past autograd that lose a graph, with their positions and the leaves that they change."""
    leaves = reading.ledger.leaves
    return [
        (position, change, leaves[change.leaf])
        for position, change in reading.changes
        if change.lost and change.leaf is not None and change.leaf in leaves
    ]


def _made_again(reading: Reading, root: Root) -> Leaf | None:
    """Return the leaf that a backward starts from: a loss that was made a leaf of its own."""
    leaf = reading.ledger.leaves.get(root.node) if root.node is not None else None
    return None if leaf is None or leaf.parameter else leaf


def cut_at(findings: Iterable[Finding]) -> set[Span]:
    """Return the places where findings say that values are cut off their graph."""
    return {
        span for one in findings for span in (one.span, *(label.span for label in one.labels if label.role == "cut"))
    }
