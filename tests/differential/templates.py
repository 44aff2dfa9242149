"""Pieces of programs as people write them, with their usual mistakes.

`«a|b»` is one of several texts. `$model`, `$opt`, `$par`, `$data`, `$mat` are variables in scope, `$i` the index of
the loop, `$expr` any 4 x 4 tensor, `$loss` a scalar. `@name` is a new name, the same one within a piece,
`%%` the sign of a decorator. A piece is
left out where something it needs is not in scope.
"""

# ruff: noqa: E501 -- pieces of programs read better unbroken
from __future__ import annotations

DEFINITIONS: tuple[tuple[str, str], ...] = (
    ("mat->mat", """
class @Square(torch.autograd.Function):
    %%staticmethod
    def forward(ctx, v):
        «ctx.save_for_backward(v)|ctx.save_for_backward(v)|ctx.v = v|pass»
        return v * 2

    %%staticmethod
    def backward(ctx, g):
        return g * 2

@square = @Square.apply
"""),
    ("mat->mat", """
def @scaled(v, k=«2|0.5», *rest, **options):
    for r in rest:
        v = v + r
    return v * k if options.get("scale", «True|False») else v.tanh()

@apply = functools.partial(@scaled, k=«3|-1»)
"""),
    ("mat->mat", """
def @deep(v, n=2):
    if n == 0:
        return v
    return @deep(«v.tanh()|v * 2|v * v|v.detach() + v|v.exp()», n - 1)
"""),
    ("mat->mat", """
class @Smoother:
    def __init__(self):
        self.state = «None|torch.zeros(4, 4)»

    def __call__(self, v):
        if self.state is None:
            self.state = «v|v.detach()»
        else:
            self.state = «0.9 * self.state + 0.1 * v|0.9 * self.state + 0.1 * v.detach()|v»
        return «v * self.state|self.state|v - self.state.detach()»

@smooth = @Smoother()
"""),
    ("mat->mat", """
def @remember(v, memory=[]):
    memory.append(«v|v.detach()»)
    return «sum(memory)|memory[-1]|memory[0] * v|torch.stack(memory[-2:]).mean(0)»
"""),
    ("mat->mat", """
def @logged(function):
    %%functools.wraps(function)
    def inner(*args, **kwargs):
        result = function(*args, **kwargs)
        inner.last = result
        return result
    return inner

%%@logged
def @block(v):
    return «v.sigmoid() * v|v + 1|torch.relu(v)|F.normalize(v)»
"""),
    ("mat->mat", """
def @both(v):
    first, *others = v.tanh(), v * 2, v.exp()
    «first, second = others[0], first|second = others[-1]|second = first.detach()»
    return first * second
"""),
    ("mat->mat", """
def @checked(v):
    return torch.utils.checkpoint.checkpoint(lambda t: «t.tanh() * 2|torch.sigmoid(t)|t * t», v, use_reentrant=False)
"""),
    ("mat->mat", """
def @chosen(v, kind="«plain|other|none»"):
    match kind:
        case "plain":
            return v * v
        case "other" | "third":
            return v.detach().exp()
        case _:
            return v
"""),
    ("mat->mat", """
%%contextlib.contextmanager
def @mode(active):
    with torch.set_grad_enabled(active):
        yield

def @inside(v):
    with @mode(«True|False|v.requires_grad»):
        w = v * v
    return w «+ v|* 2|+ 0»
"""),
    ("mat->mat", """
class @Cache:
    shared = {}

    %%classmethod
    def get(cls, v, key="a"):
        if key not in cls.shared:
            cls.shared[key] = v«.tanh()|.detach()|* 2»
        return cls.shared[key] * v

    %%property
    def size(self):
        return len(self.shared)

@cached = @Cache.get
"""),
    ("mat,mat->sca", """
class @Objective(nn.Module):
    def __init__(self, weight=0.5):
        super().__init__()
        self.weight = weight
        self.total = 0

    def forward(self, a, b):
        loss = (a - b«|.detach()»).pow(2).mean() * self.weight
        «self.total += loss|self.total += loss.detach()|self.total += loss.item()|self.total = loss»
        return «loss|loss|loss + 0 * self.total|loss + self.total»

@objective = @Objective()
"""),
    ("mat,mat->sca", """
def @contrast(a, b, t=0.5):
    if (n := a.norm(dim=1, keepdim=True)) is not None:
        a = a / (n + 1)
    logits = a @ «b|b.detach()|a».t() / t
    return F.cross_entropy(logits, labels)
"""),
)  # fmt: skip

MODELS = (
    """
class @Base(nn.Module):
    def __init__(self, n=4):
        super().__init__()
        self.first = nn.Linear(n, n)

    def forward(self, x):
        return self.first(x)

class @Child(@Base):
    def __init__(self):
        super().__init__(4)
        self.second = nn.Linear(4, 4)
        «self.second.weight = self.first.weight|self.last = None|self.register_buffer("mean", torch.zeros(4))»

    def forward(self, x):
        x = super().forward(x)
        «self.last = x|self.last = x.detach()|x = x.relu()|x.relu_()»
        return self.second(x)
""",
    """
class @Stack(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(«2|3»)])
        self.skips = «[]|[None]»

    def forward(self, x):
        for number, layer in enumerate(self.layers):
            x = «torch.tanh(layer(x))|layer(x) + x|x + layer(x).relu()»
            if number == 0:
                «self.skips.append(x)|self.skips = [x]|self.skips[-1:] = [x.detach()]»
        return x «+ self.skips[-1]|* self.skips[-1]|* self.skips[-1].detach()|+ 0»
""",
    """
class @Memory(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.«GRUCell|RNNCell»(4, 4)
        self.state = torch.zeros(4, 4)
        self.steps = 0

    def forward(self, x):
        if self.steps % 2 == 0:
            self.state = «self.state.detach()|torch.zeros(4, 4)|self.state»
        self.steps += 1
        self.state = self.cell(x, self.state)
        return self.state«|.clone()|* 1»
""",
    """
class @Heads(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 4), nn.ReLU(«|inplace=True»))
        self.heads = nn.ModuleDict({"a": nn.Linear(4, 4), "b": nn.Linear(4, 4)})
        self.scale = nn.Parameter(torch.ones(1))

    def features(self, x):
        return self.body(x)

    def forward(self, x):
        f = self.features(x)
        outs = {name: head(f) for name, head in self.heads.items()}
        return outs["a"] * self.scale + «outs["b"]|outs["b"].detach()|sum(outs.values())»
""",
    """
class @Quantizer(nn.Module):
    def __init__(self):
        super().__init__()
        self.book = nn.Embedding(4, 4)
        self.proj = nn.Linear(4, 4)
        self.register_buffer("usage", torch.zeros(4))

    def forward(self, x):
        x = self.proj(x)
        index = torch.cdist(x.detach(), self.book.weight).argmin(1)
        q = self.book(index)
        «self.usage += 1|self.usage[index] += 1|self.usage = self.usage * 0.9|with torch.no_grad(): self.book.weight.mul_(1.0)»
        return x + (q - x)«.detach()|.detach()|»
""",
    """
class @Normed(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.utils.«spectral_norm|weight_norm|parametrizations.spectral_norm|parametrizations.weight_norm»(nn.Linear(4, 4))
        self.norm = nn.BatchNorm1d(4)

    def forward(self, x):
        return self.norm(self.lin(x))
""",
    """
class @Attend(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(4, 4) for _ in range(3))
        self.cache = None

    def forward(self, x):
        k, v = self.k(x), self.v(x)
        if self.cache is not None:
            k, v = k + self.cache[0], v + self.cache[1]
        self.cache = «(k, v)|(k.detach(), v.detach())|None»
        return F.softmax(self.q(x) @ k.t() / 2, dim=-1) @ v
""",
)  # fmt: skip

PIECES = (
    # Two networks against each other.
    """
@fake = $model($data)
@d_loss = $model2(@fake«.detach()||»).mean() - $model2($data).mean()
$opt.zero_grad()
@d_loss.backward(«||retain_graph=True»)
«$opt.step()|pass»
@g_loss = -$model2(«@fake|@fake|$model($data)»).mean()
$opt.zero_grad()
@g_loss.backward()
$opt.step()
""",
    # Gradient penalty.
    """
@inter = ($data * 0.5 + $expr«.detach()|.detach()|» * 0.5).«requires_grad_()|detach().requires_grad_(True)»
@score = $model(@inter)
@gp, = torch.autograd.grad(@score.sum(), @inter«, create_graph=True|, create_graph=True|, retain_graph=True|»)
@pen = (@gp.norm(2, dim=1) - 1).pow(2).mean()
«@pen.backward()|(@score.mean() + @pen).backward()|@score.mean().backward()»
$opt.step()
""",
    # A window of a sequence.
    """
@state = «torch.zeros(4, 4)|$mat»
@loss = 0
for @s in range(3):
    @state = torch.tanh($model(@state) + $data)
    @loss = @loss + @state.pow(2).mean()
    if «(@s + 1) % 2 == 0|@s == 2»:
        @loss.backward(«||retain_graph=True|retain_graph=@s < 2»)
        «@loss = 0|pass|@loss = @loss.detach()»
        «@state = @state.detach()|@state = @state.detach()|@state.detach_()|pass»
""",
    # Fast weights.
    """
@fast = [p«.clone()||.detach().clone().requires_grad_()» for p in [$par, $par]]
for @s in range(2):
    @inner = F.linear($data, @fast[0]).pow(2).mean() + @fast[1].sum()
    @gs = torch.autograd.grad(@inner, @fast, create_graph=«True|False|@s == 0»)
    @fast = [p - 0.1 * g for p, g in zip(@fast, @gs)]
F.linear($data, @fast[0]).abs().sum().backward()
""",
    # An adversarial perturbation.
    """
@delta = torch.zeros(4, 4, requires_grad=True)
for @s in range(2):
    @loss = F.cross_entropy($model($data + @delta), labels)
    @loss.backward(«|retain_graph=True»)
    «@delta.data += 0.1 * @delta.grad.sign()|@delta.data = (@delta + 0.1 * @delta.grad.sign()).clamp(-1, 1).data|@delta = (@delta + 0.1 * @delta.grad.sign()).detach().requires_grad_()|@delta = @delta + 0.1 * @delta.grad.sign()|with torch.no_grad(): @delta += 0.1 * @delta.grad.sign()»
    if @delta.grad is None: break
    «@delta.grad.zero_()|@delta.grad = None|pass»
""",
    # A closure for the optimizer.
    """
def @closure():
    $opt.zero_grad()
    @value = $loss
    @value.backward(«|||retain_graph=True»)
    return @value

$opt.step(@closure)
""",
    # Accumulated gradients.
    """
@acc = $model($expr).pow(2).mean() / 2
@acc.backward(«|||retain_graph=True»)
if ($i + 1) % 2 == 0:
    $opt.step()
    $opt.zero_grad()
""",
    # Rows of a Jacobian.
    """
@x = $data.clone().requires_grad_()
@y = $model(@x)
@rows = [torch.autograd.grad(@y[@r].sum(), @x, «retain_graph=True|retain_graph=@r < 2|retain_graph=@r < 1|create_graph=True»)[0] for @r in range(3)]
@jac = torch.stack(@rows)
«pass|@y.sum().backward()|@jac.pow(2).sum().backward()»
""",
    # Views and changes of what they look at.
    """
@base = $expr * 1
@view = @base«[0]|[:, 1]|.view(2, 8)|.t()|[1:3]|.unsqueeze(0)|.reshape(-1)»
@used = @«base|view»«.pow(2)|.exp()| * 2|.sin()»
@«base|view»«.add_(1)|.mul_(2)|.zero_()|[0] = 0.0|[..., 0] += 1»
«@used|@view|@base|@used.sum() + @view».sum().backward()
""",
    """
@buf = torch.zeros(«3, 4, 4|2, 4, 4»)
@all = []
for @s in range(2):
    @buf[@s] = «$model($data)|$expr|$model($data).detach()»
    @all.append(«@buf[@s]|@buf[@s].clone()|@buf[0]|@buf».pow(2).mean())
«sum(@all)|torch.stack(@all).sum()|@all[-1]|@buf.sum()|(@buf * 2).mean()».backward()
""",
    # Policy gradient: log-probabilities collected.
    """
@probs = []
for @s in range(2):
    @p = F.log_softmax($model(«$data|torch.randn(4, 4)»), dim=1)
    @probs.append(@p[0, @s])
@policy_loss = -torch.stack(@probs).sum()
$opt.zero_grad()
@policy_loss.backward(«||retain_graph=True»)
$opt.step()
«@probs.clear()|del @probs[:]|@probs[-1].backward()|pass»
""",
    # A teacher and its student.
    """
with torch.no_grad():
    @soft = F.softmax($model($data), dim=1)
@out = $model2(«$data|@soft»)
@distill = F.kl_div(F.log_softmax(@out, 1), @soft, reduction="batchmean")«| + $model($data).mean()| + @out.pow(2).mean()»
$opt.zero_grad()
@distill.backward()
$opt.step()
for @p, @q in zip($model.parameters(), $model2.parameters()):
    if @p.shape != @q.shape: continue
    «@p.data.mul_(0.9).add_(@q.data, alpha=0.1)|@p.data = 0.9 * @p.data + 0.1 * @q.data|@p.data.copy_(@q)|with torch.no_grad(): @p.lerp_(@q, 0.1)»
""",
    # Several tasks on one trunk.
    """
@feat = $model($data)
@tasks = {"a": @feat.pow(2).mean(), "b": $model2(@feat).mean(), "c": («@feat|@feat.detach()» - 1).abs().mean()}
for @n, (@key, @task) in enumerate(@tasks.items()):
    @task.backward(retain_graph=«@n < 2|@n < len(@tasks) - 1|True|@n < 1|@key != "c"|False»)
    «pass|pass|$opt.step()»
""",
    """
@losses = [$model($data).pow(k).mean() for k in range(1, 3)] + [$model2($expr).sum()]
«sum(@losses).backward()|torch.autograd.backward(@losses)|[l.backward() for l in @losses]|torch.stack(@losses).max().backward()»
«pass|pass|@losses[0].backward()|max(@losses, key=lambda l: l.item())»
""",
    # Something asked of the graph itself.
    """
@value = $loss
if @value.«requires_grad|requires_grad|grad_fn is not None»:
    @value.backward(«|||retain_graph=True»)
""",
    """
@hidden = $mat
@hidden = «@hidden.detach() if $i % 2 else @hidden|@hidden if $i % 2 else @hidden.detach()|@hidden.detach() if $i > 0 else @hidden»
$model(@hidden).pow(2).mean().backward()
$mat = $model(@hidden)«|.detach()»
""",
    """
@window = collections.deque(maxlen=«1|2»)
for @s in range(3):
    @window.append($model(«$data|@window[-1] if @window else $data»)«|.detach()»)
    «sum(@window)|@window[-1]|@window[0]».pow(2).mean().backward()
""",
    """
@saved = {}
@handle = $model.register_forward_hook(lambda m, a, o: @saved.update(out=o«|.detach()»))
$model($data)
@handle.remove()
@saved["out"].pow(2).mean().backward(«|||retain_graph=True»)
«pass|pass|@saved["out"].sum().backward()»
""",
    """
@twin = copy.deepcopy($model)
«@twin.load_state_dict($model.state_dict())|@twin.eval()|@twin.requires_grad_(False)»
@gap = ($model($data) - @twin($data)«|.detach()»).pow(2).mean()
@gap.backward()
""",
    """
@grads = torch.autograd.grad($model($data).sum() * «$par.sum()|1», [*$model.parameters()]«|, create_graph=True|, create_graph=True»)
@norm = torch.sqrt(sum(g.pow(2).sum() for g in @grads) + 1e-8)
«@norm.backward()|($model($data).mean() + @norm).backward()|(@norm.detach() * $par).sum().backward()»
""",
    """
@m = $expr
@m«.register_hook(lambda g: g * 2) if @m.requires_grad else None|.retain_grad() if @m.requires_grad else None»
(@m * 2).sum().backward() if @m.requires_grad else None
""",
    """
while True:
    @l = $model($data).mean()
    @l.backward()
    if «$i > -1|len(shapes) == 0»:
        break
else:
    @l.backward()
«pass|pass|@l.backward()»
""",
    """
@x0 = $data.clone().requires_grad_()
@u = $model(@x0)
@ux = torch.autograd.grad(@u, @x0, torch.ones_like(@u), create_graph=«True|True|False»)[0]
@uxx = torch.autograd.grad(@ux, @x0, torch.ones_like(@ux), create_graph=«True|True|False», allow_unused=True)[0]
@res = @ux«| * @u» + (0 if @uxx is None else @uxx)
(@res.pow(2).mean()«| + @u.mean()»).backward()
$opt.step()
""",
    """
with torch.no_grad():
    for @p in $model.parameters():
        @p«.add_(torch.randn_like(@p) * 0.01)|.copy_(@p * 0.9)| -= 0.1 * (@p.grad if @p.grad is not None else 0)»
""",
)  # fmt: skip
