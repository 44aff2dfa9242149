"""Fixes of findings in projects of several files: they edit the files that need it, and hold under torch."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from tapecheck.check import check
from tapecheck.fixes import Fix, fixes_for
from tapecheck.fixes.edit import Change, TextIndex, apply
from tapecheck.source import read_source
from tests.cases import under_torch
from tests.expectations import Project, read_project
from tests.projects.test_projects import _RUNNER, PROGRAMS, found_in, laid_out

WITHOUT_A_FIX = {"no_graph_in_criterion", "raise_then_loss_total", "distribution_subclass"}
"""Programs whose loss is nothing that could be differentiated, and one with a backward that is one too many."""


@dataclass(frozen=True)
class Mended:
    """A project before and after the fixes of its findings."""

    fixes: tuple[Fix, ...]
    missing: tuple[str, ...]
    after: Project


def edited(project: Project, folder: Path, fix: Fix) -> Project:
    """The project with a fix's edits made, as an editor makes them."""
    files = dict(project.files)
    for name, text in project.files.items():
        index = TextIndex(text)
        changes = [
            Change(
                index.offset(edit.span.line, edit.span.column),
                index.offset(edit.span.end_line, edit.span.end_column),
                edit.content,
            )
            for edit in fix.edits
            if Path(edit.span.file).relative_to(folder).as_posix() == name
        ]
        files[name] = apply(text, sorted(changes))
    return Project(files)


def mended(program: Path, folder: Path) -> Mended:
    """Make the preferred fix of one finding after the other."""
    project = read_project(program.read_text())
    fixes: list[Fix] = []
    missing: list[str] = []
    laid_out(project, folder)
    for _ in range(4):
        for name in project.files:
            report = check(read_source(str(folder / name)))
            offered = [(finding, fixes_for(report, finding)) for finding in (*report.findings, *report.elsewhere)]
            found = next((several[0] for _, several in offered if several), None)
            missing += [f"{finding.code} {name}:{finding.span.line}" for finding, several in offered if not several]
            if found is not None:
                project = edited(project, folder, found)
                fixes.append(found)
                laid_out(project, folder)
                break
        else:
            break
    return Mended(tuple(fixes), tuple(missing), project)


@cache
def all_mended() -> dict[str, tuple[Mended, list[str | int] | None]]:
    import tempfile

    made: dict[str, Mended] = {}
    with tempfile.TemporaryDirectory() as scratch:
        asked = {}
        for program in PROGRAMS:
            if read_project(program.read_text()).expected:
                folder = Path(scratch, program.stem).resolve()
                made[program.stem] = mended(program, folder)
                asked[program.stem] = (str(folder), made[program.stem].after.main)
        if not under_torch.has_torch():
            return {name: (one, None) for name, one in made.items()}
        command = [sys.executable, "-c", _RUNNER]
        done = subprocess.run(command, input=json.dumps(asked), capture_output=True, text=True, timeout=600, check=True)
    ends = json.loads(done.stdout)
    return {name: (one, ends[name]) for name, one in made.items()}


BUGGY = [program for program in PROGRAMS if read_project(program.read_text()).expected]


@pytest.mark.parametrize("program", BUGGY, ids=lambda path: path.stem)
def test_every_finding_has_a_fix_that_holds(program: Path, tmp_path: Path) -> None:
    one, end = all_mended()[program.stem]
    if program.stem in WITHOUT_A_FIX:
        assert not one.fixes
        return
    assert one.fixes and not one.missing
    laid_out(one.after, tmp_path)
    assert found_in(one.after, tmp_path) == set()
    assert end is None


def test_a_fix_edits_the_file_that_carries() -> None:
    one, _ = all_mended()["hidden_state"]
    assert [Path(edit.span.file).name for fix in one.fixes for edit in fix.edits] == ["models.py"]
    assert one.fixes[0].title.endswith("(in models.py)")
