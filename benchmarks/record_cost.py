#!/usr/bin/env python3
"""What recording costs: CPU time of programs under the recorder, anomaly mode and the profiler over the plain run.

    python benchmarks/record_cost.py                    # all programs, five interleaved rounds
    python benchmarks/record_cost.py --rounds 3 --only lstm --python path/to/python

Every round runs each way once, each in a process of its own; the figure is the median of the rounds' ratios to the
plain run of the same round. Time is counted from the second iteration on, so that what is loaded at the first one is
not part of it; nor is the full garbage collection that torch's 300,000 objects bring about sooner or later. On a
machine with CUDA the programs are run on it, too (wall time, synchronised at the end).
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROBE = ROOT / "server" / "tapecheck" / "record" / "probe" / "__main__.py"

COMMON = """
import contextlib, gc, os, sys, time
import torch
from torch import nn
torch.set_num_threads(1)
torch.manual_seed(0)
device = os.environ.get("BENCH_DEVICE", "cpu")
way = os.environ.get("BENCH_WAY", "plain")
around = contextlib.nullcontext()
if way == "anomaly mode":
    around = torch.autograd.set_detect_anomaly(True)
if way == "profiler":
    around = torch.profiler.profile(with_stack=True)

def begin():
    gc.collect()
    return clock()

def clock():
    if device != "cpu":
        torch.cuda.synchronize()
        return time.perf_counter()
    return time.process_time()

def took(began):
    print("took", clock() - began, file=sys.stderr)
"""

PROGRAMS = {
    "mlp": (
        6000,
        """
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x, y = torch.randn(8, 16, device=device), torch.randn(8, 1, device=device)
with around:
    for step in range(STEPS):
        if step == 1:
            began = begin()
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
    took(began)
""",
    ),
    "lstm": (
        80,
        """
cell = nn.LSTMCell(32, 64).to(device)
head = nn.Linear(64, 8).to(device)
optimizer = torch.optim.Adam([*cell.parameters(), *head.parameters()])
x = torch.randn(200, 16, 32, device=device)
with around:
    for step in range(STEPS):
        if step == 1:
            began = begin()
        h, c = torch.zeros(16, 64, device=device), torch.zeros(16, 64, device=device)
        loss = 0.0
        for t in range(200):
            h, c = cell(x[t], (h, c))
            loss = loss + head(h).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    took(began)
""",
    ),
    "transformer": (
        20,
        """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 64, 7, stride=4)
        layer = nn.TransformerEncoderLayer(64, 4, 256, batch_first=True)
        self.body = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
        self.head = nn.Linear(64, 10)

    def forward(self, x):
        x = self.conv(x).flatten(2).transpose(1, 2)
        return self.head(self.body(x).mean(1))

model = Net().to(device)
optimizer = torch.optim.AdamW(model.parameters())
x, y = torch.randn(8, 3, 64, 64, device=device), torch.randint(0, 10, (8,), device=device)
with around:
    for step in range(STEPS):
        if step == 1:
            began = begin()
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    took(began)
""",
    ),
}
WAYS = ("recorder", "anomaly mode", "profiler")


def seconds(python: str, folder: Path, name: str, way: str, device: str) -> float:
    """The time of a program's iterations but the first."""
    script = folder / f"{name}.py"
    steps, body = PROGRAMS[name]
    script.write_text(COMMON + body.replace("STEPS", str(steps)))
    command = [python, str(script)]
    if way == "recorder":
        command = [python, str(PROBE), "--tape", str(folder / "tape.jsonl"), str(script)]
    env = {**os.environ, "OMP_NUM_THREADS": "1", "BENCH_WAY": way, "BENCH_DEVICE": device}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{name}, {way}: {done.stderr.strip()[-1000:]}")
    return float(next(line for line in done.stderr.splitlines() if line.startswith("took ")).split()[1])


def main() -> None:
    """Print one row for each program and device."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", choices=PROGRAMS, help="one program")
    parser.add_argument("--ways", default=",".join(WAYS), help="parted by commas")
    parser.add_argument("--python", default=sys.executable, help="an interpreter with torch")
    options = parser.parse_args()
    ask = "import sys, torch; print(sys.version.split()[0], torch.__version__, torch.cuda.is_available())"
    version, torch, cuda = subprocess.check_output([options.python, "-c", ask], text=True).split()
    print(f"Python {version}, torch {torch}; ratios to the plain run, median of {options.rounds} rounds")
    ways = options.ways.split(",")
    print(f"{'program':<14}{'device':<8}{'plain, ms an iteration':>24}" + "".join(f"{way:>16}" for way in ways))
    with tempfile.TemporaryDirectory() as scratch:
        for device in ("cpu", "cuda") if cuda == "True" else ("cpu",):
            for name in [options.only] if options.only else PROGRAMS:
                plain: list[float] = []
                ratios: dict[str, list[float]] = {way: [] for way in ways}
                for _ in range(options.rounds):
                    plain.append(seconds(options.python, Path(scratch), name, "plain", device))
                    for way in ways:
                        ratios[way].append(seconds(options.python, Path(scratch), name, way, device) / plain[-1])
                each = statistics.median(plain) / (PROGRAMS[name][0] - 1) * 1000
                row = "".join(f"{statistics.median(ratios[way]):>16.2f}" for way in ways)
                print(f"{name:<14}{device:<8}{each:>24.3f}{row}", flush=True)


if __name__ == "__main__":
    main()
