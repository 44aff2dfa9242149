"""The smaller commands and options: files and shards, watching, progress, rules as data, version, completion."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tapecheck.cli import main
from tapecheck.rules import ALL
from tests.cli.test_check import ONCE, TWICE, write
from tests.cli.test_fix import check, here  # noqa: F401


def test_files_are_shown_and_shards_part_them(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(here, **{f"f{number}": TWICE for number in range(7)})
    (here / "tapecheck.toml").write_text('exclude = ["f6.py"]\n')
    status, out, err = check(capsys, "--show-files", ".")
    assert (status, err) == (0, "") and out.splitlines() == [f"f{number}.py" for number in range(6)]
    shards = [check(capsys, "--show-files", "--shard", f"{number}/4", ".")[1].splitlines() for number in (1, 2, 3, 4)]
    assert [len(shard) for shard in shards] == [2, 2, 1, 1]
    assert sorted(name for shard in shards for name in shard) == out.splitlines()
    status, out, _ = check(capsys, "--shard", "4/4", "--output-format", "concise", "--no-fixes", ".")
    assert status == 1 and out.splitlines()[0].startswith("f3.py:6:1: ") and len(out.splitlines()) == 2


@pytest.mark.parametrize("shard", ["0/2", "3/2", "1", "a/b", "-1/2"])
def test_a_shard_that_cannot_be_is_wrong_usage(shard: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as raised:
        main(["check", f"--shard={shard}", "."])
    assert raised.value.code == 2 and f"got '{shard}'" in capsys.readouterr().err


def test_the_name_alone_prints_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([])
    out, err = capsys.readouterr()
    assert (ended.value.code, err) == (2, "") and out.startswith("usage: tapecheck ") and "check files without" in out


def test_rules_as_data_and_as_pages(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rule", "--all", "--output-format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["code"] for row in rows] == [rule.code for rule in ALL]
    assert all(row["explanation"] and row["url"].startswith("https://") and row["examples"] for row in rows)
    main(["rule", "backward-twice", "--output-format", "json"])
    assert json.loads(capsys.readouterr().out) == rows[0]
    main(["rule", "TAPE101", "--output-format", "markdown"])
    page = (Path(__file__).parents[2] / "docs" / "rules" / "tape101-backward-twice.md").read_text()
    assert capsys.readouterr().out == page
    assert main(["rule", "--all"]) == 0
    assert capsys.readouterr().out.count("\nhttps://") == len(ALL)
    assert main(["rule", "TAPE101", "--all"]) == 2


def test_the_version_as_data(capsys: pytest.CaptureFixture[str]) -> None:
    from tapecheck import __version__

    assert main(["version", "--output-format", "json"]) == 0
    known = json.loads(capsys.readouterr().out)
    assert known["version"] == __version__ and known["torch_facts"].count(".") == 2
    main(["version"])
    assert capsys.readouterr().out.startswith(f"tapecheck {__version__} (Python ")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_get_a_script_that_knows_the_options(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("shtab")
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert "output-format" in script and "sarif" in script
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=script, text=True, check=True)


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
def test_bash_completes_what_was_begun(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("shtab")
    main(["completion", "bash"])
    script = capsys.readouterr().out
    ask = "COMP_WORDS=(tapecheck check --output-fo); COMP_CWORD=2; _shtab_tapecheck; echo ${COMPREPLY[@]}"
    done = subprocess.run(["bash", "-c", f"{script}\n{ask}"], capture_output=True, text=True, check=True)
    assert done.stdout == "--output-format\n"


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "tapecheck", *arguments]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONUNBUFFERED": "1"}


@pytest.mark.skipif(sys.platform == "win32", reason="Ctrl+C is sent as a signal")
def test_watching_checks_again_when_a_file_changes(tmp_path: Path) -> None:
    pytest.importorskip("watchfiles")
    write(tmp_path, train=ONCE)
    said = tmp_path / "said.txt"
    with said.open("wb") as log, subprocess.Popen(
        command("check", "--watch", "--no-fixes", "--output-format", "concise", "train.py"),
        cwd=tmp_path, stdout=log, stderr=log, env=environment(),
        # What runs the tests in the background may have it ignored, which is inherited.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:  # fmt: skip
        try:
            wait_for(said, "waiting for changes", 1)
            # Watching itself begins a moment after the message: the change is made until it is seen.
            deadline = time.monotonic() + 60
            while said.read_text().count("waiting for changes") < 2 and time.monotonic() < deadline:
                write(tmp_path, train=TWICE)
                time.sleep(0.5)
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 130
        finally:
            process.kill()
    text = said.read_text()
    assert text.index("No problems found (1 file checked).") < text.index("train.py:6:1: error[TAPE101]")


SLOW = """
import torch

def train(model, batches, a, b, c, d, e, f):
    for batch in batches:
        loss = model(batch)
        for other in batches:
            for third in other:
                if a: loss = loss + model(third)
                if b: loss = loss * model(other)
                if c: loss.backward(retain_graph=True)
                if d: loss = model(loss)
                if e: loss.backward()
        if f: loss.backward()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Ctrl+C is sent as a signal")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_a_check_of_many_files_and_all_its_processes(tmp_path: Path, number: int) -> None:
    for index in range(600):
        (tmp_path / f"part{index}.py").write_text(SLOW.replace("train", f"train{index}") * 3)
    out, said = tmp_path / "out.json", tmp_path / "said.txt"
    with out.open("wb") as written, said.open("wb") as log, subprocess.Popen(
        command("check", "--no-cache", "--jobs", "2", "--output-format", "json", "."),
        cwd=tmp_path, stdout=written, stderr=log, env=environment(), start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:  # fmt: skip
        try:
            deadline = time.monotonic() + 60
            while len(members(process.pid)) < 3 and time.monotonic() < deadline:
                time.sleep(0.05)
            # A terminal sends it to all processes of the command, a supervisor to the first one.
            (os.killpg if number == signal.SIGINT else os.kill)(process.pid, number)
            status = process.wait(60)
        finally:
            process.kill()
        deadline = time.monotonic() + 30
        while members(process.pid) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not members(process.pid)
    assert status == 128 + number
    assert out.read_text() == ""
    assert said.read_text() == "tapecheck: interrupted\n"


def members(group: int) -> list[int]:
    """Return the live processes of a process group."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            state, _, own = (entry / "stat").read_text().rpartition(")")[2].split()[:3]
        except (OSError, ValueError):
            continue
        if int(own) == group and state != "Z":
            found.append(int(entry.name))
    return found


def wait_for(file: Path, words: str, times: int) -> None:
    deadline = time.monotonic() + 60
    while file.read_text().count(words) < times and time.monotonic() < deadline:
        time.sleep(0.05)
    assert file.read_text().count(words) >= times


@pytest.mark.skipif(sys.platform == "win32", reason="no pseudo terminals")
def test_long_work_shows_how_far_it_is_on_a_terminal_and_wipes_it_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pty

    write(tmp_path, **{f"f{number}": ONCE for number in range(3)})
    code = (
        "import tapecheck.cli.progress as progress, sys\n"
        "progress._FIRST = progress._AGAIN = 0\n"
        "from tapecheck.cli import main\n"
        "sys.exit(main(['check', '--jobs', '1', *sys.argv[1:], '.']))\n"
    )

    def seen(*arguments: str) -> str:
        mine, theirs = pty.openpty()
        with subprocess.Popen(
            [sys.executable, "-c", code, *arguments], cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=theirs,
            env={**environment(), "TERM": "xterm"},
        ) as process:  # fmt: skip
            os.close(theirs)
            text = b""
            while True:
                try:
                    part = os.read(mine, 4096)
                except OSError:
                    break
                if not part:
                    break
                text += part
            assert process.wait(60) == 0
        os.close(mine)
        return text.decode()

    text = seen()
    assert "1/3 checked: f0.py" in text and "3/3 checked: f2.py" in text and text.endswith("\r\x1b[K")
    assert seen("--quiet") == ""
