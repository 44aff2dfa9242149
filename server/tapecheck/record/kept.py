"""What kept nodes have saved, said as it was measured."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence

from tapecheck.rules import Finding
from tapecheck.rules.graph_kept.facts import GraphKeptFacts
from tapecheck.rules.graph_kept.rule import of_activations

_NUMBER = 8
"""What a node saves of a number that it calculates with takes so many bytes."""
_SAID = frozenset(
    of_activations(kept=kept, within=within, freed=freed, chain=chain)
    for kept, within, freed, chain in itertools.product((False, True), repeat=4)
)


def is_more_than_numbers(size: int, nodes: int) -> bool:
    """Return whether so many nodes have saved more than the numbers that they calculate with."""
    return size > _NUMBER * nodes


def as_measured(finding: Finding) -> Finding:
    """Return a finding about kept graphs that says of their saved tensors what a run has measured."""
    facts, measured = finding.facts, finding.evidence.measured if finding.evidence is not None else {}
    sizes, nodes = measured.get("saved_bytes"), measured.get("nodes")
    if not isinstance(facts, GraphKeptFacts) or not isinstance(sizes, Sequence) or not isinstance(nodes, Sequence):
        return finding
    kept = bool(sizes) and is_more_than_numbers(sizes[-1], nodes[-1])
    if kept == facts.saved_tensors_kept:
        return finding
    # What is as large after every iteration was saved by one forward pass.
    within = kept and sizes[-1] <= sizes[0]
    now = of_activations(kept=kept, within=within, freed=facts.backwarded, chain=facts.kind == "chain")
    return dataclasses.replace(finding, notes=tuple(_said_anew(note, now) for note in finding.notes))


def _said_anew(note: str, now: str) -> str:
    """Return a note with what it says of activations said in another way."""
    said = next((said for said in _SAID if note.endswith(said)), "")
    return note.removesuffix(said) + now if said else note
