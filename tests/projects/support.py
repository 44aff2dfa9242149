"""Projects in a folder, and what the command line says of their files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tapecheck.cli.across import to_their_files
from tapecheck.cli.checking import CheckOptions, check_callers, check_file
from tests.expectations import Project


def laid_out(project: Project, folder: Path) -> None:
    """Write the files of a project into a folder."""
    for name, text in {"pyproject.toml": "", **project.files}.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def told(asked: Sequence[str], folder: Path) -> dict[str, set[tuple[int, str]]]:
    """What the command line says of each of the files that are asked for."""
    wanted = CheckOptions(fixes=False, cache=str(folder / ".cache"))
    files = [check_file(str(folder / name), wanted) for name in asked]
    to_their_files(files, rules=wanted.rules, projects=wanted.projects, callers=check_callers(files, wanted))
    places = [{(one.span.line, one.code + "?" * (not one.certain)) for one in file.findings} for file in files]
    return dict(zip(asked, places, strict=True))
