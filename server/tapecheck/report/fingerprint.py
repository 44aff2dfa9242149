"""What makes a finding the same one after the lines around it have moved."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from tapecheck.report.checked import Checked
from tapecheck.report.excerpt import Sources
from tapecheck.report.places import Places
from tapecheck.tape import Span

_SCOPE = re.compile(r"(\s*)(?:async\s+)?(?:def|class)\s+(\w+)")


@dataclass(frozen=True, slots=True, order=True)
class Identity:
    """A finding without its line: the rule, the file, the function or class around it, the text it underlines."""

    file: str
    code: str
    scope: str
    text: str

    def digest(self, occurrence: int = 1) -> str:
        """Return a hash of it; `occurrence` tells equal ones of a file apart."""
        parts = "\0".join((self.code, self.file, self.scope, self.text, str(occurrence)))
        return hashlib.sha256(parts.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def identity(code: str, span: Span, sources: Sources, places: Places) -> Identity:
    """Return the identity of what is reported under `code` at `span`."""
    lines = sources.lines(span.file)
    inside = lines[span.line - 1 : max(span.line, span.end_line)] if span.line > 0 else []
    # Blanks do not count: a formatter may change them.
    text = " ".join(" ".join(inside).split())
    return Identity(places.of(span).path, code, _scope(lines, span.line), text)


class Fingerprints:
    """Hands out hashes for findings in the order of the report, each another one."""

    def __init__(self, sources: Sources, places: Places) -> None:
        self._sources = sources
        self._places = places
        self._seen: Counter[Identity] = Counter()

    def of(self, code: str, span: Span) -> str:
        """Return the hash of what is reported under `code` at `span`."""
        found = identity(code, span, self._sources, self._places)
        self._seen[found] += 1
        return found.digest(self._seen[found])


def known_texts(files: Iterable[Checked], sources: Sources) -> None:
    """Make the lines of cells of notebooks known to `sources`."""
    for file in files:
        sources.texts.update(file.texts)


def _scope(lines: list[str], line: int) -> str:
    """Return the dotted name of the functions and classes around a line, as indentation has it."""
    if not 0 < line <= len(lines):
        return ""
    names: list[str] = []
    indent = _indent(lines[line - 1])
    for text in reversed(lines[: line - 1]):
        if indent == 0:
            break
        if not text.strip() or _indent(text) >= indent:
            continue
        found = _SCOPE.match(text)
        if found is not None:
            names.append(found[2])
        indent = _indent(text)
    return ".".join(reversed(names))


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
