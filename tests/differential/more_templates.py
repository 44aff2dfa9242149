"""More pieces of programs, in the notation of `templates`: what whole families of training code do."""

# ruff: noqa: E501 -- pieces of programs read better unbroken
from __future__ import annotations

DEFINITIONS: tuple[tuple[str, str], ...] = (
    ("mat->mat", """
class @Gate(torch.autograd.Function):
    %%staticmethod
    def forward(ctx, v, w):
        «ctx.save_for_backward(v, w)|ctx.save_for_backward(w)|ctx.k = 2»
        return v * w

    %%staticmethod
    def backward(ctx, g):
        «v, w = ctx.saved_tensors; return g * w, g * v|return g * 2, None|return g, g»

def @gated(v):
    return @Gate.apply(v, «v|v.detach()|ref_data|v.sigmoid()»)
"""),
    ("mat->mat", """
class @Straight(torch.autograd.Function):
    %%staticmethod
    def forward(ctx, v):
        return (v > 0).float()

    %%staticmethod
    def backward(ctx, g):
        return g

@binarize = @Straight.apply
"""),
    ("mat->mat", """
def @rows(v):
    for row in v:
        yield «row * 2|row.tanh()|row.detach()|row»

def @by_rows(v):
    return torch.stack(list(@rows(v)))
"""),
    ("mat->mat", """
def @steps(v, n=«2|3»):
    state = «torch.zeros(4, 4)|v|v.detach()»
    outs = []
    while n > 0:
        state = «torch.tanh(state + v)|state * 0.5 + v|state.detach() + v|state + v.exp()»
        outs.append(state)
        n -= 1
    return «outs[-1]|sum(outs)|torch.stack(outs).mean(0)|outs[0]»
"""),
    ("mat->mat", """
class @Registry:
    def __init__(self):
        self.items = {}

    def __getitem__(self, key):
        return self.items[key]

    def __setitem__(self, key, value):
        self.items[key] = value

    def __contains__(self, key):
        return key in self.items

    def __len__(self):
        return len(self.items)

@registry = @Registry()

def @looked_up(v):
    if "v" not in @registry:
        @registry["v"] = «v|v.detach()|v * 2|v.exp()»
    return v * @registry["v"]
"""),
    ("mat->mat", """
%%functools.lru_cache(maxsize=None)
def @table(n):
    return torch.arange(n * n, dtype=torch.float32).view(n, n).softmax(0)

def @encoded(v):
    return v «+ @table(4)|* @table(4)|@ @table(4)»
"""),
    ("mat->mat", """
def @safe(v):
    try:
        out = «v.exp()|v * v|v.view(3, 5)|v.tanh()»
    except RuntimeError:
        out = v * 2
    finally:
        shapes.append(v.shape)
    return out
"""),
    ("mat->mat", """
def @checkpointed(v):
    def run(*inputs):
        return «inputs[0].tanh() * inputs[1]|inputs[0] @ inputs[1]|inputs[0] + inputs[1].exp()»
    return torch.utils.checkpoint.checkpoint(run, v, «v|ref_data|v.detach()», use_reentrant=False)
"""),
    ("mat,mat->sca", """
def @elbo(a, b):
    mu, logvar = a, «b|b.detach()|b * 0.1»
    std = torch.exp(0.5 * logvar)
    z = mu + «torch.randn_like(std) * std|std * torch.randn(4, 4)|std»
    kl = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).mean()
    return F.mse_loss(z, ref_data) + «kl|kl|0.1 * kl.detach()»
"""),
    ("mat,mat->sca", """
def @info(a, b):
    a, b = F.normalize(a, dim=1), F.normalize(b, dim=1)
    sim = torch.cat([a, b]) @ torch.cat([a, b]).t() / 0.5
    sim = sim.masked_fill(torch.eye(8, dtype=torch.bool), «-1e4|float("-inf")»)
    return F.cross_entropy(sim, torch.tensor([4, 5, 6, 7, 0, 1, 2, 3]))
"""),
    ("mat,mat->sca", """
class @Weighted:
    weights = {"a": 1.0, "b": 0.5}

    def __init__(self, **weights):
        self.weights = {**self.weights, **weights}
        self.log = []

    def __call__(self, a, b):
        parts = {"a": F.mse_loss(a, b«|.detach()»), "b": a.abs().mean()}
        self.log.append(«sum(p.item() for p in parts.values())|{k: p.detach() for k, p in parts.items()}|parts["a"]»)
        return sum(self.weights[k] * p for k, p in parts.items())

@weighted = @Weighted(b=«0.1|2.0»)
"""),
    ("mat,mat->sca", """
def @smooth(a, b, *, eps=«0.1|0.0», reduce="«mean|sum»"):
    d = (a - b).abs()
    v = torch.where(d < eps, 0.5 * d * d / (eps + 1e-3), d - 0.5 * eps)
    return getattr(v, reduce)()
"""),
)  # fmt: skip

MODELS = (
    """
class @Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.«LSTM|GRU|RNN»(4, 4, batch_first=True)
        self.hidden = None

    def forward(self, x):
        out, hidden = self.rnn(x.unsqueeze(0), self.hidden)
        self.hidden = «None|hidden|tuple(h.detach() for h in hidden) if isinstance(hidden, tuple) else hidden.detach()»
        return out[0]
""",
    """
class @Mixer(nn.Module):
    def __init__(self):
        super().__init__()
        self.attn = nn.MultiheadAttention(4, «1|2»)
        self.norm = nn.LayerNorm(4)
        self.ff = nn.Sequential(nn.Linear(4, 8), nn.«GELU()|ReLU(inplace=True)|SiLU()», nn.Dropout(0.1), nn.Linear(8, 4))

    def forward(self, x):
        a, w = self.attn(x, x, x)
        «self.weights = w|self.weights = w.detach()|pass»
        x = self.norm(x + a)
        «x += self.ff(x)|x = x + self.ff(x)|x = self.ff(x).add_(x)»
        return x
""",
    """
class @Residual(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.blocks = nn.Sequential(*[nn.Sequential(nn.Linear(width, width), nn.BatchNorm1d(width), nn.ReLU(«|inplace=True»)) for _ in range(2)])
        self.head = nn.Linear(width, 4)
        for m in self.modules():
            if isinstance(m, nn.Linear):
                nn.init.«xavier_uniform_(m.weight)|zeros_(m.bias)|normal_(m.weight, 0, 0.5)»

    def forward(self, x):
        for block in self.blocks:
            «x = block(x) + x|out = block(x); out += x; x = out|x += block(x)|x = x + block(x).clone()»
        return self.head(x)
""",
    """
class @Vae(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.Linear(4, 8)
        self.dec = nn.Linear(4, 4)
        self.kl = 0

    def reparameterize(self, mu, logvar):
        std = «logvar.mul(0.5).exp_()|torch.exp(0.5 * logvar)»
        eps = torch.randn_like(std)
        return «eps.mul(std).add_(mu)|mu + eps * std|torch.distributions.Normal(mu, std).rsample()|torch.distributions.Normal(mu, std).sample()»

    def forward(self, x):
        mu, logvar = self.enc(x).chunk(2, dim=1)
        self.kl = (mu.pow(2) + logvar.exp() - logvar).mean()«|.detach()»
        return self.dec(self.reparameterize(mu, logvar)) * 1
""",
    """
class @Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.i2h = nn.Linear(8, 4)
        self.h2o = nn.Linear(4, 4)
        self.h = self.init_hidden()

    def init_hidden(self):
        return torch.zeros(4, 4)

    def forward(self, x):
        h = torch.tanh(self.i2h(torch.cat((x, self.h), 1)))
        self.h = «h.detach()|h|h.data|h.clone().detach()»
        return self.h2o(h)
""",
    """
class @Shared(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(4, 4)
        self.out = nn.Linear(4, 4, bias=False)
        self.out.weight = self.emb.weight
        self.register_buffer("mask", torch.tril(torch.ones(4, 4)))

    def forward(self, x):
        x = x + self.emb(labels)
        scores = (x @ x.t()).masked_fill(self.mask == 0, float("-inf"))
        return self.out(F.softmax(scores, dim=-1) @ x)
""",
    """
class @Actor(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 4)
        self.pi = nn.Linear(4, 4)
        self.v = nn.Linear(4, 1)
        self.values = []

    def forward(self, x):
        h = torch.relu(self.body(x))
        self.values.append(self.v(h«|.detach()»)«|.detach()|.mean()»)
        «pass|self.values = self.values[-1:]|self.values.clear()»
        return self.pi(h)
""",
    """
class @Power(nn.Module):
    def forward(self, w):
        return «w.exp()|w * 2|w.tanh()|w.triu() + w.triu(1).t()»

class @Constrained(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 4)
        torch.nn.utils.parametrize.register_parametrization(self.lin, "weight", @Power())

    def forward(self, x):
        return self.lin(x)
""",
    """
class @Lookup(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.randn(4, 4))
        self.scale = nn.Parameter(torch.tensor(1.0))
        self.norm = None

    def forward(self, x):
        if self.norm is None«| or self.training»:
            self.norm = «self.table.norm()|self.table.norm().detach()|self.table.softmax(0)»
        return x @ self.table * self.scale + self.norm
""",
    """
class @Conv(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(1, 2, 3, padding=1), nn.BatchNorm2d(2), nn.LeakyReLU(0.2«|, inplace=True»), nn.Conv2d(2, 1, 1))

    def forward(self, x):
        return self.net(x.view(1, 1, 4, 4)).view(4, 4)
""",
)  # fmt: skip

PIECES = (
    # Actor and critic on one trunk, or two.
    """
@logits = $model($data)
@value = $model2(«$data|@logits|@logits.detach()»).mean(1)
@dist = torch.distributions.Categorical(«logits=@logits|probs=F.softmax(@logits, 1)|logits=@logits»)
@action = @dist.sample()
@adv = «ref_data.mean(1) - @value|(ref_data.mean(1) - @value).detach()»
@actor_loss = -(@dist.log_prob(@action) * @adv«.detach()|»).mean()«| - 0.01 * @dist.entropy().mean()»
@critic_loss = @adv.pow(2).mean() if @adv.requires_grad else F.mse_loss(@value, ref_data.mean(1))
$opt.zero_grad()
«(@actor_loss + 0.5 * @critic_loss).backward()|@actor_loss.backward(); @critic_loss.backward()|@actor_loss.backward(retain_graph=True); @critic_loss.backward()|@critic_loss.backward(retain_graph=True); $opt.step(); @actor_loss.backward()»
$opt.step()
""",
    # REINFORCE with the log-probabilities of an episode.
    """
@saved, @rewards = [], []
for @t in range(3):
    @m = torch.distributions.«Categorical(logits=$model($data))|Normal($model($data), 1.0)|Normal($model($data), F.softplus($model2($data)) + 0.1)|Bernoulli(logits=$model($data))»
    @a = @m.sample()
    @saved.append(@m.log_prob(@a).mean())
    @rewards.append(«1.0|float(@a.float().mean())|@t»)
@loss = 0
for @lp, @r in zip(@saved, @rewards):
    @loss «+= -@lp * @r|= @loss - @lp * @r»
$opt.zero_grad()
@loss.backward(«||retain_graph=True»)
$opt.step()
«pass|pass|@saved[0].backward()|torch.stack(@saved).sum().backward()»
""",
    # The reparametrisation trick.
    """
@mu, @std = $model($data), F.softplus($model2($data)) + 0.1
@q = torch.distributions.«Normal(@mu, @std)|Laplace(@mu, @std)|LogNormal(@mu, @std)|Gumbel(@mu, @std)»
@z = @q.«rsample()|rsample()|sample()»
@kl = torch.distributions.kl_divergence(torch.distributions.Normal(@mu, @std), torch.distributions.Normal(0.0, 1.0)).mean()
«(@z.pow(2).mean() + @kl).backward()|@z.mean().backward()|@z.mean().backward(retain_graph=True); @kl.backward()|@kl.backward(); @z.mean().backward()»
$opt.step()
""",
    # Optimizers that need a closure.
    """
@lbfgs = torch.optim.LBFGS($model.parameters(), max_iter=«1|2|3»)
«@fixed = $model($data).pow(2).mean()|@fixed = ref_data»
def @closure():
    @lbfgs.zero_grad()
    @value = «$model($data).pow(2).mean()|$model($data).pow(2).mean()|F.mse_loss($model($data), @fixed)|@fixed.mean() + $model($data).abs().mean()»
    @value.backward(«||retain_graph=True»)
    return @value
@lbfgs.step(@closure)
""",
    # Averaged weights.
    """
@ema = torch.optim.swa_utils.AveragedModel($model)
$model($data).mean().backward()
$opt.step()
@ema.update_parameters($model)
@gap = F.mse_loss($model($data), @ema($data)«|.detach()»)
$opt.zero_grad()
@gap.backward()
""",
    # Loss scaling, on a CPU.
    """
@scaler = torch.amp.GradScaler("cpu", enabled=«True|False»)
@loss = $loss
$opt.zero_grad()
@scaler.scale(@loss).backward(«||retain_graph=True»)
«@scaler.unscale_($opt); torch.nn.utils.clip_grad_norm_($model.parameters(), 1.0)|pass»
@scaler.step($opt)
@scaler.update()
«pass|pass|@loss.backward()»
""",
    # A functional forward with weights of one's own.
    """
@params = {name: p«|.detach().clone().requires_grad_()|.clone()|.detach()» for name, p in $model.named_parameters()}
for @s in range(2):
    @loss = torch.func.functional_call($model, @params, ($data,)).pow(2).mean()
    @grads = torch.autograd.grad(@loss, list(@params.values()), create_graph=«True|False|@s == 0», allow_unused=True)
    @params = {name: p - 0.1 * (g if g is not None else 0) for (name, p), g in zip(@params.items(), @grads)}
torch.func.functional_call($model, @params, ($data,)).abs().mean().backward()
$opt.step()
""",
    # Meta-learning on a copy.
    """
@inner = copy.deepcopy($model)
@sgd = torch.optim.SGD(@inner.parameters(), lr=0.1)
for @s in range(2):
    @task = @inner($data).pow(2).mean()
    @sgd.zero_grad()
    @task.backward(«||retain_graph=True|create_graph=True»)
    @sgd.step()
@meta = @inner($data).abs().mean()
$opt.zero_grad()
@meta.backward()
$opt.step()
""",
    # Sharpness-aware minimisation.
    """
$opt.zero_grad()
$model($data).pow(2).mean().backward()
@eps = []
with torch.no_grad():
    for @p in $model.parameters():
        @e = 0.05 * @p.grad if @p.grad is not None else torch.zeros_like(@p)
        @p.add_(@e)
        @eps.append(@e)
$opt.zero_grad()
«$model($data).pow(2).mean().backward()|$model($data).abs().sum().backward()»
with torch.no_grad():
    for @p, @e in zip($model.parameters(), @eps):
        @p.sub_(@e)
$opt.step()
""",
    # A Hessian-vector product.
    """
@theta = [p for p in $model.parameters() if p.requires_grad]
@l = $model($data).pow(3).mean()
@g = torch.autograd.grad(@l, @theta, create_graph=True, allow_unused=True)
@dot = sum((gi * torch.ones_like(gi)).sum() for gi in @g if gi is not None)
@hv = torch.autograd.grad(@dot, @theta, allow_unused=True«|, retain_graph=True»)
«pass|@l.backward()|@hv = torch.autograd.grad(@dot, @theta, allow_unused=True)|$opt.step()»
""",
    # The gradients of a step stay around until after the next one.
    """
@x = $data.clone().requires_grad_()
@out = $model(@x)
@gx = torch.autograd.grad(@out.sum(), @x, create_graph=True)[0]
$opt.zero_grad()
(@out.mean()«|» + @gx.pow(2).mean()).backward(«retain_graph=True|»)
$opt.step()
«pass|pass|@gx.sum().backward()|$model(@x).mean().backward()»
""",
    # An image that is optimised itself.
    """
@image = torch.rand(4, 4, requires_grad=True)
@style = torch.optim.«Adam|SGD»([@image], lr=0.1)
@target = $model($data)«.detach()|.detach()|»
for @s in range(2):
    @loss = F.mse_loss($model(@image), @target)
    @style.zero_grad()
    @loss.backward(«||retain_graph=True»)
    @style.step()
    «@image.data.clamp_(0, 1)|with torch.no_grad(): @image.clamp_(0, 1)|pass|@image.clamp_(0, 1)»
""",
    # A memory bank, a queue.
    """
@bank = torch.zeros(8, 4)
for @s in range(2):
    @keys = $model($data)
    @loss = (@keys @ @bank«|.clone()».t()).logsumexp(1).mean()
    @loss.backward()
    «@bank[:4] = @keys.detach()|@bank = torch.cat([@keys.detach(), @bank[:4]])|@bank[:4] = @keys|with torch.no_grad(): @bank[4:] = @keys|@bank = torch.cat([@keys, @bank[:4]])»
""",
    # Decoding step by step.
    """
@token, @outs = $data, []
@hidden = «$model($data)|torch.zeros(4, 4)»
for @t in range(3):
    @hidden = torch.tanh($model(@token + @hidden))
    @outs.append(@hidden)
    @token = «@hidden|@hidden.detach()|$data|@hidden.argmax(1, keepdim=True).float().expand(4, 4)»
@loss = sum(F.cross_entropy(o, labels) for o in @outs) / len(@outs)
$opt.zero_grad()
@loss.backward(«||retain_graph=True»)
$opt.step()
""",
    # Truncated backpropagation by chunks of a sequence.
    """
@seq = torch.randn(6, 4, 4)
@state = None
for @chunk in @seq.split(2):
    «@state = None if @state is None else @state.detach()|pass|@state = @state.detach() if @state is not None else @state»
    @loss = 0
    for @frame in @chunk:
        @state = torch.tanh($model(@frame) + (0 if @state is None else @state))
        @loss = @loss + @state.pow(2).mean()
    $opt.zero_grad()
    @loss.backward(«||retain_graph=True»)
    $opt.step()
""",
    # Losses of several heads, kept in a dict.
    """
@stats = collections.defaultdict(«float|int|list»)
@parts = {"mse": F.mse_loss($model($data), ref_data), "reg": sum(p.pow(2).sum() for p in $model.parameters())}
@loss = sum(@parts.values())
$opt.zero_grad()
@loss.backward()
$opt.step()
for @name, @part in @parts.items():
    «@stats[@name] = @stats[@name] + @part.item() if not isinstance(@stats[@name], list) else []|@stats[@name] = @part|@stats[@name] = @part.detach()»
«pass|pass|@parts["mse"].backward()|@stats["mse"] = None»
""",
    # A trainer's step in two functions.
    """
def @forward_pass():
    @h = $model($data)
    return @h, @h.pow(2).mean()

def @backward_pass(loss, **options):
    $opt.zero_grad()
    loss.backward(**options)
    $opt.step()

@h, @loss = @forward_pass()
@backward_pass(@loss«|, retain_graph=True|, retain_graph=False»)
«pass|pass|@backward_pass(@loss)|@backward_pass(@forward_pass()[1])|@backward_pass(@h.mean())»
""",
    # The schedule, clipping, groups.
    """
@sched = torch.optim.lr_scheduler.StepLR($opt, 1)
@loss = $loss
$opt.zero_grad(set_to_none=«True|False»)
@loss.backward()
torch.nn.utils.«clip_grad_norm_|clip_grad_value_»($model.parameters(), 0.5)
for @group in $opt.param_groups:
    @group["lr"] *= 0.9
    for @p in @group["params"]:
        if @p.grad is not None:
            «@p.grad.mul_(0.5)|@p.grad += 0.01 * @p.data|@p.grad = @p.grad * 2|pass»
$opt.step()
@sched.step()
""",
    # A loader.
    """
@loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(8, 4), torch.randint(0, 4, (8,))), batch_size=4)
@total = 0
for @xb, @yb in @loader:
    @out = $model(@xb)
    @loss = F.cross_entropy(@out, @yb)
    $opt.zero_grad()
    @loss.backward(«||retain_graph=True»)
    $opt.step()
    @total «+= @loss.item()|+= @loss|= @total + @loss.detach()|+= float(@loss) * len(@xb)»
«pass|pass|@loss.backward()|(@total * 1.0).backward() if isinstance(@total, torch.Tensor) and @total.requires_grad else None»
""",
    # Gradients by hand.
    """
@w = torch.randn(4, 4, requires_grad=True)
for @s in range(3):
    @l = ($data @ @w - ref_data).pow(2).mean()
    @l.backward()
    «with torch.no_grad(): @w -= 0.1 * @w.grad|@w.data -= 0.1 * @w.grad|@w = (@w - 0.1 * @w.grad).detach().requires_grad_()|@w = @w - 0.1 * @w.grad|@w.data = @w.data - 0.1 * @w.grad.data|@w -= 0.1 * @w.grad»
    if @w.grad is None: break
    «@w.grad = None|@w.grad.zero_()|pass»
""",
    # A loop that generates with the model.
    """
with torch.no_grad():
    @gen = [$data]
    for @s in range(2):
        @gen.append($model(@gen[-1]))
@loss = F.mse_loss($model(«@gen[0]|@gen[-1]|$data»), «@gen[1]|ref_data|@gen[-1]»)
$opt.zero_grad()
@loss.backward()
$opt.step()
""",
    # The step of one optimizer between forward and backward of the other.
    """
@f = $model($data)
@a = $model2(@f«.detach()||»).mean()
@b = (@f * «$model2($data)|$model2($data).detach()|ref_data»).mean()
@a.backward(«retain_graph=True|retain_graph=True|»)
«$opt.step()|pass|$opt.step()»
@b.backward()
$opt.step()
""",
    # A graph that is looked at before it is used.
    """
@y = $model($data)
if @y.requires_grad: «@y.retain_grad()|@y.register_hook(lambda g: g.clamp(-1, 1))|pass»
@l = (@y * @y).mean()
if @l.requires_grad:
    @l.backward(«||retain_graph=True»)
    @seen = «None|None|@l.item()»
    «pass|(@y * 2).sum().backward()|@y.mean().backward()»
""",
    # In place on what a layer gave.
    """
@h = $model($data)
«@h.relu_()|@h *= 0.5|@h[0] = 0|@h += $data|F.dropout(@h, 0.1, inplace=True)|@h.clamp_(-1, 1)|@h.sigmoid_()|@h.sub_(@h.mean())|@h.div_(@h.norm())»
«@h.sum().backward()|(@h * @h).sum().backward()|@h.exp().mean().backward()»
""",
    # Penalties on activations that a hook gathers.
    """
@acts = []
@handles = [m.register_forward_hook(lambda m, i, o: @acts.append(o«|.detach()|.pow(2).mean()»)) for m in $model.modules() if isinstance(m, nn.Linear)]
@out = $model($data)
@loss = @out.mean() + sum(a.abs().mean() for a in @acts)
for @handle in @handles:
    @handle.remove()
if @loss.requires_grad:
    @loss.backward(«||retain_graph=True»)
«pass|@acts.clear()|@acts[-1].sum().backward() if @acts and @acts[-1].requires_grad else None»
""",
    # A learned step size.
    """
@rate = torch.tensor(0.1, requires_grad=True)
@p = $par * 1.0
for @s in range(2):
    @l = (@p @ ref_data).pow(2).mean()
    @g, = torch.autograd.grad(@l, @p, create_graph=«True|True|False»)
    @p = @p - @rate * @g
((@p @ ref_data).abs().mean()«|* 1.0» + @rate).backward()
""",
    # Cutting and joining again.
    """
@a = $expr
@b = @a.detach().requires_grad_()
@top = $model(@b).pow(2).mean()
@top.backward()
«@a.backward(@b.grad)|torch.autograd.backward(@a, @b.grad)|(@a * @b.grad).sum().backward()|@top.backward()» if @a.requires_grad else None
""",
    # Early stopping with the best state.
    """
@best, @state = 1e9, None
for @epoch in range(2):
    @l = $model($data).pow(2).mean()
    $opt.zero_grad()
    @l.backward()
    $opt.step()
    if @l.item() < @best:
        @best = «@l.item()|@l|@l.detach()»
        @state = copy.deepcopy($model.state_dict())
«$model.load_state_dict(@state) if @state is not None else None|pass»
«pass|@l.backward()»
""",
    # Mixed precision.
    """
with torch.autocast("cpu", dtype=torch.bfloat16, enabled=«True|False»):
    @o = $model($data)
    @l = @o.float().pow(2).mean()
$opt.zero_grad()
@l.backward(«|retain_graph=True»)
$opt.step()
«pass|pass|@l.backward()»
""",
    # Contrast between two views, momentum encoder.
    """
@key = copy.deepcopy($model)
for @p in @key.parameters():
    @p.requires_grad = False
for @s in range(2):
    @q = F.normalize($model($data), dim=1)
    «with torch.no_grad(): @k = F.normalize(@key($data), dim=1)|@k = F.normalize(@key($data), dim=1)»
    @loss = F.cross_entropy(@q @ @k.t() / 0.5, labels)
    $opt.zero_grad()
    @loss.backward()
    $opt.step()
    with torch.no_grad():
        for @a, @b in zip(@key.parameters(), $model.parameters()):
            @a.data = @a.data * 0.9 + @b.data * 0.1
""",
    # What torch.func gives.
    """
@fn = lambda t: «(t * t).sum()|t.tanh().sum()|$model(t).sum()»
@jg = torch.func.«grad|grad»(@fn)($data)
(@jg «* $model($data)|+ $model($data)|- $model($data)»).pow(2).mean().backward()
""",
    """
@jac = torch.autograd.functional.jacobian(lambda t: $model(t).sum(0), $data, create_graph=«True|False»)
(@jac.pow(2).mean() + $model($data).mean()).backward()
""",
)  # fmt: skip
