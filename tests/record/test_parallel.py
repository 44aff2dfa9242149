"""DistributedDataParallel that cannot reduce a gradient: the run says which parameters, and the lines."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from tapecheck.check import check
from tapecheck.record import RunRequest, RunResult, judge, run
from tapecheck.record.parallel import not_reduced
from tapecheck.source import read_source
from tapecheck.tape import read_tape, write_tape
from tests.record.harness import PYTHON, QUIET, Write

TORCHRUN = ("torchrun", "--nproc-per-node", "2", "--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0")

_PROGRAM = """\
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.checkpoint import checkpoint


{model}

dist.init_process_group("gloo")
torch.manual_seed(0)
model = DDP(Net(){options})
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    loss = model(torch.randn(3, 4)).pow(2).mean(){term}
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def _program(model: str, options: str = "", term: str = "") -> str:
    return _PROGRAM.format(model=model, options=options, term=term)


UNUSED = _program("""\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 4)
        self.aux = nn.Linear(4, 2)
        self.head = nn.Linear(4, 2)

    def forward(self, x):
        h = self.body(x).relu()
        return self.head(h)
""")
CHECKPOINTED_TWICE = _program("""\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 4)
        self.shared = nn.Linear(4, 4)

    def forward(self, x):
        h = self.body(x).relu()
        h = checkpoint(self.shared, h, use_reentrant=True)
        h = checkpoint(self.shared, h, use_reentrant=True)
        return h
""")
USED_OUTSIDE = _program(
    """\
def build():
    body = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    return nn.ModuleDict({"body": body, "spare": nn.Linear(4, 4)})


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = build()
        self.scale = nn.Parameter(torch.ones(4))

    def forward(self, x):
        return self.parts["body"](x)
""",
    ", find_unused_parameters=True",
    " + model.module.scale.pow(2).sum()",
)
ON_ONE_RANK = UNUSED.replace(
    "        return self.head(h)", "        return self.head(h) + (self.aux(h) if dist.get_rank() else 0)"
)


SPAWNED = UNUSED.replace(
    'dist.init_process_group("gloo")',
    """\
def main(rank):
    dist.init_process_group("gloo", init_method="file://" + __file__ + ".meeting", rank=rank, world_size=2)
    train()


def train():""",
).replace("torch.manual_seed(0)\n", "")
_HEAD, _BODY = SPAWNED.split("def train():\n")
SPAWNED = f"""{_HEAD}def train():
{textwrap.indent(_BODY, "    ")}

if __name__ == "__main__":
    torch.multiprocessing.spawn(main, nprocs=2)
"""


def _ran(text: str, write: Write, tmp_path: Path, launcher: tuple[str, ...] = TORCHRUN) -> tuple[str, RunResult]:
    script = write(text)
    request = RunRequest(
        script, (), PYTHON, cwd=str(tmp_path), env={**QUIET, "TORCHELASTIC_ERROR_FILE": ""}, launcher=launcher,
        timeout=200.0,
    )  # fmt: skip
    return script, run(request)


def _said(text: str, write: Write, tmp_path: Path) -> list[str]:
    script, result = _ran(text, write, tmp_path)
    assert result.how_ended == "raised", result.stderr
    with (tmp_path / "stored.tape").open("w") as file:
        write_tape(result.tape, file)
    with (tmp_path / "stored.tape").open() as file:
        assert list(not_reduced(read_tape(file))) == list(not_reduced(result.tape))
    return [line.replace(script, "SCRIPT") for line in not_reduced(result.tape)]


def _row(text: str, part: str) -> int:
    return next(number for number, line in enumerate(text.splitlines(), 1) if part in line)


def test_parameters_without_a_gradient_are_named_with_where_they_are_made(write: Write, tmp_path: Path) -> None:
    raised, made = _row(UNUSED, "loss = model("), _row(UNUSED, "self.aux =")
    assert _said(UNUSED, write, tmp_path) == [
        f"DistributedDataParallel raised at SCRIPT:{raised}: 2 parameters had no gradient in the iteration before:",
        f"  `aux.weight`, `aux.bias`: made at SCRIPT:{made}",
    ]


@pytest.mark.parametrize(
    ("text", "name", "made", "uses"),
    [
        (CHECKPOINTED_TWICE, "shared.bias", "self.shared =", ("checkpoint(self.shared",)),
        (USED_OUTSIDE, "scale", "self.scale =", ("model.module.scale",)),
    ],
    ids=["checkpointed twice", "used outside forward"],
)
def test_a_parameter_that_is_ready_twice_is_named_with_its_uses(
    text: str, name: str, made: str, uses: tuple[str, ...], write: Write, tmp_path: Path
) -> None:
    first, second = _said(text, write, tmp_path)
    assert first == (
        f"DistributedDataParallel raised at SCRIPT:{_row(text, 'loss.backward()')}: "
        "1 parameter was ready twice in one backward:"
    )
    rows = [number for number, line in enumerate(text.splitlines(), 1) if any(use in line for use in uses)]
    used = " and ".join(f"SCRIPT:{row}" for row in rows)
    assert second == f"  `{name}`: made at SCRIPT:{_row(text, made)}, used at {used}"


def test_what_only_one_rank_says_is_said_of_it(write: Write, tmp_path: Path) -> None:
    first, *_ = _said(ON_ONE_RANK, write, tmp_path)
    assert first.endswith("no gradient in the iteration before (rank 0):")


@pytest.mark.parametrize(
    ("text", "launcher"),
    [(UNUSED, TORCHRUN), (CHECKPOINTED_TWICE, TORCHRUN), (SPAWNED, ())],
    ids=["unused", "ready twice", "spawned by the program"],
)
def test_what_it_raises_confirms_the_finding(
    text: str, launcher: tuple[str, ...], write: Write, tmp_path: Path
) -> None:
    script, result = _ran(text, write, tmp_path, launcher)
    static = check(read_source(script)).findings
    (finding,) = judge(static, result.tape)
    assert finding.evidence is not None
    assert finding.evidence.verdict == "confirmed"
    assert finding.evidence.detail.startswith("on both ranks: raised")
    if launcher:
        (found,) = judge([], result.tape)
        assert found.evidence is not None
        assert (found.code, found.span.line, found.evidence.verdict) == (
            finding.code, finding.span.line, "found-by-run",
        )  # fmt: skip
