"""Half-typed code in programs with findings: what an unfinished line costs the rest.

    python -m tests.soak.half_typed [--trials 1000] [--seed 1] [--losses]

Each trial types one unfinished line at a random place of a program of tests/cases, indented as the next line is, and
compares the findings that the editor shows with those of the whole program, which was analysed before. A finding is
kept when its rule still stands on its line.
"""

from __future__ import annotations

import argparse
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tapecheck.lsp.session import Session
from tapecheck.source import split_lines

PROGRAMS = Path(__file__).parents[1] / "cases" / "programs"
HEADERS = (
    "for i in y:", "for i, (a, b) in enumerate(", "while True:", "while not done:", "if x:", "if x", "elif x:", "else:",
    "with torch.no_grad():", "with open(name", "try:", "def step(self, batch):", "def step(self,", "class Net(Module):",
    "class Net", "@torch.no_grad()", "@property", "async def f():", "match x:", "case 1:", "lambda x:",
)  # fmt: skip
SIMPLE = (
    "loss =", "loss = model(", "x = [", "x.", "from torch import", "import", "return (", "del", "y = x +", "f'{x",
    "model(x, ", "x = y[", "print(\"", "assert", "raise Error(", "foo bar", "x = = 1", "\u3000", "\u00a0\u00a0", "\x85",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Trial:
    """One unfinished line in one program: the findings of the whole program that are gone, and those that are new."""

    program: str
    line: int
    text: str
    gone: tuple[tuple[str, int], ...]
    new: tuple[tuple[str, int], ...]


def shown(session: Session, text: str) -> Counter[tuple[str, int]]:
    """Return what an editor's session shows of a program by rule and line, after what it has shown before."""
    uri = "file:///program.py"
    if uri in session.documents:
        session.documents[uri].replace(text, None)
    else:
        session.open(uri, "program.py", text, None)
    snapshot = session.snapshot(uri)
    assert snapshot is not None
    analysis = session.analyse(snapshot)
    assert analysis is not None
    return Counter((one.finding.code, one.finding.span.line) for one in session.shown(analysis))


def tried(path: Path, rng: random.Random, texts: tuple[str, ...], times: int) -> Iterator[Trial]:
    """Yield trials of one program; none where it has no findings to lose."""
    text = path.read_text(encoding="utf-8")
    lines = split_lines(text)
    session = Session()
    whole = shown(session, text)
    for _ in range(times if whole else 0):
        at, typed = rng.randrange(len(lines)), rng.choice(texts)
        following = next((line for line in lines[at:] if line.strip()), "")
        indent = following[: len(following) - len(following.lstrip())]
        shown(session, text)
        changed = shown(session, "\n".join([*lines[:at], f"{indent}{typed}", *lines[at:]]))
        moved = Counter({(code, line + (line > at)): number for (code, line), number in whole.items()})
        yield Trial(path.name, at + 1, typed, tuple((moved - changed).elements()), tuple((changed - moved).elements()))


def trials(number: int, seed: int, texts: tuple[str, ...]) -> Iterator[Trial]:
    """Yield some trials, spread over the programs with findings."""
    rng = random.Random(seed)
    paths = sorted(path for path in PROGRAMS.glob("*.py") if not path.name.endswith(".fixed.py"))
    rng.shuffle(paths)
    each = max(1, number // len(paths))
    made = 0
    while made < number:
        for path in paths:
            for trial in tried(path, rng, texts, min(each, number - made)):
                made += 1
                yield trial


def main() -> None:
    """Print how many trials keep all findings, for headers and for simple statements."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=1000, help="of each kind (default: 1000)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--losses", action="store_true", help="print each trial that loses or makes findings")
    options = parser.parse_args()
    for name, texts in (("headers", HEADERS), ("simple statements", SIMPLE)):
        kept = whole = clean = 0
        by_text: Counter[str] = Counter()
        for trial in trials(options.trials, options.seed, texts):
            whole += 1
            kept += not trial.gone
            clean += not trial.new
            if trial.gone or trial.new:
                by_text[trial.text] += 1
                if options.losses:
                    print(f"  {trial.program}:{trial.line}: {trial.text!r} gone {trial.gone} new {trial.new}")
        print(f"{name}: {kept} of {whole} keep every finding, {clean} make no new one")
        print("  " + ", ".join(f"{text!r} {number}" for text, number in by_text.most_common()))


if __name__ == "__main__":
    main()
