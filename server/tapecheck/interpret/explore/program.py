"""A program explored: from the module, then from each function and method that no way has called.

What an earlier analysis remembers of a start is taken over where nothing that the start can reach has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from tapecheck.interpret import limits
from tapecheck.interpret.explore.alike import as_before
from tapecheck.interpret.explore.elsewhere import leads_to_autograd
from tapecheck.interpret.explore.entries import Entry, entries_of
from tapecheck.interpret.explore.exploration import Budget, explore_start
from tapecheck.interpret.explore.headroom import HEADROOM
from tapecheck.interpret.explore.index import index_of
from tapecheck.interpret.explore.memory import Group, Reach, Starts, kept
from tapecheck.interpret.explore.results import CutShort, Explored, Interpretation, Outcome
from tapecheck.interpret.explore.wanted import Ask, Compare, Lacks, Spoils, Sure, Wanted
from tapecheck.interpret.python.imports import Imports
from tapecheck.source import Source
from tapecheck.source.callers import Callers
from tapecheck.source.modules import SOURCES, Modules
from tapecheck.source.project import Project, Setup
from tapecheck.tape import Where


def interpret(
    source: Source,
    *,
    cancelled: Callable[[], bool] | None = None,
    open_files: Mapping[str, Source] | None = None,
    ask: Ask | None = None,
    lacks: Lacks | None = None,
    compare: Compare | None = None,
    sure: Sure | None = None,
    spoils: Spoils | None = None,
    asked: Hashable = None,
    memory: Starts[Outcome] | None = None,
    log: list[Explored] | None = None,
    project: Project | None = None,
) -> Interpretation:
    """Dry-run a file.

    Args:
        source: the parsed file; its parts that did not parse are left out.
        cancelled: asked now and then; True stops the work.
        open_files: sources by absolute path that stand for the files of that path when they are imported: what an
            editor shows and has not saved.
        ask: the lines (file and number) that verdicts over some tapes rest on. Conditions that can only change how
            certain a verdict is are explored where one rests on them; without `ask`, wherever one could.
        lacks: what each verdict over some tapes claims, such as that something never comes. Once nothing else is left,
            the other answers to such conditions are tried as well, any of which could bring it.
        compare: what tells the verdicts over some tapes from those over others. Conditions that are too many to be
            tried one by one are tried together, as long as that changes none.
        sure: what tells the certain verdicts over some tapes: lengths that they may hang on are tried otherwise.
        spoils: what tells whether a further tape leaves any of these uncertain.
        asked: what `ask`, `lacks` and `compare` go by, such as the rules they ask; results are remembered by it.
        log: takes an entry for each way that is run.
        memory: what earlier analyses found; starts that can reach nothing that has changed are taken from it.
        project: what holds for the file; looked up where it is not given.

    Returns:
        The tapes, in the order in which they were made; none for a file that cannot touch autograd.

    Raises:
        Cancelled: `cancelled` answered True.
    """
    result = Interpretation()
    shown = open_files or {}
    files = Modules(source.path, SOURCES, project, open_files=shown)
    if not leads_to_autograd(source, files):
        _note_files(result, files)
        return result
    with HEADROOM:
        effort = project.setup.effort if project is not None else 1
        left = _Left(limits.TOTAL_BUDGET * effort, limits.COLLECTING_BUDGET * effort)
        called: set[str] = set()
        imports = Imports(files)
        past = _Past(source, imports, asked, memory)
        callers = Callers(project or Setup().project_of(source.path), {path: one.text for path, one in shown.items()})
        for entry in (None, *entries_of(source)):
            most = left.for_start(entry)
            if entry is not None:
                if entry.name in called:
                    continue
                if entry.evaluates:
                    named = _may_be_unrecorded(entry, callers, past, most)
                    result.named[entry.node.name, entry.owner is not None] = named
                    if named and entry.only_uncalled:
                        continue
                    entry = replace(entry, uncalled=not named)
                if most <= 0:
                    result.exhausted = True
                    result.cut_short.append(CutShort("start", entry.name, source.path, entry.node.lineno))
                    continue
                result.entries.append(entry.name)
            outcome = past.find(entry, most)
            if outcome is None:
                wanted = Wanted(ask, log, lacks, compare, sure, spoils)
                outcome = explore_start(source, imports, entry, Budget(most, effort), cancelled, wanted)
                outcome.group = Group(outcome.found.tapes, start=None if entry is None else entry.span(source.path))
                result.work += outcome.work
                past.keep(entry, outcome)
            left.take(entry, outcome.work)
            result.weight += outcome.work
            called |= outcome.called
            result.add(outcome)
        result.imported = imports.imported
        _note_files(result, files)
    return result


def _may_be_unrecorded(entry: Entry, callers: Callers, past: _Past, most: int) -> bool:
    """Return whether another file may name a function; it is known of one that was started since none does."""
    if past.find(replace(entry, uncalled=True), most) is not None:
        return False
    return callers.may_be_unrecorded(entry.node.name, method=entry.owner is not None)


@dataclass(slots=True)
class _Left:
    """The work that is left for the starts of a file: `whole`, and for those that only collect graphs."""

    whole: int
    collecting: int

    def for_start(self, entry: Entry | None) -> int:
        """Return the work that a start may take."""
        return min(self.whole, self.collecting) if entry is not None and entry.collects else self.whole

    def take(self, entry: Entry | None, work: int) -> None:
        """Note the work that a start took."""
        self.whole -= work
        if entry is not None and entry.collects:
            self.collecting -= work


class _Past:
    """What earlier analyses found of the starts of a file, and what this one leaves to later ones; nothing of either
    without a `memory`.
    """

    def __init__(self, source: Source, project: Imports, asked: Hashable, memory: Starts[Outcome] | None) -> None:
        self._source = source
        self._project = project
        self._asked = asked
        self._memory = memory
        self._index = index_of(source)
        self._key: Hashable = None
        self._where: Where = ()

    @cached_property
    def _reach(self) -> Reach:
        return Reach(self._source, self._index)

    def find(self, entry: Entry | None, most: int) -> Outcome | None:
        """Return what a start came to where nothing that it can reach has changed."""
        if self._memory is None:
            return None
        name = entry.name if entry is not None else None
        reached, self._where = self._reach.key(None if entry is None else entry.owner or entry.node.name)
        # That nobody calls it is known as long as no file has changed.
        self._key = (reached, self._memory.state if entry is not None and entry.uncalled else None)
        path, project = self._source.path, self._project.project
        numbers = self._index.numbers
        known = self._memory.find(path, name, self._asked, self._key, self._where, project, numbers)
        # Without a memory the other starts might have left too little for it.
        return known if known is not None and known.work <= most else None

    def keep(self, entry: Entry | None, outcome: Outcome) -> None:
        """Keep what the start that was looked for last came to now."""
        if self._memory is None:
            return
        name, path, found = entry.name if entry is not None else None, self._source.path, outcome.found
        before = self._memory.last(path, name, self._asked)
        if before is not None:
            # What was made of a tape stays right for its like: of two the older is kept.
            found.tapes = as_before(found.tapes, before.found.tapes)
        outcome.group = Group(found.tapes, self._where, None if entry is None else entry.span(path))
        # What the work limit has cut short hangs on what other starts had left.
        if not found.exhausted and not found.faults and all(one.kind == "calls" for one in found.cut_short):
            events = sum(len(way.events) for tape in found.tapes for way in (tape, *tape.beyond))
            result = kept(self._key, self._where, outcome, events, self._source, self._project.project)
            self._memory.keep(path, name, self._asked, result)


def _note_files(result: Interpretation, project: Modules) -> None:
    """Note what a result hangs on besides its own file."""
    result.imports = dict(project.basis.asked)
    result.read = {path: one.text if one is not None else None for path, one in project.read.items()}
