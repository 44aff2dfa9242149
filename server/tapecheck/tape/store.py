"""Tapes as JSON lines: a header, then one event a line; sites are written once and referred to by number.

A tape whose writer died is complete up to its last whole line: the rest is dropped and `End` is left out.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TextIO

from tapecheck.tape import events as vocabulary
from tapecheck.tape.events import Event, Root, Saved, Setting, Site, Span
from tapecheck.tape.tape import Tape

FORMAT = 1

_KINDS: dict[str, Callable[..., Event]] = {
    kind.__name__: kind
    for kind in (
        vocabulary.Started, vocabulary.Leaf, vocabulary.Named, vocabulary.Node, vocabulary.Cut, vocabulary.Backward,
        vocabulary.InPlace,
        vocabulary.Optimizer, vocabulary.Step, vocabulary.GradientCleared, vocabulary.GradientSet,
        vocabulary.GradientRead, vocabulary.LeafEscape, vocabulary.LeftOut, vocabulary.Scaled, vocabulary.Unscaled,
        vocabulary.Rescaled, vocabulary.Wrapper, vocabulary.WrapperCall, vocabulary.GradientsReduced,
        vocabulary.GradientsWithGraph, vocabulary.SyncSet, vocabulary.ShardUse, vocabulary.StaleShards,
        vocabulary.Overwritten, vocabulary.Loop, vocabulary.Iteration, vocabulary.LoopEnd, vocabulary.Hold,
        vocabulary.Bind, vocabulary.Escape, vocabulary.GraphRead, vocabulary.ModeSet, vocabulary.Switched,
        vocabulary.NoEffect,
        vocabulary.Decision,
        vocabulary.Raised, vocabulary.Measure, vocabulary.Assumed, vocabulary.End,
    )
}  # fmt: skip


_PLACES = {
    name: [key for key, given in inspect.get_annotations(kind).items() if given == "Site"]
    for name, kind in _KINDS.items()
}
"""The fields of each kind of event that are places."""


class TapeError(ValueError):
    """The text is no tape, or one of a format this version does not read."""


def write_tape(tape: Tape, file: TextIO) -> None:
    """Write a tape as JSON lines."""
    file.write(json.dumps({"tape": FORMAT, "producer": tape.producer}) + "\n")
    sites: dict[Site, int] = {}
    for event in tape.events:
        for line in _encode(event, sites):
            file.write(json.dumps(line, separators=(",", ":")) + "\n")


def read_tape(lines: Iterable[str]) -> Tape:
    """Read a tape; raises TapeError where the header or a line before the last is not of this format."""
    rows = iter(lines)
    try:
        header = json.loads(next(rows, ""))
        if header["tape"] != FORMAT:
            raise TapeError(f"tape format {header['tape']} is not the format {FORMAT} that this version reads")
        tape = Tape(str(header["producer"]))
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise TapeError("not a tape: the first line is no tape header") from error
    sites: dict[int, Site] = {}
    broken: int | None = None
    for number, row in enumerate(rows, 2):
        if not row.strip():
            continue
        if broken is not None:
            raise TapeError(f"line {broken} of the tape is broken")
        try:
            event = _decode(json.loads(row), sites)
        except (json.JSONDecodeError, KeyError, TypeError, ValueError):
            broken = number
            continue
        if event is not None:
            tape.events.append(event)
    return tape


def _encode(event: Event, sites: dict[Site, int]) -> Iterator[dict[str, object]]:
    line: dict[str, object] = {"event": type(event).__name__}
    for item in dataclasses.fields(event):
        value = getattr(event, item.name)
        if item.default is not dataclasses.MISSING and value == item.default:
            continue
        if isinstance(value, Site):
            number = sites.get(value)
            if number is None:
                number = sites[value] = len(sites)
                yield {
                    "event": "Site", "id": number, "span": _span(value.span), "function": value.function,
                    "stack": [_span(span) for span in value.stack], "iteration": value.iteration,
                }  # fmt: skip
            line[item.name] = number
        elif isinstance(value, Span):
            line[item.name] = _span(value)
        elif item.name == "within":
            line[item.name] = [_span(span) for span in value]
        elif item.name in ("saved", "roots"):
            line[item.name] = [dataclasses.asdict(entry) for entry in value]
        else:
            line[item.name] = value
    yield line


def _site(line: dict[str, Any]) -> Site:
    return Site(
        Span(*line["span"]),
        line["function"],
        tuple(Span(*span) for span in line["stack"]),
        tuple((loop, index) for loop, index in line["iteration"]),
    )


def _decode(line: dict[str, Any], sites: dict[int, Site]) -> Event | None:
    name = line.pop("event")
    if name == "Site":
        sites[line["id"]] = _site(line)
        return None
    kind = _KINDS[name]
    for key in _PLACES[name]:
        line[key] = sites[line[key]]
    for key in ("retain_span", "off_at", "lost_in", "scope"):
        if line.get(key) is not None:
            line[key] = Span(*line[key])
    if "within" in line:
        line["within"] = tuple(Span(*span) for span in line["within"])
    if "saved" in line:
        line["saved"] = tuple(Saved(**entry) for entry in line["saved"])
    if "roots" in line:
        line["roots"] = tuple(Root(**{k: _tuples(v) for k, v in entry.items()}) for entry in line["roots"])
    if line.get("setting") is not None:
        line["setting"] = Setting(*line["setting"])
    return kind(**{key: _tuples(value) for key, value in line.items()})


def _tuples(value: object) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _span(span: Span) -> list[object]:
    return [span.file, span.line, span.column, span.end_line, span.end_column]
