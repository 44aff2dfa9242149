#!/usr/bin/env python3
"""Hold the verdicts of recorded runs against a second recorder that takes no short cut, over generated programs.

    python -m tests.record.brute --programs 1000 --first 0

The second one runs the program by itself, with marks in its loops and a trace function for exceptions. After each
iteration it collects garbage and goes over all live tensors and the graphs that they lead to; before and after each
backward, and before each step, it compares the gradients of all parameters of all optimizers, bit for bit. It knows
nothing of the recorder but what both say about the same line. The programs are those of `tests.differential`, with
seven rounds in their loops.
"""

from __future__ import annotations

import argparse
import ast
import json
import multiprocessing
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if __package__ in (None, ""):
    sys.path[:0] = [str(Path(__file__).parents[2]), str(Path(__file__).parents[2] / "server")]

from tapecheck.check import check
from tapecheck.record import judge
from tapecheck.rules.finding import Finding
from tapecheck.rules.growing_chain.rule import GrowingChain
from tapecheck.rules.stale_gradient.facts import beside
from tapecheck.source import read_source
from tapecheck.tape import End, read_tape
from tests.cases.recorded import _run_all, _watched
from tests.differential.generate import generate
from tests.differential.growth import _after, _live_nodes, longer, outermost

SECONDS = 60
GROWING = ("TAPE201", "TAPE202", "TAPE203")
RAISING = ("TAPE101", "TAPE102", "TAPE103", "TAPE104")


class Brute:
    """What one run of a program came to, as the second recorder sees it."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.levels: dict[int, list[list[int]]] = {}
        self.raised: set[int] = set()
        self.backwards: set[int] = set()
        self.stale: set[int] = set()
        self.discarded: Counter[int] = Counter()
        self.used: Counter[int] = Counter()
        self.steps: dict[int, int] = {}
        self.fed: Counter[int] = Counter()
        self.had: Counter[int] = Counter()
        # By the identity of a parameter, which is kept: the gradient that a step used, the line that added to it since,
        # and the lines whose backward calls gave what is in the gradient now.
        self._parameters: dict[int, Any] = {}
        self._used: dict[int, Any] = {}
        self._added: dict[int, int] = {}
        self._given: dict[int, set[int]] = {}
        self._versions: dict[int, int] = {}
        self._depth = 0
        self.walked: dict[int, list[int]] = {}

    def line(self) -> int:
        """The innermost line of the program that runs."""
        frame: Any = sys._getframe(1)
        while frame is not None and frame.f_code.co_filename != self.path:
            frame = frame.f_back
        return frame.f_lineno if frame is not None else 0

    # Loops

    def begins(self, line: int, first: bool) -> None:
        runs = self.levels.setdefault(line, [])
        if first:
            runs.append([])
        runs[-1].append(len(_live_nodes()))

    def ends(self, line: int) -> None:
        if line in self.levels:
            self.levels[line][-1].append(len(_live_nodes()))

    def grows(self, line: int) -> bool:
        """Whether a run of a loop has more nodes at its end than after its second iteration."""
        return any(len(run) > 3 and run[-1] > run[2] for run in self.levels.get(line, ()))

    def grows_always(self, line: int) -> bool:
        """Whether each iteration of each run of a loop leaves more nodes than the one before."""
        runs = self.levels.get(line, ())
        return bool(runs) and all(len(run) > 4 and all(a < b for a, b in zip(run[1:], run[2:])) for run in runs)

    # Gradients

    def known(self) -> dict[int, Any]:
        """All parameters of all optimizers there are."""
        import gc

        import torch

        for value in gc.get_objects():
            if issubclass(type(value), torch.optim.Optimizer):
                for group in value.param_groups:
                    self._parameters.update((id(p), p) for p in group["params"])
        return self._parameters

    def _cleared(self) -> None:
        """Note what is gone of what backward calls have given."""
        for key, parameter in self.known().items():
            gradient = parameter.grad
            # Zeros may be what a backward gave.
            if gradient is None or (not gradient.any() and gradient._version != self._versions.get(key)):
                for line in self._given.pop(key, ()):
                    self.discarded[line] += 1
                self._added.pop(key, None)

    def backward(self, call: Callable[..., Any], *args: Any, **words: Any) -> Any:
        import torch

        if self._depth:
            return call(*args, **words)
        line = self.line()
        self.backwards.add(line)
        self.walked.setdefault(line, []).append(_graph_size(args[0] if args else words["tensors"]))
        self._cleared()
        before = {key: None if p.grad is None else p.grad.clone() for key, p in self.known().items()}
        versions = {key: 0 if p.grad is None else p.grad._version for key, p in self.known().items()}
        self._depth += 1
        try:
            answer = call(*args, **words)
        finally:
            self._depth -= 1
        for key, parameter in self.known().items():
            now, then = parameter.grad, before.get(key)
            if now is None or (then is not None and torch.equal(now, then) and now._version == versions[key]):
                continue
            self._versions[key] = now._version
            self._given.setdefault(key, set()).add(line)
            used = self._used.get(key)
            if used is not None and then is not None and torch.equal(then, used) and not torch.equal(now, then):
                self._added[key] = line
        return answer

    def before_step(self, optimizer: Any, args: Any, words: Any) -> Any:
        """Note what a step uses: where it is given a closure, what there is each time that has returned."""
        # The optimizer itself is the first argument.
        closure = args[1] if args[1:] else words.get("closure")
        if closure is None:
            self.step(optimizer)
            return None

        def evaluated() -> Any:
            answer = closure()
            self.step(optimizer)
            return answer

        return ((args[0], evaluated, *args[2:]), words) if args[1:] else (args, {**words, "closure": evaluated})

    def step(self, optimizer: Any) -> None:
        self._cleared()
        self.steps[id(optimizer)] = self.steps.get(id(optimizer), 0) + 1
        mine = {id(p): p for group in optimizer.param_groups for p in group["params"]}
        for key, parameter in mine.items():
            self.fed[key] += 1
            gradient = parameter.grad
            if gradient is None:
                continue
            self.had[key] += 1
            for line in self._given.pop(key, ()):
                self.used[line] += 1
            if gradient.any():
                if key in self._added:
                    self.stale.add(self._added.pop(key))
                self._used[key] = gradient.clone()


def _graph_size(roots: Any) -> int:
    """The nodes that a backward from some tensors can walk."""
    import torch

    given = [roots] if isinstance(roots, torch.Tensor) else list(roots)
    ahead = [root.grad_fn for root in given if root.grad_fn is not None]
    seen = set(ahead)
    while ahead:
        for node, _ in ahead.pop().next_functions:
            if node is not None and node not in seen:
                seen.add(node)
                ahead.append(node)
    return len(seen)


def _names(scope: dict[str, Any], brute: Brute) -> dict[str, dict[str, Any]]:
    """What is known of the parameters, by the names that the program's variables give them."""
    import torch

    found: dict[str, dict[str, Any]] = {}

    def add(name: str, value: Any, depth: int) -> None:
        if isinstance(value, torch.Tensor) and value.is_leaf and value.requires_grad:
            key = id(value)
            found[name] = {"listed": key in brute._parameters, "had": brute.had[key], "steps": brute.fed[key]}
        elif isinstance(value, torch.nn.Module):
            for inner, parameter in value.named_parameters():
                add(f"{name}.{inner}", parameter, depth)
        elif depth < 2 and type(value).__module__ == "__main__":
            for inner, item in vars(value).items() if hasattr(value, "__dict__") else ():
                add(f"{name}.{inner}", item, depth + 1)

    for name, value in list(scope.items()):
        if not name.startswith("_"):
            add(name, value, 0)
    return found


def measure(path: str) -> dict[str, Any]:
    """Run a program under the second recorder."""
    import random

    import torch
    from torch.optim.optimizer import register_optimizer_step_pre_hook

    brute = Brute(path)
    tree = ast.parse(Path(path).read_text())
    loops = outermost(tree)
    for loop in loops:
        flag = f"_first_{loop.lineno}"
        begin = f"_brute.begins({loop.lineno}, globals().get({flag!r}, True)); globals()[{flag!r}] = False"
        loop.body[:0] = ast.parse(begin).body
        _after(tree, loop, ast.parse(f"globals()[{flag!r}] = True; _brute.ends({loop.lineno})").body)
    register_optimizer_step_pre_hook(brute.before_step)
    call = torch.autograd.backward
    torch.autograd.backward = lambda *args, **words: brute.backward(call, *args, **words)
    scope: dict[str, Any] = {"__name__": "__main__", "__file__": path, "_brute": brute}

    def trace(frame: Any, event: str, argument: Any) -> Any:
        if frame.f_code.co_filename != path:
            return None
        if event == "exception":
            brute.raised.add(frame.f_lineno)
        return trace

    random.seed(0)
    sys.settrace(trace)
    ended = ""
    try:
        exec(compile(ast.fix_missing_locations(tree), path, "exec"), scope)
    except BaseException as error:
        ended = f"{type(error).__name__}: {error}"[:200]
    sys.settrace(None)
    brute._cleared()
    return {
        "ended": ended, "levels": brute.levels, "raised": sorted(brute.raised), "stale": sorted(brute.stale),
        "discarded": brute.discarded, "used": brute.used, "names": _names(scope, brute),
        "grows": [line for line in brute.levels if brute.grows(line)],
        "always": [line for line in brute.levels if brute.grows_always(line)],
        "outermost": [loop.lineno for loop in loops], "walked": brute.walked,
    }  # fmt: skip


def _measure_all(paths: Sequence[str]) -> None:
    """Measure each program in a forked child of this process, into a file beside it."""
    import gc
    import signal
    import warnings

    import torch
    import torch._dynamo

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    gc.collect()
    gc.freeze()
    for path in paths:
        child = os.fork()
        if not child:
            try:
                sink = os.open(os.devnull, os.O_WRONLY)
                os.dup2(sink, 1)
                os.dup2(sink, 2)
                signal.alarm(SECONDS)
                Path(path).with_suffix(".json").write_text(json.dumps(measure(path)))
            finally:
                os._exit(0)
        os.waitpid(child, 0)


@dataclass(frozen=True)
class Against:
    """A verdict that the second recorder contradicts."""

    seed: int
    finding: Finding
    why: str

    def __str__(self) -> str:
        evidence = self.finding.evidence
        said = f"{evidence.verdict}: {evidence.detail}" if evidence is not None else ""
        return f"seed {self.seed}: line {self.finding.span.line} {self.finding.code} {said}\n    {self.why}"


def contradictions(finding: Finding, brute: dict[str, Any]) -> Iterator[str]:
    """Yield what the second recorder has against the verdict on a finding."""
    evidence = finding.evidence
    if evidence is None or evidence.verdict not in ("confirmed", "found-by-run", "refuted"):
        return
    positive = evidence.verdict != "refuted"
    lines = range(finding.span.line, max(finding.span.line, finding.span.end_line) + 1)
    named = [name for name in map(str, evidence.measured.get("parameters", ())) if name in brute["names"]]
    if finding.code in GROWING:
        loop = finding.facts.loop.line if finding.facts.loop is not None else 0
        if positive and str(loop) in brute["levels"] and loop not in brute["grows"]:
            yield f"the loop on line {loop} keeps no more: {brute['levels'][str(loop)]}"
        walked = [brute["walked"].get(str(line), []) for line in lines]
        longer = any(len(sizes) > 4 and sizes == sorted(set(sizes)) for sizes in walked)
        if not positive and loop in brute["always"] and (finding.code != GrowingChain.code or longer):
            yield f"each iteration of the loop on line {loop} keeps more: {brute['levels'][str(loop)]}"
    elif finding.code in RAISING:
        if positive and not set(lines) & set(brute["raised"]):
            yield f"nothing was raised there, but on lines {brute['raised']}"
    elif finding.code == "TAPE402":
        with_gradient = [name for name in named if brute["names"][name]["had"]]
        if positive and with_gradient:
            yield f"{with_gradient} had gradients at steps"
        if not positive and named and all(not brute["names"][name]["had"] for name in named):
            yield f"{named} never had a gradient"
    elif finding.code == "TAPE405":
        if positive and (listed := [name for name in named if brute["names"][name]["listed"]]):
            yield f"{listed} are in an optimizer"
    elif finding.code == "TAPE403":
        rows = {row for span in (finding.span, *beside(finding.facts)) for row in range(span.line, span.end_line + 1)}
        if positive != bool(rows & set(brute["stale"])):
            yield f"used gradients were added to on lines {brute['stale']}"
    elif finding.code == "TAPE404":
        if positive and not any(brute["discarded"].get(str(line)) for line in lines):
            yield f"cleared before a step was what these lines gave: {brute['discarded']}"
        if not positive and not any(brute["used"].get(str(line)) for line in lines):
            yield f"steps used what these lines gave: {brute['used']}"


def _seeded(program: str) -> str:
    """Return a program whose two runs take the same ways, where it asks `random` for them."""
    return program.replace("import random\n", "import random; random.seed(0)\n", 1)


def hold(seeds: Sequence[int], tally: Counter[str]) -> list[Against]:
    """Return the verdicts on generated programs that the second recorder contradicts."""
    found: list[Against] = []
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / f"p{seed}.py" for seed in seeds]
        findings: list[list[Finding]] = []
        for seed, path in zip(seeds, paths, strict=True):
            path.write_text(_seeded(longer(generate(seed))) + "\n")
            findings.append(check(read_source(str(path))).findings)
        requests = [
            (str(path), str(path.with_suffix(".jsonl")), _watched(mine))
            for path, mine in zip(paths, findings, strict=True)
        ]
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            pool.apply(_run_all, (requests,))
            pool.apply(_measure_all, ([str(path) for path in paths],))
        for seed, path, mine in zip(seeds, paths, findings, strict=True):
            if not path.with_suffix(".json").exists():
                tally["not measured"] += 1
                print(f"seed {seed}: not measured", flush=True)
                continue
            brute = json.loads(path.with_suffix(".json").read_text())
            with path.with_suffix(".jsonl").open() as file:
                tape = read_tape(file)
            end = tape.events[-1]
            if not isinstance(end, End) or (end.how == "raised") != bool(brute["ended"]):
                tally["ended in two ways"] += 1
                print(f"seed {seed}: {end}; by itself {brute['ended']!r}", flush=True)
                continue
            tally["programs"] += 1
            for finding in judge(mine, tape):
                if finding.evidence is not None:
                    tally[f"{finding.code} {finding.evidence.verdict}"] += 1
                found += [Against(seed, finding, why) for why in contradictions(finding, brute)]
    return found


def main() -> int:
    """Print the tally and every contradiction."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--batch", type=int, default=50)
    options = parser.parse_args()
    tally: Counter[str] = Counter()
    against: list[Against] = []
    last = options.first + options.programs
    for first in range(options.first, last, options.batch):
        for one in hold(range(first, min(first + options.batch, last)), tally):
            against.append(one)
            print(one, flush=True)
        print(f"up to seed {first + options.batch - 1}: {len(against)} against", flush=True)
    print(f"{len(against)} verdicts contradicted; {dict(sorted(tally.items()))}")
    return int(bool(against))


if __name__ == "__main__":
    sys.exit(main())
