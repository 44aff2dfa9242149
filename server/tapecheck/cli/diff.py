"""`tapecheck diff`: two recorded tapes beside each other."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from tapecheck.cli.shared import FOUND, NOTHING_FOUND, UsageError, write, write_file
from tapecheck.record.compare import Comparison, Summary, compare
from tapecheck.report.comparison import Side, render
from tapecheck.report.excerpt import printable
from tapecheck.report.sizes import bytes_text
from tapecheck.rules.finding import Finding
from tapecheck.tape import Tape, TapeError, read_tape

_ROWS = (
    ("ended", "ended"), ("backward calls", "backward_calls"), ("iterations", "iterations"),
    ("graph nodes written", "nodes"), ("most nodes alive after an iteration", "nodes_alive"),
    ("most saved bytes alive after an iteration", "saved_bytes_alive"),
    ("most saved bytes before a backward", "saved_bytes"), ("exceptions", "exceptions"),
    ("held over iterations", "holders"),
)  # fmt: skip


def diff_tapes(options: argparse.Namespace) -> int:
    """Print what differs; 0 where both runs show the same findings and exceptions, else 1."""
    a, b = load(options.a), load(options.b)
    comparison = compare(a, b)
    if options.html is not None or options.output_format == "html":
        shown = [(title, _shown(comparison.a, name), _shown(comparison.b, name)) for title, name in _ROWS]
        sides = (Side(options.a, a, comparison.only_a), Side(options.b, b, comparison.only_b))
        page = render(*sides, shown, same=comparison.same)
        if options.html is not None:
            write_file(options.html, page)
        if options.output_format == "html":
            write(page)
            return NOTHING_FOUND if comparison.same else FOUND
    if options.output_format == "json":
        rows = {
            "a": comparison.a.data(), "b": comparison.b.data(), "same": comparison.same,
            "only_a": [_row(one) for one in comparison.only_a], "only_b": [_row(one) for one in comparison.only_b],
        }  # fmt: skip
        write(json.dumps(rows, indent=2) + "\n")
    else:
        write(_text(comparison, options.a, options.b))
    return NOTHING_FOUND if comparison.same else FOUND


def load(path: str) -> Tape:
    """Read a tape; raises UsageError where it is none."""
    try:
        with Path(path).open(encoding="utf-8", errors="replace") as file:
            return read_tape(file)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from error
    except TapeError as error:
        raise UsageError(f"{path}: {error}") from error


def _row(finding: Finding) -> dict[str, object]:
    detail = finding.evidence.detail if finding.evidence is not None else ""
    return {
        "code": finding.code, "name": finding.name, "filename": finding.span.file, "row": finding.span.line,
        "message": finding.message, "detail": detail,
    }  # fmt: skip


def _text(comparison: Comparison, a: str, b: str) -> str:
    lines = [f"a: {a}", f"b: {b}"]
    for title, name in _ROWS:
        left, right = _shown(comparison.a, name), _shown(comparison.b, name)
        lines.append(f"  {title}: {left}" if left == right else f"* {title}: {left} | {right}")
    for where, findings in (("a", comparison.only_a), ("b", comparison.only_b)):
        for finding in findings:
            detail = finding.evidence.detail if finding.evidence is not None else ""
            message = finding.message.partition("\n")[0]
            lines.append(f"* only in {where}: {finding.code} {finding.span.file}:{finding.span.line}: {message}")
            lines.append(f"    {detail}")
    lines.append("The runs show the same." if comparison.same else "The runs differ.")
    return "\n".join(map(printable, lines)) + "\n"


def _shown(side: Summary, name: str) -> str:
    value = getattr(side, name)
    if value is None:
        return "not measured"
    if name in ("saved_bytes_alive", "saved_bytes"):
        return bytes_text(value)
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "none"
    return str(value)
