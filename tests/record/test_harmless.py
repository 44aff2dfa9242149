"""Tensors that are no plain memory are left alone: wrappers, fakes, freed storages; modes see no operation of ours."""

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
        turned = torch.nn.Parameter(torch.ones(3, 2).t())
        wide = torch.nn.Parameter(torch.ones(3, dtype=torch.complex64))
        optimizer = torch.optim.SGD([*table.parameters(), meta, turned, wide], lr=.1)
        for i in range(7):
            optimizer.zero_grad()
            (table(torch.tensor([0, 2])).sum() + turned.sum() + wide.abs().sum()).backward()
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
        print(net.weight.tolist(), counters["stats"]["unique_graphs"])
    """,
}  # fmt: skip


def tape_in(folder: Path) -> Tape:
    with (folder / "tape.jsonl").open(encoding="utf-8") as file:
        return read_tape(file)


def said(stderr: str) -> list[str]:
    """Return the lines of standard error without the times in them."""
    return [line.rpartition("] ")[2] for line in stderr.splitlines() if not line.startswith("USDT:")]


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_with_other_tensors_does_the_same(write: Write, tmp_path: Path, warm: str, name: str) -> None:
    script = write(textwrap.dedent(PROGRAMS[name]))
    without = plain(script, cwd=str(tmp_path), python=warm)
    assert without.returncode == 0, without.stderr
    recorded = probed(script, cwd=str(tmp_path), python=warm)
    assert (recorded.stdout, recorded.returncode) == (without.stdout, 0), recorded.stderr
    assert said(recorded.stderr) == said(without.stderr)
    tape = tape_in(tmp_path)
    end = tape.events[-1]
    assert isinstance(end, End) and (end.how, end.detail) == ("finished", "")
    assert not judge([], tape, directory=str(tmp_path)) or name in ("freed-storage", "kinds")


def stale(tape: Tape) -> int:
    return sum(isinstance(event, Measure) and event.name.startswith("stale-gradient") for event in tape.events)


@pytest.mark.parametrize(("clear", "found"), [("optimizer.zero_grad()", 0), ("", 4)])
def test_gradients_of_fsdp_are_compared_by_their_local_tensors(
    write: Write, tmp_path: Path, warm: str, clear: str, found: int
) -> None:
    done = probed(write(FSDP % (clear or "pass")), cwd=str(tmp_path), python=warm)
    assert done.returncode == 0, done.stderr
    assert stale(tape_in(tmp_path)) == found


def test_two_ranks_with_fsdp_run_to_their_end(write: Write, tmp_path: Path) -> None:
    launcher = ("python", "-m", "torch.distributed.run", "--nproc-per-node", "2", "--rdzv-backend", "c10d",
                "--rdzv-endpoint", "localhost:0")  # fmt: skip
    env = {**QUIET, "TORCHELASTIC_ERROR_FILE": "", "TMPDIR": str(tmp_path)}
    script = write(FSDP % "optimizer.zero_grad()")
    result = run(RunRequest(script, (), PYTHON, cwd=str(tmp_path), env=env, launcher=launcher, timeout=200.0))
    assert (result.how_ended, result.exit_code, result.failure) == ("finished", 0, ""), result.stderr
    assert sorted(line[:6] for line in result.stdout.splitlines()) == ["rank 0", "rank 1"]
    assert judge([], result.tape, directory=str(tmp_path)) == []


DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.complex64, torch.complex128]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("count", [1, 3, 256, 300, 20_000])
def test_a_digest_tells_every_changed_bit(dtype: torch.dtype, count: int) -> None:
    values, generator = Values(torch), torch.Generator().manual_seed(count)
    tensor = torch.randn(count, generator=generator).to(dtype)
    tensor[tensor == 0] = 1
    before = values.digest(tensor)
    assert before is not None and before != ZEROS and before == values.digest(tensor.clone())
    bits = tensor.view(torch.int8)
    seen = {before}
    for place in {0, bits.numel() // 2, bits.numel() - 1}:
        for bit in (1, 64):
            bits[place] ^= bit
            seen.add(values.digest(tensor))
            bits[place] ^= bit
    assert len(seen) == 1 + 2 * len({0, bits.numel() // 2, bits.numel() - 1})
    assert values.digest(tensor) == before
    # Two signs at once, and values that change their places.
    if count > 2:
        other = tensor.clone()
        other[0], other[2] = -other[0], -other[2]
        assert values.digest(other) != before
        assert values.digest(tensor.flip(0)) != before or torch.equal(tensor.flip(0), tensor)
    assert values.digest(torch.zeros_like(tensor)) == ZEROS == values.digest(-torch.zeros_like(tensor).real)
    assert values.digest(torch.full_like(tensor, float("nan"))) not in (ZEROS, None)


def test_only_plain_memory_is_read() -> None:
    values = Values(torch)
    freed = torch.ones(8)
    freed.untyped_storage().resize_(16)
    kinds = {
        "meta": torch.ones(3, device="meta"),
        "sparse": torch.eye(3).to_sparse(),
        "quantized": torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8),
        "subclass": torch.ones(3).as_subclass(type("Own", (torch.Tensor,), {})),
        "functional": torch._to_functional_tensor(torch.ones(3)),
        "zero tensor": torch._efficientzerotensor(3),
        "conjugated": torch.ones(3, dtype=torch.complex64).conj(),
        "freed in part": freed,
        "empty": torch.ones(0),
    }
    assert {name for name, tensor in kinds.items() if values.digest(tensor) is not None} == set()
    plain_ones = [torch.ones(2, 3), torch.ones(2, 3).t(), torch.ones(4, 4)[:, 1:3], torch.ones(1).expand(5)]
    assert all(values.digest(tensor) for tensor in [*plain_ones, torch.nn.Parameter(torch.ones(2))])
    inside: list[object] = []
    torch.func.grad(lambda x: (inside.append(values.digest(x)), x.sum())[1])(torch.ones(3))
    torch.func.vmap(lambda x: (inside.append(values.digest(x)), x.sum())[1])(torch.ones(3, 2))
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
        inside.append(values.digest(torch.ones(3)))
    assert inside == [None, None, None]


def test_nothing_is_read_while_a_graph_is_captured(monkeypatch: pytest.MonkeyPatch) -> None:
    values, tensor = Values(torch), torch.ones(3)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    for capturing in (False, True):
        monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda answer=capturing: answer)
        assert (values.digest(tensor) is None) is capturing


def test_so_many_bytes_are_read_for_a_step_and_no_more() -> None:
    values, tensor = Values(torch), torch.ones(256)
    values.allow(3000)
    assert [values.digest(tensor) is None for _ in range(4)] == [False, False, True, True]
    values.allow(1024)
    assert values.digest(torch.ones(257)) is None and values.digest(tensor) is not None


def test_the_recorder_reads_no_memory_by_address() -> None:
    folder = Path(os.path.dirname(run.__code__.co_filename)) / "probe"
    for path in folder.glob("*.py"):
        text = path.read_text()
        assert "data_ptr" not in text and "string_at" not in text, path.name
        assert "untyped_storage" not in text or path.name == "values.py"


def test_views_that_may_not_be_changed_end_no_recording(write: Write, tmp_path: Path) -> None:
    script = write("""
import torch
torch.manual_seed(0)
head = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
for step in range(3):
    whole = head(torch.ones(2, 4))
    left, right = whole.split(2, 1)
    with torch.no_grad():
        right.zero_()
    whole.sum().backward()
    optimizer.step()
    try:
        (left * right).sum().backward()
    except RuntimeError as error:
        print(str(error)[:40], head.weight.sum().item())
""")
    done = probed(script, cwd=str(tmp_path), options=("--bytes", "1"))
    assert (done.stdout, done.returncode) == (plain(script, cwd=str(tmp_path)).stdout, 0), done.stderr
    with (tmp_path / "tape.jsonl").open() as file:
        end = read_tape(file).events[-1]
    assert isinstance(end, End) and (end.how, end.detail) == ("finished", "")
