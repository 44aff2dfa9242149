"""What torch's classes derive from, and what layers are made of: ``classes.json``, read without torch.

``python -m tools.torchlab.classes`` writes the file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from functools import lru_cache
from importlib import resources
from typing import TypedDict


class _Stored(TypedDict):
    bases: dict[str, list[str]]
    module: list[str]
    tensor: list[str]
    attributes: dict[str, list[str]]
    names: dict[str, list[str]]
    ranks: dict[str, dict[str, int]]
    homes: dict[str, str]


LAYER = re.compile(r"_l\d+(_reverse)?$")
"""What ends the names of the parameters of a recurrent module's layers."""
COPY = re.compile(r"(.*\blayers\.)(\d+)(\..+)")
"""The parts of the name of a parameter of one of the copies of a layer that a module is made of."""


@lru_cache(maxsize=1)
def _stored() -> _Stored:
    found: _Stored = json.loads(resources.files(__package__).joinpath("classes.json").read_bytes())
    return found


@lru_cache(maxsize=1)
def _named() -> frozenset[str]:
    return frozenset(name for names in _stored()["bases"].values() for name in names)


@lru_cache(maxsize=1)
def _module() -> frozenset[str]:
    return frozenset(_stored()["module"])


@lru_cache(maxsize=1)
def _tensor() -> frozenset[str]:
    return frozenset(_stored()["tensor"])


@lru_cache(maxsize=1)
def _names() -> dict[str, frozenset[str]]:
    return {path: frozenset(names) for path, names in _stored()["names"].items()}


@lru_cache(maxsize=256)
def _own(path: str) -> frozenset[str] | None:
    names = _stored()["attributes"].get(path)
    return None if names is None else frozenset(names)


@lru_cache(maxsize=4_096)
def without_layer(name: str) -> str:
    """Return the name of a parameter as the facts have it, which speak of all layers of a recurrent module at once.

    It is weight_ih for weight_ih_l0, weight_ih_l1 ...
    """
    return LAYER.sub("", name)


def of_first_layers(name: str, known: Collection[str]) -> str:
    """Return the name of a parameter as the facts have it: of the copies of a layer they know the first ones."""
    parts = COPY.fullmatch(name) if name not in known else None
    if parts is None:
        return without_layer(name)
    alike = (f"{parts[1]}{index}{parts[3]}" for index in (1, 0))
    return next((one for one in alike if one in known), name)


def public(path: str) -> str:
    """Return the public path of what torch defines elsewhere, ``torch.nn.Linear``; any other path itself."""
    return _stored()["homes"].get(path, path)


def rank(layer: str, name: str) -> int | None:
    """Return how many dimensions a parameter of a layer such as ``Linear`` has; None where its arguments decide."""
    return _stored()["ranks"].get(layer, {}).get(without_layer(name))


def bases(path: str) -> tuple[str, ...]:
    """Return the short names of the classes within torch that a class such as ``torch.optim.Adam`` derives from."""
    return tuple(_stored()["bases"].get(path, ()))


def is_base(name: str) -> bool:
    """Return whether other classes of torch derive from a class of this short name."""
    return name in _named()


def tensor_lacks(name: str) -> bool:
    """Return whether tensors certainly have no attribute of a name, unless the program gives them one."""
    return not name.startswith("_") and name not in _tensor()


def torch_lacks(path: str, name: str) -> bool:
    """Return whether a module of torch as ``torch.nn`` certainly has nothing of a name; False of those not measured."""
    names = _names().get(path)
    return names is not None and not name.startswith("_") and name not in names


def module_lacks(name: str) -> bool:
    """Return whether a bare ``nn.Module`` has no attribute of a name, unless the program gives it one."""
    return not name.startswith("_") and name not in _module()


def module_has(name: str) -> bool:
    """Return whether every module has an attribute or method of that name, as torch's own class has it."""
    return name in _module()


def adds(path: str, name: str) -> bool:
    """Return whether a class that a call puts in front of a module's own adds a name."""
    return name in (_own(path) or ())


def is_method(path: str) -> bool:
    """Return whether a dotted path is that of a method of a class of torch: ``torch.optim.Adam.step``."""
    owner, _, name = path.rpartition(".")
    own = _own(owner)
    return own is not None and (name in own or name in _module())


def lacks(path: str, name: str) -> bool:
    """Return whether layers or optimizers of a class as ``torch.nn.ReLU`` certainly have no attribute of a name.

    False of classes that were not measured, of special methods, and of what parametrizations add.
    """
    own = _own(path)
    if own is None or name.startswith(("_", "parametrizations", "weight", "bias")):
        return False
    return name not in own and (path.startswith("torch.optim.") or name not in _module())
