"""The tape's file is the recorder's own: what a program closes, opens and removes never gets the tape, or cut."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

import tapecheck
from tapecheck.record import RunResult
from tapecheck.record.probe.descriptor import Descriptor
from tapecheck.record.probe.writer import Writer
from tapecheck.tape import Backward, End, read_tape

pytestmark = pytest.mark.skipif(os.name == "nt", reason="numbers of open files as POSIX gives them")

CLOSING = """
    import os, sys, torch

    net = torch.nn.Linear(2, 1)

    def train():
        for i in range(3):
            net(torch.ones(1, 2)).sum().backward()

    train()
    os.closerange(3, {highest})
    files = [open("file%d" % number, "w", buffering=1) for number in range({count})]
    for file in files:
        file.write("mine\\n")
    train()
    {late}
    for number, file in enumerate(files):
        file.write("still mine\\n")
        file.close()
        assert open("file%d" % number).read() == "mine\\nstill mine\\n", number
    print("done")
"""


@pytest.mark.parametrize(("highest", "count"), [(256, 3), (65536, 3), (65536, 300)])
def test_a_program_that_closes_all_files_has_its_own_to_itself(
    record: Callable[..., RunResult], highest: int, count: int
) -> None:
    result = record(CLOSING.format(highest=highest, count=count, late=""))
    assert (result.stdout, result.exit_code, result.lost) == ("done\n", 0, False), result.stderr
    assert result.backwards == 6 and result.tape.complete


def test_a_write_error_cuts_no_file_of_the_program(record: Callable[..., RunResult]) -> None:
    late = """
    import resource, signal
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
    kept = []
    for i in range(400):
        kept.append(net(torch.ones(1, 2)).sum())
        kept[-1].backward(retain_graph=True)
    """
    result = record(CLOSING.format(highest=65536, count=40, late=late.strip()))
    assert (result.stdout, result.exit_code, result.lost) == ("done\n", 0, True), result.stderr
    assert "could not be written" in result.detail


def test_the_number_is_asked_for_before_each_use(tmp_path: Path) -> None:
    descriptor = Descriptor(str(tmp_path / "tape"))
    number = descriptor.number()
    assert number > 200
    descriptor.write(b"first\n")
    other = os.open(tmp_path / "other", os.O_RDWR | os.O_CREAT)
    os.write(other, b"the program's own words\n")
    os.dup2(other, number)
    descriptor.write(b"second\n")
    assert descriptor.read(0, 100) == b"first\nsecond\n"
    descriptor.cut(6)
    descriptor.write(b"third\n")
    os.dup2(other, descriptor.number())
    # A number that is another file's by now stays open.
    descriptor.close()
    os.fstat(number)
    assert (tmp_path / "tape").read_bytes() == b"first\nthird\n"
    assert (tmp_path / "other").read_bytes() == b"the program's own words\n"
    with pytest.raises(OSError, match="closed"):
        descriptor.number()


def test_a_file_that_took_the_tapes_name_is_not_written_to(tmp_path: Path) -> None:
    writer = Writer(str(tmp_path / "tape"), "a recorder")
    file = writer._file
    assert file is not None
    os.rename(tmp_path / "tape", tmp_path / "moved")
    (tmp_path / "tape").write_text("another file\n" * 100)
    os.close(file.number())
    writer.event("End", how="finished", detail="")
    writer.flush()
    assert writer.closed and writer.failure is not None
    assert (tmp_path / "tape").read_text() == "another file\n" * 100
    assert (tmp_path / "moved").read_text() == '{"tape": 1, "producer": "a recorder"}\n'


def test_nothing_follows_the_end_of_a_tape(tmp_path: Path) -> None:
    writer = Writer(str(tmp_path / "tape"), "a recorder")
    site = writer.site("here", lambda: (["a.py", 1, 1, 1, 2], "", [], ()))
    writer.end("finished", "")
    writer.event("Iteration", loop=1, index=1)
    writer.node(1, "mul", site, (), (), "none")
    writer.flush()
    with (tmp_path / "tape").open() as file:
        assert read_tape(file).complete


def test_a_changed_directory_does_not_lose_the_tape(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    writer = Writer("tape", "a recorder")
    monkeypatch.chdir("/")
    assert writer._file is not None
    os.close(writer._file.number())
    writer.event("End", how="finished", detail="")
    writer.flush()
    with (tmp_path / "tape").open() as file:
        assert read_tape(file).complete


def test_a_block_whose_folder_is_removed_has_its_tape(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    import shutil
    import tempfile

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with tapecheck.record() as tape:
        weight = torch.ones(2, requires_grad=True)
        for path in tmp_path.iterdir():
            shutil.rmtree(path)
        (weight * 2).sum().backward()
    assert [type(event) for event in tape.events if isinstance(event, Backward)] == [Backward]
    assert isinstance(tape.events[-1], End) and tape.complete
