"""The modes that decide what an operation records: grad mode, inference, autocast, checkpointing, scaling."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tapecheck.interpret.state.compiling import Compiling
from tapecheck.interpret.state.wrapping import Wrapping
from tapecheck.tape import Fact, Site, Span, Switched


class Modes:
    """The modes in force."""

    def __init__(self, note: Callable[[Switched], object] = lambda stretch: None) -> None:
        self._note = note
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
        self.wrapping = Wrapping()
        """What was noted of models that are wrapped for several processes."""
        self.compiling = Compiling()
        """What was noted of models and functions that are compiled."""
        self.stretch = Switched(0, True)
        """Where the program itself has set the grad mode that is in force."""
        self.stretches = 0
        """How often it has."""
        self.asked = False
        """Whether the program has asked for the grad mode: what it sets later may be the one that it was told."""
        self.settings = 0
        """How often something was called that may change what torch does everywhere."""

    @property
    def in_force(self) -> tuple[object, ...]:
        """What a program sets for all that comes after: a module that does so is run each time."""
        of_all = (self.inference, self.autocast, self.device_is_set, self.precision_is_set, self.accelerated)
        compiling = self.compiling
        return tuple(self.grad_modes), of_all, self.settings, compiling.donates, compiling.as_usual, compiling.eager

    @property
    def grad_mode(self) -> Fact:
        return self.grad_modes[-1]

    def switched(self, *, told: bool = True) -> None:
        """Note that the program has set the grad mode itself, if recording is on; `told` where it is in any case."""
        if self.grad_mode == "yes":
            self.stretches += 1
            self.resume(Switched(self.stretches, told))

    def apart(self) -> Switched:
        """Note that code begins which hidden code runs in a mode of its own, and return how it was set outside."""
        before = self.stretch
        if self.grad_mode == "yes":
            self.stretches += 1
            self.resume(Switched(self.stretches, False))
        return before

    def resume(self, stretch: Switched) -> None:
        """Note that the grad mode is again as it was set there."""
        if stretch is not self.stretch:
            self.stretch = stretch
            self._note(stretch)

    @contextmanager
    def recording(self, mode: Fact) -> Iterator[None]:
        """Record operations as a mode says; what is switched within and not switched back ends with it."""
        depth, stretch = len(self.grad_modes), self.stretch
        self.grad_modes.append(mode)
        self.switched()
        try:
            yield
        finally:
            del self.grad_modes[depth:]
            self.resume(stretch)
