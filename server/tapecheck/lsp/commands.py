"""What the client can have done: recorded runs, fixes tried by running them, pages of rules and of runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from lsprotocol import types as t
from pygls import uris

from tapecheck.lsp import features
from tapecheck.lsp.places import path_of
from tapecheck.lsp.running import RecordedRun

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tapecheck.lsp.host import Host
    from tapecheck.lsp.runs import RunOrder

RUN = "tapecheck.run"
_OWN = ("arguments", "cwd", "env", "launcher", "program")


_NONE: Mapping[str, int] = {"confirmed": 0, "refuted": 0, "notReached": 0, "found": 0}


@dataclass(frozen=True, slots=True)
class _Outcome:
    """How the run command went; `next` names what would help where nothing was looked at."""

    exit: int
    summary: str
    counts: Mapping[str, int] = field(default_factory=lambda: _NONE)
    next: str = ""

    def answer(self) -> dict[str, object]:
        return {"exit": self.exit, **self.counts, "summary": self.summary, "next": self.next}


class _Tried(TypedDict, total=False):
    """How trying a fix went."""

    ok: bool
    helped: bool
    summary: str
    markdown: str
    next: str


async def run(ls: Host, *arguments: object) -> dict[str, object]:
    """Run a file under the recorder and return counts and a summary.

    `[{"uri": …, "token"?: …, "arguments"?: […], "cwd"?: …, "env"?: {…}, "launcher"?: […], "program"?: …}]`: what is
    given stands in for the settings.
    """
    asked, uri = _asked(arguments)
    if not isinstance(uri, str):
        return _Outcome(2, _without(ls, RUN, "the uri of a file")).answer()
    path = path_of(uri)
    if path in ls.runs:
        return _Outcome(2, f"{Path(path).name} is already running").answer()
    async with _under_way(ls, path, asked, "running") as under_way:
        return await _record(ls, path, under_way, _own(asked))


async def _record(ls: Host, path: str, under_way: RecordedRun, own: Mapping[str, object]) -> dict[str, object]:
    from tapecheck.lsp.runs import RunRefused

    name = Path(path).name
    outcome = _Outcome(2, f"{name}: the run did not end")
    try:
        order = _order(ls, path, own, under_way)
        recording = await asyncio.get_running_loop().run_in_executor(
            ls.running,
            partial(ls.session.record, order, under_way.output, under_way.progress, under_way.stopped.is_set),
        )
        text = recording.outcome.text
        summary = text if text.startswith(f"{name} ") else f"{name}: {text}"
        if ls.session.edited_since(path, recording):
            summary += "; the file has changes that were not run"
        counts = {**recording.counts(), "backwards": recording.backwards}
        outcome = _Outcome(recording.exit, summary, counts, recording.outcome.next)
    except RunRefused as error:
        outcome = _Outcome(2, str(error), next=ls.session.refused(path, error).next)
    except Exception as error:
        if under_way.stopped.is_set():
            outcome = _Outcome(3, f"{name}: cancelled before the first iteration")
        else:
            failed = f"the run of {name} failed: {type(error).__name__}: {error}"
            outcome = _Outcome(2, failed)
            ls.session.refused(path, RunRefused(failed))
            ls.failed(f"could not run {path}", error)
    finally:
        under_way.end(outcome.summary)
        ls.log(outcome.summary)
        ls.refresh_all()
    _tell(ls, outcome.summary, outcome.exit, outcome.next)
    return outcome.answer()


def _without(ls: Host, command: str, what: str) -> str:
    """Say that a command needs arguments, which some editors let their users leave out; return that."""
    said = f"{command} needs {what}"
    ls.window_show_message(t.ShowMessageParams(t.MessageType.Error, f"Tapecheck: {said}; take a code action instead."))
    return said


_HINTS: Mapping[str, str] = {
    "arguments": "Set its arguments in `run.arguments`.",
    "program": "Set the program that uses it as `run` in the project's tapecheck.toml or pyproject.toml.",
    "interpreter": "Set the Python that has your torch as `interpreter`.",
}


def _tell(ls: Host, summary: str, exit_status: int, next_step: str) -> None:
    """Show how a run went in editors whose own side does not."""
    if "confirm" in ls.client.commands:
        return
    kinds = {0: t.MessageType.Info, 2: t.MessageType.Error}
    text = " ".join(part for part in (f"Tapecheck: {summary}.", _HINTS.get(next_step, "")) if part)
    ls.window_show_message(t.ShowMessageParams(kinds.get(exit_status, t.MessageType.Warning), text))


async def try_fix(ls: Host, *arguments: object) -> _Tried:
    """Run a file as it is and with the preferred fix of a finding, `[{"uri": …, "finding": [code, line, column]}]`.

    Further members are those of the run command. Answers `{"ok", "helped", "summary", "markdown"}`: whether both runs
    could be made, whether the fix did what it should, what was seen in a sentence, and both runs as a table.
    """
    from tapecheck.lsp.runs import RunRefused

    given = _finding_of(arguments)
    if given is None:
        return {"ok": False, "summary": _without(ls, "tapecheck.tryFix", "the uri of a file and a finding")}
    asked, uri, wanted = given
    path = path_of(uri)
    if path in ls.runs:
        return {"ok": False, "summary": f"{Path(path).name} is already running"}
    answer: _Tried = {"ok": False, "summary": "the run did not end"}
    async with _under_way(ls, path, asked, "trying a fix of") as under_way:
        try:
            order = _order(ls, path, _own(asked), under_way)
            tried = await asyncio.get_running_loop().run_in_executor(
                ls.running,
                partial(ls.session.try_fix, order, wanted, under_way.progress, under_way.stopped.is_set),
            )
            words = order.source.cells.words if order.source is not None and order.source.cells is not None else str
            summary = words(f"{tried.fix.title}: {tried.trial.text()}")
            text = words(tried.markdown())
            _show_comparison(ls, path, text)
            answer = {"ok": True, "helped": tried.helped, "summary": summary, "markdown": text}
        except RunRefused as error:
            answer["summary"], answer["next"] = str(error), error.next
        except Exception as error:
            if under_way.stopped.is_set():
                answer["summary"] = f"{under_way.name}: stopped"
            else:
                ls.failed(f"could not try a fix of {path}", error)
                answer["summary"] = f"the fix could not be tried: {type(error).__name__}: {error}"
        finally:
            under_way.end(answer["summary"])
            ls.log(answer["summary"])
            ls.refresh_all()
        helped = 0 if answer.get("helped") else 1
        _tell(ls, answer["summary"], helped if answer["ok"] else 2, answer.get("next", ""))
        return answer


def _show_comparison(ls: Host, path: str, text: str) -> None:
    """Show the page of a fix that was tried in clients that open files and do not show it themselves."""
    if "explain" not in ls.client.commands and ls.client.show_document:
        file = uris.from_fs_path(str(ls.page(f"{Path(path).stem}-fix.md", text))) or ""
        ls.spawn(ls.window_show_document_async(t.ShowDocumentParams(file, take_focus=True)))


async def comparison(ls: Host, *arguments: object) -> dict[str, object] | None:
    """Return what trying a fix has shown, the last time in a file or for a finding, `[{"uri": …, "finding"?: […]}]`.

    Answers `{"markdown", "finding"}`, with the finding as `tapecheck.applyFix` takes it; null where none was tried.
    """
    _, uri = _asked(arguments)
    if not isinstance(uri, str):
        return None
    program, given = ls.session.program(uri), _finding_of(arguments)
    tried = ls.session.trial(path_of(program), given[2] if given is not None else None)
    if tried is None:
        return None
    analysis = await ls.analysis(program)
    text = tried.markdown() if analysis is None else ls.converter.words(tried.markdown(), analysis)
    _show_comparison(ls, path_of(program), text)
    from tapecheck.lsp.session import identity

    return {"markdown": text, "finding": list(identity(tried.finding))}


@asynccontextmanager
async def _under_way(ls: Host, path: str, asked: object, doing: str) -> AsyncIterator[RecordedRun]:
    """Show a run of a file while it lasts, with its progress."""
    under_way = RecordedRun(ls, Path(path).name, doing, _member(asked, "token"), ls.protocol.msg_id)
    ls.runs[path] = under_way
    try:
        await under_way.begin()
        yield under_way
    finally:
        # A cancelled handler ends the program as well.
        under_way.stopped.set()
        del ls.runs[path]


def _order(ls: Host, path: str, own: Mapping[str, object], under_way: RecordedRun) -> RunOrder:
    """Return what is to be run, said in the log."""
    order = ls.session.order(path, [path_of(folder.uri) for folder in ls.workspace.folders.values()], own)
    from tapecheck.lsp import runs

    ls.log(f"running {' '.join(runs.command_line(order))} in {order.directory}")
    # What the interpreter is made of is asked beside the run: torch takes its time to import.
    ls.spawn(_tell_about(ls, order, under_way))
    return order


async def _tell_about(ls: Host, order: RunOrder, under_way: RecordedRun) -> None:
    told = await asyncio.get_running_loop().run_in_executor(ls.asking, ls.session.about, order.settings)
    if told:
        # A short run may be over by then: the log says it all the same.
        if not under_way.ended:
            under_way.with_what(told)
        ls.log(f"{order.name} is run by {told}")


def _own(asked: object) -> dict[str, object]:
    """Return what a request says that the settings would say otherwise."""
    own = {name: value for name in _OWN if (value := _member(asked, name)) is not None}
    if "env" in own and not isinstance(own["env"], dict):
        own["env"] = own["env"]._asdict()
    return own


async def apply_fix(ls: Host, *arguments: object) -> dict[str, object]:
    """Make the edits of a fix that was tried, `[{"uri": …, "finding": [code, line, column]}]`, as `tapecheck.tryFix`
    took them: in the text as it is now, where the fix still holds. Answers `{"ok", "summary"}`.
    """
    given = _finding_of(arguments)
    if given is None:
        return {"ok": False, "summary": _without(ls, "tapecheck.applyFix", "the uri of a file and a finding")}
    _, uri, wanted = given
    analysis = await ls.analysis(uri)
    if analysis is None:
        return {"ok": False, "summary": f"{Path(path_of(uri)).name} is not open"}
    found = ls.session.tried(analysis, wanted)
    if found is None:
        return {"ok": False, "summary": "the finding is not in the file any more"}
    finding, title = found
    fix = next((fix for fix in await ls.fixes(analysis, finding) if fix.title == title), None)
    edit = ls.converter.fix_edit(fix, analysis) if fix is not None else None
    if edit is None:
        return {"ok": False, "summary": "the fix does not hold in the file as it is now"}
    answer = await ls.workspace_apply_edit_async(t.ApplyWorkspaceEditParams(edit, label=title))
    return {"ok": answer.applied, "summary": title if answer.applied else answer.failure_reason or "it was refused"}


async def fix_file(ls: Host, *arguments: object) -> dict[str, object]:
    """Make all safe fixes of an open file, or of the notebook of a cell, `[{"uri": …}]`; say so where there are none.

    Answers `{"ok", "summary"}`. The code action `source.fixAll.tapecheck` makes the same edit and says nothing, as on
    save.
    """
    _, uri = _asked(arguments)
    if not isinstance(uri, str):
        return {"ok": False, "summary": _without(ls, "tapecheck.fixFile", "the uri of a file")}
    analysis = await ls.analysis(ls.session.program(uri))
    if analysis is None:
        return _not_fixed(ls, f"{Path(path_of(uri)).name} is not analysed, or was edited meanwhile")
    text = await ls.fix_all(analysis)
    edit = ls.converter.replacement(analysis, text) if text is not None else None
    if edit is None:
        edited = ls.session.outdated(analysis.snapshot)
        name = Path(analysis.snapshot.path).name
        return _not_fixed(ls, f"{name} was edited meanwhile" if edited else await ls.unfixed(analysis))
    answer = await ls.workspace_apply_edit_async(t.ApplyWorkspaceEditParams(edit, label="Fix all safe findings"))
    if not answer.applied:
        return _not_fixed(ls, f"the fixes were not made: {answer.failure_reason or 'the editor refused the edit'}")
    return {"ok": True, "summary": f"all safe fixes are made in {Path(analysis.snapshot.path).name}"}


def _not_fixed(ls: Host, summary: str) -> dict[str, object]:
    ls.window_show_message(t.ShowMessageParams(t.MessageType.Info, f"Tapecheck: {summary}."))
    return {"ok": False, "summary": summary}


async def run_report(ls: Host, *arguments: object) -> dict[str, object] | None:
    """Return the last run of a file as an HTML page, `[{"uri": …}]`: its text, for clients that show files opened
    there.
    """
    _, uri = _asked(arguments)
    text = await ls.off_loop(ls.session.run_report, path_of(str(uri)))
    if text is None:
        return None
    if "report" not in ls.client.commands:
        page = str(ls.page(f"{Path(path_of(str(uri))).stem}.html", text))
        if ls.client.show_document:
            shown = t.ShowDocumentParams(uris.from_fs_path(page) or "", external=True)
            ls.spawn(ls.window_show_document_async(shown))
        else:
            ls.window_show_message(t.ShowMessageParams(t.MessageType.Info, f"Tapecheck: the report is {page}"))
    return {"html": text}


async def show_graph(ls: Host, *arguments: object) -> dict[str, object] | None:
    """Return the graphs around a place, `[{"uri": …, "position": {"line", "character"}}]`, as `{"svg", "markdown",
    "measured", "files"}`.
    """
    asked = arguments[0] if arguments else None
    uri, position = _member(asked, "uri"), _member(asked, "position")
    line, character = _member(position, "line"), _member(position, "character")
    if not (isinstance(uri, str) and isinstance(line, int) and isinstance(character, int)):
        return None
    analysis = await ls.analysis(uri)
    if analysis is None:
        return None
    place = ls.converter.place(analysis, uri, t.Position(line, character))
    found = await ls.off_loop(ls.session.picture, analysis, *place)
    return {"svg": found.svg, "markdown": found.markdown, "measured": found.measured, "files": found.files}


async def use_tool(ls: Host, *arguments: object) -> dict[str, object]:
    """Call a tool for agents, `[{"tool": …, "input": "{…}", "folder"?: …}]`, and return its answer as `{"text": …}`.

    The files are taken as they are saved. What executes the user's program is asked of its user by the client.
    """
    from tapecheck.agents import call_tool

    asked = arguments[0] if arguments else None
    tool, given, folder = _member(asked, "tool"), _member(asked, "input"), _member(asked, "folder")
    call = partial(call_tool, str(tool), str(given), folder if isinstance(folder, str) else None)
    return {"text": await asyncio.get_running_loop().run_in_executor(ls.running, call)}


def explain_rule(ls: Host, *arguments: object) -> dict[str, object] | None:
    """Return the page of a rule: `[{"code": …}]`."""
    asked = arguments[0] if arguments else None
    return features.explain_rule(ls, asked if isinstance(asked, str) else _member(asked, "code"))


def cancel_progress(ls: Host, params: t.WorkDoneProgressCancelParams) -> None:
    for under_way in ls.runs.values():
        if under_way.token == params.token:
            under_way.stopped.set()


def _asked(arguments: Sequence[object]) -> tuple[object, object]:
    """Return what a command is asked for, and the uri of the file that it names, or is."""
    asked = arguments[0] if arguments else None
    return asked, asked if isinstance(asked, str) else _member(asked, "uri")


def _finding_of(arguments: Sequence[object]) -> tuple[object, str, Sequence[object]] | None:
    """Return what a command is asked for with the uri and the finding in it; None where it names none."""
    asked, uri = _asked(arguments)
    wanted = _member(asked, "finding")
    if not isinstance(uri, str) or not isinstance(wanted, (list, tuple)) or len(wanted) != 3:
        return None
    return asked, uri, wanted


def _member(value: object, name: str) -> Any:
    """Return a member of a JSON object, which pygls hands on as a dictionary or as an object."""
    return value.get(name) if isinstance(value, dict) else getattr(value, name, None)


ALL: Mapping[str, Callable[..., object]] = {
    RUN: run,
    "tapecheck.tryFix": try_fix,
    "tapecheck.applyFix": apply_fix,
    "tapecheck.fixFile": fix_file,
    "tapecheck.comparison": comparison,
    "tapecheck.runReport": run_report,
    "tapecheck.explainRule": explain_rule,
    "tapecheck.graph": show_graph,
    "tapecheck.tool": use_tool,
}
"""The commands by the names under which clients call them."""
