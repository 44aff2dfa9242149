"""Who imports a file: found from the text of the files of its project, which is read and never executed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tapecheck.source.importers import Importers, Statement, Texts, statements_of
from tapecheck.source.project import Projects, Setup


def laid_out(folder: Path, files: dict[str, str]) -> None:
    for name, text in {"pyproject.toml": "", **files}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def of(folder: Path, name: str) -> list[str]:
    path = str(folder / name)
    return [Path(one).relative_to(folder).as_posix() for one in Importers(Projects(Setup())).of(path)]


def test_statements_are_read_from_the_text() -> None:
    text = (
        "import a.b as c, d\nfrom . import x, y as z\n  from ..p.q import (\n    one,\n    two,\n)\nfrom m import *\n"
    )
    assert statements_of(text) == (
        Statement("a.b"), Statement("as"), Statement("c"), Statement("d"), Statement("", 1, ("x", "y", "as", "z")),
        Statement("p.q", 2, ("one", "two")), Statement("m", 0, ("*",)),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("files", "asked", "expected"),
    [
        ({"m.py": "", "a.py": "import m\n", "b.py": "import other\n"}, "m.py", ["a.py"]),
        ({"m.py": "", "a.py": "from m import f\n", "b.py": "import a\n"}, "m.py", ["a.py", "b.py"]),
        ({"p/__init__.py": "from .m import F\n", "p/m.py": "", "a.py": "from p import F\n"}, "p/m.py",
         ["p/__init__.py", "a.py"]),
        ({"p/__init__.py": "", "p/m.py": "", "p/n.py": "from . import m\n"}, "p/m.py", ["p/n.py"]),
        ({"p/__init__.py": "x = 1\n", "p/n.py": "from . import x\n"}, "p/__init__.py", ["p/n.py"]),
        ({"p/__init__.py": "", "p/m.py": "", "a.py": "import p.m as q\n"}, "p/m.py", ["a.py"]),
        ({"src/p/__init__.py": "", "src/p/m.py": "", "tools/a.py": "from p.m import f\n"}, "src/p/m.py",
         ["tools/a.py"]),
        ({"one/utils.py": "", "one/a.py": "import utils\n", "two/utils.py": "", "two/b.py": "import utils\n"},
         "two/utils.py", ["two/b.py"]),
        ({"m.py": "", "a.py": "def f():\n    from m import g\n"}, "m.py", ["a.py"]),
        ({"m.py": "import a\n", "a.py": "import m\n"}, "m.py", ["a.py"]),
        ({"m.py": "", "n.ipynb": '{"cells": [{"source": [\n    "from m import f\\n",\n    "f()"]}]}'}, "m.py",
         ["n.ipynb"]),
    ],
)  # fmt: skip
def test_importers(tmp_path: Path, files: dict[str, str], asked: str, expected: list[str]) -> None:
    laid_out(tmp_path, files)
    assert of(tmp_path, asked) == expected


def test_what_looks_like_an_import_of_another_module_is_none(tmp_path: Path) -> None:
    laid_out(tmp_path, {"m.py": "", "a.py": "from other import m\n", "b.py": "import torch.m\nm = 1\n"})
    assert of(tmp_path, "m.py") == []


def test_without_a_project_only_the_folder_of_the_file_is_looked_at(tmp_path: Path) -> None:
    laid_out(tmp_path, {"f/m.py": "", "f/a.py": "import m\n", "f/deep/b.py": "from f import m\n"})
    (tmp_path / "pyproject.toml").unlink()
    assert of(tmp_path, "f/m.py") == ["f/a.py"]


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    laid_out(tmp_path, {"m.py": "", "a.py": "x = 1\n"})
    texts, path = Texts(), str(tmp_path / "m.py")
    assert Importers(Projects(Setup()), texts=texts).of(path) == []
    (tmp_path / "a.py").write_text("import m\n\n")
    assert Importers(Projects(Setup()), texts=texts).of(path) == [str(tmp_path / "a.py")]


def test_nothing_of_the_workspace_is_executed(tmp_path: Path) -> None:
    mark = tmp_path / "executed"
    hostile = f"open({str(mark)!r}, 'w')\nimport m\n"
    names = ("a.py", "conftest.py", "sitecustomize.py", "setup.py", "os.py", "re.py", "p/__init__.py")
    laid_out(tmp_path, {"m.py": hostile.replace("import m", ""), **dict.fromkeys(names, hostile)})
    assert "a.py" in of(tmp_path, "m.py")
    assert not mark.exists()


def test_a_project_whose_files_are_all_known_is_not_looked_through(tmp_path: Path) -> None:
    laid_out(tmp_path, {"m.py": "", "a.py": "import m\n"})
    known = {str((tmp_path / name).resolve()) for name in ("m.py", "a.py")}
    assert Importers(Projects(Setup()), known).of(str(tmp_path / "m.py")) == []


def test_without_a_mark_of_a_project_what_stands_beside_a_package_imports_it(tmp_path: Path) -> None:
    laid_out(tmp_path, {"p/__init__.py": "from .m import F\n", "p/m.py": "", "a.py": "from p import F\n"})
    laid_out(tmp_path, {"sub/b.py": "from p import F\n", "p/q/__init__.py": "", "p/q/n.py": "from ..m import F\n"})
    (tmp_path / "pyproject.toml").unlink()
    (tmp_path / "sub" / "pyproject.toml").unlink(missing_ok=True)
    assert of(tmp_path, "p/m.py") == ["p/__init__.py", "p/q/n.py", "a.py"]
