"""`tapecheck explain`: the page of a rule, or the list of all rules."""

from __future__ import annotations

import difflib
import inspect

from tapecheck.cli.shared import NOTHING_FOUND, UsageError, write
from tapecheck.rules import ALL, Rule
from tapecheck.rules.finding import DOCS_URL


def explain_rule(name: str | None) -> int:
    """Print what a rule's page says; without a name, one line for each rule."""
    if name is None:
        write("".join(f"{rule.code}  {rule.name:<28} {rule.severity:<8} {rule.summary}\n" for rule in ALL))
        return NOTHING_FOUND
    found = next((rule for rule in ALL if name.lower() in (rule.code.lower(), rule.name)), None)
    if found is None:
        known = [known for rule in ALL for known in (rule.code, rule.name)]
        near = difflib.get_close_matches(name, known, 1)
        hint = f", did you mean {near[0]}?" if near else ": `tapecheck explain` lists them all"
        raise UsageError(f"no rule is called {name!r}{hint}")
    write(_page(found))
    return NOTHING_FOUND


def _page(rule: Rule) -> str:
    title = f"{rule.code} {rule.name} ({rule.severity})"
    parts = [title, "=" * len(title), "", inspect.getdoc(type(rule)) or rule.summary, ""]
    for heading, examples in (("Found", rule.INVALID), ("Not found", rule.VALID)):
        for example in examples:
            parts += [f"{heading}: {example.title}", ""]
            for number, line in enumerate(example.program.strip("\n").splitlines(), 1):
                mark = ">" if number == example.line else " "
                parts.append(f"  {mark} {line}".rstrip())
            if example.raises:
                parts += ["", f"    raises: {example.raises}"]
            parts.append("")
    parts.append(f"{DOCS_URL}{rule.code.lower()}-{rule.name}/")
    return "\n".join(parts) + "\n"
