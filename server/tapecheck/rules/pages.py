"""The rules' pages for the documentation, made from the page in each rule's folder: `python -m tapecheck.rules.pages`.

Writes one Markdown file for each rule and an index into docs/rules (or the folder given); with `--check` it
writes nothing and exits with 1 where a page is not current.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from tapecheck.rules import ALL
from tapecheck.rules.rule import Rule

FOLDER = Path("docs/rules")

_PAGE = re.compile(r"tape\d+-[a-z-]+\.md")


def file_name(rule: Rule) -> str:
    """Return the page's file name, which the URL of a finding is made of."""
    return f"{rule.code.lower()}-{rule.name}.md"


def page(rule: Rule) -> str:
    """Return a rule's page as Markdown, with its head."""
    head = f"# {rule.name} ({rule.code})\n\n{rule.summary}. Severity: {_severity(rule)}.\n\n"
    return head + rule.markdown


def index() -> str:
    """Return the list of all rules as Markdown."""
    rows = [f"| [{rule.code}]({file_name(rule)}) | {rule.name} | {rule.summary} | {_severity(rule)} |" for rule in ALL]
    text = (
        "Each page says what the finding is, why PyTorch behaves so, what to do, and what is no finding. The "
        "programs on them run as they stand; the tests check them against torch."
    )
    return "\n".join(
        ["# Rules", "", text, "", "| code | name | what it is | severity |", "|---|---|---|---|", *rows, ""]
    )


def pages() -> dict[str, str]:
    """Return all pages with the index, by file name."""
    return {"index.md": index(), **{file_name(rule): page(rule) for rule in ALL}}


def _severity(rule: Rule) -> str:
    return " or ".join(rule.severities or (rule.severity,))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Write the rules' pages.")
    parser.add_argument("folder", nargs="?", type=Path, default=FOLDER)
    parser.add_argument("--check", action="store_true", help="write nothing, say which pages are not current")
    options = parser.parse_args(arguments)
    wanted = pages()
    present = {path.name for path in options.folder.glob("*.md")} if options.folder.is_dir() else set()
    stale = [
        name
        for name, text in wanted.items()
        if name not in present or (options.folder / name).read_text(encoding="utf-8") != text
    ]
    # Pages of rules that are gone; whatever else lies in the folder is not ours.
    left = sorted(name for name in present - wanted.keys() if _PAGE.fullmatch(name))
    if options.check:
        for name in [*stale, *left]:
            sys.stderr.write(f"{options.folder / name} is not current: run python -m tapecheck.rules.pages\n")
        return 1 if stale or left else 0
    options.folder.mkdir(parents=True, exist_ok=True)
    for name in stale:
        (options.folder / name).write_text(wanted[name], encoding="utf-8")
    for name in left:
        (options.folder / name).unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
