"""What is no plain tensor is left alone: a recorded program does the same with wrappers, fakes, freed storages and modes."""

from __future__ import annotations

import os
import textwrap
from pathlib import Path

import pytest

from tapecheck.record import RunRequest, judge, run
from tapecheck.record.probe.values import ZEROS, Values
from tapecheck.tape import End, Measure, Tape, read_tape
from tests.record.harness import PYTHON, QUIET, Write, plain, probed

torch = pytest.importorskip("torch")

FSDP = """
import os
import torch, torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from torch.distributed.device_mesh import init_device_mesh

if "RANK" in os.environ:
    dist.init_process_group("gloo")
else:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
mesh = init_device_mesh("cpu", (dist.get_world_size(),))
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
for layer in net:
    fully_shard(layer, mesh=mesh)
fully_shard(net, mesh=mesh)
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
for i in range(7):
    loss = net(torch.randn(4, 8)).pow(2).mean()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    optimizer.step()
    %s
print("rank", dist.get_rank(), "%%.6f" %% loss.item())
dist.destroy_process_group()
"""

PROGRAMS = {
    "fsdp": FSDP % "optimizer.zero_grad()",
    "tensor-parallel": """
        import torch, torch.distributed as dist
        from torch.distributed.tensor import distribute_module, distribute_tensor, init_device_mesh

        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        mesh = init_device_mesh("cpu", (1,))
        net = distribute_module(torch.nn.Linear(8, 4), mesh)
        optimizer = torch.optim.SGD(net.parameters(), lr=.1)
        for i in range(7):
            optimizer.zero_grad(set_to_none=i % 2 == 0)
            net(distribute_tensor(torch.ones(4, 8), mesh)).sum().backward()
            optimizer.step()
        print(net.weight.to_local().sum().item())
        dist.destroy_process_group()
    """,
    "fake": """
        import torch
        from torch._subclasses.fake_tensor import FakeTensorMode

        with FakeTensorMode():
            net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))
            optimizer = torch.optim.SGD(net.parameters(), lr=.1)
            for i in range(7):
                optimizer.zero_grad(set_to_none=i % 2 == 0)
                net(torch.randn(4, 4)).sum().backward()
                optimizer.step()
        print(type(net[0].weight).__name__)
    """,
    "freed-storage": """
        import torch

        net = torch.nn.Linear(4, 4)
        other = torch.nn.Parameter(torch.ones(1 << 16))
        optimizer = torch.optim.SGD(net.parameters(), lr=.1)
        for i in range(7):
            optimizer.zero_grad()
            storage = other.untyped_storage()
            storage.resize_(4 << 16)
            other.data.fill_(1.0)
            (net(torch.ones(2, 4)).sum() + other.sum()).backward()
            storage.resize_(0)
            if i == 5:
                other.grad.untyped_storage().resize_(0)
            optimizer.step()
        print(net.weight.sum().item())
    """,
    "functional": """
        import torch

        net = torch.nn.Linear(3, 1)
        other = torch.nn.Parameter(torch._to_functional_tensor(torch.ones(3)))
        optimizer = torch.optim.SGD([*net.parameters(), other], lr=.1)
        for i in range(7):
            optimizer.zero_grad(set_to_none=False)
            if i % 2:
                torch.func.vmap(torch.func.grad(lambda x: net(x).pow(2).sum()))(torch.ones(2, 3))
            net(torch.ones(2, 3)).sum().backward()
            other.grad = torch._to_functional_tensor(torch.ones(3))
            optimizer.step()
        print(torch._from_functional_tensor(other).tolist(), net.weight.tolist())
    """,
    "kinds": """
        import torch

        table = torch.nn.Embedding(5, 3, sparse=True)
        meta = torch.nn.Parameter(torch.ones(3, device="meta"))
        nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], requires_grad=True)
        turned = torch.nn.Parameter(torch.ones(3, 2).t())
        wide = torch.nn.Parameter(torch.ones(3, dtype=torch.complex64))
        optimizer = torch.optim.SGD([*table.parameters(), meta, turned, wide], lr=.1)
        for i in range(7):
            optimizer.zero_grad()
            (table(torch.tensor([0, 2])).sum() + turned.sum() + wide.abs().sum()).backward()
            nested.to_padded_tensor(0.0).sum().backward()
            (meta * 2).sum().backward()
            wide.grad = wide.grad.conj()
            optimizer.step()
        print(table.weight.sum().item(), turned.sum().item(), wide.sum().item())
    """,
    "modes": """
        import torch
        from torch.utils._python_dispatch import TorchDispatchMode
        from torch.overrides import TorchFunctionMode
        from torch.profiler import profile

        counts = {}

        class Count(TorchDispatchMode):
            def __torch_dispatch__(self, function, types, args=(), kwargs=None):
                counts[str(function)] = counts.get(str(function), 0) + 1
                return function(*args, **(kwargs or {}))

        class Ask(TorchFunctionMode):
            def __torch_function__(self, function, types, args=(), kwargs=None):
                name = getattr(function, "__name__", "")
                counts[name] = counts.get(name, 0) + 1
                return function(*args, **(kwargs or {}))

        net = torch.nn.Linear(4, 1)
        optimizer = torch.optim.SGD(net.parameters(), lr=.1)

        def train():
            for i in range(7):
                optimizer.zero_grad(set_to_none=i % 2 == 0)
                net(torch.ones(2, 4)).sum().backward()
                optimizer.step()

        with Count():
            train()
        with Ask():
            train()
        with profile() as profiler:
            train()
        print(sorted(counts.items()))
        print(sorted((event.key, event.count) for event in profiler.key_averages()))
    """,
    "subclass": """
        import torch

        counts = {}

        class Own(torch.Tensor):
            @classmethod
            def __torch_function__(cls, function, types, args=(), kwargs=None):
                name = getattr(function, "__name__", "")
                counts[name] = counts.get(name, 0) + 1
                return super().__torch_function__(function, types, args, kwargs or {})

        net = torch.nn.Linear(4, 1)
        net.weight = torch.nn.Parameter(torch.ones(1, 4).as_subclass(Own))
        optimizer = torch.optim.SGD(net.parameters(), lr=.1)
        for i in range(7):
            optimizer.zero_grad(set_to_none=i % 2 == 0)
            torch.autograd.backward(net(torch.ones(2, 4)).sum())
            optimizer.step()
        print(sorted(counts.items()))
    """,
    "compiled": """
        import torch

        net = torch.nn.Linear(4, 1)
        model = torch.compile(net, backend="aot_eager")
        optimizer = torch.optim.SGD(net.parameters(), lr=.1)

        def clipped():
            torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()

        step = torch.compile(clipped, backend="eager")
        for i in range(7):
            optimizer.zero_grad(set_to_none=i % 2 == 0)
            model(torch.ones(2, 4)).sum().backward()
            step()
        from torch._dynamo.utils import counters
        print(net.weight.tolist(), dict(counters["frames"]), counters["stats"]["unique_graphs"])
    """,
}  # fmt: skip


def tape_in(folder: Path) -> Tape:
    with (folder / "tape.jsonl").open(encoding="utf-8") as file:
        return read_tape(file)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_with_other_tensors_does_the_same(write: Write, tmp_path: Path, warm: str, name: str) -> None:
    script = write(textwrap.dedent(PROGRAMS[name]))
    without = plain(script, cwd=str(tmp_path), python=warm)
    assert without.returncode == 0, without.stderr
    recorded = probed(script, cwd=str(tmp_path), python=warm)
    assert (recorded.stdout, recorded.stderr, recorded.returncode) == (without.stdout, without.stderr, 0)
    tape = tape_in(tmp_path)
    end = tape.events[-1]
    assert isinstance(end, End) and (end.how, end.detail) == ("finished", "")
    assert not judge([], tape, directory=str(tmp_path)) or name in ("freed-storage", "kinds")
