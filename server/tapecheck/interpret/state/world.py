"""One path through a program: everything that it changes besides the values themselves."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from tapecheck.interpret.state.assumptions import Assumptions
from tapecheck.interpret.state.budget import Budget
from tapecheck.interpret.state.calls import Calls
from tapecheck.interpret.state.choices import Choices, Place, Policy
from tapecheck.interpret.state.comparisons import Comparisons
from tapecheck.interpret.state.graph import GraphBuilder
from tapecheck.interpret.state.history import LoopHistory
from tapecheck.interpret.state.knowledge import Knowledge
from tapecheck.interpret.state.loops import Loops
from tapecheck.interpret.state.modes import Modes
from tapecheck.interpret.state.omissions import Omissions
from tapecheck.interpret.state.position import Position
from tapecheck.interpret.state.stores import StoreCounts
from tapecheck.interpret.state.writer import TapeWriter
from tapecheck.interpret.values import Env, Value
from tapecheck.tape import Ending


class WatchedSide(Protocol):
    """A side of an `if` that is being run, as an observer watches it."""

    def left(self, world: World) -> None:
        """Take note that the side has been run."""

    def broken(self) -> None:
        """Take note that an exception ended the side."""


class Watching(Protocol):
    """An observer of undecided conditions, which finds out on which of them a verdict can depend."""

    def decided(self, world: World, node: ast.If, taken: bool, places: Sequence[Place], env: Env) -> WatchedSide | None:
        """Take note of an `if` before its side is run; return what is to be told of that, None where nothing is."""

    def supplies(self, world: World, node: ast.If, taken: bool, env: Env) -> bool:
        """Whether the side of an `if` that is not run clears or reads a gradient, or calls what does, or whether one of
        its sides wraps a model.
        """

    def chosen(
        self, world: World, node: ast.expr, other: Iterable[ast.expr], value: Value, places: Sequence[Place], env: Env
    ) -> None:
        """Take note of an expression that took `value` and did not evaluate `other`."""

    def trains(self, world: World, node: ast.If, taken: bool, env: Env) -> bool:
        """Whether a side of an `if`, or what the one that was taken leaves out, starts a backward or calls one."""

    def evaluates(self, world: World, node: ast.If, env: Env) -> bool:
        """Whether a side of an `if` collects, takes numbers out or calls what does, as evaluation and sampling do."""

    def clears(self, world: World, node: ast.If, env: Env) -> bool | None:
        """Return the answer of an `if` with which alone gradients are cleared, None where there is none."""

    def loop_trains(self, world: World, node: ast.AST, env: Env | None) -> bool:
        """Whether the text of a loop, with what it calls, can start a backward."""

    def enters(self, world: World, node: ast.AST, place: ast.AST, env: Env) -> None:
        """Take note that a loop is entered of which nobody knows whether it goes round at all, or what else goes over
        elements; it is known by `place`.
        """

    def idle(self, world: World, node: ast.If, env: Env) -> bool:
        """Whether neither side of an `if` can affect a finding in the current state."""

    def standing(self, world: World, values: Iterable[Value], env: Env) -> tuple[int, ...]:
        """Return what a verdict on a condition can depend on besides the kinds of the values that it is about.

        The first number says whether the iteration has built no graph so far.
        """


class World:
    """The state of one path, in objects with one job each."""

    def __init__(self, policy: Policy, budget: int, cancelled: Callable[[], bool] | None) -> None:
        self.budget = Budget(budget, cancelled)
        self.writer = TapeWriter()
        self.position = Position()
        self.modes = Modes(self.writer.emit)
        self.graph = GraphBuilder(self.writer, self.position, self.modes)
        self.loops = Loops(self.writer, self.position, self.modes)
        self.calls = Calls()
        self.history = LoopHistory()
        self.comparisons = Comparisons()
        self.choices = Choices(policy, self.writer, self.position)
        self.knowledge = Knowledge()
        self.stores = StoreCounts()
        self.omissions = Omissions(self.position)
        self.assumptions = Assumptions(self.writer, self.position, self.modes)
        self.watcher: Watching | None = None

    def end(self, how: Ending, detail: str = "") -> None:
        """End the path and its tape."""
        self.choices.end()
        self.assumptions.leave_all()
        self.writer.end(how, detail)

    def enter_loop(self, node: ast.AST, env: Env | None = None) -> int:
        """Note the start of a loop, `env` where its body runs; return its number."""
        return self.loops.enter(node, trains=self.watcher is not None and self.watcher.loop_trains(self, node, env))
