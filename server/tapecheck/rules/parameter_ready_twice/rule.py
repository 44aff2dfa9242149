"""TAPE605, parameter-ready-twice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tapecheck.rules.finding import Finding, Label
from tapecheck.rules.parameter_ready_twice.facts import ParameterReadyTwiceFacts
from tapecheck.rules.raising import at_each_place
from tapecheck.rules.reading import Reading
from tapecheck.rules.reduction import Again, Twice, reductions_of, wrapped_here
from tapecheck.rules.rule import Rule
from tapecheck.rules.words import MAX_LABELS, called_from, in_full, listed

_HELP: dict[Again, str] = {
    "again": "add the losses and call backward once, or run a forward of the wrapped model before each backward",
    "checkpoint": "pass `use_reentrant=False` to the checkpoint",
    "unused": "let the outputs of one forward lead to all that the loss uses, or do not look for unused parameters",
}


class ParameterReadyTwice(Rule):
    """A backward adds to gradients that DistributedDataParallel has counted, while it waits for others: it raises."""

    code = "TAPE605"
    name = "parameter-ready-twice"
    severity = "error"
    summary = "DistributedDataParallel raises: a parameter gets a second gradient while others are waited for"
    raises = True

    def judge(self, readings: Sequence[Reading]) -> list[Finding]:
        found = [(reading, each.run.at.span, each) for reading in readings for each in reductions_of(reading).twice]
        return [self._finding(*each) for each in at_each_place(readings, found, Reading.walks_at)]

    def _finding(self, reading: Reading, each: Twice, certain: bool) -> Finding:
        at, certain = each.run.at, certain and each.wrapper.several == "yes"
        names = [reading.ledger.leaves[leaf].name or "a parameter" for leaf in each.leaves]
        forms = ["DDP marks {} as ready twice and raises", "DDP has {} ready twice and raises"]
        message = (
            listed(forms, names, reading.leaf_names)
            if certain
            else "possible second gradient of a parameter that DDP waits for"
        )
        return Finding(
            self.code, self.name, self.severity, at.span, message, _HELP[each.cause],
            (*_labels(each), *called_from(reading, at, at)), certain,
            facts=ParameterReadyTwiceFacts(
                parameters=tuple(names[:MAX_LABELS]), cause=each.cause,
                checkpoints=tuple(dict.fromkeys(node.at.span for node in each.checkpoints)),
            ),
            notes=tuple(in_full(message, names, "ready twice")),
        )  # fmt: skip


def _labels(each: Twice) -> Iterator[Label]:
    for span in list(dict.fromkeys(node.at.span for node in each.checkpoints))[:MAX_LABELS]:
        yield Label(span, "this reentrant checkpoint runs a backward of its own", "path")
    if each.earlier is not None and each.earlier.at.span != each.run.at.span:
        yield Label(each.earlier.at.span, "this backward came to them, and not to all parameters", "path")
    looks = each.cause == "unused"
    yield Label(each.wrapper.at.span, wrapped_here(each.wrapper) + ", to look for unused parameters" * looks, "built")
