"""Programs of public kinds: under the recorder each does the same, bit for bit, and every node has its line."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tapecheck.record.run import PROBE
from tapecheck.tape import Backward, End, Measure, read_tape
from tests.record.harness import PYTHON, QUIET

HERE = Path(__file__).parent
PROGRAMS = sorted(path.stem for path in (HERE / "programs").glob("*.py"))
# Their threads allocate in an order of their own at each run.
THREADED = {"hogwild", "ppo_threads"}


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Each program run plainly, under the recorder, and with anomaly mode beside it."""
    folder = tmp_path_factory.mktemp("programs")
    jobs = []
    for name in PROGRAMS:
        program = str(HERE / "programs" / f"{name}.py")
        observed = [str(HERE / "observed.py"), program]
        probe = [str(PROBE), "--tape", str(folder / f"{name}.jsonl"), *observed]
        attributed = [str(HERE / "attributed.py"), program]
        for how, argv in (("plain", observed), ("recorded", probe), ("attributed", attributed)):
            jobs.append({"argv": argv, "output": str(folder / f"{name}.{how}")})
    (folder / "jobs.json").write_text(json.dumps(jobs))
    env = {**os.environ, **QUIET, "PYTHONPATH": os.pathsep.join(sys.path), "KINETO_LOG_LEVEL": "5"}
    subprocess.run(
        [PYTHON, str(HERE / "forked.py"), str(folder / "jobs.json")], cwd=folder, env=env, timeout=900, check=True,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    return folder


def _output(folder: Path, name: str, how: str) -> list[str]:
    """What a program printed, without what the profiler says of itself and the frames of what started the program."""
    text = "".join((folder / f"{name}.{how}.{stream}").read_text() for stream in (1, 2))
    text = re.sub(r'  File "[^"]*forked.py".*\n    .*\n|  File "<frozen runpy>".*\n', "", text)
    lines = [line for line in text.splitlines() if not line.startswith(("USDT:", "[W"))]
    return [line for line in lines if not line.startswith("memory")] if name in THREADED else lines


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_does_the_same_and_frees_what_it_frees_at_the_same_moment(ran: Path, name: str) -> None:
    plain, recorded = _output(ran, name, "plain"), _output(ran, name, "recorded")
    assert recorded == plain
    assert any(line.startswith("tensors") for line in plain)
    with (ran / f"{name}.jsonl").open() as file:
        tape = read_tape(file)
    end = tape.events[-1]
    assert isinstance(end, End)
    assert end.how == ("raised" if name == "hogwild" else "finished")
    assert "recorder failed" not in end.detail
    assert any(isinstance(event, Backward) for event in tape.events)
    assert not any(isinstance(event, Measure) and event.name == "graphs-too-deep" for event in tape.events)


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_node_is_on_the_line_that_anomaly_mode_says(ran: Path, name: str) -> None:
    last = _output(ran, name, "attributed")
    assert not [line for line in last if line.startswith("differs")]
    words = next(line for line in last if line.startswith("nodes ")).split()
    same, unknown, missing = int(words[1]), int(words[3]), int(words[-1])
    assert same >= 40
    assert (unknown, missing) == (0, 0)
