"""What a project says in its pyproject.toml under `[tool.tapecheck]`: the rules it wants, what runs its files."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

from tapecheck.source.disk import is_file, read_regular

FILE = "pyproject.toml"
_KEYS = ("select", "ignore", "run", "launcher", "extra-paths")
_MAX_BYTES, _MAX_PARTS = 500_000, 100
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"|\'[^\']*\'')
_ADDRESS = re.compile(r"[A-Za-z][\w+.-]+:")
_TABLE = re.compile(r"^\[tool\.tapecheck\][ \t]*(?:#[^\r\n]*)?(?:\r\n|\n|$)", re.MULTILINE)
_IGNORE = re.compile(r"^[ \t]*ignore[ \t]*=[ \t]*\[", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Configuration:
    """What the pyproject.toml at `file` names; `problems` say what of it cannot be, for the user.

    `run` is the program that runs the files of the project which do not run by themselves: a script, or `-m` and a
    module, with arguments. `launcher` is the command that starts it in several processes. `extra_paths` are folders
    that imports are looked for in, relative to the file's own.
    """

    file: str | None = None
    select: tuple[str, ...] | None = None
    ignore: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    run: tuple[str, ...] = ()
    launcher: tuple[str, ...] = ()
    extra_paths: tuple[str, ...] = ()


_known: dict[str, tuple[tuple[int, int], Configuration | None]] = {}


def configuration_for(path: str) -> Configuration:
    """What holds for a file: the nearest pyproject.toml above it that has a table of ours."""
    if _ADDRESS.match(path):
        # A document without a file, known by its address.
        return Configuration()
    for folder in _above(path):
        file = folder / FILE
        try:
            stat = file.stat()
        except OSError:
            continue
        stamp = (stat.st_mtime_ns, stat.st_size)
        known = _known.get(str(file))
        if known is None or known[0] != stamp:
            known = _known[str(file)] = (stamp, _read(file))
        if known[1] is not None:
            return known[1]
    return Configuration()


def ignore_in_project(path: str, code: str) -> tuple[str, int, int, str] | None:
    """The edit of the project's pyproject.toml that switches a rule off: file, line, column, text to insert.

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
    newline = "\r\n" if "\r\n" in text else "\n"
    table = _TABLE.search(text)
    if table is None:
        gap = "" if not text or text.endswith(("\n", "\r")) else newline
        at, added = len(text), f'{gap}{newline}[tool.tapecheck]{newline}ignore = ["{code}"]{newline}'
    else:
        following = re.compile(r"^\[", re.MULTILINE).search(text, table.end())
        array = _IGNORE.search(text, table.end(), following.start() if following else len(text))
        if array is None:
            at, added = table.end(), f'ignore = ["{code}"]{newline}'
        else:
            some = bool(_table(before).get("ignore"))
            at, added = array.end(), f'"{code}", ' if some else f'"{code}"'
    try:
        after = _loads(text[:at] + added + text[at:])
    except ValueError:
        return None
    if set(_table(after).get("ignore", ())) != {code, *_table(before).get("ignore", ())}:
        return None
    line = text.count("\n", 0, at) + 1
    return file, line, at - (text.rfind("\n", 0, at) + 1) + 1, added


def _table(data: dict[str, Any]) -> dict[str, Any]:
    tool = data.get("tool")
    own = tool.get("tapecheck") if isinstance(tool, dict) else None
    return own if isinstance(own, dict) else {}


def _read(file: Path) -> Configuration | None:
    """The configuration of one file; None where it has no table of ours."""
    text = None
    try:
        text = _text(file)
        data = _loads(text)
    except IsADirectoryError:
        return None
    except (OSError, ValueError) as error:
        # Where it could not be looked into, nobody knows whether it has a table of ours.
        if text is not None and "tool.tapecheck" not in text and not isinstance(error, _Unread):
            return None
        said = error.strerror if isinstance(error, OSError) else error
        return Configuration(str(file), problems=(f"{file}: {said}",))
    tool = data.get("tool")
    if not isinstance(tool, dict) or "tapecheck" not in tool:
        return None
    table = _table(data)
    problems = [f"{file}: tool.tapecheck has no key {key!r}" for key in table if key not in _KEYS]
    rules: dict[str, tuple[str, ...]] = {}
    for key in _KEYS:
        value = table.get(key)
        if isinstance(value, list) and all(isinstance(item, str) for item in value):
            rules[key] = tuple(value)
        elif value is not None:
            problems.append(f"{file}: tool.tapecheck.{key} must be a list of texts")
    return Configuration(
        str(file), rules.get("select"), rules.get("ignore", ()), tuple(problems), rules.get("run", ()),
        rules.get("launcher", ()), rules.get("extra-paths", ()),
    )  # fmt: skip


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


def _loads(text: str) -> dict[str, Any]:
    """Parse TOML; raises ValueError for what is none or too deep."""
    # The parser's time grows with the square of a key's parts.
    if any(line.count(".") > _MAX_PARTS and _STRING.sub("", line).count(".") > _MAX_PARTS for line in text.split("\n")):
        raise _Unread(f"a line with more than {_MAX_PARTS} parts of a key, not read")
    try:
        data: dict[str, Any] = tomllib.loads(text.replace("\r\n", "\n"))
    except (RecursionError, MemoryError):
        raise _Unread("nested too deeply to be read") from None
    return data
