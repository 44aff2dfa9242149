"""The Python environment of a project, read as text: what is installed there, and the user's own editable projects.

Nothing of an environment is executed. `import` lines of `.pth` files, which Python would run, are only looked at for
the name of a finder that setuptools has written, whose tables are read as literals.
"""

from __future__ import annotations

import ast
import functools
import json
import operator
import os
import re
import sys
import sysconfig
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

from tapecheck.source.disk import read_regular
from tapecheck.source.folders import Listing, View
from tapecheck.source.parsing import parse

_MOST_TEXT = 250_000
_MOST_PROJECTS = 200
_MOST_LINES = 1_000
_MOST_PLACES = 250
_IN_PROJECT = (".venv", "venv", "env", ".env")
_INSTALLED = ("site-packages", "dist-packages")
_FINDER = re.compile(r"^import[ \t]+([A-Za-z_]\w*)\s*(?:;|$)")
_VERSION = re.compile(r"(?:python|pypy)(\d+)\.(\d+)t?$")


@dataclass(frozen=True, slots=True)
class Place:
    """A folder that modules are looked for in; `own` where what lies there may be the user's."""

    folder: str
    own: bool


@dataclass(slots=True)
class Environment:
    """What an environment adds to the import path, in Python's order.

    `mapping` are modules and packages that editable projects keep elsewhere, `namespaces` the folders of their
    namespace packages; both by dotted name. `projects` are the folders of editable projects of which nothing says
    what inside is on the path, as where a finder of another build backend looks for it.
    """

    prefix: str
    places: list[Place] = field(default_factory=list)
    mapping: dict[str, str] = field(default_factory=dict)
    namespaces: dict[str, list[str]] = field(default_factory=dict)
    projects: list[str] = field(default_factory=list)


_read: dict[str, tuple[list[object], list[Listing], Environment]] = {}
"""Environments by prefix, each with what it was read from."""


def installed(path: str) -> bool:
    """Return whether a path lies among installed packages."""
    return any(part in _INSTALLED for part in path.split(os.sep))


def prefix_for(folder: str, root: str | None, chosen: Iterable[tuple[str, str]] = ()) -> str:
    """Return the prefix of the environment that programs of a folder run in.

    It is the one of the interpreter that was chosen for the folder, else the active one (`VIRTUAL_ENV`,
    `CONDA_PREFIX`), else a virtual environment in the folder or the nearest above it, as far as the project's root
    where it has one, else the one that runs this process.

    Args:
        folder: where the program lies.
        root: the root of its project, None where there is none.
        chosen: the Pythons that the user has chosen, as absolute folder ("" for every other one) and path.
    """
    python = _interpreter_for(folder, chosen)
    if python is not None:
        return python
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        active = os.environ.get(variable)
        if active and os.path.isdir(active):
            return os.path.abspath(active)
    inside = folder
    while True:
        for name in _IN_PROJECT:
            candidate = os.path.join(inside, name)
            if os.path.isfile(os.path.join(candidate, "pyvenv.cfg")):
                return candidate
        if inside == root or os.path.dirname(inside) == inside:
            break
        inside = os.path.dirname(inside)
    return sys.prefix


def _interpreter_for(folder: str, given: Iterable[tuple[str, str]]) -> str | None:
    """Return the prefix of the interpreter chosen for a folder; links are not followed, since a venv is one."""
    best = ""
    pythons = dict(given)
    for chosen in pythons:
        if len(chosen) > len(best) and (folder == chosen or folder.startswith(chosen.rstrip(os.sep) + os.sep)):
            best = chosen
    python = pythons.get(best)
    if python is None or not os.path.dirname(python):
        return None
    home = os.path.dirname(os.path.abspath(python))
    if os.path.isfile(os.path.join(home, "pyvenv.cfg")) or os.path.basename(home).lower() not in ("bin", "scripts"):
        return home
    return os.path.dirname(home)


def read_environment(prefix: str, view: View) -> Environment:
    """Return what an environment adds to the import path; read again when its folders or `.pth` files have changed.

    Args:
        prefix: the folder of the environment; one that is none adds nothing.
        view: the folders as the analysis sees them.
    """
    sites = _sites(prefix, view)
    listings = [view.listing(site) for site in sites]
    pth_files = [
        (site, os.path.join(site, name))
        for site, listing in zip(sites, listings)
        for name in sorted(listing.names)
        if name.endswith(".pth") and not name.startswith(".")
    ]
    stamp: list[object] = [*sites, *map(_stamp, (file for _, file in pth_files))]
    known = _read.get(prefix)
    if known is not None and known[0] == stamp and all(map(operator.is_, known[1], listings)):
        return known[2]
    found = _read_sites(Environment(prefix), list(zip(sites, listings)), pth_files)
    _read[prefix] = (stamp, listings, found)
    return found


def _read_sites(
    found: Environment, sites: Sequence[tuple[str, Listing]], pth_files: Sequence[tuple[str, str]]
) -> Environment:
    """Add what the folders of an environment hold, and what their `.pth` files name, each given with its folder."""
    for site, listing in sites:
        found.places.append(Place(site, False))
        for home, file in pth_files:
            if home == site:
                _read_pth(site, _text(file) or "", found)
        _read_projects(site, listing, found)
    known_of = [place.folder for place in found.places if place.own]
    known_of += [*found.mapping.values(), *(folder for folders in found.namespaces.values() for folder in folders)]
    found.projects = [
        project for project in found.projects
        if not any((folder + os.sep).startswith(project + os.sep) for folder in known_of)
    ]  # fmt: skip
    return found


def _sites(prefix: str, view: View) -> list[str]:
    """Return the folders of an environment that packages are installed in."""
    sites: list[str] = []
    if prefix == sys.prefix:
        sites += _own_sites()
    config = _text(os.path.join(prefix, "pyvenv.cfg"))
    sites += _library_folders(prefix, view)
    values = dict(_pair(line) for line in (config or "").splitlines())
    if config is None or values.get("include-system-site-packages", "").lower() == "true":
        home = values.get("home")
        if home:
            sites += _library_folders(os.path.dirname(home), view)
        user = os.environ.get("PYTHONUSERBASE") or os.path.expanduser(os.path.join("~", ".local"))
        sites += _library_folders(user, view)
    return list(dict.fromkeys(os.path.abspath(site) for site in sites))


@functools.cache
def _own_sites() -> tuple[str, str]:
    """Return the folders that this process has its packages in: sysconfig works out every path for each question."""
    paths = sysconfig.get_paths()
    return paths["purelib"], paths["platlib"]


def _library_folders(prefix: str, view: View) -> list[str]:
    """Return the folders of installed packages under a prefix, those of its newest Python where it has several."""
    found = []
    for lib in ("lib", "lib64"):
        under = os.path.join(prefix, lib)
        versions = [
            (int(match[1]), int(match[2]), name)
            for name in view.listing(under).names
            if (match := _VERSION.match(name)) is not None
        ]
        if versions:
            found += [os.path.join(under, max(versions)[2], name) for name in _INSTALLED]
        found += [os.path.join(under, "python3", name) for name in _INSTALLED]
    found.append(os.path.join(prefix, "Lib", "site-packages"))
    return [folder for folder in found if os.path.isdir(folder)]


def _pair(line: str) -> tuple[str, str]:
    name, _, value = line.partition("=")
    return name.strip().lower(), value.strip()


def _read_pth(site: str, text: str, found: Environment) -> None:
    """Take in a `.pth` file of a folder of installed packages, line by line."""
    for line in text.splitlines()[:_MOST_LINES]:
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        if line.startswith(("import ", "import\t")):
            finder = _FINDER.match(line)
            if finder is not None:
                _read_finder(_text(os.path.join(site, f"{finder[1]}.py")), found)
            continue
        folder = os.path.abspath(os.path.join(site, line))
        if len(found.places) >= _MOST_PLACES:
            return
        known = any(place.folder == folder for place in found.places)
        if not known and "\0" not in folder and os.path.isdir(folder):
            found.places.append(Place(folder, not installed(folder)))


def _read_finder(text: str | None, found: Environment) -> None:
    """Take in the tables of a finder that setuptools has written for an editable project."""
    if text is None or "MAPPING" not in text:
        return
    try:
        tree = parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for node in tree.body:
        match node:
            case (
                ast.AnnAssign(target=ast.Name(id="MAPPING" | "NAMESPACES" as kind), value=ast.expr() as value)
                | ast.Assign(targets=[ast.Name(id="MAPPING" | "NAMESPACES" as kind)], value=value)
            ):
                _read_table(kind, value, found)


def _read_table(kind: str, value: ast.expr, found: Environment) -> None:
    try:
        table = ast.literal_eval(value)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return
    rows = table.items() if isinstance(table, dict) else ()
    for name, where in ((name, where) for name, where in rows if isinstance(name, str)):
        if kind == "MAPPING" and isinstance(where, str):
            folders = _elsewhere([where])
            if folders:
                found.mapping.setdefault(name, folders[0])
        elif kind == "NAMESPACES" and isinstance(where, list):
            found.namespaces.setdefault(name, []).extend(_elsewhere(where))


def _elsewhere(paths: list[object]) -> list[str]:
    """Those of the paths that lie in no folder of installed packages."""
    normal = [os.path.abspath(path) for path in paths if isinstance(path, str) and "\0" not in path]
    return [path for path in normal if not installed(path)]


def _read_projects(site: str, listing: Listing, found: Environment) -> None:
    """Take in the folders of editable projects, as `direct_url.json` (PEP 610) names them."""
    for name in sorted(listing.names):
        if len(found.projects) >= _MOST_PROJECTS:
            return
        if not name.endswith(".dist-info"):
            continue
        text = _text(os.path.join(site, name, "direct_url.json"))
        if text is None:
            continue
        try:
            said = json.loads(text)
            editable = said["dir_info"]["editable"] is True
            folder = _folder_of(said["url"])
        except (ValueError, TypeError, KeyError, RecursionError):
            continue
        if editable and folder and not installed(folder) and folder not in found.projects:
            found.projects.append(folder)


def _folder_of(address: str) -> str:
    """Return the folder that an address names, empty for one that is no file's."""
    url = urlsplit(address)
    if url.scheme != "file":
        return ""
    if os.name != "nt":
        return os.path.abspath(unquote(url.path))
    # It brings the modules for networks with it.
    from urllib.request import url2pathname

    return os.path.abspath(url2pathname(url.path))


def _stamp(path: str) -> tuple[int, int]:
    try:
        stat = os.stat(path)
    except OSError:
        return (0, 0)
    return stat.st_mtime_ns, stat.st_size


def _text(path: str) -> str | None:
    """Return the text of a small file; None where there is none that can be read."""
    try:
        data = read_regular(path, _MOST_TEXT)
    except (OSError, ValueError):
        return None
    return None if len(data) > _MOST_TEXT else data.decode("utf-8-sig", errors="surrogateescape")
