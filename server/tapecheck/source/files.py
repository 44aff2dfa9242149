"""The Python files and notebooks of a folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tapecheck.source.cells import SUFFIX
from tapecheck.source.configuration import Configuration, matches, verdict
from tapecheck.source.disk import exists, read_regular
from tapecheck.source.project import Projects

SKIPPED = frozenset(
    {"__pycache__", "__pypackages__", "_build", "build", "dist", "node_modules", "site-packages", "venv"}
)
_MOST_BYTES = 500_000


@dataclass(frozen=True, slots=True)
class Choice:
    """What to leave out beside what the project's configuration names; patterns are those of .gitignore files.

    `exclude` stands in the place of the configured one, `extend_exclude` is added; both are relative to the working
    directory. `respect_gitignore` and `force_exclude` None leave it to the configuration.
    """

    exclude: tuple[str, ...] | None = None
    extend_exclude: tuple[str, ...] = ()
    respect_gitignore: bool | None = None
    force_exclude: bool | None = None

    def leaves_out(self, path: str, project: Configuration) -> bool:
        """Return whether patterns leave out a file, or a folder whose path ends with a slash."""
        here = "."
        if self.exclude is not None:
            first = matches(self.exclude, path, here)
        elif project.exclude is not None:
            first = matches(project.exclude, path, project.folder)
        else:
            first = False
        return (
            first or matches(self.extend_exclude, path, here) or matches(project.extend_exclude, path, project.folder)
        )

    def skipped(self, project: Configuration) -> frozenset[str]:
        """Return the names of folders that are left out by default: none where somebody said what to leave out."""
        return SKIPPED if self.exclude is None and project.exclude is None else frozenset()


@dataclass(slots=True)
class _Ignored:
    """The .gitignore files that hold for the folders of one walk, outermost first: folder and patterns."""

    by_folder: dict[str, list[tuple[str, tuple[str, ...]]]] = field(default_factory=dict)

    def enter(self, folder: str) -> list[tuple[str, tuple[str, ...]]]:
        """Return what holds in a folder whose parent was entered before, or was not."""
        absolute = _absolute(folder)
        if absolute not in self.by_folder:
            parent = str(Path(absolute).parent)
            if _is_repository(absolute) or parent == absolute:
                above: list[tuple[str, tuple[str, ...]]] = []
            else:
                above = self.by_folder.get(parent, [])
            self.by_folder[absolute] = above + _patterns(absolute)
        return self.by_folder[absolute]

    def begin(self, top: str) -> None:
        """Enter the folders from the root of the repository down to `top`; a `top` that is ignored itself is asked
        for, so what ignores it does not hold.
        """
        absolute = _absolute(top)
        around = [Path(absolute), *Path(absolute).parents]
        root = next((index for index, folder in enumerate(around) if _is_repository(str(folder))), 0)
        for folder in reversed(around[: root + 1]):
            self.enter(str(folder))
        held = self.by_folder[absolute]
        self.by_folder[absolute] = [one for one in held if not matches(one[1], f"{absolute}/", one[0])]

    def leaves_out(self, path: str, folder: str) -> bool:
        """Return whether a file or folder (with a slash at its end) in `folder` is ignored; the innermost file that
        says anything decides.
        """
        for base, patterns in reversed(self.enter(folder)):
            said = verdict(patterns, path, base)
            if said is not None:
                return said
        return False


def _list(folder: str, names: list[str], below: list[str]) -> None:
    """Add the names of the files in a folder, and of the folders but links, to two lists."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if not _is_folder(entry):
                names.append(entry.name)
            elif not entry.is_symlink():
                below.append(entry.name)


def walk(
    top: str,
    on_error: Callable[[OSError], object] | None = None,
    choice: Choice | None = None,
    projects: Projects | None = None,
) -> Iterator[str]:
    """Yield the Python files and notebooks under a folder, in the order of names.

    Left out are folders that hold no code of the project (hidden ones, virtual environments, build outputs), what the
    configuration or `choice` excludes, and what .gitignore files name. Links to folders are not followed. Folders that
    cannot be read are told to `on_error`.
    """
    choice = choice or Choice()
    projects = projects or Projects()
    ignored = _Ignored()
    ignored.begin(top)
    waiting: list[tuple[str, Configuration | None]] = [(top, None)]
    while waiting:
        folder, above = waiting.pop()
        names: list[str] = []
        below: list[str] = []
        try:
            _list(folder, names, below)
        except OSError as error:
            if on_error is not None:
                on_error(error)
        # Joined as text: pathlib would write what the user wrote otherwise.
        project = (
            projects.of(os.path.join(folder, "x.py")).configuration  # noqa: PTH118
            if above is None
            else projects.below(folder, above)
        )
        gitignore = project.respect_gitignore if choice.respect_gitignore is None else choice.respect_gitignore
        skipped = choice.skipped(project)

        def wanted(path: str, parent: str) -> bool:
            if choice.leaves_out(path, project):  # noqa: B023 - asked within the turn of the loop
                return False
            return not (gitignore and ignored.leaves_out(path, parent))  # noqa: B023

        for name in sorted(names):
            if name.endswith((".py", SUFFIX)):
                path = os.path.join(folder, name)  # noqa: PTH118
                if wanted(path, folder):
                    yield path
        # The first one last: it is the next to be taken.
        for name in sorted(below, reverse=True):
            path = os.path.join(folder, name)  # noqa: PTH118
            if _may_hold_code(Path(path), skipped) and wanted(f"{path}/", folder):
                waiting.append((path, project))


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def left_out(path: str, choice: Choice, projects: Projects | None = None) -> bool:
    """Return whether a file that is named by itself is left out: only where `force_exclude` is wanted."""
    project = (projects or Projects()).of(path).configuration
    force = project.force_exclude if choice.force_exclude is None else choice.force_exclude
    if not force:
        return False
    try:
        inside = Path(os.path.relpath(path, project.folder)).parent.parts
    except (ValueError, OSError):  # another drive of Windows, a working directory that is gone
        return False
    skipped = choice.skipped(project)
    if any(part in skipped or (part.startswith(".") and part.strip(".")) for part in inside):
        return True
    return choice.leaves_out(path, project)


def _may_hold_code(folder: Path, skipped: frozenset[str]) -> bool:
    """Return whether a folder may hold code of the project: it is not hidden, no environment, no build output."""
    if folder.name.startswith(".") or folder.name in skipped:
        return False
    return not exists(folder / "pyvenv.cfg")


def _absolute(folder: str) -> str:
    """Return the absolute path, links not followed; the path itself where the working directory is gone."""
    try:
        return os.path.abspath(folder)  # noqa: PTH100
    except OSError:
        return folder


def _is_repository(folder: str) -> bool:
    return exists(Path(folder, ".git"))


def _patterns(folder: str) -> list[tuple[str, tuple[str, ...]]]:
    """Return the patterns of a folder's .gitignore, and of the repository's own list where it is the root of one."""
    found: list[tuple[str, tuple[str, ...]]] = []
    for file in (Path(folder, ".git", "info", "exclude"), Path(folder, ".gitignore")):
        try:
            lines = read_regular(file, _MOST_BYTES).decode(errors="replace").splitlines()
        except OSError:
            continue
        patterns = tuple(line for line in lines if line.strip() and not line.startswith("#"))
        if patterns:
            found.append((folder, patterns))
    return found
