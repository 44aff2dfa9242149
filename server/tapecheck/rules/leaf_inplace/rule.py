"""TAPE104, leaf-inplace."""

from __future__ import annotations

from collections.abc import Sequence

from tapecheck.rules.finding import Finding, Label
from tapecheck.rules.reading import Reading
from tapecheck.rules.rule import Rule
from tapecheck.rules.words import called_from, headline, quoted
from tapecheck.tape import InPlace, Span


class LeafInplace(Rule):
    """A leaf that requires grad is changed in place outside no_grad."""

    code = "TAPE104"
    name = "leaf-inplace"
    severity = "error"
    recorded = True
    raises = True
    summary = "A leaf that requires grad is changed in place while autograd records"

    def judge(self, readings: Sequence[Reading]) -> list[Finding]:
        return [
            self._finding(readings, reading, change)
            for reading in readings
            for _, change in reading.changes
            if _of_leaf(change) and change.bumps != "no"
        ]

    def _finding(self, readings: Sequence[Reading], reading: Reading, change: InPlace) -> Finding:
        home = change.at.span
        leaf = reading.ledger.leaves.get(change.leaf) if change.leaf is not None else None
        name = (leaf.name if leaf is not None else "") or change.name
        certain = change.bumps == "yes" and _always_of_leaf(readings, home)
        on_view = change.on_view and (leaf is None or change.name != leaf.name)
        labels = []
        if leaf is not None and leaf.at.span != home:
            what = "parameter" if leaf.parameter else "leaf that requires grad"
            labels.append(Label(leaf.at.span, f"{quoted(name, 'it')} is created here, a {what}", "built"))
        labels += called_from(reading, change.at, change.at)
        if change.optimizer is not None and (made := reading.optimizers.get(change.optimizer)) is not None:
            labels.append(Label(made.at.span, "this optimizer is made with `differentiable=True`", "built"))
        return Finding(
            self.code, self.name, self.severity, home, _headline(name, on_view, certain),
            _help(change, name), tuple(labels), certain,
        )  # fmt: skip


def _help(change: InPlace, name: str) -> str:
    if change.optimizer is None:
        return (
            "put the change under `with torch.no_grad():`, or make a new tensor instead of changing "
            f"{quoted(name, 'the leaf')}"
        )
    return (
        "leave out `differentiable=True`, or give the optimizer copies with a graph (`w.clone()`): it records its own "
        "step, under `torch.no_grad()` as well"
    )


def _always_of_leaf(readings: Sequence[Reading], place: Span) -> bool:
    """Return whether each way that changes something at a place changes such a leaf there."""
    here = [[change for _, change in reading.changes if change.at.span == place] for reading in readings]
    return all(any(map(_of_leaf, changes)) for changes in here if changes)


def _of_leaf(change: InPlace) -> bool:
    """Return whether a change is one of a leaf that requires grad, while autograd records."""
    return change.leaf is not None and change.grad_mode == "yes"


def _headline(name: str, on_view: bool, certain: bool) -> str:
    update = "in-place update" if certain else "possible in-place update"
    if not name:
        return f"{update} of a {'view of a ' if on_view else ''}leaf outside `torch.no_grad()`"
    if on_view:
        forms = [update + " of a view of leaf `{}` outside `torch.no_grad()`"]
        return headline([*forms, update + " of a view of `{}` outside `torch.no_grad()`"], name)
    forms = [update + " of leaf `{}` outside `torch.no_grad()`", update + " of `{}` outside `torch.no_grad()`"]
    return headline(forms, name)
