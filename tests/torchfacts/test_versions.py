"""Facts of several versions of torch: which are taken, how they are kept, and that they decide what is found."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapecheck import torchfacts
from tapecheck.check import Memory, check, configuration_problems, facts_for
from tapecheck.cli import cache, main
from tapecheck.source import from_text, read_source
from tapecheck.source.configuration import parse
from tapecheck.source.project import Setup
from tapecheck.source.search import torch_of
from tapecheck.torchfacts import versions
from tapecheck.torchfacts.versions import applied, nearest
from tools.torchlab.versions import difference, keep, kept, resolved
from tools.torchlab.versions import main as keep_files

BASE = json.loads(resources.files(torchfacts).joinpath("facts.json").read_bytes())
NEWEST = BASE["torch"]
PROGRAM = """\
import torch

w = torch.ones(3, requires_grad=True)
y = w.tanh().sum()
y.backward()
y.backward()
"""


def altered(version: str) -> dict[str, Any]:
    """A torch that never was: its `tanh` saves nothing, it lacks `logaddexp`, has `newop`, and another general fact."""
    table = {**BASE, "torch": version, "ops": dict(BASE["ops"]), "general": dict(BASE["general"])}
    table["ops"]["tanh"] = BASE["ops"]["neg"]
    table["ops"]["newop"] = "neg"
    del table["ops"]["logaddexp"]
    name = next(iter(table["general"]))
    table["general"][name] = not table["general"][name]
    return table


@pytest.fixture
def old_torch(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """The package with facts of torch 2.4.1 beside its own; returns the folder of the versions."""
    keep({NEWEST: BASE, "2.4.1": altered("2.4.1")}, tmp_path)

    def forget() -> None:
        for kept_in in (versions.several, versions.measured, versions._base, torchfacts._newest, torchfacts._facts):
            kept_in.cache_clear()

    monkeypatch.setattr(versions, "_folder", lambda: tmp_path / "versions")
    forget()
    yield tmp_path
    monkeypatch.undo()
    forget()


@pytest.mark.parametrize(
    ("version", "wanted"),
    [
        ("2.13.0", "2.13.0"),
        ("2.13.0+cu128", "2.13.0"),
        ("2.13.2", "2.13.0"),
        ("2.10", "2.10.0"),
        ("2.9.1", "2.8.0"),  # as near to 2.10.0
        ("2.11.0", "2.10.0"),
        ("2.12.0a0+git1234", "2.13.0"),
        ("3.0.0", "2.13.0"),
        ("3.6.0", "2.13.0"),
        ("1.13.1", "2.6.0"),
        ("2.6.0", "2.6.0"),
        (None, "2.13.0"),
        ("main", "2.13.0"),
    ],
)
def test_the_nearest_version_is_taken(version: str | None, wanted: str) -> None:
    assert nearest(version, ["2.10.0", "2.6.0", "2.13.0", "2.8.0"]) == wanted


def test_nothing_measured_is_an_error() -> None:
    with pytest.raises(ValueError, match="no version was measured"):
        nearest("2.13.0", [])


ROWS = st.dictionaries(st.sampled_from("abcdef"), st.one_of(st.just("a"), st.dictionaries(st.just("x"), st.integers())))
TABLES = st.fixed_dictionaries({"torch": st.just("2.0.0"), **dict.fromkeys(versions.SECTIONS, ROWS)})


@given(TABLES, TABLES)
def test_a_difference_makes_the_other_table(base: dict[str, Any], other: dict[str, Any]) -> None:
    assert applied(base, json.loads(json.dumps(difference(base, other)))) == other


def test_only_what_differs_is_kept(old_torch: Path) -> None:
    text = (old_torch / "versions" / "2.4.1.json").read_text()
    assert set(json.loads(text)["ops"]) == {"tanh", "newop", "logaddexp"}
    assert len(text) < 3_000
    assert kept(old_torch) == {NEWEST: BASE, "2.4.1": altered("2.4.1")}


def test_a_newer_table_becomes_the_one_in_full(old_torch: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (old_torch / "new.json").write_text(json.dumps({**altered("2.99.0"), "general": BASE["general"]}))
    assert keep_files([str(old_torch / "new.json"), "--package", str(old_torch)]) == 0
    assert json.loads((old_torch / "facts.json").read_text())["torch"] == "2.99.0"
    assert {path.stem for path in (old_torch / "versions").iterdir()} == {"2.4.1", NEWEST}
    assert kept(old_torch)[NEWEST] == BASE and kept(old_torch)["2.4.1"] == altered("2.4.1")
    assert "2.99.0: in full" in capsys.readouterr().out


def test_facts_are_those_that_were_selected(old_torch: Path) -> None:
    assert torchfacts.measured() == ("2.4.1", NEWEST) and torchfacts.several()
    assert torchfacts.load().torch_version == NEWEST
    assert torchfacts.load("2.5.0").torch_version == "2.4.1"
    with torchfacts.using("2.4"):
        facts = torchfacts.load()
        assert facts.torch_version == "2.4.1"
        assert facts.op("logaddexp") is None and facts.op("newop") is not None
    assert torchfacts.load().op("logaddexp") is not None


def test_findings_follow_the_version_of_the_project(old_torch: Path, tmp_path: Path) -> None:
    assert [finding.code for finding in check(from_text(PROGRAM, "program.py")).findings] == ["TAPE101"]
    program = tmp_path / "project" / "program.py"
    program.parent.mkdir()
    program.write_text(PROGRAM)
    memory = Memory()
    configuration = program.with_name("tapecheck.toml")
    for version, codes in (("2.4", []), (NEWEST, ["TAPE101"]), ("2.4.0", [])):
        configuration.write_text(f'torch-version = "{version}"\n# {version}\n')
        # Checks of two versions must not share what they remember.
        found = check(read_source(str(program)), memory=memory)
        assert [finding.code for finding in found.findings] == codes, version


def test_the_installed_version_is_read_from_the_name_of_a_folder(
    old_torch: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = tmp_path / "environment"
    site = environment / "lib" / "python3.12" / "site-packages"
    (site / "torch-2.4.1+cu121.dist-info").mkdir(parents=True)
    (site / "torch_geometric-2.6.0.dist-info").mkdir()
    (environment / "pyvenv.cfg").write_text("home = /nowhere\n")
    monkeypatch.setenv("VIRTUAL_ENV", str(environment))
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    project = Setup().project_of(str(program))
    assert torch_of(project) == "2.4.1+cu121"
    assert facts_for(project) == "2.4.1"
    assert check(read_source(str(program))).findings == []

    asked = ("check",)
    before = cache._place("folder", read_source(str(program)), asked, project)
    (site / "torch-2.4.1+cu121.dist-info").rename(site / f"torch-{NEWEST}.dist-info")
    assert facts_for(project) == NEWEST
    assert [finding.code for finding in check(read_source(str(program))).findings] == ["TAPE101"]
    assert cache._place("folder", read_source(str(program)), asked, project) != before


def test_version_says_which_facts_hold(
    old_torch: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tapecheck.toml").write_text('torch-version = "2.6"\n')
    assert main(["version"]) == 0
    out = capsys.readouterr().out
    assert "facts measured on torch 2.4.1)" in out
    assert f"torch 2.6 runs here: facts of 2.4.1 are the nearest of 2.4.1, {NEWEST}\n" in out
    assert main(["version", "--output-format", "json"]) == 0
    known = json.loads(capsys.readouterr().out)
    assert (known["torch"], known["torch_facts"], known["torch_measured"]) == ("2.6", "2.4.1", ["2.4.1", NEWEST])


def test_a_version_that_is_none_is_said() -> None:
    assert configuration_problems(parse({"torch-version": "2.10.1+cpu"}, "tapecheck.toml", own=True)) == []
    (problem,) = configuration_problems(parse({"torch-version": "newest"}, "tapecheck.toml", own=True))
    assert problem == "tapecheck.toml: `torch-version`: expected a version such as 2.10, got 'newest'"


def test_an_input_that_an_older_version_has_no_sample_of_is_not_taken_for_a_constant(
    old_torch: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With fewer samples of a layer its parameters would look as if no gradient reached them."""
    newest = json.loads((old_torch / "facts.json").read_text())
    older = json.loads(json.dumps(newest))
    older["torch"] = "2.1.0"
    older["modules"]["InstanceNorm1d"] = {
        "params": ["num_features"],
        "train": [{"cases": [[{}, {"inputs": ["input"]}]]}],
    }
    older["ops"]["relu"] = [{**overload, "marked": "yes"} for overload in resolved(older["ops"], "relu")]
    file = tmp_path / "older.json"
    file.write_text(json.dumps(older))
    assert keep_files([str(file), "--package", str(old_torch)]) == 0
    assert "2.1.0: modules.InstanceNorm1d as in" in capsys.readouterr().out
    table = kept(old_torch)["2.1.0"]
    assert table["modules"]["InstanceNorm1d"] == resolved(newest["modules"], "InstanceNorm1d")
    assert table["ops"]["relu"][0]["marked"] == "yes", "what only differs is kept"
