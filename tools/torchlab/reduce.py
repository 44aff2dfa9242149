"""From observed calls to facts, and from many facts to few cases that say which holds when. Needs torch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from tapecheck.torchfacts.model import (
    Aliasing,
    GradientGraph,
    OpFact,
    Overload,
    Raising,
    Result,
    Saving,
    Tri,
    Writing,
    coarse,
    join,
)
from tools.torchlab.probe import Observation
from tools.torchlab.signatures import Bound, Signature

_NEVER_DECIDES = frozenset({"equation"})
"""Parameters whose every value is another case."""
MOST_NODES = 6
"""Nodes named for one call; those of a composite are many."""
_ONE_MATTERS = frozenset({"output_size"})
"""Sizes of which 1, or all ones, is another case: pooling to one value is a mean."""
_ZERO_MATTERS = frozenset({"beta", "p", "dropout_p", "dropout", "max_norm", "label_smoothing", "proj_size"})


@dataclass(frozen=True)
class Measured:
    """One measured call: the arguments' kinds, and the fact it alone would give."""

    signature: Signature
    kinds: Mapping[str, str]
    fact: OpFact


def owners(bound: Bound) -> dict[int, str]:
    """id(tensor) -> parameter, for the tensors among the arguments."""
    result: dict[int, str] = {}
    for name, value in bound.values.items():
        for leaf in tree_leaves(value):
            if isinstance(leaf, torch.Tensor):
                result.setdefault(id(leaf), name)
    return result


def fact_of(
    name: str, seen: Observation, bound: Bound, requires_grad_flag: bool, inputs: Sequence[str] | None = None
) -> OpFact:
    """Return the fact that one observation supports; `inputs` where they are more than the arguments that are
    tensors.
    """
    params = bound.signature.params
    order = list(inputs) if inputs is not None else [p.lstrip("*") for p in params]
    if inputs is None:
        inputs = sorted(set(owners(bound).values()), key=order.index)

    def ordered(names: Iterable[str]) -> tuple[str, ...]:
        return tuple(sorted(names, key=lambda n: (order.index(n) if n in order else 99, n)))

    together = {thing.partition("#")[0] for thing in seen.saves_with_all}
    # Attention takes another path when its mask requires grad too: what one input has saved, all may not.
    lasting = {thing for thing in seen.saves if thing in together or seen.second_backward == "may"}
    saves = {thing: ordered(seen.saves[thing]) for thing in sorted(lasting)}
    may_save = {thing: ordered(seen.saves[thing]) for thing in seen.saves.keys() - lasting}
    may_save.update({thing: ordered(seen.carries) for thing in together - seen.saves.keys()})
    frees = ordered(seen.frees)
    differentiable: Tri = "yes" if seen.carries else "no"
    view_of = ordered(seen.view_of - seen.mutates)
    return OpFact(
        name=name,
        params=params,
        inputs=tuple(inputs),
        lists=ordered(seen.lists),
        fixed=ordered(set(inputs) - seen.candidates),
        saving=Saving(
            saves=saves,
            may_save=dict(sorted(may_save.items())),
            frees=() if seen.second_backward == "no" else frees,
            may_free=frees if seen.second_backward == "no" else (),
        ),
        aliasing=Aliasing(
            view_of=(view_of or ordered(seen.returns) or (None,))[0],
            view="yes" if view_of or seen.returns else "no",
            unversioned_view_of=(ordered(seen.unversioned - seen.view_of) or (None,))[0],
            returns_input="yes" if seen.returns else "no",
        ),
        writing=Writing(
            mutates=ordered(seen.mutates),
            allows_leaf=seen.allows_leaf,
            writes_unversioned=ordered(seen.writes_unversioned),
            inplace_flag="inplace" in params,
        ),
        result=Result(
            outputs=seen.structure,
            n_outputs=seen.outputs,
            differentiable_outputs=seen.differentiable_outputs,
            differentiable=differentiable,
            carries=ordered(seen.carries),
            zero_gradient=ordered(seen.zero_gradient),
            factory=is_factory(name, inputs, seen),
            requires_grad_flag=requires_grad_flag,
        ),
        gradient=GradientGraph(
            inputs={k: ordered(v) for k, v in sorted(seen.grad_graph.items())},
            saves={k: ordered(v) for k, v in sorted(seen.grad_saves.items())},
            chain_saves={k: ordered(v) for k, v in sorted(seen.grad_chain_saves.items())},
            frees=ordered(seen.grad_frees),
            chain_frees=ordered(seen.grad_chain_frees),
            chain_ends=ordered(seen.grad_chain_ends),
        ),
        nodes=seen.nodes[:MOST_NODES],
        raising=Raising(
            second_backward=seen.second_backward if seen.carries else "no",  # type: ignore[arg-type]
            call="yes" if seen.forward_error and seen.candidates else "no",
            backward="yes" if seen.backward_error else "no",
        ),
        samples=1,
    )


def is_factory(name: str, inputs: Sequence[str], seen: Observation) -> bool:
    """Return whether it is a factory: torchgen's rule for "like" and "new" functions, else by its inputs."""
    if seen.structure != "tensor":
        return False
    tail = name.rsplit(".", 1)[-1]
    return not inputs or tail.endswith("_like") or tail.startswith("new_")


def certain(fact: OpFact) -> bool:
    """Whether nothing in a fact is left open."""
    tri = (fact.aliasing.view, fact.aliasing.returns_input, fact.result.differentiable, fact.raising.second_backward)
    return not (
        fact.saving.may_save
        or fact.result.may_carry
        or fact.writing.may_mutate
        or "may" in tri
        or fact.result.outputs == "may"
    )


def doubt(fact: OpFact) -> int:
    """How much in a fact is left open."""
    tri = (fact.aliasing.view, fact.aliasing.returns_input, fact.result.differentiable, fact.raising.second_backward)
    return (
        sum(len(v) for v in fact.saving.may_save.values())
        + len(fact.saving.may_free)
        + len(fact.result.may_carry)
        + len(fact.writing.may_mutate)
        + sum(t == "may" for t in tri)
        + (fact.result.outputs == "may")
    )


Grain = Callable[[str], str]


def exact(kind: str) -> str:
    return kind


def sizes(kind: str) -> str:
    """For a parameter that takes one number for several: no difference between the two."""
    return "ints" if coarse(kind) in ("number", "list") else coarse(kind)


def ones(kind: str) -> str:
    """Whether one number, or each of several, is one."""
    return "one" if kind in ("1", "ones") else "several" if sizes(kind) == "ints" else kind


def grains(row: Measured, name: str) -> tuple[Grain, ...]:
    """How finely kinds of a parameter are told apart, the coarsest first."""
    if row.signature.types.get(name, "").replace("Optional[", "").startswith("List[int]"):
        return (sizes, ones) if name in _ONE_MATTERS else (sizes,)
    if name in _ONE_MATTERS:
        return (coarse, ones)
    return (coarse, exact) if name in _ZERO_MATTERS or row.fact.name == "matmul" else (coarse,)


def split(rows: Sequence[Measured], depth: int = 4) -> list[tuple[dict[str, str], OpFact]]:
    """Cases: conditions on argument kinds under which the rows agree, as far as any tell them apart."""
    whole = join([row.fact for row in rows])
    if certain(whole) or not depth:
        return [({}, whole)]
    best: tuple[float, int, str, Grain] | None = None
    for param in rows[0].signature.params:
        name = param.lstrip("*")
        if name in _NEVER_DECIDES:
            continue
        for grain in grains(rows[0], name):
            groups = by_kind(rows, name, grain)
            if len(groups) < 2:
                continue
            score = sum(doubt(join([r.fact for r in group])) * len(group) for group in groups.values()) / len(rows)
            if best is None or (score, len(groups)) < best[:2]:
                best = (score, len(groups), name, grain)
    if best is None or best[0] >= doubt(whole):
        return [({}, whole)]
    _, _, name, grain = best
    return [
        ({name: kind, **conditions}, fact)
        for kind, group in sorted(by_kind(rows, name, grain).items())
        for conditions, fact in split(group, depth - 1)
    ]


def by_kind(rows: Sequence[Measured], name: str, grain: Grain) -> dict[str, list[Measured]]:
    groups: dict[str, list[Measured]] = defaultdict(list)
    for row in rows:
        groups[grain(row.kinds[name])].append(row)
    return groups


def with_scalars(rows: Sequence[Measured], fact: OpFact) -> OpFact:
    """Return the fact with `scalar_saves` for the parameters measured both as a tensor and as a number."""
    sure: dict[str, Any] = {}
    possible: dict[str, Any] = {}
    for param in fact.inputs:
        scalar = [row.fact for row in rows if coarse(row.kinds.get(param, "")) == "number"]
        if scalar:
            joined = join(scalar)
            sure[param] = joined.saving.saves
            if joined.saving.may_save:
                possible[param] = joined.saving.may_save
    return replace(fact, saving=replace(fact.saving, scalar_saves=sure, scalar_may_save=possible))


def summarise(name: str, rows: Sequence[Measured]) -> tuple[Overload, ...]:
    """Return the overloads of an op from its measured calls."""
    groups: dict[tuple[str, ...], list[Measured]] = defaultdict(list)
    for row in rows:
        groups[row.signature.params].append(row)
    result = []
    for params, group in groups.items():
        kinds: dict[str, set[str]] = defaultdict(set)
        for row in group:
            for param, kind in row.kinds.items():
                kinds[param].add(coarse(kind))
        cases = tuple((conditions, with_scalars(group, fact)) for conditions, fact in split(group))
        signature = group[0].signature
        result.append(
            Overload(
                params,
                tuple(p for p in params if p in signature.keyword_only),
                {p: tuple(sorted(k)) for p, k in kinds.items()} if len(groups) > 1 else {},
                dict(signature.defaults),
                cases,
            )
        )
    return tuple(result)
