"""What the renderers are given: one entry for each file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

from tapecheck.source.configuration import LEVELS
from tapecheck.tape import Called, Span

if TYPE_CHECKING:
    from tapecheck.fixes import Fix
    from tapecheck.rules.finding import Finding, Severity

SEVERITIES: tuple[Severity, ...] = ("error", "warning", "info", "hint")
"""What findings can be, the gravest first."""
DEFAULT_LEVEL = "info"

INCOMPLETE = "incomplete-analysis"
"""What reports call the place where a work limit ended an analysis."""

ProblemKind = Literal["io-error", "invalid-syntax", "internal-error"]


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a file could not be judged, whole or in part. `line` and `column` count from 1.

    `file` is the name of the cell where that is not the whole file's, `whole` says that no statement is left to check.
    """

    kind: ProblemKind
    message: str
    line: int = 1
    column: int = 1
    file: str = ""
    whole: bool = False

    def span(self, path: str) -> Span:
        """Return its place, where it is of the file with that path."""
        return Span(self.file or path, self.line, self.column, self.line, self.column)


@dataclass(frozen=True, slots=True)
class Incomplete:
    """What a work limit left out of the analysis of a file, and the line where that begins.

    `file` names the cell of a notebook that the line is counted in; empty where it is the file's own.
    """

    message: str
    line: int = 1
    file: str = ""


class Tried(Protocol):
    """What running a fix showed."""

    def text(self) -> str: ...

    def measured(self) -> dict[str, object]: ...


@dataclass(slots=True)
class Rewrite:
    """A file before and after it was edited.

    `done` has a line for each edit, `diff` is the whole change, `lines` are the lines of its text, or of each cell of a
    notebook, by name. `others` are the files that fixes of this one edit, too: they are written with it or not at all.
    """

    path: str
    before: bytes
    after: bytes
    done: list[str] = field(default_factory=list)
    diff: str = ""
    lines: dict[str, list[str]] = field(default_factory=dict)
    others: set[str] = field(default_factory=set)


@dataclass(slots=True)
class Checked:
    """What one file's check came to.

    `fixes` holds the fixes of each finding, preferred first, in the order of `findings`; it is empty where
    none were asked for. `trials` holds what running the preferred fix of each showed, in the same order. `texts`
    holds the lines of the cells of a notebook by the names that spans have. `elsewhere` are findings in files that
    this one imports: what its own code does with theirs.

    `fail_on` is the least severity that makes the command fail; where the findings were held against a run
    (`recorded`), only what it confirmed or found itself does. `rewrite` is what fixing the file changes: the findings
    are those that are left then. `read` are the real paths of the files that an edited one imports, `refused` has a
    line for each fix that was not made since it would hide another finding. `known` counts findings that a baseline has
    and that are not among them. `shared` says that a fix which may be made edits other files, too. `incomplete` is what
    was not analysed: it makes no command fail. Where there was no source to check (a module that is installed, or that
    does not exist) it was not `checked`.
    """

    path: str
    findings: list[Finding] = field(default_factory=list)
    fixes: list[list[Fix]] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    texts: dict[str, list[str]] = field(default_factory=dict)
    trials: Sequence[Tried | None] = ()
    elsewhere: list[Finding] = field(default_factory=list)
    fail_on: str = DEFAULT_LEVEL
    recorded: bool = False
    rewrite: Rewrite | None = None
    known: int = 0
    checked: bool = True
    cut_short: bool = False
    """Whether a run of it did not come to its end, or trained nothing: what was not found may be there."""
    shared: bool = False
    read: frozenset[str] = frozenset()
    refused: list[str] = field(default_factory=list)
    facts: str = ""
    """The version of torch whose facts the check used."""
    peak: list[dict[str, object]] = field(default_factory=list)
    """What a recorded run held where most was alive, for each of its processes."""
    incomplete: list[Incomplete] = field(default_factory=list)
    retained: frozenset[tuple[str, int]] = frozenset()
    """The lines of other files where its program needs the graph that a backward retains."""
    work: int = 0
    """Units of work that the dry run takes."""
    calls: frozenset[Called] = frozenset()
    """The functions that its program calls, in any file."""
    gaps: list[tuple[str, Span]] = field(default_factory=list)
    """Exceptions that the dry run went on past though no guess explains them: what the interpreter lacks."""

    withheld: bool = False
    """Whether it was fixed and not written."""
    unverified: bool = False
    """Whether it was not written since the fixes were to be verified and could not be."""

    def withhold(self, why: str) -> None:
        """Leave the file as it is, though it was fixed, and say why."""
        self.rewrite, self.withheld = None, True
        self.problems.append(Problem("io-error", f"not written: {why}"))

    def fails(self, finding: Finding) -> bool:
        """Return whether a finding makes the command fail."""
        verdict = finding.evidence.verdict if finding.evidence is not None else None
        if self.recorded and verdict in ("refuted", "not-reached"):
            return False
        return self.fail_on != "never" and LEVELS.index(finding.severity) <= LEVELS.index(self.fail_on)

    def fixes_of(self, index: int) -> list[Fix]:
        """Return the fixes of the finding at `index`, preferred first."""
        return self.fixes[index] if index < len(self.fixes) else []

    def trial_of(self, index: int) -> Tried | None:
        """Return what running the preferred fix of the finding at `index` showed."""
        return self.trials[index] if index < len(self.trials) else None


def edited_together(files: Sequence[Checked]) -> Iterator[list[tuple[Checked, Rewrite]]]:
    """Yield the edited files, those together that fixes have edited together."""
    edited = [(file, file.rewrite) for file in files if file.rewrite is not None]
    linked = set().union(*({file.path, *rewrite.others} for file, rewrite in edited if rewrite.others))
    yield from ([(file, rewrite)] for file, rewrite in edited if file.path not in linked)
    waiting = {file.path: (file, rewrite) for file, rewrite in edited if file.path in linked}
    while waiting:
        yield _take_together(waiting)


def _take_together(waiting: dict[str, tuple[Checked, Rewrite]]) -> list[tuple[Checked, Rewrite]]:
    """Take the first of some files, and those that were edited together with one that is taken."""
    group = [waiting.pop(next(iter(waiting)))]
    names: set[str] = set()
    while not names.issuperset(wanted := {file.path for file, _ in group}.union(*(r.others for _, r in group))):
        names = wanted
        joined = [path for path, (_, rewrite) in waiting.items() if path in names or rewrite.others & names]
        group += [waiting.pop(path) for path in joined]
    return group
