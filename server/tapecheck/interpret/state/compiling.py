"""What was compiled, for which inputs, and what torch.compile makes of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

from tapecheck.tape import Fact, Site

Order: TypeAlias = Literal["", "across", "apart"]
"""How the elements of a tensor lie: one row after the other as in most, otherwise, or with others between the rows."""
Sizes: TypeAlias = tuple[tuple[int | None, Order], ...]
"""Of each tensor the length, as far as it is known, and how its elements lie."""


@dataclass(eq=False, slots=True)
class SizedCode:
    """What a call of a compiled model or function was compiled to, in which grad mode.

    `sizes` are those that it is for, None where it is for any; `guards` is what else it is for, known of the latter.
    """

    state: object
    grad_mode: Fact
    sizes: Sizes | None
    guards: object = None


@dataclass(slots=True)
class Replays:
    """What calls that CUDA graphs capture have left in memory that a later call takes.

    `began` are the calls that a generation of them began with, `outputs` and `gradients` the storages and leaves that
    have such memory: each with the call or backward it is of and the generation, a gradient with what stands for it.
    `marked` says that the program itself has said since the last call that one begins, `marks` that it ever does.
    `pending` says that a forward waits for its backward, `running` that a call is.
    """

    began: list[Site] = field(default_factory=list)
    outputs: dict[int, tuple[Site, int]] = field(default_factory=dict)
    gradients: dict[int, tuple[object, Site, int]] = field(default_factory=dict)
    calls: set[int] = field(default_factory=set)
    marks: bool = False
    marked: bool = False
    pending: bool = False
    running: bool = False


class _Numbered(Protocol):
    @property
    def id(self) -> int: ...


class _Stored(Protocol):
    @property
    def storage(self) -> _Numbered | None: ...


class Compiling:
    """What was noted of models and functions that are compiled."""

    def __init__(self) -> None:
        self.breaks = 0
        """How often something was called that torch.compile may leave the graph for."""
        self.codes: dict[tuple[object, ...], tuple[int, object]] = {}
        """The numbers of graphs that were compiled, by what is in them, with the model or function."""
        self.guards: dict[tuple[object, ...], int] = {}
        """The numbers of what compiled code was called with, as far as it decides whether it is compiled anew."""
        self.sizes: dict[object, list[SizedCode]] = {}
        """What was compiled for which sizes, by the text of the model or function; what was run last comes last."""
        self.eager = False
        """Whether compiled code may run as it is written: a stance was set, or compiling was switched off."""
        self.given: dict[object, set[Sizes]] = {}
        """What compiled code was called with, by the text that was compiled: whichever models have that forward."""
        self.mixed: set[object] = set()
        """The texts that were given what may be laid out otherwise than most: from then on views may be told apart."""
        self.as_usual = True
        """Whether nothing was called or set that may say for which sizes torch.compile compiles."""
        self.unlike = False
        """Whether tensors may have had another type than that set by default, a single row, or another layout."""
        self.laid: set[int] | None = None
        """The storages of tensors that may be so, from where something is compiled on."""
        self.donates: Fact = "yes"
        """Whether compiled backwards may reuse the memory of what was saved."""
        self.replays: Replays | None = None
        """What calls that are captured in CUDA graphs have left, once there is one."""

    def lay(self, otherwise: bool, given: Iterable[_Stored], made: object) -> None:
        """Note that what was made may have another layout than most, or that what it was made of may."""
        if self.laid is None:
            self.unlike = self.unlike or otherwise
        elif otherwise or (self.laid and any(one.storage is not None and one.storage.id in self.laid for one in given)):
            storage = getattr(made, "storage", None)
            if storage is not None:
                self.laid.add(storage.id)
