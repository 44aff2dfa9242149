"""TAPE408, update-without-effect."""

from __future__ import annotations

from collections.abc import Sequence

from tapecheck.rules.finding import Finding
from tapecheck.rules.gradients import name_of
from tapecheck.rules.raising import at_each_place
from tapecheck.rules.reading import Reading
from tapecheck.rules.rule import Rule
from tapecheck.rules.update_without_effect.facts import UpdateWithoutEffectFacts
from tapecheck.rules.words import called_from, headline, possible
from tapecheck.tape import NoEffect, Span

_HEADLINES = {
    "dropped": ["`{}()` changes nothing: its result is not used", "`{}()`: its result is not used"],
    "renamed": [
        "`{}` gets a new tensor here: the one before keeps its value",
        "`{}` gets a new tensor here",
    ],
    "uncalled": ["`{}` is not called: the parentheses are missing", "`{}` is not called"],
}


class UpdateWithoutEffect(Rule):
    """An operation that was to change a parameter or a gradient makes a new tensor, and nothing uses it."""

    code = "TAPE408"
    name = "update-without-effect"
    severity = "warning"
    stands_alone = True
    needs = frozenset(("context",))
    summary = "What was to change a parameter or a gradient makes a new tensor, and nothing uses it"

    def judge(self, readings: Sequence[Reading]) -> list[Finding]:
        if not any(reading.runs or reading.steps for reading in readings):
            # A program that trains nothing may measure how long an operation takes.
            return []
        events = [(reading, event) for reading in readings for _, event in reading.without_effect]
        # What is timed somewhere is run before that, too, to warm up.
        timed = {event.text for _, event in events if event.timed}
        found = [(reading, event.at.span, event) for reading, event in events if event.text not in timed]
        return [self._finding(*each) for each in at_each_place(readings, found, _comes_to)]

    def _finding(self, reading: Reading, event: NoEffect, certain: bool) -> Finding:
        said = headline(_HEADLINES[event.how], event.text)
        kept = name_of(reading, event.leaf) if event.leaf is not None else ""
        of = f"the gradient of `{kept}`" if event.of == "gradient" else f"`{kept}`"
        notes = (f"{of} is as it was before this line",) if kept and kept != event.text else ()
        return Finding(
            self.code, self.name, self.severity, event.at.span, said if certain else possible(said), _help(event),
            tuple(called_from(reading, event.at, event.at)), certain,
            facts=UpdateWithoutEffectFacts(how=event.how, text=event.text, of=event.of),
            notes=notes,
        )  # fmt: skip


def _comes_to(reading: Reading, place: Span) -> bool:
    """Return whether a way comes to a place at which another one has no effect."""
    return (place.file, place.line) in reading.lines


def _help(event: NoEffect) -> str:
    owner, _, method = event.text.rpartition(".")
    if event.how == "uncalled":
        return f"call it: `{event.text}()`"
    if event.how == "renamed":
        return f"change `{event.text}` in place under `torch.no_grad()`: with `-=`, or `{event.text}.copy_(...)`"
    if method == "detach" and event.of == "leaf":
        return f"to train it no longer, switch it off: `{owner}.requires_grad_(False)`"
    if method == "detach" and event.of == "result":
        return f"keep what it returns: `{owner} = {event.text}()`"
    return f"change `{owner}` in place, `{event.text}_()`, or use what it returns"
