"""`tapecheck rule` (or `explain`): the pages of rules, or the list of all rules."""

from __future__ import annotations

import json
from collections.abc import Sequence

from tapecheck.check import BLANKET, INCOMPLETE, INVALID, UNUSED, unknown_rule
from tapecheck.cli.shared import NOTHING_FOUND, UsageError, write
from tapecheck.rules import ALL, Rule
from tapecheck.rules.pages import index, page

_NOTES = {
    UNUSED: "An ignore comment switches nothing off, or one of the rules that it names has no finding there. `--fix` "
    "removes it, of a `# noqa` the code alone.",
    INVALID: "A comment is addressed to Tapecheck and not read as it was meant: a misspelled `ignore`, rules without "
    "brackets, a name that no rule has. The message says what to write.",
    BLANKET: "A comment switches off every rule, and the project wants rules named (`require-codes`). `--fix` names "
    "those that have a finding there.",
    INCOMPLETE: "A work limit ended the analysis: mistakes may hide in what was not looked at. `--effort 4` looks "
    "further. It makes no command fail.",
}
"""What is said of the codes that are no rules: they are of comments, and of the analysis itself."""


def explain_rule(name: str | None, output_format: str = "text", *, everything: bool = False) -> int:
    """Print what a rule's page says; without a name the list of all rules, or all pages (`everything`).

    Raises UsageError for a rule that does not exist.
    """
    if name is not None and everything:
        raise UsageError("name a rule or give --all, not both")
    rules = [rule for rule in ALL if name is None or name.lower() in (rule.code.lower(), rule.name)]
    if rules:
        write(_told(rules, name, output_format, everything=everything))
    elif name in _NOTES and output_format != "json":
        write(f"{name}\n\n{_NOTES[name]}\n")
    else:
        raise UsageError(_no_rule(name or ""))
    return NOTHING_FOUND


def _told(rules: Sequence[Rule], name: str | None, output_format: str, *, everything: bool) -> str:
    """Return the page of the rule that was named, else the list of rules or all their pages."""
    if output_format == "json":
        rows = [_row(rule) for rule in rules]
        return json.dumps(rows if name is None else rows[0], indent=2) + "\n"
    if name is None and not everything:
        return _list_of(rules, output_format)
    return "\n".join(map(page, rules)) if output_format == "markdown" else "\n\n".join(map(_page, rules))


def _list_of(rules: Sequence[Rule], output_format: str) -> str:
    if output_format == "markdown":
        return index()
    return "".join(f"{rule.code}  {rule.name:<28} {rule.severity:<8} {rule.summary}\n" for rule in rules)


def _no_rule(name: str) -> str:
    """Return what is wrong with the name of no rule, with the rules that begin so, else the nearest one."""
    names = [known for rule in ALL for known in (rule.code, rule.name)]
    begun = [known for known in names if name and known.lower().startswith(name.lower())]
    if begun:
        return f"no rule is called {name!r}; did you mean {'one of ' if len(begun) > 1 else ''}{', '.join(begun)}?"
    return unknown_rule(name, ()) or ""


def _row(rule: Rule) -> dict[str, object]:
    return {
        "code": rule.code,
        "name": rule.name,
        "severity": rule.severity,
        "summary": rule.summary,
        "explanation": rule.page.text,
        "url": rule.url,
        "examples": [
            {
                "title": example.title,
                "program": example.program.strip("\n") + "\n",
                "found_on_line": example.line,
                "raises": example.raises,
            }
            for example in (*rule.page.invalid, *rule.page.valid)
        ],
    }


def _page(rule: Rule) -> str:
    title = f"{rule.code} {rule.name} ({rule.severity})"
    parts = [title, "=" * len(title), "", rule.page.text, ""]
    for heading, examples in (("Found", rule.page.invalid), ("Not found", rule.page.valid)):
        for example in examples:
            parts += [f"{heading}: {example.title}", ""]
            for number, line in enumerate(example.program.strip("\n").splitlines(), 1):
                mark = ">" if number == example.line else " "
                parts.append(f"  {mark} {line}".rstrip())
            if example.raises:
                parts += ["", f"    raises: {example.raises}"]
            parts.append("")
    parts.append(rule.url)
    return "\n".join(parts) + "\n"
