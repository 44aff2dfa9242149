"""TAPE611, donated-buffers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tapecheck.rules.compiled_double_backward.rule import doubles
from tapecheck.rules.finding import Finding, Label
from tapecheck.rules.path import path_labels
from tapecheck.rules.raising import at_each_place
from tapecheck.rules.reading import Reading, Run
from tapecheck.rules.refusal import refusing
from tapecheck.rules.rule import Rule
from tapecheck.rules.words import called_from, headline, swallowed
from tapecheck.tape import Donated

_ANEW = (
    "assumes that the second call is not compiled anew: for another dtype, layout or number, other settings, or after "
    "a reset"
)
_RESIZED = (
    "assumes that the call is compiled for any size, which compiles its backward at once: it was given inputs of other "
    "sizes or layouts before"
)
_CACHED = (
    "an earlier run may have left a backward on the disk that was compiled to retain its graph: then this one runs"
)


class DonatedBuffers(Rule):
    """A backward retains the graph of a compiled call whose backward was compiled for a walk that frees it."""

    code = "TAPE611"
    name = "donated-buffers"
    severity = "error"
    summary = "A compiled backward is to retain its graph, but reuses the memory of what the forward saved"
    raises = True

    def judge(self, readings: Sequence[Reading]) -> list[Finding]:
        found = [(reading, run.at.span, (run, why)) for reading in readings for run, why in _refused(reading)]
        return [
            self._finding(readings, reading, run, why, certain and why.certain == "yes")
            for reading, (run, why), certain in at_each_place(readings, found, Reading.walks_at)
        ]

    def _finding(self, readings: Sequence[Reading], reading: Reading, run: Run, why: Donated, certain: bool) -> Finding:
        call = reading.ledger.regions[why.node.id].call
        create = run.backward.create == "yes"
        form = f"`{'create' if create else 'retain'}_graph` through a compiled backward with donated buffers"
        labels = [
            Label(call.at.span, "this call is compiled", "built"),
            *_compiled_for(reading, why),
            *called_from(reading, run.at, run.at),
            *path_labels(readings, reading, run),
        ]
        retained = "retain the graph in the first backward of all as well, " if why.freed_by is not None else ""
        help_ = (
            "take this gradient through the model before it is compiled: torch.compile has no double backward"
            if create
            else f"{retained}add the losses and call backward once, or set "
            "`torch._functorch.config.donated_buffer = False` before anything is compiled"
        )
        return Finding(
            self.code, self.name, self.severity, run.at.span, headline(form if certain else f"possible {form}"), help_,
            tuple(label for label in labels if label.span != run.at.span), certain,
            notes=_notes(reading, run, why),
        )  # fmt: skip


def _compiled_for(reading: Reading, why: Donated) -> Iterator[Label]:
    if why.freed_by is not None:
        compiled = reading.run_of[why.freed_by.id]
        yield Label(compiled.at.span, "its backward is compiled here, where nothing retains the graph", "freed")


def _notes(reading: Reading, run: Run, why: Donated) -> tuple[str, ...]:
    if why.freed_by is None:
        return (_RESIZED,)
    if why.certain != "yes":
        return (_ANEW if why.anew else _CACHED,)
    return swallowed(reading, run)


def _refused(reading: Reading) -> Iterator[tuple[Run, Donated]]:
    """Yield the backwards that a compiled backward refuses, if no earlier run has left another one."""
    told = {id(double.first) for double in doubles(reading)}
    for run in reading.runs:
        why = run.problem
        if not isinstance(why, Donated) or id(run) in told:
            continue
        if refusing(reading, run, why):
            yield run, why
