"""Which file an imported name stands for: the judge is Python's own import system, asked about the same folders."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tapecheck.source.folders import Folders
from tapecheck.source.search import Found, Search

ASK = """\
import importlib.util, json, sys
answers = {}
for name in json.loads(NAMES):
    try:
        spec = importlib.util.find_spec(name, __package__ or None)
    except Exception as error:
        answers[name] = [None, [], type(error).__name__]
        continue
    if spec is None:
        answers[name] = [None, [], "none"]
    else:
        answers[name] = [spec.origin, list(spec.submodule_search_locations or ()), "found"]
print(json.dumps(answers))
"""
VERSION = f"python{sys.version_info.major}.{sys.version_info.minor}"
LINK = "-> "


def lay(root: Path, files: dict[str, str]) -> None:
    """Write files; a text that begins with an arrow is the target of a link."""
    for name, text in files.items():
        path = root / name
        if name.endswith("/"):
            path.mkdir(parents=True, exist_ok=True)
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        if text.startswith(LINK):
            path.symlink_to(text.removeprefix(LINK))
        else:
            path.write_text(text.replace("ROOT", str(root)))


def make_environment(prefix: Path) -> Path:
    """A virtual environment without packages of its own, by hand: the `venv` module takes a second."""
    (prefix / "bin").mkdir(parents=True)
    base = Path(sys.base_prefix) / "bin" / VERSION
    (prefix / "bin" / "python").symlink_to(base if base.exists() else Path(sys.executable).resolve())
    (prefix / "pyvenv.cfg").write_text(f"home = {base.parent}\ninclude-system-site-packages = false\n")
    site = prefix / "lib" / VERSION / "site-packages"
    site.mkdir(parents=True)
    return site


def ask_python(
    root: Path, prefix: Path, program: str, names: Iterable[str], *, module: str = "", path: tuple[str, ...] = ()
) -> dict[str, tuple[str | None, list[str], str]]:
    """What Python finds for names that a program in that place would import."""
    file = root / program
    before = file.read_bytes() if file.exists() else None
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(ASK.replace("NAMES", repr(json.dumps(list(names)))))
    surroundings = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    if path:
        surroundings["PYTHONPATH"] = os.pathsep.join(str(root / one) for one in path)
    try:
        command = ["-m", module] if module else [str(file)]
        done = subprocess.run(
            [str(prefix / "bin" / "python"), "-B", *command],
            cwd=root, env=surroundings, capture_output=True, text=True, check=True, timeout=60,
        )  # fmt: skip
    finally:
        if before is None:
            file.unlink()
        else:
            file.write_bytes(before)
    return {name: (answer[0], answer[1], answer[2]) for name, answer in json.loads(done.stdout).items()}


def ask_us(root: Path, program: str, names: Iterable[str]) -> dict[str, Found | None]:
    search = Search(str(root / program))
    file = str(root / program)
    return {name: search.find(name.lstrip("."), len(name) - len(name.lstrip(".")), file) for name in names}


@pytest.fixture
def prefix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The environment of the project in `tmp_path / "p"`."""
    monkeypatch.delenv("PYTHONPATH", raising=False)
    monkeypatch.delenv("CONDA_PREFIX", raising=False)
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path / "environment"))
    make_environment(tmp_path / "environment")
    return tmp_path / "environment"


@dataclass
class Layout:
    """Files of a project; what the program in it asks for, and the file or folders that each name stands for."""

    name: str
    files: dict[str, str]
    finds: dict[str, str | tuple[str, ...] | None]
    program: str = "train.py"
    module: str = ""
    path: tuple[str, ...] = ()
    site: dict[str, str] | None = None
    differs: tuple[str, ...] = ()
    """Names of which Python says something else, since it runs what we can't read, or on another path."""


FINDER = """\
from __future__ import annotations
import sys
from importlib.machinery import ModuleSpec, PathFinder
from importlib.machinery import all_suffixes as module_suffixes
from importlib.util import spec_from_file_location
from itertools import chain
from pathlib import Path

MAPPING: dict[str, str] = {mapping!r}
NAMESPACES: dict[str, list[str]] = {{}}


class _EditableFinder:
    @classmethod
    def find_spec(cls, fullname, path=None, target=None):
        if fullname in MAPPING:
            return cls._find(fullname, Path(MAPPING[fullname]))
        parent, _, child = fullname.rpartition(".")
        if parent and parent in MAPPING:
            return PathFinder.find_spec(fullname, path=[MAPPING[parent]])
        return None

    @classmethod
    def _find(cls, fullname, candidate_path):
        candidates = (candidate_path.with_suffix(x) for x in module_suffixes())
        for candidate in chain([candidate_path / "__init__.py"], candidates):
            if candidate.exists():
                return spec_from_file_location(fullname, candidate)
        return None


def install():
    if not any(finder == _EditableFinder for finder in sys.meta_path):
        sys.meta_path.append(_EditableFinder)
"""


LAYOUTS = [
    Layout(
        "beside the program",
        {"nets.py": "", "pkg/__init__.py": "", "pkg/a.py": "", "pkg/sub/__init__.py": ""},
        {"nets": "nets.py", "pkg": "pkg/__init__.py", "pkg.a": "pkg/a.py", "pkg.sub": "pkg/sub/__init__.py",
         "pkg.b": None, "nets.x": None, "nope": None},
    ),
    Layout(
        "a package goes before a module of its name",
        {"nets.py": "", "nets/__init__.py": "", "nets/a.py": ""},
        {"nets": "nets/__init__.py", "nets.a": "nets/a.py"},
    ),
    Layout(
        "a module goes before a namespace package of its name",
        {"nets.py": "", "nets/a.py": ""},
        {"nets": "nets.py", "nets.a": None},
    ),
    Layout(
        "namespace packages",
        {"space/a.py": "", "space/inner/b.py": "", "space/regular/__init__.py": "", "space/regular/c.py": ""},
        {"space": ("space",), "space.a": "space/a.py", "space.inner": ("space/inner",),
         "space.inner.b": "space/inner/b.py", "space.regular.c": "space/regular/c.py", "space.none": None},
    ),
    Layout(
        "a namespace package in several places",
        {"one/space/a.py": "", "two/space/b.py": "", "two/space/a.py": ""},
        {"space": ("one/space", "two/space"), "space.a": "one/space/a.py", "space.b": "two/space/b.py"},
        path=("one", "two"),
    ),
    Layout(
        "a regular package later on the path hides a namespace package",
        {"one/space/a.py": "", "two/space/__init__.py": "", "two/space/b.py": ""},
        {"space": "two/space/__init__.py", "space.b": "two/space/b.py"},
        path=("one", "two"),
    ),
    Layout(
        "a module of a package is searched from where the package lies",
        {"pkg/__init__.py": "", "pkg/train.py": "", "pkg/nets.py": "", "nets.py": "", "pkg/sub/__init__.py": "",
         "pkg/sub/b.py": ""},
        {"nets": "nets.py", "pkg.nets": "pkg/nets.py", ".nets": "pkg/nets.py", ".": "pkg/__init__.py",
         ".sub.b": "pkg/sub/b.py"},
        program="pkg/train.py", module="pkg.train",
    ),
    Layout(
        "relative imports at every level",
        {"a/__init__.py": "", "a/x.py": "", "a/b/__init__.py": "", "a/b/x.py": "", "a/b/c/__init__.py": "",
         "a/b/c/x.py": "", "a/other/__init__.py": "", "a/other/y.py": ""},
        {".x": "a/b/c/x.py", "..x": "a/b/x.py", "...x": "a/x.py", "...other.y": "a/other/y.py", ".none": None,
         "..c": "a/b/c/__init__.py"},
        program="a/b/c/train.py", module="a.b.c.train",
    ),
    Layout(
        "relative imports in a namespace package that goes on elsewhere",
        {"pyproject.toml": "", "space/b.py": "", "two/space/c.py": "", "two/space/b.py": ""},
        {".b": "space/b.py", ".c": "two/space/c.py"},
        program="space/train.py", module="space.train", path=("two",),
    ),
    Layout(
        "the standard library goes before all that is not beside the program",
        {"later/profile.py": "", "later/queue/__init__.py": "", "statistics.py": "", "json/readme.txt": "",
         "later/mine.py": ""},
        {"statistics": "statistics.py", "json": None, "sys": None, "mine": "later/mine.py",
         "profile": "later/profile.py"},
        path=("later",),
    ),
    Layout(
        "what is built into Python can't be hidden",
        {"sys.py": "", "builtins.py": ""},
        {"sys": None, "builtins": None},
    ),
    Layout(
        "names are written just so",
        {"Nets.py": "", "Pkg/__init__.py": "", "Pkg/A.py": ""},
        {"nets": None, "Nets": "Nets.py", "pkg": None, "Pkg.a": None, "Pkg.A": "Pkg/A.py"},
    ),
    Layout(
        "links, loops and dangling ones",
        {"real/pkg/__init__.py": "", "real/pkg/a.py": "", "linked": "-> real/pkg", "file.py": "-> real/pkg/a.py",
         "loop": "-> loop", "gone.py": "-> nowhere.py", "pkg2/__init__.py": "", "pkg2/again": "-> ../pkg2"},
        {"linked": "linked/__init__.py", "linked.a": "linked/a.py", "file": "file.py", "loop": None, "gone": None,
         "pkg2.again.again": "pkg2/again/again/__init__.py"},
    ),
    Layout(
        "a program that is a link starts from the file that it leads to",
        {"real/job.py": "", "real/nets.py": "", "bin/train.py": "-> ../real/job.py", "bin/other.txt": ""},
        {"nets": "real/nets.py"},
        program="bin/train.py",
    ),
    Layout(
        "folders with the name of a file, files with the name of a folder",
        {"odd.py/x.py": "", "plain": "no folder", "other/__init__.py/x.txt": "", "other/a.py": ""},
        {"odd": None, "plain": None, "plain.x": None, "other": ("other",), "other.a": "other/a.py"},
    ),
    Layout(
        "stubs: Python does not see them, and a source beside one is read",
        {"nets.py": "", "nets.pyi": "", "only.pyi": "", "pkg/__init__.pyi": "", "pkg/a.py": "", "pkg/b.pyi": "",
         "lib-stubs/__init__.pyi": ""},
        {"nets": "nets.py", "only": None, "pkg": ("pkg",), "pkg.a": "pkg/a.py", "pkg.b": None, "lib": None},
    ),
    Layout(
        "compiled modules are libraries, unless their source lies beside them",
        {"fast.so": "", "both.so": "", "both.py": "", "pkg/__init__.py": "", "pkg/_C.so": "", "whole/__init__.so": "",
         "whole/a.py": ""},
        {"fast": None, "both": "both.py", "pkg._C": None, "whole": None, "whole.a": None},
        differs=("fast", "both", "pkg._C", "whole"),
    ),
    Layout(
        "a compiled module hides what comes later",
        {"one/fast.so": "", "two/fast.py": ""},
        {"fast": None},
        path=("one", "two"), differs=("fast",),
    ),
    Layout(
        "installed packages are libraries, and hide nothing of the project's",
        {"mine/__init__.py": "", "vendored.py": ""},
        {"installed": None, "installed.a": None, "mine": "mine/__init__.py", "single": None, "shared": None,
         "vendored": "vendored.py"},
        site={"installed/__init__.py": "", "installed/a.py": "", "mine/__init__.py": "", "single.py": "",
              "shared/a.py": "", "vendored.py": ""},
        differs=("installed", "installed.a", "single", "shared"),
    ),
    Layout(
        "folders that .pth files name",
        {"train.py": "", "../far/nets.py": "", "../far/space/a.py": "", "../other/late.py": ""},
        {"nets": "../far/nets.py", "space.a": "../far/space/a.py", "late": "../other/late.py", "commented": None},
        site={"__editable__.far.pth": "# a comment\n\nROOT/../../../../far\n",
              "relative.pth": "../../../../other\nnowhere\n", "bad.pth": "import nothing_of_the_kind\n"},
    ),
    Layout(
        "a part of a namespace package is installed, another one the user's",
        {"../far/space/mine.py": ""},
        {"space.mine": "../far/space/mine.py", "space.theirs": None},
        site={"far.pth": "../../../../far\n", "space/theirs.py": ""},
        differs=("space.theirs",),
    ),
    Layout(
        "folders that setuptools maps",
        {"../lib/code/__init__.py": "", "../lib/code/a.py": "", "../lib/code/sub/__init__.py": "", "../lib/one.py": ""},
        {"renamed": "../lib/code/__init__.py", "renamed.a": "../lib/code/a.py", "renamed.none": None,
         "renamed.sub": "../lib/code/sub/__init__.py", "one": "../lib/one.py"},
        site={"__editable__.renamed-1.0.pth":
              "import __editable___renamed_1_0_finder; __editable___renamed_1_0_finder.install()\n",
              "__editable___renamed_1_0_finder.py": FINDER.format(
                  mapping={"renamed": "SITE/../../../../lib/code", "one": "SITE/../../../../lib/one"})},
    ),
]  # fmt: skip


@pytest.mark.parametrize("layout", LAYOUTS, ids=[layout.name for layout in LAYOUTS])
def test_what_python_finds(layout: Layout, tmp_path: Path, prefix: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "p"
    root.mkdir()
    lay(root, layout.files)
    site = prefix / "lib" / VERSION / "site-packages"
    for name, text in (layout.site or {}).items():
        lay(site, {name: text.replace("SITE", str(site)).replace("ROOT", str(site))})
    python = ask_python(root, prefix, layout.program, layout.finds, module=layout.module, path=layout.path)
    if not (root / layout.program).exists():
        (root / layout.program).touch()
    if layout.path:
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join(str(root / one) for one in layout.path))
    found = ask_us(root, layout.program, layout.finds)
    for name, expected in layout.finds.items():
        assert told(found[name], root) == expected, name
        if name not in layout.differs:
            assert from_python(python[name], root) == expected, f"Python about {name}"


def told(found: Found | None, root: Path) -> str | tuple[str, ...] | None:
    if found is None:
        return None
    if found.file is None:
        return tuple(os.path.relpath(folder, root) for folder in found.folders)
    return os.path.relpath(found.file, root)


def from_python(answer: tuple[str | None, list[str], str], root: Path) -> str | tuple[str, ...] | None:
    """The same of Python's answer; the standard library is none of the project's."""
    origin, locations, _ = answer
    if origin in (None, "built-in", "frozen"):
        return tuple(os.path.relpath(folder, root) for folder in locations) or None
    assert origin is not None
    if os.path.realpath(origin).startswith(os.path.realpath(sys.base_prefix) + os.sep + "lib"):
        return None
    return os.path.relpath(origin, root)


def names_below(depth: int) -> st.SearchStrategy[str]:
    return st.lists(st.sampled_from(["a", "b", "A"]), min_size=1, max_size=depth).map(".".join)


PIECES = (
    "{}.py", "{}/__init__.py", "{}/", "{}.pyi", "{}.so", "{}.pyc", "{}-stubs/__init__.pyi", "{}/__init__.pyi", "{}",
)  # fmt: skip
LAYOUTS_BY_CHANCE = int(os.environ.get("LAYOUTS", "25"))
"""A longer search is asked for by the environment variable."""
TREES = st.dictionaries(
    st.tuples(
        st.sampled_from(["script", "first", "second", "far"]),
        st.lists(st.sampled_from(["a", "b", "A"]), max_size=2).map("/".join),
        st.sampled_from(["a", "b", "A"]),
        st.sampled_from(PIECES),
    ).map(lambda drawn: "/".join(part for part in (drawn[0], drawn[1], drawn[3].format(drawn[2])) if part)),
    st.sampled_from(["", "", "", LINK + "../script/a", LINK + "a", LINK + "../first"]),
    min_size=2,
    max_size=14,
)


@settings(max_examples=LAYOUTS_BY_CHANCE, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tree=TREES, names=st.lists(names_below(3), min_size=1, max_size=12, unique=True))
def test_layouts_by_chance(
    tree: dict[str, str],
    names: list[str],
    tmp_path_factory: pytest.TempPathFactory,
    prefix: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    root = tmp_path_factory.mktemp("layout")
    for name, text in tree.items():
        try:
            lay(root, {name: text})
        except OSError:
            # A file lies where a folder would have to, or is a link that leads nowhere.
            continue
    (prefix / "lib" / VERSION / "site-packages" / "far.pth").write_text(f"{root / 'far'}\n")
    python = ask_python(root, prefix, "script/train.py", names, path=("first", "second"))
    (root / "script" / "train.py").touch()
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(str(root / one) for one in ("first", "second")))
    found = ask_us(root, "script/train.py", names)
    for name in names:
        origin, locations, outcome = python[name]
        ours = told(found[name], root)
        if origin is not None and not origin.endswith(".py"):
            source = Path(origin).with_suffix(".py")
            assert ours == (os.path.relpath(source, root) if source.is_file() else None), name
        elif outcome == "found":
            expected = origin and os.path.relpath(origin, root)
            assert ours == (expected or tuple(os.path.relpath(one, root) for one in locations)), name
        elif isinstance(ours, str):
            # Python stops at the first package of the name; we look on, but never at another name.
            assert ours.removesuffix(".py").removesuffix("/__init__").endswith("/" + name.replace(".", "/"))


def test_what_no_path_has_is_looked_for_above_and_in_the_project(tmp_path: Path, prefix: Path) -> None:
    lay(
        tmp_path,
        {
            "p/pyproject.toml": "",
            "p/jobs/deep/train.py": "",
            "p/jobs/common.py": "",
            "p/lib/nets.py": "",
            "p/one/twice.py": "",
            "p/two/twice.py": "",
            "p/jobs/tools/near.py": "",
            "p/tools/near.py": "",
            "p/.hidden/secret.py": "",
            "p/build/made.py": "",
            "p/env3/pyvenv.cfg": "",
            "p/env3/foreign.py": "",
            "p/typings/stubbed.pyi": "",
            "p/typed/stubbed.py": "",
        },
    )
    found = ask_us(
        tmp_path / "p",
        "jobs/deep/train.py",
        ["common", "nets", "twice", "near", "secret", "made", "foreign", "tools.near", "stubbed", "profile"],
    )
    told_of = {name: told(answer, tmp_path / "p") for name, answer in found.items()}
    assert told_of == {
        "common": "jobs/common.py",
        "nets": "lib/nets.py",
        "twice": None,
        "near": "jobs/tools/near.py",
        "secret": None,
        "made": None,
        "foreign": None,
        "tools.near": "tools/near.py",
        "stubbed": "typed/stubbed.py",
        "profile": None,
    }


def test_a_stub_alone_says_that_a_name_is_a_library(tmp_path: Path, prefix: Path) -> None:
    lay(tmp_path, {"p/pyproject.toml": "", "p/quick.pyi": "", "p/vendor/old/quick.py": "", "p/train.py": ""})
    assert ask_us(tmp_path / "p", "train.py", ["quick"]) == {"quick": None}


def test_the_folders_that_the_project_names(tmp_path: Path, prefix: Path) -> None:
    lay(
        tmp_path,
        {
            "p/pyproject.toml": '[tool.tapecheck]\nextra-paths = ["code/python", "../beside", "nowhere"]\n',
            "p/code/python/nets.py": "",
            "p/code/python/statistics.py": "",
            "beside/far.py": "",
            "p/src/pkg/__init__.py": "",
            "p/tests/conftest.py": "",
            "p/tests/helpers.py": "",
            "p/helpers.py": "",
            "p/tests/unit/test_a.py": "",
        },
    )
    root = tmp_path / "p"
    found = ask_us(root, "tests/unit/test_a.py", ["nets", "far", "pkg", "helpers", "statistics"])
    assert {name: told(answer, root) for name, answer in found.items()} == {
        "nets": "code/python/nets.py",
        "far": "../beside/far.py",
        "pkg": "src/pkg/__init__.py",
        "helpers": "tests/helpers.py",
        "statistics": "code/python/statistics.py",
    }


def test_modules_are_searched_from_where_their_program_starts(tmp_path: Path, prefix: Path) -> None:
    lay(tmp_path, {"p/pyproject.toml": "", "p/jobs/train.py": "", "p/jobs/common.py": "", "p/lib/nets.py": "",
                   "p/lib/common.py": "", "p/lib/only.py": ""})  # fmt: skip
    root = tmp_path / "p"
    search = Search(str(root / "jobs/train.py"))
    nets = search.find("nets", 0, str(root / "jobs/train.py"))
    assert nets is not None and nets.file is not None
    assert told(search.find("common", 0, nets.file), root) == "jobs/common.py"
    assert told(search.find("only", 0, nets.file), root) == "lib/only.py"


def test_submodules_by_the_folders_of_a_package(tmp_path: Path, prefix: Path) -> None:
    lay(tmp_path, {"p/space/a.py": "", "p/train.py": "", "p/pkg/__init__.py": "", "p/pkg/b.py": ""})
    search = Search(str(tmp_path / "p/train.py"))
    for package, inner, file in (("space", "a", "space/a.py"), ("pkg", "b", "pkg/b.py")):
        found = search.find(package, 0, str(tmp_path / "p/train.py"))
        assert found is not None
        assert told(search.inside(found.folders, inner), tmp_path / "p") == file
        assert search.inside(found.folders, "none") is None


def test_files_are_named_as_the_program_was(tmp_path: Path, prefix: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lay(tmp_path, {"p/jobs/train.py": "", "p/jobs/nets.py": "", "p/pyproject.toml": "", "p/src/far.py": ""})
    monkeypatch.chdir(tmp_path / "p" / "jobs")
    search = Search("./train.py")
    files = [search.find(name, 0, "./train.py") for name in ("nets", "train", "far")]
    assert [found and found.file for found in files] == ["nets.py", "./train.py", str(tmp_path / "p/src/far.py")]
    monkeypatch.chdir(tmp_path / "p")
    search = Search("jobs/train.py")
    files = [search.find(name, 0, "jobs/train.py") for name in ("nets", "far")]
    assert [found and found.file for found in files] == ["jobs/nets.py", "src/far.py"]


def test_open_documents_are_files(tmp_path: Path, prefix: Path) -> None:
    lay(tmp_path, {"p/train.py": ""})
    shown = {str(tmp_path / "p" / name) for name in ("pkg/__init__.py", "pkg/nets.py", "space/inner/new.py")}
    search = Search(str(tmp_path / "p/train.py"), shown)
    for file in ("pkg/__init__.py", "pkg/nets.py", "space/inner/new.py"):
        name = file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        assert told(search.find(name, 0, str(tmp_path / "p/train.py")), tmp_path / "p") == file


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="every folder can be read by root")
def test_folders_that_cannot_be_read(tmp_path: Path, prefix: Path) -> None:
    lay(tmp_path, {"p/train.py": "", "p/closed/a.py": "", "p/pyproject.toml": ""})
    (tmp_path / "p/closed").chmod(0)
    try:
        assert ask_us(tmp_path / "p", "train.py", ["closed.a", "other"]) == {"closed.a": None, "other": None}
    finally:
        (tmp_path / "p/closed").chmod(0o755)


def test_a_folder_that_fails_to_be_listed_is_empty(
    tmp_path: Path, prefix: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lay(tmp_path, {"p/train.py": "", "p/closed/a.py": "", "p/pyproject.toml": ""})
    scandir = os.scandir

    def refused(folder: str) -> object:
        if str(folder).endswith("closed"):
            raise PermissionError(13, "Permission denied", folder)
        return scandir(folder)

    monkeypatch.setattr(os, "scandir", refused)
    found = ask_us(tmp_path / "p", "train.py", ["closed.a", "other", "a"])
    assert found == {"closed.a": None, "other": None, "a": None}


@pytest.mark.parametrize("name", ["", "..", "a..b", "a/b", "../a", "a\0b", "x" * 5000, ".".join("a" * 500)])
@pytest.mark.parametrize("level", [0, 1, 400])
def test_names_that_are_none(name: str, level: int, tmp_path: Path, prefix: Path) -> None:
    lay(tmp_path, {"p/train.py": "", "p/a/b.py": "", "a.py": ""})
    found = Search(str(tmp_path / "p/train.py")).find(name, level, str(tmp_path / "p/train.py"))
    assert found is None or found.file is None or name == "a..b"


def test_a_listing_is_read_again_once_the_folder_has_changed(tmp_path: Path) -> None:
    folders = Folders(most=2)
    (tmp_path / "a.py").touch()
    os.utime(tmp_path, (time.time() - 100, time.time() - 100))
    first = folders.listing(str(tmp_path))
    assert first.names == {"a.py"}
    assert folders.listing(str(tmp_path)) is first
    (tmp_path / "b.py").touch()
    (tmp_path / "picture.png").touch()
    fresh = folders.listing(str(tmp_path))
    assert fresh.names == {"a.py", "b.py"}
    assert folders.listing(str(tmp_path)) is not fresh, "changed so recently that the next change may not show"
    for name in ("x", "y", "z"):
        (tmp_path / name).mkdir()
        os.utime(tmp_path / name, (1, 1))
        folders.listing(str(tmp_path / name))
    assert folders.listing(str(tmp_path / "nowhere")).names == frozenset()
    assert len(folders._kept) == 2


def test_a_folder_of_too_many_files_is_asked_for_single_names(
    tmp_path: Path, prefix: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tapecheck.source.folders._MOST_ENTRIES", 3)
    lay(tmp_path, {f"p/m{number}.py": "" for number in range(9)} | {"p/pkg/__init__.py": "", "p/train.py": ""})
    found = ask_us(tmp_path / "p", "train.py", ["m0", "m8", "pkg", "none"])
    assert [told(answer, tmp_path / "p") for answer in found.values()] == ["m0.py", "m8.py", "pkg/__init__.py", None]


def test_an_installed_program_sees_its_own_package_only(tmp_path: Path, prefix: Path) -> None:
    site = prefix / "lib" / VERSION / "site-packages"
    lay(site, {"mine/__init__.py": "", "mine/a.py": "", "mine/b.py": "", "theirs/__init__.py": ""})
    search = Search(str(site / "mine/a.py"))
    assert told(search.find("mine.b", 0, str(site / "mine/a.py")), site) == "mine/b.py"
    assert search.find("theirs", 0, str(site / "mine/a.py")) is None


def test_an_editable_project_whose_finder_is_not_understood(tmp_path: Path, prefix: Path) -> None:
    site = prefix / "lib" / VERSION / "site-packages"
    url = (tmp_path / "far").as_uri()
    lay(site, {"far-1.0.dist-info/direct_url.json": f'{{"url": "{url}", "dir_info": {{"editable": true}}}}'})
    lay(tmp_path, {"far/flat.py": "", "far/src/deep/__init__.py": "", "p/train.py": ""})
    found = ask_us(tmp_path / "p", "train.py", ["flat", "deep", "none"])
    assert [told(answer, tmp_path) for answer in found.values()] == ["far/flat.py", "far/src/deep/__init__.py", None]


def test_what_an_installer_put_into_a_folder_on_the_path_is_a_library(
    tmp_path: Path, prefix: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = {"wrapping/__init__.py": "", "wrapping-1.0.dist-info/METADATA": ""}
    lay(tmp_path, {f"target/{name}": text for name, text in package.items()})
    lay(tmp_path, {"own/wrapping/__init__.py": "", "p/train.py": "", "target/train.py": ""})
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "target"))
    assert ask_us(tmp_path, "p/train.py", ["wrapping"]) == {"wrapping": None}
    # Beside the program it may be the user's.
    assert ask_us(tmp_path, "target/train.py", ["wrapping"])["wrapping"] is not None
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "own"))
    assert ask_us(tmp_path, "p/train.py", ["wrapping"])["wrapping"] is not None
