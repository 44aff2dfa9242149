"""TAPE608, sharded-parameter."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from tapecheck.rules.finding import Finding, Label
from tapecheck.rules.raising import at_each_place
from tapecheck.rules.reading import Reading, Run, plain
from tapecheck.rules.rule import Rule
from tapecheck.rules.words import called_from, headline
from tapecheck.tape import ShardUse, Site, Span, Wrapper
from tapecheck.tape.ledger import GRADIENT

_LAYERS = ("addmm", "baddbmm", "bmm", "conv", "linear", "mm", "mv", "scaleddotproduct")
"""Ops whose backward multiplies by the weight again."""
How = Literal["op", "sum", "grad", "late", "double"]
_HELP: dict[How, str] = {
    "op": "call the model itself, or name the method in `torch.distributed.fsdp.register_fsdp_forward_method`",
    "sum": "compute the term in the model's `forward`, or of `parameter.full_tensor()`",
    "grad": "call `.backward()` and read `parameter.grad`",
    "late": "call the whole model first, once with any input, or call `fully_shard` on the part alone",
    "double": "leave what the second derivative goes through out of `fully_shard`, or replicate the model",
}


@dataclass(frozen=True, slots=True)
class _Refusal:
    """What torch refuses, and where; `wrapper` is the call of `fully_shard`, `other` a further place that has to do."""

    at: Site
    how: How
    name: str
    wrapper: Wrapper | None
    other: tuple[Span, str] | None = None


class ShardedParameter(Rule):
    """An operation, a sum or a gradient needs parameters that FSDP2 has given back to their shards: it raises."""

    code = "TAPE608"
    name = "sharded-parameter"
    severity = "error"
    summary = "FSDP2 raises: parameters are used outside of the forward that makes them whole"
    raises = True

    def judge(self, readings: Sequence[Reading]) -> list[Finding]:
        found = [
            (reading, each.at.span, each) for reading in readings if reading.wrappers for each in _refusals(reading)
        ]
        return [self._finding(*each) for each in at_each_place(readings, found, _comes_to)]

    def _finding(self, reading: Reading, each: _Refusal, certain: bool) -> Finding:
        at = each.at
        of, names = ("`{}`", [each.name]) if each.name and each.how != "double" else ("a parameter", [])
        form = {
            "op": f"{of} is used in shards: nothing gathers it here",
            "sum": f"backward sends a gradient in shards: the loss has {of}",
            "grad": f"no gradient by {of}: the graph has what was gathered",
            "late": "FSDP2 has a part of this model for a model of its own",
            "double": "double backward through parameters that FSDP2 has given back",
        }[each.how]
        possible = {
            "double": "possible double backward through parameters that FSDP2 gave back",
            "late": "possible call of a part before the model that FSDP2 shards",
        }.get(each.how, f"possible use of {of} in shards")
        labels = [] if each.wrapper is None else [Label(each.wrapper.at.span, "sharded here", "built")]
        if each.other is not None:
            labels.append(Label(each.other[0], each.other[1], "path"))
        labels += called_from(reading, at, at)
        return Finding(
            self.code, self.name, self.severity, at.span,
            headline(form if certain else possible, *names),
            _HELP[each.how], tuple(label for label in labels if label.span != at.span), certain,
        )  # fmt: skip


def _comes_to(reading: Reading, span: Span) -> bool:
    """Whether a path comes to a place: a backward there, or an operation."""
    return reading.walks_at(span) or reading.builds_at(span)


def _refusals(reading: Reading) -> Iterator[_Refusal]:
    wrappers = {
        leaf: each for _, each in reading.wrappers if isinstance(each, Wrapper) and each.sharded for leaf in each.leaves
    }
    leaves = reading.ledger.leaves
    for position, event in reading.shards:
        if not isinstance(event, ShardUse):
            continue
        name = leaves[event.leaf].name if event.leaf in leaves else ""
        wrapper = wrappers.get(event.leaf) if event.leaf is not None else None
        if event.how != "sum":
            yield _Refusal(event.at, event.how, name, wrapper)
            return
        run = _sends(reading, event, position, wrappers)
        if run is not None:
            yield _Refusal(run.at, "sum", name, wrapper, (event.at.span, "it is added here"))
            return
    if wrappers:
        yield from _doubles(reading, wrappers)


def _sends(reading: Reading, event: ShardUse, position: int, wrappers: dict[int, Wrapper]) -> Run | None:
    """Return the backward that sends the gradient of a sum in shards through the layers of a model."""
    later = (run for run in reading.runs if run.position > position and event.node in run.surely)
    return next((run for run in later if _layers(reading, run, wrappers)), None)


def _layers(reading: Reading, run: Run, wrappers: dict[int, Wrapper]) -> list[int]:
    """Return the nodes of layers with sharded weights that a backward certainly walks."""
    nodes = reading.ledger.nodes
    return [
        number
        for number in run.surely
        if number in nodes
        and plain(nodes[number].op).startswith(_LAYERS)
        and not wrappers.keys().isdisjoint(nodes[number].inputs)
    ]


def _doubles(reading: Reading, wrappers: dict[int, Wrapper]) -> Iterator[_Refusal]:
    """Yield a backward through gradients that an earlier one took with a graph, and gave the weights back after."""
    for first in (run for run in reading.runs if run.backward.create == "yes" and run.problem is None):
        walked = _layers(reading, first, wrappers)
        again = _through_gradients(reading, first, single=len(walked) == 1) if walked else None
        if again is not None:
            node = reading.ledger.nodes[walked[0]]
            wrapper = next(wrappers[leaf] for leaf in node.inputs if leaf in wrappers)
            label = (first.at.span, "the gradient is taken here with `create_graph=True`")
            yield _Refusal(again.at, "double", "", wrapper, label)
            return


def _through_gradients(reading: Reading, first: Run, *, single: bool) -> Run | None:
    """Return the first backward through the graph of the gradients of another one that reads the weights again."""
    built = _gradients(reading, first)
    given = {source for number in built for source in reading.sources(number)} - first.executed.keys() - built
    if single and not given:
        # The backward of a single layer multiplies by its weight again for the gradient that it was given.
        return None
    later = (run for run in reading.runs if run.position > first.position and built & set(run.surely))
    return next(later, None)


def _gradients(reading: Reading, run: Run) -> set[int]:
    """Return the nodes of the gradients that a backward computes."""
    nodes = reading.ledger.nodes
    end = next((other.position for other in reading.runs if other.position > run.position), len(reading.tape.events))
    made = (nodes[number] for number in reading.nodes_between(run.position, end) if nodes[number].op == GRADIENT)
    return {node.id for node in made if node.at.span == run.at.span}
