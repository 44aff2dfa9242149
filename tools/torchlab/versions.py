"""Keep the facts of several versions of torch: ``python -m tools.torchlab.versions FACTS.json...``.

Each file is what ``python -m tools.torchlab.measure --out FILE`` measured. The newest of all becomes ``facts.json``; of
every other version what differs from it is written to ``versions/``. What was kept before is worked out anew where the
full table changes. Samples come from torch's own tests, too, and older versions have fewer: a row in which an input has
no graph that has one in the newest version is taken from that version, and said. Needs no torch.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tapecheck import torchfacts
from tapecheck.torchfacts.versions import SECTIONS, applied, release
from tools.torchlab.changes import changes
from tools.torchlab.text import dump

PACKAGE = Path(torchfacts.__file__).parent


def difference(base: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Return the rows in which a table is not another one, None for those that it lacks."""
    found: dict[str, Any] = {"torch": other["torch"]}
    for section in SECTIONS:
        before, after = base[section], other[section]
        rows = {name: row for name, row in after.items() if name not in before or before[name] != row}
        rows.update(dict.fromkeys(before.keys() - after.keys()))
        found[section] = rows
    return found


def narrower(newest: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the inputs that lead to a graph in one table and not in another, by the rows' "section.name"."""
    found: dict[str, list[str]] = {}
    for section in ("ops", "modules"):
        for name in other[section].keys() & newest[section].keys():
            missing = _inputs(resolved(newest[section], name)) - _inputs(resolved(other[section], name))
            if missing:
                found[f"{section}.{name}"] = sorted(missing)
    return found


def completed(newest: Mapping[str, Any], other: Mapping[str, Any], rows: Iterable[str]) -> dict[str, Any]:
    """Return a table with some rows, "section.name", taken from another one."""
    table = {key: dict(value) if isinstance(value, dict) else value for key, value in other.items()}
    for row in rows:
        section, _, name = row.partition(".")
        table[section][name] = resolved(newest[section], name)
    return table


def resolved(table: Mapping[str, Any], name: str) -> Any:
    """Return a row, the one it refers to where it is the same as another's."""
    row = table[name]
    while isinstance(row, str):
        row = table[row]
    return row


def _inputs(row: Any) -> set[str]:
    if isinstance(row, dict):
        own = {name for name in row.get("inputs", ()) if isinstance(name, str)} if "inputs" in row else set()
        return own.union(*(_inputs(value) for key, value in row.items() if key != "inputs"))
    return set().union(*map(_inputs, row)) if isinstance(row, list) else set()


def kept(package: Path) -> dict[str, Mapping[str, Any]]:
    """Return the whole tables that lie in a package, by version."""
    base: Mapping[str, Any] = json.loads((package / "facts.json").read_text(encoding="utf-8"))
    tables = {str(base["torch"]): base}
    for path in sorted((package / "versions").glob("*.json")):
        tables[path.stem] = applied(base, json.loads(path.read_text(encoding="utf-8")))
    return tables


def keep(tables: Mapping[str, Mapping[str, Any]], package: Path) -> None:
    """Write tables into a package: the newest as it is, of the others what differs from it."""
    newest = max(tables, key=lambda version: release(version) or (0, 0, 0))
    (package / "facts.json").write_text(dump(tables[newest]), encoding="utf-8")
    folder = package / "versions"
    folder.mkdir(exist_ok=True)
    for path in folder.glob("*.json"):
        path.unlink()
    for version, table in tables.items():
        if version != newest:
            (folder / f"{version}.json").write_text(dump(difference(tables[newest], table)), encoding="utf-8")
    if not any(folder.iterdir()):
        folder.rmdir()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="tools.torchlab.versions", description="Keep measured facts by version.")
    parser.add_argument("files", nargs="+", type=Path, metavar="FACTS.json")
    parser.add_argument("--package", type=Path, default=PACKAGE, help="where they are kept (default: the package)")
    options = parser.parse_args(arguments)
    tables = kept(options.package)
    for file in options.files:
        table = json.loads(file.read_text(encoding="utf-8"))
        if release(table["torch"]) is None:
            parser.error(f"{file}: {table['torch']!r} is no version")
        tables[table["torch"]] = table
    newest = max(tables, key=lambda version: release(version) or (0, 0, 0))
    for version, table in tables.items():
        for row, inputs in sorted(narrower(tables[newest], table).items()) if version != newest else ():
            sys.stdout.write(f"{version}: {row} as in {newest}: nothing measured of {', '.join(inputs)}\n")
            tables[version] = completed(tables[newest], tables[version], [row])
    keep(tables, options.package)
    for version, table in sorted(tables.items(), key=lambda item: release(item[0]) or (0, 0, 0)):
        count = sum(1 for _ in changes(table, tables[newest]))
        sys.stdout.write(f"{version}: {count} changes to {newest}\n" if version != newest else f"{version}: in full\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
