"""Tensors, and the memory that they share."""

from __future__ import annotations

import ast
import weakref
from collections.abc import Iterable
from enum import Enum
from typing import ClassVar, TypeGuard

from tapecheck.interpret.values.base import (
    BaseValue,
    Decides,
    Deferred,
    Interpreter,
    Stream,
    Value,
    among,
    behaviour,
    only,
)
from tapecheck.tape import Fact, Site


class Storage:
    """The memory that a tensor and its views share, with one version counter.

    `views` are the differentiable views still alive, oldest first: an in-place change of one gives all of them a new
    history. `perhaps` are the storages that may be the same memory: nobody knows whether what has them is a copy.
    """

    __slots__ = ("beside", "handed", "id", "known", "perhaps", "shared", "views")

    def __init__(self, number: int) -> None:
        self.id = number
        self.known: dict[str, Value] | None = None
        """What each element of it is, as "number": a constant, or an unknown that has the answers to questions; the
        same mapping for good, since what a call has read of it is looked up there."""
        self.shared = False
        """Whether what is no tensor, or another process, may change it."""
        self.handed = False
        """Whether code that is not visible was given it: any that runs may change it, as an iteration or an import."""
        self.beside: list[Storage] | None = None
        """All that are this very memory, each with a version counter of its own: of data, and of a parameter of it."""
        self.views: list[weakref.ref[Tensor]] | None = None
        self.perhaps: tuple[Storage, ...] = ()

    def forget(self) -> None:
        """Note that nobody knows any more what it holds."""
        for one in (self,) if self.beside is None else self.beside:
            if one.known is not None:
                one.known.clear()

    def lend(self) -> None:
        """Note that what is no tensor, or not followed, may change it from now on."""
        self.forget()
        for one in (self,) if self.beside is None else self.beside:
            one.shared = True

    def hand_over(self) -> None:
        """Note that code which is not visible was given it."""
        self.forget()
        for one in (self,) if self.beside is None else self.beside:
            one.handed = True

    def lies_with(self, other: Storage) -> None:
        """Note that it is the memory of another one, and counts versions of its own."""
        for one, same in ((self, other), (other, self)):
            if one.shared:
                same.lend()
            if one.handed:
                same.hand_over()
        group = [*{id(one): one for one in (*(self.beside or (self,)), *(other.beside or (other,)))}.values()]
        for one in group:
            one.beside = group

    def mapping(self) -> dict[str, Value]:
        """Return what is known of it, as it is and as it will be: a call that rests on that keeps the mapping."""
        if self.known is None:
            self.known = {}
        return self.known

    def number(self) -> int | None:
        """Return the number that each element of it is; None where nobody knows."""
        match self.known:
            case {"number": int() as number}:
                return number
        return None

    def may_be(self, other: Storage) -> None:
        """Note that it may be the memory of another one."""
        if other is not self and other not in self.perhaps:
            self.perhaps += (other,)
            other.perhaps += (self,)


class Mark(Enum):
    """What is noted of how a tensor was made, in `Tensor.extra`; true where nothing else is said."""

    # Enum's own is worked out from the name, each time.
    __hash__ = object.__hash__

    BUFFER = "buffer"
    """A buffer that a layer of torch's was made with."""
    COPY_OF_GRADIENT = "copy of gradient"
    """The leaf whose gradient it is as large as."""
    DATA_OF = "data of"
    """The tensor whose `.data` it is."""
    DEVICE = "device"
    """The device that it was made on, and is on where it is a leaf: what moves one makes another tensor."""
    DRAWN = "drawn"
    """Whole numbers drawn by chance."""
    FROZEN_LEAF = "frozen leaf"
    """The leaf that it was before the program switched `requires_grad` off."""
    GRADIENT_OF = "gradient of"
    """The tensor whose `.grad` it is."""
    LAZY = "lazy"
    """A parameter of a layer that makes it at its first call, and gives it its type then."""
    LAID_OTHERWISE = "laid otherwise"
    """A view that may have another layout than what it is a view of, or a single row."""
    LIES_ACROSS = "lies across"
    """Its elements do not lie in order."""
    LIES_APART = "lies apart"
    """A view whose rows lie apart: other elements are between them."""
    MOVED_LEAF = "moved leaf"
    """A step from a parameter: a place to compute at, no term of a loss."""
    ON_HOST = "on host"
    """Made without a device, and not moved since: it is on the CPU."""
    ONE_NUMBER = "one number"
    OPAQUE = "opaque"
    """It stands for the parameters of a model nobody knows."""
    PART_OF_SEVERAL = "part of several"
    """One of several views of an operation: the version its memory had then."""
    PART_OF_GRADIENT = "part of gradient"
    """The tensor in whose `.grad` it lies: a view of that."""
    PRESUMED = "presumed"
    """Whether it stands for the parameters of what nothing but the name of a method tells to be a module."""
    PRECISION = "precision"
    """The method that makes a tensor have its type of floating numbers; unknown where that is."""
    SAVED = "saved"
    """Whether such a model comes out of a saved file."""
    UNSEEN = "unseen"
    """Whether hidden code has made what is presumed to be such a model, and nothing was asked for its parameters."""
    PERHAPS_A_COPY = "perhaps a copy"
    """Taken by an index nobody knows: a number gives a view, an array of them a copy."""
    PERHAPS_A_NUMBER = "perhaps a number"
    """An operator has made it of nothing but constants and of what may be numbers."""
    PERHAPS_PACKED = "perhaps packed"
    """A recurrent module has made it of what is not visible: it may be a PackedSequence."""
    UNDIVIDED = "undivided"
    """Surely one number, that has no elements to go over: the version its memory had then."""
    VIEW_UNDER_NO_GRAD = "view under no_grad"
    TAKEN_FOR_DATA = "taken for data"
    """Computed of nothing but what is taken for data, as `Trust.assumed` says, and of constants."""
    WEIGHTED = "weighted"
    """A constant gradient times a weight that nobody knows."""


class Tensor(BaseValue):
    """A tensor.

    `node` is its graph node, or its own leaf id where it is a leaf that requires grad. `graph` says whether it
    carries a graph. `of_leaf` is the leaf it is or is a view of. `cuts` are the cuts a value without graph came
    through; `constant_terms` the gradient cuts that reach a value with graph by added terms only. `oldest` is
    the oldest non-leaf node reachable. `rank` is the number of dimensions, None where nobody knows.
    """

    __slots__ = (
        "__weakref__",
        "base",
        "changed",
        "constant_terms",
        "cuts",
        "dtype",
        "extra",
        "given",
        "grad",
        "graph",
        "hooks",
        "is_leaf",
        "items",
        "length",
        "name",
        "node",
        "of_leaf",
        "oldest",
        "parameter",
        "rank",
        "retains_grad",
        "storage",
    )  # fmt: skip

    can_hold: ClassVar[bool] = True
    decides: ClassVar[Decides] = Decides.TENSOR

    def borne(self) -> Fact:
        """Return whether it carries a graph."""
        return self.graph

    def requires(self) -> Fact:
        return self.graph

    def __init__(
        self,
        storage: Storage,
        node: int | None = None,
        graph: Fact = "no",
        *,
        is_leaf: bool = False,
        cuts: tuple[int, ...] = (),
        constant_terms: tuple[int, ...] = (),
        oldest: int | None = None,
        of_leaf: int | None = None,
        dtype: str = "float",
        name: str = "",
    ) -> None:
        self.storage = storage
        self.node = node
        self.graph: Fact = graph
        self.is_leaf = is_leaf
        self.cuts = cuts
        self.constant_terms = constant_terms
        self.oldest = oldest
        self.of_leaf = of_leaf
        self.dtype = dtype
        self.name = name
        self.grad: Value = None
        self.parameter = False
        self.base: Tensor | None = None
        self.changed: tuple[int, Site] | None = None
        """When and where a graph was last written into it in place."""
        self.retains_grad = False
        self.rank: int | None = None
        self.extra: dict[str | Mark, Value] | None = None
        """Marks, and by their names the attributes that were worked out of it."""
        self.given: dict[str, Value] | None = None
        """Attributes that the program itself has set."""
        self.length: Value = None
        self.items: list[Value] | None = None
        self.hooks: list[Value] = []

    @property
    def lacks_gradient(self) -> bool:
        """Whether it is surely the result of an op, whose `.grad` no backward fills."""
        return self.graph == "yes" and self.node is not None and not (self.is_leaf or self.retains_grad)

    @property
    def requires_none(self) -> bool:
        """Whether it surely requires no grad, and is no parameter, which may be frozen for a while."""
        if self.graph != "no" or self.node is not None or self.parameter or self.is_leaf:
            return False
        return not self.taken_for_data()

    def stands_at(self, built: Tensor) -> None:
        """Note that it may have the graph that was built for it."""
        self.node, self.oldest = built.node, built.oldest

    def surely_carries(self) -> None:
        """Note that it has a graph if it may have one: a backward of it did not raise."""
        self.graph = "yes" if self.graph == "may" else self.graph

    def taken_for_data(self) -> bool:
        """Whether it has no graph only because what is iterated is taken for data."""
        return self.extra is not None and Mark.TAKEN_FOR_DATA in self.extra

    def noted(self, mark: Mark) -> Value:
        """Return what is noted under a mark; None where nothing is."""
        return None if self.extra is None else self.extra.get(mark)

    def noted_tensor(self, mark: Mark) -> Tensor | None:
        """Return the tensor that is noted under a mark."""
        found = self.noted(mark)
        return found if isinstance(found, Tensor) else None

    def frozen_leaf(self) -> int | None:
        """Return the leaf that it was before `requires_grad` was switched off."""
        found = self.noted(Mark.FROZEN_LEAF)
        return found if isinstance(found, int) else None

    def note(self, mark: Mark | str, value: Value = True) -> None:
        """Note something of how it was made."""
        self.extra = {mark: value} if self.extra is None else {**self.extra, mark: value}

    def forget(self, mark: Mark) -> None:
        """Take back what was noted under a mark."""
        if self.extra is not None and mark in self.extra:
            self.extra = {key: value for key, value in self.extra.items() if key is not mark} or None

    def gradient_of(self) -> Tensor | None:
        """Return the tensor whose `.grad` it is, lies in, or has the data of: a change in place changes that."""
        known = self.noted_tensor(Mark.GRADIENT_OF) or self.noted_tensor(Mark.PART_OF_GRADIENT)
        data = self.noted_tensor(Mark.DATA_OF) if known is None else None
        return known if data is None else data.gradient_of()

    @property
    def is_kept(self) -> bool:
        """Whether the program keeps its values from one iteration to the next: a leaf, a parameter, or its gradient."""
        of = self.noted_tensor(Mark.DATA_OF) or self
        return of.is_leaf or of.parameter or self.gradient_of() is not None

    def views(self, viewed: BaseValue) -> None:
        """Note that it is a view of a value, where that is a gradient."""
        of = viewed.gradient_of() if isinstance(viewed, Tensor) else None
        if of is not None:
            self.note(Mark.PART_OF_GRADIENT, of)

    def precision(self) -> Value:
        """Return the type of floating numbers that it has, by the method that gives it; None or unknown where nobody
        knows.
        """
        return self.noted(Mark.PRECISION) or ("float" if self.parameter else None)

    def shares_type(self, other: BaseValue) -> None:
        """Note that it has the type of floating numbers of a tensor whose memory it shares."""
        if isinstance(other, Tensor) and (precision := other.precision()) is not None:
            self.note(Mark.PRECISION, precision)

    def __repr__(self) -> str:
        return f"<tensor {self.name} node={self.node} graph={self.graph}>"

    vague: ClassVar[bool] = True
    plain_key: ClassVar[bool] = True
    is_callable: ClassVar[bool | None] = False

    def children(self) -> Iterable[Value]:
        return () if self.given is None else self.given.values()

    def known_count(self) -> int | None:
        return self.length if type(self.length) is int else None

    def unknown_counts(self) -> Iterable[Value]:
        return behaviour(self.length).unknown_counts()

    def kind_as_index(self) -> str:
        return "mask" if self.dtype == "bool" else "tensor"

    def type_of(self) -> BaseValue | str:
        if self.extra is not None and (Mark.OPAQUE in self.extra or Mark.LAZY in self.extra):
            return ""
        return "torch.nn.Parameter" if self.parameter else "torch.Tensor"

    def is_a(self, name: str) -> bool | None:
        short = name.rpartition(".")[2]
        if short == "Parameter":
            return self.parameter
        if short in ("Buffer", "UninitializedBuffer"):
            # A buffer has the type of any other tensor.
            return False if self.parameter else None
        if short == "UninitializedParameter":
            return None if self.extra is not None and Mark.LAZY in self.extra else False
        if short.endswith("Tensor") and short != "Tensor":
            # Of the old names of types, as FloatTensor, each stands for a dtype and a device.
            return None
        return short in ("Tensor", "Variable")

    def get_attribute(self, machine: Interpreter, name: str, node: ast.AST) -> Value:
        return machine.library.tensor_attribute(self, name, node)

    def set_attribute(self, machine: Interpreter, name: str, value: Value, node: ast.AST) -> None:
        machine.library.set_tensor_attribute(self, name, value, node)

    def delete_attribute(self, machine: Interpreter, name: str, node: ast.AST) -> None:
        if name == "grad":
            machine.library.set_tensor_attribute(self, "grad", None, node)

    def has_attribute(self, machine: Interpreter, name: str, node: ast.AST) -> bool | None:
        return True if name in ("backward", "item", "detach", "grad", "shape", "dtype", "device") else None

    def may_lack(self, machine: Interpreter, name: str, node: ast.AST) -> bool:
        return not any(name in own for own in (self.given, self.extra) if own) and machine.library.lacks(self, name)

    def get_item(self, machine: Interpreter, index: Value, node: ast.AST) -> Value:
        return machine.library.get_item(self, index, node)

    def set_item(self, machine: Interpreter, index: Value, value: Value, node: ast.AST) -> None:
        machine.library.set_item(self, index, value, node)

    def stream(self, machine: Interpreter, node: ast.AST) -> Stream:
        return machine.library.tensor_stream(self, node)

    def known_items(self, machine: Interpreter, node: ast.AST) -> list[Value] | None:
        return None if self.items is None else list(self.items)

    def guessed_items(self, machine: Interpreter, count: int, node: ast.AST) -> list[Value]:
        # One number has no elements.
        self.stream(machine, node)
        return [machine.library.get_item(self, index, node) for index in range(count)]

    def contains(self, machine: Interpreter, item: Value) -> bool | None:
        return None if self.items is None else among(machine, self.items, item, False)

    def known_truth(self, machine: Interpreter) -> bool | None:
        return None

    def unary(self, machine: Interpreter, op: str, node: ast.AST) -> Value:
        return machine.library.operator(op, self, None, node)

    def equals(self, other: BaseValue, machine: Interpreter | None) -> bool | Deferred | None:
        return None

    def is_one(self) -> bool:
        return self.extra is None or Mark.OPAQUE not in self.extra


def marked(value: Value, mark: Mark) -> bool:
    """Whether a value is a tensor that something is noted about."""
    return isinstance(value, Tensor) and value.extra is not None and mark in value.extra


def noted_tensor(value: Value, mark: Mark) -> Tensor | None:
    """Return the tensor that is noted of a value under a mark."""
    return value.noted_tensor(mark) if isinstance(value, Tensor) else None


def only_tensors(values: Iterable[Value]) -> list[Tensor]:
    """Return those of some values that are tensors."""
    return only(values, Tensor)


def is_buffer(value: Value) -> TypeGuard[Tensor]:
    """Whether a value is a tensor and no parameter, as the buffers of a module are."""
    return isinstance(value, Tensor) and not value.parameter


def is_parameter(value: Value) -> TypeGuard[Tensor]:
    """Whether a value is a parameter."""
    return isinstance(value, Tensor) and value.parameter
