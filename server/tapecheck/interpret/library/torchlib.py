"""What torch does, as the dry run sees it: the way into ops, tensors, modules, optimizers and autograd.

`operations` and `tensorlib` hold what is known of ops and tensors, `torchfunctions` of functions by their name,
`transforms` of torch.func, `opaque` what follows where nothing is known.
"""

from __future__ import annotations

import ast

from tapecheck.interpret.engine import Engine
from tapecheck.interpret.library import (
    autograd,
    distributions,
    nnlib,
    opaque,
    operations,
    optimizers,
    pretrained,
    tensorlib,
    transforms,
    visible,
)
from tapecheck.interpret.state import World
from tapecheck.interpret.values import (
    COUNTED,
    INERT,
    NO_MODEL,
    Args,
    BaseValue,
    Instance,
    Kwargs,
    Lib,
    Native,
    Storage,
    Tensor,
    Unknown,
    Value,
    behaviour,
    concrete,
    is_module,
    known_elements,
    on_graph,
    path_of,
    positional,
)
from tapecheck.tape import Fact
from tapecheck.torchfacts import kind_of, load

_FUNCTIONAL = ("functional.", "_C._nn.", "special.")
"""Other names of modules that hold ops."""


def _kind_of_items(items: list[Value]) -> str:
    if any(type(item) is Tensor or on_graph(item) for item in items):
        return "tensors"
    if not items or any(known_elements(item) is not None for item in items):
        return "?"
    return kind_of([concrete(item) for item in items])


_WITHOUT_GRAPH = frozenset((
    "all_gather", "all_reduce", "all_to_all_single", "broadcast", "gather", "irecv", "isend", "recv", "reduce",
    "scatter", "send",
))  # fmt: skip
"""Collectives that write nothing with a graph, measured with two processes of gloo and torch 2.13."""
_GRAPHLESS = ("cuda.", "manual_seed", "backends", "set_", "save", "random", "distributed.", "get_")
"""What the names of functions begin with that have nothing to do with graphs."""
_SETS_NOTHING = ("cuda.", "manual_seed", "save", "random", "distributed.", "get_", "is_")
"""Those that leave the settings of torch as they are."""


class Torch:
    """The torch side of one machine."""

    def __init__(self, machine: Engine) -> None:
        self.machine = machine
        self.world: World = machine.world
        self.facts = load()
        self.autograd = autograd.Autograd(self)
        self.nn = nnlib.Modules(self)
        self.optimizers = optimizers.Optimizers(self)
        self.distributions = distributions.Distributions(self)
        self.pending_storage: Storage | None = None
        self.pending_others: dict[int, Storage] = {}

    def requires(self, value: Value) -> Fact:
        """Whether a tensor-like value carries a graph or is a leaf that requires grad."""
        return value.requires() if isinstance(value, BaseValue) else "no"

    def tensors(self, value: Value) -> list[Tensor | Unknown]:
        """Return the tensors and unknown values in an argument, lists and tuples opened."""
        if type(value) is Tensor or type(value) is Unknown:
            return [value]
        if type(value) in INERT:
            return []
        owner = behaviour(value)
        if owner.is_container:
            return [tensor for item in owner.children() for tensor in self.tensors(item)]
        if isinstance(value, Native):
            return self.tensors(value.receiver)
        if isinstance(value, Instance) and value.inner is not None:
            return self.tensors(value.inner)
        if owner.is_iterator:
            return [tensor for item in self.machine.elements(value, ast.Pass()) for tensor in self.tensors(item)]
        return []

    def kind(self, value: Value) -> str:
        """Return the kind of an argument as `torchfacts` names kinds."""
        kind = type(value)
        if kind is Tensor:
            return "tensor"
        if kind in INERT:
            return kind_of(value)
        value = concrete(value)
        if isinstance(value, Unknown):
            if value.node is not None:
                return "tensor"
            return "number" if value.kind in COUNTED else "?"
        if (items := known_elements(value)) is not None:
            return _kind_of_items(list(items))
        if path := path_of(value):
            if path.startswith("torch."):
                return "dtype"
            return "other" if visible.modelled(path) else "?"
        if behaviour(value).is_iterator:
            return "tensors"
        return kind_of(value)

    op = operations.op
    apply = operations.apply
    alias = operations.alias
    operator = operations.operator
    augmented = operations.augmented
    comparison = operations.comparison
    change = operations.change
    rebase = operations.rebase
    fail = operations.fail
    get_item = operations.get_item
    set_item = operations.set_item

    tensor_attribute = tensorlib.tensor_attribute
    set_tensor_attribute = tensorlib.set_tensor_attribute
    requires_grad = tensorlib.requires_grad
    tensor_stream = tensorlib.tensor_stream
    factory = tensorlib.factory
    distribution_parameters = tensorlib.distribution_parameters

    unknown_operator = opaque.unknown_operator
    unknown_attribute = opaque.unknown_attribute
    given_apart = opaque.given_apart
    perhaps_a_number = opaque.perhaps_a_number
    call_unknown = opaque.call_unknown
    opaque_result = opaque.opaque_result
    opaque_parameters = opaque.opaque_parameters
    presumed_parameters = opaque.presumed_parameters
    opaque = opaque.opaque

    def call(self, path: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        """Call a function or class of torch by its dotted path; NO_MODEL where it is none that is known."""
        name = path[6:]
        if name == "hub.load":
            return pretrained.from_hub(self, args, kwargs, node)
        if name.startswith("nn.") and (self.nn.is_class(path) or path in nnlib.BARE):
            return self.nn.construct(path, args, kwargs, node)
        method = self._method(path, args, node)
        if method is not None:
            return self.machine.call(method, args[1:], kwargs, node)
        if name.startswith("optim."):
            return self.optimizers.construct(path, args, kwargs, node)
        if name.startswith("nn.init."):
            return tensorlib.initialise(self, name[8:], args, kwargs, node)
        if name.startswith("distributions."):
            return self.distributions.call(path, args, kwargs, node)
        if name.startswith(("autograd.functional", "func.")) or name == "vmap":
            return transforms.call(self, path, args, kwargs, node)
        known = self._op_named(name)
        return self._unmodelled(path, args, kwargs, node) if known is None else self.op(known, args, kwargs, node)

    def _unmodelled(self, path: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        """Note what a function of torch without a model may do; return what it gives, NO_MODEL where that may be
        anything.
        """
        name = path[6:]
        # Graphs go through what other processes compute, and a backward from one to the other.
        across = name.startswith(("distributed.autograd.", "distributed.rpc.", "distributed.nn."))
        given = (*args, *kwargs.values())
        writes = name.startswith("distributed.") and name.rpartition(".")[2] not in _WITHOUT_GRAPH
        if writes and any(isinstance(one, Tensor) for one in self.tensors(given)):
            # What other collectives write requires grad, or nobody has measured it.
            visible.called(self, path, given, node)
        self.world.modes.settings += not name.startswith(_SETS_NOTHING)
        if name.startswith(("_dynamo.", "compiler.")) and not name.rpartition(".")[2].startswith("is_"):
            self.world.modes.compiling.as_usual = False
            # `torch._dynamo.config.patch(disable=True)` and its like.
            self.world.modes.compiling.eager = self.world.modes.compiling.eager or "disable" in kwargs
        return Unknown("result") if name.startswith(_GRAPHLESS) and not across else NO_MODEL

    def _method(self, path: str, args: Args, node: ast.AST) -> Value:
        """Return the method of the first argument that a path names by its class; None of any other path."""
        owner, name = positional(args, 0), path[6:]
        if name.startswith("Tensor.") and args:
            return self.machine.get_attribute(owner, name[7:], node)
        of, _, method = path.rpartition(".")
        if is_module(owner) and (of in nnlib.BARE or self.nn.is_class(of)):
            return self.nn.attribute(owner, method, node)
        return None

    def _op_named(self, name: str) -> str | None:
        """Return the op that a function of torch is, by its canonical name; None where it is none."""
        names = [name[len(prefix) :] for prefix in _FUNCTIONAL if name.startswith(prefix)] + [name]
        if name.startswith("nn.functional."):
            names.append(name.rsplit(".", 1)[-1])
        return next((one for one in names if self.facts.op(one) is not None), None)

    def known_name(self, path: str) -> Value:
        """Return what torch has under a path; None where the facts and classes know none."""
        if self.nn.is_class(path) or self.facts.op(path[6:]) is not None:
            return Lib(path)
        return None


__all__ = ["Torch"]
