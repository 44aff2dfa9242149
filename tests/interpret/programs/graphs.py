"""Minimal programs on which torch and an earlier dry run disagreed; `# raises` marks the line torch raises at."""

PROGRAMS = {
    "subclasses of layers call the forward that they inherit": """
class Norm(nn.GroupNorm):
    def forward(self, x):
        return super().forward(x.float()).type(x.dtype)
class Linear(nn.Linear):
    def forward(self, x):
        return nn.Linear.forward(self, x)
class Tower(nn.Sequential):
    def forward(self, x):
        return super().forward(x) + x
loss = Tower(Linear(4, 4), Norm(2, 4))(torch.randn(3, 4)).sum()
loss.backward()
loss.backward()  # raises
""",
    "a view made before its base changes follows the base": """
w = torch.rand(4, 4, requires_grad=True)
h = w + 0
u = h.view(4, 4)
h *= 0.5
z = u.sum()
z.backward()
z.backward()  # raises
""",
    "a view of data gets the graph its base is given": """
v = torch.rand(4, 4, requires_grad=True)
c = torch.rand(4, 4)
u = c.view(4, 4)
c += v
u.sum().backward()
""",
    "an in-place change through a view made on the spot": """
w = torch.rand(4, 4, requires_grad=True)
h = w + 0
h.t().add_(1)
z = h.sum()
z.backward()
z.backward()  # raises
""",
    "sort saves the indices, not the values": """
w = torch.rand(4, 4, requires_grad=True)
y = w.sort(dim=1)[0]
y += 1
y.sum().backward()
""",
    "double and float make copies": """
w = torch.rand(4, 4, requires_grad=True)
u = w.exp()
y = u.double().float()
z = u ** 2
with torch.no_grad():
    y.mul_(2)
z.sum().backward()
""",
    "an operand that is also the target is saved before it changes": """
w = torch.rand(4, 4, requires_grad=True)
h = w + 0
h *= h
h.sum().backward()  # raises
""",
    "a namespace keeps what is put into it": """
from types import SimpleNamespace
w = torch.ones(4, 4, requires_grad=True)
ns = SimpleNamespace(h=w * 2)
for t in range(3):
    ns.h.mean().backward()  # raises
""",
    "an input outside the graph has no gradient": """
w = torch.randn(4, 4, requires_grad=True)
v = torch.randn(4, 4, requires_grad=True)
loss = (w ** 2).sum()
g, = torch.autograd.grad(loss, v, retain_graph=True, allow_unused=True)
if g is not None:
    g.sum().backward()
loss.backward()
""",
    "the graph of a gradient leads through a saved result": """
w = torch.randn(4, 4, requires_grad=True)
cost = w.tanh().sum()
g = torch.autograd.grad(cost, w, create_graph=True)[0]
torch.autograd.grad(g.pow(2).mean(), w)
cost.backward()  # raises
""",
    "in-place activations between layers": """
net = nn.Sequential(nn.Linear(4, 8), nn.LeakyReLU(0.2, inplace=True), nn.Linear(8, 8), nn.ReLU(inplace=True),
                    nn.Linear(8, 1))
for _ in range(2):
    net(torch.randn(3, 4)).sum().backward()
""",
    "one linear layer on data may be stepped before a second backward": """
net = nn.Linear(4, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
loss = net(torch.randn(3, 4)).pow(2).mean()
loss.backward(retain_graph=True)
optimizer.step()
loss.backward()
""",
    "two layers may not": """
net = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
loss = net(torch.randn(3, 4)).pow(2).mean()
loss.backward(retain_graph=True)
optimizer.step()
loss.backward()  # raises
""",
    "embedding with max_norm changes its weight": """
table = nn.Embedding(8, 4, max_norm=1.0)
proj = nn.Parameter(torch.randn(4, 4))
with torch.no_grad():
    table.weight.mul_(5)
every = table.weight @ proj
(table(torch.tensor([1, 2])) @ every.t()).sum().backward()  # raises
""",
    "a tensor set on a Sequential is no layer": """
net = nn.Sequential(nn.Linear(3, 3), nn.Tanh())
net.kept = torch.zeros(3)
for _ in range(3):
    out = net(torch.randn(2, 3) + net.kept)
    out.sum().backward()
    net.kept = out.detach()[0]
""",
    "a Function's backward that reads what was saved": """
class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x
    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 2 * x * g
w = torch.rand(3, requires_grad=True)
y = Square.apply(w).sum()
y.backward()
y.backward()  # raises
""",
    "a Function that saves and never reads": """
class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x
    @staticmethod
    def backward(ctx, g):
        pass
        return g
w = torch.rand(3, requires_grad=True)
y = Square.apply(w).sum()
y.backward()
y.backward()
""",
    "what a Function keeps on ctx is never freed": """
class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.x = x
        return x * x
    @staticmethod
    def backward(ctx, g):
        x = ctx.x
        return 2 * x * g
w = torch.rand(3, requires_grad=True)
y = Square.apply(w).sum()
y.backward()
y.backward()
""",
    "what a Function saved and somebody changed": """
class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x
    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 2 * x * g
w = torch.rand(3, requires_grad=True)
h = w * 1
y = Square.apply(h).sum()
h += 1
y.backward()  # raises
""",
    "what a Function saved and never reads may change": """
class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x
    @staticmethod
    def backward(ctx, g):
        pass
        return g
w = torch.rand(3, requires_grad=True)
h = w * 1
y = Square.apply(h).sum()
h += 1
y.backward()
""",
    "the graph behind a Function is freed with it": """
class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.scale = 2.0
        return x * x
    @staticmethod
    def backward(ctx, g):
        pass
        return ctx.scale * g
w = torch.rand(3, requires_grad=True)
h = w.exp()
a, b = h.sum(), Square.apply(h).sum()
a.backward()
b.backward()  # raises
""",
    "a Function with setup_context": """
class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(x, by):
        return x * by
    @staticmethod
    def setup_context(ctx, inputs, output):
        x, ctx.by = inputs
        ctx.save_for_backward(x)
    @staticmethod
    def backward(ctx, g):
        ctx.saved_tensors
        return g * ctx.by, None
w = torch.rand(3, requires_grad=True)
y = Scaled.apply(w, 2.0).sum()
y.backward()
y.backward()  # raises
""",
    "a Function that changes its input": """
class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x.mul_(2)
        ctx.mark_dirty(x)
        return x
    @staticmethod
    def backward(ctx, g):
        return g * 2
w = torch.rand(3, requires_grad=True)
h = w.exp()
Doubled.apply(h)
h.sum().backward()  # raises
""",
    "a Function that changes what nobody saved": """
class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x.mul_(2)
        ctx.mark_dirty(x)
        return x
    @staticmethod
    def backward(ctx, g):
        return g * 2
w = torch.rand(3, requires_grad=True)
h = w + 1
Doubled.apply(h)
h.sum().backward()
h.sum().backward()
""",
    "what a generator that is a context manager does to the grad mode": """
import contextlib

@contextlib.contextmanager
def mode(active):
    with torch.set_grad_enabled(active):
        yield

w = torch.ones(3, requires_grad=True)
with mode(True):
    (w * w).sum().backward()
with mode(False):
    y = w * w
(y + 0).sum().backward()  # raises
""",
    "parts of a result by their names": """
w = torch.rand(4, 4, requires_grad=True)
top = (w * 1).topk(2, 1)
top.values.sum().backward()
top.values.sum().backward()  # raises
""",
    "the gradient of a composite leads through its own nodes": """
w = torch.rand(4, 4, requires_grad=True)
y = F.normalize(w, dim=1)
g = torch.autograd.grad(y.sum(), w, create_graph=True)[0]
g.sum().backward()
y.sum().backward()  # raises
""",
    "the graph of a gradient has saved what it needs": """
w = torch.rand(4, 4, requires_grad=True)
a = w + 0
g = torch.autograd.grad(a.sin().sum(), a, create_graph=True)[0]
with torch.no_grad():
    a.mul_(2)
g.sum().backward()  # raises
""",
    "a step between a gradient and its backward": """
net = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
x = torch.randn(3, 4, requires_grad=True)
out = net(x)
(g,) = torch.autograd.grad(out.sum(), x, create_graph=True)
out.mean().backward(retain_graph=True)
optimizer.step()
g.pow(2).sum().backward()  # raises
""",
    "gradients of one call share their graph": """
a = torch.rand(3, requires_grad=True)
b = torch.rand(3, requires_grad=True)
ga, gb = torch.autograd.grad(((a * b).exp() ** 2).sum(), [a, b], create_graph=True)
ga.sum().backward()
gb.sum().backward()  # raises
""",
    "gradients of one call that share nothing": """
a = torch.rand(3, requires_grad=True)
b = torch.rand(3, requires_grad=True)
ga, gb = torch.autograd.grad((a ** 3).sum() + (b ** 3).sum(), [a, b], create_graph=True)
ga.sum().backward()
gb.sum().backward()
""",
    "a gradient stopped by zero_ has no graph": """
w = torch.rand(3, requires_grad=True)
h = w + 0
h.zero_()
(g,) = torch.autograd.grad((h * h).sum(), w, create_graph=True)
g.sum().backward()  # raises
""",
    "einsum with a constant is linear": """
w = torch.rand(4, 4, requires_grad=True)
y = torch.einsum("ij,kj->ik", w, torch.rand(4, 4))
(g,) = torch.autograd.grad(y.sum(), w, create_graph=True)
g.sum().backward()  # raises
""",
    "layers of a decoder are parameters": """
net = nn.TransformerDecoder(nn.TransformerDecoderLayer(4, 1, 4), 1)
y = net(torch.rand(4, 4), torch.rand(4, 4)).pow(2).sum()
y.backward()
y.backward()  # raises
""",
    "a parametrized weight is computed from parameters": """
net = nn.utils.parametrizations.weight_norm(nn.Linear(4, 4))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
y = net(torch.rand(4, 4)).sum()
y.backward(retain_graph=True)
optimizer.step()
y.backward()  # raises
""",
    "a parametrization of one's own": """
class Symmetric(nn.Module):
    def forward(self, w):
        return w.triu() + w.triu(1).t()

net = nn.Linear(4, 4)
nn.utils.parametrize.register_parametrization(net, "weight", Symmetric())
for _ in range(2):
    net(torch.rand(4, 4)).sum().backward()
kept = net.weight.exp().sum()
kept.backward()
kept.backward()  # raises
""",
    "nn.Identity gives back what it got, under no_grad too": """
w = torch.rand(3, requires_grad=True)
with torch.no_grad():
    y = nn.Identity()(w)
y.sum().backward()
""",
    "dropout in place changes nothing in eval": """
drop = nn.Dropout(0.5, inplace=True)
drop.eval()
w = torch.rand(3, requires_grad=True)
a = w.exp()
drop(a)
a.sum().backward()
""",
    "an alias saves what its op saves": """
w = torch.rand(3, requires_grad=True)
b = torch.rand(3)
y = w.multiply(b).sum()
b.mul_(2)
y.backward()  # raises
""",
    "transposing in place is no change of the base": """
w = torch.rand(4, 4, requires_grad=True)
h = w + 0
u = h.view(4, 4)
u.t_()
h.sum().backward()
h.sum().backward()
""",
    "LBFGS with one iteration asks its closure once": """
net = nn.Linear(4, 1)
optimizer = torch.optim.LBFGS(net.parameters(), max_iter=1)
loss = net(torch.rand(3, 4)).pow(2).mean()

def closure():
    loss.backward()
    return loss

optimizer.step(closure)
""",
    "LBFGS with more asks again": """
net = nn.Linear(4, 1)
optimizer = torch.optim.LBFGS(net.parameters(), max_iter=4)
loss = net(torch.rand(3, 4)).pow(2).mean()

def closure():
    loss.backward()  # raises
    return loss

optimizer.step(closure)
""",
    "methods of a distribution share its logits": """
policy = nn.Linear(4, 3)
dist = torch.distributions.Categorical(logits=policy(torch.rand(2, 4)))
dist.log_prob(dist.sample()).sum().backward()
dist.entropy().sum().backward()  # raises
""",
    "methods of a normal distribution share nothing": """
loc, scale = torch.zeros(3, requires_grad=True), torch.ones(3, requires_grad=True)
dist = torch.distributions.Normal(loc, scale)
dist.log_prob(torch.ones(3)).sum().backward()
dist.rsample().sum().backward()
dist.entropy().sum().backward()
""",
    "a fused step moves no version counter": """
net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1, fused=True)
loss = net(torch.rand(3, 4)).sum()
loss.backward(retain_graph=True)
optimizer.step()
loss.backward()
""",
    "each of broadcast_tensors is its own": """
w = torch.rand(4, 4, requires_grad=True)
left, right = torch.broadcast_tensors(w, torch.rand(4))
left.sum().backward()
right.sum().backward()  # raises
""",
    "every parameter of an LSTM gets a gradient": """
net = nn.LSTM(4, 4, batch_first=True)
out, _ = net(torch.rand(2, 3, 4))
grads = torch.autograd.grad(out.sum(), list(net.parameters()))
""",
    "linspace makes a leaf of numbers": """
net = nn.Sequential(nn.Linear(1, 4), nn.Tanh(), nn.Linear(4, 1))
x = torch.linspace(0, 1, 6).view(-1, 1).requires_grad_()
u = net(x)
du = torch.autograd.grad(u, x, torch.ones_like(u), create_graph=True)[0]
d2u = torch.autograd.grad(du, x, torch.ones_like(du), create_graph=True)[0]
(d2u + u).pow(2).mean().backward()
""",
    "a Variable shares the data and not the graph": """
net = nn.Linear(3, 1)
loss = torch.autograd.Variable(net(torch.rand(2, 3)).mean())
loss.backward()  # raises
""",
    "what a Variable is made of needs no grad itself": """
model, images = nn.Linear(3, 2), torch.rand(4, 3)
for step in range(3):
    variable = torch.autograd.Variable(images, requires_grad=True)
    grad = torch.autograd.grad(model(variable).sum(), variable)[0]
    images += grad.sign()
images.sum().backward()  # raises
""",
    "a Variable counts changes with what it is made of": """
images = torch.rand(4, 3)
variable = torch.autograd.Variable(images, requires_grad=True)
loss = variable.pow(2).sum()
images += 1
loss.backward()  # raises
""",
    "a Variable that requires grad later is the only one": """
images = torch.rand(4, 3)
variable = torch.autograd.Variable(images)
variable.requires_grad = True
images.mul_(0.5)
variable.sum().backward()
images.sum().backward()  # raises
""",
    "a number times a length is no tensor": """
net = nn.Linear(4, 4)
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(8, 4)), batch_size=4)
total = 0
for (xb,) in loader:
    total += float(net(xb).sum()) * len(xb)
(total * 1.0).backward() if isinstance(total, torch.Tensor) and total.requires_grad else None
""",
    "an InstanceNorm has no parameters by default": """
block = nn.InstanceNorm1d(4)
block(torch.ones(4, 4).unsqueeze(0)).squeeze(0).var().backward()  # raises
""",
    "a bare module hands on what is stored in it": """
net = nn.Module()
net.mid = nn.Module()
net.mid.blocks = nn.ModuleList([nn.Linear(4, 4)])
assert len(list(net.parameters())) == 2 and len(net.state_dict()) == 2
net.mid.blocks[0](torch.rand(2, 4)).sum().backward()
net.requires_grad_(False)
net.mid.blocks[0](torch.rand(2, 4)).sum().backward()  # raises
""",
    "a bare module registers parameters, and what it is not given is no part of it": """
net = nn.Module()
net.register_parameter("gain", nn.Parameter(torch.ones(4)))
net.register_buffer("shift", torch.ones(4))
net.add_module("head", nn.Linear(4, 1))
body = nn.Linear(4, 4)
for parameter in net.parameters():
    parameter.requires_grad_(False)
net.head(body(torch.rand(2, 4)) * net.gain + net.shift).sum().backward()
net.head(torch.rand(2, 4) * net.gain + net.shift).sum().backward()  # raises
""",
    "a copy of a frozen model is frozen": """
import copy
net = nn.Linear(4, 4)
net.requires_grad_(False)
twin = copy.deepcopy(net)
twin(torch.rand(2, 4)).sum().backward()  # raises
""",
    "functional_call replaces the inner parameters of torch's own layers": """
net = nn.TransformerEncoderLayer(4, 2, 8)
x = torch.rand(3, 2, 4)
outs = []
params = dict(net.named_parameters())
for step in range(2):
    outs.append(torch.func.functional_call(net, params, (x,)))
    loss = sum(outs).pow(2).mean()
    grads = torch.autograd.grad(loss, list(params.values()), create_graph=step == 0)
    params = {name: p - 0.1 * g for (name, p), g in zip(params.items(), grads)}
sum(outs).sum().backward()  # raises
""",
    "a batch of one lies in memory as if the batch stood second": """
net = nn.LSTM(4, 4, batch_first=True)
x = torch.rand(3, 4)
out, _ = net(x.unsqueeze(0))
x.add_(1)
out.sum().backward()  # raises
""",
    "autocast has a copy of the weight saved": """
net = nn.Sequential(nn.Linear(4, 4), nn.SiLU(), nn.Linear(4, 4))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
with torch.autocast("cpu", dtype=torch.bfloat16):
    loss = net(torch.rand(2, 4)).float().pow(2).mean()
loss.backward(retain_graph=True)
optimizer.step()
loss.backward()
""",
    "autocast switched off has the weight saved": """
net = nn.Sequential(nn.Linear(4, 4), nn.SiLU(), nn.Linear(4, 4))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
with torch.autocast("cpu", dtype=torch.bfloat16, enabled=False):
    loss = net(torch.rand(2, 4)).float().pow(2).mean()
loss.backward(retain_graph=True)
optimizer.step()
loss.backward()  # raises
""",
    "an LSTM with a projection has one more weight": """
net = nn.LSTM(4, 4, proj_size=2)
out, _ = net(torch.rand(3, 2, 4))
grads = torch.autograd.grad(out.sum(), list(net.parameters()))
""",
    "probabilities that alone require grad make a loss that does": """
w = torch.rand(4, 4, requires_grad=True)
loss = F.cross_entropy(torch.rand(4, 4), w.softmax(1))
loss.backward()
loss.backward()  # raises
""",
    "pooling to several values saves its input": """
w = torch.rand(1, 4, 4, requires_grad=True)
pooled = F.adaptive_avg_pool1d(w, 2).sum()
pooled.backward()
pooled.backward()  # raises
""",
    "pooling to one value is a mean": """
w = torch.rand(1, 4, 4, requires_grad=True)
pooled = F.adaptive_avg_pool1d(w, 1).sum()
pooled.backward()
pooled.backward()
""",
    "a normalised queue is as much a matrix as what it was made of": """
queue = F.normalize(torch.randn(4, 8), dim=0)
logits = nn.Linear(4, 4)(torch.randn(2, 4)) @ queue
queue[:, :2] = 0
logits.sum().backward()  # raises
""",
    "the first parameter says whether a network is frozen": """
net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1))
for step in range(2):
    net(torch.rand(2, 4)).sum().backward()
    net.requires_grad_(False)
    if not next(net.parameters()).requires_grad:
        break
""",
    "a gradient of what needs none is refused before anything freed is reached": """
net = nn.Linear(4, 4)
total = net(torch.rand(4, 4)).exp().mean()
total.backward()
torch.autograd.grad(total, torch.rand(4, 4))  # raises
""",
    "of several, one that needs no gradient is one too many": """
net = nn.Linear(4, 4)
total = net(torch.rand(4, 4)).exp().mean()
torch.autograd.grad(total, [net.weight, torch.rand(4, 4)], allow_unused=True)  # raises
""",
    "a Jacobian walks what its function saved": """
w = torch.rand(3, 3, requires_grad=True)

def f(x):
    h = torch.tanh(x @ w)
    h.add_(1)
    return h ** 2

torch.autograd.functional.jacobian(f, torch.rand(2, 3))  # raises
""",
    "a vector-Jacobian product walks it too": """
w = torch.rand(3, 3, requires_grad=True)

def f(x):
    h = (x @ w).exp()
    h *= 2
    return h.sum()

torch.autograd.functional.vjp(f, torch.rand(2, 3))  # raises
""",
    "a Jacobian frees nothing that it walks": """
w = torch.rand(3, 3, requires_grad=True)
shared = w.exp()

def f(x):
    return (torch.tanh(x @ shared) ** 2).sum(1)

x = torch.rand(2, 3)
torch.autograd.functional.jacobian(f, x, False, True)
torch.autograd.functional.jacobian(lambda z: z.detach() * 2, x)
torch.autograd.functional.jacobian(lambda a, b: a * 2, (x, x))
torch.autograd.functional.hessian(lambda z: f(z).sum(), x)
shared.sum().backward()
shared.sum().backward()  # raises
""",
}
