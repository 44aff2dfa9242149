"""Judge all variants of programs with measured truth: what is wrong, lost by splitting, changed by renaming, not safe.

    python -m tests.partial [FOLDER...] [--programs N] [--seed 0] [--no-fixes] [--list]

The exit status is 1 where an internal error ends an analysis.
"""

from __future__ import annotations

import argparse
import random
import sys
from pathlib import Path

from tests.cases import score
from tests.partial.judge import judge_all, parses


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path, default=[score.PROGRAMS])
    parser.add_argument("--programs", type=int, help="how many are drawn, all of them by default")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--no-fixes", dest="fixes", action="store_false", help="try no fixes under torch")
    parser.add_argument("--list", action="store_true", help="list all that is wrong")
    options = parser.parse_args()
    programs = [path for folder in options.folders for path in score.programs_in(folder) if parses(path)]
    if options.programs is not None:
        programs = random.Random(options.seed).sample(programs, min(options.programs, len(programs)))
    result = judge_all([(path, None) for path in programs], fixes=options.fixes)
    if options.list:
        print("\n".join(result.lines()))
    print(result.table())
    return int(any(one.failed for one in result.judged))


if __name__ == "__main__":
    sys.exit(main())
