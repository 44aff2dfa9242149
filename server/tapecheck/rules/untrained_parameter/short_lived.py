"""Layers that are made anew in each iteration: a part of TAPE405."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tapecheck.rules.facts import Lacking
from tapecheck.rules.finding import Finding, Label
from tapecheck.rules.gradients import Gradients, Identity, Moment, gradients_of, identity, name_of
from tapecheck.rules.reading import Reading, grouped
from tapecheck.rules.untrained_parameter.facts import UntrainedParameterFacts
from tapecheck.rules.words import called_from, in_full, listed
from tapecheck.tape import Leaf, Optimizer, Span, Step
from tapecheck.tape.changes import fills


@dataclass(frozen=True, slots=True)
class _Anew:
    """Parameters that one line makes anew in each iteration: those of the first that is seen."""

    leaves: tuple[Leaf, ...]
    backward: Span
    optimizer: Optimizer


def short_lived(readings: Sequence[Reading], handled: set[Identity], code: str, rule: str) -> list[Finding]:
    """Return the layers that live for one iteration each: a step never comes to what its backward gives gradients."""
    return [_finding(reading, story, code, rule) for reading in readings for story in _stories(reading, handled)]


def may_be_anew(reading: Reading) -> bool:
    """Whether a program that trains makes parameters in an iteration."""
    return len(reading.steps) >= 2 and any(map(_is_anew, reading.ledger.leaves.values()))


def _is_anew(leaf: Leaf) -> bool:
    """Whether a leaf is a parameter that is made in an iteration, and made of nothing that was there before."""
    return leaf.parameter and bool(leaf.at.iteration) and not (leaf.copy_of or leaf.cuts or leaf.made or leaf.many)


def _stories(reading: Reading, handled: set[Identity]) -> Iterator[_Anew]:
    if not may_be_anew(reading):
        return
    gradients = gradients_of(reading)
    spared = _spared(reading)

    def use(leaf: Leaf) -> tuple[Moment, Step] | None:
        left_alone = leaf.id not in spared and identity(reading, leaf) not in handled
        return _use(reading, gradients, leaf) if left_alone else None

    anew = filter(_is_anew, reading.ledger.leaves.values())
    by_line = grouped(((leaf.at.span, leaf.at.stack), (leaf, use(leaf))) for leaf in anew)
    for made in by_line.values():
        rounds = grouped((leaf.at.iteration, (leaf, used)) for leaf, used in made)
        if len(rounds) < 2 or any(used is None for _, used in made):
            continue
        first = next(iter(rounds.values()))
        shown = first[0][1]
        optimizer = reading.optimizers.get(shown[1].optimizer) if shown is not None else None
        if shown is not None and optimizer is not None:
            yield _Anew(tuple(leaf for leaf, _ in first), shown[0].at.span, optimizer)


def _spared(reading: Reading) -> set[int]:
    """Return the leaves that something else is to be said of: what is written into them may have been learned before,
    as by `load_state_dict`, and what a plain container keeps lives on.
    """
    filled = {change.storage for _, change in reading.changes if not fills(change.how)}
    plain = (event for _, event in reading.left_out if event.whole and not event.registered)
    kept = {leaf for event in plain for leaf in event.leaves}
    return kept | {leaf.id for leaf in reading.ledger.leaves.values() if leaf.storage in filled}


def _use(reading: Reading, gradients: Gradients, leaf: Leaf) -> tuple[Moment, Step] | None:
    """Return the backward that gives a leaf its gradient and the step behind it which trains other leaves, all of them
    in the iteration in which the leaf was made; None where it lives on, or where that is not known.
    """
    moments = gradients.moments(leaf.id)
    if not moments or any(one.kind != "added" or one.fact != "yes" for one in moments):
        return None
    here = leaf.at.iteration
    if any(not one.at.iteration or one.at.iteration != here[: len(one.at.iteration)] for one in moments):
        return None
    run = moments[0].run
    trained = {owner for other in run.executed for owner in gradients.steppable.get(other, ())} if run else set[int]()
    later = (step for position, step in reading.steps if position > moments[-1].position)
    step = next((one for one in later if one.optimizer in trained), None)
    same = step is not None and step.at.iteration and step.at.iteration == here[: len(step.at.iteration)]
    return (moments[0], step) if step is not None and same else None


def _finding(reading: Reading, story: _Anew, code: str, rule: str) -> Finding:
    names = [name_of(reading, leaf.id) for leaf in story.leaves]
    named = [name for name in dict.fromkeys(names) if name]
    one = len(names) == 1
    forms = [f"{{}} {'is' if one else 'are'} made anew each time: never trained", "{} made anew each time"]
    message = listed(forms, named, reading.leaf_names) if named else "a layer is made anew each time: never trained"
    at, it = story.leaves[0].at, "it" if one else "them"
    labels = [Label(story.optimizer.at.span, f"`{story.optimizer.name}` is made here without {it}", "step")]
    if story.backward != at.span:
        labels.append(Label(story.backward, f"gives {it} gradients", "path"))
    labels += called_from(reading, at, at)
    return Finding(
        code, rule, "warning", at.span, message,
        f"make {it} once, in `__init__` of its module, and before the optimizer; if it is to be random each time, "
        "call `requires_grad_(False)`",
        tuple(labels),
        facts=UntrainedParameterFacts(
            parameters=tuple(names), backward=story.backward,
            lacking=Lacking(
                kind="anew", optimizer=story.optimizer.at.span, calls=at.stack,
                made=tuple(leaf.at.span for leaf in story.leaves),
            ),
        ),
        notes=(
            *in_full(message, named, "made anew each time"),
            f"each iteration begins with new values, and what `{story.optimizer.name}` steps is not among them",
        ),
    )  # fmt: skip
