"""Hovers on a tensor: where its graph was built, what it saved, and what becomes of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from tapecheck.lsp.outline import Scope, Word, name_of
from tapecheck.lsp.telling import CUTS, MAX_NAMES, Telling, at_least, count, each_line, growing, iteration, page
from tapecheck.rules.reading import Reading, Run, with_sources
from tapecheck.rules.words import join, when
from tapecheck.rules.words import line as line_of
from tapecheck.tape import Bind, InPlace, Node, Saved, Site, Span

_MAX_CALLS = 8
_NEVER_FREED = "which no backward frees"
_Kind = Literal["freed", "partly freed", "perhaps freed", "fails", "kept", "never"]
_SURE: dict[_Kind, tuple[str, str]] = {
    "freed": ("freed", "frees it"),
    "partly freed": ("partly freed", "frees a part of it"),
    "fails": ("fails", "fails"),
    "kept": ("kept", "keeps it"),
}
"""What is certain of a graph: its state behind the backward, and what that does."""


@dataclass(frozen=True, slots=True)
class _Bound:
    """One time a name was bound to a tensor."""

    reading: Reading
    position: int
    bind: Bind
    span: Span
    """Where the name stands: `total += loss` binds it as a whole statement."""

    @property
    def nodes(self) -> list[Node]:
        """Return the nodes of the tensor's graph."""
        if self.bind.node is None:
            return []
        ledger = self.reading.ledger
        reached = sorted(ledger.ancestry([self.bind.node]))
        return [ledger.nodes[node] for node in reached if node in ledger.nodes]


@dataclass(frozen=True, slots=True)
class _Time:
    """A line at which a name is read, `before` it is bound to what is told there."""

    line: int
    before: bool


@dataclass(frozen=True, slots=True)
class _Fate:
    """What becomes of the graph after a binding, in words.

    `run` is the backward that frees it, or the first that keeps it where none does; `kept` the one that keeps it
    before another frees it.
    """

    text: str
    kind: _Kind = "never"
    run: Run | None = None
    kept: Run | None = None


class Tensors:
    """Explains tensors of one file."""

    def __init__(self, telling: Telling) -> None:
        self.telling = telling
        self.outline = telling.outline

    def explain(self, word: Word, line: int) -> str | None:
        """Return what is known of the tensor that a word at a line stands for; None where it stands for none."""
        name = name_of(word)
        known = self._bounds.get(name, [])
        meant = self.outline.meaning(name, line) if known else None
        if meant is None:
            return None
        bounds = [one for one in known if self.outline.meaning(name, one.bind.at.line) == meant]
        chosen = self._choose(bounds, name, word, meant) if bounds else []
        return self._explain(name, chosen, self._time(word, chosen, line)) if chosen else None

    def _time(self, word: Word, bounds: list[_Bound], line: int) -> _Time:
        """Return when a word is read: `hidden` in `out, hidden = rnn(x, hidden)` before the line binds it again."""
        first, last = self.outline.statement(line)
        own = self.outline.span(word)
        again = (
            first <= bounds[0].span.line <= last and bounds[0].span != own and own not in self.outline.added.values()
        )
        return _Time(line, line < bounds[0].bind.at.line or again)

    @cached_property
    def _bounds(self) -> dict[str, list[_Bound]]:
        found: dict[str, list[_Bound]] = {}
        path = self.telling.source.path
        for reading in self.telling.readings:
            for position, event in enumerate(reading.tape.events):
                if isinstance(event, Bind) and event.at.file == path:
                    span = event.at.span
                    if span.line == span.end_line and span.end_column - span.column > len(event.name):
                        written = self.outline.added.get((span.line, span.column))
                        span = written if written is not None else span
                    found.setdefault(event.name, []).append(_Bound(reading, position, event, span))
        return found

    def _choose(self, bounds: list[_Bound], name: str, word: Word, meant: tuple[str, Scope]) -> list[_Bound]:
        """Return the times that one place bound the name: the place itself, or the last one before it in the text."""
        span = self.outline.span(word)
        bound = {one.span for one in bounds}
        if span not in bound:
            stores = self.outline.stores(name, meant[1])
            if "." in name:
                stores = [store for store in stores if self.outline.meaning(name, store.line) == meant]
            chosen = None if span in stores else self._bound_before(span, bound, stores, name, meant[1])
            if chosen is None:
                return []
            span = chosen
        return [one for one in bounds if one.span == span]

    def _bound_before(
        self, span: Span, bound: set[Span], stores: Iterable[Span], name: str, scope: Scope
    ) -> Span | None:
        """Return the place that bound what a name stands for at another; None where that has no graph.

        Not every store binds a tensor with a graph; where the last one before does not, the name has a graph
        here only if a loop around both brings it back from further down.
        """
        outline = self.outline
        first, last = outline.statement(span.line)
        here = (span.line, span.column)
        before = [one for one in stores if (one.line, one.column) < here and not first <= one.line <= last]
        if before and before[-1] in bound:
            return before[-1]
        back: Iterable[Span] = ()
        # Else it is read in an inner function, which runs when everything around it is bound.
        if "." in name or outline.scopes_at(span.line)[0] == scope:
            loops = [loop for loop in outline.loops if loop[0] <= span.line <= loop[1]]
            back = [one for one in bound if any(first <= one.line <= last for first, last in loops)]
            if before and not back:
                return None
        return max(back or bound, key=lambda one: (one.line, one.column))

    # The story

    def _explain(self, name: str, bounds: list[_Bound], time: _Time) -> str:
        # The story of one tape and one call, told with all its iterations: the one with the most to tell.
        stories: dict[int, dict[tuple[Span, ...], list[_Bound]]] = {}
        for one in bounds:
            stories.setdefault(id(one.reading), {}).setdefault(one.bind.at.stack, []).append(one)
        calls = max(stories.values(), key=self._weight)
        group = max(list(calls.values())[:_MAX_CALLS], key=self._telling)
        first, line = group[0], time.line
        reading, bind = first.reading, first.bind
        elsewhere = self._elsewhere(first, calls)
        if bind.node is None:
            return page(f"**`{name}`** {self._no_graph(first, line)}", elsewhere)
        if bind.node in reading.ledger.leaves:
            return self._leaf(name, reading, bind.node)
        nodes = first.nodes
        built = self.telling.lines((node.at for node in nodes), line)
        fate = self._fate(first)
        gone = self._freed_before(first, line)
        before = ((iteration(one.bind.at), self._freed_before(one, line)) for one in group)
        later = next((f"{at}: {text}" for at, text in before if text), "")
        if gone:
            details = [f"at this line: partly freed: {gone}"]
        else:
            details = [self._here(first, fate, time, bool(later)), later]
        details += [self.telling.saved(nodes), self.telling.leads_to(reading, [bind.node], bind.at)]
        if listed := growing([len(one.nodes) for one in group]):
            details.append(f"grows with each iteration: {listed} nodes")
        if bind.cuts:
            details.append(f"parts of it are cut off by {self._cuts(first, line)}")
        details += elsewhere
        if not elsewhere and self._is_built_elsewhere(stories.values(), line):
            details.append("another way through the program builds it elsewhere")
        least = at_least(reading, [node.at for node in nodes], bind.at)
        head = f"**`{name}`** carries a graph built on {built}: {least}{count(len(nodes), 'node')}"
        # What holds at this very line is said there.
        return page(head if fate.text in details[0] else f"{head}, {fate.text}", details)

    def _weight(self, calls: dict[tuple[Span, ...], list[_Bound]]) -> tuple[bool, bool, int]:
        return max(self._telling(group) for group in list(calls.values())[:_MAX_CALLS])

    def _telling(self, group: list[_Bound]) -> tuple[bool, bool, int]:
        """Return how much is known of the times that one call bound a name."""
        first = group[0]
        return first.bind.node is not None, self._fate(first).run is not None, len(group)

    def _is_built_elsewhere(self, stories: Iterable[dict[tuple[Span, ...], list[_Bound]]], line: int) -> bool:
        """Return whether the tapes tell of different lines that build it."""
        told = [next(iter(ways.values()))[0] for ways in stories]
        return len({self.telling.lines((node.at for node in one.nodes), line) for one in told}) > 1

    def _elsewhere(self, first: _Bound, calls: dict[tuple[Span, ...], list[_Bound]]) -> list[str]:
        """Return what becomes of it in other calls of the function, where that is something else."""
        told: dict[str, set[str]] = {}
        for stack, group in list(calls.items())[:_MAX_CALLS]:
            if stack:
                text = "no graph is recorded" if group[0].bind.node is None else self._fate(group[0]).text
                told.setdefault(text, set()).add(self.telling.call(stack[0]))
        stack = first.bind.at.stack
        own = "no graph is recorded" if first.bind.node is None else self._fate(first).text
        if len(told) < 2 or not stack:
            return []
        details = [f"so it is {self.telling.call(stack[0])}"]
        for text, places in told.items():
            if text != own:
                text = "no backward frees it" if text == _NEVER_FREED else text
                details.append(f"{join(sorted(places)[:MAX_NAMES])}: {text}")
        return details

    # What becomes of it

    def _fate(self, one: _Bound) -> _Fate:
        home = one.bind.at.span
        freeing, how = self._freeing(one)
        keeping = self._keeping(one)
        kept = f"kept by {line_of(keeping.at.span, home)} (`retain_graph=True`)" if keeping is not None else ""
        if freeing is None:
            if keeping is not None:
                return _Fate(kept, "kept", keeping)
            return _Fate(self._not_freed(one))
        later = "" if freeing.at.iteration == one.bind.at.iteration else " in a later iteration"
        where = line_of(freeing.at.span, home)
        before = f"{kept}, " if keeping is not None and keeping.position < freeing.position else ""
        if freeing.failed:
            problem = freeing.problem
            node = problem.node if problem is not None else None
            own = node is not None and node.id in {node.id for node in one.nodes}
            text = f"on which {where} fails{later}" if own else f"freed by {where}, which fails{later}"
            return _Fate(before + text, "fails", freeing, keeping if before else None)
        return _Fate(f"{before}{how} by {where}{later}", how, freeing, keeping if before else None)

    def _not_freed(self, one: _Bound) -> str:
        """Return what is said of a graph that no backward frees or keeps: one may walk it all the same."""
        nodes = {node.id for node in one.nodes}
        later = (run for run in one.reading.runs if run.position > one.position and not nodes.isdisjoint(run.executed))
        if nodes and all(node.keeps == "no" for node in one.nodes) and (walking := next(later, None)) is not None:
            return f"which {line_of(walking.at.span, one.bind.at.span)} walks: it saved nothing that could be freed"
        return _NEVER_FREED if one.reading.complete else "not seen to be freed"

    def _freeing(self, one: _Bound) -> tuple[Run | None, _Kind]:
        """Return the first backward after a binding that frees something of the tensor's graph, and how it is freed."""
        found: Run | None = None
        sure = False
        keeping = [node for node in one.nodes if node.keeps != "no"]
        for node in one.nodes:
            by = one.reading.ledger.freed_by(node.id)
            run = one.reading.run_of.get(by.id) if by is not None else None
            if run is not None and run.position > one.position:
                if found is None or run.position < found.position:
                    found = run
                if run is found:
                    sure = sure or one.reading.ledger.is_freed(node.id) == "yes"
        if found is None or not sure:
            return found, "perhaps freed"
        # Nodes that saved nothing can be walked any number of times: they do not count.
        by_then = (one.reading.ledger.freed_by(node.id) for node in keeping)
        whole = all(by is not None and one.reading.run_of[by.id].position <= found.position for by in by_then)
        return found, "freed" if whole else "partly freed"

    def _keeping(self, one: _Bound) -> Run | None:
        """Return the first backward after a binding that walks the tensor's graph and retains it."""
        own = {node.id for node in one.nodes}
        for run in one.reading.runs:
            if run.position > one.position and run.backward.retain == "yes" and own & set(run.executed):
                return run
        return None

    def _here(self, one: _Bound, fate: _Fate, time: _Time, partly: bool) -> str:
        """Return whether the graph is intact, kept, freed or stale at a line, on the first and on later iterations.

        `partly`: in a later iteration it is made of nodes some of which are freed already.
        """
        outline, bind, line = self.outline, one.bind.at.line, time.line
        scope = outline.scopes_at(bind)[0]
        end_of = self._end_of(one, fate, line) if outline.scopes_at(line)[0] == scope else None
        if end_of is None:
            return ""
        ended, why, site = end_of
        span = self.telling.near(site, bind)
        if span is None or outline.scopes_at(span.line)[0] != scope or outline.exclusive(line, span.line):
            return ""
        end = span.line
        loops, around = outline.loops_at(line) & outline.loops_at(end), outline.loops_at(bind)
        if bind > end and not end < line < bind:
            # It happens in the next iteration of a loop around both.
            if time.before or not outline.loops_at(line) >= around & outline.loops_at(end):
                return ""
            return f"at this line: intact; line {end} of the next iteration {why}"
        if loops - around and line <= end:
            before = f"by line {end} of the iteration before"
            return f"at this line: intact on the first iteration, {ended} on later ones, {before}"
        if time.before and loops & around:
            return f"at this line: the one of the iteration before, {ended} by line {end}"
        if line > end:
            return _after_its_end(ended, end, why, always=bool(loops) and not partly)
        return _before_its_end(fate, line, end, ended, why, partly=partly, always=bool(loops and around) and not partly)

    def _end_of(self, one: _Bound, fate: _Fate, line: int) -> tuple[str, str, Site] | None:
        """Return what the graph is once it is not intact any more, why, and where that happens."""
        change, run = self._change(one, fate), fate.run
        if change is not None:
            event, saved, node = change
            name = f"`{event.name or saved.name}`" if event.name or saved.name else "a tensor"
            changes = "updates parameters" if event.optimizer is not None else f"changes {name} in place"
            return "stale", f"{changes}, which {self.telling.op(node)} saved", event.at
        if run is None or fate.kind not in _SURE:
            return None
        if fate.kept is not None and fate.kept.at.line >= line and fate.kept.at.file == run.at.file:
            return (*_SURE["kept"], fate.kept.at)
        return (*_SURE[fate.kind], run.at)

    def _change(self, one: _Bound, fate: _Fate) -> tuple[InPlace, Saved, Node] | None:
        """Return the first change in place after a binding that makes the graph stale, before a backward frees it."""
        end = fate.run.position if fate.run is not None else len(one.reading.tape.events)
        positions = {id(event): position for position, event in one.reading.changes}
        best: tuple[int, InPlace, Saved, Node] | None = None
        for node in one.nodes:
            for saved in node.saved if node.keeps == "yes" else ():
                for event in one.reading.ledger.changes.get(saved.storage, [])[saved.version :]:
                    position = positions.get(id(event), end)
                    certain = saved.fact == "yes" and event.bumps == "yes"
                    if certain and one.position < position < end and (best is None or position < best[0]):
                        best = position, event, saved, node
        return best[1:] if best is not None else None

    def _freed_before(self, one: _Bound, line: int) -> str:
        """Return nodes of the graph that were freed before the tensor was made."""
        gone = []
        for node in one.nodes:
            by = one.reading.ledger.freed_by(node.id)
            run = one.reading.run_of.get(by.id) if by is not None else None
            if run is not None and run.position < one.position and node.keeps == "yes":
                gone.append((node, run))
        if not gone:
            return ""
        run = gone[-1][1]
        built = self.telling.lines((node.at for node, _ in gone), line)
        return f"{line_of(run.at.span, one.bind.at.span)} freed its nodes of {built}{when(run.at, one.bind.at)}"

    # No graph, leaves

    def _no_graph(self, one: _Bound, line: int) -> str:
        if not one.bind.cuts:
            return "has no graph: nothing that it was computed from requires grad"
        return f"has no graph: cut by {self._cuts(one, line)}"

    def _cuts(self, one: _Bound, line: int) -> str:
        scope = self.outline.scopes_at(line)[0]
        values: dict[tuple[str, str], set[str]] = {}
        for cut in with_sources(one.reading, one.bind.cuts).values():
            text = self.telling.excerpt(cut.at.span)
            # Another function's names mean nothing, or something else, to one who reads this line.
            own = cut.at.file == self.telling.source.path and self.outline.scopes_at(cut.at.line)[0] == scope
            how, name = CUTS.get(cut.how, cut.how), cut.name if own and cut.how != "grad" else ""
            if cut.how == "nondifferentiable" and text:
                how, name = f"`{text}`, which is not differentiable,", ""
            values.setdefault((how, line_of(cut.at.span, one.bind.at.span)), set()).add(name)
        texts = []
        for (how, where), names in values.items():
            name = names.pop() if len(names) == 1 else ""
            texts.append(f"{how}{f' of `{name}`' if name else ''} on {where}")
        return join(texts[:MAX_NAMES])

    def _leaf(self, name: str, reading: Reading, leaf: int) -> str:
        event = reading.ledger.leaves[leaf]
        kind = "parameter" if event.parameter else "leaf that requires grad"
        reaching = [run for run in reading.runs if leaf in run.executed and run.backward.accumulates]
        lines = {run.at.line for run in reaching if run.at.file == self.telling.source.path}
        head = f"**`{name}`** is a {kind}: it has no graph of its own, gradients accumulate in `{name}.grad`"
        calls: Sequence[str] = ("backward", "backwards")
        by = f"receives a gradient from the {calls[len(lines) > 1]} on {each_line(lines)}" if lines else ""
        return page(head, [by or "no backward reaches it"])


def _after_its_end(ended: str, end: int, why: str, *, always: bool) -> str:
    """Return what a graph is below the line at which it ends."""
    if ended == "fails":
        return ""
    told = f"{ended}: line {end} {why}" if ended == "stale" else f"{ended} by line {end}"
    return f"at this line: {told}{', on every iteration' if always else ''}"


def _before_its_end(fate: _Fate, line: int, end: int, ended: str, why: str, *, partly: bool, always: bool) -> str:
    """Return what a graph is above the line at which it ends."""
    each = ", on every iteration" if always else ""
    if fate.kept is not None and fate.kept.at.line < line and ended != "stale":
        return f"at this line: kept by line {fate.kept.at.line}; line {end} {why}{each}"
    first = " on the first iteration, partly freed on later ones" if partly else ""
    return f"at this line: intact{first}; line {end} {why}{each}"
