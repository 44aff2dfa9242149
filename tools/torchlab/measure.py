"""Measure torch and write ``facts.json``: ``python -m tools.torchlab.measure``.

Prints what changed against the file in place, field by field; `--against FILE` compares with another file, of another
torch version say, and `--compare` only compares, measuring nothing. Needs torch and expecttest; uses only the CPU.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import re
import sys
import warnings
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from tapecheck import torchfacts
from tapecheck.torchfacts.stored import write_op
from tools.torchlab.changes import changes
from tools.torchlab.companions import companions
from tools.torchlab.general import measure_general
from tools.torchlab.modules import measure_modules
from tools.torchlab.optimizers import measure_optimizers
from tools.torchlab.probe import Call, Prober, Unusable
from tools.torchlab.reduce import Measured, fact_of, owners, summarise
from tools.torchlab.samples import PARAMS, Sample, aliases, borrowers, from_opinfo, own
from tools.torchlab.signatures import Bound, Signature, bind, of_schema, signatures
from tools.torchlab.text import dump

PER_KINDS = 3
"""Calls measured for each combination of argument kinds and shapes."""
PER_OP = 96
"""Calls measured for one op."""


def bind_sample(sample: Sample) -> Bound | None:
    """Return the sample's arguments by parameter name; None if no signature of the callable takes them."""
    params = sample.params or PARAMS.get(sample.name, ())
    kwargs = {key: value for key, value in sample.kwargs.items() if key != "requires_grad"}
    if params:
        # What is only ever passed by name (probs or logits) may each be left out.
        defaults = {p: "absent" for p in params[1 if sample.args else 0 :] if not p.startswith("*")}
        return bind(Signature(params, frozenset(), defaults, {}), sample.args, kwargs)
    known = signatures(sample.name, sample.fn)
    for strict in (True, False):
        for signature in known:
            bound = bind(signature, sample.args, kwargs, strict=strict)
            if bound is not None:
                return bound
    return None


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
        sys.stderr.write(f"  {sample.name}: {type(error).__name__}: {str(error).splitlines()[:1]}\n")
        return None
    flag = not seen.carries and seen.structure == "tensor" and takes_requires_grad(sample)
    return Measured(bound.signature, bound.kinds(), fact_of(sample.name, seen, bound, flag))


def pick(samples: Sequence[Sample]) -> list[Sample]:
    """Up to `PER_OP` samples, as different as can be: one of each combination of kinds, numbers and shapes
    first.
    """
    alike: dict[Any, list[Sample]] = defaultdict(list)
    for sample in samples:
        bound = bind_sample(sample)
        if bound is None:
            continue
        shapes = [t.shape for t in tree_leaves((sample.args, dict(sample.kwargs))) if isinstance(t, torch.Tensor)]
        ranks = tuple(len(shape) for shape in shapes)
        kinds = tuple(sorted(bound.kinds().items()))
        numbers = tuple(repr(v) for n, v in bound.values.items() if isinstance(v, float) or n in ("ord", "p"))
        alike[bound.signature.params, kinds, numbers, ranks, len(set(shapes))].append(sample)
    turns = itertools.zip_longest(*(group[:PER_KINDS] for group in alike.values()))
    return [sample for turn in turns for sample in turn if sample is not None][:PER_OP]


def gather() -> dict[str, list[Sample]]:
    """All samples by op name: own ones, OpInfo's, and those lent to aliases and in-place methods."""
    found: dict[str, list[Sample]] = defaultdict(list)
    for sample in (*own(), *companions(), *from_opinfo()):
        found[sample.name].append(sample)
    by_tail: dict[str, list[Sample]] = defaultdict(list)
    for name, samples in found.items():
        by_tail[name.rsplit(".", 1)[-1]].extend(samples)
    for name, fn, lender in borrowers(found):
        known = {p for signature in of_schema(name) or signatures(name, fn) for p in signature.params}
        for sample in by_tail[lender]:
            if sample.args and isinstance(sample.args[0], (torch.Tensor, list, tuple)):
                kwargs = {key: value for key, value in sample.kwargs.items() if key in known or not known}
                found[name].append(Sample(name, fn, sample.args, kwargs))
    return {name: samples for name, samples in found.items() if is_public(name)}


def is_public(name: str) -> bool:
    """Whether users write this name; torch.masked is left out, a prototype."""
    parts = name.split(".")
    return parts[0] not in ("masked", "torch") and not any(p.startswith("_") and not p.endswith("__") for p in parts)


def with_layouts(samples: Iterable[Sample]) -> Iterator[Sample]:
    """Yield the samples whose first argument is a matrix or more, with that argument's last two strides swapped."""
    for sample in samples:
        first = sample.args[0] if sample.args else None
        if isinstance(first, torch.Tensor) and first.ndim >= 2 and first.layout == torch.strided:
            swapped = first.detach().mT.contiguous().mT
            yield replace(sample, args=(swapped, *sample.args[1:]))


def measure_op(samples: Sequence[Sample]) -> list[Measured]:
    """Return the measured calls among `samples`."""
    chosen = pick(samples)
    found = [m for sample in chosen if (m := measure_sample(sample)) is not None]
    if any(m.fact.aliasing.view != "no" and not m.fact.writing.mutates for m in found):
        # Whether reshape, flatten or contiguous give a view depends on the strides.
        found += [m for sample in with_layouts(chosen) if (m := measure_sample(sample)) is not None]
    return found


def measure_ops(only: Iterable[str] = ()) -> dict[str, Any]:
    """Rows of all ops, or those named."""
    wanted = set(only)
    rows: dict[str, Any] = {}
    for name, samples in sorted(gather().items(), key=lambda item: (item[0].count("."), item[0])):
        if wanted and name not in wanted:
            continue
        measured = measure_op(samples)
        if measured:
            rows[name] = write_op(summarise(name, measured))
        else:
            sys.stderr.write(f"  {name}: nothing measured of {len(samples)} samples\n")
    rows = share(rows, aliases())
    return share(share(rows, without_graph(rows)), alike_methods(rows))


def share(rows: Mapping[str, Any], pairs: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """Return the rows, the first of each pair replaced by the second's name where both are the same."""
    result = dict(rows)
    for name, target in pairs:
        same = name != target and name in rows and rows[name] == rows.get(target)
        if same and not isinstance(result[target], str):
            result[name] = target
    return result


def without_graph(rows: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Ops that build no node (comparisons, predicates), each with the first whose row is the same."""
    first: dict[str, str] = {}
    for name, row in rows.items():
        text = json.dumps(row, sort_keys=True)
        if not isinstance(row, str) and '"nodes"' not in text:
            yield name, first.setdefault(text, name)


def alike_methods(rows: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Methods of distributions, each with the first whose row is the same."""
    first: dict[str, str] = {}
    for name, row in rows.items():
        if name.startswith("distributions.") and not isinstance(row, str):
            yield name, first.setdefault(json.dumps(row, sort_keys=True), name)


def alike_modules(rows: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield module classes that differ by dimension only, or by being lazy."""
    for name in rows:
        for target in (re.sub("[23]d$", "1d", name), name.removeprefix("Lazy")):
            yield name, target


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="tools.torchlab.measure", description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path(torchfacts.__file__).with_name("facts.json"))
    parser.add_argument("--against", type=Path, help="the file to compare with (default: the one that is replaced)")
    parser.add_argument("--compare", action="store_true", help="measure nothing: print how the two files differ")
    parser.add_argument(
        "--only",
        nargs="*",
        default=[],
        help="measure these ops (mul, nn.functional.relu) and modules (nn.LSTM) alone; all other rows stay",
    )
    options = parser.parse_args(argv)
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    old = json.loads(options.out.read_text()) if options.out.exists() else {}
    reference = json.loads(options.against.read_text()) if options.against is not None else old
    if options.compare:
        for change in changes(reference, old, counts=True):
            sys.stdout.write(f"{change}\n")
        return 0
    if options.only:
        classes = [name.removeprefix("nn.") for name in options.only if name.removeprefix("nn.")[:1].isupper()]
        modules = measure_modules(classes) if classes else {}
        data = {
            **old,
            "ops": {**old.get("ops", {}), **measure_ops(options.only)},
            "modules": {**old.get("modules", {}), **modules},
        }
    else:
        modules = measure_modules()
        data = {
            "torch": torch.__version__.partition("+")[0],
            "general": measure_general(),
            "ops": measure_ops(),
            "modules": share(modules, alike_modules(modules)),
            "optimizers": measure_optimizers(),
        }
    for change in changes(reference, json.loads(dump(data))):
        sys.stdout.write(f"{change}\n")
    temporary = options.out.with_suffix(".tmp")
    temporary.write_text(dump(data))
    temporary.replace(options.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
