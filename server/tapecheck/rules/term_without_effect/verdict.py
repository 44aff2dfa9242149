"""What a recorded run says of TAPE407."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from tapecheck.record.story import Story
from tapecheck.record.verdicts import not_reached
from tapecheck.record.words import times
from tapecheck.rules import Evidence, Finding
from tapecheck.rules.gradients import gradients_of
from tapecheck.rules.reading import MERGES, Run, plain
from tapecheck.rules.term_without_effect.facts import TermWithoutEffectFacts
from tapecheck.rules.term_without_effect.rule import Term, terms_of
from tapecheck.source import SourceError, read_source


def verdict(story: Story, finding: Finding) -> Evidence | None:
    runs = [item for item in story.reading.runs if item.backward.accumulates]
    if not story.count(finding.span):
        return not_reached(story, finding)
    constant = isinstance(finding.facts, TermWithoutEffectFacts) and finding.facts.constant
    # Of the sums of each backward that had one, whether a term was without effect.
    lost = list(_lost_constants(story, finding, runs) if constant else _lost_terms(story, finding, runs))
    merges, found = len(lost), sum(lost)
    if not merges:
        return None
    if found and not constant:
        return Evidence(
            "confirmed",
            f"in {found} of {merges} backward calls no gradient of a term came to what was stepped next", None,
            {"runs": merges, "without": found},
        )  # fmt: skip
    if found == merges:
        return Evidence(
            "confirmed", f"in {found} of {merges} backward calls a term of the sum had no graph", None,
            {"runs": merges, "without": found},
        )  # fmt: skip
    return None if found else Evidence("refuted", f"every term had a gradient that a step used, {times(merges)}")


def _lost_constants(story: Story, finding: Finding, runs: Sequence[Run]) -> Iterator[bool]:
    """Yield for each backward with the sum whether a term is constant: all that the tape has is a sum of one input."""
    nodes = story.reading.ledger.nodes
    numbers = _numbers_added(story, finding)
    for run in runs:
        walked = [nodes[number] for number in run.traversal.executed if number in nodes]
        here = [node for node in walked if plain(node.op) in MERGES and story.at(finding.span, node.at.span)]
        if here:
            yield sum(len(node.inputs) == 1 for node in here) > numbers


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


def _numbers_added(story: Story, finding: Finding) -> int:
    """Return how many numbers the lines of a finding add by themselves: `loss + 1e-8`."""
    try:
        tree = read_source(story.file(finding.span.file)).tree
    except SourceError:
        return 0
    span = finding.span
    return sum(
        isinstance(node, ast.BinOp)
        and isinstance(node.op, (ast.Add, ast.Sub))
        and any(isinstance(getattr(side, "operand", side), ast.Constant) for side in (node.left, node.right))
        for node in ast.walk(tree)
        if span.line <= getattr(node, "lineno", 0) <= max(span.end_line, span.line)
    )
