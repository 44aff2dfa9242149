"""The running loops: where they and their iterations began, in the numbers of the tape."""

from __future__ import annotations

import ast
from collections.abc import Hashable

from tapecheck.interpret import limits
from tapecheck.interpret.state.modes import Modes
from tapecheck.interpret.state.position import Position
from tapecheck.interpret.state.writer import TapeWriter
from tapecheck.interpret.values import BaseValue
from tapecheck.tape import Escape, Iteration, Loop, LoopEnd


class Loops:
    """Enters and leaves loops, and keeps which nodes are older than they are."""

    def __init__(self, writer: TapeWriter, position: Position, modes: Modes) -> None:
        self._writer = writer
        self._position = position
        self._modes = modes
        self._starts: dict[int, int] = {}
        """The newest node or leaf before each loop."""
        self._iteration_starts: dict[int, int] = {}
        """The newest node or leaf before the last iteration of each loop outside of every forward."""
        self.entries: list[tuple[BaseValue, Hashable]] = []
        """The entries of dicts and lists that the running iteration came to, by their keys: the first few."""

    def enter(self, node: ast.AST, *, trains: bool) -> int:
        """Note the start of a loop, `trains` where its text can start a backward; return its number."""
        writer, position = self._writer, self._position
        writer.loops += 1
        number = writer.loops
        self._starts[number] = writer.last_id
        off = self._modes.grad_mode == "no"
        writer.emit(Loop(number, position.site(node), position.inside_forward, off=off, trains=trains))
        return number

    def begin(self, loop: int, index: int) -> None:
        """Begin an iteration."""
        self._position.begin_iteration(loop, index)
        if not self._position.inside_forward:
            self._iteration_starts[loop] = self._writer.last_id
        self._writer.emit(Iteration(loop, index))

    def note_entry(self, owner: BaseValue, key: Hashable) -> None:
        """Note an entry of a dict or a list that the running iteration comes to."""
        if self._position.iteration and len(self.entries) < limits.MOST_ENTRIES:
            self.entries.append((owner, key))

    def forget(self) -> None:
        """Take back the iteration that was just begun: the loop has no further element."""
        events = self._writer.tape.events
        if isinstance(events[-1], Iteration):
            events.pop()

    def leave(self, end: LoopEnd, outside: tuple[tuple[int, int], ...]) -> None:
        self._position.leave_loop(outside)
        self._writer.emit(end)

    @property
    def before_iteration(self) -> int:
        """The newest node before the iteration of the innermost loop outside of every forward, 0 outside of loops."""
        starts = self._iteration_starts
        for loop, _ in reversed(self._position.iteration):
            if loop in starts:
                return starts[loop]
        return 0

    @property
    def before_outermost(self) -> int:
        """The newest node or leaf before the iteration of the outermost loop, the newest of all outside of loops."""
        starts = self._iteration_starts
        running = (starts[loop] for loop, _ in self._position.iteration if loop in starts)
        return next(running, self._writer.last_id)

    def before(self, loop: int) -> int:
        """Return the newest node or leaf before a loop was entered."""
        return self._starts[loop]

    def escape_newest(self, at: ast.AST) -> None:
        """Note that an unknown backward may go through the graphs of the running iterations."""
        writer, starts = self._writer, self._iteration_starts
        last = writer.last_id
        first = min((starts.get(loop, last) for loop, _ in self._position.iteration), default=0)
        nodes = tuple(number for number in range(first + 1, last + 1) if number in writer.ledger.nodes)
        if nodes:
            escaping = nodes[-limits.MOST_ESCAPING :]
            writer.emit(Escape(self._position.site(at), escaping, "a backward that was not followed"))
