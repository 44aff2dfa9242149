"""What a path takes for granted where code is not visible."""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace

from tapecheck.interpret.state.modes import Modes
from tapecheck.interpret.state.position import Position
from tapecheck.interpret.state.writer import TapeWriter
from tapecheck.interpret.values import Value
from tapecheck.tape import NOTHING, Assumed, AssumptionKind, Backward, InPlace, Leaf, Node, Raised, Site, Span, Switched


@dataclass(frozen=True, slots=True)
class Begun:
    """The place in the program and on the tape from which on something is taken for granted."""

    kind: AssumptionKind
    text: str
    at: Site
    start: int


class Assumptions:
    """The answers that the dry run has gone on with, and what tells opaque code from the program's own."""

    def __init__(self, writer: TapeWriter, position: Position, modes: Modes) -> None:
        self._writer = writer
        self._modes = modes
        self._position = position
        self.passed: dict[int, Value] = {}
        """The unknown arguments that a function was started with, by id, and what calls of them return."""
        self.given: dict[int, tuple[Value, str]] = {}
        """The containers without graphs that code which is not visible was given and may have still, by id, with what
        it is called.
        """
        self.decorated: dict[int, str] = {}
        """The functions that a decorator which is not visible was given, by the id of their node."""
        self._entered: list[tuple[object, Begun, Switched | None]] = []

    def note(
        self, kind: AssumptionKind, text: str, node: ast.AST, about: tuple[int, ...] = (), *, read: bool = False
    ) -> None:
        """Note that the dry run goes on with one of several answers; `text` completes "assumes that"."""
        inside = self._position.inside_forward
        self._writer.emit(Assumed(self._position.site(node), kind, text, about, inside_forward=inside, read=read))

    def note_exception(self, kind: str, node: ast.AST) -> None:
        """Note that the dry run goes on past an exception of Python's own that it expects here."""
        self._writer.emit(Assumed(self._beginning(node), "exception", f"raises no {kind}"))

    def note_skipped(self, node: ast.AST, about: tuple[int, ...]) -> None:
        """Note that text which does not parse, or is being typed, is taken to leave everything as it is."""
        self._writer.emit(Assumed(self._beginning(node), "skipped", "what does not parse changes nothing", about))

    def _beginning(self, node: ast.AST) -> Site:
        """Return the place where a node begins: a name that is being typed grows, and the tape stays as it is."""
        at = self._position.site(node)
        span = at.span
        return replace(at, span=Span(span.file, span.line, span.column, span.line, span.column))

    def begin(self, kind: AssumptionKind, text: str, node: ast.AST) -> Begun:
        """Return what is taken for granted of code that runs from here on."""
        return Begun(kind, text, self._position.site(node), len(self._writer.tape.events))

    def end(self, begun: Begun) -> None:
        """Note what was taken for granted: it could only matter to what was built, changed or walked meanwhile."""
        hanging, recorded = self._since(begun)
        about = (*hanging, *(one for one in recorded if one not in hanging))
        kept = tuple(one for one in recorded if one not in hanging)
        self._writer.emit(Assumed(begun.at, begun.kind, begun.text, about or NOTHING, kept))

    def resume(self, begun: Begun) -> Begun:
        """Return what is taken for granted of a generator from here on, until it waits again."""
        return replace(begun, start=len(self._writer.tape.events))

    def pause(self, begun: Begun) -> None:
        """Note the same of a generator that waits, where anything was built, changed or walked since it was resumed."""
        if any(self._since(begun)):
            self.end(begun)

    def _since(self, begun: Begun) -> tuple[dict[int, None], dict[int, None]]:
        """Return what hangs on recording of what was built, changed or walked since, and what does not."""
        hanging: dict[int, None] = {}
        recorded: dict[int, None] = {}
        for event in self._writer.tape.events[begun.start :]:
            match event:
                case Node(id=node):
                    hanging[node] = None
                case Leaf(id=leaf):
                    recorded[leaf] = None
                case InPlace(leaf=int(leaf), grad_mode=recording):
                    (recorded if recording == "no" else hanging)[leaf] = None
                case Raised(node=int(node), exception="RuntimeError"):
                    # Without recording, torch would not have raised.
                    hanging[node] = None
                case Backward(roots=roots):
                    recorded.update((root.node, None) for root in roots if root.node is not None)
        return hanging, recorded

    def enter(self, block: object, kind: AssumptionKind, text: str, node: ast.AST) -> None:
        """Note that a block begins, of a context manager or a loop, that runs as it does only if `text` holds."""
        begun = self.begin(kind, text, node)
        self._entered.append((block, begun, self._modes.apart() if kind == "context" else None))

    def leave(self, block: object) -> None:
        """Note what was taken for granted of a block that ends, if anything was."""
        for number in reversed(range(len(self._entered))):
            if self._entered[number][0] is block:
                _, begun, stretch = self._entered.pop(number)
                self.end(begun)
                if stretch is not None:
                    self._modes.resume(stretch)
                return

    def leave_all(self) -> None:
        """Leave the blocks in which the path ends."""
        while self._entered:
            begun = self._entered.pop()[1]
            if begun.kind in ("count", "length"):
                # Without those iterations the path does not end in them.
                self._writer.emit(Assumed(begun.at, begun.kind, begun.text))
            else:
                self.end(begun)
