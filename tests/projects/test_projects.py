"""Projects of several files: each finding stands on the line where it is to be mended, in whichever file that is."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tapecheck.check import check
from tapecheck.source import read_source
from tests.cases import under_torch
from tests.expectations import Place, Project, place_of, read_project

PROGRAMS = sorted((Path(__file__).parent / "programs").glob("*.test"))
_RUNNER = """
import gc, json, os, runpy, sys, traceback
import torch, torch.distributions, torch.optim
torch.set_num_threads(1)
gc.collect()
gc.freeze()
ends = {}
for name, (folder, main) in json.load(sys.stdin).items():
    reader, writer = os.pipe()
    if os.fork() == 0:
        os.close(1)
        os.open(os.devnull, os.O_WRONLY)
        os.chdir(folder)
        sys.path.insert(0, folder)
        where = None
        try:
            runpy.run_path(os.path.join(folder, main), run_name="__main__")
        except BaseException as error:
            frames = traceback.extract_tb(error.__traceback__)
            inside = [frame for frame in frames if frame.filename.startswith(folder)]
            where = [os.path.relpath(inside[-1].filename, folder), inside[-1].lineno]
        os.write(writer, json.dumps(where).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as told:
        ends[name] = json.loads(told.read() or '"died"')
    os.wait()
print(json.dumps(ends))
"""


def laid_out(project: Project, folder: Path) -> None:
    """Write the files of a project into a folder."""
    for name, text in {"pyproject.toml": "", **project.files}.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def found_in(project: Project, folder: Path) -> set[Place]:
    """What the check of every file finds, in whatever file it is."""
    reports = [check(read_source(str(folder / name))) for name in project.files]
    findings = [finding for report in reports for finding in (*report.findings, *report.elsewhere)]
    return {place_of(finding, Path(finding.span.file).relative_to(folder).as_posix()) for finding in findings}


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_findings_stand_where_they_are_expected(program: Path, tmp_path: Path, update_expectations: bool) -> None:
    project = read_project(program.read_text())
    laid_out(project, tmp_path)
    found = found_in(project, tmp_path)
    if update_expectations:
        program.write_text(project.updated(found).written())
        return
    assert found == project.expected


@cache
def ends() -> dict[str, list[str | int] | None]:
    import tempfile

    with tempfile.TemporaryDirectory() as scratch:
        asked = {}
        for program in PROGRAMS:
            project, folder = read_project(program.read_text()), Path(scratch, program.stem).resolve()
            laid_out(project, folder)
            asked[program.stem] = (str(folder), project.main)
        command = [sys.executable, "-c", _RUNNER]
        done = subprocess.run(command, input=json.dumps(asked), capture_output=True, text=True, timeout=600, check=True)
    result: dict[str, list[str | int] | None] = json.loads(done.stdout)
    return result


@pytest.mark.skipif(not under_torch.has_torch(), reason="torch is not installed")
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_projects_end_under_torch_as_their_lines_say(program: Path) -> None:
    raises = read_project(program.read_text()).raises
    assert ends()[program.stem] == (list(raises) if raises is not None else None)


def test_expectations_are_written_as_they_are_read() -> None:
    project = read_project("# file: a.py\nx = 1  # kept\n# file: b.py\ny = 2  # raises TAPE101, TAPE201?\nz = 3\n")
    assert project.expected == {("b.py", 1, "TAPE101"), ("b.py", 1, "TAPE201?")}
    assert (project.raises, project.main) == (("b.py", 1), "b.py")
    again = project.updated([("a.py", 1, "TAPE402"), ("b.py", 1, "TAPE103")])
    assert again.written() == ("# file: a.py\nx = 1  # kept  # TAPE402\n# file: b.py\ny = 2  # raises TAPE103\nz = 3\n")
