"""The graphs that backward calls walk, as one SVG picture: nodes by source line, in the order of the program.

A box stands for what one line built. It says what happens to the saved tensors of its nodes: freed by this call, kept
(`retain_graph=True`), walked again, or needed after they were freed or changed, which is drawn in red.
"""

from __future__ import annotations

import textwrap
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from xml.sax.saxutils import escape

from tapecheck.report.drawn import Call, Data, Group, Shape
from tapecheck.report.excerpt import printable, width
from tapecheck.report.html import Run, data_of
from tapecheck.report.sizes import bytes_text
from tapecheck.rules import Reading
from tapecheck.tape import LoopEnd, Tape

_BOX, _HIGH, _GAP, _LAYER, _EDGE, _HEAD = 340, 62, 28, 46, 24, 58
_LETTERS = 43
"""How many characters of code fit into a box."""
_MOST_CALLS = 60
_STATES = {
    "": "saves nothing",
    "freed": "freed by this call",
    "kept": "kept: retain_graph=True",
    "reused": "walked before",
    "gone": "already freed: this call raises",
    "stale": "changed in place: this call raises",
}
_COLOURS = {
    "none": ("#f6f8fa", "#8c959f"),
    "freed": ("#ddf4ff", "#0969da"),
    "kept": ("#dafbe1", "#1a7f37"),
    "reused": ("#fff8c5", "#9a6700"),
    "gone": ("#ffebe9", "#cf222e"),
    "stale": ("#ffebe9", "#cf222e"),
}
"""Fill and stroke of boxes by state; a page that the picture stands in may set other colours for both."""


def _colour(what: str, name: str, colour: str) -> str:
    """Return a declaration; what does not know variables takes the colour, a page may set the variable."""
    return f"{what}:{colour};{what}:var(--tc-{name},{colour})"


_TEXT, _DIM, _RED = ("text", "#1f2328"), ("dim", "#59636e"), ("gone", "#cf222e")
_STYLE = (
    f"text{{font:12px ui-monospace,Menlo,Consolas,monospace;{_colour('fill', *_TEXT)}}}"
    f".t{{font-weight:bold;font-size:14px}}.s,.e{{{_colour('fill', *_DIM)}}}.r{{{_colour('fill', *_RED)}}}"
    f".p{{{_colour('fill', 'page', '#ffffff')}}}.a{{fill:none;{_colour('stroke', *_DIM)}}}"
    ".b{stroke-width:1.2}.gone,.stale{stroke-width:2.5}.here{stroke-width:4}"
    + "".join(
        f".{state}{{{_colour('fill', f'{state}-fill', fill)};{_colour('stroke', state, stroke)}}}"
        for state, (fill, stroke) in _COLOURS.items()
    )
)


def render(run: Run, *, line: int | None = None) -> str:
    """Return the picture; `line` leaves out all backward calls but those on one line."""
    return draw(data_of(run), line=line)


def draw(data: Data, *, line: int | None = None, around: tuple[str, int] | None = None) -> str:
    """Return the picture of what `data_of` returned; `around` shows the graphs that one line of a file has a part in.

    Calls whose graphs look the same are drawn once, with the iterations that they belong to. Where nothing that the
    line built is walked, or it calls no backward, all graphs are drawn.
    """
    panels = _panels(data, line)
    place = _numbered(data, around)
    panels = [calls for calls in panels if _concerns(calls[0], data, place)] or panels
    drawn: list[str] = []
    top, wide = 44, 560
    for calls in panels[:_MOST_CALLS]:
        picture, high, broad = _panel(calls, data, place)
        drawn.append(f'<g transform="translate(0,{top})">{picture}</g>')
        top += high
        wide = max(wide, broad)
    if not panels:
        said = "No backward call was reached" if line is None else f"No backward call was reached on line {line}"
        drawn.append(f'<text class="s" x="24" y="64">{said}.</text>')
        top += 40
    elif len(panels) > _MOST_CALLS:
        drawn.append(f'<text class="s" x="24" y="{top + 10}">and {len(panels) - _MOST_CALLS} more graphs</text>')
        top += 30
    title = f"{data['title']}: {data['ending']}" if data["ending"] else data["title"]
    heads = _wrapped(title, (wide - 2 * _EDGE) // 9)
    more = 18 * (len(heads) - 1)
    top += more
    headline = "".join(
        f'<text class="t" x="24" y="{28 + 18 * row}">{_text(head)}</text>' for row, head in enumerate(heads)
    )
    body = "".join(drawn) if not more else f'<g transform="translate(0,{more})">{"".join(drawn)}</g>'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide}" height="{top}" viewBox="0 0 {wide} {top}" role="img">'
        f"<title>{_text(title)}</title><style>{_STYLE}</style>"
        '<defs><marker id="a" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0L8 4L0 8z" class="e"/></marker></defs>'
        f'<rect width="{wide}" height="{top}" class="p"/>'
        f"{headline}{body}</svg>\n"
    )


def chosen(tapes: Sequence[Tape]) -> tuple[Tape, str]:
    """Return the path through a program to draw, the likeliest one or the first that fails, and what it is."""
    failing = (number for number, tape in enumerate(tapes)
               if any(run.problem is not None for run in Reading(tape).runs))  # fmt: skip
    if not tapes:
        return Tape("dry run"), "dry run"
    number = next(failing, 0)
    tape = tapes[number]
    said = "dry run" if len(tapes) == 1 else f"dry run, path {number + 1} of {len(tapes)}"
    # The iterations that are counted are those of the dry run, not those of the program.
    shortened = any(isinstance(event, LoopEnd) and event.more != "no" for event in tape.events)
    return tape, f"{said}, first iterations of its loops" if shortened else said


def _numbered(data: Data, around: tuple[str, int] | None) -> tuple[int, int] | None:
    """Return a place with the number that its file has in the data; None where the data has nothing of the file."""
    if around is None:
        return None
    path = str(Path(around[0]).resolve())
    number = next((number for number, file in enumerate(data["files"]) if file["path"] == path), None)
    return None if number is None else (number, around[1])


def _concerns(call: Call, data: Data, place: tuple[int, int] | None) -> bool:
    """Return whether a call stands on a line, or walks what the line built."""
    groups = _shape(call, data)["groups"]
    return place is None or _covers(call["at"], place) or any(_built(group, place) for group in groups)


def _shape(call: Call, data: Data) -> Shape:
    """Return the graph of a call that has one."""
    number = call["shape"]
    assert number is not None
    return data["shapes"][number]


def _covers(at: Sequence[int], place: tuple[int, int] | None) -> bool:
    return place is not None and at[0] == place[0] and at[1] <= place[1] <= max(at[1], at[3])


def _built(group: Group, place: tuple[int, int] | None) -> bool:
    """Return whether a line built some nodes, or called what did."""
    return any(_covers(at, place) for at in (group["at"], *group["calls"]))


def _panels(data: Data, line: int | None) -> list[list[Call]]:
    """Return the calls in their order, those of one line whose graphs look the same together."""
    found: dict[tuple[int, int, int | None, bool], list[Call]] = {}
    for call in (call for rank in data["ranks"] for call in rank["calls"]):
        if call["shape"] is None or (line is not None and call["at"][1] != line):
            continue
        key = (call["at"][0], call["at"][1], call["shape"], call["raised"] is not None)
        found.setdefault(key, []).append(call)
    return list(found.values())


def _panel(calls: Sequence[Call], data: Data, place: tuple[int, int] | None) -> tuple[str, int, int]:
    """Return the picture of some calls with the same graph, its height and its width."""
    call, shape = calls[0], _shape(calls[0], data)
    groups = shape["groups"]
    layers = _layers(len(groups), [(source, target) for source, target, _ in shape["edges"]], groups)
    places: dict[int, tuple[int, int]] = {}
    for depth, layer in enumerate(layers):
        for column, group in enumerate(layer):
            places[group] = (_EDGE + column * (_BOX + _GAP), _HEAD + depth * (_HIGH + _LAYER))
    high = _HEAD + max(len(layers), 1) * (_HIGH + _LAYER)
    broad = 2 * _EDGE + max((len(layer) for layer in layers), default=1) * (_BOX + _GAP) - _GAP
    parts = [_heading(calls)]
    parts += [
        _arrow(places[source], places[target], count)
        for source, target, count in shape["edges"]
        if source in places and target in places
    ]
    sizes = _sizes(calls, data)
    parts += [
        _box(
            groups[group], places[group], call["at"][0], data, sizes.get(tuple(groups[group]["at"][:2])),
            here=_built(groups[group], place),
        )
        for group in sorted(places)
    ]  # fmt: skip
    return "".join(parts), high, max(broad, 760)


def _heading(calls: Sequence[Call]) -> str:
    call = calls[0]
    when = [f"iteration {one['when'][-1][1]}" for one in calls if one["when"]]
    several = when[0] if len(when) == 1 else f"iterations {when[0].split()[1]} to {when[-1].split()[1]}" if when else ""
    what = f"line {call['at'][1]}: {call['call']}" + (f", {several}" if several else "")
    counts = [f"walks {call['nodes']} nodes"]
    counts += [f"frees {call['freed']}"] if call["freed"] else []
    counts += [f"keeps {call['kept']}"] if call["kept"] else []
    counts += [f"{call['reused']} walked before"] if call["reused"] else []
    said = f'<text x="{_EDGE}" y="20" class="t">{_text(what)}</text>'
    if call["raised"]:
        first = call["raised"].partition("\n")[0].partition(". ")[0]
        told = _wrapped(f"raises: {first}", 100)
        return said + "".join(
            f'<text x="{_EDGE}" y="{38 + 14 * row}" class="r">{_text(part)}</text>' for row, part in enumerate(told[:2])
        )
    return said + f'<text x="{_EDGE}" y="40" class="s">{_text(", ".join(counts))}</text>'


def _sizes(calls: Sequence[Call], data: Data) -> dict[tuple[int, ...], int]:
    """Return what the graphs of each line had saved where the last of some calls began, as far as a run measured it."""
    numbers = {call["number"] for call in calls}
    moments = [one for rank in data["ranks"] for one in rank["held"] if one["moment"] == "backward"]
    measured = [one for one in moments if one["call"] in numbers]
    return {tuple(at[:2]): size for at, size in measured[-1]["saved_lines"]} if measured else {}


def _box(group: Group, corner: tuple[int, int], home: int, data: Data, size: int | None, *, here: bool) -> str:
    x, y = corner
    meaning = _STATES[group["state"]]
    file, line = group["at"][0], group["at"][1]
    lines = data["files"][file]["lines"]
    code = lines[line - 1].strip() if 0 < line <= len(lines) else ""
    where = f"{line}" if file == home else f"{data['files'][file]['name'].rsplit('/', 1)[-1]}:{line}"
    ops = ", ".join(f"{op} ×{count}" if count > 1 else op for op, count in group["ops"])
    leaves = f"uses {', '.join(group['leaves'])}" if group["leaves"] else ""
    said = (f"{data['files'][file]['name']}:{line}", code, ops, leaves, meaning)
    # A tooltip has lines; in a part of it a line break would be one of the program's.
    hover = "\n".join(_text(part) for part in said if part)
    held = "" if size is None else bytes_text(size)
    rows = [f"{where}  {code}", ops, " · ".join(part for part in (meaning, held, leaves) if part)]
    texts = "".join(
        f'<text x="{x + 10}" y="{y + 18 + 17 * number}"{"" if number == 0 else " class=" + chr(34) + "s" + chr(34)}>'
        f"{_text(_cut(row, _LETTERS))}</text>"
        for number, row in enumerate(rows)
    )
    return (
        f'<g class="g" data-at="{file}:{line}"><title>{hover}</title>'
        f'<rect x="{x}" y="{y}" width="{_BOX}" height="{_HIGH}" rx="6" class="b {group["state"] or "none"}'
        f'{" here" if here else ""}"/>{texts}</g>'
    )


def _arrow(source: tuple[int, int], target: tuple[int, int], count: int) -> str:
    x1, y1 = source[0] + _BOX // 2, source[1] + _HIGH
    x2, y2 = target[0] + _BOX // 2, target[1]
    thick = min(1 + count / 4, 3)
    if y2 > y1:
        bend = (y2 - y1) // 2
        path = f"M{x1} {y1}C{x1} {y1 + bend} {x2} {y2 - bend} {x2} {y2 - 1}"
    else:
        # Back to a line above: a loop builds on what it built before.
        side = max(source[0], target[0]) + _BOX + _GAP // 2
        path = f"M{source[0] + _BOX} {source[1] + _HIGH // 2}H{side}V{target[1] + _HIGH // 2}H{target[0] + _BOX}"
    return f'<path d="{path}" class="a" stroke-width="{thick:.1f}" marker-end="url(#a)"/>'


def _layers(count: int, edges: Sequence[tuple[int, int]], groups: Sequence[Group]) -> list[list[int]]:
    """Return the boxes of each layer: a box stands below all that it is built from, apart from loops."""
    after: dict[int, list[int]] = defaultdict(list)
    for source, target in edges:
        after[source].append(target)
    depth = dict.fromkeys(range(count), 0)
    state = dict.fromkeys(range(count), 0)
    order: list[int] = []
    for start in range(count):
        # Depth first without recursion: graphs may be deep.
        stack = [(start, iter(after[start]))] if not state[start] else []
        state[start] = state[start] or 1
        while stack:
            node, following = stack[-1]
            child = next((one for one in following if not state[one]), None)
            if child is None:
                state[node] = 2
                order.append(node)
                stack.pop()
            else:
                state[child] = 1
                stack.append((child, iter(after[child])))
    place = {node: number for number, node in enumerate(reversed(order))}
    for node in reversed(order):
        for target in after[node]:
            if place[target] > place[node]:
                depth[target] = max(depth[target], depth[node] + 1)
    layers: list[list[int]] = [[] for _ in range(max(depth.values(), default=-1) + 1)]
    for node in sorted(range(count), key=lambda one: (groups[one]["at"][0], groups[one]["at"][1])):
        layers[depth[node]].append(node)
    return layers


def _wrapped(text: str, most: int) -> list[str]:
    """Return text in lines of at most so many characters; what has no room in one is broken."""
    return textwrap.wrap(text, most) or [text]


def _cut(text: str, most: int) -> str:
    if width(text) <= most:
        return text
    while width(text) >= most:
        text = text[:-1]
    return f"{text}…"


def _text(text: str) -> str:
    return escape(printable(text))
