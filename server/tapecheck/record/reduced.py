"""Whether the ranks of a run had the same gradients at their steps: what DistributedDataParallel is there for."""

from __future__ import annotations

from collections.abc import Mapping

from tapecheck.rules.finding import Evidence, Finding
from tapecheck.tape import Leaf, Measure, Named, Step, Tape
from tapecheck.tape.ranks import STEP

_DIGEST = "step-digest"
_APART = "gradient-digest"


def differing(finding: Finding, ranks: Mapping[int, Tape]) -> Evidence | None:
    """Return confirmed where ranks used different gradients at the step of a finding.

    That they were the same shows nothing: all ranks may have had the same data.
    """
    digests: dict[tuple[int, int], set[float]] = {}
    apart: dict[tuple[int, int, int], set[float]] = {}
    named: dict[tuple[int, int, int], str] = {}
    for tape in ranks.values():
        optimizers, names = _stepped(finding, tape), _names(tape)
        for event in tape.events:
            kind, *numbers = event.name.split(":") if isinstance(event, Measure) else ("",)
            if kind not in (_DIGEST, _APART) or int(numbers[0]) not in optimizers:
                continue
            assert isinstance(event, Measure)
            number, step, *about = map(int, numbers)
            if kind == _DIGEST:
                digests.setdefault((number, step), set()).add(event.value)
            else:
                apart.setdefault((step, number, about[0]), set()).add(event.value)
                named.setdefault((step, number, about[0]), names.get(about[1], ""))
    found = sum(len(values) > 1 for values in digests.values())
    if not found:
        return None
    first = next((where for where, values in sorted(apart.items()) if len(values) > 1), None)
    measured: dict[str, int | str] = {"steps": len(digests), "differing": found, "of_ranks": len(ranks)}
    detail = f"the gradients of the ranks differed at {found} of {len(digests)} compared steps"
    if first is not None and (name := named[first]):
        detail, measured["parameter"] = f"{detail}, that of `{name}` first", name
    return Evidence("confirmed", detail, None, measured)


def _names(tape: Tape) -> dict[int, str]:
    """Return the names of leaves, as their own rank numbers them."""
    names: dict[int, str] = {}
    for event in tape.events:
        if isinstance(event, Leaf):
            names[event.id % STEP] = event.name
        elif isinstance(event, Named):
            names[event.leaf % STEP] = event.name
    return names


def _stepped(finding: Finding, tape: Tape) -> set[int]:
    """Return the optimizers, as their own rank numbers them, that stepped where the finding has the step."""
    lines = {label.span.line for label in finding.labels if label.role == "step"}
    return {event.optimizer % STEP for event in tape.events if isinstance(event, Step) and event.at.line in lines}
