"""TAPE601, gradient-not-reduced."""

from __future__ import annotations

from collections.abc import Sequence

from tapecheck.rules.certainty import rest_on
from tapecheck.rules.finding import Finding, Label
from tapecheck.rules.gradient_not_reduced.facts import GradientNotReducedFacts
from tapecheck.rules.reading import Reading
from tapecheck.rules.reduction import Cause, Unreduced, reductions_of, wrapped_here
from tapecheck.rules.reentrant import checkpoints_walked
from tapecheck.rules.rule import Rule
from tapecheck.rules.words import MAX_LABELS, called_from, headline, in_full
from tapecheck.tape import Assumption, Span

_CAUSES: dict[Cause, str] = {
    "bypass": "the forward bypasses the wrapper",
    "again": "an earlier backward did it",
    "no_sync": "`no_sync` is on",
    "flag": "sync was off in the forward",
    "grad": "`autograd.grad` does not",
    "unsynced": "it was told not to",
    "checkpoint": "a checkpoint adds to them late",
    "late": "not trainable when wrapped",
}
_HELP: dict[Cause, str] = {
    "bypass": "call the wrapped model; move what is called on the model inside it into its `forward`",
    "again": "add the losses and call backward once, or run a forward of the wrapped model before each backward",
    "no_sync": "run the last forward and backward before each step outside `no_sync`",
    "flag": "set `require_backward_grad_sync = True` before the last forward of each step",
    "grad": "call `.backward()`, or average the gradients with `torch.distributed.all_reduce`",
    "unsynced": "call `set_requires_gradient_sync(True)` before the last backward of each step",
    "checkpoint": "pass `use_reentrant=False` to the checkpoint",
    "late": "unfreeze and add parameters before the model is wrapped, or wrap `model.module` anew behind it",
}


class GradientNotReduced(Rule):
    """A step uses gradients that DistributedDataParallel has not averaged between processes."""

    code = "TAPE601"
    name = "gradient-not-reduced"
    severity = "warning"
    summary = "A step uses gradients that DistributedDataParallel has not averaged between processes"

    def judge(self, readings: Sequence[Reading]) -> list[Finding]:
        found = [
            (reading, each)
            for reading in readings
            for each in reductions_of(reading).unreduced
            if each.local.wrapper.sharded or not each.local.wrapper.alone
        ]
        shown: dict[Span, set[int]] = {}
        for reading, each in found:
            shown.setdefault(each.local.run.at.span, set()).add(id(reading))
        findings: dict[Span, Finding] = {}
        for reading, each in found:
            span = each.local.run.at.span
            hidden = _hidden(reading, each)
            certain = (
                hidden is None
                and each.local.wrapper.several == "yes"
                and all(id(other) in shown[span] for other in readings if other.walks_at(span))
            )
            if span not in findings:
                findings[span] = self._finding(reading, each, certain)
                if hidden is not None:
                    rest_on(findings[span], hidden)
        return list(findings.values())

    def only_last(self, finding: Finding, reading: Reading) -> set[int]:
        wrong = (each.local.run for each in reductions_of(reading).unreduced if each.local.run.at.span == finding.span)
        return {node for run in wrong for node in run.backward.root_nodes}

    def _finding(self, reading: Reading, each: Unreduced, certain: bool) -> Finding:
        at, cause = each.local.run.at, _CAUSES[each.local.cause]
        by = "FSDP2" if each.local.wrapper.sharded else "DDP"
        form = f"{by} does not average these gradients: {cause}" if certain else f"possible local gradients: {cause}"
        # Gradients that FSDP2 has not reduced stay where no optimizer finds them.
        used = "finds no gradients" if each.local.wrapper.sharded else "uses them: the processes drift apart"
        labels = [Label(each.step.at.span, f"this step {used}", "step")]
        averaging = each.local.averaging if each.local.cause == "again" else None
        if averaging is not None and averaging.at.span != at.span:
            labels.append(Label(averaging.at.span, "this backward averaged, as one does after a forward", "path"))
        if each.local.cause == "bypass" and (bypassing := _bypassing(reading, each)) not in (None, at.span):
            labels.append(Label(bypassing, "this forward does not go through the wrapper", "path"))
        checkpoints = checkpoints_walked(reading, each.local.run) if each.local.cause == "checkpoint" else []
        recomputed = tuple(dict.fromkeys(node.at.span for node in checkpoints))
        for span in recomputed[:MAX_LABELS]:
            labels.append(Label(span, "this reentrant checkpoint runs a backward of its own", "path"))
        labels.append(Label(each.local.wrapper.at.span, wrapped_here(each.local.wrapper), "built"))
        labels += called_from(reading, at, at)
        names = [reading.ledger.leaves[leaf].name for leaf in each.leaves]
        known = [name for name in names if name]
        notes = tuple(in_full("", known, "not averaged")) if each.local.cause == "late" and known else ()
        return Finding(
            self.code, self.name, self.severity, at.span, headline(form), _HELP[each.local.cause],
            tuple(labels), certain,
            facts=GradientNotReducedFacts(
                cause=each.local.cause,
                parameters=tuple(known[:MAX_LABELS]),
                wrapped=each.local.wrapper.at.span,
                checkpoints=recomputed,
            ),
            notes=notes,
        )  # fmt: skip


def _hidden(reading: Reading, each: Unreduced) -> Assumption | None:
    """Return what is taken for granted where hidden code has made all the parameters that are not averaged."""
    leaves = [reading.ledger.leaves[leaf] for leaf in each.leaves]
    if not all(leaf.many and not leaf.made for leaf in leaves):
        return None
    text = "the wrapped model is a module whose parameters nothing else averages"
    return Assumption("module", each.local.wrapper.at.span, text)


def _bypassing(reading: Reading, each: Unreduced) -> Span | None:
    """Return where a forward that bypasses the wrapper begins: the call in the function that runs the backward."""
    run, leaves = each.local.run, set(each.leaves)
    nodes = (reading.ledger.nodes.get(number) for number in sorted(run.executed))
    first = next((node for node in nodes if node is not None and not leaves.isdisjoint(node.inputs)), None)
    if first is None:
        return None
    around = set(run.at.stack)
    return next((span for span in reversed((first.at.span, *first.at.stack)) if span not in around), None)
