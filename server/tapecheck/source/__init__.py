"""Source text as the dry run reads it: decoded, split into lines as editors split them, parsed with recovery.

A syntax error does not end the analysis: the smallest run of whole statements around it is blanked out and the
rest is parsed, so that an edit in progress does not wipe the findings elsewhere.
"""

from __future__ import annotations

from tapecheck.source.read import read_source
from tapecheck.source.suppress import Suppressions, expects, suppressions
from tapecheck.source.text import MAX_BYTES, Source, SourceError, from_text, split_lines

__all__ = [
    "MAX_BYTES",
    "Source",
    "SourceError",
    "Suppressions",
    "expects",
    "from_text",
    "read_source",
    "split_lines",
    "suppressions",
]
