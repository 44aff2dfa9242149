"""What torch's classes derive from and what they are made of: ``python -m tools.torchlab.classes``.

Writes ``classes.json``: for each class the short names of its bases within torch, and for layers of `torch.nn` the
names of their attributes, as `hasattr` sees them once one has been made, and likewise for optimizers; for torch's
modules the names that are in them, and the public paths of classes and functions that are defined elsewhere. Needs
torch.
"""

from __future__ import annotations

import inspect
import json
import pkgutil
import sys
import types
from pathlib import Path

import torch
import torch.distributed.fsdp
import torch.optim.lr_scheduler
import torch.utils.data
from torch import nn

from tapecheck import torchfacts
from tapecheck.torchfacts.classes import without_layer
from tools.torchlab.modules import built_layers
from tools.torchlab.optimizers import made_optimizers

STORED = Path(torchfacts.__file__).with_name("classes.json")
SPACES = ("torch.nn", "torch.optim", "torch.optim.lr_scheduler", "torch.utils.data", "torch.distributions")

ADDED = (torch.distributed.fsdp.FSDPModule,)
"""Classes that a call puts in front of a module's own."""
NAMED = (
    "torch", "torch.amp", "torch.autograd", "torch.cuda", "torch.func", "torch.linalg", "torch.nn",
    "torch.nn.functional", "torch.nn.init", "torch.nn.utils", "torch.optim", "torch.optim.lr_scheduler",
    "torch.utils.data",
)  # fmt: skip
"""The modules whose names are written in programs that train."""
HANDED_ON = ("torch.nn.parallel", "torch.nn.utils.rnn", "torch.distributed")
"""Other modules that hand on what is defined in modules within them."""


def names() -> dict[str, list[str]]:
    """Return the public names of torch's modules, what is imported first when it is asked for among them."""
    found: dict[str, list[str]] = {}
    for path in NAMED:
        module = sys.modules[path]
        inside = (one.name for one in pkgutil.iter_modules(getattr(module, "__path__", ())))
        found[path] = sorted(name for name in {*dir(module), *inside} if not name.startswith("_"))
    return found


def bases() -> dict[str, list[str]]:
    """Return the bases of torch's public classes, `Module` and `object` left out, where there are any."""
    found: dict[str, list[str]] = {}
    for space in SPACES:
        module = sys.modules[space]
        for name, cls in vars(module).items():
            if not inspect.isclass(cls) or name.startswith("_") or cls is nn.Module:
                continue
            above = [base for base in cls.__mro__[1:] if base.__module__.startswith("torch") and base is not nn.Module]
            names = {base.__name__ for base in above}
            if "LRScheduler" in names:
                names.add("_LRScheduler")  # its name before torch 2.0, which is kept
            if names:
                found[f"{space}.{name}"] = sorted(names)
    return found


def homes() -> dict[str, str]:
    """Return the public paths of torch's classes and functions, by where they are defined, where that is elsewhere."""
    found: dict[str, str] = {}
    for space in dict.fromkeys(("torch", "torch.autograd", *SPACES, *NAMED, *HANDED_ON)):
        for name, one in vars(sys.modules[space]).items():
            # Some values warn where they are asked for their class.
            kind = type(one)
            if name.startswith("_") or not issubclass(kind, (type, types.FunctionType)):
                continue
            defined = f"{one.__module__}.{one.__qualname__}"
            own = issubclass(kind, type) or (defined.endswith(f".{name}") and "._" not in defined)
            if own and defined.startswith("torch.") and not defined.startswith("torch._"):
                if defined not in (f"{space}.{name}", f"torch.{name}"):
                    found.setdefault(defined, f"{space}.{name}")
    return found


def attributes() -> dict[str, list[str]]:
    """Return for each class of layers the names of attributes that its layers have and a bare `Module` has not, for
    each of optimizers all that they have, and for classes that a call puts in front of a layer's own what these add;
    special methods are left out.
    """
    every = set(dir(nn.Module()))
    found: dict[str, set[str]] = {}
    for made in built_layers():
        for layer in made.modules():
            cls = type(layer)
            if vars(nn).get(cls.__name__) is cls:
                found.setdefault(f"torch.nn.{cls.__name__}", set()).update(dir(layer), vars(layer))
    found = {name: names - every for name, names in found.items()}
    for cls in ADDED:
        found[f"torch.distributed.fsdp.{cls.__name__}"] = {*dir(cls)} - every
    for optimizer in made_optimizers():
        found[f"torch.optim.{type(optimizer).__name__}"] = {*dir(optimizer), *vars(optimizer)}
    return {name: sorted(one for one in names if not one.startswith("__")) for name, names in sorted(found.items())}


def ranks() -> dict[str, dict[str, int]]:
    """Return for each class of layers the number of dimensions of its parameters, where all its layers agree; those of
    a layer's layers and directions under one name.
    """
    found: dict[str, dict[str, set[int]]] = {}
    for made in built_layers():
        for layer in made.modules():
            if vars(nn).get(type(layer).__name__) is not type(layer):
                continue
            own = found.setdefault(type(layer).__name__, {})
            # A layer that is made of others has theirs under dotted names.
            for name, parameter in layer.named_parameters():
                own.setdefault(without_layer(name), set()).add(parameter.dim())
    same = {
        cls: {name: min(seen) for name, seen in sorted(own.items()) if len(seen) == 1} for cls, own in found.items()
    }
    return {cls: own for cls, own in sorted(same.items()) if own}


def _of_tensors() -> set[str]:
    """Return the names of what tensors have, and packed sequences, which layers take and give in their place."""
    packed = nn.utils.rnn.pack_sequence([torch.ones(1)])
    made = (torch.nn.Parameter(torch.ones(1)), packed)
    return {name for one in made for name in dir(one) if not name.startswith("_")}


def measure() -> dict[str, object]:
    """Return what ``classes.json`` holds."""
    return {
        "torch": torch.__version__.split("+")[0],
        "bases": bases(),
        "module": sorted(name for name in dir(nn.Module()) if not name.startswith("__")),
        "tensor": sorted(_of_tensors()),
        "attributes": attributes(),
        "names": names(),
        "homes": homes(),
        "ranks": ranks(),
    }


if __name__ == "__main__":
    STORED.write_text(json.dumps(measure(), indent=1, sort_keys=True) + "\n", encoding="utf-8")
