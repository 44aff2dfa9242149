"""What a compiled backward cannot do without: ``python -m tools.torchlab.donated``.

Writes ``donated.json``. A backward is compiled with the forward: what it needs is saved, or computed anew from what is
saved. For each kind of node that a call builds this measures whether something must be saved that the forward has
computed itself, though the inputs and results of the call are there:

- `own`: the call by itself has something saved beside its inputs and results
- `final`: its result is not computed anew
- `given`: a tensor that it saves of its inputs must be saved as it is, even if it could be computed anew
- `result`: so must the result that it saves

A name stands there if that is so in every call that was measured. A node is named as the dry run names it: by its
``grad_fn`` where the call builds one, by the op or class where it builds several, or sometimes another. Whatever saves
memory by the sizes of tensors is switched off. Needs torch.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import itertools
import json
import sys
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch._functorch import config
from torch._functorch.aot_autograd import aot_function
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch.func import functional_call
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

from tapecheck import torchfacts
from tapecheck.torchfacts import load
from tapecheck.torchfacts.model import OpFact
from tools.torchlab import modules
from tools.torchlab.measure import bind_sample, gather, pick
from tools.torchlab.probe import Call, Prober
from tools.torchlab.reduce import fact_of, owners
from tools.torchlab.signatures import bind, of_python

STORED = Path(torchfacts.__file__).with_name("donated.json")
PER_NAME = 8
"""Calls measured for one op or class."""
PER_NODE = 6
"""Calls measured for one kind of node."""
MOST_ALONE = 2
"""Inputs that are tried as the only one that requires grad; none of a call with more than twice as many."""
_BY_SIZE = {
    "ban_recompute_used_far_apart": False,
    "ban_recompute_long_fusible_chains": False,
    "ban_recompute_reductions": False,
}
WHAT = ("own", "final", "given", "result")
_REFUSED = "non-empty donated buffers"


@dataclass(frozen=True)
class Region:
    """A call to compile: `function` takes the tensors in `given`, of which those named in `names` may require grad."""

    function: Callable[..., Any]
    given: tuple[torch.Tensor, ...]
    names: tuple[str, ...]
    fact: OpFact


def key_of(fact: OpFact) -> str:
    """Return what the dry run calls the node of a call."""
    return fact.nodes[0] if len(fact.nodes) == 1 else fact.name


def is_donated(function: Callable[..., Any], given: Sequence[torch.Tensor], grad: Collection[int]) -> bool | None:
    """Return whether a compiled backward takes memory that its forward saved, where the tensors at the places `grad`
    require grad; None where it cannot be compiled.
    """

    def walk(compiled: Callable[..., Any], *, retain: bool) -> None:
        leaves = [tensor.detach().clone().requires_grad_(place in grad) for place, tensor in enumerate(given)]
        made = [o for o in tree_leaves(compiled(*leaves)) if isinstance(o, torch.Tensor) and o.requires_grad]
        sum(o.abs().sum() for o in made).backward(retain_graph=retain)

    def unchanged(graph: Any, _: Any) -> Any:
        return graph

    compiled = aot_function(function, unchanged, unchanged, partition_fn=min_cut_rematerialization_partition)
    try:
        walk(compiled, retain=False)
    except Exception:  # whatever torch raises of what it cannot compile
        return None
    try:
        walk(compiled, retain=True)
    except RuntimeError as error:
        return True if _REFUSED in str(error) else None
    return False


def _floats(value: Any) -> list[torch.Tensor]:
    return [one for one in tree_leaves(value) if isinstance(one, torch.Tensor) and one.is_floating_point()]


def _known(given: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Return what has a backward need all that a call is given anyhow."""
    return [one.sin() for one in given if one.is_floating_point()]


class _Answers:
    """What was measured of one call: whether each question had the same answer whichever inputs required grad."""

    def __init__(self, region: Region) -> None:
        self.region = region
        self.found: dict[str, set[bool]] = defaultdict(set)
        self.every = tuple(place for place, one in enumerate(region.given) if one.is_floating_point())

    def ask(self, what: str, function: Callable[..., Any], grad: Collection[int]) -> None:
        answer = is_donated(function, self.region.given, grad) if grad else None
        if answer is not None:
            self.found[what].add(answer)

    def alone(self, names: Collection[str]) -> list[tuple[int, ...]]:
        """Return the places that may require grad: all, and each of those named by itself."""
        most = MOST_ALONE if len(self.every) <= 2 * MOST_ALONE else 0
        singles = [(place,) for place in self.every if self.region.names[place] in names][:most]
        return [self.every, *(one for one in singles if one != self.every)]


def measured(region: Region) -> dict[str, set[bool]]:
    """Return what is so of one call."""
    run, saving = region.function, region.fact.saving
    answers = _Answers(region)

    def own(*ts: torch.Tensor) -> Any:
        made = run(*ts)
        return made, [one.sin() for one in _floats(made)], _known(ts)

    def final(*ts: torch.Tensor) -> Any:
        return [one.sin() for one in _floats(run(*ts))], _known(ts)

    def result(*ts: torch.Tensor) -> Any:
        return [one * 0.9 for one in _floats(run(*ts))], _known(ts)

    # What only a bias needs is not what the call saves for the others.
    for grad in answers.alone(set(saving.saves) & set(region.names) or saving.frees):
        answers.ask("own", own, grad)
    if answers.found["own"] == {True}:
        # Whatever else it does: where it is walked, something is donated.
        return {what: {True} for what in WHAT}
    answers.ask("final", final, answers.every)
    if any(thing.startswith("result") for thing in saving.saves):
        answers.ask("result", result, answers.every)
    for place in answers.every:
        triggers = saving.saves.get(region.names[place], ())

        def computed(*ts: torch.Tensor, place: int = place) -> Any:
            made = run(*(one * 0.9 if index == place else one for index, one in enumerate(ts)))
            return made, [one.sin() for one in _floats(made)], _known(ts)

        for grad in answers.alone(triggers) if triggers else ():
            answers.ask("given", computed, {*grad, place})
    return answers.found


# -- calls ------------------------------------------------------------------------------------------------------------


def _taking(function: Callable[..., Any], args: Any, names: Mapping[int, str], fact: OpFact) -> Region:
    """Return a call as a function of its tensors alone."""
    leaves, spec = tree_flatten(args)
    places = [place for place, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]

    def run(*ts: torch.Tensor) -> Any:
        full = list(leaves)
        for place, tensor in zip(places, ts):
            full[place] = tensor
        positional, keywords = tree_unflatten(full, spec)
        return function(*positional, **keywords)

    given = tuple(leaves[place].detach() for place in places)
    return Region(run, given, tuple(names.get(id(leaves[place]), "") for place in places), fact)


def of_ops(only: Sequence[str] = ()) -> Iterator[Region]:
    """Yield calls of ops that build nodes; those that change something in place are compiled as others are."""
    known = load()
    for name, samples in sorted(gather().items()):
        fact = known.op(name)
        # A native norm hands out the statistics that others save.
        native = name.startswith("native_")
        if (only and name not in only) or fact is None or not fact.nodes or fact.inplace or native:
            continue
        for sample in pick(samples)[:PER_NAME]:
            bound = bind_sample(sample)
            if bound is None:
                continue
            owner = owners(bound)
            try:
                seen = Prober(Call(sample.fn, sample.args, sample.kwargs, owner)).observe()
            except Exception:  # whatever an op raises of a sample that it does not take
                continue
            fact = fact_of(name, seen, bound, requires_grad_flag=False)
            if fact.nodes and not fact.writing.mutates:
                yield _taking(sample.fn, (sample.args, dict(sample.kwargs)), owner, fact)


def of_modules(only: Sequence[str] = ()) -> Iterator[Region]:
    for training in (True, False):
        for cls, samples in modules._samples(training).items():
            name = cls.__name__
            if (only and name not in only) or getattr(torch.nn, name, None) is not cls:
                continue
            for measured_, module, sample in _measured(samples, training):
                held = dict(itertools.chain(module.named_parameters(), module.named_buffers()))
                owner = {id(value): key for key, value in held.items()}
                bound = bind(of_python(type(module).forward, drop_self=True)[0], sample.inputs, sample.keywords)
                if bound is not None:
                    owner.update(owners(bound))

                def run(state: Any, *inputs: Any, module: Any = module, **keywords: Any) -> Any:
                    return functional_call(module, state, inputs, keywords)

                yield _taking(run, ((held, *sample.inputs), dict(sample.keywords)), owner, measured_.fact)


def _measured(samples: Any, training: bool) -> Iterator[tuple[Any, torch.nn.Module, Any]]:
    for sample in samples[:PER_NAME]:
        found = modules.measure_sample(sample, training)
        if found is not None and found[0].fact.nodes:
            yield (*found, sample)


def measure(only: Sequence[str] = ()) -> tuple[dict[str, Any], dict[str, dict[str, set[bool]]]]:
    """Return what ``donated.json`` holds, and all answers."""
    answers: dict[str, dict[str, set[bool]]] = defaultdict(lambda: defaultdict(set))
    with warnings.catch_warnings(), config.patch(**_BY_SIZE), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        count: Counter[str] = Counter()
        for region in itertools.chain(of_ops(only), of_modules(only)):
            count[key_of(region.fact)] += 1
            if count[key_of(region.fact)] > PER_NODE and region.fact.name in answers:
                continue
            for what, seen in measured(region).items():
                for key in {key_of(region.fact), region.fact.name}:
                    answers[key][what] |= seen
    rows = {what: sorted(key for key, found in answers.items() if found[what] == {True}) for what in WHAT}
    return {"torch": torch.__version__.split("+")[0], **rows, "views": views()}, answers


def views() -> list[str]:
    """Return the nodes whose result may have the memory of an input."""
    known = load()
    layers = [fact for name in known.module_names() if (fact := known.module(name)) is not None]
    # What a distribution gives may be what it was made of: that is no view which its node is.
    names = (name for name in known.op_names() if not name.startswith("distributions."))
    facts = [op for name in names if (op := known.op(name)) is not None]
    facts += [mode for layer in layers for mode in (layer.train, layer.eval) if mode is not None]
    cases = [case for fact in facts for overload in fact.overloads for _, case in overload.cases]
    known_no: set[str] = set()
    found: set[str] = set()
    for case in (*facts, *cases):
        if case.nodes and not case.writing.mutates and not case.writing.may_mutate:
            (known_no if case.aliasing.view == "no" else found).add(key_of(case))
    # A call that may hand back what it was given has no such node then.
    return sorted(key for key in found if key not in known_no or not key[-1].isdigit())


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure what compiled backwards cannot do without.")
    parser.add_argument("names", nargs="*", help="ops or classes to look at; nothing is written then")
    options = parser.parse_args()
    rows, answers = measure(options.names)
    if options.names:
        for key, found in sorted(answers.items()):
            sys.stdout.write(f"{key}: { ({what: sorted(all_) for what, all_ in found.items()}) }\n")
    else:
        STORED.write_text(json.dumps(rows, indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
