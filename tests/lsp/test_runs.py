"""How recorded runs end, in the words of the toast, the lens and the output; every program is run under torch."""

from __future__ import annotations

import sys
import venv
from pathlib import Path

import pytest

from tapecheck.lsp.runs import RunRefused
from tapecheck.lsp.session import Session
from tapecheck.lsp.settings import Settings

TRAINS = "import torch\nw = torch.ones(2, requires_grad=True)\nfor _ in range({}):\n    (w * w).sum().backward()\n"
NEEDS = "import argparse\np = argparse.ArgumentParser()\np.add_argument('--data', required=True)\np.parse_args()\n"

torch = pytest.mark.skipif("not __import__('importlib.util').util.find_spec('torch')", reason="torch is not installed")


def ran(folder: Path, program: str, **settings: object) -> tuple[str, str, int]:
    """What a run comes to: its words, what would help, the exit status. One that prints "stop" is cancelled."""
    file = folder / "train.py"
    file.write_text(program, encoding="utf-8")
    session = Session()
    session.configure(Settings(**settings))  # type: ignore[arg-type]
    order = session.order(str(file), [str(folder)])
    printed: list[str] = []
    recording = session.record(order, printed.append, lambda _: None, lambda: "stop\n" in "".join(printed))
    assert session.outcomes[str(file)] == recording.outcome
    assert (recording.unseen is None) == (str(file) in session.recordings)
    return recording.outcome.text, recording.outcome.next, recording.exit


@torch
@pytest.mark.parametrize(
    ("program", "words", "help_by", "exit_status"),
    [
        (NEEDS, "ended before training: the following arguments are required: --data", "arguments", 2),
        ("import sys\nsys.exit('no data in /d')\n", "ended before training: no data in /d", "configure", 2),
        ("import sys\nsys.exit(4)\n", "ended before training: exit code 4", "configure", 2),
        ("raise ValueError('no data')\n", "ended before training: ValueError: no data", "configure", 2),
        ("class Net:\n    pass\n", "train.py trains nothing when it is run", "program", 3),
        (TRAINS.format(3), "no problem seen in 3 iterations", "", 0),
        (TRAINS.format(30), "no problem seen in 20 iterations; stopped after 20 iterations (default limit)", "", 0),
        (TRAINS.format(2) + "1 / 0\n", "no problem seen in 2 iterations; ZeroDivisionError: division by zero", "", 2),
    ],
    ids=["arguments", "message", "code", "exception", "library", "well", "limit", "later"],
)
def test_a_run_says_how_it_ended(tmp_path: Path, program: str, words: str, help_by: str, exit_status: int) -> None:
    assert ran(tmp_path, program) == (words, help_by, exit_status)


ODD = """
import torch
class Odd(torch.Tensor):
    @property
    def grad_fn(self):
        raise RuntimeError("odd")
w = torch.ones(1, requires_grad=True)
(w * 2).as_subclass(Odd).backward()
"""
SEEN = "(w * 2).sum().backward()\n"


@torch
@pytest.mark.parametrize(
    ("program", "words", "exit_status"),
    [
        (ODD, "not recorded: the recorder failed 1 times, first with RuntimeError: odd", 3),
        (
            # What comes after a fault is not recorded.
            ODD.replace("(w * 2).as_sub", SEEN + "(w * 2).as_sub"),
            "no problem seen in 1 backward call; the recording may have gaps: the recorder failed 1 times,",
            0,
        ),
    ],
    ids=["nothing", "something"],
)
def test_what_the_recorder_could_not_do_is_said(tmp_path: Path, program: str, words: str, exit_status: int) -> None:
    text, help_by, status = ran(tmp_path, program)
    assert text.startswith(words) and (help_by, status) == ("", exit_status)


@torch
def test_a_program_that_reads_standard_input(tmp_path: Path) -> None:
    told = ran(tmp_path, "input('name? ')\n" + TRAINS.format(3))
    assert told == ("ended before training: it read standard input, which it does not get here", "configure", 2)


@torch
def test_a_run_that_is_cancelled_at_once_was_not_looked_at(tmp_path: Path) -> None:
    program = "import time\nprint('stop', flush=True)\ntime.sleep(60)\n" + TRAINS.format(3)
    assert ran(tmp_path, program) == ("cancelled before the first iteration", "", 3)


@torch
def test_a_time_limit_before_the_first_backward(tmp_path: Path) -> None:
    told = ran(tmp_path, "import time\ntime.sleep(60)\n" + TRAINS.format(3), run_timeout=4.0)
    assert told == ("stopped after 4 seconds, before the first backward", "configure", 3)


def test_an_interpreter_without_torch_is_one_to_be_chosen_anew(tmp_path: Path) -> None:
    venv.create(tmp_path / "bare", with_pip=False)
    python = next(path for path in (tmp_path / "bare").rglob("python*") if path.name in ("python", "python.exe"))
    with pytest.raises(RunRefused) as refused:
        ran(tmp_path, TRAINS.format(1), interpreter=(str(python),), run_env={"PYTHONPATH": ""})
    assert refused.value.next == "interpreter" and "has no torch" in str(refused.value)


@pytest.mark.parametrize("interpreter", [("/not/there/python",), ("/not/there/python", "-X", "dev")])
def test_an_interpreter_that_is_not_there(tmp_path: Path, interpreter: tuple[str, ...]) -> None:
    with pytest.raises(RunRefused) as refused:
        ran(tmp_path, "", interpreter=interpreter)
    assert refused.value.next == "interpreter"


def test_what_could_not_be_run_is_kept_for_the_lenses(tmp_path: Path) -> None:
    session = Session()
    session.refused(str(tmp_path / "train.py"), RunRefused(f"{sys.executable} has no torch", "interpreter"))
    outcome = session.outcomes[str(tmp_path / "train.py")]
    assert (outcome.text, outcome.next) == (f"{sys.executable} has no torch", "interpreter")


@torch
def test_a_fix_is_not_tried_on_a_program_that_does_not_come_to_its_training(tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    trains = TRAINS.format(3).replace("backward()", "backward(retain_graph=True)")
    file.write_text(f"import os\nos.environ['NO_SUCH_DATA']\n{trains}")
    session = Session()
    order = session.order(str(file), [str(tmp_path)])
    steps: list[str] = []
    with pytest.raises(RunRefused, match=r"^ended before training: KeyError: .*; the fix was not tried$") as refused:
        session.try_fix(order, ("TAPE301", 6, 5), steps.append, lambda: False)
    assert refused.value.next == "configure" and "with the fix" not in steps
    assert session.outcomes[str(file)].text.startswith("ended before training: KeyError")
    assert str(file) not in session.evidence.trials
