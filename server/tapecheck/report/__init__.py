"""What was found, for people (`text`) and for programs (`json`).

Renderers read findings and fixes only: they run no analysis and know nothing of tapes.
"""

from __future__ import annotations

from tapecheck.report.checked import Checked, Problem
from tapecheck.report.excerpt import Sources

__all__ = ["Checked", "Problem", "Sources"]
