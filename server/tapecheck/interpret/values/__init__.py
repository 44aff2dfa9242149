"""The values of the dry run, a file for each kind of them."""

from __future__ import annotations

from tapecheck.interpret.values.base import (
    CONSTANTS,
    INERT,
    MORE_KEYWORDS,
    NO_MODEL,
    Args,
    BaseValue,
    Decides,
    Deferred,
    Interpreter,
    Kwargs,
    NotPlain,
    Read,
    Run,
    Signal,
    Slot,
    Stream,
    Value,
    WayOut,
    argument,
    behaviour,
    can_hold,
    concrete,
    copied,
    deciding,
    equal,
    hashable,
    identical,
    is_number,
    known_int,
    known_keywords,
    known_text,
    loaded,
    plain,
    positional,
    stands_still,
    stored,
)
from tapecheck.interpret.values.cached import Cached
from tapecheck.interpret.values.callable import Bound, Context, Lib, Native, Wrapped, Wrapping
from tapecheck.interpret.values.constant import PythonValue
from tapecheck.interpret.values.generator import OPEN, Extent, Generator
from tapecheck.interpret.values.instance import Instance, Layer, Super, is_module, unwrapped
from tapecheck.interpret.values.keys import unkey
from tapecheck.interpret.values.kinds import ByKind
from tapecheck.interpret.values.mapping import Dict, View
from tapecheck.interpret.values.program import Class, ClassKind, Env, Field, Function, Module
from tapecheck.interpret.values.record import Record
from tapecheck.interpret.values.sequence import (
    List,
    Order,
    Queue,
    Range,
    Set,
    items_of,
    known_elements,
    known_slice,
    listed,
    note_first_graph,
    parts_of_slice,
)
from tapecheck.interpret.values.tensor import Mark, Storage, Tensor, is_buffer, is_parameter, marked
from tapecheck.interpret.values.unknown import (
    COUNTED,
    Kind,
    Settlings,
    Unknown,
    bound_length,
    declines,
    expression,
    may_carry,
    merge_cuts,
    node_of,
    on_graph,
    settle_on,
)

__all__ = [
    "CONSTANTS", "COUNTED", "INERT", "MORE_KEYWORDS", "NO_MODEL", "OPEN", "Args", "BaseValue", "Bound", "ByKind",
    "Cached", "Class", "ClassKind", "Context", "Decides", "Deferred", "Dict", "Env", "Extent", "Field", "Function",
    "Generator", "Instance", "Interpreter", "Kind", "Kwargs", "Layer", "Lib", "List", "Mark", "Module", "Native",
    "NotPlain", "Order", "PythonValue", "Queue", "Range", "Read", "Record", "Run", "Set", "Settlings", "Signal", "Slot",
    "Storage", "Stream", "Super", "Tensor", "Unknown", "Value", "View", "WayOut", "Wrapped", "Wrapping", "argument",
    "behaviour", "bound_length", "can_hold", "concrete", "copied", "deciding", "declines", "equal", "expression",
    "hashable", "identical", "is_buffer", "is_module", "is_number", "is_parameter", "items_of", "known_elements",
    "known_int", "known_keywords", "known_slice", "known_text", "listed", "loaded", "marked", "may_carry", "merge_cuts",
    "node_of", "note_first_graph", "on_graph", "parts_of_slice", "plain", "positional", "settle_on", "stands_still",
    "stored", "unkey", "unwrapped",
]  # fmt: skip
