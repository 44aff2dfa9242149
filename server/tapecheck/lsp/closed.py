"""What is known of the files that are not open."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from lsprotocol import types as t

from tapecheck.lsp.document import Document


@dataclass(frozen=True, slots=True)
class Known:
    """What one closed file came to: `imports` are the files that it was judged by."""

    state: str
    diagnostics: list[t.Diagnostic]
    imports: frozenset[str] = frozenset()


@dataclass(slots=True)
class ClosedFiles:
    """What is known of closed files, and whether anything has happened since it was told."""

    changed: asyncio.Event = field(default_factory=asyncio.Event)
    known: dict[str, Known] = field(default_factory=dict)
    closed: set[str] = field(default_factory=set)
    """Documents closed since the client was notified of them: it leaves their last diagnostics standing until then."""

    def importers(self, document: Document | None) -> bool:
        """Return whether a closed file imports an open one."""
        return document is not None and any(document.path in one.imports for one in self.known.values())
