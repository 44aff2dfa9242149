"""Which rules speak of an exception, by what its message says."""

from __future__ import annotations

from tapecheck.rules.array_of_graph.rule import MESSAGE, ArrayOfGraph
from tapecheck.rules.averaged_with_graph.rule import AveragedWithGraph
from tapecheck.rules.backward_twice.rule import BackwardTwice
from tapecheck.rules.backward_without_graph.rule import BackwardWithoutGraph
from tapecheck.rules.compiled_backward_twice.rule import CompiledBackwardTwice
from tapecheck.rules.compiled_double_backward.rule import CompiledDoubleBackward
from tapecheck.rules.donated_buffers.rule import DonatedBuffers
from tapecheck.rules.gradient_of_non_leaf.rule import GradientOfNonLeaf
from tapecheck.rules.leaf_inplace.rule import LeafInplace
from tapecheck.rules.missing_create_graph.rule import MissingCreateGraph
from tapecheck.rules.parameter_ready_twice.rule import ParameterReadyTwice
from tapecheck.rules.reentrant_checkpoint_grad.rule import ReentrantCheckpointGrad
from tapecheck.rules.sharded_parameter.rule import ShardedParameter
from tapecheck.rules.stale_saved_tensor.rule import StaleSavedTensor
from tapecheck.rules.unused_parameter.rule import UnusedParameter
from tapecheck.tape import Raised

UNUSED = "appears to not have been used in the graph"
_SECOND_TIME = "backward through the graph a second time"
_UNFINISHED = "Expected to have finished reduction in the prior iteration"
_TWICE = "Expected to mark a variable ready only once"
_DOUBLE = "does not currently support double backward"
_DONATED = "compiled with non-empty donated buffers"
_REENTRANT = "torch.utils.checkpoint is incompatible with .grad()"
_SHARDS = ("got mixed torch.Tensor and DTensor", "are out of bounds for storage of size 0", "has already been lazily")
_OUT = "functions with out=... arguments don't support automatic differentiation"
_INPLACE = "modified by an inplace operation"
_NON_LEAF = "can't optimize a non-leaf Tensor"
_NO_GRAPH = "does not require grad"
_LEAF = ("leaf Variable that requires grad", "a leaf variable has been moved into the graph interior")
_SPOKEN_OF = {
    MESSAGE: (ArrayOfGraph.code,),
    _SECOND_TIME: (BackwardTwice.code, CompiledBackwardTwice.code),
    _UNFINISHED: (UnusedParameter.code,),
    _TWICE: (ParameterReadyTwice.code,),
    _DOUBLE: (CompiledDoubleBackward.code,),
    _DONATED: (DonatedBuffers.code,),
    _REENTRANT: (ReentrantCheckpointGrad.code,),
    **dict.fromkeys(_SHARDS, (ShardedParameter.code,)),
    _INPLACE: (StaleSavedTensor.code,),
}
"""The rules that speak of an exception, by what its message says, wherever it was raised."""


def codes_of(raised: Raised) -> tuple[str, ...]:
    """Return the rules that speak of an exception."""
    text = raised.message
    if raised.exception == "ValueError":
        return (GradientOfNonLeaf.code,) if _NON_LEAF in text else ()
    if raised.exception != "RuntimeError":
        return ()
    known = next((codes for part, codes in _SPOKEN_OF.items() if part in text), None)
    if known is not None:
        return known
    if any(part in text for part in _LEAF):
        # In the engine itself it is DistributedDataParallel that changes its buckets.
        return (LeafInplace.code if raised.backward is None else AveragedWithGraph.code,)
    if _OUT in text and raised.backward is not None:
        return (AveragedWithGraph.code,)
    if raised.backward is not None and (_NO_GRAPH in text or UNUSED in text):
        return (BackwardWithoutGraph.code, MissingCreateGraph.code)
    return ()
