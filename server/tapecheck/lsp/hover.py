"""Hovers: what the tapes say of the expression under the pointer, in markdown."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from tapecheck.rules.reading import Reading, Run, with_sources
from tapecheck.rules.words import freed_text, join, when
from tapecheck.rules.words import line as line_of
from tapecheck.source import Source
from tapecheck.tape import Backward, Bind, Cut, Leaf, Node, Optimizer, Problem, Site, Span, Tape

_MAX_TAPES = 16
_MAX_NAMES = 4
_EXCERPT = 32
_CUTS = {
    "detach": "`.detach()`",
    "data": "`.data`",
    "no_grad": "`torch.no_grad()`",
    "item": "`.item()`",
    "numpy": "NumPy",
    "grad": "`autograd.grad` without `create_graph=True`",
    "copy": "a copy of its value",
    "nondifferentiable": "an operation that is not differentiable",
    "leaf": "making it a leaf",
    "checkpoint": "reentrant checkpointing",
    "frozen": "switching `requires_grad` off",
}
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


@dataclass(frozen=True, slots=True)
class Hover:
    """Markdown, and the text it is about."""

    markdown: str
    span: Span


@dataclass(frozen=True, slots=True)
class _Bound:
    """One time a name was bound to a tensor."""

    reading: Reading
    position: int
    bind: Bind


class Explainer:
    """Answers hovers about one file from its tapes; the tapes are replayed once, when first asked."""

    def __init__(self, source: Source, tapes: Sequence[Tape]) -> None:
        self.source = source
        self.tapes = tapes
        self._around: dict[int, list[tuple[int, int]]] = {}

    def hover(self, line: int, column: int) -> Hover | None:
        """What happens at a place (line and column from 1, in characters); None where nothing does.

        Behind the last letter of something is still at it, where nothing else begins.
        """
        found = self._at(line, column)
        return self._at(line, column - 1) if found is None and column > 1 else found

    def _at(self, line: int, column: int) -> Hover | None:
        for reading in self.readings:
            for run in reading.runs:
                span = run.backward.retain_span
                if span is not None and span.file == self.source.path and inside(span, line, column):
                    return Hover(self._retain(span), span)
        expression = self._expression(line, column)
        if expression is not None:
            found = self._tensor(expression, line)
            if found is not None:
                return Hover(found, self._span(expression))
            found = self._optimizer(expression)
            if found is not None:
                return Hover(found, self._span(expression))
        return self._cut(line, column) or self._backward(line, column)

    @cached_property
    def readings(self) -> list[Reading]:
        return [Reading(tape) for tape in self.tapes[:_MAX_TAPES]]

    # Places

    @cached_property
    def _scopes(self) -> list[tuple[int, int]]:
        """First and last line of every function, outer ones first."""
        return [
            (node.lineno, node.end_lineno or node.lineno)
            for node in ast.walk(self.source.tree)
            if isinstance(node, _SCOPES)
        ]

    def _scopes_at(self, line: int) -> list[tuple[int, int]]:
        """The functions around a line, innermost first, and last the whole file."""
        known = self._around.get(line)
        if known is None:
            around = [scope for scope in self._scopes if scope[0] <= line <= scope[1]]
            around.sort(key=lambda scope: scope[1] - scope[0])
            known = self._around[line] = [*around, (0, len(self.source.lines) + 1)]
        return known

    def _span(self, node: ast.expr | ast.arg) -> Span:
        source = self.source
        end_line, end_offset = node.end_lineno or node.lineno, node.end_col_offset or node.col_offset
        return Span(
            source.path,
            node.lineno,
            source.column(node.lineno, node.col_offset),
            end_line,
            source.column(end_line, end_offset),
        )

    def _expression(self, line: int, column: int) -> ast.Name | ast.Attribute | ast.arg | None:
        """The innermost name, dotted name or argument at a place."""
        best: ast.Name | ast.Attribute | ast.arg | None = None
        for node in ast.walk(self.source.tree):
            if not isinstance(node, (ast.Name, ast.Attribute, ast.arg)):
                continue
            if not node.lineno <= line <= (node.end_lineno or node.lineno):
                continue
            # Walking goes from the outside to the inside: a later hit is within an earlier one.
            if inside(self._span(node), line, column):
                best = node
        return best

    def _excerpt(self, span: Span) -> str:
        """The source text of a span where it is of this file and short enough to be quoted."""
        if span.file != self.source.path or span.line != span.end_line:
            return ""
        if not 0 < span.line <= len(self.source.lines):
            return ""
        text = self.source.lines[span.line - 1][span.column - 1 : span.end_column - 1]
        return text if len(text) <= _EXCERPT and "`" not in text else ""

    def near(self, site: Site, home: int) -> Span | None:
        """The text of this file that stands for a site: within the function around line `home` where it can be."""
        scope = self._scopes_at(home)[0]
        spans = [span for span in (site.span, *site.stack) if span.file == self.source.path]
        return next((span for span in spans if self._scopes_at(span.line)[0] == scope), spans[0] if spans else None)

    def lines(self, sites: Iterable[Site], home: int) -> str:
        """Where things were built, as one who reads line `home` sees it: lines of the function around it."""
        scope = self._scopes_at(home)[0]
        own: set[int] = set()
        others: set[str] = set()
        for site in sites:
            spans = [span for span in (site.span, *site.stack) if span.file == self.source.path]
            near = [span.line for span in spans if self._scopes_at(span.line)[0] == scope]
            if near:
                own.add(near[0])
            elif spans:
                own.add(spans[0].line)
            else:
                others.add(re.split(r"[/\\]", site.file)[-1])
        parts = [_range(own)] if own else []
        parts += sorted(others)
        return join(parts)

    # Tensors

    def _tensor(self, expression: ast.Name | ast.Attribute | ast.arg, line: int) -> str | None:
        name = expression.arg if isinstance(expression, ast.arg) else ast.unparse(expression)
        bounds = [
            _Bound(reading, position, bind)
            for reading in self.readings
            for position, bind in _binds(reading)
            if bind.name == name and bind.at.file == self.source.path
        ]
        scopes = self._scopes_at(line) if "." not in name else [(0, len(self.source.lines) + 1)]
        for scope in scopes:
            whole = scope == scopes[-1]
            here = [one for one in bounds if whole or self._scopes_at(one.bind.at.line)[0] == scope]
            if here:
                chosen = self._choose(here, name, expression, scope)
                return self._explain_tensor(name, chosen, line) if chosen else None
        return None

    def _choose(
        self,
        bounds: list[_Bound],
        name: str,
        expression: ast.Name | ast.Attribute | ast.arg,
        scope: tuple[int, int],
    ) -> list[_Bound]:
        """The times that one place bound the name: the place itself, or the last one before it in the text.

        Not every store binds a tensor with a graph; where the last one before does not, the name has a graph
        here only if a loop around both brings it back from further down.
        """
        span = self._span(expression)
        bound = {one.bind.at.span for one in bounds}
        if span in bound:
            return [one for one in bounds if one.bind.at.span == span]
        stores = self._stores(name, scope)
        if span in stores:
            return []
        statement = self._statement(span.line)
        before = [
            store
            for store in stores
            if (store.line, store.column) < (span.line, span.column) and not statement[0] <= store.line <= statement[1]
        ]
        chosen = before[-1] if before else None
        if chosen not in bound and self._scopes_at(span.line)[0] == scope:
            loops = [loop for loop in self._loops if loop[0] <= span.line <= loop[1]]
            back = [one for one in bound if any(first <= one.line <= last for first, last in loops)]
            if before and not back:
                return []
            chosen = max(back or bound, key=lambda one: (one.line, one.column))
        elif chosen not in bound:
            # Read in an inner function, which runs when everything around it is bound.
            chosen = max(bound, key=lambda one: (one.line, one.column))
        return [one for one in bounds if one.bind.at.span == chosen]

    def _stores(self, name: str, scope: tuple[int, int]) -> list[Span]:
        """Where a name is stored within a scope, in the order of the text."""
        spans = []
        for node in ast.walk(self.source.tree):
            if isinstance(node, (ast.Name, ast.Attribute)):
                stored = isinstance(node.ctx, ast.Store) and ast.unparse(node) == name
            else:
                stored = isinstance(node, ast.arg) and node.arg == name
            if stored and isinstance(node, (ast.Name, ast.Attribute, ast.arg)):
                if "." in name or self._scopes_at(node.lineno)[0] == scope:
                    spans.append(self._span(node))
        return sorted(spans, key=lambda span: (span.line, span.column))

    @cached_property
    def _loops(self) -> list[tuple[int, int]]:
        return [
            (node.lineno, node.end_lineno or node.lineno)
            for node in ast.walk(self.source.tree)
            if isinstance(node, (ast.For, ast.AsyncFor, ast.While))
        ]

    def _statement(self, line: int) -> tuple[int, int]:
        """The lines of the assignment at a line: what it binds, it binds after it has read the rest."""
        for node in ast.walk(self.source.tree):
            if isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign)):
                last = node.end_lineno or node.lineno
                if node.lineno <= line <= last:
                    return node.lineno, last
        return line, line

    def _explain_tensor(self, name: str, bounds: list[_Bound], line: int) -> str:
        # The story of one tape, told with all its iterations: the one with the most to tell.
        groups: dict[int, list[_Bound]] = {}
        for one in bounds:
            groups.setdefault(id(one.reading), []).append(one)
        group = max(groups.values(), key=lambda times: (times[0].bind.node is not None, len(times)))
        first = group[0]
        reading, bind = first.reading, first.bind
        if bind.node is None:
            return f"**`{name}`** {self._no_graph(reading, bind, line)}"
        if bind.node in reading.ledger.leaves:
            return self._leaf(name, reading, bind.node)
        counts = [len(self._nodes_of(one)) for one in group]
        nodes = self._nodes_of(first)
        built = self.lines((node.at for node in nodes), line)
        head = f"**`{name}`** carries a graph built on {built}: {count(len(nodes), 'node')}"
        freeing = self._freeing(first)
        keeping = self._keeping(first)
        if freeing is not None:
            later = "" if freeing.at.iteration == bind.at.iteration else " in a later iteration"
            head += f", freed by {line_of(freeing.at.span, bind.at.span)}{later}"
        elif keeping is not None:
            head += f", kept by {line_of(keeping.at.span, bind.at.span)} (`retain_graph=True`)"
        else:
            head += ", which no backward frees" if reading.complete else ", not seen to be freed"
        details = [self._saved(nodes), self._leads_to(reading, [bind.node])]
        if len(counts) >= 3 and counts[0] < counts[1] < counts[2]:
            listed = ", ".join(map(str, counts[:3]))
            details.append(f"grows with each iteration: {listed}, … nodes")
        stale = next((text for one in group if (text := self._freed_before(one, line))), "")
        details.append(stale)
        if bind.cuts:
            details.append(f"parts of it are cut off by {self._cuts(reading, bind, line)}")
        places = {self.lines((node.at for node in self._nodes_of(times[0])), line) for times in groups.values()}
        if len(places) > 1:
            details.append("another way through the program builds it elsewhere")
        return _page(head, details)

    def _nodes_of(self, one: _Bound) -> list[Node]:
        if one.bind.node is None:
            return []
        ledger = one.reading.ledger
        reached = sorted(ledger.ancestry([one.bind.node]))
        return [ledger.nodes[node] for node in reached if node in ledger.nodes]

    def _freeing(self, one: _Bound) -> Run | None:
        """The first backward after a binding that frees something of the tensor's graph."""
        found: Run | None = None
        for node in self._nodes_of(one):
            by = one.reading.ledger.freed_by(node.id)
            run = one.reading.run_of.get(by.id) if by is not None else None
            if run is not None and run.position > one.position:
                if found is None or run.position < found.position:
                    found = run
        return found

    def _keeping(self, one: _Bound) -> Run | None:
        """The first backward after a binding that walks the tensor's graph and retains it."""
        own = {node.id for node in self._nodes_of(one)}
        for run in one.reading.runs:
            if run.position > one.position and run.backward.retain == "yes" and own & set(run.traversal.executed):
                return run
        return None

    def _freed_before(self, one: _Bound, line: int) -> str:
        """Nodes of the graph that were freed before the tensor was made."""
        gone = []
        for node in self._nodes_of(one):
            by = one.reading.ledger.freed_by(node.id)
            run = one.reading.run_of.get(by.id) if by is not None else None
            if run is not None and run.position < one.position and node.keeps == "yes":
                gone.append((node, run))
        if not gone:
            return ""
        node, run = gone[-1]
        built = self.lines((node.at for node, _ in gone), line)
        time = _iteration(one.bind.at)
        return (
            f"{time + ': ' if time else ''}includes nodes of {built} that "
            f"{line_of(run.at.span, one.bind.at.span)} freed{when(run.at, one.bind.at)}"
        )

    def _no_graph(self, reading: Reading, bind: Bind, line: int) -> str:
        if not bind.cuts:
            return "has no graph: nothing that it was computed from requires grad"
        return f"has no graph: cut by {self._cuts(reading, bind, line)}"

    def _cuts(self, reading: Reading, bind: Bind, line: int) -> str:
        values: dict[tuple[str, str], list[str]] = {}
        for cut in with_sources(reading, bind.cuts).values():
            place = (_CUTS.get(cut.how, cut.how), line_of(cut.at.span, bind.at.span))
            values.setdefault(place, []).append(cut.name)
        texts = [
            f"{how}{f' of `{names[0]}`' if len(set(names)) == 1 and names[0] else ''} on {where}"
            for (how, where), names in values.items()
        ]
        return join(texts[:_MAX_NAMES])

    def _leaf(self, name: str, reading: Reading, leaf: int) -> str:
        event = reading.ledger.leaves[leaf]
        kind = "parameter" if event.parameter else "leaf that requires grad"
        reaching = [run for run in reading.runs if leaf in run.traversal.executed and run.backward.accumulates]
        lines = sorted({run.at.line for run in reaching if run.at.file == self.source.path})
        head = f"**`{name}`** is a {kind}: it has no graph of its own, gradients accumulate in `{name}.grad`"
        by = f"receives a gradient from the backward on {_range(set(lines))}" if lines else ""
        return _page(head, [by or "no backward reaches it"])

    def _saved(self, nodes: Sequence[Node]) -> str:
        keeping = [node for node in nodes if node.keeps != "no"]
        if not keeping:
            return "no node saved a tensor: it can be traversed any number of times"
        named = list(dict.fromkeys(self._op(node) for node in keeping))
        listed = ", ".join(named[:_MAX_NAMES]) + (", …" if len(named) > _MAX_NAMES else "")
        return f"tensors saved by {len(keeping)} of {count(len(nodes), 'node')}: {listed}"

    def _op(self, node: Node) -> str:
        text = self._excerpt(node.at.span)
        if text:
            return f"`{text}`"
        name = re.sub(r"Backward\d*$", "", node.op)
        name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
        return f"`{name}` ({line_of(node.at.span, Span(self.source.path, 1, 1, 1, 1))})"

    def _leads_to(self, reading: Reading, roots: Sequence[int]) -> str:
        leaves = [node for node in reading.ledger.ancestry(roots) if node in reading.ledger.leaves]
        return f"leads to {self._leaves(reading, leaves)}" if leaves else ""

    @cached_property
    def _assignments(self) -> list[tuple[Span, str]]:
        """The values that are assigned to one name or attribute, with that."""
        return [
            (self._span(node.value), ast.unparse(node.targets[0]))
            for node in ast.walk(self.source.tree)
            if isinstance(node, ast.Assign)
            and len(node.targets) == 1
            and isinstance(node.targets[0], (ast.Name, ast.Attribute))
        ]

    def _leaf_name(self, leaf: Leaf) -> str:
        """A leaf as this file names it: "net.fc.weight" where its maker only knows "Linear.weight"."""
        parts = [leaf.name.partition(".")[2]] if leaf.parameter else []
        for span in (leaf.at.span, *leaf.at.stack):
            around = [one for one in self._assignments if one[0].file == span.file and contains(one[0], span)]
            if not around:
                break
            target = max(around, key=lambda one: (one[0].line, one[0].column))[1]
            parts.append(target.removeprefix("self."))
            if not target.startswith("self."):
                break
        else:
            parts = parts if len(parts) == 1 else [*parts, "self"]
        named = ".".join(part for part in reversed(parts) if part)
        return named if len(parts) > (1 if leaf.parameter else 0) else leaf.name

    def _leaves(self, reading: Reading, leaves: Iterable[int]) -> str:
        events = [reading.ledger.leaves[leaf] for leaf in sorted(leaves)]
        names = list(dict.fromkeys(name for event in events if (name := self._leaf_name(event))))
        kind = "parameter" if events and all(event.parameter for event in events) else "leaf"
        listed = ", ".join(f"`{name}`" for name in names[:_MAX_NAMES])
        more = ", …" if len(names) > _MAX_NAMES else ""
        return count(len(events), kind) + (f" ({listed}{more})" if listed else "")

    # What is cut off

    def _cut(self, line: int, column: int) -> Hover | None:
        """What an expression at a place cuts off: `.detach()`, `.item()`, a computation under `no_grad`."""
        cuts: list[tuple[Reading, Cut, Span]] = []
        for reading in self.readings:
            for event in reading.tape.events:
                if isinstance(event, Cut) and (event.nodes or event.leaves):
                    # Under no_grad everything is cut, in the functions that are called there too.
                    spans = (event.at.span, *(event.at.stack if event.how == "no_grad" else ()))
                    at = [span for span in spans if span.file == self.source.path and inside(span, line, column)]
                    cuts += [(reading, event, span) for span in at[:1]]
        if not cuts:
            return None
        span = max((span for _, _, span in cuts), key=lambda one: (one.line, one.column, -one.end_line))
        if self.in_argument(span, line, column):
            return None
        reading, cut, _ = next(found for found in cuts if found[2] == span)
        # One pass over the line may cut several values (each op under no_grad makes a cut of its own).
        same = [
            event
            for other, event, there in cuts
            if other is reading and there == span and event.at.iteration == cut.at.iteration
        ]
        return Hover(self._explain_cut(reading, same, span), span)

    def _explain_cut(self, reading: Reading, cuts: Sequence[Cut], span: Span) -> str:
        cut = cuts[0]
        text = self._excerpt(span)
        ledger = reading.ledger
        roots = [number for one in cuts for number in (*one.nodes, *one.leaves)]
        reached = ledger.ancestry(roots)
        nodes = [ledger.nodes[number] for number in sorted(reached) if number in ledger.nodes]
        leaves = [number for number in reached if number in ledger.leaves]
        head = f"**`{text}`** " if text else f"**{_CUTS.get(cut.how, cut.how)}** "
        if cut.how == "no_grad":
            head += "is computed under `torch.no_grad()`: no graph is recorded"
        elif nodes:
            built = self.lines((node.at for node in nodes), cut.at.line)
            head += f"cuts off {count(len(nodes), 'node')} built on {built}"
        else:
            head += "cuts the value off from what it was made of"
        kept = "no gradient goes back to" if cut.how != "frozen" else "gradients no longer go to"
        to = f"{kept} {self._leaves(reading, leaves)}" if leaves else "no gradient goes back through it"
        return _page(head, [to])

    # Optimizers

    @cached_property
    def _optimizer_sites(self) -> dict[str, set[Span]]:
        """Where the optimizers that a name stands for were made, as far as assignments and steps show."""
        made = {event.at.span for reading in self.readings for event in reading.optimizers.values()}
        steps: dict[Span, set[Span]] = {}
        for reading in self.readings:
            for _, step in reading.steps:
                optimizer = reading.optimizers.get(step.optimizer)
                if optimizer is not None:
                    steps.setdefault(step.at.span, set()).add(optimizer.at.span)
        if not made:
            return {}
        names: dict[str, set[Span]] = {}
        for node in ast.walk(self.source.tree):
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
                span = self._span(node.value)
                targets = [target for target in node.targets if isinstance(target, (ast.Name, ast.Attribute))]
                if span in made:
                    for target in targets:
                        names.setdefault(ast.unparse(target), set()).add(span)
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "step":
                for span in steps.get(self._span(node), ()):
                    names.setdefault(ast.unparse(node.func.value), set()).add(span)
                    names.setdefault(ast.unparse(node.func), set()).add(span)
        return names

    def _optimizer(self, expression: ast.Name | ast.Attribute | ast.arg) -> str | None:
        name = expression.arg if isinstance(expression, ast.arg) else ast.unparse(expression)
        sites = self._optimizer_sites.get(name)
        if not sites:
            return None
        told = [
            (reading, optimizer)
            for reading in self.readings
            for optimizer in reading.optimizers.values()
            if optimizer.at.span in sites
        ]
        # The way through the program with the most steps has the most to tell.
        reading, optimizer = max(
            told, key=lambda pair: sum(step.optimizer == pair[1].id for _, step in pair[0].steps)
        )
        return self._explain_optimizer(name.removesuffix(".step"), reading, optimizer)

    def _explain_optimizer(self, name: str, reading: Reading, optimizer: Optimizer) -> str:
        own = [leaf for leaf in optimizer.params if leaf in reading.ledger.leaves]
        whole = optimizer.complete == "yes"
        listed = self._leaves(reading, own) if own else "parameters that the dry run cannot see"
        head = f"**`{name}`** updates {'' if whole or not own else 'at least '}{listed}"
        steps = [position for position, step in reading.steps if step.optimizer == optimizer.id]
        if not own or not steps:
            return _page(head, [] if steps or not reading.complete else ["its `step()` is never called"])
        got = self._with_gradient(reading, own, steps[0])
        missing = [leaf for leaf in own if leaf not in got]
        unseen = any(
            root.graph == "may" for run in reading.runs if run.position < steps[0] for root in run.backward.roots
        )
        details = []
        if not missing:
            details.append("at its first `step()` all of them have a gradient")
        elif unseen:
            details.append(f"at its first `step()` {len(got)} of {len(own)} certainly have a gradient")
        else:
            details.append(f"at its first `step()` {len(got)} of {len(own)} have a gradient")
            details.append(f"no backward before it reaches {self._leaves(reading, missing)}")
        return _page(head, details)

    def _with_gradient(self, reading: Reading, leaves: Sequence[int], before: int) -> set[int]:
        """The leaves whose `.grad` is set at a position of the tape."""
        got: set[int] = set()
        for leaf in leaves:
            reaching = [
                run.position
                for run in reading.runs
                if run.position < before and run.backward.accumulates and leaf in run.traversal.executed
            ]
            cleared = [
                position
                for position, event in reading.cleared.get(leaf, ())
                if position < before and event.to_none == "yes"
            ]
            if reaching and reaching[-1] > max(cleared, default=-1):
                got.add(leaf)
        return got

    # Backwards

    def _backward(self, line: int, column: int) -> Hover | None:
        spans = {
            run.at.span
            for reading in self.readings
            for run in reading.runs
            if run.at.file == self.source.path and inside(run.at.span, line, column)
        }
        if not spans:
            return None
        # The innermost call, and not where the pointer is on one of its arguments.
        span = max(spans, key=lambda one: (one.line, one.column, -one.end_line, -one.end_column))
        if self.in_argument(span, line, column):
            return None
        return Hover(self._explain_backward(span), span)

    def in_argument(self, call: Span, line: int, column: int) -> bool:
        """Whether a place within a call is in one of its arguments."""
        for node in ast.walk(self.source.tree):
            if isinstance(node, ast.Call) and self._span(node) == call:
                values = [*node.args, *(keyword.value for keyword in node.keywords)]
                return any(inside(self._span(value), line, column) for value in values)
        return False

    def _call(self, span: Span, backward: Backward) -> str:
        text = self._excerpt(span)
        if text:
            return f"`{text}`"
        return "`.backward()`" if backward.call == "backward" else "`autograd.grad`"

    def _explain_backward(self, span: Span) -> str:
        tapes = [(reading, reading.runs_by_site[span]) for reading in self.readings if span in reading.runs_by_site]
        failing = [(reading, runs) for reading, runs in tapes if any(run.failed for run in runs)]
        reading, runs = max(failing or tapes, key=lambda pair: len(pair[1]))
        first = runs[0]
        call = self._call(span, first.backward)
        counts = [len(reading.graph_nodes(run.traversal.executed)) for run in runs]
        problem = next((run for run in runs if run.failed), None)
        head = f"**{call}** {self._walk(reading, first)}"
        details = []
        if problem is not None:
            time = _iteration(problem.at)
            verb = "fails" if len(failing) == len(tapes) else "may fail"
            text = f"{verb}{' on ' + time if time else ''}: {self._problem(reading, problem)}"
            if problem is first:
                head = f"**{call}** {text}"
            else:
                details.append(f"**{text}**")
        if problem is not first:
            details += [self._gradients(reading, first), self._frees(reading, first)]
        passed = counts if problem is None else counts[: runs.index(problem)]
        if len(passed) >= 3 and passed[0] < passed[1] < passed[2]:
            listed = ", ".join(map(str, passed[:3]))
            details.append(f"walks {listed}, … nodes in successive iterations: the graph grows")
        elif len(passed) > 1 and len(set(passed[1:])) == 1 and passed[0] != passed[1]:
            details.append(f"from the second time on: {count(passed[1], 'node')}")
        elif len(passed) > 1 and len(set(passed)) == 1 and first.at.iteration:
            details.append("the same in every iteration")
        return _page(head, details)

    def _walk(self, reading: Reading, run: Run) -> str:
        backward = run.backward
        nodes = walked(reading, run)
        if not nodes:
            if any(root.graph == "may" for root in backward.roots):
                return "starts from a tensor whose graph the dry run cannot see"
            return "walks no nodes: it starts from a leaf"
        built = self.lines((node.at for node in nodes), run.at.line)
        end = "and frees them"
        if backward.create == "yes":
            end = "and builds a graph of the gradients (`create_graph=True`)"
        elif backward.retain == "yes":
            end = "and keeps them (`retain_graph=True`)"
        elif backward.retain == "may":
            end = "and frees them, unless `retain_graph` is true"
        return f"walks {count(len(nodes), 'node')} built on {built} {end}"

    def _gradients(self, reading: Reading, run: Run) -> str:
        reached = [node for node in run.traversal.executed if node in reading.ledger.leaves]
        if not run.backward.accumulates:
            asked = len(run.backward.inputs or ())
            return f"returns {count(asked, 'gradient')} and leaves every `.grad` alone" if asked else ""
        if not reached:
            return "no parameter gets a gradient" if not self._unseen(run) else ""
        return f"accumulates `.grad` of {self._leaves(reading, reached)}"

    def _unseen(self, run: Run) -> bool:
        return any(root.graph == "may" for root in run.backward.roots)

    def _frees(self, reading: Reading, run: Run) -> str:
        nodes = walked(reading, run)
        return self._saved(nodes) if nodes else ""

    def _problem(self, reading: Reading, run: Run) -> str:
        problem = run.traversal.problem
        assert problem is not None
        if problem.kind == "no-graph":
            root = run.backward.roots[problem.root]
            named = f"`{root.name}`" if root.name else "the tensor"
            cuts = [
                f"{_CUTS.get(cut.how, cut.how)} on {line_of(cut.at.span, run.at.span)}"
                for cut in with_sources(reading, root.cuts).values()
            ]
            why = f" (cut by {join(list(dict.fromkeys(cuts))[:_MAX_NAMES])})" if cuts else ""
            return f"{named} has no graph{why}"
        if problem.kind == "unused":
            return "an input is not part of the graph"
        return self._node_problem(reading, run, problem)

    def _node_problem(self, reading: Reading, run: Run, problem: Problem) -> str:
        assert problem.node is not None
        built = f"{self._op(problem.node)} ({line_of(problem.node.at.span, run.at.span)}"
        built += f"{when(problem.node.at, run.at)})"
        if problem.kind == "freed" and problem.freed_by is not None:
            freeing = reading.run_of[problem.freed_by.id]
            return f"what {built} saved was freed by {freed_text(freeing, run)}"
        if problem.changed_by is not None:
            change = problem.changed_by
            name = f"`{change.name}`" if change.name else "a tensor"
            return (
                f"{name}, saved by {built}, was changed in place by `{change.how}` on "
                f"{line_of(change.at.span, run.at.span)}{when(change.at, run.at)}"
            )
        return f"{built} cannot be traversed"

    # retain_graph

    def _retain(self, span: Span) -> str:
        """Who needs a retained graph, or that nobody does."""
        needing: list[str] = []
        growing = False
        whole = True
        created = False
        for reading in self.readings:
            own = {run.backward.id for run in reading.runs if run.backward.retain_span == span}
            if not own:
                continue
            whole = whole and reading.complete
            for run in reading.runs:
                created = created or (run.backward.id in own and run.backward.create == "yes")
                users = [node for node, by in run.traversal.retraversed.items() if own.intersection(by)]
                if not users:
                    continue
                built = self.lines((reading.ledger.nodes[node].at for node in users), span.line)
                itself = run.backward.id in own
                other = f"the {_kind(run)} on {line_of(run.at.span, span)}"
                where = "this same call, later on," if itself else other
                needing.append(f"{where} walks the nodes built on {built} again")
            growing = growing or any(run.backward.id in own for chain in reading.growing_chains for run in chain.runs)
        details = list(dict.fromkeys(needing))[:_MAX_NAMES]
        if created:
            head = "**`retain_graph`** says here what `create_graph=True` implies"
        elif details:
            head = f"**`retain_graph`** is needed: {details.pop(0)}"
        elif whole:
            head = "**`retain_graph`** is needed by nobody: nothing traverses this graph again"
        else:
            head = "**`retain_graph`**: the dry run sees nobody who traverses this graph again"
        if growing:
            details.append("each backward walks the graphs of all earlier iterations: slower every time")
        return _page(head, details)


def walked(reading: Reading, run: Run) -> list[Node]:
    """The nodes that a backward executes."""
    return [reading.ledger.nodes[node] for node in run.traversal.executed if node in reading.ledger.nodes]


def _binds(reading: Reading) -> list[tuple[int, Bind]]:
    return [(position, event) for position, event in enumerate(reading.tape.events) if isinstance(event, Bind)]


def _kind(run: Run) -> str:
    return "backward" if run.backward.call == "backward" else "`autograd.grad`"


def inside(span: Span, line: int, column: int) -> bool:
    """Whether a place (line and column from 1) is in a span."""
    return (span.line, span.column) <= (line, column) < (span.end_line, span.end_column)


def _range(lines: set[int]) -> str:
    if len(lines) == 1:
        return f"line {min(lines)}"
    return f"lines {min(lines)}–{max(lines)}"


def contains(large: Span, small: Span) -> bool:
    """Whether one span lies within another of the same file."""
    return (large.line, large.column) <= (small.line, small.column) and (small.end_line, small.end_column) <= (
        large.end_line,
        large.end_column,
    )


def count(number: int, thing: str) -> str:
    """A number of things in words: "1 node", "2 leaves"."""
    if number == 1:
        return f"1 {thing}"
    return f"{number} {'leaves' if thing == 'leaf' else thing + 's'}"


def _iteration(site: Site) -> str:
    return f"iteration {site.iteration[-1][1]}" if site.iteration else ""


def _page(head: str, details: Iterable[str]) -> str:
    listed = "\n".join(f"- {detail}" for detail in details if detail)
    return f"{head}\n\n{listed}" if listed else head
