"""`tapecheck graph`: a picture of what a program's backward calls walk."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tapecheck.check import check
from tapecheck.cli.checking import is_tape
from tapecheck.cli.diff import load
from tapecheck.cli.shared import NOTHING_FOUND, UsageError, deliver, say
from tapecheck.report import Checked, graph, html
from tapecheck.source import SourceError, read_source


def draw_graph(options: argparse.Namespace) -> int:
    """Write the picture of a program or of a recorded tape; raises UsageError where it cannot be read, or where a
    terminal would be filled with markup.
    """
    if options.output_file is None and sys.stdout.isatty():
        name = f"{Path(options.file).stem}.{options.output_format}"
        raise UsageError(f"the picture is a file to open in a browser: write it with `-o {name}`")
    if is_tape(options.file):
        run = html.Run(Checked(options.file), load(options.file), None, "recorded run")
    else:
        try:
            report = check(read_source(options.file))
        except SourceError as error:
            raise UsageError(str(error)) from error
        if report.error is not None:
            say(f"{options.file}: {report.error}: the rest is drawn")
        tape, said = graph.chosen(report.interpretation.tapes)
        run = html.Run(Checked(options.file, report.findings), tape, report.source, said)
    if options.output_format == "html":
        picture = html.render(run)
    else:
        picture = graph.render(run, line=options.line)
    deliver(picture, options.output_file)
    return NOTHING_FOUND
