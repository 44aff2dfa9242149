"""What torch's ops, modules and optimizers do to the autograd graph: measured data, read without torch.

``load()`` reads ``facts.json``, which ``python -m tools.torchlab.measure`` writes by running torch; of several measured
versions the nearest is taken, see ``versions.py``.

Names. ``torch.mul`` and ``Tensor.mul`` are ``"mul"``; functions of a submodule keep its path after ``torch.``
(``"nn.functional.relu"``, ``"linalg.norm"``, ``"fft.fft"``); the in-place method is ``"relu_"``. Attributes
of a tensor (``"T"``, ``"data"``, ``"real"``) are ops with one input. Subscripts are ``"getitem"`` and
``"setitem"``. Python's operators: see `OPERATORS`, `REFLECTED` and `IN_PLACE`.

Kinds. `OpFact.for_call` narrows a fact to one call. It takes the *kind* of each argument, a string:
``"tensor"`` (where its rank is known, ``"matrix"`` for two dimensions or fewer and ``"stack"`` for more),
``"tensors"`` (a list or tuple of them), ``"None"``, ``"True"``, ``"False"``, ``"0"``, ``"1"``, ``"nonzero"`` (any
other number), a string's repr (``"'mean'"``), ``"list"`` (of numbers), ``"ones"`` (a list of nothing but ones),
``"slice"``, ``"..."``, ``"dtype"``, ``"other"``; and where the value is not known ``"number"``, ``"bool"``,
``"str"``, or ``"?"`` for anything. `kind_of` gives the kind of a constant.

Uncertainty. ``saves`` and ``carries`` hold what every sample showed; ``may_save`` and ``may_carry`` what
only some did. A thing in neither was never seen. Fields typed `Tri` say "yes", "no" or "may".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from tapecheck.torchfacts.model import (
    IN_PLACE,
    OPERATORS,
    PARAMETER_SYNONYMS,
    REFLECTED,
    ModuleFact,
    OpFact,
    OptimizerFact,
    Overload,
    Saves,
    Tri,
    compatible,
    join,
    kind_of,
)
from tapecheck.torchfacts.stored import read_module, read_op, read_optimizer
from tapecheck.torchfacts.versions import measured, nearest, selected, several, table, using

__all__ = [
    "IN_PLACE",
    "OPERATORS",
    "PARAMETER_SYNONYMS",
    "REFLECTED",
    "Facts",
    "ModuleFact",
    "OpFact",
    "OptimizerFact",
    "Overload",
    "Saves",
    "Tri",
    "compatible",
    "join",
    "kind_of",
    "load",
    "measured",
    "nearest",
    "selected",
    "several",
    "using",
]


def _row(table: Mapping[str, object], name: str) -> Any:
    row = table.get(name)
    # A row that is the same as another's is stored as that one's name.
    while isinstance(row, str):
        row = table[row]
    return row


class Facts:
    """The table. Facts are built when first asked for.

    Attributes:
        torch_version: version of torch that was measured.
        general: measured facts about autograd itself, by name; see ``general.py``.
    """

    def __init__(self, data: Mapping[str, Any]) -> None:
        self.torch_version: str = data["torch"]
        self.general: Mapping[str, bool] = data["general"]
        self._ops: Mapping[str, Any] = data["ops"]
        self._modules: Mapping[str, Any] = data["modules"]
        self._optimizers: Mapping[str, Any] = data["optimizers"]
        self._built: dict[tuple[str, str], Any] = {}

    def op(self, name: str) -> OpFact | None:
        """Return the fact for a canonical op name, an alias of one, or an in-place method; None if unknown."""
        key = ("op", name)
        if key not in self._built:
            row = _row(self._ops, name)
            self._built[key] = None if row is None else read_op(name, row)
        found: OpFact | None = self._built[key]
        return found

    def module(self, name: str) -> ModuleFact | None:
        """Return the fact for a class of torch.nn, by class name; None if unknown."""
        key = ("module", name)
        if key not in self._built:
            row = _row(self._modules, name)
            self._built[key] = None if row is None else read_module(name, row)
        found: ModuleFact | None = self._built[key]
        return found

    def optimizer(self, name: str) -> OptimizerFact | None:
        """Return the fact for a class of torch.optim, by class name; None if unknown."""
        row = self._optimizers.get(name)
        return None if row is None else read_optimizer(name, row)

    def op_names(self) -> Iterator[str]:
        """All op names, aliases included."""
        return iter(self._ops)

    def module_names(self) -> Iterator[str]:
        """All module class names."""
        return iter(self._modules)

    def optimizer_names(self) -> Iterator[str]:
        """All optimizer class names."""
        return iter(self._optimizers)


def load(version: str | None = None) -> Facts:
    """Return the facts of the measured torch that is nearest to a version.

    Without one it is the version that `using` has selected, else the newest.

    Raises:
        FileNotFoundError: ``facts.json`` is missing from the installation.
    """
    wanted = version if version is not None else selected()
    if wanted is None:
        return _newest()
    return _facts(nearest(wanted, measured()))


@lru_cache(maxsize=1)
def _newest() -> Facts:
    return _facts(measured()[-1])


@lru_cache(maxsize=4)
def _facts(version: str) -> Facts:
    return Facts(table(version))
