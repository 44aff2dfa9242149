"""Where a path is: the functions and iterations that are running, and the sites of its events."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection
from dataclasses import dataclass, field

from tapecheck.interpret.values import Env, Module, Value
from tapecheck.source.notes import Notes
from tapecheck.source.text import column_in
from tapecheck.tape import Site, Span

_CELL = re.compile(r"^# ?(?:%%|In ?\[)", re.MULTILINE)
"""The comment that a cell of a script begins with: an editor runs it as that of a notebook, and shows its value."""


@dataclass(slots=True)
class Frame:
    """A running function: where it was called from and what messages call it."""

    function: str
    module: Module
    call: Span | None = None
    forward: bool = False
    file: str = field(init=False)

    def __post_init__(self) -> None:
        self.file = self.module.path


@dataclass(slots=True, eq=False)
class Guarded:
    """A block that is being run: the classes of exceptions that are caught, what is done then and where that stands."""

    handlers: list[list[ast.stmt]]
    module: Module
    env: Env
    caught: frozenset[str]


@dataclass(slots=True, eq=False)
class Risk:
    """What a block that is being run may raise, by the names of classes, with these; "" stands for any."""

    kinds: dict[str, Value] = field(default_factory=dict)


class Position:
    """The call stack, the running iterations as (loop, index), and the clocks that iterations and calls move on."""

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self.guarded: list[Guarded] = []
        """The `try` statements whose blocks are being run, the innermost last."""
        self.risks: list[Risk] = []
        """What the blocks that are being run may raise, of those that somebody catches anything of."""
        self.iteration: tuple[tuple[int, int], ...] = ()
        self.clock = 0
        """How many iterations were begun."""
        self.stamp = 0
        """The same, with the calls and the ends of loops."""
        self.discarded: ast.AST | None = None
        """The expression of a statement that discards its value: a call there is made for what it does."""
        self.manager: Value = None
        """The context manager of the innermost `with`, None in none."""
        self.unpacked: dict[ast.AST, int] = {}
        """The calls whose value is taken apart where it is computed, `a, b = f()`, and into how many parts."""
        self._sites: dict[ast.AST, Site] = {}
        """The sites of this frame since the last iteration began, by their nodes."""
        self._outer_sites: list[tuple[int, dict[ast.AST, Site]]] = []
        self._stack_spans: list[tuple[Span, ...]] = [()]

    def leave(self, guarded: Collection[Guarded]) -> None:
        """Note that blocks are left."""
        self.guarded[:] = [one for one in self.guarded if one not in guarded]

    def risk(self, *kinds: str) -> None:
        """Note that an exception of these classes may be raised here, though nobody has seen it raised."""
        for one in self.risks:
            one.kinds.update(dict.fromkeys(kinds))

    def is_discarded(self, node: ast.AST) -> bool:
        """Return whether the value of an expression is the value of the statement, which discards it."""
        stack = [self.discarded]
        while stack:
            part = stack.pop()
            if part is node:
                return True
            match part:
                case ast.BoolOp(values=[*_, last]) | ast.Await(value=last):
                    stack.append(last)
                case ast.IfExp(body=body, orelse=orelse):
                    stack += (body, orelse)
        return False

    def is_shown(self, node: ast.AST) -> bool:
        """Return whether an expression may be one whose value a notebook shows: a statement of its own in a cell."""
        source = self.frames[-1].module.source
        if source is None or (source.cells is None and _CELL.search(source.text) is None):
            return False
        return any(getattr(one, "value", None) is node for one in source.tree.body)

    def push(self, frame: Frame) -> None:
        self.frames.append(frame)
        self._outer_sites.append((self.clock, self._sites))
        self._sites = {}
        self.stamp += 1
        above = self._stack_spans[-1]
        self._stack_spans.append((frame.call, *above) if frame.call is not None else above)

    def pop(self) -> None:
        self.frames.pop()
        clock, sites = self._outer_sites.pop()
        self._sites = sites if clock == self.clock else {}
        self._stack_spans.pop()

    def begin_iteration(self, loop: int, index: int) -> None:
        outside = self.iteration
        if outside and outside[-1][0] == loop:
            outside = outside[:-1]
        self.iteration = (*outside, (loop, index))
        self.stamp += 1
        self.clock += 1
        self._sites = {}

    def leave_loop(self, outside: tuple[tuple[int, int], ...]) -> None:
        """Return to the iterations around a loop."""
        self.iteration = outside
        self.stamp += 1

    def advance(self, clock: int, stamp: int) -> None:
        """Move the clocks on: events of so many iterations and calls were written."""
        self.clock += clock
        self.stamp += stamp

    def span(self, node: ast.AST) -> Span:
        module = self.frames[-1].module
        return module.notes.of(node, _span, module)

    def span_in(self, module: Module, node: ast.AST) -> Span:
        """Return the place of a node of some file."""
        return module.notes.of(node, _span, module)

    def place(self, node: ast.AST) -> tuple[str, int, int]:
        """Return the file, line and column that a node of the running code begins at."""
        span = self.span(node)
        return span.file, span.line, span.column

    def site(self, node: ast.AST) -> Site:
        site = self._sites.get(node)
        if site is None:
            frame = self.frames[-1]
            span = frame.module.notes.of(node, _span, frame.module)
            site = self._sites[node] = Site(span, frame.function, self._stack_spans[-1], self.iteration)
        return site

    @property
    def notes(self) -> Notes:
        """What was worked out from the nodes of the file that is being run."""
        return self.frames[-1].module.notes

    @property
    def call_stack(self) -> tuple[Span, ...]:
        """The call sites that led here, innermost first."""
        return self._stack_spans[-1]

    @property
    def inside_forward(self) -> bool:
        return any(frame.forward for frame in self.frames)

    def outer_call(self, site: Site, calls: int) -> Site | None:
        """Return the call that led to a site, `calls` calls further out; None where there are none."""
        if calls <= 0:
            return None
        stack = site.stack
        entered = next(index for index, spans in enumerate(self._stack_spans) if len(spans) > len(stack) - calls)
        function = self.frames[max(entered - 2, 0)].function
        return Site(stack[calls - 1], function, stack[calls:], site.iteration)


def _span(node: ast.AST, module: Module) -> Span:
    """Return where a node stands in the file of a module."""
    line = getattr(node, "lineno", 1)
    end_line = getattr(node, "end_lineno", None) or line
    column = getattr(node, "col_offset", 0)
    end = getattr(node, "end_col_offset", None) or column + 1
    lines = module.lines
    return Span(module.path, line, column_in(lines, line, column), end_line, column_in(lines, end_line, end))
