"""What holds for a file is looked up once and handed on: nothing that one check chose decides about another."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tapecheck.check import Report, check
from tapecheck.cli import main
from tapecheck.fixes import fixes_for
from tapecheck.lsp.session import Session
from tapecheck.lsp.settings import Settings
from tapecheck.source import configuration, read_source
from tapecheck.source.project import Project, Projects, Setup

PROGRAM = """\
import torch
from nets import finish

w = torch.ones(2, requires_grad=True)
loss = (w * w).sum()
loss.backward()
finish(loss)
"""
QUIET = "def finish(loss):\n    print(float(loss))\n"
TWICE = "def finish(loss):\n    loss.backward()\n"


def environment(folder: Path, module: str) -> str:
    """Make a virtual environment in which `nets` is an editable project of the user's; return its Python."""
    site = folder / "lib" / "python3.12" / "site-packages"
    site.mkdir(parents=True)
    (folder / "pyvenv.cfg").write_text("home = /nowhere\nversion = 3.12.1\n")
    (folder / "src").mkdir()
    (folder / "src" / "nets.py").write_text(module)
    (site / "nets.pth").write_text(f"{folder / 'src'}\n")
    (folder / "bin").mkdir()
    return str(folder / "bin" / "python")


def codes(report: Report) -> list[str]:
    return [finding.code for finding in [*report.findings, *report.elsewhere]]


def test_two_sessions_in_one_process_keep_to_their_own_interpreter(tmp_path: Path) -> None:
    path = tmp_path / "p" / "train.py"
    path.parent.mkdir()
    path.write_text(PROGRAM)
    quiet, twice = Session(), Session()
    quiet.configure(Settings(interpreter=(environment(tmp_path / "quiet", QUIET),)))
    twice.configure(Settings(interpreter=(environment(tmp_path / "twice", TWICE),)))
    source = read_source(str(path))
    for _ in range(2):
        assert codes(quiet.check_closed(source, quiet.settings, lambda: False)) == []
        assert codes(twice.check_closed(source, twice.settings, lambda: False)) == ["TAPE101"]


def test_two_checks_at_once_keep_to_their_own_configuration(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(PROGRAM.replace("from nets import finish\n", TWICE))
    (tmp_path / "none.toml").write_text('ignore = ["TAPE101"]\n')
    (tmp_path / "pyproject.toml").write_text('[tool.tapecheck]\nignore = ["TAPE1"]\n')
    wanted = {
        Setup(): [],
        Setup(isolated=True): ["TAPE101"],
        Setup(config=str(tmp_path / "none.toml")): [],
    }

    def checked(setup: Setup) -> list[str]:
        return codes(check(read_source(str(path)), project=setup.project_of(str(path))))

    with ThreadPoolExecutor(3) as threads:
        given = [*wanted] * 4
        assert list(threads.map(checked, given)) == [wanted[setup] for setup in given]
    assert codes(check(read_source(str(path)))) == []


def test_fixes_are_tried_by_the_project_that_the_report_is_of(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.tapecheck]\nignore = ["ALL"]\n')
    path = tmp_path / "train.py"
    path.write_text(PROGRAM.replace("from nets import finish\n", TWICE))
    report = check(read_source(str(path)), project=Setup(isolated=True).project_of(str(path)))
    fixes = fixes_for(report, report.findings[0])
    assert fixes, "where no rule is on, no edit would change what is found"


@pytest.fixture
def lookups(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files whose configuration was looked for."""
    found: list[str] = []
    plain = configuration.configuration_for

    def counted(path: str) -> configuration.Configuration:
        found.append(path)
        return plain(path)

    monkeypatch.setattr("tapecheck.source.project.configuration_for", counted)
    return found


def test_one_check_looks_its_configuration_up_once(
    lookups: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(PROGRAM.replace("from nets import finish\n", TWICE))
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "train.py").write_text(PROGRAM)
    (tmp_path / "jobs" / "other.py").write_text(PROGRAM)
    assert main(["check", "train.py", "--no-cache"]) == 1
    assert "fixable with" in capsys.readouterr().out
    assert lookups == ["train.py"]
    lookups.clear()
    assert main(["check", ".", "--no-cache"]) == 1
    assert len(lookups) == 1, "one for the top; each folder below has its own or that of the one above"


def test_a_server_looks_the_configuration_of_an_analysis_up_once(lookups: list[str], tmp_path: Path) -> None:
    path = str(tmp_path / "train.py")
    session = Session()
    session.open("file:///train.py", path, PROGRAM.replace("from nets import finish\n", TWICE), 1)
    snapshot = session.snapshot("file:///train.py")
    assert snapshot is not None
    analysis = session.analyse(snapshot)
    assert analysis is not None
    (shown,) = session.shown(analysis)
    assert session.unused(analysis) == session.misspelt(analysis) == []
    assert session.fixes(analysis, shown.finding)
    assert lookups == [path]


def test_a_project_says_what_holds_for_the_files_beside_it(tmp_path: Path) -> None:
    (tmp_path / "tapecheck.toml").write_text('ignore = ["TAPE1"]\n')
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "tapecheck.toml").write_text('ignore = ["TAPE2"]\n')
    outer, inner = str(tmp_path / "a.py"), str(tmp_path / "inner" / "b.py")
    project = Setup().project_of(outer)
    assert project.of(outer) is project
    assert project.of(inner).configuration.ignore == ("TAPE2",)
    projects = Projects(Setup(isolated=True))
    again: Projects = pickle.loads(pickle.dumps(projects))
    assert again.of(outer) == Project(outer, configuration.Configuration(), Setup(isolated=True))
