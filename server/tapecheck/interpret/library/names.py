"""Names of libraries: the constants they stand for, and what is an instance of them."""

from __future__ import annotations

from tapecheck.interpret import limits
from tapecheck.interpret.objects import unknowns
from tapecheck.interpret.state import World
from tapecheck.interpret.values import Class, Lib, Value, behaviour, concrete
from tapecheck.torchfacts import classes

_GIVEN = frozenset(("sys.argv", "os.environ", "sys.platform", "sys.version_info", "torch.__version__", "os.name"))
"""What a program is given from outside."""
_CONSTANTS: dict[str, Value] = {
    "math.pi": 3.141592653589793, "torch.pi": 3.141592653589793, "math.e": 2.718281828459045, "math.inf": float("inf"),
    "torch.inf": float("inf"), "typing.TYPE_CHECKING": False, "numpy.pi": 3.141592653589793, "numpy.inf": float("inf"),
    "numpy.Inf": float("inf"), "numpy.infty": float("inf"), "sys.maxsize": limits.UNREACHED,
}  # fmt: skip


def constant(world: World, value: Value) -> Value:
    """Return what a library name stands for: its value where it is a constant, else the name itself."""
    if isinstance(value, Lib):
        path = classes.public(value.path)
        if path != value.path:
            # What torch defines in one module and hands on in another goes by the public name.
            value = Lib(path, value.is_type)
        if value.path in _CONSTANTS:
            return _CONSTANTS[value.path]
        if value.path in _GIVEN:
            return unknowns.remembered(world, value.path, value.path)
    return value


def is_instance(value: Value, kind: Value) -> bool | None:
    """Return what `isinstance` would; None where nobody knows."""
    owner = behaviour(concrete(value))
    return owner.is_of(kind) if isinstance(kind, Class) else owner.is_a(behaviour(kind).name_as_type())
