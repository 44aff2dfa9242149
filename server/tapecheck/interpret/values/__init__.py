"""The values of the dry run, a file for each kind of them."""

from __future__ import annotations

from tapecheck.interpret.values.base import (
    CONSTANTS,
    INERT,
    MORE_KEYWORDS,
    Args,
    BaseValue,
    Kwargs,
    Run,
    Signal,
    Slot,
    Value,
    copied,
    known_keywords,
)
from tapecheck.interpret.values.callable import (
    Bound,
    Context,
    Lib,
    Native,
    Wrapped,
    Wrapping,
)
from tapecheck.interpret.values.generator import (
    HOLDERS,
    OPEN,
    Extent,
    Generator,
    Stream,
)
from tapecheck.interpret.values.instance import (
    Instance,
    Layer,
    Super,
    unwrapped,
)
from tapecheck.interpret.values.mapping import Dict, View
from tapecheck.interpret.values.program import (
    Class,
    ClassKind,
    Env,
    Field,
    Function,
    Module,
)
from tapecheck.interpret.values.record import Record
from tapecheck.interpret.values.sequence import (
    List,
    Order,
    Queue,
    Range,
    Set,
)
from tapecheck.interpret.values.tensor import Mark, Storage, Tensor
from tapecheck.interpret.values.unknown import (
    COUNTED,
    Kind,
    Unknown,
    concrete,
    taken_for_data,
)

__all__ = [
    "CONSTANTS",
    "COUNTED",
    "HOLDERS",
    "INERT",
    "MORE_KEYWORDS",
    "OPEN",
    "Args",
    "BaseValue",
    "Bound",
    "Class",
    "ClassKind",
    "Context",
    "Dict",
    "Env",
    "Extent",
    "Field",
    "Function",
    "Generator",
    "Instance",
    "Kind",
    "Kwargs",
    "Layer",
    "Lib",
    "List",
    "Mark",
    "Module",
    "Native",
    "Order",
    "Queue",
    "Range",
    "Record",
    "Run",
    "Set",
    "Signal",
    "Slot",
    "Storage",
    "Stream",
    "Super",
    "Tensor",
    "Unknown",
    "Value",
    "View",
    "Wrapped",
    "Wrapping",
    "concrete",
    "copied",
    "known_keywords",
    "taken_for_data",
    "unwrapped",
]  # fmt: skip
