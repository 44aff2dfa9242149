"""The page of a recorded run: what is on it, that nothing in a program can break out of it, and a real browser."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, Literal

import pytest

from tapecheck.report import Checked, html
from tapecheck.rules.finding import Evidence, Finding, Label
from tapecheck.tape import Backward, End, Iteration, Loop, Measure, Node, Raised, Root, Saved, Site, Span, Tape

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
    assert [call["nodes"] for call in data["calls"]] == [4, 8, 12]
    counts = [(call["freed"], call["kept"], call["reused"]) for call in data["calls"]]
    assert counts == [(0, 3, 0), (0, 6, 3), (9, 0, 6)]
    assert data["calls"][2]["raised"] == "it broke" and data["calls"][1]["when"] == [[1, 2]]
    shape = data["shapes"][data["calls"][1]["shape"]]
    assert [(group["at"][1], group["nodes"], group["state"]) for group in shape["groups"]] == [
        (2, 6, "reused"), (3, 2, ""),
    ]  # fmt: skip
    assert [entry["nodes"] for entry in data["alive"]] == [4, 8, 12] and data["alive"][2]["bytes"] == 1200
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
    assert len(data["calls"]) == 2003 and len(data["shapes"]) <= 4


@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
def test_a_browser_draws_the_page(tmp_path: Path) -> None:
    run = page(tmp_path, 60, 50)
    file = tmp_path / "page.html"
    file.write_text(html.render(run), encoding="utf-8")
    done = subprocess.run(
        [str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--dump-dom",
         f"--user-data-dir={tmp_path / 'profile'}", "--virtual-time-budget=3000", file.as_uri()],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert "<title>Tapecheck: train.py</title>" in done.stdout, done.stderr[-2000:]
    assert "Uncaught" not in done.stderr
    assert "raised in iteration 3 &lt;b&gt;" in done.stdout
    assert done.stdout.count('class="node"') == 2, "two source lines built the graph of the call that is shown"
    assert re.search(r"line 2: [\d,]+ nodes", done.stdout) and "built here" in done.stdout
    assert "iteration 60 of the loop on line 1" in done.stdout


def test_calls_have_the_device_time_of_their_iterations(tmp_path: Path) -> None:
    run = page(tmp_path)
    at = Site(Span(str(tmp_path / "train.py"), 1, 1, 1, 18), iteration=((1, 2),))
    run.tape.events.insert(-1, Measure(at, "device-time", 12.3456, "ms"))
    assert [call.get("device") for call in data_of(html.render(run))["calls"]] == [None, 12.346, None]
