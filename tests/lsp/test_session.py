"""The session without any protocol: settings, caches, evidence of runs, lenses, fixes."""

from __future__ import annotations

import dataclasses
import re
import time
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

from tapecheck.check import check as real_check
from tapecheck.fixes import Edit, Fix
from tapecheck.interpret import Cancelled
from tapecheck.lsp.hover import Explainer
from tapecheck.lsp.outcome import Outcome
from tapecheck.lsp.pictures import Pictures
from tapecheck.lsp.runs import Recording
from tapecheck.lsp.session import Analysis, Session, apply_edits
from tapecheck.lsp.settings import Settings, read_settings
from tapecheck.report import Checked, html
from tapecheck.rules.finding import Evidence, Finding
from tapecheck.source import from_text
from tapecheck.tape import Span
from tests.lsp import fake_server

URI = "file:///train.py"
PATH = "/train.py"
TWICE = "import torch\nloss.backward()\nloss.backward()\n"


def analysed(session: Session, text: str, uri: str = URI) -> Analysis:
    session.open(uri, uri.removeprefix("file://"), text, 1)
    return again(session, uri)


def again(session: Session, uri: str = URI) -> Analysis:
    snapshot = session.snapshot(uri)
    assert snapshot is not None
    analysis = session.analyse(snapshot)
    assert analysis is not None
    return analysis


@pytest.fixture
def session() -> Session:
    return Session(check=fake_server.check, fixes_for=fake_server.fixes_for)  # type: ignore[arg-type]


def with_evidence(findings: list[Finding], evidence: Evidence) -> list[Finding]:
    return [dataclasses.replace(finding, evidence=evidence) for finding in findings]


CONFIRMED = Evidence("confirmed", "raised at iteration 2", 2)
REFUTED = Evidence("refuted", "the line ran 20 times and did not raise", None, {"runs": 20})


def test_a_text_seen_before_is_not_analysed_again() -> None:
    calls: list[str] = []

    def counting(source, /, **more):  # type: ignore[no-untyped-def]
        calls.append(source.text)
        return fake_server.check(source, **more)

    session = Session(check=counting)  # type: ignore[arg-type]
    analysed(session, TWICE)
    session.documents[URI].replace("# x\n" + TWICE, 2)
    again(session)
    session.documents[URI].replace(TWICE, 3)
    assert len(again(session).report.findings) == 1
    assert len(calls) == 2
    session.configure(Settings(ignore=("TAPE101",)))
    assert again(session).report.findings == []
    assert len(calls) == 3


def test_what_was_found_stays_while_a_statement_is_typed() -> None:
    session = Session()
    kept = "import torch\n\nnet = torch.nn.Linear(3, 1)\ntotal = 0\nfor x in torch.randn(5, 4, 3):\n"
    kept += "    loss = net(x).mean()\n    loss.backward()\n    total += loss\nprint(total)\n"
    half = kept.replace("    loss.backward()\n", "    loss.backward()\n    total = total.detach(\n")

    def shown(text: str) -> list[tuple[str, int, bool]]:
        session.documents[URI].replace(text, None)
        found = session.shown(again(session))
        return [(one.finding.code, one.finding.span.line, one.static is not None) for one in found]

    session.open(URI, PATH, half, 1)
    assert session.shown(again(session)) == []
    assert shown(kept) == [("TAPE201", 8, True)]
    # What it was found with is not its own any more: no fix is made from it.
    assert shown(half) == [("TAPE201", 9, False)]
    assert shown(half.replace("detach(", "detach()")) == []
    assert shown(half) == []
    shown(kept)
    assert shown(kept.replace("total += loss", "total += loss.")) == []
    shown(kept)
    session.configure(Settings(ignore=("TAPE201",)))
    assert shown(half) == []


ANSWERS = {
    "a line before it": ("    loss.backward()\n", "    loss.backward()\n    loss = loss.detach()\n"),
    "a line that is cut": ("    total += loss\n", "    total += loss.detach()\n"),
    "its loop ends": ("    total += loss\n", "    total += loss\n    break\n"),
    "another program": ("    loss = net(x).mean()\n    loss.backward()\n    total += loss\n", "    total = net(x)\n"),
}


@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize("broken", ["def use(:\n    pass\n", "use(net\n", "x = = 3\n"])
def test_what_is_answered_goes_while_another_statement_does_not_parse(answer: str, broken: str) -> None:
    session = Session()
    kept = "import torch\n\nnet = torch.nn.Linear(3, 1)\ntotal = 0\nfor x in torch.randn(5, 4, 3):\n"
    kept += "    loss = net(x).mean()\n    loss.backward()\n    total += loss\nprint(total)\n"

    def shown(text: str) -> list[str]:
        session.documents[URI].replace(text, None)
        return [one.finding.code for one in session.shown(again(session))]

    session.open(URI, PATH, kept, 1)
    again(session)
    assert shown(kept + broken) == ["TAPE201"]
    # More is typed of it: that answers nothing.
    assert shown(kept + broken.replace("net", "net, total").replace("use", "used")) == ["TAPE201"]
    assert "TAPE201" not in shown(kept.replace(*ANSWERS[answer]) + broken)
    # Not even where what does not parse says more of it again.
    assert "TAPE201" not in shown(kept.replace(*ANSWERS[answer]) + broken.replace("use", "used"))


EPOCH = """\
import torch


def run_epoch(loader, train=True):
    model = torch.nn.Linear(3, 1)
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    total = 0
    for x, y in loader:
        loss = (model(x) - y).pow(2).mean()
        total += loss
    return total
"""


@pytest.mark.parametrize("open_too", [False, True])
def test_what_callers_silence_stays_silent_while_a_file_is_edited(tmp_path: Path, open_too: bool) -> None:
    library, main = tmp_path / "library.py", tmp_path / "main.py"
    (tmp_path / "pyproject.toml").touch()
    library.write_text(EPOCH)
    main.write_text(
        "import torch\nfrom library import run_epoch\n\nwith torch.no_grad():\n    run_epoch(6 * [(1, 2)])\n"
    )
    session, uri = Session(), library.as_uri()
    if open_too:
        session.open(main.as_uri(), str(main), main.read_text(), 1)
        again(session, main.as_uri())
    session.open(uri, str(library), EPOCH, 1)
    again(session, uri)
    session.look_at_callers(session.snapshot(uri), lambda: False)  # type: ignore[arg-type]
    for more in ("", "# more\n", "x = (\n", "x = (1\n", ""):
        for text in (EPOCH + more, more + EPOCH):
            session.documents[uri].replace(text, None)
            assert session.shown(again(session, uri)) == [], more


@pytest.mark.parametrize("disturb", ["edit", "close", "settings", "shutdown", "open again"])
def test_an_analysis_is_cancelled_by_whatever_outdates_it(disturb: str) -> None:
    def check(source, /, *, cancelled: Callable[[], bool], **more):  # type: ignore[no-untyped-def]
        assert not cancelled()
        {
            "edit": lambda: session.documents[URI].replace("x", 2),
            "close": lambda: session.close(URI),
            "settings": lambda: session.configure(Settings()),
            "shutdown": lambda: setattr(session, "closing", True),
            "open again": lambda: session.open(URI, PATH, TWICE, 1),
        }[disturb]()
        assert cancelled()
        raise RuntimeError("as interpret does")

    session = Session(check=check)  # type: ignore[arg-type]
    session.open(URI, PATH, TWICE, 1)
    snapshot = session.snapshot(URI)
    assert snapshot is not None
    assert session.analyse(snapshot) is None
    assert session.known(snapshot) is None


def test_an_error_of_the_analysis_is_passed_on(session: Session) -> None:
    session.open(URI, PATH, "# crash\n", 1)
    snapshot = session.snapshot(URI)
    assert snapshot is not None
    with pytest.raises(KeyError, match="made to crash"):
        session.analyse(snapshot)


def test_what_is_not_python_or_too_large_or_switched_off_is_not_analysed(session: Session) -> None:
    session.open(URI, PATH, "x" * 5_000_000, 1)
    assert session.snapshot(URI) is None
    session.open("file:///notes.md", "/notes.md", TWICE, 1, "markdown")
    assert session.snapshot("file:///notes.md") is None
    session.open(URI, PATH, TWICE, 1)
    assert session.snapshot(URI) is not None
    session.configure(Settings(enable=False))
    assert session.snapshot(URI) is None


def test_folders_have_settings_of_their_own(session: Session) -> None:
    strict, lax = Settings(), Settings(ignore=("TAPE101",))
    session.configure(strict, {"/home/lax": lax, "/home/lax/strict": strict})
    assert len(analysed(session, TWICE, "file:///home/laxer/t.py").report.findings) == 1
    assert len(analysed(session, TWICE, "file:///home/lax/t.py").report.findings) == 0
    assert len(analysed(session, TWICE, "file:///home/lax/strict/t.py").report.findings) == 1


@pytest.mark.parametrize(
    ("given", "expected", "complaints"),
    [
        (None, Settings(), 0),
        ({"run": {"timeout": 5}, "lens": {"enable": False}}, Settings(run_timeout=5.0, lens=False), 0),
        ({"run.timeout": 5, "lens.enable": False}, Settings(run_timeout=5.0, lens=False), 0),
        ({"select": [], "interpreter": ["py", "-3"]}, Settings(interpreter=("py", "-3")), 0),
        ({"select": 3, "enable": "no", "run": {"maxIterations": -1}}, Settings(), 3),
        ({"severity": {"TAPE201": "error", "TAPE101": "loud"}}, Settings(severity={"TAPE201": "error"}), 1),
        ({"severity": ["x"], "run": {"timeout": True}}, Settings(), 2),
        (
            {"select": ["TAPE1", "growing-chain"], "ignore": ["unused-ignore"]},
            Settings(select=("TAPE1", "growing-chain"), ignore=("unused-ignore",)),
            0,
        ),
        (
            {"select": ["TAPE999"], "severity": {"growing-chains": "error"}},
            Settings(),
            2,
        ),
        (
            {"select": ["TAPE101", "TAPE999"], "ignore": ["TAPE998"], "severity": {"TAPE997": "error"}},
            Settings(select=("TAPE101",)),
            3,
        ),
    ],
)
def test_settings_of_any_shape(given: object, expected: Settings, complaints: int) -> None:
    settings, problems = read_settings(given)
    assert (settings, len(problems)) == (expected, complaints)


def test_the_most_exact_name_gives_a_rule_its_severity() -> None:
    settings, problems = read_settings({"severity": {"TAPE2": "hint", "ALL": "info", "growing-chain": "error"}})
    assert not problems
    assert settings.severity_of("TAPE201", "graph-kept-across-iterations") == "hint"
    assert settings.severity_of("TAPE202", "growing-chain") == "error"
    assert settings.severity_of("TAPE101", "backward-twice") == "info"
    assert Settings().severity_of("TAPE101", "backward-twice") is None


def test_a_rule_that_does_not_exist_is_named_with_what_may_be_meant() -> None:
    _, problems = read_settings({"ignore": ["growing-chains"]})
    assert problems == ["tapecheck.ignore: no rule is called 'growing-chains'; did you mean `growing-chain`?"]


def test_a_confirmed_finding_says_so_and_keeps_its_severity(session: Session) -> None:
    analysis = analysed(session, TWICE)
    session.recordings[PATH] = Recording(TWICE, with_evidence(analysis.report.findings, CONFIRMED))
    (shown,) = session.shown(analysis)
    clock = time.strftime("%H:%M", time.localtime(session.recordings[PATH].at))
    assert shown.message.split("\n") == [
        f"this graph was freed — confirmed: raised in iteration 2, {clock}",
        "help: sum the losses",
        "run: raised at iteration 2",
    ]
    assert shown.severity == "error"


def test_a_refuted_finding_becomes_a_hint(session: Session) -> None:
    analysis = analysed(session, TWICE)
    session.recordings[PATH] = Recording(TWICE, with_evidence(analysis.report.findings, REFUTED))
    (shown,) = session.shown(analysis)
    assert shown.message.startswith("this graph was freed — refuted by the run at ")
    assert "\nrun: the line ran 20 times and did not raise" in shown.message
    assert shown.severity == "hint"


@pytest.mark.parametrize("evidence", [CONFIRMED, REFUTED])
def test_evidence_of_other_code_is_shown_as_stale(session: Session, evidence: Evidence) -> None:
    analysis = analysed(session, TWICE)
    session.recordings[PATH] = Recording(TWICE, with_evidence(analysis.report.findings, evidence))
    session.documents[URI].replace("batch = 1\n" + TWICE, 2)
    (shown,) = session.shown(again(session))
    assert "before the last edits" in shown.message.split("\n")[0]
    assert (shown.severity, shown.finding.span.line, shown.stale) == ("error", 4, True)
    session.documents[URI].replace(TWICE, 3)
    (shown,) = session.shown(again(session))
    assert not shown.stale, "an undo brings it back"


def test_evidence_stays_fresh_where_only_comments_and_layout_change(session: Session) -> None:
    analysis = analysed(session, TWICE)
    session.recordings[PATH] = Recording(TWICE, with_evidence(analysis.report.findings, REFUTED))
    session.documents[URI].replace("# a comment\n\n" + TWICE.replace("torch\n", "torch  # another\n"), 2)
    (shown,) = session.shown(again(session))
    assert (shown.severity, shown.finding.span.line, shown.stale) == ("hint", 5, False)


def test_evidence_goes_stale_with_the_files_that_took_part(session: Session, tmp_path: Path) -> None:
    helper = tmp_path / "helper.py"
    helper.write_text("x = 1\n")
    analysis = analysed(session, TWICE)
    stat = helper.stat()
    session.recordings[PATH] = Recording(
        TWICE,
        with_evidence(analysis.report.findings, CONFIRMED),
        others={str(helper): (stat.st_mtime_ns, stat.st_size)},
    )
    assert not session.shown(analysis)[0].stale
    helper.write_text("x = 20\n")
    assert session.shown(analysis)[0].stale
    helper.unlink()
    assert session.shown(analysis)[0].stale


def test_evidence_finds_its_line_between_two_edits(session: Session) -> None:
    analysis = analysed(session, TWICE)
    session.recordings[PATH] = Recording(TWICE, with_evidence(analysis.report.findings, CONFIRMED))
    session.documents[URI].replace("a = 1\n" + TWICE + "b = 2\n", 2)
    (shown,) = session.shown(again(session))
    assert re.match(r"this graph was freed — confirmed: raised .*, before the last edits\n", shown.message)


def test_comments_switch_off_what_only_a_run_has_found(session: Session) -> None:
    text = "import torch\nx = 1  # tapecheck: ignore[TAPE102]\n"
    analysis = analysed(session, text)
    found = dataclasses.replace(_finding(2), code="TAPE102", evidence=Evidence("found-by-run", "raised", 1))
    session.recordings[PATH] = Recording(text, [found])
    assert session.shown(analysis) == []


def test_evidence_for_an_edited_line_is_dropped(session: Session) -> None:
    analysis = analysed(session, TWICE)
    session.recordings[PATH] = Recording(TWICE, with_evidence(analysis.report.findings, CONFIRMED))
    session.documents[URI].replace(TWICE.removesuffix("loss.backward()\n") + "other.backward()\n", 2)
    (shown,) = session.shown(again(session))
    assert shown.message.startswith("this graph was freed\n")


def test_what_only_a_run_has_found_is_shown_and_weakens_with_age(session: Session) -> None:
    text = "import torch\nx = 1\nloss.backward()\n"
    analysis = analysed(session, text)
    found = Finding(
        "TAPE102",
        "stale-saved-tensor",
        "error",
        Span(PATH, 3, 1, 3, 16),
        "changed in place",
        "",
        evidence=Evidence("found-by-run", "raised at iteration 1", 1),
    )
    session.recordings[PATH] = Recording(text, [found])
    (shown,) = session.shown(analysis)
    assert (shown.severity, shown.static) == ("error", None)
    assert shown.message.startswith("changed in place — found at run time: raised in iteration 1, ")
    assert shown.message.endswith("\nrun: raised at iteration 1")
    session.documents[URI].replace("y = 2\n" + text, 2)
    (shown,) = session.shown(again(session))
    assert (shown.severity, shown.finding.span.line, shown.finding.span.end_line) == ("info", 4, 4)
    session.configure(Settings(ignore=("TAPE102",)))
    assert session.shown(again(session)) == []


def test_safe_fixes_are_made_one_after_the_other(session: Session) -> None:
    analysis = analysed(session, "a.backward(retain_graph=True)\nb.f(retain_graph=True)\nc.backward()\n")
    assert session.fix_all(analysis) == "a.backward()\nb.f()\nc.backward()\n"
    assert session.fix_all(analysed(session, TWICE)) is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1\n", "train.py has no findings"),
        (TWICE, "nothing was fixed in train.py: no finding has a fix: the help of each says what to do"),
        (
            "b.f(retain_graph=True)  # unsafe\n",
            (
                "nothing was fixed in train.py: the fix of the finding changes training: "
                "make it in the quick fixes of its line"
            ),
        ),
        (
            f"{TWICE}b.f(retain_graph=True)  # unsafe\n",
            (
                "nothing was fixed in train.py: no fix is safe; "
                "1 of 2 findings have one that changes training, in their quick fixes"
            ),
        ),
    ],
)
def test_it_is_said_why_nothing_is_fixed(session: Session, text: str, said: str) -> None:
    analysis = analysed(session, text)
    assert session.fix_all(analysis) is None
    assert session.unfixed(analysis) == said


def test_a_fix_that_edits_other_files_does_not_keep_the_others_back(session: Session) -> None:
    def fixes_for(report, finding, /, **more):  # type: ignore[no-untyped-def]
        if finding.span.line == 1:
            return [Fix("Edit a module", "safe", (Edit(Span("/module.py", 1, 1, 1, 2), ""),), "nothing")]
        return fake_server.fixes_for(report, finding, **more)

    session = Session(check=fake_server.check, fixes_for=fixes_for)  # type: ignore[arg-type]
    first, other = "a.f(retain_graph=True)\n", "b.f(retain_graph=True)\n"
    assert session.fix_all(analysed(session, first + other)) == first + "b.f()\n"
    analysis = analysed(session, first)
    assert session.fix_all(analysis) is None
    assert session.unfixed(analysis).endswith("other files, too: make it in the quick fixes of its finding")


def test_fixes_are_there_again_after_an_undo(session: Session) -> None:
    text = "a.backward(retain_graph=True)\n"
    analysed(session, text)
    session.documents[URI].replace("# x\n" + text, 2)
    again(session)
    session.documents[URI].replace(text, 3)
    assert session.fix_all(again(session)) == "a.backward()\n"


def test_edits_are_made_where_they_say() -> None:
    edits = [(Span("t", 1, 2, 1, 3), "X"), (Span("t", 2, 1, 3, 1), "")]
    assert apply_edits("🎉b\r\nsecond\r\nthird", edits) == "🎉X\r\nthird"


TRAINING = dedent(
    """\
    import torch
    from torch import nn

    def train(model, optimizer, epochs):
        for epoch in range(epochs):
            for step in range(10):
                loss = model(torch.randn(2, 4)).mean()
                loss.backward()
                optimizer.step(); optimizer.zero_grad()

    model = nn.Linear(4, 1)
    train(model, torch.optim.SGD(model.parameters(), lr=0.1), 2)
    x = torch.randn(2, requires_grad=True)
    for _ in range(3):
        print("no training here")
    x.exp().sum().backward()
    """
)


BACKWARD = " " * 12 + "loss.backward()\n"
TWICE_IN_A_LOOP = TRAINING.replace(BACKWARD, BACKWARD * 2)


def test_lenses_stand_only_where_something_was_found_or_run() -> None:
    session = Session()
    assert session.lenses(analysed(session, TRAINING)) == [], "nothing is wrong with it"
    session.outcomes[PATH] = Outcome("models.py trains nothing when it is run", "program", at=0)
    (lens_run, lens_last) = session.lenses(again(session))
    assert (lens_run.line, lens_run.title, lens_run.act) == (6, "Confirm by running", "run")
    assert lens_last.title.endswith(": models.py trains nothing when it is run")
    assert (lens_last.act, lens_last.next) == ("run", "program")


def test_a_loop_with_a_finding_offers_a_run_and_tells_the_last_one() -> None:
    session = Session()
    (finding,) = analysed(session, TWICE_IN_A_LOOP).report.findings
    assert [(lens.line, lens.title, lens.act) for lens in session.lenses(again(session))] == [
        (6, "Confirm by running", "run"),
        (9, "fails in iteration 1", "run"),
    ]
    recording = Recording(TWICE_IN_A_LOOP, with_evidence([finding], CONFIRMED))
    session.recordings[PATH] = recording
    assert [(lens.line, lens.title, lens.act) for lens in session.lenses(again(session))] == [
        (6, "Confirm by running", "run"),
        (6, f"run at {recording.clock}: 1 confirmed", "report"),
        (9, "✓ confirmed: fails in iteration 2", "report"),
    ]
    session.documents[URI].replace("x = 1\n" + TWICE_IN_A_LOOP, 2)
    assert [(lens.line, lens.title) for lens in session.lenses(again(session))] == [
        (7, "Confirm by running"),
        (7, f"run at {recording.clock}: 1 confirmed (before the last edits)"),
        (10, "fails in iteration 1"),
    ]
    session.documents[URI].replace(TWICE_IN_A_LOOP, 3)
    session.configure(Settings(lens_loops=False))
    offering = [(lens.line, lens.title) for lens in session.lenses(again(session))]
    assert offering == [(9, "✓ confirmed: fails in iteration 2")]
    session.recordings.clear()
    offering = [(lens.line, lens.title) for lens in session.lenses(again(session))]
    assert offering == [(9, "fails in iteration 1 · Confirm by running")]
    session.recordings[PATH] = recording
    session.configure(Settings(lens_backwards=False))
    assert [lens.line for lens in session.lenses(again(session))] == [6, 6]
    session.configure(Settings(lens=False))
    assert session.lenses(again(session)) == []


def test_hint_and_lens_of_a_backward_agree_on_what_becomes_of_its_graph() -> None:
    """The backward takes the saved tensors away; the nodes live as long as somebody has the loss."""
    session = Session()
    session.configure(Settings(inlay_hints=True))
    kept = TRAINING.replace(BACKWARD, f"{BACKWARD}            losses.append(loss)\n").replace(
        "model = ", "losses = []\nmodel = "
    )
    analysis = analysed(session, kept)
    (finding,) = analysis.report.findings
    assert finding.code == "TAPE201"
    (lens,) = [lens.title for lens in session.lenses(analysis) if lens.line == 8]
    assert lens == "its graph outlives the iteration"
    told = {span.line: (text, more) for span, text, more in session.inlays(analysis)}
    assert told[8] == (
        "saved tensors freed",
        "frees the saved tensors of the graph built on line 7; its nodes outlive the iteration",
    )
    session.recordings[PATH] = Recording(kept, with_evidence([finding], REFUTED))
    assert {span.line: text for span, text, _ in session.inlays(analysis)}[8] == "graph freed"
    session.documents[URI].replace(TRAINING, 2)
    assert {span.line: text for span, text, _ in session.inlays(again(session))}[8] == "graph freed"


def test_a_finding_in_a_function_belongs_to_the_loop_that_calls_it() -> None:
    session = Session()
    text = (
        "import torch\nmodel = torch.nn.Linear(2, 1)\n\ndef step(x):\n    loss = model(x).pow(2).mean()\n"
        "    loss.backward()\n    loss.backward()\n\nfor x in torch.ones(3, 1, 2):\n    step(x)\n"
    )
    told = {lens.line: lens.title for lens in session.lenses(analysed(session, text))}
    assert told == {7: "fails in iteration 1", 9: "Confirm by running"}


def test_lenses_of_backwards_that_keep_their_graph() -> None:
    session = Session()
    text = TRAINING.replace(BACKWARD, BACKWARD.replace("()", "(retain_graph=True)") + BACKWARD)
    told = {lens.line: lens.title for lens in session.lenses(analysed(session, text))}
    assert told == {8: "keeps its graph for line 9 · Confirm by running"}, "the loop has no finding"
    session = Session()
    text = TRAINING.replace(BACKWARD, BACKWARD.replace("()", "(retain_graph=True)"))
    told = {lens.line: lens.title for lens in session.lenses(analysed(session, text))}
    assert told[8] == "keeps its graph, which no later backward uses"
    session = Session()
    text = "import torch\nw = torch.ones(2, requires_grad=True)\nfor _ in range(3):\n"
    text += "    (g,) = torch.autograd.grad((w**3).sum(), w, create_graph=True)\n    g.sum().backward()\n"
    text += "    w.grad = None\n"
    assert session.lenses(analysed(session, text)) == [], "a second derivative is as it should be"


def test_a_lens_of_a_backward_whose_graph_a_loop_keeps() -> None:
    session = Session()
    text = (
        "import torch\nmodel = torch.nn.Linear(2, 1)\nlosses = []\nfor x in torch.ones(9, 1, 2):\n"
        "    loss = model(x).pow(2).mean()\n    loss.backward()\n    losses.append(loss)\n"
    )
    (finding,) = analysed(session, text).report.findings
    told = {lens.line: lens.title for lens in session.lenses(again(session))}
    assert told[6] == "its graph outlives the iteration"
    session.recordings[PATH] = Recording(text, with_evidence([finding], CONFIRMED))
    (lens,) = [lens for lens in session.lenses(again(session)) if lens.line == 6]
    assert (lens.title, lens.act) == ("✓ confirmed: its graph outlives the iteration", "report")


def test_a_lens_does_not_say_what_a_run_has_refuted() -> None:
    session = Session()
    text = TWICE_IN_A_LOOP
    analysis = analysed(session, text)
    (finding,) = analysis.report.findings

    def told(of: Analysis) -> str:
        return {lens.line: lens.title for lens in session.lenses(of)}[9]

    session.recordings[PATH] = Recording(text, with_evidence([finding], REFUTED))
    assert told(analysis) == "did not fail when it was run"
    another = Evidence("refuted", "it failed for another reason: the batch is empty")
    session.recordings[PATH] = Recording(text, with_evidence([finding], another))
    assert told(analysis) == "fails in iteration 1", "it failed when it was run"
    session.recordings[PATH] = Recording(text, with_evidence([finding], REFUTED))
    session.documents[URI].replace(text.replace("range(10)", "range(9)"), 2)
    assert told(again(session)) == "fails in iteration 1", "that was another program"


@pytest.mark.parametrize("way", ["line", "file", "settings", "project", "raises"])
def test_a_rule_that_is_switched_off_leaves_no_lens_and_no_inlay(way: str, tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    off = Settings(inlay_hints=True, ignore=("TAPE101", "TAPE301") if way == "settings" else ())
    if way == "project":
        (tmp_path / "pyproject.toml").write_text('[tool.tapecheck]\nignore = ["TAPE101", "TAPE301"]\n')
    texts = (TWICE_IN_A_LOOP, TRAINING.replace(BACKWARD, BACKWARD.replace("()", "(retain_graph=True)")))
    for number, text in enumerate(texts):
        seen = Session()
        seen.configure(dataclasses.replace(off, ignore=()))
        seen.open(URI, "/elsewhere/train.py", text, 1)
        snapshot = seen.snapshot(URI)
        assert snapshot is not None
        before = seen.analyse(snapshot)
        assert before is not None and len(seen.lenses(before)) == 2
        if way == "line":
            text = text.replace("True)\n", "True)  # tapecheck: ignore[TAPE301]\n")
            text = text.replace(BACKWARD * 2, BACKWARD + BACKWARD.replace("\n", "  # tapecheck: ignore[TAPE101]\n"))
        if way == "file":
            text = f"# tapecheck: ignore-file[TAPE101, TAPE301]\n{text}"
        if way == "raises" and number == 0:
            inside = " " * 12 + "with pytest.raises(RuntimeError):\n    " + BACKWARD
            text = text.replace(BACKWARD * 2, BACKWARD + inside)
        elif way == "raises":
            continue
        session = Session()
        session.configure(off)
        session.open(URI, str(path), text, 1)
        snapshot = session.snapshot(URI)
        assert snapshot is not None
        analysis = session.analyse(snapshot)
        assert analysis is not None and not analysis.report.findings
        assert session.lenses(analysis) == []
        inlays = [text for _, text, _ in session.inlays(analysis)]
        assert inlays[0] == ("graph kept" if number else "graph freed"), "what is no finding stays"
        assert not [text for text in inlays if "fails" in text]


def test_no_lens_without_a_graph() -> None:
    assert Session().lenses(analysed(Session(), "print('no torch here')\n")) == []


RETAINED = dedent(
    """\
    import torch

    x = torch.ones(2, requires_grad=True)
    y = x.exp()
    loss = (y * y).sum()
    loss.backward(retain_graph=True)
    loss.backward()
    loss.backward()
    """
)


def test_inlay_hints_say_what_becomes_of_the_graph_where_they_are_wanted() -> None:
    session = Session()
    assert session.inlays(analysed(session, RETAINED)) == []
    session.configure(Settings(inlay_hints=True))
    hints = session.inlays(again(session))
    assert [(span.end_line, span.end_column, text) for span, text, _ in hints] == [
        (6, 33, "graph kept"),
        (7, 16, "graph freed"),
        (8, 16, "fails"),
    ]


@pytest.mark.parametrize("create, told", [("", True), (", create_graph=True", False)])
def test_an_inlay_hint_says_where_a_gradient_becomes_a_constant(create: str, *, told: bool) -> None:
    text = dedent(
        f"""\
        import torch

        w = torch.randn(3, requires_grad=True)
        (g,) = torch.autograd.grad((w ** 3).sum(), [w]{create})
        ((w - 0.1 * g) ** 2).sum().backward()
        """
    )
    session = Session()
    session.configure(Settings(inlay_hints=True))
    hints = [(span.line, text, why) for span, text, why in session.inlays(analysed(session, text))]
    constants = [(line, why) for line, text, why in hints if text == "first order only"]
    why = "first order only: the backward on line 5 treats it as a constant (no `create_graph=True`)"
    assert constants == ([(4, why)] if told else [])


def test_a_backward_highlights_what_it_walks() -> None:
    session = Session()
    analysis = analysed(session, RETAINED)
    marked = session.highlights(analysis, 6, 9)
    assert [(span.line, span.column, span.end_column, own) for span, own in marked] == [
        (6, 6, 14, True),
        (5, 8, 21, False),
        (4, 5, 12, False),
    ]
    assert session.highlights(analysis, 5, 2) == []
    assert session.highlights(analysis, 6, 29) == [], "an argument is none of it"
    assert session.highlights(analysis, 6, 2) == [], "the editor marks the loss wherever it is used"


RAISED = "raised in iteration 2: it is freed; `MulBackward0` was built on line 1 and freed by the call on line 2"
GROWS = "4 nodes more in each iteration of the loop on line {}"


@pytest.mark.parametrize(
    ("detail", "told", "later"),
    [
        (RAISED, "run: it is freed", "run: it is freed"),
        ("raised and caught: no graph", "run: no graph (caught)", "run: no graph (caught)"),
        ("raised in iteration 2 of the loop on line 1: no graph", "run: no graph", None),
        ("raised in iteration 2 of the loop on train.py:7 and caught: no graph", "run: no graph (caught)", None),
        ("on rank 1 of 2: raised in iteration 2: no graph", "run: on rank 1 of 2: no graph", None),
        (GROWS.format(2), f"run: {GROWS.format(3)}", ""),
    ],
)
def test_what_a_run_said_is_not_said_twice_and_moves_with_its_lines(
    session: Session, detail: str, told: str, later: str | None
) -> None:
    analysis = analysed(session, TWICE)
    evidence = Evidence("confirmed", detail, 2)
    session.recordings[PATH] = Recording(TWICE, with_evidence(analysis.report.findings, evidence))

    def shown(text: str, version: int) -> tuple[str, str]:
        session.documents[URI].replace(text, version)
        (one,) = session.shown(again(session))
        first, *lines = one.message.splitlines()
        return first, "".join(line for line in lines if line.startswith("run: "))

    how = "seen" if "nodes" in detail else "raised"
    first, said = shown("# a comment\n" + TWICE, 2)
    assert (f"confirmed: {how} in iteration 2" in first, said) == (True, told)
    first, said = shown("# a comment\n" + TWICE.replace("loss.backward", "l.backward", 1), 3)
    assert ("before the last edits" in first, said) == (True, told if later is None else later)


def _finding(line: int) -> Finding:
    return Finding("TAPE101", "backward-twice", "error", Span(PATH, line, 1, line, 2), "m", "h")


def test_imports_are_looked_for_in_the_environment_of_the_folder(tmp_path: Path) -> None:
    net = "import torch\nclass Net(torch.nn.Linear):\n    pass\n"
    program = (
        "import torch\nfrom editable import Net\n"
        "loss = Net(3, 1)(torch.randn(2, 3)).mean()\nloss.backward()\nloss.backward()\n"
    )
    site = tmp_path / "environment" / "lib" / "python3.11" / "site-packages"
    for path, text in (
        (site / "mine.pth", str(tmp_path / "far")),
        (tmp_path / "environment" / "pyvenv.cfg", ""),
        (tmp_path / "environment" / "bin" / "python", ""),
        (tmp_path / "far" / "editable.py", net),
        (tmp_path / "one" / "train.py", program),
        (tmp_path / "two" / "train.py", program),
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    session = Session()
    python = str(tmp_path / "environment" / "bin" / "python")
    session.configure(Settings(), {str(tmp_path / "one"): Settings(interpreter=(python,))})

    def imports(folder: str) -> frozenset[str]:
        path = tmp_path / folder / "train.py"
        session.open(path.as_uri(), str(path), program, 1)
        return again(session, path.as_uri()).imports

    assert imports("one") == {str(tmp_path / "far" / "editable.py")}
    assert imports("two") == frozenset()


def test_files_that_are_not_open_leave_what_is_remembered_of_open_ones(tmp_path: Path) -> None:
    session = Session()
    analysis = analysed(session, TWICE_IN_A_LOOP)
    assert session._memory is not None
    known = len(session._memory.starts)
    assert known
    for number in range(5):
        other = from_text(TWICE_IN_A_LOOP, str(tmp_path / f"other{number}.py"))
        report = session.check_closed(other, Settings(), lambda: False)
        assert len(report.findings) == len(analysis.report.findings)
    assert len(session._memory.starts) == known
    # What is remembered of the open one is read for it as well.
    closed = session.check_closed(analysis.report.source, Settings(), lambda: False)
    assert closed.interpretation.tapes[0] is analysis.report.interpretation.tapes[0]


TRAINER = "def step(model, loss):\n    loss.backward()\n    return loss.item()\n"
CALLER = (
    "import torch\nfrom trainer import step\n\nmodel = torch.nn.Linear(2, 1)\n"
    "loss = model(torch.ones(1, 2)).exp().sum()\nfor _ in range(3):\n    step(model, loss)\n"
)


def test_what_a_closed_file_does_in_an_open_one_is_shown_there(tmp_path: Path) -> None:
    for name, text in {"pyproject.toml": "", "trainer.py": TRAINER, "main.py": CALLER}.items():
        (tmp_path / name).write_text(text)
    session = Session()
    uri = (tmp_path / "trainer.py").as_uri()
    session.open(uri, str(tmp_path / "trainer.py"), TRAINER, 1)

    def looked(cancelled: bool = False) -> bool:
        snapshot = session.snapshot(uri)
        assert snapshot is not None
        return session.look_at_callers(snapshot, lambda: cancelled)

    assert session.shown(again(session, uri)) == []
    with pytest.raises(Cancelled):
        looked(cancelled=True)
    assert looked()
    (shown,) = session.shown(again(session, uri))
    assert (shown.finding.code, shown.finding.span.line, shown.static) == ("TAPE101", 2, None)
    assert session.brought_to(again(session, uri))
    assert not looked(), "nothing else is found"
    (tmp_path / "main.py").write_text(CALLER.replace("step(model, loss)", "step(model, model(torch.ones(1, 2)).sum())"))
    assert looked()
    assert session.shown(again(session, uri)) == []


def test_what_a_closed_file_does_is_about_the_text_that_it_has_read(tmp_path: Path) -> None:
    for name, text in {"pyproject.toml": "", "trainer.py": TRAINER, "main.py": CALLER}.items():
        (tmp_path / name).write_text(text)
    session = Session()
    uri = (tmp_path / "trainer.py").as_uri()
    document = session.open(uri, str(tmp_path / "trainer.py"), TRAINER, 1)
    snapshot = session.snapshot(uri)
    assert snapshot is not None
    assert session.look_at_callers(snapshot, lambda: False)
    assert len(session.shown(again(session, uri))) == 1
    document.replace("# edited\n" + TRAINER, 2)
    assert session.shown(again(session, uri)) == []
    document.dirty = True
    snapshot = session.snapshot(uri)
    assert snapshot is not None
    assert session.look_at_callers(snapshot, lambda: False)
    assert [one.finding.span.line for one in session.shown(again(session, uri))] == [3]


def test_the_picture_of_a_run_is_shown_while_the_text_is_the_one_that_was_run() -> None:
    text = "import torch\nw = torch.ones(1, requires_grad=True)\n(w * 2).sum().backward()\n"
    report = real_check(from_text(text, PATH))
    page = html.Run(Checked(PATH), report.interpretation.tapes[0], report.source)
    recording = Recording(text, page=page)
    moved = real_check(from_text(f"# a remark\n{text}", PATH))
    for told, measured, line in ((report, True, 3), (moved, False, 4)):
        picture = Pictures().draw(told, Explainer(told.source, told.interpretation.tapes), recording, (line, 10))
        assert bool(picture.measured) is measured
        # After an edit the lines of the run are not those of the text.
        assert f'data-at="0:{line}"' in picture.svg
