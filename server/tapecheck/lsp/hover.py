"""Hovers: what the tapes show about the expression under the pointer, in markdown."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from tapecheck.lsp.backwards import explain_backward, explain_retain
from tapecheck.lsp.outline import Word, inside, name_of
from tapecheck.lsp.telling import CUTS, Telling, count, each_line, page
from tapecheck.lsp.tensors import Tensors
from tapecheck.rules.finding import Finding
from tapecheck.rules.needless_retain_graph.rule import NeedlessRetainGraph
from tapecheck.rules.reading import Reading, Run
from tapecheck.rules.words import line as line_of
from tapecheck.source import Source
from tapecheck.tape import Cut, Leaf, Node, Optimizer, Span, Tape

_HARMLESS = "torch's warning that none of the inputs have `requires_grad=True` is harmless here"


@dataclass(frozen=True, slots=True)
class Hover:
    """Markdown, and the text it is about."""

    markdown: str
    span: Span


class Explainer(Telling):
    """Makes the hovers of one file from its tapes."""

    def __init__(self, source: Source, tapes: Sequence[Tape], findings: Sequence[Finding] = ()) -> None:
        super().__init__(source, tapes, findings)
        self._tensors = Tensors(self)

    def hover(self, line: int, column: int) -> Hover | None:
        """Return what happens at a place (line and column from 1, in characters); None where nothing does.

        The place behind the last letter of an expression still belongs to it, where nothing else begins.
        """
        found = self._at(line, column)
        found = self._at(line, column - 1) if found is None and column > 1 else found
        return found if found is not None and found.markdown else None

    def _at(self, line: int, column: int) -> Hover | None:
        for reading in self.readings:
            for run in reading.runs:
                span = run.backward.retain_span
                if span is not None and span.file == self.source.path and inside(span, line, column):
                    # Where it is unnecessary, the finding on the call says so.
                    text = "" if self.reported(run.at.span, NeedlessRetainGraph.code) else explain_retain(self, span)
                    return Hover(text, span)
        word = self.outline.word(line, column)
        if word is not None:
            found = self._tensors.explain(word, line) or self._optimizer(word)
            if found is not None:
                return Hover(found, self.outline.span(word))
        here = self._cut(line, column) or self._backward(line, column) or self._class(line, column)
        if here is None and word is not None:
            found = self._model(word, line)
            here = Hover(found, self.outline.span(word)) if found is not None else None
        return here

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
        if self.outline.in_argument(span, line, column):
            return None
        return Hover(explain_backward(self, span), span)

    # What is cut off

    def _cut(self, line: int, column: int) -> Hover | None:
        """Return what an expression at a place cuts off: `.detach()`, `.item()`, a computation under `no_grad`."""
        cuts = list(self._cuts_at(line, column))
        if not cuts:
            return None
        span = max((span for _, _, span in cuts), key=lambda one: (one.line, one.column, -one.end_line))
        if self.outline.in_argument(span, line, column):
            return None
        reading, cut, _ = next(found for found in cuts if found[2] == span)
        # One pass over the line may cut several values (each op under no_grad makes a cut of its own).
        same = [
            event
            for other, event, there in cuts
            if other is reading and there == span and (event.at.iteration == cut.at.iteration or cut.how == "frozen")
        ]
        return Hover(self._explain_cut(reading, same, span), span)

    def _cuts_at(self, line: int, column: int) -> Iterator[tuple[Reading, Cut, Span]]:
        """Yield the cuts of what is computed at a place, each with where that stands."""
        for reading in self.readings:
            for event in reading.tape.events:
                if isinstance(event, Cut) and (event.nodes or event.leaves or event.how == "checkpoint"):
                    spans = self._under_no_grad(event) if event.how == "no_grad" else [event.at.span]
                    at = [span for span in spans if span.file == self.source.path and inside(span, line, column)]
                    yield from ((reading, event, span) for span in at[:1])

    def _under_no_grad(self, cut: Cut) -> list[Span]:
        """Return what is computed under the `no_grad` that cuts: the operation, and the calls around it within it."""
        own = _operation(cut)
        places = [span for span in (*cut.within, cut.at.span, *cut.at.stack) if span.file == self.source.path]
        within = next((number for number, span in enumerate(places) if self.outline.without_grad(span)), None)
        if within is None:
            return [own]
        return [span for span in places[: within + 1] if span == own or span in self.outline.calls]

    def _explain_cut(self, reading: Reading, cuts: Sequence[Cut], span: Span) -> str:
        cut = cuts[0]
        text = self.excerpt(span)
        ledger = reading.ledger
        roots = [number for one in cuts for number in (*one.nodes, *one.leaves)]
        reached = ledger.ancestry(roots)
        nodes = [ledger.nodes[number] for number in sorted(reached) if number in ledger.nodes]
        leaves = [number for number in reached if number in ledger.leaves]
        head = f"**`{text}`** " if text else f"**{CUTS.get(cut.how, cut.how)}** "
        if cut.how == "frozen" and leaves and not nodes:
            # The loop over a model's parameters switches one of them off in each iteration.
            return page(
                head + f"switches `requires_grad` off for {self.leaves(reading, leaves)}: they get no gradient", []
            )
        if cut.how == "checkpoint" and not roots:
            # With a graph on another pass over the line, that one is told of.
            return page(head + "records no graph: nothing inside requires grad", [_HARMLESS])
        kept = "no gradient goes back to" if cut.how != "frozen" else "gradients no longer go to"
        to = f"{kept} {self.leaves(reading, leaves)}" if leaves else "no gradient goes back through it"
        return page(head + self._cutting(cut, span, nodes), [to, self._first_order(reading, cuts)])

    def _cutting(self, cut: Cut, span: Span, nodes: list[Node]) -> str:
        """Return what a cut does: to the graph of some nodes, where it had one."""
        if cut.how == "no_grad":
            return f"is computed under `torch.no_grad()`{self._only_in(cut, span)}: no graph is recorded"
        if nodes:
            built = self.lines((node.at for node in nodes), cut.at.line)
            return f"cuts off {count(len(nodes), 'node')} built on {built}"
        return "cuts the value off from what it was made of"

    def _first_order(self, reading: Reading, cuts: Sequence[Cut]) -> str:
        """Return which later backward treats the gradients as constants, as in a first-order inner step."""
        taken = {cut.id for cut in cuts if cut.how == "grad"}
        for run in reading.runs if taken else ():
            if not taken.isdisjoint(reading.constants_of(run)):
                return _as_constant(run, cuts[0])
        return ""

    def first_orders(self) -> list[tuple[Span, str]]:
        """Return the calls of `autograd.grad` whose gradients a later backward treats as constants, each with why."""
        found: dict[Span, str] = {}
        for reading in self.readings:
            grads = (event for event in reading.tape.events if isinstance(event, Cut) and event.how == "grad")
            taken = {cut.id: cut for cut in grads if cut.at.file == self.source.path}
            for run in reading.runs if taken else ():
                for number in taken.keys() & reading.constants_of(run):
                    found.setdefault(taken[number].at.span, _as_constant(run, taken[number]))
        return sorted(found.items(), key=lambda one: (one[0].line, one[0].column))

    def _only_in(self, cut: Cut, span: Span) -> str:
        """Return in which call it is so, where the same text records a graph in another one."""
        calls = (*cut.within[1:], cut.at.span, *cut.at.stack) if cut.within else cut.at.stack
        if span != _operation(cut) or not calls:
            return ""
        nodes = (node for reading in self.readings for node in reading.ledger.nodes.values())
        return f" {self.call(calls[0])}" if any(node.at.span == span for node in nodes) else ""

    # Optimizers

    @cached_property
    def _optimizer_sites(self) -> dict[str, set[Span]]:
        """Return where the optimizers of each name were made, as far as assignments and steps show."""
        made = {event.at.span for reading in self.readings for event in reading.optimizers.values()}
        if not made:
            return {}
        steps = self._stepped()
        names: dict[str, set[Span]] = {}
        for node in self.source.nodes():
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
                span = self.outline.span(node.value)
                targets = [target for target in node.targets if isinstance(target, (ast.Name, ast.Attribute))]
                if span in made:
                    for target in targets:
                        names.setdefault(ast.unparse(target), set()).add(span)
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "step":
                for span in steps.get(self.outline.span(node), ()):
                    names.setdefault(ast.unparse(node.func.value), set()).add(span)
                    names.setdefault(ast.unparse(node.func), set()).add(span)
        return names

    def _stepped(self) -> dict[Span, set[Span]]:
        """Return where steps are, each with where the optimizers that it steps were made."""
        steps: dict[Span, set[Span]] = {}
        for reading in self.readings:
            for _, step in reading.steps:
                optimizer = reading.optimizers.get(step.optimizer)
                if optimizer is not None:
                    steps.setdefault(step.at.span, set()).add(optimizer.at.span)
        return steps

    def _optimizer(self, word: Word) -> str | None:
        name = name_of(word)
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
        reading, optimizer = max(told, key=lambda pair: sum(step.optimizer == pair[1].id for _, step in pair[0].steps))
        return self._explain_optimizer(name.removesuffix(".step"), reading, optimizer)

    def _explain_optimizer(self, name: str, reading: Reading, optimizer: Optimizer) -> str:
        own = [leaf for leaf in optimizer.params if leaf in reading.ledger.leaves]
        whole = optimizer.complete == "yes"
        listed = self.leaves(reading, own) if own else "parameters that the dry run cannot see"
        head = f"**`{name}`** updates {'' if whole or not own else 'at least '}{listed}"
        first = next((position for position, step in reading.steps if step.optimizer == optimizer.id), None)
        if first is None:
            return page(head, [self._no_step(reading)])
        return page(head, self._at_first_step(reading, own, first) if own else [])

    def _at_first_step(self, reading: Reading, own: list[int], step: int) -> list[str]:
        """Return how many of an optimizer's parameters have a gradient at its first step."""
        got = self._with_gradient(reading, own, step)
        missing = [leaf for leaf in own if leaf not in got]
        if not missing:
            return ["at its first `step()` all of them have a gradient"]
        before = (run.backward for run in reading.runs if run.position < step)
        if any(root.graph == "may" for backward in before for root in backward.roots):
            some = f"at its first `step()` {len(got)} of {len(own)} certainly have a gradient"
            return [some if got else "whether they have a gradient at its first `step()` is not known"]
        return [
            f"at its first `step()` {len(got)} of {len(own)} have a gradient",
            f"no backward before it reaches {self.leaves(reading, missing)}",
        ]

    # Models

    def _model(self, word: Word, line: int) -> str | None:
        """Return what becomes of the parameters of a model or layer; None for what has none that are seen."""
        name = name_of(word)
        meant = self.outline.meaning(name, line)
        values = [
            span for span, target in self.outline.assignments
            if target == name and self.outline.meaning(name, span.line) == meant
        ]  # fmt: skip
        return self._parameters(f"**`{name}`**", values) if values and meant is not None else None

    def _class(self, line: int, column: int) -> Hover | None:
        """Return what becomes of the parameters that objects of a class make, on its name where it is defined."""
        for node, name in self.outline.classes:
            if inside(name, line, column):
                body = Span(self.source.path, node.lineno, 1, node.end_lineno or node.lineno, 1_000)
                found = self._parameters(f"**`class {node.name}`**", [body])
                return Hover(found, name) if found is not None else None
        return None

    def _parameters(self, head: str, values: Sequence[Span]) -> str | None:
        """Return what becomes of the parameters that were made within some places of the text."""
        path = self.source.path

        def made_here(leaf: Leaf) -> bool:
            sites = [span for span in (leaf.at.span, *leaf.at.stack) if span.file == path]
            return leaf.parameter and any(value.holds(span) for span in sites for value in values)

        owned = {
            id(reading): [number for number, leaf in reading.ledger.leaves.items() if made_here(leaf)]
            for reading in self.readings
        }
        # The way through the program with the most backwards has the most to tell.
        reading = max(self.readings, key=lambda one: (bool(owned[id(one)]), len(one.runs)), default=None)
        if reading is None or not owned[id(reading)]:
            return None
        own = owned[id(reading)]
        details = [*_reaching(reading, own, path), *_looked_after(reading, set(own))]
        return page(f"{head} has {self.leaves(reading, own)}", details)

    def _no_step(self, reading: Reading) -> str:
        failed = next((run for run in reading.runs if run.failed), None)
        if failed is None or failed.at.file != self.source.path:
            return "the dry run did not come to a call of its `step()`"
        return f"its `step()` is not reached: the backward on line {failed.at.line} fails first"

    def _with_gradient(self, reading: Reading, leaves: Sequence[int], before: int) -> set[int]:
        """Return the leaves whose `.grad` is set at a position of the tape."""
        got: set[int] = set()
        for leaf in leaves:
            reaching = [
                run.position
                for run in reading.runs
                if run.position < before and run.backward.accumulates and leaf in run.executed
            ]
            cleared = [
                position
                for position, event in reading.cleared.get(leaf, ())
                if position < before and event.to_none == "yes"
            ]
            if reaching and reaching[-1] > max(cleared, default=-1):
                got.add(leaf)
        return got


def _as_constant(run: Run, cut: Cut) -> str:
    where = line_of(run.at.span, cut.at.span)
    return f"first order only: the backward on {where} treats it as a constant (no `create_graph=True`)"


def _operation(cut: Cut) -> Span:
    """Return the operation that cuts, in whatever call it is."""
    return cut.within[0] if cut.within else cut.at.span


def _reaching(reading: Reading, own: Sequence[int], path: str) -> Iterator[str]:
    """Yield which backward calls of a file reach some parameters."""
    runs = [run for run in reading.runs if run.backward.accumulates and set(own) & set(run.executed)]
    reached = {leaf for run in runs for leaf in own if leaf in run.executed}
    lines = {run.at.line for run in runs if run.at.file == path}
    if lines:
        part = "" if len(reached) == len(own) else f"{len(reached)} of {len(own)} receive gradients: "
        yield f"{part}reached by the backward{'s' * (len(lines) > 1)} on {each_line(lines)}"
    elif not runs and reading.complete:
        yield "no backward reaches them"


def _looked_after(reading: Reading, own: set[int]) -> Iterator[str]:
    """Yield how many of some parameters are frozen, and how many an optimizer has."""
    frozen = {leaf for cut in reading.ledger.cuts.values() if cut.how == "frozen" for leaf in cut.leaves} & own
    if frozen:
        of = "them" if len(frozen) == len(own) else f"{len(frozen)} of them"
        yield f"`requires_grad` is switched off for {of}"
    given = {leaf for one in reading.optimizers.values() for leaf in (*one.params, *one.frozen)}
    if reading.optimizers and all(one.complete == "yes" for one in reading.optimizers.values()):
        held = len(given & own)
        if held == len(own):
            yield f"an optimizer {'has' if frozen else 'updates'} them"
        else:
            yield f"an optimizer has {held} of {len(own)}" if held else "no optimizer has them"
