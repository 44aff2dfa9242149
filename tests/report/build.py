"""Findings made by hand, so that the renderers are tested apart from everything that finds."""

from __future__ import annotations

from tapecheck.fixes import Edit, Fix
from tapecheck.rules.finding import Evidence, Finding, Label
from tapecheck.tape import Span

GAN = """\
import torch
from nets import critic

for step in range(100):
    fake = generator(noise)
    score = critic(fake)
    d_loss = score.mean()
    d_loss.backward()

    d_opt.step()
    g_loss = -score.mean()
    g_loss.backward()
    g_opt.step()
"""


def span(line: int, column: int, end_column: int, *, end_line: int | None = None, file: str = "gan.py") -> Span:
    return Span(file, line, column, end_line or line, end_column)


def backward_twice(**changes: object) -> Finding:
    values: dict[str, object] = {
        "code": "TAPE101",
        "name": "backward-twice",
        "severity": "error",
        "span": span(12, 5, 22),
        "message": "this backward reaches nodes that an earlier backward freed",
        "help": "add the losses and call backward once",
        "labels": (
            Label(span(6, 13, 25), "the graph was built here", "built"),
            Label(span(8, 5, 22), "and freed here", "freed"),
        ),
    }
    return Finding(**{**values, **changes})  # type: ignore[arg-type]


def confirmed() -> Evidence:
    return Evidence("confirmed", "RuntimeError at iteration 1", 1, {"seconds": 0.25})


def detach() -> Fix:
    return Fix(
        "Detach `fake` for the critic's loss",
        "unsafe",
        (Edit(span(6, 24, 24), ".detach()"),),
        "the generator gets no gradient from `d_loss`",
    )


def once() -> Fix:
    edits = (Edit(span(8, 1, 1, end_line=9), ""), Edit(span(12, 5, 11), "(d_loss + g_loss)"))
    return Fix("Call backward once on the sum", "unsafe", edits, "both networks learn from both losses")
