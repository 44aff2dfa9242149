"""What was said of a text, in the text that edits have made of it."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from tapecheck.rules.facts import Facts
from tapecheck.rules.finding import Finding
from tapecheck.source import split_lines
from tapecheck.tape import Span

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


def moved_with(finding: Finding, moved: Callable[[int], int | None]) -> Finding:
    """Return a finding where its lines are now, without labels on lines that are gone; facts hold spans of the old
    text, so they are left out.
    """

    def place(span: Span) -> Span | None:
        if span.file != finding.span.file:
            return span
        line = moved(span.line)
        if line is None:
            return None
        return dataclasses.replace(span, line=line, end_line=span.end_line + line - span.line)

    own = place(finding.span)
    if own == finding.span and all(place(label.span) == label.span for label in finding.labels):
        return finding
    labels = [(label, place(label.span)) for label in finding.labels]
    kept = tuple(dataclasses.replace(label, span=span) for label, span in labels if span is not None)
    return dataclasses.replace(finding, span=own or finding.span, labels=kept, facts=Facts())


def still_there(before: Report, now: Report) -> Iterator[Finding]:
    """Yield what was found in a text that parses and is not found in one that does not, on lines that nobody edited.

    Whether a half-typed statement is an answer to it shows once it parses; until then nothing flickers.
    """
    path, known = now.source.path, {(one.code, one.span.line) for one in now.findings}
    moved = line_map(before.source.text, now.source.text)
    for finding in before.findings:
        # A label may span a loop, which is the same one while its body is typed.
        spans = [label.span for label in finding.labels if label.span.file == path]
        first, last = finding.span.line, finding.span.end_line
        start = moved(first)
        stays = start is not None and all(moved(line) == start + line - first for line in range(first, last + 1))
        stays = stays and all(moved(span.line) is not None for span in spans)
        if stays and (finding.code, start) not in known:
            yield moved_with(finding, moved)
