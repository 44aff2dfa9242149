"""The values of the dry run, a file for each kind of them."""

from __future__ import annotations

from tapecheck.interpret.values.base import (
    CONSTANTS,
    INERT,
    MORE_KEYWORDS,
    NO_DEFAULT,
    NO_MODEL,
    Args,
    BaseValue,
    Decides,
    Default,
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
    is_constant,
    is_number,
    known_int,
    known_keywords,
    known_numbers,
    known_text,
    loaded,
    plain,
    positional,
    stands_still,
    stored,
)
from tapecheck.interpret.values.cached import Cached
from tapecheck.interpret.values.callable import Bound, Context, Lib, Native, Wrapped, Wrapping, path_of
from tapecheck.interpret.values.constant import PythonValue
from tapecheck.interpret.values.generator import OPEN, Extent, Generator
from tapecheck.interpret.values.instance import Instance, Layer, Super, is_module, layer_of, unwrapped, user_class
from tapecheck.interpret.values.keys import unkey
from tapecheck.interpret.values.kinds import ByKind
from tapecheck.interpret.values.mapping import Dict, View
from tapecheck.interpret.values.program import Class, ClassKind, Env, Field, Function, Module, function_of, is_function
from tapecheck.interpret.values.record import Record
from tapecheck.interpret.values.sequence import (
    List,
    Order,
    Queue,
    Range,
    Set,
    as_given,
    is_whole_list,
    items_of,
    known_elements,
    known_slice,
    listed,
    note_first_graph,
    parts_of_slice,
)
from tapecheck.interpret.values.tensor import (
    Mark,
    Storage,
    Tensor,
    is_buffer,
    is_parameter,
    marked,
    noted_tensor,
    only_tensors,
)
from tapecheck.interpret.values.unknown import (
    COUNTED,
    Kept,
    Kind,
    Question,
    Settlings,
    Unknown,
    Whole,
    bound_length,
    declines,
    drawn_from,
    expression,
    is_missing,
    may_carry,
    merge_cuts,
    node_of,
    on_graph,
    passed_on,
    perhaps_given,
    perhaps_overwritten,
    requires_any,
    settle_on,
)

__all__ = [
    "CONSTANTS", "COUNTED", "INERT", "MORE_KEYWORDS", "NO_DEFAULT", "NO_MODEL", "OPEN", "Args", "BaseValue", "Bound",
    "ByKind", "Cached", "Class", "ClassKind", "Context", "Decides", "Default", "Deferred", "Dict", "Env", "Extent",
    "Field", "Function", "Generator", "Instance", "Interpreter", "Kept", "Kind", "Kwargs", "Layer", "Lib", "List",
    "Mark", "Module", "Native", "NotPlain", "Order", "PythonValue", "Question", "Queue", "Range", "Read", "Record",
    "Run", "Set", "Settlings", "Signal", "Slot", "Storage", "Stream", "Super", "Tensor", "Unknown", "Value", "View",
    "WayOut", "Whole", "Wrapped", "Wrapping", "argument", "as_given", "behaviour", "bound_length", "can_hold",
    "concrete", "copied", "deciding", "declines", "drawn_from", "equal", "expression", "function_of", "hashable",
    "identical", "is_buffer", "is_constant", "is_function", "is_missing", "is_module", "is_number", "is_parameter",
    "is_whole_list", "items_of", "known_elements", "known_int", "known_keywords", "known_numbers", "known_slice",
    "known_text", "layer_of", "listed", "loaded", "marked", "may_carry", "merge_cuts", "node_of", "note_first_graph",
    "noted_tensor", "on_graph", "only_tensors", "parts_of_slice", "passed_on", "path_of", "perhaps_given",
    "perhaps_overwritten", "plain", "positional", "requires_any", "settle_on", "stands_still", "stored", "unkey",
    "unwrapped", "user_class",
]  # fmt: skip
