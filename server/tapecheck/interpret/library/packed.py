"""PackedSequence: the tuple that the recurrent modules of torch.nn take for a tensor, and give for one.

Its `.data` is its first part, with its graph: nothing is cut there.
"""

from __future__ import annotations

import ast
from typing import Protocol

from tapecheck.interpret.state.writer import TapeWriter
from tapecheck.interpret.values import Args, Kwargs, Mark, Tensor, Unknown, Value, argument

_FIELDS = ("data", "batch_sizes", "sorted_indices", "unsorted_indices")
RECURRENT = ("RNN", "LSTM", "GRU")


class _Named(Protocol):
    @property
    def name(self) -> str: ...


def made(_: object, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """`PackedSequence(data, batch_sizes, ...)`."""
    return tuple([argument(args, kwargs, place, name) for place, name in enumerate(_FIELDS)])


def opened(module: _Named, bound: Kwargs) -> tuple[Value, ...]:
    """Return the parts of what a module is given, if that is packed; put its tensor in its place."""
    given = bound.get("input")
    if module.name in RECURRENT and isinstance(given, tuple) and given:
        bound["input"] = given[0]
        return given
    return ()


def closed(writer: TapeWriter, module: _Named, given: Value, parts: tuple[Value, ...], result: Value) -> Value:
    """Return what a module gives for what was packed: its output is packed as that was."""
    if module.name not in RECURRENT or not isinstance(result, tuple) or not result:
        return result
    output, *states = result
    if parts:
        if module.name == "LSTM" and isinstance(output, Tensor):
            # Measured: an LSTM that is given what is packed saves its output in some forms only.
            own = writer.new_storage()
            own.may_be(output.storage)
            output.storage = own
        return ((output, *parts[1:]), *states)
    if isinstance(given, Unknown) and isinstance(output, Tensor):
        output.note(Mark.PERHAPS_PACKED)
    return result
