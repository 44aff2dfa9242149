"""A builder of tapes by hand: programs as the engine sees them, a line for each event."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from tapecheck.rules import Finding, judge
from tapecheck.tape import (
    Backward,
    Bind,
    Cut,
    Decision,
    End,
    Escape,
    GradientCleared,
    Hold,
    InPlace,
    Iteration,
    Leaf,
    Loop,
    LoopEnd,
    Node,
    Optimizer,
    Raised,
    Root,
    Saved,
    Site,
    Span,
    Step,
    Tape,
)

FILE = "train.py"


class Builder:
    """Writes one tape; every method takes the line on which the event happens and answers its id."""

    def __init__(self) -> None:
        self.tape = Tape("test")
        self.iteration: tuple[tuple[int, int], ...] = ()
        self.versions: dict[int, int] = {}
        self.storages: dict[int, int] = {}
        self.names: dict[int, str] = {}
        self._ids = self._loops = self._backwards = self._cuts = self._optimizers = 0

    def span(self, line: int) -> Span:
        return Span(FILE, line, 5, line, 25)

    def site(self, line: int, stack: Sequence[int] = ()) -> Site:
        return Site(self.span(line), "train", tuple(self.span(call) for call in stack), self.iteration)

    def leaf(self, line: int, name: str = "w", parameter: bool = True) -> int:
        self._ids += 1
        self.storages[self._ids] = self._ids
        self.tape.events.append(Leaf(self._ids, name, self.site(line), self._ids, parameter))
        return self._ids

    def node(
        self,
        line: int,
        *inputs: int,
        saves: Sequence[int] = (),
        keeps: str | None = None,
        name: str = "",
        op: str = "MmBackward0",
        cuts: Sequence[int] = (),
        stack: Sequence[int] = (),
        linked: str = "yes",
        graph_of: str | None = None,
    ) -> int:
        """An op on `inputs`; it saves the values of `saves` (0: data that requires no grad)."""
        self._ids += 1
        self.storages[self._ids] = self._ids
        saved = tuple(
            Saved(
                self.storages.get(of, 900),
                self.versions.get(self.storages.get(of, 900), 0),
                "self",
                of or None,
            )
            for of in saves
        )
        fact: Any = keeps if keeps is not None else ("yes" if saved else "no")
        site, link = self.site(line, stack), linked
        event = Node(self._ids, op, site, inputs, saved, fact, link, tuple(cuts), graph_of)  # type: ignore[arg-type]
        self.tape.events.append(event)
        if name:
            self.bind(line, name, self._ids, stack=stack)
        return self._ids

    def bind(self, line: int, name: str, node: int | None, stack: Sequence[int] = ()) -> None:
        if node is not None:
            self.names[node] = name
        self.tape.events.append(Bind(self.site(line, stack), name, node))

    def cut(
        self,
        line: int,
        how: str,
        *nodes: int,
        leaves: Sequence[int] = (),
        name: str = "",
        sources: Sequence[int] = (),
    ) -> int:
        self._cuts += 1
        event = Cut(self._cuts, how, self.site(line), nodes, tuple(leaves), name, tuple(sources))
        self.tape.events.append(event)
        return self._cuts

    def backward(self, line: int, *roots: int | Root, stack: Sequence[int] = (), **options: Any) -> int:
        """A `.backward()`; `retain=True` writes the argument at the call."""
        self._backwards += 1
        retain = options.pop("retain", None)
        if retain is not None:
            options |= {
                "retain": retain,
                "retain_argument": retain,
                "retain_span": Span(FILE, line, 15, line, 24),
            }
        starts = tuple(
            root if isinstance(root, Root) else Root(root, name=self.names.get(root, "loss")) for root in roots
        )
        call = options.pop("call", "backward")
        event = Backward(self._backwards, self.site(line, stack), call, starts, **options)
        self.tape.events.append(event)
        return self._backwards

    def grad(self, line: int, root: int | Root, *inputs: int, **options: Any) -> int:
        return self.backward(line, root, call="grad", inputs=inputs, accumulates=False, **options)

    def change(self, line: int, value: int, how: str = "add_", **options: Any) -> None:
        storage = self.storages.get(value, value)
        event = InPlace(self.site(line), storage, how, self.names.get(value, ""))
        self.tape.events.append(replace(event, **options))
        if event.bumps != "no":
            self.versions[storage] = self.versions.get(storage, 0) + 1

    def optimizer(self, line: int, *params: int, name: str = "optimizer", complete: Any = "yes") -> int:
        self._optimizers += 1
        self.tape.events.append(Optimizer(self._optimizers, self.site(line), name, params, complete))
        return self._optimizers

    def step(self, line: int, optimizer: int, *params: int) -> None:
        self.tape.events.append(Step(self.site(line), optimizer))
        for leaf in params:
            self.change(line, leaf, "step", optimizer=optimizer, grad_mode="no")

    def cleared(self, line: int, leaf: int, to_none: Any = "yes", detached: Any = "no") -> None:
        self.tape.events.append(GradientCleared(self.site(line), leaf, to_none, detached))

    def hold(self, line: int, holder: str, *nodes: int, bound: int | None = None, inside: bool = False) -> None:
        """At the end of the running iteration of the innermost loop."""
        loop, index = self.iteration[-1]
        self.tape.events.append(Hold(self.site(line), loop, index, holder, nodes, bound, inside))

    def escape(self, line: int, *nodes: int, to: str = "return") -> None:
        self.tape.events.append(Escape(self.site(line), nodes, to))

    def decide(self, line: int, text: str, taken: bool) -> None:
        self.tape.events.append(Decision(self.site(line), text, taken))

    def raised(self, line: int, backward: int | None = None, caught: bool = False) -> None:
        self.tape.events.append(Raised(self.site(line), "RuntimeError", "", backward, caught))

    @contextmanager
    def loop(self, line: int, *, forward: bool = False, more: Any = "may") -> Iterator[Callable[[], int]]:
        """A loop; call what it yields to begin the next iteration."""
        self._loops += 1
        number, outside, count = self._loops, self.iteration, 0
        self.tape.events.append(Loop(number, self.site(line), forward))

        def begin() -> int:
            nonlocal count
            count += 1
            self.tape.events.append(Iteration(number, count))
            self.iteration = (*outside, (number, count))
            return count

        yield begin
        self.iteration = outside
        self.tape.events.append(LoopEnd(number, count, more))

    def end(self, how: str = "finished", detail: str = "") -> Tape:
        self.tape.events.append(End(how, detail))
        return self.tape


@pytest.fixture
def build() -> Builder:
    return Builder()


@pytest.fixture
def another() -> Callable[[], Builder]:
    """Makes further builders, for programs with several ways through."""
    return Builder


@pytest.fixture
def found() -> Callable[..., list[Finding]]:
    """The findings of all rules, or of one, over tapes; builders are ended where they have no end yet."""

    def of(*tapes: Builder | Tape, code: str | None = None) -> list[Finding]:
        ended = [tape if isinstance(tape, Tape) else tape.tape if _ended(tape.tape) else tape.end() for tape in tapes]
        return judge(ended, select=None if code is None else [code])

    return of


@pytest.fixture
def remarks() -> Callable[[Finding, str], dict[int, str]]:
    """Returns what the labels of one role say, by line."""

    def of(finding: Finding, role: str) -> dict[int, str]:
        return {label.span.line: label.message for label in finding.labels if label.role == role}

    return of


def _ended(tape: Tape) -> bool:
    return bool(tape.events) and isinstance(tape.events[-1], End)
