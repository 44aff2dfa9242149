"""TAPE603, compiled-backward-twice."""

from __future__ import annotations

from collections.abc import Sequence

from tapecheck.rules.finding import Finding, Label
from tapecheck.rules.path import always, path_labels
from tapecheck.rules.raising import failing
from tapecheck.rules.reading import Reading, Run
from tapecheck.rules.refusal import notes_of_failure
from tapecheck.rules.rule import Rule
from tapecheck.rules.words import called_from, headline
from tapecheck.tape import FreedRegion


class CompiledBackwardTwice(Rule):
    """Each of two backwards walks a part of one compiled graph, which the first one frees as a whole."""

    code = "TAPE603"
    name = "compiled-backward-twice"
    severity = "error"
    summary = "Two backwards share one call of a compiled function: the first frees all of its graph"
    raises = True

    def judge(self, readings: Sequence[Reading]) -> list[Finding]:
        return [self._finding(readings, *found) for found in failing(readings, FreedRegion)]

    def _finding(self, readings: Sequence[Reading], reading: Reading, run: Run, problem: FreedRegion) -> Finding:
        certain = always(readings, reading, run)
        region, first = reading.ledger.regions[problem.node.id], reading.run_of[problem.freed_by.id]
        named = reading.name(problem.node.id, run.position)
        of = " of `{}`" if named is not None and named[0] else ""
        form = f"second backward through the compiled call{of}, freed whole"
        names = [named[0]] if named is not None and of else []
        labels = [Label(region.call.at.span, "compiled as one graph: all outputs share it", "built")]
        if first.at.span != run.at.span:
            labels.append(Label(first.at.span, "this backward frees all of it", "freed"))
        labels += called_from(reading, run.at, run.at)
        labels += path_labels(readings, reading, run)
        return Finding(
            self.code, self.name, self.severity, run.at.span,
            headline(form if certain else f"possible {form}", *names),
            "add the losses and call backward once, or compile the parts that are trained apart by themselves",
            tuple(labels), certain, notes=notes_of_failure(reading, run),
        )  # fmt: skip
