"""`tapecheck graph`: the picture is well-formed and says of each line what the ledger says of its nodes."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tapecheck.check import check
from tapecheck.cli import main
from tapecheck.report import Checked, graph, html, peak
from tapecheck.source import from_text
from tapecheck.tape import Backward, Measure, Site, Span, write_tape
from tests.cli.test_check import TWICE, notebook
from tests.cli.test_fix import here  # noqa: F401

SHARED = """\
import torch

w = torch.ones(3, requires_grad=True)
a = torch.tanh(w * 2)
first = (a * a).sum()
second = (a < 0).sum() + a.exp().sum()  # a & "b" ]]>
first.backward(retain_graph=True)
second.backward()
first.backward()
"""
LOOP = """\
import torch

cell = torch.nn.GRUCell(3, 3)
h = torch.zeros(1, 3)
for step in range(4):
    h = cell(torch.ones(1, 3), h)
    h.sum().backward(retain_graph=True)
"""
NAME = "{http://www.w3.org/2000/svg}"


def drawn(capsys: pytest.CaptureFixture[str], *arguments: str) -> ElementTree.Element:
    assert main(["graph", *arguments]) == 0
    return ElementTree.fromstring(capsys.readouterr().out)


CALLED = """import torch
w = torch.ones(3, requires_grad=True)

def forward(x):
    return w * x

for _ in range(2):
    x = torch.ones(3)
    out = forward(x)
    loss = out.sum()
    loss.backward()
"""


def boxes(picture: ElementTree.Element) -> list[list[tuple[str, str]]]:
    """The first row of each box and what it says of its tensors, one list for each call."""
    panels = []
    for panel in picture.iter(f"{NAME}g"):
        if "transform" in panel.attrib:
            texts = [[row.text or "" for row in box.iter(f"{NAME}text")] for box in panel.findall(f"{NAME}g")]
            panels.append([(rows[0], rows[2].partition(" · ")[0]) for rows in texts])
    return panels


def test_lines_say_what_each_call_does_to_their_tensors(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "train.py").write_text(SHARED)
    first, second, third = boxes(drawn(capsys, "train.py"))
    assert first == [
        ("4  a = torch.tanh(w * 2)", "kept: retain_graph=True"),
        ("5  first = (a * a).sum()", "kept: retain_graph=True"),
    ]
    assert [(row.split()[0], what) for row, what in second] == [("4", "walked before"), ("6", "freed by this call")]
    # The third call finds freed what the second one walked.
    assert {row.split()[0]: what for row, what in third}["4"] == "already freed: this call raises"
    assert [len(panel) for panel in boxes(drawn(capsys, "train.py", "--line", "8"))] == [2]


def test_a_loop_that_builds_on_itself_is_drawn(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "train.py").write_text(LOOP)
    picture = drawn(capsys, "train.py")
    headings = [text.text or "" for text in picture.iter(f"{NAME}text") if text.get("class") == "t"]
    assert headings[0].startswith("train.py: dry run") and headings[1].startswith("line 7: backward, iteration")
    height = float(picture.attrib["height"])
    assert all(float(box.attrib["y"]) < height for box in picture.iter(f"{NAME}rect") if "y" in box.attrib)


def test_a_recorded_tape_and_a_notebook_are_drawn(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "train.py").write_text(TWICE)
    (tape, *_) = check(from_text(TWICE, "train.py")).interpretation.tapes
    with (here / "run.tape").open("w") as file:
        write_tape(tape, file)
    recorded = boxes(drawn(capsys, "run.tape"))
    assert recorded == boxes(drawn(capsys, "train.py")) and len(recorded) == 2
    (here / "train.ipynb").write_text(notebook(TWICE))
    assert len(boxes(drawn(capsys, "train.ipynb"))) == 2


def test_a_page_instead_of_a_picture_to_a_file(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "train.py").write_text(TWICE)
    assert main(["graph", "--output-format", "html", "-o", "out/graph.html", "train.py"]) == 0
    assert re.match(r"<!doctype html>", (here / "out" / "graph.html").read_text(), re.IGNORECASE)
    assert capsys.readouterr().out == ""


def test_nothing_to_draw_and_nothing_to_read(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "empty.py").write_text("x = 1\n")
    said = [text.text for text in drawn(capsys, "empty.py").iter(f"{NAME}text")]
    assert said == ["empty.py: dry run", "No backward call was reached."]
    assert main(["graph", "gone.py"]) == 2
    assert "gone.py" in capsys.readouterr().err


def test_a_terminal_is_not_filled_with_markup(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "train.py").write_text("import torch\n")
    with monkeypatch.context() as patch:
        patch.setattr("sys.stdout.isatty", lambda: True)
        assert main(["graph", "train.py"]) == 2
        assert main(["graph", "train.py", "-o", "train.svg"]) == 0
    out, err = capsys.readouterr()
    assert not out and "write it with `-o train.svg`" in err and (here / "train.svg").exists()


def test_around_a_line_only_what_it_has_a_part_in_is_drawn(tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    report = check(from_text(SHARED, str(file)))
    tape, said = graph.chosen(report.interpretation.tapes)
    data = html.data_of(html.Run(Checked(str(file), report.findings), tape, report.source, said))
    calls = {5: [7, 9], 6: [8], 4: [7, 8, 9], 8: [8], 2: [7, 8, 9]}
    for line, expected in calls.items():
        picture = ElementTree.fromstring(graph.draw(data, around=(str(file), line)))
        heads = [text.text or "" for text in picture.iter(f"{NAME}text") if (text.text or "").startswith("line ")]
        assert [int(head.split()[1].rstrip(":")) for head in heads] == expected, line
        here = [box.get("class") for box in picture.iter(f"{NAME}rect") if "here" in (box.get("class") or "").split()]
        assert len(here) == (len(expected) if line in (4, 5, 6) else 0), line


def test_at_a_call_the_boxes_of_what_it_built_are_marked(tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    report = check(from_text(CALLED, str(file)))
    tape, said = graph.chosen(report.interpretation.tapes)
    data = html.data_of(html.Run(Checked(str(file), report.findings), tape, report.source, said))
    for line, marked in {5: ["5"], 9: ["5"], 10: ["10"], 11: []}.items():
        picture = ElementTree.fromstring(graph.draw(data, around=(str(file), line)))
        boxes = [box for box in picture.iter(f"{NAME}g") if box.get("class") == "g"]
        here = [box for box in boxes if "here" in box[1].get("class", "").split()]
        assert [box.get("data-at", "").split(":")[1] for box in here] == marked, line


def test_a_picture_shows_what_a_run_measured(tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    file.write_text(LOOP)
    at = Span(str(file), 6, 9, 6, 36)
    tape = check(from_text(LOOP, str(file))).interpretation.tapes[0]
    call = next(event for event in tape.events if isinstance(event, Backward))
    measured = [Measure(call.at, "alive:backward", call.id, "calls"), Measure(Site(at), "alive-saved", 4096, "bytes")]
    kinds = [Measure(call.at, f"alive-bytes:{kind}", 1, "bytes") for kind in peak.KINDS]
    tape.events[-1:-1] = [measured[0], *kinds, measured[1]]
    picture = graph.draw(html.data_of(html.Run(Checked(str(file)), tape, from_text(LOOP, str(file)))))
    assert picture.count("4.1 kB") == 1


@pytest.mark.parametrize(("loop", "said"), [("range(2)", "dry run"), ("range(90)", "dry run, first iterations")])
def test_a_loop_that_the_dry_run_left_early_is_not_counted_as_the_program_s(
    here: Path, capsys: pytest.CaptureFixture[str], loop: str, said: str
) -> None:
    body = "import torch\nw = torch.ones(3, requires_grad=True)\nfor step in {}:\n    (w * w).sum().backward()\n"
    (here / "train.py").write_text(body.format(loop))
    heads = [text.text or "" for text in drawn(capsys, "train.py").iter(f"{NAME}text") if text.get("class") == "t"]
    assert heads[0].startswith(f"train.py: {said}") and ("," in said) == ("," in heads[0])


def test_a_long_headline_is_wrapped_and_the_rest_makes_room(tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    file.write_text(LOOP)
    tape = check(from_text(LOOP, str(file))).interpretation.tapes[0]
    short = ElementTree.fromstring(graph.draw(html.data_of(html.Run(Checked(str(file)), tape))))
    ending = "the script ended with an exception: " + "RuntimeError: nothing fits on one line; " * 4
    picture = ElementTree.fromstring(graph.draw(html.data_of(html.Run(Checked(str(file)), tape, None, ending))))
    heads = [text for text in picture.findall("{*}text") if text.get("class") == "t"]
    assert " ".join(str(head.text) for head in heads) == f"train.py: {ending}".strip()
    assert len(heads) > 1
    assert int(picture.attrib["height"]) - int(short.attrib["height"]) == 18 * (len(heads) - 1)
    assert all(9 * len(str(head.text)) <= int(picture.attrib["width"]) - 48 for head in heads)
