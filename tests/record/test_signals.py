"""Handlers of the program's signals may raise wherever the recorder is: they run once it is left."""

from __future__ import annotations

import json
from pathlib import Path

from tests.record.harness import Write, plain, probed

OFTEN = """
import signal, time, traceback, torch
from torch import nn
import torch._dynamo
# Torch imports parts of itself at the first step, within an `except Exception` that would swallow `Late`.
with torch.autograd.profiler.record_function(""):
    pass
raised = caught = seen = late_by = 0
class Late(Exception): pass
def late(number, frame):
    global raised
    raised += 1
    raise Late
signal.signal(signal.SIGALRM, late)
model = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
def step():
    optimizer.zero_grad()
    model(torch.ones(2, 2)).sum().backward()
    optimizer.step()
    return None
for after in range(2000):
    # An exception between a switch of torch and its `try` leaves recording off, with and without the recorder.
    torch.set_grad_enabled(True)
    deadline = time.monotonic() + 20
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.0003 + after % 300 * 3e-6)
        while raised == after and time.monotonic() < deadline:
            step()
    except Late as error:
        caught += 1
        seen += "record/probe" in "".join(traceback.format_exception(error))
    late_by += time.monotonic() > deadline
    if late_by:
        break
print(raised, caught, seen, late_by)
"""

ASKED = """
import signal, torch
def own(number, frame): print("usr1", frame.f_code.co_name)
def other(number, frame): print("usr1 again", frame.f_code.co_name)
class Callable:
    def __call__(self, number, frame): print("called", number)
print(signal.getsignal(signal.SIGINT) is signal.default_int_handler, signal.getsignal(signal.SIGUSR1))
print(signal.signal(signal.SIGUSR1, own), signal.getsignal(signal.SIGUSR1) is own)
def send(): signal.raise_signal(signal.SIGUSR1)
send()
print(signal.signal(signal.SIGUSR1, other) is own)
send()
called = Callable()
signal.signal(signal.SIGUSR1, called)
send()
print(signal.signal(signal.SIGUSR1, signal.SIG_IGN) is called, signal.getsignal(signal.SIGUSR1))
for wrong in (3.5, "x", None):
    try:
        signal.signal(signal.SIGUSR1, wrong)
    except TypeError as error:
        print(error)
"""


def test_what_a_handler_raises_is_never_lost(write: Write, tmp_path: Path) -> None:
    script = write(OFTEN)
    # Now and then torch or Python itself is left half done by such an exception, without the recorder as well.
    for _ in range(3):
        done = probed(script, cwd=str(tmp_path))
        if done.returncode == 0:
            break
    assert (done.stdout, done.returncode) == ("2000 2000 0 0\n", 0), done.stderr
    last = json.loads((tmp_path / "tape.jsonl").read_text().splitlines()[-1])
    assert (last["how"], last["detail"]) == ("finished", "")


def test_the_program_sees_its_own_handlers(write: Write, tmp_path: Path) -> None:
    script = write(ASKED)
    assert probed(script, cwd=str(tmp_path)).stdout == plain(script, cwd=str(tmp_path)).stdout
