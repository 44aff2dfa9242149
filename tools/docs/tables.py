"""The table of rules in the README, made from the rules: `python -m tools.docs.tables`.

What raises nothing comes first: PyTorch tells of the others itself, if late. `--check` writes nothing and exits with 1
where the table is not current.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from tapecheck.rules import ALL, Rule
from tapecheck.rules.pages import file_name

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
BEGIN, END = "<!-- rules: python -m tools.docs.tables -->", "<!-- end of rules -->"

_BETWEEN = re.compile(f"{re.escape(BEGIN)}\n.*?{re.escape(END)}", re.DOTALL)


def order(rule: Rule) -> tuple[bool, bool, str]:
    """Wrong results first, then what costs memory and time, then what raises."""
    return rule.raises, rule.code < "TAPE4", rule.code


def rules() -> str:
    """Return the table as Markdown."""
    rows = ["| rule | what it finds | PyTorch |", "|---|---|---|"]
    for rule in sorted(ALL, key=order):
        told = "raises, later" if rule.raises else "says nothing"
        rows.append(f"| [{rule.code}](docs/rules/{file_name(rule)}) {rule.name} | {rule.summary} | {told} |")
    return "\n".join(rows) + "\n"


def current(text: str) -> str:
    """Return the README's text with the table as it is now; raises ValueError where it has no place for one."""
    if not _BETWEEN.search(text):
        raise ValueError(f"no {BEGIN} in the text")
    return _BETWEEN.sub(lambda _: f"{BEGIN}\n{rules()}{END}", text)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Write the table of rules in the README.")
    parser.add_argument("--check", action="store_true", help="write nothing, say whether it is current")
    options = parser.parse_args(arguments)
    text = README.read_text(encoding="utf-8")
    wanted = current(text)
    if options.check:
        if text != wanted:
            sys.stderr.write("the table of rules in README.md is not current: run python -m tools.docs.tables\n")
        return int(text != wanted)
    README.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
