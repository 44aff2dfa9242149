"""Whether the ranks of a run had the same gradients at their steps: what DistributedDataParallel is there for."""

from __future__ import annotations

from collections.abc import Mapping

from tapecheck.rules.finding import Evidence, Finding
from tapecheck.tape import Measure, Step, Tape
from tapecheck.tape.ranks import STEP

_DIGEST = "step-digest"


def differing(finding: Finding, ranks: Mapping[int, Tape]) -> Evidence | None:
    """Return confirmed where ranks used different gradients at the step of a finding.

    That they were the same shows nothing: all ranks may have had the same data.
    """
    digests: dict[tuple[str, str], set[float]] = {}
    for tape in ranks.values():
        optimizers = _stepped(finding, tape)
        for event in tape.events:
            if isinstance(event, Measure) and event.name.startswith(_DIGEST):
                _, number, step = event.name.split(":")
                if int(number) in optimizers:
                    digests.setdefault((number, step), set()).add(event.value)
    found = sum(len(values) > 1 for values in digests.values())
    if not found:
        return None
    return Evidence(
        "confirmed", f"the gradients of the ranks differed at {found} of {len(digests)} compared steps", None,
        {"steps": len(digests), "differing": found, "of_ranks": len(ranks)},
    )  # fmt: skip


def _stepped(finding: Finding, tape: Tape) -> set[int]:
    """Return the optimizers, as their own rank numbers them, that stepped where the finding has the step."""
    lines = {label.span.line for label in finding.labels if label.role == "step"}
    return {event.optimizer % STEP for event in tape.events if isinstance(event, Step) and event.at.line in lines}
