"""TAPE610, overwritten-output."""

from __future__ import annotations

from collections.abc import Sequence

from tapecheck.rules.finding import Finding, Label
from tapecheck.rules.reading import Reading
from tapecheck.rules.rule import Rule
from tapecheck.rules.words import called_from, headline
from tapecheck.tape import Overwritten, Span


class OverwrittenOutput(Rule):
    """What a call in CUDA graphs returned, or a gradient of it, is read after a later call has taken its memory.

    Whether a call runs in CUDA graphs hangs on the machine: it is never certain.
    """

    code = "TAPE610"
    name = "overwritten-output"
    severity = "error"
    summary = "An output or gradient of a call in CUDA graphs is used after a later call has overwritten it"
    raises = True

    def judge(self, readings: Sequence[Reading]) -> list[Finding]:
        findings: dict[Span, Finding] = {}
        for reading in readings:
            for _, event in reading.overwritten:
                if event.at.span not in findings:
                    findings[event.at.span] = self._finding(reading, event)
        return list(findings.values())

    def _finding(self, reading: Reading, event: Overwritten) -> Finding:
        at, gradient = event.at, event.how == "gradient"
        names = [event.name] if event.name else []
        if gradient:
            of = " of `{}`" if names else "s"
            form = f"possible sum with a gradient{of} that CUDA graphs overwrote"
            left = "this backward leaves it in the memory of CUDA graphs"
            help_ = (
                "call `torch.compiler.cudagraph_mark_step_begin()` once before the backwards that are added up, or "
                "compile without CUDA graphs"
            )
        else:
            form = f"possible read of {'`{}`' if names else 'an output'} that CUDA graphs overwrote"
            left = "this call leaves it in the memory of CUDA graphs"
            help_ = "clone what is kept, outside of the compiled call, or compile without CUDA graphs"
        labels = [Label(event.call.span, left, "built")]
        if event.by.span != event.call.span:
            labels.append(Label(event.by.span, "this call takes that memory", "path"))
        labels += called_from(reading, at, at)
        return Finding(
            self.code, self.name, self.severity, at.span, headline(form, *names), help_,
            tuple(label for label in labels if label.span != at.span), False,
        )  # fmt: skip
