"""Names of libraries: what they stand for, what calling them does, what is an instance of them."""

from __future__ import annotations

import ast
from collections.abc import Generator as PyGenerator
from typing import TYPE_CHECKING

from tapecheck.interpret.library import frameworks, stdlib, torchfunctions, transforms
from tapecheck.interpret.python import unknowns
from tapecheck.interpret.values import (
    Args,
    Bound,
    Class,
    Dict,
    Function,
    Generator,
    Instance,
    Kwargs,
    Lib,
    List,
    Native,
    Queue,
    Range,
    Record,
    Set,
    Signal,
    Stream,
    Tensor,
    Unknown,
    Value,
    Wrapped,
    concrete,
)
from tapecheck.tape import Fact

if TYPE_CHECKING:
    from tapecheck.interpret.library.torchlib import Torch

_TYPE_NAMES: list[tuple[type | tuple[type, ...], tuple[str, ...]]] = [
    (bool, ("bool", "int", "Number", "Integral", "Real")), (int, ("int", "Number", "Integral", "Real", "Rational")),
    (float, ("float", "Number", "Real")), (complex, ("complex", "Number")),
    (str, ("str", "Sequence", "Iterable", "Collection", "Sized", "Container", "Reversible")),
    (bytes, ("bytes", "Sequence", "Iterable", "Collection", "Sized", "Container", "Reversible")),
    (tuple, ("tuple", "Sequence", "Iterable", "Collection", "Sized", "Container", "Reversible")),
    (List, ("list", "deque", "Sequence", "Iterable", "MutableSequence", "Collection", "Sized", "Container",
            "Reversible")),
    (Dict, ("dict", "Mapping", "MutableMapping", "Iterable", "Collection", "Sized", "Container", "Reversible")),
    (Set, ("set", "frozenset", "Set", "MutableSet", "Iterable", "Collection", "Sized", "Container")),
    (type(None), ("NoneType",)), (Range, ("range", "Sequence", "Iterable", "Collection", "Sized", "Reversible")),
    (slice, ("slice",)), (Generator, ("Generator", "GeneratorType", "Iterator", "Iterable")),
    (Stream, ("Iterator", "Iterable", "map", "filter", "zip", "enumerate")),
    (Function, ("Callable", "FunctionType", "LambdaType")), (Bound, ("Callable", "MethodType")),
    (Native, ("Callable", "FunctionType", "BuiltinFunctionType", "partial")), (Class, ("type", "ABCMeta", "Callable")),
]  # fmt: skip
_GIVEN = frozenset(("sys.argv", "os.environ", "sys.platform", "sys.version_info", "torch.__version__", "os.name"))
"""What a program is given from outside."""
_CONSTANTS: dict[str, Value] = {
    "math.pi": 3.141592653589793, "torch.pi": 3.141592653589793, "math.e": 2.718281828459045, "math.inf": float("inf"),
    "torch.inf": float("inf"), "typing.TYPE_CHECKING": False, "numpy.pi": 3.141592653589793, "numpy.inf": float("inf"),
}  # fmt: skip


def call(torch: Torch, path: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Call a function or class of a library by its dotted path."""
    special = torchfunctions.FUNCTIONS.get(path)
    if special is not None:
        return special(torch, args, kwargs, node)
    if path.startswith("torch."):
        name = path[6:]
        if name == "hub.load":
            return torch.nn.library_model(path, node)
        if name.startswith("Tensor.") and args:
            return torch.machine.call(torch.machine.get_attribute(args[0], name[7:], node), args[1:], kwargs, node)
        if name.startswith("nn.") and torch.nn.is_class(path):
            return torch.nn.construct(path, args, kwargs, node)
        if name.startswith("optim."):
            return torch.optimizers.construct(path, args, kwargs, node)
        if name.startswith("nn.init."):
            return torch.initialise(name[8:], args, kwargs, node)
        if name.startswith("distributions."):
            if name.endswith(".kl_divergence") and len(args) == 2:
                return torch.distributions.divergence(args[0], args[1], node)
            return torch.distributions.construct(path, args, kwargs, node)
        if name.startswith(("autograd.functional", "func.")) or name == "vmap":
            return transforms.call(torch, path, args, kwargs, node)
        for prefix in ("functional.", "nn.functional.", "_C._nn.", "special."):
            if name.startswith(prefix) and prefix != "nn.functional." and torch.facts.op(name[len(prefix) :]):
                return torch.op(name[len(prefix) :], args, kwargs, node)
        if torch.facts.op(name) is not None:
            return torch.op(name, args, kwargs, node)
        short = name.rsplit(".", 1)[-1]
        if name.startswith("nn.functional.") and torch.facts.op(short) is not None:
            return torch.op(short, args, kwargs, node)
        if name.startswith(("cuda.", "manual_seed", "backends", "set_", "save", "random", "distributed.", "get_")):
            return Unknown("result")
    model = torch.nn.library_model(path, node)
    if model is not None:
        return model
    if path.startswith("torchmetrics.") and path.rsplit(".", 1)[-1][:1].isupper():
        return frameworks.metric(torch, args, kwargs, node)
    found = stdlib.standard_library(torch.machine, path, args, kwargs, node)
    if found is not NotImplemented:
        return found
    if path.startswith("builtins."):
        return _builtin_class(torch, path, args)
    if path.startswith(("numpy.", "np.")):
        return torch.to_numpy(path, args, kwargs, node)
    return torch.opaque_result(path, args, kwargs, node)


def _builtin_class(torch: Torch, path: str, args: Args) -> Value:
    result = Instance(None, path)
    result.facts["args"] = args
    return result


def call_wrapped(torch: Torch, wrapped: Wrapped, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    if wrapped.kind in ("no_grad", "enable_grad", "inference_mode"):
        on = wrapped.kind == "enable_grad"
        outermost = not on and torch.world.grad_mode != "no" and torch.world.frames
        torch.world.grad_modes.append("yes" if on else "no")
        depth = len(torch.world.grad_modes)
        if outermost:
            torch.world.cut_site = torch.world.site(node)
        try:
            result = torch.machine.call(wrapped.function, args, kwargs, node)
            if isinstance(result, Generator):
                # A generator function: each of its steps is taken in that mode.
                result.run = _in_mode(torch, result.run, "yes" if on else "no")
            return result
        finally:
            del torch.world.grad_modes[depth - 1 :]
            if outermost:
                torch.world.cut_site = None
    if wrapped.kind.endswith("autocast"):
        context = torchfunctions.autocast(_AUTOCASTS[wrapped.kind])
        context.enter(torch.machine)
        try:
            return torch.machine.call(wrapped.function, args, kwargs, node)
        finally:
            context.leave(torch.machine, None)
    return torch.machine.call(wrapped.function, args, kwargs, node)


_AUTOCASTS: dict[str, Fact] = {"autocast": "yes", "perhaps autocast": "may", "no autocast": "no"}


def _in_mode(torch: Torch, run: PyGenerator[Value, Value, Value], mode: Fact) -> PyGenerator[Value, Value, Value]:
    """The steps of a generator, each in a grad mode of its own."""
    sent: Value = None
    thrown: Signal | None = None
    while True:
        torch.world.grad_modes.append(mode)
        depth = len(torch.world.grad_modes)
        try:
            value = run.send(sent) if thrown is None else run.throw(thrown)
        except StopIteration as stop:
            return stop.value
        finally:
            del torch.world.grad_modes[depth - 1 :]
        thrown = None
        try:
            sent = yield value
        except Signal as signal:
            thrown = signal


def decorator(torch: Torch, path: str, function: Value) -> Value:
    """What a library decorator without arguments makes of a function; None where it is not known."""
    if path in torchfunctions.GRAD_MODES:
        return Wrapped(torchfunctions.GRAD_MODES[path], function)
    if path in ("torch.compile", "torch.jit.script", "torch.jit.ignore", "torch.jit.export",
                "typing.no_type_check", "abc.abstractmethod",
                "dataclasses.dataclass", "typing.overload"):  # fmt: skip
        return function
    return None


def constant(torch: Torch, value: Value) -> Value:
    """A library name that is a constant."""
    if isinstance(value, Lib):
        if value.path in _CONSTANTS:
            return _CONSTANTS[value.path]
        if value.path in _GIVEN:
            return unknowns.remembered(torch.world, value.path, value.path)
        if value.path.startswith("torch.optim.lr_scheduler."):
            return value
    return value


def star_import(torch: Torch, library: str, name: str) -> Value:
    path = f"{library}.{name}"
    if path.startswith("torch.nn.") and torch.nn.is_class(path):
        return Lib(path)
    if path.startswith("torch.") and torch.facts.op(path[6:]) is not None:
        return Lib(path)
    return None


_NO_QUEUES = frozenset(
    ("list", "deque", "dict", "tuple", "set", "str", "int", "float", "Tensor", "NoneType", "Iterable")
)


def is_instance(torch: Torch, value: Value, kind: Value) -> bool | None:
    """isinstance for the values of the dry run; None where nobody knows."""
    value = concrete(value)
    name = kind.path if isinstance(kind, Lib) else (kind.name if isinstance(kind, (Class, Native)) else "")
    if isinstance(value, Unknown):
        short = name.rsplit(".", 1)[-1]
        if value.name == "text" and isinstance(kind, (Native, Lib)):
            return short in ("str", "Sequence", "Iterable", "object")
        if value.name in ("number", "len") and short in ("str", "Tensor", "list", "tuple", "dict", "NoneType"):
            return False
        return None
    if isinstance(value, Instance):
        if isinstance(kind, Class):
            return value.cls is not None and kind in value.cls.mro()
        if name in ("torch.nn.Module", "torch.nn.modules.module.Module"):
            return value.module
        if name:
            bases = value.cls.library_bases() if value.cls is not None else [value.lib]
            return any(base.rsplit(".", 1)[-1] == name.rsplit(".", 1)[-1] for base in bases)
        return None
    short = name.rsplit(".", 1)[-1]
    if isinstance(kind, Class):
        return isinstance(value, Record) and kind in value.cls.mro()
    if isinstance(value, Tensor):
        if short == "Parameter":
            return value.parameter
        return short in ("Tensor", "Variable")
    if name == "builtins.object" or short == "Hashable":
        return True
    if isinstance(value, Queue):
        return False if short in _NO_QUEUES else None
    for types, names in _TYPE_NAMES:
        if isinstance(value, types):
            if isinstance(value, List) and short in ("list", "deque"):
                return ("deque" if value.kind == "deque" else "list") == short
            if isinstance(value, Dict) and short == "Counter":
                return value.kind == "counter"
            if isinstance(value, Dict) and short in ("defaultdict", "OrderedDict"):
                return value.factory is not None if short == "defaultdict" else None
            return short in names
    return None
