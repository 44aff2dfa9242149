"""What only the run shows of gradients that are still multiplied by a GradScaler's scale (TAPE501)."""

from __future__ import annotations

from collections.abc import Iterator

from tapecheck.record.story import Story
from tapecheck.record.words import times
from tapecheck.rules import Evidence, Finding
from tapecheck.rules.scaled_gradient_read.rule import ScaledGradientRead
from tapecheck.tape import Span


def scaled(story: Story) -> Iterator[Finding]:
    """Yield the lines that step with scaled gradients, each time, or limit their size."""
    seen: dict[tuple[bool, Span], list[float]] = {}
    for stepped, at, scale in story.gradients.scaled:
        seen.setdefault((stepped, at.span), []).append(scale)
    rule = ScaledGradientRead
    for (stepped, place), scales in seen.items():
        had = f"a scale of {max(scales):,.0f}"
        if stepped:
            message = "possible step of scaled gradients"
            remedy = "call `scaler.step(optimizer)` in its place: it unscales them, and skips a step of infinite ones"
            detail = f"gradients with {had}, which nothing had changed since their backward, {times(len(scales))}"
            notes: tuple[str, ...] = ("assumes that the learning rate does not make up for the scale",)
        else:
            message = "gradients are still scaled when they are clipped (missing `unscale_`)"
            remedy = "call `scaler.unscale_(optimizer)` before this, once a step"
            detail = f"this line left gradients that had {had} at one size each time, whatever theirs was before"
            notes = ()
        yield Finding(
            rule.code, rule.name, rule.severity, place, message, remedy, certain=not stepped,
            evidence=Evidence("found-by-run", detail, None, {"scale": max(scales)}), notes=notes,
        )  # fmt: skip
