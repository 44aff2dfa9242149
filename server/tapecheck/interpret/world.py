"""One way through a program: the tape being written, the graph mode, the loops that run, the choices made."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from tapecheck.interpret import limits
from tapecheck.interpret.values import Dict, Env, Mark, Module, Storage, Tensor, Unknown, Value
from tapecheck.source.notes import Notes
from tapecheck.source.text import column_in
from tapecheck.tape import (
    Backward,
    Cut,
    CutKind,
    Decision,
    End,
    Ending,
    Escape,
    Event,
    Fact,
    GradientSet,
    InPlace,
    Iteration,
    Leaf,
    Ledger,
    Loop,
    LoopEnd,
    Node,
    Saved,
    Site,
    Span,
    Tape,
    Traversal,
    both,
)
from tapecheck.tape.ledger import UNKNOWN_SOURCE

_KEEPS_GRADIENT = ("backward", "clip_grad", "zero_", "zero_grad")
"""Changes of a gradient in place that the tape tells of in another way, or that scale it before it is used."""
_WORLDS = itertools.count()
Place = tuple[str, int, int]
"""File, line and column of a condition."""


class Cancelled(Exception):
    """The caller no longer wants the answer."""


class Exhausted(Exception):
    """The work budget of this way through the program is spent."""


@dataclass(slots=True)
class Frame:
    """A function being run: where it was called from and what it is called in messages."""

    function: str
    module: Module
    call: Span | None = None
    forward: bool = False
    file: str = field(init=False)

    def __post_init__(self) -> None:
        self.file = self.module.path


@dataclass(slots=True)
class Policy:
    """How undecided conditions are answered: by source place, a pattern of answers for successive times.

    Places that are not named answer True. The last answer of a pattern goes on for ever.
    """

    patterns: dict[Place, tuple[bool, ...]] = field(default_factory=dict)

    def key(self) -> tuple[tuple[Place, tuple[bool, ...]], ...]:
        return tuple(sorted(self.patterns.items()))


@dataclass(slots=True)
class Asked:
    """An undecided condition met on the way: how often, and the answer it got by default."""

    times: int = 0
    default: bool = True
    statement: ast.AST | None = None


class Watching(Protocol):
    """What wants to know of undecided conditions, to tell which of them a verdict can hang on."""

    def decided(self, world: World, node: ast.If, taken: bool, places: Sequence[Place], env: Env) -> Any:
        """Take note of an `if` before its side is run; what it returns is given to `left`."""

    def left(self, world: World, open_: Any) -> None:
        """Take note that the side has been run."""

    def broken(self, open_: Any) -> None:
        """Take note that an exception ended the side."""

    def chosen(
        self, world: World, node: ast.expr, other: Iterable[ast.expr], value: Value, places: Sequence[Place], env: Env
    ) -> None:
        """Take note of an expression that took `value` and did not evaluate `other`."""

    def trains(self, world: World, node: ast.If, taken: bool, env: Env) -> bool:
        """Whether a side of an `if`, or what the one that was taken leaves out, starts a backward or calls one."""

    def loop_trains(self, world: World, node: ast.AST) -> bool:
        """Whether the text of a loop, with what it calls, can start a backward."""

    def idle(self, world: World, node: ast.If, env: Env) -> bool:
        """Whether nothing hangs on which side of an `if` is run, as far as what there is now tells."""


@dataclass(slots=True)
class Guard:
    """A condition on known numbers in a loop: how far apart they are, and by how much that changes each time.

    `answers` are those it had since the loop was entered, `at` the iterations in which it was asked last.
    """

    statement: ast.If
    test: ast.Compare
    apart: float
    answers: set[bool]
    at: tuple[tuple[int, int], ...]
    step: float = 0
    divisor: int = 0
    skipped: bool = False
    """Whether iterations were let pass since it was asked last."""
    moving: bool = True
    """Whether it is asked for the first time since the loop was entered, with other numbers than before that."""
    matters: bool = True
    """Whether a graph can hang on which way it goes."""
    idle: bool = False
    """Whether no graph and no other condition can hang on what it decides about."""
    keeping: bool | None = None
    """The answer with which a value is put into a container, None where that is neither."""
    kept: int = 0
    """How many iterations, since the loop was entered, have come to that answer."""


class World:
    """Everything that one way through a program changes besides the values themselves."""

    def __init__(self, policy: Policy, budget: int, cancelled: Callable[[], bool] | None) -> None:
        self.tape = Tape("interpret")
        self.ledger = Ledger()
        self.policy = policy
        self.work = budget
        self._look_at = budget if cancelled is not None else 0
        self.cancelled = cancelled
        self.passes_failures = False
        """Whether a backward that finds its graph freed or changed does not end the run."""
        self.frames: list[Frame] = []
        self.iteration: tuple[tuple[int, int], ...] = ()
        self.stamp = 0
        self.clock = 0
        # Counts what may have put a graph into an object: stores to attributes, tensors changed in place. Objects of
        # imported modules outlive a world, so no two worlds count the same numbers.
        self.kept = next(_WORLDS) << 32
        self.leaves_changed = False
        """Whether an op in place has given a graph to a tensor without one: modules may hold more than leaves then."""
        self.grad_modes: list[Fact] = ["yes"]
        self.inference = False
        """Whether inference mode is on: no other mode records anything within it."""
        self.off_at: Span | None = None
        """The call of `set_grad_enabled` that has switched recording off, while it is in force."""
        self.autocast: Fact = "no"
        """Whether matrix products and convolutions compute with copies of lower precision."""
        self.scaled = False
        """Whether a gradient scaler has scaled a loss: gradients may be scaled from there on."""
        self.checkpointed: set[Span] = set()
        """The reentrant checkpoints of which it was noted that they drop nothing."""
        self.recomputed = 0
        """How many checkpoints are being run: what they save is thrown away and computed anew in backward."""
        self.asked: dict[Place, Asked] = {}
        self.answered: list[Place] = []
        """The undecided conditions that were answered, in order."""
        self.watcher: Watching | None = None
        self._iteration_starts: dict[int, int] = {}
        self._loop_starts: dict[int, int] = {}
        self.varying = 0
        """How often a comparison of numbers got others than the last time, or a place got its first graph."""
        self.guarded = 0
        """How many of them were the condition of an `if` of the loop that is running, which `Guard` keeps track of."""
        self.varied: ast.AST | None = None
        """The comparison that counted last."""
        self.first_graphs = 0
        self.numbers = 0
        """Stands for all numbers that the loop which is running has compared, in order."""
        self.passed: dict[ast.AST, str] = {}
        """The conditions that were come to, decided or not, with the files that they stand in."""
        self.deduced = 0
        """How many conditions were decided by the answers to others."""
        self.attribute_stores = 0
        """How often something was stored to an attribute, or to a name of another namespace."""
        self.class_stores = 0
        """How often something was stored to a class."""
        self.known: dict[Hashable, Unknown] = {}
        self.truths: dict[Hashable, bool] = {}
        self.facts: list[tuple[Unknown, bool, dict[int, Unknown]]] = []
        """Undecided tests that were answered, see `consequences`."""
        self.settled: dict[int, Unknown] = {}
        """The unknowns that such tests were about, with what these are worked out from, by id."""
        self.facts_about: dict[int, list[tuple[Unknown, bool, dict[int, Unknown]]]] = {}
        """The same by the unknowns that they speak of."""
        self.consequences: dict[int, tuple[int, bool | None, Unknown]] = {}
        self.entries: list[tuple[Dict, Any]] = []
        """The entries of dicts that the running iteration came to, by their keys: the first few."""
        self.bars: dict[int, Any] = {}
        """What progress bars were made of, by identity: calls of a bar's methods only show something."""
        self.counted: list[tuple[str, Any, Any, Any]] = []
        """What loops that are running counted up or let grow, oldest first."""
        self.operands: dict[int, tuple[Any, Any]] = {}
        self.guards: dict[int, Guard] = {}
        """Conditions on known numbers that loops come to, by the id of their comparison."""
        self._ids = 0
        self._storages = 0
        self._loops = 0
        self.backwards = 0
        self._cuts = 0
        self.optimizers = 0
        self.discarded: ast.AST | None = None
        """The expression of the statement that nobody takes the value of: a call there is made for what it does."""
        self._unknown_source: Tensor | None = None
        self._sites: dict[int, Site] = {}
        """The sites of this frame since the last iteration began, by their nodes."""
        self._outer_sites: list[tuple[int, dict[int, Site]]] = []
        self._stack_spans: list[tuple[Span, ...]] = [()]
        self.gradients_cut = False
        self.cut_site: Site | None = None
        self.block_calls: int | None = None
        """How many calls lead to the `with` block that has switched recording off; None outside of one."""
        self.leaf_tensors: dict[int, Tensor] = {}
        self.lines_run: set[tuple[str, int]] = set()
        self.branches: dict[Place, set[bool]] = {}
        self.mistakes: set[tuple[str, Span]] = set()
        self.not_followed: dict[Span, None] = {}
        """Calls that lie too deep in other calls, in order."""
        self.gaps: set[tuple[str, Span]] = set()
        """Exceptions of Python's own that nobody looks out for, and that the dry run went on past."""

    # -- effort ---------------------------------------------------------------------------------------------

    def spend(self, amount: int = 1) -> None:
        self.work -= amount
        if self.work < self._look_at:
            self._look()

    def _look(self) -> None:
        """Now and then: whether the budget is spent, or the caller no longer wants the answer."""
        if self.work < 0:
            raise Exhausted
        if self.cancelled is not None:
            self._look_at = max(self.work - limits.WORK_BETWEEN_LOOKS, 0)
            if self.cancelled():
                raise Cancelled

    # -- places ---------------------------------------------------------------------------------------------

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

    def span(self, node: ast.AST) -> Span:
        return self.span_in(self.frames[-1].module, node)

    def span_in(self, module: Module, node: ast.AST) -> Span:
        """Return the place of a node of some file."""
        return module.notes.of(node, _span, module)

    def site(self, node: ast.AST) -> Site:
        site = self._sites.get(id(node))
        if site is None:
            site = Site(self.span(node), self.frames[-1].function, self._stack_spans[-1], self.iteration)
            self._sites[id(node)] = site
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

    # -- loops ----------------------------------------------------------------------------------------------

    def enter_loop(self, node: ast.AST) -> int:
        self._loops += 1
        self._loop_starts[self._loops] = self._ids
        trains = self.watcher is not None and self.watcher.loop_trains(self, node)
        self.emit(Loop(self._loops, self.site(node), self.inside_forward, off=self.grad_mode == "no", trains=trains))
        return self._loops

    def begin_iteration(self, loop: int, index: int) -> None:
        if self.iteration and self.iteration[-1][0] == loop:
            self.iteration = (*self.iteration[:-1], (loop, index))
        else:
            self.iteration = (*self.iteration, (loop, index))
        self.stamp += 1
        self.clock += 1
        if not self.inside_forward:
            self._iteration_starts[loop] = self._ids
        self._sites = {}
        self.emit(Iteration(loop, index))

    @property
    def before_iteration(self) -> int:
        """The newest node before the iteration of the innermost loop outside of every forward, 0 outside of loops."""
        starts = self._iteration_starts
        for loop, _ in reversed(self.iteration):
            if loop in starts:
                return starts[loop]
        return 0

    @property
    def before_outermost(self) -> int:
        """The newest node or leaf before the iteration of the outermost loop, the newest of all outside of loops."""
        starts = self._iteration_starts
        return next((starts[loop] for loop, _ in self.iteration if loop in starts), self._ids)

    def before_loop(self, loop: int) -> int:
        """Return the newest node or leaf before a loop was entered."""
        return self._loop_starts[loop]

    @property
    def last_storage(self) -> int:
        """The newest storage."""
        return self._storages

    def forget_iteration(self) -> None:
        """Take the iteration back that was begun just now: the loop has no further element."""
        if isinstance(self.tape.events[-1], Iteration):
            self.tape.events.pop()

    def leave_loop(self, loop: int, outside: tuple[tuple[int, int], ...], iterations: int, more: Fact) -> None:
        self.iteration = outside
        self.stamp += 1
        self.emit(LoopEnd(loop, iterations, more))

    # -- choices --------------------------------------------------------------------------------------------

    def choose(
        self,
        node: ast.AST,
        default: bool,
        text: str,
        statement: ast.AST | None = None,
        *,
        likelier: bool = False,
        counted: bool = False,
        cuts: tuple[int, ...] = (),
    ) -> bool:
        """Answer a condition nobody can decide, as the policy of this way through the program says.

        `statement` is what the condition decides about. Where `likelier` the policy is not asked; `counted` where it
        compares what a loop counts up, `cuts` are those of the numbers that it asks.
        """
        span = self.span(node)
        place = (span.file, span.line, span.column)
        asked = self.asked.get(place)
        if asked is None:
            asked = self.asked[place] = Asked(default=default, statement=statement)
        pattern = self.policy.patterns.get(place)
        answer = default if pattern is None or likelier else pattern[min(asked.times, len(pattern) - 1)]
        asked.times += 1
        self.answered.append(place)
        last = statement.end_lineno if isinstance(statement, ast.stmt) else None
        self.emit(Decision(self.site(node), text, answer, last or 0, counted, cuts))
        return answer

    def mistake(self, kind: str, node: ast.AST, *, missed: bool) -> None:
        """Note an exception that the way goes on past: a gap of the interpreter's, or what a guess has `missed`."""
        place = (kind, self.span(node))
        self.mistakes.add(place)
        if not missed:
            self.gaps.add(place)

    def escape_newest(self, at: ast.AST) -> None:
        """Note that nobody knows what goes through the graphs of the running iterations."""
        first = min((self._iteration_starts.get(loop, self._ids) for loop, _ in self.iteration), default=0)
        nodes = tuple(number for number in range(first + 1, self._ids + 1) if number in self.ledger.nodes)
        if nodes:
            self.emit(Escape(self.site(at), nodes[-limits.MOST_ESCAPING :], "a backward that was not followed"))

    @property
    def guesses(self) -> list[ast.AST]:
        """The statements of this way that nobody could decide."""
        return [asked.statement for asked in self.asked.values() if asked.statement is not None]

    # -- the graph ------------------------------------------------------------------------------------------

    def emit(self, event: Event) -> Traversal | None:
        self.tape.events.append(event)
        return self.ledger.feed(event)

    @property
    def grad_mode(self) -> Fact:
        return self.grad_modes[-1]

    def new_storage(self) -> Storage:
        self._storages += 1
        return Storage(self._storages)

    @property
    def tape_has_nodes(self) -> bool:
        """Whether any graph was built so far."""
        return bool(self.ledger.nodes)

    @property
    def last_id(self) -> int:
        """The newest node or leaf."""
        return self._ids

    @property
    def numbered(self) -> tuple[int, int, int, int]:
        """The newest node or leaf, storage, cut and loop."""
        return self._ids, self._storages, self._cuts, self._loops

    @property
    def unknown_made(self) -> bool:
        """Whether there is something that stands for the graphs of unknown operands."""
        return self._unknown_source is not None

    def advance(self, ids: int, storages: int, cuts: int, loops: int, clock: int, stamp: int) -> None:
        """Go on by so many of each: events with these numbers were written."""
        self._ids += ids
        self._storages += storages
        self._cuts += cuts
        self._loops += loops
        self.clock += clock
        self.stamp += stamp

    def new_id(self) -> int:
        self._ids += 1
        return self._ids

    def data(self, name: str = "", cuts: tuple[int, ...] = (), dtype: str = "float") -> Tensor:
        """Return a tensor without graph: data, constants, results of ops on such."""
        return Tensor(self.new_storage(), cuts=cuts, dtype=dtype, name=name)

    def make_leaf(
        self,
        tensor: Tensor,
        node: ast.AST,
        name: str = "",
        parameter: bool = False,
        copy_of: int | None = None,
        made: bool = False,
        many: bool = False,
    ) -> Tensor:
        """Turn a tensor without graph into a leaf that requires grad."""
        number = self.new_id()
        # A backtick in the key of a module would end the quotes of a message.
        name = (name or tensor.name).replace("`", "'")
        cuts = tensor.cuts[: limits.MAX_CUTS]
        self.emit(Leaf(number, name, self.site(node), tensor.storage.id, parameter, copy_of, cuts, made, many))
        tensor.node = number
        tensor.graph = "yes"
        tensor.is_leaf = True
        tensor.of_leaf = number
        tensor.parameter = parameter
        tensor.oldest = None
        if name:
            tensor.name = name
        self.leaf_tensors[number] = tensor
        return tensor

    def cut(
        self, how: CutKind, node: ast.AST, value: Value, leaves: Iterable[int] = (), name: str = ""
    ) -> tuple[int, ...]:
        """Note that a value leaves its graph; answers the cuts of the result."""
        graph_node = getattr(value, "node", None)
        before: tuple[int, ...] = getattr(value, "cuts", ())
        leaves = tuple(leaves)
        # Detached once more, a gradient is a constant that somebody wanted.
        wanted = tuple(one for one in before if self.ledger.cuts[one].how != "grad") if before else before
        if graph_node is None and not leaves:
            return wanted
        self._cuts += 1
        nodes = (graph_node,) if graph_node is not None else ()
        # What a function computes under @torch.no_grad(), or called in such a block, is cut where it is called.
        own = self.site(node)
        at = (self.cut_site or self.call_in_block(own.stack, own.iteration) if how == "no_grad" else None) or own
        off_at = self.off_at if how == "no_grad" else None
        within = (own.span, *own.stack[: len(own.stack) - len(at.stack) - 1]) if at is not own else ()
        self.emit(Cut(self._cuts, how, at, nodes, leaves, name, before, off_at, within))
        return merge_cuts((self._cuts,), wanted)

    def call_in_block(self, stack: tuple[Span, ...], iteration: tuple[tuple[int, int], ...]) -> Site | None:
        """Return the call, in the block that has switched recording off, among those that led here, if any did."""
        calls = len(stack) - self.block_calls if self.block_calls is not None else 0
        if calls <= 0:
            return None
        entered = next(index for index, spans in enumerate(self._stack_spans) if len(spans) > len(stack) - calls)
        function = self.frames[max(entered - 2, 0)].function
        return Site(stack[calls - 1], function, stack[calls:], iteration)

    def note_cut(self, how: CutKind, node: ast.AST) -> None:
        """Note a cut that no gradient would have passed."""
        self._cuts += 1
        self.emit(Cut(self._cuts, how, self.site(node)))

    def derived_cut(self, how: CutKind, node: ast.AST, sources: tuple[int, ...], name: str) -> tuple[int, ...]:
        """Cut a value further that is cut already; return the cuts of the result."""
        self._cuts += 1
        self.emit(Cut(self._cuts, how, self.site(node), (), (), name, sources))
        return (self._cuts,)

    def build(
        self,
        op: str,
        at: ast.AST,
        inputs: Iterable[Value],
        *,
        saved: Iterable[Saved] = (),
        keeps: Fact = "no",
        linked: Fact = "yes",
        storage: Storage | None = None,
        cuts: tuple[int, ...] = (),
        exists: Fact = "yes",
        graph_of: str | None = None,
    ) -> Tensor:
        """Return a node with the tensor it produces. `exists` is "may" where its inputs may carry no graph."""
        sources: list[int] = []
        oldest: int | None = None
        for value in inputs:
            number = value.node
            if number is None or number in sources:
                continue
            sources.append(number)
            if value.oldest is not None and (oldest is None or value.oldest < oldest):
                oldest = value.oldest
        self._ids = number = self._ids + 1
        if exists == "may" and linked == "yes" and sources:
            self.ledger.provisional.add(number)
        node = Node(
            number, op, self.site(at), tuple(sources), tuple(saved), both(keeps, exists), both(linked, exists),
            cuts[:limits.MAX_CUTS], graph_of,
        )  # fmt: skip
        self.tape.events.append(node)
        self.ledger.nodes[number] = node
        return Tensor(
            storage or self.new_storage(), number, exists, oldest=number if oldest is None else oldest, cuts=cuts
        )

    def unknown_graph(self, name: str, at: ast.AST, exists: Fact = "yes") -> Tensor:
        """Return a node that stands for the whole graph of a value that unknown code made."""
        return self.build(f"graph of {name}", at, (), keeps="may", exists=exists, graph_of=name)

    def unknown_source(self, at: ast.AST) -> Tensor:
        """Return what stands for the graphs that unknown operands may have; it holds nothing that a backward frees."""
        if self._unknown_source is None:
            number = self.new_id()
            self.emit(Node(number, UNKNOWN_SOURCE, self.site(at), (), (), "no", "may", (), ""))
            self._unknown_source = Tensor(self.new_storage(), number, "may")
        return self._unknown_source

    def save(self, value: Value, name: str, fact: Fact) -> Saved:
        """Return a saved tensor entry for a tensor as it is now."""
        storage: Storage | None = value.storage
        if storage is None:
            storage = value.storage = self.new_storage()
        return Saved(storage.id, self.ledger.versions.get(storage.id, 0), name, value.node, fact)

    def change(
        self,
        value: Value,
        at: ast.AST,
        how: str,
        *,
        bumps: Fact = "yes",
        optimizer: int | None = None,
        grad_mode: Fact | None = None,
        written: Iterable[Value] = (),
    ) -> InPlace:
        """Note an in-place change of a tensor; `written` are values that go into it past autograd."""
        storage = storage_of(self, value)
        leaf = (getattr(value, "extra", None) or {}).get(Mark.GRADIENT_OF)
        if leaf is not None and leaf.node is not None and leaf.is_leaf and not how.endswith(_KEEPS_GRADIENT):
            self.emit(GradientSet(self.site(at), leaf.node, how.rpartition(".")[2]))
        mode = self.grad_mode if grad_mode is None else grad_mode
        of_leaf = getattr(value, "of_leaf", None)
        event = InPlace(
            self.site(at),
            storage.id,
            how,
            getattr(value, "name", ""),
            of_leaf,
            mode,
            bumps,
            optimizer,
            not getattr(value, "is_leaf", False),
            self._lost(written),
            of_leaf is not None and mode == bumps == "yes",
        )
        self.emit(event)
        return event

    def _lost(self, written: Iterable[Value]) -> tuple[int, ...]:
        """Return the nodes of values that are written past autograd, or that they were cut from under `no_grad`."""
        found: list[int] = []
        for value in written:
            if isinstance(value, Tensor):
                if value.graph == "yes" and value.node is not None:
                    found.append(value.node)
                for number in value.cuts:
                    cut = self.ledger.cuts[number]
                    found += cut.nodes if cut.how in ("no_grad", "data") else ()
        return tuple(dict.fromkeys(node for node in found if node in self.ledger.nodes))

    def next_backward(self) -> int:
        self.backwards += 1
        return self.backwards

    def run_backward(self, event: Backward) -> Traversal:
        traversal = self.emit(event)
        assert traversal is not None
        return traversal

    def end(self, how: Ending, detail: str = "") -> None:
        self.emit(End(how, detail))


def storage_of(world: World, value: Value) -> Storage:
    """Return the storage of a tensor, or of an unknown value that is used as one."""
    if value.storage is None:
        value.storage = world.new_storage()
    storage: Storage = value.storage
    return storage


def merge_cuts(*groups: tuple[int, ...]) -> tuple[int, ...]:
    """Return the union of cuts, newest kept where there are too many."""
    filled = [group for group in groups if group]
    if len(filled) < 2:
        return filled[0] if filled else ()
    merged = dict.fromkeys(cut for group in filled for cut in group)
    if len(merged) > limits.MAX_CUTS:
        return tuple(sorted(merged)[-limits.MAX_CUTS :])
    return tuple(merged)


def cuts_of(*values: Value) -> tuple[int, ...]:
    """Return the cuts that tensors and unknown numbers came through."""
    groups = [value.cuts for value in values if isinstance(value, (Tensor, Unknown)) and value.cuts]
    return merge_cuts(*groups) if groups else ()


def _span(node: ast.AST, module: Module) -> Span:
    """Return where a node stands in the file of a module."""
    line = getattr(node, "lineno", 1)
    end_line = getattr(node, "end_lineno", None) or line
    column = getattr(node, "col_offset", 0)
    end = getattr(node, "end_col_offset", None) or column + 1
    lines = module.lines
    return Span(module.path, line, column_in(lines, line, column), end_line, column_in(lines, end_line, end))
