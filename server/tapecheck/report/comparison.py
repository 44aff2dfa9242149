"""Two recorded runs beside each other as one HTML page that needs nothing else, not even a script."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from tapecheck.report.excerpt import printable
from tapecheck.report.html import curve_of
from tapecheck.rules.finding import Finding
from tapecheck.tape import Started, Tape

_WIDE, _HIGH, _LEFT, _BELOW, _ABOVE = 860, 240, 84, 24, 10
_TEMPLATE = Path(__file__).with_name("comparison.html")


@dataclass(frozen=True, slots=True)
class Side:
    """One of two runs: the name of its tape, the tape, and the findings that it alone has."""

    name: str
    tape: Tape
    only: Sequence[Finding]


def render(a: Side, b: Side, rows: Sequence[tuple[str, str, str]], *, same: bool) -> str:
    """Return the page; `rows` are a title and what each run has of it."""
    head = "The runs show the same." if same else "The runs differ."
    table = "".join(
        f'<tr{"" if left == right else " class=differs"}><td class="dim">{_text(title)}</td><td>{_text(left)}</td>'
        f"<td>{_text(right)}</td></tr>"
        for title, left, right in rows
    )
    body = (
        f'<h1>{head}</h1><table><tr><th></th><th class="a">{_about(a)}</th><th class="b">{_about(b)}</th></tr>{table}'
        f"</table>{_curves(a, b)}{_findings(a, 'a')}{_findings(b, 'b')}"
    )
    return _TEMPLATE.read_text(encoding="utf-8").replace("<!--BODY-->", body)


def _about(side: Side) -> str:
    started = next((event for event in side.tape.events if isinstance(event, Started)), None)
    more = f'<div class="dim">{_text(started.command)}<br>{_text(started.versions)}</div>' if started else ""
    return _text(side.name) + more


def _findings(side: Side, which: str) -> str:
    if not side.only:
        return ""
    cards = [
        f'<div class="card {which}"><p><strong>{one.code} {_text(one.name)}</strong></p>'
        f"<p>{_text(one.span.file)}:{one.span.line} {_rich(one.message.partition(chr(10))[0])}</p>"
        + (f'<p class="dim">{_rich(one.evidence.detail)}</p>' if one.evidence is not None else "")
        + "</div>"
        for one in side.only
    ]
    return f"<h2>Only in {_text(side.name)}</h2>{''.join(cards)}"


def _curves(a: Side, b: Side) -> str:
    """Return what both runs kept alive after their iterations, over the number of the backward call."""
    unit, first = curve_of(a.tape)
    other, second = curve_of(b.tape)
    if unit != other or not first or not second:
        return ""
    points = [*first, *second]
    last, top = max(max(call for call, _ in points), 2), max(max(value for _, value in points), 1)

    def spot(call: int, value: int) -> tuple[float, float]:
        across = (_WIDE - _LEFT - 12) * (call - 1) / (last - 1)
        return _LEFT + max(across, 0), _HIGH - _BELOW - (_HIGH - _BELOW - _ABOVE) * value / top

    def line(which: str, values: list[tuple[int, int]]) -> str:
        spots = [spot(*value) for value in values]
        path = " ".join(f"{'L' if number else 'M'}{x:.1f},{y:.1f}" for number, (x, y) in enumerate(spots))
        dots = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5"/>' for x, y in spots)
        return f'<g class="{which}"><path d="{path}"/>{dots}</g>'

    grid = "".join(
        f'<line x1="{_LEFT}" x2="{_WIDE - 12}" y1="{y:.0f}" y2="{y:.0f}" stroke="currentColor" opacity=".15"/>'
        f'<text x="{_LEFT - 8}" y="{y + 4:.0f}" text-anchor="end">{_amount(unit, value)}</text>'
        for value in (0, top // 2, top)
        for y in (spot(1, value)[1],)
    )
    what = "bytes of tensors" if unit == "bytes" else "graph nodes"
    return (
        f"<h2>Left after iterations: {what}</h2>"
        f'<svg viewBox="0 0 {_WIDE} {_HIGH}" role="img" aria-label="{what} alive after iterations of both runs">{grid}'
        f'<text x="{_LEFT}" y="{_HIGH - 6}">backward call 1</text>'
        f'<text x="{_WIDE - 12}" y="{_HIGH - 6}" text-anchor="end">{last:,}</text>'
        f"{line('a', first)}{line('b', second)}</svg>"
    )


def _amount(unit: str, value: int) -> str:
    if unit == "nodes":
        return f"{value:,}"
    for name, step in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if value >= step:
            return f"{value / step:.1f} {name}"
    return f"{value} B"


def _text(text: str) -> str:
    return escape(printable(text))


def _rich(text: str) -> str:
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", _text(text))
