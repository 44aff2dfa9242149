"""The tables that are made from what they tell of: `python -m tools.docs.tables`.

That of rules in the README: what raises nothing comes first, since PyTorch tells of the others itself, if late. That of
measured versions of torch in docs/usage.md. `--check` writes nothing and exits with 1 where a table is not current.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tapecheck.rules import ALL, Rule
from tapecheck.rules.pages import file_name
from tapecheck.torchfacts.versions import release
from tools.docs import wrappers
from tools.torchlab.changes import changes
from tools.torchlab.versions import PACKAGE, kept

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
USAGE = ROOT / "docs" / "usage.md"
WRAPPERS = ROOT / "docs" / "wrappers.md"
_NAMED = 6
_WITHOUT_EFFECT = ("nodes", "samples", "kinds.", "params", "defaults.", "keyword_only")
"""Fields of a fact that say how an op is called or its node is named, not what it does to the graph."""


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


def versions() -> str:
    """Return the table of measured versions, the newest first: what each does otherwise than the newest, and lacks."""
    tables = kept(PACKAGE)
    newest, *others = sorted(tables, key=lambda version: release(version) or (0, 0, 0), reverse=True)
    rows = ["| torch | other effects on graphs than " + newest + " | not measured of it |", "|---|---|---|"]
    rows.append(f"| {newest} | | |")
    for version in others:
        told = list(_told(tables[newest], tables[version]))
        rows.append(f"| {version} | {_names(told, 'changed')} | {_names(told, 'removed')} |")
    return "\n".join(rows) + "\n"


def _told(newest: Mapping[str, Any], other: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield what a version does otherwise: "changed" or "removed" with the name of the op, layer or optimizer."""
    for line in changes(newest, other):
        what, name, *field = line.split(": ", 1)[0].split(" ")
        if what in ("changed", "removed") and not (field and field[-1].startswith(_WITHOUT_EFFECT)):
            section, _, name = name.partition(".")
            yield (
                what,
                {"ops": name, "general": name}.get(section, f"nn.{name}" if section == "modules" else f"optim.{name}"),
            )


def _names(told: Sequence[tuple[str, str]], wanted: str) -> str:
    names = list(dict.fromkeys(name for what, name in told if what == wanted))
    listed = ", ".join(f"`{name}`" for name in names[:_NAMED])
    return f"{listed} and {len(names) - _NAMED} more" if len(names) > _NAMED else listed


TABLES: Mapping[Path, tuple[str, Callable[[], str]]] = {
    README: ("rules", rules),
    USAGE: ("versions", versions),
    WRAPPERS: ("wrappers", wrappers.tables),
}


def current(text: str, path: Path = README) -> str:
    """Return a page's text with its table as it is now; raises ValueError where it has no place for one."""
    name, table = TABLES[path]
    begin, end = f"<!-- {name}: python -m tools.docs.tables -->", f"<!-- end of {name} -->"
    between = re.compile(f"{re.escape(begin)}\n.*?{re.escape(end)}", re.DOTALL)
    if not between.search(text):
        raise ValueError(f"no {begin} in the text")
    return between.sub(lambda _: f"{begin}\n{table()}{end}", text)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Write the tables of rules and of versions.")
    parser.add_argument("--check", action="store_true", help="write nothing, say whether it is current")
    options = parser.parse_args(arguments)
    status = 0
    for path in TABLES:
        text = path.read_text(encoding="utf-8")
        wanted = current(text, path)
        if not options.check:
            path.write_text(wanted, encoding="utf-8")
        elif text != wanted:
            sys.stderr.write(f"the table in {path.name} is not current: run python -m tools.docs.tables\n")
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
