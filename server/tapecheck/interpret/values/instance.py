"""Objects of classes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tapecheck.interpret.values.base import BaseValue, Kwargs, Signal, Slot, Value
from tapecheck.interpret.values.mapping import Dict
from tapecheck.interpret.values.program import Class
from tapecheck.interpret.values.sequence import List, Set
from tapecheck.interpret.values.unknown import Unknown
from tapecheck.torchfacts import ModuleFact


@dataclass(slots=True)
class Layer:
    """What torch.nn keeps in a module.

    `container` is the class of a container of modules, `more` says that it may hold further ones. `fact` is what
    torch does in its forward for `kinds`, the kinds of the arguments `given` to the constructor; `narrowed` the same
    for single calls. `parametrized` are the weights that are computed anew, and how. `named` says that its parameters
    have their names, `path` is how the program comes to it from the module `top`, which was named last with it in it
    ("model.encoder"), `wrapped` that a framework wraps it, `optimizers` is what Lightning made of its configuration.
    """

    container: str = ""
    more: bool = False
    fact: ModuleFact | None = None
    kinds: tuple[list[str], dict[str, str]] | None = None
    given: Kwargs = field(default_factory=dict)
    narrowed: dict[Any, ModuleFact] = field(default_factory=dict)
    parametrized: dict[str, Value] = field(default_factory=dict)
    named: bool = False
    path: str = ""
    top: Instance | None = None
    wrapped: bool = False
    optimizers: Value = None
    parameters: set[str] = field(default_factory=set)
    """The names under which `_parameters` was given a tensor, which need be no `Parameter` then."""
    buffers: set[str] = field(default_factory=set)
    """The names that were registered as buffers, whatever stands under them."""


class Instance(BaseValue):
    """An object of a user class, or of a library class that keeps state (modules, optimizers, scalers).

    For library objects `lib` is the dotted path of the class and `state` what the model of the library keeps of it.
    `quiet` is the value of `StoreCounts.kept` at which nothing below it carried a graph, `born` when it was made, -1
    where that does not matter.
    """

    __slots__ = (
        "args", "attrs", "born", "cls", "hooks", "inner", "layer", "length", "lib", "module", "numbered", "open",
        "quiet", "raised", "slots", "state",
    )  # fmt: skip

    def __init__(self, cls: Class | None, lib: str = "", module: bool = False, born: int = -1) -> None:
        self.cls = cls
        self.born = born
        self.lib = lib
        self.module = module
        self.attrs: dict[str, Value] = {}
        self.slots: dict[str, Slot] = {}
        self.hooks: list[tuple[str, Value]] = []
        self.quiet = -1
        self.layer = Layer() if module else None
        """What torch.nn keeps in a module; None of what is no module."""
        self.state: Any = None
        self.inner: List | Dict | Set | None = None
        """What it holds as the dict, list or set that its class is made from."""
        self.args: list[Value] | None = None
        """The arguments of an exception; None of what is no exception."""
        self.numbered: set[str] | None = None
        """Attributes whose names the program works out: `setattr(log, f"loss_{step}", loss)`."""
        self.open = False
        """Whether it may have attributes that nobody knows."""
        self.length: Unknown | None = None
        """What `len` gave, where nobody knows the length."""
        self.raised: Signal | None = None
        """Of a context manager that is being left: the exception that its block ended in."""

    def __repr__(self) -> str:
        return f"<{self.cls.name if self.cls else self.lib} object>"


@dataclass(eq=False, slots=True)
class Super(BaseValue):
    """What `super()` returns: the receiver, seen as of the classes after one."""

    receiver: Value
    after: Class


def unwrapped(value: Value) -> Value:
    """Return what an object of a class made from dict, list or set holds as such; any other value itself."""
    if isinstance(value, Instance) and value.inner is not None:
        return value.inner
    return value
