"""The options that say how `tapecheck check` reports, and what makes it fail."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from tests.cli.test_check import MEANT_TWICE, ONCE, TWICE, tapecheck, write

RETAINED = TWICE.removesuffix("loss.backward()\nloss.backward()\n") + "loss.backward(retain_graph=True)\n"


@pytest.mark.parametrize(
    ("name", "start"),
    [
        ("concise", b"train.py:6:1: error[TAPE101] [?] "),
        ("github", b"::error title=Tapecheck (TAPE101 backward-twice),file=train.py,line=6,endLine=6,col=1,"),
        ("gitlab", b'[\n  {\n    "type": "issue"'),
        ("sarif", b'{\n  "$schema": "https://docs.oasis-open.org/'),
        ("junit", b"<?xml version="),
        ("json-lines", b'{"code": "TAPE101", '),
    ],
)
def test_every_format_is_written(tmp_path: Path, name: str, start: bytes) -> None:
    write(tmp_path, train=TWICE)
    done = tapecheck("check", "--output-format", name, "train.py", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (1, b"")
    assert done.stdout.startswith(start)


def test_the_report_goes_to_a_file(tmp_path: Path) -> None:
    write(tmp_path, train=TWICE)
    done = tapecheck("check", "--output-format", "sarif", "-o", "out/report.sarif", "train.py", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, b"")
    report = tmp_path / "out" / "report.sarif"
    assert json.loads(report.read_text())["runs"][0]["results"]
    assert [path.name for path in report.parent.iterdir()] == ["report.sarif"]
    report.chmod(0o600)
    tapecheck("check", "--output-file", str(report), "train.py", cwd=tmp_path, FORCE_COLOR="1")
    assert report.read_text().startswith("error[TAPE101]: ")
    assert stat.S_IMODE(report.stat().st_mode) == 0o600
    failed = tapecheck("check", "-o", "train.py/x", "train.py", cwd=tmp_path)
    assert failed.returncode == 2 and b"cannot write train.py/x: " in failed.stderr


@pytest.mark.skipif(not Path("/dev/stdout").exists(), reason="no such device")
def test_the_report_goes_to_a_device(tmp_path: Path) -> None:
    write(tmp_path, train=TWICE)
    done = tapecheck("check", "--output-format", "concise", "-o", "/dev/stdout", "train.py", cwd=tmp_path)
    assert done.returncode == 1 and done.stdout.startswith(b"train.py:6:1: error[TAPE101]")
    assert tapecheck("check", "-o", "/dev/null", "train.py", cwd=tmp_path).stdout == b""
    assert Path("/dev/null").is_char_device()


def test_what_fails_is_chosen(tmp_path: Path) -> None:
    write(tmp_path, train=RETAINED)
    assert b"info[TAPE301]" in tapecheck("check", "train.py", cwd=tmp_path).stdout
    for level, status in (("error", 0), ("warning", 0), ("info", 1), ("hint", 1), ("never", 0)):
        assert tapecheck("check", "--fail-on", level, "train.py", cwd=tmp_path).returncode == status, level
    assert tapecheck("check", "--exit-zero", "train.py", "gone.py", cwd=tmp_path).returncode == 0
    wrong = tapecheck("check", "--fail-on", "fatal", "train.py", cwd=tmp_path)
    assert wrong.returncode == 2 and b"invalid choice: 'fatal'" in wrong.stderr


def test_quiet_leaves_out_the_summary(tmp_path: Path) -> None:
    write(tmp_path, train=TWICE, fine=ONCE)
    assert tapecheck("check", "-q", "fine.py", cwd=tmp_path).stdout == b""
    told = tapecheck("check", "--quiet", "train.py", cwd=tmp_path).stdout
    assert told.startswith(b"error[TAPE101]") and b"Found" not in told
    (tmp_path / "empty").mkdir()
    assert tapecheck("check", "-q", "empty", cwd=tmp_path).stderr == b""


def test_statistics_instead_of_findings(tmp_path: Path) -> None:
    write(tmp_path, a=MEANT_TWICE, b=MEANT_TWICE, c=RETAINED)
    done = tapecheck("check", "--statistics", ".", cwd=tmp_path)
    assert done.stdout.decode().splitlines() == [
        "2  TAPE101  [*]  backward-twice",
        "1  TAPE301  [*]  needless-retain-graph",
        "[*] all have a safe fix (`--fix`), [-] some have, [ ] none has",
    ]
    assert done.returncode == 1
    counted = json.loads(tapecheck("check", "--statistics", "--output-format", "json", ".", cwd=tmp_path).stdout)
    assert [(row["code"], row["count"], row["fixable"]) for row in counted] == [("TAPE101", 2, 2), ("TAPE301", 1, 1)]
    wrong = tapecheck("check", "--statistics", "--output-format", "sarif", ".", cwd=tmp_path)
    assert wrong.returncode == 2 and b"not as sarif" in wrong.stderr
