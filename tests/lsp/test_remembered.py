"""A session that is started anew knows the last run of a text, as long as it is that text."""

from __future__ import annotations

import pickle
import time
from pathlib import Path

import pytest

from tapecheck.lsp import remembered
from tapecheck.lsp.outcome import Outcome
from tapecheck.lsp.remembered import Remembered
from tapecheck.lsp.runs import Recording
from tapecheck.lsp.session import Analysis, Session
from tests.cli.test_cache import Trap
from tests.lsp.test_session import analysed

HELPER = "def step(loss):\n    loss.backward()\n"
PROGRAM = (
    "import torch\nfrom helper import step\nmodel = torch.nn.Linear(4, 1)\nfor _ in range(3):\n"
    "    loss = model(torch.ones(2, 4)).pow(2).mean()\n    step(loss)\n    loss.backward()\n"
)

needs_torch = pytest.mark.skipif(
    "not __import__('importlib.util').util.find_spec('torch')", reason="torch is not installed"
)


def opened(cache: Path, file: Path, text: str = "") -> tuple[Session, Analysis]:
    """A session that has just been started, and its analysis of a file."""
    session = Session(cache=str(cache))
    return session, analysed(session, text or file.read_text(), file.as_uri())


def knows(cache: Path, file: Path, text: str = "") -> bool:
    session, analysis = opened(cache, file, text)
    told = [one.message for one in session.shown(analysis)]
    assert (str(file) in session.recordings) == any("confirmed: raised" in message for message in told)
    return str(file) in session.recordings


@needs_torch
def test_a_run_is_there_again_as_long_as_nothing_has_changed(tmp_path: Path) -> None:
    cache, file, helper = tmp_path / "cache", tmp_path / "train.py", tmp_path / "helper.py"
    file.write_text(PROGRAM)
    helper.write_text(HELPER)
    first, analysis = opened(cache, file)
    first.record(first.order(str(file), [str(tmp_path)]), lambda _: None, lambda _: None, lambda: False)
    second, same = opened(cache, file)
    assert "confirmed: raised" in second.shown(same)[0].message
    assert second.shown(same) == first.shown(analysis)
    assert second.lenses(same) == first.lenses(analysis)
    picture = second.picture(same, 6, 5)
    assert picture == first.picture(analysis, 6, 5) and picture.measured.startswith("run at ")
    page = second.run_report(str(file))
    assert page is not None and page == first.run_report(str(file))

    assert knows(cache, file, PROGRAM.replace("\n", "\r\n"))
    assert not knows(cache, file, f"x = 1\n{PROGRAM}")
    assert not knows(tmp_path / "other", file)
    (kept,) = (cache / "runs").iterdir()
    data = kept.read_bytes()
    for broken in (b"", data[: len(data) // 2], b"text"):
        kept.write_bytes(broken)
        assert not knows(cache, file)
    kept.write_bytes(data)
    assert knows(cache, file)
    helper.write_text(f"# edited\n{HELPER}")
    assert not knows(cache, file), "what took part in the run is another file now"


@needs_torch
def test_of_a_long_run_the_verdicts_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remembered, "_MOST_EVENTS", 3)
    cache, file = tmp_path / "cache", tmp_path / "train.py"
    file.write_text(PROGRAM)
    (tmp_path / "helper.py").write_text(HELPER)
    first, _ = opened(cache, file)
    first.record(first.order(str(file), [str(tmp_path)]), lambda _: None, lambda _: None, lambda: False)
    second, analysis = opened(cache, file)
    assert "confirmed: raised" in second.shown(analysis)[0].message
    assert second.run_report(str(file)) is None
    assert second.picture(analysis, 6, 5).measured == ""


def test_what_is_in_the_folder_runs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    cache, file = tmp_path / "cache", tmp_path / "train.py"
    file.write_text("x = 1\n")
    runs = Remembered(str(cache))
    runs.keep(str(file), Recording("x = 1\n"))
    (kept,) = (cache / "runs").iterdir()
    session, analysis = opened(cache, file)
    assert session.outcomes[str(file)].text == "no problem seen"
    for data in (pickle.dumps(Trap()), pickle.dumps([1, 2])):
        kept.write_bytes(remembered.zlib.compress(data))
        assert runs.find(analysis.report.source, analysis.report) is None
    assert not (tmp_path / "trapped").exists()
    assert session.outcomes


def test_the_oldest_runs_give_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = Remembered(str(tmp_path))
    runs.keep("/a.py", Recording("x = 1\n", unseen=Outcome("a.py trains nothing when it is run")))
    assert not (tmp_path / "runs").exists(), "what showed nothing leaves nothing"
    monkeypatch.setattr(remembered, "_MOST_RUNS", 3)
    for number in range(6):
        runs.keep("/a.py", Recording(f"x = {number}\n"))
        time.sleep(0.02)
    assert len(list((tmp_path / "runs").iterdir())) == 3
    monkeypatch.setattr(remembered, "_MOST_BYTES", 1)
    runs.keep("/a.py", Recording("x = 7\n"))
    assert list((tmp_path / "runs").iterdir()) == []
    monkeypatch.setattr(remembered, "_LARGEST", 1)
    runs.keep("/a.py", Recording("x = 8\n"))
    assert list((tmp_path / "runs").iterdir()) == []


def test_a_folder_that_cannot_be_written_costs_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    Remembered(str(tmp_path / "file")).keep("/a.py", Recording("x = 1\n"))
    Remembered(None).keep("/a.py", Recording("x = 1\n"))
