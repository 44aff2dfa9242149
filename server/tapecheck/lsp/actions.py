"""Code actions: the fixes of a finding, and what else can be done about it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from lsprotocol import types as t

from tapecheck.lsp.places import overlap, path_of
from tapecheck.lsp.settings import SECTION

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tapecheck.fixes import Fix
    from tapecheck.lsp.evidence import Shown
    from tapecheck.lsp.host import Host
    from tapecheck.lsp.session import Analysis
    from tapecheck.rules.finding import Finding
    from tapecheck.source.suppress import Misspelt, Unused

FIX_ALL = "source.fixAll.tapecheck"
NOTEBOOK_FIX_ALL = f"notebook.{FIX_ALL}"
_EXPLAIN, _UNSAFE = "Explain", "(changes training)"
_BEFORE_COLON = re.compile(r"(?:[^`:]|`[^`]*`|:(?! ))+")
KINDS: list[t.CodeActionKind | str] = [t.CodeActionKind.QuickFix, FIX_ALL, NOTEBOOK_FIX_ALL]


async def code_action(ls: Host, params: t.CodeActionParams) -> list[t.CodeAction]:
    """Return quick fixes where a finding is, and where it is asked for the one action that makes all safe fixes."""
    analysis = await ls.analysis(ls.session.program(params.text_document.uri))
    if analysis is None:
        return []
    only = [str(getattr(kind, "value", kind)) for kind in params.context.only or []]
    actions: list[t.CodeAction] = []
    if not only or any(_asked(t.CodeActionKind.QuickFix.value, kind) for kind in only):
        actions += await _quick_fixes(ls, analysis, params)
    # An editor asks every cell for what is done on save, and would make the notebook's edits once for each.
    kind = FIX_ALL if analysis.snapshot.cells is None else NOTEBOOK_FIX_ALL
    if any(_asked(kind, wanted) for wanted in only):
        text = await ls.fix_all(analysis)
        edit = ls.converter.replacement(analysis, text) if text is not None else None
        if edit is not None:
            actions.append(t.CodeAction(title="Fix all safe Tapecheck findings", kind=kind, edit=edit))
    return actions


async def resolve_action(ls: Host, action: t.CodeAction) -> t.CodeAction:
    """Return the edit of an action that was offered without; none where the text is another one by now."""
    from tapecheck.lsp.session import identity

    data = action.data
    if action.edit is not None or not isinstance(data, dict):
        return action
    analysis = await ls.analysis(str(data.get("uri")))
    if analysis is None or analysis.digest != data.get("digest"):
        return action
    wanted = tuple(data.get("finding") or ())
    shown = next((one for one in ls.session.shown(analysis) if identity(one.finding) == wanted), None)
    if shown is None:
        return action
    finding = shown.finding
    what = data.get("disable")
    if isinstance(what, str):
        action.edit = _disabling(ls, analysis, finding, what)
        return action
    number = data.get("fix")
    mending = ls.session.mending(analysis, shown)
    fixes = await ls.fixes(mending, shown.static) if shown.static is not None else []
    if isinstance(number, int) and 0 <= number < len(fixes):
        action.edit = ls.converter.fix_edit(fixes[number], analysis)
    return action


async def _quick_fixes(ls: Host, analysis: Analysis, params: t.CodeActionParams) -> list[t.CodeAction]:
    safe: list[t.CodeAction] = []
    fixes: list[t.CodeAction] = []
    more: list[t.CodeAction] = []
    others: dict[str, list[str]] = {}
    given = [item for item in params.context.diagnostics if item.source == SECTION]

    def asked(location: t.Location, drawn: t.Diagnostic) -> bool:
        return location.uri == params.text_document.uri and overlap(drawn.range, params.range)

    for shown in ls.session.shown(analysis):
        location, drawn = ls.converter.diagnostic(shown, analysis, others)
        if asked(location, drawn):
            about = [item for item in given if item.code == drawn.code and item.range == drawn.range] or [drawn]
            found = await _fixes(ls, analysis, shown, about)
            safe += found[0]
            fixes += found[1]
            more += _more(ls, analysis, shown, about)
    for one in ls.session.unused(analysis):
        location, drawn = ls.converter.unused(one, analysis)
        if asked(location, drawn):
            safe.append(_without(ls, analysis, one, drawn))
    for misspelt in ls.session.misspelt(analysis):
        location, drawn = ls.converter.misspelt(misspelt, analysis)
        if misspelt.text and asked(location, drawn):
            more.insert(0, _respelt(ls, analysis, misspelt, drawn))
    return _in_order(safe, fixes, more)


def _in_order(safe: list[t.CodeAction], fixes: list[t.CodeAction], more: list[t.CodeAction]) -> list[t.CodeAction]:
    """Return safe fixes, others, and what is no fix; what opens a page leads where no fix is safe.

    Enter takes the first one: that must not be an edit that changes what is learned, nor a run.
    """
    first = [action for action in more if action.title.startswith(_EXPLAIN)] if fixes and not safe else []
    return [*safe, *first, *fixes, *(action for action in more if action not in first)]


async def _fixes(
    ls: Host, analysis: Analysis, shown: Shown, about: list[t.Diagnostic]
) -> tuple[list[t.CodeAction], list[t.CodeAction]]:
    """Return the safe fixes of a finding that hold, and beside them the unsafe ones with the offer to try one."""
    if shown.static is None:
        return [], []
    found = await ls.fixes(ls.session.mending(analysis, shown), shown.static)
    preferred = next((fix for fix in found if fix.applicability == "safe"), None)
    safe: list[t.CodeAction] = []
    actions: list[t.CodeAction] = []
    for number, fix in enumerate(found):
        action = t.CodeAction(
            title=ls.converter.words(fix.title if fix.applicability == "safe" else f"{fix.title} {_UNSAFE}", analysis),
            kind=t.CodeActionKind.QuickFix,
            diagnostics=about,
            is_preferred=True if fix is preferred else None,
        )
        if ls.client.action_resolve:
            action.data = _late(analysis, shown.finding, fix=number)
        else:
            action.edit = ls.converter.fix_edit(fix, analysis)
        if ls.client.action_resolve or action.edit is not None:
            (safe if fix.applicability == "safe" else actions).append(action)
    return safe, [*actions, *_confirm(ls, analysis, shown.static, found, about)]


def _confirm(
    ls: Host, analysis: Analysis, finding: Finding, fixes: Sequence[Fix], about: list[t.Diagnostic]
) -> Iterator[t.CodeAction]:
    """Yield the offer to try the best fix of a finding of the file's own, where there is one."""
    from tapecheck.lsp.session import best_of, identity

    tried = best_of(fixes)
    own = finding in analysis.report.findings
    if own and tried is not None and all(edit.span.file == analysis.snapshot.path for edit in tried.edits):
        # What the fix changes for training is said in its own line above.
        what = _BEFORE_COLON.match(tried.title)
        title = f"Confirm fix by running: {ls.converter.words(what.group() if what else tried.title, analysis)}"
        argument = {"uri": analysis.snapshot.uri, "finding": list(identity(finding))}
        name = ls.client.commands.get("tryFix", "tapecheck.tryFix")
        command = t.Command(title=title, command=name, arguments=[argument])
        yield t.CodeAction(title=title, kind=t.CodeActionKind.QuickFix, diagnostics=about, command=command)


def _more(ls: Host, analysis: Analysis, shown: Shown, about: list[t.Diagnostic]) -> list[t.CodeAction]:
    """Return what can be done about any finding: run it, read about it, switch it off."""
    from tapecheck.lsp.runs import clock
    from tapecheck.lsp.session import identity

    finding = shown.finding
    code = finding.code
    commands = ls.client.commands
    uri = analysis.snapshot.uri
    actions: list[t.CodeAction] = []

    def add(title: str, command: str, argument: object) -> None:
        called = t.Command(title=title, command=command, arguments=[argument])
        actions.append(t.CodeAction(title=title, kind=t.CodeActionKind.QuickFix, diagnostics=about, command=called))

    if finding.evidence is None or shown.stale:
        kind = "file" if analysis.snapshot.cells is None else "notebook"
        add(f"Confirm by running this {kind}", commands.get("confirm", "tapecheck.run"), {"uri": uri})
    trial = ls.session.trial_of(analysis, finding)
    if trial is not None:
        title = f"Show the comparison of the fix tried at {clock(trial.at)}"
        add(
            title,
            commands.get("comparison", "tapecheck.comparison"),
            {"uri": uri, "finding": list(identity(trial.finding))},
        )
    add(f"{_EXPLAIN} {code} ({finding.name})", commands.get("explain", "tapecheck.explainRule"), {"code": code})
    places = [("line", "for this line"), ("file", "in this file")]
    project = ls.session.disabling(analysis, finding, "project") if "disable" not in commands else None
    if project is not None:
        places.append(("project", f"in the project ({Path(project[0].file).name})"))
    for what, where in places:
        if what == "file" and analysis.snapshot.cells is not None:
            where = "in this notebook"
        action = t.CodeAction(title=f"Disable {code} {where}", kind=t.CodeActionKind.QuickFix, diagnostics=about)
        if ls.client.action_resolve:
            action.data = _late(analysis, finding, disable=what)
            actions.append(action)
        else:
            action.edit = _disabling(ls, analysis, finding, what)
            actions += [action] if action.edit is not None else []
    if "disable" in commands:
        add(f"Disable {code} {_settings_of(ls, analysis)}", commands["disable"], {"code": code, "uri": uri})
    return actions


def _settings_of(ls: Host, analysis: Analysis) -> str:
    """Return whose settings a client with folders of its own changes for a file."""
    folders = {path_of(folder.uri): folder.name for folder in ls.workspace.folders.values()}
    around = [path for path in folders if Path(path) in Path(analysis.snapshot.path).parents]
    if len(folders) > 1 and around:
        return f"in the folder {folders[max(around, key=len)]}"
    return "in the workspace" if folders else "in your settings"


def _disabling(ls: Host, analysis: Analysis, finding: Finding, what: str) -> t.WorkspaceEdit | None:
    edit = ls.session.disabling(analysis, finding, what)
    return ls.converter.workspace_edit([edit], analysis) if edit is not None else None


def _without(ls: Host, analysis: Analysis, one: Unused, drawn: t.Diagnostic) -> t.CodeAction:
    """Return the action that takes away what of a comment switches nothing off."""
    from tapecheck.tape import Span

    span = Span(analysis.report.source.path, one.line, one.start, one.line, one.end)
    return t.CodeAction(
        title=f"Remove {', '.join(one.names)} from the comment" if one.text.strip("#") else "Remove the comment",
        kind=t.CodeActionKind.QuickFix,
        diagnostics=[drawn],
        is_preferred=True,
        edit=ls.converter.workspace_edit([(span, one.text)], analysis),
    )


def _respelt(ls: Host, analysis: Analysis, one: Misspelt, drawn: t.Diagnostic) -> t.CodeAction:
    """Return the action that writes a comment as it is read."""
    from tapecheck.tape import Span

    span = Span(analysis.report.source.path, one.line, one.start, one.line, one.end)
    return t.CodeAction(
        title=f"Write `{one.text}`",
        kind=t.CodeActionKind.QuickFix,
        diagnostics=[drawn],
        edit=ls.converter.workspace_edit([(span, one.text)], analysis),
    )


def _late(analysis: Analysis, finding: Finding, **more: object) -> dict[str, object]:
    """Return what `codeAction/resolve` needs to make an action's edit."""
    from tapecheck.lsp.session import identity

    named = {"uri": analysis.snapshot.uri, "digest": analysis.digest, "finding": list(identity(finding))}
    return named | more


def _asked(kind: str, only: str) -> bool:
    """Return whether a kind is one of those that the client asked for: "source" asks for "source.fixAll.x" too."""
    return kind == only or kind.startswith(only + ".")
