#!/usr/bin/env python3
"""Hold the verdict on `retain_graph=True` against reruns with that one flag off, over generated programs.

    python tests/record/retain.py --programs 1000

A retained call is needed exactly if the program raises without its flag. Programs share graphs, or parts of them,
between losses, call backward and grad in random order, take gradients with a graph and go on from them, on conditions,
in loops long enough for calls to be let pass, and carry losses over iterations.
"""

from __future__ import annotations

import argparse
import multiprocessing
import random
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

if __package__ in (None, ""):
    sys.path[:0] = [str(Path(__file__).parents[2]), str(Path(__file__).parents[2] / "server")]

from tapecheck.record import judge
from tapecheck.rules.finding import Finding
from tapecheck.tape import End, Span, read_tape
from tests.cases.recorded import _run_all

FLAG = "retain_graph=True"
LOSSES = {
    "shared": "(h * b).sum()",
    "square": "h.pow(2).mean()",
    "plain": "h.sum()",
    "apart": "(b * b).sum()",
    "scaled": "(2 * h).sum() + b.sum()",
    "linear": "(a + b).sum()",
    "both": "((h * b).exp() + k).sum()",
}


@dataclass(frozen=True)
class Program:
    """A text, and the lines whose calls retain."""

    text: str
    lines: tuple[int, ...]

    def without(self, line: int) -> str:
        """The text with the flag of one line off."""
        rows = self.text.split("\n")
        rows[line - 1] = rows[line - 1].replace(FLAG, "retain_graph=False")
        return "\n".join(rows)


def generate(seed: int) -> Program:
    """A random program, the same for the same seed."""
    dice = random.Random(seed)
    rows = ["import torch", "a = torch.ones(3, requires_grad=True)", "b = torch.full((3,), 0.5, requires_grad=True)"]
    rows += ["k = (a * 0.1).sin()" if dice.random() < 0.2 else "k = torch.zeros(3)", "kept = []"]
    rows.append(f"for step in range({dice.choice((1, 2, 3, 12, 30))}):")
    rows.append(f"    h = {dice.choice(('(a * 0.5).tanh()', 'a * 2', 'a + 1', '(a * b).exp()'))}")
    names = dice.sample(sorted(LOSSES), dice.randint(1, 4))
    rows += [f"    {name} = {LOSSES[name]}" for name in names]
    for _ in range(dice.randint(1, 5)):
        name, flag = dice.choice(names), dice.choice((FLAG, FLAG, ""))
        indent = "    "
        if dice.random() < 0.25:
            rows.append(f"    if step {dice.choice(('% 2 == 1', '% 7 == 6', '== 0', '> 9', '== 11', '== 28'))}:")
            indent = "        "
        way = dice.random()
        if way < 0.7:
            rows.append(f"{indent}{name}.backward({flag})")
        elif way < 0.8:
            rows.append(f"{indent}torch.autograd.grad({name}, [{dice.choice('ab')}], allow_unused=True, {flag})")
        elif way < 0.9:
            wanted = dice.choice(("a", "b", "h", "a, b", "h, a", f"{name}, h"))
            rows.append(f"{indent}g = torch.autograd.grad({name}, [{wanted}], allow_unused=True, create_graph=True)[0]")
            rows.append(f"{indent}if g is not None and g.requires_grad: (g * g).sum().backward({flag})")
        elif flag:
            rows.append(f"{indent}if kept: kept[-1].backward({flag})")
        else:
            rows.append(f"{indent}if kept: kept.pop().backward()")
    if dice.random() < 0.4:
        rows.append(f"    kept.append({dice.choice(names)})")
        if dice.random() < 0.7:
            rows.append("    del kept[:-2]")
    rows.append("")
    lines = tuple(number for number, row in enumerate(rows, 1) if FLAG in row)
    return Program("\n".join(rows), lines)


def raises(text: str) -> bool:
    """Whether a program raises under torch."""
    try:
        exec(compile(text, "<generated>", "exec"), {"__name__": "__main__"})
    except RuntimeError:
        return True
    return False


def programs(count: int, first: int = 0) -> list[Program]:
    """Generated programs that retain somewhere and run to their end."""
    found: list[Program] = []
    seed = first
    while len(found) < count:
        program = generate(seed)
        seed += 1
        if program.lines and not raises(program.text):
            found.append(program)
    return found


def wrong(found: list[Program], tally: Counter[str]) -> list[str]:
    """The verdicts of recorded runs that a rerun with the flag off contradicts."""
    problems = []
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / f"p{number}.py" for number in range(len(found))]
        requests = []
        for program, path in zip(found, paths, strict=True):
            path.write_text(program.text)
            rows = ",".join(map(str, program.lines))
            requests.append((str(path), str(path.with_suffix(".jsonl")), ["--watch", f"{path}:{rows}"]))
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            pool.apply(_run_all, (requests,))
        for program, path in zip(found, paths, strict=True):
            with path.with_suffix(".jsonl").open() as file:
                tape = read_tape(file)
            assert isinstance(tape.events[-1], End) and tape.events[-1].how == "finished", program.text
            claims = [
                Finding("TAPE301", "needless-retain-graph", "info", Span(str(path), line, 1, line, 80), "", "")
                for line in program.lines
            ]
            for line, claim in zip(program.lines, judge(claims, tape), strict=False):
                verdict = claim.evidence.verdict if claim.evidence is not None else "nothing said"
                needed = raises(program.without(line))
                truth = "needed" if needed else "needless"
                tally[f"{truth}, {verdict}"] += 1
                if (verdict == "confirmed" and needed) or (verdict == "refuted" and not needed):
                    problems.append(f"line {line} is {truth} and was {verdict}:\n{program.text}")
    return problems


def main() -> None:
    """Print the tally and every wrong verdict."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    options = parser.parse_args()
    tally: Counter[str] = Counter()
    problems = wrong(programs(options.programs, options.first), tally)
    print("\n\n".join(problems))
    print(f"{options.programs} programs: {len(problems)} wrong verdicts; {dict(sorted(tally.items()))}")


if __name__ == "__main__":
    main()
