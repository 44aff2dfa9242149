"""What the client asks about an open document: diagnostics, hovers, lenses, hints, highlights, a rule's page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from lsprotocol import types as t
from pygls import uris

if TYPE_CHECKING:
    from tapecheck.lsp.host import Host
    from tapecheck.lsp.lenses import Lens
    from tapecheck.lsp.session import Analysis


async def diagnostic(ls: Host, params: t.DocumentDiagnosticParams) -> t.DocumentDiagnosticReport:
    uri = params.text_document.uri
    if ls.session.program(uri) != uri:
        # A cell's findings change with any other cell: those of notebooks are pushed.
        return t.RelatedFullDocumentDiagnosticReport(items=[])
    analysis, generation = None, -1
    while analysis is None and not ls.session.waits_for_save(uri):
        # An analysis that an edit or new settings have overtaken says nothing: an empty answer would look like one.
        document = ls.session.documents.get(uri)
        if document is None or document.generation == generation:
            break
        generation = document.generation
        analysis = await ls.analysis(uri)
    if analysis is None:
        if ls.session.analysable(uri) and params.previous_result_id is not None:
            return t.RelatedUnchangedDocumentDiagnosticReport(params.previous_result_id)
        return t.RelatedFullDocumentDiagnosticReport(items=[])
    # The generation also counts what was forgotten because a file that is imported changed.
    result = f"{analysis.digest}.{analysis.snapshot.generation}.{ls.revision}.{ls.session.brought_to(analysis)}"
    if params.previous_result_id == result:
        return t.RelatedUnchangedDocumentDiagnosticReport(result)
    return t.RelatedFullDocumentDiagnosticReport(items=ls.converter.diagnostics(analysis), result_id=result)


async def hover(ls: Host, params: t.HoverParams) -> t.Hover | None:
    analysis = await _analysis(ls, params)
    if analysis is None:
        return None
    place = ls.converter.place(analysis, params.text_document.uri, params.position)
    found = await ls.off_loop(ls.session.hover, analysis, *place)
    if found is None:
        return None
    return t.Hover(ls.converter.hover_text(found.markdown, analysis), ls.converter.at(found.span, analysis).range)


async def code_lens(ls: Host, params: t.CodeLensParams) -> list[t.CodeLens]:
    analysis = await _analysis(ls, params)
    if analysis is None:
        return []
    from tapecheck.tape import Span

    uri = params.text_document.uri
    lines = analysis.report.source.lines
    arguments = [{"uri": analysis.snapshot.uri}]
    found = []
    for lens in await ls.off_loop(ls.session.lenses, analysis):
        end = len(lines[min(lens.line, len(lines)) - 1]) + 1
        at = ls.converter.at(Span(analysis.snapshot.path, lens.line, 1, lens.line, end), analysis)
        if at.uri == uri:
            title = ls.converter.words(lens.title, analysis)
            command = t.Command(title=title, command=_command_of(ls, lens), arguments=arguments)
            found.append(t.CodeLens(at.range, command))
    return found


def _command_of(ls: Host, lens: Lens) -> str:
    """Return what a click on a lens does: what would help where the client can do that, else the run or its report."""
    run = ls.client.commands.get("confirm", "tapecheck.run")
    if lens.next:
        return ls.client.commands.get(lens.next, run)
    return run if lens.act == "run" else ls.client.commands.get("report", "tapecheck.runReport")


async def inlay_hint(ls: Host, params: t.InlayHintParams) -> list[t.InlayHint]:
    analysis = await _analysis(ls, params)
    if analysis is None:
        return []
    hints = []
    for span, text, told in await ls.off_loop(ls.session.inlays, analysis):
        location = ls.converter.at(span, analysis)
        end = location.range.end
        if location.uri == params.text_document.uri and params.range.start.line <= end.line <= params.range.end.line:
            tooltip = ls.converter.words(told, analysis)
            hints.append(t.InlayHint(position=end, label=text, padding_left=True, tooltip=tooltip))
    return hints


async def document_highlight(ls: Host, params: t.DocumentHighlightParams) -> list[t.DocumentHighlight] | None:
    analysis = await _analysis(ls, params)
    if analysis is None:
        return None
    uri = params.text_document.uri
    place = ls.converter.place(analysis, uri, params.position)
    marked = await ls.off_loop(ls.session.highlights, analysis, *place)
    kinds = {True: t.DocumentHighlightKind.Write, False: t.DocumentHighlightKind.Read}
    found = [(ls.converter.at(span, analysis), kinds[own]) for span, own in marked]
    # Nothing is another answer than an empty list: the editor then marks the word as it always does.
    return [t.DocumentHighlight(at.range, kind) for at, kind in found if at.uri == uri] or None


async def document_link(ls: Host, params: t.DocumentLinkParams) -> list[t.DocumentLink]:
    analysis = await _analysis(ls, params)
    if analysis is None:
        return []
    links = []
    for span, url in ls.session.links(analysis):
        at = ls.converter.at(span, analysis)
        if at.uri == params.text_document.uri:
            links.append(t.DocumentLink(at.range, target=url, tooltip="Open the page of this rule"))
    return links


def explain_rule(ls: Host, code: object) -> dict[str, object] | None:
    """Return the page of a rule: answered as markdown, and shown where the client can show a file."""
    from tapecheck.rules import ALL
    from tapecheck.rules.pages import file_name, page

    rule = next((rule for rule in ALL if code in (rule.code, rule.name)), None)
    if rule is None:
        return None
    name, text = file_name(rule), page(rule)
    if "explain" not in ls.client.commands:
        file = str(ls.page(name, text))
        if ls.client.show_document:
            shown = t.ShowDocumentParams(uris.from_fs_path(file) or "", take_focus=True)
            ls.spawn(ls.window_show_document_async(shown))
        else:
            said = f"Tapecheck: the page of {rule.code} is {file}"
            ls.window_show_message(t.ShowMessageParams(t.MessageType.Info, said))
    return {"code": rule.code, "name": rule.name, "markdown": text, "url": rule.url}


class _InDocument(Protocol):
    """Parameters of a request about a document."""

    @property
    def text_document(self) -> t.TextDocumentIdentifier: ...


async def _analysis(ls: Host, params: _InDocument) -> Analysis | None:
    return await ls.analysis(ls.session.program(params.text_document.uri))
