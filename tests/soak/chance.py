"""The tests that Hypothesis draws the input of, with other input each round.

    python -m tests.soak.chance [--rounds 10] [--seed N] [pytest's arguments]

In `make test` they draw the same input for everybody, so that a change is not refused for what it has not touched.
A failure prints the seed that repeats it.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parents[1]


def drawn() -> list[str]:
    """Return the files with tests that Hypothesis draws the input of."""
    return sorted(str(path) for path in TESTS.rglob("test_*.py") if "from hypothesis import" in path.read_text())


def main() -> int:
    """Run the rounds; the exit code counts those that failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000), help="that of the first round")
    given, rest = parser.parse_known_args()
    failed = 0
    for seed in range(given.seed, given.seed + given.rounds):
        print(f"round {seed - given.seed + 1} of {given.rounds}, seed {seed}", flush=True)
        command = [sys.executable, "-m", "pytest", "-q", "-m", "hypothesis", *drawn(), *rest]
        failed += subprocess.call([*command, "--hypothesis-profile=chance", f"--hypothesis-seed={seed}"]) != 0
    print(f"{failed} of {given.rounds} rounds failed")
    return min(failed, 100)


if __name__ == "__main__":
    sys.exit(main())
