"""What a finding rests on, and what follows from that: whether it is certain, and whether a fix of it can be safe.

Hiding a part of a program may make a finding vanish or become possible. It never makes a new one, never a certain one
that the whole program does not have, and never a safe fix that breaks the whole.
"""

from __future__ import annotations

import bisect
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, replace

from tapecheck.rules.finding import Finding
from tapecheck.rules.path import answered_otherwise, divided
from tapecheck.rules.reading import LoopRun, Reading, going_on, remembered, search
from tapecheck.rules.rule import Rule
from tapecheck.rules.words import possible
from tapecheck.tape import (
    Assumed,
    Assumption,
    AssumptionKind,
    Backward,
    Cut,
    Decision,
    End,
    Event,
    Freed,
    GradientCleared,
    Hold,
    InPlace,
    Leaf,
    Node,
    Optimizer,
    Setting,
    Site,
    Span,
    Stale,
    Switched,
    Tape,
)

STILL_CERTAIN: frozenset[AssumptionKind] = frozenset(("loader",))
"""What a certain finding may rest on: loaders yield data. That the program runs to its end is always assumed."""
_OF_RESULTS: frozenset[AssumptionKind] = frozenset(("result", "value"))
"""What a graph that is there does not depend on: another one may be there besides."""
_OF_RECORDING: frozenset[AssumptionKind] = frozenset(("context", "decorator"))
"""What code is run in: where it switches recording off, nothing that is built there has a graph."""
_OF_COUNTS: frozenset[AssumptionKind] = frozenset(("count", "length"))
"""How often a loop goes round."""
_OF_ONE_RULE: frozenset[AssumptionKind] = frozenset(("batches", "gradient", "mode", "off"))
"""What a rule asks about itself: it matters to no other."""
_SPARED: frozenset[AssumptionKind] = frozenset(("effect", "name"))
"""What a rule may say of that it hardly is what a finding lacks (`Rule.spares`)."""
_NUMBERED = re.compile(r"\[\d+\]")

_CAUSES: dict[AssumptionKind, str] = {
    "count": "not by default", "default": "by default", "exception": "the dry run expects an exception before",
    "limit": "the work limit was reached", "setting": "not by default", "skipped": "a syntax error",
    "caller": "no caller is visible", "rounds": "the work limit was reached",
}  # fmt: skip


def is_certain(assumptions: Iterable[Assumption]) -> bool:
    """Return whether what rests on these assumptions can be called certain, and a fix of it safe."""
    return all(one.kind in STILL_CERTAIN for one in assumptions)


def weigh(rule: Rule, findings: Iterable[Finding], readings: Sequence[Reading]) -> list[Finding]:
    """Return the findings of a rule with what they rest on, less those that code which is not visible may be the
    answer to; one that rests on such code otherwise is a possible one.
    """
    findings = list(findings)
    for finding in findings if rule.unfinished else ():
        _weigh_limits(finding, readings)
    for finding in findings if rule.raises else ():
        _weigh_untried(finding, readings)
    for finding in findings if rule.recorded else ():
        _weigh_modes(rule, finding, readings)
    seen = [any(_comes_to(reading, finding) for reading in readings) for finding in findings]
    # What is behind a backward that fails is judged by the ways that go on there.
    beyond = [] if all(seen) else [reading for reading in going_on(readings) if reading.assumed]
    assuming = [reading for reading in readings if reading.assumed]
    recorded = {one for reading in (*assuming, *beyond) for one in _recorded(reading)}
    judged_by = [assuming if one else beyond for one in seen]
    return [finding for finding, by in zip(findings, judged_by) if _stands(rule, finding, by, recorded)]


def _comes_to(reading: Reading, finding: Finding) -> bool:
    return (finding.span.file, finding.span.line) in reading.lines


def _stands(rule: Rule, finding: Finding, readings: Sequence[Reading], recorded: Set[Assumption]) -> bool:
    """Say what a finding rests on, and return whether it is one all the same; `recorded` leaves recording on."""
    assumed = _assumed(rule, finding, readings)
    finding.rests_on = (*assumed, *finding.rests_on)
    if is_certain(assumed):
        return True
    if any(_silences(one, rule, finding, recorded) for one in assumed if assumed[one]):
        return False
    if _may_end(rule, finding, readings):
        return False
    _call_possible(finding)
    return True


def _silences(one: Assumption, rule: Rule, finding: Finding, recorded: Set[Assumption]) -> bool:
    """Return whether nothing is said of what rests on an assumption that touches it."""
    match one.kind:
        case "skipped" if rule.of_absence or rule.lasting or "effect" in rule.needs:
            return True
        case "rounds" if finding.severity != "info":
            # Flags, counts and carried values may be others behind the iterations that were not run.
            return True
    return one.kind in rule.needs or (one.kind in _OF_RECORDING and one not in recorded)


def weigh_conditions(
    rule: Rule, findings: Sequence[Finding], readings: Sequence[Reading], refuting: Sequence[Reading] = ()
) -> None:
    """Call findings possible that are there only where a condition comes out as it does which hangs on code that is not
    visible, or on an option that has not got its default; `refuting` are ways that show no finding of their own.
    """
    decisions = (decision for reading in readings for _, decision in reading.decisions)
    if all(decision.hangs_on == "data" for decision in decisions):
        return
    sure = [finding for finding in findings if finding.certain]
    others = {finding.key: lacking for finding, _, lacking in divided(rule, sure, refuting)}
    for finding, having, lacking in divided(rule, sure, readings):
        lacking += others[finding.key]
        needed = _needed(finding, having, lacking) or _against_defaults(finding, having)
        answers = [_positive(decision, having) for decision in needed]
        finding.rests_on += tuple(map(_assumed_answer, answers))
        if not is_certain(finding.rests_on):
            _call_possible(finding)


def _is_around(decision: Decision, span: Span) -> bool:
    """Return whether a place is in the statement that a condition decides about, not in the condition itself."""
    return decision.at.line < span.line and decision.governs(span)


def _positive(decision: Decision, having: Iterable[Reading]) -> Decision:
    """Return the answer that says what an option is where each way has one: it says more than what it is not."""
    setting = decision.setting
    if setting is None or setting.equal:
        return decision
    found: dict[Setting, Decision] = {}
    for reading in having:
        given = {
            one.setting: replace(one, hangs_on="setting")
            for _, one in reading.decisions
            if one.setting is not None and one.setting.flag == setting.flag and one.setting.equal
        }
        found.update(given)
        if not given:
            return decision
    return next(iter(found.values())) if len(found) == 1 else decision


def _assumed_answer(decision: Decision) -> Assumption:
    assert decision.hangs_on != "data"
    setting = decision.setting
    if decision.hangs_on == "setting" and setting is not None:
        said = " ".join(filter(None, (setting.flag, setting.value)))
        text = f"`{said}` is given" if setting.equal else f"`{setting.flag}` is not `{setting.value}`"
    else:
        text = f"`{decision.text}` is {'true' if decision.taken else 'false'}"
    return Assumption(decision.hangs_on, decision.at.span, text)


def _needed(finding: Finding, having: Sequence[Reading], lacking: Sequence[Reading]) -> list[Decision]:
    """Return the conditions that come out otherwise where a finding is not there, and hang on code that is hidden."""
    alone = _answered_alone(having, [reading for reading in lacking if reading.ended == "finished"])
    # A way that ends by an exception may only not have come that far; but not where the condition is around it.
    return alone or [one for one in _answered_alone(having, lacking) if _is_around(one, finding.span)]


def _against_defaults(finding: Finding, having: Sequence[Reading]) -> list[Decision]:
    """Return the conditions around a finding that options come out otherwise for by default, on every way that has it.

    A way that keeps the defaults may do nothing that is read at all.
    """
    around = [
        {
            (decision.at.span, decision.taken): decision
            for _, decision in reading.decisions
            if decision.hangs_on == "setting" and _is_around(decision, finding.span)
        }
        for reading in having
    ]
    return [one for key, one in around[0].items() if all(key in other for other in around)] if around else []


def _answered_alone(having: Iterable[Reading], lacking: Iterable[Reading]) -> list[Decision]:
    """Return what hidden code has to answer to a condition for something to be found: where it answers otherwise, a way
    without it differs in nothing else from one with it, and no way with it has the same of its answers.
    """
    for without in lacking:
        apart = [answered_otherwise(one, without) for one in having]
        hidden = [[decision for decision in one if decision.hangs_on != "data"] for one in apart]
        alone = next((one for one, all_of_it in zip(hidden, apart) if one and len(one) == len(all_of_it)), None)
        if alone is not None and all(hidden):
            return alone
    return []


def _weigh_limits(finding: Finding, readings: Iterable[Reading]) -> None:
    """Call a finding possible that says what never comes where the work limit has left something out."""
    lines = _lines_of(finding)
    showing = [reading for reading in readings if not lines.isdisjoint(reading.lines)]
    cut = next((reading.tape for reading in showing if _cut_short(reading.tape)), None)
    untried = {place for reading in showing for place in reading.tape.untried}
    if cut is not None and not any(reading.complete for reading in showing):
        site = next((at for event in reversed(cut.events) if (at := getattr(event, "at", None)) is not None), None)
        assert isinstance(site, Site)
        _rest_on(finding, site.span, f"nothing behind line {site.line} changes this")
    elif untried:
        file, line, column = min(untried)
        text = f"the other answer on line {line} changes nothing"
        _rest_on(finding, Span(file, line, column, line, column), text)
    else:
        _weigh_uncovered(finding, showing)


def _weigh_uncovered(finding: Finding, readings: Iterable[Reading]) -> None:
    """Call a finding possible where not all answers were tried together to what chooses what ends it."""
    uncovered = sorted({place for reading in readings for place in reading.tape.uncovered})
    if uncovered:
        file, line, column = uncovered[0]
        last = max(other for where, other, _ in uncovered if where == file)
        text = f"other answers on lines {line} to {last} together change nothing"
        _rest_on(finding, Span(file, line, column, line, column), text)


def _weigh_untried(finding: Finding, readings: Iterable[Reading]) -> None:
    """Call a finding possible that says what raises, where on each way that comes there the work limit has left a
    condition before it untried: the other answer may lead past it.
    """
    if not finding.certain:
        return
    place = (finding.span.file, finding.span.line)
    # It may have passed there without harm before: the last time is the one that raises.
    coming = [(reading, places[-1]) for reading in readings if (places := reading.positions_at.get(place))]
    untried = {place for reading, _ in coming for place in reading.tape.untried}
    before = [reading.asked_between(-1, position, untried) for reading, position in coming]
    if before and all(before):
        at = before[0][-1]
        _rest_on(finding, at, f"the other answer on line {at.line} changes nothing")


def _weigh_modes(rule: Rule, finding: Finding, readings: Iterable[Reading]) -> None:
    """Call a finding possible that is there only while autograd records, where hidden code may have switched that off
    on each way that comes there.
    """
    place = (finding.span.file, finding.span.line)
    coming = [(reading, places[-rule.raises]) for reading in readings if (places := _happened(reading, place))]
    switches = [_perhaps_off(reading, position) for reading, position in coming]
    if switches and all(switches) and (last := switches[0]) is not None:
        rest_on(finding, Assumption(last.kind, last.at.span, last.text))


def _happened(reading: Reading, place: tuple[str, int]) -> list[int]:
    """Return the positions of the events of a line, without what was taken for granted before any of them."""
    positions = reading.positions_at.get(place, [])
    return [one for one in positions if type(reading.tape.events[one]) is not Assumed] or positions


def _perhaps_off(reading: Reading, end: int) -> Assumed | None:
    """Return the last call before an event that may have switched recording off, since the program itself has last
    switched it on, of those of which no backward shows that they do not.
    """
    stretches, shown = _stretches(reading), _shown(reading)
    here = stretches.at(end)
    # Set back to what it was, it is what anything before has made it.
    anywhere = not here.told and here.number not in shown
    found = None
    for position, event in reading.assumed:
        if event.kind != "mode" or position > end:
            continue
        # What a loop goes over may be within a context of its own until it is gone over.
        within = (loop := _loop_over(reading, position)) is not None and loop.holds(end)
        harmless = _harmless(reading, within=within)
        if harmless.isdisjoint(_code_of(event)) and (anywhere or stretches.at(position) == here):
            found = event
    return found


@dataclass(frozen=True, slots=True)
class _Stretches:
    """Where on a tape the program itself switches recording on, and back: what may have switched it off within, or
    before, has not without. From each of the positions `begins` on the grad mode is `set` there.
    """

    begins: list[int]
    set: list[Switched]

    def at(self, position: int) -> Switched:
        """Return the stretch that a position is in."""
        return self.set[bisect.bisect_right(self.begins, position) - 1]


@remembered
def _stretches(reading: Reading) -> _Stretches:
    """Return the stretches of a tape."""
    switched = [(-1, Switched(0, True)), *reading.switched]
    return _Stretches([position for position, _ in switched], [event for _, event in switched])


@remembered
def _shown(reading: Reading) -> dict[int, list[int]]:
    """Return for each stretch, by its number, where nodes were built in it that a backward starts from."""
    stretches = _stretches(reading)
    walked = (node for run in reading.runs if run.problem is None for node in run.backward.root_nodes)
    shown: dict[int, list[int]] = {}
    for root in dict.fromkeys(node for node in walked if node in reading.ledger.nodes):
        built = [reading.built(node) for node in _given_back(reading, root)]
        numbers = {stretches.at(one).number for one in built}
        if len(numbers) == 1:
            shown.setdefault(numbers.pop(), []).append(min(built))
    return shown


def _given_back(reading: Reading, root: int) -> list[int]:
    """Return the nodes that a value may be of: hidden code may give back what it was given, with no node of its own."""
    nodes = reading.ledger.nodes

    def given(number: int) -> list[int]:
        node = nodes[number]
        return [] if node.linked == "yes" else [one for one in node.inputs if one in nodes]

    return [number for number in search([root], given) if not given(number)]


@remembered
def _harmless(reading: Reading, *, within: bool) -> Set[Span | str]:
    """Return the code behind which, in the same stretch, a node was built that a backward starts from: recording is on
    there; with `within` the code that loops go over, and such a node in the loop.
    """
    stretches, shown = _stretches(reading), _shown(reading)
    found: set[Span | str] = set()
    for position, event in reading.assumed:
        if event.kind != "mode":
            continue
        built = shown.get(stretches.at(position).number, ())
        loop = _loop_over(reading, position) if within else None
        if any(position <= one for one in built) if loop is None else any(map(loop.holds, built)):
            found.update(_code_of(event))
    return found


def _loop_over(reading: Reading, position: int) -> LoopRun | None:
    """Return the loop that goes over what is iterated at a position, if any does."""
    return _loops_over(reading).get(position)


@remembered
def _loops_over(reading: Reading) -> dict[int, LoopRun]:
    """Return the loops that go over what is not visible, by the positions where that is iterated."""
    begun: dict[tuple[str, int], list[LoopRun]] = {}
    for run in reading.loops.values():
        begun.setdefault((run.event.at.file, run.event.at.line), []).append(run)
    found: dict[int, LoopRun] = {}
    for position, event in reading.assumed:
        here = begun.get((event.at.file, event.at.line), []) if event.kind == "mode" and event.read else []
        following = bisect.bisect_right(here, position, key=lambda run: run.start)
        if following < len(here):
            found[position] = here[following]
    return found


def _code_of(event: Assumed) -> tuple[Span | str, ...]:
    """Return what tells the code that an assumption is about: its call; where something is read also what that is, as a
    loader is by a second loop.
    """
    return (event.at.span, event.text) if event.read else (event.at.span,)


def _cut_short(tape: Tape) -> bool:
    end = tape.events[-1] if tape.events else None
    return isinstance(end, End) and end.how == "budget"


def rest_on(finding: Finding, assumption: Assumption) -> None:
    """Call a finding possible that takes something for granted which no tape says."""
    finding.rests_on += (assumption,)
    _call_possible(finding)


def _rest_on(finding: Finding, span: Span, text: str) -> None:
    rest_on(finding, Assumption("limit", span, text))


def _call_possible(finding: Finding) -> None:
    note = _note(finding)
    finding.notes += (note,) if note not in finding.notes else ()
    if finding.certain:
        finding.certain = False
        finding.message = possible(finding.message)


def _assumed(rule: Rule, finding: Finding, readings: Iterable[Reading]) -> dict[Assumption, bool]:
    """Return what a finding rests on, each with whether it touches the finding's own nodes and leaves somewhere."""
    assumed: dict[Assumption, bool] = {}
    for one, touches in _rests_on(rule, finding, readings):
        assumed[one] = assumed.get(one, False) or touches
    return assumed


def _note(finding: Finding) -> str:
    """Return in words what a finding takes for granted of code that is not visible."""
    texts = list(dict.fromkeys(one.text for one in finding.rests_on if one.kind not in STILL_CERTAIN))
    more = f", and {len(texts) - 1} more" if len(texts) > 1 else ""
    first = next(one for one in finding.rests_on if one.kind not in STILL_CERTAIN)
    cause = _CAUSES.get(first.kind, "code that is not visible")
    return f"{cause}: assumes that {texts[0]}{more}"


def _lines_of(finding: Finding) -> set[tuple[str, int]]:
    spans = [finding.span, *(label.span for label in finding.labels)]
    return {(span.file, line) for span in spans for line in range(span.line, span.end_line + 1)}


def _rests_on(rule: Rule, finding: Finding, readings: Iterable[Reading]) -> Iterator[tuple[Assumption, bool]]:
    """Yield what a finding rests on, each with whether it touches the finding's own nodes and leaves."""
    lines = frozenset(_lines_of(finding))
    for reading in readings:
        if lines.isdisjoint(reading.lines):
            continue
        built = _built(finding, reading) if rule.raises else None
        begin = min((reading.positions_at[place][0] for place in lines if place in reading.positions_at), default=0)
        late = _is_late(rule.only_last(finding, reading), reading)
        end = _end(rule, finding, reading, lines)
        cause = _Cause(rule, reading, lines, _chain(reading, lines), end, built, begin, late)
        for position, event in reading.assumed:
            if event.kind in _OF_ONE_RULE and event.kind not in rule.needs:
                continue
            touches = cause.touched_by(event, position)
            if touches and event.kind in _SPARED and rule.spares(finding, reading, event, position):
                touches = False
            if touches is not None:
                # Lines move: what is kept of a tape names none.
                text = f"line {event.at.line} {event.text}" if event.kind == "exception" else event.text
                # Of what is gone over, one element is as good as any.
                text = _NUMBERED.sub("[...]", text)
                yield Assumption(event.kind, event.at.span, text), touches


@dataclass(frozen=True, slots=True)
class _Cause:
    """What a finding of a rule comes from on one tape: the nodes and leaves of the `chain` of its `lines`, all there at
    event `end`; `built` is where the graph was built that its backward certainly fails in, if one does, `begin` where a
    line of it ran first. `late` says that it is about iterations that a loop has only if it is as long as assumed.
    """

    rule: Rule
    reading: Reading
    lines: frozenset[tuple[str, int]]
    chain: set[int]
    end: int
    built: int | None
    begin: int
    late: bool

    def touched_by(self, event: Assumed, position: int) -> bool | None:
        """Return whether an assumption touches the chain; None where the finding does not rest on it at all."""
        rule = self.rule
        met = not event.about or not self.chain.isdisjoint(event.about)
        if event.kind == "default":
            # Its other values were tried: they do not show the finding.
            return False
        if event.kind in _OF_COUNTS:
            # Fewer iterations lack nothing that more of them have, and growth is judged by each loop's own count.
            return True if met and (rule.raises or self.late) else None
        if event.kind == "part":
            # Where a backward has come to it, it has one; what is missing does not depend on it.
            if rule.of_absence or not self.reading.confirmed.isdisjoint(event.about):
                return None
            return True if not _caused_by(self.reading, self.lines).isdisjoint(event.about) else None
        if (event.kind == "module" and self._is_shown(event)) or (
            event.kind == "off" and not self._cuts_after(position)
        ):
            return None
        if rule.lasting and event.kind == "skipped":
            # What ends what lasts may be anywhere, most likely where it comes about.
            return self.begin < position < self.end
        if self._is_behind(event, position):
            return None
        touches = met or (rule.of_absence and event.kind in ("base", "skipped"))
        if not rule.of_absence and (not touches or event.kind in _OF_RESULTS):
            return None
        return touches and (not event.recorded or _hangs(event, self.chain))

    def _cuts_after(self, position: int) -> bool:
        """Whether recording has cut the lines of a finding off since, and nothing shows that it was on meanwhile."""
        events = self.reading.tape.events
        for cut in sorted(one for place in self.lines for one in self.reading.positions_at.get(place, ())):
            match events[cut]:
                case Cut(how="no_grad") if cut > position:
                    return not any(type(events[one]) is Node for one in range(position, cut))
        return False

    def _is_shown(self, event: Assumed) -> bool:
        """Return whether a backward from a loss that comes from nowhere else shows what is a module, or that what the
        lines of a finding keep or walk has a graph, whatever made it.
        """
        if not self.reading.trained_leaves.isdisjoint(event.about):
            return True
        used = _used(self.reading, self.lines) & self.reading.ledger.nodes.keys()
        return not self.rule.of_absence and bool(used) and used <= self.reading.confirmed

    def _is_behind(self, event: Assumed, position: int) -> bool:
        """Return whether an assumption comes too late to touch a finding."""
        if position > self.end and event.kind not in _OF_RECORDING:
            # It has happened by then; those are noted when what they are about has ended.
            return True
        # Nobody comes from a parameter to a graph that was built before.
        return self.built is not None and self.built < position and _of_leaves(self.reading, event)


def _is_late(nodes: Set[int], reading: Reading) -> bool:
    """Return whether nodes were all built in iterations that a loop has only if it is as long as assumed."""
    assumed = (event for _, event in reading.assumed if event.kind in _OF_COUNTS)
    return bool(nodes) and nodes <= {node for event in assumed for node in event.about}


def _hangs(event: Assumed, chain: set[int]) -> bool:
    """Return whether a part of a finding is there only if recording is on."""
    return not chain.isdisjoint(set(event.about).difference(event.recorded))


def _of_leaves(reading: Reading, event: Assumed) -> bool:
    return bool(event.about) and reading.ledger.leaves.keys() >= set(event.about)


def _end(rule: Rule, finding: Finding, reading: Reading, lines: Set[tuple[str, int]]) -> int:
    """Return where on a tape that has happened which is found; what is missing may be supplied until the end."""
    events = reading.tape.events
    if rule.of_absence and not (rule.raises or rule.settled or rule.over):
        return len(events)
    places = {(finding.span.file, finding.span.line)} if rule.raises else lines
    happened = reading.positions_at
    return max((happened[place][-1] for place in places if place in happened), default=len(events))


def _built(finding: Finding, reading: Reading) -> int | None:
    """Return where the node was built at which a backward on the line of a finding certainly fails, if one does."""
    here = (run for run in reading.runs if (run.at.file, run.at.line) == (finding.span.file, finding.span.line))
    failed = (run.problem.node.id for run in here if isinstance(run.problem, (Freed, Stale)))
    return next(map(reading.built, failed), None)


@remembered
def _recorded(reading: Reading) -> frozenset[Assumption]:
    """Return the contexts and decorators that leave recording on, since a backward walks what is built in them: nothing
    else of it leads to a leaf. Where that fails, it raises at the same place with recording off.
    """
    runs = [run for run in reading.runs if run.problem is None or isinstance(run.problem, (Freed, Stale))]
    walked = [node for run in runs for node in run.backward.root_nodes]
    built: dict[tuple[str, str, Span | None], tuple[set[int], list[Assumption]]] = {}
    for _, event in reading.assumed:
        if event.kind in _OF_RECORDING:
            # A decorator is the same at every call of what it decorates.
            where = event.at.span if event.kind == "context" else None
            nodes, assumptions = built.setdefault((event.kind, event.text, where), (set(), []))
            nodes.update(reading.ledger.nodes.keys() & set(event.about).difference(event.recorded))
            assumptions.append(Assumption(event.kind, event.at.span, event.text))
    return frozenset(
        one
        for nodes, assumptions in built.values()
        if nodes and any(_only_through(reading, root, nodes) for root in walked)
        for one in assumptions
    )


def _only_through(reading: Reading, root: int, nodes: set[int]) -> bool:
    """Return whether all ways from the root of a graph to its leaves lead through some nodes."""
    met = False
    for number in search([root], lambda number: () if number in nodes else reading.sources(number)):
        met = met or number in nodes
        if number not in nodes and number not in reading.ledger.nodes:
            return False
    return met


def _may_end(rule: Rule, finding: Finding, readings: Iterable[Reading]) -> bool:
    """Return whether the program may end by an exception that is reported elsewhere, before it can do what is found."""
    if rule.raises or rule.of_absence:
        return False
    lines = frozenset(_lines_of(finding))
    for reading in readings:
        chain = _chain(reading, lines) if not lines.isdisjoint(reading.lines) else set()
        freed = (run.problem for run in reading.runs if isinstance(run.problem, Freed))
        if any(problem.certain == "may" and problem.node.id in chain for problem in freed):
            return True
    return False


@remembered
def _chain(reading: Reading, lines: frozenset[tuple[str, int]]) -> set[int]:
    """Return the nodes and leaves that have a part in a finding: what its lines build, walk, keep, cut or change, what
    that was computed from, and what is computed from its nodes.
    """
    built = {event.id for event in _events(reading, lines) if isinstance(event, (Node, Leaf))}
    below = reading.below(built | _used(reading, lines))
    return below | reading.above(reading.graph_nodes(below))


@remembered
def _caused_by(reading: Reading, lines: frozenset[tuple[str, int]]) -> Set[int]:
    """Return the nodes and leaves that a finding's lines walk, keep, cut or change, and what that was surely computed
    from.
    """
    nodes = reading.ledger.nodes

    def sources(number: int) -> Iterable[int]:
        return nodes[number].inputs if number in nodes and nodes[number].linked == "yes" else ()

    return set(search(_used(reading, lines), sources))


def _used(reading: Reading, lines: frozenset[tuple[str, int]]) -> set[int]:
    """Return the nodes and leaves that some lines walk, keep, cut or change."""
    found: set[int] = set()
    for event in _events(reading, lines):
        if isinstance(event, Backward):
            found.update(event.root_nodes)
        elif isinstance(event, Optimizer):
            found.update(event.params)
        elif isinstance(event, (Hold, Cut)):
            found.update(event.nodes)
        elif isinstance(event, (InPlace, GradientCleared)) and event.leaf is not None:
            found.add(event.leaf)
    return found


def _events(reading: Reading, lines: frozenset[tuple[str, int]]) -> Iterator[Event]:
    positions = itertools.chain.from_iterable(reading.positions_at.get(place, ()) for place in lines)
    return (reading.tape.events[position] for position in positions)
