"""The modes that decide what an operation records: grad mode, inference, autocast, checkpointing, scaling."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

from tapecheck.tape import Fact, Site, Span

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


class Modes:
    """The modes in force."""

    def __init__(self) -> None:
        self.grad_modes: list[Fact] = ["yes"]
        """Whether operations are recorded, innermost block last."""
        self.inference = False
        """Whether inference mode is on: no other mode records anything within it."""
        self.off_at: Span | None = None
        """The call of `set_grad_enabled` that has switched recording off, while it is in force."""
        self.cut_site: Site | None = None
        """The call of a function under `@torch.no_grad()`, while it runs: its results are cut there."""
        self.block_calls: int | None = None
        """How many calls lead to the `with` block that has switched recording off; None outside of one."""
        self.autocast: Fact = "no"
        """Whether matrix products and convolutions compute with copies of lower precision."""
        self.device_is_set = False
        """Whether the program has said on which device tensors are made."""
        self.precision_is_set = False
        """Whether the program has said which type of floating numbers tensors are made with."""
        self.accelerated = False
        """Whether the program runs where there is a GPU: it ends where there is none."""
        self.accelerators_asked = 0
        """How often it was asked whether there is a GPU."""
        self.scaler = False
        """Whether a gradient scaler was made."""
        self.scaled = False
        """Whether a gradient scaler has scaled a loss: gradients may be scaled from there on."""
        self.checkpointed: set[Span] = set()
        """The reentrant checkpoints of which it was noted that they drop nothing."""
        self.recomputed = 0
        """How many checkpoints are running: what they save is discarded and computed anew in backward."""
        self.packed = 0
        """How many saved-tensor hooks are in force: they take what is saved, and its version is not looked at."""
        self.alone = False
        """Whether the program has said that its group has one process."""
        self.averaged: dict[int, int] = {}
        """The leaves of models in DistributedDataParallel, by their storages."""
        self.unwatched: dict[int, int] = {}
        """Those that became trainable after the wrapping."""
        self.sharded: set[int] = set()
        """The storages of parameters that FSDP2 gathers anew for each walk: a step changes only shards."""
        self.of_shards: dict[int, int | None] = {}
        """The storages of what was computed of parameters in shards alone, each with one of these."""
        self.gathering = 0
        """How many forwards are running that gather parameters."""
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
        self.compiles_as_usual = True
        """Whether nothing was called or set that may say for which sizes torch.compile compiles."""
        self.settings = 0
        """How often something was called that may change what torch does everywhere."""
        self.unlike = False
        """Whether tensors may have had another type than that set by default, a single row, or another layout."""
        self.laid: set[int] | None = None
        """The storages of tensors that may be so, from where something is compiled on."""
        self.donates: Fact = "yes"
        """Whether compiled backwards may reuse the memory of what was saved."""
        self.replays: Replays | None = None
        """What calls that are captured in CUDA graphs have left, once there is one."""
        self.wrappers = 0
        """How many models were wrapped by DistributedDataParallel."""

    def lay(self, otherwise: bool, given: Iterable[_Stored], made: object) -> None:
        """Note that what was made may have another layout than most, or that what it was made of may."""
        if self.laid is None:
            self.unlike = self.unlike or otherwise
        elif otherwise or (self.laid and any(one.storage is not None and one.storage.id in self.laid for one in given)):
            storage = getattr(made, "storage", None)
            if storage is not None:
                self.laid.add(storage.id)

    @property
    def in_force(self) -> tuple[object, ...]:
        """What a program sets for all that comes after: a module that does so is run each time."""
        of_all = (self.inference, self.autocast, self.device_is_set, self.precision_is_set, self.accelerated)
        return tuple(self.grad_modes), of_all, self.donates, self.settings, self.compiles_as_usual, self.eager

    @property
    def grad_mode(self) -> Fact:
        return self.grad_modes[-1]

    @contextmanager
    def recording(self, mode: Fact) -> Iterator[None]:
        """Record operations as a mode says; what is switched within and not switched back ends with it."""
        depth = len(self.grad_modes)
        self.grad_modes.append(mode)
        try:
            yield
        finally:
            del self.grad_modes[depth:]
