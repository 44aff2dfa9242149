"""TAPE403, stale-gradient."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from tapecheck.rules.certainty import rest_on
from tapecheck.rules.finding import Finding, Label
from tapecheck.rules.gradients import (
    Gradients,
    Moment,
    gradients_of,
    has_graphs_alone,
    lists_parameters,
    name_of,
)
from tapecheck.rules.path import undisputed
from tapecheck.rules.reading import Reading, Run, remembered
from tapecheck.rules.rule import Rule
from tapecheck.rules.stale_gradient.facts import StaleGradientFacts
from tapecheck.rules.stale_gradient.left_behind import left_behind
from tapecheck.rules.words import backward_form, called_from, headline, join, line, parameters_text, possible, when
from tapecheck.tape import Assumed, Assumption, Escape, Fact, Site, Span, Step


class StaleGradient(Rule):
    """A backward adds to gradients that a step has used already, or a step uses them again."""

    code = "TAPE403"
    name = "stale-gradient"
    severity = "warning"
    of_absence = True
    over = True
    needs = frozenset(("base", "effect", "name"))
    summary = "A backward adds to gradients that a step has used and that nothing has cleared"

    def judge(self, readings: Sequence[Reading]) -> list[Finding]:
        # Where some way clears in time, it hangs on a condition that nobody has decided.
        stories = undisputed(found for reading in readings for found in _stale(reading).items()).values()
        # Another way may clear between the two steps.
        told = [one for one in stories if not one.reading.may_clear_between(*one.between, ever=one.ever_cleared)]
        found = [self._finding(one) for one in told]
        for story, finding in zip(told, found, strict=True):
            if (taken := _led_to(story)) is not None:
                text = f"`{taken.to}` leaves what it is given as it is"
                rest_on(finding, Assumption("effect", taken.at.span, text))
        return found + left_behind(readings, self.code, self.name)

    def spares(self, finding: Finding, reading: Reading, event: Assumed, position: int) -> bool:
        return has_graphs_alone(reading, event) or lists_parameters(reading, event)

    def _finding(self, story: _Story) -> Finding:
        reading, run = story.reading, story.run
        home = run.at.span
        form, names = backward_form(run.backward)
        message = headline(
            [f"{form} adds to gradients that a step has already used", f"{form} adds to gradients already used"], *names
        )
        (_, used), (_, again) = story.used, story.again
        labels = [Label(used.at.span, f"this step has used them{when(used.at, run.at)}", "step")]
        if again.at.span != used.at.span:
            labels.append(Label(again.at.span, "this step uses them once more", "step"))
        gradients = gradients_of(reading)
        handed = gradients.handed
        given = {handed[leaf].span for leaf in sorted(story.leaves) if leaf in handed}
        labels += [Label(one.at.span, "this backward has added to them before", "path") for one in story.beside]
        labels += [Label(span, "these gradients become those of what the step updates", "path") for span in given]
        labels += called_from(reading, run.at, run.at)
        leaves = [name_of(reading, leaf) for leaf in sorted(story.leaves)]
        shown = parameters_text(leaves)
        what = f"the gradients of {shown}" if shown else "the gradients"
        note = f"{what} are the sum of this backward's and of what the step before it used; "
        cleared = story.cleared.span if story.cleared is not None else None
        in_vain = f"they are cleared on {line(cleared, home)}, but not between the two" if cleared is not None else ""
        certain = reading.by_default(run.at)
        summed = _summed(story)
        unlisted = bool(given) or not gradients.by_hand.keys().isdisjoint(story.leaves)
        clearing = _clearing(reading, story) if unlisted else ()
        advice = _advice(story, summed, clearing if unlisted else None, given=bool(given))
        return Finding(
            self.code, self.name, self.severity, home, message if certain else possible(message), advice,
            tuple(labels), certain,
            facts=StaleGradientFacts(
                parameters=tuple(leaves), cleared=cleared, summed=summed, unlisted=unlisted, clearing=clearing,
                beside=tuple(one.at.span for one in story.beside),
            ),
            notes=(note + (in_vain or "nothing clears them"),),
        )  # fmt: skip


_WHEN: dict[Fact, str] = {
    "yes": "right after the step, not in between",
    "may": "right after the step where several batches come together in it, else before this backward",
    "no": "before this backward",
}
"""When to clear, by whether the gradients of several backward calls come together in a step."""


def _advice(story: _Story, summed: Fact, clearing: Sequence[str] | None, *, given: bool) -> str:
    """Return what to do: `clearing` are the statements that clear gradients which no optimizer has, `given` says that
    one steps others in their place.
    """
    (_, used), (_, again) = story.used, story.again
    # Of two optimizers over the same parameters the one whose step comes next is at hand where the backward is.
    call = _clearing_call(again if again.optimizer != used.optimizer else used)
    if story.beside:
        # Cleared after the step, what these add would be left for the next one.
        first = "this backward" if summed == "no" else "the first backward that the step is for"
        others = [line(one.at.span, story.run.at.span) for one in story.beside]
        losses = f"the loss on {others[0]} has" if len(others) == 1 else f"the losses on {join(others)} have"
        return f"clear what {losses} added: {call} before {first}"
    if clearing is None:
        return f"clear the gradients for each step: {call} {_WHEN[summed]}"
    own = f"{join(f'`{one}`' for one in clearing)} " if 0 < len(clearing) <= 2 else ""
    besides = f"; {call} clears those of its parameters only" if given else ""
    return f"clear them where they are added up: {own}{_WHEN[summed]}{besides}"


def _clearing(reading: Reading, story: _Story) -> tuple[str, ...]:
    """Return the statements that clear the gradients of some leaves, of the module that all of them are in where there
    is one; none where the function of the backward may have no name for them.
    """
    stack = story.run.at.stack
    leaves = [reading.ledger.leaves[leaf] for leaf in sorted(story.leaves)]
    if not all(leaf.at.stack[len(leaf.at.stack) - len(stack) :] == stack for leaf in leaves):
        return ()
    names = [name_of(reading, leaf.id) for leaf in leaves]
    paths = [name.split(".") for name in names]
    modules = zip(*(path[:-1] for path in paths))
    shared = itertools.takewhile(lambda parts: len(set(parts)) == 1 and parts[0].isidentifier(), modules)
    module = ".".join(parts[0] for parts in shared)
    if module and module != "self":
        return (f"{module}.zero_grad()",)
    if not all(name.isidentifier() and _means_one(reading, name) for name in names):
        return ()
    return tuple(f"{name}.grad = None" for name in names)


def _means_one(reading: Reading, name: str) -> bool:
    """Return whether a name is that of one leaf wherever it is bound: a loop's variable means one after another."""
    named = [node for node, binds in reading.binds.items() if any(bind.name == name for _, bind in binds)]
    return len([node for node in named if node in reading.ledger.leaves]) == 1


def _moments(gradients: Gradients, leaf: int) -> Sequence[Moment]:
    """Return what happens to the gradient of a leaf, the steps that the program takes by itself among it."""
    moments = gradients.moments(leaf)
    by_hand = gradients.by_hand.get(leaf)
    return sorted([*moments, *by_hand], key=lambda one: one.position) if by_hand else moments


def _summed(story: _Story) -> Fact:
    """Return whether the gradients of several runs of a backward come together in a step; they may where that stands
    under a condition which the backward does not hang on.
    """
    step, place = story.again[1].at.span, story.run.at.span
    moments = _moments(gradients_of(story.reading), min(story.leaves))
    uses = [moment for moment in moments if moment.kind == "stepped" or moment.at.span == place]
    if any(one.kind == other.kind == "added" for one, other in zip(uses, uses[1:], strict=False)):
        return "yes"
    decisions = (decision for _, decision in story.reading.decisions)
    apart = any(one.governs(step) and not one.governs(place) for one in decisions)
    return "may" if apart else "no"


def _clearing_call(step: Step) -> str:
    """Return the call that clears what a step uses, as the program would write it."""
    owner, _, method = step.call.rpartition(".")
    return f"`{owner}.zero_grad()`" if owner and method == "step" else "`zero_grad()` of the optimizer"


@dataclass(slots=True)
class _Story:
    """A backward that adds to used gradients: the step that used them, and the one that uses the sum.

    `beside` are backward calls before it that add to them as well, for a step or a change of something else. `cleared`
    is where the program clears one of the leaves at another time.
    """

    reading: Reading
    run: Run
    used: _Stepped
    again: _Stepped
    beside: tuple[Run, ...]
    cleared: Site | None
    leaves: set[int] = field(default_factory=set)

    @property
    def between(self) -> tuple[int, int]:
        return self.used[0], self.again[0]

    @property
    def ever_cleared(self) -> bool:
        """Whether any of the gradients is cleared or set at some time."""
        gradients = gradients_of(self.reading)
        return any(gradients.happens(leaf, "cleared", "set") for leaf in self.leaves)


def _led_to(story: _Story) -> Escape | None:
    """Return what hidden code was given by then that leads to the leaves, if anything."""
    gradients, (_, end) = gradients_of(story.reading), story.between
    given = (gradients.led_to(leaf) for leaf in sorted(story.leaves))
    return next((one[1] for one in given if one is not None and one[0] < end), None)


def _first_cleared(moments: Iterable[Moment]) -> Site | None:
    return next((moment.at for moment in moments if moment.kind == "cleared"), None)


def _stale(reading: Reading) -> dict[Span, _Story | None]:
    """Return the backward calls of a tape that come after a step: those that are stale, and with None those that ran on
    cleared gradients.
    """
    found: dict[Span, _Story | None] = {}
    if not (reading.steps or reading.changes) or len(reading.runs) < 2:
        return found
    gradients = gradients_of(reading)
    for leaf in (*gradients.steppable, *sorted({*gradients.handed, *gradients.by_hand})):
        moments, since = _moments(gradients, leaf), gradients.given_since(leaf)
        for place in (one.at.span for one in moments if one.run is not None and one.position > since):
            found.setdefault(place, None)
        seen = [moment for moment in moments if moment.position < since]
        for place, use in _uses(gradients, leaf, seen, whole=len(seen) == len(moments)):
            story = found.setdefault(place, None)
            if use is not None:
                story = found[place] = story or _Story(reading, *use, _first_cleared(moments))
                story.leaves.add(leaf)
    return found


_Stepped = tuple[int, Step]
"""A step, with its position."""
_Use = tuple[Run, _Stepped, _Stepped, tuple[Run, ...]]
"""A backward after a step, with the step whose gradients it adds to, the one that uses the sum, and the backward calls
that have added to it for something else.
"""


def _uses(
    gradients: Gradients, leaf: int, moments: Sequence[Moment], *, whole: bool
) -> Iterator[tuple[Span, _Use | None]]:
    """Yield the backward calls after a step, with None where the gradients were cleared; `whole` says that the moments
    are all that there are.
    """
    gradient = _Gradient(gradients, leaf)
    for moment in moments:
        if gradient.pending and moment.shapes:
            # The sum is clipped or scaled, what is stale in it stays.
            continue
        if moment.kind in ("cleared", "set"):
            gradient.clear(sure=moment.kind == "set")
        elif moment.run is not None:
            yield from gradient.add(moment, moment.run)
        elif moment.step is not None:
            yield from gradient.step((moment.position, moment.step))
    before = gradient.used
    if whole and before is not None and gradient.pending:
        run = gradient.pending[0]
        never = all(moment.kind not in ("cleared", "set") for moment in moments)
        if never and _comes_again(gradients.reading, run.at, before[1].at):
            yield run.at.span, (run, before, before, ())


@dataclass(slots=True)
class _Gradient:
    """The gradient of a leaf as time goes by: the step that has `used` what is in it, and what was added since."""

    gradients: Gradients
    leaf: int
    used: _Stepped | None = None
    stepped: bool = False
    sure: bool = False
    """Whether there surely is something that no step has used."""
    pending: list[Run] = field(default_factory=list)
    """The backward calls that have added to what a step has used."""

    def clear(self, *, sure: bool) -> None:
        # A step that finds nothing uses nothing.
        self.used, self.pending, self.sure = None, [], self.sure and sure

    def add(self, moment: Moment, run: Run) -> Iterator[tuple[Span, None]]:
        if moment.fact != "yes":
            self.clear(sure=False)
        elif self.used is not None:
            self.pending.append(run)
        else:
            self.sure = True
            if self.stepped:
                yield moment.at.span, None

    def step(self, step: _Stepped) -> Iterator[tuple[Span, _Use]]:
        if self.pending and self.used is not None:
            own = self.gradients.steppable.get(self.leaf, set()) | {step[1].optimizer}
            taken = _taken(self.gradients.reading, frozenset(own), tuple(self.pending), step[0])
            mine = [run for run in self.pending if run.position > taken] or self.pending
            places = {run.at.span for run in mine}
            others = {run.at.span: run for run in self.pending if run.at.span not in places}
            yield mine[0].at.span, (mine[0], self.used, step, tuple(others.values()))
        # A step without a backward since the one before it uses the same gradient once more.
        self.used = step if self.sure or self.pending or self.used is not None else None
        self.stepped, self.pending, self.sure = self.stepped or self.used is not None, [], False


@remembered
def _taken(reading: Reading, own: frozenset[int], runs: tuple[Run, ...], end: int) -> int:
    """Return the last position before `end` at which something else than the optimizers in `own` has taken what some
    backward calls gave: the step of another optimizer, or whoever reads the gradient of a leaf that these do not have.
    -1 if nothing has.
    """
    if len({run.at.span for run in runs}) == 1:
        return -1
    gradients, begin = gradients_of(reading), runs[0].position
    others = [(at, step.optimizer) for at, step in reading.steps if begin < at < end and step.optimizer not in own]
    found = [at for at, other in others if _gave(runs, at, gradients.params_at(other, at))]
    for leaf in gradients.leaves():
        if gradients.steppable.get(leaf, set()).isdisjoint(own):
            reads = (moment.position for moment in gradients.moments(leaf) if moment.kind == "read")
            found += (at for at in reads if begin < at < end and _gave(runs, at, (leaf,)))
    return max(found, default=-1)


def _gave(runs: Sequence[Run], position: int, leaves: Collection[int]) -> bool:
    """Return whether one of some backward calls before a position has given any of some leaves a gradient."""
    return any(run.position < position and not run.executed.keys().isdisjoint(leaves) for run in runs)


def _comes_again(reading: Reading, added: Site, stepped: Site) -> bool:
    """Return whether a step comes round again in a loop that would go on, where its tape was cut short: a step in
    every fourth of the batches of a loader, say.
    """
    for one, other in zip(added.iteration, stepped.iteration, strict=False):
        if one != other:
            loop = reading.loops.get(one[0])
            return one[0] == other[0] and one[1] > other[1] and loop is not None and loop.more != "no"
    return False
