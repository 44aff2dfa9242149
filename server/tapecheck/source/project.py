"""What holds for a file: the configuration of its project, and what somebody has chosen in its place.

Nothing here is kept between two calls: who checks a file looks its project up once and hands it on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from tapecheck.source.configuration import (
    Configuration,
    configuration_at,
    configuration_below,
    configuration_for,
    is_address,
)
from tapecheck.source.selection import Selection, Wanted

Made = TypeVar("Made")

MOST_EFFORT = 100
"""The most that the work of an analysis may be multiplied by: minutes for a file that reaches the limit again."""


@dataclass(frozen=True, slots=True)
class Setup:
    """What a command line or an editor says in the place of what files and folders do.

    `config` is the one configuration file that holds for everything, `isolated` says that none does. `interpreters` are
    the Pythons that the user has chosen, as folder and path of the executable; the one under "" is for every other
    folder. `effort` multiplies the work that the analysis of a file may take.
    """

    config: str | None = None
    isolated: bool = False
    interpreters: tuple[tuple[str, str], ...] = ()
    effort: int = 1

    def with_interpreters(self, chosen: Mapping[str, str]) -> Setup:
        """Return the same with other Pythons, by folder."""
        # Links are not followed: the places that it is held against are as they were given.
        found = [(str(Path(folder).absolute()) if folder else "", path) for folder, path in chosen.items() if path]
        return replace(self, interpreters=tuple(found))

    def configuration_for(self, path: str) -> Configuration:
        """Return the configuration that holds for a file: the nearest above it, unless another was chosen."""
        if self.isolated:
            return Configuration()
        if self.config is not None:
            return configuration_at(Path(self.config).absolute()) or Configuration(self.config)
        return configuration_for(path)

    def configuration_below(self, folder: str, above: Configuration) -> Configuration:
        """Return what holds for the files of a folder, given what holds for those of the folder that it lies in."""
        return above if self.isolated or self.config is not None else configuration_below(folder, above)

    def project_of(self, path: str) -> Project:
        """Return what holds for a file; this is where its configuration is looked up."""
        return Project(path, self.configuration_for(path), self)


class Shared:
    """What was worked out for one file of a command and serves its others: one object of each kind."""

    def __init__(self) -> None:
        self._made: dict[type, object] = {}

    def one(self, kind: type[Made], make: Callable[[], Made]) -> Made:
        """Return the object of a kind, made where there is none yet."""
        found = self._made.get(kind)
        if not isinstance(found, kind):
            found = self._made[kind] = make()
        return found


@dataclass(frozen=True, slots=True)
class Project:
    """What holds for the file at `path`, looked up once; `setup` is what the same holds by for other files."""

    path: str
    configuration: Configuration
    setup: Setup = Setup()
    shared: Shared = field(default_factory=Shared, repr=False, compare=False)

    def of(self, path: str) -> Project:
        """Return what holds for a file that belongs to the same check: one that is imported, or an edited copy."""
        return self if path == self.path else self.setup.project_of(path)

    def rules(self, asked: Selection) -> Wanted:
        """Return the rules that are wanted in the file; `asked` is what the command line or the editor says of them."""
        return self.configuration.rules_for(self.path, asked)


class Projects:
    """The projects of the files of one command: the configuration of each folder is looked up once.

    Sent to another process, it goes without what it has looked up.
    """

    def __init__(self, setup: Setup | None = None) -> None:
        self.setup = setup or Setup()
        self._known: dict[str, Configuration] = {}
        self._shared = Shared()

    def __reduce__(self) -> tuple[type[Projects], tuple[Setup]]:
        return Projects, (self.setup,)

    def of(self, path: str) -> Project:
        """Return what holds for a file."""
        # The nearest file above holds, so files of one folder have the same.
        folder = path if is_address(path) else str(Path(path).absolute().parent)
        configuration = self._known.get(folder)
        if configuration is None:
            configuration = self._known[folder] = self.setup.configuration_for(path)
        return Project(path, configuration, self.setup, self._shared)

    def below(self, folder: str, above: Configuration) -> Configuration:
        """Return what holds for the files of a folder, given what holds for those of the folder that it lies in."""
        configuration = self._known[str(Path(folder).absolute())] = self.setup.configuration_below(folder, above)
        return configuration
