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
from pathlib import Path

from tapecheck.check import check
from tapecheck.source import from_text
from tests.differential.compare import predict
from tests.differential.generate import generate
from tests.differential.truth import NAME, Outcome, Truth, conditions_on_data

CODES = {
    "second": {"TAPE101", "TAPE603"},
    "stale": {"TAPE102"},
    "no-graph": {"TAPE103", "TAPE401"},
    "leaf": {"TAPE104"},
    "double": {"TAPE604"},
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
_WRAPPINGS = (
    '{name} = torch.compile({name}, backend="aot_eager")',
    "{name} = nn.parallel.DistributedDataParallel({name})",
    "{name} = nn.parallel.DistributedDataParallel({name}, find_unused_parameters=True)",
)


def wrapped(text: str, chance: random.Random) -> str | None:
    """Return a program with some of the models that it builds at its top wrapped; None where it builds none."""
    tree = ast.parse(text)
    classes = {node.name for node in tree.body if isinstance(node, ast.ClassDef)}
    body: list[ast.stmt] = []
    done = parallel = False
    for node in tree.body:
        body.append(node)
        name = _model(node, classes)
        if name is not None and (not done or chance.random() < 0.5):
            line = chance.choice(_WRAPPINGS).format(name=name)
            body += ast.parse(line).body
            done, parallel = True, parallel or "Parallel" in line
    if not done:
        return None
    if parallel:
        place = next(i for i, node in enumerate(body) if not isinstance(node, (ast.Import, ast.ImportFrom)))
        body[place:place] = ast.parse(_GROUP).body
    return ast.unparse(ast.Module(body, []))


def _model(node: ast.stmt, classes: set[str]) -> str | None:
    """Return the name that a statement gives to a model that it builds."""
    match node:
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=ast.Attribute(attr="Sequential"))):
            return name
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=ast.Name(id=made))) if made in classes:
            return name
    return None


def agrees(outcome: Outcome, text: str) -> bool:
    """Whether the certain findings say how a program ends."""
    findings = [each for each in check(from_text(text, NAME)).findings if each.certain]
    if outcome.kind is None:
        # What a program catches does not end it.
        return not any(each.code in RAISING and "swallowed" not in " ".join(each.notes) for each in findings)
    if outcome.kind == "unused":
        # No rule tells of it: the tape ends so.
        verdict = predict(text)
        return (verdict.kind, verdict.line) == (outcome.kind, outcome.line)
    return any(each.code in CODES[outcome.kind] and each.span.line == outcome.line for each in findings)


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare the findings with torch on wrapped models.")
    parser.add_argument("--programs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cache", type=Path, default=None)
    parser.add_argument("--out", type=Path, default=Path(".build/differential"))
    options = parser.parse_args()
    counts: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    with Truth(cache=options.cache) as truth:
        for seed in range(options.seed, options.seed + options.programs):
            text = wrapped(generate(seed), random.Random(seed))
            if text is None or conditions_on_data(ast.parse(text)):
                counts["left out"] += 1
                continue
            outcome = truth.run(text)
            if outcome.kind == "other" or outcome.message.startswith("BackendCompilerFailed"):
                counts["other error"] += 1
                continue
            kinds[outcome.kind or "runs"] += 1
            if agrees(outcome, text):
                counts["agree"] += 1
                continue
            counts["differ"] += 1
            options.out.mkdir(parents=True, exist_ok=True)
            (options.out / f"wrapped_{seed}.py").write_text(f"{text}\n# torch: {outcome.kind} {outcome.line}\n")
            print(f"{seed}: torch {outcome.kind} at {outcome.line}: {outcome.message[:80]}", flush=True)
    measured = counts["agree"] + counts["differ"]
    print(dict(counts), dict(kinds), f"agreement {counts['agree'] / max(measured, 1):.4f}")
    return 1 if counts["differ"] else 0


if __name__ == "__main__":
    sys.exit(main())
