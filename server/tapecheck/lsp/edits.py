"""What was said of a text, in the text that edits have made of it."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Callable, Container, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tapecheck.rules.facts import Facts
from tapecheck.rules.finding import Finding
from tapecheck.source import Source, split_lines
from tapecheck.tape import Called, Span

if TYPE_CHECKING:
    from tapecheck.check import Report


def line_map(old: str, new: str) -> Callable[[int], int | None]:
    """Return where lines of an old text are now; None for those that were edited."""
    before, after = split_lines(old), split_lines(new)
    if before == after:
        return lambda line: line
    head = 0
    while head < min(len(before), len(after)) and before[head] == after[head]:
        head += 1
    tail = 0
    while tail < min(len(before), len(after)) - head and before[-1 - tail] == after[-1 - tail]:
        tail += 1
    # Most edits are in one place; only what lies between the first and the last one is compared line by line.
    places = {line: line for line in range(1, head + 1)}
    shift = len(after) - len(before)
    places |= {line: line + shift for line in range(len(before) - tail + 1, len(before) + 1)}
    matcher = difflib.SequenceMatcher(
        None, before[head : len(before) - tail], after[head : len(after) - tail], autojunk=False
    )
    for block in matcher.get_matching_blocks():
        for number in range(1, block.size + 1):
            places[head + block.a + number] = head + block.b + number
    return places.get


def _moved(span: Span, path: str, moved: Callable[[int], int | None]) -> Span | None:
    """Return a place where its line in a file is now, None where that is gone."""
    if span.file != path:
        return span
    line = moved(span.line)
    return None if line is None else dataclasses.replace(span, line=line, end_line=span.end_line + line - span.line)


def moved_with(finding: Finding, moved: Callable[[int], int | None]) -> Finding:
    """Return a finding where its lines are now, without labels on lines that are gone; facts hold spans of the old
    text, so they are left out.
    """

    def place(span: Span) -> Span | None:
        return _moved(span, finding.span.file, moved)

    own = place(finding.span)
    if own == finding.span and all(place(label.span) == label.span for label in finding.labels):
        return finding
    labels = [(label, place(label.span)) for label in finding.labels]
    kept = tuple(dataclasses.replace(label, span=span) for label, span in labels if span is not None)
    return dataclasses.replace(finding, span=own or finding.span, labels=kept, facts=Facts())


@dataclass(slots=True)
class Before:
    """What was found in a text that parses, while one that does not is edited."""

    report: Report
    last: Report
    """What was found in the text as it was last."""
    answered: set[tuple[str, int]] = field(default_factory=set)
    """The findings, by code and line, that an edit of what does parse has done away with."""

    def edited(self, now: Report) -> None:
        """Note a further edit; one of lines that do not parse answers nothing yet."""
        if not _is_typing(self.last.source, now.source):
            was, found = _places(self.last), _places(now)
            then, here = (line_map(self.report.source.text, one.source.text) for one in (self.last, now))
            for one in self.report.findings:
                line = one.span.line
                if (one.code, then(line)) in was and (one.code, here(line)) not in found:
                    self.answered.add((one.code, line))
        self.last = now


def _places(report: Report) -> set[tuple[str, int | None]]:
    return {(one.code, one.span.line) for one in report.findings}


def _is_typing(old: Source, new: Source) -> bool:
    """Whether a text differs from the one before it in nothing but lines that do not parse, or do no longer."""
    moved = line_map(old.text, new.text)
    stay = {line: moved(line) for line in range(1, len(old.lines) + 1)}
    gone = {line for line, place in stay.items() if place is None}
    made = set(range(1, len(new.lines) + 1)) - set(stay.values())
    return made <= new.blanked and len(gone - old.blanked) <= len(made)


def still_there(known_before: Before, now: Report, but: Container[Hashable] = ()) -> Iterator[Finding]:
    """Yield what was found in a text that parses and is not found in one that does not, on lines that nobody edited,
    less those with some keys.

    Whether a half-typed statement is an answer to it shows once it parses; until then nothing flickers.
    """
    before = known_before.report
    path, known = now.source.path, {(one.code, one.span.line) for one in now.findings}
    moved = line_map(before.source.text, now.source.text)
    for finding in before.findings:
        if finding.key in but or (finding.code, finding.span.line) in known_before.answered:
            continue
        # A label may span a loop, which is the same one while its body is typed.
        spans = [label.span for label in finding.labels if label.span.file == path]
        first, last = finding.span.line, finding.span.end_line
        start = moved(first)
        stays = start is not None and all(moved(line) == start + line - first for line in range(first, last + 1))
        stays = stays and all(moved(span.line) is not None for span in spans)
        if stays and (finding.code, start) not in known:
            yield moved_with(finding, moved)


def moved_calls(calls: Iterable[Called], path: str, old: str | None, new: str) -> Iterator[Called]:
    """Yield calls of functions in a file that had one text, where they are in another one."""
    if old == new:
        yield from calls
    elif old is not None:
        moved = line_map(old, new)
        # Where the function itself is now must be known.
        there = (call for call in calls if _moved(call.function, path, moved) is not None)
        yield from (call.moved(lambda span: _moved(span, path, moved) or span) for call in there)
