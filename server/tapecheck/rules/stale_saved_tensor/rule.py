"""TAPE102, stale-saved-tensor."""

from __future__ import annotations

from collections.abc import Sequence

from tapecheck.rules.finding import Finding, Label
from tapecheck.rules.origin import Origin, trace
from tapecheck.rules.path import always, path_labels
from tapecheck.rules.raising import failing
from tapecheck.rules.reading import Reading, Run
from tapecheck.rules.refusal import notes_of_failure
from tapecheck.rules.rule import Rule
from tapecheck.rules.stale_saved_tensor.facts import StaleSavedTensorFacts
from tapecheck.rules.words import backward_form, called_from, headline, line, quoted, when
from tapecheck.tape import InPlace, Stale
from tapecheck.tape.changes import BROADCAST

ONLY_IN_PLACE = frozenset({
    "apply_", "bernoulli_", "cauchy_", "copy_", "detach_", "exponential_", "fill_", "fill_diagonal_", "geometric_",
    "log_normal_", "map2_", "map_", "normal_", "random_", "requires_grad_", "resize_", "resize_as_", "set_",
    "share_memory_", "uniform_", "zero_",
})  # fmt: skip
"""Methods without a form that returns a new tensor, or with one that means something else."""


class StaleSavedTensor(Rule):
    """A backward reaches a node whose saved tensor was changed in place since."""

    code = "TAPE102"
    name = "stale-saved-tensor"
    severity = "error"
    raises = True
    summary = "A backward needs a tensor that was changed in place after the forward pass saved it"

    def judge(self, readings: Sequence[Reading]) -> list[Finding]:
        return [self._finding(readings, *found) for found in failing(readings, Stale)]

    def _finding(self, readings: Sequence[Reading], reading: Reading, run: Run, problem: Stale) -> Finding:
        home, node, change = run.at.span, problem.node, problem.changed_by
        origin = trace(reading, run, node, None, change)
        certain = always(readings, reading, run)
        saved = _saved_name(reading, problem)
        culprit = _culprit(reading, change)
        by = "" if change.kind == "statement" else f" by {culprit}"
        labels = [
            Label(node.at.span, f"`{saved}` was saved here" if saved else f"`{node.op}` saved it here", "built"),
            Label(change.at.span, f"modified in place here{by}{when(change.at, run.at)}", "changed"),
        ]
        labels += origin.labels if origin.kind == "carried" else ()
        labels += called_from(reading, node.at, run.at)
        labels += [
            Label(span, "the change is called from here", "called")
            for span in reading.telling_calls(change.at)[:2]
            if span != home and span not in run.at.stack
        ]
        labels += path_labels(readings, reading, run)
        earlier = (other for other in reading.runs if other.position < run.position and node.id in other.executed)
        retained = any(other.backward.retain != "no" for other in earlier)
        return Finding(
            self.code, self.name, self.severity, home, _headline(run, saved, certain),
            _help(reading, run, origin, change, culprit, retained, saved),
            tuple(labels), certain,
            facts=StaleSavedTensorFacts(
                stored=origin.at.span if origin.at is not None else None,
                kind=origin.kind if origin.kind == "carried" else "in-place",
                optimizer=_optimizer_name(reading, change),
                broadcast=change.how == BROADCAST,
            ),
            notes=notes_of_failure(reading, run),
        )  # fmt: skip


def _headline(run: Run, saved: str, certain: bool) -> str:
    call, names = backward_form(run.backward)
    tensor = "`{}`" if saved else "a saved tensor"
    names = (saved, *names) if saved else names
    if certain:
        return headline(f"{tensor} was modified in place before {call}", *names)
    return headline(f"possible in-place modification of {tensor} before {call}", *names)


def _saved_name(reading: Reading, problem: Stale) -> str:
    leaf = reading.ledger.leaves.get(problem.saved.of) if problem.saved.of is not None else None
    return (leaf.name if leaf is not None else "") or problem.changed_by.name


def _optimizer_name(reading: Reading, change: InPlace) -> str | None:
    if change.optimizer is None:
        return None
    optimizer = reading.optimizers.get(change.optimizer)
    return optimizer.name if optimizer is not None else ""


def _or_sum(reading: Reading, run: Run, change: InPlace) -> str:
    """Return the advice that one step can do for both losses, where the optimizer has parameters of both."""
    optimizer = reading.optimizers.get(change.optimizer) if change.optimizer is not None else None
    behind = reading.below(run.backward.root_nodes) & reading.ledger.leaves.keys()
    if optimizer is None or not behind or not behind <= set(optimizer.params):
        return ""
    return ", add the losses for one backward and one step"


def _culprit(reading: Reading, change: InPlace) -> str:
    optimizer = _optimizer_name(reading, change)
    if optimizer is not None:
        called = next((step.call for _, step in reading.steps if step.at.span == change.at.span and step.call), "")
        if called:
            return f"`{called}()`"
        return f"`{optimizer}.step()`" if optimizer else "the optimizer's step"
    if change.how == BROADCAST:
        return "DistributedDataParallel, which broadcasts the buffers at each forward"
    if change.kind == "statement":
        # A recorded run sees that a statement changed a tensor, and not by which op.
        return f"an {change.how}"
    if change.kind == "part":
        # What torch calls it is no name that a program has.
        return "an assignment to a part of it"
    return f"`{change.how}`" if change.how else "an in-place operation"


def _help(
    reading: Reading,
    run: Run,
    origin: Origin,
    change: InPlace,
    culprit: str,
    retained: bool,
    saved: str,
) -> str:
    home, name = run.at.span, quoted(change.name or saved, "it")
    if change.how == BROADCAST:
        return (
            "wrap with `broadcast_buffers=False`, or run one forward over all that one backward needs; newer versions "
            "of torch no longer write the buffers in place"
        )
    if origin.kind == "carried":
        cutting = f", {origin.cutting}" if origin.name else ": `.detach()` what is kept for the next one"
        then = "; `retain_graph=True` keeps the graph but not the values: remove it then" if retained else ""
        return f"{origin.between(home)}{cutting}{then}"
    if change.optimizer is not None:
        return (
            f"run every backward before the step: move {culprit} ({line(change.at.span, home)}) below this "
            f"line{_or_sum(reading, run, change)}, or do the forward pass again after it"
            + ("; `retain_graph=True` keeps the graph but not the values" if retained else "")
        )
    if change.kind == "part" or (change.kind == "statement" and "[" in change.name):
        return (
            "do not write into a tensor that the graph still needs: collect the parts in a list and `torch.stack` "
            f"them, or write into a `.clone()` of {name}"
        )
    if change.how in ONLY_IN_PLACE:
        return f"make the change after the backward, or `.clone()` {name} first and change the copy"
    return (
        f"use the form that makes a new tensor instead of changing {name} in place "
        "(`x = x + 1` for `x += 1`, `torch.relu(x)` for `x.relu_()`), or make the change after the backward"
    )
