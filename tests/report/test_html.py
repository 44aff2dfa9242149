"""The page of a recorded run: what is on it, that nothing in a program can break out of it, and a real browser."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path
from typing import Any, Literal

import pytest

from tapecheck.fixes import Edit, Fix
from tapecheck.record.ranks import merge
from tapecheck.report import Checked, html, peak
from tapecheck.rules.finding import Evidence, Finding, Label
from tapecheck.rules.graph_kept.facts import GraphKeptFacts
from tapecheck.tape import (
    Backward,
    End,
    Hold,
    Iteration,
    Leaf,
    Loop,
    LoopEnd,
    Measure,
    Node,
    Raised,
    Root,
    Saved,
    Site,
    Span,
    Started,
    Tape,
)

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
EVIL = "x = '</script><script>document.title = 1</script><!-- \u2028'"


def page(folder: Path, iterations: int = 3, nodes: int = 4) -> html.Run:
    path = folder / "train.py"
    path.write_text(f"for step in data:\n    h = model(x, h)\n    loss = h.sum()\n    loss.backward()\n{EVIL}\n")
    file = str(path)

    def at(line: int, index: int) -> Site:
        return Site(Span(file, line, 5, line, 20), iteration=((1, index),))

    tape = Tape("test", [Loop(1, Site(Span(file, 1, 1, 1, 18)))])
    number = 0
    for index in range(1, iterations + 1):
        tape.events.append(Iteration(1, index))
        for _ in range(nodes - 1):
            number += 1
            saved = (Saved(number, 0, "result"),)
            inputs = (number - 1,) if number > 1 else ()
            tape.events.append(Node(number, "TanhBackward0", at(2, index), inputs, saved, "yes"))
        number += 1
        tape.events.append(Node(number, "SumBackward0", at(3, index), (number - 1,)))
        retain: Literal["yes", "no"] = "no" if index == iterations else "yes"
        tape.events.append(Backward(index, at(4, index), "backward", (Root(number),), retain=retain))
        tape.events.append(Measure(at(1, index), "live-nodes", float(number), "nodes"))
        tape.events.append(Measure(at(1, index), "live-saved-bytes", 100.0 * number, "bytes"))
    tape.events.append(Raised(at(4, iterations), "RuntimeError", "it broke", backward=iterations))
    tape.events.append(End("raised", "RuntimeError: it broke"))
    span = Span(file, 4, 5, 4, 20)
    evidence = Evidence("confirmed", "raised in iteration 3 <b>", 3, {"nodes": [1, 2, 3], "iterations": [1, 2, 3]})
    label = Label(Span(file, 2, 5, 2, 20), "built here", "built")
    finding = Finding("TAPE101", "backward-twice", "error", span, "walks & fails\na note", "detach", (label,),
                      evidence=evidence)  # fmt: skip
    return html.Run(Checked(file, [finding]), tape, None, "the script ended with an exception")


def data_of(text: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    data: dict[str, Any] = json.loads(found[1])
    return data


def test_the_page_holds_the_run_and_nothing_from_elsewhere(tmp_path: Path) -> None:
    text = html.render(page(tmp_path))
    data = data_of(text)
    (rank,) = data["ranks"]
    assert [call["nodes"] for call in rank["calls"]] == [4, 8, 12]
    counts = [(call["freed"], call["kept"], call["reused"]) for call in rank["calls"]]
    assert counts == [(0, 3, 0), (0, 6, 3), (9, 0, 6)]
    assert rank["calls"][2]["raised"] == "it broke" and rank["calls"][1]["when"] == [[1, 2]]
    shape = data["shapes"][rank["calls"][1]["shape"]]
    assert [(group["at"][1], group["nodes"], group["state"]) for group in shape["groups"]] == [
        (2, 6, "reused"), (3, 2, ""),
    ]  # fmt: skip
    assert [entry["nodes"] for entry in rank["alive"]] == [4, 8, 12] and rank["alive"][2]["bytes"] == 1200
    assert data["findings"][0]["verdict"] == "confirmed" and data["files"][0]["lines"][4] == EVIL
    assert text.count("</script>") == 2, "the program's own text ends no element"
    assert not re.search(r'(src|href)="|url\(|@import|fetch\(', text), "nothing is loaded"


def test_graphs_that_look_the_same_are_kept_once(tmp_path: Path) -> None:
    run = page(tmp_path, 3)
    last = run.tape.events[-1]
    del run.tape.events[-2:]
    site = Site(Span(run.checked.path, 2, 5, 2, 20))
    for number in range(1000, 3000):
        run.tape.events.append(Node(number, "TanhBackward0", site, (), (Saved(number, 0, "result"),), "yes"))
        run.tape.events.append(Backward(number, site, "backward", (Root(number),)))
    run.tape.events.append(last)
    data = data_of(html.render(run))
    assert len(data["ranks"][0]["calls"]) == 2003 and len(data["shapes"]) <= 4


def browsed(folder: Path, text: str) -> str:
    """The page as a browser has made it."""
    file = folder / "page.html"
    file.write_text(text, encoding="utf-8")
    done = subprocess.run(
        [str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--dump-dom",
         f"--user-data-dir={folder / 'profile'}", "--virtual-time-budget=3000", file.as_uri()],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert "<title>Tapecheck: train.py</title>" in done.stdout, done.stderr[-2000:]
    assert "Uncaught" not in done.stderr
    return done.stdout


@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
def test_a_browser_draws_the_page(tmp_path: Path) -> None:
    drawn = browsed(tmp_path, html.render(page(tmp_path, 60, 50)))
    assert "raised in iteration 3 &lt;b&gt;" in drawn
    assert drawn.count('class="node"') == 2, "two source lines built the graph of the call that is shown"
    assert re.search(r"line 2: [\d,]+ nodes", drawn) and "built here" in drawn
    assert "iteration 60 of the loop on line 1" in drawn


WATCHED = """<script>
const kept = { text: [], bar: [] }, of = CanvasRenderingContext2D.prototype, { fillText, fillRect } = of;
const calls_ = (g) => g.canvas.id === "calls";
of.fillText = function (text, x, y) { if (calls_(this)) kept.text.push([text, x]); fillText.call(this, text, x, y); };
of.fillRect = function (x, y, w, h) { if (calls_(this) && h > 4) kept.bar.push(x); fillRect.call(this, x, y, w, h); };
addEventListener("load", () => {
  kept.text.length = kept.bar.length = 0;
  showCalls();
  document.body.dataset.kept = JSON.stringify(kept);
});
</script></head>"""


@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
def test_the_numbers_of_calls_stand_under_their_bars(tmp_path: Path) -> None:
    drawn = browsed(tmp_path, html.render(page(tmp_path, 5)).replace("</head>", WATCHED, 1))
    found = re.search(r'data-kept="([^"]*)"', drawn)
    assert found is not None
    kept = json.loads(unescape(found[1]))
    last = max(kept["bar"])
    assert [x for text, x in kept["text"] if text == "5" and x == pytest.approx(last, abs=1)], kept
    assert "call 5: " in drawn and "not on the tape" not in drawn.partition("<script>")[0]


@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
def test_calls_that_are_not_on_the_tape_are_said_to_have_been(tmp_path: Path) -> None:
    run = page(tmp_path)
    at = Site(Span(run.checked.path, 4, 5, 4, 20), iteration=((1, 3),))
    run.tape.events[-2:] = [
        Measure(at, "passed-calls", 57, "calls"), LoopEnd(1, 60), Hold(at, 1, 3, "losses", (4, 8)), End("finished"),
    ]  # fmt: skip
    facts = GraphKeptFacts(holder="losses")
    measured: dict[str, Any] = {"nodes": [4, 8], "iterations": [2, 3]}
    run.checked.findings[:] = [
        Finding("TAPE201", "graph-kept-across-iterations", "warning", at.span, "`losses` keeps", "", (), facts=facts,
                evidence=Evidence("confirmed", "kept", 3, measured))
    ]  # fmt: skip
    shown = browsed(tmp_path, html.render(run)).partition('<script type="application/json"')[0]
    assert "call 3 of 60: " in shown
    assert "The run went on: the 57 calls after it were like those before and are not on the tape." in shown
    assert "4 to 8 nodes, iterations 2 to 3 of 60" in shown
    assert "alive after iteration 3 of the loop on line 1, the last of 60 that was looked at:" in shown


def test_calls_have_the_device_time_of_their_iterations(tmp_path: Path) -> None:
    run = page(tmp_path)
    at = Site(Span(str(tmp_path / "train.py"), 1, 1, 1, 18), iteration=((1, 2),))
    run.tape.events.insert(-1, Measure(at, "device-time", 12.3456, "ms"))
    assert [call.get("device") for call in data_of(html.render(run))["ranks"][0]["calls"]] == [None, 12.346, None]


def test_calls_and_iterations_stand_where_they_were_in_the_run(tmp_path: Path) -> None:
    run = page(tmp_path)
    at = Site(Span(run.checked.path, 4, 5, 4, 20), iteration=((1, 41),))
    tape = run.tape
    tape.events[-2:-2] = [
        Node(50, "TanhBackward0", at, (), (Saved(50, 0, "result"),), "yes"), Backward(41, at, "backward", (Root(50),)),
        Measure(Site(Span(run.checked.path, 1, 1, 1, 18), iteration=((1, 21),)), "live-nodes", 4, "nodes"),
        Measure(at, "passed-calls", 60, "calls"),
    ]  # fmt: skip
    (rank,) = data_of(html.render(run))["ranks"]
    assert [call["number"] for call in rank["calls"]] == [1, 2, 3, 41] and rank["total"] == 64
    assert [(entry["index"], entry["call"]) for entry in rank["alive"]] == [(1, 1), (2, 2), (3, 3), (21, 21)]


def test_the_page_tells_memory_by_kind_and_line(tmp_path: Path) -> None:
    run = page(tmp_path)
    call, line = Site(Span(run.checked.path, 4, 5, 4, 20), iteration=((1, 2),)), Span(run.checked.path, 2, 5, 2, 20)
    kinds = {"parameters": 8, "gradients": 4, "optimizer": 2, "saved": 100, "other": 1}
    run.tape.events[-2:-2] = [
        Measure(call, "alive:backward", 2, "calls"),
        *(Measure(call, f"alive-bytes:{kind}", size, "bytes") for kind, size in kinds.items()),
        Measure(Site(line), "alive-line", 100, "bytes"),
    ]
    (held,) = data_of(html.render(run))["ranks"][0]["held"]
    assert {kind: held[kind] for kind in kinds} == kinds
    assert held["moment"] == "backward" and held["call"] == 2 and held["when"] == [[1, 2]]
    assert held["lines"] == [[[0, 2, 5, 2, 20], 100]] and held["peak"]
    (row,) = peak.rows(run.tape)
    assert (row["bytes"], row["row"], row["iterations"]) == (115, 4, [{"row": 1, "iteration": 2}])
    assert row["lines"] == [{"filename": run.checked.path, "cell": None, "row": 2, "bytes": 100}]


def test_the_page_draws_what_a_holder_kept_and_the_fix(tmp_path: Path) -> None:
    run = page(tmp_path)
    store = Span(run.checked.path, 3, 5, 3, 19)
    site = Site(store, iteration=((1, 3),))
    run.tape.events.insert(-2, Hold(site, 1, 3, "losses", (4, 8, 12)))
    kept = Finding("TAPE201", "graph-kept-across-iterations", "warning", store, "`losses` keeps", "", (),
                   facts=GraphKeptFacts(holder="losses"))  # fmt: skip
    fix = Fix("Store `loss` detached", "safe", (Edit(store, "loss = 1"),), "nothing")
    run.checked.findings[:] = [kept]
    run.checked.fixes[:] = [[fix]]
    (finding,) = data_of(html.render(run))["findings"]
    assert [row["index"] for row in finding["kept"]["rows"]] == [3, 2, 1]
    assert [(group["at"][1], group["nodes"]) for group in finding["kept"]["rows"][0]["groups"]] == [(3, 1), (2, 3)]
    # Each iteration's chain goes on in the one before.
    assert [0, 0, 0, 1] in finding["kept"]["edges"] and [0, 1, 1, 0] in finding["kept"]["edges"]
    assert [(sign, number) for sign, number, _ in finding["fixes"][0]["diff"]] == [
        (" ", 2), ("-", 3), ("+", 3), (" ", 4),
    ]  # fmt: skip


def test_the_page_of_several_ranks_has_each(tmp_path: Path) -> None:
    run = page(tmp_path)
    other = Tape("test", [Started("python train.py", "torch 9", 5.0), *page(tmp_path, 2).tape.events])
    at = Site(Span(run.checked.path, 1, 1, 1, 18))
    other.events[1:1] = [Leaf(900, "w", at, 900, True), Measure(at, "never-a-gradient:900", 7, "steps")]
    data = data_of(html.render(html.Run(run.checked, merge({0: run.tape, 1: other}))))
    assert [(rank["rank"], [call["number"] for call in rank["calls"]]) for rank in data["ranks"]] == [
        (0, [1, 2, 3]), (1, [1, 2]),
    ]  # fmt: skip
    assert [(one["name"], one["steps"]) for one in data["ranks"][1]["untrained"]] == [("w", 7)]
    assert data["about"] == {"command": "python train.py", "versions": "torch 9", "time": 5.0}
