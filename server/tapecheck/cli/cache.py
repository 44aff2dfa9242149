"""Results of `check` on disk: used again as long as nothing that they were worked out from has changed.

An entry is found by the file's path and by what was asked of it, and holds for the text of the file, the configuration,
this version of Tapecheck, the modules that its imports led to and their texts. Entries lie in the user's own cache
folder, never in the folder that is checked, and are read without executing anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tapecheck.report import Checked
from tapecheck.source import Source, stored
from tapecheck.source.callers import Callers
from tapecheck.source.modules import SOURCES, Modules, Question
from tapecheck.source.project import Project
from tapecheck.source.search import Found, torch_of
from tapecheck.source.stored import digest
from tapecheck.torchfacts.versions import several

if TYPE_CHECKING:
    from tapecheck.check import Report

_MOST_ENTRIES = 20_000


@dataclass(frozen=True, slots=True)
class Entry:
    """One result, with the answers that its imports got and digests of the texts that were read.

    `named` are functions and methods, with whether another file of the project may name them, `trained` files that the
    fixes edit, with whether another program may train by them.
    """

    text: str
    imports: tuple[tuple[Question, Found | None], ...]
    texts: tuple[tuple[str, str], ...]
    checked: Checked
    named: tuple[tuple[str, bool, bool], ...] = ()
    trained: tuple[tuple[str, bool], ...] = ()


def load(folder: str, source: Source, asked: object, project: Project) -> Checked | None:
    """Return the result for a file, None where there is none that still holds."""
    try:
        entry = stored.unpacked(_place(folder, source, asked, project).read_bytes(), __name__)
    except (OSError, stored.Unreadable):
        return None
    if not isinstance(entry, Entry) or entry.text != digest(source.text):
        return None
    modules = Modules(source.path, SOURCES, project)
    if any(modules.ask(question) != found for question, found in entry.imports):
        return None
    callers = Callers(project, {})
    if any(callers.may_be_unrecorded(name, method=method) != known for name, method, known in entry.named):
        return None
    own = {str(Path(one).absolute()) for one in (source.path, *(path for path, _ in entry.texts))}
    if any(Callers(project.of(path), {}).may_train(own) != known for path, known in entry.trained):
        return None
    return entry.checked if all(_digest_of(modules, path) == known for path, known in entry.texts) else None


def save(folder: str, source: Source, asked: object, report: Report, checked: Checked) -> None:
    """Keep a result; where that fails (a full disk, a folder that may not be written) there is none next time."""
    interpretation = report.interpretation
    texts = tuple((path, digest(text) if text is not None else "") for path, text in interpretation.read.items())
    named = tuple((*asked_for, known) for asked_for, known in interpretation.named.items())
    entry = Entry(
        digest(source.text),
        tuple(interpretation.imports.items()),
        texts,
        checked,
        named,
        tuple(interpretation.trained.items()),
    )
    data = stored.packed(entry)
    if data is not None:
        stored.write(_place(folder, source, asked, report.project), data)


def prune(folder: str) -> None:
    """Delete the oldest half of the entries where they have become too many."""
    try:
        entries = [entry for entry in Path(folder).glob("??/*") if entry.is_file()]
        if len(entries) <= _MOST_ENTRIES:
            return
        entries.sort(key=lambda entry: entry.stat().st_mtime)
        for entry in entries[: len(entries) // 2]:
            entry.unlink(missing_ok=True)
    except OSError:
        return


def _place(folder: str, source: Source, asked: object, project: Project) -> Path:
    torch = torch_of(project) if several() else None
    name = digest(repr((stored.this_version(), str(Path(source.path).absolute()), source.path, asked, project, torch)))
    return Path(folder) / name[:2] / name[2:]


def _digest_of(modules: Modules, path: str) -> str:
    source = modules.source(path)
    return digest(source.text) if source is not None else ""
