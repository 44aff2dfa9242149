"""The values of the dry run: data only, which knows nothing of what is done with it."""

from __future__ import annotations

from tapecheck.interpret.values.kinds import (
    CONSTANTS,
    HOLDERS,
    INERT,
    OPEN,
    Args,
    Bound,
    Class,
    Context,
    Dict,
    Env,
    Extent,
    Field,
    Function,
    Generator,
    Instance,
    Kwargs,
    Lib,
    List,
    Module,
    Native,
    Queue,
    Range,
    Record,
    Run,
    Set,
    Signal,
    Storage,
    Stream,
    Super,
    Tensor,
    Unknown,
    Value,
    View,
    Wrapped,
    concrete,
    unwrapped,
)  # fmt: skip

__all__ = [
    "CONSTANTS", "HOLDERS", "INERT", "OPEN", "Args", "Bound", "Class", "Context", "Dict", "Env", "Extent", "Field",
    "Function", "Generator", "Instance", "Kwargs", "Lib", "List", "Module", "Native", "Queue", "Range", "Record", "Run",
    "Set", "Signal", "Storage", "Stream", "Super", "Tensor", "Unknown", "Value", "View", "Wrapped", "concrete",
    "unwrapped",
]  # fmt: skip
