"""Generated programs whose models are wrapped by chance: compiled, or in DistributedDataParallel.

    python -m tests.differential.wrapped --programs 300 --seed 1

asks torch and the findings whether a program raises, where and why. DistributedDataParallel is that of one process: it
averages nothing, and raises as in several. Programs whose conditions hang on data are left out, and those that end in
an error which says nothing about graphs, such as a name that a wrapper does not hand through.
"""

from __future__ import annotations

import argparse
import ast
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from tapecheck.check import check
from tapecheck.rules import Finding
from tapecheck.source import from_text
from tests.differential.compare import predict
from tests.differential.generate import generate
from tests.differential.truth import NAME, Outcome, Truth, conditions_on_data

CODES = {
    "second": {"TAPE101", "TAPE603"},
    "stale": {"TAPE102"},
    "no-graph": {"TAPE103", "TAPE401"},
    "leaf": {"TAPE104", "TAPE607"},
    "double": {"TAPE604"},
    "donated": {"TAPE611"},
    "unfinished": {"TAPE602"},
    "ready-twice": {"TAPE605"},
    "reentrant": {"TAPE606"},
}
"""The rules that tell of a kind of error."""
RAISING = set().union(*CODES.values()) - {"TAPE401"}
_GROUP = """\
import torch.distributed
torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
"""
_IN_PLACE = '{name}.compile(backend="aot_eager")'
"""Of what torch.nn has itself: whether it is compiled where it has hooks hangs on what ran before."""
_WRAPPINGS = (
    '{name} = torch.compile({name}, backend="aot_eager")',
    "{name} = nn.parallel.DistributedDataParallel({name})",
    "{name} = nn.parallel.DistributedDataParallel({name}, find_unused_parameters=True)",
)


def wrapped(text: str, chance: random.Random) -> str | None:
    """Return a program with some of the models that it builds at its top wrapped; None where it builds none."""
    tree = ast.parse(text)
    classes = {node.name for node in tree.body if isinstance(node, ast.ClassDef) and any(map(_is_module, node.bases))}
    body: list[ast.stmt] = []
    done = parallel = False
    for node in tree.body:
        body.append(node)
        name = _model(node, classes)
        if name is not None and (not done or chance.random() < 0.5):
            own = _IN_PLACE if "hook" not in text else _WRAPPINGS[0]
            line = chance.choice((own, *_WRAPPINGS)).format(name=name)
            body += ast.parse(line).body
            done, parallel = True, parallel or "Parallel" in line
    if not done:
        return None
    if parallel:
        place = next(i for i, node in enumerate(body) if not isinstance(node, (ast.Import, ast.ImportFrom)))
        body[place:place] = ast.parse(_GROUP).body
    return ast.unparse(ast.Module(body, []))


def _is_module(base: ast.expr) -> bool:
    return isinstance(base, ast.Attribute) and base.attr == "Module"


def _model(node: ast.stmt, classes: set[str]) -> str | None:
    """Return the name that a statement gives to a model that it builds."""
    match node:
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=ast.Attribute(attr="Sequential"))):
            return name
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=ast.Name(id=made))) if made in classes:
            return name
    return None


def agrees(outcome: Outcome, text: str) -> bool:
    """Whether the certain findings say how a program ends, or those that rest on the default of an option, with which
    it was run.
    """
    every = check(from_text(text, NAME)).findings
    findings = [each for each in every if each.certain]
    if outcome.kind is None:
        # What a program catches does not end it.
        return not any(each.code in RAISING and "swallowed" not in " ".join(each.notes) for each in findings)
    findings += [each for each in every if not each.certain and _by_default(each)]
    if outcome.kind == "unused":
        # No rule tells of it: the tape ends so.
        verdict = predict(text)
        return (verdict.kind, verdict.line) == (outcome.kind, outcome.line)
    if outcome.kind == "leaf" and "find_unused_parameters=True" in text:
        # What lies in a bucket of its own does not raise, and where parameters may be unused buckets are small.
        findings = every
    if outcome.kind == "donated":
        # Whether a call is compiled anew hangs on sizes and layouts, of which little is known.
        findings = every
        # What fails for certain behind what may be refused says that this may be raised before.
        if any(each.span.line == outcome.line and "donated buffers" in " ".join(each.notes) for each in every):
            return True
    if outcome.kind == "leaf" and "compile(" in text and any(map(partial(_taken_at, outcome.line), findings)):
        # A gradient with a graph that is expanded, as that of a sum, is copied in the first derivative already.
        return True
    return any(each.code in CODES[outcome.kind] and each.span.line == outcome.line for each in findings)


def _by_default(finding: Finding) -> bool:
    """Whether a finding is there if options have their defaults."""
    return bool(finding.rests_on) and all(one.kind in ("option", "default") for one in finding.rests_on)


def _taken_at(line: int | None, finding: Finding) -> bool:
    """Whether a double backward through a compiled call is told whose gradient is taken on a line."""
    return finding.code == "TAPE604" and any(label.span.line == line for label in finding.labels)


@dataclass(slots=True)
class Agreement:
    """What a run of generated programs came to; `kinds` are the outcomes that were compared."""

    counts: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)

    @property
    def share(self) -> float:
        return self.counts["agree"] / max(self.counts["agree"] + self.counts["differ"], 1)


def compare(seeds: Iterable[int], truth: Truth, tell: Callable[[int, str, Outcome], None]) -> Agreement:
    """Compare the findings with torch on the programs of some seeds; `tell` is given those that differ."""
    found = Agreement()
    for seed in seeds:
        text = wrapped(generate(seed), random.Random(seed))
        if text is None or conditions_on_data(ast.parse(text)):
            found.counts["left out"] += 1
            continue
        outcome = truth.run(text)
        if outcome.kind == "other" or outcome.message.startswith("BackendCompilerFailed"):
            found.counts["other error"] += 1
            continue
        found.kinds[outcome.kind or "runs"] += 1
        agree = agrees(outcome, text)
        found.counts["agree" if agree else "differ"] += 1
        if not agree:
            tell(seed, text, outcome)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare the findings with torch on wrapped models.")
    parser.add_argument("--programs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cache", type=Path, default=None)
    parser.add_argument("--out", type=Path, default=Path(".build/differential"))
    options = parser.parse_args()

    def tell(seed: int, text: str, outcome: Outcome) -> None:
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / f"wrapped_{seed}.py").write_text(f"{text}\n# torch: {outcome.kind} {outcome.line}\n")
        print(f"{seed}: torch {outcome.kind} at {outcome.line}: {outcome.message[:80]}", flush=True)

    with Truth(cache=options.cache) as truth:
        found = compare(range(options.seed, options.seed + options.programs), truth, tell)
    print(dict(found.counts), dict(found.kinds), f"agreement {found.share:.4f}")
    return 1 if found.counts["differ"] else 0


if __name__ == "__main__":
    sys.exit(main())
