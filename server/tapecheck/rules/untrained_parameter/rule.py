"""TAPE405, untrained-parameter."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Literal

from tapecheck.rules.facts import Lacking
from tapecheck.rules.finding import Finding, Label
from tapecheck.rules.gradients import (
    Gradients,
    Identity,
    Moment,
    gradients_of,
    identities,
    identity,
    name_of,
    set_by_hand,
)
from tapecheck.rules.reading import MERGES, Reading, Run, grouped, plain, remembered
from tapecheck.rules.rule import Rule
from tapecheck.rules.untrained_parameter.facts import UntrainedParameterFacts
from tapecheck.rules.untrained_parameter.renamed import given_up, renamed
from tapecheck.rules.untrained_parameter.short_lived import may_be_anew, short_lived
from tapecheck.rules.words import called_from, in_full, listed
from tapecheck.tape import Leaf, LeftOut, Optimizer, Site, Span

_ATTRIBUTE = re.compile(r"^(?:[^.\[]+\.)*?[^.\[]+\.[^.\[]+")
_POSITION = attrgetter("position")


class UntrainedParameter(Rule):
    """A parameter gets gradients, and no optimizer has it."""

    code = "TAPE405"
    name = "untrained-parameter"
    severity = "warning"
    of_absence = True
    needs = frozenset(("base", "effect", "name"))
    summary = "A parameter gets gradients, but no optimizer has it"

    def judge(self, readings: Sequence[Reading]) -> list[Finding]:
        remade, anew = _remade(readings), any(map(may_be_anew, readings))
        if not (remade or anew or any(reading.left_out for reading in readings)):
            return []
        handled: set[Identity] = set()
        for reading in readings:
            handled |= _handled(reading)
        findings = renamed(readings, handled, self.code, self.name) if remade else []
        findings += short_lived(readings, handled, self.code, self.name) if anew else []
        for reading in readings:
            stories: dict[tuple[int, str], _Story] = {}
            for leaf, event, run in _forgotten(reading, handled):
                key = (event.optimizer, _group(leaf))
                story = stories.setdefault(key, _Story(reading, event, run))
                story.leaves.append(leaf)
            findings += [self._finding(story) for story in stories.values()]
        return findings

    def _finding(self, story: _Story) -> Finding:
        reading, event = story.reading, story.event
        optimizer = reading.optimizers[event.optimizer]
        first = story.leaves[0]
        has = (*optimizer.params, *(optimizer.idle if event.idle else ()))
        made_alike = [leaf for leaf in map(reading.ledger.leaves.get, has) if leaf is not None]
        at, labels = _place(first, optimizer, event, made_alike)
        home = at.span
        names = [name_of(reading, leaf.id) for leaf in story.leaves]
        named = [name for name in dict.fromkeys(names) if name]
        plural = len(names) != 1
        forms = [
            f"{{}} {'are' if plural else 'is'} in no optimizer: never trained",
            "{} never trained: in no optimizer",
        ]
        message = "a parameter is in no optimizer: it is never trained"
        message = listed(forms, named, reading.leaf_names) if named else message
        labels += _labels(story, home, optimizer)
        labels += called_from(reading, at, at)
        siblings = [leaf.name for leaf in made_alike]
        owner = _owner(first.name)
        shared = not owner or any(_owner(name) == owner for name in siblings)
        note, advice = _why(event, optimizer, owner, plural, shared)
        kind: Literal["registered", "unregistered", "loose"] = "unregistered" if event.whole else "loose"
        return Finding(
            self.code, self.name, self.severity, home, message, advice, tuple(labels),
            facts=UntrainedParameterFacts(
                parameters=tuple(names), backward=story.run.at.span,
                lacking=Lacking(
                    kind="registered" if event.registered else kind,
                    whole=event.whole, siblings=tuple(siblings[:64]), optimizer=optimizer.at.span,
                    calls=first.at.stack,
                    made=tuple(leaf.at.span for leaf in story.leaves),
                ),
            ),
            notes=(*in_full(message, named, "never trained"), note),
        )  # fmt: skip


@dataclass(slots=True)
class _Story:
    reading: Reading
    event: LeftOut
    run: Run
    leaves: list[Leaf] = field(default_factory=list)


def _labels(story: _Story, home: Span, optimizer: Optimizer) -> Iterator[Label]:
    what, it = ("without them", "them") if len(story.leaves) != 1 else ("without it", "it")
    for leaf in story.leaves:
        if leaf.at.file == home.file and leaf.at.line != home.line:
            yield Label(leaf.at.span, f"`{leaf.name}` is made here", "built")
    if optimizer.at.span != home:
        yield Label(optimizer.at.span, f"`{optimizer.name}` is made here {what}", "step")
    yield Label(story.run.at.span, f"gives {it} gradients", "path")


def _why(event: LeftOut, optimizer: Optimizer, owner: str, plural: bool, shared: bool) -> tuple[str, str]:
    """Return why the optimizer lacks the leaves, and what to do; `shared` says that it has others of their owner."""
    they, were, them = ("they are", "they were", "them") if plural else ("it is", "it was", "it")
    of = f"`{owner}`" if owner else "the module"
    frozen = f"; if {they} not to be trained, call `requires_grad_(False)`"
    if not event.registered and not event.whole:
        return (
            f"{they} in no module: `{optimizer.name}` was given the parameters of modules only",
            f"give {them} to the optimizer, too" + frozen,
        )
    if not event.registered:
        missing = "`.parameters()` lists nothing of a plain list or dict, and no tensor that is no `nn.Parameter`"
        return (
            f"{they} not registered as parameters of {of}: {missing}",
            "keep modules in `nn.ModuleList` or `nn.ModuleDict`, and make tensors `nn.Parameter`s" + frozen,
        )
    if event.whole and event.sharded:
        return (
            f"`fully_shard` puts new parameters into {of}: `{optimizer.name}` has those from before",
            "make the optimizer after `fully_shard`",
        )
    if event.listed:
        return (
            f"`{optimizer.name}` was given the parameters that {of} had before {them}",
            "list the parameters for the optimizer once the model is complete" + frozen,
        )
    if event.thawed:
        made_of = " of what required grad" if event.whole else ""
        give = f"give the optimizer all of {of}" if event.whole else f"give {them} to the optimizer from the start"
        return (
            f"{were} frozen when `{optimizer.name}` was made{made_of}, and switched on later",
            f"hand {them} over when {they} switched on: `optimizer.add_param_group`; or {give}",
        )
    if event.whole:
        return (
            f"{were} added to {of} once `{optimizer.name}` had been made of its parameters",
            "make the optimizer after the model is complete, or call `optimizer.add_param_group`" + frozen,
        )
    if event.idle:
        return (
            f"`{optimizer.name}` has frozen parts of {of} only: nothing of it is trained",
            f"give {them} to the optimizer, in the place of what is frozen",
        )
    given = f"other parts of {of}" if shared else f"the parameters of other modules than {of}"
    return f"`{optimizer.name}` was given {given}", f"give {them} to the optimizer, too" + frozen


def _owner(name: str) -> str:
    return name.partition(".")[0] if "." in name else ""


def _group(leaf: Leaf) -> str:
    """Return what tells one mistake from another: the attribute that holds the leaf, else the line that made it."""
    found = _ATTRIBUTE.match(leaf.name)
    # Of a layer by itself each parameter is an attribute.
    return found[0] if found is not None and found[0] != leaf.name else f"{leaf.at.file}:{leaf.at.line}"


def _place(leaf: Leaf, optimizer: Optimizer, event: LeftOut, given: Iterable[Leaf]) -> tuple[Site, list[Label]]:
    """Return where a leaf was made, as the file sees it that makes the optimizer, which was `given` others.

    A module that a plain container loses is mended where that is filled, in whichever file, and not where it makes its
    own layers; a call that came too late is not where an earlier one made what the optimizer has. Where the optimizer
    is made in a file of its own, what came too late is told in the file from which both were made.
    """
    frames = (leaf.at.span, *leaf.at.stack)
    made = [Label(leaf.at.span, "made here", "built")]
    lost = None
    if event.lost_in is not None:
        lost = next((index for index, span in enumerate(frames) if _lies_in(span, event.lost_in)), None)
    if lost is not None:
        home = frames[lost]
        elsewhere = made if home.file != leaf.at.file else []
        return Site(home, "", frames[lost + 1 :], leaf.at.iteration), elsewhere
    late = max((_parting(frames, (one.at.span, *one.at.stack)) for one in given), default=0)
    files = [optimizer.at.file]
    if event.whole and event.registered:
        files += dict.fromkeys(span.file for span in optimizer.at.stack)
    places = ((index, file) for file in files for index in range(late, len(frames)) if frames[index].file == file)
    here, _ = next(places, (None, ""))
    if here == 0:
        return leaf.at, []
    if here is None:
        return optimizer.at, made
    # The call in the training file, not the line of the model's own.
    return Site(frames[here], "", frames[here + 1 :], leaf.at.iteration), made


def _parting(frames: Sequence[Span], others: Sequence[Span]) -> int:
    """Return at which call two leaves that one line makes part; 0 where different lines make them."""
    pairs = enumerate(zip(frames, others, strict=False))
    return next((index for index, (own, other) in pairs if own != other), 0)


def _lies_in(span: Span, outer: Span) -> bool:
    return span.file == outer.file and outer.line <= span.line and span.end_line <= outer.end_line


def _left_out(reading: Reading) -> Iterator[tuple[Leaf, LeftOut]]:
    seen: set[int] = set()
    for _, event in reading.left_out:
        for number in event.leaves:
            leaf = reading.ledger.leaves.get(number)
            if leaf is not None and number not in seen:
                seen.add(number)
                yield leaf, event


def _remade(readings: Sequence[Reading]) -> bool:
    """Return whether anything that was cut off its graph is made a leaf again in a program that trains."""
    return any(leaf.cuts for reading in readings if reading.steps for leaf in reading.ledger.leaves.values())


def replaced(readings: Sequence[Reading]) -> set[Identity]:
    """Return what optimizers have in vain, since its name means a new tensor: each is a finding."""
    return given_up(readings, set().union(*map(_handled, readings))) if _remade(readings) else set()


def forgotten(readings: Sequence[Reading]) -> set[Identity]:
    """Return the leaves that get gradients and that an optimizer lacks, each of which is a finding."""
    if not any(reading.left_out for reading in readings):
        return set()
    handled = set().union(*map(_handled, readings))
    return {identity(reading, leaf) for reading in readings for leaf, _, _ in _forgotten(reading, handled)}


def lacked_by(reading: Reading, leaves: set[Identity]) -> set[int]:
    """Return the optimizers of a tape that lack some leaves of a module that they were given whole."""
    told = (event for leaf, event in _left_out(reading) if event.whole and identity(reading, leaf) in leaves)
    return {event.optimizer for event in told}


def _forgotten(reading: Reading, handled: set[Identity]) -> Iterator[tuple[Leaf, LeftOut, Run]]:
    """Yield the leaves that an optimizer lacks, each with a backward that gives it a gradient which nothing uses."""
    for leaf, event in _left_out(reading):
        if identity(reading, leaf) not in handled:
            run = _reached(reading, leaf, event)
            if run is not None:
                yield leaf, event, run


def _handled(reading: Reading) -> set[Identity]:
    """Return the leaves that are trained, or may be, or that the program looks after itself."""
    gradients, leaves = gradients_of(reading), reading.ledger.leaves
    if not gradients.bounded or gradients.all_escaped:
        return identities(reading, leaves)
    numbers = {*gradients.steppable, *gradients.escaped, *set_by_hand(reading)}
    numbers.update(leaf for leaf in gradients.leaves() if gradients.happens(leaf, "read", "set"))
    for run in reading.runs:
        # Its gradient is asked for by name, as that of the fixed weight in a penalty on invariance.
        numbers.update(run.backward.inputs or ())
    for number, original in ((number, leaf.copy_of) for number, leaf in leaves.items() if leaf.copy_of is not None):
        # What is learned by the copy may come back to the original; a running average of it learns nothing.
        if number in numbers or gradients.happens(number, "added"):
            numbers.add(original)
        numbers.add(number)
    given = reading.below(node for _, escape in reading.escapes for node in escape.nodes)
    return identities(reading, numbers | given)


def _reached(reading: Reading, leaf: Leaf, event: LeftOut) -> Run | None:
    """Return a backward that gives a leaf a gradient which nothing uses, None where that is not so each time."""
    adds = _added(reading, leaf.id)
    if not adds or any(moment.fact != "yes" for moment in adds):
        return None
    # Layers of one plain list take turns: what one of them gets in one iteration, another gets in the next.
    first, last = _in_turn(reading).get(leaf.id, (adds[0], adds[-1]))
    # Gradients that come at different times are not from losses of one step.
    apart = first.at.iteration != last.at.iteration or first.at.span != last.at.span
    steps = [step for _, step in reading.steps if step.optimizer == event.optimizer]
    run = adds[0].run
    if run is None or len(steps) < 2 or not apart:
        return None
    return run if _belongs(reading, run, leaf, event) else None


def _added(reading: Reading, leaf: int) -> list[Moment]:
    return [moment for moment in gradients_of(reading).moments(leaf) if moment.kind == "added"]


@remembered
def _in_turn(reading: Reading) -> dict[int, tuple[Moment, Moment]]:
    """Return for each leaf that an optimizer lacks the first and the last moment that adds to it, or to one that the
    same line made for the same plain list or dict, in what is one iteration for both.
    """
    found: dict[int, tuple[Moment, Moment]] = {}
    for event, lacked in grouped((event, leaf) for leaf, event in _left_out(reading)).items():
        for alike in _alike(reading, event, lacked):
            added = sorted((one for leaf in alike for one in _added(reading, leaf.id)), key=_POSITION)
            # There are few iterations, and many leaves that are each made in a round of their own.
            ends = [(one[0], one[-1]) for one in grouped((one.at.iteration, one) for one in added).values()]
            for same in grouped((leaf.at.iteration, leaf) for leaf in alike).values():
                every = [one for pair in ends for one in pair if _outlives(same[0], one)]
                if every:
                    first, last = min(every, key=_POSITION), max(every, key=_POSITION)
                    for leaf in same:
                        found.setdefault(leaf.id, (first, last))
    return found


def _alike(reading: Reading, event: LeftOut, lacked: list[Leaf]) -> Iterable[list[Leaf]]:
    """Return leaves that an optimizer lacks, with those that the same line made for the same plain list or dict."""
    if not event.whole or event.registered:
        return [[leaf] for leaf in lacked]
    leaves = (leaf for leaf in map(reading.ledger.leaves.get, event.leaves) if leaf is not None)
    return grouped(((_group(leaf), leaf.at.span), leaf) for leaf in leaves).values()


def _outlives(leaf: Leaf, moment: Moment) -> bool:
    """Return whether a leaf is made in no other iteration than that of a moment."""
    running = dict(moment.at.iteration)
    return all(running.get(loop, index) == index for loop, index in leaf.at.iteration)


def _belongs(reading: Reading, run: Run, leaf: Leaf, event: LeftOut) -> bool:
    """Return whether a leaf that a backward comes to is a part of what the optimizer that lacks it is to train."""
    gradients, reached = gradients_of(reading), run.executed.keys()
    stepped = {other for other, owners in gradients.steppable.items() if event.optimizer in owners}
    if event.idle:
        return not any(gradients.happens(other, "added") for other in stepped)
    if not stepped & reached and not _replaces(reading, run, event, stepped) and not _alone(gradients, event, reached):
        return False
    if event.whole or event.thawed:
        return True
    # Below what is trained it may have been left out on purpose: a body whose head alone is trained.
    return _above(reading, run, leaf.id, stepped) if event.registered else _takes_part(reading, run, leaf)


def _replaces(reading: Reading, run: Run, event: LeftOut, stepped: Iterable[int]) -> bool:
    """Return whether leaves are all that a module has to train: no backward from `run` on comes to what its optimizer
    was given, which goes on to step it, and where they are not registered, all of that is frozen.
    """
    optimizer = reading.optimizers.get(event.optimizer)
    if not event.registered and (optimizer is None or optimizer.params or not optimizer.idle):
        return False
    gradients = gradients_of(reading)
    moments = (moment for leaf in stepped for moment in gradients.moments(leaf) if moment.position > run.position)
    later = [step for position, step in reading.steps if position > run.position]
    goes_on = sum(step.optimizer == event.optimizer for step in later) >= 2
    return event.whole and goes_on and not any(moment.kind == "added" for moment in moments)


def _alone(gradients: Gradients, event: LeftOut, reached: Set[int]) -> bool:
    """Return whether a tensor beside all modules has a loss of its own, as a temperature that tunes itself: a backward
    that comes to nothing that any optimizer has.
    """
    return not event.whole and not event.registered and gradients.steppable.keys().isdisjoint(reached)


def _takes_part(reading: Reading, run: Run, leaf: Leaf) -> bool:
    """Return whether a loss hangs on a tensor beside all modules: what a checkpoint is given so that it records a graph
    does nothing, and what is no parameter may begin a sum, `total = torch.zeros(1, requires_grad=True) + loss`.
    """
    nodes = reading.ledger.nodes
    ops = {nodes[number].op for number in run.executed if number in nodes and leaf.id in nodes[number].inputs}
    if not ops - {"CheckpointFunctionBackward"}:
        return False
    return leaf.parameter or not (leaf.at.iteration or {plain(op) for op in ops} <= MERGES)


def _above(reading: Reading, run: Run, leaf: int, stepped: set[int]) -> bool:
    """Return whether a leaf, or what was picked or computed of it alone, is combined with what trained parameters have
    made.
    """
    nodes = reading.ledger.nodes
    alone = {leaf}
    for number in sorted(run.executed):
        node = nodes.get(number)
        if node is None or alone.isdisjoint(node.inputs):
            continue
        others = [source for source in node.inputs if source not in alone]
        if not others and not plain(node.op).startswith(_LAYERS):
            alone.add(number)
        # A body's features meet the weights of what is trained above it, which are leaves.
        met = others if leaf in node.inputs else [source for source in others if source in nodes]
        if stepped & reading.below(met):
            return True
    return False


_LAYERS = ("addmm", "addmv", "baddbmm", "bilinear", "bmm", "conv", "dot", "einsum", "linear", "matmul", "mm", "mv")
"""Ops that run data through a weight: what comes of them is an output, no part of the weight."""
