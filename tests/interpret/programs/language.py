"""Programs that torch and the dry run must judge alike; `# raises` marks the line that torch raises at.

Each exercises one construct of the language: the graph only comes out right where it is interpreted right.
"""

PROGRAMS = {
    "inheritance, super and a mixin": """
class Named:
    def label(self):
        return "net"

class Base(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.body = nn.Linear(4, width)

    def encode(self, x):
        return self.body(x).tanh()

class Net(Named, Base):
    def __init__(self):
        super().__init__(8)
        self.head = nn.Linear(8, 1)

    def forward(self, x):
        return self.head(self.encode(x))

net = Net()
out = net(torch.randn(2, 4)).sum()
out.backward()
if net.label() == "net":
    out.backward()  # raises
""",
    "layers are looked up by names that are read": """
import os

net = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 1))
for step in range(2):
    for name in os.environ.get("LAYERS", "0 2").split():
        layer = net._modules[name]
    last = next(reversed(net._modules))
    out = net(torch.randn(2, 3)).sum() + layer(torch.randn(2, 3)).sum()
    out.backward()
if last == "2":
    out.backward()  # raises
""",
    "parameters are replaced under names that are read": """
import os

net = nn.Linear(3, 1)
out = net(torch.randn(2, 3)).pow(2).sum()
for name in os.environ.get("REPLACED", "bias").split():
    net._parameters[name] = nn.Parameter(net._parameters[name].detach().clone())
    vars(net)["seen_" + name] = 1
out.backward()
again = net(torch.randn(2, 3)).pow(2).sum()
again.backward()
again.backward()  # raises
""",
    "the dicts of a module do what dicts do": """
net = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 1))
names = [*reversed(net._modules.keys()), *sorted(net[0]._parameters)]
copied = net[0]._parameters.copy()
both = net[0]._parameters | {"more": torch.ones(1)}
assert names == ["1", "0", "bias", "weight"] and len(both) == 3 and copied.keys() == {"weight", "bias"}
removed = net._modules.popitem()
out = removed[1](net(torch.randn(2, 3))).pow(2).sum()
out.backward()
out.backward()  # raises
""",
    "isinstance knows the bases of torch's classes": """
class Schedule:
    def __init__(self, optimizer):
        if not isinstance(optimizer, torch.optim.Optimizer):
            raise TypeError(type(optimizer).__name__)
        self.optimizer = optimizer

net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2))
schedule = Schedule(torch.optim.Adam(net.parameters()))
out = net(torch.randn(2, 1, 4, 4)).sum()
out.backward()
norms = [layer for layer in net if isinstance(layer, nn.modules.batchnorm._BatchNorm)]
if len(norms) == 1 and not isinstance(net[0], nn.modules.batchnorm._BatchNorm):
    out.backward()  # raises
""",
    "hasattr of a layer of torch": """
class Scaled(nn.Linear):
    def leaves(self):
        return [self.weight, self.bias]

net = nn.Sequential(Scaled(3, 3), nn.ReLU(), nn.Linear(3, 1))
found = []
for layer in net:
    if hasattr(layer, "leaves"):
        found += layer.leaves()
    elif hasattr(layer, "in_features"):
        found += [layer.weight]
out = net(torch.randn(2, 3)).sum()
out.backward()
if len(found) == 3:
    out.backward()  # raises
""",
    "a parameter that is registered as a buffer gives way to a tensor": """
class Normed:
    def __init__(self, layer):
        weight = layer._parameters["weight"]
        del layer._parameters["weight"]
        layer.register_parameter("weight_orig", weight)
        layer.register_buffer("weight", weight)
        layer.register_forward_pre_hook(self)

    def __call__(self, layer, inputs):
        setattr(layer, "weight", layer.weight_orig / layer.weight_orig.norm())

layer = nn.Linear(3, 1)
Normed(layer)
try:
    out = layer(torch.randn(2, 3)).sum()
    out.backward()
except KeyboardInterrupt:
    pass
out.backward()  # raises
""",
    "weights that are set anew, layer by layer, among layers without any": """
class L(nn.Module):
    def __init__(self):
        super().__init__()
        body = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Dropout(0.0), nn.Linear(3, 3), nn.ReLU())
        self.model = nn.ModuleDict({'body': body, 'head': nn.Linear(3, 1)})
    def forward(self, x): return self.model['head'](self.model['body'](x))
    def transfer(self, c):
        i = 0
        for m in self.model.modules():
            if isinstance(m, nn.Linear):
                n = m._parameters['weight'].view(-1).size(0)
                m._parameters['weight'] = c[i:i+n].view_as(m._parameters['weight']).clone()
                i += n
                if m._parameters['bias'] is not None:
                    n = m._parameters['bias'].view(-1).size(0)
                    m._parameters['bias'] = c[i:i+n].view_as(m._parameters['bias']).clone()
                    i += n
l = L()
meta = nn.Linear(1, 28)
opt = torch.optim.Adam(meta.parameters())
for s in range(4):
    c = meta(torch.ones(1)).tanh()
    l.transfer(c)
    loss = l(torch.randn(5, 3)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    "a property computes a new graph each time": """
class Scale:
    def __init__(self):
        self.raw = torch.zeros(3, requires_grad=True)

    @property
    def value(self):
        return self.raw.exp()

scale = Scale()
scale.value.sum().backward()
scale.value.sum().backward()
""",
    "a value kept in the constructor is one graph": """
class Scale:
    def __init__(self):
        self.raw = torch.zeros(3, requires_grad=True)
        self.value = self.raw.exp()

scale = Scale()
scale.value.sum().backward()
scale.value.sum().backward()  # raises
""",
    "dataclass with a default factory": """
from dataclasses import dataclass, field

@dataclass
class State:
    hidden: torch.Tensor
    seen: list = field(default_factory=list)

w = torch.randn(3, 3, requires_grad=True)
state = State(torch.zeros(1, 3))
for step in range(3):
    state.hidden = torch.tanh(state.hidden @ w + 1)
    state.seen.append(step)
    state.hidden.sum().backward()  # raises
""",
    "closure with nonlocal state": """
def make():
    hidden = torch.zeros(1, 3)
    w = torch.randn(3, 3, requires_grad=True)

    def step(x):
        nonlocal hidden
        hidden = torch.tanh(x + hidden @ w)
        return hidden.sum()

    return step

step = make()
step(torch.randn(1, 3)).backward()
step(torch.randn(1, 3)).backward()  # raises
""",
    "closure with nonlocal state, cut": """
def make():
    hidden = torch.zeros(1, 3)
    w = torch.randn(3, 3, requires_grad=True)

    def step(x):
        nonlocal hidden
        new = torch.tanh(x + hidden @ w)
        hidden = new.detach()
        return new.sum()

    return step

step = make()
for _ in range(4):
    step(torch.randn(1, 3)).backward()
""",
    "lambda and functools.partial": """
from functools import partial
w = torch.randn(3, requires_grad=True)
loss_of = lambda scale, x: (scale * w.exp() * x).sum()
twice = partial(loss_of, 2.0)
twice(torch.ones(3)).backward()
kept = twice(torch.ones(3))
kept.backward()
kept.backward()  # raises
""",
    "comprehensions build one graph for each element": """
ws = [torch.randn(3, requires_grad=True) for _ in range(3)]
losses = [w.exp().sum() for w in ws]
named = {str(i): loss for i, loss in enumerate(losses)}
for loss in losses:
    loss.backward()
named["1"].backward()  # raises
""",
    "a generator carries its state": """
def chunks(w):
    memory = torch.zeros(3)
    for _ in range(3):
        memory = torch.tanh(memory + w)
        yield memory.sum()

w = torch.randn(3, requires_grad=True)
for loss in chunks(w):
    loss.backward()  # raises
""",
    "a generator with send and a fresh graph": """
def chunks(w):
    for _ in range(3):
        yield torch.tanh(w).sum()

w = torch.randn(3, requires_grad=True)
for loss in chunks(w):
    loss.backward()
""",
    "decorated with no_grad": """
net = nn.Linear(3, 3)

@torch.no_grad()
def encode(x):
    return net(x)

encode(torch.randn(2, 3)).sum().backward()  # raises
""",
    "a user's decorator calls through": """
import functools

def logged(function):
    @functools.wraps(function)
    def inner(*args, **kwargs):
        result = function(*args, **kwargs)
        return result
    return inner

@logged
def loss_of(w):
    return w.exp().sum()

w = torch.randn(3, requires_grad=True)
loss = loss_of(w)
loss.backward()
loss.backward()  # raises
""",
    "context manager classes and grad modes": """
class Mode:
    def __init__(self, on):
        self.on = on

    def __enter__(self):
        self.before = torch.is_grad_enabled()
        torch.set_grad_enabled(self.on)
        return self

    def __exit__(self, *args):
        torch.set_grad_enabled(self.before)

w = torch.randn(3, requires_grad=True)
with Mode(False):
    a = w.exp().sum()
with torch.enable_grad():
    b = w.exp().sum()
b.backward()
a.backward()  # raises
""",
    "set_grad_enabled with a flag": """
w = torch.randn(3, requires_grad=True)
for training in (True, False):
    with torch.set_grad_enabled(training):
        loss = w.exp().sum()
    if training:
        loss.backward()
loss.requires_grad_()
w.exp().sum().backward()
""",
    "a refused change has changed nothing": """
w = torch.randn(3, requires_grad=True)
loss = w.pow(3).sum()
try:
    w.add_(1)
except RuntimeError:
    w.data.add_(1)
loss.backward()
""",
    "a leaf has the gradient that a failing backward brought it": """
w = torch.ones(3, requires_grad=True)
v = torch.ones(3, requires_grad=True)
loss = w.exp().sum()
loss.backward()
try:
    (loss + v.sum()).backward()
except RuntimeError:
    pass
if v.grad is not None:
    loss.backward()  # raises
""",
    "try, except and finally": """
w = torch.randn(3, requires_grad=True)
loss = w.exp().sum()
loss.backward()
count = 0
try:
    loss.backward()
except RuntimeError as error:
    count += 1
finally:
    count += 1
if count == 2:
    loss.backward()  # raises
""",
    "while with else and break": """
w = torch.randn(3, requires_grad=True)
i = 0
while i < 3:
    loss = w.exp().sum()
    loss.backward()
    i += 1
    if i == 5:
        break
else:
    loss.backward()  # raises
""",
    "walrus and chained comparison": """
w = torch.randn(3, requires_grad=True)
n = 4
while (n := n - 1) and 0 < n <= 3:
    loss = w.exp().sum()
    loss.backward()
loss.backward()  # raises
""",
    "match on tuples and constants": """
w = torch.randn(3, requires_grad=True)
for command in (("scale", 2.0), ("again", None)):
    match command:
        case ("scale", factor):
            loss = (w.exp() * factor).sum()
            loss.backward()
        case ("again", _):
            loss.backward()  # raises
        case _:
            pass
""",
    "star arguments and keyword dictionaries": """
def total(*losses, weight=1.0, **options):
    result = sum(losses) * weight
    if options.get("twice"):
        result.backward()
    return result

w = torch.randn(3, requires_grad=True)
parts = (w.exp().sum(), w.sin().sum())
options = {"twice": True, "weight": 0.5}
total(*parts, **options).backward()  # raises
""",
    "a mutable default argument is shared": """
def remember(x, seen=[]):
    seen.append(x)
    return torch.stack(seen).sum()

w = torch.randn(3, requires_grad=True)
remember(w.exp()).backward()
remember(w.exp()).backward()  # raises
""",
    "zip, enumerate, map and reversed": """
ws = [torch.randn(3, requires_grad=True) for _ in range(2)]
for i, (w, scale) in enumerate(zip(ws, [1.0, 2.0])):
    (w.exp() * scale).sum().backward()
losses = list(map(lambda w: w.exp().sum(), reversed(ws)))
losses[0].backward()
losses[1].backward()
losses[-1].backward()  # raises
""",
    "slices and augmented stores": """
w = torch.randn(4, requires_grad=True)
buffer = torch.zeros(4)
buffer[1:3] = w[:2].exp()
buffer[0] += w[3] * w[2]
buffer.sum().backward()
buffer.sum().backward()  # raises
""",
    "a dict of states updated in place": """
w = torch.randn(3, 3, requires_grad=True)
states = {"a": torch.zeros(1, 3), "b": torch.zeros(1, 3)}
for step in range(2):
    for name in list(states):
        states[name] = torch.tanh(states[name] @ w + 1)
    sum(s.sum() for s in states.values()).backward()  # raises
""",
    "named tuples": """
from collections import namedtuple
State = namedtuple("State", "h c")
w = torch.randn(3, requires_grad=True)
state = State(torch.zeros(3), torch.zeros(3))
for step in range(2):
    h, c = state
    c = c * 0.5 + w.sigmoid()
    h = torch.tanh(c)
    state = State(h.detach(), c)
    h.sum().backward()  # raises
""",
    "global state": """
hidden = torch.zeros(3)
w = torch.randn(3, requires_grad=True)

def step():
    global hidden
    hidden = torch.tanh(hidden * w)
    return hidden.sum()

step().backward()
step().backward()  # raises
""",
    "early return and continue": """
w = torch.randn(3, requires_grad=True)

def train(i, loss):
    if i == 0:
        return None
    loss.backward()
    return loss

kept = w.exp().sum()
for i in range(4):
    if i % 2:
        continue
    train(i, kept)
kept.backward()  # raises
""",
    "the last iteration": """
w = torch.randn(3, requires_grad=True)
loss = w.exp().sum()
n = 4
for i in range(n):
    loss.backward(retain_graph=(i < n - 1))
loss.backward()  # raises
""",
    "every k-th iteration": """
w = torch.randn(3, 3, requires_grad=True)
h = torch.zeros(1, 3)
for t in range(12):
    h = torch.tanh(h @ w + 1)
    if (t + 1) % 5 == 0:
        h.sum().backward()  # raises
""",
    "every k-th iteration, cut in time": """
w = torch.randn(3, 3, requires_grad=True)
h = torch.zeros(1, 3)
for t in range(12):
    h = torch.tanh(h @ w + 1)
    if (t + 1) % 5 == 0:
        h.sum().backward()
        h = h.detach()
""",
    "recursion": """
def deep(x, w, n):
    return x if n == 0 else deep(torch.tanh(x * w), w, n - 1)

w = torch.randn(3, requires_grad=True)
out = deep(torch.ones(3), w, 2).sum()
out.backward()
out.backward()  # raises
""",
    "staticmethod, classmethod and class attributes": """
class Memory:
    last = None

    @classmethod
    def keep(cls, value):
        cls.last = value if cls.last is None else cls.last + value
        return cls.last

    @staticmethod
    def loss(w):
        return w.exp().sum()

w = torch.randn(3, requires_grad=True)
Memory.keep(Memory.loss(w)).backward()
Memory.keep(Memory.loss(w)).backward()  # raises
""",
    "callable objects and item access": """
class Bank:
    def __init__(self):
        self.items = []

    def __call__(self, x):
        self.items.append(x)
        return self

    def __getitem__(self, i):
        return self.items[i]

    def __len__(self):
        return len(self.items)

w = torch.randn(3, requires_grad=True)
bank = Bank()
bank(w.exp())(w.sin())
for i in range(len(bank)):
    bank[i].sum().backward()
bank[-1].sum().backward()  # raises
""",
    "iterating a user's class": """
class Steps:
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        for i in range(self.n):
            yield i

w = torch.randn(3, requires_grad=True)
h = w.exp()
for i in Steps(2):
    (h * i).sum().backward()  # raises
""",
    "operators of a user's class": """
class Wrapped:
    def __init__(self, value):
        self.value = value

    def __add__(self, other):
        return Wrapped(self.value + other.value)

w = torch.randn(3, requires_grad=True)
a = Wrapped(w.exp())
b = a + a
b.value.sum().backward()
a.value.sum().backward()  # raises
""",
    "conditional expressions keep to one branch": """
w = torch.randn(3, requires_grad=True)
flag = "train"
loss = w.exp().sum() if flag == "train" else w.detach().sum()
loss.backward() if flag != "test" else None
again = loss if flag == "test" else w.exp().sum()
again.backward()
""",
    "collections: deque and defaultdict": """
from collections import defaultdict, deque
w = torch.randn(3, requires_grad=True)
window = deque(maxlen=2)
table = defaultdict(list)
for i in range(3):
    window.append(w.exp() * i)
    table[i % 2].append(w.sin())
torch.stack(list(window)).sum().backward()
torch.stack(table[0]).sum().backward()
window[0].sum().backward()  # raises
""",
    "itertools and reduce": """
import itertools
from functools import reduce
w = torch.randn(3, requires_grad=True)
parts = [w.exp(), w.sin(), w.cos()]
whole = reduce(lambda a, b: a + b, itertools.chain(parts[:1], parts[1:]))
whole.sum().backward()
parts[2].sum().backward()  # raises
""",
    "string formatting does not touch the graph": """
w = torch.randn(3, requires_grad=True)
loss = w.exp().sum()
text = f"{loss.item():.3f} {loss:.2f}" + "%.2f" % float(loss) + "{}".format(loss)
loss.backward()
assert isinstance(text, str)
loss.backward()  # raises
""",
    "deepcopy makes leaves of its own": """
import copy
net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
other = copy.deepcopy(net)
x = torch.randn(2, 3)
loss = net(x).sum() + other(x).sum()
loss.backward()
optimizer = torch.optim.SGD(other.parameters(), lr=0.1)
optimizer.step()
loss.backward()  # raises
""",
    "async and await are run through": """
import asyncio

async def loss_of(w):
    return w.exp().sum()

async def main():
    w = torch.randn(3, requires_grad=True)
    loss = await loss_of(w)
    loss.backward()
    loss.backward()  # raises

asyncio.run(main())
""",
    "nested functions and default binding in a loop": """
w = torch.randn(3, requires_grad=True)
closures = []
for i in range(3):
    part = w.exp() * (i + 1)
    closures.append(lambda part=part: part.sum())
for closure in closures:
    closure().backward()
closures[0]().backward()  # raises
""",
    "LBFGS calls its closure again": """
w = torch.randn(3, requires_grad=True)
optimizer = torch.optim.LBFGS([w], lr=0.1, max_iter=4)
loss = (w.exp() - 2).pow(2).sum()

def closure():
    optimizer.zero_grad()
    loss.backward()  # raises
    return loss

optimizer.step(closure)
""",
    "sets drop what they have": """
w = torch.randn(3, requires_grad=True)
loss = w.exp().sum()
kinds = {1, 1, 2}
kinds.discard(1)
if len(kinds) == 1 and 2 in kinds:
    loss.backward()
kinds.update([2, 3])
kinds.remove(3)
if len(kinds) == 1:
    loss.backward()  # raises
""",
    "iterators are used up": """
w = torch.randn(3, requires_grad=True)
loss = w.exp().sum()
steps = iter([1, 2])
for _ in steps:
    pass
for _ in steps:
    loss.backward()
pairs = zip([1], [2])
list(pairs)
if list(pairs):
    loss.backward()
lazy = (i for i in [1])
next(lazy)
for _ in lazy:
    loss.backward()
loss.backward()
""",
    "a long loop counts to its end": """
w = torch.randn(3, requires_grad=True)
count = 0
for i in range(100):
    count += 1
if count == 3:
    (w * count).exp().sum().backward()
loss = w.exp().sum()
loss.backward()
""",
    "sorting and popping": """
w = torch.randn(3, requires_grad=True)
loss = w.exp().sum()
order = [3, 1, 2]
order.sort()
if order[0] == 3:
    loss.backward()
last = {1: 2}
last.popitem()
loss.backward()
""",
    "property setters": """
class Scale:
    def __init__(self):
        self._x = 1

    @property
    def x(self):
        return self._x

    @x.setter
    def x(self, value):
        self._x = value * 2

w = torch.randn(3, requires_grad=True)
loss = w.exp().sum()
scale = Scale()
scale.x = 3
if scale._x != 6:
    loss.backward()
loss.backward()
""",
    "numbers in other bases and odd calls": """
w = torch.randn(3, requires_grad=True)
loss = w.exp().sum()
if int("10", 16) == 16 or int("ff", base=16) == 255:
    loss.backward()
loss.backward()  # raises
""",
    "namedtuple holds graphs": """
w = torch.randn(3, requires_grad=True)
from typing import NamedTuple
class State(NamedTuple):
    h: torch.Tensor
    c: torch.Tensor
s = State(torch.zeros(3), torch.zeros(3))
for i in range(2):
    s = s._replace(h=torch.tanh(s.h + w))
    s[0].sum().backward()  # raises
""",
    "lru_cache keeps the graph": """
w = torch.randn(3, requires_grad=True)
import functools
@functools.lru_cache(None)
def feats(i): return w.exp() * i
feats(1).sum().backward()
feats(1).sum().backward()  # raises
""",
    "cached_property keeps the graph": """
w = torch.randn(3, requires_grad=True)
from functools import cached_property
class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.p = nn.Parameter(torch.zeros(3))
    @cached_property
    def e(self): return self.p.exp()
m = M()
for i in range(2):
    m.e.sum().backward()  # raises
""",
    "contextmanager setting grad mode": """
w = torch.randn(3, requires_grad=True)
from contextlib import contextmanager
@contextmanager
def frozen(on):
    with torch.set_grad_enabled(not on):
        yield
with frozen(True):
    a = w.exp()
with frozen(False):
    b = w.exp()
b.sum().backward()
a.sum().backward()  # raises
""",
    "suppress RuntimeError around backward": """
w = torch.randn(3, requires_grad=True)
from contextlib import suppress
loss = w.exp().sum()
loss.backward()
with suppress(RuntimeError):
    loss.backward()
with suppress(KeyError):
    loss.backward()  # raises
""",
    "lambda dispatch table": """
w = torch.randn(3, requires_grad=True)
ops = {"add": lambda a, b: a + b, "mul": lambda a, b: a * b, "loss": lambda a, b: (a * b).exp().sum()}
l = ops["loss"](w, 2.0)
l.backward()
l.backward()  # raises
""",
    "namedtuple holds graphs, cut": """
w = torch.randn(3, requires_grad=True)
from typing import NamedTuple
class State(NamedTuple):
    h: torch.Tensor
    c: torch.Tensor
s = State(torch.zeros(3), torch.zeros(3))
for i in range(3):
    s = s._replace(h=torch.tanh(s.h + w))
    s[0].sum().backward()
    s = State(*[x.detach() for x in s])
""",
    "functools.cache no problem": """
w = torch.randn(3, requires_grad=True)
import functools
@functools.cache
def k(n): return torch.arange(n).float()
for i in range(3):
    (w * k(3)).exp().sum().backward()
""",
    "an ExitStack holds no_grad as long as it is open": """
from contextlib import ExitStack, nullcontext
w = torch.randn(3, requires_grad=True)
with ExitStack() as stack:
    stack.enter_context(torch.no_grad())
    a = w.exp()
with nullcontext() if not a.requires_grad else torch.no_grad():
    w.exp().sum().backward()
a.sum().backward()  # raises
""",
    "a suspended generator keeps its no_grad in force": """
w = torch.randn(3, requires_grad=True)
def frozen():
    with torch.no_grad():
        yield 1
g = frozen()
next(g)
a = w.exp().sum()
g.close()
w.exp().sum().backward()
a.backward()  # raises
""",
    "what yield from returns": """
w = torch.randn(3, requires_grad=True)
def inner():
    yield 1
    return w.exp().sum()
def outer():
    loss = yield from inner()
    loss.backward()
    yield 2
    loss.backward()  # raises
list(outer())
""",
    "finally replaces what the body was doing": """
w = torch.randn(3, requires_grad=True)
loss = w.exp().sum()
def run():
    for i in range(3):
        try:
            continue
        finally:
            if i == 1:
                break
    return i
if run() == 1:
    loss.backward()
loss.backward()  # raises
""",
    "one flag object in two dataclasses": """
from dataclasses import dataclass, field
w = torch.randn(3, requires_grad=True)
@dataclass(frozen=True)
class Key:
    name: str
cache = {Key("a"): w.exp().sum()}
cache[Key("a")].backward()
cache[Key("a")].backward()  # raises
""",
    "a dict subclass keeps graphs": """
w = torch.randn(3, requires_grad=True)
class Memory(dict):
    def __getattr__(self, name):
        return self[name]
memory = Memory(h=torch.zeros(3))
for _ in range(2):
    memory["h"] = torch.tanh(memory.h + w)
    memory.h.sum().backward()  # raises
""",
    "an enum decides": """
from enum import Enum
class Mode(Enum):
    TRAIN = "train"
    EVAL = "eval"
w = torch.randn(3, requires_grad=True)
loss = w.exp().sum()
for mode in (Mode.TRAIN, Mode("eval")):
    if mode is Mode.TRAIN:
        loss.backward()
    elif mode.value == "eval" and mode.name != "TRAIN":
        loss.backward()  # raises
""",
    "an unknown function's result is no reason for an unused input": """
w = torch.randn(3, requires_grad=True)
v = torch.randn(3, requires_grad=True)
hidden = eval("(v * 2).exp()")
g = torch.autograd.grad((hidden * w).sum(), v, create_graph=True)[0]
g.sum().backward()
""",
    "an argument given to argparse that is appended to a default that is computed": """
import argparse
p = argparse.ArgumentParser()
p.add_argument("--size", action="append", default=torch.arange(2).tolist(), type=int)
p.add_argument("--flag", action="append", default=["a"])
a = p.parse_args(["--size", "4", "--flag", "b"])
w = torch.ones(3, requires_grad=True)
y = w.exp().sum()
y.backward()
if a.flag == ["a", "b"] and len(a.size) == 3:
    y.backward()  # raises
""",
    "a default of argparse that is no constant is the value itself": """
import argparse
shape = (4, 2)
p = argparse.ArgumentParser()
p.add_argument("--shape", default=shape)
p.add_argument("--net", default=nn.Linear(*shape))
a = p.parse_args([])
loss = a.net(torch.rand(*a.shape[:1])).sum() ** 2
loss.backward()
if a.shape is shape:
    loss.backward()  # raises
""",
    "an own kind makes of an argument what its function says": """
import argparse
p = argparse.ArgumentParser()
p.add_argument("--sizes", type=lambda text: 2 * int(text), nargs="+", default=[1])
p.add_argument("--kind", type=lambda text: text.upper(), default="sum", choices=["SUM", "MEAN"])
a = p.parse_args(["--sizes", "1", "2"])
w = torch.ones(3, requires_grad=True)
y = w.exp().sum()
y.backward()
if a.kind == "SUM" and a.sizes == [2, 4]:
    y.backward()  # raises
""",
    "a method of dict as the attributes of a class": """
class Config(dict):
    __getattr__ = dict.__getitem__
config = Config(keep=True, drop=False)
w = torch.ones(3, requires_grad=True)
y = w.exp().sum()
y.backward(retain_graph=config.keep)
y.backward(retain_graph=config.drop)
y.backward()  # raises
""",
    "no class above has the special method that is asked for": """
class Config:
    def __init__(self):
        super().__setattr__("held", {})
        self.keep = True
    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            return self.held[name]
    def __setattr__(self, name, value):
        try:
            super().__getattr__(name)
        except AttributeError:
            self.held[name] = value
        else:
            raise KeyError(name)
config = Config()
config.drop = False
w = torch.ones(3, requires_grad=True)
y = w.exp().sum()
y.backward(retain_graph=config.keep)
y.backward(retain_graph=config.drop)
y.backward()  # raises
""",
    "a context manager is a method as any other": """
import contextlib
class Log:
    def __init__(self, kept):
        self.kept = kept
    @contextlib.contextmanager
    def keeping(self, *, last=False):
        yield self.kept and not last
log = Log(True)
w = torch.ones(3, requires_grad=True)
y = w.exp().sum()
with log.keeping() as keep:
    y.backward(retain_graph=keep)
with log.keeping(last=True) as keep:
    y.backward(retain_graph=keep)
y.backward()  # raises
""",
    "a state dict of the parameters themselves": """
net = nn.Linear(3, 1)
averages = {}
for step in range(2):
    for name, value in net.state_dict(keep_vars=True).items():
        averages[name] = value.exp()
loss = sum(value.sum() for value in averages.values())
loss.backward()
loss.backward()  # raises
""",
}
