"""Comments that switch nothing off, as findings with the fix that takes them away."""

from __future__ import annotations

from tapecheck.check import INVALID, UNUSED
from tapecheck.fixes import Edit, Fix
from tapecheck.rules.finding import Finding
from tapecheck.rules.words import join
from tapecheck.source.suppress import Misspelt, Unused
from tapecheck.tape import Span


def finding_of(one: Unused, path: str) -> Finding:
    """Return the finding that a comment, or a part of one, switches nothing off."""
    gone = [name for name in one.names if name not in one.unknown]
    parts = [f"{join(gone)} would report nothing here"] if gone else []
    parts += [f"there is no rule {join(one.unknown)}"] if one.unknown else []
    why = "; ".join(parts) or "nothing would be reported here"
    return Finding(
        UNUSED, UNUSED, "hint", _span(one, path), f"unused ignore comment: {why}", "remove it", unnecessary=True
    )


def fix_of(one: Unused, path: str) -> Fix:
    """Return the fix that takes the comment away, or what of it is unused."""
    what = "the unused part of the comment" if one.text not in ("", "#") else "the unused comment"
    return Fix(f"Remove {what}", "safe", (Edit(_span(one, path), one.text),), "")


def finding_of_misspelt(one: Misspelt, path: str) -> Finding:
    """Return the finding that a comment is not read as it was meant."""
    message = "ignore comment that is not read as it is written"
    return Finding(INVALID, INVALID, "warning", _span(one, path), message, f"write `{one.text}`")


def _span(one: Unused | Misspelt, path: str) -> Span:
    return Span(path, one.line, one.start, one.line, one.end)
