"""Whether what a holder keeps is there for a constant that is used later, and let go with it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tapecheck.record.places import holder_of, loop_of
from tapecheck.record.probe.holds import next_sample
from tapecheck.record.story import Story
from tapecheck.record.words import last_name
from tapecheck.rules import Finding
from tapecheck.rules.reading import LoopRun
from tapecheck.source.nodes import Part, attr_of, id_of, last_line, of_kind, walk
from tapecheck.tape import Hold, LoopEnd

_MIN_LATER = 2
"""In so many sampled iterations of a later loop what is kept must have been there: the first one may let it go."""
_MIN_AROUND = 3
"""The same of a loop around the one that keeps: a window of two iterations is no leak."""


def is_for_a_constant(story: Story, finding: Finding) -> bool:
    """Return whether the file detaches what the holder keeps, and does not do so in a loop over which it keeps it on.

    A run does not see a value used as a constant: it is kept for that, as long as somebody lets it go or needs it no
    more. Where each iteration of a later loop detaches what is there to its end, the graph was kept for nothing.
    """
    name = last_name(holder_of(finding))
    nodes = _nodes(story, finding.span.file, ast.Attribute)
    cuts = [
        node
        for node in nodes
        if node.attr in ("detach", "data") and any(name in (id_of(part), attr_of(part)) for part in walk(node.value))
    ]
    return bool(name and cuts) and not _kept_on(story, finding, [node.lineno for node in cuts])


def _nodes(story: Story, file: str, kind: type[Part]) -> list[Part]:
    tree = story.files.tree(file)
    return of_kind(tree, kind) if isinstance(tree, ast.Module) else []


def _kept_on(story: Story, finding: Finding, cuts: list[int]) -> bool:
    """Return whether what a loop has kept is still there at the end of a loop around it, or of the last one behind,
    in which lines of its file detach it.
    """
    loop = loop_of(finding)
    if loop is None:
        return False
    for held in story.reading.held:
        if held.holder == holder_of(finding) and story.is_loop(held.loop.event.id, loop):
            nodes = set().union(*held.nodes.values())
            for other, least in _outlived(story, held.loop):
                if _detaches(story, other, finding.span.file, cuts) and _holds_to_its_end(story, other, nodes, least):
                    return True
    return False


def _detaches(story: Story, loop: LoopRun, file: str, cuts: list[int]) -> bool:
    """Return whether one of some lines of a file stands in a loop, or in one that ran within it."""
    for one in story.reading.loops.values():
        at = one.event.at
        if one is loop or loop.event.id in dict(at.iteration):
            bodies = (node for kind in (ast.For, ast.While) for node in _nodes(story, at.file, kind))
            ends = [last_line(node) for node in bodies if node.lineno == at.line]
            if story.file(at.file) == story.file(file) and any(at.line < cut <= end for cut in cuts for end in ends):
                return True
    return False


def _outlived(story: Story, loop: LoopRun) -> Iterator[tuple[LoopRun, int]]:
    """Yield the loops that may show that what a run of a loop keeps outlives it, each with how many looks must."""
    loops = story.reading.loops
    around = [loops[number] for number, _ in loop.event.at.iteration if number in loops]
    yield from ((one, _MIN_AROUND) for one in around)
    end = (around[0] if around else loop).end
    later = [one for one in loops.values() if not one.event.at.iteration and one.iterations >= _MIN_LATER]
    last = max(later, key=lambda one: one.start, default=None)
    if last is not None and end is not None and last.start >= end:
        yield last, _MIN_LATER


def _holds_to_its_end(story: Story, loop: LoopRun, nodes: set[int], least: int) -> bool:
    """Return whether some of these nodes were kept at the last looks at a run of a loop, as many as it takes."""
    seen: set[int] = set()
    ran = loop.iterations
    for event in story.tape.events:
        if isinstance(event, Hold) and event.loop == loop.event.id and not nodes.isdisjoint(event.nodes):
            seen.add(event.index)
        elif isinstance(event, LoopEnd) and event.loop == loop.event.id:
            # Not all of its iterations are on the tape.
            ran = max(ran, event.iterations)
    return len(seen) >= least and next_sample(max(seen)) > ran
