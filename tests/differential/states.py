"""Pieces that carry something from step to step, in the notation of `templates`.

States in dicts, tuples and classes, several networks, replay of live tensors, learned optimizers, storages filled by
index, views changed in place, generators.
"""

# ruff: noqa: E501 -- pieces of programs read better unbroken
from __future__ import annotations

PIECES = (
    # A state in a dict, a window at a time.
    """
@cell = nn.LSTMCell(4, 4)
@state = {"h": torch.zeros(4, 4), "c": «torch.zeros(4, 4)|$data», "n": 0}
@total = 0
for @s in range(4):
    @a, @b = @cell(«$model($data)|$data», (@state["h"], @state["c"]))
    @state = «{"h": @a, "c": @b, "n": @state["n"] + 1}|dict(h=@a, c=@b, n=@s)|{**@state, "h": @a, "c": @b}»
    @total = @total + @a.pow(2).mean()
    if (@s + 1) % 2 == 0:
        @total.backward(«|||retain_graph=True»)
        @state = «{k: v.detach() if torch.is_tensor(v) else v for k, v in @state.items()}|{k: v.detach() if torch.is_tensor(v) else v for k, v in @state.items()}|{k: v.detach() if k == "h" else v for k, v in @state.items()}|@state»
        @total = «0|0|0|@total.detach()|@total»
""",
    # Nested tuples, repackaged by recursion.
    """
def @repackage(h):
    if isinstance(h, torch.Tensor):
        return «h.detach()|h.detach()|h.data|h.detach().clone()|h»
    return «tuple(@repackage(v) for v in h)|tuple(map(@repackage, h))|[@repackage(v) for v in h]»

@rnn = nn.LSTM(4, 4, «1|2»)
@hid = None
@seq = torch.randn(6, 2, 4)
for @s in range(0, 6, 2):
    if @hid is not None: @hid = @repackage(@hid)
    @out, @hid = @rnn(@seq[@s:@s + 2], tuple(@hid) if @hid is not None else None)
    @out.pow(2).mean().backward()
    «pass|for @p in @rnn.parameters(): @p.data.add_(@p.grad, alpha=-0.1)|for @p in @rnn.parameters(): @p.grad = None»
""",
    # k1 steps at a time, k2 steps back.
    """
@past = [(None, torch.zeros(4, 4))]
for @s in range(5):
    @before = @past[-1][1]«.detach().requires_grad_()|.detach().requires_grad_()|»
    @now = torch.tanh($model(@before) + @before)
    @past.append((@before, @now))
    while len(@past) > 3:
        del @past[0]
    if (@s + 1) % 2 == 0:
        @now.mean().backward(retain_graph=«True|False»)
        for @j in range(2):
            if @past[-@j - 2][0] is None or @past[-@j - 1][0].grad is None:
                break
            @past[-@j - 2][1].backward(@past[-@j - 1][0].grad, retain_graph=«True|False»)
        «$opt.step()|pass»
""",
    # Three networks, one of them frozen for the other's turn.
    """
@critic = nn.Sequential(nn.Linear(4, 4), nn.LeakyReLU(0.2), nn.Linear(4, 1))
@opt_c = torch.optim.Adam(@critic.parameters())
for @s in range(2):
    @fake = $model($data)
    @opt_c.zero_grad()
    @lc = @critic($data).mean() - @critic(@fake«.detach()|.detach()|.data|»).mean()
    @lc.backward(«||retain_graph=True»)
    «@opt_c.step()|@opt_c.step()|pass»
    $opt.zero_grad()
    @critic.requires_grad_(False)
    @lg = -@critic(«@fake|@fake|$model($data)»).mean() + F.l1_loss(@fake, $data)
    «@opt_c.step()|pass|pass|pass»
    @lg.backward()
    $opt.step()
    «@critic.requires_grad_(True)|for @p in @critic.parameters(): @p.requires_grad_(True)|@critic.requires_grad_()|pass»
    if not next(@critic.parameters()).requires_grad: break
""",
    # Replay.
    """
@memory = «[]|collections.deque(maxlen=2)|collections.deque(maxlen=20)»
@obs = torch.randn(4, 4)
for @s in range(3):
    @q = $model(@obs)
    @memory.append((@obs, «@q.detach()|@q.argmax(1)|@q|@q.max(1)[0].detach()|@q.max(1)[0]», 1.0))
    @obs = torch.randn(4, 4)
    if len(@memory) >= 2:
        @batch = «list(@memory)|random.sample(list(@memory), 2)»
        @so, @sq, @sr = zip(*@batch)
        @goal = torch.stack([v.float().mean() for v in @sq])
        @loss = ($model(torch.stack(@so)).mean((1, 2)) - @goal«|.detach()|.detach()|.data»).pow(2).mean()
        $opt.zero_grad()
        @loss.backward()
        $opt.step()
        «@memory.clear()|pass|pass»
""",
    # Log probabilities and rewards of episodes.
    """
class @Episode:
    def __init__(self):
        self.logs, self.values = [], []

    def add(self, log, value):
        self.logs.append(log)
        self.values.append(«value|value|value.detach()»)

    def clear(self):
        «del self.logs[:]; del self.values[:]|self.logs, self.values = [], []|self.logs.clear()|self.logs = self.logs[-1:]»

@episode = @Episode()
for @s in range(2):
    for @k in range(2):
        @d = torch.distributions.«Categorical(logits=$model($data))|Normal($model($data), 1.0)»
        @act = @d.«sample()|sample()»
        @episode.add(@d.log_prob(@act).mean(), $model2($data).mean())
    @ret, @loss = 0.0, 0
    for @lp, @v in zip(reversed(@episode.logs), reversed(@episode.values)):
        @ret = 1.0 + 0.9 * @ret
        @loss = @loss - @lp * (@ret - @v«.detach()|.item()|») + «0.5 * (@ret - @v).pow(2)|0»
    $opt.zero_grad()
    @loss.backward()
    $opt.step()
    «@episode.clear()|@episode.clear()|@episode = @Episode()|pass»
""",
    # A storage filled by index.
    """
@store = torch.zeros(3, 4, 4)
for @s in range(2):
    for @k in range(3):
        «with torch.no_grad(): @store[@k] = $model($data)|@store[@k] = $model($data)|@store[@k] = $model($data).detach()|@store[@k].copy_($model($data).data)»
    @loss = (@store - $model($data)).pow(2).mean()
    $opt.zero_grad()
    @loss.backward()
    $opt.step()
    «@store = torch.zeros(3, 4, 4)|@store = @store.detach()|@store.zero_()|pass|@store = torch.empty_like(@store)»
""",
    # A queue of keys.
    """
@queue = «F.normalize(torch.randn(4, 8), dim=0)|torch.randn(4, 8)|torch.randn(8, 4).t()»
for @s in range(2):
    @k = F.normalize($model($data), dim=1)
    @logits = «@k @ @queue|@k @ @queue.clone()|torch.einsum("nc,ck->nk", [@k, @queue.clone().detach()])|torch.mm(@k, @queue.detach())»
    «pass|pass|@queue[:, :4] = @k.detach().t()»
    @loss = F.cross_entropy(@logits, labels)
    $opt.zero_grad()
    @loss.backward()
    $opt.step()
    «@queue[:, @s * 4:@s * 4 + 4] = @k.detach().t()|@queue[:, :4] = @k.detach().T|@queue = torch.cat([@queue[:, 4:], @k.detach().t()], 1)|@queue[:, :4] = @k.t()|with torch.no_grad(): @queue[:, :4] = @k.t()»
""",
    # An optimizer that is learned.
    """
@rule = nn.Linear(1, 1)
@theta = torch.randn(4, requires_grad=True)
@sum = 0
for @s in range(4):
    @loss = (@theta * $data).pow(2).sum()
    @sum = @sum + @loss
    @g, = torch.autograd.grad(@loss, @theta, «retain_graph=True|retain_graph=True|create_graph=True|retain_graph=@s % 2 == 0»)
    @theta = @theta + @rule(@g«.detach()|.detach()|».view(-1, 1)).view(-1)
    if @s % 2 == 1:
        @sum.backward()
        @sum = «0|0|@sum.detach()»
        @theta = «@theta.detach().requires_grad_()|@theta.detach().requires_grad_()|@theta.detach().clone().requires_grad_(True)|@theta»
""",
    # Tasks, each with weights of its own; some give their gradient back.
    """
$opt.zero_grad()
for @task in range(2):
    @copy = copy.deepcopy($model)
    @inner = torch.optim.SGD(@copy.parameters(), lr=0.1)
    for @s in range(2):
        @l = @copy($data).pow(2).mean()
        @inner.zero_grad()
        @l.backward(«||retain_graph=True»)
        @inner.step()
    @l = «@copy($data).pow(2).mean()|@l|@copy($data).pow(2).mean()»
    @gs = torch.autograd.grad(@l, list(@copy.parameters()), allow_unused=True)
    for @p, @g in zip($model.parameters(), @gs):
        if @g is not None:
            @p.grad = @g if @p.grad is None else @p.grad + @g
$opt.step()
""",
    # A penalty every other step, with a running mean.
    """
@mean = torch.zeros(())
for @s in range(3):
    @real = torch.randn(4, 4)
    if @s % 2 == 0:
        @real.requires_grad = True
        @pred = $model(@real)
        @gr, = torch.autograd.grad(outputs=@pred.sum(), inputs=@real, create_graph=«True|True|False», retain_graph=True)
        @len = @gr.pow(2).sum(1).sqrt().mean()
        @mean = @mean + 0.1 * (@len«|.detach()» - @mean)
        @pen = (@len - @mean).pow(2) + 0 * @pred.sum()
        «@mean = @mean.detach()|@mean = @mean.detach()|pass»
        $opt.zero_grad()
        @pen.backward()
        $opt.step()
    @d = F.softplus(-$model(@real)).mean()
    $opt.zero_grad()
    @d.backward()
    $opt.step()
""",
    # Views of what was computed, changed in place.
    """
@io = «$model($data).view(2, 2, 4)|$expr.exp().view(2, 2, 4)|$model($data).sigmoid().reshape(2, 2, 4)|$model($data).view(2, 2, 4) * 1»
@kept = «@io.clone()|@io|@io[0]|@io.detach()»
@io[..., :2] = «torch.sigmoid(@io[..., :2])|@io[..., :2] * 2|0|@io[..., 2:]|torch.exp(@io[..., :2].detach())»
«@io[..., 2:] = torch.exp(@io[..., 2:])|@io[0].mul_(2)|@io[..., 3] += 1|@io.transpose(0, 1)[0].zero_()|pass»
(@io.mean() + @kept.pow(2).mean()).backward()
""",
    """
@whole = $model($data)
@left, @right = «@whole.chunk(2, 1)|@whole.split(2, 1)|@whole[:, :2], @whole[:, 2:]|torch.tensor_split(@whole, 2, 1)|(@whole.narrow(1, 0, 2), @whole.narrow(1, 2, 2))»
@gate = «@left.sigmoid()|@left.exp()|@left»
«@right *= 2|@right = @right * 2|@right[0] = 1|@left.add_(1)|@whole.mul_(2)|with torch.no_grad(): @right.zero_()|pass|pass»
(@gate * @right).sum().backward()
""",
    """
@rows = «$model($data).unbind(0)|list($model($data))|[r for r in $model($data)]|[$model($data)[@j] for @j in range(4)]»
@acc = «torch.zeros(4)|@rows[0]|@rows[0].clone()»
for @r in @rows[1:]:
    «@acc = @acc + @r|@acc += @r|@acc.add_(@r)|@acc = torch.tanh(@acc * @r)»
@acc.pow(2).sum().backward()
""",
    # Generators that keep a state between two of their values.
    """
def @unroll(v, n=3):
    h = torch.zeros(4, 4)
    for _ in range(n):
        h = torch.tanh($model(v) + h)
        yield h
        h = «h.detach()|h.detach()|h|h.clone()»

for @h in @unroll($data):
    @h.pow(2).mean().backward(«|||retain_graph=True»)
    «$opt.step()|pass|pass»
""",
    """
def @core():
    h = «torch.zeros(4, 4)|$data»
    while True:
        v = yield h
        h = h.detach() if v is None else torch.tanh(h «*|+» v)

@gen = @core()
next(@gen)
for @s in range(3):
    @h = @gen.send($model($data))
    @h.pow(2).mean().backward()
    «@gen.send(None)|@gen.send(None)|pass»
""",
    # A class that holds the state of training.
    """
class @Loop:
    def __init__(self, net, every=2):
        self.net, self.every, self.hidden, self.steps = net, every, None, 0
        self.shadow = {k: v.«clone().detach()|detach().clone()|data.clone()» for k, v in net.state_dict().items()}
        self.seen = []

    %%property
    def average(self):
        return sum(self.seen) / max(len(self.seen), 1)

    def loss(self, v):
        out = self.net(v)
        if self.hidden is not None:
            out = out + self.hidden
        self.hidden = «out.detach()|out.detach()|out|out.tanh()»
        return out.pow(2).mean() / self.every

    def step(self, v):
        loss = self.loss(v)
        loss.backward()
        self.steps += 1
        if self.steps % self.every == 0:
            $opt.step()
            $opt.zero_grad()
            for k, v in self.net.state_dict().items():
                self.shadow[k].mul_(0.9).add_(v, alpha=0.1)
            «self.hidden = None|pass|pass»
        self.seen.append(«loss.item()|loss.detach()|loss|float(loss)»)

@loop = @Loop($model)
for @s in range(3):
    @loop.step($data)
«pass|pass|pass|(@loop.average * 1.0).backward() if torch.is_tensor(@loop.average) else None»
""",
    # Several losses of one forward, projected.
    """
@out = $model($data).«sigmoid()|tanh()|exp()»
@flat = []
for @j in range(3):
    $opt.zero_grad()
    @out[:, @j].pow(2).mean().backward(«retain_graph=True|retain_graph=True|retain_graph=@j < 2|»)
    @flat.append([@p.grad.clone() if @p.grad is not None else None for @p in $model.parameters()])
for @p, *@gs in zip($model.parameters(), *@flat):
    if @gs[0] is not None and @gs[-1] is not None: @p.grad = «@gs[0] + @gs[-1]|@gs[0].add_(@gs[-1])|torch.stack([@gs[0], @gs[-1]]).mean(0)»
$opt.step()
""",
    # A fixed point with a hook.
    """
with torch.no_grad():
    @z = torch.zeros(4, 4)
    for @s in range(2):
        @z = torch.tanh($model(@z) + $data)
@z = torch.tanh($model(@z) + $data)
@z0 = @z.clone().detach().requires_grad_()
@f0 = torch.tanh($model(@z0) + $data)

def @solve(grad):
    g = grad
    for _ in range(2):
        g = torch.autograd.grad(@f0, @z0, g, retain_graph=«True|True|True|False»)[0] + grad
    return g

@z.register_hook(@solve) if @z.requires_grad and @f0.requires_grad else None
@z.pow(2).mean().backward()
""",
)  # fmt: skip
