"""TAPE103, backward-without-graph."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tapecheck.rules.backward_without_graph.facts import BackwardWithoutGraphFacts
from tapecheck.rules.finding import Finding, Label
from tapecheck.rules.path import always, path_labels
from tapecheck.rules.raising import failing
from tapecheck.rules.reading import Reading, Run, undifferentiable, with_sources
from tapecheck.rules.rule import Rule
from tapecheck.rules.words import called_from, cut_advice, cut_words, headline, off_labels, root_text, swallowed
from tapecheck.tape import Cut, NoGraph, Root, Span


class BackwardWithoutGraph(Rule):
    """The root of a backward has no graph."""

    code = "TAPE103"
    name = "backward-without-graph"
    severity = "error"
    of_absence = True
    needs = frozenset(("effect", "contents", "name", "off"))
    raises = True
    summary = "A backward starts from a tensor that has no graph"

    def judge(self, readings: Sequence[Reading]) -> list[Finding]:
        findings = []
        for reading, run, problem in failing(readings, NoGraph):
            root = run.backward.roots[problem.root]
            cuts = with_sources(reading, root.cuts)
            if undifferentiable(reading, root.cuts) or _passes_chosen(readings, reading, run, cuts.values()):
                continue
            if cuts or not _lacks_terms(readings, reading, run):
                findings.append(self._finding(readings, reading, run, root, list(cuts.values())))
        return findings

    def _finding(self, readings: Sequence[Reading], reading: Reading, run: Run, root: Root, cuts: list[Cut]) -> Finding:
        home = run.at.span
        certain = always(readings, reading, run)
        notes = [] if cuts else [f"no recorded operation computed {root_text(root)} from a tensor that requires grad"]
        labels = []
        for cut in _one_a_place(reading, cuts):
            labels.append(Label(cut.at.span, cut_words(cut, home), "cut"))
            labels += called_from(reading, cut.at, run.at, 1)
        labels += off_labels(cuts)
        labels += path_labels(readings, reading, run)
        notes += swallowed(reading, run)
        labels += called_from(reading, run.at, run.at)
        return Finding(
            self.code, self.name, self.severity, home, _headline(root, certain), _help(cuts, root), tuple(labels),
            certain,
            facts=BackwardWithoutGraphFacts(cuts=tuple(cut.how for cut in cuts)),
            notes=tuple(notes),
        )  # fmt: skip


def _lacks_terms(readings: Sequence[Reading], reading: Reading, run: Run) -> bool:
    """Return whether a root that nothing was cut off from may only lack the terms that conditions on data add to it.

    That it has no graph then needs every such condition to come out so, in every iteration.
    """
    return not always(readings, reading, run) or reading.untried_between(-1, run.position)


def _passes_chosen(readings: Sequence[Reading], reading: Reading, run: Run, cuts: Iterable[Cut]) -> bool:
    """Return whether a loop that has ended cuts off each value but the one whose number it was told, and came to none.

    Who tells the number of an element (`o if i == chosen else o.detach()`) means one that is there.
    """
    running = {loop for loop, _ in run.at.iteration}
    cuts_in = {one for cut in cuts for one in cut.at.iteration if one[0] not in running}
    cuts_at = {(cut.at.file, cut.at.line, cut.at.iteration) for cut in cuts}
    came: dict[tuple[Span, object], list[bool]] = {}
    for position, decision in reading.decisions:
        if decision.reached is not None and position < run.position:
            at, inner = decision.at, decision.at.iteration[-1:]
            if not cuts_in.isdisjoint(inner):
                came.setdefault((at.span, inner[0][0]), []).append(decision.reached)
            elif (at.file, at.line, at.iteration) in cuts_at:
                # A comprehension has no iterations of its own.
                came.setdefault((at.span, at.iteration), []).append(decision.reached)
    passed = any(len(answers) > 1 and not any(answers) for answers in came.values())
    return passed and not always(readings, reading, run)


def _one_a_place(reading: Reading, cuts: list[Cut]) -> list[Cut]:
    """Return one cut of each place, in order: of all that one loop freezes, what an optimizer was given to train."""
    given = {leaf for one in reading.optimizers.values() for leaf in (*one.params, *one.frozen)}
    chosen: dict[Span, Cut] = {}
    for cut in sorted(cuts, key=lambda cut: cut.id):
        known = chosen.setdefault(cut.at.span, cut)
        if given.isdisjoint(known.leaves) and not given.isdisjoint(cut.leaves):
            chosen[cut.at.span] = cut
    return list(chosen.values())


def _headline(root: Root, certain: bool) -> str:
    names = (root.name,) if root.name else ()
    tensor = "`{}`" if names else "this tensor"
    if certain:
        return headline(f"{tensor} has no graph: nothing to differentiate", *names)
    return headline(f"possible missing graph of {tensor}: nothing to differentiate", *names)


def _help(cuts: list[Cut], root: Root) -> str:
    if not cuts:
        return (
            f"compute {root_text(root)} from at least one parameter with `requires_grad=True`, and not under "
            "`torch.no_grad()`"
        )
    advice = "; ".join(filter(None, dict.fromkeys(map(cut_advice, sorted(cuts, key=lambda cut: cut.id)))))
    advice = advice or f"keep {root_text(root)} a tensor computed from the parameters by torch operations"
    hidden = any(cut.how in ("nondifferentiable", "leaf") for cut in cuts)
    return (
        advice if hidden else f"{advice} (setting `requires_grad` on the loss would hide the error and train nothing)"
    )
