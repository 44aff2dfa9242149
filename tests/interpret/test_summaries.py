"""Forwards that were run before are written again: the tape is the same as if each had been run."""

from __future__ import annotations

from typing import Any

import pytest

from tapecheck.check import check
from tapecheck.interpret.python import summaries
from tapecheck.source import from_text
from tapecheck.tape import Tape
from tests.interpret.truth import full

NET = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 4), nn.ReLU(inplace=True), nn.BatchNorm1d(4))
        self.head = nn.Linear(4, 1)
        self.calls = 0
    def forward(self, x):
        h = self.body(x)
        return self.head(h + x.view(-1, 4)[:, :4])
net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
"""
WRITTEN = {
    "results as long as what they are made of": """
class Norm(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 4)
        self.more = {"a", "b"}
    def forward(self, x):
        shape = x.size()
        return self.inner(x.view(shape[0] // 2, -1, *shape[1:])).view(shape[0], shape[1], -1)
class Tall(nn.Module):
    def forward(self, x, y):
        both = torch.cat((x, y), 1)
        rows, _ = x.shape
        return both.reshape(both.size(0), len(y), rows)
norm, tall = Norm(), Tall()
for step in range(3):
    x = torch.from_numpy(numpy.load("rows.npy"))
    kept = []
    for row in norm(x):
        kept.append(row.sum())
    for part, other in zip(tall(norm(x), x), norm(x).split(1)):
        kept.append(part.mean() + other.mean())
    if len(norm(x)) == len(x):
        kept.append(net(x).mean())
    if norm(x).shape[0] == x.shape[0]:
        kept.append(net(x).mean())
    sum(kept).backward()
""",
    "a loop over what a call gave": """
class Flat(nn.Module):
    def forward(self, x):
        y = (x * 2).relu() * 3
        return y.view(len(x), -1)
flat = Flat()
for step in range(2):
    x = torch.from_numpy(numpy.load("rows.npy"))
    a, b = flat(x), flat(x)
    for left, right in zip(a, b):
        (left.sum() + right.sum() * net.head.weight.sum()).backward(retain_graph=True)
    for i in range(len(a)):
        (b[i].sum() * net.head.weight.sum()).backward()
""",
    "a custom Function that keeps something": """
class Leaky(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, slope):
        ctx.save_for_backward(x)
        ctx.slope = slope
        ctx.sizes = (x.shape[0], 4)
        return torch.where(x > 0, x, x * slope)
    @staticmethod
    def backward(ctx, grad):
        x, = ctx.saved_tensors
        return torch.where(x > 0, grad, grad * ctx.slope), None
class Act(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 4)
    def forward(self, x):
        return Leaky.apply(self.inner(x), 0.2)
tower = nn.Sequential(*[Act() for _ in range(6)])
for step in range(3):
    tower(torch.randn(3, 4)).sum().backward()
""",
    "many layers whose parameters are first used one by one": """
class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 4))
    def forward(self, x):
        return F.linear(x, self.weight * 0.5).relu() + x
class Chain(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleList([Scaled() for _ in range(9)])
    def forward(self, x):
        for part in self.parts:
            x = part(x)
        return x
chain = Chain()
for step in range(3):
    chain(torch.randn(3, 4)).sum().backward()
""",
    "training": """
for step in range(int(input())):
    optimizer.zero_grad()
    net(torch.randn(3, 4)).mean().backward()
    optimizer.step()
""",
    "called twice, at two places, in two functions": """
def loss_of(x):
    return net(x).mean() + net(x * 2).mean()
loss_of(torch.randn(3, 4)).backward()
loss_of(torch.randn(3, 4)).backward()
""",
    "a gradient of a gradient": """
for step in range(3):
    x = torch.randn(3, 4, requires_grad=True)
    out = net(x).sum()
    grad, = torch.autograd.grad(out, x, create_graph=True)
    optimizer.zero_grad()
    (out + grad.pow(2).sum()).backward()
    optimizer.step()
""",
    "without recording": """
total = 0
for step in range(3):
    with torch.no_grad():
        total += net(torch.randn(3, 4)).mean()
        for part in range(2):
            total += net(torch.randn(3, 4)).sum()
""",
    "layers whose widths were compared": """
import yaml
settings = yaml.safe_load(open(input()))
class Wide(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.width, self.layer = width, nn.Linear(4, 4)
    def forward(self, x):
        return (self.layer(x).relu().exp() * x.sigmoid()).view(-1, self.width).tanh().exp()
layers = [Wide(settings[name]) for name in ("first", "second")]
if layers[0].width % 2 != layers[1].width % 2:
    print("odd")
for layer in layers:
    layer(torch.randn(3, 4)).mean().backward()
""",
    "a backward through a graph that is gone": """
kept = net(torch.randn(3, 4))
for step in range(3):
    out = net(torch.randn(3, 4)) + kept
    out.mean().backward()
""",
    "weights that change between the forward and the backward": """
first = net(torch.randn(3, 4)).mean()
second = net(torch.randn(3, 4)).mean()
second.backward()
optimizer.step()
first.backward()
""",
    "layers of one class": """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.other = nn.Linear(4, 4), nn.Linear(4, 4)
    def forward(self, x, mask=None):
        for layer in (self.one, self.other):
            x = x + layer(x).relu()
        return x, x.mean()
class Tower(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Block() for _ in range(5)])
    def forward(self, x):
        terms = 0
        for block in self.blocks:
            x, term = block(x)
            terms = terms + term
        return x, terms
tower = Tower()
for step in range(3):
    x, terms = tower(torch.randn(3, 4))
    (x.sum() + terms).backward()
""",
    "some layers are frozen": """
nets = [Net(), Net(), Net()]
for parameter in nets[1].parameters():
    parameter.requires_grad = False
for step in range(3):
    for one in nets:
        loss = one(torch.randn(3, 4)).mean()
        if loss.requires_grad:
            loss.backward()
""",
    "tensors of other names": """
for step in range(2):
    real, fake = torch.randn(3, 4), torch.randn(3, 4)
    (net(real).mean() - net(fake).mean()).backward()
""",
    "asserts about the shape of what it is given": """
def forward(self, x):
    rows, width = x.size()
    assert rows <= 16, "too many"
    if rows > 20:
        x = x.detach()
    return self.head(self.body(x))
Net.forward = forward
def batch():
    return torch.from_numpy(numpy.load("rows.npy"))
for step in range(3):
    x = batch()
    out = net(x)
    if x.size(0) > 18:
        out = out.detach()
    out.mean().backward()
""",
    "each layer asks what is installed": """
class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.fused = hasattr(nn.functional, "one_that_nobody_knows")
        self.scale = width // int(input())
        self.inner = nn.Linear(4, 4)
        if not self.fused:
            self.register_buffer("mask", torch.ones(4, 4))
    def forward(self, x):
        x = x.relu() if self.fused else (x @ self.mask).relu()
        return self.inner(x) * self.scale + x
tower = nn.Sequential(*[Block(8) for _ in range(4)])
for step in range(2):
    tower(torch.randn(3, 4)).sum().backward()
""",
    "parts of what nobody knows": """
class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.other = nn.Linear(4, 4), nn.Linear(4, 4)
    def forward(self, batch, mask):
        return self.one(batch.text).mean() + (self.other(batch.text) * mask).mean()
reader = Reader()
for batch in load(input()):
    (reader(batch, batch.mask) + reader(batch, torch.ones(4))).backward()
    (batch.text.sum() + reader(batch, batch.text)).backward()
""",
    "conditions that nobody can decide": """
def forward(self, x):
    x = self.body(x)
    if x.mean() > 0:
        x = x * 2
    scale = 1 if float(input()) > 0.5 else x.detach().max()
    return self.head(x) * scale
Net.forward = forward
for step in range(3):
    optimizer.zero_grad()
    (net(torch.randn(3, 4)).mean() + net(torch.randn(3, 4)).mean()).backward()
    optimizer.step()
""",
    "a condition about a state that is carried": """
class Cell(nn.Module):
    def __init__(self):
        super().__init__()
        self.ih, self.hh = nn.Linear(4, 4), nn.Linear(4, 4)
    def forward(self, x, h):
        if int(input()) % 2:
            h = h.detach()
        return (self.ih(x) + self.hh(h)).tanh()
cell = Cell()
h = torch.zeros(3, 4)
for step in range(4):
    h = cell(torch.randn(3, 4), h)
    h = cell(torch.randn(3, 4), h)
    h.sum().backward()
    h = h.data
    h = cell(torch.randn(3, 4), h)
""",
    "frozen layers": """
for parameter in net.parameters():
    parameter.requires_grad_(False)
x = torch.randn(3, 4, requires_grad=True)
for step in range(3):
    (net(x).mean() + net(x * 2).mean()).backward()
for parameter in net.parameters():
    parameter.requires_grad_(True)
net(x).mean().backward()
""",
    "code that is not visible": """
from einops_of_somebody import rearrange
def forward(self, x):
    return self.head(rearrange(self.body(x), "a b -> b a")).relu().exp() + rearrange(x, "a b -> b a").mean()
Net.forward = forward
for step in range(3):
    real, fake = torch.randn(3, 4), torch.randn(3, 4)
    (net(real).mean() + net(fake).mean()).backward()
""",
    "layers under names that are worked out": """
class Blocks(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        for i in range(int(input())):
            setattr(self, "block_%d" % i, nn.Linear(4, 4))
    def forward(self, x):
        return self.layer(x).relu().exp().sin()
blocks = Blocks()
for step in range(3):
    (blocks(torch.randn(3, 4)).sum() + blocks(torch.randn(3, 4)).sum()).backward()
""",
    "functions within the forward": """
class Heads(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.heads, self.act = nn.Linear(4, 4), 2, torch.tanh
    def forward(self, x):
        states = [self.layer(x), x]
        parts = map(lambda one: self.act(one).reshape(self.heads, -1), states)
        def mixed():
            return sum(states[i] * h for i, h in enumerate(states))
        return sum(part.sum() for part in parts) + mixed().mean()
heads = Heads()
for step in range(3):
    (heads(torch.randn(3, 4)) + heads(torch.randn(3, 4))).backward()
""",
    "a small layer, with and without recording": """
class Norm(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))
    def forward(self, x):
        return nn.functional.normalize(x, dim=1) * self.weight
norm = Norm()
for step in range(3):
    norm(norm(torch.randn(3, 4))).sum().backward()
    with torch.no_grad():
        print(norm(norm(torch.randn(3, 4))).sum())
""",
    "a scaler, before and after": """
scaler = torch.amp.GradScaler()
for step in range(3):
    optimizer.zero_grad()
    loss = net(torch.randn(3, 4)).mean() + net(torch.randn(3, 4)).mean()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
""",
}
RUN = {
    "a result as long as something that is read again": """
class Keeping(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 4)
        self.longest = None
    def forward(self, x):
        rows = x.shape[0]
        if self.longest is None or rows > self.longest:
            self.longest = rows
        return self.inner(x).view(rows, -1)
keeping = Keeping()
for step in range(3):
    x = torch.from_numpy(numpy.load("rows.npy"))
    out = keeping(x)
    if keeping.longest > 3:
        out = out.detach()
    (out.sum() + net(x).sum()).backward()
""",
    "a length that a test is about": """
class Asking(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 4)
    def forward(self, x):
        y = self.inner(x).relu()
        rows = y.size(0)
        if rows > 8:
            y = y * 2
        return y.view(rows, -1)
asking = Asking()
for step in range(3):
    x = torch.from_numpy(numpy.load("rows.npy"))
    out = asking(x)
    if out.size(0) > 8:
        out = out.detach()
    (out.sum() + net(x).sum()).backward()
""",
    "a ctx that the program keeps": """
kept = []
class Keeps(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.value = x
        kept.append(ctx)
        return x * 2
    @staticmethod
    def backward(ctx, grad):
        return grad * 2
class Act(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 4)
    def forward(self, x):
        return Keeps.apply(self.inner(x)).relu()
act = Act()
for step in range(3):
    act(torch.randn(3, 4)).sum().backward()
    kept[-1].value.sum().backward()
""",
    "results that are changed in place": """
for step in range(3):
    out = net(torch.randn(3, 4))
    out.sigmoid_()
    out[0] = 0
    out.mean().backward()
    optimizer.step()
    optimizer.zero_grad()
""",
    "it counts its calls": """
def forward(self, x):
    self.calls += 1
    return self.head(self.body(x)) * self.calls
Net.forward = forward
for step in range(4):
    net(torch.randn(3, 4)).mean().backward()
""",
    "it keeps what it computed": """
def forward(self, x):
    self.kept = self.body(x)
    return self.head(self.kept)
Net.forward = forward
for step in range(4):
    out = net(torch.randn(3, 4)).mean()
    out.backward()
    if step > 1:
        net.kept.sum().backward()
""",
    "it reads a name that changes": """
scale = torch.ones(1, requires_grad=True)
def forward(self, x):
    return self.head(self.body(x)) * scale
Net.forward = forward
for step in range(4):
    net(torch.randn(3, 4)).mean().backward()
    scale = scale * 2
""",
    "a hook looks at what it computes": """
seen = []
net.head.register_forward_hook(lambda module, given, result: seen.append(result))
for step in range(4):
    net(torch.randn(3, 4)).mean().backward()
""",
    "it keeps a result in a name of the module's": """
kept = None
def forward(self, x):
    global kept
    kept = self.head(self.body(x))
    return kept * 2
Net.forward = forward
for step in range(4):
    net(torch.randn(3, 4)).mean().backward()
kept.sum().backward()
""",
    "it fills what it is given": """
def forward(self, x, into):
    into.append(self.body(x))
    return self.head(into[-1])
Net.forward = forward
for step in range(4):
    parts = []
    net(torch.randn(3, 4), parts).mean().backward()
    if step > 1:
        parts[0].sum().backward()
""",
    "it fills a default": """
def forward(self, x, into=[]):
    into.append(self.head(self.body(x)))
    return sum(into)
Net.forward = forward
for step in range(4):
    net(torch.randn(3, 4)).mean().backward()
""",
    "it switches recording off": """
def forward(self, x):
    h = self.body(x)
    torch.set_grad_enabled(False)
    return self.head(h)
Net.forward = forward
for step in range(4):
    net(torch.randn(3, 4)).mean()
""",
    "asserts about what it has been asked for before": """
def forward(self, x, mask):
    assert mask.shape[0] == x.shape[0]
    return self.head(self.body(x)) * mask
Net.forward = forward
for step in range(4):
    x, mask = torch.from_numpy(numpy.load("x.npy")), torch.from_numpy(numpy.load("mask.npy"))
    out = net(x, mask)
    if x.shape[0] != mask.shape[0]:
        out = out.detach()
    out.mean().backward()
""",
    "a test of what it is given was answered before": """
def forward(self, x, level):
    if level > 3:
        x = x.detach()
    return self.head(self.body(x))
Net.forward = forward
first, second = float(input()), float(input())
if first > 3:
    print("high")
for step in range(2):
    net(torch.randn(3, 4), first).mean().backward()
    net(torch.randn(3, 4), first).mean().backward()
    net(torch.randn(3, 4), second).mean().backward()
""",
    "its layers do as an option says that each was given": """
class Block(nn.Module):
    def __init__(self, option):
        super().__init__()
        self.option, self.inner = option, nn.Linear(4, 4)
    def forward(self, x):
        x = self.inner(x).relu().sigmoid().tanh()
        return x.detach() if self.option else x
first, second = Block(bool(input())), Block(bool(input()))
if first.option:
    print("cut")
for step in range(2):
    first(torch.randn(3, 4)).sum().backward()
    second(torch.randn(3, 4)).sum().backward()
""",
    "it keeps what it computed in a dict of its own": """
class Recorder(nn.Module):
    def __init__(self):
        super().__init__()
        self.ih, self.mid, self.out = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 1)
        self.acts = {"h": torch.zeros(3, 4)}
    def forward(self, x):
        h = torch.tanh(self.ih(x))
        self.acts["h"] = h
        return self.out(self.mid(h).relu())
recorder = Recorder()
def step():
    loss = recorder(torch.randn(3, 4)).sum() + recorder.acts["h"].pow(2).mean()
    loss.backward()
step()
step()
step()
recorder(torch.randn(3, 4))
last = recorder(torch.randn(3, 4))
last.sum().backward()
recorder.acts["h"].pow(2).sum().backward()
""",
    "it keeps the last results in a list": """
class Window(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.recent = nn.Linear(4, 4), [torch.zeros(3, 4), torch.zeros(3, 4)]
    def forward(self, x):
        y = self.layer(x).relu().sigmoid()
        self.recent.append(y)
        self.recent.pop(0)
        return y.exp().sin()
window = Window()
def step():
    loss = window(torch.randn(3, 4)).mean() + window.recent[-1].pow(2).mean()
    loss.backward()
step()
step()
step()
""",
    "it turns a list round": """
class Masked(nn.Module):
    def __init__(self):
        super().__init__()
        self.pre, self.masks = nn.Linear(4, 4), [torch.ones(3, 4), torch.ones(3, 4)]
    def forward(self, x):
        y = self.pre(x).relu().tanh().exp().sin() * self.masks[0]
        self.masks.reverse()
        return y
m = Masked()
first, second = m.masks
m(torch.randn(3, 4))
m(torch.randn(3, 4))
c = m(torch.randn(3, 4))
second.add_(1)
c.sum().backward()
""",
    "it takes one of a list that nobody knows": """
class Tasks(nn.Module):
    def __init__(self):
        super().__init__()
        self.pre = nn.Linear(4, 4)
        self.tasks = [torch.randn(4, 4, requires_grad=True).exp(), torch.randn(4, 4, requires_grad=True).exp()]
    def forward(self, x, i):
        return (self.pre(x).relu() @ self.tasks[i]).tanh().exp().sin().cos()
m = Tasks()
x, i, j = torch.randn(3, 4), int(input()), int(input())
a = m(x, i)
b = m(x, j)
c = m(x, j)
a.sum().backward()
b.sum().backward()
""",
    "layers take parts of one list": """
bank = [torch.randn(4, 4, requires_grad=True).exp(), torch.randn(4, 4, requires_grad=True).exp()]
class Part(nn.Module):
    def __init__(self, i):
        super().__init__()
        self.pre, self.bank, self.i = nn.Linear(4, 4), bank, i
    def forward(self, x):
        return (self.pre(x).relu() @ self.bank[self.i]).tanh().exp().sin().cos()
first, second = Part(int(input())), Part(int(input()))
first(torch.randn(3, 4)).sum().backward()
second(torch.randn(3, 4)).sum().backward()
second(torch.randn(3, 4)).sum()
first(torch.randn(3, 4)).sum()
""",
    "it asserts something of its result": """
def forward(self, x):
    out = self.head(self.body(x))
    assert out.size(0) <= 16
    return out
Net.forward = forward
for step in range(2):
    out = net(torch.from_numpy(numpy.load("x.npy")))
    loss = out.sum() if out.size(0) <= 16 else out.detach().sum()
    loss.backward()
""",
    "an attribute of a function changes": """
def act(x):
    return x.detach() if act.stop else x
act.stop = False
def forward(self, x):
    return self.head(act(self.body(x)))
Net.forward = forward
net(torch.randn(3, 4)).mean().backward()
net(torch.randn(3, 4)).mean()
act.stop = True
net(torch.randn(3, 4)).mean()
""",
    "an option changes": """
import argparse
args = argparse.ArgumentParser().parse_args()
args.stop = False
def forward(self, x):
    x = self.body(x)
    return self.head(x.detach() if args.stop else x)
Net.forward = forward
net(torch.randn(3, 4)).mean().backward()
net(torch.randn(3, 4)).mean()
args.stop = True
net(torch.randn(3, 4)).mean()
""",
    "a setting changes": """
import yaml
settings = yaml.safe_load(open(input()))
settings["stop"] = False
def forward(self, x):
    x = self.body(x)
    return self.head(x.detach() if settings["stop"] else x)
Net.forward = forward
net(torch.randn(3, 4)).mean().backward()
net(torch.randn(3, 4)).mean()
settings["stop"] = True
net(torch.randn(3, 4)).mean()
""",
    "a function remembers what it was given": """
def act(x):
    act.seen.append(x)
    return x.relu()
act.seen = []
def forward(self, x):
    return self.head(act(self.body(x)))
Net.forward = forward
for step in range(3):
    net(torch.randn(3, 4)).mean()
out = net(torch.randn(3, 4)).mean()
out.backward()
act.seen[-1].sum().backward()
""",
    "parts of one tensor are its results": """
def forward(self, x):
    a, b = self.body(x).sigmoid().chunk(2, dim=0)
    return a, b
Net.forward = forward
net(torch.randn(4, 4))
c, d = net(torch.randn(4, 4))
c.add_(1)
d.sum().backward()
""",
    "the data of a tensor is its result": """
def forward(self, x):
    h = self.body(x).sigmoid().exp()
    return h * h, h.data
Net.forward = forward
net(torch.randn(4, 4))
out, data = net(torch.randn(4, 4))
data.mul_(2)
out.sum().backward()
""",
    "a function within the forward keeps what it is given": """
class Heads(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.kept = nn.Linear(4, 4), []
    def forward(self, x):
        kept = self.kept
        def keep(one):
            kept.append(one)
            return one.relu()
        return keep(self.layer(x)).exp().sum()
heads = Heads()
for step in range(4):
    heads(torch.randn(3, 4)).backward()
heads.kept[-1].sum().backward()
""",
    "a function reads what another call has left": """
class Reader(nn.Module):
    def __init__(self, read):
        super().__init__()
        self.layer, self.read = nn.Linear(4, 4), read
    def forward(self, x):
        return (self.layer(x).relu() * self.read()).exp().sum()
def made():
    scale = torch.ones(1, requires_grad=True).exp()
    def read():
        return scale
    def double():
        nonlocal scale
        scale = scale * 2
    return read, double
read, double = made()
reader = Reader(read)
for step in range(3):
    reader(torch.randn(3, 4)).backward()
    double()
""",
    "it asks what was asked of one width and not of the other": """
import yaml
settings = yaml.safe_load(open(input()))
class Wide(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.width, self.layer = width, nn.Linear(4, 4)
    def forward(self, x):
        x = self.layer(x).relu().exp().sigmoid().tanh()
        return x.detach() if self.width % 2 == 1 else x
layers = [Wide(settings[name]) for name in ("first", "second")]
if layers[0].width % 2 == 0 and layers[1].width % 2 == 1:
    for layer in (*layers, *layers):
        print(layer(torch.randn(3, 4)).mean().requires_grad)
        layers[0](torch.randn(3, 4)).mean().backward()
""",
    "it draws lots": """
def forward(self, x):
    x = self.body(x)
    if float(input()) > 0.5:
        x = x.detach()
    return self.head(x)
Net.forward = forward
for step in range(4):
    net(torch.randn(3, 4)).mean().backward()
""",
}


def tapes(program: str) -> list[Tape]:
    return check(from_text(full(program), "program.py")).interpretation.tapes


def both(program: str, monkeypatch: pytest.MonkeyPatch) -> tuple[list[Tape], list[Tape], int]:
    """The tapes with and without summaries, and how many calls were written again."""
    written = 0
    write = summaries._Again.write

    def counted(again: Any, function: Any) -> Any:
        nonlocal written
        written += 1
        return write(again, function)

    monkeypatch.setattr(summaries._Again, "write", counted)
    found = tapes(program)
    monkeypatch.setattr(summaries, "forward", lambda machine, function, args, kwargs, node, run: run())
    return found, tapes(program), written


@pytest.mark.parametrize("name", WRITTEN)
def test_what_is_written_again_is_what_running_it_writes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found, wanted, written = both(NET + WRITTEN[name], monkeypatch)
    assert [tape.events for tape in found] == [tape.events for tape in wanted]
    assert written


@pytest.mark.parametrize("name", RUN)
def test_what_hangs_on_more_is_run_each_time(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found, wanted, _ = both(NET + RUN[name], monkeypatch)
    assert [tape.events for tape in found] == [tape.events for tape in wanted]
