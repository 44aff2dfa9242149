"""The graph being built: nodes, leaves, cuts and in-place changes of tensors."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import Literal, Protocol

from tapecheck.interpret import limits
from tapecheck.interpret.state.cuts import merge_cuts
from tapecheck.interpret.state.modes import Modes
from tapecheck.interpret.state.position import Position
from tapecheck.interpret.state.writer import TapeWriter
from tapecheck.interpret.values import Mark, Storage, Tensor, Unknown, Value, is_constant
from tapecheck.tape import (
    Cut,
    CutKind,
    Fact,
    GradientSet,
    InPlace,
    Leaf,
    Node,
    NoEffect,
    Saved,
    Site,
    both,
    change_kind,
)
from tapecheck.tape.ledger import UNKNOWN_SOURCE

_NOT_SET = frozenset(("backward", "clip_grad"))
"""In-place changes of a gradient that the tape records in another way, or that scale it before it is used."""


class Source(Protocol):
    """What a node is computed from."""

    @property
    def node(self) -> int | None: ...
    @property
    def oldest(self) -> int | None: ...


_ANY = 0
"""The number of no memory, for that of whatever a loop would have gone on to."""


class GraphBuilder:
    """Writes what happens to graphs, and returns the tensors that come of it."""

    def __init__(self, writer: TapeWriter, position: Position, modes: Modes) -> None:
        self._writer = writer
        self._position = position
        self._modes = modes
        self._unknown_source: Tensor | None = None
        self.leaf_tensors: dict[int, Tensor] = {}
        self.frozen: list[Tensor] = []
        """The leaves whose gradients were switched off, in order."""
        self.thawed = 0
        """How many times a leaf that was frozen was switched on again."""
        self.leaves_changed = False
        """Whether an op in place has given a graph to a tensor without one: modules may hold more than leaves then."""
        self.gradients_cut = False
        """Whether there are gradients that carry no graph, which `create_graph=True` would have given them."""
        self.handed: list[int] = []
        """The memory of data that code which is not visible was given: it may have let that require grad."""
        self.lent: list[int] = []
        """The memory of data that such code was called with, as a model is: it seldom does."""
        self.numbered: list[Storage] = []
        """The memory of which it is known what number each element is, or was asked."""
        self.stepped = False
        """Whether an optimizer has stepped since the last backward."""
        self.clipped_late = False
        """Whether the program has limited gradients after their step."""

    def holds(self, storage: Storage, number: Value) -> None:
        """Note what each element of some memory is from now on, as long as nothing changes it; None: nobody knows."""
        if number is not None and not storage.shared and not storage.perhaps:
            if storage.handed and is_constant(number):
                number = Unknown.plain("number")
            if not storage.known:
                self.numbered.append(storage)
            storage.mapping()["number"] = number

    def asked(self, value: Tensor) -> Value:
        """Return what a test of a tensor asks: a number that it holds."""
        storage = value.storage
        if not storage.known:
            asked = Unknown.plain("number")
            if value.base is not None or storage.perhaps or storage.shared:
                return asked
            self.holds(storage, asked)
        return storage.known["number"] if storage.known else None

    def unsettle(self) -> None:
        """Note that code which is not visible may have changed what any memory holds."""
        for storage in self.numbered:
            storage.forget()
        self.numbered.clear()

    def hand_over(self, value: Tensor | Unknown, *, to: list[int] | None = None) -> None:
        """Note that code which is not visible has a value, or was called with it: it may let data require grad."""
        if isinstance(value, Tensor) and value.node is None:
            (self.handed if to is None else to).append(value.storage.id)

    def lend(self, values: Iterable[Tensor | Unknown]) -> None:
        """Note that something which is not visible is called with values, which it may let require grad."""
        for value in values:
            self.hand_over(value, to=self.lent)

    def left_early(self) -> None:
        """Note that a loop is left before its end: what it goes on to may have been handed over or lent, too."""
        for given in (self.handed, self.lent):
            if given and given[-1] != _ANY:
                given.append(_ANY)

    def keeps(self, value: Tensor) -> bool:
        """Whether code which is not visible has never had some data."""
        return _ANY not in self.handed and value.storage.id not in self.handed

    def is_lent(self, value: Tensor) -> bool:
        """Whether such code may have been called with some data."""
        return _ANY in self.lent or value.storage.id in self.lent

    def perhaps_frozen(self, first: int) -> tuple[int, ...]:
        """Note that a loop has switched off gradients, from the place `first` of `frozen` on, of which nobody knows how
        often it goes round; return the leaves.
        """
        found: dict[int, None] = {}
        for leaf in self.frozen[first:]:
            number = leaf.frozen_leaf()
            if leaf.graph == "no" and number is not None:
                leaf.node = leaf.of_leaf = number
                leaf.graph, leaf.is_leaf, leaf.cuts, leaf.oldest = "may", True, (), None
                found[number] = None
        return tuple(found)

    def unfrozen(self, first: int) -> tuple[int, ...]:
        """Return the leaves that require grad, if any were frozen from the place `first` of `frozen` on."""
        if len(self.frozen) <= first:
            return ()
        return tuple([number for number, leaf in self.leaf_tensors.items() if leaf.is_leaf and leaf.graph != "no"])

    @property
    def unknown_made(self) -> bool:
        """Whether there is something that represents the graphs of unknown operands."""
        return self._unknown_source is not None

    def data(self, name: str = "", cuts: tuple[int, ...] = (), dtype: str = "float") -> Tensor:
        """Return a tensor without graph: data, constants, results of ops on such."""
        return Tensor(self._writer.new_storage(), cuts=cuts, dtype=dtype, name=name)

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
        number = self._writer.new_id()
        # A backtick in the key of a module would end the quotes of a message.
        name = (name or tensor.name).replace("`", "'")
        cuts = tensor.cuts[: limits.MAX_CUTS]
        site = self._position.site(node)
        self._writer.emit(Leaf(number, name, site, tensor.storage.id, parameter, copy_of, cuts, made, many))
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
        wanted = tuple(one for one in before if self._writer.ledger.cuts[one].how != "grad") if before else before
        if graph_node is None and not leaves:
            return wanted
        number = self._writer.new_cut()
        nodes = (graph_node,) if graph_node is not None else ()
        # What a function computes under @torch.no_grad(), or called in such a block, is cut where it is called.
        own = self._position.site(node)
        at = (self._modes.cut_site or self.call_in_block(own) if how == "no_grad" else None) or own
        off_at = self._modes.off_at if how == "no_grad" else None
        within = (own.span, *own.stack[: len(own.stack) - len(at.stack) - 1]) if at is not own else ()
        self._writer.emit(Cut(number, how, at, nodes, leaves, name, before, off_at, within))
        return merge_cuts((number,), wanted)

    def call_in_block(self, own: Site) -> Site | None:
        """Return the call, in the block that has switched recording off, that led to a site, if any did."""
        outside = self._modes.block_calls
        return self._position.outer_call(own, len(own.stack) - outside) if outside is not None else None

    def note_cut(self, how: CutKind, node: ast.AST) -> None:
        """Note a cut that no gradient would have passed."""
        self._writer.emit(Cut(self._writer.new_cut(), how, self._position.site(node)))

    def derived_cut(self, how: CutKind, node: ast.AST, sources: tuple[int, ...], name: str) -> tuple[int, ...]:
        """Cut a value further that is cut already; return the cuts of the result."""
        number = self._writer.new_cut()
        self._writer.emit(Cut(number, how, self._position.site(node), (), (), name, sources))
        return (number,)

    def build(
        self,
        op: str,
        at: ast.AST,
        inputs: Iterable[Source],
        *,
        saved: Iterable[Saved] = (),
        keeps: Fact = "no",
        linked: Fact = "yes",
        storage: Storage | None = None,
        cuts: tuple[int, ...] = (),
        exists: Fact = "yes",
        graph_of: str | None = None,
        recomputes: bool = False,
        shared: bool = False,
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
        writer = self._writer
        number = writer.new_id()
        if exists == "may" and linked == "yes" and sources:
            writer.ledger.provisional.add(number)
        site = self._position.site(at)
        node = Node(
            number, op, site, tuple(sources), tuple(saved), both(keeps, exists), both(linked, exists),
            cuts[:limits.MAX_CUTS], graph_of, recomputes, "", shared and exists == "yes",
        )  # fmt: skip
        writer.tape.events.append(node)
        writer.ledger.nodes[number] = node
        return Tensor(
            storage or writer.new_storage(), number, exists, oldest=number if oldest is None else oldest, cuts=cuts
        )

    def unknown_graph(self, name: str, at: ast.AST, exists: Fact = "yes", *, made: bool = False) -> Tensor:
        """Return a node that stands for the whole graph of a value that unknown code made.

        `made` says that it did so in a call since the last backward; what is older may lead to any other graph.
        """
        inputs = () if made or exists == "yes" else (self.unknown_source(at),)
        linked: Fact = "may" if made else "yes"
        return self.build(f"graph of {name}", at, inputs, keeps="may", exists=exists, graph_of=name, linked=linked)

    def unknown_source(self, at: ast.AST) -> Tensor:
        """Return what stands for the graphs that unknown operands may have; it holds nothing that a backward frees."""
        if self._unknown_source is None:
            number = self._writer.new_id()
            self._writer.emit(Node(number, UNKNOWN_SOURCE, self._position.site(at), (), (), "no", "may", (), ""))
            self._unknown_source = Tensor(self._writer.new_storage(), number, "may")
        return self._unknown_source

    def storage_of(self, value: Tensor | Unknown) -> Storage:
        """Return the storage of a tensor, or of an unknown value that is used as one."""
        if value.storage is None:
            value.storage = self._writer.new_storage()
        return value.storage

    def save(self, value: Tensor | Unknown, name: str, fact: Fact) -> Saved:
        """Return a saved tensor entry for a tensor as it is now."""
        storage = self.storage_of(value)
        return Saved(storage.id, self._writer.ledger.versions.get(storage.id, 0), name, value.node, fact)

    def change(
        self,
        value: Tensor | Unknown,
        at: ast.AST,
        how: str,
        *,
        bumps: Fact = "yes",
        optimizer: int | None = None,
        grad_mode: Fact | None = None,
        written: Iterable[Value] = (),
        called: str = "",
    ) -> InPlace:
        """Note an in-place change of a tensor; `written` are values that go into it past autograd, `called` is what one
        without a name is called.
        """
        storage = self.storage_of(value)
        for changed in (storage, *storage.perhaps):
            changed.forget()
        tensor = value if isinstance(value, Tensor) else None
        if tensor is not None and tensor.extra is not None:
            self._set_gradient(tensor, at, how)
        mode = self._modes.grad_mode if grad_mode is None else grad_mode
        of_leaf, name = None if tensor is None else tensor.of_leaf, value.name or called
        event = InPlace(
            self._position.site(at), storage.id, how, name, of_leaf, mode, bumps, optimizer, not value.is_leaf,
            self._lost(written) if written else (), of_leaf is not None and mode == bumps == "yes",
        )  # fmt: skip
        self._writer.emit(event)
        for other in storage.perhaps if bumps != "no" else ():
            self._writer.emit(InPlace(event.at, other.id, how, name, None, mode, "may", optimizer))
        return event

    def _set_gradient(self, changed: Tensor, at: ast.AST, how: str) -> None:
        """Note that the program changes a gradient in place, where what it changes is one, or a view of one."""
        whole, part = (changed.noted_tensor(mark) for mark in (Mark.GRADIENT_OF, Mark.PART_OF_GRADIENT))
        leaf = whole or part
        if leaf is None or leaf.node is None or not leaf.is_leaf or how in _NOT_SET:
            return
        if whole is None:
            how = "setitem"
        elif change_kind(how) == "clear":
            return
        alone = self._position.is_discarded(at)
        self.clipped_late = self.clipped_late or (alone and self.stepped and change_kind(how) == "limit")
        self._writer.emit(GradientSet(self._position.site(at), leaf.node, how.rpartition(".")[2], alone=alone))

    def without_effect(self, tensor: Tensor, at: ast.AST, how: Literal["dropped", "renamed"], text: str) -> None:
        """Note that what was to change a tensor is dropped."""
        of = tensor.gradient_of()
        leaf = of if of is not None else tensor.noted_tensor(Mark.DATA_OF) or tensor
        kept = leaf.is_leaf or leaf.parameter
        number = leaf.node if leaf.is_leaf else None
        what: Literal["gradient", "leaf", "result"] = "gradient" if of is not None else "leaf" if kept else "result"
        self._writer.emit(NoEffect(self._position.site(at), how, text, what, number))

    def _lost(self, written: Iterable[Value]) -> tuple[int, ...]:
        """Return the nodes of values that are written past autograd, or that they were cut from under `no_grad`."""
        found: list[int] = []
        for value in written:
            if isinstance(value, Tensor):
                if value.graph == "yes" and value.node is not None:
                    found.append(value.node)
                for number in value.cuts:
                    cut = self._writer.ledger.cuts[number]
                    found += cut.nodes if cut.how in ("no_grad", "data") else ()
        return tuple(dict.fromkeys(node for node in found if node in self._writer.ledger.nodes))
