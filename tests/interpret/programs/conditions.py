"""Programs that torch runs to their end, whose conditions hang together: no way through one may end in a finding."""

PROGRAMS = {
    "same modulus twice on unknown": """
w = torch.randn(3, requires_grad=True)
import sys
def go(args_n, flag):
    loss = w.exp().sum()
    for i in range(4):
        if i % args_n == 0:
            loss = w.exp().sum()
        loss2 = loss * 2
        if i % args_n == 0:
            loss2.backward()
go(1, 1)
""",
    "argparse flag kept": """
w = torch.randn(3, requires_grad=True)
import argparse
p = argparse.ArgumentParser()
p.add_argument("--k", type=int, default=2)
p.add_argument("--twice", action="store_true")
args = p.parse_args([])
loss = w.exp().sum()
for i in range(4):
    if (i + 1) % args.k == 1:
        loss = w.exp().sum()
    if (i + 1) % args.k == 1:
        loss.backward()
""",
    "warmup range with zero": """
w = torch.randn(3, requires_grad=True)
import argparse
p = argparse.ArgumentParser()
p.add_argument("--warm", type=int, default=0)
args = p.parse_args([])
loss = w.exp().sum()
if args.warm > 0:
    pass
else:
    loss.backward()
for i in range(args.warm):
    loss.backward()
    break
""",
    "truthy list unknown": """
w = torch.randn(3, requires_grad=True)
import os
items = os.environ.get("ITEMS", "").split()
loss = w.exp().sum()
if not items:
    loss.backward()
for it in items:
    loss.backward()
    break
""",
    "iterated then tested": """
w = torch.randn(3, requires_grad=True)
import os
names = os.environ.get("N", "a b").split()
loss = None
for n in names:
    loss = w.exp().sum()
if names:
    loss.backward()
""",
    "len of loader last step": """
w = torch.randn(3, requires_grad=True)
from torch.utils.data import DataLoader
data = [(torch.randn(3), 1.0) for _ in range(6)]
loader = DataLoader(data, batch_size=2)
for epoch in range(2):
    feats = w.exp()
    for i, (x, y) in enumerate(loader):
        loss = (feats * x).sum()
        loss.backward(retain_graph=(i < len(loader) - 1))
""",
    "len of loader computed before": """
w = torch.randn(3, requires_grad=True)
from torch.utils.data import DataLoader
data = [(torch.randn(3), 1.0) for _ in range(6)]
loader = DataLoader(data, batch_size=2)
last = len(loader) - 1
for epoch in range(2):
    feats = w.exp()
    for i, (x, y) in enumerate(loader):
        loss = (feats * x).sum()
        loss.backward(retain_graph=i != last)
""",
    "accumulation with len": """
w = torch.randn(3, requires_grad=True)
from torch.utils.data import DataLoader
data = [(torch.randn(3), 1.0) for _ in range(6)]
loader = DataLoader(data, batch_size=2)
total = 0
for i, (x, y) in enumerate(loader):
    total = total + (w * x).exp().sum()
    if (i + 1) % 2 == 0 or i + 1 == len(loader):
        total.backward()
        total = 0
""",
    "first iteration only": """
w = torch.randn(3, requires_grad=True)
loss_prev = None
for i in range(5):
    loss = w.exp().sum()
    if loss_prev is not None:
        (loss - loss_prev.detach()).backward()
    loss_prev = loss
""",
    "epoch and step zero": """
w = torch.randn(3, requires_grad=True)
for epoch in range(3):
    for step in range(3):
        if epoch == 0 and step == 0:
            kept = w.exp().sum()
            kept.backward(retain_graph=True)
kept.backward()
""",
    "isinstance on unknown twice": """
w = torch.randn(3, requires_grad=True)
import pickle, os
obj = os.environ.get("X")
loss = w.exp().sum()
if isinstance(obj, str):
    loss.backward()
if not isinstance(obj, str):
    loss.backward()
""",
    "in test twice": """
w = torch.randn(3, requires_grad=True)
import os
mode = os.environ.get("MODE", "a")
loss = w.exp().sum()
if mode in ("a", "b"):
    loss.backward()
if mode not in ("a", "b"):
    loss.backward()
""",
    "startswith twice": """
w = torch.randn(3, requires_grad=True)
import os
mode = os.environ.get("MODE", "a")
loss = w.exp().sum()
if mode.startswith("a"):
    loss.backward()
if not mode.startswith("a"):
    loss.backward()
""",
    "stored condition": """
w = torch.randn(3, requires_grad=True)
import os
n = int(os.environ.get("N", "3"))
big = n > 10
loss = w.exp().sum()
if big:
    loss.backward()
if n <= 10:
    loss.backward()
""",
    "implied": """
w = torch.randn(3, requires_grad=True)
import os
n = int(os.environ.get("N", "3"))
loss = w.exp().sum()
if n > 10:
    loss.backward()
if n < 5:
    loss.backward()
""",
    "equal implies other tests": """
w = torch.randn(3, requires_grad=True)
import os
m = os.environ.get("M", "x")
loss = w.exp().sum()
if m == "train":
    loss.backward()
elif m == "both":
    loss.backward()
if m == "other":
    loss.backward()
""",
    "counters in attributes": """
w = torch.randn(3, requires_grad=True)
class T:
    def __init__(self): self.step = 0
    def train(self, n):
        for i in range(n):
            self.step += 1
t = T()
t.train(50)
loss = w.exp().sum()
if t.step == 3:
    loss.backward()
loss.backward()
""",
    "counter incremented by callee": """
w = torch.randn(3, requires_grad=True)
class T:
    def __init__(self): self.n = 0
    def hit(self): self.n += 1
t = T()
for i in range(50):
    t.hit()
loss = w.exp().sum()
if t.n < 20:
    loss.backward()
loss.backward()
""",
    "counter in dict and global": """
w = torch.randn(3, requires_grad=True)
state = {"n": 0}
count = 0
def hit():
    global count
    count += 1
for i in range(60):
    hit()
    state["n"] += 1
loss = w.exp().sum()
if count < 10 or state["n"] < 10:
    loss.backward()
loss.backward()
""",
    "list grown in loop": """
w = torch.randn(3, requires_grad=True)
xs = []
for i in range(60):
    xs.append(i)
loss = w.exp().sum()
if len(xs) < 10:
    loss.backward()
loss.backward()
""",
    "hydra like config": """
w = torch.randn(3, requires_grad=True)
from types import SimpleNamespace
cfg = SimpleNamespace(train=SimpleNamespace(accum=2, retain=False), name="x")
for i in range(4):
    loss = w.exp().sum()
    loss.backward(retain_graph=cfg.train.retain)
    if cfg.train.retain:
        loss.backward()
""",
    "retain flag mirrors condition": """
w = torch.randn(3, requires_grad=True)
import os
twice = bool(os.environ.get("TWICE"))
for i in range(3):
    loss = w.exp().sum()
    loss.backward(retain_graph=twice)
    if twice:
        loss.backward()
""",
    "retain flag by expression": """
w = torch.randn(3, requires_grad=True)
import os
k = int(os.environ.get("K", "2"))
for i in range(3):
    loss = w.exp().sum()
    for j in range(k):
        loss.backward(retain_graph=j < k - 1)
""",
    "retain flag j + 1 != k": """
w = torch.randn(3, requires_grad=True)
import os
k = int(os.environ.get("K", "2"))
loss = w.exp().sum()
for j in range(k):
    loss.backward(retain_graph=(j + 1) != k)
""",
    "n critic": """
w = torch.randn(3, requires_grad=True)
import os
n_critic = int(os.environ.get("NC", "5"))
z = torch.randn(3)
for i in range(10):
    fake = w * z
    d = fake.detach().pow(2).sum()
    if i % n_critic == 0:
        g = fake.exp().sum()
        g.backward()
""",
    "while counter unknown": """
w = torch.randn(3, requires_grad=True)
import os
steps = int(os.environ.get("STEPS", "4"))
i = 0
loss = w.exp().sum()
while i < steps:
    loss.backward(retain_graph=(i + 1 < steps))
    i += 1
""",
    "early stop flag": """
w = torch.randn(3, requires_grad=True)
stop = False
best = 1e9
for epoch in range(5):
    loss = w.exp().sum()
    loss.backward()
    if loss.item() < best:
        best = loss.item()
    else:
        stop = True
    if stop:
        break
""",
    "done flag from env": """
w = torch.randn(3, requires_grad=True)
import random
h = torch.zeros(3)
for t in range(6):
    h = torch.tanh(h.detach() + w)
    done = random.random() < 0.5
    if done:
        h = torch.zeros(3)
    h.sum().backward() if h.requires_grad else None
""",
    "one text cannot be in a tuple and equal another": """
import argparse
p = argparse.ArgumentParser()
p.add_argument("--mode", default="a")
mode = p.parse_args([]).mode
w = torch.ones(3, requires_grad=True)
loss = (w * w).sum()
if mode in ("a", "b"):
    loss.backward()
if mode == "c":
    loss.backward()
""",
    "an object of one class is none of another": """
import json, sys
def go(thing):
    w = torch.ones(3, requires_grad=True)
    loss = (w * w).sum()
    if isinstance(thing, str):
        loss.backward()
    if isinstance(thing, int):
        loss.backward()
    loss = (w * w).sum()
    if isinstance(thing, (nn.Linear, nn.Conv2d)):
        loss.backward()
    elif isinstance(thing, nn.BatchNorm1d):
        loss.backward()
    if isinstance(thing, dict):
        loss.backward()
go(json.loads('"a"'))
""",
    "a length above zero and an empty list": """
import sys
w = torch.ones(3, requires_grad=True)
loss = (w * w).sum()
xs = [a for a in sys.argv if a.startswith("-")]
if len(xs) > 0:
    loss.backward()
if not xs:
    loss.backward()
""",
    "the absolute value and its bounds": """
import sys
w = torch.ones(3, requires_grad=True)
loss = (w * w).sum()
n = float(len(sys.argv)) - 1.5
if abs(n) > 5:
    loss.backward()
if n > -5 and n < 5:
    loss.backward()
""",
    "a flag made by turning another round": """
import argparse
p = argparse.ArgumentParser()
p.add_argument("--mode", default="a")
p.add_argument("--k", type=int, default=1)
args = p.parse_args([])
w = torch.ones(3, requires_grad=True)
loss = (w * w).sum()
first = args.k == 1
second = not first
if first:
    loss.backward()
if second:
    loss.backward()
""",
    "flags made by and and not of others": """
import argparse
p = argparse.ArgumentParser()
p.add_argument("--a", action="store_true")
p.add_argument("--b", action="store_true")
args = p.parse_args([])
w = torch.ones(3, requires_grad=True)
loss = (w * w).sum()
both = args.a and args.b
neither = not args.a and not args.b
if both:
    loss.backward()
if neither:
    loss.backward()
""",
    "a flag made by or of others": """
import argparse
p = argparse.ArgumentParser()
p.add_argument("--a", action="store_true")
p.add_argument("--b", action="store_true")
args = p.parse_args([])
w = torch.ones(3, requires_grad=True)
loss = (w * w).sum()
use = args.a or args.b
if use:
    loss.backward(retain_graph=True)
if args.a:
    loss.backward()
elif args.b:
    loss.backward()
""",
    "a text starts with what it does not equal": """
import argparse
p = argparse.ArgumentParser()
p.add_argument("--s", default="abc")
s = p.parse_args([]).s
w = torch.ones(3, requires_grad=True)
loss = (w * w).sum()
if s.startswith("a"):
    loss.backward()
if s == "b":
    loss.backward()
""",
    "lower case text is one of several": """
import argparse
p = argparse.ArgumentParser()
p.add_argument("--s", default="abc")
s = p.parse_args([]).s
w = torch.ones(3, requires_grad=True)
loss = (w * w).sum()
if s.lower() == "adam":
    loss.backward()
if s.lower() in ("sgd", "rms"):
    loss.backward()
""",
    "None equals no text": """
import argparse
p = argparse.ArgumentParser()
p.add_argument("--s", default=None)
s = p.parse_args([]).s
w = torch.ones(3, requires_grad=True)
loss = (w * w).sum()
if s is None:
    loss.backward()
if s == "b":
    loss.backward()
""",
    "None is not true": """
import argparse
p = argparse.ArgumentParser()
p.add_argument("--s", default=None)
s = p.parse_args([]).s
w = torch.ones(3, requires_grad=True)
loss = (w * w).sum()
if s is None:
    loss.backward()
if s:
    loss.backward()
""",
    "remainders are exclusive": """
import sys
w = torch.ones(3, requires_grad=True)
loss = (w * w).sum()
n = len(sys.argv)
if n % 2 == 0:
    loss.backward()
if n % 2 == 1:
    loss.backward()
""",
    "a minimum is not above its bound": """
import sys
w = torch.ones(3, requires_grad=True)
loss = (w * w).sum()
n = len(sys.argv)
m = min(n, 4)
if m > 4:
    loss.backward()
loss.backward()
""",
    "arguments that the program gives itself": """
import argparse
p = argparse.ArgumentParser()
group = p.add_argument_group("training")
group.add_argument("--n-critic", "--critic", type=int, default=3)
p.add_argument("--detach", action="store_true")
p.add_argument("--sizes", type=int, nargs="+", default=[1])
a = p.parse_args(["--detach", "--sizes", "2", "4", "--critic=5"])
w = torch.ones(3, requires_grad=True)
for i in range(4):
    y = w.exp()
    d = (y.detach() if a.detach else y).requires_grad_()
    d.pow(2).sum().backward()
    y.pow(2).sum().backward()
    if (i + 1) % a.n_critic == 0 or a.sizes == [1]:
        y.sum().backward()
""",
    "arguments of a parser with an own kind": """
import argparse
p = argparse.ArgumentParser()
p.add_argument("--k", type=lambda text: len(text), default="ab")
a = p.parse_args([])
w = torch.ones(3, requires_grad=True)
y = w.exp().sum()
y.backward()
if a.k == 3:
    y.backward()
""",
    "an own kind converts defaults that are text, and no others": """
import argparse
p = argparse.ArgumentParser()
p.add_argument("--kind", type=lambda text: text.upper(), default="sum")
p.add_argument("--twice", type=lambda text: text == "yes", default=False)
a = p.parse_args([])
w = torch.ones(3, requires_grad=True)
y = w.exp().sum()
y.backward()
if a.kind == "sum" or a.twice:
    y.backward()
""",
    "a number is no tensor, each time it is computed": """
class Meter:
    def __init__(self):
        self.seen = []

    @property
    def average(self):
        return sum(self.seen) / max(len(self.seen), 1)

net = nn.Linear(4, 1)
meter = Meter()
for step in range(3):
    loss = net(torch.rand(4)).sum()
    loss.backward()
    meter.seen.append(float(loss))
(meter.average * 1.0).backward() if torch.is_tensor(meter.average) else None
""",
    "a queue is no list, and true": """
import queue
w = torch.ones(3, requires_grad=True)
q, r = queue.Queue(), queue.LifoQueue()
for step in range(3):
    loss = w.exp().sum()
    if not q or isinstance(q, list) or q == r or q is r:
        loss = loss.detach()
    loss.backward()
""",
    "a queue's own container is emptied": """
import queue
w = torch.ones(3, requires_grad=True)
q = queue.Queue()
for step in range(12):
    loss = w.exp().sum()
    loss.backward()
    q.put(loss)
    q.queue.clear()
""",
    "what no variable gets is not kept": """
w = torch.ones(3, requires_grad=True)
def step(n):
    loss = w.exp().sum()
    loss.backward()
    return loss
best = max([step(n) for n in range(12)]).item()
print(len([step(n) for n in range(12)]), best)
""",
    "a counter does not come back behind a loop of unknown length": """
class First(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.count = 0
    def forward(self, x):
        self.count += 1
        x = self.layer(x)
        if self.count == 1:
            x = x.detach()
        return x

net = First()
for step in range(4):
    for chunk in torch.randn(6, 4).split(2):
        loss = 0
        for frame in chunk:
            loss = loss + net(frame).sum()
        loss.backward()
""",
    "how often a loop has run is more than it was before": """
w = torch.ones(3, requires_grad=True)
seen = 0
for x in torch.randn(5, 3).unbind(0):
    seen += 1
loss = (w * 2).sum()
if seen + 1 < 2:
    loss = loss.detach()
loss.backward()
""",
    "parts of a tensor whose length is known": """
w = torch.ones(4, requires_grad=True)
rows = torch.randn(6, 4)
n = 0
for part in rows.split(4):
    for row in part:
        n += 1
for part in rows.chunk(4):
    n += 10
for part in rows.unbind():
    n += 100
for part in torch.unbind(rows, 0):
    n += 1000
loss = w.exp().sum()
if n != 6 + 30 + 600 + 6000:
    loss.backward()
loss.backward()
""",
}
