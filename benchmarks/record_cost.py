#!/usr/bin/env python3
"""What recording costs: CPU time of programs under the recorder, anomaly mode and the profiler over the plain run.

    python benchmarks/record_cost.py                    # all programs, five interleaved rounds
    python benchmarks/record_cost.py --rounds 3 --only lstm --python path/to/python
    python benchmarks/record_cost.py --times 10         # ten times the iterations: what a longer run costs
    python benchmarks/record_cost.py --together         # on a machine that has other work to do (Linux)
    python benchmarks/record_cost.py --leaks            # with a list of losses that keep their graphs

Every round runs each way once, each in a process of its own; the figure is the median of the rounds' ratios to the
plain run of the same round. With `--together` the ways of a round run at once and share one core, so that whatever else
the machine does slows all of them alike. Time is counted from the second iteration on, so that what is loaded at the
first one is not part of it; nor is the full garbage collection that torch's 300,000 objects bring about sooner or
later. Memory is the most that was resident. On a machine with CUDA the programs are run on it, too (wall time,
synchronised at the end).
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from record_programs import PROGRAMS as AS_TRAINED

ROOT = Path(__file__).parents[1]
PROBE = ROOT / "server" / "tapecheck" / "record" / "probe" / "__main__.py"

COMMON = """
import contextlib, gc, os, resource, sys, time
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
    print("took", clock() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)
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
    "ppo": (
        12,
        """
import math, random
random.seed(0)

class CartPole:
    def reset(self):
        self.s, self.t = [random.uniform(-0.05, 0.05) for _ in range(4)], 0
        return list(self.s)

    def step(self, action):
        x, v, angle, turn = self.s
        force = 10.0 if action == 1 else -10.0
        c, s = math.cos(angle), math.sin(angle)
        pushed = (force + 0.05 * turn * turn * s) / 1.1
        bent = (9.8 * s - c * pushed) / (0.5 * (4.0 / 3.0 - 0.1 * c * c / 1.1))
        moved = pushed - 0.05 * bent * c / 1.1
        self.s = [x + 0.02 * v, v + 0.02 * moved, angle + 0.02 * turn, turn + 0.02 * bent]
        self.t += 1
        done = abs(self.s[0]) > 2.4 or abs(self.s[2]) > 0.2095 or self.t >= 500
        return list(self.s), 1.0, done

class Vector:
    def __init__(self, count):
        self.envs = [CartPole() for _ in range(count)]

    def reset(self):
        return [env.reset() for env in self.envs]

    def step(self, actions):
        states, rewards, dones = [], [], []
        for env, action in zip(self.envs, actions):
            state, reward, done = env.step(int(action))
            if done:
                state = env.reset()
            states.append(state)
            rewards.append(reward)
            dones.append(float(done))
        return states, rewards, dones

def layer(inputs, outputs, std=2 ** 0.5):
    linear = nn.Linear(inputs, outputs)
    nn.init.orthogonal_(linear.weight, std)
    nn.init.constant_(linear.bias, 0.0)
    return linear

class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.critic = nn.Sequential(layer(4, 64), nn.Tanh(), layer(64, 64), nn.Tanh(), layer(64, 1, 1.0))
        self.actor = nn.Sequential(layer(4, 64), nn.Tanh(), layer(64, 64), nn.Tanh(), layer(64, 2, 0.01))

    def value(self, x):
        return self.critic(x)

    def act(self, x, action=None):
        chances = torch.distributions.Categorical(logits=self.actor(x))
        if action is None:
            action = chances.sample()
        return action, chances.log_prob(action), chances.entropy(), self.critic(x)

count, length = 4, 128
agent, envs = Agent().to(device), Vector(count)
optimizer = torch.optim.Adam(agent.parameters(), lr=2.5e-4, eps=1e-5)
states = torch.zeros(length, count, 4, device=device)
actions, logs, rewards, dones, values = (torch.zeros(length, count, device=device) for _ in range(5))
state, done = torch.tensor(envs.reset(), device=device), torch.zeros(count, device=device)
with around:
    for update in range(STEPS):
        if update == 1:
            began = begin()
        for step in range(length):
            states[step] = state
            dones[step] = done
            with torch.no_grad():
                action, log, _, value = agent.act(state)
                values[step] = value.flatten()
            actions[step] = action
            logs[step] = log
            moved, reward, over = envs.step(action.tolist())
            rewards[step] = torch.tensor(reward, device=device)
            state, done = torch.tensor(moved, device=device), torch.tensor(over, device=device)
        with torch.no_grad():
            following = agent.value(state).reshape(-1)
            advantages = torch.zeros_like(rewards)
            last = 0
            for t in reversed(range(length)):
                alive = 1.0 - (done if t == length - 1 else dones[t + 1])
                ahead = following if t == length - 1 else values[t + 1]
                delta = rewards[t] + 0.99 * ahead * alive - values[t]
                advantages[t] = last = delta + 0.99 * 0.95 * alive * last
            returns = advantages + values
        flat = [item.reshape(-1, *item.shape[2:]) for item in (states, actions, logs, advantages, returns)]
        order = torch.randperm(count * length)
        for epoch in range(4):
            for start in range(0, count * length, 128):
                s, a, old, advantage, target = (item[order[start : start + 128]] for item in flat)
                _, new, entropy, value = agent.act(s, a)
                ratio = (new - old).exp()
                advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
                policy = torch.max(-advantage * ratio, -advantage * ratio.clamp(0.8, 1.2)).mean()
                loss = policy - 0.01 * entropy.mean() + 0.5 * (value.view(-1) - target).pow(2).mean()
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
                optimizer.step()
    took(began)
""",
    ),
    "gpt": (
        40,
        """
import math

class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.inward, self.outward = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        b, t, c = x.size()
        q, k, v = self.inward(x).split(c, dim=2)
        q = q.view(b, t, self.heads, c // self.heads).transpose(1, 2)
        k = k.view(b, t, self.heads, c // self.heads).transpose(1, 2)
        v = v.view(b, t, self.heads, c // self.heads).transpose(1, 2)
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.outward(y.transpose(1, 2).contiguous().view(b, t, c))

class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        x = x + self.attention(self.first(x))
        return x + self.down(nn.functional.gelu(self.up(self.second(x))))

class Gpt(nn.Module):
    def __init__(self, words=65, context=64, width=128, heads=4, depth=4):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList([Block(width, heads) for _ in range(depth)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)
        self.head.weight = self.words.weight

    def forward(self, tokens, targets):
        x = self.words(tokens) + self.places(torch.arange(tokens.size(1), device=tokens.device))
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        return logits, nn.functional.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))

text = torch.randint(0, 65, (20_000,))

def batch():
    at = torch.randint(len(text) - 64, (8,))
    x = torch.stack([text[i : i + 64] for i in at])
    y = torch.stack([text[i + 1 : i + 65] for i in at])
    return x.to(device), y.to(device)

def rate(step):
    return 1e-3 * (step + 1) / 10 if step < 10 else 1e-4 + 0.45e-3 * (1 + math.cos(math.pi * step / STEPS))

model = Gpt().to(device)
optimizer = torch.optim.AdamW(model.parameters(), weight_decay=0.1)
x, y = batch()
with around:
    for step in range(STEPS):
        if step == 1:
            began = begin()
        for group in optimizer.param_groups:
            group["lr"] = rate(step)
        for micro in range(2):
            logits, loss = model(x, y)
            x, y = batch()
            (loss / 2).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    took(began)
""",
    ),
    "maml": (
        60,
        """
def net(x, w):
    x = torch.relu(nn.functional.linear(x, w[0], w[1]))
    x = torch.relu(nn.functional.linear(x, w[2], w[3]))
    return nn.functional.linear(x, w[4], w[5])

def task():
    height, phase = torch.rand(1, device=device) * 4.9 + 0.1, torch.rand(1, device=device) * 3.14
    def draw(count):
        x = torch.rand(count, 1, device=device) * 10 - 5
        return x, height * torch.sin(x + phase)
    return draw

def adapted(weights, draw, steps=5):
    for _ in range(steps):
        x, y = draw(10)
        loss = nn.functional.mse_loss(net(x, weights), y)
        slopes = torch.autograd.grad(loss, weights, create_graph=True)
        weights = [w - 0.01 * g for w, g in zip(weights, slopes)]
    return weights

sizes = [(40, 1), (40,), (40, 40), (40,), (1, 40), (1,)]
weights = [(torch.randn(size, device=device) * 0.3).requires_grad_() for size in sizes]
optimizer = torch.optim.Adam(weights, lr=1e-3)
with around:
    for step in range(STEPS):
        if step == 1:
            began = begin()
        total = 0.0
        for _ in range(4):
            draw = task()
            x, y = draw(10)
            total = total + nn.functional.mse_loss(net(x, adapted(weights, draw)), y)
        optimizer.zero_grad()
        total.backward()
        optimizer.step()
    took(began)
""",
    ),
    "pyheavy": (
        200,
        """
class Env:
    def __init__(self):
        self.s = [0.1, 0.2, 0.3, 0.4]

    def step(self, action):
        n = []
        for i, v in enumerate(self.s):
            v = v * 0.99
            if action:
                v += 0.01 * i
            else:
                v -= 0.01 * i
            n.append(v)
        self.s = n
        return n, sum(n)

net = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 2)).to(device)
optimizer = torch.optim.Adam(net.parameters())
env = Env()
with around:
    for update in range(STEPS):
        if update == 1:
            began = begin()
        returns = []
        for t in range(1500):
            state, reward = env.step(t % 2)
            returns.append(reward)
        loss = net(torch.randn(16, 4, device=device)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    took(began)
""",
    ),
    "heavy_dataset": (
        12,
        """
from torch.utils.data import DataLoader, Dataset

class Text(Dataset):
    def __init__(self):
        self.texts = [("the cat sat on the mat " * 20).split() for _ in range(400)]
        self.words = {w: i for i, w in enumerate(sorted({w for t in self.texts for w in t}))}

    def __len__(self):
        return len(self.texts)

    def __getitem__(self, index):
        tokens = []
        for word in self.texts[index]:
            code = 0
            for letter in word:
                code = (code * 31 + ord(letter)) % 1000
            tokens.append(self.words[word] + code * 0)
        return torch.tensor(tokens)

net, head = nn.Embedding(10, 8).to(device), nn.Linear(8, 1).to(device)
optimizer = torch.optim.SGD([*net.parameters(), *head.parameters()], lr=0.1)
with around:
    for epoch in range(STEPS):
        if epoch == 1:
            began = begin()
        for x in DataLoader(Text(), 16):
            loss = head(net(x.to(device))).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    took(began)
""",
    ),
    **AS_TRAINED,
}
WAYS = ("recorder", "anomaly mode", "profiler")


def start(
    python: str, folder: Path, name: str, way: str, device: str, options: argparse.Namespace, core: int
) -> subprocess.Popen[str]:
    """Start a program in a process of its own, on one core unless that is negative."""
    script = folder / f"{name}.py"
    steps, body = PROGRAMS[name]
    if options.leaks:
        body = body.replace("# keep", "losses.append(loss)")
    script.write_text(COMMON + body.replace("STEPS", str(steps * options.times)))
    command = [python, str(script)]
    if way == "recorder":
        command = [python, str(PROBE), "--tape", str(folder / "tape.jsonl"), "--levels", "0", str(script)]
    env = {**os.environ, "OMP_NUM_THREADS": "1", "BENCH_WAY": way, "BENCH_DEVICE": device}
    process = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if core >= 0:
        os.sched_setaffinity(process.pid, {core})
    return process


def taken(process: subprocess.Popen[str], what: str) -> tuple[float, float]:
    """The time of a program's iterations but the first, and the most memory that it had."""
    _, told = process.communicate()
    if process.returncode:
        sys.exit(f"{what}: {told.strip()[-1000:]}")
    _, time, memory = next(line for line in told.splitlines() if line.startswith("took ")).split()
    return float(time), float(memory)


def measured(
    python: str, folder: Path, name: str, ways: list[str], device: str, options: argparse.Namespace, core: int
) -> dict[str, tuple[float, float]]:
    """The seconds and memory of each way, all at once on one core or, where that is negative, one after the other."""
    where = python, folder, name
    if core < 0:
        return {way: taken(start(*where, way, device, options, core), f"{name}, {way}") for way in ways}
    running = {way: start(*where, way, device, options, core) for way in ways}
    return {way: taken(process, f"{name}, {way}") for way, process in running.items()}


def main() -> None:
    """Print one row for each program and device, and the median and the worst of all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--times", type=int, default=1, help="so many times the iterations")
    parser.add_argument("--only", choices=PROGRAMS, help="one program")
    parser.add_argument("--ways", default=",".join(WAYS), help="parted by commas")
    parser.add_argument("--python", default=sys.executable, help="an interpreter with torch")
    parser.add_argument("--device", choices=("cpu", "cuda"), help="on this one alone")
    parser.add_argument("--together", action="store_true", help="the ways at once, on one core")
    parser.add_argument(
        "--leaks", action="store_true", help="keep the losses, in the programs that have a place for it"
    )
    options = parser.parse_args()
    ask = "import sys, torch; print(sys.version.split()[0], torch.__version__, torch.cuda.is_available())"
    version, torch, cuda = subprocess.check_output([options.python, "-c", ask], text=True).split()
    print(f"Python {version}, torch {torch}; ratios to the plain run, median of {options.rounds} rounds", end="")
    print(f", {options.times} times the iterations" if options.times > 1 else "")
    ways = options.ways.split(",")
    cores = sorted(os.sched_getaffinity(0)) if options.together else []
    print(f"{'program':<14}{'device':<8}{'plain, ms an iteration':>24}" + "".join(f"{way:>16}" for way in ways), end="")
    print(f"{'memory':>10}" if "recorder" in ways else "")
    named = [options.only] if options.only else [n for n in PROGRAMS if not options.leaks or "# keep" in PROGRAMS[n][1]]
    times: list[float] = []
    sizes: list[float] = []
    with tempfile.TemporaryDirectory() as scratch:
        for device in [options.device] if options.device else ("cpu", "cuda") if cuda == "True" else ("cpu",):
            for name in named:
                plain: list[float] = []
                ratios: dict[str, list[float]] = {way: [] for way in ways}
                memory: list[float] = []
                for number in range(options.rounds):
                    core = cores[number % len(cores)] if options.together else -1
                    took = measured(options.python, Path(scratch), name, ["plain", *ways], device, options, core)
                    plain.append(took["plain"][0])
                    for way in ways:
                        ratios[way].append(took[way][0] / took["plain"][0])
                    if "recorder" in ways:
                        memory.append(took["recorder"][1] / took["plain"][1])
                each = statistics.median(plain) / (PROGRAMS[name][0] * options.times - 1) * 1000
                row = "".join(f"{statistics.median(ratios[way]):>16.2f}" for way in ways)
                if memory:
                    times.append(statistics.median(ratios["recorder"]))
                    sizes.append(statistics.median(memory))
                    row += f"{sizes[-1]:>10.2f}"
                print(f"{name:<14}{device:<8}{each:>24.3f}{row}", flush=True)
    if times:
        print(f"the recorder, median and worst of {len(times)}: ", end="")
        print(f"time {statistics.median(times):.2f} {max(times):.2f}, ", end="")
        print(f"memory {statistics.median(sizes):.2f} {max(sizes):.2f}")


if __name__ == "__main__":
    main()
