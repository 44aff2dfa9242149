"""`tapecheck diff --html`: the page, what it draws, and that nothing of a program gets out of its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from tapecheck.cli.main import main
from tapecheck.tape import End, Loop, Measure, Raised, Site, Span, Started, Tape, write_tape


def tape(folder: Path, name: str, growth: int) -> str:
    at = Site(Span("<b>.py", 2, 1, 2, 9), iteration=((1, 1),))
    events = Tape("test", [Started("python <b>.py", "torch 9", 1.0), Loop(1, Site(Span("<b>.py", 1, 1, 1, 9)))])
    for call in (1, 2, 3):
        site = Site(at.span, iteration=((1, call),))
        events.events.append(Measure(site, "alive:iteration", call, "calls"))
        events.events += [
            Measure(site, f"alive-bytes:{kind}", 1000 + growth * call, "bytes") for kind in ("parameters", "saved")
        ]
    events.events.append(Raised(at, "RuntimeError", "it & broke") if growth else End("finished"))
    path = folder / name
    with path.open("w") as file:
        write_tape(events, file)
    return str(path)


def test_the_page_draws_both_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = tape(tmp_path, "a.tape", 500), tape(tmp_path, "b.tape", 0)
    page = tmp_path / "page.html"
    assert main(["diff", a, b, "--html", str(page)]) == 1
    text = page.read_text()
    assert "The runs differ." in text and "The runs differ." in capsys.readouterr().out
    # Two lines with three points each, and the one that grows ends at the top.
    assert text.count("<circle") == 6 and "5.0 kB" in text
    assert "<b>.py" not in text and "&lt;b&gt;.py" in text and "<script" not in text
    assert "RuntimeError on line 2" in text


def test_the_page_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a = tape(tmp_path, "a.tape", 0)
    assert main(["diff", a, a, "--output-format", "html"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("<!DOCTYPE html>") and "The runs show the same." in out
    assert out.rstrip().endswith("</html>")


def test_what_a_holder_keeps_counts_as_alive(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    at = Site(Span("train.py", 2, 1, 2, 9), iteration=((1, 21),))
    measured = [
        Measure(at, "live-nodes", 78, "nodes"), Measure(at, "live-saved-bytes", 2_143_232, "bytes"),
        Measure(at, "held-nodes:history", 120, "nodes"), Measure(at, "held-bytes:history", 3_297_280, "bytes"),
    ]  # fmt: skip
    for name, events in (("a.tape", measured), ("b.tape", [])):
        with (tmp_path / name).open("w") as file:
            write_tape(Tape("test", [*events, End("finished")]), file)
    main(["diff", str(tmp_path / "a.tape"), str(tmp_path / "b.tape")])
    out = capsys.readouterr().out
    assert "* most nodes alive after an iteration: 120 | not measured\n" in out
    assert "* most saved bytes alive after an iteration: 3.3 MB | not measured\n" in out
