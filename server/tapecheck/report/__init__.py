"""What was found, for people (`text`), for programs (`json`), and as a page of a recorded run (`html`).

Renderers run no analysis. Text and JSON read findings and fixes only, the page draws the tape of the run, too.
"""

from __future__ import annotations

from tapecheck.report.checked import Checked, Problem
from tapecheck.report.excerpt import Sources

__all__ = ["Checked", "Problem", "Sources"]
