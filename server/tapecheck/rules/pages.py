"""The rules' pages for the documentation, made from the docstrings and examples: `python -m
tapecheck.rules.pages`.

Writes one Markdown file for each rule and an index into docs/rules (or the folder given); with `--check` it
writes nothing and exits with 1 where a page is not current.
"""

from __future__ import annotations

import argparse
import inspect
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from tapecheck.rules import ALL
from tapecheck.rules.rule import Example, Rule

FOLDER = Path("docs/rules")

_PAGE = re.compile(r"tape\d+-[a-z-]+\.md")

_SEVERITIES = {
    "TAPE201": "warning or info",
    "TAPE401": "error or warning",
    "TAPE407": "warning or info",
    "TAPE501": "warning or info",
}
"""Rules whose severity follows what was found."""


def file_name(rule: Rule) -> str:
    """Return the page's file name, which the URL of a finding is made of."""
    return f"{rule.code.lower()}-{rule.name}.md"


def page(rule: Rule) -> str:
    """Return a rule's page as Markdown."""
    parts = [
        f"# {rule.name} ({rule.code})",
        f"{rule.summary}. Severity: {_SEVERITIES.get(rule.code, rule.severity)}.",
        inspect.cleandoc(rule.__doc__ or ""),
        "## Programs with this finding",
        *(_example(example, rule) for example in rule.INVALID),
        "## Programs without",
        *(_example(example, rule) for example in rule.VALID),
    ]
    return "\n\n".join(parts) + "\n"


def index() -> str:
    """Return the list of all rules as Markdown."""
    rows = [
        f"| [{rule.code}]({file_name(rule)}) | {rule.name} | {rule.summary} | "
        f"{_SEVERITIES.get(rule.code, rule.severity)} |"
        for rule in ALL
    ]
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


def _example(example: Example, rule: Rule) -> str:
    lines = example.program.rstrip("\n").split("\n")
    if example.line is not None:
        lines[example.line - 1] += f"  # {rule.code}"
    program = "\n".join(lines)
    text = f"### {example.title}\n\n```python\n{program}\n```"
    if example.raises is not None:
        text += f"\n\nPyTorch raises on line {example.line}: `{example.raises}`"
    return text


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
