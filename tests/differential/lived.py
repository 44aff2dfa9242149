"""Pieces as people write Python, in the notation of `templates`: objects that have lived, keys and models nobody knows.

Attributes that other methods fill, tables under keys that are worked out, flags and guards on counters, models and
settings out of files or the environment, meters of other classes, blocks that generators wait in, hooks that store.
What comes out of `json`, `os.environ` and `getattr` is known to torch alone: the dry run has to reckon with both.
"""

# ruff: noqa: E501 -- pieces of programs read better unbroken
from __future__ import annotations

PIECES = (
    # Attributes that other methods fill, and a warm-up guard.
    """
class @Trainer:
    def __init__(self, net):
        self.net, self.memory, self.step, self.last = net, [], 0, None

    def remember(self, x):
        self.memory.append(«x.detach()|x.detach()|x»)
        self.last = «x.detach()|x|None»

    def fit(self, x):
        self.step += 1
        @out = self.net(x)
        @loss = @out.pow(2).mean()
        if self.last is not None:
            @loss = @loss + F.mse_loss(@out, self.last)
        if self.step > «1|2|5»:
            @loss = @loss + sum(m.mean() for m in self.memory[-2:]) * «0.1|0.0»
        @loss.backward(«||retain_graph=True»)
        self.remember(@out)

@trainer = @Trainer($model)
for @s in range(4):
    $opt.zero_grad()
    @trainer.fit($data)
    «$opt.step()|$opt.step()|pass»
""",
    # A memory for each entity, under keys that are worked out.
    """
@bank = «{}|collections.defaultdict(lambda: torch.zeros(4))»
for @s in range(4):
    @key = «int(torch.randint(0, 2, (1,)))|@s % 2|str(@s // 2)|(@s % 2, "h")»
    @old = @bank«[@key] if @key in @bank else torch.zeros(4)|.get(@key, torch.zeros(4))»
    @new = $model($data).mean(0) + @old
    $opt.zero_grad()
    @new.pow(2).sum().backward()
    $opt.step()
    @bank[@key] = @new«.detach()|.detach()|.data|»
""",
    # A table that is filled by rows of unknown number.
    """
@table = [[torch.zeros(()) for _ in range(3)] for _ in range(2)]
@n, @m = $data.shape
for @s in range(3):
    for @i in range(min(@n, 2)):
        @table[@i][@s % 3] = ($model($data)[@i] * (@i + 1)).mean()«.detach()||»
    @loss = sum(sum(row) for row in @table) + $model($data).mean()
    $opt.zero_grad()
    @loss.backward()
    «$opt.step()|pass»
    «@table = [[c.detach() for c in row] for row in @table]|@table = [[c.detach() for c in row] for row in @table]|pass»
""",
    # Flags of a constructor and of the environment.
    """
import os
class @Step:
    def __init__(self, twice=«False|True», keep=bool(os.environ.get("@KEEP", ""))):
        self.twice, self.keep, self.first = twice, keep, True

    def __call__(self, x):
        @h = $model(x)
        @a = @h.pow(2).mean()
        @a.backward(retain_graph=«self.twice|self.keep|self.twice or self.first|True»)
        if self.twice«|| and not self.first»:
            (@h.sum() * 0.1).backward()
        self.first = False
        return @a«.item()||.detach()»

@step = @Step()
@seen = []
for @s in range(3):
    $opt.zero_grad()
    @seen.append(@step($data))
    $opt.step()
""",
    # A guard on what a loop counts up, with losses that gather until it.
    """
@count, @gathered = 0, []
for @s in range(«6|7|9»):
    @gathered.append($model($data).pow(2).mean())
    @count += 1
    if @count == «2|3|4»:
        torch.stack(@gathered).sum().backward()
        $opt.step()
        $opt.zero_grad()
        @count = 0
        «@gathered = []|@gathered.clear()|del @gathered[:]|pass»
""",
    # A model that settings choose.
    """
import json
@cfg = json.loads('{"act": "Tanh", "width": 4, "layers": 2}')
@parts = []
for _ in range(@cfg["layers"]):
    @parts += [nn.Linear(@cfg["width"], 4), getattr(nn, @cfg["act"])()]
@net = nn.Sequential(*@parts)
@opt = torch.optim.«SGD(@net.parameters(), lr=0.1)|Adam(@net.parameters())»
@kept = None
for @s in range(3):
    @out = @net($data)
    @loss = @out.pow(2).mean() + (0 if @kept is None else F.mse_loss(@out, @kept))
    @opt.zero_grad()
    @loss.backward()
    @opt.step()
    @kept = @out«.detach()||.clone()|[:].data»
""",
    # Outputs of a model that a function is given, one after the other.
    """
class @Heads(nn.Module):
    def __init__(self):
        super().__init__()
        self.heads = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])

    def forward(self, x):
        return [head(x) for head in self.heads]

def @train(model, opt, batches):
    for x, y in batches:
        @loss = 0
        for i, out in enumerate(model(x)):
            @loss = @loss + F.mse_loss(out, y) / (i + 1)
        opt.zero_grad()
        @loss.backward()
        «opt.step()|opt.step()|pass»
        @last = model(x)[-1]«|.detach()»
        «pass|@last.mean().backward()|(@last * 2).sum().backward()»

@heads = @Heads()
@train(@heads, torch.optim.SGD(@heads.parameters(), lr=0.1), [($data, torch.zeros(4, 4))] * 2)
""",
    # A meter of another class, told by a trainer.
    """
class @Meter:
    def __init__(self):
        self.total, self.n, self.all = 0.0, 0, []

    def update(self, value, n=1):
        self.total «+= value * n|= self.total + value|+= float(value) * n|+= value.detach()»
        self.n += n
        «self.all.append(value)|pass|self.all.append(value.item())»

class @Fit:
    def __init__(self, net, opt):
        self.net, self.opt, self.meters = net, opt, {"loss": @Meter(), "norm": @Meter()}

    def run(self, batches):
        for x in batches:
            @loss = self.net(x).pow(2).mean()
            self.opt.zero_grad()
            «@loss.backward()|@loss.backward()|(@loss + 0 * self.meters["loss"].total).backward()»
            self.opt.step()
            self.meters["loss"].update(@loss«||.detach()», len(x))

@fit = @Fit($model, $opt)
@fit.run([$data] * 4)
«pass|@fit.run([$data])»
""",
    # A generator that waits inside of no_grad.
    """
def @predict(batches):
    with torch.no_grad():
        for x in batches:
            yield $model(x)

for @s in range(3):
    @loss = $model($data).pow(2).mean()
    $opt.zero_grad()
    @loss.backward()
    $opt.step()
    «for @y in @predict([$data] * 2): @z = @y.sum()|@z = sum(y.mean() for y in @predict([$data] * 2))|@z = list(@predict([$data]))|@z = next(@predict([$data]))|@wait = @predict([$data] * 2); @z = next(@wait)|@z = [y for y, _ in zip(@predict([$data] * 3), range(2))]»
""",
    # Networks switched on and off in turn, cleared while they are off.
    """
def @switch(net, on):
    for p in net.parameters():
        p.requires_grad«= on|_(on)|= bool(on)»

@critic = nn.Linear(4, 1)
@opt_c = torch.optim.SGD(@critic.parameters(), lr=0.1)
for @s in range(3):
    @switch($model, False); @switch(@critic, True)
    @critic.zero_grad()
    @critic($model($data)).mean().backward()
    @opt_c.step()
    «$model.zero_grad()|$opt.zero_grad()|pass»
    @switch($model, True)«; @switch(@critic, False)|; @switch(@critic, False)|»
    @critic($model($data)).mean().backward()
    $opt.step()
""",
    # A hook that stores what a layer gave.
    """
class @Watch:
    def __init__(self, net):
        self.seen = None
        self.handle = list(net.modules())[-1].register_forward_hook(self.store)

    def store(self, module, given, output):
        self.seen = «output|output|output.detach()»

@watch = @Watch($model)
for @s in range(2):
    @out = $model($data)
    $opt.zero_grad()
    «@watch.seen.pow(2).mean().backward()|(@out.mean() + @watch.seen.mean()).backward()|@out.mean().backward(); @watch.seen.mean().backward()»
    «$opt.step()|pass»
@watch.handle.remove()
""",
    # A base class whose subclass writes the forward.
    """
class @Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.state = None

    def forward(self, x):
        raise NotImplementedError

    def loss(self, x):
        @h = self(x)
        if self.state is not None:
            @h = @h + self.state
        self.state = @h«.detach()|.detach()||.data»
        return @h.pow(2).mean()

class @Derived(@Base):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        return self.layer(x)

@net = @Derived()
@opt = torch.optim.SGD(@net.parameters(), lr=0.1)
for @s in range(3):
    @opt.zero_grad()
    @net.loss($data).backward()
    @opt.step()
""",
)
