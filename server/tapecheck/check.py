"""From source text to findings: what the command line, the language server and the fixes share."""

from __future__ import annotations

import ast
import copy
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from tapecheck import torchfacts
from tapecheck.interpret import (
    HEADROOM,
    Claim,
    CutShort,
    Explored,
    Group,
    Interpretation,
    Outcome,
    Reach,
    Starts,
    faults,
    interpret,
    limits,
    reach_of,
    trainers_of,
)
from tapecheck.rules import ALL, RAISING, Reading, judge
from tapecheck.rules.finding import Finding, Severity
from tapecheck.rules.moving import moved
from tapecheck.rules.needless_retain_graph.rule import NeedlessRetainGraph
from tapecheck.rules.starts import note_starts
from tapecheck.rules.words import join
from tapecheck.source import Source, Suppressions, suppressions
from tapecheck.source.configuration import Configuration, did_you_mean
from tapecheck.source.project import Project, Setup
from tapecheck.source.search import torch_of
from tapecheck.source.selection import Selection, Wanted
from tapecheck.source.suppress import (
    ALL_RULES,
    Hidden,
    Misspelt,
    Unused,
    blankets,
    may_suppress,
    misspelt,
    names_rule,
    unused,
)
from tapecheck.tape import Backward, MovedTape, Moves, Span, Tape
from tapecheck.torchfacts.versions import release

UNUSED = "unused-ignore"
"""The code under which comments are reported that switch nothing off."""
INVALID = "invalid-ignore"
"""The code under which comments are reported that are addressed to Tapecheck and not read as they were meant."""
BLANKET = "blanket-ignore"
"""The code under which comments are reported that name no rule, in a project that wants one (`require-codes`)."""
NOTES = (UNUSED, INVALID, BLANKET)
"""The codes of what is reported of comments: `select`, `ignore` and `severity` have them beside the rules."""
MAX_VERDICTS = 4_000
"""How many findings a memory may hold, over groups of tapes that each count as one."""

_Found = TypeVar("_Found")


@dataclass(slots=True)
class Report:
    """What was found in one file. `error` says why it could not be read or parsed, whole or in part.

    `suppressed` are the findings that comments in the file switch off. `elsewhere` are those in other files, which
    this one imports and whose code it runs. `narrowed` says that whoever asked wanted some rules only, beside what the
    configuration says. `kept` is what was worked out of it for one finding and serves others. `project` is what
    the file was checked by; where it is not given, what holds for the file.
    """

    source: Source
    interpretation: Interpretation
    findings: list[Finding] = field(default_factory=list)
    suppressed: list[Finding] = field(default_factory=list)
    elsewhere: list[Finding] = field(default_factory=list)
    narrowed: bool = False
    kept: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)
    project: Project = field(default=None, repr=False, compare=False)  # type: ignore[assignment]

    def __post_init__(self) -> None:
        if self.project is None:
            self.project = Setup().project_of(self.source.path)

    @property
    def error(self) -> str | None:
        return self.source.error

    @property
    def texts(self) -> list[str]:
        """Return the texts of the program's files: the checked one, and what its imports led to."""
        return [self.source.text, *(text for text in self.interpretation.read.values() if text is not None)]

    def retained(self) -> frozenset[tuple[str, int]]:
        """Return the lines of other files where this program runs a backward that retains its graph for something."""
        needless = {one.span for one in self.elsewhere if one.code == NeedlessRetainGraph.code}
        return frozenset(
            (event.at.span.file, event.at.span.line)
            for tape in self.interpretation.tapes
            for event in tape.events
            if isinstance(event, Backward)
            and event.retain_argument in ("yes", "may")
            and event.at.file != self.source.path
            and event.at.span not in needless
        )

    def call_of(self, finding: Finding) -> Span | None:
        """Return the innermost call in this file that led to a finding in another one; None where none is seen."""
        there, own = finding.span, self.source.path
        for tape in self.interpretation.tapes:
            for event in tape.events:
                at = getattr(event, "at", None)
                if at is None or at.file != there.file or not there.line <= at.line <= there.end_line:
                    continue
                for call in at.stack:
                    if call.file == own:
                        return cast(Span, call)
        return None


INCOMPLETE = "incomplete-analysis"
"""The code under which a note says that the work limit ended an analysis."""
INTERNAL = "internal-error"
"""The code under which an error of Tapecheck itself is reported."""


@dataclass(frozen=True, slots=True)
class Limit:
    """What was not analysed because a limit was reached, and the line of the file where that begins."""

    message: str
    line: int


def _either(names: Sequence[str]) -> str:
    """Return alternatives in words: "a, b or c"."""
    return " or ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _look_further(report: Report) -> str:
    return f"; `tapecheck check --effort {report.project.setup.effort * 4}` looks further"


def _left_out(one: CutShort, there: str, further: str) -> str | None:
    """Return what a limit left out of one place; None of a start, which are told of together."""
    inside = f"`{one.name}`" if one.name else "the module"
    match one.kind:
        case "way":
            message = f"analysis of {inside} stopped{there or ' here'}: work limit reached"
            return f"{message}; later code was not checked{further}"
        case "paths":
            conditions = "a condition was" if one.count == 1 else f"{one.count} conditions were"
            missed = f"may miss {_either(one.hides)}" if one.hides else f"{conditions} tried one way only"
            return f"work limit reached in {inside}{there}: {missed}{further}"
        case "calls":
            return f"calls too deep in other calls in {inside}{there}: what they do is unknown"
    return None


def limits_of(report: Report) -> list[Limit]:
    """Return what the limits left out of a file's analysis, and how to look further, in one line each."""
    further = _look_further(report)
    found: list[Limit] = []
    cut = report.interpretation.cut_short
    for one in cut:
        own = one.file == report.source.path
        line, there = (one.line, "") if own or not one.file else (1, f" at {one.file}:{one.line}")
        if (text := _left_out(one, there, further)) is not None:
            found.append(Limit(text, line))
    found = list(dict.fromkeys(found))
    started = [one for one in cut if one.kind == "start"]
    if started:
        names = ", ".join(f"`{one.name}`" for one in started[:3])
        more = f" and {len(started) - 3} more" if len(started) > 3 else ""
        found.append(Limit(f"work limit reached: {names}{more} not checked on their own{further}", started[0].line))
    return found


def reach_in(report: Report, statement: ast.stmt) -> Reach:
    """Return what a statement of a checked file can run, whichever way its conditions go."""
    with torchfacts.using(facts_for(report.project)):
        return reach_of(report.source, statement)


def trainers_in(report: Report, statement: ast.stmt) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Return the functions of a checked file that can start a backward and come to the function of a statement."""
    with torchfacts.using(facts_for(report.project)):
        return trainers_of(report.source, statement.lineno)


def faults_of(report: Report) -> list[Limit]:
    """Return the internal errors that ended a part of a file's analysis, in one line each."""
    own = report.source.path
    found = [Limit(one.message, one.line if one.file == own else 1) for one in report.interpretation.faults]
    return list(dict.fromkeys(found))


def _moves_of(groups: Sequence[Group]) -> Moves:
    """Return from where to where the tapes of some groups have moved, each way once."""
    ways = [
        tape.move if isinstance(tape, MovedTape) else (group.where, group.where)
        for group in groups
        for tape in group.tapes
    ]
    return Moves(list({(id(start), id(end)): (start, end) for start, end in ways}.values()))


class Verdicts:
    """The findings over groups of tapes, the last ones.

    `under` are read where there are none here, and stay as they are.
    """

    def __init__(self, most: int = MAX_VERDICTS, under: Verdicts | None = None) -> None:
        self._most = most
        self._weight = 0
        self._under = under
        # What tells the tapes from others is kept, so that its id stays its own.
        self._kept: OrderedDict[Hashable, tuple[list[object], list[Finding]]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, asked: Hashable, groups: Sequence[Group]) -> list[Finding] | None:
        """Return what was found over the tapes of some groups, None where they were not judged yet.

        What was found over tapes that have moved since is moved as well, where it says the same there.
        """
        tapes = [tape for group in groups for tape in group.tapes]
        found = self._known(asked, [tape.identity for tape in tapes])
        if found is not None or not any(isinstance(tape, MovedTape) for tape in tapes):
            return found
        before = [tape.origin if isinstance(tape, MovedTape) else tape.identity for tape in tapes]
        found = self._known(asked, before)
        if found is None:
            return None
        moves = _moves_of(groups)
        found = moved(found, moves) if not moves.torn else None
        if found is not None:
            self.put(asked, tapes, found)
        return found

    def _known(self, asked: Hashable, tapes: list[object]) -> list[Finding] | None:
        with self._lock:
            known = self._kept.get((asked, tuple(map(id, tapes))))
        if known is None:
            return self._under._known(asked, tapes) if self._under is not None else None
        return known[1]

    def put(self, asked: Hashable, tapes: Sequence[Tape], findings: list[Finding]) -> None:
        """Keep what was found over some tapes."""
        told = [tape.identity for tape in tapes]
        key = (asked, tuple(map(id, told)))
        with self._lock:
            self._take(self._kept.pop(key, None))
            self._kept[key] = (told, findings)
            self._weight += 1 + len(findings)
            while self._weight > self._most and len(self._kept) > 1:
                self._take(self._kept.popitem(last=False)[1])

    def _take(self, gone: tuple[list[object], list[Finding]] | None) -> None:
        self._weight -= 1 + len(gone[1]) if gone is not None else 0


@dataclass(slots=True)
class Memory:
    """What checks of the same files may share: what each start of a file found, and what the rules made of it."""

    starts: Starts[Outcome] = field(default_factory=Starts)
    verdicts: Verdicts = field(default_factory=Verdicts)

    def beside(self) -> Memory:
        """Return a memory for checks of texts that are only tried: it reads what this one holds and leaves it alone."""
        return Memory(Starts(under=self.starts), Verdicts(under=self.verdicts))


def together(groups: Iterable[Group]) -> list[list[Group]]:
    """Return the groups that have to be judged in one: those of starts that come to the same lines."""
    groups = [group for group in groups if group.tapes]
    if len(groups) < 2:
        return [[group] for group in groups]
    found: list[tuple[set[tuple[str, int]], list[Group]]] = []
    for group in groups:
        places = set(group.judged)
        mine = [group]
        others = []
        for known, before in found:
            if known.isdisjoint(places):
                others.append((known, before))
            else:
                places |= known
                mine = before + mine
        found = [*others, (places, mine)]
    return [joined for _, joined in found]


Key = tuple[str, str, int]
"""What identifies a finding: its rule, file and line."""


class _Judges:
    """The rules that are wanted of a file's tapes, each of which they read once."""

    def __init__(self, wanted: Wanted) -> None:
        self._rules = [rule for rule in ALL if wanted.wants(rule.code, rule.name)]
        self.codes = [rule.code for rule in self._rules]
        self._readings: dict[int, Reading] = {}
        self._sure: tuple[Sequence[Tape], int, frozenset[Key]] = (), 0, frozenset()
        """What is certain over the tapes of a start so far, with these and their number."""

    def findings(self, tapes: Sequence[Tape], codes: Collection[str]) -> list[Finding]:
        """Return what some of the rules find over tapes."""
        return judge(tapes, select=codes, read=self._read)

    def verdicts(self, groups: Sequence[Group]) -> list[Finding]:
        """Return what the rules find over the tapes of some starts, with those that alone show it."""
        found = self.findings([tape for group in groups for tape in group.tapes], self.codes)
        note_starts(found, groups, self.findings)
        return found

    def resting(self, tapes: Sequence[Tape]) -> set[tuple[str, int]]:
        """Return the lines that findings over tapes rest on, of the rules that other tapes can make certain."""
        return resting_on(self.findings(tapes, [rule.code for rule in self._rules if not rule.stands_alone]))

    def lacks(self, tapes: Sequence[Tape]) -> Iterator[Claim]:
        """Yield what each finding over some of a run's tapes claims that other ways may disprove."""
        # What stays as it is does so for all that two conditions do; what never comes may come by that.
        for rule in self._rules:
            for one in self.findings(tapes, [rule.code]) if rule.unfinished else ():
                yield ("never" if rule.of_absence else "certain") if one.certain else "possible"

    def sure(self, tapes: Sequence[Tape]) -> frozenset[Key]:
        """Return what tells the findings over tapes that are certain."""
        return frozenset(one.key for one in self.findings(tapes, self.codes) if one.certain)

    def spoils(self, tapes: Sequence[Tape], further: Tape) -> bool:
        """Return whether anything that is certain over tapes is not, with a further one that nobody keeps."""
        if self._sure[0] is not tapes or self._sure[1] != len(tapes):
            self._sure = tapes, len(tapes), self.sure(tapes)
        sure = self._sure[2]
        found = self.findings([*tapes, further], {code for code, _, _ in sure})
        self._forget(further)
        return not sure <= {one.key for one in found if one.certain}

    def told_by(self, tapes: Sequence[Tape], further: Tape | None) -> frozenset[object]:
        """Return what tells the findings over tapes, with a further one that nobody keeps, from others."""
        every = [*tapes, further] if further is not None else list(tapes)
        found = self.findings(every, self.codes)
        if further is not None:
            self._forget(further)
        return frozenset((one.key, one.certain) for one in found)

    def close(self) -> None:
        """Let go of all that was read."""
        for reading in list(self._readings.values()):
            self._forget(reading.tape)

    def _forget(self, tape: Tape) -> None:
        # Answers refer to the reading that remembers them: with these it would stay until the collector comes by.
        reading = self._readings.pop(id(tape), None)
        if reading is not None:
            reading.answers.clear()

    def _read(self, tape: Tape) -> Reading:
        # The reading keeps its tape, whose id stays its own. What is asked about is judged again with the others.
        known = self._readings.get(id(tape))
        if known is None:
            known = self._readings[id(tape)] = Reading(tape)
        return known


def check(
    source: Source,
    *,
    select: Collection[str] | None = None,
    ignore: Collection[str] = (),
    rules: Selection | None = None,
    cancelled: Callable[[], bool] | None = None,
    open_files: Mapping[str, Source] | None = None,
    memory: Memory | None = None,
    log: list[Explored] | None = None,
    project: Project | None = None,
) -> Report:
    """Dry-run a file and judge its tapes; the user's code is neither imported nor executed.

    `select` and `ignore` hold rule codes, names or prefixes of codes, `rules` stands in the place of both; they go
    before the project's configuration, as `source.selection` has it. Comments in the source
    (`# tapecheck: ignore[TAPE101]`) switch off rules for a line or for the file. `cancelled` is asked often; once it
    returns True the analysis stops and raises `interpret.Cancelled`. `open_files` are sources by absolute path that
    imports find instead of the files of that path: documents that an editor shows and has not saved. `memory` holds
    what earlier checks of the same files found: only what an edit can have changed is run again. `log` takes an entry
    for each way through the program that is run. `project` is what holds for the file, or for another one of the same
    check; without it the nearest configuration holds, and the Python that is active.
    """
    selected = _asked(select, ignore, rules)
    project = project.of(source.path) if project is not None else Setup().project_of(source.path)
    judges = _Judges(project.rules(selected))
    facts = facts_for(project)
    asked = (tuple(judges.codes), facts, project.setup.effort)
    with HEADROOM:
        with torchfacts.using(facts):
            interpretation = interpret(
                source,
                cancelled=cancelled,
                open_files=open_files,
                ask=judges.resting,
                lacks=judges.lacks,
                compare=judges.told_by,
                sure=judges.sure,
                spoils=judges.spoils,
                asked=asked,
                memory=memory.starts if memory is not None else None,
                log=log,
                project=project,
            )
        verdicts = memory.verdicts if memory is not None else Verdicts()
        findings: list[Finding] = []
        for groups in together(interpretation.groups):
            known = verdicts.get(asked, groups)
            if known is None:
                try:
                    known = judges.verdicts(groups)
                except Exception as error:  # the boundary: these starts are lost, the others are judged
                    fault = faults.note(error, groups[0].tapes[0].started, source.path, 1)
                    interpretation.faults.append(fault)
                    continue
                verdicts.put(asked, [tape for group in groups for tape in group.tapes], known)
            # Whoever shows a finding may give it another severity, or the evidence of a run.
            findings += [copy.copy(finding) for finding in known]
        judges.close()
    narrowed = selected.select is not None or bool(selected.ignore or selected.per_file_ignores)
    return _report(source, interpretation, _each_once(findings), narrowed, project)


def _report(
    source: Source, interpretation: Interpretation, findings: list[Finding], narrowed: bool, project: Project
) -> Report:
    """Return the report on a file, without what comments suppress, and what belongs to other files by itself."""
    own = [finding for finding in findings if finding.span.file == source.path]
    kept, hidden = split_suppressed(own, suppressions(source))
    elsewhere = [finding for finding in findings if finding.span.file != source.path]
    return Report(source, interpretation, kept, hidden, elsewhere, narrowed, project=project)


def _each_once(findings: Iterable[Finding]) -> list[Finding]:
    """Return findings in the order of the source, one of those that several starts have: each runs the module first."""
    found: dict[tuple[str, Span, str], Finding] = {}
    for finding in findings:
        found.setdefault((finding.code, finding.span, finding.message), finding)
    return sorted(found.values(), key=lambda one: (one.span.file, one.span.line, one.span.column, one.code))


def nearest_callers(callers: Sequence[str]) -> Sequence[str]:
    """Return those of a file's callers, the nearest first, that are run for what they do in it."""
    return callers[: limits.MOST_CALLERS]


def while_affordable(found: Iterable[_Found], work: Callable[[_Found], int], times: int) -> Iterator[_Found]:
    """Yield what was found by callers until they took the work that those of one file may take, so many times."""
    left = limits.CALLERS_BUDGET * times
    for one in found:
        yield one
        left -= work(one)
        if left <= 0:
            return


def _asked(select: Collection[str] | None, ignore: Collection[str], rules: Selection | None) -> Selection:
    return rules or Selection(None if select is None else tuple(select), tuple(ignore))


def facts_for(project: Project) -> str:
    """Return the version of torch whose facts a program is checked by: the measured one that is nearest to its own."""
    # Nothing is looked for in the environment as long as there is no choice.
    return torchfacts.nearest(torch_of(project) if torchfacts.several() else None, torchfacts.measured())


def resting_on(findings: Iterable[Finding]) -> set[tuple[str, int]]:
    """Return the lines that findings rest on: their own, and those that have a part in them."""
    spans = [span for finding in findings for span in (finding.span, *(label.span for label in finding.labels))]
    return {(span.file, line) for span in spans for line in range(span.line, span.end_line + 1)}


def split_suppressed(findings: Iterable[Finding], off: Suppressions) -> tuple[list[Finding], list[Finding]]:
    """Return the findings of one file that are to be shown, and those that its comments switch off."""
    kept: list[Finding] = []
    hidden: list[Finding] = []
    for finding in findings:
        (hidden if is_suppressed(finding, off) else kept).append(finding)
    return kept, hidden


def is_suppressed(finding: Finding, off: Suppressions) -> bool:
    """Return whether the comments of its file switch a finding off."""
    line, end = finding.span.line, max(finding.span.line, finding.span.end_line)
    return bool(off) and off.hide(finding.code, finding.name, line, end, finding.code in RAISING)


def unused_ignores(
    report: Report,
    *,
    rules: Selection | None = None,
    shown_by_run: Iterable[Finding] = (),
) -> list[Unused]:
    """Return the comments of a file that switch nothing off, as far as that is certain.

    A rule that is not judged here, or not to the end, may have something to report all the same. `shown_by_run` are
    findings that comments may hide, too.
    """
    source = report.source
    if not may_suppress(source.text) or source.error is not None:
        return []
    wanted = report.project.rules(rules or Selection())
    if not wanted.wants(UNUSED, UNUSED):
        return []
    judged = {rule.code for rule in ALL if wanted.wants(rule.code, rule.name)}
    hidden = _hidden([*report.suppressed, *shown_by_run])
    whole = _judged_to_the_end(report.interpretation)
    found = unused(source, hidden, [(rule.code, rule.name) for rule in ALL])
    return [one for one in found if (whole and judged.issuperset(_meant(one))) or one.names_nothing]


def _meant(one: Unused) -> list[str]:
    """Return the codes of the rules that a comment would switch off."""
    return [rule.code for rule in ALL if not one.names or names_rule(one.names, rule.code, rule.name)]


def _judged_to_the_end(interpretation: Interpretation) -> bool:
    complete = all(tape.complete for tape in interpretation.tapes)
    return complete and not interpretation.exhausted and not interpretation.faults


def _hidden(findings: Iterable[Finding]) -> list[Hidden]:
    return [Hidden(one.code, one.name, one.span.line, max(one.span.line, one.span.end_line)) for one in findings]


def invalid_ignores(
    report: Report,
    *,
    rules: Selection | None = None,
    shown_by_run: Iterable[Finding] = (),
) -> list[Misspelt]:
    """Return the comments of a file that are not written as they should be.

    They were probably meant to switch rules off and are not read so, or name no rule where the project wants one.
    """
    source = report.source
    wanted = report.project.rules(rules or Selection())
    found = misspelt(source) if wanted.wants(INVALID, INVALID) else []
    if report.project.configuration.require_codes and wanted.wants(BLANKET, BLANKET):
        found += blankets(source, _hidden([*report.suppressed, *shown_by_run]))
    return found


def severity_of(finding: Finding, project: Configuration) -> Severity:
    """Return the severity that a project's configuration gives a finding; its own where it gives none."""
    return cast(Severity, project.severity_of(finding.code, finding.name) or finding.severity)


def why_unused(one: Unused) -> str:
    """Return the words for a comment, or a part of one, that switches nothing off."""
    gone = [name for name in one.names if name not in one.unknown]
    parts = [f"{join(gone)} would report nothing here"] if gone else []
    if one.unknown:
        near = did_you_mean(one.unknown[0], _rule_names()) if len(one.unknown) == 1 else ""
        parts.append(f"there is no rule {join(one.unknown)}{near.replace(';', ',')}")
    return f"unused ignore comment: {'; '.join(parts) or 'nothing would be reported here'}"


_CODE = re.compile(r"TAPE\d+", re.IGNORECASE)


def unknown_rule(name: str, notes: Collection[str] = NOTES) -> str | None:
    """Return what is wrong with the name of a rule; None where it names a rule, several, or one of the notes."""
    if name in notes or any(names_rule([name], rule.code, rule.name) for rule in ALL):
        return None
    known = [*notes, ALL_RULES, *_rule_names()]
    if _CODE.fullmatch(name):
        # Digits that are near mean nothing: of another code only one more or one less was meant.
        known = [code for code in known if code.startswith(name.upper()) or name.upper().startswith(code)]
    near = did_you_mean(name, known)
    return f"no rule is called {name!r}{near or ': `tapecheck rule` lists them all'}"


def _rule_names() -> list[str]:
    return [name for rule in ALL for name in (rule.code, rule.name)]


def configuration_problems(configuration: Configuration) -> list[str]:
    """Return what is wrong in a project's configuration, one line each: its form, and rules that do not exist."""
    unknown = [
        f"{configuration.file}: `{key}`: {wrong}"
        for key, name in dict.fromkeys(configuration.rules_named())
        if (wrong := unknown_rule(name)) is not None
    ]
    named = configuration.torch_version
    if named is not None and release(named) is None:
        unknown.append(f"{configuration.file}: `torch-version`: expected a version such as 2.10, got {named!r}")
    return [*configuration.problems, *unknown]
