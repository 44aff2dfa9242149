"""What a run with `held` tells of the tensors that are alive, and that another run tells nothing of the kind."""

from __future__ import annotations

from pathlib import Path

from tapecheck.record import RunRequest, run
from tapecheck.report import peak
from tapecheck.tape import Measure, Started, Tape

PROGRAM = """\
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(10, 100)
optimizer = torch.optim.Adam(model.parameters())
kept = []
for step in range(6):
    output = model(torch.randn(50, 10)).exp()
    loss = output.mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    kept.append(model(torch.randn(50, 10)).exp())
"""
PARAMETERS = 4 * (10 * 100 + 100)


def _held(tape: Tape) -> list[tuple[str, int, dict[str, int], dict[int, int]]]:
    found: list[tuple[str, int, dict[str, int], dict[int, int]]] = []
    for event in tape.events:
        if isinstance(event, Measure):
            name, _, about = event.name.partition(":")
            if name == "alive":
                found.append((about, int(event.value), {}, {}))
            elif name == "alive-bytes":
                found[-1][2][about] = int(event.value)
            elif name == "alive-line":
                found[-1][3][event.at.line] = int(event.value)
    return found


def _run(folder: Path, held: bool, program: str = PROGRAM) -> Tape:
    (folder / "train.py").write_text(program)
    result = run(RunRequest("train.py", cwd=str(folder), held=held))
    assert result.exit_code == 0, result.stderr
    return result.tape


def test_bytes_by_kind_and_line(tmp_path: Path) -> None:
    tape = _run(tmp_path, held=True)
    (started,) = [event for event in tape.events if isinstance(event, Started)]
    assert started.command == "python train.py" and "torch" in started.versions
    held = _held(tape)
    begins = [one for one in held if one[0] == "backward"]
    ends = [one for one in held if one[0] == "iteration"]
    assert [one[1] for one in begins][:3] == [1, 2, 3] and [one[1] for one in ends][:3] == [1, 2, 3]
    # An exp keeps its result, a linear layer its input.
    one = 4 * (50 * 100 + 50 * 10)
    for number, (_, _, kinds, lines) in enumerate(ends[:5], 1):
        assert kinds["parameters"] == PARAMETERS and kinds["gradients"] == 0
        assert 2 * PARAMETERS <= kinds["optimizer"] < 2 * PARAMETERS + 100
        assert kinds["saved"] == number * one and lines == {14: number * one}
    assert begins[0][2]["optimizer"] == 0 and begins[0][3] == {9: one}
    assert begins[2][3] == {9: one, 14: 2 * one}


def test_the_peak_is_the_fullest_moment_by_line(tmp_path: Path) -> None:
    tape = _run(tmp_path, held=True)
    (row,) = peak.rows(tape)
    last = {"row": 8, "iteration": 6}
    one = 4 * (50 * 100 + 50 * 10)
    assert (row["iterations"], row["bytes"]) == ([last], sum(row["kinds"].values()))
    assert row["bytes"] == max(moment.total for moment in peak.moments_of(tape))
    # Where the loop ends all six iterations' values are kept.
    assert [(line["row"], line["bytes"]) for line in row["lines"]] == [(14, 6 * one)]


def test_what_grows_to_the_end_of_a_loop_is_looked_at_there(tmp_path: Path) -> None:
    ends = [
        one for one in _held(_run(tmp_path, True, PROGRAM.replace("range(6)", "range(30)"))) if one[0] == "iteration"
    ]
    one = 4 * (50 * 100 + 50 * 10)
    assert [(kinds["saved"], call) for _, call, kinds, _ in ends[-2:]] == [(21 * one, 21), (30 * one, 30)]


def test_a_run_that_is_not_asked_tells_nothing(tmp_path: Path) -> None:
    tape = _run(tmp_path, held=False)
    assert not _held(tape) and peak.rows(tape) == []
