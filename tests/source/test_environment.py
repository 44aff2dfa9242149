"""Environments are read as text: which one is meant, what is installed there, and where editable projects lie."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tapecheck.source.environment import Place, prefix_for, read_environment
from tapecheck.source.folders import View


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text.replace("ROOT", str(root)))


@pytest.fixture(autouse=True)
def nothing_active(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    monkeypatch.delenv("CONDA_PREFIX", raising=False)


def test_which_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project, inner = tmp_path / "p", tmp_path / "p" / "jobs"
    write(tmp_path, {"p/jobs/x.py": "", "active/pyvenv.cfg": "", "chosen/pyvenv.cfg": "", "conda/bin/python": "",
                     "p/venv/readme": ""})  # fmt: skip
    assert prefix_for(str(inner), str(project)) == sys.prefix
    write(tmp_path, {"p/.venv/pyvenv.cfg": ""})
    assert prefix_for(str(inner), str(project)) == str(project / ".venv")
    # A folder that has no more than an environment and scripts is a project, too, though nothing says where it ends.
    assert prefix_for(str(inner), None) == str(project / ".venv")
    assert prefix_for(str(inner), str(inner)) == prefix_for(str(tmp_path), None) == sys.prefix
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path / "gone"))
    assert prefix_for(str(inner), str(project)) == str(project / ".venv")
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path / "active"))
    assert prefix_for(str(inner), str(project)) == str(tmp_path / "active")
    chosen = [("", str(tmp_path / "chosen/bin/python")), (str(project), str(tmp_path / "conda/bin/python"))]
    assert prefix_for(str(inner), str(project), chosen) == str(tmp_path / "conda")
    assert prefix_for(str(tmp_path / "parallel"), None, chosen) == str(tmp_path / "chosen")
    assert prefix_for(str(inner), str(project), [("", "python3")]) == str(tmp_path / "active")


def test_what_an_environment_adds(tmp_path: Path) -> None:
    site = "env/lib/python3.11/site-packages"
    write(
        tmp_path,
        {
            "env/pyvenv.cfg": "home = /nowhere/bin\ninclude-system-site-packages = false\n",
            f"{site}/b.pth": "ROOT/mine\n# ROOT/commented\nROOT/nowhere\nROOT/env/lib/python3.11/site-packages/sub\n",
            f"{site}/a.pth": "import os; open('ROOT/ran', 'w')\nimport __editable___x_finder; it.install()\n",
            f"{site}/.hidden.pth": "ROOT/commented\n",
            f"{site}/sub/x.py": "",
            f"{site}/__editable___x_finder.py": (
                "open('ROOT/ran', 'w')\n"
                "MAPPING: dict[str, str] = {'x': 'ROOT/x/code', 'bad': 3, 4: 'y', 'inside': 'ROOT/site-packages/z'}\n"
                "NAMESPACES = {'space': ['ROOT/x/space', 7]}\n"
            ),
            f"{site}/mine-1.0.dist-info/direct_url.json": (
                '{"url": "file://ROOT/my%20project", "dir_info": {"editable": true}}'
            ),
            f"{site}/x-1.0.dist-info/direct_url.json": '{"url": "file://ROOT/x", "dir_info": {"editable": true}}',
            f"{site}/copied-1.0.dist-info/direct_url.json": '{"url": "file://ROOT/copied", "dir_info": {}}',
            f"{site}/web-1.0.dist-info/direct_url.json": '{"url": "https://x/y", "dir_info": {"editable": true}}',
            f"{site}/odd-1.0.dist-info/direct_url.json": "[1, 2",
            "mine/x.py": "",
            "commented/x.py": "",
        },
    )
    found = read_environment(str(tmp_path / "env"), View())
    lying = str(tmp_path / site)
    assert found.places == [Place(lying, False), Place(str(tmp_path / "mine"), True), Place(f"{lying}/sub", False)]
    assert found.mapping == {"x": str(tmp_path / "x" / "code")}
    assert found.namespaces == {"space": [str(tmp_path / "x" / "space")]}
    assert found.projects == [str(tmp_path / "my project")]
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "text",
    ["MAPPING = {", "MAPPING = f()", "MAPPING = [1]", "MAPPING = " + "(" * 5000, "MAPPING = {[]: 1}", "x", "\0MAPPING"],
)
def test_finders_that_say_nothing(text: str, tmp_path: Path) -> None:
    site = tmp_path / "lib" / "python3.12" / "site-packages"
    write(site, {"a.pth": "import finder\n", "finder.py": text})
    assert read_environment(str(tmp_path), View()).mapping == {}


def test_files_that_are_no_text_or_too_long(tmp_path: Path) -> None:
    site = tmp_path / "lib" / "python3.12" / "site-packages"
    write(site, {"long.pth": "x\n" * 600_000, "folder.pth/x": ""})
    (site / "bytes.pth").write_bytes(b"\xff\xfe\x00\n\xef\xbb\xbf" + os.fsencode(tmp_path) + b"\n")
    if hasattr(os, "mkfifo"):
        os.mkfifo(site / "waiting.pth")
    (site / "marked.pth").write_bytes(b"\xef\xbb\xbf" + os.fsencode(tmp_path) + b"\n")
    assert Place(str(tmp_path), True) in read_environment(str(tmp_path), View()).places


def test_a_path_has_an_end(tmp_path: Path) -> None:
    site = tmp_path / "lib" / "python3.12" / "site-packages"
    for number in range(300):
        (tmp_path / "far" / str(number)).mkdir(parents=True)
    write(site, {"many.pth": "".join(f"{tmp_path / 'far' / str(number)}\n" for number in range(300))})
    assert len(read_environment(str(tmp_path), View()).places) == 250


def test_the_system_under_an_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONUSERBASE", str(tmp_path / "user"))
    write(
        tmp_path,
        {
            "base/lib/python3.11/site-packages/x.py": "",
            "base/lib/python3.9/site-packages/x.py": "",
            "user/lib/python3.11/site-packages/x.py": "",
            "env/lib/python3.11/site-packages/x.py": "",
            "env/pyvenv.cfg": "home = ROOT/base/bin\ninclude-system-site-packages = true\n",
            "apart/lib/python3.11/site-packages/x.py": "",
            "apart/pyvenv.cfg": "home = ROOT/base/bin\n",
        },
    )

    def folders(prefix: str) -> list[str]:
        places = read_environment(str(tmp_path / prefix), View()).places
        return [os.path.relpath(place.folder, tmp_path) for place in places]

    site = "lib/python3.11/site-packages"
    assert folders("env") == [f"env/{site}", f"base/{site}", f"user/{site}"]
    assert folders("apart") == [f"apart/{site}"]
    assert folders("base") == [f"base/{site}", f"user/{site}"]
    assert folders("nowhere") == [f"user/{site}"]


def test_an_environment_is_read_again_once_it_has_changed(tmp_path: Path) -> None:
    site = tmp_path / "lib" / "python3.12" / "site-packages"
    write(site, {"a.pth": f"{tmp_path / 'one'}\n"})
    write(tmp_path, {"one/x.py": "", "another/x.py": ""})
    os.utime(site, (1, 1))
    first = read_environment(str(tmp_path), View())
    assert read_environment(str(tmp_path), View()) is first
    (site / "a.pth").write_text(f"{tmp_path / 'another'}\n")
    changed = read_environment(str(tmp_path), View())
    assert [place.folder for place in changed.places if place.own] == [str(tmp_path / "another")]
