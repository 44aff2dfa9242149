"""The wording of hovers and lenses: nodes, parameters and lines of one file."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Literal

from tapecheck.lsp.outline import Outline
from tapecheck.rules.finding import Finding
from tapecheck.rules.reading import Reading, Run, iteration_in
from tapecheck.rules.words import join
from tapecheck.rules.words import line as line_of
from tapecheck.source import Source
from tapecheck.tape import CutKind, Leaf, Node, Site, Span, Tape

MAX_NAMES = 4
_MAX_TAPES = 16
_EXCERPT = 32
CUTS: dict[CutKind, str] = {
    "detach": "`.detach()`",
    "data": "`.data`",
    "no_grad": "`torch.no_grad()`",
    "item": "reading a Python number",
    "numpy": "NumPy",
    "grad": "`autograd.grad` without `create_graph=True`",
    "copy": "a copy of its value",
    "nondifferentiable": "an operation that is not differentiable",
    "zero": "an operation whose gradient is always zero",
    "leaf": "making it a leaf",
    "checkpoint": "reentrant checkpointing",
    "frozen": "switching `requires_grad` off",
}


def most_to_tell(ways: Sequence[tuple[Reading, list[Run]]]) -> tuple[Reading, list[Run]]:
    """Return what is told of a backward call: a way in which it fails, else the one in which it runs most often."""
    return max(_failing(ways) or ways, key=lambda way: len(way[1]))


def fate_of(ways: Sequence[tuple[Reading, list[Run]]]) -> Literal["fails", "may fail"] | None:
    """Return whether a backward call fails in all ways or in some; None where it does in none."""
    failing = _failing(ways)
    return None if not failing else "fails" if len(failing) == len(ways) else "may fail"


def _failing(ways: Sequence[tuple[Reading, list[Run]]]) -> list[tuple[Reading, list[Run]]]:
    return [way for way in ways if any(run.failed for run in way[1])]


class Telling:
    """One file and its tapes, which are replayed once, on first use.

    `findings` are those that the editor shows: hovers do not repeat them.
    """

    def __init__(self, source: Source, tapes: Sequence[Tape], findings: Sequence[Finding] = ()) -> None:
        self.source = source
        self.tapes = tapes
        self._reported = {(finding.code, finding.span) for finding in findings}
        self.outline = Outline(source)

    @cached_property
    def readings(self) -> list[Reading]:
        return [Reading(tape) for tape in self.tapes[:_MAX_TAPES]]

    def reported(self, span: Span, *codes: str) -> bool:
        """Return whether a finding of one of these rules stands on exactly this text."""
        return any((code, span) in self._reported for code in codes)

    # Places

    def excerpt(self, span: Span) -> str:
        """Return the source text of a span where it is of this file and short enough to be quoted."""
        if span.file != self.source.path or span.line != span.end_line:
            return ""
        if not 0 < span.line <= len(self.source.lines):
            return ""
        text = self.source.lines[span.line - 1][span.column - 1 : span.end_column - 1]
        return text if len(text) <= _EXCERPT and "`" not in text else ""

    def short_call(self, span: Span) -> str:
        """Return a call on names, with dots for arguments that would make it too long to be quoted."""
        if span.file != self.source.path or not 0 < span.line <= len(self.source.lines):
            return ""
        text = self.source.lines[span.line - 1][span.column - 1 :]
        called = re.match(r"[\w.]+(?=\()", text)
        return f"{called.group()}(…)" if called is not None and len(called.group()) <= _EXCERPT else ""

    def near(self, site: Site, home: int) -> Span | None:
        """Return the text of this file that stands for a site, within the function around line `home` if possible."""
        scope = self.outline.scopes_at(home)[0]
        spans = [span for span in (site.span, *site.stack) if span.file == self.source.path]
        near = (span for span in spans if self.outline.scopes_at(span.line)[0] == scope)
        return next(near, spans[0] if spans else None)

    def lines(self, sites: Iterable[Site], home: int) -> str:
        """Return where things were built, as seen from line `home`: lines of the function around it."""
        scope = self.outline.scopes_at(home)[0]
        own: set[int] = set()
        others: set[str] = set()
        for site in sites:
            spans = [span for span in (site.span, *site.stack) if span.file == self.source.path]
            near = [span.line for span in spans if self.outline.scopes_at(span.line)[0] == scope]
            if near:
                own.add(near[0])
            elif spans:
                own.add(spans[0].line)
            else:
                others.add(re.split(r"[/\\]", site.file)[-1])
        parts = [line_range(own)] if own else []
        parts += sorted(others)
        return join(parts)

    def call(self, span: Span) -> str:
        """Return in which call of a function something is so; the dry run starts functions without a caller itself."""
        if span.file == self.source.path and span not in self.outline.calls:
            return "where it is called from elsewhere"
        return f"in the call on {line_of(span, Span(self.source.path, 1, 1, 1, 1))}"

    # Nodes

    def saved(self, nodes: Sequence[Node]) -> str:
        keeping = [node for node in nodes if node.keeps != "no"]
        if not keeping:
            return "no node saved a tensor: it can be traversed any number of times"
        named = list(dict.fromkeys(self.op(node) for node in keeping))
        listed = ", ".join(named[:MAX_NAMES]) + (", …" if len(named) > MAX_NAMES else "")
        return f"tensors saved by {len(keeping)} of {count(len(nodes), 'node')}: {listed}"

    def op(self, node: Node) -> str:
        """Return what made a node: its source text, or the operation and its line."""
        if self.excerpt(node.at.span):
            return self.op_alone(node)
        return f"{self.op_alone(node)} ({line_of(node.at.span, Span(self.source.path, 1, 1, 1, 1))})"

    def op_alone(self, node: Node) -> str:
        """Return what made a node, for a sentence that names the line itself."""
        name = re.sub(r"Backward\d*$", "", node.op)
        name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
        return f"`{self.excerpt(node.at.span) or name}`"

    def leads_to(self, reading: Reading, roots: Sequence[int], here: Site) -> str:
        leaves = [node for node in reading.ledger.ancestry(roots) if node in reading.ledger.leaves]
        least = at_least(reading, [reading.ledger.leaves[leaf].at for leaf in leaves], here)
        return f"leads to {least}{self.leaves(reading, leaves)}" if leaves else ""

    # Leaves

    def _leaf_name(self, reading: Reading, leaf: Leaf) -> str:
        """Return a leaf's name in this file: "net.fc.weight" where its maker only knows "Linear.weight"."""
        if not leaf.parameter or leaf.id in reading.ledger.maker_names or not leaf.name[:1].isupper():
            return leaf.name
        parts = [leaf.name.partition(".")[2]]
        for span in (leaf.at.span, *leaf.at.stack):
            target = self._assigned_around(span)
            if target is None:
                if span.file == self.source.path and self.outline.is_returned(span):
                    continue
                break
            parts.append(target.removeprefix("self."))
            if not target.startswith("self."):
                break
        else:
            parts = parts if len(parts) == 1 else [*parts, "self"]
        return ".".join(filter(None, reversed(parts))) if len(parts) > 1 else leaf.name

    def _assigned_around(self, span: Span) -> str | None:
        """Return the target of the innermost assignment around a place, None where there is none."""
        around = [one for one in self.outline.assignments if one[0].file == span.file and one[0].holds(span)]
        return max(around, key=lambda one: (one[0].line, one[0].column))[1] if around else None

    def leaves(self, reading: Reading, leaves: Iterable[int]) -> str:
        """Return how many parameters, and which: by name where they are few, else by the modules they belong to."""
        events = [reading.ledger.leaves[leaf] for leaf in sorted(leaves)]
        names = Counter(name for event in events if (name := self._leaf_name(reading, event)))
        kind = "parameter" if events and all(event.parameter for event in events) else "leaf"
        if len(names) > MAX_NAMES:
            names = _by_module(names)
        listed = [f"`{name}`{f' ({number})' if number > 1 else ''}" for name, number in names.items()]
        more = ", …" if len(listed) > MAX_NAMES else ""
        return count(len(events), kind) + (f": {', '.join(listed[:MAX_NAMES])}{more}" if listed else "")


def _by_module(names: Counter[str]) -> Counter[str]:
    """Count parameters by what owns them, under the longest names that are few enough to be listed."""
    depth = max(name.count(".") for name in names)
    grouped = names
    while depth > 0 and len(grouped) > MAX_NAMES:
        grouped = Counter()
        for name, number in names.items():
            grouped[".".join(name.split(".")[:depth])] += number
        depth -= 1
    return grouped


def at_least(reading: Reading, sites: Sequence[Site], here: Site) -> str:
    """Return "at least " where some of what was built at these places comes from a loop that has ended before `here`,
    of which the dry run has gone through the first iterations alone; an empty text where all is counted.
    """
    ended = (loop for loop in reading.loops.values() if loop.end is not None and not iteration_in(here, loop))
    cut_short = [loop for loop in ended if loop.more != "no"]
    return "at least " if any(iteration_in(site, loop) for loop in cut_short for site in sites) else ""


def walked(reading: Reading, run: Run) -> list[Node]:
    """Return the nodes that a backward executes."""
    return [reading.ledger.nodes[node] for node in run.executed if node in reading.ledger.nodes]


def line_range(lines: set[int]) -> str:
    """Return the lines in which something as a whole was built: "lines 12–18"."""
    if len(lines) == 1:
        return f"line {min(lines)}"
    return f"lines {min(lines)}–{max(lines)}"


def each_line(lines: Iterable[int]) -> str:
    """Return lines of which each is meant: "lines 12, 15 and 18"."""
    one, *more = map(str, sorted(set(lines)))
    return f"line {one}" if not more else f"lines {join([one, *more])}"


def count(number: int, thing: str) -> str:
    """Return a number of things in words: "1 node", "2 leaves"."""
    if number == 1:
        return f"1 {thing}"
    return f"{number} {'leaves' if thing == 'leaf' else thing + 's'}"


def growing(counts: Sequence[int]) -> str:
    """Return the first of some numbers where they grow: "1, 2, 3, …", else nothing."""
    return ", ".join((*map(str, counts[:3]), "…")) if len(counts) >= 3 and counts[0] < counts[1] < counts[2] else ""


def iteration(site: Site) -> str:
    return f"iteration {site.iteration[-1][1]}" if site.iteration else ""


def page(head: str, details: Iterable[str]) -> str:
    """Return a hover: its first line, and the rest as a list."""
    listed = "\n".join(f"- {detail}" for detail in details if detail)
    return f"{head}\n\n{listed}" if listed else head
