"""What a recorded run says of TAPE407."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

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
    """Yield for each backward with the sum whether a term is constant: all that the tape has is a sum of one input.

    None where a sum of one input may be of a number that is added as well as of a term.
    """
    nodes = story.reading.ledger.nodes
    sums = _sums(story, finding)
    for run in runs:
        walked = [nodes[number] for number in run.executed if number in nodes]
        here = [node for node in walked if plain(node.op) in MERGES and story.at(finding.span, node.at.span)]
        if here:
            alone = sum(len(node.inputs) == 1 for node in here)
            lost = alone > sum(one.may_be_of(len(here)) for one in sums if one.of_number)
            known = alone <= sum(one.must_be_of(len(here), len(sums)) for one in sums if one.of_number)
            yield True if lost else False if known else None


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


@dataclass(frozen=True, slots=True)
class _AddedInCode:
    """A sum that is written on the lines of a finding.

    Where it has a graph, so have the sums that it is computed into: they are `around` it, and `within` are those that
    are computed into it.
    """

    of_number: bool
    around: int
    within: int

    def may_be_of(self, recorded: int) -> bool:
        """Return whether it may be one of so many recorded sums: `1 - a` of floats is none."""
        return self.around < recorded

    def must_be_of(self, recorded: int, written: int) -> bool:
        """Return whether so many recorded sums, of those that are written, cannot all be others."""
        return written - 1 - self.within < recorded


def _sums(story: Story, finding: Finding) -> list[_AddedInCode]:
    """Return the sums on the lines of a finding, with those that add a number by itself: `loss + 1e-8`."""
    try:
        tree = read_source(story.file(finding.span.file)).tree
    except SourceError:
        return []
    span = finding.span
    inside: dict[ast.AST, list[ast.AST]] = {}
    for node in ast.walk(tree):
        if span.line <= getattr(node, "lineno", 0) <= max(span.end_line, span.line) and _is_sum(node):
            inside[node] = [one for one in _computed_into(node) if _is_sum(one)]
    return [
        _AddedInCode(
            any(isinstance(getattr(side, "operand", side), ast.Constant) for side in _operands(node)),
            sum(node in below for below in inside.values()), len(below),
        )
        for node, below in inside.items()
    ]  # fmt: skip


def _is_sum(node: ast.AST) -> bool:
    return isinstance(node, (ast.BinOp, ast.AugAssign)) and isinstance(node.op, (ast.Add, ast.Sub))


def _operands(node: ast.AST) -> tuple[ast.expr, ...]:
    if isinstance(node, ast.BinOp):
        return node.left, node.right
    if isinstance(node, ast.AugAssign):
        return (node.value,)
    return (node.operand,) if isinstance(node, ast.UnaryOp) else ()


def _computed_into(node: ast.AST) -> Iterator[ast.expr]:
    """Yield the operations whose graph an operation has: no call is between, which could leave it out."""
    for operand in _operands(node):
        yield operand
        yield from _computed_into(operand)
