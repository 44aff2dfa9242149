"""Programs that keep graphs from iteration to iteration, or only seem to.

A line marked `# grows` keeps the graph of every iteration; at `pass  # count` live nodes are counted under torch.
"""

TRAIN = """
model = nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def train():
    loss = model(torch.randn(4, 3)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss
"""

PROGRAMS = {
    "a ring by index": """
ring = [None] * 3
for step in range(12):
    ring[step % 3] = train()
    pass  # count
""",
    "a ring that is first filled and then written over": """
class Ring:
    def __init__(self, size):
        self.size, self.items, self.place = size, [], 0
    def push(self, item):
        if len(self.items) < self.size:
            self.items.append(item)
        else:
            self.items[self.place] = item
        self.place = (self.place + 1) % self.size
ring = Ring(3)
for step in range(12):
    ring.push(train())
    pass  # count
""",
    "a ring of keys": """
last = {}
for step in range(12):
    last[step % 4] = train()
    pass  # count
""",
    "a ring of keys for pairs": """
last = {}
for step in range(12):
    last[step % 4] = (step, train())
    pass  # count
""",
    "a list of what a training generator gives": """
def training(steps):
    for _ in range(steps):
        yield train()
history = []
for loss in training(12):
    history.append(loss)  # grows
    pass  # count
""",
    "the last of what a training generator gives": """
def training(steps):
    for _ in range(steps):
        yield train()
last = [None]
for loss in training(12):
    last[0] = loss
    pass  # count
""",
    "a dict under the number of each step": """
history = {}
for step in range(12):
    loss = train()
    history[step] = {"loss": loss, "step": step}  # grows
    pass  # count
""",
    "a tuple under the number of each step": """
history = {}
for step in range(12):
    history[step] = (step, train())  # grows
    pass  # count
""",
    "a dict under the same key": """
last = {}
for step in range(12):
    last["run"] = {"loss": train()}
    print(last["run"]["step"] if step < 0 else step)
    pass  # count
""",
    "lists and dicts that are made once under their keys": """
history = {"loss": [], "by step": {}}
for step in range(12):
    history["loss"].append(train())  # grows
    pass  # count
""",
    "a list that is filled place by place": """
losses = [None] * 12
for step in range(12):
    losses[step] = train()  # grows
    pass  # count
""",
    "a cache of one result": """
import functools
@functools.lru_cache(maxsize=1)
def features(step):
    return model(torch.ones(4, 3)) * step
for step in range(12):
    optimizer.zero_grad()
    features(step).pow(2).mean().backward()
    optimizer.step()
    pass  # count
""",
    "a cache without end": """
import functools
@functools.lru_cache(maxsize=None)
def features(step):
    return model(torch.ones(4, 3)) * step
for step in range(12):
    optimizer.zero_grad()
    features(step).pow(2).mean().backward()  # grows
    optimizer.step()
    pass  # count
""",
    "a cache that is cleared": """
from functools import cache
@cache
def features(step):
    return model(torch.ones(4, 3)) * step
for step in range(12):
    features.cache_clear()
    optimizer.zero_grad()
    features(step).pow(2).mean().backward()
    optimizer.step()
    pass  # count
""",
    "a list that is a default argument": """
def log(value, seen=[]):
    seen.append(value)  # grows
    return len(seen)
for step in range(12):
    log(train())
    pass  # count
""",
    "a dict that is a method's default argument": """
class Meter:
    def add(self, step, value, *, seen={}):
        seen[step] = value  # grows
meter = Meter()
for step in range(12):
    meter.add(step, train())
    pass  # count
""",
    "losses of a list comprehension": """
def counted():
    loss = train()
    pass  # count
    return loss
losses = [counted() for step in range(12)]  # grows
""",
    "losses of a dict comprehension": """
def counted():
    loss = train()
    pass  # count
    return loss
losses = {
    step: counted()  # grows
    for step in range(12)
}
""",
    "numbers of a list comprehension": """
def counted():
    loss = train()
    pass  # count
    return loss.item()
losses = [counted() for step in range(12)]
""",
    "the sum of a generator expression": """
def counted(batch):
    loss = train()
    pass  # count
    return loss
total = sum(counted(batch) for batch in torch.randn(12, 3))  # grows
""",
    "a mean over a loader of unknown length": """
def counted(batch):
    loss = train()
    pass  # count
    return loss
def batches():
    for step in range(12):
        yield torch.randn(4, 3)
total = sum(counted(batch) for batch in batches()) / 12  # grows
""",
    "a list of mapped batches": """
def counted(batch):
    loss = train()
    pass  # count
    return loss
losses = list(map(counted, range(12)))  # grows
""",
    "a list of what a generator gives": """
def steps():
    for step in range(12):
        yield train()
        pass  # count
losses = list(steps())  # grows
""",
    "the largest loss of a generator expression": """
def counted(batch):
    loss = train()
    pass  # count
    return loss
most = max(counted(batch) for batch in range(12))
""",
    "a reduction": """
import functools
def counted(total, batch):
    pass  # count
    return total + train()
total = functools.reduce(counted, range(12), 0.0)  # grows
""",
    "a list extended by a generator expression": """
def counted(batch):
    loss = train()
    pass  # count
    return loss
losses = []
losses.extend(counted(batch) for batch in range(12))  # grows
""",
    "a list that concatenates": """
losses = []
for step in range(12):
    losses = losses + [train()]  # grows
    pass  # count
""",
    "a queue that is never emptied": """
import queue
q = queue.Queue()
for step in range(12):
    q.put(train())  # grows
    pass  # count
""",
    "a queue that is emptied": """
import queue
q = queue.Queue()
for step in range(12):
    q.put(train())
    while not q.empty():
        print(q.get().item())
    pass  # count
""",
    "a queue of one at a time": """
import queue
q = queue.Queue(maxsize=4)
q.put(train())
for step in range(12):
    q.put(train())
    last = q.get()
    pass  # count
""",
    "a chain of attributes of tensors": """
last = None
for step in range(12):
    loss = train()
    loss.before = last
    last = loss  # grows
    pass  # count
""",
    "an attribute of a tensor": """
last = None
for step in range(12):
    loss = train()
    loss.tag = step
    last = loss
    pass  # count
""",
    "numbered attributes": """
class Log:
    pass
log = Log()
for step in range(12):
    setattr(log, f"loss_{step}", train())  # grows
    pass  # count
""",
    "one attribute by setattr": """
class Log:
    pass
log = Log()
for step in range(12):
    setattr(log, "loss", train())
    pass  # count
""",
    "a heap": """
import heapq
heap = []
for step in range(12):
    heapq.heappush(heap, (step, train()))  # grows
    pass  # count
""",
    "a heap of the best three": """
import heapq
heap = []
for step in range(12):
    heapq.heappush(heap, (step, train()))
    if len(heap) > 3:
        heapq.heappop(heap)
    pass  # count
""",
    "a set": """
seen = set()
for step in range(12):
    seen.add(train())  # grows
    pass  # count
""",
    "a deque without a bound": """
from collections import deque
window = deque()
for step in range(12):
    window.append(train())  # grows
    pass  # count
""",
    "what an exception carries": """
class BadLoss(Exception):
    def __init__(self, loss):
        self.loss = loss
def checked(loss):
    if loss.item() >= 0:
        raise BadLoss(loss)
failed = []
for step in range(12):
    try:
        checked(train())
    except BadLoss as error:
        failed.append(error.loss)  # grows
    pass  # count
""",
    "a slice bound to the same name": """
recent = []
for step in range(12):
    recent.append(train())
    recent = recent[-3:]
    pass  # count
""",
    "callbacks that hold what they print": """
callbacks = []
for step in range(12):
    loss = train()
    callbacks.append(lambda loss=loss: print(loss.item()))  # grows
    pass  # count
""",
    "partials that hold what they print": """
import functools
callbacks = []
for step in range(12):
    callbacks.append(functools.partial(print, train()))  # grows
    pass  # count
""",
    "records with losses": """
class Entry:
    def __init__(self, step, loss):
        self.step, self.loss = step, loss
log = []
for step in range(12):
    log.append(Entry(step, train()))  # grows
    pass  # count
""",
    "what an exception carries always": """
class BadLoss(Exception):
    def __init__(self, loss):
        self.loss = loss
failed = []
for step in range(12):
    try:
        raise BadLoss(train())
    except BadLoss as error:
        failed.append(error.loss)  # grows
    pass  # count
""",
    "a ring of attributes": """
class Log:
    pass
log = Log()
for step in range(24):
    setattr(log, f"loss_{step % 4}", train())
    pass  # count
""",
    "a callback that keeps what it is given": """
class History:
    def __init__(self):
        self.losses = []
    def __call__(self, loss):
        self.losses.append(loss)  # grows
callbacks = [History(), print]
for step in range(12):
    loss = train()
    for callback in callbacks:
        callback(loss)
    pass  # count
""",
    "agents that each keep their last loss": """
class Agent:
    def __init__(self):
        self.last = None
agents = [Agent() for _ in range(3)]
for step in range(12):
    for agent in agents:
        agent.last = train()
    pass  # count
""",
    "features that a hook keeps": """
features = {}
def keep(name):
    def hook(module, inputs, output):
        features.setdefault(name, []).append(output)  # grows
    return hook
model.register_forward_hook(keep("model"))
for step in range(12):
    train()
    pass  # count
""",
    "the last features that a hook keeps": """
features = {}
def keep(name):
    def hook(module, inputs, output):
        features[name] = output
    return hook
model.register_forward_hook(keep("model"))
for step in range(12):
    train()
    pass  # count
""",
    "an average of parameters in a dict": """
average = {name: parameter.clone() for name, parameter in model.named_parameters()}
for step in range(12):
    train()
    for name, parameter in model.named_parameters():
        average[name] = 0.99 * average[name] + 0.01 * parameter  # grows
    pass  # count
""",
    "a replay memory of records that are sampled": """
import random
from collections import deque
from dataclasses import dataclass
@dataclass
class Transition:
    state: torch.Tensor
    value: torch.Tensor
memory = deque(maxlen=10_000)
for step in range(12):
    state = torch.randn(3)
    memory.append(Transition(state, model(state)))  # grows
    batch = random.sample(list(memory), 1)
    loss = model(torch.stack([item.state for item in batch])).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    pass  # count
""",
    "a teacher that is averaged while graphs are recorded": """
import copy
class Teacher:
    def __init__(self, student):
        self.model = copy.deepcopy(student)
        for parameter in self.model.parameters():
            parameter.requires_grad_(False)
    def update(self, student):
        for average, parameter in zip(self.model.parameters(), student.parameters()):
            average.mul_(0.9).add_(parameter, alpha=0.1)  # grows
teacher = Teacher(model)
for step in range(12):
    train()
    teacher.update(model)
    pass  # count
""",
    "a teacher that is averaged without graphs": """
import copy
teacher = copy.deepcopy(model).requires_grad_(False)
for step in range(12):
    train()
    with torch.no_grad():
        for average, parameter in zip(teacher.parameters(), model.parameters()):
            average.mul_(0.9).add_(parameter, alpha=0.1)
    pass  # count
""",
    "a layer that is changed and thrown away with each iteration": """
for step in range(12):
    layer = nn.Linear(3, 1).requires_grad_(False)
    layer.weight.mul_(0.9).add_(model.weight)
    layer.weight.mul_(0.9).add_(model.weight)
    train()
    del layer
    pass  # count
""",
    "a method that is a context manager and keeps what the block puts into its box": """
import contextlib
class Meter:
    def __init__(self):
        self.values = []
    @contextlib.contextmanager
    def track(self, name):
        box = {}
        try:
            yield box
        finally:
            self.values.append((name, box.get("loss")))  # grows
meter = Meter()
for step in range(12):
    with meter.track(f"step {step}") as box:
        box["loss"] = train()
    pass  # count
""",
    "a method that is a context manager and keeps the number": """
import contextlib
class Meter:
    def __init__(self):
        self.values = []
    @contextlib.contextmanager
    def track(self, name):
        box = {}
        try:
            yield box
        finally:
            self.values.append((name, box["loss"].item()))
meter = Meter()
for step in range(12):
    with meter.track(f"step {step}") as box:
        box["loss"] = train()
    pass  # count
""",
    "a layer that averages another one in place": """
average = nn.Linear(3, 1).requires_grad_(False)
for step in range(12):
    train()
    for kept, parameter in zip(average.parameters(), model.parameters()):
        kept.lerp_(parameter, 0.1)  # grows
    pass  # count
""",
    "a layer that averages another one's numbers in place": """
average = nn.Linear(3, 1).requires_grad_(False)
for step in range(12):
    train()
    for kept, parameter in zip(average.parameters(), model.parameters()):
        kept.lerp_(parameter.detach(), 0.1)
    pass  # count
""",
    "a buffer of a layer that is averaged in place and read once": """
norm = nn.BatchNorm1d(3)
for step in range(12):
    train()
    norm.running_mean.mul_(0.9).add_(model.weight[0], alpha=0.1)  # grows
    pass  # count
""",
    "scores of models that are trained one after the other": """
scores = []
for net in [nn.Linear(3, 1) for _ in range(12)]:
    own = torch.optim.SGD(net.parameters(), lr=0.1)
    net(torch.randn(4, 3)).pow(2).mean().backward()
    own.step()
    scores.append(net(torch.randn(4, 3)).pow(2).mean())  # grows
    pass  # count
""",
    "a state that moves by its own gradient and by what a model makes of it": """
x = torch.randn(4, 3, requires_grad=True)
for step in range(12):
    y = model(x)
    (gradient,) = torch.autograd.grad(y.pow(2).sum(), x)
    x = 0.9 * x + 0.1 * y + 0.01 * gradient  # grows
    pass  # count
""",
    "a state that moves by its own gradient and is cut": """
x = torch.randn(4, 3, requires_grad=True)
for step in range(12):
    y = model(x)
    (gradient,) = torch.autograd.grad(y.pow(2).sum(), x)
    x = (0.9 * x + 0.1 * y + 0.01 * gradient).detach().requires_grad_()
    pass  # count
""",
    "steps with a learned rate that a backward then runs through": """
rate = torch.tensor(0.1, requires_grad=True)
for round in range(12):
    w = torch.ones(3, 3, requires_grad=True)
    for step in range(4):
        (gradient,) = torch.autograd.grad((w * w).mean(), w, create_graph=True)
        w = w - rate * gradient
    (w.abs().mean() + rate).backward()
    pass  # count
""",
    "gradients with graphs on parameters that no optimizer has": """
head = nn.Linear(3, 2)
for step in range(12):
    loss = head(torch.randn(4, 3)).pow(2).mean()
    loss.backward(create_graph=True)  # grows
    pass  # count
""",
    "gradients with graphs on parameters that the step forgets": """
head = nn.Linear(1, 2)
for step in range(12):
    loss = head(model(torch.randn(4, 3))).pow(2).mean()
    optimizer.zero_grad()
    loss.backward(create_graph=True)  # grows
    optimizer.step()
    pass  # count
""",
    "gradients with graphs that a function sets to None": """
head = nn.Linear(3, 2)
def forget(module):
    for parameter in module.parameters():
        parameter.grad = None
for step in range(12):
    loss = head(torch.randn(4, 3)).pow(2).mean()
    loss.backward(create_graph=True)
    print(sum(parameter.grad.norm() for parameter in head.parameters()).item())
    forget(head)
    pass  # count
""",
    "gradients with graphs that are set to the plain ones": """
head = nn.Linear(3, 2)
for step in range(12):
    loss = head(torch.randn(4, 3)).pow(2).mean()
    loss.backward(create_graph=True)
    for parameter in head.parameters():
        parameter.grad = parameter.grad.detach()
    pass  # count
""",
    "the first five of them": """
first = []
for step in range(20):
    loss = train()
    if len(first) < 5:
        first.append(loss)
    pass  # count
""",
    "those of the first steps": """
first = {}
for step in range(20):
    loss = train()
    if step < 4:
        first[step] = loss
    pass  # count
""",
    "every tenth one": """
some = []
for step in range(120):
    loss = train()
    if step % 10 == 0:
        some.append(loss)  # grows
        pass  # count
""",
    "the number of every tenth one": """
some = []
for step in range(120):
    loss = train()
    if step % 10 == 0:
        some.append(loss.item())
        pass  # count
""",
    "every tenth one, the last three": """
some = []
for step in range(120):
    loss = train()
    if step % 10 == 0:
        some.append(loss)
        some = some[-3:]
        pass  # count
""",
}
