"""Quick fixes that hold: strategies propose edits, and only those that the analysis approves of are offered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tapecheck.fixes.edit import Edit, Fix

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tapecheck.check import Report
    from tapecheck.fixes.candidate import Candidate, Context
    from tapecheck.fixes.verify import Check
    from tapecheck.rules.finding import Finding

MAX_FIXES = 3
MAX_TRIES = 12
TRIES_FOR_MORE = 5
"""How many candidates are still tried once a first fix has held: each costs one analysis of the file."""
LONG = 4000
"""Events on the tapes from which a program counts as long (about 1,000 lines): half as many candidates are tried."""

__all__ = ["LONG", "MAX_FIXES", "MAX_TRIES", "TRIES_FOR_MORE", "Edit", "Fix", "fixes_for"]


def fixes_for(
    report: Report,
    finding: Finding,
    *,
    check: Check | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> list[Fix]:
    """Return the fixes of a finding that hold, preferred first: safe ones, then those that change training least.

    A fix holds when the edited source no longer has this finding and has no new one; what only an exception kept
    from showing before is none of the fix's doing. `check` analyses an edited
    source, `tapecheck.check.check` where none is given. `cancelled` is asked during the analyses; once it returns
    True they raise `interpret.Cancelled`.
    """
    from tapecheck.fixes.candidate import Context
    from tapecheck.fixes.code import Code
    from tapecheck.fixes.verify import Verifier

    if check is None:
        from functools import partial

        from tapecheck import check as checking

        # The edits of a fix leave most of a file as it was.
        check = partial(checking.check, cancelled=cancelled, memory=checking.Memory())
    long = sum(len(tape.events) for tape in report.interpretation.tapes) > LONG
    verifier = Verifier(report, finding, check, MAX_TRIES // 2 if long else MAX_TRIES)
    context = Context(report, finding, Code(report.source))
    found: list[Fix] = []
    groups: set[str] = set()
    for candidate in _candidates(context):
        if len(found) >= MAX_FIXES or verifier.left <= 0:
            break
        if candidate.group in groups or (candidate.fallback and found):
            continue
        fix = verifier.fix(candidate)
        # Who chooses among fixes reads their titles: what reads the same is offered once.
        if fix is not None and all(fix.title != other.title for other in found):
            if not found:
                verifier.left = min(verifier.left, TRIES_FOR_MORE // 2 if long else TRIES_FOR_MORE)
            found.append(fix)
            if candidate.group:
                groups.add(candidate.group)
    # Stable: among equals the order of the strategies stands.
    found.sort(key=lambda fix: fix.applicability != "safe")
    return found


def _candidates(context: Context) -> Iterator[Candidate]:
    from tapecheck.fixes.strategies import FOR

    for strategy in FOR.get(context.finding.code, ()):
        yield from strategy(context)
