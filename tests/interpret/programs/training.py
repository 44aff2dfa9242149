# ruff: noqa: E501
"""Training programs as people write them, with the line that torch raises at (`# raises`) where it does."""

PROGRAMS = {
    "pairs made once for each key, whose keys come round in the fifth step": """
source = nn.Linear(3, 6)
made = {}
for step in range(8):
    if step % 4 not in made:
        made[step % 4] = source(torch.ones(3)).chunk(2)
    gain, shift = made[step % 4]
    (torch.randn(3) * gain + shift).sum().backward()  # raises
""",
    "dict of lambdas dispatch with graph": """
w = torch.randn(3, requires_grad=True)
ops = {"a": lambda t: t.exp(), "b": lambda t: t.sin()}
loss = sum(f(w).sum() for f in ops.values())
loss.backward()
loss.backward()  # raises
""",
    "reg accumulate in stats dict": """
w = torch.randn(3, requires_grad=True)
stats = {"reg": 0, "n": 0}
for i in range(5):
    loss = w.exp().sum()
    stats["reg"] += loss.detach()
    stats["n"] += 1
    loss.backward()
""",
    "no grad decorated training": """
w = torch.randn(3, requires_grad=True)
@torch.no_grad()
def train(model):
    loss = model(torch.randn(2, 3)).sum()
    loss.backward()  # raises
train(nn.Linear(3, 1))
""",
    "enable grad inside no grad": """
w = torch.randn(3, requires_grad=True)
@torch.no_grad()
def outer():
    @torch.enable_grad()
    def inner():
        return w.exp().sum()
    with torch.enable_grad():
        a = w.exp().sum()
    b = w.exp().sum()
    return inner(), a, b
x, a, b = outer()
x.backward()
a.backward()
b.backward()  # raises
""",
    "inference mode decorator without call": """
w = torch.randn(3, requires_grad=True)
@torch.inference_mode
def f():
    return w.exp()
y = f()
""",
    "torch compile decorator": """
w = torch.randn(3, requires_grad=True)
@torch.compile
def f(x):
    return x.exp().sum()
g = torch.jit.script
loss = torch.sum(w)
loss.backward()
""",
    "module property and hooks": """
w = torch.randn(3, requires_grad=True)
class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(3, 3)
        self.register_buffer("state", torch.zeros(3))
    @property
    def device(self): return next(self.parameters()).device
    def forward(self, x):
        self.state = torch.tanh(self.state + self.lin(x).mean(0))
        return self.state.sum()
m = M()
for i in range(2):
    m(torch.randn(2, 3)).backward()  # raises
""",
    "module buffer detached": """
w = torch.randn(3, requires_grad=True)
class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(3, 3)
        self.register_buffer("state", torch.zeros(3))
    def forward(self, x):
        self.state = torch.tanh(self.state.detach() + self.lin(x).mean(0))
        return self.state.sum()
m = M()
for i in range(3):
    m(torch.randn(2, 3)).backward()
""",
    "class registry with loss functions": """
w = torch.randn(3, requires_grad=True)
REG = {}
def register(f):
    REG[f.__name__] = f
    return f
@register
def l1(x): return x.abs().sum()
@register
def l2(x): return (x ** 2).sum()
for name in ("l1", "l2", "l2"):
    REG[name](w).backward()
t = REG["l2"](w)
t.backward()
t.backward()  # raises
""",
    "dataset and loader": """
w = torch.randn(3, requires_grad=True)
class D(torch.utils.data.Dataset):
    def __init__(self): self.x = torch.randn(6, 3)
    def __len__(self): return len(self.x)
    def __getitem__(self, i): return self.x[i], i
loader = torch.utils.data.DataLoader(D(), batch_size=2, shuffle=True)
net = nn.Linear(3, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
hist = []
for epoch in range(2):
    for x, i in loader:
        loss = net(x).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        hist.append(loss.item())
""",
    "iterator of loader cycle": """
w = torch.randn(3, requires_grad=True)
def cycle(dl):
    while True:
        for b in dl:
            yield b
net = nn.Linear(3, 1)
loader = torch.utils.data.DataLoader(torch.randn(6, 3), batch_size=2)
it = cycle(loader)
for step in range(5):
    b = next(it)
    loss = net(b).pow(2).mean()
    loss.backward()
""",
    "iter restart with except": """
w = torch.randn(3, requires_grad=True)
net = nn.Linear(3, 1)
loader = torch.utils.data.DataLoader(torch.randn(6, 3), batch_size=2)
it = iter(loader)
for step in range(8):
    try:
        b = next(it)
    except StopIteration:
        it = iter(loader)
        b = next(it)
    loss = net(b).exp().mean()
    loss.backward()
""",
    "hidden tuple lstm detach comprehension": """
w = torch.randn(3, requires_grad=True)
lstm = nn.LSTM(3, 4)
h = None
for i in range(4):
    out, h = lstm(torch.randn(2, 1, 3), h)
    out.sum().backward()
    h = tuple(x.detach() for x in h)
""",
    "hidden tuple repackage function": """
w = torch.randn(3, requires_grad=True)
def repackage(h):
    if isinstance(h, torch.Tensor):
        return h.detach()
    return tuple(repackage(v) for v in h)
lstm = nn.LSTM(3, 4)
h = (torch.zeros(1, 1, 4), torch.zeros(1, 1, 4))
for i in range(4):
    h = repackage(h)
    out, h = lstm(torch.randn(2, 1, 3), h)
    out.sum().backward()
""",
    "hidden not detached": """
w = torch.randn(3, requires_grad=True)
lstm = nn.LSTM(3, 4)
h = None
for i in range(4):
    out, h = lstm(torch.randn(2, 1, 3), h)
    out.sum().backward()  # raises
""",
    "map detach over dict": """
w = torch.randn(3, requires_grad=True)
state = {"h": torch.zeros(3), "c": torch.zeros(3)}
for i in range(3):
    state = {k: torch.tanh(v + w) for k, v in state.items()}
    sum(v.sum() for v in state.values()).backward()
    state = {k: v.detach() for k, v in state.items()}
""",
    "setattr getattr carried": """
w = torch.randn(3, requires_grad=True)
class S: pass
s = S()
for n in ("h", "c"):
    setattr(s, n, torch.zeros(3))
for i in range(2):
    for n in ("h", "c"):
        setattr(s, n, torch.tanh(getattr(s, n) + w))
    (s.h + s.c).sum().backward()  # raises
""",
    "early stopping break then else": """
w = torch.randn(3, requires_grad=True)
for epoch in range(3):
    loss = w.exp().sum()
    if loss.item() < -1:
        break
    loss.backward()
else:
    loss = w.sin().sum()
    loss.backward()
""",
    "exceptions for nan": """
w = torch.randn(3, requires_grad=True)
def step():
    loss = w.exp().sum()
    if torch.isnan(loss):
        raise ValueError("nan")
    return loss
for i in range(3):
    try:
        loss = step()
    except ValueError:
        continue
    else:
        loss.backward()
    finally:
        w.grad = None
""",
    "closures list late binding graph": """
w = torch.randn(3, requires_grad=True)
losses = [lambda s=s: (w.exp() * s).sum() for s in (1, 2)]
vals = [l() for l in losses]
vals[0].backward()
vals[1].backward()
vals[0].backward()  # raises
""",
    "operator reduce losses": """
w = torch.randn(3, requires_grad=True)
import functools, operator
parts = [w.exp().sum(), w.sin().sum()]
total = functools.reduce(operator.add, parts)
total.backward()
parts[0].backward()  # raises
""",
    "dataclass config with method": """
w = torch.randn(3, requires_grad=True)
from dataclasses import dataclass, asdict
@dataclass
class C:
    lr: float = 0.1
    steps: int = 3
    retain: bool = False
    def opt(self, ps): return torch.optim.SGD(ps, lr=self.lr)
c = C(steps=2)
o = c.opt([w])
for _ in range(c.steps):
    o.zero_grad()
    loss = w.exp().sum()
    loss.backward(retain_graph=c.retain)
    o.step()
loss.backward()  # raises
""",
    "vars namespace args update": """
w = torch.randn(3, requires_grad=True)
import argparse
p = argparse.ArgumentParser()
p.add_argument("--lr", default=0.1)
args = p.parse_args([])
cfg = {**vars(args), "n": 2}
for _ in range(cfg["n"]):
    w.exp().sum().backward()
""",
    "type alias and cast": """
w = torch.randn(3, requires_grad=True)
from typing import List, Optional, cast, TYPE_CHECKING, Tuple
if TYPE_CHECKING:
    import nothing_at_all
T = Optional[List[int]]
def f(x: "Optional[int]" = None, *, y: T = None) -> Tuple[int, ...]:
    z: int
    q: List[int] = []
    assert isinstance(q, list)
    return cast(tuple, (1, 2))
""",
    "print formatted": """
w = torch.randn(3, requires_grad=True)
for i in range(3):
    loss = w.exp().sum()
    print(f"{i:3d} {loss.item():8.3f} {loss:.2e}", loss, sep="|", end="")
    loss.backward()
""",
    "global module state via function attribute": """
w = torch.randn(3, requires_grad=True)
def step():
    step.count += 1
    step.prev = w.exp().sum() + getattr(step, "prev", 0)
    return step.prev
step.count = 0
step().backward()
step().backward()  # raises
""",
    "numpy boundary": """
w = torch.randn(3, requires_grad=True)
import numpy as np
arr = np.zeros(3)
for i in range(3):
    x = torch.from_numpy(arr).float()
    loss = (w * x).exp().sum()
    arr = w.detach().numpy() * 0.5
    loss.backward()
""",
    "assert on data": """
w = torch.randn(3, requires_grad=True)
x = torch.randn(3)
assert x.shape == (3,), x.shape
assert not torch.isnan(w).any()
a = w.exp().sum()
a.backward()
""",
    "while True with break on counter": """
w = torch.randn(3, requires_grad=True)
i = 0
loss = w.exp().sum()
while True:
    i += 1
    if i >= 3:
        break
    loss.backward(retain_graph=True)
loss.backward()
""",
    "nested break with flag": """
w = torch.randn(3, requires_grad=True)
found = False
for i in range(4):
    for j in range(4):
        if i * j == 2:
            found = True
            break
    if found:
        break
""",
    "sum with start tensor and generator": """
w = torch.randn(3, requires_grad=True)
loss = sum((w.exp().sum() for _ in range(3)), torch.tensor(0.0))
loss.backward()
loss2 = sum([p.pow(2).sum() for p in nn.Linear(2, 2).parameters()])
loss2.backward()
""",
    "string keyed optimizers": """
w = torch.randn(3, requires_grad=True)
opts = {n: torch.optim.SGD([w], lr=0.1) for n in ("g", "d")}
for n, o in opts.items():
    o.zero_grad()
    (w.exp().sum()).backward()
    o.step()
""",
    "unpack nested": """
w = torch.randn(3, requires_grad=True)
(a, (b, *c)), d = (w.exp(), (w.sin(), w.cos(), 1)), 5
(a.sum() + b.sum() + c[0].sum()).backward()
c[0].sum().backward()  # raises
""",
    "phases dict train val": """
w = torch.randn(3, requires_grad=True)
net = nn.Linear(3, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
loaders = {p: [torch.randn(2, 3) for _ in range(2)] for p in ("train", "val")}
hist = {p: [] for p in loaders}
for epoch in range(2):
    for phase in ["train", "val"]:
        net.train() if phase == "train" else net.eval()
        running = 0.0
        for x in loaders[phase]:
            opt.zero_grad()
            with torch.set_grad_enabled(phase == "train"):
                loss = net(x).pow(2).mean()
                if phase == "train":
                    loss.backward()
                    opt.step()
            running += loss.item() * x.size(0)
        hist[phase].append(running)
""",
    "phases bug val backward": """
w = torch.randn(3, requires_grad=True)
net = nn.Linear(3, 1)
for phase in ["train", "val"]:
    with torch.set_grad_enabled(phase == "train"):
        loss = net(torch.randn(2, 3)).pow(2).mean()
    loss.backward()  # raises
""",
    "early stopping class": """
w = torch.randn(3, requires_grad=True)
class EarlyStopping:
    def __init__(self, patience=2):
        self.patience, self.best, self.bad = patience, None, 0
        self.stop = False
    def __call__(self, value):
        if self.best is None or value < self.best:
            self.best, self.bad = value, 0
        else:
            self.bad += 1
            self.stop = self.bad >= self.patience
stopper = EarlyStopping()
for epoch in range(6):
    loss = w.exp().sum()
    loss.backward()
    stopper(loss)
    if stopper.stop:
        break
""",
    "ema by hand": """
w = torch.randn(3, requires_grad=True)
net = nn.Linear(3, 1)
import copy
ema = copy.deepcopy(net)
for p in ema.parameters(): p.requires_grad_(False)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
def update(m, e, d=0.9):
    with torch.no_grad():
        for p, q in zip(m.parameters(), e.parameters()):
            q.mul_(d).add_(p, alpha=1 - d)
for i in range(3):
    opt.zero_grad()
    loss = net(torch.randn(2, 3)).pow(2).mean()
    loss.backward()
    opt.step()
    update(net, ema)
""",
    "ema dict class with apply restore": """
w = torch.randn(3, requires_grad=True)
class EMA:
    def __init__(self, model, decay):
        self.model, self.decay = model, decay
        self.shadow, self.backup = {}, {}
        for n, p in model.named_parameters():
            if p.requires_grad: self.shadow[n] = p.data.clone()
    def update(self):
        for n, p in self.model.named_parameters():
            if p.requires_grad:
                assert n in self.shadow
                self.shadow[n] = ((1 - self.decay) * p.data + self.decay * self.shadow[n]).clone()
    def apply(self):
        for n, p in self.model.named_parameters():
            self.backup[n] = p.data
            p.data = self.shadow[n]
    def restore(self):
        for n, p in self.model.named_parameters():
            p.data = self.backup[n]
        self.backup = {}
net = nn.Linear(3, 1)
ema = EMA(net, 0.9)
for i in range(3):
    net(torch.randn(2, 3)).pow(2).mean().backward()
    ema.update()
ema.apply(); ema.restore()
""",
    "replay buffer namedtuple": """
w = torch.randn(3, requires_grad=True)
import random
from collections import deque, namedtuple
T = namedtuple("T", ("s", "a", "r"))
class Buffer:
    def __init__(self, n): self.mem = deque([], maxlen=n)
    def push(self, *args): self.mem.append(T(*args))
    def sample(self, k): return random.sample(self.mem, k)
    def __len__(self): return len(self.mem)
buf = Buffer(10)
q = nn.Linear(3, 2)
s = torch.randn(1, 3)
for t in range(6):
    with torch.no_grad():
        a = q(s).argmax(1)
    buf.push(s, a, torch.tensor([1.0]))
    s = torch.randn(1, 3)
    if len(buf) < 3:
        continue
    batch = T(*zip(*buf.sample(3)))
    S = torch.cat(batch.s)
    v = q(S).gather(1, torch.cat(batch.a).unsqueeze(1))
    (v.squeeze(1) - torch.cat(batch.r)).pow(2).mean().backward()
""",
    "replay buffer keeps graph": """
w = torch.randn(3, requires_grad=True)
from collections import deque
buf = deque(maxlen=4)
for t in range(4):
    h = torch.tanh(w * t)
    buf.append(h)
    torch.stack(list(buf)).sum().backward()  # raises
""",
    "reinforce rewards": """
w = torch.randn(3, requires_grad=True)
pol = nn.Linear(3, 2)
opt = torch.optim.Adam(pol.parameters())
for ep in range(2):
    logps, rewards = [], []
    s = torch.randn(3)
    for t in range(3):
        d = torch.distributions.Categorical(logits=pol(s))
        a = d.sample()
        logps.append(d.log_prob(a))
        rewards.append(1.0)
        s = torch.randn(3)
    R, returns = 0, []
    for r in rewards[::-1]:
        R = r + 0.9 * R
        returns.insert(0, R)
    loss = torch.stack([-lp * R for lp, R in zip(logps, returns)]).sum()
    opt.zero_grad()
    loss.backward()
    opt.step()
    del logps[:]
    del rewards[:]
""",
    "reinforce backward each twice": """
w = torch.randn(3, requires_grad=True)
pol = nn.Linear(3, 2)
s = torch.randn(3)
probs = pol(s).softmax(-1)
for a in (0, 1):
    loss = -probs[a].log()
    loss.backward()  # raises
""",
    "gan correct": """
w = torch.randn(3, requires_grad=True)
G, D = nn.Linear(2, 3), nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
og, od = (torch.optim.Adam(m.parameters()) for m in (G, D))
bce = nn.BCEWithLogitsLoss()
for i in range(3):
    fake = G(torch.randn(4, 2))
    od.zero_grad()
    ld = bce(D(torch.randn(4, 3)), torch.ones(4, 1)) + bce(D(fake.detach()), torch.zeros(4, 1))
    ld.backward()
    od.step()
    og.zero_grad()
    lg = bce(D(fake), torch.ones(4, 1))
    lg.backward()
    og.step()
""",
    "gan bug": """
w = torch.randn(3, requires_grad=True)
G, D = nn.Linear(2, 3), nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
opts = [torch.optim.Adam(m.parameters()) for m in (G, D)]
def d_loss(fake): return D(fake).mean()
for i in range(2):
    fake = G(torch.randn(4, 2))
    for name, opt in zip(("d", "g"), opts):
        opt.zero_grad()
        loss = d_loss(fake)
        loss.backward()  # raises
        opt.step()
""",
    "truncated bptt class": """
w = torch.randn(3, requires_grad=True)
class Trainer:
    def __init__(self, k):
        self.cell = nn.RNNCell(3, 4)
        self.k, self.h, self.t, self.losses = k, None, 0, []
    def reset(self): self.h = torch.zeros(1, 4)
    def step(self, x):
        self.h = self.cell(x, self.h)
        self.losses.append(self.h.pow(2).mean())
        self.t += 1
        if self.t % self.k == 0:
            torch.stack(self.losses).sum().backward()
            self.losses = []
            self.h = self.h.detach()
tr = Trainer(2)
tr.reset()
for i in range(8):
    tr.step(torch.randn(1, 3))
""",
    "truncated bptt class bug": """
w = torch.randn(3, requires_grad=True)
class Trainer:
    def __init__(self, k):
        self.cell = nn.RNNCell(3, 4)
        self.k, self.h, self.t, self.losses = k, torch.zeros(1, 4), 0, []
    def step(self, x):
        self.h = self.cell(x, self.h)
        self.losses.append(self.h.pow(2).mean())
        self.t += 1
        if self.t % self.k == 0:
            torch.stack(self.losses).sum().backward()  # raises
            self.losses.clear()
tr = Trainer(2)
for i in range(8):
    tr.step(torch.randn(1, 3))
""",
    "callbacks list": """
w = torch.randn(3, requires_grad=True)
class Callback:
    def on_start(self, tr): pass
    def on_step(self, tr): pass
class Log(Callback):
    def __init__(self): self.vals = []
    def on_step(self, tr): self.vals.append(tr.loss.item())
class Clip(Callback):
    def on_step(self, tr): nn.utils.clip_grad_norm_(tr.model.parameters(), 1.0)
class Tr:
    def __init__(self, model, cbs):
        self.model, self.cbs, self.loss = model, cbs, None
        self.opt = torch.optim.SGD(model.parameters(), lr=0.1)
    def fire(self, name, *a):
        for cb in self.cbs: getattr(cb, "on_" + name)(self, *a)
    def fit(self, n):
        self.fire("start")
        for _ in range(n):
            self.opt.zero_grad()
            self.loss = self.model(torch.randn(2, 3)).pow(2).mean()
            self.loss.backward()
            self.fire("step")
            self.opt.step()
Tr(nn.Linear(3, 1), [Log(), Clip()]).fit(3)
""",
    "callback keeps the loss": """
w = torch.randn(3, requires_grad=True)
class Rec:
    def __init__(self): self.prev = None
    def __call__(self, loss):
        out = loss if self.prev is None else loss + 0.1 * self.prev
        self.prev = loss
        return out
rec = Rec()
for i in range(3):
    rec(w.exp().sum()).backward()  # raises
""",
    "strategy pattern abstract": """
w = torch.randn(3, requires_grad=True)
from abc import ABC, abstractmethod
class Loss(ABC):
    @abstractmethod
    def compute(self, x): ...
    def __call__(self, x): return self.compute(x).mean()
class L1(Loss):
    def compute(self, x): return x.abs()
class L2(Loss):
    def compute(self, x): return x ** 2
class Sum(Loss):
    def __init__(self, *parts): self.parts = parts
    def compute(self, x): return sum(p(x) for p in self.parts)
crit = Sum(L1(), L2(), Sum(L1()))
l = crit(w)
l.backward()
l.backward()  # raises
""",
    "singleton metaclass": """
w = torch.randn(3, requires_grad=True)
class Single(type):
    _inst = {}
    def __call__(cls, *a, **k):
        if cls not in cls._inst:
            cls._inst[cls] = super().__call__(*a, **k)
        return cls._inst[cls]
class State(metaclass=Single):
    def __init__(self): self.h = torch.zeros(3)
for i in range(2):
    s = State()
    s.h = torch.tanh(s.h + w)
    State().h.sum().backward()  # raises
""",
    "borg shared dict": """
w = torch.randn(3, requires_grad=True)
class Borg:
    _shared = {}
    def __init__(self):
        self.__dict__ = self._shared
a, b = Borg(), Borg()
a.loss = w.exp().sum()
a.loss.backward()
b.loss.backward()  # raises
""",
    "retry loop": """
w = torch.randn(3, requires_grad=True)
def attempt(n):
    for k in range(n):
        try:
            if k < 1: raise OSError("x")
            return w.exp().sum()
        except OSError:
            continue
    raise RuntimeError("no")
attempt(3).backward()
""",
    "generator pipeline with send": """
w = torch.randn(3, requires_grad=True)
def averager():
    total, n, avg = 0.0, 0, None
    while True:
        x = yield avg
        total += x
        n += 1
        avg = total / n
av = averager()
next(av)
for i in range(3):
    loss = w.exp().sum()
    loss.backward()
    a = av.send(loss.item())
""",
    "generator pipeline keeps graph": """
w = torch.randn(3, requires_grad=True)
def averager():
    total = 0.0
    while True:
        x = yield total
        total = total + x
av = averager()
next(av)
for i in range(3):
    av.send(w.exp().sum()).backward()  # raises
""",
    "maml inner loop": """
w = torch.randn(3, requires_grad=True)
net = nn.Linear(3, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for it in range(2):
    metas = []
    for task in range(2):
        fast = dict(net.named_parameters())
        for k in range(2):
            out = F.linear(torch.randn(4, 3), fast["weight"], fast["bias"])
            gs = torch.autograd.grad(out.pow(2).mean(), list(fast.values()), create_graph=True)
            fast = {n: p - 0.1 * g for (n, p), g in zip(fast.items(), gs)}
        metas.append(F.linear(torch.randn(4, 3), fast["weight"], fast["bias"]).pow(2).mean())
    opt.zero_grad()
    (sum(metas) / len(metas)).backward()
    opt.step()
""",
    "gradient penalty": """
w = torch.randn(3, requires_grad=True)
D = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
def gp(real, fake):
    a = torch.rand(real.size(0), 1)
    x = (a * real + (1 - a) * fake).requires_grad_(True)
    d = D(x)
    g = torch.autograd.grad(outputs=d, inputs=x, grad_outputs=torch.ones_like(d), create_graph=True, retain_graph=True, only_inputs=True)[0]
    return ((g.norm(2, dim=1) - 1) ** 2).mean()
for i in range(2):
    loss = -D(torch.randn(2, 3)).mean() + 10 * gp(torch.randn(2, 3), torch.randn(2, 3))
    loss.backward()
""",
    "multi task weights dict": """
w = torch.randn(3, requires_grad=True)
tasks = {"a": nn.Linear(3, 1), "b": nn.Linear(3, 1)}
shared = nn.Sequential(nn.Linear(3, 3), nn.Tanh())
params = [p for m in (shared, *tasks.values()) for p in m.parameters()]
opt = torch.optim.SGD(params, lr=0.1)
for i in range(2):
    z = shared(torch.randn(2, 3))
    losses = {n: m(z).pow(2).mean() for n, m in tasks.items()}
    opt.zero_grad()
    for k, (n, l) in enumerate(losses.items()):
        l.backward(retain_graph=k < len(losses) - 1)
    opt.step()
""",
    "multi task missing retain": """
w = torch.randn(3, requires_grad=True)
tasks = {"a": nn.Linear(3, 1), "b": nn.Linear(3, 1)}
shared = nn.Sequential(nn.Linear(3, 3), nn.Tanh())
z = shared(torch.randn(2, 3))
for n, m in sorted(tasks.items()):
    m(z).pow(2).mean().backward()  # raises
""",
    "context manager timing freeze": """
w = torch.randn(3, requires_grad=True)
from contextlib import contextmanager
@contextmanager
def freeze(m):
    for p in m.parameters(): p.requires_grad_(False)
    try: yield m
    finally:
        for p in m.parameters(): p.requires_grad_(True)
net = nn.Linear(3, 1)
with freeze(net):
    a = net(torch.randn(2, 3)).sum()
b = net(torch.randn(2, 3)).sum()
b.backward()
a.backward()  # raises
""",
    "match on config loss": """
w = torch.randn(3, requires_grad=True)
cfgs = [{"kind": "l1", "w": 1.0}, {"kind": "l2"}, ("custom", lambda x: x.exp())]
total = 0
for c in cfgs:
    match c:
        case {"kind": "l1", "w": k}: total = total + k * w.abs().sum()
        case {"kind": "l2"}: total = total + (w ** 2).sum()
        case (name, fn) if callable(fn): total = total + fn(w).sum()
        case _: raise ValueError
total.backward()
total.backward()  # raises
""",
    "layer list with index and zip": """
w = torch.randn(3, requires_grad=True)
class Net(nn.Module):
    def __init__(self, sizes=(3, 4, 4, 1)):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in zip(sizes[:-1], sizes[1:]))
        self.acts = [torch.tanh] * (len(self.layers) - 1) + [lambda x: x]
    def forward(self, x):
        outs = []
        for i, (l, act) in enumerate(zip(self.layers, self.acts)):
            x = act(l(x))
            outs.append(x)
        return outs[-1], outs
net = Net()
y, outs = net(torch.randn(2, 3))
y.sum().backward()
outs[1].sum().backward()  # raises
""",
    "hooks by closure dict": """
w = torch.randn(3, requires_grad=True)
feats = {}
net = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 1))
def save(name):
    def hook(mod, inp, out): feats[name] = out
    return hook
for n, m in net.named_children():
    m.register_forward_hook(save(n))
for i in range(2):
    net(torch.randn(2, 3)).sum().backward()
feats["1"].sum().backward()  # raises
""",
    "parameter groups and scheduler": """
w = torch.randn(3, requires_grad=True)
net = nn.ModuleDict({"a": nn.Linear(3, 3), "b": nn.Linear(3, 1)})
opt = torch.optim.AdamW([{"params": net["a"].parameters(), "lr": 1e-3}, {"params": net["b"].parameters()}], lr=1e-2)
sched = torch.optim.lr_scheduler.StepLR(opt, 1)
for i in range(3):
    for g in opt.param_groups:
        g["lr"] *= 0.9
    loss = net["b"](net["a"](torch.randn(2, 3))).pow(2).mean()
    opt.zero_grad(set_to_none=True)
    loss.backward()
    opt.step()
    sched.step()
""",
    "early return in nested loops by function": """
w = torch.randn(3, requires_grad=True)
def find():
    for i in range(3):
        for j in range(3):
            l = w.exp().sum() * (i + j)
            if i + j == 2:
                return l, (i, j)
    return None, None
l, at = find()
l.backward()
l.backward()  # raises
""",
    "string dispatch getattr F": """
w = torch.randn(3, requires_grad=True)
for name in ("relu", "tanh"):
    act = getattr(F, name, None) or getattr(torch, name)
    act(w).sum().backward()
crit = getattr(nn, "MSELoss")()
l = crit(w, torch.zeros(3))
l.backward()
l.backward()  # raises
""",
    "unfreeze at epoch": """
w = torch.randn(3, requires_grad=True)
net = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 1))
for p in net[0].parameters(): p.requires_grad = False
for epoch in range(4):
    if epoch == 2:
        for p in net[0].parameters(): p.requires_grad = True
    net(torch.randn(2, 3)).sum().backward()
""",
    "all frozen": """
w = torch.randn(3, requires_grad=True)
net = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 1))
for name, p in net.named_parameters():
    if name.startswith(("0", "1")):
        p.requires_grad = False
net(torch.randn(2, 3)).sum().backward()  # raises
""",
    "accumulate grads windows": """
w = torch.randn(3, requires_grad=True)
acc = 3
total = 0
net = nn.Linear(3, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
data = [torch.randn(2, 3) for _ in range(7)]
opt.zero_grad()
for i, x in enumerate(data, 1):
    loss = net(x).pow(2).mean() / acc
    loss.backward()
    if not i % acc or i == len(data):
        opt.step()
        opt.zero_grad()
""",
    "weak conditions with None carried": """
w = torch.randn(3, requires_grad=True)
prev = None
for i in range(4):
    h = torch.tanh(w * (i + 1))
    if prev is not None and i % 2 == 0:
        (h - prev).pow(2).sum().backward()
        prev = None
    else:
        prev = h
""",
    "weak conditions with None carried bug": """
w = torch.randn(3, requires_grad=True)
prev = None
for i in range(4):
    h = torch.tanh(w * (i + 1))
    if prev is not None:
        (h - prev).pow(2).sum().backward()  # raises
    prev = h
""",
    "an optimizer of one's own changes weights between two backward calls": """
class SAM(torch.optim.Optimizer):
    def __init__(self, params, base, rho=0.05, **kw):
        super().__init__(params, dict(rho=rho))
        self.base = base(self.param_groups, **kw)
    @torch.no_grad()
    def first_step(self):
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p]["e"] = p.grad * group["rho"]
                p.add_(self.state[p]["e"])
    @torch.no_grad()
    def second_step(self):
        for group in self.param_groups:
            for p in group["params"]:
                p.sub_(self.state[p]["e"])
        self.base.step()
net = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 2))
opt = SAM(net.parameters(), torch.optim.SGD, lr=0.1)
for i in range(3):
    loss = net(torch.randn(6, 5)).pow(2).mean()
    loss.backward(retain_graph=True)
    opt.first_step()
    loss.backward()  # raises
    opt.second_step()
""",
    "apply visits children in their order": """
def init(m):
    if isinstance(m, nn.Linear):
        m.weight.fill_(0.1)
    elif isinstance(m, nn.LayerNorm):
        m.bias.zero_()  # raises
nn.Sequential(nn.LayerNorm(3), nn.Linear(3, 2)).apply(init)
""",
    "arguments that are decided": """
import argparse
p = argparse.ArgumentParser()
p.add_argument("--twice", action="store_true")
a = p.parse_args(["--twice"])
w = torch.ones(3, requires_grad=True)
y = w.exp().sum()
y.backward()
if a.twice:
    y.backward()  # raises
""",
}

STATES = """
class Stream:
    def __init__(self):
        self.h = torch.zeros(1, 4)
def cut_all(states):
    for k, s in zip(range(len(states)), states):
        states[k] = s.detach()
cells = [nn.GRUCell(4, 4) for _ in range({layers})]
optimizer = torch.optim.SGD([p for cell in cells for p in cell.parameters()], lr=0.1)
state = [torch.zeros(1, 4) for _ in range({layers})]
table = {{i: torch.zeros(1, 4) for i in range({layers})}}
streams = [Stream() for _ in range({layers})]
for step in range(6):
    x = torch.randn(1, 4)
    total = 0.0
    for i, cell in enumerate(cells):
        {held} = cell(x, {held})
        total = total + {held}.mean()
    optimizer.zero_grad()
    total.backward(){raises}
    optimizer.step()
    {cut}
"""
"""A state for each layer, which is to be cut from its graph after each step."""
CUTS = {
    "for s in state: s.detach_()": "state[i]",
    "for k in range(len(state)): state[k] = state[k].detach()": "state[i]",
    "for k, s in enumerate(state): state[k] = s.detach()": "state[i]",
    "for k in table: table[k] = table[k].detach()": "table[i]",
    "for k, v in table.items(): table[k] = v.detach()": "table[i]",
    "for v in table.values(): v.detach_()": "table[i]",
    "for one in streams: one.h = one.h.detach()": "streams[i].h",
    "for one in streams: one.h.detach_()": "streams[i].h",
    "state = [s.detach() for s in state]": "state[i]",
    "cut_all(state)": "state[i]",
}
UNCUT = {
    "state[0] = state[0].detach()": "state[i]",
    "for k in range(len(state) - 1): state[k] = state[k].detach()": "state[i]",
    "for s in state[1:]: s.detach_()": "state[i]",
    "for one in streams: one.h.detach()": "streams[i].h",
}
PROGRAMS |= {
    f"{layers} states, {cut}": STATES.format(layers=layers, held=held, cut=cut, raises=raises)
    for layers in (2, 3, 9)
    for cuts, raises in ((CUTS, ""), (UNCUT, "  # raises"))
    for cut, held in cuts.items()
}
