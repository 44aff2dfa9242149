"""Findings as the user sees them: with what the last recorded run said, as long as it says it of this code."""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tapecheck.check import is_suppressed, severity_of
from tapecheck.lsp.edits import line_map, moved_with
from tapecheck.lsp.runs import FixTrial, Recording, clock
from tapecheck.lsp.settings import Settings
from tapecheck.rules.finding import Evidence, Finding, Severity
from tapecheck.source import Source, from_text, suppressions
from tapecheck.source.project import Project

_CODE_KEPT = 8
_RAISED = re.compile(
    r"(?P<ranks>(?:on [^:]*: )?)raised(?: in iteration \d+)?"
    r"(?P<loop>(?: of the loop on (?:line |[^:]*:)\d+)?)(?P<caught> and caught)?"
    r"(?:: (?P<words>.*?)(?:; (?:`|what it saved).*)?$)?"
)
_LINE = re.compile(r"(?<=\bline )\d+")


@dataclass(frozen=True, slots=True)
class Shown:
    """A finding as the user sees it: with the evidence of a run in its message and its final severity.

    `static` is the finding as the dry run has it, None where only a run has shown it. `stale` says that the
    evidence is of code that has changed since. `uri` is the document whose check has found it, where that is another.
    """

    finding: Finding
    message: str
    severity: Severity
    static: Finding | None
    stale: bool = False
    uri: str = ""


class Evidences:
    """The last recorded run of each file, and what it shows about the file as it is now."""

    def __init__(self) -> None:
        self.recordings: dict[str, Recording] = {}
        self.trials: dict[str, dict[tuple[str, int], FixTrial]] = {}
        self._code: dict[str, str] = {}

    def shown(self, findings: Iterable[Finding], source: Source, settings: Settings, project: Project) -> list[Shown]:
        """Return the findings of a file with what was run of it, and the severities of its project and of the user."""
        trials = self._trials(source)
        return [
            dataclasses.replace(one, message=f"{one.message}\n{tried}")
            if (tried := trials.get((one.finding.code, one.finding.span.line)))
            else one
            for one in self._confirmed(findings, source, settings, project)
        ]

    def _trials(self, source: Source) -> dict[tuple[str, int], str]:
        """Return what trying the fixes of a file has shown, by rules and present lines."""
        told = {}
        for (code, line), tried in self.trials.get(source.path, {}).items():
            now = line_map(tried.text, source.text)(line)
            if now is not None:
                same = tried.text == source.text or self._code_of(tried.text) == _code(source)
                before = "" if same else " (before the last edits)"
                told[code, now] = f"fix tried at {clock(tried.at)}{before}: {tried.trial.text()}"
        return told

    def _confirmed(
        self, findings: Iterable[Finding], source: Source, settings: Settings, project: Project
    ) -> list[Shown]:
        recording = self.recordings.get(source.path)
        if recording is None:
            return [_show(finding, None, settings, project) for finding in findings]
        stale = self.is_stale(recording, source)
        moved = line_map(recording.text, source.text)
        evidence: dict[tuple[str, int], Evidence] = {}
        found: list[Finding] = []
        for finding in recording.findings:
            if finding.evidence is None or finding.span.file != source.path:
                continue
            line = moved(finding.span.line)
            if line is None:
                continue
            said = dataclasses.replace(finding.evidence, detail=_moved_words(finding.evidence.detail, moved))
            if said.verdict == "found-by-run":
                found.append(moved_with(dataclasses.replace(finding, evidence=said), moved))
            else:
                evidence[finding.code, line] = said
        current = list(findings)
        shown = [
            _show(finding, evidence.get((finding.code, finding.span.line)), settings, project, recording, stale)
            for finding in current
        ]
        known = {(finding.code, finding.span.line) for finding in current}
        off = suppressions(source)
        for finding in found:
            wanted = project.rules(settings.rules).wants(finding.code, finding.name)
            if (finding.code, finding.span.line) not in known and not is_suppressed(finding, off) and wanted:
                shown.append(_show(finding, finding.evidence, settings, project, recording, stale))
        return shown

    def is_stale(self, recording: Recording, source: Source) -> bool:
        """Return whether the code that was run has changed: comments and empty lines are no code, imported files
        are.
        """
        if recording.others_changed():
            return True
        if recording.is_of(source.text):
            return False
        return source.error is not None or self._code_of(recording.text) != _code(source)

    def _code_of(self, text: str) -> str:
        known = self._code.get(text)
        if known is None:
            while len(self._code) >= _CODE_KEPT:
                self._code.pop(next(iter(self._code)))
            known = self._code[text] = _code(from_text(text, ""))
        return known


def _code(source: Source) -> str:
    """Return what of a text Python executes, without its places."""
    try:
        return ast.dump(source.tree)
    except RecursionError:
        return source.text


def plainly(finding: Finding, static: Finding, settings: Settings, project: Project, uri: str = "") -> Shown:
    """Return a finding as it is shown without a run; `static` is the one to mend, `uri` the document that has it."""
    return dataclasses.replace(_show(finding, None, settings, project), static=static, uri=uri)


def _show(
    finding: Finding,
    evidence: Evidence | None,
    settings: Settings,
    project: Project,
    recording: Recording | None = None,
    stale: bool = False,
) -> Shown:
    static = None if evidence is not None and evidence.verdict == "found-by-run" else finding
    configured = severity_of(finding, project.of(finding.span.file).configuration)
    severity = settings.severity_of(finding.code, finding.name) or configured
    first, said = finding.message, ""
    if evidence is not None and recording is not None:
        finding = dataclasses.replace(finding, evidence=evidence)
        first, said = _with_verdict(first, evidence, recording.clock, stale)
        if evidence.verdict == "refuted" and not stale:
            severity = "hint"
        if evidence.verdict == "found-by-run" and stale:
            severity = "info"
    own = finding.label
    notes = (own.message if own is not None else "", *finding.notes)
    message = "\n".join(part for part in (first, *notes, finding.help and f"help: {finding.help}", said) if part)
    return Shown(finding, message, severity, static, stale and evidence is not None)


def _with_verdict(message: str, evidence: Evidence, clock: str, stale: bool) -> tuple[str, str]:
    """Return the headline with the verdict of a run behind it, and the line with the details of that run."""
    detail = evidence.detail.strip().partition("\n")[0]
    before = ", before the last edits" if stale else ""
    told = f"run: {detail}" if detail else ""
    if evidence.verdict == "not-reached":
        return f"{message} — not reached by the run at {clock}{before}", told
    if evidence.verdict == "refuted":
        return f"{message} — refuted by the run at {clock}{before}", told
    verdict = "confirmed" if evidence.verdict == "confirmed" else "found at run time"
    when = f" in iteration {evidence.iteration}" if evidence.iteration is not None else ""
    raised = _RAISED.match(detail)
    if raised is not None:
        when += raised["loop"]
    if raised is not None and raised["words"]:
        # In which iteration stands in the headline, and which lines have a part in it in the labels.
        told = f"run: {raised['ranks']}{raised['words']}{' (caught)' if raised['caught'] else ''}"
    how = "seen" if raised is None else "raised"
    return f"{message} — {verdict}: {how}{when}, {clock}{before}", told


def _moved_words(detail: str, moved: Callable[[int], int | None]) -> str:
    """Return what a run said with the present numbers of its lines, without clauses about lines that are gone."""

    def gone(clause: str) -> bool:
        return any(moved(int(number)) is None for number in _LINE.findall(clause))

    kept = "; ".join(clause for clause in detail.split("; ") if not gone(clause))
    return _LINE.sub(lambda found: str(moved(int(found.group()))), kept)
