"""What torch does, as the dry run sees it: the way into ops, tensors, modules, optimizers and autograd.

`operations` and `tensorlib` hold what is known of ops and tensors, `torchfunctions` of functions by their name,
`names` what the names of libraries stand for, `opaque` what follows where nothing is known.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING

from tapecheck.interpret.library import autograd, distributions, names, nnlib, opaque, operations, optimizers, tensorlib
from tapecheck.interpret.python import flow, methods, records
from tapecheck.interpret.values import (
    INERT,
    Args,
    Class,
    Dict,
    Generator,
    Instance,
    Kwargs,
    Lib,
    List,
    Record,
    Set,
    Storage,
    Stream,
    Tensor,
    Unknown,
    Value,
    concrete,
)
from tapecheck.interpret.world import World
from tapecheck.tape import Fact
from tapecheck.torchfacts import kind_of, load

if TYPE_CHECKING:
    from tapecheck.interpret.machine import Machine

_CONTAINER_BASES: dict[str, Callable[[], Value]] = {
    "builtins.dict": lambda: Dict({}), "builtins.list": lambda: List([]), "builtins.set": lambda: Set([]),
    "collections.OrderedDict": lambda: Dict({}), "collections.UserDict": lambda: Dict({}),
    "collections.UserList": lambda: List([]), "collections.defaultdict": lambda: Dict({}),
}  # fmt: skip


class Torch:
    """The torch side of one machine."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.world: World = machine.world
        self.facts = load()
        self.autograd = autograd.Autograd(machine)
        self.nn = nnlib.Modules(machine)
        self.optimizers = optimizers.Optimizers(machine)
        self.distributions = distributions.Distributions(machine)
        self.pending_storage: Storage | None = None
        self.pending_others: dict[int, Storage] = {}
        """The memory of the further results of an op that saves them, by their number."""
        """The memory of a result that the op saves, made before the result is."""

    def requires(self, value: Value) -> Fact:
        """Whether a tensor-like value carries a graph or is a leaf that requires grad."""
        if isinstance(value, Tensor):
            return value.graph
        if isinstance(value, Unknown):
            if value.node is not None:
                return "yes" if value.certain else "may"
            return "no" if value.data or value.concrete is not None else "may"
        return "no"

    def tensors(self, value: Value) -> list[Value]:
        """The tensors and unknown values in an argument, lists and tuples opened."""
        kind = type(value)
        if kind is Tensor or kind is Unknown:
            return [value]
        if kind in INERT:
            return []
        if isinstance(value, (tuple, list)):
            return [tensor for item in value for tensor in self.tensors(item)]
        if isinstance(value, (List, Set)):
            return [tensor for item in value.items for tensor in self.tensors(item)]
        if isinstance(value, Dict):
            return [tensor for item in value.items.values() for tensor in self.tensors(item)]
        if isinstance(value, Instance) and "inner" in value.facts:
            return self.tensors(value.facts["inner"])
        if isinstance(value, (Stream, Generator)):
            return [tensor for item in self.machine.elements(value, ast.Pass()) for tensor in self.tensors(item)]
        return []

    def kind(self, value: Value) -> str:
        """The kind of an argument as `torchfacts` names kinds."""
        if type(value) is Tensor:
            return "tensor"
        value = concrete(value)
        if isinstance(value, Tensor):
            return "tensor"
        if isinstance(value, Unknown):
            if value.node is not None:
                return "tensor"
            return "number" if value.name == "number" else "?"
        if isinstance(value, (List, tuple)):
            items = value.items if isinstance(value, List) else list(value)
            if any(isinstance(item, Tensor) or (isinstance(item, Unknown) and item.node is not None) for item in items):
                return "tensors"
            if not items or any(isinstance(item, (List, tuple)) for item in items):
                return "?"
            return kind_of([concrete(item) for item in items])
        if isinstance(value, Lib):
            return "dtype" if value.path.startswith("torch.") else "other"
        if isinstance(value, (Stream, Generator)):
            return "tensors"
        return kind_of(value)

    def is_module_class(self, cls: Class) -> bool:
        return any(self.nn.is_module_base(base) for base in cls.library_bases())

    def prepare_object(self, owner: Instance, bases: list[str]) -> None:
        if owner.module:
            owner.attrs["training"] = True
        for base in bases:
            if self.nn.is_class(base) or base.startswith("torch.optim."):
                owner.lib = base
            elif base in _CONTAINER_BASES and not owner.module:
                owner.facts["inner"] = _CONTAINER_BASES[base]()
            elif base.startswith("builtins.") and base[9:] in flow.EXCEPTIONS:
                owner.facts["args"] = []

    def construct_base(self, owner: Instance, bases: list[str], args: Args, kwargs: Kwargs, node: ast.AST) -> None:
        """Run the constructor of the library base of a user's class."""
        inner = owner.facts.get("inner")
        if inner is not None:
            self.machine.call(methods.attribute(self.machine, inner, "__init__", node), args, kwargs, node)
            return
        if "args" in owner.facts:
            owner.facts["args"] = args
            return
        for base in bases:
            if self.nn.is_class(base):
                self.nn.construct_into(owner, base, args, kwargs, node)
                return
            if base.startswith("torch.optim.") and ".lr_scheduler" not in base:
                self.optimizers.initialize(owner, args, kwargs, node)
                return

    def instantiate_special(self, cls: Class, bases: list[str], args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        """Classes whose objects are something else: enums, exceptions; None for the usual ones."""
        if cls.members is not None:
            return records.member_of(self.machine, cls, args[0] if args else None, node)
        if cls.kind == "namedtuple":
            return records.named_tuple(self.machine, cls, args, kwargs, node)
        return None

    def object_attribute(self, owner: Instance, name: str, node: ast.AST) -> Value:
        return self.nn.attribute(owner, name, node)

    def object_item(self, owner: Instance, index: Value, node: ast.AST) -> Value:
        return self.nn.item(owner, index, node)

    def object_stream(self, owner: Instance, node: ast.AST) -> Stream | None:
        return self.nn.stream(owner, node)

    def call_object(self, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        return self.nn.call(owner, args, kwargs, node)

    def deep_copy(self, value: Value, node: ast.AST, memo: dict[int, Value] | None = None) -> Value:
        """copy.deepcopy: new objects and leaves all the way down."""
        memo = {} if memo is None else memo
        if id(value) in memo:
            return memo[id(value)]
        result: Value = value
        if isinstance(value, Tensor):
            result = self.world.data(value.name, value.cuts if value.node is None else (), value.dtype)
            result.length, result.parameter, result.rank = value.length, value.parameter, value.rank
            if value.is_leaf and value.node is not None:
                self.world.make_leaf(result, node, value.name, value.parameter, value.node)
        elif isinstance(value, List):
            result = List([], value.more, value.bound, value.stored_at, value.kind, self.world.clock)
            memo[id(value)] = result
            result.items.extend(self.deep_copy(item, node, memo) for item in value.items)
        elif isinstance(value, Dict):
            result = Dict({}, value.more, value.factory, dict(value.stores), dict(value.stamps), born=self.world.clock)
            memo[id(value)] = result
            result.items.update({key: self.deep_copy(item, node, memo) for key, item in value.items.items()})
        elif isinstance(value, Record):
            result = Record(value.cls, [self.deep_copy(item, node, memo) for item in value])
        elif isinstance(value, tuple):
            result = tuple(self.deep_copy(item, node, memo) for item in value)
        elif isinstance(value, Instance):
            result = Instance(value.cls, value.lib, value.module)
            memo[id(value)] = result
            result.facts = {key: fact for key, fact in value.facts.items() if key != "named"}
            result.hooks = list(value.hooks)
            for key, item in value.attrs.items():
                result.attrs[key] = self.deep_copy(item, node, memo)
            result.stores, result.stamps = dict(value.stores), dict(value.stamps)
        elif isinstance(value, Unknown):
            result = Unknown(value.name, None, value.cuts)
            result.data = value.data
            if value.leaf is not None:
                self.opaque_parameters(result, node)
        memo[id(value)] = result
        return result

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
    method = tensorlib.method
    tensor_stream = tensorlib.tensor_stream
    factory = tensorlib.factory
    to_numpy = tensorlib.to_numpy
    distribution_parameters = tensorlib.distribution_parameters

    unknown_operator = opaque.unknown_operator
    unknown_attribute = opaque.unknown_attribute
    call_unknown = opaque.call_unknown
    opaque_result = opaque.opaque_result
    opaque_parameters = opaque.opaque_parameters
    opaque = opaque.opaque

    initialise = tensorlib.initialise

    call = names.call
    call_wrapped = names.call_wrapped
    decorator = names.decorator
    constant = names.constant
    star_import = names.star_import
    is_instance = names.is_instance


__all__ = ["Torch"]
