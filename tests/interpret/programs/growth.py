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
}
