"""The rules: functions over tapes, one file a rule, each with its page and its examples."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from tapecheck.rules.backward_twice import BackwardTwice
from tapecheck.rules.backward_without_graph import BackwardWithoutGraph
from tapecheck.rules.checkpoint_without_gradient import CheckpointWithoutGradient
from tapecheck.rules.create_graph_cycle import CreateGraphCycle
from tapecheck.rules.finding import Evidence, Finding, Label, Severity
from tapecheck.rules.gradient_cut import GradientCut
from tapecheck.rules.gradient_discarded import GradientDiscarded
from tapecheck.rules.graph_kept import GraphKeptAcrossIterations
from tapecheck.rules.growing_chain import GrowingChain
from tapecheck.rules.leaf_inplace import LeafInplace
from tapecheck.rules.missing_create_graph import MissingCreateGraph
from tapecheck.rules.needless_graph import NeedlessGraph
from tapecheck.rules.needless_retain_graph import NeedlessRetainGraph
from tapecheck.rules.path import explain
from tapecheck.rules.reading import Reading
from tapecheck.rules.rule import Example, Rule
from tapecheck.rules.scaled_gradient_read import ScaledGradientRead
from tapecheck.rules.stale_gradient import StaleGradient
from tapecheck.rules.stale_saved_tensor import StaleSavedTensor
from tapecheck.rules.term_without_effect import TermWithoutEffect
from tapecheck.rules.untrained_parameter import UntrainedParameter
from tapecheck.rules.words import merged
from tapecheck.tape import Tape

ALL: tuple[Rule, ...] = (
    BackwardTwice(),
    StaleSavedTensor(),
    BackwardWithoutGraph(),
    LeafInplace(),
    GraphKeptAcrossIterations(),
    GrowingChain(),
    CreateGraphCycle(),
    NeedlessRetainGraph(),
    NeedlessGraph(),
    MissingCreateGraph(),
    GradientCut(),
    StaleGradient(),
    GradientDiscarded(),
    UntrainedParameter(),
    CheckpointWithoutGradient(),
    TermWithoutEffect(),
    ScaledGradientRead(),
)
RAISING = frozenset(rule.code for rule in ALL if rule.raises)
"""The codes of the rules that are right where PyTorch raises."""

__all__ = [
    "ALL",
    "RAISING",
    "BackwardTwice",
    "BackwardWithoutGraph",
    "CheckpointWithoutGradient",
    "CreateGraphCycle",
    "Evidence",
    "Example",
    "Finding",
    "GradientCut",
    "GradientDiscarded",
    "GraphKeptAcrossIterations",
    "GrowingChain",
    "Label",
    "LeafInplace",
    "MissingCreateGraph",
    "NeedlessGraph",
    "NeedlessRetainGraph",
    "Reading",
    "Rule",
    "ScaledGradientRead",
    "Severity",
    "StaleGradient",
    "StaleSavedTensor",
    "TermWithoutEffect",
    "UntrainedParameter",
    "chosen",
    "judge",
]


def chosen(select: Collection[str] | None, ignore: Collection[str]) -> list[Rule]:
    """Return the rules that codes, prefixes of codes ("TAPE2") or names choose; nothing selected means all."""
    return [rule for rule in ALL if (select is None or _named(rule, select)) and not _named(rule, ignore)]


def judge(
    tapes: Sequence[Tape],
    *,
    select: Collection[str] | None = None,
    ignore: Collection[str] = (),
    read: Callable[[Tape], Reading] = Reading,
) -> list[Finding]:
    """Return every selected rule's findings over the tapes of one program, in the order of the source.

    `select` and `ignore` hold rule codes, prefixes of codes ("TAPE2") or names; nothing selected means all. `read`
    gives the reading of a tape, where the caller has read it before.
    """
    rules = chosen(select, ignore)
    if not rules:
        return []
    readings = [read(tape) for tape in tapes]
    findings = []
    for rule in rules:
        found = merged(rule.judge(readings))
        explain(rule, found, readings)
        findings += found
    findings.sort(key=lambda finding: (finding.span.file, finding.span.line, finding.span.column, finding.code))
    return findings


def _named(rule: Rule, names: Collection[str]) -> bool:
    return any(name in ("ALL", rule.name) or (name and rule.code.startswith(name)) for name in names)
