"""TAPE602, unused-parameter."""

from __future__ import annotations

from collections.abc import Sequence

from tapecheck.rules.finding import Finding, Label
from tapecheck.rules.raising import at_each_place
from tapecheck.rules.reading import Reading
from tapecheck.rules.reduction import Unfinished, reductions_of, wrapped_here
from tapecheck.rules.rule import Rule
from tapecheck.rules.unused_parameter.facts import UnusedParameterFacts
from tapecheck.rules.words import MAX_LABELS, called_from, in_full, listed
from tapecheck.tape import Span, WrapperCall


class UnusedParameter(Rule):
    """A model in DistributedDataParallel has parameters that the last backward did not come to: the forward raises."""

    code = "TAPE602"
    name = "unused-parameter"
    severity = "error"
    summary = "DistributedDataParallel raises: the last backward did not come to some parameters"
    raises = True

    def judge(self, readings: Sequence[Reading]) -> list[Finding]:
        found = [
            (reading, each.call.at.span, each) for reading in readings for each in reductions_of(reading).unfinished
        ]
        walked = {span: each.run.at.span for _, span, each in found}

        def comes_to(reading: Reading, span: Span) -> bool:
            return _calls_again(reading, span) or (not reading.wrappers and reading.walks_at(walked[span]))

        return [self._finding(*each) for each in at_each_place(readings, found, comes_to)]

    def _finding(self, reading: Reading, each: Unfinished, certain: bool) -> Finding:
        at, certain = each.call.at, certain and each.wrapper.several == "yes"
        names = [reading.ledger.leaves[leaf].name or "a parameter" for leaf in each.missing]
        forms = ["DDP waits for the gradient of {} and raises", "DDP waits for {} and raises"]
        message = (
            listed(forms, names, reading.leaf_names)
            if certain
            else "possible wait of DDP for gradients of unused parameters"
        )
        labels = [
            Label(each.run.at.span, "this backward does not come to them", "path"),
            Label(each.wrapper.at.span, f"{wrapped_here(each.wrapper)} without `find_unused_parameters=True`", "built"),
            *called_from(reading, at, at),
        ]
        return Finding(
            self.code, self.name, self.severity, at.span, message,
            "use every parameter in the loss, freeze the others before wrapping, or pass `find_unused_parameters=True`",
            tuple(labels), certain,
            facts=UnusedParameterFacts(parameters=tuple(names[:MAX_LABELS]), wrapped=each.wrapper.at.span),
            notes=tuple(in_full(message, names)),
        )  # fmt: skip


def _calls_again(reading: Reading, span: Span) -> bool:
    """Return whether a path calls a wrapped model at a place more than once, or in more than one iteration."""
    calls = [event for _, event in reading.wrappers if isinstance(event, WrapperCall) and event.at.span == span]
    return reading.ended == "finished" and len(calls) > 1
