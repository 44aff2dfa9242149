#!/usr/bin/env python3
"""Every check of the recorder on a GPU, one after the other, and a table of what came out.

    python tests/record/cuda.py [--python P]      # on the GPU; without one nothing is checked, and that is said
    python tests/record/cuda.py --cpu             # the same programs on the CPU, without what only a GPU has

The exit status is 0 where nothing failed, else 1. pytest runs the same checks, `tests/record/test_cuda.py`.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

if __package__ in (None, ""):
    sys.path[:0] = [str(Path(__file__).parents[2]), str(Path(__file__).parents[2] / "server")]

from tapecheck.check import check
from tapecheck.record import RunRequest, RunResult, judge, run
from tapecheck.record.memory import memory_ran_out
from tapecheck.report.sizes import bytes_text
from tapecheck.rules.finding import Finding
from tapecheck.source import read_source
from tapecheck.tape import End, Measure

_HEAD = """
import os
import torch
from torch import nn

device = os.environ["DEVICE"]
torch.manual_seed(0)
"""
_FOUND = ("confirmed", "found-by-run")


@dataclass(frozen=True)
class Machine:
    """Where the checks run: an interpreter, a device of its torch, a folder for scripts."""

    python: str
    device: str
    folder: Path

    def env(self) -> dict[str, str]:
        """What the programs need besides this process's environment."""
        return {"DEVICE": self.device, "OMP_NUM_THREADS": "1", "CUBLAS_WORKSPACE_CONFIG": ":4096:8"}

    def write(self, text: str) -> str:
        """Write a program, with what all of them begin with; answer its path."""
        path = self.folder / "script.py"
        path.write_text(_HEAD + textwrap.dedent(text))
        return str(path)

    def record(self, text: str) -> tuple[RunResult, list[Finding]]:
        """Check and record a program: how it went, and the findings that the run showed."""
        path = self.write(text)
        findings = check(read_source(path)).findings
        result = run(RunRequest(path, python=self.python, cwd=str(self.folder), env=self.env(), timeout=300.0))
        end = result.tape.events[-1]
        assert isinstance(end, End), "the tape was not closed"
        assert "recorder failed" not in end.detail, end.detail
        found = judge(findings, result.tape, directory=str(self.folder))
        return result, [item for item in found if item.evidence is not None and item.evidence.verdict in _FOUND]

    def plain(self, text: str) -> str:
        """What a program prints without the recorder."""
        done = subprocess.run(
            [self.python, self.write(text)], cwd=self.folder, env={**os.environ, **self.env()}, capture_output=True,
            text=True, timeout=300, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-500:]
        return done.stdout


def _lines(found: list[Finding], code: str) -> list[str]:
    wanted = [item.span for item in found if item.code == code]
    return [Path(span.file).read_text().splitlines()[span.line - 1].strip() for span in wanted]


def backward_twice(machine: Machine) -> str:
    """A backward over a graph that was freed."""
    result, found = machine.record("""
        w = torch.ones(8, device=device, requires_grad=True)
        loss = (w * w).sum()
        loss.backward()
        loss.backward()
    """)
    assert result.how_ended == "raised", result.detail
    assert _lines(found, "TAPE101") == ["loss.backward()"], found
    return "TAPE101 on its line"


def changed_in_place(machine: Machine) -> str:
    """A saved tensor that is changed before the backward needs it."""
    result, found = machine.record("""
        w = torch.ones(8, device=device, requires_grad=True)
        y = w.exp()
        y.mul_(2)
        y.sum().backward()
    """)
    assert result.how_ended == "raised", result.detail
    assert _lines(found, "TAPE102") == ["y.sum().backward()"], found
    return "TAPE102 on its line"


def kept_graphs(machine: Machine) -> str:
    """Graphs kept over iterations: bytes of saved tensors beside what the device has allocated."""
    result, found = machine.record("""
        model = nn.Linear(256, 256).to(device)
        kept = []
        for step in range(8):
            y = model(torch.randn(4096, 256, device=device)).exp()
            kept.append(y.mean())
    """)
    assert result.how_ended == "finished", result.detail
    assert _lines(found, "TAPE201") == ["kept.append(y.mean())"], found
    measures = [event for event in result.tape.events if isinstance(event, Measure)]
    saved = [event.value for event in measures if event.name == "live-saved-bytes"]
    allocated = [event.value for event in measures if event.name == "cuda-memory"]
    one = 2 * 4096 * 256 * 4
    # Before any backward was called two samples of all live objects are taken, no more.
    assert len(saved) >= 2, saved
    assert saved[-1] - saved[0] >= one, saved
    if machine.device == "cpu":
        return f"saved tensors {bytes_text(int(saved[0]))} to {bytes_text(int(saved[-1]))}"
    assert len(allocated) == len(saved), (allocated, saved)
    assert all(more >= less for more, less in zip(allocated, saved, strict=True)), (allocated, saved)
    assert allocated[-1] - allocated[0] >= one, allocated
    return f"saved {bytes_text(int(saved[-1]))} of {bytes_text(int(allocated[-1]))} allocated"


_TRAINING = """
    torch.use_deterministic_algorithms(True)
    model = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(12):
        loss = model(torch.randn(8, 16, 64, device=device)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print([p.double().sum().item().hex() for p in model.parameters()], loss.item().hex())
"""


def same_results(machine: Machine) -> str:
    """The parameters of a transformer with dropout, bit for bit."""
    plain = machine.plain(_TRAINING)
    result, _ = machine.record(_TRAINING)
    assert result.how_ended == "finished", result.detail
    assert result.stdout == plain, "the parameters differ"
    return "bit for bit"


def same_peak(machine: Machine) -> str:
    """The most memory that was allocated at once."""
    text = textwrap.dedent(_TRAINING) + "print(torch.cuda.max_memory_allocated())\n"
    plain, (result, _) = machine.plain(text), machine.record(text)
    assert result.stdout == plain, (result.stdout[-40:], plain[-40:])
    return f"{bytes_text(int(plain.split()[-1]))} with and without"


def mixed_precision(machine: Machine) -> str:
    """Autocast with a gradient scaler; a `retain_graph` nobody needs."""
    result, found = machine.record("""
        model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 1)).to(device)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        scaler = torch.amp.GradScaler(device, init_scale=64.0)
        for step in range(6):
            optimizer.zero_grad()
            with torch.autocast(device, dtype=torch.bfloat16):
                loss = model(torch.randn(16, 32, device=device)).pow(2).mean()
            scaler.scale(loss).backward(retain_graph=True)
            scaler.step(optimizer)
            scaler.update()
    """)
    assert result.how_ended == "finished", result.detail
    assert [item.code for item in found] == ["TAPE301"], found
    return "TAPE301 and nothing else"


def memory_runs_out(machine: Machine) -> str:
    """What held the memory when there was none left, by line."""
    result, found = machine.record("""
        if device != "cpu":
            total = torch.cuda.get_device_properties(0).total_memory
            torch.cuda.set_per_process_memory_fraction(min(1.0, (1 << 30) / total))
        model = nn.Linear(512, 512).to(device)
        kept = []
        for step in range(400):
            if device == "cpu" and step == 12:
                torch.empty(1 << 60)
            y = model(torch.randn(8192, 512, device=device)).exp()
            kept.append(y.mean())
    """)
    assert result.how_ended == "raised", result.detail
    said = list(memory_ran_out(result.tape))
    lines = {event.at.line: event.value for event in result.tape.events
             if isinstance(event, Measure) and event.name == "memory-of-line"}  # fmt: skip
    assert len(lines) == 1, said
    assert next(iter(lines.values())) >= 12 * 8192 * 512 * 4, said
    assert _lines(found, "TAPE201") == ["kept.append(y.mean())"], found
    return said[2].strip().replace(str(machine.folder) + os.sep, "")


def no_synchronisation(machine: Machine) -> str:
    """Nothing that the recorder does waits for the device: torch raises where something would."""
    result, _ = machine.record("""
        model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1)).to(device)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        kept = []
        x = torch.randn(32, 64, device=device)
        torch.cuda.synchronize()
        torch.cuda.set_sync_debug_mode("error")
        for step in range(20):
            optimizer.zero_grad()
            loss = model(x).pow(2).mean()
            loss.backward(retain_graph=True)
            optimizer.step()
            kept.append(loss)
        torch.cuda.set_sync_debug_mode("default")
    """)
    assert result.how_ended == "finished", result.detail
    return "none in 20 iterations"


_SYNCHRONISING = """
    from torch.profiler import ProfilerActivity, profile

    model = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 1)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x = torch.randn(512, 256, device=device)
    kinds = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if device != "cpu" else [])
    with profile(activities=kinds) as seen:
        for step in range(30):
            optimizer.zero_grad()
            loss = model(x).pow(2).mean()
            loss.backward()
            optimizer.step()
            if step % 10 == 0:
                loss.item()
    waits = ("cudaDeviceSynchronize", "cudaStreamSynchronize", "cudaEventSynchronize")
    print({name: sum(event.count for event in seen.key_averages() if event.key == name) for name in waits})
"""


def synchronisations_counted(machine: Machine) -> str:
    """As many calls that wait for the device as without the recorder, by the profiler's count."""
    plain, (result, _) = machine.plain(_SYNCHRONISING), machine.record(_SYNCHRONISING)
    assert result.how_ended == "finished", result.detail
    assert result.stdout == plain, (result.stdout, plain)
    return f"{plain.strip()} with and without"


def device_time(machine: Machine) -> str:
    """The device's time an iteration beside the program's own events around its iterations."""
    result, _ = machine.record("""
        model = nn.Sequential(*[nn.Linear(2048, 2048) for _ in range(8)]).to(device)
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
        x = torch.randn(4096, 2048, device=device)
        marks = [torch.cuda.Event(enable_timing=True) for _ in range(41)] if device != "cpu" else []
        for step in range(40):
            if marks:
                marks[step].record()
            optimizer.zero_grad()
            loss = model(x).pow(2).mean()
            loss.backward()
            optimizer.step()
        if marks:
            marks[40].record()
            torch.cuda.synchronize()
            times = [marks[step].elapsed_time(marks[step + 1]) for step in range(1, 39)]
            print(sum(times) / len(times))
    """)
    assert result.how_ended == "finished", result.detail
    measures = {event.name: event.value for event in result.tape.events if isinstance(event, Measure)}
    assert measures.get("device-time-iterations", 0) >= 20, "too few iterations were measured"
    own, mean = float(result.stdout), measures["device-time-mean"]
    assert abs(mean - own) <= 0.1 * own + 0.05, f"{mean} ms measured, {own} ms by the program's own events"
    return f"{mean:.3g} ms an iteration, {own:.3g} ms by the program's own events"


_HOOKS = """
    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            print("backward", ctx.saved_tensors[0].shape, gradient.device.type)
            return gradient * 2

    model = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 1)).to(device)
    model[0].register_full_backward_hook(lambda module, inputs, outputs: print("module", outputs[0].sum().item().hex()))
    for name, p in model.named_parameters():
        p.register_post_accumulate_grad_hook(lambda p, name=name: print(name, p.grad.sum().item().hex()))
    x = torch.randn(4, 8, device=device, requires_grad=True)
    for step in range(3):
        y = model(Doubled.apply(x))
        y.register_hook(lambda gradient: print("tensor", gradient.sum().item().hex()))
        (slope,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        (slope.pow(2).sum() + y.mean()).backward()
"""

_STREAMS = """
    def train(number):
        torch.manual_seed(number)
        model = nn.Linear(64, 64).to(device)
        with torch.cuda.stream(torch.cuda.Stream()):
            for step in range(8):
                x = torch.randn(32, 64, device=device)
                model.zero_grad()
                model(x).tanh().pow(2).mean().backward()
                with torch.no_grad():
                    for p in model.parameters():
                        p.sub_(p.grad, alpha=0.1)
            torch.cuda.current_stream().synchronize()
        return [p.double().sum().item().hex() for p in model.parameters()]

    print(train(1))
    side, x = torch.cuda.Stream(), torch.randn(64, 64, device=device, requires_grad=True)
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        y = (x * x).sum()
    torch.cuda.current_stream().wait_stream(side)
    y.record_stream(torch.cuda.current_stream())
    y.backward()
    print(x.grad.sum().item().hex(), torch.cuda.memory_allocated())
"""

_CAPTURED = """
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 1)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x = torch.randn(16, 32, device=device)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for step in range(3):
            optimizer.zero_grad(set_to_none=True)
            model(x).pow(2).mean().backward()
            optimizer.step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    optimizer.zero_grad(set_to_none=True)
    with torch.cuda.graph(graph):
        loss = model(x).pow(2).mean()
        loss.backward()
        optimizer.step()
    for step in range(5):
        x.copy_(torch.randn(16, 32, device=device))
        graph.replay()
        print(loss.item().hex())
    block = torch.cuda.make_graphed_callables(nn.Linear(32, 32).to(device), (torch.randn(16, 32, device=device),))
    for step in range(3):
        block(torch.randn(16, 32, device=device)).pow(2).mean().backward()
    print([p.grad.double().sum().item().hex() for p in block.parameters()], torch.cuda.memory_allocated())
"""

_GIVEN_BACK = """
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(min(1.0, (2 << 30) / total))
    model = nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 512)).to(device)
    optimizer = torch.optim.Adam(model.parameters())
    size = 1 << 20
    while True:
        try:
            for step in range(4):
                optimizer.zero_grad()
                model(torch.randn(size, 512, device=device)).pow(2).mean().backward()
                optimizer.step()
            break
        except torch.cuda.OutOfMemoryError:
            optimizer.zero_grad(set_to_none=True)
            torch.cuda.empty_cache()
            print("too large", size, torch.cuda.memory_allocated())
            size //= 2
    print(size, torch.cuda.memory_allocated(), torch.cuda.max_memory_allocated())
    del model, optimizer
    import gc
    gc.collect()
    torch.cuda.empty_cache()
    print(torch.cuda.memory_reserved())
"""

_SCALED = """
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1)).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    scaler = torch.amp.GradScaler(device, init_scale=2.0**24, growth_interval=3)
    for step in range(16):
        optimizer.zero_grad()
        with torch.autocast(device, dtype=torch.float16):
            loss = model(torch.randn(32, 64, device=device)).pow(2).mean()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        print(step, scaler.get_scale(), loss.item().hex(), norm.item().hex())
"""

_RECOMPUTED = """
    from torch.utils.checkpoint import checkpoint
    from torch.utils.data import DataLoader, TensorDataset

    blocks = nn.ModuleList(nn.Sequential(nn.Linear(64, 64), nn.Dropout(0.3), nn.GELU()) for _ in range(4)).to(device)
    optimizer = torch.optim.AdamW(blocks.parameters(), lr=1e-3)
    data = TensorDataset(torch.randn(64, 64), torch.randn(64, 64))
    for epoch in range(2):
        for x, y in DataLoader(data, 16, shuffle=True, num_workers=2, pin_memory=True):
            h, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
            for block in blocks:
                h = checkpoint(block, h, use_reentrant=False)
            loss = nn.functional.mse_loss(h, y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            print(loss.item().hex(), torch.cuda.memory_allocated())
    torch.cuda.memory._record_memory_history(max_entries=10_000)
    blocks[0](torch.randn(16, 64, device=device)).sum().backward()
    print(len(torch.cuda.memory._snapshot()["device_traces"][0]))
"""

_COMPILED = """
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1)).to(device)
    fast = torch.compile(model, mode=MODE)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(8):
        optimizer.zero_grad()
        loss = fast(torch.randn(32, 64, device=device)).pow(2).mean()
        loss.backward()
        optimizer.step()
        print(loss.item().hex())
"""

_NCCL = """
    import torch.distributed as dist
    from torch.distributed.fsdp import fully_shard
    from torch.nn.parallel import DistributedDataParallel

    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29581")
    dist.init_process_group("nccl", rank=0, world_size=1, device_id=torch.device("cuda", 0))
    for wrap in (DistributedDataParallel, fully_shard):
        torch.manual_seed(0)
        model = wrap(nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1)).to(device))
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        for step in range(6):
            loss = model(torch.randn(32, 64, device=device)).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            print(wrap.__name__, loss.item().hex())
    dist.destroy_process_group()
"""


def unchanged(text: str) -> Callable[[Machine], str]:
    """A check that a program prints under the recorder what it prints without."""

    def check_it(machine: Machine) -> str:
        plain = machine.plain(text)
        result, _ = machine.record(text)
        assert result.how_ended == "finished", result.detail
        assert result.stdout == plain, f"{result.stdout} for {plain}"
        return f"{len(plain.splitlines())} lines the same"

    return check_it


def graph_in_a_hook(machine: Machine) -> str:
    """Graphs kept by a hook, which the engine calls in a thread of the device."""
    result, found = machine.record("""
        model = nn.Sequential(nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 1)).to(device)
        slopes = []
        for step in range(8):
            x = torch.randn(4, 16, device=device, requires_grad=True)
            y = x.exp()
            y.register_hook(lambda gradient: slopes.append(gradient.pow(2).sum()))
            torch.autograd.grad(model(y).sum(), x, create_graph=True)
    """)
    assert result.how_ended == "finished", result.detail
    assert _lines(found, "TAPE201"), found
    return f"TAPE201 at {_lines(found, 'TAPE201')[0][:60]}"


def double_backward_twice(machine: Machine) -> str:
    """A graph that a backward built, in a thread of the device, and that is walked twice."""
    result, found = machine.record("""
        model = nn.Sequential(nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 1)).to(device)
        x = torch.randn(4, 16, device=device, requires_grad=True)
        (slope,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
        penalty = slope.pow(2).sum()
        penalty.backward()
        penalty.backward()
    """)
    assert result.how_ended == "raised", result.detail
    assert _lines(found, "TAPE101") == ["penalty.backward()"], found
    return "TAPE101 on its line"


@dataclass(frozen=True)
class Check:
    """One row of the table."""

    name: str
    check: Callable[[Machine], str]
    only_cuda: bool = False


CHECKS = (
    Check("a graph walked twice", backward_twice),
    Check("a saved tensor changed", changed_in_place),
    Check("graphs kept over iterations", kept_graphs),
    Check("autocast and GradScaler", mixed_precision),
    Check("results unchanged", same_results),
    Check("peak memory unchanged", same_peak, only_cuda=True),
    Check("memory runs out", memory_runs_out),
    Check("no synchronisation", no_synchronisation, only_cuda=True),
    Check("synchronisations counted", synchronisations_counted, only_cuda=True),
    Check("device time", device_time, only_cuda=True),
    Check("a graph kept by a hook", graph_in_a_hook),
    Check("a double backward walked twice", double_backward_twice),
    Check("hooks in the engine's thread", unchanged(_HOOKS)),
    Check("autocast in float16", unchanged(_SCALED)),
    Check("streams", unchanged(_STREAMS), only_cuda=True),
    Check("captured graphs", unchanged(_CAPTURED), only_cuda=True),
    Check("memory given back", unchanged(_GIVEN_BACK), only_cuda=True),
    Check("checkpoints, pinned loader", unchanged(_RECOMPUTED), only_cuda=True),
    Check("torch.compile", unchanged(_COMPILED.replace("MODE", "None")), only_cuda=True),
    Check("torch.compile, CUDA graphs", unchanged(_COMPILED.replace("MODE", "'reduce-overhead'")), only_cuda=True),
    Check("nccl, one process", unchanged(_NCCL), only_cuda=True),
)


def gpu_of(python: str) -> str:
    """The name of the GPU that an interpreter's torch can use; raises LookupError saying why there is none."""
    ask = "import torch; print(torch.cuda.get_device_name() if torch.cuda.is_available() else '')"
    done = subprocess.run([python, "-c", ask], capture_output=True, text=True, timeout=120, check=False)
    if done.returncode:
        raise LookupError(f"{python} has no torch that works: {(done.stderr.strip().splitlines() or ['?'])[-1]}")
    name = done.stdout.strip()
    if not name:
        raise LookupError("no GPU that torch can use")
    return name


def main() -> int:
    """Run the checks, print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable, metavar="P", help="an interpreter with torch")
    parser.add_argument("--cpu", action="store_true", help="run the same programs on the CPU")
    options = parser.parse_args()
    why = ""
    if not options.cpu:
        try:
            print(f"GPU: {gpu_of(options.python)}")
        except LookupError as error:
            why = str(error)
    failed = 0
    print(f"{'check':<32} {'result':<8} {'seconds':>7}  detail")
    for item in CHECKS:
        began = time.monotonic()
        if why or (options.cpu and item.only_cuda):
            result, detail = "skipped", why or "a GPU's own"
        else:
            with tempfile.TemporaryDirectory() as name:
                machine = Machine(options.python, "cpu" if options.cpu else "cuda", Path(name))
                try:
                    result, detail = "ok", item.check(machine)
                except Exception as error:
                    result, detail = "FAILED", f"{type(error).__name__}: {error}"[:300]
                    failed += 1
        print(f"{item.name:<32} {result:<8} {time.monotonic() - began:>7.1f}  {detail}", flush=True)
    if why:
        print(f"nothing was checked: {why}. The same programs run on the CPU with --cpu (make cuda CPU=1).")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
