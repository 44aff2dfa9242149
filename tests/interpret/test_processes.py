"""Functions that other processes and threads begin with: they are run with what they are given, recording on."""

from __future__ import annotations

import textwrap

import pytest

from tapecheck.check import check
from tapecheck.source import from_text

HEAD = """\
import threading
import multiprocessing
import torch
import torch.multiprocessing as mp
from torch import nn


def show(rank, shared):
    while True:
        print(shared(torch.randn(2, 3)).sum().item())


def train(rank, shared, steps=3):
    model = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(shared.parameters(), lr=0.1)
    for step in range(steps):
        model.load_state_dict(shared.state_dict())
        optimizer.zero_grad()
        model.zero_grad()
        model(torch.randn(2, 3)).sum().backward()
        for mine, common in zip(model.parameters(), shared.parameters()):
            common._grad = mine.grad
        optimizer.step()


"""


def told(body: str) -> list[tuple[str, int]]:
    return [(finding.code, finding.span.line) for finding in check(from_text(HEAD + body, "main.py")).findings]


@pytest.mark.parametrize(
    "start",
    [
        "mp.Process(target=show, args=(0, shared)).start()\n",
        "worker = multiprocessing.Process(target=show, args=[0], kwargs={'shared': shared})\nworker.start()\n",
        "with torch.no_grad():\n    threading.Thread(None, show, 'shown', (0, shared)).start()\n",
        "mp.spawn(show, args=(shared,), nprocs=2)\n",
    ],
)
def test_what_a_process_begins_with_runs_with_recording_on(start: str) -> None:
    assert ("TAPE302", 9) in told("shared = nn.Linear(3, 1)\n" + start)
    assert ("TAPE302", 9) not in told("shared = nn.Linear(3, 1)\nshared.requires_grad_(False)\n" + start)


def test_a_process_that_is_not_started_runs_nothing() -> None:
    assert told("shared = nn.Linear(3, 1)\nworker = mp.Process(target=show, args=(0, shared))\n") == []


def test_processes_that_hand_their_gradients_over_train_the_shared_model() -> None:
    body = """\
shared = nn.Linear(3, 1).share_memory()
workers = []
for rank in range(4):
    worker = mp.Process(target=train, args=(rank, shared))
    worker.start()
    workers.append(worker)
for worker in workers:
    worker.join()
"""
    assert told(body) == []


def test_what_a_process_raises_is_its_own() -> None:
    body = """\
def fails():
    raise ValueError


shared = nn.Linear(3, 1)
mp.Process(target=fails).start()
mp.Process(target=show, args=(0, shared)).start()
"""
    assert ("TAPE302", 9) in told(body)


def test_a_distributed_backward_walks_what_it_is_given() -> None:
    body = """\
import torch.distributed.autograd as dist_autograd


def run(rank, shared):
    for step in range(3):
        with dist_autograd.context() as context_id:
            loss = shared(torch.randn(2, 3)).mean()
            dist_autograd.backward(context_id, [loss])


mp.spawn(run, args=(nn.Linear(3, 1),), nprocs=2)
"""
    assert told(body) == []
    assert told(body.replace("dist_autograd.backward(context_id, [loss])", "print(loss.item())")) != []


def test_gradients_that_are_handed_over_are_cleared_where_they_add_up() -> None:
    """The optimizer's `zero_grad` drops what was given to its parameters; the worker's own model keeps adding."""
    body = "train(0, nn.Linear(3, 1))\n"
    assert told(body) == []
    text = (HEAD + body).replace("        model.zero_grad()\n", "")
    (finding,) = check(from_text(text, "main.py")).findings
    assert (finding.code, finding.certain) == ("TAPE403", True)
    assert "clear them where they are added up: `model.zero_grad()` before this backward" in finding.help
    dropped = text.replace("optimizer.step()", "optimizer.step()\n        model.weight.grad = model.bias.grad = None")
    assert [one.code for one in check(from_text(dropped, "main.py")).findings] == []


WORKER = """\
class Worker({base}):
    def __init__(self, shared, name):
        super().__init__()
        self.shared, self.name = shared, name

    def run(self):
        loss = self.shared(torch.randn(2, 3)).sum()
        loss.backward()
        loss.backward()


shared = nn.Linear(3, 1)
workers = [Worker(shared, f"w{{i}}") for i in range(mp.cpu_count())]
"""


@pytest.mark.parametrize(
    "start", ["[w.start() for w in workers]\n", "for w in workers:\n    w.start()\n    w.join()\n"]
)
@pytest.mark.parametrize("base", ["threading.Thread", "mp.Process", "multiprocessing.Process"])
def test_a_class_of_workers_runs_with_what_its_objects_were_made_with(base: str, start: str) -> None:
    text = HEAD + WORKER.format(base=base) + start
    (finding,) = check(from_text(text, "main.py")).findings
    assert (finding.code, finding.certain) == ("TAPE101", True)


@pytest.mark.parametrize("base", ["mp.Process", "multiprocessing.Process"])
@pytest.mark.parametrize(
    "does",
    [
        "self.shared.requires_grad_(False)",
        "self.shared.weight.data.mul_(0)",
        "torch.nn.init.zeros_(self.shared.weight)",
        "self.shared.zero_grad()",
    ],
)
def test_a_process_of_a_class_leaves_what_its_parent_has(base: str, does: str) -> None:
    """It has a memory of its own: under torch the parent's graph and gradients stay as they are."""
    body = WORKER.format(base=base).replace("loss = self.shared(torch.randn(2, 3)).sum()", does)
    body = body.replace("        loss.backward()\n", "")
    body = body.replace("workers =", "outside = (shared(torch.randn(2, 3)) ** 2).sum()\nworkers =")
    text = HEAD + body + "for w in workers:\n    w.start()\n    w.join()\noutside.backward()\n"
    assert check(from_text(text, "main.py")).findings == []


def test_a_worker_that_gets_its_target_from_its_class() -> None:
    body = WORKER.format(base="threading.Thread").replace("super().__init__()", "super().__init__(target=self.work)")
    text = HEAD + body.replace("def run(self)", "def work(self)") + "Worker(shared, 0).start()\n"
    assert [one.code for one in check(from_text(text, "main.py")).findings] == ["TAPE101"]


CARRYING = """\
class Carrying(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.state, self.seen = nn.GRUCell(3, 3), None, []

    def forward(self, x):
        self.state = self.cell(x, self.state)
        return self.state


SEEN = []


def once(rank, net):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    loss = {loss}
    {keep}
    loss.backward()
    optimizer.step()


net = Carrying()
for rank in range(2):
    {start}
"""
LOSSES = ["net(torch.randn(2, 3)).sum()", "sum(net.seen) + net(torch.randn(2, 3)).sum()"]
LOSSES += ["sum(SEEN) + net.cell(torch.randn(2, 3)).sum()"]
KEEPS = ["pass", "net.seen.append(loss)", "SEEN.append(loss)"]


@pytest.mark.parametrize("method", ["Process", "Thread", "spawn"])
def test_only_a_thread_takes_up_what_another_has_left(method: str) -> None:
    start = {
        "Process": "mp.Process(target=once, args=(rank, net)).start()",
        "Thread": "threading.Thread(target=once, args=(rank, net)).start()",
        "spawn": "mp.spawn(once, args=(net,), nprocs=1)",
    }[method]
    for loss, keep in zip(LOSSES, KEEPS):
        found = told(CARRYING.format(loss=loss, keep=keep, start=start))
        twice = [code for code, _ in found if code in ("TAPE101", "TAPE102")]
        assert bool(twice) is (method == "Thread"), (loss, found)
        assert method == "Thread" or "TAPE403" not in [code for code, _ in found]


def test_what_a_process_does_in_its_own_loop_is_told() -> None:
    body = CARRYING.format(loss=LOSSES[0], keep="pass", start="mp.Process(target=once, args=(rank, net)).start()")
    head, loss, rest = body.partition("    loss = ")
    step, end, start = rest.partition("    optimizer.step()\n")
    looped = textwrap.indent(loss + step + end, "    ")
    assert "TAPE101" in [code for code, _ in told(f"{head}    for _ in range(3):\n{looped}{start}")]


KEEPERS = {
    "a closure": """\
def made():
    kept = None

    def once(net):
        nonlocal kept
        loss = net(torch.randn(2, 3)).sum()
        kept = loss if kept is None else kept + loss
        kept.backward()

    return once


once = made()
""",
    "a function": """\
def once(net):
    once.kept = getattr(once, "kept", 0) + net(torch.randn(2, 3)).sum()
    once.kept.backward()
""",
    "a class": """\
class Agent:
    kept = None

    def work(self, net):
        loss = net(torch.randn(2, 3)).sum()
        Agent.kept = loss if Agent.kept is None else Agent.kept + loss
        Agent.kept.backward()


once = Agent().work
""",
    "a global that a method reads": """\
SEEN = {"loss": 0}


class Agent:
    def work(self, net):
        SEEN["loss"] = SEEN["loss"] + net(torch.randn(2, 3)).sum()
        SEEN["loss"].backward()


once = Agent().work
""",
    "a cache": """\
import functools


@functools.lru_cache
def loss_of(net):
    return (net(torch.ones(2, 3)) ** 2).sum()


def once(net):
    loss_of(net).backward()
""",
}


@pytest.mark.parametrize("keeper", KEEPERS)
@pytest.mark.parametrize("method", ["Process", "Thread"])
def test_nothing_that_keeps_a_value_keeps_it_for_another_process(keeper: str, method: str) -> None:
    made = "mp.Process" if method == "Process" else "threading.Thread"
    start = f"for _ in range(3):\n    {made}(target=once, args=(net,)).start()\n"
    body = f"{KEEPERS[keeper]}\n\nnet = nn.Linear(3, 1)\n{start}"
    twice = [code for code, _ in told(body) if code == "TAPE101"]
    assert bool(twice) is (method == "Thread")


def test_a_class_of_processes_keeps_nothing_for_the_next_one() -> None:
    body = """\
CACHE = []


class Worker(mp.Process):
    def __init__(self, net):
        super().__init__()
        self.net = net

    def run(self):
        CACHE.append((self.net(torch.randn(2, 3)) ** 2).sum())
        sum(CACHE).backward()


for _ in range(3):
    Worker(nn.Linear(3, 1)).start()
"""
    assert told(body) == []
    assert [code for code, _ in told(body.replace("mp.Process", "threading.Thread"))] == ["TAPE101"]


@pytest.mark.parametrize(("method", "twice"), [("mp.Process", False), ("threading.Thread", True)])
def test_a_process_frees_no_graph_of_its_parent(method: str, twice: bool) -> None:
    body = f"""\
out = (nn.Linear(3, 1)(torch.randn(2, 3)) ** 2).sum()


def work():
    out.backward()


{method}(target=work).start()
out.backward()
"""
    assert told(body) == ([("TAPE101", len((HEAD + body).splitlines()))] if twice else [])


@pytest.mark.parametrize("clear", [True, False])
def test_a_process_that_only_evaluates_hides_nothing_of_its_parent(clear: bool) -> None:
    between = "optimizer.zero_grad()" if clear else "pass"
    body = f"""\
def evaluate(net):
    with torch.no_grad():
        print(net(torch.randn(2, 3)))


net = nn.Linear(3, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(3):
    net(torch.randn(2, 3)).sum().backward()
    mp.Process(target=evaluate, args=(net,)).start()
    {between}
    optimizer.step()
"""
    assert [code for code, _ in told(body)] == ["TAPE404" if clear else "TAPE403"]


@pytest.mark.parametrize("start", ["mp.Process(target=work).start()", "mp.spawn(lambda rank: work(), nprocs=1)"])
def test_whether_a_process_that_is_started_without_recording_records_hangs_on_how(start: str) -> None:
    """A forked one does not, and raises; a spawned one does."""
    body = f"""\
net = nn.Linear(3, 1)


def work():
    for _ in range(3):
        print(net(torch.randn(2, 3)).sum().item())


with torch.no_grad():
    {start}
"""
    found = [one.certain for one in check(from_text(HEAD + body, "main.py")).findings]
    assert found == ([True] if "spawn" in start else [])
