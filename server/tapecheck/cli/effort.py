"""What is said where trying all fixes of a file would take too long."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tapecheck.report.checked import SEVERITIES, Incomplete

if TYPE_CHECKING:
    from tapecheck.fixes import Effort
    from tapecheck.rules.finding import Finding


def errors_first(findings: Iterable[Finding]) -> list[Finding]:
    """Return findings in the order in which their fixes are tried: where not all can be, those that matter most."""
    return sorted(findings, key=lambda finding: SEVERITIES.index(finding.severity))


def untried(effort: Effort, count: int) -> list[Incomplete]:
    """Return what is said of findings whose fixes were not tried, of so many in a file."""
    if not effort.untried:
        return []
    message = (
        f"not every fix was tried for {len(effort.untried)} of {count} findings, which would take too long; an editor "
        "tries those of one finding at a time, `--select` narrows what is tried"
    )
    return [Incomplete(message, min(finding.span.line for finding in effort.untried))]
