"""The formats of a report by the names that the command line knows them by."""

from __future__ import annotations

from collections.abc import Iterable

from tapecheck.report.checked import Checked
from tapecheck.report.excerpt import DEFAULT_WIDTH, Sources

FORMATS = ("text", "concise", "json", "json-lines", "json-report", "github", "gitlab", "sarif", "junit", "rdjson")
FOR_PEOPLE = frozenset({"text", "concise"})
"""The formats that end with a summary; the others are for programs and hold nothing but the report."""

WITH_FIXES = frozenset({"text", "concise", "json", "json-lines", "json-report", "sarif", "rdjson"})
"""The formats that show fixes, or whether there are any."""

WITHOUT_LIMITS = frozenset({"gitlab", "junit", "rdjson"})
"""The formats that have no place for what a work limit left out."""


def render(
    name: str,
    files: Iterable[Checked],
    sources: Sources,
    *,
    colour: bool = False,
    width: int = DEFAULT_WIDTH,
    quiet: bool = False,
    evidence: bool = False,
    recorded: bool = False,
) -> str:
    """Return the report of some files in the format called `name`.

    `colour` and `width` are those of a terminal, `quiet` leaves the summary out. `evidence` says that findings may have
    some, `recorded` that all of them were held against a run. Raises ValueError for a format that does not exist.
    """
    if name == "text":
        from tapecheck.report import text

        return text.render(files, sources, colour=colour, width=width, recorded=recorded, quiet=quiet)
    if name == "concise":
        from tapecheck.report import concise

        return concise.render(files, colour=colour, quiet=quiet)
    if name in ("json", "json-lines"):
        from tapecheck.report import json

        return (json.render if name == "json" else json.render_lines)(files, evidence=evidence)
    if name == "json-report":
        from tapecheck.report import json

        return json.render_report(files, evidence=evidence)
    if name == "github":
        from tapecheck.report import github

        return github.render(files)
    if name == "gitlab":
        from tapecheck.report import gitlab

        return gitlab.render(files, sources)
    if name == "sarif":
        from tapecheck.report import sarif

        return sarif.render(files, sources, evidence=evidence)
    if name == "junit":
        from tapecheck.report import junit

        return junit.render(files)
    if name == "rdjson":
        from tapecheck.report import rdjson

        return rdjson.render(files, sources)
    raise ValueError(name)
