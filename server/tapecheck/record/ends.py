"""How a run ended and what it raised, in words."""

from __future__ import annotations

import textwrap

from tapecheck.record.story import Story
from tapecheck.rules.words import line
from tapecheck.tape import Node, Raised, Span

_LONGEST = 240


def _built_text(node: Node, loop: int | None, index: int | None, home: Span) -> str:
    """Return where a node was built, and in which iteration of a loop where that is another one than `index`."""
    text = f"; `{node.op}` was built on {line(node.at.span, home)}"
    built = dict(node.at.iteration).get(loop) if loop is not None else None
    return text if built is None or built == index else f"{text} in iteration {built}"


def raised_text(story: Story, raised: Raised) -> str:
    failed = story.problem_of(raised)
    problem = failed.problem if failed is not None else None
    node = story.failing_node(raised, failed)
    loop, home = story.loop_of(raised), raised.at.span
    index = raised_in(story, raised)
    within = story.reading.loops.get(loop) if loop is not None and not story.trains_innermost(raised) else None
    text = (
        "raised"
        + (f" in iteration {index}" if index is not None else "")
        + (f" of the loop on {line(within.event.at.span, home)}" if within is not None else "")
        + (" and caught" if raised.caught and not raised.left else "")
    )
    text += f": {short(raised.message)}{_built_text(node, loop, index, home) if node is not None else ''}"
    if problem is not None and problem.freed_by is not None:
        text += f" and freed by the call on {line(problem.freed_by.at.span, home)}"
    if problem is not None and problem.changed_by is not None:
        text += f"; what it saved was changed on {line(problem.changed_by.at.span, home)}"
    return text


def raised_measure(raised: Raised) -> dict[str, object]:
    return {"exception": raised.exception, "message": raised.message, "caught": raised.caught}


def short(message: str) -> str:
    first = message.split("\n")[0]
    end = first.find(" (or directly access")
    if end < 0:
        end = first.find(". ")
    if 0 < end <= _LONGEST:
        return first[:end]
    return first if len(first) <= _LONGEST else textwrap.shorten(first, _LONGEST, placeholder=" ...")


def raised_in(story: Story, raised: Raised) -> int | None:
    """Return the iteration of the loop that trains in which an exception was raised, else that of the innermost one."""
    loop = story.loop_of(raised)
    return dict(raised.at.iteration)[loop] if loop is not None else None


def end_text(story: Story) -> str:
    if story.end.how == "finished":
        return "the program ran to its end"
    return short(story.end.detail) if story.end.detail else "the run was stopped"
