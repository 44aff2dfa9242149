"""Checks that share a memory find what checks without one find, and run only what an edit can have changed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tapecheck import check as checking
from tapecheck.check import Memory, Report, check, limits_of
from tapecheck.interpret import Starts
from tapecheck.interpret.explore import program
from tapecheck.interpret.explore.index import index_of
from tapecheck.source import Source, from_text

PROGRAMS = sorted((Path(__file__).parent / "cases" / "programs").glob("*.py"))
LIBRARY = """import torch
from torch import nn

LIMIT = 3


class Trainer:
    def __init__(self, model):
        self.model = model
        self.losses = []

    def fit(self, batches):
        for batch in batches:
            loss = self.model(batch).sum()
            loss.backward()
            self.losses.append(loss)


def twice(model: nn.Module, batch):
    loss = helper(model, batch)
    loss.backward()
    loss.backward()


def helper(model, batch):
    return model(batch).pow(2).mean()


def other(model, batch):
    weight = torch.zeros(3, requires_grad=True)
    (weight * batch).sum().backward()


if __name__ == "__main__":
    twice(nn.Linear(2, 1), torch.ones(3, 2))
"""


def shown(report: Report) -> list[tuple[object, ...]]:
    found = [*report.findings, *report.suppressed, *report.elsewhere]
    return [(one.code, one.span, one.certain, one.severity, one.message, one.labels) for one in found]


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The starts that were explored, not remembered."""
    names: list[str] = []
    explore = program.explore_start

    def spy(source, project, entry, *rest):  # type: ignore[no-untyped-def]
        names.append(entry.name if entry is not None else "")
        return explore(source, project, entry, *rest)

    monkeypatch.setattr(program, "explore_start", spy)
    return names


def test_the_same_text_runs_nothing_again(started: list[str]) -> None:
    memory = Memory()
    first = check(from_text(LIBRARY, "library.py"), memory=memory)
    assert "" in started and "Trainer.fit" in started and "other" in started
    started.clear()
    again = check(from_text(LIBRARY, "library.py"), memory=memory)
    assert started == []
    assert shown(again) == shown(first) and shown(first)
    assert len(again.interpretation.tapes) == len(first.interpretation.tapes)


@pytest.mark.parametrize(
    "before, after, expected",
    [
        ("weight * batch", "weight / batch", {"other"}),
        ("self.losses.append(loss)", "self.losses.append(loss.item())", {"Trainer.fit"}),
        # The module calls `twice`, and `twice` calls `helper`.
        (".pow(2)", ".pow(3)", {""}),
        ("LIMIT = 3", "LIMIT = 4", {"", "Trainer.fit", "other"}),
    ],
)
def test_an_edit_runs_only_the_starts_that_can_reach_it(
    started: list[str], before: str, after: str, expected: set[str]
) -> None:
    memory = Memory()
    check(from_text(LIBRARY, "library.py"), memory=memory)
    started.clear()
    edited = LIBRARY.replace(before, after)
    report = check(from_text(edited, "library.py"), memory=memory)
    assert set(started) == expected
    assert shown(report) == shown(check(from_text(edited, "library.py")))


def test_other_rules_and_other_files_share_nothing(started: list[str]) -> None:
    memory = Memory()
    check(from_text(LIBRARY, "library.py"), memory=memory)
    started.clear()
    check(from_text(LIBRARY, "other.py"), memory=memory)
    assert started
    started.clear()
    report = check(from_text(LIBRARY, "library.py"), select=["TAPE201"], memory=memory)
    assert started and {finding.code for finding in report.findings} == {"TAPE201"}


def test_an_imported_file_that_changes_is_read_again(tmp_path: Path, started: list[str]) -> None:
    helper, main = tmp_path / "helper.py", tmp_path / "main.py"
    helper.write_text("def step(loss):\n    loss.backward(retain_graph=False)\n")
    main.write_text(
        "import torch\nfrom helper import step\nw = torch.ones(2, requires_grad=True)\n"
        "loss = (w * w).sum()\nstep(loss)\nloss.backward()\n"
    )
    memory = Memory()
    assert [one.code for one in check(from_text(main.read_text(), str(main)), memory=memory).findings] == ["TAPE101"]
    helper.write_text("def step(loss):\n    loss.backward(retain_graph=True )\n")
    assert check(from_text(main.read_text(), str(main)), memory=memory).findings == []
    helper.unlink()
    started.clear()
    check(from_text(main.read_text(), str(main)), memory=memory)
    assert started


def test_an_imported_document_that_is_closed_counts_as_its_file_again(tmp_path: Path) -> None:
    helper, main = tmp_path / "helper.py", tmp_path / "main.py"
    helper.write_text("def step(loss):\n    loss.backward(retain_graph=True)\n")
    main.write_text(
        "import torch\nfrom helper import step\nw = torch.ones(2, requires_grad=True)\n"
        "loss = (w * w).sum()\nstep(loss)\nloss.backward()\n"
    )
    memory = Memory()
    shown_helper = {str(helper): from_text("def step(loss):\n    loss.backward()\n", str(helper))}
    for open_files, expected in ((shown_helper, ["TAPE101"]), ({}, []), (shown_helper, ["TAPE101"])):
        report = check(from_text(main.read_text(), str(main)), memory=memory, open_files=open_files)
        assert [finding.code for finding in report.findings] == expected


TYPED = (
    "    loss = loss * 2  # twice",
    "            total += loss",
    "        self.kept.append(x)",
    "model.zero_grad()",
    "    with torch.no_grad():",
    "for step in range(3):",
    "    return x.detach()",
    "loss.backward(retain_graph=True)",
)


def edits(lines: list[str], choose: random.Random) -> Iterator[list[str]]:
    """What a program is step by step as somebody edits it in one place."""
    at = choose.randrange(len(lines))
    change = choose.choice(("drop", "copy", "blank", "type", "type", "append", "swap"))
    if change == "drop":
        yield [*lines[:at], *lines[at + 1 :]]
    elif change in ("copy", "blank"):
        yield [*lines[:at], lines[at] if change == "copy" else "", *lines[at:]]
    elif change == "swap":
        other = choose.randrange(len(lines))
        swapped = list(lines)
        swapped[at], swapped[other] = lines[other], lines[at]
        yield swapped
    else:
        typed = choose.choice(TYPED)
        before = lines[at] if change == "append" else ""
        for end in sorted({choose.randrange(len(typed)) for _ in range(3)} | {len(typed)}):
            text = typed[:end].strip() if change == "append" else typed[:end]
            rest = lines[at + 1 :] if change == "append" else lines[at:]
            yield [*lines[:at], f"{before}; {text}" if before else text, *rest]


@pytest.mark.parametrize("path", random.Random(20261122).sample(PROGRAMS, 12), ids=lambda path: path.stem)
def test_whatever_is_edited_the_findings_are_those_of_a_fresh_check(path: Path) -> None:
    choose = random.Random(path.stem)
    memory = Memory()
    lines = path.read_text().split("\n")
    source = from_text("\n".join(lines), path.name)
    for _ in range(4):
        for edited in edits(lines, choose):
            lines = edited
            text = "\n".join(edited)
            source = from_text(text, path.name, before=source)
            with_memory = check(source, memory=memory)
            fresh = check(from_text(text, path.name))
            assert shown(with_memory) == shown(fresh), text


def test_a_text_that_is_only_tried_leaves_the_memory_as_it_was(started: list[str]) -> None:
    memory = Memory()
    first = check(from_text(LIBRARY, "library.py"), memory=memory)
    tried = LIBRARY.replace("weight * batch", "weight / batch")
    started.clear()
    beside = memory.beside()
    report = check(from_text(tried, "library.py"), memory=beside)
    assert started == ["other"]
    assert shown(report) == shown(check(from_text(tried, "library.py")))
    started.clear()
    assert shown(check(from_text(LIBRARY, "library.py"), memory=memory)) == shown(first)
    assert started == []


@pytest.mark.parametrize(
    "line, typed",
    [
        ("    loss = helper(model, batch)", "  # one forward pass"),
        ("LIMIT = 3", "  # at most"),
        ("", "# What trains."),
        ("            self.losses.append(loss)", "   "),
    ],
)
def test_a_comment_runs_nothing_again(started: list[str], line: str, typed: str) -> None:
    memory = Memory()
    check(from_text(LIBRARY, "library.py"), memory=memory)
    started.clear()
    edited = LIBRARY.replace(f"\n{line}\n", f"\n{line}{typed}\n", 1)
    report = check(from_text(edited, "library.py"), memory=memory)
    assert edited != LIBRARY and started == []
    assert shown(report) == shown(check(from_text(edited, "library.py")))


@pytest.mark.parametrize(
    "above, added",
    [
        ("import torch\n", "# Trains.\n"),
        ("import torch\n", "\n\n"),
        ("    loss = helper(model, batch)\n", "\n"),
        ("            loss = self.model(batch).sum()\n", "            # one batch\n"),
        ("def helper(model, batch):\n", "    \n"),
    ],
)
def test_a_line_without_code_runs_nothing_again(started: list[str], above: str, added: str) -> None:
    memory = Memory()
    check(from_text(LIBRARY, "library.py"), memory=memory)
    started.clear()
    source = from_text(LIBRARY.replace(above, above + added), "library.py")
    report = check(source, memory=memory)
    assert started == []
    fresh = check(from_text(source.text, "library.py"))
    assert whole(report) == whole(fresh)
    # And away again.
    assert whole(check(from_text(LIBRARY, "library.py"), memory=memory)) == whole(
        check(from_text(LIBRARY, "library.py"))
    )
    assert started.count("other") == 2


def test_a_line_of_code_runs_only_the_starts_that_can_reach_it(started: list[str]) -> None:
    memory = Memory()
    check(from_text(LIBRARY, "library.py"), memory=memory)
    started.clear()
    edited = LIBRARY.replace("        self.losses = []\n", "        self.losses = []\n        self.count = 0\n")
    report = check(from_text(edited, "library.py"), memory=memory)
    assert started == ["Trainer.fit"]
    assert whole(report) == whole(check(from_text(edited, "library.py")))


def test_a_condition_runs_again_only_what_asked_about_its_names(started: list[str]) -> None:
    text = LIBRARY.replace(
        "    loss = helper(model, batch)\n",
        "    count = 0\n    if torch.rand(()) > 0.5:\n        count = 1\n    loss = helper(model, batch) * count\n",
    )
    memory = Memory()
    check(from_text(text, "library.py"), memory=memory)
    for typed, expected in (("for part in batch:", ["other"]), ("while count:", ["", "other"])):
        started.clear()
        edited = text.replace("    weight = ", f"    {typed}\n        pass\n    weight = ")
        report = check(from_text(edited, "library.py"), memory=memory.beside())
        assert started == expected
        assert whole(report) == whole(check(from_text(edited, "library.py")))


def test_a_method_that_is_called_eval_gives_nothing_away(started: list[str]) -> None:
    text = LIBRARY.replace("    return model(batch).pow(2)", "    model.eval()\n    return model(batch).pow(2)")
    for name, expected in ((text, ["other"]), (text.replace("model.eval()", "eval('model')"), ["", "other"])):
        memory = Memory()
        check(from_text(name, "library.py"), memory=memory)
        started.clear()
        check(from_text(name.replace("weight * batch", "weight / batch"), "library.py"), memory=memory)
        assert started == expected


def test_what_imports_itself_is_run_where_its_lines_move(tmp_path: Path, started: list[str]) -> None:
    main, helper = tmp_path / "main.py", tmp_path / "helper.py"
    helper.write_text("import main\n\n\ndef step(loss):\n    loss.backward()\n    main.again(loss)\n")
    main.write_text(
        "import torch\nimport helper\n\n\ndef again(loss):\n    loss.backward()\n\n\n"
        "if __name__ == '__main__':\n    w = torch.ones(2, requires_grad=True)\n    helper.step((w * w).sum())\n"
    )
    memory = Memory()
    first = check(from_text(main.read_text(), str(main)), memory=memory)
    assert [one.code for one in first.findings] == ["TAPE101"]
    edited = "# Shown, not saved.\n" + main.read_text()
    report = check(from_text(edited, str(main)), memory=memory)
    assert whole(report) == whole(check(from_text(edited, str(main))))


@pytest.mark.parametrize("taken", ["", "nn = 3\n", "del nn\n"])
def test_a_class_that_nobody_makes_is_run_where_its_base_is_not_there_yet(started: list[str], taken: str) -> None:
    unused = "class Unused(nn.Module):\n    pass\n\n\n"
    used = "weight = torch.ones(2, requires_grad=True)\n(weight * 2).sum().backward()\n"
    memory = Memory()
    check(from_text(f"import torch\nfrom torch import nn\n{taken}{unused}{used}", "unused.py"), memory=memory)
    for moved in (
        f"import torch\n{unused}from torch import nn\n{taken}{used}",
        f"import torch\nfrom torch import nn\n{unused}{taken}{used}",
    ):
        started.clear()
        report = check(from_text(moved, "unused.py"), memory=memory)
        assert whole(report) == whole(check(from_text(moved, "unused.py")))
        assert started


LINES = st.lists(
    st.tuples(
        st.sampled_from(("blank", "comment", "statement", "delete", "behind", "swap")),
        st.integers(0, 200),
        st.integers(0, 200),
    ),
    min_size=1,
    max_size=6,
)


@settings(max_examples=60)
@given(st.sampled_from(PROGRAMS), LINES)
def test_wherever_lines_move_a_memory_says_what_a_fresh_check_says(
    path: Path, typed: list[tuple[str, int, int]]
) -> None:
    memory = Memory()
    lines = path.read_text().split("\n")
    source = from_text("\n".join(lines), path.name)
    check(source, memory=memory)
    for what, where, other in typed:
        at, there = where % len(lines), other % len(lines)
        indent = lines[at][: len(lines[at]) - len(lines[at].lstrip())]
        if what == "delete" and len(lines) > 1:
            del lines[at]
        elif what == "behind":
            lines[at] += "  # remark"
        elif what == "swap":
            lines[at], lines[there] = lines[there], lines[at]
        else:
            text = {"blank": "", "comment": "# remark `x`", "statement": f"seen_{there} = {there}"}.get(what, "pass")
            lines.insert(at, indent + text)
        source = from_text("\n".join(lines), path.name, before=source)
        assert whole(check(source, memory=memory)) == whole(check(from_text(source.text, path.name)))


CALLS = (
    "class Some(Trainer):",
    "    def step(self, loss):",
    "        self.fit(loss)",
    "    def fit(self, batches):",
    "def helper(model, batch):",
    "    return other(model, batch)",
    "    count = 1",
    "    model = nn.Linear(2, count)",
    "    for batch in range(count):",
    "        loss.detach_()",
    "    batch.model.step()",
    "    Trainer(model).losses = None",
    "if LIMIT > 2:",
    "    pass",
    "",
)


@settings(max_examples=150)
@given(
    st.lists(
        st.tuples(st.sampled_from(CALLS), st.integers(0, 100), st.sampled_from(("insert", "insert", "put", "delete"))),
        min_size=1,
        max_size=8,
    )
)
def test_an_index_that_takes_over_says_what_a_fresh_one_says(typed: list[tuple[str, int, str]]) -> None:
    lines = LIBRARY.split("\n")
    source = from_text(LIBRARY, "library.py")
    for text, where, what in typed:
        at = where % len(lines)
        lines[at : at + (what != "insert")] = [] if what == "delete" and len(lines) > 1 else [text]
        source = from_text("\n".join(lines), "library.py", before=source)
        assert indexed(source) == indexed(from_text(source.text, "library.py"))


def indexed(source: Source) -> tuple[object, ...]:
    """All that the index of a file tells of it."""
    index = index_of(source)
    bodies = [
        (body.name, index.calls.closure(body), index.calls.reach(body.facts, body.owner and body.owner.name))
        for body in index.defined.bodies
    ]
    leads = [index.numbers.leads_to(name) for name in ("batch", "count", "loss", "model", "LIMIT")]
    return bodies, index.numbers.tested, index.numbers.steering, leads, index.defined.callables, index.defined.top


def whole(report: Report) -> tuple[object, ...]:
    """All that a report says, with the events that it says it of."""
    found = [*report.findings, *report.suppressed, *report.elsewhere]
    said = [(one.help, one.notes, one.facts) for one in found]
    shows = report.interpretation
    tapes = [
        (tape.started, tape.events, tape.untried, [way.events for way in tape.beyond], tape.complete)
        for tape in shows.tapes
    ]
    return shown(report), said, tapes, shows.mistakes, shows.gaps, shows.entries, limits_of(report)


def test_what_is_half_typed_is_run_once(started: list[str]) -> None:
    memory = Memory()
    line = "    (weight * batch).sum().backward()\n"
    ran = []
    for typed in ("rest =", "rest = ", "rest = (1 +", "rest = 1"):
        text = LIBRARY.replace(line, f"{line}    {typed}\n")
        started.clear()
        report = check(from_text(text, "library.py"), memory=memory)
        ran.append("other" in started)
        assert shown(report) == shown(check(from_text(text, "library.py")))
    assert ran == [True, False, False, True]


@pytest.mark.parametrize(
    "before, after",
    [
        ("class Other:\n    size = 1\n", "class Other:\n    size = 1\n    unheard_of\n"),
        ("def unused(x=None):", "def unused(x=unheard_of):"),
        ("def unused(x=None):", "@unheard_of\ndef unused(x=None):"),
    ],
)
def test_what_a_definition_runs_that_nobody_comes_to_is_told(before: str, after: str) -> None:
    text = LIBRARY + "\n\nclass Other:\n    size = 1\n\n\ndef unused(x=None):\n    return x\n"
    memory = Memory()
    check(from_text(text, "library.py"), memory=memory)
    edited = text.replace(before, after)
    report = check(from_text(edited, "library.py"), memory=memory)
    mistakes = check(from_text(edited, "library.py")).interpretation.mistakes
    assert mistakes and report.interpretation.mistakes == mistakes


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many tapes were judged, each time that any were."""
    counts: list[int] = []
    judge = checking.judge

    def spy(tapes, **named):  # type: ignore[no-untyped-def]
        counts.append(len(tapes))
        return judge(tapes, **named)

    monkeypatch.setattr(checking, "judge", spy)
    return counts


def test_a_tape_that_says_the_same_is_not_judged_again(judged: list[int]) -> None:
    memory = Memory()
    first = check(from_text(LIBRARY, "library.py"), memory=memory)
    judged.clear()
    line = "    weight = torch.zeros(3, requires_grad=True)\n"
    same = LIBRARY.replace(line, line[:-1] + "; count = 0\n")
    again = check(from_text(same, "library.py"), memory=memory)
    assert judged == [] and shown(again) == shown(first)
    other = LIBRARY.replace("(weight * batch)", "(weight / batch)")
    report = check(from_text(other, "library.py"), memory=memory)
    assert judged and shown(report) == shown(check(from_text(other, "library.py")))


def test_a_name_that_is_being_typed_is_not_judged_with_each_letter(judged: list[int]) -> None:
    memory = Memory()
    line = "    weight = torch.zeros(3, requires_grad=True)\n"
    counts = []
    for typed in ("f", "fo", "foun", "found"):
        judged.clear()
        text = LIBRARY.replace(line, f"{line}    {typed}\n")
        report = check(from_text(text, "library.py"), memory=memory)
        counts.append(len(judged))
        assert shown(report) == shown(check(from_text(text, "library.py")))
    assert counts[0] and counts[1:] == [0, 0, 0]


def test_a_memory_is_bounded_whatever_the_files_hold() -> None:
    memory = Memory(Starts(most_events=2_000), checking.Verdicts(most=60))
    quiet = "import torch\n" + "x = 1\n" * 500
    for number in range(60):
        check(from_text(quiet, f"quiet_{number}.py"), memory=memory)
        check(from_text(LIBRARY, f"library_{number}.py"), memory=memory)
    assert 0 < len(memory.starts._kept) < 90
    assert 0 < len(memory.verdicts._kept) < 90
    again = check(from_text(LIBRARY, "library_0.py"), memory=memory)
    assert shown(again) == shown(check(from_text(LIBRARY, "library_0.py")))
