"""Names of libraries: the constants they stand for, and what is an instance of them."""

from __future__ import annotations

from collections.abc import Callable

from tapecheck.interpret.objects import unknowns
from tapecheck.interpret.state import World
from tapecheck.interpret.values import (
    COUNTED,
    Bound,
    Class,
    Dict,
    Function,
    Generator,
    Instance,
    Kind,
    Lib,
    List,
    Native,
    Queue,
    Range,
    Record,
    Set,
    Stream,
    Tensor,
    Unknown,
    Value,
    concrete,
)
from tapecheck.torchfacts import classes

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


def constant(world: World, value: Value) -> Value:
    """Return what a library name stands for: its value where it is a constant, else the name itself."""
    if isinstance(value, Lib):
        if value.path in _CONSTANTS:
            return _CONSTANTS[value.path]
        if value.path in _GIVEN:
            return unknowns.remembered(world, value.path, value.path)
    return value


_NO_QUEUES = frozenset(
    ("list", "deque", "dict", "tuple", "set", "str", "int", "float", "Tensor", "NoneType", "Iterable")
)


def is_instance(value: Value, kind: Value) -> bool | None:
    """Return what `isinstance` would; None where nobody knows."""
    value = concrete(value)
    name = kind.path if isinstance(kind, Lib) else (kind.name if isinstance(kind, (Class, Native)) else "")
    short = name.rpartition(".")[2]
    if isinstance(value, Unknown):
        return _unknown_is(value, kind, short)
    if isinstance(value, Instance):
        return _object_is(value, kind, name)
    if isinstance(kind, Class):
        return isinstance(value, Record) and kind in value.cls.mro()
    if isinstance(value, Tensor):
        return value.parameter if short == "Parameter" else short in ("Tensor", "Variable")
    if name == "builtins.object" or short == "Hashable":
        return True
    if isinstance(value, Queue):
        return False if short in _NO_QUEUES else None
    return _container_is(value, short)


def _unknown_is(value: Unknown, kind: Value, short: str) -> bool | None:
    if value.kind is Kind.TEXT and isinstance(kind, (Native, Lib)):
        return short in ("str", "Sequence", "Iterable", "object")
    if value.kind in COUNTED and short in ("str", "Tensor", "list", "tuple", "dict", "NoneType"):
        return False
    return None


def _object_is(value: Instance, kind: Value, name: str) -> bool | None:
    if isinstance(kind, Class):
        return value.cls is not None and kind in value.cls.mro()
    if not name:
        return None
    if name in ("torch.nn.Module", "torch.nn.modules.module.Module"):
        return value.module
    bases = value.cls.library_bases() if value.cls is not None else [value.lib]
    short = name.rpartition(".")[2]
    if any(base.rpartition(".")[2] == short or short in classes.bases(base) for base in bases):
        return True
    # What other libraries build upon torch's classes is not known.
    return None if classes.is_base(short) and not all(base.startswith("torch.") for base in bases) else False


def _container_is(value: Value, short: str) -> bool | None:
    """Return whether a value that is no object of a class has a type of a name; containers know their own kind."""
    if isinstance(value, List) and short in ("list", "deque"):
        return ("deque" if value.kind == "deque" else "list") == short
    if isinstance(value, Dict) and short in _KINDS_OF_DICT:
        return _KINDS_OF_DICT[short](value)
    return next((short in names for types, names in _TYPE_NAMES if isinstance(value, types)), None)


_KINDS_OF_DICT: dict[str, Callable[[Dict], bool | None]] = {
    "Counter": lambda value: value.kind == "counter", "defaultdict": lambda value: value.factory is not None,
    "OrderedDict": lambda value: None,
}  # fmt: skip
