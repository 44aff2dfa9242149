"""Measure torch and write ``facts.json``: ``python -m tapecheck.torchfacts.measure``.

Prints what changed against the file in place. Needs torch and expecttest; uses only the CPU.
"""

from __future__ import annotations

import argparse
import contextlib
import inspect
import json
import sys
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from tapecheck.torchfacts.model import OpFact, Overload, Tri, join
from tapecheck.torchfacts.probe import OTHER, Call, Observation, Prober, Unusable
from tapecheck.torchfacts.samples import Sample, from_opinfo, inplace_names, own
from tapecheck.torchfacts.signatures import Bound, Signature, bind, signatures
from tapecheck.torchfacts.stored import write_op

PER_KINDS = 3
"""Calls measured for each combination of argument kinds."""
PER_OP = 24
"""Calls measured for one op."""
_ZERO_MATTERS = frozenset({"p", "dropout_p", "dropout", "max_norm", "label_smoothing"})


@dataclass(frozen=True)
class Measured:
    """One measured call: the arguments' kinds, and the fact it alone would give."""

    signature: Signature
    kinds: Mapping[str, str]
    fact: OpFact


def bind_sample(sample: Sample) -> Bound | None:
    """The sample's arguments by parameter name; None if no signature of the callable takes them."""
    if sample.params:
        defaults = {p: "absent" for p in sample.params[1:]}
        return bind(Signature(sample.params, frozenset(), defaults, {}), sample.args, sample.kwargs)
    known = signatures(sample.name, sample.fn)
    for strict in (True, False):
        for signature in known:
            bound = bind(signature, sample.args, sample.kwargs, strict=strict)
            if bound is not None:
                return bound
    return None


def owners(bound: Bound) -> dict[int, str]:
    """id(tensor) -> parameter, for the tensors among the arguments."""
    result: dict[int, str] = {}
    for name, value in bound.values.items():
        for leaf in tree_leaves(value):
            if isinstance(leaf, torch.Tensor):
                result.setdefault(id(leaf), name)
    return result


def fact_of(name: str, seen: Observation, bound: Bound, requires_grad_flag: bool) -> OpFact:
    """The fact that one observation supports."""
    params = bound.signature.params
    order = [p.lstrip("*") for p in params]
    inputs = sorted({n for n in owners(bound).values()}, key=order.index)

    def ordered(names: Iterable[str]) -> tuple[str, ...]:
        return tuple(sorted(names, key=lambda n: (order.index(n) if n in order else 99, n)))

    saves = {thing: ordered(triggers) for thing, triggers in sorted(seen.saves.items())}
    only_together = {thing.partition("#")[0] for thing in seen.saves_with_all} - saves.keys()
    differentiable: Tri = "yes" if seen.carries else "no"
    view_of = ordered(seen.view_of - seen.mutates)
    returned = seen.returns - seen.mutates
    return OpFact(
        name=name,
        params=params,
        inputs=tuple(inputs),
        saves=saves,
        may_save={thing: ordered(seen.carries) for thing in sorted(only_together)},
        view_of=(view_of or ordered(seen.returns) or (None,))[0],
        view="yes" if view_of or seen.returns else "no",
        unversioned_view_of=(ordered(seen.unversioned - seen.view_of) or (None,))[0],
        returns_input="yes" if seen.returns else "no",
        mutates=ordered(seen.mutates),
        writes_unversioned=ordered(seen.writes_unversioned),
        inplace_flag="inplace" in params,
        outputs=seen.structure,
        n_outputs=seen.outputs,
        differentiable_outputs=seen.differentiable_outputs,
        differentiable=differentiable,
        carries=ordered(seen.carries),
        zero_gradient=ordered(seen.zero_gradient),
        grad_graph={k: ordered(v) for k, v in sorted(seen.grad_graph.items())},
        factory=is_factory(name, inputs, seen),
        requires_grad_flag=requires_grad_flag,
        nodes=seen.nodes[:6],
        second_backward_raises=seen.second_backward if seen.carries else "no",  # type: ignore[arg-type]
        raises_on_grad="yes" if seen.forward_error and seen.candidates else "no",
        backward_raises="yes" if seen.backward_error else "no",
        samples=1,
    )


def is_factory(name: str, inputs: Sequence[str], seen: Observation) -> bool:
    """torchgen's own rule for "like" and "new" functions; otherwise, a tensor made from no tensor."""
    if seen.structure != "tensor":
        return False
    tail = name.rsplit(".", 1)[-1]
    return not inputs or tail.endswith("_like") or tail.startswith("new_")


def takes_requires_grad(sample: Sample) -> bool:
    """Whether the call also takes requires_grad=True and then returns a leaf that requires grad."""
    if sample.name.endswith("_"):
        return False
    with contextlib.suppress(Exception):
        out = sample.fn(*sample.args, **{**sample.kwargs, "requires_grad": True})
        return isinstance(out, torch.Tensor) and out.requires_grad and out.is_leaf
    return False


def measure_sample(sample: Sample) -> Measured | None:
    bound = bind_sample(sample)
    if bound is None:
        return None
    owner = owners(bound)
    try:
        seen = Prober(Call(sample.fn, sample.args, sample.kwargs, owner)).observe()
    except Unusable:
        return None
    except Exception as error:
        print(f"  {sample.name}: {type(error).__name__}: {str(error).splitlines()[:1]}", file=sys.stderr)
        return None
    flag = not seen.carries and seen.structure == "tensor" and takes_requires_grad(sample)
    return Measured(bound.signature, bound.kinds(), fact_of(sample.name, seen, bound, flag))


def pick(samples: Sequence[Sample]) -> Iterator[Sample]:
    """Few samples of each combination of argument kinds, at most `PER_OP` in all."""
    count: dict[Any, int] = defaultdict(int)
    taken = 0
    for sample in samples:
        bound = bind_sample(sample)
        if bound is None:
            continue
        key = (bound.signature.params, tuple(sorted(bound.kinds().items())))
        count[key] += 1
        if count[key] <= PER_KINDS and taken < PER_OP:
            taken += 1
            yield sample


def certain(fact: OpFact) -> bool:
    """Whether nothing in a fact is left open."""
    tri = (fact.view, fact.returns_input, fact.differentiable, fact.second_backward_raises)
    return not (fact.may_save or fact.may_carry or fact.may_mutate or "may" in tri or fact.outputs == "may")


def doubt(fact: OpFact) -> int:
    """How much in a fact is left open."""
    tri = (fact.view, fact.returns_input, fact.differentiable, fact.second_backward_raises)
    return (
        sum(len(v) for v in fact.may_save.values()) + len(fact.may_carry) + len(fact.may_mutate)
        + sum(t == "may" for t in tri) + (fact.outputs == "may")
    )  # fmt: skip


def coarse(param: str, kind: str) -> str:
    return "number" if kind in ("0", "nonzero") and param not in _ZERO_MATTERS else kind


def split(rows: Sequence[Measured], depth: int = 3) -> list[tuple[dict[str, str], OpFact]]:
    """Cases: conditions on argument kinds under which the rows agree, as far as any tell them apart."""
    whole = join([row.fact for row in rows])
    if certain(whole) or not depth:
        return [({}, whole)]
    best: tuple[float, int, str] | None = None
    for param in rows[0].signature.params:
        name = param.lstrip("*")
        groups: dict[str, list[Measured]] = defaultdict(list)
        for row in rows:
            groups[coarse(name, row.kinds[name])].append(row)
        if len(groups) < 2:
            continue
        score = sum(doubt(join([r.fact for r in group])) * len(group) for group in groups.values()) / len(rows)
        if best is None or (score, len(groups)) < best[:2]:
            best = (score, len(groups), name)
    if best is None or best[0] >= doubt(whole):
        return [({}, whole)]
    name = best[2]
    parts: dict[str, list[Measured]] = defaultdict(list)
    for row in rows:
        parts[coarse(name, row.kinds[name])].append(row)
    return [
        ({name: kind, **conditions}, fact)
        for kind, group in sorted(parts.items())
        for conditions, fact in split(group, depth - 1)
    ]


def with_scalars(rows: Sequence[Measured], fact: OpFact) -> OpFact:
    """The fact with `scalar_saves` for the parameters measured both as a tensor and as a number."""
    sure: dict[str, Any] = {}
    possible: dict[str, Any] = {}
    for param in fact.inputs:
        scalar = [row.fact for row in rows if coarse("", row.kinds.get(param, "")) == "number"]
        if scalar:
            joined = join(scalar)
            sure[param] = joined.saves
            if joined.may_save:
                possible[param] = joined.may_save
    return replace(fact, scalar_saves=sure, scalar_may_save=possible)


def summarise(name: str, rows: Sequence[Measured]) -> tuple[Overload, ...]:
    """The overloads of an op from its measured calls."""
    groups: dict[tuple[str, ...], list[Measured]] = defaultdict(list)
    for row in rows:
        groups[row.signature.params].append(row)
    result = []
    for params, group in groups.items():
        kinds: dict[str, set[str]] = defaultdict(set)
        for row in group:
            for param, kind in row.kinds.items():
                kinds[param].add(coarse("", kind))
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


def gather() -> dict[str, list[Sample]]:
    """All samples by op name."""
    found: dict[str, list[Sample]] = defaultdict(list)
    for sample in own():
        found[sample.name].append(sample)
    for sample in from_opinfo():
        found[sample.name].append(sample)
    for method, base in inplace_names(list(found)):
        fn = getattr(torch.Tensor, method)
        for sample in found[base]:
            if sample.args and isinstance(sample.args[0], torch.Tensor):
                found[method].append(Sample(method, fn, sample.args, sample.kwargs))
    return found


def measure_ops(only: Iterable[str] = ()) -> dict[str, Any]:
    """Rows of all ops, or those named."""
    wanted = set(only)
    rows: dict[str, Any] = {}
    for name, samples in sorted(gather().items()):
        if wanted and name not in wanted:
            continue
        measured = [m for sample in pick(samples) if (m := measure_sample(sample)) is not None]
        if measured:
            rows[name] = write_op(summarise(name, measured))
        else:
            print(f"  {name}: nothing measured of {len(samples)} samples", file=sys.stderr)
    return rows


def dump(data: Mapping[str, Any]) -> str:
    """The file's text: sorted, one op a line."""

    def line(value: Any) -> str:
        return json.dumps(value, sort_keys=True, separators=(",", ":"))

    sections = []
    for key in sorted(data):
        value = data[key]
        if isinstance(value, dict) and key != "general":
            body = ",\n".join(f"{line(name)}:{line(value[name])}" for name in sorted(value))
            sections.append(f"{line(key)}:{{\n{body}\n}}")
        else:
            sections.append(f"{line(key)}:{line(value)}")
    return "{\n" + ",\n".join(sections) + "\n}\n"


def report_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    """Added, removed and changed rows, one line each."""
    for section in ("ops", "modules", "optimizers", "general"):
        before, after = old.get(section, {}), new.get(section, {})
        for name in sorted(before.keys() | after.keys()):
            left = json.loads(json.dumps(before.get(name)))
            right = json.loads(json.dumps(after.get(name)))
            if left == right:
                continue
            verb = "added" if name not in before else "removed" if name not in after else "changed"
            yield f"{verb} {section}.{name}"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="tapecheck.torchfacts.measure", description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("facts.json"))
    parser.add_argument("--only", nargs="*", default=[], help="measure and print these ops, write nothing")
    options = parser.parse_args(argv)
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    if options.only:
        for name, row in measure_ops(options.only).items():
            print(name, json.dumps(row, indent=1))
        return 0
    data = {
        "torch": torch.__version__.partition("+")[0],
        "general": {},
        "ops": measure_ops(),
        "modules": {},
        "optimizers": {},
    }
    old = json.loads(options.out.read_text()) if options.out.exists() else {}
    for change in report_changes(old, data):
        print(change)
    temporary = options.out.with_suffix(".tmp")
    temporary.write_text(dump(data))
    temporary.replace(options.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
