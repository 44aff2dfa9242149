"""What a project says in `tapecheck.toml`, or under `[tool.tapecheck]` in `pyproject.toml`.

The nearest file above a checked one holds for it; in one folder `tapecheck.toml` goes first. `KEYS` is the list of what
may stand there: the reader, the JSON schema (`tapecheck.source.schema`) and the table in the documentation have it.
"""

from __future__ import annotations

import difflib
import os
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

from tapecheck.source.disk import is_file, read_regular
from tapecheck.source.selection import PerFile, Selection, Wanted, severity_of
from tapecheck.source.suppress import rule_name

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

FILE = "pyproject.toml"
OWN_FILE = "tapecheck.toml"
SEVERITIES = ("error", "warning", "info", "hint")
LEVELS = (*SEVERITIES, "never")
"""What may make a command fail; `never` is no finding at all."""

_MAX_BYTES, _MAX_PARTS = 500_000, 100
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"|\'[^\']*\'')
_ADDRESS = re.compile(r"[A-Za-z][\w+.-]+:")
_TABLE = re.compile(r"^\[tool\.tapecheck\][ \t]*(?:#[^\r\n]*)?(?:\r\n|\n|$)", re.MULTILINE)
_HEADER = re.compile(r"^\[", re.MULTILINE)
_IGNORE = re.compile(r"^[ \t]*ignore[ \t]*=[ \t]*\[", re.MULTILINE)

Kind = Literal["rules", "strings", "patterns", "flag", "level", "string", "rules by pattern", "severities"]


@dataclass(frozen=True, slots=True)
class Key:
    """A key of the configuration: the kind of its value, and what it does."""

    kind: Kind
    about: str


KEYS: Mapping[str, Key] = MappingProxyType(
    {
        "select": Key("rules", "Rules to report: codes, prefixes of codes or names. All rules by default."),
        "extend-select": Key("rules", "Rules to report, too, beside `select`."),
        "ignore": Key("rules", "Rules not to report: codes, prefixes of codes or names."),
        "extend-ignore": Key("rules", "Rules not to report, too, beside `ignore`."),
        "per-file-ignores": Key("rules by pattern", "Rules not to report in the files that a pattern matches."),
        "extend-per-file-ignores": Key("rules by pattern", "The same, beside `per-file-ignores`."),
        "require-codes": Key("flag", "Report comments that switch off every rule: they are to name theirs."),
        "severity": Key("severities", "The severity of rules: error, warning, info or hint."),
        "fail-on": Key("level", "The least severity that makes the exit status of `tapecheck check` 1."),
        "exclude": Key("patterns", "What to leave out when folders are searched, in the place of the default."),
        "extend-exclude": Key("patterns", "What to leave out when folders are searched, beside `exclude`."),
        "respect-gitignore": Key("flag", "Leave out what .gitignore files name (default: true)."),
        "force-exclude": Key("flag", "Leave out excluded files even where the command line names them."),
        "baseline": Key("string", "The file whose findings `tapecheck check` leaves out."),
        "run": Key("strings", "What runs the project: a script, or -m and a module, with arguments."),
        "extra-paths": Key("strings", "Folders that imports are looked for in, relative to this file."),
        "launcher": Key("strings", "The command that starts that program, such as torchrun with its options."),
        "torch-version": Key("string", "The torch that the project runs with. By default the one that is installed."),
    }
)


@dataclass(frozen=True, slots=True)
class Configuration:
    """What the file at `file` says; `problems` tell the user what of it cannot be.

    `run` is the program that runs the files of the project which do not run by themselves: a script, or `-m` and a
    module, with arguments. `launcher` is the command that starts it in several processes. `extra_paths` are folders
    that imports are looked for in, relative to the file's own. Patterns are those of .gitignore files, relative to the
    folder of `file`; `exclude` None means the default.
    """

    file: str | None = None
    select: tuple[str, ...] | None = None
    extend_select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    extend_ignore: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    run: tuple[str, ...] = ()
    launcher: tuple[str, ...] = ()
    extra_paths: tuple[str, ...] = ()
    exclude: tuple[str, ...] | None = None
    extend_exclude: tuple[str, ...] = ()
    per_file_ignores: PerFile = ()
    extend_per_file_ignores: PerFile = ()
    require_codes: bool = False
    severity: tuple[tuple[str, str], ...] = ()
    fail_on: str | None = None
    respect_gitignore: bool = True
    force_exclude: bool = False
    baseline: str | None = None
    torch_version: str | None = None

    @property
    def folder(self) -> str:
        """The folder that patterns and paths are relative to."""
        return str(Path(self.file).parent) if self.file is not None else "."

    def rules_for(self, path: str, asked: Selection) -> Wanted:
        """Return the rules that are wanted in a file; `asked` is what the command line or the editor says of them."""
        own = Selection(self.select, (*self.ignore, *self.extend_ignore), self.extend_select)
        ignored: list[str] = []
        per_file = [(one, self.folder) for one in (*self.per_file_ignores, *self.extend_per_file_ignores)]
        if asked.per_file_ignores is not None:
            per_file = [(one, asked.folder) for one in asked.per_file_ignores]
        per_file += [(one, asked.folder) for one in asked.extend_per_file_ignores]
        for (pattern, rules), folder in per_file:
            if matches((pattern,), path, folder):
                ignored += rules
        return Wanted((own, asked), tuple(ignored))

    def severity_of(self, code: str, name: str) -> str | None:
        """Return the severity that the project gives a rule; None where it keeps its own."""
        return severity_of(self.severity, code, name)

    def settings(self) -> dict[str, Any]:
        """Return what the file says, by its keys; None where it says nothing and the default is no value of its own."""
        values = {key: getattr(self, key.replace("-", "_")) for key in KEYS}
        for key, value in values.items():
            if KEYS[key].kind in ("rules by pattern", "severities"):
                values[key] = {name: list(inner) if isinstance(inner, tuple) else inner for name, inner in value}
            elif isinstance(value, tuple):
                values[key] = list(value)
        return values

    def rules_named(self) -> list[tuple[str, str]]:
        """Return every name of rules in the file, with the key that it stands under."""
        named = [("select", name) for name in self.select or ()]
        named += [("extend-select", name) for name in self.extend_select]
        named += [("ignore", name) for name in self.ignore]
        named += [("extend-ignore", name) for name in self.extend_ignore]
        named += [("per-file-ignores", name) for _, names in self.per_file_ignores for name in names]
        named += [("extend-per-file-ignores", name) for _, names in self.extend_per_file_ignores for name in names]
        return named + [("severity", name) for name, _ in self.severity]


_known: dict[str, tuple[tuple[int, int], Configuration | None]] = {}
"""What was read, by file and its state: read again once that is another one."""


def configuration_for(path: str) -> Configuration:
    """Return the nearest configuration above a file."""
    if is_address(path):
        # A document without a file, known by its address.
        return Configuration()
    for folder in _above(path):
        for name in (OWN_FILE, FILE):
            found = configuration_at(folder / name)
            if found is not None:
                return found
    return Configuration()


def is_address(path: str) -> bool:
    """Return whether a document is known by its address and has no file."""
    return _ADDRESS.match(path) is not None


def configuration_below(folder: str, above: Configuration) -> Configuration:
    """Return what holds for the files of a folder, given what holds for those of the folder that it lies in."""
    return configuration_at(Path(folder, OWN_FILE)) or configuration_at(Path(folder, FILE)) or above


def configuration_at(file: Path) -> Configuration | None:
    """Return what a file says; None where there is no such file, or nothing of ours in it."""
    try:
        stat = file.stat()
    except OSError:
        return None
    stamp = (stat.st_mtime_ns, stat.st_size)
    known = _known.get(str(file))
    if known is None or known[0] != stamp:
        known = _known[str(file)] = (stamp, _read(file))
    return known[1]


def matches(patterns: tuple[str, ...], path: str, folder: str) -> bool:
    """Return whether patterns of a folder match a file below it, or a folder that holds the file.

    The path of a folder ends with a slash.
    """
    return verdict(patterns, path, folder) is True


def verdict(patterns: tuple[str, ...], path: str, folder: str) -> bool | None:
    """Return what patterns of a folder say of a path: True, False where one with `!` takes it back, else None."""
    if not patterns:
        return None
    end = "/" if path.endswith(("/", os.sep)) else ""
    try:
        relative = os.path.relpath(path, folder).replace(os.sep, "/")
    except (ValueError, OSError):  # another drive of Windows, a working directory that is gone
        return None
    if relative in (".", "..") or relative.startswith("../"):
        return None
    return _spec(patterns).check_file(relative + end).include


@lru_cache(maxsize=256)
def _spec(patterns: tuple[str, ...]) -> GitIgnoreSpec:
    from pathspec import GitIgnoreSpec

    return GitIgnoreSpec.from_lines(pattern for pattern in patterns if valid_pattern(pattern))


def valid_pattern(pattern: str) -> bool:
    """Return whether a line of a .gitignore file is a pattern."""
    from pathspec import GitIgnoreSpec

    try:
        GitIgnoreSpec.from_lines([pattern])
    except ValueError:
        return False
    return True


def _insertion(text: str, code: str, *, own: bool, some: bool) -> tuple[int, str]:
    """Return where a file of configuration gets what adds a rule to `ignore`, which lists `some` already or none."""
    newline = "\r\n" if "\r\n" in text else "\n"
    table = re.match("", text) if own else _TABLE.search(text)
    if table is None:
        gap = "" if not text or text.endswith(("\n", "\r")) else newline
        return len(text), f'{gap}{newline}[tool.tapecheck]{newline}ignore = ["{code}"]{newline}'
    following = _HEADER.search(text, table.end())
    array = _IGNORE.search(text, table.end(), following.start() if following else len(text))
    if array is None:
        return table.end(), f'ignore = ["{code}"]{newline}'
    return array.end(), f'"{code}", ' if some else f'"{code}"'


def ignore_in_project(path: str, code: str) -> tuple[str, int, int, str] | None:
    """Return the edit of the project's configuration that switches a rule off: file, line, column, text to insert.

    None where there is no such file, or none that can be edited with the rest left as it is.
    """
    file = configuration_for(path).file or next(
        (str(folder / FILE) for folder in _above(path) if is_file(folder / FILE)), None
    )
    if file is None:
        return None
    try:
        # Written back as it was read: line ends too.
        text = _text(file)
        before = _loads(text)
    except (OSError, ValueError):
        return None
    own = Path(file).name == OWN_FILE
    at, added = _insertion(text, code, own=own, some=bool(_table(before, own=own).get("ignore")))
    try:
        after = _loads(text[:at] + added + text[at:])
    except ValueError:
        return None
    if _ignored(after, own) != {code, *_ignored(before, own)}:
        return None
    line = text.count("\n", 0, at) + 1
    return file, line, at - (text.rfind("\n", 0, at) + 1) + 1, added


def _ignored(data: dict[str, object], own: bool) -> set[object]:
    names = _table(data, own=own).get("ignore")
    return set(names) if isinstance(names, list) else set()


_MENTIONED = re.compile(r"tool\W{1,12}tapecheck")
"""A table of ours in a file that is no TOML, however its name is written."""


def _table(data: dict[str, object], *, own: bool = False) -> dict[str, object]:
    if own:
        return data
    tool = data.get("tool")
    table = tool.get("tapecheck") if isinstance(tool, dict) else None
    return table if isinstance(table, dict) else {}


def _read(file: Path) -> Configuration | None:
    """Return the configuration of one file; None where it has no table of ours."""
    own = file.name != FILE
    text = None
    try:
        text = _text(file)
        data = _loads(text)
    except IsADirectoryError:
        return None
    except (OSError, ValueError) as error:
        # Where it could not be looked into, nobody knows whether it has a table of ours.
        if not own and text is not None and not _MENTIONED.search(text) and not isinstance(error, _Unread):
            return None
        said: object = error.strerror if isinstance(error, OSError) else error
        if isinstance(error, tomllib.TOMLDecodeError):
            said = f"not valid TOML, so that nothing in it is used: {error}"
        return Configuration(str(file), problems=(f"{file}: {said}",))
    tool = data.get("tool")
    if not own and (not isinstance(tool, dict) or "tapecheck" not in tool):
        return None
    if not own and isinstance(tool, dict) and not isinstance(tool["tapecheck"], dict):
        return Configuration(str(file), problems=(f"{file}: `tool.tapecheck` must be a table",))
    return parse(_table(data, own=own), str(file), own=own)


def parse(table: Mapping[str, object], file: str, *, own: bool = False) -> Configuration:
    """Return the configuration of a table; what of it cannot be is left out and said in `problems`.

    `own` says that the table is a file of ours, whose keys have no prefix.
    """
    reader = _Reader(file, "" if own else "tool.tapecheck.")
    values = {key: reader.value(key, value) for key, value in table.items()}
    read: dict[str, Any] = {key.replace("-", "_"): value for key, value in values.items() if value is not None}
    return Configuration(file, problems=tuple(reader.problems), **read)


@dataclass(slots=True)
class _Reader:
    """Reads values of one table and notes what is wrong with them."""

    file: str
    prefix: str
    problems: list[str] = field(default_factory=list)

    def value(self, key: str, value: object) -> object:
        """Return a value in the shape that `Configuration` has it; None where it cannot be used."""
        if key not in KEYS:
            hint = did_you_mean(key, KEYS)
            if key == "lint" and self.prefix:
                hint = "; its keys belong under [tool.tapecheck]"
            elif key == "lint":
                hint = "; its keys belong at the top of the file"
            elif key == "extend":
                hint = "; a configuration does not inherit from another"
            self.wrong(f"unknown key `{self.prefix}{key}`{hint}")
            return None
        match KEYS[key].kind:
            case "rules":
                return self.rules(key, value)
            case "strings" | "patterns" as kind:
                return self.strings(key, value, patterns=kind == "patterns")
            case "flag":
                return self.of_type(key, value, bool, "true or false")
            case "level":
                return self.one_of(key, value, LEVELS)
            case "string":
                return self.of_type(key, value, str, "a string")
            case kind if isinstance(value, dict):
                return self.severities(key, value) if kind == "severities" else self.per_pattern(key, value)
        return self.of_type(key, value, dict, "a table")

    def severities(self, key: str, table: dict[str, object]) -> tuple[tuple[str, str], ...]:
        levels = {name: self.one_of(f"{key}.{name}", level, SEVERITIES) for name, level in table.items()}
        return tuple((rule_name(name), level) for name, level in levels.items() if level is not None)

    def per_pattern(self, key: str, table: dict[str, object]) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """Return the rules that each pattern of a table names."""
        good = {pattern: names for pattern, names in table.items() if self.pattern(key, pattern)}
        rules = {pattern: self.rules(f'{key}."{pattern}"', names) for pattern, names in good.items()}
        return tuple((pattern, names) for pattern, names in rules.items() if names is not None)

    def of_type(self, key: str, value: object, kind: type, said: str) -> object:
        if isinstance(value, kind):
            return value
        self.wrong(f"`{self.prefix}{key}` must be {said}")
        return None

    def rules(self, key: str, value: object) -> tuple[str, ...] | None:
        names = self.strings(key, value)
        return tuple(map(rule_name, names)) if names is not None else None

    def strings(self, key: str, value: object, *, patterns: bool = False) -> tuple[str, ...] | None:
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            self.wrong(f"`{self.prefix}{key}` must be a list of strings")
            return None
        return tuple(item for item in value if not patterns or self.pattern(key, item))

    def pattern(self, key: str, pattern: str) -> bool:
        if valid_pattern(pattern):
            return True
        self.wrong(f"`{self.prefix}{key}`: {pattern!r} is not a valid pattern")
        return False

    def one_of(self, key: str, value: object, known: tuple[str, ...]) -> str | None:
        if isinstance(value, str) and value in known:
            return value
        listed = f"{', '.join(known[:-1])} or {known[-1]}"
        hint = did_you_mean(value, known) if isinstance(value, str) else ""
        self.wrong(f"`{self.prefix}{key}` must be {listed}{hint}")
        return None

    def wrong(self, said: str) -> None:
        self.problems.append(f"{self.file}: {said}")


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return a hint at what was meant by a word, to stand behind what is wrong; empty where nothing is near."""
    # The dashes of options are alike in all of them.
    names = {name.lstrip("-"): name for name in known}
    near = difflib.get_close_matches(word.replace("_", "-").lstrip("-"), names, 1)
    return f"; did you mean `{names[near[0]]}`?" if near else ""


class _Unread(ValueError):
    """The text is too large or too deep to be parsed."""


def _above(path: str) -> list[Path]:
    """Return the folders above a file, the nearest first; none where the working directory is gone."""
    try:
        return list(Path(path).absolute().parents)
    except OSError:
        return []


def _text(file: str | Path) -> str:
    """Return the text with its line ends as they are; raises OSError or ValueError."""
    data = read_regular(file, _MAX_BYTES)
    if len(data) > _MAX_BYTES:
        raise _Unread(f"larger than {_MAX_BYTES // 1000} kB, not read")
    return data.decode("utf-8")


def _loads(text: str) -> dict[str, object]:
    """Parse TOML; raises ValueError for what is none or too deep."""
    # The parser's time grows with the square of a key's parts.
    if any(line.count(".") > _MAX_PARTS and _STRING.sub("", line).count(".") > _MAX_PARTS for line in text.split("\n")):
        raise _Unread(f"a line with more than {_MAX_PARTS} parts of a key, not read")
    try:
        data: dict[str, object] = tomllib.loads(text.replace("\r\n", "\n"))
    except (RecursionError, MemoryError):
        raise _Unread("nested too deeply to be read") from None
    return data
