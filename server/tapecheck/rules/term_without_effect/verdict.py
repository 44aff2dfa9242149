"""What a recorded run says of TAPE407."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence

from tapecheck.record.story import Story
from tapecheck.record.sums import Written, calls_once, written_sums
from tapecheck.record.verdicts import not_reached
from tapecheck.record.words import times
from tapecheck.rules import Evidence, Finding
from tapecheck.rules.gradients import gradients_of
from tapecheck.rules.reading import MERGES, Run, plain
from tapecheck.rules.term_without_effect.facts import TermWithoutEffectFacts
from tapecheck.rules.term_without_effect.rule import Term, terms_of
from tapecheck.tape import Node


def verdict(story: Story, finding: Finding) -> Evidence | None:
    runs = [item for item in story.reading.runs if item.backward.accumulates]
    if not story.count(finding.span):
        return not_reached(story, finding)
    constant = isinstance(finding.facts, TermWithoutEffectFacts) and finding.facts.constant
    # Of the sums of each backward that had one, whether a term was without effect.
    lost = list(_lost_constants(story, finding, runs) if constant else _lost_terms(story, finding, runs))
    merges, found = len(lost), lost.count(True)
    if not merges:
        return None
    if found == merges or (found and not constant):
        lacks = "a term of the sum had no graph" if constant else "no gradient of a term came to what was stepped next"
        return Evidence.confirmed(f"in {found} of {merges} backward calls {lacks}", runs=merges, without=found)
    if found or None in lost:
        return None
    return Evidence.refuted(f"every term had a gradient that a step used, {times(merges)}")


def _lost_constants(story: Story, finding: Finding, runs: Sequence[Run]) -> Iterator[bool | None]:
    """Yield for each backward with the sum whether a term is constant: all that the tape has is a sum of one operand.

    None where that may be of a number that is added, or of what the sum begins with, as well as of a term.
    """
    nodes = story.reading.ledger.nodes
    span = finding.span
    found = [
        [
            node
            for node in (nodes[number] for number in run.executed if number in nodes)
            if plain(node.op) in MERGES and story.at(span, node.at.span)
        ]
        for run in runs
    ]
    written = written_sums(story.file(span.file), span.line, max(span.end_line, span.line))
    # Where each time that the lines ran a node was built, none of the sums was one of numbers or constants.
    every = sum(map(len, found)) == story.count(span)
    number = isinstance(finding.facts, TermWithoutEffectFacts) and finding.facts.number
    for here in filter(None, found):
        recorded = _Recorded(here, _calls_once(story, here))
        if not recorded.first + recorded.second:
            yield False
        elif recorded.has_constant(written):
            yield True
        else:
            yield False if recorded.has_no_constant(written, every, number) else None


def _calls_once(story: Story, nodes: Sequence[Node]) -> bool:
    """Return whether what leads to some nodes is one call for each line that it is on."""
    calls = {(site.stack[0], site.function) for site in (node.at for node in nodes) if site.stack}
    return all(
        calls_once(story.file(at.file), at.line, max(at.end_line, at.line), function) for at, function in calls
    )  # fmt: skip


def _lost_terms(story: Story, finding: Finding, runs: Sequence[Run]) -> Iterator[bool]:
    """Yield for each backward with the sum whether no gradient of a term came to what was stepped next."""
    for run in runs:
        terms = [term for term in terms_of(story.reading, run) if story.at(finding.span, term.merge.at.span)]
        if terms:
            yield any(term.reaches == "no" or _of_new_leaves(story, term) for term in terms)


def _of_new_leaves(story: Story, term: Term) -> bool:
    """Return whether a term leads to nothing but leaves that are no parameters and in no optimizer: a value that was
    made a leaf again.
    """
    ledger = story.reading.ledger
    if term.node is None:
        return False
    below = ledger.ancestry([term.node])
    leaves = [ledger.leaves[number] for number in below if number in ledger.leaves]
    stepped = gradients_of(story.reading).steppable
    return bool(leaves) and not any(
        leaf.parameter or leaf.id in stepped or ledger.leads_anywhere(leaf.id) for leaf in leaves
    )


class _Recorded:
    """The sums of one backward that are recorded on the lines of a finding.

    `first` and `second` of them have no graph of that operand. The lines ran for each of the `groups`, `once` where no
    other run of them looks the same.
    """

    def __init__(self, nodes: Sequence[Node], once: bool) -> None:
        self.nodes = nodes
        self.first = sum(node.constant == "first" for node in nodes)
        # A number from which a term is taken has a node of its own.
        self.second = sum(
            node.constant == "second" or (plain(node.op) == "rsub" and len(node.inputs) == 1) for node in nodes
        )
        self.groups = [*Counter((node.at.stack, node.at.iteration) for node in nodes).values()]
        self.once = once

    def has_constant(self, written: Sequence[Written]) -> bool:
        """Return whether more operands have no graph than what is no term can explain."""
        most = {"first": 0.0, "second": 0.0}
        for one in written:
            if one.kind != "number":
                most[one.operand] += self._most(one)
            else:
                most["second"] += sum(one.may_be_of(recorded) for recorded in self.groups)
        return self.first > most["first"] or self.second > most["second"] or self._lacks_sums(written)

    def _lacks_sums(self, written: Sequence[Written]) -> bool:
        """Return whether terms that stand there were added to a number without a node."""
        if not self.once or any(one.repeated or one.length is None for one in written if one.kind == "start"):
            return False
        # A sum that none of these goes into may be one of numbers.
        around = [one for one in written if one.kind != "start"]
        if any(not one.within for one in around):
            return False
        lengths = [one.length or 0 for one in written if one.kind == "start"]
        return bool(lengths) and len(self.nodes) < len(self.groups) * (sum(lengths) + len(around))

    def _most(self, one: Written) -> float:
        """Return how often a sum may have added what is no term."""
        if one.kind == "term":
            return 0
        if one.repeated or not self.once:
            return math.inf
        return self._begun(one.loops) if one.kind == "begun" else len(self.groups)

    def has_no_constant(self, written: Sequence[Written], every: bool, number: bool) -> bool:
        """Return whether what is no term must be all that has no graph.

        `every` says that each of the sums has a node, `number` that a term without graph may be a number.
        """
        kinds = {one.kind for one in written}
        if not self.once or any(one.repeated for one in written if one.kind != "term") or "unknown" in kinds:
            return False
        if "begun" in kinds:
            return len(written) == 1 and every and self.first + self.second <= self._begun(written[0].loops)
        if "start" in kinds:
            return not self.first and self._only_starts(written, number)
        musts = [one for one in written if one.kind == "number"]
        least = sum(one.must_be_of(recorded, len(written)) for one in musts for recorded in self.groups)
        return self.first + self.second <= least

    def _only_starts(self, written: Sequence[Written], number: bool) -> bool:
        """Return whether each sum was begun with the number that it starts from, and all else was added to a graph.

        A constant that stands first is the first operand of the next sum. One that is a number adds to the start: then
        the sums are fewer than the terms.
        """
        starts = [one for one in written if one.kind == "start"]
        evaluated = len(self.groups)
        if self.second != evaluated * sum(one.kind in ("start", "number") for one in written):
            return False
        others = len(written) - len(starts)
        lengths = [one.length for one in starts]
        if None not in lengths:
            return len(self.nodes) == evaluated * (sum(length or 0 for length in lengths) + others)
        return len(starts) == 1 and not number and len(self.nodes) > evaluated * others

    def _begun(self, loops: int) -> int:
        """Return how often something began anew in front of so many loops around the lines."""
        return len(
            {(node.at.stack, node.at.iteration[: max(len(node.at.iteration) - loops, 0)]) for node in self.nodes}
        )
