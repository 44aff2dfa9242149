"""What the playground loads beside its scripts: Tapecheck's sources, and programs to choose from."""

from __future__ import annotations

import ast
from pathlib import Path

from tapecheck.rules import ALL

ROOT = Path(__file__).parents[2]
LEFT_OUT = ("cli", "record", "pytest_plugin.py", "report/page.html")
"""Parts of the package that nothing in a browser asks for."""


def sources() -> dict[str, str]:
    """Return the files that Python finds in the browser, by their paths."""
    package = ROOT / "server" / "tapecheck"
    found = {"analysis.py": (ROOT / "playground" / "analysis.py").read_text(encoding="utf-8")}
    for path in sorted(package.rglob("*")):
        place = path.relative_to(package)
        if path.suffix in (".py", ".json", ".html", ".md") and not place.as_posix().startswith(LEFT_OUT):
            found[f"tapecheck/{place.as_posix()}"] = path.read_text(encoding="utf-8")
    return found


def examples() -> list[dict[str, str]]:
    """Return the programs of examples/ and of the rules' pages, with the groups and titles that they are offered by."""
    found = []
    for path in sorted((ROOT / "examples").glob("*.py")):
        text = path.read_text(encoding="utf-8")
        title = (ast.get_docstring(ast.parse(text)) or path.stem).partition("\n")[0].rstrip(".")
        if path.name != "demo.py":
            found.append({"group": "Programs", "title": title, "program": text})
    # The one that the first pages speak of comes first.
    found.sort(key=lambda example: "GAN" not in example["title"])
    for rule in ALL:
        for kind, programs in (("", rule.page.invalid), ("no finding: ", rule.page.valid[:1])):
            for example in programs:
                title = f"{kind}{example.title}"
                found.append({"group": f"{rule.code} {rule.name}", "title": title, "program": example.program})
    return found
