"""Programs changed at random, which must be checked without an error of Tapecheck's own.

    python -m tests.soak.mutation [--programs 20000] [--seed 1]

The programs of tests/cases lose, double and exchange tokens and lines, get others' lines and other indentation.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

from tapecheck.check import check
from tapecheck.source import from_text

PROGRAMS = Path(__file__).parents[1] / "cases" / "programs"
_TOKENS = re.compile(r"\w+|\s+|[^\w\s]")
_ODD = (
    "\x00",
    "\u00a0",
    "\x0c",
    "(",
    "'''",
    "\\",
    "lambda",
    "yield",
    "await",
    "*",
    ":=",
    "@",
    "-1",
    "1e400",
    "None",
    "...",
)


def mutated(text: str, others: Sequence[str], rng: random.Random) -> str:
    """Return a program with some changes made at random."""
    for _ in range(rng.choice((1, 1, 2, 3, 5))):
        text = rng.choice(_CHANGES)(text, others, rng)
    return text


def _lines(text: str, others: Sequence[str], rng: random.Random) -> str:
    lines = text.split("\n")
    at, other = rng.randrange(len(lines)), rng.randrange(len(lines))
    kind = rng.randrange(5)
    if kind == 0:
        del lines[at]
    elif kind == 1:
        lines.insert(other, lines[at])
    elif kind == 2:
        lines[at], lines[other] = lines[other], lines[at]
    elif kind == 3:
        lines.insert(at, rng.choice(rng.choice(others).split("\n")))
    else:
        lines[at] = rng.choice(("    ", "  ", "\t", "")) + lines[at].lstrip()
    return "\n".join(lines)


def _tokens(text: str, others: Sequence[str], rng: random.Random) -> str:
    tokens = _TOKENS.findall(text) or [""]
    at, other = rng.randrange(len(tokens)), rng.randrange(len(tokens))
    kind = rng.randrange(4)
    if kind == 0:
        del tokens[at]
    elif kind == 1:
        tokens.insert(other, tokens[at])
    elif kind == 2:
        tokens[at], tokens[other] = tokens[other], tokens[at]
    else:
        tokens[at] = rng.choice(_ODD)
    return "".join(tokens)


def _cut(text: str, others: Sequence[str], rng: random.Random) -> str:
    at = rng.randrange(len(text) + 1)
    return text[:at] if rng.random() < 0.5 else text[at:]


_CHANGES: tuple[Callable[[str, Sequence[str], random.Random], str], ...] = (
    _lines, _lines, _tokens, _tokens, _tokens, _cut,
)  # fmt: skip


def fuzz(programs: int, seed: int) -> tuple[list[str], float]:
    """Check mutated programs; return what failed, with the program's number, and the seconds of the slowest."""
    rng, failures, slowest = random.Random(seed), [], 0.0
    texts = [path.read_text(encoding="utf-8") for path in sorted(PROGRAMS.glob("*.py"))]
    for number in range(programs):
        text = mutated(rng.choice(texts), texts, rng)
        began = time.process_time()
        try:
            check(from_text(text, "mutated.py"))
        except Exception:
            failures.append(f"--seed {seed}, program {number}:\n{text}\n{traceback.format_exc()}")
        slowest = max(slowest, time.process_time() - began)
    return failures, slowest


def main() -> int:
    """Print the failures and how many programs were checked; the exit status says whether there are any."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, default=20_000, help="(default: 20000)")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    failures, slowest = fuzz(options.programs, options.seed)
    for failure in failures[:10]:
        print(failure)
    print(f"{options.programs} mutated programs: {len(failures)} failed, the slowest took {slowest:.1f} s of CPU")
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
