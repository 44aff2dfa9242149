"""Tensors that an optimizer still has though their names mean others: a part of TAPE405."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tapecheck.rules.facts import Lacking
from tapecheck.rules.finding import Finding, Label
from tapecheck.rules.gradients import Gradients, Identity, gradients_of, identity, name_of
from tapecheck.rules.reading import Reading, behind, grouped, remembered
from tapecheck.rules.untrained_parameter.facts import UntrainedParameterFacts
from tapecheck.rules.words import called_from, headline
from tapecheck.tape import Leaf, Optimizer, Span, Step


@dataclass(frozen=True, slots=True)
class _Renamed:
    """A leaf that is made anew of the one that an optimizer has, and stored under its name."""

    first: Leaf
    new: Leaf
    optimizer: Optimizer
    step: Step
    backward: Span
    remade: frozenset[Identity]
    """All leaves that were made of it."""


def renamed(readings: Sequence[Reading], handled: set[Identity], code: str, rule: str) -> list[Finding]:
    """Return what optimizers step in vain: it gets no gradient once its name means a new tensor, which they lack."""
    return [_finding(reading, story, code, rule) for reading, story in _shown(readings, handled)]


def given_up(readings: Sequence[Reading], handled: set[Identity]) -> set[Identity]:
    """Return the tensors that optimizers have and whose names mean others, each of which is a finding."""
    return {identity(reading, story.first) for reading, story in _shown(readings, handled)}


def _shown(readings: Sequence[Reading], handled: set[Identity]) -> list[tuple[Reading, _Renamed]]:
    """Return what every way through the program that trains shows, by where the new tensor is made."""
    trained = [reading for reading in readings if len(reading.steps) >= 2]
    shown = [
        {story.new.at.span: (reading, story) for story in _stories(reading) if not story.remade & handled}
        for reading in trained
    ]
    return [found for place, found in shown[0].items() if all(place in other for other in shown)] if shown else []


@remembered
def _stories(reading: Reading) -> list[_Renamed]:
    """Return what is remade in a tape, worked out once: two rules ask."""
    return list(_look_for_stories(reading))


def _look_for_stories(reading: Reading) -> Iterator[_Renamed]:
    gradients = gradients_of(reading)
    if not gradients.listed or gradients.all_escaped:
        return
    leaves = reading.ledger.leaves
    anew = grouped((base, leaf) for leaf, base in _made_anew(reading, gradients))
    for base, others in anew.items():
        added = [
            (moment, leaf) for leaf in others for moment in gradients.moments(leaf.id)
            if moment.kind == "added" and moment.fact == "yes"
        ]  # fmt: skip
        added.sort(key=lambda pair: pair[0].position)
        if len(added) < 2 or gradients.unseen(base):
            continue
        step = _stepped_in_vain(gradients, base, added[0][0].position)
        owner = reading.optimizers.get(step.optimizer) if step is not None else None
        if step is not None and owner is not None:
            remade = frozenset(identity(reading, leaf) for leaf in others)
            yield _Renamed(leaves[base], added[0][1], owner, step, added[0][0].at.span, remade)


def _stepped_in_vain(gradients: Gradients, leaf: int, since: int) -> Step | None:
    """Return the first of the steps of a leaf after which, and before which, its gradient is of no use any more."""
    later = [moment for moment in gradients.moments(leaf) if moment.position > since]
    steps = [moment.step for moment in later if moment.kind == "stepped" and moment.step is not None]
    used = any(moment.kind in ("added", "set", "read") for moment in later)
    return steps[0] if len(steps) >= 2 and not used else None


def _made_anew(reading: Reading, gradients: Gradients) -> Iterator[tuple[Leaf, int]]:
    """Yield the leaves that are made of one that an optimizer has and have its name, each with that one."""
    leaves = reading.ledger.leaves
    first: dict[int, int] = {}
    listed = {
        leaf: min(reading.optimizers_made[number][0][0] for number in numbers)
        for leaf, numbers in gradients.steppable.items()
    }
    made = {leaf.id: position for position, leaf in reading.leaves_made}
    for leaf in leaves.values():
        if not leaf.cuts or leaf.id in gradients.steppable:
            continue
        names = _names(reading, leaf.id)
        for base in (first.get(number, number) for number in sorted(behind(reading, leaf.cuts) & leaves.keys())):
            # What was made before the optimizer is a copy that somebody keeps beside what is trained.
            late = leaf.at.iteration or made.get(leaf.id, 0) > listed.get(base, 0)
            if late and base in gradients.steppable and names & _names(reading, base):
                first[leaf.id] = base
                yield leaf, base
                break


def _names(reading: Reading, leaf: int) -> set[str]:
    """Return what a leaf was ever bound to."""
    bound = {bind.name for _, bind in reading.binds.get(leaf, ())}
    return bound | ({reading.ledger.leaves[leaf].name} - {""})


def _finding(reading: Reading, story: _Renamed, code: str, rule: str) -> Finding:
    name, home = name_of(reading, story.new.id), story.new.at.span
    tensor, optimizer = f"`{name}`", f"`{story.optimizer.name}`"
    labels = [Label(story.first.at.span, f"the tensor that {optimizer} has is made here", "built")]
    if story.optimizer.at.span != story.first.at.span:
        labels.append(Label(story.optimizer.at.span, f"{optimizer} is given that tensor, not its name", "step"))
    if story.backward != home:
        labels.append(Label(story.backward, "gives the new one its gradient", "path"))
    if story.step.at.span not in (home, story.backward):
        labels.append(Label(story.step.at.span, "steps the old one, which has none", "step"))
    labels += called_from(reading, story.new.at, story.new.at)
    return Finding(
        code, rule, "warning", home, headline("`{}` is a new tensor, in no optimizer: never trained", name),
        f"change {tensor} in place under `torch.no_grad()` instead, as by `clamp_()` or `copy_()`: {optimizer} then "
        "goes on with it",
        tuple(labels),
        facts=UntrainedParameterFacts(
            parameters=(name,), lacking=Lacking(kind="renamed", optimizer=story.optimizer.at.span, made=(home,))
        ),
        notes=(f"{optimizer} steps the tensor that it was given, whatever {tensor} means by now",),
    )  # fmt: skip
