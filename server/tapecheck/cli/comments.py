"""Comments that switch nothing off, as findings with the fix that takes them away."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tapecheck.check import BLANKET, INVALID, UNUSED, invalid_ignores, unused_ignores, why_unused
from tapecheck.fixes import Edit, Fix
from tapecheck.rules.finding import Finding
from tapecheck.source.suppress import Misspelt, Unused
from tapecheck.tape import Span

if TYPE_CHECKING:
    from tapecheck.check import Report
    from tapecheck.source.selection import Selection


def finding_of(one: Unused, path: str) -> Finding:
    """Return the finding that a comment, or a part of one, switches nothing off."""
    advice = "remove it; `tapecheck rule` lists the rules" if one.unknown else "remove it"
    return Finding(UNUSED, UNUSED, "hint", _span(one, path), why_unused(one), advice, unnecessary=True)


def fix_of(one: Unused, path: str) -> Fix:
    """Return the fix that takes the comment away, or what of it is unused."""
    what = "the unused part of the comment" if one.text not in ("", "#") else "the unused comment"
    return Fix(f"Remove {what}", "safe", (Edit(_span(one, path), one.text),), "")


def finding_of_misspelt(one: Misspelt, path: str) -> Finding:
    """Return the finding that a comment is not read as it was meant, or names no rule where it should."""
    code = BLANKET if one.blanket else INVALID
    return Finding(code, code, "warning", _span(one, path), one.message, one.help)


def fix_of_misspelt(one: Misspelt, path: str) -> Fix | None:
    """Return the fix of a comment that names no rule; one that is not read would hide what is found: it has none."""
    if not one.blanket or not one.text:
        return None
    return Fix("Name the rules that the comment switches off", "safe", (Edit(_span(one, path), one.text),), "")


def fixes_of_comments(report: Report, rules: Selection) -> list[tuple[str, int, Fix]]:
    """Return what is to be mended of a file's comments, in the order of the text: code, line, fix."""
    path = report.source.path
    found = [(one.line, one.start, UNUSED, fix_of(one, path)) for one in unused_ignores(report, rules=rules)]
    for wrong in invalid_ignores(report, rules=rules):
        fix = fix_of_misspelt(wrong, path)
        if fix is not None:
            found.append((wrong.line, wrong.start, BLANKET, fix))
    return [(code, line, fix) for line, _, code, fix in sorted(found, key=lambda one: one[:2])]


def _span(one: Unused | Misspelt, path: str) -> Span:
    return Span(path, one.line, one.start, one.line, one.end)
