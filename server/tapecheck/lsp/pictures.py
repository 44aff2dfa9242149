"""The graphs around a line, as a picture: of a run that is still true of the text, else of the dry run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tapecheck.report import Checked, graph, html

if TYPE_CHECKING:
    from tapecheck.check import Report
    from tapecheck.lsp.hover import Explainer
    from tapecheck.lsp.runs import Recording
    from tapecheck.report.drawn import Data


@dataclass(frozen=True, slots=True)
class Picture:
    """An SVG, what is known of the expression under the cursor as markdown, and the run that measured it, if any.

    `files` are the paths of the files whose numbers stand in the SVG's `data-at`.
    """

    svg: str
    markdown: str
    measured: str = ""
    files: list[str] = field(default_factory=list)


class Pictures:
    """Draws one file after the other; moving the cursor draws the same data again."""

    def __init__(self) -> None:
        self._of: object = None
        self._data: Data | None = None

    def draw(
        self, report: Report, explainer: Explainer, recording: Recording | None, place: tuple[int, int]
    ) -> Picture:
        """Return the picture for a place (line and column from 1); `recording` is a run of the very text."""
        found = explainer.hover(*place)
        measured = recording.page if recording is not None and recording.is_of(report.source.text) else None
        if self._data is None or self._of is not (measured or report):
            self._of = measured or report
            self._data = html.data_of(measured or _dry(report))
        when = f"run at {recording.clock}" if measured is not None and recording is not None else ""
        svg = graph.draw(self._data, around=(report.source.path, place[0]))
        files = [file["path"] for file in self._data["files"]]
        return Picture(svg, found.markdown if found is not None else "", when, files)


def _dry(report: Report) -> html.Run:
    tape, said = graph.chosen(report.interpretation.tapes)
    return html.Run(Checked(report.source.path, report.findings), tape, report.source, said)
