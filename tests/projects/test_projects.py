"""Projects of several files: each finding stands on the line where it is to be mended, in whichever file that is."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tapecheck.check import check
from tapecheck.cli.checking import CheckOptions, check_callers, check_file
from tapecheck.interpret import limits
from tapecheck.source import read_source
from tests.cases import under_torch
from tests.expectations import Place, Project, place_of, read_project
from tests.projects.support import laid_out, told

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


def found_in(project: Project, folder: Path) -> set[Place]:
    """What the check of every file finds, in whatever file it is; certain where one of them shows it for certain."""
    reports = [check(read_source(str(folder / name))) for name in project.files]
    findings = [finding for report in reports for finding in (*report.findings, *report.elsewhere)]
    found = {place_of(finding, Path(finding.span.file).relative_to(folder).as_posix()) for finding in findings}
    certain = {(file, line, f"{code}?") for file, line, code in found}
    return found - certain


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_findings_stand_where_they_are_expected(program: Path, tmp_path: Path, update_expectations: bool) -> None:
    project = read_project(program.read_text())
    laid_out(project, tmp_path)
    found = found_in(project, tmp_path)
    if update_expectations:
        program.write_text(project.updated(found).written())
        return
    assert found == project.expected


@pytest.mark.parametrize("program", PROGRAMS[::5], ids=lambda path: path.stem)
def test_a_file_checked_alone_has_the_findings_that_it_has_in_its_folder(program: Path, tmp_path: Path) -> None:
    project = read_project(program.read_text())
    laid_out(project, tmp_path)
    names = [name for name in project.files if name.endswith(".py")]
    together = told(names, tmp_path)
    assert {name: told([name], tmp_path)[name] for name in names} == together


def test_a_file_that_many_import_has_a_note_of_those_that_were_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MOST_CALLERS", 2)
    users = {f"use{number}.py": "import helper\n" for number in range(4)}
    laid_out(Project({"helper.py": "import torch\n", **users}), tmp_path)
    wanted = CheckOptions(fixes=False)
    files = [check_file(str(tmp_path / "helper.py"), wanted)]
    assert len(check_callers(files, wanted)) == 2
    assert [one.message for one in files[0].incomplete] == [
        "work limit reached: 2 of the files that import this one were not run"
    ]


def test_no_more_callers_are_run_once_those_before_took_their_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    users = {f"use{number}.py": f"import helper\nhelper.show({number})\n" for number in range(4)}
    helper = "import torch\n\n\ndef show(number):\n    print(torch.ones(number))\n"
    laid_out(Project({"helper.py": helper, **users}), tmp_path)
    wanted = CheckOptions(fixes=False)
    for file in (files := [check_file(str(tmp_path / "helper.py"), wanted)]):
        monkeypatch.setattr(limits, "CALLERS_BUDGET", file.work)
    done = check_callers(files, wanted)
    assert 0 < len(done) < len(users) and all(one.work for one in done)
    left = len(users) - len(done)
    assert [one.message for one in files[0].incomplete] == [
        f"work limit reached: {left} of the files that import this one were not run"
    ]


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
