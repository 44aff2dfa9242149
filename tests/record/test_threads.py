"""Programs whose threads train at the same time: torch writes `.grad` without Python's lock."""

from __future__ import annotations

from pathlib import Path

from tapecheck.tape import End, read_tape
from tests.record.harness import Write, plain, probed

# Each round's code is new, so that the recorder looks closely at all of it; threads take turns in the midst of that.
BESIDE = """\
import sys
import threading

sys.setswitchinterval(2e-5)

import torch
from torch import nn

WORK = '''
def work(seed):
    made = torch.Generator().manual_seed(seed)
    model = nn.Sequential(*[nn.Linear(6, 6) for _ in range(12)])
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(torch.randn(weight.shape, generator=made) / 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(12):
        loss = model(torch.randn(4, 6, generator=made)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    losses[seed] = loss.item()
'''

for _ in range(20):
    losses = {}
    exec(compile(WORK, __file__, "exec"))
    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
print({seed: f"{losses[seed]:.8f}" for seed in sorted(losses)})
"""


def test_threads_that_train_beside_each_other_end_as_without_the_recorder(write: Write, tmp_path: Path) -> None:
    script = write(BESIDE)
    without = plain(script, cwd=str(tmp_path))
    assert without.returncode == 0, without.stderr
    for _ in range(2):
        result = probed(script, cwd=str(tmp_path), tape=str(tmp_path / "tape.jsonl"))
        assert (result.returncode, result.stdout) == (0, without.stdout), result.stderr
        with (tmp_path / "tape.jsonl").open() as file:
            end = read_tape(file).events[-1]
        assert isinstance(end, End) and (end.how, end.detail) == ("finished", "")


# While the exception is handled, the optimizer that could not be made is there without its groups.
UNMADE = """\
import torch
from torch import nn

model = nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
try:
    torch.optim.SGD(model.weight, lr=0.1)
except TypeError:
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.ones(2, 3)).sum().backward()
        optimizer.step()
print("done")
"""


def test_an_optimizer_that_could_not_be_made_does_not_end_the_recording(write: Write, tmp_path: Path) -> None:
    result = probed(write(UNMADE), cwd=str(tmp_path), tape=str(tmp_path / "tape.jsonl"))
    assert (result.returncode, result.stdout) == (0, "done\n"), result.stderr
    with (tmp_path / "tape.jsonl").open() as file:
        end = read_tape(file).events[-1]
    assert isinstance(end, End) and (end.how, end.detail) == ("finished", "")


# A fork copies what other threads are in the midst of, and not the threads.
FORKS = """\
import gc
import os
import threading

import torch

torch.set_num_threads(1)
ended = threading.Event()
STEPS = '''
net = torch.nn.Sequential(*[torch.nn.Linear(3, 3) for _ in range(30)])
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
for _ in range(3):
    loss = net(torch.randn(2, 3)).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
'''


def work():
    while not ended.is_set():
        exec(compile(STEPS, __file__, "exec"), {"torch": torch})


threads = [threading.Thread(target=work) for _ in range(3)]
for thread in threads:
    thread.start()
without = 0
for _ in range(80):
    ended.wait(0.005)
    child = os.fork()
    if not child:
        os._exit(0 if gc.isenabled() else 1)
    without += os.waitpid(child, 0)[1] != 0
ended.set()
for thread in threads:
    thread.join()
print("children without a collector:", without)
"""


def test_a_forked_child_collects_garbage_whatever_other_threads_were_in(write: Write, tmp_path: Path) -> None:
    result = probed(write(FORKS), cwd=str(tmp_path))
    assert (result.returncode, result.stdout) == (0, "children without a collector: 0\n"), result.stderr
